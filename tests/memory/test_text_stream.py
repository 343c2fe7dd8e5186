"""Blocks of lines and of numbers."""

from __future__ import annotations

from pathlib import Path

import hypothesis
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelperf.errors import InputError
from accelperf.memory import text_stream
from accelperf.memory.text_stream import parse_numbers, read_blocks


@hypothesis.settings(deadline=None)
@given(st.lists(st.integers(0, 99_999_999)), st.sampled_from([" ", "\n", "  "]), st.sampled_from([10, 16]))
def test_parse_numbers_agrees_with_int(numbers: list[int], separator: str, base: int) -> None:
    block = separator.join(str(number) for number in numbers).encode()
    expected = [int(str(number), base) for number in numbers]
    assert parse_numbers(block, base).tolist() == expected


def test_parse_numbers_refuses_what_no_counter_prints() -> None:
    with pytest.raises(ValueError, match="more than 8 digits"):
        parse_numbers(b"1 123456789", base=10)


@pytest.mark.parametrize("size", [1, 2, 7, 64])
def test_blocks_are_the_same_whatever_their_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    path = tmp_path / "run.log"
    path.write_bytes(b"\xef\xbb\xbfone\r\n\x1b[1mtwo\x1b[0m\n\nthree")
    monkeypatch.setattr(text_stream, "BLOCK_BYTES", max(size, 16))
    blocks = list(read_blocks(path))
    assert b"".join(block for _, block in blocks) == b"one\ntwo\n\nthree"
    lines = np.cumsum([1, *(block.count(b"\n") for _, block in blocks)])
    assert [line for line, _ in blocks] == lines[:-1].tolist()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", r"run\.log:1: expected a Shuhai log, got an empty file"),
        (b"one\ntwo\x00\n", r"run\.log:2: expected lines of text, got a binary file"),
        (b"x" * 200_000, r"run\.log:1: expected lines of text, got a binary file"),
        ("endWr".encode("utf-16"), r"run\.log:1: expected UTF-8 text, got UTF-16 text"),
    ],
)
def test_what_is_no_text_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "run.log"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        list(read_blocks(path))


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no file of this name"):
        list(read_blocks(tmp_path / "run.log"))
