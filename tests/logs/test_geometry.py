"""Sizes from a description: joined by name or order, and what has no partner on either side."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from accelperf.errors import InputError
from accelperf.layers import GEOMETRY_COLUMNS, LAYER_COLUMNS
from accelperf.logs.geometry import TIMING_COLUMNS, join_geometry, read_description
from accelperf.logs.run import RunFile, read_run
from accelperf.networks import NETWORK_COLUMNS
from tests.logs.samples import PLATFORMS

LOG = Path("bench/log.txt")

CONV = dict(zip(GEOMETRY_COLUMNS, (8, 8, 16, 8, 8, 32, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1), strict=True))


def description() -> pd.DataFrame:
    """Return three convolutions around a pooling layer."""
    rows = [
        {"layer": name, "operator": operator, **CONV}
        for name, operator in (("stem", "conv"), ("pool", "maxpool"), ("body", "conv"), ("head", "conv"))
    ]
    return pd.DataFrame(rows, columns=list(NETWORK_COLUMNS))


def timings(*layers: str, **changes: object) -> pd.DataFrame:
    """Return timings of layers of 1, 2, … ms in lines 10, 11, …, changed."""
    count = len(layers)
    table = pd.DataFrame(
        {
            "accelerator": "small",
            "network": "net",
            "layer": list(layers),
            "operator": "",
            "latency_ms": np.arange(count) + 1.0,
            "latency_std_ms": np.nan,
            "repeats": 1,
            "line": np.arange(count) + 10,
        }
    )
    return table.assign(**changes)[list(TIMING_COLUMNS)]


@pytest.fixture
def run(tmp_path) -> RunFile:
    """Return a run.yaml whose description is plan.csv beside it."""
    return run_with(tmp_path, "geometry: plan.csv\n")


def run_with(folder: Path, text: str) -> RunFile:
    description().to_csv(folder / "plan.csv", index=False)
    (folder / "networks").mkdir(exist_ok=True)
    description().to_csv(folder / "networks" / "tiny.csv", index=False)
    (folder / "run.yaml").write_text("origin: measured\nplatform: small\n" + text)
    return read_run(folder / "run.yaml", PLATFORMS, folder / "networks")


def codes(joined) -> list[tuple[str, str]]:
    return [(finding.code, finding.layer) for finding in joined.findings]


def test_joined_by_name(run):
    joined = join_geometry(
        timings("stem", "pool", "body", "head", latency_std_ms=[0.1, 0.0, np.nan, 0.2], repeats=[3, 1, 1, 4]),
        run,
        file=LOG,
    )
    table = joined.table
    assert tuple(table.columns) == LAYER_COLUMNS
    assert table["layer"].tolist() == ["stem", "body", "head"]
    assert table["position"].tolist() == [0, 2, 3]
    assert table["latency_ms"].tolist() == [1.0, 3.0, 4.0]
    np.testing.assert_array_equal(table["latency_std_ms"], [0.1, np.nan, 0.2])
    assert table["repeats"].tolist() == [3, 1, 4]
    assert table["source_line"].tolist() == [10, 12, 13]
    assert set(table["source_file"]) == {"bench/log.txt"}
    assert set(table["origin"]) == {"measured"}
    assert table[list(GEOMETRY_COLUMNS)].iloc[0].to_dict() == CONV
    assert joined.skipped == {"operator maxpool": 1}
    assert joined.findings == ()


def test_names_are_translated_after_exact_ones(tmp_path):
    run = run_with(tmp_path, "geometry: plan.csv\nlayers: {dpu_stem: stem, body: head, last: head}\n")
    joined = join_geometry(timings("dpu_stem", "body", "last"), run, file=LOG)
    assert joined.table["layer"].tolist() == ["stem", "body", "head"]
    assert joined.findings == ()


def test_layers_without_a_partner_are_reported_on_both_sides(run, tmp_path):
    joined = join_geometry(timings("stem", "extra", "head"), run, file=LOG)
    assert joined.table["layer"].tolist() == ["stem", "head"]
    assert joined.skipped == {"not in the description": 1}
    assert codes(joined) == [("layer_not_described", "extra"), ("layer_not_measured", "body")]
    extra, body = joined.findings
    assert extra.message == f"2 ms, not in {tmp_path / 'plan.csv'}: left out"
    assert (extra.file, extra.line) == ("bench/log.txt", 11)
    assert body.message == (
        f"described in {tmp_path / 'plan.csv'}:4, not in the log: fused into a neighbour, or missing"
    )
    assert (body.file, body.line) == ("bench/log.txt", None)


def test_operators_of_the_log_decide_and_contradictions_are_reported(run):
    joined = join_geometry(
        timings(
            "stem", "pool", "body", "head", "soft", operator=["Conv", "conv", "relu", "conv2d", "Softmax"]
        ),
        run,
        file=LOG,
    )
    assert joined.table["layer"].tolist() == ["stem", "head"]
    assert joined.skipped == {"operator maxpool": 1, "operator relu": 1, "operator softmax": 1}
    assert codes(joined) == [("layer_not_described", "pool"), ("layer_not_described", "body")]
    assert "conv in the log, maxpool in" in joined.findings[0].message
    assert "relu in the log, a convolution in" in joined.findings[1].message


def test_another_order_is_reported_and_positions_are_the_description_s(run):
    joined = join_geometry(timings("head", "stem", "body"), run, file=LOG)
    assert joined.table["position"].tolist() == [3, 0, 2]
    assert codes(joined) == [("layer_order", "stem"), ("layer_order", "body")]
    assert "after 'head' in the log, before it in" in joined.findings[0].message


def test_repeated_names_are_runs(run):
    joined = join_geometry(timings("stem", "body", "head", "stem", "body", "head"), run, file=LOG)
    assert joined.table["layer"].tolist() == ["stem", "body", "head"] * 2
    assert joined.findings == ()


def test_bad_latencies_are_rejected_by_row(run):
    latency = [0.0, np.nan, -1.0, np.inf]
    joined = join_geometry(timings("stem", "body", "head", "head", latency_ms=latency), run, file=LOG)
    assert joined.table.empty
    assert joined.skipped == {"below_resolution": 1, "not_positive": 3}
    assert [finding.message for finding in joined.findings] == [
        "latency 0, below the resolution of the log",
        "latency missing, expected a finite number above 0",
        "latency -1 ms, expected a finite number above 0",
        "latency inf ms, expected a finite number above 0",
    ]


def test_every_row_is_kept_or_skipped(run):
    table = timings("stem", "x", "pool", "body", "stem", latency_ms=[1.0, 2.0, 3.0, 0.0, 5.0])
    joined = join_geometry(table, run, file=LOG)
    assert len(joined.table) + sum(joined.skipped.values()) == len(table)


def test_joined_by_order(run):
    joined = join_geometry(
        timings("0", "1", "2", "3", operator=["", "relu", "", "conv"]), run, file=LOG, by="order"
    )
    assert joined.table["layer"].tolist() == ["stem", "body", "head"]
    assert joined.table["latency_ms"].tolist() == [1.0, 3.0, 4.0]
    assert joined.skipped == {"operator relu": 1}


def test_by_order_counts_and_known_names_must_agree(run):
    with pytest.raises(
        InputError, match=r"log\.txt:11: expected 3 convolutions as in .*plan\.csv, .*in order, got 2"
    ):
        join_geometry(timings("0", "1"), run, file=LOG, by="order")
    with pytest.raises(InputError, match=r"log\.txt:11: expected layer 'body' here.*got 'head'"):
        join_geometry(timings("stem", "head", "body"), run, file=LOG, by="order")


def test_two_names_for_one_layer_are_refused(tmp_path):
    run = run_with(tmp_path, "geometry: plan.csv\nlayers: {alias: stem}\n")
    with pytest.raises(
        InputError,
        match=r"log\.txt:11: expected one name for layer 'stem' .*got 'stem' in line 10 and 'alias'",
    ):
        join_geometry(timings("stem", "alias"), run, file=LOG)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ("source: x\n", r"log\.txt: expected the key 'geometry' in .*run\.yaml .*got no such key"),
        ("geometry: nowhere\n", r"run\.yaml:3: expected geometry: .* of .*networks \(tiny\), or .*'nowhere'"),
        ("geometry: gone.csv\n", r"run\.yaml:3: expected geometry: .*got no file 'gone\.csv'"),
        ("geometry:\n  other: tiny\n", r"run\.yaml:3: expected the network 'net' of .*log\.txt.*got other"),
        ("geometry:\n  net: gone.onnx\n", r"run\.yaml:4: expected geometry\.net: .*got no file 'gone\.onnx'"),
        ("geometry: plan.csv\nlayers: {x: y}\n", r"run\.yaml:4: expected layers\.x: a layer of .*got 'y'"),
        ("geometry: 3\n", r"run\.yaml:3: expected geometry"),
        ("geometry: plan.csv\nlayers: {x: 3}\n", r"run\.yaml:4: expected layers\.x: .*string, got 3"),
    ],
)
def test_what_is_wrong_in_run_yaml(tmp_path, keys, message):
    with pytest.raises(InputError, match=message):
        join_geometry(timings("x"), run_with(tmp_path, keys), file=LOG)


def test_descriptions_by_name_and_by_network(tmp_path):
    run = run_with(tmp_path, "geometry: {net: tiny, second: plan.csv}\n")
    assert len(join_geometry(timings("stem", "body", "head"), run, file=LOG).table) == 3
    assert run.descriptions() == [tmp_path / "networks" / "tiny.csv", tmp_path / "plan.csv"]
    assert run.description("second", file=LOG) == tmp_path / "plan.csv"


def test_names_need_a_folder_of_networks(tmp_path):
    run_with(tmp_path, "geometry: tiny\n")
    run = read_run(tmp_path / "run.yaml", PLATFORMS)
    with pytest.raises(InputError, match=r"the name of a network table, or the path of a \.csv or \.onnx"):
        run.descriptions()


def test_a_wrong_description_is_named(tmp_path):
    run = run_with(tmp_path, "geometry: plan.csv\n")
    description().assign(groups=5).to_csv(tmp_path / "plan.csv", index=False)
    with pytest.raises(InputError, match=r"plan\.csv:2: expected input_channels divisible by groups = 5"):
        join_geometry(timings("stem"), run, file=LOG)


def test_a_changed_description_is_read_anew(tmp_path):
    path = tmp_path / "plan.csv"
    description().to_csv(path, index=False)
    assert len(read_description(path)) == 4
    description().iloc[:2].to_csv(path, index=False)
    assert len(read_description(path)) == 2
    with pytest.raises(InputError, match=r"gone\.csv: expected a network table or an ONNX model"):
        read_description(tmp_path / "gone.csv")


def test_without_the_onnx_package_the_error_says_what_to_install(tmp_path, monkeypatch):
    path = tmp_path / "net.onnx"
    path.write_bytes(b"not read")
    monkeypatch.setitem(sys.modules, "onnx", None)
    monkeypatch.delitem(sys.modules, "accelperf.onnx_network", raising=False)
    with pytest.raises(InputError, match=r"net\.onnx: expected .*pip install accelperf\[onnx\]"):
        read_description(path)


def test_no_timings_give_no_rows(run):
    joined = join_geometry(timings(), run, file=LOG)
    assert (len(joined.table), joined.skipped, joined.findings) == (0, {}, ())


def test_readers_that_break_the_interface_are_defects(run):
    with pytest.raises(ValueError, match="timings must have the columns"):
        join_geometry(timings("stem").drop(columns="line"), run, file=LOG)
    with pytest.raises(ValueError, match="one network on one accelerator"):
        join_geometry(timings("stem", "body", network=["a", "b"]), run, file=LOG)
