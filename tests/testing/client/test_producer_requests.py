"""What a producer sends and notes, how long it waits, and what the errors of its requests mean.

Source: TransactionManager (TxnRequestHandler and its subclasses), KafkaProducer (Kafka 3.9).
"""

import pytest

from coterie import ArgumentError, Error, OffsetAndMetadata
from coterie.testing import (
    Cluster,
    CommitFailedError,
    Consumer,
    ConsumerGroupMetadata,
    IllegalStateError,
    KafkaError,
    KafkaTimeoutError,
    Producer,
    ProducerFencedError,
    RecordMetadata,
)
from coterie.testing.process import Process
from support.consumers import Recorder

OFFSETS = {("in", 0): OffsetAndMetadata(7, 4, "seven"), ("in", 1): OffsetAndMetadata(8)}
NOBODY = ConsumerGroupMetadata("g", -1, "", None)
ROUND_MS = 2  # to a broker and back
BACKOFFS_MS = [100, 200, 400, 800, 1000, 1000]


class TxnRecorder(Recorder):
    """Writes down TxnOffsetCommit, too."""

    def txn_offset_commit(self, *args, **fields):
        self.seen.append((self.now_ms, "txn_offset_commit", args, fields))
        return super().txn_offset_commit(*args, **fields)


@pytest.fixture
def cluster():
    made = Cluster({"out": 3, "in": 2}, interval_ms=None, make_coordinator=TxnRecorder)
    made.notes = []
    made.on_note = lambda at_ms, client, kind, details: made.notes.append((kind, details))
    return made


def producer(cluster, transactional_id="t", **settings):
    made = Producer(cluster, {"transactional.id": transactional_id} | settings)
    made.init_transactions()
    return made


def duration_ms(cluster, call):
    """How long a call takes."""
    began_ms = cluster.now_ms
    call()
    return cluster.now_ms - began_ms


def end_offsets(cluster):
    return [log.end_offset(cluster.now_ms) for log in cluster.topics["out"].logs]


def test_offsets_are_sent_with_all_their_fields_and_those_of_the_member(cluster):
    producer(cluster, "other").close()  # so that ids and epochs are no defaults
    producer(cluster)
    one = producer(cluster)
    one.begin_transaction()
    one.send_offsets_to_transaction({}, NOBODY)
    assert cluster.notes == [("closed", None)]
    one.send_offsets_to_transaction(OFFSETS, ConsumerGroupMetadata("g", -1, "m", "i"))
    ((args, fields),) = cluster.coordinator.of("txn_offset_commit")
    assert args == ("g", OFFSETS)
    assert fields == {
        "producer_id": 2, "producer_epoch": 1, "generation_id": -1, "member_id": "m",
        "group_instance_id": "i",
    }  # fmt: skip
    with pytest.raises(ArgumentError, match="group_metadata must be that of"):
        one.send_offsets_to_transaction(OFFSETS, ("g", -1, "", None))
    with pytest.raises(ArgumentError, match="offsets must map"):
        one.send_offsets_to_transaction([("in", 0)], NOBODY)


@pytest.mark.parametrize("outcome", [None, "aborted", "KafkaError"])
def test_the_commits_of_offsets_are_noted_and_then_what_became_of_them(cluster, outcome):
    one = producer(cluster)
    for _ in range(2):
        cluster.notes.clear()
        one.begin_transaction()
        for offset in (3, 4):
            one.send_offsets_to_transaction({("in", 0): offset}, NOBODY)
        if outcome == "KafkaError":
            cluster.network.fail("t", "end_txn", Error.INVALID_TXN_STATE)
            with pytest.raises(KafkaError, match="INVALID_TXN_STATE"):
                one.commit_transaction()
        elif outcome:
            one.abort_transaction()
        else:
            one.commit_transaction()
        offsets = [{("in", 0): OffsetAndMetadata(offset)} for offset in (3, 4)]
        assert cluster.notes == [
            *(("commit", each) for each in offsets),
            *(("committed", (each, outcome)) for each in offsets),
        ]
        if outcome == "KafkaError":  # it is fatal
            with pytest.raises(KafkaError, match="the transaction has failed: end_txn: INVALID_TX"):
                one.begin_transaction()
            break


def test_an_idempotent_producer_asks_for_its_id_once(cluster):
    one = Producer(cluster, {})

    def write():
        one.send("out", value="v")
        one.flush()

    durations_ms = [duration_ms(cluster, write) for _ in range(3)]
    assert durations_ms == [2 * ROUND_MS, ROUND_MS, ROUND_MS]


