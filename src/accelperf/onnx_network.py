"""A network described by an ONNX model: its convolutions with all sizes, in order of execution.

Needs the package onnx, which the extra brings (``pip install accelperf[onnx]``); it is imported
when a model is read. Weights are not needed, only their shapes: files of external weights may be
absent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from accelperf.errors import InputError
from accelperf.layers import CONVOLUTION, check_geometry, output_size, validate_table
from accelperf.networks import NETWORK_COLUMNS, NETWORK_SCHEMA

if TYPE_CHECKING:
    import onnx

LARGEST_FILE_BYTES = 2**31 - 1
"""Largest file that protobuf reads."""

WEIGHTS_OF: dict[str, int] = {
    "Conv": 1,
    "ConvInteger": 1,
    "FusedConv": 1,
    "QLinearConv": 3,
    "ConvTranspose": 1,
}
"""Which input of an operator holds the weights of a convolution."""

DENSE: tuple[str, ...] = ("Gemm", "MatMul")
"""Fully connected layers; a MatMul is one where its second input is a matrix of weights."""
UNKNOWN_ROWS = "matmul of unknown rows"
"""Operator of a fully connected layer whose input has no known shape."""

_KEPT_VALUES = 1024
"""Largest number of values of a constant that is kept: shapes are computed from small ones."""

_SPATIAL_AXES = 2
_PARAMETER = "a dimension without a number"


def read_onnx(path: Path) -> pd.DataFrame:
    r"""Read the layers of an ONNX model.

    Parameters
    ----------
    path : Path
        The model (``.onnx``).

    Returns
    -------
    DataFrame
        `accelperf.networks.NETWORK_COLUMNS`, one row a layer, in the order in which they run.
        Rows of the operator ``conv`` are two-dimensional convolutions. Other operators are
        fully connected layers (``gemm``, ``matmul``; an image of one pixel, or of one row of pixels
        where an image has several rows to multiply, such as tokens), and convolutions that
        are not supported: ``convtranspose``, ``conv1d``, ``conv3d``, with the sizes of their last
        two axes. A node without a name is called ``Conv_3`` after its operator and its number,
        as ONNX Runtime calls it, which does not count constants.

    Raises
    ------
    InputError
        If the package onnx is missing; if the file is no ONNX model; if a convolution's sizes are
        not known or contradict each other; if two nodes have one name, or there is no layer.

    Notes
    -----
    A batch dimension without a number becomes 1. Output sizes follow the operator specification
    of ONNX, *Conv*: ``auto_pad`` of ``SAME_UPPER`` and ``SAME_LOWER`` gives
    :math:`\lceil size / stride \rceil` outputs, with the odd pixel of padding at the end or at the
    beginning. Shapes that the file does not hold are inferred by ``onnx.shape_inference``.
    """
    model = _load(path)
    graph = _inferred(model, path).graph
    shapes = _shapes(graph)
    rows: list[dict[str, Any]] = []
    number = 0
    for node in graph.node:
        if node.op_type == "Constant" and node.domain in ("", "ai.onnx"):
            continue
        name = node.name or f"{node.op_type}_{number}"
        number += 1
        row = _row(_Node(node, name, shapes, path))
        if row is not None:
            rows.append(row)
    if not rows:
        raise InputError("a model with convolutions or fully connected layers", "none", file=path)
    table = pd.DataFrame(rows, columns=list(NETWORK_COLUMNS))
    twice = table["layer"][table["layer"].duplicated()]
    if len(twice):
        raise InputError("node names that differ", f"{twice.iloc[0]!r} twice", file=path)
    return validate_table(NETWORK_SCHEMA, table, source=path)


def _load(path: Path) -> onnx.ModelProto:
    try:
        import onnx
    except ModuleNotFoundError:
        raise InputError(
            "the package onnx, to read this model (pip install accelperf[onnx])", "none", file=path
        ) from None
    try:
        size = path.stat().st_size
        if size > LARGEST_FILE_BYTES:
            raise InputError(
                f"an ONNX model of {LARGEST_FILE_BYTES} bytes or fewer (weights in a file of their own)",
                f"{size}",
                file=path,
            )
        model = onnx.load(str(path), load_external_data=False)
    except OSError as error:
        raise InputError("an ONNX model", error.strerror or str(error), file=path) from None
    except InputError:
        raise
    except Exception as error:  # protobuf raises what it likes
        raise InputError("an ONNX model", _first_line(error), file=path) from None
    if not model.ir_version or not model.graph.node:
        raise InputError("an ONNX model", "a file without a graph", file=path)
    if not model.opset_import:
        raise InputError("an ONNX model that names its operator set", "none", file=path)
    if not all(isinstance(text, str) for text in _texts(model.graph)):
        raise InputError("an ONNX model with names in UTF-8", "other bytes", file=path)
    return model


def _texts(graph: onnx.GraphProto) -> Iterator[object]:
    """Yield all names of a graph; protobuf gives bytes where they are not UTF-8."""
    for node in graph.node:
        yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
        yield from (attribute.name for attribute in node.attribute)
    for named in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
        yield named.name


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


def _inferred(model: onnx.ModelProto, path: Path) -> onnx.ModelProto:
    """Return the model with the shapes of its values, and without its weights."""
    import onnx

    graph = model.graph
    constants = {constant.name for constant in graph.initializer}
    for value in graph.input:
        shape = value.type.tensor_type.shape
        if value.name not in constants and len(shape.dim) and shape.dim[0].dim_value < 1:
            shape.dim[0].dim_value = 1
    # Large constants are of no use but for their shapes, and inference copies them several times.
    large = [constant for constant in graph.initializer if _count(constant.dims) > _KEPT_VALUES]
    given = {value.name for value in graph.input}
    graph.input.extend(
        onnx.helper.make_tensor_value_info(constant.name, constant.data_type, list(constant.dims))
        for constant in large
        if constant.name not in given
    )
    small = [constant for constant in graph.initializer if _count(constant.dims) <= _KEPT_VALUES]
    del graph.initializer[:]
    graph.initializer.extend(small)
    try:
        return onnx.shape_inference.infer_shapes(model, data_prop=True)
    except Exception as error:  # whatever the inference of some operator raises
        raise InputError("shapes that can be inferred", _first_line(error), file=path) from None


def _count(dimensions: Sequence[int]) -> int:
    count = 1
    for dimension in dimensions:
        count *= max(int(dimension), 0)
    return count


def _shapes(graph: onnx.GraphProto) -> dict[str, list[int | None]]:
    """Return the shape of each value, dimensions without a number as None."""
    shapes: dict[str, list[int | None]] = {}
    for value in (*graph.input, *graph.value_info, *graph.output):
        kind = value.type.tensor_type
        if kind.HasField("shape"):
            shapes[value.name] = [each.dim_value if each.dim_value > 0 else None for each in kind.shape.dim]
    for constant in graph.initializer:
        shapes[constant.name] = [int(each) for each in constant.dims]
    for node in graph.node:
        if node.op_type == "Constant":
            for attribute in node.attribute:
                if attribute.name == "value":
                    shapes[node.output[0]] = [int(each) for each in attribute.t.dims]
    return shapes


@dataclass(frozen=True)
class _Node:
    """A node with what is needed to describe it, and errors that name it."""

    node: onnx.NodeProto
    name: str
    shapes: Mapping[str, list[int | None]]
    path: Path

    def fail(self, expected: str, got: object) -> InputError:
        return InputError(f"node {self.name!r} ({self.node.op_type}): {expected}", str(got), file=self.path)

    def shape(self, which: int, what: str) -> list[int]:
        """Return the shape of an input, all of it known but for the batch."""
        if which >= len(self.node.input) or not self.node.input[which]:
            raise self.fail(f"{what}, input {which}", "none")
        value = self.node.input[which]
        shape = self.shapes.get(value)
        if shape is None:
            raise self.fail(f"a known shape of {what} {value!r}", "none (it cannot be inferred)")
        known = [1 if axis == 0 and size is None else size for axis, size in enumerate(shape)]
        if any(size is None for size in known):
            got = " x ".join("?" if size is None else str(size) for size in shape)
            raise self.fail(f"a known shape of {what} {value!r}", f"{got} ({_PARAMETER})")
        return [size for size in known if size is not None]

    def known_shape(self, which: int) -> list[int | None] | None:
        """Return the shape of an input, None where it is unknown."""
        return self.shapes.get(self.node.input[which]) if which < len(self.node.input) else None

    def attribute(self, name: str) -> Any:
        """Return an attribute's value, None where it is not given."""
        import onnx

        for attribute in self.node.attribute:
            if attribute.name == name:
                try:
                    return onnx.helper.get_attribute_value(attribute)
                except ValueError as error:
                    raise self.fail(f"an attribute {name}", _first_line(error)) from None
        return None

    def number(self, name: str, default: int) -> int:
        """Return an attribute that is one whole number."""
        value = self.attribute(name)
        if value is None:
            return default
        if not isinstance(value, int):
            raise self.fail(f"{name}: a whole number", repr(value)[:40])
        return value

    def numbers(self, name: str, count: int) -> list[int] | None:
        """Return an attribute of some whole numbers, None where it is not given."""
        values = self.attribute(name)
        if values is None:
            return None
        fits = isinstance(values, list) and len(values) == count and all(isinstance(v, int) for v in values)
        if not fits:
            raise self.fail(f"{name} of {count} whole numbers", repr(values)[:40])
        return list(values)

    def text(self, name: str, default: str) -> str:
        """Return an attribute that is a text."""
        value = self.attribute(name)
        if value is None:
            return default
        if not isinstance(value, bytes):
            raise self.fail(f"{name}: a text", repr(value)[:40])
        return value.decode("ascii", errors="replace")


