"""Stage ``ingest_memory``: from a folder of logs to the table and its account."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from accelperf.errors import InputError
from accelperf.memory.profiles import lookup
from accelperf.memory.table import read_memory
from accelperf.platforms import MemoryPattern
from accelperf.stages import ingest_memory
from tests.memory.logs import PLAIN, PREAMBLE

SIDECAR = "board: u280\nmemory: hbm\npolicy: RGBCG\nswitch: on\norigin: measured\n"
GOLDEN = Path(__file__).parents[1] / "golden" / "shuhai"


def ingest(folder: Path) -> Path:
    ingest_memory.run(folder / "logs", folder / "out" / "memory.csv", folder / "out" / "report.json")
    return folder / "out" / "memory.csv"


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    folder = tmp_path / "logs"
    folder.mkdir()
    (folder / "run.yaml").write_text(SIDECAR)
    (folder / "README.md").write_text("not a log")
    (folder / ".hidden").write_text("not a log")
    (folder / "a.log").write_text(PLAIN)
    return folder


def test_golden_logs_end_in_table_report_and_warnings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(GOLDEN, tmp_path / "logs")
    table = read_memory(ingest(tmp_path))
    assert len(table) == 32 + 1 + 1 + 2 + 1
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert (report["rows_read"], report["rows_kept"], report["skipped"]) == (37, 37, {})
    by_name = {Path(entry["file"]).name: entry for entry in report["files"]}
    assert (by_name["latency_on.txt"]["format"], by_name["latency_on.txt"]["rows_read"]) == ("config", 0)
    notes = by_name["sequential.log"]["notes"]
    assert notes == []
    assert "warning: " in capsys.readouterr().err
    pattern = MemoryPattern(
        profile="golden/hbm", direction="read", policy="RGBCG", channels=1,
        burst_bytes=32, stride_bytes=4096, working_set_bytes=8192,
    )  # fmt: skip
    assert lookup(table, pattern).value == pytest.approx(6.7 / 14.4)


def test_rows_that_cannot_be_used_are_counted_and_listed(
    tmp_path: Path, logs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (logs / "b.log").write_text(PLAIN.replace("13.27", "inf").replace("26843545664", "819264"))
    table = read_memory(ingest(tmp_path))
    assert table["flags"].tolist() == ["", "not_a_number"]
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert (report["rows_read"], report["rows_kept"]) == (2, 1)
    assert report["skipped"] == {"not_a_number": 1}
    (note,) = report["files"][1]["notes"]
    assert note.startswith("line 6: not_a_number: channel 0 read (inf GB/s as printed)")
    assert f"warning: {logs / 'b.log'}:6: not_a_number" in capsys.readouterr().err


def test_half_the_speed_is_half_the_efficiency(tmp_path: Path, logs: Path) -> None:
    before = read_memory(ingest(tmp_path))["efficiency"]
    (logs / "a.log").write_text(PLAIN.replace("13.27", "6.635"))
    after = read_memory(ingest(tmp_path))["efficiency"]
    assert (after * 2).tolist() == pytest.approx(before.tolist())


def test_two_runs_give_the_same_bytes(tmp_path: Path, logs: Path) -> None:
    first = ingest(tmp_path).read_bytes()
    assert ingest(tmp_path).read_bytes() == first


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("b.log", PLAIN, r"b\.log:6: expected one log for one run .* a\.log:6"),
        ("b.log", PLAIN.replace("13.27", "13.1"), r"b\.log:6: expected one log for one run .* a\.log:6"),
        ("b.log", PLAIN.replace("\n", "\r\n"), r"b\.log:6: expected one log for one run"),
        ("b.log", "", r"b\.log:1: expected a Shuhai log, got an empty file"),
        ("b.log", "\0\1\2", r"b\.log:1: expected lines of text, got a binary file"),
        ("b.log", "DPU profile\n", r"b\.log:1: expected output or configuration of Shuhai"),
        ("b.log", PREAMBLE, r"b\.log:1: expected status and speed lines"),
        ("run.yaml", SIDECAR + "mood: good\n", r"run\.yaml:6: expected one of"),
    ],
)
def test_bad_input_leaves_earlier_outputs(
    tmp_path: Path, logs: Path, name: str, content: str, message: str
) -> None:
    table = ingest(tmp_path)
    before = table.read_bytes(), (tmp_path / "out" / "report.json").read_bytes()
    (logs / name).write_text(content)
    with pytest.raises(InputError, match=message.replace(r" a\.log", r" \S*a\.log")):
        ingest(tmp_path)
    assert (table.read_bytes(), (tmp_path / "out" / "report.json").read_bytes()) == before
    assert sorted(path.name for path in table.parent.iterdir()) == ["memory.csv", "report.json"]


def test_folder_without_logs(tmp_path: Path, logs: Path) -> None:
    (logs / "a.log").unlink()
    with pytest.raises(InputError, match="a folder with at least one Shuhai log, got none"):
        ingest(tmp_path)
    with pytest.raises(InputError, match="no such folder"):
        ingest_memory.run(tmp_path / "none", tmp_path / "memory.csv", tmp_path / "report.json")


def test_log_without_sidecar(tmp_path: Path, logs: Path) -> None:
    (logs / "run.yaml").unlink()
    with pytest.raises(InputError, match=r"a\.log: expected a run\.yaml beside the log or above it"):
        ingest(tmp_path)


def test_equal_text_of_two_boards_is_two_runs(tmp_path: Path, logs: Path) -> None:
    (logs / "other").mkdir()
    (logs / "other" / "run.yaml").write_text(SIDECAR.replace("u280", "u50"))
    (logs / "other" / "a.log").write_text(PLAIN)
    assert read_memory(ingest(tmp_path))["board"].tolist() == ["u280", "u50"]


def test_copy_of_a_log_without_pattern_is_named(tmp_path: Path, logs: Path) -> None:
    for name in ("b.txt", "c.txt"):
        (logs / name).write_text("55\n62\n")
    with pytest.raises(InputError, match=r"c\.txt:1: expected a log that is not a copy of \S*b\.txt"):
        ingest(tmp_path)


def test_real_files(tmp_path: Path, real_data: Path) -> None:
    for folder, names in (("hbm", ("golden_1", "golden_3", "config1", "config2")), ("ddr", ("golden_4",))):
        (tmp_path / "logs" / folder).mkdir(parents=True)
        text = SIDECAR if folder == "hbm" else SIDECAR.replace("hbm", "ddr4").replace("RGBCG", "RCB")
        (tmp_path / "logs" / folder / "run.yaml").write_text(text)
        for name in names:
            shutil.copy(real_data / "shuhai" / f"{name}.txt", tmp_path / "logs" / folder)
    table = read_memory(ingest(tmp_path))
    assert table["reported_gbps"].tolist() == [18.1132, 13.2719, 13.2719, 0.252632]
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert (report["rows_read"], report["rows_kept"]) == (4, 2)
    assert report["skipped"] == {"latency_run": 1, "num_ops_unknown": 1}
