"""ONNX models as descriptions of networks: published networks, and what exporters leave unsaid."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from accelperf.errors import InputError
from accelperf.layers import output_size
from accelperf.networks import NETWORK_COLUMNS, read_network

onnx = pytest.importorskip("onnx", reason="the extra onnx is not installed")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from accelperf.onnx_network import read_onnx  # noqa: E402
from tests.onnx_models import MOBILENET_BLOCKS, Network, mobilenet_v1, resnet50, yolov3  # noqa: E402

NETWORKS = Path(__file__).parents[1] / "data" / "networks"


def saved(model: onnx.ModelProto, folder: Path) -> Path:
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path


@pytest.mark.parametrize(("name", "build"), [("resnet50", resnet50), ("yolov3", yolov3)])
def test_published_networks_are_those_of_the_tables(tmp_path, name, build):
    table = read_onnx(build().save(tmp_path / f"{name}.onnx"))
    assert tuple(table.columns) == NETWORK_COLUMNS
    convolutions = table[table["operator"] == "conv"].reset_index(drop=True)
    expected = read_network(NETWORKS / f"{name}.csv")
    assert convolutions.to_dict("list") == expected.to_dict("list")


def test_the_fully_connected_layer_is_named_by_its_operator(tmp_path):
    last = read_onnx(resnet50().save(tmp_path / "m.onnx")).iloc[-1]
    assert (last["layer"], last["operator"]) == ("fc", "gemm")
    assert (last["input_channels"], last["output_channels"], last["output_height"]) == (2048, 1000, 1)
    last = read_onnx(mobilenet_v1().save(tmp_path / "m.onnx")).iloc[-1]
    assert (last["operator"], last["input_channels"], last["output_channels"]) == ("matmul", 1024, 1001)


def test_mobilenet_has_groups_and_padding_at_the_end(tmp_path):
    table = read_onnx(mobilenet_v1().save(tmp_path / "m.onnx"))
    convolutions = table[table["operator"] == "conv"]
    assert len(convolutions) == 1 + 2 * len(MOBILENET_BLOCKS)
    first, depthwise = convolutions.iloc[0], convolutions.iloc[1::2]
    # 224 pixels at stride 2 need one pixel of padding, at the end.
    assert (first["pad_top"], first["pad_bottom"], first["pad_left"], first["pad_right"]) == (0, 1, 0, 1)
    assert depthwise["groups"].tolist() == depthwise["input_channels"].tolist()
    assert depthwise["output_height"].tolist() == [112, 56, 56, 28, 28, 14, 14, 14, 14, 14, 14, 7, 7]
    weights = convolutions["kernel_height"] ** 2 * convolutions["input_channels"] / convolutions["groups"]
    operations = weights * convolutions["output_channels"] * convolutions["output_height"] ** 2
    # Table 8 of the paper: 569 million multiply-adds, of which 1 million are the classifier's.
    np.testing.assert_allclose(operations.sum(), 568e6, rtol=1e-3)


def test_nodes_without_names_are_called_as_onnx_runtime_calls_them(tmp_path):
    net = Network(8, 8)
    constant = numpy_helper.from_array(np.array([1, 3, 8, 8]), "shape")
    shape = net.add("Constant", [], value=constant)
    value = net.add("Reshape", ["x", shape], channels=3)
    value = net.conv(value, 4, 1)
    value = net.conv(net.relu(value), 4, 1, name="named")
    net.conv(value, 4, 1)
    table = read_onnx(net.save(tmp_path / "m.onnx"))
    # Constants are no nodes any more when ONNX Runtime counts.
    assert table["layer"].tolist() == ["Conv_1", "named", "Conv_4"]


@pytest.mark.parametrize(
    ("attributes", "pads", "outputs"),
    [
        ({"auto_pad": "SAME_UPPER", "strides": [2, 3]}, (0, 1, 0, 1), (7, 4)),
        ({"auto_pad": "SAME_LOWER", "strides": [2, 3]}, (1, 0, 1, 0), (7, 4)),
        ({"auto_pad": "SAME_UPPER", "dilations": [2, 3]}, (2, 2, 3, 3), (14, 11)),
        ({"auto_pad": "VALID", "strides": [2, 3]}, (0, 0, 0, 0), (6, 3)),
        ({"auto_pad": "NOTSET", "pads": [0, 1, 2, 3]}, (0, 2, 1, 3), (14, 13)),
        ({"pads": [0, 0, 1, 1]}, (0, 1, 0, 1), (13, 10)),
        ({}, (0, 0, 0, 0), (12, 9)),
    ],
)
def test_padding_is_resolved(tmp_path, attributes, pads, outputs):
    net = Network(14, 11)
    net.add("Conv", ["x", net.weight(8, 3, 3, 3)], "c", 8, **attributes)
    row = read_onnx(net.save(tmp_path / "m.onnx")).iloc[0]
    assert (row["pad_top"], row["pad_bottom"], row["pad_left"], row["pad_right"]) == pads
    assert (row["output_height"], row["output_width"]) == outputs
    for axis, before, after in (("height", "pad_top", "pad_bottom"), ("width", "pad_left", "pad_right")):
        sizes = (row[f"{each}_{axis}"] for each in ("input", "kernel", "stride"))
        follows = output_size(*sizes, row[before], row[after], row[f"dilation_{axis}"])
        assert row[f"output_{axis}"] == follows


def test_sizes_agree_with_onnx_s_own_inference(tmp_path):
    net = mobilenet_v1()
    inferred = onnx.shape_inference.infer_shapes(net.model(), data_prop=True)
    shapes = {
        value.name: [each.dim_value for each in value.type.tensor_type.shape.dim]
        for value in inferred.graph.value_info
    }
    table = read_onnx(net.save(tmp_path / "m.onnx"))
    expected = [shapes[node.output[0]][2:] for node in net.nodes if node.op_type == "Conv"]
    convolutions = table[table["operator"] == "conv"]
    assert convolutions[["output_height", "output_width"]].to_numpy().tolist() == expected


def test_unsupported_convolutions_are_named(tmp_path):
    net = Network(9, 7)
    net.add("ConvTranspose", ["x", net.weight(3, 4, 2, 2)], "up", 8, strides=[2, 2], group=1)
    net.inputs.append(helper.make_tensor_value_info("sound", TensorProto.FLOAT, ["N", 4, 100]))
    net.channels["sound"] = 4
    net.add("Conv", ["sound", net.weight(8, 4, 5)], "one", 8, strides=[3])
    net.inputs.append(helper.make_tensor_value_info("volume", TensorProto.FLOAT, ["N", 4, 10, 20, 30]))
    net.channels["volume"] = 4
    net.add("Conv", ["volume", net.weight(8, 4, 3, 3, 5)], "three", 8)
    table = read_onnx(net.save(tmp_path / "m.onnx")).set_index("layer")
    assert table["operator"].to_dict() == {"up": "convtranspose", "one": "conv1d", "three": "conv3d"}
    assert table.loc["up", ["output_height", "output_width", "output_channels"]].tolist() == [18, 14, 4]
    assert table.loc["one", ["input_height", "input_width", "output_width", "stride_width"]].tolist() == [
        1,
        100,
        32,
        3,
    ]
    assert table.loc["three", ["input_height", "input_width", "kernel_width", "output_width"]].tolist() == [
        20,
        30,
        5,
        26,
    ]


def test_quantised_convolutions_have_their_weights_elsewhere(tmp_path):
    net = Network(8, 8)
    weights = numpy_helper.from_array(np.zeros((4, 3, 3, 3), np.int8), "wq")
    one = numpy_helper.from_array(np.float32(1), "one")
    zero = numpy_helper.from_array(np.uint8(0), "zero")
    signed = numpy_helper.from_array(np.int8(0), "signed")
    net.weights += [weights, one, zero, signed]
    value = net.add("QuantizeLinear", ["x", "one", "zero"], channels=3)
    inputs = [value, "one", "zero", "wq", "one", "signed", "one", "zero"]
    net.add("QLinearConv", inputs, "q", 4, pads=[1, 1, 1, 1])
    row = read_onnx(net.save(tmp_path / "m.onnx")).iloc[0]
    assert (row["operator"], row["output_channels"], row["output_height"]) == ("conv", 4, 8)


def test_weights_may_come_through_other_nodes(tmp_path):
    net = Network(8, 8)
    net.weights += [
        numpy_helper.from_array(np.zeros((40, 3, 3, 3), np.int8), "wq"),
        numpy_helper.from_array(np.float32(1), "one"),
    ]
    weights = net.add("DequantizeLinear", ["wq", "one"])
    net.add("Conv", ["x", weights], "c", 40)
    row = read_onnx(net.save(tmp_path / "m.onnx")).iloc[0]
    assert (row["output_channels"], row["kernel_height"], row["output_height"]) == (40, 3, 6)


def test_a_product_of_two_activations_is_no_layer(tmp_path):
    net = Network(8, 8)
    net.add("MatMul", [net.conv("x", 4, 1, name="c"), net.relu("x")])
    assert read_onnx(net.save(tmp_path / "m.onnx"))["layer"].tolist() == ["c"]


def broken_networks() -> dict[str, tuple[Network, str]]:
    """Return networks that contradict themselves, by name, and what must be said."""
    cases: dict[str, tuple[Network, str]] = {}

    def case(name: str, message: str, **of_input: object) -> Network:
        net = Network(of_input.pop("height", 8), 8, **of_input)  # type: ignore[arg-type]
        cases[name] = net, message
        return net

    net = case(
        "height unknown",
        r"node 'c' \(Conv\): a known shape of the input 'x', got 1 x 3 x \? x 8",
        height="H",
    )
    net.conv("x", 4, 3, name="c")
    net = case("kernel_shape", r"node 'c' \(Conv\): kernel_shape \[3, 3\], as the weights, got \[5, 5\]")
    net.conv("x", 4, 3, name="c", kernel_shape=[5, 5])
    net = case("auto_pad", r"node 'c' \(Conv\): auto_pad NOTSET, VALID, .*, got SAME")
    net.conv("x", 4, 3, name="c", auto_pad="SAME")
    net = case("pads", r"node 'c' \(Conv\): pads of 4 whole numbers, got \[1, 1\]")
    net.conv("x", 4, 3, name="c", pads=[1, 1])
    net = case("negative pads", r"node 'c' \(Conv\): pads of 0 or more, got \[1, 1, -1, 1\]")
    net.conv("x", 4, 3, name="c", pads=[1, 1, -1, 1])
    net = case("stride 0", r"node 'c' \(Conv\): strides and dilations of 1 or more, got \[0, 1\]")
    net.conv("x", 4, 3, name="c", strides=[0, 1])
    net = case("channels", r"node 'c' \(Conv\): weights for 3 input channels in 1 groups, got 5 a group")
    net.add("Conv", ["x", net.weight(4, 5, 3, 3)], "c", 4)
    net = case("kernel over input", r"node 'c' \(Conv\): output_height of 1 or more on a convolution, got")
    net.conv("x", 4, 9, name="c", pads=[0] * 4)
    net = case("no weights", r"node 'c' \(Conv\): the weights, input 1, got none")
    net.add("Conv", ["x"], "c", 4)
    net = case("unknown weights", r"node 'c' \(Conv\): a known shape of the weights 'nowhere', got none")
    net.add("Conv", ["x", "nowhere"], "c", 4)
    net = case("custom operator", r"node 'c' \(Conv\): a known shape of the input 'v0', got none")
    net.conv(net.add("Mystery", ["x"], domain="org.example", channels=3), 4, 3, name="c")
    net = case("a name twice", r"expected node names that differ, got 'c' twice")
    net.conv(net.conv("x", 4, 3, name="c"), 4, 3, name="c")
    net = case("no layer", r"expected a model with convolutions or fully connected layers, got none")
    net.relu("x")
    return cases


@pytest.mark.parametrize("name", broken_networks())
def test_what_cannot_be_described_names_the_node(tmp_path, name):
    net, message = broken_networks()[name]
    with pytest.raises(InputError, match=rf"m\.onnx: expected .*{message.removeprefix('expected ')}"):
        read_onnx(net.save(tmp_path / "m.onnx"))


def test_files_that_are_no_models(tmp_path):
    path = tmp_path / "m.onnx"
    with pytest.raises(InputError, match=r"m\.onnx: expected an ONNX model, got No such file"):
        read_onnx(path)
    for content in (b"", b"layer,operator\n", b"\x08\x09", bytes(range(256)) * 4):
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"m\.onnx: expected an ONNX model"):
            read_onnx(path)


def test_cut_models_are_an_error_or_a_description(tmp_path):
    data = mobilenet_v1().model().SerializeToString()
    path = tmp_path / "m.onnx"
    for end in range(0, len(data), 97):
        path.write_bytes(data[:end])
        with pytest.raises(InputError):
            read_onnx(path)


def test_models_with_changed_bytes_are_an_error_or_a_description(tmp_path):
    data = resnet50().model().SerializeToString()
    path = tmp_path / "m.onnx"
    read = 0
    for seed in range(120):
        rng = np.random.default_rng(seed)
        changed = bytearray(data)
        for where in rng.integers(len(data), size=1):
            changed[where] = int(rng.integers(256))
        path.write_bytes(bytes(changed))
        try:
            read += len(read_onnx(path)) > 0
        except InputError as error:
            assert "\n" not in str(error)
    assert 0 < read < 120


def test_a_model_without_an_operator_set(tmp_path):
    model = mobilenet_v1().model()
    del model.opset_import[:]
    with pytest.raises(InputError, match=r"expected an ONNX model that names its operator set, got none"):
        read_onnx(saved(model, tmp_path))


def test_without_the_package_the_error_names_the_extra(tmp_path, monkeypatch):
    path = mobilenet_v1().save(tmp_path / "m.onnx")
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(
        InputError, match=r"m\.onnx: expected the package onnx, .*pip install accelperf\[onnx\]"
    ):
        read_onnx(path)
