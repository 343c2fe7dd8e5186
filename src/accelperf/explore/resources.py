r"""What a design needs of an FPGA: DSP slices of its multipliers, and bits of its buffers.

Both are counts of the textbook engine that `accelperf.simulate.accelerator` describes: PF filters times
PC input channels (or output pixels) a cycle, on double-buffered tiles. Addresses, pooling, controllers
and the shell come on top, and synthesis rounds buffers up to whole block RAMs; the counts are lower
bounds that rank designs, not a synthesis report.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from accelperf.errors import InputError, known
from accelperf.explore.designs import Designs

Integers = NDArray[np.int64]
DspUse = Literal["one", "int8-pair", "int8-dot3"]
DSP_USES: tuple[str, ...] = get_args(DspUse)
"""How multiplications are put into DSP slices."""

PACKED_BITS = 8
"""Widest numbers of which several multiplications fit into a DSP slice."""
WIDE_PORT_BITS, NARROW_PORT_BITS = 27, 18
"""Ports of the two's complement multiplier of a DSP48E2 (UG579)."""
SUM_BITS = 32
"""Width of a partial sum in the output buffer, as is usual for 8-bit data [bit]."""
TILE_PIXELS = 4096
"""Output pixels of a tile, whole rows, one at least; that of the SIMULATED engine
(`accelperf.simulate.accelerator.AcceleratorTiming`)."""
COPIES = 2
"""Double buffering: one tile is computed while the next is loaded (Zhang et al., *Optimizing FPGA-based
Accelerator Design for Deep Convolutional Neural Networks*, FPGA 2015)."""


def slices_per_multiplication(data_width_bits: Integers) -> Integers:
    r"""Return the DSP48E2 slices that one signed multiplication takes.

    .. math:: \lceil (DW - 1) / 26 \rceil \cdot \lceil (DW - 1) / 17 \rceil

    A product of wide numbers is the sum of products of their parts; each part has one bit of its port
    less than the whole, for the sign. 1 up to 18 bits, 2 up to 27, 4 up to 35.

    Parameters
    ----------
    data_width_bits : array of int
        DW [bit].

    References
    ----------
    AMD, *UltraScale Architecture DSP Slice User Guide* (UG579): 27 x 18 two's complement multiplier.
    """
    magnitude = np.maximum(data_width_bits - 1, 1)
    wide, narrow = -(-magnitude // (WIDE_PORT_BITS - 1)), -(-magnitude // (NARROW_PORT_BITS - 1))
    return np.asarray(wide * narrow)


def dsp_slices(designs: Designs, use: str = "one") -> Integers:
    r"""Return the DSP slices of the PF x PC multipliers.

    ``one``
        One multiplication a slice: :math:`PF \cdot PC` times `slices_per_multiplication`. The default,
        and what any device can do.
    ``int8-pair``
        Two 8-bit multiplications that share a factor in one DSP48E2 (or the DSP58, which does what it
        does): :math:`\lceil PF/2 \rceil PC` where two filters share an input, or
        :math:`PF \lceil PC/2 \rceil` where two pixels share a weight, whichever is less. The vendor
        states 1.75 multiplications a slice without logic beside it and 2 with it.
    ``int8-dot3``
        Dot products of three 8-bit pairs in one DSP58: :math:`PF \lceil PC/3 \rceil`. Needs unrolled
        channels: pixels are not added up.

    Parameters
    ----------
    designs : Designs
        The platforms.
    use : {"one", "int8-pair", "int8-dot3"}
        How multiplications are put into slices.

    Returns
    -------
    array of int, shape [designs]
        DSP slices.

    Raises
    ------
    InputError
        For an unknown use, or one that a design's numbers or loops do not allow.

    References
    ----------
    Fu et al., *Deep Learning with INT8 Optimization on Xilinx Devices* (WP486), Xilinx, and *8-Bit
    Dot-Product Acceleration* (WP487), Xilinx, 2017: two multiplications in a DSP48E2. AMD, *Versal ACAP
    DSP Engine Architecture Manual* (AM004): the DSP58's vector mode takes three 9-bit and three 8-bit
    numbers.
    """
    if use not in DSP_USES:
        raise InputError(f"a use of DSP slices, one of {known(DSP_USES)}", repr(use))
    filters, parallel = designs.column("filter_parallelism"), designs.column("channel_parallelism")
    widths = designs.column("data_width_bits")
    pixels = designs.column("unrolled_loop") == "pixels"
    if use == "one":
        return np.asarray(filters * parallel * slices_per_multiplication(widths))
    if np.any(widths > PACKED_BITS):
        raise InputError(f"data_width_bits of at most {PACKED_BITS} for {use}", str(widths.max()))
    if use == "int8-pair":
        by_filters = -(-filters // 2) * parallel
        by_pixels = filters * -(-parallel // 2)
        return np.asarray(np.where(pixels, np.minimum(by_filters, by_pixels), by_filters))
    if np.any(pixels):
        raise InputError("unrolled channels for int8-dot3", "unrolled pixels, which are not added up")
    return np.asarray(filters * -(-parallel // 3))


def buffer_bits(designs: Designs, layers: pd.DataFrame, tile_pixels: int = TILE_PIXELS) -> Integers:
    r"""Return the bits of the on-chip buffers, each as large as the layer that needs most of it.

    .. math::

        B = 2 \big(\max_l\, r_{in} W c \cdot DW + \max_l\, K_h K_w f c \cdot DW
            + \max_l\, r_{out} W_o f \cdot 32 \big)

    The three are the tiles of input, weights and partial sums, each there twice. A tile is
    :math:`r_{out} = \min(H_o, \max(1, \lfloor tile / W_o \rfloor))` rows of the output,
    :math:`f = \min(PF, F/groups)` filters and c channels: :math:`\min(PC, C/groups)`, or, where pixels
    are unrolled, the blocks of PF channels that the layer before wrote, :math:`\min(PF, C/groups)`.
    It needs :math:`r_{in} = \min(H, (r_{out} - 1) s + d (K_h - 1) + 1)` rows of the input.

    Parameters
    ----------
    designs : Designs
        The platforms.
    layers : DataFrame
        Geometry of the layers (`accelperf.layers.GEOMETRY_COLUMNS`).
    tile_pixels : int
        Output pixels in a tile [pixel].

    Returns
    -------
    array of int, shape [designs]
        Bits of all buffers.
    """
    size = {
        str(name): layers[name].to_numpy(dtype=np.int64)
        for name in layers.columns
        if layers[name].dtype.kind == "i"
    }
    depth = size["input_channels"] // size["groups"]
    own_filters = size["output_channels"] // size["groups"]
    output_rows = np.minimum(size["output_height"], np.maximum(1, tile_pixels // size["output_width"]))
    reach = size["dilation_height"] * (size["kernel_height"] - 1) + 1
    input_rows = np.minimum(size["input_height"], (output_rows - 1) * size["stride_height"] + reach)
    kernel = size["kernel_height"] * size["kernel_width"]

    filters, parallel = designs.column("filter_parallelism"), designs.column("channel_parallelism")
    bits = designs.column("data_width_bits")
    block = np.where(designs.column("unrolled_loop") == "pixels", filters, parallel)
    tile_filters = np.minimum(filters[:, None], own_filters)
    tile_channels = np.minimum(block[:, None], depth)
    inputs = (input_rows * size["input_width"] * tile_channels).max(axis=1) * bits
    weights = (kernel * tile_filters * tile_channels).max(axis=1) * bits
    sums = (output_rows * size["output_width"] * tile_filters).max(axis=1) * SUM_BITS
    return np.asarray(COPIES * (inputs + weights + sums))
