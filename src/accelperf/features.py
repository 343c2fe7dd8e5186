"""The feature matrix: layers, platforms and memory efficiency side by side, one row a layer.

It is checked once, when a `FeatureMatrix` is made, and trusted after. The fifteen parameters of
`accelperf.parameters` are what estimators learn from; the other columns say which layer a row is,
complete its geometry, and carry what the analytic model needs beside them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import InitVar, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pandera.pandas as pa
from numpy.typing import NDArray

from accelperf.analytic import LATENCY_INPUTS
from accelperf.errors import InputError, known
from accelperf.layers import (
    CONVOLUTION,
    GEOMETRY_SCHEMA,
    ORIGINS,
    read_table,
    shape_key,
    validate_table,
    write_table,
)
from accelperf.memory.profiles import layer_efficiency, platform_efficiency
from accelperf.parameters import BY_NAME, LAYER_PARAMETERS, PARAMETER_NAMES, PARAMETERS, Parameter
from accelperf.platforms import MemoryPattern, Platform, get_platform

_IDENTITY = ("accelerator", "network", "layer", "position", "is_first", "is_last")
_BESIDES = ("stride_height", "stride_width", "pad_top", "pad_bottom", "pad_left", "pad_right", "groups")

FEATURE_COLUMNS: tuple[str, ...] = (
    *_IDENTITY,
    *PARAMETER_NAMES,
    *_BESIDES,
    "memory_ports",
    "unrolled_loop",
    "origin",
    "latency_ms",
    "latency_std_ms",
    "repeats",
)
"""Columns of ``data/processed/features.csv``, in order."""


def _parameter_column(parameter: Parameter) -> pa.Column:
    bounds = pa.Check.in_range(parameter.lower, parameter.upper)
    return pa.Column(int if parameter.integer else float, bounds)


_flag = pa.Column(int, pa.Check.isin((0, 1)))
_latency_checks = [pa.Check.gt(0), pa.Check(np.isfinite, name="finite", error="finite")]

FEATURE_SCHEMA = pa.DataFrameSchema(
    {
        "accelerator": pa.Column(str),
        "network": pa.Column(str),
        "layer": pa.Column(str),
        "position": pa.Column(int, pa.Check.ge(0)),
        "is_first": _flag,
        "is_last": _flag,
        **{parameter.name: _parameter_column(parameter) for parameter in PARAMETERS},
        **{name: GEOMETRY_SCHEMA[name] for name in _BESIDES},
        "memory_ports": pa.Column(int, pa.Check.ge(1)),
        "unrolled_loop": pa.Column(str, pa.Check.isin(("channels", "pixels"))),
        "origin": pa.Column(str, pa.Check.isin(ORIGINS)),
        "latency_ms": pa.Column(float, _latency_checks),
        "latency_std_ms": pa.Column(float, pa.Check.ge(0), nullable=True),
        "repeats": pa.Column(int, pa.Check.ge(1)),
    },
    strict=True,
    ordered=True,
    unique=["accelerator", "network", "layer"],
)
"""Schema of ``data/processed/features.csv``."""

_WITHOUT_RUNS: dict[str, float | int] = {"latency_std_ms": np.nan, "repeats": 1}
"""What stands for columns that tables made by hand may lack: one run, of unknown spread."""

_SCHEMA_WITHOUT_LATENCY = FEATURE_SCHEMA.update_column("latency_ms", nullable=True)


@dataclass(frozen=True)
class FeatureMatrix:
    """Layers on accelerators, as estimators take them.

    Parameters
    ----------
    table : DataFrame
        A table that fits `FEATURE_SCHEMA`; columns in any order. ``latency_ms`` is either given in
        all rows, or NaN in all of them: then the matrix is one to predict for. ``latency_std_ms``
        and ``repeats`` may be left out, which means one run of unknown spread. It is copied.
    source : str or Path
        Where the table comes from, for messages; not kept.

    Raises
    ------
    InputError
        If a column is missing, unknown or of the wrong kind, or a value is out of bounds.
    """

    table: pd.DataFrame
    source: InitVar[str | Path] = "features"

    def __post_init__(self, source: str | Path) -> None:
        given = self.table
        lacking = {name: value for name, value in _WITHOUT_RUNS.items() if name not in given.columns}
        given = given.assign(**lacking) if lacking else given
        _check_names(given, source)
        table = given[list(FEATURE_COLUMNS)].reset_index(drop=True)
        if table.empty:
            raise InputError("at least one row", "none", file=source)
        unknown = bool(table["latency_ms"].isna().all())
        schema = _SCHEMA_WITHOUT_LATENCY if unknown else FEATURE_SCHEMA
        object.__setattr__(self, "table", validate_table(schema, table, source=source))

    def __len__(self) -> int:
        return len(self.table)

    @property
    def parameters(self) -> NDArray[np.float64]:
        """The 15 parameters, `PARAMETER_NAMES`, shape [rows, 15]."""
        return self.table[list(PARAMETER_NAMES)].to_numpy(dtype=np.float64)

    @property
    def has_latency(self) -> bool:
        """Whether the latencies are known, as they must be to train."""
        return not bool(self.table["latency_ms"].isna().any())

    @property
    def latency_ms(self) -> NDArray[np.float64]:
        """Latencies [ms], shape [rows].

        Raises
        ------
        InputError
            If they are not known.
        """
        if not self.has_latency:
            raise InputError("features with latencies", "features to predict for")
        return self.table["latency_ms"].to_numpy(dtype=np.float64)

    @property
    def latency_std_ms(self) -> NDArray[np.float64]:
        """Standard deviation of a layer's runs [ms], NaN where it is unknown, shape [rows]."""
        return self.table["latency_std_ms"].to_numpy(dtype=np.float64)

    @property
    def repeats(self) -> NDArray[np.int64]:
        """Number of runs behind each latency, 1 or more, shape [rows]."""
        return self.table["repeats"].to_numpy(dtype=np.int64)

    @property
    def shapes(self) -> NDArray[np.str_]:
        """Name of each row's shape (`accelperf.layers.shape_key`), shape [rows]."""
        return np.asarray(shape_key(self.table), dtype=np.str_)

    def latency_inputs(self) -> dict[str, NDArray[np.float64]]:
        """Return the arrays of `accelperf.analytic.LATENCY_INPUTS` by name, each of shape [rows]."""
        unrolls_pixels = (self.table["unrolled_loop"] == "pixels").to_numpy(dtype=np.float64)
        return {
            name: unrolls_pixels if name == "unrolls_pixels" else self.table[name].to_numpy(dtype=np.float64)
            for name in LATENCY_INPUTS
        }

    def take(self, index: NDArray[np.int64] | NDArray[np.bool_]) -> FeatureMatrix:
        """Return some of the rows.

        Parameters
        ----------
        index : array of int or bool
            Which rows: positions, or a mask of shape [rows].
        """
        rows = np.flatnonzero(index) if np.asarray(index).dtype == bool else np.asarray(index, dtype=np.int64)
        # Checked already; a fold of a cross-validation need not be checked again.
        matrix = object.__new__(FeatureMatrix)
        object.__setattr__(matrix, "table", self.table.iloc[rows].reset_index(drop=True))
        return matrix


