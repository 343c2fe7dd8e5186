"""The 15 parameters of a layer on an accelerator: what the estimators learn from.

The paper (Ferianc, Fan, Chu, Stano, Luk, *Improving Performance Estimation for FPGA-based
Accelerators for Convolutional Neural Networks*, ARC 2020) speaks of 15 parameters; its Table 1
reaches that number only by counting M, the number of features. The authors' public tutorial splits
the kernel into height and width, which gives the 15 listed here. Their order is the column order
of the feature matrix.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from accelperf.errors import InputError


@dataclass(frozen=True)
class Parameter:
    """One of the 15 parameters.

    Parameters
    ----------
    name : str
        Column name in every file.
    symbol : str
        Symbol in the equations (see `accelperf.analytic`).
    unit : str
        Unit; ``1`` for counts and fractions.
    lower, upper : float
        Inclusive bounds outside of which a value is taken for a mistake.
    integer : bool
        Whether the value is a whole number.
    meaning : str
        What it is.
    """

    name: str
    symbol: str
    unit: str
    lower: float
    upper: float
    integer: bool
    meaning: str

    def check(self, value: float) -> None:
        """Raise `InputError` if `value` is not a plausible value of this parameter."""
        kind = "a whole number" if self.integer else "a number"
        unit = "" if self.unit == "1" else f" {self.unit}"
        valid = bool(np.isfinite(value)) and self.lower <= value <= self.upper
        if not valid or (self.integer and value != int(value)):
            raise InputError(
                f"{self.name} as {kind} between {self.lower:g} and {self.upper:g}{unit}", f"{value:g}"
            )


_LARGEST_SIZE = 65536
_LARGEST_CLOCK_MHZ = 10_000.0
_SMALLEST_POSITIVE = 1e-6

PARAMETERS: tuple[Parameter, ...] = (
    Parameter("kernel_height", "Kh", "1", 1, 1024, True, "height of the kernel"),
    Parameter("kernel_width", "Kw", "1", 1, 1024, True, "width of the kernel"),
    Parameter("input_height", "H", "1", 1, _LARGEST_SIZE, True, "height of the input, without padding"),
    Parameter("input_width", "W", "1", 1, _LARGEST_SIZE, True, "width of the input, without padding"),
    Parameter("input_channels", "C", "1", 1, _LARGEST_SIZE, True, "channels of the input"),
    Parameter("output_height", "Ho", "1", 1, _LARGEST_SIZE, True, "height of the output"),
    Parameter("output_width", "Wo", "1", 1, _LARGEST_SIZE, True, "width of the output"),
    Parameter("output_channels", "F", "1", 1, _LARGEST_SIZE, True, "filters, the channels of the output"),
    Parameter("filter_parallelism", "PF", "1", 1, _LARGEST_SIZE, True, "filters computed at once"),
    Parameter(
        "channel_parallelism", "PC", "1", 1, _LARGEST_SIZE, True,
        "input channels (or output pixels, see unrolled_loop) computed at once",
    ),
    Parameter(
        "logic_clock_mhz", "L_CLK", "MHz", _SMALLEST_POSITIVE, _LARGEST_CLOCK_MHZ, False,
        "clock of the compute logic",
    ),
    Parameter(
        "memory_clock_mhz", "M_CLK", "MHz", _SMALLEST_POSITIVE, _LARGEST_CLOCK_MHZ, False,
        "clock of the memory interface",
    ),
    Parameter(
        "memory_efficiency", "M_EFF", "1", _SMALLEST_POSITIVE, 1.0, False,
        "share of the memory interface's peak rate that transfers reach",
    ),
    Parameter("transfer_width_bits", "S", "bit", 1, 1_048_576, True, "width of one memory port"),
    Parameter("data_width_bits", "DW", "bit", 1, 64, True, "width of one weight or activation"),
)  # fmt: skip

PARAMETER_NAMES: tuple[str, ...] = tuple(parameter.name for parameter in PARAMETERS)

BY_NAME: dict[str, Parameter] = {parameter.name: parameter for parameter in PARAMETERS}

PLATFORM_PARAMETERS: tuple[str, ...] = PARAMETER_NAMES[8:]
"""The seven parameters that belong to the accelerator; the first eight belong to the layer."""

LAYER_PARAMETERS: tuple[str, ...] = PARAMETER_NAMES[:8]
