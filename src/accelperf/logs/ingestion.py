"""From folders of logs to one checked layer table, with an account of every file."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd

from accelperf.errors import AccelperfError, InputError
from accelperf.layers import ReadReport, empty_layers, file_md5, total_report, validate_layers
from accelperf.logs.base import Finding, LogTable, Reader, StatedTotal
from accelperf.logs.checks import CHECKS, Action, check_layers, read_actions
from accelperf.logs.readers import all_readers, choose_reader
from accelperf.logs.repeats import in_order, merge_repeats
from accelperf.logs.run import RUN_FILE, RunFile, find_run, read_run
from accelperf.platforms import Platform

IGNORED = "ignored"
"""What stands as the format of a file that ``run.yaml`` tells to ignore."""

DESCRIPTION = "network description"
"""What stands as the format of a file that ``run.yaml`` names under ``geometry``."""

_DOCUMENT_SUFFIXES = frozenset({".dvc", ".md", ".rst", ".pdf", ".png", ".jpg", ".svg", ".py"})
_DOCUMENT_STEMS = frozenset({"readme", "license", "notice", "citation"})


@dataclass(frozen=True)
class Ingestion:
    """What some logs gave.

    Attributes
    ----------
    layers : DataFrame
        The tidy layer table: convolutions only, one row a layer and accelerator, by accelerator,
        network and position.
    reports : tuple of ReadReport
        What each file gave, in the order of their paths.
    findings : tuple of Finding
        What the checks found, by file and line.
    totals : tuple of StatedTotal
        Sums that the logs state.
    actions : Mapping of str to str
        What was done about each check.
    """

    layers: pd.DataFrame
    reports: tuple[ReadReport, ...]
    findings: tuple[Finding, ...]
    totals: tuple[StatedTotal, ...]
    actions: Mapping[str, Action]

    def by_code(self) -> dict[str, list[Finding]]:
        """Return the findings of each check that found something, in the order of the checks."""
        return {
            code: found
            for code in CHECKS
            if (found := [finding for finding in self.findings if finding.code == code])
        }

    def as_json(self) -> dict[str, Any]:
        """Return the account as plain values for JSON."""
        return {
            **total_report(list(self.reports)),
            "checks": {
                code: {"action": self.actions[code], "findings": len(found)}
                for code, found in self.by_code().items()
            },
            "findings": [_finding_json(finding, self.actions) for finding in self.findings],
            "totals": [_total_json(total) for total in self.totals],
        }


def _finding_json(finding: Finding, actions: Mapping[str, Action]) -> dict[str, Any]:
    return {
        "code": finding.code,
        "action": actions[finding.code],
        "file": finding.file,
        "line": finding.line,
        "accelerator": finding.accelerator,
        "network": finding.network,
        "layer": finding.layer,
        "message": finding.message,
    }


def _total_json(total: StatedTotal) -> dict[str, Any]:
    return {
        "file": total.file,
        "line": total.line,
        "accelerator": total.accelerator,
        "network": total.network,
        "what": total.what,
        "kind": total.kind,
        "stated_ms": total.stated_ms,
        "listed_ms": total.listed_ms,
        "rows": total.rows,
    }


Item = TypeVar("Item")

FindRun = Callable[[Path], RunFile]
"""How the ``run.yaml`` of a log is found."""


def read_folder(
    folder: Path,
    platforms: Mapping[str, Platform],
    networks: Path | None = None,
    actions: Mapping[str, str] | None = None,
    *,
    format_name: str | None = None,
) -> Ingestion:
    """Read and check all profiling logs below a folder.

    Parameters
    ----------
    folder : Path
        Root of the logs. Hidden files, ``run.yaml``, DVC's own files, documents (``README``,
        Markdown, pictures, …), descriptions of networks that ``run.yaml`` names and what it tells
        to ignore are passed over; every other file must be a log.
    platforms : Mapping of str to Platform
        Known platforms by name.
    networks : Path, optional
        Folder of network tables, for logs without sizes.
    actions : Mapping of str to str, optional
        What is done about each check (`accelperf.logs.checks.read_actions`).
    format_name : str, optional
        Format of all logs, instead of recognising it.

    Returns
    -------
    Ingestion
        Rows, account and findings.

    Raises
    ------
    InputError
        If there is no log or no convolution in the logs, a file is of no known format or of
        several, its ``run.yaml`` is missing or wrong, its content is, or a check says stop.
    """
    files = logs_below(folder)
    find = run_finder(folder, platforms, networks)
    found = read_files(files, find, platforms, actions, format_name=format_name)
    return _with_rows(found, folder)


def read_profiles(
    folder: Path,
    platforms: Mapping[str, Platform],
    networks: Path | None = None,
    actions: Mapping[str, str] | None = None,
    *,
    format_name: str | None = None,
) -> tuple[pd.DataFrame, list[ReadReport]]:
    """Return the layer table and the account of `read_folder`, without its findings."""
    found = read_folder(folder, platforms, networks, actions, format_name=format_name)
    return found.layers, list(found.reports)


def read_profile(
    path: Path,
    platforms: Mapping[str, Platform],
    networks: Path | None = None,
    actions: Mapping[str, str] | None = None,
    *,
    root: Path | None = None,
    format_name: str | None = None,
) -> tuple[pd.DataFrame, list[ReadReport]]:
    """Read and check one profiling log.

    Parameters
    ----------
    path : Path
        The log, with its ``run.yaml`` beside it or above it up to `root`.
    platforms, networks, actions, format_name
        As in `read_folder`.
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
        As `read_folder`.
    """
    find = run_finder(path.parent if root is None else root, platforms, networks)
    found = _with_rows(read_files([path], find, platforms, actions, format_name=format_name), path)
    return found.layers, list(found.reports)


def read_files(
    files: Iterable[Path],
    find: FindRun,
    platforms: Mapping[str, Platform],
    actions: Mapping[str, str] | None = None,
    *,
    format_name: str | None = None,
    on_error: Callable[[AccelperfError], None] | None = None,
) -> Ingestion:
    """Read logs and check them together.

    Parameters
    ----------
    files : iterable of Path
        The logs.
    find : callable
        Returns the `RunFile` of a log.
    platforms, actions, format_name
        As in `read_folder`.
    on_error : callable, optional
        Takes the errors of logs that cannot be read; the others are still read. By default the
        first one is raised.

    Returns
    -------
    Ingestion
        Rows, maybe none; account and findings.
    """
    decided = read_actions(actions)
    readers = all_readers()
    # Files of one folder and format are read together: some formats are made of several files.
    groups: dict[tuple[Path, str], tuple[RunFile, list[Path]]] = {}
    reports: dict[str, ReadReport] = {}

    def assign(path: Path) -> None:
        run = find(path)
        for description in run.descriptions():
            reports[description.as_posix()] = _passed_over(description, DESCRIPTION)
        if run.ignores(path):
            reports[path.as_posix()] = _passed_over(path, IGNORED)
        elif path.exists() and not path.is_file():
            raise InputError("a file", "a pipe or a device", file=path)
        elif not _is_description(path, run):
            reader = choose_reader(path, run, format_name=format_name, readers=readers)
            groups.setdefault((path.parent, reader.name), (run, []))[1].append(path)

    _each(assign, files, on_error)
    logs = _read(groups, readers, on_error)
    tables = [log.table for log in logs if len(log.table)]
    read_reports = [log.report for log in logs]
    totals = tuple(total for log in logs for total in log.totals)
    findings = [finding for log in logs for finding in log.findings]
    del logs
    table = _joined(tables)
    checked = check_layers(table, platforms, totals, findings, decided)
    del table
    for report in read_reports:
        reports[report.file] = _without(report, checked.dropped.get(report.file, Counter()))
    return Ingestion(
        layers=merge_repeats(checked.table) if len(checked.table) else checked.table,
        reports=tuple(sorted(reports.values(), key=lambda report: report.file)),
        findings=checked.findings,
        totals=totals,
        actions=decided,
    )


def _joined(tables: list[pd.DataFrame]) -> pd.DataFrame:
    """Return the rows of several tables in order; the list is emptied, as a million rows twice are much."""
    if not tables:
        return empty_layers()
    table = tables.pop() if len(tables) == 1 else pd.concat(tables, ignore_index=True)
    tables.clear()
    return in_order(table, consume=True)


def _read(
    groups: Mapping[tuple[Path, str], tuple[RunFile, list[Path]]],
    readers: Mapping[str, Reader],
    on_error: Callable[[AccelperfError], None] | None,
) -> list[LogTable]:
    logs: list[LogTable] = []
    for (_, name), (run, paths) in groups.items():
        try:
            logs += readers[name].read(paths, run)
        except AccelperfError as error:
            if on_error is None:
                raise
            on_error(error)
            if len(paths) > 1:
                logs += _read_alone(readers[name], run, paths, error, on_error)
    return logs


def _read_alone(
    reader: Reader,
    run: RunFile,
    paths: Iterable[Path],
    first: AccelperfError,
    on_error: Callable[[AccelperfError], None],
) -> list[LogTable]:
    """Read the files of a group one by one, after one of them made the whole fail."""
    logs: dict[str, LogTable] = {}
    for path in paths:
        try:
            # What belongs to several files comes with each.
            logs |= {log.report.file: log for log in reader.read([path], run)}
        except AccelperfError as error:
            # Without a line it may only say that a file is none without its partners.
            if getattr(error, "line", None) is not None and str(error) != str(first):
                on_error(error)
    return list(logs.values())


def _each(
    work: Callable[[Item], None], items: Iterable[Item], on_error: Callable[[AccelperfError], None] | None
) -> None:
    for item in items:
        try:
            work(item)
        except AccelperfError as error:
            if on_error is None:
                raise
            on_error(error)


def _passed_over(path: Path, what: str) -> ReadReport:
    return ReadReport(path.as_posix(), file_md5(path), what, 0, 0)


def _is_description(path: Path, run: RunFile) -> bool:
    return any(path.resolve() == description.resolve() for description in run.descriptions())


def _without(report: ReadReport, dropped: Counter[str]) -> ReadReport:
    """Return a report after some of its rows were dropped."""
    kept = report.rows_kept - sum(dropped.values())
    return replace(report, rows_kept=kept, skipped=dict(Counter(report.skipped) + dropped))


def _with_rows(found: Ingestion, source: Path) -> Ingestion:
    """Return an ingestion whose rows fit the schema; raise if there are none."""
    if found.layers.empty:
        rows = sum(report.rows_read for report in found.reports)
        reasons = Counter[str]()
        for report in found.reports:
            reasons.update({reason: n for reason, n in report.skipped.items() if reason in CHECKS})
        account = ", ".join(f"{count} {code}" for code, count in sorted(reasons.items()))
        got = f"none among {rows} rows" + (f" ({account})" if account else "")
        raise InputError("at least one convolution", got, file=source)
    return replace(found, layers=validate_layers(found.layers, source=source))


def logs_below(folder: Path) -> list[Path]:
    """Return the logs below a folder (see `find_logs`), at least one.

    Raises
    ------
    InputError
        If there is no such folder, or no log in it.
    """
    if not folder.is_dir():
        raise InputError("a folder of profiling logs", "no such folder", file=folder)
    files = find_logs(folder)
    if not files:
        raise InputError("a folder with at least one profiling log", "none", file=folder)
    return files


def find_logs(folder: Path) -> list[Path]:
    """Return the files below a folder that must be logs, sorted by path.

    Raises
    ------
    InputError
        If a folder cannot be read, or links form a loop.
    """

    def unreadable(error: OSError) -> None:
        raise InputError("a readable folder", error.strerror or str(error), file=error.filename)

    found = []
    for parent, folders, names in os.walk(folder, onerror=unreadable, followlinks=True):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for link in (Path(parent) / name for name in folders):
            # The logs in it would count as many runs.
            if link.is_symlink() and Path(parent).resolve().is_relative_to(link.resolve()):
                raise InputError("folders without a loop", f"a link to {link.resolve()}", file=link)
        found += [Path(parent) / name for name in names if _is_candidate(name)]
    return sorted(found)


def _is_candidate(name: str) -> bool:
    path = Path(name.lower())
    passed_over = name.startswith(".") or name == RUN_FILE
    return not (passed_over or path.suffix in _DOCUMENT_SUFFIXES or path.stem in _DOCUMENT_STEMS)


def run_finder(root: Path, platforms: Mapping[str, Platform], networks: Path | None = None) -> FindRun:
    """Return the function that finds the ``run.yaml`` of a log, up to a root; each is read once."""
    runs: dict[Path, RunFile] = {}

    def find(path: Path) -> RunFile:
        if path.parent not in runs:
            found = find_run(path.parent, root)
            if found is None:
                raise InputError(f"a {RUN_FILE} beside this log, or above it up to {root}", "none", file=path)
            runs[path.parent] = read_run(found, platforms, networks)
        return runs[path.parent]

    return find
