"""What Shuhai's host programs ``test-hbm`` and ``test-ddr`` do with their options.

Facts of the public sources (RC4ML/Shuhai, ``sw/src/{hbm,ddr}_test.cpp``, ``fpga/FpgaController.cpp``,
verified there unless a line says otherwise): defaults, options, and the configuration file.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from accelperf.errors import InputError
from accelperf.memory.text_stream import read_blocks

Memory = Literal["hbm", "ddr4", "ddr3"]

CHANNELS = 32
"""Channels that the programs loop over."""

PROGRAM_CLOCK_MHZ: Mapping[str, float] = {"hbm": 450.0, "ddr4": 300.0, "ddr3": 300.0}
"""Clock [MHz] that the printed speed is computed with, whatever clock the engines really had."""

ENGINE_CLOCK_MHZ: Mapping[str, float] = {"hbm": 450.0, "ddr4": 300.0}
ENGINE_WIDTH_BYTES: Mapping[str, int] = {"hbm": 32, "ddr4": 64}
"""Clock [MHz] and word [bytes] of the public bitstreams' engines (the DDR3 branch's are not known)."""

SMALLEST_BURST_BYTES: Mapping[str, int] = {"hbm": 32, "ddr4": 64, "ddr3": 64}
LARGEST_BURST_BYTES = 32768
"""Largest power of two in the engines' 16-bit burst size register (``rd_engine.sv``)."""

DEFAULT_WORKING_SET_BYTES = 0x10000000
DEFAULT_BURST_BYTES = 64
DEFAULT_ENABLES: Mapping[str, tuple[int, int]] = {"hbm": (0, 0), "ddr4": (0, 1), "ddr3": (0, 1)}
"""Write and read enables, one bit a channel."""

_NUM_OPS = 100_000
_HBM_NUM_OPS = {4: 10_000_000, 5: 10_000_000} | dict.fromkeys((7, 8, 9, 12, 13), 1_000_000)

PARAMETERS = ("workGroupSize", "strideLength", "memBurstSize", "readEnable", "writeEnable", "latencyChannel")
"""Parameters of a configuration file."""


def default_num_ops(memory: str, channel: int) -> int:
    """Return N, the accesses that a channel makes (no option changes it)."""
    return _HBM_NUM_OPS.get(channel, _NUM_OPS) if memory == "hbm" else _NUM_OPS


def default_stride(memory: str, channel: int) -> int:
    """Return S [bytes] without an option: 64, on DDR 64 * 2**channel up to channel 12."""
    return 64 << channel if memory != "hbm" and channel <= 12 else 64


@dataclass(frozen=True)
class Options:
    """Options given to a program; None where one was not given.

    Attributes
    ----------
    working_set_bytes, stride_bytes, burst_bytes : int or None
        W, S and B of all channels [bytes].
    channel : int or None
        Latency channel (HBM program only).
    read_enable, write_enable : int or None
        Enabled channels, one bit a channel.
    config_file : str or None
        Name of a configuration file.
    """

    working_set_bytes: int | None = None
    stride_bytes: int | None = None
    burst_bytes: int | None = None
    channel: int | None = None
    read_enable: int | None = None
    write_enable: int | None = None
    config_file: str | None = None


_OPTIONS = {
    "workGroupSize": "working_set_bytes",
    "strideLength": "stride_bytes",
    "memBurstSize": "burst_bytes",
    "channel": "channel",
    "readEnable": "read_enable",
    "writeEnable": "write_enable",
}
# Options that the DDR program accepts and then ignores.
_IGNORED = {"numOps", "initialAddr", "hbmChannel", "WriteOrRead", "Reset"}


def parse_command(command: str) -> Options:
    """Read a program's command line.

    Parameters
    ----------
    command : str
        Such as ``sudo ./test-hbm --readEnable=1 --memBurstSize 64 > run.log``.

    Returns
    -------
    Options
        Its options; what stands before and after them is left alone.

    Raises
    ------
    ValueError
        If an option is unknown or its value is no whole number.
    """
    words = shlex.split(command)
    found: dict[str, int | str] = {}
    for index, word in enumerate(words):
        if not word.startswith("--"):
            continue
        name, equals, text = word[2:].partition("=")
        if not equals:
            text = words[index + 1] if index + 1 < len(words) else ""
        if name == "configFile":
            found["config_file"] = text
        elif name in _OPTIONS:
            if not re.fullmatch(r"[0-9]{1,10}", text):
                raise ValueError(f"a whole number should follow --{name}, not {text!r}")
            found[_OPTIONS[name]] = int(text)
        elif name not in _IGNORED:
            raise ValueError(
                f"{word!r} should be an option of Shuhai: {', '.join([*_OPTIONS, 'configFile'])}"
            )
    return Options(**found)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Setting:
    """A value of a configuration file and the line it stands in."""

    value: int
    line: int


@dataclass(frozen=True)
class ConfigFile:
    """A configuration file.

    Attributes
    ----------
    path : Path
        The file.
    values : Mapping of str to Mapping of int to Setting
        Value by parameter and channel; the last one counts, as in the program.
    read_mask, write_mask : int or None
        What the program ANDs its enables with: the conjunction of all ``value << channel`` of the
        file, so that two enabled channels leave none; None without such a line.
    """

    path: Path
    values: Mapping[str, Mapping[int, Setting]] = field(default_factory=dict)
    read_mask: int | None = None
    write_mask: int | None = None

    def setting(self, parameter: str, channel: int) -> Setting | None:
        """Return what the file says about a channel, if it does."""
        return self.values.get(parameter, {}).get(channel)

    @property
    def latency(self) -> tuple[int, int] | None:
        """Latency channel and whether its latency test is on, if the file says so."""
        settings = self.values.get("latencyChannel", {})
        if not settings:
            return None
        channel, last = max(settings.items(), key=lambda item: item[1].line)
        return channel, last.value


_CONFIG_LINE = re.compile(r"(\w+)\s+(\d{1,10})\s+(\d{1,10})\s*")


def read_config(path: Path) -> ConfigFile:
    """Read a configuration file: ``parameter channel value`` lines and ``//`` comments.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    ConfigFile
        Its values by parameter and channel.

    Raises
    ------
    InputError
        If a line is something else, names another parameter or a channel above 31.
    """
    values: dict[str, dict[int, Setting]] = {}
    masks: dict[str, int] = {}
    if path.stat().st_size == 0:
        return ConfigFile(path)  # the program reads it without complaint
    for first, block in read_blocks(path):
        for line, text in enumerate(block.decode(errors="replace").split("\n"), start=first):
            if not text.strip() or text.startswith("//"):
                continue
            match = _CONFIG_LINE.fullmatch(text)
            if match is None or match[1] not in PARAMETERS:
                expected = f"'parameter channel value' with one of {', '.join(PARAMETERS)}"
                raise InputError(expected, repr(text[:60]), file=path, line=line)
            parameter, channel, value = match[1], int(match[2]), int(match[3])
            if channel >= CHANNELS:
                raise InputError(f"a channel below {CHANNELS}", str(channel), file=path, line=line)
            values.setdefault(parameter, {})[channel] = Setting(value, line)
            if parameter.endswith("Enable"):
                masks[parameter] = masks.get(parameter, 0xFFFFFFFF) & (value << channel)
    return ConfigFile(path, values, masks.get("readEnable"), masks.get("writeEnable"))
