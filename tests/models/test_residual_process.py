"""The residual process: covariance, gradient, tails, and its sparse form."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from accelperf.models.base import FitError
from accelperf.models.gp_calibrated import exact_posterior, inducing_rows, sparse_posterior
from accelperf.models.quiet_import import silenced_stderr
from accelperf.models.residual_process import (
    AMPLITUDES,
    INPUT_GROUPS,
    ProcessRows,
    ResidualCovariance,
    equal_names,
    expected_tails,
    fit_hyperparameters,
    loss_of,
    prior_medians,
    tail_factors,
)
from tests.tolerances import CLOSED_FORM, EXACT_ALGEBRA, FINITE_DIFFERENCE

RATES = np.diag([0.01, 0.04])


def random_rows(count: int, seed: int = 0) -> ProcessRows:
    generator = np.random.default_rng(seed)
    names = np.arange(count).astype(str)
    return ProcessRows(
        inputs=generator.normal(size=(count, 9)),
        memory_share=generator.uniform(size=count),
        jacobian=generator.normal(size=(count, 2)),
        shapes=np.array([f"shape{index // 2}" for index in range(count)]),
        accelerators=np.array([f"accelerator{index % 2}" for index in range(count)]),
        keys=names,
        tails=generator.uniform(1, 3, size=count),
    )


def covariance_of(seed: int = 1) -> ResidualCovariance:
    values = prior_medians() + np.random.default_rng(seed).normal(0, 0.3, len(prior_medians()))
    return ResidualCovariance.from_values(values, RATES)


def test_the_gradient_is_the_derivative() -> None:
    rows = random_rows(12)
    loss = loss_of(rows, np.random.default_rng(2).normal(0, 0.05, 12), np.full(12, 1e-4), RATES)
    values = prior_medians() + np.random.default_rng(3).normal(0, 0.3, len(prior_medians()))
    _, gradient = loss(values)
    step = 1e-5
    for place, direction in enumerate(np.eye(len(values)) * step):
        numerical = (loss(values + direction)[0] - loss(values - direction)[0]) / (2 * step)
        np.testing.assert_allclose(gradient[place], numerical, rtol=FINITE_DIFFERENCE, atol=1e-5)


def test_the_loss_is_a_normal_density_and_its_priors() -> None:
    from scipy.stats import multivariate_normal

    rows, noise = random_rows(8), np.full(8, 1e-4)
    residuals = np.random.default_rng(4).normal(0, 0.05, 8)
    value, _ = loss_of(rows, residuals, noise, RATES)(prior_medians())
    covariance = ResidualCovariance.from_values(prior_medians(), RATES)
    full = covariance(rows, rows) + np.diag(noise)
    density = multivariate_normal(np.zeros(8), full).logpdf(residuals)
    # At the prior's median its own term is zero; the constant of the density is left out.
    np.testing.assert_allclose(value, -density - 4 * np.log(2 * np.pi), rtol=CLOSED_FORM)


def test_the_diagonal_is_that_of_the_covariance() -> None:
    rows, covariance = random_rows(10), covariance_of()
    full = covariance(rows, rows)
    np.testing.assert_allclose(covariance.diagonal(rows), np.diag(full), rtol=EXACT_ALGEBRA)
    np.testing.assert_allclose(full, full.T, rtol=EXACT_ALGEBRA)
    assert np.linalg.eigvalsh(full).min() > 0


def test_own_deviations_are_shared_by_repeats_alone() -> None:
    rows, covariance = random_rows(4), covariance_of()
    repeat = rows.take(np.array([0]))
    stranger = replace(repeat, keys=np.array([""]))
    own = covariance.own(repeat)[0] ** 2
    np.testing.assert_allclose(
        covariance(repeat, repeat)[0, 0] - covariance(stranger, stranger)[0, 0], own, rtol=CLOSED_FORM
    )


def test_names_are_compared_in_pairs() -> None:
    equal = equal_names(np.array(["a", "b"]), np.array(["b", "c", "a"]))
    np.testing.assert_array_equal(equal, [[False, False, True], [True, False, False]])


def test_amplitudes_are_found_again() -> None:
    rows = replace(random_rows(160), tails=np.ones(160))
    values = prior_medians()
    values[:2] = np.log([0.05, 0.2])
    values[len(AMPLITUDES) :] = np.log([2.0] * len(INPUT_GROUPS))
    truth = ResidualCovariance.from_values(values, 1e-6 * RATES)
    noise = np.full(160, 1e-6)
    factor = np.linalg.cholesky(truth(rows, rows) + np.diag(noise))
    residuals = factor @ np.random.default_rng(5).normal(size=160)
    found = fit_hyperparameters(rows, residuals, noise, 1e-6 * RATES, steps=100)
    loss = loss_of(rows, residuals, noise, 1e-6 * RATES)
    assert loss(found)[0] <= loss(values)[0]
    np.testing.assert_allclose(np.exp(found[:2]), [0.05, 0.2], rtol=0.5)


def test_a_covariance_that_cannot_be_factorised_is_an_error() -> None:
    rows = random_rows(3)
    with pytest.raises(FitError, match="not positive definite"):
        fit_hyperparameters(rows, np.zeros(3), np.full(3, -1e6), RATES, steps=3)
    with pytest.raises(FitError, match="not positive definite"):
        exact_posterior(covariance_of(), rows, np.zeros(3), np.full(3, -1e6))


def test_an_outlier_gets_a_tail_and_others_none() -> None:
    rows = replace(random_rows(30), tails=np.ones(30))
    covariance, noise = ResidualCovariance.from_values(prior_medians(), 1e-6 * RATES), np.full(30, 1e-6)
    residuals = np.zeros(30)
    residuals[7] = 0.5
    for _ in range(3):
        posterior = exact_posterior(covariance, rows, residuals, noise)
        rows = replace(rows, tails=tail_factors(covariance, rows, *posterior))
    assert np.argmax(rows.tails) == 7
    assert rows.tails[7] > 50
    assert np.delete(rows.tails, 7).max() < 5
    np.testing.assert_allclose(expected_tails(np.array([1.0])), 1.0, rtol=EXACT_ALGEBRA)


def test_with_every_row_inducing_the_sparse_process_is_the_exact_one() -> None:
    rows = random_rows(25)
    strangers = replace(rows, keys=np.full(25, ""), tails=np.ones(25))
    covariance, noise = covariance_of(), np.full(25, 1e-3)
    # Own deviations are noise to a sparse process.
    own = covariance.own(rows) ** 2
    ordinary = replace(covariance, amplitudes=covariance.amplitudes.copy())
    residuals = np.random.default_rng(6).normal(0, 0.05, 25)
    weights, precision = sparse_posterior(ordinary, rows, strangers, residuals, noise + own)
    new = replace(random_rows(5, seed=9), keys=np.full(5, ""))
    exact = exact_posterior(covariance, rows, residuals, noise)
    cross = covariance(new, rows)
    np.testing.assert_allclose(covariance(new, strangers) @ weights, cross @ exact[0], rtol=1e-2, atol=1e-5)
    explained = np.sum((cross @ exact[1]) * cross, axis=1)
    sparse_cross = covariance(new, strangers)
    sparse = np.sum((sparse_cross @ precision) * sparse_cross, axis=1)
    np.testing.assert_allclose(sparse, explained, rtol=5e-2)


def test_the_sparse_posterior_is_that_of_gpflow() -> None:
    with silenced_stderr():
        import gpflow
    rows = replace(
        random_rows(40), keys=np.full(40, ""), jacobian=np.zeros((40, 2)), memory_share=np.zeros(40)
    )
    rows = replace(rows, shapes=np.arange(40).astype(str))
    # Only the smooth part: the one that GPflow has a kernel for.
    amplitudes = np.array([0.3, 0.3, 1e-9, 1e-9, 1e-9, 1e-9, 1e-9])
    covariance = ResidualCovariance(amplitudes, np.array([2.0, 2.0]), RATES)
    residuals = np.random.default_rng(7).normal(0, 0.3, 40)
    support = inducing_rows(rows, 12, 0)
    weights, _ = sparse_posterior(covariance, rows, support, residuals, np.full(40, 0.01))
    model = gpflow.models.SGPR(
        (rows.inputs, residuals[:, None]),
        gpflow.kernels.Matern32(0.09, 2.0),
        support.inputs,
        noise_variance=0.01,
    )
    new = replace(random_rows(6, seed=8), jacobian=np.zeros((6, 2)), memory_share=np.zeros(6))
    new = replace(new, shapes=np.array([f"new{index}" for index in range(6)]))
    mean, _ = model.predict_f(new.inputs)
    np.testing.assert_allclose(covariance(new, support) @ weights, mean.numpy()[:, 0], rtol=1e-3, atol=1e-5)
