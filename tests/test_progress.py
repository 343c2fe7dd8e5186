"""Progress of long work on stderr."""

from __future__ import annotations

import pytest

from accelperf import progress
from accelperf.progress import ESTIMATE_AFTER_S, LINE_INTERVAL_S, QUIET_S, FoldProgress, SweepProgress


class Clock:
    """Stands in for the time module."""

    now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    return clock


def test_short_work_says_nothing(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with FoldProgress("linear loo") as report:
        clock.now += QUIET_S / 2
        report(1, 2)
        clock.now += 10 * QUIET_S
        report(2, 2)
    assert capsys.readouterr().err == ""


def test_long_work_says_a_line_now_and_then(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with FoldProgress("gp_zero loo") as report:
        for done, seconds in ((1, QUIET_S), (2, LINE_INTERVAL_S / 2), (3, LINE_INTERVAL_S)):
            clock.now += seconds
            report(done, 40)
    assert capsys.readouterr().err.splitlines() == [
        "gp_zero loo: 1 of 40 folds",
        "gp_zero loo: 3 of 40 folds",
    ]


def test_a_terminal_gets_a_bar(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    with FoldProgress("gp_zero loo") as report:
        report(1, 40)
    assert "1 of 40" not in capsys.readouterr().err


def test_a_long_sweep_says_how_much_time_is_left(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    report = SweepProgress(4)
    for seconds in (ESTIMATE_AFTER_S / 2, ESTIMATE_AFTER_S, 300.0 - 1.5 * ESTIMATE_AFTER_S, 1.0):
        clock.now += seconds
        report("a point")
    half, third = ESTIMATE_AFTER_S * 1.5, 100
    assert capsys.readouterr().err.splitlines() == [
        "a point",
        f"a point (about {half:.0f} s to go)",
        f"a point (about {third / 60:.0f} min to go)",
        "a point",
    ]


def test_a_sweep_without_an_end_estimates_nothing(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    report = SweepProgress(None)
    clock.now += 10 * ESTIMATE_AFTER_S
    report("a point")
    assert capsys.readouterr().err == "a point\n"
