r"""A tile-level model of a convolution engine: where the time goes that a datasheet formula misses.

When real profiles are absent, sample logs come from here; everything made with it is SIMULATED. The
engine is the textbook one that `accelperf.analytic` describes: PF filters times PC input channels (or
output pixels) a cycle, double-buffered tiles, DMA through the platform's memory ports. What the model
adds to the formula, and each is a way in which real accelerators are slower than it:

* every convolution streams its input and output, not its weights alone, and streams the input again
  for every group of PF filters, because the buffers hold two tiles and nothing else;
* a burst costs set-up, so short rows reach less of the memory rate than long ones;
* every tile costs pipeline fill and control, every layer a launch;
* measurements scatter, the more so the longer a layer waits for memory.

The formula is a lower bound of the noise-free latency on every layer (a property test holds it so).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt

from accelperf.errors import InputError
from accelperf.parameters import BY_NAME
from accelperf.platforms import Platform
from accelperf.units import MS_PER_US, cycles_to_ms

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class AcceleratorTiming:
    """Constants of the engine; all but the AXI limits are assumptions of the usual order of magnitude.

    Attributes
    ----------
    tile_pixels : int
        Output pixels in a tile [pixel]: 32-bit sums for 64 filters then fill 1 MiB, a common share of
        an FPGA's block RAM. A tile is whole rows of the output, one at least.
    pipeline_fill_cycles : float
        Logic cycles before the first sum of a tile leaves the multipliers and the adder tree [cycle].
    tile_control_cycles : float
        Logic cycles to swap buffers and to queue the next tile's descriptors [cycle].
    layer_launch_us : float
        Time to write a layer's registers and to take its interrupt [us].
    burst_setup_cycles : float
        Memory cycles of a burst that no data hides: descriptor, address phase, turnaround [cycle].
    burst_limit_words, burst_limit_bytes : int
        Longest burst [word], and the boundary that none crosses [byte]; AMBA AXI4 specification.
    noise_sigma : float
        Standard deviation of the log latency of a layer that never waits for memory [1].
    memory_noise_sigma : float
        What waiting for memory all the time adds to it [1]: refresh and arbitration differ by run.
    """

    tile_pixels: int = 4096
    pipeline_fill_cycles: float = 32.0
    tile_control_cycles: float = 40.0
    layer_launch_us: float = 12.0
    burst_setup_cycles: float = 8.0
    burst_limit_words: int = 256
    burst_limit_bytes: int = 4096
    noise_sigma: float = 0.002
    memory_noise_sigma: float = 0.03

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            least = 1 if name in ("tile_pixels", "burst_limit_words", "burst_limit_bytes") else 0
            if not (np.isfinite(value) and value >= least):
                raise InputError(f"{name} of {least} or more", str(value))


DEFAULT_TIMING = AcceleratorTiming()


@dataclass(frozen=True)
class SimulatedLayer:
    """What the model says about one convolution, without noise.

    Attributes
    ----------
    latency_ms : float
        Time of the whole layer [ms].
    compute_ms, memory_ms : float
        Time in which the multipliers are busy, their pipelines' filling included, and in which the
        memory ports are [ms].
    memory_bound_share : float
        Share of the latency in which the engine waits for memory, in [0, 1].
    """

    latency_ms: float
    compute_ms: float
    memory_ms: float
    memory_bound_share: float


def transfer_ms(
    rows: npt.ArrayLike,
    row_bits: npt.ArrayLike,
    platform: Platform,
    memory_efficiency: float,
    timing: AcceleratorTiming = DEFAULT_TIMING,
) -> Floats:
    r"""Return the time that a two-dimensional DMA transfer takes.

    .. math:: t = n \, (w / M_{EFF} + b \, c_{setup}) / M_{CLK}

    with w words a row and port, in b bursts.

    Parameters
    ----------
    rows : array
        n, rows of the transfer, each a separate descriptor.
    row_bits : array
        Length of a row [bit], spread over all ports.
    platform : Platform
        Where ports, width S and clock M_CLK come from.
    memory_efficiency : float
        M_EFF, share of the peak rate that a long transfer reaches [1].
    timing : AcceleratorTiming
        Constants of the engine.

    Returns
    -------
    array
        Time [ms], of the broadcast shape.
    """
    word_bits = platform.transfer_width_bits
    words = np.ceil(np.asarray(row_bits, dtype=float) / (platform.ports * word_bits))
    longest = min(timing.burst_limit_words, max(1, timing.burst_limit_bytes * 8 // word_bits))
    cycles = words / memory_efficiency + np.ceil(words / longest) * timing.burst_setup_cycles
    total: Floats = np.asarray(rows, dtype=float) * cycles * cycles_to_ms(1.0, platform.memory_clock_mhz)
    return total


def _tile_sizes(total: int, size: int) -> Floats:
    """Return the sizes of the tiles that `total` is cut into: `size` each, and what is left."""
    starts = np.arange(0, total, size)
    return np.minimum(size, total - starts).astype(float)


def simulate_layer(
    geometry: Mapping[str, int],
    platform: Platform,
    memory_efficiency: float,
    *,
    is_first: bool = False,
    is_last: bool = False,
    timing: AcceleratorTiming = DEFAULT_TIMING,
) -> SimulatedLayer:
    r"""Return how long one convolution takes on the tile-level engine, without noise.

    Tiles i run in the order groups, row stripes, filters, channels. While tile i is computed, the
    ports load tile i + 1 and store what tile i - 1 finished:

    .. math:: t = t_{launch} + l_1 + \sum_i [\max(c_i, \; l_{i+1} + s_{i-1}) + t_{control}] + s_n

    As in Eq. 7 of the paper, the first layer also waits for all of its weights and input to arrive,
    and the last for all of its output to leave.

    Parameters
    ----------
    geometry : Mapping
        A possible convolution: a value for each of `accelperf.layers.GEOMETRY_COLUMNS`.
    platform : Platform
        The accelerator. Its memory efficiency is not read.
    memory_efficiency : float
        Share of the peak memory rate that long transfers reach, in (0, 1].
    is_first, is_last : bool
        Whether the layer is the first or the last convolution of its network.
    timing : AcceleratorTiming
        Constants of the engine.

    Returns
    -------
    SimulatedLayer
        Latency and what it is made of.

    Raises
    ------
    InputError
        For a memory efficiency outside (0, 1].

    References
    ----------
    Ferianc et al., ARC 2020, Eq. 4-7. Zhang et al., *Optimizing FPGA-based Accelerator Design for
    Deep Convolutional Neural Networks*, FPGA 2015 (double-buffered tiles).
    """
    BY_NAME["memory_efficiency"].check(memory_efficiency)
    g = geometry
    groups, height, width = g["groups"], g["input_height"], g["input_width"]
    kernel = g["kernel_height"] * g["kernel_width"]
    data_bits = platform.data_width_bits

    def transfer(rows: npt.ArrayLike, row_bits: npt.ArrayLike) -> Floats:
        return transfer_ms(rows, row_bits, platform, memory_efficiency, timing)

    # Sizes of the tiles along each loop, on axes [group, stripe, filter tile, channel tile].
    stripe_rows = min(g["output_height"], max(1, timing.tile_pixels // g["output_width"]))
    first_row = np.arange(0, g["output_height"], stripe_rows)
    output_rows = _tile_sizes(g["output_height"], stripe_rows)
    reach = g["dilation_height"] * (g["kernel_height"] - 1) + 1
    top = first_row * g["stride_height"] - g["pad_top"]
    bottom = top + (output_rows - 1) * g["stride_height"] + reach
    input_rows = np.maximum(np.minimum(bottom, height) - np.maximum(top, 0), 0)
    output_rows, input_rows = output_rows[None, :, None, None], input_rows[None, :, None, None]
    unrolls_pixels = platform.unrolled_loop == "pixels"
    # An engine that unrolls pixels takes channels in the blocks of PF that the layer before it wrote.
    channel_block = platform.filter_parallelism if unrolls_pixels else platform.channel_parallelism
    filters = _tile_sizes(g["output_channels"] // groups, platform.filter_parallelism)[None, None, :, None]
    channels = _tile_sizes(g["input_channels"] // groups, channel_block)[None, None, None, :]
    pixels = output_rows * g["output_width"]
    shape = (groups, pixels.size, filters.size, channels.size)

    # A tile that is not full takes as long as a full one: idle multipliers do not save time.
    if unrolls_pixels:
        cycles = np.ceil(pixels / platform.channel_parallelism) * channels * kernel
    else:
        cycles = pixels * kernel * np.ones_like(channels)
    logic_cycle = cycles_to_ms(1.0, platform.logic_clock_mhz)
    compute = np.broadcast_to((cycles + timing.pipeline_fill_cycles) * logic_cycle, shape).ravel()
    load = transfer(1, filters * channels * kernel * data_bits)
    load = np.broadcast_to(load + transfer(input_rows, width * channels * data_bits), shape).ravel()
    store = np.zeros(shape)
    store[..., -1:] = transfer(output_rows, g["output_width"] * filters * data_bits)
    store = store.ravel()

    next_load, previous_store = np.append(load[1:], 0.0), np.append(0.0, store[:-1])
    memory = next_load + previous_store
    control = timing.tile_control_cycles * logic_cycle
    step = np.maximum(compute, memory) + control
    outside = load[0] + store[-1]
    if is_first:
        weight_bits = kernel * g["output_channels"] * g["input_channels"] // groups * data_bits
        outside += transfer(1, weight_bits) + transfer(height, width * g["input_channels"] * data_bits)
    if is_last:
        outside += transfer(g["output_height"], g["output_width"] * g["output_channels"] * data_bits)
    latency = timing.layer_launch_us * MS_PER_US + outside + step.sum()
    return SimulatedLayer(
        latency_ms=float(latency),
        compute_ms=float(compute.sum()),
        memory_ms=float(outside + memory.sum()),
        memory_bound_share=float((outside + step[memory > compute].sum()) / latency),
    )


def noise_sigma(memory_bound_share: float, timing: AcceleratorTiming = DEFAULT_TIMING) -> float:
    """Return the standard deviation of the log latency for a share of waiting for memory [1]."""
    return timing.noise_sigma + timing.memory_noise_sigma * memory_bound_share