def _row(node: _Node) -> dict[str, Any] | None:
    """Return a node's row of the network table, None where it is no layer of interest."""
    operator = node.node.op_type
    if operator in WEIGHTS_OF:
        return _convolution(node, WEIGHTS_OF[operator])
    if operator in DENSE:
        return _dense(node)
    return None


def _dense(node: _Node) -> dict[str, Any] | None:
    weights = node.known_shape(1)
    if weights is None or len(weights) != _SPATIAL_AXES or None in weights:
        return None  # a product of two activations
    inputs, outputs = (int(size or 0) for size in weights)
    if node.number("transB", 0):
        inputs, outputs = outputs, inputs
    sizes = {"input_channels": inputs, "output_channels": outputs}
    pads = dict.fromkeys(("pad_top", "pad_bottom", "pad_left", "pad_right"), 0)
    operator = node.node.op_type.lower()
    rows = _rows_of_one_image(node)
    if rows is None:
        operator, rows = UNKNOWN_ROWS, 1
    row = dict.fromkeys(NETWORK_COLUMNS, 1) | sizes | pads | {"input_width": rows, "output_width": rows}
    return {**row, "layer": node.name, "operator": operator}


def _rows_of_one_image(node: _Node) -> int | None:
    """Return how many rows the weights are multiplied with for one image, None where it is unknown.

    One where the first input has two axes, the batch and the channels; else as many as the axes
    between them have places, such as the tokens of a transformer.
    """
    data = node.known_shape(0)
    if node.node.op_type == "Gemm" or (data is not None and len(data) == _SPATIAL_AXES):
        return 1
    between = [None] if data is None else data[1:-1]
    return None if None in between else _count([size or 0 for size in between])


