"""What every reader of a profiling log must offer, and what it gives back.

A reader is a module (or any object) with a ``name`` and the two functions of `Reader`. To add a
format, write one file with them and add it to `accelperf.logs.READERS`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import pandas as pd

from accelperf.errors import InputError
from accelperf.layers import (
    CONVOLUTION,
    GEOMETRY_COLUMNS,
    LAYER_COLUMNS,
    ReadReport,
    check_geometry,
    empty_layers,
    output_size,
)
from accelperf.logs.run import RunFile


@dataclass(frozen=True)
class Finding:
    """Something doubtful that was seen in a log, with the figures that show it.

    Attributes
    ----------
    code : str
        Name of the check, one of `accelperf.logs.checks.CHECKS`.
    message : str
        What was found, with the measured and the expected figure and their units.
    file : str
        The log.
    line : int, optional
        Line number in it, if it is about one row.
    accelerator, network, layer : str
        What it is about; empty where it is about more.
    """

    code: str
    message: str
    file: str
    line: int | None = None
    accelerator: str = ""
    network: str = ""
    layer: str = ""


@dataclass(frozen=True)
class StatedTotal:
    """A sum or an end-to-end time that a log itself states.

    Attributes
    ----------
    stated_ms, listed_ms : float
        What the log states and what the rows sum to that it is about (all of them, convolutions or
        not) [ms].
    what : str
        Name of the figure in the log.
    resolution_ms : float
        Step in which the rows are printed [ms]; rounding alone may make half of it a row.
    rows : int
        Number of rows summed.
    file : str
        The log.
    line : int
        Line of the stated figure.
    accelerator, network : str
        What it is about.
    kind : {"sum", "end_to_end"}
        A sum of the rows must agree with them; an end-to-end time may be longer (it holds what lies
        between the layers), but not shorter.
    """

    stated_ms: float
    listed_ms: float
    what: str
    resolution_ms: float
    rows: int
    file: str
    line: int
    accelerator: str = ""
    network: str = ""
    kind: Literal["sum", "end_to_end"] = "sum"


@dataclass(frozen=True)
class LogTable:
    """The convolutions of one file and the account of its rows.

    Attributes
    ----------
    table : DataFrame
        Layer table, `accelperf.layers.LAYER_COLUMNS`; a layer that was run several times may still
        have several rows.
    report : ReadReport
        Rows read, kept and skipped. A file that only describes the layers of another one has none.
    findings : tuple of Finding
        What the reader itself saw: rows that it had to reject, layers without a partner.
    totals : tuple of StatedTotal
        Sums that the log states.
    """

    table: pd.DataFrame
    report: ReadReport
    findings: tuple[Finding, ...] = ()
    totals: tuple[StatedTotal, ...] = ()

    def __post_init__(self) -> None:
        if tuple(self.table.columns) != LAYER_COLUMNS:
            raise ValueError(f"a reader must give the columns {LAYER_COLUMNS}")
        if len(self.table) != self.report.rows_kept:
            raise ValueError("a reader must report as many rows as it keeps")


class Reader(Protocol):
    """Interface of a reader."""

    @property
    def name(self) -> str:
        """Name of the format, as for the key ``format`` of ``run.yaml``."""

    def recognises(self, path: Path) -> str | None:
        """Return None if the content of a file is of this format, else why it is not."""

    def read(self, files: Sequence[Path], run: RunFile) -> list[LogTable]:
        """Read all files of this format in one folder, so that files that belong together meet.

        Every file gives one `LogTable`. Errors are `InputError` with file and line.
        """


_CONVOLUTIONS = frozenset({"conv", "conv2d", "convolution"})


def is_convolution(operator: str) -> bool:
    """Return whether an operator's name in a log means a convolution, whatever its case."""
    return operator.lower() in _CONVOLUTIONS


def skipped_operator(operator: str) -> str:
    """Return the reason under which a row of another operator is counted (logs mix the case)."""
    return f"operator {operator.lower()}"


