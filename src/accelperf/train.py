"""The Hydra app ``accelperf-train``: evaluate configurations, sweep over them, publish the best.

One configuration is one MLflow run and returns the scheme's mean absolute error in ms, so any
Hydra sweeper can minimise it. A sweep (``-m``, or a prepared grid) is a parent run with one child a
point (`accelperf.sweep`); it ends in ``trials.csv`` and ``best.yaml``, and goes on where it was
interrupted. With ``publish=true``, which the DVC stage sets, the best configuration is published
(`accelperf.publication`).

Points may run in other processes or on other machines (`hydra/launcher`): they find the sweep's
record in ``hydra.sweep.dir``, and leave their results there. What is gathered from them is gathered
in `main`, since Hydra calls no one back when a point has failed.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import chdir, contextmanager, suppress
from dataclasses import dataclass
from itertools import product
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
from omegaconf import DictConfig, OmegaConf, open_dict, read_write
from omegaconf.errors import OmegaConfBaseException

from accelperf.errors import AccelperfError, InputError, exit_on_error, known
from accelperf.settings import (
    CONF_FOLDER,
    NO_GRID,
    configured,
    find_project_root,
    make_importable,
    read_evaluation,
    read_settings,
)
from accelperf.yaml_input import read_mapping

if TYPE_CHECKING:
    from accelperf.evaluation.nested import SchemeChoice
    from accelperf.features import FeatureMatrix
    from accelperf.points import Point
    from accelperf.publication import TrainingData
    from accelperf.sweep import Sweep
    from accelperf.tracking import Store
    from accelperf.trials import Configuration, Trial

EXIT_INTERRUPTED = 130

_BASIC_SWEEPER = "hydra._internal.core_plugins.basic_sweeper.BasicSweeper"
_BASIC_LAUNCHER = "hydra._internal.core_plugins.basic_launcher.BasicLauncher"
_FULL_ERROR = "HYDRA_FULL_ERROR"
_FOLDER_DIGITS = 8


class _SweepRefused(BaseException):
    """Ends Hydra before any job: it turns every `Exception` of a callback into a warning."""


class _NothingToRun(BaseException):
    """Ends Hydra before any job, since every point is finished."""


@dataclass(frozen=True)
class SingleRun:
    """An evaluated configuration outside of a sweep."""

    trial: Trial
    folder: Path
    store: Store
    data: TrainingData
    publish: bool
    nested: list[SchemeChoice]


@dataclass
class _Session:
    """What Hydra's callback and task leave for `main`, within one process."""

    sweep: Sweep | None = None
    single: SingleRun | None = None
    error: Exception | None = None


_session = _Session()


def sweep_folder(config: DictConfig) -> str:
    """Return the name of a sweep's folder from what was typed: the same sweep finds it again.

    Parameters
    ----------
    config : DictConfig
        The composed configuration with the node ``hydra``.
    """
    choices = config.hydra.runtime.choices
    parts = [re.sub(r"[^\w.+-]+", "+", str(choices.model))]
    grid = str(choices.get("grid", NO_GRID))
    if grid != NO_GRID:
        parts.append(grid)
    told = ("model=", "grid=", "publish=", "nested=")
    other = sorted(text for text in config.hydra.overrides.task if not text.startswith(told))
    if other:
        parts.append(hashlib.sha256("\n".join(other).encode()).hexdigest()[:_FOLDER_DIGITS])
    return "_".join(parts)


def best_of(estimator: str, name: str, configured_value: Any) -> Any:
    """Return a hyperparameter of the best published configuration of an estimator.

    Parameters
    ----------
    estimator, name : str
        Estimator and hyperparameter.
    configured_value : Any
        The value to take where that estimator has not been published.
    """
    path = Path("results") / estimator / "best.yaml"
    if not path.is_file():
        return configured_value
    settings = yaml.safe_load(path.read_text(encoding="utf-8"))["settings"]
    return settings.get(name, configured_value)


OmegaConf.register_new_resolver("sweep_folder", lambda *, _root_: sweep_folder(_root_), replace=True)
OmegaConf.register_new_resolver("best_of", best_of, replace=True)


