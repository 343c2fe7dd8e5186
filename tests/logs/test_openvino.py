"""OpenVINO counters: layouts, units, statuses, totals, runs, and what is refused."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelperf.errors import InputError
from accelperf.layers import GEOMETRY_COLUMNS
from accelperf.logs import openvino
from accelperf.logs.base import LogTable, layer_row, layer_table
from accelperf.logs.repeats import merge_repeats
from accelperf.logs.run import read_run
from tests.logs.samples import GOLDEN, PLATFORMS

FOLDER = GOLDEN / "openvino"
LONG = "stage4_block1_branch2_convolution_1x1"
LAYERS = ["conv1", "conv2", "conv3", LONG, "conv5"]
LATENCIES = [0.120, 0.310, 0.305, 0.095, 0.033]
RUN = "origin: measured\nplatform: small\nnetwork: tiny\n"

RTOL = 1e-12
"""Means of a few printed numbers."""
ATOL_STD = 1e-12
"""Standard deviations of runs that are equal [ms]."""


def read(path: Path, run: Path = FOLDER / "run.yaml") -> LogTable:
    assert openvino.recognises(path) is None
    (log,) = openvino.read([path], read_run(run, PLATFORMS))
    return log


def read_text(folder: Path, text: str, *, run: str = RUN) -> LogTable:
    """Read counters beside a description of the golden network."""
    shutil.copy(FOLDER / "network.csv", folder)
    (folder / "run.yaml").write_text(run + "geometry: network.csv\n", encoding="utf-8")
    path = folder / "log.csv"
    path.write_text(text, encoding="utf-8")
    (log,) = openvino.read([path], read_run(folder / "run.yaml", PLATFORMS))
    return log


def golden(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8-sig").replace("\r\n", "\n")


AVERAGE, DETAILED, SORTED = golden("average.csv"), golden("detailed.csv"), golden("sorted.csv")
HEADER, *ROWS = AVERAGE.splitlines()
TOTAL = next(row for row in ROWS if row.startswith("Total"))


@pytest.mark.parametrize("name", ["average.csv", "numa.csv", "python.csv", "old_median.csv"])
def test_every_layout_gives_the_same_rows(name):
    log = read(FOLDER / name)
    assert log.table["layer"].tolist() == LAYERS
    np.testing.assert_allclose(log.table["latency_ms"], LATENCIES, rtol=RTOL)
    assert log.table["latency_std_ms"].isna().all()
    assert log.table["repeats"].tolist() == [1] * 5
    assert log.table["groups"].tolist() == [1, 1, 1, 1, 64]
    first = {"old_median.csv": 9}.get(name, 3)
    assert log.table["source_line"].tolist()[0] == first
    assert set(log.table["network"]) == {"tiny"}
    assert not log.findings


def test_only_executed_rows_count_and_the_others_are_counted_by_status():
    log = read(FOLDER / "average.csv")
    assert log.report.skipped == {
        "status NOT_RUN": 2,
        "status OPTIMIZED_OUT": 1,
        "operator maxpool": 1,
        "operator reorder": 1,
        "further runs of a layer": 1,
    }
    assert (log.report.format, log.report.rows_read, log.report.rows_kept) == ("openvino", 11, 5)


def test_a_status_that_is_not_executed_makes_a_layer_not_measured(tmp_path):
    text = AVERAGE.replace("conv2;EXECUTED", "conv2;OPTIMIZED_OUT")
    log = read_text(tmp_path, text)
    assert "conv2" not in log.table["layer"].tolist()
    assert [(each.code, each.layer) for each in log.findings] == [("layer_not_measured", "conv2")]


def test_total_is_a_stated_total_of_each_block():
    log = read(FOLDER / "detailed.csv")
    assert [total.line for total in log.totals] == [13, 27, 41]
    np.testing.assert_allclose([total.stated_ms for total in log.totals], [0.887, 0.890, 0.897], rtol=RTOL)
    np.testing.assert_allclose([total.listed_ms for total in log.totals], [0.887, 0.890, 0.897], rtol=RTOL)
    assert {(total.what, total.rows, total.network) for total in log.totals} == {("Total", 11, "tiny")}


def test_a_long_total_has_six_digits_only(tmp_path):
    text = AVERAGE.replace("0.310000;0.310000", "12345.678000;0.310000").replace(TOTAL, "Total;;;;12346.3;9;")
    (total,) = read_text(tmp_path, text).totals
    np.testing.assert_allclose(total.resolution_ms, 0.1, rtol=RTOL)
    np.testing.assert_allclose(total.listed_ms, 12346.255, rtol=RTOL)


@pytest.mark.parametrize("name", ["detailed.csv", "old_detailed.csv", "old_pairs.csv"])
def test_a_detailed_report_holds_the_runs_of_each_layer(name):
    table = read(FOLDER / name).table
    assert table["layer"].tolist() == LAYERS
    assert table["repeats"].tolist() == [3] * 5
    np.testing.assert_allclose(table["latency_ms"], [0.123, 0.311, 0.305, 0.095, 0.033], rtol=RTOL)
    expected = [0.003, np.std([0.310, 0.307, 0.316], ddof=1), 0, 0, 0]
    np.testing.assert_allclose(table["latency_std_ms"], expected, rtol=1e-9, atol=ATOL_STD)


def test_further_runs_are_counted_as_such():
    log = read(FOLDER / "detailed.csv")
    assert log.report.rows_read == 33
    # Two further runs of five convolutions and a pool; five of the two layers named reorder_1.
    assert log.report.skipped["further runs of a layer"] == 17


@given(runs=st.lists(st.integers(1, 10**7), min_size=1, max_size=30))
@settings(max_examples=50, deadline=None)
def test_runs_are_merged_as_everywhere_else(tmp_path_factory, runs):
    folder = tmp_path_factory.mktemp("logs")
    blocks = [
        f"{HEADER}\nconv1;EXECUTED;Convolution;jit;{us / 1000:.6f};0.0;\nTotal;;;;{us / 1000:.6g};0;\n\n"
        for us in runs
    ]
    log = read_text(folder, "".join(blocks))
    geometry = {column: int(log.table[column][0]) for column in GEOMETRY_COLUMNS}
    rows = [
        layer_row(
            geometry,
            accelerator="small",
            network="tiny",
            layer="conv1",
            position=0,
            latency_ms=us / 1000,
            origin="measured",
            file=folder / "log.csv",
            line=2,
        )
        for us in runs
    ]
    expected = merge_repeats(layer_table(rows))
    pd.testing.assert_frame_equal(log.table, expected, check_dtype=False, rtol=1e-9, atol=1e-9)
    assert [total.stated_ms == pytest.approx(total.listed_ms, rel=1e-5) for total in log.totals] == [
        True
    ] * len(runs)
    shutil.rmtree(folder)


def test_slowest_first_is_no_order(tmp_path):
    log = read(FOLDER / "sorted.csv")
    assert sorted(log.table["layer"]) == sorted(LAYERS)
    assert log.table["repeats"].tolist() == [2] * 5
    assert not log.findings
    # In any other report, the order of the layers is that in which they run.
    swapped = AVERAGE.replace("conv1;", "x;").replace("conv3;", "conv1;").replace("x;", "conv3;")
    assert "layer_order" in {finding.code for finding in read_text(tmp_path, swapped).findings}


def test_counters_that_did_not_count_are_refused(tmp_path):
    rows = [
        ";".join([*row.split(";")[:4], "0.000000", "0.000000", ""])
        for row in ROWS
        if "unde" in row or "jit" in row
    ]
    text = "\n".join([HEADER, *rows, "Total;;;;0;0;"])
    with pytest.raises(
        InputError,
        match=r"log\.csv:1: expected times above 0, got 0 in all 8 rows EXECUTED: counting was off",
    ):
        read_text(tmp_path, text)
    none = AVERAGE.replace("EXECUTED", "NOT_RUN")
    with pytest.raises(
        InputError,
        match=r"log\.csv:1: expected at least one layer with the status EXECUTED, got none among 11",
    ):
        read_text(tmp_path, none)


def test_a_single_zero_is_below_the_resolution(tmp_path):
    log = read_text(
        tmp_path, AVERAGE.replace("0.310000;0.31", "0.000000;0.31").replace(TOTAL, "Total;;;;0.577;0;")
    )
    assert "conv2" not in log.table["layer"].tolist()
    assert log.report.skipped["below_resolution"] == 1
    (finding,) = log.findings
    assert (finding.code, finding.line, finding.layer) == ("below_resolution", 6, "conv2")


def test_a_zero_among_runs_is_left_out_of_them(tmp_path):
    text = DETAILED.replace("0.307000;0.307000", "0.000000;0.307000").replace(
        "Total;;;;0.89;", "Total;;;;0.583;"
    )
    log = read_text(tmp_path, text)
    row = log.table.set_index("layer").loc["conv2"]
    assert row["repeats"] == 2
    np.testing.assert_allclose(row["latency_ms"], 0.313, rtol=RTOL)
    (finding,) = log.findings
    assert (finding.code, finding.line) == ("below_resolution", 20)
    assert finding.message == "realTime 0.000000, below the resolution of 1 microsecond; 1 of 3 runs"
    assert log.report.skipped["below_resolution"] == 1


@pytest.mark.parametrize("figure", ["-0.310000", "nan", "inf", "1e999", ""])
def test_what_is_no_time_is_rejected_and_the_rest_stays(tmp_path, figure):
    log = read_text(tmp_path, AVERAGE.replace("0.310000;0.31", f"{figure};0.31"))
    assert log.table["layer"].tolist() == ["conv1", "conv3", LONG, "conv5"]
    assert log.report.skipped["not_positive"] == 1
    assert [finding.code for finding in log.findings] == ["not_positive"]


def test_old_microseconds_of_0_are_below_the_resolution_too(tmp_path):
    log = read_text(tmp_path, golden("old_pairs.csv").replace(";310,3;307,3;316,3;", ";0,3;0,3;0,3;"))
    assert "conv2" not in log.table["layer"].tolist()
    assert [finding.code for finding in log.findings] == ["below_resolution"]


def test_a_convolution_twice_in_a_block_is_refused_another_layer_is_not(tmp_path):
    row = next(row for row in ROWS if row.startswith("conv2"))
    with pytest.raises(
        InputError,
        match=r"log\.csv:7: expected one row for convolution 'conv2' in a block, whose row is line 6, got it",
    ):
        read_text(tmp_path, AVERAGE.replace(row, f"{row}\n{row}"))
    assert AVERAGE.count("reorder_1;EXECUTED;Reorder") == 2


def test_names_that_the_tool_renamed_are_translated(tmp_path):
    log = read_text(
        tmp_path, AVERAGE.replace("conv2;", "conv2/fused;"), run=RUN + "layers: {conv2/fused: conv2}\n"
    )
    assert log.table["layer"].tolist() == LAYERS


def test_sums_need_no_description():
    (profile,) = openvino.read_timings(FOLDER / "detailed.csv")
    assert profile.timings["layer"].tolist() == [
        "conv1",
        "pool1",
        "conv2",
        "conv3",
        LONG,
        "reorder_1",
        "conv5",
    ]
    assert profile.timings["operator"].tolist()[:2] == ["Convolution", "MaxPool"]
    assert profile.rows_read == 33


def test_the_network_must_come_from_run_yaml(tmp_path):
    with pytest.raises(InputError, match=r"log\.csv:1: expected the key 'network' in .*run\.yaml"):
        read_text(tmp_path, AVERAGE, run="origin: measured\nplatform: small\n")


OLD, OLD_PAIRS = golden("old_detailed.csv"), golden("old_pairs.csv")
FIRST = DETAILED[: DETAILED.index("\n\n") + 2]
BAD = {
    "no unit": (
        AVERAGE.replace("realTime (ms)", "realTime"),
        r"log\.csv:1: expected times in ms .*got 'realTime'",
    ),
    "another unit": (
        AVERAGE.replace("(ms)", "(mcs)"),
        r"log\.csv:1: expected times in ms .*got 'realTime \(mcs\)'",
    ),
    "unknown column": (
        AVERAGE.replace("cpuTime (ms)", "note"),
        r"log\.csv:1: expected columns among .*got 'note'",
    ),
    "column twice": (AVERAGE.replace("cpuTime", "realTime"), r"log\.csv:1: .*'realTime \(ms\)' twice"),
    "no real time": (
        AVERAGE.replace("realTime (ms);", ""),
        r"log\.csv:1: expected a column 'realTime \(ms\)', got layerName, ",
    ),
    "text": (
        AVERAGE.replace("0.310000;0", "fast;0"),
        r"log\.csv:6: expected realTime: a number .*got 'fast'",
    ),
    "decimal comma": (
        AVERAGE.replace("0.310000;0", "0,310000;0"),
        r"log\.csv:6: expected realTime: a number with a decimal point, got '0,310000'",
    ),
    "a pair in a cell": (AVERAGE.replace("0.310000;0", "310,3;0"), r"log\.csv:6: .*got '310,3'"),
    "unknown status": (
        AVERAGE.replace("conv2;EXECUTED", "conv2;DONE"),
        r"log\.csv:6: expected execStatus: one of EXECUTED, NOT_RUN, OPTIMIZED_OUT, got 'DONE'",
    ),
    "no status": (
        AVERAGE.replace("conv2;EXECUTED", "conv2;"),
        r"log\.csv:6: expected execStatus: one of .*got ''",
    ),
    "time lost": (
        AVERAGE.replace("0.310000;0.310000;", "0.310000;"),
        r"log\.csv:6: expected 6 fields separated by ';' as in the header, got 5",
    ),
    "field lost": (AVERAGE.replace("conv2;EXECUTED;", "conv2;"), r"log\.csv:6: expected 6 fields .*got 5"),
    "no total": (
        AVERAGE.replace(TOTAL, ""),
        r"log\.csv:14: expected the row 'Total' that ends the block of line 1, got the end of the file",
    ),
    "cut": (
        AVERAGE[: AVERAGE.index("conv3")],
        r"log\.csv:6: expected the row 'Total' .*got the end of the file",
    ),
    "no total before the next block": (
        DETAILED.replace(TOTAL, "", 1),
        r"log\.csv:15: expected the row 'Total' that ends the block of line 1, got 'layerName;",
    ),
    "rows behind the total": (
        AVERAGE + ROWS[1],
        r"log\.csv:15: expected the header of the next block, as in line 1, got 'conv1;EXECUTED",
    ),
    "rows without a header": (
        AVERAGE[len(HEADER) + 1 :],
        r"log\.csv:1: expected the header of a block above its rows, got 'input;NOT_RUN",
    ),
    "another header": (
        FIRST + FIRST.replace("cpuTime (ms);", ""),
        r"log\.csv:15: expected the header of the next block, as in line 1",
    ),
    "another network behind": (
        FIRST + FIRST.replace("conv2;", "conv9;"),
        r"log\.csv:20: expected a layer of the first block \(line 1\), got 'conv9'",
    ),
    "row lost in a later block": (
        FIRST + FIRST.replace("relu1;NOT_RUN;ReLU;undef;0.000000;0.000000;\n", ""),
        r"log\.csv:26: expected 11 rows in the block of line 15, as in the first one, got 10",
    ),
    "another type": (
        FIRST + FIRST.replace("conv2;EXECUTED;Convolution", "conv2;EXECUTED;MatMul"),
        r"log\.csv:20: expected layer type Convolution of 'conv2', as in line 6, got 'MatMul'",
    ),
    "no name": (AVERAGE.replace("conv2;", " ;"), r"log\.csv:6: expected layerName: a name, got nothing"),
    "total no number": (
        AVERAGE.replace(TOTAL, "Total;;;;nan;0;"),
        r"log\.csv:13: expected Total: a time, 0 or more",
    ),
    "nothing": ("hello\n", r"log\.csv: expected a block of counters \(layerName;.*got none"),
    "old, unit unclear": (
        OLD.replace(";310;3;", ";0.31;3;"),
        r"log\.csv:12: expected a time that tells its unit: whole \(microseconds\) or .*got '0\.31'",
    ),
    "old, two units": (
        OLD.replace(";310;3;", ";0.310000;3;"),
        r"log\.csv:12: expected a time whole, as in line 9, got '0\.310000'",
    ),
    "old, unknown column": (
        OLD.replace("realTime_iter1", "wallTime_iter1"),
        r"log\.csv:7: expected columns of real and cpu times .*got 'wallTime_iter1'",
    ),
    "old, cell lost": (
        OLD.replace(";310;3;", ";310;"),
        r"log\.csv:12: expected 6 times as in the header, got 5 cells \('310', …\)",
    ),
    "old, pair lost": (
        OLD_PAIRS.replace(";310,3;", ";"),
        r"log\.csv:12: expected 3 pairs of times, as above, got 2 cells \('307,3', …\)",
    ),
    "old, no times": (
        OLD.replace(";310;3;307;3;316;3;", ";"),
        r"log\.csv:12: expected 10 fields separated by ';' as in the header, got 4",
    ),
    "old, twice": (OLD + OLD, r"log\.csv:31: expected one section of counters, that of line 7, got another"),
    "old, rows behind": (
        OLD + "conv9;EXECUTED;Convolution;x;1;1;\n",
        r"log\.csv:\d+: expected the header of a block above its rows, got 'conv9;",
    ),
}


@pytest.mark.parametrize(("text", "message"), BAD.values(), ids=BAD)
def test_what_cannot_be_counters_is_refused_with_its_line(tmp_path, text, message):
    with pytest.raises(InputError, match=message):
        read_text(tmp_path, text)


def test_what_is_recognised(tmp_path):
    path = tmp_path / "log.csv"
    for name in ("average.csv", "numa.csv", "python.csv", "sorted.csv", "old_median.csv", "old_pairs.csv"):
        assert openvino.recognises(FOLDER / name) is None
    path.write_text(AVERAGE.replace(";", ","), encoding="utf-8")
    assert "separated by commas (a sorted report in Python)" in str(openvino.recognises(path))
    path.write_text("a;execStatus;b\n", encoding="utf-8")
    assert "another header than" in str(openvino.recognises(path))
    path.write_text("layer,latency_ms\n", encoding="utf-8")
    assert "no header layerName;" in str(openvino.recognises(path))
    assert "No such file" in str(openvino.recognises(tmp_path / "none"))
