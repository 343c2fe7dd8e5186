"""A fitted estimator as an MLflow model: rows of features in, latencies out.

What `mlflow models serve` answers is what the bundle predicts (`accelperf.bundle`); neither the
training libraries nor pickle have a part in it.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

with warnings.catch_warnings():
    # MLflow warns about type hints of its own while it is imported.
    warnings.simplefilter("ignore", UserWarning)
    from mlflow.exceptions import MlflowException
    from mlflow.models import ModelSignature
    from mlflow.pyfunc import PythonModel
    from mlflow.types import ColSpec, DataType, Schema

from accelperf.bundle import load_bundle
from accelperf.errors import InputError
from accelperf.features import FEATURE_COLUMNS, FEATURE_SCHEMA, FeatureMatrix

BUNDLE = "bundle"
"""Name of the bundle among the model's artifacts."""

_ANSWERED: tuple[str, ...] = ("latency_ms", "latency_std_ms", "repeats", "origin")
_NAMES: tuple[str, ...] = ("network", "layer", "position")
"""Columns that say where a row comes from; no prediction depends on them."""

TEXTS: tuple[str, ...] = ("accelerator", "unrolled_loop")
INPUTS: tuple[str, ...] = tuple(
    name for name in FEATURE_COLUMNS if name not in (*_ANSWERED, *_NAMES, "accelerator")
)
"""Columns that a request must have: the 15 parameters and what goes with them."""
OUTPUTS: tuple[str, ...] = ("latency_ms", "std_ms", "lower_ms", "upper_ms")
"""Median, standard deviation and 95 % bounds [ms]; the last three are left out without uncertainty."""

_UNKNOWN_ACCELERATOR = "unknown"


def signature() -> ModelSignature:
    """Return what the model takes and gives, for MLflow.

    ``accelerator`` is optional: the name of one that was measured, else one that never was.
    """
    inputs = [
        ColSpec(DataType.string if name in TEXTS else DataType.double, name, required=True) for name in INPUTS
    ]
    inputs.append(ColSpec(DataType.string, "accelerator", required=False))
    outputs = [ColSpec(DataType.double, name, required=name == OUTPUTS[0]) for name in OUTPUTS]
    return ModelSignature(Schema(inputs), Schema(outputs))


def to_request(features: FeatureMatrix) -> pd.DataFrame:
    """Return features as a request to the model, whole numbers as floating-point ones."""
    table = features.table[[*INPUTS, "accelerator"]]
    return table.astype({name: np.float64 for name in INPUTS if name not in TEXTS})


def to_features(request: pd.DataFrame) -> FeatureMatrix:
    """Return the features of a request.

    Parameters
    ----------
    request : DataFrame
        Columns `INPUTS` and optionally ``accelerator``, in any order; others are ignored.

    Raises
    ------
    InputError
        If a column is missing, or a value is none (NaN, text, a fraction where there must be a whole
        number) or out of its bounds; names the column and the row.
    """
    columns: dict[str, Any] = {}
    for name in INPUTS:
        if name not in request.columns:
            raise InputError(f"a column {name!r}", "none", file="request")
        whole = str(FEATURE_SCHEMA.columns[name].dtype) == "int64"
        columns[name] = _texts(request[name]) if name in TEXTS else _numbers(request[name], whole=whole)
    if "accelerator" in request.columns:
        columns["accelerator"] = request["accelerator"].fillna(_UNKNOWN_ACCELERATOR).astype(str).to_numpy()
    else:
        columns["accelerator"] = _UNKNOWN_ACCELERATOR
    rows = np.arange(len(request))
    table = pd.DataFrame(columns, index=rows).assign(
        network="request",
        layer=rows.astype(str),
        position=rows,
        origin="estimated",
        latency_ms=np.nan,
    )
    return FeatureMatrix(table, source="request")


def _numbers(values: pd.Series, *, whole: bool) -> np.ndarray[Any, Any]:
    numbers = pd.to_numeric(values, errors="coerce").to_numpy(dtype=np.float64)
    wrong = ~np.isfinite(numbers) | (whole & (np.rint(numbers) != numbers))
    if wrong.any():
        row = int(np.argmax(wrong))
        kind = "a whole number" if whole else "a number"
        raise InputError(
            f"column {values.name!r}: {kind}", f"{values.iloc[row]!r} in row {row}", file="request"
        )
    return numbers.astype(np.int64) if whole else numbers


def _texts(values: pd.Series) -> np.ndarray[Any, Any]:
    wrong = [not isinstance(value, str) for value in values]
    if any(wrong):
        row = wrong.index(True)
        raise InputError(
            f"column {values.name!r}: a text", f"{values.iloc[row]!r} in row {row}", file="request"
        )
    return values.to_numpy(dtype=str)


class LatencyModel(PythonModel):  # type: ignore[misc]
    """Predicts with the bundle among the model's artifacts."""

    def load_context(self, context: Any) -> None:
        """Load the bundle."""
        self._predictor = load_bundle(Path(context.artifacts[BUNDLE])).predictor

    def predict(self, context: Any, model_input: pd.DataFrame, params: Any = None) -> pd.DataFrame:
        """Return `OUTPUTS` for each row of a request (see `to_features`).

        Raises
        ------
        MlflowException
            For a request that is wrong; over HTTP that is status 400.
        """
        del context, params
        try:
            prediction = self._predictor.predict(to_features(model_input))
        except InputError as error:
            raise MlflowException.invalid_parameter_value(str(error)) from None
        values = (prediction.median_ms, prediction.std_ms, prediction.lower_ms, prediction.upper_ms)
        # JSON has no NaN: what is unknown is left out.
        given = {name: each for name, each in zip(OUTPUTS, values, strict=True) if each is not None}
        return pd.DataFrame(given)