def task(config: DictConfig) -> float:
    """Evaluate one configuration.

    Parameters
    ----------
    config : DictConfig
        Composed by Hydra: ``model`` (hyperparameters), ``evaluation``, ``features``, ``publish``,
        ``nested``.

    Returns
    -------
    float
        Mean absolute error under the scheme [ms]; NaN for a point that is left to an equal one.

    Raises
    ------
    accelperf.points.PointFailed
        In a sweep, if the point failed.
    """
    from accelperf.points import evaluate_alone
    from accelperf.publication import TrainingData
    from accelperf.tracking import open_store

    context = HydraConfig.get()
    # Points of a sweep run in other processes too, which have not seen `main`.
    root = find_project_root()
    make_importable(root)
    if context.mode == RunMode.MULTIRUN:
        return _run_point(config, root)
    folder = Path(context.runtime.output_dir)
    try:
        data = TrainingData.read(Path(config.features))
        _check_publication(config, [_estimator_key()], data.features)
        nested = _nested_schemes(config, data)
        if nested and not config.publish:
            raise InputError("a sweep (-m or grid=NAME) with nested=", "one configuration")
        # A wrong hyperparameter is an error on the command line, not a failed run in the store.
        _check_settings(config, _estimator_key())
        store = open_store(root)
        trial = evaluate_alone(_point(config, _estimator_key(), ""), folder, data, store)
    except Exception as error:
        # Hydra would print the overrides first; `main` raises it.
        _session.error = error
        return math.nan
    _session.single = SingleRun(trial, folder, store, data, _flag(config, "publish"), nested)
    return trial.mae_ms


def _run_point(config: DictConfig, root: Path) -> float:
    """Evaluate a point of a sweep, in whatever process; return its error."""
    from accelperf.points import PointFailed, SweepRecord, evaluate_point
    from accelperf.publication import TrainingData
    from accelperf.tracking import attach_store

    context = HydraConfig.get()
    folder = Path(context.sweep.dir)
    record = SweepRecord.read(folder)
    if record is None:
        raise PointFailed(f"{folder} holds no record of the sweep")
    key = _estimator_key()
    description = _describe_point(key, context.overrides.task, record.axes)
    here = context.launcher._target_ == _BASIC_LAUNCHER
    trial, new = evaluate_point(
        _point(config, key, description, int(context.job.num)),
        folder,
        record,
        lambda: TrainingData.read(Path(config.features)),
        attach_store(root, record.experiment_id),
        bar=here,
    )
    if trial is None:
        return math.nan
    if new and here and _session.sweep is not None:
        _session.sweep.report(trial)
    if not trial.finished:
        raise PointFailed(f"{description}: {trial.error}")
    return trial.mae_ms


def _estimator_key() -> str:
    return str(HydraConfig.get().runtime.choices.model)


def _check_settings(config: DictConfig, key: str) -> None:
    """Check the hyperparameters of a configuration without importing what trains it."""
    from accelperf.models.catalog import check_settings

    check_settings(key, _settings(config))


def _settings(config: DictConfig) -> dict[str, Any]:
    settings = OmegaConf.to_container(config.model, resolve=True)
    return {str(name): value for name, value in settings.items()}


def _flag(config: DictConfig, name: str) -> bool:
    """Return a setting that is true or false; Hydra lets any text pass."""
    value = config.get(name, False)
    if not isinstance(value, bool):
        raise InputError(f"{name}=true or {name}=false", repr(value))
    return value


def _configuration(config: DictConfig, key: str, settings: dict[str, Any] | None = None) -> Configuration:
    from accelperf.trials import Configuration

    evaluation = config.evaluation
    keep_twins = _flag(evaluation, "keep_twins")
    given = _settings(config) if settings is None else settings
    return Configuration.complete(key, given, str(evaluation.scheme), keep_twins)


def _point(config: DictConfig, key: str, description: str, number: int = 0) -> Point:
    from accelperf.points import Point

    resolved = OmegaConf.to_yaml(config, resolve=True)
    return Point(_configuration(config, key), description, resolved, number)


def _describe_point(key: str, overrides: Sequence[str], axes: Sequence[str]) -> str:
    """Return the estimator and the overrides that tell a point from others."""
    shown = [text for text in overrides if text.partition("=")[0] in axes and not text.startswith("model=")]
    return " ".join([key, *(text.removeprefix("model.") for text in shown)])


