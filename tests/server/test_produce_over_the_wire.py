"""Produce: which records are taken, and what each partition is answered; as a broker 3.9.1."""

import pytest

from support.server.asking import ask, frames_of, request
from support.server.playing import Server
from support.server.writing import batch, edited, log, of_producer, offsets, refusal

OK, CORRUPT, UNKNOWN_TOPIC, TOO_LARGE, INVALID_TOPIC, NOT_ENOUGH = 0, 2, 3, 10, 17, 19
INVALID_ACKS, INVALID_TIMESTAMP, INVALID_STATE, UNKNOWN_ID, NOT_MAPPED = 21, 32, 48, 100, 49
NO_TRANSACTION_ALLOWED, NO_ZSTD, INVALID_RECORD = 53, 76, 87
CONTROL, APPEND_TIME = 32, 8


@pytest.fixture
def server():
    made = Server({"transaction.state.log.num.partitions": 1})
    made.cluster.topics.create("t", 2)
    made.cluster.topics.create("u", 1)
    return made


def producing(*parts, acks=-1, transactional_id=None):
    """A Produce of (topic, partition, records)."""
    topics = {}
    for name, number, records in parts:
        topics.setdefault(name, []).append({"index": number, "records": records})
    data = [{"name": name, "partitionData": rows} for name, rows in topics.items()]
    return {"transactionalId": transactional_id, "acks": acks, "timeoutMs": 1000,
            "topicData": data}  # fmt: skip


def produced(server, *parts, version=9, client_id="tests", **fields):
    """(topic, partition) -> the row of the answer."""
    body = producing(*parts, **fields)
    told = ask(server.connect(), "Produce", version, body, client_id=client_id)
    return {
        (topic["name"], row["index"]): row
        for topic in told["responses"]
        for row in topic["partitionResponses"]
    }


def error_of(server, records, *, topic="t", number=0, **fields):
    (row,) = produced(server, (topic, number, records), **fields).values()
    return row["errorCode"], row.get("errorMessage")


def test_each_partition_is_answered_for_itself(server):
    server.cluster.topics.partition("t", 1).append_records([(1, b"k", b"v")] * 3)
    server.cluster.topics.partition("t", 1).delete_below(2)
    rows = produced(
        server,
        *[("t", number, batch(b"a", b"b")) for number in (0, 1, 2)],
        *[("u", 0, batch(b"c")), ("none", 0, batch(b"d"))],
    )
    found = {
        key: (row["errorCode"], row["baseOffset"], row["logAppendTimeMs"], row["logStartOffset"])
        for key, row in rows.items()
    }
    assert found == {
        ("t", 0): (OK, 0, -1, 0),
        ("t", 1): (OK, 3, -1, 2),
        ("t", 2): (UNKNOWN_TOPIC, -1, -1, -1),
        ("u", 0): (OK, 0, -1, 0),
        ("none", 0): (UNKNOWN_TOPIC, -1, -1, -1),
    }


def test_a_refused_batch_is_answered_with_its_records_and_the_start_of_the_log(server):
    server.cluster.topics.create("compacted", 1, {"cleanup.policy": "compact"})
    part = server.cluster.topics.partition("compacted", 0)
    part.append_records([(1, b"k", b"v")] * 5)
    part._start_at(2)
    reason = "Compacted topic cannot accept message without key in topic partition compacted-0"
    keyless = batch((b"k", b"v"), *[(None, b"v")] * 4)
    (row,) = produced(server, ("compacted", 0, keyless)).values()
    shown = ", ".join(f"RecordError(batchIndex={n}, message='{reason}')" for n in (1, 2, 3))
    assert row["errorMessage"] == (
        "One or more records have been rejected due to 4 record errors in total, and only showing "
        f"the first three errors at most: [{shown}]"
    )
    assert (row["errorCode"], row["baseOffset"], row["logStartOffset"]) == (INVALID_RECORD, -1, 2)
    errors = [(each["batchIndex"], each["batchIndexErrorMessage"]) for each in row["recordErrors"]]
    assert errors == [(n, reason) for n in (1, 2, 3, 4)]
    assert part.log_end_offset == 5


