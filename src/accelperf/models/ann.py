"""A small neural network trained with TensorFlow: ``ann``.

Networks of all folds are trained in lockstep, as one batched computation with weights of shape
[folds, inputs, outputs], inside one compiled loop over all steps. Every fold has its own scaling,
starting weights and order of rows, the same as if it were trained alone: the loop saves the cost of
building and calling a network for each fold, and changes no result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from accelperf.features import FeatureMatrix
from accelperf.models.ann_settings import AnnSettings
from accelperf.models.base import Estimator, FitError, Fold, Prediction, Progress
from accelperf.models.network_predictor import NetworkPredictor
from accelperf.models.perceptron import (
    Perceptron,
    initial_parameters,
    layer_shapes,
    parse_layers,
)
from accelperf.models.predictors import Standardiser
from accelperf.models.quiet_import import silenced_stderr
from accelperf.yaml_input import StrictModel

with silenced_stderr():
    import tensorflow as tf

Floats = NDArray[np.float64]
Integers = NDArray[np.int32]

BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-7
"""Decay rates and offset of Adam (Kingma & Ba, ICLR 2015), as Keras has them by default."""
PARTS = 20
"""Number of calls that the training is cut into, for progress to be shown between them."""
NO_ROW = -1
"""Stands in a batch where there is no row."""

_TF_ACTIVATIONS: dict[str, Any] = {"relu": tf.nn.relu, "tanh": tf.tanh, "sigmoid": tf.sigmoid}


def row_order(rows: int, settings: AnnSettings, generator: np.random.Generator) -> Integers:
    """Return the batches of a whole training, shape [steps, batch size], `NO_ROW` where one is short.

    Each epoch goes over all rows once, in an order of its own.
    """
    steps = -(-rows // settings.batch_size)
    order = np.full((settings.epochs, steps * settings.batch_size), NO_ROW, dtype=np.int32)
    for epoch in order:
        epoch[:rows] = generator.permutation(rows)
    return order.reshape(settings.epochs * steps, settings.batch_size)


@dataclass(frozen=True)
class _Lockstep:
    """Networks of several folds, ready to be trained together.

    Attributes
    ----------
    standardisers, scales : list of Standardiser
        Scaling of each fold's parameters and latencies.
    start : array of shape [folds, parameters]
        Starting weights.
    order : array of int, shape [courses, steps, batch size]
        Batches, as positions among a fold's training rows. Folds with equally many rows follow the
        same course, as each of them would alone.
    data : dict
        ``inputs`` [rows, columns] and ``targets`` [rows] of all rows; for each fold ``input_shift``,
        ``input_factor`` [folds, columns] and ``target_shift``, ``target_factor`` [folds], which
        scale them; ``rows`` [folds, most rows], the numbers of its training rows; ``course``
        [folds], the number of its course.
    """

    standardisers: list[Standardiser]
    scales: list[Standardiser]
    start: Floats
    order: Integers
    data: dict[str, NDArray[Any]]

    @classmethod
    def plan(cls, features: FeatureMatrix, folds: Sequence[Fold], settings: AnnSettings) -> _Lockstep:
        inputs, latency = features.parameters, features.latency_ms
        layers = parse_layers(settings.layers)
        sizes = sorted({len(fold.train) for fold in folds})
        starts, orders = [], []
        for size in sizes:
            generator = np.random.default_rng(settings.seed)
            starts.append(initial_parameters(inputs.shape[1], layers, generator))
            orders.append(row_order(size, settings, generator))
        order = np.full((len(sizes), len(orders[-1]), settings.batch_size), NO_ROW, dtype=np.int32)
        for number, own in enumerate(orders):
            order[number, : len(own)] = own
        course = np.array([sizes.index(len(fold.train)) for fold in folds], dtype=np.int32)
        rows = np.zeros((len(folds), sizes[-1]), dtype=np.int32)
        for number, fold in enumerate(folds):
            rows[number, : len(fold.train)] = fold.train
        standardisers = [Standardiser.fit(inputs[fold.train]) for fold in folds]
        scales = [Standardiser.fit(latency[fold.train, None]) for fold in folds]
        data = {
            "inputs": inputs,
            "targets": latency,
            "input_shift": np.stack([one.mean for one in standardisers]),
            "input_factor": np.stack([_inverse(one.scale) for one in standardisers]),
            "target_shift": np.concatenate([one.mean for one in scales]),
            "target_factor": np.concatenate([_inverse(one.scale) for one in scales]),
            "rows": rows,
            "course": course,
        }
        return cls(standardisers, scales, np.stack([starts[number] for number in course]), order, data)


def _inverse(scale: Floats) -> Floats:
    """Return what standardising multiplies with: 0 for a constant column, which becomes 0."""
    return np.where(scale == 0, 0.0, 1.0 / np.where(scale == 0, 1.0, scale))


class _Trainer:
    """The compiled training loop of one shape of network.

    Parameters
    ----------
    columns : int
        Number of inputs.
    settings : AnnSettings
        Hyperparameters.
    """

    def __init__(self, columns: int, settings: AnnSettings) -> None:
        self._settings = settings
        self._shapes = layer_shapes(columns, parse_layers(settings.layers))
        self._sizes = [size for before, width in self._shapes for size in (before * width, width)]
        # Biases are not decayed.
        parts = [np.full(size, 1.0 - index % 2) for index, size in enumerate(self._sizes)]
        self._decayed = np.concatenate(parts)
        self._run = tf.function(self._steps, autograph=False, jit_compile=True)

    def __call__(self, lockstep: _Lockstep, progress: Callable[[float], None]) -> Floats:
        """Return the trained parameters of all folds, shape [folds, parameters].

        `progress` is called with the share of the steps that are done.
        """
        order = lockstep.order
        length = -(-order.shape[1] // PARTS)
        parts = -(-order.shape[1] // length)
        # All parts have one length, or the last one would be compiled anew.
        missing = parts * length - order.shape[1]
        order = np.pad(order, ((0, 0), (0, missing), (0, 0)), constant_values=NO_ROW)
        data = {name: tf.constant(values) for name, values in lockstep.data.items()}
        start = tf.constant(lockstep.start)
        state = [start, tf.zeros_like(start), tf.zeros_like(start), tf.zeros([], tf.float64)]
        for part in range(parts):
            batches = tf.constant(order[:, part * length : (part + 1) * length])
            state = self._run(state, data, batches)
            parameters: Floats = state[0].numpy()
            progress((part + 1) / parts)
        return parameters

    def _outputs(self, parameters: Any, inputs: Any) -> Any:
        """Return the outputs [folds, batch] for inputs [folds, batch, columns]."""
        parts = tf.split(parameters, self._sizes, axis=1)
        activate = _TF_ACTIVATIONS[self._settings.activation]
        values = inputs
        for layer, (before, width) in enumerate(self._shapes):
            weights = tf.reshape(parts[2 * layer], [-1, before, width])
            values = tf.matmul(values, weights) + parts[2 * layer + 1][:, None, :]
            if layer + 1 < len(self._shapes):
                values = activate(values)
        return values[:, :, 0]

    def _steps(self, state: list[Any], data: dict[str, Any], batches: Any) -> list[Any]:
        """Take the optimiser through a part of the steps."""
        settings = self._settings
        decayed = tf.constant(self._decayed)

        def step(number: Any, parameters: Any, first: Any, second: Any, count: Any) -> tuple[Any, ...]:
            position = tf.gather(batches[:, number, :], data["course"])
            present = tf.cast(position >= 0, tf.float64)
            rows = tf.gather(data["rows"], tf.maximum(position, 0), batch_dims=1)
            inputs = tf.gather(data["inputs"], rows) - data["input_shift"][:, None, :]
            inputs *= data["input_factor"][:, None, :]
            targets = tf.gather(data["targets"], rows) - data["target_shift"][:, None]
            targets *= data["target_factor"][:, None]
            in_batch = tf.reduce_sum(present, axis=1)
            with tf.GradientTape() as tape:
                tape.watch(parameters)
                squared = tf.square(self._outputs(parameters, inputs) - targets) * present
                error = tf.reduce_sum(squared, axis=1) / tf.maximum(in_batch, 1.0)
                penalty = settings.l2 * tf.reduce_sum(decayed * tf.square(parameters), axis=1)
                # Folds share no parameter, so that the sum's gradient is each fold's own.
                loss = tf.reduce_sum(error + penalty)
            gradient = tape.gradient(loss, parameters)
            count += 1.0
            first_new = BETA_1 * first + (1.0 - BETA_1) * gradient
            second_new = BETA_2 * second + (1.0 - BETA_2) * tf.square(gradient)
            rate = settings.learning_rate * tf.sqrt(1.0 - BETA_2**count) / (1.0 - BETA_1**count)
            moved = parameters - rate * first_new / (tf.sqrt(second_new) + EPSILON)
            # A fold with fewer rows is through earlier; it keeps what it has.
            active = (in_batch > 0)[:, None]
            return (
                number + 1,
                tf.where(active, moved, parameters),
                tf.where(active, first_new, first),
                tf.where(active, second_new, second),
                count,
            )

        steps = tf.shape(batches)[1]
        _, *state = tf.while_loop(lambda number, *_: number < steps, step, (0, *state))
        return state


class Ann(Estimator):
    """A fully connected network from the 15 standardised parameters to the standardised latency.

    It is trained with Adam on the mean squared error of small batches plus an L2 penalty.

    Parameters
    ----------
    settings : AnnSettings
        Hyperparameters.
    """

    Settings: ClassVar[type[StrictModel]] = AnnSettings
    settings: AnnSettings

    def __init__(self, settings: AnnSettings) -> None:
        super().__init__(settings)
        self._trainer: _Trainer | None = None

    def fit(self, features: FeatureMatrix) -> NetworkPredictor:
        """Return the network trained on all rows."""
        everything = Fold("all", np.arange(len(features)), np.arange(len(features)))
        return self.fit_folds(features, [everything])[0]

    def predict_folds(
        self, features: FeatureMatrix, folds: Sequence[Fold], progress: Progress | None = None
    ) -> list[Prediction]:
        """Return each fold's predictions, all networks trained in lockstep."""
        parameters = features.parameters
        networks = self.fit_folds(features, folds, progress)
        return [
            Prediction(network.predict_parameters(parameters[fold.test]))
            for network, fold in zip(networks, folds, strict=True)
        ]

    def fit_folds(
        self, features: FeatureMatrix, folds: Sequence[Fold], progress: Progress | None = None
    ) -> list[NetworkPredictor]:
        """Return each fold's network, trained on its training rows alone.

        Parameters
        ----------
        features : FeatureMatrix
            All rows.
        folds : sequence of Fold
            Whose training rows to fit to.
        progress : callable, optional
            Called with the number of finished folds, or the share of the work in folds, and of all.

        Raises
        ------
        FitError
            If a network diverged.
        """
        if self._trainer is None:
            self._trainer = _Trainer(features.parameters.shape[1], self.settings)

        def report(share: float) -> None:
            if progress is not None:
                progress(int(share * len(folds)), len(folds))

        lockstep = _Lockstep.plan(features, folds, self.settings)
        trained = self._trainer(lockstep, report)
        self._check_finite(trained, folds)
        settings = self.settings
        layers, columns = parse_layers(settings.layers), features.parameters.shape[1]
        return [
            NetworkPredictor(
                standardiser,
                Perceptron.from_vector(settings.activation, columns, layers, parameters),
                float(scale.mean[0]),
                float(scale.scale[0]),
            )
            for standardiser, scale, parameters in zip(
                lockstep.standardisers, lockstep.scales, trained, strict=True
            )
        ]

    def _check_finite(self, trained: Floats, folds: Sequence[Fold]) -> None:
        failed = [fold for fold, one in zip(folds, trained, strict=True) if not np.all(np.isfinite(one))]
        if not failed:
            return
        where = "" if len(folds) == 1 else f" in {len(failed)} of {len(folds)} folds"
        settings = self.settings
        raise FitError(
            f"training of ann diverged{where}: layers {settings.layers}, {settings.activation}, "
            f"learning rate {settings.learning_rate:g}, batch size {settings.batch_size}, "
            f"l2 {settings.l2:g}, {settings.epochs} epochs"
        )
