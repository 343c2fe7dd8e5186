"""Sweeps: elsewhere, killed and started again, grown, and with nested selection."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hydra.core.plugins import Plugins

from accelperf import pictures, tracking, trials
from accelperf.bundle import load_bundle
from accelperf.evaluation import cross_validation
from accelperf.evaluation.cross_validation import Evaluation, evaluate
from accelperf.features import FeatureMatrix, read_features, write_features
from tests import test_train
from tests.conftest import ROOT
from tests.test_train import PARAMS, PICTURES, SAME_NUMBER, VARIABLES, Project, draw_nothing, mae

# MLflow's own tables use what the installed SQLAlchemy deprecates.
pytestmark = pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SADeprecationWarning")

template, drawing_project, project = test_train.template, test_train.drawing_project, test_train.project

# ----------------------------------------------------------------------------------------- launchers


@pytest.mark.parametrize("launcher", ["joblib_cores", "submitit_here"])
def test_points_in_other_processes_have_the_same_parent(project: Project, launcher: str) -> None:
    # In a process of its own: joblib's workers keep the folder in which they were started. With a
    # copy of the source: one that is edited while points wait for their turn fails them.
    shutil.copytree(ROOT / "src", project.root / "src")
    environment = os.environ | {"PYTHONPATH": str(project.root / "src")}
    command = [sys.executable, "-m", "accelperf.train", "-m", "model=linear", "model.alpha=0,-1"]
    options = [f"hydra/launcher={launcher}", "hydra.sweep.dir=multirun/test"]
    result = subprocess.run(
        [*command, *options], capture_output=True, text=True, check=False, env=environment
    )
    assert result.returncode == 1, result.stderr
    assert "[1/2] linear alpha=0: MAE " in result.stderr
    assert "error: point [2/2] linear alpha=-1 failed: " in result.stderr
    assert "Traceback" not in result.stderr
    parent, children = project.family()
    assert parent.info.status == "FAILED"
    assert {run.data.params["alpha"]: run.info.status for run in children} == {
        "0.0": "FINISHED",
        "-1": "FAILED",
    }


def test_what_was_found_before_the_launcher_failed_stands(
    project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "hydra._internal.core_plugins.basic_launcher.BasicLauncher"
    launcher = Plugins.instance().class_name_to_class[name]
    launch = launcher.launch

    def lose_a_job(self: Any, job_overrides: Any, initial_job_idx: int) -> Any:
        launch(self, job_overrides[:1], initial_job_idx)
        raise RuntimeError("job 17 was lost")

    monkeypatch.setattr(launcher, "launch", lose_a_job)
    arguments = ["-m", "model=linear", "model.alpha=0,1", "hydra.sweep.dir=multirun/test"]
    assert project.run(*arguments) == 1
    parent, children = project.family()
    assert parent.info.status == "FAILED"
    assert [run.info.status for run in children] == ["FINISHED"]
    err = capsys.readouterr().err
    assert "error: the launcher failed: RuntimeError: job 17 was lost" in err
    assert "error: 1 of 2 points did not run; start the sweep again" in err
    assert list(pd.read_csv(project.root / "multirun/test/trials.csv")["alpha"]) == [0.0]
    assert "lost" in project.text(parent, "traceback.txt")

    monkeypatch.setattr(launcher, "launch", launch)
    assert project.run(*arguments) == 0
    parent, children = project.family()
    assert parent.info.status == "FINISHED"
    assert "error" not in parent.data.tags
    assert len(children) == 2


# ------------------------------------------------------------------------------------ starting again

SWEEP = ["-m", "model=linear", "model.alpha=0,1,2", "publish=true", "hydra.sweep.dir=multirun/linear"]
IDENTIFIERS = {"mlflow.json", "sweep.json", "result.json", "multirun.yaml"}
"""Files that name runs, or the arguments of the last start."""


def outputs(root: Path) -> dict[str, bytes]:
    """Return what a sweep and its publication left, but for what names runs."""
    files = [*(root / "multirun/linear").glob("*.*"), *(root / "results").rglob("*")]
    files += (root / "reports").rglob("*.json")
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in files
        if path.is_file() and path.name not in IDENTIFIERS
    }


@pytest.fixture(scope="module")
def uninterrupted(template: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Return the outputs of the sweep that runs from its start to its end."""
    root = tmp_path_factory.mktemp("uninterrupted") / "project"
    shutil.copytree(template, root)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        for name in VARIABLES:
            patch.delenv(name, raising=False)
        for name in PICTURES:
            patch.setattr(pictures, name, draw_nothing(name))
        assert Project(root).run(*SWEEP) == 0
    return outputs(root)


