"""The command as a user meets it: help, errors, and what it does not load."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from accelperf.cli import app, main
from tests.conftest import ROOT

HEAVY = ("tensorflow", "gpflow", "mlflow", "hydra", "sklearn", "xgboost")


def loaded_modules(code: str, cwd: Path) -> set[str]:
    """Return the top-level modules that are loaded after some code ran in a fresh interpreter."""
    script = f"import sys\n{code}\nprint('LOADED', *{{name.split('.')[0] for name in sys.modules}})"
    result = subprocess.run(
        [sys.executable, "-c", script], cwd=cwd, capture_output=True, text=True, check=True
    )
    return set(result.stdout.rsplit("LOADED", 1)[1].split())


def test_help_loads_nothing_heavy() -> None:
    code = """
from typer.testing import CliRunner
from accelperf.cli import app
assert CliRunner().invoke(app, ['--help']).exit_code == 0
"""
    assert not loaded_modules(code, ROOT) & {*HEAVY, "pandas", "numpy", "matplotlib"}


def test_ingestion_and_features_load_no_trainer(tmp_path: Path) -> None:
    code = f"""
from pathlib import Path
from accelperf.stages import featurise, ingest_memory, ingest_profiles
out = Path({str(tmp_path)!r})
memory, layers, platforms = out / "memory.csv", out / "layers.csv", Path("data/platforms")
ingest_memory.run(Path("data/raw/memory"), memory, out / "memory.json")
ingest_profiles.run(Path("data/raw/profiles"), platforms, layers, out / "layers.json")
featurise.run(layers, platforms, memory, out / "features.csv", origins=["simulated"])
"""
    assert not loaded_modules(code, ROOT) & set(HEAVY)
    assert len((tmp_path / "features.csv").read_text().splitlines()) == 1 + 2 * 151


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["ingest-memory"],
        ["ingest-profiles"],
        ["featurise"],
        ["report"],
        ["memory"],
        ["simulate", "profile"],
        ["simulate", "memory"],
    ],
)
def test_every_command_has_help_with_an_example(words: list[str]) -> None:
    result = CliRunner().invoke(app, [*words, "--help"])
    assert result.exit_code == 0
    assert "Example" in result.output


def test_version() -> None:
    from accelperf import __version__

    result = CliRunner().invoke(app, ["--version"])
    assert result.output == f"accelperf {__version__}\n"


def test_bad_input_is_one_line_and_status_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["accelperf", "ingest-profiles", str(tmp_path), "--platforms", str(ROOT / "data/platforms")]
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit) as exit_info:
        main()
    assert exit_info.value.code == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith(f"error: {tmp_path}: expected ")


def test_a_simulated_profile_is_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from accelperf.logs import read_profiles
    from accelperf.platforms import read_platforms

    monkeypatch.chdir(ROOT)
    words = [
        "simulate",
        "profile",
        "ssd300",
        "--platform",
        "sim-table4",
        "--output-dir",
        str(tmp_path),
        "--seed",
        "3",
    ]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    assert "23 SIMULATED layers" in result.output
    layers, _ = read_profiles(tmp_path, read_platforms(Path("data/platforms")))
    assert len(layers) == 23
    assert set(layers["origin"]) == {"simulated"}
