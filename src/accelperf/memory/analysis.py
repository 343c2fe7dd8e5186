"""What a set of Shuhai logs says about a memory: throughputs, page states and refreshes.

`analyse` takes logs that were read and returns everything as plain values; what the logs do not show
is None or an empty tuple, never a guess. `accelperf.memory_report` prints and draws it.
"""

from __future__ import annotations

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
from accelperf.memory.throughput import Throughput, throughput_of_rows, unused_rows

CHANNELS_PER_GROUP = 4
"""AXI channels of one mini-switch of the HBM (Shuhai, FCCM 2020)."""

CHANNELS_PER_STACK = 16
"""AXI channels of one of the two HBM stacks (Shuhai, FCCM 2020: an Alveo U280 with 32)."""

UNVALIDATED = "unvalidated"
"""Word in the ``source`` of a ``run.yaml`` that says that nothing published confirms the run."""


def profile_name(board: str, memory: str) -> str:
    """Return ``board/memory``, the name of a memory profile; without a ``run.yaml`` it is not known."""
    return f"{board}/{memory}" if board else "unknown"


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
class Trace:
    """A latency trace and what was found in it.

    Attributes
    ----------
    board, memory, policy, switch, origin : str
        As in the memory table; empty where it is not known.
    channel : int or None
        Engine.
    clock_mhz : float or None
        Clock of the engine [MHz].
    burst_bytes, stride_bytes, working_set_bytes : int or None
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
    unvalidated : bool
        Whether the log says of itself that nothing published confirms it.
    source : str
        ``file:line``.
    """

    board: str
    memory: str
    policy: str
    switch: str
    origin: str
    channel: int | None
    clock_mhz: float | None
    burst_bytes: int | None
    stride_bytes: int | None
    working_set_bytes: int | None
    cycles: Cycles = field(repr=False)
    levels: tuple[Level, ...]
    states: tuple[str | None, ...]
    refresh: Refresh
    mean_cycles: float | None
    unvalidated: bool
    source: str

    @property
    def profile(self) -> str:
        """``board/memory``, or that it is not known."""
        return profile_name(self.board, self.memory)

    def state_of_accesses(self) -> NDArray[np.str_]:
        """Return the state of each access, shape [accesses]: a page state, refresh or unknown."""
        names = np.full(len(self.cycles), "unknown", dtype="<U7")
        for level, state in zip(self.levels, self.states, strict=True):
            names[(self.cycles >= level.low) & (self.cycles <= level.high)] = state or "unknown"
        names[slow_accesses(self.cycles)] = "refresh"
        return names


@dataclass(frozen=True)
class IdleLatency:
    """Latencies of an idle memory on one way, from all traces of it.

    Attributes
    ----------
    board, memory, policy, switch, origin, channel, clock_mhz, burst_bytes
        The way, as in `Trace`.
    states : Mapping of str to Level
        What was seen of `PAGE_STATES`; the level with the most accesses gives the cycles, all
        together the number of accesses.
    other : tuple of Level
        Levels whose state is not known.
    unvalidated : bool
        Whether any trace is.
    sources : tuple of str
        ``file:line`` of the traces.
    """

    board: str
    memory: str
    policy: str
    switch: str
    origin: str
    channel: int | None
    clock_mhz: float | None
    burst_bytes: int | None
    states: Mapping[str, Level]
    other: tuple[Level, ...]
    unvalidated: bool
    sources: tuple[str, ...]

    @property
    def profile(self) -> str:
        """``board/memory``, or that it is not known."""
        return profile_name(self.board, self.memory)

    def nanoseconds(self, state: str) -> float | None:
        """Return the latency of a state [ns], None where it was not seen or the clock is not known."""
        level = self.states.get(state)
        return None if level is None or self.clock_mhz is None else cycles_to_ns(level.cycles, self.clock_mhz)


