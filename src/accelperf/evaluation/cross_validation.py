"""An estimator evaluated under a scheme: predictions of rows it has not seen, and their figures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from accelperf.evaluation.metrics import score
from accelperf.evaluation.splits import make_folds
from accelperf.features import FeatureMatrix
from accelperf.models.base import Estimator, FitError, Fold, Prediction, Progress

PREDICTION_COLUMNS: tuple[str, ...] = (
    "accelerator",
    "network",
    "layer",
    "position",
    "fold",
    "latency_ms",
    "predicted_ms",
    "std_ms",
    "lower_ms",
    "upper_ms",
)


@dataclass(frozen=True)
class Evaluation:
    """What an evaluation found.

    Attributes
    ----------
    metrics : dict
        The content of ``metrics.json``.
    predictions : DataFrame
        The content of ``predictions.csv``, `PREDICTION_COLUMNS`, in the order of the features.
    """

    metrics: dict[str, float | int | str]
    predictions: pd.DataFrame


def evaluate(
    estimator: Estimator,
    features: FeatureMatrix,
    scheme: str,
    *,
    keep_twins: bool = False,
    progress: Progress | None = None,
) -> Evaluation:
    """Evaluate an estimator under a scheme.

    Parameters
    ----------
    estimator : Estimator
        The recipe; it is fitted anew in every fold.
    features : FeatureMatrix
        All rows.
    scheme : str
        One of `accelperf.evaluation.splits.SCHEMES`.
    keep_twins : bool
        See `accelperf.evaluation.splits.make_folds`.
    progress : callable, optional
        Called with the number of finished folds and of all.

    Returns
    -------
    Evaluation
        Figures and out-of-fold predictions.

    Raises
    ------
    InputError
        For an unknown scheme or data that do not support it.
    FitError
        If a fit fails or a figure is not a finite number.
    """
    folds = make_folds(features, scheme, keep_twins=keep_twins)
    parts = estimator.predict_folds(features, folds, progress)
    prediction = _in_row_order(folds, parts, len(features))
    table = features.table
    groups = [f"{row[0]}/{row[1]}" for row in table[["accelerator", "network"]].to_numpy(dtype=str)]
    metrics: dict[str, float | int | str] = {
        "scheme": scheme,
        "n_rows": len(features),
        "n_folds": len(folds),
        **score(features.latency_ms, prediction, groups),
    }
    if scheme == "loo":
        fixed = estimator.predict_loo_fixed(features)
        if fixed is not None:
            metrics["loo_fixed_mae_ms"] = float(np.mean(np.abs(fixed.median_ms - features.latency_ms)))
    for name, value in metrics.items():
        # A constant prediction has no rank correlation; that is no failure.
        if isinstance(value, float) and not math.isfinite(value) and name != "spearman":
            raise FitError(f"{name} under {scheme} is {value}")
    metrics = {name: value for name, value in metrics.items() if value == value}

    fold_of_row = np.empty(len(features), dtype=object)
    for fold in folds:
        fold_of_row[fold.test] = fold.name
    predictions = table[["accelerator", "network", "layer", "position"]].reset_index(drop=True)
    empty = np.full(len(features), np.nan)
    predictions = predictions.assign(
        fold=fold_of_row,
        latency_ms=features.latency_ms,
        predicted_ms=prediction.median_ms,
        std_ms=empty if prediction.std_ms is None else prediction.std_ms,
        lower_ms=empty if prediction.lower_ms is None else prediction.lower_ms,
        upper_ms=empty if prediction.upper_ms is None else prediction.upper_ms,
    )
    return Evaluation(metrics, predictions)


def _in_row_order(folds: Sequence[Fold], parts: Sequence[Prediction], rows: int) -> Prediction:
    """Join the folds' predictions into one, row by row."""
    with_spread = all(part.has_uncertainty for part in parts)
    columns = np.full((4, rows), np.nan)
    for fold, part in zip(folds, parts, strict=True):
        columns[0, fold.test] = part.median_ms
        if with_spread:
            for row, values in enumerate((part.std_ms, part.lower_ms, part.upper_ms), start=1):
                columns[row, fold.test] = values
    if not with_spread:
        return Prediction(columns[0])
    return Prediction(columns[0], columns[1], columns[2], columns[3])
