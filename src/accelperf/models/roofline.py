r"""A roofline with trainable rates: how long a layer takes when its slowest resource sets the pace.

Each term is a physical bound on the latency, in ms at the platform's datasheet rates: what must be
computed or moved, divided by the rate. A calibrated layer takes

.. math::

    T = \Big(\sum_i (T_i / \rho_i)^p\Big)^{1/p} + \sum_j c_j N_j / L_{CLK}

with one rate :math:`\rho_i` for each term, as a share of the datasheet's; a smooth maximum of
sharpness p; and overheads of :math:`c_j` cycles for each of the :math:`N_j` layers, filter tiles and
tiles. (Williams, Waterman, Patterson, *Roofline*, CACM 52(4), 2009, with the hard maximum made
smooth.) A few facts about the hardware are discrete; they are a `Structure`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from accelperf.analytic import NUMPY, round_up, transfer_rate
from accelperf.features import FeatureMatrix
from accelperf.units import CYCLES_PER_MS_AND_MHZ

Floats = NDArray[np.float64]

TERMS: tuple[str, ...] = ("compute", "weights", "input", "output")
"""Names of the throughput terms, in the order of the rates."""
OVERHEADS: tuple[str, ...] = ("layer", "filter_tile", "tile")
"""What overheads are counted for, in the order of the cycles."""

InputReads = Literal["once", "filter_tile", "window"]
OutputWrites = Literal["exact", "tiles"]
Transfers = Literal["side_by_side", "in_turn"]


@dataclass(frozen=True)
class Structure:
    """What the hardware does that no rate can express.

    Attributes
    ----------
    input_reads : {"once", "filter_tile", "window"}
        How often the input is read from memory: once for a layer; once for each tile of PF filters;
        or, for each of those, with the rows above and below that a kernel needs read again for every
        group of PC output pixels (every output row, where channels are unrolled).
    output_writes : {"exact", "tiles"}
        Whether F filters are written, or F rounded up to whole tiles of PF.
    word_bits : int
        Channels are packed into words of this width [bit], and the last word is computed and moved
        whole. A width up to that of one value packs nothing.
    transfers : {"side_by_side", "in_turn"}
        Whether weights, input and output have ports of their own, so that the slowest of them counts,
        or share them, so that their times add up.
    """

    input_reads: InputReads = "filter_tile"
    output_writes: OutputWrites = "exact"
    word_bits: int = 8
    transfers: Transfers = "side_by_side"

    def as_dict(self) -> dict[str, Any]:
        """Return the attributes by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


@dataclass(frozen=True)
class RooflineTerms:
    """The terms of some layers at datasheet rates.

    Attributes
    ----------
    times_ms : array of shape [rows, len(TERMS)]
        Time of each term at the datasheet's rate [ms], above 0.
    cycle_ms : array of shape [rows, len(OVERHEADS)]
        Time that one cycle of each overhead costs the layer [ms].
    in_turn : bool
        Whether the times of all terms but computing add up.
    """

    times_ms: Floats
    cycle_ms: Floats
    in_turn: bool


def roofline_inputs(features: FeatureMatrix) -> dict[str, Floats]:
    """Return the named arrays that the terms need, each of shape [rows]."""
    inputs = features.latency_inputs()
    for name in ("stride_height", "stride_width"):
        inputs[name] = features.table[name].to_numpy(dtype=np.float64)
    return inputs


