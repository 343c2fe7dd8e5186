from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelperf.errors import InputError
from accelperf.simulate import shuhai_log
from accelperf.simulate.shuhai_log import (
    Capture,
    Invocation,
    Measurement,
    cycles_of_speed,
    moved_burst_bytes,
    speed_gbps,
    write,
)

PREAMBLE = """\
huge device /media/huge/abc opened.
huge device mapped at 0x7f0000000000
dma device /dev/xdma_control opened.
bypass device /dev/xdma_bypass opened.
huge_base: 0x7f0000000000
IOCTL_XDMA_BUFFER_Set
IOCTL_XDMA_MAPPING_GET
memory manager init, base: 0x7f0000000000, size: 1073741824
"""

ONE_READ = Measurement({(0, "read"): 217_000})
LATENCY = (("latencyChannel", 0, 1),)


def body(invocation: Invocation, measurement: Measurement, capture: Capture = shuhai_log.PLAIN) -> str:
    """Return what follows the preamble."""
    return write(invocation, measurement, capture).removeprefix(PREAMBLE)


def test_whole_log_of_a_throughput_run() -> None:
    invocation = Invocation(
        "hbm", read_enable=0b10001, working_set_bytes=268435456, stride_bytes=64, burst_bytes=64
    )
    text = write(invocation, Measurement({(0, "read"): 217_000, (4, "read"): 217_000}))
    assert text == PREAMBLE + (
        "00000000000000000000000000010001\n"
        "26843545664\n"
        "64endWr status: 0x0。\n"
        "endRd status: 0x11。\n"
        "The chennel 0, rd_speed: 13.2719 GB/s\n"
        "The chennel 4, rd_speed: 13.2719 GB/s\n"
    )


def test_whole_log_of_a_latency_run() -> None:
    invocation = Invocation("hbm", read_enable=1, burst_bytes=32, config_file="c.txt", config=LATENCY)
    counts = [62, *[55] * 98, 160]
    text = body(invocation, Measurement({(0, "read"): 5_700_000}, counts))
    assert text == (
        "00000000000000000000000000000001\n"
        "32open c.txt succeed.\n"
        "endWr status: 0x0。\n"
        "endRd status: 0x1。\n"
        "The chennel 0, rd_speed: 0.252632 GB/s\n"
        "  62" + "  55" * 15 + "\n" + ("  55" * 16 + "\n") * 5 + "  55  55  55  160\n"
    )


def test_ddr_defaults_echo_nothing() -> None:
    text = body(Invocation("ddr4"), Measurement({(0, "read"): 106_000}))
    assert text == "endWr status: 0x0。\nendRd status: 0x1。\nThe chennel 0, rd_speed: 18.1132 GB/s\n"


def test_writes_come_before_reads_channel_by_channel() -> None:
    invocation = Invocation("hbm", read_enable=0b11, write_enable=0b10)
    timers = {(0, "read"): 217_000, (1, "write"): 220_000, (1, "read"): 230_000}
    lines = body(invocation, Measurement(timers)).splitlines()  # type: ignore[arg-type]
    assert lines == [
        "00000000000000000000000000000011",
        "00000000000000000000000000000010",
        "endWr status: 0x2。",
        "endRd status: 0x3。",
        "The chennel 0, rd_speed: 13.2719 GB/s",
        "The chennel 1, wr_speed: 13.0909 GB/s",
        "The chennel 1, rd_speed: 12.5217 GB/s",
    ]


# --- quirks ---------------------------------------------------------------------------------------


def test_echoes_run_into_what_follows() -> None:
    both = Invocation("hbm", read_enable=1, working_set_bytes=8192, stride_bytes=4096, burst_bytes=32)
    assert "\n81924096\n32endWr" in write(both, ONE_READ)
    no_stride = Invocation("hbm", read_enable=1, working_set_bytes=8192, burst_bytes=32)
    assert "\n819232endWr" in write(no_stride, ONE_READ)
    only_stride = Invocation("hbm", read_enable=1, stride_bytes=4096)
    assert "\n4096\nendWr" in write(only_stride, ONE_READ)
    channel = Invocation("hbm", read_enable=1, channel=5, working_set_bytes=8192)
    assert "\n5\n8192endWr" in write(channel, ONE_READ)


def test_speed_uses_the_number_of_accesses_of_the_latency_channel() -> None:
    timers = {(0, "read"): 217_000, (4, "read"): 21_700_000, (7, "read"): 2_170_000}
    invocation = Invocation("hbm", read_enable=0b10010001)
    assert re.findall(r"speed: (\S+)", write(invocation, Measurement(timers))) == [  # type: ignore[arg-type]
        "13.2719",
        "0.132719",
        "1.32719",
    ]
    by_fourth = Invocation("hbm", read_enable=0b10010001, channel=4)
    assert re.findall(r"speed: (\S+)", write(by_fourth, Measurement(timers))) == [  # type: ignore[arg-type]
        "1327.19",
        "13.2719",
        "132.719",
    ]


