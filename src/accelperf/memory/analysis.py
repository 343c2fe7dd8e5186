"""What a set of Shuhai logs says about a memory: throughputs, page states and refreshes.

`analyse` takes logs that were read and returns everything as plain values; what the logs do not show
is None or empty, never a guess. `accelperf.memory_report` prints and draws it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accelperf.errors import InputError
from accelperf.memory.corrections import mean_latency_cycles
from accelperf.memory.latency_trace import (
    PAGE_STATES,
    Cycles,
    Level,
    Refresh,
    cycles_to_ns,
    find_levels,
    find_refresh,
    hit_level,
    page_state,
    slow_accesses,
    unwrapped,
)
from accelperf.memory.shuhai import Note, ShuhaiLog, ShuhaiRun
from accelperf.memory.table import MemoryRow
from accelperf.memory.throughput import Throughput, throughput_of_rows, unique_codes, unused_rows

CHANNELS_PER_GROUP = 4
"""AXI channels of one mini-switch of the HBM (Shuhai, FCCM 2020)."""

GROUPS_PER_STACK = 4
"""Mini-switches of one of the two HBM stacks of an Alveo U280 (Shuhai, FCCM 2020)."""

UNVALIDATED = "unvalidated"
"""Word in the ``source`` of a ``run.yaml`` that says that nothing published confirms the run."""


@dataclass(frozen=True)
class RunLog:
    """A log with the ``run.yaml`` that applies to it, if there is one."""

    log: ShuhaiLog
    run: ShuhaiRun | None

    @property
    def unvalidated(self) -> bool:
        """Whether ``run.yaml`` says that nothing published confirms the run."""
        return self.run is not None and UNVALIDATED in (self.run.source or "").lower()


@dataclass(frozen=True)
class Way:
    """The way from an engine to a memory: latencies on one way can be compared.

    Attributes
    ----------
    board, memory, policy, switch, origin : str
        As in the memory table; empty where it is not known.
    channel : int or None
        Engine.
    clock_mhz : float or None
        Clock of the engine [MHz].
    burst_bytes : int or None
        B [bytes].
    """

    board: str
    memory: str
    policy: str
    switch: str
    origin: str
    channel: int | None
    clock_mhz: float | None
    burst_bytes: int | None

    @property
    def profile(self) -> str:
        """``board/memory``; ``unknown`` without a ``run.yaml``."""
        return f"{self.board}/{self.memory}" if self.board else "unknown"


@dataclass(frozen=True)
class Trace:
    """A latency trace and what was found in it.

    Attributes
    ----------
    way : Way
        Where it was measured.
    stride_bytes, working_set_bytes : int or None
        Pattern as it happened [bytes].
    cycles : ndarray of int64, shape [accesses]
        Latencies [cycles].
    levels : tuple of Level
        Levels of the accesses that met no refresh.
    states : tuple of (str or None), shape [levels]
        State of each level; None where it is not known.
    refresh : Refresh
        Accesses that met a refresh.
    mean_cycles : float or None
        Mean over all N accesses of the run, from the speed that it printed [cycles].
    corrections, flags : tuple of str
        Codes of `accelperf.memory.corrections` of its rows, and of the notes on its log.
    unvalidated : bool
        Whether the log says of itself that nothing published confirms it.
    source : str
        ``file:line``.
    """

    way: Way
    stride_bytes: int | None
    working_set_bytes: int | None
    cycles: Cycles = field(repr=False)
    levels: tuple[Level, ...]
    states: tuple[str | None, ...]
    refresh: Refresh
    mean_cycles: float | None
    corrections: tuple[str, ...]
    flags: tuple[str, ...]
    unvalidated: bool
    source: str

    @property
    def refresh_interval_us(self) -> float | None:
        """Time from one refresh to the next [us]; None where the trace or the clock does not say it."""
        if self.refresh.interval_cycles is None or self.way.clock_mhz is None:
            return None
        return self.refresh.interval_cycles / self.way.clock_mhz

    def state_of_accesses(self) -> NDArray[np.str_]:
        """Return the state of each access, shape [accesses]: a page state, refresh or unknown."""
        names = np.full(len(self.cycles), "unknown", dtype="<U7")
        for level, state in zip(self.levels, self.states, strict=True):
            names[(self.cycles >= level.low) & (self.cycles <= level.high)] = state or "unknown"
        names[slow_accesses(self.cycles)] = "refresh"
        return names

    def levels_of(self, state: str | None) -> list[Level]:
        """Return the levels of a state; of None, those whose state is not known."""
        return [level for level, its in zip(self.levels, self.states, strict=True) if its == state]


@dataclass(frozen=True)
class IdleLatency:
    """Latencies of an idle memory on one way, from all traces of it.

    Attributes
    ----------
    way : Way
        The way.
    states : Mapping of str to Level
        What was seen of `PAGE_STATES`: the cycles of the level with the most accesses, and the
        accesses of all.
    other : tuple of Level
        Levels whose state is not known.
    corrections, flags : tuple of str
        Codes of any of the traces.
    unvalidated : bool
        Whether any trace is.
    sources : tuple of str
        ``file:line`` of the traces.
    """

    way: Way
    states: Mapping[str, Level]
    other: tuple[Level, ...]
    corrections: tuple[str, ...]
    flags: tuple[str, ...]
    unvalidated: bool
    sources: tuple[str, ...]

    def nanoseconds(self, state: str) -> float | None:
        """Return the latency of a state [ns]; None where it was not seen or the clock is not known."""
        level, clock = self.states.get(state), self.way.clock_mhz
        return None if level is None or clock is None else cycles_to_ns(level.cycles, clock)


@dataclass(frozen=True)
class AxiDistance:
    """Idle latency by the distance of the AXI channel from one memory channel, the switch being on.

    Attributes
    ----------
    way : Way
        The way, without a channel.
    channels : Mapping of int to IdleLatency
        Latencies by AXI channel; each has a page hit.
    """

    way: Way
    channels: Mapping[int, IdleLatency]

    @property
    def unvalidated(self) -> bool:
        """Whether any of the latencies is."""
        return any(idle.unvalidated for idle in self.channels.values())

    def hit_by_group(self) -> dict[int, int]:
        """Return the page hit by AXI group [cycles], the least of the group's channels."""
        found: dict[int, int] = {}
        for channel, idle in sorted(self.channels.items()):
            group = channel // CHANNELS_PER_GROUP
            cycles = idle.states["hit"].cycles
            found[group] = min(cycles, found.get(group, cycles))
        return found

    def jump(self) -> tuple[int, int, int] | None:
        """Return the greatest step between measured groups: group before, group after, cycles.

        None where fewer than three groups were measured, or no step is twice the next greatest.
        """
        steps = sorted(
            (before - after, first, second)
            for (first, before), (second, after) in itertools.pairwise(self.hit_by_group().items())
        )
        if len(steps) < 2 or steps[0][0] >= 0 or steps[0][0] > 2 * steps[1][0]:
            return None
        fall, first, second = steps[0]
        return first, second, -fall


