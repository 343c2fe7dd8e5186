"""``accelperf predict`` as a user meets it: forms of output, pictures, errors, and what it loads."""

from __future__ import annotations

import csv
import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from accelperf.bundle import save_bundle
from accelperf.cli import app, main
from accelperf.features import FeatureMatrix
from accelperf.models.catalog import create
from accelperf.predict import request as request_module
from accelperf.stages import ingest_memory
from tests.conftest import ROOT
from tests.test_cli import HEAVY, loaded_modules

Maker = Callable[..., FeatureMatrix]

PNG = b"\x89PNG\r\n\x1a\n"
PLATFORMS = str(ROOT / "data/platforms")
NETWORKS = str(ROOT / "data/networks")
FOLDERS = ["--platforms", PLATFORMS, "--networks", NETWORKS]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory, features_of: Maker) -> Path:
    """Return a folder with three trained estimators."""
    folder = tmp_path_factory.mktemp("models")
    features = features_of(30)
    for key, settings in (
        ("linear", {}),
        ("gp_analytic", {"mean": "tiled", "restarts": 0, "steps": 30}),
        ("gp_calibrated", {}),
    ):
        save_bundle(
            create(key, settings).fit(features), folder / key, estimator=key, settings=settings,
            features=features, features_md5="0" * 32, metrics={},
        )  # fmt: skip
    return folder


def run(*words: str) -> tuple[str, str]:
    """Return what the command writes to stdout and stderr."""
    result = CliRunner().invoke(app, ["predict", *words])
    assert result.exit_code == 0, result.output
    return result.stdout, result.stderr