def test_times_out_of_range_are_told_with_the_range(server):
    config = {"message.timestamp.before.max.ms": "70", "message.timestamp.after.max.ms": "9"}
    server.cluster.topics.create("timed", 1, config)
    now_ms = server.cluster.now_ms
    (row,) = produced(server, ("timed", 0, batch(b"a", b"b", time_ms=now_ms + 9))).values()
    assert row["errorCode"] == INVALID_TIMESTAMP
    assert row["errorMessage"] == "One or more records have been rejected due to invalid timestamp"
    errors = [(each["batchIndex"], each["batchIndexErrorMessage"]) for each in row["recordErrors"]]
    reason = (
        f"Timestamp {now_ms + 10} of message with offset 1 is out of range. The timestamp should "
        f"be within [{now_ms - 70}, {now_ms + 9}]"
    )
    assert errors == [(1, reason)]


@pytest.mark.parametrize(
    ("acks", "error"), [(-2, INVALID_ACKS), (-1, OK), (1, OK), (2, INVALID_ACKS)]
)
def test_acknowledgements_of_all_or_of_the_leader_may_be_asked_for(server, acks, error):
    assert error_of(server, batch(b"v"), acks=acks) == (error, None)


@pytest.mark.parametrize(("records", "closes"), [(batch(b"v"), False), (batch(b"v")[:-1], True)])
def test_without_acknowledgements_only_a_failure_is_heard_of(server, records, closes):
    peer = server.connect()
    body = producing(("t", 0, batch(b"v")), ("t", 1, records), acks=0)
    peer.send(request("Produce", 9, body) + request("ApiVersions", 0, {}, correlation_id=8))
    assert peer.connection.closing is closes
    answered = [int.from_bytes(frame[:4], "big") for frame in frames_of(peer.take())]
    assert answered == ([] if closes else [8])
    said = "wants no acks and failed with INVALID_RECORD in partition 1 of 't'"
    assert (said in "".join(server.log_lines)) is closes


def test_topics_of_kafkas_own_take_records_of_its_admin_tool_only(server):
    server.cluster.topics.internal("__consumer_offsets")
    for client_id, error in (("tests", INVALID_TOPIC), ("__admin_client", OK)):
        found = error_of(server, batch(b"v"), topic="__consumer_offsets", client_id=client_id)
        assert found == (error, None)


@pytest.mark.parametrize(("version", "error"), [(3, NO_ZSTD), (6, NO_ZSTD), (7, OK)])
def test_zstd_is_taken_since_version_7(server, version, error):
    assert error_of(server, batch(b"v" * 99, codec=4), version=version)[0] == error
    assert error_of(server, batch(b"v" * 99, codec=3), version=version)[0] == OK


@pytest.mark.parametrize(
    ("records", "error"),
    [(batch(b"v") * 2, INVALID_RECORD), (b"", INVALID_RECORD), (batch(b"v"), OK),
     (batch(b"v") + batch(b"w")[:-1], OK)],
)  # fmt: skip
def test_each_partition_brings_one_batch(server, records, error):
    assert error_of(server, records)[0] == error


def test_a_batch_of_no_magic_refuses_the_request(server):
    broken = bytearray(batch(b"v"))
    broken[16] = 3
    rows = produced(server, ("t", 0, batch(b"v")), ("t", 1, bytes(broken)))
    assert {row["errorCode"] for row in rows.values()} == {CORRUPT}
    assert {row["errorMessage"] for row in rows.values()} == {
        "Invalid magic found in record: 3"
    }  # fmt: skip
    assert not server.cluster.topics.partition("t", 0).size


def transactional(producer_id=7, epoch=0):
    return of_producer(0, producer_id=producer_id, epoch=epoch, transactional=True)


def test_a_request_has_records_of_one_transaction_and_names_it(server):
    assert error_of(server, transactional()) == (NO_TRANSACTION_ALLOWED, None)
    parts = [("t", number, transactional(producer_id=7 + number)) for number in (0, 1)]
    rows = produced(server, *parts, transactional_id="x")
    assert {(row["errorCode"], row["errorMessage"]) for row in rows.values()} == {
        (NOT_MAPPED, "Transactional records contained more than one producer ID"),
    }  # fmt: skip


