"""Settings of the pipeline: ``params.yaml``, and where the project is.

What an estimator's hyperparameters are stands in ``conf/model``, not here.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, field_validator

from accelperf.errors import InputError, known
from accelperf.evaluation.metrics import COMPARABLE
from accelperf.evaluation.splits import SCHEMES
from accelperf.layers import ORIGINS
from accelperf.logs.checks import read_actions
from accelperf.models.catalog import ESTIMATORS
from accelperf.yaml_input import StrictModel, parse_model, read_mapping

PARAMS_FILE = "params.yaml"
CONF_FOLDER = "conf"
NO_GRID = "none"
"""Name of the grid that is none: the configured values alone."""
FOLDER_KEYS: tuple[str, ...] = ("profiles", "memory", "platforms", "networks")


def _one_of(kind: str, names: Sequence[str]) -> AfterValidator:
    def check(value: str) -> str:
        if value not in names:
            raise ValueError(f"{kind}, one of {known(names)}")
        return value

    return AfterValidator(check)


class Settings(StrictModel):
    """The content of ``params.yaml``.

    Attributes
    ----------
    profiles, memory, platforms, networks : str
        Folders with profiling logs, Shuhai logs, platform files and network tables, relative to
        the project.
    origins : list of str
        Which rows to learn from: measured, simulated, estimated.
    accelerators : list of str, optional
        Accelerators to learn from; all if null.
    models : list of str
        Keys of the estimators to train.
    schemes : list of str
        How to evaluate them. The first one selects among the points of a grid, the last one among
        the estimators (see `champion`).
    grid : str
        The search space, a folder in ``conf/grid``, or ``none``.
    nested_selection : list of str
        Those of the schemes under which the selection among the points of the grid is nested too
        (`accelperf.evaluation.nested`).
    champion : str, optional
        Figure of ``metrics.json`` under the last of the schemes by which the champion of the model
        registry is chosen; none is registered if null.
    checks : dict of str to str
        What is done about what a check of the profiling logs finds, by its code
        (`accelperf.logs.checks.CHECKS`): flag, drop or stop; defaults for those not given.
    """

    profiles: str
    memory: str
    platforms: str
    networks: str
    origins: Annotated[list[Annotated[str, _one_of("an origin", ORIGINS)]], Field(min_length=1)]
    accelerators: Annotated[list[str], Field(min_length=1)] | None = None
    models: Annotated[list[Annotated[str, _one_of("an estimator", ESTIMATORS)]], Field(min_length=1)]
    schemes: Annotated[list[Annotated[str, _one_of("a scheme", SCHEMES)]], Field(min_length=1)]
    grid: str
    nested_selection: list[Annotated[str, _one_of("a scheme", SCHEMES)]] = Field(default_factory=list)
    champion: Annotated[str, _one_of("a metric", COMPARABLE)] | None = "mape"
    checks: dict[str, str] = Field(default_factory=dict)

    @field_validator("origins", "accelerators", "models", "schemes", "nested_selection")
    @classmethod
    def _without_repetition(cls, values: list[str] | None) -> list[str] | None:
        if values is not None and len(set(values)) < len(values):
            raise ValueError("entries that all differ")
        return values


class EvaluationSettings(StrictModel):
    """The content of ``conf/evaluation/SCHEME.yaml``: how folds are made.

    Attributes
    ----------
    scheme : str
        One of `accelperf.evaluation.splits.SCHEMES`.
    keep_twins : bool
        See `accelperf.evaluation.splits.make_folds`.
    """

    scheme: Annotated[str, _one_of("a scheme", SCHEMES)]
    keep_twins: bool = False


def find_project_root(start: Path | None = None) -> Path:
    """Return the project that a folder belongs to: the first above it with dvc.yaml and conf/.

    Parameters
    ----------
    start : Path, optional
        Where to start; the working directory by default.

    Raises
    ------
    InputError
        If there is none.
    """
    here = (start or Path.cwd()).resolve()
    for folder in (here, *here.parents):
        if (folder / "dvc.yaml").is_file() and (folder / CONF_FOLDER).is_dir():
            return folder
    raise InputError("a project (dvc.yaml and conf/) in this folder or above it", "none", file=here)


def make_importable(root: Path) -> None:
    """Let Python find modules that lie in the project, such as one with a user's mean function."""
    folder = str(root.resolve())
    if folder not in sys.path:
        sys.path.append(folder)


