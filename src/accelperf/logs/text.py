"""Text files opened for reading, with an error that names the line where the text ends to be text."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from accelperf.errors import InputError


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
        raise InputError("UTF-8 text", "other bytes", file=path, line=_undecodable_line(path)) from None
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


def _undecodable_line(path: Path) -> int | None:
    data = path.read_bytes()
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        return data.count(b"\n", 0, error.start) + 1
    return None
