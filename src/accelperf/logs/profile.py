"""Profiles as a tool prints them: layers by name, times, stated sums, no sizes.

For readers of logs without geometry. A reader parses its file into `Profile` objects; `join_profiles`
then asks ``run.yaml`` for platform, network and the network's description. Where nothing describes
the network, ``accelperf check`` still compares what the tool states with what it lists.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from accelperf.errors import InputError, known
from accelperf.layers import ReadReport, empty_layers, file_md5
from accelperf.logs.base import Finding, LogTable, StatedTotal
from accelperf.logs.geometry import TIMING_COLUMNS, join_geometry
from accelperf.logs.run import RunFile

PROFILE_COLUMNS: tuple[str, ...] = tuple(
    column for column in TIMING_COLUMNS if column not in ("accelerator", "network")
)
"""Columns of `Profile.timings`, in the units of `accelperf.logs.geometry.TIMING_COLUMNS`."""

NO_SIZES = "without sizes"
"""Reason under which the rows of a log are counted that nothing describes."""

_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class Profile:
    """The layers of one network as one tool lists them.

    Attributes
    ----------
    network, configuration : str
        Network and configuration of the accelerator as the log names them; empty where it does not.
    line : int
        Line of its header.
    timings : DataFrame
        `PROFILE_COLUMNS`, one row a row of the log, in its order. A latency of 0 is below the
        resolution of the log, NaN missing.
    totals : tuple of StatedTotal
        Sums that the log states.
    findings : tuple of Finding
        What the parser itself saw.
    skipped : Mapping of str to int
        Rows of the log that are not in `timings`, by reason.
    """

    network: str
    configuration: str
    line: int
    timings: pd.DataFrame
    totals: tuple[StatedTotal, ...] = ()
    findings: tuple[Finding, ...] = ()
    skipped: Mapping[str, int] | None = None

    def __post_init__(self) -> None:
        if tuple(self.timings.columns) != PROFILE_COLUMNS:
            raise ValueError(f"a profile must have the columns {PROFILE_COLUMNS}")

    @property
    def rows_read(self) -> int:
        """Number of rows of the log behind the profile."""
        return len(self.timings) + sum((self.skipped or {}).values())


def timing_row(
    layer: str,
    latency_ms: float,
    *,
    line: int,
    operator: str = "",
    latency_std_ms: float = float("nan"),
    repeats: int = 1,
) -> dict[str, Any]:
    """Return a row for `timing_table`."""
    return {
        "layer": layer,
        "operator": operator,
        "latency_ms": latency_ms,
        "latency_std_ms": latency_std_ms,
        "repeats": repeats,
        "line": line,
    }


def timing_table(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return rows made by `timing_row` as `Profile.timings`."""
    return pd.DataFrame(list(rows), columns=list(PROFILE_COLUMNS))


def join_profiles(path: Path, name: str, profiles: Sequence[Profile], run: RunFile) -> LogTable:
    """Give the profiles of a log platform, network and sizes, as ``run.yaml`` says.

    Parameters
    ----------
    path : Path
        The log.
    name : str
        Its format.
    profiles : sequence of Profile
        What stands in it. Several of one network on one platform are runs of its layers.
    run : RunFile
        The ``run.yaml``. If it names no description and need not (`RunFile.needs_sizes`), no row is
        kept, and a finding ``layer_not_described`` says so.

    Raises
    ------
    InputError
        If ``run.yaml`` does not say platform or network where the log does not, names one network
        where the log names several, or as `accelperf.logs.geometry.join_geometry`.
    """
    groups: dict[tuple[str, str], list[pd.DataFrame]] = {}
    totals: list[StatedTotal] = []
    findings: list[Finding] = []
    skipped: Counter[str] = Counter()
    sums_only = run.content.geometry is None and not run.needs_sizes
    for profile in profiles:
        accelerator = _accelerator(profile, run, path, sums_only)
        network = _network(profile, profiles, run, path, sums_only)
        if sums_only:
            findings.append(_without_sizes(profile, path, accelerator, network))
            skipped[NO_SIZES] += len(profile.timings)
        else:
            timings = profile.timings.assign(accelerator=accelerator, network=network)
            groups.setdefault((accelerator, network), []).append(timings[list(TIMING_COLUMNS)])
        totals += [replace(each, accelerator=accelerator, network=network) for each in profile.totals]
        findings += [replace(each, accelerator=accelerator, network=network) for each in profile.findings]
        skipped.update(profile.skipped or {})
    tables = []
    for parts in groups.values():
        joined = join_geometry(pd.concat(parts, ignore_index=True), run, file=path)
        findings += joined.findings
        skipped.update(joined.skipped)
        if len(joined.table):
            tables.append(joined.table)
    table = pd.concat(tables, ignore_index=True) if tables else empty_layers()
    rows_read = sum(profile.rows_read for profile in profiles)
    report = ReadReport(path.as_posix(), file_md5(path), name, rows_read, len(table), skipped)
    return LogTable(table, report, tuple(findings), tuple(totals))


