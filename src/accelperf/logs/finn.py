"""Reader of FINN build reports: estimated cycles of every hardware layer.

``report/estimate_layer_cycles.json`` maps hardware layers to cycles an image at the platform's logic
clock::

    {"ConvolutionInputGenerator_rtl_0": 1024, "MVAU_hls_0": 4096, "Thresholding_rtl_0": 256}

It is an estimate, made of the folding before anything was synthesised, and ``run.yaml`` must say so
(``origin: estimated``). It names hardware layers: a convolution of the network is a sliding window
(``ConvolutionInputGenerator``) that feeds a matrix unit (``MVAU``, ``VVAU``; in older releases
``StreamingFCLayer_Batch``, ``MatrixVectorActivation``, …), whose cycles are the convolution's here. The
matrix units of fully connected layers look the same. ``layers`` of ``run.yaml`` says which matrix unit
is which layer of the description that ``geometry`` names; all other hardware layers are counted and
skipped.

All hardware layers of FINN work at once, each on another part of the data or another image. So the
time between two images is that of the slowest one (the *maximum*), not the sum; only on an
accelerator that runs layer after layer do latencies add up to that of the network. Two more reports
are compared with the maximum:

``estimate_network_performance.json``
    ``max_cycles`` must equal it.
``rtlsim_performance.json``
    A simulation of the whole design. Its time an image, from its throughput, cannot be shorter. It has
    no layer: without estimates beside it, nothing of it goes into the layer table, and its origin is
    ``simulated``.

Sources: ``exp_cycles_per_layer`` and ``dataflow_performance`` in ``finn/analysis/fpgadataflow``,
``step_generate_estimate_reports`` and ``step_measure_rtlsim_performance`` in
``finn/builder/build_dataflow_steps.py`` of Xilinx/finn, for names of hardware layers ``GiveUniqueNodeNames``
of qonnx.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from accelperf.errors import InputError, known
from accelperf.layers import ReadReport, empty_layers, file_md5
from accelperf.logs.base import Finding, LogTable, StatedTotal, require_origin
from accelperf.logs.json_text import is_number, is_whole, key_lines, parse, read_text, shown
from accelperf.logs.latency import to_ms
from accelperf.logs.profile import Profile, join_profiles, timing_row, timing_table
from accelperf.logs.run import RunFile
from accelperf.logs.text import opened
from accelperf.platforms import Platform

name = "finn"

MATRIX_UNITS = frozenset(
    {
        "mvau",
        "vvau",
        "matrixvectoractivation",
        "vectorvectoractivation",
        "streamingfclayer_batch",
        "vector_vector_activate_batch",
    }
)
"""Hardware layers that multiply: convolutions, and fully connected layers."""

OTHER_UNITS = frozenset(
    {
        "addstreams",
        "addstreams_batch",
        "channelwiseop",
        "channelwise_op_batch",
        "convolutioninputgenerator",
        "convolutioninputgenerator1d",
        "concat",
        "downsampler",
        "duplicatestreams",
        "duplicatestreams_batch",
        "elementwiseadd",
        "elementwisemul",
        "fmpadding",
        "fmpadding_batch",
        "globalaccpool",
        "globalaccpool_batch",
        "iodma",
        "labelselect",
        "labelselect_batch",
        "lookup",
        "pool",
        "pool_batch",
        "split",
        "streamingconcat",
        "streamingdatawidthconverter",
        "streamingdatawidthconverter_batch",
        "streamingeltwise",
        "streamingfifo",
        "streamingmaxpool",
        "streamingmaxpool_batch",
        "thresholding",
        "thresholding_batch",
        "tlastmarker",
        "upsamplenearestneighbour",
        "upsamplenearestneighbour_batch",
    }
)
"""Other hardware layers, by which a report is recognised."""

_NODE = re.compile(r"(?P<unit>.*?)(?:_hls|_rtl)?(?:_\d+)?")
_LARGEST_RECOGNISED = 16_000_000
_WHOLE_NETWORK = "whole network"

_Kind = Literal["layers", "network", "rtlsim"]


def recognises(path: Path) -> str | None:
    """Return None for the JSON of one of the three reports."""
    try:
        with opened(path) as stream:
            start = stream.read(4096).lstrip()
        if not start.startswith("{"):
            return "no JSON object"
        if path.stat().st_size > _LARGEST_RECOGNISED:
            return f"more than {_LARGEST_RECOGNISED} bytes"
        value = parse(read_text(path), file=path)
    except InputError as error:
        return str(error)
    except OSError as error:
        return error.strerror or str(error)
    return "no cycles by hardware layer, and no report on a network" if _kind(value) is None else None


def read(files: Sequence[Path], run: RunFile) -> list[LogTable]:
    """Read the reports of one build (see `accelperf.logs.base.Reader`)."""
    values: dict[Path, dict[str, Any]] = {}
    lines: dict[Path, dict[str, int]] = {}
    kinds: dict[Path, _Kind] = {}
    for path in files:
        text = read_text(path)
        values[path], lines[path] = parse(text, file=path), key_lines(text)
        kinds[path] = _checked_kind(values[path], path)
    estimates = [path for path in files if kinds[path] == "layers"]
    if len(estimates) > 1:
        # An estimate is no measurement that one would repeat: these are two designs.
        raise InputError(
            "the estimates of one build in a folder", known(path.name for path in estimates), file=files[0]
        )
    if all(kind == "rtlsim" for kind in kinds.values()):
        require_origin(run, ("simulated",), "this is a simulation of FINN's design")
    else:
        require_origin(run, ("estimated",), "FINN computes these cycles and measures none")
    platform = run.platform("", file=files[0])
    logs: list[LogTable] = []
    slowest: float | None = None
    for path in estimates:
        profile = _profile(values[path], lines[path], platform, path)
        slowest = _slowest_ms(values[path], platform)
        logs.append(join_profiles(path, name, [profile], run))
    network = run.content.network or ""
    for path in files:
        if kinds[path] == "network":
            logs.append(_network(path, values[path], lines[path], slowest, platform, network))
        elif kinds[path] == "rtlsim":
            logs.append(_rtlsim(path, values[path], lines[path], slowest, platform, network))
    return logs


def _kind(value: Any) -> _Kind | None:
    if not isinstance(value, dict):
        return None
    if {"max_cycles", "critical_path_cycles"} <= value.keys():
        return "network"
    if "cycles" in value and ("throughput[images/s]" in value or "latency_cycles" in value):
        return "rtlsim"
    if value and all(is_whole(cycles) for cycles in value.values()):
        units = {unit(node) for node in value}
        return "layers" if units & (MATRIX_UNITS | OTHER_UNITS) else None
    return None


def _checked_kind(value: Any, path: Path) -> _Kind:
    kind = _kind(value)
    if kind is not None:
        return kind
    # Under a format that run.yaml names, any names of layers will do.
    if isinstance(value, dict) and value:
        for node, cycles in value.items():
            if not is_whole(cycles):
                raise InputError(f"{shown(node)}: a whole number of cycles", shown(cycles), file=path)
        return "layers"
    raise InputError("a report {hardware layer: cycles}", shown(value), file=path, line=1)


def unit(node: str) -> str:
    """Return the kind of a hardware layer from its name, in small letters.

    Examples
    --------
    >>> unit("MVAU_hls_12"), unit("StreamingFCLayer_Batch_0"), unit("Thresholding_rtl_3")
    ('mvau', 'streamingfclayer_batch', 'thresholding')
    """
    matched = _NODE.fullmatch(node)
    return (node if matched is None else matched["unit"]).lower()


def _ms(cycles: float, platform: Platform) -> float:
    return float(to_ms(np.array([cycles], dtype=float), "cycles", platform.logic_clock_mhz)[0])


def _profile(values: Mapping[str, int], lines: Mapping[str, int], platform: Platform, path: Path) -> Profile:
    rows = []
    for node, cycles in values.items():
        if not node.strip():
            raise InputError("a name of the hardware layer", "nothing", file=path, line=lines.get(node))
        # Whether a matrix unit is a convolution, the description knows.
        operator = "" if unit(node) in MATRIX_UNITS or not _is_known(node) else unit(node)
        rows.append(timing_row(node, _ms(cycles, platform), operator=operator, line=lines.get(node, 1)))
    return Profile("", "", 1, timing_table(rows))


def _is_known(node: str) -> bool:
    return unit(node) in OTHER_UNITS


def _slowest_ms(values: Mapping[str, int], platform: Platform) -> float:
    return _ms(max(values.values()), platform)


def _no_layers(path: Path, totals: Sequence[StatedTotal] = (), findings: Sequence[Finding] = ()) -> LogTable:
    report = ReadReport(path.as_posix(), file_md5(path), name, 1, 0, Counter({_WHOLE_NETWORK: 1}))
    return LogTable(empty_layers(), report, tuple(findings), tuple(totals))


def _network(
    path: Path,
    value: Mapping[str, Any],
    lines: Mapping[str, int],
    slowest: float | None,
    platform: Platform,
    network: str,
) -> LogTable:
    cycles = value["max_cycles"]
    if not is_whole(cycles):
        raise InputError("max_cycles: a whole number", shown(cycles), file=path, line=lines.get("max_cycles"))
    if slowest is None:
        return _no_layers(path)
    total = StatedTotal(
        stated_ms=_ms(cycles, platform),
        listed_ms=slowest,
        what="max_cycles, of the slowest layer,",
        resolution_ms=0.0,
        rows=1,
        file=path.as_posix(),
        line=lines["max_cycles"],
        accelerator=platform.name,
        network=network,
    )
    return _no_layers(path, [total])


def _rtlsim(
    path: Path,
    value: Mapping[str, Any],
    lines: Mapping[str, int],
    slowest: float | None,
    platform: Platform,
    network: str,
) -> LogTable:
    for key in ("cycles", "fclk[mhz]", "throughput[images/s]"):
        if key in value and not (is_number(value[key]) and value[key] > 0):
            raise InputError(f"{key}: a number above 0", shown(value[key]), file=path, line=lines.get(key))
    unfinished = [
        key
        for key in ("TIMEOUT", "UNFINISHED_INS", "UNFINISHED_OUTS")
        if value.get(key) not in (None, 0, "0")
    ]
    what = f"{shown(value['cycles'])} cycles of the whole network, none of a layer"
    if unfinished:
        what += f"; the simulation did not finish ({', '.join(unfinished)})"
    about = {"accelerator": platform.name, "network": network}
    finding = Finding("whole_graph", what, path.as_posix(), lines.get("cycles"), **about)
    key, interval = _interval_cycles(value, path, lines)
    if slowest is None or unfinished or interval is None:
        return _no_layers(path, findings=[finding])
    total = StatedTotal(
        stated_ms=_ms(interval, platform),
        listed_ms=slowest,
        what=f"{key}, of the slowest layer,",
        resolution_ms=0.0,
        rows=1,
        file=path.as_posix(),
        line=lines[key],
        kind="end_to_end",
        **about,
    )
    return _no_layers(path, [total], [finding])


def _interval_cycles(
    value: Mapping[str, Any], path: Path, lines: Mapping[str, int]
) -> tuple[str, float | None]:
    """Return the cycles between two images, once the pipeline is full, and whence they are known."""
    clock_mhz = value.get("fclk[mhz]")
    for key in ("stable_throughput[images/s]", "throughput[images/s]"):
        rate = value.get(key)
        if rate is None or clock_mhz is None:
            continue
        if not (is_number(rate) and rate > 0):
            raise InputError(f"{key}: a number above 0", shown(rate), file=path, line=lines.get(key))
        cycles = clock_mhz * 1e6 / rate
        return key, cycles if np.isfinite(cycles) else None
    return "", None
