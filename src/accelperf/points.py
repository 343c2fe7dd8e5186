"""Points of a sweep: each evaluated once, as one MLflow run, in whatever process.

A point has a folder named by the hash of what decides its result. In it stand the resolved
configuration, the predictions, and the record, which is written last. The order of writing makes it
safe to kill a sweep at any moment: metrics and predictions, then the record, then the end of the run.
A run that is still open beside a finished record has lost nothing but its end.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from filelock import FileLock, Timeout

from accelperf import __version__
from accelperf.errors import InputError
from accelperf.evaluation import cross_validation
from accelperf.layers import write_table
from accelperf.models.catalog import create
from accelperf.progress import FoldProgress
from accelperf.publication import TrainingData, check_finite, log_pictures
from accelperf.tracking import FINISHED as RUN_FINISHED
from accelperf.tracking import Run, Store, one_line, run_tags
from accelperf.trials import (
    FAILED,
    FINISHED,
    PREDICTIONS,
    Configuration,
    Trial,
    finished_trial,
    point_folder,
    read_trial,
)

SWEEP_RECORD = "sweep.json"
CONFIGURATION = "config.yaml"
LOCK = ".lock"


class PointFailed(Exception):  # noqa: N818 - named after what happened
    """A point of a sweep failed; its record and its run say why.

    It stands in for the original error, which may not survive the way back from another process.
    """


@dataclass(frozen=True)
class SweepRecord:
    """Content of ``sweep.json``: what the points of a sweep need to know.

    Attributes
    ----------
    name : str
        Name of the sweep, the id of its parent run.
    experiment_id : str
        MLflow experiment.
    features_md5 : str
        MD5 of the features that all points use.
    axes : list of str
        The overrides in which points differ.
    plan : dict of str to str, optional
        Description of each point by its fingerprint, in order; None for a sweeper that chooses points
        as it goes.
    """

    name: str
    experiment_id: str
    features_md5: str
    axes: list[str]
    plan: dict[str, str] | None

    @classmethod
    def read(cls, folder: Path) -> SweepRecord | None:
        """Return the record in a folder; None where there is none of this format."""
        try:
            return cls(**json.loads((folder / SWEEP_RECORD).read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None

    def write(self, folder: Path) -> None:
        """Write the record into the folder of the sweep."""
        write_text(folder / SWEEP_RECORD, json.dumps(asdict(self), indent=1) + "\n")

    def place(self, number: int) -> str:
        """Return where a point stands in the sweep, for messages."""
        return f"[{number + 1}]" if self.plan is None else f"[{number + 1}/{len(self.plan)}]"


@dataclass(frozen=True)
class Point:
    """A configuration to be evaluated.

    Attributes
    ----------
    configuration : Configuration
        What is evaluated.
    description : str
        Estimator and overrides that tell it from other points; empty outside of a sweep.
    resolved : str
        The resolved configuration as YAML, for the run's artifacts.
    number : int
        Place in the sweep, where the sweep has no plan.
    """

    configuration: Configuration
    description: str = ""
    resolved: str = ""
    number: int = 0


def evaluate_alone(point: Point, folder: Path, data: TrainingData, store: Store) -> Trial:
    """Evaluate a configuration outside of a sweep, as one MLflow run.

    Parameters
    ----------
    point : Point
        What to evaluate.
    folder : Path
        Where record and predictions go.
    data : TrainingData
        The rows.
    store : Store
        Where the run goes.

    Raises
    ------
    Exception
        What the evaluation raised, once the run has FAILED and the record says so.
    """
    return _evaluate(point, folder, data, store, None, bar=True)


def evaluate_point(
    point: Point,
    sweep: Path,
    record: SweepRecord,
    read_data: Callable[[], TrainingData],
    store: Store,
    *,
    bar: bool,
) -> tuple[Trial | None, bool]:
    """Evaluate a point of a sweep, unless that has been done.

    Parameters
    ----------
    point : Point
        What to evaluate.
    sweep : Path
        Folder of the sweep.
    record : SweepRecord
        Of the sweep.
    read_data : callable
        Reads the rows.
    store : Store
        Where the run goes.
    bar : bool
        Whether progress may be drawn as a bar.

    Returns
    -------
    Trial, optional
        The point evaluated, finished or failed; None if that is left to an equal point of the sweep.
    bool
        Whether it was evaluated just now.
    """
    fingerprint = point.configuration.fingerprint(record.features_md5)
    if record.plan is not None:
        planned = {text: (number, each) for number, (each, text) in enumerate(record.plan.items())}
        if fingerprint not in record.plan:
            number, each = planned.get(point.description, (point.number, fingerprint))
            expected = "the source that the sweep was started with"
            error = InputError(expected, "another one (start the sweep again)")
            return _refuse(replace(point, number=number), point_folder(sweep, each), record, error), True
        if record.plan[fingerprint] != point.description:
            # The same evaluation in other words, such as L-BFGS at another learning rate.
            return finished_trial(sweep, fingerprint), False
        point = replace(point, number=planned[point.description][0])
    folder = point_folder(sweep, fingerprint)
    with one_at_a_time(folder, f"{record.place(point.number)} {point.description}"):
        known = read_trial(folder)
        if known is not None and known.sweep == record.name and not known.finished:
            return known, False
        finished = finished_trial(sweep, fingerprint)
        if finished is not None:
            return adopt(finished, point, folder, record, read_data, store, None), False
        try:
            data = read_data()
            if data.md5 != record.features_md5:
                expected = "the features that the sweep was started with"
                raise InputError(expected, "others (start the sweep again)")
            return _evaluate(point, folder, data, store, record, bar=bar), True
        except Exception as error:
            failed = read_trial(folder)
            if failed is None or failed.sweep != record.name:
                # It came to no run.
                failed = _refuse(point, folder, record, error)
            return failed, True


def _refuse(point: Point, folder: Path, record: SweepRecord, error: Exception) -> Trial:
    """Write the record of a point that could not begin."""
    trial = replace(_blank(point, record.features_md5, record), error=one_line(error))
    trial.write(folder)
    return trial


def _blank(point: Point, features_md5: str, record: SweepRecord | None) -> Trial:
    """Return the trial of a point before anything is known of it: it has failed until it finishes."""
    configuration = point.configuration
    return Trial(
        number=point.number,
        estimator=configuration.estimator,
        settings=configuration.settings,
        scheme=configuration.scheme,
        keep_twins=configuration.keep_twins,
        point=point.description,
        status=FAILED,
        sweep="" if record is None else record.name,
        features_md5=features_md5,
        version=__version__,
        source=configuration.source,
    )


def _evaluate(
    point: Point, folder: Path, data: TrainingData, store: Store, record: SweepRecord | None, *, bar: bool
) -> Trial:
    """Evaluate a configuration as an MLflow run; write its predictions and then its record."""
    configuration = point.configuration
    key, scheme, keep_twins = configuration.estimator, configuration.scheme, configuration.keep_twins
    trial = _blank(point, data.md5, record)
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / CONFIGURATION, f"# model: {key}\n{point.resolved}")
    title = f"{key} {scheme}{data.label}"
    if record is not None:
        title = f"{record.place(point.number)} {title}"
    try:
        with _run(trial, data, store) as run:
            trial = replace(trial, run_id=run.run_id)
            _log_settings(run, trial, folder, data)
            estimator = create(key, configuration.settings)
            with FoldProgress(title, bar=bar) as progress:
                evaluation = cross_validation.evaluate(
                    estimator, data.features, scheme, keep_twins=keep_twins, progress=progress
                )
            check_finite(evaluation.metrics, scheme)
            write_table(evaluation.predictions, folder / PREDICTIONS)
            trial = replace(trial, status=FINISHED, metrics=evaluation.metrics)
            _log_results(run, trial, folder)
            if record is None:
                log_pictures(run, evaluation.predictions, key, scheme, data)
            trial.write(folder)
    except Exception as error:
        replace(trial, status=FAILED, metrics={}, error=one_line(error)).write(folder)
        raise
    return trial


def _run(
    trial: Trial, data: TrainingData, store: Store, further: Mapping[str, str] | None = None
) -> AbstractContextManager[Run]:
    """Return the context of a trial's run."""
    tags = run_tags(
        trial.estimator,
        origin=data.origin,
        features_md5=data.md5,
        root=Path.cwd(),
        kind="trial",
        scheme=trial.scheme,
        configuration=trial.configuration,
        **(further or {}),
    )
    name = (trial.point or f"{trial.estimator} {trial.scheme}") + data.label
    return store.run(name, tags, parent=trial.sweep or None)


