r"""Reader of ONNX Runtime profiles: the JSON trace that a session with profiling on writes.

A list of events, of which those of the category ``Node`` whose name ends in ``_kernel_time`` are the
runs of one operator; ``dur`` is its time in whole microseconds::

    [
    {"cat" : "Node","pid" :1,"tid" :1,"dur" :178,"ts" :4990,"ph" : "X","name" :"conv1_kernel_time",
     "args" : {"op_name" : "Conv","node_index" : "0","input_type_shape" : [{"float":[1,3,32,32]}, …], …}},
    {"cat" : "Session","pid" :1,"tid" :1,"dur" :316,"ts" :4974,"ph" : "X","name" :"model_run","args" : {}},
    …

* Every ``model_run`` of the session is a run. The first one warms up (memory, caches) and is left out;
  so is one that the file does not hold to its end. A layer's latency is the *median* of the others,
  since a busy machine makes single runs several times slower; its spread is the deviation that the
  median absolute deviation has for normal noise (factor 1.4826), and at least that of rounding to
  whole microseconds (:math:`1/\sqrt{12}`). A profile of one run is refused.
* A session that ends early leaves no closing bracket, and some releases a comma too many.
* A node without a name is called ``Conv_4`` by newer releases, after its operator and its number; older
  ones leave the name empty, and here it gets the same one.
* Optimised graphs have other nodes: what was fused runs under the name of its convolution up to the
  level ``ORT_ENABLE_EXTENDED``; ``ORT_ENABLE_ALL`` renames convolutions for the CPU's blocked layout
  (``…_nchwc``, after their output), and ``layers`` of ``run.yaml`` must translate them.
* Events hold the shapes of inputs and outputs but neither stride nor padding: ``geometry`` of
  ``run.yaml`` names the ONNX model (or a network table), and layers are joined by the name of the
  node. The shapes are compared with it: a profile of another input size is refused. So is one of more
  than one image at once, since the layer table is about one.
* The time of a whole run becomes a stated total.

Sources: ``Profiler::EndProfiling`` in ``onnxruntime/core/common/profiler.cc``, ``KernelScope`` in
``onnxruntime/core/framework/sequential_executor.cc`` of microsoft/onnxruntime, and profiles of
release 1.32. For the factor: Rousseeuw and Croux, *Alternatives to the median absolute deviation*,
JASA 88, 1993.
"""

from __future__ import annotations

import bisect
import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from accelperf.errors import InputError
from accelperf.layers import CONVOLUTION
from accelperf.logs.base import LogTable, StatedTotal
from accelperf.logs.json_text import read_elements, shown
from accelperf.logs.profile import Profile, join_profiles, timing_row, timing_table
from accelperf.logs.run import RunFile
from accelperf.units import MS_PER_US

name = "onnx_runtime"

CONVOLUTIONS = frozenset({"Conv", "FusedConv", "NhwcFusedConv", "QLinearConv", "ConvInteger"})
"""Operators of convolutions, as the graph has them and as the optimiser makes them."""

CONTROL_FLOW = frozenset({"If", "Loop", "Scan"})
"""Operators whose time holds that of other nodes."""

NORMAL_DEVIATION = 1.4826
"""Standard deviation of normal noise in median absolute deviations."""

ROUNDING_US = 12**-0.5
"""Standard deviation of rounding to whole microseconds."""

_KERNEL = "_kernel_time"
_RUN = "model_run"
_CATEGORIES = frozenset({"Session", "Node", "Kernel", "Api"})
_LOOKED_AT = 3

_WARM_UP = "warm-up run"
_UNFINISHED = "outside of a whole run"
_FURTHER = "further run of a layer"
_OTHER = "no kernel time"


@dataclass(frozen=True)
class _Run:
    """One run of the session, from its first to its last microsecond."""

    start: float
    end: float
    line: int


@dataclass
class _Node:
    """One node of the graph and its kernel times."""

    layer: str
    index: str | None
    operator: str
    line: int
    shapes: tuple[Any, Any]
    events: list[tuple[float, float]] = field(default_factory=list)


@dataclass(frozen=True)
class _Trace:
    """What a profile holds."""

    runs: list[_Run]
    nodes: list[_Node]
    rows: int
    other: int


