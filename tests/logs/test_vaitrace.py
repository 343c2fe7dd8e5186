"""Summaries of vaitrace: the columns of each release, units in notes, whole graphs, cores, names."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from accelperf.errors import InputError
from accelperf.logs import vaitrace
from accelperf.logs.base import LogTable
from accelperf.logs.repeats import merge_repeats
from accelperf.logs.run import read_run
from tests.logs.samples import GOLDEN, PLATFORMS

FOLDER = GOLDEN / "vaitrace"
LONG = "stage4_block1_branch2_convolution_1x1"
LAYERS = ["conv1", "conv2", "conv3", LONG]
LATENCIES = [0.123, 0.315, 0.308, 0.097]
RUN = "origin: measured\nplatform: small\nnetwork: tiny\n"

RTOL = 1e-12
"""Printed numbers as they stand."""


def read(name: str) -> LogTable:
    (log,) = vaitrace.read([FOLDER / name], read_run(FOLDER / "run.yaml", PLATFORMS))
    return log


def read_text(folder: Path, text: str, *, run: str = RUN) -> LogTable:
    """Read a summary beside a description of the golden network."""
    shutil.copy(FOLDER / "network.csv", folder)
    (folder / "run.yaml").write_text(run + "geometry: network.csv\n", encoding="utf-8")
    path = folder / "log.txt"
    path.write_text(text, encoding="utf-8")
    (log,) = vaitrace.read([path], read_run(folder / "run.yaml", PLATFORMS))
    return log


def golden(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


CSV, TWO_CORES = golden("profile_summary.csv"), golden("two_cores.csv")
TEXT_14, TEXT_20, TEXT_25 = (golden(f"release_{each}.txt") for each in ("1_4", "2_0", "2_5"))


def row_of(text: str, layer: str) -> str:
    return next(
        line for line in text.splitlines(keepends=True) if f" {layer} " in line or f"_{layer}," in line
    )


@pytest.mark.parametrize(
    ("name", "line"), [("profile_summary.csv", 11), ("release_1_4.txt", 5), ("release_2_0.txt", 6)]
)
def test_every_release_gives_the_same_rows(name, line):
    log = read(name)
    assert log.table["layer"].tolist() == LAYERS
    np.testing.assert_allclose(log.table["latency_ms"], LATENCIES, rtol=RTOL)
    assert log.table["source_line"].tolist() == list(range(line, line + 4))
    assert set(log.table["accelerator"]) == {"small"}
    assert [(finding.code, finding.layer) for finding in log.findings] == [("layer_not_measured", "conv5")]
    assert log.report.format == "vaitrace"


def test_the_csv_has_the_number_of_runs_and_functions_of_the_cpu():
    log = read("profile_summary.csv")
    assert log.table["repeats"].tolist() == [40] * 4
    assert log.table["latency_std_ms"].isna().all(), "vaitrace gives no spread"
    assert log.report.skipped == {"CPU function": 3, "operator maxpool": 1}
    assert log.report.rows_read == 8
    assert "std::map<int, float>::find,12,CPU" in CSV


def test_the_hardware_s_own_time_is_taken_where_there_is_one():
    table = read("release_2_5.txt").table
    np.testing.assert_allclose(table["latency_ms"], [0.123, 0.315, 0.097], rtol=RTOL)
    assert "| 0.213 | 0.123 |" in TEXT_25


def test_about_0_is_below_the_resolution():
    log = read("release_2_5.txt")
    assert "conv3" not in log.table["layer"].tolist()
    assert ("below_resolution", "conv3", 7) in [(each.code, each.layer, each.line) for each in log.findings]
    assert log.report.skipped == {"below_resolution": 1, "operator maxpool": 1}


def test_thousands_are_separated():
    log = read("release_2_5_x86.txt")
    np.testing.assert_allclose(log.table["latency_ms"], [0.123, 1215.0, 0.308, 0.097], rtol=RTOL)
    assert "| 1,215.000 |" in golden("release_2_5_x86.txt")
    assert "2,647.415" in TEXT_20


def test_one_row_is_a_whole_graph_although_it_has_the_name_of_a_layer():
    log = read("whole_graph.csv")
    assert log.table.empty
    (finding,) = log.findings
    assert (finding.code, finding.layer, finding.line) == ("whole_graph", "conv1", 11)
    assert finding.message == "one row (1.461 ms) for all of a graph; profile with --fine_grained"
    assert log.report.skipped == {"CPU function": 1, "whole_graph": 1}


def test_of_several_graphs_the_workload_tells(tmp_path):
    # Two networks, each named after its first layer, whose names are described.
    text = CSV.replace(
        row_of(CSV, "conv1"), "subgraph_conv1,40,DPUCZDX8G_1:batch-1,9,11.461,12,7.718,1,1,1,\n"
    )
    log = read_text(tmp_path, text)
    assert log.table["layer"].tolist() == ["conv2", "conv3", LONG]
    (finding,) = [each for each in log.findings if each.code == "whole_graph"]
    assert finding.message == (
        "11.461 ms for 7.718 GOP, where the layer has 0.001 GOP: a graph named after its first layer; "
        "profile with --fine_grained"
    )
    assert (finding.line, finding.accelerator, finding.network) == (11, "small", "tiny")
    assert log.report.skipped["whole_graph"] == 1


def test_the_first_row_may_carry_the_workload_of_its_small_model():
    # 0.006 GOP stand beside conv1, which has 0.0009: vaitrace tells them apart from 0.02 GOP on.
    assert ",0.123,0.154,0.006," in row_of(CSV, "conv1")
    np.testing.assert_allclose(read("profile_summary.csv").table["latency_ms"][0], 0.123, rtol=RTOL)


def test_cores_of_one_platform_are_runs_and_can_be_platforms_of_their_own(tmp_path):
    table = merge_repeats(read("two_cores.csv").table)
    assert table["repeats"].tolist() == [80] * 4
    np.testing.assert_allclose(table["latency_ms"], [0.124, 0.316, 0.309, 0.098], rtol=1e-9)
    run = "origin: measured\nnetwork: tiny\nplatforms: {DPUCZDX8G_1: small, DPUCZDX8G_2: large}\n"
    log = read_text(tmp_path, TWO_CORES, run=run)
    assert log.table.groupby("accelerator")["latency_ms"].first().to_dict() == {
        "large": 0.125,
        "small": 0.123,
    }
    with pytest.raises(InputError, match=r"log\.txt:10: expected a configuration .* got 'DPUCZDX8G_2'"):
        read_text(tmp_path, TWO_CORES, run=run.replace("X8G_2", "X8G_3"))


def test_subgraphs_of_one_name_are_no_runs(tmp_path):
    row = row_of(CSV, "conv2")
    log = read_text(tmp_path, CSV.replace(row, row + row.replace(",0.315,", ",0.316,")))
    assert log.table["layer"].tolist() == ["conv1", "conv3", LONG]
    assert log.report.skipped["name twice"] == 2
    assert ("layer_not_described", "conv2", 12) in [
        (each.code, each.layer, each.line) for each in log.findings
    ]


def test_a_cut_name_is_translated_and_not_guessed(tmp_path):
    cut = TEXT_20.replace(LONG, "..." + LONG[3:])
    log = read_text(tmp_path, cut)
    assert log.table["layer"].tolist() == LAYERS[:3]
    assert log.report.skipped["not in the description"] == 1
    log = read_text(tmp_path, cut, run=RUN + f"layers: {{'...{LONG[3:]}': {LONG}}}\n")
    assert log.table["layer"].tolist() == LAYERS


def test_several_summaries_in_a_console_log(tmp_path):
    table = merge_repeats(read_text(tmp_path, "a shell\n" + TEXT_20 + "more\n" + TEXT_20).table)
    assert table["repeats"].tolist() == [2] * 4


def test_sums_need_no_description():
    (profile,) = vaitrace.read_timings(FOLDER / "profile_summary.csv")
    assert (profile.configuration, profile.rows_read, len(profile.timings)) == ("DPUCZDX8G_1", 8, 5)


NOTE_20, NOTE_25 = (
    "RT(ms): Run time\n",
    next(x for x in TEXT_25.splitlines(keepends=True) if x.startswith("HW_RT(")),
)
LAST = row_of(TEXT_20, "pool1")
BAD = {
    "no notes": (
        TEXT_20[: TEXT_20.index("Notes")],
        r"log\.txt:4: expected the notes below the table, which say that RT is in ms, got none",
    ),
    "note lost": (
        TEXT_25.replace(NOTE_25, ""),
        r"log\.txt:3: expected the notes .* HW_RT is in ms, got none",
    ),
    "another unit": (TEXT_20.replace("RT(ms)", "RT(us)"), r"log\.txt:17: expected RT in ms, got 'us'"),
    "another unit in words": (
        TEXT_25.replace(NOTE_25, NOTE_25.replace("unit is ms", "unit is us")),
        r"log\.txt:17: expected HW_RT in ms, got 'us'",
    ),
    "notes of the next table": (
        TEXT_20[: TEXT_20.index("Notes")] + TEXT_20,
        r"log\.txt:4: expected the notes below the table, which say that RT is in ms, got none",
    ),
    "no time": (
        TEXT_20.replace("| RT ", "| TT "),
        r"log\.txt:4: expected a column of times, one of HW_RT, SW_RT, RT, RunTime\(ms\), .*got DPU Id, Bat",
    ),
    "unknown column": (
        TEXT_25.replace("| HW_RT |", "|       |").replace("| AvgBw", "| AvgBw HW_RT", 1),
        r"log\.txt:3: expected columns among .*got ''",
    ),
    "column twice": (TEXT_20.replace("LdFM ", "LdWB ", 1), r"log\.txt:4: .*'LdWB' twice"),
    "cell lost": (
        TEXT_20.replace("conv2 ", "      ", 1).replace("| 0.315 |", "|"),
        r"log\.txt:7: expected 10 cells separated by '\|' as in the header, got 9",
    ),
    "cut": (
        TEXT_20[: TEXT_20.index(LAST)],
        r"log\.txt:9: expected a row of the table, or the line '===…' that ends it, got the end of the file",
    ),
    "text for a number": (
        TEXT_20.replace("| 0.315 |", "| fast  |"),
        r"log\.txt:7: expected RT: a number, got 'fast'",
    ),
    "decimal comma": (
        TEXT_20.replace("| 0.315 |", "| 0,315 |"),
        r"log\.txt:7: expected RT: a number, got '0,315'",
    ),
    "columns that disagree": (
        TEXT_25.replace("| 0.405 | 0.315 |", "| 0.315 | 0.405 |"),
        r"log\.txt:6: expected AvgBw from 66\.584 to 75\.946, which is LdWB \+ LdFM \+ StFM by HW_RT 0\.405",
    ),
    "no rows": (
        TEXT_14[: TEXT_14.index("DPUCZ")] + "=" * 20,
        r"log\.txt:3: expected at least one subgraph of a DPU, got none",
    ),
    "no name": (
        TEXT_14.replace("subgraph_conv2", " " * 14),
        r"log\.txt:6: expected a subgraph: a name, got nothing",
    ),
    "CSV, no unit": (
        CSV.replace("Average Time (ms)", "Average Time"),
        r"log\.txt:10: .*'Average Time \(ms\)', got",
    ),
    "CSV, field lost": (
        CSV.replace(",0.315,", ","),
        r"log\.txt:12: expected 10 fields as in the header, got 9",
    ),
    "CSV, order of times": (
        CSV.replace(",0.311,0.315,0.346,", ",0.311,0.346,0.315,"),
        r"log\.txt:12: expected minimum, average and maximum time in this order, got 0\.311, 0\.346, 0\.315",
    ),
    "CSV, runs": (
        CSV.replace("conv2,40", "conv2,0"),
        r"log\.txt:12: expected Number Of Runs: a whole number, 1 or more, got '0'",
    ),
    "CSV, quotation": (
        CSV.replace("subgraph_conv2", '"subgraph_conv2'),
        r"log\.txt:12: expected a record with commas",
    ),
    "CSV, functions only": (
        "\n".join(line for line in CSV.splitlines() if not line.startswith("subgraph")),
        r"log\.txt:10: expected at least one subgraph of a DPU, got none",
    ),
    "nothing": ("hello\n", r"log\.txt: expected a table of DPU subgraphs .*got none"),
}


@pytest.mark.parametrize(("text", "message"), BAD.values(), ids=BAD)
def test_what_cannot_be_a_summary_is_refused_with_its_line(tmp_path, text, message):
    with pytest.raises(InputError, match=message):
        read_text(tmp_path, text)


def test_a_missing_time_is_rejected_and_the_rest_stays(tmp_path):
    log = read_text(tmp_path, TEXT_14.replace("| 0.315 ", "| -     "))
    assert log.table["layer"].tolist() == ["conv1", "conv3", LONG]
    assert log.report.skipped["not_positive"] == 1


def test_what_is_recognised(tmp_path):
    for path in sorted(FOLDER.glob("[!n]*.[ct]*")):
        assert vaitrace.recognises(path) is None, path.name
    path = tmp_path / "log.txt"
    path.write_text("CPU SubGraph | OPs | Device\nx | SubGraph | y\n", encoding="utf-8")
    assert "no table of DPU subgraphs" in str(vaitrace.recognises(path))
    assert "No such file" in str(vaitrace.recognises(tmp_path / "none"))
