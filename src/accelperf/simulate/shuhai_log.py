"""The text that the Shuhai benchmark prints, written from timers and latency counts.

One needs this to make logs in the benchmark's exact output format: for the sample data, and so
that the reader of real logs can be checked against a writer that knows every habit of the program.

The program's habits are not options here, because it has no choice either: the echoes of
``--workGroupSize`` and ``--memBurstSize`` run into what follows, every speed is computed with the
number of accesses of the *latency channel*, and counts are hexadecimal where no channel is enabled
(the stream is still in ``std::hex``). What depends on the run or on how the output was captured is
asked for with `Capture`.

References
----------
Wang, Huang, Zhang, Alonso, *Shuhai: Benchmarking High Bandwidth Memory on FPGAs*, FCCM 2020, and
its public software (RC4ML/Shuhai, ``sw/src``: ``hbm_test.cpp``, ``ddr_test.cpp``,
``fpga/FpgaController.cpp``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from accelperf.errors import InputError

CHANNELS = 32
"""Channels that the program loops over, for every memory (V)."""

SOFTWARE_CLOCK_MHZ: Mapping[str, float] = {"hbm": 450.0, "ddr4": 300.0, "ddr3": 300.0}
"""Clock that the program multiplies by (V). A DDR3 engine runs at 166.7 MHz; the software does not
know, so its speeds read 1.8 times high."""

BEAT_BYTES: Mapping[str, int] = {"hbm": 32, "ddr4": 64, "ddr3": 64}
"""Bytes that one engine moves a cycle (V)."""

HBM_MAX_BEATS = 16
"""Beats of the longest AXI3 burst: the length field has four bits (V)."""

COUNTS_PRINTED = 100
COUNTS_PER_LINE = 16
COUNT_MODULUS = 256
"""Latency counters are eight bits wide and wrap (V)."""

DEFAULT_BYTES = 64
DEFAULT_WORKING_SET_BYTES = 0x10000000
DEFAULT_NUM_OPS = 100_000
HBM_NUM_OPS: Mapping[int, int] = {
    4: 10_000_000,
    5: 10_000_000,
    7: 1_000_000,
    8: 1_000_000,
    9: 1_000_000,
    12: 1_000_000,
    13: 1_000_000,
}
"""HBM channels whose compiled-in number of accesses is not `DEFAULT_NUM_OPS` (V)."""

DDR_OPTION_CHANNELS = 2
"""DDR channels that the command-line options reach (V)."""

DDR_STRIDE_CHANNELS = 13
"""DDR channels ``i`` with a default stride of ``64 * 2**i`` (V)."""

Direction = Literal["write", "read"]
ConfigName = Literal[
    "workGroupSize", "strideLength", "memBurstSize", "readEnable", "writeEnable", "latencyChannel"
]

CONFIG_NAMES: tuple[str, ...] = (
    "workGroupSize",
    "strideLength",
    "memBurstSize",
    "readEnable",
    "writeEnable",
    "latencyChannel",
)
"""Parameters that a configuration file can set (V)."""

_UINT32 = 0xFFFFFFFF


@dataclass(frozen=True)
class Invocation:
    """One run of the benchmark's program: its options and configuration file.

    Attributes
    ----------
    memory : {"hbm", "ddr4", "ddr3"}
        ``hbm`` runs ``test-hbm``, the others ``test-ddr``.
    read_enable, write_enable : int, optional
        Enabled channels as 32 bits, channel 0 the least significant; None where the option is not
        given.
    channel : int, optional
        Latency channel, ``--channel``. It chooses the channel but enables nothing; only a
        configuration file does. ``test-ddr`` has no such option.
    working_set_bytes, stride_bytes, burst_bytes : int, optional
        Options ``--workGroupSize``, ``--strideLength``, ``--memBurstSize``.
    config_file : str, optional
        Name after ``--configFile``.
    config : sequence of (str, int, int), optional
        The file's lines: parameter, channel, value. None where the file cannot be opened.
    num_ops : Mapping of int to int, optional
        Accesses by channel of a program that was compiled with other numbers than the public one.

    Raises
    ------
    InputError
        If a number is out of range or the program has no such option.
    """

    memory: Literal["hbm", "ddr4", "ddr3"]
    read_enable: int | None = None
    write_enable: int | None = None
    channel: int | None = None
    working_set_bytes: int | None = None
    stride_bytes: int | None = None
    burst_bytes: int | None = None
    config_file: str | None = None
    config: tuple[tuple[str, int, int], ...] | None = ()
    num_ops: Mapping[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.memory not in SOFTWARE_CLOCK_MHZ:
            raise InputError("memory hbm, ddr4 or ddr3", repr(self.memory))
        for name in ("read_enable", "write_enable"):
            value = getattr(self, name)
            if value is not None and not 0 <= value <= _UINT32:
                raise InputError(f"{name} as 32 bits", str(value))
        if self.channel is not None:
            if self.memory != "hbm":
                raise InputError("no --channel (test-ddr has no such option)", str(self.channel))
            _check_channel(self.channel)
        for name in ("working_set_bytes", "stride_bytes", "burst_bytes"):
            value = getattr(self, name)
            if value is not None and not 0 < value <= _UINT32:
                raise InputError(f"{name} above 0, in 32 bits", str(value))
        for channel, count in self.num_ops.items():
            _check_channel(channel)
            if count < 1:
                raise InputError("a number of accesses above 0", str(count))
        for name, channel, _ in self.config or ():
            _check_channel(channel)
            if name not in CONFIG_NAMES:
                raise InputError(f"one of {', '.join(CONFIG_NAMES)}", repr(name))
        if self.config_file is None and self.config:
            raise InputError("the name of the configuration file", "only its lines")

    @property
    def program(self) -> str:
        """Name of the program."""
        return "test-hbm" if self.memory == "hbm" else "test-ddr"

    def command(self) -> str:
        """Return the command line."""
        options = {
            "readEnable": self.read_enable,
            "writeEnable": self.write_enable,
            "channel": self.channel,
            "workGroupSize": self.working_set_bytes,
            "strideLength": self.stride_bytes,
            "memBurstSize": self.burst_bytes,
            "configFile": self.config_file,
        }
        given = [f"--{name}={value}" for name, value in options.items() if value is not None]
        return " ".join([f"sudo ./{self.program}", *given])

    def config_text(self) -> str:
        """Return the text of the configuration file."""
        return "".join(f"{name} {channel} {value}\n" for name, channel, value in self.config or ())


def _check_channel(channel: int) -> None:
    if not 0 <= channel < CHANNELS:
        raise InputError(f"a channel from 0 to {CHANNELS - 1}", str(channel))


@dataclass(frozen=True)
class Settings:
    """What the program ends up with after its defaults, options and configuration file.

    Attributes
    ----------
    burst_bytes, stride_bytes, working_set_bytes, num_ops : tuple of int, length 32
        B, S, W and N by channel.
    read_enable, write_enable : int
        Enabled channels as bits.
    latency_channel : int
        Channel whose N goes into every speed.
    latency_enabled : bool
        Whether the run measures latency on that channel.
    """

    burst_bytes: tuple[int, ...]
    stride_bytes: tuple[int, ...]
    working_set_bytes: tuple[int, ...]
    num_ops: tuple[int, ...]
    read_enable: int
    write_enable: int
    latency_channel: int
    latency_enabled: bool

    def enabled(self) -> list[tuple[int, Direction]]:
        """Return channels and directions that a speed is printed for, in the order of the lines."""
        pairs: list[tuple[int, Direction]] = []
        for channel in range(CHANNELS):
            if self.write_enable >> channel & 1:
                pairs.append((channel, "write"))
            if self.read_enable >> channel & 1:
                pairs.append((channel, "read"))
        return pairs


def settings(invocation: Invocation) -> Settings:
    """Return what the program runs with, from defaults, options and configuration file, in this order.

    A file's enables are AND-ed with what is already enabled, so with ``test-hbm``'s default of 0
    they never switch anything on.

    Parameters
    ----------
    invocation : Invocation
        The run.

    Returns
    -------
    Settings
        Values of all 32 channels.
    """
    hbm = invocation.memory == "hbm"
    working_set = [DEFAULT_WORKING_SET_BYTES] * CHANNELS
    stride = [DEFAULT_BYTES] * CHANNELS
    burst = [DEFAULT_BYTES] * CHANNELS
    num_ops = [DEFAULT_NUM_OPS] * CHANNELS
    if hbm:
        for channel, count in HBM_NUM_OPS.items():
            num_ops[channel] = count
    else:
        for channel in range(DDR_STRIDE_CHANNELS):
            stride[channel] = DEFAULT_BYTES << channel
    for channel, count in invocation.num_ops.items():
        num_ops[channel] = count

    reached = CHANNELS if hbm else DDR_OPTION_CHANNELS
    for values, option, count in (
        (working_set, invocation.working_set_bytes, reached),
        (stride, invocation.stride_bytes, reached),
        (burst, invocation.burst_bytes, reached if hbm else reached + 1),
    ):
        if option is not None:
            values[:count] = [option] * count

    read_enable = (0 if hbm else 1) if invocation.read_enable is None else invocation.read_enable
    write_enable = 0 if invocation.write_enable is None else invocation.write_enable
    latency_channel = invocation.channel or 0
    latency_enabled = False
    for name, channel, value in invocation.config or ():
        if name == "workGroupSize":
            working_set[channel] = value
        elif name == "strideLength":
            stride[channel] = value
        elif name == "memBurstSize":
            burst[channel] = value
        elif name == "readEnable":
            read_enable &= value << channel & _UINT32
        elif name == "writeEnable":
            write_enable &= value << channel & _UINT32
        else:
            latency_channel, latency_enabled = channel, bool(value)
    return Settings(
        burst_bytes=tuple(burst),
        stride_bytes=tuple(stride),
        working_set_bytes=tuple(working_set),
        num_ops=tuple(num_ops),
        read_enable=read_enable,
        write_enable=write_enable,
        latency_channel=latency_channel,
        latency_enabled=latency_enabled,
    )


def moved_burst_bytes(memory: str, burst_bytes: int) -> int:
    """Return how many bytes an access really moves when the program is asked for a burst.

    The HBM engine writes the number of beats less one into a field of four bits, so a burst above
    512 bytes wraps: ``32 (((B / 32 - 1) mod 16) + 1)``.

    Parameters
    ----------
    memory : {"hbm", "ddr4", "ddr3"}
        The memory.
    burst_bytes : int
        B as the program was told [bytes].

    Returns
    -------
    int
        Bytes moved by one access.

    Examples
    --------
    >>> moved_burst_bytes("hbm", 1024)
    512
    """
    if memory != "hbm":
        return burst_bytes
    beat = BEAT_BYTES[memory]
    return beat * (((burst_bytes // beat - 1) % HBM_MAX_BEATS) + 1)


@dataclass(frozen=True)
class Measurement:
    """What the hardware counted in one run.

    Attributes
    ----------
    timer_cycles : Mapping of (int, str) to int
        Cycles by channel and direction, one for each enabled pair; 0 makes the speed ``inf``.
    latency_cycles : sequence of int
        Latencies of the latency channel [cycles]; the program prints 100 of them, modulo 256.
    """

    timer_cycles: Mapping[tuple[int, Direction], int]
    latency_cycles: Sequence[int] = ()


@dataclass(frozen=True)
class Capture:
    """How a run went on and how its output was captured.

    Attributes
    ----------
    status_pairs : int
        Pairs of status lines, one a second; all but the last show no channel finished.
    hung : bool
        The run never finishes: the file ends in the status lines, none of them final.
    crlf : bool
        Lines end in CR LF, as in a terminal capture.
    ansi : bool
        Escape sequences of a terminal, and the prompt with the command before the output.
    truncate_chars : int, optional
        Characters kept of the text.
    """

    status_pairs: int = 1
    hung: bool = False
    crlf: bool = False
    ansi: bool = False
    truncate_chars: int | None = None

    def __post_init__(self) -> None:
        if self.status_pairs < 1:
            raise InputError("one pair of status lines or more", str(self.status_pairs))
        if self.truncate_chars is not None and self.truncate_chars < 0:
            raise InputError("a number of characters of 0 or more", str(self.truncate_chars))


PLAIN = Capture()

_PREAMBLE = (
    "huge device /media/huge/abc opened.\n"
    "huge device mapped at {base}\n"
    "dma device /dev/xdma_control opened.\n"
    "bypass device /dev/xdma_bypass opened.\n"
    "huge_base: {base}\n"
    "IOCTL_XDMA_BUFFER_Set\n"
    "IOCTL_XDMA_MAPPING_GET\n"
    "memory manager init, base: {base}, size: {size}\n"
)
_BASE_ADDRESS = "0x7f0000000000"
_DMA_BYTES = 1 << 30

_PROMPT = "\x1b[01;32mfpga\x1b[00m:\x1b[01;34mbuild\x1b[00m$ "
_CLEAR_LINE = "\x1b[K"


def speed_gbps(burst_bytes: int, num_ops: int, clock_mhz: float, cycles: int) -> float:
    """Return the speed that the program prints, in its single precision.

    ``burst_bytes * num_ops * clock_mhz / cycles / 1000``

    Parameters
    ----------
    burst_bytes : int
        B of the channel [bytes].
    num_ops : int
        N of the latency channel.
    clock_mhz : float
        Clock of the engine [MHz].
    cycles : int
        Timer of the channel [cycles].

    Returns
    -------
    float
        Speed [decimal GB/s]; infinite where the timer is 0.
    """
    if cycles == 0:
        return float("inf")
    return float(np.float32(burst_bytes * num_ops * clock_mhz / cycles / 1000.0))


def cycles_of_speed(burst_bytes: int, num_ops: int, clock_mhz: float, gbps: float) -> int:
    """Return the timer at which the program prints a speed: `speed_gbps` solved for the cycles."""
    return round(burst_bytes * num_ops * clock_mhz / (gbps * 1000.0))


def write(invocation: Invocation, measurement: Measurement, capture: Capture = PLAIN) -> str:
    """Return what the program prints on stdout.

    Parameters
    ----------
    invocation : Invocation
        The run.
    measurement : Measurement
        What the hardware counted.
    capture : Capture
        How the run went on and how the output was captured.

    Returns
    -------
    str
        The text, to be encoded as UTF-8 (the full stop after a status is U+3002).

    Raises
    ------
    InputError
        If an enabled channel has no timer, or a latency run too few counts.
    """
    run = settings(invocation)
    text = _PREAMBLE.format(base=_BASE_ADDRESS, size=_DMA_BYTES) + _echo(invocation) + _status(run, capture)
    if not capture.hung:
        text += _speeds(invocation, run, measurement)
        if run.latency_enabled:
            text += _counts(run, measurement)
    if capture.ansi:
        lines = text.split("\n")
        text = f"{_PROMPT}{invocation.command()}\n" + f"{_CLEAR_LINE}\n".join(lines)
    if capture.crlf:
        text = text.replace("\n", "\r\n")
    return text if capture.truncate_chars is None else text[: capture.truncate_chars]


def write_numbers(latency_cycles: Sequence[int]) -> str:
    """Return a file of one latency a line, as older versions wrote beside their output (``res.txt``).

    Parameters
    ----------
    latency_cycles : sequence of int
        Latencies [cycles], written modulo 256.

    Returns
    -------
    str
        The text.
    """
    return "".join(f"{count % COUNT_MODULUS}\n" for count in latency_cycles)


def _echo(invocation: Invocation) -> str:
    text = ""
    for enable in (invocation.read_enable, invocation.write_enable):
        if enable is not None:
            text += f"{enable:032b}\n"
    if invocation.channel is not None:
        text += f"{invocation.channel}\n"
    # The program ends these lines only after the stride and the file: the glue is its own.
    if invocation.working_set_bytes is not None:
        text += f"{invocation.working_set_bytes}"
    if invocation.stride_bytes is not None:
        text += f"{invocation.stride_bytes}\n"
    if invocation.burst_bytes is not None:
        text += f"{invocation.burst_bytes}"
    if invocation.config_file is not None:
        result = "failed, check whether it exists." if invocation.config is None else "succeed."
        text += f"open {invocation.config_file} {result}\n"
    return text


def _status(run: Settings, capture: Capture) -> str:
    unfinished = "endWr status: 0x0。\nendRd status: 0x0。\n"
    final = f"endWr status: {run.write_enable:#x}。\nendRd status: {run.read_enable:#x}。\n"
    if capture.hung:
        if not run.read_enable and not run.write_enable:
            raise InputError("an enabled channel in a run that hangs", "none (the program ends at once)")
        return unfinished * capture.status_pairs
    return unfinished * (capture.status_pairs - 1) + final


def _speeds(invocation: Invocation, run: Settings, measurement: Measurement) -> str:
    clock_mhz = SOFTWARE_CLOCK_MHZ[invocation.memory]
    num_ops = run.num_ops[run.latency_channel]
    lines = []
    for channel, direction in run.enabled():
        if (channel, direction) not in measurement.timer_cycles:
            raise InputError(f"a timer for {direction} on channel {channel}", "none")
        cycles = measurement.timer_cycles[channel, direction]
        speed = speed_gbps(run.burst_bytes[channel], num_ops, clock_mhz, cycles)
        name = "wr_speed" if direction == "write" else "rd_speed"
        lines.append(f"The chennel {channel}, {name}: {speed:g} GB/s\n")
    return "".join(lines)


def _counts(run: Settings, measurement: Measurement) -> str:
    counts = measurement.latency_cycles[:COUNTS_PRINTED]
    if len(counts) < COUNTS_PRINTED:
        raise InputError(f"{COUNTS_PRINTED} latency counts", str(len(counts)))
    # Only the lines of the speeds put the stream back to decimal.
    base = "d" if run.enabled() else "x"
    text = ""
    for index, count in enumerate(counts):
        text += f"  {count % COUNT_MODULUS:{base}}"
        if index % COUNTS_PER_LINE == COUNTS_PER_LINE - 1:
            text += "\n"
    return text + "\n"
