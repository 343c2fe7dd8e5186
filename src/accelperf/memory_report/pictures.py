"""Pictures of a memory, as PNG files in the form of the Shuhai paper's Figures 4-8.

Each is drawn from what was measured and left out where nothing was. Simulated data is marked SIMULATED
in the title of its panel, and open markers stand for what nothing published confirms.
"""

from __future__ import annotations

import io
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from accelperf.memory.analysis import (
    CHANNELS_PER_GROUP,
    GROUPS_PER_STACK,
    AxiDistance,
    MemoryAnalysis,
    Trace,
)
from accelperf.memory.latency_trace import PAGE_STATES, REFRESH_SLOW_CYCLES, cycles_to_ns
from accelperf.memory.throughput import Throughput, by_engine, series
from accelperf.memory_report.wording import SIMULATED, bytes_text, origin_text
from accelperf.pictures import COLOURS, DOTS_PER_INCH

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANEL_WIDTH = 5.0
PANEL_HEIGHT = 3.2
ACCESSES_SHOWN = 300
"""Accesses of a trace that are drawn: a few refreshes, each access still to be seen."""
STATE_ACCESSES_SHOWN = 100
STATE_COLOURS: Mapping[str, str] = {
    "hit": COLOURS[0],
    "closed": COLOURS[1],
    "miss": COLOURS[4],
    "refresh": COLOURS[8],
    "unknown": COLOURS[6],
}
STATE_MARKERS: Mapping[str, str] = {"hit": "o", "closed": "s", "miss": "D", "refresh": "^", "unknown": "x"}
STATE_NAMES: Mapping[str, str] = {
    "hit": "page hit",
    "closed": "closed bank",
    "miss": "page miss",
    "refresh": "met a refresh",
    "unknown": "state unknown",
}
MARKERS = "osD^vP*X"


def draw(analysis: MemoryAnalysis) -> dict[str, bytes]:
    """Return the pictures that the logs give, as PNG by file name.

    Parameters
    ----------
    analysis : MemoryAnalysis
        What the logs say.

    Returns
    -------
    dict of str to bytes
        Equal results give equal bytes.
    """
    drawn = {}
    for name, make in PICTURES.items():
        figure = make(analysis)
        if figure is not None:
            stream = io.BytesIO()
            # Without the date and version of the default metadata, equal data give equal files.
            figure.savefig(stream, format="png", metadata={"Software": None}, pil_kwargs={"optimize": True})
            drawn[name] = stream.getvalue()
    return drawn


def refresh_picture(analysis: MemoryAnalysis) -> Figure | None:
    """Draw the serial accesses of the longest trace of each memory, refreshes marked (Figure 4)."""
    traces = [
        max(its, key=lambda trace: len(trace.refresh.positions))
        for its in _by_profile(analysis.traces).values()
        if any(trace.refresh.positions for trace in its)
    ]
    if not traces:
        return None
    figure, axes = _figure(len(traces), columns=1, width=7.5, height=2.6)
    for ax, trace in zip(axes, traces, strict=True):
        shown = trace.cycles[:ACCESSES_SHOWN]
        positions = [position for position in trace.refresh.positions if position < len(shown)]
        ax.plot(np.arange(len(shown)), shown, ".-", ms=3, lw=0.6, color=COLOURS[0], label="access")
        ax.plot(positions, shown[positions], "^", ms=7, color=COLOURS[4], label=STATE_NAMES["refresh"])
        ax.axhline(REFRESH_SLOW_CYCLES, color="0.5", lw=0.8, ls="--", label=f"{REFRESH_SLOW_CYCLES} cycles")
        ax.set_ylim(0, 1.15 * float(shown.max()))
        ax.set_xlim(-3, len(shown) + 2)
        refresh, interval = trace.refresh, trace.refresh_interval_us
        note = f"{len(refresh.positions)} in {len(trace.cycles)} accesses"
        if refresh.spacing_accesses is not None:
            note += f", one every {refresh.spacing_accesses:g} accesses"
        if interval is not None:
            note += f" = {interval:.2f} µs"
        if refresh.regular is False:
            note += " on average, irregular"
        if refresh.time_share is not None:
            note += f", {100 * refresh.time_share:.1f} % of the time waited"
        _label(ax, "access", "latency [cycles]")
        _title(ax, f"{_trace_title(trace)}\n{note}")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=9)
    return figure


