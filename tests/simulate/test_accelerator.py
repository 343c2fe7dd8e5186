"""The tile-level accelerator: by hand, against a plain loop, and properties that hold for any layer."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelperf.analytic import latency_ms, latency_terms
from accelperf.errors import InputError
from accelperf.layers import GEOMETRY_COLUMNS, check_geometry, output_size
from accelperf.networks import read_network
from accelperf.platforms import Platform, read_platforms
from accelperf.simulate.accelerator import (
    DEFAULT_TIMING,
    AcceleratorTiming,
    noise_sigma,
    simulate_layer,
    transfer_ms,
)
from tests.tolerances import EXACT_ALGEBRA

DATA = Path(__file__).parents[2] / "data"
PLATFORMS = read_platforms(DATA / "platforms")
TABLE4 = PLATFORMS["sim-table4"]
HBM = PLATFORMS["sim-hbm"]
HBM_EFFICIENCY = 12.9 / 14.4

Geometry = dict[str, int]
any_machine = settings(deadline=None)
IDEAL = AcceleratorTiming(
    pipeline_fill_cycles=0,
    tile_control_cycles=0,
    layer_launch_us=0,
    burst_setup_cycles=0,
)


def convolution(size: int, channels: int, filters: int, kernel: int, *, groups: int = 1) -> Geometry:
    """Return a square convolution of stride 1 that keeps its size."""
    pad = kernel // 2
    geometry = {"input_channels": channels, "output_channels": filters, "groups": groups}
    for axis, before, after in [("height", "top", "bottom"), ("width", "left", "right")]:
        geometry |= {f"input_{axis}": size, f"output_{axis}": size, f"kernel_{axis}": kernel}
        geometry |= {f"stride_{axis}": 1, f"dilation_{axis}": 1}
        geometry |= {f"pad_{before}": pad, f"pad_{after}": pad}
    return geometry


def latency_inputs(
    geometry: Geometry,
    platform: Platform,
    memory_efficiency: float,
    *,
    is_first: bool = False,
    is_last: bool = False,
) -> dict[str, np.ndarray]:
    own = platform.model_dump()
    names = ("filter_parallelism", "channel_parallelism", "logic_clock_mhz", "memory_clock_mhz")
    inputs = geometry | {name: own[name] for name in (*names, "transfer_width_bits", "data_width_bits")}
    inputs |= {
        "memory_efficiency": memory_efficiency,
        "memory_ports": platform.ports,
        "unrolls_pixels": float(platform.unrolled_loop == "pixels"),
        "is_first": float(is_first),
        "is_last": float(is_last),
    }
    return {name: np.asarray(value, dtype=float) for name, value in inputs.items()}


@st.composite
def convolutions(draw: st.DrawFn) -> Geometry:
    geometry = {"groups": draw(st.sampled_from([1, 1, 2, 3]))}
    for name in ("input_channels", "output_channels"):
        geometry[name] = geometry["groups"] * draw(st.integers(1, 70))
    for axis, before, after in [("height", "top", "bottom"), ("width", "left", "right")]:
        kernel, dilation = draw(st.integers(1, 5)), draw(st.integers(1, 3))
        stride = draw(st.integers(1, 3))
        pads = draw(st.integers(0, kernel)), draw(st.integers(0, kernel))
        size = draw(st.integers(max(1, dilation * (kernel - 1) + 1 - sum(pads)), 60))
        geometry |= {f"input_{axis}": size, f"kernel_{axis}": kernel, f"stride_{axis}": stride}
        geometry |= {f"pad_{before}": pads[0], f"pad_{after}": pads[1], f"dilation_{axis}": dilation}
        geometry[f"output_{axis}"] = output_size(size, kernel, stride, *pads, dilation)
    check_geometry(geometry)
    return geometry


@st.composite
def accelerators(draw: st.DrawFn) -> Platform:
    clock = st.floats(50, 1000)
    return Platform(
        name="any",
        filter_parallelism=draw(st.integers(1, 80)),
        channel_parallelism=draw(st.integers(1, 80)),
        unrolled_loop=draw(st.sampled_from(["channels", "pixels"])),
        logic_clock_mhz=draw(clock),
        memory_clock_mhz=draw(clock),
        transfer_width_bits=draw(st.sampled_from([32, 64, 512])),
        data_width_bits=draw(st.sampled_from([1, 8, 16])),
        memory_ports=draw(st.sampled_from([None, 1, 2, 5])),
        memory_efficiency=1.0,
    )


efficiencies = st.floats(0.05, 1.0)
positions = st.fixed_dictionaries({"is_first": st.booleans(), "is_last": st.booleans()})
timings = st.builds(
    AcceleratorTiming,
    tile_pixels=st.sampled_from([1, 16, 100, 4096]),
    pipeline_fill_cycles=st.floats(0, 100),
    tile_control_cycles=st.floats(0, 100),
    layer_launch_us=st.floats(0, 20),
    burst_setup_cycles=st.floats(0, 30),
)


def test_transfer_by_hand() -> None:
    # A row of 448 bytes on one port of 32 bytes is 14 words: 14 / 0.5 + 8 cycles at 450 MHz, 7 times.
    assert transfer_ms(7, 448 * 8, HBM, 0.5) == pytest.approx(7 * 36 / 450e3, rel=EXACT_ALGEBRA)
    # 6000 bytes are 188 words, more than the 128 that fit between two boundaries of 4 KiB.
    assert transfer_ms(1, 6000 * 8, HBM, 1.0) == pytest.approx((188 + 2 * 8) / 450e3, rel=EXACT_ALGEBRA)
    # 64 ports of 8 bytes: 512 bytes a word, and a burst has 256 of them at most.
    assert transfer_ms(1, 257 * 512 * 8, TABLE4, 1.0) == pytest.approx(
        (257 + 2 * 8) / 200e3, rel=EXACT_ALGEBRA
    )


def test_long_bursts_approach_the_memory_efficiency_and_short_ones_do_not() -> None:
    def reached(row_bytes: int) -> float:
        gbps = row_bytes / (transfer_ms(1, row_bytes * 8, HBM, HBM_EFFICIENCY) * 1e6)
        return gbps / HBM.memory_peak_gbps

    rates = [reached(2**n) for n in range(5, 13)]
    assert rates == sorted(rates)
    assert rates[0] < 0.2 * HBM_EFFICIENCY < 0.9 * HBM_EFFICIENCY < rates[-1] < HBM_EFFICIENCY


def test_one_tile_by_hand() -> None:
    # conv9_1 of SSD300 on sim-table4, channels and filters cut to one tile: 9 pixels of 64 channels.
    layer = simulate_layer(convolution(3, 64, 64, 1), TABLE4, 0.7)
    compute = 9 + 32
    weights = 4096 / 512 / 0.7 + 8  # 4096 bytes in words of 512
    rows = 3 * (1 / 0.7 + 8)  # 192 bytes in a word of 512
    expected_cycles = weights + rows + compute + 40 + rows
    assert layer.latency_ms == pytest.approx(0.012 + expected_cycles / 200e3, rel=EXACT_ALGEBRA)
    assert layer.compute_ms == pytest.approx(compute / 200e3, rel=EXACT_ALGEBRA)
    assert layer.memory_ms == pytest.approx((weights + 2 * rows) / 200e3, rel=EXACT_ALGEBRA)
    assert layer.memory_bound_share == pytest.approx(layer.memory_ms / layer.latency_ms, rel=EXACT_ALGEBRA)


def test_first_and_last_layer_wait_for_all_of_their_data() -> None:
    geometry = convolution(56, 64, 128, 3)
    layers = {
        (first, last): simulate_layer(geometry, HBM, HBM_EFFICIENCY, is_first=first, is_last=last).latency_ms
        for first in (False, True)
        for last in (False, True)
    }
    terms = latency_terms(latency_inputs(geometry, HBM, HBM_EFFICIENCY))
    first, last = layers[True, False] - layers[False, False], layers[False, True] - layers[False, False]
    assert terms.load < first < 1.2 * terms.load
    assert terms.store < last < 1.2 * terms.store
    assert layers[True, True] == pytest.approx(layers[False, False] + first + last, rel=EXACT_ALGEBRA)


def test_ideal_engine_reaches_the_formula_where_compute_dominates() -> None:
    # conv4_2 of SSD300: 4 ms of multiplication; what remains are the first load and the last store.
    geometry = convolution(38, 512, 512, 3)
    layer = simulate_layer(geometry, TABLE4, 0.7, timing=IDEAL)
    formula = latency_ms(latency_inputs(geometry, TABLE4, 0.7), "tiled")
    assert formula < layer.latency_ms < 1.002 * formula


@pytest.mark.parametrize("platform", ["sim-table4", "sim-hbm", "cnn-accel-m32p64"])
@pytest.mark.parametrize("network", ["resnet50", "yolov3", "ssd300"])
def test_tiled_formula_is_below_on_every_layer_of_the_sample_networks(network: str, platform: str) -> None:
    table = read_network(DATA / "networks" / f"{network}.csv")
    for index, row in table[list(GEOMETRY_COLUMNS)].iterrows():
        geometry = {str(name): int(value) for name, value in row.items()}
        layer = simulate_layer(geometry, PLATFORMS[platform], 0.9)
        formula = latency_ms(latency_inputs(geometry, PLATFORMS[platform], 0.9), "tiled")
        assert formula <= layer.latency_ms, table.loc[index, "layer"]


def loop_over_tiles(
    geometry: Geometry, platform: Platform, efficiency: float, timing: AcceleratorTiming
) -> float:
    """Return the latency [ms] of the same engine, one tile after the other in plain Python."""
    g = geometry
    block = platform.channel_parallelism
    if platform.unrolled_loop == "pixels":
        block = platform.filter_parallelism
    filters_left = g["output_channels"] // g["groups"]
    channels_left = g["input_channels"] // g["groups"]
    stripe = min(g["output_height"], max(1, timing.tile_pixels // g["output_width"]))
    word = platform.ports * platform.transfer_width_bits
    kernel = g["kernel_height"] * g["kernel_width"]

    def move(rows: int, elements: int) -> float:
        words = math.ceil(elements * platform.data_width_bits / word)
        longest = min(timing.burst_limit_words, timing.burst_limit_bytes * 8 // platform.transfer_width_bits)
        cycles = words / efficiency + math.ceil(words / longest) * timing.burst_setup_cycles
        return rows * cycles / platform.memory_clock_mhz / 1e3

    tiles = []
    for _ in range(g["groups"]):
        for row in range(0, g["output_height"], stripe):
            rows = min(stripe, g["output_height"] - row)
            wanted = {
                y * g["stride_height"] + k * g["dilation_height"] - g["pad_top"]
                for y in (row, row + rows - 1)
                for k in (0, g["kernel_height"] - 1)
            }
            input_rows = len(range(max(0, min(wanted)), min(g["input_height"] - 1, max(wanted)) + 1))
            pixels = rows * g["output_width"]
            for f in range(0, filters_left, platform.filter_parallelism):
                filters = min(platform.filter_parallelism, filters_left - f)
                for c in range(0, channels_left, block):
                    channels = min(block, channels_left - c)
                    cycles = pixels * kernel
                    if platform.unrolled_loop == "pixels":
                        cycles = math.ceil(pixels / platform.channel_parallelism) * kernel * channels
                    compute = (cycles + timing.pipeline_fill_cycles) / platform.logic_clock_mhz / 1e3
                    load = move(1, filters * channels * kernel) + move(
                        input_rows, g["input_width"] * channels
                    )
                    is_complete = c + channels == channels_left
                    store = move(rows, g["output_width"] * filters) if is_complete else 0.0
                    tiles.append((compute, load, store))
    total = timing.layer_launch_us / 1e3 + tiles[0][1] + tiles[-1][2]
    for i, (compute, _, _) in enumerate(tiles):
        load = tiles[i + 1][1] if i + 1 < len(tiles) else 0.0
        store = tiles[i - 1][2] if i else 0.0
        total += max(compute, load + store) + timing.tile_control_cycles / platform.logic_clock_mhz / 1e3
    return total


@any_machine
@given(geometry=convolutions(), platform=accelerators(), efficiency=efficiencies, timing=timings)
def test_equals_a_plain_loop_over_the_tiles(
    geometry: Geometry, platform: Platform, efficiency: float, timing: AcceleratorTiming
) -> None:
    layer = simulate_layer(geometry, platform, efficiency, timing=timing)
    expected = loop_over_tiles(geometry, platform, efficiency, timing)
    assert layer.latency_ms == pytest.approx(expected, rel=EXACT_ALGEBRA)


@any_machine
@given(
    geometry=convolutions(),
    platform=accelerators(),
    efficiency=efficiencies,
    position=positions,
    timing=timings,
)
def test_never_below_a_bound(
    geometry: Geometry,
    platform: Platform,
    efficiency: float,
    position: dict[str, bool],
    timing: AcceleratorTiming,
) -> None:
    layer = simulate_layer(geometry, platform, efficiency, **position, timing=timing)
    slack = 1 + EXACT_ALGEBRA
    inputs = latency_inputs(geometry, platform, efficiency, **position)
    terms = latency_terms(inputs, "tiled")
    for bound in (layer.compute_ms, layer.memory_ms, terms.compute, terms.weights, terms.store):
        assert bound <= layer.latency_ms * slack
    assert latency_ms(inputs, "tiled") <= layer.latency_ms * slack
    assert 0 <= layer.memory_bound_share <= 1


@any_machine
@given(
    geometry=convolutions(),
    platform=accelerators(),
    efficiency=efficiencies,
    position=positions,
    field=st.sampled_from(
        ["pipeline_fill_cycles", "tile_control_cycles", "layer_launch_us", "burst_setup_cycles"]
    ),
    factor=st.floats(1, 10),
)
def test_faster_parts_never_make_a_layer_slower(
    geometry: Geometry,
    platform: Platform,
    efficiency: float,
    position: dict[str, bool],
    field: str,
    factor: float,
) -> None:
    def latency(
        platform: Platform = platform,
        efficiency: float = efficiency,
        timing: AcceleratorTiming = DEFAULT_TIMING,
    ) -> float:
        return simulate_layer(geometry, platform, efficiency, **position, timing=timing).latency_ms

    slack = 1 + EXACT_ALGEBRA
    now = latency()
    assert now <= latency(efficiency=efficiency / factor) * slack
    for clock in ("logic_clock_mhz", "memory_clock_mhz"):
        slower = platform.model_copy(update={clock: getattr(platform, clock) / factor})
        assert now <= latency(platform=slower) * slack
    more = replace(DEFAULT_TIMING, **{field: factor * getattr(DEFAULT_TIMING, field)})
    assert now <= latency(timing=more) * slack


@any_machine
@given(geometry=convolutions(), platform=accelerators(), efficiency=efficiencies, factor=st.floats(0.1, 10))
def test_all_clocks_together_scale_time(
    geometry: Geometry, platform: Platform, efficiency: float, factor: float
) -> None:
    timing = replace(DEFAULT_TIMING, layer_launch_us=0.0)
    clocks = {name: getattr(platform, name) * factor for name in ("logic_clock_mhz", "memory_clock_mhz")}
    scaled = platform.model_copy(update=clocks)
    layer = simulate_layer(geometry, platform, efficiency, timing=timing)
    other = simulate_layer(geometry, scaled, efficiency, timing=timing)
    assert other.latency_ms * factor == pytest.approx(layer.latency_ms, rel=EXACT_ALGEBRA)


def test_groups_run_one_after_the_other() -> None:
    whole, grouped = convolution(28, 64, 64, 3), convolution(28, 256, 256, 3, groups=4)
    timing = replace(DEFAULT_TIMING, layer_launch_us=0.0)
    one = simulate_layer(whole, TABLE4, 0.7, timing=timing)
    four = simulate_layer(grouped, TABLE4, 0.7, timing=timing)
    assert four.compute_ms == pytest.approx(4 * one.compute_ms, rel=EXACT_ALGEBRA)
    assert four.memory_ms == pytest.approx(4 * one.memory_ms, rel=EXACT_ALGEBRA)
    assert four.latency_ms <= 4 * one.latency_ms


@pytest.mark.parametrize("efficiency", [0.0, -0.5, 1.1, math.nan])
def test_impossible_memory_efficiency(efficiency: float) -> None:
    with pytest.raises(InputError, match="memory_efficiency"):
        simulate_layer(convolution(14, 64, 64, 3), TABLE4, efficiency)


@pytest.mark.parametrize(
    ("field", "value"),
    [("tile_pixels", 0), ("burst_setup_cycles", -1.0), ("noise_sigma", math.nan), ("burst_limit_words", 0)],
)
def test_impossible_timing(field: str, value: float) -> None:
    with pytest.raises(InputError, match=f"expected {field} of"):
        AcceleratorTiming(**{field: value})


def test_noise_grows_with_the_wait_for_memory() -> None:
    assert noise_sigma(0.0) == DEFAULT_TIMING.noise_sigma
    assert noise_sigma(1.0) == DEFAULT_TIMING.noise_sigma + DEFAULT_TIMING.memory_noise_sigma
    assert noise_sigma(0.0) < noise_sigma(0.5) < noise_sigma(1.0)
