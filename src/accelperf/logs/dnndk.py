"""Reader of DNNDK profiles: the table that a DPU task in profile mode prints into the console.

A program whose task was created with ``T_MODE_PROF`` (or run under ``dexplorer -m profile``), and
whose kernel was compiled in debug mode, prints for every run of the kernel::

    [DNNDK] Performance profile - DPU Kernel "net" DPU Task "net-0"
    ==========
      ID   NodeName Workload(MOP) Mem(MB) RunTime(ms) Perf(GOPS) Utilization    MB/S
       1      conv1         1.000    0.10       0.100       10.0        0.8%  1000.0

                Total Nodes In Avg:
                                All     1.000    0.10       0.100       10.0        0.8%  1000.0
    ==========

wherever it is in what else it prints. The columns are padded (``%4d %30s %13.3f %7.2f %11.3f …``),
so a longer name pushes its row to the right: rows are read from their right end. Older releases
print two decimals. The log has no sizes, and neither pooling nor activations that the compiler
fused into a convolution; ``geometry`` of ``run.yaml`` describes the network. The network is named
by ``run.yaml``, else by the kernel. ``All`` becomes a stated total.

Source of the layout: ``print_task_profile`` of n2cube (Xilinx Vitis-AI, ``dnndk`` runtime); for
two decimals, a log in Xilinx' tutorials of 2019 (miniVggNet).
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from accelperf.errors import InputError
from accelperf.logs.base import LogTable, StatedTotal
from accelperf.logs.profile import Profile, find_line, join_profiles, timing_row, timing_table
from accelperf.logs.run import RunFile
from accelperf.logs.text import read_lines

name = "dnndk"

HEADER = ("ID", "NodeName", "Workload(MOP)", "Mem(MB)", "RunTime(ms)", "Perf(GOPS)", "Utilization", "MB/S")
"""Columns of a profile."""

_TITLE = re.compile(r'Performance profile - DPU Kernel "(?P<kernel>[^"]*)"')
_NODE = "NodeName"
_TIME = "RunTime"
_FOOTER = "Total Nodes In Avg:"

_NUMBER = r"\d+(?:\.\d+)?"
# What is divided by a run time of 0.000 prints as inf or nan.
_QUOTIENT = r"-?(?:\d+(?:\.\d+)?|inf|nan)"
_FIGURES = (
    rf"(?P<workload>{_NUMBER})\s+(?P<memory>{_NUMBER})\s+(?P<time>{_NUMBER})"
    rf"\s+(?P<speed>{_QUOTIENT})\s+{_QUOTIENT}%\s+(?P<bandwidth>{_QUOTIENT})\s*"
)
_COLUMNS = {
    "workload": "Workload(MOP)",
    "memory": "Mem(MB)",
    "speed": "Perf(GOPS)",
    "bandwidth": "MB/S",
}
_SINGLE_PRECISION = 1e-5
"""Relative error of the tool's own arithmetic, in single precision."""

_ROW = re.compile(rf"\s*(?P<id>\d{{1,9}})\s+(?P<name>\S+(?:\s\S+)*?)\s+{_FIGURES}", re.ASCII)
_ALL = re.compile(rf"\s*All\s+{_FIGURES}", re.ASCII)


def recognises(path: Path) -> str | None:
    """Return None for a text with the header of a profile, wherever it stands."""
    try:
        line = find_line(path, [b"Workload(MOP)"])
    except InputError as error:
        return str(error)
    if line is None or not _is_header(line):
        return "no table with the columns NodeName, Workload(MOP) and RunTime(ms)"
    return None


def read(files: Sequence[Path], run: RunFile) -> list[LogTable]:
    """Read console logs with profiles (see `accelperf.logs.base.Reader`)."""
    return [join_profiles(path, name, read_timings(path), run) for path in files]


def read_timings(path: Path) -> list[Profile]:
    """Read the profiles of a console log, which needs no description of the network.

    Parameters
    ----------
    path : Path
        The log.

    Returns
    -------
    list of Profile
        One a table, in the order of the log.

    Raises
    ------
    InputError
        If there is no profile, its columns are others, a row cannot be read or is missing, or the
        log ends before the row ``All``.
    """
    lines = read_lines(path)
    profiles: list[Profile] = []
    kernel = ""
    number = 0
    while number < len(lines):
        text = lines[number]
        number += 1
        title = _TITLE.search(text)
        if title is not None:
            kernel = title["kernel"]
        elif _is_header(text):
            _check_header(text, path, number)
            profile, number = _read_table(lines, number, kernel, path)
            profiles.append(profile)
            kernel = ""
        elif text.strip("= \t"):
            # Title and table are printed together; what stands further above is of another one.
            kernel = ""
    if not profiles:
        raise InputError(f"a profile (a table with the columns {' '.join(HEADER)})", "none", file=path)
    return profiles


