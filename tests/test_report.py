import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from accelperf.analytic import latency_terms
from accelperf.errors import InputError
from accelperf.evaluation.cross_validation import evaluate
from accelperf.features import FeatureMatrix, read_features, write_features
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


def test_errors_by_network_accelerator_and_binding_term(project: Path) -> None:
    report(project, ["linear", "standard"])
    table = pd.read_csv(project / "reports/breakdown.csv")
    assert set(table["by"]) == {"network", "accelerator", "binding"}
    for _, part in table.groupby(["estimator", "scheme", "by"]):
        assert part["rows"].sum() == 24
    predictions = pd.read_csv(project / "results/linear/loo/predictions.csv")
    error = (predictions["predicted_ms"] / predictions["latency_ms"] - 1).abs()
    for network, expected in error.groupby(predictions["network"]).mean().items():
        row = table.query(f"estimator == 'linear' and scheme == 'loo' and group == '{network}'")
        assert float(row["mape"].iloc[0]) == pytest.approx(expected, rel=1e-9)
    features = read_features(project / "features.csv")
    terms = latency_terms(features.latency_inputs(), "tiled")
    compute = terms.compute >= np.maximum.reduce([terms.weights, terms.data, terms.store])
    bound = table.query("estimator == 'linear' and scheme == 'loo' and group == 'compute'")
    assert int(bound["rows"].iloc[0]) == int(compute.sum())


def test_network_totals(project: Path) -> None:
    report(project, ["linear", "standard"])
    totals = pd.read_csv(project / "reports/network_totals.csv")
    predictions = pd.read_csv(project / "results/standard/loo/predictions.csv")
    sums = predictions.groupby(["accelerator", "network"])[["latency_ms", "predicted_ms"]].sum()
    found = totals.query("estimator == 'standard' and scheme == 'loo'").set_index(["accelerator", "network"])
    np.testing.assert_allclose(
        found["relative_error"], sums["predicted_ms"] / sums["latency_ms"] - 1, rtol=1e-9
    )
    assert (project / "reports/network_totals.png").stat().st_size > 5000


def test_pairs(project: Path) -> None:
    report(project, ["linear", "standard"])
    paired = pd.read_csv(project / "reports/paired.csv")
    assert list(paired["scheme"]) == SCHEMES
    for row in paired.to_dict("records"):
        error = {}
        for key in ("linear", "standard"):
            table = pd.read_csv(project / f"results/{key}/{row['scheme']}/predictions.csv")
            error[key] = float((table["predicted_ms"] / table["latency_ms"] - 1).abs().mean())
        assert row["first"] == min(error, key=error.__getitem__)
        difference = error[row["first"]] - error[row["second"]]
        assert row["mape_difference"] == pytest.approx(difference, rel=1e-9)
        assert row["lower"] <= row["mape_difference"] <= row["upper"]


def test_without_intervals_the_page_has_no_such_section(project: Path) -> None:
    report(project, ["linear", "standard"])
    assert "Do the intervals hold?" not in (project / "reports/report.md").read_text()
    assert pd.read_csv(project / "reports/reliability.csv").empty
    path = project / "results/linear/loo/predictions.csv"
    table = pd.read_csv(path)
    table["lower_ms"], table["upper_ms"] = 0.5 * table["latency_ms"], 1.5 * table["latency_ms"]
    table.to_csv(path, index=False)
    report(project, ["linear", "standard"])
    reliability = pd.read_csv(project / "reports/reliability.csv")
    assert set(reliability["estimator"] + reliability["scheme"]) == {"linearloo"}
    assert reliability["coverage"].iloc[-1] == 1.0
    assert reliability["mean_relative_width"].iloc[-1] == pytest.approx(1.0, rel=1e-9)
    assert "| loo    | linear " in (project / "reports/report.md").read_text()


def test_calibration_is_reported_where_there_is_one(project: Path) -> None:
    folder = project / "results/linear"
    rates = {
        "accelerator": ["fast", "fast"],
        "quantity": ["input", "weights"],
        "unit": ["GB/s", "GB/s"],
        "value": [15.9, 16.0],
        "lower": [15.5, 1.0],
        "upper": [16.3, 256.0],
        "share_of_datasheet": [0.99, 1.0],
        "identified": [True, False],
    }
    pd.DataFrame(rates).to_csv(folder / "rates.csv", index=False)
    features = read_features(project / "features.csv").table
    layers = features[["accelerator", "network", "layer"]].assign(binding="input")
    layers.to_csv(folder / "layers.csv", index=False)
    report(project, ["linear", "standard"])
    page = (project / "reports/report.md").read_text()
    assert "15.5 to 16.3" in page
    assert "no, leans on its prior" in page
    table = pd.read_csv(project / "reports/breakdown.csv")
    assert set(table[table["by"] == "binding"]["group"]) == {"input"}
    layers.iloc[:-1].to_csv(folder / "layers.csv", index=False)
    with pytest.raises(InputError, match=r"layers\.csv: expected a row for each of the 24 rows"):
        report(project, ["linear", "standard"])
    (folder / "rates.csv").write_text("accelerator\nfast\n")
    with pytest.raises(InputError, match=r"expected a (column 'quantity'|row for each)"):
        report(project, ["linear", "standard"])


def test_leaks_are_counted(project: Path) -> None:
    report(project, ["linear", "standard"])
    page = (project / "reports/report.md").read_text()
    features = read_features(project / "features.csv")
    names = pd.Series(features.shapes) + features.table["accelerator"].to_numpy()
    count = int(names.duplicated(keep=False).sum())
    assert (f"* loo: {count} of 24 rows have a twin" in page) == (count > 0)
