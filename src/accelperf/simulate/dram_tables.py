"""The tables of `docs/dram_model.md`, made from the model itself.

``python -m accelperf.simulate.dram_tables docs/dram_model.md`` puts them into the page, between the
marks ``<!-- table NAME -->`` and ``<!-- end -->``; without a file it prints them.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from accelperf.simulate.address_mapping import POLICIES
from accelperf.simulate.anchor_comparison import Comparison, compare
from accelperf.simulate.dram import AccessPattern, simulate
from accelperf.simulate.dram_timing import DDR4_2400, HBM2, MEMORIES, TIMING_SOURCES

_MB = 1 << 20
_CURVE_NUM_OPS = 20_000
_CURVE_STRIDES = tuple(64 << step for step in range(9))


def _table(header: Sequence[str], rows: Sequence[Sequence[str]], *, numbers_from: int) -> str:
    rule = ["---" if index < numbers_from else "---:" for index in range(len(header))]
    lines = [header, rule, *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def anchor_table(comparisons: Sequence[Comparison] | None = None) -> str:
    """Return the model beside the published figures as Markdown."""
    rows = []
    for row in compare() if comparisons is None else comparisons:
        allowed = f"±{row.upper:.0%}" if row.lower == -row.upper else f"not below {row.lower:.0%}"
        rows.append(
            [
                row.name,
                row.unit,
                row.status,
                f"{row.published:g}",
                f"{row.simulated:.4g}",
                f"{row.deviation:+.1%}",
                allowed,
            ]
        )
    header = ["figure", "unit", "status", "published", "model", "deviation", "allowed"]
    return _table(header, rows, numbers_from=3)


def timing_table() -> str:
    """Return the timing of both memories with its sources as Markdown."""
    rows = []
    for name, (status, source) in TIMING_SOURCES.items():
        values = [getattr(memory, name) for memory in (HBM2, DDR4_2400)]
        texts = [
            ", ".join(f"{state} {cycles}" for state, cycles in value.items())
            if isinstance(value, Mapping)
            else f"{value:g}"
            for value in values
        ]
        rows.append([f"`{name}`", *texts, status, source])
    return _table(["field", "HBM2", "DDR4-2400", "status", "source"], rows, numbers_from=5)


def policy_table() -> str:
    """Return throughput by stride and address mapping policy, one beat an access, as Markdown."""
    rows = []
    for policy in POLICIES:
        timing = MEMORIES[policy.memory]
        cells = []
        for stride in _CURVE_STRIDES:
            pattern = AccessPattern(timing.beat_bytes, stride, 256 * _MB, _CURVE_NUM_OPS)
            result = simulate(timing, pattern, policy=policy.name)
            cells.append(f"**{result.gbps:.2f}**" if result.validated else f"{result.gbps:.2f}")
        name = f"{policy.name} (default)" if policy.default else policy.name
        rows.append([policy.memory.upper(), name, f"`{policy.pattern}`", *cells])
    header = ["memory", "policy", "address bits", *(f"S = {stride}" for stride in _CURVE_STRIDES)]
    return _table(header, rows, numbers_from=3)


TABLES: Mapping[str, Callable[[], str]] = {
    "anchors": anchor_table,
    "timing": timing_table,
    "policies": policy_table,
}
"""Tables of the page by name."""

_MARKS = re.compile(r"(<!-- table (\w+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def fill_in(page: str) -> str:
    """Return a Markdown page with every marked table made anew.

    Parameters
    ----------
    page : str
        Markdown with marks ``<!-- table NAME -->`` and ``<!-- end -->``.

    Returns
    -------
    str
        The page.
    """
    return _MARKS.sub(lambda match: f"{match[1]}\n{TABLES[match[2]]()}\n{match[4]}", page)


def main() -> None:
    """Put the tables into the page named on the command line, or print them."""
    if len(sys.argv) > 1:
        path = Path(sys.argv[1])
        path.write_text(fill_in(path.read_text(encoding="utf-8")), encoding="utf-8")
    else:
        print("\n".join(table() for table in TABLES.values()), end="")


if __name__ == "__main__":
    main()
