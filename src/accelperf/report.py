"""The report: what the data are, how the estimators compare, and pictures of it.

It reads what earlier stages wrote and writes tables (CSV, Markdown) and pictures. The data set's
statistics, the platforms and the comparison have the form of Tables 3, 4 and 5 of the paper
(Ferianc et al., ARC 2020).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from accelperf.errors import InputError
from accelperf.evaluation.cross_validation import PREDICTION_COLUMNS
from accelperf.features import FeatureMatrix, read_features
from accelperf.layers import write_table
from accelperf.parameters import BY_NAME, PARAMETERS
from accelperf.pictures import error_along_network, predicted_against_measured
from accelperf.platforms import MemoryPattern, Platform, get_platform, read_platforms
from accelperf.trials import PREDICTIONS, read_predictions
from accelperf.yaml_input import read_mapping

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

_NESTED_NOTE = (
    "*Nested selection* is the MAE where the configuration is selected anew for each fold, without the rows "
    "that the fold leaves out. "
)
SIMULATED_NOTE = "**SIMULATED data.** Latencies come from a simulator, not from hardware."


@dataclass(frozen=True)
class Result:
    """What training left of one estimator.

    Attributes
    ----------
    estimator : str
        Its key.
    settings : dict
        Hyperparameters of the best configuration.
    run_id : str
        MLflow run of that configuration.
    metrics : dict
        ``metrics.json`` by scheme.
    predictions : dict
        ``predictions.csv`` by scheme.
    """

    estimator: str
    settings: dict[str, Any]
    run_id: str
    metrics: dict[str, dict[str, Any]]
    predictions: dict[str, pd.DataFrame]

    @property
    def configuration(self) -> str:
        """The hyperparameters in one line."""
        return "; ".join(f"{name}={_plain(value)}" for name, value in sorted(self.settings.items()))


def _plain(value: Any) -> str:
    return "[" + " ".join(map(str, value)) + "]" if isinstance(value, list) else str(value)


def _read_json(path: Path, key: str, kind: type) -> dict[str, Any]:
    """Read a JSON object that must hold a value of some kind under a key."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError("a result of the train stage", "no file of this name", file=path) from None
    except (OSError, ValueError) as error:
        raise InputError("readable JSON", str(error), file=path) from None
    value = content.get(key) if isinstance(content, dict) else None
    if not isinstance(value, kind) or (isinstance(value, float) and not math.isfinite(value)):
        raise InputError(f"a JSON object with {key!r} ({kind.__name__})", repr(value), file=path)
    return dict(content)


def _read_predictions(folder: Path, rows: int) -> pd.DataFrame:
    path = folder / PREDICTIONS
    try:
        table = read_predictions(folder)
    except FileNotFoundError:
        raise InputError("a result of the train stage", "no file of this name", file=path) from None
    except (OSError, ValueError) as error:
        raise InputError("a table of predictions", str(error).splitlines()[0], file=path) from None
    missing = [name for name in PREDICTION_COLUMNS if name not in table.columns]
    if missing:
        raise InputError(f"a column {missing[0]!r}", "none", file=path, line=1)
    if len(table) != rows:
        raise InputError(
            f"a prediction for each of the {rows} rows of the features", str(len(table)), file=path
        )
    for name in ("latency_ms", "predicted_ms"):
        numbers = pd.to_numeric(table[name], errors="coerce")
        wrong = ~np.isfinite(numbers)
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            raise InputError(f"{name} as a number", repr(table[name].iloc[row]), file=path, line=row + 2)
    return table


def read_result(folder: Path, schemes: Iterable[str], rows: int) -> Result:
    """Read what training left of one estimator.

    Parameters
    ----------
    folder : Path
        ``results/KEY``.
    schemes : iterable of str
        The schemes to read.
    rows : int
        Rows of the features that all predictions must cover.

    Raises
    ------
    InputError
        If a file is missing, damaged, or not about these features.
    """
    best, _ = read_mapping(folder / "best.yaml")
    if not isinstance(best.get("settings"), dict):
        raise InputError(
            "the key 'settings', a mapping", repr(best.get("settings")), file=folder / "best.yaml"
        )
    run = _read_json(folder / "mlflow.json", "run_id", str)
    metrics, predictions = {}, {}
    for scheme in schemes:
        metrics[scheme] = _read_json(folder / scheme / "metrics.json", "mae_ms", float)
        predictions[scheme] = _read_predictions(folder / scheme, rows)
    return Result(folder.name, dict(best["settings"]), run["run_id"], metrics, predictions)


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


def markdown_table(rows: Sequence[Sequence[str]], header: Sequence[str]) -> str:
    """Return a Markdown table whose columns also line up as plain text."""
    widths = [max(len(row[column]) for row in [header, *rows]) for column in range(len(header))]

    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)) + " |"

    ruler = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([line(header), ruler, *map(line, rows)]) + "\n"


def _percent(value: Any) -> str:
    return "–" if value is None or pd.isna(value) else f"{100 * float(value):.1f} %"


def _milliseconds(value: Any) -> str:
    return "–" if value is None or pd.isna(value) else f"{float(value):.4f}"


