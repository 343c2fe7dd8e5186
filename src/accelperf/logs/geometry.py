"""Sizes of layers that a log only names, from a description of the network.

Profilers print names and times. Where the sizes are missing, the key ``geometry`` of ``run.yaml``
says which network table or ONNX model describes the network, and `join_geometry` brings both
together: by name where the log has names, by order where it has none. What has no partner is
reported on both sides; nothing is guessed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from accelperf.errors import InputError
from accelperf.layers import CONVOLUTION, GEOMETRY_COLUMNS, LAYER_COLUMNS
from accelperf.logs.base import (
    Finding,
    is_convolution,
    layer_row,
    layer_table,
    skipped_operator,
)
from accelperf.logs.run import RunFile
from accelperf.networks import read_network

TIMING_COLUMNS: tuple[str, ...] = (
    "accelerator",
    "network",
    "layer",
    "operator",
    "latency_ms",
    "latency_std_ms",
    "repeats",
    "line",
)
"""Columns of the timings of one network on one accelerator: layers in the order of the log, the
operator empty where the log does not say, the line of each row."""

NOT_DESCRIBED = "not in the description"
"""Reason under which rows without a partner are counted."""


@dataclass(frozen=True)
class Joined:
    """Timings with their sizes, and what has no partner.

    Attributes
    ----------
    table : DataFrame
        Layer table, `accelperf.layers.LAYER_COLUMNS`: the convolutions that have both.
    skipped : Counter of str
        Rows of the log that are not in it, by reason: ``len(timings)`` is the number of rows of
        the table and of these.
    findings : tuple of Finding
        Rows rejected for their latency, and layers without a partner on either side.
    """

    table: pd.DataFrame
    skipped: Counter[str]
    findings: tuple[Finding, ...]

    def __post_init__(self) -> None:
        if tuple(self.table.columns) != LAYER_COLUMNS:
            raise ValueError(f"joined rows must have the columns {LAYER_COLUMNS}")


@dataclass(frozen=True)
class _Description:
    """A network's description: its layers by name, and which file says so."""

    path: Path
    table: pd.DataFrame

    @property
    def names(self) -> list[str]:
        return [str(name) for name in self.table["layer"]]

    def geometry(self, position: int) -> Mapping[str, int]:
        row = self.table.iloc[position]
        return {column: int(row[column]) for column in GEOMETRY_COLUMNS}

    def where(self, position: int) -> str:
        """Return where a layer is described, ``file:line`` for a table."""
        if self.path.suffix.lower() == ".csv":
            return f"{self.path}:{position + 2}"
        return str(self.path)


def read_description(path: Path) -> pd.DataFrame:
    """Read the description of a network: a network table (``.csv``) or an ONNX model (``.onnx``).

    Returns
    -------
    DataFrame
        `accelperf.networks.NETWORK_COLUMNS`, layers in the order in which they run.

    Raises
    ------
    InputError
        If it is neither, or the package that reads ONNX models is not installed.
    """
    try:
        status = path.stat()
    except OSError as error:
        raise InputError("a network table or an ONNX model", error.strerror or "none", file=path) from None
    return _read_description(path, status.st_mtime_ns, status.st_size).copy()


@lru_cache(maxsize=32)
def _read_description(path: Path, _modified: int, _size: int) -> pd.DataFrame:
    # Many logs of one network need the same description; a changed file is another one.
    if path.suffix.lower() != ".onnx":
        return read_network(path)
    try:
        from accelperf.onnx_network import read_onnx

        return read_onnx(path)
    except ModuleNotFoundError as error:
        raise InputError(
            "the package that reads ONNX models (pip install accelperf[onnx])",
            f"no module {error.name!r}",
            file=path,
        ) from None


def join_geometry(
    timings: pd.DataFrame, run: RunFile, *, file: Path, by: Literal["name", "order"] = "name"
) -> Joined:
    """Give timings their sizes, from the description that ``run.yaml`` names.

    Parameters
    ----------
    timings : DataFrame
        `TIMING_COLUMNS` of one network on one accelerator, in the order of the log. Rows of one
        name are runs of one layer. A latency of 0 is below the resolution of the log; NaN is one
        that the log says to be missing.
    run : RunFile
        The ``run.yaml``, with the keys ``geometry`` and ``layers``.
    file : Path
        The log.
    by : {"name", "order"}
        Whether the names of the log are those of the description (or translated by ``layers``),
        or nothing but the order of the convolutions tells which is which. In order, layers get
        the names of the description.

    Returns
    -------
    Joined
        Convolutions with their sizes, positions being those in the description, and what was
        skipped.

    Raises
    ------
    InputError
        If ``geometry`` is not given or names no description; by name, if two names of the log
        mean the same layer or ``layers`` names an unknown one; by order, if there are not as many
        convolutions on either side, or a name of the log is that of a layer at another place.
    """
    if tuple(timings.columns) != TIMING_COLUMNS:
        raise ValueError(f"timings must have the columns {TIMING_COLUMNS}")
    if timings.empty:
        return Joined(layer_table([]), Counter(), ())
    if len(timings.drop_duplicates(["accelerator", "network"])) > 1:
        raise ValueError("timings must be of one network on one accelerator")
    network = str(timings["network"].iloc[0])
    path = run.description(network, file=file)
    description = _Description(path, read_description(path))
    rows = [{str(key): value for key, value in row.items()} for row in timings.to_dict("records")]
    partners = _by_name(rows, description, run, file) if by == "name" else _by_order(rows, description, file)
    return _join(rows, partners, description, run, file)


