"""CPU time of a request, from a connection's bytes to its answer's: no socket, no loop.

    python benchmarks/without_sockets.py [--kafka 3.9] [--rounds 12] [NAME ...]

A hundred groups of one member over four partitions of the offsets topic send requests in turn, each
on its own connection. The result is the minimum of some rounds. NAME is as printed, such as
"OffsetCommit 8".
"""

import argparse
import time

from coterie import wire
from coterie.server.api.call import Dispatcher
from coterie.server.cluster import Cluster, Listener, Node
from coterie.server.net.connection import Connection
from coterie.server.releases import DEFAULT_RELEASE, RELEASES

GROUPS, PARTITIONS, ROUND = 100, 10, 2000
OFFSET_COMMIT, OFFSET_FETCH, JOIN_GROUP, HEARTBEAT, SYNC_GROUP = 8, 9, 11, 12, 14
CONSUMER_HEARTBEAT = 68
CONFIG = {"group.initial.rebalance.delay.ms": 0, "offsets.topic.num.partitions": 4}
PROTOCOLS = [{"name": "range", "metadata": b"\0" * 16}]


def framed(key, version, body):
    """Return a request with its length."""
    frame = wire.encode_request(key, version, body, client_id="load")
    return len(frame).to_bytes(4, "big") + frame


def ask(connection, key, version, body):
    """Return what a request is answered."""
    connection.receive(framed(key, version, body))
    (answer,) = connection.output
    connection.output.clear()
    return wire.decode_response(key, version, answer[4:]).body


def join(connection, group):
    """Let a member join a new group, and be assigned; its id and generation."""
    body = {
        "groupId": group, "sessionTimeoutMs": 30000, "rebalanceTimeoutMs": 30000,
        "protocolType": "consumer", "protocols": PROTOCOLS,
    }  # fmt: skip
    member = ask(connection, JOIN_GROUP, 5, body)["memberId"]
    joined = ask(connection, JOIN_GROUP, 5, {**body, "memberId": member})
    assignments = [{"memberId": member, "assignment": b"a" * 16}]
    head = {"groupId": group, "generationId": joined["generationId"], "memberId": member}
    ask(connection, SYNC_GROUP, 3, {**head, "assignments": assignments})
    return member, joined["generationId"]


def requests_of(connection, group):
    """Yield (name, frame) of each kind of request of a group's member."""
    member, generation = join(connection, group)
    alone, _ = join(connection, f"{group}-alone")
    head = {"groupId": group, "memberId": member}
    partitions = [
        {"partitionIndex": n, "committedOffset": 1000 + n, "committedMetadata": ""}
        for n in range(PARTITIONS)
    ]
    commit = {"generationIdOrMemberEpoch": generation,
              "topics": [{"name": "load", "partitions": partitions}]}  # fmt: skip
    for version in (2, 8):
        yield f"OffsetCommit {version}", framed(OFFSET_COMMIT, version, {**head, **commit})
    topics = [{"name": "load", "partitionIndexes": list(range(PARTITIONS))}]
    fetch = {"requireStable": True, "groups": [{"groupId": group, "topics": topics}]}
    yield "OffsetFetch 8", framed(OFFSET_FETCH, 8, fetch)
    yield "Heartbeat 4", framed(HEARTBEAT, 4, {**head, "generationId": generation})
    again = {
        "groupId": f"{group}-alone", "memberId": alone, "sessionTimeoutMs": 30000,
        "rebalanceTimeoutMs": 30000, "protocolType": "consumer", "protocols": PROTOCOLS,
    }  # fmt: skip
    yield "JoinGroup 9", framed(JOIN_GROUP, 9, again)
    if connection.cluster.has_consumer_groups:
        member = {"groupId": f"{group}-consumer", "memberId": "m"}
        first = {"memberEpoch": 0, "rebalanceTimeoutMs": 30000, "subscribedTopicNames": ["load"],
                 "topicPartitions": []}  # fmt: skip
        epoch = ask(connection, CONSUMER_HEARTBEAT, 1, {**member, **first})["memberEpoch"]
        yield (
            "ConsumerGroupHeartbeat 1",
            framed(CONSUMER_HEARTBEAT, 1, {**member, "memberEpoch": epoch}),
        )


def timed(todo):
    """Return the CPU time of a request, in µs."""
    began = time.process_time()
    for _ in range(ROUND // len(todo)):
        for connection, data in todo:
            connection.receive(data)
            connection.output.clear()
    return (time.process_time() - began) / ROUND * 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--kafka", default=DEFAULT_RELEASE.name, choices=RELEASES)
    args = parser.parse_args()
    cluster = Cluster(CONFIG, seed=1, release=RELEASES[args.kafka])
    node, listener = Node(1), Listener()
    node.addresses[listener] = ("127.0.0.1", 9092)
    cluster.nodes[1] = node
    cluster.topics.create("load", PARTITIONS)
    dispatcher = Dispatcher(cluster)
    frames = {}
    for n in range(GROUPS):
        connection = Connection(dispatcher, node, listener)
        for name, frame in requests_of(connection, f"group-{n}"):
            frames.setdefault(name, []).append((connection, frame))
    least = {}
    for _ in range(args.rounds):  # all kinds in turn: what slows the machine slows them alike
        for name in args.names or frames:
            least[name] = min(timed(frames[name]), least.get(name, float("inf")))
    for name, us in least.items():
        print(f"{name:26}{us:8.2f} µs")


if __name__ == "__main__":
    main()
