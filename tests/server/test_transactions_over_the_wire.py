"""The APIs of transactions: what each version says, and to whom."""

import pytest

from coterie.messages import LogReader
from coterie.server import Broker
from support.server import asking, playing, sockets

FENCED, OLD_FENCED, UNKNOWN, NOT_ATTEMPTED = 90, 47, 3, 55


class Producing:
    """A server with a topic of two partitions, and a producer that has begun."""

    def __init__(self):
        self.server = playing.Server(playing.BROKER)
        self.peer = self.server.connect()
        self.server.cluster.topics.create("t", 2)
        for key, key_type in (("x", 1), ("g", 0)):
            self.ask("FindCoordinator", 3, {"key": key, "keyType": key_type})
        self.producer_id = self.init(4)["producerId"]

    def ask(self, api, version, body):
        return asking.ask(self.peer, api, version, body)

    def init(self, version, **more):
        body = {"transactionalId": "x", "transactionTimeoutMs": 60_000, **more}
        return self.ask("InitProducerId", version, body)

    def producer(self, epoch=0):
        return {"transactionalId": "x", "producerId": self.producer_id, "producerEpoch": epoch}

    def add(self, version, topics, epoch=0):
        names = {f"v3AndBelow{k[0].upper()}{k[1:]}": v for k, v in self.producer(epoch).items()}
        listed = [{"name": name, "partitions": numbers} for name, numbers in topics.items()]
        response = self.ask("AddPartitionsToTxn", version, {**names, "v3AndBelowTopics": listed})
        return by_partition(response["resultsByTopicV3AndBelow"])

    def add_several(self, version, *transactions):
        response = self.ask("AddPartitionsToTxn", version, {"transactions": transactions})
        assert response["errorCode"] == 0
        return [
            (each["transactionalId"], by_partition(each["topicResults"]))
            for each in response["resultsByTransaction"]
        ]

    def commit(self, version, epoch=0):
        partitions = [{"partitionIndex": 0, "committedOffset": 1, "committedMetadata": ""}]
        body = {"groupId": "g", "topics": [{"name": "t", "partitions": partitions}]}
        response = self.ask("TxnOffsetCommit", version, {**self.producer(epoch), **body})
        return response["topics"][0]["partitions"][0]["errorCode"]


def by_partition(topics, of_topic="resultsByPartition", code="partitionErrorCode"):
    return {
        (topic["name"], each["partitionIndex"]): each[code]
        for topic in topics
        for each in topic[of_topic]
    }


@pytest.mark.parametrize(("version", "error"), [(0, OLD_FENCED), (1, OLD_FENCED), (2, FENCED)])
def test_clients_that_are_fenced_hear_what_they_know(version, error):
    it = Producing()
    it.init(4)
    assert it.add(version, {"t": [0]}) == {("t", 0): error}
    response = it.ask("AddOffsetsToTxn", version, {**it.producer(), "groupId": "g"})
    assert response["errorCode"] == error
    response = it.ask("EndTxn", version, {**it.producer(), "committed": True})
    assert response["errorCode"] == error


@pytest.mark.parametrize(("version", "error"), [(3, OLD_FENCED), (4, FENCED), (5, FENCED)])
def test_a_producer_that_may_not_go_on_hears_what_it_knows(version, error):
    it = Producing()
    it.init(4)
    it.init(4)
    response = it.init(version, producerId=it.producer_id, producerEpoch=0)
    assert (response["errorCode"], response["producerId"], response["producerEpoch"]) == (
        error,
        -1,
        -1,
    )


@pytest.mark.parametrize("half", [{"producerId": 1}, {"producerEpoch": 1}])
def test_half_a_producer_is_no_request(half):
    response = Producing().init(4, **half)
    assert (response["errorCode"], response["producerId"], response["producerEpoch"]) == (
        42,
        -1,
        -1,
    )


def test_partitions_come_in_together_or_not_at_all():
    it = Producing()
    assert it.add(3, {"t": [0, 7], "none": [0]}) == {
        ("t", 0): NOT_ATTEMPTED,
        ("t", 7): UNKNOWN,
        ("none", 0): UNKNOWN,
    }
    assert it.ask("EndTxn", 3, {**it.producer(), "committed": True})["errorCode"] == 48
    assert it.add(3, {"t": [0, 1]}) == {("t", 0): 0, ("t", 1): 0}


