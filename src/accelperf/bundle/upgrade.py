"""States of earlier formats, brought to what today's predictors need."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]


def upgrade_state(kind: str, arrays: Mapping[str, NDArray[Any]]) -> Arrays:
    """Return the arrays of a predictor, those that format 1 did not have filled in.

    A calibrated roofline of format 1 has prior deviations of its parameters in place of how far each
    follows its prior, and knows nothing of an accelerator's own parameters.
    """
    found = dict(arrays)
    prior, covariance = found.get("parameter_sigma"), found.get("rate_covariance")
    if kind != "calibrated_roofline" or prior is None or covariance is None or "pull" in found:
        return found
    if prior.ndim != 1 or covariance.shape != (len(prior), len(prior)) or not np.all(prior > 0):
        return found
    # The share of the prior's variance that data left: 1 where they said nothing.
    found["pull"] = np.clip(np.diag(covariance) / prior**2, 0.0, 1.0)
    found.setdefault("accelerator_sigma", np.zeros_like(prior))
    return found