class SweepStart(Callback):  # type: ignore[misc]
    """Hydra callback that checks a sweep and opens its parent run before any job starts."""

    def on_multirun_start(self, config: DictConfig, **_: Any) -> None:
        """Check the points, open the parent run and leave its record for the points."""
        try:
            with _hydra_errors(list(config.hydra.overrides.task)):
                _session.sweep = _start_sweep(config)
        except Exception as error:
            _session.error = error
            raise _SweepRefused from error
        if _session.sweep.pending is not None and not _session.sweep.pending:
            raise _NothingToRun


def _start_sweep(config: DictConfig) -> Sweep:
    from accelperf.publication import TrainingData
    from accelperf.sweep import Sweep
    from accelperf.tracking import open_store, run_tags

    root = Path.cwd()
    make_importable(root)
    axes = _list_axes(config)
    points, estimators = _check_points(config, axes)
    data = TrainingData.read(Path(config.features))
    _check_publication(config, estimators, data.features)
    nested = _nested_schemes(config, data)
    if nested and len({point.configuration.scheme for point in points or ()}) > 1:
        raise InputError("one scheme of evaluation with nested=", "several")
    key = "+".join(estimators)
    grid = str(config.hydra.runtime.choices.get("grid", NO_GRID))
    folder = Path(config.hydra.sweep.dir)
    with read_write(config), open_dict(config):
        # Its name follows from what was typed, which jobs do not see and the plan replaces.
        config.hydra.sweep.dir = str(folder)
        quoted = str(folder).replace("'", "\\'")
        config.hydra.overrides.hydra.append(f"hydra.sweep.dir='{quoted}'")
    store = open_store(root)
    sweep = Sweep.start(
        folder,
        points,
        _varying(axes, config),
        data,
        store,
        name=f"{key} sweep" + ("" if grid == NO_GRID else f" {grid}") + data.label,
        tags=run_tags(key, origin=data.origin, features_md5=data.md5, root=root, kind="sweep", grid=grid),
        publishes=_flag(config, "publish"),
        nested=nested,
    )
    if axes is not None and points is not None and sweep.pending is not None:
        wanted = [
            values
            for point, values in zip(points, product(*axes.values()), strict=True)
            if point.configuration.fingerprint(data.md5) in sweep.pending
        ]
        _set_axes(config, axes, wanted)
    if config.hydra.launcher._target_ != _BASIC_LAUNCHER:
        sweep.watch()
    return sweep


def _nested_schemes(config: DictConfig, data: TrainingData) -> list[SchemeChoice]:
    """Return the schemes under which to nest the selection, after a look at whether that is possible."""
    from accelperf.evaluation.nested import SchemeChoice
    from accelperf.evaluation.splits import SCHEMES

    selecting = str(config.evaluation.scheme)
    chosen = []
    names = [config.nested] if isinstance(config.nested, str) else list(config.nested or ())
    for name in names:
        if name not in SCHEMES:
            raise InputError(f"nested=[SCHEME,...], of {known(SCHEMES)}", repr(name))
        if name == selecting:
            keep_twins = _flag(config.evaluation, "keep_twins")
        else:
            keep_twins = read_evaluation(Path(), str(name)).keep_twins
        choice = SchemeChoice(str(name), keep_twins)
        choice.folds(data.features)
        chosen.append(choice)
    return chosen


