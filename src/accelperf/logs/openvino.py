"""Reader of OpenVINO performance counters: the CSV reports of ``benchmark_app``.

==============================  ======================================================================
``-report_type``                what the file holds
==============================  ======================================================================
``average_counters``            one block, averaged over the requests
``detailed_counters``           a block a request: the runs of each layer
``sort_detailed_counters``      the same, executed layers only, slowest first, with a column `` %``
==============================  ======================================================================

A block is a header, a row a layer and a row ``Total``, which becomes a stated total::

    layerName;execStatus;layerType;execType;realTime (ms);cpuTime (ms);
    conv1;EXECUTED;Convolution;jit_avx2_FP32;0.250000;0.250000;
    Total;;;;0.25;0.25;

The C++ program ends its lines with ``;``, the Python one does not and writes ``Status.EXECUTED``. The
dumps of the plug-ins (``OV_CPU_AVERAGE_COUNTERS``) look the same; one variant has a column ``numaId``.

* Only layers with the status ``EXECUTED`` have a time: others were fused into them or left out.
* ``realTime`` is read. Where it is 0 throughout, counting was off (``-pc``), and the file is refused.
* ``average_counters`` adds up what has the same name before it divides by the number of requests, so
  that two layers of one name have the sum of both; the file does not show it. Where a name does occur
  twice in a block, in a detailed report, its convolutions are refused.
* A median over the requests, which the oldest reports hold, is taken like a mean.
* All blocks must list the same layers: two networks glued together are no runs of one.

Releases of 2018 and 2019 had another layout: sections, of which ``Performance counters`` has a header
of words (``layer name;exec status;…``) and, if detailed, two columns a request (or both times of a
request in one cell, ``630,3``). It names no unit: whole numbers are microseconds, as the profile
information counts them, and numbers with six decimals those divided by 1000. Anything else, and any
other header without a unit, is refused.

The log has no sizes; ``geometry`` of ``run.yaml`` describes the network.

Sources: ``samples/cpp/benchmark_app/statistics_report.cpp``, ``tools/benchmark_tool/…/statistics_report.py``
and ``plugins/intel_cpu/src/utils/…`` (``average_counters``) of openvinotoolkit/openvino, 2021 to 2025; for
the old layout ``inference-engine/samples/benchmark_app/statistics_report.cpp`` of 2019 and the examples in
its comments.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from accelperf.errors import InputError, known
from accelperf.logs.base import Finding, LogTable, StatedTotal, is_convolution, rejected_latency
from accelperf.logs.profile import Profile, find_line, join_profiles, timing_row, timing_table
from accelperf.logs.run import RunFile
from accelperf.logs.text import opened
from accelperf.units import MS_PER_US

name = "openvino"

FURTHER_RUNS = "further runs of a layer"
"""Reason under which the rows are counted that went into the mean of a layer beside its first."""

_CURRENT = ("layerName", "execStatus", "layerType", "execType")
_OLD = ("layer name", "exec status", "layer type", "exec type")
_NUMA, _SHARE = "numaId", "%"
_REAL_MS, _CPU_MS = "realTime (ms)", "cpuTime (ms)"
_OLD_REAL = re.compile(r"(?:(?:median |average )?real time|realTime_(?:iter|req)\d+)", re.ASCII)
_OLD_CPU = re.compile(r"(?:(?:median |average )?cpu time|cpuTime_(?:iter|req)\d+)", re.ASCII)
_TOTAL = "Total"

_STATUSES = {
    spelling: status
    for status in ("EXECUTED", "NOT_RUN", "OPTIMIZED_OUT")
    for spelling in (status, f"Status.{status}", f"ProfilingInfo.Status.{status}")
}
_EXECUTED = "EXECUTED"
_CONVOLUTIONS = frozenset({"groupconvolution", "fusedconvolution"})

_NUMBER = re.compile(r"[+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?", re.ASCII)
_NO_NUMBER = frozenset({"", "nan", "-nan", "inf", "-inf"})
_PAIR = re.compile(r"(?P<real>\d+),\d+", re.ASCII)
_WHOLE = re.compile(r"-?\d+", re.ASCII)
_SIX_DECIMALS = re.compile(r"-?\d+\.\d{6}", re.ASCII)

_SIGNIFICANT_DIGITS = 6
"""Digits to which C++ streams print the total."""
_RESOLUTION_MS = 1e-3
"""The counters count microseconds."""
_REMEMBERED = 100_000
"""Distinct times kept as parsed; counters repeat their few microseconds over and over."""


def recognises(path: Path) -> str | None:
    """Return None for a text with the header of a block of counters, wherever it stands."""
    try:
        line = find_line(path, [b";execStatus;", b";exec status;", b",execStatus,"])
    except InputError as error:
        return str(error)
    if line is None:
        return "no header layerName;execStatus;layerType;execType;…"
    if line.startswith(";".join(_CURRENT)) or line.startswith(";".join(_OLD)):
        return None
    if line.startswith(",".join(_CURRENT)):
        return "counters separated by commas (a sorted report in Python); use -report_type detailed_counters"
    return "another header than layerName;execStatus;layerType;execType;…"


def read(files: Sequence[Path], run: RunFile) -> list[LogTable]:
    """Read counters (see the module's description and `accelperf.logs.base.Reader`)."""
    logs = []
    for path in files:
        counters = _read_counters(path)
        log = join_profiles(path, name, [counters.profile()], run)
        if counters.is_sorted:
            # Slowest first is no order in which anything ran.
            findings = tuple(finding for finding in log.findings if finding.code != "layer_order")
            log = replace(log, findings=findings)
        logs.append(log)
    return logs


def read_timings(path: Path) -> list[Profile]:
    """Read the counters of a file, which needs no description of the network.

    Parameters
    ----------
    path : Path
        The report.

    Returns
    -------
    list of Profile
        One profile with one row a layer: mean, sample standard deviation and number of its runs.

    Raises
    ------
    InputError
        If there are no counters or none that counted, the unit of the times is unknown, a row cannot
        be read, a block has no end, blocks list different layers, or a convolution stands twice in
        one.
    """
    return [_read_counters(path).profile()]


@dataclass(slots=True)
class _Layer:
    """Runs of one layer, merged as they are read (Welford's algorithm)."""

    operator: str
    is_convolution: bool
    line: int
    block: int
    rows: int = 0
    runs: int = 0
    mean: float = 0.0
    squares: float = 0.0
    rejected: Counter[str] = field(default_factory=Counter)
    bad_runs: int = 0
    first: Finding | None = None

    def add(self, value: float, count: int) -> None:
        self.runs += count
        deviation = value - self.mean
        self.mean += deviation * count / self.runs
        self.squares += deviation * (value - self.mean) * count


@dataclass
class _Counters:
    """What one file holds, as it is read.

    Attributes
    ----------
    to_ms : float
        Factor from the unit of the rows to milliseconds.
    """

    path: Path
    line: int = 0
    to_ms: float = 1.0
    is_sorted: bool = False
    blocks: int = 0
    executed: int = 0
    counted: bool = False
    layers: dict[str, _Layer] = field(default_factory=dict)
    totals: list[StatedTotal] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)

    def add(self, layer: str, operator: str, values: Iterable[tuple[float, str, int]], line: int) -> None:
        """Add a row: the times of a layer that was executed, each with its text and number of runs."""
        self.executed += 1
        entry = self.layers.get(layer)
        if entry is None:
            convolution = is_convolution(operator) or operator.lower() in _CONVOLUTIONS
            entry = self.layers[layer] = _Layer(operator, convolution, line, self.blocks)
        elif entry.operator != operator:
            expected = f"layer type {entry.operator} of {layer!r}, as in line {entry.line}"
            raise InputError(expected, repr(operator), file=self.path, line=line)
        elif entry.block == self.blocks and entry.is_convolution:
            raise InputError(
                f"one row for convolution {layer!r} in a block, whose row is line {entry.line}",
                "it again",
                file=self.path,
                line=line,
            )
        entry.block = self.blocks
        good = entry.runs
        rejected = None
        for value, text, count in values:
            if 0 < value < math.inf:
                self.counted = True
                entry.add(value, count)
            elif not entry.is_convolution:
                # Of what is no convolution, only how many rows there were is of interest.
                entry.add(value if math.isfinite(value) else 0.0, count)
            else:
                rejected = self._rejected(value, text, layer, line)
                entry.bad_runs += count
                entry.first = entry.first or rejected
        if rejected is not None and entry.runs == good:
            entry.rejected[rejected.code] += 1
            return
        if not entry.rows:
            entry.line = line
        entry.rows += 1

    def _rejected(self, value: float, text: str, layer: str, line: int) -> Finding | None:
        if value == 0:
            # Whatever decimals it is printed with, the counter counts microseconds.
            message = f"realTime {text.strip()}, below the resolution of 1 microsecond"
            return Finding("below_resolution", message, self.path.as_posix(), line, layer=layer)
        return rejected_latency(value, text, unit="", file=self.path, line=line, layer=layer)

    def profile(self) -> Profile:
        """Return the layers that were executed, in the order of the log."""
        if not self.executed:
            raise InputError(
                "at least one layer with the status EXECUTED",
                f"none among {sum(self.skipped.values())} rows",
                file=self.path,
                line=self.line,
            )
        if not self.counted:
            raise InputError(
                "times above 0",
                f"0 in all {self.executed} rows EXECUTED: counting was off (option -pc of benchmark_app)",
                file=self.path,
                line=self.line,
            )
        skipped = Counter(self.skipped)
        findings: list[Finding] = []
        rows: list[dict[str, Any]] = []
        for layer, entry in self.layers.items():
            rejected = Counter(entry.rejected)
            latency, std = entry.mean * self.to_ms, math.nan
            if entry.rows:
                if entry.rows > 1:
                    skipped[FURTHER_RUNS] += entry.rows - 1
                if entry.runs > 1:
                    std = math.sqrt(entry.squares / (entry.runs - 1)) * self.to_ms
                if entry.first is not None:
                    message = f"{entry.first.message}; {entry.bad_runs} of {entry.bad_runs + entry.runs} runs"
                    findings.append(replace(entry.first, message=message))
            elif entry.first is not None:
                # One of the rejected rows goes on, and is counted and reported where sizes are joined.
                rejected[entry.first.code] -= 1
                latency = 0.0 if entry.first.code == "below_resolution" else math.nan
            skipped.update(+rejected)
            operator = "Convolution" if entry.is_convolution else entry.operator
            rows.append(
                timing_row(
                    layer,
                    latency,
                    line=entry.line,
                    operator=operator,
                    latency_std_ms=std,
                    repeats=max(entry.runs, 1),
                )
            )
        return Profile("", "", self.line, timing_table(rows), tuple(self.totals), tuple(findings), skipped)


