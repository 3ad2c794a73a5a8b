"""A broker's offsets topic: commits that fill it, and its partitions as the broker stores them."""

from support.server.asking import commit
from support.server.sockets import ask, connect

TOPIC = "__consumer_offsets"


def commit_offsets(broker, group, count, *, topic="orders", first=0):
    """Commit so many times, an offset more each time."""
    connection = connect(broker)
    for offset in range(first, first + count):
        body = commit(group, topic, {0: offset})
        (answered,) = ask(connection, "OffsetCommit", 2, body)["topics"]
        assert answered["partitions"][0]["errorCode"] == 0


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
