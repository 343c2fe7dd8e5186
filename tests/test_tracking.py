"""The MLflow store: where it is, what runs carry, and how they end."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from mlflow import MlflowClient

from accelperf import tracking
from accelperf.errors import InputError
from accelperf.tracking import EXPERIMENT, Store, attach_store, metric_names, open_store, run_tags

# MLflow's own tables use what the installed SQLAlchemy deprecates.
pytestmark = pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SADeprecationWarning")

VARIABLES = ("MLFLOW_TRACKING_URI", "MLFLOW_RUN_ID", "DVC_ROOT", "DVC_STAGE", "DVC_EXP_NAME")


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take out what a pipeline around the tests may have set."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder in which a store was opened once: making one takes most of the time."""
    folder = tmp_path_factory.mktemp("project")
    with pytest.MonkeyPatch.context() as patch:
        for name in VARIABLES:
            patch.delenv(name, raising=False)
        open_store(folder)
    return folder


@pytest.fixture
def store(project: Path) -> Iterator[Store]:
    return open_store(project)


def tags(root: Path) -> dict[str, str]:
    return run_tags("linear", origin="simulated", features_md5="0" * 32, root=root, kind="trial")


def test_store_lies_in_the_project_whatever_the_working_directory(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = open_store(project)
    assert list(tmp_path.iterdir()) == []
    assert (project / "mlflow.db").is_file()
    with store.run("a run", tags(project)) as run:
        run.log_parameters({"alpha": 0.5, "modules": []})
    found = store.client.get_run(run.run_id)
    assert found.info.artifact_uri.startswith((project / "mlartifacts").as_uri())
    assert found.data.params == {"alpha": "0.5", "modules": "[]"}
    assert found.info.status == "FINISHED"


def test_a_copy_made_by_dvc_uses_the_original_store(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DVC_ROOT", str(project))
    monkeypatch.chdir(tmp_path)
    home, uri = tracking.store_location(tmp_path)
    assert home == project.resolve()
    assert uri == f"sqlite:///{project.resolve() / 'mlflow.db'}"
    # A relative address would be lost with the copy, too.
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:///other.db")
    assert tracking.store_location(tmp_path)[1] == f"sqlite:///{project.resolve() / 'other.db'}"


def test_a_named_store_is_taken_as_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://tracking.example:5000")
    assert tracking.store_location(tmp_path)[1] == "http://tracking.example:5000"


def test_an_unusable_store_is_one_clear_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", str(tmp_path / "mlruns"))
    with pytest.raises(InputError, match=r"expected an MLflow store that can be opened, got .*mlruns"):
        open_store(tmp_path)


def test_an_error_shows_no_password() -> None:
    shown = tracking._without_password("https://me:secret@server.example:5000/path (no answer)")
    assert shown == "https://***@server.example:5000/path (no answer)"


def test_an_old_store_is_mentioned(
    tmp_path: Path, project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mlruns").mkdir()
    tracking._mention_old_store(tmp_path)
    line = capsys.readouterr().err
    assert line.startswith("warning: mlruns/")
    assert "mlflow migrate-filestore --source mlruns --target sqlite:///mlruns.db" in line
    tracking._mention_old_store(project)
    assert capsys.readouterr().err == ""


def test_runs_in_the_environment_have_no_part(
    store: Store, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_RUN_ID", "f" * 32)
    with store.run("a run", tags(project)) as run:
        pass
    assert run.run_id != "f" * 32
    assert os.environ["MLFLOW_RUN_ID"] == "f" * 32


def test_a_failed_run_keeps_its_traceback(store: Store, project: Path, tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), store.run("a run", tags(project)) as run:
        _ = 1 / 0
    found = store.client.get_run(run.run_id)
    assert found.info.status == "FAILED"
    assert found.data.tags["error"] == "ZeroDivisionError: division by zero"
    path = store.client.download_artifacts(run.run_id, "traceback.txt", str(tmp_path))
    assert "_ = 1 / 0" in Path(path).read_text()


def test_an_interrupted_run_is_killed(store: Store, project: Path) -> None:
    with pytest.raises(KeyboardInterrupt), store.run("a run", tags(project)) as run:
        raise KeyboardInterrupt
    assert store.client.get_run(run.run_id).info.status == "KILLED"


def test_children_are_nested_and_closed_with_their_parent(store: Store, project: Path) -> None:
    parent = store.start("sweep", tags(project))
    attached = attach_store(project, store.experiment_id)
    done = attached.start("first", tags(project), parent=parent.run_id)
    done.end("FINISHED")
    running = attached.start("second", tags(project), parent=parent.run_id)
    stranger = store.start("another", tags(project))
    store.close_children(parent.run_id)
    status = {run.run_id: store.client.get_run(run.run_id).info.status for run in (done, running, stranger)}
    assert list(status.values()) == ["FINISHED", "KILLED", "RUNNING"]
    tag = store.client.get_run(running.run_id).data.tags["mlflow.parentRunId"]
    assert tag == parent.run_id


def test_children_are_found_on_every_page_with_their_status(
    store: Store, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracking, "_PAGE", 2)
    parent = store.start("sweep", tags(project))
    children = [store.start(f"point {number}", tags(project), parent=parent.run_id) for number in range(5)]
    children[0].end("FINISHED")
    store.client.delete_run(children[1].run_id)
    expected = {child.run_id: "RUNNING" for child in children} | {children[0].run_id: "FINISHED"}
    del expected[children[1].run_id]
    assert store.children(parent.run_id) == expected
    store.close_children(parent.run_id)
    assert sorted(store.children(parent.run_id).values()) == ["FINISHED", "KILLED", "KILLED", "KILLED"]


def test_an_ended_run_can_go_on(store: Store, project: Path) -> None:
    run = store.start("sweep", tags(project))
    run.set_tags({"error": "a point failed"})
    run.end("FAILED")
    assert store.status(run.run_id) == "FAILED"
    store.reopen(run.run_id)
    assert store.status(run.run_id) == "RUNNING"
    for _ in range(2):
        run.clear_tag("error")
    run.end("FINISHED")
    assert store.status(run.run_id) == "FINISHED"
    assert "error" not in store.client.get_run(run.run_id).data.tags


def test_a_run_that_is_gone_has_no_status(store: Store, project: Path) -> None:
    run = store.start("sweep", tags(project))
    store.client.delete_run(run.run_id)
    assert store.status(run.run_id) is None
    assert store.status("0" * 32) is None


def test_metrics_carry_the_scheme(store: Store, project: Path) -> None:
    metrics = {"scheme": "loo", "n_rows": 3, "mae_ms": 0.25, "loo_fixed_mae_ms": 0.2}
    with store.run("a run", tags(project)) as run:
        run.log_metrics("loo", metrics)
        run.log_metrics("leave_one_shape_out", {"mae_ms": 0.5})
    assert store.client.get_run(run.run_id).data.metrics == {
        "loo_n_rows": 3.0,
        "loo_mae_ms": 0.25,
        "loocv_mae_ms": 0.25,
        "loo_fixed_mae_ms": 0.2,
        "leave_one_shape_out_mae_ms": 0.5,
    }


def test_metric_names_of_another_scheme_have_no_loocv() -> None:
    assert metric_names("leave_one_shape_out", {"mae_ms": 1.0}) == {"leave_one_shape_out_mae_ms": 1.0}


def test_tags_say_what_a_run_came_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DVC_STAGE", "train@linear")
    made = tags(tmp_path)
    assert made["estimator"] == "linear"
    assert made["origin"] == "simulated"
    assert made["features_md5"] == "0" * 32
    assert made["kind"] == "trial"
    assert made["dvc_stage"] == "train@linear"
    # No repository, no commit: neither an empty one nor a guess.
    assert "git_commit" not in made


def test_tags_name_the_commit(tmp_path: Path) -> None:
    identity = ["-c", "user.name=tests", "-c", "user.email=tests@example.org"]
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    command = ["git", "-C", str(tmp_path), *identity, "commit", "-q", "--allow-empty", "-m", "empty"]
    subprocess.run(command, check=True)
    commit = tags(tmp_path)["git_commit"]
    assert len(commit) == 40
    assert commit == tags(tmp_path)["mlflow.source.git.commit"]


def test_processes_that_start_together_on_a_fresh_store_all_log(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from accelperf.tracking import open_store\n"
        "store = open_store(Path(sys.argv[1]))\n"
        "with store.run('a run', {}) as run: run.log_parameters({'alpha': 1})\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    processes = [subprocess.Popen(command, stderr=subprocess.PIPE) for _ in range(3)]
    outputs = [process.communicate()[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], outputs
    client = MlflowClient(f"sqlite:///{tmp_path / 'mlflow.db'}")
    experiment = client.get_experiment_by_name(EXPERIMENT)
    assert experiment is not None
    assert [run.info.status for run in client.search_runs([experiment.experiment_id])] == ["FINISHED"] * 3
