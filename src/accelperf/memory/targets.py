"""Efficiency of a memory channel that several engines may have reached at once.

In the current public version of Shuhai all HBM engines start at address 0 (verified), so that they
share the 14.4 GB/s of one channel (derived): a single engine's share says little, the sum of all
says how well the memory was used. An efficiency is therefore that of the *target* channel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from accelperf.memory.corrections import PEAK_TOLERANCE, REFRESH_SHARE
from accelperf.memory.table import MemoryRow


def with_efficiency(rows: Sequence[MemoryRow], *, target_certain: bool) -> list[MemoryRow]:
    """Fill in the efficiency of the rows of one run.

    Rows that shared a target with equal pattern, direction and N get the efficiency of all
    together. Speeds that no two engines could have had on one channel prove that they did not share
    it, whatever the version of the program; the target is then not known, the efficiency is. What
    cannot be decided stays unknown, and `accelperf.memory.shuhai_run.ShuhaiRun.target_channel` is
    the way to state it.

    Parameters
    ----------
    rows : sequence of MemoryRow
        All rows of one run, without efficiency; rejected rows carry their flags.
    target_certain : bool
        Whether `target_channel` is certain, or only what the current public version does.

    Returns
    -------
    list of MemoryRow
        The same rows with efficiency, and flags for what was found.
    """
    return [_row_with_efficiency(row, rows, target_certain) for row in rows]


def _row_with_efficiency(row: MemoryRow, rows: Sequence[MemoryRow], certain: bool) -> MemoryRow:
    if row.corrected_gbps is None or row.peak_gbps is None or _rejected(row):
        return row
    peak = row.peak_gbps * (1 + PEAK_TOLERANCE)
    neighbours = [
        other
        for other in rows
        if other is not row and (other.target_channel == row.target_channel or None in _targets(row, other))
    ]
    known = [other for other in neighbours if other.corrected_gbps is not None and not _rejected(other)]
    alike = [other for other in known if _kind(other) == _kind(row)]
    strange = [other for other in known if _pattern(other) != _pattern(row)]
    unclear = len(alike) + len(strange) < len(neighbours)
    apart = not certain and all(row.corrected_gbps + _gbps(other) > peak for other in alike + strange)
    flags: tuple[str, ...] = ()
    target = row.target_channel
    if apart and (alike or strange):
        total, target = row.corrected_gbps, None
    elif strange:
        return replace(row, flags=(*row.flags, "mixed_target"))
    else:
        total = row.corrected_gbps + sum(map(_gbps, alike))
        if total > peak:
            flag = "above_peak" if certain else "target_unknown"
            return replace(row, target_channel=target if certain else None, flags=(*row.flags, flag))
        if alike and target is None:
            return replace(row, flags=(*row.flags, "target_unknown"))
        if alike:
            flags += ("target_shared",)
    if unclear:
        flags += ("target_share_unknown",)
    efficiency = min(total / row.peak_gbps, 1.0)
    if efficiency > 1 - REFRESH_SHARE.get(row.memory, 0.0):
        flags += ("above_refresh_limit",)
    return replace(row, efficiency=efficiency, target_channel=target, flags=(*row.flags, *flags))


def _rejected(row: MemoryRow) -> bool:
    return row.unusable not in (None, "pattern_unknown", "policy_unknown")


def _targets(*rows: MemoryRow) -> tuple[int | None, ...]:
    return tuple(row.target_channel for row in rows)


def _gbps(row: MemoryRow) -> float:
    return row.corrected_gbps or 0.0


def _pattern(row: MemoryRow) -> tuple[object, ...]:
    return row.direction, row.burst_bytes, row.stride_bytes, row.working_set_bytes


def _kind(row: MemoryRow) -> tuple[object, ...]:
    # Engines with different N do not run for the same time: their speeds cannot be added.
    return *_pattern(row), row.num_ops
