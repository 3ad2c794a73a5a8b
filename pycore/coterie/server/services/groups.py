"""The group coordinator of a server: the library's coordinator with a callback for each request.

Most requests complete immediately, at the cost of one core call. A pending request is completed
from the core's outputs after a later call. The callback of a request that gets no response is
dropped.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from coterie._core.coordinator.coordinator import Coordinator
from coterie._core.coordinator.runtime import DirectLog, response_of
from coterie.base.operations import NUMBER
from coterie.consumer_groups import DescribedConsumerGroup, described_group
from coterie.coordinator.config import CLASSIC_ONLY, KEEPING_TOPIC_IDS
from coterie.coordinator.recorder import Recorder
from coterie.coordinator.snapshot import GroupSnapshot, snapshot_of
from coterie.server.context import Context
from coterie.server.services.group_image import GroupImage
from coterie.server.services.offsets_log import OffsetsLog
from coterie.server.services.topics import OFFSETS_TOPIC, Topic, Topics
from coterie.values import Error

GroupView = GroupSnapshot | DescribedConsumerGroup
Answered = Callable[[Any], None]
RowAnswered = Callable[[int, Any], None]  # error code, the core's payload
_NAMES = {number: name for name, number in NUMBER.items()}


class Groups:
    """The group coordinator.

    Attributes
    ----------
    core
        The coordinator; call it through :meth:`ask`.
    on_event
        Called with each event in order.
    recorder
        Records the requests for a trace.
    replays : bool
        Whether it is the coordinator of Kafka 4, which has consumer groups.
    keeps_topic_ids : bool
        Whether it takes the ids of topics with commits, as since Kafka 4.3.
    answering : bool
        Whether responses are being delivered; responses to new requests queue behind them.
    """

    def __init__(self, context: Context, topics: Topics) -> None:
        self._context = context
        self.config = context.config.coordinator
        self.log = OffsetsLog(context, topics)
        self.on_event: Callable[[Any], None] | None = None
        self.recorder: Recorder | None = None
        self.member_ids: Callable[[str], str] = context.ids.member_id
        self._pending: dict[int, RowAnswered] = {}
        self._responses: deque[Any] = deque()
        self.answering = False
        self._request_count = self._start_ms = 0
        self.core = Coordinator(
            self.config, context.now_ms, self._member_id, False,
            DirectLog(self.log.write, self.log.rows),
        )  # fmt: skip
        context.clock.add(self)
        topics.on_delete.append(self._topics_deleted)
        behaviour = self.config["coterie.behaviour"]
        self.replays = behaviour not in CLASSIC_ONLY
        self.keeps_topic_ids = behaviour in KEEPING_TOPIC_IDS
        self._image = GroupImage(context, topics) if self.replays else None

    # As part of a clock

    @property
    def now_ms(self) -> int:
        """The coordinator's time, in ms."""
        return self.core.now_ms

    def next_deadline_ms(self) -> int | None:
        """Return when the coordinator's next timer expires; None: no timer is set."""
        return self.core.next_deadline_ms()

    def advance(self, now_ms: int) -> None:
        """Fire the timers that expire by a time. Called by the clock."""
        self._update_image()
        try:
            self.core.advance(now_ms)
        finally:
            if self.recorder is not None and len(self.core.outputs):
                self.recorder.advance(self._at_ms())
            self.deliver_responses()

    # Requests

    def ask(
        self,
        op: int,
        group_id: str | None,
        generation_id: int,
        member_id: str | None,
        instance: str | None,
        details: tuple[Any, ...] | None,
        answered: Answered,
    ) -> None:
        """Call the core; ``answered`` gets the response during this call, later, or never."""
        self.ask_row(
            op, group_id, generation_id, member_id, instance, details,
            lambda error, payload: answered(response_of(op, error, payload)),
        )  # fmt: skip

    def ask_row(
        self,
        op: int,
        group_id: str | None,
        generation_id: int,
        member_id: str | None,
        instance: str | None,
        details: tuple[Any, ...] | None,
        answered: RowAnswered,
    ) -> None:
        """Call the core; ``answered`` gets the error code and the core's payload."""
        self._update_image()
        self._request_count = request_id = self._request_count + 1
        watched = self.recorder is not None or self.on_event is not None
        if not (watched or self.answering):
            try:
                outcome = self.core.ask(
                    op, request_id, group_id, generation_id, member_id, instance, details
                )
            except BaseException:
                self.deliver_responses()
                raise
            if outcome is not None:
                return answered(*outcome)
            self._pending[request_id] = answered
            return self.deliver_responses()
        self._pending[request_id] = answered
        try:
            self.core.call(op, request_id, group_id, generation_id, member_id, instance, details)
            if self.recorder is not None:
                compiled = (group_id, generation_id, member_id, instance, details)
                self.recorder.ask(self._at_ms(), _NAMES[op], request_id, compiled)
        except BaseException:
            self._pending.pop(request_id, None)
            if self.recorder is not None:
                self.recorder.refuse()
            raise
        finally:
            self.deliver_responses()
        return None

    def partition_for(self, group_id: str) -> int:
        """Return the partition of the offsets topic for a group."""
        return self.log.partition_for(group_id)

    def end_txn(
        self,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        committed: bool,
        partitions: Iterable[int],
        transaction_version: int = 0,
    ) -> dict[int, Error]:
        """Write a transaction's markers into the offsets topic, and apply them to its groups.

        Returns
        -------
        dict
            The error of each partition.
        """
        errors = self.log.write_markers(
            producer_id,
            producer_epoch,
            coordinator_epoch,
            committed,
            partitions,
            transaction_version,
        )
        if not all(errors.values()):
            self._act("end_txn", (producer_id, committed))
        return errors

    def configure(self, group_id: str, config: dict[str, int]) -> None:
        """Replace the settings that a group has of its own."""
        self._act("group_config", (config,), group_id)

    @property
    def knows_topics(self) -> bool:
        """Whether consumer groups are assigned by the topics as they are now."""
        return self._image is not None and self._image.is_current

    @property
    def count(self) -> int:
        return self.core.group_count

    def delete_partitions(self, partitions: Iterable[tuple[str, int]]) -> None:
        self._act("delete_partitions", tuple(partitions))

    def record_into(self, recorder: Recorder) -> None:
        """Record all requests from now on; a trace counts time from this call."""
        self.recorder = recorder
        self._start_ms = self.core.now_ms
        if hasattr(recorder, "numbered"):
            self.member_ids = recorder.numbered(self._context.ids.member_id)
        periodic = self.config["coterie.cleanup"] is not None
        recorder.begin(now_ms=0, deferred=False, loaded=False, periodic=periodic)

    def resign(self) -> None:
        """Unload all groups; pending requests get NOT_COORDINATOR."""
        self._act("resign", (None,))

    def load(self) -> None:
        """Load all groups from the log, as after an election."""
        self._update_image()
        self._act("begin_load", (None,))
        self._act("finish_load", (None,))

    def move(self, group_id: str) -> None:
        """Unload the partition of a group and load it again from the log."""
        number = self.partition_for(group_id)
        for op in ("resign", "begin_load", "finish_load"):
            self._act(op, (number,))

    def snapshot(self, group_id: str) -> GroupView | None:
        """Return a frozen view of a group, None if there is none."""
        return snapshot_of(self.core, group_id)

    def consumer_groups(self) -> list[DescribedConsumerGroup]:
        """Return all groups of the consumer protocol, by their ids."""
        if not self.replays:
            return []
        outcome = self.core.ask(NUMBER["list_groups"], 0, None, -1, None, None, ((), ("consumer",)))
        rows = () if outcome is None else outcome[1]
        return [group for group_id, *_ in rows if (group := self.described(group_id)) is not None]

    def described(self, group_id: str) -> DescribedConsumerGroup | None:
        """Return a frozen view of a consumer group, None if there is none; it is no request."""
        row = self.core.consumer_group(group_id)
        return None if row is None else described_group(*row)

    def type_of(self, group_id: str) -> str | None:
        """Return ``"classic"`` or ``"consumer"``; None: there is no such group."""
        return self.core.group_type(group_id)

    # Inside

    def _update_image(self) -> None:
        if self._image is not None and (details := self._image.changes()) is not None:
            self._act("metadata", details)

    def _topics_deleted(self, topics: Sequence[Topic]) -> None:
        if any(topic.name == OFFSETS_TOPIC for topic in topics):  # the log of the groups themselves
            self.resign()
            self.load()
        self.delete_partitions(
            (topic.name, number) for topic in topics for number in range(len(topic.partitions))
        )

    def _at_ms(self) -> int:
        return self.core.now_ms - self._start_ms

    def _act(self, op: str, details: tuple[Any, ...], group_id: str | None = None) -> None:
        try:
            self.core.call(NUMBER[op], 0, group_id, -1, None, None, details)
            if self.recorder is not None:
                self.recorder.ask(self._at_ms(), op, 0, (group_id, -1, None, None, details))
        finally:
            self.deliver_responses()

    def _member_id(self, prefix: str) -> str:
        return self.member_ids(prefix)

    def deliver_responses(self) -> None:
        """Deliver the core's responses to their callbacks, in order.

        A callback may call the core again; those responses join the same queue.
        """
        self._responses.extend(self.core.take_rows(self.on_event is not None))
        if self.answering:
            return
        self.answering = True
        try:
            while self._responses:
                request_id, error, payload, event = self._responses.popleft()
                if self.on_event is not None and event is not None:
                    self.on_event(event)
                answered = self._pending.pop(request_id, None)
                if answered is not None and error is not None:
                    answered(error, payload)  # does not raise: a failed call closes its connection
        finally:
            self.answering = False
        failure = self.core.take_failure()
        if isinstance(failure, Exception):  # the request got KAFKA_STORAGE_ERROR
            self._context.log(f"a record of groups was not written: {failure!r:.300}")
        elif failure is not None:
            raise failure