def _by_name(
    rows: list[dict[str, Any]], description: _Description, run: RunFile, file: Path
) -> list[int | None]:
    """Return the position in the description of each row, None where there is none."""
    positions = {name: position for position, name in enumerate(description.names)}
    renamed = run.content.layers or {}
    partners: list[int | None] = []
    claimed: dict[int, dict[str, Any]] = {}
    for row in rows:
        name = row["layer"]
        partner = positions.get(name)
        if partner is None and name in renamed:
            partner = positions.get(renamed[name])
            if partner is None:
                raise InputError(
                    f"layers.{name}: a layer of {description.path}",
                    repr(renamed[name]),
                    file=run.path,
                    line=run.lines.get(("layers", name)),
                )
        partners.append(partner)
        if partner is None:
            continue
        first = claimed.setdefault(partner, row)
        if first["layer"] != name:
            raise InputError(
                f"one name for layer {description.names[partner]!r} ({description.where(partner)})",
                f"{first['layer']!r} in line {first['line']} and {name!r}",
                file=file,
                line=int(row["line"]),
            )
    return partners


def _by_order(rows: list[dict[str, Any]], description: _Description, file: Path) -> list[int | None]:
    """Return the position in the description of each row: convolutions side by side."""
    described = np.flatnonzero(description.table["operator"] == CONVOLUTION).tolist()
    measured = [index for index, row in enumerate(rows) if _may_be_convolution(row["operator"])]
    if len(measured) != len(described):
        raise InputError(
            f"{len(described)} convolutions as in {description.path}, since they are joined in order",
            str(len(measured)),
            file=file,
            line=int(rows[measured[-1] if measured else -1]["line"]),
        )
    names = {name: position for position, name in enumerate(description.names)}
    partners: list[int | None] = [None] * len(rows)
    for index, position in zip(measured, described, strict=True):
        name = rows[index]["layer"]
        if names.get(name, position) != position:
            raise InputError(
                f"layer {description.names[position]!r} here, in the order of {description.path}",
                repr(name),
                file=file,
                line=int(rows[index]["line"]),
            )
        partners[index] = position
    return partners


def _may_be_convolution(operator: str) -> bool:
    return not operator or is_convolution(operator)


def _join(
    rows: list[dict[str, Any]],
    partners: list[int | None],
    description: _Description,
    run: RunFile,
    file: Path,
) -> Joined:
    kept = []
    skipped: Counter[str] = Counter()
    findings: list[Finding] = []
    seen: set[int] = set()
    furthest = -1
    names, operators = description.names, [str(each) for each in description.table["operator"]]

    def found(code: str, message: str, row: dict[str, Any]) -> None:
        findings.append(_finding(code, message, file, row))

    for row, partner in zip(rows, partners, strict=True):
        operator = row["operator"]
        if not _may_be_convolution(operator):
            skipped[skipped_operator(operator)] += 1
            if partner is not None and operators[partner] == CONVOLUTION:
                seen.add(partner)
                message = f"{operator} in the log, a convolution in {description.where(partner)}: left out"
                found("layer_not_described", message, row)
            continue
        if partner is None:
            skipped[NOT_DESCRIBED] += 1
            message = f"{row['latency_ms']:.6g} ms, not in {description.path}: left out"
            found("layer_not_described", message, row)
            continue
        if operators[partner] != CONVOLUTION:
            skipped[skipped_operator(operators[partner])] += 1
            if operator:
                message = f"{operator} in the log, {operators[partner]} in {description.where(partner)}"
                found("layer_not_described", f"{message}: left out", row)
            continue
        if partner not in seen and partner < furthest:
            message = f"after {names[furthest]!r} in the log, before it in {description.where(partner)}"
            found("layer_order", message, row)
        seen.add(partner)
        furthest = max(furthest, partner)
        code, message = _wrong_latency(row["latency_ms"])
        if code:
            skipped[code] += 1
            found(code, message, row)
            continue
        kept.append(
            layer_row(
                description.geometry(partner),
                accelerator=row["accelerator"],
                network=row["network"],
                layer=names[partner],
                position=partner,
                latency_ms=row["latency_ms"],
                latency_std_ms=row["latency_std_ms"],
                repeats=row["repeats"],
                origin=run.content.origin,
                file=file,
                line=row["line"],
            )
        )
    for position, operator in enumerate(operators):
        if operator == CONVOLUTION and position not in seen:
            absent = {**rows[0], "layer": names[position], "line": None}
            message = (
                f"described in {description.where(position)}, not in the log: fused into a neighbour, or"
            )
            found("layer_not_measured", f"{message} missing", absent)
    return Joined(layer_table(kept), skipped, tuple(findings))


def _finding(code: str, message: str, file: Path, row: Mapping[str, Any]) -> Finding:
    line = None if row["line"] is None else int(row["line"])
    return Finding(code, message, file.as_posix(), line, row["accelerator"], row["network"], row["layer"])


def _wrong_latency(latency_ms: float) -> tuple[str, str]:
    """Return code and message for a latency that is none, empty for one that is."""
    if 0 < latency_ms < np.inf:
        return "", ""
    if latency_ms == 0:
        return "below_resolution", "latency 0, below the resolution of the log"
    got = "missing" if np.isnan(latency_ms) else f"{latency_ms:g} ms"
    return "not_positive", f"latency {got}, expected a finite number above 0"
