"""Delimited text as instruments and spreadsheets really write it, with the line of every record.

Handles byte order marks, CRLF, a missing newline at the end, quoted fields, comment lines before
the header, and comma, semicolon or tab between the fields. With a semicolon or a tab, numbers may
have a decimal comma.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import numpy as np
from numpy.typing import NDArray

from accelperf.errors import InputError
from accelperf.logs.text import opened

SEPARATORS: tuple[str, ...] = (";", "\t", ",")

_CHUNK = 16384
"""Records held as text at once: a million rows stay well below a gigabyte."""

_LARGEST_WHOLE = 10**12

_LONGEST_HEADER = 100_000
"""A header beyond this is no table's; splitting it would take as much memory as it has commas."""

_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)


@dataclass(frozen=True)
class Header:
    """The first line that is neither empty nor a comment.

    Attributes
    ----------
    names : tuple of str
        Column names.
    separator : str
        What stands between the fields.
    line : int
        Line number in the file.
    """

    names: tuple[str, ...]
    separator: str
    line: int


@dataclass(frozen=True)
class Records:
    """A run of records that follow each other in a file.

    Attributes
    ----------
    lines : NDArray of int, shape [rows]
        Line on which each record begins.
    columns : Mapping of str to sequence of str
        Fields as they stand, by column name.
    """

    lines: NDArray[np.int64]
    columns: Mapping[str, Sequence[str]]

    def __len__(self) -> int:
        return len(self.lines)


class Numbers(dict[str, float]):
    """Numbers as one file writes them: a mapping of text to value, NaN where it is no number.

    Plain decimal numbers only: no digit groups, no ``nan`` or ``inf``. With a separator other than
    the comma, the first decimal mark that occurs holds for the whole file, so that ``1.234`` among
    decimal commas, which may well mean a thousand, is no number.

    Parameters
    ----------
    separator : str
        Separator of the fields.
    """

    def __init__(self, separator: str) -> None:
        super().__init__()
        self._mark = "." if separator == "," else None

    @property
    def meaning(self) -> str:
        """What a number is in this file, for messages."""
        return "a number with decimal comma" if self._mark == "," else "a number"

    def __missing__(self, text: str) -> float:
        # Geometry repeats its few values over and over; hence the memory.
        value = self[text] = self.parse(text)
        return value

    def parse(self, text: str) -> float:
        """Return the value of a text, NaN if it is not a finite number."""
        text = text.strip()
        mark = "," if "," in text else "." if "." in text else None
        if mark is not None:
            if self._mark is None:
                self._mark = mark
            if mark != self._mark or (mark == "," and "." in text):
                return np.nan
            text = text.replace(",", ".")
        if _NUMBER.fullmatch(text) is None:
            return np.nan
        value = float(text)
        return value if np.isfinite(value) else np.nan

    def whole(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """Return the values of texts, NaN where one is not a whole number."""
        values = np.array([self[text] for text in texts], dtype=float)
        values[(values % 1 != 0) | (np.abs(values) > _LARGEST_WHOLE)] = np.nan
        return values

    def real(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """Return the values of texts, NaN where one is not a number."""
        return np.array([self.parse(text) for text in texts], dtype=float)


def is_no_figure(text: str) -> bool:
    """Return whether a text stands for a number that is none: nothing, ``nan``, ``inf``, ``1e999``."""
    text = text.strip().replace(",", ".")
    if not text:
        return True
    try:
        return not np.isfinite(float(text))
    except ValueError:
        return False


def read_header(path: Path) -> Header:
    """Read the header of a delimited text file.

    Raises
    ------
    InputError
        If the file cannot be read, is not UTF-8, or has no line but comments.
    """
    with opened(path) as stream:
        return _header(stream, path)


def read_records(path: Path) -> Iterator[Records]:
    """Read a delimited text file piece by piece.

    Lines that are empty, or hold nothing but separators, are no records.

    Parameters
    ----------
    path : Path
        The file.

    Yields
    ------
    Records
        Some of the records, in order.

    Raises
    ------
    InputError
        As `read_header`; if a column name occurs twice; if a record has more or fewer fields than
        the header, or is the header again, as in two files glued together; if a quotation never ends.
    """
    with opened(path) as stream:
        header = _header(stream, path)
        width = len(header.names)
        for index, name in enumerate(header.names):
            if name in header.names[:index]:
                raise InputError("column names that differ", f"{name!r} twice", file=path, line=header.line)
        parser = csv.reader(stream, delimiter=header.separator, skipinitialspace=True, strict=True)
        lines: list[int] = []
        rows: list[list[str]] = []
        line = header.line + 1
        while True:
            try:
                row = next(parser, None)
            except csv.Error as error:
                raise InputError("a delimited record", str(error), file=path, line=line) from None
            if row is not None and any(map(str.strip, row)):
                if len(row) != width:
                    raise InputError(
                        f"{width} fields separated by {header.separator!r} as in the header",
                        str(len(row)),
                        file=path,
                        line=line,
                    )
                if row[0] == header.names[0] and tuple(map(str.strip, row)) == header.names:
                    raise InputError(
                        f"one header, that of line {header.line}", "it again", file=path, line=line
                    )
                lines.append(line)
                rows.append(row)
            if rows and (row is None or len(rows) == _CHUNK):
                columns = dict(zip(header.names, zip(*rows, strict=True), strict=True))
                yield Records(np.array(lines, dtype=np.int64), columns)
                lines, rows = [], []
            if row is None:
                return
            line = header.line + parser.line_num + 1


def _header(stream: TextIO, path: Path) -> Header:
    for number, text in enumerate(stream, start=1):
        if not text.strip() or text.startswith("#"):
            continue
        if len(text) > _LONGEST_HEADER:
            expected = f"a header line of {_LONGEST_HEADER} characters or fewer"
            raise InputError(expected, str(len(text)), file=path, line=number)
        separator = max(SEPARATORS, key=text.count)
        try:
            names = next(csv.reader([text], delimiter=separator, skipinitialspace=True, strict=True))
        except csv.Error as error:
            raise InputError("a header line", str(error), file=path, line=number) from None
        return Header(tuple(name.strip() for name in names), separator, number)
    raise InputError("a header line", "an empty file", file=path)
