"""Reader of the native CSV: one row a layer, the latency with its unit in the column's name.

Columns, in any order:

``layer``
    Name of the layer.
the geometry columns of the layer table
    Sizes without padding. Dilation and groups may be left out, which means 1. Stride and padding
    may be left out, which means 1 and 0, where output sizes are given, since these tell whether
    that is true; or the output sizes may be left out, where stride and padding are given.
``latency_ms``, ``latency_us``, ``latency_ns``, ``latency_s`` or ``latency_cycles``
    Latency; cycles are those of the platform's logic clock.
``operator``, optional
    ``conv`` if left out. Rows of other operators are counted and skipped.
``network``, optional
    Else that of ``run.yaml``.
``configuration``, optional
    Name under which ``run.yaml`` lists the platform that ran the row.
``repeats`` and ``latency_std_ms`` (or ``_us``, …), optional
    Runs behind the row, and their standard deviation.

A layer may have several rows, one a run. A row without a usable latency (missing, zero, negative,
infinite) and a convolution with a size of 0 are rejected, and the others stay.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from accelperf.errors import InputError
from accelperf.layers import (
    CONVOLUTION,
    GEOMETRY_COLUMNS,
    LAYER_COLUMNS,
    ReadReport,
    empty_layers,
    file_md5,
)
from accelperf.logs.base import (
    Finding,
    LogTable,
    complete_geometry,
    is_convolution,
    rejected_latency,
    skipped_operator,
    zero_size,
)
from accelperf.logs.delimited import Header, Numbers, Records, is_no_figure, read_header, read_records
from accelperf.logs.latency import LATENCY_COLUMNS, UNITS, latency_column, to_ms
from accelperf.logs.run import RunFile
from accelperf.platforms import Platform

name = "native"

_STD_COLUMNS = tuple(f"latency_std_{unit}" for unit in UNITS)

KNOWN_COLUMNS: tuple[str, ...] = (
    "layer",
    "operator",
    "network",
    "configuration",
    *GEOMETRY_COLUMNS,
    *LATENCY_COLUMNS,
    *_STD_COLUMNS,
    "repeats",
)

_OUTPUTS = ("output_height", "output_width")
_STRIDES = ("stride_height", "stride_width")
_PADDINGS = ("pad_top", "pad_bottom", "pad_left", "pad_right")
_DILATIONS = ("dilation_height", "dilation_width")

_DEFAULTS = dict.fromkeys((*_STRIDES, *_DILATIONS, "groups"), 1) | dict.fromkeys(_PADDINGS, 0)


def recognises(path: Path) -> str | None:
    """Return None for a table with a column ``layer`` beside geometry or latency columns."""
    try:
        names = read_header(path).names
    except InputError as error:
        return str(error)
    if "layer" not in names:
        return "no column 'layer'"
    if not any(column in GEOMETRY_COLUMNS or column.startswith("latency") for column in names):
        return "neither geometry nor latency columns"
    return None


def read(files: Sequence[Path], run: RunFile) -> list[LogTable]:
    """Read native CSV files (see the module's description and `accelperf.logs.base.Reader`)."""
    return [_read_file(path, run) for path in files]


def _read_file(path: Path, run: RunFile) -> LogTable:
    header = read_header(path)
    columns = _Columns(header, path)
    if "configuration" not in header.names:
        run.platform("", file=path)  # whether there is one, before a million rows are read
    if run.content.network is None and "network" not in header.names:
        raise InputError(
            f"a column 'network', or the key 'network' in {run.path}", "neither", file=path, line=header.line
        )
    numbers = Numbers(header.separator)
    positions = _Positions()
    shapes: dict[tuple[int, ...], dict[str, int]] = {}
    skipped: Counter[str] = Counter()
    pieces: list[dict[str, Any]] = []
    findings: list[Finding] = []
    rows_read = 0
    for records in read_records(path):
        rows_read += len(records)
        rows = _Rows(records, columns, numbers, path)
        operator = rows.texts("operator") if "operator" in records.columns else [CONVOLUTION] * len(records)
        layer = rows.texts("layer")
        network = (
            rows.texts("network")
            if "network" in records.columns
            else [str(run.content.network)] * len(records)
        )
        platform = _platforms(rows, run)
        accelerator = [each.name for each in platform]
        position = positions.of(zip(accelerator, network, layer, strict=True))
        skipped.update(skipped_operator(each) for each in operator if not is_convolution(each))
        keep = np.flatnonzero([is_convolution(each) for each in operator])
        if not len(keep):
            continue
        rows = rows.take(keep)
        rejected = rows.rejected()
        for index, finding in rejected.items():
            row = keep[index]
            findings.append(
                replace(finding, accelerator=accelerator[row], network=network[row], layer=layer[row])
            )
            skipped[finding.code] += 1
        if rejected:
            good = np.setdiff1d(np.arange(len(keep)), list(rejected))
            rows, keep = rows.take(good), keep[good]
            if not len(keep):
                continue
        clock = np.array([platform[index].logic_clock_mhz for index in keep])
        pieces.append(
            {
                "accelerator": pd.array([accelerator[index] for index in keep], dtype="str"),
                "network": pd.array([network[index] for index in keep], dtype="str"),
                "layer": pd.array([layer[index] for index in keep], dtype="str"),
                "position": np.array([position[index] for index in keep], dtype=np.int64),
                **rows.geometry(shapes),
                "latency_ms": to_ms(rows.latency(), columns.unit, clock),
                "latency_std_ms": to_ms(rows.latency_std(), columns.std_unit, clock),
                "repeats": rows.repeats(),
                "source_line": rows.records.lines,
            }
        )
    if not rows_read:
        raise InputError("at least one layer", "none", file=path)
    table = _table(pieces, path, run)
    return LogTable(
        table,
        ReadReport(path.as_posix(), file_md5(path), name, rows_read, len(table), skipped),
        tuple(findings),
    )


def _table(pieces: list[dict[str, Any]], path: Path, run: RunFile) -> pd.DataFrame:
    """Return the layer table of pieces of columns, which are emptied: a million rows once, not twice."""
    if not pieces:
        return empty_layers()
    columns = {
        name: pd.concat([pd.Series(piece.pop(name)) for piece in pieces], ignore_index=True)
        for name in list(pieces[0])
    }
    table = pd.DataFrame(columns, copy=False)
    table = table.assign(
        operator=CONVOLUTION, origin=run.content.origin, source_file=path.as_posix(), flags=""
    )
    return table[list(LAYER_COLUMNS)]


class _Columns:
    """The columns of one file, checked: which there are, and in what units."""

    def __init__(self, header: Header, path: Path) -> None:
        self.latency, self.unit = latency_column(header.names, file=path, line=header.line)
        for column in header.names:
            if column not in KNOWN_COLUMNS:
                raise InputError(
                    f"columns among {', '.join(KNOWN_COLUMNS)}", repr(column), file=path, line=header.line
                )
        std = [column for column in _STD_COLUMNS if column in header.names]
        if len(std) > 1:
            raise InputError("one column of standard deviations", ", ".join(std), file=path, line=header.line)
        self.std = std[0] if std else None
        self.std_unit = self.std.removeprefix("latency_std_") if self.std else "ms"
        for group in (_OUTPUTS, _STRIDES, _PADDINGS, _DILATIONS):
            missing = [column for column in group if column not in header.names]
            if 0 < len(missing) < len(group):
                raise InputError(
                    f"all or none of the columns {', '.join(group)}",
                    f"no {', '.join(missing)}",
                    file=path,
                    line=header.line,
                )
        required = [column for column in ("layer", *GEOMETRY_COLUMNS) if column not in _DEFAULTS]
        why = ""
        if _OUTPUTS[0] not in header.names:
            # Without an output size nothing would tell that a left-out stride was not 1.
            required = [*(column for column in required if column not in _OUTPUTS), *_STRIDES, *_PADDINGS]
            why = " (where output sizes are left out, stride and padding are needed)"
        missing = [column for column in required if column not in header.names]
        if missing:
            raise InputError(
                f"the columns {', '.join(missing)}{why}", "none of these", file=path, line=header.line
            )


class _Rows:
    """Values of some records of one file, each checked as it is taken."""

    def __init__(self, records: Records, columns: _Columns, numbers: Numbers, path: Path) -> None:
        self.records, self.columns, self.numbers, self.path = records, columns, numbers, path
        self._parsed: dict[str, NDArray[np.float64]] = {}

    def take(self, index: NDArray[np.int64]) -> _Rows:
        """Return the rows of an index."""
        if len(index) == len(self.records):
            return self
        texts = {column: [texts[i] for i in index] for column, texts in self.records.columns.items()}
        taken = _Rows(Records(self.records.lines[index], texts), self.columns, self.numbers, self.path)
        taken._parsed = {column: values[index] for column, values in self._parsed.items()}
        return taken

    def fail(self, wrong: NDArray[np.bool_], expected: str, column: str) -> None:
        """Raise for the first row that is wrong, if any."""
        if wrong.any():
            index = int(np.argmax(wrong))
            text = self.records.columns[column][index].strip()
            raise InputError(
                f"{column}: {expected}",
                repr(text) if text else "nothing",
                file=self.path,
                line=int(self.records.lines[index]),
            )

    def texts(self, column: str) -> list[str]:
        """Return a text column, none of it empty."""
        texts = [text.strip() for text in self.records.columns[column]]
        if not all(texts):
            self.fail(np.array([not text for text in texts]), "a name", column)
        return texts

    def whole(self, column: str) -> NDArray[np.int64]:
        """Return a column of whole numbers."""
        if column not in self._parsed:
            values = self.numbers.whole(self.records.columns[column])
            self.fail(np.isnan(values), "a whole number", column)
            self._parsed[column] = values
        return self._parsed[column].astype(np.int64)

    def latency(self) -> NDArray[np.float64]:
        """Return the latencies, in the unit of the file, NaN where there is none."""
        if self.columns.latency in self._parsed:
            return self._parsed[self.columns.latency]
        texts = self.records.columns[self.columns.latency]
        values = self.numbers.real(texts)
        self._parsed[self.columns.latency] = values
        wrong = np.isnan(values)
        if wrong.any():
            wrong[wrong] = [not is_no_figure(texts[index]) for index in np.flatnonzero(wrong)]
            self.fail(wrong, f"{self.numbers.meaning} above 0", self.columns.latency)
        return values

    def rejected(self) -> dict[int, Finding]:
        """Return why some rows are no measurements of a convolution, by index."""
        found = {}
        latency = self.latency()
        for index in np.flatnonzero(~(latency > 0)).tolist():
            finding = rejected_latency(
                latency[index],
                self.records.columns[self.columns.latency][index],
                unit=self.columns.unit,
                file=self.path,
                line=int(self.records.lines[index]),
            )
            if finding is not None:
                found[index] = finding
        sizes = {name: self.whole(name) for name in GEOMETRY_COLUMNS if name in self.records.columns}
        zero = np.zeros(len(self.records), dtype=bool)
        for name, values in sizes.items():
            zero |= (values == 0) & (not name.startswith("pad_"))
        for index in np.flatnonzero(zero).tolist():
            which = zero_size({name: int(values[index]) for name, values in sizes.items()})
            line = int(self.records.lines[index])
            message = f"{which} 0, expected 1 or more on a convolution"
            found.setdefault(index, Finding("zero_geometry", message, self.path.as_posix(), line))
        return found

    def latency_std(self) -> NDArray[np.float64]:
        """Return the standard deviations, in the unit of their column, NaN where unknown."""
        if self.columns.std is None:
            return np.full(len(self.records), np.nan)
        texts = self.records.columns[self.columns.std]
        values = self.numbers.real(texts)
        given = np.array([bool(text.strip()) for text in texts])
        self.fail(np.isnan(values) & given, f"{self.numbers.meaning}, 0 or more", self.columns.std)
        self.fail(values < 0, "a number, 0 or more", self.columns.std)
        return values

    def repeats(self) -> NDArray[np.int64]:
        """Return the numbers of runs."""
        if "repeats" not in self.records.columns:
            return np.ones(len(self.records), dtype=np.int64)
        values = self.whole("repeats")
        self.fail(values < 1, "1 or more", "repeats")
        return values

    def geometry(self, shapes: dict[tuple[int, ...], dict[str, int]]) -> dict[str, NDArray[np.int64]]:
        """Return the geometry columns of convolutions, checked and complete.

        Parameters
        ----------
        shapes : dict
            Complete geometry by the values given, of those met before in this file; grows. Real
            logs repeat their shapes, so few need checking.
        """
        given = [column for column in GEOMETRY_COLUMNS if column in self.records.columns]
        rows = list(zip(*(self.whole(column).tolist() for column in given), strict=True))
        places: dict[tuple[int, ...], int] = {}
        index = np.array([places.setdefault(row, len(places)) for row in rows])
        firsts = np.unique(index, return_index=True)[1]
        for row, line in zip(places, self.records.lines[firsts].tolist(), strict=True):
            if row not in shapes:
                geometry = _DEFAULTS | dict(zip(given, row, strict=True))
                shapes[row] = complete_geometry(geometry, file=self.path, line=line)
        return {
            column: np.array([shapes[row][column] for row in places], dtype=np.int64)[index]
            for column in GEOMETRY_COLUMNS
        }


class _Positions:
    """Numbers the layers of each network on each accelerator as they first appear."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str], dict[str, int]] = {}

    def of(self, keys: object) -> list[int]:
        """Return the position of each (accelerator, network, layer)."""
        positions = []
        for accelerator, network, layer in keys:  # type: ignore[attr-defined]
            layers = self._seen.setdefault((accelerator, network), {})
            positions.append(layers.setdefault(layer, len(layers)))
        return positions


def _platforms(rows: _Rows, run: RunFile) -> list[Platform]:
    """Return the platform of each row."""
    lines = rows.records.lines
    if "configuration" not in rows.records.columns:
        return [run.platform("", file=rows.path)] * len(lines)
    known: dict[str, Platform] = {}
    for index, configuration in enumerate(rows.texts("configuration")):
        if configuration not in known:
            known[configuration] = run.platform(configuration, file=rows.path, line=int(lines[index]))
    return [known[configuration] for configuration in rows.texts("configuration")]
