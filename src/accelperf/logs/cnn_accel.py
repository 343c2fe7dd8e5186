"""Reader of the cnn_accel pair: ``layer_info.csv`` and ``layer_latency_<configuration>.csv``.

One folder a network: one file describes its layers, and one file a configuration of the accelerator
holds their latencies [ns]; they are joined by layer name. The configuration stands in the file name
only, as in ``m32p64`` for 32 filters × 64 pixels at once, and ``run.yaml`` says under ``platforms``
which platform that is. The network is named by ``run.yaml`` in the folder itself, else by the
folder.

Format of the public measurements of Chen and Wu, *A Flexible Toolflow for Mapping CNN Models to
High Performance FPGA-Based Accelerators*, FPGA 2023.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from accelperf.errors import InputError
from accelperf.layers import ReadReport, empty_layers, file_md5
from accelperf.logs.base import (
    Finding,
    LogTable,
    complete_geometry,
    is_convolution,
    layer_row,
    layer_table,
    rejected_latency,
    skipped_operator,
    zero_size,
)
from accelperf.logs.delimited import Numbers, is_no_figure, read_header, read_records
from accelperf.logs.latency import latency_column, to_ms
from accelperf.logs.run import RunFile
from accelperf.platforms import Platform

name = "cnn_accel"

INFO_FILE = "layer_info.csv"

_GEOMETRY_OF = {
    "OC": "output_channels",
    "INC": "input_channels",
    "INH_": "input_height",
    "INW_": "input_width",
    "KH": "kernel_height",
    "KW": "kernel_width",
    "strideH": "stride_height",
    "strideW": "stride_width",
    "padL": "pad_left",
    "padR": "pad_right",
    "padU": "pad_top",
    "padD": "pad_bottom",
}
_INFO_COLUMNS = ("layer_name", "layer_type", *_GEOMETRY_OF)

_LATENCY_FILE = re.compile(r"layer_latency_(?P<configuration>.+)\.csv")
_PARALLELISM = re.compile(r"m(?P<filters>\d+)p(?P<pixels>\d+)")


@dataclass(frozen=True)
class _Layer:
    """One row of the file that describes the layers; a convolution if it has a geometry.

    A convolution with a size of 0 has its name in `zero`, and a geometry that is not complete.
    """

    position: int
    operator: str
    geometry: dict[str, int] | None
    line: int
    zero: str | None = None


def recognises(path: Path) -> str | None:
    """Return None for a table with ``layer_name`` and either ``layer_type`` or a latency."""
    try:
        names = read_header(path).names
    except InputError as error:
        return str(error)
    if "layer_name" not in names:
        return "no column 'layer_name'"
    if not _describes_layers(names) and not any(column.startswith("latency") for column in names):
        return "neither a column 'layer_type' nor a latency column"
    return None


def read(files: Sequence[Path], run: RunFile) -> list[LogTable]:
    """Read the pairs of one folder (see `accelperf.logs.base.Reader`)."""
    folder = files[0].parent
    descriptions = [path for path in files if _describes_layers(read_header(path).names)]
    latencies = [path for path in files if path not in descriptions]
    if not descriptions and (folder / INFO_FILE).is_file():
        descriptions = [folder / INFO_FILE]
    if len(descriptions) != 1:
        got = ", ".join(path.name for path in descriptions) or "none"
        raise InputError("one file that describes the layers (layer_info.csv)", got, file=folder)
    if not latencies:
        raise InputError(
            "latencies (layer_latency_<configuration>.csv) beside the layers", "none", file=descriptions[0]
        )
    network = _network(folder, run)
    layers = _read_layers(descriptions[0])
    account = ReadReport(descriptions[0].as_posix(), file_md5(descriptions[0]), name, 0, 0)
    return [
        LogTable(empty_layers(), account),
        *(_read_latencies(path, layers, descriptions[0], network, run) for path in latencies),
    ]


def _describes_layers(names: Iterable[str]) -> bool:
    return "layer_type" in names


def _network(folder: Path, run: RunFile) -> str:
    if run.content.network is None:
        return folder.resolve().name
    if run.path.parent != folder:
        # One name for the layers of several networks would mix them up.
        raise InputError(
            f"the key 'network' only beside the files of one network ({folder})",
            repr(run.content.network),
            file=run.path,
            line=run.lines.get(("network",)),
        )
    return run.content.network


def _check_columns(path: Path, expected: Sequence[str]) -> None:
    header = read_header(path)
    if sorted(header.names) != sorted(expected):
        raise InputError(
            f"the columns {', '.join(expected)}", ", ".join(header.names), file=path, line=header.line
        )


def _read_layers(path: Path) -> dict[str, _Layer]:
    _check_columns(path, _INFO_COLUMNS)
    numbers = Numbers(read_header(path).separator)
    layers: dict[str, _Layer] = {}
    for records in read_records(path):
        for index, line in enumerate(records.lines.tolist()):
            row = {column: texts[index].strip() for column, texts in records.columns.items()}
            layer, operator = row["layer_name"], row["layer_type"]
            for column in ("layer_name", "layer_type"):
                if not row[column]:
                    raise InputError(f"{column}: a name", "nothing", file=path, line=line)
            if layer in layers:
                raise InputError("layer names that differ", f"{layer!r} twice", file=path, line=line)
            geometry = _geometry(row, numbers, path, line) if is_convolution(operator) else None
            zero = None if geometry is None else zero_size(geometry)
            if geometry is not None and zero is None:
                geometry = complete_geometry(geometry, file=path, line=line)
            layers[layer] = _Layer(len(layers), operator, geometry, line, zero)
    return layers


def _geometry(row: dict[str, str], numbers: Numbers, path: Path, line: int) -> dict[str, int]:
    geometry = {"dilation_height": 1, "dilation_width": 1, "groups": 1}
    for column, ours in _GEOMETRY_OF.items():
        value = numbers.whole([row[column]])[0]
        if np.isnan(value):
            raise InputError(f"{column}: a whole number", repr(row[column]), file=path, line=line)
        geometry[ours] = int(value)
    return geometry


def _platform(path: Path, run: RunFile) -> Platform:
    matched = _LATENCY_FILE.fullmatch(path.name)
    if matched is None:
        raise InputError("a file name layer_latency_<configuration>.csv", repr(path.name), file=path)
    configuration = matched["configuration"]
    platform = run.platform(configuration, file=path)
    sizes = _PARALLELISM.fullmatch(configuration)
    got = platform.filter_parallelism, platform.channel_parallelism
    if sizes is not None and got != (int(sizes["filters"]), int(sizes["pixels"])):
        raise InputError(
            f"a platform with filter_parallelism {int(sizes['filters'])} and channel_parallelism "
            f"{int(sizes['pixels'])} for {configuration}",
            f"{platform.name!r} with {got[0]} and {got[1]}",
            file=run.path,
            line=run.lines.get(("platforms", configuration)),
        )
    return platform


def _read_latencies(
    path: Path, layers: dict[str, _Layer], description: Path, network: str, run: RunFile
) -> LogTable:
    header = read_header(path)
    column, unit = latency_column(header.names, file=path, line=header.line)
    _check_columns(path, ("layer_name", column))
    platform = _platform(path, run)
    numbers = Numbers(header.separator)
    rows = []
    findings: list[Finding] = []
    skipped: Counter[str] = Counter()
    seen: set[str] = set()
    rows_read = 0
    for records in read_records(path):
        rows_read += len(records)
        texts = records.columns[column]
        values = numbers.real(texts)
        for index, line in enumerate(records.lines.tolist()):
            layer = records.columns["layer_name"][index].strip()
            if layer not in layers:
                raise InputError(f"a layer of {description}", repr(layer), file=path, line=line)
            seen.add(layer)
            described = layers[layer]
            if described.geometry is None:
                skipped[skipped_operator(described.operator)] += 1
                continue
            if np.isnan(values[index]) and not is_no_figure(texts[index]):
                expected = f"{column}: {numbers.meaning} above 0"
                raise InputError(expected, repr(texts[index].strip()), file=path, line=line)
            finding = rejected_latency(values[index], texts[index], unit=unit, file=path, line=line)
            if finding is None and described.zero is not None:
                message = f"{described.zero} 0 in {description}:{described.line}, expected 1 or more"
                finding = Finding("zero_geometry", message, path.as_posix(), line)
            if finding is not None:
                findings.append(replace(finding, accelerator=platform.name, network=network, layer=layer))
                skipped[finding.code] += 1
                continue
            rows.append(
                layer_row(
                    described.geometry,
                    accelerator=platform.name,
                    network=network,
                    layer=layer,
                    position=described.position,
                    latency_ms=float(to_ms(values[index], unit, platform.logic_clock_mhz)),
                    origin=run.content.origin,
                    file=path,
                    line=line,
                )
            )
    missing = [layer for layer in layers if layer not in seen]
    if missing:
        raise InputError(
            f"a latency for every layer of {description}", f"none for {', '.join(missing)}", file=path
        )
    report = ReadReport(path.as_posix(), file_md5(path), name, rows_read, len(rows), skipped)
    return LogTable(layer_table(rows), report, tuple(findings))
