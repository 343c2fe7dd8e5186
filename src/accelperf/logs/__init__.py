"""Readers of profiling logs: one module a format behind one small interface.

`read_profiles` walks a folder, finds the ``run.yaml`` of each log, asks every reader whether it
recognises the content, and returns the tidy layer table with an account of every file.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from accelperf.errors import InputError, known
from accelperf.layers import ReadReport, file_md5, validate_layers
from accelperf.logs import cnn_accel, native
from accelperf.logs.base import LogTable, Reader
from accelperf.logs.repeats import merge_repeats
from accelperf.logs.run import RUN_FILE, RunFile, find_run, read_run
from accelperf.platforms import Platform

__all__ = ["READERS", "LogTable", "Reader", "choose_reader", "find_logs", "read_profile", "read_profiles"]

READERS: tuple[Reader, ...] = (native, cnn_accel)
"""The known formats; a new one is a module in this folder and a word here."""

IGNORED = "ignored"
"""What stands as the format of a file that ``run.yaml`` tells to ignore."""

_DOCUMENT_SUFFIXES = frozenset({".dvc", ".md", ".rst", ".pdf", ".png", ".jpg", ".svg", ".py"})
_DOCUMENT_STEMS = frozenset({"readme", "license", "notice", "citation"})


def read_profiles(folder: Path, platforms: Mapping[str, Platform]) -> tuple[pd.DataFrame, list[ReadReport]]:
    """Read all profiling logs below a folder.

    Parameters
    ----------
    folder : Path
        Root of the logs. Hidden files, ``run.yaml``, DVC's own files, documents (``README``,
        Markdown, pictures, …) and what ``run.yaml`` tells to ignore are passed over; every other
        file must be a log.
    platforms : Mapping of str to Platform
        Known platforms by name.

    Returns
    -------
    layers : DataFrame
        The tidy layer table: convolutions only, one row a layer and accelerator, by accelerator,
        network and position.
    reports : list of ReadReport
        What each file gave, in the order of their paths.

    Raises
    ------
    InputError
        If there is no log or no convolution in the logs, a file is of no known format or of
        several, its ``run.yaml`` is missing or wrong, or its content is.
    """
    if not folder.is_dir():
        raise InputError("a folder of profiling logs", "no such folder", file=folder)
    files = find_logs(folder)
    if not files:
        raise InputError("a folder with at least one profiling log", "none", file=folder)
    # Files of one folder and format are read together: some formats are made of several files.
    groups: dict[tuple[Path, str], list[Path]] = {}
    runs: dict[Path, RunFile] = {}
    readers: dict[str, Reader] = {}
    ignored = []
    for path in files:
        if path.parent not in runs:
            runs[path.parent] = _run_of(path, folder, platforms)
        if runs[path.parent].ignores(path):
            ignored.append(ReadReport(str(path), file_md5(path), IGNORED, 0, 0))
            continue
        reader = choose_reader(path, runs[path.parent])
        readers[reader.name] = reader
        groups.setdefault((path.parent, reader.name), []).append(path)
    logs = [
        log
        for (parent, reader_name), paths in groups.items()
        for log in readers[reader_name].read(paths, runs[parent])
    ]
    layers, reports = _layers_of(logs, source=folder)
    return layers, sorted([*reports, *ignored], key=lambda report: report.file)


def read_profile(
    path: Path, platforms: Mapping[str, Platform], *, root: Path | None = None
) -> tuple[pd.DataFrame, list[ReadReport]]:
    """Read one profiling log.

    Parameters
    ----------
    path : Path
        The log, with its ``run.yaml`` beside it or above it up to `root`.
    platforms : Mapping of str to Platform
        Known platforms by name.
    root : Path, optional
        Root of the logs; the log's own folder by default.

    Returns
    -------
    layers : DataFrame
        The tidy layer table of this log.
    reports : list of ReadReport
        What it, and any file that belongs to it, gave.

    Raises
    ------
    InputError
        As `read_profiles`.
    """
    run = _run_of(path, path.parent if root is None else root, platforms)
    logs = choose_reader(path, run).read([path], run)
    return _layers_of(logs, source=path)


def _layers_of(logs: list[LogTable], *, source: Path) -> tuple[pd.DataFrame, list[ReadReport]]:
    reports = sorted((log.report for log in logs), key=lambda report: report.file)
    tables = [log.table for log in logs if len(log.table)]
    if not tables:
        rows = sum(report.rows_read for report in reports)
        raise InputError("at least one convolution", f"none among {rows} rows", file=source)
    table = merge_repeats(pd.concat(tables, ignore_index=True))
    return validate_layers(table, source=source), reports


def find_logs(folder: Path) -> list[Path]:
    """Return the files below a folder that must be logs, sorted by path."""

    def unreadable(error: OSError) -> None:
        raise InputError("a readable folder", error.strerror or str(error), file=error.filename)

    found = []
    for parent, folders, names in os.walk(folder, onerror=unreadable, followlinks=True):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [Path(parent) / name for name in names if _is_candidate(name)]
    return sorted(found)


def _is_candidate(name: str) -> bool:
    path = Path(name.lower())
    passed_over = name.startswith(".") or name == RUN_FILE
    return not (passed_over or path.suffix in _DOCUMENT_SUFFIXES or path.stem in _DOCUMENT_STEMS)


def _run_of(path: Path, root: Path, platforms: Mapping[str, Platform]) -> RunFile:
    found = find_run(path.parent, root)
    if found is None:
        raise InputError(f"a {RUN_FILE} beside this log, or above it up to {root}", "none", file=path)
    return read_run(found, platforms)


def choose_reader(path: Path, run: RunFile) -> Reader:
    """Return the reader of a log: the one that ``run.yaml`` names, else the one that recognises it.

    Parameters
    ----------
    path : Path
        The log.
    run : RunFile
        Its ``run.yaml``.

    Raises
    ------
    InputError
        If the named format is unknown; if no reader recognises the content, with the reason of
        each; if several do.
    """
    by_name = {reader.name: reader for reader in READERS}
    if run.content.format is not None:
        if run.content.format not in by_name:
            raise InputError(
                f"a format, one of {known(by_name)}",
                repr(run.content.format),
                file=run.path,
                line=run.lines.get(("format",)),
            )
        return by_name[run.content.format]
    verdicts = {reader.name: reader.recognises(path) for reader in READERS}
    accepting = [name for name, why_not in verdicts.items() if why_not is None]
    if len(accepting) == 1:
        return by_name[accepting[0]]
    if accepting:
        reasons = f"{known(accepting)}; name one under 'format' in {run.path}"
        raise InputError("a profiling log of one format", f"content that fits {reasons}", file=path)
    reasons = "; ".join(f"{name}: {why_not}" for name, why_not in verdicts.items())
    raise InputError("a profiling log of a known format", f"none of them ({reasons})", file=path)
