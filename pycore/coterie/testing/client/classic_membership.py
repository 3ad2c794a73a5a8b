"""A consumer's membership of the classic protocol, eager or cooperative.

Requests and the state are those of ``AbstractCoordinator.java`` and ``Heartbeat.java``; what to
revoke, to assign and to lose, and when, is ``ConsumerCoordinator.java``'s (onJoinPrepare,
onJoinComplete, onLeavePrepare). The application's calls wait; the heartbeat thread is a timer.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from coterie.log.consumer_protocol import (
    LATEST,
    assignment,
    read_assignment,
    read_subscription,
    subscription,
)
from coterie.testing.assignors import ASSIGNORS, Assignor
from coterie.testing.client.commits import Commits, Identity
from coterie.testing.client.errors import (
    CommitFailedError,
    DisconnectError,
    FencedInstanceIdError,
    IllegalGenerationError,
    KafkaError,
    RebalanceInProgressError,
    RetriableError,
    UnknownMemberIdError,
    error_of,
)
from coterie.testing.client.listeners import Listeners
from coterie.testing.client.network import Metadata, NetworkClient, Sent
from coterie.testing.client.subscriptions import SubscriptionState
from coterie.testing.cluster.topics import TopicPartition
from coterie.testing.process import Timer
from coterie.values import Error

__all__ = ["ClassicMembership"]

JOIN_LAPSE_MS = 5_000  # a JoinGroup may take the rebalance timeout, and this much longer
_LOST_COORDINATOR = (Error.COORDINATOR_NOT_AVAILABLE, Error.NOT_COORDINATOR)
UNJOINED, PREPARING, COMPLETING, STABLE = "unjoined", "preparing", "completing", "stable"


class Generation(NamedTuple):
    """A generation: its number, the member id, and the assignor that the group has chosen."""

    generation_id: int = -1
    member_id: str = ""
    protocol_name: str | None = None


NO_GENERATION = Generation()


class _MemberIdRequired(KafkaError):
    """The member id is known now; join again with it."""


class ClassicMembership:
    """The membership of one consumer.

    Attributes
    ----------
    state : str
        ``unjoined``, ``preparing``, ``completing`` or ``stable``.
    generation : Generation
        The generation that it is in.
    """

    def __init__(
        self,
        network: NetworkClient,
        metadata: Metadata,
        subscriptions: SubscriptionState,
        commits: Commits,
    ) -> None:
        self._network, self._metadata = network, metadata
        self._subscriptions, self._commits = subscriptions, commits
        settings = network.settings
        self.group_id: str = settings["group.id"]
        self.group_instance_id: str | None = settings["group.instance.id"]
        names = settings["partition.assignment.strategy"]
        self._assignors: dict[str, Assignor] = {name: ASSIGNORS[name]() for name in names}
        self._cooperative = all(one.cooperative for one in self._assignors.values())
        self._listeners = Listeners(network, subscriptions)
        self.state, self.generation = UNJOINED, NO_GENERATION
        self._rejoin_needed = self._needs_prepare = True
        self._joining: Sent | None = None
        self._prepare_by_ms: int | None = None
        self._last_commit: Sent | None = None  # of the positions, before it joins again
        self._group_identity = (-1, "")
        self._leads = False
        self._joined_topics: frozenset[str] | None = None
        self._counts: dict[str, int] = {}  # of the subscribed topics
        self._assigned_counts: dict[str, int] | None = None  # those that the leader assigned by
        self._metadata_version = -1
        # the heartbeat thread
        self._failure: KafkaError | None = None
        self._timer: Timer | None = None
        self._timer_ms = 0
        self._beat_ms = self._session_ms = self._poll_ms = 0
        self._beating, self._attempts = False, 0

    # The application's poll

    def poll(self, deadline_ms: int, *, wait: bool = False) -> bool:
        """Do what is due: join, call the listener, commit; return whether it is a member.

        ``wait``: wait for the group; else the rebalance goes on in the next calls.
        """
        network = self._network
        self.update_metadata()
        self._commits.run_callbacks()
        if not self._subscriptions.auto_assigned:
            network.handle_responses()
            self._commits.automatic_if_due()
            return True
        self._poll_heartbeat()
        if network.coordinator is None and not network.ensure_coordinator(deadline_ms):
            return False
        if self.rejoin_needed():
            if self._subscriptions.pattern is not None:
                self._metadata.request_update()
                self.update_metadata()
            if not self._join_if_needed(deadline_ms if wait else network.now_ms):
                return False
        self._commits.automatic_if_due()
        return True

    def update_metadata(self) -> None:
        """Take note of topics that have changed."""
        subscriptions = self._subscriptions
        pattern = subscriptions.pattern
        self._metadata.update(subscriptions.metadata_topics, everything=pattern is not None)
        if self._metadata.version == self._metadata_version:
            return
        self._metadata_version = self._metadata.version
        known = self._metadata.counts
        if pattern is not None:
            subscriptions.topics = frozenset(filter(subscriptions.matches, known))
        self._counts = {t: known[t] for t in subscriptions.metadata_topics if t in known}

    def rejoin_needed(self) -> bool:
        """Whether it has to join again, or joins."""
        if not self._subscriptions.auto_assigned:
            return False
        topics, joined = self._subscriptions.topics, self._joined_topics
        if self._assigned_counts not in (None, self._counts) or joined not in (None, topics):
            self.request_rejoin()
        return self._rejoin_needed or self._joining is not None

    def request_rejoin(self) -> None:
        """Join again in the next poll."""
        self._rejoin_needed = True

    def next_poll_ms(self) -> int | None:
        """Return when poll has something to do; None: when it is woken."""
        if not self.rejoin_needed():
            return self._commits.next_auto_ms
        if self._last_commit is not None or self._joining is not None:
            return self._prepare_by_ms
        return self._network.now_ms if self._retry_ms is None else self._retry_ms

    _retry_ms: int | None = None  # when a failed join is tried again

    def _join_if_needed(self, deadline_ms: int) -> bool:
        network = self._network
        while self.rejoin_needed():
            if not network.ensure_coordinator(deadline_ms):
                return False
            if self._retry_ms is not None:
                network.sleep(self._retry_ms - network.now_ms, deadline_ms)
                if network.now_ms < self._retry_ms:
                    return False
                self._retry_ms = None
            if self._needs_prepare:
                self._needs_prepare = False
                if not self._prepare(deadline_ms):
                    self._needs_prepare = True
                    return False
            joining = self._join()
            if not network.wait_for(joining, deadline_ms):
                return False
            if joining.failure is None:
                self._joined(joining.value)
            elif not self._failed(joining.failure, deadline_ms):
                return False
        return True

    def _joined(self, data: bytes) -> None:
        if self.generation.protocol_name is not None and self.state == STABLE:
            self._complete(data)
            self._joining, self._needs_prepare = None, True
        else:  # the heartbeat thread has lost the generation meanwhile
            self._reset(keep_member_id=False)
            self._joining = None

    def _failed(self, failure: KafkaError, deadline_ms: int) -> bool:
        """Act on a failed join; return whether to try at once."""
        self._joining = None
        self._rejoin_needed = True
        if isinstance(
            failure,
            UnknownMemberIdError
            | IllegalGenerationError
            | RebalanceInProgressError
            | _MemberIdRequired,
        ):
            return True
        if not isinstance(failure, RetriableError):
            raise failure
        self._retry_ms = self._network.now_ms + self._network.settings["retry.backoff.ms"]
        return self._network.now_ms < deadline_ms

    # Before it joins, after it has joined, before it leaves

    def _prepare(self, deadline_ms: int) -> bool:
        """Commit the positions and give up partitions; return whether it is done."""
        if not self._commit_before_join(deadline_ms):
            return False
        self._prepare_by_ms = self._last_commit = None
        subscriptions = self._subscriptions
        failure: Exception | None = None
        owned = sorted(subscriptions.assigned)
        if self.generation.generation_id == -1 or not self.generation.member_id:
            if owned:
                failure = self._listeners.lost(owned)
                subscriptions.assign(())
        elif not self._cooperative:
            failure = self._listeners.revoked(owned)
            subscriptions.assign(())
        else:
            revoked = [tp for tp in owned if tp.topic not in subscriptions.topics]
            if revoked:
                failure = self._listeners.revoked(revoked)
                subscriptions.assign(tp for tp in owned if tp.topic in subscriptions.topics)
        self._leads = False
        subscriptions.group_topics = frozenset()
        raise_failure(failure)
        return True

    def _commit_before_join(self, deadline_ms: int) -> bool:
        network = self._network
        if self._prepare_by_ms is None:
            self._prepare_by_ms = network.now_ms + network.settings["max.poll.interval.ms"]
        if self._commits.automatic and self._last_commit is None:
            if not self._cooperative:
                for state in self._subscriptions.assigned.values():
                    state.pending_revocation = True
            self._last_commit = self._commits.automatically()
        commit = self._last_commit
        if commit is None:
            return True
        network.wait_for(commit, min(deadline_ms, self._prepare_by_ms))
        if network.now_ms >= self._prepare_by_ms:
            return True
        if not commit.done:
            return False
        self._last_commit = None
        if not isinstance(commit.failure, RetriableError):
            return True
        self._retry_ms = network.now_ms + network.settings["retry.backoff.ms"]
        return False

    def _complete(self, data: bytes) -> None:
        """Take the assignment: revoke what is gone (cooperative), then call on_assigned."""
        subscriptions = self._subscriptions
        self._group_identity = self.generation[:2]
        if not self._leads:
            self._assigned_counts = None
        owned = set(subscriptions.assigned)
        by_topic = read_assignment(data)
        assigned = sorted(
            TopicPartition(topic, partition)
            for topic, partitions in by_topic.items()
            for partition in partitions
        )
        if not all(subscriptions.matches(tp.topic) for tp in assigned):
            self.request_rejoin()
            return
        added = [tp for tp in assigned if tp not in owned]
        failure: Exception | None = None
        if self._cooperative:
            revoked = sorted(owned.difference(assigned))
            if revoked:
                failure = self._listeners.revoked(revoked)
                self.request_rejoin()
        if subscriptions.pattern is not None:
            new = {tp.topic for tp in assigned} - subscriptions.topics
            if new:
                subscriptions.topics |= new
                self._joined_topics = subscriptions.topics
                self._metadata.request_update()
        chosen = self._assignors[self.generation.protocol_name or ""]
        chosen.on_assignment(by_topic, self.generation.generation_id)
        self._commits.reschedule()
        subscriptions.assign(assigned)
        later = self._listeners.assigned(added)
        raise_failure(failure or later)

    def prepare_to_leave(self) -> None:
        """Give up all partitions before the group is left."""
        subscriptions = self._subscriptions
        dropped = sorted(subscriptions.assigned)
        if not subscriptions.auto_assigned or not dropped:
            return
        lost = (
            self.generation.generation_id == -1
            or not self.generation.member_id
            or self.state in (PREPARING, COMPLETING)
        )
        give_up = self._listeners.lost if lost else self._listeners.revoked
        failure = give_up(dropped)
        subscriptions.assign(())
        raise_failure(failure)

    def leave(self) -> None:
        """Leave the group, unless the member is static; no response is awaited."""
        if (
            self.group_instance_id is None
            and self._network.coordinator is not None
            and self.state != UNJOINED
            and self.generation.member_id
        ):
            self._network.cluster.note(self._network.client_id, "leave", None)
            self._network.send_to_coordinator(
                *("leave_group", lambda response: None, self.group_id),
                members=[(self.generation.member_id, None)],
            )
        self._reset(keep_member_id=False)

    def close(self) -> None:
        """Leave the group for good."""
        self._stop_heartbeats()
        self.prepare_to_leave()
        self.leave()

    # JoinGroup and SyncGroup

    def _join(self) -> Sent:
        if self._joining is None:
            self.state = PREPARING
            self._network.in_background = False
            self._joining = Sent()
            if self._network.coordinator is None:
                failure = error_of(Error.COORDINATOR_NOT_AVAILABLE, "JoinGroup")
                self._joining.fail(failure)
            else:
                self._send_join(self._joining)
        return self._joining

    def _send_join(self, joining: Sent) -> None:
        settings, subscriptions = self._network.settings, self._subscriptions
        self._joined_topics = subscriptions.topics
        rebalance_ms = settings["max.poll.interval.ms"]
        sent_generation = self.generation
        owned: dict[str, list[int]] = {}
        for topic, partition in sorted(subscriptions.assigned):
            owned.setdefault(topic, []).append(partition)
        protocols = {
            name: subscription(
                subscriptions.topics,
                LATEST,
                user_data=assignor.subscription_user_data(),
                owned=owned,
                generation_id=self.generation.generation_id,
            )
            for name, assignor in self._assignors.items()
        }
        self._network.cluster.note(
            self._network.client_id, "join", (self.generation.member_id, self.generation[0])
        )
        self._network.send_to_coordinator(
            *("join_group", lambda r: self._take_join(r, joining, sent_generation)),
            *(self.group_id, self.generation.member_id),
            protocol_type="consumer",
            protocols=protocols,
            session_timeout_ms=settings["session.timeout.ms"],
            rebalance_timeout_ms=rebalance_ms,
            group_instance_id=self.group_instance_id,
            client_id=self._network.client_id,
            require_known_member_id=True,
            supports_skipping_assignment=True,
            timeout_ms=max(settings["request.timeout.ms"], rebalance_ms + JOIN_LAPSE_MS),
        )

    def _take_join(self, response: Any, joining: Sent, sent_generation: Generation) -> None:
        error = Error.NONE if response is None else response.error
        if response is None:
            self._network.forget_coordinator()
            joining.fail(DisconnectError("JoinGroup was disconnected"))
        elif error == Error.NONE:
            if self.state != PREPARING or self._joining is not joining:
                joining.fail(RetriableError("the member has left the group meanwhile"))
                return
            self.state = COMPLETING
            self._start_heartbeats()
            self.generation = Generation(
                response.generation_id, response.member_id, response.protocol_name
            )
            self._sync(response, joining)
        elif error == Error.MEMBER_ID_REQUIRED:
            self.generation = Generation(-1, response.member_id)
            joining.fail(_MemberIdRequired())
        else:
            if error == Error.UNKNOWN_MEMBER_ID and self.generation == sent_generation:
                self._reset(keep_member_id=False)
            elif error in _LOST_COORDINATOR:
                self._network.forget_coordinator()
            joining.fail(error_of(error, "JoinGroup"))

    def _sync(self, response: Any, joining: Sent) -> None:
        plans: dict[str, bytes] = {}
        if response.leader == response.member_id:
            try:
                plans = self._lead(response)
            except KafkaError as failure:
                joining.fail(failure)
                return
        if self._network.coordinator is None:
            joining.fail(error_of(Error.COORDINATOR_NOT_AVAILABLE, "SyncGroup"))
            return
        sent_generation = self.generation
        self._network.send_to_coordinator(
            *("sync_group", lambda r: self._take_sync(r, joining, sent_generation)),
            *(self.group_id, self.generation.generation_id, self.generation.member_id),
            group_instance_id=self.group_instance_id,
            protocol_type="consumer",
            protocol_name=self.generation.protocol_name,
            assignments=plans,
        )

    def _take_sync(self, response: Any, joining: Sent, sent_generation: Generation) -> None:
        error = Error.NONE if response is None else response.error
        if response is None:
            self._network.forget_coordinator()
            joining.fail(DisconnectError("SyncGroup was disconnected"))
        elif error == Error.NONE:
            if self.state == COMPLETING and self.generation.protocol_name is not None:
                self.state, self._rejoin_needed = STABLE, False
                joining.complete(response.assignment)
            else:
                joining.fail(error_of(Error.ILLEGAL_GENERATION, "SyncGroup"))
        else:
            if error in (Error.UNKNOWN_MEMBER_ID, Error.ILLEGAL_GENERATION):
                if self.generation == sent_generation:
                    self._reset(keep_member_id=error == Error.ILLEGAL_GENERATION)
            elif error in _LOST_COORDINATOR:
                self._network.forget_coordinator()
            joining.fail(error_of(error, "SyncGroup"))

    def _lead(self, response: Any) -> dict[str, bytes]:
        """Assign partitions to all members."""
        subscriptions = {
            m.member_id: replace(
                read_subscription(m.metadata), group_instance_id=m.group_instance_id
            )
            for m in response.members
        }
        topics = frozenset(t for one in subscriptions.values() for t in one.topics)
        if not topics <= self._subscriptions.metadata_topics:
            self._subscriptions.group_topics = topics
            self._metadata.request_update()
        self._subscriptions.group_topics = topics
        self.update_metadata()
        self._counts = {t: n for t, n in self._metadata.counts.items() if t in topics}
        self._leads = True
        self._assigned_counts = self._counts
        if response.skip_assignment:
            return {}
        plan = self._assignors[response.protocol_name].assign(subscriptions, self._counts)
        return {member: assignment(partitions) for member, partitions in plan.items()}

    # The generation

    def _reset(self, *, keep_member_id: bool) -> None:
        """Forget the generation, and join again."""
        self.state = UNJOINED
        self.generation = Generation(-1, self.generation.member_id if keep_member_id else "")
        self._rejoin_needed = self._needs_prepare = True
        self._network.wake()

    def commit_identity(self) -> Identity:
        """Return who commits.

        Raises
        ------
        RebalanceInProgressError, CommitFailedError
            It is joining; it is not in the group.
        """
        if self.state == STABLE:
            return self.generation[0], self.generation[1], self.group_instance_id
        if self.state != UNJOINED:
            raise RebalanceInProgressError(
                "the consumer takes part in a rebalance; call poll(), then commit again"
            )
        raise CommitFailedError(
            "the offset commit cannot be completed, because the consumer is not part of an active "
            "group; it is likely that it was removed from the group"
        )

    def commit_refused(self, error: Error, sent: Identity) -> KafkaError:
        """Return the exception for a commit that was refused, and join again if necessary."""
        unchanged = self.generation[:2] == sent[:2]
        if error == Error.REBALANCE_IN_PROGRESS:
            self.request_rejoin()
            return RebalanceInProgressError(
                "the group rebalances; call poll() to take part, then commit again"
            )
        if error == Error.FENCED_INSTANCE_ID and unchanged:
            return FencedInstanceIdError("offset commit: FENCED_INSTANCE_ID")
        if not unchanged and self.state == PREPARING:
            return RebalanceInProgressError(
                "the generation of the commit is over; call poll(), then commit again"
            )
        if error != Error.FENCED_INSTANCE_ID:
            self._reset(keep_member_id=error == Error.ILLEGAL_GENERATION)
        return CommitFailedError()

    def group_identity(self) -> tuple[int, str]:
        """Return the generation and the member id of the last completed rebalance."""
        return self._group_identity

    def fetch_identity(self) -> Any:
        """Return what a fetch of committed offsets belongs to."""
        return self.generation if self.state == STABLE else None

    def fetch_fields(self) -> dict[str, Any]:
        """Return the fields of OffsetFetch that name the member: none."""
        return {}

    # The heartbeat thread

    def _poll_heartbeat(self) -> None:
        """Note that the application polls; raise what the heartbeat thread has failed with."""
        if self._failure is not None:
            failure, self._failure = self._failure, None
            self._stop_heartbeats()
            raise failure
        self._poll_ms = self._network.now_ms + self._network.settings["max.poll.interval.ms"]

    def _start_heartbeats(self) -> None:
        settings, now_ms = self._network.settings, self._network.now_ms
        self._network.in_background = True
        self._session_ms = now_ms + settings["session.timeout.ms"]
        self._poll_ms = now_ms + settings["max.poll.interval.ms"]
        self._beat_ms = now_ms + settings["heartbeat.interval.ms"]
        self._beating, self._attempts = False, 0
        self._arm()

    def _stop_heartbeats(self) -> None:
        self._network.in_background = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        """Run at the next heartbeat, which arrives then, or when poll is late."""
        if self._timer is not None:
            self._timer.cancel()
        arrives_ms = self._beat_ms + self._network.cluster.latency_ms
        self._timer_ms = min(arrives_ms, max(self._poll_ms, self._network.now_ms + 1))
        self._timer = self._network.process.call_later(
            self._timer_ms - self._network.now_ms, self._run_heartbeat
        )

    def _run_heartbeat(self) -> None:
        self._timer = None
        network = self._network
        now_ms = network.now_ms
        if self.state in (UNJOINED, PREPARING) or self._failure is not None:
            network.in_background = False
            return
        network.handle_responses()
        settings = network.settings
        if network.in_poll:
            self._poll_ms = now_ms + settings["max.poll.interval.ms"]
        if network.coordinator is None:
            network.look_up()
            self._beat_ms = now_ms + settings["retry.backoff.ms"]
        elif now_ms >= self._session_ms:
            network.forget_coordinator()
            self._beat_ms = now_ms + settings["retry.backoff.ms"]
        elif now_ms >= self._poll_ms:
            network.cluster.note(network.client_id, "late", None)
            self.leave()
            return
        elif now_ms >= self._beat_ms:
            self._beat_ms = now_ms + settings["heartbeat.interval.ms"]
            self._beat()
        if self.state not in (UNJOINED, PREPARING):
            self._arm()

    def _beat(self) -> None:
        network = self._network
        generation = self.generation
        if network.connection.perfect and network.coordinator == network.cluster.node:
            error = network.cluster.heartbeat(
                self.group_id, generation.generation_id, generation.member_id,
                self.group_instance_id,
            )  # fmt: skip
            if error == Error.NONE:
                self._session_ms = network.now_ms + network.settings["session.timeout.ms"]
                self._attempts = 0
            else:
                network.process.call_later(
                    network.cluster.latency_ms, self._take_heartbeat, error, generation
                )
        elif not self._beating:
            self._beating = True
            network.send_to_coordinator(
                *("heartbeat", lambda r: self._take_heartbeat_response(r, generation)),
                *(self.group_id, generation.generation_id, generation.member_id),
                group_instance_id=self.group_instance_id,
            )

    def _take_heartbeat_response(self, response: Any, sent: Generation) -> None:
        self._beating = False
        if response is None:
            self._network.forget_coordinator()
            self._heartbeat_failed()
        elif response.error == Error.NONE:
            self._heartbeat_succeeded()
        else:
            self._take_heartbeat(response.error, sent)

    def _heartbeat_succeeded(self) -> None:
        self._attempts = 0
        self._session_ms = self._network.now_ms + self._network.settings["session.timeout.ms"]

    def _heartbeat_failed(self) -> None:
        self._beat_ms = self._network.now_ms + self._network.backoff_ms(self._attempts)
        self._attempts += 1
        if self._timer is not None:
            self._arm()

    def _take_heartbeat(self, error: Error, sent: Generation) -> None:
        """Act on an error of a heartbeat."""
        if error in _LOST_COORDINATOR:
            self._network.forget_coordinator()
            self._heartbeat_failed()
        elif error == Error.REBALANCE_IN_PROGRESS:
            if self.state == STABLE:
                self.request_rejoin()
                self._network.wake()
            self._heartbeat_succeeded()
        elif error in (Error.ILLEGAL_GENERATION, Error.UNKNOWN_MEMBER_ID, Error.FENCED_INSTANCE_ID):
            if self.generation != sent:
                return
            self._network.cluster.note(self._network.client_id, "fenced", error)
            self._reset(keep_member_id=error == Error.ILLEGAL_GENERATION)
            if error == Error.FENCED_INSTANCE_ID:
                self._failure = FencedInstanceIdError("heartbeat: FENCED_INSTANCE_ID")
        else:
            self._heartbeat_failed()


def raise_failure(failure: Exception | None) -> None:
    """Raise what a rebalance listener has raised, as Kafka's client does."""
    if isinstance(failure, KafkaError):
        raise failure
    if failure is not None:
        raise KafkaError(f"the rebalance listener raised {failure!r:.200}") from failure
