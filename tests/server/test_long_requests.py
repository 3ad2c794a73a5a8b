"""Long requests are handled in slices: others are answered between them, and no byte differs."""

import gc
import subprocess
import sys
import threading
import weakref

import pytest

from coterie import wire
from coterie._core.codec.batch import encode_batch
from coterie.server import Broker
from coterie.server.api.rows_in_slices import SLICE_ENTRIES, Pace
from coterie.server.api.table import SERVED
from coterie.server.net.listener import Peer
from support.patience import HANG_S
from support.server import sockets
from support.server.asking import KEY, ask, commit, correlation_ids, frames_of, request
from support.server.playing import Server

MANY, TOPICS, GROUPS, PARTITIONS = 400, 300, 300, 2500
VERSIONS = request("ApiVersions", 0, {}, correlation_id=7)
NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
NAMES = [f"have-{n}" for n in range(TOPICS)] + [f"unknown-{n}" for n in range(MANY)]
ALL = range(PARTITIONS + 10)  # of the topic wide, and some that it has not
TRANSACTION = {"transactionalId": "id", "producerId": 0, "producerEpoch": 0}
# APIs without a list in a request or a response, and those whose lists go to the core in one step.
SHORT = {
    "Heartbeat", "JoinGroup", "SyncGroup", "SaslHandshake", "SaslAuthenticate", "ApiVersions",
    "InitProducerId", "AddOffsetsToTxn", "EndTxn", "DescribeAcls", "DescribeClientQuotas",
    "DescribeCluster", "ListPartitionReassignments", "ListClientMetricsResources",
    "ConsumerGroupHeartbeat",
}  # fmt: skip


def creating(count):
    topics = [
        {"name": f"t{n}", "numPartitions": 1 + n % 3, "replicationFactor": 1} for n in range(count)
    ]
    return {"timeoutMs": 1000, "topics": topics}


def in_topics(topic, fields, *, name="name", partitions="partitions"):
    """Entries for partitions of many topics, and for many partitions of one."""
    many = [{name: topic_name, partitions: [fields(0), fields(1)]} for topic_name in NAMES]
    return {topic: [*many, {name: "wide", partitions: [fields(number) for number in ALL]}]}


def resources(configs=None):
    more = {"configurationKeys": None} if configs is None else {"configs": configs}
    rows = [{"resourceType": 2, "resourceName": name, **more} for name in [*NAMES, NAMES[-1]]]
    return {"resources": rows, "includeSynonyms": True, "validateOnly": False}


def committing(*, txn=False):
    body = in_topics("topics", lambda number: {
        "partitionIndex": number, "committedOffset": number, "committedMetadata": ""})  # fmt: skip
    group = {"groupId": "big", "memberId": "", "generationIdOrMemberEpoch": -1}
    return {**body, **group, **({**TRANSACTION, "generationId": -1} if txn else {})}


def fetching():
    body = in_topics("topics", lambda number: {
        "partition": number, "fetchOffset": 0, "partitionMaxBytes": 100},
        name="topic")  # fmt: skip
    return {**body, "replicaId": -1, "maxWaitMs": 0, "minBytes": 1, "maxBytes": 10_000}


def producing():
    batch = encode_batch([(0, 0, None, b"value")])
    body = in_topics("topicData", lambda number: {"index": number, "records": batch},
                     partitions="partitionData")  # fmt: skip
    return {**body, "transactionalId": None, "acks": -1, "timeoutMs": 1000}


def of_groups(count=GROUPS):
    return [f"group-{n}" for n in range(count)] + ["unknown"]


NUMBERS = in_topics("topics", lambda number: number, partitions="partitionIndexes")
MARKED = {"producerId": 9, "producerEpoch": 0, "transactionResult": True, "coordinatorEpoch": 0}
ACL = {"resourceType": 2, "resourceName": "x", "principal": "p", "host": "h", "operation": 1,
       "permissionType": 1}  # fmt: skip
