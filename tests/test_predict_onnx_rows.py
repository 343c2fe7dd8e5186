"""Matrix products of ONNX models: as many rows as one image has, or named as unknown."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("onnx", reason="the extra onnx is not installed")

from onnx import TensorProto, helper

from accelperf.models.predictors import StandardPredictor
from accelperf.onnx_network import UNKNOWN_ROWS, read_onnx
from accelperf.platforms import read_platform
from accelperf.predict import Model, predict_network
from tests.conftest import ROOT
from tests.tolerances import EXACT_ALGEBRA

PLATFORM = read_platform(ROOT / "data/platforms/sim-table4.yaml")


def product(folder: Path, shape: list[int | str]) -> Path:
    """Write a model that multiplies an input of some shape with weights of 64 x 128."""
    weights = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[64, 128])
    weights.data_location = TensorProto.EXTERNAL
    weights.external_data.add(key="location", value="absent.bin")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"], name="product")],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [weights],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = folder / "product.onnx"
    path.write_bytes(model.SerializeToString())
    return path


@pytest.mark.parametrize(
    ("shape", "rows"),
    [([1, 64], 1), (["N", 64], 1), ([1, 197, 64], 197), (["N", 12, 5, 64], 60), ([1, "tokens", 64], None)],
)
def test_rows_of_one_image(tmp_path: Path, shape: list[int | str], rows: int | None) -> None:
    table = read_onnx(product(tmp_path, shape))
    row = table.iloc[0]
    if rows is None:
        assert row["operator"] == UNKNOWN_ROWS
        return
    assert row["operator"] == "matmul"
    assert (row["input_height"], row["input_width"], row["output_width"]) == (1, rows, rows)


def test_as_many_products_as_rows(tmp_path: Path) -> None:
    model = Model(StandardPredictor("tiled"), "analytic", None)
    fast = PLATFORM.model_copy(update={"memory_ports": 65536})
    found = predict_network("n", read_onnx(product(tmp_path, [1, 197, 64])), fast, model)
    # 64 x 64 products a cycle at 200 MHz; what it loads and stores takes next to nothing here.
    assert found.layers["latency_ms"][0] == pytest.approx(197 * 64 * 128 / (64 * 64 * 200e3), rel=0.05)
    one = predict_network("n", read_onnx(product(tmp_path, [1, 64])), fast, model)
    terms = found.layers["latency_ms"][0] / one.layers["latency_ms"][0]
    assert 1 + EXACT_ALGEBRA < terms <= 197