def comparison_markdown(comparison: pd.DataFrame, *, simulated: bool) -> str:
    """Return the comparison in the form of the paper's Table 5, one table a scheme."""
    parts = [SIMULATED_NOTE + "\n"] if simulated else []
    for scheme, rows in comparison.groupby("scheme", sort=False):
        nested = NESTED in rows and bool(rows[NESTED].notna().any())
        cells = [
            [
                row["estimator"],
                f"{row['mae_ms']:.4f}",
                *([_milliseconds(row[NESTED])] if nested else []),
                _percent(row["improvement_vs_standard"]),
                _percent(row["mape"]),
                _percent(row["within_10pct"]),
                _percent(row["network_total_mape"]),
                _percent(row["coverage_95"]),
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


def statistics_markdown(features: FeatureMatrix) -> str:
    """Return least, mean and greatest value of latency and of each parameter (paper's Table 3)."""
    table = features.table
    rows = []
    for accelerator, part in [("all", table), *table.groupby("accelerator", sort=True)]:
        latency = part["latency_ms"]
        rows.append(
            [
                str(accelerator),
                str(len(part)),
                str(part["network"].nunique()),
                f"{latency.min():.3f}",
                f"{latency.mean():.3f}",
                f"{latency.max():.3f}",
                ", ".join(sorted(set(part["origin"]))),
            ]
        )
    header = ["accelerator", "rows", "networks", "min [ms]", "mean [ms]", "max [ms]", "origin"]
    parameters = [
        [
            parameter.name,
            parameter.symbol,
            parameter.unit,
            *(f"{value:g}" for value in (column.min(), round(column.mean(), 3), column.max())),
        ]
        for parameter in PARAMETERS
        for column in [table[parameter.name]]
    ]
    return (
        markdown_table(rows, header)
        + "\n"
        + markdown_table(parameters, ["parameter", "symbol", "unit", "min", "mean", "max"])
    )


def platforms_markdown(platforms: Sequence[Platform], features: FeatureMatrix) -> str:
    """Return the platforms with the memory efficiency that was used (paper's Table 4)."""
    efficiency = features.table.groupby("accelerator")["memory_efficiency"].agg(["min", "max"])
    rows = []
    for platform in platforms:
        pattern = platform.memory_efficiency
        where = f" ({pattern.profile})" if isinstance(pattern, MemoryPattern) else ""
        rows.append(
            [
                platform.name,
                str(platform.filter_parallelism),
                f"{platform.channel_parallelism} {platform.unrolled_loop}",
                f"{platform.logic_clock_mhz:g}",
                f"{platform.memory_clock_mhz:g}",
                f"{platform.ports} x {platform.transfer_width_bits}",
                f"{platform.memory_peak_gbps:.4g}",
                f"{_range(*efficiency.loc[platform.name])}{where}",
                str(platform.data_width_bits),
            ]
        )
    header = [
        "platform",
        "PF",
        "PC",
        f"L_CLK [{BY_NAME['logic_clock_mhz'].unit}]",
        f"M_CLK [{BY_NAME['memory_clock_mhz'].unit}]",
        "ports x S [bit]",
        "peak [GB/s]",
        "M_EFF",
        "DW [bit]",
    ]
    notes = "".join(f"\n* `{p.name}`: {p.source or 'no source stated'}" for p in platforms)
    return markdown_table(rows, header) + notes + "\n"


def _range(low: float, high: float) -> str:
    return _percent(low) if low == high else f"{100 * low:.1f} to {_percent(high)}"


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


def write_report(
    *,
    results_folder: Path,
    features_path: Path,
    platforms_folder: Path,
    output: Path,
    models: Sequence[str],
    schemes: Sequence[str],
) -> pd.DataFrame:
    """Write tables and pictures, and return the comparison.

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

    Returns
    -------
    DataFrame
        The comparison, as `compare` returns it.

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
    joined = pd.concat(
        [
            result.predictions[first].assign(estimator=result.estimator)
            for result in sorted(results, key=lambda item: ranking.index(item.estimator))
        ],
        ignore_index=True,
    )
    table = comparison_markdown(comparison, simulated=simulated)
    best = ranking[0]
    page = "\n".join(
        [
            "# Comparison of latency estimators\n",
            table,
            f"The configuration of each estimator was selected by its MAE under `{first}`, the figures "
            f"of which are therefore slightly flattering. {_NESTED_NOTE if NESTED in comparison else ''}"
            "Layers that share a shape help each other "
            "under `loo`; the `leave_one_…_out` schemes show what remains without that.\n",
            f"MAE by accelerator under `{first}`:\n\n{by_accelerator_markdown(results, first)}",
            "![Predicted against measured latency](predicted_against_measured.png)\n",
            "![Predicted over measured latency along the networks](error_along_network.png)\n",
            f"## Data\n\n{statistics_markdown(features)}",
            f"## Platforms\n\n{platforms_markdown(platforms, features)}",
            "## Configurations\n\n"
            + "".join(f"* `{result.estimator}`: {result.configuration}\n" for result in results),
        ]
    )
    output.mkdir(parents=True, exist_ok=True)
    write_table(comparison, output / "comparison.csv")
    columns = ["estimator", "accelerator", "network", "layer", "latency_ms", "predicted_ms"]
    write_table(joined[columns], output / "predicted_against_measured.csv")
    predicted_against_measured(
        joined,
        output / "predicted_against_measured.png",
        title=f"Predicted against measured latency ({first})",
        simulated=simulated,
    )
    shown = joined[joined["estimator"].isin({BASELINE, best})]
    error_along_network(
        shown,
        output / "error_along_network.png",
        title=f"Predicted over measured latency along the networks ({first})",
        simulated=simulated,
    )
    (output / "comparison.md").write_text(table, encoding="utf-8")
    (output / "report.md").write_text(page, encoding="utf-8")
    return comparison
