"""What training left of an estimator, read back and checked."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from accelperf.errors import InputError
from accelperf.evaluation.cross_validation import PREDICTION_COLUMNS
from accelperf.models.calibrated_rates import RATE_COLUMNS
from accelperf.trials import LAYERS, PREDICTIONS, RATES, read_predictions
from accelperf.yaml_input import read_mapping


@dataclass(frozen=True)
class Calibration:
    """What a calibrated estimator read from the data (`accelperf.models.calibrated_rates`).

    Attributes
    ----------
    rates : DataFrame
        Rates and overheads.
    binding : Series of str, shape [rows]
        What binds each row of the features.
    """

    rates: pd.DataFrame
    binding: pd.Series


@dataclass(frozen=True)
class Result:
    """What training left of one estimator.

    Attributes
    ----------
    estimator : str
        Its key.
    settings : dict
        Hyperparameters of the best configuration.
    run_id : str
        MLflow run of that configuration.
    metrics : dict
        ``metrics.json`` by scheme.
    predictions : dict
        ``predictions.csv`` by scheme.
    calibration : Calibration, optional
        What a calibrated estimator read from the data.
    """

    estimator: str
    settings: dict[str, Any]
    run_id: str
    metrics: dict[str, dict[str, Any]]
    predictions: dict[str, pd.DataFrame]
    calibration: Calibration | None = None

    @property
    def configuration(self) -> str:
        """The hyperparameters in one line."""
        return "; ".join(f"{name}={_plain(value)}" for name, value in sorted(self.settings.items()))


def _plain(value: Any) -> str:
    return "[" + " ".join(map(str, value)) + "]" if isinstance(value, list) else str(value)


def _read_json(path: Path, key: str, kind: type) -> dict[str, Any]:
    """Read a JSON object that must hold a value of some kind under a key."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError("a result of the train stage", "no file of this name", file=path) from None
    except (OSError, ValueError) as error:
        raise InputError("readable JSON", str(error), file=path) from None
    value = content.get(key) if isinstance(content, dict) else None
    if not isinstance(value, kind) or (isinstance(value, float) and not math.isfinite(value)):
        raise InputError(f"a JSON object with {key!r} ({kind.__name__})", repr(value), file=path)
    return dict(content)


def _read_predictions(folder: Path, rows: int) -> pd.DataFrame:
    path = folder / PREDICTIONS
    try:
        table = read_predictions(folder)
    except FileNotFoundError:
        raise InputError("a result of the train stage", "no file of this name", file=path) from None
    except (OSError, ValueError) as error:
        raise InputError("a table of predictions", str(error).splitlines()[0], file=path) from None
    missing = [name for name in PREDICTION_COLUMNS if name not in table.columns]
    if missing:
        raise InputError(f"a column {missing[0]!r}", "none", file=path, line=1)
    if len(table) != rows:
        raise InputError(
            f"a prediction for each of the {rows} rows of the features", str(len(table)), file=path
        )
    for name in ("latency_ms", "predicted_ms"):
        numbers = pd.to_numeric(table[name], errors="coerce")
        wrong = ~np.isfinite(numbers)
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            raise InputError(f"{name} as a number", repr(table[name].iloc[row]), file=path, line=row + 2)
    return table


def read_result(folder: Path, schemes: Iterable[str], rows: int) -> Result:
    """Read what training left of one estimator.

    Parameters
    ----------
    folder : Path
        ``results/KEY``.
    schemes : iterable of str
        The schemes to read.
    rows : int
        Rows of the features that all predictions must cover.

    Raises
    ------
    InputError
        If a file is missing, damaged, or not about these features.
    """
    best, _ = read_mapping(folder / "best.yaml")
    if not isinstance(best.get("settings"), dict):
        raise InputError(
            "the key 'settings', a mapping", repr(best.get("settings")), file=folder / "best.yaml"
        )
    run = _read_json(folder / "mlflow.json", "run_id", str)
    metrics, predictions = {}, {}
    for scheme in schemes:
        metrics[scheme] = _read_json(folder / scheme / "metrics.json", "mae_ms", float)
        predictions[scheme] = _read_predictions(folder / scheme, rows)
    result = Result(folder.name, dict(best["settings"]), run["run_id"], metrics, predictions)
    if not (folder / RATES).is_file():
        return result
    layers = _read_columns(folder / LAYERS, ("accelerator", "network", "layer", "binding"))
    if len(layers) != rows:
        raise InputError(
            f"a row for each of the {rows} rows of the features", str(len(layers)), file=folder / LAYERS
        )
    calibration = Calibration(_read_columns(folder / RATES, RATE_COLUMNS), layers["binding"])
    return replace(result, calibration=calibration)


def _read_columns(path: Path, columns: Sequence[str]) -> pd.DataFrame:
    """Read a CSV table that must have some columns."""
    try:
        table = pd.read_csv(path, keep_default_na=False, na_values=[""], float_precision="round_trip")
    except FileNotFoundError:
        raise InputError("a result of the train stage", "no file of this name", file=path) from None
    except (OSError, ValueError) as error:
        raise InputError("a CSV table", str(error).splitlines()[0], file=path) from None
    missing = [name for name in columns if name not in table.columns]
    if missing:
        raise InputError(f"a column {missing[0]!r}", "none", file=path, line=1)
    return table
