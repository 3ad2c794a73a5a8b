"""The transaction coordinator: states, epochs, times and its log, under a clock that we move."""

import struct
from functools import partial

import pytest

from coterie.coordinator.transaction import State
from coterie.coordinator.transaction_records import Value, key_bytes, read_value, value_bytes
from coterie.messages import LogReader
from coterie.server.services.topics import STATE_TOPIC
from coterie.values import Error
from support.server import playing

CHECK_MS = 10_000  # transaction.abort.timed.out.transaction.cleanup.interval.ms
WEEK_MS, HOUR_MS = 604_800_000, 3_600_000
CONFIG = {"transaction.state.log.num.partitions": 2}


class Coordinated:
    """A cluster with one topic of two partitions and its transaction coordinator."""

    def __init__(self, config=None):
        self.cluster = playing.Server({**CONFIG, **(config or {})}).cluster
        self.cluster.topics.create("t", 2)
        self.own = self.cluster.transactions
        self.own.ready()

    def init(self, name="x", timeout_ms=60_000, expected=None):
        return self.own.init_producer_id(name, timeout_ms, expected)

    def add(self, producer, *numbers, name="x"):
        partitions = [("t", number) for number in numbers]
        return self.own.add_partitions(name, *producer[1:], partitions)

    def end(self, producer, committed, name="x"):
        return self.own.end_txn(name, *producer[1:], committed=committed)

    def move(self, ms):
        self.cluster.move(self.cluster.now_ms + ms)

    def log(self, name="x"):
        number = self.own.partition_for(name)
        log = self.cluster.topics.partition(STATE_TOPIC, number)
        return [record for batch in LogReader(log.data()) for record in batch.records]

    def states(self, name="x"):
        return [State(read_value(each.value).status) for each in self.log(name)]

    def markers(self, number=0):
        log = self.cluster.topics.partition("t", number)
        return [
            (batch.producer_epoch, struct.unpack(">hh", record.key)[1])
            for batch in LogReader(log.data())
            for record in batch.records
        ]


def test_without_a_transactional_id_each_producer_is_new():
    it = Coordinated()
    made = [it.init(None, 0) for _ in range(5)]
    assert [each.producer_epoch for each in made] == [0] * 5
    assert len({each.producer_id for each in made}) == 5
    assert not it.log()


@pytest.mark.parametrize(
    ("name", "timeout_ms", "error"),
    [
        ("", 60_000, Error.INVALID_REQUEST),
        ("x", 0, Error.INVALID_TRANSACTION_TIMEOUT),
        ("x", -1, Error.INVALID_TRANSACTION_TIMEOUT),
        ("x", 900_001, Error.INVALID_TRANSACTION_TIMEOUT),
    ],
)
def test_what_cannot_begin_is_refused(name, timeout_ms, error):
    assert Coordinated().init(name, timeout_ms) == (error, -1, -1)


def test_before_its_topic_exists_nobody_coordinates():
    cluster = playing.Server().cluster
    answer = cluster.transactions.init_producer_id("x", 60_000)
    assert answer.error is Error.NOT_COORDINATOR


def test_a_producer_that_begins_again_has_the_next_epoch():
    it = Coordinated()
    first, second = it.init(), it.init()
    assert second == (Error.NONE, first.producer_id, first.producer_epoch + 1)
    assert it.add(first, 0) is Error.PRODUCER_FENCED
    assert it.end(first, True) is Error.PRODUCER_FENCED


def test_a_producer_goes_on_with_the_next_epoch_and_may_repeat_that():
    it = Coordinated()
    first = it.init()
    second = it.init(expected=first[1:])
    assert second.producer_epoch == 1
    assert it.init(expected=first[1:]) == second
    assert it.init().producer_epoch == 2
    assert it.init(expected=first[1:]).error is Error.PRODUCER_FENCED
    assert it.init(expected=(99, 0)).error is Error.PRODUCER_FENCED


