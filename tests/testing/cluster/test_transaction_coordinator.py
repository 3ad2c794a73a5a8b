"""What the transaction coordinator of a cluster answers, request by request.

The rules are those of TransactionCoordinator, TransactionMetadata and ProducerStateManager (Kafka
3.9, transaction version 1).
"""

import pytest

from coterie import Error
from coterie.base.schedule import Schedule
from coterie.testing import Cluster
from coterie.testing.topics import TopicPartition

OUT = [TopicPartition("out", number) for number in range(3)]
TIMEOUT_MS = 60_000


@pytest.fixture
def cluster():
    return Cluster({"out": 3}, interval_ms=None)


def begun(cluster, name="t", partitions=OUT[:1], groups=(), timeout_ms=TIMEOUT_MS):
    """The producer of a new transaction, as its requests name it."""
    transactions = cluster.transactions
    producer = (name, *transactions.init_producer_id(name, timeout_ms))
    if partitions:
        assert transactions.add_partitions_to_txn(*producer, partitions) == Error.NONE
    for group in groups:
        assert transactions.add_offsets_to_txn(*producer, group) == Error.NONE
    return producer


def produce(cluster, producer, sequence=1, partitions=OUT[:1], values=("x",), transactional=True):
    records = {tp: [(None, value) for value in values] for tp in partitions}
    _, producer_id, epoch = producer
    return cluster.transactions.produce(
        producer_id, epoch, sequence, records, transactional=transactional
    )


def pass_time(cluster, ms):
    cluster.schedule.run_until(cluster.now_ms + ms)


@pytest.mark.parametrize(("timeout_ms", "taken"), [(0, False), (1, True), (900_000, True),
                                                   (900_001, False)])  # fmt: skip
def test_a_timeout_is_positive_and_at_most_transaction_max_timeout_ms(cluster, timeout_ms, taken):
    answer = cluster.transactions.init_producer_id("t", timeout_ms)
    assert (answer != Error.INVALID_TRANSACTION_TIMEOUT) == taken


def test_each_transactional_id_has_a_producer_id_and_each_start_an_epoch(cluster):
    init = cluster.transactions.init_producer_id
    first, second = init("t", TIMEOUT_MS), init("u", TIMEOUT_MS)
    assert [first[1], second[1]] == [0, 0]
    assert init("t", TIMEOUT_MS) == (first[0], 1)
    assert init("t", TIMEOUT_MS) == (first[0], 2)
    others = [init(None, TIMEOUT_MS) for _ in range(2)]  # idempotent producers
    assert [epoch for _, epoch in others] == [0, 0]
    assert len({first[0], second[0], *(number for number, _ in others)}) == 4
    assert min(first[0], second[0]) >= 0


def test_a_start_during_a_transaction_aborts_it_and_takes_the_epoch_after_the_fence(cluster):
    producer = begun(cluster)
    produce(cluster, producer)
    init = cluster.transactions.init_producer_id
    assert init("t", TIMEOUT_MS) == Error.CONCURRENT_TRANSACTIONS
    assert cluster.topics["out"].logs[0].offsets(2) == []
    assert init("t", TIMEOUT_MS) == (producer[1], producer[2] + 2)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({0: "other"}, Error.INVALID_PRODUCER_ID_MAPPING),
        ({1: 99}, Error.INVALID_PRODUCER_ID_MAPPING),
        ({2: 0}, Error.PRODUCER_FENCED),
        ({2: 2}, Error.PRODUCER_FENCED),
    ],
)
def test_requests_of_another_producer_are_refused(cluster, change, error):
    cluster.transactions.init_producer_id("t", TIMEOUT_MS)
    producer = begun(cluster)
    assert producer[2] == 1
    wrong = [change.get(place, value) for place, value in enumerate(producer)]
    transactions = cluster.transactions
    assert transactions.add_partitions_to_txn(*wrong, OUT) == error
    assert transactions.add_offsets_to_txn(*wrong, "g") == error
    assert transactions.end_txn(*wrong, committed=True) == error
    assert transactions.end_txn(*producer, committed=True) == Error.NONE


