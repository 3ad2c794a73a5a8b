"""The heartbeat thread of a classic member: a timer that never waits.

A heartbeat on a connection without faults takes no event of its own: the timer runs when it would
arrive at the coordinator.
Source: ``Heartbeat.java``, ``AbstractCoordinator.HeartbeatThread``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coterie._core.structures.schedule import Timer
from coterie.testing.client.errors import KafkaError
from coterie.testing.client.network import NetworkClient
from coterie.values import Error

Who = tuple[int, str]  # generation and member id


class Heartbeats:
    """Heartbeats, and the checks of the session and of the time between polls.

    Parameters
    ----------
    network : NetworkClient
        The connections.
    who : function
        Returns generation and member id; None: it is in no generation, and needs no heartbeats.
    refused : function of an error, generation and member id
        Acts on the error of a heartbeat that these sent; returns whether it is as good as none.
    late : function
        Called when the application has not polled for ``max.poll.interval.ms``.

    Attributes
    ----------
    failure : KafkaError or None
        What has ended the thread; the next poll raises it.
    """

    def __init__(
        self,
        network: NetworkClient,
        *,
        who: Callable[[], Who | None],
        refused: Callable[[Error, Who], bool],
        late: Callable[[], None],
    ) -> None:
        self._network = network
        self._who, self._refused, self._late = who, refused, late
        settings = network.settings
        self._group_id: str = settings["group.id"]
        self._instance_id: str | None = settings["group.instance.id"]
        self._interval_ms: int = settings["heartbeat.interval.ms"]
        self._session_timeout_ms: int = settings["session.timeout.ms"]
        self._max_poll_ms: int = settings["max.poll.interval.ms"]
        self._beat_ms = self._session_ms = self._poll_ms = 0  # when each is due
        self._in_flight = False
        self._attempts = 0
        self._timer: Timer | None = None
        self.failure: KafkaError | None = None
        network.on_coordinator = self._restart_session

    def polled(self) -> None:
        """Take note that the application polls.

        Raises
        ------
        KafkaError
            The thread has failed; it can be started again.
        """
        if self.failure is not None:
            failure, self.failure = self.failure, None
            raise failure
        self._poll_ms = self._network.now_ms + self._max_poll_ms

    def start(self) -> None:
        """Send heartbeats from now on: the member has joined."""
        now_ms = self._network.now_ms
        self._network.in_background = True
        self._session_ms = now_ms + self._session_timeout_ms
        self._poll_ms = now_ms + self._max_poll_ms
        self._beat_ms = now_ms + self._interval_ms
        self._in_flight, self._attempts = False, 0
        self._arm()

    def stop(self) -> None:
        """Send no heartbeats."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _restart_session(self) -> None:
        self._session_ms = self._network.now_ms + self._session_timeout_ms

    def _arm(self) -> None:
        """Run when the next heartbeat arrives, or when poll is late and a coordinator is known."""
        if self._timer is not None:
            self._timer.cancel()
        network = self._network
        at_ms = self._beat_ms + network.cluster.latency_ms
        if network.coordinator is not None:  # else only the look-up is repeated
            at_ms = min(at_ms, self._poll_ms)
        self._timer = network.process.call_later(max(at_ms - network.now_ms, 1), self._run)

    def _run(self) -> None:
        self._timer = None
        network = self._network
        who = self._who()
        if who is None:
            return
        network.handle_responses()
        now_ms: int = network.process.now_ms
        if network.in_poll:
            self._poll_ms = now_ms + self._max_poll_ms
        if network.coordinator is None:
            network.look_up()
            self._beat_ms = now_ms + network.settings["retry.backoff.ms"]
        elif now_ms >= self._session_ms:
            network.forget_coordinator()
            self._beat_ms = now_ms
        elif now_ms >= self._poll_ms:
            self._late()
            return
        elif now_ms >= self._beat_ms:
            self._beat_ms = now_ms + self._interval_ms
            self._send(who, now_ms)
        self._arm()

    def _send(self, who: Who, now_ms: int) -> None:
        network = self._network
        cluster, group_id, instance_id = network.cluster, self._group_id, self._instance_id
        if network.coordinator == cluster.node and network.perfect:
            error = cluster._heartbeat(group_id, who[0], who[1], instance_id)
            if error is Error.NONE:
                self._attempts, self._session_ms = 0, now_ms + self._session_timeout_ms
            else:
                network.process.call_later(cluster.latency_ms, self._take_error, error, who)
        elif not self._in_flight:
            self._in_flight = True
            network.send_to_coordinator(
                *("heartbeat", lambda response: self._take(response, who)),
                *(group_id, *who),
                group_instance_id=instance_id,
            )

    def _take(self, response: Any, who: Who) -> None:
        self._in_flight = False
        if response is None:
            self._network.forget_coordinator()
            self._failed()
        elif response.error == Error.NONE:
            self._succeeded()
        else:
            self._take_error(response.error, who)

    def _take_error(self, error: Error, who: Who) -> None:
        if self._refused(error, who):
            self._succeeded()
        else:
            self._failed()

    def _succeeded(self) -> None:
        self._attempts = 0
        self._restart_session()

    def _failed(self) -> None:
        self._beat_ms = self._network.now_ms + self._network.backoff_ms(self._attempts)
        self._attempts += 1
        if self._timer is not None:
            self._arm()
