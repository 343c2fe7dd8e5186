"""Networks trained in lockstep against the same networks trained alone, and against Keras."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from accelperf.bundle import save_bundle
from accelperf.errors import InputError
from accelperf.evaluation.splits import make_folds
from accelperf.features import FeatureMatrix, write_features
from accelperf.models.ann import Ann, row_order
from accelperf.models.ann_settings import AnnSettings
from accelperf.models.base import Estimator, FitError, Fold
from accelperf.models.catalog import create
from accelperf.models.network_predictor import NetworkPredictor
from accelperf.models.perceptron import (
    ACTIVATIONS,
    Perceptron,
    initial_parameters,
    layer_shapes,
    parse_layers,
)
from tests.tolerances import CLOSED_FORM, EXACT_ALGEBRA, FLOAT32, LOCKSTEP

Maker = Callable[..., FeatureMatrix]


def ann(**settings: object) -> Ann:
    return Ann(AnnSettings.model_validate(settings))


def test_a_fold_in_lockstep_is_the_same_network_alone(features_of: Maker) -> None:
    """20 epochs in double precision, at the paper's settings."""
    features = features_of(30)
    folds = make_folds(features, "loo")
    together = ann(epochs=20).fit_folds(features, folds)
    for number in (0, 13, 29):
        alone = ann(epochs=20).fit(features.take(folds[number].train))
        for ours, theirs in zip(together[number].network.weights, alone.network.weights, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=LOCKSTEP, atol=LOCKSTEP)
        np.testing.assert_allclose(
            together[number].predict(features).median_ms, alone.predict(features).median_ms, rtol=LOCKSTEP
        )


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_folds_of_unequal_size_are_the_plain_loop(activation: str, features_of: Maker) -> None:
    features = features_of(40)
    estimator = create(
        "ann", {"epochs": 5, "layers": "7-3-1", "activation": activation, "learning_rate": 0.01}
    )
    rows = np.arange(40)
    folds = [Fold("a", rows[4:], rows[:4]), Fold("b", rows[:16], rows[16:]), Fold("c", rows[11:], rows[:3])]
    ours = estimator.predict_folds(features, folds)
    plain = Estimator.predict_folds(estimator, features, folds)
    for fast, slow in zip(ours, plain, strict=True):
        np.testing.assert_allclose(fast.median_ms, slow.median_ms, rtol=LOCKSTEP)


@pytest.fixture
def keras_in_double_precision() -> Iterator[None]:
    import tf_keras

    tf_keras.backend.set_floatx("float64")
    yield
    tf_keras.backend.set_floatx("float32")


@pytest.mark.usefixtures("keras_in_double_precision")
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_training_is_that_of_keras(activation: str, features_of: Maker) -> None:
    """The same start and batches, handed to Keras one by one."""
    import tf_keras

    features = features_of(21)
    settings = AnnSettings(layers="6-4-1", activation=activation, epochs=4, l2=0.01)
    fitted = Ann(settings).fit(features)

    layers = tf_keras.layers
    regularizer = tf_keras.regularizers.L2(0.01)
    model = tf_keras.Sequential(
        [layers.Input(shape=(15,))]
        + [
            layers.Dense(width, activation=name, kernel_regularizer=regularizer)
            for width, name in ((6, activation), (4, activation), (1, None))
        ]
    )
    generator = np.random.default_rng(settings.seed)
    start = initial_parameters(15, (6, 4, 1), generator)
    network = Perceptron.from_vector(activation, 15, (6, 4, 1), start)
    pairs = zip(network.weights, network.biases, strict=True)
    model.set_weights([array for pair in pairs for array in pair])
    # The other Adam of Keras rounds 1 - 0.999 to single precision, a relative error of 1e-5.
    model.compile(tf_keras.optimizers.legacy.Adam(learning_rate=0.1), "mse")
    inputs = fitted.standardiser(features.parameters)
    targets = (features.latency_ms - fitted.latency_mean) / fitted.latency_scale
    for batch in row_order(21, settings, generator):
        rows = batch[batch >= 0]
        model.train_on_batch(inputs[rows], targets[rows, None])
    expected = fitted.latency_mean + fitted.latency_scale * model(inputs).numpy()[:, 0]
    np.testing.assert_allclose(fitted.predict(features).median_ms, expected, rtol=FLOAT32, atol=FLOAT32)


def test_every_epoch_sees_every_row_once() -> None:
    settings = AnnSettings(batch_size=8, epochs=3)
    order = row_order(21, settings, np.random.default_rng(0)).reshape(3, -1)
    assert order.shape == (3, 24)
    for epoch in order:
        assert sorted(epoch) == [-1, -1, -1, *range(21)]
        assert np.all(epoch[:21] >= 0)
    assert not np.array_equal(order[0], order[1])


def test_the_unit_of_time_does_not_matter(features_of: Maker) -> None:
    features = features_of(30)
    scaled = FeatureMatrix(features.table.assign(latency_ms=features.latency_ms * 1e6))
    ours, theirs = (ann(epochs=5).fit(rows).predict(rows).median_ms for rows in (features, scaled))
    np.testing.assert_allclose(theirs / 1e6, ours, rtol=LOCKSTEP)


