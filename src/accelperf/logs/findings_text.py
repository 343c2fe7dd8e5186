"""What checks found, as text: a line a check, a table, or tab-separated values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from accelperf.layers import ReadReport
from accelperf.logs.base import Finding, StatedTotal
from accelperf.logs.checks import CHECKS
from accelperf.logs.ingestion import Ingestion

FINDING_COLUMNS: tuple[str, ...] = (
    "code",
    "action",
    "accelerator",
    "network",
    "layer",
    "source",
    "message",
)
"""Columns of the table of findings."""

_DONE = {"flag": "flagged", "drop": "dropped"}


def warnings_of(found: Ingestion, report: Path) -> list[str]:
    """Return a line for each check that found something, with its first finding.

    Parameters
    ----------
    found : Ingestion
        What was read.
    report : Path
        Where all findings are listed.
    """
    lines = []
    for code, findings in found.by_code().items():
        first, count = findings[0], len(findings)
        more = "" if count == 1 else f" (and {count - 1} more in {report})"
        about = _about(code, found.actions[code])
        lines.append(f"{source_of(first)}: {_layer(first)}{first.message}: {code}, {about}{more}")
    return lines


def _about(code: str, action: str) -> str:
    return "reported" if CHECKS[code].scope == "none" else _DONE[action]


def _layer(finding: Finding) -> str:
    return f"{finding.layer}: " if finding.layer else ""


def source_of(finding: Finding | StatedTotal) -> str:
    """Return where something stands, ``file:line``."""
    return finding.file if finding.line is None else f"{finding.file}:{finding.line}"


def finding_cells(found: Ingestion) -> list[list[str]]:
    """Return the findings as cells of `FINDING_COLUMNS`, empty ones as dashes."""
    return [
        [
            finding.code,
            _about(finding.code, found.actions[finding.code]),
            finding.accelerator or "-",
            finding.network or "-",
            finding.layer or "-",
            source_of(finding),
            finding.message,
        ]
        for finding in found.findings
    ]


def findings_tsv(found: Ingestion) -> str:
    """Return the findings as tab-separated values with a header line."""
    rows = [list(FINDING_COLUMNS), *finding_cells(found)]
    return "".join("\t".join(" ".join(cell.split()) for cell in row) + "\n" for row in rows)


def findings_table(found: Ingestion) -> str:
    """Return the findings as an aligned table with a header line."""
    return aligned([list(FINDING_COLUMNS), *finding_cells(found)])


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Return rows of cells as lines of columns."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() + "\n"
        for row in rows
    )


def account_lines(found: Ingestion) -> list[str]:
    """Return a line for each file, and one for each total that a log states."""
    return [*map(_file_line, found.reports), *_total_lines(found.totals)]


def _file_line(report: ReadReport) -> str:
    counts = f"{report.rows_read} rows read, {report.rows_kept} kept"
    skipped = sum(report.skipped.values())
    reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(report.skipped.items()) if count)
    return f"{report.file}: {report.format}, {counts}" + (
        f", {skipped} skipped ({reasons})" if skipped else ""
    )


def _total_lines(totals: Iterable[StatedTotal]) -> list[str]:
    return [
        f"{source_of(total)}: {total.network + ': ' if total.network else ''}{total.what} states "
        f"{total.stated_ms:.6g} ms, its {total.rows} rows sum to {total.listed_ms:.6g} ms"
        for total in totals
    ]
