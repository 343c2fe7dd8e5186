"""A run of the Shuhai benchmark on the DRAM model: its log, its configuration file, its ``run.yaml``.

`simulate_memory` is what ``accelperf simulate memory`` calls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
import yaml
from numpy.typing import NDArray

from accelperf.errors import InputError
from accelperf.simulate.address_mapping import address_mapping
from accelperf.simulate.dram import AccessPattern, Direction, Mode, simulate, simulate_shared
from accelperf.simulate.dram_timing import MEMORIES, MemoryTiming
from accelperf.simulate.shuhai_log import (
    BEAT_BYTES,
    CHANNELS,
    DDR_OPTION_CHANNELS,
    PLAIN,
    SOFTWARE_CLOCK_MHZ,
    Capture,
    Invocation,
    Measurement,
    Settings,
    moved_burst_bytes,
    settings,
    write,
)

LOG_NAME = "shuhai.log"
SIDECAR_NAME = "run.yaml"
CONFIG_NAME = "latency.txt"

MODEL_BOARD = "model-u280"
"""Board name of runs of the DRAM model."""

MODEL_SOURCE = (
    "SIMULATED by the DRAM model of accelperf in the output format of the Shuhai benchmark; not a "
    "capture from a board."
)


@dataclass(frozen=True)
class ChannelRun:
    """What one channel of a run took.

    Attributes
    ----------
    channel : int
        AXI channel.
    direction : {"read", "write"}
        Direction.
    cycles : int
        Timer [AXI cycles].
    gbps : float
        Bytes really moved in that time [decimal GB/s].
    latency_cycles : ndarray of int64, shape [num_ops] or [0]
        Latencies of a latency run [AXI cycles].
    validated : bool
        Whether a published figure confirms the throughput.
    note : str
        That figure, or why there is none.
    """

    channel: int
    direction: Direction
    cycles: int
    gbps: float
    latency_cycles: NDArray[np.int64] = field(repr=False)
    validated: bool
    note: str


@dataclass(frozen=True)
class MemoryRun:
    """A simulated run.

    Attributes
    ----------
    channels : tuple of ChannelRun
        What each enabled channel took.
    files : Mapping of str to str
        Text by file name: the log, ``run.yaml`` and, for a latency run, the configuration file. Empty
        for random accesses, which the benchmark does not know.
    """

    channels: tuple[ChannelRun, ...]
    files: Mapping[str, str] = field(repr=False)

    def summary(self) -> list[str]:
        """Return one line of text a channel."""
        lines = []
        for run in self.channels:
            line = f"channel {run.channel} {run.direction}: {run.gbps:.4g} GB/s in {run.cycles} cycles"
            if len(run.latency_cycles):
                median = float(np.median(run.latency_cycles))
                line = (
                    f"channel {run.channel} {run.direction}: latency median {median:g}, "
                    f"maximum {run.latency_cycles.max()} cycles over {len(run.latency_cycles)} accesses"
                )
            lines.append(f"{line} ({run.note})")
        return lines


def simulate_memory(
    folder: Path | None = None,
    *,
    memory: str = "hbm",
    policy: str | None = None,
    switch: Literal["on", "off"] | None = None,
    mode: Mode = "throughput",
    direction: Direction = "read",
    channels: Sequence[int] = (0,),
    burst_bytes: int | None = None,
    stride_bytes: int | None = None,
    working_set_bytes: int | None = None,
    num_ops: int | None = None,
    kind: Literal["rst", "random"] = "rst",
    seed: int = 0,
    board: str = MODEL_BOARD,
    capture: Capture = PLAIN,
    stopped_timers: Sequence[int] = (),
    nothing_enabled: bool = False,
) -> MemoryRun:
    """Run the benchmark on the DRAM model and write its files.

    Parameters
    ----------
    folder : Path, optional
        Where log, ``run.yaml`` and configuration file go; nothing is written where it is not given.
    memory : {"hbm", "ddr4"}
        The memory.
    policy : str, optional
        Address mapping policy; the controller's default where it is not given.
    switch : {"on", "off"}, optional
        State of the HBM switch, on where it is not given. With it on all engines read channel 0, as in
        the public version; with it off each reads its own.
    mode : {"throughput", "latency"}
        Throughput of all `channels`, or latency of the only one.
    direction : {"read", "write"}
        Direction of all accesses.
    channels : sequence of int
        Enabled AXI channels.
    burst_bytes, stride_bytes, working_set_bytes : int, optional
        Options of the program [bytes]; its defaults where they are not given.
    num_ops : int, optional
        Accesses of every channel, of a program compiled with that number; the public ones where it is
        not given (100 000 on most channels, 10 000 000 on channels 4 and 5 of HBM).
    kind, seed
        Order of the addresses, see `AccessPattern`. The benchmark knows no random accesses, so that
        they have no log.
    board : str
        Board named in ``run.yaml``.
    capture : Capture
        How the run went on and how its output was captured.
    stopped_timers : sequence of int
        Channels whose timer stays 0, so that the program prints ``inf``.
    nothing_enabled : bool
        A latency run without an enabled channel: the program prints no speed and its counts, left from
        a run before, in hexadecimal.

    Returns
    -------
    MemoryRun
        What each channel took, and the files.

    Raises
    ------
    InputError
        If the program has no such run, a name is unknown, or a pattern does not fit the memory. Nothing
        is written then.
    """
    if memory not in MEMORIES:
        raise InputError(f"memory {' or '.join(MEMORIES)}", repr(memory))
    timing = MEMORIES[memory]
    state = switch or ("on" if memory == "hbm" else None)
    if memory != "hbm" and switch == "on":
        raise InputError(f"no switch on {memory}", repr(switch))
    _check_channels(memory, channels, mode)
    if nothing_enabled and mode != "latency":
        raise InputError("mode latency where no channel is enabled", repr(mode))
    if kind == "random" and (folder is not None or mode == "latency"):
        raise InputError(
            "access pattern rst for a log or a latency run (the benchmark knows no random accesses)",
            repr(kind),
        )

    invocation = _invocation(
        memory=memory,
        direction=direction,
        channels=() if nothing_enabled else channels,
        latency_channel=channels[0] if mode == "latency" else None,
        burst_bytes=burst_bytes,
        stride_bytes=stride_bytes,
        working_set_bytes=working_set_bytes,
        num_ops=num_ops,
    )
    run = settings(invocation)
    patterns = [
        AccessPattern(
            burst_bytes=moved_burst_bytes(memory, run.burst_bytes[channel]),
            stride_bytes=run.stride_bytes[channel],
            working_set_bytes=run.working_set_bytes[channel],
            num_ops=run.num_ops[channel],
            kind=kind,
            seed=seed,
        )
        for channel in channels
    ]
    results = _run_channels(timing, channels, patterns, policy, mode, direction, state)
    if kind == "random":
        return MemoryRun(results, {})

    stopped = set(stopped_timers)
    if not stopped <= set(channels):
        raise InputError("stopped timers of enabled channels", str(sorted(stopped - set(channels))))
    measurement = Measurement(
        {
            (result.channel, direction): 0 if result.channel in stopped else result.cycles
            for result in results
        },
        results[0].latency_cycles.tolist(),
    )
    files = {
        LOG_NAME: write(invocation, measurement, capture),
        SIDECAR_NAME: sidecar(
            invocation,
            board=board,
            policy=address_mapping(memory, policy).name,
            switch=state,
            source=f"{MODEL_SOURCE} {_notes(results)}",
        ),
    }
    if invocation.config_file is not None:
        files[invocation.config_file] = invocation.config_text()
    if folder is not None:
        write_files(folder, files)
    return MemoryRun(results, files)


def _notes(results: Sequence[ChannelRun]) -> str:
    notes = sorted({result.note for result in results})
    return "; ".join(note[0].upper() + note[1:] for note in notes) + "."


def _check_channels(memory: str, channels: Sequence[int], mode: str) -> None:
    last = (CHANNELS if memory == "hbm" else DDR_OPTION_CHANNELS) - 1
    if not channels or len(set(channels)) != len(channels):
        raise InputError("one channel or more, none twice", str(list(channels)))
    for channel in channels:
        if not 0 <= channel <= last:
            raise InputError(f"a channel of {memory} from 0 to {last}", str(channel))
    if mode == "latency" and len(channels) != 1:
        raise InputError("one channel in a latency run", str(list(channels)))


def _invocation(
    *,
    memory: str,
    direction: Direction,
    channels: Sequence[int],
    latency_channel: int | None,
    burst_bytes: int | None,
    stride_bytes: int | None,
    working_set_bytes: int | None,
    num_ops: int | None,
) -> Invocation:
    enables = sum(1 << channel for channel in channels)
    # test-ddr reads channel 0 unless it is told otherwise; test-hbm does nothing.
    idle = 0 if memory != "hbm" else None
    reads = direction == "read"
    config = () if latency_channel is None else (("latencyChannel", latency_channel, 1),)
    return Invocation(
        memory="hbm" if memory == "hbm" else "ddr4",
        read_enable=(enables or idle) if reads else idle,
        write_enable=None if reads else enables,
        working_set_bytes=working_set_bytes,
        stride_bytes=stride_bytes,
        burst_bytes=burst_bytes,
        config_file=CONFIG_NAME if config else None,
        config=config,
        num_ops={} if num_ops is None else dict.fromkeys(range(CHANNELS), num_ops),
    )


def _run_channels(
    timing: MemoryTiming,
    channels: Sequence[int],
    patterns: Sequence[AccessPattern],
    policy: str | None,
    mode: Mode,
    direction: Direction,
    switch: Literal["on", "off"] | None,
) -> tuple[ChannelRun, ...]:
    none = np.empty(0, dtype=np.int64)
    if timing.name == "hbm" and switch == "on" and len(channels) > 1:
        timers = simulate_shared(timing, patterns, policy=policy, direction=direction, switch=switch)
        return tuple(
            ChannelRun(
                channel=channel,
                direction=direction,
                cycles=cycles,
                gbps=pattern.total_bytes * timing.clock_mhz / (1e3 * cycles),
                latency_cycles=none,
                validated=False,
                note="unvalidated: no published figure for channels that share channel 0 alone",
            )
            for channel, pattern, cycles in zip(channels, patterns, timers, strict=True)
        )
    runs = []
    for channel, pattern in zip(channels, patterns, strict=True):
        result = simulate(
            timing,
            pattern,
            policy=policy,
            mode=mode,
            direction=direction,
            switch=switch,
            axi_channel=channel,
        )
        runs.append(
            ChannelRun(
                channel=channel,
                direction=direction,
                cycles=result.cycles,
                gbps=result.gbps,
                latency_cycles=result.latency_cycles,
                validated=result.validated,
                note=result.note,
            )
        )
    return tuple(runs)


def sidecar(
    invocation: Invocation,
    *,
    board: str,
    policy: str,
    switch: str | None,
    source: str,
    with_command: bool = True,
) -> str:
    """Return the text of the ``run.yaml`` beside a log.

    Parameters
    ----------
    invocation : Invocation
        The run.
    board, policy : str
        Board and address mapping policy.
    switch : {"on", "off"}, optional
        State of the HBM switch; nothing is said of it on a memory without one.
    source : str
        Where the log comes from.
    with_command : bool
        Whether the command line goes into the file, with the numbers of accesses where the program
        was compiled with other ones than the public version; else B, S, W and N of the latency channel.

    Returns
    -------
    str
        YAML.
    """
    run = settings(invocation)
    content: dict[str, object] = {"board": board, "memory": invocation.memory, "policy": policy}
    if switch is not None:
        content["switch"] = switch
    content |= {
        "clock_mhz": SOFTWARE_CLOCK_MHZ[invocation.memory],
        "width_bytes": BEAT_BYTES[invocation.memory],
        "origin": "simulated",
        "source": source,
    }
    if with_command:
        content["command"] = invocation.command()
        if invocation.num_ops:
            content["num_ops"] = _num_ops(run)
    else:
        for name in ("burst_bytes", "stride_bytes", "working_set_bytes", "num_ops"):
            content[name] = getattr(run, name)[run.latency_channel]
    return yaml.safe_dump(content, sort_keys=False, width=100)


def _num_ops(run: Settings) -> int | dict[int, int]:
    return run.num_ops[0] if len(set(run.num_ops)) == 1 else dict(enumerate(run.num_ops))


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    """Write texts into a folder, each through a temporary file so that an interruption leaves the old one.

    Raises
    ------
    InputError
        If the folder cannot be written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            temporary = folder / f"{name}.part"
            # Line ends are the benchmark's own, whatever the system's.
            temporary.write_text(text, encoding="utf-8", newline="")
            temporary.replace(folder / name)
    except OSError as error:
        raise InputError("a folder to write to", error.strerror or str(error), file=folder) from None
