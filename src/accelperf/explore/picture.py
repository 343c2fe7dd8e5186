"""The picture of an exploration: latency against a resource, the front, and what is not sure."""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from accelperf.errors import InputError
from accelperf.explore.exploration import Exploration, learned_from
from accelperf.explore.text import estimator_text
from accelperf.pictures import COLOURS, DOTS_PER_INCH

LABELS: dict[str, str] = {"dsp": "DSP slices", "bram_bits": "bits of buffers"}
LOG_FROM = 3.0
"""Values that span a larger factor get a logarithmic axis."""
MIDDLE = 0.6
"""Share of the axis from which on names stand left of their points."""
MOST_NAMED = 12
"""A front with more designs has names for some of them only."""


def draw(found: Exploration) -> bytes:
    """Return the picture as PNG: equal explorations give equal bytes.

    Every design that meets the constraints is a point, open where it is outside of the training data's
    range; the front is a line, its designs have 95 % intervals, and bounds are dashed lines.

    Parameters
    ----------
    found : Exploration
        What was found.
    """
    from matplotlib.figure import Figure

    table = found.table
    figure = Figure(figsize=(7.5, 5.2), dpi=DOTS_PER_INCH, layout="constrained")
    ax: Any = figure.subplots()
    outside = (table["outside"] != "").to_numpy()
    on_front = (table["front"] == 1).to_numpy()
    trained = learned_from(found.model) is not None
    for mask, colour, name in ((~on_front, COLOURS[6], "design"), (on_front, COLOURS[0], "on the front")):
        for beyond, words in ((False, ", inside the training range" if trained else ""), (True, ", outside")):
            part = table[mask & (outside == beyond)]
            if not len(part):
                continue
            face = "none" if beyond else colour
            label = f"{name}{words} ({len(part)})"
            style = {"facecolors": face, "edgecolors": colour, "label": label, "zorder": 3}
            ax.scatter(part[found.resource], part["latency_ms"], s=26 if name != "design" else 14, **style)
    front = table[on_front].sort_values([found.resource, "latency_ms"])
    ax.step(front[found.resource], front["latency_ms"], where="post", color=COLOURS[0], lw=1.0, zorder=2)
    if found.has_uncertainty:
        sides = [front["latency_ms"] - front["lower_ms"], front["upper_ms"] - front["latency_ms"]]
        bars = {"fmt": "none", "ecolor": COLOURS[0], "elinewidth": 0.9, "capsize": 2.5}
        ax.errorbar(front[found.resource], front["latency_ms"], yerr=sides, label="95 % interval", **bars)
    if found.constraints.max_latency_ms is not None:
        ax.axhline(found.constraints.max_latency_ms, color=COLOURS[4], lw=1.0, ls="--", label="latency bound")
    limit = {"dsp": found.constraints.max_dsp, "bram_bits": found.constraints.max_bram_bits}[found.resource]
    if limit is not None:
        ax.axvline(limit, color=COLOURS[3], lw=1.0, ls="--", label=f"most {LABELS[found.resource]}")
    _scale(ax.xaxis, ax.set_xscale, table[found.resource])
    _scale(ax.yaxis, ax.set_yscale, table["latency_ms"])
    _name(ax, found, front)
    ax.set_xlabel(LABELS[found.resource])
    ax.set_ylabel(f"predicted latency of {' + '.join(found.workload.networks)} [ms]")
    ax.legend(fontsize=7)
    figure.suptitle(f"{found.designs.base.name}, estimator {estimator_text(found)}", fontsize=10)
    stream = io.BytesIO()
    # Without the date and version of the default metadata, equal data give equal files.
    figure.savefig(stream, format="png", metadata={"Software": None}, pil_kwargs={"optimize": True})
    return stream.getvalue()


def _scale(axis: Any, set_scale: Callable[[str], None], values: pd.Series[Any]) -> None:
    """Give an axis a logarithmic scale where values span a larger factor, and plain numbers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    if values.max() < LOG_FROM * values.min():
        return
    set_scale("log")
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def _name(ax: Any, found: Exploration, front: pd.DataFrame) -> None:
    """Write names beside some designs of the front; of equal ones beside the best."""
    points = front.sort_values("rank").drop_duplicates([found.resource, "latency_ms"])
    places = np.linspace(0, len(points) - 1, min(MOST_NAMED, len(points))).round().astype(int)
    base = found.designs.base.name + "+"
    for place in np.unique(places):
        row = points.iloc[place]
        where = (row[found.resource], row["latency_ms"])
        x = ax.transAxes.inverted().transform(ax.transData.transform(where))[0]
        # Names stay within the axes.
        side = {"ha": "left", "xytext": (5, 5)} if x < MIDDLE else {"ha": "right", "xytext": (-5, -9)}
        name = str(row["design"]).removeprefix(base)
        ax.annotate(name, where, textcoords="offset points", fontsize=6, color="0.25", **side)


def write_picture(found: Exploration, path: Path) -> None:
    """Draw the picture into a file, by way of a temporary one so that an interruption leaves the old.

    Raises
    ------
    InputError
        If the file cannot be written.
    """
    content = draw(found)
    temporary = path.with_name(path.name + ".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(content)
        temporary.replace(path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        raise InputError("a file that can be written", error.strerror or str(error), file=path) from None
