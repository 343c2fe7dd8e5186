"""Tables of the page about throughput, Markdown; None where the logs hold nothing for one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from accelperf.memory.throughput import (
    Throughput,
    best,
    by_engine,
    competing,
    contiguous_by_burst,
    falls_with_stride,
    locality,
    policies,
    series,
    writes_against_reads,
)
from accelperf.memory_report.address_view import address_view
from accelperf.memory_report.wording import (
    MARK,
    UNKNOWN,
    bytes_text,
    engines_text,
    joined,
    origin_text,
    pattern_text,
    percent_text,
    speed_text,
)
from accelperf.report import markdown_table

CHANNELS_OF_PAPER: Mapping[str, int] = {"hbm": 32, "ddr4": 2}
"""Channels of the board of the Shuhai paper (Alveo U280), to which it scales one HBM channel."""

ENOUGH_OF_BEST = 0.95
"""Share of the best throughput from which a burst is called long enough."""

HELPS_RATIO = 1.1
"""Ratio from which a small working set is said to help."""


def by_stride_table(points: Sequence[Throughput]) -> str | None:
    """Return throughput by stride, one row a policy, direction, burst and working set."""
    curves = [curve for curve in series(points, "stride_bytes") if len(curve) > 1]
    if not curves:
        return None
    strides = sorted({point.stride_bytes for curve in curves for point in curve})
    rows = []
    for curve in curves:
        first = curve[0]
        cells = {point.stride_bytes: speed_text(point) for point in curve}
        rows.append(
            [
                first.profile,
                first.policy or UNKNOWN,
                first.direction,
                engines_text(first.engines),
                bytes_text(first.burst_bytes),
                bytes_text(first.working_set_bytes),
                *(cells.get(stride, UNKNOWN) for stride in strides),
                origin_text(first.origin),
            ]
        )
    header = ["memory", "policy", "direction", "engines", "B", "W"]
    header += [f"S {bytes_text(stride)}" for stride in strides] + ["origin"]
    return f"GB/s of a memory channel.\n\n{markdown_table(rows, header)}"


def falls_table(points: Sequence[Throughput]) -> str | None:
    """Return where the throughput falls between strides, and what the pattern does in the DRAM there."""
    falls = falls_with_stride(points)
    if not falls:
        return None
    rows = []
    for fall in falls:
        before, after = fall.other, fall.one
        views = [
            address_view(
                point.memory,
                point.policy,
                burst_bytes=point.burst_bytes,
                stride_bytes=point.stride_bytes,
                working_set_bytes=point.working_set_bytes,
            )
            for point in (before, after)
        ]
        rows.append(
            [
                before.profile,
                before.policy or UNKNOWN,
                f"{before.direction}, B {bytes_text(before.burst_bytes)}, "
                f"W {bytes_text(before.working_set_bytes)}",
                f"{bytes_text(before.stride_bytes)} → {bytes_text(after.stride_bytes)}",
                f"{speed_text(before)} → {speed_text(after)}",
                f"{fall.ratio:.2f}",
                " → ".join(UNKNOWN if view is None else percent_text(view.group_changes) for view in views),
                " → ".join(UNKNOWN if view is None else percent_text(view.new_rows) for view in views),
                " → ".join(UNKNOWN if view is None else str(view.banks) for view in views),
                origin_text(before.origin),
            ]
        )
    header = [
        "memory", "policy", "pattern", "S", "GB/s", "ratio", "bank group changes", "new rows",
        "banks in 32 words", "origin",
    ]  # fmt: skip
    return (
        "Between measured strides that follow each other. The last columns say what successive words of the "
        "pattern do under the policy's address bits (computed, not measured): a word in the bank group of "
        "the one before waits for tCCD_L, a word in a new row for precharge and activate, of which as many "
        "go on at once as banks take part.\n\n" + markdown_table(rows, header)
    )


def by_burst_table(points: Sequence[Throughput]) -> str | None:
    """Return throughput by burst, contiguous and at fixed strides, and the shortest burst that is enough."""
    lines = [(line, "S = B") for line in contiguous_by_burst(points)]
    fixed = [line for line in series(points, "burst_bytes") if len(line) > 1]
    lines += [(line, f"S = {bytes_text(line[0].stride_bytes)}") for line in fixed]
    if not lines:
        return None
    bursts = sorted({point.burst_bytes for line, _ in lines for point in line})
    rows, sentences = [], []
    for line, stride in lines:
        first, top = line[0], best(line)
        cells = {
            point.burst_bytes: f"{speed_text(point)} ({percent_text(point.efficiency)})" for point in line
        }
        enough = next(p for p in line if p.efficiency >= ENOUGH_OF_BEST * top.efficiency)
        where = f"{first.profile}, {first.direction}, {stride}, W = {bytes_text(first.working_set_bytes)}"
        sentences.append(
            f"* {where}: bursts from {bytes_text(enough.burst_bytes)} bytes on reach "
            f"{100 * ENOUGH_OF_BEST:.0f} % of the best ({speed_text(top)} GB/s at "
            f"{bytes_text(top.burst_bytes)})."
        )
        rows.append(
            [
                first.profile,
                first.policy or UNKNOWN,
                first.direction,
                stride,
                bytes_text(first.working_set_bytes),
                *(cells.get(burst, UNKNOWN) for burst in bursts),
                origin_text(first.origin),
            ]
        )
    header = ["memory", "policy", "direction", "stride", "W"]
    header += [f"B {bytes_text(burst)}" for burst in bursts] + ["origin"]
    return f"{markdown_table(rows, header)}\n" + "\n".join(sentences) + "\n"


def policies_table(points: Sequence[Throughput]) -> str | None:
    """Return the best and the worst policy of each pattern."""
    found = policies(points)
    if not found:
        return None
    rows = [
        [
            comparison.one.profile,
            pattern_text(comparison.one),
            f"{comparison.one.policy or UNKNOWN} {speed_text(comparison.one)}",
            f"{comparison.other.policy or UNKNOWN} {speed_text(comparison.other)}",
            f"{comparison.ratio:.2f}",
            origin_text(comparison.one.origin),
        ]
        for comparison in found
    ]
    return markdown_table(rows, ["memory", "pattern", "best [GB/s]", "worst [GB/s]", "ratio", "origin"])


def locality_table(points: Sequence[Throughput]) -> str | None:
    """Return the smallest against the largest working set, and at which strides it matters."""
    found = locality(points)
    if not found:
        return None
    rows = [
        [
            comparison.one.profile,
            comparison.one.policy or UNKNOWN,
            f"{comparison.one.direction}, B {bytes_text(comparison.one.burst_bytes)}, "
            f"S {bytes_text(comparison.one.stride_bytes)}",
            f"{speed_text(comparison.one)} (W {bytes_text(comparison.one.working_set_bytes)})",
            f"{speed_text(comparison.other)} (W {bytes_text(comparison.other.working_set_bytes)})",
            f"{comparison.ratio:.2f}",
            origin_text(comparison.one.origin),
        ]
        for comparison in found
    ]
    helped = [comparison for comparison in found if comparison.ratio >= HELPS_RATIO]
    strides = sorted({comparison.one.stride_bytes for comparison in helped})
    sentence = f"A small working set is at least {HELPS_RATIO:g} times as fast at " + (
        f"S = {', '.join(map(bytes_text, strides))} alone: there it keeps rows open that a large one leaves."
        if strides
        else "none of the measured strides."
    )
    header = ["memory", "policy", "pattern", "small [GB/s]", "large [GB/s]", "ratio", "origin"]
    return f"{sentence}\n\n{markdown_table(rows, header)}"


def directions_table(points: Sequence[Throughput]) -> str | None:
    """Return writes beside reads."""
    found = writes_against_reads(points)
    if not found:
        return None
    rows = [
        [
            comparison.one.profile,
            comparison.one.policy or UNKNOWN,
            f"B {bytes_text(comparison.one.burst_bytes)}, S {bytes_text(comparison.one.stride_bytes)}, "
            f"W {bytes_text(comparison.one.working_set_bytes)}",
            speed_text(comparison.other),
            speed_text(comparison.one),
            f"{comparison.ratio:.2f}",
            origin_text(comparison.one.origin),
        ]
        for comparison in found
    ]
    header = ["memory", "policy", "pattern", "read [GB/s]", "write [GB/s]", "write / read", "origin"]
    return markdown_table(rows, header)


def axi_throughput_table(points: Sequence[Throughput]) -> str | None:
    """Return the throughput of HBM engines, each alone, on the way to one memory channel."""
    groups = [group for group in by_engine(points) if group[0].memory == "hbm" and group[0].switch == "on"]
    if not groups:
        return None
    rows = [
        [
            point.profile,
            point.policy or UNKNOWN,
            pattern_text(point),
            engines_text(point.engines),
            speed_text(point),
            percent_text(point.efficiency),
            origin_text(point.origin),
        ]
        for group in groups
        for point in group
    ]
    return markdown_table(rows, ["memory", "policy", "pattern", "AXI channel", "GB/s", "share", "origin"])


def competition_table(points: Sequence[Throughput]) -> str | None:
    """Return engines that shared memory channels, beside one alone."""
    found = competing(points)
    if not found:
        return None
    rows = []
    for item in found:
        together, alone = item.together, item.alone
        rows.append(
            [
                together.profile,
                pattern_text(together),
                engines_text(together.engines),
                str(together.targets),
                f"{together.gbps:.3g}{' ' + MARK if together.unvalidated else ''}",
                f"{together.total_gbps:.3g}",
                percent_text(together.efficiency),
                "not measured" if alone is None else speed_text(alone),
                origin_text(together.origin),
            ]
        )
    header = [
        "memory", "pattern", "engines", "memory channels", "each [GB/s]", "together [GB/s]", "share",
        "one alone [GB/s]", "origin",
    ]  # fmt: skip
    return (
        "More engines than memory channels: they divide what a channel gives. In the current public version "
        "of Shuhai all HBM engines start at address 0 and meet in channel 0.\n\n"
        + markdown_table(rows, header)
    )


def total_table(points: Sequence[Throughput]) -> str | None:
    """Return what several memory channels reached at once, and one channel scaled as the paper does."""
    if not points:
        return None
    rows = []
    for profile in sorted({point.profile for point in points}):
        its = [point for point in points if point.profile == profile]
        several = [point for point in its if point.targets > 1]
        top = best(its)
        channels = CHANNELS_OF_PAPER.get(top.memory)
        measured = "not measured"
        if several:
            most = max(several, key=lambda point: point.total_gbps)
            peak = most.targets * most.peak_gbps
            measured = f"{most.total_gbps:.4g} of {peak:.4g} ({most.targets} channels)"
        rows.append(
            [
                profile,
                measured,
                speed_text(top),
                UNKNOWN
                if channels is None
                else f"{channels} x {top.target_gbps:.3g} = {channels * top.target_gbps:.3g}",
                joined(sorted({origin_text(point.origin) for point in its})),
            ]
        )
    header = [
        "memory", "channels at once [GB/s]", "one channel, best [GB/s]", "scaled to the paper's board [GB/s]",
        "origin",
    ]  # fmt: skip
    return (
        "The paper scales one HBM channel to 32 (425 GB/s) and one DDR4 channel to two (36 GB/s). The scaled "
        "column does the same and is no measurement.\n\n" + markdown_table(rows, header)
    )
