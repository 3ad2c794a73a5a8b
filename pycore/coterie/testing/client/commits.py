"""Commits of a consumer: synchronous, asynchronous, automatic; and committed offsets.

Source: ``ConsumerCoordinator.java`` (commitOffsetsSync, commitOffsetsAsync,
OffsetCommitResponseHandler, OffsetFetchResponseHandler).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

from coterie._core.testing.clients import Sent
from coterie.base.arguments import within
from coterie.coordinator.fields import committed
from coterie.errors import ArgumentError, shown
from coterie.testing.client.errors import (
    CommitFailedError,
    DisconnectError,
    FencedInstanceIdError,
    KafkaError,
    RetriableCommitFailedError,
    RetriableError,
    StaleMemberEpochError,
    error_of,
)
from coterie.testing.client.membership import NOBODY, Identity, Membership
from coterie.testing.client.network import NetworkClient
from coterie.testing.client.subscriptions import SubscriptionState
from coterie.testing.topics import TopicPartition, partition_of
from coterie.values import Error, OffsetAndMetadata

Offsets = dict[TopicPartition, OffsetAndMetadata]
Callback = Callable[[Offsets, "KafkaError | None"], None]
_NONE = Error.NONE  # each response has it
_LOST_COORDINATOR = (
    Error.COORDINATOR_NOT_AVAILABLE, Error.NOT_COORDINATOR, Error.REQUEST_TIMED_OUT,
)  # fmt: skip


def offsets_of(given: Any) -> Offsets:
    """Return the offsets that an application commits."""
    if not isinstance(given, Mapping):
        raise ArgumentError(f"offsets must map partitions to offsets, not {shown(given)}")
    chosen: Offsets = {}
    for tp, entry in given.items():
        if isinstance(entry, OffsetAndMetadata):
            committed({"offsets": {tp: entry}}, "offsets", None)  # checks its fields
            within(entry.offset, "an offset", 0, 2**63 - 1)
        else:
            entry = OffsetAndMetadata(within(entry, "an offset", 0, 2**63 - 1))
        chosen[partition_of(tp)] = entry
    return chosen


class Commits:
    """The commits of a consumer.

    Attributes
    ----------
    next_auto_ms : int or None
        When it commits by itself next; None: not before the application's next call, or never.
    """

    def __init__(self, network: NetworkClient, subscriptions: SubscriptionState) -> None:
        self._network, self._subscriptions = network, subscriptions
        settings = network.settings
        self.automatic: bool = settings["enable.auto.commit"]
        self._interval_ms: int = settings["auto.commit.interval.ms"]
        self.group_id: str | None = settings["group.id"]
        self.next_auto_ms: int | None = None
        self.reschedule()
        self.member: Membership | None = None  # set by the consumer
        self._completed: deque[tuple[Callback | None, Offsets, KafkaError | None]] = deque()
        self._in_flight = self._pending = 0  # asynchronous ones; those that need a coordinator
        self._fenced = False

    # The application's

    def sync(self, offsets: Offsets, deadline_ms: int) -> bool:
        """Commit, and again after errors that may pass; return whether it was done in time."""
        if self._completed or self._fenced:
            self.run_callbacks()
        if not offsets:
            return self._await_asynchronous(deadline_ms)
        network, attempts = self._network, 0
        while True:
            known = network.coordinator is not None
            if not known and not network.ensure_coordinator(deadline_ms):
                return False
            sent = self.send(offsets)
            network.wait_for(sent, deadline_ms)
            if self._completed or self._fenced:
                self.run_callbacks()
            if sent.done and sent.failure is None:
                return True
            if isinstance(sent.failure, StaleMemberEpochError):
                raise CommitFailedError("the offset commit failed: STALE_MEMBER_EPOCH")
            if sent.failure is not None and not isinstance(sent.failure, RetriableError):
                raise sent.failure
            network.sleep(network.backoff_ms(attempts), deadline_ms)
            attempts += 1
            if network.now_ms >= deadline_ms:
                return False

    def asynchronous(self, offsets: Offsets, callback: Callback | None = None) -> Sent | None:
        """Commit without waiting; the callback runs in a later call of the application."""
        self.run_callbacks()
        if not offsets or self._network.coordinator is not None:
            sent = self._send_asynchronous(offsets, callback)
            self._network.handle_responses()
            return sent
        self._pending += 1

        def found(lookup: Sent) -> None:
            self._pending -= 1
            if lookup.failure is None:
                self._send_asynchronous(offsets, callback)
            else:
                failure = RetriableCommitFailedError(f"offset commit failed: {lookup.failure}")
                self._completed.append((callback, offsets, failure))

        self._network.look_up().then(found)
        return None

    def run_callbacks(self) -> None:
        """Run the callbacks of asynchronous commits that are complete."""
        if self._fenced:
            raise FencedInstanceIdError("an asynchronous commit was refused: FENCED_INSTANCE_ID")
        while self._completed:
            callback, offsets, failure = self._completed.popleft()
            if callback is not None:
                callback(offsets, failure)

    def finish(self, deadline_ms: int) -> None:
        """Commit a last time if it commits by itself, and wait for asynchronous commits."""
        if self.automatic:
            with suppress(Exception):  # Kafka logs it, and goes on to close
                self.sync(self._subscriptions.all_consumed(), deadline_ms)
        while self._pending and self._network.now_ms < deadline_ms:
            self._network.ensure_coordinator(deadline_ms)
            self.run_callbacks()

    def await_callbacks(self, deadline_ms: int) -> None:
        """Wait for the responses to asynchronous commits; their callbacks are not run."""
        while self._in_flight and self._network.now_ms < deadline_ms:
            self._network.wait(deadline_ms)

    # Automatic ones

    def begin_call(self) -> None:
        """Take note of a call of the application: without an interval, each commits."""
        if self.automatic and self.next_auto_ms is None:
            self.next_auto_ms = self._network.now_ms

    def reschedule(self, after_ms: int | None = None) -> None:
        """Commit automatically so long from now; default: after the interval.

        Without an interval, Kafka's client commits as often as it can while it waits, always the
        same positions; here it commits once a call.
        """
        if self.automatic:
            wait_ms = self._interval_ms if after_ms is None else after_ms
            self.next_auto_ms = self._network.now_ms + wait_ms if wait_ms else None

    def automatic_if_due(self) -> None:
        """Commit the positions if it is time to."""
        if self.next_auto_ms is not None and self._network.now_ms >= self.next_auto_ms:
            self.reschedule()
            self.automatically()

    def automatically(self) -> Sent | None:
        """Commit the positions now, without waiting."""
        return self.asynchronous(self._subscriptions.all_consumed(), self._committed_itself)

    def _committed_itself(self, offsets: Offsets, failure: KafkaError | None) -> None:
        if isinstance(failure, RetriableCommitFailedError):
            self.reschedule(self._network.settings["retry.backoff.ms"])

    # Requests

    def _await_asynchronous(self, deadline_ms: int) -> bool:
        while self._in_flight:
            if self._network.now_ms >= deadline_ms:
                return False
            self._network.ensure_coordinator(deadline_ms)
            self._network.wait(deadline_ms)
            self.run_callbacks()
        return True

    def _send_asynchronous(self, offsets: Offsets, callback: Callback | None) -> Sent:
        sent = self.send(offsets)
        self._in_flight += 1

        def done(sent: Sent) -> None:
            self._in_flight -= 1
            failure = sent.failure
            if isinstance(failure, RetriableError):
                cause = failure
                failure = RetriableCommitFailedError(f"offset commit failed: {cause}")
                failure.__cause__ = cause
            elif isinstance(failure, FencedInstanceIdError):
                self._fenced = True
            self._completed.append((callback, offsets, failure))
            self._network.wake()

        sent.then(done)
        return sent

    def send(self, offsets: Offsets) -> Sent:
        """Send OffsetCommit once; the result has no callback."""
        network, sent = self._network, Sent()
        if not offsets:
            sent.complete()
            return sent
        if network.coordinator is None:
            return Sent.failed(error_of(Error.COORDINATOR_NOT_AVAILABLE, "offset commit"))
        identity = NOBODY
        if self._subscriptions.auto_assigned and self.member is not None:
            try:
                identity = self.member.commit_identity()
            except KafkaError as error:
                return Sent.failed(error)
        network.note("commit", offsets)

        def respond(response: Any) -> None:
            failure = self._failure(response, identity)
            if failure is None:
                network.note("committed", (offsets, None))
                sent.complete()
            else:
                network.note("committed", (offsets, type(failure).__name__))
                sent.fail(failure)

        generation_id, member_id, instance_id = identity
        network.send_to_coordinator(
            *("offset_commit", respond, self.group_id, dict(offsets)),
            generation_id=generation_id,
            member_id=member_id,
            group_instance_id=instance_id,
        )
        return sent

    def _failure(self, response: Any, identity: Identity) -> KafkaError | None:
        """Return the exception for a response to OffsetCommit; None: it succeeded."""
        if response is None:
            self._network.forget_coordinator()
            return DisconnectError("the offset commit was disconnected")
        for partition in response.partitions:
            error = partition.error
            if error is _NONE:
                continue
            if error in _LOST_COORDINATOR:
                self._network.forget_coordinator()
            elif error in (Error.FENCED_INSTANCE_ID, Error.UNKNOWN_MEMBER_ID,
                           Error.ILLEGAL_GENERATION, Error.REBALANCE_IN_PROGRESS,
                           Error.STALE_MEMBER_EPOCH, Error.FENCED_MEMBER_EPOCH):  # fmt: skip
                failure: KafkaError = CommitFailedError()
                if identity != NOBODY and self.member is not None:
                    failure = self.member.commit_refused(error, identity)
                failure.error = error
                return failure
            return error_of(error, "offset commit")
        return None

    # Committed offsets

    def fetch(
        self, partitions: Iterable[TopicPartition], deadline_ms: int
    ) -> Mapping[TopicPartition, OffsetAndMetadata | None] | None:
        """Return the committed offset of each partition, or None; None in all: not in time."""
        places = tuple(partitions)
        if not places:
            return {}
        attempts = 0
        while True:
            if not self._network.ensure_coordinator(deadline_ms):
                return None
            sent = self._fetching(places)
            if not self._network.wait_for(sent, deadline_ms):
                return None
            self._fetch = None
            if sent.failure is None:
                return sent.value  # type: ignore[no-any-return]
            assert self.member is not None
            # the epoch may have changed meanwhile, and the next request has the new one
            stale = isinstance(sent.failure, StaleMemberEpochError) and self.member.fetch_fields()
            if not stale and not isinstance(sent.failure, RetriableError):
                raise sent.failure
            self._network.sleep(self._network.backoff_ms(attempts), deadline_ms)
            attempts += 1
            if self._network.now_ms >= deadline_ms:
                return None

    _fetch: tuple[Any, Sent] | None = None  # a fetch under way, and what it is for

    def _fetching(self, places: tuple[TopicPartition, ...]) -> Sent:
        """Send OffsetFetch, unless the same one is under way."""
        assert self.member is not None
        identity = self.member.fetch_identity()
        if self._fetch is not None and self._fetch[0] == (places, identity):
            return self._fetch[1]
        sent = Sent()
        self._fetch = (places, identity), sent
        topics: dict[str, list[int]] = {}
        for topic, partition in places:
            topics.setdefault(topic, []).append(partition)
        self._network.send_to_coordinator(
            *("offset_fetch", lambda response: self._fetched(response, sent), self.group_id),
            topics=topics,
            require_stable=True,
            **self.member.fetch_fields(),
        )
        return sent

    def _fetched(self, response: Any, sent: Sent) -> None:
        if response is None:
            self._network.forget_coordinator()
            sent.fail(DisconnectError("OffsetFetch was disconnected"))
            return
        error = response.error
        if error in (Error.COORDINATOR_NOT_AVAILABLE, Error.NOT_COORDINATOR):
            self._network.forget_coordinator()
        found: dict[TopicPartition, OffsetAndMetadata | None] = {}
        for one in response.partitions:
            if one.error != Error.NONE:
                error = one.error
            offset = OffsetAndMetadata(one.offset, one.leader_epoch, one.metadata)
            found[TopicPartition(one.topic, one.partition)] = offset if one.offset >= 0 else None
        if error == Error.NONE:
            sent.complete(found)
        elif error == Error.UNKNOWN_TOPIC_OR_PARTITION:
            sent.fail(KafkaError("OffsetFetch: a topic or a partition does not exist"))
        else:
            sent.fail(error_of(error, "OffsetFetch"))
