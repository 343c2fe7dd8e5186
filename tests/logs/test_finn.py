"""FINN reports: estimates by hardware layer, compared with what is said about the whole network."""

from __future__ import annotations

import doctest
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from accelperf.errors import InputError
from accelperf.logs import finn, read_folder, read_profiles
from tests.logs.samples import GOLDEN, PLATFORMS, SMALL

RTOL_UNITS = 1e-14
"""One division between units."""

CYCLES_PER_MS = SMALL.logic_clock_mhz * 1e3


@pytest.fixture
def copy(tmp_path):
    """Return a function that copies a golden folder, to break."""

    def copied(name: str) -> Path:
        return Path(shutil.copytree(GOLDEN / "finn" / name, tmp_path / name))

    return copied


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1
    path.write_text(text.replace(old, new), encoding="utf-8")


def test_matrix_units_are_the_layers_that_run_yaml_says(copy):
    found = read_folder(copy("build"), PLATFORMS)
    assert found.layers["layer"].tolist() == ["conv0", "conv1", "dw2"]
    assert found.layers["position"].tolist() == [0, 2, 3]
    expected = np.array([16384, 40960, 8192]) / CYCLES_PER_MS
    np.testing.assert_allclose(found.layers["latency_ms"], expected, rtol=RTOL_UNITS)
    assert found.layers["origin"].unique().tolist() == ["estimated"]
    assert found.layers["groups"].tolist() == [1, 1, 32]
    assert found.layers["source_line"].tolist() == [4, 7, 9]


def test_other_hardware_layers_are_counted(copy):
    found = read_folder(copy("build"), PLATFORMS)
    reports = {Path(each.file).name: each for each in found.reports}
    estimates = reports["estimate_layer_cycles.json"]
    assert (estimates.rows_read, estimates.rows_kept) == (10, 3)
    assert estimates.skipped == {
        "operator thresholding": 1,
        "operator convolutioninputgenerator": 2,
        "operator streamingmaxpool": 1,
        "operator fmpadding": 1,
        "operator fc": 1,
        "operator labelselect": 1,
    }
    for whole in ("estimate_network_performance.json", "rtlsim_performance.json"):
        assert reports[whole].skipped == {"whole network": 1}
    assert reports["network.csv"].format == "network description"


def test_a_pipeline_is_as_slow_as_its_slowest_layer_not_as_their_sum(copy):
    found = read_folder(copy("build"), PLATFORMS)
    totals = {Path(each.file).name: each for each in found.totals}
    stated = totals["estimate_network_performance.json"]
    assert (stated.stated_ms, stated.listed_ms, stated.line) == (
        40960 / CYCLES_PER_MS,
        40960 / CYCLES_PER_MS,
        3,
    )
    simulated = totals["rtlsim_performance.json"]
    np.testing.assert_allclose(simulated.stated_ms, 1e3 / 4854.369, rtol=1e-12)
    assert (simulated.listed_ms, simulated.kind) == (40960 / CYCLES_PER_MS, "end_to_end")
    assert "total_mismatch" not in found.by_code()


def test_a_slowest_layer_that_is_not_the_stated_one(copy):
    folder = copy("build")
    edit(folder / "estimate_network_performance.json", '"max_cycles": 40960', '"max_cycles": 30000')
    edit(folder / "rtlsim_performance.json", "4854.369", "7000.0")
    messages = [each.message for each in read_folder(folder, PLATFORMS).by_code()["total_mismatch"]]
    assert messages[0].startswith("max_cycles, of the slowest layer, states 0.15 ms")
    assert messages[1].startswith("stable_throughput[images/s], of the slowest layer, states 0.142857 ms")


def test_the_simulation_of_a_design_has_no_layers(copy):
    with pytest.raises(InputError, match="expected at least one convolution, got none among 1 rows"):
        read_profiles(copy("rtlsim_alone"), PLATFORMS)
    found = read_folder(copy("build"), PLATFORMS)
    (whole,) = found.by_code()["whole_graph"]
    assert whole.message == "444000 cycles of the whole network, none of a layer"
    assert (Path(whole.file).name, whole.line) == ("rtlsim_performance.json", 2)


def test_a_simulation_that_did_not_finish_says_so_and_is_not_compared(copy):
    folder = copy("build")
    edit(folder / "rtlsim_performance.json", '"TIMEOUT": 0', '"TIMEOUT": 1')
    found = read_folder(folder, PLATFORMS)
    assert found.by_code()["whole_graph"][0].message.endswith("the simulation did not finish (TIMEOUT)")
    assert len(found.totals) == 1


def test_older_releases_name_their_layers_otherwise(copy):
    table, _ = read_profiles(copy("old"), PLATFORMS)
    assert table["layer"].tolist() == ["StreamingFCLayer_Batch_0", "StreamingFCLayer_Batch_1"]
    expected = np.array([16384, 40960]) / CYCLES_PER_MS
    np.testing.assert_allclose(table["latency_ms"], expected, rtol=RTOL_UNITS)


