from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelperf.errors import InputError
from accelperf.simulate import dram
from accelperf.simulate.address_mapping import POLICIES, AddressMapping, Location, address_mapping
from accelperf.simulate.anchor_comparison import Comparison, compare, idle_latency, refresh_spacing
from accelperf.simulate.dram import (
    AccessPattern,
    idle_latency_cycles,
    idle_path_cycles,
    simulate,
    simulate_shared,
)
from accelperf.simulate.dram_tables import TABLES, anchor_table, fill_in
from accelperf.simulate.dram_timing import (
    DDR4_2400,
    HBM2,
    MEMORIES,
    TIMING_SOURCES,
    MemoryTiming,
    command_cycles,
)
from accelperf.simulate.published_anchors import IDLE_LATENCY_CYCLES, RANDOM_GBPS, RANDOM_LEAST_FRACTION

KB = 1 << 10
MB = 1 << 20
EXACT = {"rtol": 1e-12, "atol": 0.0}
SHARE = {"rtol": 0.01, "atol": 0.0}

POLICY = pytest.mark.parametrize("mapping", POLICIES, ids=lambda m: f"{m.memory}-{m.name}")


# --- published figures ----------------------------------------------------------------------------


COMPARISONS = compare()


@pytest.mark.parametrize("row", COMPARISONS, ids=lambda row: row.name)
def test_model_is_within_the_tolerance_of_every_published_figure(row: Comparison) -> None:
    assert row.lower <= row.deviation <= row.upper, f"{row.simulated:g} against {row.published:g}"


def test_all_required_figures_are_compared() -> None:
    names = " / ".join(row.name for row in COMPARISONS)
    for part in (
        "B = 32, S = 64",
        "B = 64, S = 64",
        "B = 128, S = 128",
        "W = 8 KB",
        "DDR4 read",
        "BRC",
        "B = 512",
    ):
        assert part in names
    assert len(COMPARISONS) == 23


@pytest.mark.parametrize(("memory", "switch"), IDLE_LATENCY_CYCLES)
def test_idle_latency_in_a_trace_is_that_of_the_timing(memory: str, switch: str) -> None:
    assert idle_latency(memory, switch) == idle_latency_cycles(MEMORIES[memory], switch)


def test_refresh_spacing_follows_from_refresh_interval_and_latency() -> None:
    # With the switch on 1755 cycles hold 30.8 accesses of 55 + 2 cycles at most, refresh not counted.
    assert refresh_spacing("hbm", "on") == pytest.approx(29, abs=1)
    assert refresh_spacing("hbm", "on") < 1755 / 57


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("burst_bytes", RANDOM_GBPS)
def test_random_reads_reach_their_share_of_the_measured_for_any_seed(burst_bytes: int, seed: int) -> None:
    pattern = AccessPattern(burst_bytes, burst_bytes, 256 * MB, 5_000, kind="random", seed=seed)
    assert simulate(HBM2, pattern).gbps >= RANDOM_LEAST_FRACTION * RANDOM_GBPS[burst_bytes]


def test_docs_show_what_the_model_makes_of_the_figures() -> None:
    page = (Path(__file__).parents[2] / "docs/dram_model.md").read_text(encoding="utf-8")
    assert fill_in(page) == page, "run python -m accelperf.simulate.dram_tables docs/dram_model.md"
    assert page.count("<!-- table ") == len(TABLES)
    assert anchor_table(COMPARISONS) in page


# --- address mapping ------------------------------------------------------------------------------

CAPACITY_BYTES = {"hbm": 256 * MB, "ddr4": 16 * KB * MB}


@POLICY
def test_policy_maps_the_whole_channel(mapping: AddressMapping) -> None:
    timing = MEMORIES[mapping.memory]
    bits = dict.fromkeys(("R", "BG", "B", "C"), 0)
    for name, count in mapping.pieces():
        bits[name] += count
    assert mapping.capacity_bytes == CAPACITY_BYTES[mapping.memory]
    assert (1 << bits["BG"], 1 << bits["B"]) == (timing.bank_groups, timing.banks_per_group)
    assert (1 << bits["C"]) * timing.beat_bytes == timing.page_bytes
    assert 1 << mapping.lowest_bit == timing.beat_bytes