@dataclass(frozen=True)
class MemoryAnalysis:
    """Everything that a set of logs says.

    Attributes
    ----------
    throughput : tuple of Throughput
        By profile, policy, direction, engines, burst, working set and stride.
    unused : tuple of MemoryRow
        Rows that say nothing about the throughput of a pattern, without those of latency traces.
    traces : tuple of Trace
        Latency traces, by profile and channel.
    idle : tuple of IdleLatency
        Idle latencies, by profile and channel.
    notes : tuple of (str, Note)
        What is wrong or unknown, and in which file.
    sources : Mapping of str to tuple of str
        What the ``run.yaml`` files say about where the logs come from, by profile.
    logs : int
        Files that hold a result.
    """

    throughput: tuple[Throughput, ...]
    unused: tuple[MemoryRow, ...]
    traces: tuple[Trace, ...]
    idle: tuple[IdleLatency, ...]
    notes: tuple[tuple[str, Note], ...]
    sources: Mapping[str, tuple[str, ...]]
    logs: int

    def notes_by_kind(self) -> list[tuple[str, Note, int]]:
        """Return the notes, those of one file with one flag together: file, the first, how many."""
        kinds: dict[tuple[str, str], list[Note]] = {}
        for file, note in self.notes:
            kinds.setdefault((file, note.flag), []).append(note)
        return [(file, notes[0], len(notes)) for (file, _), notes in kinds.items()]

    def origins(self) -> set[str]:
        """Return where the results come from; an empty name stands for what is not known."""
        return {
            *(point.origin for point in self.throughput),
            *(row.origin for row in self.unused),
            *(trace.way.origin for trace in self.traces),
        }

    def profiles(self) -> list[str]:
        """Return the memories ``board/memory`` with a result, sorted."""
        return sorted(
            {point.profile for point in self.throughput} | {trace.way.profile for trace in self.traces}
        )

    def axi_distances(self) -> list[AxiDistance]:
        """Return the latencies by AXI channel of the memories where two channels or more have a hit."""
        found: dict[Way, dict[int, IdleLatency]] = {}
        for idle in self.idle:
            if idle.way.channel is not None and idle.way.switch == "on" and "hit" in idle.states:
                found.setdefault(replace(idle.way, channel=None), {})[idle.way.channel] = idle
        return [AxiDistance(way, channels) for way, channels in found.items() if len(channels) > 1]


