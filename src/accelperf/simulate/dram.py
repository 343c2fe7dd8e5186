"""A DRAM channel under the Shuhai benchmark: how long an access pattern takes, and why.

The model is a memory controller that keeps pages open and serves column commands in order. It looks
`MemoryTiming.window_beats` beats ahead: a beat whose row is not open gets its precharge and activate
as soon as it is in that window, its bank is free and tRRD, tFAW and tRC allow, activates in order
too. A refresh of all banks is due every tREFI; a column command that would come at or after that
time waits until all banks are closed and refreshed. Times are whole cycles of the AXI clock (see
`accelperf.simulate.dram_timing`).

In throughput mode the engine is always ahead of the memory; in latency mode it sends an access when
the one before has returned.

What it does not do: reorder, close pages early, mix reads with writes (each run has one direction),
lose anything in the switch of the HBM. `accelperf.simulate.published_anchors` says which figures it was
compared with; everything else is marked unvalidated in the `Result`.

References
----------
Wang, Huang, Zhang, Alonso, *Shuhai: Benchmarking High Bandwidth Memory on FPGAs*, FCCM 2020.
JEDEC JESD235 (HBM) and JESD79-4 (DDR4) for the rules between commands.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from accelperf.errors import InputError
from accelperf.simulate.address_mapping import AddressMapping, address_mapping
from accelperf.simulate.dram_timing import (
    AXI_GROUP_EXTRA_CYCLES,
    CommandCycles,
    MemoryTiming,
    command_cycles,
)
from accelperf.simulate.published_anchors import validation

Integers = NDArray[np.int64]
Mode = Literal["throughput", "latency"]
Direction = Literal["read", "write"]

LATENCY_GAP_CYCLES = 2
"""Cycles between the end of an access and the next request in latency mode (``rd_engine.sv``; V)."""

LATENCY_STRIDE_FACTOR = 2
"""Latency mode advances by twice the stride (``rd_engine.sv``; V)."""

AXI_CHANNELS_PER_GROUP = 4

LARGEST_BURST_BYTES = 1 << 15
"""Largest power of two in the engine's 16-bit register of the burst size (``rd_engine.sv``; V)."""

_BLOCK_BEATS = 1 << 17
_LONG_AGO = -(1 << 40)


