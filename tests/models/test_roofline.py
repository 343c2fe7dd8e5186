"""The roofline's terms, its derivative, and what calibration reads back."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import scipy.integrate
from hypothesis import given, settings
from hypothesis import strategies as st

from accelperf.analytic import latency_terms
from accelperf.features import FeatureMatrix
from accelperf.models.roofline import (
    OVERHEADS,
    TERMS,
    Structure,
    Transfers,
    log_roofline,
    roofline_inputs,
    roofline_terms,
)
from accelperf.models.roofline_fit import (
    INPUT_READS,
    OUTPUT_WRITES,
    TRANSFERS,
    WORD_BITS,
    RooflineCalibration,
)
from tests.tolerances import EXACT_ALGEBRA, FINITE_DIFFERENCE

Maker = Callable[..., FeatureMatrix]
HALF = 0.02
"""Absolute: a median found on a grid, against quadrature."""
PARAMETERS = len(TERMS) + len(OVERHEADS)


def calibration(**changes: float) -> RooflineCalibration:
    values = {"sharpness": 16.0, "robust_scale": 0.01, "rate_sigma": 1.0, "restarts": 0, "seed": 0}
    return RooflineCalibration(**(values | changes))  # type: ignore[arg-type]


def one_layer(**changes: float) -> dict[str, np.ndarray]:
    """Return a 3x3 layer of 8x8 pixels, 3 channels and 5 filters on 4 filters x 16 pixels at once."""
    values = {
        "kernel_height": 3, "kernel_width": 3, "input_height": 8, "input_width": 8, "input_channels": 3,
        "output_height": 8, "output_width": 8, "output_channels": 5, "filter_parallelism": 4,
        "channel_parallelism": 16, "logic_clock_mhz": 100.0, "memory_clock_mhz": 100.0,
        "memory_efficiency": 0.5, "transfer_width_bits": 64, "data_width_bits": 8, "groups": 1,
        "memory_ports": 1, "unrolls_pixels": 1, "is_first": 0, "is_last": 0,
        "stride_height": 1, "stride_width": 1,
    }  # fmt: skip
    return {name: np.array([float(value)]) for name, value in (values | changes).items()}


def test_terms_of_a_layer_worked_by_hand() -> None:
    # 100 MHz: 1e5 cycles a ms. Memory: 100 MHz x 8 byte x 0.5 = 4e5 values a ms.
    terms = roofline_terms(one_layer(), Structure("filter_tile", "exact", 8))
    # 2 filter tiles x 4 pixel tiles x 3 channels x 9 taps = 216 cycles.
    expected = [216 / 1e5, 9 * 3 * 5 / 4e5, 2 * 3 * 64 / 4e5, 5 * 64 / 4e5]
    np.testing.assert_allclose(terms.times_ms[0], expected, rtol=EXACT_ALGEBRA)
    np.testing.assert_allclose(terms.cycle_ms[0], [1e-5, 2e-5, 8e-5], rtol=EXACT_ALGEBRA)


def test_structure_worked_by_hand() -> None:
    terms = roofline_terms(one_layer(), Structure("window", "tiles", 32))
    # 3 channels are packed into a word of 4; neighbours share 2 rows of 8 and 3 - 1 pixels.
    expected = [288 / 1e5, 9 * 4 * 5 / 4e5, 2 * 4 * (64 + 3 * 18) / 4e5, 8 * 64 / 4e5]
    np.testing.assert_allclose(terms.times_ms[0], expected, rtol=EXACT_ALGEBRA)
    once = roofline_terms(one_layer(), Structure("once", "exact", 8))
    np.testing.assert_allclose(once.times_ms[0, 2], 3 * 64 / 4e5, rtol=EXACT_ALGEBRA)


def test_depthwise_layers_read_each_channel_once() -> None:
    layer = one_layer(input_channels=8, output_channels=8, groups=8)
    terms = roofline_terms(layer, Structure("filter_tile", "exact", 8))
    np.testing.assert_allclose(terms.times_ms[0, 2], 8 * 64 / 4e5, rtol=EXACT_ALGEBRA)


def test_compute_is_that_of_the_tiled_analytic_model(features_of: Maker) -> None:
    inputs = roofline_inputs(features_of(40))
    ours = roofline_terms(inputs, Structure()).times_ms[:, TERMS.index("compute")]
    np.testing.assert_allclose(ours, latency_terms(inputs, "tiled").compute, rtol=EXACT_ALGEBRA)


@given(st.integers(0, 1000), st.floats(1, 60))
@settings(max_examples=30, deadline=None)
def test_the_latency_lies_between_largest_term_and_sum(seed: int, sharpness: float) -> None:
    generator = np.random.default_rng(seed)
    inputs = one_layer(input_channels=generator.integers(1, 99), output_channels=generator.integers(1, 99))
    terms = roofline_terms(inputs, Structure())
    values = generator.normal(size=PARAMETERS)
    roofline = log_roofline(terms, values, sharpness)
    scaled = terms.times_ms / np.exp(values[: len(TERMS)])
    overheads = (terms.cycle_ms * np.exp(values[len(TERMS) :])).sum()
    latency = np.exp(roofline.log_ms[0])
    assert scaled.max() + overheads <= latency * (1 + EXACT_ALGEBRA)
    assert latency <= (scaled.sum() + overheads) * (1 + EXACT_ALGEBRA)
    np.testing.assert_allclose(roofline.shares.sum(), 1, rtol=EXACT_ALGEBRA)
    assert 0 <= roofline.memory_share[0] <= 1


@pytest.mark.parametrize("transfers", TRANSFERS)
def test_the_jacobian_is_the_derivative(features_of: Maker, transfers: Transfers) -> None:
    structure = Structure("window", "tiles", 32, transfers)
    terms = roofline_terms(roofline_inputs(features_of(20)), structure)
    values = np.random.default_rng(0).normal(size=PARAMETERS)
    jacobian = log_roofline(terms, values, 8.0).jacobian
    step = 1e-6
    for column, direction in enumerate(np.eye(PARAMETERS) * step):
        high = log_roofline(terms, values + direction, 8.0).log_ms
        low = log_roofline(terms, values - direction, 8.0).log_ms
        np.testing.assert_allclose(jacobian[:, column], (high - low) / (2 * step), atol=FINITE_DIFFERENCE)


def test_transfers_in_turn_add_up() -> None:
    values = np.concatenate([np.log([1.0, 0.5, 2.0, 1.0]), np.log([1e-9] * len(OVERHEADS))])
    layer = one_layer(memory_clock_mhz=1.0)
    terms = roofline_terms(layer, Structure(transfers="in_turn"))
    roofline = log_roofline(terms, values, 16.0)
    moving = terms.times_ms[0, 1:] / [0.5, 2.0, 1.0]
    # Computing is a hundredth of that and hides behind it.
    np.testing.assert_allclose(np.exp(roofline.log_ms[0]), moving.sum(), rtol=1e-6)
    np.testing.assert_allclose(roofline.shares[0, 1:4], moving / moving.sum(), rtol=1e-6)


def test_rates_of_shared_ports_stay_together(features_of: Maker) -> None:
    inputs = roofline_inputs(features_of(60))
    in_turn = roofline_terms(inputs, Structure(transfers="in_turn"))
    precision = calibration().prior_precision(in_turn)
    move, spread = np.zeros(PARAMETERS), np.zeros(PARAMETERS)
    move[1:4], spread[1:4] = 1.0, [1.0, -1.0, 0.0]
    # Together they are as free as any rates are; apart, the three deviate from their mean by 0.3.
    np.testing.assert_allclose(move @ precision @ move, 3.0, rtol=EXACT_ALGEBRA)
    np.testing.assert_allclose(spread @ precision @ spread, 2.0 + 2.0 / 0.3**2, rtol=EXACT_ALGEBRA)


def test_a_row_of_known_spread_bends_the_rates_less(features_of: Maker) -> None:
    inputs = roofline_inputs(features_of(60))
    truth = np.log([0.9, 1.0, 1.0, 1.0, 100.0, 1.0, 1.0])
    log_ms = log_roofline(roofline_terms(inputs, Structure()), truth, 16.0).log_ms
    groups = np.arange(60).astype(str)
    log_ms[::3] += 0.05
    noise = np.zeros(60)
    noise[::3] = 0.1**2
    off = [
        abs(calibration().fit(inputs, log_ms, groups, noise=known).parameters[0] - np.log(0.9))
        for known in (noise, None)
    ]
    assert off[0] < 0.5 * off[1]
    same = calibration().fit(inputs, log_ms, groups, noise=np.zeros(60))
    np.testing.assert_array_equal(same.parameters, calibration().fit(inputs, log_ms, groups).parameters)


def test_the_pull_is_how_far_a_parameter_follows_its_prior(features_of: Maker) -> None:
    inputs = roofline_inputs(features_of(60))
    truth = np.log([0.9, 1.0, 0.8, 1.0, 100.0, 1.0, 1.0])
    log_ms = log_roofline(roofline_terms(inputs, Structure()), truth, 16.0).log_ms
    groups = np.arange(60).astype(str)
    before = calibration().fit(inputs, log_ms, groups, search=False)
    # A datasheet that promises 5 % more of everything that is moved.
    faster = inputs | {"memory_clock_mhz": inputs["memory_clock_mhz"] * 1.05}
    after = calibration().fit(faster, log_ms, groups, start=before, search=False)
    moved = (after.parameters - before.parameters)[1:4] / np.log(1.05)
    # A rate that follows data alone is a smaller share of a greater promise.
    np.testing.assert_allclose(1 + moved, before.pull[1:4], atol=0.02)
    assert np.all((before.pull >= 0) & (before.pull <= 1))


def test_binding_names_the_largest_part() -> None:
    values = np.concatenate([np.zeros(len(TERMS)), np.log([1e-9] * len(OVERHEADS))])
    assert log_roofline(roofline_terms(one_layer(), Structure()), values, 16.0).binding[0] == "compute"
    slow = one_layer(memory_clock_mhz=1.0)
    assert log_roofline(roofline_terms(slow, Structure()), values, 16.0).binding[0] == "input"
    values[len(TERMS)] = np.log(1e6)
    name = log_roofline(roofline_terms(one_layer(), Structure()), values, 16.0).binding[0]
    assert name == "layer overhead"


@pytest.mark.parametrize(
    "structure",
    [
        Structure("window", "tiles", 32),
        Structure("filter_tile", "exact", 8),
        Structure("once", "tiles", 64),
        Structure("filter_tile", "exact", 8, "in_turn"),
    ],
)
def test_calibration_reads_back_rates_and_structure(features_of: Maker, structure: Structure) -> None:
    inputs = roofline_inputs(features_of(200))
    inputs["unrolls_pixels"] = np.ones(200)
    # Odd numbers of channels and a slow memory make every part of the structure show.
    inputs["input_channels"] = inputs["input_channels"] + np.arange(200) % 5
    inputs["memory_clock_mhz"] = inputs["memory_clock_mhz"] / np.where(np.arange(200) % 3, 2.0, 40.0)
    truth = np.log([0.9, 1.3, 0.8, 0.7, 300.0, 12.0, 3.0])
    if structure.transfers == "in_turn":
        # Ports that are shared have one rate, more or less.
        truth[1 : len(TERMS)] = np.log(0.8)
    log_ms = log_roofline(roofline_terms(inputs, structure), truth, 16.0).log_ms
    groups = np.arange(200).astype(str)
    fit = calibration().fit(inputs, log_ms, groups)
    assert fit.structure == structure
    sigma = np.sqrt(np.diag(fit.covariance))
    identified = sigma < 0.05
    assert identified[: len(TERMS)].sum() >= 2
    # The prior pulls by less than a thousandth where the data determine a parameter.
    np.testing.assert_allclose(fit.parameters[identified], truth[identified], atol=5e-3)


def test_outliers_do_not_bend_the_rates(features_of: Maker) -> None:
    inputs = roofline_inputs(features_of(100))
    truth = np.log([0.9, 1.0, 1.0, 1.0, 100.0, 1.0, 1.0])
    log_ms = log_roofline(roofline_terms(inputs, Structure()), truth, 16.0).log_ms
    groups = np.arange(100).astype(str)
    log_ms[::20] += 0.5
    fit = calibration().fit(inputs, log_ms, groups)
    np.testing.assert_allclose(np.exp(fit.parameters[0]), 0.9, rtol=5e-3)


def test_a_rate_that_no_layer_is_bound_by_keeps_its_prior(features_of: Maker) -> None:
    inputs = roofline_inputs(features_of(60))
    inputs["memory_clock_mhz"] = inputs["memory_clock_mhz"] * 40
    truth = np.log([0.9, 1.0, 1.0, 1.0, 100.0, 1.0, 1.0])
    log_ms = log_roofline(roofline_terms(inputs, Structure()), truth, 16.0).log_ms
    fit = calibration().fit(inputs, log_ms, np.arange(60).astype(str))
    sigma = np.sqrt(np.diag(fit.covariance))
    assert sigma[0] < 0.01
    np.testing.assert_allclose(sigma[1:4], calibration().rate_sigma, rtol=0.5)


def test_a_rate_bounded_from_below_stands_at_the_median_of_its_posterior(features_of: Maker) -> None:
    """Layers that need weights at nearly the datasheet's rate, and get them: it is that or more."""
    inputs = roofline_inputs(features_of(60))
    terms = roofline_terms(inputs, Structure())
    compute, weights = terms.times_ms[:, 0], terms.times_ms[:, 1]
    # The layer with the most weights for its computing asks for 90 % of the datasheet's rate.
    inputs["memory_clock_mhz"] = inputs["memory_clock_mhz"] * float(np.max(weights / compute)) / 0.9
    terms = roofline_terms(inputs, Structure())
    truth = np.log([1.0, 50.0, 50.0, 50.0, 1.0, 1.0, 1.0])
    log_ms = log_roofline(terms, truth, 16.0).log_ms
    asked = calibration()
    fit = asked.fit(inputs, log_ms, np.arange(60).astype(str))
    assert fit.structure == Structure()

    def density(rate: float) -> float:
        """Unnormalised posterior of the weights' log rate, the others as they are."""
        values = fit.parameters.copy()
        values[1] = rate
        error = (log_ms - log_roofline(terms, values, asked.sharpness).log_ms) / asked.robust_scale
        return float(np.exp(-np.sum(np.sqrt(1 + error**2) - 1) - 0.5 * rate**2))

    below = scipy.integrate.quad(density, -4, fit.parameters[1], limit=200)[0]
    above = scipy.integrate.quad(density, fit.parameters[1], 4, limit=200)[0]
    np.testing.assert_allclose(below / (below + above), 0.5, atol=HALF)
    # The normal prior cut off near 0 has its median near 0.67, the normal quantile of 3/4.
    assert 0.4 < fit.parameters[1] < 0.9


def test_choices_start_with_the_default_structure() -> None:
    assert Structure() == Structure(INPUT_READS[0], OUTPUT_WRITES[0], WORD_BITS[0], TRANSFERS[0])
