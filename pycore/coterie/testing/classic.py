"""A client of the classic protocol: it joins, assigns if it leads, syncs and heartbeats."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

from coterie.base.arguments import sequence, within
from coterie.base.consumer_protocol import (
    assignment,
    read_assignment,
    read_subscription,
    subscription,
)
from coterie.coordinator.pending import Pending
from coterie.errors import ArgumentError, CoterieError, shown
from coterie.testing.assignors import ASSIGNORS
from coterie.testing.member import INT32_MAX, Member, refusal
from coterie.values import Error, JoinGroupResponse, SyncGroupResponse


class ClassicMember(Member, protocol="classic"):
    """A member that speaks the classic protocol, eagerly: it gives up all before it rejoins.

    Examples
    --------
    >>> from coterie import GroupCoordinator
    >>> member = ClassicMember(GroupCoordinator(), "g", client_id="app", topics={"orders": 2})
    >>> member.join().status
    'waiting'
    """

    _defaults_of_others: ClassVar = {
        "server_assignor": None,
        "subscribed_topic_regex": None,
        "rack_id": None,
    }

    def _set_up(self, **options: Any) -> None:
        super()._set_up(**options)
        assignor = options["assignor"]
        names = [assignor] if isinstance(assignor, str) else sequence(assignor, "assignor")
        known = {name: each for name, each in ASSIGNORS.items() if not each.cooperative}
        for name in names:
            if not isinstance(name, str) or name not in known:
                raise ArgumentError(f"assignor {shown(name)} is not known: {', '.join(known)}")
        self.assignors = {name: known[name]() for name in names}
        for name in ("session_timeout_ms", "heartbeat_interval_ms"):
            within(options[name], name, 1, INT32_MAX)
        self.session_timeout_ms: int = options["session_timeout_ms"]
        self.heartbeat_interval_ms: int = options["heartbeat_interval_ms"]
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise ArgumentError(
                f"heartbeat_interval_ms {self.heartbeat_interval_ms} must be below "
                f"session_timeout_ms {self.session_timeout_ms}"
            )
        self.generation_id, self.member_id = -1, ""
        self.joining: Pending[JoinGroupResponse] | None = None
        self.syncing: Pending[SyncGroupResponse] | None = None
        self.needs_join = True

    @property
    def stable(self) -> bool:
        """Whether it has synced and knows of no later rebalance."""
        return not (self.needs_join or self.joining or self.syncing or self.crashed)

    def join(self) -> Pending[JoinGroupResponse]:
        """Send JoinGroup; after MEMBER_ID_REQUIRED, send it again with the new id."""
        self._alive()
        for _ in range(2):
            pending = self.coordinator.join_group(
                self.group_id,
                self.member_id,
                protocol_type="consumer",
                protocols={
                    name: subscription(self.partitions, user_data=each.subscription_user_data())
                    for name, each in self.assignors.items()
                },
                session_timeout_ms=self.session_timeout_ms,
                rebalance_timeout_ms=self.rebalance_timeout_ms,
                group_instance_id=self.group_instance_id,
                client_id=self.client_id,
                require_known_member_id=True,
                supports_skipping_assignment=True,
            )
            if not pending.done or pending.response.error != Error.MEMBER_ID_REQUIRED:
                break
            self.member_id = pending.response.member_id
        self._log("join", self.member_id)
        self.joining, self.syncing, self.needs_join = pending, None, False
        return pending

    def sync(self) -> Pending[SyncGroupResponse]:
        """Send SyncGroup for the generation of the last join; a leader assigns partitions."""
        self._alive()
        if self.joining is None or not self.joining.done:
            raise CoterieError(f"{self!r} has no answer to its join to sync with")
        answer = self.joining.response
        plans: dict[str, bytes] = {}
        if answer.members and not answer.skip_assignment:
            plans = self._assign(answer)
        self.joining = None
        pending = self.syncing = self.coordinator.sync_group(
            self.group_id,
            self.generation_id,
            self.member_id,
            group_instance_id=self.group_instance_id,
            protocol_type=answer.protocol_type,
            protocol_name=answer.protocol_name,
            assignments=plans,
        )
        self._log("sync", self.generation_id)
        self._take_sync()
        return pending

    def poll(self) -> None:
        """Act as a consumer's poll: take answers, heartbeat if due, rejoin if necessary."""
        self._alive()
        for _ in range(8):  # each round takes one answer; a healthy member needs four
            before = (self.joining, self.syncing, self.needs_join)
            if self.needs_join:
                self.join()
            self._take_join()
            if self.joining is not None and self.joining.done:
                self.sync()
            self._take_sync()
            if self.stable and self.coordinator.now_ms >= self.next_heartbeat_ms:
                self._heartbeat()
            if (self.joining, self.syncing, self.needs_join) == before:
                break
        self._auto_commit_if_due()

    def leave(self) -> Any:
        """Leave the group and forget the member id."""
        self._alive()
        self._give_up("revoked")
        answer = self.coordinator.leave_group(
            self.group_id, [(self.member_id, self.group_instance_id)]
        )
        self._log("leave", self.member_id)
        self.member_id, self.generation_id, self.needs_join = "", -1, True
        self.joining = self.syncing = None
        return answer

    # Inside

    def _give_up(self, how: str) -> None:
        """Revoke (or lose) its partitions before it joins again: the eager protocol."""
        if self.assignment:
            if how == "revoked":
                self._auto_commit()
            partitions, self.assignment = self._flat(), {}
            self._forget_positions()
            self._call(how, partitions)

    def _assign(self, answer: JoinGroupResponse) -> dict[str, bytes]:
        """Assign as the chosen assignor does; a topic that this member does not know has one."""
        subscriptions = {
            m.member_id: replace(
                read_subscription(m.metadata), group_instance_id=m.group_instance_id
            )
            for m in answer.members
        }
        topics = {topic for each in subscriptions.values() for topic in each.topics}
        counts = {topic: self.partitions.get(topic, 1) for topic in topics}
        plan = self.assignors[answer.protocol_name].assign(subscriptions, counts)
        return {member: assignment(partitions) for member, partitions in plan.items()}

    def _take_join(self) -> None:
        if self.joining is None or self.joining.status == "waiting":
            return
        error = self.joining.response.error if self.joining.done else Error.UNKNOWN_MEMBER_ID
        if error == Error.NONE:
            answer = self.joining.response
            self.member_id, self.generation_id = answer.member_id, answer.generation_id
            return
        self.joining = None
        self._refused("join", error)

    def sync_answer(self) -> SyncGroupResponse | None:
        """Return the answer to the last sync, or None."""
        return self._synced.response if self._synced and self._synced.done else None

    _synced: Pending[SyncGroupResponse] | None = None

    def _take_sync(self) -> None:
        if self.syncing is None or self.syncing.status == "waiting":
            return
        self._synced, self.syncing = self.syncing, None
        error = self._synced.response.error if self._synced.done else Error.UNKNOWN_MEMBER_ID
        if error != Error.NONE:
            self._refused("sync", error)
            return
        self.assignment = read_assignment(self._synced.response.assignment)
        assignor = self.assignors[self._synced.response.protocol_name]
        assignor.on_assignment(self.assignment, self.generation_id)
        self.next_heartbeat_ms = self.coordinator.now_ms + self.heartbeat_interval_ms
        self._call("assigned", self._flat())

    def _heartbeat(self) -> None:
        error = self.coordinator.heartbeat(
            self.group_id,
            self.generation_id,
            self.member_id,
            group_instance_id=self.group_instance_id,
        ).error
        self.next_heartbeat_ms = self.coordinator.now_ms + self.heartbeat_interval_ms
        if error != Error.NONE:
            self._refused("heartbeat", error)

    def _refused(self, what: str, error: Error) -> None:
        """Join again, as a consumer does after such an error."""
        self._log(f"{what} refused", error.name)
        if error == Error.FENCED_INSTANCE_ID:
            self._give_up("lost")
            self.crashed = True
            return
        if error in (Error.UNKNOWN_MEMBER_ID, Error.ILLEGAL_GENERATION):
            self._give_up("lost")
            if error == Error.UNKNOWN_MEMBER_ID:
                self.member_id = ""
            self.generation_id = -1
        else:
            self._give_up("revoked")
        self.needs_join = True
        retriable = {Error.UNKNOWN_MEMBER_ID, Error.ILLEGAL_GENERATION, Error.REBALANCE_IN_PROGRESS,
                     Error.NOT_COORDINATOR, Error.COORDINATOR_NOT_AVAILABLE,
                     Error.COORDINATOR_LOAD_IN_PROGRESS}  # fmt: skip
        if error not in retriable:
            raise refusal(self, what, error)
