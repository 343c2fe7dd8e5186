"""Errors that a user can act on, and the one place where they become a line on stderr.

Everything that can go wrong because of what a user gave (a log, a YAML file, a name) is an
`AccelperfError`. It is built from the facts: where, what was expected, what came. Commands turn it
into one line and exit status 2; anything else is a defect and keeps its traceback.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

EXIT_STATUS = 2
"""Exit status of every command that was given bad input."""


_LONGEST_GOT = 2000
"""Characters of what came that a message repeats: what all formats say of a log, no field of any length."""


def _shortened(text: str) -> str:
    if len(text) <= _LONGEST_GOT:
        return text
    return f"{text[:_LONGEST_GOT]}… ({len(text)} characters)"


class AccelperfError(Exception):
    """Base of all errors that are the input's fault."""


class InputError(AccelperfError):
    """A file or a setting holds something else than it should.

    Parameters
    ----------
    expected : str
        What should have stood there, as a noun phrase.
    got : str
        What stood there.
    file : path-like, optional
        The file, as the user named it.
    line : int, optional
        Line number in the file, counted from 1.

    Examples
    --------
    >>> print(InputError("a latency above 0", "-3.5", file="log.csv", line=7))
    log.csv:7: expected a latency above 0, got -3.5
    """

    def __init__(
        self, expected: str, got: str, *, file: str | Path | None = None, line: int | None = None
    ) -> None:
        self.expected = expected
        self.got = _shortened(got)
        self.file = None if file is None else str(file)
        self.line = line
        where = "" if self.file is None else self.file + ("" if line is None else f":{line}") + ": "
        super().__init__(f"{where}expected {expected}, got {self.got}")

    def __reduce__(self) -> tuple[object, ...]:
        # Exceptions cross process boundaries (worker pools); keyword-only arguments need telling.
        return (_rebuild_input_error, (self.expected, self.got, self.file, self.line))


def _rebuild_input_error(expected: str, got: str, file: str | None, line: int | None) -> InputError:
    return InputError(expected, got, file=file, line=line)


def known(names: object) -> str:
    """Return known names as a sorted, comma-separated list for an error message."""
    return ", ".join(sorted(str(name) for name in names))  # type: ignore[attr-defined]


def print_warning(message: str) -> None:
    """Write one warning line to stderr."""
    print(f"warning: {message}", file=sys.stderr)


@contextmanager
def exit_on_error(*, debug: bool = False) -> Iterator[None]:
    """Turn an `AccelperfError` into one line on stderr and exit status 2.

    Parameters
    ----------
    debug : bool
        Let the error through with its traceback.

    Raises
    ------
    SystemExit
        With status 2, after the line was printed.
    """
    try:
        yield
    except AccelperfError as error:
        if debug:
            raise
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(EXIT_STATUS) from None
