"""Repeated runs of one layer become one row with mean, standard deviation and count."""

from __future__ import annotations

import numpy as np
import pandas as pd

from accelperf.errors import InputError
from accelperf.layers import GEOMETRY_COLUMNS

KEY = ["accelerator", "network", "layer"]
"""What makes two rows runs of the same layer."""


def merge_repeats(table: pd.DataFrame) -> pd.DataFrame:
    r"""Merge the rows of each layer into one, and put the table in order.

    With :math:`n_i` runs of mean :math:`m_i` and standard deviation :math:`s_i` behind row *i*,

    .. math::

        N = \sum n_i, \quad m = \frac{1}{N} \sum n_i m_i, \quad
        s^2 = \frac{\sum (n_i - 1) s_i^2 + \sum n_i (m_i - m)^2}{N - 1}

    which for single runs is their mean and their sample standard deviation. It is unknown where
    that of a row of several runs is.

    Parameters
    ----------
    table : DataFrame
        Layer table, in which a layer may have several rows.

    Returns
    -------
    DataFrame
        One row a layer, by accelerator, network and position; the source is that of the first row,
        the flags are those of all.

    Raises
    ------
    InputError
        If the rows of a layer differ in geometry or origin, or two layers of a network claim the
        same position (a network in two logs with different layers).
    """
    if table.duplicated(KEY).any():
        _check_agreement(table)
        table = _merge(table)
    places = ["accelerator", "network", "position"]
    clash = table.duplicated(places)
    if clash.any():
        second = table[clash].iloc[0]
        first = table[(table[places] == second[places]).all(axis=1)].iloc[0]
        raise InputError(
            f"the same layers in every log of network {second['network']!r} on {second['accelerator']!r}",
            f"layer {second['layer']!r} at position {second['position']}, where "
            f"{first['source_file']}:{first['source_line']} has {first['layer']!r}",
            file=second["source_file"],
            line=int(second["source_line"]),
        )
    return in_order(table)


def in_order(table: pd.DataFrame, *, consume: bool = False) -> pd.DataFrame:
    """Return a layer table by accelerator, network and position, equal ones as they stand.

    Parameters
    ----------
    table : DataFrame
        Layer table.
    consume : bool
        Take its columns away one by one, so that a million rows are not held twice.
    """
    codes = [pd.factorize(table[name], sort=True)[0] for name in ("network", "accelerator")]
    order = np.lexsort((table["position"].to_numpy(), *codes))
    if not np.any(np.diff(order) != 1):
        return table.reset_index(drop=True)
    columns = {
        name: (table.pop(name) if consume else table[name]).take(order).reset_index(drop=True)
        for name in list(table.columns)
    }
    return pd.DataFrame(columns, copy=False)


def _check_agreement(table: pd.DataFrame) -> None:
    """Raise if rows of one layer contradict each other in what a repeat cannot change."""
    fixed = [*GEOMETRY_COLUMNS, "origin"]
    first = table.groupby(KEY, sort=False)[[*fixed, "source_file", "source_line"]].transform("first")
    differs = (table[fixed] != first[fixed]).to_numpy()
    if not differs.any():
        return
    row = int(np.argmax(differs.any(axis=1)))
    column = fixed[int(np.argmax(differs[row]))]
    here, there = table.iloc[row], first.iloc[row]
    raise InputError(
        f"{column} {there[column]} for layer {here['layer']!r}, as in "
        f"{there['source_file']}:{there['source_line']}",
        str(here[column]),
        file=here["source_file"],
        line=int(here["source_line"]),
    )


def _merge(table: pd.DataFrame) -> pd.DataFrame:
    keys = [table[name] for name in KEY]
    runs = table["repeats"]
    counts = runs.groupby(keys, sort=False)
    times = (table["latency_ms"] * runs).groupby(keys, sort=False)
    total = counts.sum()
    mean = times.sum() / total
    deviation = table["latency_ms"] - times.transform("sum") / counts.transform("sum")
    # A single run has no spread of its own; an unknown spread of several runs stays unknown.
    within = ((runs - 1) * table["latency_std_ms"] ** 2).where(runs > 1, 0.0)
    squares = (within + runs * deviation**2).groupby(keys, sort=False).sum(skipna=False)
    several = total.where(table.groupby(KEY, sort=False).size() > 1)
    std = np.sqrt(squares / (several - 1))
    merged = table.drop_duplicates(KEY).copy()
    alone = several.isna().to_numpy()
    merged["latency_ms"] = np.where(alone, merged["latency_ms"], mean)
    merged["latency_std_ms"] = np.where(alone, merged["latency_std_ms"], std)
    merged["repeats"] = total.to_numpy()
    if (table["flags"] != "").any():
        merged["flags"] = table["flags"].groupby(keys, sort=False).agg(_all_flags).to_numpy()
    return merged


def _all_flags(flags: pd.Series) -> str:
    """Return the flags that any of several runs has, each once."""
    return ";".join(dict.fromkeys(flag for text in flags for flag in text.split(";") if flag))
