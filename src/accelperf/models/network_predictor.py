"""Fitted neural networks as numbers, alone and as the mean of a Gaussian process, with NumPy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from accelperf.features import FeatureMatrix
from accelperf.models.base import Prediction
from accelperf.models.perceptron import Perceptron
from accelperf.models.predictors import GaussianProcessPredictor, Standardiser, State

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class NetworkPredictor:
    """A network between standardised parameters and standardised latencies.

    Attributes
    ----------
    standardiser : Standardiser
        Scaling of the 15 parameters.
    network : Perceptron
        From standardised parameters to standardised latencies.
    latency_mean, latency_scale : float
        Mean and standard deviation of the training latencies [ms].
    """

    kind: ClassVar[str] = "network"
    standardiser: Standardiser
    network: Perceptron
    latency_mean: float
    latency_scale: float

    def predict(self, features: FeatureMatrix) -> Prediction:
        """Return the latencies [ms]."""
        return Prediction(self.predict_parameters(features.parameters))

    def predict_parameters(self, parameters: Floats) -> Floats:
        """Return the latencies [ms] of rows of parameters [rows, 15]."""
        output = self.network(self.standardiser(parameters))
        return self.latency_mean + self.latency_scale * output

    def state(self) -> State:
        """Return scaling and weights."""
        values = {
            "activation": self.network.activation,
            "layers": len(self.network.weights),
            "latency_mean": self.latency_mean,
            "latency_scale": self.latency_scale,
        }
        return values, {
            "mean": self.standardiser.mean,
            "scale": self.standardiser.scale,
            **self.network.arrays(),
        }

    @classmethod
    def from_state(cls, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> NetworkPredictor:
        """Return the predictor that `state` described."""
        return cls(
            standardiser=Standardiser(arrays["mean"], arrays["scale"]),
            network=Perceptron.from_arrays(values["activation"], values["layers"], arrays),
            latency_mean=values["latency_mean"],
            latency_scale=values["latency_scale"],
        )


@dataclass(frozen=True)
class NetworkMeanPredictor:
    """A Gaussian process around a network.

    Attributes
    ----------
    process : GaussianProcessPredictor
        Of the residuals; its own mean is not used.
    network : Perceptron
        From standardised parameters to standardised latencies.
    latency_mean : float
        Mean of the training latencies [ms]; their standard deviation is the process's unit.
    """

    kind: ClassVar[str] = "network_mean"
    process: GaussianProcessPredictor
    network: Perceptron
    latency_mean: float

    def predict(self, features: FeatureMatrix) -> Prediction:
        """Return normal predictive distributions [ms], noise included."""
        return self.predict_parameters(features.parameters)

    def predict_parameters(self, parameters: Floats) -> Prediction:
        """Return what `predict` does for rows of parameters [rows, 15]."""
        output = self.network(self.process.standardiser(parameters))
        mean_ms = self.latency_mean + self.process.residual_scale * output
        return self.process.predict_parameters(parameters, mean_ms)

    def state(self) -> State:
        """Return the process, and the network's weights beside it."""
        values, arrays = self.process.state()
        own = {
            "activation": self.network.activation,
            "layers": len(self.network.weights),
            "latency_mean": self.latency_mean,
        }
        return values | own, arrays | self.network.arrays()

    @classmethod
    def from_state(cls, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> NetworkMeanPredictor:
        """Return the predictor that `state` described."""
        return cls(
            process=GaussianProcessPredictor.from_state(values, arrays),
            network=Perceptron.from_arrays(values["activation"], values["layers"], arrays),
            latency_mean=values["latency_mean"],
        )
