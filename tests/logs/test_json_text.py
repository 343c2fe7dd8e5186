"""Strict JSON: what Python's parser lets through and a log must not hold."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelperf.errors import InputError
from accelperf.logs import json_text
from accelperf.logs.json_text import key_lines, parse, read_elements, read_value, shown

REFUSED = {
    '{"a": NaN}': r"x\.json:1: expected a finite number, got NaN",
    '{"NaN": 1,\n"b": -Infinity}': r"x\.json:2: expected a finite number, got -Infinity",
    "[1,\n\n1e999]": r"x\.json:3: expected a finite number, got 1e999",
    '{"a": 1,\n "b": 2,\n "a": 3}': r'x\.json:3: expected keys that differ, got "a"',
    '{"a":\n' + "7" * 5000 + "}": r"x\.json:2: expected a number of 18 digits or fewer, got 7{40}… \(5000",
    "[" * 100_000: r"x\.json:1: expected values nested less deeply",
    '{"a": 1': r"x\.json:1: expected JSON, got expecting ',' delimiter at the end",
    '{"a":\n oops}': r"x\.json:2: expected JSON, got expecting value in column 2",
    "{}\n\n{}": r"x\.json:3: expected one JSON value, got more after it: \{\}",
    "": r"x\.json:1: expected JSON, got expecting value at the end",
}


@pytest.mark.parametrize("text", REFUSED, ids=range(len(REFUSED)))
def test_refused_with_the_line(tmp_path, text):
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(InputError, match=REFUSED[text]):
        read_value(path)


def test_read_value_counts_lines_of_any_end(tmp_path):
    path = tmp_path / "x.json"
    for end in ("\n", "\r\n", "\r"):
        path.write_bytes(f'\ufeff{{{end}"a": 1,{end}"b": NaN}}'.encode())
        with pytest.raises(InputError, match=r"x\.json:3: expected a finite number"):
            read_value(path)


def test_a_file_too_large_for_memory_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "x.json"
    path.write_text("[1, 2, 3]")
    monkeypatch.setattr(json_text, "LARGEST_FILE_BYTES", 8)
    with pytest.raises(InputError, match="a file of 8 bytes or fewer, got 9"):
        read_value(path)


_json = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.floats(-1e9, 1e9) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None)
@given(value=_json, indent=st.sampled_from([None, 1]))
def test_what_is_written_is_read(tmp_path_factory, value, indent):
    text = json.dumps(value, indent=indent)
    assert parse(text, file=tmp_path_factory.getbasetemp() / "x.json") == value


ELEMENTS = [{"a": 1, "b": [2, "],{,"]}, {"c": "\u00e9\n"}, 12, {}]

LISTS = {
    "plain": json.dumps(ELEMENTS),
    "one a line": "[\n" + ",\n".join(map(json.dumps, ELEMENTS)) + "\n]\n",
    "no closing bracket": "[\n" + ",\n".join(map(json.dumps, ELEMENTS)),
    "cut after a comma": "[\n" + ",\n".join(map(json.dumps, ELEMENTS)) + ",\n",
    "stray commas": "[,\n" + ",,\n,".join(map(json.dumps, ELEMENTS)) + ",\n]",
}


@pytest.mark.parametrize("chunk", [1, 3, 1 << 20])
@pytest.mark.parametrize("name", LISTS)
def test_lists_as_traces_leave_them(tmp_path, monkeypatch, name, chunk):
    monkeypatch.setattr(json_text, "_CHUNK_CHARACTERS", chunk)
    path = tmp_path / "x.json"
    path.write_text(LISTS[name])
    found = list(read_elements(path))
    assert [value for _, value in found] == ELEMENTS
    if name != "plain":
        assert [line for line, _ in found] == [2, 3, 4, 5]


BROKEN_LISTS = {
    "": r"x:1: expected a JSON list, got an empty file",
    '\n{"a": 1}': r"x:2: expected a JSON list, got \{",
    '[\n{"a": 1},\n{"b": 2': r"x:3: expected a whole JSON value, got expecting ',' delimiter at the end",
    '[\n{"a": 1}\n{"b": 2}]': r"x:3: expected a comma between two elements, got \{",
    '[\n{"a": 1}\n]\n[\n{"a": 1}\n]': r"x:4: expected nothing after the closing bracket, got \[",
    '[{"a": 1},\n{"b": NaN}]': r"x:2: expected a finite number, got NaN",
    '[{"a": 1, "b": 2},\n{"b": 2, "b": 3}]': r'x:2: expected keys that differ, got "b"',
    '[{"a": 1},\n\n' + "[" * 99_999: r"x:3: expected values nested less deeply, got \[",
}


@pytest.mark.parametrize("chunk", [2, 1 << 20])
@pytest.mark.parametrize("text", BROKEN_LISTS, ids=range(len(BROKEN_LISTS)))
def test_broken_lists(tmp_path, monkeypatch, text, chunk):
    if len(text) < 1000:
        monkeypatch.setattr(json_text, "_CHUNK_CHARACTERS", chunk)
    (tmp_path / "x").write_text(text)
    with pytest.raises(InputError, match=BROKEN_LISTS[text]):
        list(read_elements(tmp_path / "x"))


def test_an_element_longer_than_any_event_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(json_text, "_CHUNK_CHARACTERS", 10)
    monkeypatch.setattr(json_text, "LARGEST_VALUE_CHARACTERS", 100)
    (tmp_path / "x").write_text('[\n{"a": "' + "x" * 1000 + '"}]')
    with pytest.raises(InputError, match=r"x:2: expected a whole JSON value"):
        list(read_elements(tmp_path / "x"))
    (tmp_path / "x").write_text("[" + ", " * 1000 + "{}]")
    with pytest.raises(InputError, match=r"x:1: expected an element, got nothing but commas and blanks"):
        list(read_elements(tmp_path / "x"))


def test_keys_know_their_lines():
    text = '{\n"a" : 1, "b\\u0041": [\n"c", "d: \\": x"],\n\n"e":\n{"a": 2}}'
    assert key_lines(text) == {"a": 2, "bA": 2, "e": 5}


def test_shown_values_are_short_and_on_one_line():
    assert shown("a\n  b") == "a b"
    assert shown({"a": 1}) == "{'a': 1}"
    assert shown("x" * 50) == "x" * 40 + "… (50 characters)"
