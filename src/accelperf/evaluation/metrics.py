"""Figures that say how far predictions are from measurements."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from accelperf.models.base import Prediction

Floats = NDArray[np.float64]

COMPARABLE: tuple[str, ...] = (
    "mae_ms",
    "rmse_ms",
    "mape",
    "median_ape",
    "within_5pct",
    "within_10pct",
    "max_abs_error_ms",
    "network_total_mape",
)
"""Figures by which estimators may be ranked: every estimator has them."""
_LARGER_IS_BETTER = frozenset({"within_5pct", "within_10pct"})


def cost(metrics: Mapping[str, Any], metric: str) -> float:
    """Return a figure of ``metrics.json`` such that less is better, infinite where it is missing.

    Examples
    --------
    >>> cost({"mape": 0.1}, "mape"), cost({"within_10pct": 0.9}, "within_10pct"), cost({}, "mape")
    (0.1, -0.9, inf)
    """
    if metric not in metrics:
        return math.inf
    return -float(metrics[metric]) if metric in _LARGER_IS_BETTER else float(metrics[metric])


def spearman(measured: Floats, predicted: Floats) -> float:
    """Return Spearman's rank correlation; NaN where either side is constant."""
    ranks = [pd.Series(values).rank().to_numpy() for values in (measured, predicted)]
    if any(np.ptp(rank) == 0 for rank in ranks):
        return math.nan
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


def network_total_mape(measured: Floats, predicted: Floats, groups: Sequence[Hashable]) -> float:
    """Return the mean relative error of the summed latency of each group.

    Parameters
    ----------
    measured, predicted : array of shape [rows]
        Latencies [ms].
    groups : sequence of shape [rows]
        Which rows are added up: one key for each network on each accelerator.

    Returns
    -------
    float
        Mean of |predicted total - measured total| / measured total [1].
    """
    totals = (
        pd.DataFrame({"group": list(groups), "measured": measured, "predicted": predicted})
        .groupby("group", sort=True)
        .sum()
    )
    return float(np.mean(np.abs(totals["predicted"] - totals["measured"]) / totals["measured"]))


def score(measured: Floats, prediction: Prediction, groups: Sequence[Hashable]) -> dict[str, float]:
    """Return the figures of ``metrics.json`` (errors in ms, the rest as fractions).

    Parameters
    ----------
    measured : array of shape [rows]
        Measured latencies [ms].
    prediction : Prediction
        Predictions of the same rows.
    groups : sequence of shape [rows]
        Network and accelerator of each row, for the totals.

    Returns
    -------
    dict
        ``mae_ms, rmse_ms, mape, median_ape, within_5pct, within_10pct, spearman,
        max_abs_error_ms, network_total_mape``; with uncertainty also ``coverage_95`` (share of
        rows inside their 95 % interval), ``mean_interval_ms`` (mean width of it) and ``nlpd``
        (mean negative log predictive density of a normal, log of ms).
    """
    error = prediction.median_ms - measured
    relative = np.abs(error) / measured
    figures = {
        "mae_ms": float(np.mean(np.abs(error))),
        "rmse_ms": float(np.sqrt(np.mean(error**2))),
        "mape": float(np.mean(relative)),
        "median_ape": float(np.median(relative)),
        "within_5pct": float(np.mean(relative <= 0.05)),
        "within_10pct": float(np.mean(relative <= 0.10)),
        "spearman": spearman(measured, prediction.median_ms),
        "max_abs_error_ms": float(np.max(np.abs(error))),
        "network_total_mape": network_total_mape(measured, prediction.median_ms, groups),
    }
    if prediction.std_ms is not None and prediction.lower_ms is not None and prediction.upper_ms is not None:
        inside = (prediction.lower_ms <= measured) & (measured <= prediction.upper_ms)
        variance = prediction.std_ms**2
        figures |= {
            "coverage_95": float(np.mean(inside)),
            "mean_interval_ms": float(np.mean(prediction.upper_ms - prediction.lower_ms)),
            "nlpd": float(np.mean(0.5 * np.log(2 * np.pi * variance) + 0.5 * error**2 / variance)),
        }
    return figures
