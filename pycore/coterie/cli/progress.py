"""The progress bar of commands."""

from __future__ import annotations

from coterie.base.progress_bar import ProgressBar
from coterie.cli.failures import say


class TerminalProgress(ProgressBar):
    """A bar at a terminal; notices go to standard error, whatever it is."""

    def notice(self, line: str) -> None:
        """Print a line on standard error, also if it is not a terminal."""
        self.clear()
        say(f"coterie: {line}")