def page_states_picture(analysis: MemoryAnalysis) -> Figure | None:
    """Draw accesses by the state that their bank was in, one panel a stride (Figure 5)."""
    from matplotlib.ticker import MaxNLocator

    rows = [_of_different_strides(its) for its in _by_profile(analysis.traces).values()]
    if not rows:
        return None
    traces = [trace for row in rows for trace in row]
    figure, axes = _figure(len(traces), columns=min(2, len(traces)), width=PANEL_WIDTH, height=2.7)
    seen: dict[str, Any] = {}
    for ax, trace in zip(axes, traces, strict=True):
        shown = trace.cycles[:STATE_ACCESSES_SHOWN]
        states = trace.state_of_accesses()[:STATE_ACCESSES_SHOWN]
        low = min((level.low for level in trace.levels), default=int(shown.min()))
        high = max((level.high for level in trace.levels), default=int(shown.max()))
        bottom, top = low - 4, high + max(10, (high - low) // 2)
        for state in STATE_NAMES:
            where = np.flatnonzero(states == state)
            if len(where):
                # Refreshes are far above: they sit on the upper edge so that the levels can be told apart.
                values = np.minimum(shown[where], top - 1)
                (seen[state],) = ax.plot(
                    where, values, STATE_MARKERS[state], ms=4.5, color=STATE_COLOURS[state], ls="none"
                )
        for level, its_state in zip(trace.levels, trace.states, strict=True):
            clock = trace.way.clock_mhz
            time = "" if clock is None else f"\n{cycles_to_ns(level.cycles, clock):.1f} ns"
            text = f"{STATE_NAMES[its_state or 'unknown']}{time}"
            ax.text(1.04 * len(shown), level.cycles, text, va="center", fontsize=8)
        ax.set_xlim(-0.03 * len(shown), 1.35 * len(shown))
        ax.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=8))
        ax.set_xticks([tick for tick in ax.get_xticks() if 0 <= tick <= len(shown)])
        ax.yaxis.set_major_locator(MaxNLocator(integer=True))
        ax.set_ylim(bottom, top)
        _label(ax, "access", "latency [cycles]")
        _title(ax, f"{_trace_title(trace)}\nstride {bytes_text(trace.stride_bytes)}")
    shown_states = [state for state in STATE_NAMES if state in seen]
    names = [STATE_NAMES[state] + " (on the edge)" * (state == "refresh") for state in shown_states]
    figure.legend(
        [seen[state] for state in shown_states],
        names,
        loc="outside lower center",
        ncols=len(seen),
        fontsize=9,
    )
    return figure


def stride_picture(analysis: MemoryAnalysis) -> Figure | None:
    """Draw throughput by stride, one line a policy, burst and direction (Figure 6)."""
    curves = [curve for curve in series(analysis.throughput, "stride_bytes") if len(curve[0].engines) == 1]
    chosen: dict[tuple[str, str, str, str, int], Sequence[Throughput]] = {}
    for curve in sorted(curves, key=lambda curve: (len(curve), curve[0].working_set_bytes)):
        first = curve[0]  # the working set with the most strides, of equal ones the largest, comes last
        chosen[first.profile, first.policy, first.switch, first.direction, first.burst_bytes] = curve
    return _curves(
        [chosen[key] for key in sorted(chosen)],
        lambda point: (
            f"{point.policy or 'policy unknown'}, {point.direction}, B {bytes_text(point.burst_bytes)}, "
            f"W {bytes_text(point.working_set_bytes)}"
        ),
    )


def locality_picture(analysis: MemoryAnalysis) -> Figure | None:
    """Draw throughput by stride for a small and a large working set (Figure 7)."""
    pairs = [group for group in series(analysis.throughput, "working_set_bytes") if len(group) > 1]
    chosen = {id(point) for group in pairs for point in (group[0], group[-1])}
    if not chosen:
        return None
    curves = series([point for group in pairs for point in group if id(point) in chosen], "stride_bytes")
    return _curves(
        curves,
        lambda point: (
            f"W {bytes_text(point.working_set_bytes)}, {point.policy or 'policy unknown'}, "
            f"B {bytes_text(point.burst_bytes)}"
        ),
    )


