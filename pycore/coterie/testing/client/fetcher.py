"""Positions of a consumer, and the records that it gets.

There are no Fetch requests: what has reached the client by now is computed, so records cost nothing
until they are read. Look-ups of offsets are requests.
Source: ``FetchCollector.java``, ``OffsetFetcher.java``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coterie._core.testing.clients import Sent, earliest
from coterie.testing.client.commits import Commits
from coterie.testing.client.errors import DisconnectError, OffsetOutOfRangeError, error_of
from coterie.testing.client.metadata import Metadata
from coterie.testing.client.network import NetworkClient
from coterie.testing.client.subscriptions import SubscriptionState
from coterie.testing.topics import ConsumerRecord, PartitionLog, TopicPartition
from coterie.values import Error

LATEST, EARLIEST = -1, -2  # as ListOffsets asks for the end and the begin
_RESETS = {"latest": LATEST, "earliest": EARLIEST}


class Fetcher:
    """The positions and records of a consumer."""

    def __init__(
        self,
        network: NetworkClient,
        metadata: Metadata,
        subscriptions: SubscriptionState,
        commits: Commits | None,
    ) -> None:
        self._network, self._metadata = network, metadata
        self._subscriptions, self._commits = subscriptions, commits
        settings = network.settings
        self._most: int = settings["max.poll.records"]
        self._committed = settings["isolation.level"] == "read_committed"
        self._resetting = False
        self._look_ms = 0  # when it may look again at the topics for a partition that is gone

    # Positions

    def update_positions(self, deadline_ms: int) -> None:
        """Look up the positions of the partitions without one, as far as that is in time."""
        subscriptions = self._subscriptions
        if self._commits is not None:
            initializing = subscriptions.initializing()
            offsets = self._commits.fetch(initializing, deadline_ms)
            if offsets is None:
                return
            for tp, offset in offsets.items():
                state = subscriptions.assigned.get(tp)
                if offset is not None and state is not None and state.position is None:
                    state.seek(offset.offset)
        subscriptions.reset_initializing()
        self._reset_positions()

    def _reset_positions(self) -> None:
        now_ms = self._network.now_ms
        policies = {
            tp: state.reset
            for tp, state in self._subscriptions.assigned.items()
            if state.reset is not None and state.retry_ms <= now_ms
        }
        if policies and not self._resetting:
            self._resetting = True
            timestamps = {tp: _RESETS[policy] for tp, policy in policies.items()}
            self._list(timestamps).then(lambda sent: self._reset(policies, sent))

    def _reset(self, policies: Mapping[TopicPartition, str], sent: Sent) -> None:
        self._resetting = False
        found = {} if sent.failure is not None else sent.value
        for tp, policy in policies.items():
            state = self._subscriptions.assigned.get(tp)
            if state is None or state.reset != policy:
                continue  # the application has sought since
            offset = found.get(tp)
            if isinstance(offset, tuple):
                state.seek(offset[0])
                if policy == "latest":
                    self._network.note("end", (tp, offset[0]))
            else:
                state.retry_ms = self._network.now_ms + self._network.settings["retry.backoff.ms"]
                self._metadata.request_update()

    def _list(self, timestamps: Mapping[TopicPartition, int]) -> Sent:
        sent = Sent()

        def respond(response: Any) -> None:
            if response is None:
                sent.fail(DisconnectError("ListOffsets was disconnected"))
            elif isinstance(response, Error):
                sent.fail(error_of(response, "ListOffsets"))
            else:
                sent.complete(response)

        self._network.send("list_offsets", respond, timestamps, committed=self._committed)
        return sent

    def offsets(
        self, timestamps: Mapping[TopicPartition, int], deadline_ms: int
    ) -> dict[TopicPartition, tuple[int, int] | None] | None:
        """Return offset and timestamp at a time, the end (-1) or the begin (-2); None: too late."""
        while True:
            sent = self._list(timestamps)
            if not self._network.wait_for(sent, deadline_ms):
                return None
            if sent.failure is None and Error.UNKNOWN_TOPIC_OR_PARTITION not in sent.value.values():
                return {TopicPartition(*tp): offset for tp, offset in sent.value.items()}
            self._network.sleep(self._network.settings["retry.backoff.ms"], deadline_ms)
            if self._network.now_ms >= deadline_ms:
                return None

    # Records

    def _log(self, partition: TopicPartition) -> PartitionLog | None:
        topic = self._network.cluster._topics.get(partition.topic)
        if topic is None or partition.partition >= len(topic.logs):
            return None
        log: PartitionLog = topic.logs[partition.partition]
        return log

    def collect(self) -> list[ConsumerRecord] | None:
        """Return records that have reached the client, at most ``max.poll.records``.

        None: nothing has come. An empty list: only what is not shown, such as markers.

        Raises
        ------
        OffsetOutOfRangeError
            A position is outside of the log, and there is no reset policy.
        """
        network, committed = self._network, self._committed
        topics, sees_ms = network.cluster._topics, network.sees_ms
        news = self._subscriptions.beyond_positions(topics, sees_ms, committed)
        if not news:
            return None
        records: list[ConsumerRecord] = []
        read: list[TopicPartition] = []
        last: TopicPartition | None = None  # the partition that has more records, if any
        for tp, state, log, end in news:
            position = state.position
            if log is None:
                self._unknown()
                continue
            if not log.log_start_offset <= position <= end:
                self._out_of_range(tp, position, log, late=bool(records))
                continue
            most = self._most - len(records)
            found, position = log.read(position, end, most, committed=committed)
            state.position = position
            records += found
            read.append(tp)
            if len(records) >= self._most:
                last = tp if position < end else None
                break
        for tp in read:
            if tp is not last:  # whose other records come first in the next poll
                self._subscriptions.to_end(tp)
        return records if read else None

    def _unknown(self) -> None:
        """Look at the topics again, soon but not at once for ever: a partition is gone."""
        refresh_ms, now_ms = self._metadata.refresh_ms, self._network.now_ms
        backoff_ms: int = self._network.settings["retry.backoff.max.ms"]
        if refresh_ms is None or refresh_ms > now_ms + backoff_ms:
            self._metadata.refresh_ms = max(now_ms, self._look_ms)
            self._look_ms = self._metadata.refresh_ms + backoff_ms

    def _out_of_range(
        self, tp: TopicPartition, position: int, log: PartitionLog, *, late: bool
    ) -> None:
        """Look up a position that is not in the log; ``late``: the poll has records to return."""
        if log.log_start_offset <= position <= log.end_offset(self._network.now_ms):
            return  # the client does not see so far yet
        if self._subscriptions.reset_policy != "none":
            self._subscriptions.request_reset(tp, self._subscriptions.reset_policy)
            self._reset_positions()
        elif not late:  # else the next poll raises
            raise OffsetOutOfRangeError({tp: position})

    def next_records_ms(self) -> int | None:
        """Return when the client gets its next records, as far as that is known; None: never."""
        network, subscriptions = self._network, self._subscriptions
        if network.host.cut_ms is not None:
            return None
        now_ms, sees_ms = network.now_ms, network.sees_ms
        next_ms = subscriptions.next_record_ms(network.cluster._topics, sees_ms)
        if next_ms is not None:
            next_ms += now_ms - sees_ms
        return next_ms if subscriptions.all_valid else earliest(next_ms, self.next_reset_ms())

    def next_reset_ms(self) -> int | None:
        """Return when it may look up a position again."""
        now_ms, states = self._network.now_ms, self._subscriptions.assigned.values()
        resets = (s.retry_ms for s in states if s.reset is not None)
        return earliest(None, *(retry_ms for retry_ms in resets if retry_ms > now_ms))

    def lag(self, partition: TopicPartition) -> int | None:
        """Return how many offsets a partition's position is behind its end."""
        state, log = self._subscriptions.state(partition), self._log(partition)
        if log is None or state.position is None:
            return None
        sees_ms = self._network.sees_ms
        end = log.last_stable_offset(sees_ms) if self._committed else log.end_offset(sees_ms)
        return end - state.position
