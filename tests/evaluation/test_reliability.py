"""Coverage against simulated predictions of known distribution."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from accelperf.errors import InputError
from accelperf.evaluation.reliability import LEVELS, reliability
from accelperf.models.base import NORMAL_95, Prediction
from accelperf.models.calibrated_predictor import log_normal
from tests.tolerances import EXACT_ALGEBRA

SAMPLING = 0.01
"""Absolute: four standard errors of a share of 40 000 rows."""


def table_of(prediction: Prediction, measured: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "latency_ms": measured,
            "predicted_ms": prediction.median_ms,
            "lower_ms": prediction.lower_ms,
            "upper_ms": prediction.upper_ms,
        }
    )


@pytest.mark.parametrize("kind", ["normal", "log-normal"])
def test_a_calibrated_prediction_covers_what_it_says(kind: str) -> None:
    generator = np.random.default_rng(0)
    centre, draws = generator.uniform(0, 1, 40_000), generator.normal(size=40_000)
    if kind == "normal":
        prediction = Prediction.normal(5 + centre, np.full(40_000, 0.5))
        measured = 5 + centre + 0.5 * draws
    else:
        prediction = log_normal(centre, np.full(40_000, 0.5))
        measured = np.exp(centre + 0.5 * draws)
    table = reliability(table_of(prediction, measured))
    np.testing.assert_allclose(table["nominal"], LEVELS, rtol=EXACT_ALGEBRA)
    np.testing.assert_allclose(table["coverage"], LEVELS, atol=SAMPLING)


def test_the_95_percent_interval_is_the_given_one() -> None:
    prediction = Prediction.normal(np.array([1.0, 2.0]), np.array([0.1, 0.3]))
    table = reliability(table_of(prediction, np.array([1.0, 4.0])), [0.95])
    assert table.loc[0, "coverage"] == 0.5
    np.testing.assert_allclose(table["mean_interval_ms"], NORMAL_95 * 0.4, rtol=EXACT_ALGEBRA)
    np.testing.assert_allclose(
        table["mean_relative_width"], NORMAL_95 * (0.2 / 1 + 0.6 / 4) / 2, rtol=EXACT_ALGEBRA
    )


def test_bad_input_is_refused() -> None:
    table = table_of(Prediction.normal(np.ones(2), np.ones(2)), np.ones(2))
    with pytest.raises(InputError, match=r"a coverage between 0 and 1, got 1\.5"):
        reliability(table, [1.5])
    with pytest.raises(InputError, match="predictions with intervals"):
        reliability(table.assign(lower_ms=np.nan))
