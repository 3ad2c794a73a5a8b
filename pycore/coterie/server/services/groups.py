"""The groups of a server: the library's coordinator, its answers handed to whoever waits.

A request is asked with the function that is to have its response, now or whenever the coordinator
decides it; one that will never be answered is forgotten. Most are decided at once, and cost no more
than the core's own call; what waits costs a look at what the core left.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from coterie._core.coordinator.coordinator import Coordinator
from coterie._core.coordinator.outputs import response_of
from coterie._core.coordinator.sink import DirectLog
from coterie.coordinator.recorder import Recorder
from coterie.coordinator.snapshot import GroupSnapshot, snapshot_of
from coterie.operations import NUMBER
from coterie.server.context import Context
from coterie.server.services.data.topics import Topic, Topics
from coterie.server.services.offsets_log import NAME, OffsetsLog
from coterie.values import Error

__all__ = ["Groups"]

Answered = Callable[[Any], None]
RowAnswered = Callable[[int, Any], None]  # the number of the error, and the core's own payload
_NAMES = {number: name for name, number in NUMBER.items()}


class Groups:
    """The group coordinator.

    Attributes
    ----------
    core
        The coordinator; it is asked through :meth:`ask`.
    on_event
        Called with each event, in order.
    recorder
        Keeps what is asked, for a trace.
    answering : bool
        Whether answers are being handed out: what is asked now is answered behind them.
    """

    def __init__(self, context: Context, topics: Topics) -> None:
        self._context = context
        self.config = context.config.coordinator
        self.log = OffsetsLog(context, topics)
        self.on_event: Callable[[Any], None] | None = None
        self.recorder: Recorder | None = None
        self.member_ids: Callable[[str], str] = context.ids.member_id
        self._waiting: dict[int, RowAnswered] = {}
        self._fresh: deque[Any] = deque()
        self.answering = False
        self._asked = self._start_ms = 0
        self.core = Coordinator(
            self.config, context.now_ms, self._member_id, False,
            DirectLog(self.log.write, self.log.rows),
        )  # fmt: skip
        context.clock.add(self)
        topics.on_delete.append(self._topic_deleted)

    # As part of a clock

    @property
    def now_ms(self) -> int:
        """The coordinator's time, in ms."""
        return self.core.now_ms

    def next_deadline_ms(self) -> int | None:
        """Return when something falls due by itself."""
        return self.core.next_deadline_ms()

    def advance(self, now_ms: int) -> None:
        """Let happen what falls due by this time; the clock calls this."""
        try:
            self.core.advance(now_ms)
        finally:
            if self.recorder is not None and len(self.core.outputs):
                self.recorder.advance(self._at_ms())
            self.answer_waiting()

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
        """Ask the core; ``answered`` gets the response, within this call or later, or never."""
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
        """Ask the core; ``answered`` gets an error and what the core has as the response."""
        self._asked = request_id = self._asked + 1
        watched = self.recorder is not None or self.on_event is not None
        if not (watched or self.answering):
            try:
                found = self.core.ask(
                    op, request_id, group_id, generation_id, member_id, instance, details
                )
            except BaseException:
                self.answer_waiting()
                raise
            if found is not None:
                return answered(*found)
            self._waiting[request_id] = answered
            return self.answer_waiting()
        self._waiting[request_id] = answered
        try:
            self.core.call(op, request_id, group_id, generation_id, member_id, instance, details)
            if self.recorder is not None:
                compiled = (group_id, generation_id, member_id, instance, details)
                self.recorder.ask(self._at_ms(), _NAMES[op], request_id, compiled)
        except BaseException:
            self._waiting.pop(request_id, None)
            if self.recorder is not None:
                self.recorder.refuse()
            raise
        finally:
            self.answer_waiting()
        return None

    def partition_for(self, group_id: str) -> int:
        """Return the partition of the offsets topic that a group belongs to."""
        return self.log.partition_for(group_id)

    def end_txn(
        self,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        committed: bool,
        partitions: Iterable[int],
    ) -> dict[int, Error]:
        """Write a transaction's markers into the offsets topic, and apply them to its groups.

        Returns
        -------
        dict
            The error of each of these partitions.
        """
        errors = self.log.write_markers(
            producer_id, producer_epoch, coordinator_epoch, committed, partitions
        )
        if not all(errors.values()):
            self._act("end_txn", (producer_id, committed))
        return errors

    def delete_partitions(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Say that partitions were deleted: their offsets go."""
        self._act("delete_partitions", tuple(partitions))

    def record_into(self, recorder: Recorder) -> None:
        """Keep what is asked from now on; times are those since now, as a trace begins at 0."""
        self.recorder = recorder
        self._start_ms = self.core.now_ms
        if hasattr(recorder, "numbered"):
            self.member_ids = recorder.numbered(self._context.ids.member_id)
        periodic = self.config["coterie.cleanup"] is not None
        recorder.begin(now_ms=0, deferred=False, loaded=False, periodic=periodic)

    def resign(self) -> None:
        """Give up all groups; whoever waits is told so."""
        self._act("resign", (None,))

    def load(self) -> None:
        """Be elected again, and load all groups from the log."""
        self._act("begin_load", (None,))
        self._act("finish_load", (None,))

    def move(self, group_id: str) -> None:
        """Give up the partition of a group, and load it from the log."""
        number = self.partition_for(group_id)
        for op in ("resign", "begin_load", "finish_load"):
            self._act(op, (number,))

    def snapshot(self, group_id: str) -> GroupSnapshot | None:
        """Return a frozen view of a group, None if there is none."""
        return snapshot_of(self.core, group_id)

    # Inside

    def _topic_deleted(self, topic: Topic) -> None:
        """Forget what was committed of a topic that is no more."""
        if topic.name == NAME:  # the groups' own log
            self.resign()
            self.load()
        self.delete_partitions((topic.name, number) for number in range(len(topic.partitions)))

    def _at_ms(self) -> int:
        return self.core.now_ms - self._start_ms

    def _act(self, op: str, details: tuple[Any, ...]) -> None:
        try:
            self.core.call(NUMBER[op], 0, None, -1, None, None, details)
            if self.recorder is not None:
                self.recorder.ask(self._at_ms(), op, 0, (None, -1, None, None, details))
        finally:
            self.answer_waiting()

    def _member_id(self, prefix: str) -> str:
        return self.member_ids(prefix)

    def answer_waiting(self) -> None:
        """Hand the core's responses to whoever waits, in order.

        What an answer leads to may ask the core again, which lands in the same queue.
        """
        self._fresh.extend(self.core.take_rows(self.on_event is not None))
        if self.answering:
            return
        self.answering = True
        try:
            while self._fresh:
                request_id, error, payload, event = self._fresh.popleft()
                if self.on_event is not None and event is not None:
                    self.on_event(event)
                answered = self._waiting.pop(request_id, None)
                if answered is not None and error is not None:
                    answered(error, payload)  # a Call's own errors close its connection
        finally:
            self.answering = False
        failure = self.core.take_failure()
        if isinstance(failure, Exception):  # whoever asked was told KAFKA_STORAGE_ERROR
            self._context.log(f"a record of groups was not written: {failure!r:.300}")
        elif failure is not None:
            raise failure