def test_a_partition_that_is_not_in_the_transaction_takes_no_records(server):
    peer = server.connect()
    unsure = "Unable to verify the partition has been added to the transaction. Underlying error: "
    assert error_of(server, transactional(), transactional_id="x") == (
        NOT_ENOUGH, f"{unsure}COORDINATOR_NOT_AVAILABLE",
    )  # fmt: skip
    ask(peer, "FindCoordinator", 3, {"key": "x", "keyType": 1})
    assert error_of(server, transactional(), transactional_id="x") == (NOT_MAPPED, None)
    body = {"transactionalId": "x", "transactionTimeoutMs": 60_000}
    producer_id = ask(peer, "InitProducerId", 4, body)["producerId"]
    records = transactional(producer_id)
    for version, error in (
        (10, (INVALID_STATE, "Partition was not added to the transaction")), (11, (120, None)),
    ):  # fmt: skip
        assert error_of(server, records, transactional_id="x", version=version) == error
    assert error_of(server, transactional(producer_id, 3), transactional_id="x") == (47, None)
    added = {"v3AndBelowTransactionalId": "x", "v3AndBelowProducerId": producer_id,
             "v3AndBelowProducerEpoch": 0,
             "v3AndBelowTopics": [{"name": "t", "partitions": [0]}]}  # fmt: skip
    ask(peer, "AddPartitionsToTxn", 3, added)
    assert error_of(server, records, transactional_id="x") == (OK, None)
    part = server.cluster.topics.partition("t", 0)
    assert offsets(part.data()) == [0]
    assert part.has_ongoing_transaction(producer_id)


def test_a_write_between_the_decision_and_the_markers_is_to_be_repeated():
    """Since version 12 with the coordinator's error, before with one of replicas.

    Source: ``maybeSendPartitionsToTransactionCoordinator`` of ReplicaManager in Kafka 4.
    """
    server = Server({"transaction.state.log.num.partitions": 1}, kafka="4.1")
    first, _ = server.cluster.topics.create("t", 2).partitions
    own = server.cluster.transactions
    own.ready()
    _, producer_id, epoch = own.init_producer_id("x", 60_000)
    own.add_partitions("x", producer_id, epoch, [("t", 0)])
    records, errors = transactional(producer_id), []

    def write():
        errors.extend(
            error_of(server, records, number=1, transactional_id="x", version=version)
            for version in (11, 12)
        )

    first.waiters["fetch"] = write
    own.end_txn("x", producer_id, epoch, committed=True)
    unsure = "Unable to verify the partition has been added to the transaction. Underlying error: "
    assert errors == [(NOT_ENOUGH, f"{unsure}CONCURRENT_TRANSACTIONS"), (51, None)]


def test_null_in_the_place_of_records_is_never_answered(server):
    peer = server.connect()
    peer.send(request("Produce", 9, producing(("t", 0, batch(b"v")), ("t", 1, None))))
    assert not peer.take()
    assert not peer.connection.closing
    assert not server.cluster.topics.partition("t", 0).size


@pytest.mark.parametrize(
    ("records", "settings", "wanted"),
    [
        (edited(batch(b"a"), 22, ">b", APPEND_TIME), {"append_time": True}, (32, True)),
        (edited(batch(b"a", time_ms=-1), 22, ">b", APPEND_TIME), {}, (32, True)),
        (edited(batch(b"a"), 22, ">b", CONTROL), {}, (87, True)),
        (edited(batch(b"a"), 23, ">i", -1), {}, (87, True)),
        (edited(batch(b"a"), 57, ">i", 0), {}, (87, True)),
        (batch(b"a")[:60], {}, (None, None)),
        (b"", {}, (None, None)),
        (batch(b"a", b"b") + batch(b"c"), {}, (87, True)),
    ],
)
def test_batches_that_brokers_alone_write_are_refused(records, settings, wanted):
    partition = log(**settings)
    if wanted == (None, None):  # nothing whole is there
        assert partition.produce(records) == (-1, -1, 0)
        assert not partition.size
    else:
        assert refusal(partition, records) == wanted
