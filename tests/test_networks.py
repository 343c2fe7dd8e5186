"""The network tables in data/networks against published figures, and what the reader refuses."""

from itertools import pairwise
from pathlib import Path

import pandas as pd
import pytest

from accelperf.errors import InputError
from accelperf.layers import CONVOLUTION, shape_key
from accelperf.networks import NETWORK_COLUMNS, find_network, read_network

DATA = Path(__file__).parents[1] / "data" / "networks"

ATOL_GMAC = 0.0005
"""Published operation counts are given to three decimals of 10^9 multiply-accumulates."""
ATOL_BFLOP = 0.005
"""Darknet prints two decimals of 10^9 floating point operations."""


@pytest.fixture(scope="module")
def resnet50():
    return read_network(DATA / "resnet50.csv")


@pytest.fixture(scope="module")
def yolov3():
    return read_network(DATA / "yolov3.csv")


@pytest.fixture(scope="module")
def ssd300():
    return read_network(DATA / "ssd300.csv")


def weights(table: pd.DataFrame) -> pd.Series:
    kernel = table["kernel_height"] * table["kernel_width"]
    return kernel * table["input_channels"] // table["groups"] * table["output_channels"]


def macs(table: pd.DataFrame) -> pd.Series:
    return weights(table) * table["output_height"] * table["output_width"]


def filters_kernel_stride(table: pd.DataFrame) -> list[tuple[int, int, int]]:
    return list(zip(table["output_channels"], table["kernel_height"], table["stride_height"], strict=True))


@pytest.mark.parametrize(("name", "size"), [("resnet50", 224), ("yolov3", 416), ("ssd300", 300)])
def test_tables_hold_square_convolutions_of_an_rgb_image(name: str, size: int) -> None:
    table = read_network(DATA / f"{name}.csv")
    assert set(table["operator"]) == {CONVOLUTION}
    assert table.loc[0, ["input_height", "input_width", "input_channels"]].tolist() == [size, size, 3]
    for one, other in [
        ("input_height", "input_width"),
        ("output_height", "output_width"),
        ("kernel_height", "kernel_width"),
        ("stride_height", "stride_width"),
        ("dilation_height", "dilation_width"),
        ("pad_top", "pad_bottom"),
        ("pad_top", "pad_left"),
        ("pad_top", "pad_right"),
    ]:
        assert table[one].equals(table[other].rename(one)), (one, other)
    assert (table["groups"] == 1).all()


def test_resnet50_totals_are_the_published_ones(resnet50: pd.DataFrame) -> None:
    # torchvision, ResNet50_Weights: 25 557 032 parameters and 4.089 GMAC, which also count two numbers
    # a channel of batch normalisation and the classifier of 2048 x 1000 weights and 1000 biases.
    assert len(resnet50) == 53
    parameters = weights(resnet50).sum() + 2 * resnet50["output_channels"].sum() + 2048 * 1000 + 1000
    assert parameters == 25_557_032
    assert (macs(resnet50).sum() + 2048 * 1000) / 1e9 == pytest.approx(4.089, abs=ATOL_GMAC)
    assert shape_key(resnet50).nunique() == 23


def test_resnet50_is_version_1_5(resnet50: pd.DataFrame) -> None:
    expected = [(64, 7, 2)]
    for blocks, width, stride in [(3, 64, 1), (4, 128, 2), (6, 256, 2), (3, 512, 2)]:
        bottleneck = [(width, 1, 1), (width, 3, 1), (4 * width, 1, 1)]
        # Version 1.5 halves the size in the 3x3 convolution; the shortcut of a stage is a convolution.
        expected += [(width, 1, 1), (width, 3, stride), (4 * width, 1, 1), (4 * width, 1, stride)]
        expected += bottleneck * (blocks - 1)
    assert filters_kernel_stride(resnet50) == expected
    downsample = resnet50["layer"].str.contains("downsample")
    assert downsample.sum() == 4
    # Along the main path every layer takes what the one before gives; the pool after conv1 halves.
    path = resnet50[~downsample].reset_index(drop=True)
    assert path["input_channels"][1:].tolist() == path["output_channels"][:-1].tolist()
    assert path["input_height"][2:].tolist() == path["output_height"][1:-1].tolist()
    assert (path["output_height"][0], path["input_height"][1]) == (112, 56)


def test_yolov3_totals_are_the_published_ones(yolov3: pd.DataFrame) -> None:
    # Darknet prints 65.86 BFLOPs at 416 x 416, two for a multiply-accumulate. The published
    # yolov3.weights of 248 007 048 bytes holds a header of 20 bytes and 62 001 757 floats: the
    # weights, four numbers a filter where there is batch normalisation and one in the three outputs.
    assert len(yolov3) == 75
    outputs = yolov3["output_channels"] == 255
    assert outputs.sum() == 3
    per_filter = (4 * yolov3["output_channels"]).where(~outputs, yolov3["output_channels"])
    assert 20 + 4 * (weights(yolov3).sum() + per_filter.sum()) == 248_007_048
    assert 2 * macs(yolov3).sum() / 1e9 == pytest.approx(65.86, abs=ATOL_BFLOP)


