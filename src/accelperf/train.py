"""The Hydra app ``accelperf-train``: evaluate configurations, sweep over them, publish the best.

One configuration is one MLflow run and returns the scheme's mean absolute error in ms, so any
Hydra sweeper can minimise it. A sweep (``-m``, or a prepared grid) is a parent run with one child a
point; it ends in ``trials.csv`` and ``best.yaml``. With ``publish=true``, which the DVC stage sets,
the best configuration is published (`accelperf.publication`).

Points may run in other processes or on other machines (`hydra/launcher`): they find the parent run
in a file in ``hydra.sweep.dir``, and leave their results there in a folder each. What is gathered
from them is gathered in `main`, since Hydra calls no one back when a point has failed.
"""

from __future__ import annotations

import json
import math
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import chdir, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hydra
import yaml
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException, MissingConfigException
from hydra.experimental.callback import Callback
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf, read_write
from omegaconf.errors import OmegaConfBaseException

from accelperf import __version__
from accelperf.errors import AccelperfError, InputError, exit_on_error, known
from accelperf.settings import (
    CONF_FOLDER,
    NO_GRID,
    configured,
    find_project_root,
    make_importable,
    read_settings,
)

if TYPE_CHECKING:
    from accelperf.publication import TrainingData
    from accelperf.tracking import Run, Store
    from accelperf.trials import Trial

EXIT_FAILED = 1
"""Exit status of a sweep in which a point failed."""
EXIT_INTERRUPTED = 130

SWEEP_RECORD = "sweep.json"

_BASIC_SWEEPER = "hydra._internal.core_plugins.basic_sweeper.BasicSweeper"
_BASIC_LAUNCHER = "hydra._internal.core_plugins.basic_launcher.BasicLauncher"
_FULL_ERROR = "HYDRA_FULL_ERROR"
_ROWS_SHOWN = 10


class PointFailed(Exception):  # noqa: N818 - named after what happened
    """A point of a sweep failed; its record and its run say why.

    It stands in for the original error, which may not survive the way back from another process.
    """


class _SweepRefused(BaseException):
    """Ends Hydra before any job: it turns every `Exception` of a callback into a warning."""


@dataclass(frozen=True)
class Sweep:
    """A sweep under way, in the process that started it.

    Attributes
    ----------
    folder : Path
        ``hydra.sweep.dir``.
    store, parent : Store, Run
        The MLflow store and the parent run.
    data : TrainingData
        The rows.
    points : int, optional
        Number of points, where the sweeper knows it beforehand.
    publish : bool
        Whether to publish the best one.
    """

    folder: Path
    store: Store
    parent: Run
    data: TrainingData
    points: int | None
    publish: bool

    @property
    def name(self) -> str:
        """Name of the sweep in the records of its points."""
        return self.parent.run_id

    def abort(self, error: BaseException) -> None:
        """End the runs that are still open."""
        from accelperf.tracking import KILLED

        self.store.close_children(self.name)
        if isinstance(error, Exception):
            self.parent.fail(error)
        else:
            self.parent.end(KILLED)


@dataclass(frozen=True)
class SingleRun:
    """An evaluated configuration outside of a sweep."""

    trial: Trial
    folder: Path
    store: Store
    data: TrainingData
    publish: bool


@dataclass
class _Session:
    """What Hydra's callback and task leave for `main`, within one process."""

    sweep: Sweep | None = None
    single: SingleRun | None = None
    error: Exception | None = None


_session = _Session()


