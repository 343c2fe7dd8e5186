"""Refitting a Gaussian process to the folds of a cross-validation, with NumPy.

The optimum of all rows lends each fold its starting point, and its curvature, which is almost that
of the fold: one Newton step and a second to check it are what most folds take. Nothing here needs
TensorFlow, so that folds can also go to processes of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from accelperf.models.base import FitError, Fold, Prediction
from accelperf.models.gp_settings import GaussianProcessSettings
from accelperf.models.log_posterior import TURN_BACK, LogPosterior
from accelperf.models.optimisers import Objective, adam, inverse_curvature, quasi_newton
from accelperf.models.parallel import Workers, map_folds
from accelperf.models.predictors import GaussianProcessPredictor, Standardiser

Floats = NDArray[np.float64]

GRADIENT_TOLERANCE = 1e-2
"""A fold's optimum is found when no component of its gradient is larger [nats].

The loss is then within a hundredth of a nat or two of its least value, where no prediction moves."""
THREADED_ROWS = 250
"""Number of rows from which on folds share the cores: with fewer, Python's lock eats the gain."""
PROCESS_STEPS = 20_000
"""Number of steps of Adam, of all folds together, from which on processes are worth their start."""


@dataclass(frozen=True)
class Rows:
    """Rows as they are.

    Attributes
    ----------
    parameters : array of shape [rows, 15]
        The parameters.
    latency_ms, mean_ms : array of shape [rows]
        Latencies, and those of the mean function [ms].
    """

    parameters: Floats
    latency_ms: Floats
    mean_ms: Floats


@dataclass(frozen=True)
class TrainingRows:
    """Rows as the likelihood sees them.

    Attributes
    ----------
    standardiser : Standardiser
        Scaling of the parameters.
    residual_scale : float
        Root mean square of the residuals [ms].
    inputs : array of shape [rows, 15]
        Standardised parameters.
    residuals : array of shape [rows]
        Latencies minus means [residual_scale].
    """

    standardiser: Standardiser
    residual_scale: float
    inputs: Floats
    residuals: Floats

    @classmethod
    def of(cls, rows: Rows, chosen: NDArray[np.int64] | slice = slice(None)) -> TrainingRows:
        """Return the rows that are chosen, scaled by themselves alone."""
        parameters = rows.parameters[chosen]
        residuals = (rows.latency_ms - rows.mean_ms)[chosen]
        scale = float(np.sqrt(np.mean(residuals**2)))
        if scale == 0:
            # A mean that is exact leaves nothing to learn; any unit serves.
            scale = float(np.mean(rows.latency_ms[chosen])) * 1e-9
        standardiser = Standardiser.fit(parameters)
        return cls(standardiser, scale, standardiser(parameters), residuals / scale)


@dataclass(frozen=True)
class ClosedForm:
    """The loss of any rows in closed form, and what comes of its minimum.

    Attributes
    ----------
    settings : GaussianProcessSettings
        Hyperparameters of the estimator.
    posterior : LogPosterior
        The training objective.
    """

    settings: GaussianProcessSettings
    posterior: LogPosterior

    def objective(self, rows: TrainingRows) -> Objective:
        """Return the loss of some rows."""
        return partial(self.posterior, inputs=rows.inputs, residuals=rows.residuals)

    def loss(self, values: Floats, rows: TrainingRows) -> float:
        """Return the loss of some rows at unconstrained values [nats]."""
        return self.objective(rows)(values)[0]

    def check(self, values: Floats, loss: float) -> Floats:
        """Return the values that an optimiser found.

        Raises
        ------
        FitError
            If there is no loss at them.
        """
        if not loss < TURN_BACK:
            settings = self.settings
            raise FitError(
                f"training diverged: kernel {settings.kernel}, mean {settings.mean}, "
                f"{settings.optimizer} with learning rate {settings.learning_rate:g}"
            )
        return values

    def predictor(self, values: Floats, rows: TrainingRows) -> GaussianProcessPredictor:
        """Return the process with some hyperparameters, conditioned on some rows."""
        return GaussianProcessPredictor(
            mean_name=self.settings.mean,
            modules=tuple(self.settings.modules),
            standardiser=rows.standardiser,
            kernel=self.posterior.kernel(values),
            noise_variance=self.posterior.noise_variance(values),
            residual_scale=rows.residual_scale,
            inputs=rows.inputs,
            residuals=rows.residuals,
        )


@dataclass(frozen=True)
class FoldRefits:
    """The refits of all folds.

    Attributes
    ----------
    closed_form : ClosedForm
        Their losses.
    rows : Rows
        All rows.
    start : array of shape [hyperparameters]
        Unconstrained optimum of all rows.
    curvature : array of shape [hyperparameters, hyperparameters] or None
        Inverse Hessian there; None to take steps of Adam.
    """

    closed_form: ClosedForm
    rows: Rows
    start: Floats
    curvature: Floats | None

    @classmethod
    def prepare(cls, closed_form: ClosedForm, rows: Rows, start: Floats) -> FoldRefits:
        """Return the refits from the optimum of all rows."""
        curvature = None
        if closed_form.settings.optimizer == "lbfgs":
            with threadpool_limits(1):
                curvature = inverse_curvature(closed_form.objective(TrainingRows.of(rows)), start)
        return cls(closed_form, rows, start, curvature)

    def fit(self, fold: Fold) -> tuple[Floats, TrainingRows]:
        """Return a fold's optimum, and its training rows.

        The left-out rows lend the starting point and nothing else: scaling and likelihood know the
        training rows alone.
        """
        settings, training = self.closed_form.settings, TrainingRows.of(self.rows, fold.train)
        objective = self.closed_form.objective(training)
        if self.curvature is None:
            steps, rate = settings.fold_steps, settings.learning_rate
            found = adam(objective, self.start, steps, rate, give_up=TURN_BACK)
        else:
            found = quasi_newton(
                objective, self.start, self.curvature, settings.fold_steps, GRADIENT_TOLERANCE
            )
        return self.closed_form.check(*found), training

    def predict(self, fold: Fold) -> Prediction:
        """Return a fold's predictions of its test rows."""
        predictor = self.closed_form.predictor(*self.fit(fold))
        return predictor.predict_parameters(self.rows.parameters[fold.test], self.rows.mean_ms[fold.test])

    def predict_each(self, folds: Sequence[Fold]) -> Iterator[Prediction]:
        """Yield each fold's predictions, in order; if there is much to do, folds share the cores."""
        workers: Workers = "threads" if len(self.rows.latency_ms) >= THREADED_ROWS else "one"
        if self.curvature is None and len(folds) * self.closed_form.settings.fold_steps >= PROCESS_STEPS:
            workers = "processes"
        # The matrices are small: threads inside of an operation would wait for each other, not help.
        with threadpool_limits(1):
            yield from map_folds(self.predict, folds, workers)