def axi_picture(analysis: MemoryAnalysis) -> Figure | None:
    """Draw latency and throughput by the AXI channel of the engine (Table VI, Figure 8)."""
    distances = analysis.axi_distances()
    groups = [
        group
        for group in by_engine(analysis.throughput)
        if group[0].memory == "hbm" and group[0].switch == "on"
    ]
    if not distances and not groups:
        return None
    panels = len(distances) + len(groups)
    figure, axes = _figure(
        panels, columns=min(2, panels), width=7.0 if panels == 1 else PANEL_WIDTH, height=3.4
    )
    for ax, distance in zip(axes, distances, strict=False):
        _axi_latency(ax, distance)
    for ax, group in zip(axes[len(distances) :], groups, strict=True):
        channels = [point.engines[0] for point in group]
        ax.plot(channels, [point.target_gbps for point in group], "o", ms=6, color=COLOURS[0])
        ax.set_ylim(0, 1.05 * group[0].peak_gbps)
        _axi_axis(ax)
        ax.set_ylabel("throughput [GB/s]", fontsize=9)
        first = group[0]
        _title(
            ax,
            f"{first.profile}: {origin_text(first.origin, unvalidated=first.unvalidated)}\n"
            f"{first.direction}, B {bytes_text(first.burst_bytes)}, S {bytes_text(first.stride_bytes)}",
        )
    return figure


def _axi_latency(ax: Axes, distance: AxiDistance) -> None:
    for state in PAGE_STATES:
        its = {
            channel: idle.states[state].cycles
            for channel, idle in sorted(distance.channels.items())
            if state in idle.states
        }
        if its:
            ax.plot(
                list(its), list(its.values()), STATE_MARKERS[state], ms=7, color=STATE_COLOURS[state],
                label=STATE_NAMES[state], ls="none",
            )  # fmt: skip
            for channel, cycles in its.items():
                ax.annotate(
                    str(cycles),
                    (channel, cycles),
                    (0, 6),
                    textcoords="offset points",
                    ha="center",
                    fontsize=8,
                )
    jump = distance.jump()
    if jump is not None:
        before, after, cycles = jump
        if before < GROUPS_PER_STACK <= after:
            edge = after * CHANNELS_PER_GROUP - CHANNELS_PER_GROUP / 2
            clock = distance.way.clock_mhz
            time = "" if clock is None else f" = {cycles_to_ns(cycles, clock):.1f} ns"
            ax.axvline(edge, color="0.5", lw=0.8, ls="--")
            ax.text(
                edge - 0.4, 0.95, f"stack crossing\n+{cycles} cycles{time}", fontsize=9, ha="right",
                va="top", transform=ax.get_xaxis_transform(),
            )  # fmt: skip
    low, high = ax.get_ylim()
    ax.set_ylim(low - 1, high + 0.1 * (high - low))
    _axi_axis(ax)
    ax.set_ylabel("idle latency [cycles]", fontsize=9)
    ax.legend(fontsize=8, loc="lower right")
    origin = origin_text(distance.way.origin, unvalidated=distance.unvalidated)
    _title(ax, f"{distance.way.profile}, B {bytes_text(distance.way.burst_bytes)}: {origin}")


def _axi_axis(ax: Axes) -> None:
    ax.set_xticks(range(0, 32, CHANNELS_PER_GROUP))
    ax.set_xlim(-1.5, 32)
    ax.set_xlabel("AXI channel (all to one HBM channel)", fontsize=9)
    ax.grid(axis="y", color="0.92", lw=0.6)
    ax.tick_params(labelsize=8)


PICTURES: Mapping[str, Callable[[MemoryAnalysis], Figure | None]] = {
    "throughput_by_stride.png": stride_picture,
    "locality.png": locality_picture,
    "page_states.png": page_states_picture,
    "refresh.png": refresh_picture,
    "axi_position.png": axi_picture,
}
"""Pictures by file name."""


def _by_profile(traces: Sequence[Trace]) -> dict[str, list[Trace]]:
    found: dict[str, list[Trace]] = {}
    for trace in traces:
        found.setdefault(trace.way.profile, []).append(trace)
    return found


def _of_different_strides(traces: Sequence[Trace]) -> list[Trace]:
    """Return the traces of least and greatest stride of the engine with the most strides."""
    by_engine: dict[object, dict[int, Trace]] = {}
    for trace in traces:
        by_engine.setdefault(trace.way, {}).setdefault(trace.stride_bytes or 0, trace)
    strides = max(by_engine.values(), key=len)
    return [strides[stride] for stride in sorted({min(strides), max(strides)})]


