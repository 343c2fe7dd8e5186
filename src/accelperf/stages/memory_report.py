"""``accelperf memory``: Shuhai logs to a report on the memory."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from accelperf.errors import InputError, print_warning
from accelperf.logs import find_logs
from accelperf.memory.analysis import RunLog
from accelperf.memory.shuhai import ShuhaiRun, find_run, read_run
from accelperf.memory_report import MemoryReport, write_memory_report
from accelperf.memory_report.wording import notes_text
from accelperf.stages.ingest_memory import check_distinct
from accelperf.yaml_input import read_model


def run(logs: Sequence[Path], output: Path) -> MemoryReport:
    """Read logs and write the report on them.

    Notes on the logs (flags, missing counts, truncation) are printed as warnings, one a file and flag.

    Parameters
    ----------
    logs : sequence of Path
        Logs, and folders of logs. A folder's logs take their ``run.yaml`` as in the stage
        ``ingest_memory``; a single log takes the nearest from its folder upward. One without stays
        without: what it measured is then unknown, and its speeds stand as printed.
    output : Path
        Folder to write into.

    Returns
    -------
    MemoryReport
        What was found, and the files.

    Raises
    ------
    InputError
        If there is no log, one cannot be read, two claim to be one run, or none holds a result.
        Nothing is written then.
    """
    with _at_work("reading logs"):
        read = read_logs(logs)
    check_distinct([item.log for item in read])
    with _at_work("drawing pictures"):
        report = write_memory_report(read, output)
    for line in notes_text(report.analysis):
        print_warning(line)
    return report


def _at_work(what: str) -> AbstractContextManager[object]:
    """Show on a terminal what is at work."""
    if not sys.stderr.isatty():
        return nullcontext()
    from rich.console import Console

    return Console(stderr=True).status(what)


def read_logs(paths: Sequence[Path]) -> list[RunLog]:
    """Read logs and folders of logs, each file once, in the order given."""
    found: dict[Path, tuple[Path, Path, Path]] = {}  # file, where to look for run.yaml first and last
    for path in paths:
        if path.is_dir():
            files = find_logs(path)
            if not files:
                raise InputError("a folder with at least one Shuhai log", "none", file=path)
            for file in files:
                found.setdefault(file.resolve(), (file, file.parent, path))
        else:
            folder = path.resolve().parent
            found.setdefault(path.resolve(), (path, folder, Path(folder.anchor)))
    runs: dict[Path, ShuhaiRun] = {}
    logs = []
    for file, folder, root in found.values():
        sidecar = find_run(folder, root)
        if sidecar is not None and sidecar not in runs:
            runs[sidecar] = read_model(sidecar, ShuhaiRun)
        run = None if sidecar is None else runs[sidecar]
        logs.append(RunLog(read_run(file, run), run))
    return logs
