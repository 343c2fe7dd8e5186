"""Latencies of whole networks as distributions, and the probability that they keep a bound."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from accelperf.models.base import Prediction
from accelperf.models.log_normal import log_normal

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Totals:
    """Total latency of each design: a number, or a normal or log-normal distribution.

    Attributes
    ----------
    median_ms : array of shape [designs]
        Median of the total [ms].
    sigma : array of shape [designs], optional
        Standard deviation of the total [ms], or of its logarithm where that is normal; None where the
        estimator does not say how sure it is.
    logarithmic : bool
        Whether the logarithm of the total is normal.
    """

    median_ms: Floats
    sigma: Floats | None = None
    logarithmic: bool = False

    def prediction(self) -> Prediction:
        """Return medians, standard deviations and 95 % intervals [ms], shape [designs]."""
        if self.sigma is None:
            return Prediction(self.median_ms)
        if not self.logarithmic:
            return Prediction.normal(self.median_ms, self.sigma)
        return log_normal(np.log(self.median_ms), self.sigma)

    def probability(self, bound_ms: float) -> Floats | None:
        r"""Return the probability that the total is at most a bound, shape [designs].

        :math:`\Phi((b - m) / s)` for a normal total of median m and standard deviation s, and
        :math:`\Phi((\log b - \log m) / s)` for a log-normal one; None without uncertainty. It is
        above one half where the median is below the bound, and only there.

        Parameters
        ----------
        bound_ms : float
            The bound [ms], above 0.
        """
        if self.sigma is None:
            return None
        away = bound_ms - self.median_ms
        if self.logarithmic:
            away = np.log(bound_ms) - np.log(self.median_ms)
        # Without spread, the median itself is on one side.
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(self.sigma > 0, away / self.sigma, np.where(away >= 0, np.inf, -np.inf))
        return np.asarray(ndtr(ratio))
