"""What a broker 4.1 answers otherwise than 3.9: topic ids, epochs of transactions, features."""

import struct
from dataclasses import replace

import pytest

from coterie.coordinator.transaction import LAST_EPOCH
from coterie.errors import ConfigError
from coterie.messages import LogReader
from coterie.server import Broker
from support.commandline import fails
from support.server.asking import ask, commit, request
from support.server.playing import Server, server_of_kafka_4
from support.server.writing import batch, of_producer

NO_ID = "A" * 22
UNKNOWN_ID, FENCED, INVALID_STATE, OLD_FENCED, NOT_MAPPED = 100, 90, 48, 47, 49


@pytest.fixture
def server():
    return server_of_kafka_4()


@pytest.fixture
def peer(server):
    return server.connect()


def partition_of(topic_id, records, number=0):
    return [{"topicId": topic_id, "partitionData": [{"index": number, "records": records}]}]


def produce(peer, topic_id, records, version=13, transactional_id=None, number=0):
    topics = partition_of(topic_id, records, number)
    if version < 13:
        topics[0]["name"] = "t"
    body = {"transactionalId": transactional_id, "acks": -1, "topicData": topics}
    (topic,) = ask(peer, "Produce", version, body)["responses"]
    (row,) = topic["partitionResponses"]
    return topic, row["errorCode"]


def test_produce_13_names_topics_by_their_ids(server, peer):
    topic_id = server.cluster.topics.get("t").topic_id
    topic, error = produce(peer, topic_id, batch(b"v"))
    assert (topic["topicId"], error) == (topic_id, 0)
    assert produce(peer, topic_id, batch(b"v"), number=9)[1] == 3
    assert produce(peer, NO_ID, batch(b"v"))[1] == UNKNOWN_ID
    assert produce(peer, "B" * 21 + "A", batch(b"v"))[1] == UNKNOWN_ID


@pytest.mark.parametrize(("api", "version"), [("Produce", 2), ("Fetch", 3), ("OffsetCommit", 1)])
def test_versions_that_kafka_4_has_dropped_close_the_connection(server, peer, api, version):
    peer.send(request(api, version, {}))
    assert peer.connection.closing
    assert f"{api} {version}, which is served from" in "".join(server.log_lines)


def test_groups_may_be_unknown_since_describe_groups_6(peer):
    for version, error, message in ((5, 0, None), (6, 69, "Group no not found.")):
        (group,) = ask(peer, "DescribeGroups", version, {"groups": ["no"]})["groups"]
        assert (group["errorCode"], group["groupState"]) == (error, "Dead")
        assert group.get("errorMessage") == message


# Transactions


class Producing:
    """A producer with a transactional id."""

    def __init__(self, server):
        self.server, self.peer = server, server.connect()
        for key, key_type in (("x", 1), ("g", 0)):
            ask(self.peer, "FindCoordinator", 3, {"key": key, "keyType": key_type})
        self.id, self.epoch = self.init()

    def init(self, **fields):
        body = {"transactionalId": "x", "transactionTimeoutMs": 60_000, **fields}
        found = ask(self.peer, "InitProducerId", 5, body)
        assert found["errorCode"] in (0, 51)
        return found["producerId"], found["producerEpoch"]

    def produce(self, epoch, sequence=0, version=12, number=0):
        records = of_producer(sequence, producer_id=self.id, epoch=epoch, transactional=True)
        return produce(self.peer, None, records, version, "x", number)[1]

    def end(self, epoch, committed=True, version=5, producer_id=None):
        body = {"transactionalId": "x", "producerId": producer_id or self.id}
        found = ask(
            self.peer, "EndTxn", version, {**body, "producerEpoch": epoch, "committed": committed}
        )
        return found["errorCode"], found.get("producerId"), found.get("producerEpoch")

    def commit(self, epoch, version=5):
        body = commit("g", "t", {0: 5}) | {"transactionalId": "x", "producerId": self.id}
        found = ask(self.peer, "TxnOffsetCommit", version, {**body, "producerEpoch": epoch})
        return found["topics"][0]["partitions"][0]["errorCode"]

    def state(self):
        return self.server.cluster.transactions.transaction("x")

    def markers(self, number=0):
        """The epochs of the markers in a partition."""
        data = self.server.cluster.topics.partition("t", number).data()
        return [each.producer_epoch for each in LogReader(data) if each.is_control]


