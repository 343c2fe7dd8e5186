"""Checks on measured rows: what each finds, both figures, and what is done about it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelperf.analytic import latency_terms
from accelperf.errors import InputError
from accelperf.layers import LAYER_COLUMNS, empty_layers
from accelperf.logs.base import (
    Finding,
    StatedTotal,
    complete_geometry,
    layer_row,
    layer_table,
    rejected_latency,
    require_origin,
)
from accelperf.logs.bounds import least_times
from accelperf.logs.checks import CHECKS, Checked, check_layers, read_actions
from accelperf.logs.hits import operations
from accelperf.logs.repeats import merge_repeats
from accelperf.logs.run import read_run
from tests.logs.samples import PLATFORMS, SMALL
from tests.tolerances import EXACT_ALGEBRA

LOG = Path("log.csv")


def row(latency_ms: float, *, line: int = 2, size: int = 16, channels: int = 16, **changes: object):
    """Return a row of a 3 × 3 convolution of 16 filters, changed; it needs `least` ms on `SMALL`."""
    geometry = {
        "input_height": size, "input_width": size, "input_channels": channels, "output_channels": 16,
        "kernel_height": 3, "kernel_width": 3, "stride_height": 1, "stride_width": 1,
        "pad_top": 1, "pad_bottom": 1, "pad_left": 1, "pad_right": 1,
        "dilation_height": 1, "dilation_width": 1, "groups": 1,
    }  # fmt: skip
    about: dict[str, object] = {"accelerator": "small", "network": "net", "layer": f"conv{line}"}
    about |= {"position": line, "origin": "measured", "file": LOG} | changes
    return layer_row(
        complete_geometry(geometry, file=LOG, line=line), latency_ms=latency_ms, line=line, **about
    )


def least(size: int = 16, channels: int = 16) -> float:
    """Return the least time [ms] of `row`, from the equation: PF 8, PC 4, 200 MHz."""
    return size * size * 16 * channels * 9 / (8 * 4 * 200e3)


def check(*rows, actions=None, totals=(), findings=()) -> Checked:
    return check_layers(layer_table(rows), PLATFORMS, totals, findings, actions)


def codes(checked: Checked) -> list[tuple[str, int | None]]:
    return [(finding.code, finding.line) for finding in checked.findings]


def test_rows_without_fault_pass_as_they_are():
    table = layer_table([row(0.5), row(0.6, line=3)])
    checked = check_layers(table, PLATFORMS)
    pd.testing.assert_frame_equal(checked.table, table)
    assert (checked.findings, checked.dropped) == ((), {})
    assert len(check_layers(empty_layers(), PLATFORMS).table) == 0


def test_faster_than_the_multipliers():
    bound = least()
    checked = check(row(bound * 0.999), row(bound * 1.001, line=3), row(bound, line=4))
    assert codes(checked) == [("faster_than_compute", 2)]
    (finding,) = checked.findings
    assert finding.message == (
        f"{bound * 0.999:.6g} ms, at least {bound:.6g} ms for its operations at 2 x 8 x 4 a cycle and 200 MHz"
    )
    assert (finding.file, finding.accelerator, finding.network, finding.layer) == (
        "log.csv", "small", "net", "conv2",
    )  # fmt: skip
    assert checked.table["source_line"].tolist() == [3, 4]
    assert checked.dropped == {"log.csv": {"faster_than_compute": 1}}


def test_faster_than_the_memory():
    # One channel in, 16 out: few operations, many bytes. 100 MHz x 64 bit are 0.8 GB/s.
    size = 64
    moved = (9 * 16 + size * size + size * size * 16) / 0.8e6
    layer = {"size": size, "channels": 1, "accelerator": "large"}
    bound = least(size, 1) / 4  # twice the filters at twice the clock
    assert bound < moved
    checked = check(row((bound + moved) / 2, **layer), row(moved * 1.01, line=3, **layer))
    assert codes(checked) == [("faster_than_memory", 2)]
    assert checked.findings[0].message.endswith(f"at least {moved:.6g} ms to move its bytes once at 0.8 GB/s")
    assert checked.table["flags"].tolist() == ["faster_than_memory", ""]


def test_input_that_the_kernel_steps_over_need_not_be_moved():
    geometry = dict.fromkeys(("kernel_height", "kernel_width", "dilation_height", "dilation_width"), 1)
    geometry |= dict.fromkeys(("input_height", "input_width"), 8) | {"input_channels": 4}
    geometry |= dict.fromkeys(("stride_height", "stride_width"), 2) | {"output_channels": 4, "groups": 1}
    geometry |= dict.fromkeys(("pad_top", "pad_bottom", "pad_left", "pad_right"), 0)
    about = {"accelerator": "small", "network": "net", "layer": "a", "position": 0, "origin": "measured"}
    table = layer_table(
        [layer_row(complete_geometry(geometry, file=LOG, line=2), latency_ms=1, file=LOG, line=2, **about)]
    )
    np.testing.assert_allclose(
        least_times(table, PLATFORMS).data, [4 * 4 * 4 * 8 / (64 * 100e3)], rtol=EXACT_ALGEBRA
    )


@given(
    size=st.integers(3, 64),
    channels=st.sampled_from([4, 16, 60]),
    share=st.floats(0.01, 4.0),
)
@settings(max_examples=50, deadline=None)
def test_the_bound_is_that_of_the_analytic_model(size, channels, share):
    table = layer_table([row(share * least(size, channels), size=size, channels=channels)])
    inputs = {name: table[name].to_numpy(float) for name in LAYER_COLUMNS[5:22]}
    for name in (
        "filter_parallelism", "channel_parallelism", "logic_clock_mhz", "memory_clock_mhz",
        "transfer_width_bits", "data_width_bits", "memory_ports",
    ):  # fmt: skip
        inputs[name] = np.array([float(getattr(SMALL, name))])
    inputs["memory_efficiency"] = np.ones(1)
    terms = latency_terms(inputs, "output_sized")
    np.testing.assert_allclose(terms.compute, [least(size, channels)], rtol=EXACT_ALGEBRA)
    np.testing.assert_allclose(operations(table) / 2 / (8 * 4 * 200e3), terms.compute, rtol=EXACT_ALGEBRA)
    found = {finding.code for finding in check_layers(table, PLATFORMS).findings}
    assert ("faster_than_compute" in found) == (share < 1 - 1e-6)
    moved = (terms.load + terms.store).item()
    assert ("faster_than_memory" in found) == (table["latency_ms"].item() < moved * (1 - 1e-6))


def test_absurd_among_layers_of_as_many_operations():
    rows = [row(0.5, line=line) for line in range(2, 6)]
    checked = check(*rows, row(501.0, line=6), row(499.0, line=7), row(5000.0, line=8, size=20))
    absurd = [finding for finding in checked.findings if finding.code == "absurd"]
    assert [finding.line for finding in absurd] == [6]
    assert absurd[0].message == ("501 ms, 1002 times the median 0.5 ms of layers with 1.17965e+06 operations")
    assert checked.dropped == {"log.csv": {"absurd": 1}}
    # It casts no doubt on the others, as the 499 ms do.
    assert "501" not in " ".join(f.message for f in checked.findings if f.code == "contradictory_repeats")


def test_contradictory_repeats_of_one_shape():
    checked = check(row(0.5), row(0.99, line=3), row(1.01, line=4), row(3.0, line=5, size=20))
    assert codes(checked) == [("contradictory_repeats", line) for line in (2, 3, 4)]
    assert checked.findings[1].message == (
        "0.99 ms, where the same shape has 0.5 ms (log.csv:2) and 1.01 ms (log.csv:4)"
    )
    assert checked.table["flags"].tolist() == ["contradictory_repeats"] * 3 + [""]
    other = row(1.01, line=4, accelerator="large")
    assert codes(check(row(0.5), row(1.0, line=3), other)) == []


def test_impossible_rows_do_not_make_others_contradictory():
    checked = check(row(0.5), row(0.55, line=3), row(0.01, line=4))
    assert codes(checked) == [("faster_than_compute", 4), ("faster_than_memory", 4)]


def test_an_empty_kernel_is_a_constant_floor():
    large = {"size": 32, "channels": 32}
    rows = [row(1.0), row(0.004, line=3), row(8.0, line=4, **large), row(0.0041, line=5, **large)]
    checked = check(*rows, actions={"faster_than_compute": "flag"})
    floor = [finding for finding in checked.findings if finding.code == "constant_floor"]
    assert [finding.line for finding in floor] == [3, 5]
    assert floor[1].message == (
        "0.0041 ms, the accelerator's lowest (0.004 ms) for 1.18e+06 as for 9.437e+06 operations"
    )
    assert checked.table["flags"].tolist()[1] == "faster_than_compute;faster_than_memory;constant_floor"
    # One shape alone, or layers that are not below others of their shape, are no floor.
    assert "constant_floor" not in dict(codes(check(rows[0], rows[1])))
    assert codes(check(row(0.5), row(0.5, line=3, size=12))) == []


def test_mislabelled_repeats_on_two_accelerators():
    same = {"accelerator": "large", "network": "other"}
    checked = check(row(0.51234), row(0.51234, line=3, **same), row(0.61234, line=4, **same))
    assert codes(checked) == [("mislabelled_repeats", 2), ("mislabelled_repeats", 3)]
    assert checked.findings[0].message == "0.51234 ms, as has 'conv3' of other on large (log.csv:3)"


@pytest.mark.parametrize(
    "rows",
    [
        [row(0.512), row(0.512, line=3, accelerator="large")],
        [row(0.51234), row(0.51234, line=3)],
        [row(0.51234), row(0.51234, line=3, network="other")],
        [row(0.51234), row(0.51234, line=3, network="other", size=12)],
        [row(0.51234, origin="simulated"), row(0.51234, line=3, accelerator="large", origin="simulated")],
    ],
    ids=["few digits", "one accelerator", "one accelerator, two networks", "a coincidence", "simulated"],
)  # fmt: skip
def test_repeats_that_are_not_mislabelled(rows):
    assert codes(check(*rows)) == []


def test_latencies_copied_under_other_shapes():
    values = [0.51234, 0.61234, 0.71234]
    one = [row(value, line=line) for line, value in enumerate(values, start=2)]
    two = [row(value, line=line, network="other", size=12) for line, value in enumerate(values, start=5)]
    assert codes(check(*one, *two)) == [("mislabelled_repeats", line) for line in range(2, 8)]
    more = [row(0.8 + line / 1e5, line=line, network="other", size=12) for line in range(10, 20)]
    rest = [row(0.4 + line / 1e5, line=line) for line in range(20, 30)]
    assert codes(check(*one, *two, *more, *rest)) == []


def total(stated: float, listed: float, **changes: object) -> StatedTotal:
    about = {"what": "All", "resolution_ms": 0.01, "rows": 4, "file": "log.csv", "line": 9, "network": "net"}
    return StatedTotal(stated, listed, **(about | changes))


@pytest.mark.parametrize(
    ("stated", "found"),
    [
        (total(3.0, 3.0), False),
        (total(3.0, 3.02), False),
        (total(3.0, 3.03), True),
        (total(3.0, 2.97), True),
        (total(3.0, 2.5, kind="end_to_end"), False),
        (total(3.0, 3.5, kind="end_to_end"), True),
    ],
)
def test_stated_totals_are_compared_with_the_sum(stated, found):
    checked = check(row(0.5), row(0.5, line=3, network="other"), totals=[stated])
    assert codes(checked) == ([("total_mismatch", 9)] if found else [])
    if found:
        sums = f"{stated.listed_ms:.6g} ms"
        assert checked.findings[0].message == f"All states 3 ms, its 4 rows sum to {sums}"
        assert checked.table["flags"].tolist() == ["total_mismatch", ""]


def test_every_action():
    rows = [row(0.5), row(0.0001, line=3)]
    flagged = check(*rows, actions={"faster_than_compute": "flag", "faster_than_memory": "flag"})
    assert flagged.table["flags"].tolist() == ["", "faster_than_compute;faster_than_memory"]
    assert flagged.dropped == {}
    dropped = check(*rows, actions={"faster_than_memory": "drop"})
    assert len(dropped.table) == 1
    assert dropped.dropped == {"log.csv": {"faster_than_compute": 1}}  # once, under the first code
    with pytest.raises(
        InputError,
        match=r"log\.csv:3: expected no faster_than_compute .*got 0\.0001 ms, at least",
    ):
        check(*rows, actions={"faster_than_compute": "stop"})


def test_flags_that_a_reader_gave_stay():
    table = layer_table([row(0.0001)]).assign(flags="warm_up")
    checked = check_layers(table, PLATFORMS, actions={"faster_than_compute": "flag"})
    assert checked.table["flags"].tolist() == ["warm_up;faster_than_compute;faster_than_memory"]
    assert table["flags"].tolist() == ["warm_up"]


def test_findings_of_readers_flag_their_rows():
    finding = Finding("layer_order", "after 'b'", "log.csv", 3, "small", "net", "other name")
    checked = check(row(0.5), row(0.5, line=3), findings=[finding])
    assert checked.table["flags"].tolist() == ["", "layer_order"]
    # A log of one line needs the name.
    rows = [row(0.5, layer="a"), row(0.5, layer="b")]
    named = Finding("layer_order", "after 'b'", "log.csv", 2, "small", "net", "b")
    assert check(*rows, findings=[named]).table["flags"].tolist() == ["", "layer_order"]
    absent = Finding("layer_not_measured", "fused", "log.csv", None, "small", "net", "a")
    assert check(*rows, findings=[absent]).table["flags"].tolist() == ["", ""]
    with pytest.raises(InputError, match=r"log\.csv: expected no layer_not_measured .*got fused"):
        check(*rows, findings=[absent], actions={"layer_not_measured": "stop"})
    unknown = Finding("mystery", "?", "log.csv", 4)
    with pytest.raises(InputError, match=r"log\.csv:4: expected findings of codes among absurd, .*'mystery'"):
        check(*rows, findings=[unknown])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"slow": "flag"}, r"checks: codes among absurd, .*, whole_graph, .*got 'slow'"),
        ({"absurd": "ignore"}, r"checks\.absurd: an action, one of flag, drop, stop, got 'ignore'"),
        ({"not_positive": "flag"}, r"checks\.not_positive: an action, one of drop, stop, got 'flag'"),
        ({"layer_not_measured": "drop"}, r"one of flag, stop, got 'drop'"),
    ],
)
def test_unknown_codes_and_actions_name_the_known_ones(given, message):
    with pytest.raises(InputError, match=message):
        read_actions(given)
    code = next(iter(given))
    with pytest.raises(InputError, match=r"params\.yaml:7: "):
        read_actions(given, file=Path("params.yaml"), lines={("checks", code): 7})


def test_defaults():
    actions = read_actions(None)
    assert set(actions) == set(CHECKS)
    assert {code for code, action in actions.items() if action == "drop"} == {
        "not_positive", "below_resolution", "zero_geometry", "absurd", "faster_than_compute",
    }  # fmt: skip
    assert "stop" not in actions.values()
    assert read_actions({"absurd": "stop"})["absurd"] == "stop"


def test_flags_of_several_runs_are_joined():
    table = layer_table([row(0.5, layer="a", position=0), row(0.6, layer="a", position=0)])
    table["flags"] = ["b;a", "a;c"]
    merged = merge_repeats(table)
    assert merged["flags"].tolist() == ["b;a;c"]
    np.testing.assert_allclose(merged["latency_ms"], [0.55])


@pytest.mark.parametrize(
    ("value", "text", "code", "message"),
    [
        (1.5, "1.5", None, None),
        (0.0, "0.000", "below_resolution", "latency 0.000 us, below the resolution of 0.001 us"),
        (0.0, "0,00", "below_resolution", "latency 0,00 us, below the resolution of 0.01 us"),
        (0.0, "0", "not_positive", "latency 0 us, expected a finite number above 0"),
        (-1.0, "-1", "not_positive", "latency -1 us, expected a finite number above 0"),
        (np.nan, " ", "not_positive", "latency missing us, expected a finite number above 0"),
        (np.inf, "inf", "not_positive", "latency inf us, expected a finite number above 0"),
    ],
)
def test_latencies_that_are_none(value, text, code, message):
    finding = rejected_latency(value, text, unit="us", file=LOG, line=3, layer="a")
    if code is None:
        assert finding is None
    else:
        assert finding == Finding(code, message, "log.csv", 3, layer="a")


def test_an_origin_that_cannot_be(tmp_path):
    (tmp_path / "run.yaml").write_text("platform: small\norigin: measured\n")
    run = read_run(tmp_path / "run.yaml", PLATFORMS)
    require_origin(run, ("measured", "simulated"), "it may be either")
    with pytest.raises(
        InputError, match=r"run\.yaml:2: expected origin: simulated, since it is a simulator, got 'measured'"
    ):
        require_origin(run, ("simulated",), "it is a simulator")
