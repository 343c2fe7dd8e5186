"""Minimisers of a smooth function of a few variables: Adam, and quasi-Newton from a known curvature."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Objective = Callable[[Floats], tuple[float, Floats]]
"""Returns a loss and its gradient at a point."""

BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-7
"""Decay rates and offset of Adam, as Keras has them by default."""
CURVATURE_STEP = 1e-4
"""Step of the differences of gradients that give a curvature."""
LEAST_CURVATURE = 1e-3
"""Directions that bend less count as flat [nats]."""
SUFFICIENT_DECREASE = 1e-4
"""Share of the decrease that the slope promises which a step must bring (Armijo's rule)."""
SHORTEST_STEP = 1e-6
"""Share of a step below which a line search gives up."""
LOSS_ROUNDING = 1e-12
"""Relative rounding of a loss: less than that is no increase."""


def adam(
    objective: Objective, start: Floats, steps: int, learning_rate: float, *, give_up: float = np.inf
) -> tuple[Floats, float]:
    """Take steps of Adam.

    Parameters
    ----------
    objective : callable
        What to minimise.
    start : array of shape [variables]
        Where from.
    steps : int
        How many steps.
    learning_rate : float
        Size of a step.
    give_up : float
        A loss that ends the search.

    Returns
    -------
    values : array of shape [variables]
        Where the last step led.
    loss : float
        The loss there.

    References
    ----------
    Kingma & Ba, *Adam: a method for stochastic optimization*, ICLR 2015, Algorithm 1.
    """
    values = start.copy()
    first, second = np.zeros_like(start), np.zeros_like(start)
    loss, gradient = objective(values)
    for step in range(1, steps + 1):
        if not loss < give_up:
            break
        first = BETA_1 * first + (1 - BETA_1) * gradient
        second = BETA_2 * second + (1 - BETA_2) * gradient**2
        rate = learning_rate * np.sqrt(1 - BETA_2**step) / (1 - BETA_1**step)
        values = values - rate * first / (np.sqrt(second) + EPSILON)
        loss, gradient = objective(values)
    return values, loss


def inverse_curvature(objective: Objective, values: Floats) -> Floats:
    """Return the inverse Hessian at a minimum, made positive definite, [variables, variables].

    It comes from central differences of the gradient. Directions in which the loss is flat get the
    curvature 1 that a quasi-Newton method starts from.
    """
    rows = []
    for index in range(len(values)):
        step = np.zeros_like(values)
        step[index] = CURVATURE_STEP
        rows.append((objective(values + step)[1] - objective(values - step)[1]) / (2 * CURVATURE_STEP))
    hessian = np.array(rows)
    eigenvalues, vectors = np.linalg.eigh((hessian + hessian.T) / 2)
    eigenvalues = np.where(eigenvalues > LEAST_CURVATURE, eigenvalues, 1.0)
    inverse: Floats = (vectors / eigenvalues) @ vectors.T
    return inverse


def quasi_newton(
    objective: Objective, start: Floats, inverse: Floats, steps: int, tolerance: float
) -> tuple[Floats, float]:
    """Minimise from close by, with the inverse Hessian of a function that is almost the same.

    The first step tried is the whole Newton step, so that most searches take two evaluations; the
    inverse Hessian is then improved as by BFGS (Nocedal & Wright, *Numerical Optimization*, 2006,
    Eq. 6.17).

    Parameters
    ----------
    objective : callable
        What to minimise.
    start : array of shape [variables]
        Where from.
    inverse : array of shape [variables, variables]
        Inverse Hessian to begin with, positive definite.
    steps : int
        Steps at most.
    tolerance : float
        It ends where no component of the gradient is larger.

    Returns
    -------
    values : array of shape [variables]
        The best point found.
    loss : float
        The loss there.
    """
    values, (loss, gradient) = start, objective(start)
    for _ in range(steps):
        if np.max(np.abs(gradient)) <= tolerance:
            break
        direction = -inverse @ gradient
        slope = float(gradient @ direction)
        length = 1.0
        while True:
            tried = values + length * direction
            new_loss, new_gradient = objective(tried)
            allowed = SUFFICIENT_DECREASE * length * slope + LOSS_ROUNDING * abs(loss)
            if new_loss <= loss + allowed:
                break
            length /= 4.0
            if length < SHORTEST_STEP:
                return values, loss
        step, change = tried - values, new_gradient - gradient
        along = float(step @ change)
        if along > 0:
            moved = inverse @ change
            inverse = (
                inverse
                + (1.0 + change @ moved / along) * np.outer(step, step) / along
                - (np.outer(moved, step) + np.outer(step, moved)) / along
            )
        values, loss, gradient = tried, new_loss, new_gradient
    return values, loss
