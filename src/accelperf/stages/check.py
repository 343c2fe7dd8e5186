"""The command ``accelperf check``: what is doubtful in profiling logs, without writing anything."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from accelperf.errors import EXIT_STATUS, AccelperfError, InputError, known
from accelperf.layers import ORIGINS
from accelperf.logs.findings_text import account_lines, findings_table, findings_tsv
from accelperf.logs.ingestion import FindRun, Ingestion, logs_below, read_files
from accelperf.logs.run import DESCRIPTION_SUFFIXES, RUN_FILE, ProfileRun, RunFile, find_run, make_run
from accelperf.platforms import Platform, read_platforms
from accelperf.yaml_input import parse_model, read_mapping

_PLATFORM_KEYS = {"platform", "platforms"}

_NO_RUN_FILE = f"{RUN_FILE} (or options)"
"""Name, in messages, of a ``run.yaml`` that is not there."""

FOUND_STATUS = 1
"""Exit status where a check found something."""


@dataclass(frozen=True)
class Options:
    """What stands in place of keys of ``run.yaml``; with a platform, none is needed.

    Attributes
    ----------
    platforms : sequence of str
        The platform that ran, or several as ``CONFIGURATION=PLATFORM``.
    network, origin, geometry : str, optional
        As in `accelperf.logs.run.ProfileRun`; a path is relative to the working directory.
    """

    platforms: Sequence[str] = ()
    network: str | None = None
    origin: str | None = None
    geometry: str | None = None

    def keys(self, platforms: Mapping[str, Platform], networks: Path) -> dict[str, Any]:
        """Return them as keys of ``run.yaml``.

        Parameters
        ----------
        platforms : Mapping of str to Platform
            Known platforms by name.
        networks : Path
            Folder of network tables.

        Raises
        ------
        InputError
            If they are wrong.
        """
        if self.origin is not None and self.origin not in ORIGINS:
            raise InputError(f"--origin: one of {', '.join(ORIGINS)}", repr(self.origin))
        given: dict[str, Any] = {"network": self.network, "origin": self.origin, "geometry": self.geometry}
        if self.geometry and Path(self.geometry).suffix.lower() in DESCRIPTION_SUFFIXES:
            if not Path(self.geometry).is_file():
                got = f"no file {self.geometry!r}"
                raise InputError("--geometry: a network table or an ONNX model", got)
            given["geometry"] = str(Path(self.geometry).resolve())
        elif self.geometry and not (networks / f"{self.geometry}.csv").is_file():
            names = known(table.stem for table in networks.glob("*.csv")) or "which has none"
            raise InputError(
                f"--geometry: the name of a network table of {networks} ({names}), or the path of a .csv or "
                ".onnx file",
                repr(self.geometry),
            )
        named = [each.rpartition("=") for each in self.platforms]
        if any(equals for _, equals, _ in named):
            given["platforms"] = {configuration: name for configuration, _, name in named}
            if len(given["platforms"]) < len(named) or not all(equals for _, equals, _ in named):
                got = " and ".join(self.platforms)
                raise InputError("--platform: one NAME, or CONFIGURATION=NAME of each configuration", got)
        elif len(named) > 1:
            got = " and ".join(self.platforms)
            raise InputError("--platform: one NAME, or CONFIGURATION=NAME of each configuration", got)
        elif named:
            given["platform"] = self.platforms[0]
        for _, _, name in named:
            if name not in platforms:
                raise InputError(f"--platform: a platform, one of {known(platforms)}", repr(name))
        return {key: value for key, value in given.items() if value is not None}


def run(
    logs: Sequence[Path],
    platforms: Path,
    networks: Path,
    actions: Mapping[str, str] | None = None,
    options: Options | None = None,
    *,
    format_name: str | None = None,
) -> tuple[Ingestion, list[AccelperfError]]:
    """Read and check logs, those that can be read.

    Parameters
    ----------
    logs : sequence of Path
        Logs, or folders of them.
    platforms, networks : Path
        Folders of platform files and network tables.
    actions : Mapping of str to str, optional
        What is done about each check (`accelperf.logs.checks.read_actions`).
    options : Options, optional
        What stands in place of keys of ``run.yaml``.
    format_name : str, optional
        Format of all logs, instead of recognising it.

    Returns
    -------
    found : Ingestion
        Rows, account and findings of the logs that can be read.
    errors : list of AccelperfError
        What is wrong with the others.

    Raises
    ------
    InputError
        If the options or the platforms are wrong, or a check says stop.

    Notes
    -----
    A log without sizes that nothing describes gives no rows, and a finding that says so; what it
    states itself is compared with the sum of its rows.
    """
    by_name = read_platforms(platforms)
    given = (options or Options()).keys(by_name, networks)
    files: dict[Path, FindRun] = {}
    errors: list[AccelperfError] = []
    for path in logs:
        try:
            if not path.exists():
                raise InputError("a profiling log, or a folder of them", "no such file", file=path)
            for log in logs_below(path) if path.is_dir() else [path]:
                files.setdefault(log, _run_finder(path, by_name, networks, given))
        except AccelperfError as error:
            errors.append(error)
    found = read_files(
        files,
        lambda path: files[path](path),
        by_name,
        actions,
        format_name=format_name,
        on_error=errors.append,
    )
    # A wrong run.yaml is wrong for each of its logs.
    return found, list({str(error): error for error in errors}.values())


def _run_finder(
    root: Path, platforms: Mapping[str, Platform], networks: Path, given: Mapping[str, Any]
) -> FindRun:
    """Return the function that finds the ``run.yaml`` of a log and puts the options into it."""
    runs: dict[Path, RunFile] = {}

    def find(path: Path) -> RunFile:
        folder = path.parent
        if folder not in runs:
            runs[folder] = _run_of(path, root, platforms, networks, given)
        return runs[folder]

    return find


def _run_of(
    path: Path, root: Path, platforms: Mapping[str, Platform], networks: Path, given: Mapping[str, Any]
) -> RunFile:
    # A folder's logs are those of `ingest-profiles`; a single log may lie anywhere below its run.yaml.
    found = find_run(path.parent, root) if root != path else _above(path)
    data: dict[str, Any] = {"origin": "measured"}
    lines: dict[tuple[str, ...], int] = {}
    if found is not None:
        data, lines = read_mapping(found)
    replaced = set(given) | (_PLATFORM_KEYS if _PLATFORM_KEYS & set(given) else set())
    kept = {key: value for key, value in data.items() if key not in replaced}
    data = kept | dict(given)
    lines = {key: line for key, line in lines.items() if key[0] not in replaced}
    where = found or path.parent / _NO_RUN_FILE
    if found is None and not _PLATFORM_KEYS & set(given):
        # Readers ask for the platform once they need it.
        content = parse_model(ProfileRun, data, file=where, lines=lines)
        return RunFile(where, content, lines, {}, networks, needs_sizes=False)
    run_file = make_run(data, lines, path=where, platforms=platforms, networks=networks)
    return replace(run_file, needs_sizes=False)


def _above(path: Path) -> Path | None:
    """Return the nearest ``run.yaml`` above a log, as far as the path that was given goes."""
    here = find_run(path.parent, path.parent)
    if here is not None:
        return here
    for parent in path.absolute().parents:
        if (parent / RUN_FILE).is_file():
            return parent / RUN_FILE
    return None


def as_json(found: Ingestion, errors: Iterable[AccelperfError]) -> str:
    """Return findings, account and errors as JSON."""
    return json.dumps({**found.as_json(), "errors": [str(error) for error in errors]}, indent=2) + "\n"


def as_text(found: Ingestion, *, tabs: bool) -> str:
    """Return the findings as tab-separated values, or as an aligned table if there are any."""
    if tabs:
        return findings_tsv(found)
    return findings_table(found) if found.findings else ""


def account_of(found: Ingestion, errors: Sequence[AccelperfError]) -> list[str]:
    """Return the account of files and totals, and a line on what was found, for stderr."""
    counts = ", ".join(f"{len(findings)} {code}" for code, findings in found.by_code().items()) or "nothing"
    unread = f", and {len(errors)} error{'s' * (len(errors) > 1)}" if errors else ""
    return [*account_lines(found), f"found: {counts}{unread}"]


def exit_status(found: Ingestion, errors: Iterable[AccelperfError]) -> int:
    """Return 2 where a log could not be read, else 1 where something was found, else 0."""
    if list(errors):
        return EXIT_STATUS
    return FOUND_STATUS if found.findings else 0
