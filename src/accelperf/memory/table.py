"""The memory table: one row a channel and direction of a Shuhai run.

``data/interim/memory.csv``. What is not known is empty, which is neither zero nor a default. A row
that cannot be used says why in ``flags``; `usable_rows` leaves the others.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pandera.pandas as pa

from accelperf.errors import InputError
from accelperf.layers import ORIGINS, read_table, validate_table, write_table
from accelperf.memory.corrections import UNUSABLE_FLAGS

MODES: tuple[str, ...] = ("throughput", "latency")
SEPARATOR = ";"
"""Separator of the codes in the columns ``corrections`` and ``flags``."""


@dataclass(frozen=True)
class MemoryRow:
    """One row of the memory table; None where something is not known.

    Attributes
    ----------
    board, memory, policy, switch, origin : str
        From ``run.yaml``; empty where it is not known.
    channel, target_channel : int or None
        Engine, and memory channel that its accesses reached.
    direction : str
        ``read`` or ``write``.
    mode : str
        ``throughput``, or ``latency`` for every row of a run that measured latencies.
    burst_bytes, stride_bytes, working_set_bytes : int or None
        B, S and W [bytes] as they happened: a burst that wrapped is given as what was moved, and
        the stride of a latency channel as twice the given one.
    num_ops : int or None
        N of the row's own channel.
    reported_gbps : float or None
        Speed as printed [GB/s].
    corrected_gbps : float or None
        Speed after `corrections` [GB/s]; empty for latency runs.
    peak_gbps : float or None
        Peak of one channel [GB/s].
    efficiency : float or None
        Corrected speed of all channels that shared the memory channel over its peak; empty where
        the speed is rejected or not known.
    corrections, flags : tuple of str
        Codes of `accelperf.memory.corrections`.
    source_file, source_line
        Where the speed stands, or should stand.
    """

    board: str
    memory: str
    channel: int | None
    target_channel: int | None
    direction: str
    mode: str
    policy: str
    switch: str
    burst_bytes: int | None
    stride_bytes: int | None
    working_set_bytes: int | None
    num_ops: int | None
    reported_gbps: float | None
    corrected_gbps: float | None
    peak_gbps: float | None
    efficiency: float | None
    corrections: tuple[str, ...]
    flags: tuple[str, ...]
    origin: str
    source_file: str
    source_line: int

    @property
    def unusable(self) -> str | None:
        """The first flag that keeps the row from being used, or None."""
        return next((flag for flag in UNUSABLE_FLAGS if flag in self.flags), None)


MEMORY_COLUMNS: tuple[str, ...] = tuple(MemoryRow.__dataclass_fields__)

_text = pa.Column(str)
_count = pa.Column("Int64", pa.Check.ge(1), nullable=True)
_index = pa.Column("Int64", pa.Check.in_range(0, 31), nullable=True)

MEMORY_SCHEMA = pa.DataFrameSchema(
    {
        "board": _text,
        "memory": pa.Column(str, pa.Check.isin(["hbm", "ddr4", "ddr3", ""])),
        "channel": _index,
        "target_channel": _index,
        "direction": pa.Column(str, pa.Check.isin(["read", "write", ""])),
        "mode": pa.Column(str, pa.Check.isin(MODES)),
        "policy": _text,
        "switch": pa.Column(str, pa.Check.isin(["on", "off", ""])),
        "burst_bytes": _count,
        "stride_bytes": _count,
        "working_set_bytes": _count,
        "num_ops": _count,
        "reported_gbps": pa.Column(float, pa.Check.ge(0), nullable=True),
        "corrected_gbps": pa.Column(float, pa.Check.ge(0), nullable=True),
        "peak_gbps": pa.Column(float, pa.Check.gt(0), nullable=True),
        "efficiency": pa.Column(float, pa.Check.in_range(0, 1, include_min=False), nullable=True),
        "corrections": _text,
        "flags": _text,
        "origin": pa.Column(str, pa.Check.isin([*ORIGINS, ""])),
        "source_file": pa.Column(str, pa.Check.str_length(min_value=1)),
        "source_line": pa.Column(int, pa.Check.ge(1)),
    },
    strict=True,
    ordered=True,
)
"""Schema of ``data/interim/memory.csv``."""

_INTEGERS = [name for name, column in MEMORY_SCHEMA.columns.items() if str(column.dtype) == "Int64"]


def memory_table(rows: Iterable[MemoryRow]) -> pd.DataFrame:
    """Return rows as a table of `MEMORY_COLUMNS`."""
    records = [
        asdict(row) | {"corrections": SEPARATOR.join(row.corrections), "flags": SEPARATOR.join(row.flags)}
        for row in rows
    ]
    table = pd.DataFrame(records, columns=list(MEMORY_COLUMNS))
    types = {name: str(column.dtype) for name, column in MEMORY_SCHEMA.columns.items()}
    return table.astype({name: "str" if kind.startswith("str") else kind for name, kind in types.items()})


def read_memory(path: Path) -> pd.DataFrame:
    """Read and check ``memory.csv``.

    Parameters
    ----------
    path : Path
        A file written by `write_memory`.

    Returns
    -------
    DataFrame
        The memory table, `MEMORY_COLUMNS`; whole numbers that may be unknown are ``Int64``.

    Raises
    ------
    InputError
        If the file is missing or does not fit the schema.
    """
    table = read_table(path, MEMORY_SCHEMA)
    for name in _INTEGERS:
        try:
            table[name] = table[name].astype("Int64")
        except (TypeError, ValueError):
            raise InputError(f"whole numbers in column {name!r}", "something else", file=path) from None
    return validate_table(MEMORY_SCHEMA, table, source=path)


def write_memory(table: pd.DataFrame, path: Path) -> None:
    """Check the memory table and write it as CSV (unknown values empty, full precision)."""
    write_table(validate_table(MEMORY_SCHEMA, table, source=path), path)


def usable_rows(memory: pd.DataFrame) -> pd.DataFrame:
    """Return the rows that say what a known access pattern reaches.

    Parameters
    ----------
    memory : DataFrame
        Memory table.

    Returns
    -------
    DataFrame
        Throughput rows whose efficiency and pattern are known and that no flag keeps from use.
    """
    known = memory[["efficiency", "burst_bytes", "stride_bytes", "working_set_bytes"]].notna().all(axis=1)
    flagged = [bool(UNUSABLE_FLAGS.keys() & set(flags.split(SEPARATOR))) for flags in memory["flags"]]
    return memory[known & (memory["mode"] == "throughput") & ~np.array(flagged, dtype=bool)]
