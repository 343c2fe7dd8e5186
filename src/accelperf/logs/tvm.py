"""Reader of TVM tuning logs with rows of the VTA accelerator.

AutoTVM writes a JSON object a line, in one of two generations::

    {"input": [target, task, args, kwargs], "config": {...}, "result": [costs, error, all, stamp], ...}
    {"i": [target, task, args, kwargs, workload, config], "r": [costs, error, all, stamp], "v": 0.1}

Costs are the seconds of one or several runs. The logs that TVM publishes for its users hold the best
schedule of each layer of some networks; a comment ``# network - target`` stands before those of a
network. In such a log

* the target names device and configuration (``ext_dev -device=vta -model=pynq_1x16_i8w8a32_…``);
  ``run.yaml`` lists the platform of each configuration under ``platforms``. What ran on a CPU or on
  a simulator of VTA, whose costs are no times of the hardware, is counted and skipped;
* sizes are packed into blocks of the matrix unit: data ``[N/b, C/c, H, W, b, c]``, weights
  ``[O/o, I/i, KH, KW, o, i]``; here they are unpacked. Channels that were padded to a whole block
  stay so, since the hardware computed them;
* ``b`` images go through the matrix unit together, so the cost of such a block is the latency of
  one image too; several blocks of images in one run are skipped;
* the operator is ``conv2d_packed.vta`` or, in older releases, ``topi_nn_conv2d``; transposed
  convolutions and dense layers are counted and skipped;
* padding is ``[vertical, horizontal]`` or ``[top, left, bottom, right]``;
* of several schedules of one layer, the one with the lowest mean cost is kept, as TVM itself does,
  and the others are counted; failed trials too;
* layers have no names, and come in no order: the names here are made of their sizes, positions are
  those in the log.

Source of the layout: ``encode`` and ``decode`` in ``python/tvm/autotvm/record.py`` (versions 0.1 and
0.2), ``MeasureErrorNo`` in ``python/tvm/autotvm/measure/measure.py``, ``conv2d_packed`` and
``group_conv2d_packed`` in ``vta/python/vta/top``, ``get_pad_tuple`` in ``python/tvm/topi/nn/utils.py``
of apache/tvm.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from accelperf.errors import InputError, known
from accelperf.layers import GEOMETRY_COLUMNS, ReadReport, file_md5
from accelperf.logs.base import (
    Finding,
    LogTable,
    complete_geometry,
    layer_row,
    layer_table,
    rejected_latency,
    skipped_operator,
)
from accelperf.logs.json_text import is_number, is_whole, parse, shown
from accelperf.logs.run import RunFile
from accelperf.logs.text import opened
from accelperf.platforms import Platform
from accelperf.units import MS_PER_SECOND

name = "tvm"

_GENERATIONS = (("input", "result"), ("i", "r"))
_LONGEST_LINE = 1_000_000
_MOST_COMMENT_LINES = 1000
_LARGEST_SIZE = 1_000_000

_DEVICE = re.compile(r"(?:^|\s)-device=(\S+)")
_MODEL = re.compile(r"(?:^|\s)-model=(\S+)")
_CONFIGURATION = re.compile(r"(?P<board>[A-Za-z0-9]+)_(?P<batch>\d+)x(?P<block>\d+)(?:_\w+)?", re.ASCII)
_SIMULATORS = ("sim", "fsim", "tsim")
_HEADING = re.compile(
    r"#+\s*(?P<network>\S.*?)\s+(?:-\s+(?P<target>\S.*?)|(?P<model>\w+_\d+x\d+_i\d+\w*))\s*"
)
_PACKED = re.compile(r"NCHW(?P<batch>\d+)n(?P<block>\d+)c")

_SLOWER = "slower schedule of the same layer"


@dataclass(frozen=True)
class _Record:
    """One line of the log: what ran, and its result."""

    line: int
    network: str
    heading: str
    target: str
    task: str
    arguments: list[Any]
    costs_s: list[float]
    error: int

    @property
    def configuration(self) -> str | None:
        """Configuration of VTA, None for another device."""
        device, model = _DEVICE.search(self.target), _MODEL.search(self.target)
        if device is None or device[1] != "vta":
            return None
        return "" if model is None else model[1]


@dataclass(frozen=True)
class _Layer:
    """The best schedule so far of one layer."""

    record: _Record
    configuration: str
    geometry: dict[str, int]

    @property
    def mean_s(self) -> float:
        return float(np.mean(self.record.costs_s))


def recognises(path: Path) -> str | None:
    """Return None for JSON lines with the keys of a tuning record."""
    try:
        with opened(path) as stream:
            for number in range(1, _MOST_COMMENT_LINES + 1):
                line = stream.readline(_LONGEST_LINE)
                if not line:
                    return "no line of JSON"
                if not line.strip() or line.startswith("#"):
                    continue
                if not line.lstrip().startswith("{"):
                    return "no JSON object on the first line"
                return _why_no_record(parse(line, file=path, line=number))
    except InputError as error:
        return str(error)
    return "nothing but comments"


def _why_no_record(value: Any) -> str | None:
    for of_input, of_result in _GENERATIONS:
        if isinstance(value, dict) and of_input in value and of_result in value:
            task = value[of_input]
            if (
                isinstance(task, list)
                and len(task) >= 3
                and isinstance(task[0], str)
                and isinstance(task[2], list)
            ):
                return None
            return "a tuning record of another tool than AutoTVM"
    return "no keys of a tuning record (input and result, or i and r)"


def read(files: Sequence[Path], run: RunFile) -> list[LogTable]:
    """Read tuning logs (see the module's description and `accelperf.logs.base.Reader`)."""
    return [_read_file(path, run) for path in files]


def _read_file(path: Path, run: RunFile) -> LogTable:
    findings: list[Finding] = []
    skipped: Counter[str] = Counter()
    layers: dict[tuple[object, ...], _Layer] = {}
    rows_read = 0
    for record in _records(path):
        rows_read += 1
        reason = _reason_to_skip(record)
        if reason is not None:
            skipped[reason] += 1
            continue
        configuration = record.configuration
        assert configuration is not None  # noqa: S101 - told by the reason
        geometry = _geometry(record, configuration, path)
        if isinstance(geometry, str):
            skipped[geometry] += 1
            continue
        bad = _bad_cost(record, layer_name(geometry), path)
        if bad is not None:
            skipped[bad.code] += 1
            findings.append(bad)
            continue
        key = (configuration, record.network, *geometry.values())
        layer = _Layer(record, configuration, geometry)
        if key in layers:
            skipped[_SLOWER] += 1
        if key not in layers or layer.mean_s < layers[key].mean_s:
            layers[key] = layer
    if not rows_read:
        raise InputError("at least one tuning record", "none", file=path)
    platforms = _platforms(list(layers.values()), run, path)
    _check_networks(list(layers.values()), run, path)
    positions: Counter[tuple[str, str]] = Counter()
    rows = []
    for layer in layers.values():
        network = run.content.network or layer.record.network
        place = layer.configuration, network
        rows.append(_row(layer, platforms[layer.configuration], network, positions[place], path, run))
        positions[place] += 1
    report = ReadReport(path.as_posix(), file_md5(path), name, rows_read, len(rows), skipped)
    return LogTable(layer_table(rows), report, tuple(findings))


def _records(path: Path) -> Iterator[_Record]:
    network = heading = ""
    with opened(path) as stream:
        number = 0
        while line := stream.readline(_LONGEST_LINE):
            number += 1
            if len(line) == _LONGEST_LINE:
                raise InputError(
                    f"lines of fewer than {_LONGEST_LINE} characters", "a longer one", file=path, line=number
                )
            text = line.strip()
            if not text:
                continue
            if text.startswith("#"):
                matched = _HEADING.fullmatch(text)
                network = "" if matched is None else matched["network"]
                heading = "" if matched is None else (matched["target"] or matched["model"])
                continue
            yield _record(parse(text, file=path, line=number), network, heading, path, number)


def _record(value: Any, network: str, heading: str, path: Path, line: int) -> _Record:
    def fail(expected: str, got: object) -> InputError:
        return InputError(expected, shown(got), file=path, line=line)

    why_not = _why_no_record(value)
    if why_not is not None:
        raise fail("an AutoTVM record", why_not)
    of_input, of_result = next(keys for keys in _GENERATIONS if all(key in value for key in keys))
    target, task, arguments = value[of_input][:3]
    if not isinstance(task, str):
        raise fail("the name of a task", task)
    result = value[of_result]
    if not isinstance(result, list) or len(result) < 2:
        raise fail("a result [costs, error number, …]", result)
    costs, error = result[:2]
    if not is_whole(error):
        raise fail("an error number", error)
    if not isinstance(costs, list) or not costs or not all(is_number(cost) for cost in costs):
        raise fail("costs: a list of seconds", costs)
    return _Record(line, network, heading, target, task, arguments, [float(cost) for cost in costs], error)


def _reason_to_skip(record: _Record) -> str | None:
    configuration = record.configuration
    if configuration is None:
        return f"target {record.target.split()[0]}" if record.target.strip() else "no target"
    matched = _CONFIGURATION.fullmatch(configuration)
    if matched is not None and matched["board"] in _SIMULATORS:
        return f"target {matched['board']} (a simulator)"
    operator = _operator(record.task)
    if operator not in ("conv2d", "group_conv2d"):
        return skipped_operator(operator)
    return f"measurement error {record.error}" if record.error else None


def _operator(task: str) -> str:
    """Return the operator of a task, whatever the release calls it."""
    base = task.split(".")[0].removeprefix("topi_nn_").removeprefix("vta_")
    for suffix in ("_packed", "_nchw", "_NCHWc"):
        base = base.removesuffix(suffix)
    return base


def _bad_cost(record: _Record, layer: str, path: Path) -> Finding | None:
    for cost in record.costs_s:
        text = repr(int(cost)) if cost == int(cost) else repr(cost)
        bad = rejected_latency(
            cost, text, unit="s", file=path, line=record.line, network=record.network, layer=layer
        )
        if bad is not None:
            return bad
    return None


def _geometry(record: _Record, configuration: str, path: Path) -> dict[str, int] | str:
    """Return the unpacked sizes of a convolution, or why the record is skipped."""

    def fail(expected: str, got: object) -> InputError:
        return InputError(expected, shown(got), file=path, line=record.line)

    arguments = record.arguments
    if len(arguments) < 5:
        raise fail("arguments [data, weights, strides, padding, …]", f"{len(arguments)} arguments")
    data, weights = _packed(arguments[0], "data", fail), _packed(arguments[1], "weights", fail)
    stride = _sizes(arguments[2], "strides", (2,), 1, fail)
    padding = _sizes(arguments[3], "padding", (2, 4), 0, fail)
    # The oldest records have no dilation: their layout follows at once.
    rest = arguments[4:]
    dilation = [1, 1]
    if not isinstance(rest[0], str):
        dilation, rest = _sizes(rest[0], "dilation", (2,), 1, fail), rest[1:]
    groups = 1
    if _operator(record.task) == "group_conv2d":
        if not rest or not is_whole(rest[0]) or rest[0] < 1:
            raise fail("a number of groups", rest[0] if rest else "nothing")
        groups = rest[0]
    blocks, batch, block = data[0], data[4], data[5]
    _check_packing(rest, data, configuration, fail)
    channels = data[1] * block
    if weights[5] != block or weights[1] * weights[5] * groups != channels:
        raise fail(
            f"weights for {channels} channels in blocks of {block} and {groups} groups",
            f"{weights[1]} x {weights[5]} channels",
        )
    if len(padding) == 2:
        padding = [*padding, *padding]
    geometry = {
        "input_height": data[2],
        "input_width": data[3],
        "input_channels": channels,
        "output_channels": weights[0] * weights[4],
        "kernel_height": weights[2],
        "kernel_width": weights[3],
        "stride_height": stride[0],
        "stride_width": stride[1],
        "pad_top": padding[0],
        "pad_left": padding[1],
        "pad_bottom": padding[2],
        "pad_right": padding[3],
        "dilation_height": dilation[0],
        "dilation_width": dilation[1],
        "groups": groups,
    }
    if blocks > 1:
        return f"batch of {blocks * batch} images ({batch} at once)"
    return complete_geometry(geometry, file=path, line=record.line)


def _packed(value: Any, what: str, fail: Any) -> list[int]:
    if not isinstance(value, list) or len(value) < 2 or value[0] != "TENSOR":
        raise fail(f'{what}: ["TENSOR", shape, type]', value)
    return _sizes(value[1], f"{what}: a packed shape", (6,), 1, fail)


def _sizes(value: Any, what: str, counts: Sequence[int], least: int, fail: Any) -> list[int]:
    fits = (
        isinstance(value, list)
        and len(value) in counts
        and all(is_whole(each) and least <= each <= _LARGEST_SIZE for each in value)
    )
    if not fits:
        numbers = " or ".join(str(count) for count in counts)
        raise fail(f"{what} of {numbers} whole numbers from {least} to {_LARGEST_SIZE}", value)
    return list(value)


def _check_packing(rest: Sequence[Any], data: Sequence[int], configuration: str, fail: Any) -> None:
    """Raise if layout or configuration speak of other blocks than the shape has."""
    named = []
    if rest and isinstance(rest[0], str):
        named.append(_PACKED.fullmatch(rest[0]))
    named.append(_CONFIGURATION.fullmatch(configuration))
    for matched in named:
        if matched is not None and (int(matched["batch"]), int(matched["block"])) != (data[4], data[5]):
            raise fail(
                f"blocks of {int(matched['batch'])} x {int(matched['block'])} as in {matched.group()}",
                f"{data[4]} x {data[5]}",
            )


def _platforms(layers: Sequence[_Layer], run: RunFile, path: Path) -> Mapping[str, Platform]:
    """Return the platform of each configuration, checked against what the name says."""
    first = {layer.configuration: layer.record.line for layer in reversed(layers)}
    platforms: dict[str, Platform] = {}
    for configuration, line in sorted(first.items(), key=lambda item: item[1]):
        # One 'platform' serves a log of one configuration; several must be told apart.
        alone = len(first) == 1 and "" in run.by_configuration
        platform = run.platform("" if alone else configuration, file=path, line=line)
        matched = _CONFIGURATION.fullmatch(configuration)
        got = platform.filter_parallelism, platform.channel_parallelism
        if matched is not None and got != (int(matched["block"]), int(matched["block"])):
            block = int(matched["block"])
            raise InputError(
                f"a platform with filter_parallelism {block} and channel_parallelism {block} for "
                f"{configuration}",
                f"{platform.name!r} with {got[0]} and {got[1]}",
                file=run.path,
                line=run.lines.get(("platforms", configuration), run.lines.get(("platform",))),
            )
        platforms[configuration] = platform
    return platforms


def _check_networks(layers: Sequence[_Layer], run: RunFile, path: Path) -> None:
    """Raise if the network of a layer is unknown, or its heading contradicts its target."""
    named = {layer.record.network for layer in layers if layer.record.network}
    if run.content.network is not None and len(named) > 1:
        # One name for the layers of several networks would mix them up.
        raise InputError(
            f"no key 'network', since {path} names the networks {known(named)}",
            repr(run.content.network),
            file=run.path,
            line=run.lines.get(("network",)),
        )
    for layer in layers:
        record = layer.record
        if not record.network and run.content.network is None:
            raise InputError(
                f"a comment '# network - target' above, or the key 'network' in {run.path}",
                "neither",
                file=path,
                line=record.line,
            )
        if _CONFIGURATION.fullmatch(record.heading) and record.heading != layer.configuration:
            raise InputError(
                f"configuration {record.heading} as in the comment above",
                layer.configuration or "none",
                file=path,
                line=record.line,
            )


def _row(
    layer: _Layer, platform: Platform, network: str, position: int, path: Path, run: RunFile
) -> dict[str, Any]:
    costs_ms = np.array(layer.record.costs_s) * MS_PER_SECOND
    return layer_row(
        layer.geometry,
        accelerator=platform.name,
        network=network,
        layer=layer_name(layer.geometry),
        position=position,
        latency_ms=float(costs_ms.mean()),
        latency_std_ms=float(costs_ms.std(ddof=1)) if len(costs_ms) > 1 else np.nan,
        repeats=len(costs_ms),
        origin=run.content.origin,
        file=path,
        line=layer.record.line,
    )


def layer_name(geometry: Mapping[str, int]) -> str:
    """Return a name for a convolution without one, made of its sizes.

    Parameters
    ----------
    geometry : Mapping of str to int
        `accelperf.layers.GEOMETRY_COLUMNS`; what has its usual value is left out of the name.

    Examples
    --------
    >>> sizes = dict.fromkeys(GEOMETRY_COLUMNS, 1) | dict(input_height=56, input_width=56)
    >>> sizes |= dict(input_channels=64, output_channels=128, kernel_height=3, kernel_width=3)
    >>> layer_name(sizes | dict(stride_height=2, stride_width=2))
    'conv_64x56x56_128_k3_s2_p1'
    """
    sizes = {column: geometry[column] for column in GEOMETRY_COLUMNS}
    pads = [sizes[f"pad_{side}"] for side in ("top", "left", "bottom", "right")]
    parts = [
        f"conv_{sizes['input_channels']}x{sizes['input_height']}x{sizes['input_width']}",
        str(sizes["output_channels"]),
        "k" + _short([sizes["kernel_height"], sizes["kernel_width"]]),
        "s" + _short([sizes["stride_height"], sizes["stride_width"]]),
        "p" + _short(pads),
        "d" + _short([sizes["dilation_height"], sizes["dilation_width"]]),
        f"g{sizes['groups']}",
    ]
    return "_".join(part for part in parts if part not in ("s1", "p0", "d1", "g1"))


def _short(values: Sequence[int]) -> str:
    return str(values[0]) if len(set(values)) == 1 else "x".join(map(str, values))
