"""Reader of Shuhai's logs: what was printed, what it means, and what it does not say.

`read_run` reads any of the benchmark's files: its stdout in any capture, its configuration files,
and the files of one number a line that its older versions wrote. Every correction is applied and
recorded, every reason not to use a row is a flag, and what cannot be known stays unknown.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from accelperf.errors import InputError
from accelperf.memory.corrections import NOTE_FLAGS, UNUSABLE_FLAGS
from accelperf.memory.shuhai_latency import LatencyTrace, latency_trace
from accelperf.memory.shuhai_numbers import NUMBER, latency_of_numbers, read_numbers, rows_of_speeds
from accelperf.memory.shuhai_program import PARAMETERS, ConfigFile, read_config
from accelperf.memory.shuhai_rows import run_rows
from accelperf.memory.shuhai_run import RUN_FILE, ShuhaiRun, find_run
from accelperf.memory.shuhai_settings import run_settings
from accelperf.memory.shuhai_text import read_transcript
from accelperf.memory.shuhai_transcript import PRINTED_COUNTS, Transcript
from accelperf.memory.table import MemoryRow
from accelperf.memory.text_stream import read_blocks

__all__ = [
    "RUN_FILE",
    "LatencyTrace",
    "MemoryRow",
    "Note",
    "ShuhaiLog",
    "ShuhaiRun",
    "find_run",
    "read_run",
    "recognise",
]

Format = Literal["stdout", "config", "numbers"]

_STDOUT = re.compile(
    rb"^(?:\d*end(?:Wr|Rd) status: |The chennel |memory manager init|[01]{32}\n"
    rb"|\d*open \S+ (?:succeed|failed)|(?:  [0-9a-f]+){2})",
    re.MULTILINE,
)
_CONFIG = re.compile(rb"^(?:" + "|".join(PARAMETERS).encode() + rb")\s+\d+\s+\d+", re.MULTILINE)


@dataclass(frozen=True)
class Note:
    """Something to know about a log: where, what it concerns, and what was done."""

    line: int
    flag: str
    message: str


@dataclass(frozen=True)
class ShuhaiLog:
    """One file of the benchmark, read.

    Attributes
    ----------
    path : Path
        The file.
    format : {"stdout", "config", "numbers"}
        What it is.
    rows : tuple of MemoryRow
        Its speeds, and the places where one is missing.
    latency : LatencyTrace or None
        Its latency counts.
    notes : tuple of Note
        What is wrong or unknown, with its line.
    status_pairs : int
        Pairs of status lines, one a second.
    config : ConfigFile or None
        The configuration, if the file is one.
    """

    path: Path
    format: Format
    rows: tuple[MemoryRow, ...] = ()
    latency: LatencyTrace | None = None
    notes: tuple[Note, ...] = ()
    status_pairs: int = 0
    config: ConfigFile | None = None


def recognise(path: Path) -> Format:
    """Return which of the benchmark's files a file is.

    Raises
    ------
    InputError
        If it cannot be read or belongs to another program.
    """
    _, block = next(read_blocks(path), (1, b""))
    if _STDOUT.search(block):
        return "stdout"
    lines = enumerate(block.split(b"\n"), start=1)
    line, first = next(((line, text) for line, text in lines if text.strip()), (1, b""))
    if NUMBER.fullmatch(first):
        return "numbers"
    if _CONFIG.search(block):
        return "config"
    got = repr(first[:60].decode(errors="replace"))
    raise InputError("output or configuration of Shuhai", got, file=path, line=line)


def read_run(path: Path, run: ShuhaiRun | None = None) -> ShuhaiLog:
    """Read one file of the benchmark.

    Parameters
    ----------
    path : Path
        The file. A configuration file that a log names is looked for beside it.
    run : ShuhaiRun, optional
        What ``run.yaml`` says. Without it neither memory nor peak is known: speeds stand as printed.

    Returns
    -------
    ShuhaiLog
        Rows with their corrections and flags, latency counts, and notes with their lines.

    Raises
    ------
    InputError
        Names file and line: an empty or binary file, a log of another program, one without a
        single speed or count (a channel that hung, a cut before the results), a malformed line,
        a stride above the working set, a burst that is no power of two, an echo that can be read
        in two ways or contradicts ``run.yaml``, speeds that contradict the enables.
    """
    kind = recognise(path)
    if kind == "config":
        return ShuhaiLog(path, kind, config=read_config(path))
    if kind == "numbers":
        settings = run_settings(Transcript(path), run)
        cycles, speeds = read_numbers(path)
        if cycles is not None:
            return ShuhaiLog(path, kind, latency=latency_of_numbers(cycles, settings))
        rows = tuple(rows_of_speeds(speeds, settings))
        return ShuhaiLog(path, kind, rows=rows, notes=tuple(_row_notes(rows)))
    transcript = read_transcript(path)
    settings = run_settings(transcript, run)
    latency = latency_trace(transcript, settings)
    rows = tuple(run_rows(transcript, settings))
    notes = [*_log_notes(transcript, latency, settings.measures_latency), *_row_notes(rows)]
    return ShuhaiLog(path, kind, rows, latency, tuple(notes), transcript.status_pairs)


def _log_notes(transcript: Transcript, latency: LatencyTrace | None, measures_latency: bool) -> list[Note]:
    notes = []
    if transcript.truncated is not None:
        cut = transcript.truncated
        notes.append(Note(cut.line, "truncated", f"the log breaks off: {cut.text}"))
    printed = 0 if latency is None else latency.printed
    if (latency is not None or measures_latency) and printed < PRINTED_COUNTS:
        message = f"{printed} of {PRINTED_COUNTS} latency counts"
        notes.append(Note(max(transcript.lines, 1), "counts_missing", message))
    if latency is not None and latency.base is None:
        message = "latency counts may be decimal or hexadecimal; they are not used"
        notes.append(Note(latency.source_line, "base_unknown", message))
    if latency is not None and latency.wrapped:
        message = f"{latency.wrapped} latency counts below the shortest latency: 8-bit counters wrapped"
        notes.append(Note(latency.source_line, "counter_wrapped", message))
    if transcript.other_lines:
        first = transcript.other[0]
        message = f"{transcript.other_lines} lines that Shuhai does not print, the first {first.text}"
        notes.append(Note(first.line, "other_lines", message))
    return notes


def _row_notes(rows: tuple[MemoryRow, ...]) -> list[Note]:
    meanings = {**UNUSABLE_FLAGS, **NOTE_FLAGS}
    notes = []
    for row in rows:
        for flag in row.flags:
            if flag in ("truncated", "target_shared", "latency_run"):
                continue
            speed = "" if row.reported_gbps is None else f" ({row.reported_gbps:g} GB/s as printed)"
            where = f"channel {row.channel} {row.direction}{speed}"
            notes.append(Note(row.source_line, flag, f"{where}: {meanings[flag]}"))
    return notes
