"""The context of every service: settings, time, ids and the server's log."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from coterie.base.terminal import print_text
from coterie.coordinator.clock import SharedClock
from coterie.server.clock import Timers
from coterie.server.config import Settings, server_config
from coterie.server.ids import Ids
from coterie.server.rate_limited_log import RateLimitedLog
from coterie.server.releases import DEFAULT_RELEASE, Release


class Context:
    """The settings, clock, ids and log of a server; the only dependency of its services.

    Parameters
    ----------
    config
        Settings by Kafka's names.
    now_ms
        The time at which the clock starts.
    seed
        The seed of all ids; None: the system's random source.
    waits
        Wall-clock timers, for Fetch and authentication delays.
    log
        Called with each log line; None: standard error.
    release
        The release of Kafka whose broker is followed.

    Attributes
    ----------
    clock
        The time of groups, transactions and retention. The owner of the event loop moves it.
    timers
        Timers that follow this clock.
    log_limited
        Logs a line that a peer caused, given its kind; rate-limited for each kind.
    """

    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        *,
        now_ms: int = 0,
        seed: int | None = None,
        waits: Timers | None = None,
        log: Callable[[str], None] | None = None,
        release: Release = DEFAULT_RELEASE,
    ) -> None:
        self.release = release
        self.config: Settings = server_config(config, release)
        self.ids = Ids(seed)
        self.timers = Timers(now_ms)
        self.waits = Timers() if waits is None else waits
        self.clock = SharedClock()
        self.clock.add(self.timers)
        self.log = log or (lambda line: print_text(line, sys.stderr))
        self.log_limited = RateLimitedLog(self.log, self.waits)

    @property
    def now_ms(self) -> int:
        """The clock's time in ms."""
        return self.clock.now_ms
