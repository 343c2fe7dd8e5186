"""A capture of Shuhai's output, taken apart but not interpreted."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from accelperf.memory.text_stream import Cycles

Direction = Literal["read", "write"]

PRINTED_COUNTS = 100
"""Latency counts that the program prints."""


@dataclass(frozen=True)
class Line:
    """A piece of text and the number of its line."""

    text: str
    line: int


@dataclass(frozen=True)
class Speed:
    """One printed speed [GB/s] of one channel and direction."""

    channel: int
    direction: Direction
    gbps: float
    line: int


@dataclass
class Transcript:
    """Everything that a capture of Shuhai's output holds; `read_transcript` fills it in one pass.

    Attributes
    ----------
    path : Path
        The file.
    has_start : bool
        Whether the output's beginning is there, so that an option without echo was not given.
    enables : list of Line
        Echoes of the enables, 32 binary digits each.
    numbers : list of Line
        Echoed numbers that end their line.
    glued : Line or None
        Echoed number that runs into the following text.
    config : Line or None
        Name of the configuration file that was opened, and whether it could be: `config_opened`.
    command : Line or None
        Command line, where a terminal capture shows it.
    status_pairs : int
        Complete pairs of status lines.
    end_write, end_read : int or None
        Last status: finished channels, one bit a channel.
    status_line : int or None
        Line of the last status.
    speeds : list of Speed
        The printed speeds.
    counts : ndarray of int or None, shape [counts]
        Latency counts [cycles], read in base `counts_base`.
    counts_base : {10, 16}
        16 where no speed came before, since the program then still prints hexadecimal numbers.
    counts_line : int or None
        Line of the first counts.
    truncated : Line or None
        A last line that breaks off.
    breaks_off_in_counts : bool
        Whether the last line holds counts and lacks its line feed. With fewer than 100 counts the
        last one may lack digits, and is left out.
    other : list of Line
        Up to ten lines after the first status that the program does not print.
    other_lines : int
        How many there are.
    lines : int
        Lines of the file.
    """

    path: Path
    has_start: bool = False
    enables: list[Line] = field(default_factory=list)
    numbers: list[Line] = field(default_factory=list)
    glued: Line | None = None
    config: Line | None = None
    config_opened: bool = False
    command: Line | None = None
    status_pairs: int = 0
    end_write: int | None = None
    end_read: int | None = None
    status_line: int | None = None
    speeds: list[Speed] = field(default_factory=list)
    counts: Cycles | None = None
    counts_base: Literal[10, 16] = 10
    counts_line: int | None = None
    truncated: Line | None = None
    breaks_off_in_counts: bool = False
    other: list[Line] = field(default_factory=list)
    other_lines: int = 0
    lines: int = 0
