"""Trials of a sweep: one record for each evaluated configuration, and the table of all of them.

A trial writes its record (``result.json``) and its predictions into a folder of its own, so that
trials can run in other processes or on other machines. What belongs to one sweep is found by the
sweep's name in the records; older records in the same folder are left alone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from accelperf.layers import write_table

RECORD = "result.json"
PREDICTIONS = "predictions.csv"
TRIALS = "trials.csv"
BEST = "best.yaml"

FINISHED = "finished"
FAILED = "failed"

_HASH_DIGITS = 12
_TEXT_COLUMNS: tuple[str, ...] = ("accelerator", "network", "layer", "fold")


@dataclass(frozen=True)
class Trial:
    """One evaluated configuration.

    Attributes
    ----------
    number : int
        Place in the sweep, from 0.
    estimator : str
        Key of the estimator.
    settings : Mapping
        Its hyperparameters, all of them.
    scheme : str
        How folds were made.
    keep_twins : bool
        See `accelperf.evaluation.splits.make_folds`.
    point : str
        The overrides that make this point of the sweep, as typed.
    status : {"finished", "failed"}
        Whether there are metrics.
    metrics : Mapping
        Content of ``metrics.json``; empty if it failed.
    error : str
        Why it failed, in one line.
    sweep : str
        Name of the sweep that it belongs to.
    run_id : str
        MLflow run.
    features_md5, version : str
        MD5 of the features and version of the package.
    """

    number: int
    estimator: str
    settings: Mapping[str, Any]
    scheme: str
    keep_twins: bool
    point: str
    status: str
    metrics: Mapping[str, float | int | str] = field(default_factory=dict)
    error: str = ""
    sweep: str = ""
    run_id: str = ""
    features_md5: str = ""
    version: str = ""

    @property
    def finished(self) -> bool:
        """Whether the trial has metrics."""
        return self.status == FINISHED

    @property
    def mae_ms(self) -> float:
        """Mean absolute error [ms]; infinite if the trial failed."""
        return float(self.metrics["mae_ms"]) if self.finished else float("inf")

    @property
    def configuration(self) -> str:
        """Short hash of the estimator and its hyperparameters."""
        return configuration_hash(self.estimator, self.settings)

    def write(self, folder: Path) -> None:
        """Write the record into the trial's folder."""
        temporary = folder / f"{RECORD}.part"
        temporary.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")
        temporary.replace(folder / RECORD)


def configuration_hash(estimator: str, settings: Mapping[str, Any]) -> str:
    """Return a short hash of an estimator with its hyperparameters, whatever their order."""
    text = json.dumps({"estimator": estimator, "settings": dict(settings)}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:_HASH_DIGITS]


def read_trials(folder: Path, sweep: str) -> dict[Path, Trial]:
    """Return the trials of a sweep below a folder, by their folders, in the order of the grid."""
    found = []
    for path in folder.glob(f"*/**/{RECORD}"):
        record = json.loads(path.read_text(encoding="utf-8"))
        if record["sweep"] == sweep:
            found.append((path.parent, Trial(**record)))
    return dict(sorted(found, key=lambda item: item[1].number))


def read_predictions(folder: Path) -> pd.DataFrame:
    """Return the predictions that a trial wrote, exactly."""
    return pd.read_csv(
        folder / PREDICTIONS,
        dtype=dict.fromkeys(_TEXT_COLUMNS, "str"),
        keep_default_na=False,
        na_values={name: [""] for name in ("std_ms", "lower_ms", "upper_ms")},
        float_precision="round_trip",
    )


def ranked(trials: Sequence[Trial]) -> list[Trial]:
    """Return the trials with the best first and failed ones last; on a tie the earlier point wins.

    Errors under different schemes do not compare: they are ranked scheme by scheme.
    """
    schemes = list(dict.fromkeys(trial.scheme for trial in trials))
    return sorted(
        trials,
        key=lambda trial: (not trial.finished, schemes.index(trial.scheme), trial.mae_ms, trial.number),
    )


def best_trial(trials: Sequence[Trial]) -> Trial | None:
    """Return the trial with the least error; None if all failed or schemes differ."""
    if len({trial.scheme for trial in trials}) != 1:
        return None
    best = ranked(trials)[0]
    return best if best.finished else None


def trials_table(trials: Sequence[Trial]) -> pd.DataFrame:
    """Return the table of a sweep, best first.

    Parameters
    ----------
    trials : sequence of Trial
        In any order.

    Returns
    -------
    DataFrame
        One row a trial: estimator, scheme, hyperparameters, metrics, status, error, hash of the
        configuration.
    """
    rows = []
    for trial in ranked(trials):
        metrics = {name: value for name, value in trial.metrics.items() if name != "scheme"}
        rows.append(
            {
                "estimator": trial.estimator,
                "scheme": trial.scheme,
                **{name: _plain(value) for name, value in trial.settings.items()},
                **metrics,
                "status": trial.status,
                "error": trial.error,
                "configuration": trial.configuration,
            }
        )
    # Columns that only some trials have go to where the first of these trials has them.
    names: list[str] = []
    for row in rows:
        previous = -1
        for name in row:
            if name not in names:
                names.insert(previous + 1, name)
            previous = names.index(name)
    return pd.DataFrame(rows, columns=names)


def _plain(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, list | dict) else value


def write_trials(trials: Sequence[Trial], path: Path) -> None:
    """Write ``trials.csv`` (see `trials_table`)."""
    write_table(trials_table(trials), path)


def write_best(trial: Trial, path: Path) -> None:
    """Write ``best.yaml``: the selected configuration and the figure that selected it."""
    content = {
        "estimator": trial.estimator,
        "configuration": trial.configuration,
        "scheme": trial.scheme,
        "mae_ms": trial.mae_ms,
        "settings": dict(trial.settings),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".part")
    temporary.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    temporary.replace(path)
