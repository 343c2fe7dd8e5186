"""Which measurement to take next: where the estimator is least sure, once earlier picks are known.

The candidates are layers on designs. The first pick has the largest variance that a measurement could
take away; then the process is conditioned on it, as if it had been measured, and the next pick has the
largest variance of what is left. A near-duplicate of a pick has little left and is not picked. That is
greedy maximum-entropy design, MacKay, *Information-based objective functions for active data
selection*, Neural Computation 4(4), 1992, done as a Cholesky factorisation with pivots. A posterior
covariance does not depend on what would be measured, so that no latency needs to be guessed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accelperf.models.joint import PosteriorPrediction

Floats = NDArray[np.float64]

SPENT = 1e-10
"""Share of the first pick's variance below which nothing is left to learn: rounding."""


@dataclass(frozen=True)
class Pick:
    """A measurement to take.

    Attributes
    ----------
    row : int
        The candidate.
    variance : float
        Variance that it could take away when no pick is known [ms², or of the logarithm].
    left : float
        The same, once all earlier picks are known.
    """

    row: int
    variance: float
    left: float


def pick_measurements(posterior: PosteriorPrediction, count: int) -> list[Pick]:
    r"""Return the measurements to take, the most telling first.

    With the posterior covariance C of the candidates and the noise variance :math:`\sigma_i^2` of
    measuring candidate i, picking i changes the covariance to
    :math:`C - C_{\cdot i} C_{i \cdot} / (C_{ii} + \sigma_i^2)`.

    Parameters
    ----------
    posterior : PosteriorPrediction
        The candidates.
    count : int
        How many; fewer are returned where no more has anything left to learn.

    Returns
    -------
    list of Pick
        In the order of picking; of equals the first candidate.
    """
    variance = posterior.latent_variance()
    noise = posterior.noise_variance()
    left = variance.copy()
    factors = np.zeros((0, len(variance)))
    picks: list[Pick] = []
    for _ in range(min(count, len(variance))):
        row = int(np.argmax(left))
        if left[row] <= SPENT * max(variance.max(), np.finfo(float).tiny):
            break
        picks.append(Pick(row, float(variance[row]), float(left[row])))
        column = posterior.latent_covariance(row) - factors[:, row] @ factors
        factor = column / np.sqrt(left[row] + noise[row])
        left = np.maximum(left - factor**2, 0)
        # A second run of the same layer is not a new measurement to set up.
        left[row] = 0.0
        factors = np.vstack([factors, factor])
    return picks
