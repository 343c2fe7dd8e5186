"""Folds one after the other, or side by side on all cores; in order either way."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from os import cpu_count
from typing import Literal, TypeVar

from accelperf.models.base import Fold

Result = TypeVar("Result")

Workers = Literal["one", "threads", "processes"]
"""Threads for work that NumPy does outside of Python's lock; processes for work inside it.

Processes take about 3 s to start. Where they are workers themselves, as in a sweep of side-by-side
points, they run no further ones."""


def map_folds(
    function: Callable[[Fold], Result], folds: Sequence[Fold], workers: Workers
) -> Iterator[Result]:
    """Yield what a function returns for each fold, in their order.

    Parameters
    ----------
    function : callable
        What to compute. For processes it must be a method or a function of a module.
    folds : sequence of Fold
        What for.
    workers : {"one", "threads", "processes"}
        Who computes it.
    """
    if workers == "one":
        yield from map(function, folds)
    elif workers == "threads":
        pool = ThreadPoolExecutor(cpu_count())
        try:
            yield from pool.map(function, folds)
        finally:
            # Interrupted, the folds still queued must not run to the end first.
            pool.shutdown(cancel_futures=True)
    else:
        import joblib

        jobs = (joblib.delayed(function)(fold) for fold in folds)
        with warnings.catch_warnings():
            # Workers of an earlier call end after some minutes without work; new ones take over.
            warnings.filterwarnings("ignore", message="A worker stopped while some jobs were given")
            yield from joblib.Parallel(n_jobs=-1, return_as="generator")(jobs)
