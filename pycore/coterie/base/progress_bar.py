"""A progress bar over bytes, or over steps, for work of more than a second."""

from __future__ import annotations

import sys
from time import perf_counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import Self

AFTER_S = 1.0
EACH_S = 0.2  # each update of a notebook is a message to the browser


class ProgressBar:
    """A bar over bytes on standard error at a terminal; in a notebook, a line of text.

    There is no timer: the bar appears with the first update that is a second after the start.

    Parameters
    ----------
    steps : int, optional
        The number of steps, where the work has no bytes: ``advance(1)`` after each.
    """

    def __init__(self, steps: int | None = None) -> None:
        self.began = perf_counter()
        self.in_notebook = "ipykernel" in sys.modules
        self.shown = self.in_notebook or sys.stderr.isatty()
        self.in_steps = steps is not None
        self.size = steps or 0
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

    def advance(self, size: int) -> None:
        """Add to the number of bytes read, or of steps done."""
        self.done += size
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
        if self.in_notebook:
            self.bar = _NotebookLine()
            return
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            MofNCompleteColumn,
            Progress,
            ProgressColumn,
            TextColumn,
            TimeRemainingColumn,
            TransferSpeedColumn,
        )

        amounts: list[ProgressColumn] = [MofNCompleteColumn()]
        if not self.in_steps:
            amounts = [DownloadColumn(binary_units=False), TransferSpeedColumn()]
        self.bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            *amounts,
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self.task = self.bar.add_task(self.what, total=None)


class _NotebookLine:
    """A line below a cell, with the methods of rich's bar, which needs ipywidgets there."""

    def __init__(self) -> None:
        from IPython.display import display

        self._handle = display({"text/plain": ""}, raw=True, display_id=True)
        self._shown_s = -EACH_S

    def update(self, _: Any, *, completed: int, total: int | None, description: str) -> None:
        """Show how many bytes are done, unless it was shown just now."""
        from rich.filesize import decimal

        now_s = perf_counter()
        if now_s - self._shown_s >= EACH_S:
            self._shown_s = now_s
            of = "" if total is None else f" of {decimal(total)}, {completed * 100 // total} %"
            self._show(f"{description}: {decimal(completed)}{of}")

    def start(self) -> None:
        """Do nothing: it is shown as long as it exists."""

    def stop(self) -> None:
        """Empty the line."""
        self._show("")

    def _show(self, text: str) -> None:
        self._handle.update({"text/plain": text}, raw=True)
