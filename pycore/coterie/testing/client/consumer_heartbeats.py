"""The heartbeats of a member of the consumer protocol: a timer that never waits.

A heartbeat that says nothing new, on a connection without faults, takes no event of its own: the
timer runs when it would arrive at the coordinator. A join that is refused is repeated after the
backoff; Kafka 4.1's client repeats it at once.
Source: ``AbstractHeartbeatRequestManager.java``, ``HeartbeatRequestState.java``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coterie._core.structures.schedule import Timer
from coterie._core.testing.clients import Sent
from coterie.testing.client.network import NetworkClient
from coterie.testing.consumer_state import ConsumerState, MemberState
from coterie.values import Error

_LOST_COORDINATOR = (Error.NOT_COORDINATOR, Error.COORDINATOR_NOT_AVAILABLE)
_AT_ONCE = (MemberState.JOINING, MemberState.ACKNOWLEDGING)
_OP = "consumer_group_heartbeat"


class ConsumerHeartbeats:
    """Heartbeats, and the check of the time between polls."""

    def __init__(
        self,
        network: NetworkClient,
        member: ConsumerState,
        member_id: str,
        *,
        fields: Callable[[], dict[str, Any]],
        accepted: Callable[[Any], None],
        refused: Callable[[Error], None],
        late: Callable[[], None],
    ) -> None:
        self._network, self._member, self._member_id = network, member, member_id
        self._fields, self._accepted = fields, accepted
        self._refused, self._late = refused, late
        self._max_poll_ms: int = network.settings["max.poll.interval.ms"]
        self._beat_ms = self._retry_ms = network.now_ms  # when one is due; not before this time
        self._poll_ms: int = network.now_ms + self._max_poll_ms
        self._attempts = 0
        self._in_flight = False
        self._timer: Timer | None = None
        network.in_background = True
        network.on_coordinator = self._found

    def _found(self) -> None:
        """Go on: the coordinator is known."""
        self._retry_ms = self._network.now_ms
        self.arm()

    def polled(self) -> bool:
        """Take note that the application polls; return whether it is late."""
        now_ms = self._network.now_ms
        late = now_ms >= self._poll_ms
        self._poll_ms = now_ms + self._max_poll_ms
        return late

    def stop(self) -> None:
        """Send no heartbeats any more."""
        if self._timer is not None:
            self._timer.cancel()

    def arm(self) -> None:
        """Run when the next heartbeat is due, or when poll is late; the state may have changed."""
        self.stop()
        if self._member.outside:
            return
        network = self._network
        at_ms = self._due_ms()
        if network.coordinator is not None:
            at_ms = self._poll_ms if self._in_flight else min(self._poll_ms, at_ms)
        self._timer = network.process.call_later(max(at_ms - network.now_ms, 0), self._run)

    def _due_ms(self) -> int:
        """Return when to look for the coordinator, or else when the next heartbeat arrives."""
        if self._network.coordinator is None or self._member.state in _AT_ONCE:
            return self._retry_ms
        latency_ms: int = self._network.cluster.latency_ms
        return max(self._beat_ms, self._retry_ms) + latency_ms

    def leave(self) -> Sent:
        """Send the heartbeat that leaves; the result comes with its response, whatever it is."""
        network, left = self._network, Sent()
        self._member.leave(static=network.settings["group.instance.id"] is not None)
        self.stop()
        if network.coordinator is None:
            left.complete()
        else:
            network.note("leave")
            self._request(lambda response: left.complete(), {})
        return left

    def _run(self) -> None:
        network, member = self._network, self._member
        if member.outside:
            return
        now_ms = network.now_ms
        if network.in_poll:
            self._poll_ms = now_ms + self._max_poll_ms
        if network.coordinator is None:
            network.look_up()
            self._retry_ms = now_ms + network.settings["retry.backoff.ms"]
        elif now_ms >= self._poll_ms:
            self._late()
            return
        elif not self._in_flight and now_ms >= self._due_ms():
            self._send()
        self.arm()

    def _send(self) -> None:
        network, member = self._network, self._member
        if member.state is MemberState.JOINING:
            network.note("join", self._member_id)
        changed = member.changed(self._fields())
        member.sent()
        self._beat_ms = network.now_ms + member.heartbeat_interval_ms
        cluster = network.cluster
        perfect = network.perfect and network.coordinator == cluster.node
        if changed or not perfect:
            self._in_flight = True
            self._request(self._take, changed)
            return
        settings = network.settings
        response = cluster.call(
            *(_OP, settings["group.id"], self._member_id, member.member_epoch),
            instance_id=settings["group.instance.id"],
            client_id=network.client_id,
        )
        if (
            response.error != Error.NONE
            or response.assignment is not None
            or response.member_epoch != member.member_epoch
            or response.heartbeat_interval_ms != member.heartbeat_interval_ms
        ):
            self._in_flight = True
            network.process.call_later(cluster.latency_ms, self._take, response)

    def _request(self, handler: Callable[[Any], None], changed: dict[str, Any]) -> None:
        network, settings = self._network, self._network.settings
        network.send_to_coordinator(
            *(_OP, handler, settings["group.id"], self._member_id, self._member.member_epoch),
            instance_id=settings["group.instance.id"],
            client_id=network.client_id,
            **changed,
        )

    def _take(self, response: Any) -> None:
        self._in_flight = False
        network, member = self._network, self._member
        if response is not None and response.error == Error.NONE:
            self._attempts, self._retry_ms = 0, network.now_ms
            if response.heartbeat_interval_ms != member.heartbeat_interval_ms:
                self._beat_ms = network.now_ms + response.heartbeat_interval_ms
            self._accepted(response)
        else:
            member.send_all()
            self._beat_ms = network.now_ms
            self._retry_ms = network.now_ms + network.backoff_ms(self._attempts)
            self._attempts += 1
            if response is None:
                network.forget_coordinator()
            elif response.error in _LOST_COORDINATOR:
                self._attempts, self._retry_ms = 0, network.now_ms
                network.forget_coordinator()
            elif response.error != Error.COORDINATOR_LOAD_IN_PROGRESS:
                if member.state is not MemberState.JOINING:  # else it would join without end
                    self._attempts, self._retry_ms = 0, network.now_ms
                self._refused(response.error)
        self.arm()
