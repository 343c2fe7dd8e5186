"""The feature matrix: joined, checked at the door, and the same bytes every time."""

from __future__ import annotations

import inspect

import numpy as np
import pandas as pd
import pytest

from accelperf.analytic import LATENCY_INPUTS, latency_ms
from accelperf.errors import InputError
from accelperf.features import (
    FEATURE_COLUMNS,
    FeatureMatrix,
    build_features,
    left_out,
    network_features,
    read_features,
    write_features,
)
from accelperf.layers import shape_key
from accelperf.networks import NETWORK_COLUMNS
from accelperf.parameters import PARAMETER_NAMES
from tests.logs.samples import LARGE, PLATFORMS, SMALL
from tests.test_layers import layers

RTOL_EXACT = 1e-15


def table() -> pd.DataFrame:
    """Return the layer table of a network of three convolutions on two accelerators, unordered."""
    small = pd.concat(
        [
            layers(layer=["last", "first"], position=[4, 0]),
            layers(layer=["middle", "other"], position=[2, 1], network=["net", "single"]),
        ]
    )
    large = small.assign(accelerator="large", origin="simulated")
    return pd.concat([small.assign(accelerator="small"), large], ignore_index=True)


@pytest.fixture
def features() -> FeatureMatrix:
    """Return the features of all layers of `table`."""
    return build_features(table(), PLATFORMS, None, origins=["measured", "simulated"])


def test_columns_of_the_contract(features):
    assert ", ".join(FEATURE_COLUMNS) == (
        "accelerator, network, layer, position, is_first, is_last, kernel_height, kernel_width, "
        "input_height, input_width, input_channels, output_height, output_width, output_channels, "
        "filter_parallelism, channel_parallelism, logic_clock_mhz, memory_clock_mhz, memory_efficiency, "
        "transfer_width_bits, data_width_bits, stride_height, stride_width, pad_top, pad_bottom, pad_left, "
        "pad_right, groups, memory_ports, unrolled_loop, origin, latency_ms, latency_std_ms, repeats"
    )
    assert tuple(features.table.columns) == FEATURE_COLUMNS


def test_order_and_ends(features):
    rows = features.table
    assert len(features) == 8
    assert rows["accelerator"].tolist() == ["large"] * 4 + ["small"] * 4
    assert rows["layer"].tolist() == ["first", "middle", "last", "other"] * 2
    assert rows["is_first"].tolist() == [1, 0, 0, 1] * 2
    assert rows["is_last"].tolist() == [0, 0, 1, 1] * 2


def test_platforms_are_joined(features):
    large, small = features.table.iloc[0], features.table.iloc[4]
    for row, platform in ((large, LARGE), (small, SMALL)):
        assert row["filter_parallelism"] == platform.filter_parallelism
        assert row["channel_parallelism"] == platform.channel_parallelism
        assert row["logic_clock_mhz"] == platform.logic_clock_mhz
        assert row["memory_clock_mhz"] == platform.memory_clock_mhz
        assert row["memory_efficiency"] == platform.memory_efficiency
        assert row["transfer_width_bits"] == platform.transfer_width_bits
        assert row["data_width_bits"] == platform.data_width_bits
        assert row["memory_ports"] == platform.ports
        assert row["unrolled_loop"] == "pixels"


def test_arrays(features):
    assert features.parameters.shape == (8, 15)
    assert features.parameters.dtype == np.float64
    np.testing.assert_array_equal(
        features.parameters[0], [7, 7, 224, 224, 3, 112, 112, 64, 16, 4, 400, 100, 0.5, 64, 8]
    )
    inputs = features.latency_inputs()
    assert tuple(inputs) == LATENCY_INPUTS
    assert all(values.shape == (8,) and values.dtype == np.float64 for values in inputs.values())
    assert inputs["unrolls_pixels"].tolist() == [1.0] * 8
    for index, name in enumerate(PARAMETER_NAMES):
        np.testing.assert_array_equal(inputs[name], features.parameters[:, index])
    assert features.shapes.tolist() == shape_key(features.table).tolist()
    assert features.has_latency
    np.testing.assert_allclose(features.latency_ms[:2], [1 / 3, 0.1], rtol=RTOL_EXACT)


def test_spread_and_number_of_runs_are_passed_through(features, tmp_path):
    rows = features.table.set_index(["accelerator", "layer"])
    given = table().set_index(["accelerator", "layer"])
    expected = given.loc[rows.index, "latency_std_ms"]
    np.testing.assert_array_equal(features.latency_std_ms, expected.to_numpy())
    assert np.isnan(features.latency_std_ms).sum() == 4
    assert set(features.latency_std_ms[~np.isnan(features.latency_std_ms)]) == {0.01}
    assert features.repeats.tolist() == given.loc[rows.index, "repeats"].tolist()
    assert features.take(np.array([1])).repeats.shape == (1,)
    path = tmp_path / "features.csv"
    write_features(features, path)
    lines = path.read_text().splitlines()
    assert [line.split(",")[-2:] for line in lines[1:3]] == [["0.01", "4"], ["", "1"]]


