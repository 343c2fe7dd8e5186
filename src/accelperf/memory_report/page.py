"""The page: every result in a table with one sentence that says what to read in it.

The order is that of the Shuhai paper. A section without data says so, and which run would give it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from accelperf.memory.analysis import IdleLatency, MemoryAnalysis
from accelperf.memory.corrections import CORRECTIONS, NOTE_FLAGS, UNUSABLE_FLAGS
from accelperf.memory.latency_trace import PAGE_STATES
from accelperf.memory.throughput import best
from accelperf.memory_report.latency_tables import axi_latency_table, idle_table, refresh_table
from accelperf.memory_report.throughput_tables import (
    axi_throughput_table,
    by_burst_table,
    by_stride_table,
    competition_table,
    directions_table,
    falls_table,
    locality_table,
    policies_table,
    total_table,
)
from accelperf.memory_report.wording import (
    MARK,
    SIMULATED,
    UNKNOWN,
    joined,
    nanoseconds_text,
    notes_text,
    number_text,
    origin_text,
    pattern_text,
    percent_text,
    speed_text,
)
from accelperf.report import markdown_table


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
            by_stride_table(points),
            "Runs that differ in the stride alone: B = 32 (HBM) or 64 (DDR4), W = 268435456, S = 64, 128, …",
            "throughput_by_stride.png",
        ),
        Section(
            "Where the throughput falls with the stride (bank groups and rows)",
            falls_table(points),
            "Runs that differ in the stride alone, with falls between neighbours.",
        ),
        Section(
            "Throughput by burst",
            by_burst_table(points),
            "Runs with two or more bursts, stride and working set being equal, or stride = burst.",
        ),
        Section(
            "Policies against each other",
            policies_table(points),
            "The same patterns on bitstreams with two or more address mapping policies.",
        ),
        Section(
            "Locality: a small working set (paper: Figure 7)",
            locality_table(points),
            "The same B and S with W = 8192 and W = 268435456.",
            "locality.png",
        ),
        Section(
            "Reads and writes",
            directions_table(points),
            "The same pattern with `--readEnable` and `--writeEnable`.",
        ),
        Section(
            "Idle latency: page hit, closed bank, page miss (paper: Figure 5 and its table)",
            idle_table(analysis),
            "Latency runs with B = 32 (HBM) or 64 (DDR4), W = 16777216, and S = 128 (hits and closed banks) "
            "and 131072 (misses).",
            "page_states.png",
        ),
        Section(
            "Refresh (paper: Figure 4)",
            refresh_table(analysis),
            "A latency run with S = 64 and W = 16777216, long enough for two refreshes: the 100 counts that "
            "Shuhai prints are enough on HBM, not on DDR4.",
            "refresh.png",
        ),
        Section(
            "Latency by AXI channel (paper: Table VI)",
            axi_latency_table(analysis),
            "Latency runs of HBM channels 0, 4, …, 28 with the switch on (S = 64, W = 4096).",
            "axi_position.png",
        ),
        Section(
            "Throughput by AXI channel (paper: Figure 8)",
            axi_throughput_table(points),
            "One HBM channel at a time with the switch on: B = 64, W = 16777216, N = 200000.",
        ),
        Section(
            "Engines that share a memory channel",
            competition_table(points),
            "Two or more HBM engines enabled at once with the switch on.",
        ),
        Section("Total throughput", total_table(points), "Any throughput run."),
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


def _overview(analysis: MemoryAnalysis) -> str:
    rows = []
    for profile in analysis.profiles():
        points = [point for point in analysis.throughput if point.profile == profile]
        reads = [point for point in points if point.direction == "read"] or points
        top = best(reads) if reads else None
        idle = _fullest([idle for idle in analysis.idle if idle.way.profile == profile])
        traces = [trace for trace in analysis.traces if trace.way.profile == profile]
        refreshing = [
            trace
            for trace in traces
            if trace.refresh_interval_us is not None and trace.refresh.regular is not False
        ]
        longest = max(refreshing, key=lambda trace: len(trace.refresh.positions)) if refreshing else None
        origins = {point.origin for point in points} | {trace.way.origin for trace in traces}
        rows.append(
            [
                profile,
                joined(sorted(origin_text(origin) for origin in origins)),
                UNKNOWN if top is None else f"{top.peak_gbps:g}",
                UNKNOWN if top is None else f"{speed_text(top)} ({percent_text(top.efficiency)})",
                UNKNOWN if top is None else pattern_text(top),
                " / ".join(nanoseconds_text(idle, state) for state in PAGE_STATES),
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
