"""The estimators side by side, in the form of the paper's Table 5 (Ferianc et al., ARC 2020)."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from accelperf.report.results import Result
from accelperf.report.text import SIMULATED_NOTE, markdown_table, milliseconds, percent

BASELINE = "standard"

COMPARISON_COLUMNS: tuple[str, ...] = (
    "estimator",
    "scheme",
    "mae_ms",
    "improvement_vs_standard",
    "mape",
    "within_10pct",
    "network_total_mape",
    "coverage_95",
    "configuration",
    "mlflow_run_id",
)

NESTED = "nested_mae_ms"
"""Column after ``mae_ms`` where the selection was nested under some scheme."""

NESTED_NOTE = (
    "*Nested selection* is the MAE where the configuration is selected anew for each fold, without the rows "
    "that the fold leaves out. "
)


def compare(results: Sequence[Result], schemes: Sequence[str]) -> pd.DataFrame:
    """Return the comparison table, `COMPARISON_COLUMNS`, best mean absolute error first.

    ``improvement_vs_standard`` is 1 - MAE / MAE of ``standard`` under the same scheme; empty where
    ``standard`` was not evaluated. With nested selection (`accelperf.evaluation.nested`) there is a
    column ``nested_mae_ms`` beside ``mae_ms``, empty where it was not asked for.
    """
    baseline = {
        scheme: float(result.metrics[scheme]["mae_ms"])
        for result in results
        if result.estimator == BASELINE
        for scheme in schemes
    }
    rows = []
    for scheme in schemes:
        for result in sorted(results, key=lambda item: float(item.metrics[scheme]["mae_ms"])):
            figures = result.metrics[scheme]
            improvement = None
            if baseline.get(scheme):
                improvement = 1 - float(figures["mae_ms"]) / baseline[scheme]
            rows.append(
                {
                    "estimator": result.estimator,
                    "scheme": scheme,
                    "improvement_vs_standard": improvement,
                    **{
                        name: figures.get(name)
                        for name in (
                            "mae_ms",
                            NESTED,
                            "mape",
                            "within_10pct",
                            "network_total_mape",
                            "coverage_95",
                        )
                    },
                    "configuration": result.configuration,
                    "mlflow_run_id": result.run_id,
                }
            )
    columns = list(COMPARISON_COLUMNS)
    if any(row[NESTED] is not None for row in rows):
        columns.insert(columns.index("mae_ms") + 1, NESTED)
    return pd.DataFrame(rows, columns=columns)


def comparison_markdown(comparison: pd.DataFrame, *, simulated: bool) -> str:
    """Return the comparison in the form of the paper's Table 5, one table a scheme."""
    parts = [SIMULATED_NOTE + "\n"] if simulated else []
    for scheme, rows in comparison.groupby("scheme", sort=False):
        nested = NESTED in rows and bool(rows[NESTED].notna().any())
        cells = [
            [
                row["estimator"],
                f"{row['mae_ms']:.4f}",
                *([milliseconds(row[NESTED])] if nested else []),
                percent(row["improvement_vs_standard"]),
                percent(row["mape"]),
                percent(row["within_10pct"]),
                percent(row["network_total_mape"]),
                percent(row["coverage_95"]),
            ]
            for row in rows.to_dict("records")
        ]
        header = [
            "estimator",
            "MAE [ms]",
            *(["nested selection [ms]"] if nested else []),
            "better than standard",
            "MAPE",
            "within 10 %",
            "network totals off by",
            "in 95 % interval",
        ]
        parts.append(f"Cross-validation `{scheme}`:\n\n{markdown_table(cells, header)}")
    return "\n".join(parts)


def by_accelerator_markdown(results: Sequence[Result], scheme: str) -> str:
    """Return the mean absolute error of each estimator on each accelerator."""
    tables = {result.estimator: result.predictions[scheme] for result in results}
    errors = pd.DataFrame(
        {
            name: (table["predicted_ms"] - table["latency_ms"]).abs().groupby(table["accelerator"]).mean()
            for name, table in tables.items()
        }
    )
    rows = [[name, *(f"{errors.loc[a, name]:.4f}" for a in errors.index)] for name in errors.columns]
    return markdown_table(rows, ["MAE [ms]", *map(str, errors.index)])
