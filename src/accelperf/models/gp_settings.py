"""Hyperparameters of the Gaussian process estimators, checked without TensorFlow."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator

from accelperf.errors import InputError
from accelperf.models.kernels import parse_kernel
from accelperf.models.means import CALIBRATED, get_mean, import_means
from accelperf.yaml_input import StrictModel


class GaussianProcessSettings(StrictModel):
    """Hyperparameters of a Gaussian process estimator.

    Attributes
    ----------
    kernel : str
        One of linear, rbf, matern12, matern32, matern52, or two joined by ``+`` or ``*``.
    ard : bool
        One lengthscale for each parameter instead of one for all.
    modules : list of str
        Python modules to import first.
    mean : str
        Mean function: zero, paper, output_sized, tiled, calibrated (the roofline of ``gp_calibrated``,
        fitted to the training rows), or one that `modules` register.
    response : {"difference", "ratio"}
        What the process explains: y - m(X), or log(y / m(X)) with log-normal predictions, for which
        the mean must be above 0.
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
    modules: list[str] = Field(default_factory=list)
    mean: str
    response: Literal["difference", "ratio"] = "difference"
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

    @field_validator("modules")
    @classmethod
    def _importable(cls, value: list[str]) -> list[str]:
        for module in value:
            try:
                import_means(module)
            except InputError as error:
                raise ValueError(f"{error.expected}, not {error.got}") from None
        return value

    @field_validator("mean")
    @classmethod
    def _known_mean(cls, value: str, info: ValidationInfo) -> str:
        if "modules" not in info.data:
            return value  # said already what is wrong
        try:
            if value != CALIBRATED:
                get_mean(value)
        except InputError as error:
            raise ValueError(error.expected) from None
        return value

    @field_validator("response")
    @classmethod
    def _ratio_to_something(cls, value: str, info: ValidationInfo) -> str:
        if value == "ratio" and info.data.get("mean") == "zero":
            raise ValueError(
                "a mean above 0 ms for response ratio (paper, output_sized, tiled, calibrated), not zero"
            )
        return value
