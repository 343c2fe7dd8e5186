"""Pictures of predictions and of sweeps, as PNG files.

Those of predictions take the table of ``predictions.csv``; with a column ``estimator`` beside it they
compare estimators. Simulated data is marked SIMULATED in the picture itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS: tuple[str, ...] = (
    "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#7F7F7F", "#B8A800", "#000000",
    "#6B2D1A",
)  # fmt: skip
"""Colours told apart with all common forms of colour blindness (Okabe & Ito, 2008)."""
DOTS_PER_INCH = 110
TEN_PERCENT = 0.10
LEGEND_INCHES = 1.5
"""Width of an entry of a legend, an estimator's name."""

USUAL_AXES: tuple[str, ...] = ("kernel", "learning_rate")
"""Axes of a heat map where both vary, as in the paper's search."""
MOST_VALUES = 60
"""An axis of a heat map with more values could not be read."""
MOST_PANELS = 4
LOG_FROM = 10.0
"""Errors that span a larger factor get a logarithmic scale of colours."""
DARK_FROM = 0.55
"""Where on that scale numbers become white."""


def predicted_against_measured(predictions: pd.DataFrame, path: Path, *, title: str, simulated: bool) -> None:
    """Draw predicted against measured latency on log axes, one panel an estimator.

    Parameters
    ----------
    predictions : DataFrame
        Columns accelerator, latency_ms and predicted_ms, optionally estimator.
    path : Path
        PNG file to write.
    title : str
        Title of the picture.
    simulated : bool
        Whether any latency was simulated.
    """
    panels = _by_estimator(predictions)
    columns = min(3, len(panels))
    figure, axes = _figure(len(panels), columns, width=4.0, height=3.8, share=True)
    accelerators = sorted(set(predictions["accelerator"]))
    positive = predictions["predicted_ms"] > 0
    low = 0.7 * float(min(predictions["latency_ms"].min(), predictions["predicted_ms"].where(positive).min()))
    high = 1.4 * float(max(predictions["latency_ms"].max(), predictions["predicted_ms"].max()))
    for ax, (name, rows) in zip(axes, panels, strict=True):
        line = np.array([low, high])
        ax.fill_between(
            line, line * (1 - TEN_PERCENT), line * (1 + TEN_PERCENT), color="0.88", label="within 10 %"
        )
        ax.plot(line, line, color="0.45", lw=0.8)
        for colour, accelerator in zip(_colours(len(accelerators)), accelerators, strict=True):
            part = rows[rows["accelerator"] == accelerator]
            # A log axis has no place for a latency of zero or less: such rows sit on its edge.
            predicted = part["predicted_ms"].where(part["predicted_ms"] > 0, low)
            ax.scatter(part["latency_ms"], predicted, s=11, alpha=0.7, color=colour, label=accelerator)
        error = rows["predicted_ms"] - rows["latency_ms"]
        negative = int((rows["predicted_ms"] <= 0).sum())
        note = (
            f"MAE {error.abs().mean():.3g} ms\nMAPE {100 * (error.abs() / rows['latency_ms']).mean():.1f} %"
        )
        if negative:
            note += f"\n{negative} predicted ≤ 0 (on the edge)"
        ax.text(0.04, 0.96, note, transform=ax.transAxes, va="top", fontsize=8)
        ax.set(xscale="log", yscale="log", xlim=(low, high), ylim=(low, high))
        ax.set_xlabel("measured latency [ms]" if not simulated else "SIMULATED latency [ms]")
        ax.set_ylabel("predicted latency [ms]")
        if name:
            ax.set_title(name, fontsize=10)
    axes[0].legend(fontsize=7, loc="lower right", framealpha=0.9)
    _save(figure, path, title, simulated)


