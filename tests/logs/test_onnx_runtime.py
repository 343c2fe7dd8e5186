"""ONNX Runtime profiles: medians after the warm-up, and a profile taken here and now."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from accelperf.errors import InputError
from accelperf.logs import onnx_runtime, read_folder, read_profile, read_profiles
from accelperf.platforms import read_platforms
from tests.logs.samples import GOLDEN, PLATFORMS

DOCS = Path(__file__).parents[2] / "docs" / "logs"

RTOL_UNITS = 1e-12
"""A few operations on microseconds."""


@pytest.fixture
def copy(tmp_path):
    """Return a function that copies a golden folder, to break."""

    def copied(name: str) -> Path:
        return Path(shutil.copytree(GOLDEN / "onnx_runtime" / name, tmp_path / name))

    return copied


def events_of(folder: Path) -> list[dict[str, Any]]:
    return json.loads((folder / "profile.json").read_text())


def edit_events(
    folder: Path, edit: Callable[[dict[str, Any]], None], where: Callable[[dict[str, Any]], bool]
) -> None:
    """Change the events that fit, and write one a line as ONNX Runtime does."""
    events = events_of(folder)
    chosen = [event for event in events if where(event)]
    assert chosen
    for event in chosen:
        edit(event)
    write_events(folder, events)


def write_events(folder: Path, events: list[dict[str, Any]]) -> None:
    (folder / "profile.json").write_text("[\n" + ",\n".join(map(json.dumps, events)) + "\n]\n")


def named(name: str) -> Callable[[dict[str, Any]], bool]:
    return lambda event: event["name"] == f"{name}_kernel_time"


def setting(**changes: Any) -> Callable[[dict[str, Any]], None]:
    def edit(event: dict[str, Any]) -> None:
        for key, value in changes.items():
            target = event["args"] if key in ("op_name", "node_index", "input_type_shape") else event
            if value is None:
                del target[key]
            else:
                target[key] = value

    return edit


def test_the_median_of_the_runs_after_the_first(copy):
    table, _ = read_profiles(copy("current"), PLATFORMS)
    assert table["layer"].tolist() == ["conv_in", "Conv_3"]
    # Runs of 100, 104, 96 and 400 us after one of 900 us that warmed up.
    np.testing.assert_allclose(table["latency_ms"], [0.102, 0.050], rtol=RTOL_UNITS)
    assert table["repeats"].tolist() == [4, 4]
    deviations = np.array([1.4826 * 4, 1.4826 * 1])
    expected = np.sqrt(deviations**2 + 1 / 12) * 1e-3
    np.testing.assert_allclose(table["latency_std_ms"], expected, rtol=RTOL_UNITS)
    assert table["source_line"].tolist() == [4, 6]


def test_every_event_is_counted(copy):
    found = read_folder(copy("current"), PLATFORMS)
    report = next(each for each in found.reports if each.format == "onnx_runtime")
    assert (report.rows_read, report.rows_kept) == (25, 2)
    assert report.skipped == {
        "warm-up run": 5,
        "further run of a layer": 15,
        "operator maxpool": 1,
        "operator gemm": 1,
        "below_resolution": 1,
    }


def test_zero_microseconds_are_below_the_resolution(copy):
    found = read_folder(copy("current"), PLATFORMS)
    (finding,) = found.by_code()["below_resolution"]
    assert (finding.layer, finding.line) == ("tiny", 7)


def test_strides_groups_and_padding_come_from_the_description(copy):
    row = read_profiles(copy("current"), PLATFORMS)[0].iloc[1]
    assert (row["stride_height"], row["groups"], row["pad_top"], row["pad_bottom"]) == (2, 8, 0, 1)


def test_the_time_of_a_run_is_compared_with_its_own_kernels(copy):
    (total,) = read_folder(copy("current"), PLATFORMS).totals
    np.testing.assert_allclose([total.stated_ms, total.listed_ms], [0.187, 0.172], rtol=RTOL_UNITS)
    assert (total.what, total.kind, total.line) == ("model_run", "end_to_end", 24)
    folder = copy("old")
    text = (folder / "profile.json").read_text()
    assert text.count('"dur" :174') == 1
    (folder / "profile.json").write_text(text.replace('"dur" :174', '"dur" :160'))
    (mismatch,) = read_folder(folder, PLATFORMS).by_code()["total_mismatch"]
    assert mismatch.message == "model_run states 0.16 ms, its 2 rows sum to 0.17 ms"


def test_older_profiles_have_empty_names_fences_and_no_closing_bracket(copy):
    folder = copy("old")
    text = (folder / "profile.json").read_text()
    assert '"name" :"_kernel_time"' in text and "]" not in text and "\n,{" in text
    table, reports = read_profiles(folder, PLATFORMS)
    assert table["layer"].tolist() == ["Conv_0", "Conv_1"]
    # Runs of 120 and 130 us; the last one was cut off before its end.
    np.testing.assert_allclose(table["latency_ms"], [0.125, 0.035], rtol=RTOL_UNITS)
    report = next(each for each in reports if each.format == "onnx_runtime")
    assert report.skipped == {
        "no kernel time": 16,
        "warm-up run": 2,
        "outside of a whole run": 2,
        "further run of a layer": 2,
    }


def test_one_run_is_nothing_but_warm_up(copy):
    folder = copy("current")
    events = events_of(folder)
    second = [event["name"] for event in events].index("model_run") + 1
    write_events(folder, events[:second])
    with pytest.raises(
        InputError, match=r"profile\.json:10: expected two whole runs .*, since the first one warms up, got 1"
    ):
        read_profiles(folder, PLATFORMS)


def test_nodes_of_loops_run_several_times_and_are_not_added_twice(copy):
    folder = copy("current")
    events = events_of(folder)
    for event in [each for each in events if each["name"] == "model_run"]:
        loop = {
            **event,
            "cat": "Node",
            "name": "loop_kernel_time",
            "args": {"op_name": "Loop", "node_index": "9"},
        }
        events.append(loop)
    write_events(folder, events)
    found = read_folder(folder, PLATFORMS)
    assert "total_mismatch" not in found.by_code()
    assert found.layers["layer"].tolist() == ["conv_in", "Conv_3"]


def test_a_trace_on_one_line_compares_each_shape_with_its_own_layer(copy):
    folder = copy("current")
    expected, _ = read_profiles(folder, PLATFORMS)
    # Without what follows the convolutions, the last node of the line is one of them.
    events = [each for each in events_of(folder) if "Conv" in each["args"].get("op_name", "Conv")]
    (folder / "profile.json").write_text(json.dumps(events))
    table, _ = read_profiles(folder, PLATFORMS)
    assert table["layer"].tolist() == expected["layer"].tolist()
    assert table["latency_ms"].tolist() == expected["latency_ms"].tolist()
    assert set(table["source_line"]) == {1}
    edit_events(folder, setting(input_type_shape=[{"float": [1, 3, 32, 32]}]), named("conv_in"))
    (folder / "profile.json").write_text(json.dumps(events_of(folder)))
    with pytest.raises(InputError, match=r"profile\.json:1: expected input 3 x 16 x 16 of 'conv_in'"):
        read_profiles(folder, PLATFORMS)


def test_renamed_nodes_are_translated_by_run_yaml(copy):
    folder = copy("current")
    edit_events(folder, setting(name="v3_nchwc_kernel_time"), named("Conv_3"))
    found = read_folder(folder, PLATFORMS)
    assert [each.layer for each in found.by_code()["layer_not_described"]] == ["v3_nchwc"]
    assert [each.layer for each in found.by_code()["layer_not_measured"]] == ["Conv_3"]
    with (folder / "run.yaml").open("a") as stream:
        stream.write("layers:\n  v3_nchwc: Conv_3\n")
    assert read_profiles(folder, PLATFORMS)[0]["layer"].tolist() == ["conv_in", "Conv_3"]


def test_several_images_at_once_are_refused(copy):
    folder = copy("current")
    edit_events(folder, setting(input_type_shape=[{"float": [8, 3, 16, 16]}]), named("conv_in"))
    with pytest.raises(
        InputError, match=r"profile\.json:4: expected a profile of one image .*, got 8 \(input of 'conv_in'\)"
    ):
        read_profiles(folder, PLATFORMS)


def test_another_input_size_than_described_is_refused(copy):
    folder = copy("current")
    edit_events(folder, setting(input_type_shape=[{"float": [1, 3, 32, 32]}]), named("conv_in"))
    with pytest.raises(
        InputError,
        match=r"\.json:4: expected input 3 x 16 x 16 of 'conv_in' as in .*network\.csv, got 3 x 32 x 32",
    ):
        read_profiles(folder, PLATFORMS)
    edit_events(folder, setting(input_type_shape=[{"float": [1, 16, 16, 3]}]), named("conv_in"))
    assert len(read_profiles(folder, PLATFORMS)[0]) == 2  # channels last


def broken() -> dict[str, tuple[Callable[[list[dict[str, Any]]], None], str]]:
    """Return ways of breaking the events, by name, and what must be said."""

    def change(index: int, **changes: Any) -> Callable[[list[dict[str, Any]]], None]:
        return lambda events: setting(**changes)(events[index])

    def twin(events: list[dict[str, Any]]) -> None:
        events.append({**events[2], "args": {**events[2]["args"], "node_index": "77"}})

    def overlap(events: list[dict[str, Any]]) -> None:
        runs = [event for event in events if event["name"] == "model_run"]
        runs[1]["ts"] = runs[0]["ts"] + 1

    return {
        "no duration": (
            change(2, dur=None),
            r":4: expected dur: a number of microseconds, 0 or more, got None",
        ),
        "a text": (change(2, dur="9"), r":4: expected dur: a number of microseconds, 0 or more, got 9"),
        "negative": (change(2, dur=-9), r":4: expected dur: a number of microseconds, 0 or more, got -9"),
        "no operator": (change(2, op_name=None), r":4: expected op_name: the operator of a node, got None"),
        "no args": (change(2, args=None), r":4: expected args of a node, got None"),
        "no name": (change(2, name=7), r":4: expected name: a text, got 7"),
        "no category": (change(2, cat=None), r":4: expected an event with a category, got \{"),
        "no name or number": (
            lambda events: setting(name="_kernel_time", node_index=None)(events[2]),
            r":4: expected a node with a name or a node_index, got neither",
        ),
        "another operator": (
            change(9, op_name="Relu"),
            r":11: expected operator FusedConv for node 'conv_in' as in line 4, got Relu",
        ),
        "another shape": (
            change(9, input_type_shape=[{"float": [1, 3, 8, 8]}]),
            r":11: expected shapes .* for node 'conv_in' as in line 4, got",
        ),
        "one name twice": (
            twin,
            r":39: expected names of nodes that differ, got 'conv_in' for node 77 and, in line 4, for node 8",
        ),
        "runs at once": (overlap, r":17: expected runs of the session one after the other"),
    }


@pytest.mark.parametrize("name", broken())
def test_broken_events(copy, name):
    edit, message = broken()[name]
    folder = copy("current")
    events = events_of(folder)
    edit(events)
    write_events(folder, events)
    with pytest.raises(InputError, match=rf"profile\.json{message}"):
        read_profile(folder / "profile.json", PLATFORMS, format_name="onnx_runtime")


def test_a_cut_event_is_an_error_with_its_line(copy):
    folder = copy("current")
    text = (folder / "profile.json").read_text()
    (folder / "profile.json").write_text(text[: text.index("Conv_3_kernel_time") + 4])
    with pytest.raises(InputError, match=r"profile\.json:6: expected a whole JSON value, got"):
        read_profiles(folder, PLATFORMS)


def test_two_profiles_in_one_file(copy):
    folder = copy("current")
    text = (folder / "profile.json").read_text()
    (folder / "profile.json").write_text(text + text)
    with pytest.raises(
        InputError, match=r"profile\.json:40: expected nothing after the closing bracket, got \["
    ):
        read_profiles(folder, PLATFORMS)


NOT_RECOGNISED = {
    "": "expected a JSON list, got an empty file",
    "layer,latency_ms\n": "expected a JSON list, got layer,latency_ms",
    "[]": "an empty list",
    "[1, 2]": "no events with cat, dur, ts and name",
    '[{"name": "x"}]': "no events with cat, dur, ts and name",
    '[{"cat": "cpu_op", "dur": 1, "ts": 1, "name": "x"}]': "events of the category cpu_op",
}


@pytest.mark.parametrize("text", NOT_RECOGNISED, ids=range(len(NOT_RECOGNISED)))
def test_recognition_says_why_not(tmp_path, text):
    path = tmp_path / "log"
    path.write_text(text)
    assert str(onnx_runtime.recognises(path)).endswith(NOT_RECOGNISED[text])


CPU_PLATFORM = """\
name: this-cpu
filter_parallelism: 64      # an upper bound of what this processor does at once, for the physics check
channel_parallelism: 64
unrolled_loop: channels
logic_clock_mhz: 1000.0
memory_clock_mhz: 1000.0
transfer_width_bits: 2048
data_width_bits: 32
memory_ports: 1
memory_efficiency: 1.0
"""

SIZES = (
    (16, 3, 1),
    (16, 3, 1),
    (32, 1, 1),
    (32, 3, 2),
    (48, 3, 1),
    (48, 1, 1),
    (64, 3, 2),
    (64, 3, 1),
    (96, 1, 1),
)
"""Filters, kernel and stride of the convolutions of a small network."""


@pytest.fixture(scope="module")
def profiled(tmp_path_factory):
    """Return a folder with a small model, its profile on this machine's processor, and run.yaml."""
    onnx = pytest.importorskip("onnx", reason="the extra onnx is not installed")
    runtime = pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")
    from tests.onnx_models import Network

    folder = tmp_path_factory.mktemp("profiled")
    net = Network(48, 48, batch="N")
    value = "x"
    for index, (filters, kernel, stride) in enumerate(SIZES):
        # Every other convolution has no name, as exporters leave them.
        name = f"conv{index}" if index % 2 else ""
        value = net.relu(net.conv(value, filters, kernel, stride, name=name))
    value = net.add("Flatten", [net.add("GlobalAveragePool", [value])])
    net.add("Gemm", [value, net.weight(10, 96)], "fc", transB=1)
    rng = np.random.default_rng(0)
    net.weights = [
        onnx.numpy_helper.from_array(rng.normal(size=list(each.dims)).astype(np.float32), each.name)
        for each in net.weights
    ]
    model = net.save(folder / "model.onnx")
    options = runtime.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(folder / "profile")
    options.intra_op_num_threads = 1
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    session = runtime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    image = rng.normal(size=(1, 3, 48, 48)).astype(np.float32)
    for _ in range(8):
        session.run(None, {"x": image})
    session.end_profiling()
    (folder / "run.yaml").write_text(
        "origin: measured\nplatform: this-cpu\nnetwork: small-cnn\ngeometry: model.onnx\n"
    )
    (folder / "platforms").mkdir()
    (folder / "platforms" / "this-cpu.yaml").write_text(CPU_PLATFORM)
    return folder


