"""The native CSV: what people's spreadsheets make of it, and what is refused."""

from __future__ import annotations

import csv
import io
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelperf.errors import InputError
from accelperf.layers import GEOMETRY_COLUMNS, output_size
from accelperf.logs import native, read_folder, read_profile
from tests.logs.samples import GOLDEN, NATIVE, PLATFORMS, RUN, write_log

FLAGS = {"faster_than_compute": "flag"}
"""Random latencies need not be possible."""

RTOL_UNITS = 1e-14
"""One multiplication or division between units."""

TRAPS = {
    "plain.csv": 2,
    "bom_crlf.csv": 2,
    "semicolon_decimal_comma.csv": 2,
    "tab_no_final_newline.txt": 2,
    "nanoseconds_cr.csv": 2,
    "cycles.csv": 2,
    "quoted_with_comments.csv": 5,
}
"""Golden files that all hold the same five layers, and the line of the first one."""


def golden(folder: Path, name: str, run: str = RUN) -> Path:
    return write_log(folder, (GOLDEN / "native" / name).read_bytes(), run=run, name=name)


@pytest.mark.parametrize(("name", "first_line"), TRAPS.items())
def test_every_way_of_writing_gives_the_same_rows(tmp_path, name, first_line):
    table, (report,) = read_profile(golden(tmp_path, name), PLATFORMS)
    assert table["layer"].tolist() == ["conv1", "conv2", "dw"]
    np.testing.assert_allclose(table["latency_ms"], [0.125, 0.0625, 1.5], rtol=RTOL_UNITS)
    assert table["source_line"].tolist() == [first_line, first_line + 2, first_line + 3]
    assert table["position"].tolist() == [0, 2, 3]
    assert table["groups"].tolist() == [1, 1, 32]
    assert table["dilation_height"].tolist() == [1, 1, 1]
    assert (table["pad_top"].tolist(), table["pad_bottom"].tolist()) == ([1, 0, 1], [1, 1, 1])
    assert set(table["accelerator"]) == {"small"}
    assert set(table["network"]) == {"net"}
    assert set(table["origin"]) == {"simulated"}
    assert table["latency_std_ms"].isna().all()
    assert table["repeats"].tolist() == [1, 1, 1]
    assert (report.format, report.rows_read, report.rows_kept) == ("native", 5, 3)
    assert report.skipped == {"operator maxpool": 1, "operator add": 1}


def test_repeats_become_mean_and_spread_and_configurations_choose_platforms(tmp_path):
    run = "origin: measured\nplatforms: {small: small, large: large}\n"
    table, (report,) = read_profile(golden(tmp_path, "repeats.csv", run), PLATFORMS)
    keys = list(zip(table["accelerator"], table["layer"], table["repeats"], strict=True))
    assert keys == [("large", "a", 1), ("small", "a", 3), ("small", "b", 1)]
    np.testing.assert_allclose(table["latency_ms"], [0.005, 0.013, 0.040], rtol=RTOL_UNITS)
    np.testing.assert_allclose(table["latency_std_ms"], [np.nan, 0.003, np.nan], rtol=1e-12)
    assert table["source_line"].tolist() == [5, 2, 3]
    assert table["position"].tolist() == [0, 0, 1]
    assert (report.rows_read, report.rows_kept) == (5, 5)


def test_output_sizes_follow_where_they_are_left_out(tmp_path):
    table, _ = read_profile(golden(tmp_path, "without_outputs.csv"), PLATFORMS, actions=FLAGS)
    assert table["output_height"].tolist() == [112, 28]
    assert table["output_width"].tolist() == [112, 14]
    np.testing.assert_allclose(table["latency_std_ms"], [0.020, np.nan], rtol=RTOL_UNITS)
    assert table["repeats"].tolist() == [5, 1]


def test_cycles_count_the_platform_s_own_clock(tmp_path):
    table, _ = read_profile(golden(tmp_path, "cycles.csv", RUN.replace("small", "large")), PLATFORMS)
    np.testing.assert_allclose(table["latency_ms"], [0.0625, 0.03125, 0.75], rtol=RTOL_UNITS)


def test_empty_lines_are_no_records(tmp_path):
    text = NATIVE.replace("pool1", "\n,,,,,,,,,,,,,,,,,\npool1") + "\n\n"
    table, (report,) = read_profile(write_log(tmp_path, text), PLATFORMS)
    assert table["source_line"].tolist() == [2, 6]
    assert report.rows_read == 3


