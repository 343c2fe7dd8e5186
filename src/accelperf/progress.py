"""How far long work has come, on stderr.

The folds of one evaluation are a bar on a terminal, a line now and then elsewhere; the points of a
sweep are a line each, with an estimate of the time that is left.
"""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any

QUIET_S = 2.0
"""Work that is over sooner shows nothing."""
LINE_INTERVAL_S = 15.0
"""Time between two lines where stderr is a file."""
ESTIMATE_AFTER_S = 20.0
"""A sweep that runs for less says nothing about the time that is left."""


class FoldProgress:
    """Shows finished folds; a `accelperf.models.base.Progress` to be used as a context.

    Parameters
    ----------
    title : str
        What is at work.
    bar : bool
        Whether a bar may be drawn: not where several processes share the terminal.
    """

    def __init__(self, title: str, *, bar: bool = True) -> None:
        self.title = title
        self._bar: Any = None
        self._task: Any = None
        self._draws = bar and sys.stderr.isatty()
        self._next_line = time.monotonic() + QUIET_S

    def __enter__(self) -> FoldProgress:
        """Start; the bar has no end before the first fold is done."""
        if self._draws:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("folds"),
                TimeElapsedColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._bar.start()
            self._task = self._bar.add_task(self.title, total=None)
        return self

    def __call__(self, done: int, total: int) -> None:
        """Show that `done` of `total` folds are finished."""
        if self._bar is not None:
            self._bar.update(self._task, completed=done, total=total)
        elif time.monotonic() >= self._next_line and done < total:
            print(f"{self.title}: {done} of {total} folds", file=sys.stderr, flush=True)
            self._next_line = time.monotonic() + LINE_INTERVAL_S

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.stop()


class SweepProgress:
    """Shows finished points of a sweep, a line each.

    Parameters
    ----------
    total : int, optional
        Number of points to evaluate; None if it is not known beforehand.
    """

    def __init__(self, total: int | None) -> None:
        self.total = total
        self.done = 0
        self._start = time.monotonic()

    def __call__(self, line: str) -> None:
        """Show that one more point is done."""
        self.done += 1
        print(line + self._estimate(), file=sys.stderr, flush=True)

    def _estimate(self) -> str:
        elapsed = time.monotonic() - self._start
        if self.total is None or self.done >= self.total or elapsed < ESTIMATE_AFTER_S:
            return ""
        return f" (about {duration(elapsed / self.done * (self.total - self.done))} to go)"


def duration(seconds: float) -> str:
    """Return a time for people.

    Examples
    --------
    >>> duration(42.4), duration(300), duration(5400)
    ('42 s', '5 min', '1.5 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
