"""Whether one estimator is better than another: a paired comparison with a bootstrap interval."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from accelperf.errors import InputError

_IDENTITY = ["accelerator", "network", "layer"]
RESAMPLES = 2000


@dataclass(frozen=True)
class PairedComparison:
    """How much smaller the first estimator's mean error is than the second's.

    Attributes
    ----------
    difference : float
        Mean error of the first minus that of the second; negative if the first is better.
    lower, upper : float
        95 % bootstrap interval of it.
    better : float
        Share of resamples in which the first is better.
    clusters : int
        Number of clusters that were resampled.
    """

    difference: float
    lower: float
    upper: float
    better: float
    clusters: int

    @property
    def significant(self) -> bool:
        """Whether the interval excludes zero."""
        return self.upper < 0 or self.lower > 0


def compare_paired(
    first: pd.DataFrame,
    second: pd.DataFrame,
    *,
    relative: bool = True,
    clusters: NDArray[np.str_] | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> PairedComparison:
    """Return the difference of two estimators' mean errors on the same layers.

    Layers of one shape err together; resampling single rows would promise too much. Whole clusters
    are drawn with replacement (Davison & Hinkley, *Bootstrap Methods and their Application*, 1997,
    Sec. 3.8), percentile intervals taken.

    Parameters
    ----------
    first, second : DataFrame
        Contents of two ``predictions.csv`` on the same layers, in any order.
    relative : bool
        Compare |error| / measured; else |error| [ms].
    clusters : array of str, shape [rows of first], optional
        What errs together, such as `accelperf.features.FeatureMatrix.shapes`; each network on each
        accelerator by default.
    resamples : int
        Bootstrap resamples.
    seed : int
        Of the resamples.

    Raises
    ------
    InputError
        If the layers differ, a measured latency differs, or there are fewer than two clusters.
    """
    if clusters is None:
        clusters = (first["accelerator"] + "/" + first["network"]).to_numpy(dtype=str)
    if len(clusters) != len(first):
        raise InputError(f"a cluster for each of {len(first)} layers", f"{len(clusters)}")
    joined = first.assign(_cluster=clusters).merge(
        second, on=_IDENTITY, how="inner", suffixes=("_first", "_second"), validate="one_to_one"
    )
    if not len(joined) == len(first) == len(second):
        raise InputError("predictions of the same layers", f"{len(joined)} in common")
    measured = joined["latency_ms_first"].to_numpy(dtype=np.float64)
    if not np.allclose(measured, joined["latency_ms_second"], rtol=1e-9, atol=0):
        raise InputError("the same measured latencies in both", "others")
    unit = measured if relative else np.ones_like(measured)
    error = [
        np.abs(joined[f"predicted_ms_{side}"].to_numpy(dtype=np.float64) - measured) / unit
        for side in ("first", "second")
    ]
    difference = error[0] - error[1]
    # Sorted names, so that neither order of rows nor of files matters.
    names, index = np.unique(joined["_cluster"].to_numpy(dtype=str), return_inverse=True)
    if len(names) < 2:
        raise InputError("at least 2 clusters of layers", f"{len(names)}")
    sums, counts = np.bincount(index, difference), np.bincount(index)
    draws = np.random.default_rng(seed).integers(0, len(names), (resamples, len(names)))
    means = sums[draws].sum(axis=1) / counts[draws].sum(axis=1)
    lower, upper = np.quantile(means, [0.025, 0.975])
    return PairedComparison(
        float(difference.mean()), float(lower), float(upper), float(np.mean(means < 0)), len(names)
    )