FIRST = "conv1,conv,32,32,3,32,32,16,3,3,1,1,1,1,1,1,1,0.125"
SECOND = "conv2,conv,16,16,16,8,8,32,3,3,2,2,0,1,0,1,1,0.0625"

BAD = {
    "no latency column": ("latency_ms", "note", r"log\.csv:1: expected a latency column, one of latency_ms"),
    "no unit": ("latency_ms", "latency", r"log\.csv:1: expected .* with its unit.*got 'latency'"),
    "unknown unit": ("latency_ms", "latency_fortnights", r"log\.csv:1: .*got 'latency_fortnights'"),
    "text": ("0.0625", "fast", r"log\.csv:4: expected latency_ms: a number above 0, got 'fast'"),
    "digit groups": ("0.0625", '"1,234"', r"log\.csv:4: .*got '1,234'"),
    "python's underscore": ("0.0625", "1_0", r"log\.csv:4: .*got '1_0'"),
    "negative padding": ("2,2,0,1,0,1", "2,2,0,-1,0,1", r"log\.csv:4: .*pad_bottom of 0 or more.*got -1"),
    "output size": ("16,16,16,8,8", "16,16,16,8,9", r"log\.csv:4: expected output_width = 8 .*got 9"),
    "groups": ("0,1,1,0.0625", "0,1,5,0.0625", r"log\.csv:4: .*divisible by groups = 5, got 16"),
    "half a pixel": ("conv2,conv,16", "conv2,conv,16.5", r"log\.csv:4: .*a whole number, got '16.5'"),
    "text geometry": ("conv2,conv,16", "conv2,conv,big", r"log\.csv:4: .*a whole number, got 'big'"),
    "missing geometry": ("conv2,conv,16", "conv2,conv,", r"log\.csv:4: .*a whole number, got nothing"),
    "no layer name": ("conv2", "  ", r"log\.csv:4: expected layer: a name, got nothing"),
    "no operator": ("conv2,conv", "conv2,", r"log\.csv:4: expected operator: a name, got nothing"),
    "unknown column": ("groups", "gruops", r"log\.csv:1: expected columns among layer, .*got 'gruops'"),
    "column twice": ("pad_right", "pad_left", r"log\.csv:1: .*'pad_left' twice|log\.csv:1: .*no pad_right"),
    "half the padding": ("pad_right,", "", r"log\.csv:1: .*all or none of .*pad_right, got no pad_right"),
    "missing column": ("kernel_width,", "", r"log\.csv:1: expected the columns kernel_width, got none"),
    "a field too many": (SECOND, SECOND + ",7", r"log\.csv:4: expected 18 fields .*got 19"),
    "a field too few": (SECOND, SECOND[:-7], r"log\.csv:4: expected 18 fields .*got 17"),
    "decimal comma among commas": ("0.0625", "0,0625", r"log\.csv:4: expected 18 fields .*got 19"),
    "unclosed quotation": ("conv2", '"conv2', r"log\.csv:4: expected a delimited record, got unexpected end"),
    "layer changes": (SECOND, FIRST.replace("3,3,1,1,1,1,1,1", "5,5,1,1,2,2,2,2"),
                      r"log\.csv:4: expected kernel_height 3 for layer 'conv1', as in .*log\.csv:2, got 5"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_with_file_and_line(tmp_path, case):
    old, new, message = BAD[case]
    assert NATIVE.count(old) == 1 or case == "column twice"
    path = write_log(tmp_path, NATIVE.replace(old, new))
    with pytest.raises(InputError, match=message) as caught:
        read_profile(path, PLATFORMS, actions=FLAGS)
    assert "\n" not in str(caught.value)


FINITE = "expected a finite number above 0"

REJECTED = {
    "nan": ("0.0625", "NaN", "not_positive", f"latency NaN ms, {FINITE}"),
    "infinite": ("0.0625", "-inf", "not_positive", f"latency -inf ms, {FINITE}"),
    "beyond doubles": ("0.0625", "1e999", "not_positive", f"latency 1e999 ms, {FINITE}"),
    "negative": ("0.0625", "-0.0625", "not_positive", f"latency -0.0625 ms, {FINITE}"),
    "plain zero": ("0.0625", "0", "not_positive", f"latency 0 ms, {FINITE}"),
    "missing": ("0.0625", "", "not_positive", f"latency missing ms, {FINITE}"),
    "below": ("0.0625", "0.000", "below_resolution", "latency 0.000 ms, below the resolution of 0.001 ms"),
    "no height": ("conv2,conv,16", "conv2,conv,0", "zero_geometry",
                  "input_height 0, expected 1 or more on a convolution"),
    "no stride": ("3,3,2,2,0", "3,3,0,2,0", "zero_geometry",
                  "stride_height 0, expected 1 or more on a convolution"),
}  # fmt: skip


@pytest.mark.parametrize("case", REJECTED)
def test_a_row_that_is_no_measurement_is_rejected_and_the_rest_stays(tmp_path, case):
    old, new, code, message = REJECTED[case]
    assert NATIVE.count(old) == 1
    write_log(tmp_path, NATIVE.replace(old, new))
    found = read_folder(tmp_path, PLATFORMS)
    assert found.layers["layer"].tolist() == ["conv1"]
    (finding,) = found.findings
    assert (finding.code, finding.message, finding.line) == (code, message, 4)
    assert (finding.accelerator, finding.network, finding.layer) == ("small", "net", "conv2")
    (report,) = found.reports
    assert (report.rows_read, report.rows_kept) == (3, 1)
    assert report.skipped == {code: 1, "operator maxpool": 1}


def test_a_log_of_rejected_rows_only_says_so(tmp_path):
    path = write_log(tmp_path, NATIVE.replace("0.0625", "nan").replace("0.125", "0.000"))
    with pytest.raises(
        InputError,
        match=r"at least one convolution, got none among 3 rows \(1 below_resolution, 1 not_positive\)",
    ):
        read_profile(path, PLATFORMS)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (NATIVE.splitlines()[0] + "\n", "at least one layer, got none"),
        (NATIVE.replace("latency_ms", "latency_ms,latency_us").replace("0.0625", "0.0625,62.5"),
         "one latency column, got latency_ms, latency_us"),
        (NATIVE.replace("16,16,16,8,8", "16,16,\xff16,8,8").encode("latin-1"), r"log\.csv:4: expected UTF-8"),
        (NATIVE.replace(",conv2", "").encode("utf-16"), r"log\.csv.*UTF-8"),
        (NATIVE.replace(",", ";").replace("0.125", "0,125").replace("0.0625", "1.234"),
         r"log\.csv:4: expected latency_ms: a number with decimal comma above 0, got '1.234'"),
        (NATIVE.replace("latency_ms", "latency_ms,repeats").replace("0.125", "0.125,0")
         .replace("0.0625", "0.0625,1").replace(",0.0\n", ",0.0,1\n"), r"log\.csv:2: .*repeats: 1 or more"),
        (NATIVE.replace("latency_ms", "latency_ms,latency_std_ms").replace("0.125", "0.125,-1")
         .replace("0.0625", "0.0625,").replace(",0.0\n", ",0.0,\n"), r"log\.csv:2: .*std_ms: a number, 0"),
    ],
    ids=["no rows", "two latencies", "latin-1", "utf-16", "two decimal marks", "repeats", "spread"],
)  # fmt: skip
def test_files_wrong_as_a_whole(tmp_path, text, message):
    path = write_log(tmp_path, text, run=RUN + "format: native\n")
    with pytest.raises(InputError, match=message):
        read_profile(path, PLATFORMS)


