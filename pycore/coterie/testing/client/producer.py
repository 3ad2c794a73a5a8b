"""A producer on virtual time, with the methods and semantics of Kafka's Java client.

Source: ``KafkaProducer.java``, ``Sender.java``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from coterie._core.codec.compression import java_hash
from coterie._core.structures.schedule import Timer
from coterie._core.testing.clients import Sent
from coterie.base.arguments import function, text, whole
from coterie.errors import ArgumentError, shown
from coterie.testing.client.commits import offsets_of
from coterie.testing.client.consumer import ConsumerGroupMetadata
from coterie.testing.client.errors import IllegalStateError, KafkaError, KafkaTimeoutError
from coterie.testing.client.network import NetworkClient
from coterie.testing.client.producer_state import ProducerState, State
from coterie.testing.client.settings import producer_settings, timeout_of
from coterie.testing.process import Process, process_of
from coterie.testing.simulated_cluster import Cluster
from coterie.testing.topics import TopicPartition
from coterie.values import OffsetAndMetadata

CLOSE_TIMEOUT_MS = 30_000
Headers = tuple[tuple[str, bytes | None], ...]


class RecordMetadata(NamedTuple):
    """Where a record was written."""

    topic: str
    partition: int
    offset: int


class _Pending(NamedTuple):
    """A record that is not written yet."""

    partition: TopicPartition
    key: Any
    value: Any
    headers: Headers
    sent: Sent


class Producer:
    """A producer on virtual time, transactional if it has a ``transactional.id``.

    Records are written in the background, in order and once, also if a request is repeated.

    Parameters
    ----------
    cluster : Cluster
        What it connects to.
    settings : mapping
        A producer's settings by Kafka's names, such as ``transactional.id``.
    process : Process, optional
        The process that it lives in; default: one of its own, without a program.

    Examples
    --------
    >>> producer = Producer(Cluster({"orders": 1}, interval_ms=None), {})
    >>> sent = producer.send("orders", "value")
    >>> producer.flush()
    >>> sent.value
    RecordMetadata(topic='orders', partition=0, offset=0)
    """

    def __init__(
        self, cluster: Cluster, settings: Mapping[str, Any], *, process: Process | None = None
    ) -> None:
        if not isinstance(cluster, Cluster):
            raise ArgumentError(f"cluster must be a Cluster, not {shown(cluster)}")
        self._settings = chosen = producer_settings(settings)
        name = chosen["client.id"] or chosen["transactional.id"] or "producer"
        process = process_of(cluster.schedule, process, name)
        host = cluster.network.host(chosen["client.id"] or process.name)
        self._network = NetworkClient(cluster, host, process, chosen)
        self._network.in_background = True
        self._cluster = cluster
        self._state = ProducerState(self._network, chosen["transactional.id"])
        self._waiting: list[_Pending] = []  # records that no request has taken yet
        self._request: Sent | None = None  # the one under way, for the records before those
        self._expiry: Timer | None = None  # of its records
        self._sequence = 0
        self._added: set[TopicPartition] = set()  # partitions of the transaction
        self._offsets: list[dict[TopicPartition, OffsetAndMetadata]] = []  # of the transaction
        self._begun = False  # the coordinator knows of the transaction
        self._pending: tuple[str, Sent] | None = None  # a call that has timed out, and goes on
        self._turn = 0
        self._closed = False

    def __repr__(self) -> str:
        return f"<Producer {self._network.client_id}>"

    # Transactions

    def init_transactions(self) -> None:
        """Get an epoch: it fences every other producer with this ``transactional.id``.

        Raises
        ------
        KafkaTimeoutError
            Not within ``max.block.ms``; the same call again goes on to wait.
        """
        self._open()
        states = (State.UNINITIALIZED, State.INITIALIZING)
        self._state.require(*states, what="init_transactions()")
        timeout_ms = self._settings["transaction.timeout.ms"]
        self._finish("init_transactions()", lambda: self._state.initialize(timeout_ms))

    def begin_transaction(self) -> None:
        """Begin a transaction; no request is sent."""
        self._open()
        self._state.require(State.READY, what="begin_transaction()")
        self._state.state = State.IN_TRANSACTION
        self._added, self._offsets, self._begun = set(), [], False

    def send_offsets_to_transaction(
        self,
        offsets: Mapping[tuple[str, int], int | OffsetAndMetadata],
        group_metadata: ConsumerGroupMetadata,
    ) -> None:
        """Commit a consumer's offsets within the transaction.

        Raises
        ------
        CommitFailedError
            The consumer is no longer a member of this generation; the transaction has to be
            aborted.
        ProducerFencedError
            Another producer has the ``transactional.id``.
        """
        self._open()
        if not isinstance(group_metadata, ConsumerGroupMetadata):
            raise ArgumentError("group_metadata must be that of Consumer.group_metadata()")
        self._state.require(State.IN_TRANSACTION, what="send_offsets_to_transaction()")
        chosen = offsets_of(offsets)
        if chosen:
            self._await("send_offsets_to_transaction()", self._send_offsets(chosen, group_metadata))

    def _send_offsets(
        self, offsets: dict[TopicPartition, OffsetAndMetadata], group: ConsumerGroupMetadata
    ) -> Sent:
        state, result = self._state, Sent()
        self._network.note("commit", offsets)
        self._offsets.append(offsets)

        def committed(sent: Sent) -> None:
            if sent.failure is not None:
                result.fail(sent.failure)
            else:
                result.complete()

        def added(sent: Sent) -> None:
            if sent.failure is not None:
                result.fail(sent.failure)
                return
            self._begun = True
            state.send(
                *("txn_offset_commit", group.group_id, dict(offsets)),
                producer_id=state.producer_id,
                producer_epoch=state.epoch,
                generation_id=group.generation_id,
                member_id=group.member_id,
                group_instance_id=group.group_instance_id,
            ).then(committed)

        state.send("add_offsets_to_txn", *state.producer, group.group_id).then(added)
        return result

    def commit_transaction(self) -> None:
        """Write what is left, and commit the transaction.

        Raises
        ------
        ProducerFencedError
            Another producer has the ``transactional.id``.
        KafkaError
            The transaction has failed, and has to be aborted.
        """
        self._open()
        states = (State.IN_TRANSACTION, State.COMMITTING)
        self._state.require(*states, what="commit_transaction()")
        self._end(State.COMMITTING, "commit_transaction()")

    def abort_transaction(self) -> None:
        """Drop what has not been written, and abort the transaction."""
        self._open()
        states = (State.IN_TRANSACTION, State.ABORTING, State.ABORTABLE_ERROR)
        self._state.require(*states, what="abort_transaction()")
        dropped, self._waiting = self._waiting, []
        for one in dropped:
            one.sent.fail(KafkaError("the transaction is aborted"))
        self._end(State.ABORTING, "abort_transaction()")

    def _end(self, ending: State, what: str) -> None:
        self._state.state = ending
        deadline_ms = self._network.now_ms + self._settings["max.block.ms"]
        self._drain(deadline_ms)
        if self._waiting or self._request is not None:
            raise KafkaTimeoutError(f"{what} was not done within max.block.ms")
        if ending is State.COMMITTING:
            self._state.raise_failure()
        if not self._begun and self._pending is None:
            self._state.ended()
            return
        committed = ending is State.COMMITTING
        try:
            self._finish(what, lambda: self._state.end(committed=committed))
        except KafkaTimeoutError:
            raise  # it goes on
        except KafkaError as failure:
            self._note_end(type(failure).__name__)
            raise
        self._note_end(None if committed else "aborted")

    def _note_end(self, outcome: str | None) -> None:
        for offsets in self._offsets:
            self._network.note("committed", (offsets, outcome))

    # Records

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        partition: int | None = None,
        headers: Headers = (),
        callback: Callable[[RecordMetadata | None, KafkaError | None], None] | None = None,
    ) -> Sent:
        """Send a record in the background.

        Without a partition, records with equal keys go to the same one (not the one that Kafka's
        partitioner chooses), and records without a key take turns.

        Returns
        -------
        Sent
            ``done``, ``failure`` and ``value`` (a RecordMetadata) of the record.
        """
        self._open()
        if self._state.transactional_id is not None:
            self._state.require(State.IN_TRANSACTION, what="send()")
        tp = self._choose(text(topic, "topic"), key, partition)
        sent = Sent()
        if callback is not None:
            function(callback, "callback")
            sent.then(lambda one: callback(one.value, one.failure))
        self._waiting.append(_Pending(tp, key, value, headers, sent))
        if len(self._waiting) == 1 and self._request is None:
            self._network.process.call_later(0, self._write)
        return sent

    def flush(self) -> None:
        """Wait until all records are written, or have failed after ``delivery.timeout.ms``."""
        self._open()
        self._drain(None)

    def _drain(self, deadline_ms: int | None) -> None:
        while self._waiting or self._request is not None:
            if deadline_ms is not None and self._network.now_ms >= deadline_ms:
                break
            self._network.wait(deadline_ms)

    def _choose(self, topic: str, key: Any, partition: int | None) -> TopicPartition:
        known = self._cluster._topics.get(topic)
        if known is None:
            raise KafkaTimeoutError(f"topic {topic!r} is not in the metadata")
        count = len(known.logs)
        if partition is None:
            self._turn += key is None
            partition = (self._turn if key is None else _hash(key)) % count
        if not 0 <= whole(partition, "partition") < count:
            raise KafkaTimeoutError(
                f"partition {shown(partition)} of topic {topic!r} does not exist"
            )
        return TopicPartition(topic, partition)

    def _write(self) -> None:
        """Write the records that wait, in one request at a time; first get what it needs."""
        if self._request is not None or not self._waiting:
            return
        batch, self._waiting = self._waiting, []
        timeout_ms = self._settings["delivery.timeout.ms"]
        self._expiry = self._network.process.call_later(timeout_ms, self._expire)
        self._prepare(batch)

    def _expire(self) -> None:
        """Give the records up that are being written; their transaction can only be aborted."""
        assert self._request is not None
        failure = KafkaTimeoutError("the records were not written within delivery.timeout.ms")
        self._request.fail(self._state.fail_transaction(failure))

    def _send(self, request: Sent, done: Callable[[Sent], None]) -> None:
        self._request = request
        request.then(done)

    def _prepare(self, batch: list[_Pending]) -> None:
        state = self._state
        if state.transactional_id is None and state.producer_id < 0:
            timeout_ms = self._settings["transaction.timeout.ms"]
            self._send(state.initialize(timeout_ms), lambda sent: self._go_on(sent, batch))
            return
        new = {one.partition for one in batch} - self._added
        if state.transactional_id is None or not new:
            self._produce(batch)
            return

        def added(sent: Sent) -> None:
            if sent.failure is None:
                self._added |= new
                self._begun = True
            self._go_on(sent, batch)

        self._send(state.send("add_partitions_to_txn", *state.producer, sorted(new)), added)

    def _go_on(self, sent: Sent, batch: list[_Pending]) -> None:
        if sent.failure is None:
            self._produce(batch)
        else:
            self._written(batch, {}, sent.failure)

    def _produce(self, batch: list[_Pending]) -> None:
        state = self._state
        records: dict[TopicPartition, list[tuple[Any, ...]]] = {}
        for one in batch:
            records.setdefault(one.partition, []).append((one.key, one.value, one.headers))
        self._sequence += 1
        request = state.send(
            *("produce", state.producer_id, state.epoch, self._sequence, records),
            transactional=state.transactional_id is not None,
        )
        self._send(request, lambda sent: self._written(batch, sent.value or {}, sent.failure))

    def _written(
        self, batch: list[_Pending], first: dict[TopicPartition, int], failure: KafkaError | None
    ) -> None:
        self._request = None
        if self._expiry is not None:
            self._expiry.cancel()
        offsets = dict(first)
        for one in batch:
            if failure is not None:
                one.sent.fail(failure)
                continue
            one.sent.complete(RecordMetadata(*one.partition, offsets[one.partition]))
            offsets[one.partition] += 1
        self._network.wake()
        self._write()

    # Calls that wait

    def _finish(self, what: str, begin: Callable[[], Sent]) -> None:
        """Wait for a call; one that has timed out before goes on."""
        if self._pending is None:
            self._pending = what, begin()
        elif self._pending[0] != what:
            raise IllegalStateError(f"{self._pending[0]} is not over; call it again")
        self._await(what, self._pending[1])
        self._pending = None

    def _await(self, what: str, sent: Sent) -> None:
        max_block_ms = self._settings["max.block.ms"]
        if not self._network.wait_for(sent, self._network.now_ms + max_block_ms):
            raise KafkaTimeoutError(f"{what} was not done within max.block.ms")
        if sent.failure is not None:
            raise sent.failure

    def _open(self) -> None:
        self._network.process.check_alive()
        if self._closed:
            raise IllegalStateError("this producer has been closed")

    def close(self, timeout_ms: int = CLOSE_TIMEOUT_MS) -> None:
        """Write what is left, and abort an open transaction."""
        if self._closed:
            return
        self._network.process.check_alive()
        deadline_ms = self._network.now_ms + timeout_of(timeout_ms)
        try:
            self._drain(deadline_ms)
            if self._begun and self._state.state in (State.IN_TRANSACTION, State.ABORTABLE_ERROR):
                self._state.state = State.ABORTING
                self._network.wait_for(self._state.end(committed=False), deadline_ms)
        finally:
            self._closed = True
            self._network.note("closed")
            self._network.close()

    def __enter__(self) -> Producer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _hash(key: Any) -> int:
    try:
        return java_hash(str(key))
    except ValueError as error:  # a lone surrogate, or a number of too many digits
        raise ArgumentError(f"key must be text, or have a text: {error}") from None