@pytest.mark.parametrize("committed", [True, False])
def test_an_end_may_be_repeated_but_not_changed(cluster, committed):
    transactions = cluster.transactions
    idle = begun(cluster, "idle", ())
    assert transactions.end_txn(*idle, committed=committed) == Error.INVALID_TXN_STATE
    producer = begun(cluster)
    for _ in range(2):
        assert transactions.end_txn(*producer, committed=committed) == Error.NONE
    assert transactions.end_txn(*producer, committed=not committed) == Error.INVALID_TXN_STATE
    assert cluster.topics["out"].logs[0].end_offset(cluster.now_ms) == 0  # it wrote nothing there


@pytest.mark.parametrize("committed", [True, False])
def test_all_waits_while_the_markers_of_a_group_wait_for_its_coordinator(cluster, committed):
    transactions = cluster.transactions
    producer = begun(cluster, groups=["g"])
    cluster.fail_over(5000)
    assert transactions.end_txn(*producer, committed=committed) == Error.NONE
    waits = Error.CONCURRENT_TRANSACTIONS
    for _ in range(2):
        assert transactions.end_txn(*producer, committed=committed) == waits
        assert transactions.end_txn(*producer, committed=not committed) == Error.INVALID_TXN_STATE
        assert transactions.add_partitions_to_txn(*producer, OUT) == waits
        assert transactions.add_offsets_to_txn(*producer, "g") == waits
        assert transactions.init_producer_id("t", TIMEOUT_MS) == waits
        assert transactions.verify_offsets("g", *producer[1:]) == waits
        assert produce(cluster, producer) == {OUT[0]: waits}
        pass_time(cluster, 4999 - cluster.now_ms)
    pass_time(cluster, 1 + 20)  # it tries again every 20 ms
    assert transactions.end_txn(*producer, committed=committed) == Error.NONE
    assert transactions.add_partitions_to_txn(*producer, OUT) == Error.NONE
    # the next transaction has neither the partitions nor the groups of the one before
    assert transactions.verify_offsets("g", *producer[1:]) == Error.TRANSACTION_ABORTABLE


def test_an_end_marks_each_partition_that_has_records_and_forgets_them(cluster):
    transactions, logs = cluster.transactions, cluster.topics["out"].logs
    producer = begun(cluster, partitions=OUT)
    assert produce(cluster, producer, partitions=OUT[:2], values="xyz") == {OUT[0]: 0, OUT[1]: 0}
    assert [log.last_stable_offset(0) for log in logs] == [0, 0, 0]
    assert transactions.end_txn(*producer, committed=True) == Error.NONE
    assert [log.end_offset(0) for log in logs] == [4, 4, 0]
    assert [log.last_stable_offset(0) for log in logs] == [4, 4, 0]
    assert transactions.add_partitions_to_txn(*producer, [OUT[2]]) == Error.NONE
    assert produce(cluster, producer, 2, OUT) == {
        OUT[0]: Error.TRANSACTION_ABORTABLE,  # not in this transaction
        OUT[1]: Error.TRANSACTION_ABORTABLE,
        OUT[2]: 0,
    }
    transactions.end_txn(*producer, committed=False)
    assert [log.offsets(log.end_offset(0)) for log in logs] == [[0, 1, 2], [0, 1, 2], []]


def test_a_deleted_topic_does_not_hinder_the_end(cluster):
    cluster.create_topic("gone", 1, None)
    producer = begun(cluster, partitions=[TopicPartition("gone", 0), OUT[0]])
    produce(cluster, producer)
    cluster.delete_topic("gone")
    assert cluster.transactions.end_txn(*producer, committed=True) == Error.NONE
    assert cluster.topics["out"].logs[0].end_offset(0) == 2


def test_records_are_refused_where_and_by_whom_they_cannot_be_written(cluster):
    producer = begun(cluster, partitions=OUT[:2])
    name, producer_id, epoch = producer
    beyond, unknown = TopicPartition("out", 3), TopicPartition("none", 0)
    assert produce(cluster, producer, partitions=[*OUT, beyond, unknown]) == {
        OUT[0]: 0,
        OUT[1]: 0,
        OUT[2]: Error.TRANSACTION_ABORTABLE,
        beyond: Error.UNKNOWN_TOPIC_OR_PARTITION,
        unknown: Error.UNKNOWN_TOPIC_OR_PARTITION,
    }
    for other in (epoch - 1, epoch + 1):
        answer = produce(cluster, (name, producer_id, other))
        assert answer == {OUT[0]: Error.INVALID_PRODUCER_EPOCH}
    assert produce(cluster, (name, 99, epoch)) == {OUT[0]: Error.INVALID_PRODUCER_ID_MAPPING}


