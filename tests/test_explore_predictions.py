"""Totals and probabilities against brute force, fronts against brute force, the next measurements."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from accelperf.explore.axes import parse_axes
from accelperf.explore.designs import Designs, make_designs
from accelperf.explore.fronts import front_numbers
from accelperf.explore.measurements import pick_measurements
from accelperf.explore.workload import Workload, features_on, make_workload
from accelperf.features import FeatureMatrix, network_features
from accelperf.models.base import NORMAL_95, Prediction
from accelperf.models.calibrated_predictor import CalibratedPredictor
from accelperf.models.catalog import create
from accelperf.models.joint import (
    CalibratedPosterior,
    InStepPrediction,
    JointPrediction,
    PosteriorPrediction,
    ProcessPosterior,
    joint_prediction,
)
from accelperf.models.kernels import Kernel, KernelPart
from accelperf.models.network_predictor import NetworkMeanPredictor
from accelperf.models.perceptron import Perceptron
from accelperf.models.predictors import GaussianProcessPredictor, Response, Standardiser, StandardPredictor
from accelperf.models.totals import Totals
from accelperf.networks import read_network
from accelperf.platforms import read_platform
from tests.conftest import ROOT
from tests.tolerances import CLOSED_FORM, EXACT_ALGEBRA

Floats = NDArray[np.float64]
Maker = Callable[..., FeatureMatrix]

SAMPLES = 200_000
MONTE_CARLO = 4 * 0.5 / np.sqrt(SAMPLES)
"""Absolute: four standard errors of a share of that many samples, at most."""
FIRST_ORDER = 0.01
"""Absolute: what taking a sum of log-normals for log-normal adds, at relative errors of a few percent."""

NETWORK = read_network(ROOT / "data/networks/resnet50.csv").head(12)


@pytest.fixture(scope="module")
def features(features_of: Maker) -> FeatureMatrix:
    return features_of(40, noise=0.02)


@pytest.fixture(scope="module")
def calibrated(features: FeatureMatrix) -> CalibratedPredictor:
    predictor = create("gp_calibrated", {}).fit(features)
    assert isinstance(predictor, CalibratedPredictor)
    return predictor


@pytest.fixture(scope="module")
def workload() -> Workload:
    base = read_platform(ROOT / "data/platforms/sim-table4.yaml")
    return make_workload({"resnet50": NETWORK}, base, StandardPredictor("tiled"))


@pytest.fixture(scope="module")
def designs(workload: Workload) -> Designs:
    base = read_platform(ROOT / "data/platforms/sim-table4.yaml").model_copy(update={"memory_ports": 4})
    axes = parse_axes(["filter_parallelism=16,64", "channel_parallelism=32,64", "logic_clock_mhz=100,200"])
    return make_designs(base, axes, None, workload.layers["input_width"].tolist())


def process(features: FeatureMatrix, response: Response = "difference") -> GaussianProcessPredictor:
    """Return a Gaussian process with given hyperparameters, around the tiled analytic model."""
    mean = np.asarray(StandardPredictor("tiled").predict(features).median_ms)
    residuals = features.latency_ms - mean
    if response == "ratio":
        residuals = np.log(features.latency_ms / mean)
    scale = float(np.sqrt(np.mean(residuals**2)))
    standardiser = Standardiser.fit(features.parameters)
    kernel = Kernel("+", (
        KernelPart("matern32", np.array([0.8]), np.full(15, 2.0)),
        KernelPart("linear", np.array([0.05]), np.array([])),
    ))  # fmt: skip
    return GaussianProcessPredictor(
        "tiled", (), standardiser, kernel, 0.02, scale, standardiser(features.parameters),
        residuals / scale, response,
    )  # fmt: skip


def around_network(features: FeatureMatrix) -> NetworkMeanPredictor:
    weights = (np.random.default_rng(1).normal(size=(15, 1)),)
    network = Perceptron("tanh", weights, (np.array([0.5]),))
    return NetworkMeanPredictor(process(features), network, latency_mean=2.0)


def joint_covariance(predictor: GaussianProcessPredictor, features: FeatureMatrix) -> tuple[Floats, Floats]:
    """Return the posterior covariance of rows, without and with noise, from its definition."""
    inputs = predictor.standardiser(features.parameters)
    covariance = predictor.kernel(predictor.inputs, predictor.inputs)
    covariance[np.diag_indices_from(covariance)] += predictor.noise_variance
    cross = predictor.kernel(inputs, predictor.inputs)
    latent = predictor.kernel(inputs, inputs) - cross @ np.linalg.solve(covariance, cross.T)
    latent *= predictor.residual_scale**2
    noise = predictor.residual_scale**2 * predictor.noise_variance * np.eye(len(inputs))
    return latent, latent + noise


def every_layer(workload: Workload, designs: Designs, place: int) -> FeatureMatrix:
    """Return one design's features with each layer as often as the networks have it."""
    features = features_on(workload, designs, np.array([place]))
    return FeatureMatrix(
        features.take(np.repeat(np.arange(len(workload)), workload.counts.sum(axis=0))).table.assign(
            layer=lambda table: [f"{name}-{row}" for row, name in enumerate(table["layer"])]
        )
    )


