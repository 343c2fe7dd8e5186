r"""Calibration of the roofline: rates and overheads from measured latencies.

The fit minimises, over the parameters :math:`\theta` of `accelperf.models.roofline`,

.. math::

    \sum_i 2\,(\sqrt{1 + (r_i/s)^2} - 1) + \sum_k (\theta_k - \theta_k^0)^2 / \sigma_k^2,
    \qquad r_i = \log y_i - \log T_i(\theta)

(soft L1 of the relative error, so that a few layers that the roofline cannot explain do not bend the
rates; weak log-normal priors around the datasheet, so that a rate that no layer is bound by stays
there). Which `Structure` the hardware has is decided by the same cost, in favour of the simpler one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.optimize
from numpy.typing import NDArray

from accelperf.models.base import FitError
from accelperf.models.roofline import (
    OVERHEADS,
    TERMS,
    Floats,
    InputReads,
    OutputWrites,
    RooflineTerms,
    Structure,
    log_roofline,
    roofline_terms,
)

OVERHEAD_CYCLES: dict[str, float] = {"layer": 200.0, "filter_tile": 10.0, "tile": 2.0}
"""Prior medians [cycles]: starting a layer programs some registers, a tile fills a pipeline."""
OVERHEAD_SIGMA = 1.5
"""Prior standard deviation of the log overheads: a factor of 20 either way is not surprising."""
RESTART_SIGMA = 0.5
"""Spread of the random restarts, in log units."""
SIMPLER_IF_WITHIN = 2.0
"""Cost by which a less simple structure must be better (about 2 nats: Akaike's step)."""

INPUT_READS: tuple[InputReads, ...] = ("filter_tile", "once", "window")
OUTPUT_WRITES: tuple[OutputWrites, ...] = ("exact", "tiles")
WORD_BITS: tuple[int, ...] = (8, 32, 64, 128)
"""Choices of a `Structure`, the simplest or most common first."""


@dataclass(frozen=True)
class RooflineFit:
    """A calibrated roofline.

    Attributes
    ----------
    structure : Structure
        What was decided about the hardware.
    parameters : array of shape [len(TERMS) + len(OVERHEADS)]
        Log rates (shares of the datasheet's) and log overheads [cycles].
    covariance : array of shape [parameters, parameters]
        Their covariance.
    sharpness : float
        p of the smooth maximum.
    cost : float
        Value of the objective.
    """

    structure: Structure
    parameters: Floats
    covariance: Floats
    sharpness: float
    cost: float


@dataclass(frozen=True)
class RooflineCalibration:
    """How a roofline is calibrated.

    Attributes
    ----------
    sharpness : float
        p of the smooth maximum.
    robust_scale : float
        s: relative error up to which the fit is one of least squares.
    rate_sigma : float
        Prior standard deviation of the log rates.
    restarts : int
        Further random starts; the best counts.
    seed : int
        Of the restarts.
    """

    sharpness: float
    robust_scale: float
    rate_sigma: float
    restarts: int
    seed: int

    def prior_median(self, inputs: dict[str, Floats], log_ms: Floats) -> Floats:
        """Return the prior medians of the parameters: the datasheet's rates, and usual overheads.

        Latencies that are whole powers of ten away from the datasheet are in another unit; the
        prior moves along, so that the unit does not matter.
        """
        rates = np.zeros(len(TERMS))
        cycles = np.log([OVERHEAD_CYCLES[name] for name in OVERHEADS])
        median = np.concatenate([rates, cycles])
        datasheet = log_roofline(roofline_terms(inputs, Structure()), median, self.sharpness)
        decades = np.round(np.median(log_ms - datasheet.log_ms) / np.log(10)) * np.log(10)
        return np.concatenate([rates - decades, cycles + decades])

    @property
    def prior_sigma(self) -> Floats:
        """Prior standard deviations of the parameters."""
        return np.repeat([self.rate_sigma, OVERHEAD_SIGMA], [len(TERMS), len(OVERHEADS)])

    def fit(
        self,
        inputs: dict[str, Floats],
        log_ms: Floats,
        groups: NDArray[np.str_],
        *,
        start: RooflineFit | None = None,
        search: bool = True,
    ) -> RooflineFit:
        """Return the roofline that fits distinct layers.

        Parameters
        ----------
        inputs : dict of str to array
            As `accelperf.models.roofline.roofline_inputs` returns them, shape [rows].
        log_ms : array of shape [rows]
            Log latencies [log of ms].
        groups : array of shape [rows]
            Rows of one group (shape) err together; the covariance is clustered by them.
        start : RooflineFit, optional
            Where to start; the prior medians and random restarts by default.
        search : bool
            Whether to decide the structure; else `start`'s is kept.

        Raises
        ------
        FitError
            If no start leads to a finite cost.
        """
        structure = Structure() if start is None else start.structure
        starts = [self.prior_median(inputs, log_ms) if start is None else start.parameters]
        if search:
            structure, decided = self._decide(inputs, log_ms, starts[0], structure)
            starts = [decided]
        if start is None:
            generator = np.random.default_rng(self.seed)
            draws = generator.normal(0, RESTART_SIGMA, (self.restarts, len(starts[0])))
            starts.extend(self.prior_median(inputs, log_ms) + draw for draw in draws)
        terms = roofline_terms(inputs, structure)
        median = self.prior_median(inputs, log_ms)
        found = [self._minimise(terms, log_ms, values, median) for values in starts]
        parameters, cost = min(found, key=lambda item: item[1])
        if not np.isfinite(cost):
            raise FitError("the roofline could not be calibrated: no start has a finite cost")
        covariance = self._covariance(terms, log_ms, parameters, groups)
        return RooflineFit(structure, parameters, covariance, self.sharpness, cost)

    def _decide(
        self, inputs: dict[str, Floats], log_ms: Floats, start: Floats, first: Structure
    ) -> tuple[Structure, Floats]:
        """Return the structure of least cost and its parameters, changing one choice at a time."""
        median = self.prior_median(inputs, log_ms)
        costs: dict[Structure, tuple[Floats, float]] = {}

        def cost_of(structure: Structure) -> float:
            if structure not in costs:
                terms = roofline_terms(inputs, structure)
                costs[structure] = self._minimise(terms, log_ms, start, median)
            return costs[structure][1]

        choices: Sequence[tuple[str, Sequence[Any]]] = (
            ("input_reads", INPUT_READS),
            ("word_bits", WORD_BITS),
            ("output_writes", OUTPUT_WRITES),
        )
        structure = first
        # Two rounds of one-at-a-time changes: the second sees the first's other choices.
        for _ in range(2):
            for name, values in choices:
                options = [replace(structure, **{name: value}) for value in values]
                least = min(cost_of(option) for option in options)
                structure = next(o for o in options if cost_of(o) <= least + SIMPLER_IF_WITHIN)
        return structure, costs[structure][0]

    def _minimise(
        self, terms: RooflineTerms, log_ms: Floats, start: Floats, median: Floats
    ) -> tuple[Floats, float]:
        sigma, scale = self.prior_sigma, self.robust_scale

        def residuals(values: Floats) -> Floats:
            error = (log_ms - log_roofline(terms, values, self.sharpness).log_ms) / scale
            return np.concatenate([_soft(error), (values - median) / sigma])

        def jacobian(values: Floats) -> Floats:
            roofline = log_roofline(terms, values, self.sharpness)
            error = (log_ms - roofline.log_ms) / scale
            slope = -roofline.jacobian / scale * _soft_slope(error)[:, None]
            return np.concatenate([slope, np.diag(1 / sigma)])

        found = scipy.optimize.least_squares(residuals, start, jacobian, method="trf", max_nfev=200)
        return np.asarray(found.x), float(found.cost)

    def _covariance(
        self, terms: RooflineTerms, log_ms: Floats, parameters: Floats, groups: NDArray[np.str_]
    ) -> Floats:
        """Return the sandwich covariance, clustered by group, with the prior as one more observation."""
        roofline = log_roofline(terms, parameters, self.sharpness)
        error = (log_ms - roofline.log_ms) / self.robust_scale
        slope = roofline.jacobian / self.robust_scale
        # Derivative and curvature of the soft L1 loss.
        pull = error / np.sqrt(1 + error**2)
        curvature = (1 + error**2) ** -1.5
        precision = np.diag(self.prior_sigma**-2)
        bread = np.linalg.inv((slope * curvature[:, None]).T @ slope + precision)
        names, index = np.unique(groups, return_inverse=True)
        scores = np.zeros((len(names), slope.shape[1]))
        np.add.at(scores, index, slope * pull[:, None])
        # Few groups underestimate their own scatter.
        meat = scores.T @ scores * len(names) / max(len(names) - 1, 1)
        covariance = bread @ (meat + precision) @ bread
        return np.asarray((covariance + covariance.T) / 2)


def _soft(error: Floats) -> Floats:
    """Return residuals whose squares are the soft L1 loss, 2 (sqrt(1 + e²) - 1)."""
    # Written so that small errors do not cancel: 2 (sqrt(1 + e²) - 1) = 2 e² / (sqrt(1 + e²) + 1).
    return np.asarray(error * np.sqrt(2 / (np.sqrt(1 + error**2) + 1)))


def _soft_slope(error: Floats) -> Floats:
    """Return the derivative of `_soft`."""
    root = np.sqrt(1 + error**2)
    # d/de sqrt(L) = L' / (2 sqrt(L)), with L' = 2 e / root and sqrt(L) = e sqrt(2 / (root + 1)).
    return np.asarray(np.sqrt((root + 1) / 2) / root)
