"""Strict JSON: what logs may hold of it, with the line of whatever is wrong.

Python's parser accepts more than JSON and loses some of it: literals ``NaN`` and ``Infinity``,
numbers that overflow, keys given twice of which the last wins. Here they are errors. Nothing is
nested deeply in a log, and no number has more than a few digits.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from accelperf.errors import InputError
from accelperf.logs.text import opened

LARGEST_FILE_BYTES = 64_000_000
"""Largest file that is parsed as one value; parsing takes several times that in memory."""

LARGEST_VALUE_CHARACTERS = 1_000_000
"""Largest element of a list that is read element by element."""

_LARGEST_DIGITS = 18
_LONGEST_SHOWN = 40
_CHUNK_CHARACTERS = 1 << 20
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|-?Infinity|NaN|-?[0-9][0-9.eE+-]*')
_KEY = re.compile(r'("(?:[^"\\]|\\.)*")\s*:|"(?:[^"\\]|\\.)*"')
_AFTER_GAP = re.compile(r"[^\s,]")


class _RefusedError(ValueError):
    """A value that the parser would accept: what it should be, and the token that it is."""

    def __init__(self, expected: str, token: str, *, occurrence: int = 1) -> None:
        super().__init__(expected)
        self.expected, self.token, self.occurrence = expected, token, occurrence


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise _RefusedError("keys that differ", json.dumps(twice, ensure_ascii=False), occurrence=2)
    return mapping


def _whole(text: str) -> int:
    if len(text) > _LARGEST_DIGITS:
        raise _RefusedError(f"a number of {_LARGEST_DIGITS} digits or fewer", text)
    return int(text)


def _real(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise _RefusedError("a finite number", text)
    return value


def _constant(text: str) -> float:
    raise _RefusedError("a finite number", text)


_DECODER = json.JSONDecoder(
    object_pairs_hook=_unique, parse_int=_whole, parse_float=_real, parse_constant=_constant
)


def shown(value: object) -> str:
    """Return a value as a message shows it: short, on one line."""
    text = value if isinstance(value, str) else repr(value)
    start = " ".join(text[: 4 * _LONGEST_SHOWN].split())
    if len(start) <= _LONGEST_SHOWN and len(text) <= 4 * _LONGEST_SHOWN:
        return start
    return f"{start[:_LONGEST_SHOWN]}… ({len(text)} characters)"


def is_whole(value: object) -> bool:
    """Return whether a value is a whole number; ``true`` is none."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: object) -> bool:
    """Return whether a value is a number; ``true`` is none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def parse(text: str, *, file: Path, line: int = 1) -> Any:
    """Return the value of a JSON text.

    Parameters
    ----------
    text : str
        The text: a file, or a line of it.
    file, line : Path and int
        Where it stands.

    Raises
    ------
    InputError
        If it is no JSON, is nested too deeply, holds ``NaN``, ``Infinity``, a number out of
        bounds or a key twice; with the line.
    """
    try:
        value, end = _decode(text, len(text) - len(text.lstrip()))
    except _RefusedError as error:
        raise _refused(error, text, file, line) from None
    except json.JSONDecodeError as error:
        raise InputError(
            "JSON", _problem(error), file=file, line=line + text.count("\n", 0, error.pos)
        ) from None
    if text[end:].strip():
        rest = shown(text[end:].strip())
        where = end + len(text[end:]) - len(text[end:].lstrip())
        raise InputError(
            "one JSON value", f"more after it: {rest}", file=file, line=line + text.count("\n", 0, where)
        )
    return value


def _decode(text: str, start: int) -> tuple[Any, int]:
    try:
        return _DECODER.raw_decode(text, start)
    except RecursionError:
        raise _RefusedError("values nested less deeply", text[start : start + 1]) from None


def _end_of_gap(text: str, start: int) -> int:
    """Return where the next thing begins that is neither blank nor comma."""
    found = _AFTER_GAP.search(text, start)
    return len(text) if found is None else found.start()


def _problem(error: json.JSONDecodeError) -> str:
    message = error.msg[0].lower() + error.msg[1:]
    return f"{message} in column {error.colno}" if error.pos < len(error.doc) else f"{message} at the end"


def _refused(error: _RefusedError, text: str, file: Path, line: int, start: int = 0) -> InputError:
    """Return the error for a refused token, with the line where it stands."""
    found = (match.start() for match in _TOKEN.finditer(text, start) if match.group() == error.token)
    where = next((place for number, place in enumerate(found, 1) if number == error.occurrence), start)
    return InputError(
        error.expected, shown(error.token), file=file, line=line + text.count("\n", start, where)
    )


def read_text(path: Path) -> str:
    r"""Return the text of a JSON file, with line ends ``\n``.

    Raises
    ------
    InputError
        If the file cannot be read, is not UTF-8 or is larger than `LARGEST_FILE_BYTES`.
    """
    with opened(path) as stream:
        size = path.stat().st_size
        if size > LARGEST_FILE_BYTES:
            raise InputError(f"a file of {LARGEST_FILE_BYTES:,} bytes or fewer", f"{size:,}", file=path)
        text = stream.read()
    return text.replace("\r\n", "\n").replace("\r", "\n")


def read_value(path: Path) -> Any:
    """Return the value of a JSON file (see `read_text` and `parse` for errors)."""
    return parse(read_text(path), file=path)


def key_lines(text: str) -> dict[str, int]:
    """Return the line on which each key of a JSON text first stands.

    Parameters
    ----------
    text : str
        JSON, as `read_text` returns it.
    """
    lines: dict[str, int] = {}
    line, position = 1, 0
    for match in _KEY.finditer(text):
        line += text.count("\n", position, match.start())
        position = match.start()
        if match[1] is not None:
            lines.setdefault(json.loads(match[1], strict=False), line)
    return lines


def read_elements(path: Path) -> Iterator[tuple[int, Any]]:
    """Read the elements of a JSON list one by one, as writers of traces leave it.

    Such a list may lack its closing bracket, which a process that ends early does not write, and
    may have commas too many. Nothing may follow the closing bracket.

    Parameters
    ----------
    path : Path
        The file; of any size, since only a part of it is held.

    Yields
    ------
    tuple of int and value
        Line on which an element begins, and the element.

    Raises
    ------
    InputError
        As `parse`; if it is no list, an element is cut off or longer than
        `LARGEST_VALUE_CHARACTERS`, two elements have no comma between them, or something follows
        the list.
    """
    with opened(path) as stream:
        buffer = stream.read(_CHUNK_CHARACTERS)
        position, line = 0, 1

        def advance(to: int) -> None:
            nonlocal position, line
            line += buffer.count("\n", position, to)
            position = to

        def more() -> bool:
            """Read on; return False at the end of the file."""
            nonlocal buffer, position
            chunk = stream.read(_CHUNK_CHARACTERS)
            if chunk:
                buffer, position = buffer[position:] + chunk, 0
            return bool(chunk)

        advance(len(buffer) - len(buffer.lstrip()))
        if not buffer.startswith("[", position):
            got = shown(buffer[position:]) or "an empty file"
            raise InputError("a JSON list", got, file=path, line=line)
        advance(position + 1)
        separated = True
        while True:
            end = _end_of_gap(buffer, position)
            if end == len(buffer) and more():
                if len(buffer) > LARGEST_VALUE_CHARACTERS + _CHUNK_CHARACTERS:
                    raise InputError("an element", "nothing but commas and blanks", file=path, line=line)
                continue
            separated = separated or "," in buffer[position:end]
            advance(end)
            if position == len(buffer):
                return
            if buffer[position] == "]":
                advance(position + 1)
                break
            if not separated:
                got = shown(buffer[position:])
                raise InputError("a comma between two elements", got, file=path, line=line)
            try:
                value, end = _decode(buffer, position)
            except _RefusedError as error:
                raise _refused(error, buffer, path, line, position) from None
            except json.JSONDecodeError as error:
                if len(buffer) - position <= LARGEST_VALUE_CHARACTERS and more():
                    continue
                where = line + buffer.count("\n", position, error.pos)
                raise InputError("a whole JSON value", _problem(error), file=path, line=where) from None
            if end == len(buffer) and more():
                continue  # a number may go on
            yield line, value
            advance(end)
            separated = False
        while True:
            rest = buffer[position:].lstrip()
            if rest:
                advance(len(buffer) - len(rest))
                raise InputError("nothing after the closing bracket", shown(rest), file=path, line=line)
            advance(len(buffer))
            if not more():
                return
