"""Speed and memory of the OpenVINO reader on reports of 100 MB.

Run ``python benchmarks/openvino.py``. Each report is written into a temporary folder, with invented
times, and read in a process of its own, whose memory is its peak resident size, imports included;
the time is that of recognising the format, reading, joining with the network's description, checking
and merging. The last column is the time beside that of Python splitting the same file into lines.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from accelperf.logs import read_profile
from accelperf.networks import NETWORK_COLUMNS
from accelperf.platforms import Platform

SIZE_MB = 100
BUDGET_SECONDS = 20.0
BUDGET_MB = 1000.0
CONVOLUTIONS = 60
SEED = 0

PLATFORM = Platform(
    name="host",
    filter_parallelism=64,
    channel_parallelism=16,
    unrolled_loop="pixels",
    logic_clock_mhz=1000.0,
    memory_clock_mhz=2000.0,
    transfer_width_bits=64,
    data_width_bits=8,
    memory_ports=1,
    memory_efficiency=0.8,
)
_SIZES = "28,28,64,28,28,64,3,3,1,1,1,1,1,1,1,1,1"
_HEADER = "layerName;execStatus;layerType;execType;realTime (ms);cpuTime (ms);"
_OLD_HEADER = "layer name;exec status;layer type;exec type;"


def layers() -> Iterator[tuple[str, str, str, int]]:
    """Yield name, status, types and mean time [us] of the layers of an invented network."""
    for index in range(CONVOLUTIONS):
        stem = f"backbone/stage{index // 12}/block{index}/conv"
        yield stem, "EXECUTED", "Convolution;jit_avx2_FP32", 300 + 11 * index
        yield f"{stem}/bias", "NOT_RUN", "Add;undef", 0
        yield f"{stem}/relu", "NOT_RUN", "ReLU;undef", 0
        yield f"{stem}/reorder", "EXECUTED", "Reorder;jit_uni_FP32", 12


def blocks(rng: np.random.Generator) -> Iterator[str]:
    """Yield blocks of a detailed report, one a request, without end."""
    rows = list(layers())
    while True:
        times = [max(1, round(mean * rng.lognormal(sigma=0.1))) if mean else 0 for *_, mean in rows]
        body = "".join(
            f"{name};{status};{types};{us / 1000:.6f};{us / 1000:.6f};\n"
            for (name, status, types, _), us in zip(rows, times, strict=True)
        )
        total = f"{sum(times) / 1000:.6g}"
        yield f"{_HEADER}\n{body}Total;;;;{total};{total};\n\n"


def write_current(path: Path) -> None:
    """Write a detailed report of the current layout."""
    written = 0
    with path.open("w") as stream:
        for block in blocks(np.random.default_rng(SEED)):
            written += stream.write(block)
            if written >= SIZE_MB * 1_000_000:
                return


def write_old(path: Path) -> None:
    """Write a detailed report of the old layout: a line a layer, two columns a request."""
    rng = np.random.default_rng(SEED)
    rows = list(layers())
    cell = {True: len("300;300;"), False: len("0;0;")}
    requests = SIZE_MB * 1_000_000 // sum(cell[bool(mean)] for *_, mean in rows)
    columns = "".join(f"realTime_iter{index};cpuTime_iter{index};" for index in range(requests))
    with path.open("w") as stream:
        stream.write(f"Performance counters;\n{_OLD_HEADER}{columns}\n")
        for name, status, types, mean in rows:
            times = np.maximum(1, np.rint(mean * rng.lognormal(sigma=0.1, size=requests))).astype(int)
            cells = "".join(f"{us};{us};" for us in (times if mean else np.zeros_like(times)).tolist())
            stream.write(f"{name};{status};{types};{cells}\n")


REPORTS = {"detailed, current layout": write_current, "detailed, old layout": write_old}


def write_run(folder: Path) -> None:
    """Write the ``run.yaml`` and the network's description."""
    (folder / "run.yaml").write_text("origin: simulated\nplatform: host\nnetwork: n\ngeometry: n.csv\n")
    rows = [f"{name},conv,{_SIZES}" for name, _, types, _ in layers() if types.startswith("Convolution")]
    (folder / "n.csv").write_text("\n".join([",".join(NETWORK_COLUMNS), *rows]) + "\n")


def peak_megabytes() -> float:
    """Return the peak resident size of this process [MB].

    Linux keeps `ru_maxrss` of the parent across a fork; VmHWM belongs to the process alone.
    """
    status = Path("/proc/self/status")
    if status.exists():
        lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
        return int(lines["VmHWM"].split()[0]) * 1024 / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def read_one(path: Path) -> None:
    """Read a report; print rows, seconds, seconds of splitting it into lines, and peak memory in MB."""
    start = time.perf_counter()
    table, reports = read_profile(path, {PLATFORM.name: PLATFORM})
    seconds = time.perf_counter() - start
    megabytes = peak_megabytes()
    assert len(table) == CONVOLUTIONS
    assert (table["repeats"] > 1000).all()
    start = time.perf_counter()
    with path.open("rb") as stream:
        for line in stream:
            line.split(b";")
    print(sum(report.rows_read for report in reports), seconds, time.perf_counter() - start, megabytes)


def main() -> None:
    """Print seconds, rate and memory for each report."""
    columns = f"{'MB':>5s} {'rows':>9s} {'s':>6s} {'MB/s':>6s} {'MB peak':>8s} {'ratio to splitting':>19s}"
    print(f"{'report':26s} {columns}")
    with tempfile.TemporaryDirectory() as folder:
        write_run(Path(folder))
        for name, write in REPORTS.items():
            path = Path(folder) / "report.csv"
            write(path)
            command = [sys.executable, __file__, str(path)]
            output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            rows, seconds, splitting, megabytes = map(float, output.split())
            size = path.stat().st_size / 1e6
            within = "" if seconds < BUDGET_SECONDS and megabytes < BUDGET_MB else "  over budget"
            print(
                f"{name:26s} {size:5.0f} {rows:9.0f} {seconds:6.1f} {size / seconds:6.0f} {megabytes:8.0f} "
                f"{seconds / splitting:19.1f}{within}"
            )
    print(f"budget: under {BUDGET_SECONDS:g} s and {BUDGET_MB:g} MB")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        read_one(Path(sys.argv[1]))
    else:
        main()
