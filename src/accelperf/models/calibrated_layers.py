r"""Measured layers, repeats of one layer taken together: what the calibrated roofline is fitted to.

The latency of a layer is the mean over its repeats, weighted by how well each is known. A repeat whose
own runs scatter, so that the variance of their mean is :math:`v_i`, weighs
:math:`w_i = s_0^2 / (s_0^2 + v_i)`, with :math:`s_0` the usual noise; 1 where the log says nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accelperf.features import FeatureMatrix
from accelperf.models.calibrated_predictor import Layers, Noise, process_rows
from accelperf.models.known_noise import relative_variance
from accelperf.models.predictors import Standardiser
from accelperf.models.residual_process import ProcessRows
from accelperf.models.roofline import CalibratedRoofline, Floats, LogRoofline

NOISE_PRIOR = 0.003
"""Relative standard deviation of a measurement, where the log has no repeats to tell it."""


@dataclass(frozen=True)
class MeasuredRows:
    """Measured rows, named once for all folds.

    Attributes
    ----------
    layers : Layers
        What was measured.
    log_ms : array of shape [rows]
        Log latencies.
    networks : array of str, shape [rows]
        Whose layer it was.
    variance : array of shape [rows]
        Variance of the log latency that the spread of the row's runs leaves; 0 where it is unknown.
    """

    layers: Layers
    log_ms: Floats
    networks: NDArray[np.str_]
    variance: Floats

    @classmethod
    def of(cls, features: FeatureMatrix) -> MeasuredRows:
        """Return the rows of some features."""
        networks = features.table["network"].to_numpy(dtype=str)
        log_ms = np.log(features.latency_ms)
        return cls(Layers.of(features), log_ms, networks, relative_variance(features))


@dataclass(frozen=True)
class MeasuredLayers:
    r"""Distinct layers with their mean log latency.

    Attributes
    ----------
    layers : Layers
        The layers, sorted by name, so that the order of the rows cannot matter.
    log_ms : array of shape [layers]
        Weighted mean of the log latencies of a layer's repeats.
    squares : array of shape [layers]
        Weighted sum of the squared deviations of the repeats from it.
    occurrences : array of shape [layers, networks]
        Number of repeats in each network.
    effective : array of shape [layers]
        Number of equally good repeats whose mean has as much of the usual noise (Kish):
        :math:`(\sum w_i)^2 / \sum w_i^2`.
    variance : array of shape [layers]
        Variance of the mean for the spread of its repeats' runs:
        :math:`\sum w_i^2 v_i / (\sum w_i)^2`.
    tails : array of shape [layers]
        See `accelperf.models.residual_process.ProcessRows`.
    """

    layers: Layers
    log_ms: Floats
    squares: Floats
    occurrences: Floats
    effective: Floats
    variance: Floats
    tails: Floats

    def __len__(self) -> int:
        """Return the number of distinct layers."""
        return len(self.log_ms)

    @property
    def counts(self) -> Floats:
        """Number of repeats, shape [layers]."""
        return np.asarray(self.occurrences.sum(axis=1))

    @classmethod
    def of(cls, rows: MeasuredRows, chosen: NDArray[np.int64]) -> MeasuredLayers:
        """Return the layers among the chosen rows."""
        keys, first, index = np.unique(rows.layers.keys[chosen], return_index=True, return_inverse=True)
        networks, network = np.unique(rows.networks[chosen], return_inverse=True)
        log_ms, variance = rows.log_ms[chosen], rows.variance[chosen]
        occurrences = np.zeros((len(keys), len(networks)))
        np.add.at(occurrences, (index, network), 1.0)
        # Exactly 1 where nothing is known of the spread.
        weights = NOISE_PRIOR**2 / (NOISE_PRIOR**2 + variance)
        total = np.bincount(index, weights)
        mean = np.bincount(index, weights * log_ms) / total
        return cls(
            rows.layers.take(chosen[first]),
            mean,
            np.bincount(index, weights * (log_ms - mean[index]) ** 2).astype(np.float64),
            occurrences,
            total**2 / np.bincount(index, weights**2),
            np.bincount(index, weights**2 * variance) / total**2,
            np.ones(len(keys)),
        )

    def take(self, rows: NDArray[Any]) -> MeasuredLayers:
        """Return some of the layers."""
        return MeasuredLayers(
            self.layers.take(rows),
            self.log_ms[rows],
            self.squares[rows],
            self.occurrences[rows],
            self.effective[rows],
            self.variance[rows],
            self.tails[rows],
        )

    def noise_variance(self, noise: Noise, memory_share: Floats) -> Floats:
        """Return the variance of each layer's mean log latency as a measurement, shape [layers]."""
        return np.asarray(noise.variance(memory_share) / self.effective + self.variance)

    def calibrated(self, roofline: CalibratedRoofline) -> LogRoofline:
        """Return the roofline of each layer."""
        return roofline(self.layers.inputs)

    def process_rows(self, calibrated: LogRoofline, standardiser: Standardiser) -> ProcessRows:
        """Return the layers as the residual process sees them."""
        return replace(process_rows(self.layers, calibrated, standardiser), tails=self.tails)
