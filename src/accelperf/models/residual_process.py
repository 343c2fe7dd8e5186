r"""What the roofline leaves: a Gaussian process over log(latency / roofline).

Its covariance, for distinct layers x and x' on accelerators a and a', is

.. math::

    k = s(x)\,s(x')\,M_{3/2}(x, x') + \upsilon(x)\,\upsilon(x') [\text{same shape}]
        + \tau(x)^2 [x = x'] + J \Sigma J'^T + \omega^2 J J'^T [a = a']

* a Matérn-3/2 process over the layer's size and the shares of the roofline's terms, which knows
  nothing of the accelerator but these shares, so that it cannot extrapolate over PF, PC or clocks;
* a deviation of its own for every shape, the same on all accelerators;
* a deviation of its own for every shape on every accelerator, which repeats when the layer does;
* what is uncertain about the rates (:math:`\Sigma`, J the derivative of the roofline), shared by
  all accelerators;
* deviations of one accelerator's rates from the common ones.

Measurements add noise :math:`\sigma(x)^2`. The amplitudes s, :math:`\upsilon`,
:math:`\tau` and :math:`\sigma` go
geometrically from one value for layers bound by compute to another for those bound by memory: the
first are nearly deterministic, the second are not. The layers' own deviations have Student's heavy
tails, so that a layer unlike all others stays alone with that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, lapack

from accelperf.models.base import FitError
from accelperf.models.roofline import Floats

AMPLITUDES: tuple[str, ...] = (
    "smooth_compute",
    "smooth_memory",
    "shape_compute",
    "shape_memory",
    "own_compute",
    "own_memory",
    "accelerator",
)
"""Standard deviations of log(latency / roofline), before the lengthscales in the hyperparameters."""
AMPLITUDE_MEDIANS: tuple[float, ...] = (0.003, 0.02, 0.003, 0.02, 0.003, 0.02, 0.01)
"""Prior medians: relative deviations as engineers expect them of a calibrated model."""
INPUT_GROUPS: tuple[slice, ...] = (slice(0, 5), slice(5, None))
"""Inputs that share a lengthscale: sizes, and shares."""
AMPLITUDE_SIGMA = 1.0
LENGTHSCALE_MEDIAN = 2.0
"""Prior median of the lengthscales, in standard deviations of each input."""
LENGTHSCALE_SIGMA = 0.5
TAIL_DEGREES = 2.0
"""Degrees of freedom of the layers' own deviations: a few are far out, and must not bend the rest."""
TURN_BACK = 1e10
"""Loss where the covariance cannot be factorised: finite, and worse than any real one."""


@dataclass(frozen=True)
class ProcessRows:
    """Layers as the process sees them.

    Attributes
    ----------
    inputs : array of shape [rows, inputs]
        Scaled sizes and shares.
    memory_share : array of shape [rows]
        0 for a layer that computes all the time, 1 for one that never does.
    jacobian : array of shape [rows, parameters]
        Derivative of the log roofline by its parameters.
    shapes, accelerators : array of str, shape [rows]
        Names of the layer's shape and of the accelerator's configuration.
    keys : array of str, shape [rows]
        Name of the shape on the accelerator; an empty one equals none.
    tails : array of shape [rows]
        Factor on the variance of the layer's own deviation: 1, and more for an outlier.
    """

    inputs: Floats
    memory_share: Floats
    jacobian: Floats
    shapes: NDArray[np.str_]
    accelerators: NDArray[np.str_]
    keys: NDArray[np.str_]
    tails: Floats

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.memory_share)

    def take(self, rows: NDArray[Any]) -> ProcessRows:
        """Return some of the rows."""
        return ProcessRows(
            self.inputs[rows],
            self.memory_share[rows],
            self.jacobian[rows],
            self.shapes[rows],
            self.accelerators[rows],
            self.keys[rows],
            self.tails[rows],
        )


