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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.optimize
from numpy.typing import NDArray

from accelperf.models.base import FitError
from accelperf.models.roofline import (
    OVERHEADS,
    TERMS,
    CalibratedRoofline,
    Floats,
    InputReads,
    LogRoofline,
    OutputWrites,
    RooflineTerms,
    Structure,
    Transfers,
    log_roofline,
    roofline_terms,
)

OVERHEAD_CYCLES: dict[str, float] = {"layer": 200.0, "filter_tile": 10.0, "tile": 2.0}
"""Prior medians [cycles]: starting a layer programs some registers, a tile fills a pipeline."""
OVERHEAD_SIGMA = 1.5
"""Prior standard deviation of the log overheads: a factor of 20 either way is not surprising."""
SHARED_PORTS_SIGMA = 0.3
"""Prior standard deviation of the log rates around their mean where transfers share the ports: short
bursts reach less of a port's peak than long ones, up to a factor of two."""
RESTART_SIGMA = 0.5
"""Spread of the random restarts, in log units."""
SIMPLER_IF_WITHIN = 2.0
"""Cost by which a less simple structure must be better (about 2 nats: Akaike's step)."""
IN_TURN_GAIN = 0.25
"""Share of the cost that transfers in turn must save: with them no rate can be read from a few layers
alone. Errors of unknown scale make n log(cost) the evidence of n layers, so that it is decisive even if
only a third of a hundred layers are independent (Kass & Raftery, *Bayes factors*, JASA 90, 1995)."""

ONE_SIDED = 0.1
"""Share by which a rate follows its prior from which on its posterior is no normal one around the mode."""
_REACH = 4.0
_GRID = 161
"""Prior standard deviations to either side, and points, over which such a posterior is summed up."""

INPUT_READS: tuple[InputReads, ...] = ("filter_tile", "once", "window")
OUTPUT_WRITES: tuple[OutputWrites, ...] = ("exact", "tiles")
WORD_BITS: tuple[int, ...] = (8, 32, 64, 128)
TRANSFERS: tuple[Transfers, ...] = ("side_by_side", "in_turn")
"""Choices of a `Structure`, the simplest or most common first."""


