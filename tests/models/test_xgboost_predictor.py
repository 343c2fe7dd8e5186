"""xgboost's JSON, read and evaluated without the library: the same sums, and other documents refused."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelperf.errors import AccelperfError, InputError
from accelperf.features import FeatureMatrix
from accelperf.models.catalog import create
from accelperf.models.xgboost_predictor import XgboostPredictor, read_trees
from accelperf.parameters import PARAMETER_NAMES

Maker = Callable[..., FeatureMatrix]


@pytest.fixture(scope="module")
def document(features_of: Maker) -> dict[str, Any]:
    fitted = create("xgboost", {"n_estimators": 4, "max_depth": 3}).fit(features_of(40))
    assert isinstance(fitted, XgboostPredictor)
    loaded: dict[str, Any] = json.loads(fitted.document)
    return loaded


@pytest.mark.parametrize(
    "hyperparameters",
    [
        {"n_estimators": 1, "max_depth": 1},
        {"n_estimators": 300, "max_depth": 6, "learning_rate": 0.3},
        {"n_estimators": 30, "subsample": 0.5, "seed": 3, "reg_lambda": 0.0},
        {"n_estimators": 5, "min_child_weight": 1e9},
    ],
)
def test_the_sums_are_those_of_the_library_to_the_last_digit(
    features_of: Maker, hyperparameters: dict[str, Any]
) -> None:
    import xgboost

    features, new = features_of(60), features_of(200, seed=4)
    fitted = create("xgboost", hyperparameters).fit(features)
    assert isinstance(fitted, XgboostPredictor)
    booster = xgboost.Booster(model_file=bytearray(fitted.document, "utf-8"))
    for rows in (features, new):
        matrix = xgboost.DMatrix(rows.parameters, feature_names=list(PARAMETER_NAMES))
        expected = booster.predict(matrix).astype(np.float64)
        np.testing.assert_array_equal(fitted.predict(rows).median_ms, expected)
        loaded = XgboostPredictor.from_state(*fitted.state())
        np.testing.assert_array_equal(loaded.predict(rows).median_ms, expected)


def model_of(document: dict[str, Any]) -> dict[str, Any]:
    model: dict[str, Any] = document["learner"]["gradient_booster"]["model"]
    return model


def first_tree(document: dict[str, Any]) -> dict[str, Any]:
    tree: dict[str, Any] = model_of(document)["trees"][0]
    return tree


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (lambda d: d.pop("learner"), "learner: an object"),
        (lambda d: d.update(learner=[]), "learner: an object"),
        (lambda d: d["learner"].pop("gradient_booster"), "gradient_booster: an object"),
        (lambda d: d["learner"]["objective"].update(name="count:poisson"), "objective 'reg:squarederror'"),
        (lambda d: d["learner"]["gradient_booster"].update(name="dart"), "booster 'gbtree'"),
        (lambda d: d["learner"].update(feature_names=["a"]), "feature_names"),
        (lambda d: d["learner"]["learner_model_param"].update(base_score="[1,2]"), "base_score"),
        (lambda d: d["learner"]["learner_model_param"].update(base_score="nan"), "base_score"),
        (lambda d: d["learner"]["learner_model_param"].update(base_score="1e300"), "base_score"),
        (lambda d: model_of(d)["gbtree_model_param"].update(num_parallel_tree="4"), "one xgboost tree"),
        (lambda d: model_of(d).update(trees={}), "trees: a list"),
        (lambda d: model_of(d)["trees"].__setitem__(0, 3), "tree 0: an object"),
        (lambda d: first_tree(d).pop("left_children"), "tree 0: left_children"),
        (lambda d: first_tree(d).update(left_children=[]), "as many entries"),
        (lambda d: first_tree(d)["left_children"].append(-1), "as many entries"),
        (lambda d: first_tree(d)["left_children"].__setitem__(0, 0), "two children after their parent"),
        (lambda d: first_tree(d)["left_children"].__setitem__(0, -1), "two children after their parent"),
        (lambda d: first_tree(d)["left_children"].__setitem__(0, -7), "two children after their parent"),
        (lambda d: first_tree(d)["right_children"].__setitem__(0, 10**6), "children among its"),
        (lambda d: first_tree(d)["right_children"].__setitem__(0, 10**30), "right_children up to"),
        (lambda d: first_tree(d)["right_children"].__setitem__(0, 1.5), "right_children of whole numbers"),
        (lambda d: first_tree(d)["right_children"].__setitem__(0, True), "right_children of whole numbers"),
        (lambda d: first_tree(d)["split_indices"].__setitem__(0, 15), "splits by the 15 parameters"),
        (lambda d: first_tree(d)["split_indices"].__setitem__(0, -1), "splits by the 15 parameters"),
        (lambda d: first_tree(d)["split_conditions"].__setitem__(0, 1e300), "split_conditions up to"),
        (lambda d: first_tree(d)["split_conditions"].__setitem__(0, "1"), "split_conditions of numbers"),
        (lambda d: first_tree(d)["split_type"].__setitem__(0, 1), "numeric splits"),
    ],
)  # fmt: skip
def test_other_documents(document: dict[str, Any], edit: Callable[[Any], object], reason: str) -> None:
    forged = copy.deepcopy(document)
    edit(forged)
    with pytest.raises(InputError, match=reason):
        read_trees(forged)


def test_what_a_leaf_says_about_columns_is_of_no_use(document: dict[str, Any], features_of: Maker) -> None:
    new = features_of(9, seed=2)
    expected = read_trees(document)(new.parameters)
    forged = copy.deepcopy(document)
    for tree in model_of(forged)["trees"]:
        leaves = [place for place, child in enumerate(tree["left_children"]) if child == -1]
        for place in leaves:
            tree["split_indices"][place] = 10**6
    np.testing.assert_array_equal(read_trees(forged)(new.parameters), expected)


def paths(value: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths of all parts of a document."""
    found = [here] if here else []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in items:
        found += paths(part, (*here, key))
    return found


@given(data=st.data())
@settings(max_examples=200, deadline=None)
def test_a_document_with_something_exchanged_gives_numbers_or_an_error(
    document: dict[str, Any], features_of: Maker, data: st.DataObject
) -> None:
    forged = copy.deepcopy(document)
    *way, last = data.draw(st.sampled_from(paths(document)))
    part = forged
    for key in way:
        part = part[key]
    part[last] = data.draw(
        st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.just([])
        | st.just({}) | st.text(max_size=3)
    )  # fmt: skip
    try:
        predictor = XgboostPredictor.from_state({"model": forged}, {})
        with np.errstate(all="ignore"):
            predictor.predict(features_of(5, seed=2))
    except AccelperfError:
        pass
