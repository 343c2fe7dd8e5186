"""Predictions of many layers: equal ones once, and a few thousand at a time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accelperf.features import FEATURE_COLUMNS, FeatureMatrix
from accelperf.models.base import Prediction, Predictor

CHUNK_ROWS = 2048
"""Rows predicted at once: their covariance with 3000 training rows takes 50 MB."""

_NAMES = (
    "accelerator",
    "network",
    "layer",
    "position",
    "origin",
    "latency_ms",
    "latency_std_ms",
    "repeats",
)
"""Columns that no prediction depends on."""
_SEEN = [name for name in FEATURE_COLUMNS if name not in _NAMES]


@dataclass(frozen=True)
class DistinctRows:
    """The rows of some features that differ in what a prediction depends on.

    Attributes
    ----------
    features : FeatureMatrix
        The first of each.
    place : array of int, shape [rows]
        Which of them each row equals.
    """

    features: FeatureMatrix
    place: NDArray[np.int64]

    @classmethod
    def of(cls, features: FeatureMatrix) -> DistinctRows:
        """Return the distinct rows of some features, in order of their first occurrence."""
        place = np.asarray(features.table.groupby(_SEEN, sort=False).ngroup(), dtype=np.int64)
        first = np.unique(place, return_index=True)[1].astype(np.int64)
        return cls(features.take(first), place)

    @property
    def counts(self) -> NDArray[np.int64]:
        """How often each occurs, shape [distinct rows]."""
        return np.bincount(self.place).astype(np.int64)

    def repeat(self, prediction: Prediction) -> Prediction:
        """Return the predictions of all rows, given those of the distinct ones."""
        parts = (prediction.median_ms, prediction.std_ms, prediction.lower_ms, prediction.upper_ms)
        return Prediction(
            parts[0][self.place], *(None if part is None else part[self.place] for part in parts[1:])
        )


def predict_rows(predictor: Predictor, features: FeatureMatrix) -> Prediction:
    """Return what ``predictor.predict(features)`` does, faster and in bounded memory.

    Parameters
    ----------
    predictor : Predictor
        What predicts.
    features : FeatureMatrix
        Any number of rows.
    """
    distinct = DistinctRows.of(features)
    return distinct.repeat(predict_distinct(predictor, distinct.features))


def predict_distinct(predictor: Predictor, features: FeatureMatrix) -> Prediction:
    """Return the predictions of rows, chunk after chunk."""
    if len(features) <= CHUNK_ROWS:
        return predictor.predict(features)
    parts = [
        predictor.predict(features.take(np.arange(start, min(start + CHUNK_ROWS, len(features)))))
        for start in range(0, len(features), CHUNK_ROWS)
    ]

    def joined(name: str) -> NDArray[np.float64] | None:
        values = [getattr(part, name) for part in parts]
        return None if values[0] is None else np.concatenate(values)

    return Prediction(
        np.concatenate([part.median_ms for part in parts]),
        joined("std_ms"),
        joined("lower_ms"),
        joined("upper_ms"),
    )