def test_a_repeated_batch_is_written_once_and_answered_as_before(cluster):
    producer = begun(cluster)
    for sequence, first in ((1, 0), (2, 2), (2, 2), (3, 4), (3, 4)):
        assert produce(cluster, producer, sequence, values="xy") == {OUT[0]: first}
    assert cluster.topics["out"].logs[0].end_offset(0) == 6
    cluster.transactions.end_txn(*producer, committed=True)
    again = begun(cluster)  # a new epoch begins its sequence anew
    assert produce(cluster, again, 3, values="xy") == {OUT[0]: 7}


def test_a_producer_without_transactions_writes_what_is_stable_at_once(cluster):
    producer = (None, *cluster.transactions.init_producer_id(None, TIMEOUT_MS))
    assert produce(cluster, producer, 1, OUT[1:2], "xy", transactional=False) == {OUT[1]: 0}
    assert produce(cluster, producer, 1, OUT[1:2], "xy", transactional=False) == {OUT[1]: 0}
    assert produce(cluster, producer, 2, OUT[1:2], "z", transactional=False) == {OUT[1]: 2}
    log = cluster.topics["out"].logs[1]
    assert log.last_stable_offset(0) == log.end_offset(0) == 3


def test_offsets_need_the_group_in_an_open_transaction_of_this_epoch(cluster):
    producer = begun(cluster, groups=["g"])
    _, producer_id, epoch = producer
    verify = cluster.transactions.verify_offsets
    assert verify("g", producer_id, epoch) == Error.NONE
    assert verify("h", producer_id, epoch) == Error.TRANSACTION_ABORTABLE
    assert verify("g", producer_id, epoch + 1) == Error.INVALID_PRODUCER_EPOCH
    assert verify("g", producer_id + 9, epoch) == Error.INVALID_PRODUCER_ID_MAPPING
    cluster.transactions.end_txn(*producer, committed=True)
    assert verify("g", producer_id, epoch) == Error.TRANSACTION_ABORTABLE


@pytest.mark.parametrize("began_ms", [0, 3000])
@pytest.mark.parametrize(
    ("start_ms", "timeout_ms", "aborted_ms"),
    # late is what has lasted longer than its timeout (timedOutTransactions), not as long
    [(1, 9_998, 10_000), (1, 9_999, 20_000), (4_000, 15_999, 20_000), (12_000, 8_000, 30_000)],
)
def test_a_transaction_is_aborted_by_the_first_check_after_its_timeout(
    began_ms, start_ms, timeout_ms, aborted_ms
):
    # transaction.abort.timed.out.transaction.cleanup.interval.ms, 10 s, from the broker's start
    schedule = Schedule()
    schedule.run_until(began_ms)
    cluster = Cluster({"out": 3}, interval_ms=None, schedule=schedule)
    pass_time(cluster, start_ms)
    producer = begun(cluster, timeout_ms=timeout_ms)
    produce(cluster, producer)
    log = cluster.topics["out"].logs[0]
    schedule.run_until(began_ms + aborted_ms - 1)
    assert log.last_stable_offset(schedule.now_ms) == 0
    pass_time(cluster, 1)
    assert log.last_stable_offset(schedule.now_ms) == 2
    assert log.offsets(2) == []
    ended = cluster.transactions.end_txn(*producer, committed=True)
    assert ended == Error.PRODUCER_FENCED


def test_the_timeout_of_a_transaction_does_not_end_the_next_one(cluster):
    pass_time(cluster, 1)
    producer = begun(cluster, timeout_ms=10_500)  # until the check at 20 s
    cluster.transactions.end_txn(*producer, committed=True)
    pass_time(cluster, 9_998)
    cluster.transactions.add_partitions_to_txn(*producer, OUT)  # at 9,999 ms: until that at 30 s
    pass_time(cluster, 20_000)
    assert cluster.now_ms == 29_999
    assert cluster.transactions.end_txn(*producer, committed=True) == Error.NONE


def test_a_further_partition_does_not_prolong_a_transaction(cluster):
    producer = begun(cluster, timeout_ms=9_999)
    pass_time(cluster, 5000)
    cluster.transactions.add_partitions_to_txn(*producer, OUT)
    pass_time(cluster, 5000)
    ended = cluster.transactions.end_txn(*producer, committed=True)
    assert ended == Error.PRODUCER_FENCED
