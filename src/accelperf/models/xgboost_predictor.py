"""Boosted trees of the library xgboost, read from its own JSON and evaluated with NumPy.

The library itself is not needed, and its parser is not given what somebody else wrote.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from accelperf.errors import InputError
from accelperf.features import FeatureMatrix
from accelperf.models.base import Prediction
from accelperf.models.predictors import State
from accelperf.parameters import PARAMETER_NAMES

Floats32 = NDArray[np.float32]
Integers = NDArray[np.int64]

OBJECTIVE = "reg:squarederror"
LEAF = -1
_NODE_ARRAYS = ("left_children", "right_children", "split_indices", "split_conditions", "split_type")


@dataclass(frozen=True)
class BoostedTrees:
    """The nodes of all trees, one tree after the other, children by their number among all.

    Attributes
    ----------
    base : float
        What the sum starts from [ms].
    roots : array of int, shape [trees]
        Number of each tree's root.
    feature : array of int, shape [nodes]
        Column that a node looks at.
    left, right : array of int, shape [nodes]
        Children; `LEAF` where there are none.
    value : array of float32, shape [nodes]
        Threshold of a node: a row goes left where its value is below. Of a leaf, what it adds [ms].
    """

    base: np.float32
    roots: Integers
    feature: Integers
    left: Integers
    right: Integers
    value: Floats32

    def __call__(self, parameters: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the sum over the trees [ms] for parameters [rows, 15], shape [rows]."""
        # The library compares and adds up in single precision, tree by tree.
        inputs = parameters.astype(np.float32)
        rows = np.arange(len(inputs))[:, None]
        node = np.tile(self.roots, (len(inputs), 1))
        while np.any(inner := self.left[node] != LEAF):
            goes_left = inputs[rows, self.feature[node]] < self.value[node]
            node = np.where(inner, np.where(goes_left, self.left[node], self.right[node]), node)
        start = np.full((len(inputs), 1), self.base, dtype=np.float32)
        steps = np.hstack([start, self.value[node]])
        return np.cumsum(steps, axis=1, dtype=np.float32)[:, -1].astype(np.float64)


@dataclass(frozen=True)
class XgboostPredictor:
    """Boosted trees, as xgboost's own JSON document.

    Raises
    ------
    InputError
        Once the trees are used: if the document is not one of regression trees on the 15 parameters.
    """

    kind: ClassVar[str] = "xgboost"
    document: str

    @cached_property
    def trees(self) -> BoostedTrees:
        """The trees of the document."""
        return read_trees(json.loads(self.document))

    def predict(self, features: FeatureMatrix) -> Prediction:
        """Return the latencies [ms]."""
        return Prediction(self.trees(features.parameters))

    def state(self) -> State:
        """Return the trees."""
        return {"model": json.loads(self.document)}, {}

    @classmethod
    def from_state(cls, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> XgboostPredictor:
        """Return the predictor that `state` described."""
        predictor = cls(json.dumps(values["model"]))
        predictor.__dict__["trees"] = read_trees(values["model"])
        return predictor


def read_trees(document: object) -> BoostedTrees:
    """Return the trees of xgboost's JSON, format 2 and 3 (JSON schema in the library's documentation).

    Raises
    ------
    InputError
        If a part is missing or of another kind, or the trees are of another sort: not regression on
        squared errors, categorical splits, several values a leaf, children before their parents.
    """
    learner = _object(_object({"document": document}, "document"), "learner")
    objective = _object(learner, "objective").get("name")
    if objective != OBJECTIVE:
        raise InputError(f"an xgboost objective {OBJECTIVE!r}", repr(objective)[:60])
    booster = _object(learner, "gradient_booster")
    if booster.get("name") != "gbtree":
        raise InputError("an xgboost booster 'gbtree'", repr(booster.get("name"))[:60])
    names = learner.get("feature_names")
    if names not in ([], list(PARAMETER_NAMES)):
        raise InputError("xgboost's feature_names: the 15 parameters", repr(names)[:60])
    model = _object(booster, "model")
    parallel = _object(model, "gbtree_model_param").get("num_parallel_tree", "1")
    if parallel not in ("0", "1"):
        raise InputError("one xgboost tree a round", repr(parallel)[:60])
    trees = model.get("trees")
    if not isinstance(trees, list):
        raise InputError("xgboost's trees: a list", type(trees).__name__)
    nodes = [_tree(index, tree) for index, tree in enumerate(trees)]
    sizes = [len(tree["left_children"]) for tree in nodes]
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)

    def joined(name: str, *, children: bool = False) -> Integers:
        parts = [tree[name] for tree in nodes]
        if children:
            parts = [
                np.where(part == LEAF, LEAF, part + start) for part, start in zip(parts, starts, strict=False)
            ]
        return np.concatenate([np.zeros(0, dtype=np.int64), *parts])

    values = [tree["split_conditions"] for tree in nodes]
    return BoostedTrees(
        base=np.float32(_base(_object(learner, "learner_model_param").get("base_score"))),
        roots=starts[:-1],
        feature=joined("split_indices"),
        left=joined("left_children", children=True),
        right=joined("right_children", children=True),
        value=np.concatenate([np.zeros(0, dtype=np.float32), *values]).astype(np.float32),
    )