def task(config: DictConfig) -> float:
    """Evaluate one configuration.

    Parameters
    ----------
    config : DictConfig
        Composed by Hydra: ``model`` (hyperparameters), ``evaluation``, ``features``, ``publish``.

    Returns
    -------
    float
        Mean absolute error under the scheme [ms].

    Raises
    ------
    PointFailed
        In a sweep, if the point failed.
    """
    from accelperf.publication import TrainingData
    from accelperf.tracking import attach_store, one_line, open_store

    context = HydraConfig.get()
    # Points of a sweep run in other processes too, which have not seen `main`.
    root = find_project_root()
    make_importable(root)
    folder = Path(context.runtime.output_dir)
    if context.mode == RunMode.MULTIRUN:
        sweep = json.loads((Path(context.sweep.dir) / SWEEP_RECORD).read_text(encoding="utf-8"))
        try:
            data = TrainingData.read(Path(config.features))
            store = attach_store(root, sweep["experiment_id"])
            return _evaluate_point(config, folder, data, store, sweep).mae_ms
        except PointFailed:
            raise
        except Exception as error:
            # Not even a record of the failure could be written.
            place = _place(sweep, int(context.job.num))
            print(f"{place} did not run: {one_line(error)}", file=sys.stderr, flush=True)
            raise PointFailed(one_line(error)) from error
    try:
        data = TrainingData.read(Path(config.features))
        _check_publication(config, [_estimator_key()])
        # A wrong hyperparameter is an error on the command line, not a failed run in the store.
        _check_settings(config, _estimator_key())
        store = open_store(root)
        trial = _evaluate_point(config, folder, data, store, None)
    except Exception as error:
        # Hydra would print the overrides first; `main` raises it.
        _session.error = error
        return math.nan
    _session.single = SingleRun(trial, folder, store, data, bool(config.publish))
    return trial.mae_ms


def _estimator_key() -> str:
    return str(HydraConfig.get().runtime.choices.model)


def _check_settings(config: DictConfig, key: str) -> None:
    """Check the hyperparameters of a configuration without importing what trains."""
    from accelperf.models.catalog import check_settings

    check_settings(key, _settings(config))


def _settings(config: DictConfig) -> dict[str, Any]:
    settings = OmegaConf.to_container(config.model, resolve=True)
    return {str(name): value for name, value in settings.items()}


def _evaluate_point(
    config: DictConfig, folder: Path, data: TrainingData, store: Store, sweep: dict[str, Any] | None
) -> Trial:
    """Evaluate a configuration as an MLflow run, and write its record and predictions."""
    from accelperf.evaluation.cross_validation import evaluate
    from accelperf.layers import write_table
    from accelperf.models.catalog import create
    from accelperf.progress import FoldProgress
    from accelperf.publication import check_finite, log_pictures
    from accelperf.tracking import one_line, run_tags
    from accelperf.trials import FAILED, FINISHED, PREDICTIONS, Trial, configuration_hash

    context = HydraConfig.get()
    key, scheme = _estimator_key(), str(config.evaluation.scheme)
    keep_twins = bool(config.evaluation.get("keep_twins", False))
    settings, refusal = _settings(config), None
    try:
        estimator = create(key, settings)
        settings = estimator.settings.model_dump()
    except Exception as error:
        refusal = error
    point = _describe_point(key, context.overrides.task, sweep["axes"]) if sweep else ""
    record: dict[str, Any] = {
        "number": int(context.job.num) if sweep else 0,
        "estimator": key,
        "settings": settings,
        "scheme": scheme,
        "keep_twins": keep_twins,
        "point": point,
        "sweep": sweep["name"] if sweep else "",
        "features_md5": data.md5,
        "version": __version__,
    }
    tags = run_tags(
        key,
        origin=data.origin,
        features_md5=data.md5,
        root=Path.cwd(),
        kind="trial",
        scheme=scheme,
        configuration=configuration_hash(key, settings),
    )
    name = f"{point or f'{key} {scheme}'}{data.label}"
    run_id = ""
    try:
        with store.run(name, tags, parent=sweep["name"] if sweep else None) as run:
            run_id = run.run_id
            run.log_parameters({"estimator": key, "scheme": scheme, "keep_twins": keep_twins, **settings})
            _log_configuration(run, config, key, folder)
            if refusal is not None:
                raise refusal
            alone = context.launcher._target_ == _BASIC_LAUNCHER
            title = f"{key} {scheme}{data.label}"
            if sweep is not None:
                title = f"{_place(sweep, record['number'])} {title}"
            with FoldProgress(title, bar=alone) as progress:
                evaluation = evaluate(
                    estimator, data.features, scheme, keep_twins=keep_twins, progress=progress
                )
            check_finite(evaluation.metrics, scheme)
            run.log_metrics(scheme, evaluation.metrics)
            write_table(evaluation.predictions, folder / PREDICTIONS)
            run.log_file(folder / PREDICTIONS, f"predictions/{scheme}")
            if sweep is None:
                log_pictures(run, evaluation.predictions, key, scheme, data)
    except Exception as error:
        trial = Trial(**record, status=FAILED, error=one_line(error), run_id=run_id)
        trial.write(folder)
        if sweep is None:
            raise
        print(f"{_place(sweep, trial.number)} {point} failed: {trial.error}", file=sys.stderr, flush=True)
        raise PointFailed(f"{point}: {trial.error}") from error
    trial = Trial(**record, status=FINISHED, metrics=evaluation.metrics, run_id=run_id)
    trial.write(folder)
    if sweep is not None:
        line = f"{_place(sweep, trial.number)} {point}: MAE {trial.mae_ms:.4g} ms{data.label}"
        print(line, file=sys.stderr, flush=True)
    return trial