def analyse(logs: Sequence[RunLog]) -> MemoryAnalysis:
    """Return what logs say.

    Parameters
    ----------
    logs : sequence of RunLog
        Logs that were read; configuration files among them are passed over.

    Returns
    -------
    MemoryAnalysis
        Throughputs, page states, refreshes and notes.

    Raises
    ------
    InputError
        If no log holds a speed or a latency.
    """
    results = [item for item in logs if item.log.rows or item.log.latency is not None]
    if not results:
        names = ", ".join(item.log.path.as_posix() for item in logs[:3])
        raise InputError("a Shuhai log with a speed or a latency", f"none ({names or 'no file'})")
    points = [
        point for item in results for point in throughput_of_rows(item.log.rows, unvalidated=item.unvalidated)
    ]
    found = sorted((trace for item in results if (trace := _trace(item)) is not None), key=_trace_order)
    traces = sorted(_with_states(found), key=_trace_order)
    sources: dict[str, dict[str, None]] = {}
    for item in results:
        if item.run is not None:
            stated = sources.setdefault(f"{item.run.board}/{item.run.memory}", {})
            stated[item.run.source or "no source stated"] = None
    return MemoryAnalysis(
        throughput=tuple(sorted(points, key=_order)),
        unused=tuple(row for item in results for row in _unused(item)),
        traces=tuple(traces),
        idle=tuple(_idle_latencies(traces)),
        notes=tuple((item.log.path.as_posix(), note) for item in results for note in item.log.notes),
        sources={profile: tuple(stated) for profile, stated in sorted(sources.items())},
        logs=len(results),
    )


def _order(point: Throughput) -> tuple[Any, ...]:
    return (
        point.profile, point.policy, point.switch, point.direction, len(point.engines), point.engines,
        point.burst_bytes, point.working_set_bytes, point.stride_bytes, point.source_rows,
    )  # fmt: skip


def _trace_order(trace: Trace) -> tuple[Any, ...]:
    way = trace.way
    numbers = (way.channel, way.burst_bytes, trace.stride_bytes, trace.working_set_bytes)
    known = tuple(-1 if number is None else number for number in numbers)
    return way.profile, way.policy, way.switch, *known, len(trace.cycles), trace.source


def _unused(item: RunLog) -> list[MemoryRow]:
    """Return the rows that neither throughputs nor the latencies of their log stand for."""
    has_trace = item.log.latency is not None and item.log.latency.cycles is not None
    return [row for row in unused_rows(item.log.rows) if not (has_trace and _is_latency_row(row))]


