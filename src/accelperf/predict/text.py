"""Predictions as text for people, and as tables and JSON for programs."""

from __future__ import annotations

import csv
import io
import json
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from accelperf.predict.network import NetworkPrediction
from accelperf.predict.totals import NO_INTERVAL
from accelperf.predict.training_range import Outside

COLUMNS: tuple[str, ...] = (
    "row",
    "network",
    "platform",
    "layer",
    "position",
    "operator",
    "latency_ms",
    "std_ms",
    "lower_ms",
    "upper_ms",
    "share",
    "binding",
    "frames_per_second",
    "outside_training_range",
    "note",
    "estimator",
    "trained_on",
)
"""Columns of the tab-separated output and of ``--csv``: rows are layers, unsupported layers and totals
(``row`` says which)."""
PARTIAL = "PARTIAL"
_MOST_NOTES = 12
"""Distinct values outside of the training range that the text lists."""
_MOST_NAMES = 6


def delimited(predictions: Sequence[NetworkPrediction], separator: str) -> str:
    """Return all rows with `COLUMNS`: commas make it CSV, tabs what a pipe gets."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, COLUMNS, delimiter=separator, lineterminator="\n", restval="")
    writer.writeheader()
    for prediction in predictions:
        for row in _rows(prediction):
            writer.writerow({name: _cell(value) for name, value in row.items()})
    return stream.getvalue()


def _cell(value: object) -> object:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return repr(value) if isinstance(value, float) else value


def _rows(prediction: NetworkPrediction) -> list[dict[str, Any]]:
    model, total = prediction.model, prediction.total
    named = {
        "network": prediction.network,
        "platform": prediction.platform,
        "estimator": model.estimator,
        "trained_on": model.origin,
    }
    rows: list[dict[str, Any]] = [
        {**named, "row": "layer", **_plain(layer), "outside_training_range": "; ".join(map(str, outside))}
        for layer, outside in zip(prediction.layers.to_dict("records"), prediction.outside, strict=True)
    ]
    rows += [
        {
            **named,
            "row": "unsupported",
            "layer": each.layer,
            "position": each.position,
            "operator": each.operator,
            "note": each.reason,
        }
        for each in prediction.unsupported
    ]
    note = [f"{PARTIAL}: without {len(prediction.unsupported)} layers"] if prediction.partial else []
    rows.append(
        {
            **named,
            "row": "total",
            "operator": total.schedule,
            "latency_ms": total.median_ms,
            "std_ms": total.std_ms,
            "lower_ms": total.lower_ms,
            "upper_ms": total.upper_ms,
            "frames_per_second": total.frames_per_second,
            "note": "; ".join([*note, f"interval: {total.interval}"]),
        }
    )
    if total.batch > 1:
        rows.append(
            {
                **named,
                "row": "batch",
                "operator": total.schedule,
                "latency_ms": total.batch_ms,
                "lower_ms": total.batch_lower_ms,
                "upper_ms": total.batch_upper_ms,
                "note": "; ".join([*note, f"{total.batch} images"]),
            }
        )
    return rows


def _plain(layer: dict[Any, Any]) -> dict[str, Any]:
    return {str(name): value for name, value in layer.items()}


def json_text(predictions: Sequence[NetworkPrediction]) -> str:
    """Return the predictions as JSON."""
    content = {
        "simulated": any(prediction.model.simulated for prediction in predictions),
        "predictions": [_as_json(prediction) for prediction in predictions],
    }
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _as_json(prediction: NetworkPrediction) -> dict[str, Any]:
    model, total = prediction.model, prediction.total
    training = None
    if model.training is not None:
        training = {
            "origins": list(model.training.origins),
            "rows": model.training.rows,
            "accelerators": list(model.training.accelerators),
            "networks": list(model.training.networks),
            "features_md5": model.training.features_md5,
        }
    layers = [
        {
            **{name: _number(value) for name, value in _plain(layer).items()},
            "outside_training_range": [_outside(each) for each in outside],
        }
        for layer, outside in zip(prediction.layers.to_dict("records"), prediction.outside, strict=True)
    ]
    return {
        "network": prediction.network,
        "platform": prediction.platform,
        "estimator": model.estimator,
        "model": model.where or None,
        "chosen_because": model.why or None,
        "trained_on": training,
        "simulated": model.simulated,
        "schedule": total.schedule,
        "binding_from": prediction.binding_source,
        "layers": layers,
        "unsupported": [
            {"layer": each.layer, "position": each.position, "operator": each.operator, "reason": each.reason}
            for each in prediction.unsupported
        ],
        "total": {
            "partial": prediction.partial,
            "layers": len(layers),
            "latency_ms": total.median_ms,
            "std_ms": total.std_ms,
            "lower_ms": total.lower_ms,
            "upper_ms": total.upper_ms,
            "interval": total.interval,
            "frames_per_second": total.frames_per_second,
            "frames_per_second_lower": total.frames_per_second_lower,
            "frames_per_second_upper": total.frames_per_second_upper,
            "batch": total.batch,
            "batch_ms": total.batch_ms,
            "batch_lower_ms": total.batch_lower_ms,
            "batch_upper_ms": total.batch_upper_ms,
        },
    }


def _number(value: object) -> object:
    return None if isinstance(value, float) and math.isnan(value) else value


def _outside(found: Outside) -> dict[str, Any]:
    return {"parameter": found.parameter, "value": found.value, "trained_on": list(found.trained)}


def heading(prediction: NetworkPrediction) -> str:
    """Return a line on what predicts, what it learned from, and why it was chosen."""
    model = prediction.model
    parts = [f"{prediction.network} on {prediction.platform}: {model.estimator}"]
    if model.training is None:
        parts.append("which learned nothing")
    else:
        training = model.training
        text = f"trained on {training.rows} {model.origin} layers"
        for word, names in (("of", training.networks), ("on", training.accelerators)):
            if names:
                more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
                text += f" {word} {', '.join(names[:_MOST_NAMES])}{more}"
        parts.append(text)
    return ", ".join(parts) + (f" ({model.why})" if model.why else "")


def total_lines(prediction: NetworkPrediction) -> list[str]:
    """Return the lines on the total, the layers it lacks and the values outside of the training range."""
    total = prediction.total
    count = len(prediction.layers)
    how = "one after another" if total.schedule == "sequential" else "as a pipeline, paced by the slowest"
    label = f"{PARTIAL} total" if prediction.partial else "total"
    if prediction.model.simulated:
        label = f"SIMULATED {label}"
    line = f"{label} of {count} layers {how}: {_interval(total.median_ms, total.lower_ms, total.upper_ms)} ms"
    if total.frames_per_second is not None:
        rates = total.frames_per_second, total.frames_per_second_lower, total.frames_per_second_upper
        line += f", {_interval(*rates)} frames/s"
    lines = [line]
    if total.batch > 1:
        lines.append(
            f"batch of {total.batch} images: "
            f"{_interval(total.batch_ms, total.batch_lower_ms, total.batch_upper_ms)} ms"
        )
    if total.interval == NO_INTERVAL:
        lines.append(f"no 95 % intervals: {prediction.model.estimator} gives none")
    else:
        lines.append(f"in brackets: 95 % interval ({total.interval})")
    lines += [
        f"unsupported: {each.layer} ({each.reason}), not in the total" for each in prediction.unsupported
    ]
    return lines + _outside_lines(prediction)


def _interval(median: float, lower: float | None, upper: float | None) -> str:
    if lower is None and upper is None:
        return f"{median:.4g}"
    low, high = ("?" if bound is None else f"{bound:.4g}" for bound in (lower, upper))
    return f"{median:.4g} ({low} to {high})"


def _shared(prediction: NetworkPrediction) -> set[str]:
    """Return the values outside of the training range that all layers have, as those of the platform."""
    every = [set(map(str, outside)) for outside in prediction.outside]
    return set.intersection(*every) if every else set()


def _outside_lines(prediction: NetworkPrediction) -> list[str]:
    """Return a line for each distinct value outside of the training range, the most frequent first."""
    counts = Counter(str(each) for outside in prediction.outside for each in outside)
    if not counts:
        return []
    layers = sum(bool(outside) for outside in prediction.outside)
    lines = [f"outside of the training range: {layers} of {len(prediction.outside)} layers"]
    shared = _shared(prediction)
    lines += [
        f"  {text}: {'all' if text in shared else count} layer{'s' if text in shared or count > 1 else ''}"
        for text, count in counts.most_common(_MOST_NOTES)
    ]
    if len(counts) > _MOST_NOTES:
        lines.append(f"  and {len(counts) - _MOST_NOTES} more values (all of them with --json)")
    return lines


def table_text(prediction: NetworkPrediction) -> str:
    """Return the layers as an aligned table, with the lines above and below it.

    What lies outside of the training range for all layers stands below the table alone.
    """
    shared = _shared(prediction)
    head = ["layer", "operator", "ms", "95 % interval", "share", "bound by", "outside training, notes"]
    rows = [head]
    for layer, outside in zip(prediction.layers.to_dict("records"), prediction.outside, strict=True):
        interval = "-"
        if not math.isnan(layer["lower_ms"]):
            interval = f"{layer['lower_ms']:.4g} to {layer['upper_ms']:.4g}"
        share = "-" if math.isnan(layer["share"]) else f"{100 * layer['share']:.1f} %"
        marks = [", ".join(each.parameter for each in outside if str(each) not in shared), layer["note"]]
        rows.append(
            [
                str(layer["layer"]),
                str(layer["operator"]),
                f"{layer['latency_ms']:.4g}",
                interval,
                share,
                str(layer["binding"]),
                "; ".join(mark for mark in marks if mark) or "-",
            ]
        )
    if all(row[-1] == "-" for row in rows[1:]):
        rows = [row[:-1] for row in rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    right = {2, 4}
    lines = [
        "  ".join(
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    return "\n".join([heading(prediction), "", *lines, "", *total_lines(prediction)]) + "\n"