def _place(sweep: dict[str, Any], number: int) -> str:
    total = sweep["points"]
    return f"[{number + 1}]" if total is None else f"[{number + 1}/{total}]"


def _describe_point(key: str, overrides: Sequence[str], axes: Sequence[str]) -> str:
    """Return the estimator and the overrides that tell a point from others."""
    shown = [text for text in overrides if text.partition("=")[0] in axes and not text.startswith("model=")]
    return " ".join([key, *(text.removeprefix("model.") for text in shown)])


def _log_configuration(run: Run, config: DictConfig, key: str, folder: Path) -> None:
    """Log the resolved configuration, as it would be typed into files."""
    path = folder / "config.yaml"
    path.write_text(f"# model: {key}\n" + OmegaConf.to_yaml(config, resolve=True), encoding="utf-8")
    run.log_file(path)


class SweepStart(Callback):  # type: ignore[misc]
    """Hydra callback that checks a sweep and opens its parent run before any job starts."""

    def on_multirun_start(self, config: DictConfig, **_: Any) -> None:
        """Check the points, open the parent run and leave its id for the points."""
        try:
            with _hydra_errors(list(config.hydra.overrides.task)):
                _session.sweep = _start_sweep(config)
        except Exception as error:
            _session.error = error
            raise _SweepRefused from error


def _start_sweep(config: DictConfig) -> Sweep:
    from accelperf.publication import TrainingData
    from accelperf.tracking import open_store, run_tags

    root = Path.cwd()
    make_importable(root)
    points = _list_points(config)
    estimators = _check_points(config, points)
    _check_publication(config, estimators)
    data = TrainingData.read(Path(config.features))
    key = "+".join(estimators)
    grid = str(config.hydra.runtime.choices.get("grid", NO_GRID))
    name = f"{key} sweep" + ("" if grid == NO_GRID else f" {grid}") + data.label
    folder = Path(config.hydra.sweep.dir)
    folder.mkdir(parents=True, exist_ok=True)
    store = open_store(root)
    tags = run_tags(key, origin=data.origin, features_md5=data.md5, root=root, kind="sweep", grid=grid)
    parent = store.start(name, tags)
    count = None if points is None else len(points)
    record = {
        "name": parent.run_id,
        "experiment_id": store.experiment_id,
        "points": count,
        "axes": _axes(points or [list(config.hydra.overrides.task)]),
    }
    (folder / SWEEP_RECORD).write_text(json.dumps(record) + "\n", encoding="utf-8")
    return Sweep(folder, store, parent, data, count, bool(config.publish))


def _list_points(config: DictConfig) -> list[list[str]] | None:
    """Return the overrides of every point; None for a sweeper that chooses them as it goes."""
    from hydra._internal.core_plugins.basic_sweeper import BasicSweeper

    grid = str(config.hydra.runtime.choices.get("grid", NO_GRID))
    params = OmegaConf.select(config, "hydra.sweeper.params")
    if grid != NO_GRID and not params:
        key = config.hydra.runtime.choices.get("model")
        file = f"{CONF_FOLDER}/grid/{grid}/{key}.yaml"
        raise InputError("at least one axis under hydra.sweeper.params", "none", file=file)
    if config.hydra.sweeper._target_ != _BASIC_SWEEPER:
        return None
    parser = OverridesParser.create(config_loader=GlobalHydra.instance().config_loader())
    axes = []
    for name in list(params or {}):
        # The configured value may be listed twice; a point is evaluated once.
        axis = parser.parse_override(f"{name}={params[name]}")
        if axis.is_sweep_override() and axis.is_discrete_sweep():
            values = list(dict.fromkeys(axis.sweep_string_iterator()))
            values = list({_number(value): value for value in reversed(values)}.values())[::-1]
            with read_write(config):
                params[name] = ",".join(values)
        axes.append(f"{name}={params[name]}")
    overrides = parser.parse_overrides(axes + list(config.hydra.overrides.task))
    batches = BasicSweeper.split_arguments(overrides, None)
    return [list(point) for point in batches[0]]


