"""Axes of a design space: what of a platform is varied, over which values."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from accelperf.errors import InputError, known

Value = int | float | str

MOST_VALUES = 10_000
"""Most values of one axis; a longer range is taken for a slip of the keyboard."""

PER_FILTER = "filter_parallelism"
"""Value of ``memory_ports`` that stands for one port a parallel filter, as in Eq. 4-6 of the paper."""


@dataclass(frozen=True)
class AxisKind:
    """What an axis may be.

    Attributes
    ----------
    symbol : str
        Short name, for the names of designs.
    number : type or None
        int or float; None for a word.
    """

    symbol: str
    number: type[int] | type[float] | None


AXIS_KINDS: dict[str, AxisKind] = {
    "filter_parallelism": AxisKind("PF", int),
    "channel_parallelism": AxisKind("PC", int),
    "unrolled_loop": AxisKind("", None),
    "logic_clock_mhz": AxisKind("LCLK", float),
    "memory_clock_mhz": AxisKind("MCLK", float),
    "memory_efficiency": AxisKind("MEFF", float),
    "transfer_width_bits": AxisKind("S", int),
    "data_width_bits": AxisKind("DW", int),
    "memory_ports": AxisKind("ports", int),
    "memory_profile": AxisKind("", None),
    "memory_channels": AxisKind("channels", int),
}
"""What can be varied: fields of `accelperf.platforms.Platform`, and profile and channels of its
`accelperf.platforms.MemoryPattern`."""


@dataclass(frozen=True)
class Axis:
    """One thing that is varied.

    Attributes
    ----------
    name : str
        One of `AXIS_KINDS`.
    values : tuple
        Its values, each once, in the order given.
    """

    name: str
    values: tuple[Value, ...]


def parse_axis(text: str) -> Axis:
    """Read an axis from ``NAME=VALUES``.

    Parameters
    ----------
    text : str
        Values are separated by commas. ``16:128:16`` stands for 16, 32, ... up to 128 where it is
        met, ``16:128:x2`` for 16, 32, 64, 128. A value given twice counts once.

    Raises
    ------
    InputError
        For an unknown name (the known ones are listed), a value of the wrong kind, or a range that
        has no end or too many values.

    Examples
    --------
    >>> parse_axis("filter_parallelism=8,16:64:x2").values
    (8, 16, 32, 64)
    >>> parse_axis("memory_efficiency=0.5:0.8:0.1").values
    (0.5, 0.6, 0.7, 0.8)
    """
    name, equals, values = (part.strip() for part in text.partition("="))
    if name not in AXIS_KINDS:
        raise InputError(f"--vary NAME=VALUES with a name among {known(AXIS_KINDS)}", repr(name or text))
    parts = [part.strip() for part in values.split(",")]
    if not equals or not all(parts):
        raise InputError(f"--vary {name}=VALUES, separated by commas", repr(text))
    found: dict[Value, None] = {}
    for part in parts:
        found.update(dict.fromkeys(_values(name, part)))
    return Axis(name, tuple(found))


def parse_axes(texts: list[str]) -> tuple[Axis, ...]:
    """Read several axes.

    Raises
    ------
    InputError
        As `parse_axis`, and if one is given twice or two say the same thing.
    """
    axes = tuple(parse_axis(text) for text in texts)
    names = [axis.name for axis in axes]
    for name in names:
        if names.count(name) > 1:
            raise InputError("each --vary once", f"{name} {names.count(name)} times")
    for name in ("memory_profile", "memory_channels"):
        if "memory_efficiency" in names and name in names:
            raise InputError(f"memory_efficiency or {name}", "both varied")
    return axes


def _values(name: str, text: str) -> list[Value]:
    kind = AXIS_KINDS[name]
    if kind.number is None or (name == "memory_ports" and text == PER_FILTER):
        return [text]
    if ":" not in text:
        return [_number(name, text, text)]
    parts = text.split(":")
    if len(parts) != 3:
        raise InputError(f"{name}: a range START:STOP:STEP or START:STOP:xFACTOR", repr(text))
    start, stop = (_number(name, part, text) for part in parts[:2])
    factor = re.fullmatch(r"[x*](.+)", parts[2].strip())
    if factor:
        return _geometric(name, start, stop, factor[1], text)
    step = _number(name, parts[2], text)
    if step <= 0 or stop < start:
        raise InputError(f"{name}: a range whose step is above 0 and whose stop is not below its start", text)
    # A rounding error must not lose the last value.
    count = math.floor((stop - start) / step * (1 + 1e-12) + 1e-9) + 1
    _check_count(name, count, text)
    if kind.number is int:
        return [start + index * step for index in range(count)]
    return [float(f"{start + index * step:.12g}") for index in range(count)]


def _geometric(name: str, start: int | float, stop: int | float, factor: str, text: str) -> list[Value]:
    try:
        ratio = float(factor)
    except ValueError:
        ratio = math.nan
    if not (1 < ratio < math.inf and 0 < start <= stop):
        raise InputError(f"{name}: a range from above 0 upward, with a factor above 1", repr(text))
    count = math.floor(math.log(stop / start) / math.log(ratio) + 1e-9) + 1
    _check_count(name, count, text)
    values = [start * ratio**index for index in range(count)]
    if AXIS_KINDS[name].number is int:
        return [round(value) for value in values]
    return [float(f"{value:.12g}") for value in values]


def _check_count(name: str, count: int, text: str) -> None:
    if count > MOST_VALUES:
        raise InputError(f"{name}: at most {MOST_VALUES} values", f"{count} in {text}")


def _number(name: str, text: str, whole: str) -> int | float:
    number = AXIS_KINDS[name].number
    assert number is not None  # noqa: S101 - words have no numbers
    try:
        value = number(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        kind = "whole numbers" if number is int else "numbers"
        ports = f" or {PER_FILTER}" if name == "memory_ports" else ""
        raise InputError(f"{name}: {kind}{ports}", repr(whole))
    return value
