"""The estimators by key, and how a key and its hyperparameters become one.

TensorFlow and the other libraries are imported when an estimator that needs them is created.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from accelperf.errors import InputError, known
from accelperf.models.base import Estimator, Predictor
from accelperf.yaml_input import StrictModel, first_problem

_BASELINES = "accelperf.models.baselines"
_TREES = "accelperf.models.trees"
_GAUSSIAN_PROCESS = (
    "accelperf.models.gp_settings:GaussianProcessSettings",
    "accelperf.models.gp:GaussianProcess",
)
_CLASSES: dict[str, tuple[str, str]] = {
    "standard": (f"{_BASELINES}:StandardSettings", f"{_BASELINES}:Standard"),
    "linear": (f"{_BASELINES}:LinearSettings", f"{_BASELINES}:Linear"),
    "gtb": (f"{_TREES}:GtbSettings", f"{_TREES}:Gtb"),
    "adaboost": (f"{_TREES}:AdaboostSettings", f"{_TREES}:Adaboost"),
    "xgboost": (f"{_BASELINES}:XgboostSettings", f"{_BASELINES}:Xgboost"),
    "ann": ("accelperf.models.ann_settings:AnnSettings", "accelperf.models.ann:Ann"),
    "gp_zero": _GAUSSIAN_PROCESS,
    "gp_analytic": _GAUSSIAN_PROCESS,
    "gp_ann_mean": (
        "accelperf.models.gp_ann_mean_settings:GpAnnMeanSettings",
        "accelperf.models.gp_ann_mean:GpAnnMean",
    ),
    "gp_calibrated": (
        "accelperf.models.gp_calibrated_settings:GpCalibratedSettings",
        "accelperf.models.gp_calibrated:GpCalibrated",
    ),
}
"""For each key, where its hyperparameters and its estimator are defined."""
_PREDICTORS: dict[str, str] = {
    "standard": "accelperf.models.predictors:StandardPredictor",
    "linear": "accelperf.models.predictors:LinearPredictor",
    "tree_ensemble": "accelperf.models.tree_predictor:TreeEnsemblePredictor",
    "xgboost": "accelperf.models.xgboost_predictor:XgboostPredictor",
    "network": "accelperf.models.network_predictor:NetworkPredictor",
    "network_mean": "accelperf.models.network_predictor:NetworkMeanPredictor",
    "gaussian_process": "accelperf.models.predictors:GaussianProcessPredictor",
    "calibrated_roofline": "accelperf.models.calibrated_predictor:CalibratedPredictor",
}

ESTIMATORS: tuple[str, ...] = tuple(_CLASSES)
"""Keys of the estimators, the paper's baseline first."""


def _load(where: str) -> Any:
    module, name = where.split(":")
    return getattr(import_module(module), name)


def check_settings(
    key: str,
    settings: Mapping[str, Any],
    *,
    file: Path | None = None,
    lines: Mapping[tuple[str, ...], int] | None = None,
) -> StrictModel:
    """Return an estimator's hyperparameters checked, without importing what trains it.

    Parameters
    ----------
    key : str
        One of `ESTIMATORS`.
    settings : Mapping
        Hyperparameters by name; those left out take their defaults.
    file, lines : optional
        Where they come from and the line of each, as from `accelperf.yaml_input.read_mapping`.

    Raises
    ------
    InputError
        For an unknown estimator or hyperparameter (the known ones are listed) or a value out of
        bounds.
    """
    if key not in _CLASSES:
        raise InputError(f"an estimator, one of {known(ESTIMATORS)}", repr(key))
    model: type[StrictModel] = _load(_CLASSES[key][0])
    try:
        return model.model_validate(dict(settings))
    except ValidationError as error:
        problem = first_problem(error)
        name = ".".join(problem.path)
        expected, got = f"{key}: {name}: {problem.message}", problem.got
        if problem.kind == "unknown":
            expected, got = f"a hyperparameter of {key}, one of {known(model.model_fields)}", repr(name)
        elif problem.kind == "missing":
            expected, got = f"the hyperparameter {name!r} of {key}", "none"
        line = None if lines is None else lines.get(problem.path[:1])
        raise InputError(expected, got, file=file, line=line) from None


def create(key: str, settings: Mapping[str, Any]) -> Estimator:
    """Return an estimator with its hyperparameters checked (see `check_settings`)."""
    validated = check_settings(key, settings)
    cls: type[Estimator] = _load(_CLASSES[key][1])
    return cls(validated)


def predictor_class(kind: str) -> type[Predictor]:
    """Return the class of a stored predictor by its kind.

    Raises
    ------
    InputError
        For an unknown kind.
    """
    if kind not in _PREDICTORS:
        raise InputError(f"a kind of predictor, one of {known(_PREDICTORS)}", repr(kind))
    cls: type[Predictor] = _load(_PREDICTORS[kind])
    return cls