def test_brokers_add_and_verify_several_transactions_at_once():
    it = Producing()
    topics = [{"name": "t", "partitions": [0]}]
    both = [{"name": "t", "partitions": [0, 1]}]
    other = {**it.producer(), "transactionalId": "y", "topics": topics}
    assert it.add_several(4, {**it.producer(), "topics": topics}, other) == [
        ("x", {("t", 0): 0}),
        ("y", {("t", 0): 49}),
    ]
    asked = {**it.producer(), "topics": both, "verifyOnly": True}
    assert it.add_several(5, asked) == [("x", {("t", 0): 0, ("t", 1): 120})]


def test_brokers_that_add_nothing_are_never_answered():
    it = Producing()
    it.peer.send(asking.request("AddPartitionsToTxn", 4, {"transactions": []}))
    it.peer.silent(60)


@pytest.mark.parametrize(("version", "error"), [(3, 48), (4, 120)])
def test_offsets_are_refused_until_the_group_is_in(version, error):
    it = Producing()
    assert it.commit(version) == error
    it.ask("AddOffsetsToTxn", 3, {**it.producer(), "groupId": "g"})
    assert it.commit(version, epoch=1) == 47
    assert it.commit(version) == 0


def test_once_offsets_are_there_a_higher_epoch_is_taken():  # as Kafka 3.9.1 does; 4.1.1 answers 47
    it = Producing()
    it.ask("AddOffsetsToTxn", 3, {**it.producer(), "groupId": "g"})
    it.commit(3)
    assert it.commit(3, epoch=1) == 0


def test_offsets_are_committed_again_in_a_transaction_but_not_by_an_older_epoch():
    it = Producing()
    it.ask("AddOffsetsToTxn", 3, {**it.producer(), "groupId": "g"})
    assert [it.commit(3, epoch) for epoch in (0, 0, 1, 1, 0)] == [0, 0, 0, 0, OLD_FENCED]


def test_markers_are_written_where_they_can_be():
    it = Producing()
    topics = [{"name": "t", "partitionIndexes": [1, 9]}, {"name": "no", "partitionIndexes": [0]}]
    marker = {"producerId": 7, "producerEpoch": 2, "coordinatorEpoch": 3, "transactionResult": True}
    response = it.ask("WriteTxnMarkers", 1, {"markers": [{**marker, "topics": topics}]})
    (own,) = response["markers"]
    assert own["producerId"] == 7
    assert by_partition(own["topics"], "partitions", "errorCode") == {
        ("t", 1): 0,
        ("t", 9): UNKNOWN,
        ("no", 0): UNKNOWN,
    }
    (batch,) = LogReader(it.server.cluster.topics.partition("t", 1).data())
    assert (batch.is_control, batch.producer_id, batch.producer_epoch) == (True, 7, 2)
    assert it.ask("WriteTxnMarkers", 0, {"markers": []}) == {"markers": []}


def test_a_marker_has_the_time_at_which_it_is_written():
    it = Producing()
    it.server.run(2500)
    topics = [{"name": "t", "partitionIndexes": [1]}]
    marker = {"producerId": 7, "producerEpoch": 2, "coordinatorEpoch": 3, "transactionResult": True}
    it.ask("WriteTxnMarkers", 1, {"markers": [{**marker, "topics": topics}]})
    (batch,) = LogReader(it.server.cluster.topics.partition("t", 1).data())
    assert batch.is_control
    assert [record.timestamp for record in batch.records] == [playing.START_MS + 2500]


def test_a_marker_of_no_producer_is_refused():
    it = Producing()
    topics = [{"name": "t", "partitionIndexes": [0]}]
    marker = {"producerId": -1, "producerEpoch": 0, "coordinatorEpoch": 0}
    body = {"markers": [{**marker, "transactionResult": True, "topics": topics}]}
    response = it.ask("WriteTxnMarkers", 1, body)["markers"][0]["topics"]
    assert by_partition(response, "partitions", "errorCode") == {("t", 0): -1}
    assert not it.server.cluster.topics.partition("t", 0).data()


