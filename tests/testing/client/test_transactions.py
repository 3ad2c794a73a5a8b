"""Transactional producers and consumers of what is committed.

The rules are those of TransactionManager, TransactionCoordinator and KafkaProducer (Kafka 3.9.1),
and of their tests.
"""

import pytest

from coterie import ConfigError, Error
from coterie.testing import (
    Cluster,
    CommitFailedError,
    Consumer,
    IllegalStateError,
    KafkaError,
    KafkaTimeoutError,
    Producer,
    ProducerFencedError,
)
from coterie.testing.process import Process

CONFIGS = [{"coterie.behaviour": "3.9"}, {"coterie.behaviour": "4.1"}]


class Pipe:
    """A cluster with an input of one record a second and an output; consumers and producers."""

    def __init__(self, config=None):
        self.cluster = Cluster({"in": 1}, config)
        self.cluster.create_topic("out", 2, None)
        self.out = self.reader("read_committed")

    def reader(self, isolation):
        reader = Consumer(
            self.cluster, {"isolation.level": isolation, "auto.offset.reset": "earliest"}
        )
        reader.assign([("out", 0), ("out", 1)])
        return reader

    def read(self, reader=None):
        return sorted(one.value for one in (reader or self.out).poll(1000))

    def consumer(self, name="c", **settings):
        made = Consumer(
            self.cluster,
            {
                "client.id": name,
                "group.id": "g",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                **settings,
            },
        )
        made.subscribe(["in"])
        while not made.assignment():
            made.poll(100)
        return made

    def producer(self, transactional_id="t", **settings):
        made = Producer(self.cluster, {"transactional.id": transactional_id, **settings})
        made.init_transactions()
        return made

    def committed(self):
        found = self.cluster.call("offset_fetch", "g", {"in": [0]}, require_stable=True)
        (one,) = found.partitions
        return one.offset if one.error == Error.NONE else one.error


@pytest.fixture(params=CONFIGS, ids=["3.9", "4.1"])
def pipe(request):
    return Pipe(request.param)


def begun(pipe, producer, value="x"):
    """The producer has written a record in an open transaction."""
    producer.begin_transaction()
    producer.send("out", value, partition=0)
    producer.flush()


def test_records_are_seen_when_the_transaction_commits(pipe):
    producer = pipe.producer()
    begun(pipe, producer)
    assert pipe.read() == []
    assert pipe.read(pipe.reader("read_uncommitted")) == ["x"]
    producer.commit_transaction()
    assert pipe.read() == ["x"]


def test_records_of_an_aborted_transaction_are_skipped(pipe):
    producer = pipe.producer()
    begun(pipe, producer, "dropped")
    producer.abort_transaction()
    begun(pipe, producer, "kept")
    producer.commit_transaction()
    assert pipe.read() == ["kept"]
    assert pipe.read(pipe.reader("read_uncommitted")) == ["dropped", "kept"]


def test_an_open_transaction_holds_back_what_is_written_after_it(pipe):
    first, second = pipe.producer("first"), pipe.producer("second")
    begun(pipe, first, "open")
    begun(pipe, second, "later")
    second.commit_transaction()
    assert pipe.read() == []
    assert pipe.out.end_offsets([("out", 0)]) == {("out", 0): 0}
    first.commit_transaction()
    assert pipe.read() == ["later", "open"]


def test_offsets_are_committed_with_the_transaction(pipe):
    consumer, producer = pipe.consumer(), pipe.producer()
    begun(pipe, producer)
    producer.send_offsets_to_transaction({("in", 0): 7}, consumer.group_metadata())
    assert pipe.committed() == Error.UNSTABLE_OFFSET_COMMIT
    producer.commit_transaction()
    assert pipe.committed() == 7


def test_offsets_of_an_aborted_transaction_are_dropped(pipe):
    consumer, producer = pipe.consumer(), pipe.producer()
    consumer.commit({("in", 0): 3})
    begun(pipe, producer)
    producer.send_offsets_to_transaction({("in", 0): 7}, consumer.group_metadata())
    producer.abort_transaction()
    assert pipe.committed() == 3


def test_a_failover_neither_commits_nor_drops_the_offsets_of_an_open_transaction(pipe):
    consumer, producer = pipe.consumer(), pipe.producer()
    begun(pipe, producer)
    producer.send_offsets_to_transaction({("in", 0): 7}, consumer.group_metadata())
    pipe.cluster.fail_over(5000)
    producer.commit_transaction()  # the marker waits for the load
    begun(pipe, producer, "next")  # and the next transaction waits for the marker
    assert pipe.committed() == 7
    pipe.cluster.fail_over(100)
    pipe.cluster.schedule.run_until(pipe.cluster.now_ms + 1000)
    assert pipe.committed() == 7


