"""A consumer's connections: it waits in virtual time, and finds its coordinator.

Responses are handled while the application is in a call that waits, or at once while the heartbeat
thread runs; otherwise they stay unread until the next call, as in Kafka's client.
Source: ``ConsumerNetworkClient.java``, ``AbstractCoordinator.java`` (the coordinator's look-up).
"""

from __future__ import annotations

from collections.abc import Callable

from coterie._core.testing.clients import Connection, Host, Sent
from coterie.testing.client.errors import DisconnectError, error_of
from coterie.testing.client.settings import Settings
from coterie.testing.process import Process
from coterie.testing.simulated_cluster import Cluster
from coterie.values import Error


class NetworkClient(Connection):
    """The connections of one consumer or producer.

    Attributes
    ----------
    on_coordinator : function
        Called when the coordinator has been found.
    joins_in_background : bool
        Whether a join goes on between calls of the application, as in librdkafka.
    revokes_nothing : bool
        Whether the listener hears of a first join, which gives nothing up, as in kafka-python.
    """

    def __init__(self, cluster: Cluster, host: Host, process: Process, settings: Settings) -> None:
        self.joins_in_background = self.revokes_nothing = False
        self._lookup: Sent | None = None
        self.on_coordinator: Callable[[], None] = lambda: None

    # Waits

    def sleep(self, ms: int, deadline_ms: int) -> None:
        """Back off, at most until the deadline."""
        until_ms = min(self.now_ms + ms, deadline_ms)
        while self.now_ms < until_ms:
            self.wait(until_ms)

    def backoff_ms(self, attempts: int) -> int:
        """Return the exponential backoff after so many attempts, without its random part."""
        first_ms: int = self.settings["retry.backoff.ms"]
        most_ms: int = self.settings["retry.backoff.max.ms"]
        return min(first_ms << min(attempts, 32), most_ms)

    # The coordinator

    def ensure_coordinator(self, deadline_ms: int) -> bool:
        """Find the coordinator, if it is unknown; return whether it is known in time."""
        attempts = 0
        while self.coordinator is None:
            lookup = self.look_up()
            if not self.wait_for(lookup, deadline_ms):
                return False
            if lookup.failure is not None:
                self.sleep(self.backoff_ms(attempts), deadline_ms)
                attempts += 1
                if self.now_ms >= deadline_ms:
                    return False
        return True

    def look_up(self) -> Sent:
        """Send FindCoordinator, unless one is under way."""
        if self._lookup is None:
            self._lookup = Sent()
            self.send("find_coordinator", self._found)
        return self._lookup

    def _found(self, response: int | Error | None) -> None:
        lookup, self._lookup = self._lookup, None
        assert lookup is not None
        if response is None:
            lookup.fail(DisconnectError("the coordinator's look-up was disconnected"))
        elif isinstance(response, Error):
            lookup.fail(error_of(response, "FindCoordinator"))
        else:
            self.coordinator = response
            self.on_coordinator()
            lookup.complete()