def complete_geometry(geometry: Mapping[str, int], *, file: Path, line: int) -> dict[str, int]:
    """Return the geometry of a convolution, checked, with the output sizes that follow from it.

    Parameters
    ----------
    geometry : Mapping of str to int
        `accelperf.layers.GEOMETRY_COLUMNS`, of which the output sizes may be missing.
    file, line : Path and int
        Where it stands, for the error.

    Raises
    ------
    InputError
        If the convolution is impossible, or given output sizes do not follow.
    """
    complete = dict(geometry)
    for axis, before, after in (("height", "pad_top", "pad_bottom"), ("width", "pad_left", "pad_right")):
        size = output_size(
            geometry[f"input_{axis}"],
            geometry[f"kernel_{axis}"],
            max(geometry[f"stride_{axis}"], 1),  # a stride of 0 is refused below
            geometry[before],
            geometry[after],
            geometry[f"dilation_{axis}"],
        )
        complete.setdefault(f"output_{axis}", size)
    check_geometry(complete, file=file, line=line)
    return complete


def require_origin(run: RunFile, allowed: Sequence[str], why: str) -> None:
    """Refuse a ``run.yaml`` that calls figures something that they cannot be.

    Parameters
    ----------
    run : RunFile
        The ``run.yaml``.
    allowed : sequence of str
        Origins that the figures of this log can have.
    why : str
        Why, as a clause: ``"SCALE-Sim is a simulator"``.

    Raises
    ------
    InputError
        If its origin is another one.
    """
    if run.content.origin not in allowed:
        raise InputError(
            f"origin: {' or '.join(allowed)}, since {why}",
            repr(run.content.origin),
            file=run.path,
            line=run.lines.get(("origin",)),
        )


def rejected_latency(
    value: float,
    text: str,
    *,
    unit: str,
    file: Path,
    line: int,
    accelerator: str = "",
    network: str = "",
    layer: str = "",
) -> Finding | None:
    """Return why a figure is no latency, or None where it is one.

    Parameters
    ----------
    value : float
        The figure; NaN where the log says that there is none.
    text : str
        How the log writes it.
    unit : str
        Its unit, for the message; empty where the log's own text tells it.
    file, line : Path and int
        Where it stands.
    accelerator, network, layer : str
        What it is about.

    Returns
    -------
    Finding, optional
        Of code ``below_resolution`` for a zero with decimals, which a log of finite resolution
        writes for a short time; of code ``not_positive`` for any other zero, a negative, infinite
        or missing one. The reader skips the row and counts it under that code.
    """
    if 0 < value < np.inf:
        return None
    text = text.strip()
    figure = f"{text or 'missing'} {unit}".rstrip()
    code, message = "not_positive", f"latency {figure}, expected a finite number above 0"
    decimals = len(text.replace(",", ".").partition(".")[2])
    if value == 0 and decimals:
        code = "below_resolution"
        message = f"latency {text} {unit}, below the resolution of {10.0**-decimals:g} {unit}"
    return Finding(code, message, file.as_posix(), line, accelerator, network, layer)


def zero_size(geometry: Mapping[str, int]) -> str | None:
    """Return the first size of a convolution that is 0, or None; padding may be.

    A row with one is rejected: the reader skips it, counts it under ``zero_geometry``, and reports a
    `Finding` of that code.
    """
    sizes = (name for name in GEOMETRY_COLUMNS if not name.startswith("pad_"))
    return next((name for name in sizes if geometry.get(name) == 0), None)


def layer_row(
    geometry: Mapping[str, int],
    *,
    accelerator: str,
    network: str,
    layer: str,
    position: int,
    latency_ms: float,
    latency_std_ms: float = float("nan"),
    repeats: int = 1,
    origin: str,
    file: Path,
    line: int,
) -> dict[str, Any]:
    """Return a convolution as a row of the layer table, for `layer_table`.

    Parameters
    ----------
    geometry : Mapping of str to int
        `accelperf.layers.GEOMETRY_COLUMNS`, complete (see `complete_geometry`).
    accelerator, network, layer, position, latency_ms, latency_std_ms, repeats, origin
        Columns of the layer table.
    file, line : Path and int
        Where it stands.
    """
    return {
        "accelerator": accelerator,
        "network": network,
        "layer": layer,
        "position": position,
        "operator": CONVOLUTION,
        **{column: int(geometry[column]) for column in GEOMETRY_COLUMNS},
        "latency_ms": float(latency_ms),
        "latency_std_ms": float(latency_std_ms),
        "repeats": int(repeats),
        "origin": origin,
        "source_file": file.as_posix(),
        "source_line": int(line),
        "flags": "",
    }


def layer_table(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return rows made by `layer_row` as a layer table, empty where there are none."""
    return pd.DataFrame(list(rows), columns=list(LAYER_COLUMNS)) if rows else empty_layers()