def test_init_transactions_fences_the_former_producer_and_aborts_its_transaction(pipe):
    old = pipe.producer()
    begun(pipe, old)
    new = pipe.producer()
    with pytest.raises(ProducerFencedError):
        old.commit_transaction()
    for call in (old.begin_transaction, old.commit_transaction, old.abort_transaction):
        with pytest.raises(ProducerFencedError):
            call()
    begun(pipe, new, "new")
    new.commit_transaction()
    assert pipe.read() == ["new"]


def test_a_fenced_producer_cannot_write_to_a_partition_that_it_has_added(pipe):
    old = pipe.producer()
    begun(pipe, old)
    pipe.producer()
    sent = old.send("out", "zombie", partition=0)
    old.flush()
    assert sent.failure.error == Error.INVALID_PRODUCER_EPOCH
    with pytest.raises(KafkaError):
        old.commit_transaction()
    with pytest.raises(ProducerFencedError):
        old.abort_transaction()
    assert "zombie" not in pipe.read(pipe.reader("read_uncommitted"))


def test_a_consumer_that_has_lost_its_partitions_cannot_send_their_offsets(pipe):
    consumer, producer = pipe.consumer(**{"max.poll.interval.ms": 10_000}), pipe.producer()
    metadata = consumer.group_metadata()
    pipe.consumer("other")
    pipe.cluster.schedule.run_until(pipe.cluster.now_ms + 60_000)
    begun(pipe, producer)
    with pytest.raises(CommitFailedError):
        producer.send_offsets_to_transaction({("in", 0): 7}, metadata)
    with pytest.raises(KafkaError):
        producer.commit_transaction()
    producer.abort_transaction()
    begun(pipe, producer, "next")
    producer.commit_transaction()
    assert pipe.read() == ["next"]
    assert pipe.committed() == -1


def test_an_old_epoch_of_a_member_cannot_send_offsets():
    pipe = Pipe(CONFIGS[1])
    consumer = pipe.consumer(**{"group.protocol": "consumer"})
    metadata = consumer.group_metadata()
    producer = pipe.producer()
    for epoch, outcome in ((metadata.generation_id, None), (0, CommitFailedError)):
        begun(pipe, producer)
        offsets, group = {("in", 0): 7}, metadata._replace(generation_id=epoch)
        if outcome is None:
            producer.send_offsets_to_transaction(offsets, group)
            producer.commit_transaction()
        else:
            with pytest.raises(outcome):
                producer.send_offsets_to_transaction(offsets, group)
            producer.abort_transaction()


def test_without_the_member_the_offsets_of_a_zombie_are_accepted(pipe):
    # KIP-447: a group of generation -1 is not checked; that is "exactly once without fencing"
    consumer, producer = pipe.consumer(), pipe.producer()
    unknown = consumer.group_metadata()._replace(generation_id=-1, member_id="")
    begun(pipe, producer)
    producer.send_offsets_to_transaction({("in", 0): 7}, unknown)
    producer.commit_transaction()
    assert pipe.committed() == 7


def test_a_transaction_that_takes_too_long_is_aborted_and_its_producer_fenced(pipe):
    producer = pipe.producer(**{"transaction.timeout.ms": 15_000})
    begun(pipe, producer)
    started_ms = pipe.cluster.now_ms
    pipe.cluster.schedule.run_until(started_ms + 14_000)
    log = pipe.cluster.topics["out"].logs[0]
    assert log.last_stable_offset(pipe.cluster.now_ms) == 0
    pipe.cluster.schedule.run_until(started_ms + 25_000)
    assert log.last_stable_offset(pipe.cluster.now_ms) == 2  # the record and the marker
    assert pipe.read() == []
    with pytest.raises(ProducerFencedError):
        producer.commit_transaction()


@pytest.mark.parametrize("op", ["add_partitions_to_txn", "produce", "add_offsets_to_txn",
                                "txn_offset_commit", "end_txn", "init_producer_id"])  # fmt: skip
