"""The tidy layer table: one row a measured convolution, whatever log it came from.

Everything to the left of it (readers, the simulator) makes it; everything to the right (features,
estimators) reads it. Sizes are unpadded; padding has its own columns; latencies are milliseconds.
"""

from __future__ import annotations

import hashlib
import warnings
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pandera.pandas as pa

from accelperf.errors import InputError

GEOMETRY_COLUMNS: tuple[str, ...] = (
    "input_height",
    "input_width",
    "input_channels",
    "output_height",
    "output_width",
    "output_channels",
    "kernel_height",
    "kernel_width",
    "stride_height",
    "stride_width",
    "pad_top",
    "pad_bottom",
    "pad_left",
    "pad_right",
    "dilation_height",
    "dilation_width",
    "groups",
)
"""Whole numbers that describe a convolution; a *shape* is all of them together."""

ORIGINS: tuple[str, ...] = ("measured", "simulated", "estimated")

CONVOLUTION = "conv"
"""The operator name of the rows that the estimators learn from."""

LAYER_COLUMNS: tuple[str, ...] = (
    "accelerator",
    "network",
    "layer",
    "position",
    "operator",
    *GEOMETRY_COLUMNS,
    "latency_ms",
    "latency_std_ms",
    "repeats",
    "origin",
    "source_file",
    "source_line",
    "flags",
)

_LARGEST_INT64 = 2**63 - 1

_text = pa.Column(str, nullable=False)
_positive = pa.Column(int, pa.Check.ge(1))
_padding = pa.Column(int, pa.Check.ge(0))

GEOMETRY_SCHEMA: dict[str, pa.Column] = {
    name: _padding if name.startswith("pad_") else _positive for name in GEOMETRY_COLUMNS
}

LAYER_SCHEMA = pa.DataFrameSchema(
    {
        "accelerator": _text,
        "network": _text,
        "layer": _text,
        "position": pa.Column(int, pa.Check.ge(0)),
        "operator": _text,
        **GEOMETRY_SCHEMA,
        "latency_ms": pa.Column(float, [pa.Check.gt(0), pa.Check(np.isfinite, name="finite")]),
        "latency_std_ms": pa.Column(float, pa.Check.ge(0), nullable=True),
        "repeats": _positive,
        "origin": pa.Column(str, pa.Check.isin(ORIGINS)),
        "source_file": _text,
        "source_line": _positive,
        "flags": pa.Column(str),
    },
    strict=True,
    ordered=True,
    unique=["accelerator", "network", "layer"],
)
"""Schema of ``data/interim/layers.csv``."""


@dataclass(frozen=True)
class ReadReport:
    """What one file gave: rows read, kept and skipped by reason.

    Attributes
    ----------
    file, md5, format : str
        The file, its MD5 and the format that it was read as.
    rows_read, rows_kept : int
        Data rows in the file and rows that went on.
    skipped : Mapping of str to int
        Rows that did not, by reason. ``rows_read = rows_kept + sum(skipped.values())``.
    """

    file: str
    md5: str
    format: str
    rows_read: int
    rows_kept: int
    skipped: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.rows_read != self.rows_kept + sum(self.skipped.values()):
            raise ValueError(f"{self.file}: every row read must be kept or skipped for a reason")

    def as_json(self) -> dict[str, Any]:
        """Return the report as plain values for JSON."""
        return {
            "file": self.file,
            "md5": self.md5,
            "format": self.format,
            "rows_read": self.rows_read,
            "rows_kept": self.rows_kept,
            "skipped": dict(sorted(self.skipped.items())),
        }


def total_report(reports: list[ReadReport]) -> dict[str, Any]:
    """Return the sum of several reports, and the reports, as plain values for JSON."""
    skipped: Counter[str] = Counter()
    for report in reports:
        skipped.update(report.skipped)
    return {
        "rows_read": sum(report.rows_read for report in reports),
        "rows_kept": sum(report.rows_kept for report in reports),
        "skipped": dict(sorted(skipped.items())),
        "files": [report.as_json() for report in reports],
    }


