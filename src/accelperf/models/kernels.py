r"""Covariance functions by name, evaluated with NumPy.

A kernel is written as one name or two joined by ``+`` or ``*``: ``matern32``, ``matern32+linear``,
``rbf*linear``. Training builds the same kernels in GPflow (`accelperf.models.gp`); prediction needs
only this module. With :math:`r^2 = \sum_d (x_d - x'_d)^2 / l_d^2` (Rasmussen & Williams,
*Gaussian Processes for Machine Learning*, 2006, Sec. 4.2):

=========  =================================================
rbf        :math:`v \exp(-r^2/2)`
matern12   :math:`v \exp(-r)`
matern32   :math:`v (1 + \sqrt3 r) \exp(-\sqrt3 r)`
matern52   :math:`v (1 + \sqrt5 r + 5r^2/3) \exp(-\sqrt5 r)`
linear     :math:`\sum_d v_d x_d x'_d`
=========  =================================================
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accelperf.errors import InputError, known

Floats = NDArray[np.float64]


def _rbf(r2: Floats) -> Floats:
    return np.asarray(np.exp(-0.5 * r2))


def _matern12(r2: Floats) -> Floats:
    return np.asarray(np.exp(-np.sqrt(r2)))


def _matern32(r2: Floats) -> Floats:
    r = np.sqrt(3.0 * r2)
    return np.asarray((1.0 + r) * np.exp(-r))


def _matern52(r2: Floats) -> Floats:
    r = np.sqrt(5.0 * r2)
    return np.asarray((1.0 + r + r**2 / 3.0) * np.exp(-r))


STATIONARY: dict[str, Callable[[Floats], Floats]] = {
    "rbf": _rbf,
    "matern12": _matern12,
    "matern32": _matern32,
    "matern52": _matern52,
}
KERNEL_NAMES: tuple[str, ...] = ("linear", *STATIONARY)


@dataclass(frozen=True)
class KernelExpression:
    """A kernel, or the sum or product of two.

    Attributes
    ----------
    names : tuple of str
        One or two of `KERNEL_NAMES`.
    operation : {"", "+", "*"}
        How they are joined; empty for one.
    """

    names: tuple[str, ...]
    operation: str = ""

    def __str__(self) -> str:
        return self.operation.join(self.names)


def parse_kernel(text: str) -> KernelExpression:
    """Read a kernel expression.

    Parameters
    ----------
    text : str
        Such as ``matern32``, ``rbf + linear`` or ``matern12*linear``.

    Raises
    ------
    InputError
        For an unknown kernel or more than two.

    Examples
    --------
    >>> parse_kernel("matern32 + linear").names
    ('matern32', 'linear')
    """
    parts = [part.strip() for part in re.split(r"[+*]", text)]
    operations = re.findall(r"[+*]", text)
    if len(parts) > 2:
        raise InputError("a kernel, or a sum or product of two", repr(text))
    for part in parts:
        if part not in KERNEL_NAMES:
            raise InputError(f"a kernel, one of {known(KERNEL_NAMES)}, or two joined by + or *", repr(text))
    return KernelExpression(tuple(parts), "".join(operations))


@dataclass(frozen=True)
class KernelPart:
    """One kernel with its hyperparameters.

    Attributes
    ----------
    name : str
        One of `KERNEL_NAMES`.
    variance : array of shape [columns] or [1]
        Variance; one for each column for an ARD linear kernel.
    lengthscales : array of shape [columns] or [1]
        Lengthscales of the scaled inputs; empty for the linear kernel.
    """

    name: str
    variance: Floats
    lengthscales: Floats

    def __call__(self, left: Floats, right: Floats) -> Floats:
        """Return the covariance of rows [n, columns] and [m, columns], shape [n, m]."""
        if self.name == "linear":
            return np.asarray((left * self.variance) @ right.T)
        a, b = left / self.lengthscales, right / self.lengthscales
        squared = np.sum(a**2, 1)[:, None] + np.sum(b**2, 1)[None, :] - 2.0 * a @ b.T
        return np.asarray(self.variance[0] * STATIONARY[self.name](np.maximum(squared, 0.0)))

    def diagonal(self, rows: Floats) -> Floats:
        """Return the covariance of each row [n, columns] with itself, shape [n]."""
        if self.name == "linear":
            return np.asarray(np.sum(self.variance * rows**2, 1))
        return np.full(len(rows), self.variance[0])


@dataclass(frozen=True)
class Kernel:
    """A kernel expression with its hyperparameters."""

    operation: str
    parts: tuple[KernelPart, ...]

    def __call__(self, left: Floats, right: Floats) -> Floats:
        """Return the covariance of rows [n, columns] and [m, columns], shape [n, m]."""
        return self._join([part(left, right) for part in self.parts])

    def diagonal(self, rows: Floats) -> Floats:
        """Return the covariance of each row [n, columns] with itself, shape [n]."""
        return self._join([part.diagonal(rows) for part in self.parts])

    def _join(self, values: list[Floats]) -> Floats:
        if len(values) == 1:
            return values[0]
        return values[0] + values[1] if self.operation == "+" else values[0] * values[1]