def interpolate(compute: float, memory: float, memory_share: Floats) -> Floats:
    """Return an amplitude that goes geometrically from one for compute to one for memory, [rows]."""
    return np.asarray(compute ** (1 - memory_share) * memory**memory_share)


def equal_names(first: NDArray[np.str_], second: NDArray[np.str_]) -> NDArray[np.bool_]:
    """Return which names of one array equal which of another, shape [first, second]."""
    # Whole numbers compare hundreds of times faster than long names.
    _, codes = np.unique(np.concatenate([first, second]), return_inverse=True)
    return np.asarray(codes[: len(first), None] == codes[len(first) :])


def inverse_of(cholesky: Floats) -> Floats:
    """Return the inverse of the matrix with that lower Cholesky factor, shape [rows, rows]."""
    # A third of what solving for the unit matrix takes.
    lower, _ = lapack.dpotri(cholesky, lower=1)
    lower = np.tril(lower)
    return np.asarray(lower + np.tril(lower, -1).T)


def _scaled_distance(first: Floats, second: Floats, lengthscales: Floats) -> Floats:
    """Return sqrt(3) r between all pairs, shape [first, second]."""
    a, b = first / lengthscales, second / lengthscales
    squared = np.sum(a**2, axis=1)[:, None] + np.sum(b**2, axis=1) - 2 * a @ b.T
    return np.asarray(np.sqrt(3 * np.maximum(squared, 0)))


@dataclass(frozen=True)
class ResidualCovariance:
    """The covariance with its hyperparameters.

    Attributes
    ----------
    amplitudes : array of shape [len(AMPLITUDES)]
        Standard deviations [log of ms].
    lengthscales : array of shape [len(INPUT_GROUPS)]
        Of the Matérn-3/2 process, in units of the scaled inputs.
    rate_covariance : array of shape [parameters, parameters]
        Covariance of the roofline's parameters.
    """

    amplitudes: Floats
    lengthscales: Floats
    rate_covariance: Floats

    @classmethod
    def from_values(cls, values: Floats, rate_covariance: Floats) -> ResidualCovariance:
        """Return the covariance of log hyperparameters: amplitudes, then lengthscales."""
        exponentials = np.exp(values)
        return cls(exponentials[: len(AMPLITUDES)], exponentials[len(AMPLITUDES) :], rate_covariance)

    def smooth(self, memory_share: Floats) -> Floats:
        """Return the amplitude of the smooth part, shape [rows]."""
        return interpolate(self.amplitudes[0], self.amplitudes[1], memory_share)

    def shape(self, memory_share: Floats) -> Floats:
        """Return the standard deviation of a shape's own deviation, shape [rows]."""
        return interpolate(self.amplitudes[2], self.amplitudes[3], memory_share)

    def own(self, rows: ProcessRows) -> Floats:
        """Return the standard deviation of a layer's own deviation, shape [rows]."""
        ordinary = interpolate(self.amplitudes[4], self.amplitudes[5], rows.memory_share)
        return np.asarray(ordinary * np.sqrt(rows.tails))

    def __call__(self, first: ProcessRows, second: ProcessRows) -> Floats:
        """Return the covariance between two sets of layers, shape [first, second]."""
        lengthscales = np.empty(first.inputs.shape[1])
        for part, lengthscale in zip(INPUT_GROUPS, self.lengthscales, strict=True):
            lengthscales[part] = lengthscale
        distance = _scaled_distance(first.inputs, second.inputs, lengthscales)
        amplitude = np.outer(self.smooth(first.memory_share), self.smooth(second.memory_share))
        covariance = amplitude * (1 + distance) * np.exp(-distance)
        covariance += first.jacobian @ self.rate_covariance @ second.jacobian.T
        same = equal_names(first.accelerators, second.accelerators)
        covariance += self.amplitudes[6] ** 2 * same * (first.jacobian @ second.jacobian.T)
        same_shape = equal_names(first.shapes, second.shapes)
        covariance += same_shape * np.outer(self.shape(first.memory_share), self.shape(second.memory_share))
        equal = equal_names(first.keys, second.keys) & (first.keys != "")[:, None]
        return np.asarray(covariance + equal * np.outer(self.own(first), self.own(second)))

    def diagonal(self, rows: ProcessRows) -> Floats:
        """Return the prior variance of each layer, its own deviation included, shape [rows]."""
        variance = self.smooth(rows.memory_share) ** 2 + self.own(rows) ** 2
        variance += self.shape(rows.memory_share) ** 2
        variance += np.sum((rows.jacobian @ self.rate_covariance) * rows.jacobian, axis=1)
        return np.asarray(variance + self.amplitudes[6] ** 2 * np.sum(rows.jacobian**2, axis=1))


