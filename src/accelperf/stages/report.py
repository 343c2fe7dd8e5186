"""Stage ``report``: the comparison, and the best estimator in the model registry."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from accelperf.features import read_features
from accelperf.layers import file_md5
from accelperf.report import Report, write_report
from accelperf.settings import Settings

DEFAULT_METRIC = "mape"
"""What tells the best estimator, of which a card is written, where none is registered."""


def run(
    root: Path, settings: Settings, results: Path, models: Path, features: Path, output: Path
) -> list[str]:
    """Write tables, pictures and the model card, and register the best estimator.

    Parameters
    ----------
    root : Path
        The project.
    settings : Settings
        Its ``params.yaml``.
    results, models : Path
        Folders that the train stages wrote.
    features : Path
        ``features.csv``.
    output : Path
        Folder to write into.

    Returns
    -------
    list of str
        Lines that sum it up.

    Raises
    ------
    InputError
        If a result is missing or damaged, or the MLflow store cannot be used.
    """
    report = write_report(
        results_folder=results,
        features_path=features,
        platforms_folder=root / settings.platforms,
        output=output,
        models=settings.models,
        schemes=settings.schemes,
        metric=settings.champion or DEFAULT_METRIC,
    )
    groups = report.comparison.groupby("scheme", sort=False)
    lines = [_best_line(str(scheme), rows) for scheme, rows in groups]
    if settings.champion is not None:
        lines.append(_register(root, settings, report, models, features, settings.champion))
    return lines


def _best_line(scheme: str, rows: pd.DataFrame) -> str:
    best = rows.iloc[0]
    line = f"{scheme}: best is {best['estimator']}, MAE {best['mae_ms']:.4g} ms"
    if best["improvement_vs_standard"] == best["improvement_vs_standard"]:
        line += f", {100 * best['improvement_vs_standard']:.1f} % better than standard"
    return line


def _register(
    root: Path, settings: Settings, report: Report, models: Path, features: Path, metric: str
) -> str:
    # MLflow takes seconds to import.
    from accelperf.registry import Candidate, register
    from accelperf.tracking import open_store

    best = report.champion
    candidate = Candidate(
        best.estimator, models / best.estimator, best.run_id, best.metrics, file_md5(features)
    )
    return register(
        open_store(root),
        candidate,
        read_features(features),
        report.card,
        scheme=settings.schemes[-1],
        metric=metric,
    )