def _is_header(text: str) -> bool:
    words = text.split()
    return _NODE in words and any(word.startswith(_TIME) for word in words)


def _check_header(text: str, path: Path, line: int) -> None:
    words = text.split()
    if tuple(words) != HEADER:
        raise InputError(f"the columns {' '.join(HEADER)}", " ".join(words), file=path, line=line)


def _read_table(lines: Sequence[str], start: int, kernel: str, path: Path) -> tuple[Profile, int]:
    """Return the profile whose header is line `start`, and the number of its last line."""
    rows: list[dict[str, Any]] = []
    texts: list[str] = []
    known: dict[str, int] = {}
    number = start
    while True:
        number += 1
        text = _line(lines, number, path, f"a row of the profile or {_FOOTER!r}")
        if text.strip() == _FOOTER:
            break
        if not text.strip():
            continue
        matched = _ROW.fullmatch(text)
        if matched is None:
            expected = f"a row of the profile ({' '.join(HEADER)}) or {_FOOTER!r}"
            raise InputError(expected, repr(text.strip()[:80]), file=path, line=number)
        # The runtime counts the rows, so a gap is a row that got lost.
        if int(matched["id"]) != len(rows) + 1:
            raise InputError(f"ID {len(rows) + 1}", matched["id"], file=path, line=number)
        layer = matched["name"]
        if layer in known:
            raise InputError(
                f"names that differ, with {layer!r} in line {known[layer]}",
                "it again",
                file=path,
                line=number,
            )
        known[layer] = number
        _check_quotient(matched, "workload", "speed", 1.0, path, number)
        _check_quotient(matched, "memory", "bandwidth", 1e3, path, number)
        texts.append(matched["time"])
        rows.append(timing_row(layer, _finite(matched["time"], path, number), line=number))
    if not rows:
        raise InputError("at least one row", "none", file=path, line=number)
    while not (text := _line(lines, number := number + 1, path, "the row 'All'")).strip():
        pass
    matched = _ALL.fullmatch(text)
    if matched is None:
        raise InputError("the row 'All' with its figures", repr(text.strip()[:80]), file=path, line=number)
    total = StatedTotal(
        stated_ms=_finite(matched["time"], path, number),
        listed_ms=math.fsum(row["latency_ms"] for row in rows),
        what="All",
        resolution_ms=10.0 ** -min(len(each.partition(".")[2]) for each in texts),
        rows=len(rows),
        file=path.as_posix(),
        line=number,
    )
    return Profile(kernel, "", start, timing_table(rows), (total,)), number


def _check_quotient(row: re.Match[str], amount: str, rate: str, factor: float, path: Path, line: int) -> None:
    """Raise if a rate is not an amount by the run time, as the tool prints it.

    That the columns agree is what tells that they are the ones which the header names.
    """
    value, given = float(row[rate]), float(row[amount])
    if not math.isfinite(value):
        return
    time, half_ms, half = float(row["time"]), _half_step(row["time"]), _half_step(row[amount])
    least = factor * (given - half) / (time + half_ms)
    most = factor * (given + half) / (time - half_ms) if time > half_ms else math.inf
    slack = _half_step(row[rate]) + _SINGLE_PRECISION * abs(value)
    if not least - slack <= value <= most + slack:
        raise InputError(
            f"{_COLUMNS[rate]} from {least:.1f} to {most:.1f}, which is {_COLUMNS[amount]} {row[amount]} by "
            f"RunTime(ms) {row['time']}",
            row[rate],
            file=path,
            line=line,
        )


def _half_step(text: str) -> float:
    return 0.5 * 10.0 ** -len(text.partition(".")[2])


def _line(lines: Sequence[str], number: int, path: Path, expected: str) -> str:
    if number > len(lines):
        last = len(lines) - (not lines[-1])  # what follows the last line end is no line
        raise InputError(expected, "the end of the file", file=path, line=last)
    return lines[number - 1]


def _finite(text: str, path: Path, line: int) -> float:
    value = float(text)
    if math.isinf(value):
        raise InputError("RunTime(ms): a finite number", repr(text[:80]), file=path, line=line)
    return value
