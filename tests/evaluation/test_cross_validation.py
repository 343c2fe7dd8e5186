from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from accelperf.evaluation.cross_validation import PREDICTION_COLUMNS, evaluate
from accelperf.evaluation.splits import make_folds
from accelperf.features import FeatureMatrix
from accelperf.models.base import Estimator
from accelperf.models.baselines import HatMatrix
from accelperf.models.catalog import create
from tests.tolerances import EXACT_ALGEBRA, FLOAT32, PUBLISHED_6_DIGITS

Maker = Callable[..., FeatureMatrix]


def test_linear_regression_against_the_hat_matrix(features_of: Maker) -> None:
    """Left-out residuals of least squares are e / (1 - h), h the diagonal of the hat matrix."""
    features = features_of(60)
    predictions = evaluate(create("linear", {}), features, "loo").predictions
    parameters = features.parameters
    varying = parameters[:, np.ptp(parameters, axis=0) > 0]
    design = np.column_stack([np.ones(60), (varying - varying.mean(0)) / varying.std(0)])
    # Collinear columns (kernel height and width) make the hat matrix a projector of lower rank.
    projector = design @ np.linalg.pinv(design)
    residual = features.latency_ms - projector @ features.latency_ms
    left_out = features.latency_ms - residual / (1 - np.diag(projector))
    np.testing.assert_allclose(predictions["predicted_ms"], left_out, rtol=EXACT_ALGEBRA)


@pytest.mark.parametrize(
    ("scheme", "keep_twins"),
    [
        ("loo", False),
        ("leave_one_shape_out", False),
        ("leave_one_network_out", False),
        ("leave_one_network_out", True),
    ],
)
def test_linear_regression_leaves_out_as_the_plain_loop(
    scheme: str, keep_twins: bool, features_of: Maker
) -> None:
    features = features_of(80)
    linear = create("linear", {})
    folds = make_folds(features, scheme, keep_twins=keep_twins)
    ours = linear.predict_folds(features, folds)
    plain = Estimator.predict_folds(linear, features, folds)
    for one, other in zip(ours, plain, strict=True):
        np.testing.assert_allclose(one.median_ms, other.median_ms, rtol=EXACT_ALGEBRA)


def test_a_row_that_alone_fixes_a_coefficient_is_fitted_anew(features_of: Maker) -> None:
    """Without it the clocks differ by accelerator alone, as other columns do."""
    table = features_of(40).table.copy()
    table.loc[7, "logic_clock_mhz"] = 333.0
    features = FeatureMatrix(table)
    parameters, latency = features.parameters, features.latency_ms
    assert HatMatrix.of(parameters, latency).leave_out(np.array([7])) is None
    linear, folds = create("linear", {}), make_folds(features, "loo")
    ours = linear.predict_folds(features, folds)[7].median_ms
    plain = linear.fit(features.take(folds[7].train)).predict(features.take(folds[7].test)).median_ms
    np.testing.assert_array_equal(ours, plain)


def test_trees_on_several_cores_are_the_plain_loop(features_of: Maker) -> None:
    features = features_of(24)
    estimator = create("xgboost", {"n_estimators": 20, "subsample": 0.8})
    ours = evaluate(estimator, features, "loo").predictions["predicted_ms"]

    class Plain(type(estimator)):  # type: ignore[misc]
        predict_folds = Estimator.predict_folds

    plain = evaluate(Plain(estimator.settings), features, "loo").predictions["predicted_ms"]
    np.testing.assert_allclose(ours, plain, rtol=FLOAT32)


def test_contents(features_of: Maker) -> None:
    features = features_of(30)
    calls: list[tuple[int, int]] = []
    evaluation = evaluate(
        create("standard", {}), features, "leave_one_network_out", progress=lambda *done: calls.append(done)
    )
    assert tuple(evaluation.predictions.columns) == PREDICTION_COLUMNS
    assert calls == [(1, 3), (2, 3), (3, 3)]
    assert evaluation.metrics["scheme"] == "leave_one_network_out"
    assert evaluation.metrics["n_rows"] == 30
    assert evaluation.metrics["n_folds"] == 3
    assert set(evaluation.predictions["fold"]) == {"alpha", "beta", "gamma"}
    assert evaluation.predictions["std_ms"].isna().all()
    error = evaluation.predictions["predicted_ms"] - evaluation.predictions["latency_ms"]
    assert evaluation.metrics["mae_ms"] == pytest.approx(error.abs().mean(), rel=EXACT_ALGEBRA)


def test_loo_on_a_gaussian_process_has_the_closed_form_beside_it(features_of: Maker) -> None:
    features = features_of(20)
    estimator = create("gp_analytic", {"mean": "tiled", "restarts": 0, "ard": False})
    metrics = evaluate(estimator, features, "loo").metrics
    fixed = estimator.predict_loo_fixed(features)
    assert fixed is not None
    expected = np.abs(fixed.median_ms - features.latency_ms).mean()
    assert metrics["loo_fixed_mae_ms"] == pytest.approx(expected, rel=EXACT_ALGEBRA)
    assert "loo_fixed_mae_ms" not in evaluate(estimator, features, "leave_one_network_out").metrics


@pytest.mark.parametrize(("variant", "mae_ms"), [("paper", 0.102031), ("output_sized", 0.064192)])
def test_the_formula_on_public_measurements(
    real_data: Path, tmp_path: Path, variant: str, mae_ms: float
) -> None:
    """Published per-layer latencies of three accelerators (Chen & Wu, FPGA 2023 poster)."""
    from accelperf.features import build_features
    from accelperf.logs import read_profiles
    from accelperf.platforms import read_platforms
    from tests.conftest import ROOT, copy_cnn_accel

    layers, _ = read_profiles(copy_cnn_accel(real_data, tmp_path), read_platforms(ROOT / "data/platforms"))
    features = build_features(layers, read_platforms(ROOT / "data/platforms"), None, origins=["measured"])
    metrics = evaluate(create("standard", {"variant": variant}), features, "loo").metrics
    assert metrics["n_rows"] == 447
    assert metrics["mae_ms"] == pytest.approx(mae_ms, abs=PUBLISHED_6_DIGITS)
