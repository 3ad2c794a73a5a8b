"""Rate-limited log lines for connections that are closed or left without a response.

The log is the only place that shows the cause. A peer can cause any number of such lines and may
choose their text. So each kind is logged once, and further lines are only counted for a while;
unprintable characters are escaped, and long lines are cut.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from typing import TYPE_CHECKING

from coterie.base.printable import printable

if TYPE_CHECKING:
    from coterie.server.clock import Timers

EVERY_MS = 10_000  # minimum time between two lines of one kind
_LONGEST = 300
_LONGEST_QUOTED = 60


class RateLimitedLog:
    """Logs at most one line of each kind in ten seconds."""

    def __init__(self, log: Callable[[str], None], waits: Timers) -> None:
        self._log, self._waits = log, waits
        self._suppressed: dict[Hashable, tuple[int, str]] = {}

    def __call__(self, kind: Hashable, line: str) -> None:
        """Log a line, or only count it if one of its kind was logged recently.

        The set of kinds must be small: each kind takes memory for ten seconds.
        """
        suppressed = self._suppressed.get(kind)
        if suppressed is not None:
            self._suppressed[kind] = suppressed[0] + 1, line
            return
        self._begin(kind)
        self._log(_shortened(line))

    def _begin(self, kind: Hashable) -> None:
        self._suppressed[kind] = 0, ""
        self._waits.call_later(EVERY_MS, partial(self._end, kind))

    def _end(self, kind: Hashable) -> None:
        count, last = self._suppressed.pop(kind)
        if count:
            self._begin(kind)
            line = f"{count} more like that in {EVERY_MS // 1000} s, the last: {last}"
            self._log(_shortened(line))


def quoted(value: str | None) -> str:
    """Quote, escape and shorten a peer's text for a log line."""
    return f"{value!a:.{_LONGEST_QUOTED}}"


def _shortened(line: str) -> str:
    cut = line if len(line) <= _LONGEST else line[: _LONGEST - 3] + "..."
    return printable(cut)
