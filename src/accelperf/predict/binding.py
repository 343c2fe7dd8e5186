"""What binds a layer: computing, weights, input, output, or an overhead."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from accelperf.analytic import latency_terms
from accelperf.features import FeatureMatrix
from accelperf.models.base import Predictor
from accelperf.models.calibrated_predictor import CalibratedPredictor, Layers
from accelperf.models.predictors import GaussianProcessPredictor
from accelperf.models.roofline import roofline_inputs

ROOFLINE = "calibrated roofline"
ANALYTIC = "analytic model, tiled"


def binding_terms(predictor: Predictor, features: FeatureMatrix) -> tuple[NDArray[np.str_], str]:
    r"""Return the term that takes most of each layer, and the model that says so.

    The calibrated roofline where the estimator has one. Else the terms of the tiled analytic model
    that count in Eq. 7 of Ferianc et al., ARC 2020: weights and computing; of the first layer also the
    input, of the last also the output.

    Parameters
    ----------
    predictor : Predictor
        The estimator.
    features : FeatureMatrix
        The layers.

    Returns
    -------
    terms : array of str, shape [rows]
        ``compute``, ``weights``, ``input``, ``output`` or the name of an overhead.
    source : str
        `ROOFLINE` or `ANALYTIC`.
    """
    if isinstance(predictor, CalibratedPredictor):
        return predictor.roofline(Layers.of(features)).binding, ROOFLINE
    if isinstance(predictor, GaussianProcessPredictor) and predictor.roofline is not None:
        return predictor.roofline(roofline_inputs(features)).binding, ROOFLINE
    inputs = features.latency_inputs()
    terms = latency_terms(inputs, "tiled")
    times = {
        "compute": terms.compute,
        "weights": terms.weights,
        "input": np.where(inputs["is_first"] > 0, terms.data, 0.0),
        "output": np.where(inputs["is_last"] > 0, terms.store, 0.0),
    }
    names = np.array(list(times))
    return names[np.argmax(np.stack(list(times.values()), axis=1), axis=1)], ANALYTIC