def test_a_transaction_commits_through_its_states_with_a_marker_in_each_partition():
    it = Coordinated()
    producer = it.init()
    assert it.add(producer, 0) is Error.NONE
    assert it.add(producer, 0, 1) is Error.NONE
    assert it.add(producer, 1) is Error.NONE  # already in: nothing is written
    assert it.end(producer, True) is Error.NONE
    assert it.states() == [0, 1, 1, 2, 4]
    assert it.markers(0) == it.markers(1) == [(0, 1)]
    assert it.end(producer, True) is Error.NONE
    assert it.end(producer, False) is Error.INVALID_TXN_STATE
    assert len(it.log()) == 5


def test_an_empty_transaction_ends_in_no_way():
    it = Coordinated()
    producer = it.init()
    assert it.end(producer, True) is Error.INVALID_TXN_STATE
    assert it.end(producer, False) is Error.INVALID_TXN_STATE


def test_who_begins_while_another_is_at_work_shuts_it_out_and_has_to_ask_again():
    it = Coordinated()
    first = it.init()
    it.add(first, 0)
    assert it.init() == (Error.CONCURRENT_TRANSACTIONS, -1, -1)
    assert it.markers() == [(1, 0)]  # aborted by an epoch that no client knows
    assert it.end(first, True) is Error.PRODUCER_FENCED
    assert it.init() == (Error.NONE, first.producer_id, 2)


def test_others_than_its_producer_are_refused():
    it = Coordinated()
    producer = it.init()
    wrong = producer._replace(producer_id=producer.producer_id + 1)
    assert it.add(wrong, 0) is Error.INVALID_PRODUCER_ID_MAPPING
    assert it.end(wrong, True) is Error.INVALID_PRODUCER_ID_MAPPING
    assert it.add(producer, 0, name="y") is Error.INVALID_PRODUCER_ID_MAPPING
    assert it.add(producer, 0, name="") is Error.INVALID_REQUEST
    newer = producer._replace(producer_epoch=1)
    assert it.add(newer, 0) is Error.PRODUCER_FENCED


@pytest.mark.parametrize("timeout_ms", [1, 9_996, 9_997, 10_000, 25_000])
def test_a_transaction_that_takes_too_long_is_aborted_at_the_next_look(timeout_ms):
    it = Coordinated()
    producer = it.init(timeout_ms=timeout_ms)
    it.move(3)
    it.add(producer, 0)
    # Kafka looks every 10 s for those that began more than their time-out ago.
    looks = next(ms for ms in range(CHECK_MS, 10**6, CHECK_MS) if 3 + timeout_ms < ms)
    it.move(looks - 4)
    assert it.states()[-1] is State.ONGOING
    it.move(1)
    assert it.states()[-2:] == [State.PREPARE_ABORT, State.COMPLETE_ABORT]
    assert it.markers() == [(1, 0)]
    assert it.end(producer, True) is Error.PRODUCER_FENCED
    assert it.init().producer_epoch == 2


def test_what_ended_in_time_is_not_aborted_later():
    it = Coordinated()
    producer = it.init(timeout_ms=15_000)
    it.add(producer, 0)
    it.move(14_000)
    it.end(producer, True)
    it.add(producer, 0)
    it.move(15_000)
    assert it.states()[-1] is State.ONGOING
    it.move(2_000)
    assert it.states()[-1] is State.COMPLETE_ABORT


def test_an_id_that_nobody_used_for_a_week_is_forgotten_with_a_tombstone():
    it = Coordinated()
    it.init("x")
    it.init("y")
    it.move(WEEK_MS - HOUR_MS)
    it.init("y")
    it.move(HOUR_MS)
    assert it.log("x")[-1].value is None
    assert it.log("y")[-1].value is not None
    assert [each.transactional_id for each in it.own] == ["y"]
    assert it.init("x").producer_epoch == 0
    it.move(WEEK_MS)
    assert it.log("y")[-1].value is None
    assert list(it.own) == []


def test_an_id_is_forgotten_at_the_first_check_at_or_after_its_week():
    """The checks are every hour from the start of the coordinator on."""
    for begun_ms, forgotten_ms in (
        (0, WEEK_MS),
        (1, WEEK_MS + HOUR_MS),
        (HOUR_MS, WEEK_MS + HOUR_MS),
    ):
        it = Coordinated()
        began_ms = it.cluster.now_ms
        it.move(begun_ms)
        it.init()
        it.move(began_ms + forgotten_ms - 1 - it.cluster.now_ms)
        assert it.own.transaction("x") is not None
        it.move(1)
        assert it.own.transaction("x") is None


