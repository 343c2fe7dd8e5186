"""Fitted estimators as numbers: what predicts, with NumPy alone.

Training hands its result over as one of these; a bundle stores their state as JSON and arrays.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, solve_triangular

from accelperf.analytic import NUMPY, latency_ms
from accelperf.features import FeatureMatrix
from accelperf.models.base import FitError, Prediction
from accelperf.models.kernels import Kernel, KernelPart
from accelperf.models.log_normal import log_normal
from accelperf.models.means import get_mean
from accelperf.models.roofline import CalibratedRoofline

Floats = NDArray[np.float64]
State = tuple[dict[str, Any], dict[str, NDArray[Any]]]
Response = Literal["difference", "ratio"]
"""What a process explains: y - m(X), or log(y / m(X))."""


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

    The kernel works on standardised parameters and on residuals in units of `residual_scale`. With the
    response ``ratio`` the residuals are log(y / m(X)), and predictions are log-normal around the mean.

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
        Root mean square of the training residuals [ms; no unit for ratios].
    inputs : array of shape [rows, 15]
        Standardised parameters of the training rows.
    residuals : array of shape [rows]
        Training residuals [residual_scale].
    response : {"difference", "ratio"}
        What the residuals are.
    row_noise : array of shape [rows]
        Variance that a training row has beyond the noise, for the spread of its runs [residual_scale
        squared]; zero where that is unknown.
    roofline : CalibratedRoofline, optional
        The mean, where it was fitted to the training rows.

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
    response: Response = "difference"
    row_noise: Floats | float = 0.0
    roofline: CalibratedRoofline | None = None

    @cached_property
    def cholesky(self) -> Floats:
        """Lower Cholesky factor of K + noise [rows, rows]."""
        covariance = self.kernel(self.inputs, self.inputs)
        covariance[np.diag_indices_from(covariance)] += self.noise_variance + self.row_noise
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
        if self.roofline is not None:
            return self.roofline.latency_ms(features)
        mean = get_mean(self.mean_name, self.modules)
        return np.asarray(mean(features.latency_inputs(), NUMPY), dtype=np.float64)

    def predict(self, features: FeatureMatrix) -> Prediction:
        """Return predictive distributions [ms], noise included: normal, or log-normal for ratios."""
        return self.predict_parameters(features.parameters, self.mean_ms(features))

    def predict_parameters(self, parameters: Floats, mean_ms: Floats) -> Prediction:
        """Return what `predict` does for parameters [rows, 15] and means [rows] [ms]."""
        inputs = self.standardiser(parameters)
        cross = self.kernel(inputs, self.inputs)
        projected = solve_triangular(self.cholesky, cross.T, lower=True)
        variance = self.kernel.diagonal(inputs) - np.sum(projected**2, axis=0) + self.noise_variance
        # Rounding can leave less than the noise where a training row is repeated.
        std = np.sqrt(np.maximum(variance, self.noise_variance))
        return self._prediction(mean_ms, cross @ self.weights, std)

    def predict_loo(self, mean_ms: Floats, residuals: Floats | None = None) -> Prediction:
        r"""Return leave-one-out predictions of the training rows at fixed hyperparameters.

        :math:`\mu_i = y_i - [K^{-1} r]_i / [K^{-1}]_{ii}` and
        :math:`\sigma_i^2 = 1 / [K^{-1}]_{ii}`, K with noise and r the residuals. Nothing in it depends
        on :math:`r_i`, so that r may be another one for every i: that of a mean fitted without i.

        Parameters
        ----------
        mean_ms : array of shape [rows]
            The mean of each training row, in training order [ms].
        residuals : array of shape [rows, rows], optional
            All training residuals once row i is left out, for every i [residual_scale]; those that
            the process is conditioned on by default.

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
        if residuals is None:
            left_out = self.residuals - self.weights / precision
        else:
            left_out = np.diag(residuals) - np.einsum("ij,ij->i", inverse, residuals) / precision
        # What the spread of its own runs adds to a row is not part of predicting it.
        variance = 1 / precision - self.row_noise
        return self._prediction(mean_ms, left_out, np.sqrt(np.maximum(variance, self.noise_variance)))

    def _prediction(self, mean_ms: Floats, residual: Floats, std: Floats) -> Prediction:
        """Return the distribution around a mean [ms] of residuals and deviations [residual_scale]."""
        residual, std = self.residual_scale * residual, self.residual_scale * std
        if self.response == "difference":
            return Prediction.normal(mean_ms + residual, std)
        return log_normal(log_mean(mean_ms, self.mean_name) + residual, std)

    def state(self) -> State:
        """Return hyperparameters, scaling and training rows."""
        values = {
            "mean": self.mean_name,
            "modules": list(self.modules),
            "operation": self.kernel.operation,
            "kernels": [part.name for part in self.kernel.parts],
            "noise_variance": self.noise_variance,
            "residual_scale": self.residual_scale,
            "response": self.response,
        }
        arrays: dict[str, NDArray[Any]] = {
            "mean": self.standardiser.mean,
            "scale": self.standardiser.scale,
            "inputs": self.inputs,
            "residuals": self.residuals,
            "cholesky": self.cholesky,
            "row_noise": np.broadcast_to(self.row_noise, self.residuals.shape),
        }
        if self.roofline is not None:
            values["roofline"] = self.roofline.values()
            arrays["roofline_parameters"] = self.roofline.parameters
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
        roofline = None
        if "roofline" in values:
            roofline = CalibratedRoofline.from_values(values["roofline"], arrays["roofline_parameters"])
        predictor = cls(
            mean_name=values["mean"],
            modules=tuple(values["modules"]),
            standardiser=Standardiser(arrays["mean"], arrays["scale"]),
            kernel=Kernel(values["operation"], parts),
            noise_variance=values["noise_variance"],
            residual_scale=values["residual_scale"],
            inputs=arrays["inputs"],
            residuals=arrays["residuals"],
            # Bundles of the first release know differences alone, and no spread of runs.
            response=values.get("response", "difference"),
            row_noise=arrays.get("row_noise", 0.0),
            roofline=roofline,
        )
        if "cholesky" in arrays:
            # As it was trained with, to the last digit; the first release had it computed again.
            predictor.__dict__["cholesky"] = arrays["cholesky"]
        return predictor


def log_mean(mean_ms: Floats, name: str) -> Floats:
    """Return the logarithm of a mean's latencies [log of ms], both of shape [rows].

    Raises
    ------
    FitError
        If one is not above 0: nothing is a ratio to that.
    """
    if not np.all(mean_ms > 0):
        raise FitError(
            f"response ratio needs a mean above 0 ms, got {np.min(mean_ms):g} ms from mean {name!r}"
        )
    return np.asarray(np.log(mean_ms))
