"""A consumer of a play: a real client behind the methods that a history's application knows."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

from coterie._core.structures.schedule import Future
from coterie.histories.client_thread import ClientThread, Handed
from coterie.testing.client.consumer import ConsumerGroupMetadata
from coterie.testing.client.errors import KafkaError, WakeupError
from coterie.testing.client.membership import raise_failure
from coterie.testing.process import Process
from coterie.testing.topics import ConsumerRecord, TopicPartition
from coterie.values import OffsetAndMetadata

WAIT_MS = 20  # of the wall clock: how long a poll of the client waits
TICK_MS = 1000  # of virtual time, between two polls of the client that give nothing
PATIENCE_S = 0.5  # of the wall clock: a call that takes longer takes virtual time
OWN = ("on_partitions_assigned", "on_partitions_revoked", "on_partitions_lost")
Offsets = dict[TopicPartition, OffsetAndMetadata]


class PlayedConsumer:
    """A real client in a play; other methods than those below are the client's own.

    Parameters
    ----------
    cluster : PlayedCluster
        The broker, as the history sees it.
    name : str
        Of the member.
    client_id : str
        Of this client alone: what is left of a dead one harms no other.
    make : function
        Makes the client.
    process : Process
        The program that uses it.
    """

    def __init__(
        self, cluster: Any, name: str, client_id: str, make: Callable[[], Any], process: Process
    ) -> None:
        self._cluster, self._name, self.client_id = cluster, name, client_id
        self._process = process
        self._listener: Any = None
        self._failure: Exception | None = None  # of a listener
        self._positions: dict[TopicPartition, int | None] = {}  # of the assigned partitions
        self._joins = 0
        self._woken: Future | None = None
        self._is_woken = self._closed = False
        self._thread = ClientThread(make, client_id)
        self._answer()

    def __getattr__(self, method: str) -> Callable[..., Any]:
        if method.startswith("_"):
            raise AttributeError(method)
        return lambda *args, **named: self._ask(
            lambda client: getattr(client, method)(*args, **named)
        )

    # Calls

    def _note(self, kind: str, details: Any = None) -> None:
        self._cluster.on_note(self._process.now_ms, self._name, kind, details)

    def _ask(self, question: Callable[[Any], Any]) -> Any:
        self._process.check_alive()
        self._thread.ask(question)
        return self._answer()

    def _answer(self) -> Any:
        """Return the client's answer; run its callbacks meanwhile, and let virtual time pass."""
        while True:
            answer = self._thread.answer(PATIENCE_S)
            if answer is None:
                self._process.sleep(TICK_MS)
            elif isinstance(answer, Handed):
                answer.run(*answer.args)
                self._thread.go_on()
            else:
                value, error = answer
                if error is not None:
                    raise error
                return value

    # The application's methods

    def subscribe(self, topics: list[str], listener: Any = None) -> None:
        calls = _Calls(*(self._thread.handing(getattr(self, f"_{name}")) for name in OWN))
        self._ask(lambda client: client.subscribe(topics, calls))
        self._topics, self._listener = set(topics), listener

    def subscription(self) -> set[str]:
        """Return the subscribed topics."""
        return getattr(self, "_topics", set())

    def assignment(self) -> set[TopicPartition]:
        """Return the partitions that the listener has got and not given up."""
        return set(self._positions)

    def poll(self, timeout_ms: int) -> list[ConsumerRecord]:
        """Return records, as soon as there are any."""
        deadline_ms = self._process.now_ms + timeout_ms
        wait_ms = WAIT_MS if timeout_ms > 0 else 0
        while True:
            if self._is_woken:
                self._is_woken = False
                raise WakeupError("wakeup() was called")
            records: list[ConsumerRecord] = self._ask(lambda client: client.poll(wait_ms))
            self._look_for_joins()
            failure, self._failure = self._failure, None
            raise_failure(failure)
            for record in records:
                self._positions[TopicPartition(*record[:2])] = record.offset + 1
            left_ms = deadline_ms - self._process.now_ms
            if records or left_ms <= 0:
                return records
            self._find_positions()
            if not self._is_woken:
                self._woken = Future()
                self._process.wait(self._woken, min(TICK_MS, left_ms))

    def wakeup(self) -> None:
        """Let the poll that waits, or the next one, raise WakeupError."""
        self._is_woken = True
        if self._woken is not None:
            self._woken.set()

    def commit(
        self, offsets: Mapping[Any, Any] | None = None, timeout_ms: int | None = None
    ) -> None:
        """Commit offsets, by default all positions, and wait until the client has."""
        chosen = self._committing(offsets)
        try:
            self._ask(lambda client: client.commit(None if offsets is None else chosen))
        except KafkaError as error:
            self._committed(chosen, error)
            raise
        self._committed(chosen, None)

    def commit_async(
        self, offsets: Mapping[Any, Any] | None = None, callback: Callable[..., Any] | None = None
    ) -> None:
        """Commit offsets, by default all positions, without waiting."""
        chosen = self._committing(offsets)

        def done(error: KafkaError | None) -> None:
            self._note("committed", (chosen, None if error is None else str(error)))
            if callback is not None:
                callback(chosen, error)

        handed = self._thread.handing(done)
        self._ask(lambda client: client.commit_async(None if offsets is None else chosen, handed))

    def _committing(self, offsets: Mapping[Any, Any] | None) -> Offsets:
        given = self.positions() if offsets is None else offsets
        chosen = {
            TopicPartition(*tp): at if isinstance(at, OffsetAndMetadata) else OffsetAndMetadata(at)
            for tp, at in given.items()
        }
        self._note("commit", chosen)
        return chosen

    def _committed(self, offsets: Offsets, error: KafkaError | None) -> None:
        """Let what waits for a commit strike, between the commit and the end of the call."""
        self._process.sleep(1)
        self._note("committed", (offsets, None if error is None else str(error)))

    def seek(self, partition: tuple[str, int], offset: int) -> None:
        """Go on from an offset."""
        place = TopicPartition(*partition)
        self._ask(lambda client: client.seek(place, offset))
        self._positions[place] = offset

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return who it is, for a transactional producer; a play has none."""
        return ConsumerGroupMetadata(self._cluster.group_id, -1, "", None)

    def close(self, timeout_ms: int | None = None) -> None:
        """Leave the group; the client has its own time for it."""
        if not self._closed:
            self._ask(lambda client: client.close())
            self.end()

    # The play

    def positions(self) -> dict[TopicPartition, int]:
        """Return the position of each assigned partition, as far as it is known."""
        return {tp: at for tp, at in self._positions.items() if at is not None}

    def end(self) -> None:
        """End the client's thread; one that is not closed is abandoned."""
        if not self._closed:
            self._closed = True
            self._cluster.forget(self)
            self._thread.abandon()

    def join(self, wait_s: float) -> None:
        """Wait until the client is closed."""
        self._thread.join(wait_s)

    def _look_for_joins(self) -> None:
        joins = self._cluster.joins(self.client_id)
        if joins > self._joins:
            self._joins = joins
            self._note("join", joins)

    def _find_positions(self) -> None:
        for place in [tp for tp, at in self._positions.items() if at is None]:
            with contextlib.suppress(KafkaError):  # it is cut off, or the coordinator loads
                self._positions[place] = self.position(place)

    # The listener

    def _on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        self._positions |= dict.fromkeys(partitions)
        self._call("assigned", partitions, OWN[0])

    def _on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        self._call("revoked", partitions, OWN[1])
        self._drop(partitions)

    def _on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
        self._call("lost", partitions, OWN[2], OWN[1])
        self._drop(partitions)

    def _drop(self, partitions: list[TopicPartition]) -> None:
        for tp in partitions:
            self._positions.pop(tp, None)

    def _call(self, kind: str, partitions: list[TopicPartition], *methods: str) -> None:
        """Call the first of the listener's methods that exists; poll raises what it raises."""
        self._note(kind, partitions)
        for name in methods:
            method = getattr(self._listener, name, None)
            if method is not None:
                try:
                    method(list(partitions))
                except Exception as error:
                    self._failure = self._failure or error
                return


class _Calls:
    def __init__(self, assigned: Any, revoked: Any, lost: Any) -> None:
        self.on_partitions_assigned = assigned
        self.on_partitions_revoked, self.on_partitions_lost = revoked, lost
