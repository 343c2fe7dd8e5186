"""MLflow: where runs go, and what every run of this project carries.

One run is one evaluated configuration, never one fold; a sweep is a parent with one nested run for
each of its points. Runs go to ``MLFLOW_TRACKING_URI`` if it is set, else to SQLite ``mlflow.db``
and ``mlartifacts/`` in the project's own root, also from the temporary copies in which DVC runs
queued experiments. The client is used throughout, not MLflow's current run, so that neither
``MLFLOW_RUN_ID`` nor automatic logging has any part in it.
"""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import tempfile
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Set before MLflow is imported: it reads them then.
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
os.environ.setdefault("DO_NOT_TRACK", "true")
# With a server MLflow prints two lines at the end of every run.
os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")

from filelock import FileLock
from mlflow import MlflowClient
from mlflow.entities import Dataset as MlflowDataset
from mlflow.entities import DatasetInput, InputTag, Metric, Param, RunStatus, RunTag
from mlflow.exceptions import MlflowException
from mlflow.utils.mlflow_tags import MLFLOW_DATASET_CONTEXT, MLFLOW_GIT_COMMIT, MLFLOW_PARENT_RUN_ID

from accelperf import __version__
from accelperf.errors import InputError, print_warning

EXPERIMENT = "accelperf"
DATABASE = "mlflow.db"
ARTIFACTS = "mlartifacts"
OLD_STORE = "mlruns"
"""Folder of MLflow's file store, which MLflow no longer reads."""
LOCK_TIMEOUT_S = 120
TRACEBACK = "traceback.txt"

RUNNING = RunStatus.to_string(RunStatus.RUNNING)
FINISHED = RunStatus.to_string(RunStatus.FINISHED)
FAILED = RunStatus.to_string(RunStatus.FAILED)
KILLED = RunStatus.to_string(RunStatus.KILLED)

_EXPERIMENT_TAGS = {"mlflow.experimentKind": "custom_model_development"}
"""Without it the user interface asks what the experiment is for before it shows runs."""
_SQLITE = "sqlite:///"
_PAGE = 1000
_LONGEST_PARAMETER = 6000
_LONGEST_TAG = 5000


@dataclass(frozen=True)
class Dataset:
    """What a run learns from, as MLflow shows it beside the run.

    Attributes
    ----------
    name, digest : str
        Its name, and the MD5 that tells it from others of the name.
    source : str
        The file.
    columns : Mapping of str to str
        Type of each column.
    profile : Mapping
        Plain values that describe it: rows, and the logs behind them.
    """

    name: str
    digest: str
    source: str
    columns: Mapping[str, str]
    profile: Mapping[str, Any]

    def as_input(self) -> DatasetInput:
        """Return it as MLflow's own entity."""
        kinds = {"int64": "long", "float64": "double"}
        schema = [
            {"name": name, "type": kinds.get(kind, "string"), "required": True}
            for name, kind in self.columns.items()
        ]
        entity = MlflowDataset(
            name=self.name,
            digest=self.digest,
            source_type="local",
            source=json.dumps({"uri": self.source}),
            schema=json.dumps({"mlflow_colspec": schema}),
            profile=json.dumps(self.profile),
        )
        return DatasetInput(dataset=entity, tags=[InputTag(MLFLOW_DATASET_CONTEXT, "training")])


