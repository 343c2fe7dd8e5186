"""TVM tuning logs of VTA: packed sizes, two generations of records, and whose rows they are."""

from __future__ import annotations

import doctest
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from accelperf.errors import InputError
from accelperf.logs import read_folder, read_profiles, tvm
from accelperf.platforms import read_platforms
from tests.logs.samples import GOLDEN

RTOL_UNITS = 1e-12
"""A few operations on seconds."""

PLATFORMS = read_platforms(GOLDEN / "platforms")
CONFIGURATION = "pynq_1x16_i8w8a32_15_15_18_17"
TARGET = f"ext_dev -device=vta -keys=cpu -model={CONFIGURATION}"
RUN = "origin: measured\nplatform: vta-1x16\nnetwork: net\n"

DATA = ["TENSOR", [1, 2, 28, 28, 1, 16], "int8"]
WEIGHTS = ["TENSOR", [4, 2, 3, 3, 16, 16], "int8"]
ARGUMENTS = [DATA, WEIGHTS, [1, 1], [1, 1, 1, 1], [1, 1], "NCHW1n16c", "int32"]


@pytest.fixture
def copy(tmp_path):
    """Return a function that copies a golden folder, to break."""

    def copied(name: str) -> Path:
        return Path(shutil.copytree(GOLDEN / "tvm" / name, tmp_path / name))

    return copied


def record(
    *,
    target: str = TARGET,
    task: str = "conv2d_packed.vta",
    arguments: list | None = None,
    costs: list | None = None,
    error: int = 0,
) -> str:
    value = {
        "input": [target, task, ARGUMENTS if arguments is None else arguments, {}],
        "config": {},
        "result": [[0.003] if costs is None else costs, error, 1.5, 1.6e9],
    }
    return json.dumps(value) + "\n"


def changed(index: int, value: object) -> list:
    """Return the arguments of a convolution with one of them replaced."""
    return [*ARGUMENTS[:index], value, *ARGUMENTS[index + 1 :]]


def written(folder: Path, text: str, run: str = RUN) -> Path:
    (folder / "log.json").write_text(text, encoding="utf-8")
    (folder / "run.yaml").write_text(run, encoding="utf-8")
    return folder


def test_packed_sizes_are_unpacked_and_seconds_become_milliseconds(copy):
    table, (report,) = read_profiles(copy("new"), PLATFORMS)
    assert table["layer"].tolist() == [
        "conv_32x28x28_64_k3_p1",
        "conv_64x28x24_32_k3x5_s2x1_p0x1x1x2",
        "conv_64x14x14_64_k3_p1_g4",
        "conv_32x28x28_64_k3_p1",
    ]
    np.testing.assert_allclose(table["latency_ms"], [2.9, 5.0, 1.1, 12.5], rtol=RTOL_UNITS)
    second = table.iloc[1]
    assert (second["input_channels"], second["input_height"], second["input_width"]) == (64, 28, 24)
    assert (second["output_channels"], second["kernel_height"], second["kernel_width"]) == (32, 3, 5)
    assert (second["stride_height"], second["stride_width"]) == (2, 1)
    assert (second["output_height"], second["output_width"]) == (14, 23)
    assert report.rows_read == 9


def test_four_paddings_are_top_left_bottom_right(copy):
    second = read_profiles(copy("new"), PLATFORMS)[0].iloc[1]
    pads = [second[f"pad_{side}"] for side in ("top", "left", "bottom", "right")]
    assert pads == [0, 1, 1, 2]


def test_costs_of_several_runs_become_mean_and_spread(copy):
    second = read_profiles(copy("new"), PLATFORMS)[0].iloc[1]
    assert second["repeats"] == 3
    np.testing.assert_allclose(second["latency_std_ms"], 1.0, rtol=RTOL_UNITS)