def test_counts_are_hexadecimal_where_nothing_is_enabled() -> None:
    invocation = Invocation("hbm", config_file="config2.txt", config=LATENCY)
    text = body(invocation, Measurement({}, [55, 62, 69, 160] * 25))
    assert text.startswith(
        "open config2.txt succeed.\nendWr status: 0x0。\nendRd status: 0x0。\n  37  3e  45  a0"
    )
    assert "speed" not in text


def test_counters_wrap_at_256() -> None:
    invocation = Invocation("hbm", read_enable=1, config_file="c.txt", config=LATENCY)
    text = write(invocation, Measurement({(0, "read"): 1}, [255, 256, 300, *[55] * 97]))
    assert "\n  255  0  44  55" in text


def test_burst_length_wraps_on_hbm_alone() -> None:
    assert [moved_burst_bytes("hbm", burst) for burst in (32, 64, 512, 1024, 2048)] == [32, 64, 512, 512, 512]
    assert moved_burst_bytes("hbm", 544) == 32
    assert moved_burst_bytes("ddr4", 1024) == 1024
    # The engine moves 512 bytes an access, the program multiplies by 1024.
    text = write(Invocation("hbm", read_enable=1, burst_bytes=1024), Measurement({(0, "read"): 1_735_000}))
    assert "rd_speed: 26.5591 GB/s" in text


def test_a_stopped_timer_prints_infinity() -> None:
    assert "The chennel 0, rd_speed: inf GB/s\n" in write(Invocation("ddr4"), Measurement({(0, "read"): 0}))


def test_ddr3_speed_is_computed_with_300_mhz() -> None:
    text = write(Invocation("ddr3"), Measurement({(0, "read"): 100_000}))
    assert "rd_speed: 19.2 GB/s" in text


def test_status_pairs_repeat_while_the_run_goes_on() -> None:
    text = body(Invocation("ddr4"), Measurement({(0, "read"): 106_000}), Capture(status_pairs=3))
    unfinished, final = (
        "endWr status: 0x0。\nendRd status: 0x0。\n",
        "endWr status: 0x0。\nendRd status: 0x1。\n",
    )
    assert text == 2 * unfinished + final + "The chennel 0, rd_speed: 18.1132 GB/s\n"


def test_a_hung_channel_ends_in_status_lines() -> None:
    text = body(Invocation("ddr4"), Measurement({}), Capture(status_pairs=4, hung=True))
    assert text == 4 * "endWr status: 0x0。\nendRd status: 0x0。\n"


def test_a_missing_configuration_file_changes_nothing() -> None:
    invocation = Invocation("ddr4", config_file="none.txt", config=None)
    text = body(invocation, Measurement({(0, "read"): 106_000}))
    assert text.startswith("open none.txt failed, check whether it exists.\nendWr")
    assert shuhai_log.settings(invocation) == shuhai_log.settings(Invocation("ddr4"))


def test_terminal_capture_has_carriage_returns_and_escapes() -> None:
    plain = write(Invocation("ddr4"), ONE_READ)
    crlf = write(Invocation("ddr4"), ONE_READ, Capture(crlf=True))
    assert crlf == plain.replace("\n", "\r\n")
    captured = write(Invocation("ddr4"), ONE_READ, Capture(ansi=True, crlf=True))
    clean = re.sub(r"\x1b\[[0-9;]*[A-Za-z]|\r", "", captured)
    prompt, _, rest = clean.partition("\n")
    assert prompt == "fpga:build$ sudo ./test-ddr"
    assert rest == plain


@settings(deadline=None)
@given(kept=st.integers(0, 600))
def test_truncation_keeps_the_beginning(kept: int) -> None:
    plain = write(Invocation("ddr4"), ONE_READ)
    assert write(Invocation("ddr4"), ONE_READ, Capture(truncate_chars=kept)) == plain[:kept]


# --- what the program runs with -------------------------------------------------------------------


def test_defaults_of_both_programs() -> None:
    hbm = shuhai_log.settings(Invocation("hbm"))
    assert hbm.num_ops == (
        *[100_000] * 4,
        *[10_000_000] * 2,
        100_000,
        *[1_000_000] * 3,
        *[100_000] * 2,
        *[1_000_000] * 2,
        *[100_000] * 18,
    )
    assert set(hbm.stride_bytes) == set(hbm.burst_bytes) == {64}
    assert set(hbm.working_set_bytes) == {0x10000000}
    assert hbm.enabled() == []
    ddr = shuhai_log.settings(Invocation("ddr4"))
    assert ddr.stride_bytes == (*[64 * 2**channel for channel in range(13)], *[64] * 19)
    assert set(ddr.num_ops) == {100_000}
    assert ddr.enabled() == [(0, "read")]


