"""Published figures that the DRAM model is compared with, and how near it has to come.

A figure is an anchor for exactly the run that it was published for: a pattern without one is
unvalidated, also between two anchors. `docs/dram_model.md` shows the comparison.

References
----------
Wang, Huang, Zhang, Alonso, *Shuhai: Benchmarking High Bandwidth Memory on FPGAs*, FCCM 2020.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

TOLERANCE = 0.05
"""Relative deviation that the model may have from an anchor."""

RATIO_TOLERANCE = 0.20
"""Relative deviation allowed for a ratio that the paper gives in words ("almost 10 times")."""

RANDOM_LEAST_FRACTION = 0.6
"""Share of the measured random throughput that the model, which does not reorder, reaches at least."""


@dataclass(frozen=True)
class ThroughputAnchor:
    """Throughput of reads from one channel, default address mapping.

    Attributes
    ----------
    name : str
        Short name; the sample run's folder.
    memory : {"hbm", "ddr4"}
        The memory.
    burst_bytes, stride_bytes, working_set_bytes : int
        B, S and W [bytes].
    gbps : float
        Published figure [decimal GB/s].
    where : str
        What it is in the paper.
    """

    name: str
    memory: Literal["hbm", "ddr4"]
    burst_bytes: int
    stride_bytes: int
    working_set_bytes: int
    gbps: float
    where: str


_KB = 1 << 10
_MB = 1 << 20

THROUGHPUT: tuple[ThroughputAnchor, ...] = (
    ThroughputAnchor("hbm_b32_s64", "hbm", 32, 64, 256 * _MB, 6.67, "local channel alone"),
    ThroughputAnchor("hbm_b64_s64", "hbm", 64, 64, 256 * _MB, 12.9, "local channel alone"),
    ThroughputAnchor("hbm_b128_s128", "hbm", 128, 128, 256 * _MB, 13.3, "local channel alone"),
    ThroughputAnchor(
        "hbm_sequential",
        "hbm",
        256,
        256,
        256 * _MB,
        13.27,
        "sequential, one of 32 channels that make 425 GB/s; the paper does not give the burst, 256 is ours",
    ),
    ThroughputAnchor("hbm_b32_s4k_w8k", "hbm", 32, 4 * _KB, 8 * _KB, 6.7, "locality, working set 8 KB"),
    ThroughputAnchor("hbm_b32_s4k_w256m", "hbm", 32, 4 * _KB, 256 * _MB, 2.4, "locality, working set 256 MB"),
    ThroughputAnchor(
        "ddr4_sequential",
        "ddr4",
        64,
        64,
        256 * _MB,
        18.0,
        "sequential, one of two channels that make 36 GB/s",
    ),
)
"""Published throughput (V; the sequential HBM figure is one channel scaled)."""

IDLE_LATENCY_CYCLES: dict[tuple[str, str], dict[str, int]] = {
    ("hbm", "on"): {"hit": 55, "closed": 62, "miss": 69},
    ("hbm", "off"): {"hit": 48, "closed": 55, "miss": 62},
    ("ddr4", "off"): {"hit": 22, "closed": 27, "miss": 32},
}
"""Idle latency by memory and switch [AXI cycles]. HBM on: hit V, the others D; HBM off and DDR4 closed and
miss from a secondary source (R); DDR4 hit V."""

REFRESH_SPACING_ACCESSES: dict[str, float] = {"hbm": 32.0, "ddr4": 95.0}
"""Serial accesses from one that meets a refresh to the next (D)."""

REFRESH_SLOW_CYCLES = 100
"""Latency above which an access met a refresh (D) [AXI cycles]."""

POLICY_RATIO = 10.0
"""HBM, B = 32, S = 1024: default policy over BRC, "almost 10 times" (V)."""

RANDOM_GBPS: dict[int, float] = {64: 4.75, 128: 9.60, 256: 12.62, 512: 13.13}
"""Random reads of one HBM channel by burst [bytes], measured on a U280 (Xilinx Vitis tutorials, HBM
bandwidth explorations); limited by the traffic generator rather than by the DRAM."""


def validation(
    *,
    memory: str,
    policy: str,
    default_policy: bool,
    direction: str,
    mode: str,
    kind: str,
    burst_bytes: int,
    stride_bytes: int,
    working_set_bytes: int,
    value: float,
) -> tuple[bool, str]:
    """Return whether a published figure confirms a simulated throughput, and a sentence about it.

    Parameters
    ----------
    memory, policy, direction, mode, kind : str
        The run.
    default_policy : bool
        Whether the policy is the controller's default.
    burst_bytes, stride_bytes, working_set_bytes : int
        B, S and W [bytes].
    value : float
        Simulated throughput [decimal GB/s].

    Returns
    -------
    validated : bool
        Whether there is a figure for this very run and the simulation is within `TOLERANCE` of it.
    note : str
        The figure and the deviation, or why the run is unvalidated.
    """
    if mode == "latency":
        return False, "unvalidated as a trace; idle latencies and refresh spacing have published figures"
    if kind == "random":
        return False, (
            "unvalidated: the model does not reorder, and the random reads measured on a U280 are "
            "limited by their traffic generator"
        )
    if direction == "write":
        return False, "unvalidated: no published figure for writes"
    if not default_policy:
        return False, f"unvalidated: {policy} is known only as a ratio to the default policy"
    for anchor in THROUGHPUT:
        if (memory, burst_bytes, stride_bytes, working_set_bytes) == (
            anchor.memory,
            anchor.burst_bytes,
            anchor.stride_bytes,
            anchor.working_set_bytes,
        ):
            deviation = value / anchor.gbps - 1
            within = abs(deviation) <= TOLERANCE
            verdict = "validated" if within else "outside the tolerance"
            return within, f"{verdict}: {deviation:+.1%} from the published {anchor.gbps:g} GB/s"
    return False, "unvalidated: no published figure for this pattern"