def prior_medians() -> Floats:
    """Return the prior medians of the log hyperparameters, amplitudes then lengthscales."""
    return np.log([*AMPLITUDE_MEDIANS, *[LENGTHSCALE_MEDIAN] * len(INPUT_GROUPS)])


def _prior_sigmas() -> Floats:
    return np.array([AMPLITUDE_SIGMA] * len(AMPLITUDES) + [LENGTHSCALE_SIGMA] * len(INPUT_GROUPS))


def loss_of(
    rows: ProcessRows, residuals: Floats, noise_variance: Floats, rate_covariance: Floats
) -> Callable[[Floats], tuple[float, Floats]]:
    r"""Return the negative log posterior of the hyperparameters, with its gradient.

    The likelihood is that of Rasmussen & Williams, *Gaussian Processes for Machine Learning*, 2006,
    Eq. 2.30, its gradient Eq. 5.9; the priors are log-normal.

    Parameters
    ----------
    rows : ProcessRows
        Distinct layers.
    residuals : array of shape [rows]
        log(latency / roofline).
    noise_variance : array of shape [rows]
        Variance of each residual's measurement noise.
    rate_covariance : array of shape [parameters, parameters]
        Covariance of the roofline's parameters.

    Returns
    -------
    callable
        From log hyperparameters to loss [nats] and gradient.
    """
    share = rows.memory_share
    squared = np.stack(
        [
            np.sum((rows.inputs[:, None, part] - rows.inputs[None, :, part]) ** 2, axis=2)
            for part in INPUT_GROUPS
        ],
        axis=2,
    )
    fixed = rows.jacobian @ rate_covariance @ rows.jacobian.T + np.diag(noise_variance)
    same = equal_names(rows.accelerators, rows.accelerators)
    accelerator = same * (rows.jacobian @ rows.jacobian.T)
    same_shape = equal_names(rows.shapes, rows.shapes)
    compute_weight = (1 - share)[:, None] + (1 - share)
    medians, sigmas = prior_medians(), _prior_sigmas()

    def loss(values: Floats) -> tuple[float, Floats]:
        amplitudes = np.exp(values[: len(AMPLITUDES)])
        inverse_squares = np.exp(-2 * values[len(AMPLITUDES) :])
        distance = np.sqrt(3 * (squared @ inverse_squares))
        decay = np.exp(-distance)
        smooth = interpolate(amplitudes[0], amplitudes[1], share)
        scale = np.outer(smooth, smooth)
        matern = scale * (1 + distance) * decay
        shape = interpolate(amplitudes[2], amplitudes[3], share)
        by_shape = same_shape * np.outer(shape, shape)
        own = interpolate(amplitudes[4], amplitudes[5], share) ** 2 * rows.tails
        covariance = fixed + matern + by_shape + np.diag(own) + amplitudes[6] ** 2 * accelerator
        try:
            cholesky = np.linalg.cholesky(covariance)
        except np.linalg.LinAlgError:
            return TURN_BACK, np.zeros_like(values)
        weights = cho_solve((cholesky, True), residuals)
        away = (values - medians) / sigmas
        value = 0.5 * residuals @ weights + np.sum(np.log(np.diag(cholesky))) + 0.5 * away @ away
        # d loss / d a = tr((K^-1 - w w^T) dK/da) / 2.
        inner = inverse_of(cholesky) - np.outer(weights, weights)
        through_smooth = inner * matern
        diagonal = np.diag(inner)
        gradient = np.empty_like(values)
        gradient[0] = 0.5 * np.sum(through_smooth * compute_weight)
        gradient[1] = 0.5 * np.sum(through_smooth * (2 - compute_weight))
        through_shape = inner * by_shape
        gradient[2] = 0.5 * np.sum(through_shape * compute_weight)
        gradient[3] = 0.5 * np.sum(through_shape * (2 - compute_weight))
        gradient[4] = np.sum(diagonal * own * (1 - share))
        gradient[5] = np.sum(diagonal * own * share)
        gradient[6] = amplitudes[6] ** 2 * np.sum(inner * accelerator)
        # dM/d log l = 3 exp(-sqrt(3) r) (x - x')^2 / l^2.
        through_length = 1.5 * inner * scale * decay
        gradient[len(AMPLITUDES) :] = np.einsum("ij,ijd->d", through_length, squared) * inverse_squares
        return float(value), gradient + away / sigmas

    return loss


