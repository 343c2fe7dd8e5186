"""Fitted estimators as numbers: what predicts, with NumPy alone.

Training hands its result over as one of these; a bundle stores their state as JSON and arrays.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, solve_triangular

from accelperf.analytic import NUMPY, latency_ms
from accelperf.features import FeatureMatrix
from accelperf.models.base import FitError, Prediction
from accelperf.models.kernels import Kernel, KernelPart
from accelperf.models.means import get_mean

Floats = NDArray[np.float64]
State = tuple[dict[str, Any], dict[str, NDArray[Any]]]


@dataclass(frozen=True)
class Standardiser:
    """Columns shifted to mean 0 and scaled to standard deviation 1; constant ones become 0.

    Attributes
    ----------
    mean, scale : array of shape [columns]
        Mean, and standard deviation or 0 for a constant column, in the columns' units.
    """

    mean: Floats
    scale: Floats

    @classmethod
    def fit(cls, values: Floats) -> Standardiser:
        """Return the standardiser of values [rows, columns]."""
        constant = np.all(values == values[:1], axis=0)
        return cls(values.mean(axis=0), np.where(constant, 0.0, values.std(axis=0)))

    def __call__(self, values: Floats) -> Floats:
        """Return scaled values [rows, columns], without unit."""
        constant = self.scale == 0
        return np.where(constant, 0.0, (values - self.mean) / np.where(constant, 1.0, self.scale))


@dataclass(frozen=True)
class StandardPredictor:
    """The analytic model itself (Eq. 4-7 of the paper); nothing in it is learned."""

    kind: ClassVar[str] = "standard"
    variant: str

    def predict(self, features: FeatureMatrix) -> Prediction:
        """Return the latencies of `accelperf.analytic.latency_ms` [ms]."""
        return Prediction(np.asarray(latency_ms(features.latency_inputs(), self.variant), dtype=np.float64))

    def state(self) -> State:
        """Return the variant's name."""
        return {"variant": self.variant}, {}

    @classmethod
    def from_state(cls, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> StandardPredictor:
        """Return the predictor that `state` described."""
        return cls(values["variant"])


@dataclass(frozen=True)
class LinearPredictor:
    """A linear function of the standardised parameters.

    Attributes
    ----------
    standardiser : Standardiser
        Scaling of the 15 parameters.
    coefficients : array of shape [15]
        Slopes [ms per standard deviation].
    intercept : float
        Latency at the mean of the training rows [ms].
    """

    kind: ClassVar[str] = "linear"
    standardiser: Standardiser
    coefficients: Floats
    intercept: float

    def predict(self, features: FeatureMatrix) -> Prediction:
        """Return the latencies [ms]."""
        return Prediction(self.standardiser(features.parameters) @ self.coefficients + self.intercept)

    def state(self) -> State:
        """Return the scaling and the coefficients."""
        return {"intercept": self.intercept}, {
            "mean": self.standardiser.mean,
            "scale": self.standardiser.scale,
            "coefficients": self.coefficients,
        }

    @classmethod
    def from_state(cls, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> LinearPredictor:
        """Return the predictor that `state` described."""
        standardiser = Standardiser(arrays["mean"], arrays["scale"])
        return cls(standardiser, arrays["coefficients"], values["intercept"])


@dataclass(frozen=True)
class GaussianProcessPredictor:
    r"""A Gaussian process with fixed hyperparameters, conditioned on its training rows.

    .. math::

        E[y_*] &= m(X_*) + K_* (K + \sigma^2 I)^{-1} (y - m(X)) \\
        V[y_*] &= k_{**} - K_* (K + \sigma^2 I)^{-1} K_*^T + \sigma^2

    The kernel works on standardised parameters and on residuals in units of `residual_scale`.

    Attributes
    ----------
    mean_name : str
        Mean function, by its name in `accelperf.models.means`.
    modules : tuple of str
        Modules that registered it, if any.
    standardiser : Standardiser
        Scaling of the 15 parameters.
    kernel : Kernel
        Covariance with its hyperparameters [residual_scale squared].
    noise_variance : float
        Variance of the noise [residual_scale squared].
    residual_scale : float
        Root mean square of the training residuals y - m(X) [ms].
    inputs : array of shape [rows, 15]
        Standardised parameters of the training rows.
    residuals : array of shape [rows]
        Training residuals [residual_scale].

    Raises
    ------
    FitError
        If the covariance is not positive definite.

    References
    ----------
    Rasmussen & Williams, *Gaussian Processes for Machine Learning*, 2006, Eq. 2.22-2.27; Ferianc
    et al., ARC 2020, Eq. 2-3.
    """

    kind: ClassVar[str] = "gaussian_process"
    mean_name: str
    modules: tuple[str, ...]
    standardiser: Standardiser
    kernel: Kernel
    noise_variance: float
    residual_scale: float
    inputs: Floats
    residuals: Floats

    @cached_property
    def cholesky(self) -> Floats:
        """Lower Cholesky factor of K + noise [rows, rows]."""
        covariance = self.kernel(self.inputs, self.inputs)
        covariance[np.diag_indices_from(covariance)] += self.noise_variance
        try:
            return np.linalg.cholesky(covariance)
        except np.linalg.LinAlgError:
            raise FitError("the covariance of the training rows is not positive definite") from None

    @cached_property
    def weights(self) -> Floats:
        """(K + noise)⁻¹ residuals [rows]."""
        solved: Floats = cho_solve((self.cholesky, True), self.residuals)
        return solved

    def mean_ms(self, features: FeatureMatrix) -> Floats:
        """Return the mean function's latencies [ms]."""
        mean = get_mean(self.mean_name, self.modules)
        return np.asarray(mean(features.latency_inputs(), NUMPY), dtype=np.float64)

    def predict(self, features: FeatureMatrix) -> Prediction:
        """Return normal predictive distributions [ms], noise included."""
        return self.predict_parameters(features.parameters, self.mean_ms(features))

    def predict_parameters(self, parameters: Floats, mean_ms: Floats) -> Prediction:
        """Return what `predict` does for parameters [rows, 15] and means [rows] [ms]."""
        inputs = self.standardiser(parameters)
        cross = self.kernel(inputs, self.inputs)
        projected = solve_triangular(self.cholesky, cross.T, lower=True)
        variance = self.kernel.diagonal(inputs) - np.sum(projected**2, axis=0) + self.noise_variance
        # Rounding can leave less than the noise where a training row is repeated.
        std = self.residual_scale * np.sqrt(np.maximum(variance, self.noise_variance))
        return Prediction.normal(mean_ms + self.residual_scale * (cross @ self.weights), std)

    def predict_loo(self, features: FeatureMatrix) -> Prediction:
        r"""Return leave-one-out predictions of the training rows at fixed hyperparameters.

        :math:`\mu_i = y_i - [K^{-1} r]_i / [K^{-1}]_{ii}` and
        :math:`\sigma_i^2 = 1 / [K^{-1}]_{ii}`, K with noise and r the residuals.

        Parameters
        ----------
        features : FeatureMatrix
            The training rows, in training order.

        Returns
        -------
        Prediction
            One row for each training row [ms].

        References
        ----------
        Rasmussen & Williams, 2006, Eq. 5.10-5.12.
        """
        inverse = cho_solve((self.cholesky, True), np.eye(len(self.residuals)))
        precision = np.diag(inverse)
        left_out = self.residuals - self.weights / precision
        std = self.residual_scale / np.sqrt(precision)
        return Prediction.normal(self.mean_ms(features) + self.residual_scale * left_out, std)

    def state(self) -> State:
        """Return hyperparameters, scaling and training rows."""
        values = {
            "mean": self.mean_name,
            "modules": list(self.modules),
            "operation": self.kernel.operation,
            "kernels": [part.name for part in self.kernel.parts],
            "noise_variance": self.noise_variance,
            "residual_scale": self.residual_scale,
        }
        arrays: dict[str, NDArray[Any]] = {
            "mean": self.standardiser.mean,
            "scale": self.standardiser.scale,
            "inputs": self.inputs,
            "residuals": self.residuals,
        }
        for index, part in enumerate(self.kernel.parts):
            arrays[f"variance_{index}"] = part.variance
            arrays[f"lengthscales_{index}"] = part.lengthscales
        return values, arrays

    @classmethod
    def from_state(cls, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> GaussianProcessPredictor:
        """Return the predictor that `state` described."""
        parts = tuple(
            KernelPart(name, arrays[f"variance_{index}"], arrays[f"lengthscales_{index}"])
            for index, name in enumerate(values["kernels"])
        )
        return cls(
            mean_name=values["mean"],
            modules=tuple(values["modules"]),
            standardiser=Standardiser(arrays["mean"], arrays["scale"]),
            kernel=Kernel(values["operation"], parts),
            noise_variance=values["noise_variance"],
            residual_scale=values["residual_scale"],
            inputs=arrays["inputs"],
            residuals=arrays["residuals"],
        )
