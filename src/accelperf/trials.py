"""Trials of a sweep: one record for each evaluated configuration, and the table of all of them.

A trial writes its record (``result.json``) and its predictions into a folder of its own, so that
trials can run in other processes or on other machines. The folder is named by a hash of everything
that decides the result (`Configuration.fingerprint`), so that what was evaluated once is found again
by any later sweep in the same place, however that sweep numbers its points. What belongs to a sweep
is found by the sweep's name in the records; others are left alone.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from accelperf import __version__
from accelperf.errors import InputError
from accelperf.layers import write_table
from accelperf.models.catalog import check_settings

POINTS = "points"
"""Folder of the trials' folders, in the folder of a sweep."""
RECORD = "result.json"
PREDICTIONS = "predictions.csv"
TRIALS = "trials.csv"
BEST = "best.yaml"
RATES = "rates.csv"
"""Rates that a calibrated estimator read from the data, fitted to all rows."""
LAYERS = "layers.csv"
"""What binds each layer, by the same fit."""

FINISHED = "finished"
FAILED = "failed"

_HASH_DIGITS = 12
_FINGERPRINT_DIGITS = 16
_SOURCES: tuple[str, ...] = (
    "analytic.py", "evaluation", "features.py", "layers.py", "models", "parameters.py",
)  # fmt: skip
"""Source of this package that decides what an evaluation finds."""
_WITHOUT_EFFECT: dict[tuple[str, str], tuple[str, ...]] = {("optimizer", "lbfgs"): ("learning_rate",)}
"""Hyperparameters that change nothing beside the value of another one: L-BFGS searches its steps."""
_TEXT_COLUMNS: tuple[str, ...] = ("accelerator", "network", "layer", "fold")


@dataclass(frozen=True)
class Configuration:
    """What is evaluated, and how.

    Attributes
    ----------
    estimator : str
        Key of the estimator.
    settings : Mapping
        Its hyperparameters, all of them.
    scheme : str
        How folds are made.
    keep_twins : bool
        See `accelperf.evaluation.splits.make_folds`.
    """

    estimator: str
    settings: Mapping[str, Any]
    scheme: str
    keep_twins: bool = False

    @classmethod
    def complete(
        cls, estimator: str, settings: Mapping[str, Any], scheme: str, keep_twins: bool
    ) -> Configuration:
        """Return a configuration with defaults filled in; as given where a hyperparameter is wrong."""
        try:
            settings = check_settings(estimator, settings).model_dump()
        except InputError:
            settings = dict(settings)
        return cls(estimator, settings, scheme, keep_twins)

    @property
    def source(self) -> str:
        """Hash of the source that evaluates it."""
        modules = self.settings.get("modules")
        return source_hash(tuple(map(str, modules)) if isinstance(modules, list) else ())

    def fingerprint(self, features_md5: str) -> str:
        """Return the hash of everything that decides the result on the rows of a file."""
        return evaluation_hash(
            estimator=self.estimator,
            settings=self.settings,
            scheme=self.scheme,
            keep_twins=self.keep_twins,
            features_md5=features_md5,
            version=__version__,
            source=self.source,
        )


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
    features_md5, version, source : str
        MD5 of the features, version of the package and hash of its source (`source_hash`).
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
    source: str = ""

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

    @property
    def fingerprint(self) -> str:
        """Hash of everything that decides the result (see `evaluation_hash`)."""
        return evaluation_hash(
            estimator=self.estimator,
            settings=self.settings,
            scheme=self.scheme,
            keep_twins=self.keep_twins,
            features_md5=self.features_md5,
            version=self.version,
            source=self.source,
        )

    def write(self, folder: Path) -> None:
        """Write the record into the trial's folder."""
        content = {"fingerprint": self.fingerprint, **asdict(self)}
        folder.mkdir(parents=True, exist_ok=True)
        temporary = folder / f"{RECORD}.part"
        temporary.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        temporary.replace(folder / RECORD)


def configuration_hash(estimator: str, settings: Mapping[str, Any]) -> str:
    """Return a short hash of an estimator with its hyperparameters, whatever their order."""
    text = json.dumps({"estimator": estimator, "settings": dict(settings)}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:_HASH_DIGITS]


def evaluation_hash(
    *,
    estimator: str,
    settings: Mapping[str, Any],
    scheme: str,
    keep_twins: bool,
    features_md5: str,
    version: str,
    source: str,
) -> str:
    """Return the hash by which an evaluation is known: equal ones need no second run.

    Hyperparameters that have no effect beside others do not count.
    """
    counted = dict(settings)
    for (name, value), idle in _WITHOUT_EFFECT.items():
        if counted.get(name) == value:
            counted = {key: counted[key] for key in counted if key not in idle}
    content = [estimator, counted, scheme, keep_twins, features_md5, version, source]
    text = json.dumps(content, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:_FINGERPRINT_DIGITS]


@lru_cache(maxsize=32)
def source_hash(modules: tuple[str, ...] = ()) -> str:
    """Return a short hash of the source that decides results: the package's, and a user's modules.

    The version alone would not tell an edited checkout from the release that it started from.
    """
    package = Path(__file__).parent
    files = [
        file
        for name in _SOURCES
        for file in ([package / name] if name.endswith(".py") else sorted((package / name).rglob("*.py")))
    ]
    for name in modules:
        # A module that is missing fails the estimator itself, with a better message.
        with suppress(ImportError, ValueError):
            spec = importlib.util.find_spec(name)
            if spec is not None and spec.origin is not None:
                files.append(Path(spec.origin))
    digest = hashlib.sha256()
    for file in files:
        digest.update(f"{file.name}\n".encode() + file.read_bytes())
    return digest.hexdigest()[:_HASH_DIGITS]


def point_folder(sweep: Path, fingerprint: str) -> Path:
    """Return the folder of an evaluation inside the folder of a sweep."""
    return sweep / POINTS / fingerprint


def read_trial(folder: Path) -> Trial | None:
    """Return the trial recorded in a folder; None where there is no record of this format."""
    try:
        record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
        fingerprint = record.pop("fingerprint")
        trial = Trial(**record)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    # An edited record speaks for an evaluation that never was.
    return trial if trial.fingerprint == fingerprint else None


def finished_trial(sweep: Path, fingerprint: str) -> Trial | None:
    """Return the trial with a fingerprint if it is finished and its predictions are there."""
    folder = point_folder(sweep, fingerprint)
    trial = read_trial(folder)
    if trial is None or not trial.finished or trial.fingerprint != fingerprint:
        return None
    return trial if (folder / PREDICTIONS).is_file() else None


def read_trials(folder: Path, sweep: str, *, skip: Collection[Path] = ()) -> dict[Path, Trial]:
    """Return the trials of a sweep below a folder, by their folders, in the order of the grid.

    Parameters
    ----------
    folder : Path
        Folder of the sweep.
    sweep : str
        Name of the sweep.
    skip : collection of Path
        Folders of trials that are not wanted.
    """
    found = []
    for path in folder.glob(f"{POINTS}/*/{RECORD}"):
        trial = None if path.parent in skip else read_trial(path.parent)
        if trial is not None and trial.sweep == sweep:
            found.append((path.parent, trial))
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


def varying(trials: Sequence[Trial]) -> list[str]:
    """Return the names of the hyperparameters in which trials differ, in the order they have them."""
    names = dict.fromkeys(name for trial in trials for name in trial.settings)
    return [name for name in names if len({str(trial.settings.get(name)) for trial in trials}) > 1]


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
