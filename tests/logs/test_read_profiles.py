"""Walking a folder of logs: which run.yaml, which reader, which files."""

from __future__ import annotations

import numpy as np
import pytest

from accelperf.errors import InputError
from accelperf.logs import READERS, find_logs, read_profile, read_profiles
from tests.logs.samples import NATIVE, PLATFORMS, RUN, write_log


def test_nearest_run_file_applies(tmp_path):
    write_log(tmp_path, name="top.csv")
    write_log(tmp_path / "a" / "deep", name="log.csv")
    (tmp_path / "a" / "deep" / "run.yaml").rename(tmp_path / "a" / "run.yaml")
    (tmp_path / "a" / "run.yaml").write_text("origin: estimated\nplatform: large\nnetwork: other\n")
    table, reports = read_profiles(tmp_path, PLATFORMS)
    assert table["accelerator"].tolist() == ["large", "large", "small", "small"]
    assert table["network"].tolist() == ["other", "other", "net", "net"]
    assert table["origin"].tolist() == ["estimated", "estimated", "simulated", "simulated"]
    assert [report.file for report in reports] == sorted(report.file for report in reports)
    assert len({report.md5 for report in reports}) == 1


def test_run_file_above_the_root_does_not_apply(tmp_path):
    path = write_log(tmp_path / "logs")
    (tmp_path / "logs" / "run.yaml").rename(tmp_path / "run.yaml")
    with pytest.raises(InputError, match=r"log\.csv: expected a run\.yaml beside this log, or above it"):
        read_profiles(tmp_path / "logs", PLATFORMS)
    with pytest.raises(InputError, match=r"expected a run\.yaml"):
        read_profile(path, PLATFORMS)
    assert len(read_profile(path, PLATFORMS, root=tmp_path)[0]) == 2


def test_a_relative_folder_works_too(tmp_path, monkeypatch):
    write_log(tmp_path / "a" / "b")
    (tmp_path / "a" / "b" / "run.yaml").rename(tmp_path / "run.yaml")
    monkeypatch.chdir(tmp_path)
    table, _ = read_profiles(type(tmp_path)(), PLATFORMS)
    assert set(table["source_file"]) == {"a/b/log.csv"}


def test_files_that_are_no_logs_are_passed_over(tmp_path):
    write_log(tmp_path)
    for name in ("README.md", "README", "LICENSE.txt", ".gitignore", "logs.dvc", ".hidden.csv", "plot.png"):
        (tmp_path / name).write_text("not a log")
    (tmp_path / ".cache").mkdir()
    (tmp_path / ".cache" / "x.csv").write_text("not a log")
    assert [path.name for path in find_logs(tmp_path)] == ["log.csv"]
    _, reports = read_profiles(tmp_path, PLATFORMS)
    assert len(reports) == 1


@pytest.mark.parametrize("name", ["notes.txt", "profile.json", "console.log", "table.tsv", "noending"])
def test_a_file_that_no_reader_recognises_is_an_error(tmp_path, name):
    write_log(tmp_path)
    (tmp_path / name).write_text("hello, world\n")
    with pytest.raises(
        InputError, match=rf"{name}: expected a profiling log of a known format, got none"
    ) as caught:
        read_profiles(tmp_path, PLATFORMS)
    for reader in READERS:
        assert f"{reader.name}: " in str(caught.value)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", r"log\.csv: expected a profiling log, got an empty file"),
        (b"\n \r\n", r"log\.csv: expected a profiling log, got an empty file"),
        (NATIVE.encode("utf-16"), r"log\.csv:1: expected UTF-8 text, got UTF-16, as Windows PowerShell"),
        (NATIVE.encode("utf-32"), r"log\.csv:1: expected UTF-8 text, got UTF-32"),
        (NATIVE.encode("utf-16-le"), r"log\.csv:1: expected UTF-8 text, got bytes of 0, as in UTF-16"),
        (NATIVE.encode().replace(b"conv2", b"conv\xe9"), r"log\.csv:4: expected UTF-8 text, got other bytes"),
        (
            b"layer," * 20_000,
            r"log\.csv: .*native: line 1: expected a header line of 100000 characters or fewer",
        ),
    ],
)
def test_what_is_no_text_is_told_apart(tmp_path, data, message):
    with pytest.raises(InputError, match=message):
        read_profile(write_log(tmp_path, data), PLATFORMS)


def test_glued_files_are_no_runs(tmp_path):
    # The operator of the second header would be counted as another operator's row.
    path = write_log(tmp_path, NATIVE + NATIVE)
    with pytest.raises(InputError, match=r"log\.csv:5: expected one header, that of line 1, got it again"):
        read_profile(path, PLATFORMS)


def test_a_tie_names_the_formats(tmp_path):
    text = NATIVE.replace("layer,operator", "layer,layer_name").replace(",conv,", ",x,")
    path = write_log(tmp_path, text)
    with pytest.raises(InputError, match=r"of one format, got content that fits cnn_accel, native; name one"):
        read_profile(path, PLATFORMS)


def test_format_in_the_run_file_overrides(tmp_path):
    path = write_log(tmp_path, run=RUN + "format: cnn_accel\n")
    with pytest.raises(InputError, match=r"one file that describes the layers"):
        read_profile(path, PLATFORMS)
    path = write_log(tmp_path, run=RUN + "format: vhdl\n")
    with pytest.raises(
        InputError, match=r"run\.yaml:4: expected a format, one of cnn_accel, .*native, .*got 'vhdl'"
    ):
        read_profile(path, PLATFORMS)