def fit_hyperparameters(
    rows: ProcessRows,
    residuals: Floats,
    noise_variance: Floats,
    rate_covariance: Floats,
    *,
    start: Floats | None = None,
    steps: int,
) -> Floats:
    """Return the log hyperparameters of greatest posterior density, amplitudes then lengthscales.

    Parameters
    ----------
    rows, residuals, noise_variance, rate_covariance
        See `loss_of`.
    start : array, optional
        Where to start; the prior medians by default.
    steps : int
        Optimiser steps at most.

    Raises
    ------
    FitError
        If the covariance cannot be factorised at the start.
    """
    import scipy.optimize  # prediction does without it, and it takes long to import

    loss = loss_of(rows, residuals, noise_variance, rate_covariance)
    found = scipy.optimize.minimize(
        loss,
        prior_medians() if start is None else start,
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": steps},
    )
    if not found.fun < TURN_BACK:
        raise FitError("the covariance of the residuals is not positive definite")
    return np.asarray(found.x)


def tail_factors(
    covariance: ResidualCovariance, rows: ProcessRows, weights: Floats, precision: Floats
) -> Floats:
    r"""Return how many times the ordinary variance each layer's own deviation has, shape [rows].

    The own deviations are Student-t distributed, a normal whose variance is inverse-gamma
    distributed: given the rest, the expectation of its inverse is
    :math:`(\nu + 1) / (\nu + E[d^2]/\tau^2)`. The posterior of a deviation of prior variance v is
    normal with mean :math:`v \alpha` and variance :math:`v - v^2 B`.

    Parameters
    ----------
    covariance : ResidualCovariance
        The covariance.
    rows : ProcessRows
        Layers that the process is conditioned on, with their present factors.
    weights, precision : array
        :math:`\alpha` of shape [rows] and B of shape [rows, rows]: (K + N)⁻¹ r and (K + N)⁻¹.

    References
    ----------
    Jylänki, Vanhatalo, Vehtari, *Robust Gaussian process regression with a Student-t likelihood*,
    JMLR 12, 2011, Sec. 3 (scale mixture, expectation maximisation).
    """
    own = covariance.own(rows) ** 2
    squared = (own * weights) ** 2 + np.maximum(own - own**2 * np.diag(precision), 0)
    return expected_tails(squared * rows.tails / own)


def expected_tails(squared: Floats) -> Floats:
    """Return the factors that own deviations suggest whose squares, over their variance, are given."""
    return np.asarray((TAIL_DEGREES + squared) / (TAIL_DEGREES + 1))