@dataclass(frozen=True)
class AccessPattern:
    """What one engine does: N accesses of B bytes.

    Attributes
    ----------
    burst_bytes, stride_bytes, working_set_bytes : int
        B, S and W [bytes], powers of two, S not above W. Access ``i`` goes to ``(i S) mod W``.
    num_ops : int
        N, the number of accesses.
    kind : {"rst", "random"}
        ``rst`` is the benchmark's repetitive sequential traversal; ``random`` goes to multiples of B
        below W, each as likely as any other, and takes no notice of S.
    seed : int
        Seed of the random addresses.

    Raises
    ------
    InputError
        If a number is out of range.
    """

    burst_bytes: int
    stride_bytes: int
    working_set_bytes: int
    num_ops: int
    kind: Literal["rst", "random"] = "rst"
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("burst_bytes", "stride_bytes", "working_set_bytes"):
            value = getattr(self, name)
            if value < 1 or value & (value - 1):
                raise InputError(f"{name} as a power of two", str(value))
        if self.stride_bytes > self.working_set_bytes:
            raise InputError(
                f"a stride up to the working set ({self.working_set_bytes} bytes)", str(self.stride_bytes)
            )
        if self.num_ops < 1:
            raise InputError("num_ops of 1 or more", str(self.num_ops))
        if self.kind not in ("rst", "random"):
            raise InputError("an access pattern: rst or random", repr(self.kind))
        if self.kind == "random" and self.burst_bytes > self.working_set_bytes:
            raise InputError(
                f"a burst up to the working set ({self.working_set_bytes} bytes)", str(self.burst_bytes)
            )

    @property
    def total_bytes(self) -> int:
        """Bytes moved by all accesses."""
        return self.burst_bytes * self.num_ops

    def addresses(self, stride_factor: int = 1) -> Iterator[Integers]:
        """Yield the first byte of each access, in order, in blocks of a bounded size."""
        block = max(1, _BLOCK_BEATS * 32 // max(self.burst_bytes, 32))
        random = np.random.default_rng(self.seed)
        for first in range(0, self.num_ops, block):
            count = min(block, self.num_ops - first)
            if self.kind == "random":
                places = self.working_set_bytes // self.burst_bytes
                yield random.integers(0, places, count) * self.burst_bytes
            else:
                index = np.arange(first, first + count, dtype=np.int64)
                yield index * (self.stride_bytes * stride_factor) % self.working_set_bytes


@dataclass(frozen=True)
class Result:
    """What a run took.

    Attributes
    ----------
    pattern : AccessPattern
        What was run.
    mode : {"throughput", "latency"}
        How it was run.
    cycles : int
        Timer of the engine, start to last response [AXI cycles].
    gbps : float
        Bytes moved in that time [decimal GB/s]; says nothing about throughput in latency mode.
    latency_cycles : ndarray of int64, shape [num_ops] or [0]
        Latency of each access in latency mode [AXI cycles].
    row_hits, row_closed, row_misses : int
        Beats that found their row open, their bank closed, another row open.
    refreshes : int
        Refreshes that the run waited for.
    validated : bool
        Whether a published figure for this very pattern lies within the model's tolerance.
    note : str
        That figure, or that there is none.
    """

    pattern: AccessPattern
    mode: Mode
    cycles: int
    gbps: float
    latency_cycles: Integers
    row_hits: int
    row_closed: int
    row_misses: int
    refreshes: int
    validated: bool
    note: str


def idle_path_cycles(timing: MemoryTiming, switch: str | None = None, axi_channel: int = 0) -> int:
    """Return the cycles between engine and DRAM, both ways: what a page hit takes less tCL and data.

    Parameters
    ----------
    timing : MemoryTiming
        The memory.
    switch : {"on", "off"}, optional
        State of the HBM switch, on where it is not given; a memory without one has ``off`` alone.
    axi_channel : int
        AXI channel that the engine sits on, on the way to HBM channel 0; with the switch on a distant
        one takes longer.

    Returns
    -------
    int
        AXI cycles.

    Raises
    ------
    InputError
        If there is no figure for this state of the switch, or the channel is not on the board.
    """
    state = next(iter(timing.hit_cycles)) if switch is None else switch
    if state not in timing.hit_cycles:
        raise InputError(f"switch {' or '.join(timing.hit_cycles)} for {timing.name}", repr(state))
    group = axi_channel // AXI_CHANNELS_PER_GROUP
    if not 0 <= group < len(AXI_GROUP_EXTRA_CYCLES):
        last = AXI_CHANNELS_PER_GROUP * len(AXI_GROUP_EXTRA_CYCLES) - 1
        raise InputError(f"an AXI channel from 0 to {last}", str(axi_channel))
    extra = AXI_GROUP_EXTRA_CYCLES[group] if timing.name == "hbm" and state == "on" else 0
    return timing.hit_cycles[state] - command_cycles(timing).column_to_data + extra


def idle_latency_cycles(timing: MemoryTiming, switch: str | None = None) -> dict[str, int]:
    """Return the latency of a single read of one beat by the state of its bank.

    Parameters
    ----------
    timing : MemoryTiming
        The memory.
    switch : {"on", "off"}, optional
        State of the HBM switch.

    Returns
    -------
    dict
        AXI cycles of ``hit`` (row open), ``closed`` (bank precharged) and ``miss`` (another row open).
    """
    cycles = command_cycles(timing)
    hit = idle_path_cycles(timing, switch) + cycles.column_to_data
    closed = hit + cycles.activate_to_column
    return {"hit": hit, "closed": closed, "miss": closed + cycles.precharge_to_activate}


def simulate(
    timing: MemoryTiming,
    pattern: AccessPattern,
    *,
    policy: str | None = None,
    mode: Mode = "throughput",
    direction: Direction = "read",
    switch: str | None = None,
    axi_channel: int = 0,
) -> Result:
    """Run one engine against one memory channel.

    Parameters
    ----------
    timing : MemoryTiming
        The memory, such as `dram_timing.HBM2`.
    pattern : AccessPattern
        What the engine does.
    policy : str, optional
        Address mapping policy; the controller's default where it is not given.
    mode : {"throughput", "latency"}
        Accesses one behind the other, or each after the one before has returned.
    direction : {"read", "write"}
        Direction of all accesses; latency is measured for reads alone.
    switch : {"on", "off"}, optional
        State of the HBM switch.
    axi_channel : int
        AXI channel of the engine (HBM with the switch on; it accesses channel 0).

    Returns
    -------
    Result
        Cycles, throughput, latencies and the state of the rows.

    Raises
    ------
    InputError
        If a name is unknown, or the pattern does not fit the memory.
    """
    mapping = address_mapping(timing.name, policy)
    _check(timing, mapping, pattern)
    if mode not in ("throughput", "latency"):
        raise InputError("a mode: throughput or latency", repr(mode))
    if direction not in ("read", "write"):
        raise InputError("a direction: read or write", repr(direction))
    path = idle_path_cycles(timing, switch, axi_channel)
    cycles = command_cycles(timing, direction)
    latencies = np.empty(0, dtype=np.int64)
    if mode == "latency":
        if direction != "read":
            raise InputError("direction read in latency mode", repr(direction))
        latencies, rows = _latencies(timing, mapping, cycles, pattern, path)
        total = int(latencies.sum()) + LATENCY_GAP_CYCLES * pattern.num_ops
    else:
        blocks = _beats(mapping, timing, pattern.addresses(), pattern.burst_bytes)
        served = _serve(blocks, timing, cycles, ends=())
        total, rows = served.finish + path, served.rows
    gbps = pattern.total_bytes * timing.clock_mhz / (1e3 * total)
    validated, note = validation(
        memory=timing.name,
        policy=mapping.name,
        default_policy=mapping.default,
        direction=direction,
        mode=mode,
        kind=pattern.kind,
        burst_bytes=pattern.burst_bytes,
        stride_bytes=pattern.stride_bytes,
        working_set_bytes=pattern.working_set_bytes,
        value=gbps,
    )
    return Result(
        pattern=pattern,
        mode=mode,
        cycles=total,
        gbps=gbps,
        latency_cycles=latencies,
        row_hits=rows.hits,
        row_closed=rows.closed,
        row_misses=rows.misses,
        refreshes=rows.refreshes,
        validated=validated,
        note=note,
    )


def simulate_shared(
    timing: MemoryTiming,
    patterns: Sequence[AccessPattern],
    *,
    policy: str | None = None,
    direction: Direction = "read",
    switch: str | None = None,
) -> tuple[int, ...]:
    """Run several engines against one memory channel, an access of each in turn until it has done.

    Engines of one public HBM build do that: all of them start at address 0 of the same channel.

    Parameters
    ----------
    timing : MemoryTiming
        The memory.
    patterns : sequence of AccessPattern
        What each engine does, all of kind ``rst``.
    policy, direction, switch
        As in `simulate`.

    Returns
    -------
    tuple of int
        Timer of each engine [AXI cycles]. Unvalidated: the switch itself is not modelled.

    Raises
    ------
    InputError
        As `simulate`, or if a pattern is random.
    """
    mapping = address_mapping(timing.name, policy)
    for pattern in patterns:
        _check(timing, mapping, pattern)
        if pattern.kind != "rst":
            raise InputError("access pattern rst on a shared channel", repr(pattern.kind))
    path = idle_path_cycles(timing, switch)
    ends = _last_beats(timing, patterns)
    blocks = _interleaved_beats(mapping, timing, patterns)
    served = _serve(blocks, timing, command_cycles(timing, direction), ends=sorted(ends))
    return tuple(served.ends[end] + path for end in ends)


def _check(timing: MemoryTiming, mapping: AddressMapping, pattern: AccessPattern) -> None:
    if not timing.beat_bytes <= pattern.burst_bytes <= LARGEST_BURST_BYTES:
        raise InputError(
            f"a burst of {timing.beat_bytes} to {LARGEST_BURST_BYTES} bytes on {timing.name}",
            str(pattern.burst_bytes),
        )
    if pattern.stride_bytes < timing.beat_bytes:
        raise InputError(
            f"a stride of {timing.beat_bytes} bytes or more on {timing.name}", str(pattern.stride_bytes)
        )
    if pattern.working_set_bytes > mapping.capacity_bytes:
        raise InputError(
            f"a working set up to {mapping.capacity_bytes} bytes, one channel of {timing.name}",
            str(pattern.working_set_bytes),
        )


@dataclass
class _Rows:
    """Counts of row states and refreshes."""

    hits: int = 0
    closed: int = 0
    misses: int = 0
    refreshes: int = 0


@dataclass(frozen=True)
class _Block:
    """Beats in order: bank within the channel and row; arrays of shape [beats]."""

    bank: NDArray[np.int16]
    row: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.bank)

    def __getitem__(self, part: slice) -> _Block:
        return _Block(self.bank[part], self.row[part])


