from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from accelperf.errors import InputError
from accelperf.memory.shuhai import ShuhaiLog, ShuhaiRun, read_run
from accelperf.simulate import shuhai_log
from accelperf.simulate.dram import AccessPattern, simulate
from accelperf.simulate.dram_timing import HBM2
from accelperf.simulate.memory_run import (
    LOG_NAME,
    SIDECAR_NAME,
    sidecar,
    simulate_memory,
    write_files,
)
from accelperf.simulate.memory_samples import MODEL_BOARD, PUBLISHED_BOARD, samples
from accelperf.simulate.published_anchors import THROUGHPUT, ThroughputAnchor
from accelperf.simulate.shuhai_log import Capture, Invocation, Measurement
from accelperf.yaml_input import read_model

MB = 1 << 20
SAMPLES = Path(__file__).parents[2] / "data/raw/memory"

SIX_DIGITS = {"rtol": 5e-6, "atol": 0.0}
SINGLE_PRECISION = {"rtol": 2e-7, "atol": 0.0}


def read_back(folder: Path, name: str = LOG_NAME) -> ShuhaiLog:
    """Return a written run as the project's own reader sees it."""
    return read_run(folder / name, read_model(folder / SIDECAR_NAME, ShuhaiRun))


# --- a run and its files --------------------------------------------------------------------------


def test_a_run_is_read_back_as_it_was(tmp_path: Path) -> None:
    run = simulate_memory(
        tmp_path, burst_bytes=64, stride_bytes=64, working_set_bytes=256 * MB, num_ops=5000, board="b"
    )
    result = simulate(HBM2, AccessPattern(64, 64, 256 * MB, 5000))
    assert (run.channels[0].cycles, run.channels[0].gbps) == (result.cycles, result.gbps)
    (row,) = read_back(tmp_path).rows
    assert row.corrected_gbps is not None
    np.testing.assert_allclose(row.corrected_gbps, result.gbps, **SIX_DIGITS)
    assert (row.board, row.memory, row.policy, row.switch, row.origin) == (
        "b",
        "hbm",
        "RGBCG",
        "on",
        "simulated",
    )
    assert (row.burst_bytes, row.stride_bytes, row.working_set_bytes, row.num_ops) == (64, 64, 256 * MB, 5000)


def test_latency_run_is_read_back_as_it_was(tmp_path: Path) -> None:
    run = simulate_memory(
        tmp_path, mode="latency", burst_bytes=32, stride_bytes=128, working_set_bytes=16 * MB, num_ops=2000
    )
    log = read_back(tmp_path)
    assert log.latency is not None
    np.testing.assert_array_equal(log.latency.cycles, run.channels[0].latency_cycles[:100])
    assert log.rows[0].efficiency is None
    assert "latency_run" in log.rows[0].flags


def test_counts_without_an_enabled_channel_are_read_back_from_hexadecimal(tmp_path: Path) -> None:
    run = simulate_memory(tmp_path, mode="latency", burst_bytes=32, num_ops=200, nothing_enabled=True)
    assert "  37  37" in run.files[LOG_NAME]
    log = read_back(tmp_path)
    assert log.rows == ()
    assert log.latency is not None
    np.testing.assert_array_equal(log.latency.cycles, run.channels[0].latency_cycles[:100])


def test_wrapped_burst_is_simulated_and_printed_as_the_program_does(tmp_path: Path) -> None:
    run = simulate_memory(tmp_path, burst_bytes=1024, stride_bytes=1024, num_ops=5000)
    assert run.channels[0].gbps < HBM2.peak_gbps
    (row,) = read_back(tmp_path).rows
    assert row.reported_gbps is not None
    assert row.reported_gbps > HBM2.peak_gbps
    assert row.burst_bytes == 512
    np.testing.assert_allclose(row.corrected_gbps or 0, run.channels[0].gbps, **SIX_DIGITS)


def test_default_numbers_of_accesses_differ_by_channel(tmp_path: Path) -> None:
    run = simulate_memory(tmp_path, switch="off", channels=(0, 7))
    first, seventh = read_back(tmp_path).rows
    assert (first.num_ops, seventh.num_ops) == (100_000, 1_000_000)
    assert seventh.reported_gbps is not None
    np.testing.assert_allclose(seventh.reported_gbps, run.channels[1].gbps / 10, **SIX_DIGITS)
    np.testing.assert_allclose(seventh.corrected_gbps or 0, run.channels[1].gbps, **SIX_DIGITS)


