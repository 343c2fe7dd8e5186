"""Checks on measured rows: what catches bad measurements, and what is done about them.

Each check has a code. What happens to what it finds stands under ``checks`` in ``params.yaml``, by
code: ``flag`` puts the code into the column ``flags``, ``drop`` leaves the row out and counts it
under the code, ``stop`` ends the ingestion with both figures, file and line.

The checks themselves stand in `accelperf.logs.bounds` (what physics allows) and
`accelperf.logs.plausibility` (what the rows say about each other).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Literal, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from accelperf.errors import InputError, known
from accelperf.logs import bounds, plausibility
from accelperf.logs.base import Finding, StatedTotal
from accelperf.logs.hits import Hits
from accelperf.platforms import Platform

Action = Literal["flag", "drop", "stop"]

ACTIONS: tuple[Action, ...] = ("flag", "drop", "stop")


@dataclass(frozen=True)
class Check:
    """One check.

    Attributes
    ----------
    code : str
        Its name, in ``params.yaml``, in the column ``flags`` and in reports.
    meaning : str
        What it finds.
    default : {"flag", "drop", "stop"}
        What is done about it, unless ``params.yaml`` says otherwise.
    scope : {"rejected", "row", "log", "none"}
        Which rows it is about: one that is already left out, since it is no measurement; one row;
        all rows of a network in a log; none of them.
    """

    code: str
    meaning: str
    default: Action
    scope: Literal["rejected", "row", "log", "none"]

    @property
    def actions(self) -> tuple[Action, ...]:
        """What can be done about it: a rejected row cannot be kept, and no row cannot be dropped."""
        if self.scope == "rejected":
            return ("drop", "stop")
        return ("flag", "stop") if self.scope == "none" else ACTIONS


CHECKS: dict[str, Check] = {
    check.code: check
    for check in (
        Check("not_positive", "latency 0, negative, infinite or missing", "drop", "rejected"),
        Check("below_resolution", "latency printed as 0.000: below the log's resolution", "drop", "rejected"),
        Check("zero_geometry", "convolution with a size of 0", "drop", "rejected"),
        Check("absurd", "latency above 1000 times the median of its operation count", "drop", "row"),
        Check("faster_than_compute", "more operations a second than 2 PF PC clock", "drop", "row"),
        Check("faster_than_memory", "more bytes a second than the memory's peak", "flag", "row"),
        Check(
            "contradictory_repeats", "one shape on one accelerator, latencies over 2 x apart", "flag", "row"
        ),
        Check("constant_floor", "unlike shapes at one lowest latency: an empty kernel", "flag", "row"),
        Check("mislabelled_repeats", "identical latencies under two names", "flag", "row"),
        Check("total_mismatch", "sum of the rows and the total that the log states differ", "flag", "log"),
        Check("layer_not_described", "layer of the log without a description", "flag", "none"),
        Check("layer_not_measured", "described convolution that is not in the log", "flag", "none"),
        Check("layer_order", "layers in another order than in the description", "flag", "row"),
        Check("whole_graph", "row that is a whole graph and no layer", "flag", "none"),
    )
}
"""All checks by code, in the order in which codes stand in the column ``flags``."""


@dataclass(frozen=True)
class Checked:
    """Rows after the checks.

    Attributes
    ----------
    table : DataFrame
        The rows that stay, with their flags.
    findings : tuple of Finding
        All that was found, by file and line.
    dropped : Mapping of str to Counter
        Rows dropped by code, of each file.
    """

    table: pd.DataFrame
    findings: tuple[Finding, ...]
    dropped: Mapping[str, Counter[str]]


def read_actions(
    given: Mapping[str, str] | None,
    *,
    file: Path | None = None,
    lines: Mapping[tuple[str, ...], int] | None = None,
) -> dict[str, Action]:
    """Return what is done about each check.

    Parameters
    ----------
    given : Mapping of str to str, optional
        Actions by code, as under ``checks`` in ``params.yaml``; defaults for those not given.
    file, lines : Path and Mapping, optional
        Where they stand, for the error: lines by key path.

    Returns
    -------
    dict
        The action of every one of `CHECKS`.

    Raises
    ------
    InputError
        For an unknown code or action, or one that cannot be; the possible ones are listed.
    """
    actions = {code: check.default for code, check in CHECKS.items()}
    for code, action in (given or {}).items():
        line = (lines or {}).get(("checks", code))
        if code not in CHECKS:
            raise InputError(f"checks: codes among {known(CHECKS)}", repr(code), file=file, line=line)
        possible = CHECKS[code].actions
        if action not in possible:
            raise InputError(
                f"checks.{code}: an action, one of {', '.join(possible)}", repr(action), file=file, line=line
            )
        actions[code] = action
    return actions


def check_layers(
    table: pd.DataFrame,
    platforms: Mapping[str, Platform],
    totals: Sequence[StatedTotal] = (),
    findings: Sequence[Finding] = (),
    actions: Mapping[str, str] | None = None,
) -> Checked:
    """Check rows of several logs together, and do what the actions say.

    Parameters
    ----------
    table : DataFrame
        Layer table in which a layer may have several rows, one a run. May be empty.
    platforms : Mapping of str to Platform
        The accelerators by name.
    totals : sequence of StatedTotal
        Sums that the logs state.
    findings : sequence of Finding
        What the readers saw.
    actions : Mapping of str to str, optional
        Actions by code (see `read_actions`).

    Returns
    -------
    Checked
        The rows that stay, all findings, and the account of the dropped rows.

    Raises
    ------
    InputError
        For the first finding of a check whose action is ``stop``; for an unknown code or action.
    """
    decided = read_actions(actions)
    for finding in findings:
        if finding.code not in CHECKS:
            raise InputError(
                f"findings of codes among {known(CHECKS)}",
                repr(finding.code),
                file=finding.file,
                line=finding.line,
            )
    hits = _look(table, platforms) if len(table) else []
    mismatches = [mismatch for total in totals if (mismatch := _mismatch(total)) is not None]
    found = [
        *findings,
        *mismatches,
        *chain.from_iterable(hit.findings(table) for hit in hits),
    ]
    found.sort(key=_place)
    for finding in found:
        if decided[finding.code] == "stop":
            raise InputError(
                f"no {finding.code} (checks: stop)",
                finding.message,
                file=finding.file,
                line=finding.line,
            )
    rows: dict[str, NDArray[np.bool_]] = {}
    for hit in hits:
        rows.setdefault(hit.code, np.zeros(len(table), dtype=bool))[hit.rows] = True
    for finding in [*findings, *mismatches]:
        if CHECKS[finding.code].scope in ("row", "log") and len(table):
            seen = rows.setdefault(finding.code, np.zeros(len(table), dtype=bool))
            seen |= _rows_of(finding, table)
    return _apply(table, rows, decided, found)


def _look(table: pd.DataFrame, platforms: Mapping[str, Platform]) -> list[Hits]:
    refuted = bounds.check(table, platforms)
    impossible = np.zeros(len(table), dtype=bool)
    for hit in refuted:
        if hit.code == "faster_than_compute":
            impossible[hit.rows] = True
    return [*refuted, *plausibility.check(table, impossible)]


def _place(finding: Finding) -> tuple[str, int]:
    return finding.file, finding.line or 0


def _mismatch(total: StatedTotal) -> Finding | None:
    """Return a finding for a stated total that does not agree with the rows, None for one that does."""
    # Rounding may take half a step from every row and from the total itself.
    allowed = (total.rows + 1) * total.resolution_ms / 2 + 1e-9 * abs(total.stated_ms)
    excess = total.listed_ms - total.stated_ms
    if total.kind == "end_to_end":
        excess = max(excess, 0.0)
    if abs(excess) <= allowed:
        return None
    message = (
        f"{total.what} states {total.stated_ms:.6g} ms, its {total.rows} rows sum to {total.listed_ms:.6g} ms"
    )
    return Finding("total_mismatch", message, total.file, total.line, total.accelerator, total.network)


def _rows_of(finding: Finding, table: pd.DataFrame) -> NDArray[np.bool_]:
    """Return the rows that a reader's finding, or a total, is about."""
    rows = (table["source_file"] == finding.file).to_numpy()
    for column in ("accelerator", "network"):
        if getattr(finding, column):
            rows = rows & (table[column] == getattr(finding, column)).to_numpy()
    if CHECKS[finding.code].scope == "row" and finding.line is not None:
        rows = rows & (table["source_line"] == finding.line).to_numpy()
        # A log of one line needs the name too; elsewhere it may be that of the description.
        named = rows & (table["layer"] == finding.layer).to_numpy()
        rows = named if named.any() else rows
    return cast(NDArray[np.bool_], rows)


def _apply(
    table: pd.DataFrame,
    rows: Mapping[str, NDArray[np.bool_]],
    actions: Mapping[str, Action],
    findings: Sequence[Finding],
) -> Checked:
    dropped: dict[str, Counter[str]] = {}
    gone = np.zeros(len(table), dtype=bool)
    codes = [code for code in CHECKS if code in rows and rows[code].any()]
    for code in codes:
        if actions[code] == "drop":
            for file in table["source_file"].to_numpy()[rows[code] & ~gone]:
                dropped.setdefault(str(file), Counter())[code] += 1
            gone |= rows[code]
    flagging = [code for code in codes if actions[code] == "flag"]
    if flagging:
        flags = table["flags"].to_numpy(dtype=object).copy()
        for code in flagging:
            here = rows[code]
            flags[here] = [f"{flag};{code}" if flag else code for flag in flags[here]]
        table = table.assign(flags=pd.Series(flags, index=table.index, dtype="str"))
    return Checked(table[~gone].reset_index(drop=True) if gone.any() else table, tuple(findings), dropped)
