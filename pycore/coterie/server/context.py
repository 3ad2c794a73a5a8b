"""What every service of a server needs: settings, time, ids, and lines for a person."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from coterie.coordinator.clock import SharedClock
from coterie.server.clock import Timers
from coterie.server.config import Settings, server_config
from coterie.server.ids import Ids
from coterie.server.rate_limited_log import Telling

__all__ = ["Context"]


class Context:
    """Settings, time, ids and the log of a server. A service is handed no more than this.

    Parameters
    ----------
    config
        Settings by Kafka's names.
    now_ms
        The time at which the clock starts.
    seed
        What ids are drawn from; None: the system's random source.
    waits
        Timers for what never waits for the clock: Fetch, delays of refusals.
    log
        Takes a line for a person; None: it is printed to standard error.

    Attributes
    ----------
    clock
        The time of groups, transactions and retention; whoever has a clock moves it.
    timers
        Functions by the time of that clock.
    tell
        Logs what peers cause: a kind, and a line; each kind now and then.
    """

    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        *,
        now_ms: int = 0,
        seed: int | None = None,
        waits: Timers | None = None,
        log: Callable[[str], None] | None = None,
    ) -> None:
        self.config: Settings = server_config(config)
        self.ids = Ids(seed)
        self.timers = Timers(now_ms)
        self.waits = Timers() if waits is None else waits
        self.clock = SharedClock()
        self.clock.add(self.timers)
        self.log = log or _print_line
        self.tell = Telling(self.log, self.waits)

    @property
    def now_ms(self) -> int:
        """The time of the clock, in ms."""
        return self.clock.now_ms


def _print_line(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201
