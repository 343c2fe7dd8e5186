"""Minimisers on functions whose minimum is known."""

from __future__ import annotations

import numpy as np
import pytest

from accelperf.models.optimisers import adam, inverse_curvature, quasi_newton
from accelperf.models.quiet_import import silenced_stderr
from tests.tolerances import EXACT_ALGEBRA, FINITE_DIFFERENCE, LOCKSTEP

MATRIX = np.array([[3.0, 1.0], [1.0, 2.0]])
CENTRE = np.array([1.0, -2.0])


def bowl(values: np.ndarray) -> tuple[float, np.ndarray]:
    offset = values - CENTRE
    return float(0.5 * offset @ MATRIX @ offset), MATRIX @ offset


def valley(values: np.ndarray) -> tuple[float, np.ndarray]:
    """Rosenbrock's function, least at (1, 1)."""
    x, y = values
    return float((1 - x) ** 2 + 10 * (y - x**2) ** 2), np.array(
        [-2 * (1 - x) - 40 * x * (y - x**2), 20 * (y - x**2)]
    )


def test_the_curvature_of_a_bowl() -> None:
    np.testing.assert_allclose(inverse_curvature(bowl, CENTRE), np.linalg.inv(MATRIX), rtol=FINITE_DIFFERENCE)


def test_flat_and_falling_directions_count_as_one() -> None:
    def saddle(values: np.ndarray) -> tuple[float, np.ndarray]:
        x, y, _ = values
        return float(2 * x**2 - y**2), np.array([4 * x, -2 * y, 0.0])

    found = inverse_curvature(saddle, np.zeros(3))
    np.testing.assert_allclose(found, np.diag([0.25, 1, 1]), rtol=FINITE_DIFFERENCE, atol=FINITE_DIFFERENCE)


def test_one_newton_step_finds_the_bottom_of_a_bowl() -> None:
    points: list[np.ndarray] = []

    def watched(values: np.ndarray) -> tuple[float, np.ndarray]:
        points.append(values)
        return bowl(values)

    values, loss = quasi_newton(watched, np.zeros(2), np.linalg.inv(MATRIX), 10, 1e-9)
    np.testing.assert_allclose(values, CENTRE, rtol=EXACT_ALGEBRA)
    assert loss == pytest.approx(0, abs=EXACT_ALGEBRA)
    assert len(points) == 2


def test_a_wrong_curvature_is_improved() -> None:
    values, loss = quasi_newton(valley, np.array([-1.2, 1.0]), np.eye(2), 200, 1e-8)
    np.testing.assert_allclose(values, [1, 1], rtol=LOCKSTEP)
    assert loss == pytest.approx(0, abs=LOCKSTEP)


def test_it_starts_and_stays_where_the_slope_is_within_tolerance() -> None:
    values, _ = quasi_newton(bowl, CENTRE + 1e-4, np.eye(2), 10, 1e-2)
    np.testing.assert_array_equal(values, CENTRE + 1e-4)


def test_it_never_ends_higher_than_it_started() -> None:
    def cliff(values: np.ndarray) -> tuple[float, np.ndarray]:
        return (1e10, np.zeros(1)) if values[0] > 0 else (-(values[0] ** 2), -2 * values)

    values, loss = quasi_newton(cliff, np.array([-0.1]), np.eye(1), 5, 1e-9)
    assert loss <= -0.01
    assert values[0] <= -0.1


@pytest.mark.parametrize("steps", [1, 7])
def test_adam_is_that_of_keras(steps: int) -> None:
    with silenced_stderr():
        import tensorflow as tf
        import tf_keras

    # The other Adam of Keras rounds 1 - 0.999 to single precision.
    optimizer = tf_keras.optimizers.legacy.Adam(learning_rate=0.25)
    variable = tf.Variable(np.zeros(2))
    for _ in range(steps):
        optimizer.apply_gradients([(tf.constant(bowl(variable.numpy())[1]), variable)])
    values, loss = adam(bowl, np.zeros(2), steps, 0.25)
    np.testing.assert_allclose(values, variable.numpy(), rtol=LOCKSTEP)
    assert loss == pytest.approx(bowl(variable.numpy())[0], rel=LOCKSTEP)


def test_adam_gives_up() -> None:
    values, loss = adam(lambda _: (1e10, np.ones(1)), np.zeros(1), 100, 0.1, give_up=1e10)
    assert loss == 1e10
    np.testing.assert_array_equal(values, np.zeros(1))