def read_settings(root: Path) -> Settings:
    """Read and check ``params.yaml`` of a project.

    Parameters
    ----------
    root : Path
        The project's folder.

    Returns
    -------
    Settings
        The validated settings. Every folder exists, and ``conf`` knows every estimator, scheme
        and grid that is named.

    Raises
    ------
    InputError
        Names the line of the first thing wrong, and the known names where a name is unknown.
    """
    path = root / PARAMS_FILE
    data, lines = read_mapping(path)
    settings = parse_model(Settings, data, file=path, lines=lines)
    read_actions(settings.checks, file=path, lines=lines)
    for key in FOLDER_KEYS:
        folder = getattr(settings, key)
        if not (root / folder).is_dir():
            raise InputError(f"{key}: an existing folder", repr(folder), file=path, line=lines[(key,)])
    for key, group, names in (
        ("models", "model", settings.models),
        ("schemes", "evaluation", settings.schemes),
    ):
        for index, name in enumerate(names):
            if name not in configured(root, group):
                file = f"{CONF_FOLDER}/{group}/{name}.yaml"
                line = lines.get((key, str(index)))
                raise InputError(f"{key}: a name with a file {file}", repr(name), file=path, line=line)
    for index, name in enumerate(settings.nested_selection):
        if name not in settings.schemes:
            raise InputError(
                f"nested_selection: some of schemes, {known(settings.schemes)}",
                repr(name),
                file=path,
                line=lines.get(("nested_selection", str(index))),
            )
    _check_grid(root, settings, path, lines[("grid",)])
    return settings


def project_checks(start: Path | None = None) -> dict[str, str]:
    """Return what ``checks`` in ``params.yaml`` says, of the project that a folder belongs to.

    Parameters
    ----------
    start : Path, optional
        Where to look for the project; the working directory by default.

    Returns
    -------
    dict
        Actions by code, valid ones; empty outside of a project.

    Raises
    ------
    InputError
        If they are wrong. The other settings are not looked at.
    """
    try:
        path = find_project_root(start) / PARAMS_FILE
    except InputError:
        return {}
    data, lines = read_mapping(path)
    checks = parse_model(_Checks, {"checks": data.get("checks", {})}, file=path, lines=lines).checks
    read_actions(checks, file=path, lines=lines)
    return checks


class _Checks(StrictModel):
    checks: dict[str, str]


def _check_grid(root: Path, settings: Settings, path: Path, line: int) -> None:
    grids = {NO_GRID, *configured(root, "grid")}
    if settings.grid not in grids:
        raise InputError(f"grid: one of {known(grids)}", repr(settings.grid), file=path, line=line)
    if settings.grid == NO_GRID:
        return
    points = configured(root, f"grid/{settings.grid}")
    for name in settings.models:
        if name not in points:
            folder = f"{CONF_FOLDER}/grid/{settings.grid}"
            raise InputError(
                f"a grid for {name} in {folder}, which has {known(points)}",
                f"no {name}.yaml",
                file=path,
                line=line,
            )


def configured(root: Path, group: str) -> list[str]:
    """Return the names of the files in a folder of ``conf``, sorted."""
    return sorted(path.stem for path in (root / CONF_FOLDER / group).glob("*.yaml"))


def read_evaluation(root: Path, scheme: str) -> EvaluationSettings:
    """Read ``conf/evaluation/SCHEME.yaml`` (see `EvaluationSettings`)."""
    path = root / CONF_FOLDER / "evaluation" / f"{scheme}.yaml"
    data, lines = read_mapping(path)
    settings = parse_model(EvaluationSettings, data, file=path, lines=lines)
    if settings.scheme != scheme:
        raise InputError(
            f"scheme: {scheme}, as the file is named",
            repr(settings.scheme),
            file=path,
            line=lines[("scheme",)],
        )
    return settings