def recognises(path: Path) -> str | None:
    """Return None for a JSON list of trace events with ONNX Runtime's categories."""
    try:
        events = list(itertools.islice(read_elements(path), _LOOKED_AT))
    except InputError as error:
        return str(error)
    if not events:
        return "an empty list"
    for _, event in events:
        if not isinstance(event, dict) or not {"cat", "dur", "ts", "name"} <= event.keys():
            return "no events with cat, dur, ts and name"
        if event["cat"] not in _CATEGORIES:
            return f"events of the category {shown(event['cat'])}"
    return None


def read(files: Sequence[Path], run: RunFile) -> list[LogTable]:
    """Read profiles (see `accelperf.logs.base.Reader`)."""
    logs = []
    for path in files:
        profile, nodes = _profile(path)
        log = join_profiles(path, name, [profile], run)
        renamed = run.content.layers or {}
        by_layer = {renamed.get(node.layer, node.layer): node for node in nodes}
        _check_shapes(log.table, by_layer | {node.layer: node for node in nodes}, path, run)
        logs.append(log)
    return logs


def read_timings(path: Path) -> list[Profile]:
    """Read times and the total of a profile, which needs no description of the network.

    Parameters
    ----------
    path : Path
        The profile.

    Raises
    ------
    InputError
        If it is no profile, holds fewer than two whole runs, or nodes cannot be told apart.
    """
    return [_profile(path)[0]]


def _profile(path: Path) -> tuple[Profile, list[_Node]]:
    """Return a profile and its nodes."""
    trace = _trace(path)
    runs = trace.runs
    if len(runs) < 2:
        raise InputError(
            "two whole runs of the session or more, since the first one warms up",
            str(len(runs)),
            file=path,
            line=runs[-1].line if runs else None,
        )
    starts = [each.start for each in runs]
    skipped: Counter[str] = Counter({_OTHER: trace.other} if trace.other else {})
    rows = []
    by_run: list[float] = [0.0] * len(runs)
    for node in trace.nodes:
        times: list[float] = []
        for start, duration in node.events:
            which = bisect.bisect_right(starts, start) - 1
            if which < 0 or start > runs[which].end:
                skipped[_UNFINISHED] += 1
                continue
            if node.operator not in CONTROL_FLOW:
                by_run[which] += duration
            if which == 0:
                skipped[_WARM_UP] += 1
            else:
                times.append(duration)
        if times:
            skipped[_FURTHER] += len(times) - 1
            rows.append(_timing(node, np.array(times)))
    if not rows:
        raise InputError("kernel times after the first run", "none", file=path, line=runs[-1].line)
    profile = Profile(
        network="",
        configuration="",
        line=runs[0].line,
        timings=timing_table(rows),
        totals=(_total(runs, by_run, len(rows), path),),
        skipped=+skipped,
    )
    return profile, trace.nodes


def _timing(node: _Node, times: np.ndarray[Any, np.dtype[np.float64]]) -> dict[str, Any]:
    median = float(np.median(times))
    spread = float("nan")
    if len(times) > 1:
        deviation = NORMAL_DEVIATION * float(np.median(np.abs(times - median)))
        spread = float(np.hypot(deviation, ROUNDING_US)) * MS_PER_US
    return timing_row(
        node.layer,
        median * MS_PER_US,
        line=node.line,
        operator=CONVOLUTION if node.operator in CONVOLUTIONS else node.operator,
        latency_std_ms=spread,
        repeats=len(times),
    )


