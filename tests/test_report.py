import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from accelperf.errors import InputError
from accelperf.evaluation.cross_validation import evaluate
from accelperf.features import FeatureMatrix, write_features
from accelperf.models.catalog import create
from accelperf.report import COMPARISON_COLUMNS, markdown_table, write_report

Maker = Callable[..., FeatureMatrix]
SCHEMES = ["loo", "leave_one_network_out"]
PLATFORM = """
name: {name}
filter_parallelism: 64
channel_parallelism: 32
unrolled_loop: channels
logic_clock_mhz: 200.0
memory_clock_mhz: 200.0
transfer_width_bits: 64
data_width_bits: 8
memory_efficiency: 0.7
source: made up for the tests
"""


@pytest.fixture
def project(tmp_path: Path, features_of: Maker) -> Path:
    features = features_of(24)
    write_features(features, tmp_path / "features.csv")
    (tmp_path / "platforms").mkdir()
    for name in ("fast", "slow"):
        (tmp_path / "platforms" / f"{name}.yaml").write_text(PLATFORM.format(name=name))
    for key, settings in (("linear", {"alpha": 1.0}), ("standard", {"variant": "paper"})):
        folder = tmp_path / "results" / key
        for scheme in SCHEMES:
            evaluation = evaluate(create(key, settings), features, scheme)
            (folder / scheme).mkdir(parents=True)
            (folder / scheme / "metrics.json").write_text(json.dumps(evaluation.metrics))
            evaluation.predictions.to_csv(folder / scheme / "predictions.csv", index=False)
        (folder / "best.yaml").write_text(yaml.safe_dump({"settings": settings}))
        (folder / "mlflow.json").write_text(json.dumps({"run_id": f"run-{key}"}))
    return tmp_path


def report(project: Path, models: list[str]) -> str:
    write_report(
        results_folder=project / "results",
        features_path=project / "features.csv",
        platforms_folder=project / "platforms",
        output=project / "reports",
        models=models,
        schemes=SCHEMES,
    )
    return (project / "reports/comparison.md").read_text(encoding="utf-8")


def test_the_comparison(project: Path) -> None:
    table = report(project, ["linear", "standard"])
    comparison = pd.read_csv(project / "reports/comparison.csv")
    assert tuple(comparison.columns) == COMPARISON_COLUMNS
    assert len(comparison) == 4
    for scheme in SCHEMES:
        rows = comparison[comparison["scheme"] == scheme]
        assert list(rows["mae_ms"]) == sorted(rows["mae_ms"])
        by_key = rows.set_index("estimator")
        assert by_key.loc["standard", "improvement_vs_standard"] == 0
        expected = 1 - by_key.loc["linear", "mae_ms"] / by_key.loc["standard", "mae_ms"]
        assert by_key.loc["linear", "improvement_vs_standard"] == pytest.approx(expected, rel=1e-9)
        assert by_key.loc["linear", "configuration"] == "alpha=1.0"
        assert by_key.loc["linear", "mlflow_run_id"] == "run-linear"
        assert f"`{scheme}`" in table
    for name in ("comparison.md", "report.md"):
        assert "SIMULATED" in (project / "reports" / name).read_text()
    page = (project / "reports/report.md").read_text()
    for part in ("logic_clock_mhz", "L_CLK", "made up for the tests", "| fast ", "70.0 %"):
        assert part in page
    for name in ("predicted_against_measured.png", "error_along_network.png"):
        assert (project / "reports" / name).stat().st_size > 5000
        assert f"({name})" in page
    shown = pd.read_csv(project / "reports/predicted_against_measured.csv")
    assert len(shown) == 48


def test_nested_selection_is_a_column_where_there_is_any(project: Path) -> None:
    assert "nested" not in report(project, ["linear", "standard"])
    path = project / "results/linear/loo/metrics.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"nested_mae_ms": 0.125}))
    loo, network = report(project, ["linear", "standard"]).split("Cross-validation")[1:]
    assert "nested selection [ms]" in loo
    assert "0.1250" in loo
    assert "nested selection [ms]" not in network
    comparison = pd.read_csv(project / "reports/comparison.csv")
    assert list(comparison.columns[2:5]) == ["mae_ms", "nested_mae_ms", "improvement_vs_standard"]
    given = comparison.set_index(["estimator", "scheme"])["nested_mae_ms"].dropna()
    assert given.to_dict() == {("linear", "loo"): 0.125}
    assert "*Nested selection* is the MAE" in (project / "reports/report.md").read_text()


def test_measured_data_carries_no_mark(project: Path) -> None:
    path = project / "features.csv"
    path.write_text(path.read_text().replace("simulated", "measured"))
    assert "SIMULATED" not in report(project, ["linear", "standard"])
    assert "SIMULATED" not in (project / "reports/report.md").read_text()


def test_without_the_baseline_there_is_no_improvement(project: Path) -> None:
    assert "–" in report(project, ["linear"])
    comparison = pd.read_csv(project / "reports/comparison.csv")
    assert comparison["improvement_vs_standard"].isna().all()


def test_a_missing_result_is_named_and_the_last_report_stays(project: Path) -> None:
    report(project, ["linear", "standard"])
    before = {path: path.read_bytes() for path in (project / "reports").iterdir()}
    (project / "results/linear/loo/metrics.json").unlink()
    with pytest.raises(InputError, match=r"linear/loo/metrics\.json: expected a result of the train stage"):
        report(project, ["linear", "standard"])
    assert before == {path: path.read_bytes() for path in (project / "reports").iterdir()}


def test_tables_line_up_as_text() -> None:
    lines = markdown_table([["a", "1"], ["bbb", "22"]], ["name", "n"]).splitlines()
    assert lines == ["| name | n  |", "|------|----|", "| a    | 1  |", "| bbb  | 22 |"]
    assert np.unique([len(line) for line in lines]).size == 1


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("best.yaml", "alpha: 1\n", r"best\.yaml: expected the key 'settings'"),
        ("mlflow.json", "[]", r"mlflow\.json: expected a JSON object with 'run_id'"),
        ("mlflow.json", "{", r"mlflow\.json: expected readable JSON"),
        ("loo/metrics.json", '{"mae_ms": NaN}', r"metrics\.json: .*'mae_ms' \(float\), got nan"),
        ("loo/metrics.json", '{"mae_ms": "x"}', r"metrics\.json: .*got 'x'"),
        ("loo/predictions.csv", "", r"predictions\.csv: expected a table of predictions"),
        ("loo/predictions.csv", "fold\n1\n", r"predictions\.csv:1: expected a column 'accelerator'"),
    ],
)
def test_damaged_results_are_named(project: Path, name: str, text: str, message: str) -> None:
    (project / "results/linear" / name).write_text(text)
    with pytest.raises(InputError, match=message):
        report(project, ["linear", "standard"])


def test_predictions_must_cover_the_features(project: Path) -> None:
    path = project / "results/linear/loo/predictions.csv"
    lines = path.read_text().splitlines()
    path.write_text("\n".join(lines[:-1]) + "\n")
    with pytest.raises(InputError, match="a prediction for each of the 24 rows of the features, got 23"):
        report(project, ["linear"])
    path.write_text("\n".join(lines).replace(lines[3].split(",")[6], "much") + "\n")
    with pytest.raises(
        InputError, match=r"predictions\.csv:4: expected predicted_ms as a number, got 'much'"
    ):
        report(project, ["linear"])


def test_a_perfect_baseline_leaves_no_improvement(project: Path) -> None:
    path = project / "results/standard/loo/metrics.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"mae_ms": 0.0}))
    assert "–" in report(project, ["linear", "standard"])