@pytest.mark.parametrize("origin", ["measured", "simulated"])
def test_an_estimate_is_called_an_estimate(copy, origin):
    folder = copy("build")
    edit(folder / "run.yaml", "origin: estimated", f"origin: {origin}")
    with pytest.raises(
        InputError, match=rf"run\.yaml:2: expected origin: estimated, since FINN .*, got '{origin}'"
    ):
        read_profiles(folder, PLATFORMS)


def test_a_simulation_is_called_simulated(copy):
    folder = copy("rtlsim_alone")
    edit(folder / "run.yaml", "origin: simulated", "origin: measured")
    with pytest.raises(
        InputError, match=r"run\.yaml:2: expected origin: simulated, since this is a simulation"
    ):
        read_profiles(folder, PLATFORMS)


def test_a_matrix_unit_that_nothing_describes_is_reported_on_both_sides(copy):
    folder = copy("build")
    edit(folder / "run.yaml", "  MVAU_rtl_0: conv1\n", "")
    found = read_folder(folder, PLATFORMS)
    assert found.layers["layer"].tolist() == ["conv0", "dw2"]
    by_code = found.by_code()
    assert [each.layer for each in by_code["layer_not_described"]] == ["MVAU_rtl_0"]
    assert [each.layer for each in by_code["layer_not_measured"]] == ["conv1"]


def test_two_builds_in_one_folder(copy):
    folder = copy("build")
    shutil.copy(folder / "estimate_layer_cycles.json", folder / "second.json")
    with pytest.raises(
        InputError, match=r"the estimates of one build .*estimate_layer_cycles\.json, second\.json"
    ):
        read_profiles(folder, PLATFORMS)


def test_negative_cycles_are_rejected_by_row(copy):
    folder = copy("build")
    edit(folder / "estimate_layer_cycles.json", "16384", "-16384")
    found = read_folder(folder, PLATFORMS)
    assert found.layers["layer"].tolist() == ["conv1", "dw2"]
    assert [(each.code, each.line, each.layer) for each in found.by_code()["not_positive"]] == [
        ("not_positive", 4, "MVAU_hls_0")
    ]


BROKEN = {
    "a name twice": ('"MVAU_hls_1"', '"MVAU_hls_0"', r':10: expected keys that differ, got "MVAU_hls_0"'),
    "NaN": ("40960", "NaN", r":7: expected a finite number, got NaN"),
    "huge": ("40960", "9" * 40, r":7: expected a number of 18 digits or fewer"),
    "cut": ("\n}", "", r": expected JSON, got expecting ',' delimiter at the end"),
    "text": ("40960", '"many"', r": expected MVAU_rtl_0: a whole number of cycles, got many"),
    "half a cycle": ("40960", "40960.5", r": expected MVAU_rtl_0: a whole number of cycles, got 40960\.5"),
    "no name": ('"MVAU_rtl_0"', '" "', r":7: expected a name of the hardware layer, got nothing"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_estimates(copy, name):
    old, new, message = BROKEN[name]
    folder = copy("build")
    edit(folder / "estimate_layer_cycles.json", old, new)
    for other in ("estimate_network_performance.json", "rtlsim_performance.json"):
        (folder / other).unlink()
    with (folder / "run.yaml").open("a") as stream:
        stream.write("format: finn\n")
    with pytest.raises(InputError, match=rf"estimate_layer_cycles\.json(:11)?{message}"):
        read_profiles(folder, PLATFORMS)


@pytest.mark.parametrize(
    ("report", "old", "new", "message"),
    [
        (
            "estimate_network_performance",
            ": 40960",
            ": null",
            r":3: expected max_cycles: a whole number, got None",
        ),
        ("rtlsim_performance", "444000", "0", r":2: expected cycles: a number above 0, got 0"),
        (
            "rtlsim_performance",
            "4854.369",
            "-1",
            r":8: expected stable_throughput\[images/s\]: a number above 0",
        ),
    ],
)
def test_broken_reports_on_the_network(copy, report, old, new, message):
    folder = copy("build")
    edit(folder / f"{report}.json", old, new)
    with pytest.raises(InputError, match=rf"{report}\.json{message}"):
        read_profiles(folder, PLATFORMS)


NOT_RECOGNISED = {
    "seconds of steps": {"step_qonnx_to_finn": 3.5, "step_create_dataflow_partition": 1.0},
    "resources": {"MVAU_hls_0": {"LUT": 100}, "total": {"LUT": 100}},
    "any counts": {"apples": 3, "pears": 4},
    "truths": {"MVAU_hls_0": True},
    "a list": [{"MVAU_hls_0": 1}],
    "empty": {},
}


@pytest.mark.parametrize("name", NOT_RECOGNISED)
def test_other_json_is_not_recognised(tmp_path, name):
    path = tmp_path / "x.json"
    path.write_text(json.dumps(NOT_RECOGNISED[name]))
    assert finn.recognises(path) is not None


def test_recognition_is_cheap_on_other_files(tmp_path):
    path = tmp_path / "x.json"
    path.write_text("layer,latency_ms\n" + "a,1\n" * 10)
    assert finn.recognises(path) == "no JSON object"
    with path.open("wb") as stream:
        stream.write(b'{"a": 1, ')
        stream.truncate(17_000_000)
    assert finn.recognises(path) == "more than 16000000 bytes"


def test_the_examples_are_true():
    assert doctest.testmod(finn).failed == 0