def _list_axes(config: DictConfig) -> dict[str, list[str]] | None:
    """Return the overrides of each axis, each value once; None for a sweeper that chooses points."""
    from hydra._internal.core_plugins.basic_sweeper import BasicSweeper

    grid = str(config.hydra.runtime.choices.get("grid", NO_GRID))
    params = OmegaConf.select(config, "hydra.sweeper.params") or {}
    if grid != NO_GRID:
        key = config.hydra.runtime.choices.get("model")
        file = f"{CONF_FOLDER}/grid/{grid}/{key}.yaml"
        if not params:
            raise InputError("at least one axis under hydra.sweeper.params", "none", file=file)
        for name in params:
            if params[name] is None or str(params[name]).strip() in ("", "[]"):
                raise InputError(f"at least one value for {name}", "none", file=file)
    if config.hydra.sweeper._target_ != _BASIC_SWEEPER:
        return None
    parser = OverridesParser.create(config_loader=GlobalHydra.instance().config_loader())
    overrides = [f"{name}={params[name]}" for name in params] + list(config.hydra.overrides.task)
    (points,) = BasicSweeper.split_arguments(parser.parse_overrides(overrides), None)
    axes: dict[str, list[str]] = {}
    for place, texts in enumerate(zip(*points, strict=True)):
        name = points[0][place].partition("=")[0]
        # The configured value may be listed twice; a point is evaluated once.
        values: dict[float | str, str] = {}
        for text in texts:
            values.setdefault(_number(text.partition("=")[2]), text)
        axes[name] = list(values.values())
    return axes


def _set_axes(config: DictConfig, axes: dict[str, list[str]], wanted: Sequence[Sequence[str]]) -> None:
    """Leave the sweeper those values of each axis that a wanted point has.

    The sweeper makes every combination of them: jobs at other points find these finished.
    """
    overrides = []
    for place, (name, values) in enumerate(axes.items()):
        left = [text for text in values if any(point[place] == text for point in wanted)]
        overrides.append(f"{name}=" + ",".join(text.partition("=")[2] for text in left))
    with read_write(config), open_dict(config):
        config.hydra.sweeper.params = {}
        config.hydra.overrides.task = overrides


def _varying(axes: dict[str, list[str]] | None, config: DictConfig) -> list[str]:
    """Return the keys in which points differ; of a single point its hyperparameters."""
    if axes is None:
        params = OmegaConf.select(config, "hydra.sweeper.params") or {}
        typed = [text.partition("=")[0] for text in config.hydra.overrides.task]
        return list(dict.fromkeys([*map(str, params), *typed]))
    names = [name for name, values in axes.items() if len(values) > 1]
    return names or [name for name in axes if name.startswith("model.")]


def _number(text: str) -> float | str:
    """Return a number as such, so that 0.10 and 0.1 are one value."""
    try:
        return float(text)
    except ValueError:
        return text


def _check_points(
    config: DictConfig, axes: dict[str, list[str]] | None
) -> tuple[list[Point] | None, list[str]]:
    """Return the points of a sweep and its estimators, in order, if each has a point that can run.

    An unknown hyperparameter refuses the sweep. A value out of bounds fails its own point later,
    unless no point of the estimator is left.
    """
    from accelperf.models.catalog import check_settings
    from accelperf.points import Point

    if axes is None:
        key = str(config.hydra.runtime.choices.model)
        _check_settings(config, key)
        return None, [key]
    shown = _varying(axes, config)
    compose = _Composer(config)
    points = []
    refused: dict[str, InputError | None] = {}
    for overrides in product(*axes.values()):
        composed, settings = compose(overrides)
        key = str(composed.hydra.runtime.choices.model)
        description = _describe_point(key, overrides, shown)
        points.append(Point(_configuration(composed, key, settings), description))
        try:
            check_settings(key, settings)
            refused[key] = None
        except InputError as error:
            if error.expected.startswith("a hyperparameter of"):
                raise
            refused.setdefault(key, error)
    for reason in refused.values():
        if reason is not None:
            raise reason
    return points, list(refused)


class _Composer:
    """Composes the points of a sweep.

    Hydra takes 50 ms for one. Points that differ in plain hyperparameters alone are composed once,
    and the hyperparameters set as Hydra would set them.
    """

    def __init__(self, config: DictConfig) -> None:
        self._config = config
        self._loader = GlobalHydra.instance().config_loader()
        self._parser = OverridesParser.create(config_loader=self._loader)
        self._composed: dict[tuple[str, ...], tuple[DictConfig, dict[str, Any]]] = {}

    def __call__(self, overrides: Sequence[str]) -> tuple[DictConfig, dict[str, Any]]:
        """Return the configuration of a point (but for hyperparameters) and its hyperparameters."""
        plain = [text for text in overrides if re.match(r"model\.\w+=", text) and "${" not in text]
        others = tuple(text for text in overrides if text not in plain)
        composed, settings = self._compose(others)
        values = {}
        for text in plain:
            override = self._parser.parse_override(text)
            name = override.key_or_group.removeprefix("model.")
            if name not in settings:
                # Hydra says what is wrong with it.
                return self._compose(tuple(overrides))
            values[name] = override.value()
        return composed, settings | values

    def _compose(self, overrides: tuple[str, ...]) -> tuple[DictConfig, dict[str, Any]]:
        if overrides not in self._composed:
            composed = self._loader.load_sweep_config(self._config, list(overrides))
            self._composed[overrides] = composed, _settings(composed)
        return self._composed[overrides]


