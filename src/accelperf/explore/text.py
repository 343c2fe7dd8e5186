"""An exploration as text for people, as CSV and as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from accelperf.explore.axes import AXIS_KINDS
from accelperf.explore.exploration import Exploration, learned_from

UNKNOWN = "–"
"""What stands where the estimator does not say."""
OUTSIDE = "outside:"
BITS_PER_MBIT = 1e6


def headline(found: Exploration, *, shown: int | None = None) -> str:
    """Return what was explored, with what, on whose data."""
    networks = " + ".join(found.workload.networks)
    count = len(found.table)
    which = "1 design" if count == 1 else f"{count} designs"
    if shown is not None and shown < count:
        which = f"the best {shown} of {which}"
    return f"{networks} on {which} of {found.designs.base.name}, estimator {estimator_text(found)}"


def estimator_text(found: Exploration) -> str:
    """Return the estimator's name and what it was trained on; what was simulated says so."""
    model = found.model
    if model.training is None:
        return f"{model.estimator} (untrained)"
    return f"{model.estimator} (trained on {model.origin} data)"


def designs_text(found: Exploration, top: int) -> str:
    """Return the best designs as an aligned table under a headline.

    Parameters
    ----------
    found : Exploration
        What was found.
    top : int
        How many; 0 for all.
    """
    table = _top(found.table, top)
    bound = found.constraints.max_latency_ms
    header = ["rank", "front", *(axis.name for axis in found.designs.axes), "latency"]
    if found.has_uncertainty:
        header.append("95 % interval")
        if bound is not None:
            header.append(f"P(≤ {bound:g} ms)")
    several = len(found.workload.networks) > 1
    header += list(found.workload.networks) if several else []
    header += ["DSP slices", "buffers", "training range"]
    rows = [header]
    for row in table.to_dict("records"):
        cells = [str(row["rank"]), str(row["front"])]
        cells += [_value(row[axis.name]) for axis in found.designs.axes]
        cells.append(_ms(row["latency_ms"]))
        if found.has_uncertainty:
            cells.append(f"{row['lower_ms']:.4g} to {_ms(row['upper_ms'])}")
            if bound is not None:
                cells.append(f"{row['probability']:.3f}")
        cells += [_ms(row[f"{name}_ms"]) for name in found.workload.networks] if several else []
        cells += [str(row["dsp"]), f"{row['bram_bits'] / BITS_PER_MBIT:.2f} Mbit"]
        cells.append(_outside(row["outside"], found))
        rows.append(cells)
    return headline(found, shown=len(table)) + "\n" + aligned(rows)


def measurements_text(found: Exploration) -> str:
    """Return the measurements to take as an aligned table."""
    measurements = found.measurements
    if measurements is None:
        return ""
    if measurements.empty:
        return "measurements to take next: none has anything left to tell\n"
    header = ["pick", "design", "network", "layer", "times", "predicted", "unsure by", "after earlier picks"]
    rows = [header]
    for row in measurements.to_dict("records"):
        rows.append(
            [
                str(row["pick"]),
                str(row["accelerator"]),
                str(row["network"]),
                str(row["layer"]),
                str(row["times"]),
                _ms(row["predicted_ms"]),
                _ms(row["std_ms"]),
                _ms(row["std_left_ms"]),
            ]
        )
    title = f"measurements to take next, estimator {estimator_text(found)} (standard deviations)"
    return f"{title}\n{aligned(rows)}"


