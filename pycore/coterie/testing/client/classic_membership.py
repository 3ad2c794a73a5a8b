"""A consumer's membership of the classic protocol, eager or cooperative.

What it gives up and is assigned, and when the listener is called.
Source: ``ConsumerCoordinator.java`` (onJoinPrepare, onJoinComplete, onLeaderElected,
onLeavePrepare), ``AbstractCoordinator.joinGroupIfNeeded``.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

from coterie._core.testing.clients import Sent
from coterie.base.consumer_protocol import (
    LATEST,
    assignment,
    read_assignment,
    read_subscription,
    subscription,
)
from coterie.testing.assignors import ASSIGNORS, Assignor
from coterie.testing.client.classic_group import ClassicGroup, MemberIdRequired
from coterie.testing.client.commits import Commits
from coterie.testing.client.errors import (
    IllegalGenerationError,
    KafkaError,
    RebalanceInProgressError,
    RetriableError,
    UnknownMemberIdError,
)
from coterie.testing.client.listeners import Listeners
from coterie.testing.client.membership import raise_failure
from coterie.testing.client.metadata import Metadata
from coterie.testing.client.network import NetworkClient
from coterie.testing.client.subscriptions import SubscriptionState
from coterie.testing.topics import TopicPartition

_AT_ONCE = (
    UnknownMemberIdError, IllegalGenerationError, RebalanceInProgressError, MemberIdRequired
)  # fmt: skip


@lru_cache(maxsize=256)  # a join is tried again and again while a coordinator loads
def _subscription(
    topics: frozenset[str],
    user_data: bytes | None,
    assigned: tuple[TopicPartition, ...],
    generation_id: int,
    rack_id: str | None,
) -> bytes:
    owned: dict[str, list[int]] = {}
    for topic, partition in assigned:
        owned.setdefault(topic, []).append(partition)
    return subscription(
        *(topics, LATEST),
        user_data=user_data,
        owned=owned,
        generation_id=generation_id,
        rack_id=rack_id,
    )


class ClassicMembership:
    """The membership of one consumer, a :class:`~coterie.testing.client.membership.Membership`."""

    def __init__(
        self,
        network: NetworkClient,
        metadata: Metadata,
        subscriptions: SubscriptionState,
        commits: Commits,
    ) -> None:
        self._network, self._metadata = network, metadata
        self._subscriptions, self._commits = subscriptions, commits
        names = network.settings["partition.assignment.strategy"]
        self._assignors: dict[str, Assignor] = {name: ASSIGNORS[name]() for name in names}
        self._cooperative = all(one.cooperative for one in self._assignors.values())
        self._listeners = Listeners(network, subscriptions)
        self.group = ClassicGroup(network, protocols=self._protocols, lead=self._lead)
        self.commit_identity = self.group.commit_identity
        self.commit_refused = self.group.commit_refused
        self.request_rejoin = self.group.request_rejoin
        self._identity = (-1, "")
        self._prepare_by_ms: int | None = None
        self._last_commit: Sent | None = None  # of the positions, before it joins again
        self._retry_ms = 0  # when a failed join or commit is tried again
        self._leads = False
        self._joined_topics: frozenset[str] | None = None
        self._counts: dict[str, int] = {}  # of the subscribed topics
        self._assigned_counts: dict[str, int] | None = None  # those that the leader assigned by
        self._metadata_version = -1

    # The application's poll

    def poll(self, deadline_ms: int) -> bool:
        """Do what is due: join, call the listener, commit; return whether it is a member."""
        network = self._network
        self._update_metadata()
        commits = self._commits
        commits.run_callbacks()
        if not self._subscriptions.auto_assigned:
            network.handle_responses()
            commits.automatic_if_due()
            return True
        self.group.heartbeats.polled()
        if network.coordinator is None and not network.ensure_coordinator(deadline_ms):
            return False
        if self._rejoin_needed():
            if self._subscriptions.pattern is not None:
                self._metadata.request_update()
                self._update_metadata()
            if not self._join_if_needed(network.now_ms):
                return False
        if commits.next_auto_ms is not None:
            commits.automatic_if_due()
        return True

    def poll_idly(self) -> bool:
        """Look at the topics when no poll is due; return whether poll has nothing else to do."""
        self._update_metadata()
        if self._network.coordinator is None or self._rejoin_needed():
            return False
        self.group.heartbeats.polled()
        return True

    def next_poll_ms(self) -> int | None:
        """Return when poll has something to do; None: when it is woken."""
        if not self._rejoin_needed():
            return self._commits.next_auto_ms
        if self._last_commit is not None or self.group.joining is not None:
            return self._prepare_by_ms
        return self._retry_ms

    def _update_metadata(self) -> None:
        subscriptions = self._subscriptions
        pattern = subscriptions.pattern
        if self._metadata.due:
            self._metadata.update(subscriptions.metadata_topics, everything=pattern is not None)
        if self._metadata.version == self._metadata_version:
            return
        self._metadata_version = self._metadata.version
        known = self._metadata.counts
        if pattern is not None:
            subscriptions.topics = frozenset(filter(subscriptions.matches, known))
        self._counts = {t: known[t] for t in subscriptions.metadata_topics if t in known}

    def _rejoin_needed(self) -> bool:
        """Whether it has to join again, or joins."""
        group, subscriptions = self.group, self._subscriptions
        if not subscriptions.auto_assigned:
            return False
        assigned, joined = self._assigned_counts, self._joined_topics
        if (assigned is not None and assigned != self._counts) or (
            joined is not None and joined != subscriptions.topics
        ):
            group.request_rejoin()
        return group.rejoin_needed or group.joining is not None

    def _join_if_needed(self, deadline_ms: int) -> bool:
        """Join, and go on with a join, as far as there are answers; return whether it is done."""
        network, group = self._network, self.group
        while self._rejoin_needed():
            if not network.ensure_coordinator(deadline_ms):
                return False
            if network.now_ms < self._retry_ms:
                return False
            if group.needs_prepare:
                group.needs_prepare = False
                if not self._prepare(deadline_ms):
                    group.needs_prepare = True
                    return False
            joining = group.join()
            if not network.wait_for(joining, deadline_ms):
                return False
            if joining.failure is not None:
                if not self._failed(joining.failure):
                    return False
            elif group.stable:
                self._complete(joining.value)  # if it raises, the next poll calls it again
                group.joining, group.needs_prepare = None, True
            else:  # the heartbeat thread has lost the generation meanwhile
                group.reset(keep_member_id=False)
                group.joining = None
        return True

    def _failed(self, failure: KafkaError) -> bool:
        """Act on a failed join; return whether to join again at once."""
        self.group.joining = None
        self.group.request_rejoin()
        if isinstance(failure, _AT_ONCE):
            return True
        if not isinstance(failure, RetriableError):
            raise failure
        self._retry_ms = self._network.now_ms + self._network.settings["retry.backoff.ms"]
        return False

    # Before it joins

    def _prepare(self, deadline_ms: int) -> bool:
        """Commit the positions and give up partitions; return whether it is done."""
        was_member = self.group.has_generation  # Kafka takes it before the commit
        if not self._commit_before_join(deadline_ms):
            return False
        self._prepare_by_ms = self._last_commit = None
        subscriptions = self._subscriptions
        failure: Exception | None = None
        owned = sorted(subscriptions.assigned)
        if not was_member and (owned or not self._network.revokes_nothing):
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
        """Commit the positions, if it commits by itself; return whether that is over."""
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

    def _protocols(self) -> dict[str, bytes]:
        subscriptions = self._subscriptions
        self._joined_topics = subscriptions.topics
        details = (
            *(tuple(sorted(subscriptions.assigned)), self.group.generation.generation_id),
            self._network.settings["client.rack"] or None,
        )
        return {
            name: _subscription(subscriptions.topics, assignor.subscription_user_data(), *details)
            for name, assignor in self._assignors.items()
        }

    # While and after it joins

    def _lead(self, response: Any) -> dict[str, bytes]:
        """Assign partitions to all members; a skipped assignment is empty."""
        members = {
            m.member_id: replace(
                read_subscription(m.metadata), group_instance_id=m.group_instance_id
            )
            for m in response.members
        }
        topics = frozenset(topic for each in members.values() for topic in each.topics)
        if not topics <= self._subscriptions.topics:
            self._metadata.request_update()
        self._subscriptions.group_topics = topics
        self._metadata_version = -1
        self._update_metadata()
        self._leads = True
        self._assigned_counts = self._counts
        if response.skip_assignment:
            return {}
        racks = self._network.cluster._racks
        assignor = self._assignors[response.protocol_name]
        return {
            member: assignment(partitions, user_data=assignor.assignment_user_data)
            for member, partitions in assignor.assign(members, self._counts, racks).items()
        }

    def _complete(self, data: bytes) -> None:
        """Take the assignment: revoke what is gone (cooperative), then call on_assigned."""
        subscriptions, group = self._subscriptions, self.group
        self._identity = group.generation[:2]
        if not self._leads:
            self._assigned_counts = None
        owned = set(subscriptions.assigned)
        by_topic = read_assignment(data)
        assigned = sorted(
            TopicPartition(topic, number) for topic in by_topic for number in by_topic[topic]
        )
        if not all(subscriptions.matches(tp.topic) for tp in assigned):
            group.request_rejoin()
            return
        failure: Exception | None = None
        revoked = sorted(owned.difference(assigned))
        if revoked:  # by a cooperative one; an eager one has given up all
            failure = self._listeners.revoked(revoked)
            group.request_rejoin()
        if subscriptions.pattern is not None and not set(by_topic) <= subscriptions.topics:
            subscriptions.topics |= set(by_topic)
            self._joined_topics = subscriptions.topics
            self._metadata.request_update()
        chosen = self._assignors[group.generation.protocol_name or ""]
        chosen.on_assignment(by_topic, group.generation.generation_id)
        self._commits.reschedule()
        subscriptions.assign(assigned)
        later = self._listeners.assigned([tp for tp in assigned if tp not in owned])
        raise_failure(failure or later)

    # The end

    def unsubscribe(self) -> None:
        """Give up all partitions, with the listener, and leave the group."""
        self._give_up()
        self.group.leave()

    def close(self, deadline_ms: int) -> None:
        """Do the same for good."""
        self.group.heartbeats.stop()
        self.unsubscribe()

    def _give_up(self) -> None:
        subscriptions, group = self._subscriptions, self.group
        dropped = sorted(subscriptions.assigned)
        if not subscriptions.auto_assigned or not dropped:
            return
        lost = not group.has_generation or group.in_rebalance
        failure = (self._listeners.lost if lost else self._listeners.revoked)(dropped)
        subscriptions.assign(())
        raise_failure(failure)

    # Who it is

    def group_identity(self) -> tuple[int, str]:
        """Return the generation and the member id of the last assignment."""
        return self._identity

    def fetch_identity(self) -> Any:
        """Return what a fetch of committed offsets belongs to."""
        return self.group.generation if self.group.stable else None

    def fetch_fields(self) -> dict[str, Any]:
        """Return the fields of OffsetFetch that name the member: none."""
        return {}
