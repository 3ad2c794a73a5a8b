"""The consumer: the methods of Kafka's client over its parts.

Source: ``ClassicKafkaConsumer.java``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from coterie._core.testing.clients import earliest
from coterie.base.arguments import function, milliseconds, sequence, text, walked, within
from coterie.errors import ArgumentError, shown
from coterie.testing.client.classic_membership import ClassicMembership
from coterie.testing.client.commits import Callback, Commits, Offsets, offsets_of
from coterie.testing.client.consumer_membership import ConsumerMembership
from coterie.testing.client.errors import (
    IllegalStateError,
    InvalidGroupIdError,
    KafkaTimeoutError,
    WakeupError,
)
from coterie.testing.client.fetcher import EARLIEST, LATEST, Fetcher
from coterie.testing.client.membership import Membership
from coterie.testing.client.metadata import Metadata
from coterie.testing.client.network import NetworkClient
from coterie.testing.client.settings import consumer_settings, timeout_of
from coterie.testing.client.subscriptions import SubscriptionPattern, SubscriptionState
from coterie.testing.process import Process, process_of
from coterie.testing.simulated_cluster import Cluster
from coterie.testing.topics import ConsumerRecord, TopicPartition, partition_of
from coterie.values import OffsetAndMetadata

CLOSE_TIMEOUT_MS = 30_000
_MEMBERSHIPS: dict[str, Callable[..., Membership]] = {
    "classic": ClassicMembership,
    "consumer": ConsumerMembership,
}


class ConsumerGroupMetadata(NamedTuple):
    """Who a consumer is, for a transactional producer."""

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None


class Consumer:
    """A consumer on virtual time.

    Its calls wait as those of Kafka's client do: in the program of its process, or, without one,
    by running the clock. Times are ms.

    Parameters
    ----------
    cluster : Cluster
        What it connects to.
    settings : mapping
        A consumer's settings by Kafka's names, such as ``group.id``.
    process : Process, optional
        The process that it lives in; default: one of its own, without a program.

    Attributes
    ----------
    client_id : str
        Its ``client.id``; default: the name of the process.

    Examples
    --------
    >>> cluster = Cluster({"orders": 2})  # a record a second in each partition
    >>> consumer = Consumer(cluster, {"group.id": "g", "auto.offset.reset": "earliest"})
    >>> consumer.subscribe(["orders"])
    >>> len(consumer.poll(10_000)), cluster.now_ms
    (6, 3012)
    >>> consumer.commit()
    >>> consumer.committed([TopicPartition("orders", 0)])[TopicPartition("orders", 0)].offset
    3
    """

    def __init__(
        self, cluster: Cluster, settings: Mapping[str, Any], *, process: Process | None = None
    ) -> None:
        if not isinstance(cluster, Cluster):
            raise ArgumentError(f"cluster must be a Cluster, not {shown(cluster)}")
        self._settings = chosen = consumer_settings(settings)
        process = process_of(cluster.schedule, process, chosen["client.id"] or "consumer")
        self.client_id: str = chosen["client.id"] or process.name
        self._subscriptions = SubscriptionState(chosen["auto.offset.reset"])
        host = cluster.network.host(self.client_id)
        self._network = NetworkClient(cluster, host, process, chosen)
        self._metadata = Metadata(self._network)
        self._commits: Commits | None = None
        self._member: Membership | None = None
        if chosen["group.id"] is not None:
            self._commits = Commits(self._network, self._subscriptions)
            self._member = _MEMBERSHIPS[chosen["group.protocol"]](
                self._network, self._metadata, self._subscriptions, self._commits
            )
            self._commits.member = self._member
        self._fetcher = Fetcher(self._network, self._metadata, self._subscriptions, self._commits)
        self._closed = self._woken = False

    def __repr__(self) -> str:
        return f"<Consumer {self.client_id} of {self._settings['group.id']!r}>"

    # Subscription and assignment

    def subscribe(
        self,
        topics: Iterable[str] | re.Pattern[str] | SubscriptionPattern,
        listener: Any = None,
    ) -> None:
        """Subscribe to topics, or to those that match an expression, in place of those before.

        The client itself matches a compiled ``re.Pattern``, the whole name of a topic, when its
        metadata are refreshed. Under the consumer protocol the coordinator matches a
        :class:`SubscriptionPattern`.

        ``listener``: an object with some of ``on_partitions_assigned``, ``on_partitions_revoked``
        and ``on_partitions_lost``, each called with a list of partitions, in order.
        """
        self._open()
        self._group()
        if isinstance(topics, re.Pattern):
            self._subscriptions.subscribe_pattern(topics, listener)
            self._metadata.request_update()
            return
        if isinstance(topics, SubscriptionPattern):
            self._subscribe_by_server(topics, listener)
            return
        names = [text(topic, "a topic") for topic in sequence(topics, "topics")]
        if not names:
            self.unsubscribe()
            return
        if not all(name.strip() for name in names):
            raise ArgumentError("topics must not contain an empty name")
        before = self._subscriptions.topics
        self._subscriptions.subscribe(names, listener)
        if self._subscriptions.topics != before:
            self._metadata.request_update()

    def _subscribe_by_server(self, topics: SubscriptionPattern, listener: Any) -> None:
        if self._settings["group.protocol"] == "classic":
            raise ArgumentError("a SubscriptionPattern needs group.protocol=consumer")
        if not text(topics.pattern, "the pattern"):
            raise ArgumentError("the pattern must not be empty")
        self._subscriptions.subscribe_server_pattern(topics.pattern, listener)

    def unsubscribe(self) -> None:
        """Leave the group, and drop all partitions."""
        self._open()
        if self._member is not None:
            self._member.unsubscribe()
        self._subscriptions.unsubscribe()

    def assign(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Read these partitions, outside of the group."""
        self._open()
        chosen = _partitions(partitions)
        if not chosen:
            self.unsubscribe()
            return
        if self._commits is not None:
            self._commits.begin_call()
            self._commits.automatic_if_due()
        self._subscriptions.assign_by_application(chosen)
        self._metadata.request_update()

    def assignment(self) -> set[TopicPartition]:
        """Return the assigned partitions."""
        self._open()
        return set(self._subscriptions.assigned)

    def subscription(self) -> set[str]:
        """Return the subscribed topics."""
        self._open()
        return set(self._subscriptions.topics) if self._subscriptions.auto_assigned else set()

    # Records

    def poll(self, timeout_ms: int) -> list[ConsumerRecord]:
        """Return records, as soon as there are any; take part in the group meanwhile.

        Rebalance listeners and callbacks of asynchronous commits are called from here.

        Raises
        ------
        KafkaError
            What Kafka's client throws: a listener has raised, the instance is fenced, a position
            is out of range, ...
        """
        self._open()
        deadline_ms = self._deadline(timeout_ms)
        if self._subscriptions.kind is None:
            raise IllegalStateError("subscribe to topics or assign partitions before poll")
        self._network.note("poll")
        if self._commits is not None:
            self._commits.begin_call()
        while True:
            if self._woken:
                self._woken = False
                raise WakeupError("wakeup() was called")
            member = self._member
            assigned = self._poll_alone() if member is None else member.poll(deadline_ms)
            if assigned and not self._subscriptions.all_valid:
                self._fetcher.update_positions(deadline_ms)
            records = self._fetcher.collect()
            if records is None and not self._woken:
                records = self._wait_for_records(deadline_ms)
            if records is not None:
                return records
            if self._network.now_ms >= deadline_ms:
                return []

    def _poll_alone(self) -> bool:
        if self._metadata.due:
            self._metadata.update(self._subscriptions.metadata_topics, everything=False)
        self._network.handle_responses()
        return True

    def _wait_for_records(self, deadline_ms: int) -> list[ConsumerRecord] | None:
        """Wait until there are records, or something else to do than to look at the topics."""
        network, fetcher, member = self._network, self._fetcher, self._member
        network.in_poll = True
        try:
            next_poll_ms = None if member is None else member.next_poll_ms()
            until_ms = earliest(deadline_ms, fetcher.next_records_ms(), next_poll_ms)
            while not network.wait(earliest(until_ms, self._metadata.next_ms)):
                if (
                    member is None
                    or network.now_ms >= (until_ms or 0)  # so a record may have come
                    or not self._subscriptions.all_valid
                    or not member.poll_idly()
                ):
                    break
            return fetcher.collect()
        finally:
            network.in_poll = False

    def wakeup(self) -> None:
        """Let the poll that waits, or the next one, raise WakeupError; for timers of a test."""
        self._woken = True
        self._network.wake()

    # Commits

    def commit(
        self,
        offsets: Mapping[tuple[str, int], int | OffsetAndMetadata] | None = None,
        timeout_ms: int | None = None,
    ) -> None:
        """Commit offsets, by default all positions, and wait until it is done (commitSync).

        Raises
        ------
        CommitFailedError, RebalanceInProgressError, FencedInstanceIdError
            The coordinator refuses it; after a rebalance in progress, poll and commit again.
        KafkaTimeoutError
            Not within the timeout, by default ``default.api.timeout.ms``.
        """
        commits, chosen = self._committing(offsets)
        deadline_ms = self._api_deadline(timeout_ms)
        if not commits.sync(chosen, deadline_ms):
            raise KafkaTimeoutError(f"the offsets were not committed in time: {chosen}")

    def commit_async(
        self,
        offsets: Mapping[tuple[str, int], int | OffsetAndMetadata] | None = None,
        callback: Callback | None = None,
    ) -> None:
        """Commit offsets, by default all positions, without waiting and without a retry.

        ``callback(offsets, error)`` is called from a later poll, commit or close; error None: it
        is done.
        """
        if callback is not None:
            function(callback, "callback")
        commits, chosen = self._committing(offsets)
        commits.asynchronous(chosen, callback)

    def committed(
        self, partitions: Iterable[tuple[str, int]], timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the committed offset of each partition; None: there is none."""
        self._open()
        self._group()
        assert self._commits is not None
        places = _partitions(partitions)
        found = self._commits.fetch(places, self._api_deadline(timeout_ms))
        if found is None:
            raise KafkaTimeoutError(f"the committed offsets were not found in time: {places}")
        return {tp: found.get(tp) for tp in places}

    def _committing(
        self, offsets: Mapping[tuple[str, int], int | OffsetAndMetadata] | None
    ) -> tuple[Commits, Offsets]:
        self._open()
        if (commits := self._commits) is None:
            self._group()
        assert commits is not None
        if offsets is None:
            return commits, self._subscriptions.all_consumed()
        return commits, offsets_of(offsets)

    # Positions

    def position(self, partition: tuple[str, int], timeout_ms: int | None = None) -> int:
        """Return the offset that is read next."""
        self._open()
        tp = partition_of(partition)
        self._subscriptions.state(tp)
        deadline_ms = self._api_deadline(timeout_ms)
        while True:
            state = self._subscriptions.state(tp)
            if state.valid:
                assert state.position is not None
                return state.position
            self._fetcher.update_positions(deadline_ms)
            if not state.valid:
                self._network.wait(earliest(deadline_ms, self._fetcher.next_records_ms()))
            if not state.valid and self._network.now_ms >= deadline_ms:
                raise KafkaTimeoutError(f"the position of {tp} was not found in time")

    def seek(self, partition: tuple[str, int], offset: int | OffsetAndMetadata) -> None:
        """Go on from an offset."""
        self._open()
        at = offset.offset if isinstance(offset, OffsetAndMetadata) else offset
        number = within(at, "offset", 0, 2**63 - 1)
        tp = partition_of(partition)
        self._subscriptions.state(tp).seek(number)
        self._network.note("seek", (tp, number))

    def seek_to_beginning(self, partitions: Iterable[tuple[str, int]] = ()) -> None:
        """Go on from the begin of partitions, by default all; it is looked up by the next poll."""
        self._seek_to(partitions, "earliest")

    def seek_to_end(self, partitions: Iterable[tuple[str, int]] = ()) -> None:
        """Go on from the end of partitions, by default all; it is looked up by the next poll."""
        self._seek_to(partitions, "latest")

    def _seek_to(self, partitions: Iterable[tuple[str, int]], policy: str) -> None:
        self._open()
        for tp in _partitions(partitions) or list(self._subscriptions.assigned):
            self._subscriptions.request_reset(tp, policy)

    def pause(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Return no records of these partitions until they are resumed, or assigned anew."""
        self._set_paused(partitions, paused=True)

    def resume(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Return records of these partitions again."""
        self._set_paused(partitions, paused=False)

    def _set_paused(self, partitions: Iterable[tuple[str, int]], *, paused: bool) -> None:
        self._open()
        for tp in _partitions(partitions):
            self._subscriptions.state(tp).paused = paused

    def paused(self) -> set[TopicPartition]:
        """Return the paused partitions."""
        self._open()
        return set(self._subscriptions.where(lambda state: state.paused))

    def beginning_offsets(
        self, partitions: Iterable[tuple[str, int]], timeout_ms: int | None = None
    ) -> dict[TopicPartition, int]:
        """Return the first offset of each partition."""
        found = self._list(dict.fromkeys(_partitions(partitions), EARLIEST), timeout_ms)
        return {tp: at[0] for tp, at in found.items() if at is not None}

    def end_offsets(
        self, partitions: Iterable[tuple[str, int]], timeout_ms: int | None = None
    ) -> dict[TopicPartition, int]:
        """Return the end of each partition; under ``read_committed`` the last stable offset."""
        found = self._list(dict.fromkeys(_partitions(partitions), LATEST), timeout_ms)
        return {tp: at[0] for tp, at in found.items() if at is not None}

    def offsets_for_times(
        self, times_ms: Mapping[tuple[str, int], int], timeout_ms: int | None = None
    ) -> dict[TopicPartition, tuple[int, int] | None]:
        """Return offset and timestamp of the first record not before a time, or None."""
        if not isinstance(times_ms, Mapping):
            raise ArgumentError(f"times_ms must map partitions to times, not {shown(times_ms)}")
        timestamps = {partition_of(tp): milliseconds(at, "a time") for tp, at in times_ms.items()}
        return self._list(timestamps, timeout_ms)

    def _list(
        self, timestamps: dict[TopicPartition, int], timeout_ms: int | None
    ) -> dict[TopicPartition, tuple[int, int] | None]:
        self._open()
        if not timestamps:
            return {}
        found = self._fetcher.offsets(timestamps, self._api_deadline(timeout_ms))
        if found is None:
            raise KafkaTimeoutError(f"the offsets were not found in time: {list(timestamps)}")
        return found

    def current_lag(self, partition: tuple[str, int]) -> int | None:
        """Return how many offsets the position is behind the end; None: it has none yet."""
        self._open()
        return self._fetcher.lag(partition_of(partition))

    def partitions_for(self, topic: str) -> list[TopicPartition]:
        """Return the partitions of a topic; none, if there is no such topic."""
        self._open()
        known = self._network.cluster._topics.get(text(topic, "topic"))
        return [] if known is None else [TopicPartition(topic, n) for n in range(len(known.logs))]

    # The group

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return who it is, for a transactional producer."""
        self._open()
        self._group()
        assert self._member is not None
        generation_id, member_id = self._member.group_identity()
        return ConsumerGroupMetadata(
            *(self._settings["group.id"], generation_id, member_id),
            self._settings["group.instance.id"],
        )

    def enforce_rebalance(self) -> None:
        """Join the group again in the next poll."""
        self._open()
        if self._member is None:
            raise IllegalStateError("there is no group to rebalance")
        self._member.request_rejoin()

    def close(self, timeout_ms: int = CLOSE_TIMEOUT_MS) -> None:
        """Commit if it commits automatically, give up the partitions, and leave the group."""
        if self._closed:
            return
        self._network.process.check_alive()
        most_ms: int = self._settings["request.timeout.ms"]
        deadline_ms = self._network.now_ms + min(timeout_of(timeout_ms), most_ms)
        try:
            if self._member is not None and self._commits is not None:
                try:
                    self._commits.finish(deadline_ms)
                finally:
                    self._member.close(deadline_ms)
                    self._commits.await_callbacks(deadline_ms)
        finally:
            self._closed = True
            self._network.note("closed")
            self._network.close()

    def __enter__(self) -> Consumer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Inside

    def _open(self) -> None:
        self._network.process.check_alive()
        if self._closed:
            raise IllegalStateError("this consumer has been closed")

    def _group(self) -> None:
        if self._member is None:
            raise InvalidGroupIdError("to subscribe and to commit, a consumer needs a group.id")

    def _deadline(self, timeout_ms: int) -> int:
        return self._network.now_ms + timeout_of(timeout_ms)

    def _api_deadline(self, timeout_ms: int | None) -> int:
        if timeout_ms is not None:
            return self._deadline(timeout_ms)
        default_ms: int = self._settings["default.api.timeout.ms"]
        return self._network.now_ms + default_ms


def _partitions(values: Any) -> list[TopicPartition]:
    return [partition_of(value) for value in walked(values, "partitions")]
