"""An exploration: every design predicted, those that meet the constraints ranked by Pareto front."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from accelperf.bundle import TrainingData
from accelperf.errors import InputError, known
from accelperf.explore.designs import Designs
from accelperf.explore.fronts import front_numbers
from accelperf.explore.measurements import pick_measurements
from accelperf.explore.resources import TILE_PIXELS, buffer_bits, dsp_slices
from accelperf.explore.workload import Workload, features_on
from accelperf.layers import GEOMETRY_COLUMNS
from accelperf.models.base import Predictor
from accelperf.models.joint import PosteriorPrediction, joint_prediction
from accelperf.models.totals import Totals
from accelperf.parameters import PLATFORM_PARAMETERS
from accelperf.predict.model import Model
from accelperf.predict.training_range import COMPARED_COLUMNS

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Progress = Callable[[int, int], None]
Resource = Literal["dsp", "bram_bits"]
RESOURCES: tuple[str, ...] = get_args(Resource)
"""What a front can have beside latency; columns of the table."""

ROWS_AT_ONCE = 4096
"""Layers predicted together: their covariances with the training rows then take some ten megabytes."""
MOST_CANDIDATES = 30_000
"""Candidates of the next measurement; of more, those of the best-ranked designs."""
OF_DESIGN: tuple[str, ...] = (*PLATFORM_PARAMETERS, "memory_ports")
"""Parameters of a design whose training range is compared, beside its unrolled loop."""
RANGE_TOLERANCE = 1e-9
"""Relative: how far a value may be outside of the training range by rounding."""


@dataclass(frozen=True)
class Constraints:
    """What a design must keep.

    Attributes
    ----------
    max_dsp, max_bram_bits : int, optional
        Most DSP slices and buffer bits.
    max_latency_ms : float, optional
        Bound of the total latency [ms].
    min_probability : float
        Least probability of keeping that bound. One half means that the median keeps it, and is all
        that can be asked of an estimator without uncertainty.
    inside : bool
        Whether designs outside of the training data's range are left out.
    """

    max_dsp: int | None = None
    max_bram_bits: int | None = None
    max_latency_ms: float | None = None
    min_probability: float = 0.5
    inside: bool = False

    def __post_init__(self) -> None:
        for name in ("max_dsp", "max_bram_bits", "max_latency_ms"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise InputError(f"{name} above 0", f"{value:g}")
        if not 0 < self.min_probability < 1:
            raise InputError("min_probability between 0 and 1", f"{self.min_probability:g}")
        if self.min_probability != 0.5 and self.max_latency_ms is None:
            raise InputError("max_latency_ms with min_probability", "no bound")


@dataclass(frozen=True)
class Exploration:
    """What was found.

    Attributes
    ----------
    designs : Designs
        All valid designs.
    workload : Workload
        The layers.
    model : Model
        What predicted.
    constraints : Constraints
        What was asked.
    resource : {"dsp", "bram_bits"}
        The other quantity of the fronts.
    table : DataFrame
        One row a design that meets the constraints, best first: by front, then by latency. Columns
        ``rank``, ``front``, ``design``, the axes, ``latency_ms`` (median of the sum over all networks),
        ``std_ms, lower_ms, upper_ms`` (95 %) and ``probability`` (NaN where unknown), ``NETWORK_ms`` of
        each of several networks, ``dsp``, ``bram_bits`` and ``outside`` (parameters outside of the
        training data's range, empty for none).
    left_out : Mapping of str to int
        Valid designs that do not meet a constraint, by the first that they miss.
    outside_layers : tuple of str
        Parameters of layers that are outside of the training data's range, whatever the design.
    measurements : DataFrame, optional
        What to measure next, where it was asked: see `next_measurements`.
    """

    designs: Designs
    workload: Workload
    model: Model
    constraints: Constraints
    resource: str
    table: pd.DataFrame
    left_out: Mapping[str, int]
    outside_layers: tuple[str, ...]
    measurements: pd.DataFrame | None = None

    @property
    def has_uncertainty(self) -> bool:
        """Whether the estimator says how sure it is."""
        return bool(self.table["std_ms"].notna().any())


def explore(
    designs: Designs,
    workload: Workload,
    model: Model,
    constraints: Constraints | None = None,
    *,
    resource: str = "dsp",
    dsp_use: str = "one",
    tile_pixels: int = TILE_PIXELS,
    next_count: int = 0,
    progress: Progress | None = None,
) -> Exploration:
    """Predict every design, leave out those that miss a constraint, and rank the others.

    Parameters
    ----------
    designs : Designs
        The design space.
    workload : Workload
        The networks; a design's latency is that of one inference of each, one after another.
    model : Model
        What predicts.
    constraints : Constraints, optional
        None by default.
    resource : {"dsp", "bram_bits"}
        What the fronts weigh latency against.
    dsp_use : {"one", "int8-pair", "int8-dot3"}
        See `accelperf.explore.resources.dsp_slices`.
    tile_pixels : int
        See `accelperf.explore.resources.buffer_bits`.
    next_count : int
        How many measurements to propose.
    progress : callable, optional
        Called with the numbers of finished and of all designs.

    Returns
    -------
    Exploration
        At least one design.

    Raises
    ------
    InputError
        If no design meets the constraints, or more is asked of an estimator than it knows.
    """
    constraints = constraints or Constraints()
    if resource not in RESOURCES:
        raise InputError(f"a resource, one of {known(RESOURCES)}", repr(resource))
    dsp = dsp_slices(designs, dsp_use)
    bram = buffer_bits(designs, workload.layers, tile_pixels)
    totals, by_network = _predict(designs, workload, model.predictor, progress)
    if totals.sigma is None and constraints.min_probability != 0.5:
        raise InputError("an estimator with uncertainty for min_probability", model.estimator)
    training = learned_from(model)
    outside = _outside(designs, training)
    probability = None
    meant = totals.median_ms > 0
    if constraints.max_latency_ms is not None:
        safe = _take_totals(totals, np.where(meant, totals.median_ms, np.nan))
        probability = safe.probability(constraints.max_latency_ms)
    missed = _missed(constraints, totals.median_ms, probability, dsp, bram, outside)
    kept = np.flatnonzero(missed == "")
    reasons, numbers = np.unique(missed[missed != ""], return_counts=True)
    left_out = {str(reason): int(number) for reason, number in zip(reasons, numbers, strict=True)}
    if not len(kept):
        why = ", ".join(f"{number} {reason}" for reason, number in left_out.items())
        raise InputError("a design that meets the constraints", f"none of {len(designs)}: {why}")
    chosen = _take_totals(totals, totals.median_ms, kept)
    prediction = chosen.prediction()
    unknown = np.full(len(kept), np.nan)
    columns: dict[str, Any] = {"design": [designs.platforms[place].name for place in kept]}
    for number, axis in enumerate(designs.axes):
        columns[axis.name] = [designs.settings[place][number] for place in kept]
    columns |= {
        "latency_ms": prediction.median_ms,
        "std_ms": unknown if prediction.std_ms is None else prediction.std_ms,
        "lower_ms": unknown if prediction.lower_ms is None else prediction.lower_ms,
        "upper_ms": unknown if prediction.upper_ms is None else prediction.upper_ms,
        "probability": unknown if probability is None else probability[kept],
    }
    if len(workload.networks) > 1:
        for number, name in enumerate(workload.networks):
            columns[f"{name}_ms"] = by_network[kept, number]
    columns |= {"dsp": dsp[kept], "bram_bits": bram[kept], "outside": [outside[place] for place in kept]}
    table = pd.DataFrame(columns)
    front = front_numbers(prediction.median_ms, table[resource].to_numpy(dtype=np.float64))
    table.insert(0, "front", front)
    # Of designs that are equal in both, the one that needs less of the other resource comes first.
    other = "bram_bits" if resource == "dsp" else "dsp"
    order = np.lexsort((table[other], table[resource], table["latency_ms"], front))
    table = table.iloc[order].reset_index(drop=True)
    table.insert(0, "rank", np.arange(1, len(table) + 1))
    measurements = None
    if next_count:
        measurements = next_measurements(designs, workload, model, kept[order], next_count)
    return Exploration(
        designs,
        workload,
        model,
        constraints,
        resource,
        table,
        left_out,
        _outside_layers(workload, training),
        measurements,
    )


def _predict(
    designs: Designs, workload: Workload, predictor: Predictor, progress: Progress | None
) -> tuple[Totals, Floats]:
    """Return the totals over all networks, and each network's median [designs, networks] [ms]."""
    every = workload.counts.sum(axis=0)
    medians, sigmas, networks = [], [], []
    logarithmic = False
    step = max(1, ROWS_AT_ONCE // len(workload))
    for start in range(0, len(designs), step):
        index = np.arange(start, min(start + step, len(designs)))
        joint = joint_prediction(predictor, features_on(workload, designs, index))
        totals = joint.totals(every)
        medians.append(totals.median_ms)
        if totals.sigma is not None:
            sigmas.append(totals.sigma)
        logarithmic = totals.logarithmic
        networks.append(joint.median_ms.reshape(len(index), -1) @ workload.counts.T)
        if progress is not None:
            progress(int(index[-1]) + 1, len(designs))
    sigma = np.concatenate(sigmas) if sigmas else None
    return Totals(np.concatenate(medians), sigma, logarithmic), np.concatenate(networks)


def _take_totals(totals: Totals, median_ms: Floats, index: Integers | slice = slice(None)) -> Totals:
    sigma = None if totals.sigma is None else totals.sigma[index]
    return Totals(median_ms[index], sigma, totals.logarithmic)


def _missed(
    constraints: Constraints,
    median_ms: Floats,
    probability: Floats | None,
    dsp: Integers,
    bram: Integers,
    outside: list[str],
) -> NDArray[np.str_]:
    """Return the first constraint that each design misses, empty for none."""
    bound, least = constraints.max_latency_ms, constraints.min_probability
    conditions = [(~(median_ms > 0), "with a predicted latency not above 0 ms")]
    if constraints.max_dsp is not None:
        conditions.append((dsp > constraints.max_dsp, f"above {constraints.max_dsp} DSP slices"))
    if constraints.max_bram_bits is not None:
        text = f"above {constraints.max_bram_bits} bits of buffers"
        conditions.append((bram > constraints.max_bram_bits, text))
    if bound is not None:
        if probability is None or least == 0.5:
            conditions.append((median_ms > bound, f"slower than {bound:g} ms"))
        else:
            text = f"keep {bound:g} ms with a probability below {least:g}"
            conditions.append((probability < least, text))
    if constraints.inside:
        beyond = np.array([bool(names) for names in outside])
        conditions.append((beyond, "outside of the training data's range"))
    missed = np.full(len(median_ms), "", dtype=object)
    for condition, text in conditions:
        missed[condition & (missed == "")] = text
    return np.asarray(missed, dtype=np.str_)


def _beyond(low: Floats, high: Floats, bounds: tuple[float, float]) -> NDArray[np.bool_]:
    return np.asarray(
        (low < bounds[0] - RANGE_TOLERANCE * abs(bounds[0]))
        | (high > bounds[1] + RANGE_TOLERANCE * abs(bounds[1]))
    )


def learned_from(model: Model) -> TrainingData | None:
    """Return what an estimator learned from; None for the analytic model, which learns nothing."""
    return None if model.predictor.kind == "standard" else model.training


def _outside(designs: Designs, training: TrainingData | None) -> list[str]:
    """Return for each design its parameters outside of the training range, separated by spaces."""
    names: list[list[str]] = [[] for _ in range(len(designs))]
    if training is None:
        return [""] * len(designs)
    for name in OF_DESIGN:
        if name not in training.ranges:
            continue
        if name == "memory_efficiency":
            low, high = designs.efficiency.min(axis=1), designs.efficiency.max(axis=1)
        else:
            column = "ports" if name == "memory_ports" else name
            low = high = designs.column(column).astype(np.float64)
        for place in np.flatnonzero(_beyond(low, high, training.ranges[name])):
            names[place].append(name)
    if training.unrolled_loops:
        for place in np.flatnonzero(~np.isin(designs.column("unrolled_loop"), training.unrolled_loops)):
            names[place].append("unrolled_loop")
    return [" ".join(found) for found in names]


def _outside_layers(workload: Workload, training: TrainingData | None) -> tuple[str, ...]:
    """Return the parameters of layers that are outside of the training range for any layer."""
    found = []
    for name in COMPARED_COLUMNS:
        if training is None or name in OF_DESIGN or name not in training.ranges:
            continue
        values = workload.layers[name].to_numpy(dtype=np.float64)
        if _beyond(values, values, training.ranges[name]).any():
            found.append(name)
    return tuple(found)


def next_measurements(
    designs: Designs, workload: Workload, model: Model, ranked: Integers, count: int
) -> pd.DataFrame:
    """Return the layers on designs whose measurement would teach the estimator most.

    Parameters
    ----------
    designs : Designs
        The designs.
    workload : Workload
        The layers.
    model : Model
        A Gaussian process, of any kind.
    ranked : array of int
        Designs to choose from, best first; the layers of the first ones are candidates, up to
        `MOST_CANDIDATES`.
    count : int
        How many.

    Returns
    -------
    DataFrame
        In the order of `accelperf.explore.measurements.pick_measurements`: ``pick``, ``accelerator``
        (the design), ``network`` and ``layer`` (where the layer appears first), ``times`` (how often
        all networks together have it), ``predicted_ms``, ``std_ms`` (what a measurement could take
        away) and ``std_left_ms`` (the same once earlier picks are measured), then the columns of a
        network table and the fields of the platform.

    Raises
    ------
    InputError
        If the estimator has no posterior covariance.
    """
    layers = len(workload)
    index = ranked[: max(1, MOST_CANDIDATES // layers)]
    posterior = joint_prediction(model.predictor, features_on(workload, designs, index))
    if not isinstance(posterior, PosteriorPrediction):
        raise InputError("a Gaussian process, to say what to measure next", model.estimator)
    times = workload.counts.sum(axis=0)
    rows = []
    for number, pick in enumerate(pick_measurements(posterior, count), start=1):
        layer = workload.layers.iloc[pick.row % layers]
        place = index[pick.row // layers]
        platform = designs.platforms[place]
        median = float(posterior.median_ms[pick.row])
        unit = median if posterior.logarithmic else 1.0
        width = int(np.searchsorted(designs.widths, layer["input_width"]))
        rows.append(
            {
                "pick": number,
                "accelerator": platform.name,
                "network": layer["network"],
                "layer": layer["layer"],
                "times": int(times[pick.row % layers]),
                "predicted_ms": median,
                "std_ms": unit * np.sqrt(pick.variance),
                "std_left_ms": unit * np.sqrt(pick.left),
                "operator": layer["operator"],
                **{name: int(layer[name]) for name in GEOMETRY_COLUMNS},
                "filter_parallelism": platform.filter_parallelism,
                "channel_parallelism": platform.channel_parallelism,
                "unrolled_loop": platform.unrolled_loop,
                "logic_clock_mhz": float(platform.logic_clock_mhz),
                "memory_clock_mhz": float(platform.memory_clock_mhz),
                "memory_efficiency": float(designs.efficiency[place, width]),
                "transfer_width_bits": platform.transfer_width_bits,
                "data_width_bits": platform.data_width_bits,
                "memory_ports": platform.ports,
            }
        )
    return pd.DataFrame(rows)