def _axes(points: Sequence[Sequence[str]]) -> list[str]:
    """Return the keys in which points differ; of a single point its hyperparameters."""
    values: dict[str, set[str]] = {}
    for point in points:
        for text in point:
            name, _, value = text.partition("=")
            values.setdefault(name, set()).add(value)
    if len(points) > 1:
        return [name for name, seen in values.items() if len(seen) > 1]
    return [name for name in values if name.startswith("model.")]


def _number(text: str) -> float | str:
    """Return a number as such, so that 0.10 and 0.1 are one value."""
    try:
        return float(text)
    except ValueError:
        return text


def _check_points(config: DictConfig, points: list[list[str]] | None) -> list[str]:
    """Return the estimators of a sweep, in order, if each has a point that can run.

    An unknown hyperparameter refuses the sweep. A value out of bounds fails its own point later,
    unless no point of the estimator is left.
    """
    if points is None:
        _check_settings(config, str(config.hydra.runtime.choices.model))
        return [str(config.hydra.runtime.choices.model)]
    loader = GlobalHydra.instance().config_loader()
    refused: dict[str, InputError | None] = {}
    for point in points:
        typed = [text.removeprefix("model=") for text in point if text.startswith("model=")]
        if typed and refused.get(typed[-1], "unseen") is None:
            continue
        composed = loader.load_sweep_config(config, list(point))
        key = str(composed.hydra.runtime.choices.model)
        try:
            _check_settings(composed, key)
            refused[key] = None
        except InputError as error:
            if error.expected.startswith("a hyperparameter of"):
                raise
            refused.setdefault(key, error)
    for reason in refused.values():
        if reason is not None:
            raise reason
    return list(refused)


def _check_publication(config: DictConfig, estimators: Sequence[str]) -> None:
    """Check, before anything is computed, that results can be published."""
    if not config.publish:
        return
    if len(estimators) > 1:
        raise InputError("one estimator with publish=true", " and ".join(estimators))
    selecting = read_settings(Path()).schemes[0]
    if config.evaluation.scheme != selecting:
        raise InputError(
            f"evaluation={selecting} with publish=true, the first of schemes in params.yaml",
            f"evaluation={config.evaluation.scheme}",
        )


def _finish_sweep(sweep: Sweep) -> int:
    """Gather the points, write the tables, publish; return the exit status."""
    from accelperf.publication import log_pictures, publish
    from accelperf.tracking import FAILED, FINISHED
    from accelperf.trials import (
        BEST,
        TRIALS,
        best_trial,
        read_predictions,
        read_trials,
        write_best,
        write_trials,
    )

    sweep.store.close_children(sweep.name)
    found = read_trials(sweep.folder, sweep.name)
    trials = list(found.values())
    best = best_trial(trials) if trials else None
    if trials:
        write_trials(trials, sweep.folder / TRIALS)
        sweep.parent.log_file(sweep.folder / TRIALS)
    if best is not None:
        write_best(best, sweep.folder / BEST)
        sweep.parent.log_file(sweep.folder / BEST)
        _log_best(sweep, best)
    else:
        (sweep.folder / BEST).unlink(missing_ok=True)
    _print_sweep(sweep, trials)

    failed = [(folder, trial) for folder, trial in found.items() if not trial.finished]
    for folder, trial in failed:
        place = _place({"points": sweep.points}, trial.number)
        print(f"error: point {place} {trial.point} failed: {trial.error}", file=sys.stderr)
        print(f"       traceback: artifact of MLflow run {trial.run_id}; record: {folder}", file=sys.stderr)
    missing = 0 if sweep.points is None else sweep.points - len(trials)
    if missing:
        print(f"error: {missing} of {sweep.points} points did not run", file=sys.stderr)
    if failed or missing or not trials:
        names = "; ".join(f"{trial.point}: {trial.error}" for _, trial in failed)
        sweep.parent.set_tags({"error": names or "points did not run"})
        sweep.parent.end(FAILED)
        return EXIT_FAILED

    if best is not None:
        folder = next(folder for folder, trial in found.items() if trial is best)
        run = sweep.store.resume(best.run_id)
        if sweep.publish:
            publish(best, folder, trials, sweep.data, run, sweep.parent)
        else:
            log_pictures(run, read_predictions(folder), best.estimator, best.scheme, sweep.data)
    sweep.parent.end(FINISHED)
    return 0