@pytest.fixture
def producing(server):
    return Producing(server)


def test_produce_12_adds_its_partition_to_the_transaction(producing):
    assert producing.produce(0, version=11) == 120  # TRANSACTION_ABORTABLE: it was not added
    assert producing.produce(0) == 0
    assert producing.state().partitions == {("t", 0)}
    assert producing.produce(0, number=1) == 0
    assert producing.state().partitions == {("t", 0), ("t", 1)}
    assert producing.state().client_version == 2


def test_the_end_of_a_transaction_raises_the_epoch_and_the_markers_have_it(producing):
    producing.produce(0)
    assert producing.end(0) == (0, producing.id, 1)
    assert producing.markers() == [1]
    assert producing.produce(0, sequence=1) == OLD_FENCED
    assert producing.produce(1) == 0  # a new epoch begins at sequence 0
    assert producing.end(1, committed=False) == (0, producing.id, 2)
    assert producing.markers() == [1, 2]


def test_an_end_that_is_repeated_is_answered_as_the_first_time(producing):
    producing.produce(0)
    assert [producing.end(0) for _ in range(3)] == [(0, producing.id, 1)] * 3
    assert producing.end(0, committed=False) == (INVALID_STATE, -1, -1)


def test_an_abort_without_a_transaction_raises_the_epoch_and_a_commit_is_refused(producing):
    assert producing.end(0) == (INVALID_STATE, -1, -1)
    assert producing.end(0, committed=False) == (0, producing.id, 1)
    assert producing.end(1, committed=False) == (0, producing.id, 2)
    assert producing.end(2) == (INVALID_STATE, -1, -1)


def test_an_end_of_another_epoch_or_producer_is_refused(producing):
    producing.produce(0)
    assert producing.end(3) == (FENCED, -1, -1)
    assert producing.end(0, producer_id=77) == (NOT_MAPPED, -1, -1)
    assert producing.end(0, version=4)[0] == 0  # a client that does not know of epochs
    assert producing.state().producer_epoch == 0


def test_when_the_epochs_are_exhausted_the_end_gives_a_new_producer_id(producing):
    transactions = producing.server.cluster.transactions
    transactions._store(replace(producing.state(), producer_epoch=LAST_EPOCH))
    assert producing.produce(LAST_EPOCH) == 0
    error, producer_id, epoch = producing.end(LAST_EPOCH)
    assert (error, epoch) == (0, 0)
    assert producer_id != producing.id
    assert producing.markers() == [LAST_EPOCH + 1]
    assert producing.end(LAST_EPOCH) == (0, producer_id, 0)  # the response was lost
    of_nobody = producing.end(LAST_EPOCH, producer_id=producer_id + 9)
    assert of_nobody == (NOT_MAPPED, -1, -1)


def test_a_transaction_that_is_fenced_goes_on_with_the_epoch_after_that(producing):
    producing.produce(0)
    assert producing.init() == (-1, -1)  # CONCURRENT_TRANSACTIONS: it is aborted
    assert producing.markers() == [1]
    assert producing.init() == (producing.id, 2)


def test_a_producer_of_the_epoch_before_may_ask_for_its_id_again(producing):
    producing.produce(0)
    producing.end(0)
    assert producing.init(producerId=producing.id, producerEpoch=0) == (producing.id, 1)


def test_a_late_transaction_is_aborted_with_the_next_epoch(producing):
    producing.produce(0)
    producing.server.run(70_000)
    assert producing.markers() == [1]
    assert producing.end(0) == (INVALID_STATE, -1, -1)  # as a repeated commit of an abort


