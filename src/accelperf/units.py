"""Units of time and rate used at the borders of the program.

Inside, latencies are milliseconds, clocks megahertz, widths bits, data rates decimal gigabytes a
second and fractions plain numbers (0.7, not 70 %).
"""

from __future__ import annotations

MS_PER_SECOND = 1e3
MS_PER_US = 1e-3
MS_PER_NS = 1e-6
CYCLES_PER_MS_AND_MHZ = 1e3
"""Cycles that a clock of 1 MHz makes in 1 ms."""


def cycles_to_ms(cycles: float, clock_mhz: float) -> float:
    """Return the time that a number of cycles takes.

    Parameters
    ----------
    cycles : float
        Clock cycles.
    clock_mhz : float
        Clock frequency [MHz].

    Returns
    -------
    float
        Time [ms].

    Examples
    --------
    >>> cycles_to_ms(200_000, clock_mhz=200.0)
    1.0
    """
    return cycles / (clock_mhz * CYCLES_PER_MS_AND_MHZ)


def peak_gbps(clock_mhz: float, width_bits: float, ports: float = 1) -> float:
    """Return the peak data rate of a memory interface that moves one word a cycle.

    Parameters
    ----------
    clock_mhz : float
        Clock of the interface [MHz].
    width_bits : float
        Width of one port [bit].
    ports : float
        Number of ports working at once.

    Returns
    -------
    float
        Peak rate [decimal GB/s].

    Examples
    --------
    An HBM channel of an Alveo U280 (Shuhai, FCCM 2020: 450 MHz, 32 bytes):

    >>> peak_gbps(450, 256)
    14.4
    """
    return clock_mhz * width_bits * ports / 8 / 1e3
