"""Refits of folds: their optimum, and the same whoever computes it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import scipy.optimize

from accelperf.evaluation.splits import make_folds
from accelperf.features import FeatureMatrix
from accelperf.models import gp_folds
from accelperf.models.base import FitError, Fold
from accelperf.models.gp_folds import ClosedForm, FoldRefits, Rows
from accelperf.models.gp_settings import GaussianProcessSettings
from accelperf.models.kernels import parse_kernel
from accelperf.models.log_posterior import LogPosterior
from tests.tolerances import EXACT_ALGEBRA, HUNDREDTHS_OF_A_NAT, LOCKSTEP

Maker = Callable[..., FeatureMatrix]


def prepare(features: FeatureMatrix, **settings: object) -> FoldRefits:
    """Return refits from the optimum of all rows, found without TensorFlow."""
    checked = GaussianProcessSettings.model_validate({"mean": "zero"} | settings)
    posterior = LogPosterior(parse_kernel(checked.kernel), 15, checked.ard, checked.noise_floor)
    closed_form = ClosedForm(checked, posterior)
    rows = Rows(features.parameters, features.latency_ms, np.zeros(len(features)))
    objective = closed_form.objective(gp_folds.TrainingRows.of(rows))
    found = scipy.optimize.minimize(
        objective, posterior.start, jac=True, method="L-BFGS-B", bounds=posterior.bounds
    )
    return FoldRefits.prepare(closed_form, rows, found.x)


@pytest.mark.parametrize("kernel", ["matern32", "rbf*linear", "matern12+matern52"])
def test_a_fold_ends_at_its_own_optimum(kernel: str, features_of: Maker) -> None:
    features = features_of(40)
    refits = prepare(features, kernel=kernel)
    for fold in make_folds(features, "loo")[::10] + make_folds(features, "leave_one_network_out")[:1]:
        values, rows = refits.fit(fold)
        objective = refits.closed_form.objective(rows)
        loss, gradient = objective(values)
        assert np.max(np.abs(gradient)) <= gp_folds.GRADIENT_TOLERANCE
        further = scipy.optimize.minimize(objective, values, jac=True, method="BFGS", options={"gtol": 1e-6})
        assert loss - further.fun == pytest.approx(0, abs=HUNDREDTHS_OF_A_NAT)


def test_scaling_knows_the_training_rows_alone(features_of: Maker) -> None:
    features = features_of(20)
    refits = prepare(features)
    fold = make_folds(features, "loo")[7]
    _, rows = refits.fit(fold)
    latency = features.latency_ms[fold.train]
    assert rows.residual_scale == pytest.approx(np.sqrt(np.mean(latency**2)), rel=EXACT_ALGEBRA)
    np.testing.assert_allclose(
        rows.standardiser.mean, features.parameters[fold.train].mean(0), rtol=EXACT_ALGEBRA
    )
    assert rows.inputs.shape == (19, 15)


@pytest.mark.parametrize("workers", ["threads", "processes"])
@pytest.mark.parametrize("optimizer", ["lbfgs", "adam"])
def test_who_computes_does_not_matter(
    workers: str, optimizer: str, features_of: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    features = features_of(24)
    folds = make_folds(features, "loo")
    refits = prepare(features, optimizer=optimizer, fold_steps=5, learning_rate=0.01)
    alone = list(refits.predict_each(folds))
    monkeypatch.setattr(gp_folds, "THREADED_ROWS", 0)
    monkeypatch.setattr(gp_folds, "PROCESS_STEPS", 0 if workers == "processes" else 10**9)
    for one, other in zip(alone, refits.predict_each(folds), strict=True):
        np.testing.assert_allclose(other.median_ms, one.median_ms, rtol=LOCKSTEP)
        np.testing.assert_allclose(other.std_ms, one.std_ms, rtol=LOCKSTEP)


def test_no_steps_leave_the_hyperparameters_as_they_are(features_of: Maker) -> None:
    features = features_of(20)
    for optimizer in ("lbfgs", "adam"):
        refits = prepare(features, optimizer=optimizer, fold_steps=0)
        values, _ = refits.fit(Fold("all", np.arange(20), np.arange(0)))
        np.testing.assert_array_equal(values, refits.start)


def test_divergence_is_named(features_of: Maker) -> None:
    features = features_of(20)
    refits = prepare(features, optimizer="adam", learning_rate=1e200, kernel="linear", fold_steps=3)
    with pytest.raises(
        FitError, match=r"diverged: kernel linear, mean zero, adam with learning rate 1e\+200"
    ):
        list(refits.predict_each(make_folds(features, "loo")))
