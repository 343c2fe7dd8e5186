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
from accelperf.models.predictors import GaussianProcessPredictor, Response, Standardiser, log_mean
from accelperf.models.roofline import CalibratedRoofline
from accelperf.models.roofline_mean import RooflineMean

Floats = NDArray[np.float64]

GRADIENT_TOLERANCE = 1e-2
"""A fold's optimum is found when no component of its gradient is larger [nats].

The loss is then within a hundredth of a nat or two of its least value, where no prediction moves."""
THREADED_ROWS = 250
"""Number of rows from which on folds share the cores: with fewer, Python's lock eats the gain."""
PROCESS_STEPS = 10_000
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
    response : {"difference", "ratio"}
        What the process explains.
    variance : array of shape [rows]
        Variance of each response that the spread of its runs leaves [ms², or relative]; 0 where unknown.
    mean_name : str
        Name of the mean.
    calibrated : RooflineMean, optional
        The mean, where it is fitted to the rows that the process is; `mean_ms` is then that of all rows.
    """

    parameters: Floats
    latency_ms: Floats
    mean_ms: Floats
    response: Response = "difference"
    variance: Floats | float = 0.0
    mean_name: str = ""
    calibrated: RooflineMean | None = None

    def residuals(self, mean_ms: Floats) -> Floats:
        """Return what is left of each row around a mean [ms], shape [rows]."""
        if self.response == "difference":
            return self.latency_ms - mean_ms
        return np.asarray(np.log(self.latency_ms) - log_mean(mean_ms, self.mean_name))


@dataclass(frozen=True)
class TrainingRows:
    """Rows as the likelihood sees them.

    Attributes
    ----------
    standardiser : Standardiser
        Scaling of the parameters.
    residual_scale : float
        Root mean square of the residuals [ms; no unit for ratios].
    inputs : array of shape [rows, 15]
        Standardised parameters.
    residuals : array of shape [rows]
        What is left around the mean [residual_scale].
    row_noise : array of shape [rows]
        Known variance of each residual [residual_scale squared].
    roofline : CalibratedRoofline, optional
        The mean, where it was fitted to these rows.
    """

    standardiser: Standardiser
    residual_scale: float
    inputs: Floats
    residuals: Floats
    row_noise: Floats | float = 0.0
    roofline: CalibratedRoofline | None = None

    @classmethod
    def of(cls, rows: Rows, chosen: NDArray[np.int64] | None = None) -> TrainingRows:
        """Return the rows that are chosen (all by default), scaled by themselves alone."""
        mean_ms, fitted = rows.mean_ms, None
        if rows.calibrated is not None:
            fitted = rows.calibrated.start if chosen is None else rows.calibrated.fit(chosen)
            mean_ms = rows.calibrated.latency_ms(fitted)
        where = slice(None) if chosen is None else chosen
        parameters = rows.parameters[where]
        residuals = rows.residuals(mean_ms)[where]
        scale = float(np.sqrt(np.mean(residuals**2)))
        if scale == 0:
            # A mean that is exact leaves nothing to learn; any unit serves.
            scale = (float(np.mean(rows.latency_ms[where])) if rows.response == "difference" else 1.0) * 1e-9
        standardiser = Standardiser.fit(parameters)
        noise = np.broadcast_to(rows.variance, rows.latency_ms.shape)[where] / scale**2
        return cls(standardiser, scale, standardiser(parameters), residuals / scale, noise, fitted)


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
        return partial(self.posterior, inputs=rows.inputs, residuals=rows.residuals, row_noise=rows.row_noise)

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
            response=self.settings.response,
            row_noise=rows.row_noise,
            roofline=rows.roofline,
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

        The left-out rows lend the starting point and nothing else: scaling, likelihood and a mean that
        is fitted know the training rows alone.
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
        values, training = self.fit(fold)
        predictor, rows = self.closed_form.predictor(values, training), self.rows
        mean_ms = rows.mean_ms
        if rows.calibrated is not None and training.roofline is not None:
            mean_ms = rows.calibrated.latency_ms(training.roofline)
        return predictor.predict_parameters(rows.parameters[fold.test], mean_ms[fold.test])

    def predict_each(self, folds: Sequence[Fold]) -> Iterator[Prediction]:
        """Yield each fold's predictions, in order; if there is much to do, folds share the cores."""
        workers: Workers = "threads" if len(self.rows.latency_ms) >= THREADED_ROWS else "one"
        if self.curvature is None and len(folds) * self.closed_form.settings.fold_steps >= PROCESS_STEPS:
            workers = "processes"
        # The matrices are small: threads inside of an operation would wait for each other, not help.
        with threadpool_limits(1):
            yield from map_folds(self.predict, folds, workers)
