"""What a check finds in a layer table: rows by position, and the figures that show it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from accelperf.logs.base import Finding


@dataclass(frozen=True)
class Hits:
    """Rows that one check finds.

    Attributes
    ----------
    code : str
        The check.
    rows : NDArray of int, shape [hits]
        Positions of the rows.
    messages : sequence of str, length [hits]
        What was found in each, with both figures.
    """

    code: str
    rows: NDArray[np.int64]
    messages: Sequence[str]

    def findings(self, table: pd.DataFrame) -> Iterator[Finding]:
        """Yield a finding for each row of the table that was checked."""
        columns = ["source_file", "source_line", "accelerator", "network", "layer"]
        places = table[columns].iloc[self.rows].itertuples(index=False, name=None)
        for message, (file, line, *about) in zip(self.messages, places, strict=True):
            yield Finding(self.code, message, str(file), int(line), *map(str, about))


def operations(table: pd.DataFrame) -> NDArray[np.float64]:
    r"""Return the operations of convolutions, two for a multiply-accumulate.

    Parameters
    ----------
    table : DataFrame
        A table with the geometry columns.

    Returns
    -------
    array, shape [rows]
        :math:`2 K_h K_w \frac{C}{G} F H_o W_o`: Eq. 6 of Ferianc et al., ARC 2020, with groups and
        output pixels (`accelperf.analytic`, variant ``output_sized``), without rounding to tiles.
    """
    sizes = {
        name: table[name].to_numpy(dtype=np.float64)
        for name in (
            "kernel_height",
            "kernel_width",
            "input_channels",
            "groups",
            "output_channels",
            "output_height",
            "output_width",
        )
    }
    return np.asarray(
        2
        * sizes["kernel_height"]
        * sizes["kernel_width"]
        * (sizes["input_channels"] / sizes["groups"])
        * sizes["output_channels"]
        * sizes["output_height"]
        * sizes["output_width"]
    )