@dataclass(frozen=True)
class AxiDistance:
    """Page hits by AXI group on the way to one memory channel (Shuhai, FCCM 2020).

    Attributes
    ----------
    profile, policy, switch, origin : str
        The memory.
    clock_mhz : float or None
        Clock of the engines [MHz].
    hits : Mapping of int to Level
        Page hit by AXI channel.
    unvalidated : bool
        Whether any trace is.
    """

    profile: str
    policy: str
    switch: str
    origin: str
    clock_mhz: float | None
    hits: Mapping[int, Level]
    unvalidated: bool

    def groups(self) -> dict[int, int]:
        """Return the page hit [cycles] by AXI group, the least of its channels."""
        found: dict[int, int] = {}
        for channel, level in sorted(self.hits.items()):
            group = channel // CHANNELS_PER_GROUP
            found[group] = min(level.cycles, found.get(group, level.cycles))
        return found

    def jump(self) -> tuple[int, int, int] | None:
        """Return the greatest step between measured groups: group before, group after, cycles.

        None where fewer than three groups were measured, or no step is twice the next greatest.
        """
        groups = list(self.groups().items())
        steps = [
            (cycles - before, first, second)
            for (first, before), (second, cycles) in zip(groups, groups[1:], strict=False)
        ]
        if len(steps) < 2:
            return None
        steps.sort(key=lambda step: (-step[0], step[1]))
        greatest, first, second = steps[0]
        return (first, second, greatest) if greatest > 0 and greatest >= 2 * steps[1][0] else None


