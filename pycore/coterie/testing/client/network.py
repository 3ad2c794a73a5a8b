"""A consumer's connections: it waits in virtual time, and finds its coordinator.

Responses are handled while the application is in a call that waits, or at once while the heartbeat
thread runs; otherwise they stay unread until the next call, as in Kafka's client.
Source: ``ConsumerNetworkClient.java``, ``AbstractCoordinator.java`` (the coordinator's look-up).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coterie.testing.client.errors import DisconnectError, KafkaError, error_of
from coterie.testing.client.settings import Settings
from coterie.testing.cluster.cluster import Cluster
from coterie.testing.cluster.network import Connection, Request
from coterie.testing.process import Future, Process
from coterie.values import Error

__all__ = ["NetworkClient", "Sent", "earliest"]


def earliest(*times_ms: int | None) -> int | None:
    """Return the earliest time; None: never."""
    found: int | None = None
    for at_ms in times_ms:
        if at_ms is not None and (found is None or at_ms < found):
            found = at_ms
    return found


class Sent:
    """The result of a request: it comes later.

    Attributes
    ----------
    done : bool
        Whether the request has succeeded or failed.
    value
        Its result.
    failure : KafkaError or None
        Why it failed.
    """

    __slots__ = ("_then", "done", "failure", "value")

    def __init__(self) -> None:
        self.done = False
        self.value: Any = None
        self.failure: KafkaError | None = None
        self._then: list[Callable[[Sent], None]] = []

    @classmethod
    def failed(cls, failure: KafkaError) -> Sent:
        """Return one that has failed already."""
        sent = cls()
        sent.fail(failure)
        return sent

    def then(self, function: Callable[[Sent], None]) -> None:
        """Call a function when it is done."""
        if self.done:
            function(self)
        else:
            self._then.append(function)

    def complete(self, value: Any = None) -> None:
        """Succeed."""
        self.value = value
        self._end()

    def fail(self, failure: KafkaError) -> None:
        """Fail."""
        self.failure = failure
        self._end()

    def _end(self) -> None:
        self.done = True
        for function in self._then:
            function(self)


class NetworkClient:
    """The connections of one consumer.

    Attributes
    ----------
    coordinator : int or None
        The broker that coordinates the group, as far as the client knows.
    in_background : bool
        Whether the heartbeat thread runs, and handles responses.
    in_poll : bool
        Whether the application waits in ``poll``.
    on_coordinator : function
        Called when the coordinator has been found.
    """

    def __init__(
        self, cluster: Cluster, client_id: str, process: Process, settings: Settings
    ) -> None:
        self.cluster, self.client_id, self.process = cluster, client_id, process
        self.settings = settings
        self.connection = Connection(cluster, client_id, process, self.wake)
        self.coordinator: int | None = None
        self.in_background = self.in_poll = False
        self._in_call = 0
        self._unread: list[tuple[Callable[[Any], None], Any]] = []
        self._waiting: Future | None = None
        self._lookup: Sent | None = None
        self.on_coordinator: Callable[[], None] = lambda: None

    @property
    def now_ms(self) -> int:
        """The time, in ms."""
        return self.process.now_ms

    def note(self, kind: str, details: Any = None) -> None:
        """Tell the cluster's ``on_note`` what the client does."""
        on_note = self.cluster.on_note
        if on_note is not None:
            on_note(self.process.now_ms, self.client_id, kind, details)

    # Waits

    def wake(self) -> None:
        """Let a call that waits look again."""
        if self._waiting is not None:
            self._waiting.set()

    def handle_responses(self) -> None:
        """Handle the responses that have come, without waiting: a poll of 0 ms."""
        while self._unread:
            handler, response = self._unread.pop(0)
            handler(response)

    def wait(self, until_ms: int | None) -> bool:
        """Wait until something has happened, or a time has come; handle responses meanwhile.

        Return whether it has been woken.
        """
        process = self.process
        process.check_alive()
        if self._unread:
            self.handle_responses()
        now_ms = process.now_ms
        if until_ms is not None and until_ms <= now_ms:
            return False
        future = self._waiting = Future()
        self._in_call += 1
        try:
            return process.wait(future, None if until_ms is None else until_ms - now_ms)
        finally:
            self._in_call -= 1
            self._waiting = None

    def wait_for(self, sent: Sent, deadline_ms: int) -> bool:
        """Wait for a result; return whether it has come in time."""
        self.handle_responses()
        process = self.process
        while not sent.done and process.now_ms < deadline_ms:
            self.wait(deadline_ms)
        return sent.done

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

    # Requests

    def send(
        self,
        op: str,
        handler: Callable[[Any], None],
        *args: Any,
        node: int | None = None,
        timeout_ms: int | None = None,
        **fields: Any,
    ) -> None:
        """Send a request; ``handler`` takes the response, or None after a disconnection.

        ``node``: the coordinator that it is for; None: any broker.
        """

        def received(response: Any) -> None:
            if self._in_call or self.in_background:
                handler(response)
                self.wake()
            else:
                self._unread.append((handler, response))

        if timeout_ms is None:
            timeout_ms = self.settings["request.timeout.ms"]
        self.connection.send(Request(self.connection, op, received, node, timeout_ms, args, fields))

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

    def forget_coordinator(self) -> None:
        """Forget the coordinator, and give up what is under way there."""
        if self.coordinator is not None:
            self.coordinator = None
            self.connection.disconnect()

    def send_to_coordinator(
        self, op: str, handler: Callable[[Any], None], *args: Any, **fields: Any
    ) -> None:
        """Send a request to the coordinator, which must be known."""
        self.send(op, handler, *args, node=self.coordinator, **fields)
