"""Gaussian processes against closed forms, plain loops and GPflow itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from accelperf.evaluation.splits import make_folds
from accelperf.features import FeatureMatrix
from accelperf.models.base import Estimator, Fold
from accelperf.models.catalog import create
from accelperf.models.predictors import GaussianProcessPredictor
from tests.tolerances import CLOSED_FORM, REFIT, TENSORFLOW

Maker = Callable[..., FeatureMatrix]


def with_latency(features: FeatureMatrix, latency_ms: np.ndarray) -> FeatureMatrix:
    return FeatureMatrix(features.table.assign(latency_ms=latency_ms))


@pytest.fixture(scope="module")
def features(features_of: Maker) -> FeatureMatrix:
    return features_of(40)


@pytest.fixture(scope="module")
def fitted(features: FeatureMatrix) -> GaussianProcessPredictor:
    return create("gp_analytic", {"mean": "tiled", "restarts": 0}).fit(features)


def test_predictions_agree_with_gpflow(
    features: FeatureMatrix, fitted: GaussianProcessPredictor, features_of: Maker
) -> None:
    import gpflow

    part = fitted.kernel.parts[0]
    model = gpflow.models.GPR(
        (fitted.inputs, fitted.residuals[:, None]),
        gpflow.kernels.Matern32(part.variance[0], part.lengthscales),
        noise_variance=fitted.noise_variance,
    )
    new = features_of(15, seed=9)
    mean, variance = model.predict_y(fitted.standardiser(new.parameters))
    prediction = fitted.predict(new)
    expected = fitted.mean_ms(new) + fitted.residual_scale * mean.numpy()[:, 0]
    np.testing.assert_allclose(prediction.median_ms, expected, rtol=TENSORFLOW)
    expected_std = fitted.residual_scale * np.sqrt(variance.numpy()[:, 0])
    np.testing.assert_allclose(prediction.std_ms, expected_std, rtol=TENSORFLOW)


def test_closed_form_leave_one_out_is_refitting_at_fixed_hyperparameters(
    features: FeatureMatrix, fitted: GaussianProcessPredictor
) -> None:
    closed = fitted.predict_loo(features)
    for row in range(len(features)):
        rest = np.delete(np.arange(len(features)), row)
        without = replace(fitted, inputs=fitted.inputs[rest], residuals=fitted.residuals[rest])
        one = without.predict(features.take(np.array([row])))
        np.testing.assert_allclose(closed.median_ms[row], one.median_ms[0], rtol=CLOSED_FORM)
        np.testing.assert_allclose(closed.std_ms[row], one.std_ms[0], rtol=CLOSED_FORM)


@pytest.mark.parametrize("kernel", ["matern32", "rbf+linear"])
def test_folds_find_the_optimum_of_the_plain_loop(features: FeatureMatrix, kernel: str) -> None:
    settings = {"mean": "tiled", "restarts": 0, "ard": False, "kernel": kernel}
    folds = make_folds(features, "loo")[:6]
    ours = create("gp_analytic", settings).predict_folds(features, folds)
    plain = Estimator.predict_folds(create("gp_analytic", settings), features, folds)
    for fast, slow in zip(ours, plain, strict=True):
        np.testing.assert_allclose(fast.median_ms, slow.median_ms, rtol=REFIT)
        np.testing.assert_allclose(fast.std_ms, slow.std_ms, rtol=REFIT)


def test_a_fold_knows_nothing_of_the_latency_it_leaves_out(features: FeatureMatrix) -> None:
    settings = {"mean": "tiled", "restarts": 0, "ard": False}
    fold = [make_folds(features, "loo")[3]]
    changed = features.latency_ms.copy()
    changed[3] *= 1.5
    before = create("gp_analytic", settings).predict_folds(features, fold)[0]
    after = create("gp_analytic", settings).predict_folds(with_latency(features, changed), fold)[0]
    np.testing.assert_allclose(after.median_ms, before.median_ms, rtol=REFIT)


@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_the_unit_of_time_does_not_matter(features: FeatureMatrix, unit: float) -> None:
    # The mean stays in ms, so that only the zero mean can be asked this way.
    settings = {"mean": "zero", "restarts": 0}
    ours = create("gp_zero", settings).fit(features).predict(features)
    scaled = with_latency(features, features.latency_ms * unit)
    theirs = create("gp_zero", settings).fit(scaled).predict(scaled)
    np.testing.assert_allclose(theirs.median_ms / unit, ours.median_ms, rtol=REFIT)


def test_adam_reaches_the_optimum_of_lbfgs(features: FeatureMatrix) -> None:
    common = {"mean": "tiled", "restarts": 0, "ard": False}
    adam = create("gp_analytic", common | {"optimizer": "adam", "learning_rate": 0.1, "steps": 400})
    lbfgs = create("gp_analytic", common)
    np.testing.assert_allclose(
        adam.fit(features).predict(features).median_ms,
        lbfgs.fit(features).predict(features).median_ms,
        rtol=REFIT,
    )


@pytest.mark.parametrize("key", ["gp_zero", "gp_analytic"])
def test_hard_data(features: FeatureMatrix, key: str) -> None:
    """Duplicates, constant columns and noise-free targets are fitted like any other."""
    mean = {"gp_zero": "zero", "gp_analytic": "paper"}[key]
    doubled = features.take(np.repeat(np.arange(20), 2))
    one_accelerator = features.take(np.arange(0, 40, 2))
    exact = create("standard", {}).fit(features).predict(features).median_ms
    # Without structure the likelihood asks for ever shorter lengthscales.
    random = with_latency(features, np.random.default_rng(0).uniform(0.01, 9, len(features)))
    shuffled = random.take(np.repeat(np.arange(20), 2))
    for rows in (doubled, one_accelerator, shuffled, with_latency(features, exact)):
        estimator = create(key, {"mean": mean, "restarts": 0, "kernel": "rbf", "steps": 60})
        folds = [Fold("a", np.arange(4, len(rows)), np.arange(4))]
        prediction = estimator.predict_folds(rows, folds)[0]
        assert np.all(np.isfinite(prediction.median_ms))
        assert np.all(prediction.std_ms > 0)


def test_an_exact_mean_is_kept(features: FeatureMatrix) -> None:
    exact = create("standard", {}).fit(features).predict(features).median_ms
    estimator = create("gp_analytic", {"mean": "paper", "restarts": 0})
    prediction = estimator.fit(with_latency(features, exact)).predict(features)
    np.testing.assert_allclose(prediction.median_ms, exact, rtol=CLOSED_FORM)
