"""How far long work has come, on stderr: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any

QUIET_S = 2.0
"""Work that is over sooner shows nothing."""
LINE_INTERVAL_S = 15.0
"""Time between two lines where stderr is a file."""


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