def _check_publication(config: DictConfig, estimators: Sequence[str], features: FeatureMatrix) -> None:
    """Check, before anything is computed, that results can be published."""
    from accelperf.evaluation.splits import make_folds

    if not _flag(config, "publish"):
        return
    if len(estimators) > 1:
        raise InputError("one estimator with publish=true", " and ".join(estimators))
    selecting = read_settings(Path()).schemes[0]
    if config.evaluation.scheme != selecting:
        raise InputError(
            f"evaluation={selecting} with publish=true, the first of schemes in params.yaml",
            f"evaluation={config.evaluation.scheme}",
        )
    for scheme in read_settings(Path()).schemes:
        # A scheme that these rows cannot support is better known before the sweep than after it.
        make_folds(features, scheme, keep_twins=read_evaluation(Path(), scheme).keep_twins)


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
                complete = _complete(typed)
                make_importable(root)
                _check_files(complete)
                status = _run(complete)
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
    if publishes and not any(text.startswith("nested=") for text in arguments):
        arguments.append(f"nested=[{','.join(read_settings(Path()).nested_selection)}]")
    return arguments


def _check_files(arguments: Sequence[str]) -> None:
    """Check the configuration files that are named, so that what is wrong in them has a line.

    Hydra composes first, and then a value no longer knows where it stood. Unknown names are left to
    Hydra, which lists the known ones.
    """
    from accelperf.models.catalog import check_settings

    for text in arguments:
        group, _, names = text.partition("=")
        if group not in ("model", "evaluation"):
            continue
        for name in names.split(","):
            path = Path(CONF_FOLDER) / group / f"{name}.yaml"
            if not path.is_file():
                continue
            if group == "evaluation":
                read_evaluation(Path(), name)
            else:
                hyperparameters, lines = read_mapping(path)
                check_settings(name, hyperparameters, file=path, lines=lines)


def _run(arguments: list[str]) -> int:
    """Let Hydra compose and run, then finish what it has begun; return the exit status."""
    from accelperf.points import PointFailed

    _session.sweep, _session.single, _session.error = None, None, None
    app = hydra.main(version_base="1.3", config_path=str(Path(CONF_FOLDER).resolve()), config_name="config")
    try:
        failure = None
        try:
            with (
                _hydra_process(arguments),
                _hydra_errors(arguments),
                suppress(PointFailed, _SweepRefused, _NothingToRun),
            ):
                # A point that failed is gathered with the others and named below.
                app(task)()
        except Exception as error:
            # A launcher may lose a job, or its way to the cluster; what the others found stands.
            if _session.sweep is None or isinstance(error, AccelperfError):
                raise
            failure = error
        if _session.error is not None:
            raise _session.error
        if _session.sweep is not None:
            return _session.sweep.finish(failure)
    except BaseException as error:
        if _session.sweep is not None:
            _session.sweep.abort(error)
        raise
    finally:
        if _session.sweep is not None:
            _session.sweep.close()
    if _session.single is not None:
        _finish_single(_session.single)
    return 0


def _finish_single(single: SingleRun) -> None:
    """Publish a configuration evaluated alone, and print the result."""
    from accelperf.publication import figures_line, publish
    from accelperf.trials import PREDICTIONS

    trial = single.trial
    if single.publish:
        publish(
            trial,
            single.folder / PREDICTIONS,
            [trial],
            single.data,
            single.store.resume(trial.run_id),
            None,
            kept=single.folder,
            nested_schemes=[choice.scheme for choice in single.nested],
        )
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