def _locate(mapping: AddressMapping, timing: MemoryTiming, addresses: Integers) -> _Block:
    location = mapping.locate(addresses % mapping.capacity_bytes)
    bank = location.bank_group * timing.banks_per_group + location.bank
    return _Block(bank.astype(np.int16), location.row.astype(np.int32))


def _beats(
    mapping: AddressMapping, timing: MemoryTiming, addresses: Iterable[Integers], burst_bytes: int
) -> Iterator[_Block]:
    offsets = np.arange(0, burst_bytes, timing.beat_bytes, dtype=np.int64)
    for block in addresses:
        yield _locate(mapping, timing, (block[:, np.newaxis] + offsets).ravel())


def _phases(patterns: Sequence[AccessPattern]) -> Iterator[tuple[int, int, list[int]]]:
    """Yield first round, last round + 1, and the positions of the engines still at work in between."""
    first = 0
    for last in sorted({pattern.num_ops for pattern in patterns}):
        yield first, last, [index for index, pattern in enumerate(patterns) if pattern.num_ops >= last]
        first = last


def _interleaved_beats(
    mapping: AddressMapping, timing: MemoryTiming, patterns: Sequence[AccessPattern]
) -> Iterator[_Block]:
    for first, last, indices in _phases(patterns):
        working = [patterns[index] for index in indices]
        beats = sum(pattern.burst_bytes for pattern in working) // timing.beat_bytes
        rounds = max(1, _BLOCK_BEATS // beats)
        for start in range(first, last, rounds):
            round_index = np.arange(start, min(start + rounds, last), dtype=np.int64)[:, np.newaxis]
            columns = [
                round_index * pattern.stride_bytes % pattern.working_set_bytes
                + np.arange(0, pattern.burst_bytes, timing.beat_bytes, dtype=np.int64)
                for pattern in working
            ]
            yield _locate(mapping, timing, np.concatenate(columns, axis=1).ravel())


def _last_beats(timing: MemoryTiming, patterns: Sequence[AccessPattern]) -> list[int]:
    """Return the position of each engine's last beat in the interleaved order."""
    ends = [0] * len(patterns)
    done = 0
    for first, last, indices in _phases(patterns):
        beats = [patterns[index].burst_bytes // timing.beat_bytes for index in indices]
        for place, index in enumerate(indices):
            if patterns[index].num_ops == last:
                ends[index] = done + (last - first - 1) * sum(beats) + sum(beats[: place + 1]) - 1
        done += (last - first) * sum(beats)
    return ends


@dataclass(frozen=True)
class _Served:
    """End of the last beat's data, of those asked for by position, and what happened to the rows."""

    finish: int
    ends: dict[int, int]
    rows: _Rows


def _serve(
    blocks: Iterator[_Block], timing: MemoryTiming, cycles: CommandCycles, *, ends: Sequence[int]
) -> _Served:
    """Serve all beats, one interval between refreshes after the other.

    A refresh closes all banks and takes longer than any other delay, so nothing of what came before
    it matters after it: each interval is worked out on its own.
    """
    longest = cycles.refresh_interval // cycles.column_short + 1
    rows = _Rows()
    found: dict[int, int] = {}
    pending = list(reversed(ends))
    ready, next_refresh, position, guess = 0, cycles.refresh_interval, 0, longest
    rest: _Block | None = None
    finish = 0
    block = next(blocks, None)
    while block is not None:
        if rest is not None:
            block = _Block(np.concatenate([rest.bank, block.bank]), np.concatenate([rest.row, block.row]))
        following = next(blocks, None)
        start = 0
        while start < len(block) and (following is None or len(block) - start >= longest):
            part = block[start : start + guess]
            interval = _Interval(part, timing, cycles, ready, next_refresh)
            if interval.served == len(part) and guess < longest and start + guess < len(block):
                guess = longest
                continue
            # A slow pattern is worked out over what it can serve, not over what a fast one could.
            guess = min(longest, 2 * interval.served + timing.window_beats)
            while pending and pending[-1] < position + interval.served:
                end = pending.pop()
                found[end] = interval.column(end - position) + cycles.column_to_data
            rows.closed += interval.closed
            rows.misses += interval.misses
            rows.hits += interval.served - interval.closed - interval.misses
            last_column = interval.column(interval.served - 1) if interval.served else _LONG_AGO
            finish = max(finish, last_column + cycles.column_to_data)
            position += interval.served
            start += interval.served
            if start < len(block):
                rows.refreshes += 1
                ready = _refreshed(cycles, next_refresh, last_column)
                next_refresh += cycles.refresh_interval
        rest = block[start:] if start < len(block) else None
        block = following
    return _Served(finish, found, rows)


def _refreshed(cycles: CommandCycles, due: int, last_column: int) -> int:
    """Return when a refresh is over: precharge of all banks, then tRFC."""
    start = max(due, last_column + cycles.column_to_precharge_all)
    return start + cycles.precharge_to_activate + cycles.refresh


class _Interval:
    """Beats between two refreshes.

    Column commands of open rows follow each other at fixed distances, so between two activates they
    all shift by one delay. Only the beats that open a row are gone through one by one.
    """

    def __init__(
        self, beats: _Block, timing: MemoryTiming, cycles: CommandCycles, ready: int, due: int
    ) -> None:
        bank, row, count = beats.bank, beats.row, len(beats)
        group = bank // timing.banks_per_group
        order = np.argsort(bank, kind="stable")
        same = bank[order[1:]] == bank[order[:-1]]
        before = np.full(count, -1, dtype=np.int64)
        before[order[1:][same]] = order[:-1][same]
        closed = before < 0
        opens = np.flatnonzero(closed | (row != row[before]))
        gaps = np.where(group[1:] == group[:-1], cycles.column_long, cycles.column_short)
        self._undelayed = np.concatenate([[0], np.cumsum(gaps)])
        self._opens = opens
        self._delays = self._activate(beats, timing, cycles, ready, due, before)
        self.served = self._count_before(due)
        opened = opens[: np.searchsorted(opens, self.served)]
        self.closed = int(np.count_nonzero(closed[opened]))
        self.misses = len(opened) - self.closed

    def _activate(
        self,
        beats: _Block,
        timing: MemoryTiming,
        cycles: CommandCycles,
        ready: int,
        due: int,
        before: Integers,
    ) -> list[int]:
        """Return the delay of the columns from each opened row on, as far as the refresh."""
        opens, undelayed = self._opens, self._undelayed
        bank = beats.bank[opens]
        group = bank // timing.banks_per_group
        activate_gaps = np.full(len(opens), cycles.activate_short)
        activate_gaps[1:][group[1:] == group[:-1]] = cycles.activate_long
        # The beat a window earlier, whose data make room, and the last beat of the same bank: which
        # opened row their delay comes from, and their column without it.
        leaver = opens - timing.window_beats
        leaver_row = np.where(leaver >= 0, np.searchsorted(opens, leaver, side="right") - 1, -1)
        leaver_end = undelayed[np.maximum(leaver, 0)] + cycles.column_to_data
        previous = before[opens]
        previous_row = np.searchsorted(opens, previous, side="right") - 1
        previous_end = undelayed[previous] + cycles.column_to_activate

        trcd, trp, trc = (
            cycles.activate_to_column,
            cycles.precharge_to_activate,
            cycles.activate_to_activate,
        )
        tfaw = cycles.four_activates
        delays: list[int] = []
        bank_activate = [_LONG_AGO] * timing.banks
        activate = second = third = fourth = _LONG_AGO
        delay = ready
        for column, bank_id, gap, end, end_row, last, last_row, was_closed in zip(
            undelayed[opens].tolist(),
            bank.tolist(),
            activate_gaps.tolist(),
            leaver_end.tolist(),
            leaver_row.tolist(),
            previous_end.tolist(),
            previous_row.tolist(),
            (previous < 0).tolist(),
            strict=True,
        ):
            time = end + delays[end_row] if end_row >= 0 else ready
            if not was_closed:
                time += trp
                other = last + delays[last_row]
                if other > time:
                    time = other
                other = bank_activate[bank_id] + trc
                if other > time:
                    time = other
            other = activate + gap
            if other > time:
                time = other
            other = fourth + tfaw
            if other > time:
                time = other
            if time + trcd - column > delay:
                delay = time + trcd - column
            if column + delay >= due:
                break
            fourth, third, second, activate = third, second, activate, time
            bank_activate[bank_id] = time
            delays.append(delay)
        return delays

    def _count_before(self, due: int) -> int:
        """Return how many beats have their column before the refresh is due."""
        opened = len(self._delays)
        if not opened:
            return 0
        last = int(self._opens[opened - 1])
        end = int(self._opens[opened]) if opened < len(self._opens) else len(self._undelayed)
        run = self._undelayed[last:end]
        return last + int(np.searchsorted(run, due - self._delays[-1]))

    def column(self, index: int) -> int:
        """Return the time of a beat's column command."""
        row = int(np.searchsorted(self._opens, index, side="right")) - 1
        return int(self._undelayed[index]) + self._delays[row]


def _latencies(
    timing: MemoryTiming,
    mapping: AddressMapping,
    cycles: CommandCycles,
    pattern: AccessPattern,
    path: int,
) -> tuple[Integers, _Rows]:
    """Return the latency of accesses that wait for each other [cycles], and the row states."""
    channel = _Channel(timing, cycles)
    beats = pattern.burst_bytes // timing.beat_bytes
    latencies: list[int] = []
    now = 0
    for block in _beats(mapping, timing, pattern.addresses(LATENCY_STRIDE_FACTOR), pattern.burst_bytes):
        banks, rows = block.bank.tolist(), block.row.tolist()
        for first in range(0, len(banks), beats):
            column = now
            for index in range(first, first + beats):
                column = channel.column(now, banks[index], rows[index])
            latency = column + cycles.column_to_data + path - now
            latencies.append(latency)
            now += latency + LATENCY_GAP_CYCLES
    return np.array(latencies, dtype=np.int64), channel.rows


class _Channel:
    """The channel beat by beat: the same rules as `_Interval`, for requests that come at given times."""

    def __init__(self, timing: MemoryTiming, cycles: CommandCycles) -> None:
        self._cycles = cycles
        self._banks_per_group = timing.banks_per_group
        self._banks = timing.banks
        self._due = cycles.refresh_interval
        self._ready = 0
        self._last_column = _LONG_AGO
        self._last_group = -1
        self.rows = _Rows()
        self._close()

    def _close(self) -> None:
        self._row = [-1] * self._banks
        self._bank_activate = [_LONG_AGO] * self._banks
        self._bank_column = [_LONG_AGO] * self._banks
        self._activates = [_LONG_AGO] * 4
        self._activate_group = -1

    def column(self, entered: int, bank: int, row: int) -> int:
        """Serve one beat that entered the controller at a time; return its column command's time."""
        cycles = self._cycles
        group = bank // self._banks_per_group
        while True:
            start = max(entered, self._ready)
            gap = cycles.column_long if group == self._last_group else cycles.column_short
            column = max(start, self._last_column + gap)
            activate = None
            if self._row[bank] != row:
                activate = self._earliest_activate(start, bank)
                column = max(column, activate + cycles.activate_to_column)
            if column < self._due:
                break
            self._ready = _refreshed(cycles, self._due, self._last_column)
            self._due += cycles.refresh_interval
            self.rows.refreshes += 1
            self._close()
        if activate is None:
            self.rows.hits += 1
        else:
            if self._row[bank] < 0:
                self.rows.closed += 1
            else:
                self.rows.misses += 1
            self._activates = [*self._activates[1:], activate]
            self._activate_group = group
            self._bank_activate[bank] = activate
            self._row[bank] = row
        self._bank_column[bank] = column
        self._last_column, self._last_group = column, group
        return column

    def _earliest_activate(self, start: int, bank: int) -> int:
        cycles = self._cycles
        same_group = bank // self._banks_per_group == self._activate_group
        times = [
            start,
            self._activates[-1] + (cycles.activate_long if same_group else cycles.activate_short),
            self._activates[0] + cycles.four_activates,
        ]
        if self._row[bank] >= 0:
            times += [
                start + cycles.precharge_to_activate,
                self._bank_column[bank] + cycles.column_to_activate,
                self._bank_activate[bank] + cycles.activate_to_activate,
            ]
        return max(times)
