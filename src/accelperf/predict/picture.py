"""A picture of predictions: each network's timeline, and for one network its layers with intervals."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from accelperf.pictures import COLOURS, DOTS_PER_INCH
from accelperf.predict.network import NetworkPrediction
from accelperf.predict.text import PARTIAL

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TERMS: tuple[str, ...] = ("compute", "weights", "input", "output")
_OUTSIDE_HATCH = "////"
_MOST_LABELS = 80
"""Layers whose names fit under the bars."""
_LABEL_SHARE = 0.045
"""Share of the total above which a segment of the timeline is wide enough for its layer's name."""
_NAME_CHARACTERS = 24


def picture_png(predictions: Sequence[NetworkPrediction]) -> bytes:
    """Return a picture of one or more networks as a PNG file.

    At the top one timeline a network: a segment for each layer, as wide as it takes, in the colour of the
    term that binds it; of a pipeline the slowest layer alone.
    For a single network the layers' latencies with their 95 % intervals below, hatched where a layer lies
    outside of the training range. Simulated training data is marked SIMULATED in the title.
    """
    from matplotlib.figure import Figure

    single = len(predictions) == 1
    strip = 0.55 * len(predictions) + 0.9
    height = strip + (3.4 if single else 0.0) + 1.1
    figure = Figure(figsize=(11.0, height), dpi=DOTS_PER_INCH, layout="constrained")
    rows = 2 if single else 1
    ratios = [strip, 3.4] if single else [1.0]
    grid: Any = figure.subplots(rows, 1, squeeze=False, gridspec_kw={"height_ratios": ratios})
    colours = _colours(predictions)
    _draw_timelines(grid[0][0], predictions, colours)
    if single:
        _draw_layers(grid[1][0], predictions[0], colours)
    figure.legend(handles=_legend(predictions, colours), loc="outside lower center", ncols=7, fontsize=8)
    figure.suptitle(_title(predictions), fontsize=11)
    stream = io.BytesIO()
    # Without the date and version of the default metadata, equal predictions give equal files.
    figure.savefig(stream, format="png", metadata={"Software": None})
    return stream.getvalue()


def _colours(predictions: Sequence[NetworkPrediction]) -> dict[str, str]:
    found = {str(name) for prediction in predictions for name in prediction.layers["binding"]}
    names = [*_TERMS, *sorted(found - set(_TERMS))]
    return {name: COLOURS[place % len(COLOURS)] for place, name in enumerate(names) if name in found}


def _draw_timelines(ax: Axes, predictions: Sequence[NetworkPrediction], colours: dict[str, str]) -> None:
    for row, prediction in enumerate(predictions):
        latency = np.maximum(prediction.layers["latency_ms"].to_numpy(dtype=np.float64), 0.0)
        pipeline = prediction.total.schedule == "pipeline"
        starts = np.zeros(len(latency)) if pipeline else np.concatenate([[0.0], np.cumsum(latency)[:-1]])
        for place in [int(np.argmax(latency))] if pipeline else range(len(latency)):
            ax.barh(
                row,
                latency[place],
                left=starts[place],
                height=0.62,
                color=colours[str(prediction.layers["binding"].iloc[place])],
                edgecolor="white",
                linewidth=0.5,
                hatch=_OUTSIDE_HATCH if prediction.outside[place] else None,
            )
            wide = latency[place] > _LABEL_SHARE * latency.sum()
            if pipeline or (wide and len(predictions) == 1):
                name = _short(prediction.layers["layer"].iloc[place])
                middle = starts[place] + latency[place] / 2
                ax.text(middle, row - 0.34, name, fontsize=6, va="bottom", rotation=0 if pipeline else 35)
        total = prediction.total
        if total.lower_ms is not None and total.upper_ms is not None:
            errors = np.array([[total.median_ms - total.lower_ms], [total.upper_ms - total.median_ms]])
            ax.errorbar(
                total.median_ms, row, xerr=np.maximum(errors, 0), color="black", capsize=4, lw=1.2, zorder=3
            )
    ax.set_yticks(
        range(len(predictions)),
        [f"{each.network}\non {each.platform}" for each in predictions],
        fontsize=8,
    )
    ax.set_ylim(len(predictions) - 0.4, -0.9)
    ax.set_xlim(left=0)
    pipeline = any(each.total.schedule == "pipeline" for each in predictions)
    ax.set_xlabel(
        "time of the slowest layer, which paces the pipeline [ms]"
        if pipeline
        else "time from the start of the image, layer after layer [ms]",
        fontsize=8,
    )
    ax.tick_params(labelsize=7)
    for side in ("top", "right", "left"):
        ax.spines[side].set_visible(False)


def _draw_layers(ax: Axes, prediction: NetworkPrediction, colours: dict[str, str]) -> None:
    layers = prediction.layers
    latency = layers["latency_ms"].to_numpy(dtype=np.float64)
    places = np.arange(len(latency))
    bars = ax.bar(places, latency, width=0.8, color=[colours[name] for name in layers["binding"]])
    for bar, outside in zip(bars, prediction.outside, strict=True):
        if outside:
            bar.set(hatch=_OUTSIDE_HATCH, edgecolor="white")
    if prediction.has_interval:
        bounds = layers[["lower_ms", "upper_ms"]].to_numpy(dtype=np.float64).T
        ax.errorbar(
            places, latency, yerr=np.maximum(np.abs(bounds - latency), 0), fmt="none", ecolor="black", lw=0.8,
            capsize=1.5,
        )  # fmt: skip
    if len(places) <= _MOST_LABELS:
        names = [_short(name) for name in layers["layer"]]
        ax.set_xticks(places, names, rotation=90, fontsize=max(4.0, 8.0 - len(places) / 20))
    else:
        ax.set_xlabel("layer along the network", fontsize=8)
    ax.set_xlim(-0.7, len(places) - 0.3)
    ax.set_ylabel("predicted latency [ms]", fontsize=8)
    ax.tick_params(axis="y", labelsize=7)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)


def _short(name: object) -> str:
    text = str(name)
    return text if len(text) <= _NAME_CHARACTERS else "…" + text[1 - _NAME_CHARACTERS :]


def _legend(predictions: Sequence[NetworkPrediction], colours: dict[str, str]) -> list[Any]:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = [Patch(color=colour, label=f"bound by {name}") for name, colour in colours.items()]
    if any(any(each.outside) for each in predictions):
        handles.append(
            Patch(facecolor="0.6", edgecolor="white", hatch=_OUTSIDE_HATCH, label="outside training")
        )
    if any(each.has_interval for each in predictions):
        handles.append(Line2D([], [], color="black", marker="|", lw=1.2, label="95 % interval"))
    return handles


def _title(predictions: Sequence[NetworkPrediction]) -> str:
    first = predictions[0]
    if len(predictions) > 1:
        text = f"{len(predictions)} networks by {first.model.estimator}"
    else:
        total = first.total
        text = f"{first.network} on {first.platform} by {first.model.estimator}: {total.median_ms:.4g} ms"
        if total.frames_per_second is not None:
            text += f", {total.frames_per_second:.4g} frames/s"
    if any(each.partial for each in predictions):
        text += f" — {PARTIAL}, unsupported layers left out"
    if any(each.model.simulated for each in predictions):
        text += " — trained on SIMULATED data"
    return text
