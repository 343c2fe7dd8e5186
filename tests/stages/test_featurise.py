"""The stage that makes the features, and the path from real logs to the analytic model."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import yaml

from accelperf.analytic import latency_ms
from accelperf.errors import InputError
from accelperf.features import read_features
from accelperf.layers import write_layers
from accelperf.memory.table import MEMORY_COLUMNS
from accelperf.stages import featurise, ingest_profiles
from tests.logs.samples import PLATFORMS, REAL_RUN, write_real_platforms
from tests.test_features import table
from tests.tolerances import PUBLISHED_6_DIGITS


def write_memory(path):
    """Write a memory table without rows: the platforms here state their efficiency."""
    path.write_text(",".join(MEMORY_COLUMNS) + "\n")
    return path


@pytest.fixture
def project(tmp_path):
    """Return a folder with platforms, a layer table and an empty memory table."""
    (tmp_path / "platforms").mkdir()
    for name, platform in PLATFORMS.items():
        path = tmp_path / "platforms" / f"{name}.yaml"
        path.write_text(yaml.safe_dump(platform.model_dump(exclude_none=True)))
    write_layers(table(), tmp_path / "layers.csv")
    write_memory(tmp_path / "memory.csv")
    return tmp_path


def run(project, **options):
    featurise.run(
        project / "layers.csv",
        project / "platforms",
        project / "memory.csv",
        project / "out" / "features.csv",
        **options,
    )


def test_features_and_account(project):
    run(project, origins=["measured"], report=project / "out" / "report.json")
    matrix = read_features(project / "out" / "features.csv")
    assert set(matrix.table["accelerator"]) == {"small"}
    account = json.loads((project / "out" / "report.json").read_text())
    assert (account["rows_read"], account["rows_kept"]) == (8, 4)
    assert account["skipped"] == {"origin simulated": 4}
    first = (project / "out" / "features.csv").read_bytes()
    run(project, origins=["measured"])
    assert (project / "out" / "features.csv").read_bytes() == first


def test_errors_leave_earlier_outputs_alone(project):
    run(project, origins=["measured"])
    before = (project / "out" / "features.csv").read_bytes()
    with pytest.raises(InputError, match="layers of origin estimated"):
        run(project, origins=["estimated"])
    with pytest.raises(InputError, match="an accelerator of the layer table"):
        run(project, origins=["measured"], accelerators=["huge"])
    (project / "platforms" / "small.yaml").unlink()
    with pytest.raises(InputError, match="expected a platform, one of large, got 'small'"):
        run(project, origins=["measured"])
    (project / "layers.csv").unlink()
    with pytest.raises(InputError, match=r"layers\.csv: expected a CSV table"):
        run(project, origins=["measured"])
    assert (project / "out" / "features.csv").read_bytes() == before
    assert [path.name for path in (project / "out").iterdir()] == ["features.csv"]


@pytest.mark.parametrize(("variant", "mae_ms"), [("paper", 0.102031), ("output_sized", 0.064192)])
def test_analytic_model_on_public_measurements(real_data, tmp_path, variant, mae_ms):
    logs = tmp_path / "logs"
    shutil.copytree(real_data / "cnn_accel", logs)
    logs.chmod(0o755)
    (logs / "run.yaml").write_text(REAL_RUN)
    platforms = write_real_platforms(tmp_path / "platforms")
    ingest_profiles.run(logs, platforms, tmp_path / "layers.csv", tmp_path / "report.json")
    account = json.loads((tmp_path / "report.json").read_text())
    assert (account["rows_read"], account["rows_kept"]) == (657, 447)
    featurise.run(
        tmp_path / "layers.csv",
        platforms,
        write_memory(tmp_path / "memory.csv"),
        tmp_path / "features.csv",
        origins=["measured"],
    )
    features = read_features(tmp_path / "features.csv")
    error = np.abs(latency_ms(features.latency_inputs(), variant) - features.latency_ms).mean()
    np.testing.assert_allclose(error, mae_ms, rtol=0, atol=PUBLISHED_6_DIGITS)
