"""Hyperparameters of the neural network, checked without TensorFlow."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from accelperf.errors import InputError
from accelperf.models.perceptron import parse_layers
from accelperf.yaml_input import StrictModel

Activation = Literal["relu", "tanh", "sigmoid"]


def _check_layers(text: str) -> str:
    try:
        parse_layers(text)
    except InputError as error:
        raise ValueError(error.expected) from None
    return text


Layers = Annotated[str, AfterValidator(_check_layers)]
"""Widths of the layers after the input, such as ``10-10-1`` (`accelperf.models.perceptron`)."""


class AnnSettings(StrictModel):
    """Hyperparameters of the neural network.

    Attributes
    ----------
    layers : str
        Widths of the layers after the input, joined by hyphens: hidden ones, then 1.
    activation : {"relu", "tanh", "sigmoid"}
        Of the hidden layers.
    learning_rate : float
        Of Adam.
    batch_size : int
        Rows that one step sees.
    l2 : float
        Weight of the squared weights (not biases) beside the mean squared error of standardised
        latencies.
    epochs : int
        How many times training goes over all rows.
    seed : int
        Of the starting weights and the order of the rows.
    """

    layers: Layers = "10-10-1"
    activation: Activation = "relu"
    learning_rate: Annotated[float, Field(gt=0)] = 0.1
    batch_size: Annotated[int, Field(ge=1)] = 8
    l2: Annotated[float, Field(ge=0)] = 0.001
    epochs: Annotated[int, Field(ge=1)] = 100
    seed: Annotated[int, Field(ge=0)] = 0
