"""Pareto fronts of two quantities, both better when smaller."""

from __future__ import annotations

from bisect import bisect_right

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def front_numbers(latency: Floats, resource: Floats) -> NDArray[np.int64]:
    """Return the Pareto front that each point is on: 1 for points that nothing dominates.

    A point dominates another if it is not worse in either quantity and better in one, so that equal
    points are on the same front. Front 2 is what nothing dominates once front 1 is taken away, and
    so on (non-dominated sorting: Deb, Pratap, Agarwal, Meyarivan, *A fast and elitist multiobjective
    genetic algorithm: NSGA-II*, IEEE Trans. Evolutionary Computation 6(2), 2002, Sec. III-A).

    Parameters
    ----------
    latency, resource : array of shape [points]
        The quantities, finite.

    Returns
    -------
    array of int, shape [points]
        Numbers from 1.

    Examples
    --------
    >>> front_numbers(np.array([1.0, 2.0, 2.0]), np.array([5.0, 3.0, 5.0])).tolist()
    [1, 1, 2]
    """
    numbers = np.zeros(len(latency), dtype=np.int64)
    # Least resource of each front so far, ascending: with points taken by latency, a point belongs to
    # the first front that has none as cheap.
    least: list[float] = []
    previous: tuple[float, float, int] | None = None
    for index in np.lexsort((resource, latency)):
        point = (float(latency[index]), float(resource[index]))
        if previous is not None and previous[:2] == point:
            numbers[index] = previous[2]
            continue
        front = bisect_right(least, point[1])
        if front == len(least):
            least.append(point[1])
        else:
            least[front] = point[1]
        numbers[index] = front + 1
        previous = (*point, front + 1)
    return numbers
