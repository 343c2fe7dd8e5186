"""Predictions of networks: layers, totals, what is left out, what is doubtful, and who predicts."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from io import StringIO
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from accelperf.analytic import latency_ms, latency_terms
from accelperf.bundle import TrainingData, load_bundle, save_bundle
from accelperf.errors import InputError
from accelperf.features import FeatureMatrix, network_features
from accelperf.models.base import Estimator, Prediction, Predictor
from accelperf.models.calibrated_predictor import CalibratedPredictor
from accelperf.models.calibrated_rates import layer_table
from accelperf.models.catalog import ESTIMATORS, create
from accelperf.models.predictors import (
    GaussianProcessPredictor,
    LinearPredictor,
    Standardiser,
    StandardPredictor,
)
from accelperf.networks import NETWORK_COLUMNS, read_network
from accelperf.platforms import Platform, read_platform
from accelperf.predict import Model, find_model, predict_network, predict_rows
from accelperf.predict import rows as rows_module
from accelperf.predict import totals as totals_module
from accelperf.predict.binding import ANALYTIC, ROOFLINE
from accelperf.predict.rows import DistinctRows
from accelperf.predict.text import delimited, json_text, table_text, total_lines
from accelperf.predict.totals import ANY_DEPENDENCE, DEPENDENT, JOINT, NO_INTERVAL
from accelperf.predict.workload import AS_CONVOLUTION
from tests.conftest import ROOT
from tests.tolerances import CLOSED_FORM, EXACT_ALGEBRA

Maker = Callable[..., FeatureMatrix]

PLATFORM = read_platform(ROOT / "data/platforms/sim-table4.yaml")
BEST_EFFORT = 0.2
"""Relative: a simulated quantile."""
FAST_GP = {"restarts": 0, "steps": 30}


def conv(layer: str, **sizes: int | str) -> dict[str, int | str]:
    """Return a row of a network table: a 3 x 3 convolution of 64 channels on 28 x 28, or as told."""
    row: dict[str, int | str] = {
        "layer": layer, "operator": "conv", "input_height": 28, "input_width": 28, "input_channels": 64,
        "output_height": 28, "output_width": 28, "output_channels": 64, "kernel_height": 3, "kernel_width": 3,
        "stride_height": 1, "stride_width": 1, "pad_top": 1, "pad_bottom": 1, "pad_left": 1, "pad_right": 1,
        "dilation_height": 1, "dilation_width": 1, "groups": 1,
    }  # fmt: skip
    return {**row, **sizes}


def dense(layer: str, inputs: int, outputs: int, operator: str = "gemm") -> dict[str, int | str]:
    ones = dict.fromkeys(
        [name for name in NETWORK_COLUMNS if name not in ("layer", "operator")], 1
    ) | dict.fromkeys(("pad_top", "pad_bottom", "pad_left", "pad_right"), 0)
    return {
        **ones,
        "layer": layer,
        "operator": operator,
        "input_channels": inputs,
        "output_channels": outputs,
    }


def network(*rows: dict[str, int | str]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=list(NETWORK_COLUMNS))


FOUR = network(
    conv("stem", input_channels=16),
    conv("body"),
    conv("body again"),
    conv("head", output_channels=256),
)


def model_of(estimator: Estimator, features: FeatureMatrix) -> Model:
    return Model(estimator.fit(features), "trained", TrainingData.of(features, "0" * 32))


@pytest.fixture(scope="module")
def analytic() -> Model:
    return Model(StandardPredictor("tiled"), "analytic", None)


@pytest.fixture(scope="module")
def process(features_of: Maker) -> Model:
    return model_of(create("gp_analytic", {"mean": "tiled", **FAST_GP}), features_of(40))


@pytest.fixture(scope="module")
def calibrated(features_of: Maker) -> Model:
    return model_of(create("gp_calibrated", {}), features_of(40))


def test_layers_and_their_sum(analytic: Model) -> None:
    found = predict_network("four", FOUR, PLATFORM, analytic)
    expected = latency_ms(network_features("four", FOUR, PLATFORM).latency_inputs(), "tiled")
    np.testing.assert_allclose(found.layers["latency_ms"], expected, rtol=EXACT_ALGEBRA)
    np.testing.assert_allclose(found.total.median_ms, expected.sum(), rtol=EXACT_ALGEBRA)
    np.testing.assert_allclose(found.layers["share"], expected / expected.sum(), rtol=EXACT_ALGEBRA)
    assert found.total.frames_per_second == pytest.approx(1000 / expected.sum(), rel=EXACT_ALGEBRA)
    assert list(found.layers["layer"]) == ["stem", "body", "body again", "head"]
    assert list(found.layers["position"]) == [0, 1, 2, 3]
    assert found.total.interval == NO_INTERVAL
    assert found.total.lower_ms is None and found.total.frames_per_second_upper is None
    assert found.layers["lower_ms"].isna().all()
    assert not found.partial and not found.has_interval


def test_a_pipeline_is_as_slow_as_its_slowest_layer(analytic: Model) -> None:
    found = predict_network("four", FOUR, PLATFORM, analytic, schedule="pipeline")
    slowest = found.layers["latency_ms"].max()
    assert found.total.median_ms == slowest
    assert found.total.frames_per_second == pytest.approx(1000 / slowest, rel=EXACT_ALGEBRA)
    assert found.layers["share"].max() == 1.0


def test_a_batch_is_images_one_after_another(analytic: Model, process: Model) -> None:
    one = predict_network("four", FOUR, PLATFORM, analytic)
    five = predict_network("four", FOUR, PLATFORM, analytic, batch=5)
    assert five.total.median_ms == one.total.median_ms
    assert five.total.batch_ms == pytest.approx(5 * one.total.median_ms, rel=EXACT_ALGEBRA)
    piped = predict_network("four", FOUR, PLATFORM, analytic, batch=5, schedule="pipeline")
    expected = one.total.median_ms + 4 * one.layers["latency_ms"].max()
    assert piped.total.batch_ms == pytest.approx(expected, rel=EXACT_ALGEBRA)
    sure = predict_network("four", FOUR, PLATFORM, process, batch=3).total
    assert sure.lower_ms is not None
    assert sure.batch_lower_ms == pytest.approx(3 * sure.lower_ms, rel=EXACT_ALGEBRA)
    with pytest.raises(InputError, match="a batch of 1 or more, got 0"):
        predict_network("four", FOUR, PLATFORM, analytic, batch=0)
    with pytest.raises(InputError, match="a schedule, one of pipeline, sequential, got 'parallel'"):
        predict_network("four", FOUR, PLATFORM, analytic, schedule="parallel")  # type: ignore[arg-type]


def test_the_total_of_a_process_has_the_joint_covariance(process: Model) -> None:
    found = predict_network("four", FOUR, PLATFORM, process)
    gp = process.predictor
    assert isinstance(gp, GaussianProcessPredictor)
    features = network_features("four", FOUR, PLATFORM)
    inputs = gp.standardiser(features.parameters)
    cross = gp.kernel(inputs, gp.inputs)
    noise = np.diag(np.broadcast_to(gp.noise_variance + gp.row_noise, len(gp.inputs)))
    joint = gp.kernel(inputs, inputs) - cross @ np.linalg.solve(
        gp.kernel(gp.inputs, gp.inputs) + noise, cross.T
    )
    expected = gp.residual_scale * np.sqrt(joint.sum() + 4 * gp.noise_variance)
    assert found.total.interval == JOINT
    np.testing.assert_allclose(found.total.std_ms, expected, rtol=CLOSED_FORM)
    assert found.total.std_ms is not None and found.total.upper_ms is not None
    half = norm.ppf(0.975) * found.total.std_ms
    np.testing.assert_allclose(found.total.upper_ms, found.total.median_ms + half, rtol=EXACT_ALGEBRA)
    # Layers that err together: more than independent ones, less than ones in step.
    std = found.layers["std_ms"].to_numpy()
    assert np.sqrt(np.sum(std**2)) < found.total.std_ms < std.sum()


def test_the_total_of_the_calibrated_roofline_is_its_own(calibrated: Model) -> None:
    predictor = calibrated.predictor
    assert isinstance(predictor, CalibratedPredictor)
    found = predict_network("four", FOUR, PLATFORM, calibrated)
    expected = predictor.predict_totals(network_features("four", FOUR, PLATFORM)).iloc[0]
    for name in ("median_ms", "std_ms", "lower_ms", "upper_ms"):
        np.testing.assert_allclose(getattr(found.total, name), expected[name], rtol=CLOSED_FORM)
    assert found.total.interval == JOINT
    table = layer_table(predictor, network_features("four", FOUR, PLATFORM))
    assert list(found.layers["binding"]) == list(table["binding"])
    assert found.binding_source == ROOFLINE


@pytest.mark.parametrize("schedule", ["sequential", "pipeline"])
@pytest.mark.parametrize("key", ["gp_zero", "gp_calibrated"])
def test_too_many_layers_for_a_covariance_get_the_widest_interval(
    features_of: Maker, monkeypatch: pytest.MonkeyPatch, key: str, schedule: str
) -> None:
    settings = {"mean": "zero", **FAST_GP} if key == "gp_zero" else {}
    model = model_of(create(key, settings), features_of(40))
    joint = predict_network("four", FOUR, PLATFORM, model, schedule=schedule).total  # type: ignore[arg-type]
    monkeypatch.setattr(totals_module, "MOST_JOINT_LAYERS", 2)
    wide = predict_network("four", FOUR, PLATFORM, model, schedule=schedule)  # type: ignore[arg-type]
    if schedule == "pipeline":
        assert (wide.total.lower_ms, wide.total.upper_ms) == (joint.lower_ms, joint.upper_ms)
        return
    assert wide.total.interval == DEPENDENT
    assert wide.total.lower_ms == pytest.approx(wide.layers["lower_ms"].sum(), rel=EXACT_ALGEBRA)
    assert wide.total.upper_ms == pytest.approx(wide.layers["upper_ms"].sum(), rel=EXACT_ALGEBRA)
    assert wide.total.upper_ms > joint.upper_ms  # type: ignore[operator]
    assert wide.total.median_ms == pytest.approx(joint.median_ms, rel=EXACT_ALGEBRA)


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.99])
@pytest.mark.parametrize("logarithmic", [False, True])
def test_the_interval_of_a_pipeline_holds_whatever_the_dependence(
    correlation: float, logarithmic: bool
) -> None:
    generator = np.random.default_rng(0)
    centre, sigma = np.array([0.0, 0.1, 0.12, -3.0]), np.array([0.2, 0.1, 0.3, 0.4])
    half = norm.ppf(0.975) * sigma
    median, lower, upper = centre, centre - half, centre + half
    if logarithmic:
        median, lower, upper = np.exp(median), np.exp(lower), np.exp(upper)
    counts = np.array([1, 3, 1, 1])
    found = totals_module._slowest(Prediction(median, sigma, lower, upper), counts, logarithmic=logarithmic)
    rows = np.repeat(np.arange(4), counts)
    joint = np.full((6, 6), correlation) + (1 - correlation) * np.eye(6)
    samples = generator.multivariate_normal(np.zeros(6), joint, 200_000, check_valid="ignore")
    slowest = (centre[rows] + sigma[rows] * samples).max(axis=1)
    if logarithmic:
        slowest = np.exp(slowest)
    assert found.lower_ms is not None and found.upper_ms is not None
    assert np.mean(slowest < found.lower_ms[0]) <= 0.026
    assert np.mean(slowest > found.upper_ms[0]) <= 0.026
    if correlation == 0.0:
        # And not wider than it must be.
        np.testing.assert_allclose(np.mean(slowest > found.upper_ms[0]), 0.025, rtol=BEST_EFFORT)
    single = totals_module._slowest(
        Prediction(median[:1], sigma[:1], lower[:1], upper[:1]), counts[:1], logarithmic=logarithmic
    )
    np.testing.assert_allclose(single.upper_ms, upper[:1], rtol=EXACT_ALGEBRA)


def test_the_text_says_what_a_pipelines_interval_takes_for_granted(process: Model) -> None:
    found = predict_network("four", FOUR, PLATFORM, process, schedule="pipeline")
    assert found.total.interval == ANY_DEPENDENCE
    assert found.total.std_ms is None
    text = table_text(found)
    assert "as a pipeline, paced by the slowest" in text
    assert ANY_DEPENDENCE in text


def test_equal_rows_are_predicted_once_and_many_in_chunks(
    process: Model, features_of: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    features = features_of(50, seed=3)
    table = pd.concat([features.table, features.table.assign(network="again")], ignore_index=True)
    twice = FeatureMatrix(table)
    distinct = DistinctRows.of(twice)
    assert len(distinct.features) < len(features) + 1
    np.testing.assert_array_equal(distinct.counts[distinct.place[:50]], distinct.counts[distinct.place[50:]])
    assert distinct.counts.sum() == 100
    monkeypatch.setattr(rows_module, "CHUNK_ROWS", 7)
    found, expected = predict_rows(process.predictor, twice), process.predictor.predict(twice)
    for name in ("median_ms", "std_ms", "lower_ms", "upper_ms"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=CLOSED_FORM)


@pytest.mark.parametrize("key", ESTIMATORS)
def test_bundle_and_training_process_predict_the_same_network(
    key: str, tmp_path: Path, features_of: Maker
) -> None:
    features = features_of(30)
    settings = {"gp_zero": {"mean": "zero", **FAST_GP}, "gp_analytic": {"mean": "tiled", **FAST_GP}}.get(
        key, {}
    )
    trained = model_of(create(key, settings), features)
    save_bundle(
        trained.predictor, tmp_path, estimator=key, settings=settings, features=features,
        features_md5="0" * 32, metrics={},
    )  # fmt: skip
    loaded = Model.of(load_bundle(tmp_path), "models/x")
    for name in ("resnet50", "ssd300"):
        table = read_network(ROOT / f"data/networks/{name}.csv")
        first, second = (predict_network(name, table, PLATFORM, model) for model in (trained, loaded))
        numbers = ["latency_ms", "std_ms", "lower_ms", "upper_ms", "share"]
        np.testing.assert_allclose(first.layers[numbers], second.layers[numbers], rtol=1e-6, atol=0)
        np.testing.assert_allclose(first.total.median_ms, second.total.median_ms, rtol=1e-6, atol=0)
        if first.has_interval:
            np.testing.assert_allclose(
                [first.total.lower_ms, first.total.upper_ms],
                [second.total.lower_ms, second.total.upper_ms],
                rtol=1e-6, atol=0,
            )  # fmt: skip
        assert first.outside == second.outside
        assert list(first.layers["binding"]) == list(second.layers["binding"])


def test_layers_that_cannot_be_predicted_are_named(analytic: Model) -> None:
    table = network(
        conv("stem", input_channels=16),
        conv("pool", operator="maxpool"),
        conv("wide", dilation_height=2, dilation_width=2, pad_top=2, pad_bottom=2, pad_left=2, pad_right=2),
        conv("body"),
        dense("vocabulary", 64, 128_000),
        conv("up", operator="convtranspose"),
        dense("attention", 64, 64, "matmul of unknown rows"),
    )
    found = predict_network("n", table, PLATFORM, analytic)
    assert list(found.layers["layer"]) == ["stem", "body"]
    assert [(each.layer, each.position, each.reason) for each in found.unsupported] == [
        ("pool", 1, "operator maxpool: neither a convolution nor fully connected"),
        ("wide", 2, "dilation 2 x 2: estimators know of none"),
        ("vocabulary", 4, "output_channels 128000: not within 1 to 65536"),
        ("up", 5, "operator convtranspose: neither a convolution nor fully connected"),
        ("attention", 6, "operator matmul of unknown rows: neither a convolution nor fully connected"),
    ]
    assert found.partial
    assert "PARTIAL total of 2 layers" in table_text(found)
    assert "unsupported: wide (dilation 2 x 2: estimators know of none), not in the total" in total_lines(
        found
    )
    content = json.loads(json_text([found]))["predictions"][0]
    assert content["total"]["partial"] is True
    assert [each["layer"] for each in content["unsupported"]] == [
        "pool",
        "wide",
        "vocabulary",
        "up",
        "attention",
    ]


def test_a_network_without_any_layer_that_can_be_predicted(analytic: Model) -> None:
    table = network(conv("pool", operator="maxpool"), conv("other", operator="add"))
    with pytest.raises(
        InputError, match=r"can be predicted in network 'n', got pool: operator .*, and 1 more"
    ):
        predict_network("n", table, PLATFORM, analytic)


def test_groups_are_predicted_by_estimators_that_see_them(features_of: Maker) -> None:
    table = network(
        conv("stem"),
        conv("depthwise", groups=64),
        conv("grouped", groups=4),
        conv("last", output_channels=32),
    )
    seen = predict_network("n", table, PLATFORM, Model(StandardPredictor("tiled"), "a", None))
    inputs = network_features("n", table, PLATFORM).latency_inputs()
    np.testing.assert_allclose(seen.layers["latency_ms"], latency_ms(inputs, "tiled"), rtol=EXACT_ALGEBRA)
    # A depthwise convolution multiplies each channel with its own filter, in whole tiles of PC channels.
    assert seen.layers["latency_ms"][1] == pytest.approx(9 * 28 * 28 * 64 * 64 / (64 * 64 * 200e3))
    assert not seen.unsupported
    linear = model_of(create("linear", {}), features_of(20))
    for model in (linear, Model(StandardPredictor("paper"), "a", None)):
        blind = predict_network("n", table, PLATFORM, model)
        assert [each.layer for each in blind.unsupported] == ["depthwise", "grouped"]
        assert blind.unsupported[0].reason == "64 groups: this estimator cannot tell them from none"


def test_fully_connected_layers_are_convolutions_of_one_pixel(analytic: Model) -> None:
    table = network(
        conv("stem"), dense("hidden", 512, 128, "matmul"), conv("last"), dense("classes", 128, 10)
    )
    found = predict_network("n", table, PLATFORM, analytic)
    assert list(found.layers["layer"]) == ["stem", "hidden", "last", "classes"]
    assert list(found.layers["note"]) == ["", AS_CONVOLUTION, "", AS_CONVOLUTION]
    assert list(found.layers["operator"]) == ["conv", "matmul", "conv", "gemm"]
    # The weights take longer than the products, 512 x 128 and 128 x 10 of them in whole tiles.
    rate = 64 * 200 * 64 * 0.7 * 1e3
    np.testing.assert_allclose(found.layers["latency_ms"][1], 512 * 128 * 8 / rate, rtol=EXACT_ALGEBRA)
    np.testing.assert_allclose(found.layers["latency_ms"][3], 128 * 10 * 8 / rate, rtol=EXACT_ALGEBRA)
    # First and last are the convolutions, as in training; the others are as without the dense layers.
    alone = predict_network("n", network(conv("stem"), conv("last")), PLATFORM, analytic)
    np.testing.assert_array_equal(
        found.layers["latency_ms"].to_numpy()[[0, 2]], alone.layers["latency_ms"].to_numpy()
    )


def test_the_ends_of_a_network_are_its_own_not_those_of_what_remains(analytic: Model) -> None:
    apart = {"dilation_height": 2, "pad_top": 2, "pad_bottom": 2}
    table = network(conv("wide", **apart), conv("middle"), conv("wide too", **apart))
    found = predict_network("n", table, PLATFORM, analytic)
    features = network_features("n", table, PLATFORM)
    expected = latency_ms(features.latency_inputs(), "tiled")[1]
    assert found.layers["latency_ms"].tolist() == [expected]
    alone = predict_network("n", network(conv("middle")), PLATFORM, analytic)
    assert alone.layers["latency_ms"][0] > expected  # first and last: it loads and stores


def test_the_term_that_binds_is_one_that_counts(analytic: Model) -> None:
    table = network(
        conv("first", kernel_height=1, kernel_width=1, pad_top=0, pad_bottom=0, pad_left=0, pad_right=0,
             input_channels=64, output_channels=1),
        conv("computes"),
        dense("weighs", 4096, 4096),
        conv("last"),
    )  # fmt: skip
    slow = PLATFORM.model_copy(update={"memory_ports": 1})
    found = predict_network("n", table, slow, analytic)
    terms = latency_terms(network_features("n", table.iloc[:2], slow).latency_inputs(), "tiled")
    assert terms.data[0] > terms.compute[0] > terms.weights[0]
    assert list(found.layers["binding"]) == ["input", "compute", "weights", "output"]
    assert found.binding_source == ANALYTIC


def test_layers_outside_of_the_training_range_are_marked(features_of: Maker) -> None:
    features = features_of(40)
    model = model_of(create("linear", {}), features)
    table = network(
        conv("inside"), conv("outside", input_channels=999, kernel_height=7, pad_top=3, pad_bottom=3)
    )
    like_training = Platform(
        name="p", filter_parallelism=16, channel_parallelism=32, unrolled_loop="pixels",
        logic_clock_mhz=150.0, memory_clock_mhz=200.0, transfer_width_bits=64, data_width_bits=8,
        memory_ports=4, memory_efficiency=0.6,
    )  # fmt: skip
    found = predict_network("n", table, like_training, model)
    marks = [
        [each.parameter for each in outside if each.parameter != "latency_ms"] for outside in found.outside
    ]
    assert marks == [["unrolled_loop"], ["kernel_height", "input_channels", "unrolled_loop"]]
    texts = [str(each) for each in found.outside[1]]
    assert "kernel_height 7 (trained on 1 to 5)" in texts
    assert "input_channels 999 (trained on 16 to 256)" in texts
    assert "unrolled_loop pixels (trained on channels)" in texts
    # What holds for the whole platform stands below the table alone.
    lines = table_text(found).splitlines()
    row = next(line for line in lines if line.startswith("outside  "))
    assert "kernel_height, input_channels" in row and "unrolled_loop" not in row
    assert "  unrolled_loop pixels (trained on channels): all layers" in lines
    assert "  input_channels 999 (trained on 16 to 256): 1 layer" in lines
    alone = predict_network("n", network(conv("inside")), like_training, model)
    assert "  unrolled_loop pixels (trained on channels): all layers" in table_text(alone).splitlines()
    layer = json.loads(json_text([found]))["predictions"][0]["layers"][1]
    assert {"parameter": "input_channels", "value": 999.0, "trained_on": [16.0, 256.0]} in layer[
        "outside_training_range"
    ]


def test_a_predicted_latency_beyond_the_measured_ones_is_marked(features_of: Maker) -> None:
    features = features_of(40)
    scaling = Standardiser(np.zeros(15), np.zeros(15))
    training = TrainingData.of(features, "0" * 32)
    low, high = training.ranges["latency_ms"]
    for latency, marked in ((2 * high, True), (high, False), (low / 2, True)):
        constant = LinearPredictor(scaling, np.zeros(15), latency)
        found = predict_network("n", network(conv("a")), PLATFORM, Model(constant, "c", training))
        assert any(each.parameter == "latency_ms" for each in found.outside[0]) is marked


def test_a_bundle_of_version_1_knows_no_more_than_the_parameters() -> None:
    bundle = load_bundle(ROOT / "tests/golden/bundles/v1/linear")
    table = network(conv("grouped", input_channels=999))
    found = predict_network("n", table, PLATFORM, Model.of(bundle, "v1"))
    assert "input_channels" in [each.parameter for each in found.outside[0]]
    assert "latency_ms" not in [each.parameter for each in found.outside[0]]


def test_the_standard_method_has_no_training_range(features_of: Maker) -> None:
    model = model_of(create("standard", {"variant": "tiled"}), features_of(5))
    found = predict_network("n", network(conv("a", input_channels=9999)), PLATFORM, model)
    assert found.outside == ((),)


def test_latencies_that_are_not_positive_are_marked(features_of: Maker) -> None:
    scaling = Standardiser(np.zeros(15), np.zeros(15))
    training = TrainingData.of(features_of(5), "0" * 32)
    negative = Model(LinearPredictor(scaling, np.zeros(15), -1.0), "linear", training)
    found = predict_network("n", FOUR, PLATFORM, negative)
    assert found.total.median_ms == -4.0
    assert found.total.frames_per_second is None
    assert found.layers["share"].isna().all()
    assert "not above 0 ms: the estimator fails here" in table_text(found)
    assert json.loads(json_text([found]))["predictions"][0]["layers"][0]["share"] is None


def test_simulated_training_data_says_so(process: Model, features_of: Maker) -> None:
    found = predict_network("four", FOUR, PLATFORM, process)
    assert "SIMULATED" in table_text(found).splitlines()[0]
    assert any(line.startswith("SIMULATED total") for line in total_lines(found))
    assert json.loads(json_text([found]))["simulated"] is True
    rows = delimited([found], "\t").splitlines()
    assert all(row.endswith("\tSIMULATED") for row in rows[1:])
    measured = FeatureMatrix(features_of(20).table.assign(origin="measured"))
    true = predict_network("four", FOUR, PLATFORM, model_of(create("linear", {}), measured))
    assert "SIMULATED" not in table_text(true) + json_text([true]) + delimited([true], ",")


def test_the_delimited_rows_read_back(process: Model) -> None:
    table = pd.concat([FOUR, network(conv("pool", operator="maxpool"))], ignore_index=True)
    found = predict_network("four", table, PLATFORM, process, batch=2)
    for separator in (",", "\t"):
        read = pd.read_csv(
            StringIO(delimited([found, found], separator)), sep=separator, float_precision="round_trip"
        )
        assert list(read["row"]) == [*["layer"] * 4, "unsupported", "total", "batch"] * 2
        layers = read[read["row"] == "layer"].iloc[:4]
        for name in ("latency_ms", "lower_ms", "upper_ms", "share"):
            np.testing.assert_array_equal(layers[name], found.layers[name])
        total = read[read["row"] == "total"].iloc[0]
        assert total["latency_ms"] == found.total.median_ms
        assert total["frames_per_second"] == found.total.frames_per_second
        assert total["note"] == f"PARTIAL: without 1 layers; interval: {JOINT}"
        assert read[read["row"] == "batch"].iloc[0]["latency_ms"] == found.total.batch_ms
        assert read[read["row"] == "unsupported"].iloc[0]["layer"] == "pool"


def save_under(folder: Path, key: str, features: FeatureMatrix) -> None:
    fitted: Predictor = create(key, {}).fit(features)
    save_bundle(
        fitted, folder / key, estimator=key, settings={}, features=features, features_md5="0" * 32, metrics={}
    )


def test_the_estimator_is_the_best_that_is_there(tmp_path: Path, features_of: Maker) -> None:
    models, comparison = tmp_path / "models", tmp_path / "comparison.csv"
    found = find_model(None, models=models, comparison=comparison)
    assert found.predictor == StandardPredictor("tiled")
    assert found.training is None and "no trained estimator" in found.why
    assert found.origin == "untrained"
    for key in ("linear", "standard"):
        save_under(models, key, features_of(20))
    found = find_model(None, models=models, comparison=comparison)
    assert (found.estimator, found.where) == ("linear", (models / "linear").as_posix())
    assert "says nothing" in found.why
    comparison.write_text(
        "estimator,scheme,mape\nlinear,other,0.01\nlinear,loo,0.3\nstandard,loo,0.2\ngp_zero,loo,0.1\n"
    )
    found = find_model(None, models=models, comparison=comparison)
    assert found.estimator == "standard"
    assert found.why == f"least loo MAPE in {comparison.as_posix()}"
    assert find_model("linear", models=models, comparison=comparison).estimator == "linear"
    assert find_model(str(models / "linear"), models=tmp_path, comparison=comparison).estimator == "linear"
    with pytest.raises(InputError, match=r"a model's folder, or one of linear, standard, got 'other'"):
        find_model("other", models=models, comparison=comparison)
    with pytest.raises(InputError, match="a model's folder, got 'other'"):
        find_model("other", models=tmp_path / "nowhere", comparison=comparison)


@pytest.mark.parametrize(
    "text",
    ["estimator,scheme\nlinear,loo\n", "estimator,scheme,mape\nlinear,loo,much\n",
     "estimator,scheme,mape\n../linear,loo,0.1\n", "estimator,scheme,mape\nlinear,loo,nan\n"],
)  # fmt: skip
def test_a_comparison_that_is_none(tmp_path: Path, text: str) -> None:
    comparison = tmp_path / "comparison.csv"
    comparison.write_text(text)
    with pytest.raises(InputError, match=r"comparison\.csv:2: expected columns estimator, scheme and mape"):
        find_model(None, models=tmp_path, comparison=comparison)


def test_the_text_names_what_it_knows(process: Model) -> None:
    assert process.training is not None
    many = replace(process.training, networks=tuple(f"n{index}" for index in range(9)))
    found = predict_network("four", FOUR, PLATFORM, replace(process, training=many, why="asked for"))
    first = table_text(found).splitlines()[0]
    assert first == (
        "four on sim-table4: trained, trained on 40 SIMULATED layers of n0, n1, n2, n3, n4, n5 and 3 more "
        "on fast, slow (asked for)"
    )