def test_a_profile_taken_on_this_processor_trains_an_estimator(profiled, tmp_path):
    from accelperf.features import build_features
    from accelperf.models.catalog import create

    logs = tmp_path / "logs"
    logs.mkdir()
    for path in (*profiled.glob("*.json"), profiled / "model.onnx", profiled / "run.yaml"):
        shutil.copy(path, logs)
    platforms = read_platforms(profiled / "platforms")
    # How fast this processor is must not matter here.
    actions = {"faster_than_compute": "flag", "absurd": "flag"}
    found = read_folder(logs, platforms, actions=actions)
    names = [f"conv{index}" if index % 2 else f"Conv_{2 * index}" for index in range(len(SIZES))]
    assert set(found.layers["layer"]) <= set(names)
    # A machine may be so fast that a layer takes less than a microsecond.
    short = {each.layer for each in found.by_code().get("below_resolution", [])}
    assert found.layers["layer"].tolist() == [each for each in names if each not in short]
    assert found.layers["repeats"].unique().tolist() == [7]
    assert (found.layers["latency_std_ms"] > 0).all()
    assert found.layers["origin"].unique().tolist() == ["measured"]
    assert "layer_not_described" not in found.by_code()
    assert "layer_not_measured" not in found.by_code()
    features = build_features(found.layers, platforms, None, origins=["measured"])
    prediction = create("linear", {}).fit(features).predict(features)
    assert prediction.median_ms.shape == (len(found.layers),)
    assert np.isfinite(prediction.median_ms).all()