def test_networks_stand_in_comments_and_configurations_in_the_target(copy):
    table, _ = read_profiles(copy("new"), PLATFORMS)
    assert table["accelerator"].tolist() == ["vta-1x16"] * 3 + ["vta-4x8"]
    assert table["network"].tolist() == ["Alpha-net"] * 3 + ["Beta net"]
    assert table["position"].tolist() == [0, 1, 2, 0]
    assert table["source_line"].tolist() == [2, 3, 4, 10]


def test_groups_are_those_of_the_record(copy):
    third = read_profiles(copy("new"), PLATFORMS)[0].iloc[2]
    assert (third["groups"], third["input_channels"], third["output_channels"]) == (4, 64, 64)


def test_other_operators_cpu_rows_and_several_blocks_of_images_are_counted(copy):
    _, (report,) = read_profiles(copy("new"), PLATFORMS)
    assert report.skipped == {
        "operator dense": 1,
        "operator conv2d_transpose": 1,
        "target llvm": 2,
        "batch of 8 images (4 at once)": 1,
    }


def test_the_first_generation_has_other_keys_names_and_arguments(copy):
    table, (report,) = read_profiles(copy("old"), PLATFORMS)
    assert table["network"].unique().tolist() == ["gamma"]
    assert table["layer"].tolist() == ["conv_32x28x28_64_k3_p1", "conv_64x14x14_128_k1_s2"]
    np.testing.assert_allclose(table["latency_ms"], [2.9, 0.7], rtol=RTOL_UNITS)
    assert table["pad_right"].tolist() == [1, 0]
    assert report.skipped == {"operator dense": 1}


def test_the_best_schedule_is_kept_and_failed_trials_and_simulators_are_not(copy):
    found = read_folder(copy("trials"), PLATFORMS)
    assert found.layers["source_line"].tolist() == [4]
    np.testing.assert_allclose(found.layers["latency_ms"], [3.1], rtol=RTOL_UNITS)
    assert found.reports[0].skipped == {
        "measurement error 4": 1,
        "slower schedule of the same layer": 2,
        "not_positive": 1,
        "target tsim (a simulator)": 1,
    }
    assert [(each.code, each.line) for each in found.findings] == [("not_positive", 6)]


def test_a_comment_that_names_no_network_ends_the_one_before(tmp_path):
    text = f"# Alpha - {CONFIGURATION}\n{record()}# tuned again\n{record(costs=[0.002])}"
    written(tmp_path, text, RUN.replace("network: net\n", ""))
    with pytest.raises(
        InputError, match=r"log\.json:4: expected a comment '# network - target' above, or the key 'network'"
    ):
        read_profiles(tmp_path, PLATFORMS)


def test_run_yaml_names_one_network_but_not_several(tmp_path):
    one = f"# Alpha - {CONFIGURATION}\n{record()}"
    assert set(read_profiles(written(tmp_path, one), PLATFORMS)[0]["network"]) == {"net"}
    with pytest.raises(InputError, match=r"run\.yaml:3: expected no key 'network', since .* Alpha, Beta"):
        read_profiles(written(tmp_path, f"{one}# Beta - {CONFIGURATION}\n{record()}"), PLATFORMS)


def test_a_comment_of_another_configuration_is_a_contradiction(tmp_path):
    text = "# Alpha - pynq_4x8_i8w8a32_15_16_16_18\n" + record()
    with pytest.raises(
        InputError, match=rf":2: expected configuration pynq_4x8.* above, got {CONFIGURATION}"
    ):
        read_profiles(written(tmp_path, text), PLATFORMS)