def _read_counters(path: Path) -> _Counters:
    counters = _Counters(path)
    with opened(path) as stream:
        lines = enumerate(stream, start=1)
        for number, text in lines:
            if text.startswith(";".join(_CURRENT)):
                counters.line = counters.line or number
                _read_current(lines, text, number, counters)
                break
            if text.startswith(";".join(_OLD)):
                counters.line = number
                _read_old(lines, text, number, counters)
                break
            _check_outside(text, path, number)
    if not counters.line:
        expected = "a block of counters (layerName;execStatus;layerType;execType;realTime (ms);…)"
        raise InputError(expected, "none", file=path)
    return counters


def _check_outside(text: str, path: Path, line: int) -> None:
    if any(f";{spelling};" in text for spelling in _STATUSES):
        raise InputError(
            "the header of a block above its rows", repr(text.strip()[:80]), file=path, line=line
        )


def _cells(text: str) -> list[str]:
    """Return the cells of a line up to the last one that is not empty."""
    text = text.rstrip("; \t\r\n")
    return text.split(";") if text else []


def _status(text: str, path: Path, line: int) -> str:
    status = _STATUSES.get(text.strip())
    if status is None:
        known_ones = known(set(_STATUSES.values()))
        raise InputError(f"execStatus: one of {known_ones}", repr(text[:80]), file=path, line=line)
    return status


