"""What a calibrated roofline says about the hardware, in the engineer's units."""

from __future__ import annotations

import numpy as np
import pandas as pd

from accelperf.features import FeatureMatrix
from accelperf.models.base import NORMAL_95
from accelperf.models.calibrated_predictor import CalibratedPredictor, Layers
from accelperf.models.roofline import OVERHEADS, TERMS

RATE_COLUMNS: tuple[str, ...] = (
    "accelerator",
    "quantity",
    "unit",
    "value",
    "lower",
    "upper",
    "share_of_datasheet",
    "identified",
)
IDENTIFIED_RATE = 0.014
"""Greatest pull of a rate that counts as identified: between datasheets of half and of twice the rate it
moves by less than 2 % (0.014 ln 4)."""
IDENTIFIED_OVERHEAD = 0.25
"""The same of overheads, whose priors are vague: data halve their standard deviation at least."""


def rate_table(predictor: CalibratedPredictor) -> pd.DataFrame:
    """Return the calibrated rates of each accelerator and the overheads, with 95 % intervals.

    Returns
    -------
    DataFrame
        Columns `RATE_COLUMNS`. Compute is in 10⁹ multiply-accumulates a second, its clock (the rate
        over PF x PC) in MHz; weights, input and output in decimal GB/s; overheads in cycles, the
        same for all accelerators (accelerator "all", no share). ``identified`` is False where the
        datasheet has a say: hardly any layer is bound by that term.
    """
    parameters = predictor.parameters
    sigma = np.sqrt(np.diag(predictor.covariance.rate_covariance))
    limits = np.repeat([IDENTIFIED_RATE, IDENTIFIED_OVERHEAD], [len(TERMS), len(OVERHEADS)])
    identified = predictor.pull <= limits
    bounds = [np.exp(parameters + side * NORMAL_95 * sigma) for side in (0, -1, 1)]
    rows = []

    def add(accelerator: str, quantity: str, unit: str, index: int, peak: float, share: bool) -> None:
        value, lower, upper = (float(peak * bound[index]) for bound in bounds)
        rows.append(
            {
                "accelerator": accelerator,
                "quantity": quantity,
                "unit": unit,
                "value": value,
                "lower": lower,
                "upper": upper,
                "share_of_datasheet": float(bounds[0][index]) if share else np.nan,
                "identified": bool(identified[index]),
            }
        )

    for sheet in predictor.datasheets:
        name = sheet["accelerator"]
        add(name, "compute", "GMAC/s", TERMS.index("compute"), sheet["peak_gmacs"], True)
        add(name, "compute clock", "MHz", TERMS.index("compute"), sheet["clock_mhz"], True)
        for term in ("weights", "input", "output"):
            add(name, term, "GB/s", TERMS.index(term), sheet["peak_gbps"], True)
    for place, overhead in enumerate(OVERHEADS, start=len(TERMS)):
        add("all", f"overhead per {overhead.replace('_', ' ')}", "cycles", place, 1.0, False)
    return pd.DataFrame(rows, columns=list(RATE_COLUMNS))


def layer_table(predictor: CalibratedPredictor, features: FeatureMatrix) -> pd.DataFrame:
    """Return what binds each layer.

    Returns
    -------
    DataFrame
        Columns accelerator, network, layer, position, binding (the part that accounts for most of
        the latency), roofline_ms, residual (what the process multiplies the roofline by) and the
        share of each part, ``share_compute`` and so on; shares of a row add up to 1.
    """
    layers = Layers.of(features)
    roofline = predictor.roofline(layers)
    mean, _ = predictor.residual(predictor.rows(layers, roofline))
    names = (*TERMS, *(f"{name}_overhead" for name in OVERHEADS))
    table = features.table[["accelerator", "network", "layer", "position"]].reset_index(drop=True)
    shares = {f"share_{name}": roofline.shares[:, place] for place, name in enumerate(names)}
    return table.assign(
        binding=roofline.binding, roofline_ms=np.exp(roofline.log_ms), residual=np.exp(mean), **shares
    )