def _without_sizes(profile: Profile, path: Path, accelerator: str, network: str) -> Finding:
    # Rows of one name may have become one timing: what the log's own total is compared with has all.
    listed = profile.totals[0].listed_ms if profile.totals else np.nansum(profile.timings["latency_ms"])
    message = (
        f"{len(profile.timings)} layers whose times sum to {listed:.6g} ms, without sizes: only sums were "
        "checked; 'geometry' in run.yaml, or --geometry, names what describes the network"
    )
    return Finding("layer_not_described", message, path.as_posix(), profile.line, accelerator, network)


def _accelerator(profile: Profile, run: RunFile, path: Path, sums_only: bool) -> str:
    if sums_only and not run.by_configuration:
        return ""
    # One 'platform' serves all; 'platforms' tells those apart that the log names.
    configuration = "" if "" in run.by_configuration else profile.configuration
    return run.platform(configuration, file=path, line=profile.line).name


def _network(profile: Profile, profiles: Sequence[Profile], run: RunFile, path: Path, sums_only: bool) -> str:
    if run.content.network is None:
        if profile.network or sums_only:
            return profile.network
        raise InputError(
            f"the key 'network' in {run.path}, since this log names no network",
            "no such key",
            file=path,
            line=profile.line,
        )
    named = {each.network for each in profiles if each.network}
    if len(named) > 1:
        # One name for the layers of several networks would mix them up.
        raise InputError(
            f"no key 'network', since {path} names the networks {known(named)}",
            repr(run.content.network),
            file=run.path,
            line=run.lines.get(("network",)),
        )
    return run.content.network


def find_line(path: Path, markers: Iterable[bytes]) -> str | None:
    """Return the first line of a file that contains a marker, None if there is none.

    Reads bytes, so that a log of hundreds of megabytes takes a fraction of a second, and any
    content will do.

    Parameters
    ----------
    path : Path
        The file.
    markers : iterable of bytes
        ASCII text, any of which will do; without line ends.

    Raises
    ------
    InputError
        If the file cannot be read.
    """
    wanted = tuple(markers)
    try:
        with path.open("rb") as stream:
            rest = b""
            while chunk := stream.read(_CHUNK_BYTES):
                # Whole lines only, so that no marker is cut in two.
                block = rest + chunk + stream.readline(_CHUNK_BYTES)
                found = [place for place in (block.find(marker) for marker in wanted) if place >= 0]
                if found:
                    return _line_around(block, min(found))
                cut = max(block.rfind(b"\n"), block.rfind(b"\r")) + 1
                rest = block[cut:] if cut else block[-_CHUNK_BYTES:]
    except OSError as error:
        raise InputError("a readable file", error.strerror or str(error), file=path) from None
    return None


def _line_around(block: bytes, place: int) -> str:
    start = max(block.rfind(b"\n", 0, place), block.rfind(b"\r", 0, place)) + 1
    ends = [end for end in (block.find(b"\n", place), block.find(b"\r", place)) if end >= 0]
    line = block[start : min(ends, default=len(block))]
    return line.decode("utf-8", errors="replace").lstrip("\ufeff")