def _value(text: str, path: Path, line: int) -> float:
    """Return a time, NaN or infinite where the log says so."""
    text = text.strip()
    if _NUMBER.fullmatch(text):
        return float(text)
    if text.lower() in _NO_NUMBER:
        return float(text or "nan")
    raise InputError("realTime: a number with a decimal point", repr(text[:80]), file=path, line=line)


def _check_current_header(cells: Sequence[str], path: Path, line: int) -> None:
    for column in cells[len(_CURRENT) :]:
        if column in (_REAL_MS, _CPU_MS, _NUMA, _SHARE):
            continue
        if column.startswith(("realTime", "cpuTime")):
            raise InputError(f"times in ms ({_REAL_MS!r})", repr(column), file=path, line=line)
        expected = f"columns among {', '.join((*_CURRENT, _NUMA, _REAL_MS, _CPU_MS, _SHARE))}"
        raise InputError(expected, repr(column), file=path, line=line)
    for column in cells:
        if cells.count(column) > 1:
            raise InputError("column names that differ", f"{column!r} twice", file=path, line=line)
    if _REAL_MS not in cells:
        raise InputError(f"a column {_REAL_MS!r}", ", ".join(cells), file=path, line=line)


def _read_current(lines: Iterator[tuple[int, str]], header: str, start: int, counters: _Counters) -> None:
    """Read blocks from the first header on, to the end of the file."""
    path = counters.path
    cells = [cell.strip() for cell in _cells(header)]
    _check_current_header(cells, path, start)
    header = header.strip()
    width, place = len(cells), cells.index(_REAL_MS)
    fields = width + header.endswith(";")  # a last, empty one
    counters.is_sorted = _SHARE in cells
    block: _Block | None = _Block(start)
    first: set[str] = set()
    values: dict[str, float] = {}
    add, skipped = counters.add, counters.skipped
    number = start
    for number, line in lines:
        parts = line.rstrip("\r\n").split(";")
        if block is None:
            block = _next_block(line, header, number, counters)
            continue
        status = _STATUSES.get(parts[1]) if len(parts) == fields else None
        if status is None or (fields > width and parts[width].strip()):
            if line.strip():
                _end_block(block, _total(parts, width, block, path, number), counters, number)
                block = None
            continue
        layer, text = parts[0], parts[place]
        value = values.get(text)
        if value is None:
            if len(values) >= _REMEMBERED:
                values.clear()
            value = values[text] = _value(text, path, number)
        block.rows += 1
        block.sum_ms += value if math.isfinite(value) else 0.0
        if not counters.blocks:
            if not layer.strip():
                raise InputError("layerName: a name", "nothing", file=path, line=number)
            first.add(layer)
        elif layer not in first and not counters.is_sorted:
            expected = f"a layer of the first block (line {counters.line})"
            raise InputError(expected, repr(layer[:80]), file=path, line=number)
        if status == _EXECUTED:
            add(layer, parts[2], ((value, text, 1),), number)
        else:
            skipped[f"status {status}"] += 1
    if block is not None:
        raise _no_total(block, "the end of the file", path, number)