def build_features(
    layers: pd.DataFrame,
    platforms: Mapping[str, Platform],
    memory: pd.DataFrame | None,
    *,
    origins: Sequence[str],
    accelerators: Sequence[str] | None = None,
) -> FeatureMatrix:
    """Join layers with the platforms that ran them.

    Parameters
    ----------
    layers : DataFrame
        The tidy layer table.
    platforms : Mapping of str to Platform
        Known platforms by name.
    memory : DataFrame or None
        The memory table, for platforms whose memory efficiency is looked up there.
    origins : sequence of str
        Origins of the rows to take; see `left_out` for the others.
    accelerators : sequence of str, optional
        Accelerators to take; all by default.

    Returns
    -------
    FeatureMatrix
        One row a layer, by accelerator, network and position. ``is_first`` and ``is_last`` mark
        the first and last convolution of the whole network on that accelerator.

    Raises
    ------
    InputError
        If a name is unknown, nothing is left, or a parameter is out of its bounds.
    """
    reasons = _reasons(layers, origins, accelerators)
    ordered = layers.assign(_reason=reasons).sort_values(
        ["accelerator", "network", "position"], kind="stable", ignore_index=True
    )
    # Marked before anything is left out: the network's own ends, not those of what remains.
    position = ordered.groupby(["accelerator", "network"], sort=False)["position"]
    ordered["is_first"] = (ordered["position"] == position.transform("min")).astype(int)
    ordered["is_last"] = (ordered["position"] == position.transform("max")).astype(int)
    kept = ordered[ordered["_reason"] == ""].reset_index(drop=True)
    if kept.empty:
        raise InputError(
            f"layers of origin {', '.join(origins) or '(none named)'}"
            + ("" if accelerators is None else f" on {', '.join(accelerators)}"),
            f"none among {len(layers)}",
        )
    _check_sizes(kept)
    parts = []
    for name, rows in kept.groupby("accelerator", sort=False):
        where = {"file": rows["source_file"].iloc[0], "line": int(rows["source_line"].iloc[0])}
        platform = get_platform(dict(platforms), str(name), **where)
        parts.append(rows.assign(**_platform_columns(platform, memory, rows)))
    return FeatureMatrix(pd.concat(parts, ignore_index=True)[list(FEATURE_COLUMNS)])