def error_along_network(predictions: pd.DataFrame, path: Path, *, title: str, simulated: bool) -> None:
    """Draw predicted / measured latency of each layer along its network.

    One panel a network on an accelerator; with several estimators one line each. Ratios beyond a
    tenth and ten are drawn on the edge.

    Parameters
    ----------
    predictions : DataFrame
        Columns accelerator, network, position, latency_ms and predicted_ms, optionally estimator.
    path : Path
        PNG file to write.
    title : str
        Title of the picture.
    simulated : bool
        Whether any latency was simulated.
    """
    panels = list(predictions.groupby(["network", "accelerator"], sort=True))
    columns = min(2 if len(panels) <= 8 else 3, len(panels))
    figure, axes = _figure(len(panels), columns, width=6.2 if columns == 2 else 5.0, height=2.3, share=False)
    estimators = [name for name, _ in _by_estimator(predictions)]
    ratio = predictions["predicted_ms"] / predictions["latency_ms"]
    low, high = max(0.1, 0.9 * float(ratio.min())), min(10.0, 1.1 * float(ratio.max()))
    low, high = min(low, 0.8), max(high, 1.25)
    for ax, ((network, accelerator), rows) in zip(axes, panels, strict=True):
        ax.axhspan(1 - TEN_PERCENT, 1 + TEN_PERCENT, color="0.9", label="within 10 %")
        ax.axhline(1, color="0.45", lw=0.8)
        for colour, name in zip(_colours(len(estimators)), estimators, strict=True):
            part = rows if not name else rows[rows["estimator"] == name]
            part = part.sort_values("position")
            quotient = (part["predicted_ms"] / part["latency_ms"]).clip(low, high)
            ax.plot(
                np.arange(1, len(part) + 1), quotient, ".-", ms=4, lw=0.8, color=colour, label=name or None
            )
        ax.set(yscale="log", ylim=(low, high))
        ticks = [tick for tick in (0.1, 0.2, 0.5, 0.8, 1, 1.25, 2, 5, 10) if low <= tick <= high]
        ax.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
        ax.minorticks_off()
        ax.set_title(f"{network} on {accelerator}", fontsize=9)
        ax.set_xlabel("convolution along the network", fontsize=8)
        ax.set_ylabel("predicted / " + ("SIMULATED" if simulated else "measured"), fontsize=8)
        ax.tick_params(labelsize=7)
    if (ratio < low).any() or (ratio > high).any():
        note = f"beyond {low:g} and {high:g}: on the edge"
        axes[0].annotate(note, (0.01, 0.03), xycoords="axes fraction", fontsize=7)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(6, len(labels)), fontsize=8)
    _save(figure, path, title, simulated)


def reliability_diagram(reliability: pd.DataFrame, path: Path, *, title: str, simulated: bool) -> None:
    """Draw how many layers lie inside of intervals that promise a share, one panel a scheme.

    Parameters
    ----------
    reliability : DataFrame
        Columns estimator, scheme, nominal, coverage and mean_relative_width (fractions), as
        `accelperf.evaluation.reliability.reliability` gives them; without rows the picture says so.
    path : Path
        PNG file to write.
    title : str
        Title of the picture.
    simulated : bool
        Whether any latency was simulated.
    """
    panels = list(reliability.groupby("scheme", sort=False))
    figure, axes = _figure(
        max(1, len(panels)), min(2, max(1, len(panels))), width=5.2, height=4.2, share=False
    )
    if not panels:
        axes[0].text(0.5, 0.5, "no estimator with intervals", ha="center", va="center")
        axes[0].set_axis_off()
    estimators = list(dict.fromkeys(reliability["estimator"]))
    for ax, (scheme, rows) in zip(axes, panels, strict=False):
        ax.plot([0, 1], [0, 1], color="0.45", lw=0.8)
        ax.text(0.06, 0.11, "as promised", rotation=38, fontsize=7, color="0.35")
        ax.text(0.97, 0.04, "below: too sure of itself", fontsize=7, color="0.35", ha="right")
        ax.text(0.03, 0.95, "above: wider than needed", fontsize=7, color="0.35", va="top")
        for colour, name in zip(_colours(len(estimators)), estimators, strict=True):
            part = rows[rows["estimator"] == name].sort_values("nominal")
            if part.empty:
                continue
            width = float(part["mean_relative_width"].iloc[-1])
            label = f"{name} ({100 * part['nominal'].iloc[-1]:g} %: {_width(width)} wide)"
            ax.plot(part["nominal"], part["coverage"], "o-", ms=4, lw=1.0, color=colour, label=label)
        ax.set(xlim=(0, 1.02), ylim=(0, 1.02))
        ax.set_xlabel("promised share of layers", fontsize=8)
        ax.set_ylabel("share found inside", fontsize=8)
        ax.tick_params(labelsize=7)
        ax.set_title(str(scheme), fontsize=9)
        ax.legend(fontsize=7, loc="center left", framealpha=0.9)
    _save(figure, path, title, simulated)


def _width(relative: float) -> str:
    return f"{100 * relative:.3g} %" if relative < 10 else f"{relative:.0f} times the latency"


