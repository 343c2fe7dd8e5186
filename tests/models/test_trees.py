"""Boosted trees against scikit-learn's own predictions and the plain loop."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from accelperf.errors import InputError
from accelperf.evaluation.splits import make_folds
from accelperf.features import FeatureMatrix
from accelperf.models import trees
from accelperf.models.base import Estimator
from accelperf.models.catalog import create
from accelperf.models.tree_predictor import LEAF, Tree, TreeEnsemblePredictor
from tests.tolerances import EXACT_ALGEBRA

Maker = Callable[..., FeatureMatrix]

KEYS = ("gtb", "adaboost")


def of_scikit_learn(key: str, depth: int, count: int) -> object:
    from sklearn.ensemble import AdaBoostRegressor, GradientBoostingRegressor
    from sklearn.tree import DecisionTreeRegressor

    common = {"n_estimators": count, "learning_rate": 0.3, "random_state": 7}
    if key == "gtb":
        return GradientBoostingRegressor(max_depth=depth, subsample=0.7, **common)
    return AdaBoostRegressor(DecisionTreeRegressor(max_depth=depth), loss="square", **common)


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize(("depth", "count"), [(1, 1), (3, 10), (12, 40)])
def test_predictions_are_those_of_scikit_learn(key: str, depth: int, count: int, features_of: Maker) -> None:
    features, new = features_of(60), features_of(200, seed=3)
    settings = {"max_depth": depth, "n_estimators": count, "learning_rate": 0.3, "seed": 7}
    own = {"gtb": {"subsample": 0.7}, "adaboost": {"loss": "square"}}[key]
    fitted = create(key, settings | own).fit(features)
    model = of_scikit_learn(key, depth, count)
    expected = model.fit(features.parameters, features.latency_ms).predict(new.parameters)  # type: ignore[attr-defined]
    np.testing.assert_allclose(fitted.predict(new).median_ms, expected, rtol=EXACT_ALGEBRA)


@pytest.mark.parametrize("key", KEYS)
def test_thresholds_between_neighbours_in_single_precision(key: str, features_of: Maker) -> None:
    """Values that differ in double precision alone are one value to the trees."""
    features = features_of(40)
    clock = 200.0 + np.repeat([0.0, 1e-9, 2e-5, 1.0], 10)
    features = FeatureMatrix(features.table.assign(logic_clock_mhz=clock))
    fitted = create(key, {"max_depth": 8, "n_estimators": 30, "learning_rate": 0.3, "seed": 7}).fit(features)
    single = features.parameters.astype(np.float32).astype(np.float64)
    np.testing.assert_array_equal(
        fitted.predict_parameters(features.parameters),  # type: ignore[attr-defined]
        fitted.predict_parameters(single),  # type: ignore[attr-defined]
    )


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("from_trees", [0, 10_000])
def test_folds_are_the_plain_loop(
    key: str, from_trees: int, features_of: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trees, "PROCESS_TREES", from_trees)
    features = features_of(24)
    folds = make_folds(features, "loo")
    estimator = create(key, {"max_depth": 4})
    calls: list[tuple[int, int]] = []
    ours = estimator.predict_folds(features, folds, lambda *done: calls.append(done))
    plain = Estimator.predict_folds(estimator, features, folds)
    for fast, slow in zip(ours, plain, strict=True):
        np.testing.assert_array_equal(fast.median_ms, slow.median_ms)
    assert calls == [(done, 24) for done in range(1, 25)]


def test_a_weighted_median() -> None:
    """Three stumps that are leaves: the value at which half of all weight is reached."""
    leaves = [
        Tree(np.array([LEAF]), np.zeros(1), np.array([LEAF]), np.array([LEAF]), np.array([value]))
        for value in (5.0, 1.0, 3.0)
    ]
    for weights, median in (([1, 1, 1], 3.0), ([5, 1, 1], 5.0), ([1, 5, 1], 1.0), ([2, 1, 1], 3.0)):
        ensemble = TreeEnsemblePredictor.join("weighted_median", 0.0, np.array(weights, float), leaves)
        assert ensemble.predict_parameters(np.zeros((1, 15))) == median


def test_a_sum() -> None:
    stump = Tree(
        feature=np.array([2, LEAF, LEAF]),
        threshold=np.array([0.5, 0.0, 0.0]),
        left=np.array([1, LEAF, LEAF]),
        right=np.array([2, LEAF, LEAF]),
        value=np.array([0.0, 1.0, 2.0]),
    )
    ensemble = TreeEnsemblePredictor.join("sum", 10.0, np.array([0.5, 0.25]), [stump, stump])
    parameters = np.zeros((3, 15))
    parameters[:, 2] = [0.0, 0.5, 0.6]
    np.testing.assert_allclose(
        ensemble.predict_parameters(parameters), [10.75, 10.75, 11.5], rtol=EXACT_ALGEBRA
    )


@pytest.mark.parametrize("key", KEYS)
def test_constant_latencies_are_learned(key: str, features_of: Maker) -> None:
    features = features_of(12)
    constant = FeatureMatrix(features.table.assign(latency_ms=2.5))
    prediction = create(key, {}).fit(constant).predict(features)
    np.testing.assert_allclose(prediction.median_ms, 2.5, rtol=EXACT_ALGEBRA)


@pytest.mark.parametrize(
    ("key", "settings", "message"),
    [
        ("gtb", {"loss": "linear"}, r"hyperparameter of gtb, one of learning_rate, .*subsample, got 'loss'"),
        ("gtb", {"learning_rate": 0.0}, "learning_rate"),
        ("adaboost", {"max_depth": 0}, "max_depth"),
        ("adaboost", {"loss": "huber"}, "loss"),
    ],
)
def test_settings_out_of_bounds(key: str, settings: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        create(key, settings)
