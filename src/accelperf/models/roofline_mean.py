"""The calibrated roofline as a mean function: fitted to the rows that a process is trained on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accelperf.features import FeatureMatrix
from accelperf.models.base import FitError
from accelperf.models.calibrated_layers import MeasuredLayers, MeasuredRows
from accelperf.models.gp_calibrated_settings import GpCalibratedSettings
from accelperf.models.roofline import CalibratedRoofline, Floats
from accelperf.models.roofline_fit import RooflineCalibration, RooflineFit

LEAST_SHAPES = 2
"""Distinct shapes that a fit needs: of one, nothing tells what layers have in common."""


ESTIMATOR = "mean calibrated"
"""Who asks, in messages."""


def calibration(settings: GpCalibratedSettings) -> RooflineCalibration:
    """Return how a roofline is calibrated under some settings."""
    return RooflineCalibration(
        sharpness=settings.sharpness,
        robust_scale=settings.robust_scale,
        rate_sigma=settings.rate_sigma,
        restarts=settings.restarts,
        seed=settings.seed,
    )


def calibrate(
    how: RooflineCalibration,
    measured: MeasuredLayers,
    estimator: str,
    *,
    start: RooflineFit | None = None,
    search: bool = True,
) -> RooflineFit:
    """Return the roofline of measured layers.

    Parameters
    ----------
    how : RooflineCalibration
        How it is fitted.
    measured : MeasuredLayers
        What to.
    estimator : str
        Who asks, for the message.
    start, search
        See `RooflineCalibration.fit`.

    Raises
    ------
    FitError
        If there are fewer than two distinct shapes: nothing could tell what layers have in common.
    """
    shapes = measured.layers.shapes
    if len(np.unique(shapes)) < LEAST_SHAPES:
        raise FitError(
            f"{estimator} needs layers of at least {LEAST_SHAPES} distinct shapes, got "
            f"{int(measured.counts.sum())} rows of {len(np.unique(shapes))}"
        )
    return how.fit(
        measured.layers.inputs,
        measured.log_ms,
        shapes,
        noise=measured.variance,
        start=start,
        search=search,
    )


@dataclass(frozen=True)
class RooflineMean:
    """The calibrated roofline of any of some rows.

    Attributes
    ----------
    rows : MeasuredRows
        All rows.
    how : RooflineCalibration
        How it is fitted.
    start : RooflineFit
        The fit to all rows, from which those to some of them start.
    """

    rows: MeasuredRows
    how: RooflineCalibration
    start: RooflineFit

    @classmethod
    def of(cls, features: FeatureMatrix, seed: int) -> RooflineMean:
        """Return the mean of some features, fitted as ``gp_calibrated`` does by default."""
        rows, how = MeasuredRows.of(features), calibration(GpCalibratedSettings(seed=seed))
        measured = MeasuredLayers.of(rows, np.arange(len(features)))
        return cls(rows, how, calibrate(how, measured, ESTIMATOR))

    def fit(self, chosen: NDArray[np.int64], *, search: bool = True) -> RooflineFit:
        """Return the roofline of the chosen rows, which know nothing of the others but where to start.

        `search` says whether they decide the structure too.
        """
        measured = MeasuredLayers.of(self.rows, chosen)
        return calibrate(self.how, measured, ESTIMATOR, start=self.start, search=search)

    def latency_ms(self, roofline: CalibratedRoofline) -> Floats:
        """Return a roofline's latency of all rows [ms], shape [rows]."""
        return np.asarray(np.exp(roofline(self.rows.layers.inputs).log_ms))

    def without(self, row: int) -> Floats:
        """Return the latency of all rows [ms] once one was left out, the structure kept, shape [rows]."""
        rest = np.delete(np.arange(len(self.rows.log_ms)), row)
        return self.latency_ms(self.fit(rest, search=False))
