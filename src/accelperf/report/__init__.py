"""The report: what the data are, how the estimators compare, and pictures of it.

It reads what earlier stages wrote and writes tables (CSV, Markdown) and pictures.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from accelperf.evaluation.metrics import cost
from accelperf.features import read_features
from accelperf.layers import file_md5, write_table
from accelperf.pictures import (
    error_along_network,
    network_totals,
    predicted_against_measured,
    reliability_diagram,
)
from accelperf.platforms import get_platform, read_platforms
from accelperf.report.breakdown import (
    binding_by_formula,
    breakdown_table,
    paired_table,
    reliability_table,
    totals_table,
)
from accelperf.report.card import model_card
from accelperf.report.comparison import BASELINE, COMPARISON_COLUMNS, compare, comparison_markdown
from accelperf.report.page import Tables, page
from accelperf.report.results import Result, read_result
from accelperf.report.text import markdown_table

__all__ = [
    "COMPARISON_COLUMNS",
    "Report",
    "Result",
    "compare",
    "markdown_table",
    "read_result",
    "write_report",
]


@dataclass(frozen=True)
class Report:
    """What was written.

    Attributes
    ----------
    comparison : DataFrame
        As `compare` returns it.
    champion : Result
        The best estimator by the chosen figure under the last scheme.
    card : str
        Its model card, Markdown.
    """

    comparison: pd.DataFrame
    champion: Result
    card: str


def write_report(
    *,
    results_folder: Path,
    features_path: Path,
    platforms_folder: Path,
    output: Path,
    models: Sequence[str],
    schemes: Sequence[str],
    metric: str = "mape",
) -> Report:
    """Write tables, pictures and the model card of the best estimator.

    Parameters
    ----------
    results_folder : Path
        ``results``, written by the train stages.
    features_path : Path
        ``features.csv``.
    platforms_folder : Path
        Folder of platform files.
    output : Path
        Folder to write into.
    models, schemes : sequence of str
        Estimators and schemes to report; pictures show the first scheme.
    metric : str
        Figure under the last scheme that tells which estimator is the best, one of
        `accelperf.evaluation.metrics.COMPARABLE`.

    Returns
    -------
    Report
        The comparison and the best estimator.

    Raises
    ------
    InputError
        If a result is missing or damaged.
    """
    features = read_features(features_path)
    results = [read_result(results_folder / key, schemes, len(features)) for key in models]
    accelerators = list(dict.fromkeys(features.table["accelerator"]))
    known_platforms = read_platforms(platforms_folder)
    platforms = [get_platform(known_platforms, name, file=features_path) for name in accelerators]
    simulated = bool((features.table["origin"] != "measured").any())
    comparison = compare(results, schemes)
    first = schemes[0]
    ranking = list(comparison[comparison["scheme"] == first]["estimator"])
    results = sorted(results, key=lambda result: ranking.index(result.estimator))
    calibration = next((result.calibration for result in results if result.calibration is not None), None)
    binding = binding_by_formula(features) if calibration is None else calibration.binding
    tables = Tables(
        comparison,
        breakdown_table(results, schemes, binding),
        totals_table(results, schemes),
        reliability_table(results, schemes),
        paired_table(results, schemes, features),
        None if calibration is None else calibration.rates,
    )
    champion = min(results, key=lambda result: cost(result.metrics[schemes[-1]], metric))
    card = model_card(champion, schemes, features, file_md5(features_path), simulated=simulated)
    text = page(tables, results, schemes, features, platforms, simulated=simulated)
    joined = pd.concat(
        [result.predictions[first].assign(estimator=result.estimator) for result in results],
        ignore_index=True,
    )
    output.mkdir(parents=True, exist_ok=True)
    columns = ["estimator", "accelerator", "network", "layer", "latency_ms", "predicted_ms"]
    for table, name in (
        (comparison, "comparison"),
        (tables.breakdown, "breakdown"),
        (tables.totals, "network_totals"),
        (tables.reliability, "reliability"),
        (tables.paired, "paired"),
        (joined[columns], "predicted_against_measured"),
    ):
        write_table(table, output / f"{name}.csv")
    _draw(joined, tables, output, first, shown={BASELINE, ranking[0]}, simulated=simulated)
    (output / "comparison.md").write_text(
        comparison_markdown(comparison, simulated=simulated), encoding="utf-8"
    )
    (output / "report.md").write_text(text, encoding="utf-8")
    (output / "model_card.md").write_text(card, encoding="utf-8")
    return Report(comparison, champion, card)


def _draw(
    joined: pd.DataFrame, tables: Tables, output: Path, scheme: str, *, shown: set[str], simulated: bool
) -> None:
    """Draw the pictures of the report; those that would be crowded show some estimators only."""
    predicted_against_measured(
        joined,
        output / "predicted_against_measured.png",
        title=f"Predicted against measured latency ({scheme})",
        simulated=simulated,
    )
    error_along_network(
        joined[joined["estimator"].isin(shown)],
        output / "error_along_network.png",
        title=f"Predicted over measured latency along the networks ({scheme})",
        simulated=simulated,
    )
    network_totals(
        tables.totals,
        output / "network_totals.png",
        title="Total latency of networks, predicted over measured",
        simulated=simulated,
    )
    reliability_diagram(
        tables.reliability,
        output / "reliability.png",
        title="Layers inside of their predicted intervals",
        simulated=simulated,
    )
