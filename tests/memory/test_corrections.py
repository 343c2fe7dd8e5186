"""Corrections as functions, and the sharing of memory channels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelperf.memory.corrections import (
    CORRECTIONS,
    NOTE_FLAGS,
    UNUSABLE_FLAGS,
    clock_factor,
    mean_latency_cycles,
    target_channel,
    wrapped_burst,
)
from accelperf.memory.table import MemoryRow
from accelperf.memory.targets import with_efficiency
from accelperf.simulate.shuhai_log import moved_burst_bytes
from tests.memory.logs import read_text, sidecar

PRINTED = 1e-5
"""Relative: speeds are printed with six digits."""


@hypothesis.settings(deadline=None)
@given(st.integers(1, 2048))
def test_wrapped_burst_agrees_with_the_writer(words: int) -> None:
    assert wrapped_burst(32 * words) == moved_burst_bytes("hbm", 32 * words)


def test_clock_factor() -> None:
    assert clock_factor("hbm", 450.0) == 1.0
    assert clock_factor("ddr3", 166.7) == pytest.approx(0.5556667)


def test_mean_latency_of_the_published_hit() -> None:
    assert mean_latency_cycles("hbm", 32, 0.252632) == pytest.approx(55, rel=PRINTED)


@pytest.mark.parametrize(
    ("memory", "switch", "target"),
    [("ddr4", None, 7), ("ddr3", None, 7), ("hbm", "off", 7), ("hbm", "on", 0), ("hbm", None, None)],
)
def test_target_channel(memory: str, switch: str | None, target: int | None) -> None:
    assert target_channel(memory, switch, 7) == target


def test_codes_do_not_overlap() -> None:
    codes = [*CORRECTIONS, *UNUSABLE_FLAGS, *NOTE_FLAGS]
    assert len(codes) == len(set(codes))
    assert all(";" not in code for code in codes)


def row(channel: int, gbps: float | None, **changes: object) -> MemoryRow:
    base = MemoryRow(
        board="b",
        memory="hbm",
        channel=channel,
        target_channel=0,
        direction="read",
        mode="throughput",
        policy="RGBCG",
        switch="on",
        burst_bytes=32,
        stride_bytes=64,
        working_set_bytes=8192,
        num_ops=1000,
        reported_gbps=gbps,
        corrected_gbps=gbps,
        peak_gbps=14.4,
        efficiency=None,
        corrections=(),
        flags=(),
        origin="measured",
        source_file="run.log",
        source_line=1,
    )
    return replace(base, **changes)  # type: ignore[arg-type]


class TestTargets:
    def test_engines_on_one_target_are_added(self) -> None:
        rows = with_efficiency([row(0, 3.0), row(1, 4.0), row(2, 5.0)], target_certain=False)
        assert [item.efficiency for item in rows] == [pytest.approx(12 / 14.4)] * 3
        assert {item.flags for item in rows} == {("target_shared",)}
        assert {item.target_channel for item in rows} == {0}

    def test_speeds_that_cannot_be_together_prove_their_own_targets(self) -> None:
        rows = with_efficiency([row(0, 13.0), row(1, 12.0)], target_certain=False)
        assert [item.efficiency for item in rows] == [pytest.approx(13 / 14.4), pytest.approx(12 / 14.4)]
        assert {item.target_channel for item in rows} == {None}
        assert {item.flags for item in rows} == {()}

    def test_what_cannot_be_decided_is_unknown(self) -> None:
        rows = with_efficiency([row(channel, 6.0) for channel in range(3)], target_certain=False)
        assert {(item.efficiency, item.flags) for item in rows} == {(None, ("target_unknown",))}
        pair = [replace(item, target_channel=None) for item in (row(0, 6.0), row(1, 6.0))]
        assert {item.flags for item in with_efficiency(pair, target_certain=False)} == {("target_unknown",)}

    def test_stated_targets_above_their_peak_are_rejected(self) -> None:
        rows = with_efficiency([row(0, 13.0), row(1, 12.0)], target_certain=True)
        assert {(item.efficiency, item.flags) for item in rows} == {(None, ("above_peak",))}

    def test_other_accesses_on_the_target_make_an_efficiency_of_nothing(self) -> None:
        rows = with_efficiency([row(0, 3.0), row(0, 4.0, direction="write")], target_certain=False)
        assert {(item.efficiency, item.flags) for item in rows} == {(None, ("mixed_target",))}

    def test_unknown_neighbour_is_noted(self) -> None:
        neighbour = row(1, None, flags=("no_speed_line",))
        first, second = with_efficiency([row(0, 13.0), neighbour], target_certain=False)
        assert (first.efficiency, first.flags) == (pytest.approx(13 / 14.4), ("target_share_unknown",))
        assert second is neighbour

    def test_targets_of_their_own_do_not_meet(self, tmp_path: Path) -> None:
        text = "".join(f"The chennel {channel}, rd_speed: 6 GB/s\n" for channel in range(3))
        stated = {"burst_bytes": 32, "stride_bytes": 64, "working_set_bytes": 8192, "num_ops": 1000}
        for target, efficiency, flags in (
            ({0: 0, 1: 1, 2: 2}, 6 / 14.4, ()),
            ({0: 0, 1: 0, 2: 2}, 12 / 14.4, ("target_shared",)),
        ):
            log = read_text(tmp_path, text, sidecar(target_channel=target, **stated))
            assert log.rows[0].efficiency == pytest.approx(efficiency)
            assert log.rows[0].flags == flags
            assert log.rows[2].efficiency == pytest.approx(6 / 14.4)
