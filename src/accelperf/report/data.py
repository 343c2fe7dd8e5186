"""The data set and the platforms, in the form of the paper's Tables 3 and 4 (Ferianc et al., ARC 2020)."""

from __future__ import annotations

from collections.abc import Sequence

from accelperf.features import FeatureMatrix
from accelperf.parameters import BY_NAME, PARAMETERS
from accelperf.platforms import MemoryPattern, Platform
from accelperf.report.text import markdown_table, percent


def statistics_markdown(features: FeatureMatrix) -> str:
    """Return least, mean and greatest value of latency and of each parameter (paper's Table 3)."""
    table = features.table
    rows = []
    for accelerator, part in [("all", table), *table.groupby("accelerator", sort=True)]:
        latency = part["latency_ms"]
        rows.append(
            [
                str(accelerator),
                str(len(part)),
                str(part["network"].nunique()),
                f"{latency.min():.3f}",
                f"{latency.mean():.3f}",
                f"{latency.max():.3f}",
                ", ".join(sorted(set(part["origin"]))),
            ]
        )
    header = ["accelerator", "rows", "networks", "min [ms]", "mean [ms]", "max [ms]", "origin"]
    parameters = [
        [
            parameter.name,
            parameter.symbol,
            parameter.unit,
            *(f"{value:g}" for value in (column.min(), round(column.mean(), 3), column.max())),
        ]
        for parameter in PARAMETERS
        for column in [table[parameter.name]]
    ]
    return (
        markdown_table(rows, header)
        + "\n"
        + markdown_table(parameters, ["parameter", "symbol", "unit", "min", "mean", "max"])
    )


def platforms_markdown(platforms: Sequence[Platform], features: FeatureMatrix) -> str:
    """Return the platforms with the memory efficiency that was used (paper's Table 4)."""
    efficiency = features.table.groupby("accelerator")["memory_efficiency"].agg(["min", "max"])
    rows = []
    for platform in platforms:
        pattern = platform.memory_efficiency
        where = f" ({pattern.profile})" if isinstance(pattern, MemoryPattern) else ""
        rows.append(
            [
                platform.name,
                str(platform.filter_parallelism),
                f"{platform.channel_parallelism} {platform.unrolled_loop}",
                f"{platform.logic_clock_mhz:g}",
                f"{platform.memory_clock_mhz:g}",
                f"{platform.ports} x {platform.transfer_width_bits}",
                f"{platform.memory_peak_gbps:.4g}",
                f"{_range(*efficiency.loc[platform.name])}{where}",
                str(platform.data_width_bits),
            ]
        )
    header = [
        "platform",
        "PF",
        "PC",
        f"L_CLK [{BY_NAME['logic_clock_mhz'].unit}]",
        f"M_CLK [{BY_NAME['memory_clock_mhz'].unit}]",
        "ports x S [bit]",
        "peak [GB/s]",
        "M_EFF",
        "DW [bit]",
    ]
    notes = "".join(f"\n* `{p.name}`: {p.source or 'no source stated'}" for p in platforms)
    return markdown_table(rows, header) + notes + "\n"


def _range(low: float, high: float) -> str:
    return percent(low) if low == high else f"{100 * low:.1f} to {percent(high)}"
