"""Platforms and logs that the tests of the readers share."""

from __future__ import annotations

from pathlib import Path

from accelperf.platforms import Platform

GOLDEN = Path(__file__).parents[1] / "golden"

SMALL = Platform(
    name="small",
    filter_parallelism=8,
    channel_parallelism=4,
    unrolled_loop="pixels",
    logic_clock_mhz=200.0,
    memory_clock_mhz=100.0,
    transfer_width_bits=64,
    data_width_bits=8,
    memory_ports=1,
    memory_efficiency=0.5,
)
LARGE = SMALL.model_copy(update={"name": "large", "filter_parallelism": 16, "logic_clock_mhz": 400.0})
PLATFORMS = {"small": SMALL, "large": LARGE}

REAL_PLATFORM = """\
name: cnn-accel-m{filters}p{pixels}
filter_parallelism: {filters}
channel_parallelism: {pixels}
unrolled_loop: pixels
logic_clock_mhz: 400.0
memory_clock_mhz: 250.0
transfer_width_bits: 512
data_width_bits: 8
memory_ports: 1
memory_efficiency: 1.0
"""
"""The accelerators of the public cnn_accel measurements."""

REAL_CONFIGURATIONS = ((32, 32), (32, 64), (64, 64))

REAL_RUN = "origin: measured\nplatforms:\n" + "".join(
    f"  m{filters}p{pixels}: cnn-accel-m{filters}p{pixels}\n" for filters, pixels in REAL_CONFIGURATIONS
)


def write_real_platforms(folder: Path) -> Path:
    """Write the platform files of the public measurements into a new folder."""
    folder.mkdir()
    for filters, pixels in REAL_CONFIGURATIONS:
        text = REAL_PLATFORM.format(filters=filters, pixels=pixels)
        (folder / f"m{filters}p{pixels}.yaml").write_text(text, encoding="utf-8")
    return folder


RUN = "origin: simulated\nplatform: small\nnetwork: net\n"

NATIVE = """\
layer,operator,input_height,input_width,input_channels,output_height,output_width,output_channels,\
kernel_height,kernel_width,stride_height,stride_width,pad_top,pad_bottom,pad_left,pad_right,groups,latency_ms
conv1,conv,32,32,3,32,32,16,3,3,1,1,1,1,1,1,1,0.125
pool1,maxpool,32,32,16,16,16,16,2,2,2,2,0,0,0,0,1,0.0
conv2,conv,16,16,16,8,8,32,3,3,2,2,0,1,0,1,1,0.0625
"""
"""A log without fault, for tests to break."""


def write_log(folder: Path, text: str | bytes = NATIVE, *, run: str = RUN, name: str = "log.csv") -> Path:
    """Write a log and its run.yaml."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run.yaml").write_text(run, encoding="utf-8")
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path
