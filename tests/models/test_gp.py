"""Gaussian processes against closed forms, plain loops and GPflow itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from accelperf.bundle import load_bundle, save_bundle
from accelperf.errors import InputError
from accelperf.evaluation.splits import make_folds
from accelperf.features import FeatureMatrix
from accelperf.models.base import NORMAL_95, Estimator, FitError, Fold
from accelperf.models.calibrated_layers import MeasuredLayers, MeasuredRows
from accelperf.models.catalog import create
from accelperf.models.gp import GaussianProcess
from accelperf.models.gp_calibrated_settings import GpCalibratedSettings
from accelperf.models.gp_folds import TrainingRows
from accelperf.models.means import _MEANS, register_mean
from accelperf.models.predictors import GaussianProcessPredictor
from accelperf.models.roofline_mean import calibration
from tests.tolerances import CLOSED_FORM, REFIT, TENSORFLOW

Maker = Callable[..., FeatureMatrix]
VARIATIONS = [("tiled", "ratio"), ("calibrated", "difference"), ("calibrated", "ratio")]
"""Means and responses beyond the paper's."""


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
    closed = fitted.predict_loo(fitted.mean_ms(features))
    for row in range(len(features)):
        rest = np.delete(np.arange(len(features)), row)
        without = replace(
            fitted,
            inputs=fitted.inputs[rest],
            residuals=fitted.residuals[rest],
            row_noise=fitted.row_noise[rest],
        )
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


@pytest.mark.parametrize(("mean", "response"), VARIATIONS)
def test_folds_of_ratio_and_calibrated_mean_are_the_plain_loop(
    features: FeatureMatrix, mean: str, response: str
) -> None:
    settings = {"mean": mean, "response": response, "restarts": 0, "ard": False}
    folds = make_folds(features, "loo")[:6]
    ours = create("gp_analytic", settings).predict_folds(features, folds)
    plain = Estimator.predict_folds(create("gp_analytic", settings), features, folds)
    for fast, slow in zip(ours, plain, strict=True):
        for name in ("median_ms", "std_ms", "upper_ms"):
            np.testing.assert_allclose(getattr(fast, name), getattr(slow, name), rtol=REFIT)


@pytest.mark.parametrize(("mean", "response"), VARIATIONS)
def test_mean_and_scales_of_a_fold_are_those_of_its_rows(
    features: FeatureMatrix, mean: str, response: str
) -> None:
    settings = {"mean": mean, "response": response, "restarts": 0, "fold_steps": 0}
    estimator = create("gp_analytic", settings)
    assert isinstance(estimator, GaussianProcess)
    fold = make_folds(features, "leave_one_network_out")[1]
    ours = estimator.predict_folds(features, [fold])[0]
    # The hyperparameters of all rows; everything else of the training rows alone.
    train = features.take(fold.train)
    alone = TrainingRows.of(create("gp_analytic", settings)._rows(train))
    fitted = replace(
        estimator.fit(features),
        standardiser=alone.standardiser,
        residual_scale=alone.residual_scale,
        inputs=alone.inputs,
        residuals=alone.residuals,
        row_noise=alone.row_noise,
        roofline=alone.roofline,
    )
    plain = fitted.predict(features.take(fold.test))
    np.testing.assert_allclose(ours.median_ms, plain.median_ms, rtol=REFIT)
    np.testing.assert_allclose(ours.std_ms, plain.std_ms, rtol=REFIT)


def test_ratios_are_a_process_of_logarithms(features: FeatureMatrix, features_of: Maker) -> None:
    import gpflow

    fitted = create("gp_analytic", {"mean": "tiled", "response": "ratio", "restarts": 0}).fit(features)
    part = fitted.kernel.parts[0]
    scale = fitted.residual_scale
    log_ratio = np.log(features.latency_ms / fitted.mean_ms(features))
    model = gpflow.models.GPR(
        (fitted.inputs, log_ratio[:, None]),
        gpflow.kernels.Matern32(part.variance[0] * scale**2, part.lengthscales),
        noise_variance=fitted.noise_variance * scale**2,
    )
    new = features_of(15, seed=9)
    mean, variance = (array.numpy()[:, 0] for array in model.predict_y(fitted.standardiser(new.parameters)))
    prediction, median = fitted.predict(new), fitted.mean_ms(new) * np.exp(mean)
    half = NORMAL_95 * np.sqrt(variance)
    np.testing.assert_allclose(prediction.median_ms, median, rtol=TENSORFLOW)
    np.testing.assert_allclose(prediction.lower_ms, median * np.exp(-half), rtol=TENSORFLOW)
    np.testing.assert_allclose(prediction.upper_ms, median * np.exp(half), rtol=TENSORFLOW)
    # Of a log-normal the variance is (exp(s²) - 1) m² exp(s²), m the median.
    std = median * np.sqrt(np.expm1(variance) * np.exp(variance))
    np.testing.assert_allclose(prediction.std_ms, std, rtol=TENSORFLOW)


