"""Breakdowns, totals and twins, against small tables worked by hand."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from accelperf.errors import InputError
from accelperf.evaluation.breakdown import (
    BREAKDOWN_COLUMNS,
    breakdown,
    leak_warning,
    leaking_rows,
    network_totals,
)
from accelperf.evaluation.splits import SCHEMES, make_folds
from accelperf.features import FeatureMatrix
from tests.tolerances import EXACT_ALGEBRA

Maker = Callable[..., FeatureMatrix]


@pytest.fixture
def predictions() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "accelerator": ["a", "a", "b", "b"],
            "network": ["n", "m", "n", "n"],
            "layer": ["1", "2", "1", "2"],
            "position": [0, 0, 0, 1],
            "fold": "0",
            "latency_ms": [1.0, 2.0, 4.0, 4.0],
            "predicted_ms": [1.1, 2.0, 3.0, 5.0],
            "std_ms": 1.0,
            "lower_ms": [1.05, 1.0, 1.0, 4.5],
            "upper_ms": [1.2, 3.0, 5.0, 5.5],
        }
    )


def test_by_accelerator(predictions: pd.DataFrame) -> None:
    table = breakdown(predictions, "accelerator")
    assert list(table.columns) == ["accelerator", *BREAKDOWN_COLUMNS]
    assert list(table["rows"]) == [2, 2]
    np.testing.assert_allclose(table["mae_ms"], [0.05, 1.0], rtol=EXACT_ALGEBRA)
    np.testing.assert_allclose(table["mape"], [0.05, 0.25], rtol=EXACT_ALGEBRA)
    np.testing.assert_allclose(table["coverage_95"], [0.5, 0.5], rtol=EXACT_ALGEBRA)
    # The two layers of b/n err by as much in opposite directions.
    np.testing.assert_allclose(table["network_total_mape"], [0.05, 0], atol=EXACT_ALGEBRA)
    widths = [(0.15 / 1 + 2 / 2) / 2, (4 / 4 + 1 / 4) / 2]
    np.testing.assert_allclose(table["mean_relative_width"], widths, rtol=EXACT_ALGEBRA)


def test_by_two_columns_and_by_given_groups(predictions: pd.DataFrame) -> None:
    both = breakdown(predictions, ["accelerator", "network"])
    assert list(zip(both["accelerator"], both["network"], strict=True)) == [
        ("a", "m"),
        ("a", "n"),
        ("b", "n"),
    ]
    terms = pd.Series(["input", "compute", "input", "input"], name="binding", index=[9, 8, 7, 6])
    table = breakdown(predictions, terms).set_index("binding")
    assert table.loc["compute", "mape"] == 0
    assert table.loc["input", "rows"] == 3


def test_without_intervals_their_figures_are_empty(predictions: pd.DataFrame) -> None:
    table = breakdown(predictions.assign(lower_ms=np.nan, upper_ms=np.nan), "network")
    assert table[["coverage_95", "mean_relative_width"]].isna().all(axis=None)


def test_unknown_groups_are_refused(predictions: pd.DataFrame) -> None:
    with pytest.raises(InputError, match="a column 'board', got none"):
        breakdown(predictions, "board")
    with pytest.raises(InputError, match="a group for each of 4 predictions, got 1"):
        breakdown(predictions, pd.Series(["x"]))


def test_network_totals(predictions: pd.DataFrame) -> None:
    table = network_totals(predictions)
    assert list(table["layers"]) == [1, 1, 2]
    np.testing.assert_allclose(table["latency_ms"], [2, 1, 8], rtol=EXACT_ALGEBRA)
    np.testing.assert_allclose(table["relative_error"], [0, 0.1, 0], atol=EXACT_ALGEBRA)


def test_twins_are_counted_as_a_plain_loop_counts_them(features_of: Maker) -> None:
    features = features_of(80)
    accelerators = features.table["accelerator"].to_numpy()
    for scheme in SCHEMES:
        for keep in (False, True) if scheme == "leave_one_network_out" else (False,):
            expected = np.zeros(80, dtype=bool)
            for fold in make_folds(features, scheme, keep_twins=keep):
                train = {(features.shapes[row], accelerators[row]) for row in fold.train}
                expected[fold.test] = [
                    (features.shapes[row], accelerators[row]) in train for row in fold.test
                ]
            np.testing.assert_array_equal(leaking_rows(features, scheme, keep_twins=keep), expected)


def test_the_warning_counts(features_of: Maker) -> None:
    features = features_of(30).take(np.repeat(np.arange(10), 2))
    warning = leak_warning(features, "loo")
    assert warning is not None
    assert warning.startswith("loo: 20 of 20 rows have a twin")
    assert leak_warning(features, "leave_one_shape_out") is None
    assert leak_warning(features.take(np.arange(0, 20, 2)), "loo") is None
