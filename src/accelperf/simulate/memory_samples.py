"""The sample memory logs of ``data/raw/memory``, each run in a folder of its own.

``python -m accelperf.simulate.memory_samples data/raw/memory`` makes them again. The board
`PUBLISHED_BOARD` carries figures published in the Shuhai paper, the board `MODEL_BOARD` what the DRAM
model makes of the runs behind the paper's figures. None is a capture: all of them say SIMULATED.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from accelperf.simulate.address_mapping import address_mapping
from accelperf.simulate.dram import LATENCY_GAP_CYCLES, AccessPattern, simulate
from accelperf.simulate.dram_timing import MEMORIES
from accelperf.simulate.memory_run import (
    CONFIG_NAME,
    LOG_NAME,
    MODEL_BOARD,
    MODEL_SOURCE,
    SIDECAR_NAME,
    sidecar,
    simulate_memory,
    write_files,
)
from accelperf.simulate.published_anchors import IDLE_LATENCY_CYCLES, THROUGHPUT, ThroughputAnchor
from accelperf.simulate.shuhai_log import (
    BEAT_BYTES,
    COUNTS_PRINTED,
    SOFTWARE_CLOCK_MHZ,
    Invocation,
    Measurement,
    cycles_of_speed,
    settings,
    write,
    write_numbers,
)

PUBLISHED_BOARD = "sample-u280"
"""Board of the runs that carry published figures."""

NUMBERS_NAME = "res.txt"

PUBLISHED_SOURCE = (
    "SIMULATED: not a capture from a board. Written in the output format of the Shuhai benchmark "
    "with the throughput published in the Shuhai paper (FCCM 2020)."
)

_KB = 1 << 10
_MB = 1 << 20

_STRIDES = [64 << step for step in range(9)]
_MODEL_NUM_OPS = 20_000
_REFRESH_NUM_OPS = 1024

MODEL_RUNS: Mapping[str, Mapping[str, Any]] = {
    **{
        f"hbm_{policy.lower()}_b32_s{stride}": {"policy": policy, "burst_bytes": 32, "stride_bytes": stride}
        for policy in ("RGBCG", "BRC")
        for stride in _STRIDES
    },
    **{
        f"hbm_rgbcg_b32_s{stride}_w8k": {
            "burst_bytes": 32,
            "stride_bytes": stride,
            "working_set_bytes": 8 * _KB,
        }
        for stride in _STRIDES
        if stride <= 4 * _KB
    },
    **{
        f"ddr4_rcb_b64_s{stride}": {"memory": "ddr4", "burst_bytes": 64, "stride_bytes": stride}
        for stride in _STRIDES
    },
    "hbm_write_b64_s64": {"direction": "write", "burst_bytes": 64, "stride_bytes": 64},
    "hbm_two_channels_b64_s64": {"channels": (0, 1), "burst_bytes": 64, "stride_bytes": 64},
    **{
        f"{memory}_latency_s{stride}": {
            "memory": memory,
            "mode": "latency",
            "burst_bytes": burst,
            "stride_bytes": stride,
            "working_set_bytes": 16 * _MB,
        }
        for memory, burst in (("hbm", 32), ("ddr4", 64))
        for stride in (64, 128, 128 * _KB)
    },
    **{
        f"hbm_latency_axi{channel}": {
            "mode": "latency",
            "channels": (channel,),
            "burst_bytes": 32,
            "stride_bytes": 64,
            "working_set_bytes": 4 * _KB,
        }
        for channel in range(0, 32, 4)
    },
}
"""Runs of the DRAM model by folder: arguments of `simulate_memory` where they differ from W = 256 MB and
20 000 accesses. They follow the settings of the paper's Figures 4-8; in latency mode a
stride of 128 gives page hits and closed banks, one of 128 KB page misses."""


def published_run(anchor: ThroughputAnchor) -> dict[str, str]:
    """Return the files of a read of channel 0 with a published throughput: text by file name."""
    invocation = Invocation(
        memory=anchor.memory,
        read_enable=1,
        working_set_bytes=anchor.working_set_bytes,
        stride_bytes=anchor.stride_bytes,
        burst_bytes=anchor.burst_bytes,
    )
    cycles = cycles_of_speed(
        anchor.burst_bytes, settings(invocation).num_ops[0], SOFTWARE_CLOCK_MHZ[anchor.memory], anchor.gbps
    )
    return _published_files(
        invocation, Measurement({(0, "read"): cycles}), f"{anchor.gbps:g} GB/s, {anchor.where}"
    )


def published_hit_run() -> dict[str, str]:
    """Return the files of a latency run with the published idle latency of an HBM page hit."""
    hit = IDLE_LATENCY_CYCLES["hbm", "on"]["hit"]
    invocation = Invocation(
        memory="hbm",
        read_enable=1,
        working_set_bytes=16 * _MB,
        stride_bytes=128,
        burst_bytes=32,
        config_file=CONFIG_NAME,
        config=(("latencyChannel", 0, 1),),
    )
    cycles = settings(invocation).num_ops[0] * (hit + LATENCY_GAP_CYCLES)
    return _published_files(
        invocation,
        Measurement({(0, "read"): cycles}, [hit] * COUNTS_PRINTED),
        f"{hit} cycles, idle latency of a page hit with the switch on, repeated",
    )


def _published_files(invocation: Invocation, measurement: Measurement, figure: str) -> dict[str, str]:
    files = {
        LOG_NAME: write(invocation, measurement),
        SIDECAR_NAME: sidecar(
            invocation,
            board=PUBLISHED_BOARD,
            policy=address_mapping(invocation.memory).name,
            switch="on" if invocation.memory == "hbm" else None,
            source=f"{PUBLISHED_SOURCE} The figure: {figure}.",
        ),
    }
    if invocation.config_file is not None:
        files[invocation.config_file] = invocation.config_text()
    return files


def refresh_run(memory: Literal["hbm", "ddr4"]) -> dict[str, str]:
    """Return the files of the paper's Figure 4: 1024 serial reads of one beat, one latency a line.

    The benchmark prints a hundred latencies, too few for two refreshes of DDR4; its older versions
    wrote all of them into a file of their own.
    """
    invocation = Invocation(
        memory=memory,
        read_enable=1,
        working_set_bytes=16 * _MB,
        stride_bytes=64,
        burst_bytes=BEAT_BYTES[memory],
        config_file=CONFIG_NAME,
        config=(("latencyChannel", 0, 1),),
        num_ops={0: _REFRESH_NUM_OPS},
    )
    pattern = AccessPattern(BEAT_BYTES[memory], 64, 16 * _MB, _REFRESH_NUM_OPS)
    result = simulate(MEMORIES[memory], pattern, mode="latency")
    return {
        NUMBERS_NAME: write_numbers(result.latency_cycles.tolist()),
        SIDECAR_NAME: sidecar(
            invocation,
            board=MODEL_BOARD,
            policy=address_mapping(memory).name,
            switch="on" if memory == "hbm" else None,
            source=f"{MODEL_SOURCE} One latency a line, as older versions wrote.",
            with_command=False,
        ),
    }


def samples() -> dict[str, Mapping[str, str]]:
    """Return all sample runs: text by file name, by folder."""
    runs: dict[str, Mapping[str, str]] = {}
    for anchor in THROUGHPUT:
        runs[f"{PUBLISHED_BOARD}/{anchor.name}"] = published_run(anchor)
    runs[f"{PUBLISHED_BOARD}/hbm_latency_hit"] = published_hit_run()
    for name, arguments in MODEL_RUNS.items():
        given = {"working_set_bytes": 256 * _MB, "num_ops": _MODEL_NUM_OPS, **arguments}
        runs[f"{MODEL_BOARD}/{name}"] = simulate_memory(**given).files
    runs[f"{MODEL_BOARD}/hbm_refresh"] = refresh_run("hbm")
    runs[f"{MODEL_BOARD}/ddr4_refresh"] = refresh_run("ddr4")
    return runs


def main() -> None:
    """Write the sample runs below the folder named on the command line."""
    if len(sys.argv) != 2:
        raise SystemExit("usage: python -m accelperf.simulate.memory_samples FOLDER")
    for folder, files in samples().items():
        write_files(Path(sys.argv[1]) / folder, files)


if __name__ == "__main__":
    main()
