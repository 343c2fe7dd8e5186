"""Ensembles of regression trees as arrays of nodes, evaluated with NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from accelperf.features import FeatureMatrix
from accelperf.models.base import Prediction
from accelperf.models.predictors import State

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Rule = Literal["sum", "weighted_median"]

LEAF = -1
"""Feature of a node that has no children."""


@dataclass(frozen=True)
class Tree:
    """One regression tree.

    Attributes
    ----------
    feature : array of int, shape [nodes]
        Column that a node looks at; `LEAF` for a leaf. The root is node 0.
    threshold : array of shape [nodes]
        A row goes left where its value is at most this.
    left, right : array of int, shape [nodes]
        Children.
    value : array of shape [nodes]
        Mean of the training rows in a node [ms].
    """

    feature: Integers
    threshold: Floats
    left: Integers
    right: Integers
    value: Floats


@dataclass(frozen=True)
class TreeEnsemblePredictor:
    r"""Trees whose values are added up, or whose weighted median counts.

    With the weights :math:`w_t` and the values :math:`v_t(x)` of the trees:

    ``sum``
        :math:`\mathrm{offset} + \sum_t w_t v_t(x)` (gradient boosting; Friedman, *Greedy function
        approximation*, Annals of Statistics 29(5), 2001).
    ``weighted_median``
        The smallest :math:`v_t` whose weight, with that of all smaller ones, is half of all
        (AdaBoost.R2; Drucker, *Improving regressors using boosting techniques*, ICML 1997).

    Attributes
    ----------
    rule : {"sum", "weighted_median"}
        How the trees are joined.
    offset : float
        What a sum starts from [ms]; 0 for a median.
    weights : array of shape [trees]
        Weight of each tree.
    roots : array of int, shape [trees]
        Number of each tree's root; the nodes of a tree follow it.
    nodes : Tree
        Nodes of all trees, one tree after the other, children by their number among all.
    """

    kind: ClassVar[str] = "tree_ensemble"
    rule: Rule
    offset: float
    weights: Floats
    roots: Integers
    nodes: Tree

    @classmethod
    def join(cls, rule: Rule, offset: float, weights: Floats, trees: Sequence[Tree]) -> TreeEnsemblePredictor:
        """Return the ensemble of some trees with their weights."""
        sizes = [len(tree.feature) for tree in trees]
        roots = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
        nodes = Tree(
            feature=np.concatenate([tree.feature for tree in trees]),
            threshold=np.concatenate([tree.threshold for tree in trees]),
            left=np.concatenate([tree.left + root for tree, root in zip(trees, roots, strict=True)]),
            right=np.concatenate([tree.right + root for tree, root in zip(trees, roots, strict=True)]),
            value=np.concatenate([tree.value for tree in trees]),
        )
        return cls(rule, offset, weights, roots, nodes)

    def predict(self, features: FeatureMatrix) -> Prediction:
        """Return the latencies [ms]."""
        return Prediction(self.predict_parameters(features.parameters))

    def predict_parameters(self, parameters: Floats) -> Floats:
        """Return the latencies [ms] of rows of parameters [rows, 15]."""
        values = self._tree_values(parameters)
        if self.rule == "sum":
            start = np.full((len(values), 1), self.offset)
            # A running sum adds in the order of training, to the last digit.
            return np.asarray(np.cumsum(np.hstack([start, values * self.weights]), axis=1)[:, -1])
        order = np.argsort(values, axis=1)
        reached = np.cumsum(self.weights[order], axis=1)
        median = np.argmax(reached >= 0.5 * reached[:, -1:], axis=1)
        rows = np.arange(len(values))
        return np.asarray(values[rows, order[rows, median]])

    def _tree_values(self, parameters: Floats) -> Floats:
        """Return what each tree says of each row, shape [rows, trees] [ms]."""
        # Training compared single-precision inputs with double-precision thresholds.
        inputs = parameters.astype(np.float32)
        nodes = self.nodes
        rows = np.arange(len(inputs))[:, None]
        node = np.tile(self.roots, (len(inputs), 1))
        while np.any(inner := nodes.feature[node] != LEAF):
            goes_left = inputs[rows, nodes.feature[node]] <= nodes.threshold[node]
            node = np.where(inner, np.where(goes_left, nodes.left[node], nodes.right[node]), node)
        return nodes.value[node]

    def state(self) -> State:
        """Return rule, weights and nodes."""
        nodes = self.nodes
        return {"rule": self.rule, "offset": self.offset}, {
            "weights": self.weights,
            "roots": self.roots,
            "feature": nodes.feature,
            "threshold": nodes.threshold,
            "left": nodes.left,
            "right": nodes.right,
            "value": nodes.value,
        }

    @classmethod
    def from_state(cls, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> TreeEnsemblePredictor:
        """Return the predictor that `state` described."""
        names = ("feature", "threshold", "left", "right", "value")
        nodes = Tree(**{name: arrays[name] for name in names})
        return cls(values["rule"], values["offset"], arrays["weights"], arrays["roots"], nodes)
