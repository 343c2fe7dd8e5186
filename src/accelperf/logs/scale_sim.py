"""Reader of SCALE-Sim reports: ``COMPUTE_REPORT.csv`` and the topology that was simulated.

The report has one row a layer without a name, in the order of the topology::

    LayerID, Total Cycles, Stall Cycles, Overall Util %, Mapping Efficiency %, Compute Util %,
    0, 112283, 0, 91.6, 94.5, 90.7,

Version 3 inserts a column ``Total Cycles (incl. prefetch)`` before ``Total Cycles``; columns are
found by name. ``Total Cycles`` counts computing and stalls, without the filling of the buffers
before the first cycle, in both versions; cycles are those of the platform's logic clock.

The topology is a CSV file of its own, which is looked for beside the report, and names the network
unless ``run.yaml`` does::

    Layer name, IFMAP Height, IFMAP Width, Filter Height, Filter Width, Channels, Num Filter, Strides,
    conv1, 224, 224, 7, 7, 3, 64, 2,

without it, ``geometry`` of ``run.yaml`` describes the network and layers are joined in order. In a
topology

* one stride serves both axes, unless a ninth number follows, which is the stride along the width
  (version 2); a ninth field ``N:M`` is a sparsity (version 3), and a sparse layer is left out;
* a layer with ``DP`` in its name is a depthwise convolution, which the simulator runs channel by
  channel: the report has a row for each, and here their cycles are added up;
* sizes are those of the padded input, and what remains of it after the last whole stride makes one
  more output: the simulator rounds up (``ceil((ifmap - filter + stride) / stride)``), which is a
  padding at the end here;
* a header ``Layer, M, N, K`` makes all layers matrix products, which are left out.

The other reports of a run (bandwidth, accesses, sparsity, time) are recognised and hold no
latencies. All is simulated, and ``run.yaml`` must say so.

Source of the layout: ``generate_reports`` in ``scalesim/simulator.py``, ``get_compute_report_items``
in ``scalesim/single_layer_sim.py`` and ``scalesim/topology_utils.py`` of the public repositories
scalesim-project/scale-sim-v2 and scalesim-project/SCALE-Sim (version 3).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

from accelperf.errors import InputError, known
from accelperf.layers import ReadReport, empty_layers, file_md5
from accelperf.logs.base import (
    Finding,
    LogTable,
    complete_geometry,
    layer_row,
    layer_table,
    rejected_latency,
    require_origin,
    skipped_operator,
)
from accelperf.logs.geometry import TIMING_COLUMNS, join_geometry
from accelperf.logs.json_text import shown
from accelperf.logs.latency import to_ms
from accelperf.logs.run import RunFile
from accelperf.logs.text import opened, read_lines
from accelperf.platforms import Platform

name = "scale_sim"

TOTAL = "total cycles"
PREFETCH = "total cycles (incl. prefetch)"
"""The column of the report that holds the latency, in small letters as all names here."""

_LAYER_ID = "layerid"
_OTHER_REPORTS = ("avg ifmap sram bw", "sram ifmap start cycle", "sparsity representation", "time (us)")

_TOPOLOGY = (
    "ifmap height",
    "ifmap width",
    "filter height",
    "filter width",
    "channels",
    "num filter",
)
"""Columns of a topology after the name; the stride follows."""

_MATRIX_PRODUCT = ("m", "n", "k")
_DEPTHWISE = "DP"

_LONGEST_HEADER = 10_000
_LARGEST_SIZE = 1_000_000
_WHOLE = re.compile(r"\d+(?:\.0*)?", re.ASCII)
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?", re.ASCII)
_SPARSITY = re.compile(r"(\d+)\s*:\s*(\d+)", re.ASCII)

_NO_LATENCY = "report without latencies"
_SUMMED = "depthwise channel added up"

_Kind = Literal["report", "topology", "products", "other"]


@dataclass(frozen=True)
class _Layer:
    """A layer of the topology and how many rows of the report are about it.

    The geometry is None where the layer is left out, for the reason given.
    """

    layer: str
    line: int
    rows: int
    geometry: dict[str, int] | None
    reason: str = ""


@dataclass(frozen=True)
class _Cycles:
    """A row of the report."""

    text: str
    value: float
    line: int


def recognises(path: Path) -> str | None:
    """Return None for a table whose header is that of a report or of a topology of SCALE-Sim."""
    try:
        with opened(path) as stream:
            names = _names(stream.readline(_LONGEST_HEADER))
    except InputError as error:
        return str(error)
    if _kind(names) is None:
        return "neither the columns LayerID and Total Cycles nor those of a topology"
    return None


def read(files: Sequence[Path], run: RunFile) -> list[LogTable]:
    """Read the reports of one folder and their topology (see `accelperf.logs.base.Reader`)."""
    require_origin(run, ("simulated",), "SCALE-Sim is a simulator")
    kinds = {path: _kind_of(path) for path in files}
    reports = [path for path in files if kinds[path] == "report"]
    if not reports:
        raise InputError("a COMPUTE_REPORT.csv of SCALE-Sim", "none", file=files[0])
    topologies = [path for path in files if kinds[path] in ("topology", "products")]
    topology = _topology(topologies, reports[0].parent, run)
    platform = run.platform("", file=reports[0])
    logs = [_account(path, 0, 0, Counter()) for path in topologies]
    logs += [_no_latencies(path) for path in files if kinds[path] == "other"]
    if topology is None:
        return [*logs, *(_by_order(path, platform, run) for path in reports)]
    network = run.content.network or topology.stem
    layers = _read_topology(topology)
    logs += [_by_topology(path, layers, topology, network, platform, run) for path in reports]
    return logs


def _kind(names: Sequence[str]) -> _Kind | None:
    if names[0] == _LAYER_ID:
        if TOTAL in names:
            return "report"
        return "other" if any(each in names for each in _OTHER_REPORTS) else None
    if tuple(names[1:7]) == _TOPOLOGY:
        return "topology"
    if tuple(names[1:4]) == _MATRIX_PRODUCT and names[0].startswith("layer"):
        return "products"
    return None


def _kind_of(path: Path) -> _Kind:
    with opened(path) as stream:
        names = _names(stream.readline(_LONGEST_HEADER))
    kind = _kind(names)
    if kind is None:
        raise InputError(
            "the columns LayerID and Total Cycles, or those of a topology",
            shown(", ".join(names)) or "none",
            file=path,
            line=1,
        )
    return kind


def _names(line: str) -> tuple[str, ...]:
    return tuple(" ".join(field.lower().split()) for field in _fields(line))


def _fields(line: str) -> list[str]:
    """Return the fields of a line; the simulator writes a comma after the last one."""
    fields = [field.strip() for field in line.split(",")]
    return fields[:-1] if len(fields) > 1 and not fields[-1] else fields


def _records(path: Path) -> tuple[tuple[str, ...], list[tuple[int, list[str]]]]:
    """Return the column names and the records of a table, each with its line."""
    lines = read_lines(path)
    records = [(number, _fields(line)) for number, line in enumerate(lines[1:], start=2) if line.strip()]
    if not records:
        raise InputError("at least one layer", "none", file=path)
    return _names(lines[0]), records


def _topology(given: Sequence[Path], folder: Path, run: RunFile) -> Path | None:
    """Return the topology beside the reports, None where ``run.yaml`` describes the network."""
    found = list(given)
    if not found:
        # One report may be read alone; its topology then lies beside it.
        beside = [path for path in sorted(folder.glob("*.csv")) if not run.ignores(path)]
        described = {path.resolve() for path in run.descriptions()}
        found = [path for path in beside if path.resolve() not in described and _is_topology(path)]
    if len(found) > 1:
        raise InputError("one topology in a folder", known(path.name for path in found), file=folder)
    if not found and run.content.geometry is None:
        raise InputError(
            f"the topology of the run beside its report, or the key 'geometry' in {run.path}",
            "neither",
            file=folder,
        )
    return found[0] if found else None


def _is_topology(path: Path) -> bool:
    try:
        return _kind_of(path) in ("topology", "products")
    except InputError:
        return False


def _read_topology(path: Path) -> list[_Layer]:
    kind = _kind_of(path)
    _, records = _records(path)
    layers: list[_Layer] = []
    seen: set[str] = set()
    for line, fields in records:
        if not fields[0]:
            raise InputError("a name of the layer", "nothing", file=path, line=line)
        if fields[0] in seen:
            raise InputError("layer names that differ", f"{shown(fields[0])!r} twice", file=path, line=line)
        seen.add(fields[0])
        if kind == "products":
            layers.append(_Layer(fields[0], line, 1, None, skipped_operator("gemm")))
        else:
            layers.append(_topology_layer(fields, path, line))
    return layers


def _topology_layer(fields: list[str], path: Path, line: int) -> _Layer:
    if len(fields) not in (8, 9):
        raise InputError(
            "a name, six sizes, a stride, and perhaps a second stride or a sparsity",
            f"{len(fields)} fields",
            file=path,
            line=line,
        )
    sparsity = _SPARSITY.fullmatch(fields[8]) if len(fields) == 9 else None
    numbers = [*fields[1:8], fields[8] if len(fields) == 9 and sparsity is None else fields[7]]
    columns = [*_TOPOLOGY, "stride height", "stride width"]
    sizes = {column: _size(text, column, path, line) for column, text in zip(columns, numbers, strict=True)}
    depthwise = _DEPTHWISE in fields[0]
    rows = sizes["channels"] if depthwise else 1
    if not all(sizes.values()):
        return _Layer(fields[0], line, max(rows, 1), None, "zero_geometry")
    if sparsity is not None and sparsity[1] != sparsity[2]:
        return _Layer(fields[0], line, rows, None, f"sparsity {sparsity[1]}:{sparsity[2]}")
    geometry = {
        "input_height": sizes["ifmap height"],
        "input_width": sizes["ifmap width"],
        "input_channels": sizes["channels"],
        "output_channels": sizes["num filter"] * rows,
        "kernel_height": sizes["filter height"],
        "kernel_width": sizes["filter width"],
        "stride_height": sizes["stride height"],
        "stride_width": sizes["stride width"],
        "pad_top": 0,
        "pad_left": 0,
        "pad_bottom": _rounding(sizes, "height"),
        "pad_right": _rounding(sizes, "width"),
        "dilation_height": 1,
        "dilation_width": 1,
        "groups": rows,
    }
    return _Layer(fields[0], line, rows, complete_geometry(geometry, file=path, line=line))


def _rounding(sizes: dict[str, int], axis: str) -> int:
    """Return the padding at the end that makes rounding down what the simulator rounds up to."""
    return (sizes[f"filter {axis}"] - sizes[f"ifmap {axis}"]) % sizes[f"stride {axis}"]


def _size(text: str, column: str, path: Path, line: int) -> int:
    if _WHOLE.fullmatch(text) is None or len(text) > 20 or float(text) > _LARGEST_SIZE:
        raise InputError(
            f"{column}: a whole number up to {_LARGEST_SIZE}",
            repr(shown(text)) if text else "nothing",
            file=path,
            line=line,
        )
    return int(float(text))


def _read_report(path: Path) -> list[_Cycles]:
    names, records = _records(path)
    if names.count(TOTAL) != 1:
        raise InputError("one column Total Cycles", str(names.count(TOTAL)), file=path, line=1)
    column = names.index(TOTAL)
    with_prefetch = names.index(PREFETCH) if PREFETCH in names else None
    cycles: list[_Cycles] = []
    for line, fields in records:
        if len(fields) != len(names):
            raise InputError(f"{len(names)} fields as in the header", str(len(fields)), file=path, line=line)
        if fields[0] != str(len(cycles)):
            raise InputError(f"LayerID {len(cycles)}", repr(shown(fields[0])), file=path, line=line)
        text = fields[column]
        if _NUMBER.fullmatch(text) is None:
            got = repr(shown(text)) if text else "nothing"
            raise InputError("Total Cycles: a number", got, file=path, line=line)
        if with_prefetch is not None:
            more = fields[with_prefetch]
            if _NUMBER.fullmatch(more) is None or float(more) < float(text):
                # Headers over the wrong columns would be read without a word.
                raise InputError(
                    f"Total Cycles (incl. prefetch) of at least Total Cycles, {shown(text)}",
                    repr(shown(more)),
                    file=path,
                    line=line,
                )
        cycles.append(_Cycles(shown(text), float(text), line))
    return cycles


def _account(path: Path, read_: int, kept: int, skipped: Counter[str]) -> LogTable:
    return LogTable(empty_layers(), ReadReport(path.as_posix(), file_md5(path), name, read_, kept, skipped))


def _no_latencies(path: Path) -> LogTable:
    _, records = _records(path)
    return _account(path, len(records), 0, Counter({_NO_LATENCY: len(records)}))


def _by_topology(
    path: Path, layers: Sequence[_Layer], topology: Path, network: str, platform: Platform, run: RunFile
) -> LogTable:
    cycles = _read_report(path)
    expected = sum(layer.rows for layer in layers)
    if len(cycles) != expected:
        raise InputError(
            f"{expected} rows, for the layers of {topology}",
            str(len(cycles)),
            file=path,
            line=cycles[-1].line,
        )
    rows = []
    findings: list[Finding] = []
    skipped: Counter[str] = Counter()
    start = 0
    for position, layer in enumerate(layers):
        own = cycles[start : start + layer.rows]
        start += layer.rows
        about = {"accelerator": platform.name, "network": network, "layer": layer.layer}
        if layer.geometry is None:
            skipped[layer.reason] += layer.rows
            if layer.reason == "zero_geometry":
                message = f"a size or stride of 0 in {topology}:{layer.line}"
                findings.append(Finding(layer.reason, message, path.as_posix(), own[0].line, **about))
            continue
        rejected = [
            rejected_latency(each.value, each.text, unit="cycles", file=path, line=each.line, **about)
            for each in own
        ]
        bad = next((finding for finding in rejected if finding is not None), None)
        if bad is not None:
            skipped[bad.code] += layer.rows
            findings.append(bad)
            continue
        if layer.rows > 1:
            skipped[_SUMMED] += layer.rows - 1
        total = np.array([sum(each.value for each in own)])
        rows.append(
            layer_row(
                layer.geometry,
                accelerator=platform.name,
                network=network,
                layer=layer.layer,
                position=position,
                latency_ms=float(to_ms(total, "cycles", platform.logic_clock_mhz)[0]),
                origin=run.content.origin,
                file=path,
                line=own[0].line,
            )
        )
    report = ReadReport(path.as_posix(), file_md5(path), name, len(cycles), len(rows), skipped)
    return LogTable(layer_table(rows), report, tuple(findings))


def _by_order(path: Path, platform: Platform, run: RunFile) -> LogTable:
    if run.content.network is None:
        raise InputError(f"the key 'network' in {run.path}, since a report names none", "none", file=path)
    cycles = _read_report(path)
    values = to_ms(np.array([each.value for each in cycles]), "cycles", platform.logic_clock_mhz)
    timings = pd.DataFrame(
        {
            "accelerator": platform.name,
            "network": run.content.network,
            "layer": [str(index) for index in range(len(cycles))],
            "operator": "",
            "latency_ms": values,
            "latency_std_ms": np.nan,
            "repeats": 1,
            "line": [each.line for each in cycles],
        },
        columns=list(TIMING_COLUMNS),
    )
    joined = join_geometry(timings, run, file=path, by="order")
    report = ReadReport(path.as_posix(), file_md5(path), name, len(cycles), len(joined.table), joined.skipped)
    return LogTable(joined.table, report, joined.findings)
