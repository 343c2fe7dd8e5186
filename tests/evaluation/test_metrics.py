import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from accelperf.evaluation.metrics import network_total_mape, score, spearman
from accelperf.models.base import FitError, Prediction
from tests.tolerances import EXACT_ALGEBRA

MEASURED = np.array([1.0, 2.0, 4.0, 8.0])


def test_figures_worked_by_hand() -> None:
    prediction = Prediction.normal(np.array([1.04, 1.92, 4.6, 8.0]), np.array([0.1, 0.01, 1.0, 1.0]))
    figures = score(MEASURED, prediction, ["a", "a", "b", "b"])
    expected = {
        "mae_ms": (0.04 + 0.08 + 0.6) / 4,
        "rmse_ms": math.sqrt((0.04**2 + 0.08**2 + 0.6**2) / 4),
        "mape": (0.04 + 0.04 + 0.15) / 4,
        "median_ape": 0.04,
        "within_5pct": 0.75,
        "within_10pct": 0.75,
        "spearman": 1.0,
        "max_abs_error_ms": 0.6,
        "network_total_mape": (0.04 / 3 + 0.6 / 12) / 2,
        "coverage_95": 0.75,
        "mean_interval_ms": 2 * 1.959963984540054 * 2.11 / 4,
    }
    assert expected.keys() | {"nlpd"} == figures.keys()
    for name, value in expected.items():
        assert figures[name] == pytest.approx(value, rel=EXACT_ALGEBRA), name


def test_density_against_scipy() -> None:
    mean, std = np.array([1.1, 2.5, 3.0, 9.0]), np.array([0.2, 0.5, 1.0, 3.0])
    figures = score(MEASURED, Prediction.normal(mean, std), list("aabb"))
    expected = -stats.norm.logpdf(MEASURED, mean, std).mean()
    assert figures["nlpd"] == pytest.approx(expected, rel=EXACT_ALGEBRA)


def test_without_uncertainty_there_are_no_intervals() -> None:
    figures = score(MEASURED, Prediction(MEASURED), list("aabb"))
    assert figures["mae_ms"] == 0
    assert "coverage_95" not in figures


@given(st.lists(st.tuples(st.floats(0.1, 10), st.floats(0.1, 10)), min_size=3, max_size=20))
def test_rank_correlation_against_scipy(pairs: list[tuple[float, float]]) -> None:
    left, right = np.array(pairs).T
    if np.ptp(left) == 0 or np.ptp(right) == 0:
        assert math.isnan(spearman(left, right))
    else:
        assert spearman(left, right) == pytest.approx(stats.spearmanr(left, right).statistic, abs=1e-9)


def test_totals_are_per_group() -> None:
    assert network_total_mape(MEASURED, MEASURED[::-1], ["x"] * 4) == 0
    assert network_total_mape(MEASURED, 2 * MEASURED, ["x", "y", "x", "y"]) == pytest.approx(1)


def test_predictions_must_be_finite_and_whole() -> None:
    with pytest.raises(FitError, match="1 predictions are not finite"):
        Prediction(np.array([1.0, np.nan]))
    with pytest.raises(ValueError, match="belong together"):
        Prediction(MEASURED, std_ms=MEASURED)