def test_a_smooth_function_is_learned(features_of: Maker) -> None:
    features = features_of(60, noise=0.0)
    fitted = ann(epochs=400, learning_rate=0.01, activation="tanh").fit(features)
    error = fitted.predict(features).median_ms - features.latency_ms
    assert np.mean(np.abs(error)) < 0.1 * np.mean(np.abs(features.latency_ms - features.latency_ms.mean()))


def test_constant_columns_and_latencies(features_of: Maker) -> None:
    features = features_of(12)
    constant = FeatureMatrix(features.table.assign(latency_ms=2.5))
    np.testing.assert_allclose(
        ann(epochs=2).fit(constant).predict(features).median_ms, 2.5, rtol=EXACT_ALGEBRA
    )


def test_divergence_is_named(features_of: Maker) -> None:
    features = features_of(12)
    wild = ann(learning_rate=1e200, epochs=3)
    said = re.escape(
        "ann diverged: layers 10-10-1, relu, learning rate 1e+200, batch size 8, l2 0.001, 3 epochs"
    )
    with pytest.raises(FitError, match=said):
        wild.fit(features)
    with pytest.raises(FitError, match="ann diverged in 12 of 12 folds"):
        wild.predict_folds(features, make_folds(features, "loo"))


def test_progress_ends_at_the_number_of_folds(features_of: Maker) -> None:
    features = features_of(12)
    calls: list[tuple[int, int]] = []
    ann(epochs=11).predict_folds(features, make_folds(features, "loo"), lambda *done: calls.append(done))
    assert calls == sorted(calls)
    assert calls[-1] == (12, 12)


def test_shapes_of_networks() -> None:
    assert parse_layers("10-10-1") == (10, 10, 1)
    assert parse_layers("1") == (1,)
    assert layer_shapes(15, (10, 10, 1)) == [(15, 10), (10, 10), (10, 1)]
    for text in ("", "10", "10-", "10-0-1", "10 - 1", "10-10-2", "a-1", "-1"):
        with pytest.raises(InputError, match="layers that end in one output"):
            parse_layers(text)


def test_values_of_a_network_by_hand() -> None:
    network = Perceptron(
        "relu", (np.array([[1.0, -1.0]]), np.array([[2.0], [3.0]])), (np.zeros(2), np.ones(1))
    )
    np.testing.assert_allclose(network(np.array([[2.0], [-2.0]])), [5.0, 7.0], rtol=EXACT_ALGEBRA)
    sigmoid = ACTIVATIONS["sigmoid"](np.array([-800.0, 0.0, 2.0, 800.0]))
    np.testing.assert_allclose(
        sigmoid, [0, 0.5, 1 / (1 + np.exp(-2.0)), 1], rtol=CLOSED_FORM, atol=CLOSED_FORM
    )


def test_state(features_of: Maker) -> None:
    features = features_of(12)
    fitted = ann(epochs=1, layers="4-1").fit(features)
    again = NetworkPredictor.from_state(*fitted.state())
    np.testing.assert_array_equal(again.predict(features).median_ms, fitted.predict(features).median_ms)


@pytest.mark.parametrize("key", ["ann", "gtb", "gp_ann_mean"])
def test_predictions_need_numpy_alone(key: str, tmp_path: Path, features_of: Maker) -> None:
    features = features_of(12)
    fitted = create(key, {"ann": {"epochs": 1}, "gtb": {}, "gp_ann_mean": {"steps": 1}}[key]).fit(features)
    save_bundle(
        fitted, tmp_path, estimator=key, settings={}, features=features, features_md5="0" * 32, metrics={}
    )  # fmt: skip
    write_features(features, tmp_path / "features.csv")
    script = (
        "import sys; from pathlib import Path; from accelperf.bundle import load_bundle\n"
        "from accelperf.features import read_features\n"
        "folder = Path(sys.argv[1])\n"
        "prediction = load_bundle(folder).predictor.predict(read_features(folder / 'features.csv'))\n"
        "loaded = {name.partition('.')[0] for name in sys.modules}\n"
        "trainers = {'tensorflow', 'gpflow', 'sklearn', 'xgboost'}\n"
        "print(float(prediction.median_ms[0]), sorted(loaded & trainers))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True
    )
    value, _, loaded = done.stdout.strip().partition(" ")
    assert float(value) == pytest.approx(fitted.predict(features).median_ms[0], rel=EXACT_ALGEBRA)
    assert loaded == "[]"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"layers": "10-10"}, "ann: layers: widths of layers that end in one output"),
        ({"learning_rate": 0.0}, "ann: learning_rate"),
        ({"batch_size": 0}, "ann: batch_size"),
        ({"units": 10}, "hyperparameter of ann, one of activation, batch_size, .*'units'"),
    ],
)
def test_settings_out_of_bounds(settings: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        create("ann", settings)
