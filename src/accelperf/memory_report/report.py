"""Writes the report: page, summary and pictures into one folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from accelperf.memory.analysis import MemoryAnalysis, RunLog, analyse
from accelperf.memory_report.page import page_markdown
from accelperf.memory_report.pictures import PICTURES, draw
from accelperf.memory_report.summary import Line, summary_csv, summary_lines

PAGE_NAME = "memory.md"
SUMMARY_NAME = "summary.csv"


@dataclass(frozen=True)
class MemoryReport:
    """What was found, and the files that were written.

    Attributes
    ----------
    analysis : MemoryAnalysis
        Everything that the logs say.
    lines : tuple of Line
        The summary.
    files : tuple of Path
        Page, summary and pictures.
    """

    analysis: MemoryAnalysis
    lines: tuple[Line, ...]
    files: tuple[Path, ...]


def write_memory_report(logs: Sequence[RunLog], output: Path) -> MemoryReport:
    """Analyse logs and write ``memory.md``, ``summary.csv`` and the pictures.

    Everything is made before anything is written. Pictures of an earlier report that these logs do not
    give are removed, so that nothing stands beside the page that does not belong to it.

    Parameters
    ----------
    logs : sequence of RunLog
        Logs that were read.
    output : Path
        Folder to write into.

    Returns
    -------
    MemoryReport
        Analysis, summary and files.

    Raises
    ------
    InputError
        If no log holds a result.
    """
    analysis = analyse(logs)
    lines = tuple(summary_lines(analysis))
    pictures = draw(analysis)
    content: dict[str, bytes] = {
        PAGE_NAME: page_markdown(analysis, list(pictures)).encode(),
        SUMMARY_NAME: summary_csv(lines).encode(),
        **pictures,
    }
    output.mkdir(parents=True, exist_ok=True)
    for name, data in content.items():
        temporary = output / f"{name}.part"
        temporary.write_bytes(data)
        temporary.replace(output / name)
    for name in PICTURES:
        if name not in content:
            (output / name).unlink(missing_ok=True)
    return MemoryReport(analysis, lines, tuple(output / name for name in content))
