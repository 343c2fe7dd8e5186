r"""The training objective of a Gaussian process in closed form, value and gradient, with NumPy.

It is the objective of the GPflow model that `accelperf.models.gp` builds: the negative log marginal
likelihood plus priors, over the same unconstrained hyperparameters in the same order. For a few
hundred rows it takes a fraction of the time of a TensorFlow graph, needs no tracing, and runs in
several threads at once, which is what refitting hundreds of folds asks for.

With the covariance K (noise included), the residuals r and :math:`\alpha = K^{-1} r`,

.. math::

    L &= \tfrac12 r^T \alpha + \tfrac12 \log|K| + \tfrac n2 \log 2\pi \\
    \partial L / \partial \theta &= \mathrm{tr}(M \, \partial K / \partial\theta), \qquad
        M = \tfrac12 (K^{-1} - \alpha \alpha^T)

(Rasmussen & Williams, *Gaussian Processes for Machine Learning*, 2006, Eq. 5.8-5.9).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, lapack

from accelperf.models.kernels import Kernel, KernelExpression, KernelPart

Floats = NDArray[np.float64]

LENGTHSCALE_START = 2.0
"""First guess of every lengthscale, in standard deviations of its column."""
LENGTHSCALE_FLOOR = 0.01
"""Least lengthscale, in standard deviations of its column.