def test_txn_offset_commit_5_adds_the_group_and_checks_the_epoch_of_the_transaction(producing):
    assert producing.commit(0, version=4) == 120
    assert producing.commit(0) == 0
    assert producing.commit(1) == OLD_FENCED
    assert producing.commit(1, version=4) == OLD_FENCED
    assert producing.end(0) == (0, producing.id, 1)
    (group,) = ask(
        producing.peer, "OffsetFetch", 9, {"groups": [{"groupId": "g", "topics": None}]}
    )["groups"]
    assert group["topics"][0]["partitions"][0]["committedOffset"] == 5


def test_the_log_of_transactions_is_of_version_1(producing):
    topic = producing.server.cluster.topics.get("__transaction_state")
    values = [
        record.value
        for log in topic.partitions
        for each in LogReader(log.data())
        for record in each.records
    ]
    assert {struct.unpack_from(">h", value)[0] for value in values} == {1}


def test_transactions_are_loaded_with_their_epoch(producing):
    producing.produce(0)
    producing.server.cluster.transactions.load()
    assert producing.end(0) == (0, producing.id, 1)


def test_transactions_are_listed_by_a_pattern_of_their_ids(producing):
    pytest.importorskip("re2", reason="the extra regex is not installed")
    for pattern, expected in ((None, ["x"]), ("", ["x"]), ("[w-y]", ["x"]), ("xx*y", [])):
        found = ask(producing.peer, "ListTransactions", 2, {"transactionalIdPattern": pattern})
        assert [row["transactionalId"] for row in found["transactionStates"]] == expected
    found = ask(producing.peer, "ListTransactions", 2, {"transactionalIdPattern": "("})
    assert found["errorCode"] == 128


@pytest.mark.parametrize("version", [1, 5, 8])
def test_offset_fetch_answers_each_requested_topic(peer, version):
    topics = [
        {"name": "t", "partitionIndexes": []},
        {"name": "nope", "partitionIndexes": [1, 1]},
        {"name": "t", "partitionIndexes": [0]},
    ]
    body = {"groups": [{"groupId": "g", "topics": topics}], "groupId": "g", "topics": topics}
    found = ask(peer, "OffsetFetch", version, body)
    found = found["groups"][0] if version == 8 else found
    assert [
        (row["name"], [each["partitionIndex"] for each in row["partitions"]])
        for row in found["topics"]
    ] == [("t", []), ("nope", [1, 1]), ("t", [0])]


def test_list_offsets_leaves_out_topics_without_partitions(peer):
    partition = {"partitionIndex": 0, "timestamp": -1}
    topics = [{"name": "nope", "partitions": []}, {"name": "t", "partitions": [partition] * 2}]
    found = ask(peer, "ListOffsets", 7, {"replicaId": -1, "topics": topics})["topics"]
    assert [(row["name"], [each["errorCode"] for each in row["partitions"]]) for row in found] == [
        ("t", [42])
    ]


def test_a_record_of_more_than_an_hour_ahead_is_refused(server, peer):
    topic_id = server.cluster.topics.get("t").topic_id
    latest_ms = server.cluster.now_ms + 3_600_000
    for time_ms, error in ((latest_ms, 0), (latest_ms + 1, 32)):  # INVALID_TIMESTAMP
        assert produce(peer, topic_id, batch(b"v", time_ms=time_ms))[1] == error


def test_features_of_kafka_4_are_on_in_a_new_cluster(peer):
    body = {"clientSoftwareName": "tests", "clientSoftwareVersion": "1"}
    found = ask(peer, "ApiVersions", 4, body)
    supported = {row["name"]: (row["minVersion"], row["maxVersion"])
                 for row in found["supportedFeatures"]}  # fmt: skip
    assert supported == {  # QuorumFeatures.defaultSupportedFeatureMap of 4.1.1
        "group.version": (0, 1),
        "transaction.version": (0, 2),
        "eligible.leader.replicas.version": (0, 1),
        "kraft.version": (0, 1),
        "metadata.version": (7, 27),
        "share.version": (0, 1),
    }