def of(predictor: object, workload: Workload, designs: Designs) -> JointPrediction:
    return joint_prediction(predictor, features_on(workload, designs, np.arange(len(designs))))  # type: ignore[arg-type]


def test_layers_are_predicted_as_the_predictor_does(
    features: FeatureMatrix, calibrated: CalibratedPredictor, workload: Workload, designs: Designs
) -> None:
    rows = features_on(workload, designs, np.arange(len(designs)))
    for predictor in (
        process(features),
        process(features, "ratio"),
        around_network(features),
        calibrated,
        create("linear", {}).fit(features),
    ):
        found = of(predictor, workload, designs)
        np.testing.assert_allclose(found.median_ms, predictor.predict(rows).median_ms, rtol=EXACT_ALGEBRA)


@pytest.mark.parametrize("response", ["difference", "ratio"])
def test_the_total_of_a_process_has_the_joint_variance(
    features: FeatureMatrix, workload: Workload, designs: Designs, response: Response
) -> None:
    predictor = process(features, response)
    totals = of(predictor, workload, designs).totals(workload.counts.sum(axis=0))
    assert totals.sigma is not None
    assert totals.logarithmic == (response == "ratio")
    for place in range(len(designs)):
        rows = every_layer(workload, designs, place)
        assert len(rows) == 12
        median = predictor.predict(rows).median_ms
        weights = median / median.sum() if response == "ratio" else np.ones(12)
        _, covariance = joint_covariance(predictor, rows)
        np.testing.assert_allclose(totals.median_ms[place], median.sum(), rtol=EXACT_ALGEBRA)
        expected = np.sqrt(weights @ covariance @ weights)
        np.testing.assert_allclose(totals.sigma[place], expected, rtol=CLOSED_FORM)


def test_the_total_around_a_network_has_the_process_variance(
    features: FeatureMatrix, workload: Workload, designs: Designs
) -> None:
    predictor = around_network(features)
    counts = workload.counts.sum(axis=0)
    found, alone = (of(each, workload, designs).totals(counts) for each in (predictor, predictor.process))
    assert found.sigma is not None and alone.sigma is not None
    np.testing.assert_allclose(found.sigma, alone.sigma, rtol=EXACT_ALGEBRA)


def test_calibrated_totals_are_those_of_every_layer(
    calibrated: CalibratedPredictor, workload: Workload, designs: Designs
) -> None:
    # With an inflation and with parameters of accelerators never measured, as after any fit on few.
    unsure = replace(
        calibrated,
        inflation=replace(calibrated.inflation, shape=1.7, accelerator=2.3),
        accelerator_sigma=np.full_like(calibrated.accelerator_sigma, 0.1),
    )
    for predictor in (calibrated, unsure):
        totals = of(predictor, workload, designs).totals(workload.counts.sum(axis=0))
        found = totals.prediction()
        assert found.std_ms is not None and found.lower_ms is not None and found.upper_ms is not None
        assert totals.logarithmic
        for place, platform in enumerate(designs.platforms):
            expected = predictor.predict_totals(network_features("resnet50", NETWORK, platform)).iloc[0]
            np.testing.assert_allclose(found.median_ms[place], expected["median_ms"], rtol=CLOSED_FORM)
            np.testing.assert_allclose(found.std_ms[place], expected["std_ms"], rtol=CLOSED_FORM)
            np.testing.assert_allclose(found.lower_ms[place], expected["lower_ms"], rtol=CLOSED_FORM)
            np.testing.assert_allclose(found.upper_ms[place], expected["upper_ms"], rtol=CLOSED_FORM)
            assert expected["std_ms"] != pytest.approx(expected["independent_std_ms"], rel=1e-3)


