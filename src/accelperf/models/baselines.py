"""Estimators that need no Gaussian process: the analytic model, a line, boosted trees."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from os import cpu_count
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from accelperf.features import FeatureMatrix
from accelperf.models.base import Estimator, Fold, Prediction, Progress
from accelperf.models.predictors import LinearPredictor, Standardiser, StandardPredictor
from accelperf.models.xgboost_predictor import XgboostPredictor
from accelperf.parameters import PARAMETER_NAMES
from accelperf.yaml_input import StrictModel


class StandardSettings(StrictModel):
    """Hyperparameters of the standard method: the variant of the equations."""

    variant: Literal["paper", "output_sized", "tiled"] = "paper"


class Standard(Estimator):
    """The analytic model as it stands (Ferianc et al., ARC 2020, Eq. 4-7)."""

    Settings: ClassVar[type[StrictModel]] = StandardSettings
    settings: StandardSettings

    def fit(self, features: FeatureMatrix) -> StandardPredictor:
        """Return the formula; the features have no part in it."""
        return StandardPredictor(self.settings.variant)


class LinearSettings(StrictModel):
    """Hyperparameters of linear regression.

    Attributes
    ----------
    alpha : float
        Weight of the squared coefficients (ridge regression); 0 for ordinary least squares.
    """

    alpha: Annotated[float, Field(ge=0)] = 0.0


class Linear(Estimator):
    """Linear regression on the 15 standardised parameters."""

    Settings: ClassVar[type[StrictModel]] = LinearSettings
    settings: LinearSettings

    def fit(self, features: FeatureMatrix) -> LinearPredictor:
        """Return the least-squares line; of several equally good ones the shortest."""
        from sklearn.linear_model import LinearRegression, Ridge

        standardiser = Standardiser.fit(features.parameters)
        model = Ridge(alpha=self.settings.alpha) if self.settings.alpha else LinearRegression()
        model.fit(standardiser(features.parameters), features.latency_ms)
        return LinearPredictor(standardiser, np.asarray(model.coef_), float(model.intercept_))

    def predict_folds(
        self, features: FeatureMatrix, folds: Sequence[Fold], progress: Progress | None = None
    ) -> list[Prediction]:
        """Return each fold's predictions: from one fit to all rows where least squares allow it.

        Scaling is no matter to least squares, but it is to ridge regression, which is fitted anew.
        """
        if self.settings.alpha:
            return super().predict_folds(features, folds, progress)
        hat = HatMatrix.of(features.parameters, features.latency_ms)
        predictions = []
        for done, fold in enumerate(folds, start=1):
            left_out = hat.leave_out(fold.test) if len(fold.train) + len(fold.test) == len(features) else None
            if left_out is None:
                left_out = self.fit(features.take(fold.train)).predict(features.take(fold.test)).median_ms
            predictions.append(Prediction(left_out))
            if progress is not None:
                progress(done, len(folds))
        return predictions


@dataclass(frozen=True)
class HatMatrix:
    """The least-squares fit to all rows, from which the fits without some of them follow.

    Attributes
    ----------
    basis : NDArray of float, shape [rows, rank]
        Orthonormal basis of the columns of the design with intercept; H is its product with its
        transpose.
    latency_ms, residual_ms : NDArray of float, shape [rows]
        What was fitted, and what the fit leaves [ms].
    """

    basis: NDArray[np.float64]
    latency_ms: NDArray[np.float64]
    residual_ms: NDArray[np.float64]

    @classmethod
    def of(cls, parameters: NDArray[np.float64], latency_ms: NDArray[np.float64]) -> HatMatrix:
        """Return the fit of latencies, shape [rows], to parameters, shape [rows, columns]."""
        standardised = Standardiser.fit(parameters)(parameters)
        design = np.column_stack([np.ones(len(standardised)), standardised])
        left, values, _ = np.linalg.svd(design, full_matrices=False)
        basis = left[:, values > values[0] * max(design.shape) * np.finfo(np.float64).eps]
        residual = latency_ms - basis @ (basis.T @ latency_ms)
        # Once more, against what rounding left of the fit in the residuals.
        return cls(basis, latency_ms, residual - basis @ (basis.T @ residual))

    def leave_out(self, rows: NDArray[np.int64]) -> NDArray[np.float64] | None:
        r"""Return the predictions [ms] of rows by the fit without them; None if only they tell.

        .. math:: \hat y_T = y_T - (I - H_{TT})^{-1} e_T

        for one row :math:`y_i - e_i / (1 - h_{ii})`. Where the other rows do not span the columns of
        the design, the matrix is singular and the shortest fit has to be found anew.

        References
        ----------
        Cook & Weisberg, *Residuals and Influence in Regression*, 1982, Sec. 2.2.2 and 3.6.
        """
        part = self.basis[rows]
        kept = np.eye(len(rows)) - part @ part.T
        if np.linalg.eigvalsh(kept)[0] < LEAST_SHARE_KEPT:
            return None
        return self.latency_ms[rows] - np.linalg.solve(kept, self.residual_ms[rows])


LEAST_SHARE_KEPT = 1e-6
"""Least eigenvalue of I - H of the rows left out: below, they alone fix a coefficient. Errors of
rounding grow by its inverse."""


class XgboostSettings(StrictModel):
    """Hyperparameters of gradient boosted trees (names of the xgboost library)."""

    n_estimators: Annotated[int, Field(ge=1)] = 10
    max_depth: Annotated[int, Field(ge=1)] = 3
    learning_rate: Annotated[float, Field(gt=0)] = 0.1
    subsample: Annotated[float, Field(gt=0, le=1)] = 1.0
    reg_lambda: Annotated[float, Field(ge=0)] = 1.0
    min_child_weight: Annotated[float, Field(ge=0)] = 1.0
    seed: Annotated[int, Field(ge=0)] = 0


class Xgboost(Estimator):
    """Gradient boosted trees on the 15 parameters (Chen & Guestrin, *XGBoost*, KDD 2016)."""

    Settings: ClassVar[type[StrictModel]] = XgboostSettings
    settings: XgboostSettings

    def fit(self, features: FeatureMatrix) -> XgboostPredictor:
        """Return the trees that fit the rows."""
        return XgboostPredictor(self._boost(features).save_raw("json").decode("utf-8"))

    def _boost(self, features: FeatureMatrix) -> Any:
        """Return the library's trees."""
        import xgboost

        settings = self.settings
        matrix = xgboost.DMatrix(
            features.parameters, features.latency_ms, feature_names=list(PARAMETER_NAMES), nthread=1
        )
        return xgboost.train(
            {
                "objective": "reg:squarederror",
                "tree_method": "exact",
                "nthread": 1,
                **settings.model_dump(exclude={"n_estimators"}),
            },
            matrix,
            num_boost_round=settings.n_estimators,
        )

    def predict_folds(
        self, features: FeatureMatrix, folds: Sequence[Fold], progress: Progress | None = None
    ) -> list[Prediction]:
        """Return each fold's predictions; folds share the cores, each fit takes one."""
        import xgboost

        def predict(fold: Fold) -> Prediction:
            # The library's own prediction is the same to the last digit, and spares reading the trees.
            rows = features.take(fold.test).parameters
            matrix = xgboost.DMatrix(rows, feature_names=list(PARAMETER_NAMES), nthread=1)
            return Prediction(self._boost(features.take(fold.train)).predict(matrix).astype(np.float64))

        predictions = []
        pool = ThreadPoolExecutor(cpu_count())
        try:
            for done, prediction in enumerate(pool.map(predict, folds), start=1):
                predictions.append(prediction)
                if progress is not None:
                    progress(done, len(folds))
        finally:
            # Interrupted, the folds still queued must not run to the end first.
            pool.shutdown(cancel_futures=True)
        return predictions
