"""Where the estimators err, how sure they are, and whether one is really better than another.

Tables of all estimators under all schemes, and their short forms for the page.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from accelperf.analytic import latency_terms
from accelperf.evaluation.breakdown import BREAKDOWN_COLUMNS, breakdown, network_totals
from accelperf.evaluation.paired import compare_paired
from accelperf.evaluation.reliability import reliability
from accelperf.features import FeatureMatrix
from accelperf.report.results import Result
from accelperf.report.text import markdown_table, percent

WHERE: tuple[str, ...] = ("network", "accelerator", "binding")
"""What the errors are broken down by; the binding term is what limits a layer."""

BREAKDOWN_TABLE: tuple[str, ...] = ("estimator", "scheme", "by", "group", *BREAKDOWN_COLUMNS)
TOTALS_TABLE: tuple[str, ...] = (
    "estimator",
    "scheme",
    "accelerator",
    "network",
    "layers",
    "latency_ms",
    "predicted_ms",
    "relative_error",
)
RELIABILITY_TABLE: tuple[str, ...] = (
    "estimator",
    "scheme",
    "nominal",
    "coverage",
    "mean_interval_ms",
    "mean_relative_width",
    "rows",
)
PAIRED_TABLE: tuple[str, ...] = (
    "scheme",
    "first",
    "second",
    "mape_difference",
    "lower",
    "upper",
    "first_better",
    "clusters",
)


def binding_by_formula(features: FeatureMatrix) -> pd.Series:
    """Return the longest of the times of each layer in the analytic model on rounded tiles.

    One of compute, weights, input and output, at the rates of the datasheet.
    """
    terms = latency_terms(features.latency_inputs(), "tiled")
    names = np.array(["compute", "weights", "input", "output"])
    times = np.stack([terms.compute, terms.weights, terms.data, terms.store])
    return pd.Series(names[np.argmax(times, axis=0)], name="binding")


def breakdown_table(results: Sequence[Result], schemes: Sequence[str], binding: pd.Series) -> pd.DataFrame:
    """Return the figures of every estimator under every scheme by network, accelerator and binding term.

    Parameters
    ----------
    results : sequence of Result
        What training left.
    schemes : sequence of str
        Schemes.
    binding : Series of str, shape [rows]
        Binding term of each row of the predictions.

    Returns
    -------
    DataFrame
        `BREAKDOWN_TABLE`.
    """
    parts = []
    for result in results:
        for scheme in schemes:
            for by in WHERE:
                groups = binding.rename(by) if by == "binding" else by
                table = breakdown(result.predictions[scheme], groups).rename(columns={by: "group"})
                parts.append(table.assign(estimator=result.estimator, scheme=scheme, by=by))
    return pd.concat(parts, ignore_index=True)[list(BREAKDOWN_TABLE)]


def totals_table(results: Sequence[Result], schemes: Sequence[str]) -> pd.DataFrame:
    """Return measured and predicted latency [ms] of every network, `TOTALS_TABLE`."""
    parts = [
        network_totals(result.predictions[scheme]).assign(estimator=result.estimator, scheme=scheme)
        for result in results
        for scheme in schemes
    ]
    return pd.concat(parts, ignore_index=True)[list(TOTALS_TABLE)]


def reliability_table(results: Sequence[Result], schemes: Sequence[str]) -> pd.DataFrame:
    """Return nominal and actual coverage of all estimators with intervals, `RELIABILITY_TABLE`."""
    parts = [
        reliability(result.predictions[scheme]).assign(estimator=result.estimator, scheme=scheme)
        for scheme in schemes
        for result in results
        if result.predictions[scheme]["lower_ms"].notna().all()
    ]
    if not parts:
        return pd.DataFrame(columns=list(RELIABILITY_TABLE))
    return pd.concat(parts, ignore_index=True)[list(RELIABILITY_TABLE)]


def paired_table(results: Sequence[Result], schemes: Sequence[str], features: FeatureMatrix) -> pd.DataFrame:
    """Return how the best estimator of each scheme (by MAPE) compares with each other one.

    Layers of one shape err together, so whole shapes are resampled; where there is a single shape,
    nothing can be said and the table has no row.

    Returns
    -------
    DataFrame
        `PAIRED_TABLE`; differences of MAPE as fractions, negative where the first is better.
    """
    rows = []
    shapes = np.asarray(features.shapes, dtype=str)
    for scheme in schemes if len(set(shapes)) > 1 else ():
        ranked = sorted(results, key=lambda result: _mape(result.predictions[scheme]))
        for other in ranked[1:]:
            found = compare_paired(ranked[0].predictions[scheme], other.predictions[scheme], clusters=shapes)
            rows.append(
                {
                    "scheme": scheme,
                    "first": ranked[0].estimator,
                    "second": other.estimator,
                    "mape_difference": found.difference,
                    "lower": found.lower,
                    "upper": found.upper,
                    "first_better": found.better,
                    "clusters": found.clusters,
                }
            )
    return pd.DataFrame(rows, columns=list(PAIRED_TABLE))


def _mape(predictions: pd.DataFrame) -> float:
    error = (predictions["predicted_ms"] - predictions["latency_ms"]).abs() / predictions["latency_ms"]
    return float(error.mean())


def breakdown_markdown(table: pd.DataFrame, scheme: str, by: str) -> str:
    """Return the MAPE of every estimator (columns) in every group (rows) under a scheme."""
    part = table[(table["scheme"] == scheme) & (table["by"] == by)]
    figures = part.set_index(["group", "estimator"])["mape"]
    estimators = list(dict.fromkeys(part["estimator"]))
    rows_of = part.drop_duplicates("group").set_index("group")["rows"]
    rows = [
        [str(group), str(rows_of[group]), *(percent(figures[group, name]) for name in estimators)]
        for group in rows_of.index
    ]
    return markdown_table(rows, [by, "rows", *estimators])


def totals_markdown(table: pd.DataFrame, scheme: str) -> str:
    """Return the signed error of every network's total (rows) by every estimator (columns)."""
    part = table[table["scheme"] == scheme]
    estimators = list(dict.fromkeys(part["estimator"]))
    rows = []
    for (accelerator, network), group in part.groupby(["accelerator", "network"], sort=True):
        error = group.set_index("estimator")["relative_error"]
        rows.append(
            [
                f"{network} on {accelerator}",
                f"{group['latency_ms'].iloc[0]:.3f}",
                *(f"{100 * error[name]:+.1f} %" for name in estimators),
            ]
        )
    return markdown_table(rows, ["network", "total [ms]", *estimators])