def _next_block(line: str, header: str, number: int, counters: _Counters) -> _Block | None:
    """Return the block that a line between blocks begins, None if it is empty."""
    if line.strip() == header:
        counters.blocks += 1
        return _Block(number)
    if line.strip():
        expected = f"the header of the next block, as in line {counters.line}"
        raise InputError(expected, repr(line.strip()[:80]), file=counters.path, line=number)
    return None


def _total(parts: Sequence[str], width: int, block: _Block, path: Path, line: int) -> float:
    """Return the total that a line states which is no row of a layer."""
    if parts[0] == _CURRENT[0]:
        raise _no_total(block, repr(";".join(parts)[:80]), path, line)
    cells = _cells(";".join(parts))
    if parts[0].strip() == _TOTAL and len(parts) > 1 and not parts[1].strip():
        # The variant with numaId has no cell for it here.
        times = [cell for cell in cells[1:] if cell.strip()]
        value = _value(times[0], path, line) if times else math.nan
        if not (math.isfinite(value) and value >= 0):
            got = repr(times[0][:80]) if times else "nothing"
            raise InputError(f"{_TOTAL}: a time, 0 or more", got, file=path, line=line)
        return value
    if len(cells) != width:
        expected = f"{width} fields separated by ';' as in the header"
        raise InputError(expected, str(len(cells)), file=path, line=line)
    _status(parts[1], path, line)
    raise InputError(
        f"a row like the header, or {_TOTAL!r}", repr(";".join(parts)[:80]), file=path, line=line
    )


@dataclass(slots=True)
class _Block:
    """A block as it is read."""

    line: int
    rows: int = 0
    sum_ms: float = 0.0


def _no_total(block: _Block, got: str, path: Path, line: int) -> InputError:
    expected = f"the row {_TOTAL!r} that ends the block of line {block.line}"
    return InputError(expected, got, file=path, line=line)