def test_empty_and_missing_folders(tmp_path):
    with pytest.raises(InputError, match="at least one profiling log, got none"):
        read_profiles(tmp_path, PLATFORMS)
    (tmp_path / "run.yaml").write_text(RUN)
    with pytest.raises(InputError, match="at least one profiling log, got none"):
        read_profiles(tmp_path, PLATFORMS)
    with pytest.raises(InputError, match=r"nowhere: expected a folder of profiling logs, got no such folder"):
        read_profiles(tmp_path / "nowhere", PLATFORMS)


def test_logs_without_any_convolution(tmp_path):
    write_log(tmp_path, NATIVE.replace(",conv,", ",relu,"))
    with pytest.raises(InputError, match="at least one convolution, got none among 3 rows"):
        read_profiles(tmp_path, PLATFORMS)


def test_runs_in_several_files_are_merged(tmp_path):
    write_log(tmp_path, name="1.csv")
    write_log(tmp_path, NATIVE.replace("0.125", "0.127"), name="2.csv")
    table, _ = read_profiles(tmp_path, PLATFORMS)
    assert table["repeats"].tolist() == [2, 2]
    np.testing.assert_allclose(table["latency_ms"], [0.126, 0.0625], rtol=1e-12)
    np.testing.assert_allclose(table["latency_std_ms"], [np.sqrt(2) * 1e-3, 0], rtol=1e-9, atol=1e-12)
    assert {path.rsplit("/", 1)[-1] for path in table["source_file"]} == {"1.csv"}


def test_a_network_torn_over_two_logs_is_refused(tmp_path):
    write_log(tmp_path, name="1.csv")
    write_log(tmp_path, NATIVE.replace("conv1", "conv3").replace("conv2", "conv4"), name="2.csv")
    with pytest.raises(
        InputError, match=r"2\.csv:2: .*got layer 'conv3' at position 0, where .*1\.csv:2 has"
    ):
        read_profiles(tmp_path, PLATFORMS)


def test_one_layer_measured_and_simulated_is_refused(tmp_path):
    write_log(tmp_path / "a")
    write_log(tmp_path / "b", run=RUN.replace("simulated", "measured"))
    with pytest.raises(
        InputError, match=r"b/log\.csv:2: expected origin simulated for layer 'conv1'.*got measured"
    ):
        read_profiles(tmp_path, PLATFORMS)


def test_an_unreadable_link_is_an_error(tmp_path):
    write_log(tmp_path)
    (tmp_path / "gone.csv").symlink_to(tmp_path / "nowhere.csv")
    with pytest.raises(InputError, match=r"gone\.csv: .*No such file"):
        read_profiles(tmp_path, PLATFORMS)


def test_run_yaml_names_files_to_ignore(tmp_path):
    write_log(tmp_path)
    write_log(tmp_path / "deep", name="res1_x.csv")
    write_log(tmp_path / "resnet", name="log_x.csv")  # a pattern ends at a folder's name
    (tmp_path / "resnet" / "run.yaml").unlink()
    (tmp_path / "deep" / "run.yaml").unlink()
    (tmp_path / "notes.txt").write_text("no log\n")
    with (tmp_path / "run.yaml").open("a") as stream:
        stream.write("ignore: ['res*_*', notes.txt]\n")
    _, reports = read_profiles(tmp_path, PLATFORMS)
    formats = {report.file.removeprefix(f"{tmp_path}/"): report.format for report in reports}
    assert formats == {
        "log.csv": "native",
        "resnet/log_x.csv": "native",
        "deep/res1_x.csv": "ignored",
        "notes.txt": "ignored",
    }


def test_the_format_option_overrides_run_yaml_and_content(tmp_path):
    path = write_log(tmp_path, run=RUN + "format: cnn_accel\n")
    table, (report,) = read_profile(path, PLATFORMS, format_name="native")
    assert (len(table), report.format) == (2, "native")
    with pytest.raises(InputError, match=r"--format: one of cnn_accel, .*native.*, got 'vhdl'"):
        read_profile(path, PLATFORMS, format_name="vhdl")


def test_files_that_geometry_names_are_no_logs(tmp_path):
    write_log(tmp_path, run=RUN + "geometry: {net: plan.csv, other: deep/plan.csv}\n")
    (tmp_path / "deep").mkdir()
    for path in (tmp_path / "plan.csv", tmp_path / "deep" / "plan.csv"):
        path.write_text("layer,operator\n")
    _, reports = read_profiles(tmp_path, PLATFORMS)
    formats = {report.file.removeprefix(f"{tmp_path}/"): report.format for report in reports}
    assert formats == {
        "log.csv": "native",
        "plan.csv": "network description",
        "deep/plan.csv": "network description",
    }


def test_rows_that_a_check_drops_are_counted_under_its_code(tmp_path):
    path = write_log(tmp_path, NATIVE.replace("0.0625", "0.0001"))
    table, (report,) = read_profile(path, PLATFORMS)
    assert table["layer"].tolist() == ["conv1"]
    assert (report.rows_read, report.rows_kept) == (3, 1)
    assert report.skipped == {"faster_than_compute": 1, "operator maxpool": 1}
    table, (report,) = read_profile(path, PLATFORMS, actions={"faster_than_compute": "flag"})
    assert table["flags"].tolist() == ["", "faster_than_compute;faster_than_memory"]
    assert report.rows_kept == 2
