"""`accelperf check`: what it lists, and its exit status."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner, Result

from accelperf.cli import app
from accelperf.errors import InputError
from accelperf.logs import read_folder
from accelperf.settings import project_checks
from accelperf.stages import ingest_profiles
from tests.conftest import ROOT
from tests.logs.samples import GOLDEN, NATIVE, PLATFORMS, RUN, write_log
from tests.test_cli import HEAVY, loaded_modules

FAST = NATIVE.replace("0.0625", "0.0001")


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    """Return a folder with platforms and a clean log, as the working directory."""
    folder = tmp_path / "project"
    (folder / "data" / "platforms").mkdir(parents=True)
    (folder / "data" / "networks").mkdir()
    for name, platform in PLATFORMS.items():
        text = yaml.safe_dump(platform.model_dump(exclude_none=True))
        (folder / "data" / "platforms" / f"{name}.yaml").write_text(text)
    write_log(folder / "logs")
    monkeypatch.chdir(folder)
    return folder


def check(*words: str) -> Result:
    return CliRunner().invoke(app, ["check", *words])


def test_clean_logs_are_status_0(project):
    for where in ("logs", "logs/log.csv", str(project / "logs" / "log.csv")):
        result = check(where)
        assert result.exit_code == 0, result.output
        assert result.stdout == "code\taction\taccelerator\tnetwork\tlayer\tsource\tmessage\n"
        assert "log.csv: native, 3 rows read, 2 kept, 1 skipped (1 operator maxpool)" in result.stderr
        assert result.stderr.endswith("found: nothing\n")


def test_doubtful_rows_are_status_1_and_listed(project):
    write_log(project / "logs", FAST)
    result = check("logs")
    assert result.exit_code == 1
    _, compute, memory = (line.split("\t") for line in result.stdout.splitlines())
    assert compute[:6] == [
        "faster_than_compute", "dropped", "small", "net", "conv2", "logs/log.csv:4",
    ]  # fmt: skip
    assert compute[6] == (
        "0.0001 ms, at least 0.04608 ms for its operations at 2 x 8 x 4 a cycle and 200 MHz"
    )
    assert memory[:2] == ["faster_than_memory", "flagged"]
    assert "found: 1 faster_than_compute, 1 faster_than_memory" in result.stderr
    assert not list(project.glob("data/interim/*"))


def test_json_holds_findings_and_account(project):
    write_log(project / "logs", FAST)
    result = check("logs", "--json")
    assert result.exit_code == 1
    account = json.loads(result.stdout)
    assert (account["rows_read"], account["rows_kept"]) == (3, 1)
    assert account["checks"]["faster_than_compute"] == {"action": "drop", "findings": 1}
    assert [finding["line"] for finding in account["findings"]] == [4, 4]
    assert account["totals"] == []
    assert [each["format"] for each in account["files"]] == ["native"]
    assert check("logs", "--json", "--tsv").exit_code != 0


def test_a_log_that_cannot_be_read_is_status_2_and_the_others_are_checked(project):
    write_log(project / "logs", FAST, name="fast.csv")
    (project / "logs" / "notes.txt").write_text("hello\n")
    (project / "logs" / "log.csv").write_text(NATIVE.replace("0.125", "quick"))
    result = check("logs", "nowhere")
    assert result.exit_code == 2
    assert "faster_than_compute\tdropped" in result.stdout
    errors = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert [error.split(": ")[1] for error in errors] == ["nowhere", "logs/notes.txt", "logs/log.csv:2"]
    assert "got 'quick'" in errors[2]


def test_options_stand_in_for_run_yaml(project):
    path = write_log(project / "loose", NATIVE)
    (path.parent / "run.yaml").unlink()
    result = check("loose/log.csv")
    assert result.exit_code == 2
    assert "loose/log.csv: expected a run.yaml beside this log or above it, or --platform" in result.stderr
    result = check("loose/log.csv", "--platform", "small", "--network", "net")
    assert result.exit_code == 0, result.output
    # `large` would have done it faster, and `run.yaml` is overridden by what is given.
    write_log(project / "loose", NATIVE, run=RUN.replace("small", "nowhere"))
    assert check("loose", "--platform", "large").exit_code == 0
    assert check("loose").exit_code == 2


@pytest.mark.parametrize(
    ("log", "sums"),
    [
        (
            "dnndk/console.txt",
            {"layers": 6, "listed": 0.889, "total": "console.txt:44: tiny: All states 0.889 ms, its 6 rows"},
        ),
        (
            "openvino/average.csv",
            {"layers": 7, "listed": 0.887, "total": "average.csv:13: Total states 0.887 ms, its 11 rows"},
        ),
        ("vaitrace/profile_summary.csv", {"layers": 5, "listed": 0.854, "total": ""}),
    ],
)
def test_sums_of_a_log_that_nothing_describes(project, log, sums):
    path = project / "loose" / Path(log).name
    path.parent.mkdir()
    shutil.copy(GOLDEN / log, path)
    for options in ((), ("--platform", "small")):
        result = check("loose", *options)
        assert result.exit_code == 1, result.output
        _, finding = (line.split("\t") for line in result.stdout.splitlines())
        assert finding[:3] == ["layer_not_described", "reported", "small" if options else "-"]
        assert finding[6].startswith(
            f"{sums['layers']} layers whose times sum to {sums['listed']} ms, without"
        )
        assert f"{sums['layers']} without sizes)" in result.stderr
        assert sums["total"] in result.stderr
    # With a description it needs a platform; and the stage needs both.
    shutil.copy(GOLDEN / "dnndk" / "network.csv", project / "network.csv")
    assert "or --platform, got neither" in check(str(path), "--geometry", "network.csv").stderr
    (path.parent / "run.yaml").write_text("origin: measured\nplatform: small\nnetwork: tiny\n")
    assert check("loose").exit_code == 1
    with pytest.raises(InputError, match=r"expected the key 'geometry' in loose/run\.yaml"):
        read_folder(Path("loose"), PLATFORMS)


def test_a_total_that_does_not_fit_is_found_without_sizes(project):
    text = (GOLDEN / "dnndk" / "console.txt").read_text()
    path = project / "console.txt"
    path.write_text(text.replace("0.14       0.889        7.0", "0.14       0.989        7.0"))
    result = check("console.txt")
    assert "total_mismatch\tflagged\t-\ttiny\t-\tconsole.txt:44\tAll states 0.989 ms" in result.stdout
    assert result.exit_code == 1


def test_messages_do_not_name_a_run_yaml_that_is_not_there(project):
    (project / "logs" / "run.yaml").unlink()
    result = check("logs", "--platform", "small")
    assert "the key 'network' in logs/run.yaml (or options), got neither" in result.stderr
    assert result.exit_code == 2


def test_json_holds_what_cannot_be_read(project):
    result = check("logs", "nowhere", "--json")
    assert result.exit_code == 2
    assert json.loads(result.stdout)["errors"] == [
        "nowhere: expected a profiling log, or a folder of them, got no such file"
    ]
    assert json.loads(check("logs", "--json").stdout)["errors"] == []
    assert check("logs", "nowhere").stderr.splitlines()[-2] == "found: nothing, and 1 error"


def test_pipes_and_loops_are_refused(project):
    os.mkfifo(project / "logs" / "pipe")
    assert "logs/pipe: expected a file, got a pipe or a device" in check("logs").stderr
    (project / "logs" / "pipe").unlink()
    (project / "logs" / "again").symlink_to(".")
    assert "logs/again: expected folders without a loop, got a link to" in check("logs").stderr


def test_configurations_as_options(project):
    shutil.copytree(GOLDEN / "cnn_accel" / "tiny", project / "tiny")
    (project / "tiny" / "run.yaml").unlink()
    result = check("tiny", "--platform", "m8p4=small", "--platform", "m16p4=large")
    assert result.exit_code in (0, 1), result.output
    assert "layer_latency_m8p4.csv: cnn_accel, 7 rows read" in result.stderr
    for words in (["small", "large"], ["m8p4=small", "large"], ["a=small", "a=large"]):
        options = [word for each in words for word in ("--platform", each)]
        result = check("tiny", *options)
        assert "--platform: one NAME, or CONFIGURATION=NAME of each" in str(result.exception)


def test_format_option(project):
    result = check("logs", "--format", "cnn_accel")
    assert result.exit_code == 2
    assert "one file that describes the layers" in result.stderr
    result = check("logs", "--format", "vhdl")
    assert result.exit_code == 2
    assert "--format: one of cnn_accel, " in result.stderr


def test_wrong_options(project):
    assert "--origin: one of measured" in str(check("logs", "--origin", "guessed").exception)
    assert "no file 'gone.onnx'" in str(check("logs", "--geometry", "gone.onnx").exception)
    assert "--geometry: the name of a network table" in str(check("logs", "--geometry", "gone").exception)
    assert "--platform: a platform, one of large, small" in str(check("logs", "--platform", "a=b").exception)


def test_params_yaml_says_what_is_done(project):
    (project / "dvc.yaml").write_text("stages: {}\n")
    (project / "conf").mkdir()
    (project / "params.yaml").write_text("checks:\n  faster_than_compute: flag\n")
    write_log(project / "logs", FAST)
    result = check("logs")
    assert "faster_than_compute\tflagged" in result.stdout
    assert project_checks() == {"faster_than_compute": "flag"}
    (project / "params.yaml").write_text("checks:\n  faster_than_compute: ignore\n")
    assert "params.yaml:2: expected checks.faster_than_compute: an action" in str(check("logs").exception)
    (project / "params.yaml").write_text("checks:\n  too_fast: flag\n")
    assert "params.yaml:2: expected checks: codes among absurd" in str(check("logs").exception)
    (project / "params.yaml").write_text("checks: [flag]\n")
    assert "params.yaml:1: expected checks: " in str(check("logs").exception)
    (project / "params.yaml").write_text("models: [x]\n")
    assert project_checks() == {}
    (project / "params.yaml").write_text("checks: {faster_than_compute: stop}\n")
    assert "log.csv:4: expected no faster_than_compute" in str(check("logs").exception)


def test_the_stage_warns_in_a_line_a_check_and_lists_all(project, capsys):
    text = FAST + FAST.splitlines()[-1].replace("conv2", "conv3") + "\n"
    write_log(project / "logs", text)
    ingest_profiles.run(Path("logs"), Path("data/platforms"), Path("out/layers.csv"), Path("out/report.json"))
    warnings = capsys.readouterr().err.splitlines()
    assert warnings[0] == (
        "warning: logs/log.csv:4: conv2: 0.0001 ms, at least 0.04608 ms for its operations at 2 x 8 x 4 a "
        "cycle and 200 MHz: faster_than_compute, dropped (and 1 more in out/report.json)"
    )
    assert len(warnings) == 2
    account = json.loads((project / "out" / "report.json").read_text())
    assert account["checks"]["faster_than_compute"] == {"action": "drop", "findings": 2}
    assert len(account["findings"]) == 4
    assert account["skipped"] == {"faster_than_compute": 2, "operator maxpool": 1}


def test_the_sample_is_clean(monkeypatch):
    monkeypatch.chdir(ROOT)
    result = check("data/raw/profiles")
    assert result.exit_code == 0, result.output
    assert result.stderr.endswith("found: nothing\n")


def test_help_has_an_example():
    result = check("--help")
    assert result.exit_code == 0
    assert "Example" in result.output


def test_the_commands_load_no_trainer(project):
    words = ["check", "logs"], ["ingest-profiles", "logs", "--output", "l.csv", "--report", "r.json"]
    for each in words:
        code = f"""
from typer.testing import CliRunner
from accelperf.cli import app
from accelperf.errors import InputError
from accelperf.logs import read_folder
assert CliRunner().invoke(app, {each!r}).exit_code == 0
"""
        assert not loaded_modules(code, project) & set(HEAVY)
