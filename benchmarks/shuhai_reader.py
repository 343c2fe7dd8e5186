"""Speed and memory of the Shuhai reader on logs of 100 MB.

Run ``python benchmarks/shuhai_reader.py``. Each log is read in a process of its own, whose memory
is its peak resident size, imports included; the last column is the rate beside that of Python
splitting the same file into lines.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from accelperf.memory.shuhai import ShuhaiRun, read_run

SIZE_MB = 100
BUDGET_MB_S = 50.0
BUDGET_MB = 300.0

_START = "memory manager init, base: 0x0, size: 1\n00000000000000000000000000000001\n"
_WAIT = "endWr status: 0x0。\nendRd status: 0x0。\n"
_DONE = "endWr status: 0x0。\nendRd status: 0x1。\nThe chennel 0, rd_speed: 13.27 GB/s\n"


def logs() -> Iterator[tuple[str, str]]:
    """Yield the logs by name: header, and repetitions of one part up to the size."""
    size = SIZE_MB * 1_000_000
    line = "  55  62" * 8 + "\n"
    yield "status pairs", _START + _WAIT * (size // len(_WAIT.encode())) + _DONE
    crlf = _WAIT.replace("\n", "\r\n")
    yield "status pairs, CRLF", _START + crlf * (size // len(crlf.encode())) + _DONE
    ansi = _WAIT.replace("\n", "\x1b[K\n")
    yield "status pairs, ANSI", _START + ansi * (size // len(ansi.encode())) + _DONE
    yield "counts, decimal", _START + _DONE + line * (size // len(line))
    idle = _WAIT + line.replace("55", "37").replace("62", "3e") * (size // len(line))
    yield "counts, hexadecimal", "memory manager init, base: 0x0, size: 1\n" + idle
    yield "one count a line", "55\n62\n" * (size // 6)


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
    """Read a log; print seconds, seconds of splitting it into lines, and peak memory in MB."""
    run = ShuhaiRun(board="b", memory="hbm", policy="RGBCG", switch="on", origin="simulated")
    start = time.perf_counter()
    log = read_run(path, run)
    seconds = time.perf_counter() - start
    megabytes = peak_megabytes()
    assert log.status_pairs > 10**6 or (log.latency is not None and log.latency.printed > 10**6)
    start = time.perf_counter()
    with path.open("rb") as stream:
        for line in stream:
            line.split()
    print(seconds, time.perf_counter() - start, megabytes)


def main() -> None:
    """Print rate and memory for each log."""
    print(f"{'log of 100 MB':22s} {'MB/s':>7s} {'MB':>6s} {'ratio to splitting lines':>26s}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.log"
        for name, text in logs():
            path.write_bytes(text.encode())
            command = [sys.executable, __file__, str(path)]
            output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            seconds, splitting, megabytes = map(float, output.split())
            rate = path.stat().st_size / 1e6 / seconds
            within = "" if rate >= BUDGET_MB_S and megabytes < BUDGET_MB else "  over budget"
            print(f"{name:22s} {rate:7.0f} {megabytes:6.0f} {splitting / seconds:26.1f}{within}")
    print(f"budget: {BUDGET_MB_S:g} MB/s or more, under {BUDGET_MB:g} MB")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        read_one(Path(sys.argv[1]))
    else:
        main()