def file_md5(path: Path) -> str:
    """Return the MD5 of a file as hexadecimal digits (the checksum that DVC uses)."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def output_size(
    size: int, kernel: int, stride: int, pad_before: int, pad_after: int, dilation: int = 1
) -> int:
    """Return the output size of a convolution along one axis.

    Parameters
    ----------
    size, kernel, stride, pad_before, pad_after, dilation : int
        Input size without padding, kernel size, stride, padding on either side and dilation, all
        in pixels.

    Returns
    -------
    int
        ``floor((size + pads - dilation (kernel - 1) - 1) / stride) + 1``; not above zero where the
        kernel does not fit.

    References
    ----------
    ONNX operator specification, *Conv*, floor rounding.

    Examples
    --------
    The first convolution of ResNet-50:

    >>> output_size(224, kernel=7, stride=2, pad_before=3, pad_after=3)
    112
    """
    return (size + pad_before + pad_after - dilation * (kernel - 1) - 1) // stride + 1


def check_geometry(
    geometry: Mapping[str, int], *, file: str | Path | None = None, line: int | None = None
) -> None:
    """Check that a convolution is possible and that its sizes follow from each other.

    Parameters
    ----------
    geometry : Mapping
        A value for each of `GEOMETRY_COLUMNS`.
    file, line : optional
        Where the layer came from, for the error.

    Raises
    ------
    InputError
        If a size is not positive, the groups do not divide the channels, or the output size does
        not follow from input, kernel, stride, padding and dilation.
    """
    for name in GEOMETRY_COLUMNS:
        least = 0 if name.startswith("pad_") else 1
        if geometry[name] < least:
            raise InputError(
                f"{name} of {least} or more on a convolution", str(geometry[name]), file=file, line=line
            )
    groups = geometry["groups"]
    for name in ("input_channels", "output_channels"):
        if geometry[name] % groups:
            raise InputError(
                f"{name} divisible by groups = {groups}", str(geometry[name]), file=file, line=line
            )
    for axis, before, after in (("height", "pad_top", "pad_bottom"), ("width", "pad_left", "pad_right")):
        size, kernel = geometry[f"input_{axis}"], geometry[f"kernel_{axis}"]
        stride, dilation = geometry[f"stride_{axis}"], geometry[f"dilation_{axis}"]
        pads = geometry[before], geometry[after]
        expected = output_size(size, kernel, stride, *pads, dilation)
        if geometry[f"output_{axis}"] != expected:
            raise InputError(
                f"output_{axis} = {expected} (from input {size}, kernel {kernel}, stride {stride}, "
                f"padding {pads[0]} + {pads[1]}, dilation {dilation})",
                str(geometry[f"output_{axis}"]),
                file=file,
                line=line,
            )


def shape_key(table: pd.DataFrame) -> pd.Series:
    """Return a name for the shape of each row: equal for layers of equal geometry.

    The accelerator has no part in it, and dilation only where the table has it.

    Parameters
    ----------
    table : DataFrame
        A table with geometry columns, such as the layer table or the features.

    Returns
    -------
    Series of str
        The shapes, with the table's index.
    """
    columns = [name for name in GEOMETRY_COLUMNS if name in table.columns]
    sizes = [map(str, table[name].astype(int).tolist()) for name in columns]
    # A row-wise aggregation is a hundred times slower.
    return pd.Series(["x".join(row) for row in zip(*sizes, strict=True)], index=table.index, dtype="str")


def validate_layers(table: pd.DataFrame, *, source: str | Path) -> pd.DataFrame:
    """Return the table checked against `LAYER_SCHEMA`.

    Raises
    ------
    InputError
        Names the first column and row that do not fit.
    """
    return validate_table(LAYER_SCHEMA, table, source=source)


def validate_table(schema: pa.DataFrameSchema, table: pd.DataFrame, *, source: str | Path) -> pd.DataFrame:
    """Return a table checked against a schema; the first failure becomes an `InputError`.

    The line is that of a CSV file with one header line.
    """
    try:
        return schema.validate(table, inplace=True)
    except pa.errors.SchemaError as error:
        cases = error.failure_cases
        line = None
        got = "something else"
        if isinstance(cases, pd.DataFrame) and len(cases):
            case = cases.iloc[0]
            got = repr(case["failure_case"])
            if pd.notna(case.get("index")):
                line = int(case["index"]) + 2
        if error.check == "multiple_fields_uniqueness":
            last = int(cases["index"].max()) + 2
            columns = ", ".join(schema.unique or ())
            raise InputError(f"rows that differ in {columns}", "one twice", file=source, line=last) from None
        name = getattr(error.schema, "name", None)
        check = error.check if isinstance(error.check, str) else getattr(error.check, "error", None)
        what = f"column {name!r} to satisfy {check or error.check}" if name else str(check or error.check)
        raise InputError(what, got, file=source, line=line) from None


def empty_layers() -> pd.DataFrame:
    """Return a layer table without rows."""
    return pd.DataFrame(columns=list(LAYER_COLUMNS))


def read_layers(path: Path) -> pd.DataFrame:
    """Read and check ``layers.csv``.

    Parameters
    ----------
    path : Path
        A file written by `write_layers`.

    Returns
    -------
    DataFrame
        The tidy layer table, `LAYER_COLUMNS`.

    Raises
    ------
    InputError
        If the file is missing or does not fit the schema.
    """
    table = read_table(path, LAYER_SCHEMA)
    return validate_layers(table, source=path)


def read_table(path: Path, schema: pa.DataFrameSchema) -> pd.DataFrame:
    """Read a CSV file with the column types of a schema, keeping text such as ``NA`` as text.

    Floating-point numbers come back exactly as they were written.

    Raises
    ------
    InputError
        If the file is missing or no CSV table, a column of the schema is missing, or a cell of a
        number column is no number (or empty, unless the schema allows that).
    """
    kinds = {name: str(column.dtype) for name, column in schema.columns.items()}
    texts = {name for name, kind in kinds.items() if kind.startswith("str")}
    numbers = [name for name in kinds if name not in texts]
    table = _read_csv(
        path,
        dtype=dict.fromkeys(texts, "str"),
        na_values={name: [""] for name in numbers},
        float_precision="round_trip",
    )
    for name in kinds:
        if name not in table.columns:
            raise InputError(f"a column {name!r}", f"columns {', '.join(table.columns)}", file=path, line=1)
    for name in numbers:
        found = str(table[name].dtype)
        if table.empty or (kinds[name] == "float64" and found == "int64"):
            table[name] = table[name].astype(kinds[name])
        elif kinds[name] in ("int64", "float64") and found != kinds[name]:
            raise _wrong_number(path, name, whole=kinds[name] == "int64")
        if not schema.columns[name].nullable and table[name].isna().any():
            raise _wrong_number(path, name, whole=kinds[name] == "int64")
    return table


def _read_csv(path: Path, **options: Any) -> pd.DataFrame:
    try:
        with warnings.catch_warnings():
            # Given surplus fields, pandas warns and drops them.
            warnings.simplefilter("error", pd.errors.ParserWarning)
            table: pd.DataFrame = pd.read_csv(path, keep_default_na=False, index_col=False, **options)
    except FileNotFoundError:
        raise InputError("a CSV table", "no file of this name", file=path) from None
    except pd.errors.ParserWarning:
        raise InputError("as many fields as in the header", "more", file=path) from None
    except (OSError, ValueError) as error:
        raise InputError("a CSV table", str(error).splitlines()[0], file=path) from None
    return table


def _wrong_number(path: Path, name: str, *, whole: bool) -> InputError:
    """Return the error for the first cell of a column that is not a number."""

    def fits(text: str) -> bool:
        try:
            value = int(text) if whole else float(text)
        except ValueError:
            return False
        return abs(value) <= _LARGEST_INT64

    texts = _read_csv(path, dtype="str")[name].fillna("").tolist()
    index, text = next(((i, text) for i, text in enumerate(texts) if not fits(text)), (None, "a mixture"))
    line = None if index is None else index + 2
    expected = "a whole number" if whole else "a number"
    return InputError(f"{name}: {expected}", repr(text) if text else "nothing", file=path, line=line)


def write_layers(table: pd.DataFrame, path: Path) -> None:
    """Check the layer table and write it as CSV (numbers with full precision)."""
    write_table(validate_layers(table, source=path), path)


def write_table(table: pd.DataFrame, path: Path) -> None:
    """Write a table as CSV, through a temporary file so that an interruption leaves the old one."""
    temporary = path.with_name(path.name + ".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        table.to_csv(temporary, index=False, lineterminator="\n")
        temporary.replace(path)
    except OSError as error:
        with suppress(OSError):  # below a file there is nothing to remove
            temporary.unlink()
        raise InputError("a file that can be written", error.strerror or str(error), file=path) from None