def _trace_title(trace: Trace) -> str:
    way = trace.way
    engine = "" if way.channel is None else f" engine {way.channel}"
    return f"{way.profile}{engine}: {origin_text(way.origin, unvalidated=trace.unvalidated)}"


def _curves(curves: Sequence[Sequence[Throughput]], name: Callable[[Throughput], str]) -> Figure | None:
    """Draw curves over the stride, one panel a memory."""
    panels: dict[str, list[Sequence[Throughput]]] = {}
    for curve in curves:
        panels.setdefault(curve[0].profile, []).append(curve)
    if not panels:
        return None
    figure, axes = _figure(len(panels), columns=min(2, len(panels)), width=PANEL_WIDTH, height=PANEL_HEIGHT)
    for ax, (profile, its) in zip(axes, panels.items(), strict=True):
        for index, curve in enumerate(its):
            _curve(ax, curve, name(curve[0]), index)
        points = [point for curve in its for point in curve]
        peak = max(point.peak_gbps for point in points)
        ax.axhline(peak, color="0.5", lw=0.8, ls="--")
        ax.text(
            0.99,
            peak,
            f"peak {peak:g}",
            transform=ax.get_yaxis_transform(),
            ha="right",
            va="bottom",
            fontsize=8,
        )
        ax.set_ylim(0, 1.12 * peak)
        strides = sorted({point.stride_bytes for point in points})
        ax.set_xscale("log", base=2)
        ax.set_xticks(strides, [bytes_text(stride) for stride in strides])
        ax.minorticks_off()
        if len(strides) == 1:
            ax.set_xlim(strides[0] / 2, strides[0] * 2)
        _label(ax, "stride [bytes]", "throughput of a channel [GB/s]")
        ax.legend(fontsize=8, loc="best")
        origins = sorted({origin_text(point.origin) for point in points})
        _title(ax, f"{profile}: {', '.join(origins)}")
    if any(point.unvalidated for curve in curves for point in curve):
        figure.supxlabel("open markers: unvalidated, nothing published confirms them", fontsize=9)
    return figure


def _curve(ax: Axes, curve: Sequence[Throughput], name: str, index: int) -> None:
    colour, marker = COLOURS[index % len(COLOURS)], MARKERS[index % len(MARKERS)]
    strides = [point.stride_bytes for point in curve]
    speeds = [point.target_gbps for point in curve]
    for (stride, speed), (following, after) in itertools.pairwise(zip(strides, speeds, strict=True)):
        # Dotted where strides between were not measured.
        style = "-" if following <= 2 * stride else ":"
        ax.plot([stride, following], [speed, after], style, lw=1.2, color=colour)
    for unvalidated in (False, True):
        its = [
            (s, v)
            for s, v, point in zip(strides, speeds, curve, strict=True)
            if point.unvalidated == unvalidated
        ]
        if its:
            face = "white" if unvalidated else colour
            ax.plot(*zip(*its, strict=True), marker, ms=6, mfc=face, mec=colour, ls="none")
    ax.plot([], [], marker + "-", color=colour, mfc="white" if curve[0].unvalidated else colour, label=name)


def _figure(panels: int, *, columns: int, width: float, height: float) -> tuple[Figure, list[Axes]]:
    """Return a figure and as many axes as panels, filled row by row."""
    from matplotlib.figure import Figure

    rows = math.ceil(panels / columns)
    figure = Figure(figsize=(width * columns, height * rows + 0.4), dpi=DOTS_PER_INCH, layout="constrained")
    grid: Any = figure.subplots(rows, columns, squeeze=False)
    axes = list(grid.ravel())
    for unused in axes[panels:]:
        unused.set_visible(False)
    return figure, axes[:panels]


def _label(ax: Axes, x: str, y: str) -> None:
    ax.set_xlabel(x, fontsize=9)
    ax.set_ylabel(y, fontsize=9)
    ax.tick_params(labelsize=8)
    ax.grid(axis="y", color="0.92", lw=0.6)


def _title(ax: Axes, text: str) -> None:
    ax.set_title(text, fontsize=10, color=COLOURS[4] if SIMULATED in text else "black")