def test_records_without_a_key_take_turns_and_equal_keys_go_to_one_partition(cluster):
    one = Producer(cluster, {})
    sent = [one.send("out", number) for number in range(6)]
    sent += [one.send("out", number, key=f"k{number % 7}") for number in range(21)]
    sent.append(one.send("out", "last", partition=2))
    one.flush()
    placed = [each.value for each in sent]
    assert all(each.done and each.failure is None for each in sent)
    assert sorted(each.partition for each in placed[:6]) == [0, 0, 1, 1, 2, 2]
    keyed = placed[6:27]
    assert [each.partition for each in keyed[:7]] * 3 == [each.partition for each in keyed]
    assert len({each.partition for each in keyed}) > 1
    assert placed[-1].partition == 2
    for number in range(3):  # offsets in the order of sending
        offsets = [each.offset for each in placed if each.partition == number]
        assert offsets == list(range(len(offsets)))
    assert sum(end_offsets(cluster)) == len(sent)


@pytest.mark.parametrize(
    ("topic", "partition", "error", "named"),
    [("none", None, KafkaTimeoutError, "topic 'none' is not in the metadata"),
     ("out", 3, KafkaTimeoutError, "partition 3 of topic 'out' does not exist"),
     ("out", -1, KafkaTimeoutError, "partition -1 of topic 'out'"),
     ("out", "0", ArgumentError, "partition"), (5, 0, ArgumentError, "topic")],
)  # fmt: skip
def test_a_record_needs_a_partition_that_exists(cluster, topic, partition, error, named):
    one = Producer(cluster, {})
    with pytest.raises(error, match=named):
        one.send(topic, "x", partition=partition)
    with pytest.raises(ArgumentError, match="callback"):
        one.send("out", "x", callback=5)
    one.send("out", "x", partition=0)
    one.flush()
    assert end_offsets(cluster) == [1, 0, 0]


@pytest.mark.parametrize("fails", [False, True])
def test_a_callback_gets_the_place_of_its_record_or_the_failure(cluster, fails):
    one, outcomes = Producer(cluster, {"client.id": "p"}), []
    if fails:
        cluster.network.fail("p", "produce", Error.UNKNOWN_SERVER_ERROR)
    for key in ("a", "b"):
        one.send("out", key, key, partition=1, callback=lambda *outcome: outcomes.append(outcome))
    one.flush()
    if fails:
        assert [(place, error.error) for place, error in outcomes] == [
            (None, Error.UNKNOWN_SERVER_ERROR)
        ] * 2
    else:
        places = [RecordMetadata("out", 1, offset) for offset in (0, 1)]
        assert outcomes == [(place, None) for place in places]
        reader = Consumer(cluster, {"auto.offset.reset": "earliest"})
        reader.assign([("out", 1)])
        assert [(one.key, one.value) for one in reader.poll(100)] == [("a", "a"), ("b", "b")]


def test_the_first_record_of_a_partition_in_a_transaction_adds_it(cluster):
    one = producer(cluster)
    one.begin_transaction()
    one.send("out", "x", partition=0)
    assert duration_ms(cluster, one.flush) == 2 * ROUND_MS  # AddPartitionsToTxn, Produce
    one.send("out", "y", partition=0)
    assert duration_ms(cluster, one.flush) == ROUND_MS
    one.send("out", "z", partition=2)
    assert duration_ms(cluster, one.flush) == 2 * ROUND_MS
    assert duration_ms(cluster, one.commit_transaction) == ROUND_MS
    one.begin_transaction()  # nothing is added yet
    one.send("out", "x", partition=0)
    assert duration_ms(cluster, one.flush) == 2 * ROUND_MS
    one.abort_transaction()
    assert end_offsets(cluster) == [5, 0, 2]  # with the markers


def test_an_abort_drops_records_that_are_not_written_yet(cluster):
    one = producer(cluster)
    one.begin_transaction()
    sent = [one.send("out", number, partition=0) for number in range(2)]
    one.abort_transaction()
    assert all(type(each.failure) is KafkaError for each in sent)
    assert "the transaction is aborted" in str(sent[0].failure)
    assert end_offsets(cluster) == [0, 0, 0]
    one.begin_transaction()
    one.send("out", "x", partition=0)
    one.commit_transaction()
    assert end_offsets(cluster) == [2, 0, 0]


# How long


def first_call(cluster, op):
    """A call that sends a request of this API, the first one of its producer."""
    if op == "init_producer_id":
        made = Producer(cluster, {"transactional.id": "t"})
        return made.init_transactions
    made = producer(cluster)
    made.begin_transaction()
    if op == "add_offsets_to_txn":
        return lambda: made.send_offsets_to_transaction(OFFSETS, NOBODY)
    if op == "end_txn":
        made.send_offsets_to_transaction(OFFSETS, NOBODY)
        return made.commit_transaction
    made.send("out", "x", partition=0)
    if op == "produce":
        made.flush()
        made.send("out", "y", partition=0)
    return made.flush


