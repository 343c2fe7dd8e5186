"""From an access pattern to the share of its peak that a memory reaches: M_EFF.

``M_EFF = corrected GB/s / peak of the target channels``, from throughput runs only, for the pattern
that an accelerator's DMA makes. A measured pattern answers with its measurement, or the mean where
there are several (other engines, repeats, other states of the switch). Between measured patterns
the efficiency is interpolated linearly on log2 axes of burst, stride and working set, in the
smallest box with a measurement at every corner; for contiguous access (stride = burst) along the
line of measured contiguous patterns. Outside the measured range there is no answer.

``channels`` are the memory channels that the DMA uses at once. The peak is that many times the peak
of one channel. The efficiency comes from runs that used as many channels, or is interpolated
between numbers of channels in the same way; where only runs of one channel exist, it is taken for
any number, as the Shuhai paper itself scales one HBM channel to 32 (425 GB/s).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from accelperf.errors import InputError, known
from accelperf.memory.table import usable_rows
from accelperf.platforms import MemoryPattern, Platform

PEAK_TOLERANCE = 1e-3
"""Relative tolerance between a platform's peak and its memory profile's (clocks are given rounded)."""

_AXES = ("burst_bytes", "stride_bytes", "working_set_bytes", "channels")

Point = tuple[int, int, int, int]


@dataclass(frozen=True)
class Efficiency:
    """A memory efficiency and where it comes from.

    Attributes
    ----------
    value : float
        Share of the peak, in (0, 1].
    peak_gbps : float
        Peak of all channels together [decimal GB/s].
    source_rows : tuple of str
        The rows that it was computed from, ``file:line``; none for a plain number of a platform.
    """

    value: float
    peak_gbps: float
    source_rows: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not 0 < self.value <= 1:
            raise ValueError(f"an efficiency must be in (0, 1], not {self.value}")


@dataclass(frozen=True)
class _Measured:
    """Mean efficiency of the runs of one pattern."""

    efficiency: float
    source_rows: tuple[str, ...]


def platform_efficiency(platform: Platform, memory: pd.DataFrame | None) -> Efficiency:
    """Return the memory efficiency of a platform: its own number, or the one of its pattern.

    Parameters
    ----------
    platform : Platform
        The platform.
    memory : DataFrame or None
        Memory table.

    Returns
    -------
    Efficiency
        The efficiency; the peak of a plain number is the platform's own.

    Raises
    ------
    InputError
        If the platform names a profile and there is no memory table, `lookup` has no answer, or
        ``clock x width x ports`` is not the profile's peak.
    """
    pattern = platform.memory_efficiency
    if not isinstance(pattern, MemoryPattern):
        return Efficiency(float(pattern), platform.memory_peak_gbps)
    if memory is None:
        raise InputError(f"a memory table for the profile {pattern.profile!r}", "none")
    return lookup(memory, pattern, platform=platform)


def layer_efficiency(platform: Platform, memory: pd.DataFrame | None, row_bytes: int) -> Efficiency:
    """Return the memory efficiency that a layer has on a platform whose pattern follows the layer.

    Parameters
    ----------
    platform : Platform
        A platform whose burst or stride is ``row``.
    memory : DataFrame or None
        Memory table.
    row_bytes : int
        Length of a row of the layer's input [bytes]. A shorter one than a word of the memory port
        still moves a word; a longer one than the longest measured burst is cut into such bursts.

    Returns
    -------
    Efficiency
        The efficiency with its source rows.

    Raises
    ------
    InputError
        As `platform_efficiency`, and if the row is shorter than the shortest measured burst.
    """
    pattern = platform.memory_efficiency
    if not isinstance(pattern, MemoryPattern):
        return platform_efficiency(platform, memory)
    if memory is None:
        raise InputError(f"a memory table for the profile {pattern.profile!r}", "none")
    name = f"memory profile {pattern.profile!r} of {platform.name}"
    rows = _only(_profile_rows(memory, pattern.profile, name), "direction", pattern.direction, name)
    longest = int(_only(rows, "policy", pattern.policy, name)["burst_bytes"].max())
    word = platform.transfer_width_bits // 8
    return lookup(memory, pattern.of_row(min(max(row_bytes, word), longest)), platform=platform)


def lookup(memory: pd.DataFrame, pattern: MemoryPattern, *, platform: Platform | None = None) -> Efficiency:
    """Return the efficiency of an access pattern.

    Parameters
    ----------
    memory : DataFrame
        Memory table, as from `accelperf.memory.table.read_memory`.
    pattern : MemoryPattern
        The pattern and its profile: ``board/memory``, or the board alone if the table has one kind
        of its memory. Where a board has measured rows, simulated and estimated ones are not used.
    platform : Platform, optional
        Checked against the profile's peak.

    Returns
    -------
    Efficiency
        The efficiency with its source rows.

    Raises
    ------
    InputError
        If the profile, direction or policy was not measured, the pattern lies outside the measured
        range or between patterns that do not surround it, or the peaks differ.
    """
    name = f"memory profile {pattern.profile!r}" + ("" if platform is None else f" of {platform.name}")
    burst, stride = pattern.burst_bytes, pattern.stride_bytes
    if burst == "row" or stride == "row":
        raise InputError(f"burst and stride of {name} in bytes where there is no layer", "'row'")
    rows = _profile_rows(memory, pattern.profile, name)
    rows = _only(rows, "direction", pattern.direction, name)
    rows = _only(rows, "policy", pattern.policy, name)
    peaks = sorted(set(rows["peak_gbps"]))
    if not math.isclose(peaks[0], peaks[-1], rel_tol=PEAK_TOLERANCE):
        raise InputError(f"one peak a channel in {name}", ", ".join(f"{peak:g}" for peak in peaks))
    peak = peaks[0] * pattern.channels
    if platform is not None and not math.isclose(platform.memory_peak_gbps, peak, rel_tol=PEAK_TOLERANCE):
        got = (
            f"{platform.memory_clock_mhz:g} MHz x {platform.transfer_width_bits} bit x {platform.ports} ports"
            f" = {platform.memory_peak_gbps:g} GB/s"
        )
        expected = f"{name} to have {pattern.channels} x {peaks[0]:g} = {peak:g} GB/s of peak"
        raise InputError(expected, got)
    points = _points(rows)
    wanted = (burst, stride, pattern.working_set_bytes, pattern.channels)
    if {point[3] for point in points} == {1}:
        wanted = (*wanted[:3], 1)
    value, sources = _interpolate(points, wanted, name)
    return Efficiency(value, peak, sources)


def _profile_rows(memory: pd.DataFrame, profile: str, name: str) -> pd.DataFrame:
    rows = usable_rows(memory)
    board, _, kind = profile.partition("/")
    names = sorted(set(rows["board"] + "/" + rows["memory"]))
    chosen = [entry for entry in names if entry == profile or (not kind and entry.startswith(board + "/"))]
    if len(chosen) > 1:
        raise InputError(f"{name} as one of {known(chosen)}", repr(profile))
    if not chosen:
        raise InputError(f"{name} as one of {known(names) or 'none (no usable row)'}", repr(profile))
    board_rows: pd.DataFrame = rows[rows["board"] + "/" + rows["memory"] == chosen[0]]
    measured: pd.DataFrame = board_rows[board_rows["origin"] == "measured"]
    return measured if len(measured) else board_rows


def _only(rows: pd.DataFrame, column: str, value: str, name: str) -> pd.DataFrame:
    chosen = rows[rows[column] == value]
    if not len(chosen):
        raise InputError(f"a {column} that was measured in {name}: {known(set(rows[column]))}", repr(value))
    return chosen


def _points(rows: pd.DataFrame) -> dict[Point, _Measured]:
    """Return the mean efficiency of each measured pattern and number of channels."""
    runs: dict[Point, list[tuple[float, list[str]]]] = {}
    keys = ["source_file", "burst_bytes", "stride_bytes", "working_set_bytes"]
    for _, run in rows.groupby(keys, sort=True):
        # Rows that shared a target carry its efficiency already; rows of unknown target had their own.
        own = run["target_channel"].where(run["target_channel"].notna(), -1 - run["channel"])
        by_target = run["efficiency"].groupby(own.astype(int)).first()
        lines = zip(run["source_file"], run["source_line"], strict=True)
        sources = [f"{file}:{line}" for file, line in lines]
        burst, stride, working_set = (int(run[name].iloc[0]) for name in _AXES[:3])
        point = (burst, stride, working_set, len(by_target))
        runs.setdefault(point, []).append((float(by_target.mean()), sources))
    return {
        point: _Measured(
            math.fsum(efficiency for efficiency, _ in found) / len(found),
            tuple(itertools.chain.from_iterable(sources for _, sources in found)),
        )
        for point, found in runs.items()
    }


def _interpolate(
    points: Mapping[Point, _Measured], wanted: Point, name: str
) -> tuple[float, tuple[str, ...]]:
    if wanted in points:
        return points[wanted].efficiency, points[wanted].source_rows
    for index, axis in enumerate(_AXES):
        values = sorted({point[index] for point in points})
        if not values[0] <= wanted[index] <= values[-1]:
            measured = f"{values[0]} to {values[-1]}" if len(values) > 1 else f"{values[0]}"
            raise InputError(f"{axis} in the range measured in {name}: {measured}", str(wanted[index]))
    if wanted[0] == wanted[1]:
        contiguous = {_line(point): item for point, item in points.items() if point[0] == point[1]}
        answer = _in_smallest_box(contiguous, _line(wanted))
        if answer is not None:
            return answer
    answer = _in_smallest_box({_logs(point): item for point, item in points.items()}, _logs(wanted))
    if answer is None:
        measured = ", ".join(str(point[:3]) for point in sorted(points)[:MOST_POINTS_NAMED])
        more = len(points) - MOST_POINTS_NAMED
        raise InputError(
            f"a pattern between patterns measured in {name} (burst, stride, working set): "
            f"{measured}{f' and {more} more' if more > 0 else ''}",
            str(wanted[:3]),
        )
    return answer


MOST_POINTS_NAMED = 12


def _logs(point: Point) -> tuple[float, ...]:
    return tuple(math.log2(value) for value in point)


def _line(point: Point) -> tuple[float, ...]:
    return tuple(math.log2(value) for value in (point[0], *point[2:]))


def _in_smallest_box(
    points: Mapping[tuple[float, ...], _Measured], wanted: Sequence[float]
) -> tuple[float, tuple[str, ...]] | None:
    """Return the multilinear interpolation in the smallest box with a measurement at every corner."""
    for box in _boxes(points, wanted):
        corners = list(itertools.product(*(sorted(set(interval)) for interval in box)))
        if all(corner in points for corner in corners):
            value = 0.0
            for corner in corners:
                value += points[corner].efficiency * _weight(corner, box, wanted)
            sources = dict.fromkeys(
                itertools.chain.from_iterable(points[corner].source_rows for corner in corners)
            )
            return value, tuple(sources)
    return None


Box = tuple[tuple[float, float], ...]


def _boxes(points: Mapping[tuple[float, ...], _Measured], wanted: Sequence[float]) -> Iterator[Box]:
    """Yield all boxes around a point, spanned by measured values, the smallest first."""
    intervals: list[list[tuple[float, float]]] = []
    for index, value in enumerate(wanted):
        values = sorted({point[index] for point in points})
        below, above = [v for v in values if v <= value], [v for v in values if v >= value]
        intervals.append([(value, value)] if value in values else list(itertools.product(below, above)))
    yield from sorted(itertools.product(*intervals), key=lambda box: (sum(b - a for a, b in box), box))


def _weight(corner: Sequence[float], box: Box, wanted: Sequence[float]) -> float:
    weight = 1.0
    for at, (low, high), value in zip(corner, box, wanted, strict=True):
        if high > low:
            share = (value - low) / (high - low)
            weight *= share if at == high else 1 - share
    return weight