def test_channels_share_one_target_with_the_switch_on_alone() -> None:
    shared = simulate_memory(channels=(0, 1), num_ops=5000)
    own = simulate_memory(channels=(0, 1), num_ops=5000, switch="off")
    ratios = [two.gbps / one.gbps for two, one in zip(shared.channels, own.channels, strict=True)]
    np.testing.assert_allclose(ratios, 0.5, rtol=0.01)
    assert not any(run.validated for run in shared.channels)


def test_writes_enable_nothing_else() -> None:
    ddr = simulate_memory(memory="ddr4", direction="write", channels=(1,), num_ops=2000)
    assert "endWr status: 0x2。\nendRd status: 0x0。\nThe chennel 1, wr_speed: " in ddr.files[LOG_NAME]
    assert (
        yaml.safe_load(ddr.files[SIDECAR_NAME])["command"] == "sudo ./test-ddr --readEnable=0 --writeEnable=2"
    )


def test_sidecar_says_simulated_and_what_is_validated() -> None:
    run = simulate_memory(num_ops=1000)
    content = yaml.safe_load(run.files[SIDECAR_NAME])
    assert content["origin"] == "simulated"
    assert content["source"].startswith("SIMULATED by the DRAM model")
    assert run.channels[0].note.rstrip(".").lower() in content["source"].lower()
    assert "switch" not in yaml.safe_load(simulate_memory(memory="ddr4", num_ops=100).files[SIDECAR_NAME])


def test_summary_has_a_line_a_channel() -> None:
    throughput = simulate_memory(channels=(0, 3), switch="off", num_ops=1000)
    assert [line.split(":")[0] for line in throughput.summary()] == ["channel 0 read", "channel 3 read"]
    (latency,) = simulate_memory(mode="latency", burst_bytes=32, num_ops=200).summary()
    assert latency.startswith("channel 0 read: latency median 55, maximum ")


def test_random_accesses_have_a_result_but_no_log(tmp_path: Path) -> None:
    run = simulate_memory(kind="random", num_ops=1000, seed=1)
    assert run.files == {}
    assert "does not reorder" in run.channels[0].note
    with pytest.raises(InputError, match="access pattern rst for a log"):
        simulate_memory(tmp_path, kind="random")
    assert list(tmp_path.iterdir()) == []


def test_bad_input_leaves_earlier_files_alone(tmp_path: Path) -> None:
    simulate_memory(tmp_path, num_ops=1000)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(InputError):
        simulate_memory(tmp_path, num_ops=1000, stride_bytes=96)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_file_is_no_folder_to_write_to(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("")
    with pytest.raises(InputError, match="log: expected a folder to write to, got File exists"):
        simulate_memory(tmp_path / "log", num_ops=100)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"memory": "ddr3"}, "memory hbm or ddr4, got 'ddr3'"),
        ({"memory": "ddr4", "switch": "on"}, "no switch on ddr4, got 'on'"),
        ({"memory": "ddr4", "channels": (2,)}, "a channel of ddr4 from 0 to 1, got 2"),
        ({"channels": ()}, "one channel or more"),
        ({"channels": (1, 1)}, "none twice"),
        ({"mode": "latency", "channels": (0, 1)}, "one channel in a latency run"),
        ({"nothing_enabled": True}, "mode latency where no channel is enabled"),
        ({"mode": "latency", "kind": "random"}, "knows no random accesses"),
        ({"stopped_timers": (5,)}, r"stopped timers of enabled channels, got \[5\]"),
        ({"policy": "XYZ"}, "an address mapping policy of hbm"),
        ({"mode": "latency", "num_ops": 50}, "100 latency counts, got 50"),
    ],
)
def test_run_refuses(arguments: dict[str, object], match: str) -> None:
    with pytest.raises(InputError, match=match):
        simulate_memory(**({"num_ops": 100} | arguments))  # type: ignore[arg-type]


# --- writer and reader check each other -----------------------------------------------------------


