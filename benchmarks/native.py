"""Speed and memory of ingesting one million rows of the native CSV, checks included.

Run ``python benchmarks/native.py``. Each log is written to a temporary folder and ingested in a
process of its own, whose memory is its peak resident size, imports included. One log has a thousand
runs of each of a thousand layers, the other a million layers of their own.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROWS = 1_000_000
BUDGET_SECONDS = 20.0
BUDGET_MB = 1000.0

_PLATFORM = """\
name: bench
filter_parallelism: 8
channel_parallelism: 4
unrolled_loop: pixels
logic_clock_mhz: 200.0
memory_clock_mhz: 100.0
transfer_width_bits: 64
data_width_bits: 8
memory_ports: 1
memory_efficiency: 0.5
"""
_HEADER = (
    "network,layer,operator,input_height,input_width,input_channels,output_height,output_width,"
    "output_channels,kernel_height,kernel_width,stride_height,stride_width,pad_top,pad_bottom,"
    "pad_left,pad_right,groups,latency_ms\n"
)
_MACS_A_MS = 8 * 4 * 200e3


def write_log(path: Path, layers: int, rows: int) -> None:
    """Write a log of some layers, over and over until it has that many rows; a fixed seed.

    Latencies are those of full rate and up to a tenth more, so that physics allows them.
    """
    rng = np.random.default_rng(0)
    size = rng.choice([7, 14, 28, 56], layers)
    channels, filters = rng.choice([16, 64, 128], layers), rng.choice([32, 64, 256], layers)
    kernel = rng.choice([1, 3, 5], layers)
    least = np.maximum(
        kernel**2 * channels * filters * size**2 / _MACS_A_MS,
        (kernel**2 * channels * filters + (channels + filters) * size**2) / 0.8e6,
    )
    shapes = [
        f"net{index // 100},conv{index},conv,{s},{s},{c},{s},{s},{f},{k},{k},1,1,{p},{p},{p},{p},1,"
        for index, (s, c, f, k, p) in enumerate(
            zip(size, channels, filters, kernel, kernel // 2, strict=True)
        )
    ]
    with path.open("w", encoding="utf-8") as stream:
        stream.write(_HEADER)
        for start in range(0, rows, layers):
            count = min(layers, rows - start)
            latencies = least[:count] * (1 + 0.1 * rng.random(count))
            stream.writelines(f"{shapes[i]}{latency:.6f}\n" for i, latency in enumerate(latencies.tolist()))


def ingest(folder: Path) -> None:
    """Ingest the log of a folder; print seconds, those of the processor, peak memory in MB, layers."""
    from accelperf.logs import read_folder
    from accelperf.platforms import read_platforms

    platforms = read_platforms(folder / "platforms")
    start, start_cpu = time.perf_counter(), time.process_time()
    found = read_folder(folder / "logs", platforms)
    seconds, processor = time.perf_counter() - start, time.process_time() - start_cpu
    assert sum(report.rows_kept for report in found.reports) == ROWS
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    print(seconds, processor, int(status["VmHWM"].split()[0]) * 1024 / 1e6, len(found.layers))


def main() -> None:
    """Print seconds and peak memory for each log."""
    columns = f"{'seconds':>8s} {'CPU s':>6s} {'peak MB':>8s} {'layers':>8s}"
    print(f"{'log of 1 000 000 rows':24s} {'MB':>5s} {columns}")
    for name, layers in (("1000 runs of 1000 layers", 1000), ("1 000 000 layers", ROWS)):
        with tempfile.TemporaryDirectory() as parent:
            folder = Path(parent)
            (folder / "platforms").mkdir()
            (folder / "platforms" / "bench.yaml").write_text(_PLATFORM)
            (folder / "logs").mkdir()
            (folder / "logs" / "run.yaml").write_text("origin: measured\nplatform: bench\n")
            log = folder / "logs" / "log.csv"
            write_log(log, layers, ROWS)
            command = [sys.executable, __file__, str(folder)]
            output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            seconds, processor, megabytes, rows = map(float, output.split())
            within = seconds < BUDGET_SECONDS and megabytes < BUDGET_MB
            print(
                f"{name:24s} {log.stat().st_size / 1e6:5.0f} {seconds:8.1f} {processor:6.1f} "
                f"{megabytes:8.0f} {int(rows):8d}" + ("" if within else "  over budget"),
                flush=True,
            )
    print(f"budget: under {BUDGET_SECONDS:g} s and {BUDGET_MB:g} MB")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        ingest(Path(sys.argv[1]))
    else:
        main()