@dataclass(frozen=True)
class RooflineFit(CalibratedRoofline):
    """A calibrated roofline, and how well it is known.

    Attributes
    ----------
    covariance : array of shape [parameters, parameters]
        Covariance of the parameters.
    pull : array of shape [parameters]
        How far each parameter follows its prior, a rate the datasheet: by this share of its change.
        0 where data alone determine it, 1 where they say nothing.
    cost : float
        Value of the objective.
    """

    covariance: Floats
    pull: Floats
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

    def prior_precision(self, terms: RooflineTerms) -> Floats:
        """Return the inverse of the parameters' prior covariance, shape [parameters, parameters]."""
        precision = np.diag(self.prior_sigma**-2)
        if terms.in_turn:
            moving = slice(1, len(TERMS))
            count = len(TERMS) - 1
            precision[moving, moving] += (np.eye(count) - 1 / count) / SHARED_PORTS_SIGMA**2
        return precision

    def fit(
        self,
        inputs: dict[str, Floats],
        log_ms: Floats,
        groups: NDArray[np.str_],
        *,
        noise: Floats | None = None,
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
        noise : array of shape [rows], optional
            Known variance of each log latency; nothing is known of it by default.
        start : RooflineFit, optional
            Where to start; the prior medians and random restarts by default.
        search : bool
            Whether to decide the structure; else `start`'s is kept.

        Raises
        ------
        FitError
            If no start leads to a finite cost.
        """
        data = _Observations.of(inputs, log_ms, noise, self.robust_scale, self.prior_median(inputs, log_ms))
        structure = Structure() if start is None else start.structure
        starts = [data.median if start is None else start.parameters]
        if search:
            structure, decided = self._decide(data, starts[0], structure)
            starts = [decided]
        if start is None:
            generator = np.random.default_rng(self.seed)
            draws = generator.normal(0, RESTART_SIGMA, (self.restarts, len(starts[0])))
            starts.extend(data.median + draw for draw in draws)
        terms = roofline_terms(inputs, structure)
        found = [self._minimise(data, terms, values) for values in starts]
        parameters, cost = min(found, key=lambda item: item[1])
        if not np.isfinite(cost):
            raise FitError("the roofline could not be calibrated: no start has a finite cost")
        follows, spread = self._uncertainty(data, terms, parameters, groups)
        parameters, spread = self._centred(data, terms, parameters, follows, spread)
        return RooflineFit(
            structure=structure,
            parameters=parameters,
            sharpness=self.sharpness,
            covariance=spread,
            pull=_pull(follows),
            cost=cost,
        )

    def _decide(self, data: _Observations, start: Floats, first: Structure) -> tuple[Structure, Floats]:
        """Return the structure of least cost and its parameters, changing one choice after the other."""
        costs: dict[Structure, tuple[Floats, float]] = {}

        def cost_of(structure: Structure) -> float:
            if structure not in costs:
                costs[structure] = self._minimise(data, roofline_terms(data.inputs, structure), start)
            gain = IN_TURN_GAIN if structure.transfers == "in_turn" else 0.0
            return costs[structure][1] / (1 - gain)

        # What is read and how it is moved go together; the others are changed one at a time.
        choices: Sequence[Sequence[Mapping[str, Any]]] = (
            [{"input_reads": read, "transfers": moved} for moved in TRANSFERS for read in INPUT_READS],
            [{"word_bits": bits} for bits in WORD_BITS],
            [{"output_writes": writes} for writes in OUTPUT_WRITES],
        )
        structure = first
        # Two rounds: the second sees the first's other choices.
        for _ in range(2):
            for changes in choices:
                options = [replace(structure, **change) for change in changes]
                least = min(cost_of(option) for option in options)
                structure = next(o for o in options if cost_of(o) <= least + SIMPLER_IF_WITHIN)
        return structure, costs[structure][0]

    def _minimise(self, data: _Observations, terms: RooflineTerms, start: Floats) -> tuple[Floats, float]:
        """Return the parameters of least cost, and the cost."""
        scale = data.scale
        prior = np.linalg.cholesky(self.prior_precision(terms)).T
        known: dict[bytes, LogRoofline] = {}

        def roofline(values: Floats) -> LogRoofline:
            # The derivative is asked for where the value has just been.
            key = values.tobytes()
            if key not in known:
                known.clear()
                known[key] = log_roofline(terms, values, self.sharpness)
            return known[key]

        def residuals(values: Floats) -> Floats:
            error = (data.log_ms - roofline(values).log_ms) / scale
            return np.concatenate([_soft(error), prior @ (values - data.median)])

        def jacobian(values: Floats) -> Floats:
            at = roofline(values)
            error = (data.log_ms - at.log_ms) / scale
            slope = -at.jacobian * (_soft_slope(error) / scale)[:, None]
            return np.concatenate([slope, prior])

        found = scipy.optimize.least_squares(residuals, start, jacobian, method="trf", max_nfev=200)
        return np.asarray(found.x), float(found.cost)

    def _uncertainty(
        self, data: _Observations, terms: RooflineTerms, parameters: Floats, groups: NDArray[np.str_]
    ) -> tuple[Floats, Floats]:
        """Return how the parameters follow their prior medians, and their covariance.

        The first is the derivative of the one by the other. The covariance is the sandwich, clustered
        by group, with the prior as one more observation.
        """
        roofline = log_roofline(terms, parameters, self.sharpness)
        error = (data.log_ms - roofline.log_ms) / data.scale
        slope = roofline.jacobian / data.scale[:, None]
        # Derivative and curvature of the soft L1 loss.
        pull = error / np.sqrt(1 + error**2)
        curvature = (1 + error**2) ** -1.5
        precision = self.prior_precision(terms)
        bread = np.linalg.inv((slope * curvature[:, None]).T @ slope + precision)
        names, index = np.unique(groups, return_inverse=True)
        scores = np.zeros((len(names), slope.shape[1]))
        np.add.at(scores, index, slope * pull[:, None])
        # Few groups underestimate their own scatter.
        meat = scores.T @ scores * len(names) / max(len(names) - 1, 1)
        covariance = bread @ (meat + precision) @ bread
        # Errors far beyond the robust scale would leave a parameter less certain than it was before.
        shrink = np.minimum(1.0, self.prior_sigma / np.sqrt(np.diag(covariance)))
        covariance = covariance * np.outer(shrink, shrink)
        return bread @ precision, (covariance + covariance.T) / 2

    def _centred(
        self, data: _Observations, terms: RooflineTerms, mode: Floats, follows: Floats, covariance: Floats
    ) -> tuple[Floats, Floats]:
        """Return the parameters with the weights' rate at its median where data bound it on one side only.

        Of a rate that never binds data say that it is *at least* so much, and the mode of its
        posterior sits at that edge, next to the datasheet. For input and output that is where it
        belongs: they cannot beat the ports. Weights need nothing of the layer before, can be fetched
        while it computes, and then seem faster than the ports; half of their posterior lies well
        above the mode. The other parameters stay, since what never binds has no influence on them.
        """
        place = TERMS.index("weights")
        if follows[place, place] <= ONE_SIDED:
            return mode, covariance
        grid = data.median[place] + self.prior_sigma[place] * np.linspace(-_REACH, _REACH, _GRID)
        costs = np.empty(_GRID)
        for index, value in enumerate(grid):
            tried = mode.copy()
            tried[place] = value
            costs[index] = self._cost(data, terms, tried)
        density = np.exp(costs.min() - costs)
        density /= density.sum()
        parameters = mode.copy()
        parameters[place] = np.interp(0.5, np.cumsum(density), grid)
        deviation = float(np.sqrt(density @ (grid - density @ grid) ** 2))
        scale = np.ones(len(mode))
        scale[place] = deviation / np.sqrt(covariance[place, place])
        return parameters, covariance * np.outer(scale, scale)

    def _cost(self, data: _Observations, terms: RooflineTerms, values: Floats) -> float:
        """Return the objective, which is the negative log posterior but for a constant."""
        error = (data.log_ms - log_roofline(terms, values, self.sharpness).log_ms) / data.scale
        away = values - data.median
        return float(0.5 * (_soft(error) @ _soft(error) + away @ self.prior_precision(terms) @ away))


def _pull(follows: Floats) -> Floats:
    """Return how far each parameter follows its prior, a rate the datasheet."""
    # Another datasheet has another bandwidth, for weights, input and output alike.
    together = np.eye(len(follows))
    together[1 : len(TERMS), 1 : len(TERMS)] = 1.0
    return np.asarray(np.clip(np.sum(follows * together, axis=1), 0.0, 1.0))


@dataclass(frozen=True)
class _Observations:
    """What a calibration sees.

    Attributes
    ----------
    inputs : dict of str to array
        As `accelperf.models.roofline.roofline_inputs` returns them, shape [rows].
    log_ms : array of shape [rows]
        Log latencies [log of ms].
    scale : array of shape [rows]
        Relative error up to which a row counts by least squares.
    median : array of shape [parameters]
        Prior medians.
    """

    inputs: dict[str, Floats]
    log_ms: Floats
    scale: Floats
    median: Floats

    @classmethod
    def of(
        cls, inputs: dict[str, Floats], log_ms: Floats, noise: Floats | None, scale: float, median: Floats
    ) -> _Observations:
        scales = np.full(len(log_ms), scale)
        if noise is not None:
            # To the last digit the usual scale, where nothing is known.
            scales = np.where(noise > 0, np.sqrt(scale**2 + noise), scales)
        return cls(inputs, log_ms, scales, median)


def _soft(error: Floats) -> Floats:
    """Return residuals whose squares are the soft L1 loss, 2 (sqrt(1 + e²) - 1)."""
    # Written so that small errors do not cancel: 2 (sqrt(1 + e²) - 1) = 2 e² / (sqrt(1 + e²) + 1).
    return np.asarray(error * np.sqrt(2 / (np.sqrt(1 + error**2) + 1)))


def _soft_slope(error: Floats) -> Floats:
    """Return the derivative of `_soft`."""
    root = np.sqrt(1 + error**2)
    # d/de sqrt(L) = L' / (2 sqrt(L)), with L' = 2 e / root and sqrt(L) = e sqrt(2 / (root + 1)).
    return np.asarray(np.sqrt((root + 1) / 2) / root)
