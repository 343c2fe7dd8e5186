"""The sidecar and the program's options."""

from __future__ import annotations

from pathlib import Path

import pytest

from accelperf.errors import InputError
from accelperf.memory.shuhai import ShuhaiRun, find_run
from accelperf.memory.shuhai_program import Options, default_num_ops, default_stride, parse_command
from accelperf.simulate.shuhai_log import Invocation, settings
from accelperf.yaml_input import read_model

HBM = "board: u280\nmemory: hbm\npolicy: RGBCG\norigin: measured\n"


def read(folder: Path, text: str) -> ShuhaiRun:
    path = folder / "run.yaml"
    path.write_text(text)
    return read_model(path, ShuhaiRun)


def test_numbers_by_channel_and_bare_switch(tmp_path: Path) -> None:
    run = read(tmp_path, HBM + "switch: on\nburst_bytes: {0: 64, 3: 128}\nnum_ops: 2000\n")
    assert (run.switch, run.burst_bytes, run.num_ops) == ("on", {0: 64, 3: 128}, 2000)
    assert read(tmp_path, HBM + "switch: off\n").switch == "off"


@pytest.mark.parametrize(
    ("text", "peak"),
    [
        (HBM, 14.4),
        (HBM.replace("hbm", "ddr4"), 19.2),
        (HBM + "clock_mhz: 300\nwidth_bytes: 64\n", 19.2),
    ],
)
def test_peak_of_a_channel(tmp_path: Path, text: str, peak: float) -> None:
    assert read(tmp_path, text).peak_gbps == pytest.approx(peak)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HBM + "burst_bytes: 48\n", r"run\.yaml:5: expected burst_bytes: a power of two, got 48"),
        (HBM + "burst_bytes: 16\n", r"run\.yaml:5: expected burst_bytes: at least 32 bytes"),
        (
            HBM + "stride_bytes: 4096\nworking_set_bytes: 1024\n",
            r"run\.yaml:6: expected working_set_bytes: at least stride_bytes = 4096, got 1024",
        ),
        (HBM + "stride_bytes: {0: 0}\n", r"run\.yaml:5: expected stride_bytes"),
        (HBM + "burst_bytes: {32: 64}\n", r"run\.yaml:5: expected burst_bytes"),
        (HBM + "command: ./test-hbm --burst=3\n", r"run\.yaml:5: expected command: '--burst=3' should be an"),
        (HBM + "command: ./test-hbm --memBurstSize=x\n", "a whole number should follow --memBurstSize"),
        (HBM + "command: ./test-ddr\n", r"run\.yaml:5: expected command: the program that measures hbm"),
        (HBM + "switch: maybe\n", r"run\.yaml:5: expected switch: 'on' or 'off', got 'maybe'"),
        (HBM + "clock_mhz: 0\n", r"run\.yaml:5: expected clock_mhz: greater than 0"),
        (
            HBM.replace("hbm", "ddr3"),
            r"run\.yaml: expected clock_mhz: a number .* ddr3 have no known default",
        ),
        (HBM.replace("hbm", "sram"), r"run\.yaml:2: expected memory: 'hbm', 'ddr4' or 'ddr3', got 'sram'"),
        (HBM + "speed: 1\n", r"run\.yaml:5: expected one of board, .*got unknown key 'speed'"),
        (HBM.replace("board: u280\n", ""), r"run\.yaml: expected the key 'board', got no such key"),
        (HBM.replace("RGBCG", "' '"), r"run\.yaml:3: expected policy: a name"),
    ],
)
def test_bad_sidecar_is_named_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(tmp_path, text)


def test_nearest_run_file_counts(tmp_path: Path) -> None:
    deep = tmp_path / "logs" / "a" / "b"
    deep.mkdir(parents=True)
    (tmp_path / "run.yaml").write_text(HBM)
    assert find_run(deep, tmp_path / "logs") is None
    (tmp_path / "logs" / "run.yaml").write_text(HBM)
    assert find_run(deep, tmp_path / "logs") == tmp_path / "logs" / "run.yaml"
    (deep / "run.yaml").write_text(HBM)
    assert find_run(deep, tmp_path / "logs") == deep / "run.yaml"


def test_command_line() -> None:
    command = "sudo ./test-hbm --readEnable=17 --memBurstSize 64 --configFile=c.txt --numOps=5 > run.log"
    assert parse_command(command) == Options(read_enable=17, burst_bytes=64, config_file="c.txt")


@pytest.mark.parametrize("memory", ["hbm", "ddr4"])
def test_defaults_agree_with_the_writer(memory: str) -> None:
    run = settings(Invocation(memory=memory))  # type: ignore[arg-type]
    assert tuple(default_num_ops(memory, channel) for channel in range(32)) == run.num_ops
    assert tuple(default_stride(memory, channel) for channel in range(32)) == run.stride_bytes