def _log_settings(run: Run, trial: Trial, folder: Path, data: TrainingData) -> None:
    run.log_dataset(data.dataset)
    fixed = {"estimator": trial.estimator, "scheme": trial.scheme, "keep_twins": trial.keep_twins}
    run.log_parameters(fixed | dict(trial.settings))
    if (folder / CONFIGURATION).is_file():
        run.log_file(folder / CONFIGURATION)


def _log_results(run: Run, trial: Trial, folder: Path) -> None:
    run.log_metrics(trial.scheme, trial.metrics)
    run.log_file(folder / PREDICTIONS, f"predictions/{trial.scheme}")


def adopt(
    trial: Trial,
    point: Point,
    folder: Path,
    record: SweepRecord,
    read_data: Callable[[], TrainingData],
    store: Store,
    children: Mapping[str, str] | None,
) -> Trial:
    """Make a finished trial one of this sweep, with a run inside its parent; nothing is computed.

    Its run may be an open one of this very sweep, killed before it could end it. Or it is one of
    another sweep, or gone with its store: then it is logged again from the record.
    """
    adopted = replace(
        trial,
        number=point.number,
        settings=point.configuration.settings,
        point=point.description,
        sweep=record.name,
    )
    if trial.sweep == record.name and (children is None or trial.run_id in children):
        if children is not None and children[trial.run_id] != RUN_FINISHED:
            store.resume(trial.run_id).end(RUN_FINISHED)
        if adopted != trial:
            adopted.write(folder)
        return adopted
    data = read_data()
    with _run(adopted, data, store, {"reused_from": trial.run_id}) as run:
        adopted = replace(adopted, run_id=run.run_id)
        _log_settings(run, adopted, folder, data)
        _log_results(run, adopted, folder)
        adopted.write(folder)
    return adopted


@contextmanager
def one_at_a_time(folder: Path, what: str) -> Iterator[None]:
    """Hold a folder's lock, which a killed process lets go of; say so if that means to wait.

    A process that outlived its sweep may still be at a point: it is waited for, and its result used.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / LOCK)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        print(f"{what}: waits for another process at work in {folder}", file=sys.stderr, flush=True)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def write_text(path: Path, text: str) -> None:
    """Write a file so that it is there as a whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".part")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)
