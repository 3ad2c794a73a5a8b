"""Lines for a person about what a peer hears nothing of: a silence, or a close without an answer.

A broker says no more to a peer than that, and whoever looks for the cause has only the log. A
peer can cause as many as it likes, and may choose what stands in them: of each kind there is one
line at once, the others are counted; what does not print is escaped, what is long is cut.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coterie.server.clock import Timers

__all__ = ["EVERY_MS", "Telling", "quoted"]

EVERY_MS = 10_000  # between two lines of a kind
_LONGEST = 300
_LONGEST_QUOTED = 60


class Telling:
    """Tells each kind of thing at most once in ten seconds.

    Parameters
    ----------
    log
        Takes a line.
    waits
        Timers by the wall clock.
    """

    def __init__(self, log: Callable[[str], None], waits: Timers) -> None:
        self._log, self._waits = log, waits
        self._held: dict[Hashable, tuple[int, str]] = {}

    def __call__(self, kind: Hashable, line: str) -> None:
        """Tell a line now, or count it where one of its kind was told just before.

        Whoever calls it takes kinds from few: each is remembered for a while.
        """
        held = self._held.get(kind)
        if held is not None:
            self._held[kind] = held[0] + 1, line
            return
        self._begin(kind)
        self._log(_printable(line))

    def _begin(self, kind: Hashable) -> None:
        self._held[kind] = 0, ""
        self._waits.call_later(EVERY_MS, partial(self._end, kind))

    def _end(self, kind: Hashable) -> None:
        count, last = self._held.pop(kind)
        if count:
            self._begin(kind)
            line = f"{count} more like that in {EVERY_MS // 1000} s, the last: {last}"
            self._log(_printable(line))


def quoted(value: str | None) -> str:
    """Return a text of a peer for a line: in quotes, escaped and cut."""
    return f"{value!a:.{_LONGEST_QUOTED}}"


def _printable(line: str) -> str:
    """Return a line that a terminal and a reader of logs take for one."""
    cut = line if len(line) <= _LONGEST else line[: _LONGEST - 3] + "..."
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode("ascii")
        for each in cut
    )
