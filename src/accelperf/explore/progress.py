"""How many designs are predicted, on stderr: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any

from accelperf.progress import LINE_INTERVAL_S, QUIET_S


class DesignProgress:
    """Shows finished designs once the work has lasted for two seconds; to be used as a context.

    Parameters
    ----------
    title : str
        What is at work.
    """

    def __init__(self, title: str) -> None:
        self.title = title
        self._bar: Any = None
        self._task: Any = None
        self._next = time.monotonic() + QUIET_S

    def __enter__(self) -> DesignProgress:
        """Start, without showing anything yet."""
        return self

    def __call__(self, done: int, total: int) -> None:
        """Show that `done` of `total` designs are finished."""
        if self._bar is not None:
            self._bar.update(self._task, completed=done)
        elif time.monotonic() >= self._next and done < total:
            if sys.stderr.isatty():
                self._start_bar(done, total)
            else:
                print(f"{self.title}: {done} of {total} designs", file=sys.stderr, flush=True)
                self._next = time.monotonic() + LINE_INTERVAL_S

    def _start_bar(self, done: int, total: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("designs"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._bar.start()
        self._task = self._bar.add_task(self.title, total=total, completed=done)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.stop()
