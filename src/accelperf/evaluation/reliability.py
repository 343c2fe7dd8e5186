"""Whether intervals hold: coverage at several levels, and how wide they are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy.special import ndtri

from accelperf.errors import InputError
from accelperf.models.base import NORMAL_95

LEVELS: tuple[float, ...] = (0.5, 0.8, 0.9, 0.95)
"""Nominal coverages of the central intervals."""


def reliability(predictions: pd.DataFrame, levels: Sequence[float] = LEVELS) -> pd.DataFrame:
    """Return nominal and actual coverage of central intervals.

    The 95 % bounds fix the distribution: normal where they lie symmetrically around the median,
    log-normal where their ratios to it agree; an interval of another level is the 95 % one shrunk by
    the ratio of the normal quantiles, on that scale.

    Parameters
    ----------
    predictions : DataFrame
        The content of ``predictions.csv``, with intervals.
    levels : sequence of float
        Nominal coverages, between 0 and 1.

    Returns
    -------
    DataFrame
        Columns nominal, coverage, mean_interval_ms, mean_relative_width (over the measured latency),
        rows.

    Raises
    ------
    InputError
        If the predictions have no intervals, or a level is not between 0 and 1.
    """
    if predictions[["lower_ms", "upper_ms"]].isna().any(axis=None):
        raise InputError("predictions with intervals", "empty lower_ms or upper_ms")
    measured, median, low, high = (
        predictions[name].to_numpy(dtype=np.float64)
        for name in ("latency_ms", "predicted_ms", "lower_ms", "upper_ms")
    )
    positive = (low > 0) & (median > 0)
    safe = np.where(positive, low, 1.0), np.where(positive, median, 1.0), np.where(positive, high, 1.0)
    down, up = np.log(safe[1] / safe[0]), np.log(safe[2] / safe[1])
    logarithmic = positive & (np.abs(up - down) < np.abs((high - median) - (median - low)) / median)
    rows = []
    for level in levels:
        if not 0 < level < 1:
            raise InputError("a coverage between 0 and 1", f"{level:g}")
        shrunk = float(ndtri(0.5 + level / 2)) / NORMAL_95
        lower = np.where(logarithmic, safe[1] * np.exp(-down * shrunk), median - (median - low) * shrunk)
        upper = np.where(logarithmic, safe[1] * np.exp(up * shrunk), median + (high - median) * shrunk)
        inside = (lower <= measured) & (measured <= upper)
        rows.append(
            {
                "nominal": level,
                "coverage": float(np.mean(inside)),
                "mean_interval_ms": float(np.mean(upper - lower)),
                "mean_relative_width": float(np.mean((upper - lower) / measured)),
                "rows": len(measured),
            }
        )
    return pd.DataFrame(rows)