def network_features(
    name: str, network: pd.DataFrame, platform: Platform, memory: pd.DataFrame | None = None
) -> FeatureMatrix:
    """Return the features of a network on a platform, to predict for: without latencies.

    Parameters
    ----------
    name : str
        Name of the network.
    network : DataFrame
        Its table (`accelperf.networks.read_network`); rows that are no convolutions are left out,
        as in the layer table.
    platform : Platform
        Where it is to run.
    memory : DataFrame, optional
        The memory table, where the platform's efficiency is looked up there.

    Returns
    -------
    FeatureMatrix
        One row a convolution, with ``latency_ms`` NaN and ``origin`` estimated.

    Raises
    ------
    InputError
        If the network has no convolution, or a parameter is out of its bounds.
    """
    table = network.assign(position=np.arange(len(network)), source_file=name)
    table = table[table["operator"] == CONVOLUTION].reset_index(drop=True)
    if table.empty:
        raise InputError(f"at least one convolution in network {name!r}", f"none among {len(network)} layers")
    _check_sizes(table)
    end = len(table) - 1
    table = table.assign(
        accelerator=platform.name,
        network=name,
        is_first=(table.index == 0).astype(int),
        is_last=(table.index == end).astype(int),
        origin="estimated",
        latency_ms=np.nan,
        latency_std_ms=np.nan,
        repeats=1,
        **_platform_columns(platform, memory, table),
    )
    return FeatureMatrix(table[list(FEATURE_COLUMNS)], source=name)


def left_out(
    layers: pd.DataFrame, *, origins: Sequence[str], accelerators: Sequence[str] | None = None
) -> dict[str, int]:
    """Return how many layers `build_features` leaves out, by reason.

    Raises
    ------
    InputError
        If an origin or an accelerator is unknown.
    """
    counts = _reasons(layers, origins, accelerators).value_counts()
    return {str(reason): int(count) for reason, count in sorted(counts.items()) if reason}


def read_features(path: Path) -> FeatureMatrix:
    """Read and check ``features.csv``; its columns may be in any order, those of runs may be missing.

    Parameters
    ----------
    path : Path
        A file as written by `write_features`.

    Raises
    ------
    InputError
        If the file is missing, a column is missing or unknown, or a value does not fit.
    """
    return FeatureMatrix(read_table(path, _schema_of(path)), source=path)