def test_without_a_process_layers_err_in_step_or_have_no_uncertainty() -> None:
    counts = np.array([2, 1])
    sure = InStepPrediction(Prediction(np.array([1.0, 2.0, 3.0, 4.0]))).totals(counts)
    assert sure.median_ms.tolist() == [4.0, 10.0]
    assert sure.sigma is None and sure.probability(5.0) is None
    std = np.array([3.0, 4.0, 0.0, 1.0])
    unsure = InStepPrediction(Prediction.normal(np.array([1.0, 2.0, 3.0, 4.0]), std)).totals(counts)
    assert unsure.sigma is not None
    np.testing.assert_allclose(unsure.sigma, [2 * 3 + 4, 1], rtol=EXACT_ALGEBRA)
    assert not isinstance(InStepPrediction(Prediction(np.ones(2))), PosteriorPrediction)


def test_probabilities_of_a_process_agree_with_sampling(
    features: FeatureMatrix, workload: Workload, designs: Designs
) -> None:
    generator = np.random.default_rng(0)
    for response, tolerance in (("difference", MONTE_CARLO), ("ratio", MONTE_CARLO + FIRST_ORDER)):
        predictor = process(features, response)  # type: ignore[arg-type]
        if response == "ratio":
            predictor = replace(predictor, residual_scale=0.05)
        rows = every_layer(workload, designs, 3)
        median = predictor.predict(rows).median_ms
        _, covariance = joint_covariance(predictor, rows)
        errors = generator.multivariate_normal(np.zeros(12), covariance, SAMPLES)
        layers = median * np.exp(errors) if response == "ratio" else median + errors
        samples = layers.sum(axis=1)
        totals = of(predictor, workload, designs).totals(workload.counts.sum(axis=0))
        for share in (0.05, 0.5, 0.9):
            bound = float(np.quantile(samples, share))
            probability = totals.probability(bound)
            assert probability is not None
            assert probability[3] == pytest.approx(share, abs=tolerance)


def test_probability_is_one_half_at_the_median_and_grows() -> None:
    for logarithmic in (False, True):
        totals = Totals(np.array([2.0, 5.0]), np.array([0.3, 0.0]), logarithmic)
        at_median, below, above = (totals.probability(bound) for bound in (2.0, 1.9, 5.0))
        assert at_median is not None and below is not None and above is not None
        assert at_median.tolist() == [0.5, 0.0]
        assert 0 < below[0] < 0.5
        assert above[1] == 1.0


def test_intervals_hold_95_percent() -> None:
    for logarithmic in (False, True):
        totals = Totals(np.array([10.0]), np.array([0.2]), logarithmic)
        found = totals.prediction()
        assert found.lower_ms is not None and found.upper_ms is not None
        low, high = totals.probability(float(found.lower_ms[0])), totals.probability(float(found.upper_ms[0]))
        assert low is not None and high is not None
        assert high[0] - low[0] == pytest.approx(0.95, abs=EXACT_ALGEBRA)


def brute_force_fronts(points: list[tuple[int, int]]) -> list[int]:
    """Return front numbers by taking away what nothing dominates, again and again."""

    def dominates(a: tuple[int, int], b: tuple[int, int]) -> bool:
        return a[0] <= b[0] and a[1] <= b[1] and a != b

    numbers = [0] * len(points)
    number = 0
    while 0 in numbers:
        number += 1
        left = [place for place, known in enumerate(numbers) if known == 0]
        for place in left:
            if not any(dominates(points[other], points[place]) for other in left):
                numbers[place] = -1
        numbers = [number if known == -1 else known for known in numbers]
    return numbers


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=40))
def test_fronts_agree_with_brute_force(points: list[tuple[int, int]]) -> None:
    values = np.array(points, dtype=np.float64)
    assert front_numbers(values[:, 0], values[:, 1]).tolist() == brute_force_fronts(points)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=30), st.randoms())
def test_fronts_do_not_depend_on_order_or_scale(points: list[tuple[int, int]], random: object) -> None:
    values = np.array(points, dtype=np.float64)
    order = np.arange(len(points))
    random.shuffle(order)  # type: ignore[attr-defined]
    found = front_numbers(values[:, 0], values[:, 1])
    assert front_numbers(1e-3 * values[order, 0], 1e6 * values[order, 1]).tolist() == found[order].tolist()
    assert front_numbers(values[:, 1], values[:, 0]).tolist() == found.tolist()


def test_ties_share_a_front() -> None:
    latency = np.array([1.0, 1.0, 1.0, 2.0, 2.0])
    resource = np.array([4.0, 4.0, 5.0, 4.0, 3.0])
    assert front_numbers(latency, resource).tolist() == [1, 1, 2, 2, 1]


def posterior_of(predictor: object, workload: Workload, designs: Designs) -> PosteriorPrediction:
    found = of(predictor, workload, designs)
    assert isinstance(found, PosteriorPrediction)
    return found