def _total(runs: Sequence[_Run], by_run: Sequence[float], rows: int, path: Path) -> StatedTotal:
    """Return the time of the run in the middle, beside the sum of its own kernels."""
    order = sorted(range(1, len(runs)), key=lambda which: runs[which].end - runs[which].start)
    middle = order[len(order) // 2]
    run = runs[middle]
    return StatedTotal(
        stated_ms=(run.end - run.start) * MS_PER_US,
        listed_ms=by_run[middle] * MS_PER_US,
        what=_RUN,
        resolution_ms=MS_PER_US,
        rows=rows,
        file=path.as_posix(),
        line=run.line,
        kind="end_to_end",
    )


def _trace(path: Path) -> _Trace:
    runs: list[_Run] = []
    nodes: dict[tuple[str, str | None], _Node] = {}
    names: dict[str, _Node] = {}
    rows = other = 0
    for line, event in read_elements(path):
        if not isinstance(event, dict) or not isinstance(event.get("cat"), str):
            raise InputError("an event with a category", shown(event), file=path, line=line)
        if event["cat"] == "Session" and event.get("name") == _RUN:
            start, duration = _number(event, "ts", path, line), _number(event, "dur", path, line)
            runs.append(_Run(start, start + duration, line))
        if event["cat"] != "Node":
            continue
        rows += 1
        node_name = event.get("name")
        if not isinstance(node_name, str):
            raise InputError("name: a text", shown(node_name), file=path, line=line)
        if not node_name.endswith(_KERNEL):
            other += 1
            continue
        node = _node(event, node_name.removesuffix(_KERNEL), path, line)
        known = nodes.setdefault((node.layer, node.index), node)
        _check_same(known, node, path, line)
        _check_alone(names.setdefault(node.layer, known), known, path, line)
        times = _number(event, "ts", path, line), _number(event, "dur", path, line)
        known.events.append(times)
    runs.sort(key=lambda each: each.start)
    for before, after in itertools.pairwise(runs):
        if after.start < before.end:
            raise InputError(
                "runs of the session one after the other",
                f"one that begins before that of line {before.line} ends",
                file=path,
                line=after.line,
            )
    return _Trace(runs, list(nodes.values()), rows, other)


def _number(event: Mapping[str, Any], key: str, path: Path, line: int) -> float:
    value = event.get(key)
    if not isinstance(value, int | float) or isinstance(value, bool) or value < 0:
        raise InputError(f"{key}: a number of microseconds, 0 or more", shown(value), file=path, line=line)
    return float(value)


def _node(event: Mapping[str, Any], layer: str, path: Path, line: int) -> _Node:
    arguments = event.get("args")
    if not isinstance(arguments, dict):
        raise InputError("args of a node", shown(arguments), file=path, line=line)
    operator, index = arguments.get("op_name"), arguments.get("node_index")
    if not isinstance(operator, str) or not operator:
        raise InputError("op_name: the operator of a node", shown(operator), file=path, line=line)
    if index is not None:
        index = str(index)
    if not layer.strip():
        if index is None:
            raise InputError("a node with a name or a node_index", "neither", file=path, line=line)
        layer = f"{operator}_{index}"
    shapes = arguments.get("input_type_shape"), arguments.get("output_type_shape")
    return _Node(layer, index, operator, line, shapes)


def _check_same(known: _Node, node: _Node, path: Path, line: int) -> None:
    """Raise if a node has another operator or other shapes than in an earlier run."""
    if node.operator != known.operator:
        raise InputError(
            f"operator {known.operator} for node {known.layer!r} as in line {known.line}",
            shown(node.operator),
            file=path,
            line=line,
        )
    if node.operator in CONVOLUTIONS and node.shapes != known.shapes:
        raise InputError(
            f"shapes {shown(known.shapes)} for node {known.layer!r} as in line {known.line}",
            shown(node.shapes),
            file=path,
            line=line,
        )


def _check_alone(first: _Node, node: _Node, path: Path, line: int) -> None:
    """Raise if two convolutions have one name."""
    if first is not node and CONVOLUTIONS & {first.operator, node.operator}:
        raise InputError(
            "names of nodes that differ",
            f"{node.layer!r} for node {node.index} and, in line {first.line}, for node {first.index}",
            file=path,
            line=line,
        )


def _check_shapes(table: pd.DataFrame, nodes: Mapping[str, _Node], path: Path, run: RunFile) -> None:
    """Raise if the shapes of an event are not those of its description, nodes by name in the latter."""
    for row in table.to_dict("records"):
        node = nodes[str(row["layer"])]
        for side, of_event in zip(("input", "output"), node.shapes, strict=True):
            shape = next(_shapes(of_event), None)
            if shape is None or len(shape) != 4:
                continue
            if shape[0] != 1:
                raise InputError(
                    "a profile of one image at once, as the layer table is about",
                    f"{shape[0]} ({side} of {node.layer!r})",
                    file=path,
                    line=node.line,
                )
            expected = [int(row[f"{side}_{each}"]) for each in ("channels", "height", "width")]
            # Providers that keep channels last print them last.
            if shape[1:] not in (expected, [*expected[1:], expected[0]]):
                described = run.description(str(row["network"]), file=path)
                raise InputError(
                    f"{side} {' x '.join(map(str, expected))} of {node.layer!r} as in {described}",
                    " x ".join(map(str, shape[1:])),
                    file=path,
                    line=node.line,
                )


def _shapes(value: Any) -> Iterator[list[int]]:
    """Yield the shapes of ``[{"float": [1, 3, 32, 32]}, …]``, of what else stands there none."""
    for entry in value if isinstance(value, list) else ():
        for shape in entry.values() if isinstance(entry, dict) else ():
            if isinstance(shape, list) and all(isinstance(size, int) for size in shape):
                yield shape