def test_an_ongoing_transaction_is_not_forgotten():
    it = Coordinated({"transaction.max.timeout.ms": 2**31 - 1})
    it.add(it.init(timeout_ms=2**31 - 1), 0)
    it.move(2 * WEEK_MS)
    assert it.states()[-1] is State.ONGOING


def test_partitions_are_in_a_transaction_or_not():
    it = Coordinated()
    producer = it.init()
    it.add(producer, 0)

    def asked(name="x", epoch=0, number=0, **more):
        return it.own.verify(name, producer.producer_id, epoch, "t", number, **more)

    assert asked() is Error.NONE
    assert asked(None) is Error.NONE
    assert asked(number=1) is Error.INVALID_TXN_STATE
    assert asked(number=1, abortable=True) is Error.TRANSACTION_ABORTABLE
    assert asked(epoch=1) is Error.INVALID_PRODUCER_EPOCH
    assert asked("y") is Error.INVALID_PRODUCER_ID_MAPPING
    assert asked("") is Error.INVALID_REQUEST
    it.end(producer, True)
    assert asked() is Error.INVALID_TXN_STATE


def test_kafka_3_9_has_no_transaction_version_and_writes_records_of_version_0():
    it = Coordinated()
    it.init()
    assert [each.value[:2] for each in it.log()] == [b"\0\0"]


def test_markers_are_written_by_topic_and_number():
    it, written = Coordinated(), []
    it.cluster.topics.create("u", 8)
    producer = it.init()
    places = [("t", 1), ("t", 0), *(("u", number) for number in range(8))]
    it.own.add_partitions("x", *producer[1:], places)
    for place in places:
        waiters = it.cluster.topics.partition(*place).waiters
        waiters[place] = partial(written.append, place)
    it.end(producer, True)
    assert written == sorted(places)


def stored(it, value, name="x"):
    """Put a record into the log and begin again from it."""
    log = it.cluster.topics.partition(STATE_TOPIC, it.own.partition_for(name))
    log.append_records([(0, key_bytes(name), value_bytes(value))])
    it.own.load()


def test_when_epochs_are_used_up_there_is_a_new_producer_id():
    it = Coordinated()
    stored(it, Value(77, 2**15 - 3, 60_000, State.EMPTY, None, 0, -1))
    assert it.init() == (Error.NONE, 77, 2**15 - 2)
    it.move(70)
    new = it.init(timeout_ms=5_005, expected=(77, 2**15 - 2))
    assert new.producer_epoch == 0
    assert new.producer_id != 77
    kept = it.own.transaction("x")
    assert (kept.updated_ms, kept.timeout_ms) == (it.cluster.now_ms, 5_005)
    # who did not hear of it asks again with the last epoch of before
    assert it.init(expected=(77, 2**15 - 2)) == new
    assert it.init(expected=(77, 5)).error is Error.PRODUCER_FENCED


def test_the_last_epoch_is_kept_for_the_fence():
    it = Coordinated()
    stored(it, Value(77, 2**15 - 2, 60_000, State.ONGOING, {"t": [0]}, 0, 0))
    assert it.init().error is Error.CONCURRENT_TRANSACTIONS
    assert it.markers() == [(2**15 - 1, 0)]
    assert it.init()[2] == 0


@pytest.mark.parametrize(
    ("status", "marker", "after"),
    [
        (State.PREPARE_COMMIT, [(3, 1)], State.COMPLETE_COMMIT),
        (State.PREPARE_ABORT, [(3, 0)], State.COMPLETE_ABORT),
        (State.ONGOING, [], State.ONGOING),
        (State.COMPLETE_COMMIT, [], State.COMPLETE_COMMIT),
    ],
)
def test_what_was_decided_is_completed_after_an_election(status, marker, after):
    it = Coordinated()
    stored(it, Value(77, 3, 60_000, status, {"t": [0]}, 0, 0))
    assert it.markers() == marker
    assert it.own.transaction("x").state is after


