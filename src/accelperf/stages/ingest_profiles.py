"""Stage ``ingest_profiles``: profiling logs to the tidy layer table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from accelperf.errors import InputError, print_warning
from accelperf.layers import write_layers
from accelperf.logs import read_folder
from accelperf.logs.findings_text import warnings_of
from accelperf.platforms import read_platforms


def run(
    logs: Path,
    platforms: Path,
    output: Path,
    report: Path,
    networks: Path | None = None,
    actions: Mapping[str, str] | None = None,
    *,
    format_name: str | None = None,
) -> None:
    """Read and check all profiling logs of a folder, and write the layer table.

    What the checks find is counted in a few lines on stderr, and listed in the account.

    Parameters
    ----------
    logs : Path
        Folder of logs with their ``run.yaml``.
    platforms : Path
        Folder of platform files.
    output : Path
        ``layers.csv``.
    report : Path
        JSON account: rows read, kept and skipped by reason, in all and by file; what the checks
        found, and the totals that the logs state.
    networks : Path, optional
        Folder of network tables, for logs without sizes.
    actions : Mapping of str to str, optional
        What is done about each check (`accelperf.logs.checks.read_actions`).
    format_name : str, optional
        Format of all logs, instead of recognising it.

    Raises
    ------
    InputError
        If anything cannot be read, or a check says stop; earlier outputs stay as they were.
    """
    found = read_folder(logs, read_platforms(platforms), networks, actions, format_name=format_name)
    account = json.dumps(found.as_json(), indent=2) + "\n"
    write_layers(found.layers, output)
    try:
        report.parent.mkdir(parents=True, exist_ok=True)
        report.write_text(account, encoding="utf-8")
    except OSError as error:
        raise InputError("a file that can be written", error.strerror or str(error), file=report) from None
    for warning in warnings_of(found, report):
        print_warning(warning)