def test_closed_form_of_ratios_is_refitting_at_fixed_hyperparameters(features: FeatureMatrix) -> None:
    estimator = create("gp_analytic", {"mean": "tiled", "response": "ratio", "restarts": 0})
    closed, fitted = estimator.predict_loo_fixed(features), estimator.fit(features)
    for row in range(0, len(features), 7):
        rest = np.delete(np.arange(len(features)), row)
        one = leave_out(fitted, rest).predict(features.take(np.array([row])))
        np.testing.assert_allclose(closed.median_ms[row], one.median_ms[0], rtol=CLOSED_FORM)
        np.testing.assert_allclose(closed.upper_ms[row], one.upper_ms[0], rtol=CLOSED_FORM)


@pytest.mark.parametrize("response", ["difference", "ratio"])
def test_closed_form_of_a_calibrated_mean_fits_it_without_each_row(
    features: FeatureMatrix, response: str
) -> None:
    estimator = create("gp_analytic", {"mean": "calibrated", "response": response, "restarts": 0})
    closed, fitted = estimator.predict_loo_fixed(features), estimator.fit(features)
    how, rows = calibration(GpCalibratedSettings()), MeasuredRows.of(features)
    everything = MeasuredLayers.of(rows, np.arange(len(features)))
    full = how.fit(everything.layers.inputs, everything.log_ms, everything.layers.shapes)
    for row in range(0, len(features), 7):
        rest = np.delete(np.arange(len(features)), row)
        measured = MeasuredLayers.of(rows, rest)
        roofline = how.fit(
            measured.layers.inputs, measured.log_ms, measured.layers.shapes, start=full, search=False
        )
        mean_ms = roofline.latency_ms(features)[rest]
        latency = features.latency_ms[rest]
        residuals = latency - mean_ms if response == "difference" else np.log(latency / mean_ms)
        without = leave_out(fitted, rest)
        without = replace(without, roofline=roofline, residuals=residuals / fitted.residual_scale)
        one = without.predict(features.take(np.array([row])))
        np.testing.assert_allclose(closed.median_ms[row], one.median_ms[0], rtol=CLOSED_FORM)
        np.testing.assert_allclose(closed.std_ms[row], one.std_ms[0], rtol=CLOSED_FORM)


def leave_out(fitted: GaussianProcessPredictor, rest: np.ndarray) -> GaussianProcessPredictor:
    """Return the process with its hyperparameters, conditioned on the rest of its rows."""
    return replace(
        fitted,
        inputs=fitted.inputs[rest],
        residuals=fitted.residuals[rest],
        row_noise=fitted.row_noise[rest],
    )


@pytest.mark.parametrize(("mean", "response"), VARIATIONS)
def test_saved_and_loaded_it_predicts_the_same(
    features: FeatureMatrix, features_of: Maker, tmp_path: Path, mean: str, response: str
) -> None:
    settings = {"mean": mean, "response": response, "restarts": 0, "steps": 20}
    fitted = create("gp_analytic", settings).fit(features)
    save_bundle(
        fitted,
        tmp_path,
        estimator="gp_analytic",
        settings=settings,
        features=features,
        features_md5="0",
        metrics={},
    )
    loaded, new = load_bundle(tmp_path).predictor, features_of(15, seed=9)
    for name in ("median_ms", "std_ms", "lower_ms", "upper_ms"):
        ours, theirs = getattr(fitted.predict(new), name), getattr(loaded.predict(new), name)
        np.testing.assert_allclose(theirs, ours, rtol=CLOSED_FORM)


