"""Latency columns: the unit stands in the name, and a log without it is refused."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from accelperf.errors import InputError
from accelperf.units import CYCLES_PER_MS_AND_MHZ, MS_PER_SECOND

UNITS: tuple[str, ...] = ("ms", "us", "ns", "s", "cycles")
"""Units in which logs count; cycles are those of the platform's logic clock."""

LATENCY_COLUMNS: tuple[str, ...] = tuple(f"latency_{unit}" for unit in UNITS)

_US_PER_MS = 1e3
_NS_PER_MS = 1e6


def latency_column(names: Sequence[str], *, file: Path, line: int) -> tuple[str, str]:
    """Return the name of the latency column and its unit.

    Parameters
    ----------
    names : sequence of str
        Column names of the log.
    file, line : Path and int
        Where they stand, for the error.

    Raises
    ------
    InputError
        If there is no latency column, more than one, or one without a known unit.
    """
    found = [name for name in names if name.startswith("latency") and not name.startswith("latency_std")]
    choices = ", ".join(LATENCY_COLUMNS)
    if not found:
        raise InputError(f"a latency column, one of {choices}", "none", file=file, line=line)
    for name in found:
        if name not in LATENCY_COLUMNS:
            raise InputError(
                f"a latency column with its unit, one of {choices}", repr(name), file=file, line=line
            )
    if len(found) > 1:
        raise InputError("one latency column", ", ".join(found), file=file, line=line)
    return found[0], found[0].removeprefix("latency_")


def to_ms(
    values: NDArray[np.float64], unit: str, logic_clock_mhz: NDArray[np.float64] | float
) -> NDArray[np.float64]:
    """Return times in milliseconds.

    Parameters
    ----------
    values : array, shape [rows]
        Times in `unit`.
    unit : str
        One of `UNITS`.
    logic_clock_mhz : float or array, shape [rows]
        Logic clock [MHz], for cycles.

    Returns
    -------
    array, shape [rows]
        Times [ms]. Divided by a whole number where possible, so that 392780 ns are exactly
        0.39278 ms.
    """
    if unit == "cycles":
        return values / (logic_clock_mhz * CYCLES_PER_MS_AND_MHZ)
    if unit == "s":
        return values * MS_PER_SECOND
    return values / {"ms": 1.0, "us": _US_PER_MS, "ns": _NS_PER_MS}[unit]
