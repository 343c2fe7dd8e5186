"""What rows say about each other: repeats that contradict, and repeats that are too much alike."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from accelperf.layers import GEOMETRY_COLUMNS
from accelperf.logs.hits import Hits, operations

Statistic = Literal["min", "median", "max"]

ABSURD = 1000.0
"""Times the median of its operation count, above which a latency is absurd: a unit mixed up."""

CONTRADICTION = 2.0
"""Ratio of two latencies of one shape on one accelerator, above which they contradict each other."""

FLOOR_WIDTH = 1.05
"""Times the lowest latency of an accelerator, up to which a latency is at its floor."""

TELLING_DIGITS = 4
"""Digits of a latency from which on it does not come twice by chance."""

COMMON_PLACES = 16
"""Layers with one latency from which on it is a coarse clock's, and tells nothing."""

TELLING_ROWS = 3
"""Unlike layers whose latencies must all recur elsewhere to be no coincidence."""


def check(table: pd.DataFrame, impossible: NDArray[np.bool_]) -> list[Hits]:
    """Return the rows that others give reason to doubt.

    Parameters
    ----------
    table : DataFrame
        Layer table, one row a run, latencies above 0.
    impossible : NDArray of bool, shape [rows]
        Rows that physics refutes (`accelperf.logs.bounds`): they cast no doubt on others.
    """
    latency = table["latency_ms"].to_numpy(dtype=np.float64)
    work = operations(table)
    accelerator = pd.factorize(table["accelerator"])[0]
    absurd = _absurd(latency, work, accelerator)
    shape = _groups(*(table[name] for name in GEOMETRY_COLUMNS))
    sane = np.ones(len(table), dtype=bool)
    sane[absurd.rows] = False
    groups = _groups(accelerator, shape)
    contradictory = _contradictory(table, latency, groups, sane & ~impossible)
    low = sane & (CONTRADICTION * latency < _grouped(np.where(sane, latency, np.nan), groups, "max"))
    floor = _floor(latency, accelerator, shape, work, low)
    repeated = _mislabelled(table, latency, accelerator, shape)
    return [hits for hits in (absurd, contradictory, floor, repeated) if len(hits.rows)]


def _groups(*columns: pd.Series | NDArray[np.int64] | NDArray[np.float64]) -> NDArray[np.int64]:
    """Return a number for each row, equal where all columns are, shape [rows]."""
    codes = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        values, uniques = pd.factorize(column)
        if len(uniques) > 1:
            codes = pd.factorize(codes * len(uniques) + values)[0]
    return codes


def _grouped(
    values: NDArray[np.float64], groups: NDArray[np.int64], statistic: Statistic
) -> NDArray[np.float64]:
    """Return a statistic of each row's group, shape [rows]."""
    return np.asarray(pd.Series(values).groupby(groups).transform(statistic), dtype=np.float64)


def _absurd(latency: NDArray[np.float64], work: NDArray[np.float64], accelerator: NDArray[np.int64]) -> Hits:
    groups = _groups(accelerator, work)
    median = _grouped(latency, groups, "median")
    rows = np.flatnonzero(latency > ABSURD * median)
    messages = [
        f"{latency[row]:.6g} ms, {latency[row] / median[row]:.4g} times the median {median[row]:.6g} ms of "
        f"layers with {work[row]:.6g} operations"
        for row in rows
    ]
    return Hits("absurd", rows, messages)


def _contradictory(
    table: pd.DataFrame,
    latency: NDArray[np.float64],
    groups: NDArray[np.int64],
    credible: NDArray[np.bool_],
) -> Hits:
    """Return the rows of one shape on one accelerator whose latencies contradict each other."""
    known = np.where(credible, latency, np.nan)
    least, most = _grouped(known, groups, "min"), _grouped(known, groups, "max")
    rows = np.flatnonzero(credible & (most > CONTRADICTION * least))
    if not len(rows):
        return Hits("contradictory_repeats", rows, ())
    extremes: dict[int, tuple[int, int]] = {}
    for row in rows.tolist():
        low, high = extremes.get(int(groups[row]), (row, row))
        extremes[int(groups[row])] = (
            row if latency[row] < latency[low] else low,
            row if latency[row] > latency[high] else high,
        )

    def at(row: int) -> str:
        file, line = table["source_file"].iloc[row], table["source_line"].iloc[row]
        return f"{latency[row]:.6g} ms ({file}:{line})"

    messages = []
    for row in rows.tolist():
        low, high = extremes[int(groups[row])]
        messages.append(f"{latency[row]:.6g} ms, where the same shape has {at(low)} and {at(high)}")
    return Hits("contradictory_repeats", rows, messages)