@dataclass(frozen=True)
class MemoryAnalysis:
    """Everything that a set of logs says.

    Attributes
    ----------
    throughput : tuple of Throughput
        By profile, policy, direction, engines, burst, working set and stride.
    unused : tuple of MemoryRow
        Throughput rows that say nothing about a pattern.
    traces : tuple of Trace
        Latency traces.
    idle : tuple of IdleLatency
        Idle latencies by memory and engine.
    notes : tuple of (str, Note)
        What is wrong or unknown in which file.
    sources : Mapping of str to tuple of str
        What the ``run.yaml`` files say about where the logs come from, by board and memory.
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

    @property
    def simulated(self) -> bool:
        """Whether anything in it was not measured."""
        return any(item.origin not in ("measured", "") for item in (*self.throughput, *self.traces))

    def profiles(self) -> list[str]:
        """Return the names ``board/memory`` of all memories, sorted."""
        return sorted({item.profile for item in (*self.throughput, *self.traces)})

    def axi_distances(self) -> list[AxiDistance]:
        """Return the page hits by AXI channel, where the switch is on and two channels or more were measured."""
        ways: dict[tuple[Any, ...], list[IdleLatency]] = {}
        for idle in self.idle:
            if idle.channel is not None and "hit" in idle.states and idle.switch == "on":
                key = (idle.profile, idle.policy, idle.switch, idle.origin, idle.clock_mhz, idle.burst_bytes)
                ways.setdefault(key, []).append(idle)
        return [
            AxiDistance(
                *key[:5],
                hits={idle.channel: idle.states["hit"] for idle in found if idle.channel is not None},
                unvalidated=any(idle.unvalidated for idle in found),
            )
            for key, found in ways.items()
            if len({idle.channel for idle in found}) > 1
        ]


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
        raise InputError("a Shuhai log with a speed or a latency", f"none in {len(logs)} files")
    points = [
        point for item in results for point in throughput_of_rows(item.log.rows, unvalidated=item.unvalidated)
    ]
    traces = sorted((trace for item in results if (trace := _trace(item)) is not None), key=_trace_order)
    traces = sorted(_with_states(traces), key=_trace_order)
    sources: dict[str, dict[str, None]] = {}
    for item in results:
        if item.run is not None:
            stated = sources.setdefault(f"{item.run.board}/{item.run.memory}", {})
            stated[item.run.source or "no source stated"] = None
    return MemoryAnalysis(
        throughput=tuple(sorted(points, key=_order)),
        unused=tuple(row for item in results for row in unused_rows(item.log.rows)),
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
    numbers = (trace.channel, trace.burst_bytes, trace.stride_bytes, trace.working_set_bytes)
    known = tuple(-1 if number is None else number for number in numbers)
    return trace.profile, trace.policy, trace.switch, *known, len(trace.cycles), trace.source


def _trace(item: RunLog) -> Trace | None:
    latency, run = item.log.latency, item.run
    if latency is None or latency.cycles is None or not len(latency.cycles):
        return None
    memory = None if run is None else run.memory
    cycles = unwrapped(latency.cycles, memory)
    clock = None if run is None else run.engine_clock_mhz
    levels = find_levels(cycles[~slow_accesses(cycles)])
    hit = hit_level(levels, clock_mhz=clock, memory=memory, stride_bytes=latency.stride_bytes)
    return Trace(
        board="" if run is None else run.board,
        memory=memory or "",
        policy="" if run is None else run.policy or "",
        switch="" if run is None else run.switch or "",
        origin="" if run is None else run.origin,
        channel=latency.channel,
        clock_mhz=clock,
        burst_bytes=latency.burst_bytes,
        stride_bytes=latency.stride_bytes,
        working_set_bytes=latency.working_set_bytes,
        cycles=cycles,
        levels=levels,
        states=_states(levels, None if hit is None else hit.cycles, clock),
        refresh=find_refresh(cycles),
        mean_cycles=_mean_cycles(item.log),
        unvalidated=item.unvalidated,
        source=f"{item.log.path.as_posix()}:{latency.source_line}",
    )


def _states(levels: Iterable[Level], hit: int | None, clock_mhz: float | None) -> tuple[str | None, ...]:
    return tuple(None if hit is None else page_state(level, hit, clock_mhz) for level in levels)


def _mean_cycles(log: ShuhaiLog) -> float | None:
    channel = None if log.latency is None else log.latency.channel
    for row in log.rows:
        usable = row.mode == "latency" and row.channel == channel and row.direction == "read"
        # The speed was printed for the burst as given, which a wrapped burst no longer is.
        if usable and row.reported_gbps and np.isfinite(row.reported_gbps) and row.burst_bytes:
            if "burst_wrap" in row.corrections or not row.memory:
                return None
            return mean_latency_cycles(row.memory, row.burst_bytes, row.reported_gbps)
    return None


def _ways(traces: Iterable[Trace]) -> dict[tuple[Any, ...], list[Trace]]:
    """Return traces by the way from the engine to the memory."""
    ways: dict[tuple[Any, ...], list[Trace]] = {}
    for trace in traces:
        key = (
            trace.board, trace.memory, trace.policy, trace.switch, trace.origin, trace.channel,
            trace.clock_mhz, trace.burst_bytes,
        )  # fmt: skip
        ways.setdefault(key, []).append(trace)
    return ways


def _with_states(traces: Sequence[Trace]) -> list[Trace]:
    """Name the levels of traces that do not show which is the hit, by one of the same way that does."""
    named = []
    for way in _ways(traces).values():
        hits = [level for trace in way for level in _levels_of(trace, "hit")]
        hit = max(hits, key=lambda level: level.accesses).cycles if hits else None
        for trace in way:
            states = trace.states
            if "hit" not in states:
                states = _states(trace.levels, hit, trace.clock_mhz)
            named.append(replace(trace, states=states))
    return named


def _levels_of(trace: Trace, state: str | None) -> list[Level]:
    return [level for level, its in zip(trace.levels, trace.states, strict=True) if its == state]


def _idle_latencies(traces: Sequence[Trace]) -> list[IdleLatency]:
    return [
        IdleLatency(
            *key,
            states={
                state: _pooled(levels)
                for state in PAGE_STATES
                if (levels := [level for trace in way for level in _levels_of(trace, state)])
            },
            other=tuple(level for trace in way for level in _levels_of(trace, None)),
            unvalidated=any(trace.unvalidated for trace in way),
            sources=tuple(trace.source for trace in way),
        )
        for key, way in _ways(traces).items()
    ]


def _pooled(levels: Sequence[Level]) -> Level:
    return Level(
        cycles=max(levels, key=lambda level: level.accesses).cycles,
        low=min(level.low for level in levels),
        high=max(level.high for level in levels),
        accesses=sum(level.accesses for level in levels),
    )