@pytest.mark.parametrize("fault", ["lose_request", "lose_response"])
def test_a_lost_request_or_response_is_repeated_and_counts_once(pipe, op, fault):
    consumer = pipe.consumer()
    producer = Producer(pipe.cluster, {"transactional.id": "t"})
    getattr(pipe.cluster.network, fault)("t", op)
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("out", "x")
    producer.send_offsets_to_transaction({("in", 0): 7}, consumer.group_metadata())
    producer.commit_transaction()
    assert pipe.read() == ["x"]
    assert pipe.committed() == 7
    assert pipe.read(pipe.reader("read_uncommitted")) == ["x"]


def test_a_call_that_has_timed_out_goes_on_when_it_is_repeated(pipe):
    producer = pipe.producer(**{"max.block.ms": 1000})
    begun(pipe, producer)
    pipe.cluster.network.cut("t")
    with pytest.raises(KafkaTimeoutError):
        producer.commit_transaction()
    pipe.cluster.network.heal("t")
    producer.commit_transaction()
    assert pipe.read() == ["x"]
    begun(pipe, producer)


def test_records_that_are_not_written_in_time_fail_and_so_does_the_transaction(pipe):
    producer = pipe.producer(**{"delivery.timeout.ms": 5000})
    pipe.cluster.network.fail("t", "produce", Error.NOT_ENOUGH_REPLICAS, times=1000)
    producer.begin_transaction()
    sent = producer.send("out", "late")
    began_ms = pipe.cluster.now_ms
    producer.flush()
    assert pipe.cluster.now_ms - began_ms == 5000
    assert isinstance(sent.failure, KafkaTimeoutError)
    with pytest.raises(KafkaError):
        producer.commit_transaction()
    producer.abort_transaction()
    pipe.cluster.network.host("t").faults.clear()
    pipe.cluster.schedule.run_until(pipe.cluster.now_ms + 10_000)
    begun(pipe, producer, "next")
    producer.commit_transaction()
    assert pipe.read(pipe.reader("read_uncommitted")) == ["next"]


def test_a_crash_leaves_the_transaction_open_until_the_next_producer_comes(pipe):
    process = Process(pipe.cluster.schedule, "crashing")
    producer = Producer(pipe.cluster, {"transactional.id": "t"}, process=process)
    producer.init_transactions()
    begun(pipe, producer, "lost")
    process.kill()
    other = pipe.producer("other")
    begun(pipe, other, "waits")
    other.commit_transaction()
    assert pipe.read() == []
    pipe.producer()
    assert pipe.read() == ["waits"]


def test_close_aborts_an_open_transaction(pipe):
    producer = pipe.producer()
    begun(pipe, producer)
    producer.close()
    assert pipe.read() == []
    assert pipe.cluster.topics["out"].logs[0].last_stable_offset(pipe.cluster.now_ms) == 2
    with pytest.raises(IllegalStateError):
        producer.begin_transaction()


def test_an_empty_transaction_sends_nothing(pipe):
    producer = pipe.producer()
    before_ms = pipe.cluster.now_ms
    producer.begin_transaction()
    producer.commit_transaction()
    producer.begin_transaction()
    producer.abort_transaction()
    assert pipe.cluster.now_ms == before_ms


@pytest.mark.parametrize("call", [
    lambda p: p.begin_transaction(),
    lambda p: p.send("out", "x"),
    lambda p: p.commit_transaction(),
    lambda p: p.abort_transaction(),
])  # fmt: skip
def test_calls_before_init_transactions_are_refused(pipe, call):
    with pytest.raises(IllegalStateError):
        call(Producer(pipe.cluster, {"transactional.id": "t"}))


def test_calls_in_the_wrong_state_are_refused(pipe):
    producer = pipe.producer()
    for call in (producer.init_transactions, producer.commit_transaction,
                 producer.abort_transaction, lambda: producer.send("out", "x")):  # fmt: skip
        with pytest.raises(IllegalStateError):
            call()
    producer.begin_transaction()
    with pytest.raises(IllegalStateError):
        producer.begin_transaction()


def test_a_producer_without_a_transactional_id_writes_in_order(pipe):
    producer, seen = Producer(pipe.cluster, {}), []
    for number in range(5):
        producer.send(
            "out", number, key="k", callback=lambda metadata, error: seen.append(metadata.offset)
        )
    producer.flush()
    assert seen == [0, 1, 2, 3, 4]
    assert pipe.read() == [0, 1, 2, 3, 4]
    with pytest.raises(IllegalStateError):
        producer.begin_transaction()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"transactionl.id": "t"}, "is no setting of a producer; did you mean 'transactional.id'"),
        ({"transaction.timeout.ms": 0}, "transaction.timeout.ms"),
        ({"transactional.id": ""}, "transactional.id must not be empty"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        Producer(Cluster({}), settings)