@pytest.mark.parametrize(("level", "value_version"), [(0, 0), (1, 1), (2, 1)])
def test_the_transaction_log_is_flexible_since_transaction_version_1(server, level, value_version):
    row = {"feature": "transaction.version", "maxVersionLevel": level, "upgradeType": 2}
    ask(server.connect(), "UpdateFeatures", 1, {"featureUpdates": [row]})
    Producing(server)
    logs = server.cluster.topics.get("__transaction_state").partitions
    records = [each for log in logs for batch in LogReader(log.data()) for each in batch.records]
    assert [int.from_bytes(each.value[:2], "big") for each in records] == [value_version]


@pytest.mark.parametrize(("level", "error"), [(22, 95), (23, 0), (24, 0)])
def test_the_format_of_the_metadata_changed_last_with_level_23(peer, level, error):
    # MetadataVersion.IBP_4_0_IV1, didMetadataChange
    row = {"feature": "metadata.version", "maxVersionLevel": level, "upgradeType": 2}
    assert ask(peer, "UpdateFeatures", 2, {"featureUpdates": [row]})["errorCode"] == error


def test_one_refused_update_of_a_feature_fails_all(peer):
    rows = [
        {"feature": "kraft.version", "maxVersionLevel": 1, "upgradeType": 1},
        {"feature": "metadata.version", "maxVersionLevel": 99, "upgradeType": 1},
    ]
    found = ask(peer, "UpdateFeatures", 2, {"featureUpdates": rows})
    assert (found["errorCode"], found["errorMessage"]) == (
        95,
        "The update failed for all features since the following feature had an error: Invalid "
        "update version 99 for feature metadata.version. Local controller 1 only supports "
        "versions 7-27",
    )
    levels = ask(peer, "ApiVersions", 4, {"clientSoftwareName": "t", "clientSoftwareVersion": "1"})
    assert "kraft.version" not in {row["name"] for row in levels["finalizedFeatures"]}


@pytest.mark.parametrize(
    ("key", "error"),
    [("g:AAAAAAAAAAAAAAAAAAAAAA:0", 15), ("g", 42), ("", 42), (":AAAAAAAAAAAAAAAAAAAAAA:0", 42)],
)
def test_a_share_coordinator_is_found_by_keys_of_partitions_only(peer, key, error):
    body = {"keyType": 2, "coordinatorKeys": [key]}
    (found,) = ask(peer, "FindCoordinator", 6, body)["coordinators"]
    assert found["errorCode"] == error


def test_share_groups_are_off(peer):
    body = {"groupId": "s", "memberId": "m", "memberEpoch": 0}
    assert ask(peer, "ShareGroupHeartbeat", 1, body)["errorCode"] == 35
    (group,) = ask(peer, "ShareGroupDescribe", 1, {"groupIds": ["s"]})["groups"]
    assert (group["groupId"], group["errorCode"]) == ("s", 35)


# The options


def test_a_behaviour_of_the_coordinator_has_to_fit_the_release():
    for kafka, behaviour in (("3.9", "4.1"), ("4.1", "3.9")):
        with pytest.raises(ConfigError, match=f"behaviour {behaviour} does not fit a server of"):
            Server({"coterie.behaviour": behaviour}, kafka=kafka)
    assert Server({"coterie.behaviour": "4.2"}, kafka="4.1").cluster.groups.replays


def test_the_command_takes_each_release_and_a_behaviour_that_fits_it():
    for kafka, other in (("3.9", "4.1"), ("4.1", "3.9"), ("4.4", "4.2")):
        texts = ("serve", "--kafka", kafka, "--set", f"coterie.behaviour={other}")
        says = f"coterie.behaviour {other} does not fit a server of Kafka {kafka}"
        fails(*texts, status=2, says=says)


def test_a_broker_of_another_release_is_refused():
    with pytest.raises(ValueError, match=r"kafka must be '3\.9', '4\.1' or '4\.4', not '4\.2'"):
        Broker(kafka="4.2")


def test_the_command_refuses_other_releases():
    says = "'3.8' is not one of '3.9', '4.1', '4.4'"
    fails("serve", "--kafka", "3.8", status=2, says=says)
