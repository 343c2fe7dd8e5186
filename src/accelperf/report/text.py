"""Markdown tables and numbers as the report shows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

SIMULATED_NOTE = "**SIMULATED data.** Latencies come from a simulator, not from hardware."


def markdown_table(rows: Sequence[Sequence[str]], header: Sequence[str]) -> str:
    """Return a Markdown table whose columns also line up as plain text."""
    widths = [max(len(row[column]) for row in [header, *rows]) for column in range(len(header))]

    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)) + " |"

    ruler = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([line(header), ruler, *map(line, rows)]) + "\n"


def percent(value: Any) -> str:
    """Return a fraction as per cent; a dash where there is none."""
    return "–" if value is None or pd.isna(value) else f"{100 * float(value):.1f} %"


def milliseconds(value: Any) -> str:
    """Return a time [ms] with four decimals; a dash where there is none."""
    return "–" if value is None or pd.isna(value) else f"{float(value):.4f}"
