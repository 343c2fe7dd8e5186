"""Stage ``featurise``: layer table, platforms and memory table to the feature matrix."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from accelperf.features import build_features, left_out, write_features
from accelperf.layers import read_layers
from accelperf.memory.table import read_memory
from accelperf.platforms import read_platforms


def run(
    layers: Path,
    platforms: Path,
    memory: Path,
    output: Path,
    *,
    origins: Sequence[str],
    accelerators: Sequence[str] | None = None,
    report: Path | None = None,
) -> None:
    """Build the feature matrix and write it.

    Parameters
    ----------
    layers : Path
        ``layers.csv``.
    platforms : Path
        Folder of platform files.
    memory : Path
        ``memory.csv``.
    output : Path
        ``features.csv``.
    origins : sequence of str
        Origins of the layers to take.
    accelerators : sequence of str, optional
        Accelerators to take; all by default.
    report : Path, optional
        JSON account: rows read, kept and skipped by reason.

    Raises
    ------
    InputError
        If anything cannot be read or nothing is left; earlier outputs stay as they were.
    """
    table = read_layers(layers)
    matrix = build_features(
        table, read_platforms(platforms), read_memory(memory), origins=origins, accelerators=accelerators
    )
    skipped = left_out(table, origins=origins, accelerators=accelerators)
    account = {
        "file": layers.as_posix(),
        "rows_read": len(table),
        "rows_kept": len(matrix),
        "skipped": skipped,
    }
    write_features(matrix, output)
    if report is not None:
        report.parent.mkdir(parents=True, exist_ok=True)
        report.write_text(json.dumps(account, indent=2) + "\n", encoding="utf-8")
