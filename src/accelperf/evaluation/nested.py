"""Nested selection: the configuration is chosen anew in every outer fold, without its test rows.

Whoever evaluates many configurations on some folds and reports the least error of them reports a
figure that flatters: the configuration was chosen because it did well on those very rows. Nested
selection repeats the choice inside each outer fold, on its training rows alone, and lets the chosen
configuration predict the test rows, which had no part in the choice (Varma & Simon, *Bias in error
estimation when using cross-validation for model selection*, BMC Bioinformatics 7:91, 2006). What it
estimates is the error of the whole procedure: sweep, select, fit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd

from accelperf.errors import InputError
from accelperf.evaluation.splits import make_folds
from accelperf.features import FeatureMatrix
from accelperf.models.base import Estimator, FitError, Fold, Progress

Recall = Callable[[int, str, str, Callable[[], float]], float]
"""Called with the number of a candidate, the name of an outer fold, ``inner`` or ``outer``, and a
function that computes the candidate's error there [ms]; returns that error, from memory if it can."""


@dataclass(frozen=True)
class SchemeChoice:
    """A scheme of cross-validation with its option.

    Attributes
    ----------
    scheme : str
        One of `accelperf.evaluation.splits.SCHEMES`.
    keep_twins : bool
        See `accelperf.evaluation.splits.make_folds`.
    """

    scheme: str
    keep_twins: bool = False

    def folds(self, features: FeatureMatrix) -> list[Fold]:
        """Return the folds of the rows."""
        return make_folds(features, self.scheme, keep_twins=self.keep_twins)


@dataclass(frozen=True)
class NestedSelection:
    """What nested selection found.

    Attributes
    ----------
    folds : DataFrame
        One row an outer fold: ``fold, n_train, n_test, candidate`` (number of the chosen one),
        ``inner_mae_ms`` (its error on the training rows, by which it was chosen) and ``mae_ms``
        (on the test rows).
    """

    folds: pd.DataFrame

    @property
    def mae_ms(self) -> float:
        """Mean absolute error of all rows [ms], each predicted by what its fold chose."""
        return float(np.average(self.folds["mae_ms"], weights=self.folds["n_test"]))

    @property
    def chosen(self) -> int:
        """Number of different configurations that were chosen."""
        return int(self.folds["candidate"].nunique())

    @property
    def metrics(self) -> dict[str, float | int | str]:
        """The figures, under their names in ``metrics.json``."""
        return {"nested_mae_ms": self.mae_ms, "nested_configurations": self.chosen}


def select_nested(
    candidates: Sequence[Estimator],
    features: FeatureMatrix,
    outer: SchemeChoice,
    inner: SchemeChoice,
    *,
    progress: Progress | None = None,
    recall: Recall | None = None,
) -> NestedSelection:
    """Select among candidates inside each outer fold, and predict the rows left out of it.

    Parameters
    ----------
    candidates : sequence of Estimator
        What to select from. The first of equals wins.
    features : FeatureMatrix
        All rows.
    outer : SchemeChoice
        How rows are left out of selection and training.
    inner : SchemeChoice
        How candidates are compared on the rows that remain.
    progress : callable, optional
        Called with the number of finished fits and of all.
    recall : callable, optional
        Stands between the selection and the computing of an error, to remember it.

    Returns
    -------
    NestedSelection
        What was chosen, and its errors.

    Raises
    ------
    InputError
        If the rows that remain in an outer fold do not support the inner scheme.
    FitError
        If no candidate can be fitted in some outer fold, or the chosen one fails on its test rows.

    Notes
    -----
    A candidate that cannot be fitted on an inner fold is not chosen in that outer fold. With n rows
    under ``loo`` in both places and c candidates there are about c n² fits.
    """
    folds = outer.folds(features)
    parts = [features.take(fold.train) for fold in folds]
    inner_folds = [_inner_folds(inner, part, fold, outer) for part, fold in zip(parts, folds, strict=True)]
    total = sum(len(candidates) * len(inside) + 1 for inside in inner_folds)
    done = 0

    def report(finished: int, _: int) -> None:
        if progress is not None:
            progress(done + finished, total)

    def error_of(number: int, fold: Fold, kind: str, compute: Callable[[], float]) -> float:
        return compute() if recall is None else recall(number, fold.name, kind, compute)

    rows = []
    for fold, part, inside in zip(folds, parts, inner_folds, strict=True):
        errors = []
        for number, candidate in enumerate(candidates):
            compute = partial(_inner_error, candidate, part, inside, report)
            errors.append(error_of(number, fold, "inner", compute))
            done += len(inside)
            report(0, total)
        best = int(np.argmin(errors))
        if not math.isfinite(errors[best]):
            raise FitError(f"no configuration could be fitted without {fold.name!r} ({outer.scheme})")
        compute = partial(_outer_error, candidates[best], part, features.take(fold.test))
        error = error_of(best, fold, "outer", compute)
        done += 1
        report(0, total)
        rows.append((fold.name, len(fold.train), len(fold.test), best, errors[best], error))
    names = ["fold", "n_train", "n_test", "candidate", "inner_mae_ms", "mae_ms"]
    return NestedSelection(pd.DataFrame(rows, columns=names))


def _inner_folds(inner: SchemeChoice, part: FeatureMatrix, fold: Fold, outer: SchemeChoice) -> list[Fold]:
    try:
        return inner.folds(part)
    except InputError as error:
        where = f"without {fold.name!r} ({outer.scheme})"
        raise InputError(f"{error.expected}, {where}, for nested selection", error.got) from None


def _inner_error(
    estimator: Estimator, features: FeatureMatrix, folds: Sequence[Fold], progress: Progress | None
) -> float:
    """Return the mean absolute error over the folds' test rows [ms]; infinite if a fit fails."""
    try:
        predictions = estimator.predict_folds(features, folds, progress)
    except (FitError, np.linalg.LinAlgError):
        return math.inf
    errors = [
        np.abs(prediction.median_ms - features.latency_ms[fold.test])
        for prediction, fold in zip(predictions, folds, strict=True)
    ]
    return float(np.mean(np.concatenate(errors)))


def _outer_error(estimator: Estimator, train: FeatureMatrix, test: FeatureMatrix) -> float:
    """Return the mean absolute error on test rows [ms].

    The fit sees the training rows and nothing else; a fold that starts from a fit to all rows, as the
    faster engines' do, would have seen the test.
    """
    return float(np.mean(np.abs(estimator.fit(train).predict(test).median_ms - test.latency_ms)))
