r"""Layers predicted together: what their errors have in common, and what measuring one would tell.

A layer's prediction errs for two kinds of reasons: what the estimator does not know (a rate, a shape
never measured), which similar layers share, and the noise of a measurement, which is each layer's own.
A total of many layers is therefore less sure than its layers' variances alone would say, and a
measurement of one layer makes others surer.

Gaussian processes know the first part as their posterior covariance C (Rasmussen & Williams, *Gaussian
Processes for Machine Learning*, 2006, Eq. 2.24). What it is a covariance of follows from the process:
latencies [ms], or their logarithms.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, solve_triangular

from accelperf.features import FeatureMatrix
from accelperf.models.base import Prediction, Predictor
from accelperf.models.calibrated_predictor import CalibratedPredictor, Layers
from accelperf.models.network_predictor import NetworkMeanPredictor
from accelperf.models.predictors import GaussianProcessPredictor, log_mean
from accelperf.models.totals import Totals

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class JointPrediction(Protocol):
    """Predictions of the same layers on several designs: all layers of a design, then the next."""

    @property
    def median_ms(self) -> Floats:
        """Predicted latency of each layer [ms], shape [designs x layers]."""

    def totals(self, counts: Integers) -> Totals:
        """Return each design's total, with each layer so many times, one after another [designs]."""


@runtime_checkable
class PosteriorPrediction(JointPrediction, Protocol):
    """One that knows what its errors have in common. Rows are layers on designs."""

    logarithmic: bool
    """Whether the variances are of the logarithm of latencies."""

    def latent_variance(self) -> Floats:
        """Return the variance that measurements could take away, shape [rows]."""

    def latent_covariance(self, row: int) -> Floats:
        """Return the covariance of all rows with one, shape [rows]."""

    def noise_variance(self) -> Floats:
        """Return the variance of one measurement's noise, shape [rows]."""


def joint_prediction(predictor: Predictor, features: FeatureMatrix) -> JointPrediction:
    """Return the predictions of layers on designs, with what their errors have in common if known.

    Parameters
    ----------
    predictor : Predictor
        Any. Those without uncertainty give totals without; of other ones that are no Gaussian process
        all layers are taken to err in step, the widest case.
    features : FeatureMatrix
        The same layers in the same order for each design.
    """
    if isinstance(predictor, CalibratedPredictor):
        return CalibratedPosterior(predictor, features)
    if isinstance(predictor, NetworkMeanPredictor):
        process = predictor.process
        output = predictor.network(process.standardiser(features.parameters))
        return ProcessPosterior(process, features, predictor.latency_mean + process.residual_scale * output)
    if isinstance(predictor, GaussianProcessPredictor):
        return ProcessPosterior(predictor, features, predictor.mean_ms(features))
    return InStepPrediction(predictor.predict(features))


class InStepPrediction:
    """Predictions that know nothing of each other: their totals are as wide as they can be."""

    def __init__(self, prediction: Prediction) -> None:
        self.prediction = prediction

    @property
    def median_ms(self) -> Floats:
        """Predicted latency of each layer [ms]."""
        return self.prediction.median_ms

    def totals(self, counts: Integers) -> Totals:
        """Return sums, with the sums of standard deviations where there are any, as normal."""
        median = self.median_ms.reshape(-1, len(counts)) @ counts
        if self.prediction.std_ms is None:
            return Totals(median)
        return Totals(median, self.prediction.std_ms.reshape(-1, len(counts)) @ counts)


class ProcessPosterior:
    r"""Layers predicted by a Gaussian process.

    For latencies themselves (response ``difference``), the total of a design is normal, with variance
    :math:`n^T C n + \sum_l n_l \sigma^2` for :math:`n_l` times layer l. For their logarithms (``ratio``)
    it is taken as log-normal around the sum of medians, to first order in the relative errors, with
    each layer's share of the total in place of 1.

    Parameters
    ----------
    process : GaussianProcessPredictor
        The process.
    features : FeatureMatrix
        The rows.
    mean_ms : array of shape [rows]
        The mean function [ms].
    """

    def __init__(self, process: GaussianProcessPredictor, features: FeatureMatrix, mean_ms: Floats) -> None:
        self.process = process
        self.logarithmic = process.response == "ratio"
        self._inputs = process.standardiser(features.parameters)
        self._cross = process.kernel(self._inputs, process.inputs)
        residual = process.residual_scale * (self._cross @ process.weights)
        if self.logarithmic:
            self._median_ms = np.exp(log_mean(mean_ms, process.mean_name) + residual)
        else:
            self._median_ms = np.asarray(mean_ms + residual)

    @property
    def median_ms(self) -> Floats:
        """Predicted latency of each layer [ms]."""
        return self._median_ms

    def totals(self, counts: Integers) -> Totals:
        """Return the totals with their joint variance."""
        process, layers = self.process, len(counts)
        median = self._median_ms.reshape(-1, layers)
        total = np.asarray(median @ counts, dtype=np.float64)
        # Weight of one copy of a layer in the total, or in its logarithm.
        one = median / total[:, None] if self.logarithmic else np.ones_like(median)
        every = one * counts
        cross = self._cross.reshape(len(total), layers, -1)
        combined = np.matmul(every[:, None, :], cross)[:, 0, :]
        explained = np.sum(solve_triangular(process.cholesky, combined.T, lower=True) ** 2, axis=0)
        prior = np.array(
            [
                weights @ process.kernel(inputs, inputs) @ weights
                for weights, inputs in zip(every, _blocks(self._inputs, layers), strict=True)
            ]
        )
        noise = process.noise_variance * np.sum(counts * one**2, axis=1)
        variance = np.maximum(prior - explained, 0) + noise
        return Totals(total, process.residual_scale * np.sqrt(variance), self.logarithmic)

    def latent_variance(self) -> Floats:
        """Return the posterior variance without noise [ms², or of the logarithm]."""
        projected = solve_triangular(self.process.cholesky, self._cross.T, lower=True)
        variance = self.process.kernel.diagonal(self._inputs) - np.sum(projected**2, axis=0)
        return np.asarray(self.process.residual_scale**2 * np.maximum(variance, 0))

    def latent_covariance(self, row: int) -> Floats:
        """Return the posterior covariance with one row."""
        prior = self.process.kernel(self._inputs, self._inputs[row : row + 1])[:, 0]
        solved = cho_solve((self.process.cholesky, True), self._cross[row])
        return np.asarray(self.process.residual_scale**2 * (prior - self._cross @ solved))

    def noise_variance(self) -> Floats:
        """Return the variance of the noise, the same for all."""
        return np.full(
            len(self._median_ms), self.process.residual_scale**2 * float(self.process.noise_variance)
        )