def reliability_markdown(table: pd.DataFrame) -> str:
    """Return the coverage at every level, and the mean width of the 95 % intervals."""
    levels = sorted(set(table["nominal"]))
    rows = []
    for (scheme, estimator), group in table.groupby(["scheme", "estimator"], sort=False):
        by_level = group.set_index("nominal")
        rows.append(
            [
                str(scheme),
                str(estimator),
                *(percent(by_level.loc[level, "coverage"]) for level in levels),
                percent(by_level.loc[max(levels), "mean_relative_width"]),
                f"{by_level.loc[max(levels), 'mean_interval_ms']:.4f}",
            ]
        )
    header = ["scheme", "estimator", *(f"in {100 * level:g} %" for level in levels)]
    return markdown_table(rows, [*header, "width over measured", "width [ms]"])


def paired_markdown(table: pd.DataFrame, scheme: str) -> str:
    """Return the paired comparisons under a scheme, in points of MAPE."""
    rows = [
        [
            f"{row['first']} against {row['second']}",
            f"{100 * row['mape_difference']:+.2f}",
            f"{100 * row['lower']:+.2f} to {100 * row['upper']:+.2f}",
            percent(row["first_better"]),
        ]
        for row in table[table["scheme"] == scheme].to_dict("records")
    ]
    return markdown_table(rows, ["pair", "MAPE, points", "95 % interval", "better in resamples"])
