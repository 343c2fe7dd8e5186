r"""The standard latency model: how long a convolution takes by the datasheet.

Ferianc, Fan, Chu, Stano, Luk, *Improving Performance Estimation for FPGA-based Accelerators for
Convolutional Neural Networks*, ARC 2020, Eq. 4-7. Every function is a formula over named arrays;
the few array functions that it needs are passed in (`ArrayOps`), so NumPy and TensorFlow run the
very same equations.

Three variants, chosen by name:

``paper``
    As printed. Its compute time counts *input* pixels, so a stride of 2 makes it four times too
    long.
``output_sized``
    Compute counts output pixels, and each filter sees ``C / groups`` channels.
``tiled``
    ``output_sized`` on hardware that works in whole tiles: F is rounded up to a multiple of PF,
    and the other unrolled loop (input channels or output pixels) to a multiple of PC.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from accelperf.errors import InputError, known
from accelperf.units import CYCLES_PER_MS_AND_MHZ

Array = Any
"""A NumPy array or a TensorFlow tensor; all arrays of one call have the same shape."""

VARIANTS: tuple[str, ...] = ("paper", "output_sized", "tiled")

LATENCY_INPUTS: tuple[str, ...] = (
    "kernel_height",
    "kernel_width",
    "input_height",
    "input_width",
    "input_channels",
    "output_height",
    "output_width",
    "output_channels",
    "filter_parallelism",
    "channel_parallelism",
    "logic_clock_mhz",
    "memory_clock_mhz",
    "memory_efficiency",
    "transfer_width_bits",
    "data_width_bits",
    "groups",
    "memory_ports",
    "unrolls_pixels",
    "is_first",
    "is_last",
)
"""Names of the arrays that the equations need: the 15 parameters, ``groups``, ``memory_ports``,
and three flags (0 or 1)."""


@dataclass(frozen=True)
class ArrayOps:
    """The array functions that the equations need, from NumPy or TensorFlow."""

    maximum: Callable[[Array, Array], Array]
    where: Callable[[Array, Array, Array], Array]
    ceil: Callable[[Array], Array]


NUMPY = ArrayOps(maximum=np.maximum, where=np.where, ceil=np.ceil)


@dataclass(frozen=True)
class LatencyTerms:
    """Times of the parts of a layer [ms], each at least zero."""

    weights: Array
    data: Array
    store: Array
    compute: Array

    @property
    def load(self) -> Array:
        """Time to load weights and input, T_load of the paper [ms]."""
        return self.weights + self.data


def transfer_rate(
    memory_ports: Array, memory_clock_mhz: Array, transfer_width_bits: Array, memory_efficiency: Array
) -> Array:
    r"""Return the rate at which memory delivers, the denominator of Eq. 4-6.

    Parameters
    ----------
    memory_ports : array
        Ports working at once [1]. The paper writes PF here: one port for each parallel filter.
    memory_clock_mhz : array
        M_CLK [MHz].
    transfer_width_bits : array
        S, width of one port [bit].
    memory_efficiency : array
        M_EFF, share of the peak that is reached [1].

    Returns
    -------
    array
        :math:`P \cdot M_{CLK} \cdot S \cdot M_{EFF}` [bit/ms].
    """
    return memory_ports * memory_clock_mhz * transfer_width_bits * memory_efficiency * CYCLES_PER_MS_AND_MHZ


def round_up(value: Array, multiple: Array, ops: ArrayOps) -> Array:
    """Return `value` rounded up to a whole multiple of `multiple` [same unit]."""
    return ops.ceil(value / multiple) * multiple


def latency_terms(inputs: Mapping[str, Array], variant: str = "paper", ops: ArrayOps = NUMPY) -> LatencyTerms:
    r"""Return the times of the parts of a layer (Eq. 4-6 of the paper).

    .. math::

        T_{weights} &= K_h K_w F C \cdot DW / R \\
        T_{data} &= H W C \cdot DW / R \\
        T_{store} &= H_o W_o F \cdot DW / R \\
        T_{compute} &= F C H W K_h K_w / (PF \cdot PC \cdot L_{CLK})

    with R from `transfer_rate`.

    Parameters
    ----------
    inputs : Mapping of str to array
        The arrays of `LATENCY_INPUTS` (the two position flags are not needed), sizes [pixel],
        clocks [MHz], widths [bit], efficiency as a fraction; all of shape [rows].
    variant : {"paper", "output_sized", "tiled"}
        See the module's description.
    ops : ArrayOps
        Where the array functions come from.

    Returns
    -------
    LatencyTerms
        Times [ms] of shape [rows].

    Raises
    ------
    InputError
        For an unknown variant.

    References
    ----------
    Ferianc et al., ARC 2020, Eq. 4 (load), 5 (store), 6 (compute).
    """
    if variant not in VARIANTS:
        raise InputError(f"a variant, one of {known(VARIANTS)}", repr(variant))
    rate = transfer_rate(
        inputs["memory_ports"],
        inputs["memory_clock_mhz"],
        inputs["transfer_width_bits"],
        inputs["memory_efficiency"],
    )
    width = inputs["data_width_bits"]
    filters, channels = inputs["output_channels"], inputs["input_channels"]
    kernel = inputs["kernel_height"] * inputs["kernel_width"]
    input_pixels = inputs["input_height"] * inputs["input_width"]
    output_pixels = inputs["output_height"] * inputs["output_width"]
    filter_parallelism, channel_parallelism = inputs["filter_parallelism"], inputs["channel_parallelism"]

    # Channels that one filter sees; the paper knows no groups.
    depth = channels if variant == "paper" else channels / inputs["groups"]
    computed_pixels = input_pixels if variant == "paper" else output_pixels
    computed_filters, computed_depth = filters, depth
    if variant == "tiled":
        pixels_unrolled = inputs["unrolls_pixels"] > 0
        computed_filters = round_up(filters, filter_parallelism, ops)
        computed_depth = ops.where(pixels_unrolled, depth, round_up(depth, channel_parallelism, ops))
        computed_pixels = ops.where(
            pixels_unrolled, round_up(output_pixels, channel_parallelism, ops), output_pixels
        )
    operations = computed_filters * computed_depth * computed_pixels * kernel
    throughput = filter_parallelism * channel_parallelism * inputs["logic_clock_mhz"] * CYCLES_PER_MS_AND_MHZ
    return LatencyTerms(
        weights=kernel * filters * depth * width / rate,
        data=input_pixels * channels * width / rate,
        store=output_pixels * filters * width / rate,
        compute=operations / throughput,
    )


def latency_ms(inputs: Mapping[str, Array], variant: str = "paper", ops: ArrayOps = NUMPY) -> Array:
    r"""Return the latency of a layer (Eq. 7 of the paper).

    The first layer waits for its input, :math:`T_{load} + T_{compute}`; later ones stream weights
    while they compute, :math:`\max(T_{weights}, T_{compute})`; the last also stores,
    :math:`\max(T_{weights}, T_{compute}) + T_{store}`. A network of one layer is first and last:
    :math:`T_{load} + T_{compute} + T_{store}`.

    Parameters
    ----------
    inputs : Mapping of str to array
        The arrays of `LATENCY_INPUTS`, shape [rows].
    variant : {"paper", "output_sized", "tiled"}
        See the module's description.
    ops : ArrayOps
        Where the array functions come from.

    Returns
    -------
    array
        Latency [ms], shape [rows].

    Raises
    ------
    InputError
        For an unknown variant.

    References
    ----------
    Ferianc et al., ARC 2020, Eq. 7.
    """
    terms = latency_terms(inputs, variant, ops)
    streamed = ops.maximum(terms.weights, terms.compute)
    body = ops.where(inputs["is_first"] > 0, terms.load + terms.compute, streamed)
    return body + ops.where(inputs["is_last"] > 0, terms.store, 0 * terms.store)
