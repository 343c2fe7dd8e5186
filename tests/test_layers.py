"""The layer table: geometry, accounts, and CSV in and out."""

from __future__ import annotations

import hashlib

import numpy as np
import pandas as pd
import pandera.pandas as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelperf.errors import InputError
from accelperf.layers import (
    GEOMETRY_COLUMNS,
    LAYER_COLUMNS,
    ReadReport,
    check_geometry,
    empty_layers,
    file_md5,
    output_size,
    read_layers,
    read_table,
    shape_key,
    total_report,
    validate_layers,
    write_layers,
    write_table,
)


def geometry(**changes: int) -> dict[str, int]:
    """Return the first convolution of ResNet-50, changed."""
    sizes = (224, 224, 3, 112, 112, 64, 7, 7, 2, 2, 3, 3, 3, 3, 1, 1, 1)
    return dict(zip(GEOMETRY_COLUMNS, sizes, strict=True)) | changes


def layers(**changes: object) -> pd.DataFrame:
    """Return a layer table of two rows, changed."""
    table = pd.DataFrame(
        {
            "accelerator": "acc",
            "network": ["net", "net"],
            "layer": ["NA", "null"],
            "position": [0, 3],
            "operator": "conv",
            **geometry(),
            "latency_ms": [0.1, 1 / 3],
            "latency_std_ms": [np.nan, 0.01],
            "repeats": [1, 4],
            "origin": "measured",
            "source_file": "log.csv",
            "source_line": [2, 3],
            "flags": "",
        },
        columns=list(LAYER_COLUMNS),
    )
    return table.assign(**changes)


@given(
    size=st.integers(1, 40),
    kernel=st.integers(1, 6),
    stride=st.integers(1, 4),
    pads=st.tuples(st.integers(0, 3), st.integers(0, 3)),
    dilation=st.integers(1, 3),
)
def test_output_size_counts_the_places_of_the_kernel(size, kernel, stride, pads, dilation):
    last = size + sum(pads) - dilation * (kernel - 1)
    places = len(range(0, last, stride))
    assert max(output_size(size, kernel, stride, *pads, dilation), 0) == places


def test_possible_geometry_passes():
    check_geometry(geometry())
    check_geometry(geometry(input_channels=64, groups=64))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"input_height": 0}, "input_height of 1 or more on a convolution, got 0"),
        ({"pad_left": -1}, "pad_left of 0 or more on a convolution, got -1"),
        ({"groups": 2}, "input_channels divisible by groups = 2, got 3"),
        ({"output_height": 113}, r"output_height = 112 \(from input 224, kernel 7, stride 2, padding 3 \+ 3"),
        ({"dilation_width": 2}, "output_width = 109 .*dilation 2.*, got 112"),
    ],
)
def test_impossible_geometry_is_refused(changes, message):
    with pytest.raises(InputError, match=f"log.csv:5: expected {message}"):
        check_geometry(geometry(**changes), file="log.csv", line=5)


def test_accounts_add_up():
    first = ReadReport("a", "1", "native", 5, 3, {"operator add": 1, "operator relu": 1})
    second = ReadReport("b", "2", "native", 4, 3, {"operator add": 1})
    total = total_report([first, second])
    assert (total["rows_read"], total["rows_kept"]) == (9, 6)
    assert total["skipped"] == {"operator add": 2, "operator relu": 1}
    assert [each["file"] for each in total["files"]] == ["a", "b"]
    assert total["files"][0]["md5"] == "1"
    with pytest.raises(ValueError, match="every row read must be kept or skipped"):
        ReadReport("a", "1", "native", 5, 3)


def test_md5_is_that_of_the_content(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"accelperf\r\n")
    assert file_md5(path) == hashlib.md5(b"accelperf\r\n").hexdigest()


def test_shapes_are_equal_for_equal_geometry_only():
    table = layers(groups=[1, 3])
    keys = shape_key(table)
    assert keys[0] != keys[1]
    assert shape_key(layers(accelerator=["a", "b"])).nunique() == 1
    assert keys[0] == "224x224x3x112x112x64x7x7x2x2x3x3x3x3x1x1x1"


def test_layers_come_back_as_they_were_written(tmp_path):
    path = tmp_path / "interim" / "layers.csv"
    write_layers(layers(), path)
    pd.testing.assert_frame_equal(read_layers(path), layers(), check_exact=True)
    first = path.read_bytes()
    write_layers(read_layers(path), path)
    assert path.read_bytes() == first
    assert list(path.parent.iterdir()) == [path]


@given(st.floats(5e-324, 1.7e308))
def test_every_float_survives_the_file(tmp_path_factory, value):
    path = tmp_path_factory.mktemp("table") / "table.csv"
    schema = pa.DataFrameSchema({"x": pa.Column(float)})
    write_table(pd.DataFrame({"x": [value]}), path)
    assert read_table(path, schema)["x"].item() == value


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("latency_ms", "latency", "a column 'latency_ms'"),
        (",0.1,", ",fast,", r"layers\.csv:2: expected latency_ms: a number, got 'fast'"),
        (",0.1,", ",,", r"layers\.csv:2: expected latency_ms: a number, got nothing"),
        (",0.1,", ",nan,", r"layers\.csv:2: expected latency_ms: a number, got 'nan'"),
        (",0.1,", ",inf,", r"layers\.csv:2: expected .*got"),
        (",0.1,", ",-0.1,", r"layers\.csv:2: expected column 'latency_ms' to satisfy .*0.*got"),
        ("null,3", "null,3.5", r"layers\.csv:3: expected position: a whole number, got '3.5'"),
        ("null,3", "null,", r"layers\.csv:3: expected position: a whole number, got nothing"),
        (
            "null,3",
            "null,99999999999999999999",
            r"layers\.csv:3: expected position: a whole number, got '999",
        ),
        ("null", "NA", "expected"),
        ("measured,log.csv,3", "guessed,log.csv,3", r"layers\.csv:3: .*'origin' to satisfy .*got 'guessed'"),
    ],
)
def test_what_does_not_fit_the_schema_is_refused(tmp_path, old, new, message):
    path = tmp_path / "layers.csv"
    write_layers(layers(), path)
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))
    with pytest.raises(InputError, match=message) as caught:
        read_layers(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected a CSV table, got No columns to parse"),
        ("x\n1,2\n3,4\n", "table.csv: expected as many fields as in the header, got more"),
        ("x\n1\n2,3\n", "expected a CSV table, got .*line 3"),
        (b"x\n\xff\n", "expected a CSV table"),
    ],
)
def test_what_is_no_table_is_refused(tmp_path, text, message):
    path = tmp_path / "table.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputError, match=message):
        read_table(path, pa.DataFrameSchema({"x": pa.Column(int)}))


def test_missing_file(tmp_path):
    with pytest.raises(InputError, match=r"layers\.csv: expected a CSV table, got no file of this name"):
        read_layers(tmp_path / "layers.csv")


def test_a_wrong_table_is_not_written(tmp_path):
    path = tmp_path / "layers.csv"
    path.write_text("earlier")
    with pytest.raises(InputError):
        write_layers(layers(latency_ms=[0.0, 1.0]), path)
    assert path.read_text() == "earlier"


def test_the_empty_table_has_the_columns():
    assert tuple(empty_layers().columns) == LAYER_COLUMNS
    with pytest.raises(InputError):
        validate_layers(layers().drop(columns="flags"), source="layers")


def test_a_path_below_a_file_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match=r"file/table\.csv: expected a file that can be written"):
        write_table(pd.DataFrame({"x": [1]}), tmp_path / "file/table.csv")
    assert (tmp_path / "file").read_text() == "x"
