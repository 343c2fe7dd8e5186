"""The reader on the logs that people have: quirks, captures, cuts, contradictions."""

from __future__ import annotations

from pathlib import Path

import hypothesis
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelperf.errors import InputError
from accelperf.memory.shuhai import ShuhaiRun, read_run
from accelperf.memory.text_stream import BLOCK_BYTES
from accelperf.yaml_input import read_model
from tests.memory.logs import (
    COUNTS,
    DONE,
    HEX_COUNTS,
    ONE_CHANNEL,
    PATTERN,
    PLAIN,
    PREAMBLE,
    SPEED,
    ddr4,
    read_text,
    sidecar,
)

GOLDEN = Path(__file__).parents[1] / "golden" / "shuhai"
SIX_DIGITS = 1e-5
"""Relative: speeds are printed with six digits."""


def golden(name: str) -> tuple[Path, ShuhaiRun]:
    path = GOLDEN / name
    return path, read_model(path.parent / "run.yaml", ShuhaiRun)


class TestGolden:
    def test_default_options_of_32_channels_need_a_factor_each(self) -> None:
        log = read_run(*golden("hbm/all_channels.log"))
        assert log.status_pairs == 2
        assert [row.channel for row in log.rows] == list(range(32))
        factors = [row.corrected_gbps / row.reported_gbps for row in log.rows]  # type: ignore[operator]
        expected = np.ones(32)
        expected[[4, 5]] = 100
        expected[[7, 8, 9, 12, 13]] = 10
        np.testing.assert_allclose(factors, expected, rtol=SIX_DIGITS)
        for row in log.rows:
            assert row.corrected_gbps == pytest.approx(13.2, rel=SIX_DIGITS)
            assert row.efficiency == pytest.approx(13.2 / 14.4, rel=SIX_DIGITS)
            assert row.num_ops == {1: 100_000, 10: 1_000_000, 100: 10_000_000}[round(expected[row.channel])]
            assert ("num_ops" in row.corrections) == (expected[row.channel] > 1)
            assert row.unusable is None
        assert {row.target_channel for row in log.rows if row.num_ops == 100_000} == {None}

    def test_counts_are_hexadecimal_when_nothing_was_enabled(self) -> None:
        log = read_run(*golden("hbm/nothing_enabled.log"))
        assert log.rows == ()
        assert log.latency is not None
        assert log.latency.base == 16
        assert log.latency.cycles is not None
        assert log.latency.cycles.tolist() == [55] * 40 + [62] * 30 + [69] * 29 + [254]
        assert (log.latency.burst_bytes, log.latency.stride_bytes) == (32, 256)
        assert log.latency.working_set_bytes == 16777216

    def test_capture_with_mark_carriage_returns_and_escapes(self) -> None:
        log = read_run(*golden("hbm/captured.log"))
        (row,) = log.rows
        assert (row.channel, row.reported_gbps, row.source_line) == (2, 6.7, 9)
        assert (row.burst_bytes, row.stride_bytes, row.working_set_bytes) == (32, 4096, 8192)

    def test_wrapped_burst_is_not_above_peak(self) -> None:
        (row,) = read_run(*golden("hbm/wrapped_burst.log")).rows
        assert row.burst_bytes == 512
        assert row.corrected_gbps == pytest.approx(13.25, rel=SIX_DIGITS)
        assert row.corrections == ("burst_wrap",)
        assert row.flags == ()

    def test_ddr_channels_have_strides_of_their_own(self) -> None:
        first, second = read_run(*golden("ddr4/defaults.log")).rows
        assert (first.stride_bytes, second.stride_bytes) == (64, 128)
        assert (first.efficiency, second.efficiency) == (pytest.approx(18 / 19.2), pytest.approx(17.5 / 19.2))
        assert (first.target_channel, second.target_channel) == (0, 1)

    def test_ddr3_speed_is_printed_with_the_clock_of_ddr4(self) -> None:
        (row,) = read_run(*golden("ddr3/sequential.log")).rows
        assert row.corrected_gbps == pytest.approx(17.28 * 166.7 / 300)
        assert row.peak_gbps == pytest.approx(166.7 * 64 / 1000)
        assert row.corrections == ("clock",)


