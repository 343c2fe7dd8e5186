"""The model card: what an estimator learned from, how well it did, and where it must not be trusted."""

from __future__ import annotations

from collections.abc import Sequence

from accelperf.features import FeatureMatrix
from accelperf.parameters import PARAMETERS
from accelperf.report.results import Result
from accelperf.report.text import SIMULATED_NOTE, markdown_table, milliseconds, percent


def model_card(
    result: Result, schemes: Sequence[str], features: FeatureMatrix, features_md5: str, *, simulated: bool
) -> str:
    """Return the model card of an estimator as Markdown.

    Parameters
    ----------
    result : Result
        What training left of it.
    schemes : sequence of str
        Schemes under which it was evaluated.
    features : FeatureMatrix
        The rows that it learned from.
    features_md5 : str
        MD5 of their file.
    simulated : bool
        Whether any latency was not measured.
    """
    table = features.table
    sections = [f"# Latency of CNN layers: {result.estimator}\n"]
    if simulated:
        sections.append(SIMULATED_NOTE + "\n")
    sections += [
        f"Predicts how long a convolution takes on an FPGA accelerator [ms]. Configuration: "
        f"{result.configuration}.\n",
        "## Data\n\n"
        f"{len(table)} layers of {', '.join(sorted(set(table['network'])))} on "
        f"{', '.join(sorted(set(table['accelerator'])))}; origin: {', '.join(sorted(set(table['origin'])))}. "
        f"MD5 of features.csv: {features_md5}.\n",
        f"## Evaluation\n\n{_figures(result, schemes)}",
        "Every figure is about layers that the fit had not seen. The configuration was selected by the MAE "
        f"under `{schemes[0]}`.\n",
        f"## Range of the training data\n\n{_range(features)}",
        "## Limits\n\n"
        "* Outside of the range above, and on accelerators unlike those above, nothing has been tested.\n"
        "* Convolutions only; without dilation. Time between layers, other operators and the host is not in "
        "the figures.\n"
        "* A layer that shares its shape with a training row is recalled more than predicted: `loo` shows "
        "that, the other schemes do not.\n",
    ]
    return "\n".join(sections)


def _figures(result: Result, schemes: Sequence[str]) -> str:
    rows = []
    for scheme in schemes:
        metrics = result.metrics[scheme]
        rows.append(
            [
                scheme,
                milliseconds(metrics.get("mae_ms")),
                percent(metrics.get("mape")),
                percent(metrics.get("within_10pct")),
                percent(metrics.get("network_total_mape")),
                percent(metrics.get("coverage_95")),
            ]
        )
    header = ["scheme", "MAE [ms]", "MAPE", "within 10 %", "network totals off by", "in 95 % interval"]
    return markdown_table(rows, header)


def _range(features: FeatureMatrix) -> str:
    rows = [
        [parameter.name, parameter.unit, f"{column.min():g}", f"{column.max():g}"]
        for parameter in PARAMETERS
        for column in [features.table[parameter.name]]
    ]
    return markdown_table(rows, ["parameter", "unit", "least", "greatest"])
