"""The summary: one line a result, as CSV or JSON, and shorter as aligned text.

Every cell of the text is free of blanks and empty cells are dashes, so that ``awk``, ``sort`` and
``column`` work on it.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from accelperf.memory.analysis import IdleLatency, MemoryAnalysis, Trace
from accelperf.memory.latency_trace import PAGE_STATES
from accelperf.memory.table import MemoryRow
from accelperf.memory.throughput import (
    Comparison,
    Throughput,
    falls_with_stride,
    locality,
    policies,
    writes_against_reads,
)
from accelperf.memory_report.wording import UNKNOWN, bytes_text, engines_text, origin_text

NS_PER_US = 1e3


@dataclass(frozen=True)
class Line:
    """One result.

    Attributes
    ----------
    memory : str
        ``board/memory``.
    quantity : str
        ``throughput``; ``page_hit``, ``page_closed``, ``page_miss``, ``latency_level`` (of unknown state),
        ``latency_mean``; ``refresh_interval``, ``refresh_spacing``, ``refresh_share`` (of the time of a
        trace); ratios ``stride_fall``, ``locality``, ``policy``, ``write_read``; ``axi_jump``.
    policy, switch, direction, engines : str
        Where it was measured; a ratio names both sides.
    burst_bytes, stride_bytes, working_set_bytes : str
        B, S and W [bytes].
    value : float or None
        The result.
    unit : str
        Its unit: GB/s (all engines together), cycles, accesses, share or ratio.
    second_value : float or None
        The same otherwise: share of the peak, nanoseconds, microseconds; the printed speed of a row
        that is not used.
    second_unit : str
        Its unit.
    accesses : int or None
        Accesses behind a latency, refreshes behind an interval.
    corrections, flags : str
        Codes of `accelperf.memory.corrections`.
    origin : str
        ``measured``, ``SIMULATED`` or ``estimated``; with ``unvalidated`` where the log says so.
    source : str
        ``file:line``, several separated by blanks.
    """

    memory: str
    quantity: str
    policy: str = ""
    switch: str = ""
    direction: str = ""
    engines: str = ""
    burst_bytes: str = ""
    stride_bytes: str = ""
    working_set_bytes: str = ""
    value: float | None = None
    unit: str = ""
    second_value: float | None = None
    second_unit: str = ""
    accesses: int | None = None
    corrections: str = ""
    flags: str = ""
    origin: str = ""
    source: str = ""


SUMMARY_COLUMNS: tuple[str, ...] = tuple(Line.__dataclass_fields__)

_HEADINGS = {"burst_bytes": "B", "stride_bytes": "S", "working_set_bytes": "W", "second_value": "equals"}
_LEFT_OUT_OF_TEXT = ("unit", "second_unit", "source")


def summary_lines(analysis: MemoryAnalysis) -> list[Line]:
    """Return all results: throughputs, rows that are not used, latencies, refreshes, comparisons."""
    points = analysis.throughput
    lines = [_throughput(point) for point in points]
    lines += [_unused(row) for row in analysis.unused]
    for idle in analysis.idle:
        lines += _latencies(idle)
    for trace in analysis.traces:
        lines += _trace_lines(trace)
    lines += [_ratio("stride_fall", comparison) for comparison in falls_with_stride(points)]
    lines += [_ratio("policy", comparison) for comparison in policies(points)]
    lines += [_ratio("locality", comparison) for comparison in locality(points)]
    lines += [_ratio("write_read", comparison) for comparison in writes_against_reads(points)]
    lines += _axi_jumps(analysis)
    return lines


def _throughput(point: Throughput) -> Line:
    return Line(
        memory=point.profile,
        quantity="throughput",
        policy=point.policy,
        switch=point.switch,
        direction=point.direction,
        engines=engines_text(point.engines),
        burst_bytes=str(point.burst_bytes),
        stride_bytes=str(point.stride_bytes),
        working_set_bytes=str(point.working_set_bytes),
        value=point.total_gbps,
        unit="GB/s",
        second_value=point.efficiency,
        second_unit="of_peak",
        corrections=";".join(point.corrections),
        flags=";".join(point.flags),
        origin=origin_text(point.origin, unvalidated=point.unvalidated, separator=","),
        source=" ".join(point.source_rows),
    )


def _unused(row: MemoryRow) -> Line:
    return Line(
        memory=f"{row.board}/{row.memory}" if row.board else "unknown",
        quantity="throughput",
        policy=row.policy,
        switch=row.switch,
        direction=row.direction,
        engines="" if row.channel is None else str(row.channel),
        burst_bytes=_text(row.burst_bytes),
        stride_bytes=_text(row.stride_bytes),
        working_set_bytes=_text(row.working_set_bytes),
        unit="GB/s",
        second_value=row.reported_gbps,
        second_unit="GB/s_printed",
        corrections=";".join(row.corrections),
        flags=";".join(row.flags),
        origin=origin_text(row.origin),
        source=f"{row.source_file}:{row.source_line}",
    )


def _text(value: object) -> str:
    return "" if value is None else str(value)


def _latencies(idle: IdleLatency) -> list[Line]:
    way = idle.way
    found: list[tuple[str, int | None, int]] = []
    for state in PAGE_STATES:
        level = idle.states.get(state)
        cycles, accesses = (None, 0) if level is None else (level.cycles, level.accesses)
        found.append((f"page_{state}", cycles, accesses))
    found += [("latency_level", level.cycles, level.accesses) for level in idle.other]
    return [
        Line(
            memory=way.profile,
            quantity=quantity,
            policy=way.policy,
            switch=way.switch,
            direction="read",
            engines=_text(way.channel),
            burst_bytes=_text(way.burst_bytes),
            value=cycles,
            unit="cycles",
            second_value=_time(cycles, way.clock_mhz, NS_PER_US),
            second_unit="ns",
            accesses=accesses,
            corrections=";".join(idle.corrections),
            flags=";".join(idle.flags),
            origin=origin_text(way.origin, unvalidated=idle.unvalidated, separator=","),
            source=" ".join(idle.sources),
        )
        for quantity, cycles, accesses in found
    ]


def _time(cycles: float | None, clock_mhz: float | None, per_us: float) -> float | None:
    return None if cycles is None or clock_mhz is None else cycles / clock_mhz * per_us


def _trace_lines(trace: Trace) -> list[Line]:
    way, refresh = trace.way, trace.refresh
    found: list[tuple[str, float | None, str, float | None, str, int | None]] = []
    if trace.mean_cycles is not None:
        mean_ns = _time(trace.mean_cycles, way.clock_mhz, NS_PER_US)
        found.append(("latency_mean", trace.mean_cycles, "cycles", mean_ns, "ns", None))
    if refresh.positions:
        count = len(refresh.positions)
        interval_us = trace.refresh_interval_us
        found.append(("refresh_interval", refresh.interval_cycles, "cycles", interval_us, "us", count))
        found.append(("refresh_spacing", refresh.spacing_accesses, "accesses", None, "", count))
        found.append(("refresh_share", refresh.time_share, "share", refresh.wait_cycles, "cycles", count))
    irregular = ("irregular",) if refresh.regular is False else ()
    return [
        Line(
            memory=way.profile,
            quantity=quantity,
            policy=way.policy,
            switch=way.switch,
            direction="read",
            engines=_text(way.channel),
            burst_bytes=_text(way.burst_bytes),
            stride_bytes=_text(trace.stride_bytes),
            working_set_bytes=_text(trace.working_set_bytes),
            value=value,
            unit=unit,
            second_value=second_value,
            second_unit=second_unit,
            accesses=accesses,
            corrections=";".join(trace.corrections),
            flags=";".join((*trace.flags, *(irregular if quantity.startswith("refresh") else ()))),
            origin=origin_text(way.origin, unvalidated=trace.unvalidated, separator=","),
            source=trace.source,
        )
        for quantity, value, unit, second_value, second_unit, accesses in found
    ]


def _ratio(quantity: str, comparison: Comparison) -> Line:
    one, other = comparison.one, comparison.other

    def both(name: str) -> str:
        values = [str(getattr(point, name)) for point in (one, other)]
        return values[0] if comparison.quantity != name else "/".join(values)

    return Line(
        memory=one.profile,
        quantity=quantity,
        policy=both("policy"),
        switch=one.switch,
        direction=both("direction"),
        engines=engines_text(one.engines),
        burst_bytes=both("burst_bytes"),
        stride_bytes=both("stride_bytes"),
        working_set_bytes=both("working_set_bytes"),
        value=comparison.ratio,
        unit="ratio",
        origin=origin_text(one.origin, unvalidated=comparison.unvalidated, separator=","),
        source=" ".join((*one.source_rows, *other.source_rows)),
    )


def _axi_jumps(analysis: MemoryAnalysis) -> list[Line]:
    lines = []
    for distance in analysis.axi_distances():
        jump = distance.jump()
        if jump is not None:
            before, after, cycles = jump
            lines.append(
                Line(
                    memory=distance.way.profile,
                    quantity="axi_jump",
                    policy=distance.way.policy,
                    switch=distance.way.switch,
                    direction="read",
                    engines=f"group{before}/{after}",
                    burst_bytes=_text(distance.way.burst_bytes),
                    value=cycles,
                    unit="cycles",
                    second_value=_time(cycles, distance.way.clock_mhz, NS_PER_US),
                    second_unit="ns",
                    origin=origin_text(distance.way.origin, unvalidated=distance.unvalidated, separator=","),
                    source=" ".join(source for idle in distance.channels.values() for source in idle.sources),
                )
            )
    return lines


def summary_text(lines: Iterable[Line]) -> str:
    """Return the summary as aligned text: a header, then lines of cells that are free of blanks.

    Shorter than the CSV: the three page states of an engine share a line, a memory's refresh is that of
    its longest trace, and of each kind of ratio the most extreme of a memory is shown.
    """
    names = [name for name in SUMMARY_COLUMNS if name not in _LEFT_OUT_OF_TEXT]
    rows = [[_HEADINGS.get(name, name) for name in names]]
    rows += [[cells[name] for name in names] for cells in _shortened(list(lines), names)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(names))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


_RATIOS = ("stride_fall", "policy", "locality", "write_read")


def _shortened(lines: Sequence[Line], names: Sequence[str]) -> list[dict[str, str]]:
    longest: dict[str, int] = {}
    extreme: dict[tuple[str, str], float] = {}
    for line in lines:
        if line.quantity.startswith("refresh"):
            longest[line.memory] = max(line.accesses or 0, longest.get(line.memory, 0))
        if line.quantity in _RATIOS:
            key = (line.memory, line.quantity)
            extreme[key] = max(_distance(line), extreme.get(key, 0.0))
    shown, states = [], []
    for line in lines:
        cells = {name: _cell(line, name) for name in names}
        if line.quantity.startswith("page_"):
            states.append(cells)
            if len(states) == len(PAGE_STATES):
                shown.append({name: _together([state[name] for state in states]) for name in names})
                states = []
        elif line.quantity.startswith("refresh"):
            if line.accesses == longest.pop(line.memory, None):
                shown += [
                    {name: _cell(other, name) for name in names}
                    for other in lines
                    if other.source == line.source and other.quantity.startswith("refresh")
                ]
        elif line.quantity in _RATIOS:
            if extreme.get((line.memory, line.quantity)) == _distance(line):
                del extreme[line.memory, line.quantity]
                shown.append(cells)
        elif line.quantity != "latency_mean":
            shown.append(cells)
    return shown


def _distance(line: Line) -> float:
    """Return how far a ratio is from 1, in octaves."""
    return abs(math.log2(line.value or 1.0))


def _together(cells: Sequence[str]) -> str:
    """Return equal cells once, others side by side: values that share a unit keep it once."""
    if len(set(cells)) == 1:
        return cells[0]
    if cells[0].startswith("page_"):
        return "page_" + "/".join(cell.removeprefix("page_") for cell in cells)
    units = {cell.lstrip("0123456789.") for cell in cells if cell != "-"}
    if len(units) == 1:
        unit = units.pop()
        return "/".join(cell.removesuffix(unit) if unit else cell for cell in cells) + unit
    return "/".join(cells)


def _cell(line: Line, name: str) -> str:
    value = getattr(line, name)
    if name == "value":
        return _with_unit(value, line.unit)
    if name == "second_value":
        return _with_unit(value, line.second_unit)
    if name in ("burst_bytes", "stride_bytes", "working_set_bytes"):
        value = "/".join(bytes_text(int(part)) for part in value.split("/") if part)
    return "-" if value in (None, "", UNKNOWN) else str(value).replace(" ", "_")


def _with_unit(value: float | None, unit: str) -> str:
    if value is None:
        return "-"
    if unit in ("share", "of_peak"):
        return f"{100 * value:.1f}%"
    return f"{value:.4g}{'x' if unit == 'ratio' else unit}"


def summary_csv(lines: Iterable[Line]) -> str:
    """Return the summary as CSV with `SUMMARY_COLUMNS`; unknown values are empty."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, SUMMARY_COLUMNS, lineterminator="\n")
    writer.writeheader()
    for line in lines:
        writer.writerow({name: "" if value is None else value for name, value in asdict(line).items()})
    return stream.getvalue()


def summary_json(analysis: MemoryAnalysis, lines: Sequence[Line]) -> str:
    """Return the summary as JSON: the lines, notes on the logs, and where they come from."""
    content: dict[str, Any] = {
        "simulated": "simulated" in analysis.origins(),
        "origins": sorted(origin or "unknown" for origin in analysis.origins()),
        "logs": analysis.logs,
        "results": [_plain(line) for line in lines],
        "notes": [
            {"file": file, "line": note.line, "flag": note.flag, "message": note.message}
            for file, note in analysis.notes
        ],
        "sources": analysis.sources,
    }
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _plain(line: Line) -> dict[str, Any]:
    # A stopped timer prints inf, for which JSON has no number.
    return {
        name: str(value) if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in asdict(line).items()
    }
