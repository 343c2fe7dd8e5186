r"""A network's total: layers one after another, or each at work on an image of its own.

In sequence a network takes the sum of its layers. Layers err together, so that the sum's variance is
not the sum of theirs: Gaussian processes know the joint covariance (`accelperf.models.joint`).

In a pipeline every layer has hardware of its own, and the slowest one lets an image out every
:math:`\max_i T_i`. Its interval holds however the layers' errors depend on each other: as
:math:`P(\max T_i \le l) \le \min_i P(T_i \le l)`, its lower bound is the greatest of theirs, and as
:math:`P(\max T_i > u) \le \sum_i P(T_i > u)`, its upper bound is where that sum is 2.5 %.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from accelperf.models.base import NORMAL_95, Prediction, Predictor
from accelperf.models.calibrated_predictor import CalibratedPredictor
from accelperf.models.joint import joint_prediction
from accelperf.models.network_predictor import NetworkMeanPredictor
from accelperf.models.predictors import GaussianProcessPredictor
from accelperf.predict.rows import DistinctRows
from accelperf.units import MS_PER_SECOND

Floats = NDArray[np.float64]
Schedule = Literal["sequential", "pipeline"]
SCHEDULES: tuple[str, ...] = get_args(Schedule)

MOST_JOINT_LAYERS = 2000
"""Distinct layers up to which their joint covariance is computed; its size grows with their square."""

JOINT = "joint covariance of the layers' errors"
DEPENDENT = "all layers too long or too short together, the widest case"
ANY_DEPENDENCE = "holds however the layers' errors depend on each other"
NO_INTERVAL = "the estimator gives none"

_TAIL = 0.025
_BISECTIONS = 100


@dataclass(frozen=True)
class Total:
    """How long a network takes.

    Attributes
    ----------
    schedule : {"sequential", "pipeline"}
        Whether its layers run one after another, or each on an image of its own.
    median_ms : float
        Time of one image [ms]; in a pipeline, from one image to the next.
    std_ms, lower_ms, upper_ms : float, optional
        Standard deviation (of sums alone) and 95 % interval [ms]; None where the estimator gives none.
    interval : str
        What the interval takes for granted.
    batch : int
        Images.
    batch_ms, batch_lower_ms, batch_upper_ms : float, optional
        Time of all of them [ms]: as many sums; in a pipeline the sum for the first one and the maximum
        for each further one, their bounds added.
    """

    schedule: str
    median_ms: float
    std_ms: float | None
    lower_ms: float | None
    upper_ms: float | None
    interval: str
    batch: int
    batch_ms: float
    batch_lower_ms: float | None
    batch_upper_ms: float | None

    @property
    def frames_per_second(self) -> float | None:
        """Images a second; None for a time that is not above 0."""
        return _rate(self.median_ms)

    @property
    def frames_per_second_lower(self) -> float | None:
        """Lower bound of the images a second."""
        return _rate(self.upper_ms)

    @property
    def frames_per_second_upper(self) -> float | None:
        """Upper bound of the images a second; None if the interval reaches 0 ms."""
        return _rate(self.lower_ms)


def _rate(ms: float | None) -> float | None:
    return MS_PER_SECOND / ms if ms is not None and ms > 0 else None


def total_of(
    predictor: Predictor, rows: DistinctRows, distinct: Prediction, schedule: Schedule, batch: int = 1
) -> Total:
    """Return the total of a network's layers.

    Parameters
    ----------
    predictor : Predictor
        What predicted them.
    rows : DistinctRows
        The layers.
    distinct : Prediction
        Predictions of the distinct ones.
    schedule : {"sequential", "pipeline"}
        How they run.
    batch : int
        Number of images.
    """
    whole, interval = _sum(predictor, rows, distinct)
    if schedule == "sequential":
        image, further = whole, whole
    else:
        image = _slowest(distinct, rows.counts, logarithmic=_is_logarithmic(predictor))
        further, interval = image, NO_INTERVAL if image.lower_ms is None else ANY_DEPENDENCE

    def batch_of(first: Floats | None, next_one: Floats | None) -> float | None:
        if first is None or next_one is None:
            return None
        return float(first[0] + (batch - 1) * next_one[0])

    return Total(
        schedule=schedule,
        median_ms=float(image.median_ms[0]),
        std_ms=_only(image.std_ms) if schedule == "sequential" else None,
        lower_ms=_only(image.lower_ms),
        upper_ms=_only(image.upper_ms),
        interval=interval,
        batch=batch,
        batch_ms=float(whole.median_ms[0] + (batch - 1) * further.median_ms[0]),
        batch_lower_ms=batch_of(whole.lower_ms, further.lower_ms),
        batch_upper_ms=batch_of(whole.upper_ms, further.upper_ms),
    )


def _only(values: Floats | None) -> float | None:
    return None if values is None else float(values[0])


def _sum(predictor: Predictor, rows: DistinctRows, distinct: Prediction) -> tuple[Prediction, str]:
    """Return the distribution of the sum, one row, and what its interval takes for granted."""
    counts = rows.counts
    median = np.array([distinct.median_ms @ counts])
    if distinct.std_ms is None or distinct.lower_ms is None or distinct.upper_ms is None:
        return Prediction(median), NO_INTERVAL
    processes = (CalibratedPredictor, GaussianProcessPredictor, NetworkMeanPredictor)
    if isinstance(predictor, processes) and len(counts) <= MOST_JOINT_LAYERS:
        joint = joint_prediction(predictor, rows.features).totals(counts).prediction()
        return joint, JOINT
    # Quantiles of what errs in step add up.
    parts = (distinct.std_ms, distinct.lower_ms, distinct.upper_ms)
    return Prediction(median, *(np.array([part @ counts]) for part in parts)), DEPENDENT


def _is_logarithmic(predictor: Predictor) -> bool:
    """Return whether predictions are log-normal, not normal."""
    process = predictor.process if isinstance(predictor, NetworkMeanPredictor) else predictor
    if isinstance(process, GaussianProcessPredictor):
        return process.response == "ratio"
    return isinstance(process, CalibratedPredictor)


def _slowest(distinct: Prediction, counts: NDArray[np.int64], *, logarithmic: bool) -> Prediction:
    """Return the time of the slowest layer, one row."""
    median, lower, upper = distinct.median_ms, distinct.lower_ms, distinct.upper_ms
    slowest = np.array([median.max()])
    if lower is None or upper is None:
        return Prediction(slowest)
    centre = np.log(median) if logarithmic else median
    sigma = ((np.log(upper) if logarithmic else upper) - centre) / NORMAL_95
    # Without spread, a layer is never above its median.
    sigma = np.maximum(sigma, np.finfo(float).tiny)

    def above(bound: float) -> float:
        return float(np.sum(counts * ndtr((centre - bound) / sigma)))

    low = float(np.max(centre))
    step = float(np.max(sigma))
    high = low + step
    while above(high) > _TAIL:
        step *= 2
        high += step
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if above(middle) > _TAIL else (low, middle)
    bound = np.array([np.exp(high) if logarithmic else high])
    # The standard deviation of a maximum is not asked for; it stands for "there is an interval".
    return Prediction(slowest, np.zeros(1), np.array([lower.max()]), bound)
