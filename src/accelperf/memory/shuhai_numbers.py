"""Files of one number a line: what older versions of Shuhai wrote beside their output.

Whole numbers are latencies [cycles] (``res.txt``); an empty line separates runs. Numbers with a
fraction are speeds [GB/s], one an enabled channel and direction in the program's order: which ones
only ``run.yaml`` can say.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from accelperf.errors import InputError
from accelperf.memory.shuhai_latency import IDLE_HIT_CYCLES, STRIDE_FACTOR, LatencyTrace
from accelperf.memory.shuhai_program import CHANNELS
from accelperf.memory.shuhai_rows import DIRECTIONS, Printed, memory_rows
from accelperf.memory.shuhai_settings import RunSettings
from accelperf.memory.table import MemoryRow
from accelperf.memory.text_stream import LONGEST_NUMBER, Cycles, compact, parse_numbers, read_blocks

NUMBER = re.compile(rb"\s*(?:\d+(?:\.\d*)?(?:e[-+]?\d+)?|inf|-?nan)\s*")


def read_numbers(path: Path) -> tuple[Cycles | None, list[tuple[float, int]]]:
    """Read a file of one number a line.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    cycles : ndarray of int or None, shape [numbers]
        The numbers, if all are whole.
    speeds : list of (float, int)
        Otherwise the numbers and their lines.

    Raises
    ------
    InputError
        If a line holds something else.
    """
    blocks: list[Cycles] = []
    speeds: list[tuple[float, int]] = []
    whole = True
    for first, block in read_blocks(path):
        if whole and not block.translate(None, b"0123456789\n"):
            try:
                blocks.append(compact(parse_numbers(block, base=10)))
                continue
            except ValueError:
                pass  # found again below, with its line
        for line, text in enumerate(block.split(b"\n"), start=first):
            if text.strip() and NUMBER.fullmatch(text) is None:
                got = repr(text[:60].decode(errors="replace"))
                raise InputError("one number a line", got, file=path, line=line)
            if len(text.strip()) > LONGEST_NUMBER and text.strip().isdigit():
                got = f"{len(text.strip())} digits"
                raise InputError(f"a number of at most {LONGEST_NUMBER} digits", got, file=path, line=line)
            if text.strip():
                speeds.append((abs(float(text)), line))
        whole = False
    if whole:
        return np.concatenate(blocks), []
    if blocks:
        raise InputError(
            "latencies only, as in the first lines", "a number with a fraction", file=path, line=speeds[0][1]
        )
    return None, speeds


def latency_of_numbers(cycles: Cycles, settings: RunSettings) -> LatencyTrace:
    """Return the counts of a file as a trace, with the pattern that ``run.yaml`` states."""
    channel = settings.latency_channel
    pattern = settings.pattern(0 if channel is None else channel)
    least = None if settings.run is None else IDLE_HIT_CYCLES.get(settings.run.memory)
    stride = pattern.stride_bytes
    return LatencyTrace(
        cycles=cycles,
        printed=len(cycles),
        base=10,
        wrapped=None if least is None else int((cycles < least).sum()),
        channel=channel,
        burst_bytes=pattern.burst_bytes,
        stride_bytes=None if stride is None else STRIDE_FACTOR * stride,
        working_set_bytes=pattern.working_set_bytes,
        source_line=1,
    )


def rows_of_speeds(speeds: list[tuple[float, int]], settings: RunSettings) -> list[MemoryRow]:
    """Return the speeds of a file as rows; channel and direction are known if the enables are."""
    enables = {direction: settings.enabled(direction) for direction in DIRECTIONS}
    places = [
        (channel, direction)
        for channel in range(CHANNELS)
        for direction, bits in enables.items()
        if bits is not None and bits >> channel & 1
    ]
    if None in enables.values() or len(places) != len(speeds):
        printed = [Printed(None, "", gbps, line) for gbps, line in speeds]
    else:
        printed = [
            Printed(channel, direction, gbps, line)
            for (channel, direction), (gbps, line) in zip(places, speeds, strict=True)
        ]
    return memory_rows(printed, settings, latency_run=False)
