"""The latency counts of a Shuhai run.

The counters are eight bits wide and wrap modulo 256 (verified in the RTL). In latency mode the
engine advances by twice the stride (verified). The printed 100 counts are the run's first accesses
on old bitstreams and accesses from 98 304 on with new ones: which, a log does not say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from accelperf.errors import InputError
from accelperf.memory.shuhai_settings import RunSettings
from accelperf.memory.shuhai_transcript import Transcript
from accelperf.memory.text_stream import Cycles

COUNTER_MODULUS = 256

IDLE_HIT_CYCLES: Mapping[str, int] = {"hbm": 48, "ddr4": 22}
"""Least idle latency [cycles]: a page hit, on HBM with the switch off (Shuhai; secondary sources)."""

STRIDE_FACTOR = 2
"""Strides that the latency engine advances an access (``rd_engine.sv``: two states advance)."""


@dataclass(frozen=True)
class LatencyTrace:
    """Latency counts in the order of the accesses.

    Attributes
    ----------
    cycles : ndarray of int or None, shape [counts]
        Counts [cycles of the engines], modulo 256; None where their base cannot be known.
    printed : int
        How many counts the file holds.
    base : {10, 16} or None
        Base they were printed in.
    wrapped : int or None
        How many lie below the shortest latency of the memory, so that their counter wrapped. Others
        may have wrapped too. None where it is not known.
    channel : int or None
        Latency channel.
    burst_bytes, stride_bytes, working_set_bytes : int or None
        Pattern [bytes]; the stride as it happened, twice the given one.
    source_line : int
        Line of the first count.
    """

    cycles: Cycles | None = field(repr=False)
    printed: int
    base: int | None
    wrapped: int | None
    channel: int | None
    burst_bytes: int | None
    stride_bytes: int | None
    working_set_bytes: int | None
    source_line: int


def latency_trace(transcript: Transcript, settings: RunSettings) -> LatencyTrace | None:
    """Return the latency counts of a log, or None if it holds none.

    The program prints decimal counts after it printed a speed, hexadecimal ones where no channel
    was enabled. That is decided from the speeds, the last status, the enables, and the digits.

    Raises
    ------
    InputError
        If the digits contradict the base.
    """
    if transcript.counts is None or transcript.counts_line is None:
        return None
    counts, base = transcript.counts, _base(transcript, settings)
    if base == 10 and transcript.counts_base == 16:
        decimal = _as_decimal(counts)
        if decimal is None:
            raise InputError(
                "decimal latency counts (a channel is enabled)",
                "hexadecimal digits",
                file=transcript.path,
                line=transcript.counts_line,
            )
        counts = decimal
    channel = settings.latency_channel
    pattern = None if channel is None else settings.pattern(channel)
    least = None if settings.run is None else IDLE_HIT_CYCLES.get(settings.run.memory)
    stride = None if pattern is None else pattern.stride_bytes
    return LatencyTrace(
        cycles=None if base is None else counts,
        printed=len(counts),
        base=base,
        wrapped=None if base is None or least is None else int((counts < least).sum()),
        channel=channel,
        burst_bytes=None if pattern is None else pattern.burst_bytes,
        stride_bytes=None if stride is None else STRIDE_FACTOR * stride,
        working_set_bytes=None if pattern is None else pattern.working_set_bytes,
        source_line=transcript.counts_line,
    )


def _base(transcript: Transcript, settings: RunSettings) -> int | None:
    if transcript.speeds:
        return 10
    enables = [transcript.end_write, transcript.end_read]
    if None in enables:
        enables = [settings.enabled("write"), settings.enabled("read")]
    if None not in enables:
        return 10 if any(enables) else 16
    counts = transcript.counts
    if counts is None or _as_decimal(counts) is None:
        return 16
    # Counters have eight bits: no hexadecimal count has three digits, a decimal one may.
    return 10 if int(counts.max(initial=0)) >= COUNTER_MODULUS else None


def _as_decimal(counts: Cycles) -> Cycles | None:
    """Return numbers that were read as hexadecimal as what their digits mean in base 10."""
    rest = counts.astype(np.int64)
    total, weight = np.zeros_like(rest), 1
    while rest.any():
        digit = rest & 0xF
        if (digit > 9).any():
            return None
        total += weight * digit
        rest >>= 4
        weight *= 10
    return total