@POLICY
@settings(deadline=None, max_examples=30)
@given(data=st.data())
def test_policy_is_a_bijection(mapping: AddressMapping, data: st.DataObject) -> None:
    beats = mapping.capacity_bytes >> mapping.lowest_bit
    index = data.draw(st.lists(st.integers(0, beats - 1), min_size=1, max_size=20))
    addresses = np.array(index, dtype=np.int64) << mapping.lowest_bit
    location = mapping.locate(addresses)
    np.testing.assert_array_equal(mapping.address(location), addresses)
    sizes = (1 << 14 if mapping.memory == "hbm" else 1 << 17, 4, 4, 32 if mapping.memory == "hbm" else 128)
    for values, size in zip(location, sizes, strict=True):
        assert (values >= 0).all()
        assert (values < size).all()


def test_default_policy_of_hbm_splits_the_bank_group() -> None:
    mapping = address_mapping("hbm")
    assert mapping.name == "RGBCG"
    location = mapping.locate(np.array([1 << 5, 1 << 6, 1 << 11, 1 << 13, 1 << 14], dtype=np.int64))
    expected = Location(
        row=np.array([0, 0, 0, 0, 1]),
        bank_group=np.array([1, 0, 0, 2, 0]),
        bank=np.array([0, 0, 1, 0, 0]),
        column=np.array([0, 1, 0, 0, 0]),
    )
    for found, value in zip(location, expected, strict=True):
        np.testing.assert_array_equal(found, value)


def test_unknown_policy_names_the_known_ones() -> None:
    with pytest.raises(InputError, match=r"policy of ddr4 \(BRC, RBC, RCB, RCBI\), got 'RGBCG'"):
        address_mapping("ddr4", "RGBCG")
    with pytest.raises(InputError, match="memory hbm or ddr4, got 'ddr3'"):
        address_mapping("ddr3")


# --- timing ---------------------------------------------------------------------------------------


def test_every_number_of_the_timing_has_a_source() -> None:
    fields = set(vars(HBM2)) - {"name", "title"}
    assert set(TIMING_SOURCES) == fields
    assert {status for status, _ in TIMING_SOURCES.values()} <= {"V", "D", "R", "fitted"}


@pytest.mark.parametrize(("timing", "gbps"), [(HBM2, 14.4), (DDR4_2400, 19.2)], ids=["hbm", "ddr4"])
def test_peak_rate_is_one_beat_a_cycle(timing: MemoryTiming, gbps: float) -> None:
    np.testing.assert_allclose(timing.peak_gbps, gbps, **EXACT)
    assert command_cycles(timing).column_short == 1


def test_timing_refuses_impossible_values() -> None:
    with pytest.raises(ValueError, match="tcl must be above 0"):
        replace(HBM2, tcl=0)
    with pytest.raises(ValueError, match="refresh must be shorter"):
        replace(HBM2, trfc=HBM2.trefi)
    with pytest.raises(ValueError, match="two short ones"):
        replace(HBM2, tccd_l=5)


# --- the model against itself, beat by beat -------------------------------------------------------


def beat_by_beat(
    timing: MemoryTiming, pattern: AccessPattern, policy: str, direction: dram.Direction
) -> tuple[int, tuple[int, int, int, int]]:
    """Return timer and row counts of a run from the plain loop over beats."""
    cycles = command_cycles(timing, direction)
    channel = dram._Channel(timing, cycles)
    mapping = address_mapping(timing.name, policy)
    finished: list[int] = []
    for addresses in pattern.addresses():
        for address in addresses.tolist():
            for byte in range(0, pattern.burst_bytes, timing.beat_bytes):
                location = mapping.locate(
                    np.array([(address + byte) % mapping.capacity_bytes], dtype=np.int64)
                )
                bank = int(location.bank_group[0]) * timing.banks_per_group + int(location.bank[0])
                window = timing.window_beats
                entered = finished[-window] if len(finished) >= window else 0
                finished.append(channel.column(entered, bank, int(location.row[0])) + cycles.column_to_data)
    rows = channel.rows
    return finished[-1] + idle_path_cycles(timing), (rows.hits, rows.closed, rows.misses, rows.refreshes)