def roofline_terms(inputs: Mapping[str, Floats], structure: Structure) -> RooflineTerms:
    r"""Return the terms of some layers at datasheet rates.

    With D = C / groups channels to a filter, rounded up to whole words; :math:`N_F = \lceil F/PF
    \rceil`; :math:`N_P` groups of output pixels; and R the rate of `accelperf.analytic.transfer_rate`:

    .. math::

        T_{compute} &= N_F PF \cdot K_h K_w D H_o W_o / (PF \cdot PC \cdot L_{CLK})
            \quad\text{(D or } H_o W_o \text{ in whole multiples of PC)} \\
        T_{weights} &= K_h K_w D F \cdot DW / R \\
        T_{input} &= \max(N_F D, C) \cdot
            \big(HW + (N_P - 1)\,[(K_h - 1) W + K_w - s_w]_+\big) \cdot DW / R \\
        T_{output} &= N_F PF \cdot H_o W_o \cdot DW / R

    ``input_reads`` "filter_tile" leaves out the window, "once" also :math:`N_F`; ``output_writes``
    "exact" has F in place of :math:`N_F PF`. The window is the stretch of a channel's memory, row
    after row, between the first and the last input pixel that a group of output pixels needs: two
    neighbouring groups have all but :math:`s_w` of :math:`(K_h - 1) W + K_w` pixels in common.

    Parameters
    ----------
    inputs : Mapping of str to array
        As `roofline_inputs` returns them; shape [rows] each.
    structure : Structure
        Which of the variants.

    Returns
    -------
    RooflineTerms
        Times [ms].
    """
    width = inputs["data_width_bits"]
    rate = transfer_rate(
        inputs["memory_ports"],
        inputs["memory_clock_mhz"],
        inputs["transfer_width_bits"],
        inputs["memory_efficiency"],
    )
    parallel_filters, parallel = inputs["filter_parallelism"], inputs["channel_parallelism"]
    filters, channels = inputs["output_channels"], inputs["input_channels"]
    kernel = inputs["kernel_height"] * inputs["kernel_width"]
    input_pixels = inputs["input_height"] * inputs["input_width"]
    output_pixels = inputs["output_height"] * inputs["output_width"]
    unrolls_pixels = inputs["unrolls_pixels"] > 0

    packed = np.maximum(1.0, structure.word_bits // width)
    depth = round_up(channels / inputs["groups"], packed, NUMPY)
    filter_tiles = np.ceil(filters / parallel_filters)
    pixel_tiles = np.ceil(output_pixels / parallel)
    depth_tiles = np.ceil(depth / parallel)
    # Cycles of one filter tile: one for each kernel tap of each step of the two inner loops.
    steps = np.where(unrolls_pixels, pixel_tiles * depth, depth_tiles * output_pixels)
    cycle = 1 / (inputs["logic_clock_mhz"] * CYCLES_PER_MS_AND_MHZ)

    read_channels = round_up(channels, packed, NUMPY)
    read_pixels = input_pixels
    if structure.input_reads != "once":
        # Filters of a tile that spans several groups read each group's channels once.
        read_channels = np.maximum(filter_tiles * depth, read_channels)
    if structure.input_reads == "window":
        pixel_groups = np.where(unrolls_pixels, pixel_tiles, inputs["output_height"])
        shared = (inputs["kernel_height"] - 1) * inputs["input_width"] + inputs["kernel_width"]
        read_pixels = input_pixels + (pixel_groups - 1) * np.maximum(shared - inputs["stride_width"], 0)
    written = filters if structure.output_writes == "exact" else filter_tiles * parallel_filters

    times = {
        "compute": filter_tiles * steps * kernel * cycle,
        "weights": kernel * depth * filters * width / rate,
        "input": read_channels * read_pixels * width / rate,
        "output": written * output_pixels * width / rate,
    }
    tiles = filter_tiles * np.where(unrolls_pixels, pixel_tiles, depth_tiles)
    overheads = {"layer": cycle, "filter_tile": filter_tiles * cycle, "tile": tiles * cycle}
    return RooflineTerms(
        np.stack([times[name] for name in TERMS], axis=1),
        np.stack([overheads[name] for name in OVERHEADS], axis=1),
        structure.transfers == "in_turn",
    )


@dataclass(frozen=True)
class LogRoofline:
    r"""The calibrated latency of some layers, and how it depends on the parameters.

    Attributes
    ----------
    log_ms : array of shape [rows]
        Natural logarithm of the latency [log of ms].
    shares : array of shape [rows, len(TERMS) + len(OVERHEADS)]
        Share of the latency that each part accounts for; a row adds up to 1. It is the elasticity
        :math:`\partial \log T / \partial \log T_i`.
    """

    log_ms: Floats
    shares: Floats

    @property
    def jacobian(self) -> Floats:
        """Derivative of `log_ms` by the parameters, log rates then log cycles, shape as `shares`."""
        signs = np.concatenate([-np.ones(len(TERMS)), np.ones(len(OVERHEADS))])
        return np.asarray(self.shares * signs)

    @property
    def memory_share(self) -> Floats:
        """Share of the latency that is not computing, shape [rows]."""
        return np.clip(1 - self.shares[:, TERMS.index("compute")], 0.0, 1.0)

    @property
    def binding(self) -> NDArray[np.str_]:
        """Name of the part that accounts for most of each layer, shape [rows]."""
        names = np.array([*TERMS, *(f"{name} overhead" for name in OVERHEADS)])
        return np.asarray(names[np.argmax(self.shares, axis=1)])


def log_roofline(terms: RooflineTerms, parameters: Floats, sharpness: float) -> LogRoofline:
    r"""Return the calibrated latency of some layers.

    Parameters
    ----------
    terms : RooflineTerms
        Terms at datasheet rates.
    parameters : array of shape [len(TERMS) + len(OVERHEADS)]
        Natural logarithms of the rates :math:`\rho_i` (shares of the datasheet's) and of the
        overheads :math:`c_j` [cycles].
    sharpness : float
        p of the smooth maximum.

    Returns
    -------
    LogRoofline
        Logarithm of the latency and shares.
    """
    count = len(TERMS)
    log_times = np.log(terms.times_ms) - parameters[:count]
    top = log_times.max(axis=1, keepdims=True)
    # In logarithms, relative to the largest term: a power of 16 must not overflow.
    if terms.in_turn:
        times = np.exp(log_times - top)
        moving = times[:, 1:].sum(axis=1, keepdims=True)
        powers = np.concatenate([times[:, :1] ** sharpness, moving ** (sharpness - 1) * times[:, 1:]], axis=1)
    else:
        powers = np.exp(sharpness * (log_times - top))
    total = powers.sum(axis=1, keepdims=True)
    smooth = np.exp(top + np.log(total) / sharpness)
    overheads = terms.cycle_ms * np.exp(parameters[count:])
    latency = smooth + overheads.sum(axis=1, keepdims=True)
    shares = np.concatenate([smooth * powers / total, overheads], axis=1) / latency
    return LogRoofline(np.log(latency[:, 0]), shares)


@dataclass(frozen=True)
class CalibratedRoofline:
    """A roofline with its rates, overheads and structure.

    Attributes
    ----------
    structure : Structure
        What was decided about the hardware.
    parameters : array of shape [len(TERMS) + len(OVERHEADS)]
        Log rates (shares of the datasheet's) and log overheads [cycles].
    sharpness : float
        p of the smooth maximum.
    """

    structure: Structure
    parameters: Floats
    sharpness: float

    def __call__(self, inputs: Mapping[str, Floats]) -> LogRoofline:
        """Return the latency of some layers, given what `roofline_inputs` returns."""
        return log_roofline(roofline_terms(inputs, self.structure), self.parameters, self.sharpness)

    def latency_ms(self, features: FeatureMatrix) -> Floats:
        """Return the latency of each layer [ms], shape [rows]."""
        return np.asarray(np.exp(self(roofline_inputs(features)).log_ms))

    def values(self) -> dict[str, Any]:
        """Return what is not an array, for `from_values`."""
        return {"structure": self.structure.as_dict(), "sharpness": self.sharpness}

    @classmethod
    def from_values(cls, values: Mapping[str, Any], parameters: Floats) -> CalibratedRoofline:
        """Return the roofline that `values` and its parameters described."""
        return cls(Structure(**values["structure"]), parameters, values["sharpness"])
