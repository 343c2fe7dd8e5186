"""The speeds of a Shuhai run as rows of the memory table: corrected, checked, flagged."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from accelperf.errors import InputError
from accelperf.memory.corrections import PEAK_TOLERANCE, clock_factor, target_channel, wrapped_burst
from accelperf.memory.shuhai_latency import STRIDE_FACTOR
from accelperf.memory.shuhai_program import CHANNELS
from accelperf.memory.shuhai_run import of_channel
from accelperf.memory.shuhai_settings import Pattern, RunSettings
from accelperf.memory.shuhai_transcript import Direction, Speed, Transcript
from accelperf.memory.table import MemoryRow
from accelperf.memory.targets import with_efficiency

DIRECTIONS: tuple[Direction, ...] = ("write", "read")
"""Order in which the program prints them."""

_UNKNOWN = Pattern(None, None, None)


@dataclass(frozen=True)
class Printed:
    """A speed line [GB/s], or the place where one is missing (`gbps` None)."""

    channel: int | None
    direction: str
    gbps: float | None
    line: int


def run_rows(transcript: Transcript, settings: RunSettings) -> list[MemoryRow]:
    """Return the rows of a run, one an enabled channel and direction.

    Parameters
    ----------
    transcript : Transcript
        What was printed.
    settings : RunSettings
        What the run worked with.

    Returns
    -------
    list of MemoryRow
        In the program's order.

    Raises
    ------
    InputError
        If there is no speed and no latency count, or the speeds contradict the enables.
    """
    if not transcript.speeds and transcript.counts is None:
        raise _nothing_measured(transcript, settings)
    enabled = {direction: _enabled(transcript, settings, direction) for direction in DIRECTIONS}
    for speed in transcript.speeds:
        bits = enabled[speed.direction]
        if bits is not None and not bits >> speed.channel & 1:
            expected = f"{speed.direction} speeds of the enabled channels {bits:#x}"
            raise InputError(expected, f"channel {speed.channel}", file=transcript.path, line=speed.line)
    printed = [Printed(item.channel, item.direction, item.gbps, item.line) for item in transcript.speeds]
    printed += _missing(transcript.speeds, enabled, _last_line(transcript))
    printed.sort(key=lambda item: (item.channel or 0, item.direction == "read"))
    latency_run = transcript.counts is not None or settings.measures_latency
    rows = memory_rows(printed, settings, latency_run=latency_run)
    if transcript.truncated is not None:
        rows = [replace(row, flags=(*row.flags, "truncated")) for row in rows]
    return rows


def _last_line(transcript: Transcript) -> int:
    return transcript.truncated.line if transcript.truncated else max(transcript.lines, 1)


def _nothing_measured(transcript: Transcript, settings: RunSettings) -> InputError:
    line, file = _last_line(transcript), transcript.path
    if transcript.status_line is None:
        return InputError("status and speed lines of Shuhai", "the log's end", file=file, line=line)
    if settings.enabled("write") == settings.enabled("read") == 0:
        return InputError(
            "an enabled channel", "none (write 0x0, read 0x0)", file=file, line=transcript.status_line
        )
    status = f"endWr {transcript.end_write or 0:#x}, endRd {transcript.end_read or 0:#x}"
    got = f"the log's end after {transcript.status_pairs} pairs of status lines (last {status})"
    return InputError(
        "a speed line for each enabled channel", f"{got}: it hung or was cut", file=file, line=line
    )


def _enabled(transcript: Transcript, settings: RunSettings, direction: Direction) -> int | None:
    """Return the channels that ran: the last status, which ends the wait once it equals the enables."""
    finished = transcript.end_write if direction == "write" else transcript.end_read
    enabled = settings.enabled(direction)
    if finished is not None and enabled is not None and finished != enabled:
        name = "endWr" if direction == "write" else "endRd"
        expected = f"{name} status {enabled:#x}, the enabled channels, before the results"
        raise InputError(expected, f"{finished:#x}", file=transcript.path, line=transcript.status_line)
    return enabled if finished is None else finished


def _missing(speeds: Sequence[Speed], enabled: Mapping[Direction, int | None], line: int) -> list[Printed]:
    there = {(speed.channel, speed.direction) for speed in speeds}
    return [
        Printed(channel, direction, None, line)
        for channel in range(CHANNELS)
        for direction, bits in enabled.items()
        if bits is not None and bits >> channel & 1 and (channel, direction) not in there
    ]


def memory_rows(printed: Sequence[Printed], settings: RunSettings, *, latency_run: bool) -> list[MemoryRow]:
    """Return speeds as rows with all corrections, flags and efficiencies.

    Parameters
    ----------
    printed : sequence of Printed
        Speeds of one run.
    settings : RunSettings
        What the run worked with.
    latency_run : bool
        Whether it measured latencies.

    Returns
    -------
    list of MemoryRow
        One row a speed.
    """
    run = settings.run
    certain = run is not None and (
        run.target_channel is not None or run.memory != "hbm" or run.switch == "off"
    )
    rows = [_row(item, settings, latency_run=latency_run) for item in printed]
    return with_efficiency(rows, target_certain=certain)


def _row(printed: Printed, settings: RunSettings, *, latency_run: bool) -> MemoryRow:
    run, channel = settings.run, printed.channel
    given = _UNKNOWN if channel is None else settings.pattern(channel)
    pattern = _as_it_happened(given, settings)
    num_ops = None if channel is None else settings.num_ops(channel)
    flags = _unknowns(pattern, num_ops, settings)
    factors: dict[str, float] = {}
    corrected = None
    if latency_run:
        flags.append("latency_run")
        if pattern.burst_bytes != given.burst_bytes:
            factors["burst_wrap"] = 1.0
        if channel is not None and channel == settings.latency_channel and printed.direction == "read":
            stride = pattern.stride_bytes
            pattern = replace(pattern, stride_bytes=None if stride is None else STRIDE_FACTOR * stride)
            factors["latency_stride"] = 1.0
    else:
        factors = _factors(given, pattern, num_ops, settings)
    if printed.gbps is None:
        flags.append("no_speed_line")
    elif not math.isfinite(printed.gbps) or printed.gbps == 0:
        flags.append("not_a_number")
    elif not latency_run and run is not None and not _blocked(pattern, flags, run.memory):
        corrected = printed.gbps * math.prod(factors.values())
        flags += _above_peak(corrected, factors, run.peak_gbps, num_ops_stated=run.num_ops is not None)
    if settings.config_missing:
        flags.append("config_missing")
    finite = printed.gbps is not None and not math.isnan(printed.gbps)
    return MemoryRow(
        board="" if run is None else run.board,
        memory="" if run is None else run.memory,
        channel=channel,
        target_channel=_target(settings, channel),
        direction=printed.direction,
        mode="latency" if latency_run else "throughput",
        policy="" if run is None or run.policy is None else run.policy,
        switch="" if run is None or run.switch is None else run.switch,
        burst_bytes=pattern.burst_bytes,
        stride_bytes=pattern.stride_bytes,
        working_set_bytes=pattern.working_set_bytes,
        num_ops=None if "num_ops_unknown" in flags else num_ops,
        reported_gbps=printed.gbps if finite else None,
        corrected_gbps=corrected,
        peak_gbps=None if run is None else run.peak_gbps,
        efficiency=None,
        corrections=tuple(factors),
        flags=tuple(flags),
        origin="" if run is None else run.origin,
        source_file=settings.path.as_posix(),
        source_line=printed.line,
    )


def _as_it_happened(given: Pattern, settings: RunSettings) -> Pattern:
    """Return the pattern with the burst that an HBM engine really moved."""
    if given.burst_bytes is None or settings.run is None or settings.run.memory != "hbm":
        return given
    return replace(given, burst_bytes=wrapped_burst(given.burst_bytes))


def _unknowns(pattern: Pattern, num_ops: int | None, settings: RunSettings) -> list[str]:
    run = settings.run
    if run is None:
        return ["no_sidecar"]
    flags = []
    if num_ops is None or settings.printed_num_ops is None:
        flags.append("num_ops_unknown")
    if None in (pattern.burst_bytes, pattern.stride_bytes, pattern.working_set_bytes):
        flags.append("pattern_unknown")
    if run.policy is None:
        flags.append("policy_unknown")
    return flags


def _blocked(pattern: Pattern, flags: Sequence[str], memory: str) -> bool:
    """Return whether the speed cannot be corrected: an unknown HBM burst may have wrapped."""
    return "num_ops_unknown" in flags or (memory == "hbm" and pattern.burst_bytes is None)


def _factors(
    given: Pattern, pattern: Pattern, num_ops: int | None, settings: RunSettings
) -> dict[str, float]:
    """Return what the printed speed is multiplied by, by correction, where that is not 1."""
    run, printed_num_ops = settings.run, settings.printed_num_ops
    if run is None:
        return {}
    factors = {"clock": clock_factor(run.memory, run.engine_clock_mhz)}
    if num_ops is not None and printed_num_ops is not None:
        factors["num_ops"] = num_ops / printed_num_ops
    if given.burst_bytes is not None and pattern.burst_bytes is not None:
        factors["burst_wrap"] = pattern.burst_bytes / given.burst_bytes
    return {code: factor for code, factor in factors.items() if factor != 1.0}


def _above_peak(
    corrected: float, factors: Mapping[str, float], peak_gbps: float, *, num_ops_stated: bool
) -> list[str]:
    """Return why a speed above the peak is rejected.

    If only the N correction lifts it above the peak, the program was not built with its public N:
    that is what is not known, unless ``run.yaml`` states N.
    """
    limit = peak_gbps * (1 + PEAK_TOLERANCE)
    if corrected <= limit:
        return []
    if not num_ops_stated and corrected / factors.get("num_ops", 1.0) <= limit:
        return ["num_ops_unknown"]
    return ["above_peak"]


def _target(settings: RunSettings, channel: int | None) -> int | None:
    run = settings.run
    if run is None or channel is None:
        return None
    if run.target_channel is not None:
        return of_channel(run.target_channel, channel)
    return target_channel(run.memory, run.switch, channel)
