"""Where a layer lies outside of what an estimator was trained on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accelperf.bundle import TrainingData
from accelperf.features import FeatureMatrix
from accelperf.parameters import PARAMETER_NAMES

COMPARED_COLUMNS: tuple[str, ...] = (
    *PARAMETER_NAMES,
    "stride_height",
    "stride_width",
    "groups",
    "memory_ports",
)
"""What is compared beside the unrolled loop and the predicted latency; padding is seen by no estimator."""
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Outside:
    """A value that training did not cover.

    Attributes
    ----------
    parameter : str
        Column of the features.
    value : float or str
        The layer's value [the column's unit].
    trained : tuple
        Least and greatest value in training, or the texts that occurred.
    """

    parameter: str
    value: float | str
    trained: tuple[float, float] | tuple[str, ...]

    def __str__(self) -> str:
        """Return such as ``input_channels 4096 (trained on 3 to 2048)``."""
        if isinstance(self.value, str):
            return f"{self.parameter} {self.value} (trained on {', '.join(map(str, self.trained))})"
        low, high = self.trained
        range_text = f"{low:.5g}" if low == high else f"{low:.5g} to {high:.5g}"
        return f"{self.parameter} {self.value:.5g} (trained on {range_text})"


def outside_training(
    features: FeatureMatrix, median_ms: NDArray[np.float64], training: TrainingData
) -> list[tuple[Outside, ...]]:
    """Return, for each layer, what lies outside of the training range.

    Parameters
    ----------
    features : FeatureMatrix
        The layers.
    median_ms : array of shape [rows]
        Their predicted latencies [ms].
    training : TrainingData
        What the estimator was trained on; columns of which it does not know the range are passed over.
    """
    found: list[list[Outside]] = [[] for _ in range(len(features))]
    table = features.table
    columns = {name: table[name].to_numpy(dtype=np.float64) for name in COMPARED_COLUMNS}
    for name, values in {**columns, "latency_ms": median_ms}.items():
        if name not in training.ranges:
            continue
        low, high = training.ranges[name]
        # An efficiency looked up in another table may differ in its last digit.
        margin = _ROUNDING * max(abs(low), abs(high))
        for row in np.flatnonzero((values < low - margin) | (values > high + margin)):
            found[row].append(Outside(name, float(values[row]), (low, high)))
    if training.unrolled_loops:
        loops = table["unrolled_loop"].to_numpy(dtype=str)
        for row in np.flatnonzero(~np.isin(loops, training.unrolled_loops)):
            found[row].append(Outside("unrolled_loop", str(loops[row]), training.unrolled_loops))
    return [tuple(each) for each in found]
