"""Results of training, published: every scheme, the final fit, the files that others read.

The best configuration of a sweep (or a single one) is evaluated under every scheme of
``params.yaml``, fitted to all rows and written to ``results/KEY`` and ``models/KEY``, together or
not at all.
"""

from __future__ import annotations

import hashlib
import json
import math
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from accelperf import pictures
from accelperf.bundle import MANIFEST, save_bundle
from accelperf.errors import print_warning
from accelperf.evaluation import cross_validation
from accelperf.evaluation.breakdown import leak_warning
from accelperf.evaluation.nested import NestedSelection
from accelperf.evaluation.reliability import reliability
from accelperf.features import FeatureMatrix, read_features
from accelperf.layers import file_md5, write_table
from accelperf.models.base import Estimator, FitError
from accelperf.models.calibrated_predictor import CalibratedPredictor
from accelperf.models.calibrated_rates import layer_table, rate_table
from accelperf.models.catalog import create
from accelperf.progress import FoldProgress
from accelperf.settings import read_evaluation, read_settings
from accelperf.tracking import Dataset, Run
from accelperf.trials import (
    BEST,
    LAYERS,
    PREDICTIONS,
    RATES,
    TRIALS,
    Configuration,
    Trial,
    finished_trial,
    point_folder,
    read_predictions,
    write_best,
    write_trials,
)

RESULTS_FOLDER = Path("results")
MODELS_FOLDER = Path("models")
METRICS_FOLDER = Path("reports/metrics")
METRICS = "metrics.json"
INGESTION = Path("interim/ingest_profiles.json")
"""What the ingestion read, seen from the folder that holds ``processed/features.csv``."""
IDENTITY = "mlflow.json"
LAYOUT = 2
"""Number of what is published; results of another number are published anew."""


@dataclass(frozen=True)
class TrainingData:
    """The rows that a run learns from.

    Attributes
    ----------
    features : FeatureMatrix
        The rows.
    md5 : str
        MD5 of their file.
    path : Path
        The file.
    """

    features: FeatureMatrix
    md5: str
    path: Path

    @classmethod
    def read(cls, path: Path) -> TrainingData:
        """Read ``features.csv``."""
        return cls(read_features(path), file_md5(path), path)

    @property
    def dataset(self) -> Dataset:
        """The rows and the logs that they come from, for MLflow."""
        table = self.features.table
        profile: dict[str, Any] = {
            "rows": len(table),
            "origin": self.origin,
            "accelerators": sorted(set(table["accelerator"])),
            "networks": sorted(set(table["network"])),
        }
        account = self.path.parent.parent / INGESTION
        if account.is_file():
            logs = json.loads(account.read_text(encoding="utf-8"))["files"]
            profile["logs"] = [
                {name: log[name] for name in ("file", "md5", "format", "rows_read", "rows_kept")}
                for log in logs
            ]
        columns = {str(name): str(kind) for name, kind in table.dtypes.items()}
        return Dataset(self.path.name, self.md5, self.path.as_posix(), columns, profile)

    @property
    def origin(self) -> str:
        """Where the latencies come from: measured, simulated, estimated, or mixed."""
        origins = sorted(set(self.features.table["origin"]))
        return str(origins[0]) if len(origins) == 1 else "mixed"

    @property
    def simulated(self) -> bool:
        """Whether any latency was simulated."""
        return bool((self.features.table["origin"] == "simulated").any())

    @property
    def label(self) -> str:
        """What names and messages carry after simulated results; empty after measured ones."""
        if not self.simulated:
            return ""
        return " SIMULATED" if self.origin == "simulated" else " partly SIMULATED"


def check_finite(metrics: Mapping[str, float | int | str], scheme: str) -> None:
    """Raise `FitError` for a figure that is not a finite number: such a run is no success."""
    for name, value in metrics.items():
        if not isinstance(value, str) and not math.isfinite(value):
            raise FitError(f"{name} under {scheme} is {value}, not a finite number")