class TestRealFiles:
    """Files that the benchmark's own program printed against a fake register file."""

    def test_two_channels_of_which_one_cannot_be(self, real_data: Path) -> None:
        first, second = read_run(real_data / "shuhai" / "golden_1.txt", sidecar()).rows
        assert (first.channel, first.corrected_gbps) == (0, 13.2719)
        assert first.efficiency == pytest.approx(13.2719 / 14.4)
        assert (first.burst_bytes, first.stride_bytes, first.working_set_bytes) == (64, 64, 268435456)
        assert (second.channel, second.reported_gbps) == (4, 13.2719)
        assert second.corrected_gbps == pytest.approx(1327.19)
        assert second.flags == ("num_ops_unknown",)
        assert (second.num_ops, second.efficiency) == (None, None)

    def test_latency_run(self, real_data: Path) -> None:
        log = read_run(real_data / "shuhai" / "golden_3.txt", sidecar())
        assert log.latency is not None
        assert log.latency.cycles is not None
        assert log.latency.cycles.tolist() == [55] * 100
        (row,) = log.rows
        assert (row.mode, row.reported_gbps) == ("latency", 0.252632)
        assert (row.corrected_gbps, row.efficiency) == (None, None)
        assert (row.burst_bytes, row.stride_bytes, row.working_set_bytes) == (32, 256, 268435456)
        assert row.flags == ("latency_run",)

    def test_ddr_defaults_without_echo(self, real_data: Path) -> None:
        (row,) = read_run(real_data / "shuhai" / "golden_4.txt", ddr4()).rows
        assert (row.corrected_gbps, row.efficiency) == (18.1132, pytest.approx(18.1132 / 19.2))
        assert (row.burst_bytes, row.stride_bytes, row.working_set_bytes) == (64, 64, 268435456)
        assert row.num_ops == 100_000

    @pytest.mark.parametrize(("name", "parameters"), [("config1.txt", 4), ("config2.txt", 5)])
    def test_example_configurations(self, real_data: Path, name: str, parameters: int) -> None:
        log = read_run(real_data / "shuhai" / name, sidecar())
        assert log.format == "config"
        assert log.config is not None
        assert len(log.config.values) == parameters
        # Enables are AND-ed, so that more than one channel leaves none.
        assert log.config.read_mask == (0 if name == "config1.txt" else 1)