def _convolution(node: _Node, which: int) -> dict[str, Any]:
    weights = node.shape(which, "the weights")
    axes = len(weights) - 2
    if axes < 1:
        raise node.fail("weights of three dimensions or more", len(weights))
    data = node.shape(0, "the input")
    if len(data) != len(weights):
        raise node.fail(f"an input of {len(weights)} dimensions, as the weights", len(data))
    kernel = node.numbers("kernel_shape", axes)
    if kernel is not None and kernel != weights[2:]:
        raise node.fail(f"kernel_shape {weights[2:]}, as the weights", kernel)
    groups = node.number("group", 1)
    transposed = node.node.op_type == "ConvTranspose"
    outputs = weights[1] * groups if transposed else weights[0]
    ones = [1] * axes
    stride, dilation = node.numbers("strides", axes) or ones, node.numbers("dilations", axes) or ones
    if min([*stride, *dilation]) < 1:
        raise node.fail("strides and dilations of 1 or more", f"{stride} and {dilation}")
    before, after = _padding(node, data[2:], weights[2:], stride, dilation)
    row: dict[str, Any] = dict.fromkeys(NETWORK_COLUMNS, 1)
    row |= dict.fromkeys(("pad_top", "pad_bottom", "pad_left", "pad_right"), 0)
    row |= {
        "layer": node.name,
        "operator": CONVOLUTION
        if axes == _SPATIAL_AXES and not transposed
        else _unsupported(transposed, axes),
        "input_channels": data[1],
        "output_channels": outputs,
        "groups": groups,
    }
    # Of one axis that is the width; of three, the last two.
    names = (("height", "pad_top", "pad_bottom"), ("width", "pad_left", "pad_right"))
    for axis, (name, first, last) in enumerate(names[-axes:], start=max(axes - _SPATIAL_AXES, 0)):
        row |= {
            f"input_{name}": data[2 + axis],
            f"kernel_{name}": weights[2 + axis],
            f"stride_{name}": stride[axis],
            f"dilation_{name}": dilation[axis],
            first: before[axis],
            last: after[axis],
        }
        row[f"output_{name}"] = (
            _transposed_size(row, name, first, last) if transposed else _output_size(row, name, first, last)
        )
    if row["operator"] == CONVOLUTION:
        _check(node, row, weights)
    return row


