"""Points of a sweep: their lock, and what `sweep.json` holds."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from accelperf.points import SWEEP_RECORD, SweepRecord, one_at_a_time


def test_who_finds_a_folder_in_use_says_so_and_waits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    order: list[str] = []

    def second() -> None:
        with one_at_a_time(tmp_path, "[2/3] linear alpha=1"):
            order.append("second")

    waits = threading.Thread(target=second)
    with one_at_a_time(tmp_path, "[1/3] linear alpha=0"):
        waits.start()
        said = ""
        while "waits" not in said:
            said += capsys.readouterr().err
        order.append("first")
    waits.join()
    assert order == ["first", "second"]
    assert said == f"[2/3] linear alpha=1: waits for another process at work in {tmp_path}\n"


def test_a_lock_that_nobody_holds_is_no_obstacle(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        with one_at_a_time(tmp_path / "new", "a point"):
            pass
    assert capsys.readouterr().err == ""


def test_the_record_of_a_sweep_is_read_as_written(tmp_path: Path) -> None:
    record = SweepRecord(
        "run", "1", "0" * 32, ["model.alpha"], {"b": "linear alpha=0", "a": "linear alpha=1"}
    )
    record.write(tmp_path)
    found = SweepRecord.read(tmp_path)
    assert found == record
    assert found is not None
    assert list(found.plan or {}) == ["b", "a"]
    assert found.place(1) == "[2/2]"
    assert SweepRecord("run", "1", "", [], None).place(4) == "[5]"


@pytest.mark.parametrize("content", ["", "{", "[]", json.dumps({"name": "run", "points": 4})])
def test_a_record_of_another_format_is_none(tmp_path: Path, content: str) -> None:
    assert SweepRecord.read(tmp_path) is None
    (tmp_path / SWEEP_RECORD).write_text(content)
    assert SweepRecord.read(tmp_path) is None
