"""What logs say, against the DRAM model that made them and against plain loops."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelperf.errors import InputError
from accelperf.memory.analysis import MemoryAnalysis, RunLog, analyse
from accelperf.memory.shuhai import read_run
from accelperf.memory.throughput import (
    FALL_RATIO,
    Throughput,
    by_engine,
    competing,
    contiguous_by_burst,
    falls_with_stride,
    locality,
    policies,
    series,
    writes_against_reads,
)
from accelperf.memory_report.address_view import WORDS, address_view
from accelperf.simulate.address_mapping import address_mapping
from accelperf.simulate.dram_timing import AXI_GROUP_EXTRA_CYCLES, MEMORIES
from accelperf.simulate.memory_run import simulate_memory
from accelperf.simulate.published_anchors import IDLE_LATENCY_CYCLES
from accelperf.stages.memory_report import read_logs
from tests.memory import logs

SIX_DIGITS = 5e-6
"""Relative: speeds are printed with six digits."""
ONE_REFRESH = 0.05
"""Relative: mean latencies of runs that hold a few refreshes more or less."""

MB = 1 << 20


def analysis_of(folder: Path, **runs: dict[str, Any]) -> MemoryAnalysis:
    """Run the model as often as named, read the logs and analyse them."""
    for name, arguments in runs.items():
        given = {"burst_bytes": 32, "stride_bytes": 64, "working_set_bytes": 16 * MB, "num_ops": 500}
        simulate_memory(folder / name, **(given | arguments))
    return analyse(read_logs([folder]))


def point(**changes: Any) -> Throughput:
    """Return a throughput with changes; GB/s follow from the efficiency."""
    content: dict[str, Any] = {
        "board": "b", "memory": "hbm", "policy": "RGBCG", "switch": "on", "direction": "read",
        "burst_bytes": 64, "stride_bytes": 64, "working_set_bytes": 256 * MB, "engines": (0,), "targets": 1,
        "efficiency": 0.5, "peak_gbps": 14.4, "corrections": (), "flags": (), "origin": "measured",
        "unvalidated": False, "source_rows": ("a.log:1",),
    }  # fmt: skip
    content |= changes
    total = content["efficiency"] * content["peak_gbps"] * content["targets"]
    return Throughput(**content, total_gbps=total, gbps=total / len(content["engines"]))


# --- throughput -----------------------------------------------------------------------------------


@settings(max_examples=15, deadline=None)
@given(
    stride=st.sampled_from([64, 512, 4096]),
    burst=st.sampled_from([32, 64, 256]),
    direction=st.sampled_from(["read", "write"]),
    channels=st.sampled_from([(0,), (3,), (0, 1), (2, 4, 7)]),
)
def test_throughputs_are_those_of_the_model(
    stride: int,
    burst: int,
    direction: Any,
    channels: tuple[int, ...],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("runs")
    run = simulate_memory(
        folder, direction=direction, channels=channels, burst_bytes=burst, stride_bytes=stride, num_ops=400
    )
    (found,) = analyse(read_logs([folder])).throughput
    assert found.engines == channels
    assert found.targets == 1  # with the switch on all engines meet in channel 0
    assert found.total_gbps == pytest.approx(sum(channel.gbps for channel in run.channels), rel=SIX_DIGITS)
    assert found.target_gbps == pytest.approx(found.total_gbps, rel=SIX_DIGITS)
    assert found.gbps == pytest.approx(found.total_gbps / len(channels), rel=SIX_DIGITS)
    assert ("target_shared" in found.flags) == (len(channels) > 1)
    assert (found.direction, found.burst_bytes, found.stride_bytes) == (direction, burst, stride)


def test_engines_with_a_memory_each_are_added_up(tmp_path: Path) -> None:
    run = simulate_memory(
        tmp_path, channels=(0, 5), switch="off", burst_bytes=64, stride_bytes=64, num_ops=2000
    )
    (found,) = analyse(read_logs([tmp_path])).throughput
    assert found.targets == 2
    assert found.total_gbps == pytest.approx(sum(channel.gbps for channel in run.channels), rel=SIX_DIGITS)
    assert found.efficiency == pytest.approx(found.total_gbps / 28.8, rel=SIX_DIGITS)


def test_what_the_log_says_of_its_validation_is_kept(tmp_path: Path) -> None:
    found = analysis_of(
        tmp_path,
        anchor={"working_set_bytes": 256 * MB, "num_ops": 20_000},
        other={"stride_bytes": 256, "working_set_bytes": 256 * MB},
    ).throughput
    assert {point.stride_bytes: point.unvalidated for point in found} == {64: False, 256: True}


@given(
    st.lists(
        st.builds(
            point,
            stride_bytes=st.sampled_from([64, 128]),
            burst_bytes=st.sampled_from([32, 64]),
            policy=st.sampled_from(["RGBCG", "BRC", ""]),
            direction=st.sampled_from(["read", "write"]),
            engines=st.sampled_from([(0,), (1,), (0, 1)]),
            efficiency=st.floats(0.01, 1),
        ),
        max_size=30,
    )
)
def test_a_series_differs_in_one_quantity_alone(points: list[Throughput]) -> None:
    groups = series(points, "stride_bytes")
    for group in groups:
        strides = [item.stride_bytes for item in group]
        assert strides == sorted(set(strides))
        others = {
            (item.burst_bytes, item.policy, item.direction, len(item.engines), item.working_set_bytes)
            for item in group
        }
        assert len(others) == 1
        for item in group:
            alike = [
                other.efficiency
                for other in points
                if (other.stride_bytes, other.burst_bytes, other.policy, other.direction, len(other.engines))
                == (item.stride_bytes, item.burst_bytes, item.policy, item.direction, len(item.engines))
            ]
            assert item.efficiency == pytest.approx(np.mean(alike))
    assert sum(len(item.source_rows) for group in groups for item in group) == len(points)


def test_comparisons_set_two_equal_runs_beside_each_other() -> None:
    small = point(working_set_bytes=8192, efficiency=0.46)
    middle = point(working_set_bytes=MB, efficiency=0.3)
    large = point(efficiency=0.2)
    write = point(direction="write", efficiency=0.1)
    other_policy = point(policy="BRC", efficiency=0.02)
    elsewhere = point(board="c", efficiency=0.9)
    points = [small, middle, large, write, other_policy, elsewhere, point(policy="", efficiency=1.0)]
    (found,) = locality(points)
    assert (found.one, found.other, found.ratio) == (small, large, pytest.approx(2.3))
    (found,) = writes_against_reads(points)
    assert (found.one, found.other, found.ratio) == (write, large, pytest.approx(0.5))
    # A policy that is not stated is none that could be chosen.
    (found,) = policies(points)
    assert (found.one, found.other, found.ratio) == (large, other_policy, pytest.approx(10.0))


def test_falls_are_between_neighbouring_strides() -> None:
    efficiencies = {64: 0.9, 128: 0.9 * FALL_RATIO + 0.01, 256: 0.4, 512: 0.4, 4096: 0.1}
    points = [point(stride_bytes=stride, efficiency=share) for stride, share in efficiencies.items()]
    falls = falls_with_stride(points)
    assert [(fall.other.stride_bytes, fall.one.stride_bytes) for fall in falls] == [(128, 256), (512, 4096)]
    assert falls[1].ratio == pytest.approx(0.25)


def test_contiguous_accesses_are_ordered_by_burst() -> None:
    points = [point(burst_bytes=size, stride_bytes=size) for size in (256, 64, 128)]
    ((*line,),) = contiguous_by_burst([*points, point(burst_bytes=32), point(board="c")])
    assert [item.burst_bytes for item in line] == [64, 128, 256]


def test_engines_alone_and_together() -> None:
    alone, distant = point(efficiency=0.9), point(engines=(28,), efficiency=0.88)
    together = point(engines=(0, 4), efficiency=0.92)
    apart = point(engines=(0, 1), targets=2, efficiency=0.9)
    (group,) = by_engine([distant, alone, together, apart])
    assert group == [alone, distant]
    (found,) = competing([alone, together, apart])
    assert (found.together, found.alone) == (together, alone)
    (found,) = competing([together, point(stride_bytes=128)])
    assert found.alone is None


# --- latencies --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("memory", "burst"), [("hbm", 32), ("ddr4", 64)])
def test_idle_latencies_are_the_published_ones(memory: str, burst: int, tmp_path: Path) -> None:
    arguments = {"memory": memory, "mode": "latency", "burst_bytes": burst}
    analysis = analysis_of(
        tmp_path,
        small=arguments | {"stride_bytes": 128},
        large=arguments | {"stride_bytes": 128 * 1024},
    )
    (idle,) = analysis.idle
    published = IDLE_LATENCY_CYCLES[memory, "on" if memory == "hbm" else "off"]
    assert {state: level.cycles for state, level in idle.states.items()} == published
    counts = np.concatenate([trace.cycles for trace in analysis.traces])
    for state, level in idle.states.items():
        assert level.accesses == int((counts == published[state]).sum())
    clock = MEMORIES[memory].clock_mhz
    assert idle.nanoseconds("hit") == pytest.approx(published["hit"] / clock * 1e3)
    assert idle.other == ()
    for trace in analysis.traces:
        # The printed speed stands for all accesses of the run, refreshes among them.
        assert trace.mean_cycles == pytest.approx(trace.cycles.mean(), rel=ONE_REFRESH)
        assert "latency_stride" in trace.corrections


def test_a_large_stride_alone_leaves_the_states_unknown(tmp_path: Path) -> None:
    analysis = analysis_of(tmp_path, large={"mode": "latency", "stride_bytes": 128 * 1024})
    (idle,) = analysis.idle
    assert idle.states == {}
    assert [level.cycles for level in idle.other] == [62, 69]
    assert idle.nanoseconds("hit") is None
    assert set(analysis.traces[0].state_of_accesses()) == {"unknown", "refresh"}


def test_one_engine_does_not_name_the_levels_of_another(tmp_path: Path) -> None:
    analysis = analysis_of(
        tmp_path,
        near={"mode": "latency"},
        far={"mode": "latency", "channels": (28,), "stride_bytes": 128 * 1024},
    )
    near, far = analysis.idle
    assert (near.way.channel, far.way.channel) == (0, 28)
    assert near.states["hit"].cycles == 55
    assert far.states == {}
    assert analysis.axi_distances() == []


def test_latency_by_axi_channel_shows_the_stack_crossing(tmp_path: Path) -> None:
    runs = {
        f"axi{channel}": {"mode": "latency", "channels": (channel,), "working_set_bytes": 4096}
        for channel in range(0, 32, 4)
    }
    (distance,) = analysis_of(tmp_path, **runs).axi_distances()
    assert list(distance.hit_by_group().values()) == [55 + extra for extra in AXI_GROUP_EXTRA_CYCLES]
    assert distance.jump() == (3, 4, 11)
    two = replace(distance, channels={channel: distance.channels[channel] for channel in (0, 28)})
    assert two.jump() is None
    even = replace(distance, channels={channel: distance.channels[channel] for channel in (16, 20, 24)})
    assert even.jump() is None


def test_states_of_accesses_follow_the_trace(tmp_path: Path) -> None:
    analysis = analysis_of(tmp_path, one={"mode": "latency", "stride_bytes": 128})
    (trace,) = analysis.traces
    names = {55: "hit", 62: "closed", 69: "miss"}
    expected = [names.get(cycles, "refresh") for cycles in trace.cycles.tolist()]
    assert trace.state_of_accesses().tolist() == expected
    assert trace.refresh_interval_us == pytest.approx(3.9, rel=0.02)


def test_hexadecimal_counts_are_latencies_too(tmp_path: Path) -> None:
    arguments = {"mode": "latency", "nothing_enabled": True, "channels": (0,)}
    (idle,) = analysis_of(tmp_path, one=arguments).idle
    assert idle.states["hit"].cycles == 55


# --- logs that say little ---------------------------------------------------------------------------


def test_a_log_without_run_yaml_is_unknown_not_guessed(tmp_path: Path) -> None:
    speed = logs.read_text(tmp_path, logs.PLAIN, None, "speed.log")
    analysis = analyse([RunLog(speed, None)])
    assert analysis.throughput == ()
    (row,) = analysis.unused
    assert (row.reported_gbps, row.corrected_gbps, row.flags) == (13.27, None, ("no_sidecar",))
    assert analysis.origins() == {""}
    counts = tmp_path / "res.txt"
    counts.write_text("55\n" * 20)
    (trace,) = analyse([RunLog(read_run(counts, None), None)]).traces
    assert trace.way.profile == "unknown"
    assert (trace.states, trace.refresh_interval_us, trace.mean_cycles) == ((None,), None, None)


def test_rejected_rows_are_kept_with_their_reason(tmp_path: Path) -> None:
    fast = logs.read_text(tmp_path, logs.PLAIN.replace("13.27", "15.0"), logs.sidecar())
    analysis = analyse([RunLog(fast, logs.sidecar())])
    assert analysis.throughput == ()
    assert [row.flags for row in analysis.unused] == [("above_peak",)]


def test_a_policy_that_is_not_stated_keeps_the_throughput(tmp_path: Path) -> None:
    run = logs.sidecar(policy=None)
    (found,) = analyse([RunLog(logs.read_text(tmp_path, logs.PLAIN, run), run)]).throughput
    assert (found.policy, found.total_gbps) == ("", pytest.approx(13.27))
    assert "policy_unknown" in found.flags


def test_speeds_of_latency_runs_are_no_throughput(tmp_path: Path) -> None:
    analysis = analysis_of(tmp_path, one={"mode": "latency"})
    assert (analysis.throughput, analysis.unused) == ((), ())
    # Without its counts the latency run is a row that says nothing.
    log = tmp_path / "one" / "shuhai.log"
    log.write_text(log.read_text().split("  62")[0])
    found = analyse(read_logs([tmp_path]))
    assert [row.flags for row in found.unused] == [("latency_run",)]
    assert [note.flag for _, note in found.notes] == ["counts_missing"]


def test_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a speed or a latency, got none"):
        analyse([])
    config = tmp_path / "latency.txt"
    config.write_text("latencyChannel 0 1\n")
    with pytest.raises(InputError, match=r"got none \(.*latency\.txt\)"):
        analyse([RunLog(read_run(config, None), None)])


def test_notes_of_one_kind_stand_together(tmp_path: Path) -> None:
    both = logs.PLAIN.replace("0001\n", "0011\n").replace("0x1。", "0x3。") + logs.SPEED.replace(" 0,", " 1,")
    run = logs.sidecar()
    log = logs.read_text(tmp_path, both.replace("13.27", "inf"), run)
    analysis = analyse([RunLog(log, run)])
    ((file, first, count),) = analysis.notes_by_kind()
    assert (file, first.flag, count) == (log.path.as_posix(), "not_a_number", 2)
    assert first.line == analysis.notes[0][1].line


@pytest.mark.parametrize("name", ["golden_3.txt"])
def test_the_programs_own_latency_run(name: str, real_data: Path) -> None:
    path = real_data / "shuhai" / name
    run = logs.sidecar()
    (idle,) = analyse([RunLog(read_run(path, run), run)]).idle
    assert idle.states["hit"].cycles == 55
    assert idle.states["hit"].accesses == 100


# --- address view -----------------------------------------------------------------------------------


@settings(max_examples=30, deadline=None)
@given(
    memory=st.sampled_from([("hbm", "RGBCG"), ("hbm", "BRC"), ("ddr4", "RCB"), ("ddr4", "RBC")]),
    burst=st.sampled_from([64, 128, 512]),
    stride=st.sampled_from([64, 256, 2048, 16384]),
    working_set=st.sampled_from([16384, MB, 256 * MB]),
)
def test_the_address_view_agrees_with_a_loop(
    memory: tuple[str, str], burst: int, stride: int, working_set: int
) -> None:
    view = address_view(*memory, burst_bytes=burst, stride_bytes=stride, working_set_bytes=working_set)
    assert view is not None
    mapping, word = address_mapping(*memory), MEMORIES[memory[0]].beat_bytes
    open_rows: dict[tuple[int, int], int] = {}
    changes = rows = words = 0
    group_before = None
    addresses = [
        access * stride % working_set + offset
        for access in range(-(-WORDS // (burst // word)) + 1)
        for offset in range(0, burst, word)
    ]
    place = mapping.locate(np.array(addresses))
    for row, group, bank in zip(
        place.row.tolist(), place.bank_group.tolist(), place.bank.tolist(), strict=True
    ):
        changes += group_before is not None and group != group_before
        rows += open_rows.get((group, bank), row) != row
        open_rows[group, bank] = row
        group_before, words = group, words + 1
    assert view.group_changes == pytest.approx(changes / (words - 1))
    assert view.new_rows == pytest.approx(rows / words)


def test_the_address_view_tells_the_bank_group_effect() -> None:
    pattern = {"burst_bytes": 64, "working_set_bytes": 256 * MB}
    fast = address_view("ddr4", "RCB", stride_bytes=128, **pattern)
    slow = address_view("ddr4", "RCB", stride_bytes=256, **pattern)
    assert fast is not None and slow is not None
    assert (fast.group_changes, slow.group_changes) == (1.0, 0.0)
    far = address_view("hbm", "RGBCG", stride_bytes=16384, burst_bytes=32, working_set_bytes=256 * MB)
    assert far is not None
    assert (far.banks, far.new_rows) == (1, pytest.approx(1.0, abs=1e-3))
    assert address_view("hbm", "custom", stride_bytes=64, **pattern) is None
    assert address_view("ddr3", "RCB", stride_bytes=64, **pattern) is None
    assert address_view("hbm", "", stride_bytes=64, **pattern) is None