def test_a_calibrated_mean_of_one_shape_is_refused(features: FeatureMatrix) -> None:
    with pytest.raises(FitError, match="mean calibrated needs layers of at least 2 distinct shapes"):
        create("gp_analytic", {"mean": "calibrated"}).fit(features.take(np.array([0, 0])))


def test_a_ratio_to_zero_is_refused(features: FeatureMatrix) -> None:
    for key in ("gp_zero", "gp_analytic"):
        with pytest.raises(InputError, match=r"response: .*mean above 0 ms .*not zero"):
            create(key, {"mean": "zero", "response": "ratio"})
    register_mean("nothing_for_test")(lambda inputs, ops: 0.0 * inputs["groups"])
    try:
        estimator = create("gp_analytic", {"mean": "nothing_for_test", "response": "ratio"})
        with pytest.raises(FitError, match="mean above 0 ms, got 0 ms from mean 'nothing_for_test'"):
            estimator.fit(features)
    finally:
        del _MEANS["nothing_for_test"]


def with_spread(features: FeatureMatrix, std_ms: np.ndarray, repeats: int = 1) -> FeatureMatrix:
    return FeatureMatrix(features.table.assign(latency_std_ms=std_ms, repeats=repeats))


@pytest.mark.parametrize("response", ["difference", "ratio"])
def test_the_spread_of_runs_is_noise_of_its_row(features: FeatureMatrix, response: str) -> None:
    std = np.where(np.arange(len(features)) % 3 == 0, 0.1 * features.latency_ms, np.nan)
    spread = with_spread(features, std, repeats=4)
    settings = {"mean": "tiled", "response": response, "restarts": 0, "ard": False}
    fitted = create("gp_analytic", settings).fit(spread)
    # Plain NumPy: the variance of a mean of four runs, on the diagonal.
    variance = np.where(np.isnan(std), 0.0, std) ** 2 / 4
    if response == "ratio":
        variance = variance / features.latency_ms**2
    covariance = fitted.kernel(fitted.inputs, fitted.inputs)
    covariance += np.diag(fitted.noise_variance + variance / fitted.residual_scale**2)
    weights = np.linalg.solve(covariance, fitted.residuals)
    np.testing.assert_allclose(fitted.weights, weights, rtol=TENSORFLOW, atol=TENSORFLOW)
    closed = create("gp_analytic", settings).predict_loo_fixed(spread)
    for row in (0, 1, 3):
        rest = np.delete(np.arange(len(features)), row)
        one = leave_out(fitted, rest).predict(spread.take(np.array([row])))
        np.testing.assert_allclose(closed.median_ms[row], one.median_ms[0], rtol=TENSORFLOW)
        np.testing.assert_allclose(closed.std_ms[row], one.std_ms[0], rtol=TENSORFLOW)
    folds = make_folds(spread, "loo")[:4]
    ours = create("gp_analytic", settings).predict_folds(spread, folds)
    plain = Estimator.predict_folds(create("gp_analytic", settings), spread, folds)
    for fast, slow in zip(ours, plain, strict=True):
        np.testing.assert_allclose(fast.median_ms, slow.median_ms, rtol=REFIT)


def test_a_row_of_large_spread_is_trusted_less(features: FeatureMatrix) -> None:
    latency, std = features.latency_ms.copy(), np.full(len(features), np.nan)
    latency[5] *= 1.5
    std[5] = latency[5]
    settings = {"mean": "tiled", "restarts": 0, "ard": False}
    row = np.array([5])

    def error(rows: FeatureMatrix) -> float:
        median = create("gp_analytic", settings).fit(rows).predict(rows.take(row)).median_ms[0]
        return abs(median - latency[5])

    wrong = with_latency(features, latency)
    assert error(with_spread(wrong, std)) > 2 * error(wrong)


def test_no_known_spread_changes_nothing(features: FeatureMatrix, fitted: GaussianProcessPredictor) -> None:
    still = with_spread(features, np.zeros(len(features)), repeats=5)
    same = create("gp_analytic", {"mean": "tiled", "restarts": 0}).fit(still)
    np.testing.assert_array_equal(same.predict(features).median_ms, fitted.predict(features).median_ms)
    np.testing.assert_array_equal(same.predict(features).std_ms, fitted.predict(features).std_ms)
