"""The page: every result in a table with one sentence that says what to read in it.

The order is that of the Shuhai paper. A section without data says so, and which run would give it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from accelperf.memory.analysis import (
    CHANNELS_PER_GROUP,
    GROUPS_PER_STACK,
    IdleLatency,
    MemoryAnalysis,
)
from accelperf.memory.corrections import CORRECTIONS, NOTE_FLAGS, UNUSABLE_FLAGS
from accelperf.memory.latency_trace import PAGE_STATES, REFRESH_SLOW_CYCLES, cycles_to_ns
from accelperf.memory.throughput import (
    Throughput,
    best,
    by_engine,
    competing,
    contiguous_by_burst,
    falls_with_stride,
    locality,
    policies,
    series,
    writes_against_reads,
)
from accelperf.memory_report.address_view import address_view
from accelperf.memory_report.wording import (
    SIMULATED,
    UNKNOWN,
    bytes_text,
    engines_text,
    joined,
    notes_text,
    number_text,
    origin_text,
    percent_text,
)
from accelperf.report import markdown_table

CHANNELS_OF_PAPER: Mapping[str, int] = {"hbm": 32, "ddr4": 2}
"""Channels of the board of the Shuhai paper (Alveo U280), to which it scales one HBM channel."""

ENOUGH_OF_BEST = 0.95
"""Share of the best throughput from which a burst is called long enough."""

HELPS_RATIO = 1.1
"""Ratio from which a small working set is said to help."""

LEVELS_NAMED = 4
"""Levels of unknown state that are named."""

MARK = "\\*"
"""Marks figures that nothing published confirms."""


@dataclass(frozen=True)
class Section:
    """A section of the page: title, picture, text; without text it was not measured."""

    title: str
    body: str | None
    missing: str
    picture: str | None = None

    def markdown(self, pictures: Sequence[str]) -> str:
        """Return the section, with its picture if there is one."""
        parts = [f"## {self.title}\n"]
        if self.picture in pictures:
            parts.append(f"![{self.title}]({self.picture})\n")
        parts.append(self.body if self.body is not None else f"Not measured. {self.missing}\n")
        return "\n".join(parts)


def page_markdown(analysis: MemoryAnalysis, pictures: Sequence[str]) -> str:
    """Return the page.

    Parameters
    ----------
    analysis : MemoryAnalysis
        What the logs say.
    pictures : sequence of str
        File names of the pictures that were drawn.

    Returns
    -------
    str
        Markdown.
    """
    points = analysis.throughput
    sections = [
        Section("The memories beside each other: HBM and DDR4", _overview(analysis), ""),
        Section(
            "Throughput by stride and address mapping policy (paper: Figure 6)",
            _by_stride(points),
            "Runs that differ in the stride alone: B = 32 (HBM) or 64 (DDR4), W = 268435456, S = 64, 128, …",
            "throughput_by_stride.png",
        ),
        Section(
            "Where the throughput falls with the stride (bank groups and rows)",
            _falls(points),
            "Runs that differ in the stride alone, with falls between neighbours.",
        ),
        Section(
            "Throughput by burst",
            _by_burst(points),
            "Runs with two or more bursts, stride and working set being equal, or stride = burst.",
        ),
        Section(
            "Policies against each other",
            _policies(points),
            "The same patterns on bitstreams with two or more address mapping policies.",
        ),
        Section(
            "Locality: a small working set (paper: Figure 7)",
            _locality(points),
            "The same B and S with W = 8192 and W = 268435456.",
            "locality.png",
        ),
        Section(
            "Reads and writes",
            _directions(points),
            "The same pattern with `--readEnable` and `--writeEnable`.",
        ),
        Section(
            "Idle latency: page hit, closed bank, page miss (paper: Figure 5 and its table)",
            _idle(analysis),
            "Latency runs with B = 32 (HBM) or 64 (DDR4), W = 16777216, and S = 128 (hits and closed banks) "
            "and 131072 (misses).",
            "page_states.png",
        ),
        Section(
            "Refresh (paper: Figure 4)",
            _refresh(analysis),
            "A latency run with S = 64 and W = 16777216, long enough for two refreshes: the 100 counts that "
            "Shuhai prints are enough on HBM, not on DDR4.",
            "refresh.png",
        ),
        Section(
            "Latency by AXI channel (paper: Table VI)",
            _axi_latency(analysis),
            "Latency runs of HBM channels 0, 4, …, 28 with the switch on (S = 64, W = 4096).",
            "axi_position.png",
        ),
        Section(
            "Throughput by AXI channel (paper: Figure 8)",
            _axi_throughput(points),
            "One HBM channel at a time with the switch on: B = 64, W = 16777216, N = 200000.",
        ),
        Section(
            "Engines that share a memory channel",
            _competition(points),
            "Two or more HBM engines enabled at once with the switch on.",
        ),
        Section("Total throughput", _total(points), "Any throughput run."),
        Section("Rows that say nothing, corrections and flags", _flags(analysis), ""),
        Section("Where the logs come from", _sources(analysis), ""),
    ]
    return "\n".join([_opening(analysis), *(section.markdown(pictures) for section in sections)])


def _opening(analysis: MemoryAnalysis) -> str:
    text = "# What the Shuhai logs say about the memory\n\n"
    if "simulated" in analysis.origins():
        text += (
            f"**Part or all of what follows is {SIMULATED}: it was not measured on a board.** "
            f"{MARK} marks figures that their logs call unvalidated: nothing published confirms them.\n\n"
        )
    return text + (
        f"{analysis.logs} logs, {len(analysis.throughput)} throughputs, {len(analysis.traces)} latency "
        "traces. Speeds are corrected and in decimal GB/s; a share is that of the peak of the memory "
        f"channels that were reached. {UNKNOWN} stands for what was not measured or cannot be known. B, S "
        "and W are burst, stride and working set in bytes, as they happened.\n"
    )


def _speed(point: Throughput) -> str:
    return f"{point.target_gbps:.3g}{' ' + MARK if point.unvalidated else ''}"


def _pattern(point: Throughput) -> str:
    return (
        f"{point.direction}, B {bytes_text(point.burst_bytes)}, S {bytes_text(point.stride_bytes)}, "
        f"W {bytes_text(point.working_set_bytes)}"
    )


def _overview(analysis: MemoryAnalysis) -> str:
    rows = []
    for profile in analysis.profiles():
        points = [point for point in analysis.throughput if point.profile == profile]
        reads = [point for point in points if point.direction == "read"] or points
        top = best(reads) if reads else None
        idle = _fullest([idle for idle in analysis.idle if idle.way.profile == profile])
        traces = [trace for trace in analysis.traces if trace.way.profile == profile]
        refreshing = [trace for trace in traces if trace.refresh_interval_us is not None]
        longest = max(refreshing, key=lambda trace: len(trace.refresh.positions)) if refreshing else None
        origins = {point.origin for point in points} | {trace.way.origin for trace in traces}
        rows.append(
            [
                profile,
                joined(sorted(origin_text(origin) for origin in origins)),
                UNKNOWN if top is None else f"{top.peak_gbps:g}",
                UNKNOWN if top is None else f"{_speed(top)} ({percent_text(top.efficiency)})",
                UNKNOWN if top is None else _pattern(top),
                " / ".join(_nanoseconds(idle, state) for state in PAGE_STATES),
                UNKNOWN if longest is None else f"{longest.refresh_interval_us:.2f}",
                UNKNOWN if longest is None else percent_text(longest.refresh.time_share),
            ]
        )
    header = [
        "memory",
        "origin",
        "peak of a channel [GB/s]",
        "best of a channel [GB/s]",
        "with",
        "hit / closed / miss [ns]",
        "refresh every [µs]",
        "time waited for refresh",
    ]
    if not rows:
        return "No result of any memory.\n"
    kinds = {profile.rpartition("/")[2] for profile in analysis.profiles()}
    text = markdown_table(rows, header)
    if not {"hbm", "ddr4"} <= kinds:
        text += f"\nHBM beside DDR4: not measured (only {joined(sorted(kinds))}).\n"
    return text


def _fullest(idle: Sequence[IdleLatency]) -> IdleLatency | None:
    """Return the way on which most states were seen; of equal ones the nearest engine."""
    return max(idle, key=lambda item: (len(item.states), -(item.way.channel or 0)), default=None)


def _nanoseconds(idle: IdleLatency | None, state: str) -> str:
    time = None if idle is None else idle.nanoseconds(state)
    return UNKNOWN if time is None else f"{time:.1f}"


def _by_stride(points: Sequence[Throughput]) -> str | None:
    curves = [curve for curve in series(points, "stride_bytes") if len(curve) > 1]
    if not curves:
        return None
    strides = sorted({point.stride_bytes for curve in curves for point in curve})
    rows = []
    for curve in curves:
        first = curve[0]
        cells = {point.stride_bytes: _speed(point) for point in curve}
        rows.append(
            [
                first.profile,
                first.policy or UNKNOWN,
                first.direction,
                engines_text(first.engines),
                bytes_text(first.burst_bytes),
                bytes_text(first.working_set_bytes),
                *(cells.get(stride, UNKNOWN) for stride in strides),
                origin_text(first.origin),
            ]
        )
    header = ["memory", "policy", "direction", "engines", "B", "W"]
    header += [f"S {bytes_text(stride)}" for stride in strides] + ["origin"]
    return f"GB/s of a memory channel.\n\n{markdown_table(rows, header)}"


def _falls(points: Sequence[Throughput]) -> str | None:
    falls = falls_with_stride(points)
    if not falls:
        return None
    rows = []
    for fall in falls:
        before, after = fall.other, fall.one
        views = [
            address_view(
                point.memory,
                point.policy,
                burst_bytes=point.burst_bytes,
                stride_bytes=point.stride_bytes,
                working_set_bytes=point.working_set_bytes,
            )
            for point in (before, after)
        ]
        rows.append(
            [
                before.profile,
                before.policy or UNKNOWN,
                f"{before.direction}, B {bytes_text(before.burst_bytes)}, "
                f"W {bytes_text(before.working_set_bytes)}",
                f"{bytes_text(before.stride_bytes)} → {bytes_text(after.stride_bytes)}",
                f"{_speed(before)} → {_speed(after)}",
                f"{fall.ratio:.2f}",
                " → ".join(UNKNOWN if view is None else percent_text(view.group_changes) for view in views),
                " → ".join(UNKNOWN if view is None else percent_text(view.new_rows) for view in views),
                " → ".join(UNKNOWN if view is None else str(view.banks) for view in views),
                origin_text(before.origin),
            ]
        )
    header = [
        "memory", "policy", "pattern", "S", "GB/s", "ratio", "bank group changes", "new rows",
        "banks in 32 words", "origin",
    ]  # fmt: skip
    return (
        "Between measured strides that follow each other. The last columns say what successive words of the "
        "pattern do under the policy's address bits (computed, not measured): a word in the bank group of "
        "the one before waits for tCCD_L, a word in a new row for precharge and activate, of which as many "
        "go on at once as banks take part.\n\n" + markdown_table(rows, header)
    )


def _by_burst(points: Sequence[Throughput]) -> str | None:
    lines = [(line, "S = B") for line in contiguous_by_burst(points)]
    fixed = [line for line in series(points, "burst_bytes") if len(line) > 1]
    lines += [(line, f"S = {bytes_text(line[0].stride_bytes)}") for line in fixed]
    if not lines:
        return None
    bursts = sorted({point.burst_bytes for line, _ in lines for point in line})
    rows, sentences = [], []
    for line, stride in lines:
        first, top = line[0], best(line)
        cells = {point.burst_bytes: f"{_speed(point)} ({percent_text(point.efficiency)})" for point in line}
        enough = next(p for p in line if p.efficiency >= ENOUGH_OF_BEST * top.efficiency)
        where = f"{first.profile}, {first.direction}, {stride}, W = {bytes_text(first.working_set_bytes)}"
        sentences.append(
            f"* {where}: bursts from {bytes_text(enough.burst_bytes)} bytes on reach "
            f"{100 * ENOUGH_OF_BEST:.0f} % of the best ({_speed(top)} GB/s at {bytes_text(top.burst_bytes)})."
        )
        rows.append(
            [
                first.profile,
                first.policy or UNKNOWN,
                first.direction,
                stride,
                bytes_text(first.working_set_bytes),
                *(cells.get(burst, UNKNOWN) for burst in bursts),
                origin_text(first.origin),
            ]
        )
    header = ["memory", "policy", "direction", "stride", "W"]
    header += [f"B {bytes_text(burst)}" for burst in bursts] + ["origin"]
    return f"{markdown_table(rows, header)}\n" + "\n".join(sentences) + "\n"


def _policies(points: Sequence[Throughput]) -> str | None:
    found = policies(points)
    if not found:
        return None
    rows = [
        [
            comparison.one.profile,
            _pattern(comparison.one),
            f"{comparison.one.policy or UNKNOWN} {_speed(comparison.one)}",
            f"{comparison.other.policy or UNKNOWN} {_speed(comparison.other)}",
            f"{comparison.ratio:.2f}",
            origin_text(comparison.one.origin),
        ]
        for comparison in found
    ]
    return markdown_table(rows, ["memory", "pattern", "best [GB/s]", "worst [GB/s]", "ratio", "origin"])


def _locality(points: Sequence[Throughput]) -> str | None:
    found = locality(points)
    if not found:
        return None
    rows = [
        [
            comparison.one.profile,
            comparison.one.policy or UNKNOWN,
            f"{comparison.one.direction}, B {bytes_text(comparison.one.burst_bytes)}, "
            f"S {bytes_text(comparison.one.stride_bytes)}",
            f"{_speed(comparison.one)} (W {bytes_text(comparison.one.working_set_bytes)})",
            f"{_speed(comparison.other)} (W {bytes_text(comparison.other.working_set_bytes)})",
            f"{comparison.ratio:.2f}",
            origin_text(comparison.one.origin),
        ]
        for comparison in found
    ]
    helped = [comparison for comparison in found if comparison.ratio >= HELPS_RATIO]
    strides = sorted({comparison.one.stride_bytes for comparison in helped})
    sentence = f"A small working set is at least {HELPS_RATIO:g} times as fast at " + (
        f"S = {', '.join(map(bytes_text, strides))} alone: there it keeps rows open that a large one leaves."
        if strides
        else "none of the measured strides."
    )
    header = ["memory", "policy", "pattern", "small [GB/s]", "large [GB/s]", "ratio", "origin"]
    return f"{sentence}\n\n{markdown_table(rows, header)}"


def _directions(points: Sequence[Throughput]) -> str | None:
    found = writes_against_reads(points)
    if not found:
        return None
    rows = [
        [
            comparison.one.profile,
            comparison.one.policy or UNKNOWN,
            f"B {bytes_text(comparison.one.burst_bytes)}, S {bytes_text(comparison.one.stride_bytes)}, "
            f"W {bytes_text(comparison.one.working_set_bytes)}",
            _speed(comparison.other),
            _speed(comparison.one),
            f"{comparison.ratio:.2f}",
            origin_text(comparison.one.origin),
        ]
        for comparison in found
    ]
    header = ["memory", "policy", "pattern", "read [GB/s]", "write [GB/s]", "write / read", "origin"]
    return markdown_table(rows, header)


def _idle(analysis: MemoryAnalysis) -> str | None:
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
            time = _nanoseconds(idle, state)
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


def _refresh(analysis: MemoryAnalysis) -> str | None:
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


def _axi_latency(analysis: MemoryAnalysis) -> str | None:
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


def _axi_throughput(points: Sequence[Throughput]) -> str | None:
    groups = [group for group in by_engine(points) if group[0].memory == "hbm" and group[0].switch == "on"]
    if not groups:
        return None
    rows = [
        [
            point.profile,
            point.policy or UNKNOWN,
            _pattern(point),
            engines_text(point.engines),
            _speed(point),
            percent_text(point.efficiency),
            origin_text(point.origin),
        ]
        for group in groups
        for point in group
    ]
    return markdown_table(rows, ["memory", "policy", "pattern", "AXI channel", "GB/s", "share", "origin"])


def _competition(points: Sequence[Throughput]) -> str | None:
    found = competing(points)
    if not found:
        return None
    rows = []
    for item in found:
        together, alone = item.together, item.alone
        rows.append(
            [
                together.profile,
                _pattern(together),
                engines_text(together.engines),
                str(together.targets),
                f"{together.gbps:.3g}{' ' + MARK if together.unvalidated else ''}",
                f"{together.total_gbps:.3g}",
                percent_text(together.efficiency),
                "not measured" if alone is None else _speed(alone),
                origin_text(together.origin),
            ]
        )
    header = [
        "memory", "pattern", "engines", "memory channels", "each [GB/s]", "together [GB/s]", "share",
        "one alone [GB/s]", "origin",
    ]  # fmt: skip
    return (
        "More engines than memory channels: they divide what a channel gives. In the current public version "
        "of Shuhai all HBM engines start at address 0 and meet in channel 0.\n\n"
        + markdown_table(rows, header)
    )


def _total(points: Sequence[Throughput]) -> str | None:
    if not points:
        return None
    rows = []
    for profile in sorted({point.profile for point in points}):
        its = [point for point in points if point.profile == profile]
        several = [point for point in its if point.targets > 1]
        top = best(its)
        channels = CHANNELS_OF_PAPER.get(top.memory)
        measured = "not measured"
        if several:
            most = max(several, key=lambda point: point.total_gbps)
            peak = most.targets * most.peak_gbps
            measured = f"{most.total_gbps:.4g} of {peak:.4g} ({most.targets} channels)"
        rows.append(
            [
                profile,
                measured,
                _speed(top),
                UNKNOWN
                if channels is None
                else f"{channels} x {top.target_gbps:.3g} = {channels * top.target_gbps:.3g}",
                joined(sorted({origin_text(point.origin) for point in its})),
            ]
        )
    header = [
        "memory", "channels at once [GB/s]", "one channel, best [GB/s]", "scaled to the paper's board [GB/s]",
        "origin",
    ]  # fmt: skip
    return (
        "The paper scales one HBM channel to 32 (425 GB/s) and one DDR4 channel to two (36 GB/s). The scaled "
        "column does the same and is no measurement.\n\n" + markdown_table(rows, header)
    )


def _flags(analysis: MemoryAnalysis) -> str:
    meanings = {**CORRECTIONS, **UNUSABLE_FLAGS, **NOTE_FLAGS}
    rows = [
        [
            f"{row.board}/{row.memory}" if row.board else UNKNOWN,
            f"{row.direction} {UNKNOWN if row.channel is None else row.channel}",
            number_text(row.reported_gbps),
            "; ".join(meanings.get(flag, flag) for flag in row.flags) or "its pattern is not known",
            f"`{row.source_file}:{row.source_line}`",
        ]
        for row in analysis.unused
    ]
    text = "Every row says something.\n"
    if rows:
        text = markdown_table(rows, ["memory", "engine", "printed [GB/s]", "not used because", "where"])
    counts: dict[str, int] = {}
    for point in analysis.throughput:
        for code in (*point.corrections, *point.flags):
            counts[code] = counts.get(code, 0) + 1
    used = [[f"`{code}`", str(count), meanings.get(code, code)] for code, count in sorted(counts.items())]
    if used:
        text += "\nOf the throughputs in the tables:\n\n"
        text += markdown_table(used, ["correction or flag", "throughputs", "meaning"])
    if analysis.notes:
        text += "\nNotes:\n\n" + "".join(f"* {line}\n" for line in notes_text(analysis, mark="`"))
    return text


def _sources(analysis: MemoryAnalysis) -> str:
    if not analysis.sources:
        return "No `run.yaml` says it.\n"
    parts = []
    for profile, sources in analysis.sources.items():
        # What all of a memory's logs say stands once; what they add, one line each.
        common = os.path.commonprefix(sources)  # noqa: RUF071 (characters are meant)
        common = common[: common.rfind(". ") + 2] if len(sources) > 1 else sources[0]
        own = [source.removeprefix(common) for source in sources if source != common]
        parts.append(f"`{profile}`: {common.strip() or 'the logs differ:'}\n")
        parts.append("".join(f"* {text}\n" for text in own))
    return "\n".join(part for part in parts if part)