class TestEcho:
    @pytest.mark.parametrize(
        ("echo", "pattern"),
        [
            ("", (64, 64, 268435456)),
            (PATTERN, (64, 64, 268435456)),
            ("64\n", (64, 64, 268435456)),
            ("8192128\n", (64, 128, 8192)),
            ("4096\n512", (512, 4096, 268435456)),
            ("819232", (32, 64, 8192)),
            ("65536", (64, 64, 65536)),
            ("3\n1024\n", (64, 1024, 268435456)),
            ("30\n819264\n128", (128, 64, 8192)),
        ],
    )
    def test_glued_numbers_are_separated(
        self, tmp_path: Path, echo: str, pattern: tuple[int, int, int]
    ) -> None:
        (row,) = read_text(tmp_path, PREAMBLE + ONE_CHANNEL + echo + DONE + SPEED, sidecar()).rows
        assert (row.burst_bytes, row.stride_bytes, row.working_set_bytes) == pattern

    def test_what_can_be_two_things_is_refused_unless_stated(self, tmp_path: Path) -> None:
        text = PREAMBLE + ONE_CHANNEL + "128" + DONE + SPEED
        with pytest.raises(InputError, match=r"run\.log:3: .*one way.*workGroupSize 128.*memBurstSize 128"):
            read_text(tmp_path, text, sidecar())
        for stated in (
            {"command": "sudo ./test-hbm --readEnable=1 --memBurstSize=128"},
            {"burst_bytes": 128},
            {"burst_bytes": {0: 128}, "working_set_bytes": 268435456},
        ):
            (row,) = read_text(tmp_path, text, sidecar(**stated)).rows
            assert (row.burst_bytes, row.working_set_bytes) == (128, 268435456)

    @pytest.mark.parametrize(
        ("echo", "stated", "message"),
        [
            (PATTERN, {"burst_bytes": 128}, r"run\.log:4: expected an echo that agrees with run\.yaml"),
            (PATTERN, {"stride_bytes": {0: 128}}, r"run\.log:4: expected strideLength 128 on channel 0"),
            (
                PATTERN,
                {"command": "./test-hbm --readEnable=1"},
                r"run\.log:4: expected an echo of the command",
            ),
            (
                "",
                {"command": "./test-hbm --readEnable=1 --strideLength=64"},
                "expected an echo of the command",
            ),
            ("", {"command": "./test-hbm --readEnable=3"}, r"run\.log:2: expected an echo of the enables"),
            ("48", {}, r"run\.log:3: expected an echo of powers of two .* got '48'"),
            ("10244096\n", {}, r"run\.log:3: expected strideLength of at most workGroupSize, 1024"),
            ("16\n16", {}, r"run\.log:4: expected memBurstSize from 32 to 32768"),
        ],
    )
    def test_contradictions_name_the_line(
        self, tmp_path: Path, echo: str, stated: dict[str, object], message: str
    ) -> None:
        with pytest.raises(InputError, match=message):
            read_text(tmp_path, PREAMBLE + ONE_CHANNEL + echo + DONE + SPEED, sidecar(**stated))

    def test_without_its_beginning_a_log_has_no_defaults(self, tmp_path: Path) -> None:
        (row,) = read_text(tmp_path, DONE + SPEED, sidecar()).rows
        assert (row.burst_bytes, row.stride_bytes, row.working_set_bytes) == (None, None, None)
        assert (row.corrected_gbps, row.efficiency) == (None, None)
        assert set(row.flags) == {"pattern_unknown", "num_ops_unknown"}
        (row,) = read_text(tmp_path, DONE + SPEED, sidecar(command="./test-hbm --readEnable=1")).rows
        assert (row.burst_bytes, row.efficiency) == (64, pytest.approx(13.27 / 14.4))

    def test_configuration_file_counts_last(self, tmp_path: Path) -> None:
        (tmp_path / "c.txt").write_text("// one channel\nstrideLength 0 4096\nmemBurstSize 0 32\n")
        text = PREAMBLE + ONE_CHANNEL + "64\nopen c.txt succeed.\n" + DONE + SPEED
        (row,) = read_text(tmp_path, text, sidecar()).rows
        assert (row.burst_bytes, row.stride_bytes, row.working_set_bytes) == (32, 4096, 268435456)

    def test_configuration_file_that_is_not_there(self, tmp_path: Path) -> None:
        text = PREAMBLE + ONE_CHANNEL + "open c.txt succeed.\n" + DONE + SPEED
        (row,) = read_text(tmp_path, text, sidecar()).rows
        assert row.burst_bytes is None
        assert {"config_missing", "pattern_unknown", "num_ops_unknown"} == set(row.flags)
        text = PREAMBLE + ONE_CHANNEL + "open c.txt failed, check whether it exists.\n" + DONE + SPEED
        (row,) = read_text(tmp_path, text, sidecar()).rows
        assert (row.burst_bytes, row.flags) == (64, ())

    @pytest.mark.parametrize(
        ("line", "message"),
        [
            ("strideLength 0 48", r"c\.txt:2: expected a power of two for strideLength on channel 0, got 48"),
            (
                "workGroupSize 0 32",
                r"expected strideLength of at most workGroupSize, 32, on channel 0, got 64",
            ),
            ("memBurstSize 0 16", r"c\.txt:2: expected memBurstSize of at least 32 on channel 0, got 16"),
            ("stride 0 64", r"c\.txt:2: expected 'parameter channel value'"),
            ("strideLength 32 64", r"c\.txt:2: expected a channel below 32, got 32"),
        ],
    )
    def test_bad_configuration_names_its_line(self, tmp_path: Path, line: str, message: str) -> None:
        (tmp_path / "c.txt").write_text(f"\n{line}\n")
        text = PREAMBLE + ONE_CHANNEL + "open c.txt succeed.\n" + DONE + SPEED
        with pytest.raises(InputError, match=message):
            read_text(tmp_path, text, sidecar())