FILTER = {"resourceTypeFilter": 2, "patternTypeFilter": 3, "operation": 1, "permissionType": 1}
UPSERTION = {"mechanism": 1, "iterations": 4096, "salt": b"s", "saltedPassword": b"p" * 32}
LONG = {  # API -> bodies, each with the versions that it is for
    "CreateTopics": [(creating(MANY), range(8))],
    "Metadata": [
        ({"topics": None}, range(1, 13)),
        ({"topics": [{"name": f"n{n}"} for n in range(MANY)],
          "includeTopicAuthorizedOperations": True,
          "includeClusterAuthorizedOperations": True}, range(8, 11)),
        ({"topics": [{"name": f"n{n}"} for n in range(MANY)]}, range(13)),
    ],
    "DeleteTopics": [
        ({"topicNames": [*NAMES, NAMES[1]]}, range(6)),
        ({"topics": [{"name": name, "topicId": NO_ID} for name in [*NAMES, NAMES[1]]]
          + [{"name": None, "topicId": NO_ID}]}, (6,)),
    ],
    "CreatePartitions": [({"topics": [{"name": name, "count": 9} for name in [*NAMES, "unknown-1"]],
                           "timeoutMs": 1000, "validateOnly": False}, range(4))],
    "DescribeConfigs": [(resources(), range(5))],
    "AlterConfigs": [(resources([{"name": "retention.ms", "value": "5"}] * 3), range(3))],
    "IncrementalAlterConfigs": [(resources([{"name": "retention.ms", "value": "5"}]), range(2))],
    "DeleteRecords": [
        (in_topics("topics", lambda number: {"partitionIndex": number, "offset": 0}), range(3))],
    "ListOffsets": [
        (in_topics("topics", lambda number: {"partitionIndex": number, "timestamp": -1}),
         range(10))],
    "OffsetForLeaderEpoch": [
        (in_topics("topics", lambda number: {"partition": number, "leaderEpoch": 0}, name="topic"),
         range(5))],
    "DescribeProducers": [(NUMBERS, (0,))],
    "DescribeLogDirs": [
        ({"topics": None}, range(5)),
        (in_topics("topics", lambda number: number, name="topic"), range(5)),
    ],
    "ElectLeaders": [
        ({"topicPartitions": None}, range(3)),
        (in_topics("topicPartitions", lambda number: number, name="topic"), range(3)),
    ],
    "DescribeTopicPartitions": [
        ({"topics": [{"name": f"n{n}"} for n in range(PARTITIONS)],
          "responsePartitionLimit": 2000}, (0,))],
    "DescribeGroups": [({"groups": of_groups()}, range(6))],
    "ConsumerGroupDescribe": [({"groupIds": of_groups()}, (0,))],
    "ListGroups": [({}, range(6))],
    "DeleteGroups": [({"groupsNames": [*of_groups(300), "group-1"]}, range(3))],
    "FindCoordinator": [({"keyType": 0, "coordinatorKeys": of_groups()}, range(4, 7))],
    "LeaveGroup": [
        ({"groupId": "group-0", "members": [{"memberId": f"m{n}"} for n in range(MANY)]},
         range(3, 6))],
    "OffsetCommit": [(committing(), range(2, 10))],
    "TxnOffsetCommit": [(committing(txn=True), range(5))],
    "OffsetDelete": [
        ({**in_topics("topics", lambda number: {"partitionIndex": number}), "groupId": "big"},
         (0,))],
    "OffsetFetch": [
        ({**NUMBERS, "groupId": "full"}, range(1, 8)),
        ({"topics": None, "groupId": "full"}, range(2, 8)),
        ({"groups": [{"groupId": "full", **NUMBERS},
                     *({"groupId": name, "topics": None} for name in of_groups())]},
         range(8, 10)),
    ],
    "AddPartitionsToTxn": [
        ({"v3AndBelowTransactionalId": "id", "v3AndBelowProducerId": 0,
          "v3AndBelowProducerEpoch": 0, "v3AndBelowTopics": [{"name": "wide", "partitions": ALL}]},
         range(4)),
        ({"transactions": [{**TRANSACTION, "verifyOnly": True, "topics": [
            {"name": "wide", "partitions": range(PARTITIONS)}]}]}, range(4, 6)),
    ],
    "WriteTxnMarkers": [
        ({"markers": [{**MARKED, **NUMBERS}]}, range(2))],
    "DescribeTransactions": [({"transactionalIds": [f"id-{n}" for n in range(MANY)]}, (0,))],
    "ListTransactions": [({"stateFilters": ["none", "Empty"]}, range(2))],
    "CreateAcls": [({"creations": [ACL] * MANY}, range(4))],
    "DeleteAcls": [({"filters": [FILTER] * MANY}, range(4))],
    "DescribeUserScramCredentials": [({"users": [{"name": name} for name in NAMES]}, (0,))],
    "AlterUserScramCredentials": [
        ({"deletions": [], "upsertions": [{"name": name, **UPSERTION} for name in NAMES]}, (0,))],
    "UpdateFeatures": [
        ({"featureUpdates": [{"feature": f"f{n}", "maxVersionLevel": 1} for n in range(PARTITIONS)],
          "validateOnly": False, "timeoutMs": 1}, range(2))],
    "DescribeQuorum": [
        ({"topics": [{"topicName": name, "partitions": [{"partitionIndex": 0}]}
                     for name in NAMES]}, range(3))],
    "Produce": [(producing(), range(3, 12))],
    "Fetch": [(fetching(), range(4, 13))],
}  # fmt: skip
CASES = [
    (api, version, body) for api, bodies in LONG.items() for body, versions in bodies
    for version in versions
    # A slice depends on whether counts are flexible, and on what follows the list.
    if version in (versions[0], versions[-1], 8, wire.APIS[KEY[api]].flexible_version)
]  # fmt: skip
READS = {
    "ConsumerGroupDescribe", "DescribeConfigs", "DescribeGroups", "DescribeLogDirs",
    "DescribeProducers", "DescribeQuorum", "DescribeTopicPartitions", "DescribeTransactions",
    "DescribeUserScramCredentials", "FindCoordinator", "ListGroups", "ListOffsets",
    "ListTransactions", "OffsetFetch", "OffsetForLeaderEpoch",
}  # fmt: skip