def log_pictures(run: Run, predictions: pd.DataFrame, key: str, scheme: str, data: TrainingData) -> None:
    """Draw predictions and store the pictures with a run."""
    with tempfile.TemporaryDirectory() as folder:
        for draw in (pictures.predicted_against_measured, pictures.error_along_network):
            path = Path(folder) / f"{scheme}_{draw.__name__}.png"
            draw(predictions, path, title=f"{key}, {scheme}", simulated=data.simulated)
            run.log_file(path, "pictures")
        if predictions["lower_ms"].notna().all():
            path = Path(folder) / f"{scheme}_reliability.png"
            coverage = reliability(predictions).assign(estimator=key, scheme=scheme)
            pictures.reliability_diagram(coverage, path, title=f"{key}, {scheme}", simulated=data.simulated)
            run.log_file(path, "pictures")


def publish(
    best: Trial,
    predictions: Path,
    trials: Sequence[Trial],
    data: TrainingData,
    run: Run,
    parent: Run | None,
    *,
    kept: Path,
    nested_schemes: Sequence[str] = (),
    nested: Mapping[str, NestedSelection] | None = None,
    extra: Mapping[str, Path] | None = None,
) -> None:
    """Evaluate the best configuration under every scheme, fit it to all rows, write both.

    Parameters
    ----------
    best : Trial
        The configuration, evaluated under the first scheme of ``params.yaml``.
    predictions : Path
        Its predictions; that scheme is not computed again.
    trials : sequence of Trial
        All points of the sweep.
    data : TrainingData
        The rows.
    run : Run
        The MLflow run of the best configuration, which gets everything.
    parent : Run, optional
        The sweep's run, which gets the figures.
    kept : Path
        Folder where evaluations are kept: those under further schemes are looked up there, and
        left there for the next time.
    nested_schemes : sequence of str
        Schemes whose figures get the error of nested selection beside their own.
    nested : Mapping, optional
        Nested selection by scheme; where there was a single point, there was no selection, and its
        error is that of the point.
    extra : Mapping, optional
        Further files of the sweep, by where they go in ``results/KEY``.

    Notes
    -----
    Writes ``results/KEY/{trials.csv, best.yaml, mlflow.json}``, for a calibrated estimator also
    ``rates.csv`` and ``layers.csv``,
    ``results/KEY/SCHEME/{metrics.json, predictions.csv}``, ``reports/metrics/KEY.json`` and
    ``models/KEY``, after everything was computed; earlier files stay if anything fails. If all of
    them are there and come from the same evaluations, nothing is done.
    """
    key = best.estimator
    further = {
        scheme: Configuration(key, best.settings, scheme, read_evaluation(Path(), scheme).keep_twins)
        for scheme in read_settings(Path()).schemes
    }
    identity = _identity(best, trials, further, run, parent, nested or {}, nested_schemes)
    if _is_published(key, list(further), identity):
        print(f"{RESULTS_FOLDER / key} and {MODELS_FOLDER / key} are up to date")
        return
    estimator = create(key, best.settings)
    metrics: dict[str, dict[str, Any]] = {}
    with _staging(RESULTS_FOLDER / key) as results, _staging(MODELS_FOLDER / key) as model:
        for scheme, configuration in further.items():
            warning = leak_warning(data.features, scheme, keep_twins=configuration.keep_twins)
            if warning is not None:
                print_warning(warning)
            target = results / scheme / PREDICTIONS
            target.parent.mkdir()
            if scheme == best.scheme:
                metrics[scheme] = dict(best.metrics)
                shutil.copyfile(predictions, target)
            else:
                trial = _evaluate_further(configuration, estimator, best, data, kept)
                metrics[scheme] = dict(trial.metrics)
                shutil.copyfile(point_folder(kept, trial.fingerprint) / PREDICTIONS, target)
                run.log_file(target, f"predictions/{scheme}")
            if scheme in nested_schemes:
                selection = (nested or {}).get(scheme)
                own = {"nested_mae_ms": metrics[scheme]["mae_ms"], "nested_configurations": 1}
                metrics[scheme] |= own if selection is None else selection.metrics
            if metrics[scheme] != dict(best.metrics):
                run.log_metrics(scheme, metrics[scheme])
                if parent is not None:
                    parent.log_metrics(scheme, metrics[scheme])
            _write_json(results / scheme / METRICS, metrics[scheme])
            log_pictures(run, read_predictions(target.parent), key, scheme, data)
        for name, path in (extra or {}).items():
            if (results / name).parent.is_dir():
                shutil.copyfile(path, results / name)
        write_trials(trials, results / TRIALS)
        write_best(best, results / BEST)
        _write_json(results / IDENTITY, identity)
        predictor = estimator.fit(data.features)
        if isinstance(predictor, CalibratedPredictor):
            write_table(rate_table(predictor), results / RATES)
            write_table(layer_table(predictor, data.features), results / LAYERS)
            for name in (RATES, LAYERS):
                run.log_file(results / name, "calibration")
        save_bundle(
            predictor,
            model,
            estimator=key,
            settings=best.settings,
            features=data.features,
            features_md5=data.md5,
            metrics=metrics,
        )
        run.log_folder(model, "bundle")
    METRICS_FOLDER.mkdir(parents=True, exist_ok=True)
    _write_json(METRICS_FOLDER / f"{key}.json", metrics)
    for scheme, figures in metrics.items():
        print(f"{key} {scheme}: {figures_line(figures)}{data.label}")