def notes(found: Exploration) -> list[str]:
    """Return what a reader must know beside the table, a line each."""
    model = found.model
    lines = (
        [f"estimator: {', '.join(part for part in (model.where, model.why) if part)}"] if model.why else []
    )
    valid, invalid = len(found.designs), sum(found.designs.invalid.values())
    if invalid:
        lines.append(f"{valid + invalid} combinations, {invalid} no valid platform:")
        lines += [f"  {count} with {reason}" for reason, count in found.designs.invalid.items()]
    if found.left_out:
        lines.append(f"{valid} designs, {sum(found.left_out.values())} left out:")
        lines += [f"  {count} {reason}" for reason, count in found.left_out.items()]
    for name, layers in found.workload.unsupported.items():
        if layers:
            more = f", and {len(layers) - 1} more" if len(layers) > 1 else ""
            lines.append(f"{name}: not in the total: {layers[0].layer} ({layers[0].reason}){more}")
    if found.outside_layers:
        lines.append(f"layers outside of the training data's range in {', '.join(found.outside_layers)}")
    marked = int((found.table["outside"] != "").sum())
    if marked:
        lines.append(
            f"{marked} of {len(found.table)} designs are outside of the training data's range: "
            "their intervals and probabilities may not hold"
        )
    return lines


def designs_csv(found: Exploration, top: int) -> str:
    """Return the best designs as CSV, with estimator and origins of its data in each row."""
    table = _top(found.table, top).assign(estimator=found.model.estimator, trained_on=found.model.origin)
    if found.constraints.max_latency_ms is None:
        table = table.drop(columns="probability")
    return str(table.to_csv(index=False, lineterminator="\n"))


def measurements_csv(found: Exploration) -> str:
    """Return the measurements to take as CSV: a network table and a platform in each row."""
    table = pd.DataFrame() if found.measurements is None else found.measurements
    return str(table.to_csv(index=False, lineterminator="\n"))


def exploration_json(found: Exploration, top: int) -> str:
    """Return everything as JSON; what is not known is null."""
    content = {
        "networks": {
            name: {
                "layers": int(found.workload.counts[number].sum()),
                "distinct_layers": int((found.workload.counts[number] > 0).sum()),
                "unsupported": {each.layer: each.reason for each in found.workload.unsupported[name]},
            }
            for number, name in enumerate(found.workload.networks)
        },
        "platform": found.designs.base.name,
        "axes": {axis.name: list(axis.values) for axis in found.designs.axes},
        "estimator": found.model.estimator,
        "model": found.model.where or None,
        "chosen_because": found.model.why or None,
        "trained_on": [] if found.model.training is None else list(found.model.training.origins),
        "simulated": found.model.simulated,
        "resource": found.resource,
        "constraints": {
            name: getattr(found.constraints, name)
            for name in ("max_dsp", "max_bram_bits", "max_latency_ms", "min_probability", "inside")
        },
        "valid_designs": len(found.designs),
        "invalid_combinations": dict(found.designs.invalid),
        "left_out": dict(found.left_out),
        "outside_layers": list(found.outside_layers),
        "designs": _records(_top(found.table, top)),
        "measurements": None if found.measurements is None else _records(found.measurements),
    }
    return json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Return rows of cells as lines of columns, numbers to the right.

    Examples
    --------
    >>> print(aligned([["name", "ms"], ["a", "1.5"], ["b", "10"]]), end="")
    name   ms
    a     1.5
    b      10
    """
    columns = list(zip(*rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    right = [all(cell[:1].isdigit() for cell in column[1:]) for column in columns]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if side else cell.ljust(width)
            for cell, width, side in zip(row, widths, right, strict=True)
        ]
        lines.append("  ".join(cells).rstrip() + "\n")
    return "".join(lines)


def _top(table: pd.DataFrame, top: int) -> pd.DataFrame:
    return table if top == 0 else table.head(top)


def _value(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _ms(value: float) -> str:
    return f"{value:.4g} ms"


def _outside(names: str, found: Exploration) -> str:
    if names:
        return f"{OUTSIDE} {', '.join(AXIS_KINDS[name].symbol for name in names.split())}"
    return "inside" if learned_from(found.model) else UNKNOWN


def _records(table: pd.DataFrame) -> list[Mapping[str, Any]]:
    records: list[Mapping[str, Any]] = json.loads(table.to_json(orient="records", double_precision=15))
    return records