def test_after_an_election_an_ongoing_transaction_still_runs_out():
    it = Coordinated()
    it.add(it.init(), 0)
    it.own.load()
    it.move(60_000 + CHECK_MS)
    assert it.own.transaction("x").state is State.COMPLETE_ABORT


def test_an_election_forgets_only_what_the_log_has_not():
    it = Coordinated()
    for name in "abc":
        producer = it.init(name)
        it.add(producer, 0, name=name)
        if name == "b":
            it.end(producer, False, name=name)
    before = list(it.own)
    it.own.load()
    hidden = {"last_producer_id", "last_producer_epoch"}  # not in version 0 of the record
    shown = [name for name in before[0].__slots__ if name not in hidden]
    assert sorted([getattr(each, name) for name in shown] for each in it.own) == sorted(
        [getattr(each, name) for name in shown] for each in before
    )


def test_an_election_knows_nothing_that_is_not_in_the_log():
    it = Coordinated()
    for name in "ab":
        it.init(name)
    number = it.own.partition_for("a")
    it.cluster.topics.partition(STATE_TOPIC, number).append_records([(0, key_bytes("a"), None)])
    it.own.load()
    assert [each.transactional_id for each in it.own] == ["b"]
    it.cluster.topics.delete(STATE_TOPIC)
    it.own.load()
    assert list(it.own) == []


def test_a_timer_of_before_an_election_aborts_nothing_twice():
    it = Coordinated()
    it.add(it.init(), 0)
    it.own.load()
    it.own.load()
    it.move(60_000 + CHECK_MS)
    assert it.markers() == [(1, 0)]


def test_exhausted_epochs_are_an_error_for_who_names_another_one():
    it = Coordinated()
    stored(it, Value(77, 2**15 - 2, 60_000, State.EMPTY, None, 0, -1))
    assert it.init(expected=(77, 5)).error is Error.UNKNOWN_SERVER_ERROR


def test_a_transaction_is_verified_before_a_write_with_the_errors_of_a_write():
    it = Coordinated()
    producer = it.init()
    it.add(producer, 0)
    (_, producer_id, epoch) = producer

    def verified(name="x", producer_id=producer_id, epoch=epoch, number=0, **how):
        return it.own.verify(name, producer_id, epoch, "t", number, **how)

    assert verified() is Error.NONE
    assert verified(None) is Error.NONE  # no transaction
    assert verified(epoch=epoch + 1) is Error.INVALID_PRODUCER_EPOCH
    assert verified(producer_id=producer_id + 1) is Error.INVALID_PRODUCER_ID_MAPPING
    assert verified(number=1) is Error.INVALID_TXN_STATE
    assert verified(number=1, abortable=True) is Error.TRANSACTION_ABORTABLE
    assert it.own.transaction("x").partitions == {("t", 0)}
    assert verified(number=1, adds=True) is Error.NONE
    assert it.own.transaction("x").partitions == {("t", 0), ("t", 1)}
    assert it.own.transaction("x").client_version == 2
    it.cluster.topics.delete(STATE_TOPIC)
    assert verified() is Error.COORDINATOR_NOT_AVAILABLE


def test_who_asks_while_markers_are_written_is_told_to_ask_again():
    """A fetch that waits is answered by the first marker, before the transaction is complete."""
    it = Coordinated()
    producer = it.init()
    it.add(producer, 0, 1)
    heard = []

    def ask():
        heard.append(it.init().error)
        heard.append(it.add(producer, 1))
        heard.append(it.end(producer, True))
        heard.append(it.end(producer, False))
        heard.append(it.own.verify_partitions("x", *producer[1:], [("t", 0)])["t", 0])

    it.cluster.topics.partition("t", 0).waiters["fetch"] = ask
    assert it.end(producer, True) is Error.NONE
    soon = Error.CONCURRENT_TRANSACTIONS
    assert heard == [soon, soon, soon, Error.INVALID_TXN_STATE, soon]
    assert it.markers(1) == [(0, 1)]


