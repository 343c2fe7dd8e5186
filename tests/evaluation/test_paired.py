"""Paired comparison against closed forms and permutations."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from accelperf.errors import InputError
from accelperf.evaluation.paired import compare_paired
from tests.tolerances import EXACT_ALGEBRA


def predictions(errors: np.ndarray) -> pd.DataFrame:
    count = len(errors)
    measured = np.linspace(1, 3, count)
    return pd.DataFrame(
        {
            "accelerator": np.where(np.arange(count) % 2, "a", "b"),
            "network": np.array(["x", "y", "z"])[np.arange(count) % 3],
            "layer": [str(index) for index in range(count)],
            "latency_ms": measured,
            "predicted_ms": measured * (1 + errors),
        }
    )


def test_a_constant_difference_has_no_spread() -> None:
    result = compare_paired(predictions(np.full(30, 0.1)), predictions(np.full(30, -0.3)))
    np.testing.assert_allclose(
        [result.difference, result.lower, result.upper], [-0.2, -0.2, -0.2], rtol=EXACT_ALGEBRA
    )
    assert result.better == 1
    assert result.significant
    assert result.clusters == 6


def test_the_interval_is_that_of_the_mean() -> None:
    errors = np.random.default_rng(0).uniform(0, 0.2, 400)
    clusters = np.arange(400).astype(str)
    result = compare_paired(predictions(errors), predictions(np.full(400, 0.1)), clusters=clusters)
    half = 1.96 * np.std(errors) / 20
    np.testing.assert_allclose(result.upper - result.lower, 2 * half, rtol=0.1)
    np.testing.assert_allclose(result.difference, np.mean(errors) - 0.1, rtol=EXACT_ALGEBRA)


def test_clusters_that_err_together_widen_it() -> None:
    errors = np.repeat(np.random.default_rng(1).uniform(0, 0.2, 20), 20)
    first, second = predictions(errors), predictions(np.full(400, 0.1))
    rows = compare_paired(first, second, clusters=np.arange(400).astype(str))
    groups = compare_paired(first, second, clusters=np.repeat(np.arange(20), 20).astype(str))
    assert groups.upper - groups.lower > 3 * (rows.upper - rows.lower)


def test_neither_order_of_rows_nor_of_estimators_matters() -> None:
    generator = np.random.default_rng(2)
    first, second = predictions(generator.normal(0, 0.1, 40)), predictions(generator.normal(0, 0.2, 40))
    ours = compare_paired(first, second)
    shuffled = compare_paired(first.sample(frac=1, random_state=1), second.sample(frac=1, random_state=2))
    np.testing.assert_allclose([shuffled.lower, shuffled.upper], [ours.lower, ours.upper], rtol=EXACT_ALGEBRA)
    swapped = compare_paired(second, first)
    np.testing.assert_allclose([-swapped.upper, -swapped.lower], [ours.lower, ours.upper], rtol=EXACT_ALGEBRA)


def test_in_ms() -> None:
    result = compare_paired(predictions(np.full(30, 0.1)), predictions(np.zeros(30)), relative=False)
    np.testing.assert_allclose(result.difference, 0.2, rtol=EXACT_ALGEBRA)


def test_other_layers_are_refused() -> None:
    table = predictions(np.zeros(10))
    with pytest.raises(InputError, match="predictions of the same layers, got 9 in common"):
        compare_paired(table, table.iloc[:9])
    with pytest.raises(InputError, match="the same measured latencies"):
        compare_paired(table, table.assign(latency_ms=2 * table["latency_ms"]))
    with pytest.raises(InputError, match="at least 2 clusters"):
        compare_paired(table, table, clusters=np.full(10, "one"))
    with pytest.raises(InputError, match="a cluster for each of 10 layers, got 3"):
        compare_paired(table, table, clusters=np.array(["a", "b", "c"]))