Shorter ones no longer describe a function but single values, and the rounding of squared distances
then leaves no positive definite covariance."""
LENGTHSCALE_PRIOR_SIGMA = 1.5
"""Spread of log lengthscale: within a factor of 20 of the median 2 on both sides with 95 %."""
VARIANCE_PRIOR_SIGMA = 3.0
"""Spread of log variance around 1, the variance of the scaled residuals."""
NOISE_START = 0.1
"""First guess of the noise variance, as a share of the variance of the scaled residuals."""
CLOSEST_TO_FLOOR = 0.1
"""How far above its floor a search keeps a hyperparameter, as a share of the floor."""
TURN_BACK = 1e10
"""Loss where the covariance cannot be factorised: a line search comes back from there [nats]."""
SAME_POINT = 1e-12
"""Squared scaled distance below which two rows are one, and its rounding has no slope."""


@dataclass(frozen=True)
class _Block:
    """Hyperparameters that stand together in the vector of all.

    Attributes
    ----------
    part : int
        Number of the kernel, or -1 for the noise.
    name : {"lengthscales", "variance"}
        Which of its hyperparameters.
    where : slice
        Where they stand.
    floor : float
        Least value.
    median, sigma : float
        Median and spread of the logarithm in the prior; sigma is infinite without one.
    """

    part: int
    name: str
    where: slice
    floor: float
    median: float = 1.0
    sigma: float = np.inf


class LogPosterior:
    """Negative log posterior of a kernel's hyperparameters and the noise variance.

    A positive hyperparameter is ``floor + log(1 + exp(u))`` of its unconstrained value u.

    Parameters
    ----------
    expression : KernelExpression
        Which kernels.
    columns : int
        Number of input columns.
    ard : bool
        One lengthscale (of the linear kernel: variance) a column.
    noise_floor : float
        Least noise standard deviation of the scaled residuals.
    """

    def __init__(self, expression: KernelExpression, columns: int, ard: bool, noise_floor: float) -> None:
        self.expression = expression
        self._columns = columns
        self._blocks = list(_blocks(expression, columns, ard, noise_floor))
        self.size = self._blocks[-1].where.stop

    @property
    def start(self) -> Floats:
        """First guess, unconstrained, shape [hyperparameters]."""
        constrained = np.empty(self.size)
        for block in self._blocks:
            noise = block.part < 0
            constrained[block.where] = NOISE_START + block.floor if noise else block.median
        return self.unconstrained(constrained)

    @property
    def bounds(self) -> list[tuple[float | None, None]]:
        """Least and greatest unconstrained value that a search may visit, by hyperparameter.

        Close to its floor a hyperparameter has next to no slope by its unconstrained value: what
        overshoots into there would never come back.
        """
        least = np.full(self.size, -np.inf)
        for block in self._blocks:
            if block.floor > 0:
                least[block.where] = np.log(np.expm1(CLOSEST_TO_FLOOR * block.floor))
        return [(float(value) if np.isfinite(value) else None, None) for value in least]

    def constrained(self, values: Floats) -> Floats:
        """Return hyperparameters of unconstrained values, both of shape [hyperparameters]."""
        # log(1 + exp(u)) that overflows on neither side.
        return np.asarray(self._floors() + np.logaddexp(0.0, values))

    def unconstrained(self, constrained: Floats) -> Floats:
        """Return what `constrained` makes these hyperparameters of."""
        above = constrained - self._floors()
        return np.asarray(above + np.log(-np.expm1(-above)))

    def _floors(self) -> Floats:
        floors = np.empty(self.size)
        for block in self._blocks:
            floors[block.where] = block.floor
        return floors

    def kernel(self, values: Floats) -> Kernel:
        """Return the kernel at unconstrained values."""
        constrained = self.constrained(values)
        found = {(block.part, block.name): constrained[block.where] for block in self._blocks}
        parts = []
        for number, name in enumerate(self.expression.names):
            # Only the product of two variances can be told from data: the second one is fixed.
            fixed = np.array([1.0 / self._columns if name == "linear" else 1.0])
            variance = found.get((number, "variance"), fixed)
            parts.append(KernelPart(name, variance, found.get((number, "lengthscales"), np.empty(0))))
        return Kernel(self.expression.operation, tuple(parts))

    def noise_variance(self, values: Floats) -> float:
        """Return the noise variance at unconstrained values."""
        return float(self.constrained(values)[-1])

    def __call__(
        self, values: Floats, inputs: Floats, residuals: Floats, row_noise: Floats | float = 0.0
    ) -> tuple[float, Floats]:
        """Return the loss [nats] and its gradient.

        Parameters
        ----------
        values : array of shape [hyperparameters]
            Unconstrained values.
        inputs : array of shape [rows, columns]
            Standardised parameters.
        residuals : array of shape [rows]
            Scaled residuals.
        row_noise : array of shape [rows]
            Variance that a row is known to have beyond the noise, scaled.

        Returns
        -------
        loss : float
            `TURN_BACK` where the covariance has no factorisation.
        gradient : array of shape [hyperparameters]
            By the unconstrained values.
        """
        loss, gradient, _ = self.evaluate(values, inputs, residuals, row_noise)
        return loss, gradient

    # Far off, covariances overflow; what comes of it is checked.
    @np.errstate(over="ignore", invalid="ignore", divide="ignore")
    def evaluate(
        self, values: Floats, inputs: Floats, residuals: Floats, row_noise: Floats | float = 0.0
    ) -> tuple[float, Floats, Floats]:
        r"""Return loss, gradient, and :math:`\alpha = K^{-1} r`, the gradient by the residuals."""
        constrained, kernel = self.constrained(values), self.kernel(values)
        parts = [_PartCovariance.of(part, inputs) for part in kernel.parts]
        if kernel.operation == "":
            covariance = parts[0].covariance.copy()
        else:
            join = np.add if kernel.operation == "+" else np.multiply
            covariance = join(parts[0].covariance, parts[1].covariance)
        covariance[np.diag_indices_from(covariance)] += constrained[-1] + row_noise
        # Fortran's order of a symmetric matrix is its transpose; each step overwrites the last.
        factor, failed = lapack.dpotrf(covariance.T, lower=1, clean=1, overwrite_a=1)
        if failed:
            return TURN_BACK, np.zeros(self.size), np.zeros_like(residuals)
        weights, _ = lapack.dpotrs(factor, residuals, lower=1)
        half_log_determinant = np.sum(np.log(np.diag(factor)))
        loss = 0.5 * (residuals @ weights + len(residuals) * np.log(2 * np.pi)) + half_log_determinant
        prior, prior_slopes = self._prior(constrained)
        loss += prior
        if not np.isfinite(loss):
            return TURN_BACK, np.zeros(self.size), np.zeros_like(residuals)

        # Lower half of 2 M; the upper half is zero.
        inverse, _ = lapack.dpotri(factor, lower=1, overwrite_c=1)
        twice = blas.dsyr(-1.0, weights, lower=1, a=inverse, overwrite_a=1).T
        slopes = np.empty(self.size)
        slopes[-1] = 0.5 * constrained[-1] * np.trace(twice)
        for number, (kernel_part, part) in enumerate(zip(kernel.parts, parts, strict=True)):
            own = twice * parts[1 - number].covariance if kernel.operation == "*" else twice
            found = part.slopes(kernel_part, own)
            for block in self._blocks:
                if block.part == number:
                    slopes[block.where] = found[block.name]
        # By the unconstrained value u of c = floor + log(1 + exp(u)): dc/du = 1 / (1 + exp(-u)).
        gradient = (slopes + prior_slopes) / constrained * _sigmoid(values)
        return float(loss), gradient, weights

    def _prior(self, constrained: Floats) -> tuple[float, Floats]:
        """Return the negative log prior and its slopes by log hyperparameters."""
        total, slopes = 0.0, np.zeros(self.size)
        for block in self._blocks:
            if np.isfinite(block.sigma):
                logs = np.log(constrained[block.where])
                standard = (logs - np.log(block.median)) / block.sigma
                constant = np.log(block.sigma) + 0.5 * np.log(2 * np.pi)
                total += float(np.sum(logs + 0.5 * standard**2 + constant))
                slopes[block.where] = 1.0 + standard / block.sigma
        return total, slopes


@dataclass(frozen=True)
class _PartCovariance:
    """One kernel between all pairs of rows.

    Attributes
    ----------
    covariance : array of shape [rows, rows]
        Its values.
    scaled : array of shape [rows, columns]
        Inputs divided by the lengthscales; as they are for the linear kernel.
    slope : array of shape [rows, rows]
        Slope by the squared scaled distance, in units of the variance; empty for the linear kernel.
    """

    covariance: Floats
    scaled: Floats
    slope: Floats

    @classmethod
    def of(cls, part: KernelPart, inputs: Floats) -> _PartCovariance:
        if part.name == "linear":
            return cls((inputs * part.variance) @ inputs.T, inputs, np.empty(0))
        scaled = inputs / part.lengthscales
        squares = np.einsum("ij,ij->i", scaled, scaled)
        distance = (-2.0 * scaled) @ scaled.T
        distance += squares[:, None]
        distance += squares
        np.maximum(distance, 0.0, out=distance)
        covariance, slope = _STATIONARY[part.name](distance)
        covariance *= part.variance
        return cls(covariance, scaled, slope)

    def slopes(self, part: KernelPart, weighting: Floats) -> dict[str, Floats]:
        """Return tr(M dK) by the logarithm of each hyperparameter, by name.

        `weighting` is one half of 2 M [rows, rows], with zeros in the other.
        """
        if part.name == "linear":
            products = blas.dsymm(1.0, weighting.T, self.scaled, lower=1)
            by_column = 0.5 * part.variance * np.einsum("ij,ij->j", self.scaled, products)
            return {"variance": by_column if len(part.variance) > 1 else np.sum(by_column, keepdims=True)}
        # Of r2 = sum_d (a_d - b_d)^2 with scaled columns: dr2 / dlog l_d = -2 (a_d - b_d)^2.
        pairs = weighting * self.slope
        columns = np.column_stack([self.scaled, np.ones(len(pairs))])
        products = blas.dsymm(1.0, pairs.T, columns, lower=1)
        squares = products[:, -1] @ self.scaled**2
        by_column = np.einsum("ij,ij->j", self.scaled, products[:, :-1]) - squares
        by_column *= 2.0 * part.variance
        both_halves = np.vdot(weighting, self.covariance) - 0.5 * (
            np.diag(weighting) @ np.diag(self.covariance)
        )
        return {
            "lengthscales": by_column if len(part.lengthscales) > 1 else np.sum(by_column, keepdims=True),
            "variance": np.array([both_halves]),
        }


def _rbf(squared: Floats) -> tuple[Floats, Floats]:
    squared *= -0.5
    value = np.exp(squared, out=squared)
    return value, -0.5 * value


def _matern12(squared: Floats) -> tuple[Floats, Floats]:
    same = squared < SAME_POINT
    distance = np.sqrt(squared, out=squared)
    value = np.exp(-distance)
    distance[same] = np.inf
    return value, -0.5 * value / distance


def _matern32(squared: Floats) -> tuple[Floats, Floats]:
    squared *= 3.0
    distance = np.sqrt(squared, out=squared)
    decay = np.exp(-distance)
    distance += 1.0
    distance *= decay
    decay *= -1.5
    return distance, decay


def _matern52(squared: Floats) -> tuple[Floats, Floats]:
    squared *= 5.0
    distance = np.sqrt(squared)
    decay = np.exp(-distance)
    distance += 1.0
    distance *= decay
    squared /= 3.0
    squared *= decay
    squared += distance
    distance *= -5.0 / 6.0
    return squared, distance


_STATIONARY: dict[str, Callable[[Floats], tuple[Floats, Floats]]] = {
    "rbf": _rbf,
    "matern12": _matern12,
    "matern32": _matern32,
    "matern52": _matern52,
}
"""Value and slope by the squared scaled distance, for variance 1. They write over their argument."""


def _blocks(expression: KernelExpression, columns: int, ard: bool, noise_floor: float) -> Iterator[_Block]:
    """Yield the hyperparameters in GPflow's order: by kernel, lengthscales first; then the noise."""
    position = 0

    def block(part: int, name: str, width: int, floor: float, median: float, sigma: float) -> _Block:
        nonlocal position
        position += width
        return _Block(part, name, slice(position - width, position), floor, median, sigma)

    for number, name in enumerate(expression.names):
        width = columns if ard else 1
        if name == "linear":
            # The sum over all columns starts at the variance of the residuals.
            median = 1.0 / columns
        else:
            sigma = LENGTHSCALE_PRIOR_SIGMA
            yield block(number, "lengthscales", width, LENGTHSCALE_FLOOR, LENGTHSCALE_START, sigma)
            width, median = 1, 1.0
        if expression.operation != "*" or number == 0:
            yield block(number, "variance", width, 0.0, median, VARIANCE_PRIOR_SIGMA)
    yield block(-1, "variance", 1, noise_floor**2, 1.0, np.inf)


def _sigmoid(values: Floats) -> Floats:
    return np.asarray(0.5 + 0.5 * np.tanh(0.5 * values))