def test_outputs_and_strides_may_not_both_be_left_out(tmp_path):
    text = (
        "layer,input_height,input_width,input_channels,output_channels,kernel_height,kernel_width,latency_ms\n"
        "a,8,8,4,4,1,1,0.5\n"
    )
    with pytest.raises(
        InputError, match=r"log\.csv:1: expected the columns stride_height.*where output sizes"
    ):
        read_profile(write_log(tmp_path, text), PLATFORMS)


def test_network_must_come_from_somewhere(tmp_path):
    path = write_log(tmp_path, run="origin: measured\nplatform: small\n")
    with pytest.raises(InputError, match=r"a column 'network', or the key 'network' in .*run\.yaml"):
        read_profile(path, PLATFORMS)


def test_what_is_not_recognised(tmp_path):
    path = write_log(tmp_path, "a,b\n1,2\n")
    assert native.recognises(path) == "no column 'layer'"
    assert native.recognises(write_log(tmp_path, "layer,b\n")) == "neither geometry nor latency columns"
    assert "an empty file" in str(native.recognises(write_log(tmp_path, "")))


LAYER_NAMES = st.text(
    st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=8
).filter(lambda text: not text.startswith("#"))


@st.composite
def layers(draw: st.DrawFn) -> dict[str, object]:
    """Draw a convolution that is possible."""
    groups = draw(st.integers(1, 4))
    row: dict[str, object] = {
        "input_channels": groups * draw(st.integers(1, 64)),
        "output_channels": groups * draw(st.integers(1, 64)),
        "groups": groups,
    }
    for axis, before, after in (("height", "pad_top", "pad_bottom"), ("width", "pad_left", "pad_right")):
        kernel, stride = draw(st.integers(1, 7)), draw(st.integers(1, 4))
        dilation = draw(st.integers(1, 3))
        pads = draw(st.tuples(st.integers(0, 4), st.integers(0, 4)))
        size = draw(st.integers(dilation * (kernel - 1) + 1, 128))
        row |= {f"kernel_{axis}": kernel, f"stride_{axis}": stride, f"dilation_{axis}": dilation}
        row |= {before: pads[0], after: pads[1], f"input_{axis}": size}
        row[f"output_{axis}"] = output_size(size, kernel, stride, *pads, dilation)
    return row | {"latency": draw(st.floats(1e-3, 1e6))}


