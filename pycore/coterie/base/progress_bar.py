"""A progress bar over bytes, for work of more than a second."""

from __future__ import annotations

import sys
from time import perf_counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import Self

AFTER_S = 1.0


class ProgressBar:
    """A bar over bytes on standard error, shown at a terminal and in a notebook.

    There is no timer: the bar appears with the first update that is a second after the start.
    """

    def __init__(self) -> None:
        self.began = perf_counter()
        self.shown = sys.stderr.isatty() or "ipykernel" in sys.modules
        self.size = 0
        self.done = 0
        self.what = "reading"
        self.bar: Any = None
        self.task: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: Any) -> None:
        self.clear()

    def clear(self) -> None:
        """Remove the bar before other output; the next update shows it again."""
        if self.bar is not None:
            self.bar.stop()
            self.bar = None

    def total(self, size_bytes: int) -> None:
        """Set the number of bytes to read."""
        self.size = size_bytes

    def advance(self, size_bytes: int) -> None:
        """Add to the number of bytes read."""
        self.done += size_bytes
        self._show()

    def stage(self, what: str) -> None:
        """Set the description of the current work."""
        self.what = what
        self._show()

    def _show(self) -> None:
        if not self.shown or perf_counter() - self.began < AFTER_S:
            return
        if self.bar is None:
            self._begin()
        self.bar.update(
            self.task, completed=self.done, total=self.size or None, description=self.what
        )
        self.bar.start()  # without effect where it is shown already

    def _begin(self) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
            TransferSpeedColumn,
        )

        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(binary_units=False),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self.task = self.bar.add_task(self.what, total=None)