@pytest.mark.parametrize("response", ["difference", "ratio"])
def test_picks_are_those_of_a_process_that_was_given_the_earlier_ones(
    features: FeatureMatrix, workload: Workload, designs: Designs, response: Response
) -> None:
    predictor = process(features, response)
    picks = pick_measurements(posterior_of(predictor, workload, designs), 6)
    rows = features_on(workload, designs, np.arange(len(designs)))
    inputs = predictor.standardiser(rows.parameters)
    given: list[int] = []
    for pick in picks:
        # The variance does not depend on what was measured: any residual will do.
        known = replace(
            predictor,
            inputs=np.vstack([predictor.inputs, inputs[given]]),
            residuals=np.append(predictor.residuals, np.zeros(len(given))),
        )
        latent, _ = joint_covariance(known, rows)
        left = np.delete(np.diag(latent), given)
        assert pick.left == pytest.approx(np.diag(latent)[pick.row], rel=CLOSED_FORM)
        assert pick.left == pytest.approx(left.max(), rel=CLOSED_FORM)
        given.append(pick.row)
    assert len(set(given)) == 6
    first, _ = joint_covariance(predictor, rows)
    assert [pick.variance for pick in picks] == pytest.approx(list(np.diag(first)[given]), rel=CLOSED_FORM)


class Twins:
    """Three candidates: two are the same layer, a third one is a little surer and alone."""

    logarithmic = False
    median_ms = np.ones(3)
    covariance = np.array([[4.0, 4.0, 0.0], [4.0, 4.0, 0.0], [0.0, 0.0, 1.0]])

    def totals(self, counts: NDArray[np.int64]) -> Totals:
        return Totals(np.ones(1))

    def latent_variance(self) -> Floats:
        return np.diag(self.covariance).copy()

    def latent_covariance(self, row: int) -> Floats:
        return self.covariance[row]

    def noise_variance(self) -> Floats:
        return np.full(3, 0.1)


def test_a_duplicate_is_not_picked_before_others() -> None:
    picks = pick_measurements(Twins(), 3)
    assert [pick.row for pick in picks] == [0, 2, 1]
    # What one measurement with noise leaves of its twin: 4 - 4^2 / 4.1.
    assert [pick.left for pick in picks] == pytest.approx([4.0, 1.0, 4 - 16 / 4.1], rel=EXACT_ALGEBRA)


def test_no_more_is_picked_than_can_be_learned() -> None:
    class Sure(Twins):
        covariance = np.diag([2.0, 0.0, 0.0])

    assert [pick.row for pick in pick_measurements(Sure(), 3)] == [0]

    class Certain(Twins):
        covariance = np.zeros((3, 3))

    assert pick_measurements(Certain(), 3) == []


def test_the_calibrated_posterior_is_consistent(
    calibrated: CalibratedPredictor, workload: Workload, designs: Designs
) -> None:
    posterior = posterior_of(calibrated, workload, designs)
    assert isinstance(posterior, CalibratedPosterior)
    variance, noise = posterior.latent_variance(), posterior.noise_variance()
    rows = features_on(workload, designs, np.arange(len(designs)))
    covariance = np.array([posterior.latent_covariance(row) for row in range(len(rows))])
    np.testing.assert_allclose(covariance, covariance.T, rtol=CLOSED_FORM, atol=EXACT_ALGEBRA)
    np.testing.assert_allclose(np.diag(covariance), variance, rtol=EXACT_ALGEBRA)
    # A layer that was not measured: noise and all else together are the prediction's variance.
    prediction = calibrated.predict(rows)
    assert prediction.upper_ms is not None
    sigma = np.log(prediction.upper_ms / prediction.median_ms) / NORMAL_95
    factors = np.sqrt((sigma**2 - variance) / noise)
    assert np.all(factors >= 1 - CLOSED_FORM)
    assert np.all(np.linalg.eigvalsh(covariance) > -EXACT_ALGEBRA)
    picks = pick_measurements(posterior, 5)
    assert len({pick.row for pick in picks}) == 5
    assert np.all(np.diff([pick.left for pick in picks]) <= EXACT_ALGEBRA)


def test_the_process_knows_what_was_measured(features: FeatureMatrix) -> None:
    predictor = process(features)
    rows = FeatureMatrix(features.table.head(1).assign(latency_ms=np.nan))
    posterior = ProcessPosterior(predictor, rows, predictor.mean_ms(rows))
    assert posterior.latent_variance()[0] < posterior.noise_variance()[0]
    assert isinstance(rows.table, pd.DataFrame)