@dataclass(frozen=True)
class Run:
    """A run of the store that can be written to, open or ended.

    Attributes
    ----------
    client : MlflowClient
        Of the store.
    run_id : str
        The run.
    """

    client: Any
    run_id: str

    def log_parameters(self, parameters: Mapping[str, Any]) -> None:
        """Log hyperparameters under their plain names; lists are written as text."""
        params = [Param(name, str(value)[:_LONGEST_PARAMETER]) for name, value in parameters.items()]
        self.client.log_batch(self.run_id, params=params)

    def parameters(self) -> dict[str, str]:
        """Return what was logged as parameters."""
        return dict(self.client.get_run(self.run_id).data.params)

    def log_metrics(self, scheme: str, metrics: Mapping[str, float | int | str]) -> None:
        """Log the content of a ``metrics.json`` under the names of `metric_names`."""
        now = int(time.time() * 1000)
        named = metric_names(scheme, metrics)
        self.client.log_batch(
            self.run_id, metrics=[Metric(name, value, now, 0) for name, value in named.items()]
        )

    def set_tags(self, tags: Mapping[str, str]) -> None:
        """Set tags."""
        self.client.log_batch(
            self.run_id, tags=[RunTag(name, value[:_LONGEST_TAG]) for name, value in tags.items()]
        )

    def clear_tag(self, name: str) -> None:
        """Remove a tag, if it is there."""
        if name in self.client.get_run(self.run_id).data.tags:
            self.client.delete_tag(self.run_id, name)

    def log_file(self, path: Path, folder: str | None = None) -> None:
        """Store a file, in a folder of the run's artifacts."""
        self.client.log_artifact(self.run_id, str(path), folder)

    def log_folder(self, path: Path, folder: str) -> None:
        """Store the files of a folder."""
        self.client.log_artifacts(self.run_id, str(path), folder)

    def log_dataset(self, dataset: Dataset) -> None:
        """Record what the run learns from."""
        self.client.log_inputs(self.run_id, datasets=[dataset.as_input()])

    def end(self, status: str) -> None:
        """End the run with a status of MLflow: FINISHED, FAILED or KILLED."""
        self.client.set_terminated(self.run_id, status)

    def fail(self, error: BaseException) -> None:
        """End the run as FAILED, with the traceback as an artifact and the error as a tag."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / TRACEBACK
            path.write_text("".join(traceback.format_exception(error)), encoding="utf-8")
            self.log_file(path)
        self.set_tags({"error": one_line(error)})
        self.end(FAILED)


@dataclass(frozen=True)
class Store:
    """An MLflow store with the project's experiment in it."""

    client: Any
    experiment_id: str

    def start(self, name: str, tags: Mapping[str, str], *, parent: str | None = None) -> Run:
        """Start a run.

        Parameters
        ----------
        name : str
            Name that the user interface shows.
        tags : Mapping of str to str
            See `run_tags`.
        parent : str, optional
            Id of the run to nest it in.
        """
        nested = {} if parent is None else {MLFLOW_PARENT_RUN_ID: parent}
        run = self.client.create_run(self.experiment_id, run_name=name, tags={**tags, **nested})
        return Run(self.client, run.info.run_id)

    @contextmanager
    def run(self, name: str, tags: Mapping[str, str], *, parent: str | None = None) -> Iterator[Run]:
        """Start a run and end it: FINISHED, FAILED with the traceback, or KILLED if interrupted."""
        run = self.start(name, tags, parent=parent)
        try:
            yield run
        except Exception as error:
            run.fail(error)
            raise
        except BaseException:
            run.end(KILLED)
            raise
        run.end(FINISHED)

    def resume(self, run_id: str) -> Run:
        """Return a run by its id."""
        return Run(self.client, run_id)

    def status(self, run_id: str) -> str | None:
        """Return the status of a run; None if this experiment has no such run, or a deleted one."""
        try:
            run = self.client.get_run(run_id)
        except MlflowException:
            return None
        here = run.info.experiment_id == self.experiment_id and run.info.lifecycle_stage == "active"
        return str(run.info.status) if here else None

    def reopen(self, run_id: str) -> Run:
        """Return a run that has ended, running again."""
        self.client.update_run(run_id, status=RUNNING)
        return self.resume(run_id)

    def children(self, parent: str) -> dict[str, str]:
        """Return the status of each run inside a parent, by its id; deleted ones are left out."""
        found: dict[str, str] = {}
        token = None
        while True:
            page = self.client.search_runs(
                [self.experiment_id],
                f"tags.`{MLFLOW_PARENT_RUN_ID}` = '{parent}'",
                max_results=_PAGE,
                page_token=token,
            )
            found |= {str(run.info.run_id): str(run.info.status) for run in page}
            token = page.token
            if not token:
                return found

    def close_children(self, parent: str) -> None:
        """End as KILLED whatever still runs inside a parent (after an interruption)."""
        for run_id, status in self.children(parent).items():
            if status == RUNNING:
                self.client.set_terminated(run_id, KILLED)


def open_store(root: Path) -> Store:
    """Open the MLflow store of a project, making schema and experiment if they are missing.

    Parameters
    ----------
    root : Path
        The project. Inside a DVC stage ``DVC_ROOT`` takes its place: it is the original project
        also where DVC works in a temporary copy.

    Returns
    -------
    Store
        Ready for runs.

    Raises
    ------
    InputError
        If ``MLFLOW_TRACKING_URI`` names no store that MLflow can use.
    """
    home, uri = store_location(root)
    if not os.environ.get("MLFLOW_TRACKING_URI"):
        _mention_old_store(home)
    # Several processes that start on a fresh SQLite file break it; the first one in makes it.
    try:
        with quiet("alembic", "mlflow"), FileLock(home / f"{DATABASE}.lock", timeout=LOCK_TIMEOUT_S):
            client = MlflowClient(tracking_uri=uri)
            return Store(client, _experiment(client, uri, home))
    except Exception as error:
        # Each kind of store has errors of its own: of the database, its driver, the network.
        got = _without_password(f"{uri} ({one_line(error)})")
        raise InputError("an MLflow store that can be opened", got) from None


def attach_store(root: Path, experiment_id: str) -> Store:
    """Return a store that another process has opened: nothing is made, so nothing is locked."""
    _, uri = store_location(root)
    with quiet("alembic", "mlflow"):
        return Store(MlflowClient(tracking_uri=uri), experiment_id)


