"""Where an estimator errs: by network, by accelerator, by binding term; and twins that flatter ``loo``.

All functions take the table of ``predictions.csv`` and return tidy tables of fractions and ms.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from accelperf.errors import InputError
from accelperf.evaluation.splits import make_folds
from accelperf.features import FeatureMatrix

BREAKDOWN_COLUMNS: tuple[str, ...] = (
    "rows",
    "mae_ms",
    "mape",
    "within_10pct",
    "network_total_mape",
    "coverage_95",
    "mean_relative_width",
)
"""Figures of a breakdown: errors in ms, the rest as fractions; the last two are empty without
intervals. ``mean_relative_width`` is the mean of (upper - lower) / measured: a Gaussian process may
predict a median next to zero."""


def breakdown(predictions: pd.DataFrame, by: str | Sequence[str] | pd.Series) -> pd.DataFrame:
    """Return the figures of each group of layers.

    Parameters
    ----------
    predictions : DataFrame
        The content of ``predictions.csv``.
    by : str, sequence of str, or Series
        Columns to group by (``network``, ``accelerator``, or both), or a value for each row, such as
        the binding terms of `accelperf.models.calibrated_rates.layer_table`.

    Returns
    -------
    DataFrame
        The groups as first columns, sorted, then `BREAKDOWN_COLUMNS`.

    Raises
    ------
    InputError
        For a column that is not there, or a Series of another length.
    """
    if isinstance(by, pd.Series):
        if len(by) != len(predictions):
            raise InputError(f"a group for each of {len(predictions)} predictions", f"{len(by)} groups")
        name = str(by.name or "group")
        predictions, keys = predictions.assign(**{name: by.to_numpy()}), [name]
    else:
        keys = [by] if isinstance(by, str) else list(by)
    for key in keys:
        if key not in predictions:
            raise InputError(f"a column {key!r}", "none", file="predictions")
    rows = []
    for group, part in predictions.groupby(keys, sort=True):
        rows.append(dict(zip(keys, group, strict=True)) | _figures(part))
    return pd.DataFrame(rows, columns=[*keys, *BREAKDOWN_COLUMNS])


def _figures(part: pd.DataFrame) -> dict[str, float]:
    measured, predicted = part["latency_ms"], part["predicted_ms"]
    relative = (predicted - measured).abs() / measured
    totals = part.groupby(["accelerator", "network"])[["latency_ms", "predicted_ms"]].sum()
    total_error = (totals["predicted_ms"] - totals["latency_ms"]).abs() / totals["latency_ms"]
    known = bool(part["lower_ms"].notna().all())
    inside = (part["lower_ms"] <= measured) & (measured <= part["upper_ms"])
    width = (part["upper_ms"] - part["lower_ms"]) / measured
    return {
        "rows": len(part),
        "mae_ms": float((predicted - measured).abs().mean()),
        "mape": float(relative.mean()),
        "within_10pct": float((relative <= 0.10).mean()),
        "network_total_mape": float(total_error.mean()),
        "coverage_95": float(inside.mean()) if known else np.nan,
        "mean_relative_width": float(width.mean()) if known else np.nan,
    }


def network_totals(predictions: pd.DataFrame) -> pd.DataFrame:
    """Return measured and predicted latency of each network on each accelerator.

    Returns
    -------
    DataFrame
        Columns accelerator, network, layers, latency_ms, predicted_ms, relative_error (signed).
    """
    groups = predictions.groupby(["accelerator", "network"], sort=True)
    totals = groups[["latency_ms", "predicted_ms"]].sum()
    totals.insert(0, "layers", groups.size())
    error = (totals["predicted_ms"] - totals["latency_ms"]) / totals["latency_ms"]
    return totals.assign(relative_error=error).reset_index()


def leaking_rows(features: FeatureMatrix, scheme: str, *, keep_twins: bool = False) -> NDArray[np.bool_]:
    """Return which rows have a twin (a row of the same shape on the same accelerator) in training.

    Parameters
    ----------
    features : FeatureMatrix
        All rows.
    scheme : str
        One of `accelperf.evaluation.splits.SCHEMES`.
    keep_twins : bool
        See `accelperf.evaluation.splits.make_folds`.

    Returns
    -------
    array of bool, shape [rows]
        True where the answer to a tested row stands among its training rows.
    """
    accelerators = features.table["accelerator"].to_numpy(dtype=str)
    names = np.char.add(np.char.add(features.shapes, "@"), accelerators)
    _, codes, counts = np.unique(names, return_inverse=True, return_counts=True)
    leaks = np.zeros(len(features), dtype=np.bool_)
    if scheme == "loo":
        return np.asarray(counts[codes] > 1)
    for fold in make_folds(features, scheme, keep_twins=keep_twins):
        leaks[fold.test] = np.isin(codes[fold.test], codes[fold.train])
    return leaks


def leak_warning(features: FeatureMatrix, scheme: str, *, keep_twins: bool = False) -> str | None:
    """Return one line that says how many rows a scheme answers from a twin; None if none.

    Examples
    --------
    "loo: 402 of 447 rows have a twin (same shape, same accelerator) among their training rows; …"
    """
    count = int(leaking_rows(features, scheme, keep_twins=keep_twins).sum())
    if not count:
        return None
    name = f"{scheme} with twins kept" if keep_twins else scheme
    return (
        f"{name}: {count} of {len(features)} rows have a twin (same shape, same accelerator) among their "
        "training rows; leave_one_shape_out shows the error without"
    )