@pytest.fixture(scope="module")
def filling():
    """The requests that make the groups and transactions, as bytes."""
    data = [
        request("OffsetCommit", 2, {**commit(name, "have-0", {0: 1}), "retentionTimeMs": -1})
        for name in of_groups()[:-1]
    ]
    wide = dict.fromkeys(range(PARTITIONS), 5)
    data.append(request("OffsetCommit", 2, {**commit("full", "wide", wide), "retentionTimeMs": -1}))
    data.append(request("FindCoordinator", 3, {"keyType": 1, "key": "id"}))
    for number in range(300):
        body = {"transactionalId": f"id-{number}" if number else "id", "producerId": -1,
                "producerEpoch": -1, "transactionTimeoutMs": 1000}  # fmt: skip
        data.append(request("InitProducerId", 4, body))
    return b"".join(data)


def filled(filling):
    server = Server({"group.initial.rebalance.delay.ms": 0}, seed=3)
    for number in range(TOPICS):
        server.cluster.topics.create(f"have-{number}", 1 + number % 7)
    server.cluster.topics.create("wide", PARTITIONS)
    server.connect().send(filling)
    return server


@pytest.fixture(scope="module")
def unchanged(filling):
    """A server for requests that leave it as it is."""
    return filled(filling)


@pytest.mark.parametrize(("api", "version", "body"), CASES)
def test_others_are_answered_between_slices_and_the_response_is_the_one_at_once(
    filling, unchanged, api, version, body
):
    def answered(*, sliced):
        server, soon = unchanged if api in READS else filled(filling), []
        server.dispatcher.call_soon = soon.append if sliced else None
        peer, other = server.connect(), server.connect()
        peer.send(request(api, version, body, correlation_id=1) + VERSIONS)
        between = 0
        while soon:
            assert not peer.take()
            other.send(VERSIONS)
            assert correlation_ids(other.take()) == [7]
            other.received = b""
            between += 1
            soon.pop(0)()
        return peer.take(), between

    data, between = answered(sliced=True)
    at_once, _ = answered(sliced=False)
    assert data == at_once
    assert between > 1
    assert correlation_ids(data) == [1, 7]
    frame = frames_of(data)[0]
    decoded = wire.decode_response(KEY[api], version, frame)
    assert decoded.left_over == 0
    assert wire.encode_response(KEY[api], version, decoded.body, correlation_id=1) == frame


