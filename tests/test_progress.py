"""Progress of long work on stderr."""

from __future__ import annotations

import pytest

from accelperf import progress
from accelperf.progress import LINE_INTERVAL_S, QUIET_S, FoldProgress


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