def _evaluate_further(
    configuration: Configuration, estimator: Estimator, best: Trial, data: TrainingData, kept: Path
) -> Trial:
    """Return the evaluation under a further scheme, found or made."""
    fingerprint = configuration.fingerprint(data.md5)
    found = finished_trial(kept, fingerprint)
    if found is not None:
        return found
    key, scheme = configuration.estimator, configuration.scheme
    with FoldProgress(f"{key} {scheme}{data.label}") as progress:
        evaluation = cross_validation.evaluate(
            estimator, data.features, scheme, keep_twins=configuration.keep_twins, progress=progress
        )
    check_finite(evaluation.metrics, scheme)
    # It belongs to no sweep: no table of one may show it.
    trial = replace(
        best,
        number=0,
        scheme=scheme,
        keep_twins=configuration.keep_twins,
        point="",
        sweep="",
        metrics=evaluation.metrics,
    )
    folder = point_folder(kept, trial.fingerprint)
    folder.mkdir(parents=True, exist_ok=True)
    write_table(evaluation.predictions, folder / PREDICTIONS)
    trial.write(folder)
    return trial


def _identity(
    best: Trial,
    trials: Sequence[Trial],
    further: Mapping[str, Configuration],
    run: Run,
    parent: Run | None,
    nested: Mapping[str, NestedSelection],
    nested_schemes: Sequence[str],
) -> dict[str, Any]:
    """Return the content of ``mlflow.json``: the runs, and a hash of what was published from."""
    content = [
        best.fingerprint,
        sorted(trial.fingerprint for trial in trials),
        [configuration.fingerprint(best.features_md5) for configuration in further.values()],
        {scheme: nested[scheme].metrics if scheme in nested else None for scheme in nested_schemes},
    ]
    return {
        "run_id": run.run_id,
        "sweep_run_id": None if parent is None else parent.run_id,
        "layout": LAYOUT,
        "evaluations": hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16],
    }


def _is_published(key: str, schemes: Sequence[str], identity: Mapping[str, Any]) -> bool:
    """Tell whether everything is there, from the same runs and evaluations."""
    results = RESULTS_FOLDER / key
    files = [results / TRIALS, results / BEST, METRICS_FOLDER / f"{key}.json"]
    files += [results / scheme / name for scheme in schemes for name in (METRICS, PREDICTIONS)]
    files += [MODELS_FOLDER / key / MANIFEST]
    if not all(file.is_file() for file in files):
        return False
    try:
        return bool(json.loads((results / IDENTITY).read_text(encoding="utf-8")) == identity)
    except (OSError, ValueError):
        return False


@contextmanager
def _staging(target: Path) -> Iterator[Path]:
    """Give a folder to write into, which takes the place of `target` if all goes well."""
    staged = target.with_name(f"{target.name}.part")
    shutil.rmtree(staged, ignore_errors=True)
    staged.mkdir(parents=True)
    try:
        yield staged
        if target.exists():
            shutil.rmtree(target)
        staged.replace(target)
    finally:
        shutil.rmtree(staged, ignore_errors=True)


def _write_json(path: Path, content: Any) -> None:
    temporary = path.with_name(path.name + ".part")
    temporary.write_text(json.dumps(content, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    temporary.replace(path)


def figures_line(metrics: Mapping[str, Any]) -> str:
    """Return the main figures of a ``metrics.json`` for people."""
    text = f"MAE {metrics['mae_ms']:.4g} ms"
    if "mape" in metrics:
        text += f", MAPE {100 * metrics['mape']:.1f} %"
    if "within_10pct" in metrics:
        text += f", {100 * metrics['within_10pct']:.0f} % of rows within 10 %"
    return text
