"""Large text logs as blocks of clean lines, and blocks of numbers as arrays.

One needs this where a log may hold a million lines: memory stays at one block, whatever the file's
size, and the work is done by whole-block operations. A block is bytes, holds whole lines, and is
free of byte order mark, carriage returns and terminal escapes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accelperf.errors import InputError

Cycles = NDArray[np.integer[Any]]
"""Counts in whichever integer type holds them."""

BLOCK_BYTES = 1 << 17
"""Bytes read at once (a block and its arrays fit the processor's cache), and the longest line that
is taken for text."""

_UTF8_MARK = b"\xef\xbb\xbf"
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
# ECMA-48: control sequences (colours, cursor), operating system commands (titles), single escapes.
_ESCAPE = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-~])")


def read_blocks(path: Path) -> Iterator[tuple[int, bytes]]:
    """Read a text file as blocks of whole, clean lines.

    Parameters
    ----------
    path : Path
        The file.

    Yields
    ------
    line : int
        Number of the block's first line, from 1.
    block : bytes
        Whole lines ending in a line feed; only the file's very last line may lack it.

    Raises
    ------
    InputError
        If the file is missing, empty, UTF-16 or binary.
    """
    line, rest = 1, b""
    try:
        with path.open("rb") as stream:
            chunk = stream.read(BLOCK_BYTES)
            if not chunk:
                raise InputError("a Shuhai log", "an empty file", file=path, line=1)
            if chunk.startswith(_UTF16_MARKS):
                raise InputError("UTF-8 text", "UTF-16 text", file=path, line=1)
            chunk = chunk.removeprefix(_UTF8_MARK)
            while chunk:
                chunk = rest + chunk
                end = chunk.rfind(b"\n") + 1
                block, rest = chunk[:end], chunk[end:]
                if b"\0" in chunk or len(rest) > BLOCK_BYTES:
                    at = line + chunk[: max(chunk.find(b"\0"), 0)].count(b"\n")
                    raise InputError("lines of text", "a binary file", file=path, line=at)
                if block:
                    yield line, _clean(block)
                    line += block.count(b"\n")
                chunk = stream.read(BLOCK_BYTES)
    except FileNotFoundError:
        raise InputError("a Shuhai log", "no file of this name", file=path) from None
    except OSError as error:
        raise InputError("a readable file", error.strerror or str(error), file=path) from None
    if rest:
        yield line, _clean(rest)


def _clean(block: bytes) -> bytes:
    if b"\r" in block:
        block = block.translate(None, b"\r")
    if b"\x1b" in block:
        # Erasing to the end of the line is what terminals put on every line: worth a fast path.
        block = _ESCAPE.sub(b"", block.replace(b"\x1b[K", b""))
    return block


_NOT_A_DIGIT = 255
_DIGITS = np.full(256, _NOT_A_DIGIT, dtype=np.uint8)
for _value, _character in enumerate(b"0123456789abcdef"):
    _DIGITS[_character] = _value

LONGEST_NUMBER = 8
"""Digits of a number beyond which `parse_numbers` refuses (nothing counted here is longer)."""


def parse_numbers(block: bytes, base: int) -> NDArray[np.uint32]:
    """Return the whole numbers of a block, separated by anything that is no lower-case digit.

    Parameters
    ----------
    block : bytes
        Text of digits and separators.
    base : {10, 16}
        Base of the numbers. Letters read as digits in base 10 give wrong values: check before.

    Returns
    -------
    ndarray of uint32, shape [numbers]
        The numbers in order.

    Raises
    ------
    ValueError
        If a number has more than `LONGEST_NUMBER` digits.

    Examples
    --------
    >>> parse_numbers(b"  55  62 7", base=10)
    array([55, 62,  7], dtype=uint32)
    >>> parse_numbers(b"  37  3e", base=16)
    array([55, 62], dtype=uint32)
    """
    digits = _DIGITS[np.frombuffer(block, dtype=np.uint8)]
    is_digit = digits != _NOT_A_DIGIT
    ends = np.flatnonzero(is_digit & ~np.append(is_digit[1:], False))
    values = digits[ends].astype(np.uint32)
    going_on, weight = np.ones(len(ends), dtype=bool), 1
    for length in range(1, LONGEST_NUMBER + 1):
        places = ends - length  # only the first number can reach below 0, where no digit is
        going_on &= is_digit[places] & (places >= 0)
        if not going_on.any():
            return values
        weight *= base
        # The last weight may not fit, but then neither does the number: the loop ends in the error.
        digit = np.where(going_on, digits[places], 0)
        values += np.multiply(digit, weight % 2**32, dtype=np.uint32)
    raise ValueError(f"a number of more than {LONGEST_NUMBER} digits")


def compact(numbers: Cycles) -> Cycles:
    """Return non-negative numbers in the smallest unsigned type that holds them."""
    largest = int(numbers.max(initial=0))
    return numbers.astype(np.min_scalar_type(largest))