def network_totals(totals: pd.DataFrame, path: Path, *, title: str, simulated: bool) -> None:
    """Draw predicted over measured total latency of each network, one panel a scheme.

    Parameters
    ----------
    totals : DataFrame
        Columns estimator, scheme, accelerator, network and relative_error, as
        `accelperf.evaluation.breakdown.network_totals` gives them. Errors beyond a factor of 2 are
        drawn on the edge.
    path : Path
        PNG file to write.
    title : str
        Title of the picture.
    simulated : bool
        Whether any latency was simulated.
    """
    panels = list(totals.groupby("scheme", sort=False))
    estimators = list(dict.fromkeys(totals["estimator"]))
    keys = ["network", "accelerator"]
    places = [tuple(row) for row in totals[keys].drop_duplicates().sort_values(keys).to_numpy(dtype=str)]
    names = ["\n".join(place) for place in places]
    low, high = 0.5, 2.0
    width = max(6.0, 1.2 + 0.62 * len(places))
    figure, axes = _figure(len(panels), 1, width=width, height=3.0, share=True)
    for ax, (scheme, rows) in zip(axes, panels, strict=True):
        ax.axhspan(1 - TEN_PERCENT, 1 + TEN_PERCENT, color="0.9", label="within 10 %")
        ax.axhline(1, color="0.45", lw=0.8)
        for index, (colour, name) in enumerate(zip(_colours(len(estimators)), estimators, strict=True)):
            error = rows[rows["estimator"] == name].set_index(keys)["relative_error"]
            shift = 0.7 * ((index + 0.5) / len(estimators) - 0.5)
            ratio = [float(np.clip(1 + error[place], low, high)) for place in places]
            ax.plot(np.arange(len(places)) + shift, ratio, "o", ms=4.5, color=colour, label=name)
        ax.set(yscale="log", ylim=(0.97 * low, 1.03 * high))
        ticks = [0.5, 0.7, 0.9, 1, 1.1, 1.4, 2]
        ax.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
        ax.minorticks_off()
        ax.set_xticks(np.arange(len(places)), names, fontsize=7)
        ax.tick_params(labelsize=7, labelbottom=True)
        ax.set_title(str(scheme), fontsize=9)
        ax.set_ylabel("predicted / " + ("SIMULATED" if simulated else "measured"), fontsize=8)
    axes[0].annotate("beyond a factor of 2: on the edge", (0.01, 0.03), xycoords="axes fraction", fontsize=7)
    handles, labels = axes[0].get_legend_handles_labels()
    columns = min(len(labels), int(width / LEGEND_INCHES))
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, fontsize=8)
    _save(figure, path, title, simulated)


def heat_map_axes(trials: pd.DataFrame, names: Sequence[str]) -> list[str]:
    """Return the hyperparameters that a heat map shows: rows, columns, panels; fewer if fewer vary.

    Parameters
    ----------
    trials : DataFrame
        Content of ``trials.csv``.
    names : sequence of str
        Its columns that are hyperparameters.

    Returns
    -------
    list of str
        Kernel and learning rate if both vary, else the two with the most values, the one with more
        of them first; then, for panels, the next one if it has few values. Empty if none varies or
        none can be shown.
    """
    counts = {name: trials[name].nunique() for name in names}
    varying = [name for name in names if 1 < counts[name] <= MOST_VALUES]
    varying.sort(key=lambda name: -counts[name])
    if set(USUAL_AXES) <= set(varying):
        varying = [*USUAL_AXES, *(name for name in varying if name not in USUAL_AXES)]
    panels = [name for name in varying[2:] if counts[name] <= MOST_PANELS]
    return varying[:2] + panels[:1]


