"""The report as it is read: page, summary, pictures and the command."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from accelperf.cli import app, main
from accelperf.errors import InputError
from accelperf.memory_report import PAGE_NAME, SUMMARY_NAME
from accelperf.memory_report.pictures import PICTURES, STATE_COLOURS, STATE_MARKERS, STATE_NAMES
from accelperf.memory_report.summary import SUMMARY_COLUMNS, summary_csv, summary_json, summary_text
from accelperf.memory_report.wording import bytes_text, engines_text, origin_text
from accelperf.simulate.memory_run import simulate_memory
from accelperf.stages import memory_report as stage
from tests.conftest import ROOT
from tests.memory import logs
from tests.test_cli import HEAVY, loaded_modules

SAMPLES = ROOT / "data/raw/memory"
MB = 1 << 20
PNG = b"\x89PNG\r\n\x1a\n"
LARGEST_PICTURE_BYTES = 200_000
SIX_DIGITS = 1e-5
"""Relative: speeds are printed with six digits, after a count of whole cycles."""


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, stage.MemoryReport]:
    """Return the report on the sample logs and its folder."""
    folder = tmp_path_factory.mktemp("report")
    return folder, stage.run([SAMPLES], folder)


def section(page: str, title: str) -> str:
    """Return the text of the section whose title starts so."""
    found = re.search(rf"^## {re.escape(title)}.*?(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    assert found is not None, title
    return found[0]


def cells(text: str, *start: str) -> list[str]:
    """Return the cells of the only table row that begins with these cells."""
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if "|" in line
    ]
    (row,) = [row for row in rows if tuple(row[: len(start)]) == start]
    return row


def test_every_table_and_picture_of_the_samples_says_simulated(
    sample: tuple[Path, stage.MemoryReport],
) -> None:
    folder, report = sample
    page = (folder / PAGE_NAME).read_text()
    assert "is SIMULATED: it was not measured on a board" in page
    measured = page.count("| origin")
    assert measured >= 10
    assert re.search(r"\bmeasured +\|\n", page) is None
    assert all(line.origin.startswith("SIMULATED") for line in report.lines)
    # What the model's logs call unvalidated is marked, what carries a published figure is not.
    strides = section(page, "Throughput by stride")
    row = next(line for line in strides.splitlines() if "RGBCG" in line and "256M" in line)
    assert "6.69 " in row and "6.71 \\*" in row
    unvalidated = {line.origin for line in report.lines if line.policy == "BRC"}
    assert unvalidated == {"SIMULATED,unvalidated"}


def test_the_page_holds_the_published_figures(sample: tuple[Path, stage.MemoryReport]) -> None:
    page = (sample[0] / PAGE_NAME).read_text()
    burst = section(page, "Throughput by burst")
    row = cells(burst, "sample-u280/hbm", "RGBCG", "read", "S = 64")
    assert row[5:7] == ["6.67 (46.3 %)", "12.9 (89.6 %)"]
    assert "bursts from 64 bytes on reach 95 % of the best" in burst
    idle = section(page, "Idle latency")
    row = cells(idle, "model-u280/hbm", "on", "0")
    assert row[4:7] == [
        "55 cycles, 122.2 ns, 267 accesses",
        "62 cycles, 137.8 ns, 25 accesses",
        "69 cycles, 153.3 ns, 95 accesses",
    ]
    # The published run shows hits alone: the other states stay unknown.
    assert cells(idle, "sample-u280/hbm")[4:7] == ["55 cycles, 122.2 ns, 100 accesses", "–", "–"]
    refresh = section(page, "Refresh")
    assert cells(refresh, "model-u280/hbm", "–")[5:8] == ["29", "1756", "3.90"]
    assert cells(refresh, "model-u280/ddr4", "–")[5:8] == ["92", "2341", "7.80"]
    axi = section(page, "Latency by AXI channel")
    assert "between groups 3 and 4: 11 cycles (24.4 ns)" in axi
    assert "crossing from one HBM stack" in axi
    assert cells(axi, "28") == ["28", "28-31", "77", "84", "–", "+22", "+48.9"]
    total = section(page, "Total throughput")
    assert cells(total, "sample-u280/ddr4")[1:4] == ["not measured", "18", "2 x 18 = 36"]
    overview = section(page, "The memories beside each other")
    assert cells(overview, "model-u280/ddr4")[5] == "73.3 / 90.0 / 106.7"
    falls = section(page, "Where the throughput falls")
    row = cells(falls, "model-u280/ddr4")
    assert row[3:9] == [
        "128 → 256",
        "18.3 \\* → 9.08 \\*",
        "0.50",
        "100.0 % → 0.0 %",
        "0.7 % → 0.7 %",
        "8 → 4",
    ]
    assert "at S = 2K, 4K alone" in section(page, "Locality")
    assert cells(section(page, "Engines that share"), "model-u280/hbm")[-2] == "not measured"


def test_what_the_samples_do_not_show_is_not_measured(sample: tuple[Path, stage.MemoryReport]) -> None:
    page = (sample[0] / PAGE_NAME).read_text()
    for title in ("Reads and writes", "Throughput by AXI channel"):
        assert "\nNot measured. " in section(page, title)


def test_pictures_are_there_small_and_named_on_the_page(sample: tuple[Path, stage.MemoryReport]) -> None:
    folder, report = sample
    assert {file.name for file in report.files} == {PAGE_NAME, SUMMARY_NAME, *PICTURES}
    page = (folder / PAGE_NAME).read_text()
    for name in PICTURES:
        content = (folder / name).read_bytes()
        assert content.startswith(PNG)
        assert len(content) < LARGEST_PICTURE_BYTES
        assert f"({name})" in page


def test_equal_logs_give_equal_files_and_measured_ones_others(tmp_path: Path) -> None:
    source = tmp_path / "logs"
    for stride in (64, 4096):
        for working_set in (8192, MB):
            simulate_memory(
                source / f"{stride}-{working_set}", burst_bytes=32, stride_bytes=stride,
                working_set_bytes=working_set, num_ops=300,
            )  # fmt: skip
    simulate_memory(source / "latency", mode="latency", burst_bytes=32, stride_bytes=64, num_ops=300)
    files = {}
    for name in ("one", "two"):
        stage.run([source], tmp_path / name)
        files[name] = {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()}
    assert files["one"] == files["two"]
    for run in source.rglob("run.yaml"):
        run.write_text(run.read_text().replace("origin: simulated", "origin: measured"))
    stage.run([source], tmp_path / "measured")
    page = (tmp_path / "measured" / PAGE_NAME).read_text()
    assert "it was not measured on a board" not in page
    for name in PICTURES:
        if name in files["one"]:
            # The mark is in the picture itself.
            assert (tmp_path / "measured" / name).read_bytes() != files["one"][name]


def test_pictures_of_an_earlier_report_do_not_stay(tmp_path: Path) -> None:
    out = tmp_path / "out"
    stage.run([SAMPLES / "model-u280"], out)
    (out / "mine.png").write_bytes(b"kept")
    stage.run([SAMPLES / "sample-u280/hbm_latency_hit"], out)
    assert {path.name for path in out.iterdir()} == {PAGE_NAME, SUMMARY_NAME, "page_states.png", "mine.png"}


def test_irregular_slow_accesses_are_no_refresh_interval(tmp_path: Path) -> None:
    simulate_memory(tmp_path, mode="latency", burst_bytes=32, stride_bytes=64, num_ops=300)
    counts = [55] * 300
    for position in (10, 40, 75, 130, 147, 250):
        counts[position] = 150
    (tmp_path / "shuhai.log").unlink()
    (tmp_path / "res.txt").write_text("".join(f"{count}\n" for count in counts))
    report = stage.run([tmp_path], tmp_path / "out")
    page = (tmp_path / "out" / PAGE_NAME).read_text()
    assert "no: other causes than refresh" in section(page, "Refresh")
    assert cells(section(page, "The memories beside each other"), "model-u280/hbm")[-2] == "–"
    assert {line.flags for line in report.lines if line.quantity == "refresh_interval"} == {"irregular"}


def test_an_error_leaves_the_earlier_report(tmp_path: Path) -> None:
    out, source = tmp_path / "out", tmp_path / "logs"
    simulate_memory(source, burst_bytes=32, num_ops=300)
    stage.run([source], out)
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    (source / "broken.log").write_text("something else\n")
    with pytest.raises(InputError, match=r"broken\.log:1: expected output or configuration of Shuhai"):
        stage.run([source], out)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


def test_measured_channels_on_one_target_are_drawn_and_listed(tmp_path: Path) -> None:
    for channel in (0, 16):
        simulate_memory(tmp_path / f"axi{channel}", channels=(channel,), burst_bytes=64, num_ops=400)
    simulate_memory(tmp_path / "both", channels=(0, 16), burst_bytes=64, num_ops=400)
    report = stage.run([tmp_path], tmp_path / "out")
    page = (tmp_path / "out" / PAGE_NAME).read_text()
    assert "\nNot measured. " not in section(page, "Throughput by AXI channel")
    shared = cells(section(page, "Engines that share"), "model-u280/hbm")
    assert shared[2:4] == ["0,16", "1"]
    assert float(shared[-2].split()[0]) > 10  # one alone was measured, in GB/s
    assert "axi_position.png" in {file.name for file in report.files}


def test_channels_at_once_make_the_total(tmp_path: Path) -> None:
    run = simulate_memory(
        tmp_path, channels=tuple(range(4)), switch="off", burst_bytes=64, stride_bytes=64, num_ops=400
    )
    stage.run([tmp_path], tmp_path / "out")
    total = sum(channel.gbps for channel in run.channels)
    page = (tmp_path / "out" / PAGE_NAME).read_text()
    assert (
        cells(section(page, "Total throughput"), "model-u280/hbm")[1] == f"{total:.4g} of 57.6 (4 channels)"
    )


def test_corrections_and_flags_stand_in_summary_and_page(tmp_path: Path) -> None:
    report = stage.run([ROOT / "tests/golden/shuhai"], tmp_path)
    by_correction = {line.corrections: line for line in report.lines if line.quantity == "throughput"}
    assert {"num_ops", "burst_wrap", "clock"} <= set(by_correction)
    assert by_correction["burst_wrap"].burst_bytes == "512"
    assert by_correction["num_ops"].engines == "0-31"
    page = section((tmp_path / PAGE_NAME).read_text(), "Rows that say nothing")
    assert "the HBM burst length wrapped" in page
    assert "(and 31 more like it)" in page
    unused = tmp_path / "unused"
    unused.mkdir()
    (unused / "run.yaml").write_text("board: b\nmemory: hbm\npolicy: RGBCG\nswitch: on\norigin: measured\n")
    (unused / "run.log").write_text(logs.PLAIN.replace("13.27", "inf"))
    report = stage.run([unused], tmp_path / "out")
    (line,) = report.lines
    assert (line.value, line.second_value, line.flags) == (None, float("inf"), "not_a_number")
    assert "infGB/s_printed" in summary_text(report.lines)
    assert json.loads(summary_json(report.analysis, report.lines))["results"][0]["second_value"] == "inf"
    page = section((tmp_path / "out" / PAGE_NAME).read_text(), "Rows that say nothing")
    assert "the speed is infinite, zero or no number" in page
    assert f"`{unused.as_posix()}/run.log:" in page


def test_the_summary_pipes(sample: tuple[Path, stage.MemoryReport]) -> None:
    folder, report = sample
    text = summary_text(report.lines).splitlines()
    assert len({len(line.split()) for line in text}) == 1
    page_states = [line.split() for line in text if "page_hit/closed/miss" in line]
    assert ["55/62/69cycles", "122.2/137.8/153.3ns", "267/25/95"] in [words[9:12] for words in page_states]
    assert sum("refresh_interval" in line for line in text) == 2
    assert sum(line.split()[1] == "policy" for line in text) == 1
    (policy,) = [line.split() for line in text if line.split()[1] == "policy"]
    assert (policy[2], policy[7], policy[9]) == ("RGBCG/BRC", "1K", "11.68x")
    rows = list(csv.DictReader(io.StringIO((folder / SUMMARY_NAME).read_text())))
    assert tuple(rows[0]) == SUMMARY_COLUMNS
    assert len(rows) == len(report.lines)
    assert summary_csv(report.lines) == (folder / SUMMARY_NAME).read_text()
    published = [
        row for row in rows if row["memory"] == "sample-u280/hbm" and row["quantity"] == "throughput"
    ]
    assert sorted(float(row["value"]) for row in published) == pytest.approx(
        [2.4, 6.67, 6.7, 12.9, 13.27, 13.3], rel=SIX_DIGITS
    )
    missing = [row for row in rows if row["quantity"] == "page_miss" and row["accesses"] == "0"]
    assert missing and all(row["value"] == "" for row in missing)
    content = json.loads(summary_json(report.analysis, report.lines))
    assert content["simulated"] is True
    assert len(content["results"]) == len(rows)
    assert set(content["sources"]) == {f"{b}-u280/{m}" for b in ("model", "sample") for m in ("hbm", "ddr4")}


def test_wording() -> None:
    assert [bytes_text(size) for size in (32, 1000, 1024, 1 << 20, 3 << 30, None)] == [
        "32", "1000", "1K", "1M", "3G", "–",
    ]  # fmt: skip
    assert engines_text((8, 0, 1, 2)) == "0-2,8"
    assert engines_text((-1,)) == "–"
    assert origin_text("simulated", unvalidated=True) == "SIMULATED, unvalidated"
    assert origin_text("") == "origin unknown"
    assert set(STATE_NAMES) == set(STATE_COLOURS) == set(STATE_MARKERS)


# --- the command ------------------------------------------------------------------------------------


def run_command(*words: str) -> Any:
    result = CliRunner().invoke(app, ["memory", *words])
    assert result.exit_code == 0, result.output
    return result


def test_the_command_prints_the_summary_and_says_where_the_rest_is(tmp_path: Path) -> None:
    log = SAMPLES / "sample-u280/hbm_b64_s64"
    result = run_command(str(log), "--output-dir", str(tmp_path / "out"))
    header, line = result.stdout.splitlines()
    assert header.split()[:2] == ["memory", "quantity"]
    assert line.split()[-6:] == ["12.9GB/s", "89.6%", "-", "-", "-", "SIMULATED"]
    assert result.stderr == f"3 files in {tmp_path / 'out'}: see {PAGE_NAME}\n"


def test_the_command_loads_no_trainer(tmp_path: Path) -> None:
    code = f"""