def test_one_platform_cannot_serve_two_configurations(tmp_path):
    four = [["TENSOR", [1, 4, 28, 28, 4, 8], "int8"], ["TENSOR", [8, 4, 1, 1, 8, 8], "int8"], *ARGUMENTS[2:5]]
    other = record(target=TARGET.replace(CONFIGURATION, "pynq_4x8_i8w8a32_15_16_16_18"), arguments=four)
    with pytest.raises(
        InputError, match=r"run\.yaml:2: expected the key 'platforms: \{configuration: platform\}'"
    ):
        read_profiles(written(tmp_path, record() + other), PLATFORMS)
    run = "origin: measured\nnetwork: net\nplatforms:\n  pynq_4x8_i8w8a32_15_16_16_18: vta-4x8\n"
    with pytest.raises(
        InputError, match=rf"log\.json:1: expected a configuration listed .*, got '{CONFIGURATION}'"
    ):
        read_profiles(written(tmp_path, record() + other, run), PLATFORMS)


def test_the_platform_has_the_matrix_unit_of_the_configuration(tmp_path):
    with pytest.raises(
        InputError,
        match=r"run\.yaml:2: expected a platform with filter_parallelism 16 .*, got 'vta-4x8' with 8 and 8",
    ):
        read_profiles(written(tmp_path, record(), RUN.replace("1x16", "4x8")), PLATFORMS)


