r"""A Gaussian process whose mean is a small network: ``gp_ann_mean``.

Weights of the network and hyperparameters of the kernel are trained jointly, with Adam on the log
marginal likelihood. With the network's output m(X; w) in place of the analytic model, the gradient
of the negative log likelihood by that output is :math:`-K^{-1}(y - m)`, and goes back through the
network from there; that of the hyperparameters is in `accelperf.models.log_posterior`.

Every fold trains a network of its own from the common start. Starting from the fit to all rows, as
the other Gaussian processes do, would be no leaving out here: a kernel's twenty hyperparameters
forget a row within a few steps, a thousand weights do not (``docs/estimators.md`` has the figures).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from accelperf.features import FeatureMatrix
from accelperf.models.base import Estimator, FitError, Fold, Prediction, Progress
from accelperf.models.gp_ann_mean_settings import GpAnnMeanSettings
from accelperf.models.kernels import parse_kernel
from accelperf.models.known_noise import mean_variance
from accelperf.models.log_posterior import TURN_BACK, LogPosterior
from accelperf.models.network_predictor import NetworkMeanPredictor
from accelperf.models.optimisers import adam
from accelperf.models.parallel import Workers, map_folds
from accelperf.models.perceptron import Perceptron, initial_parameters, parse_layers
from accelperf.models.predictors import GaussianProcessPredictor, Standardiser
from accelperf.parameters import PARAMETER_NAMES
from accelperf.yaml_input import StrictModel

Floats = NDArray[np.float64]

PROCESS_STEPS = 20_000
"""Number of steps, of all folds together, from which on processes are worth their start."""


@dataclass(frozen=True)
class ScaledRows:
    """Rows as training sees them.

    Attributes
    ----------
    standardiser : Standardiser
        Scaling of the parameters.
    centre, scale : float
        Mean and standard deviation of the latencies [ms].
    inputs : array of shape [rows, 15]
        Standardised parameters.
    targets : array of shape [rows]
        Standardised latencies.
    row_noise : array of shape [rows]
        Variance of each target that the spread of its runs leaves.
    """

    standardiser: Standardiser
    centre: float
    scale: float
    inputs: Floats
    targets: Floats
    row_noise: Floats | float = 0.0


@dataclass(frozen=True)
class JointObjective:
    """The negative log posterior of kernel and network together.

    Attributes
    ----------
    posterior : LogPosterior
        Of the kernel's hyperparameters, which stand first among the values.
    layers : tuple of int
        Shape of the network, whose parameters follow.
    activation : str
        Of its hidden layers.
    """

    posterior: LogPosterior
    layers: tuple[int, ...]
    activation: str

    def network(self, values: Floats) -> Perceptron:
        """Return the network at unconstrained values."""
        columns = len(PARAMETER_NAMES)
        return Perceptron.from_vector(self.activation, columns, self.layers, values[self.posterior.size :])

    def start(self, seed: int) -> Floats:
        """Return the first guess, unconstrained."""
        generator = np.random.default_rng(seed)
        weights = initial_parameters(len(PARAMETER_NAMES), self.layers, generator)
        return np.concatenate([self.posterior.start, weights])

    def __call__(
        self, values: Floats, inputs: Floats, targets: Floats, row_noise: Floats | float = 0.0
    ) -> tuple[float, Floats]:
        """Return the loss [nats] and its gradient, for standardised parameters and latencies."""
        network = self.network(values)
        # Far off, weights overflow; what comes of it is checked.
        with np.errstate(over="ignore", invalid="ignore"):
            outputs = network.layer_outputs(inputs)
            residuals = targets - outputs[-1][:, 0]
            if not np.all(np.isfinite(residuals)):
                return TURN_BACK, np.zeros_like(values)
            hyperparameters = values[: self.posterior.size]
            loss, gradient, weights = self.posterior.evaluate(hyperparameters, inputs, residuals, row_noise)
            return loss, np.concatenate([gradient, network.gradient(outputs, -weights)])


class GpAnnMean(Estimator):
    """Gaussian process regression of the standardised latency around a network.

    Parameters
    ----------
    settings : GpAnnMeanSettings
        Hyperparameters.

    References
    ----------
    Ferianc et al., ARC 2020, Table 5.
    """

    Settings: ClassVar[type[StrictModel]] = GpAnnMeanSettings
    settings: GpAnnMeanSettings

    def __init__(self, settings: GpAnnMeanSettings) -> None:
        super().__init__(settings)
        columns = len(PARAMETER_NAMES)
        expression = parse_kernel(settings.kernel)
        posterior = LogPosterior(expression, columns, settings.ard, settings.noise_floor)
        self._objective = JointObjective(posterior, parse_layers(settings.layers), settings.activation)

    def fit(self, features: FeatureMatrix) -> NetworkMeanPredictor:
        """Return kernel and network trained on all rows."""
        return self._fit_arrays(features.parameters, features.latency_ms, mean_variance(features))

    def predict_folds(
        self, features: FeatureMatrix, folds: Sequence[Fold], progress: Progress | None = None
    ) -> list[Prediction]:
        """Return each fold's predictions; if there is much to do, folds share the cores."""
        workers: Workers = "one" if len(folds) * self.settings.steps < PROCESS_STEPS else "processes"
        predict = partial(
            self._predict_fold, features.parameters, features.latency_ms, mean_variance(features)
        )
        predictions = []
        # The matrices are small: threads inside of an operation would wait for each other, not help.
        with threadpool_limits(1):
            for done, prediction in enumerate(map_folds(predict, folds, workers), start=1):
                predictions.append(prediction)
                if progress is not None:
                    progress(done, len(folds))
        return predictions

    def _predict_fold(
        self, parameters: Floats, latency_ms: Floats, variance: Floats, fold: Fold
    ) -> Prediction:
        train = fold.train
        fitted = self._fit_arrays(parameters[train], latency_ms[train], variance[train])
        return fitted.predict_parameters(parameters[fold.test])

    def _fit_arrays(self, parameters: Floats, latency_ms: Floats, variance: Floats) -> NetworkMeanPredictor:
        settings, objective = self.settings, self._objective
        rows = self.scale(parameters, latency_ms, variance)
        with threadpool_limits(1):
            values, loss = adam(
                partial(objective, inputs=rows.inputs, targets=rows.targets, row_noise=rows.row_noise),
                objective.start(settings.seed),
                settings.steps,
                settings.learning_rate,
                give_up=TURN_BACK,
            )
        if not loss < TURN_BACK:
            raise FitError(
                f"training of gp_ann_mean diverged: kernel {settings.kernel}, layers {settings.layers}, "
                f"{settings.activation}, learning rate {settings.learning_rate:g}, {settings.steps} steps"
            )
        return self.predictor(values, rows)

    @staticmethod
    def scale(parameters: Floats, latency_ms: Floats, variance: Floats | float = 0.0) -> ScaledRows:
        """Return parameters, latencies [ms] and their known variance [ms²], scaled by themselves."""
        standardiser = Standardiser.fit(parameters)
        centre = float(latency_ms.mean())
        # Latencies that are all equal are their mean; any unit serves for what is left.
        scale = float(latency_ms.std()) or centre * 1e-9
        inputs, targets = standardiser(parameters), (latency_ms - centre) / scale
        return ScaledRows(standardiser, centre, scale, inputs, targets, variance / scale**2)

    def predictor(self, values: Floats, rows: ScaledRows) -> NetworkMeanPredictor:
        """Return kernel and network at unconstrained values, conditioned on some rows."""
        posterior, network = self._objective.posterior, self._objective.network(values)
        hyperparameters = values[: posterior.size]
        process = GaussianProcessPredictor(
            mean_name="zero",
            modules=(),
            standardiser=rows.standardiser,
            kernel=posterior.kernel(hyperparameters),
            noise_variance=posterior.noise_variance(hyperparameters),
            residual_scale=rows.scale,
            inputs=rows.inputs,
            residuals=rows.targets - network(rows.inputs),
            row_noise=rows.row_noise,
        )
        return NetworkMeanPredictor(process, network, rows.centre)
