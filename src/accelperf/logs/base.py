"""What every reader of a profiling log must offer, and what it gives back.

A reader is a module (or any object) with a ``name`` and the two functions of `Reader`. To add a
format, write one file with them and add it to `accelperf.logs.READERS`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pandas as pd

from accelperf.layers import LAYER_COLUMNS, ReadReport, check_geometry, output_size
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
