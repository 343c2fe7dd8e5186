"""ONNX models that tests build: shapes of the published networks, weights that do not exist."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
from onnx import TensorProto, helper

OPSET = 17
IR_VERSION = 9


class Network:
    """A model under construction; every method adds a node and returns its output's name.

    Weights are declared to lie in a file of their own, which is never written.
    """

    def __init__(self, height: int, width: int, channels: int = 3, *, batch: int | str = 1) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.channels = {"x": channels}
        shape = [batch, channels, height, width]
        self.inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]

    def weight(self, *shape: int) -> str:
        """Declare weights of a shape, whose values lie elsewhere."""
        tensor = TensorProto(name=f"w{len(self.weights)}", data_type=TensorProto.FLOAT, dims=shape)
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="absent.bin")
        self.weights.append(tensor)
        return tensor.name

    def add(
        self, operator: str, inputs: list[str], name: str = "", channels: int = 0, **attributes: Any
    ) -> str:
        """Add any node of one output, of that many channels or those of its first input."""
        output = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [output], name=name, **attributes))
        self.channels[output] = channels or (self.channels.get(inputs[0], 0) if inputs else 0)
        return output

    def conv(
        self,
        value: str,
        filters: int,
        kernel: int,
        stride: int = 1,
        *,
        name: str = "",
        groups: int = 1,
        **extra: Any,
    ) -> str:
        """Add a convolution with padding for its kernel, unless `extra` says otherwise."""
        weights = self.weight(filters, self.channels[value] // groups, kernel, kernel)
        attributes = {"pads": [kernel // 2] * 4, "strides": [stride] * 2, "group": groups} | extra
        if "auto_pad" in extra:
            del attributes["pads"]
        return self.add("Conv", [value, weights], name, filters, **attributes)

    def relu(self, value: str) -> str:
        """Add an activation."""
        return self.add("Relu", [value])

    def model(self) -> onnx.ModelProto:
        """Return the model; its last value is the output."""
        last = self.nodes[-1].output[0]
        output = helper.make_tensor_value_info(last, TensorProto.FLOAT, None)
        opsets = [helper.make_opsetid(domain, OPSET if not domain else 1) for domain in ("", "org.example")]
        graph = helper.make_graph(self.nodes, "net", self.inputs, [output], self.weights)
        return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)

    def save(self, path: Path) -> Path:
        """Write the model and return its path."""
        path.write_bytes(self.model().SerializeToString())
        return path


def resnet50() -> Network:
    """Return ResNet-50 for images of 224 x 224 with the layer names of torchvision.

    He et al., *Deep residual learning for image recognition*, CVPR 2016, with the stride in the
    3 x 3 convolution.
    """
    net = Network(224, 224, batch="N")
    value = net.relu(net.conv("x", 64, 7, 2, name="conv1"))
    value = net.add("MaxPool", [value], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    for stage, (blocks, width) in enumerate([(3, 64), (4, 128), (6, 256), (3, 512)], start=1):
        for block in range(blocks):
            name = f"layer{stage}.{block}"
            stride = 2 if block == 0 and stage > 1 else 1
            inner = net.relu(net.conv(value, width, 1, name=f"{name}.conv1"))
            inner = net.relu(net.conv(inner, width, 3, stride, name=f"{name}.conv2"))
            inner = net.conv(inner, 4 * width, 1, name=f"{name}.conv3")
            if block == 0:
                value = net.conv(value, 4 * width, 1, stride, name=f"{name}.downsample.0")
            value = net.relu(net.add("Add", [inner, value]))
    value = net.add("Flatten", [net.add("GlobalAveragePool", [value])])
    net.add("Gemm", [value, net.weight(1000, 2048)], "fc", transB=1)
    return net


def yolov3() -> Network:
    """Return YOLOv3 for images of 416 x 416, layers numbered as in Darknet's configuration.

    Redmon and Farhadi, *YOLOv3: an incremental improvement*, 2018.
    """
    net = Network(416, 416)
    number = 0
    value = "x"
    at: dict[int, str] = {}

    def conv(filters: int, kernel: int, stride: int = 1) -> None:
        nonlocal number, value
        value = net.conv(value, filters, kernel, stride, name=f"conv_{number}")
        value = net.add("LeakyRelu", [value])
        at[number] = value
        number += 1

    def shortcut() -> None:
        nonlocal number, value
        value = net.add("Add", [value, at[number - 3]])
        at[number] = value
        number += 1

    conv(32, 3)
    for filters, blocks in ((64, 1), (128, 2), (256, 8), (512, 8), (1024, 4)):
        conv(filters, 3, 2)
        for _ in range(blocks):
            conv(filters // 2, 1)
            conv(filters, 3)
            shortcut()

    def head(filters: int) -> None:
        nonlocal number
        for _ in range(3):
            conv(filters, 1)
            conv(2 * filters, 3)
        conv(255, 1)
        number += 1  # the detection layer

    head(512)
    for back, skip, filters in ((79, 61, 256), (91, 36, 128)):
        value = at[back]
        number += 1  # route
        conv(filters, 1)
        scales = onnx.numpy_helper.from_array(_scales(), f"scales{number}")
        net.weights.append(scales)
        value = net.add("Resize", [value, "", scales.name], mode="nearest")
        number += 1  # upsampling
        value = net.add("Concat", [value, at[skip]], channels=filters + net.channels[at[skip]], axis=1)
        number += 1  # route
        head(filters)
    return net


def _scales() -> Any:
    import numpy as np

    return np.array([1, 1, 2, 2], dtype=np.float32)


MOBILENET_BLOCKS = (
    (1, 64),
    (2, 128),
    (1, 128),
    (2, 256),
    (1, 256),
    (2, 512),
    *[(1, 512)] * 5,
    (2, 1024),
    (1, 1024),
)
"""Stride of the depthwise and filters of the pointwise convolution of each block."""


def mobilenet_v1() -> Network:
    """Return MobileNet v1 for images of 224 x 224, nodes without names, padding as TensorFlow's.

    Howard et al., *MobileNets*, 2017, Table 1.
    """
    net = Network(224, 224, batch="batch")
    value = net.relu(net.conv("x", 32, 3, 2, auto_pad="SAME_UPPER"))
    for stride, filters in MOBILENET_BLOCKS:
        channels = net.channels[value]
        value = net.relu(net.conv(value, channels, 3, stride, groups=channels, auto_pad="SAME_UPPER"))
        value = net.relu(net.conv(value, filters, 1))
    value = net.add("Flatten", [net.add("GlobalAveragePool", [value])])
    net.add("MatMul", [value, net.weight(1024, 1001)])
    return net