def _schema_of(path: Path) -> pa.DataFrameSchema:
    """Return the schema of a file, which may lack the columns of `_WITHOUT_RUNS`."""
    try:
        with path.open(encoding="utf-8-sig", errors="replace") as stream:
            names = [name.strip('"') for name in stream.readline().rstrip("\r\n").split(",")]
    except OSError:
        return FEATURE_SCHEMA  # whose reader says what is wrong
    return FEATURE_SCHEMA.remove_columns([name for name in _WITHOUT_RUNS if name not in names])


def write_features(matrix: FeatureMatrix, path: Path) -> None:
    """Write ``features.csv``: numbers in the shortest form that reads back as the same number."""
    write_table(matrix.table, path)


def _check_names(table: pd.DataFrame, source: str | Path) -> None:
    for name in FEATURE_COLUMNS:
        if name not in table.columns:
            raise InputError(f"a column {name!r}", "none", file=source, line=1)
    for name in table.columns:
        if name not in FEATURE_COLUMNS:
            raise InputError(f"columns among {', '.join(FEATURE_COLUMNS)}", repr(name), file=source, line=1)


def _reasons(layers: pd.DataFrame, origins: Sequence[str], accelerators: Sequence[str] | None) -> pd.Series:
    """Return why each layer is left out, empty where it is not."""
    for origin in origins:
        if origin not in ORIGINS:
            raise InputError(f"an origin, one of {known(ORIGINS)}", repr(origin))
    present = layers["accelerator"].unique()
    for name in accelerators or ():
        if name not in present:
            raise InputError(f"an accelerator of the layer table, one of {known(present)}", repr(name))
    reasons = pd.Series("", index=layers.index, dtype="str")
    if accelerators is not None:
        other = ~layers["accelerator"].isin(accelerators)
        reasons = reasons.mask(other, "accelerator " + layers["accelerator"])
    other = ~layers["origin"].isin(origins)
    return reasons.mask(other, "origin " + layers["origin"])


def _check_sizes(table: pd.DataFrame) -> None:
    """Raise for the first layer with a size out of bounds, naming where it was read."""
    for name in LAYER_PARAMETERS:
        bounds = BY_NAME[name]
        wrong = ~table[name].between(bounds.lower, bounds.upper)
        if wrong.any():
            row = table[wrong].iloc[0]
            line = int(row["source_line"]) if "source_line" in table.columns else None
            raise InputError(
                f"{name} between {bounds.lower:g} and {bounds.upper:g} for layer {row['layer']!r}",
                str(row[name]),
                file=row["source_file"],
                line=line,
            )


def _platform_columns(
    platform: Platform, memory: pd.DataFrame | None, layers: pd.DataFrame
) -> dict[str, Any]:
    """Return the columns that a platform adds to layers; all but the efficiency are constant."""
    return {
        "filter_parallelism": platform.filter_parallelism,
        "channel_parallelism": platform.channel_parallelism,
        "logic_clock_mhz": float(platform.logic_clock_mhz),
        "memory_clock_mhz": float(platform.memory_clock_mhz),
        "memory_efficiency": _efficiency(platform, memory, layers["input_width"]),
        "transfer_width_bits": platform.transfer_width_bits,
        "data_width_bits": platform.data_width_bits,
        "memory_ports": platform.ports,
        "unrolled_loop": platform.unrolled_loop,
    }


def _efficiency(platform: Platform, memory: pd.DataFrame | None, widths: pd.Series) -> pd.Series | float:
    """Return the memory efficiency, of each layer where the platform's pattern follows the layer."""
    pattern = platform.memory_efficiency
    if not (isinstance(pattern, MemoryPattern) and pattern.follows_layer):
        return platform_efficiency(platform, memory).value
    found = {
        width: layer_efficiency(platform, memory, math.ceil(width * platform.data_width_bits / 8)).value
        for width in sorted(set(widths))
    }
    return widths.map(found).astype(float)
