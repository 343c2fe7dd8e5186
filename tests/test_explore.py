"""An exploration from the command to its table: constraints, marks, formats, errors, what is loaded."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from accelperf.bundle import save_bundle
from accelperf.cli import app, main
from accelperf.errors import InputError
from accelperf.explore import Constraints, Exploration, Request, run
from accelperf.explore.fronts import front_numbers
from accelperf.explore.picture import draw, write_picture
from accelperf.explore.progress import DesignProgress
from accelperf.explore.resources import buffer_bits, dsp_slices
from accelperf.explore.text import aligned, designs_text, measurements_text, notes
from accelperf.features import FeatureMatrix
from accelperf.models.catalog import create
from accelperf.networks import read_network
from accelperf.platforms import read_platform
from accelperf.predict import predict_network
from tests.conftest import ROOT
from tests.test_cli import HEAVY, loaded_modules
from tests.tolerances import CLOSED_FORM, EXACT_ALGEBRA

Maker = Callable[..., FeatureMatrix]

PLATFORM = """\
name: board
filter_parallelism: 16
channel_parallelism: 32
unrolled_loop: channels
logic_clock_mhz: 100.0
memory_clock_mhz: 200.0
transfer_width_bits: 64
data_width_bits: 8
memory_ports: 4
memory_efficiency: 0.5
"""
AXES = ("filter_parallelism=16,32,64", "logic_clock_mhz=100,200")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, features_of: Maker) -> Path:
    """Return a folder with a platform, two small networks and trained estimators on SIMULATED data."""
    root = tmp_path_factory.mktemp("project")
    (root / "data/platforms").mkdir(parents=True)
    (root / "data/platforms/board.yaml").write_text(PLATFORM)
    (root / "data/networks").mkdir()
    for name, start, stop in (("early", 0, 12), ("late", 30, 40)):
        table = pd.read_csv(ROOT / "data/networks/resnet50.csv").iloc[start:stop]
        table.to_csv(root / f"data/networks/{name}.csv", index=False)
    features = features_of(40, noise=0.02)
    for key in ("gp_calibrated", "linear", "standard"):
        save_bundle(
            create(key, {}).fit(features),
            root / "models" / key,
            estimator=key,
            settings={},
            features=features,
            features_md5="0" * 32,
            metrics={},
        )
    return root


def explored(project: Path, *axes: str, **options: Any) -> Exploration:
    return run(
        Request(
            **{
                "networks": ["early"],
                "platform": "board",
                "vary": axes or AXES,
                "model": str(project / "models/gp_calibrated"),
                "platforms_folder": project / "data/platforms",
                "networks_folder": project / "data/networks",
                **options,
            }
        )
    )


def invoke(project: Path, monkeypatch: pytest.MonkeyPatch, *words: str) -> tuple[str, str]:
    """Return stdout and stderr of the command, which must succeed."""
    monkeypatch.chdir(project)
    result = CliRunner().invoke(app, ["explore", *words])
    assert result.exit_code == 0, result.output
    return result.stdout, result.stderr


def test_designs_are_predicted_as_predict_does(project: Path) -> None:
    for model in ("gp_calibrated", "linear", "standard"):
        found = explored(project, model=str(project / f"models/{model}"))
        network = read_network(project / "data/networks/early.csv")
        for platform in found.designs.platforms:
            row = found.table[found.table["design"] == platform.name].iloc[0]
            expected = predict_network("early", network, platform, found.model)
            assert row["latency_ms"] == pytest.approx(expected.total.median_ms, rel=CLOSED_FORM)
            if expected.total.std_ms is None:
                assert np.isnan(row["std_ms"])
            else:
                assert row["std_ms"] == pytest.approx(expected.total.std_ms, rel=CLOSED_FORM)
                assert row["lower_ms"] == pytest.approx(expected.total.lower_ms, rel=CLOSED_FORM)


def test_the_table_is_ranked_by_front_then_latency(project: Path) -> None:
    found = explored(project, *AXES, "channel_parallelism=16,32,48")
    table = found.table
    assert len(table) == len(found.designs) == 18
    by_name = {platform.name: number for number, platform in enumerate(found.designs.platforms)}
    order = [by_name[name] for name in table["design"]]
    assert table["dsp"].tolist() == dsp_slices(found.designs)[order].tolist()
    assert table["bram_bits"].tolist() == buffer_bits(found.designs, found.workload.layers)[order].tolist()
    fronts = front_numbers(table["latency_ms"].to_numpy(), table["dsp"].to_numpy(dtype=float))
    assert table["front"].tolist() == fronts.tolist()
    assert table["rank"].tolist() == list(range(1, 19))
    assert table["latency_ms"].iloc[0] == table["latency_ms"].min()
    pairs = list(zip(table["front"], table["latency_ms"], strict=True))
    assert pairs == sorted(pairs)


def test_the_front_can_be_of_buffers(project: Path) -> None:
    table = explored(project, *AXES, resource="bram_bits").table
    fronts = front_numbers(table["latency_ms"].to_numpy(), table["bram_bits"].to_numpy(dtype=float))
    assert table["front"].tolist() == fronts.tolist()


def test_several_networks_add_up(project: Path) -> None:
    both = explored(project, networks=["early", "late"]).table.set_index("design")
    assert both["latency_ms"].to_numpy() == pytest.approx(
        (both["early_ms"] + both["late_ms"]).to_numpy(), rel=EXACT_ALGEBRA
    )
    for name in ("early", "late"):
        alone = explored(project, networks=[name]).table.set_index("design")
        expected = alone["latency_ms"].reindex(both.index).to_numpy()
        np.testing.assert_allclose(both[f"{name}_ms"], expected, rtol=EXACT_ALGEBRA)


def test_designs_that_miss_a_constraint_are_counted_by_reason(project: Path) -> None:
    everything = explored(project).table
    bound = float(everything["latency_ms"].median())
    found = explored(project, constraints=Constraints(max_dsp=1024, max_latency_ms=bound))
    expected = everything[(everything["dsp"] <= 1024) & (everything["latency_ms"] <= bound)]
    assert set(found.table["design"]) == set(expected["design"])
    slow = ((everything["dsp"] <= 1024) & (everything["latency_ms"] > bound)).sum()
    assert found.left_out == {"above 1024 DSP slices": 2, f"slower than {bound:g} ms": slow}
    assert found.table["probability"].min() >= 0.5
    bits = int(everything["bram_bits"].min())
    few = explored(project, constraints=Constraints(max_bram_bits=bits))
    assert set(few.table["bram_bits"]) == {bits}


def test_a_probability_can_be_asked_for(project: Path) -> None:
    table = explored(project).table
    bound = float(table["upper_ms"].iloc[0])
    found = explored(project, constraints=Constraints(max_latency_ms=bound, min_probability=0.97))
    row = found.table[found.table["design"] == table["design"].iloc[0]].iloc[0]
    assert row["probability"] == pytest.approx(0.975, abs=CLOSED_FORM)
    with pytest.raises(InputError, match=r"none of 6: .* with a probability below 0.98"):
        explored(project, constraints=Constraints(max_latency_ms=bound, min_probability=0.98))


def test_designs_outside_of_the_training_range_are_marked(project: Path) -> None:
    axes = ("filter_parallelism=16,128", "memory_ports=4,8", "unrolled_loop=channels,pixels")
    table = explored(project, *axes).table.set_index("design")
    assert table.loc["board+PF16+ports4+channels", "outside"] == ""
    assert table.loc["board+PF128+ports8+channels", "outside"] == "filter_parallelism memory_ports"
    assert table.loc["board+PF16+ports4+pixels", "outside"] == "unrolled_loop"
    inside = explored(project, *axes, constraints=Constraints(inside=True))
    assert inside.table["design"].tolist() == ["board+PF16+ports4+channels"]
    assert inside.left_out == {"outside of the training data's range": 7}
    # Nothing was learned by the equations.
    untrained = explored(project, *axes, model=str(project / "models/standard"))
    assert set(untrained.table["outside"]) == {""}


def test_layers_outside_of_the_training_range_are_named(project: Path) -> None:
    assert "input_height" in explored(project).outside_layers
    assert "layers outside of the training data's range in" in "\n".join(notes(explored(project)))


def test_latencies_not_above_zero_are_left_out(project: Path) -> None:
    found = explored(
        project, "logic_clock_mhz=100:3000:500", model=str(project / "models/linear"), networks=["late"]
    )
    assert found.left_out["with a predicted latency not above 0 ms"] > 0
    assert found.table["latency_ms"].min() > 0


def test_impossible_constraints_are_refused(project: Path) -> None:
    for constraints, message in (
        ({"max_dsp": 0}, "max_dsp above 0, got 0"),
        ({"max_latency_ms": float("nan")}, "max_latency_ms above 0, got nan"),
        ({"min_probability": 0.9}, "max_latency_ms with min_probability"),
        ({"max_latency_ms": 1.0, "min_probability": 1.0}, "between 0 and 1, got 1"),
    ):
        with pytest.raises(InputError, match=message):
            Constraints(**constraints)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="none of 6: 6 above 3 DSP slices"):
        explored(project, constraints=Constraints(max_dsp=3))


def test_more_than_an_estimator_knows_is_refused(project: Path) -> None:
    linear = str(project / "models/linear")
    with pytest.raises(InputError, match="uncertainty for min_probability, got linear"):
        explored(project, model=linear, constraints=Constraints(max_latency_ms=100.0, min_probability=0.9))
    with pytest.raises(InputError, match="a Gaussian process, to say what to measure next, got linear"):
        explored(project, model=linear, next_count=1)
    table = explored(project, model=linear, constraints=Constraints(max_latency_ms=1000.0)).table
    assert table["probability"].isna().all()


def test_the_next_measurements_are_a_benchmark(project: Path, tmp_path: Path) -> None:
    found = explored(project, networks=["early", "late"], next_count=5)
    picks = found.measurements
    assert picks is not None and len(picks) == 5
    assert not picks.duplicated(["accelerator", "network", "layer"]).any()
    assert set(picks["accelerator"]) <= set(found.table["design"])
    assert np.all(picks["std_left_ms"] <= picks["std_ms"] * (1 + CLOSED_FORM))
    # Each row is a network table and a platform, and both are read back.
    for _, pick in picks.iterrows():
        names = ["layer", "operator", *read_network(project / "data/networks/early.csv").columns[2:]]
        pick[names].to_frame().T.to_csv(tmp_path / "one.csv", index=False)
        network = read_network(tmp_path / "one.csv")
        platform = next(each for each in found.designs.platforms if each.name == pick["accelerator"])
        assert platform.filter_parallelism == pick["filter_parallelism"]
        assert network["layer"].tolist() == [pick["layer"]]
    first = picks.iloc[0]
    assert first["times"] >= 1 and first["predicted_ms"] > 0
    assert "SIMULATED" in measurements_text(found)


def test_text_says_what_a_reader_must_know(project: Path) -> None:
    found = explored(project, *AXES, "memory_efficiency=0.5,2", constraints=Constraints(max_latency_ms=50))
    lines = designs_text(found, 2).splitlines()
    assert lines[0] == (
        f"early on the best 2 of {len(found.table)} designs of board, "
        "estimator gp_calibrated (trained on SIMULATED data)"
    )
    assert lines[1].split("  ")[0] == "rank"
    assert "P(≤ 50 ms)" in lines[1] and "95 % interval" in lines[1]
    assert len(lines) == 4
    assert notes(found)[:2] == [
        "12 combinations, 6 no valid platform:",
        "  6 with memory_efficiency: a number between 1e-06 and 1",
    ]
    assert aligned([["a", "ms"], ["bb", "1"]]) == "a   ms\nbb   1\n"


def test_csv_and_json_hold_the_same(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["early", "late", "--platform", "board", "--model", "gp_calibrated", "--max-latency-ms", "90"]
    words += [word for axis in AXES for word in ("--vary", axis)]
    text, _ = invoke(project, monkeypatch, *words, "--csv", "--top", "0")
    table = pd.read_csv(io.StringIO(text), keep_default_na=False)
    assert set(table["trained_on"]) == {"SIMULATED"}
    assert {"probability", "early_ms", "late_ms", "outside", "filter_parallelism"} <= set(table.columns)
    text, _ = invoke(project, monkeypatch, *words, "--json", "--top", "0", "--next", "2")
    content = json.loads(text)
    assert content["simulated"] is True
    assert content["axes"] == {"filter_parallelism": [16, 32, 64], "logic_clock_mhz": [100.0, 200.0]}
    assert [row["design"] for row in content["designs"]] == table["design"].tolist()
    np.testing.assert_allclose(
        [row["latency_ms"] for row in content["designs"]], table["latency_ms"], rtol=EXACT_ALGEBRA
    )
    assert len(content["measurements"]) == 2
    text, _ = invoke(project, monkeypatch, *words, "--csv", "--next", "2")
    picks = pd.read_csv(io.StringIO(text))
    assert picks["layer"].tolist() == [row["layer"] for row in content["measurements"]]


def test_without_a_model_the_best_one_is_taken_and_named(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, errors = invoke(project, monkeypatch, "early", "--platform", "board")
    assert "estimator gp_calibrated (trained on SIMULATED data)" in text.splitlines()[0]
    assert errors.splitlines()[0].startswith("estimator: models/gp_calibrated, ")


def test_the_picture_is_written_last_and_is_the_same_each_time(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "pictures/front.png"
    words = ["early", "--platform", "board", "--model", "gp_calibrated", "--vary", AXES[0]]
    invoke(project, monkeypatch, *words, "--picture", str(path))
    first = path.read_bytes()
    assert first.startswith(b"\x89PNG")
    found = explored(project, AXES[0])
    assert draw(found) == draw(found)
    with pytest.raises(InputError, match="a file that can be written"):
        write_picture(found, path / "below.png")
    assert path.read_bytes() == first
    # One design, without uncertainty, with bounds: nothing to connect and no bars.
    sure = explored(
        project,
        "filter_parallelism=16",
        model=str(project / "models/linear"),
        constraints=Constraints(max_dsp=2000, max_latency_ms=500.0),
    )
    assert draw(sure).startswith(b"\x89PNG")


def test_paths_stand_for_names(project: Path, tmp_path: Path) -> None:
    platform = tmp_path / "other.yaml"
    platform.write_text(PLATFORM.replace("name: board", "name: other"))
    found = explored(
        project, "filter_parallelism=16", platform=str(platform),
        networks=[str(project / "data/networks/late.csv")],
    )  # fmt: skip
    assert found.designs.base == read_platform(platform)
    assert found.workload.networks == ("late",)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nothing", "--platform", "board"], "a network, one of early, late, got 'nothing'"),
        (["early", "early", "--platform", "board"], "each network once, got 'early' twice"),
        (["early", "--platform", "bored"], "a platform, one of board, got 'bored'"),
        (["early", "--platform", "board", "--vary", "clock=1"], "got 'clock'"),
        (["early", "--platform", "board", "--csv", "--json"], "one of --csv and --json, got both"),
        (["early", "--platform", "board", "--resource", "lut"], "one of bram_bits, dsp, got 'lut'"),
        (["early", "--platform", "board", "--dsp-use", "two"], "int8-dot3, int8-pair, one, got 'two'"),
        (["early", "--platform", "board", "--max-dsp", "1"], "none of 1: 1 above 1 DSP slices"),
    ],
)
def test_bad_input_is_one_line_and_status_2(
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(project)
    monkeypatch.setattr(sys, "argv", ["accelperf", "explore", *words])
    with pytest.raises(SystemExit) as exit_info:
        main()
    assert exit_info.value.code == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    lines = captured.err.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("error: ") and message in lines[0]


def test_help_has_an_example() -> None:
    result = CliRunner().invoke(app, ["explore", "--help"])
    assert result.exit_code == 0
    assert "Example" in result.output


def test_nothing_that_trains_is_loaded(project: Path) -> None:
    code = """
from typer.testing import CliRunner
from accelperf.cli import app
words = ["explore", "early", "--platform", "board", "--vary", "filter_parallelism=16,32", "--next", "2"]
assert CliRunner().invoke(app, words).exit_code == 0
"""
    assert not loaded_modules(code, project) & {*HEAVY, "matplotlib"}


def test_progress_is_shown_after_two_seconds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [0.0]
    monkeypatch.setattr("accelperf.explore.progress.time.monotonic", lambda: now[0])
    with DesignProgress("net") as progress:
        progress(1, 100)
        now[0] = 2.5
        progress(40, 100)
        progress(41, 100)
        now[0] = 30.0
        progress(80, 100)
        progress(100, 100)
    assert capsys.readouterr().err.splitlines() == ["net: 40 of 100 designs", "net: 80 of 100 designs"]