class Diary:
    """Says in a file what is evaluated, in whatever process."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def evaluate(self, estimator: Any, features: Any, scheme: str, **options: Any) -> Evaluation:
        result = evaluate(estimator, features, scheme, **options)
        with self.path.open("a") as file:
            file.write(f"{estimator.settings.alpha:g} {scheme}\n")
        return result

    def read(self) -> Counter[str]:
        """Return how often each configuration was evaluated since this was asked last."""
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        self.path.unlink(missing_ok=True)
        return Counter(lines)


@pytest.fixture
def diary(project: Project, monkeypatch: pytest.MonkeyPatch) -> Diary:
    diary = Diary(project.root / "diary.txt")
    monkeypatch.setattr(cross_validation, "evaluate", diary.evaluate)
    return diary


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def at_call(number: int, function: Callable[..., Any], matches: Callable[..., bool]) -> Callable[..., Any]:
    """Return a function that ends the process instead of its n-th matching call."""
    calls = iter(range(1, 1000))

    def call(*arguments: Any, **options: Any) -> Any:
        if matches(*arguments, **options) and next(calls) == number:
            kill()
        return function(*arguments, **options)

    return call


def prepare_kill(moment: str, patch: pytest.MonkeyPatch) -> None:
    end = tracking.Run.end
    evaluates = cross_validation.evaluate
    if moment == "in the second point":
        found = at_call(2, evaluates, lambda *_, **__: True)
        patch.setattr(cross_validation, "evaluate", found)
    elif moment == "before the record of the second point":
        patch.setattr(trials.Trial, "write", at_call(2, trials.Trial.write, lambda *_: True))
    elif moment == "before the end of the second run":
        patch.setattr(tracking.Run, "end", at_call(2, end, lambda _, status: status == "FINISHED"))
    elif moment == "while publishing":
        found = at_call(1, evaluates, lambda *arguments, **_: arguments[2] != "loo")
        patch.setattr(cross_validation, "evaluate", found)
    elif moment == "before the end of the parent":
        patch.setattr(tracking.Run, "end", at_call(4, end, lambda _, status: status == "FINISHED"))


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize(
    ("moment", "statuses"),
    [
        ("in the second point", ["FINISHED", "RUNNING"]),
        ("before the record of the second point", ["FINISHED", "RUNNING"]),
        ("before the end of the second run", ["FINISHED", "RUNNING"]),
        ("while publishing", ["FINISHED"] * 3),
        ("before the end of the parent", ["FINISHED"] * 3),
    ],
)
def test_a_killed_sweep_started_again_ends_as_if_it_had_not_been(
    project: Project,
    diary: Diary,
    uninterrupted: dict[str, bytes],
    moment: str,
    statuses: list[str],
    capfd: pytest.CaptureFixture[str],
) -> None:
    # A process of its own, without the seconds that imports take.
    child = os.fork()
    if child == 0:
        try:
            prepare_kill(moment, pytest.MonkeyPatch())
            project.run(*SWEEP)
        finally:
            os._exit(99)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), status
    assert os.WTERMSIG(status) == signal.SIGKILL
    parent, children = project.family()
    assert parent.info.status == "RUNNING"
    assert [run.info.status for run in children] == statuses

    assert project.run(*SWEEP) == 0
    assert outputs(project.root) == uninterrupted
    parent_again, children = project.family()
    assert parent_again.info.run_id == parent.info.run_id
    assert parent_again.info.status == "FINISHED"
    finished = [run for run in children if run.info.status == "FINISHED"]
    assert sorted(run.data.params["alpha"] for run in finished) == ["0.0", "1.0", "2.0"]
    lost = moment in ("in the second point", "before the record of the second point")
    assert [run.info.status for run in children if run not in finished] == (["KILLED"] if lost else [])
    # Evaluated once, but for what was under way without its record.
    times = 2 if moment == "before the record of the second point" else 1
    scheme = "leave_one_accelerator_out"
    assert diary.read() == {"0 loo": 1, "1 loo": times, "2 loo": 1, f"1 {scheme}": 1}
    count = {"RUNNING": 1 + (not lost), "FINISHED": 3}[statuses[-1]]
    assert f"multirun/linear: 3 points, {count} of them finished already" in capfd.readouterr().err


def test_a_finished_sweep_started_again_does_nothing_and_says_so(
    project: Project, diary: Diary, capsys: pytest.CaptureFixture[str]
) -> None:
    assert project.run(*SWEEP) == 0
    before = {run.info.run_id: run.to_dictionary() for run in project.runs()}
    written = outputs(project.root)
    diary.read()
    capsys.readouterr()
    assert project.run(*SWEEP) == 0
    captured = capsys.readouterr()
    assert "results/linear and models/linear are up to date" in captured.out
    assert "nothing to do: all 3 points were finished before" in captured.out
    assert captured.err == ""
    assert {run.info.run_id: run.to_dictionary() for run in project.runs()} == before
    assert outputs(project.root) == written
    assert diary.read() == {}

    # DVC removes what a stage writes before it runs again.
    shutil.rmtree(project.root / "results")
    shutil.rmtree(project.root / "models")
    assert project.run(*SWEEP) == 0
    assert outputs(project.root) == written
    assert load_bundle(project.root / "models/linear").manifest["estimator"] == "linear"
    assert len(project.runs()) == len(before)
    assert diary.read() == {}


def test_the_same_command_finds_its_folder_again(project: Project, diary: Diary) -> None:
    assert project.run("-m", "model=linear", "model.alpha=0,1") == 0
    assert project.run("-m", "model.alpha=0,1", "model=linear") == 0
    assert project.run("model=linear", "grid=quick") == 0
    (typed,) = (path for path in (project.root / "multirun").iterdir() if path.name != "linear_quick")
    assert typed.name.startswith("linear_")
    assert (project.root / "multirun/linear_quick/trials.csv").is_file()
    assert diary.read() == {"0 loo": 2, "1 loo": 2}
    assert len([run for run in project.runs() if run.data.tags["kind"] == "sweep"]) == 2


@pytest.mark.parametrize("changed", ["features", "source"])
def test_a_sweep_of_other_data_or_source_is_another_one(
    project: Project, diary: Diary, changed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert project.run(*SWEEP) == 0
    diary.read()
    if changed == "features":
        path = project.root / "data/processed/features.csv"
        table = read_features(path).table
        write_features(FeatureMatrix(table.assign(latency_ms=2 * table["latency_ms"])), path)
    else:
        monkeypatch.setattr(trials, "source_hash", lambda modules: "edited")
    assert project.run(*SWEEP) == 0
    assert diary.read() == {"0 loo": 1, "1 loo": 1, "2 loo": 1, "1 leave_one_accelerator_out": 1}
    assert len(project.runs()) == 8


def test_an_edited_mean_function_is_another_source(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    def hash_of(*modules: str) -> str:
        trials.source_hash.cache_clear()
        return trials.source_hash(modules)

    monkeypatch.setattr(trials, "_SOURCES", ("analytic.py",))
    monkeypatch.syspath_prepend(str(project.root))
    hashes = [hash_of()]
    assert hash_of("missing_module", "missing.module") == hashes[0]
    for text in ("first = 1", "second = 2"):
        (project.root / "own_mean.py").write_text(text)
        hashes.append(hash_of("own_mean"))
    trials.source_hash.cache_clear()
    assert len(set(hashes)) == 3


def test_only_new_points_of_a_grown_grid_are_evaluated(project: Project, diary: Diary) -> None:
    folder = "hydra.sweep.dir=multirun/linear"
    assert project.run("-m", "model=linear", "model.alpha=0,1", folder) == 0
    assert diary.read() == {"0 loo": 1, "1 loo": 1}
    first = project.runs()
    assert project.run("-m", "model=linear", "model.alpha=5,1,0.0", folder) == 0
    assert diary.read() == {"5 loo": 1}
    assert sorted(pd.read_csv(project.root / "multirun/linear/trials.csv")["alpha"]) == [0.0, 1.0, 5.0]
    # The earlier sweep keeps its runs; the new parent shows all points.
    ids = {run.info.run_id for run in first}
    again = {run.info.run_id: run for run in project.runs()}
    for run in first:
        assert again[run.info.run_id].to_dictionary() == run.to_dictionary()
    new = {key: run for key, run in again.items() if key not in ids}
    (parent,) = [run for run in new.values() if run.data.tags["kind"] == "sweep"]
    children = [run for run in new.values() if run is not parent]
    assert {run.data.tags["mlflow.parentRunId"] for run in children} == {parent.info.run_id}
    assert {run.data.params["alpha"]: run.data.tags.get("reused_from") in ids for run in children} == {
        "5.0": False,
        "1.0": True,
        "0.0": True,
    }
    assert {run.info.status for run in new.values()} == {"FINISHED"}
    for run in children:
        assert {"config.yaml", "predictions"} <= project.artifacts(run)
        np.testing.assert_allclose(
            run.data.metrics["loo_mae_ms"],
            mae(project.root, "linear", alpha=float(run.data.params["alpha"])),
            rtol=SAME_NUMBER,
        )


def test_finished_points_are_logged_again_to_a_new_store(project: Project, diary: Diary) -> None:
    assert project.run(*SWEEP) == 0
    diary.read()
    (project.root / "mlflow.db").unlink()
    assert project.run(*SWEEP) == 0
    assert diary.read() == {}
    parent, children = project.family()
    assert {run.info.status for run in (parent, *children)} == {"FINISHED"}
    assert len(children) == 3
    published = json.loads((project.root / "results/linear/mlflow.json").read_text())
    assert published["sweep_run_id"] == parent.info.run_id
    assert published["run_id"] in {run.info.run_id for run in children}


def test_a_failed_point_is_evaluated_again(
    project: Project, diary: Diary, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(estimator: Any, *arguments: Any, **options: Any) -> Evaluation:
        if estimator.settings.alpha == 1.0:
            raise MemoryError
        return diary.evaluate(estimator, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(cross_validation, "evaluate", fail)
        assert project.run(*SWEEP) == 1
    assert project.run(*SWEEP) == 0
    assert diary.read() == {"0 loo": 1, "1 loo": 1, "2 loo": 1, "1 leave_one_accelerator_out": 1}
    parent, children = project.family()
    assert parent.info.status == "FINISHED"
    assert "error" not in parent.data.tags
    assert [run.info.status for run in children] == ["FINISHED", "FAILED", "FINISHED", "FINISHED"]


def test_points_whose_files_are_damaged_are_evaluated_again(project: Project, diary: Diary) -> None:
    assert project.run(*SWEEP) == 0
    before = outputs(project.root)
    diary.read()
    for path in (project.root / "multirun/linear/points").glob("*/result.json"):
        record = json.loads(path.read_text())
        if record["scheme"] == "loo" and record["settings"]["alpha"] == 0.0:
            (path.parent / "predictions.csv").unlink()
        elif record["scheme"] == "loo" and record["settings"]["alpha"] == 1.0:
            path.write_text(path.read_text().replace('"alpha": 1.0', '"alpha": 1.5'))
    assert project.run(*SWEEP) == 0
    assert diary.read() == {"0 loo": 1, "1 loo": 1}
    assert outputs(project.root) == before


def test_points_that_differ_in_nothing_that_counts_are_evaluated_once(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As the learning rate beside optimizer=lbfgs.
    monkeypatch.setattr(trials, "_WITHOUT_EFFECT", {("n_estimators", 3): ("max_depth",)})
    arguments = ["-m", "model=xgboost", "model.n_estimators=3,4", "model.max_depth=1,2"]
    assert project.run(*arguments, "hydra.sweep.dir=multirun/test") == 0
    table = pd.read_csv(project.root / "multirun/test/trials.csv")
    assert sorted(zip(table["n_estimators"], table["max_depth"], strict=True)) == [(3, 1), (4, 1), (4, 2)]
    _, children = project.family()
    assert len(children) == 3


def test_features_that_change_under_a_sweep_fail_what_is_left_of_it(
    project: Project, diary: Diary, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = project.root / "data/processed/features.csv"

    def edit(estimator: Any, *arguments: Any, **options: Any) -> Evaluation:
        result = evaluate(estimator, *arguments, **options)
        path.write_text(path.read_text().replace("alpha", "omega"))
        return result

    monkeypatch.setattr(cross_validation, "evaluate", edit)
    assert project.run("-m", "model=linear", "model.alpha=0,1") == 1
    expected = "point [2/2] linear alpha=1 failed: expected the features that the sweep was started with"
    assert expected in capsys.readouterr().err


# ----------------------------------------------------------------------------------- nested selection


def test_nested_selection_stands_beside_the_figures(
    project: Project, diary: Diary, capsys: pytest.CaptureFixture[str]
) -> None:
    params = PARAMS + "nested_selection: [leave_one_accelerator_out]\n"
    (project.root / "params.yaml").write_text(params)
    assert project.run(*SWEEP) == 0
    results = project.root / "results/linear"
    figures = json.loads((results / "leave_one_accelerator_out/metrics.json").read_text())
    folds = pd.read_csv(results / "leave_one_accelerator_out/nested.csv")
    assert list(folds["fold"]) == ["fast", "slow"]
    assert {"configuration", "alpha", "inner_mae_ms", "mae_ms"} <= set(folds.columns)
    np.testing.assert_allclose(
        figures["nested_mae_ms"], np.average(folds["mae_ms"], weights=folds["n_test"]), rtol=SAME_NUMBER
    )
    assert "nested_mae_ms" not in json.loads((results / "loo/metrics.json").read_text())
    parent, _ = project.family()
    name = "leave_one_accelerator_out_nested_mae_ms"
    np.testing.assert_allclose(parent.data.metrics[name], figures["nested_mae_ms"], rtol=SAME_NUMBER)
    # Asked for again it is remembered, and asked for later it is found for a finished sweep.
    capsys.readouterr()
    assert project.run(*SWEEP) == 0
    assert "up to date" in capsys.readouterr().out
    assert project.run(*SWEEP, "nested=[loo,leave_one_accelerator_out]") == 0
    assert "nested_mae_ms" in json.loads((results / "loo/metrics.json").read_text())


def test_where_nothing_is_selected_the_nested_error_is_the_error(project: Project) -> None:
    (project.root / "params.yaml").write_text(PARAMS + "nested_selection: [loo]\n")
    assert project.run("model=standard", "grid=quick", "publish=true") == 0
    for arguments in (["grid=quick"], ["grid=none"]):
        assert project.run("model=standard", *arguments, "publish=true") == 0
        figures = json.loads((project.root / "results/standard/loo/metrics.json").read_text())
        assert figures["nested_mae_ms"] == figures["mae_ms"]
        assert figures["nested_configurations"] == 1


def test_nested_selection_of_a_sweep_that_publishes_nothing(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["-m", "model=linear", "model.alpha=0,1", "nested=[leave_one_network_out]"]
    assert project.run(*arguments, "hydra.sweep.dir=multirun/test") == 0
    assert "linear nested selection, leave_one_network_out SIMULATED: MAE " in capsys.readouterr().out
    folds = pd.read_csv(project.root / "multirun/test/nested/leave_one_network_out.csv")
    assert list(folds["fold"]) == ["alpha", "beta", "gamma"]
