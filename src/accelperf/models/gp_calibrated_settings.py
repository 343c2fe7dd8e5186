"""Hyperparameters of the calibrated roofline, checked without importing what trains it."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from accelperf.yaml_input import StrictModel


class GpCalibratedSettings(StrictModel):
    """Hyperparameters of ``gp_calibrated``.

    Attributes
    ----------
    sharpness : float
        p of the smooth maximum of the roofline's terms.
    robust_scale : float
        Relative error up to which the roofline is fitted by least squares; larger ones count less.
    rate_sigma : float
        Prior standard deviation of the log rates around the platform's datasheet.
    restarts : int
        Further random starts of the roofline's fit to all rows; the best one counts.
    steps, fold_steps : int
        Optimiser steps at most for the residual process, fitted to all rows and for each fold.
    noise_floor : float
        Least standard deviation of a measurement, relative.
    least_deviation : float
        Least standard deviation claimed for a shape that was not measured, relative.
    intervals : bool
        Whether intervals are calibrated out of sample; else they are the process's own.
    residual_process : bool
        Whether the residual process corrects the roofline; else it only says how uncertain it is.
    fit_layers : int
        Distinct layers, at most, from which hyperparameters and intervals of the residual process are
        found: a sample of them, if there are more. All of them are predicted from.
    max_exact_layers : int
        Distinct layers above which the process becomes sparse.
    inducing_layers : int
        Layers that a sparse process keeps, nearest to the k-means centres.
    seed : int
        Of restarts, k-means and subsamples.
    """

    sharpness: Annotated[float, Field(ge=1, le=100)] = 16.0
    robust_scale: Annotated[float, Field(gt=0, le=1)] = 0.01
    rate_sigma: Annotated[float, Field(gt=0)] = 1.0
    restarts: Annotated[int, Field(ge=0)] = 3
    steps: Annotated[int, Field(ge=1)] = 200
    fold_steps: Annotated[int, Field(ge=0)] = 30
    noise_floor: Annotated[float, Field(gt=0, lt=1)] = 1e-3
    least_deviation: Annotated[float, Field(ge=0, lt=1)] = 0.005
    intervals: bool = True
    residual_process: bool = True
    fit_layers: Annotated[int, Field(ge=10)] = 500
    max_exact_layers: Annotated[int, Field(ge=10)] = 1500
    inducing_layers: Annotated[int, Field(ge=2)] = 400
    seed: Annotated[int, Field(ge=0)] = 0
