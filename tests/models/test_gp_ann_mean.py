"""The Gaussian process with a network as its mean: its gradient, its training, its folds."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from accelperf.errors import InputError
from accelperf.evaluation.splits import make_folds
from accelperf.features import FeatureMatrix
from accelperf.models import gp_ann_mean
from accelperf.models.base import Estimator, FitError
from accelperf.models.catalog import create
from accelperf.models.gp_ann_mean import JointObjective
from accelperf.models.kernels import parse_kernel
from accelperf.models.log_posterior import LogPosterior
from accelperf.models.network_predictor import NetworkMeanPredictor
from accelperf.models.perceptron import ACTIVATIONS
from accelperf.models.quiet_import import silenced_stderr
from tests.tolerances import CLOSED_FORM, EXACT_ALGEBRA, FINITE_DIFFERENCE, LOCKSTEP, REFIT, TENSORFLOW

Maker = Callable[..., FeatureMatrix]

SMALL = {"layers": "5-4-1", "steps": 20, "learning_rate": 0.01}


def rows(count: int = 20) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(4)
    return generator.normal(size=(count, 15)), generator.normal(size=count)


def objective(activation: str = "tanh", kernel: str = "matern32") -> JointObjective:
    return JointObjective(LogPosterior(parse_kernel(kernel), 15, True, 1e-3), (5, 4, 1), activation)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_the_joint_gradient_is_a_difference(activation: str) -> None:
    inputs, targets = rows()
    joint = objective(activation)
    generator = np.random.default_rng(5)
    start = joint.start(0)
    values = start + generator.normal(0, 0.1, len(start))
    _, gradient = joint(values, inputs, targets)
    for _ in range(10):
        change = 1e-6 * generator.normal(size=len(values))
        high, _ = joint(values + change, inputs, targets)
        low, _ = joint(values - change, inputs, targets)
        assert (high - low) / 2 == pytest.approx(gradient @ change, rel=FINITE_DIFFERENCE)


def test_loss_and_gradient_are_those_of_gpflow() -> None:
    """A GPflow model whose mean function is the network, differentiated by TensorFlow."""
    with silenced_stderr():
        import gpflow
        import tensorflow as tf

    inputs, targets = rows()
    joint = objective()
    values = joint.start(3)
    network = joint.network(values)
    weights = [tf.Variable(array) for array in network.weights]
    biases = [tf.Variable(array) for array in network.biases]

    class Mean(gpflow.mean_functions.MeanFunction):
        def __call__(self, X: tf.Tensor) -> tf.Tensor:  # noqa: N803 - GPflow's name
            values = X
            for layer, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
                values = values @ weight + bias
                values = tf.tanh(values) if layer + 1 < len(weights) else values
            return values

    posterior = joint.posterior
    part = posterior.kernel(values[: posterior.size]).parts[0]
    model = gpflow.models.GPR(
        (inputs, targets[:, None]),
        gpflow.kernels.Matern32(part.variance[0], part.lengthscales),
        mean_function=Mean(),
        noise_variance=posterior.noise_variance(values[: posterior.size]),
    )
    with tf.GradientTape() as tape:
        loss = -model.log_marginal_likelihood()
    pairs = [variable for pair in zip(weights, biases, strict=True) for variable in pair]
    expected = np.concatenate([part.numpy().ravel() for part in tape.gradient(loss, pairs)])
    hyperparameters = values[: posterior.size]
    prior, _ = posterior._prior(posterior.constrained(hyperparameters))
    ours, gradient = joint(values, inputs, targets)
    assert ours - prior == pytest.approx(float(loss), rel=TENSORFLOW)
    np.testing.assert_allclose(gradient[posterior.size :], expected, rtol=TENSORFLOW, atol=TENSORFLOW)


def test_training_lowers_the_loss_of_kernel_and_network(features_of: Maker) -> None:
    features = features_of(40)
    estimator = create("gp_ann_mean", SMALL | {"steps": 200})
    fitted = estimator.fit(features)
    assert isinstance(fitted, NetworkMeanPredictor)
    start = objective().network(objective().start(0))
    assert np.abs(fitted.network.weights[0] - start.weights[0]).max() > 0.05
    error = np.abs(fitted.predict(features).median_ms - features.latency_ms)
    assert error.mean() < 0.1 * np.abs(features.latency_ms - features.latency_ms.mean()).mean()


@pytest.mark.parametrize("from_steps", [0, 20_000])
def test_folds_are_the_plain_loop(
    from_steps: int, features_of: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gp_ann_mean, "PROCESS_STEPS", from_steps)
    features = features_of(20)
    folds = make_folds(features, "leave_one_network_out") + make_folds(features, "loo")[:3]
    estimator = create("gp_ann_mean", SMALL)
    calls: list[tuple[int, int]] = []
    ours = estimator.predict_folds(features, folds, lambda *done: calls.append(done))
    plain = Estimator.predict_folds(estimator, features, folds)
    for fast, slow in zip(ours, plain, strict=True):
        np.testing.assert_allclose(fast.median_ms, slow.median_ms, rtol=LOCKSTEP)
        np.testing.assert_allclose(fast.std_ms, slow.std_ms, rtol=LOCKSTEP)
    assert calls == [(done, len(folds)) for done in range(1, len(folds) + 1)]


def test_a_fold_knows_nothing_of_the_latency_it_leaves_out(features_of: Maker) -> None:
    features = features_of(20)
    fold = [make_folds(features, "loo")[3]]
    changed = features.latency_ms.copy()
    changed[3] *= 1.5
    other = FeatureMatrix(features.table.assign(latency_ms=changed))
    before, after = (create("gp_ann_mean", SMALL).predict_folds(rows, fold)[0] for rows in (features, other))
    np.testing.assert_array_equal(after.median_ms, before.median_ms)


def test_the_unit_of_time_does_not_matter(features_of: Maker) -> None:
    features = features_of(30)
    scaled = FeatureMatrix(features.table.assign(latency_ms=features.latency_ms * 1e6))
    ours, theirs = (create("gp_ann_mean", SMALL).fit(rows).predict(features) for rows in (features, scaled))
    np.testing.assert_allclose(theirs.median_ms / 1e6, ours.median_ms, rtol=REFIT)
    np.testing.assert_allclose(theirs.std_ms / 1e6, ours.std_ms, rtol=REFIT)


def test_there_is_no_closed_form(features_of: Maker) -> None:
    """The network saw every row, so that fixed hyperparameters leave none out."""
    assert create("gp_ann_mean", SMALL).predict_loo_fixed(features_of(12)) is None


@pytest.mark.parametrize("kernel", ["linear", "rbf", "matern12*linear"])
def test_hard_data(kernel: str, features_of: Maker) -> None:
    features = features_of(24)
    constant = FeatureMatrix(features.table.assign(latency_ms=2.5))
    doubled = features.take(np.repeat(np.arange(12), 2))
    estimator = create("gp_ann_mean", SMALL | {"kernel": kernel})
    np.testing.assert_allclose(
        estimator.fit(constant).predict(features).median_ms, 2.5, rtol=EXACT_ALGEBRA * 1e4
    )
    prediction = estimator.fit(doubled).predict(features)
    assert np.all(np.isfinite(prediction.median_ms))
    assert np.all(prediction.std_ms > 0)


@pytest.mark.parametrize("learning_rate", [1e3, 1e200])
def test_divergence_is_named(learning_rate: float, features_of: Maker) -> None:
    estimator = create("gp_ann_mean", SMALL | {"learning_rate": learning_rate, "kernel": "linear"})
    message = rf"gp_ann_mean diverged: kernel linear, layers 5-4-1, tanh, learning rate {learning_rate:g}"
    with pytest.raises(FitError, match=message.replace("+", r"\+")):
        estimator.fit(features_of(20))


def test_state(features_of: Maker) -> None:
    features = features_of(20)
    fitted = create("gp_ann_mean", SMALL | {"kernel": "rbf+linear"}).fit(features)
    again = NetworkMeanPredictor.from_state(*fitted.state())
    np.testing.assert_array_equal(again.predict(features).std_ms, fitted.predict(features).std_ms)


def test_repeated_runs_agree(features_of: Maker) -> None:
    features = features_of(20)
    fit = partial(create, "gp_ann_mean")
    first, second = (fit(SMALL).fit(features).predict(features).median_ms for _ in range(2))
    np.testing.assert_array_equal(first, second)
    other = fit(SMALL | {"seed": 1}).fit(features).predict(features).median_ms
    assert not np.array_equal(first, other)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kernel": "matern"}, "gp_ann_mean: kernel: a kernel, one of"),
        ({"layers": "15-64"}, "gp_ann_mean: layers: widths of layers that end in one output"),
        ({"learning_rate": 0.0}, "gp_ann_mean: learning_rate"),
        ({"mean": "zero"}, "hyperparameter of gp_ann_mean, one of activation, ard, .*'mean'"),
    ],
)
def test_settings_out_of_bounds(settings: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        create("gp_ann_mean", settings)


def test_the_spread_of_runs_is_noise_of_its_row(features_of: Maker) -> None:
    features = features_of(20)
    std = np.where(np.arange(20) == 3, features.latency_ms, np.nan)
    known = FeatureMatrix(features.table.assign(latency_std_ms=std, repeats=4))
    process = create("gp_ann_mean", SMALL).fit(known).process
    expected = np.zeros(20)
    expected[3] = (features.latency_ms[3] / 2 / process.residual_scale) ** 2
    np.testing.assert_allclose(process.row_noise, expected, rtol=CLOSED_FORM)
    unknown = create("gp_ann_mean", SMALL).fit(features)
    still = FeatureMatrix(features.table.assign(latency_std_ms=0.0, repeats=4))
    same = create("gp_ann_mean", SMALL).fit(still)
    np.testing.assert_array_equal(same.predict(features).median_ms, unknown.predict(features).median_ms)
