"""Gaussian processes trained with GPflow: ``gp_zero`` and ``gp_analytic``.

The kernel sees the 15 parameters standardised; the mean sees raw units. Residuals y - m(X) are
divided by their root mean square before training, so that milliseconds and nanoseconds give the
same answer and starting values, priors and the noise floor mean the same on every data set.

Hyperparameters maximise the log marginal likelihood plus weak log-normal priors. The priors keep a
lengthscale that the data say nothing about from running away; they are too wide to move one that
the data determine.

All fits of one configuration share one traced TensorFlow function: rows are swapped through
variables, since tracing anew for every fold is most of the cost of a naive loop. Folds start from
the optimum of all rows with its exact curvature, a few evaluations from their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.optimize
from numpy.typing import NDArray

from accelperf.analytic import NUMPY
from accelperf.features import FeatureMatrix
from accelperf.models.base import Estimator, FitError, Fold, Prediction, Progress
from accelperf.models.gp_settings import GaussianProcessSettings
from accelperf.models.kernels import Kernel, KernelExpression, KernelPart, parse_kernel
from accelperf.models.means import get_mean
from accelperf.models.predictors import GaussianProcessPredictor, Standardiser
from accelperf.models.quiet_import import silenced_stderr
from accelperf.yaml_input import StrictModel

with silenced_stderr():
    import gpflow
    import tensorflow as tf
    import tensorflow_probability as tfp
    import tf_keras

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
RESTART_SIGMA = 1.0
"""Spread of the random restarts, in unconstrained units."""
FOLD_GRADIENT_TOLERANCE = 1e-2
"""A fold's optimum is found when no component of its gradient is larger [nats].