def test_a_marker_of_a_group_lets_its_offsets_show():
    it = Producing()
    it.ask("AddOffsetsToTxn", 3, {**it.producer(), "groupId": "g"})
    it.commit(3)
    number = it.server.cluster.groups.partition_for("g")
    topics = [{"name": "__consumer_offsets", "partitionIndexes": [number]}]
    marker = {"producerId": it.producer_id, "producerEpoch": 0, "coordinatorEpoch": 0}
    body = {"markers": [{**marker, "transactionResult": True, "topics": topics}]}
    response = it.ask("WriteTxnMarkers", 0, body)["markers"][0]["topics"]
    assert by_partition(response, "partitions", "errorCode") == {("__consumer_offsets", number): 0}
    groups = [{"groupId": "g", "topics": None}]
    found = it.ask("OffsetFetch", 8, {"groups": groups, "requireStable": True})
    assert found["groups"][0]["topics"][0]["partitions"][0]["committedOffset"] == 1


def test_what_is_written_for_a_group_has_its_time_and_its_producer():
    it, times_ms = Producing(), []
    it.ask("AddOffsetsToTxn", 3, {**it.producer(), "groupId": "g"})

    def after(ms):
        it.server.run(ms)
        times_ms.append(it.server.cluster.now_ms)

    after(70)
    it.ask("OffsetCommit", 7, asking.commit("g", "t", {1: 5}))
    after(8)
    it.commit(3)
    after(9)
    it.ask("EndTxn", 3, {**it.producer(), "committed": True})
    number = it.server.cluster.groups.partition_for("g")
    log = it.server.cluster.topics.partition("__consumer_offsets", number)
    written = [
        (batch.is_control, batch.is_transactional, batch.producer_id, batch.producer_epoch,
         [record.timestamp for record in batch.records])
        for batch in LogReader(log.data())
    ]  # fmt: skip
    assert written == [
        (False, False, -1, -1, times_ms[:1]),
        (False, True, it.producer_id, 0, times_ms[1:2]),
        (True, True, it.producer_id, 0, times_ms[2:]),
    ]


def test_a_group_whose_topic_does_not_exist_needs_no_marker():
    server = playing.Server(playing.BROKER)
    peer = server.connect()
    asking.ask(peer, "FindCoordinator", 3, {"key": "x", "keyType": 1})
    body = {"transactionalId": "x", "transactionTimeoutMs": 60_000}
    made = asking.ask(peer, "InitProducerId", 4, body)
    producer = {"transactionalId": "x", "producerId": made["producerId"], "producerEpoch": 0}
    assert asking.ask(peer, "AddOffsetsToTxn", 3, {**producer, "groupId": "g"})["errorCode"] == 0
    for _ in range(2):
        response = asking.ask(peer, "EndTxn", 3, {**producer, "committed": True})
        assert response["errorCode"] == 0


def test_a_broker_that_was_killed_goes_on_with_its_transactions():
    with Broker(playing.BROKER, topics={"t": 1}) as broker:
        sockets.ask(sockets.connect(broker), "FindCoordinator", 3, {"key": "x", "keyType": 1})
        body = {"transactionalId": "x", "transactionTimeoutMs": 60_000}
        made = sockets.ask(sockets.connect(broker), "InitProducerId", 4, body)
        producer = {"producerId": made["producerId"], "producerEpoch": 0, "transactionalId": "x"}
        broker.kill(1)
        broker.start(1)
        peer = sockets.connect(broker)
        assert sockets.ask(peer, "InitProducerId", 4, {**body, **producer})["producerEpoch"] == 1
        response = sockets.ask(peer, "EndTxn", 3, {**producer, "committed": True})
        assert response["errorCode"] == FENCED


@pytest.mark.parametrize("version", range(5))
def test_a_commit_for_an_empty_group_id_outside_of_a_transaction_names_the_group(version):
    it = Producing()
    partitions = [{"partitionIndex": 0, "committedOffset": 1, "committedMetadata": None}]
    body = {"groupId": "", "topics": [{"name": "t", "partitions": partitions}]}
    found = it.ask("TxnOffsetCommit", version, {**it.producer(), **body})
    assert found["topics"][0]["partitions"][0]["errorCode"] == 24  # INVALID_GROUP_ID
