"""Logs that several tests of the memory side write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from accelperf.memory.shuhai import ShuhaiLog, ShuhaiRun, read_run

PREAMBLE = "memory manager init, base: 0x7f0000000000, size: 8388608\n"
ONE_CHANNEL = "00000000000000000000000000000001\n"
DONE = "endWr status: 0x0。\nendRd status: 0x1。\n"
SPEED = "The chennel 0, rd_speed: 13.27 GB/s\n"
PATTERN = "26843545664\n64"
"""Echo of W = 268435456, S = 64 and B = 64."""
PLAIN = PREAMBLE + ONE_CHANNEL + PATTERN + DONE + SPEED
"""A sound log of one HBM channel."""

COUNTS = ("  55" * 16 + "\n") * 6 + "  55" * 4 + "\n"
HEX_COUNTS = COUNTS.replace("55", "37")


def sidecar(**changes: Any) -> ShuhaiRun:
    """Return a run.yaml for an HBM board, with changes."""
    content = {"board": "u280", "memory": "hbm", "policy": "RGBCG", "switch": "on", "origin": "measured"}
    return ShuhaiRun(**(content | changes))


def ddr4(**changes: Any) -> ShuhaiRun:
    """Return a run.yaml for a DDR4 board, with changes."""
    return sidecar(memory="ddr4", policy="RCB", switch=None, **changes)


def read_text(folder: Path, text: str | bytes, run: ShuhaiRun | None, name: str = "run.log") -> ShuhaiLog:
    """Write a log and read it."""
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_run(path, run)