def test_yolov3_follows_its_darknet_configuration(yolov3: pd.DataFrame) -> None:
    expected = [(32, 3, 1)]
    for blocks, width in [(1, 64), (2, 128), (8, 256), (8, 512), (4, 1024)]:
        expected += [(width, 3, 2), *[(width // 2, 1, 1), (width, 3, 1)] * blocks]
    for width in (512, 256, 128):
        expected += [*[(width, 1, 1), (2 * width, 3, 1)] * 3, (255, 1, 1), (width // 2, 1, 1)]
    assert filters_kernel_stride(yolov3) == expected[:-1]  # nothing is upsampled after the last output
    # Names carry Darknet's layer numbers; inputs that are not the output of the convolution before
    # come from a route: back past the output, or beside an earlier map after upsampling.
    by_name = yolov3.set_index("layer")
    routes = {"conv_84": 512, "conv_87": 256 + 512, "conv_96": 256, "conv_99": 128 + 256}
    names = list(by_name.index)
    for before, name in pairwise(names):
        channels = routes.get(name, by_name.loc[before, "output_channels"])
        assert by_name.loc[name, "input_channels"] == channels, name
    sizes = [int(by_name.loc[name, "output_height"]) for name in ("conv_81", "conv_93", "conv_105")]
    assert sizes == [13, 26, 52]
    assert (names[0], names[-1]) == ("conv_0", "conv_105")


def test_ssd300_totals_are_the_published_ones(ssd300: pd.DataFrame) -> None:
    # torchvision, SSD300_VGG16_Weights: 35 641 826 parameters and 34.858 GMAC for the 91 classes of
    # COCO. That counts biases, the 512 scales of the L2 normalisation, and the prediction heads that
    # the table leaves out: 3x3 convolutions of 91 + 4 numbers for each box of the six maps.
    assert len(ssd300) == 23
    heads = pd.DataFrame(
        {
            "channels": [512, 1024, 512, 256, 256, 256],
            "boxes": [4, 6, 6, 6, 4, 4],
            "size": [38, 19, 10, 5, 3, 1],
        }
    )
    filters = heads["boxes"] * (91 + 4)
    head_weights = 9 * heads["channels"] * filters
    parameters = weights(ssd300).sum() + ssd300["output_channels"].sum() + 512
    assert parameters + head_weights.sum() + filters.sum() == 35_641_826
    gmac = (macs(ssd300).sum() + (head_weights * heads["size"] ** 2).sum()) / 1e9
    assert gmac == pytest.approx(34.858, abs=ATOL_GMAC)


def test_ssd300_is_vgg16_with_its_extra_layers(ssd300: pd.DataFrame) -> None:
    vgg16 = [64] * 2 + [128] * 2 + [256] * 3 + [512] * 6
    expected = [(filters, 3, 1) for filters in vgg16] + [(1024, 3, 1), (1024, 1, 1)]
    expected += [(256, 1, 1), (512, 3, 2), (128, 1, 1), (256, 3, 2)] + [(128, 1, 1), (256, 3, 1)] * 2
    assert filters_kernel_stride(ssd300) == expected
    assert ssd300["input_channels"][1:].tolist() == ssd300["output_channels"][:-1].tolist()
    by_name = ssd300.set_index("layer")
    maps = ["conv4_3", "fc7", "conv6_2", "conv7_2", "conv8_2", "conv9_2"]
    assert by_name.loc[maps, "output_height"].tolist() == [38, 19, 10, 5, 3, 1]
    # 75 becomes 38, not 37: the pool after conv3_3 rounds up.
    assert (by_name.loc["conv3_3", "output_height"], by_name.loc["conv4_1", "input_height"]) == (75, 38)
    assert by_name.loc["fc6", ["dilation_height", "pad_top", "input_height"]].tolist() == [6, 6, 19]


def change(folder: Path, **values: int | str) -> Path:
    table = read_network(DATA / "ssd300.csv").astype(object)
    for column, value in values.items():
        table.loc[1, column] = value
    path = folder / "mine.csv"
    table.to_csv(path, index=False)
    return path


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("output_height", 299, r"mine\.csv:3: expected output_height = 300 .*got 299"),
        ("kernel_width", 0, r"mine\.csv:3: .*kernel_width"),
        ("groups", 7, r"mine\.csv:3: .*divisible by groups = 7"),
        ("layer", "conv1_1", r"mine\.csv"),
        ("stride_height", "two", r"mine\.csv"),
    ],
)
def test_wrong_table_is_one_clear_line(tmp_path: Path, column: str, value: int | str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read_network(change(tmp_path, **{column: value}))
    assert "\n" not in str(caught.value)


def test_missing_file_column_and_rows(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.csv: .*no file of this name"):
        read_network(tmp_path / "none.csv")
    path = tmp_path / "mine.csv"
    path.write_text(",".join(NETWORK_COLUMNS) + "\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"mine\.csv"):
        read_network(path)
    path.write_text("layer,operator\nconv1,conv\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"mine\.csv:1: expected a column 'input_height'"):
        read_network(path)


def test_find_network() -> None:
    assert find_network("yolov3", DATA) == DATA / "yolov3.csv"
    with pytest.raises(InputError, match=r"resnet50, ssd300, yolov3, got 'alexnet'"):
        find_network("alexnet", DATA)
