"""A sweep: many configurations, each evaluated once, gathered into one table.

Points may be evaluated in other processes or on other machines, and a sweep may be killed at any
moment. So everything that it knows lies in its folder: ``sweep.json`` (the parent run and the points
that belong to it), and the folders of the points (`accelperf.points`). Started again, a sweep keeps
the points that are finished, and closes the MLflow runs that the killed one left open.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from accelperf import pictures
from accelperf.evaluation.nested import NestedSelection, SchemeChoice, select_nested
from accelperf.layers import write_table
from accelperf.models.catalog import create
from accelperf.points import Point, SweepRecord, adopt, one_at_a_time
from accelperf.progress import FoldProgress, SweepProgress
from accelperf.publication import TrainingData, log_pictures, publish
from accelperf.tracking import FAILED, FINISHED, KILLED, RUNNING, Run, Store, one_line
from accelperf.trials import (
    BEST,
    PREDICTIONS,
    RECORD,
    TRIALS,
    Trial,
    best_trial,
    finished_trial,
    point_folder,
    read_predictions,
    read_trials,
    trials_table,
    varying,
    write_best,
    write_trials,
)

HEAT_MAP = "heat_map.png"
NESTED_FOLDER = "nested"
NESTED_MEMORY = "errors.json"

EXIT_FAILED = 1
"""Exit status of a sweep in which a point failed."""

WATCH_INTERVAL_S = 1.0
"""Time between two looks for points that other processes have finished."""
_ROWS_SHOWN = 10


@dataclass
class Sweep:
    """A sweep under way, in the process that started it.

    Attributes
    ----------
    folder : Path
        Its folder, ``hydra.sweep.dir``.
    record : SweepRecord
        Content of ``sweep.json``.
    store, parent : Store, Run
        The MLflow store and the parent run.
    data : TrainingData
        The rows.
    pending : set of str, optional
        Fingerprints of the points that are not finished; None for a sweeper without a plan.
    complete : bool
        Whether an earlier start has finished the sweep, so that there is nothing to do.
    publishes : bool
        Whether to publish the best configuration.
    nested : list of SchemeChoice
        Schemes under which to nest the selection.
    progress : SweepProgress
        Shows points as they finish.
    """

    folder: Path
    record: SweepRecord
    store: Store
    parent: Run
    data: TrainingData
    pending: set[str] | None
    complete: bool
    publishes: bool
    nested: list[SchemeChoice]
    progress: SweepProgress
    _held: ExitStack
    _watch: PointWatch | None = None

    @classmethod
    def start(
        cls,
        folder: Path,
        points: Sequence[Point] | None,
        axes: list[str],
        data: TrainingData,
        store: Store,
        *,
        name: str,
        tags: Mapping[str, str],
        publishes: bool,
        nested: list[SchemeChoice],
    ) -> Sweep:
        """Start a sweep, or go on with one.

        Parameters
        ----------
        folder : Path
            Its folder. If the sweep that was started there last has the same points, it goes on
            in its own parent run; a sweep of other points gets a new one.
        points : sequence of Point, optional
            All points in order; None for a sweeper without a plan. Of points that are the same
            evaluation the first counts.
        axes : list of str
            The overrides in which points differ.
        data : TrainingData
            The rows.
        store : Store
            The MLflow store.
        name : str
            Name of the parent run.
        tags : Mapping
            Its tags.
        publishes : bool
            See the attribute.
        nested : list of SchemeChoice
            See the attribute.
        """
        planned: dict[str, Point] = {}
        for point in points or ():
            fingerprint = point.configuration.fingerprint(data.md5)
            planned.setdefault(fingerprint, replace(point, number=len(planned)))
        plan = None if points is None else {each: point.description for each, point in planned.items()}
        with ExitStack() as held:
            # Two processes at once in one folder would each take the other's points for its own.
            held.enter_context(one_at_a_time(folder, name))
            found = {each: finished_trial(folder, each) for each in planned}
            finished = {each: trial for each, trial in found.items() if trial is not None}
            previous = SweepRecord.read(folder)
            status = None if previous is None else store.status(previous.name)
            children: dict[str, str] = {}
            complete = False
            if previous is not None and status is not None and _same(previous.plan, plan):
                record = previous
                children = store.children(record.name)
                ended = all(children.get(trial.run_id) == FINISHED for trial in finished.values())
                complete = status == FINISHED and len(finished) == len(planned) and ended
                parent = store.resume(record.name) if complete else store.reopen(record.name)
            else:
                if previous is not None and status == RUNNING:
                    store.close_children(previous.name)
                    store.resume(previous.name).end(KILLED)
                parent = store.start(name, tags)
                parent.log_dataset(data.dataset)
                record = SweepRecord(parent.run_id, store.experiment_id, data.md5, axes, plan)
                record.write(folder)
            pending = None if plan is None else set(planned) - set(finished)
            progress = SweepProgress(None if pending is None else len(pending))
            sweep = cls(
                folder, record, store, parent, data, pending, complete, publishes, nested, progress, held
            )
            if not complete:
                sweep._take_over(planned, finished, children)
            sweep._held = held.pop_all()
            return sweep

    def _take_over(
        self, planned: Mapping[str, Point], finished: Mapping[str, Trial], children: Mapping[str, str]
    ) -> None:
        """Keep the finished points, forget the failed ones, and close the runs that were left open."""
        try:
            for fingerprint, point in planned.items():
                folder = point_folder(self.folder, fingerprint)
                if fingerprint in finished:
                    trial = finished[fingerprint]
                    adopt(trial, point, folder, self.record, lambda: self.data, self.store, children)
                else:
                    (folder / RECORD).unlink(missing_ok=True)
            self.store.close_children(self.record.name)
        except BaseException as error:
            self.abort(error)
            raise
        if len(planned) > 1:
            line = f"{self.folder}: {len(planned)} points"
            if finished:
                line += f", {len(finished)} of them finished already"
            print(line, file=sys.stderr, flush=True)

    def watch(self) -> None:
        """Show points that other processes finish, until the sweep ends."""
        self._watch = PointWatch(self)
        self._watch.start()

    def report(self, trial: Trial) -> None:
        """Show that a point is done."""
        outcome = (
            f"MAE {trial.mae_ms:.4g} ms{self.data.label}" if trial.finished else f"failed: {trial.error}"
        )
        separator = ": " if trial.finished else " "
        self.progress(f"{self.record.place(trial.number)} {trial.point}{separator}{outcome}")

    def close(self) -> None:
        """Let go of the folder."""
        if self._watch is not None:
            self._watch.stop()
            self._watch = None
        self._held.close()

    def abort(self, error: BaseException) -> None:
        """End the runs that are still open."""
        self.store.close_children(self.record.name)
        if isinstance(error, Exception):
            self.parent.fail(error)
        else:
            self.parent.end(KILLED)

    def finish(self, failure: Exception | None = None) -> int:
        """Gather the points, write the tables, publish.

        Parameters
        ----------
        failure : Exception, optional
            What ended the launcher before all points were done.

        Returns
        -------
        int
            Exit status: `EXIT_FAILED` if a point failed or did not run.
        """
        if self._watch is not None:
            self._watch.stop()
            self._watch = None
        if not self.complete:
            self.store.close_children(self.record.name)
        found = read_trials(self.folder, self.record.name)
        trials = list(found.values())
        best = best_trial(trials) if trials else None
        picture = self._write_tables(trials, best)
        self._print(trials)
        failed = [(folder, trial) for folder, trial in found.items() if not trial.finished]
        missing = 0 if self.record.plan is None else len(self.record.plan) - len(trials)
        if failed or missing or not trials or failure is not None:
            self._fail(failed, missing, failure)
            return EXIT_FAILED
        if best is None:
            self._end()
            return 0

        nested, tables = self._select_nested(trials)
        self._log_best(best, {} if self.publishes else nested)
        folder = next(folder for folder, trial in found.items() if trial is best)
        run = self.store.resume(best.run_id)
        if self.publishes:
            extra = {f"{scheme}/nested.csv": path for scheme, path in tables.items()}
            if picture is not None:
                extra[HEAT_MAP] = picture
            publish(
                best,
                folder / PREDICTIONS,
                trials,
                self.data,
                run,
                self.parent,
                kept=self.folder,
                nested_schemes=[choice.scheme for choice in self.nested],
                nested=nested,
                extra=extra,
            )
        elif not self.complete:
            log_pictures(run, read_predictions(folder), best.estimator, best.scheme, self.data)
        self._end()
        return 0

    def _write_tables(self, trials: Sequence[Trial], best: Trial | None) -> Path | None:
        """Write the table, the best configuration and the heat map; return that one if there is one."""
        files = []
        if trials:
            write_trials(trials, self.folder / TRIALS)
            files.append(self.folder / TRIALS)
        if best is not None:
            write_best(best, self.folder / BEST)
            files.append(self.folder / BEST)
        else:
            (self.folder / BEST).unlink(missing_ok=True)
        picture = self._draw(trials) if best is not None else None
        if picture is not None:
            files.append(picture)
        else:
            (self.folder / HEAT_MAP).unlink(missing_ok=True)
        if not self.complete:
            for file in files:
                self.parent.log_file(file)
        return picture

    def _draw(self, trials: Sequence[Trial]) -> Path | None:
        """Draw the heat map, if anything varies."""
        path = self.folder / HEAT_MAP
        if self.complete and path.is_file():
            return path
        table = trials_table(trials)
        axes = pictures.heat_map_axes(table, varying(trials))
        if not axes or len({trial.estimator for trial in trials}) > 1:
            return None
        title = f"{trials[0].estimator}, {trials[0].scheme}"
        pictures.heat_map(table, axes, path, title=title, simulated=self.data.simulated)
        return path

    def _fail(self, failed: Sequence[tuple[Path, Trial]], missing: int, failure: Exception | None) -> None:
        """Name every point that failed, and what did not run."""
        names = [f"{trial.point}: {trial.error}" for _, trial in failed]
        for folder, trial in failed:
            place = self.record.place(trial.number)
            print(f"error: point {place} {trial.point} failed: {trial.error}", file=sys.stderr)
            where = f"traceback: artifact of MLflow run {trial.run_id}; " if trial.run_id else ""
            print(f"       {where}record: {folder}", file=sys.stderr)
        if failure is not None:
            print(f"error: the launcher failed: {one_line(failure)}", file=sys.stderr)
            names.append(one_line(failure))
        if missing and self.record.plan is not None:
            print(
                f"error: {missing} of {len(self.record.plan)} points did not run; start the sweep again to "
                "go on with them",
                file=sys.stderr,
            )
        if failure is not None:
            self.parent.fail(failure)
        self.parent.set_tags({"error": "; ".join(names) or "points did not run"})
        self.parent.end(FAILED)

    def _end(self) -> None:
        if self.complete:
            count = len(self.record.plan or ())
            print(
                f"nothing to do: all {count} points were finished before, none was evaluated (to evaluate "
                f"them again, delete {self.folder})",
                flush=True,
            )
            return
        self.parent.clear_tag("error")
        self.parent.end(FINISHED)

    def _log_best(self, best: Trial, nested: Mapping[str, NestedSelection]) -> None:
        """Show the best point's figures and hyperparameters at the parent, to compare estimators by."""
        if not self.complete:
            logged = self.parent.parameters()
            found = {"estimator": best.estimator, "scheme": best.scheme, **best.settings}
            # MLflow changes no parameter: those of an earlier start stand, and are the same.
            self.parent.log_parameters({name: found[name] for name in found if name not in logged})
            self.parent.log_metrics(best.scheme, best.metrics)
            self.parent.set_tags({"best_run_id": best.run_id, "configuration": best.configuration})
        for scheme, selection in nested.items():
            self.parent.log_metrics(scheme, selection.metrics)

    def _select_nested(self, trials: Sequence[Trial]) -> tuple[dict[str, NestedSelection], dict[str, Path]]:
        """Nest the selection, and write what was chosen; nothing for a single point.

        Errors are remembered in the sweep's folder: interrupted, nested selection goes on too.
        """
        selections, tables = {}, {}
        if len(trials) > 1:
            inner = SchemeChoice(trials[0].scheme, trials[0].keep_twins)
            candidates = [create(trial.estimator, trial.settings) for trial in trials]
            names = " and ".join(dict.fromkeys(trial.estimator for trial in trials))
            for outer in self.nested:
                memory = _ErrorMemory(self.folder / NESTED_FOLDER / NESTED_MEMORY, trials, outer)
                title = f"{names} nested selection, {outer.scheme}{self.data.label}"
                with FoldProgress(title) as progress:
                    selection = select_nested(
                        candidates, self.data.features, outer, inner, progress=progress, recall=memory
                    )
                path = self.folder / NESTED_FOLDER / f"{outer.scheme}.csv"
                write_table(_nested_table(selection, trials), path)
                if not self.complete or memory.learned:
                    self.parent.log_file(path, NESTED_FOLDER)
                selections[outer.scheme], tables[outer.scheme] = selection, path
                print(
                    f"{title}: MAE {selection.mae_ms:.4g} ms ({selection.chosen} of {len(trials)} "
                    "configurations chosen)",
                    flush=True,
                )
        return selections, tables

    def _print(self, trials: Sequence[Trial]) -> None:
        """Print the best points: error, and the hyperparameters in which they differ."""
        if not trials:
            return
        table = trials_table(trials)
        estimators = " and ".join(dict.fromkeys(trial.estimator for trial in trials))
        count = f"{len(trials)} point" + ("s, best first" if len(trials) > 1 else "")
        print(f"{estimators}{self.data.label}: {count}", flush=True)
        shown = table.loc[table["status"] == "finished"].head(_ROWS_SHOWN)
        if not shown.empty:
            columns = [name for name in ("mae_ms", "mape", "within_10pct") if name in shown]
            columns += [
                name for name in ("estimator", "scheme") if len({str(getattr(t, name)) for t in trials}) > 1
            ]
            columns += varying(trials)
            print(shown[columns].to_string(index=False, float_format=lambda value: f"{value:.4g}"))
        print(f"table: {self.folder / TRIALS}", flush=True)