@pytest.mark.parametrize("op", ["init_producer_id", "add_partitions_to_txn", "add_offsets_to_txn",
                                "produce", "end_txn"])  # fmt: skip
def test_a_request_that_may_succeed_later_is_repeated_after_a_growing_backoff(op):
    def takes_ms(error, times):
        cluster = Cluster({"out": 1}, interval_ms=None)
        call = first_call(cluster, op)
        if times:
            cluster.network.fail("t", op, error, times=times)
        return duration_ms(cluster, call) - times * ROUND_MS

    loads = Error.COORDINATOR_LOAD_IN_PROGRESS
    usual_ms = takes_ms(loads, 0)
    for times in (1, 2, 6):
        assert takes_ms(loads, times) - usual_ms == sum(BACKOFFS_MS[:times])
    # TransactionManager: 20 ms at first, while the former transaction ends
    ongoing = Error.CONCURRENT_TRANSACTIONS
    assert takes_ms(ongoing, 1) - usual_ms == 20
    assert takes_ms(ongoing, 3) - usual_ms == 20 + 200 + 400


@pytest.mark.parametrize("error", ["NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE",
                                   "REQUEST_TIMED_OUT", None])  # fmt: skip
def test_offsets_look_for_the_coordinator_again_after_an_error_that_says_so(cluster, error):
    one = producer(cluster)
    one.begin_transaction()
    one.send_offsets_to_transaction(OFFSETS, NOBODY)
    if error is None:
        cluster.network.lose_response("t", "txn_offset_commit")
    else:
        cluster.network.fail("t", "txn_offset_commit", Error[error])
    cluster.network.fail("t", "find_coordinator", Error.COORDINATOR_NOT_AVAILABLE)
    one.send_offsets_to_transaction(OFFSETS, NOBODY)
    assert cluster.network.host("t").faults == []  # it looked
    one.commit_transaction()
    found = cluster.call("offset_fetch", "g").partitions
    assert {place.partition: place.offset for place in found} == {0: 7, 1: 8}


@pytest.mark.parametrize("block_ms", [None, 700])
def test_a_call_waits_max_block_ms_and_must_then_be_repeated(cluster, block_ms):
    settings = {} if block_ms is None else {"max.block.ms": block_ms}
    waited_ms = 60_000 if block_ms is None else block_ms
    one = Producer(cluster, {"transactional.id": "t"} | settings)
    cluster.network.cut("t")

    def times_out(call):
        with pytest.raises(KafkaTimeoutError, match=r"was not done within max\.block\.ms"):
            call()

    assert duration_ms(cluster, lambda: times_out(one.init_transactions)) == waited_ms
    with pytest.raises(IllegalStateError, match="not possible in state INITIALIZING"):
        one.begin_transaction()
    cluster.network.heal("t")
    one.init_transactions()
    one.begin_transaction()
    one.send("out", "x", partition=0)
    cluster.network.cut("t")
    assert duration_ms(cluster, lambda: times_out(one.commit_transaction)) == waited_ms
    with pytest.raises(IllegalStateError):
        one.abort_transaction()
    cluster.network.heal("t")
    one.commit_transaction()
    assert end_offsets(cluster) == [2, 0, 0]


@pytest.mark.parametrize(("timeout_ms", "waited_ms"), [(None, 30_000), (700, 700), (0, 0)])
def test_close_waits_for_its_timeout_and_drops_what_is_not_written(cluster, timeout_ms, waited_ms):
    one = producer(cluster)
    one.begin_transaction()
    one.send("out", "x", partition=0)
    cluster.network.cut("t")
    options = [] if timeout_ms is None else [timeout_ms]
    assert duration_ms(cluster, lambda: one.close(*options)) == waited_ms
    assert duration_ms(cluster, lambda: one.close(*options)) == 0
    assert cluster.notes == [("closed", None)]
    for call in (one.flush, one.begin_transaction, lambda: one.send("out", "y")):
        with pytest.raises(IllegalStateError, match="this producer has been closed"):
            call()


def test_close_writes_what_is_left_and_aborts_what_has_begun(cluster):
    with Producer(cluster, {"client.id": "p"}) as one:
        one.send("out", "x", partition=1)
    assert end_offsets(cluster) == [0, 1, 0]
    two = producer(cluster)
    two.begin_transaction()
    two.send("out", "x", partition=0)
    assert duration_ms(cluster, two.close) == 3 * ROUND_MS  # it adds, writes, and aborts
    assert cluster.topics["out"].logs[0].offsets(2) == []
    three = producer(cluster, "u")
    three.begin_transaction()
    assert duration_ms(cluster, three.close) == 0


