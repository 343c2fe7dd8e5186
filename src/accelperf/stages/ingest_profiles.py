"""Stage ``ingest_profiles``: profiling logs to the tidy layer table."""

from __future__ import annotations

import json
from pathlib import Path

from accelperf.layers import total_report, write_layers
from accelperf.logs import read_profiles
from accelperf.platforms import read_platforms


def run(logs: Path, platforms: Path, output: Path, report: Path) -> None:
    """Read all profiling logs of a folder and write the layer table.

    Parameters
    ----------
    logs : Path
        Folder of logs with their ``run.yaml``.
    platforms : Path
        Folder of platform files.
    output : Path
        ``layers.csv``.
    report : Path
        JSON account: rows read, kept and skipped by reason, in all and by file.

    Raises
    ------
    InputError
        If anything cannot be read; earlier outputs stay as they were.
    """
    table, reports = read_profiles(logs, read_platforms(platforms))
    account = json.dumps(total_report(reports), indent=2) + "\n"
    write_layers(table, output)
    report.parent.mkdir(parents=True, exist_ok=True)
    report.write_text(account, encoding="utf-8")
