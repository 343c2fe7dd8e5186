"""Log-normal predictions: of processes that explain the logarithm of a latency."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from accelperf.models.base import NORMAL_95, Prediction

Floats = NDArray[np.float64]


def log_normal(log_median: Floats, sigma: Floats) -> Prediction:
    """Return log-normal predictions with their central 95 % interval.

    Parameters
    ----------
    log_median : array of shape [rows]
        Logarithm of the median [log of ms].
    sigma : array of shape [rows]
        Standard deviation of the logarithm.
    """
    median = np.exp(log_median)
    # Variance of a log-normal: (exp(s²) - 1) exp(2 mu + s²).
    std = median * np.exp(sigma**2 / 2) * np.sqrt(np.expm1(sigma**2))
    half = np.exp(NORMAL_95 * sigma)
    return Prediction(median, std, median / half, median * half)
