"""Efficiency of an access pattern: measured, interpolated, refused."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import hypothesis
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.interpolate import RegularGridInterpolator

from accelperf.errors import InputError
from accelperf.memory.profiles import layer_efficiency, lookup, platform_efficiency
from accelperf.memory.table import MemoryRow, memory_table
from accelperf.platforms import MemoryPattern, Platform
from tests.memory.test_corrections import row
from tests.tolerances import EXACT_ALGEBRA

BURSTS, STRIDES, SETS = (32, 64, 256), (256, 1024, 8192), (8192, 2**28)


def surface(burst: float, stride: float, working_set: float) -> float:
    """Return an efficiency that bends along every axis."""
    return 0.9 / (1 + 0.02 * math.log2(stride) ** 1.5 / math.log2(burst)) / (1 + working_set / 2**31)


def measured(burst: int, stride: int, working_set: int, efficiency: float, **changes: Any) -> MemoryRow:
    run = f"{burst}_{stride}_{working_set}.log"
    pattern = {"burst_bytes": burst, "stride_bytes": stride, "working_set_bytes": working_set}
    settings = {"board": "u280", "efficiency": efficiency, "source_file": run, "source_line": 7}
    return row(**({"channel": 0, "gbps": 14.4 * efficiency} | pattern | settings | changes))


GRID = memory_table(measured(*point, surface(*point)) for point in itertools.product(BURSTS, STRIDES, SETS))


def pattern(
    burst: int | str = 64, stride: int | str = 1024, working_set: int = 8192, **changes: Any
) -> MemoryPattern:
    content = {"profile": "u280/hbm", "direction": "read", "policy": "RGBCG", "channels": 1}
    sizes = {"burst_bytes": burst, "stride_bytes": stride, "working_set_bytes": working_set}
    return MemoryPattern(**(content | sizes | changes))


def test_measured_pattern_is_answered_with_its_row() -> None:
    found = lookup(GRID, pattern())
    assert found.value == surface(64, 1024, 8192)
    assert found.peak_gbps == 14.4
    assert found.source_rows == ("64_1024_8192.log:7",)


@hypothesis.settings(deadline=None)
@given(st.integers(32, 256), st.integers(256, 8192), st.integers(8192, 2**28))
def test_between_patterns_it_is_the_linear_interpolation_on_log_axes(
    burst: int, stride: int, working_set: int
) -> None:
    grid = [[[surface(b, s, w) for w in SETS] for s in STRIDES] for b in BURSTS]
    other = RegularGridInterpolator([np.log2(BURSTS), np.log2(STRIDES), np.log2(SETS)], np.array(grid))
    expected = other(np.log2([burst, stride, working_set])).item()
    if burst == stride:
        return  # contiguous patterns have their own line, below
    found = lookup(GRID, pattern(burst, stride, working_set))
    assert found.value == pytest.approx(expected, rel=EXACT_ALGEBRA)
    assert 1 <= len(found.source_rows) <= 8


def test_half_way_on_a_log_axis() -> None:
    found = lookup(GRID, pattern(burst=128))
    assert found.value == pytest.approx((surface(64, 1024, 8192) + surface(256, 1024, 8192)) / 2)
    assert found.source_rows == ("64_1024_8192.log:7", "256_1024_8192.log:7")


def test_a_missing_corner_takes_the_next_larger_box() -> None:
    table = GRID[~((GRID["burst_bytes"] == 64) & (GRID["stride_bytes"] == 1024))]
    found = lookup(table, pattern(burst=96))
    assert found.source_rows == ("32_1024_8192.log:7", "256_1024_8192.log:7")


def test_contiguous_access_follows_the_contiguous_patterns() -> None:
    table = memory_table([measured(size, size, 8192, share) for size, share in ((32, 0.4), (128, 0.8))])
    assert lookup(table, pattern(64, 64)).value == pytest.approx(0.6)
    with pytest.raises(InputError, match="a pattern between patterns measured"):
        lookup(table, pattern(64, 128))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"burst": 16}, r"burst_bytes in the range measured in .*: 32 to 256, got 16"),
        ({"stride": 16384}, r"stride_bytes in the range measured in .*: 256 to 8192, got 16384"),
        ({"working_set": 2**29}, r"working_set_bytes in the range .*: 8192 to 268435456, got 536870912"),
        ({"policy": "RBC"}, r"a policy that was measured in memory profile 'u280/hbm': RGBCG, got 'RBC'"),
        ({"direction": "write"}, r"a direction that was measured in .*: read, got 'write'"),
        ({"profile": "u50"}, r"memory profile 'u50' as one of u280/hbm, got 'u50'"),
        ({"profile": "u280/ddr4"}, r"memory profile 'u280/ddr4' as one of u280/hbm"),
    ],
)
def test_refusals_say_what_was_measured(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        lookup(GRID, pattern(**changes))


def test_the_board_alone_names_its_only_memory() -> None:
    assert lookup(GRID, pattern(profile="u280")).value == surface(64, 1024, 8192)
    both = pd.concat([GRID, memory_table([measured(64, 64, 8192, 0.9, memory="ddr4")])])
    with pytest.raises(InputError, match=r"as one of u280/ddr4, u280/hbm, got 'u280'"):
        lookup(both, pattern(profile="u280"))


@pytest.mark.parametrize(
    "changes",
    [
        {"mode": "latency"},
        {"flags": ("num_ops_unknown",)},
        {"flags": ("target_shared", "pattern_unknown")},
        {"efficiency": None},
    ],
)
def test_rows_that_say_nothing_are_not_used(changes: dict[str, Any]) -> None:
    table = memory_table([measured(64, 1024, 8192, 0.5) if not changes else row(0, 7.2, **changes)])
    with pytest.raises(InputError, match=r"none \(no usable row\)"):
        lookup(table, pattern(profile="b"))


def test_repeats_are_averaged_and_measurements_beat_simulations() -> None:
    rows = [
        measured(64, 64, 8192, 0.8, source_file="a.log"),
        measured(64, 64, 8192, 0.9, source_file="b.log"),
        measured(64, 64, 8192, 0.2, source_file="c.log", origin="simulated"),
    ]
    found = lookup(memory_table(rows), pattern(64, 64))
    assert found.value == pytest.approx(0.85)
    assert found.source_rows == ("a.log:7", "b.log:7")
    assert lookup(memory_table(rows[2:]), pattern(64, 64)).value == 0.2


class TestChannels:
    @staticmethod
    def together(channels: int, efficiency: float, targets: Callable[[int], int | None]) -> list[MemoryRow]:
        return [
            measured(
                64, 64, 8192, efficiency, channel=channel, target_channel=targets(channel),
                source_file=f"{channels}.log", source_line=channel + 1,
            )
            for channel in range(channels)
        ]  # fmt: skip

    def test_one_channel_stands_for_any_number(self) -> None:
        found = lookup(memory_table(self.together(1, 0.9, lambda _: 0)), pattern(64, 64, channels=32))
        assert (found.value, found.peak_gbps) == (0.9, pytest.approx(460.8))

    def test_channels_measured_together_count_together(self) -> None:
        rows = self.together(1, 0.9, lambda _: 0) + self.together(4, 0.7, lambda channel: channel)
        table = memory_table(rows)
        assert lookup(table, pattern(64, 64, channels=4)).value == pytest.approx(0.7)
        assert lookup(table, pattern(64, 64, channels=2)).value == pytest.approx(0.8)
        with pytest.raises(InputError, match=r"channels in the range measured in .*: 1 to 4, got 8"):
            lookup(table, pattern(64, 64, channels=8))

    def test_engines_that_share_a_target_are_one_channel(self) -> None:
        found = lookup(memory_table(self.together(4, 0.9, lambda _: 0)), pattern(64, 64))
        assert (found.value, len(found.source_rows)) == (0.9, 4)

    def test_engines_of_unknown_targets_had_their_own(self) -> None:
        table = memory_table(self.together(4, 0.9, lambda _: None))
        assert lookup(table, pattern(64, 64, channels=4)).value == pytest.approx(0.9)


class TestPlatform:
    @staticmethod
    def platform(**changes: Any) -> Platform:
        content: dict[str, Any] = {
            "name": "p",
            "filter_parallelism": 64,
            "channel_parallelism": 64,
            "unrolled_loop": "channels",
            "logic_clock_mhz": 200.0,
            "memory_clock_mhz": 450.0,
            "transfer_width_bits": 256,
            "data_width_bits": 8,
            "memory_ports": 1,
            "memory_efficiency": pattern(),
        }
        return Platform(**(content | changes))

    def test_profile_with_the_platform_s_peak(self) -> None:
        assert platform_efficiency(self.platform(), GRID).value == surface(64, 1024, 8192)
        two = self.platform(memory_ports=2, memory_efficiency=pattern(channels=2))
        assert platform_efficiency(two, GRID).peak_gbps == pytest.approx(28.8)

    def test_other_peak_is_refused(self) -> None:
        message = r"of p to have 1 x 14.4 = 14.4 GB/s of peak, got 450 MHz x 256 bit x 2 ports = 28.8 GB/s"
        with pytest.raises(InputError, match=message):
            platform_efficiency(self.platform(memory_ports=2), GRID)

    def test_plain_fraction_needs_no_table(self) -> None:
        found = platform_efficiency(self.platform(memory_efficiency=0.7), None)
        assert (found.value, found.peak_gbps, found.source_rows) == (0.7, 14.4, ())

    def test_profile_needs_a_table(self) -> None:
        with pytest.raises(InputError, match="a memory table for the profile 'u280/hbm'"):
            platform_efficiency(self.platform(), None)

    def test_peaks_that_differ_are_refused(self) -> None:
        table = pd.concat([GRID, memory_table([measured(512, 512, 8192, 0.9, peak_gbps=19.2)])])
        with pytest.raises(InputError, match=r"one peak a channel in .*, got 14.4, 19.2"):
            lookup(table, pattern())


class TestRowOfTheLayer:
    """Patterns whose burst is a row of the layer's input."""

    @staticmethod
    def platform() -> Platform:
        return TestPlatform.platform(memory_efficiency=pattern(burst="row", stride=1024))

    @pytest.mark.parametrize(
        ("row_bytes", "burst"),
        [(64, 64), (256, 256), (7, 32), (416, 256)],  # a word at least, the longest measured at most
    )
    def test_each_row_length_has_its_efficiency(self, row_bytes: int, burst: int) -> None:
        found = layer_efficiency(self.platform(), GRID, row_bytes)
        assert found.value == lookup(GRID, pattern(burst=burst)).value

    def test_between_measured_bursts_it_is_interpolated(self) -> None:
        found = layer_efficiency(self.platform(), GRID, 128)
        expected = (surface(64, 1024, 8192) + surface(256, 1024, 8192)) / 2
        assert found.value == pytest.approx(expected, rel=EXACT_ALGEBRA)

    def test_rows_shorter_than_any_measured_burst_are_refused(self) -> None:
        with pytest.raises(InputError, match=r"burst_bytes in the range measured in .*: 64 to 256, got 32"):
            layer_efficiency(self.platform(), GRID[GRID["burst_bytes"] >= 64], 7)

    def test_a_fixed_pattern_has_one_efficiency(self) -> None:
        platform = TestPlatform.platform()
        assert layer_efficiency(platform, GRID, 7) == platform_efficiency(platform, GRID)

    def test_without_a_layer_there_is_no_answer(self) -> None:
        with pytest.raises(InputError, match="in bytes where there is no layer, got 'row'"):
            platform_efficiency(self.platform(), GRID)
