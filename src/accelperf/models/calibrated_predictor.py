r"""The calibrated roofline with its residual process, as numbers: what predicts, with NumPy alone.

A prediction is log-normal: :math:`\log T = \log T_{roofline} + k_*^T \alpha`, with variance
:math:`k_{**} - k_*^T B k_*` and measurement noise on top (Rasmussen & Williams, *Gaussian Processes
for Machine Learning*, 2006, Eq. 2.25-2.26; with inducing layers, Titsias, AISTATS 2009, Eq. 6). The
standard deviation is then multiplied by a factor learned out of sample: one for layers of a shape
never measured, one for accelerators never measured, none for a layer that was measured itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from accelperf.features import FeatureMatrix
from accelperf.models.base import Prediction
from accelperf.models.log_normal import log_normal
from accelperf.models.predictors import Standardiser, State
from accelperf.models.residual_process import ProcessRows, ResidualCovariance, interpolate
from accelperf.models.roofline import (
    TERMS,
    Floats,
    LogRoofline,
    Structure,
    log_roofline,
    roofline_inputs,
    roofline_terms,
)

_CONFIGURATION = (
    "filter_parallelism",
    "channel_parallelism",
    "logic_clock_mhz",
    "memory_clock_mhz",
    "transfer_width_bits",
    "data_width_bits",
    "memory_ports",
)
"""Numeric columns that tell one accelerator from another."""


INFLATED_TO = 1.0
"""Standard deviation above which nothing is inflated [log of ms]: 95 % intervals from a seventh to seven
times the median. It is the prior's of a rate that no layer is bound by."""


@dataclass(frozen=True)
class Layers:
    """Layers as the calibrated roofline takes them.

    Attributes
    ----------
    inputs : dict of str to array
        Named arrays of `accelperf.models.roofline.roofline_inputs`, shape [rows] each.
    shapes : array of str, shape [rows]
        Names of the shapes (`accelperf.layers.shape_key`).
    accelerators : array of str, shape [rows]
        Names of the hardware configurations, whatever the accelerators are called.
    keys : array of str, shape [rows]
        Names of both together: equal rows are repeats of one layer.
    """

    inputs: dict[str, Floats]
    shapes: NDArray[np.str_]
    accelerators: NDArray[np.str_]
    keys: NDArray[np.str_]

    @classmethod
    def of(cls, features: FeatureMatrix) -> Layers:
        """Return the layers of some features."""
        shapes, table = features.shapes, features.table
        efficiencies = table["memory_efficiency"].to_numpy(dtype=np.float64)
        columns = table[list(_CONFIGURATION)].to_numpy(dtype=np.float64)
        # Few configurations and efficiencies: each is put into words once.
        configurations, index = np.unique(columns, axis=0, return_inverse=True)
        words = np.array(["x".join(f"{value:.9g}" for value in row) for row in configurations])
        loops = table["unrolled_loop"].to_numpy(dtype=str)
        accelerators = np.char.add(np.char.add(loops, ":"), words[index.ravel()])
        distinct, place = np.unique(efficiencies, return_inverse=True)
        shares = np.array([f"/{value:.9g}" for value in distinct])[place]
        keys = np.char.add(np.char.add(shapes, "@"), np.char.add(accelerators, shares))
        return cls(roofline_inputs(features), shapes, accelerators, keys)

    def take(self, rows: NDArray[Any]) -> Layers:
        """Return some of the rows."""
        inputs = {name: values[rows] for name, values in self.inputs.items()}
        return Layers(inputs, self.shapes[rows], self.accelerators[rows], self.keys[rows])

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.keys)


def process_inputs(inputs: dict[str, Floats], roofline: LogRoofline) -> Floats:
    """Return what the residual process sees of each layer, not scaled, shape [rows, inputs].

    Logarithms of channels to a filter, filters, output pixels, kernel and stride, and the shares of
    the roofline's terms; nothing of the accelerator itself.
    """
    sizes = (
        inputs["input_channels"] / inputs["groups"],
        inputs["output_channels"],
        inputs["output_height"] * inputs["output_width"],
        inputs["kernel_height"] * inputs["kernel_width"],
        inputs["stride_height"] * inputs["stride_width"],
    )
    return np.column_stack([*(np.log(size) for size in sizes), roofline.shares[:, : len(TERMS)]])