class TestLatency:
    CONFIG = "open l.txt succeed.\n"

    @pytest.fixture(autouse=True)
    def config(self, tmp_path: Path) -> None:
        (tmp_path / "l.txt").write_text("latencyChannel 0 1\n")

    @pytest.mark.parametrize(
        ("text", "base", "first"),
        [
            (PREAMBLE + ONE_CHANNEL + CONFIG + DONE + SPEED + COUNTS, 10, 55),
            (PREAMBLE + CONFIG + DONE.replace("0x1", "0x0") + HEX_COUNTS, 16, 55),
            (COUNTS, None, None),
            (COUNTS.replace("  55\n", "  5f\n"), 16, 0x55),
            (COUNTS.replace("  55\n", "  155\n"), 10, 55),
        ],
    )
    def test_base_of_the_counts(self, tmp_path: Path, text: str, base: int | None, first: int | None) -> None:
        log = read_text(tmp_path, text, sidecar())
        assert log.latency is not None
        assert (log.latency.base, log.latency.printed) == (base, 100)
        assert (None if log.latency.cycles is None else log.latency.cycles[0]) == first
        assert ("base_unknown" in [note.flag for note in log.notes]) == (base is None)

    def test_hexadecimal_digits_after_a_speed_are_wrong(self, tmp_path: Path) -> None:
        text = PREAMBLE + ONE_CHANNEL + self.CONFIG + DONE + SPEED + COUNTS.replace("  55\n", "  5f\n")
        with pytest.raises(InputError, match=r"run\.log:7: expected decimal latency counts"):
            read_text(tmp_path, text, sidecar())

    def test_cut_counts_are_counted_and_the_last_is_left_out(self, tmp_path: Path) -> None:
        text = PREAMBLE + ONE_CHANNEL + self.CONFIG + DONE + SPEED + COUNTS[:-10]
        log = read_text(tmp_path, text, sidecar())
        assert log.latency is not None
        assert log.latency.printed == 97
        assert [note.message for note in log.notes] == ["97 of 100 latency counts"]

    def test_wrapped_counters_are_counted(self, tmp_path: Path) -> None:
        text = PREAMBLE + ONE_CHANNEL + self.CONFIG + DONE + SPEED + COUNTS.replace("  55\n", "  12\n")
        log = read_text(tmp_path, text, sidecar())
        assert log.latency is not None
        assert log.latency.wrapped == 7

    @pytest.mark.parametrize("text", ["55\n62\n300\n", "55\r\n62\r\n300", "\n55\n\n62\n300\n\n"])
    def test_file_of_one_latency_a_line(self, tmp_path: Path, text: str) -> None:
        log = read_text(tmp_path, text, sidecar(stride_bytes=64))
        assert log.format == "numbers"
        assert log.latency is not None
        assert log.latency.cycles is not None
        assert log.latency.cycles.tolist() == [55, 62, 300]
        assert log.latency.stride_bytes == 128


class TestOldSpeedFiles:
    TEXT = "13.27\n13.2\n6.7e-01\n"

    def test_enables_of_the_command_name_the_channels(self, tmp_path: Path) -> None:
        run = sidecar(switch="off", command="./test-hbm --readEnable=3 --writeEnable=2 --memBurstSize=32")
        rows = read_text(tmp_path, self.TEXT, run).rows
        assert [(row.channel, row.direction) for row in rows] == [(0, "read"), (1, "write"), (1, "read")]
        assert [row.reported_gbps for row in rows] == [13.27, 13.2, 0.67]
        assert rows[0].efficiency == pytest.approx(13.27 / 14.4)

    def test_without_a_command_channels_are_unknown(self, tmp_path: Path) -> None:
        rows = read_text(tmp_path, self.TEXT, sidecar()).rows
        assert {(row.channel, row.direction) for row in rows} == {(None, "")}
        assert all(row.unusable for row in rows)

    def test_other_lines_are_named(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match=r"run\.log:4: expected one number a line, got 'x'"):
            read_text(tmp_path, self.TEXT + "x\n", sidecar())
        with pytest.raises(InputError, match=r"run\.log:2: expected a number of at most 8 digits"):
            read_text(tmp_path, "1\n1234567890\n", sidecar())


