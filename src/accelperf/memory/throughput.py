"""Throughput of a memory by access pattern: what was measured, and what differs by one thing alone.

Works on the rows of logs (`accelperf.memory.table.MemoryRow`), after all corrections. A comparison
sets two measurements beside each other that are equal in everything but one quantity, so that their
ratio says what that quantity does; nothing is interpolated or scaled here.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from accelperf.memory.table import MemoryRow

FALL_RATIO = 0.75
"""Ratio of the throughputs of two strides next to each other from which on it is called a fall."""


@dataclass(frozen=True)
class Throughput:
    """Throughput of one access pattern in one run.

    Attributes
    ----------
    board, memory, policy, switch, direction, origin : str
        As in the memory table.
    burst_bytes, stride_bytes, working_set_bytes : int
        B, S and W [bytes].
    engines : tuple of int
        Engines at work at once, by number; -1 where a log does not say which.
    targets : int
        Memory channels that they reached.
    gbps : float
        Mean of the engines [GB/s].
    total_gbps : float
        Sum of the engines [GB/s].
    efficiency : float
        Share of the peak of the targets that was reached.
    peak_gbps : float
        Peak of one memory channel [GB/s].
    corrections, flags : tuple of str
        Codes of `accelperf.memory.corrections` of any of the rows.
    unvalidated : bool
        Whether the log says of itself that nothing published confirms it.
    source_rows : tuple of str
        ``file:line`` of each row.
    """

    board: str
    memory: str
    policy: str
    switch: str
    direction: str
    burst_bytes: int
    stride_bytes: int
    working_set_bytes: int
    engines: tuple[int, ...]
    targets: int
    gbps: float
    total_gbps: float
    efficiency: float
    peak_gbps: float
    corrections: tuple[str, ...]
    flags: tuple[str, ...]
    origin: str
    unvalidated: bool
    source_rows: tuple[str, ...]

    @property
    def profile(self) -> str:
        """``board/memory``, the name of the memory profile."""
        return f"{self.board}/{self.memory}"

    @property
    def target_gbps(self) -> float:
        """Throughput of one memory channel [GB/s]."""
        return self.efficiency * self.peak_gbps


def throughput_of_rows(rows: Iterable[MemoryRow], *, unvalidated: bool = False) -> list[Throughput]:
    """Return the throughputs of one log, one entry a pattern and direction.

    Parameters
    ----------
    rows : iterable of MemoryRow
        Rows of one log. Those without an efficiency or a pattern are left out (see `unused_rows`).
    unvalidated : bool
        Goes into every entry.

    Returns
    -------
    list of Throughput
        In the order in which the patterns first appear.
    """
    patterns: dict[tuple[Any, ...], list[MemoryRow]] = {}
    for row in rows:
        if _is_used(row):
            key = (row.direction, row.burst_bytes, row.stride_bytes, row.working_set_bytes)
            patterns.setdefault(key, []).append(row)
    return [_throughput(group, unvalidated) for group in patterns.values()]


def unused_rows(rows: Iterable[MemoryRow]) -> list[MemoryRow]:
    """Return the rows that say nothing about the throughput of a pattern; their flags say why."""
    return [row for row in rows if not _is_used(row)]


def _is_used(row: MemoryRow) -> bool:
    # A policy that is not stated keeps a row from M_EFF, but its throughput was measured.
    pattern = (row.burst_bytes, row.stride_bytes, row.working_set_bytes)
    return row.mode == "throughput" and row.efficiency is not None and None not in pattern


def _throughput(rows: Sequence[MemoryRow], unvalidated: bool) -> Throughput:
    first = rows[0]
    # Rows that shared a target carry its efficiency already; rows of unknown target had their own.
    by_target: dict[tuple[bool, int | None], float] = {}
    for row in rows:
        own = row.target_channel is None
        by_target.setdefault((own, row.channel if own else row.target_channel), row.efficiency or 0.0)
    speeds = [row.corrected_gbps or 0.0 for row in rows]
    return Throughput(
        board=first.board,
        memory=first.memory,
        policy=first.policy,
        switch=first.switch,
        direction=first.direction,
        burst_bytes=first.burst_bytes or 0,
        stride_bytes=first.stride_bytes or 0,
        working_set_bytes=first.working_set_bytes or 0,
        engines=tuple(-1 if row.channel is None else row.channel for row in rows),
        targets=len(by_target),
        gbps=sum(speeds) / len(speeds),
        total_gbps=sum(speeds),
        efficiency=sum(by_target.values()) / len(by_target),
        peak_gbps=first.peak_gbps or 0.0,
        corrections=unique_codes(row.corrections for row in rows),
        flags=unique_codes(row.flags for row in rows),
        origin=first.origin,
        unvalidated=unvalidated,
        source_rows=tuple(f"{row.source_file}:{row.source_line}" for row in rows),
    )


def unique_codes(codes: Iterable[Sequence[str]]) -> tuple[str, ...]:
    """Return all codes of several rows, each once, in the order of their appearance."""
    return tuple(dict.fromkeys(itertools.chain.from_iterable(codes)))


@dataclass(frozen=True)
class Comparison:
    """Two measurements that differ in one quantity.

    Attributes
    ----------
    quantity : str
        What differs, an attribute of `Throughput`.
    one, other : Throughput
        The measurements.
    """

    quantity: str
    one: Throughput
    other: Throughput

    @property
    def ratio(self) -> float:
        """Throughput of a memory channel of `one` over that of `other`."""
        return self.one.efficiency / self.other.efficiency

    @property
    def unvalidated(self) -> bool:
        """Whether either is."""
        return self.one.unvalidated or self.other.unvalidated


_SETTINGS: tuple[str, ...] = (
    "board", "memory", "origin", "switch", "policy", "direction", "burst_bytes", "working_set_bytes",
    "stride_bytes", "targets", "peak_gbps",
)  # fmt: skip
"""What has to be equal for two measurements to be compared, apart from the number of engines."""


def series(points: Sequence[Throughput], quantity: str) -> list[list[Throughput]]:
    """Return measurements in groups that are equal in everything but one quantity.

    Parameters
    ----------
    points : sequence of Throughput
        Measurements.
    quantity : str
        The quantity, an attribute of `Throughput`.

    Returns
    -------
    list of list of Throughput
        Groups in sorted order, each sorted by the quantity; measurements that are equal in it too
        (repeats, other engines) are replaced by one with their mean efficiency.
    """
    groups: dict[tuple[Any, ...], dict[Any, list[Throughput]]] = {}
    for point in points:
        names = [name for name in _SETTINGS if name != quantity]
        key = (*(getattr(point, name) for name in names), len(point.engines))
        groups.setdefault(key, {}).setdefault(getattr(point, quantity), []).append(point)
    return [[_mean(groups[key][value]) for value in sorted(groups[key])] for key in sorted(groups)]


def _mean(points: Sequence[Throughput]) -> Throughput:
    first, count = points[0], len(points)
    if count == 1:
        return first
    return replace(
        first,
        engines=first.engines
        if len({point.engines for point in points}) == 1
        else (-1,) * len(first.engines),
        gbps=sum(point.gbps for point in points) / count,
        total_gbps=sum(point.total_gbps for point in points) / count,
        efficiency=sum(point.efficiency for point in points) / count,
        corrections=unique_codes(point.corrections for point in points),
        flags=unique_codes(point.flags for point in points),
        unvalidated=any(point.unvalidated for point in points),
        source_rows=tuple(itertools.chain.from_iterable(point.source_rows for point in points)),
    )


def locality(points: Sequence[Throughput]) -> list[Comparison]:
    """Return the smallest against the largest working set, pattern by pattern (Shuhai, Figure 7)."""
    return [
        Comparison("working_set_bytes", group[0], group[-1])
        for group in series(points, "working_set_bytes")
        if len(group) > 1
    ]


def writes_against_reads(points: Sequence[Throughput]) -> list[Comparison]:
    """Return writing against reading, pattern by pattern."""
    found = []
    for group in series(points, "direction"):
        by_direction = {point.direction: point for point in group}
        if {"read", "write"} <= set(by_direction):
            found.append(Comparison("direction", by_direction["write"], by_direction["read"]))
    return found


def policies(points: Sequence[Throughput]) -> list[Comparison]:
    """Return the best against the worst address mapping policy, pattern by pattern (Figure 6)."""
    found = []
    for group in series([point for point in points if point.policy], "policy"):
        if len(group) > 1:
            ranking = sorted(group, key=lambda point: point.efficiency)
            found.append(Comparison("policy", ranking[-1], ranking[0]))
    return found


def falls_with_stride(points: Sequence[Throughput]) -> list[Comparison]:
    """Return each pair of neighbouring strides between which the throughput falls (`FALL_RATIO`)."""
    return [
        comparison
        for group in series(points, "stride_bytes")
        for before, after in itertools.pairwise(group)
        if (comparison := Comparison("stride_bytes", after, before)).ratio <= FALL_RATIO
    ]


def contiguous_by_burst(points: Sequence[Throughput]) -> list[list[Throughput]]:
    """Return groups of contiguous accesses (stride = burst) by burst, two bursts or more each."""
    lines: dict[tuple[Any, ...], dict[int, list[Throughput]]] = {}
    names = [name for name in _SETTINGS if name not in ("burst_bytes", "stride_bytes")]
    for point in points:
        if point.burst_bytes == point.stride_bytes:
            key = (*(getattr(point, name) for name in names), len(point.engines))
            lines.setdefault(key, {}).setdefault(point.burst_bytes, []).append(point)
    return [
        [_mean(line[burst]) for burst in sorted(line)]
        for _, line in sorted(lines.items(), key=lambda item: item[0])
        if len(line) > 1
    ]


def by_engine(points: Sequence[Throughput]) -> list[list[Throughput]]:
    """Return groups of one pattern from two or more engines, each alone (Shuhai, Figure 8)."""
    groups: dict[tuple[Any, ...], dict[int, Throughput]] = {}
    for point in points:
        if len(point.engines) == 1 and point.engines[0] >= 0:
            key = tuple(getattr(point, name) for name in _SETTINGS)
            groups.setdefault(key, {})[point.engines[0]] = point
    return [
        [group[engine] for engine in sorted(group)]
        for _, group in sorted(groups.items(), key=lambda item: item[0])
        if len(group) > 1
    ]


@dataclass(frozen=True)
class Competition:
    """Engines that shared memory channels.

    Attributes
    ----------
    together : Throughput
        All of them at once.
    alone : Throughput or None
        The same pattern from one engine alone; None where it was not measured.
    """

    together: Throughput
    alone: Throughput | None


def competing(points: Sequence[Throughput]) -> list[Competition]:
    """Return the runs in which engines shared a memory channel, each beside one engine alone."""
    alone: Mapping[tuple[Any, ...], Throughput] = {
        _without_engines(point): point for point in points if len(point.engines) == 1
    }
    return [
        Competition(point, alone.get(_without_engines(point)))
        for point in points
        if len(point.engines) > point.targets
    ]


def _without_engines(point: Throughput) -> tuple[Any, ...]:
    return tuple(getattr(point, name) for name in _SETTINGS if name != "targets")


def best(points: Sequence[Throughput]) -> Throughput:
    """Return the measurement with the highest efficiency (the first of equal ones)."""
    return max(points, key=lambda point: point.efficiency)
