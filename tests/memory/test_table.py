"""The memory table on disk."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from accelperf.errors import InputError
from accelperf.memory.table import MEMORY_COLUMNS, memory_table, read_memory, usable_rows, write_memory
from tests.memory.logs import PLAIN, ddr4, read_text, sidecar

CONTRACT = (
    "board, memory, channel, target_channel, direction, mode, policy, switch, burst_bytes, stride_bytes, "
    "working_set_bytes, num_ops, reported_gbps, corrected_gbps, peak_gbps, efficiency, corrections, flags, "
    "origin, source_file, source_line"
)


def table_of(folder: Path) -> pd.DataFrame:
    texts = {"a.log": PLAIN, "b.log": PLAIN.replace("13.27", "inf"), "c.log": PLAIN.replace("13.27", "14.1")}
    rows = [row for name, text in texts.items() for row in read_text(folder, text, sidecar(), name).rows]
    rows += read_text(folder, PLAIN.replace("13.27", "18"), None, "d.log").rows
    rows += read_text(folder, PLAIN.replace("13.27", "18"), ddr4(), "e.log").rows
    return memory_table(rows)


def test_columns_are_the_contract() -> None:
    assert ", ".join(MEMORY_COLUMNS) == CONTRACT


def test_table_reads_back_as_it_was_written(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    path = tmp_path / "out" / "memory.csv"
    write_memory(table, path)
    pd.testing.assert_frame_equal(read_memory(path), table)
    assert (
        path.read_text().splitlines()[2].startswith("u280,hbm,0,0,read,throughput,RGBCG,on,64,64,268435456,")
    )
    write_memory(read_memory(path), tmp_path / "again.csv")
    assert path.read_bytes() == (tmp_path / "again.csv").read_bytes()


def test_only_sound_rows_are_usable(tmp_path: Path) -> None:
    usable = usable_rows(table_of(tmp_path))
    assert usable["reported_gbps"].tolist() == [13.27, 14.1, 18.0]
    assert usable["flags"].tolist() == ["", "above_refresh_limit", ""]


def test_table_without_rows(tmp_path: Path) -> None:
    write_memory(memory_table([]), tmp_path / "memory.csv")
    assert len(usable_rows(read_memory(tmp_path / "memory.csv"))) == 0


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (",64,64,", ",64,x,", "stride_bytes"),
        (",throughput,", ",speed,", r"memory\.csv:2: expected column 'mode'"),
        ("efficiency,", "share,", r"memory\.csv:1: expected a column 'efficiency'"),
        ("0.9215277777777777", "1.5", r"memory\.csv:2: expected column 'efficiency'"),
    ],
)
def test_wrong_table_is_named(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "memory.csv"
    write_memory(memory_table(read_text(tmp_path, PLAIN, sidecar()).rows), path)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(InputError, match=message):
        read_memory(path)
