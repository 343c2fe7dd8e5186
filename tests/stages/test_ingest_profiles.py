"""The stage that reads profiling logs."""

from __future__ import annotations

import json
import shutil

import pytest
import yaml

from accelperf.errors import InputError
from accelperf.layers import read_layers
from accelperf.stages import ingest_profiles
from tests.logs.samples import GOLDEN, NATIVE, PLATFORMS, write_log


@pytest.fixture
def project(tmp_path):
    """Return a folder with platforms and logs."""
    (tmp_path / "platforms").mkdir()
    for name, platform in PLATFORMS.items():
        path = tmp_path / "platforms" / f"{name}.yaml"
        path.write_text(yaml.safe_dump(platform.model_dump(exclude_none=True)))
    write_log(tmp_path / "logs" / "bench")
    shutil.copytree(GOLDEN / "cnn_accel" / "tiny", tmp_path / "logs" / "tiny")
    return tmp_path


def run(project):
    ingest_profiles.run(
        project / "logs",
        project / "platforms",
        project / "out" / "layers.csv",
        project / "out" / "report.json",
    )


def test_layers_and_account(project):
    run(project)
    table = read_layers(project / "out" / "layers.csv")
    assert len(table) == 8
    account = json.loads((project / "out" / "report.json").read_text())
    assert (account["rows_read"], account["rows_kept"]) == (17, 8)
    assert account["skipped"] == {"operator add": 2, "operator fc": 2, "operator maxpool": 5}
    assert [each["format"] for each in account["files"]] == ["native", "cnn_accel", "cnn_accel", "cnn_accel"]
    first = (project / "out" / "layers.csv").read_bytes()
    run(project)
    assert (project / "out" / "layers.csv").read_bytes() == first


@pytest.mark.parametrize(
    ("old", "new"), [("latency_ms", "latency"), ("0.0625", "fast"), ("conv2,conv,16", "conv2,conv,-1")]
)
def test_bad_logs_leave_earlier_outputs_alone(project, old, new):
    run(project)
    before = {path.name: path.read_bytes() for path in (project / "out").iterdir()}
    write_log(project / "logs" / "bench", NATIVE.replace(old, new))
    with pytest.raises(InputError, match=r"bench/log\.csv:[14]: "):
        run(project)
    assert {path.name: path.read_bytes() for path in (project / "out").iterdir()} == before


def test_bad_platforms_and_empty_folders_leave_earlier_outputs_alone(project):
    run(project)
    before = {path.name: path.read_bytes() for path in (project / "out").iterdir()}
    write_log(project / "logs" / "bench", run="origin: measured\nplatform: vu9p\nnetwork: net\n")
    with pytest.raises(
        InputError, match=r"bench/run\.yaml:2: expected a platform, one of large, small, got 'vu9p'"
    ):
        run(project)
    path = project / "platforms" / "small.yaml"
    path.write_text(path.read_text().replace("logic_clock_mhz: 200.0", "logic_clock_mhz: 0.0"))
    with pytest.raises(InputError, match=r"small\.yaml:\d+: expected logic_clock_mhz: .*got 0"):
        run(project)
    shutil.rmtree(project / "logs")
    (project / "logs").mkdir()
    shutil.copy(project / "platforms" / "large.yaml", path)
    path.write_text(path.read_text().replace("name: large", "name: small"))
    with pytest.raises(InputError, match="a folder with at least one profiling log, got none"):
        run(project)
    assert {path.name: path.read_bytes() for path in (project / "out").iterdir()} == before