def _end_block(block: _Block, stated: float, counters: _Counters, line: int) -> None:
    # Non-convolutions may share a name, so it is rows that must agree, and their names (above).
    expected_rows = counters.totals[0].rows if counters.totals else block.rows
    if block.rows != expected_rows and not counters.is_sorted:
        raise InputError(
            f"{expected_rows} rows in the block of line {block.line}, as in the first one",
            str(block.rows),
            file=counters.path,
            line=line,
        )
    step = 10.0 ** (math.floor(math.log10(stated)) + 1 - _SIGNIFICANT_DIGITS) if stated > 0 else 0.0
    counters.totals.append(
        StatedTotal(
            stated_ms=stated,
            listed_ms=block.sum_ms,
            what=_TOTAL,
            resolution_ms=max(_RESOLUTION_MS, step),
            rows=block.rows,
            file=counters.path.as_posix(),
            line=line,
        )
    )


def _read_old(lines: Iterator[tuple[int, str]], header: str, start: int, counters: _Counters) -> None:
    """Read the section of counters of the old layout, and pass over what follows."""
    path = counters.path
    cells = [cell.strip() for cell in _cells(header)]
    columns = cells[len(_OLD) :]
    places = [place for place, column in enumerate(columns) if _OLD_REAL.fullmatch(column)]
    for column in columns:
        if not (_OLD_REAL.fullmatch(column) or _OLD_CPU.fullmatch(column)):
            expected = "columns of real and cpu times (median real time, realTime_iter0, …)"
            raise InputError(expected, repr(column[:80]), file=path, line=start)
    if not places:
        raise InputError("a column of real times", ", ".join(cells), file=path, line=start)
    unit = _OldUnit(path)
    pairs: int | None = None  # cells of a row that hold both times of a request
    for number, line in lines:
        row = _cells(line)
        if not row:
            break
        if len(row) < len(_OLD) + 1:
            raise InputError(
                f"{len(cells)} fields separated by ';' as in the header",
                str(len(row)),
                file=path,
                line=number,
            )
        layer, status, operator = row[0].strip(), _status(row[1], path, number), row[2].strip()
        times = row[len(_OLD) :]
        in_pairs = "," in times[0] and all(_PAIR.fullmatch(each) for each in set(times))
        pairs = (len(times) if in_pairs else 0) if pairs is None else pairs
        if len(times) != (pairs or len(columns)) or in_pairs != bool(pairs):
            expected = (
                f"{pairs} pairs of times, as above" if pairs else f"{len(columns)} times as in the header"
            )
            got = f"{len(times)} cells ({times[0][:40]!r}, …)"
            raise InputError(expected, got, file=path, line=number)
        if not layer:
            raise InputError("layer name: a name", "nothing", file=path, line=number)
        if status != _EXECUTED:
            counters.skipped[f"status {status}"] += 1
            continue
        # Requests by the thousand share a few times: equal ones are counted, not added one by one.
        texts = [each.partition(",")[0] for each in times] if pairs else [times[place] for place in places]
        values = [(unit.value(text, number), text, count) for text, count in Counter(texts).items()]
        counters.add(layer, operator, values, number)
    counters.to_ms = unit.to_ms()
    for number, line in lines:
        if line.startswith(";".join(_OLD)):
            raise InputError(
                f"one section of counters, that of line {start}", "another", file=path, line=number
            )
        _check_outside(line, path, number)


class _OldUnit:
    """The unit of the old layout, which only the form of its numbers tells."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._to_ms: float | None = None
        self._line = 0
        self._values: dict[str, float] = {}

    def value(self, text: str, line: int) -> float:
        """Return a time; raise if it tells no unit, or another one than those before."""
        value = self._values.get(text)
        if value is None:
            if len(self._values) >= _REMEMBERED:
                self._values.clear()
            self._see(text, line)
            value = self._values[text] = _value(text, self._path, line)
        return value

    def _see(self, text: str, line: int) -> None:
        if text.lower() in _NO_NUMBER:
            return
        if _WHOLE.fullmatch(text):
            to_ms = MS_PER_US
        elif _SIX_DECIMALS.fullmatch(text):
            to_ms = 1.0
        else:
            expected = "a time that tells its unit: whole (microseconds) or with six decimals (ms)"
            raise InputError(expected, repr(text[:80]), file=self._path, line=line)
        if self._to_ms is None:
            self._to_ms, self._line = to_ms, line
        elif self._to_ms != to_ms:
            form = "whole" if self._to_ms == MS_PER_US else "with six decimals"
            expected = f"a time {form}, as in line {self._line}"
            raise InputError(expected, repr(text[:80]), file=self._path, line=line)

    def to_ms(self) -> float:
        """Return the factor to milliseconds."""
        return math.nan if self._to_ms is None else self._to_ms