class CalibratedPosterior:
    r"""Layers predicted by the calibrated roofline and its residual process.

    The totals are those of `CalibratedPredictor.predict_totals`, for many designs at once and with
    equal layers counted instead of repeated. Variances are of the logarithm.

    Parameters
    ----------
    predictor : CalibratedPredictor
        The predictor.
    features : FeatureMatrix
        The rows.
    """

    logarithmic = True

    def __init__(self, predictor: CalibratedPredictor, features: FeatureMatrix) -> None:
        self.predictor = predictor
        layers = Layers.of(features)
        roofline = predictor.roofline(layers)
        self._rows = predictor.rows(layers, roofline)
        mean, self._variance = predictor.residual(self._rows)
        self._factors = predictor.factors(self._rows, self._variance)
        self._median_ms = np.asarray(np.exp(roofline.log_ms + mean), dtype=np.float64)
        self._cross = predictor.covariance(self._rows, predictor.support)
        self._explained = np.sum((self._cross @ predictor.precision) * self._cross, axis=1)
        # What the rates of an accelerator never measured add, shared by all its layers.
        new = ~np.isin(self._rows.accelerators, predictor.accelerators)
        self._spread = self._rows.jacobian * predictor.accelerator_sigma * new[:, None]

    @property
    def median_ms(self) -> Floats:
        """Predicted latency of each layer [ms]."""
        return self._median_ms

    def totals(self, counts: Integers) -> Totals:
        """Return the totals with their joint variance."""
        layers = len(counts)
        median = self._median_ms.reshape(-1, layers)
        total = median @ counts
        share = median / total[:, None]
        one = self._factors.reshape(-1, layers) * share
        every = one * counts
        cross = self._cross.reshape(len(total), layers, -1)
        combined = np.matmul(every[:, None, :], cross)[:, 0, :]
        explained = np.sum((combined @ self.predictor.precision) * combined, axis=1)
        prior = np.empty(len(total))
        for place, weights in enumerate(every):
            part = self._rows.take(np.arange(place * layers, (place + 1) * layers))
            prior[place] = weights @ self.predictor.covariance(part, part) @ weights
        # Each copy of a layer has noise, and a shape's unknown deviation, of its own.
        own = self._variance - (self.predictor.covariance.diagonal(self._rows) - self._explained)
        added = np.sum(counts * one**2 * own.reshape(-1, layers), axis=1)
        spread = self._spread.reshape(len(total), layers, -1)
        common = np.sum(np.einsum("dl,dlp->dp", share * counts, spread) ** 2, axis=1)
        sigma = np.sqrt(np.maximum(prior - explained + added, 0) + common)
        return Totals(total, sigma, logarithmic=True)

    def latent_variance(self) -> Floats:
        """Return the variance without measurement noise, inflated as the predictions are."""
        latent = np.maximum(self._variance - self.noise_variance(), 0)
        return np.asarray(self._factors**2 * latent + np.sum(self._spread**2, axis=1))

    def latent_covariance(self, row: int) -> Floats:
        """Return the covariance with one row, inflated likewise; with itself `latent_variance`."""
        part = self._rows.take(np.array([row]))
        prior = self.predictor.covariance(self._rows, part)[:, 0]
        covariance = prior - self._cross @ (self.predictor.precision @ self._cross[row])
        scaled = self._factors * self._factors[row] * covariance + self._spread @ self._spread[row]
        scaled[row] = self.latent_variance()[row]
        return np.asarray(scaled)

    def noise_variance(self) -> Floats:
        """Return the variance of one measurement."""
        return self.predictor.noise.variance(self._rows.memory_share)


def _blocks(rows: Floats, size: int) -> Iterator[Floats]:
    """Yield so many rows at a time."""
    for start in range(0, len(rows), size):
        yield rows[start : start + size]
