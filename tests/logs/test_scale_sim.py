"""SCALE-Sim: the right column, the topology's order, and what a simulator rounds up."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from accelperf.errors import InputError
from accelperf.logs import read_folder, read_profile, read_profiles, scale_sim
from tests.logs.samples import GOLDEN, PLATFORMS, SMALL

RTOL_UNITS = 1e-14
"""One division between units."""

CYCLES_PER_MS = SMALL.logic_clock_mhz * 1e3


@pytest.fixture
def copy(tmp_path):
    """Return a function that copies a golden folder, to break."""

    def copied(name: str) -> Path:
        return Path(shutil.copytree(GOLDEN / "scale_sim" / name, tmp_path / name))

    return copied


def edit(path: Path, old: str, new: str, *, count: int = 1) -> None:
    data = path.read_bytes()
    assert data.count(old.encode()) == count
    path.write_bytes(data.replace(old.encode(), new.encode()))


def test_version_2_joins_the_topology_in_order(copy):
    table, reports = read_profiles(copy("v2"), PLATFORMS)
    assert table["layer"].tolist() == ["stem", "body", "wide", "head"]
    assert table["network"].unique().tolist() == ["tinynet"]
    expected = np.array([52000, 96400, 20800, 640]) / CYCLES_PER_MS
    np.testing.assert_allclose(table["latency_ms"], expected, rtol=RTOL_UNITS)
    assert table["position"].tolist() == [0, 1, 2, 3]
    assert table["origin"].unique().tolist() == ["simulated"]
    assert table["source_line"].tolist() == [2, 3, 4, 5]
    accounts = {Path(each.file).name: (each.rows_read, each.rows_kept, each.skipped) for each in reports}
    assert accounts == {
        "BANDWIDTH_REPORT.csv": (4, 0, {"report without latencies": 4}),
        "COMPUTE_REPORT.csv": (4, 4, {}),
        "tinynet.csv": (0, 0, {}),
    }


def test_a_second_stride_and_rounding_up(copy):
    table = read_profiles(copy("v2"), PLATFORMS)[0].set_index("layer")
    stem, wide = table.loc["stem"], table.loc["wide"]
    # 34 - 3 = 31 is no multiple of the stride 2: ceil gives 17 outputs, floor 16 without the padding.
    assert (stem["output_height"], stem["pad_top"], stem["pad_bottom"]) == (17, 0, 1)
    assert (wide["stride_height"], wide["stride_width"]) == (2, 3)
    assert (wide["output_height"], wide["output_width"]) == (9, 7)
    assert (wide["pad_bottom"], wide["pad_right"]) == (1, 1)
    assert (table.loc["body"]["kernel_height"], table.loc["body"]["kernel_width"]) == (3, 1)


def test_version_3_reads_total_cycles_and_not_those_with_prefetch(copy):
    table, reports = read_profiles(copy("v3"), PLATFORMS)
    assert table["layer"].tolist() == ["conv_a", "DP_b", "conv_d"]
    expected = np.array([40000, 1000 + 1001 + 1002 + 1003, 4000]) / CYCLES_PER_MS
    np.testing.assert_allclose(table["latency_ms"], expected, rtol=RTOL_UNITS)
    report = next(each for each in reports if each.file.endswith("COMPUTE_REPORT.csv"))
    skipped = {"depthwise channel added up": 3, "sparsity 2:4": 1}
    assert (report.rows_read, report.rows_kept, report.skipped) == (7, 3, skipped)


def test_a_depthwise_layer_is_one_layer_of_many_groups(copy):
    row = read_profiles(copy("v3"), PLATFORMS)[0].set_index("layer").loc["DP_b"]
    assert (row["groups"], row["input_channels"], row["output_channels"]) == (4, 4, 4)
    assert row["source_line"] == 3


def test_without_a_topology_the_description_gives_the_sizes_in_order(copy):
    table, reports = read_profiles(copy("v3_by_order"), PLATFORMS)
    assert table["layer"].tolist() == ["first", "second"]
    assert table["position"].tolist() == [0, 2]
    np.testing.assert_allclose(table["latency_ms"], [0.04, 0.02], rtol=RTOL_UNITS)
    assert {report.format for report in reports} == {"scale_sim", "network description"}


def test_a_report_alone_finds_its_topology(copy):
    table, _ = read_profile(copy("v3") / "COMPUTE_REPORT.csv", PLATFORMS)
    assert len(table) == 3


def test_run_yaml_names_the_network(copy):
    folder = copy("v2")
    with (folder / "run.yaml").open("a") as stream:
        stream.write("network: chosen\n")
    table, _ = read_profiles(folder, PLATFORMS)
    assert table["network"].unique().tolist() == ["chosen"]


def test_simulated_figures_are_not_called_measured(copy):
    folder = copy("v2")
    edit(folder / "run.yaml", "origin: simulated", "origin: measured")
    with pytest.raises(
        InputError, match=r"run\.yaml:2: expected origin: simulated, since SCALE-Sim is a simulator, got"
    ):
        read_profiles(folder, PLATFORMS)


def test_zero_cycles_and_zero_sizes_are_rejected_by_row(copy):
    folder = copy("v2")
    edit(folder / "COMPUTE_REPORT.csv", "1, 96400,", "1, 0,")
    edit(folder / "tinynet.csv", "wide, 16, 20,", "wide, 16, 0,")
    found = read_folder(folder, PLATFORMS)
    assert found.layers["layer"].tolist() == ["stem", "head"]
    rejected = [(each.code, each.line, each.layer) for each in found.findings]
    assert rejected == [("not_positive", 3, "body"), ("zero_geometry", 4, "wide")]
    assert found.findings[0].message == "latency 0 cycles, expected a finite number above 0"
    assert found.findings[1].message.endswith("tinynet.csv:5")
    report = next(each for each in found.reports if each.file.endswith("COMPUTE_REPORT.csv"))
    assert report.skipped == {"not_positive": 1, "zero_geometry": 1}


def test_matrix_products_are_counted(copy):
    folder = copy("v2")
    (folder / "tinynet.csv").write_text(
        "Layer, M, N, K,\na, 1, 2, 3,\nb, 1, 2, 3,\nc, 1, 2, 3,\nd, 1, 2, 3,\n"
    )
    with pytest.raises(InputError, match="at least one convolution, got none among 8 rows"):
        read_profiles(folder, PLATFORMS)


BROKEN_REPORTS = {
    "a layer missing": (
        "3, 640, 0, 12.5, 40.0, 12.25,\n",
        "",
        r":4: expected 4 rows, for the layers of .*tinynet\.csv, got 3",
    ),
    "two reports glued": ("\n3, 640,", "\n0, 640,", r":5: expected LayerID 3, got '0'"),
    "text for a number": ("96400", "many", r":3: expected Total Cycles: a number, got 'many'"),
    "nothing for a number": (" 96400,", " ,", r":3: expected Total Cycles: a number, got nothing"),
    "a field missing": (" 96400,", "", r":3: expected 6 fields as in the header, got 5"),
    "not a number": ("96400", "nan", r":3: expected Total Cycles: a number, got 'nan'"),
    "a column twice": ("Stall Cycles", "Total Cycles", r":1: expected one column Total Cycles, got 2"),
}


@pytest.mark.parametrize("name", BROKEN_REPORTS)
def test_broken_reports(copy, name):
    old, new, message = BROKEN_REPORTS[name]
    folder = copy("v2")
    edit(folder / "COMPUTE_REPORT.csv", old, new)
    with pytest.raises(InputError, match=rf"COMPUTE_REPORT\.csv{message}"):
        read_profiles(folder, PLATFORMS)


BROKEN_TOPOLOGIES = {
    "no name": ("body, ", ", ", r":3: expected a name of the layer, got nothing"),
    "one name twice": ("body, ", "stem, ", r":3: expected layer names that differ, got 'stem' twice"),
    "too few fields": ("18, 20,", "18,", r":3: expected a name, six sizes, a stride, .*, got 7 fields"),
    "text for a size": (
        "18, 20,",
        "18, wide,",
        r":3: expected ifmap width: a whole number up to 1000000, got 'wide'",
    ),
    "a huge size": ("18, 20,", "18, 20000000000,", r":3: expected ifmap width: a whole number .*, got '2"),
    "half a pixel": ("18, 20,", "18, 20.5,", r":3: expected ifmap width: a whole number .*, got '20\.5'"),
    "filter over input": ("18, 20,", "1, 20,", r":3: expected output_height of 1 or more on a convolution"),
}


@pytest.mark.parametrize("name", BROKEN_TOPOLOGIES)
def test_broken_topologies(copy, name):
    old, new, message = BROKEN_TOPOLOGIES[name]
    folder = copy("v2")
    edit(folder / "tinynet.csv", old, new)
    with pytest.raises(InputError, match=rf"tinynet\.csv{message}"):
        read_profiles(folder, PLATFORMS)


def test_one_topology_and_not_none_or_two(copy):
    folder = copy("v2")
    shutil.copy(folder / "tinynet.csv", folder / "other.csv")
    with pytest.raises(
        InputError, match=r"v2: expected one topology in a folder, got other\.csv, tinynet\.csv"
    ):
        read_profiles(folder, PLATFORMS)
    (folder / "other.csv").unlink()
    (folder / "tinynet.csv").unlink()
    with pytest.raises(
        InputError, match=r"the topology of the run beside its report, or the key 'geometry' in"
    ):
        read_profiles(folder, PLATFORMS)


def test_a_topology_without_a_report(copy):
    folder = copy("v2")
    (folder / "COMPUTE_REPORT.csv").unlink()
    (folder / "BANDWIDTH_REPORT.csv").unlink()
    with pytest.raises(
        InputError, match=r"tinynet\.csv: expected a COMPUTE_REPORT\.csv of SCALE-Sim, got none"
    ):
        read_profiles(folder, PLATFORMS)


def test_in_order_both_sides_have_as_many_convolutions(copy):
    folder = copy("v3_by_order")
    edit(folder / "COMPUTE_REPORT.csv", "1, 4100, 4000, 0, 71.5, 92.5, 70.25,\n", "")
    with pytest.raises(InputError, match=r"expected 2 convolutions as in .*network\.csv.*, got 1"):
        read_profiles(folder, PLATFORMS)


def test_in_order_run_yaml_must_name_the_network(copy):
    folder = copy("v3_by_order")
    edit(folder / "run.yaml", "network: ordered\n", "")
    with pytest.raises(InputError, match=r"COMPUTE_REPORT\.csv: expected the key 'network' in .*run\.yaml"):
        read_profiles(folder, PLATFORMS)


def test_recognition_says_why_not(tmp_path):
    path = tmp_path / "log"
    path.write_text("layer,latency_ms\na,1\n")
    assert (
        scale_sim.recognises(path) == "neither the columns LayerID and Total Cycles nor those of a topology"
    )
    path.write_text("LayerID, Total  Cycles ,\n")
    assert scale_sim.recognises(path) is None
    path.write_bytes(b"\xff\xfe")
    assert "UTF-8" in str(scale_sim.recognises(path))


def test_the_public_version_3_report(real_data, tmp_path):
    source = real_data / "scalesim" / "v3_COMPUTE_REPORT.csv"
    for path in sorted(source.parent.glob("*.csv")):
        shutil.copy(path, tmp_path)
    assert all(scale_sim.recognises(path) is None for path in tmp_path.glob("*.csv"))
    # The report's layer is not described beside it: 224 x 224 input, 11 x 11 filters of stride 4, say.
    (tmp_path / "topology.csv").write_text(
        "Layer name, IFMAP Height, IFMAP Width, Filter Height, Filter Width, Channels, Num Filter, Strides,\n"
        "conv1, 224, 224, 11, 11, 3, 96, 4,\n"
    )
    (tmp_path / "run.yaml").write_text("origin: simulated\nplatform: small\n")
    table, _ = read_profiles(tmp_path, {"small": SMALL.model_copy(update={"filter_parallelism": 4096})})
    np.testing.assert_allclose(table["latency_ms"], [112283 / CYCLES_PER_MS], rtol=RTOL_UNITS)


def test_headers_over_the_wrong_columns_are_refused(copy):
    folder = copy("v3")
    edit(
        folder / "COMPUTE_REPORT.csv",
        "Total Cycles (incl. prefetch), Total Cycles,",
        "Total Cycles, Total Cycles (incl. prefetch),",
    )
    with pytest.raises(
        InputError, match=r"REPORT\.csv:2: expected Total Cycles \(incl\. prefetch\) of at least"
    ):
        read_profiles(folder, PLATFORMS)
