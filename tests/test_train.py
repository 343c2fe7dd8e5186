"""The Hydra app: single runs, sweeps, failing points, publication, and what it refuses."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from mlflow import MlflowClient
from mlflow.entities import Run

from accelperf import pictures, train
from accelperf.bundle import load_bundle
from accelperf.errors import InputError, known
from accelperf.evaluation import cross_validation
from accelperf.evaluation.cross_validation import Evaluation, evaluate
from accelperf.evaluation.splits import SCHEMES
from accelperf.features import FeatureMatrix, read_features, write_features
from accelperf.layers import file_md5
from accelperf.models.catalog import create
from accelperf.settings import configured
from accelperf.tracking import EXPERIMENT, open_store
from tests.conftest import ROOT

# MLflow's own tables use what the installed SQLAlchemy deprecates.
pytestmark = pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SADeprecationWarning")

VARIABLES = (
    "MLFLOW_TRACKING_URI",
    "MLFLOW_RUN_ID",
    "DVC_ROOT",
    "DVC_STAGE",
    "DVC_EXP_NAME",
    "HYDRA_FULL_ERROR",
)
ROWS = 12
SAME_NUMBER = 1e-12
"""Relative: one number written and read again, or summed in another order."""

KNOWN = known(configured(ROOT, "model"))
BETA = "conf/model/linear.yaml, one of alpha, got 'beta'"

PARAMS = """\
profiles: data/raw/profiles
memory: data/raw/memory
platforms: data/platforms
networks: data/networks
origins: [measured, simulated]
accelerators: null
models: [standard, linear]
schemes: [loo, leave_one_accelerator_out]
grid: quick
"""


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory, features_of: Callable[..., FeatureMatrix]) -> Path:
    """Return a project with a dozen rows and the configurations of this repository."""
    folder = tmp_path_factory.mktemp("template")
    shutil.copytree(ROOT / "conf", folder / "conf")
    (folder / "dvc.yaml").write_text("stages: {}\n")
    (folder / "params.yaml").write_text(PARAMS)
    for name in ("data/raw/profiles", "data/raw/memory", "data/platforms", "data/networks", "elsewhere"):
        (folder / name).mkdir(parents=True)
    write_features(features_of(ROWS), folder / "data/processed/features.csv")
    # Making the tables of a store takes longer than most of these tests.
    MlflowClient(f"sqlite:///{folder / 'mlflow.db'}").search_experiments()
    return folder


class Project:
    """A copy of the template, the working directory, and a window on its MLflow store."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def run(self, *arguments: str) -> int:
        """Run the command in this process and return its exit status."""
        try:
            train.main(arguments)
        except SystemExit as error:
            return int(error.code or 0)
        return 0

    @property
    def client(self) -> MlflowClient:
        return MlflowClient(f"sqlite:///{self.root / 'mlflow.db'}")

    def runs(self) -> list[Run]:
        """Return all runs, the oldest first."""
        experiment = self.client.get_experiment_by_name(EXPERIMENT)
        return [] if experiment is None else list(self.client.search_runs([experiment.experiment_id]))[::-1]

    def family(self) -> tuple[Run, list[Run]]:
        """Return the one parent run and its children in the order in which they started."""
        (parent,) = [run for run in self.runs() if "mlflow.parentRunId" not in run.data.tags]
        children = [run for run in self.runs() if run is not parent and run.info.run_id != parent.info.run_id]
        assert {run.data.tags["mlflow.parentRunId"] for run in children} <= {parent.info.run_id}
        return parent, sorted(children, key=lambda run: run.info.start_time)

    def artifacts(self, run: Run, folder: str | None = None) -> set[str]:
        return {str(item.path) for item in self.client.list_artifacts(run.info.run_id, folder)}

    def text(self, run: Run, artifact: str) -> str:
        return Path(self.client.download_artifacts(run.info.run_id, artifact)).read_text(encoding="utf-8")