@pytest.mark.parametrize(
    ("name", "error"),
    [("", Error.INVALID_REQUEST), ("nobody", Error.INVALID_PRODUCER_ID_MAPPING)],
)
def test_the_end_with_the_next_epoch_is_refused_like_any_end(name, error):
    it = Coordinated()
    assert it.own.end_txn_with_bump(name, 1, 0, committed=True) == (error, -1, -1)
    assert it.own.end_txn(name, 1, 0, committed=True) is error
    it.cluster.topics.delete(STATE_TOPIC)
    if name:
        error = Error.NOT_COORDINATOR
    assert it.own.end_txn_with_bump(name, 1, 0, committed=True) == (error, -1, -1)
    assert it.own.add_partitions(name, 1, 0, []) is error


def test_the_times_of_a_transaction_that_ends_with_the_next_epoch_are_those_of_its_end():
    it = Coordinated()
    producer = it.init()
    it.move(5)
    it.add(producer, 0)
    began_ms = it.cluster.now_ms
    it.move(70)
    ended = it.own.end_txn_with_bump("x", *producer[1:], committed=True)
    assert ended == (Error.NONE, producer[1], producer[2] + 1)
    values = [read_value(each.value) for each in it.log()[-2:]]
    assert [(each.updated_ms, each.start_ms) for each in values] == [
        (began_ms + 70, began_ms)
    ] * 2  # fmt: skip
    (marker,) = LogReader(it.cluster.topics.partition("t", 0).data())
    assert marker.records[0].timestamp == began_ms + 70


def test_the_first_check_of_a_time_out_is_at_or_after_it():
    """Kafka looks every ten seconds, and aborts what is over its time by then."""
    for timeout_ms, at_ms in ((9_999, 10_000), (10_000, 20_000), (19_999, 20_000)):
        it = Coordinated()
        it.add(it.init(timeout_ms=timeout_ms), 0)
        it.move(at_ms - 1)
        assert it.own.transaction("x").state is State.ONGOING
        it.move(1)
        assert it.own.transaction("x").state is State.COMPLETE_ABORT


def test_an_abort_that_could_not_be_written_is_tried_again_once_its_producer_goes_on():
    it = Coordinated()
    producer = it.init(timeout_ms=5_000)
    it.add(producer, 0)
    it.cluster.topics.delete(STATE_TOPIC)
    it.move(CHECK_MS)
    assert it.own.transaction("x").state is State.ONGOING
    it.own.ready()
    assert it.add(producer, 1) is Error.NONE
    it.move(1)
    assert it.states() == [State.ONGOING, State.PREPARE_ABORT, State.COMPLETE_ABORT]


def test_a_topic_that_is_gone_needs_no_marker():
    it = Coordinated()
    producer = it.init()
    it.add(producer, 0)
    it.cluster.topics.delete("t")
    assert it.end(producer, True) is Error.NONE
    assert it.states()[-1] is State.COMPLETE_COMMIT


def test_a_transaction_times_out_counted_from_its_first_partitions():
    coordinated = Coordinated()
    producer = coordinated.init(timeout_ms=3 * CHECK_MS)
    coordinated.add(producer, 0)
    coordinated.move(2 * CHECK_MS)
    coordinated.add(producer, 1)
    coordinated.move(2 * CHECK_MS)
    assert coordinated.states()[-1] is State.COMPLETE_ABORT


def test_an_id_that_was_loaded_expires_a_week_after_its_last_record():
    it = Coordinated()
    it.init()
    it.move(3 * HOUR_MS)
    it.own.load()
    it.move(WEEK_MS - 3 * HOUR_MS - 1)
    assert it.log()[-1].value is not None
    it.move(HOUR_MS + 1)
    assert it.log()[-1].value is None


def test_no_client_knows_the_new_way_to_end_a_transaction_before_it_has_partitions():
    """clientTransactionVersion is a tagged field, which 0 leaves out (TransactionLogValue)."""
    cluster = playing.Server(CONFIG, kafka="4.1").cluster
    it = Coordinated()
    it.cluster, it.own = cluster, cluster.transactions
    it.own.ready()
    it.init()
    assert it.log()[-1].value[:2] == b"\0\1"
    assert it.log()[-1].value[-1:] == b"\0"
