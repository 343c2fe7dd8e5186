"""Networks as data: one CSV a network, one row a layer, without any latency."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pandera.pandas as pa

from accelperf.errors import InputError, known
from accelperf.layers import (
    CONVOLUTION,
    GEOMETRY_COLUMNS,
    GEOMETRY_SCHEMA,
    check_geometry,
    read_table,
    validate_table,
)

NETWORK_COLUMNS: tuple[str, ...] = ("layer", "operator", *GEOMETRY_COLUMNS)

NETWORK_SCHEMA = pa.DataFrameSchema(
    {"layer": pa.Column(str), "operator": pa.Column(str), **GEOMETRY_SCHEMA},
    strict=True,
    ordered=True,
    unique=["layer"],
)
"""Schema of ``data/networks/NAME.csv``."""


def read_network(path: Path) -> pd.DataFrame:
    """Read a network table and check that the sizes of its convolutions follow from each other.

    Parameters
    ----------
    path : Path
        CSV file with the columns `NETWORK_COLUMNS`, layers in the order in which they run.

    Returns
    -------
    DataFrame
        The table, one row a layer.

    Raises
    ------
    InputError
        If the file is missing or empty, a column is missing, or a convolution is impossible.
    """
    table = validate_table(NETWORK_SCHEMA, read_table(path, NETWORK_SCHEMA), source=path)
    if table.empty:
        raise InputError("at least one layer", "none", file=path)
    for index, row in enumerate(table.to_dict("records")):
        if row["operator"] == CONVOLUTION:
            check_geometry({str(k): v for k, v in row.items()}, file=path, line=index + 2)
    return table


def find_network(name: str, folder: Path) -> Path:
    """Return the path of a network table by its name, ``folder/NAME.csv``.

    Raises
    ------
    InputError
        For an unknown name; the known ones are listed.
    """
    path = folder / f"{name}.csv"
    if not path.is_file():
        names = [file.stem for file in folder.glob("*.csv")]
        raise InputError(f"a network, one of {known(names)}", repr(name))
    return path