class TestGates:
    @pytest.mark.parametrize(
        ("speed", "flag", "corrected"),
        [
            ("inf", "not_a_number", None),
            ("-nan", "not_a_number", None),
            ("0", "not_a_number", None),
            ("14.5", "above_peak", 14.5),
            ("81650", "above_peak", 81650.0),
        ],
    )
    def test_impossible_speed_is_rejected(
        self, tmp_path: Path, speed: str, flag: str, corrected: float | None
    ) -> None:
        log = read_text(tmp_path, PLAIN.replace("13.27", speed), sidecar())
        (row,) = log.rows
        assert (row.flags, row.corrected_gbps, row.efficiency) == ((flag,), corrected, None)
        assert [(note.line, note.flag) for note in log.notes] == [(6, flag)]

    @pytest.mark.parametrize(("speed", "warned"), [("13.43", False), ("13.45", True), ("14.4", True)])
    def test_more_than_refresh_leaves_is_warned_of(self, tmp_path: Path, speed: str, warned: bool) -> None:
        (row,) = read_text(tmp_path, PLAIN.replace("13.27", speed), sidecar()).rows
        assert row.efficiency == pytest.approx(float(speed) / 14.4)
        assert (row.flags == ("above_refresh_limit",)) == warned

    def test_stated_num_ops_above_peak_is_above_peak(self, tmp_path: Path) -> None:
        text = (
            PLAIN.replace("chennel 0", "chennel 4")
            .replace("0x1", "0x10")
            .replace(ONE_CHANNEL, "00000000000000000000000000010000\n")
        )
        assert read_text(tmp_path, text, sidecar()).rows[0].flags == ("num_ops_unknown",)
        stated = sidecar(num_ops={0: 100_000, 4: 10_000_000})
        assert read_text(tmp_path, text, stated).rows[0].flags == ("above_peak",)
        (row,) = read_text(tmp_path, text, sidecar(num_ops=5000)).rows
        assert (row.flags, row.num_ops, row.corrected_gbps) == ((), 5000, 13.27)

    def test_channel_option_changes_what_all_speeds_are_printed_with(self, tmp_path: Path) -> None:
        text = PREAMBLE + ONE_CHANNEL + "4\n" + DONE + SPEED.replace("13.27", "1327")
        (row,) = read_text(tmp_path, text, sidecar()).rows
        assert row.corrected_gbps == pytest.approx(13.27)
        assert row.corrections == ("num_ops",)

    def test_without_sidecar_speeds_stand_as_printed(self, tmp_path: Path) -> None:
        (row,) = read_text(tmp_path, PLAIN, None).rows
        assert (row.reported_gbps, row.corrected_gbps, row.peak_gbps) == (13.27, None, None)
        assert row.flags == ("no_sidecar",)

    def test_unknown_policy_is_flagged(self, tmp_path: Path) -> None:
        (row,) = read_text(tmp_path, PLAIN, sidecar(policy=None)).rows
        assert (row.flags, row.unusable) == (("policy_unknown",), "policy_unknown")


TWO_CHANNELS = PREAMBLE + "00000000000000000000000000000011\n" + DONE.replace("0x1", "0x3")


class TestBadInput:
    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("2024-01-01 xbutil 1.0\nBandwidth 10 GB/s\n", r":1: expected output or configuration of Shuhai"),
            ("\n\n", r":1: expected output or configuration of Shuhai, got ''"),
            (PREAMBLE, r":1: expected status and speed lines of Shuhai, got the log's end"),
            (PREAMBLE + DONE.replace("0x1", "0x0"), r":3: expected an enabled channel, got none"),
            (
                PREAMBLE + ONE_CHANNEL + DONE.replace("0x1", "0x0") * 9,
                r":20: expected a speed line .* after 9 pairs of status lines .*hung",
            ),
            (PREAMBLE + ONE_CHANNEL + "endWr status: 0x0。\nendRd st", r":4: expected a speed line"),
            (PLAIN + SPEED, r":7: expected one read speed of channel 0, as in line 6, got a second one"),
            (PLAIN + PLAIN, r":7: expected one run a file, got the beginning of a second run"),
            (PLAIN + DONE + SPEED, r":7: expected one run a file, got a status after the results"),
            (
                PLAIN.replace("chennel 0", "chennel 3"),
                r":6: expected read speeds of the enabled channels 0x1",
            ),
            (PLAIN.replace("chennel 0", "chennel 32"), r":6: expected a channel below 32"),
            (PLAIN.replace("13.27 GB/s", "13.27"), r":6: expected a status or speed line of Shuhai"),
            (PLAIN.replace("0x1。", "0x3。"), r":5: expected endRd status 0x1, the enabled channels"),
            (PREAMBLE + DONE + DONE.split("\n")[1] + "\n" + SPEED, r":4: expected an endWr status"),
            (PLAIN.replace(ONE_CHANNEL, ONE_CHANNEL * 3), r":4: expected an echo of readEnable and write"),
            ("$ sudo ./test-ddr\n" + PLAIN, r":1: expected the program that measures hbm, test-hbm"),
        ],
    )
    def test_is_named_with_its_line(self, tmp_path: Path, text: str, message: str) -> None:
        with pytest.raises(InputError, match=r"run\.log" + message):
            read_text(tmp_path, text, sidecar())

    def test_enabled_channel_without_line_is_flagged_where_the_log_ends(self, tmp_path: Path) -> None:
        log = read_text(tmp_path, TWO_CHANNELS + SPEED, sidecar())
        first, second = log.rows
        assert first.efficiency is not None
        assert (second.channel, second.source_line) == (1, 5)
        assert (second.flags, second.reported_gbps) == (("no_speed_line",), None)
        assert any(note.line == 5 and note.flag == "no_speed_line" for note in log.notes)

    def test_log_that_breaks_off_is_flagged(self, tmp_path: Path) -> None:
        log = read_text(tmp_path, TWO_CHANNELS + SPEED + "The chennel 1, rd_speed: 13.2", sidecar())
        first, second = log.rows
        assert "truncated" in first.flags
        assert first.unusable is None
        assert second.unusable == "no_speed_line"
        assert (log.notes[0].line, log.notes[0].flag) == (6, "truncated")

    def test_lines_of_others_after_the_start_are_counted(self, tmp_path: Path) -> None:
        log = read_text(tmp_path, PLAIN + "user@host$ exit\nlogout\n", sidecar())
        assert [(note.line, note.flag) for note in log.notes] == [(7, "other_lines")]
        assert log.rows[0].efficiency is not None