@pytest.fixture
def drawing_project(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Return a project that is the working directory, with nothing of the tests' own environment."""
    root = tmp_path / "project"
    shutil.copytree(template, root)
    monkeypatch.chdir(root)
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    return Project(root)


PICTURES = ("predicted_against_measured", "error_along_network", "heat_map")


def draw_nothing(name: str) -> Callable[..., None]:
    def draw(*arguments: Any, title: str, simulated: bool) -> None:
        arguments[-1].write_bytes(b"")

    draw.__name__ = name
    return draw


@pytest.fixture
def project(drawing_project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Return a project whose pictures are empty files: drawing takes longer than the rest."""
    for name in PICTURES:
        monkeypatch.setattr(pictures, name, draw_nothing(name))
    return drawing_project


def mae(root: Path, key: str, scheme: str = "loo", **settings: Any) -> float:
    """Return an error computed without the app."""
    features = read_features(root / "data/processed/features.csv")
    given = yaml.safe_load((root / f"conf/model/{key}.yaml").read_text()) | settings
    return float(evaluate(create(key, given), features, scheme).metrics["mae_ms"])


# ---------------------------------------------------------------------------------- a single run


def test_a_single_run_is_one_run_with_everything_in_it(
    drawing_project: Project, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    project = drawing_project
    monkeypatch.setenv("DVC_STAGE", "train@linear")
    assert project.run("model=linear", "model.alpha=0.5") == 0
    (run,) = project.runs()
    expected = mae(project.root, "linear", alpha=0.5)
    assert run.info.status == "FINISHED"
    assert run.info.run_name == "linear loo SIMULATED"
    assert run.data.params == {"estimator": "linear", "scheme": "loo", "keep_twins": "False", "alpha": "0.5"}
    np.testing.assert_allclose(run.data.metrics["loo_mae_ms"], expected, rtol=SAME_NUMBER)
    assert run.data.metrics["loocv_mae_ms"] == run.data.metrics["loo_mae_ms"]
    assert run.data.tags["estimator"] == "linear"
    assert run.data.tags["origin"] == "simulated"
    assert run.data.tags["kind"] == "trial"
    assert run.data.tags["dvc_stage"] == "train@linear"
    assert run.data.tags["features_md5"] == file_md5(project.root / "data/processed/features.csv")
    assert len(run.data.tags["configuration"]) == 12
    assert project.artifacts(run) == {"config.yaml", "pictures", "predictions"}
    assert project.artifacts(run, "pictures") == {
        "pictures/loo_predicted_against_measured.png",
        "pictures/loo_error_along_network.png",
    }
    resolved = yaml.safe_load(project.text(run, "config.yaml"))
    assert resolved["model"] == {"alpha": 0.5}
    assert resolved["evaluation"] == {"scheme": "loo"}
    out = capsys.readouterr().out
    assert f"MAE {expected:.4g} ms" in out
    assert "SIMULATED" in out
    assert run.info.run_id in out


def test_the_task_returns_the_error(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    returned = []
    task = train.task
    monkeypatch.setattr(train, "task", lambda config: returned.append(task(config)))
    assert project.run("model=standard", "evaluation=leave_one_network_out") == 0
    expected = mae(project.root, "standard", "leave_one_network_out")
    np.testing.assert_allclose(returned, [expected], rtol=SAME_NUMBER)


def test_measured_rows_are_not_called_simulated(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    path = project.root / "data/processed/features.csv"
    table = read_features(path).table
    write_features(FeatureMatrix(table.assign(origin="measured")), path)
    assert project.run("model=standard") == 0
    table.loc[0, "origin"] = "measured"
    write_features(FeatureMatrix(table), path)
    assert project.run("model=standard") == 0
    first, second = project.runs()
    assert (first.info.run_name, first.data.tags["origin"]) == ("standard loo", "measured")
    assert (second.info.run_name, second.data.tags["origin"]) == ("standard loo partly SIMULATED", "mixed")
    assert "SIMULATED" not in capsys.readouterr().out.splitlines()[0]


def test_a_run_already_named_in_the_environment_is_left_alone(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_RUN_ID", "0" * 32)
    assert project.run("-m", "model=linear", "model.alpha=0,1") == 0
    parent, children = project.family()
    assert {run.info.status for run in (parent, *children)} == {"FINISHED"}


# ---------------------------------------------------------------------------------------- sweeps


def test_two_by_two_is_one_parent_with_four_children(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["-m", "model=xgboost", "model.n_estimators=3,30", "model.max_depth=1,2"]
    assert project.run(*arguments, "hydra.sweep.dir=multirun/test") == 0
    parent, children = project.family()
    points = {(run.data.params["n_estimators"], run.data.params["max_depth"]) for run in children}
    assert points == {("3", "1"), ("3", "2"), ("30", "1"), ("30", "2")}
    assert len(children) == 4
    assert {run.info.status for run in (parent, *children)} == {"FINISHED"}

    trials = pd.read_csv(project.root / "multirun/test/trials.csv")
    assert list(trials["mae_ms"]) == sorted(trials["mae_ms"])
    logged = sorted(run.data.metrics["loo_mae_ms"] for run in children)
    np.testing.assert_allclose(trials["mae_ms"], logged, rtol=SAME_NUMBER)
    best = yaml.safe_load((project.root / "multirun/test/best.yaml").read_text())
    assert best["settings"]["n_estimators"] == trials["n_estimators"][0]
    assert best["configuration"] == trials["configuration"][0]
    assert best["mae_ms"] == logged[0]
    # The parent compares with other estimators by its best point.
    assert parent.data.metrics["loo_mae_ms"] == logged[0]
    assert parent.data.tags["kind"] == "sweep"
    assert {"trials.csv", "best.yaml", "heat_map.png"} <= project.artifacts(parent)
    assert (project.root / "multirun/test/heat_map.png").is_file()
    captured = capsys.readouterr()
    assert "4 points, best first" in captured.out
    assert "[4/4] xgboost n_estimators=30 max_depth=2: MAE" in captured.err


def test_a_failing_point_is_named_and_the_others_finish(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    assert project.run("-m", "model=linear", "model.alpha=0,-1,2", "hydra.sweep.dir=multirun/test") == 1
    parent, children = project.family()
    by_alpha = {run.data.params["alpha"]: run for run in children}
    assert {alpha: run.info.status for alpha, run in by_alpha.items()} == {
        "0.0": "FINISHED",
        "-1": "FAILED",
        "2.0": "FINISHED",
    }
    assert parent.info.status == "FAILED"
    assert "linear alpha=-1" in parent.data.tags["error"]
    assert "InputError" in project.text(by_alpha["-1"], "traceback.txt")
    assert "greater than or equal to 0" in by_alpha["-1"].data.tags["error"]
    trials = pd.read_csv(project.root / "multirun/test/trials.csv")
    assert list(trials["status"]) == ["finished", "finished", "failed"]
    assert "error: point [2/3] linear alpha=-1 failed: " in capsys.readouterr().err


def test_a_figure_that_is_not_a_number_fails_its_point(
    project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def diverge(estimator: Any, *arguments: Any, **options: Any) -> Evaluation:
        result = evaluate(estimator, *arguments, **options)
        if estimator.settings.alpha != 1.0:
            return result
        return Evaluation(result.metrics | {"mae_ms": math.nan}, result.predictions)

    monkeypatch.setattr(cross_validation, "evaluate", diverge)
    assert project.run("-m", "model=linear", "model.alpha=0,1") == 1
    _, children = project.family()
    assert [run.info.status for run in children] == ["FINISHED", "FAILED"]
    assert "loo_mae_ms" not in children[1].data.metrics
    assert "mae_ms under loo is nan" in children[1].data.tags["error"]
    assert "linear alpha=1 failed" in capsys.readouterr().err


def test_an_unforeseen_error_keeps_its_traceback_and_the_sweep_goes_on(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(estimator: Any, *arguments: Any, **options: Any) -> Evaluation:
        if estimator.settings.alpha == 0.0:
            raise np.linalg.LinAlgError("not positive definite")
        return evaluate(estimator, *arguments, **options)

    monkeypatch.setattr(cross_validation, "evaluate", fail)
    assert project.run("-m", "model=linear", "model.alpha=0,1") == 1
    _, children = project.family()
    assert [run.info.status for run in children] == ["FAILED", "FINISHED"]
    assert "not positive definite" in project.text(children[0], "traceback.txt")


def test_an_interrupted_sweep_closes_its_runs(
    project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(estimator: Any, *arguments: Any, **options: Any) -> Evaluation:
        if estimator.settings.alpha == 1.0:
            raise KeyboardInterrupt
        return evaluate(estimator, *arguments, **options)

    monkeypatch.setattr(cross_validation, "evaluate", interrupt)
    assert project.run("-m", "model=linear", "model.alpha=0,1,2") == 130
    parent, children = project.family()
    assert [run.info.status for run in children] == ["FINISHED", "KILLED"]
    assert parent.info.status == "KILLED"
    assert capsys.readouterr().err.splitlines()[-1] == "interrupted"


def test_a_prepared_grid_follows_the_configured_value(project: Project) -> None:
    (project.root / "conf/model/linear.yaml").write_text("alpha: 0.25\n")
    assert project.run("model=linear", "grid=quick") == 0
    _, children = project.family()
    assert [run.data.params["alpha"] for run in children] == ["0.25", "1.0"]


def test_a_configured_value_that_the_grid_lists_too_is_evaluated_once(project: Project) -> None:
    (project.root / "conf/model/linear.yaml").write_text("alpha: 1.00\n")
    assert project.run("model=linear", "grid=quick") == 0
    _, children = project.family()
    assert [run.data.params["alpha"] for run in children] == ["1.0"]


def test_a_typed_axis_takes_the_place_of_the_prepared_one(project: Project) -> None:
    assert project.run("model=linear", "grid=quick", "model.alpha=3,4,5") == 0
    _, children = project.family()
    assert [run.data.params["alpha"] for run in children] == ["3.0", "4.0", "5.0"]


def test_errors_under_different_schemes_are_not_ranked_against_each_other(project: Project) -> None:
    schemes = "evaluation=loo,leave_one_network_out"
    assert project.run("-m", "model=standard", schemes, "hydra.sweep.dir=multirun/test") == 0
    assert not (project.root / "multirun/test/best.yaml").exists()
    trials = pd.read_csv(project.root / "multirun/test/trials.csv")
    assert list(trials["scheme"]) == ["loo", "leave_one_network_out"]


def test_estimators_can_be_swept_together(project: Project) -> None:
    assert project.run("-m", "model=standard,linear", "hydra.sweep.dir=multirun/test") == 0
    trials = pd.read_csv(project.root / "multirun/test/trials.csv")
    assert set(trials["estimator"]) == {"standard", "linear"}
    assert {"variant", "alpha"} <= set(trials.columns)


def test_an_earlier_sweep_in_the_same_folder_is_not_gathered(project: Project) -> None:
    folder = "hydra.sweep.dir=multirun/test"
    assert project.run("-m", "model=linear", "model.alpha=0,1,2", folder) == 0
    assert project.run("-m", "model=linear", "model.alpha=3,4", folder) == 0
    assert sorted(pd.read_csv(project.root / "multirun/test/trials.csv")["alpha"]) == [3.0, 4.0]


def test_a_sweep_from_another_folder_lands_in_the_same_store(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project.root / "elsewhere")
    assert project.run("-m", "model=linear", "model.alpha=0,1", "hydra.sweep.dir=multirun/test") == 0
    assert Path.cwd() == project.root / "elsewhere"
    assert list(Path.cwd().iterdir()) == []
    assert (project.root / "multirun/test/trials.csv").is_file()
    assert len(project.runs()) == 3


def test_a_network_that_diverges_fails_its_point_alone(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["-m", "model=ann", "evaluation=leave_one_accelerator_out", "model.epochs=2"]
    assert project.run(*arguments, "model.learning_rate=0,0.1,1e200", "hydra.sweep.dir=multirun/test") == 1
    trials = pd.read_csv(project.root / "multirun/test/trials.csv")
    assert dict(zip(trials["learning_rate"], trials["status"], strict=True)) == {
        0.1: "finished",
        0.0: "failed",
        1e200: "failed",
    }
    err = capsys.readouterr().err
    assert "error: point [1/3] ann learning_rate=0 failed: expected ann: learning_rate: greater than 0" in err
    assert "error: point [3/3] ann learning_rate=1e+200 failed: " in err


# ----------------------------------------------------------------------------------- publication


def test_publication_writes_results_model_and_runs(project: Project) -> None:
    assert project.run("model=linear", "grid=quick", "publish=true", "hydra.sweep.dir=multirun/linear") == 0
    root = project.root
    results = root / "results/linear"
    files = {str(path.relative_to(results)) for path in results.rglob("*") if path.is_file()}
    assert files == {
        "trials.csv",
        "best.yaml",
        "heat_map.png",
        "mlflow.json",
        "loo/metrics.json",
        "loo/predictions.csv",
        "leave_one_accelerator_out/metrics.json",
        "leave_one_accelerator_out/predictions.csv",
    }
    best = yaml.safe_load((results / "best.yaml").read_text())
    metrics = {}
    for scheme in ("loo", "leave_one_accelerator_out"):
        metrics[scheme] = json.loads((results / scheme / "metrics.json").read_text())
        assert metrics[scheme]["scheme"] == scheme
        expected = mae(root, "linear", scheme, **best["settings"])
        np.testing.assert_allclose(metrics[scheme]["mae_ms"], expected, rtol=SAME_NUMBER)
        predictions = pd.read_csv(results / scheme / "predictions.csv")
        errors = (predictions["predicted_ms"] - predictions["latency_ms"]).abs()
        np.testing.assert_allclose(errors.mean(), expected, rtol=SAME_NUMBER)
    assert json.loads((root / "reports/metrics/linear.json").read_text()) == metrics

    bundle = load_bundle(root / "models/linear")
    features = read_features(root / "data/processed/features.csv")
    fitted = create("linear", best["settings"]).fit(features)
    np.testing.assert_allclose(
        bundle.predictor.predict(features).median_ms, fitted.predict(features).median_ms, rtol=SAME_NUMBER
    )
    assert bundle.manifest["metrics"] == metrics

    parent, children = project.family()
    assert len(children) == 2
    ids = json.loads((results / "mlflow.json").read_text())
    (published,) = [run for run in children if run.info.run_id == ids["run_id"]]
    assert ids["sweep_run_id"] == parent.info.run_id
    assert parent.data.tags["best_run_id"] == published.info.run_id
    for run in (published, parent):
        assert run.info.status == "FINISHED"
        np.testing.assert_allclose(run.data.metrics["loo_mae_ms"], metrics["loo"]["mae_ms"], rtol=SAME_NUMBER)
        assert "leave_one_accelerator_out_mae_ms" in run.data.metrics
    assert project.artifacts(published) == {"bundle", "config.yaml", "pictures", "predictions"}
    assert len(project.artifacts(published, "pictures")) == 4
    assert project.artifacts(published, "predictions") == {
        "predictions/loo",
        "predictions/leave_one_accelerator_out",
    }


def test_runs_carry_the_dataset_and_the_logs_behind_it(project: Project) -> None:
    account = project.root / "data/interim/ingest_profiles.json"
    account.parent.mkdir()
    log = {"file": "data/raw/a.csv", "md5": "0" * 32, "format": "native", "rows_read": 9, "rows_kept": 8}
    account.write_text(json.dumps({"files": [log | {"skipped": {"operator pool": 1}}]}))
    assert project.run("-m", "model=linear", "model.alpha=0.0,1.0", "hydra.sweep.dir=multirun/test") == 0
    for run in project.runs():
        (used,) = project.client.get_run(run.info.run_id).inputs.dataset_inputs
        assert used.dataset.name == "features.csv"
        assert used.dataset.digest == file_md5(project.root / "data/processed/features.csv")
        assert [(tag.key, tag.value) for tag in used.tags] == [("mlflow.data.context", "training")]
        profile = json.loads(used.dataset.profile)
        assert profile["rows"] == ROWS
        assert profile["origin"] == "simulated"
        assert profile["logs"] == [log]
        columns = {column["name"] for column in json.loads(used.dataset.schema)["mlflow_colspec"]}
        assert {"kernel_height", "latency_ms"} <= columns


def test_twins_across_folds_are_counted_on_stderr(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    path = project.root / "data/processed/features.csv"
    table = read_features(path).table
    twin = table.iloc[[0]].assign(layer="twin", position=99)
    write_features(FeatureMatrix(pd.concat([table, twin], ignore_index=True)), path)
    assert project.run("model=standard", "publish=true") == 0
    text = capsys.readouterr().err
    assert f"warning: loo: 2 of {ROWS + 1} rows have a twin" in text
    assert "warning: leave_one_accelerator_out" not in text


def test_a_calibrated_estimator_publishes_what_it_read_from_the_data(project: Project) -> None:
    assert project.run("model=gp_calibrated", "model.restarts=0", "publish=true") == 0
    results = project.root / "results/gp_calibrated"
    rates = pd.read_csv(results / "rates.csv")
    assert {"compute", "input", "output", "weights"} <= set(rates["quantity"])
    layers = pd.read_csv(results / "layers.csv")
    assert len(layers) == ROWS
    shares = layers[[name for name in layers.columns if name.startswith("share_")]].sum(axis=1)
    np.testing.assert_allclose(shares, 1, rtol=SAME_NUMBER)
    published = json.loads((results / "mlflow.json").read_text())["run_id"]
    (run,) = [run for run in project.runs() if run.info.run_id == published]
    assert project.artifacts(run, "calibration") == {"calibration/rates.csv", "calibration/layers.csv"}
    assert "pictures/loo_reliability.png" in project.artifacts(run, "pictures")


def test_publication_without_a_grid(project: Project) -> None:
    assert project.run("model=standard", "grid=none", "publish=true", "hydra.sweep.dir=multirun/x") == 0
    (run,) = project.runs()
    published = json.loads((project.root / "results/standard/mlflow.json").read_text())
    assert (published["run_id"], published["sweep_run_id"]) == (run.info.run_id, None)
    assert len(pd.read_csv(project.root / "results/standard/trials.csv")) == 1
    assert "leave_one_accelerator_out_mae_ms" in run.data.metrics
    assert not (project.root / "multirun").exists()


def test_publication_selects_by_the_first_scheme(project: Project) -> None:
    text = PARAMS.replace("[loo, leave_one_accelerator_out]", "[leave_one_shape_out, loo]")
    (project.root / "params.yaml").write_text(text)
    assert project.run("model=standard", "publish=true") == 0
    best = yaml.safe_load((project.root / "results/standard/best.yaml").read_text())
    assert best["scheme"] == "leave_one_shape_out"


def test_the_selecting_scheme_is_not_computed_twice(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def count(estimator: Any, features: Any, scheme: str, **options: Any) -> Evaluation:
        seen.append(scheme)
        return evaluate(estimator, features, scheme, **options)

    monkeypatch.setattr(cross_validation, "evaluate", count)
    assert project.run("model=standard", "publish=true") == 0
    assert seen == ["loo", "leave_one_accelerator_out"]


@pytest.mark.parametrize("cause", ["a point", "another scheme"])
def test_earlier_results_stay_if_anything_fails(
    project: Project, cause: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["model=linear", "grid=quick", "publish=true"]
    assert project.run(*arguments) == 0
    folders = (project.root / "results", project.root / "models", project.root / "reports")
    before = {path: path.read_bytes() for folder in folders for path in folder.rglob("*") if path.is_file()}
    assert len(before) == 11

    if cause == "a point":
        assert project.run(*arguments, "model.alpha=0,-1") == 1
    else:

        def fail(estimator: Any, features: Any, scheme: str, **options: Any) -> Evaluation:
            if scheme != "loo":
                raise np.linalg.LinAlgError("not positive definite")
            return evaluate(estimator, features, scheme, **options)

        monkeypatch.setattr(cross_validation, "evaluate", fail)
        with pytest.raises(np.linalg.LinAlgError):
            project.run(*arguments, "model.alpha=3,4")
        (sweep,) = [
            run
            for run in project.runs()
            if run.data.tags["kind"] == "sweep" and run.info.status != "FINISHED"
        ]
        assert sweep.info.status == "FAILED"
        assert "not positive definite" in project.text(sweep, "traceback.txt")
    after = {path: path.read_bytes() for folder in folders for path in folder.rglob("*") if path.is_file()}
    assert after == before


# -------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["model=magic"], f"expected model=NAME, one of {KNOWN}, got 'magic'"),
        ([], f"expected model=NAME, one of {KNOWN}, got no model="),
        (["-m"], f"expected model=NAME, one of {KNOWN}, got no model="),
        (["grid=quick"], f"expected model=NAME, one of {KNOWN}, got no model="),
        (["model=linear", "evaluation=kfold"], f"evaluation=NAME, one of {known(SCHEMES)}, got 'kfold'"),
        (["model=linear", "grid=huge"], "expected grid=NAME, one of none, paper, quick, got 'huge'"),
        (["model=linear", "model.beta=1"], f"expected a key of {BETA}"),
        (["model=linear", "+model.beta=1"], "hyperparameter of linear, one of alpha, got 'beta'"),
        (["-m", "model=linear", "model.beta=1,2"], f"expected a key of {BETA}"),
        (["-m", "model=linear", "+model.beta=1,2"], "hyperparameter of linear, one of alpha, got 'beta'"),
        (["-m", "model=linear", "model.alpha=-1,-2"], "greater than or equal to 0, got -1"),
        (["model=linear", "model.alpha=-1"], "greater than or equal to 0, got -1"),
        (["model=linear", "nothing=1"], "expected a key of the configuration (see --cfg job), got 'nothing'"),
        (["model=linear", "model.alpha=1,2"], "To sweep over it, add --multirun"),
        (["-m", "model=linear,standard", "grid=quick"], "expected one estimator with a prepared grid"),
        (["-m", "model=linear,standard", "publish=true"], "expected one estimator with publish=true"),
        (["model=linear", "publish=true", "evaluation=leave_one_shape_out"], "expected evaluation=loo with"),
        (["model=linear", "features=nothing.csv"], "nothing.csv: expected a CSV table"),
        (["-m", "model=linear", "features=nothing.csv"], "nothing.csv: expected a CSV table"),
        (["-m", "model=linear", "nested=[kfold]"], "expected nested=[SCHEME,...], of leave_one_accelerator"),
        (["model=linear", "nested=[loo]"], "expected a sweep (-m or grid=NAME) with nested="),
        (["-m", "model=linear", "evaluation=loo,leave_one_shape_out", "nested=[loo]"], "expected one scheme"),
    ],
)  # fmt: skip
def test_a_wrong_command_is_one_line_and_no_run(
    project: Project, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert project.run(*arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    assert line.startswith("error: ")
    assert message in line
    assert project.runs() == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hydra: {sweeper: {params: {model.beta: '1,2'}}}", "one of alpha, got 'beta'"),
        ("hydra: {sweeper: {params: {+model.beta: '1,2'}}}", "one of alpha, got 'beta'"),
        ("hydra: {sweeper: {params: {model.beta: '${model.beta},2'}}}", "model.beta"),
        ("hydra: {sweeper: {params: {}}}", "conf/grid/quick/linear.yaml: expected at least one axis"),
        ("{}", "conf/grid/quick/linear.yaml: expected at least one axis"),
        (
            "hydra: {sweeper: {params: {model.alpha: ''}}}",
            "quick/linear.yaml: expected at least one value for model.alpha",
        ),
        (
            "hydra: {sweeper: {params: {model.alpha: }}}",
            "field 'hydra.sweeper.params.model.alpha' is not Optional",
        ),
        (
            "hydra: {sweeper: {params: {model.alpha: []}}}",
            "quick/linear.yaml: expected at least one value for model.alpha",
        ),
        ("hydra: {sweeper: {parms: {model.alpha: '1,2'}}}", "parms"),
    ],
)
def test_a_wrong_grid_is_refused_before_any_job(
    project: Project, text: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (project.root / "conf/grid/quick/linear.yaml").write_text(f"# @package _global_\n{text}\n")
    assert project.run("model=linear", "grid=quick") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
    assert project.runs() == []


def test_a_grid_without_the_estimator_names_those_that_it_has(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    (project.root / "conf/grid/quick/linear.yaml").unlink()
    assert project.run("model=linear", "grid=quick") == 2
    line = capsys.readouterr().err
    assert "expected a grid 'quick' for linear, conf/grid/quick/linear.yaml, got none" in line
    assert "standard, xgboost" in line


def test_an_unknown_hyperparameter_in_the_file_is_refused(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    (project.root / "conf/model/linear.yaml").write_text("alpha: 0.0\nbeta: 1\n")
    assert project.run("model=linear") == 2
    assert "one of alpha, got 'beta'" in capsys.readouterr().err


def test_outside_of_a_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as exit_:
        train.main(["model=linear"])
    assert exit_.value.code == 2


def test_debug_shows_the_traceback(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")
    with pytest.raises(InputError, match="one of "):
        project.run("model=magic")


# ------------------------------------------------------------------------------------------ help


def test_help_has_examples_and_needs_no_estimator(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    assert project.run("--help") == 0
    out = capsys.readouterr().out
    assert "accelperf-train model=xgboost grid=quick" in out
    assert f"model: {KNOWN}" in out


def test_the_composed_configuration_is_shown_and_nothing_runs(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    assert project.run("model=linear", "model.alpha=7.0", "--cfg", "job") == 0
    assert yaml.safe_load(capsys.readouterr().out)["model"] == {"alpha": 7.0}
    assert project.runs() == []
    assert not (project.root / "outputs").exists()


def test_what_needs_no_tensorflow_does_not_import_it(project: Project) -> None:
    script = "import sys; from accelperf.train import main; main(); print('tensorflow' in sys.modules)"
    command = [sys.executable, "-c", script, "model=linear"]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout.splitlines()[-1] == "False"


def test_a_deleted_experiment_is_named(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    store = open_store(project.root)
    store.client.delete_experiment(store.experiment_id)
    assert project.run("model=linear") == 2
    assert "mlflow experiments restore" in capsys.readouterr().err
