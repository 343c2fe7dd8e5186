"""Hyperparameters of the Gaussian process estimators, checked without TensorFlow."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from accelperf.errors import InputError
from accelperf.models.kernels import parse_kernel
from accelperf.models.means import get_mean
from accelperf.yaml_input import StrictModel


class GaussianProcessSettings(StrictModel):
    """Hyperparameters of a Gaussian process estimator.

    Attributes
    ----------
    kernel : str
        One of linear, rbf, matern12, matern32, matern52, or two joined by ``+`` or ``*``.
    ard : bool
        One lengthscale for each parameter instead of one for all.
    mean : str
        Mean function: zero, paper, output_sized, tiled, or one that `modules` register.
    modules : list of str
        Python modules to import first.
    optimizer : {"lbfgs", "adam"}
        How hyperparameters are fitted.
    learning_rate : float
        Of Adam.
    steps, fold_steps : int
        Optimiser steps at most for the fit to all rows and for each fold.
    restarts : int
        Further random starts of the fit to all rows; the best one counts.
    noise_floor : float
        Least standard deviation of the noise, as a share of the root mean square residual.
    seed : int
        Of the restarts.
    """

    kernel: str = "matern32"
    ard: bool = True
    mean: str
    modules: list[str] = Field(default_factory=list)
    optimizer: Literal["lbfgs", "adam"] = "lbfgs"
    learning_rate: Annotated[float, Field(gt=0)] = 0.001
    steps: Annotated[int, Field(ge=1)] = 1000
    fold_steps: Annotated[int, Field(ge=0)] = 100
    restarts: Annotated[int, Field(ge=0)] = 1
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

    @model_validator(mode="after")
    def _known_mean(self) -> Self:
        try:
            get_mean(self.mean, self.modules)
        except InputError as error:
            raise ValueError(str(error)) from None
        return self