@st.composite
def written_runs(draw: st.DrawFn) -> tuple[Invocation, Measurement, Capture]:
    memory = draw(st.sampled_from(["hbm", "ddr4"]))
    bits = st.integers(0, 0b1111) if memory == "hbm" else st.integers(0, 0b11)
    latency = draw(st.booleans())
    least = 5 if memory == "hbm" else 6
    burst = draw(st.none() | st.integers(least, 11).map(lambda power: 1 << power))
    stride = draw(st.none() | st.integers(least, 20).map(lambda power: 1 << power))
    working_set = draw(st.none() | st.integers(20, 28).map(lambda power: 1 << power))
    config: tuple[tuple[str, int, int], ...] = ()
    if latency:
        config = (("latencyChannel", draw(st.integers(0, 3 if memory == "hbm" else 1)), 1),)
    invocation = Invocation(
        memory=memory,  # type: ignore[arg-type]
        read_enable=draw(st.none() | bits),
        write_enable=draw(st.none() | bits),
        channel=draw(st.none() | st.integers(0, 31)) if memory == "hbm" else None,
        working_set_bytes=working_set,
        stride_bytes=stride,
        burst_bytes=burst,
        config_file="latency.txt" if latency else None,
        config=config,
    )
    enabled = shuhai_log.settings(invocation).enabled()
    # Without an enabled channel and without counts the program measures nothing at all.
    assume(enabled or latency)
    timers = {pair: draw(st.integers(0, 10**8)) for pair in enabled}
    counts = draw(st.lists(st.integers(0, 255), min_size=100, max_size=100)) if latency else []
    capture = Capture(
        status_pairs=draw(st.integers(1, 3)), crlf=draw(st.booleans()), ansi=draw(st.booleans())
    )
    return invocation, Measurement(timers, counts), capture


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(written=written_runs())
def test_reader_finds_what_was_written(
    tmp_path: Path, written: tuple[Invocation, Measurement, Capture]
) -> None:
    invocation, measurement, capture = written
    run = shuhai_log.settings(invocation)
    files = {
        LOG_NAME: shuhai_log.write(invocation, measurement, capture),
        SIDECAR_NAME: sidecar(invocation, board="b", policy="RCB", switch=None, source="s"),
    }
    if invocation.config_file is not None:
        files[invocation.config_file] = invocation.config_text()
    write_files(tmp_path, files)
    log = read_back(tmp_path)
    assert [(row.channel, row.direction) for row in log.rows] == run.enabled()
    latency_reads = (run.latency_channel, "read") if run.latency_enabled else None
    for row, (channel, direction) in zip(log.rows, run.enabled(), strict=True):
        cycles = measurement.timer_cycles[channel, direction]
        speed = shuhai_log.speed_gbps(
            run.burst_bytes[channel],
            run.num_ops[run.latency_channel],
            shuhai_log.SOFTWARE_CLOCK_MHZ[invocation.memory],
            cycles,
        )
        assert row.reported_gbps == float(f"{speed:g}")
        moved = shuhai_log.moved_burst_bytes(invocation.memory, run.burst_bytes[channel])
        factor = 2 if (channel, direction) == latency_reads else 1
        assert row.burst_bytes == moved
        assert row.stride_bytes == factor * run.stride_bytes[channel]
        assert row.working_set_bytes == run.working_set_bytes[channel]
    if run.latency_enabled:
        assert log.latency is not None
        np.testing.assert_array_equal(log.latency.cycles, measurement.latency_cycles)
    else:
        assert log.latency is None


# --- sample data ----------------------------------------------------------------------------------


def test_sample_files_are_those_of_the_generator() -> None:
    expected = {
        (folder, name): text.encode() for folder, files in samples().items() for name, text in files.items()
    }
    found = {
        (path.parent.relative_to(SAMPLES).as_posix(), path.name): path.read_bytes()
        for path in SAMPLES.rglob("*")
        if path.is_file() and path.parent != SAMPLES
    }
    assert sorted(found) == sorted(expected)
    for place, text in expected.items():
        assert found[place] == text, place


@pytest.mark.parametrize("anchor", THROUGHPUT, ids=lambda anchor: anchor.name)
def test_samples_carry_the_published_throughput(anchor: ThroughputAnchor) -> None:
    rows = [
        row
        for log in sorted((SAMPLES / PUBLISHED_BOARD).rglob(LOG_NAME))
        for row in read_back(log.parent).rows
        if row.mode == "throughput"
    ]
    (speed,) = [
        row.corrected_gbps
        for row in rows
        if (row.memory, row.burst_bytes, row.stride_bytes, row.working_set_bytes)
        == (anchor.memory, anchor.burst_bytes, anchor.stride_bytes, anchor.working_set_bytes)
    ]
    assert speed is not None
    # Whole cycles of 100 000 accesses.
    np.testing.assert_allclose(speed, anchor.gbps, rtol=1e-5)


def test_every_sample_is_read_and_says_simulated() -> None:
    folders = sorted(path.parent for path in SAMPLES.rglob(SIDECAR_NAME))
    assert len(folders) > 50
    for folder in folders:
        run = read_model(folder / SIDECAR_NAME, ShuhaiRun)
        assert run.origin == "simulated"
        assert run.source is not None
        assert run.source.startswith("SIMULATED")
        assert run.board in (PUBLISHED_BOARD, MODEL_BOARD)
        name = LOG_NAME if (folder / LOG_NAME).is_file() else "res.txt"
        log = read_run(folder / name, run)
        assert log.rows or log.latency is not None
        assert log.notes == () or {note.flag for note in log.notes} <= {"target_shared"}