def store_location(root: Path) -> tuple[Path, str]:
    """Return the project whose store it is, and the store's address (see `open_store`)."""
    home = Path(os.environ.get("DVC_ROOT") or root).resolve()
    uri = os.environ.get("MLFLOW_TRACKING_URI") or _SQLITE + DATABASE
    if uri.startswith(_SQLITE):
        # A relative path would follow the working directory, in DVC's copies to a lost file.
        uri = f"{_SQLITE}{home / uri.removeprefix(_SQLITE)}"
    return home, uri


def _experiment(client: Any, uri: str, home: Path) -> str:
    """Return the id of the experiment, made if it is missing."""
    experiment = client.get_experiment_by_name(EXPERIMENT)
    if experiment is None:
        # A server keeps artifacts where it likes. For a database the place must be given: MLflow's
        # own choice follows the working directory.
        served = uri.startswith(("http:", "https:", "databricks"))
        location = None if served else (home / ARTIFACTS).as_uri()
        try:
            return str(client.create_experiment(EXPERIMENT, location, tags=_EXPERIMENT_TAGS))
        except MlflowException:
            # Another machine on the same server was faster.
            experiment = client.get_experiment_by_name(EXPERIMENT)
            if experiment is None:
                raise
    if experiment.lifecycle_stage != "active":
        raise InputError(
            f"an active MLflow experiment {EXPERIMENT!r}",
            f"a deleted one (mlflow experiments restore --experiment-id {experiment.experiment_id})",
        )
    return str(experiment.experiment_id)


def _mention_old_store(home: Path) -> None:
    if (home / OLD_STORE).is_dir() and not (home / DATABASE).exists():
        print_warning(
            f"{OLD_STORE}/ is a store that MLflow no longer reads, and {DATABASE} begins anew; to keep "
            f"its runs, convert it into a database of its own: mlflow migrate-filestore "
            f"--source {OLD_STORE} --target sqlite:///{OLD_STORE}.db"
        )


def _without_password(text: str) -> str:
    """Return a text with user and password taken out of the addresses in it."""
    return re.sub(r"//[^/@\s]*@", "//***@", text)


@contextmanager
def quiet(*names: str) -> Iterator[None]:
    """Keep the messages of making a database off the terminal; warnings and errors go through."""
    levels = {name: logging.getLogger(name).level for name in names}
    for name in names:
        logging.getLogger(name).setLevel(logging.WARNING)
    try:
        yield
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)


def metric_names(scheme: str, metrics: Mapping[str, float | int | str]) -> dict[str, float]:
    """Return the figures of a ``metrics.json`` under their names in MLflow.

    Parameters
    ----------
    scheme : str
        The scheme, which becomes the prefix.
    metrics : Mapping
        The figures; text among them is left out.

    Returns
    -------
    dict
        ``loo_mae_ms`` and so on; names that begin with the scheme stay as they are, and ``loo``
        also gives ``loocv_mae_ms``, the paper's figure.

    Examples
    --------
    >>> metric_names("loo", {"scheme": "loo", "mae_ms": 0.5, "loo_fixed_mae_ms": 0.4})
    {'loo_mae_ms': 0.5, 'loo_fixed_mae_ms': 0.4, 'loocv_mae_ms': 0.5}
    """
    prefix = f"{scheme}_"
    named = {
        name if name.startswith(prefix) else prefix + name: float(value)
        for name, value in metrics.items()
        if not isinstance(value, str)
    }
    if scheme == "loo" and "mae_ms" in metrics:
        named["loocv_mae_ms"] = named["loo_mae_ms"]
    return named


def run_tags(estimator: str, *, origin: str, features_md5: str, root: Path, **further: str) -> dict[str, str]:
    """Return the tags of a run: what it ran on and from.

    Parameters
    ----------
    estimator : str
        Key of the estimator.
    origin : str
        Where the latencies come from: measured, simulated, estimated, or mixed.
    features_md5 : str
        MD5 of the features.
    root : Path
        The project, for the commit.
    **further : str
        More tags, such as ``configuration``.
    """
    tags = {
        "estimator": estimator,
        "origin": origin,
        "features_md5": features_md5,
        "accelperf_version": __version__,
        **further,
    }
    commit = git_commit(root)
    if commit:
        tags |= {"git_commit": commit, MLFLOW_GIT_COMMIT: commit}
    for variable, tag in (("DVC_STAGE", "dvc_stage"), ("DVC_EXP_NAME", "dvc_experiment")):
        if os.environ.get(variable):
            tags[tag] = os.environ[variable]
    return tags


def git_commit(root: Path) -> str | None:
    """Return the checked-out commit of the repository around a folder, None outside of one."""
    try:
        answer = subprocess.run(
            ["git", "rev-parse", "--verify", "HEAD"],  # noqa: S607 - the user's git, found on PATH
            cwd=root,
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        return None
    return answer.stdout.strip() if answer.returncode == 0 else None


def one_line(error: BaseException) -> str:
    """Return an error as one line: its kind, unless the message says it all, and its message."""
    lines = str(error).strip().splitlines()
    message = lines[0] if lines else ""
    if isinstance(error, InputError):
        return message
    return f"{type(error).__name__}: {message}" if message else type(error).__name__
