"""Numbers and names as text, the same in the summary, on the page and in the pictures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from accelperf.memory.analysis import IdleLatency, MemoryAnalysis
from accelperf.memory.throughput import Throughput

SIMULATED = "SIMULATED"
UNKNOWN = "–"
"""What stands where something was not measured or is not known."""

MARK = "\\*"
"""Marks figures on the page that nothing published confirms."""

_UNITS = ((1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K"))


def bytes_text(size: int | None) -> str:
    """Return bytes as the Shuhai paper writes them.

    Examples
    --------
    >>> bytes_text(64), bytes_text(8192), bytes_text(268435456)
    ('64', '8K', '256M')
    """
    if size is None:
        return UNKNOWN
    for unit, letter in _UNITS:
        if size >= unit and size % unit == 0:
            return f"{size // unit}{letter}"
    return str(size)


def origin_text(origin: str, *, unvalidated: bool = False, separator: str = ", ") -> str:
    """Return where a result comes from; what was simulated says so in capitals."""
    name = {"simulated": SIMULATED, "": "origin unknown"}.get(origin, origin)
    return f"{name}{separator}unvalidated" if unvalidated else name


def engines_text(engines: Sequence[int]) -> str:
    """Return channel numbers, runs of them shortened.

    Examples
    --------
    >>> engines_text((0, 1, 2, 3, 8)), engines_text((5,)), engines_text((-1, -1))
    ('0-3,8', '5', '2 engines')
    """
    if any(engine < 0 for engine in engines):
        return UNKNOWN if len(engines) == 1 else f"{len(engines)} engines"
    runs: list[list[int]] = []
    for engine in sorted(engines):
        if runs and engine == runs[-1][-1] + 1:
            runs[-1].append(engine)
        else:
            runs.append([engine])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def number_text(value: float | None, digits: int = 4) -> str:
    """Return a number with a few significant digits; an unknown one as such."""
    return UNKNOWN if value is None else f"{value:.{digits}g}"


def percent_text(share: float | None) -> str:
    """Return a fraction in percent; an unknown one as such."""
    return UNKNOWN if share is None else f"{100 * share:.1f} %"


def notes_text(analysis: MemoryAnalysis, *, mark: str = "") -> list[str]:
    """Return the notes on the logs as text, one a file and flag, with the place of the first."""
    return [
        f"{mark}{file}:{note.line}{mark}: {note.flag}: {note.message}"
        + (f" (and {count - 1} more like it)" if count > 1 else "")
        for file, note, count in analysis.notes_by_kind()
    ]


def joined(names: Iterable[str]) -> str:
    """Return names separated by commas; nothing as unknown."""
    return ", ".join(names) or UNKNOWN


def speed_text(point: Throughput) -> str:
    """Return the throughput of a memory channel [GB/s] for the page, marked where unvalidated."""
    return f"{point.target_gbps:.3g}{' ' + MARK if point.unvalidated else ''}"


def pattern_text(point: Throughput) -> str:
    """Return direction, B, S and W."""
    return (
        f"{point.direction}, B {bytes_text(point.burst_bytes)}, S {bytes_text(point.stride_bytes)}, "
        f"W {bytes_text(point.working_set_bytes)}"
    )


def nanoseconds_text(idle: IdleLatency | None, state: str) -> str:
    """Return the latency of a page state [ns]; an unknown one as such."""
    time = None if idle is None else idle.nanoseconds(state)
    return UNKNOWN if time is None else f"{time:.1f}"
