"""Speed of the DRAM model: a million accesses, and how that compares with going beat by beat.

Run ``python benchmarks/dram_model.py``. Ratios within one run say more than seconds.
"""

from __future__ import annotations

import time

from accelperf.simulate import dram
from accelperf.simulate.dram import AccessPattern, simulate
from accelperf.simulate.dram_tables import anchor_table
from accelperf.simulate.dram_timing import DDR4_2400, HBM2, MemoryTiming, command_cycles

ACCESSES = 1_000_000
BUDGET_S = 5.0
MB = 1 << 20

PATTERNS: tuple[tuple[str, MemoryTiming, AccessPattern, str | None, str], ...] = (
    ("HBM sequential, B = 32", HBM2, AccessPattern(32, 32, 256 * MB, ACCESSES), None, "throughput"),
    ("HBM sequential, B = 64", HBM2, AccessPattern(64, 64, 256 * MB, ACCESSES), None, "throughput"),
    ("HBM sequential, B = 512", HBM2, AccessPattern(512, 512, 256 * MB, ACCESSES), None, "throughput"),
    ("HBM B = 32, S = 4 KB", HBM2, AccessPattern(32, 4096, 256 * MB, ACCESSES), None, "throughput"),
    ("HBM B = 32, S = 1 KB, BRC", HBM2, AccessPattern(32, 1024, 256 * MB, ACCESSES), "BRC", "throughput"),
    (
        "HBM random, B = 64",
        HBM2,
        AccessPattern(64, 64, 256 * MB, ACCESSES, kind="random"),
        None,
        "throughput",
    ),
    ("HBM latency, B = 32", HBM2, AccessPattern(32, 64, 16 * MB, ACCESSES), None, "latency"),
    ("DDR4 sequential, B = 64", DDR4_2400, AccessPattern(64, 64, 256 * MB, ACCESSES), None, "throughput"),
)


def beat_by_beat(timing: MemoryTiming, pattern: AccessPattern) -> float:
    """Return the seconds of the plain loop over beats that the tests compare the model with."""
    mapping = dram.address_mapping(timing.name)
    cycles = command_cycles(timing)
    channel = dram._Channel(timing, cycles)
    finished: list[int] = []
    start = time.perf_counter()
    for block in dram._beats(mapping, timing, pattern.addresses(), pattern.burst_bytes):
        for bank, row in zip(block.bank.tolist(), block.row.tolist(), strict=True):
            entered = finished[-timing.window_beats] if len(finished) >= timing.window_beats else 0
            finished.append(channel.column(entered, bank, row) + cycles.column_to_data)
    return time.perf_counter() - start


def main() -> None:
    """Print seconds of a million accesses, and the comparison with the published figures."""
    print(f"{'a million accesses':32s} {'seconds':>8s}  (budget {BUDGET_S:g} s)")
    seconds = {}
    for name, timing, pattern, policy, mode in PATTERNS:
        start = time.perf_counter()
        simulate(timing, pattern, policy=policy, mode=mode)  # type: ignore[arg-type]
        seconds[name] = time.perf_counter() - start
        print(f"{name:32s} {seconds[name]:8.2f}")
    name, timing, pattern, *_ = PATTERNS[1]
    print(f"\nbeat by beat, {name}: {beat_by_beat(timing, pattern) / seconds[name]:.0f} times as long\n")
    print(anchor_table(), end="")


if __name__ == "__main__":
    main()