def error_of(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Return the one line that the command ends with."""
    monkeypatch.setattr(sys, "argv", ["accelperf", "predict", *words])
    with pytest.raises(SystemExit) as exit_info:
        main()
    assert exit_info.value.code == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    assert line.startswith("error: ")
    return line


def test_help_has_an_example() -> None:
    result = CliRunner().invoke(app, ["predict", "--help"])
    assert result.exit_code == 0
    assert "Example: accelperf predict resnet50 --platform sim-table4" in " ".join(result.output.split())


def test_a_pipe_gets_tab_separated_values(models: Path) -> None:
    out, err = run("resnet50", "--platform", "sim-table4", "--model", str(models / "gp_analytic"), *FOLDERS)
    rows = list(csv.DictReader(StringIO(out), delimiter="\t"))
    assert [row["row"] for row in rows] == ["layer"] * 53 + ["total"]
    layers = [float(row["latency_ms"]) for row in rows[:-1]]
    np.testing.assert_allclose(float(rows[-1]["latency_ms"]), sum(layers), rtol=1e-12, atol=0)
    np.testing.assert_allclose(sum(float(row["share"]) for row in rows[:-1]), 1.0, rtol=1e-12, atol=0)
    for row in rows:
        assert float(row["lower_ms"]) < float(row["latency_ms"]) < float(row["upper_ms"])
        assert (row["network"], row["platform"]) == ("resnet50", "sim-table4")
    assert err.splitlines()[0].startswith(
        "resnet50 on sim-table4: gp_analytic, trained on 30 SIMULATED layers"
    )
    assert any(line.startswith("SIMULATED total of 53 layers one after another") for line in err.splitlines())


def test_csv_and_json_say_the_same(models: Path) -> None:
    words = [
        "ssd300",
        "resnet50",
        "--platform",
        "sim-table4",
        "--model",
        str(models / "gp_calibrated"),
        *FOLDERS,
    ]
    table, _ = run(*words, "--csv")
    text, err = run(*words, "--json")
    assert err == ""
    rows = list(csv.DictReader(StringIO(table)))
    content = json.loads(text)
    assert content["simulated"] is True
    assert [each["network"] for each in content["predictions"]] == ["ssd300", "resnet50"]
    layers = [layer for each in content["predictions"] for layer in each["layers"]]
    for row, layer in zip([row for row in rows if row["row"] == "layer"], layers, strict=True):
        assert row["layer"] == layer["layer"]
        assert float(row["latency_ms"]) == layer["latency_ms"]
        assert float(row["upper_ms"]) == layer["upper_ms"]
        assert row["binding"] == layer["binding"]
    totals = [row for row in rows if row["row"] == "total"]
    for row, each in zip(totals, content["predictions"], strict=True):
        assert float(row["frames_per_second"]) == each["total"]["frames_per_second"]
        assert each["trained_on"]["origins"] == ["simulated"]
        assert each["trained_on"]["features_md5"] == "0" * 32


def test_a_terminal_gets_an_aligned_table(models: Path) -> None:
    master, terminal = pty.openpty()
    words = ["predict", "resnet50", "--platform", "sim-table4", "--model", str(models / "gp_analytic")]
    process = subprocess.Popen(
        [sys.executable, "-m", "accelperf", *words, "--pipeline", "--batch", "8"],
        cwd=ROOT, stdout=terminal, stderr=subprocess.PIPE,
    )  # fmt: skip
    os.close(terminal)
    parts = []
    while True:
        try:
            part = os.read(master, 65536)
        except OSError:  # Linux says so at the end
            break
        if not part:
            break
        parts.append(part)
    os.close(master)
    _, err = process.communicate()
    lines = b"".join(parts).decode().replace("\r\n", "\n").splitlines()
    assert (process.returncode, err) == (0, b"")
    head = next(place for place, line in enumerate(lines) if line.startswith("layer "))
    assert lines[head].split()[:3] == ["layer", "operator", "ms"]
    column = lines[head].index("95 % interval")
    assert all(line[column - 2 : column] == "  " for line in lines[head : head + 54])
    assert any("as a pipeline, paced by the slowest" in line for line in lines)
    assert any(line.startswith("batch of 8 images: ") for line in lines)


def test_start_up_loads_no_trainer(models: Path) -> None:
    for model in ("gp_analytic", "gp_calibrated"):
        words = ["predict", "resnet50", "--platform", "sim-table4", "--model", str(models / model)]
        code = f"""
import io, contextlib
from typer.testing import CliRunner
from accelperf.cli import app
result = CliRunner().invoke(app, {words!r})
assert result.exit_code == 0, result.output
assert 'scipy.optimize' not in sys.modules
"""
        found = loaded_modules(code, ROOT)
        assert "accelperf" in found
        assert not found & {*HEAVY, "matplotlib", "onnx", "keras", "tf_keras"}


def test_pictures(models: Path, tmp_path: Path) -> None:
    words = ["--platform", "cnn-accel-m64p64", "--model", str(models / "gp_calibrated"), *FOLDERS]
    for name, networks, more in (
        ("one", ["resnet50"], []),
        ("pipeline", ["ssd300"], ["--pipeline"]),
        ("several", ["resnet50", "ssd300", "yolov3"], []),
    ):
        path = tmp_path / "new" / f"{name}.png"
        run(*networks, *words, *more, "--picture", str(path))
        first = path.read_bytes()
        assert first.startswith(PNG)
        run(*networks, *words, *more, "--picture", str(path))
        assert path.read_bytes() == first
    run("ssd300", "--platform", "sim-table4", "--model", str(models / "linear"), *FOLDERS,
        "--picture", str(tmp_path / "plain.png"))  # fmt: skip
    assert (tmp_path / "plain.png").read_bytes().startswith(PNG)
    assert not list(tmp_path.rglob("*.part"))


def test_the_title_of_a_picture_says_what_to_know(models: Path) -> None:
    from accelperf.predict import Request
    from accelperf.predict import run as predict
    from accelperf.predict.picture import _title

    found = predict(
        Request(
            ["resnet50"], "sim-table4", str(models / "gp_analytic"), platforms_folder=Path(PLATFORMS),
            networks_folder=Path(NETWORKS),
        )
    )  # fmt: skip
    title = _title(found)
    assert title.startswith("resnet50 on sim-table4 by gp_analytic: ")
    assert title.endswith("trained on SIMULATED data")
    assert "2 networks" in _title([*found, *found])


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["nowhere", "--platform", "sim-table4"], "expected a network, one of resnet50, ssd300, yolov3"),
        (["resnet50", "--platform", "nowhere"], "expected a platform, one of "),
        (["resnet50", "--platform", "nowhere.yaml"], "nowhere.yaml: expected a YAML file"),
        (["nowhere.csv", "--platform", "sim-table4"], "nowhere.csv: expected a CSV table"),
        (["resnet50", "--platform", "sim-table4", "--model", "nowhere"], "expected a model's folder"),
        (["resnet50", "--platform", "sim-table4", "--csv", "--json"], "one of --csv and --json, got both"),
        (["resnet50", "--platform", "sim-table4", "--picture", "a.jpg"], "ends in .png, got 'a.jpg'"),
        (["resnet50", "--platform", "sim-hbm", "--memory", "no.csv"], "no.csv: expected a CSV table"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line(
    words: list[str],
    reason: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert reason in error_of(monkeypatch, capsys, *words, *FOLDERS)
    assert not list(tmp_path.iterdir())


def test_an_error_leaves_earlier_pictures(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    picture = tmp_path / "p.png"
    picture.write_bytes(b"earlier")
    broken = tmp_path / "broken.csv"
    broken.write_text("layer,operator\na,conv\n")
    words = ["--platform", "sim-table4", "--model", str(models / "linear"), *FOLDERS]
    error_of(monkeypatch, capsys, "resnet50", str(broken), *words, "--picture", str(picture))
    assert picture.read_bytes() == b"earlier"
    (tmp_path / "file").write_text("")
    line = error_of(monkeypatch, capsys, "resnet50", *words, "--picture", "file/p.png")
    assert "file/p.png: expected a file that can be written" in line


def test_a_damaged_bundle_is_one_line(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in (models / "linear").iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes()[:-1])
    words = ["resnet50", "--platform", "sim-table4", "--model", str(tmp_path), *FOLDERS]
    assert "bundle.json: expected a bundle's JSON as it was written" in error_of(monkeypatch, capsys, *words)


def test_platforms_by_file_and_by_a_name_that_is_not_the_files(models: Path, tmp_path: Path) -> None:
    text = (ROOT / "data/platforms/sim-table4.yaml").read_text().replace("name: sim-table4", "name: mine")
    (tmp_path / "other.yaml").write_text(text)
    model = ["--model", str(models / "linear"), "--csv"]
    by_file, _ = run("resnet50", "--platform", str(tmp_path / "other.yaml"), *model, *FOLDERS)
    by_name, _ = run(
        "resnet50", "--platform", "mine", *model, "--platforms", str(tmp_path), "--networks", NETWORKS
    )
    assert by_file == by_name
    assert by_file.splitlines()[1].startswith("layer,resnet50,mine,conv1,")


def test_a_platform_that_names_a_memory_profile(models: Path, tmp_path: Path) -> None:
    memory = tmp_path / "memory.csv"
    ingest_memory.run(ROOT / "data/raw/memory", memory, tmp_path / "report.json")
    out, _ = run(
        "resnet50", "--platform", "sim-hbm", "--model", str(models / "gp_analytic"), "--memory", str(memory),
        *FOLDERS,
    )  # fmt: skip
    assert out.splitlines()[-1].startswith("total\tresnet50\tsim-hbm\t")


def test_network_tables_by_path(models: Path, tmp_path: Path) -> None:
    copy = tmp_path / "mine.csv"
    copy.write_bytes((ROOT / "data/networks/ssd300.csv").read_bytes())
    words = ["--platform", "sim-table4", "--model", str(models / "linear"), "--csv", *FOLDERS]
    mine, _ = run(str(copy), *words)
    theirs, _ = run("ssd300", *words)
    assert mine.replace(",mine,", ",ssd300,") == theirs


def test_onnx_files(models: Path, tmp_path: Path) -> None:
    pytest.importorskip("onnx", reason="the extra onnx is not installed")
    from tests.onnx_models import mobilenet_v1, resnet50

    words = ["--platform", "sim-table4", "--model", str(models / "gp_analytic"), "--json", *FOLDERS]
    path = resnet50().save(tmp_path / "resnet50.onnx")
    content = json.loads(run(str(path), *words)[0])["predictions"][0]
    table = json.loads(run("resnet50", *words)[0])["predictions"][0]
    *convolutions, last = content["layers"]
    numbers = ("latency_ms", "lower_ms", "upper_ms", "binding")
    ours = [[layer[name] for name in numbers] for layer in convolutions]
    theirs = [[layer[name] for name in numbers] for layer in table["layers"]]
    assert ours == theirs
    assert last["operator"] == "gemm"
    assert last["note"] == "fully connected, as a convolution of 1 x 1"
    path = mobilenet_v1().save(tmp_path / "mobilenet.onnx")
    mobilenet = json.loads(run(str(path), *words)[0])["predictions"][0]
    assert not mobilenet["total"]["partial"]
    depthwise = [layer for layer in mobilenet["layers"] if any(
        each["parameter"] == "groups" for each in layer["outside_training_range"]
    )]  # fmt: skip
    assert len(depthwise) == 13
    blind = json.loads(
        run(str(path), "--platform", "sim-table4", "--model", str(models / "linear"), "--json", *FOLDERS)[0]
    )["predictions"][0]
    assert len(blind["unsupported"]) == 13
    assert blind["total"]["partial"]


def test_the_default_estimator_is_looked_up_where_the_command_runs(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["resnet50", "--platform", "sim-table4", "--json", *FOLDERS]
    untrained = json.loads(run(*words)[0])["predictions"][0]
    assert untrained["estimator"] == "analytic model (tiled)"
    assert untrained["trained_on"] is None
    assert untrained["chosen_because"] == "no trained estimator in models/"
    (tmp_path / "models").symlink_to(models)
    (tmp_path / "reports").mkdir()
    (tmp_path / "reports/comparison.csv").write_text("estimator,scheme,mape\nlinear,loo,0.1\n")
    best = json.loads(run(*words)[0])["predictions"][0]
    assert (best["estimator"], best["model"]) == ("linear", "models/linear")
    assert best["chosen_because"] == "least loo MAPE in reports/comparison.csv"


def test_a_module_of_the_users_own_must_be_allowed(
    tmp_path: Path, features_of: Maker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "own_predict_mean.py").write_text(
        "from accelperf.models.means import register_mean\n"
        "@register_mean('own_predict_mean')\n"
        "def own(inputs, ops):\n"
        "    return 0.5 + 0.0 * inputs['kernel_height']\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    settings = {"mean": "own_predict_mean", "modules": ["own_predict_mean"], "restarts": 0, "steps": 20}
    features = features_of(12)
    save_bundle(
        create("gp_analytic", settings).fit(features), tmp_path / "model", estimator="gp_analytic",
        settings=settings, features=features, features_md5="0" * 32, metrics={},
    )  # fmt: skip
    words = ["resnet50", "--platform", "sim-table4", "--model", "model", *FOLDERS]
    assert "a mean function of module 'own_predict_mean'" in error_of(monkeypatch, capsys, *words)
    out, _ = run(*words, "--allow-module", "own_predict_mean")
    assert out.splitlines()[-1].startswith("total\t")


def test_the_picture_is_written_last(models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*arguments: object) -> None:
        raise AssertionError("written although the networks could not be read")

    monkeypatch.setattr(request_module, "write_picture", fails)
    result = CliRunner().invoke(
        app,
        ["predict", "nowhere", "--platform", "sim-table4", "--picture", str(tmp_path / "p.png"), *FOLDERS],
    )
    assert result.exit_code != 0
    assert not isinstance(result.exception, AssertionError)
