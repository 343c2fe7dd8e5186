"""``gp_calibrated``: invariances, honesty of folds and intervals, reports, the sparse process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from accelperf.bundle import load_bundle, save_bundle
from accelperf.evaluation.cross_validation import evaluate
from accelperf.evaluation.splits import make_folds
from accelperf.features import FeatureMatrix, build_features
from accelperf.models import gp_calibrated
from accelperf.models.base import NORMAL_95, FitError
from accelperf.models.calibrated_layers import MeasuredLayers, MeasuredRows
from accelperf.models.calibrated_predictor import CalibratedPredictor, Inflation, Layers, Noise
from accelperf.models.calibrated_rates import RATE_COLUMNS, layer_table, rate_table
from accelperf.models.catalog import create
from accelperf.models.gp_calibrated import conformal_factor, repeat_noise
from accelperf.models.log_normal import log_normal
from accelperf.models.roofline import CalibratedRoofline, Structure
from tests.tolerances import CLOSED_FORM, EXACT_ALGEBRA, LOCKSTEP, REFIT, TENSORFLOW

Maker = Callable[..., FeatureMatrix]


def fit(features: FeatureMatrix, **settings: object) -> CalibratedPredictor:
    predictor = create("gp_calibrated", settings).fit(features)
    assert isinstance(predictor, CalibratedPredictor)
    return predictor


@pytest.fixture(scope="module")
def features(features_of: Maker) -> FeatureMatrix:
    return features_of(60, noise=0.02)


@pytest.fixture(scope="module")
def fitted(features: FeatureMatrix) -> CalibratedPredictor:
    return fit(features)


def assert_same(
    ours: CalibratedPredictor, other: CalibratedPredictor, on: FeatureMatrix, rtol: float
) -> None:
    first, second = ours.predict(on), other.predict(on)
    for name in ("median_ms", "std_ms", "lower_ms", "upper_ms"):
        np.testing.assert_allclose(getattr(second, name), getattr(first, name), rtol=rtol)


def test_the_order_of_rows_does_not_matter(
    features: FeatureMatrix, fitted: CalibratedPredictor, features_of: Maker
) -> None:
    shuffled = features.take(np.random.default_rng(0).permutation(len(features)))
    assert_same(fitted, fit(shuffled), features_of(20, seed=3), CLOSED_FORM)


def test_repeated_rows_change_little(
    features: FeatureMatrix, fitted: CalibratedPredictor, features_of: Maker
) -> None:
    again = features.table.assign(layer=features.table["layer"] + " again")
    doubled = FeatureMatrix(pd.concat([features.table, again]))
    # A repeat that agrees says that measurements repeat well, and nothing else.
    np.testing.assert_allclose(
        fit(doubled).predict(features_of(20, seed=3)).median_ms,
        fitted.predict(features_of(20, seed=3)).median_ms,
        rtol=REFIT,
    )


def test_the_seed_does_not_matter(
    features: FeatureMatrix, fitted: CalibratedPredictor, features_of: Maker
) -> None:
    assert_same(fitted, fit(features, seed=11), features_of(20, seed=3), REFIT)


@pytest.mark.parametrize("unit", [1e6, 1e-3])
def test_the_unit_of_time_does_not_matter(
    features: FeatureMatrix, fitted: CalibratedPredictor, unit: float
) -> None:
    scaled = FeatureMatrix(features.table.assign(latency_ms=features.latency_ms * unit))
    ours, theirs = fitted.predict(features), fit(scaled).predict(features)
    np.testing.assert_allclose(theirs.median_ms / unit, ours.median_ms, rtol=REFIT)
    np.testing.assert_allclose(theirs.upper_ms / unit, ours.upper_ms, rtol=REFIT)


def test_a_fold_knows_nothing_of_the_latency_it_leaves_out(features: FeatureMatrix) -> None:
    fold = make_folds(features, "leave_one_shape_out")[2]
    changed = features.latency_ms.copy()
    changed[fold.test] *= 1.5
    other = FeatureMatrix(features.table.assign(latency_ms=changed))
    before = create("gp_calibrated", {}).predict_folds(features, [fold])[0]
    after = create("gp_calibrated", {}).predict_folds(other, [fold])[0]
    np.testing.assert_allclose(after.median_ms, before.median_ms, rtol=REFIT)


def test_a_fold_started_from_all_rows_finds_what_a_fresh_fit_finds(features: FeatureMatrix) -> None:
    fold = make_folds(features, "leave_one_network_out")[0]
    ours = create("gp_calibrated", {}).predict_folds(features, [fold])[0]
    fresh = fit(features.take(fold.train)).predict(features.take(fold.test))
    np.testing.assert_allclose(ours.median_ms, fresh.median_ms, rtol=REFIT)


@pytest.mark.parametrize("scheme", ["loo", "leave_one_network_out"])
def test_who_computes_the_folds_does_not_matter(
    features: FeatureMatrix, scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folds = make_folds(features, scheme)[:3]
    threads = create("gp_calibrated", {}).predict_folds(features, folds)
    monkeypatch.setattr(gp_calibrated, "PROCESS_ROWS", 0)
    for one, other in zip(threads, create("gp_calibrated", {}).predict_folds(features, folds), strict=True):
        np.testing.assert_allclose(other.upper_ms, one.upper_ms, rtol=LOCKSTEP)


def test_it_beats_the_formula_it_starts_from(features: FeatureMatrix) -> None:
    scheme = "leave_one_network_out"
    ours = evaluate(create("gp_calibrated", {}), features, scheme).metrics
    formula = evaluate(create("standard", {"variant": "tiled"}), features, scheme).metrics
    assert ours["mape"] < 0.5 * float(formula["mape"])
    assert ours["coverage_95"] >= 0.85


def test_a_dozen_rows_work_with_wider_intervals(
    features: FeatureMatrix, fitted: CalibratedPredictor, features_of: Maker
) -> None:
    few = fit(features.take(np.arange(0, 60, 5)))
    new = features_of(20, seed=3)
    width = [np.median(p.predict(new).upper_ms / p.predict(new).lower_ms) for p in (few, fitted)]
    assert width[0] > width[1]
    assert few.inflation.shape > 1.5


def test_one_accelerator_or_network_works(features: FeatureMatrix) -> None:
    table = features.table
    for mask in (table["accelerator"] == "fast", table["network"] == "alpha"):
        predictor = fit(features.take(mask.to_numpy()))
        assert np.all(np.isfinite(predictor.predict(features).upper_ms))


def test_another_accelerator_than_the_only_one_is_anyones_guess(
    features: FeatureMatrix, fitted: CalibratedPredictor, features_of: Maker
) -> None:
    slow = features.table["accelerator"] == "slow"
    predictor = fit(features.take(slow.to_numpy()))
    new = features_of(40, seed=3)
    known, layers = new.take((new.table["accelerator"] == "slow").to_numpy()), Layers.of(new)
    roofline = predictor.roofline(layers)
    ratio = predictor.predict(new).upper_ms / predictor.predict(new).median_ms
    bound = roofline.memory_share > 0.9
    other = np.isin(layers.accelerators, predictor.accelerators, invert=True)
    assert (bound & other).sum() >= 3
    # Each part of such a layer may go its own way, by a standard deviation of 0.5 in the logarithm.
    apart = 0.5 * np.sqrt(np.sum(roofline.shares[:, 1:] ** 2, axis=1))
    assert np.all(ratio[bound & other] > np.exp(NORMAL_95 * apart[bound & other]))
    assert np.median(ratio[~other]) < 1.5
    # Where there are two, leaving one out tells how far they are apart.
    assert not np.any(fitted.accelerator_sigma)
    totals = predictor.predict_totals(new)
    wide = totals["upper_ms"] / totals["median_ms"]
    assert wide[totals["accelerator"] == "fast"].min() > wide[totals["accelerator"] == "slow"].max()
    assert np.all(np.isfinite(predictor.predict(known).upper_ms))


def test_ignorance_is_not_inflated(features: FeatureMatrix, fitted: CalibratedPredictor) -> None:
    inflated = replace(fitted, inflation=Inflation(5.0, 5.0))
    new = FeatureMatrix(features.table.assign(output_channels=features.table["output_channels"] + 1))
    rows = fitted.rows(Layers.of(new), fitted.roofline(Layers.of(new)))
    variance = np.linspace(0.1, 1.5, len(rows)) ** 2
    sigma = np.sqrt(variance) * inflated.factors(rows, variance)
    expected = np.maximum(np.minimum(5 * np.sqrt(variance), 1.0), np.sqrt(variance))
    np.testing.assert_allclose(sigma, expected, rtol=EXACT_ALGEBRA)


def test_one_shape_is_refused(features: FeatureMatrix) -> None:
    with pytest.raises(FitError, match="at least 2 distinct shapes, got 2 rows of 1"):
        fit(features.take(np.array([0, 0])))


def test_a_measured_layer_is_recalled(features: FeatureMatrix, fitted: CalibratedPredictor) -> None:
    prediction = fitted.predict(features)
    error = np.abs(np.log(prediction.median_ms / features.latency_ms))
    # Outliers too: they are alone with their deviation, but it is known. Two rows are repeats.
    assert np.max(error) < 3 * fitted.noise.compute
    new = FeatureMatrix(features.table.assign(output_channels=features.table["output_channels"] + 1))
    relative = prediction.std_ms / prediction.median_ms
    assert np.all(fitted.predict(new).std_ms / fitted.predict(new).median_ms > relative)


def test_saved_and_loaded_it_predicts_the_same(
    features: FeatureMatrix, fitted: CalibratedPredictor, features_of: Maker, tmp_path: Path
) -> None:
    save_bundle(
        fitted,
        tmp_path,
        estimator="gp_calibrated",
        settings={},
        features=features,
        features_md5="0",
        metrics={},
    )
    loaded = load_bundle(tmp_path).predictor
    assert isinstance(loaded, CalibratedPredictor)
    assert_same(fitted, loaded, features_of(20, seed=3), EXACT_ALGEBRA)
    pd.testing.assert_frame_equal(rate_table(loaded), rate_table(fitted))


def test_totals_add_layers_that_err_together(fitted: CalibratedPredictor, features_of: Maker) -> None:
    new = features_of(24, seed=3)
    totals = fitted.predict_totals(new)
    names = new.table[["accelerator", "network"]]
    expected = (
        pd.Series(fitted.predict(new).median_ms).groupby([names["accelerator"], names["network"]]).sum()
    )
    np.testing.assert_allclose(totals["median_ms"], expected.to_numpy(), rtol=EXACT_ALGEBRA)
    assert np.all(totals["lower_ms"] < totals["median_ms"])
    # Rates that are uncertain for all layers do not average out.
    assert totals["std_ms"].sum() > totals["independent_std_ms"].sum()


def test_the_total_of_one_layer_is_the_layer(fitted: CalibratedPredictor, features_of: Maker) -> None:
    new = features_of(8, seed=3).take(np.array([4]))
    layer, total = fitted.predict(new), fitted.predict_totals(new)
    assert layer.upper_ms is not None
    np.testing.assert_allclose(total["upper_ms"], layer.upper_ms, rtol=CLOSED_FORM)


def test_rates_are_in_the_engineers_units(features: FeatureMatrix, fitted: CalibratedPredictor) -> None:
    table = rate_table(fitted)
    assert tuple(table.columns) == RATE_COLUMNS
    clock = table[(table["accelerator"] == "fast") & (table["quantity"] == "compute clock")].iloc[0]
    assert clock["value"] == pytest.approx(200 * clock["share_of_datasheet"], rel=EXACT_ALGEBRA)
    compute = table[(table["accelerator"] == "fast") & (table["quantity"] == "compute")].iloc[0]
    # 64 filters x 32 channels x 200 MHz.
    assert compute["value"] == pytest.approx(409.6 * compute["share_of_datasheet"], rel=EXACT_ALGEBRA)
    memory = table[(table["accelerator"] == "slow") & (table["quantity"] == "input")].iloc[0]
    # 4 ports x 64 bit x 200 MHz x 0.5.
    assert memory["value"] == pytest.approx(3.2 * memory["share_of_datasheet"], rel=EXACT_ALGEBRA)
    assert np.all((table["lower"] < table["value"]) & (table["value"] < table["upper"]))


def test_identified_rates_do_not_follow_the_datasheet(features_of: Maker) -> None:
    features = features_of(90)
    table = features.table.assign(memory_clock_mhz=np.where(np.arange(90) % 2, 4.0, 20.0))
    # An accelerator whose output never binds.
    truth = CalibratedRoofline(Structure(), np.log([0.9, 0.8, 0.7, 50.0, 300.0, 10.0, 2.0]), 16.0)
    noise = np.exp(0.003 * np.random.default_rng(0).normal(size=90))
    table["latency_ms"] = truth.latency_ms(FeatureMatrix(table)) * noise
    read = []
    for wrong in (0.5, 1.0, 2.0):
        clocks = {name: table[name] * wrong for name in ("logic_clock_mhz", "memory_clock_mhz")}
        predictor = fit(FeatureMatrix(table.assign(**clocks)))
        assert predictor.structure == truth.structure
        read.append(rate_table(predictor).query("accelerator == 'fast' and unit != 'cycles'"))
    known = read[1]["identified"]
    assert set(read[1]["quantity"][known]) >= {"compute clock", "input"}
    assert "output" not in set(read[1]["quantity"][known])
    moved = np.abs(np.log(read[2]["value"] / read[0]["value"]))
    # To first order by less than 2 %, between a datasheet of half and one of twice the rate.
    assert moved[known].max() < 0.025
    assert moved[~known].max() > 0.025


def test_layers_name_what_binds_them(features: FeatureMatrix, fitted: CalibratedPredictor) -> None:
    table = layer_table(fitted, features)
    shares = table.filter(like="share_")
    np.testing.assert_allclose(shares.sum(axis=1), 1, rtol=EXACT_ALGEBRA)
    names = shares.columns.str.removeprefix("share_").str.replace("_overhead", " overhead")
    assert list(table["binding"]) == list(names[np.argmax(shares.to_numpy(), axis=1)])
    median = fitted.predict(features).median_ms
    np.testing.assert_allclose(table["roofline_ms"] * table["residual"], median, rtol=EXACT_ALGEBRA)


def test_the_residual_process_can_be_switched_off(
    features: FeatureMatrix, fitted: CalibratedPredictor
) -> None:
    predictor = fit(features, residual_process=False)
    roofline = predictor.roofline(Layers.of(features))
    alone = predictor.predict(features)
    np.testing.assert_allclose(alone.median_ms, np.exp(roofline.log_ms), rtol=EXACT_ALGEBRA)
    # What was measured is no surer then: its deviation from the roofline stays where it is.
    inside = (alone.lower_ms <= features.latency_ms) & (features.latency_ms <= alone.upper_ms)
    assert np.mean(inside) >= 0.9
    assert np.all(alone.std_ms / alone.median_ms > fitted.predict(features).std_ms / features.latency_ms)


def test_many_layers_make_a_sparse_process(features_of: Maker, capsys: pytest.CaptureFixture[str]) -> None:
    features, new = features_of(150, noise=0.02), features_of(40, seed=3, noise=0.02)
    sparse = fit(features, fit_layers=100, max_exact_layers=100, inducing_layers=40)
    assert "sparse process with 40 of them" in capsys.readouterr().err
    assert len(sparse.weights) <= 40
    error = [
        np.mean(np.abs(np.log(p.predict(new).median_ms / new.latency_ms))) for p in (sparse, fit(features))
    ]
    assert error[0] < 1.5 * error[1]


def test_hyperparameters_of_a_sample_serve_all_layers(features_of: Maker) -> None:
    features, new = features_of(150, noise=0.02), features_of(40, seed=3, noise=0.02)
    sampled, whole = fit(features, fit_layers=100), fit(features)
    assert len(sampled.weights) == len(whole.weights)
    np.testing.assert_allclose(sampled.predict(new).median_ms, whole.predict(new).median_ms, rtol=0.05)


def test_log_normal_moments() -> None:
    prediction = log_normal(np.array([np.log(2.0)]), np.array([0.5]))
    draws = 2 * np.exp(0.5 * np.random.default_rng(0).normal(size=400_000))
    assert prediction.std_ms is not None and prediction.upper_ms is not None
    np.testing.assert_allclose(prediction.std_ms[0], draws.std(), rtol=REFIT)
    np.testing.assert_allclose(prediction.upper_ms[0], np.quantile(draws, 0.975), rtol=REFIT)


def test_the_factor_covers_95_percent() -> None:
    scores = np.abs(np.random.default_rng(0).normal(0, 3, 4000))
    np.testing.assert_allclose(conformal_factor(scores, np.ones(4000)), 3, rtol=0.05)
    # A layer that occurs a hundred times counts a hundred times; few scores widen.
    assert conformal_factor(np.array([9.0] + [0.1] * 30), np.array([100.0] + [1.0] * 30)) > 4
    assert conformal_factor(np.array([0.1] * 10), np.ones(10)) == 2
    assert conformal_factor(np.array([0.1] * 100), np.ones(100)) == 1
    assert conformal_factor(np.array([1.0] * 99 + [50.0]), np.ones(100)) * NORMAL_95 < 50


def test_a_repeat_of_large_spread_weighs_less(features: FeatureMatrix) -> None:
    table = features.table.iloc[[0, 0, 0]].assign(
        layer=["a", "b", "c"],
        latency_ms=[1.0, 1.0, 1.1],
        # Of four runs: the variance of their mean is that of the usual noise, 0.003 of 1.1 ms.
        latency_std_ms=[np.nan, 0.0, 2 * 0.003 * 1.1],
        repeats=[1, 4, 4],
    )
    measured = MeasuredLayers.of(MeasuredRows.of(FeatureMatrix(table)), np.arange(3))
    assert len(measured) == 1
    np.testing.assert_allclose(measured.log_ms, 0.5 * np.log(1.1) / 2.5, rtol=EXACT_ALGEBRA)
    np.testing.assert_allclose(measured.effective, 2.5**2 / 2.25, rtol=EXACT_ALGEBRA)
    np.testing.assert_allclose(measured.variance, 0.25 * 0.003**2 / 2.5**2, rtol=EXACT_ALGEBRA)
    # With the usual noise, that is the variance of the best weighted mean.
    variance = measured.noise_variance(Noise(0.003, 0.003), np.zeros(1))
    np.testing.assert_allclose(variance, 1 / (2 / 0.003**2 + 1 / (2 * 0.003**2)), rtol=EXACT_ALGEBRA)


def test_a_layer_of_large_spread_is_trusted_less(features: FeatureMatrix) -> None:
    latency, std = features.latency_ms.copy(), np.full(len(features), np.nan)
    latency[7] *= 1.5
    wrong = FeatureMatrix(features.table.assign(latency_ms=latency))
    std[7] = latency[7]
    spread = FeatureMatrix(wrong.table.assign(latency_std_ms=std))
    row = np.array([7])
    off = [
        abs(np.log(fit(rows).predict(rows.take(row)).median_ms[0] / latency[7])) for rows in (spread, wrong)
    ]
    assert off[0] > 5 * off[1]
    # Second opinion, plain NumPy: the posterior mean of the process with that variance on its diagonal.
    predictor = fit(spread)
    layers = MeasuredLayers.of(MeasuredRows.of(spread), np.arange(len(spread)))
    calibrated = predictor.roofline(layers.layers)
    rows = replace(layers.process_rows(calibrated, predictor.standardiser), tails=predictor.support.tails)
    noise = predictor.noise.variance(rows.memory_share) / layers.counts
    noise[layers.layers.keys == Layers.of(spread.take(row)).keys[0]] += (std[7] / latency[7]) ** 2
    covariance = predictor.covariance(rows, rows) + np.diag(noise)
    weights = np.linalg.solve(covariance, layers.log_ms - calibrated.log_ms)
    np.testing.assert_allclose(predictor.weights, weights, rtol=TENSORFLOW, atol=TENSORFLOW)


def test_no_known_spread_changes_nothing(features: FeatureMatrix, fitted: CalibratedPredictor) -> None:
    same = fit(FeatureMatrix(features.table.assign(latency_std_ms=0.0, repeats=5)))
    np.testing.assert_array_equal(same.predict(features).upper_ms, fitted.predict(features).upper_ms)


def test_noise_is_told_by_repeats() -> None:
    generator = np.random.default_rng(0)
    repeats = generator.normal(0, [[0.01], [0.1]], (2, 500))
    squares = ((repeats - repeats.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
    noise = repeat_noise(squares, np.array([500.0, 500.0]), np.array([0.0, 1.0]), 1e-3)
    np.testing.assert_allclose([noise.compute, noise.memory], [0.01, 0.1], rtol=0.1)
    assert repeat_noise(np.zeros(2), np.full(2, 1e6), np.ones(2), 1e-3).memory == 1e-3


TARGETS = {
    # Scheme and twins: greatest MAPE, least share within 10 %, greatest mean error of network totals.
    ("leave_one_network_out", False): (0.02, 0.95, 0.01),
    ("leave_one_network_out", True): (0.02, 0.95, 0.005),
    ("leave_one_accelerator_out", False): (0.03, 0.92, 0.02),
    ("leave_one_shape_out", False): (0.02, 0.95, 0.01),
}


@pytest.fixture(scope="module")
def measured(real_data: Path, tmp_path_factory: pytest.TempPathFactory) -> FeatureMatrix:
    """Return the public measurements of three accelerators (Chen & Wu, FPGA 2023 poster)."""
    from accelperf.logs import read_profiles
    from accelperf.platforms import read_platforms
    from tests.conftest import ROOT, copy_cnn_accel

    platforms = read_platforms(ROOT / "data/platforms")
    layers, _ = read_profiles(copy_cnn_accel(real_data, tmp_path_factory.mktemp("measured")), platforms)
    return build_features(layers, platforms, None, origins=["measured"])


@pytest.mark.parametrize(("scheme", "keep_twins"), TARGETS)
def test_on_public_measurements(measured: FeatureMatrix, scheme: str, keep_twins: bool) -> None:
    metrics = evaluate(create("gp_calibrated", {}), measured, scheme, keep_twins=keep_twins).metrics
    mape, within, total = TARGETS[scheme, keep_twins]
    assert metrics["mape"] <= mape
    assert metrics["within_10pct"] >= within
    assert metrics["network_total_mape"] <= total
    assert 0.90 <= float(metrics["coverage_95"]) <= 0.98


@pytest.mark.parametrize(("clock", "bandwidth"), [(1, 1), (0.5, 2), (2, 0.5)])
def test_the_hardware_is_read_back_whatever_the_datasheet(
    measured: FeatureMatrix, clock: float, bandwidth: float
) -> None:
    table = measured.table.assign(
        logic_clock_mhz=measured.table["logic_clock_mhz"] * clock,
        memory_clock_mhz=measured.table["memory_clock_mhz"] * bandwidth,
    )
    predictor = fit(FeatureMatrix(table))
    rates = rate_table(predictor).set_index(["accelerator", "quantity"])
    truth = {"compute clock": (400.0, 0.02), "input": (16.0, 0.1), "output": (16.0, 0.1)}
    for accelerator in measured.table["accelerator"].unique():
        for quantity, (value, tolerance) in truth.items():
            row = rates.loc[(accelerator, quantity)]
            assert row["identified"]
            assert row["value"] == pytest.approx(value, rel=tolerance)
            assert row["lower"] <= value <= row["upper"]
    assert predictor.structure.word_bits == 32
