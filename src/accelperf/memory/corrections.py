"""What must be done to a speed that Shuhai prints before it means anything.

Pure functions, each for one habit of the program or its bitstreams, and the names under which they
are recorded in ``memory.csv``. Sources: RC4ML/Shuhai (``sw/src``, ``hw/rtl``), verified there unless
a line says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping

from accelperf.memory.shuhai_program import PROGRAM_CLOCK_MHZ

CORRECTIONS: Mapping[str, str] = {
    "num_ops": "the speed was printed with the latency channel's number of accesses",
    "burst_wrap": "the HBM burst length wrapped, so that each access moved fewer bytes",
    "clock": "the engines' clock is not the one that the program computes with",
    "latency_stride": "the latency engine advances by twice the stride",
}
"""Meaning of the codes in the column ``corrections``."""

UNUSABLE_FLAGS: Mapping[str, str] = {
    "no_speed_line": "an enabled channel without a speed line",
    "not_a_number": "the speed is infinite, zero or no number: the timer did not run",
    "latency_run": "a latency run says nothing about throughput",
    "no_sidecar": "without run.yaml neither memory nor peak is known",
    "pattern_unknown": "burst, stride or working set is not known",
    "num_ops_unknown": "the number of accesses is not known",
    "above_peak": "the speed is above the memory's peak",
    "target_unknown": "it is not known which channels shared a memory channel",
    "mixed_target": "accesses of another kind shared the memory channel",
    "policy_unknown": "the address mapping policy is not known",
}
"""Meaning of the flags that keep a row from being used, most telling first."""

NOTE_FLAGS: Mapping[str, str] = {
    "above_refresh_limit": "the efficiency is above what refresh leaves",
    "target_shared": "several channels shared the memory channel; the efficiency is that of all together",
    "target_share_unknown": "another channel may have shared the memory channel with an unknown speed",
    "truncated": "the log breaks off",
    "config_missing": "the configuration file that the log names is not beside it",
}
"""Meaning of the flags of rows that are used nevertheless."""

WORD_BYTES = 32
BURST_WORDS = 16
"""HBM engines: word [bytes], and words of the longest burst (4-bit AXI3 burst length)."""

REFRESH_SHARE: Mapping[str, float] = {"hbm": 260 / 3900, "ddr4": 350 / 7800}
"""tRFC / tREFI, the share of time that refresh takes (timings as in public simulator configurations)."""

LATENCY_CYCLES_OUTSIDE = 2
"""Cycles an access in latency mode beyond the counted ones (``rd_engine.sv``: two states)."""

PEAK_TOLERANCE = 1e-5
"""Relative tolerance of the peak check: speeds are printed with six digits."""


def wrapped_burst(burst_bytes: int) -> int:
    """Return the bytes that an HBM engine really moves an access.

    ``32 (((B / 32 - 1) mod 16) + 1)``: the length field has four bits.

    Parameters
    ----------
    burst_bytes : int
        B as given to the program [bytes], a multiple of 32.

    Returns
    -------
    int
        B as it happened [bytes].

    Examples
    --------
    >>> wrapped_burst(512), wrapped_burst(1024)
    (512, 512)
    """
    return WORD_BYTES * ((burst_bytes // WORD_BYTES - 1) % BURST_WORDS + 1)


def clock_factor(memory: str, clock_mhz: float) -> float:
    """Return what a printed speed is multiplied by for the engines' clock [MHz].

    The program computes with 450 MHz (HBM) or 300 MHz (DDR) whatever the engines ran at.

    Examples
    --------
    The DDR3 bitstream runs at 166.7 MHz, so that its speeds read 1.8 times high:

    >>> round(1 / clock_factor("ddr3", 166.7), 1)
    1.8
    """
    return clock_mhz / PROGRAM_CLOCK_MHZ[memory]


def mean_latency_cycles(memory: str, burst_bytes: int, reported_gbps: float) -> float:
    """Return the mean latency of all accesses of a latency run, from the speed that it prints.

    ``B f / (1000 speed) - 2`` with B as given to the program and f the program's clock.

    Parameters
    ----------
    memory : {"hbm", "ddr4", "ddr3"}
        Memory.
    burst_bytes : int
        B as given to the program [bytes].
    reported_gbps : float
        Printed speed [GB/s].

    Returns
    -------
    float
        Mean latency [cycles of the engines].

    Examples
    --------
    >>> round(mean_latency_cycles("hbm", 32, 0.252632), 3)
    55.0
    """
    return burst_bytes * PROGRAM_CLOCK_MHZ[memory] / (1000 * reported_gbps) - LATENCY_CYCLES_OUTSIDE


def target_channel(memory: str, switch: str | None, channel: int) -> int | None:
    """Return the memory channel that an engine's accesses reach, or None if it is not known.

    A DDR engine reaches its own memory. With the HBM switch on every engine of the current public
    version starts at address 0, and its working set of at most 256 MB ends in channel 0 (derived).
    With the switch off a port reaches its own pseudo channel only (AMD PG276, global addressing).
    """
    if memory != "hbm" or switch == "off":
        return channel
    return 0 if switch == "on" else None
