"""What the writer of the benchmark's text writes, the reader reads back exactly."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import hypothesis
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelperf.errors import InputError
from accelperf.memory.shuhai import ShuhaiLog, read_run
from accelperf.simulate.shuhai_log import (
    Capture,
    Invocation,
    Measurement,
    moved_burst_bytes,
    settings,
    write,
)
from tests.memory.logs import sidecar

SIX_DIGITS = 1e-5
"""Relative: speeds are printed with six digits."""

ENABLES = st.none() | st.sampled_from([0, 1, 2, 3, 0x11, 0xFFFFFFFF]) | st.integers(0, 0xFFFFFFFF)


@st.composite
def invocations(draw: st.DrawFn) -> Invocation:
    """Draw a run that the program accepts: powers of two, B >= one word, S <= W."""
    memory = draw(st.sampled_from(["hbm", "ddr4", "ddr3"]))
    least = 5 if memory == "hbm" else 6
    working_set = draw(st.none() | st.integers(18, 28).map(lambda power: 1 << power))
    stride = draw(st.none() | st.integers(least, 18).map(lambda power: 1 << power))
    burst = draw(st.none() | st.integers(least, 12).map(lambda power: 1 << power))
    channels = st.integers(0, 31)
    lines = st.one_of(
        st.tuples(st.just("workGroupSize"), channels, st.integers(18, 28).map(lambda power: 1 << power)),
        st.tuples(st.just("strideLength"), channels, st.integers(least, 18).map(lambda power: 1 << power)),
        st.tuples(st.just("memBurstSize"), channels, st.integers(least, 12).map(lambda power: 1 << power)),
        st.tuples(st.sampled_from(["readEnable", "writeEnable"]), channels, st.just(1)),
        st.tuples(st.just("latencyChannel"), channels, st.integers(0, 1)),
    )
    config = draw(st.none() | st.lists(lines, max_size=6).map(tuple))
    return Invocation(
        memory=memory,
        read_enable=draw(ENABLES),
        write_enable=draw(ENABLES),
        channel=draw(st.none() | channels) if memory == "hbm" else None,
        working_set_bytes=working_set,
        stride_bytes=stride,
        burst_bytes=burst,
        config_file=draw(st.sampled_from([None, "config1.txt"])) if not config else "config1.txt",
        config=config,
    )


CAPTURES = st.builds(Capture, status_pairs=st.integers(1, 5), crlf=st.booleans(), ansi=st.booleans())


def write_run(folder: Path, invocation: Invocation, capture: Capture, seed: int) -> tuple[Path, Measurement]:
    """Write a log, and its configuration file beside it."""
    generator = np.random.default_rng(seed)
    timers = {key: int(generator.integers(0, 10**7)) for key in settings(invocation).enabled()}
    measurement = Measurement(timers, generator.integers(20, 600, size=120).tolist())
    path = folder / "run.log"
    path.write_text(write(invocation, measurement, capture), encoding="utf-8", newline="")
    if invocation.config_file is not None and invocation.config is not None:
        (folder / invocation.config_file).write_text(invocation.config_text())
    return path, measurement


def check_exact(log: ShuhaiLog, invocation: Invocation, measurement: Measurement) -> None:
    """Check every value of a log against the run that it was written from."""
    run = settings(invocation)
    assert [(row.channel, row.direction) for row in log.rows] == run.enabled()
    for row in log.rows:
        channel = row.channel
        assert channel is not None
        cycles = measurement.timer_cycles[channel, row.direction]  # type: ignore[index]
        clock = 450.0 if invocation.memory == "hbm" else 300.0
        numerator = run.burst_bytes[channel] * run.num_ops[run.latency_channel] * clock / 1000
        printed = float(f"{np.float32(numerator / cycles):g}") if cycles else float("inf")
        assert row.reported_gbps == printed
        doubled = run.latency_enabled and row.direction == "read" and channel == run.latency_channel
        assert row.burst_bytes == moved_burst_bytes(invocation.memory, run.burst_bytes[channel])
        assert row.stride_bytes == run.stride_bytes[channel] * (2 if doubled else 1)
        assert row.working_set_bytes == run.working_set_bytes[channel]
        assert row.num_ops in (run.num_ops[channel], None)
        assert row.mode == ("latency" if run.latency_enabled else "throughput")
        if row.corrected_gbps is not None:
            engine_clock = 166.7 if invocation.memory == "ddr3" else clock
            true = row.burst_bytes * run.num_ops[channel] * engine_clock / cycles / 1000  # type: ignore[operator]
            assert row.corrected_gbps == pytest.approx(true, rel=SIX_DIGITS)
        if row.efficiency is not None:
            assert 0 < row.efficiency <= 1
    if run.latency_enabled:
        assert log.latency is not None
        assert log.latency.cycles is not None
        assert log.latency.cycles.tolist() == [count % 256 for count in measurement.latency_cycles[:100]]
        assert log.latency.channel == run.latency_channel
        assert log.latency.stride_bytes == 2 * run.stride_bytes[run.latency_channel]
    else:
        assert log.latency is None


def measures_something(invocation: Invocation) -> bool:
    run = settings(invocation)
    return bool(run.enabled()) or run.latency_enabled


@hypothesis.settings(deadline=None)
@given(invocations(), CAPTURES, st.integers(0, 2**32 - 1))
def test_log_with_its_command_reads_back_exactly(invocation: Invocation, capture: Capture, seed: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        path, measurement = write_run(Path(name), invocation, capture, seed)
        clock = {"clock_mhz": 166.7, "width_bytes": 64} if invocation.memory == "ddr3" else {}
        run = sidecar(memory=invocation.memory, command=invocation.command(), **clock)
        if not measures_something(invocation):
            try:
                read_run(path, run)
            except InputError as error:
                assert "an enabled channel" in str(error)
                return
            raise AssertionError("a run that enables nothing must be refused")
        check_exact(read_run(path, run), invocation, measurement)


@hypothesis.settings(deadline=None)
@given(invocations(), CAPTURES, st.integers(0, 2**32 - 1))
def test_log_without_its_command_reads_back_exactly_or_is_refused(
    invocation: Invocation, capture: Capture, seed: int
) -> None:
    with tempfile.TemporaryDirectory() as name:
        path, measurement = write_run(Path(name), invocation, capture, seed)
        clock = {"clock_mhz": 166.7, "width_bytes": 64} if invocation.memory == "ddr3" else {}
        run = sidecar(memory=invocation.memory, **clock)
        try:
            log = read_run(path, run)
        except InputError as error:
            refusals = ("read in one way", "an enabled channel", "speed line for each enabled")
            assert any(text in str(error) for text in refusals)
            return
        check_exact(log, invocation, measurement)


@hypothesis.settings(deadline=None)
@given(invocations(), st.integers(0, 2**32 - 1), st.data())
def test_cut_log_gives_a_part_of_the_whole_or_is_refused(
    invocation: Invocation, seed: int, data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as name:
        path, measurement = write_run(Path(name), invocation, Capture(), seed)
        clock = {"clock_mhz": 166.7, "width_bytes": 64} if invocation.memory == "ddr3" else {}
        run = sidecar(memory=invocation.memory, **clock)
        text = path.read_text(encoding="utf-8")
        try:
            whole = read_run(path, run)
            path.write_text(text[: data.draw(st.integers(0, len(text)))], encoding="utf-8")
            part = read_run(path, run)
        except InputError as error:
            assert error.file == str(path)
            return
        speeds = {(row.channel, row.direction): row.reported_gbps for row in whole.rows}
        for row in part.rows:
            assert row.reported_gbps in (speeds[row.channel, row.direction], None)
        if part.latency is not None and part.latency.cycles is not None:
            expected = [count % 256 for count in measurement.latency_cycles[: part.latency.printed]]
            assert part.latency.cycles.tolist() == expected


@hypothesis.settings(deadline=None)
@given(invocations(), CAPTURES)
def test_run_that_hangs_is_refused_with_its_last_line(invocation: Invocation, capture: Capture) -> None:
    if not settings(invocation).enabled():
        return
    with tempfile.TemporaryDirectory() as name:
        path, _ = write_run(Path(name), invocation, replace(capture, hung=True), seed=0)
        clock = {"clock_mhz": 166.7, "width_bytes": 64} if invocation.memory == "ddr3" else {}
        run = sidecar(memory=invocation.memory, command=invocation.command(), **clock)
        with pytest.raises(InputError, match=f"after {capture.status_pairs} pairs of status lines") as error:
            read_run(path, run)
        assert error.value.line == len(path.read_text(encoding="utf-8").splitlines())