def _unsupported(transposed: bool, axes: int) -> str:
    return "convtranspose" if transposed else f"conv{axes}d"


def _padding(
    node: _Node, size: Sequence[int], kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> tuple[list[int], list[int]]:
    """Return the padding before and after along each axis."""
    axes = len(size)
    mode = node.text("auto_pad", "NOTSET")
    if mode == "NOTSET":
        pads = node.numbers("pads", 2 * axes) or [0] * (2 * axes)
        if min(pads) < 0:
            raise node.fail("pads of 0 or more", pads)
        return pads[:axes], pads[axes:]
    if mode == "VALID":
        return [0] * axes, [0] * axes
    if mode not in ("SAME_UPPER", "SAME_LOWER"):
        raise node.fail("auto_pad NOTSET, VALID, SAME_UPPER or SAME_LOWER", mode)
    less, more = [], []
    for length, reach, step, spread in zip(size, kernel, stride, dilation, strict=True):
        outputs = -(-length // step)
        total = max((outputs - 1) * step + (reach - 1) * spread + 1 - length, 0)
        less.append(total // 2)
        more.append(total - total // 2)
    return (less, more) if mode == "SAME_UPPER" else (more, less)


def _output_size(row: Mapping[str, int], axis: str, first: str, last: str) -> int:
    return output_size(
        row[f"input_{axis}"],
        row[f"kernel_{axis}"],
        row[f"stride_{axis}"],
        row[first],
        row[last],
        row[f"dilation_{axis}"],
    )


def _transposed_size(row: Mapping[str, int], axis: str, first: str, last: str) -> int:
    """Return the output size of a transposed convolution without output padding, at least 1."""
    reach = (row[f"kernel_{axis}"] - 1) * row[f"dilation_{axis}"] + 1
    return max(row[f"stride_{axis}"] * (row[f"input_{axis}"] - 1) + reach - row[first] - row[last], 1)


def _check(node: _Node, row: Mapping[str, int], weights: Sequence[int]) -> None:
    """Raise if the sizes of a convolution contradict each other."""
    groups = row["groups"]
    if weights[1] * groups != row["input_channels"]:
        raise node.fail(
            f"weights for {row['input_channels']} input channels in {groups} groups", f"{weights[1]} a group"
        )
    try:
        check_geometry(row, file=node.path)
    except InputError as error:
        raise node.fail(error.expected, error.got) from None
