"""Latency traces: page states and refreshes against traces whose states are known."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from accelperf.memory.latency_trace import (
    LEVEL_HALF_WIDTH_CYCLES,
    PAGE_STATES,
    Level,
    cycles_to_ns,
    find_levels,
    find_refresh,
    hit_level,
    page_state,
    slow_accesses,
    unwrapped,
)
from accelperf.simulate.dram import AccessPattern, idle_latency_cycles, simulate
from accelperf.simulate.dram_timing import DDR4_2400, HBM2, MemoryTiming, command_cycles

MB = 1 << 20

# The model rounds a refresh's start to the access that meets it; over many the error averages out.
REFRESH_INTERVAL = 0.01
"""Relative: an interval from about ten refreshes or more against tREFI."""
WAIT_SHARE = 0.02
"""Absolute: share of time waited, from whole and cut intervals."""


@st.composite
def jittered(draw: st.DrawFn) -> tuple[NDArray[np.int64], dict[str, tuple[int, int]], float]:
    """Draw counts of known states in any order, most of each state on its own count, some beside it.

    Returns the counts, (cycles, accesses) by state, and the clock [MHz].
    """
    clock, step = draw(st.sampled_from([(450.0, 6), (450.0, 7), (450.0, 8), (300.0, 5)]))
    hit = draw(st.integers(22, 77))
    counts: list[int] = []
    states = {}
    for index, state in enumerate(PAGE_STATES):
        centre = hit + index * step
        exact = draw(st.integers(2, 40))
        beside = draw(st.lists(st.sampled_from([-1, 1]), max_size=exact - 1))
        counts += [centre] * exact + [centre + shift for shift in beside]
        states[state] = (centre, exact + len(beside))
    return np.array(draw(st.permutations(counts))), states, clock


@given(jittered())
def test_levels_are_the_states_that_made_the_trace(
    trace: tuple[NDArray[np.int64], dict[str, tuple[int, int]], float],
) -> None:
    cycles, states, clock = trace
    levels = find_levels(cycles)
    assert [(level.cycles, level.accesses) for level in levels] == [states[state] for state in PAGE_STATES]
    # Nothing is known of the pattern: three levels a step apart can only be the three states.
    hit = hit_level(levels, clock_mhz=clock, memory=None, stride_bytes=None)
    assert hit == levels[0]
    assert [page_state(level, levels[0].cycles, clock) for level in levels] == list(PAGE_STATES)


@given(st.lists(st.integers(0, 300), min_size=1, max_size=200))
def test_levels_divide_any_counts(counts: list[int]) -> None:
    cycles = np.array(counts)
    levels = find_levels(cycles)
    assert sum(level.accesses for level in levels) == len(counts)
    for level in levels:
        assert level.cycles - LEVEL_HALF_WIDTH_CYCLES <= level.low <= level.cycles
        assert level.cycles <= level.high <= level.cycles + LEVEL_HALF_WIDTH_CYCLES
        inside = (cycles >= level.low) & (cycles <= level.high)
        assert int(inside.sum()) == level.accesses
    assert all(before.high < after.low for before, after in itertools.pairwise(levels))


@pytest.mark.parametrize("timing", [HBM2, DDR4_2400], ids=lambda timing: timing.name)
@pytest.mark.parametrize("stride", [64, 128, 512, 4096, 128 * 1024])
def test_page_states_agree_with_the_rows_that_the_model_counts(timing: MemoryTiming, stride: int) -> None:
    pattern = AccessPattern(timing.beat_bytes, stride, 16 * MB, 3000)
    result = simulate(timing, pattern, mode="latency")
    cycles = result.latency_cycles
    slow = slow_accesses(cycles)
    hit = idle_latency_cycles(timing)["hit"]
    found = dict.fromkeys(PAGE_STATES, 0)
    for level in find_levels(cycles[~slow]):
        state = page_state(level, hit, timing.clock_mhz)
        assert state is not None
        assert level.cycles == idle_latency_cycles(timing)[state]
        found[state] += level.accesses
    # A refresh closes all banks, so that the access that met it found its bank closed.
    closed = result.row_closed - int(slow.sum())
    assert found == {"hit": result.row_hits, "closed": closed, "miss": result.row_misses}
    assert int(slow.sum()) == result.refreshes


@settings(max_examples=25, deadline=None)
@given(
    timing=st.sampled_from([HBM2, DDR4_2400]),
    stride=st.sampled_from([64, 256, 4096, 65536]),
    channel=st.integers(0, 31),
)
def test_refresh_interval_is_that_of_the_model(timing: MemoryTiming, stride: int, channel: int) -> None:
    pattern = AccessPattern(timing.beat_bytes, stride, 16 * MB, 2500)
    channel = channel if timing.name == "hbm" else 0
    cycles = simulate(timing, pattern, mode="latency", axi_channel=channel).latency_cycles
    refresh = find_refresh(cycles)
    assert refresh.interval_cycles == pytest.approx(
        command_cycles(timing).refresh_interval, rel=REFRESH_INTERVAL
    )
    assert refresh.regular
    assert refresh.spacing_range is not None and refresh.spacing_accesses is not None
    assert refresh.spacing_range[0] <= refresh.spacing_accesses <= refresh.spacing_range[1]
    # The share is what all slow accesses took beyond the median, over the time of the trace.
    extra = float((cycles[cycles > 100] - np.median(cycles)).sum())
    assert refresh.time_share == pytest.approx(extra / float((cycles + 2).sum()), abs=WAIT_SHARE)


def test_a_refresh_that_no_access_met_leaves_twice_the_interval() -> None:
    cycles = np.full(200, 55)
    cycles[[29, 59, 119, 149]] = 143  # the one at 89 was missed
    refresh = find_refresh(cycles)
    assert refresh.interval_cycles == pytest.approx(30 * 57 + 88, rel=0.02)
    assert refresh.regular


def test_slow_accesses_at_odd_times_are_called_irregular() -> None:
    cycles = np.full(300, 55)
    cycles[[10, 40, 75, 130, 147, 250]] = 150
    assert find_refresh(cycles).regular is False


@pytest.mark.parametrize("slow", [0, 1])
def test_less_than_two_refreshes_say_nothing_of_the_interval(slow: int) -> None:
    cycles = np.full(100, 22)
    cycles[50 : 50 + slow] = 130
    refresh = find_refresh(cycles)
    assert len(refresh.positions) == slow
    assert (refresh.interval_cycles, refresh.spacing_accesses, refresh.time_share) == (None, None, None)
    assert refresh.wait_cycles == (108.0 if slow else None)


def test_a_memory_that_is_slow_throughout_shows_no_refresh() -> None:
    cycles = np.full(50, 140)
    assert not slow_accesses(cycles).any()
    assert find_refresh(cycles).positions == ()
    assert find_levels(cycles) == (Level(140, 140, 140, 50),)


def test_an_empty_trace_shows_nothing() -> None:
    nothing = np.array([], dtype=np.int64)
    assert find_levels(nothing) == ()
    assert find_refresh(nothing).positions == ()
    assert hit_level((), clock_mhz=450.0, memory="hbm", stride_bytes=64) is None


@given(st.integers(256, 303))
def test_wrapped_counters_are_undone_where_the_memory_is_known(latency: int) -> None:
    counts = np.array([55, latency % 256, 62], dtype=np.uint8)
    assert unwrapped(counts, "hbm").tolist() == [55, latency, 62]
    assert unwrapped(counts, None).tolist() == [55, latency % 256, 62]


def test_the_hit_is_not_guessed() -> None:
    two = find_levels(np.array([62] * 10 + [69] * 10))
    # One step apart: hit and closed, or closed and miss. Only the pattern can tell.
    assert hit_level(two, clock_mhz=450.0, memory="hbm", stride_bytes=256 * 1024) is None
    assert hit_level(two, clock_mhz=450.0, memory="hbm", stride_bytes=None) is None
    small = hit_level(two, clock_mhz=450.0, memory="hbm", stride_bytes=512)
    assert small is not None and small.cycles == 62
    # Half a page is the limit: from a page on, no access need come back to its row.
    assert hit_level(two, clock_mhz=450.0, memory="hbm", stride_bytes=1024) is None
    assert hit_level(two, clock_mhz=450.0, memory="ddr3", stride_bytes=64) is None


def test_a_rare_short_count_is_not_taken_for_the_hit() -> None:
    # A latency of 306 cycles wraps to 50: possible, but not what a hit takes.
    levels = find_levels(np.array([50] + [55] * 99))
    hit = hit_level(levels, clock_mhz=450.0, memory="hbm", stride_bytes=128)
    assert hit is not None and hit.cycles == 55
    assert page_state(levels[0], 55, 450.0) is None


def test_states_need_the_clock() -> None:
    closed = Level(62, 62, 62, 5)
    assert page_state(closed, 55, None) is None
    assert page_state(Level(56, 55, 57, 5), 55, None) == "hit"
    assert cycles_to_ns(62, 450.0) == pytest.approx(137.8, abs=0.05)
