"""Which layers of a network an estimator can predict, and their features on a platform."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from accelperf.errors import InputError
from accelperf.features import FeatureMatrix, network_features
from accelperf.layers import CONVOLUTION
from accelperf.models.base import Predictor
from accelperf.models.calibrated_predictor import CalibratedPredictor
from accelperf.models.predictors import GaussianProcessPredictor, StandardPredictor
from accelperf.parameters import BY_NAME, LAYER_PARAMETERS
from accelperf.platforms import Platform

FULLY_CONNECTED: tuple[str, ...] = ("gemm", "matmul", "fc", "linear", "dense")
"""Operators that are a convolution with a kernel of 1 x 1, mostly of one pixel."""
AS_CONVOLUTION = "fully connected, as a convolution of 1 x 1"
_OTHER = "other"
_WITHOUT_GROUPS = ("zero", "paper")
"""Means of a Gaussian process that do not look at groups; the kernel never does."""


@dataclass(frozen=True)
class Unsupported:
    """A layer that cannot be predicted.

    Attributes
    ----------
    layer, operator : str
        Which.
    position : int
        Its place in the network, from 0.
    reason : str
        Why not.
    """

    layer: str
    operator: str
    position: int
    reason: str


@dataclass(frozen=True)
class Workload:
    """A network on a platform, as an estimator takes it.

    Attributes
    ----------
    features : FeatureMatrix
        Layers that can be predicted, in the order of the network.
    operators : tuple of str, one for each row
        Their operators.
    unsupported : tuple of Unsupported
        The others.
    """

    features: FeatureMatrix
    operators: tuple[str, ...]
    unsupported: tuple[Unsupported, ...]


def sees_groups(predictor: Predictor) -> bool:
    """Return whether a predictor can tell a convolution in groups from one without.

    The 15 parameters cannot; some latency equations can.
    """
    if isinstance(predictor, StandardPredictor):
        return predictor.variant not in _WITHOUT_GROUPS
    if isinstance(predictor, GaussianProcessPredictor):
        return predictor.roofline is not None or predictor.mean_name not in _WITHOUT_GROUPS
    return isinstance(predictor, CalibratedPredictor)


def make_workload(
    name: str, network: pd.DataFrame, platform: Platform, memory: pd.DataFrame | None, predictor: Predictor
) -> Workload:
    """Return the features of a network's layers, and the layers that have none.

    Fully connected layers become convolutions of 1 x 1. First and last layer are the first
    and last convolution, as in training, whether they can be predicted or not.

    Parameters
    ----------
    name : str
        Name of the network.
    network : DataFrame
        Its table (`accelperf.networks.NETWORK_COLUMNS`).
    platform : Platform
        Where it is to run.
    memory : DataFrame or None
        The memory table, where the platform's efficiency is looked up there.
    predictor : Predictor
        What is to predict.

    Raises
    ------
    InputError
        If no layer can be predicted.
    """
    fits = _fits(network, groups=sees_groups(predictor))
    operators = network["operator"].to_numpy(dtype=object)
    unsupported = tuple(
        Unsupported(row["layer"], row["operator"], int(place), _reason(row))
        for place, row in zip(np.flatnonzero(~fits), network[~fits].to_dict("records"), strict=True)
    )
    if not fits.any():
        got = f"{unsupported[0].layer}: {unsupported[0].reason}"
        more = f", and {len(unsupported) - 1} more" if len(unsupported) > 1 else ""
        raise InputError(f"a layer that can be predicted in network {name!r}", got + more)
    convolutions = operators == CONVOLUTION
    dense = np.isin(operators, FULLY_CONNECTED)
    parts = []
    if np.any(convolutions & fits):
        parts.append(_features(name, network, convolutions, fits, platform, memory))
    if np.any(dense & fits):
        features = _features(name, network, dense, fits, platform, memory)
        if np.any(convolutions):
            features = FeatureMatrix(features.table.assign(is_first=0, is_last=0), source=name)
        parts.append(features)
    features = parts[0]
    if len(parts) > 1:
        table = pd.concat([part.table for part in parts]).sort_values("position", kind="stable")
        features = FeatureMatrix(table, source=name)
    return Workload(features, tuple(str(operator) for operator in operators[fits]), unsupported)


def _features(
    name: str,
    network: pd.DataFrame,
    kind: NDArray[np.bool_],
    fits: NDArray[np.bool_],
    platform: Platform,
    memory: pd.DataFrame | None,
) -> FeatureMatrix:
    """Return the features of the layers of a kind that can be predicted.

    All of the kind take part in finding the first and the last, but for sizes without bounds.
    """
    usable = kind & (fits | ~_too_large(network))
    relabelled = network.assign(operator=np.where(usable, CONVOLUTION, _OTHER))
    return network_features(name, relabelled, platform, memory).take(fits[usable])


def _too_large(network: pd.DataFrame) -> NDArray[np.bool_]:
    wrong = [
        ~network[name].between(BY_NAME[name].lower, BY_NAME[name].upper).to_numpy()
        for name in LAYER_PARAMETERS
    ]
    return np.asarray(np.any(wrong, axis=0))


def _fits(network: pd.DataFrame, *, groups: bool) -> NDArray[np.bool_]:
    """Return which layers can be predicted, `groups` if those in groups can."""
    fits = network["operator"].isin((CONVOLUTION, *FULLY_CONNECTED))
    fits &= (network["dilation_height"] == 1) & (network["dilation_width"] == 1)
    if not groups:
        fits &= network["groups"] == 1
    return np.asarray(fits & ~_too_large(network), dtype=np.bool_)


def _reason(row: Mapping[Any, Any]) -> str:
    """Return why a layer that does not fit cannot be predicted."""
    operator = row["operator"]
    if operator != CONVOLUTION and operator not in FULLY_CONNECTED:
        return f"operator {operator}: neither a convolution nor fully connected"
    dilation = row["dilation_height"], row["dilation_width"]
    if dilation != (1, 1):
        return f"dilation {dilation[0]} x {dilation[1]}: estimators know of none"
    for name in LAYER_PARAMETERS:
        bounds = BY_NAME[name]
        if not bounds.lower <= row[name] <= bounds.upper:
            return f"{name} {row[name]}: not within {bounds.lower:g} to {bounds.upper:g}"
    return f"{row['groups']} groups: this estimator cannot tell them from none"