def test_tables_without_runs_are_of_one_run_each(features, tmp_path):
    old = features.table.drop(columns=["latency_std_ms", "repeats"])
    path = tmp_path / "features.csv"
    old.to_csv(path, index=False)
    for matrix in (FeatureMatrix(old), read_features(path)):
        assert np.isnan(matrix.latency_std_ms).all()
        assert matrix.repeats.tolist() == [1] * 8
        assert tuple(matrix.table.columns) == FEATURE_COLUMNS
    bad = features.table.assign(repeats=0)
    with pytest.raises(InputError, match=r"'repeats'.*got 0"):
        FeatureMatrix(bad)
    with pytest.raises(InputError, match=r"'latency_std_ms'.*got -1"):
        FeatureMatrix(features.table.assign(latency_std_ms=-1.0))


def test_channels_are_unrolled_unless_pixels_are():
    platforms = {"small": SMALL.model_copy(update={"unrolled_loop": "channels", "memory_ports": None})}
    matrix = build_features(table(), platforms, None, origins=["measured"])
    assert matrix.latency_inputs()["unrolls_pixels"].tolist() == [0.0] * 4
    assert matrix.latency_inputs()["memory_ports"].tolist() == [8.0] * 4


def test_rows_are_taken_by_position_or_mask(features):
    taken = features.take(np.array([7, 2]))
    assert taken.table["layer"].tolist() == ["other", "last"]
    assert taken.table.index.tolist() == [0, 1]
    mask = (features.table["network"] == "single").to_numpy()
    assert features.take(mask).table["accelerator"].tolist() == ["large", "small"]
    assert len(features.take(np.array([], dtype=int))) == 0
    assert len(features) == 8


def test_ends_stay_those_of_the_network_when_rows_are_left_out():
    mixed = table()
    mixed.loc[mixed["layer"] == "first", "origin"] = "estimated"
    matrix = build_features(mixed, PLATFORMS, None, origins=["measured"])
    assert matrix.table["layer"].tolist() == ["middle", "last", "other"]
    assert matrix.table["is_first"].tolist() == [0, 0, 1]
    counts = left_out(mixed, origins=["measured"])
    assert counts == {"origin estimated": 2, "origin simulated": 3}


def test_accelerators_are_chosen():
    matrix = build_features(
        table(), PLATFORMS, None, origins=["measured", "simulated"], accelerators=["large"]
    )
    assert set(matrix.table["accelerator"]) == {"large"}
    assert left_out(table(), origins=["measured", "simulated"], accelerators=["large"]) == {
        "accelerator small": 4
    }


def test_nothing_left_or_unknown_names_are_refused():
    with pytest.raises(InputError, match="layers of origin estimated, got none among 8"):
        build_features(table(), PLATFORMS, None, origins=["estimated"])
    with pytest.raises(InputError, match="layers of origin measured on large, got none among 8"):
        build_features(table(), PLATFORMS, None, origins=["measured"], accelerators=["large"])
    with pytest.raises(InputError, match="an origin, one of estimated, measured, simulated, got 'guessed'"):
        build_features(table(), PLATFORMS, None, origins=["guessed"])
    with pytest.raises(
        InputError, match="an accelerator of the layer table, one of large, small, got 'huge'"
    ):
        build_features(table(), PLATFORMS, None, origins=["measured"], accelerators=["huge"])
    with pytest.raises(InputError, match=r"log\.csv:\d: expected a platform, one of small, got 'large'"):
        build_features(table(), {"small": SMALL}, None, origins=["simulated"])


def test_sizes_out_of_bounds_are_refused_where_they_were_read():
    huge = table()
    huge.loc[1, "input_channels"] = 70_000
    with pytest.raises(
        InputError, match=r"log\.csv:3: expected input_channels between 1 and 65536 for layer"
    ):
        build_features(huge, PLATFORMS, None, origins=["measured"])


def test_efficiency_comes_from_the_memory_module(monkeypatch):
    from accelperf.memory import profiles

    memory = pd.DataFrame({"board": ["u280"]})
    seen = []

    def efficiency(platform, table):
        seen.append((platform.name, table is memory))
        return profiles.Efficiency(value=0.25, peak_gbps=1.0, source_rows=())

    assert list(inspect.signature(profiles.platform_efficiency).parameters)[:2] == ["platform", "memory"]
    monkeypatch.setattr("accelperf.features.platform_efficiency", efficiency)
    matrix = build_features(table(), PLATFORMS, memory, origins=["measured", "simulated"])
    assert set(matrix.table["memory_efficiency"]) == {0.25}
    assert sorted(seen) == [("large", True), ("small", True)]


