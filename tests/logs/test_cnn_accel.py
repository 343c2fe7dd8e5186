"""The cnn_accel pair: joined by name, whole, or refused."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelperf.errors import InputError
from accelperf.logs import cnn_accel, read_folder, read_profile, read_profiles
from tests.logs.samples import GOLDEN, PLATFORMS, REAL_RUN, write_real_platforms

RTOL_EXACT = 1e-15


@pytest.fixture
def pair(tmp_path) -> Path:
    """Return a copy of the golden pair, to break."""
    folder = tmp_path / "logs" / "tiny"
    shutil.copytree(GOLDEN / "cnn_accel" / "tiny", folder)
    return folder


def edit(path: Path, old: str, new: str) -> None:
    data = path.read_bytes()
    assert data.count(old.encode()) == 1
    path.write_bytes(data.replace(old.encode(), new.encode()))


def test_golden_pair(pair):
    table, reports = read_profiles(pair.parent, PLATFORMS)
    assert table["accelerator"].tolist() == ["large"] * 3 + ["small"] * 3
    assert table["layer"].tolist() == ["Conv_0", "Conv_2", "Conv_5"] * 2
    assert table["position"].tolist() == [0, 2, 5] * 2
    expected = [0.19639, 0.142488, 0.004504, 0.39278, 0.284976, 0.009]
    np.testing.assert_allclose(table["latency_ms"], expected, rtol=RTOL_EXACT)
    assert set(table["network"]) == {"tiny"}
    first = table.iloc[0]
    # U and D are up and down: the padding of the height.
    assert (first["pad_top"], first["pad_bottom"], first["pad_left"], first["pad_right"]) == (2, 2, 1, 1)
    assert (first["output_height"], first["output_width"]) == (16, 30)
    assert (first["input_channels"], first["output_channels"]) == (3, 16)
    assert table["source_line"].tolist() == [2, 4, 7] * 2
    skipped = {"operator maxpool": 2, "operator add": 1, "operator fc": 1}
    accounts = [(Path(each.file).name, each.rows_read, each.rows_kept, each.skipped) for each in reports]
    assert accounts == [
        ("layer_info.csv", 0, 0, {}),
        ("layer_latency_m16p4.csv", 7, 3, skipped),
        ("layer_latency_m8p4.csv", 7, 3, skipped),
    ]


def test_one_run_file_above_serves_all_networks(pair):
    shutil.copytree(pair, pair.parent / "twin")
    for folder in (pair, pair.parent / "twin"):
        (folder / "run.yaml").rename(pair.parent / "run.yaml")
    table, _ = read_profiles(pair.parent, PLATFORMS)
    assert sorted(set(table["network"])) == ["tiny", "twin"]
    assert len(table) == 12


def test_the_run_file_beside_the_pair_may_name_the_network(pair):
    edit(pair / "run.yaml", "origin: simulated", "origin: simulated\nnetwork: named")
    table, _ = read_profiles(pair.parent, PLATFORMS)
    assert set(table["network"]) == {"named"}


def test_one_network_name_for_several_folders_is_refused(pair):
    edit(pair / "run.yaml", "origin: simulated", "origin: simulated\nnetwork: named")
    (pair / "run.yaml").rename(pair.parent / "run.yaml")
    with pytest.raises(InputError, match=r"run\.yaml:3: expected the key 'network' only beside"):
        read_profiles(pair.parent, PLATFORMS)


def test_one_latency_file_finds_its_layers(pair):
    table, reports = read_profile(pair / "layer_latency_m8p4.csv", PLATFORMS)
    assert set(table["accelerator"]) == {"small"}
    assert [report.rows_read for report in reports] == [0, 7]


def test_several_runs_of_one_configuration_are_merged(pair):
    path = pair / "layer_latency_m8p4.csv"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines, "Conv_5,9004"]))
    table, _ = read_profile(path, PLATFORMS)
    last = table.iloc[-1]
    assert (last["layer"], last["repeats"]) == ("Conv_5", 2)
    np.testing.assert_allclose([last["latency_ms"]], [0.009002], rtol=RTOL_EXACT)
    np.testing.assert_allclose([last["latency_std_ms"]], [np.sqrt(8) * 1e-6], rtol=1e-9)


LATENCIES = "layer_latency_m8p4.csv"
INFO = "layer_info.csv"

BAD = {
    "latency without layer": (LATENCIES, "Conv_5", "Conv_9", r"m8p4\.csv:7: .*a layer of .*got 'Conv_9'"),
    "layer without latency": (LATENCIES, "\nConv_5,9000", "", r"m8p4\.csv: .*every layer .*none for Conv_5"),
    "no unit": (LATENCIES, "latency_ns", "latency", r"m8p4\.csv:1: .*with its unit.*got 'latency'"),
    "text": (LATENCIES, "284976", "fast", r"m8p4\.csv:4: expected latency_ns: a number above 0, got 'fast'"),
    "surplus column": (LATENCIES, "latency_ns", "latency_ns,note", r"m8p4\.csv:1: expected the columns"),
    "kernel does not fit": (INFO, "Conv_5,Conv,8,24,4", "Conv_5,Conv,8,24,-9", r"o\.csv:7: .*input_height"),
    "text geometry": (INFO, "Conv_2,Conv,24", "Conv_2,Conv,?", r"info\.csv:4: .*OC: a whole .*got '\?'"),
    "name twice": (INFO, "Conv_5", "Conv_2", r"info\.csv:7: .*differ, got 'Conv_2' twice"),
    "no type": (INFO, "Conv_2,Conv", "Conv_2,", r"info\.csv:4: expected layer_type: a name, got nothing"),
    "missing column": (INFO, "strideH", "stride", r"info\.csv:1: expected the columns layer_name, .*strideH"),
    "configuration unknown": ("run.yaml", "m8p4", "m9p4", r"m8p4\.csv: .*under 'platforms'.*got 'm8p4'"),
    "wrong platform": ("run.yaml", "m8p4: small", "m8p4: large",
                       r"run\.yaml:4: expected a platform with filter_parallelism 8 and channel_p"),
    "unknown platform": ("run.yaml", "m8p4: small", "m8p4: zcu102",
                         r"run\.yaml:4: expected a platform, one of large, small, got 'zcu102'"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_with_file_and_line(pair, case):
    name, old, new, message = BAD[case]
    edit(pair / name, old, new)
    with pytest.raises(InputError, match=message) as caught:
        read_profiles(pair.parent, PLATFORMS)
    assert "\n" not in str(caught.value)


REJECTED = {
    "nan": ("nan", "not_positive", "latency nan ns, expected a finite number above 0"),
    "infinite": ("inf", "not_positive", "latency inf ns, expected a finite number above 0"),
    "negative": ("-284976", "not_positive", "latency -284976 ns, expected a finite number above 0"),
    "zero": ("0", "not_positive", "latency 0 ns, expected a finite number above 0"),
    "missing": ("", "not_positive", "latency missing ns, expected a finite number above 0"),
    "rounded": ("0.000", "below_resolution", "latency 0.000 ns, below the resolution of 0.001 ns"),
}


@pytest.mark.parametrize("case", REJECTED)
def test_a_row_without_latency_is_rejected_and_the_rest_stays(pair, case):
    text, code, message = REJECTED[case]
    edit(pair / LATENCIES, "284976", text)
    found = read_folder(pair.parent, PLATFORMS)
    assert found.layers["layer"].tolist() == ["Conv_0", "Conv_2", "Conv_5", "Conv_0", "Conv_5"]
    (finding,) = found.findings
    assert (finding.code, finding.message, finding.line) == (code, message, 4)
    assert finding.file.endswith(LATENCIES)
    assert (finding.accelerator, finding.network, finding.layer) == ("small", "tiny", "Conv_2")
    report = found.reports[-1]
    assert (report.rows_read, report.rows_kept, report.skipped[code]) == (7, 2, 1)


@pytest.mark.parametrize(
    ("old", "new", "size"),
    [
        ("Conv_2,Conv,24", "Conv_2,Conv,0", "output_channels"),
        ("Conv_2,Conv,24,16,8,15,3,3,1", "Conv_2,Conv,24,16,8,15,3,3,0", "stride_height"),
    ],
)
def test_a_convolution_with_a_size_of_0_is_rejected(pair, old, new, size):
    edit(pair / INFO, old, new)
    found = read_folder(pair.parent, PLATFORMS)
    assert found.layers["layer"].tolist() == ["Conv_0", "Conv_5"] * 2
    assert [finding.code for finding in found.findings] == ["zero_geometry"] * 2
    first = found.findings[0]
    assert first.message == f"{size} 0 in {pair / INFO}:4, expected 1 or more"
    assert (first.line, first.layer) == (4, "Conv_2")


def test_half_a_pair_is_refused(pair):
    (pair / INFO).rename(pair.parent / "elsewhere.csv")
    with pytest.raises(InputError, match=r"one file that describes the layers.*got none"):
        read_profile(pair / LATENCIES, PLATFORMS)
    (pair.parent / "elsewhere.csv").rename(pair / INFO)
    for path in pair.glob("layer_latency_*.csv"):
        path.unlink()
    with pytest.raises(InputError, match=r"layer_info\.csv: expected latencies"):
        read_profiles(pair.parent, PLATFORMS)


def test_two_descriptions_are_refused(pair):
    shutil.copy(pair / INFO, pair / "other_info.csv")
    with pytest.raises(InputError, match=r"one file that describes the layers.*layer_info\.csv, other_info"):
        read_profiles(pair.parent, PLATFORMS)


def test_latencies_under_another_file_name_are_refused(pair):
    (pair / LATENCIES).rename(pair / "latencies.csv")
    with pytest.raises(
        InputError, match=r"a file name layer_latency_<configuration>\.csv, got 'latencies\.csv'"
    ):
        read_profiles(pair.parent, PLATFORMS)


def test_one_platform_for_files_of_several_configurations_is_refused(pair):
    (pair / "run.yaml").write_text("origin: measured\nplatform: small\n")
    with pytest.raises(
        InputError, match=r"run\.yaml:2: expected the key 'platforms: .*got the key 'platform'"
    ):
        read_profiles(pair.parent, PLATFORMS)


def test_recognised_by_content(pair):
    assert cnn_accel.recognises(pair / INFO) is None
    assert cnn_accel.recognises(pair / LATENCIES) is None
    assert cnn_accel.recognises(GOLDEN / "native" / "plain.csv") == "no column 'layer_name'"
    edit(pair / INFO, "layer_type", "kind")
    assert cnn_accel.recognises(pair / INFO) == "neither a column 'layer_type' nor a latency column"


@given(data=st.data())
@settings(max_examples=100, deadline=None)
def test_broken_files_end_in_rows_or_in_one_clear_error(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("logs") / "tiny"
    shutil.copytree(GOLDEN / "cnn_accel" / "tiny", folder)
    path = folder / data.draw(st.sampled_from([INFO, LATENCIES]))
    source = path.read_bytes()
    start = data.draw(st.integers(0, len(source)))
    stop = data.draw(st.integers(start, min(len(source), start + 40)))
    inserted = data.draw(
        st.sampled_from([b"", b"\n", b'"', b",", b"-1", b"nan", b"\xff"]) | st.binary(max_size=5)
    )
    path.write_bytes(source[:start] + inserted + source[stop:])
    try:
        table, _ = read_profiles(folder.parent, PLATFORMS)
    except InputError as error:
        assert "\n" not in str(error)
    else:
        assert (table["latency_ms"] > 0).all()
    shutil.rmtree(folder.parent)


def test_public_measurements(real_data, tmp_path):
    from accelperf.platforms import read_platforms

    logs = tmp_path / "logs"
    shutil.copytree(real_data / "cnn_accel", logs)
    logs.chmod(0o755)
    (logs / "run.yaml").write_text(REAL_RUN)
    platforms = read_platforms(write_real_platforms(tmp_path / "platforms"))
    found = read_folder(logs, platforms)
    table, reports = found.layers, found.reports
    # Feature maps that stay on chip need no memory: 21 late layers are faster than 16 GB/s allow.
    assert {code: len(findings) for code, findings in found.by_code().items()} == {"faster_than_memory": 21}
    assert sum(report.rows_read for report in reports) == 657
    assert len(table) == sum(report.rows_kept for report in reports) == 447
    assert table.groupby("accelerator").size().tolist() == [149, 149, 149]
    assert table["network"].nunique() == 8
    skipped = {reason for report in reports for reason in report.skipped}
    assert skipped == {"operator maxpool", "operator averagepool", "operator add", "operator fc"}
