"""Boosted regression trees of scikit-learn: ``gtb`` and ``adaboost``.

The paper lists one method, gradient tree boosting, whose optimiser it names AdaBoost; which of the
two was meant cannot be told, so that both are here (``docs/estimators.md``).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from accelperf.features import FeatureMatrix
from accelperf.models.base import Estimator, Fold, Prediction, Progress
from accelperf.models.parallel import Workers, map_folds
from accelperf.models.tree_predictor import LEAF, Tree, TreeEnsemblePredictor
from accelperf.yaml_input import StrictModel

Floats = NDArray[np.float64]

PROCESS_TREES = 10_000
"""Number of trees from which on folds go to processes of their own.

Fitting one takes 0.4 to 1 ms, most of it in Python and under its lock, so that threads gain
nothing."""


class TreeSettings(StrictModel):
    """Hyperparameters that all boosted trees share (names of scikit-learn).

    Attributes
    ----------
    n_estimators : int
        Number of trees.
    max_depth : int
        Greatest depth of a tree.
    learning_rate : float
        Weight of each tree's contribution.
    seed : int
        Of the random choices.
    """

    n_estimators: Annotated[int, Field(ge=1)] = 10
    max_depth: Annotated[int, Field(ge=1)] = 3
    learning_rate: Annotated[float, Field(gt=0)] = 0.1
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0


class GtbSettings(TreeSettings):
    """Hyperparameters of gradient tree boosting.

    Attributes
    ----------
    subsample : float
        Share of the rows that each tree sees.
    """

    subsample: Annotated[float, Field(gt=0, le=1)] = 1.0


class AdaboostSettings(TreeSettings):
    """Hyperparameters of AdaBoost.R2.

    Attributes
    ----------
    loss : {"linear", "square", "exponential"}
        How a row's error changes its weight.
    """

    loss: Literal["linear", "square", "exponential"] = "linear"


class _BoostedTrees(Estimator):
    """What boosted trees share: rows in, node arrays out, folds on all cores."""

    settings: TreeSettings

    @abstractmethod
    def fit_arrays(self, parameters: Floats, latency_ms: Floats) -> TreeEnsemblePredictor:
        """Return the trees that fit rows of parameters [rows, 15] and latencies [rows]."""

    def fit(self, features: FeatureMatrix) -> TreeEnsemblePredictor:
        """Return the trees that fit the rows."""
        return self.fit_arrays(features.parameters, features.latency_ms)

    def predict_folds(
        self, features: FeatureMatrix, folds: Sequence[Fold], progress: Progress | None = None
    ) -> list[Prediction]:
        """Return each fold's predictions; if there is much to do, folds share the cores."""
        workers: Workers = "one" if len(folds) * self.settings.n_estimators < PROCESS_TREES else "processes"
        predict = partial(self._predict_fold, features.parameters, features.latency_ms)
        predictions = []
        for done, values in enumerate(map_folds(predict, folds, workers), start=1):
            predictions.append(Prediction(values))
            if progress is not None:
                progress(done, len(folds))
        return predictions

    def _predict_fold(self, parameters: Floats, latency: Floats, fold: Fold) -> Floats:
        fitted = self.fit_arrays(parameters[fold.train], latency[fold.train])
        return fitted.predict_parameters(parameters[fold.test])


class Gtb(_BoostedTrees):
    """Gradient tree boosting with squared errors (Friedman, Annals of Statistics 29(5), 2001)."""

    Settings: ClassVar[type[StrictModel]] = GtbSettings
    settings: GtbSettings

    def fit_arrays(self, parameters: Floats, latency_ms: Floats) -> TreeEnsemblePredictor:
        """Return the trees that fit rows of parameters [rows, 15] and latencies [rows]."""
        from sklearn.ensemble import GradientBoostingRegressor

        settings = self.settings
        model = GradientBoostingRegressor(
            n_estimators=settings.n_estimators,
            max_depth=settings.max_depth,
            learning_rate=settings.learning_rate,
            subsample=settings.subsample,
            random_state=settings.seed,
        ).fit(parameters, latency_ms)
        trees = [_nodes(tree) for tree in model.estimators_[:, 0]]
        weights = np.full(len(trees), settings.learning_rate)
        return TreeEnsemblePredictor.join("sum", float(model.init_.constant_[0, 0]), weights, trees)


class Adaboost(_BoostedTrees):
    """AdaBoost.R2 over trees of limited depth (Drucker, ICML 1997)."""

    Settings: ClassVar[type[StrictModel]] = AdaboostSettings
    settings: AdaboostSettings

    def fit_arrays(self, parameters: Floats, latency_ms: Floats) -> TreeEnsemblePredictor:
        """Return the trees that fit rows of parameters [rows, 15] and latencies [rows]."""
        from sklearn.ensemble import AdaBoostRegressor
        from sklearn.tree import DecisionTreeRegressor

        settings = self.settings
        model = AdaBoostRegressor(
            DecisionTreeRegressor(max_depth=settings.max_depth),
            n_estimators=settings.n_estimators,
            learning_rate=settings.learning_rate,
            loss=settings.loss,
            random_state=settings.seed,
        ).fit(parameters, latency_ms)
        trees = [_nodes(tree) for tree in model.estimators_]
        # It stops early once a tree fits all rows or errs on most.
        weights = np.array(model.estimator_weights_[: len(trees)])
        return TreeEnsemblePredictor.join("weighted_median", 0.0, weights, trees)


def _nodes(fitted: Any) -> Tree:
    """Return a tree of scikit-learn as arrays."""
    tree = fitted.tree_
    leaf = tree.children_left == tree.children_right
    return Tree(
        feature=np.where(leaf, LEAF, tree.feature).astype(np.int64),
        threshold=np.array(tree.threshold, dtype=np.float64),
        left=np.array(tree.children_left, dtype=np.int64),
        right=np.array(tree.children_right, dtype=np.int64),
        value=np.array(tree.value[:, 0, 0], dtype=np.float64),
    )