def _log_best(sweep: Sweep, best: Trial) -> None:
    """Show the best point's figures and hyperparameters at the parent, to compare estimators by."""
    sweep.parent.log_parameters({"estimator": best.estimator, "scheme": best.scheme, **best.settings})
    sweep.parent.log_metrics(best.scheme, best.metrics)
    sweep.parent.set_tags({"best_run_id": best.run_id, "configuration": best.configuration})


def _print_sweep(sweep: Sweep, trials: Sequence[Trial]) -> None:
    """Print the best points: error, and the hyperparameters in which they differ."""
    from accelperf.trials import TRIALS, trials_table

    if not trials:
        return
    table = trials_table(trials)
    names = [name for name in table.columns if name in {key for trial in trials for key in trial.settings}]
    varying = [name for name in ("estimator", "scheme", *names) if table[name].nunique(dropna=False) > 1]
    estimators = " and ".join(dict.fromkeys(trial.estimator for trial in trials))
    count = f"{len(trials)} point" + ("s, best first" if len(trials) > 1 else "")
    print(f"{estimators}{sweep.data.label}: {count}", flush=True)
    shown = table.loc[table["status"] == "finished"].head(_ROWS_SHOWN)
    if not shown.empty:
        columns = [name for name in ("mae_ms", "mape", "within_10pct") if name in shown] + varying
        print(shown[columns].to_string(index=False, float_format=lambda value: f"{value:.4g}"))
    print(f"table: {sweep.folder / TRIALS}", flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command ``accelperf-train``.

    Parameters
    ----------
    arguments : sequence of str, optional
        Command line without the program's name; that of the process by default.

    Raises
    ------
    SystemExit
        Status 1 if a point of a sweep failed, 2 for bad input, 130 if interrupted.
    """
    typed = list(sys.argv[1:] if arguments is None else arguments)
    status = 0
    with exit_on_error(debug=os.environ.get(_FULL_ERROR) == "1"):
        root = find_project_root()
        # The project is the working directory of everything, wherever the command was typed.
        with chdir(root):
            try:
                status = _run(_complete(typed))
            except KeyboardInterrupt:
                print("interrupted", file=sys.stderr)
                status = EXIT_INTERRUPTED
    if status:
        raise SystemExit(status)


def _complete(arguments: list[str]) -> list[str]:
    """Add what follows from other arguments."""
    arguments = list(arguments)
    if {"-h", "--help"} & set(arguments) and not any(text.startswith("model=") for text in arguments):
        # Hydra composes a configuration even to show the help.
        arguments += [f"model={key}" for key in configured(Path(), "model")[:1]]
    publishes = any(text.lower() == "publish=true" for text in arguments)
    if publishes and not any(text.startswith("evaluation=") for text in arguments):
        arguments.append(f"evaluation={read_settings(Path()).schemes[0]}")
    return arguments


def _run(arguments: list[str]) -> int:
    """Let Hydra compose and run, then finish what it has begun; return the exit status."""
    _session.sweep, _session.single, _session.error = None, None, None
    app = hydra.main(version_base="1.3", config_path=str(Path(CONF_FOLDER).resolve()), config_name="config")
    try:
        with _hydra_process(arguments), _hydra_errors(arguments), suppress(PointFailed, _SweepRefused):
            # A point that failed is gathered with the others and named below.
            app(task)()
        if _session.error is not None:
            raise _session.error
        if _session.sweep is not None:
            return _finish_sweep(_session.sweep)
    except BaseException as error:
        if _session.sweep is not None:
            _session.sweep.abort(error)
        raise
    if _session.single is not None:
        _finish_single(_session.single)
    return 0


def _finish_single(single: SingleRun) -> None:
    """Publish a configuration evaluated alone, and print the result."""
    from accelperf.publication import figures_line, publish

    trial = single.trial
    if single.publish:
        publish(trial, single.folder, [trial], single.data, single.store.resume(trial.run_id), None)
    else:
        figures = figures_line(trial.metrics)
        print(f"{trial.estimator} {trial.scheme}: {figures}{single.data.label} (MLflow run {trial.run_id})")


@contextmanager
def _hydra_process(arguments: list[str]) -> Iterator[None]:
    """Set what Hydra takes from the process: its command line, and whether to pass exceptions on."""
    typed, variable = sys.argv, os.environ.get(_FULL_ERROR)
    sys.argv = [typed[0], *arguments]
    # Hydra would print the first exception and exit.
    os.environ[_FULL_ERROR] = "1"
    try:
        yield
    finally:
        sys.argv = typed
        if variable is None:
            del os.environ[_FULL_ERROR]
        else:
            os.environ[_FULL_ERROR] = variable


@contextmanager
def _hydra_errors(arguments: Sequence[str] = ()) -> Iterator[None]:
    """Turn what Hydra says about a wrong command line or configuration into one line."""
    try:
        yield
    except MissingConfigException as error:
        raise _unknown_option(error) from error
    except (HydraException, OmegaConfBaseException) as error:
        raise _bad_override(error, arguments) from error
    except yaml.YAMLError as error:
        raise InputError(f"valid YAML in {CONF_FOLDER}", " ".join(str(error).split())) from error


def _unknown_option(error: MissingConfigException) -> AccelperfError:
    missing = str(error.missing_cfg_file).removesuffix(".yaml")
    group, _, name = missing.rpartition("/")
    if not group:
        return AccelperfError(_joined(error))
    options = error.options or configured(Path(), group)
    if group.startswith("grid/"):
        return InputError(
            f"a grid {group.removeprefix('grid/')!r} for {name}, {CONF_FOLDER}/{missing}.yaml",
            f"none (there is one for {known(options)})",
        )
    return InputError(f"{group}=NAME, one of {known(options)}", repr(name))


def _bad_override(error: Exception, arguments: Sequence[str]) -> AccelperfError:
    text = _joined(error)
    if "interpolation '${model}'" in text:
        # A grid belongs to one estimator; with several, or none, there is no ${model} to take.
        typed = " ".join(text for text in arguments if text.startswith("model=")) or "no model="
        return InputError("one estimator with a prepared grid, model=NAME", typed)
    if match := re.search(r"You must specify '([^']+)'", text):
        group = match[1]
        return InputError(f"{group}=NAME, one of {known(configured(Path(), group))}", f"no {group}=")
    if match := re.search(r"Could not override '([^']+)'", text):
        group, _, name = match[1].partition(".")
        chosen = [text.partition("=")[2] for text in arguments if text.startswith(f"{group}=")]
        if name and len(chosen) == 1 and chosen[0] in configured(Path(), group):
            path = Path(CONF_FOLDER) / group / f"{chosen[0]}.yaml"
            names = yaml.safe_load(path.read_text(encoding="utf-8"))
            return InputError(f"a key of {path}, one of {known(names)}", repr(name))
        return InputError("a key of the configuration (see --cfg job)", repr(match[1]))
    return AccelperfError(text)


def _joined(error: BaseException) -> str:
    """Return an error and its cause in one line."""
    parts = [str(error)]
    if isinstance(error.__cause__, OmegaConfBaseException):
        parts.append(str(error.__cause__))
    lines = [line.strip() for part in parts for line in part.splitlines()]
    return "; ".join(line for line in lines if line and not line.startswith("full_key"))


if __name__ == "__main__":
    # Hydra and its launchers refer to this module by name: the functions must be those of the
    # package, not a second copy called __main__.
    from accelperf.train import main as package_main

    package_main()
