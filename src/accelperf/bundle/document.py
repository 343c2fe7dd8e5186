"""The text of ``bundle.json``: sealed by a checksum, and read without trusting it."""

from __future__ import annotations

import hashlib
import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np

from accelperf.errors import InputError

_SEAL = re.compile(rb'\{ "sha256_of_the_lines_below": "([0-9a-f]{64})",\n')
_LONGEST_NUMBER = 400
"""Digits of an integer that no number of a bundle needs, and that would take long to read."""


def seal(content: dict[str, Any]) -> bytes:
    """Return a JSON document whose first line has the SHA-256 of the lines below it.

    ``tail -n +2 bundle.json | sha256sum`` gives the same digits.

    Raises
    ------
    ValueError
        If a number is not finite.
    """
    text = json.dumps(content, indent=1, allow_nan=False, default=_plain)
    below = text.removeprefix("{\n").encode("utf-8") + b"\n"
    digest = hashlib.sha256(below).hexdigest().encode("ascii")
    return b'{ "sha256_of_the_lines_below": "' + digest + b'",\n' + below


def _plain(value: object) -> object:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} has no place in JSON")


def unseal(content: bytes, path: Path) -> bool:
    """Check the seal of a document; return whether it has one, which formats before 2 do not.

    Raises
    ------
    InputError
        If the document is not what was sealed.
    """
    first = _SEAL.match(content)
    if first is None:
        return False
    if hashlib.sha256(content[first.end() :]).hexdigest().encode("ascii") != first[1]:
        raise InputError("a bundle's JSON as it was written", "other content (checksum differs)", file=path)
    return True


def parse(content: bytes, path: Path) -> dict[str, Any]:
    """Return the JSON object of a document.

    Raises
    ------
    InputError
        If it is no JSON object in UTF-8, nested too deep, or has a key twice or a number that is not
        finite.
    """
    try:
        document = json.loads(
            content.decode("utf-8"),
            object_pairs_hook=_unique,
            parse_constant=_no_constant,
            parse_float=_finite,
            parse_int=_whole,
        )
    except RecursionError:
        raise InputError("a bundle's JSON", "one that is nested too deep", file=path) from None
    except ValueError as error:
        raise InputError("a bundle's JSON", str(error).splitlines()[0], file=path) from None
    if not isinstance(document, dict):
        raise InputError("a JSON object", f"a {type(document).__name__}", file=path)
    return document


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"key {twice[:40]!r} twice")
    return found


def _no_constant(text: str) -> float:
    raise ValueError(f"{text}, which is no finite number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:40]}, which is no finite number")
    return value


def _whole(text: str) -> int:
    if len(text) > _LONGEST_NUMBER:
        raise ValueError(f"a number of {len(text)} digits")
    return int(text)
