"""Hyperparameters of the Gaussian process with a network as its mean."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, field_validator

from accelperf.errors import InputError
from accelperf.models.ann_settings import Activation, Layers
from accelperf.models.kernels import parse_kernel
from accelperf.yaml_input import StrictModel


class GpAnnMeanSettings(StrictModel):
    """Hyperparameters of the Gaussian process with a network as its mean.

    Attributes
    ----------
    kernel : str
        One of linear, rbf, matern12, matern32, matern52, or two joined by ``+`` or ``*``.
    ard : bool
        One lengthscale for each parameter instead of one for all.
    layers : str
        Widths of the network's layers after the input, joined by hyphens: hidden ones, then 1.
    activation : {"relu", "tanh", "sigmoid"}
        Of the hidden layers.
    learning_rate : float
        Of Adam.
    steps : int
        Steps of Adam, for the fit to all rows and for each fold.
    noise_floor : float
        Least standard deviation of the noise, as a share of that of the latencies.
    seed : int
        Of the network's starting weights.
    """

    kernel: str = "matern32"
    ard: bool = True
    layers: Layers = "15-64-1"
    activation: Activation = "tanh"
    learning_rate: Annotated[float, Field(gt=0)] = 1e-5
    steps: Annotated[int, Field(ge=1)] = 200
    noise_floor: Annotated[float, Field(gt=0, lt=1)] = 1e-3
    seed: Annotated[int, Field(ge=0)] = 0

    @field_validator("kernel")
    @classmethod
    def _known_kernel(cls, value: str) -> str:
        try:
            parse_kernel(value)
        except InputError as error:
            raise ValueError(error.expected) from None
        return value
