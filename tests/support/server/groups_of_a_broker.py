"""A broker's offsets topic: commits that fill it, and its partitions as the broker stores them."""

from coterie.base.consumer_protocol import assignment
from coterie.messages import encode_batch
from support.server.asking import commit, joining
from support.server.sockets import ask, connect

TOPIC = "__consumer_offsets"


def commit_offsets(broker, group, count, *, topic="orders", first=0):
    """Commit so many times, an offset more each time."""
    connection = connect(broker)
    for offset in range(first, first + count):
        body = commit(group, topic, {0: offset})
        (answered,) = ask(connection, "OffsetCommit", 2, body)["topics"]
        assert answered["partitions"][0]["errorCode"] == 0


def produce(broker, topic, partition, count):
    """Append so many records to a partition."""
    data = encode_batch([(number, 1_000, b"k", b"v") for number in range(count)])
    part = {"index": partition, "records": data}
    body = {"acks": 1, "timeoutMs": 5000, "topicData": [{"name": topic, "partitionData": [part]}]}
    (answered,) = ask(connect(broker), "Produce", 7, body)["responses"]
    assert answered["partitionResponses"][0]["errorCode"] == 0


def join_alone(broker, group, assigned):
    """Let a member join and get an assignment; its connection, its id and its generation."""
    connection = connect(broker)
    joined = ask(connection, "JoinGroup", 3, joining(group))
    assert joined["errorCode"] == 0
    member_id, generation = joined["memberId"], joined["generationId"]
    body = {
        "groupId": group,
        "generationId": generation,
        "memberId": member_id,
        "assignments": [{"memberId": member_id, "assignment": assignment(assigned)}],
    }
    assert ask(connection, "SyncGroup", 2, body)["errorCode"] == 0
    return connection, member_id, generation


def stored(broker, topic=TOPIC):
    """The bytes of each partition, by number."""
    return broker._thread_here().call(
        lambda running: {
            number: log.data()
            for found in running.cluster.topics
            if found.name == topic
            for number, log in enumerate(found.partitions)
        }
    )


def copied(folder, topic=TOPIC):
    """The bytes of each partition's segments in a copy, by number."""
    folders = sorted(folder.glob(f"{topic}-*"))
    return {
        int(each.name.rpartition("-")[2]): b"".join(
            path.read_bytes() for path in sorted(each.glob("*.log"))
        )
        for each in folders
    }


def partitions_fetched(requests):
    """The partitions of the Fetch requests among these."""
    return {
        part["partition"]
        for request in requests
        if request["api"] == "Fetch"
        for topic in request["body"]["topics"]
        for part in topic["partitions"]
    }