def heat_map(trials: pd.DataFrame, names: Sequence[str], path: Path, *, title: str, simulated: bool) -> None:
    """Draw the error of a sweep's points over two of its axes, the best point framed.

    Where further axes vary, a cell shows the best of their points. A cell whose points all failed
    is hatched.

    Parameters
    ----------
    trials : DataFrame
        Content of ``trials.csv`` (`accelperf.trials.trials_table`): hyperparameters, mae_ms, status.
    names : sequence of str
        What `heat_map_axes` returned, at least one.
    path : Path
        PNG file to write.
    title : str
        Title of the picture.
    simulated : bool
        Whether any latency was simulated.
    """
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LogNorm, Normalize
    from matplotlib.figure import Figure

    panels: list[tuple[str, pd.DataFrame]] = [("", trials)]
    if len(names) > 2:
        panels = [
            (f"{names[2]} = {value}", trials[trials[names[2]] == value])
            for value in _in_order(trials[names[2]])
        ]
    rows = _in_order(trials[names[0]])
    columns = [_in_order(part[names[1]]) if len(names) > 1 else [""] for _, part in panels]
    errors = trials["mae_ms"].dropna()
    low, high = float(errors.min()), float(errors.max())
    norm = (LogNorm if 0 < low * LOG_FROM < high else Normalize)(low, high)
    widths = [max(2, len(values)) for values in columns]
    size = (3.0 + 0.62 * sum(widths) + 0.4 * len(panels), 1.9 + 0.27 * len(rows))
    figure = Figure(figsize=size, dpi=DOTS_PER_INCH, layout="constrained")
    axes: Any = figure.subplots(
        1, len(panels), squeeze=False, sharey=True, gridspec_kw={"width_ratios": widths}
    )[0]
    for ax, (name, part), values in zip(axes, panels, columns, strict=True):
        cells = np.full((len(rows), len(values)), np.nan)
        for i, row in enumerate(rows):
            for j, value in enumerate(values):
                points = part[part[names[0]] == row]
                if len(names) > 1:
                    points = points[points[names[1]] == value]
                cells[i, j] = points["mae_ms"].min()
                if len(points) and np.isnan(cells[i, j]):
                    x, y = [j - 0.5, j + 0.5], (i - 0.5, i + 0.5)
                    ax.fill_between(x, *y, facecolor="0.9", edgecolor="0.5", hatch="///", lw=0)
        ax.imshow(cells, cmap="viridis_r", norm=norm, aspect="auto", interpolation="nearest")
        for i, j in np.argwhere(~np.isnan(cells)):
            colour = "w" if norm(cells[i, j]) > DARK_FROM else "k"
            ax.text(j, i, f"{cells[i, j]:.3g}", ha="center", va="center", fontsize=6, color=colour)
            if cells[i, j] == low:
                x = j + np.array([-0.5, 0.5, 0.5, -0.5, -0.5])
                y = i + np.array([-0.5, -0.5, 0.5, 0.5, -0.5])
                ax.plot(x, y, color=COLOURS[4], lw=2, clip_on=False)
        if len(names) > 1:
            ax.set_xticks(np.arange(len(values)), [_text(value) for value in values], rotation=45, fontsize=7)
        else:
            ax.set_xticks([])
        ax.set_yticks(np.arange(len(rows)), [_text(value) for value in rows], fontsize=7)
        ax.set_xlabel(names[1] if len(names) > 1 else "", fontsize=8)
        ax.set_title(name, fontsize=9)
    axes[0].set_ylabel(names[0], fontsize=8)
    bar = figure.colorbar(ScalarMappable(norm, "viridis_r"), ax=axes)
    bar.set_label("MAE [ms], SIMULATED" if simulated else "MAE [ms]", fontsize=8)
    bar.ax.tick_params(which="both", labelsize=7)
    _save(figure, path, title, simulated)


def _in_order(values: pd.Series[Any]) -> list[Any]:
    """Return the different values: numbers from the least up, then texts by the alphabet."""
    found = list(values.dropna().unique())
    return sorted(found, key=lambda value: (isinstance(value, str), value))


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _by_estimator(predictions: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """Return (name, rows) in order of appearance; one unnamed entry without the column."""
    if "estimator" not in predictions:
        return [("", predictions)]
    return [(str(name), rows) for name, rows in predictions.groupby("estimator", sort=False)]


def _colours(count: int) -> list[str]:
    return [COLOURS[index % len(COLOURS)] for index in range(count)]


def _figure(
    panels: int, columns: int, *, width: float, height: float, share: bool
) -> tuple[Figure, list[Axes]]:
    """Return a figure and as many axes as panels, filled row by row."""
    from matplotlib.figure import Figure

    rows = math.ceil(panels / columns)
    figure = Figure(figsize=(width * columns, height * rows + 0.7), dpi=DOTS_PER_INCH, layout="constrained")
    grid: Any = figure.subplots(rows, columns, squeeze=False, sharex=share, sharey=share)
    axes = list(grid.ravel())
    for unused in axes[panels:]:
        unused.set_visible(False)
    return figure, axes[:panels]


def _save(figure: Figure, path: Path, title: str, simulated: bool) -> None:
    figure.suptitle(f"{title} — SIMULATED data" if simulated else title, fontsize=11)
    path.parent.mkdir(parents=True, exist_ok=True)
    # Without the date and version of the default metadata, equal data give equal files.
    figure.savefig(path, format="png", metadata={"Software": None})
