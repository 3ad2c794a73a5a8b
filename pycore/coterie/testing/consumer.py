"""A client of the consumer protocol (KIP-848): it heartbeats and reconciles what it is assigned.

A consumer has a background thread, which heartbeats, and an application, whose ``poll`` runs the
callbacks. So :meth:`ConsumerMember.heartbeat` and :meth:`ConsumerMember.reconcile` are the halves
of :meth:`ConsumerMember.poll`. A response takes no time.
Source: AbstractMembershipManager, ConsumerMembershipManager, AbstractHeartbeatRequestManager,
ConsumerHeartbeatRequestManager (Kafka 4.1).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, ClassVar, NamedTuple
from weakref import WeakKeyDictionary

from coterie.arguments import text
from coterie.consumer_groups import ConsumerGroupHeartbeatResponse
from coterie.coordinator.group_coordinator import GroupCoordinator
from coterie.errors import ArgumentError, shown
from coterie.testing.assignors import Partitions
from coterie.testing.member import Member, flat, partition_counts, refusal
from coterie.values import Error

__all__ = ["ConsumerMember", "MemberState"]

RETRY_MS = 100  # a consumer's retry.backoff.ms
JOIN_EPOCH, LEAVE_EPOCH, LEAVE_STATIC_EPOCH = 0, -1, -2
_FENCED = {Error.UNKNOWN_MEMBER_ID, Error.FENCED_MEMBER_EPOCH}
_RETRIABLE = {
    Error.NOT_COORDINATOR,
    Error.COORDINATOR_NOT_AVAILABLE,
    Error.COORDINATOR_LOAD_IN_PROGRESS,
}
_numbers: WeakKeyDictionary[GroupCoordinator, dict[str, int]] = WeakKeyDictionary()


class MemberState(Enum):
    """The state of a member, as its client sees it; names are Kafka's."""

    UNSUBSCRIBED = "UNSUBSCRIBED"
    JOINING = "JOINING"
    RECONCILING = "RECONCILING"
    ACKNOWLEDGING = "ACKNOWLEDGING"
    STABLE = "STABLE"
    FENCED = "FENCED"
    STALE = "STALE"
    FATAL = "FATAL"


_OUTSIDE = {MemberState.UNSUBSCRIBED, MemberState.FENCED, MemberState.STALE, MemberState.FATAL}


class _Assignment(NamedTuple):
    """Partitions by topic id; ``number`` counts the assignments received in a row, -1: none."""

    number: int
    partitions: dict[str, tuple[int, ...]]


_NONE = _Assignment(-1, {})


def _new_id(coordinator: GroupCoordinator, client_id: str) -> str:
    """Return the next id of a client: CLIENT:N. Kafka's clients draw a random one."""
    numbers = _numbers.setdefault(coordinator, {})
    numbers[client_id] = numbers.get(client_id, 0) + 1
    return f"{client_id}:{numbers[client_id]}"