@st.composite
def written_logs(draw: st.DrawFn) -> tuple[bytes, pd.DataFrame]:
    """Draw a layer table and one of the ways in which people write it."""
    rows = draw(st.lists(layers(), min_size=1, max_size=5))
    names = draw(st.lists(LAYER_NAMES, min_size=len(rows), max_size=len(rows), unique=True))
    unit, per_ms = draw(
        st.sampled_from([("ms", 1.0), ("us", 1e3), ("ns", 1e6), ("s", 1e-3), ("cycles", 2e5)])
    )
    separator = draw(st.sampled_from(",;\t"))
    decimal = draw(st.sampled_from(".," if separator != "," else "."))
    columns = draw(st.permutations(["layer", *GEOMETRY_COLUMNS, f"latency_{unit}"]))
    stream = io.StringIO()
    writer = csv.writer(
        stream,
        delimiter=separator,
        lineterminator=draw(st.sampled_from(["\n", "\r\n"])),
        quoting=draw(st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])),
    )
    writer.writerow(columns)
    for name, row in zip(names, rows, strict=True):
        texts = {**row, "layer": name, f"latency_{unit}": repr(row["latency"]).replace(".", decimal)}
        writer.writerow([texts[column] for column in columns])
    text = draw(st.sampled_from(["", "# a comment\n", "\n# SIMULATED; a,b\n"])) + stream.getvalue()
    if draw(st.booleans()):
        text = text.rstrip("\r\n")
    expected = pd.DataFrame(rows).assign(layer=names)
    expected["latency"] /= per_ms
    return draw(st.sampled_from([b"", b"\xef\xbb\xbf"])) + text.encode(), expected


@given(written=written_logs())
@settings(max_examples=100, deadline=None)
def test_any_table_survives_any_way_of_writing_it(tmp_path_factory, written):
    data, expected = written
    folder = tmp_path_factory.mktemp("logs")
    table, (report,) = read_profile(write_log(folder, data), PLATFORMS, actions=FLAGS)
    assert table["layer"].tolist() == expected["layer"].tolist()
    for column in GEOMETRY_COLUMNS:
        assert table[column].tolist() == expected[column].tolist()
    np.testing.assert_allclose(table["latency_ms"], expected["latency"], rtol=RTOL_UNITS)
    assert report.rows_kept == len(expected)
    shutil.rmtree(folder)


@given(data=st.data())
@settings(max_examples=200, deadline=None)
def test_broken_files_end_in_rows_or_in_one_clear_error(tmp_path_factory, data):
    source = (GOLDEN / "native" / data.draw(st.sampled_from(sorted(TRAPS)))).read_bytes()
    start = data.draw(st.integers(0, len(source)))
    stop = data.draw(st.integers(start, min(len(source), start + 40)))
    inserted = data.draw(
        st.sampled_from([b"", b"\n", b'"', b",", b";", b"-1", b"nan", b"\xff", b"\x00", b"1e309", b"0"])
        | st.binary(max_size=5)
    )
    folder = tmp_path_factory.mktemp("logs")
    path = write_log(folder, source[:start] + inserted + source[stop:])
    try:
        table, _ = read_profile(path, PLATFORMS)
    except InputError as error:
        assert "\n" not in str(error)
    else:
        assert (table["latency_ms"] > 0).all()
    shutil.rmtree(folder)
