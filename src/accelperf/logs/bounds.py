"""What physics allows: no layer is faster than its operations, or its bytes, at full rate."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from accelperf.analytic import LATENCY_INPUTS, LatencyTerms, latency_terms
from accelperf.layers import GEOMETRY_COLUMNS
from accelperf.logs.hits import Hits
from accelperf.platforms import Platform

SLACK = 1e-6
"""Share by which a latency may undercut a bound: both are printed with a few digits."""

_PIECE = 65_536
"""Rows whose bounds are computed at once."""


def least_times(table: pd.DataFrame, platforms: Mapping[str, Platform]) -> LatencyTerms:
    r"""Return the least time that each part of a layer can take.

    Those of the analytic model (`accelperf.analytic.latency_terms`, variant ``output_sized``) at
    memory efficiency 1: the operations of the convolution at :math:`2 \cdot PF \cdot PC` a cycle,
    without rounding to whole tiles; weights, input and output each moved once. Of an input that
    the kernel steps over, only the pixels that some output needs.

    Parameters
    ----------
    table : DataFrame
        Layer table.
    platforms : Mapping of str to Platform
        Its accelerators by name.

    Returns
    -------
    LatencyTerms
        Times [ms] of shape [rows].
    """
    codes, names = pd.factorize(table["accelerator"])
    each = [platforms[name] for name in names]

    def of_platform(name: str) -> NDArray[np.float64]:
        return np.array([getattr(platform, name) for platform in each], dtype=np.float64)[codes]

    inputs: dict[str, NDArray[np.float64]] = {
        name: table[name].to_numpy(dtype=np.float64) for name in GEOMETRY_COLUMNS if name in LATENCY_INPUTS
    }
    for axis in ("height", "width"):
        touched = inputs[f"output_{axis}"] * inputs[f"kernel_{axis}"]
        inputs[f"input_{axis}"] = np.minimum(inputs[f"input_{axis}"], touched)
    for name in (
        "filter_parallelism",
        "channel_parallelism",
        "logic_clock_mhz",
        "memory_clock_mhz",
        "transfer_width_bits",
        "data_width_bits",
    ):
        inputs[name] = of_platform(name)
    inputs["memory_ports"] = of_platform("ports")
    inputs["memory_efficiency"] = np.ones(len(table))
    return latency_terms(inputs, "output_sized")


def check(table: pd.DataFrame, platforms: Mapping[str, Platform]) -> list[Hits]:
    """Return the rows that are faster than their operations or their bytes allow."""
    latency = table["latency_ms"].to_numpy(dtype=np.float64)
    accelerator = table["accelerator"]
    # Piece by piece: two dozen arrays of a million rows would be much.
    pieces = [
        least_times(table.iloc[start : start + _PIECE], platforms) for start in range(0, len(table), _PIECE)
    ]
    compute_bound = np.concatenate([np.asarray(piece.compute) for piece in pieces])
    memory_bound = np.concatenate([np.asarray(piece.load + piece.store) for piece in pieces])

    def compute(row: int, bound: float) -> str:
        platform = platforms[accelerator.iloc[row]]
        return (
            f"{latency[row]:.6g} ms, at least {bound:.6g} ms for its operations at 2 x "
            f"{platform.filter_parallelism} x {platform.channel_parallelism} a cycle and "
            f"{platform.logic_clock_mhz:g} MHz"
        )

    def memory(row: int, bound: float) -> str:
        peak = platforms[accelerator.iloc[row]].memory_peak_gbps
        return f"{latency[row]:.6g} ms, at least {bound:.6g} ms to move its bytes once at {peak:.6g} GB/s"

    found = []
    for code, bound, message in (
        ("faster_than_compute", compute_bound, compute),
        ("faster_than_memory", memory_bound, memory),
    ):
        rows = np.flatnonzero(latency < bound * (1 - SLACK))
        if len(rows):
            messages = [
                message(row, limit) for row, limit in zip(rows.tolist(), bound[rows].tolist(), strict=True)
            ]
            found.append(Hits(code, rows, messages))
    return found
