"""Text files opened for reading, with an error that names the line where the text ends to be text."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from accelperf.errors import InputError

_CHUNK_CHARACTERS = 1 << 20


@contextmanager
def opened(path: Path) -> Iterator[TextIO]:
    """Open a UTF-8 file, with or without byte order mark, line ends as they stand.

    Raises
    ------
    InputError
        If the file cannot be read or, while it is read, is not UTF-8.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            yield stream
    except UnicodeDecodeError:
        raise InputError("UTF-8 text", _encoding(path), file=path, line=_undecodable_line(path)) from None
    except OSError as error:
        raise InputError("a readable file", error.strerror or str(error), file=path) from None


def read_lines(path: Path) -> list[str]:
    r"""Return the lines of a UTF-8 file without their ends (``\n``, ``\r\n`` or ``\r``).

    Raises
    ------
    InputError
        As `opened`.
    """
    with opened(path) as stream:
        text = stream.read()
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def require_text(path: Path) -> None:
    """Raise if a file is no text at all, or has none: why no format can be recognised.

    Raises
    ------
    InputError
        As `opened`; if the file is empty, or holds the bytes of 0 that text never does.
    """
    blank, line = True, 1
    with opened(path) as stream:
        while chunk := stream.read(_CHUNK_CHARACTERS):
            zero = chunk.find("\0")
            if zero >= 0:
                line += chunk.count("\n", 0, zero)
                got = "bytes of 0, as in UTF-16 or binary files"
                raise InputError("UTF-8 text", got, file=path, line=line)
            line += chunk.count("\n")
            blank = blank and not chunk.strip()
    if blank:
        raise InputError("a profiling log", "an empty file", file=path)


def _encoding(path: Path) -> str:
    """Return what a file is that is not UTF-8, as far as its byte order mark tells."""
    with path.open("rb") as stream:
        start = stream.read(len(codecs.BOM_UTF32_LE))
    if start in (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE):
        return "UTF-32"
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "UTF-16, as Windows PowerShell writes it"
    return "other bytes"


def _undecodable_line(path: Path) -> int | None:
    data = path.read_bytes()
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        return data.count(b"\n", 0, error.start) + 1
    return None