def process_rows(layers: Layers, roofline: LogRoofline, standardiser: Standardiser) -> ProcessRows:
    """Return layers as the residual process sees them."""
    return ProcessRows(
        standardiser(process_inputs(layers.inputs, roofline)),
        roofline.memory_share,
        roofline.jacobian,
        layers.shapes,
        layers.accelerators,
        layers.keys,
        np.ones(len(layers)),
    )


@dataclass(frozen=True)
class Noise:
    """Standard deviation of repeated measurements [log of ms].

    Attributes
    ----------
    compute, memory : float
        Of layers bound by compute and by memory; others lie between.
    """

    compute: float
    memory: float

    def variance(self, memory_share: Floats) -> Floats:
        """Return the variance of one measurement, shape [rows]."""
        return np.asarray(interpolate(self.compute, self.memory, memory_share) ** 2)


@dataclass(frozen=True)
class Inflation:
    """Factors on the standard deviation that make 95 % intervals hold out of sample.

    Attributes
    ----------
    shape : float
        For a shape that was not measured.
    accelerator : float
        For an accelerator that was not measured.
    """

    shape: float = 1.0
    accelerator: float = 1.0


@dataclass(frozen=True)
class CalibratedPredictor:
    r"""A calibrated roofline and its residual process, conditioned on measured layers.

    Attributes
    ----------
    structure, parameters, sharpness
        The roofline (`accelperf.models.roofline`).
    pull : array of shape [parameters]
        How far each parameter follows the datasheet, to tell which were identified.
    standardiser : Standardiser
        Scaling of the process's inputs.
    covariance : ResidualCovariance
        Covariance of the process.
    noise : Noise
        Measurement noise.
    least_deviation : float
        Least standard deviation of a layer whose shape was not measured [log of ms].
    support : ProcessRows
        Measured layers, or the inducing ones among them.
    weights : array of shape [support]
        :math:`\alpha`.
    precision : array of shape [support, support]
        B.
    shapes, accelerators : array of str
        Shapes and configurations that were measured.
    inflation : Inflation
        Factors of the intervals.
    accelerator_sigma : array of shape [parameters]
        Standard deviations of the parameters of an accelerator that was not measured, beyond those of
        the process; 0 unless only one was.
    datasheets : tuple of dict
        For each accelerator its name, peak rates and clock, for `rates`.
    """

    kind: ClassVar[str] = "calibrated_roofline"
    structure: Structure
    parameters: Floats
    sharpness: float
    pull: Floats
    standardiser: Standardiser
    covariance: ResidualCovariance
    noise: Noise
    least_deviation: float
    support: ProcessRows
    weights: Floats
    precision: Floats
    shapes: NDArray[np.str_]
    accelerators: NDArray[np.str_]
    inflation: Inflation
    accelerator_sigma: Floats
    datasheets: tuple[dict[str, Any], ...] = ()

    def roofline(self, layers: Layers) -> LogRoofline:
        """Return the calibrated roofline of each layer, and which parts it is made of."""
        return log_roofline(roofline_terms(layers.inputs, self.structure), self.parameters, self.sharpness)

    def rows(self, layers: Layers, roofline: LogRoofline) -> ProcessRows:
        """Return the layers as the process sees them."""
        rows = process_rows(layers, roofline, self.standardiser)
        # A layer that was measured has the tail that it was found to have.
        places = {key: place for place, key in enumerate(self.support.keys) if key}
        place = np.array([places.get(key, -1) for key in layers.keys])
        return replace(rows, tails=np.where(place < 0, 1.0, self.support.tails[place]))

    def predict(self, features: FeatureMatrix) -> Prediction:
        """Return log-normal predictive distributions [ms], noise included."""
        return self.predict_layers(Layers.of(features))

    def predict_layers(self, layers: Layers) -> Prediction:
        """Return what `predict` does for layers."""
        roofline = self.roofline(layers)
        rows = self.rows(layers, roofline)
        mean, variance = self.residual(rows)
        spread = np.sum(self._new_accelerator_spread(rows) ** 2, axis=1)
        sigma = np.sqrt(self.factors(rows, variance) ** 2 * variance + spread)
        return log_normal(roofline.log_ms + mean, sigma)

    def residual(self, rows: ProcessRows) -> tuple[Floats, Floats]:
        """Return mean and variance of log(measured / roofline) before inflation, shape [rows] each."""
        cross = self.covariance(rows, self.support)
        explained = np.sum((cross @ self.precision) * cross, axis=1)
        added = self.noise.variance(rows.memory_share)
        added = added + np.where(self.knows_shape(rows), 0.0, self.least_deviation**2)
        # Rounding can leave less than the noise where a layer was measured.
        variance = np.maximum(self.covariance.diagonal(rows) - explained, 0) + added
        return cross @ self.weights, variance

    def _new_accelerator_spread(self, rows: ProcessRows) -> Floats:
        """Return how far the parameters of an accelerator not measured move its layers.

        Shape [rows, parameters]; products of two rows are covariances.
        """
        new = ~np.isin(rows.accelerators, self.accelerators)
        return np.asarray(rows.jacobian * self.accelerator_sigma * new[:, None])

    def knows_shape(self, rows: ProcessRows) -> NDArray[np.bool_]:
        """Return which layers have a shape that was measured, on whichever accelerator, [rows]."""
        return np.asarray(np.isin(rows.shapes, self.shapes))

    def measured(self, rows: ProcessRows) -> NDArray[np.bool_]:
        """Return which layers were measured themselves, shape [rows]."""
        return np.asarray(np.isin(rows.keys, self.support.keys))

    def factors(self, rows: ProcessRows, variance: Floats) -> Floats:
        """Return the inflation of each layer's standard deviation, shape [rows].

        Given the layers' variances before: one that is as wide as a rate of which nothing is known
        is not inflated further.
        """
        new_shape = ~self.knows_shape(rows)
        new_accelerator = ~np.isin(rows.accelerators, self.accelerators)
        both = max(self.inflation.shape, self.inflation.accelerator)
        factor = np.where(new_accelerator, self.inflation.accelerator, self.inflation.shape)
        factor = np.where(new_shape & new_accelerator, both, factor)
        factor = np.where(self.measured(rows), 1.0, factor)
        return np.asarray(np.minimum(factor, np.maximum(INFLATED_TO / np.sqrt(variance), 1.0)))

    def predict_totals(self, features: FeatureMatrix) -> pd.DataFrame:
        r"""Return the latency of each network on each accelerator, layers one after the other.

        Layers err together: the total's relative variance is :math:`w^T C w`, with C the joint
        covariance of the log latencies and w each layer's share of the total (to first order, as
        the relative errors are small).

        Returns
        -------
        DataFrame
            Columns accelerator, network, median_ms, std_ms, lower_ms, upper_ms (95 %), and
            independent_std_ms: what a plain sum of the layers' variances would say.
        """
        layers = Layers.of(features)
        roofline = self.roofline(layers)
        rows = self.rows(layers, roofline)
        mean, variance = self.residual(rows)
        factors = self.factors(rows, variance)
        median = np.exp(roofline.log_ms + mean)
        names = features.table[["accelerator", "network"]].to_numpy(dtype=str)
        totals = []
        for accelerator, network in sorted({(str(a), str(n)) for a, n in names}):
            index = np.flatnonzero((names[:, 0] == accelerator) & (names[:, 1] == network))
            part = rows.take(index)
            cross = self.covariance(part, self.support)
            joint = self.covariance(part, part) - cross @ self.precision @ cross.T
            joint[np.diag_indices_from(joint)] = variance[index]
            spread = self._new_accelerator_spread(part)
            share = median[index] / median[index].sum()
            weights = factors[index] * share
            total = np.array([np.log(median[index].sum())])
            # Neither rounding nor an approximation may leave less than nothing.
            own = max(float(weights @ joint @ weights), 0.0)
            sigma = np.sqrt(own + np.sum((share @ spread) ** 2))
            alone = weights**2 * variance[index] + share**2 * np.sum(spread**2, axis=1)
            prediction = log_normal(total, np.array([sigma]))
            assert prediction.std_ms is not None  # noqa: S101 - log_normal gives all of them
            assert prediction.lower_ms is not None and prediction.upper_ms is not None  # noqa: S101
            totals.append(
                {
                    "accelerator": accelerator,
                    "network": network,
                    "median_ms": prediction.median_ms[0],
                    "std_ms": prediction.std_ms[0],
                    "lower_ms": prediction.lower_ms[0],
                    "upper_ms": prediction.upper_ms[0],
                    "independent_std_ms": float(prediction.median_ms[0] * np.sqrt(np.sum(alone))),
                }
            )
        return pd.DataFrame(totals)

    def state(self) -> State:
        """Return parameters, hyperparameters and the support."""
        values = {
            "structure": self.structure.as_dict(),
            "sharpness": self.sharpness,
            "noise": [self.noise.compute, self.noise.memory],
            "least_deviation": self.least_deviation,
            "inflation": [self.inflation.shape, self.inflation.accelerator],
            "datasheets": list(self.datasheets),
        }
        arrays: dict[str, NDArray[Any]] = {
            "parameters": self.parameters,
            "pull": self.pull,
            "mean": self.standardiser.mean,
            "scale": self.standardiser.scale,
            "amplitudes": self.covariance.amplitudes,
            "lengthscales": self.covariance.lengthscales,
            "rate_covariance": self.covariance.rate_covariance,
            "inputs": self.support.inputs,
            "memory_share": self.support.memory_share,
            "jacobian": self.support.jacobian,
            "support_shapes": self.support.shapes,
            "support_accelerators": self.support.accelerators,
            "support_keys": self.support.keys,
            "tails": self.support.tails,
            "weights": self.weights,
            "precision": self.precision,
            "shapes": self.shapes,
            "accelerators": self.accelerators,
            "accelerator_sigma": self.accelerator_sigma,
        }
        return values, arrays

    @classmethod
    def from_state(cls, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> CalibratedPredictor:
        """Return the predictor that `state` described."""
        return cls(
            structure=Structure(**values["structure"]),
            parameters=arrays["parameters"],
            sharpness=values["sharpness"],
            pull=arrays["pull"],
            standardiser=Standardiser(arrays["mean"], arrays["scale"]),
            covariance=ResidualCovariance(
                arrays["amplitudes"], arrays["lengthscales"], arrays["rate_covariance"]
            ),
            noise=Noise(*values["noise"]),
            least_deviation=values["least_deviation"],
            support=ProcessRows(
                arrays["inputs"],
                arrays["memory_share"],
                arrays["jacobian"],
                arrays["support_shapes"],
                arrays["support_accelerators"],
                arrays["support_keys"],
                arrays["tails"],
            ),
            weights=arrays["weights"],
            precision=arrays["precision"],
            shapes=arrays["shapes"],
            accelerators=arrays["accelerators"],
            inflation=Inflation(*values["inflation"]),
            accelerator_sigma=arrays["accelerator_sigma"],
            datasheets=tuple(values["datasheets"]),
        )


def datasheets(features: FeatureMatrix) -> tuple[dict[str, Any], ...]:
    """Return name, peak rates and clock of each accelerator among the rows, by name.

    ``peak_gmacs`` is PF x PC x clock [10⁹ multiply-accumulates a second] and ``peak_gbps`` the
    memory's rate at its (median) efficiency [decimal GB/s].
    """
    sheets = []
    for name, rows in features.table.groupby("accelerator", sort=True):
        row = rows.iloc[0]
        ports_gbps = row["memory_ports"] * row["memory_clock_mhz"] * row["transfer_width_bits"] / 8e3
        sheets.append(
            {
                "accelerator": str(name),
                "filter_parallelism": int(row["filter_parallelism"]),
                "channel_parallelism": int(row["channel_parallelism"]),
                "clock_mhz": float(row["logic_clock_mhz"]),
                "peak_gmacs": float(
                    row["filter_parallelism"] * row["channel_parallelism"] * row["logic_clock_mhz"] / 1e3
                ),
                "peak_gbps": float(ports_gbps * rows["memory_efficiency"].median()),
            }
        )
    return tuple(sheets)
