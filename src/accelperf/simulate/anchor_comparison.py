"""The DRAM model beside the published figures: each with what the model makes of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from accelperf.simulate.dram import AccessPattern, simulate
from accelperf.simulate.dram_timing import HBM2, MEMORIES
from accelperf.simulate.published_anchors import (
    IDLE_LATENCY_CYCLES,
    POLICY_RATIO,
    RANDOM_GBPS,
    RANDOM_LEAST_FRACTION,
    RATIO_TOLERANCE,
    REFRESH_SLOW_CYCLES,
    REFRESH_SPACING_ACCESSES,
    THROUGHPUT,
    TOLERANCE,
)

_NUM_OPS = 100_000
_LATENCY_NUM_OPS = 20_000
_KB = 1 << 10
_MB = 1 << 20


@dataclass(frozen=True)
class Comparison:
    """One published figure and what the model makes of it.

    Attributes
    ----------
    name : str
        The figure.
    unit : str
        Its unit.
    published, simulated : float
        Both values.
    status : str
        How sure the published value is: V verified, D derived, R unverified.
    lower, upper : float
        Least and greatest relative deviation that is allowed.
    """

    name: str
    unit: str
    published: float
    simulated: float
    status: str
    lower: float = -TOLERANCE
    upper: float = TOLERANCE

    @property
    def deviation(self) -> float:
        """Relative deviation of the model."""
        return self.simulated / self.published - 1

    @property
    def within(self) -> bool:
        """Whether the deviation is allowed."""
        return self.lower <= self.deviation <= self.upper


def refresh_spacing(memory: str, switch: str) -> float:
    """Return the mean number of serial accesses from one that meets a refresh to the next.

    The run of the paper's Figure 4: one beat, S = 64, W = 16 MB, N = 20 000.

    Parameters
    ----------
    memory : {"hbm", "ddr4"}
        The memory.
    switch : {"on", "off"}
        State of the HBM switch.

    Returns
    -------
    float
        Accesses.
    """
    timing = MEMORIES[memory]
    pattern = AccessPattern(timing.beat_bytes, 64, 16 * _MB, _LATENCY_NUM_OPS)
    result = simulate(timing, pattern, mode="latency", switch=switch)
    return float(np.diff(np.flatnonzero(result.latency_cycles > REFRESH_SLOW_CYCLES)).mean())


def idle_latency(memory: str, switch: str) -> dict[str, int]:
    """Return latencies found in traces of one-beat reads, by the state of the bank.

    The first access finds its bank closed, those of a small working set find their row open, and
    those 256 KB apart another row of the same bank.

    Parameters
    ----------
    memory : {"hbm", "ddr4"}
        The memory.
    switch : {"on", "off"}
        State of the HBM switch.

    Returns
    -------
    dict
        AXI cycles of ``hit``, ``closed`` and ``miss``.
    """
    timing = MEMORIES[memory]
    near = AccessPattern(timing.beat_bytes, timing.beat_bytes, 2 * timing.beat_bytes, 10)
    far = AccessPattern(timing.beat_bytes, 128 * _KB, 16 * _MB, 10)
    hits = simulate(timing, near, mode="latency", switch=switch).latency_cycles
    misses = simulate(timing, far, mode="latency", switch=switch).latency_cycles
    return {"hit": int(hits[-1]), "closed": int(hits[0]), "miss": int(misses[-1])}


def _read_gbps(burst_bytes: int, stride_bytes: int, policy: str | None = None) -> float:
    pattern = AccessPattern(burst_bytes, stride_bytes, 256 * _MB, _NUM_OPS)
    return simulate(HBM2, pattern, policy=policy).gbps


def compare() -> list[Comparison]:
    """Return all figures with what the model makes of them."""
    rows = []
    for anchor in THROUGHPUT:
        pattern = AccessPattern(anchor.burst_bytes, anchor.stride_bytes, anchor.working_set_bytes, _NUM_OPS)
        working_set = anchor.working_set_bytes
        size = f"{working_set // _MB} MB" if working_set >= _MB else f"{working_set // _KB} KB"
        rows.append(
            Comparison(
                name=f"{anchor.memory.upper()} read, B = {anchor.burst_bytes}, S = {anchor.stride_bytes}, "
                f"W = {size}",
                unit="GB/s",
                published=anchor.gbps,
                simulated=simulate(MEMORIES[anchor.memory], pattern).gbps,
                status="V",
            )
        )
    for (memory, switch), published in IDLE_LATENCY_CYCLES.items():
        simulated = idle_latency(memory, switch)
        where = f"{memory.upper()}, switch {switch}" if memory == "hbm" else memory.upper()
        rows += [
            Comparison(
                name=f"{where}: idle latency, page {state}",
                unit="cycles",
                published=published[state],
                simulated=simulated[state],
                status=_latency_status(memory, switch, state),
            )
            for state in published
        ]
    rows += [
        Comparison(
            name=f"{memory.upper()}{', switch off' if memory == 'hbm' else ''}: accesses between refreshes",
            unit="accesses",
            published=published_spacing,
            simulated=refresh_spacing(memory, "off"),
            status="D",
        )
        for memory, published_spacing in REFRESH_SPACING_ACCESSES.items()
    ]
    rows.append(
        Comparison(
            name="HBM, B = 32, S = 1024: default policy over BRC (almost 10)",
            unit="times",
            published=POLICY_RATIO,
            simulated=_read_gbps(32, 1024) / _read_gbps(32, 1024, "BRC"),
            status="V",
            lower=-RATIO_TOLERANCE,
            upper=RATIO_TOLERANCE,
        )
    )
    for burst_bytes, gbps in RANDOM_GBPS.items():
        pattern = AccessPattern(burst_bytes, burst_bytes, 256 * _MB, _NUM_OPS, kind="random")
        rows.append(
            Comparison(
                name=f"HBM random read, B = {burst_bytes} (at least {RANDOM_LEAST_FRACTION:g} times)",
                unit="GB/s",
                published=gbps,
                simulated=simulate(HBM2, pattern).gbps,
                status="V",
                lower=RANDOM_LEAST_FRACTION - 1,
                upper=HBM2.peak_gbps / gbps - 1,
            )
        )
    return rows


def _latency_status(memory: str, switch: str, state: str) -> str:
    if state == "hit":
        return "R" if (memory, switch) == ("hbm", "off") else "V"
    return "D" if (memory, switch) == ("hbm", "on") else "R"
