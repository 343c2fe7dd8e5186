"""Tables of the page about latency, Markdown; None where the logs hold nothing for one."""

from __future__ import annotations

from accelperf.memory.analysis import CHANNELS_PER_GROUP, GROUPS_PER_STACK, MemoryAnalysis
from accelperf.memory.latency_trace import PAGE_STATES, REFRESH_SLOW_CYCLES, cycles_to_ns
from accelperf.memory_report.wording import (
    UNKNOWN,
    bytes_text,
    joined,
    nanoseconds_text,
    number_text,
    origin_text,
    percent_text,
)
from accelperf.report import markdown_table

LEVELS_NAMED = 4
"""Levels of unknown state that are named."""


def idle_table(analysis: MemoryAnalysis) -> str | None:
    """Return the latencies of page states with the accesses behind them."""
    if not analysis.idle:
        return None
    rows = []
    for idle in analysis.idle:
        way = idle.way
        states = []
        for state in PAGE_STATES:
            level = idle.states.get(state)
            if level is None:
                states.append(UNKNOWN)
                continue
            spread = "" if level.low == level.high else f" ({level.low}-{level.high})"
            time = nanoseconds_text(idle, state)
            states.append(f"{level.cycles}{spread} cycles, {time} ns, {level.accesses} accesses")
        ranking = sorted(idle.other, key=lambda level: -level.accesses)
        other = [f"{level.cycles} cycles ({level.accesses})" for level in ranking[:LEVELS_NAMED]]
        if len(ranking) > LEVELS_NAMED:
            other.append(f"{len(ranking) - LEVELS_NAMED} more")
        rows.append(
            [
                way.profile,
                way.switch or UNKNOWN,
                UNKNOWN if way.channel is None else str(way.channel),
                bytes_text(way.burst_bytes),
                *states,
                joined(other),
                origin_text(way.origin, unvalidated=idle.unvalidated),
            ]
        )
    header = [
        "memory",
        "switch",
        "engine",
        "B",
        "page hit",
        "closed bank",
        "page miss",
        "other levels",
        "origin",
    ]
    return (
        "Found in the counts, with the accesses that support each; accesses that met a refresh are left "
        "out. A hit finds its row open, a closed bank has to activate it first, a miss to close another row "
        "before that. Traces of one engine are taken together: small strides show hits, large ones "
        "misses.\n\n" + markdown_table(rows, header)
    )


def refresh_table(analysis: MemoryAnalysis) -> str | None:
    """Return interval, spacing and cost of refreshes, one row a trace."""
    rows = []
    for trace in analysis.traces:
        refresh, way = trace.refresh, trace.way
        if not refresh.positions:
            continue
        spread = refresh.spacing_range
        spacing = UNKNOWN
        if refresh.spacing_accesses is not None and spread is not None:
            spacing = f"{refresh.spacing_accesses:g}" + (
                "" if spread[0] == spread[1] else f" ({spread[0]}-{spread[1]})"
            )
        rows.append(
            [
                way.profile,
                UNKNOWN if way.channel is None else str(way.channel),
                bytes_text(trace.stride_bytes),
                str(len(trace.cycles)),
                str(len(refresh.positions)),
                spacing,
                number_text(refresh.interval_cycles),
                UNKNOWN if trace.refresh_interval_us is None else f"{trace.refresh_interval_us:.2f}",
                number_text(refresh.wait_cycles, 3),
                percent_text(refresh.time_share),
                {True: "yes", False: "no: other causes than refresh", None: UNKNOWN}[refresh.regular],
                origin_text(way.origin, unvalidated=trace.unvalidated),
            ]
        )
    if not rows:
        return None
    header = [
        "memory",
        "engine",
        "S",
        "accesses",
        "slow ones",
        "accesses apart",
        "interval [cycles]",
        "interval [µs]",
        "wait [cycles]",
        "share of time",
        "regular",
        "origin",
    ]
    return (
        f"Accesses slower than {REFRESH_SLOW_CYCLES} cycles met a refresh. The wait is what they took beyond "
        "the median access; its share of the interval is what refresh costs a reader that waits for each "
        "access. A pipelined one loses tRFC / tREFI, which no trace shows.\n\n" + markdown_table(rows, header)
    )


def axi_latency_table(analysis: MemoryAnalysis) -> str | None:
    """Return idle latencies by AXI channel and the jump between the stacks."""
    distances = analysis.axi_distances()
    if not distances:
        return None
    parts = []
    for distance in distances:
        clock = distance.way.clock_mhz
        rows = []
        nearest = min(idle.states["hit"].cycles for idle in distance.channels.values())
        for channel, idle in sorted(distance.channels.items()):
            first = channel // CHANNELS_PER_GROUP * CHANNELS_PER_GROUP
            cells = [
                UNKNOWN if (level := idle.states.get(s)) is None else str(level.cycles) for s in PAGE_STATES
            ]
            more = idle.states["hit"].cycles - nearest
            more_ns = UNKNOWN if clock is None else f"{cycles_to_ns(more, clock):.1f}"
            rows.append(
                [str(channel), f"{first}-{first + CHANNELS_PER_GROUP - 1}", *cells, f"+{more}", f"+{more_ns}"]
            )
        header = ["AXI channel", "group", "hit", "closed", "miss", "more [cycles]", "more [ns]"]
        jump = distance.jump()
        sentence = "No step between the measured groups stands out."
        if jump is not None:
            before, after, cycles = jump
            time = "" if clock is None else f" ({cycles_to_ns(cycles, clock):.1f} ns)"
            sentence = f"The jump lies between groups {before} and {after}: {cycles} cycles{time}."
            if before < GROUPS_PER_STACK <= after:
                sentence += " That is the crossing from one HBM stack to the other."
        origin = origin_text(distance.way.origin, unvalidated=distance.unvalidated)
        parts.append(
            f"{distance.way.profile}, B = {bytes_text(distance.way.burst_bytes)}, cycles ({origin}). "
            f"{sentence}\n\n{markdown_table(rows, header)}"
        )
    return "\n".join(parts)
