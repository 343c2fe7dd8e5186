"""Stage ``ingest_memory``: Shuhai logs to the memory table."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from accelperf.errors import InputError, print_warning
from accelperf.layers import ReadReport, file_md5, total_report
from accelperf.logs import find_logs
from accelperf.memory.shuhai import RUN_FILE, ShuhaiLog, ShuhaiRun, find_run, read_run
from accelperf.memory.table import MemoryRow, memory_table, write_memory
from accelperf.yaml_input import read_model


def run(logs: Path, output: Path, report: Path) -> None:
    """Read all Shuhai logs of a folder and write the memory table.

    Every row is written; rows that cannot be used carry their flags, are counted by reason as
    skipped, and are listed with their lines in the report and as warnings.

    Parameters
    ----------
    logs : Path
        Folder of logs, each with a ``run.yaml`` beside or above it. Hidden files, DVC's own files
        and documents (``README``, Markdown, pictures, …) are passed over.
    output : Path
        ``memory.csv``.
    report : Path
        JSON account: rows read, kept and skipped by reason, in all and by file, with notes.

    Raises
    ------
    InputError
        If there is no log, a log has no ``run.yaml`` or cannot be read, or two logs claim to be
        one run; earlier outputs stay as they were.
    """
    read = read_logs(logs)
    check_distinct([log for log, _ in read])
    check_no_copies(read, logs)
    account: dict[str, Any] = total_report([file_report for _, file_report in read])
    for entry, (log, _) in zip(account["files"], read, strict=True):
        entry["notes"] = [f"line {note.line}: {note.flag}: {note.message}" for note in log.notes]
        for note in log.notes:
            print_warning(f"{log.path}:{note.line}: {note.flag}: {note.message}")
    text = json.dumps(account, indent=2) + "\n"
    write_memory(memory_table(row for log, _ in read for row in log.rows), output)
    report.parent.mkdir(parents=True, exist_ok=True)
    report.write_text(text, encoding="utf-8")


def read_logs(folder: Path) -> list[tuple[ShuhaiLog, ReadReport]]:
    """Read every Shuhai file below a folder, in the order of their paths, with its account."""
    if not folder.is_dir():
        raise InputError("a folder of Shuhai logs", "no such folder", file=folder)
    files = find_logs(folder)
    if not files:
        raise InputError("a folder with at least one Shuhai log", "none", file=folder)
    runs: dict[Path, ShuhaiRun] = {}
    read = []
    for path in files:
        sidecar = find_run(path.parent, folder)
        if sidecar is None:
            raise InputError(f"a {RUN_FILE} beside the log or above it", "none", file=path)
        if sidecar not in runs:
            runs[sidecar] = read_model(sidecar, ShuhaiRun)
        log = read_run(path, runs[sidecar])
        skipped = Counter(row.unusable for row in log.rows if row.unusable is not None)
        kept = len(log.rows) - skipped.total()
        read.append(
            (log, ReadReport(path.as_posix(), file_md5(path), log.format, len(log.rows), kept, skipped))
        )
    return read


def check_distinct(logs: list[ShuhaiLog]) -> None:
    """Check that no two logs hold the same run.

    Raises
    ------
    InputError
        Names both lines, if board, memory, enabled channels and everything that was set are equal.
    """
    seen: dict[object, MemoryRow] = {}
    for log in logs:
        engines = tuple((row.channel, row.direction) for row in log.rows)
        for row in log.rows:
            if row.burst_bytes is None or row.stride_bytes is None or row.working_set_bytes is None:
                continue  # what it measured is not known
            key = (
                engines, row.channel, row.direction, row.board, row.memory, row.mode, row.policy, row.switch,
                row.burst_bytes, row.stride_bytes, row.working_set_bytes, row.num_ops, row.peak_gbps,
                row.origin,
            )  # fmt: skip
            first = seen.setdefault(key, row)
            if first is not row:
                what = f"{row.direction} of channel {row.channel} on {row.board}/{row.memory}"
                raise InputError(
                    f"one log for one run ({what}), as in {first.source_file}:{first.source_line}",
                    "a second one with equal settings",
                    file=row.source_file,
                    line=row.source_line,
                )


def check_no_copies(read: list[tuple[ShuhaiLog, ReadReport]], folder: Path) -> None:
    """Check that no log is there twice under one ``run.yaml``, whatever it holds.

    Raises
    ------
    InputError
        Names the copy.
    """
    seen: dict[tuple[Path | None, str], Path] = {}
    for log, report in read:
        first = seen.setdefault((find_run(log.path.parent, folder), report.md5), log.path)
        if first is not log.path and log.format != "config":
            raise InputError(
                f"a log that is not a copy of {first}", "the same content", file=log.path, line=1
            )
