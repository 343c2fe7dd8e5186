"""Axes, designs, what they need of an FPGA, and the layers that run on them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelperf.errors import InputError
from accelperf.explore.axes import Axis, parse_axes, parse_axis
from accelperf.explore.designs import Designs, design_name, make_designs
from accelperf.explore.resources import buffer_bits, dsp_slices, slices_per_multiplication
from accelperf.explore.workload import Workload, features_on, make_workload
from accelperf.features import network_features
from accelperf.memory.table import MEMORY_COLUMNS
from accelperf.models.predictors import StandardPredictor
from accelperf.networks import read_network
from accelperf.platforms import MemoryPattern, Platform, read_platform
from tests.conftest import ROOT

TABLE4 = read_platform(ROOT / "data/platforms/sim-table4.yaml")
PIXELS = read_platform(ROOT / "data/platforms/cnn-accel-m32p32.yaml")
RESNET = read_network(ROOT / "data/networks/resnet50.csv")
SSD = read_network(ROOT / "data/networks/ssd300.csv")


def designs_of(base: Platform, *axes: str) -> Designs:
    return make_designs(base, parse_axes(list(axes)), None, [56])


def workload_of(**networks: pd.DataFrame) -> Workload:
    return make_workload(networks, TABLE4, StandardPredictor("tiled"))


def hbm_memory(*, origin: str = "measured") -> pd.DataFrame:
    """Return a memory table with contiguous reads of one channel at 14.4 GB/s of peak."""
    rows = []
    for line, (burst, efficiency) in enumerate([(32, 0.5), (64, 0.6), (128, 0.8)], start=1):
        rows.append(
            {
                "board": "board", "memory": "hbm", "channel": 0, "target_channel": 0, "direction": "read",
                "mode": "throughput", "policy": "RGBCG", "switch": "off", "burst_bytes": burst,
                "stride_bytes": burst, "working_set_bytes": 1024, "num_ops": 1000,
                "reported_gbps": 14.4 * efficiency, "corrected_gbps": 14.4 * efficiency,
                "peak_gbps": 14.4, "efficiency": efficiency, "corrections": "", "flags": "",
                "origin": origin, "source_file": "log", "source_line": line,
            }
        )  # fmt: skip
    return pd.DataFrame(rows)[list(MEMORY_COLUMNS)]


def hbm_platform(burst: int | str = 64) -> Platform:
    pattern = MemoryPattern.model_validate(
        {
            "profile": "board/hbm", "direction": "read", "burst_bytes": burst, "stride_bytes": burst,
            "working_set_bytes": 1024, "policy": "RGBCG", "channels": 1,
        }
    )  # fmt: skip
    return TABLE4.model_copy(
        update={
            "name": "hbm",
            "memory_clock_mhz": 450.0,
            "transfer_width_bits": 256,
            "memory_ports": 1,
            "memory_efficiency": pattern,
        }
    )


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("filter_parallelism=16,32,64", (16, 32, 64)),
        ("channel_parallelism=16:64:16", (16, 32, 48, 64)),
        ("channel_parallelism=16:70:16", (16, 32, 48, 64)),
        ("filter_parallelism=16:128:x2", (16, 32, 64, 128)),
        ("filter_parallelism=16:100:*2,100", (16, 32, 64, 100)),
        ("filter_parallelism=32,32,16", (32, 16)),
        ("memory_efficiency=0.1:0.3:0.1", (0.1, 0.2, 0.3)),
        ("logic_clock_mhz=100:100:5", (100.0,)),
        ("memory_ports=1,filter_parallelism", (1, "filter_parallelism")),
        ("memory_profile=a/hbm, b/ddr4", ("a/hbm", "b/ddr4")),
        ("unrolled_loop=channels,pixels", ("channels", "pixels")),
    ],
)
def test_axes_are_read(text: str, values: tuple[object, ...]) -> None:
    assert parse_axis(text) == Axis(text.partition("=")[0], values)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("clock=1", "a name among channel_parallelism, .*got 'clock'"),
        ("filter_parallelism", "VALUES, separated by commas, got 'filter_parallelism'"),
        ("filter_parallelism=1,,2", "VALUES, separated by commas"),
        ("filter_parallelism=1.5", "whole numbers, got '1.5'"),
        ("filter_parallelism=nan", "whole numbers, got 'nan'"),
        ("memory_ports=some", "whole numbers or filter_parallelism, got 'some'"),
        ("logic_clock_mhz=inf", "numbers, got 'inf'"),
        ("filter_parallelism=1:2", "START:STOP:STEP"),
        ("filter_parallelism=1:9:0", "step is above 0"),
        ("filter_parallelism=9:1:1", "stop is not below"),
        ("filter_parallelism=1:9:x1", "factor above 1"),
        ("filter_parallelism=0:9:x2", "from above 0"),
        ("filter_parallelism=1:9:xa", "factor above 1"),
        ("filter_parallelism=1:1000000:1", "at most 10000 values, got 1000000"),
    ],
)
def test_wrong_axes_are_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_axis(text)


def test_axes_that_contradict_are_refused() -> None:
    with pytest.raises(InputError, match="each --vary once, got logic_clock_mhz 2 times"):
        parse_axes(["logic_clock_mhz=1", "logic_clock_mhz=2"])
    with pytest.raises(InputError, match="memory_efficiency or memory_profile, got both varied"):
        parse_axes(["memory_efficiency=0.5", "memory_profile=a"])


@given(st.integers(1, 500), st.integers(0, 500), st.integers(1, 60))
def test_a_range_holds_its_ends(start: int, length: int, step: int) -> None:
    axis = parse_axis(f"filter_parallelism={start}:{start + length}:{step}")
    assert axis.values == tuple(range(start, start + length + 1, step))


def test_designs_are_all_combinations_the_last_axis_fastest() -> None:
    designs = designs_of(TABLE4, "filter_parallelism=16,32", "logic_clock_mhz=100,200.5")
    assert designs.settings == ((16, 100.0), (16, 200.5), (32, 100.0), (32, 200.5))
    assert [platform.name for platform in designs.platforms][1] == "sim-table4+PF16+LCLK200.5"
    assert designs.column("logic_clock_mhz").tolist() == [100.0, 200.5, 100.0, 200.5]
    assert designs.column("memory_ports").tolist() == [64] * 4
    assert not designs.invalid


def test_without_axes_the_base_is_the_design() -> None:
    assert designs_of(TABLE4).platforms == (TABLE4,)


def test_ports_can_follow_the_filters() -> None:
    designs = designs_of(TABLE4, "filter_parallelism=16,32", "memory_ports=filter_parallelism,8")
    assert [platform.ports for platform in designs.platforms] == [16, 8, 32, 8]


def test_invalid_combinations_are_counted_by_reason() -> None:
    designs = designs_of(TABLE4, "filter_parallelism=0,16", "memory_efficiency=0.5,1.5,2")
    assert len(designs) == 1
    # Two each of PF 0 with a wrong efficiency are named for PF, which comes first.
    assert designs.invalid == {
        "filter_parallelism: greater than or equal to 1": 3,
        "memory_efficiency: a number between 1e-06 and 1": 2,
    }


def test_no_valid_or_too_many_combinations_are_refused() -> None:
    with pytest.raises(InputError, match=r"valid platform, got none of 2: filter_parallelism: .* \(2\)"):
        designs_of(TABLE4, "filter_parallelism=0,-1")
    with pytest.raises(InputError, match="at most 100000 combinations, got 1000000"):
        designs_of(TABLE4, "filter_parallelism=1:1000:1", "channel_parallelism=1:1000:1")


def test_a_profile_can_be_varied_only_where_there_is_one() -> None:
    with pytest.raises(InputError, match=r"sim-table4 with a memory profile .* got 0.7"):
        designs_of(TABLE4, "memory_profile=board/hbm")


def test_profiles_are_looked_up_and_checked_against_the_peak() -> None:
    axes = parse_axes(["memory_profile=board/hbm,other", "memory_clock_mhz=450,300"])
    designs = make_designs(hbm_platform(), axes, hbm_memory(), [56, 7])
    assert designs.settings == (("board/hbm", 450.0),)
    assert designs.platforms[0].name == "hbm+board-hbm+MCLK450"
    assert designs.efficiency.tolist() == [[0.6, 0.6]]
    assert sum(designs.invalid.values()) == 3
    reasons = sorted(designs.invalid)
    assert reasons[0] == "memory profile 'board/hbm' of hbm to have 1 x 14.4 = 14.4 GB/s of peak"
    assert designs.invalid[reasons[1]] == 2


def test_a_pattern_that_follows_the_layer_gives_each_width_its_efficiency() -> None:
    axes = parse_axes(["data_width_bits=8,16"])
    designs = make_designs(hbm_platform("row"), axes, hbm_memory(), [128, 64, 32])
    assert designs.widths.tolist() == [32, 64, 128]
    # Twice the bits a value are twice the bytes a row; no burst is longer than 128 bytes.
    assert designs.efficiency.tolist() == [[0.5, 0.6, 0.8], [0.6, 0.8, 0.8]]


def test_names_of_designs_are_names_of_platforms() -> None:
    assert design_name("b", {"memory_profile": "u280/hbm x"}) == "b+u280-hbm-x"


@pytest.mark.parametrize(
    ("bits", "slices"), [(1, 1), (8, 1), (16, 1), (18, 1), (19, 2), (27, 2), (28, 4), (35, 4), (36, 6)]
)
def test_wide_multiplications_take_several_slices(bits: int, slices: int) -> None:
    assert slices_per_multiplication(np.array([bits])).tolist() == [slices]


def test_dsp_slices_by_use() -> None:
    designs = designs_of(TABLE4, "filter_parallelism=15,16", "channel_parallelism=31,32")
    assert dsp_slices(designs).tolist() == [15 * 31, 15 * 32, 16 * 31, 16 * 32]
    assert dsp_slices(designs, "int8-pair").tolist() == [8 * 31, 8 * 32, 8 * 31, 8 * 32]
    assert dsp_slices(designs, "int8-dot3").tolist() == [15 * 11, 15 * 11, 16 * 11, 16 * 11]
    pixels = designs_of(PIXELS, "filter_parallelism=15,16", "channel_parallelism=31,32")
    assert dsp_slices(pixels, "int8-pair").tolist() == [15 * 16, 15 * 16, 16 * 31 // 2, 16 * 16]


def test_dsp_uses_need_what_they_pack() -> None:
    with pytest.raises(InputError, match="one of int8-dot3, int8-pair, one, got 'three'"):
        dsp_slices(designs_of(TABLE4), "three")
    with pytest.raises(InputError, match="data_width_bits of at most 8 for int8-pair, got 16"):
        dsp_slices(designs_of(TABLE4, "data_width_bits=8,16"), "int8-pair")
    with pytest.raises(InputError, match="unrolled channels for int8-dot3"):
        dsp_slices(designs_of(PIXELS), "int8-dot3")


def test_buffer_bits_by_hand() -> None:
    layers = workload_of(resnet50=RESNET).layers
    first = layers[layers["layer"] == "conv1"]
    # conv1: 3 channels of 224 x 224, 64 filters of 7 x 7, stride 2. 4096 pixels of 112 are 36 rows of
    # the output, which need 35 * 2 + 7 = 77 rows of the input.
    expected = 2 * (77 * 224 * 3 * 8 + 49 * 32 * 3 * 8 + 36 * 112 * 32 * 32)
    assert buffer_bits(designs_of(TABLE4, "filter_parallelism=32"), first).tolist() == [expected]
    # The tile is one row at least; an engine that unrolls pixels loads blocks of PF channels.
    pixels = designs_of(PIXELS, "filter_parallelism=2,64")
    assert buffer_bits(pixels, first, tile_pixels=1).tolist() == [
        2 * (7 * 224 * 2 * 8 + 49 * 2 * 2 * 8 + 112 * 2 * 32),
        2 * (7 * 224 * 3 * 8 + 49 * 64 * 3 * 8 + 112 * 64 * 32),
    ]


def test_each_buffer_holds_the_layer_that_needs_most_of_it() -> None:
    layers = workload_of(resnet50=RESNET).layers
    designs = designs_of(TABLE4, "filter_parallelism=16,128", "channel_parallelism=16,128")
    alone = np.array([buffer_bits(designs, layers.iloc[[row]]) for row in range(len(layers))])
    together = buffer_bits(designs, layers)
    assert np.all(together >= alone.max(axis=0))
    assert np.all(together <= alone.sum(axis=0))


def test_distinct_layers_are_counted() -> None:
    workload = workload_of(resnet50=RESNET, ssd300=SSD)
    # Of ssd300's 23 convolutions one is dilated, of which estimators know nothing.
    assert workload.counts.sum(axis=1).tolist() == [53, 22]
    assert [each.layer for each in workload.unsupported["ssd300"]] == ["fc6"]
    # 23 shapes, one of them also as the last layer.
    assert (workload.counts[0] > 0).sum() == 24
    layers = workload.layers
    assert not layers.drop(columns=["network", "layer"]).duplicated().any()
    conv2 = layers[layers["layer"] == "layer1.1.conv2"]
    assert conv2.empty  # the same as layer1.0.conv2
    assert workload.counts[0][(layers["layer"] == "layer1.0.conv2").to_numpy()].tolist() == [3]
    assert layers["is_first"].sum() == layers["is_last"].sum() == 2


def test_fully_connected_layers_count_and_others_are_named() -> None:
    table = RESNET.head(4).copy()
    sizes = [name for name in table.columns if name.endswith(("_height", "_width")) and "pad" not in name]
    table.loc[1, sizes] = 1
    table.loc[1, "operator"] = "gemm"
    table.loc[2, "operator"] = "convtranspose"
    workload = workload_of(net=table)
    assert workload.layers["operator"].tolist() == ["conv", "gemm", "conv"]
    assert workload.layers[["is_first", "is_last"]].to_numpy().tolist() == [[1, 0], [0, 0], [0, 1]]
    assert workload.counts.tolist() == [[1, 1, 1]]
    (left_out,) = workload.unsupported["net"]
    assert left_out.layer == table["layer"][2]
    assert "convtranspose" in left_out.reason
    with pytest.raises(InputError, match="a layer that can be predicted in network 'net'"):
        workload_of(net=table.iloc[[2]])


@pytest.mark.parametrize("base", [TABLE4, hbm_platform(), hbm_platform("row")], ids=["plain", "hbm", "row"])
def test_features_are_those_of_each_platform_alone(base: Platform) -> None:
    table = RESNET[RESNET["input_width"] >= 56].head(6).reset_index(drop=True)
    workload = workload_of(resnet50=table)
    axes = parse_axes(["filter_parallelism=16,32", "logic_clock_mhz=100,200,300"])
    memory = hbm_memory()
    designs = make_designs(base, axes, memory, workload.layers["input_width"].tolist())
    chosen = np.array([1, 4])
    found = features_on(workload, designs, chosen)
    assert len(found) == 2 * len(workload)
    ignored = ["network", "layer", "position", "latency_ms", "latency_std_ms"]
    for part, place in enumerate(chosen):
        alone = network_features("resnet50", table, designs.platforms[place], memory).table
        rows = found.table.iloc[part * len(workload) : (part + 1) * len(workload)]
        expected = alone[alone["layer"].isin(workload.layers["layer"])].reset_index(drop=True)
        pd.testing.assert_frame_equal(
            rows.drop(columns=ignored).reset_index(drop=True), expected.drop(columns=ignored)
        )


def test_the_memory_table_of_the_tests_is_one(tmp_path: Path) -> None:
    from accelperf.memory.table import read_memory, write_memory

    write_memory(hbm_memory(), tmp_path / "memory.csv")
    assert len(read_memory(tmp_path / "memory.csv")) == 3
