"""params.yaml and the settings stage: what is refused, and where it says so."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from accelperf.errors import InputError
from accelperf.settings import FOLDER_KEYS, find_project_root, read_evaluation, read_settings
from accelperf.stages import settings as stage
from tests.conftest import ROOT

PARAMS = """\
profiles: data/raw/profiles
memory: data/raw/memory
platforms: data/platforms
networks: data/networks
origins: [measured, simulated]
accelerators: null
models: [standard, linear]
schemes:
  - loo
  - leave_one_network_out
grid: quick
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a project whose settings are valid."""
    shutil.copytree(ROOT / "conf", tmp_path / "conf")
    (tmp_path / "dvc.yaml").write_text("stages: {}\n")
    (tmp_path / "params.yaml").write_text(PARAMS)
    for folder in ("data/raw/profiles", "data/raw/memory", "data/platforms", "data/networks"):
        (tmp_path / folder).mkdir(parents=True)
    return tmp_path


def write(project: Path, old: str, new: str) -> None:
    assert old in PARAMS
    (project / "params.yaml").write_text(PARAMS.replace(old, new))


def test_valid_settings_are_read(project: Path) -> None:
    settings = read_settings(project)
    assert settings.models == ["standard", "linear"]
    assert settings.schemes == ["loo", "leave_one_network_out"]
    assert settings.accelerators is None
    assert settings.grid == "quick"
    assert settings.nested_selection == []


def test_nested_selection_is_for_some_of_the_schemes(project: Path) -> None:
    write(project, "grid: quick", "grid: quick\nnested_selection: [leave_one_network_out]")
    assert read_settings(project).nested_selection == ["leave_one_network_out"]


def test_the_sample_experiment_has_valid_settings() -> None:
    settings = read_settings(ROOT)
    assert settings.schemes[0] == "loo"
    assert all((ROOT / getattr(settings, key)).is_dir() for key in FOLDER_KEYS)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("grid: quick", "grid: quick\nepochs: 3", r"yaml:12: expected one of profiles.*grid, .*got unknown"),
        ("grid: quick", "grid: nope", r"yaml:11: expected grid: one of none, paper, quick, got 'nope'"),
        ("grid: quick\n", "", r"params\.yaml: expected the key 'grid', got no such key"),
        ("[standard, linear]", "[standard, magic]", r"yaml:7: .*an estimator, one of .*'magic'"),
        ("[standard, linear]", "[]", r"params\.yaml:7: expected models: .*least 1 item.*got \[\]"),
        ("[standard, linear]", "[linear, linear]", r"yaml:7: expected models: entries that all differ"),
        ("[standard, linear]", "linear", r"params\.yaml:7: expected models: .*list, got 'linear'"),
        ("  - loo\n", "  - kfold\n", r"params\.yaml:9: .*a scheme, one of .*loo, got 'kfold'"),
        ("[measured, simulated]", "[guessed]", r"yaml:5: .*estimated, measured, simulated, got 'guessed'"),
        ("accelerators: null", "accelerators: []", r"params\.yaml:6: expected accelerators: "),
        ("accelerators: null", "accelerators: [a, a]", r"yaml:6: expected accelerators: entries that all"),
        ("grid: quick", "grid: quick\nnested_selection: [kfold]", r"yaml:12: .*a scheme, one of .*'kfold'"),
        ("grid: quick", "grid: quick\nnested_selection: [leave_one_shape_out]",
         r"yaml:12: expected nested_selection: some of schemes, leave_one_network_out, loo, got"),
        ("data/raw/memory", "data/raw/nowhere", r"params\.yaml:2: expected memory: an existing folder, got"),
    ],
)  # fmt: skip
def test_wrong_settings_name_their_line(project: Path, old: str, new: str, message: str) -> None:
    write(project, old, new)
    with pytest.raises(InputError, match=message):
        read_settings(project)


def test_a_grid_without_the_estimator_is_refused_before_it_is_swept(project: Path) -> None:
    (project / "conf/grid/quick/linear.yaml").unlink()
    with pytest.raises(InputError, match=r"params\.yaml:11: expected a grid for linear.*got no linear\.yaml"):
        read_settings(project)
    write(project, "grid: quick", "grid: none")
    assert read_settings(project).grid == "none"


@pytest.mark.parametrize(
    ("group", "name", "key"), [("model", "linear", "models"), ("evaluation", "loo", "schemes")]
)
def test_a_name_needs_its_configuration(project: Path, group: str, name: str, key: str) -> None:
    (project / f"conf/{group}/{name}.yaml").unlink()
    with pytest.raises(InputError, match=rf"{key}: a name with a file conf/{group}/{name}\.yaml"):
        read_settings(project)


def test_the_project_is_found_from_below(project: Path) -> None:
    below = project / "data/raw"
    assert find_project_root(below) == project.resolve()


def test_outside_of_a_project_there_is_none(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"expected a project \(dvc\.yaml and conf/\)"):
        find_project_root(tmp_path)


def test_evaluation_settings(project: Path) -> None:
    assert read_evaluation(project, "leave_one_network_out").keep_twins is False
    path = project / "conf/evaluation/loo.yaml"
    path.write_text("scheme: loo\nkeep_twin: true\n")
    with pytest.raises(InputError, match=r"loo\.yaml:2: expected one of scheme, keep_twins, got unknown key"):
        read_evaluation(project, "loo")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("# ridge\nalpha: -1.0\n", r"linear\.yaml:2: .*alpha.*greater than or equal to 0, got -1\.0"),
        (
            "alpha: 0.0\nbeta: 1\n",
            r"linear\.yaml:2: expected a hyperparameter of linear, one of alpha, got 'beta'",
        ),
        ("alpha: 0.0\nalpha: 1.0\n", r"linear\.yaml:2: .*given twice"),
    ],
)
def test_stage_checks_hyperparameters(
    project: Path,
    text: str,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (project / "conf/model/linear.yaml").write_text(text)
    monkeypatch.chdir(project)
    with pytest.raises(SystemExit) as exit_:
        stage.main(["--output", "data/interim/settings.ok"])
    assert exit_.value.code == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    lines = captured.err.splitlines()
    assert len(lines) == 1
    # As seen from the project: no folders of this machine.
    assert lines[0].startswith("error: conf/model/linear.yaml:2: ")
    with pytest.raises(InputError, match=message):
        stage.run(project)
    assert not (project / "data/interim").exists()


def test_stage_writes_a_constant_marker(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project / "data")
    output = project / "data/interim/settings.ok"
    stage.main(["--output", "interim/settings.ok"])
    first = output.read_bytes()
    write(project, "[standard, linear]", "[linear]")
    stage.main(["--output", "interim/settings.ok"])
    assert output.read_bytes() == first
