"""The page ``report.md``: everything that a reader needs to choose an estimator, and to doubt it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from accelperf.evaluation.breakdown import leak_warning
from accelperf.features import FeatureMatrix
from accelperf.platforms import Platform
from accelperf.report.breakdown import (
    WHERE,
    breakdown_markdown,
    paired_markdown,
    reliability_markdown,
    totals_markdown,
)
from accelperf.report.comparison import NESTED, NESTED_NOTE, comparison_markdown
from accelperf.report.data import platforms_markdown, statistics_markdown
from accelperf.report.results import Result
from accelperf.report.text import markdown_table, percent


@dataclass(frozen=True)
class Tables:
    """The tables of the report.

    Attributes
    ----------
    comparison, breakdown, totals, reliability, paired : DataFrame
        See `accelperf.report.comparison` and `accelperf.report.breakdown`.
    rates : DataFrame, optional
        Rates that the calibrated estimator read from the data
        (`accelperf.models.calibrated_rates.rate_table`).
    """

    comparison: pd.DataFrame
    breakdown: pd.DataFrame
    totals: pd.DataFrame
    reliability: pd.DataFrame
    paired: pd.DataFrame
    rates: pd.DataFrame | None


def page(
    tables: Tables,
    results: Sequence[Result],
    schemes: Sequence[str],
    features: FeatureMatrix,
    platforms: Sequence[Platform],
    *,
    simulated: bool,
) -> str:
    """Return the page as Markdown."""
    sections = [
        "# Comparison of latency estimators\n",
        comparison_markdown(tables.comparison, simulated=simulated),
        _caution(tables.comparison, schemes, features),
        "![Predicted against measured latency](predicted_against_measured.png)\n",
        "![Predicted over measured latency along the networks](error_along_network.png)\n",
        _where(tables, schemes),
        _totals(tables.totals, schemes),
        _intervals(tables.reliability),
        _pairs(tables.paired, schemes),
        _rates(tables.rates),
        f"## Data\n\n{statistics_markdown(features)}",
        f"## Platforms\n\n{platforms_markdown(platforms, features)}",
        "## Configurations\n\n"
        + "".join(f"* `{result.estimator}`: {result.configuration}\n" for result in results),
    ]
    return "\n".join(section for section in sections if section)


def _caution(comparison: pd.DataFrame, schemes: Sequence[str], features: FeatureMatrix) -> str:
    text = (
        f"The configuration of each estimator was selected by its MAE under `{schemes[0]}`, the figures of "
        f"which are therefore slightly flattering. {NESTED_NOTE if NESTED in comparison else ''}\n"
    )
    for scheme in schemes:
        warning = leak_warning(features, scheme)
        if warning:
            text += f"\n* {warning}."
    return text + "\n"


def _where(tables: Tables, schemes: Sequence[str]) -> str:
    source = (
        "the formula on rounded tiles says"
        if tables.rates is None
        else "the calibrated roofline (`gp_calibrated`) says"
    )
    parts = [
        "## Where they err\n\nMAPE by network, by accelerator, and by what limits a layer (the *binding* "
        f"term, as {source}). All figures: `breakdown.csv`.\n"
    ]
    for scheme in schemes:
        parts += [f"Under `{scheme}`:\n\n{breakdown_markdown(tables.breakdown, scheme, by)}" for by in WHERE]
    return "\n".join(parts)


def _totals(totals: pd.DataFrame, schemes: Sequence[str]) -> str:
    parts = [
        "## Network totals\n\nMeasured sum of the convolutions and signed error of the predicted sum. "
        "All figures: `network_totals.csv`.\n\n![Predicted over measured totals](network_totals.png)\n"
    ]
    parts += [f"Under `{scheme}`:\n\n{totals_markdown(totals, scheme)}" for scheme in schemes]
    return "\n".join(parts)


def _intervals(reliability: pd.DataFrame) -> str:
    if reliability.empty:
        return ""
    return (
        "## Do the intervals hold?\n\nShare of layers inside of their predicted intervals, and mean width "
        f"of the 95 % ones.\n\n{reliability_markdown(reliability)}\n"
        "![Coverage of intervals](reliability.png)\n"
    )


def _pairs(paired: pd.DataFrame, schemes: Sequence[str]) -> str:
    if paired.empty:
        return ""
    shapes = int(paired["clusters"].iloc[0])
    parts = [
        "## Is the best one really better?\n\nDifference of MAPE to each other estimator on the same layers; "
        f"the interval from {shapes} shapes drawn with replacement. One that contains 0 leaves the question "
        "open.\n"
    ]
    parts += [f"Under `{scheme}`:\n\n{paired_markdown(paired, scheme)}" for scheme in schemes]
    return "\n".join(parts)


def _rates(rates: pd.DataFrame | None) -> str:
    if rates is None:
        return ""
    rows = [
        [
            str(row["accelerator"]),
            str(row["quantity"]),
            f"{row['value']:.4g}",
            f"{row['lower']:.4g} to {row['upper']:.4g}",
            str(row["unit"]),
            percent(row["share_of_datasheet"]),
            "yes" if row["identified"] else "no, leans on its prior",
        ]
        for row in rates.to_dict("records")
    ]
    header = ["accelerator", "quantity", "value", "95 % interval", "unit", "of datasheet", "identified"]
    return (
        "## What the data say about the hardware\n\nRates and overheads of the calibrated roofline "
        f"(`gp_calibrated`), fitted to all rows.\n\n{markdown_table(rows, header)}"
    )
