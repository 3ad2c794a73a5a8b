"""A consumer's membership of the consumer protocol (KIP-848).

Kafka's client has two threads. What the background thread does happens here in timers and
handlers; listeners are called, and errors raised, only from the application's calls.
Source: ``AbstractMembershipManager.java``, ``ConsumerMembershipManager.java``,
``AsyncKafkaConsumer.java`` (Kafka 4.1).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from coterie._core.testing.clients import Sent
from coterie.consumer_groups import encode_topic_id
from coterie.coordinator.consumer_requests import derived_topic_id
from coterie.testing.assignors.base import flat
from coterie.testing.client.commits import Commits
from coterie.testing.client.consumer_heartbeats import ConsumerHeartbeats
from coterie.testing.client.errors import (
    CommitFailedError,
    KafkaError,
    RetriableError,
    StaleMemberEpochError,
    error_of,
)
from coterie.testing.client.listeners import Listeners
from coterie.testing.client.membership import Identity, raise_failure
from coterie.testing.client.metadata import Metadata
from coterie.testing.client.network import NetworkClient
from coterie.testing.client.subscriptions import SubscriptionState
from coterie.testing.consumer_state import (
    NONE,
    ConsumerState,
    LocalAssignment,
    MemberState,
    named,
    new_member_id,
)
from coterie.testing.topics import TopicPartition
from coterie.values import Error

_FENCED = (Error.FENCED_MEMBER_EPOCH, Error.UNKNOWN_MEMBER_ID)
_Done = Callable[["Exception | None"], None]


class _Reconciliation:
    """The way from the owned partitions to those of a target."""

    def __init__(
        self,
        target: LocalAssignment,
        owned: set[TopicPartition],
        assigned: list[TopicPartition],
        deadline_ms: int,
    ) -> None:
        self.target, self.assigned, self.deadline_ms = target, assigned, deadline_ms
        self.added = [tp for tp in assigned if tp not in owned]
        self.revoked = sorted(owned.difference(assigned))
        self.over = False  # the member has left or joined again meanwhile


class ConsumerMembership:
    """The membership of one consumer, as :class:`~coterie.testing.client.membership.Membership`."""

    def __init__(
        self,
        network: NetworkClient,
        metadata: Metadata,
        subscriptions: SubscriptionState,
        commits: Commits,
    ) -> None:
        self._network, self._metadata = network, metadata
        self._subscriptions, self._commits = subscriptions, commits
        self._listeners = Listeners(network, subscriptions)
        self._member = ConsumerState(MemberState.UNSUBSCRIBED)
        self._member_id = new_member_id(network.cluster, network.client_id)
        self._heartbeats = ConsumerHeartbeats(
            *(network, self._member, self._member_id),
            fields=self._fields,
            accepted=self._accepted,
            refused=self._heartbeat_refused,
            late=self._late,
        )
        self._identity = -1, ""  # of the last epoch
        self._joined_once = False
        self._names: dict[str, str] = {}  # of topics, by id
        self._calls: deque[KafkaError | tuple[str, list[TopicPartition], _Done]] = deque()
        self._reconciling: _Reconciliation | None = None
        self._leaving = self._rejoins = self._needs_poll = False

    # The application

    def poll(self, deadline_ms: int) -> bool:
        """Do what is due: commit, call the listener; positions may always be used."""
        subscriptions, pattern = self._subscriptions, self._subscriptions.pattern
        if self._metadata.due:
            self._metadata.update(subscriptions.metadata_topics, everything=pattern is not None)
        if pattern is not None:
            subscriptions.topics = frozenset(filter(subscriptions.matches, self._metadata.counts))
        self._needs_poll = False
        self._reconcile(may_commit=True)
        self._commits.automatic_if_due()
        late = self._heartbeats.polled()
        if subscriptions.auto_assigned:
            if self._member.state is MemberState.UNSUBSCRIBED:
                self._join()
            elif late and self._member.state is MemberState.STALE:
                self._rejoins = True
                if not self._calls:
                    self._join()
        self._commits.run_callbacks()
        self._run_calls()
        return True

    def poll_idly(self) -> bool:
        """Look at the topics when no poll is due; return whether poll has nothing else to do."""
        subscriptions = self._subscriptions
        if self._member.state is not MemberState.STABLE or subscriptions.pattern is not None:
            return False
        if self._metadata.due:
            self._metadata.update(subscriptions.metadata_topics, everything=False)
        self._heartbeats.polled()
        return True

    def next_poll_ms(self) -> int | None:
        """Return when poll has something to do; None: when it is woken."""
        if self._calls or self._needs_poll:
            return self._network.now_ms
        return self._commits.next_auto_ms

    def request_rejoin(self) -> None:
        """Do nothing: the coordinator decides when members of this protocol rebalance."""

    def unsubscribe(self) -> None:
        """Give up all partitions, with the listener, and leave the group."""
        failure: Exception | None = None
        if not self._member.outside:
            self._leaving = True
            partitions = sorted(self._subscriptions.assigned)
            if partitions:
                self._call(self._given_up(self._member.member_epoch), partitions)
        try:
            self._run_calls()
        except KafkaError as error:
            failure = error
        timeout_ms = self._network.settings["default.api.timeout.ms"]
        self._leave(self._network.now_ms + timeout_ms)
        self._identity = -1, ""
        raise_failure(failure)

    def close(self, deadline_ms: int) -> None:
        """Do the same for good."""
        partitions, failure = sorted(self._subscriptions.assigned), None
        if self._subscriptions.auto_assigned and partitions:
            self._leaving = True
            kind = self._given_up(self._identity[0])
            failure = getattr(self._listeners, kind)(partitions)
        self._leave(deadline_ms)
        raise_failure(failure)

    def _given_up(self, epoch: int) -> str:
        return "revoked" if epoch > 0 else "lost"

    def _leave(self, deadline_ms: int) -> None:
        """Drop the assignment, and leave the group if the member is in it."""
        if self._member.outside:
            if self._member.state is MemberState.FENCED:
                self._member.state = MemberState.UNSUBSCRIBED
        else:
            left = self._heartbeats.leave()
            self._member.state = MemberState.UNSUBSCRIBED
            self._network.wait_for(left, deadline_ms)
        self._leaving = False
        self._interrupt()
        self._clear()

    # Calls of the listener, and errors

    def _call(self, kind: str, partitions: list[TopicPartition], done: _Done | None = None) -> None:
        """Let the application's next call tell the listener; then go on."""
        done = done or (lambda failure: None)
        if self._subscriptions.listener is None:
            done(getattr(self._listeners, kind)(partitions))
        else:
            self._calls.append((kind, partitions, done))
            self._network.wake()

    def _run_calls(self) -> None:
        """Call the listener with what has come so far; then raise the first error."""
        first: Exception | None = None
        for _ in range(len(self._calls)):
            call = self._calls.popleft()
            if isinstance(call, KafkaError):
                failure: Exception | None = call
            else:
                kind, partitions, done = call
                failure = getattr(self._listeners, kind)(partitions)
                done(failure)
            first = first or failure
        raise_failure(first)

    # The member

    def _join(self) -> None:
        self._interrupt()
        self._rejoins = False
        self._member.join()
        self._heartbeats.arm()

    def _interrupt(self) -> None:
        """End a reconciliation when its callback is done: it is not relevant any more."""
        if self._reconciling is not None:
            self._reconciling.over = True

    def _clear(self) -> None:
        if self._subscriptions.auto_assigned:
            self._subscriptions.assign(())

    def _fields(self) -> dict[str, Any]:
        settings = self._network.settings
        return {
            "rebalance_timeout_ms": settings["max.poll.interval.ms"],
            "subscribed_topic_names": sorted(self._subscriptions.topics),
            "subscribed_topic_regex": self._subscriptions.server_pattern,
            "server_assignor": settings["group.remote.assignor"],
            "rack_id": settings["client.rack"] or None,
        }

    def _accepted(self, response: Any) -> None:
        if self._member.outside or response.member_epoch < 0:
            return
        if self._leaving:  # it takes no new assignment
            self._member.member_epoch = response.member_epoch
        else:
            self._member.accept(response)
        if response.member_epoch > 0:
            self._identity = response.member_epoch, self._member_id
            self._joined_once = True
        self._reconcile(may_commit=False)

    def _heartbeat_refused(self, error: Error) -> None:
        member = self._member
        if member.outside:
            return
        self._network.note("fenced", error)
        if error not in _FENCED:
            self._calls.append(error_of(error, "heartbeat"))
            member.state = MemberState.FATAL
            self._lose()
        elif self._leaving:
            member.fence()
            member.state = MemberState.UNSUBSCRIBED
        else:
            member.fence()
            self._lose()

    def _late(self) -> None:
        """Leave the group, as the application does not poll."""
        self._network.note("late")
        self._heartbeats.leave()
        self._member.state = MemberState.STALE
        self._lose()

    def _lose(self) -> None:
        """Give up all partitions without a commit; then a fenced member joins again."""
        self._interrupt()

        def lost(failure: Exception | None) -> None:
            self._clear()
            state = self._member.state
            if state is MemberState.FENCED or (state is MemberState.STALE and self._rejoins):
                self._join()

        partitions = sorted(self._subscriptions.assigned)
        if partitions:
            self._call("lost", partitions, lost)
        else:
            lost(None)
        self._network.wake()

    # Reconciliation: commit, revoke, assign, acknowledge

    def _resolve(self) -> dict[str, str]:
        """Return the names of the target's topics, by id, as far as the metadata have them."""
        target, names = self._member.target.partitions, self._names
        if not names.keys() >= target.keys():
            topics = self._network.cluster._topics
            names |= {encode_topic_id(derived_topic_id(name)): name for name in topics}
        owned = {tp.topic for tp in self._subscriptions.assigned}
        known = {
            i: names[i]
            for i in target
            if i in names and (names[i] in self._metadata.counts or names[i] in owned)
        }
        if len(known) < len(target):
            new = frozenset(names[i] for i in target if i in names)
            if new != self._subscriptions.group_topics:
                self._subscriptions.group_topics = new
                self._metadata.request_update()
            else:
                self._metadata.retry()
            if self._metadata.due:
                self._network.wake()
        return known

    def _reconcile(self, *, may_commit: bool) -> None:
        """Begin to reconcile the target, if there is one and nothing is under way."""
        member = self._member
        if member.state is not MemberState.RECONCILING or self._leaving:
            return
        if self._reconciling is not None or member.current == member.target:
            return
        names = self._resolve()
        resolved = member.resolved(names)
        if member.current != NONE and resolved.partitions == member.current.partitions:
            if resolved != member.current:
                member.acknowledge(resolved)
                self._heartbeats.arm()
            return
        if self._commits.automatic and not may_commit:
            self._needs_poll = True  # only a poll knows which records have been processed
            self._network.wake()
            return
        subscriptions = self._subscriptions
        by_name = named(resolved.partitions, names)
        this = self._reconciling = _Reconciliation(
            *(resolved, set(subscriptions.assigned)),
            [TopicPartition(*tp) for tp in flat(by_name)],
            self._network.now_ms + self._network.settings["max.poll.interval.ms"],
        )
        for tp in this.revoked:
            subscriptions.assigned[tp].pending_revocation = True
        if self._commits.automatic:
            self._commit(this)
        else:
            self._revoke(this)

    def _is_over(self, this: _Reconciliation) -> bool:
        if this.over or self._leaving or self._member.state is not MemberState.RECONCILING:
            self._reconciling = None
            self._reconcile(may_commit=False)
            return True
        return False

    def _commit(self, this: _Reconciliation) -> None:
        """Commit the positions, again and again if that may help, and go on."""

        def committed(sent: Sent) -> None:
            failure = sent.failure
            again = isinstance(failure, StaleMemberEpochError) or (
                isinstance(failure, RetriableError)
                and failure.error != Error.UNKNOWN_TOPIC_OR_PARTITION
            )
            if self._is_over(this):
                return
            if again and self._network.now_ms < this.deadline_ms:
                backoff_ms = self._network.settings["retry.backoff.ms"]
                self._network.process.call_later(backoff_ms, self._commit, this)
            else:
                self._revoke(this)

        if not self._is_over(this):
            self._commits.send(self._subscriptions.all_consumed()).then(committed)

    def _revoke(self, this: _Reconciliation) -> None:
        def revoked(failure: Exception | None) -> None:
            if failure is not None:
                self._reconciling = None  # the next poll tries again
                self._needs_poll = True
            elif not self._is_over(this):
                self._assign(this)

        if this.revoked:
            self._call("revoked", this.revoked, revoked)
        else:
            self._assign(this)

    def _assign(self, this: _Reconciliation) -> None:
        """Own the new partitions; their records come after the callback."""
        subscriptions = self._subscriptions
        subscriptions.assign(this.assigned)
        for tp in this.added:
            subscriptions.assigned[tp].pending_assigned = True

        def assigned(failure: Exception | None) -> None:
            if failure is not None:
                self._reconciling = None
                self._needs_poll = True
                return
            for tp in this.assigned:
                if tp in subscriptions.assigned:
                    subscriptions.assigned[tp].pending_assigned = False
            if not self._is_over(this):
                self._reconciling = None
                self._member.acknowledge(this.target)
                self._commits.reschedule()
                self._heartbeats.arm()

        self._call("assigned", this.added, assigned)

    # Who it is

    def group_identity(self) -> tuple[int, str]:
        """Return the last epoch and the member id."""
        return self._identity

    def commit_identity(self) -> Identity:
        """Return who commits; epoch -1: the member is not in the group."""
        epoch = self._member.member_epoch
        member_id = self._member_id if self._joined_once else ""
        return max(epoch, 0) or -1, member_id, self._network.settings["group.instance.id"]

    def commit_refused(self, error: Error, sent: Identity) -> KafkaError:
        """Return the exception for a commit that was refused."""
        if error == Error.UNKNOWN_MEMBER_ID:
            return CommitFailedError("the offset commit failed: UNKNOWN_MEMBER_ID")
        if error == Error.STALE_MEMBER_EPOCH:
            return error_of(error, "offset commit")
        return KafkaError(f"unexpected error in commit: {error.name}")

    def fetch_identity(self) -> Any:
        """Return what a fetch of committed offsets belongs to: nothing but its partitions."""
        return None

    def fetch_fields(self) -> dict[str, Any]:
        """Return the fields of OffsetFetch that name the member."""
        epoch = self._member.member_epoch
        return {"member_id": self._member_id, "member_epoch": epoch} if epoch > 0 else {}
