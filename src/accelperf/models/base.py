"""What an estimator is, and what it returns.

An `Estimator` is a recipe with hyperparameters; fitting it to features gives a `Predictor`, which
holds numbers only and predicts with NumPy. An own estimator subclasses `Estimator`, implements
`Estimator.fit`, and takes its place in `accelperf.models.catalog`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from accelperf.errors import AccelperfError
from accelperf.features import FeatureMatrix
from accelperf.yaml_input import StrictModel

Floats = NDArray[np.float64]
Progress = Callable[[int, int], None]
"""Called with the number of finished folds and the number of all."""

NORMAL_95 = 1.959963984540054
"""Half width of the central 95 % interval of a standard normal, in standard deviations."""


class FitError(AccelperfError):
    """An estimator could not be fitted: it diverged, or the data cannot support it."""


@dataclass(frozen=True)
class Prediction:
    """Predicted latencies.

    Attributes
    ----------
    median_ms : array of shape [rows]
        Predicted latency, the median of the predictive distribution [ms].
    std_ms, lower_ms, upper_ms : array of shape [rows], optional
        Predictive standard deviation and 95 % interval, noise included [ms]; all three or none.
    """

    median_ms: Floats
    std_ms: Floats | None = None
    lower_ms: Floats | None = None
    upper_ms: Floats | None = None

    def __post_init__(self) -> None:
        spread = (self.std_ms, self.lower_ms, self.upper_ms)
        if any(part is None for part in spread) and any(part is not None for part in spread):
            raise ValueError("standard deviation and both bounds belong together")
        for part in (self.median_ms, *spread):
            if part is not None and part.shape != (len(self.median_ms),):
                raise ValueError(f"expected shape ({len(self.median_ms)},), got {part.shape}")
        if not np.all(np.isfinite(self.median_ms)):
            raise FitError(f"{np.sum(~np.isfinite(self.median_ms))} predictions are not finite numbers")

    @classmethod
    def normal(cls, mean_ms: Floats, std_ms: Floats) -> Prediction:
        """Return normally distributed predictions with their central 95 % interval."""
        half = NORMAL_95 * std_ms
        return cls(mean_ms, std_ms, mean_ms - half, mean_ms + half)

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.median_ms)

    @property
    def has_uncertainty(self) -> bool:
        """Whether standard deviation and interval are there."""
        return self.std_ms is not None


@dataclass(frozen=True)
class Fold:
    """One split of the rows.

    Attributes
    ----------
    name : str
        What is left out.
    train, test : array of int
        Row numbers to fit on and to predict. They share none; rows may be in neither.
    """

    name: str
    train: NDArray[np.int64]
    test: NDArray[np.int64]


class Predictor(Protocol):
    """A fitted estimator: numbers, and the formula that uses them."""

    kind: ClassVar[str]
    """Name under which a bundle finds the class again."""

    def predict(self, features: FeatureMatrix) -> Prediction:
        """Return predictions for each row of the features."""

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return what `from_state` needs: values for JSON, and arrays."""

    @classmethod
    def from_state(cls, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Predictor:
        """Return the predictor that `state` described."""


class Estimator(ABC):
    """A recipe with hyperparameters that can be fitted to features.

    Parameters
    ----------
    settings : StrictModel
        Validated hyperparameters, an instance of the class's `Settings`.
    """

    Settings: ClassVar[type[StrictModel]]

    def __init__(self, settings: StrictModel) -> None:
        self.settings = settings

    @abstractmethod
    def fit(self, features: FeatureMatrix) -> Predictor:
        """Fit to all rows and return the predictor.

        Raises
        ------
        FitError
            If the data cannot support the estimator or the optimisation diverged.
        """

    def predict_folds(
        self, features: FeatureMatrix, folds: Sequence[Fold], progress: Progress | None = None
    ) -> list[Prediction]:
        """Return each fold's predictions of its test rows, fitted on its training rows alone.

        This is the plain loop. Estimators that know a faster way to the same answer override it.
        """
        predictions = []
        for done, fold in enumerate(folds, start=1):
            fitted = self.fit(features.take(fold.train))
            predictions.append(fitted.predict(features.take(fold.test)))
            if progress is not None:
                progress(done, len(folds))
        return predictions

    def predict_loo_fixed(self, features: FeatureMatrix) -> Prediction | None:
        """Return leave-one-out predictions at hyperparameters fitted once to all rows.

        None where the estimator has no closed form for it.
        """
        return None
