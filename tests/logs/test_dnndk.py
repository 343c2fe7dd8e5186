"""DNNDK profiles: found in what else a console shows, summed, joined, and refused where they are cut."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from accelperf.errors import InputError
from accelperf.logs import dnndk
from accelperf.logs.base import LogTable
from accelperf.logs.profile import find_line
from accelperf.logs.repeats import merge_repeats
from accelperf.logs.run import find_run, read_run
from tests.logs.samples import GOLDEN, PLATFORMS

FOLDER = GOLDEN / "dnndk"
CONSOLE = (FOLDER / "console.txt").read_text(encoding="utf-8")
LONG = "stage4_block1_branch2_convolution_1x1"

RTOL = 1e-12
"""Sums of a few printed numbers."""
ATOL_THREE_DECIMALS = 5e-7
"""Equal to three decimals, printed sums being exact."""


def read(path: Path, root: Path = FOLDER) -> LogTable:
    run = find_run(path.parent, root)
    assert run is not None
    (log,) = dnndk.read([path], read_run(run, PLATFORMS))
    return log


def read_text(folder: Path, text: str, *, run: str = "origin: measured\nplatform: small\n") -> LogTable:
    """Read a console log beside a description of the golden network."""
    shutil.copy(FOLDER / "network.csv", folder)
    (folder / "run.yaml").write_text(run + "geometry: network.csv\n", encoding="utf-8")
    path = folder / "log.txt"
    path.write_text(text, encoding="utf-8")
    return read(path, folder)


def codes(log: LogTable) -> list[tuple[str, str]]:
    return [(finding.code, finding.layer) for finding in log.findings]


def test_a_profile_is_found_within_a_console_log():
    log = read(FOLDER / "console.txt")
    assert log.table["layer"].tolist() == ["conv1", "conv2", "conv3", LONG]
    np.testing.assert_allclose(log.table["latency_ms"], [0.120, 0.310, 0.305, 0.095], rtol=RTOL)
    assert log.table["source_line"].tolist() == [36, 37, 38, 39]
    assert log.table["position"].tolist() == [0, 2, 3, 4]
    assert log.table["input_height"].tolist() == [32, 16, 16, 8]
    assert set(log.table["network"]) == {"tiny"}, "the kernel's name"
    assert set(log.table["accelerator"]) == {"small"}
    assert (log.report.format, log.report.rows_read, log.report.rows_kept) == ("dnndk", 6, 4)


def test_a_name_over_30_characters_only_pushes_the_columns():
    assert f"   4 {LONG} " in CONSOLE
    (profile,) = dnndk.read_timings(FOLDER / "console.txt")
    assert profile.timings["layer"].tolist()[3] == LONG
    np.testing.assert_allclose(profile.timings["latency_ms"][3], 0.095, rtol=RTOL)


def test_all_is_a_stated_total_of_all_rows_zero_workload_ones_included():
    log = read(FOLDER / "console.txt")
    (total,) = log.totals
    assert (total.what, total.kind, total.rows, total.line) == ("All", "sum", 6, 44)
    assert (total.accelerator, total.network) == ("small", "tiny")
    np.testing.assert_allclose([total.stated_ms, total.listed_ms], 0.889, rtol=RTOL)
    np.testing.assert_allclose(total.resolution_ms, 0.001, rtol=RTOL)


def test_what_has_no_partner_is_reported_on_both_sides():
    log = read(FOLDER / "console.txt")
    assert codes(log) == [
        ("layer_not_described", "res4_add"),
        ("layer_not_described", "fc_logits"),
        ("layer_not_measured", "conv5"),
    ]
    assert log.report.skipped == {"not in the description": 2}


def test_two_decimals_are_a_coarser_resolution_and_0_is_below_it():
    log = read(FOLDER / "two_decimals.txt")
    assert log.table["layer"].tolist() == ["conv1", "conv2", "conv3"]
    (total,) = log.totals
    np.testing.assert_allclose([total.resolution_ms, total.stated_ms, total.listed_ms], [0.01, 0.79, 0.78])
    assert ("below_resolution", LONG) in codes(log)
    assert log.report.skipped == {"below_resolution": 1, "not in the description": 1}


def test_a_log_can_hold_profiles_of_several_kernels():
    log = read(FOLDER / "two_kernels" / "console.txt")
    assert log.table.groupby("network")["layer"].apply(list).to_dict() == {
        "alpha": ["conv1", "conv2", "conv3", LONG],
        "beta": ["conv1", "conv2", "conv3"],
    }
    assert [(total.network, total.rows) for total in log.totals] == [("alpha", 4), ("beta", 3)]
    np.testing.assert_allclose([total.stated_ms for total in log.totals], [0.830, 0.738], rtol=RTOL)
    assert [finding.network for finding in log.findings] == ["alpha", "beta", "beta"]


def test_several_profiles_of_one_kernel_are_runs_of_its_layers():
    log = read(FOLDER / "two_runs.log")
    merged = merge_repeats(log.table)
    assert merged["repeats"].tolist() == [2, 2, 2, 2]
    np.testing.assert_allclose(merged["latency_ms"], [0.122, 0.309, 0.3055, 0.095], rtol=RTOL)
    np.testing.assert_allclose(
        merged["latency_std_ms"], np.array([4, 2, 1, 0]) * 1e-3 / np.sqrt(2), rtol=1e-9, atol=1e-12
    )
    assert codes(log).count(("layer_not_measured", "conv5")) == 1
    assert log.report.rows_read == 12


def test_run_yaml_can_name_the_network_of_one_kernel_but_not_of_several(tmp_path):
    run = "origin: measured\nplatform: small\nnetwork: resnet\n"
    assert set(read_text(tmp_path, CONSOLE, run=run).table["network"]) == {"resnet"}
    both = CONSOLE + CONSOLE.replace('"tiny"', '"other"')
    with pytest.raises(
        InputError, match=r"run\.yaml:3: expected no key 'network', since .* names the networks other, tiny"
    ):
        read_text(tmp_path, both, run=run)


def test_a_table_without_its_title_needs_the_network_from_run_yaml(tmp_path):
    text = CONSOLE[CONSOLE.index("  ID ") :]
    with pytest.raises(InputError, match=r"log\.txt:1: expected the key 'network' in .*run\.yaml"):
        read_text(tmp_path, text)
    run = "origin: measured\nplatform: small\nnetwork: n\n"
    assert len(read_text(tmp_path, text, run=run).table) == 4


def test_a_title_further_above_is_of_another_table(tmp_path):
    text = CONSOLE.replace("=\n  ID", "=\nSegmentation fault\n  ID")
    with pytest.raises(InputError, match="expected the key 'network'"):
        read_text(tmp_path, text)


def test_sums_need_no_description(tmp_path):
    path = tmp_path / "log.txt"
    path.write_text(CONSOLE, encoding="utf-8")
    (tmp_path / "run.yaml").write_text("origin: measured\nplatform: small\n", encoding="utf-8")
    (profile,) = dnndk.read_timings(path)
    assert (profile.network, profile.rows_read) == ("tiny", 6)
    with pytest.raises(InputError, match=r"log\.txt: expected the key 'geometry' in .*run\.yaml"):
        read(path, tmp_path)


ROW_2 = next(line for line in CONSOLE.splitlines(keepends=True) if " conv2 " in line)
BAD = {
    "no profile": (CONSOLE[: CONSOLE.index("[DNNDK]")], r"log\.txt: expected a profile \(a table .*got none"),
    "another unit": (
        CONSOLE.replace("RunTime(ms)", "RunTime(us)"),
        r"log\.txt:35: expected the columns ID NodeName .* RunTime\(ms\) .*got .*RunTime\(us\)",
    ),
    "another column": (CONSOLE.replace("   MB/S", ""), r"log\.txt:35: expected the columns .* MB/S, got"),
    "lost row": (CONSOLE.replace(ROW_2, ""), r"log\.txt:37: expected ID 2, got 3"),
    "row twice": (CONSOLE.replace(ROW_2, ROW_2 * 2), r"log\.txt:38: expected ID 3, got 2"),
    "name twice": (
        CONSOLE.replace("conv2 ", "conv1 "),
        r"log\.txt:37: expected names that differ, with 'conv1' in line 36, got it again",
    ),
    "text for a number": (
        CONSOLE.replace("0.310", "fast!"),
        r"log\.txt:37: expected a row of the profile .* or 'Total Nodes In Avg:', got '2 .* conv2",
    ),
    "another line within": (
        CONSOLE.replace(ROW_2, "Segmentation fault\n" + ROW_2),
        r"log\.txt:37: expected a row of the profile .*got 'Segmentation fault'",
    ),
    "cut within": (CONSOLE[: CONSOLE.index(ROW_2)], r"log\.txt:36: expected a row .*got the end of the file"),
    "cut before All": (
        CONSOLE[: CONSOLE.index("Total Nodes") + 20],
        r"log\.txt:43: expected the row 'All', got the end of the file",
    ),
    "no All": (
        CONSOLE.replace(" All ", " Sum "),
        r"log\.txt:44: expected the row 'All' with its figures, got",
    ),
    "no rows": (
        CONSOLE[: CONSOLE.index("   1 ")] + CONSOLE[CONSOLE.index("\n                Total") :],
        r"expected at least one row, got none",
    ),
    "columns that disagree": (
        CONSOLE.replace("0.02       0.310", "0.31       0.020"),
        r"log\.txt:37: expected Perf\(GOPS\) from 115\.\d to 121\.\d, which is Workload\(MOP\) 2\.359 by "
        r"RunTime\(ms\) 0\.020, got 7\.6",
    ),
    "beyond doubles": (
        CONSOLE.replace("0.310", "9" * 400),
        r"log\.txt:37: expected .*RunTime\(ms\)|log\.txt:37: expected RunTime\(ms\): a finite number",
    ),
}


@pytest.mark.parametrize(("text", "message"), BAD.values(), ids=BAD)
def test_what_cannot_be_a_profile_is_refused_with_its_line(tmp_path, text, message):
    with pytest.raises(InputError, match=message):
        read_text(tmp_path, text)


def test_what_is_recognised(tmp_path):
    path = tmp_path / "log.txt"
    path.write_text(CONSOLE.replace("\n", "\r\n"), encoding="utf-8")
    assert dnndk.recognises(path) is None
    path.write_text("The table has NodeName and RunTime(ms).\n", encoding="utf-8")
    assert dnndk.recognises(path) == "no table with the columns NodeName, Workload(MOP) and RunTime(ms)"
    path.write_text(CONSOLE, encoding="utf-16")
    assert "no table" in str(dnndk.recognises(path))
    assert "No such file" in str(dnndk.recognises(tmp_path / "none.txt"))


def test_a_line_is_found_wherever_it_stands_in_a_large_file(tmp_path):
    path = tmp_path / "log.txt"
    noise = "[Top]0 prob = 0.5  name = x\n" * 100_000
    for text in (noise + "a MARK b\n" + noise, noise + "a MARK b", "\ufeffa MARK b\r\n" + noise):
        path.write_text(text, encoding="utf-8")
        assert find_line(path, [b"none", b"MARK"]) == "a MARK b"
    path.write_text(noise, encoding="utf-8")
    assert find_line(path, [b"MARK"]) is None
    path.write_bytes(b"x" * 3_000_000 + b"MARK" + b"y" * 3_000_000)
    assert "MARK" in str(find_line(path, [b"MARK"]))


@pytest.mark.skipif(
    "ACCELPERF_REAL_DATA" not in os.environ, reason="ACCELPERF_REAL_DATA (folder of public logs) is not set"
)
@pytest.mark.parametrize(
    ("file", "profiles"),
    [
        ("alexnet_zcu102.txt", {"alexnetBNnoLRN_0": (8, 10.887)}),
        ("fcn8_zcu102.txt", {"fcn8": (21, 34.015), "fcn8ups": (24, 29.988)}),
    ],
)
def test_public_logs_sum_to_their_stated_totals(file, profiles):
    path = Path(os.environ["ACCELPERF_REAL_DATA"]) / "dnndk" / file
    assert dnndk.recognises(path) is None
    read = dnndk.read_timings(path)
    assert {each.network: len(each.timings) for each in read} == {
        k: rows for k, (rows, _) in profiles.items()
    }
    for profile, (_, milliseconds) in zip(read, profiles.values(), strict=True):
        (total,) = profile.totals
        np.testing.assert_allclose(total.stated_ms, milliseconds, rtol=RTOL)
        np.testing.assert_allclose(total.listed_ms, total.stated_ms, rtol=0, atol=ATOL_THREE_DECIMALS)
