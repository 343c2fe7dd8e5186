"""A network predicted on a platform: its layers, and their total."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from accelperf.errors import InputError, known
from accelperf.platforms import Platform
from accelperf.predict.binding import binding_terms
from accelperf.predict.model import Model
from accelperf.predict.rows import DistinctRows, predict_distinct
from accelperf.predict.totals import SCHEDULES, Schedule, Total, total_of
from accelperf.predict.training_range import Outside, outside_training
from accelperf.predict.workload import AS_CONVOLUTION, FULLY_CONNECTED, Unsupported, make_workload

LAYER_COLUMNS: tuple[str, ...] = (
    "layer",
    "position",
    "operator",
    "latency_ms",
    "std_ms",
    "lower_ms",
    "upper_ms",
    "share",
    "binding",
    "note",
)
NOT_POSITIVE = "not above 0 ms: the estimator fails here"


@dataclass(frozen=True)
class NetworkPrediction:
    """What an estimator says of a network on a platform.

    Attributes
    ----------
    network : str
        Name of the network.
    platform : str
        Name of the platform.
    model : Model
        The estimator.
    layers : DataFrame
        One row a layer that can be predicted, `LAYER_COLUMNS`: median, standard deviation and 95 %
        interval [ms] (NaN where the estimator gives none), ``share`` of the network's total (a
        fraction; above a pipeline's slowest layer it is how busy a layer is), the term that binds.
    outside : tuple
        For each of them, what lies outside of the training range.
    unsupported : tuple of Unsupported
        The layers that cannot be predicted.
    total : Total
        Of those that can.
    binding_source : str
        Which model says what binds.
    """

    network: str
    platform: str
    model: Model
    layers: pd.DataFrame
    outside: tuple[tuple[Outside, ...], ...]
    unsupported: tuple[Unsupported, ...]
    total: Total
    binding_source: str

    @property
    def partial(self) -> bool:
        """Whether the total lacks layers."""
        return bool(self.unsupported)

    @property
    def has_interval(self) -> bool:
        """Whether there are intervals."""
        return self.total.lower_ms is not None


def predict_network(
    name: str,
    network: pd.DataFrame,
    platform: Platform,
    model: Model,
    *,
    memory: pd.DataFrame | None = None,
    schedule: Schedule = "sequential",
    batch: int = 1,
) -> NetworkPrediction:
    """Predict a network on a platform.

    Parameters
    ----------
    name : str
        Name of the network.
    network : DataFrame
        Its table (`accelperf.networks.NETWORK_COLUMNS`), layers in the order in which they run.
    platform : Platform
        Where it is to run.
    model : Model
        The estimator.
    memory : DataFrame, optional
        The memory table, where the platform's efficiency is looked up there.
    schedule : {"sequential", "pipeline"}
        Whether layers run one after another, or all at once on images of their own.
    batch : int
        Images, one after another; the equations know no weights shared between them.

    Raises
    ------
    InputError
        If no layer can be predicted, or the schedule or the batch is none.
    """
    if schedule not in SCHEDULES:
        raise InputError(f"a schedule, one of {known(SCHEDULES)}", repr(schedule))
    if batch < 1:
        raise InputError("a batch of 1 or more", str(batch))
    predictor = model.predictor
    workload = make_workload(name, network, platform, memory, predictor)
    rows = DistinctRows.of(workload.features)
    distinct = predict_distinct(predictor, rows.features)
    prediction = rows.repeat(distinct)
    binding, source = binding_terms(predictor, rows.features)
    median = prediction.median_ms
    outside: tuple[tuple[Outside, ...], ...] = ((),) * len(median)
    if model.training is not None and predictor.kind != "standard":
        found = outside_training(rows.features, distinct.median_ms, model.training)
        outside = tuple(found[place] for place in rows.place)
    whole = float(median.max()) if schedule == "pipeline" else float(median.sum())
    unknown = np.full(len(median), np.nan)
    notes = [
        "; ".join(
            text
            for text, applies in (
                (AS_CONVOLUTION, operator in FULLY_CONNECTED),
                (NOT_POSITIVE, latency <= 0),
            )
            if applies
        )
        for operator, latency in zip(workload.operators, median, strict=True)
    ]
    layers = pd.DataFrame(
        {
            "layer": workload.features.table["layer"].to_numpy(dtype=object),
            "position": workload.features.table["position"].to_numpy(),
            "operator": np.array(workload.operators, dtype=object),
            "latency_ms": median,
            "std_ms": unknown if prediction.std_ms is None else prediction.std_ms,
            "lower_ms": unknown if prediction.lower_ms is None else prediction.lower_ms,
            "upper_ms": unknown if prediction.upper_ms is None else prediction.upper_ms,
            "share": median / whole if whole > 0 else unknown,
            "binding": binding[rows.place].astype(object),
            "note": np.array(notes, dtype=object),
        }
    )
    return NetworkPrediction(
        network=name,
        platform=platform.name,
        model=model,
        layers=layers[list(LAYER_COLUMNS)],
        outside=outside,
        unsupported=workload.unsupported,
        total=total_of(predictor, rows, distinct, schedule, batch),
        binding_source=source,
    )