def _same(one: Mapping[str, str] | None, other: Mapping[str, str] | None) -> bool:
    """Tell whether two plans have the same points in the same order."""
    return one is not None and other is not None and list(one.items()) == list(other.items())


def _nested_table(selection: NestedSelection, trials: Sequence[Trial]) -> pd.DataFrame:
    """Return the choices with the hyperparameters in which the points differ."""
    table = selection.folds
    chosen = [trials[number] for number in table["candidate"]]
    table = table.drop(columns="candidate")
    table.insert(3, "configuration", [trial.configuration for trial in chosen])
    for place, name in enumerate(varying(trials), start=4):
        table.insert(place, name, [str(trial.settings.get(name, "")) for trial in chosen])
    return table


class _ErrorMemory:
    """Errors of nested selection that were computed once; a `accelperf.evaluation.nested.Recall`.

    A line of JSON each, appended as they are found.
    """

    def __init__(self, path: Path, trials: Sequence[Trial], outer: SchemeChoice) -> None:
        self._path = path
        self._trials = trials
        self._outer = outer
        self._errors: dict[str, float] = {}
        self.learned = False
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
        for line in lines:
            # A process that was killed may have left half a line.
            with suppress(ValueError):
                self._errors |= json.loads(line)

    def __call__(self, number: int, fold: str, kind: str, compute: Callable[[], float]) -> float:
        outer = f"{self._outer.scheme}{' keep_twins' if self._outer.keep_twins else ''}"
        key = f"{self._trials[number].fingerprint} {kind} {outer} {fold}"
        if key not in self._errors:
            self._errors[key] = compute()
            self.learned = True
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({key: self._errors[key]}) + "\n")
        return self._errors[key]


class PointWatch(threading.Thread):
    """Shows the points that other processes finish, by their records."""

    def __init__(self, sweep: Sweep) -> None:
        super().__init__(daemon=True)
        self._sweep = sweep
        self._stopped = threading.Event()
        self._seen = set(read_trials(sweep.folder, sweep.record.name))

    def run(self) -> None:
        """Look for new records until told to stop."""
        while not self._stopped.wait(WATCH_INTERVAL_S):
            self._look()

    def _look(self) -> None:
        for folder, trial in read_trials(
            self._sweep.folder, self._sweep.record.name, skip=self._seen
        ).items():
            self._seen.add(folder)
            self._sweep.report(trial)

    def stop(self) -> None:
        """Show what is left, and end."""
        self._stopped.set()
        self.join()
        self._look()