def test_a_pattern_that_follows_the_layer_gives_each_its_efficiency(monkeypatch):
    from accelperf.memory import profiles
    from accelperf.platforms import MemoryPattern

    follows = MemoryPattern(
        profile="u280/hbm", direction="read", burst_bytes="row", stride_bytes="row",
        working_set_bytes=8192, policy="RGBCG", channels=1,
    )  # fmt: skip
    wide = table().assign(input_width=28, output_width=28, pad_left=1, pad_right=1)
    wide.loc[wide["layer"] == "middle", ["input_width", "output_width"]] = 56
    platforms = {name: p.model_copy(update={"data_width_bits": 16}) for name, p in PLATFORMS.items()}
    platforms["large"] = platforms["large"].model_copy(update={"memory_efficiency": follows})
    monkeypatch.setattr(
        "accelperf.features.layer_efficiency",
        lambda platform, memory, row_bytes: profiles.Efficiency(row_bytes / 1000, 1.0),
    )
    matrix = build_features(wide, platforms, pd.DataFrame(), origins=["measured", "simulated"]).table
    expected = np.where(matrix["accelerator"] == "large", matrix["input_width"] * 2 / 1000, 0.5)
    assert matrix["memory_efficiency"].tolist() == expected.tolist()
    assert matrix["memory_efficiency"].nunique() == 3


def test_written_features_read_back_and_are_the_same_bytes(features, tmp_path):
    first, second = tmp_path / "a" / "features.csv", tmp_path / "features.csv"
    write_features(features, first)
    write_features(build_features(table().sample(frac=1, random_state=1), PLATFORMS, None,
                                  origins=["simulated", "measured"]), second)  # fmt: skip
    assert first.read_bytes() == second.read_bytes()
    again = read_features(first)
    pd.testing.assert_frame_equal(again.table, features.table, check_exact=True)
    shuffled = pd.read_csv(first, dtype=str, keep_default_na=False)[list(reversed(FEATURE_COLUMNS))]
    shuffled.to_csv(second, index=False)
    pd.testing.assert_frame_equal(read_features(second).table, features.table, check_exact=True)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda t: t.drop(columns="groups"), "a column 'groups'"),
        (lambda t: t.assign(colour="red"), r"\.csv:1: expected columns among accelerator, .*'colour'"),
        (lambda t: t.assign(latency_ms=["0.1", "nan", *t["latency_ms"][2:]]), r"\.csv:3: .*latency_ms.*nan"),
        (lambda t: t.assign(latency_ms=["0.1", "", *t["latency_ms"][2:]]), r"\.csv:3: .*latency_ms.*nothing"),
        (lambda t: t.assign(latency_ms=""), r"\.csv:2: .*latency_ms: a number, got nothing"),
        (lambda t: t.assign(latency_ms="-1"), r"\.csv:2: .*'latency_ms'.*got"),
        (lambda t: t.assign(memory_efficiency="1.5"), r"\.csv:2: .*'memory_efficiency' to satisfy in_range"),
        (lambda t: t.assign(logic_clock_mhz="0"), r"\.csv:2: .*'logic_clock_mhz' to satisfy in_range"),
        (lambda t: t.assign(kernel_height="3.5"), r"\.csv:2: .*kernel_height: a whole number, got '3.5'"),
        (lambda t: t.assign(unrolled_loop="rows"), r"\.csv:2: .*'unrolled_loop'.*got 'rows'"),
        (lambda t: t.iloc[[0, 0]], "expected"),
        (lambda t: t.iloc[:0], "at least one row, got none"),
    ],
)  # fmt: skip
def test_files_that_do_not_fit_are_refused(features, tmp_path, edit, message):
    path = tmp_path / "features.csv"
    write_features(features, path)
    edit(pd.read_csv(path, dtype=str, keep_default_na=False)).to_csv(path, index=False)
    with pytest.raises(InputError, match=message) as caught:
        read_features(path)
    assert "\n" not in str(caught.value)


def test_a_matrix_keeps_its_own_table(features):
    given = features.table.copy()
    matrix = FeatureMatrix(given)
    given.loc[0, "latency_ms"] = -1.0
    assert matrix.latency_ms[0] > 0


def network() -> pd.DataFrame:
    """Return a network of two convolutions around a pooling layer."""
    rows = layers(layer=["conv1", "conv2"])
    pool = rows.iloc[[0]].assign(layer="pool", operator="maxpool")
    return pd.concat([rows.iloc[[0]], pool, rows.iloc[[1]]])[list(NETWORK_COLUMNS)].reset_index(drop=True)


def test_a_network_to_predict_for():
    matrix = network_features("net", network(), SMALL)
    assert matrix.table["layer"].tolist() == ["conv1", "conv2"]
    assert matrix.table["position"].tolist() == [0, 2]
    assert matrix.table["is_first"].tolist() == [1, 0]
    assert matrix.table["is_last"].tolist() == [0, 1]
    assert not matrix.has_latency
    assert (latency_ms(matrix.latency_inputs()) > 0).all()
    with pytest.raises(InputError, match="features with latencies"):
        _ = matrix.latency_ms
    with pytest.raises(InputError, match="at least one convolution in network 'net', got none among 3"):
        network_features("net", network().assign(operator="relu"), SMALL)
    with pytest.raises(InputError, match="net: expected kernel_width between 1 and 1024 for layer 'conv1'"):
        network_features("net", network().assign(kernel_width=2000), SMALL)