from typer.testing import CliRunner
from accelperf.cli import app
words = ["memory", "data/raw/memory/sample-u280/hbm_b64_s64", "--output-dir", {str(tmp_path)!r}]
assert CliRunner().invoke(app, words).exit_code == 0
"""
    assert not loaded_modules(code, ROOT) & set(HEAVY)


def test_a_single_file_finds_its_run_yaml_and_counts_once(tmp_path: Path) -> None:
    folder = SAMPLES / "sample-u280/hbm_b64_s64"
    words = [str(folder / "shuhai.log"), str(folder), "--csv", "--output-dir", str(tmp_path)]
    (row,) = csv.DictReader(io.StringIO(run_command(*words).stdout))
    assert float(row["value"]) == pytest.approx(12.9, rel=SIX_DIGITS)
    content = json.loads(run_command(words[0], "--json", "--output-dir", str(tmp_path)).stdout)
    assert content["logs"] == 1


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["{}/nothing.log"], "nothing.log: expected a Shuhai log, got no file of this name"),
        (["{}"], "expected a folder with at least one Shuhai log, got none"),
        (["{}", "--csv", "--json"], "expected one of --csv and --json, got both"),
        (["{}/empty.txt"], "empty.txt:1: expected a Shuhai log, got an empty file"),
        (["{}/config.txt"], "expected a Shuhai log with a speed or a latency, got none"),
        (["{}/twice"], "expected one log for one run"),
    ],
)
def test_bad_input_is_one_line_and_status_2(
    words: list[str],
    expected: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if words[0] != "{}":
        (tmp_path / "empty.txt").touch()
        (tmp_path / "config.txt").write_text("latencyChannel 0 1\n")
        for name in ("a", "b"):
            simulate_memory(tmp_path / "twice" / name, burst_bytes=32, num_ops=100)
    out = tmp_path / "out"
    arguments = [word.format(tmp_path) for word in words]
    monkeypatch.setattr(sys, "argv", ["accelperf", "memory", *arguments, "--output-dir", str(out)])
    with pytest.raises(SystemExit) as exit_info:
        main()
    assert exit_info.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    assert expected in line
    assert not out.exists()
