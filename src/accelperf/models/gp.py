"""Gaussian processes trained with GPflow: ``gp_zero`` and ``gp_analytic``.

The kernel sees the 15 parameters standardised; the mean sees raw units. Residuals, y - m(X) or with
the response ``ratio`` log(y / m(X)), are divided by their root mean square before training, so that
milliseconds and nanoseconds give the same answer and starting values, priors and the noise floor mean
the same on every data set.

Hyperparameters maximise the log marginal likelihood plus weak log-normal priors. The priors keep a
lengthscale that the data say nothing about from running away; they are too wide to move one that
the data determine.

All rows are fitted to a GPflow model; models of one kernel share one traced TensorFlow function, whose
rows are swapped through variables, since tracing takes longer than a fit. The same objective in closed
form (`accelperf.models.log_posterior`) serves where TensorFlow's cost for each call would rule: the
steps of Adam, and the refits of the folds (`accelperf.models.gp_folds`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import scipy.optimize
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from accelperf.analytic import NUMPY
from accelperf.features import FeatureMatrix
from accelperf.models.base import Estimator, FitError, Fold, Prediction, Progress
from accelperf.models.gp_folds import ClosedForm, FoldRefits, Rows, TrainingRows
from accelperf.models.gp_settings import GaussianProcessSettings
from accelperf.models.kernels import KernelExpression, parse_kernel
from accelperf.models.known_noise import mean_variance, relative_variance
from accelperf.models.log_posterior import (
    LENGTHSCALE_FLOOR,
    LENGTHSCALE_PRIOR_SIGMA,
    LENGTHSCALE_START,
    NOISE_START,
    TURN_BACK,
    VARIANCE_PRIOR_SIGMA,
    LogPosterior,
)
from accelperf.models.means import CALIBRATED, get_mean
from accelperf.models.optimisers import adam
from accelperf.models.predictors import GaussianProcessPredictor
from accelperf.models.quiet_import import silenced_stderr
from accelperf.models.roofline_mean import RooflineMean
from accelperf.parameters import PARAMETER_NAMES
from accelperf.yaml_input import StrictModel

with silenced_stderr():
    import gpflow
    import tensorflow as tf
    import tensorflow_probability as tfp

Floats = NDArray[np.float64]

RESTART_SIGMA = 1.0
"""Spread of the random restarts, in unconstrained units."""


def _log_normal(median: float, sigma: float) -> Any:
    return tfp.distributions.LogNormal(np.float64(np.log(median)), np.float64(sigma))


class _NoiseOfRows(gpflow.likelihoods.Gaussian):  # type: ignore[misc]
    """Gaussian noise of one variance, and what each row is known to have beyond it.

    Attributes
    ----------
    known : tf.Variable of shape [rows, 1]
        That known variance.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.known = tf.Variable(np.zeros((1, 1)), shape=[None, 1], trainable=False)

    def variance_at(self, X: Any) -> Any:  # noqa: N803 - GPflow's name
        """Return the noise variance of each row, shape [rows, 1]."""
        return super().variance_at(X) + self.known


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
    noise_of_rows : bool
        Whether rows have known noise of their own. Without, not even the rounding changes.
    """

    def __init__(
        self,
        expression: KernelExpression,
        columns: int,
        ard: bool,
        noise_floor: float,
        noise_of_rows: bool = False,
    ) -> None:
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
        self.noise_of_rows = noise_of_rows
        noise = _NoiseOfRows if noise_of_rows else gpflow.likelihoods.Gaussian
        likelihood = noise(variance=NOISE_START + noise_floor**2, variance_lower_bound=noise_floor**2)
        self.model = gpflow.models.GPR((self.inputs, self.residuals), kernel, likelihood=likelihood)
        self.variables = self.model.trainable_variables
        self.start = self.values()
        # Nothing in it needs AutoGraph, which rewrites all of GPflow's sources: five sixths of the time.
        self._evaluate = tf.function(self._loss_and_gradients, autograph=False)

    def _loss_and_gradients(self) -> tuple[Any, list[Any]]:
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(self.variables)
            loss = self.model.training_loss()
        return loss, tape.gradient(loss, self.variables)

    def set_rows(self, rows: TrainingRows) -> None:
        self.inputs.assign(rows.inputs)
        self.residuals.assign(rows.residuals[:, None])
        if self.noise_of_rows:
            self.model.likelihood.known.assign(np.broadcast_to(rows.row_noise, rows.residuals.shape)[:, None])

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


@lru_cache(maxsize=4)
def _traced_likelihood(
    expression: KernelExpression, columns: int, ard: bool, floor: float, noise_of_rows: bool
) -> _Likelihood:
    """Return a likelihood that the estimators of a sweep share: tracing takes longer than a fit."""
    return _Likelihood(expression, columns, ard, floor, noise_of_rows)


@dataclass(frozen=True)
class _FullFit:
    """The fit to all rows, kept so that folds and closed forms need not repeat it."""

    features: FeatureMatrix
    rows: Rows
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
        self._mean = None if settings.mean == CALIBRATED else get_mean(settings.mean, settings.modules)
        columns = len(PARAMETER_NAMES)
        posterior = LogPosterior(self._expression, columns, settings.ard, settings.noise_floor)
        self._closed_form = ClosedForm(settings, posterior)
        self._full: _FullFit | None = None

    def fit(self, features: FeatureMatrix) -> GaussianProcessPredictor:
        """Fit hyperparameters to all rows, from several starts."""
        return self._fit_full(features).predictor

    def predict_folds(
        self, features: FeatureMatrix, folds: Sequence[Fold], progress: Progress | None = None
    ) -> list[Prediction]:
        """Return each fold's predictions, hyperparameters refitted from the optimum of all rows.

        The left-out rows lend that starting point and nothing else: scaling, likelihood, a mean that
        is fitted and predictions of a fold know its training rows alone.
        """
        full = self._fit_full(features)
        refits = FoldRefits.prepare(self._closed_form, full.rows, full.values)
        predictions = []
        for done, prediction in enumerate(refits.predict_each(folds), start=1):
            predictions.append(prediction)
            if progress is not None:
                progress(done, len(folds))
        return predictions

    def predict_loo_fixed(self, features: FeatureMatrix) -> Prediction:
        """Return the leave-one-out predictions at the optimum of all rows, by one factorisation.

        A calibrated mean is none of the hyperparameters that stay: its rates are fitted anew without
        each row, while the structure that it has stays too.
        """
        full = self._fit_full(features)
        rows, predictor = full.rows, full.predictor
        if rows.calibrated is None:
            return predictor.predict_loo(rows.mean_ms)
        means = np.stack([rows.calibrated.without(row) for row in range(len(features))])
        residuals = np.stack([rows.residuals(mean_ms) for mean_ms in means]) / predictor.residual_scale
        return predictor.predict_loo(np.diag(means), residuals)

    def _fit_full(self, features: FeatureMatrix) -> _FullFit:
        if self._full is None or self._full.features is not features:
            rows = self._rows(features)
            training = TrainingRows.of(rows)
            first = self._closed_form.posterior.start
            generator = np.random.default_rng(self.settings.seed)
            starts = [first]
            for _ in range(self.settings.restarts):
                starts.append(first + generator.normal(0, RESTART_SIGMA, len(first)))
            # The matrices are small: threads inside of an operation would wait for each other.
            with threadpool_limits(1):
                optima = [self._optimise(training, start) for start in starts]
            best = self._closed_form.check(*min(optima, key=lambda optimum: optimum[1]))
            self._full = _FullFit(features, rows, best, self._closed_form.predictor(best, training))
        return self._full

    def _rows(self, features: FeatureMatrix) -> Rows:
        settings, calibrated = self.settings, None
        if self._mean is None:
            calibrated = RooflineMean.of(features, settings.seed)
            mean = calibrated.latency_ms(calibrated.start)
        else:
            mean = np.asarray(self._mean(features.latency_inputs(), NUMPY), dtype=np.float64)
        if not np.all(np.isfinite(mean)):
            raise FitError(f"mean {settings.mean!r} is not finite on every row")
        variance = (mean_variance if settings.response == "difference" else relative_variance)(features)
        return Rows(
            parameters=features.parameters,
            latency_ms=features.latency_ms,
            mean_ms=mean,
            response=settings.response,
            variance=variance,
            mean_name=settings.mean,
            calibrated=calibrated,
        )

    def _optimise(self, rows: TrainingRows, start: Floats) -> tuple[Floats, float]:
        """Return the hyperparameters that minimise the loss of all rows from a start, and the loss."""
        settings, closed_form = self.settings, self._closed_form
        if settings.optimizer == "adam":
            # Each of its many steps is cheap; calling a graph would cost more than the step.
            objective = closed_form.objective(rows)
            return adam(objective, start, settings.steps, settings.learning_rate, give_up=TURN_BACK)
        columns = len(PARAMETER_NAMES)
        likelihood = _traced_likelihood(
            self._expression, columns, settings.ard, settings.noise_floor, bool(np.any(rows.row_noise))
        )
        likelihood.set_rows(rows)
        found = scipy.optimize.minimize(
            likelihood,
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=closed_form.posterior.bounds,
            options={"maxiter": settings.steps},
        )
        return found.x, float(found.fun)
