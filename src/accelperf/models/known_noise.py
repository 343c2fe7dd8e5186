r"""How far a row's latency can be off for the spread of the runs that it is the mean of.

A log that states the standard deviation s of its n runs says how well their mean is known: to
:math:`s^2 / n`, the square of the standard error. Processes add it to the noise that they find
themselves, row by row. Where a log does not say it, nothing is added.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from accelperf.features import FeatureMatrix

Floats = NDArray[np.float64]


def mean_variance(features: FeatureMatrix) -> Floats:
    """Return the variance of each row's latency as a mean of runs, 0 where unknown [ms²], shape [rows]."""
    std = features.latency_std_ms
    return np.asarray(np.where(np.isnan(std), 0.0, std) ** 2 / features.repeats)


def relative_variance(features: FeatureMatrix) -> Floats:
    """Return `mean_variance` of the latency's logarithm, to first order, shape [rows]."""
    return np.asarray(mean_variance(features) / features.latency_ms**2)