def _trace(item: RunLog) -> Trace | None:
    latency, run = item.log.latency, item.run
    if latency is None or latency.cycles is None or not len(latency.cycles):
        return None
    memory = "" if run is None else run.memory
    cycles = unwrapped(latency.cycles, memory)
    clock = None if run is None else run.engine_clock_mhz
    levels = find_levels(cycles[~slow_accesses(cycles)])
    hit = hit_level(levels, clock_mhz=clock, memory=memory, stride_bytes=latency.stride_bytes)
    return Trace(
        way=Way(
            board="" if run is None else run.board,
            memory=memory,
            policy="" if run is None else run.policy or "",
            switch="" if run is None else run.switch or "",
            origin="" if run is None else run.origin,
            channel=latency.channel,
            clock_mhz=clock,
            burst_bytes=latency.burst_bytes,
        ),
        stride_bytes=latency.stride_bytes,
        working_set_bytes=latency.working_set_bytes,
        cycles=cycles,
        levels=levels,
        states=_states(levels, None if hit is None else hit.cycles, clock),
        refresh=find_refresh(cycles),
        mean_cycles=_mean_cycles(item.log),
        corrections=unique_codes(
            [*_of_channel(item.log), ["latency_stride"] if latency.stride_bytes else []]
        ),
        flags=tuple(dict.fromkeys(note.flag for note in item.log.notes)),
        unvalidated=item.unvalidated,
        source=f"{item.log.path.as_posix()}:{latency.source_line}",
    )


def _of_channel(log: ShuhaiLog) -> list[tuple[str, ...]]:
    return [row.corrections for row in log.rows if _is_latency_row(row)]


def _is_latency_row(row: MemoryRow) -> bool:
    """Return whether a row is that of the latency channel, which carries its stride's correction."""
    return row.mode == "latency" and "latency_stride" in row.corrections


def _states(levels: Iterable[Level], hit: int | None, clock_mhz: float | None) -> tuple[str | None, ...]:
    return tuple(None if hit is None else page_state(level, hit, clock_mhz) for level in levels)


def _mean_cycles(log: ShuhaiLog) -> float | None:
    """Return the mean latency that the speed of the latency channel stands for."""
    for row in log.rows:
        if not _is_latency_row(row):
            continue
        if not row.reported_gbps or not math.isfinite(row.reported_gbps) or row.burst_bytes is None:
            return None
        # The speed was printed for the burst as given, which a wrapped burst no longer is.
        if row.memory and "burst_wrap" not in row.corrections:
            return mean_latency_cycles(row.memory, row.burst_bytes, row.reported_gbps)
    return None


def _by_way(traces: Iterable[Trace]) -> dict[Way, list[Trace]]:
    ways: dict[Way, list[Trace]] = {}
    for trace in traces:
        ways.setdefault(trace.way, []).append(trace)
    return ways


def _with_states(traces: Sequence[Trace]) -> list[Trace]:
    """Name the levels of traces that do not show which is the hit by one of the same way that does."""
    named = []
    for way, its in _by_way(traces).items():
        hits = [level for trace in its for level in trace.levels_of("hit")]
        hit = max(hits, key=lambda level: level.accesses).cycles if hits else None
        for trace in its:
            states = trace.states if "hit" in trace.states else _states(trace.levels, hit, way.clock_mhz)
            named.append(replace(trace, states=states))
    return named


def _idle_latencies(traces: Sequence[Trace]) -> list[IdleLatency]:
    return [
        IdleLatency(
            way=way,
            states={
                state: _pooled(levels)
                for state in PAGE_STATES
                if (levels := [level for trace in its for level in trace.levels_of(state)])
            },
            other=tuple(level for trace in its for level in trace.levels_of(None)),
            corrections=unique_codes(trace.corrections for trace in its),
            flags=unique_codes(trace.flags for trace in its),
            unvalidated=any(trace.unvalidated for trace in its),
            sources=tuple(trace.source for trace in its),
        )
        for way, its in _by_way(traces).items()
    ]


def _pooled(levels: Sequence[Level]) -> Level:
    return Level(
        cycles=max(levels, key=lambda level: level.accesses).cycles,
        low=min(level.low for level in levels),
        high=max(level.high for level in levels),
        accesses=sum(level.accesses for level in levels),
    )