def test_a_producer_has_the_name_of_its_settings_or_its_process(cluster):
    process = Process(cluster.schedule, "process")
    for settings, name in (
        ({"client.id": "c", "transactional.id": "t"}, "c"),
        ({"transactional.id": "t"}, "t"), ({}, "producer"),
    ):  # fmt: skip
        assert repr(Producer(cluster, settings)) == f"<Producer {name}>"
    assert repr(Producer(cluster, {}, process=process)) == "<Producer process>"
    for wrong in ({"cluster": 5}, {"process": 5}):
        with pytest.raises(ArgumentError, match=f"{next(iter(wrong))} must be a"):
            Producer(**{"cluster": cluster, "settings": {}} | wrong)


# What errors mean


@pytest.mark.parametrize(
    ("op", "error", "raised", "fatal"),
    [
        ("init_producer_id", "INVALID_TRANSACTION_TIMEOUT", KafkaError, True),
        ("add_partitions_to_txn", "PRODUCER_FENCED", ProducerFencedError, True),
        ("add_partitions_to_txn", "INVALID_PRODUCER_EPOCH", ProducerFencedError, True),
        ("add_partitions_to_txn", "TRANSACTION_ABORTABLE", KafkaError, False),
        ("add_partitions_to_txn", "INVALID_PRODUCER_ID_MAPPING", KafkaError, True),
        ("add_offsets_to_txn", "PRODUCER_FENCED", ProducerFencedError, True),
        ("add_offsets_to_txn", "TRANSACTION_ABORTABLE", KafkaError, False),
        ("txn_offset_commit", "UNKNOWN_MEMBER_ID", CommitFailedError, False),
        ("txn_offset_commit", "ILLEGAL_GENERATION", CommitFailedError, False),
        ("txn_offset_commit", "FENCED_INSTANCE_ID", KafkaError, False),
        ("txn_offset_commit", "GROUP_AUTHORIZATION_FAILED", KafkaError, True),
        ("produce", "INVALID_PRODUCER_EPOCH", KafkaError, False),
        ("produce", "UNKNOWN_SERVER_ERROR", KafkaError, False),
        ("end_txn", "PRODUCER_FENCED", ProducerFencedError, True),
        ("end_txn", "TRANSACTION_ABORTABLE", KafkaError, True),
        ("end_txn", "INVALID_TXN_STATE", KafkaError, True),
    ],
)  # fmt: skip
def test_an_error_fails_the_transaction_or_the_producer(cluster, op, error, raised, fatal):
    one = Producer(cluster, {"transactional.id": "t"})
    if op != "init_producer_id":
        one.init_transactions()
        one.begin_transaction()
    cluster.network.fail("t", op, Error[error])
    if op in ("add_partitions_to_txn", "produce"):
        sent = one.send("out", "x", partition=0)
        one.flush()
        assert isinstance(sent.failure, raised)
        assert issubclass(raised, ProducerFencedError) or sent.failure.error is Error[error]
    else:
        if op == "end_txn":
            one.send_offsets_to_transaction(OFFSETS, NOBODY)
        call = {
            "init_producer_id": one.init_transactions,
            "end_txn": one.commit_transaction,
        }.get(op, lambda: one.send_offsets_to_transaction(OFFSETS, NOBODY))
        with pytest.raises(raised, match=error) as refused:
            call()
        assert isinstance(refused.value, ProducerFencedError) == (raised is ProducerFencedError)
    for call in (one.begin_transaction, one.commit_transaction, lambda: one.send("out", "y")):
        if not (op == "init_producer_id" and call is None):
            with pytest.raises(
                ProducerFencedError if raised is ProducerFencedError else KafkaError
            ):
                call()
    if fatal:
        with pytest.raises(KafkaError):
            one.abort_transaction()
        return
    one.abort_transaction()
    one.begin_transaction()
    one.send("out", "next", partition=1)
    one.commit_transaction()
    assert end_offsets(cluster)[1] == 2


def test_calls_of_a_producer_without_transactions_are_refused(cluster):
    one = Producer(cluster, {})
    one.send("out", "x", partition=0)
    for call in (one.init_transactions, one.begin_transaction, one.commit_transaction,
                 one.abort_transaction):  # fmt: skip
        with pytest.raises(IllegalStateError, match=r"without a transactional\.id"):
            call()
    one.send("out", "y", partition=1)
    one.flush()  # a refused abort drops no record
    assert end_offsets(cluster) == [1, 1, 0]


def test_a_closed_producer_refuses_every_call(cluster):
    calls = {
        "init_transactions": (), "begin_transaction": (), "commit_transaction": (),
        "abort_transaction": (), "send_offsets_to_transaction": (OFFSETS, NOBODY),
        "send": ("out", "x"), "flush": (),
    }  # fmt: skip
    assert {name for name in vars(Producer) if not name.startswith("_")} - {"close"} == calls.keys()
    one = producer(cluster)
    one.close()
    for name, given in calls.items():
        with pytest.raises(IllegalStateError, match="this producer has been closed"):
            getattr(one, name)(*given)
