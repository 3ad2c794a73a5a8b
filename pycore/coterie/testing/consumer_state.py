"""The state of a member of the consumer protocol: its epoch, its assignments, its next request.

It knows neither a network nor callbacks.
Source: AbstractMembershipManager, ConsumerMembershipManager, ConsumerHeartbeatRequestManager
(Kafka 4.1).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from coterie.testing.assignors import Partitions

JOIN_EPOCH, LEAVE_EPOCH, LEAVE_STATIC_EPOCH = 0, -1, -2
_numbers: WeakKeyDictionary[object, dict[str, int]] = WeakKeyDictionary()


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


class LocalAssignment(NamedTuple):
    """Partitions by topic id; ``number`` counts the assignments received in a row, -1: none."""

    number: int
    partitions: dict[str, tuple[int, ...]]


NONE = LocalAssignment(-1, {})


def new_member_id(brokers: object, client_id: str) -> str:
    """Return the next id of a client: CLIENT:N. Kafka's clients draw a random one.

    ``brokers``: what the client connects to, a cluster or a coordinator. A cluster may have ids of
    its own.
    """
    make_id = getattr(brokers, "member_ids", None)
    if make_id is not None:
        return str(make_id(client_id))
    numbers = _numbers.setdefault(brokers, {})
    numbers[client_id] = numbers.get(client_id, 0) + 1
    return f"{client_id}:{numbers[client_id]}"


def named(partitions: Mapping[str, tuple[int, ...]], names: Mapping[str, str]) -> Partitions:
    """Return partitions by topic name, sorted; topics without a known name are left out."""
    return {
        name: list(numbers)
        for name, numbers in sorted(
            (names[topic_id], numbers)
            for topic_id, numbers in partitions.items()
            if topic_id in names
        )
    }


class ConsumerState:
    """The state of a member.

    Attributes
    ----------
    state : MemberState
        What it does.
    member_epoch : int
        Its epoch; 0 before it has joined, and negative when it has left.
    heartbeat_interval_ms : int
        The coordinator's, from its responses.
    current, target : LocalAssignment
        What it has reconciled, and what it shall reconcile.
    """

    def __init__(self, state: MemberState) -> None:
        self.state, self.member_epoch = state, JOIN_EPOCH
        self.heartbeat_interval_ms = 0
        self.current = self.target = NONE
        self._sent: dict[str, Any] = {}  # fields of the last requests; only changes are sent

    @property
    def outside(self) -> bool:
        """Whether it is not in the group, and sends no heartbeats."""
        return self.state in _OUTSIDE

    def join(self) -> None:
        """Join, or join again: the next heartbeat has epoch 0 and all fields."""
        self.state, self.member_epoch = MemberState.JOINING, JOIN_EPOCH
        self.current = self.target = NONE
        self._sent = {}

    def leave(self, *, static: bool) -> None:
        """Take the epoch of the heartbeat that leaves."""
        self.member_epoch = LEAVE_STATIC_EPOCH if static else LEAVE_EPOCH

    def fence(self) -> None:
        """Leave the group behind, as the coordinator has removed the member."""
        self.state, self.member_epoch = MemberState.FENCED, JOIN_EPOCH

    def send_all(self) -> None:
        """Send all fields in the next heartbeat: this one may not have arrived."""
        self._sent = {}

    def changed(self, fields: dict[str, Any]) -> dict[str, Any]:
        """Return the fields for a heartbeat: those of a join, else those that have changed."""
        joins = self.state is MemberState.JOINING
        fields = {**fields, "topic_partitions": self.current}
        changed = {
            name: value
            for name, value in fields.items()
            if value != self._sent.get(name) or (joins and value is not None)
        }
        self._sent = fields
        if "subscribed_topic_regex" in changed:  # an empty text drops the expression
            changed["subscribed_topic_regex"] = fields["subscribed_topic_regex"] or ""
        if "topic_partitions" in changed:
            changed["topic_partitions"] = [
                {"topic_id": topic_id, "partitions": numbers}
                for topic_id, numbers in self.current.partitions.items()
            ]
        return changed

    def sent(self) -> None:
        """Take note that a heartbeat has been sent; it acknowledges what was reconciled."""
        if self.state is MemberState.ACKNOWLEDGING:
            done = self.current == self.target
            self.state = MemberState.STABLE if done else MemberState.RECONCILING

    def accept(self, response: Any) -> bool:
        """Take a response without an error; return whether it has another assignment."""
        self.heartbeat_interval_ms = response.heartbeat_interval_ms
        self.member_epoch = response.member_epoch
        if response.assignment is None:
            return False
        partitions = {topic.topic_id: topic.partitions for topic in response.assignment}
        changed = self.target == NONE or partitions != self.target.partitions
        if changed:
            self.target = LocalAssignment(self.target.number + 1, partitions)
        if self.target != self.current:
            self.state = MemberState.RECONCILING
        return changed

    def resolved(self, names: Mapping[str, str]) -> LocalAssignment:
        """Return the target without the topics that have no known name; they wait for metadata."""
        known = {i: numbers for i, numbers in self.target.partitions.items() if i in names}
        return LocalAssignment(self.target.number, known)

    def acknowledge(self, assignment: LocalAssignment) -> None:
        """Acknowledge an assignment in the next heartbeat, which is due now."""
        self.current, self.state = assignment, MemberState.ACKNOWLEDGING