With the curvature of a likelihood that determines its hyperparameters (1 nat or more) the loss is
then within 1e-4 nats of its least value."""
TURN_BACK = 1e10
"""Loss where the covariance cannot be factorised: a line search comes back from there [nats]."""
CURVATURE_STEP = 1e-4
"""Step of the differences of gradients that give the curvature at the optimum."""


@dataclass(frozen=True)
class _TrainingRows:
    """Rows as the likelihood sees them."""

    standardiser: Standardiser
    residual_scale: float
    inputs: Floats
    residuals: Floats


def _log_normal(median: float, sigma: float) -> Any:
    return tfp.distributions.LogNormal(np.float64(np.log(median)), np.float64(sigma))


def _build_part(name: str, columns: int, ard: bool) -> Any:
    """Return a GPflow kernel with starting values and priors."""
    variance = np.ones(columns if ard and name == "linear" else 1)
    if name == "linear":
        # The sum over all columns starts at the variance of the residuals.
        kernel = gpflow.kernels.Linear(variance=variance / columns if ard else 1.0 / columns)
        kernel.variance.prior = _log_normal(1.0 / columns, VARIANCE_PRIOR_SIGMA)
        return kernel
    classes = {
        "rbf": gpflow.kernels.SquaredExponential,
        "matern12": gpflow.kernels.Matern12,
        "matern32": gpflow.kernels.Matern32,
        "matern52": gpflow.kernels.Matern52,
    }
    lengthscales = np.full(columns, LENGTHSCALE_START) if ard else LENGTHSCALE_START
    kernel = classes[name](variance=1.0, lengthscales=lengthscales)
    kernel.variance.prior = _log_normal(1.0, VARIANCE_PRIOR_SIGMA)
    kernel.lengthscales = gpflow.Parameter(
        kernel.lengthscales,
        transform=gpflow.utilities.positive(LENGTHSCALE_FLOOR),
        prior=_log_normal(LENGTHSCALE_START, LENGTHSCALE_PRIOR_SIGMA),
    )
    return kernel


class _Likelihood:
    """The traced training objective of one kernel, with rows that can be swapped.

    Parameters
    ----------
    expression : KernelExpression
        Which kernels.
    columns : int
        Number of input columns.
    ard : bool
        One lengthscale a column.
    noise_floor : float
        Least noise standard deviation of the scaled residuals.
    """

    def __init__(self, expression: KernelExpression, columns: int, ard: bool, noise_floor: float) -> None:
        self.expression = expression
        self.columns = columns
        self.parts = [_build_part(name, columns, ard) for name in expression.names]
        kernel = self.parts[0]
        if expression.operation == "+":
            kernel = self.parts[0] + self.parts[1]
        elif expression.operation == "*":
            kernel = self.parts[0] * self.parts[1]
            # Only the product of the two variances can be told from data.
            gpflow.set_trainable(self.parts[1].variance, False)
        self.inputs = tf.Variable(np.zeros((1, columns)), shape=[None, columns], trainable=False)
        self.residuals = tf.Variable(np.zeros((1, 1)), shape=[None, 1], trainable=False)
        likelihood = gpflow.likelihoods.Gaussian(
            variance=NOISE_START + noise_floor**2, variance_lower_bound=noise_floor**2
        )
        self.model = gpflow.models.GPR((self.inputs, self.residuals), kernel, likelihood=likelihood)
        self.variables = self.model.trainable_variables
        self.start = self.values()
        self._evaluate = tf.function(self._loss_and_gradients)

    def _loss_and_gradients(self) -> tuple[Any, list[Any]]:
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(self.variables)
            loss = self.model.training_loss()
        return loss, tape.gradient(loss, self.variables)

    def set_rows(self, rows: _TrainingRows) -> None:
        self.inputs.assign(rows.inputs)
        self.residuals.assign(rows.residuals[:, None])

    def values(self) -> Floats:
        """Return the unconstrained hyperparameters as one vector."""
        return np.concatenate([variable.numpy().ravel() for variable in self.variables])

    def set_values(self, values: Floats) -> None:
        position = 0
        for variable in self.variables:
            size = int(np.prod(variable.shape))
            variable.assign(values[position : position + size].reshape(variable.shape))
            position += size

    def __call__(self, values: Floats) -> tuple[float, Floats]:
        """Return the negative log posterior [nats] and its gradient at unconstrained values."""
        self.set_values(values)
        try:
            loss, gradients = self._evaluate()
        except tf.errors.InvalidArgumentError:
            return TURN_BACK, np.zeros_like(values)
        gradient = np.concatenate([part.numpy().ravel() for part in gradients])
        # TensorFlow reports a failed factorisation by an exception, or fills it with NaN.
        if not (np.isfinite(loss) and np.all(np.isfinite(gradient))):
            return TURN_BACK, np.zeros_like(values)
        return float(loss), gradient

    def curvature(self, values: Floats) -> Floats:
        """Return the inverse of the Hessian of the loss, made positive definite.

        Central differences of the gradient; directions in which the loss is flat get the curvature
        1 of the start of a quasi-Newton method.
        """
        rows = []
        for index in range(len(values)):
            step = np.zeros_like(values)
            step[index] = CURVATURE_STEP
            rows.append((self(values + step)[1] - self(values - step)[1]) / (2 * CURVATURE_STEP))
        hessian = np.array(rows)
        eigenvalues, vectors = np.linalg.eigh((hessian + hessian.T) / 2)
        eigenvalues = np.where(eigenvalues > 1e-3, eigenvalues, 1.0)
        inverse: Floats = (vectors / eigenvalues) @ vectors.T
        return (inverse + inverse.T) / 2

    def kernel(self) -> Kernel:
        """Return the kernel with its current hyperparameters."""
        parts = []
        for name, part in zip(self.expression.names, self.parts, strict=True):
            lengthscales = [] if name == "linear" else part.lengthscales.numpy()
            parts.append(KernelPart(name, np.atleast_1d(part.variance.numpy()), np.atleast_1d(lengthscales)))
        return Kernel(self.expression.operation, tuple(parts))

    def noise_variance(self) -> float:
        return float(self.model.likelihood.variance.numpy())


@dataclass(frozen=True)
class _FullFit:
    """The fit to all rows, kept so that folds and closed forms need not repeat it."""

    features: FeatureMatrix
    values: Floats
    predictor: GaussianProcessPredictor


class GaussianProcess(Estimator):
    """Gaussian process regression of the latency around a mean function.

    Parameters
    ----------
    settings : GaussianProcessSettings
        Hyperparameters.

    Raises
    ------
    InputError
        For an unknown kernel or mean.

    References
    ----------
    Ferianc et al., ARC 2020; Matthews et al., *GPflow: A Gaussian process library using
    TensorFlow*, JMLR 18(40), 2017.
    """

    Settings: ClassVar[type[StrictModel]] = GaussianProcessSettings
    settings: GaussianProcessSettings

    def __init__(self, settings: GaussianProcessSettings) -> None:
        super().__init__(settings)
        self._expression = parse_kernel(settings.kernel)
        self._mean = get_mean(settings.mean, settings.modules)
        self._likelihood: _Likelihood | None = None
        self._full: _FullFit | None = None

    def fit(self, features: FeatureMatrix) -> GaussianProcessPredictor:
        """Fit hyperparameters to all rows, from several starts."""
        return self._fit_full(features).predictor

    def predict_folds(
        self, features: FeatureMatrix, folds: Sequence[Fold], progress: Progress | None = None
    ) -> list[Prediction]:
        """Return each fold's predictions, hyperparameters refitted from the optimum of all rows.

        The left-out rows lend that starting point and nothing else: scaling, likelihood and
        predictions of a fold know its training rows alone.
        """
        full = self._fit_full(features)
        likelihood = self._objective(features)
        likelihood.set_rows(self._rows(features))
        curvature = likelihood.curvature(full.values) if self.settings.optimizer == "lbfgs" else None
        predictions = []
        for done, fold in enumerate(folds, start=1):
            rows = self._rows(features.take(fold.train))
            likelihood.set_rows(rows)
            self._optimise(likelihood, full.values, self.settings.fold_steps, curvature)
            predictor = self._predictor(likelihood, rows)
            predictions.append(predictor.predict(features.take(fold.test)))
            if progress is not None:
                progress(done, len(folds))
        return predictions

    def predict_loo_fixed(self, features: FeatureMatrix) -> Prediction:
        """Return the closed-form leave-one-out predictions at the optimum of all rows."""
        return self._fit_full(features).predictor.predict_loo(features)

    def _fit_full(self, features: FeatureMatrix) -> _FullFit:
        if self._full is None or self._full.features is not features:
            likelihood = self._objective(features)
            rows = self._rows(features)
            likelihood.set_rows(rows)
            generator = np.random.default_rng(self.settings.seed)
            starts = [likelihood.start]
            for _ in range(self.settings.restarts):
                starts.append(likelihood.start + generator.normal(0, RESTART_SIGMA, len(likelihood.start)))
            optima = [self._optimise(likelihood, start, self.settings.steps) for start in starts]
            best, _ = min(optima, key=lambda optimum: optimum[1])
            likelihood.set_values(best)
            self._full = _FullFit(features, best, self._predictor(likelihood, rows))
        return self._full

    def _objective(self, features: FeatureMatrix) -> _Likelihood:
        if self._likelihood is None:
            columns = features.parameters.shape[1]
            settings = self.settings
            self._likelihood = _Likelihood(self._expression, columns, settings.ard, settings.noise_floor)
        return self._likelihood

    def _rows(self, features: FeatureMatrix) -> _TrainingRows:
        standardiser = Standardiser.fit(features.parameters)
        mean = np.asarray(self._mean(features.latency_inputs(), NUMPY), dtype=np.float64)
        residuals = features.latency_ms - mean
        if not np.all(np.isfinite(residuals)):
            raise FitError(f"mean {self.settings.mean!r} is not finite on every row")
        scale = float(np.sqrt(np.mean(residuals**2)))
        if scale == 0:
            # A mean that is exact leaves nothing to learn; any unit serves.
            scale = float(np.mean(features.latency_ms)) * 1e-9
        return _TrainingRows(standardiser, scale, standardiser(features.parameters), residuals / scale)

    def _optimise(
        self, likelihood: _Likelihood, start: Floats, steps: int, curvature: Floats | None = None
    ) -> tuple[Floats, float]:
        """Set and return the hyperparameters that minimise the loss from a start, and the loss."""
        if steps == 0:
            values = start
        elif self.settings.optimizer == "adam":
            values = self._adam(likelihood, start, steps)
        elif curvature is None:
            values = scipy.optimize.minimize(
                likelihood, start, jac=True, method="L-BFGS-B", options={"maxiter": steps}
            ).x
        else:
            values = scipy.optimize.minimize(
                likelihood,
                start,
                jac=True,
                method="BFGS",
                options={"maxiter": steps, "gtol": FOLD_GRADIENT_TOLERANCE, "hess_inv0": curvature},
            ).x
        loss, _ = likelihood(values)
        if loss >= TURN_BACK:
            raise FitError(
                f"training diverged: kernel {self.settings.kernel}, mean {self.settings.mean}, "
                f"{self.settings.optimizer} with learning rate {self.settings.learning_rate:g}"
            )
        return values, loss

    def _adam(self, likelihood: _Likelihood, start: Floats, steps: int) -> Floats:
        variable = tf.Variable(start)
        optimizer = tf_keras.optimizers.Adam(learning_rate=self.settings.learning_rate)
        for _ in range(steps):
            loss, gradient = likelihood(variable.numpy())
            if loss >= TURN_BACK:
                break
            optimizer.apply_gradients([(tf.constant(gradient), variable)])
        values: Floats = variable.numpy()
        return values

    def _predictor(self, likelihood: _Likelihood, rows: _TrainingRows) -> GaussianProcessPredictor:
        return GaussianProcessPredictor(
            mean_name=self.settings.mean,
            modules=tuple(self.settings.modules),
            standardiser=rows.standardiser,
            kernel=likelihood.kernel(),
            noise_variance=likelihood.noise_variance(),
            residual_scale=rows.residual_scale,
            inputs=rows.inputs,
            residuals=rows.residuals,
        )