def _floor(
    latency: NDArray[np.float64],
    accelerator: NDArray[np.int64],
    shape: NDArray[np.int64],
    work: NDArray[np.float64],
    low: NDArray[np.bool_],
) -> Hits:
    """Return rows far below others of their shape that lie at the accelerator's lowest latency."""
    at_floor = low & (latency <= FLOOR_WIDTH * _grouped(latency, accelerator, "min"))
    rows, messages = [], []
    for each in np.unique(accelerator[at_floor]):
        here = np.flatnonzero(at_floor & (accelerator == each))
        if len(np.unique(shape[here])) > 1:
            rows += here.tolist()
            least, most = work[here].min(), work[here].max()
            lowest = latency[here].min()
            messages += [
                f"{latency[row]:.6g} ms, the accelerator's lowest ({lowest:.6g} ms) for {least:.4g} as for "
                f"{most:.4g} operations"
                for row in here
            ]
    return Hits("constant_floor", np.array(rows, dtype=np.int64), messages)


def _mislabelled(
    table: pd.DataFrame,
    latency: NDArray[np.float64],
    accelerator: NDArray[np.int64],
    shape: NDArray[np.int64],
) -> Hits:
    """Return rows whose latencies recur, digit by digit, where they should not.

    That is: for the same shape on another accelerator; or for other shapes, in so many layers of
    two networks that one was copied.
    """
    measured = (table["origin"] == "measured").to_numpy()
    value = pd.factorize(latency)[0]
    network = _groups(accelerator, table["network"])
    # Runs of one layer are repeats as they should be; and a value met everywhere is a coarse clock's.
    place = _groups(value, network, shape)
    first = np.unique(place, return_index=True)[1]
    places_of = np.bincount(value[first])[value]
    rows = np.flatnonzero(measured & (places_of > 1) & (places_of <= COMMON_PLACES))
    rows = rows[_digits(latency[rows]) >= TELLING_DIGITS]
    partner: dict[int, int] = {}
    # Flat arrays: among a million rows many latencies agree by chance.
    recurring, there = array("q"), array("q")
    for same in _members(rows, value):
        firsts = {int(place[row]): row for row in reversed(same)}
        for row in same:
            for other in firsts.values():
                if accelerator[row] != accelerator[other] and shape[row] == shape[other]:
                    partner.setdefault(row, other)
                elif network[row] != network[other] and shape[row] != shape[other]:
                    recurring.append(row)
                    there.append(other)
    for row, other in _copied(np.array(recurring), np.array(there), value, network):
        partner.setdefault(row, other)
    found = np.array(sorted(partner), dtype=np.int64)
    partners = table.iloc[[partner[row] for row in found.tolist()]]
    columns = ["layer", "network", "accelerator", "source_file", "source_line"]
    messages = [
        f"{latency[row]:.9g} ms, as has {layer!r} of {net} on {acc} ({file}:{line})"
        for row, (layer, net, acc, file, line) in zip(
            found.tolist(), partners[columns].itertuples(index=False, name=None), strict=True
        )
    ]
    return Hits("mislabelled_repeats", found, messages)


def _copied(
    rows: NDArray[np.int64], others: NDArray[np.int64], value: NDArray[np.int64], network: NDArray[np.int64]
) -> Iterator[tuple[int, int]]:
    """Yield the pairs of rows of which one network has too many with another to be chance."""
    if not len(rows):
        return
    latencies_of = np.bincount(network[np.unique(_groups(value, network), return_index=True)[1]])
    one, other = network[rows], network[others]
    pair = one * len(latencies_of) + other
    # How many latencies a pair of networks has in common, each counted once.
    first = np.unique(_groups(pair, value[rows]), return_index=True)[1]
    names, counts = np.unique(pair[first], return_counts=True)
    common = counts[np.searchsorted(names, pair)]
    fewest = np.minimum(latencies_of[one], latencies_of[other])
    told = (common >= TELLING_ROWS) & (2 * common >= fewest)
    yield from zip(rows[told].tolist(), others[told].tolist(), strict=True)


def _members(rows: NDArray[np.int64], groups: NDArray[np.int64]) -> Iterator[list[int]]:
    """Yield the rows of each group, in order."""
    if len(rows):
        ordered = rows[np.argsort(groups[rows], kind="stable")]
        for members in np.split(ordered, np.flatnonzero(np.diff(groups[ordered])) + 1):
            yield members.tolist()


def _digits(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the significant digits with which each number is written, at its shortest."""
    digits = [repr(float(each)).split("e")[0].replace(".", "").strip("0") for each in values]
    return np.array([len(each) for each in digits], dtype=np.int64)
