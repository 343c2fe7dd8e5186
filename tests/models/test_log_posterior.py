"""The closed form of the training objective against the GPflow model and against differences."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelperf.models.gp_folds import TrainingRows
from accelperf.models.kernels import KERNEL_NAMES, parse_kernel
from accelperf.models.log_posterior import TURN_BACK, LogPosterior
from accelperf.models.predictors import Standardiser
from tests.tolerances import CLOSED_FORM, EXACT_ALGEBRA, FINITE_DIFFERENCE, TENSORFLOW

KERNELS = (
    *KERNEL_NAMES,
    "matern32+linear",
    "rbf*linear",
    "linear*matern12",
    "matern12+matern52",
    "linear*linear",
)


def some_rows(rows: int, columns: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return standardised inputs with a constant column and two equal rows, and residuals."""
    generator = np.random.default_rng(seed)
    inputs = generator.normal(size=(rows, columns))
    inputs[:, 1] = 0.0
    inputs[2] = inputs[1]
    return inputs, generator.normal(size=rows)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("ard", [True, False])
def test_value_and_gradient_are_those_of_gpflow(kernel: str, ard: bool) -> None:
    from accelperf.models.gp import _Likelihood

    inputs, residuals = some_rows(25, 4, seed=0)
    theirs = _Likelihood(parse_kernel(kernel), 4, ard, 1e-3)
    theirs.set_rows(TrainingRows(Standardiser.fit(inputs), 1.0, inputs, residuals))
    ours = LogPosterior(parse_kernel(kernel), 4, ard, 1e-3)
    np.testing.assert_allclose(ours.start, theirs.start, rtol=CLOSED_FORM)
    for seed in range(3):
        values = ours.start + np.random.default_rng(seed).normal(0, 0.5, ours.size)
        expected_loss, expected_gradient = theirs(values)
        loss, gradient = ours(values, inputs, residuals)
        assert loss == pytest.approx(expected_loss, rel=TENSORFLOW)
        np.testing.assert_allclose(gradient, expected_gradient, rtol=TENSORFLOW, atol=TENSORFLOW)


def test_known_noise_of_rows_is_that_of_gpflow() -> None:
    from accelperf.models.gp import _Likelihood

    inputs, residuals = some_rows(25, 4, seed=0)
    row_noise = np.random.default_rng(1).exponential(0.5, 25)
    theirs = _Likelihood(parse_kernel("matern32"), 4, True, 1e-3, noise_of_rows=True)
    theirs.set_rows(TrainingRows(Standardiser.fit(inputs), 1.0, inputs, residuals, row_noise))
    ours = LogPosterior(parse_kernel("matern32"), 4, True, 1e-3)
    expected_loss, expected_gradient = theirs(ours.start)
    loss, gradient = ours(ours.start, inputs, residuals, row_noise)
    assert loss == pytest.approx(expected_loss, rel=TENSORFLOW)
    np.testing.assert_allclose(gradient, expected_gradient, rtol=TENSORFLOW, atol=TENSORFLOW)
    assert loss != ours(ours.start, inputs, residuals)[0]


@pytest.mark.parametrize("kernel", ["matern32", "rbf+linear", "linear*matern52"])
@settings(max_examples=20)
@given(seed=st.integers(0, 2**32 - 1))
def test_gradients_are_differences(kernel: str, seed: int) -> None:
    inputs, residuals = some_rows(12, 3, seed)
    objective = LogPosterior(parse_kernel(kernel), 3, True, 1e-2)
    values = objective.start + np.random.default_rng(seed).normal(0, 0.5, objective.size)
    _, gradient, by_residual = objective.evaluate(values, inputs, residuals)
    step = 1e-5
    for index in range(objective.size):
        change = step * np.eye(objective.size)[index]
        high, _ = objective(values + change, inputs, residuals)
        low, _ = objective(values - change, inputs, residuals)
        assert (high - low) / (2 * step) == pytest.approx(
            gradient[index], rel=FINITE_DIFFERENCE, abs=FINITE_DIFFERENCE
        )
    change = step * np.eye(12)[3]
    high, _ = objective(values, inputs, residuals + change)
    low, _ = objective(values, inputs, residuals - change)
    assert (high - low) / (2 * step) == pytest.approx(
        by_residual[3], rel=FINITE_DIFFERENCE, abs=FINITE_DIFFERENCE
    )


@pytest.mark.parametrize("size", [1e12, 1e200])
def test_a_covariance_without_factorisation_turns_back(size: float) -> None:
    inputs, residuals = some_rows(8, 2, seed=0)
    objective = LogPosterior(parse_kernel("linear"), 2, True, 1e-3)
    loss, gradient = objective(objective.start, size * inputs, residuals)
    assert loss == TURN_BACK
    np.testing.assert_array_equal(gradient, np.zeros(objective.size))


@pytest.mark.parametrize("kernel", KERNELS)
def test_hyperparameters_there_and_back(kernel: str) -> None:
    objective = LogPosterior(parse_kernel(kernel), 3, True, 1e-3)
    values = np.random.default_rng(0).normal(0, 5, objective.size)
    back = objective.unconstrained(objective.constrained(values))
    np.testing.assert_allclose(back, values, rtol=CLOSED_FORM, atol=CLOSED_FORM)
    assert objective.noise_variance(np.full(objective.size, -800.0)) == pytest.approx(1e-6, rel=EXACT_ALGEBRA)
