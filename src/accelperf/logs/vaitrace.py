"""Reader of Vitis AI's vaitrace: ``profile_summary.csv`` and the text summary.

Both list the subgraphs that the DPU ran, with their times on average. The columns differ by release:

===========  =========================================================================================
CSV, 1.3 on  ``Kernel Name, Number Of Runs, CU Full Name, Minimum Time (ms), Average Time (ms), …``
             below a preamble; functions of the CPU follow
text, 1.4    ``DPU | Batch | SubGraph | Workload(GOP) | RunTime(ms) | Perf(GOP/s) | Mem(MB) | MB/s``
text, 2.0    ``DPU Id | Bat | SubGraph | WL | RT | Perf | LdWB | LdFM | StFM | AvgBw``
text, 2.5 on ``DPU Id | Bat | DPU SubGraph | WL | SW_RT | HW_RT | Effic | LdWB | LdFM | StFM | AvgBw``;
             on x86 hosts (Alveo) without ``HW_RT`` and ``Effic``
===========  =========================================================================================

* The hardware's own time (``HW_RT``) is taken where there is one.
* Short column names have their unit in the notes below the table only; without them the table is
  refused. ``~0`` is a value between 0 and 0.001, hence below the resolution.
* Without ``--fine_grained`` a row is a whole graph, *named after its first layer*. A table of one
  row on a core is therefore left out as ``whole_graph``, and so is, once the sizes are known, a row
  whose workload is far above that of its layer.
* That comparison allows 0.02 GOP: so close vaitrace takes a layer for its whole graph if they have one
  name, and prints the workload of the graph beside the time of the layer.
* The text cuts long names (to the last 60 characters behind ``...``; in 1.4 to the first 65 before it);
  the CSV has them in full. ``layers`` of ``run.yaml`` translates them; nothing is guessed. The prefix
  ``subgraph_`` is no part of a name.
* Bandwidth, traffic and run time in the text, and minimum, average and maximum in the CSV, must agree: so
  a table with shifted columns is noticed.
* The time is that of a run on one core, whatever its batch; runs on several cores of one platform
  count as runs of one layer. The text does not say how many runs are behind a time.

Sources: ``vart/trace/vaitrace/writer`` (``txt/convert.py``, ``vtf/convert.py``, ``parser/unitUtil.py``,
``parser/vart_parser.py``) of Xilinx/Vitis-AI 1.4 to 3.5, *Text Summary* in UG1414, and Vitis-AI issue
1060 for the workload of the first row.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from accelperf.errors import InputError, known
from accelperf.logs.base import Finding, LogTable
from accelperf.logs.hits import operations
from accelperf.logs.profile import Profile, find_line, join_profiles, timing_row, timing_table
from accelperf.logs.run import RunFile
from accelperf.logs.text import read_lines

name = "vaitrace"

WHOLE_GRAPH = "whole_graph"
CPU_FUNCTION = "CPU function"
NAME_TWICE = "name twice"
"""Reasons under which rows are skipped."""

WORKLOAD_TOLERANCE_GOP = 0.02
"""Difference up to which vaitrace takes two workloads for one (``get_info_from_xmodel``)."""

OPERATIONS_PER_GOP = 1e9

FUSED_WORKLOAD = 1.5
"""Largest workload of a subgraph as a multiple of its convolution's: what the compiler fuses into a
convolution (bias, activation, addition, pooling) is a few per cent of all but the smallest ones."""

_CSV_NAME, _CSV_RUNS, _CSV_CORE, _CSV_TIME = (
    "Kernel Name",
    "Number Of Runs",
    "CU Full Name",
    "Average Time (ms)",
)
_CSV_WORKLOAD = "Workload(GOP)"
_CSV_MARKER = b"Kernel Name,Number Of Runs,CU Full Name"

_TEXT_CORES = ("DPU Id", "DPU", "Device")
_TEXT_NAMES = ("DPU SubGraph", "SubGraph")
_TEXT_TIMES = ("HW_RT", "SW_RT", "RT", "RunTime(ms)", "AverageRunTime(ms)")
"""In the order of preference."""
_TEXT_WORKLOADS = ("WL", "Workload(GOP)")
_TEXT_RATES = {"AvgBw": ("LdWB", "LdFM", "StFM"), "MB/s": ("Mem(MB)",)}
"""Columns of bandwidths, and of the amounts that they are the sum of, by the run time."""
_TEXT_COLUMNS = frozenset(
    (*_TEXT_CORES, *_TEXT_NAMES, *_TEXT_TIMES, *_TEXT_WORKLOADS, *_TEXT_RATES, *chain(*_TEXT_RATES.values()))
) | {"Bat", "Batch", "Perf", "Perf(GOP/s)", "Effic"}
_RATE_FACTORS = (1000.0, 1024.0)
"""MB a ms in MB a s; until 2.0, vaitrace multiplied by 1024."""
_CSV_SPREAD = ("Minimum Time (ms)", "Average Time (ms)", "Maximum Time (ms)")

_PREFIX = "subgraph_"
_TINY = "~0"
_TINY_BELOW = 1e-3
_PLAIN = re.compile(r"-?\d+(?:\.\d+)?", re.ASCII)
_GROUPED = re.compile(r"-?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?", re.ASCII)
_MISSING = frozenset({"-", "", "nan"})
_UNIT = re.compile(r"unit\s+is\s+(?P<unit>[^\s.,]+)")


@dataclass(frozen=True)
class _Row:
    """One subgraph on one core."""

    core: str
    layer: str
    latency_ms: float
    workload_gop: float
    repeats: int
    line: int


@dataclass(frozen=True)
class _Table:
    """One table of subgraphs."""

    line: int
    rows: tuple[_Row, ...]
    skipped: Mapping[str, int]


def recognises(path: Path) -> str | None:
    """Return None for a text with the header of a table of DPU subgraphs, wherever it stands."""
    try:
        line = find_line(path, [_CSV_MARKER, b"| SubGraph", b"| DPU SubGraph"])
    except InputError as error:
        return str(error)
    if line is None or not (line.startswith(_CSV_MARKER.decode()) or _is_text_header(line)):
        return "no table of DPU subgraphs (Kernel Name,… or DPU Id | Bat | …)"
    return None


def read(files: Sequence[Path], run: RunFile) -> list[LogTable]:
    """Read summaries of vaitrace (see `accelperf.logs.base.Reader`)."""
    logs = []
    for path in files:
        tables = _read_tables(path)
        log = join_profiles(path, name, _profiles(tables, path), run)
        workloads = {row.line: row.workload_gop for table in tables for row in table.rows}
        logs.append(_without_whole_graphs(log, workloads))
    return logs


def read_timings(path: Path) -> list[Profile]:
    """Read the tables of a summary, which needs no description of the network.

    Parameters
    ----------
    path : Path
        ``profile_summary.csv``, or a text with one or more summaries in it.

    Returns
    -------
    list of Profile
        One a table and core, the core being the configuration. Rows that are whole graphs by
        themselves, or have the name of another one, are left out with a finding.

    Raises
    ------
    InputError
        If there is no table, it has no known time or one without a unit, a row cannot be read, or
        the text ends within the table.
    """
    return _profiles(_read_tables(path), path)


def _read_tables(path: Path) -> list[_Table]:
    lines = read_lines(path)
    tables: list[_Table] = []
    number = 0
    while number < len(lines):
        text = lines[number]
        number += 1
        if text.startswith(_CSV_MARKER.decode()):
            table, number = _read_csv(lines, number, path)
            tables.append(table)
        elif _is_text_header(text):
            table, number = _read_text(lines, number, path)
            tables.append(table)
    if not tables:
        raise InputError("a table of DPU subgraphs (Kernel Name,… or DPU Id | Bat | …)", "none", file=path)
    return tables


def _read_csv(lines: Sequence[str], start: int, path: Path) -> tuple[_Table, int]:
    """Return the table whose header is line `start`, and the number of its last line."""
    header = _fields(lines[start - 1], path, start)
    for column in (_CSV_NAME, _CSV_RUNS, _CSV_CORE, _CSV_TIME):
        if column not in header:
            raise InputError(f"a column {column!r}", ", ".join(header), file=path, line=start)
    rows: list[_Row] = []
    skipped: Counter[str] = Counter()
    number = start
    while number < len(lines) and lines[number].strip(" ,\t"):
        number += 1
        fields = _fields(lines[number - 1], path, number)
        # name, runs, CPU and three times; a name in C++ may have commas.
        if len(fields) >= 6 and fields[-4] == "CPU":
            skipped[CPU_FUNCTION] += 1
            continue
        if len(fields) != len(header):
            raise InputError(
                f"{len(header)} fields as in the header", str(len(fields)), file=path, line=number
            )
        cells = dict(zip(header, fields, strict=True))
        _check_spread(cells, path, number)
        rows.append(
            _Row(
                core=cells[_CSV_CORE].partition(":")[0].strip(),
                layer=_layer(cells[_CSV_NAME], path, number),
                latency_ms=_number(cells[_CSV_TIME], _CSV_TIME, path, number),
                workload_gop=_workload(cells, (_CSV_WORKLOAD,), path, number),
                repeats=_runs(cells[_CSV_RUNS], path, number),
                line=number,
            )
        )
    if not rows:
        raise InputError("at least one subgraph of a DPU", "none", file=path, line=start)
    return _Table(start, tuple(rows), skipped), number


def _fields(text: str, path: Path, line: int) -> list[str]:
    try:
        fields = next(csv.reader([text], skipinitialspace=True, strict=True))
    except csv.Error as error:
        raise InputError("a record with commas", str(error), file=path, line=line) from None
    if fields and not fields[-1].strip():
        fields.pop()  # every line ends with a comma
    return [field.strip() for field in fields]


def _runs(text: str, path: Path, line: int) -> int:
    if not re.fullmatch(r"[1-9]\d{0,11}", text, re.ASCII):
        raise InputError(f"{_CSV_RUNS}: a whole number, 1 or more", repr(text[:80]), file=path, line=line)
    return int(text)


def _is_text_header(text: str) -> bool:
    if "|" not in text:
        return False
    cells = _cells(text)
    return cells[0] in _TEXT_CORES and any(column in cells for column in _TEXT_NAMES)


def _cells(text: str) -> list[str]:
    return [cell.strip() for cell in text.split("|")]


def _read_text(lines: Sequence[str], start: int, path: Path) -> tuple[_Table, int]:
    """Return the table whose header is line `start`, and the number of its last line."""
    header = _cells(lines[start - 1])
    times = [column for column in _TEXT_TIMES if column in header]
    if not times:
        raise InputError(
            f"a column of times, one of {', '.join(_TEXT_TIMES)}", ", ".join(header), file=path, line=start
        )
    for column in header:
        if column not in _TEXT_COLUMNS:
            raise InputError(
                f"columns among {known(_TEXT_COLUMNS)}", repr(column[:80]), file=path, line=start
            )
        if header.count(column) > 1:
            raise InputError("column names that differ", f"{column!r} twice", file=path, line=start)
    named = next(column for column in _TEXT_NAMES if column in header)
    rows: list[_Row] = []
    number = start
    while True:
        number += 1
        if number > len(lines):
            expected = "a row of the table, or the line '===…' that ends it"
            last = len(lines) - (not lines[-1])  # what follows the last line end is no line
            raise InputError(expected, "the end of the file", file=path, line=last)
        text = lines[number - 1].strip()
        if number == len(lines) and not text:
            continue
        if text and not text.strip("-+"):
            continue
        if len(text) > 1 and not text.strip("="):
            break
        fields = _cells(text)
        if len(fields) != len(header):
            expected = f"{len(header)} cells separated by '|' as in the header"
            raise InputError(expected, str(len(fields)), file=path, line=number)
        cells = dict(zip(header, fields, strict=True))
        _check_rates(cells, times[0], path, number)
        rows.append(
            _Row(
                core=fields[0],
                layer=_layer(cells[named], path, number),
                latency_ms=_number(cells[times[0]], times[0], path, number),
                workload_gop=_workload(cells, _TEXT_WORKLOADS, path, number),
                repeats=1,
                line=number,
            )
        )
    if not rows:
        raise InputError("at least one subgraph of a DPU", "none", file=path, line=start)
    if not times[0].endswith("(ms)"):
        _check_unit(lines, number, times[0], path, start)
    return _Table(start, tuple(rows), {}), number


def _check_unit(lines: Sequence[str], end: int, column: str, path: Path, header: int) -> None:
    """Raise unless the notes below a table say that a column is in milliseconds."""
    for number in range(end + 1, len(lines) + 1):
        text = lines[number - 1].strip()
        if _is_text_header(text):
            break
        if not text.startswith(f"{column}("):
            continue
        stated = _UNIT.search(text)
        # 'RT(ms): Run time', or 'SW_RT(Software Run time): …, unit is ms'.
        unit = text[len(column) + 1 :].partition(")")[0] if stated is None else stated["unit"]
        if unit != "ms":
            raise InputError(f"{column} in ms", repr(unit[:80]), file=path, line=number)
        return
    raise InputError(
        f"the notes below the table, which say that {column} is in ms", "none", file=path, line=header
    )


def _check_spread(cells: Mapping[str, str], path: Path, line: int) -> None:
    """Raise unless minimum, average and maximum are in this order."""
    times = [_number(cells[column], column, path, line) for column in _CSV_SPREAD if column in cells]
    if any(first > second for first, second in pairwise(times)):
        got = ", ".join(cells[column] for column in _CSV_SPREAD if column in cells)
        raise InputError("minimum, average and maximum time in this order", got, file=path, line=line)


def _check_rates(cells: Mapping[str, str], time: str, path: Path, line: int) -> None:
    """Raise unless the bandwidth is the memory traffic by the run time, as the tool prints it.

    That the columns agree is what tells that they are the ones which the header names.
    """
    for rate, amounts in _TEXT_RATES.items():
        if rate not in cells or not all(amount in cells for amount in amounts):
            continue
        ranges = [_range(cells[column], column, path, line) for column in (rate, time, *amounts)]
        (least, most), (shortest, longest), *traffic = ranges
        low = _RATE_FACTORS[0] * sum(each[0] for each in traffic) / longest if longest else np.nan
        high = _RATE_FACTORS[1] * sum(each[1] for each in traffic) / shortest if shortest else np.inf
        if low > most or high < least:
            expected = f"{rate} from {low:.3f} to {high:.3f}, which is {' + '.join(amounts)} by {time}"
            raise InputError(f"{expected} {cells[time]}", cells[rate], file=path, line=line)


def _range(text: str, column: str, path: Path, line: int) -> tuple[float, float]:
    """Return what a printed figure can be, NaN for a missing one."""
    value = _number(text, column, path, line)
    if text == _TINY:
        return 0.0, _TINY_BELOW
    half = 0.5 * 10.0 ** -len(text.partition(".")[2])
    return value - half, value + half


def _layer(text: str, path: Path, line: int) -> str:
    layer = text.removeprefix(_PREFIX).strip()
    if not layer:
        raise InputError("a subgraph: a name", "nothing", file=path, line=line)
    return layer


def _number(text: str, column: str, path: Path, line: int) -> float:
    """Return a figure, 0 for one below the resolution and NaN for a missing one."""
    if text == _TINY:
        return 0.0
    if text.lower() in _MISSING:
        return np.nan
    if _GROUPED.fullmatch(text):
        text = text.replace(",", "")
    if not _PLAIN.fullmatch(text):
        raise InputError(f"{column}: a number", repr(text[:80]), file=path, line=line)
    return float(text)


def _workload(cells: Mapping[str, str], columns: Sequence[str], path: Path, line: int) -> float:
    given = [column for column in columns if column in cells]
    return _number(cells[given[0]], given[0], path, line) if given else np.nan


def _profiles(tables: Sequence[_Table], path: Path) -> list[Profile]:
    profiles = []
    for table in tables:
        skipped = table.skipped
        for core in dict.fromkeys(row.core for row in table.rows):
            rows = [row for row in table.rows if row.core == core]
            profiles.append(_profile(core, rows, table.line, skipped, path))
            skipped = {}  # what is not about a core is counted once
    return profiles


def _profile(core: str, rows: Sequence[_Row], line: int, skipped: Mapping[str, int], path: Path) -> Profile:
    counts = Counter(skipped)
    if len(rows) == 1:
        counts[WHOLE_GRAPH] += 1
        message = f"one row ({rows[0].latency_ms:.6g} ms) for all of a graph; profile with --fine_grained"
        finding = Finding(WHOLE_GRAPH, message, path.as_posix(), rows[0].line, layer=rows[0].layer)
        return Profile("", core, line, timing_table([]), (), (finding,), counts)
    lines: dict[str, list[int]] = {}
    for row in rows:
        lines.setdefault(row.layer, []).append(row.line)
    findings = []
    for layer, where in lines.items():
        if len(where) > 1:
            # Told apart by their workloads in vaitrace: no runs of one layer.
            counts[NAME_TWICE] += len(where)
            message = f"name of {len(where)} subgraphs on {core}, lines {known(where)}: left out"
            findings.append(Finding("layer_not_described", message, path.as_posix(), where[0], layer=layer))
    kept = [
        timing_row(row.layer, row.latency_ms, line=row.line, repeats=row.repeats)
        for row in rows
        if len(lines[row.layer]) == 1
    ]
    return Profile("", core, line, timing_table(kept), (), tuple(findings), counts)


def _without_whole_graphs(log: LogTable, workloads: Mapping[int, float]) -> LogTable:
    """Return the rows whose workload can be that of their layer."""
    if log.table.empty:
        return log
    described = operations(log.table) / OPERATIONS_PER_GOP
    listed = np.array([workloads[line] for line in log.table["source_line"]])
    whole = listed > FUSED_WORKLOAD * described + WORKLOAD_TOLERANCE_GOP
    if not whole.any():
        return log
    findings = list(log.findings)
    for row, listed_gop, described_gop in zip(
        _records(log.table[whole]), listed[whole], described[whole], strict=True
    ):
        message = (
            f"{row['latency_ms']:.6g} ms for {listed_gop:.3f} GOP, where the layer has {described_gop:.3f} "
            "GOP: a graph named after its first layer; profile with --fine_grained"
        )
        findings.append(
            Finding(
                WHOLE_GRAPH,
                message,
                row["source_file"],
                int(row["source_line"]),
                row["accelerator"],
                row["network"],
                row["layer"],
            )
        )
    kept = log.table[~whole].reset_index(drop=True)
    skipped = {**log.report.skipped, WHOLE_GRAPH: log.report.skipped.get(WHOLE_GRAPH, 0) + int(whole.sum())}
    report = replace(log.report, rows_kept=len(kept), skipped=skipped)
    return LogTable(kept, report, tuple(findings), log.totals)


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(key): value for key, value in row.items()} for row in table.to_dict("records")]