def test_a_slice_ends_with_the_last_of_its_entries():
    pace, others = Pace(), [False] * (SLICE_ENTRIES - 1)
    assert [pace.is_over() for _ in range(2 * SLICE_ENTRIES)] == 2 * [*others, True]
    assert [pace.is_over(SLICE_ENTRIES // 2 - 1) for _ in range(6)] == 2 * [False, False, True]


def test_each_api_that_is_served_is_short_or_handled_in_slices():
    assert {row.name for row in SERVED.values()} - LONG.keys() == SHORT


def test_a_request_in_slices_that_fails_closes_its_connection_alone():
    server, soon = Server(), []
    server.dispatcher.call_soon = soon.append
    peer, other = server.connect(), server.connect()
    peer.send(request("CreateTopics", 5, creating(400)))
    del server.cluster.topics  # the rest of the work has no services
    server.cluster.topics = None
    while soon:
        soon.pop(0)()
    assert peer.connection.closing
    assert not other.connection.closing


def test_long_requests_are_handled_one_after_the_other_and_short_ones_between():
    server, soon = Server(), []
    server.dispatcher.call_soon = soon.append
    first, second, third, short = (server.connect() for _ in range(4))
    first.send(request("CreateTopics", 4, creating(400), correlation_id=1))
    second.send(request("CreateTopics", 4, creating(1000), correlation_id=2))  # a long frame
    third.send(request("Metadata", 9, {"topics": []}, correlation_id=3) + VERSIONS)
    assert correlation_ids(third.take()) == [3, 7]
    while not first.take():
        soon.pop(0)()
        short.send(request("Metadata", 9, {"topics": []}))
        assert short.take()
        short.received = b""
        assert not second.take()
    while soon:
        soon.pop(0)()
    assert correlation_ids(second.take()) == [2]
    assert len(server.cluster.topics) == 1000


def test_a_long_request_behind_another_waits_until_there_is_room_for_its_response():
    server, soon = Server(), []
    dispatcher, unsent = server.dispatcher, server.dispatcher.unsent
    for number in range(TOPICS):
        server.cluster.topics.create(f"have-{number}", 1)
    dispatcher.call_soon = soon.append
    first, second = server.connect(), server.connect()
    for peer in (first, second):
        peer.send(request("Metadata", 9, {"topics": None}))
    soon.pop(0)()
    unsent.add(0, unsent.most_copied)  # meanwhile: the first one ends all the same
    while soon:
        soon.pop(0)()
    assert first.take()
    assert not second.take()
    unsent.subtract(0, unsent.most_copied)
    while soon:
        soon.pop(0)()
    assert second.take()


# What clients send all the time, and what they need to send it.
FREQUENT = {
    "Produce", "Fetch", "OffsetCommit", "OffsetFetch", "JoinGroup", "Heartbeat", "LeaveGroup",
    "SyncGroup", "SaslHandshake", "ApiVersions", "TxnOffsetCommit", "SaslAuthenticate",
}  # fmt: skip
# Their responses may have an entry for each topic, group, partition or transaction.
LISTS = {
    "Metadata", "OffsetFetch", "DescribeGroups", "ListGroups", "CreateTopics", "DeleteTopics",
    "DescribeConfigs", "DescribeProducers", "DescribeTransactions", "ListTransactions",
    "DescribeTopicPartitions",
}  # fmt: skip


OLD_FETCHES, NEW_FETCH = {("Fetch", 0), ("Fetch", 3)}, ("Fetch", 4)  # with converted records
EVERY = {(row.name, version) for row in SERVED.values() for version in (row.first, row.last)}
EVERY |= {*OLD_FETCHES, NEW_FETCH}


def handled_at_once(server, client_id):
    """The APIs and versions that are handled when they come."""
    handled = set()
    server.dispatcher.observer = lambda call, handler: handled.add((call.api_key, call.api_version))
    for name, version in sorted(EVERY):
        server.connect().send(request(name, version, {}, client_id=client_id))
    return {(SERVED[key].name, version) for key, version in handled}


def of_served(names):
    return {(name, version) for name, version in EVERY if name in names}


def test_during_a_long_request_no_other_may_be_long_unless_clients_send_it_all_the_time():
    server = Server()
    server.dispatcher.call_soon = [].append
    server.connect().send(request("CreateTopics", 5, creating(400)))
    assert handled_at_once(server, "c" * (16 << 10)) == of_served(FREQUENT)
    assert handled_at_once(server, "c") == EVERY


@pytest.mark.parametrize("size", [16 << 10, (16 << 10) + 1])
def test_during_a_long_request_another_of_16_kib_is_handled_and_a_longer_one_waits(size):
    server = Server()
    server.dispatcher.call_soon = [].append
    server.connect().send(request("CreateTopics", 5, creating(400)))
    least = len(request("ListGroups", 4, {}, client_id="")) - 4  # without the length in front
    peer = server.connect()
    peer.send(request("ListGroups", 4, {}, client_id="c" * (size - least)))
    assert peer.whole() is (size == 16 << 10)


def test_while_many_bytes_are_unread_no_response_with_a_list_is_made():
    server = Server()
    server.dispatcher.unsent.add(0, server.dispatcher.unsent.most_copied)
    assert handled_at_once(server, "c" * (16 << 10)) == EVERY - of_served(LISTS) - OLD_FETCHES


def test_topics_that_another_request_deletes_between_slices_are_unknown():
    server, soon = Server(), []
    for number in range(MANY):
        server.cluster.topics.create(f"t{number}", 1)
    server.dispatcher.call_soon = soon.append
    first, second = server.connect(), server.connect()
    first.send(request("DeleteTopics", 5, {"topicNames": [f"t{n}" for n in range(MANY)]}))
    deleted = {"topicNames": [f"t{MANY - 1}"]}
    assert ask(second, "DeleteTopics", 5, deleted)["responses"][0]["errorCode"] == 0
    while soon:
        soon.pop(0)()
    (frame,) = frames_of(first.take())
    rows = wire.decode_response(KEY["DeleteTopics"], 5, frame).body["responses"]
    unknown = {row["name"]: row["errorCode"] for row in rows if row["errorCode"]}
    assert unknown == {f"t{MANY - 1}": 3}  # UNKNOWN_TOPIC_OR_PARTITION
    assert not len(server.cluster.topics)


def test_a_fetch_is_answered_by_what_is_written_between_its_slices():
    server, soon = Server(), []
    server.cluster.topics.create("wide", PARTITIONS)
    server.dispatcher.call_soon = soon.append
    peer, producer = server.connect(), server.connect()
    partitions = [
        {"partition": number, "fetchOffset": 0, "partitionMaxBytes": 1000} for number in range(2000)
    ]
    peer.send(request("Fetch", 12, {
        "replicaId": -1, "maxWaitMs": 60_000, "minBytes": 1, "maxBytes": 10_000,
        "topics": [{"topic": "wide", "partitions": partitions}]}))  # fmt: skip
    assert soon
    written = {"index": 0, "records": encode_batch([(0, 0, None, b"value")])}
    body = {"topicData": [{"name": "wide", "partitionData": [written]}], "acks": -1}
    assert ask(producer, "Produce", 9, {**body, "timeoutMs": 1000, "transactionalId": None})
    while soon:
        soon.pop(0)()
    assert peer.take()


def test_groups_behind_a_response_that_is_being_delivered_are_described():
    server = Server({"group.initial.rebalance.delay.ms": 0})
    peer = server.connect()
    joining = {"groupId": "g", "sessionTimeoutMs": 30000, "rebalanceTimeoutMs": 30000,
               "memberId": "", "protocolType": "consumer",
               "protocols": [{"name": "range", "metadata": b""}]}  # fmt: skip
    server.cluster.groups.answering = True  # as within the delivery of another response
    peer.send(request("DescribeGroups", 5, {"groups": ["g", "h"]}, correlation_id=1))
    peer.send(request("OffsetFetch", 7, {"groupId": "g", "topics": None}, correlation_id=2))
    peer.send(request("DeleteGroups", 2, {"groupsNames": ["g", "h"]}, correlation_id=3))
    peer.send(request("JoinGroup", 3, joining, correlation_id=4))
    assert not peer.take()
    server.cluster.groups.answering = False
    server.cluster.groups.deliver_responses()
    assert correlation_ids(peer.take()) == [1, 2, 3, 4]


COLLECTED = """
import gc
from coterie.server.serving import freeze_survivors

data = [[] for _ in range(100_000)]
gc.callbacks.append(freeze_survivors)
gc.collect()
assert gc.get_freeze_count() > 100_000
assert len(gc.get_objects()) < 1000
"""


def test_a_full_collection_leaves_out_what_survived_the_last_one():
    subprocess.run([sys.executable, "-c", COLLECTED], check=True)


def test_a_closed_connection_needs_no_collection_to_be_freed(monkeypatch):
    freed, made = threading.Event(), Peer.connection_made
    references = []

    def connection_made(peer, transport):
        references.append(weakref.ref(peer, lambda _: freed.set()))
        made(peer, transport)

    monkeypatch.setattr(Peer, "connection_made", connection_made)
    gc.disable()
    try:
        with Broker() as broker:
            client = sockets.connect(broker)
            sockets.ask(client, "Metadata", 5, {"topics": [{"name": "t"}]})
            client.s.close()
            assert freed.wait(HANG_S)
    finally:
        gc.enable()


def consumer_group(name, topic="t0", member=None):
    body = {"groupId": name, "memberId": member or f"member-{name}", "memberEpoch": 0,
            "rebalanceTimeoutMs": 60_000, "subscribedTopicNames": [topic],
            "topicPartitions": []}  # fmt: skip
    return request("ConsumerGroupHeartbeat", 1, body)


@pytest.mark.parametrize(("api", "version", "body", "passes"), [
    ("ConsumerGroupDescribe", 0, lambda names: {"groupIds": names}, 2),
    ("DescribeGroups", 5, lambda names: {"groups": names}, 2),
    ("OffsetFetch", 9, lambda names: {
        "groups": [{"groupId": name, "topics": None} for name in names]}, 3),
])  # fmt: skip
def test_a_slice_looks_at_a_hundred_groups(api, version, body, passes):
    """In each pass over the groups: the coordinator's answers, their rows, and their encoding."""
    server, soon, asks = Server(kafka="4.1"), [], []
    server.dispatcher.call_soon = soon.append
    ask_row = server.cluster.groups.ask_row
    server.cluster.groups.ask_row = lambda *request: asks.append(request) or ask_row(*request)
    peer = server.connect()
    peer.send(request(api, version, body([f"unknown-{n}" for n in range(1000)])))
    slices, most = 1, len(asks)
    while soon:
        asks.clear()
        soon.pop(0)()
        slices, most = slices + 1, max(most, len(asks))
    assert most == 100
    assert slices >= 10 * passes
    assert peer.take()


def test_a_group_that_a_request_names_often_is_described_once_and_answered_as_often():
    server, soon, asks = Server(kafka="4.1"), [], []
    peer = server.connect()
    for number in range(SLICE_ENTRIES + 1):
        peer.send(consumer_group("g", member=f"m{number}"))
    peer.take()
    ask_row = server.cluster.groups.ask_row
    server.cluster.groups.ask_row = lambda *request: asks.append(request) or ask_row(*request)
    server.dispatcher.call_soon = soon.append
    peer = server.connect()
    peer.send(request("ConsumerGroupDescribe", 0, {"groupIds": ["g", "unknown", "g"]}))
    slices = 1
    while soon:
        soon.pop(0)()
        slices += 1
    assert slices > 4  # the question, and for each row a slice within it and one after it
    assert len(asks) == 2
    (frame,) = frames_of(peer.take())
    rows = wire.decode_response(KEY["ConsumerGroupDescribe"], 0, frame).body["groups"]
    assert [row["groupId"] for row in rows] == ["unknown", "g", "g"]  # refused ones first
    assert rows[1] == rows[2]
    members = {member["memberId"] for member in rows[1]["members"]}
    assert len(members) == len(rows[1]["members"]) == SLICE_ENTRIES + 1


def test_no_message_about_a_group_takes_its_description():
    server = Server(kafka="4.1")
    peer = server.connect()
    peer.send(consumer_group("g"))
    peer.take()
    server.cluster.groups.described = None
    (row,) = ask(server.connect(), "DescribeGroups", 6, {"groups": ["g"]})["groups"]
    assert row["errorMessage"] == "Group g is not a classic group."
    fenced = {"groupId": "g", "memberId": "member-g", "memberEpoch": 7}
    message = ask(server.connect(), "ConsumerGroupHeartbeat", 1, fenced)["errorMessage"]
    assert "a greater member epoch (7) than the one known by the group coordinator (1)" in message


def test_a_subscription_that_no_record_can_have_is_refused():
    """Kafka's log refuses a batch above max.message.bytes; the time of a step depends on it."""
    server = Server({"message.max.bytes": 1000, "group.initial.rebalance.delay.ms": 0}, kafka="4.1")
    fits = [f"n{number:08}" for number in range(100)]  # 10 bytes, with the length

    def answered(api, version, body):
        return ask(server.connect(), api, version, body)["errorCode"]

    def heartbeat(names):
        return answered("ConsumerGroupHeartbeat", 1, {
            "groupId": "g", "memberId": "m", "memberEpoch": 0, "rebalanceTimeoutMs": 60_000,
            "subscribedTopicNames": names, "topicPartitions": []})  # fmt: skip

    def join(group_id, size):
        return answered("JoinGroup", 3, {
            "groupId": group_id, "sessionTimeoutMs": 30000, "rebalanceTimeoutMs": 30000,
            "memberId": "", "protocolType": "consumer", "protocols": [
                {"name": "range", "metadata": b"\0\0\0\0\0\0" + b"\xff" * 4 + bytes(size - 10)}
            ]})  # fmt: skip

    assert heartbeat([*fits, "o"]) == -1  # UNKNOWN_SERVER_ERROR
    assert server.cluster.groups.count == 0
    assert heartbeat([*fits, *fits]) == 0  # a record has each name once
    assert join("g", 1001) == -1
    assert join("g", 1000) == 0
    assert join("classic", 1001) == 0


@pytest.mark.parametrize(("kafka", "group"), [
    ("3.9", lambda name: request("OffsetCommit", 8, commit(name, "t0", {0: 1}))),
    ("4.1", lambda name: request("OffsetCommit", 8, commit(name, "t0", {0: 1}))),
    ("4.1", consumer_group),
])  # fmt: skip
@pytest.mark.parametrize(("groups", "passes"), [(0, 5), (3000, 2), (6000, 1)])
def test_deleted_topics_take_few_passes_over_many_groups(kafka, group, groups, passes):
    """A slice deletes as much as a pass over the groups takes: 50 topics of 100 partitions."""
    server, calls = Server(kafka=kafka), []
    for number in range(50):
        server.cluster.topics.create(f"t{number}", 100)
    connection = server.connect()
    for number in range(groups):
        connection.send(group(f"g{number}"))
    assert server.cluster.groups.count == groups
    server.cluster.groups.delete_partitions = lambda keys: calls.append(len(list(keys)))
    ask(server.connect(), "DeleteTopics", 5, {"topicNames": [f"t{n}" for n in range(50)]})
    assert sum(calls) == 5000
    assert len(calls) == passes