def test_a_million_status_pairs_are_counted_over_block_borders(tmp_path: Path) -> None:
    pairs = 3 * BLOCK_BYTES // len(DONE)
    text = PREAMBLE + ONE_CHANNEL + PATTERN + DONE.replace("0x1", "0x0") * pairs + DONE + SPEED
    log = read_text(tmp_path, text, sidecar())
    assert log.status_pairs == pairs + 1
    assert log.rows[0].source_line == 2 * pairs + 6
    crlf = read_text(tmp_path, text.replace("\n", "\r\n"), sidecar())
    assert (crlf.status_pairs, crlf.rows) == (log.status_pairs, log.rows)


class TestDamage:
    """Whatever happens to a log, it ends in rows or in an error that names it."""

    FULL = TWO_CHANNELS + SPEED + SPEED.replace("chennel 0", "chennel 1").replace("13.27", "13.31") + COUNTS

    @staticmethod
    def check(folder: Path, text: str | bytes) -> None:
        try:
            log = read_text(folder, text, sidecar(switch="off"))
        except InputError as error:
            assert error.file is not None
            assert error.line is not None
            return
        for row in log.rows:
            assert row.source_line >= 1
            assert row.efficiency is None or 0 < row.efficiency <= 1

    def test_every_cut(self, tmp_path: Path) -> None:
        for length in range(len(self.FULL)):
            self.check(tmp_path, self.FULL[:length])
            self.check(tmp_path, self.FULL[length:])

    @pytest.mark.parametrize("start", [PREAMBLE + "9" * 9000 + "\n", "9" * 9000 + "endWr status: 0x0。\n"])
    def test_numbers_of_thousands_of_digits(self, tmp_path: Path, start: str) -> None:
        self.check(tmp_path, start + DONE + SPEED)
        self.check(tmp_path, "readEnable 0 " + "9" * 9000)

    def test_a_cut_never_changes_a_speed(self, tmp_path: Path) -> None:
        start = self.FULL.index("The chennel")
        for length in range(start, len(self.FULL) - len(COUNTS)):
            try:
                log = read_text(tmp_path, self.FULL[:length], sidecar())
            except InputError:
                continue
            assert {row.reported_gbps for row in log.rows} <= {13.27, 13.31, None}

    @hypothesis.settings(deadline=None)
    @given(st.data())
    def test_replaced_and_glued_pieces(
        self, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
    ) -> None:
        folder = tmp_path_factory.getbasetemp()
        text = self.FULL
        for _ in range(data.draw(st.integers(1, 4))):
            start = data.draw(st.integers(0, len(text)))
            end = min(len(text), start + data.draw(st.integers(0, 20)))
            piece = data.draw(
                st.sampled_from(
                    ["", "\n", "0", "endWr status: 0x", "The chennel ", "  55", "64", "\x1b[K", SPEED]
                )
                | st.text(max_size=5)
            )
            text = text[:start] + piece + text[end:]
        self.check(folder, text.encode("utf-8", "surrogatepass"))

    @hypothesis.settings(deadline=None)
    @given(st.binary(max_size=300))
    def test_any_bytes(self, tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
        self.check(tmp_path_factory.getbasetemp(), content)