def test_the_script_of_the_docs_does_what_they_say(tmp_path):
    pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")
    text = (DOCS / "onnx_runtime.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```(python|yaml)\n(.*?)```", text, flags=re.DOTALL)
    (script,) = (block for language, block in blocks if language == "python")
    settings = {block.splitlines()[0]: block for language, block in blocks if language == "yaml"}
    folder = tmp_path / "small-cnn-96"
    (tmp_path / "script.py").write_text(script)
    subprocess.run([sys.executable, tmp_path / "script.py", folder, "96"], check=True, capture_output=True)
    (folder / "run.yaml").write_text(settings["# data/raw/profiles/small-cnn-96/run.yaml"])
    (tmp_path / "platforms").mkdir()
    platform = settings["# data/platforms/this-cpu.yaml"]
    (tmp_path / "platforms" / "this-cpu.yaml").write_text(platform)
    # What a processor does faster than the docs' one is flagged and not left out.
    actions = {"faster_than_compute": "flag", "faster_than_memory": "flag", "absurd": "flag"}
    found = read_folder(folder, read_platforms(tmp_path / "platforms"), actions=actions)
    assert found.layers["layer"].tolist() == [f"conv{index}" for index in range(9)]
    assert found.layers["repeats"].unique().tolist() == [20]
    report = next(each for each in found.reports if each.format == "onnx_runtime")
    assert (report.rows_read, report.rows_kept) == (378, 9)
    assert report.skipped == {"warm-up run": 18, "further run of a layer": 342, "operator relu": 9}


def test_shapes_of_the_profile_agree_with_those_of_the_model(profiled):
    from accelperf.onnx_network import read_onnx

    (profile,) = profiled.glob("profile*.json")
    shapes = {
        event["name"].removesuffix("_kernel_time"): event["args"]
        for event in json.loads(profile.read_text())
        if event["cat"] == "Node" and event["args"]["op_name"] == "Conv"
    }
    table = read_onnx(profiled / "model.onnx")
    table = table[table["operator"] == "conv"].set_index("layer")
    assert set(table.index) == set(shapes)
    for layer, row in table.iterrows():
        (read,), (written,) = (
            list(shapes[str(layer)][f"{side}_type_shape"][0].values()) for side in ("input", "output")
        )
        assert read == [1, row["input_channels"], row["input_height"], row["input_width"]]
        assert written == [1, row["output_channels"], row["output_height"], row["output_width"]]