BROKEN = {
    "cut": (record()[:-30], r"expected JSON, got expecting"),
    "NaN": (record(costs=[float("nan")]), r"expected a finite number, got NaN"),
    "a text cost": (record(costs=["0.003"]), r"expected costs: a list of seconds, got \['0\.003'\]"),
    "no cost": (record(costs=[]), r"expected costs: a list of seconds, got \[\]"),
    "two records on a line": (record().strip() + record(), r"expected one JSON value, got more after it"),
    "another tool": (
        '{"i": [["[\\"key\\"]", "llvm"], [[], []]], "r": [[0.1], 0, 1, 2], "v": "v0.6"}\n',
        r"expected an AutoTVM record, got a tuning record of another tool",
    ),
    "no record": ('{"a": 1}\n', r"expected an AutoTVM record, got no keys of a tuning record"),
    "too few arguments": (record(arguments=ARGUMENTS[:3]), r"expected arguments .*, got 3 arguments"),
    "unpacked": (
        record(arguments=changed(0, ["TENSOR", [1, 32, 28, 28], "int8"])),
        r"expected data: a packed shape of 6 whole numbers from 1 to 1000000, got \[1, 32, 28, 28\]",
    ),
    "half a channel": (
        record(arguments=changed(0, ["TENSOR", [1, 2.5, 28, 28, 1, 16], "int8"])),
        r"expected data: a packed shape of 6 whole numbers",
    ),
    "a size of 0": (
        record(arguments=changed(0, ["TENSOR", [1, 2, 0, 28, 1, 16], "int8"])),
        r"expected data: a packed shape of 6 whole numbers from 1",
    ),
    "three paddings": (
        record(arguments=changed(3, [1, 1, 1])),
        r"expected padding of 2 or 4 whole numbers from 0 to 1000000, got \[1, 1, 1\]",
    ),
    "other channels": (
        record(arguments=changed(1, ["TENSOR", [4, 3, 3, 3, 16, 16], "int8"])),
        r"expected weights for 32 channels in blocks of 16 and 1 groups, got 3 x 16 channels",
    ),
    "other blocks than the layout": (
        record(arguments=changed(5, "NCHW1n8c")),
        r"expected blocks of 1 x 8 as in NCHW1n8c, got 1 x 16",
    ),
    "other blocks than the target": (
        record(target=TARGET.replace("1x16", "2x16")),
        r"expected blocks of 2 x 16 as in pynq_2x16\S*, got 1 x 16",
    ),
    "kernel over input": (
        record(arguments=changed(1, ["TENSOR", [4, 2, 99, 3, 16, 16], "int8"])),
        r"expected output_height of 1 or more on a convolution",
    ),
    "no groups": (
        record(task="group_conv2d_packed.vta", arguments=ARGUMENTS[:5]),
        r"expected a number of groups, got nothing",
    ),
    "an error that is no number": (record(error="none"), r"expected an error number, got none"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_records(tmp_path, name):
    text, message = BROKEN[name]
    written(tmp_path, record() + text, RUN + "format: tvm\n")
    with pytest.raises(InputError, match=rf"log\.json:2: {message}"):
        read_profiles(tmp_path, PLATFORMS)


def test_comments_alone_are_no_log(tmp_path):
    written(tmp_path, "# Alpha - pynq\n", RUN + "format: tvm\n")
    with pytest.raises(InputError, match=r"log\.json: expected at least one tuning record, got none"):
        read_profiles(tmp_path, PLATFORMS)


def test_a_line_longer_than_any_record_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(tvm, "_LONGEST_LINE", 1000)
    written(tmp_path, record() + "#" * 2000, RUN + "format: tvm\n")
    with pytest.raises(InputError, match=r"log\.json:2: expected lines of fewer than 1000 characters"):
        read_profiles(tmp_path, PLATFORMS)


NOT_RECOGNISED = {
    "": "no line of JSON",
    "#\n" * 1001: "nothing but comments",
    "layer,latency_ms\n": "no JSON object on the first line",
    "[1]\n": "no JSON object on the first line",
    '{"input": 1}\n': r"no keys of a tuning record (input and result, or i and r)",
    '{"i": [["x"]], "r": []}\n': "a tuning record of another tool than AutoTVM",
}


@pytest.mark.parametrize("text", NOT_RECOGNISED, ids=range(len(NOT_RECOGNISED)))
def test_recognition_says_why_not(tmp_path, text):
    path = tmp_path / "log"
    path.write_text(text)
    assert tvm.recognises(path) == NOT_RECOGNISED[text]


@pytest.fixture(scope="module")
def public_log(real_data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tophub")
    shutil.copy(real_data / "tophub_vta" / "vta_v0.10.log", folder)
    (folder / "run.yaml").write_text(
        "origin: measured\n"
        "platforms:\n"
        f"  {CONFIGURATION}: vta-1x16\n"
        "  pynq_4x8_i8w8a32_15_16_16_18: vta-4x8\n"
    )
    return read_folder(folder, PLATFORMS)


def test_the_public_log_gives_the_convolutions_of_vta(public_log):
    (report,) = public_log.reports
    assert report.rows_read == 106
    skipped = {"target llvm": 6, "operator dense": 2, "operator conv2d_transpose": 3}
    assert report.skipped == skipped | {"faster_than_compute": 9}
    counts = public_log.layers.groupby(["accelerator", "network"]).size().to_dict()
    assert counts == {
        ("vta-1x16", "Alexnet"): 4,
        ("vta-1x16", "MobileNet-G"): 9,
        ("vta-1x16", "Resnet-18"): 10,
        ("vta-1x16", "Resnet-50"): 22,
        ("vta-1x16", "VGG"): 7,
        ("vta-1x16", "Yolo-tiny"): 2,
        ("vta-4x8", "Resnet-18"): 10,
        ("vta-4x8", "Resnet-50"): 22,
    }
    first = public_log.layers[public_log.layers["source_line"] == 79].iloc[0]
    assert (first["input_channels"], first["output_channels"], first["input_height"]) == (64, 64, 56)
    np.testing.assert_allclose(first["latency_ms"], 21.3515438, rtol=RTOL_UNITS)


def test_physics_refutes_nine_rows_of_yolo_tiny_and_no_other(public_log):
    lines = [each.line for each in public_log.by_code()["faster_than_compute"]]
    assert lines == [2, 3, 4, 5, 6, 7, 9, 10, 12]
    assert {each.network for each in public_log.by_code()["faster_than_compute"]} == {"Yolo-tiny"}


def test_ten_times_stand_under_two_networks(public_log):
    repeated = public_log.by_code()["mislabelled_repeats"]
    assert {each.line for each in repeated if each.network == "Resnet-18"} == set(range(16, 26))
    assert {each.network for each in repeated} == {"Resnet-18", "Yolo-tiny"}


def test_the_examples_are_true():
    assert doctest.testmod(tvm).failed == 0
