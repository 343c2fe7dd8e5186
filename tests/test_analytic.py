"""The equations against hand-worked numbers, TensorFlow, and what must hold for every layer."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelperf.analytic import LATENCY_INPUTS, VARIANTS, ArrayOps, latency_ms, latency_terms
from accelperf.errors import InputError
from accelperf.features import FeatureMatrix
from tests.tolerances import EXACT_ALGEBRA

LAYER = {
    "kernel_height": 3, "kernel_width": 3, "input_height": 56, "input_width": 56, "input_channels": 64,
    "output_height": 28, "output_width": 28, "output_channels": 100, "filter_parallelism": 64,
    "channel_parallelism": 48, "logic_clock_mhz": 200.0, "memory_clock_mhz": 250.0,
    "memory_efficiency": 0.8, "transfer_width_bits": 64, "data_width_bits": 8, "groups": 1,
    "memory_ports": 2, "unrolls_pixels": 0, "is_first": 0, "is_last": 0,
}  # fmt: skip


def arrays(**changes: float) -> dict[str, np.ndarray]:
    return {name: np.array([float(value)]) for name, value in (LAYER | changes).items()}


def test_terms_of_one_layer_worked_by_hand() -> None:
    terms = latency_terms(arrays(), "paper")
    rate = 2 * 250e3 * 64 * 0.8  # bits in a millisecond
    np.testing.assert_allclose(terms.weights, 9 * 100 * 64 * 8 / rate, rtol=EXACT_ALGEBRA)
    np.testing.assert_allclose(terms.data, 56 * 56 * 64 * 8 / rate, rtol=EXACT_ALGEBRA)
    np.testing.assert_allclose(terms.store, 28 * 28 * 100 * 8 / rate, rtol=EXACT_ALGEBRA)
    operations = 100 * 64 * 56 * 56 * 9
    np.testing.assert_allclose(terms.compute, operations / (64 * 48 * 200e3), rtol=EXACT_ALGEBRA)


@pytest.mark.parametrize(
    ("variant", "unrolls_pixels", "groups", "operations"),
    [
        ("output_sized", 0, 1, 100 * 64 * 28 * 28 * 9),
        ("output_sized", 0, 4, 100 * 16 * 28 * 28 * 9),
        ("tiled", 0, 1, 128 * 96 * 28 * 28 * 9),
        ("tiled", 1, 1, 128 * 64 * 816 * 9),  # 784 pixels in 17 tiles of 48
        ("tiled", 0, 4, 128 * 48 * 28 * 28 * 9),
    ],
)
def test_operations_of_the_variants(variant: str, unrolls_pixels: int, groups: int, operations: int) -> None:
    terms = latency_terms(arrays(unrolls_pixels=unrolls_pixels, groups=groups), variant)
    np.testing.assert_allclose(terms.compute, operations / (64 * 48 * 200e3), rtol=EXACT_ALGEBRA)


@pytest.mark.parametrize("variant", VARIANTS)
def test_position_decides_which_terms_count(variant: str) -> None:
    terms = latency_terms(arrays(), variant)
    streamed = np.maximum(terms.weights, terms.compute)
    expected = {
        (1, 0): terms.load + terms.compute,
        (0, 1): streamed + terms.store,
        (0, 0): streamed,
        (1, 1): terms.load + terms.compute + terms.store,
    }
    for (first, last), value in expected.items():
        result = latency_ms(arrays(is_first=first, is_last=last), variant)
        np.testing.assert_allclose(result, value, rtol=EXACT_ALGEBRA)


def test_an_unknown_variant_lists_the_known() -> None:
    with pytest.raises(InputError, match="output_sized, paper, tiled"):
        latency_ms(arrays(), "roofline")


def test_tensorflow_runs_the_same_equations(features_of: Callable[..., FeatureMatrix]) -> None:
    import tensorflow as tf

    ops = ArrayOps(maximum=tf.maximum, where=tf.where, ceil=tf.math.ceil)
    inputs = features_of(30).latency_inputs() | {
        "is_first": np.arange(30.0) == 0,
        "is_last": np.arange(30.0) == 29,
    }
    inputs = {name: np.asarray(value, dtype=np.float64) for name, value in inputs.items()}
    for variant in VARIANTS:
        tensors = {name: tf.constant(value) for name, value in inputs.items()}
        with tf.GradientTape() as tape:
            for name in ("logic_clock_mhz", "memory_efficiency"):
                tape.watch(tensors[name])
            result = latency_ms(tensors, variant, ops)
        np.testing.assert_allclose(result.numpy(), latency_ms(inputs, variant), rtol=EXACT_ALGEBRA)
        for gradient in tape.gradient(result, [tensors["logic_clock_mhz"], tensors["memory_efficiency"]]):
            assert np.all(np.isfinite(gradient.numpy()))
            assert np.all(gradient.numpy() <= 0)  # a faster clock never makes a layer slower


counts = st.integers(1, 600)
sizes = st.integers(1, 300)
layers = st.fixed_dictionaries(
    dict.fromkeys(("input_channels", "output_channels", "filter_parallelism", "channel_parallelism"), counts)
    | dict.fromkeys(("input_height", "input_width", "output_height", "output_width"), sizes)
    | {name: st.integers(1, 11) for name in ("kernel_height", "kernel_width")}
    | {name: st.floats(1, 1000) for name in ("logic_clock_mhz", "memory_clock_mhz")}
    | {"memory_efficiency": st.floats(0.01, 1), "memory_ports": st.integers(1, 64)}
    | {name: st.integers(0, 1) for name in ("unrolls_pixels", "is_first", "is_last")}
)


@given(layer=layers, variant=st.sampled_from(VARIANTS))
def test_latency_is_finite_and_at_least_each_bound(layer: dict[str, float], variant: str) -> None:
    inputs = arrays(**layer)
    assert set(inputs) == set(LATENCY_INPUTS)
    terms = latency_terms(inputs, variant)
    total = latency_ms(inputs, variant)
    for term in (terms.weights, terms.data, terms.store, terms.compute):
        assert np.isfinite(term[0])
        assert term[0] > 0
    assert np.isfinite(total[0])
    assert total[0] >= max(terms.weights[0], terms.compute[0]) or layer["is_first"]
    assert total[0] >= terms.compute[0]


@given(layer=layers)
def test_whole_tiles_never_take_less(layer: dict[str, float]) -> None:
    inputs = arrays(**layer)
    tiled, exact = latency_ms(inputs, "tiled")[0], latency_ms(inputs, "output_sized")[0]
    assert tiled >= exact * (1 - EXACT_ALGEBRA)


@given(layer=layers, factor=st.sampled_from([2.0, 4.0]), variant=st.sampled_from(VARIANTS))
def test_scaling_both_clocks_scales_the_latency(layer: dict[str, float], factor: float, variant: str) -> None:
    inputs = arrays(**layer)
    faster = inputs | {name: inputs[name] * factor for name in ("logic_clock_mhz", "memory_clock_mhz")}
    np.testing.assert_allclose(
        latency_ms(faster, variant) * factor, latency_ms(inputs, variant), rtol=EXACT_ALGEBRA
    )