class ConsumerMember(Member, protocol="consumer"):
    """A member that speaks the consumer protocol.

    The coordinator has to know the topics (:meth:`~coterie.GroupCoordinator.set_topics`). Callbacks
    come in Kafka's order: positions are committed, then ``revoked`` (only if there is something to
    revoke), then ``assigned`` with what was added, which may be nothing; then the next heartbeat
    acknowledges. If a callback raises, :meth:`poll` raises, and the next one tries again.

    Attributes
    ----------
    state : MemberState
        Its state, as the client sees it.
    member_epoch : int
        Its epoch; :attr:`generation_id` is the same.
    member_id : str
        Its own id, which stays the same when it is fenced or comes back.
    """

    _defaults_of_others: ClassVar = {
        "assignor": "range",
        "session_timeout_ms": 45000,
        "heartbeat_interval_ms": 3000,
    }

    def _set_up(self, **options: Any) -> None:
        super()._set_up(**options)
        for name in ("server_assignor", "subscribed_topic_regex", "rack_id"):
            if options[name] is not None and not text(options[name], name):
                raise ArgumentError(f"{name} must not be empty; None: none")
        self.server_assignor: str | None = options["server_assignor"]
        self.rack_id: str | None = options["rack_id"]
        self.subscribed_topic_regex: str | None = options["subscribed_topic_regex"]
        self.member_id = _new_id(self.coordinator, self.client_id)
        self.member_epoch = JOIN_EPOCH
        self.state = MemberState.JOINING
        self.heartbeat_interval_ms = 0  # the coordinator's, from its responses
        self._current = self._target = _NONE  # what it has reconciled, and shall reconcile
        self._sent: dict[str, Any] = {}  # fields of the last requests; only changes are sent
        self._names: dict[str, str] = {}  # of topics, by id: the client's metadata
        self._error: Error | None = None  # a refusal that poll has not raised yet
        self._polled_ms = self.coordinator.now_ms

    @property
    def generation_id(self) -> int:  # type: ignore[override]
        """Its epoch, as commits name it."""
        return self.member_epoch

    @property
    def stable(self) -> bool:
        """Whether it has reconciled and acknowledged all that it was assigned."""
        return self.state is MemberState.STABLE and not self.crashed

    # The application

    def poll(self) -> None:
        """Act as a consumer's poll, with its background thread: run callbacks, heartbeat if due."""
        self._alive()
        self._polled_ms = self.coordinator.now_ms
        for _ in range(8):  # a join, a revocation and its acknowledgement need three
            self.reconcile()
            if self.heartbeat() is None:
                break
        self._auto_commit_if_due()

    def reconcile(self) -> None:
        """Run the callbacks that are due, as the application's poll does, and nothing else.

        Raises
        ------
        CoterieError
            The coordinator has refused a heartbeat with an error that a client does not repeat.
        """
        self._alive()
        if self.state in (MemberState.FENCED, MemberState.STALE):
            self._lose()
            self._rejoin()
        elif self._error is not None:
            error, self._error = self._error, None
            self._lose()
            raise refusal(self, "heartbeat", error)
        elif self.state is MemberState.RECONCILING:
            self._reconcile()

    def subscribe(
        self,
        topics: Iterable[str] | Mapping[str, int] = (),
        *,
        subscribed_topic_regex: str | None = None,
    ) -> None:
        """Subscribe to these topics and this expression, in place of those before."""
        self._alive()
        self.partitions = partition_counts(topics)
        if subscribed_topic_regex is not None:
            text(subscribed_topic_regex, "subscribed_topic_regex")
        self.subscribed_topic_regex = subscribed_topic_regex
        if self.state is MemberState.UNSUBSCRIBED:
            self._rejoin()

    def unsubscribe(self) -> Any:
        """Leave the group, and stay out until :meth:`subscribe`; return the response, if any."""
        self._alive()
        if self.state in _OUTSIDE:
            self._lose()
            if self.state is not MemberState.FATAL:
                self.state = MemberState.UNSUBSCRIBED
            return None
        partitions = self._flat()
        if partitions:
            self._call("revoked" if self.member_epoch > 0 else "lost", partitions)
        self._clear()
        response = self._leave()
        self.state = MemberState.UNSUBSCRIBED
        return response

    def leave(self) -> Any:
        """Leave the group as a consumer that is closed does; the next :meth:`poll` joins again."""
        self._auto_commit()
        response = self.unsubscribe()
        if self.state is MemberState.UNSUBSCRIBED:
            self._rejoin()
        return response

    def commit(self, offsets: Mapping[tuple[str, int], Any]) -> Any:
        """Commit offsets as a member, or to the group from outside if it is not in it."""
        if self.member_epoch > 0:
            return super().commit(offsets)
        self._alive()
        return self.coordinator.offset_commit(self.group_id, offsets)

    # The background thread

    @property
    def heartbeat_due(self) -> bool:
        """Whether a heartbeat is due: its time has come, or it has something to acknowledge."""
        if self.state in _OUTSIDE or self.crashed:
            return False
        due = self.coordinator.now_ms >= self.next_heartbeat_ms
        return due or self.state is MemberState.ACKNOWLEDGING

    def heartbeat(self) -> Any:
        """Send a heartbeat if one is due, as the background thread does; call no callback.

        If :meth:`poll` was not called for the rebalance timeout, it leaves the group.

        Returns
        -------
        ConsumerGroupHeartbeatResponse or None
            None: no heartbeat was due.
        """
        self._alive()
        late_ms = self.coordinator.now_ms - self._polled_ms
        if late_ms >= self.rebalance_timeout_ms and self.state not in _OUTSIDE:
            response = self._leave()
            self.state = MemberState.STALE
            return response
        if not self.heartbeat_due:
            return None
        response = self.send()
        self.receive(response)
        return response

    def join(self) -> Any:
        """Send a heartbeat that joins the group, and take its response; call no callback."""
        self._alive()
        self._rejoin()
        response = self.send()
        self.receive(response)
        return response

    def send(self) -> Any:
        """Send a heartbeat, due or not; return the response, which :meth:`receive` has to take."""
        self._alive()
        fields = self._fields()
        if self.state is MemberState.JOINING:
            self._log("join", self.member_id)
        elif self.state is MemberState.ACKNOWLEDGING:
            self._log("acknowledge", self._flat())
            reconciled = self._current == self._target
            self.state = MemberState.STABLE if reconciled else MemberState.RECONCILING
        self.next_heartbeat_ms = self.coordinator.now_ms + self.heartbeat_interval_ms
        return self._request(self.member_epoch, **fields)

    def receive(self, response: Any) -> None:
        """Take the response to a heartbeat; None: the connection broke, and there is none."""
        if response is not None and not isinstance(response, ConsumerGroupHeartbeatResponse):
            raise ArgumentError(f"response must be that to a heartbeat, not {shown(response)}")
        if response is None:
            self._sent = {}
            self.next_heartbeat_ms = self.coordinator.now_ms + RETRY_MS
        elif self.state not in _OUTSIDE:
            if response.error != Error.NONE:
                self._refused(response.error)
            else:
                self._accepted(response)

    # Inside

    def _request(self, epoch: int, **fields: Any) -> Any:
        return self.coordinator.consumer_group_heartbeat(
            self.group_id,
            self.member_id,
            epoch,
            instance_id=self.group_instance_id,
            client_id=self.client_id,
            **fields,
        )

    def _fields(self) -> dict[str, Any]:
        """Return the fields of a heartbeat: all of a join, else those that have changed."""
        joins = self.state is MemberState.JOINING
        fields = {
            "rebalance_timeout_ms": self.rebalance_timeout_ms,
            "subscribed_topic_names": sorted(self.partitions),
            "subscribed_topic_regex": self.subscribed_topic_regex,
            "server_assignor": self.server_assignor,
            "rack_id": self.rack_id,
            "topic_partitions": self._current,
        }
        changed = {
            name: value
            for name, value in fields.items()
            if value != self._sent.get(name) or (joins and value is not None)
        }
        self._sent = fields
        if "subscribed_topic_regex" in changed:  # an empty text drops the expression
            changed["subscribed_topic_regex"] = self.subscribed_topic_regex or ""
        if "topic_partitions" in changed:
            changed["topic_partitions"] = [
                {"topic_id": topic_id, "partitions": numbers}
                for topic_id, numbers in self._current.partitions.items()
            ]
        return changed

    def _accepted(self, response: Any) -> None:
        now_ms = self.coordinator.now_ms
        if response.heartbeat_interval_ms != self.heartbeat_interval_ms:
            self.heartbeat_interval_ms = response.heartbeat_interval_ms
            self.next_heartbeat_ms = now_ms + self.heartbeat_interval_ms
        self.member_epoch = response.member_epoch
        if response.assignment is None:
            return
        partitions = {topic.topic_id: topic.partitions for topic in response.assignment}
        if self._target == _NONE or partitions != self._target.partitions:
            self._target = _Assignment(self._target.number + 1, partitions)
            self._log("target", flat(self._named(partitions)))
        if self._target != self._current:
            self.state = MemberState.RECONCILING
        elif self.state in (MemberState.RECONCILING, MemberState.JOINING):
            self.state = MemberState.STABLE

    def _refused(self, error: Error) -> None:
        self._log("heartbeat refused", error.name)
        self._sent = {}  # the next request is a full one
        if error in _FENCED:
            self.state, self.member_epoch = MemberState.FENCED, JOIN_EPOCH
            self.next_heartbeat_ms = self.coordinator.now_ms
        elif error in _RETRIABLE:
            self.next_heartbeat_ms = self.coordinator.now_ms + RETRY_MS
        else:
            self.state, self._error = MemberState.FATAL, error

    def _named(self, partitions: Mapping[str, tuple[int, ...]]) -> Partitions:
        """Return partitions by topic name, sorted; topics without a known name are left out."""
        if not self._names.keys() >= partitions.keys():
            self._names |= self.coordinator._assigned_topics(self.group_id)
        return {
            name: list(numbers)
            for name, numbers in sorted(
                (self._names[topic_id], numbers)
                for topic_id, numbers in partitions.items()
                if topic_id in self._names
            )
        }

    def _reconcile(self) -> None:
        """Commit, revoke, assign; the next heartbeat acknowledges."""
        target, named = self._target, self._named(self._target.partitions)
        known = {i: numbers for i, numbers in target.partitions.items() if i in self._names}
        resolved = _Assignment(target.number, known)  # the rest waits for metadata
        if self._current != _NONE and known == self._current.partitions:
            if resolved != self._current:
                self._current, self.state = resolved, MemberState.ACKNOWLEDGING
            return
        self._auto_commit()
        owned, assigned = self._flat(), flat(named)
        revoked = sorted(set(owned) - set(assigned))
        if revoked:
            self._call("revoked", revoked)
        if self._interrupted(target):
            return
        self.assignment = named
        self._forget_positions()
        self._call("assigned", sorted(set(assigned) - set(owned)))
        if self._interrupted(target):
            return
        self._current, self.state = resolved, MemberState.ACKNOWLEDGING

    def _interrupted(self, target: _Assignment) -> bool:
        """Whether a callback has made the member leave, or has taken another assignment."""
        return self.state is not MemberState.RECONCILING or self._target is not target

    def _leave(self) -> Any:
        """Send the heartbeat that leaves; its response changes nothing."""
        static = self.group_instance_id is not None
        self.member_epoch = LEAVE_STATIC_EPOCH if static else LEAVE_EPOCH
        self._current, self._sent = _NONE, {}
        self._log("leave", self.member_id)
        return self._request(self.member_epoch)

    def _lose(self) -> None:
        """Give up all partitions without a commit: they may have other owners by now."""
        partitions = self._flat()
        try:
            if partitions:
                self._call("lost", partitions)
        finally:
            self._clear()

    def _clear(self) -> None:
        self.assignment, self.positions = {}, {}
        self._current = self._target = _NONE

    def _rejoin(self) -> None:
        self.state, self.member_epoch = MemberState.JOINING, JOIN_EPOCH
        self._current, self._target, self._sent = _NONE, _NONE, {}
        self.next_heartbeat_ms = self.coordinator.now_ms
