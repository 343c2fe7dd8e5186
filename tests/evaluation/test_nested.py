"""Selection nested in cross-validation."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest

from accelperf.errors import InputError
from accelperf.evaluation.nested import NestedSelection, SchemeChoice, select_nested
from accelperf.evaluation.splits import make_folds
from accelperf.features import FeatureMatrix
from accelperf.models.base import Estimator, FitError, Prediction, Predictor
from accelperf.models.catalog import create
from accelperf.yaml_input import StrictModel
from tests.tolerances import EXACT_ALGEBRA

Maker = Callable[..., FeatureMatrix]


class NoSettings(StrictModel):
    """Nothing to set."""


class Constant(Estimator):
    """Predicts the mean of what it was fitted to, times a factor; notes the rows that it saw."""

    Settings: ClassVar[type[StrictModel]] = NoSettings

    def __init__(self, factor: float) -> None:
        super().__init__(NoSettings())
        self.factor = factor
        self.seen: list[set[str]] = []

    def fit(self, features: FeatureMatrix) -> Predictor:
        self.seen.append(set(features.table["layer"]))
        if not np.isfinite(self.factor):
            raise FitError("no fit")
        return _Mean(self.factor * float(np.mean(features.latency_ms)))


class _Mean:
    kind = "mean"

    def __init__(self, value: float) -> None:
        self.value = value

    def predict(self, features: FeatureMatrix) -> Prediction:
        return Prediction(np.full(len(features), self.value))


def plainly(
    candidates: list[Estimator], features: FeatureMatrix, outer: SchemeChoice, inner: SchemeChoice
) -> pd.DataFrame:
    """Return what nested selection should find, written out."""
    rows = []
    for fold in make_folds(features, outer.scheme, keep_twins=outer.keep_twins):
        train, test = features.take(fold.train), features.take(fold.test)
        errors = []
        for candidate in candidates:
            wrong = []
            for inside in make_folds(train, inner.scheme, keep_twins=inner.keep_twins):
                fitted = candidate.fit(train.take(inside.train))
                held_out = train.take(inside.test)
                wrong += list(np.abs(fitted.predict(held_out).median_ms - held_out.latency_ms))
            errors.append(np.mean(wrong))
        best = int(np.argmin(errors))
        error = np.mean(np.abs(candidates[best].fit(train).predict(test).median_ms - test.latency_ms))
        rows.append((fold.name, best, errors[best], error))
    return pd.DataFrame(rows, columns=["fold", "candidate", "inner_mae_ms", "mae_ms"])


@pytest.mark.parametrize("outer", ["loo", "leave_one_network_out", "leave_one_accelerator_out"])
def test_the_choice_and_its_error_are_those_of_the_plain_loops(outer: str, features_of: Maker) -> None:
    features = features_of(9)
    candidates = [create("linear", {"alpha": alpha}) for alpha in (1.0, 10.0, 100.0)]
    choices = SchemeChoice(outer), SchemeChoice("loo")
    found = select_nested(candidates, features, *choices)
    expected = plainly(candidates, features, *choices)
    assert list(found.folds["fold"]) == list(expected["fold"])
    assert list(found.folds["candidate"]) == list(expected["candidate"])
    for name in ("inner_mae_ms", "mae_ms"):
        np.testing.assert_allclose(found.folds[name], expected[name], rtol=EXACT_ALGEBRA)


def test_rows_left_out_have_no_part_in_choice_or_fit(features_of: Maker) -> None:
    features = features_of(12)
    candidate = Constant(1.0)
    select_nested([candidate, Constant(2.0)], features, SchemeChoice("loo"), SchemeChoice("loo"))
    layers = set(features.table["layer"])
    # Eleven inner fits and one outer fit for each row left out.
    for start, left_out in zip(range(0, 144, 12), features.table["layer"], strict=True):
        for seen in candidate.seen[start : start + 12]:
            assert left_out not in seen
        assert candidate.seen[start + 11] == layers - {left_out}


def test_the_error_is_weighted_by_rows() -> None:
    folds = pd.DataFrame({"candidate": [0, 2, 0], "n_test": [1, 2, 1], "mae_ms": [4.0, 1.0, 2.0]})
    selection = NestedSelection(folds)
    assert selection.mae_ms == 2.0
    assert selection.chosen == 2
    assert selection.metrics == {"nested_mae_ms": 2.0, "nested_configurations": 2}


def test_a_candidate_that_cannot_be_fitted_is_not_chosen(features_of: Maker) -> None:
    schemes = SchemeChoice("leave_one_network_out"), SchemeChoice("loo")
    found = select_nested([Constant(np.inf), Constant(1.0)], features_of(9), *schemes)
    assert set(found.folds["candidate"]) == {1}
    with pytest.raises(FitError, match="no configuration could be fitted without 'alpha'"):
        select_nested([Constant(np.inf)], features_of(9), *schemes)


def test_what_remains_must_support_the_inner_scheme(features_of: Maker) -> None:
    schemes = SchemeChoice("leave_one_accelerator_out"), SchemeChoice("leave_one_accelerator_out")
    with pytest.raises(InputError, match=r"without 'fast' .leave_one_accelerator_out., for nested selection"):
        select_nested([Constant(1.0), Constant(2.0)], features_of(9), *schemes)


def test_progress_goes_up_to_the_number_of_fits(features_of: Maker) -> None:
    seen: list[tuple[int, int]] = []
    schemes = SchemeChoice("leave_one_network_out", keep_twins=True), SchemeChoice("loo")
    select_nested(
        [Constant(1.0), Constant(2.0)], features_of(9), *schemes, progress=lambda *call: seen.append(call)
    )
    # Three times: six rows remain, each left out for both candidates, and one fit of the chosen one.
    assert {total for _, total in seen} == {39}
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert seen[-1] == (39, 39)


def test_remembered_errors_are_not_computed_again(features_of: Maker) -> None:
    memory: dict[tuple[int, str, str], float] = {}

    def recall(number: int, fold: str, kind: str, compute: Callable[[], float]) -> float:
        return memory.setdefault((number, fold, kind), memory.get((number, fold, kind)) or compute())

    candidates = [Constant(1.0), Constant(2.0)]
    schemes = SchemeChoice("leave_one_network_out"), SchemeChoice("loo")
    first = select_nested(candidates, features_of(9), *schemes, recall=recall)
    fits = len(candidates[0].seen)
    second = select_nested(candidates, features_of(9), *schemes, recall=recall)
    pd.testing.assert_frame_equal(first.folds, second.folds)
    assert len(candidates[0].seen) == fits