@st.composite
def runs(draw: st.DrawFn) -> tuple[MemoryTiming, str, AccessPattern]:
    mapping = draw(st.sampled_from(POLICIES))
    timing = MEMORIES[mapping.memory]
    burst = timing.beat_bytes << draw(st.integers(0, 4))
    stride = timing.beat_bytes << draw(st.integers(0, 16))
    working_set = min(stride << draw(st.integers(0, 12)), 256 * MB)
    kind = draw(st.sampled_from(["rst", "random"]))
    pattern = AccessPattern(
        burst_bytes=burst,
        stride_bytes=stride,
        working_set_bytes=max(working_set, burst) if kind == "random" else working_set,
        num_ops=draw(st.integers(1, 6000 * timing.beat_bytes // burst)),
        kind=kind,  # type: ignore[arg-type]
        seed=draw(st.integers(0, 3)),
    )
    return timing, mapping.name, pattern


@settings(deadline=None)
@given(run=runs(), direction=st.sampled_from(["read", "write"]))
def test_working_out_whole_intervals_equals_going_beat_by_beat(
    run: tuple[MemoryTiming, str, AccessPattern], direction: dram.Direction
) -> None:
    timing, policy, pattern = run
    small = replace(pattern, num_ops=min(pattern.num_ops, 1500 * timing.beat_bytes // pattern.burst_bytes))
    result = simulate(timing, small, policy=policy, direction=direction)
    counts = (result.row_hits, result.row_closed, result.row_misses, result.refreshes)
    assert (result.cycles, counts) == beat_by_beat(timing, small, policy, direction)


@settings(deadline=None)
@given(run=runs(), direction=st.sampled_from(["read", "write"]))
def test_throughput_stays_below_the_peak(
    run: tuple[MemoryTiming, str, AccessPattern], direction: dram.Direction
) -> None:
    timing, policy, pattern = run
    result = simulate(timing, pattern, policy=policy, direction=direction)
    assert 0 < result.gbps < timing.peak_gbps
    beats = pattern.total_bytes // timing.beat_bytes
    assert result.row_hits + result.row_closed + result.row_misses == beats


@pytest.mark.parametrize("timing", [HBM2, DDR4_2400], ids=["hbm", "ddr4"])
def test_a_long_run_pays_for_its_refreshes(timing: MemoryTiming) -> None:
    pattern = AccessPattern(timing.beat_bytes, timing.beat_bytes, MB, 50_000)
    result = simulate(timing, pattern)
    assert result.gbps < timing.peak_gbps * (1 - timing.trfc / timing.trefi)
    assert result.refreshes == result.cycles // command_cycles(timing).refresh_interval


def test_block_size_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    pattern = AccessPattern(64, 1024, MB, 20_000)
    whole = simulate(HBM2, pattern)
    monkeypatch.setattr(dram, "_BLOCK_BEATS", 1000)
    assert simulate(HBM2, pattern).cycles == whole.cycles


def test_the_same_run_gives_the_same_result() -> None:
    pattern = AccessPattern(64, 64, 256 * MB, 3000, kind="random", seed=7)
    first, second = simulate(HBM2, pattern), simulate(HBM2, pattern)
    assert (first.cycles, first.row_misses) == (second.cycles, second.row_misses)
    assert simulate(HBM2, replace(pattern, seed=8)).cycles != first.cycles


# --- latency --------------------------------------------------------------------------------------


def latency_pattern(timing: MemoryTiming, stride_bytes: int) -> AccessPattern:
    """Return the run of the paper's Figure 5."""
    return AccessPattern(timing.beat_bytes, stride_bytes, 16 * MB, 2000)


def test_small_stride_shows_page_hits_and_closed_banks() -> None:
    result = simulate(HBM2, latency_pattern(HBM2, 128), mode="latency")
    quick = result.latency_cycles[result.latency_cycles <= 100]
    assert set(quick.tolist()) == {55, 62}
    # Twice the stride: eight accesses to each page of 1 KB, whose neighbour holds every other beat.
    np.testing.assert_array_equal(result.latency_cycles[:9], [62, *[55] * 7, 62])


def test_large_stride_shows_page_misses() -> None:
    result = simulate(HBM2, latency_pattern(HBM2, 128 * KB), mode="latency")
    quick = result.latency_cycles[result.latency_cycles <= 100]
    assert set(quick.tolist()) == {62, 69}
    assert np.median(quick) == 69


def test_timer_of_a_latency_run_holds_two_more_cycles_an_access() -> None:
    result = simulate(HBM2, latency_pattern(HBM2, 128), mode="latency")
    assert result.cycles == result.latency_cycles.sum() + 2 * 2000
    mean = HBM2.beat_bytes * HBM2.clock_mhz / (1e3 * result.gbps) - 2
    np.testing.assert_allclose(mean, result.latency_cycles.mean(), **EXACT)


@pytest.mark.parametrize(
    ("axi_channel", "hit"), [(0, 55), (3, 55), (4, 56), (12, 60), (16, 71), (28, 77), (31, 77)]
)
def test_latency_by_axi_channel_is_the_published_one(axi_channel: int, hit: int) -> None:
    pattern = AccessPattern(32, 32, 64, 10)
    result = simulate(HBM2, pattern, mode="latency", axi_channel=axi_channel)
    assert result.latency_cycles[-1] == hit


def test_a_burst_waits_for_its_last_beat() -> None:
    one = simulate(HBM2, AccessPattern(32, 32, 64, 10), mode="latency").latency_cycles[-1]
    four = simulate(HBM2, AccessPattern(128, 128, 128, 10), mode="latency").latency_cycles[-1]
    assert four == one + 3


# --- engines on one channel -----------------------------------------------------------------------


def test_engines_share_the_rate_of_their_channel() -> None:
    pattern = AccessPattern(64, 64, 256 * MB, 20_000)
    alone = simulate(HBM2, pattern).cycles
    timers = simulate_shared(HBM2, [pattern, pattern])
    np.testing.assert_allclose(timers, [2 * alone, 2 * alone], **SHARE)


def test_an_engine_alone_takes_its_own_time() -> None:
    pattern = AccessPattern(64, 4096, 256 * MB, 5000)
    assert simulate_shared(HBM2, [pattern]) == (simulate(HBM2, pattern).cycles,)


def test_an_engine_with_fewer_accesses_is_done_earlier() -> None:
    short, long = AccessPattern(32, 64, MB, 2000), AccessPattern(64, 64, MB, 9000)
    timers = simulate_shared(HBM2, [short, long, short])
    assert timers[0] <= timers[2] < timers[1]
    # Until the short engines have done, all make their accesses in turn.
    beats = 2000 * (1 + 2 + 1)
    assert timers[2] > beats


# --- what is known of a result --------------------------------------------------------------------


def test_a_published_pattern_is_validated() -> None:
    result = simulate(HBM2, AccessPattern(128, 128, 256 * MB, 100_000))
    assert result.validated
    assert result.note.startswith("validated: ")
    assert result.note.endswith("from the published 13.3 GB/s")


def test_a_run_too_short_for_its_figure_is_not_validated() -> None:
    result = simulate(HBM2, AccessPattern(128, 128, 256 * MB, 10))
    assert not result.validated
    assert result.note.startswith("outside the tolerance: ")


@pytest.mark.parametrize(
    ("pattern", "arguments", "note"),
    [
        (AccessPattern(64, 128, MB, 1000), {}, "no published figure for this pattern"),
        (AccessPattern(64, 64, 256 * MB, 1000), {"policy": "RCB"}, "RCB is known only as a ratio"),
        (AccessPattern(64, 64, 256 * MB, 1000), {"direction": "write"}, "no published figure for writes"),
        (AccessPattern(64, 64, 256 * MB, 1000, kind="random"), {}, "does not reorder"),
        (AccessPattern(64, 64, 256 * MB, 1000), {"mode": "latency"}, "unvalidated as a trace"),
    ],
)
def test_anything_else_says_that_it_is_unvalidated(
    pattern: AccessPattern, arguments: dict[str, str], note: str
) -> None:
    result = simulate(HBM2, pattern, **arguments)  # type: ignore[arg-type]
    assert not result.validated
    assert result.note.startswith("unvalidated")
    assert note in result.note


# --- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ((48, 64, 1024, 1), "burst_bytes as a power of two, got 48"),
        ((64, 0, 1024, 1), "stride_bytes as a power of two, got 0"),
        ((64, 2048, 1024, 1), r"a stride up to the working set \(1024 bytes\), got 2048"),
        ((64, 64, 1024, 0), "num_ops of 1 or more, got 0"),
        ((64, 64, 1024, 1, "zigzag"), "rst or random, got 'zigzag'"),
        ((2048, 64, 1024, 1, "random"), "a burst up to the working set"),
    ],
)
def test_pattern_refuses(arguments: tuple[object, ...], match: str) -> None:
    with pytest.raises(InputError, match=match):
        AccessPattern(*arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("timing", "pattern", "arguments", "match"),
    [
        (DDR4_2400, AccessPattern(32, 64, MB, 1), {}, "a burst of 64 to 32768 bytes on ddr4, got 32"),
        (HBM2, AccessPattern(1 << 16, 32, MB, 1), {}, "a burst of 32 to 32768 bytes on hbm, got 65536"),
        (HBM2, AccessPattern(32, 16, MB, 1), {}, "a stride of 32 bytes or more on hbm, got 16"),
        (HBM2, AccessPattern(32, 32, 512 * MB, 1), {}, "a working set up to 268435456 bytes"),
        (HBM2, AccessPattern(32, 32, MB, 1), {"policy": "ABC"}, "got 'ABC'"),
        (HBM2, AccessPattern(32, 32, MB, 1), {"switch": "half"}, "switch on or off for hbm, got 'half'"),
        (DDR4_2400, AccessPattern(64, 64, MB, 1), {"switch": "on"}, "switch off for ddr4, got 'on'"),
        (HBM2, AccessPattern(32, 32, MB, 1), {"axi_channel": 32}, "an AXI channel from 0 to 31, got 32"),
        (HBM2, AccessPattern(32, 32, MB, 1), {"mode": "speed"}, "throughput or latency, got 'speed'"),
        (HBM2, AccessPattern(32, 32, MB, 1), {"direction": "both"}, "read or write, got 'both'"),
        (
            HBM2,
            AccessPattern(32, 32, MB, 1),
            {"mode": "latency", "direction": "write"},
            "direction read in latency mode",
        ),
    ],
)
def test_run_refuses(
    timing: MemoryTiming, pattern: AccessPattern, arguments: dict[str, object], match: str
) -> None:
    with pytest.raises(InputError, match=match):
        simulate(timing, pattern, **arguments)  # type: ignore[arg-type]


def test_random_engines_do_not_share_a_channel() -> None:
    with pytest.raises(InputError, match="access pattern rst on a shared channel"):
        simulate_shared(HBM2, [AccessPattern(64, 64, MB, 10, kind="random")])


def test_every_policy_of_both_memories_runs_in_both_modes() -> None:
    for mapping, mode in itertools.product(POLICIES, ("throughput", "latency")):
        timing = MEMORIES[mapping.memory]
        pattern = AccessPattern(timing.beat_bytes, 4 * KB, MB, 200)
        assert simulate(timing, pattern, policy=mapping.name, mode=mode).cycles > 0  # type: ignore[arg-type]