def test_options_reach_two_channels_of_ddr() -> None:
    given_options = {"working_set_bytes": 8192, "stride_bytes": 128, "burst_bytes": 256}
    ddr = shuhai_log.settings(Invocation("ddr4", **given_options))  # type: ignore[arg-type]
    assert ddr.working_set_bytes[:3] == (8192, 8192, 0x10000000)
    assert ddr.stride_bytes[:3] == (128, 128, 256)
    assert ddr.burst_bytes[:4] == (256, 256, 256, 64)
    hbm = shuhai_log.settings(Invocation("hbm", **given_options))  # type: ignore[arg-type]
    assert set(hbm.stride_bytes) == {128}


def test_configuration_file_overrides_options_and_masks_enables() -> None:
    config = (
        ("strideLength", 3, 4096),
        ("workGroupSize", 3, 8192),
        ("memBurstSize", 3, 32),
        ("readEnable", 3, 1),
        ("latencyChannel", 3, 1),
    )
    run = shuhai_log.settings(
        Invocation("hbm", read_enable=0b1011, stride_bytes=64, config_file="c", config=config)
    )
    assert (run.stride_bytes[3], run.working_set_bytes[3], run.burst_bytes[3]) == (4096, 8192, 32)
    assert run.stride_bytes[2] == 64
    assert run.enabled() == [(3, "read")]
    assert (run.latency_channel, run.latency_enabled) == (3, True)
    never = shuhai_log.settings(Invocation("hbm", config_file="c", config=config))
    assert never.enabled() == []
    both = (("readEnable", 0, 1), ("readEnable", 1, 1))
    assert (
        shuhai_log.settings(Invocation("hbm", read_enable=3, config_file="c", config=both)).read_enable == 0
    )


def test_command_and_configuration_text() -> None:
    invocation = Invocation(
        "hbm",
        read_enable=5,
        channel=2,
        working_set_bytes=8192,
        stride_bytes=64,
        burst_bytes=32,
        config_file="c.txt",
        config=(("strideLength", 0, 128), ("latencyChannel", 2, 1)),
    )
    assert invocation.command() == (
        "sudo ./test-hbm --readEnable=5 --channel=2 --workGroupSize=8192 --strideLength=64 "
        "--memBurstSize=32 --configFile=c.txt"
    )
    assert invocation.config_text() == "strideLength 0 128\nlatencyChannel 2 1\n"


@settings(deadline=None)
@given(
    burst=st.sampled_from([32, 64, 128, 256, 512]),
    num_ops=st.integers(1000, 10_000_000),
    gbps=st.floats(0.01, 14.4),
)
def test_a_speed_survives_its_timer(burst: int, num_ops: int, gbps: float) -> None:
    cycles = cycles_of_speed(burst, num_ops, 450.0, gbps)
    # Half a cycle of rounding, and single precision.
    np.testing.assert_allclose(
        speed_gbps(burst, num_ops, 450.0, cycles), gbps, rtol=0.5 / (cycles - 1) + 1e-6
    )


# --- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"memory": "hbm3"}, "memory hbm, ddr4 or ddr3, got 'hbm3'"),
        ({"memory": "hbm", "read_enable": 1 << 32}, "read_enable as 32 bits"),
        ({"memory": "ddr4", "channel": 0}, "test-ddr has no such option"),
        ({"memory": "hbm", "channel": 32}, "a channel from 0 to 31, got 32"),
        ({"memory": "hbm", "stride_bytes": 0}, "stride_bytes above 0"),
        ({"memory": "hbm", "num_ops": {0: 0}}, "a number of accesses above 0, got 0"),
        ({"memory": "hbm", "config_file": "c", "config": (("stride", 0, 1),)}, "one of workGroupSize"),
        ({"memory": "hbm", "config": (("strideLength", 0, 1),)}, "the name of the configuration file"),
    ],
)
def test_invocation_refuses(arguments: dict[str, object], match: str) -> None:
    with pytest.raises(InputError, match=match):
        Invocation(**arguments)  # type: ignore[arg-type]


def test_writer_refuses_what_the_program_cannot_print() -> None:
    with pytest.raises(InputError, match="a timer for read on channel 0, got none"):
        write(Invocation("ddr4"), Measurement({}))
    latency = Invocation("ddr4", config_file="c", config=LATENCY)
    with pytest.raises(InputError, match="100 latency counts, got 3"):
        write(latency, Measurement({(0, "read"): 1}, [22, 22, 22]))
    with pytest.raises(InputError, match="an enabled channel in a run that hangs"):
        write(Invocation("hbm"), Measurement({}), Capture(hung=True))
    with pytest.raises(InputError, match="one pair of status lines or more, got 0"):
        Capture(status_pairs=0)
    with pytest.raises(InputError, match="characters of 0 or more, got -1"):
        Capture(truncate_chars=-1)