def _object(parent: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = parent.get(name)
    if not isinstance(found, dict):
        raise InputError(f"xgboost's {name}: an object", type(found).__name__)
    return found


def _base(text: object) -> float:
    """Return the base score; version 3 puts it into brackets."""
    try:
        value = float(str(text).removeprefix("[").removesuffix("]"))
    except ValueError:
        value = math.nan
    if not isinstance(text, str) or not abs(value) <= float(np.finfo(np.float32).max):
        raise InputError("xgboost's base_score: a number", repr(text)[:60])
    return value


def _tree(index: int, tree: object) -> dict[str, NDArray[Any]]:
    where = f"xgboost's tree {index}"
    if not isinstance(tree, dict):
        raise InputError(f"{where}: an object", type(tree).__name__)
    arrays: dict[str, NDArray[Any]] = {}
    for name in _NODE_ARRAYS:
        values = tree.get(name)
        whole = name != "split_conditions"
        kinds = (int,) if whole else (int, float)
        if not isinstance(values, list) or not all(type(value) in kinds for value in values):
            raise InputError(f"{where}: {name} of {'whole ' if whole else ''}numbers", type(values).__name__)
        most = 2**31 - 1 if whole else float(np.finfo(np.float32).max)
        if any(not -most <= value <= most for value in values):
            raise InputError(f"{where}: {name} up to {most:g}", "larger ones")
        arrays[name] = np.array(values, dtype=np.int64 if whole else np.float32)
    sizes = {name: len(values) for name, values in arrays.items()}
    if len(set(sizes.values())) != 1 or sizes["left_children"] == 0:
        raise InputError(f"{where}: as many entries in all node arrays", str(sizes))
    left, right, count = arrays["left_children"], arrays["right_children"], sizes["left_children"]
    inner = left != LEAF
    own = np.arange(count)
    for children in (left, right):
        # Children after their parents: no row can walk in circles.
        if np.any((children != LEAF) != inner) or np.any(children[inner] <= own[inner]):
            raise InputError(f"{where}: two children after their parent, or none", "others")
        if np.any(children >= count):
            raise InputError(f"{where}: children among its {count} nodes", "others")
    split = arrays["split_indices"]
    if np.any(split[inner] < 0) or np.any(split[inner] >= len(PARAMETER_NAMES)):
        raise InputError(f"{where}: splits by the 15 parameters", "others")
    # Rows that have come to a leaf look up a column too, whose value is not used.
    arrays["split_indices"] = np.where(inner, split, 0)
    if np.any(arrays["split_type"] != 0):
        raise InputError(f"{where}: numeric splits", "categorical ones")
    return arrays
