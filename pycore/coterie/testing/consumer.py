"""A client of the consumer protocol (KIP-848): it heartbeats and reconciles what it is assigned.

A consumer has a background thread, which heartbeats, and an application, whose ``poll`` runs the
callbacks. So :meth:`ConsumerMember.heartbeat` and :meth:`ConsumerMember.reconcile` are the halves
of :meth:`ConsumerMember.poll`. A response takes no time.
Source: AbstractMembershipManager, ConsumerMembershipManager, AbstractHeartbeatRequestManager,
ConsumerHeartbeatRequestManager (Kafka 4.1).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from coterie.base.arguments import text
from coterie.consumer_groups import ConsumerGroupHeartbeatResponse
from coterie.errors import ArgumentError, shown
from coterie.testing.assignors import Partitions
from coterie.testing.assignors.base import flat
from coterie.testing.consumer_state import (
    NONE,
    ConsumerState,
    LocalAssignment,
    MemberState,
    named,
    new_member_id,
)
from coterie.testing.member import Member, partition_counts, refusal
from coterie.values import Error

RETRY_MS = 100  # a consumer's retry.backoff.ms
_FENCED = {Error.UNKNOWN_MEMBER_ID, Error.FENCED_MEMBER_EPOCH}
_RETRIABLE = {
    Error.NOT_COORDINATOR,
    Error.COORDINATOR_NOT_AVAILABLE,
    Error.COORDINATOR_LOAD_IN_PROGRESS,
}


class ConsumerMember(Member, protocol="consumer"):
    """A member that speaks the consumer protocol.

    The coordinator has to know the topics (:meth:`~coterie.GroupCoordinator.set_topics`). Callbacks
    come in Kafka's order: positions are committed, then ``revoked`` (only if there is something to
    revoke), then ``assigned`` with what was added, which may be nothing; then the next heartbeat
    acknowledges. If a callback raises, :meth:`poll` raises, and the next one tries again.

    Attributes
    ----------
    member_id : str
        Its own id, which stays the same when it is fenced or comes back.

    Examples
    --------
    >>> from coterie import GroupCoordinator
    >>> coordinator = GroupCoordinator({"coterie.behaviour": "4.1"})
    >>> coordinator.set_topics({"orders": 2})
    >>> member = ConsumerMember(coordinator, "g", client_id="app", topics=["orders"])
    >>> member.poll()
    >>> member.assignment
    {'orders': [0, 1]}
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
        self.member_id = new_member_id(self.coordinator, self.client_id)
        self._member = ConsumerState(MemberState.JOINING)
        self._names: dict[str, str] = {}  # of topics, by id: the client's metadata
        self._error: Error | None = None  # a refusal that poll has not raised yet
        self._polled_ms = self.coordinator.now_ms

    @property
    def state(self) -> MemberState:
        """Its state, as the client sees it."""
        return self._member.state

    @property
    def member_epoch(self) -> int:
        """Its epoch; :attr:`generation_id` is the same."""
        return self._member.member_epoch

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
        if self._member.outside:
            self._lose()
            if self.state is not MemberState.FATAL:
                self._member.state = MemberState.UNSUBSCRIBED
            return None
        partitions = self._flat()
        if partitions:
            self._call("revoked" if self.member_epoch > 0 else "lost", partitions)
        self._clear()
        response = self._leave()
        self._member.state = MemberState.UNSUBSCRIBED
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
        if self._member.outside or self.crashed:
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
        if late_ms >= self.rebalance_timeout_ms and not self._member.outside:
            response = self._leave()
            self._member.state = MemberState.STALE
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
        self._member.sent()
        self.next_heartbeat_ms = self.coordinator.now_ms + self._member.heartbeat_interval_ms
        return self._request(self.member_epoch, **fields)

    def receive(self, response: Any) -> None:
        """Take the response to a heartbeat; None: the connection broke, and there is none."""
        if response is not None and not isinstance(response, ConsumerGroupHeartbeatResponse):
            raise ArgumentError(f"response must be that to a heartbeat, not {shown(response)}")
        if response is None:
            self._member.send_all()
            self.next_heartbeat_ms = self.coordinator.now_ms + RETRY_MS
        elif not self._member.outside:
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
        return self._member.changed(
            {
                "rebalance_timeout_ms": self.rebalance_timeout_ms,
                "subscribed_topic_names": sorted(self.partitions),
                "subscribed_topic_regex": self.subscribed_topic_regex,
                "server_assignor": self.server_assignor,
                "rack_id": self.rack_id,
            }
        )

    def _accepted(self, response: Any) -> None:
        if response.heartbeat_interval_ms != self._member.heartbeat_interval_ms:
            self.next_heartbeat_ms = self.coordinator.now_ms + response.heartbeat_interval_ms
        if self._member.accept(response):
            self._log("target", flat(self._named(self._member.target)))

    def _refused(self, error: Error) -> None:
        self._log("heartbeat refused", error.name)
        self._member.send_all()
        if error in _FENCED:
            self._member.fence()
            self.next_heartbeat_ms = self.coordinator.now_ms
        elif error in _RETRIABLE:
            self.next_heartbeat_ms = self.coordinator.now_ms + RETRY_MS
        else:
            self._member.state, self._error = MemberState.FATAL, error

    def _named(self, assignment: LocalAssignment) -> Partitions:
        """Return an assignment by topic names, as far as they are known."""
        if not self._names.keys() >= assignment.partitions.keys():
            self._names |= self.coordinator._assigned_topics(self.group_id)
        return named(assignment.partitions, self._names)

    def _reconcile(self) -> None:
        """Commit, revoke, assign; the next heartbeat acknowledges."""
        member = self._member
        target, by_name = member.target, self._named(member.target)
        resolved = member.resolved(self._names)
        if member.current != NONE and resolved.partitions == member.current.partitions:
            if resolved != member.current:
                member.acknowledge(resolved)
            return
        self._auto_commit()
        owned, assigned = self._flat(), flat(by_name)
        revoked = sorted(set(owned) - set(assigned))
        if revoked:
            self._call("revoked", revoked)
        if self._interrupted(target):
            return
        self.assignment = by_name
        self._forget_positions()
        self._call("assigned", sorted(set(assigned) - set(owned)))
        if self._interrupted(target):
            return
        member.acknowledge(resolved)

    def _interrupted(self, target: LocalAssignment) -> bool:
        """Whether a callback has made the member leave, or has taken another assignment."""
        return self.state is not MemberState.RECONCILING or self._member.target is not target

    def _leave(self) -> Any:
        """Send the heartbeat that leaves; its response changes nothing."""
        self._member.leave(static=self.group_instance_id is not None)
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

    def _rejoin(self) -> None:
        self._member.join()
        self.next_heartbeat_ms = self.coordinator.now_ms
