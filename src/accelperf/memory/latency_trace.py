"""What a latency trace says: page hits, closed banks, page misses, and refreshes.

In latency mode the engine sends an access when the one before has returned, so that every count is
the latency of an idle memory and depends on two things alone: the state of the bank (its row is open,
no row is open, another row is open), and whether a refresh was in the way. The counts therefore lie
on a few levels. They are found in the data; which level is which state is decided from the pattern
and from the distances between the levels, and stays unknown where neither says it.

References
----------
Wang, Huang, Zhang, Alonso, *Shuhai: Benchmarking High Bandwidth Memory on FPGAs*, FCCM 2020:
Figures 4 and 5 and the table of idle latencies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accelperf.memory.corrections import LATENCY_CYCLES_OUTSIDE
from accelperf.memory.shuhai_latency import COUNTER_MODULUS, IDLE_HIT_CYCLES

Cycles = NDArray[np.int64]
Counts = NDArray[np.integer[Any]]

PAGE_STATES: tuple[str, ...] = ("hit", "closed", "miss")
"""The row is open; no row of the bank is open; another row is open."""

REFRESH_SLOW_CYCLES = 100
"""Latency [cycles] above which an access met a refresh (Shuhai, FCCM 2020; derived)."""

LEVEL_HALF_WIDTH_CYCLES = 2
"""Counts as near to a level's most frequent count [cycles] belong to it: clock crossings move a count by
a cycle or two, while the nearest states known are five apart (DDR4: 22, 27, 32)."""

LEAST_SHARE = 0.05
"""Share of the accesses that a level needs to be taken for the page hit (a wrapped counter of a slow
access can look like any short latency, but is rare)."""

LEAST_ACCESSES = 2

STEP_NS: tuple[float, float] = (10.0, 20.0)
"""Time that activating a row takes, and precharging one [ns]: 12.5 to 15 in the speed bins of JEDEC
JESD79-4 (tRCD, tRP), rounded to cycles of the AXI clock (one is 2.2 or 3.3 ns)."""

PAGE_BYTES: Mapping[str, int] = {"hbm": 1024, "ddr4": 8192}
"""Bytes of a row in a bank: column bits of the address mapping times the AXI word (Shuhai, FCCM 2020)."""

IRREGULAR_SHARE = 0.25
"""Deviation of the times between slow accesses from multiples of one interval, as a share of it, from
which they are called irregular: refreshes are periodic, other traffic is not."""


@dataclass(frozen=True)
class Level:
    """Accesses of about one latency.

    Attributes
    ----------
    cycles : int
        Their most frequent latency [cycles].
    low, high : int
        Least and greatest latency [cycles].
    accesses : int
        How many there are.
    """

    cycles: int
    low: int
    high: int
    accesses: int


@dataclass(frozen=True)
class Refresh:
    """Accesses that met a refresh.

    Attributes
    ----------
    positions : tuple of int
        Which accesses were slower than `REFRESH_SLOW_CYCLES`, from 0.
    wait_cycles : float or None
        Mean of what they took beyond the trace's median access [cycles].
    spacing_accesses : float or None
        Median of the accesses from one to the next; None where there are not two.
    spacing_range : tuple of int or None
        Least and greatest of them.
    interval_cycles : float or None
        Time from one refresh to the next [cycles].
    regular : bool or None
        Whether the times between them are multiples of one interval; None below three.
    """

    positions: tuple[int, ...]
    wait_cycles: float | None
    spacing_accesses: float | None
    spacing_range: tuple[int, int] | None
    interval_cycles: float | None
    regular: bool | None

    @property
    def time_share(self) -> float | None:
        """Share of the time that the accesses of the trace waited for refreshes."""
        if self.interval_cycles is None or self.wait_cycles is None:
            return None
        return self.wait_cycles / self.interval_cycles


def unwrapped(counts: Counts, memory: str | None) -> Cycles:
    """Return counts as latencies: those below the least latency of the memory had wrapped once.

    Parameters
    ----------
    counts : ndarray of int, shape [accesses]
        Counts of 8-bit counters [cycles].
    memory : str or None
        The memory. Of one without a known least latency the counts stay as they are.

    Returns
    -------
    ndarray of int64, shape [accesses]
        Latencies [cycles]. A count that wrapped to a possible latency cannot be told from one.

    Examples
    --------
    >>> unwrapped(np.array([55, 143, 4]), "hbm")
    array([ 55, 143, 260])
    """
    cycles = counts.astype(np.int64)
    least = IDLE_HIT_CYCLES.get(memory or "")
    return cycles if least is None else np.where(cycles < least, cycles + COUNTER_MODULUS, cycles)


def slow_accesses(cycles: Counts) -> NDArray[np.bool_]:
    """Return which accesses met a refresh: bool, shape [accesses].

    Where the median itself is above `REFRESH_SLOW_CYCLES`, the limit says nothing and none is taken.
    """
    if not len(cycles) or float(np.median(cycles)) > REFRESH_SLOW_CYCLES:
        return np.zeros(len(cycles), dtype=bool)
    return np.asarray(cycles > REFRESH_SLOW_CYCLES)


def find_levels(cycles: Counts) -> tuple[Level, ...]:
    """Return the levels on which latencies lie.

    The most frequent latency is a level, with everything within `LEVEL_HALF_WIDTH_CYCLES`; what
    remains is treated alike until nothing does.

    Parameters
    ----------
    cycles : ndarray of int, shape [accesses]
        Latencies [cycles], without the slow ones.

    Returns
    -------
    tuple of Level
        Levels from the fastest to the slowest; their accesses add up to all.

    Examples
    --------
    >>> for level in find_levels(np.array([55, 55, 56, 55, 62, 62])):
    ...     print(level)
    Level(cycles=55, low=55, high=56, accesses=4)
    Level(cycles=62, low=62, high=62, accesses=2)
    """
    values, counts = np.unique(np.asarray(cycles, dtype=np.int64), return_counts=True)
    first = np.searchsorted(values, values - LEVEL_HALF_WIDTH_CYCLES)
    last = np.searchsorted(values, values + LEVEL_HALF_WIDTH_CYCLES, side="right")
    free = np.ones(len(values), dtype=bool)
    levels = []
    for index in np.lexsort((values, -counts)):
        if free[index]:
            inside = first[index] + np.flatnonzero(free[first[index] : last[index]])
            free[inside] = False
            low, high = int(values[inside[0]]), int(values[inside[-1]])
            levels.append(Level(int(values[index]), low, high, int(counts[inside].sum())))
    return tuple(sorted(levels, key=lambda level: level.cycles))


def hit_level(
    levels: Sequence[Level], *, clock_mhz: float | None, memory: str | None, stride_bytes: int | None
) -> Level | None:
    """Return the level of page hits, or None if the trace does not say which it is.

    A stride of at most half a page comes back to an open row at least every second time: the fastest
    level is the hit. Whatever the stride, three levels a step apart (`STEP_NS`: precharge and
    activate) can only be hit, closed and miss.

    Parameters
    ----------
    levels : sequence of Level
        Levels of a trace, without its slow accesses.
    clock_mhz : float or None
        Clock of the engine [MHz].
    memory : str or None
        The memory.
    stride_bytes : int or None
        Stride as it happened [bytes].
    """
    total = sum(level.accesses for level in levels)
    sure = [level for level in levels if level.accesses >= max(LEAST_ACCESSES, LEAST_SHARE * total)]
    page = PAGE_BYTES.get(memory or "")
    if sure and page is not None and stride_bytes is not None and stride_bytes <= page // 2:
        return sure[0]
    if clock_mhz is None:
        return None
    several = [level for level in levels if level.accesses >= LEAST_ACCESSES]
    for first in several:
        for second in several:
            if _is_step(first, second, clock_mhz) and any(
                _is_step(second, third, clock_mhz) for third in several
            ):
                return first
    return None


def _is_step(low: Level, high: Level, clock_mhz: float) -> bool:
    return STEP_NS[0] <= cycles_to_ns(high.cycles - low.cycles, clock_mhz) <= STEP_NS[1]


def page_state(level: Level, hit_cycles: int, clock_mhz: float | None) -> str | None:
    """Return the state that a level stands for, given the latency of a hit; None for another cause.

    A closed bank costs one step more than a hit (activate), a miss two (precharge before it).

    Parameters
    ----------
    level : Level
        The level.
    hit_cycles : int
        Latency of a page hit on the same way [cycles].
    clock_mhz : float or None
        Clock of the engine [MHz]; without it only hits are recognised.

    Returns
    -------
    {"hit", "closed", "miss"} or None
        The state.

    Examples
    --------
    >>> [page_state(Level(cycles, cycles, cycles, 1), 55, 450.0) for cycles in (55, 62, 69, 90)]
    ['hit', 'closed', 'miss', None]
    """
    more = level.cycles - hit_cycles
    if abs(more) <= LEVEL_HALF_WIDTH_CYCLES:
        return "hit"
    if clock_mhz is None or more < 0:
        return None
    shortest, longest = STEP_NS
    more_ns = cycles_to_ns(more, clock_mhz)
    if shortest <= more_ns <= longest:
        return "closed"
    return "miss" if longest < more_ns <= 2 * longest else None


def find_refresh(cycles: Counts) -> Refresh:
    """Return the refreshes of a trace.

    The time from access to access is its latency and the `LATENCY_CYCLES_OUTSIDE` cycles that the
    engine takes between two. A refresh that no access met leaves a multiple of the interval.

    Parameters
    ----------
    cycles : ndarray of int, shape [accesses]
        Latencies [cycles].

    Returns
    -------
    Refresh
        Positions, waits, spacing and interval; what the trace does not show is None.
    """
    cycles = np.asarray(cycles, dtype=np.int64)
    slow = np.flatnonzero(slow_accesses(cycles))
    if not len(slow):
        return Refresh((), None, None, None, None, None)
    wait = float(cycles[slow].mean() - np.median(cycles))
    if len(slow) < LEAST_ACCESSES:
        return Refresh((int(slow[0]),), wait, None, None, None, None)
    starts = np.cumsum(cycles + LATENCY_CYCLES_OUTSIDE) - (cycles + LATENCY_CYCLES_OUTSIDE)
    times = np.diff(starts[slow])
    multiples = np.maximum(np.rint(times / np.median(times)), 1)
    interval = float(times.sum() / multiples.sum())
    regular = None
    if len(times) >= LEAST_ACCESSES:
        regular = bool(np.all(np.abs(times - multiples * interval) <= IRREGULAR_SHARE * interval))
    spacing = np.diff(slow)
    return Refresh(
        positions=tuple(int(position) for position in slow),
        wait_cycles=wait,
        spacing_accesses=float(np.median(spacing)),
        spacing_range=(int(spacing.min()), int(spacing.max())),
        interval_cycles=interval,
        regular=regular,
    )


def cycles_to_ns(cycles: float, clock_mhz: float) -> float:
    """Return the time that cycles take [ns].

    Examples
    --------
    >>> round(cycles_to_ns(55, clock_mhz=450.0), 1)
    122.2
    """
    return 1e3 * cycles / clock_mhz
