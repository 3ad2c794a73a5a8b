"""Other clients' latencies beside long requests of one client, on ``coterie serve``.

    python benchmarks/load/beside_long_requests.py [--seconds 4] [--many 20000] [REQUEST ...]

Makes so many topics and groups, and a group with as many offsets. Then, for each request, one
client sends it without a pause while another sends a heartbeat each millisecond (``readers.c``).
Prints how long the request took (median), and the heartbeats' latencies.
"""

import argparse
import statistics
import sys
import tempfile
import threading
import time

import run as loads
from beside_readers import Client, build, framed, measure

HOST, IN_FLIGHT = "127.0.0.1", 100


def topics(many):
    return [f"topic-{number}" for number in range(many)]


def groups(many):
    return [f"group-{number}" for number in range(many)]


def partitions(many):
    return [{"name": "wide", "partitions": [{"partitionIndex": n} for n in range(many)]}]


def committing(group, name, numbers):
    rows = [{"partitionIndex": n, "committedOffset": 1, "committedMetadata": ""} for n in numbers]
    return {"groupId": group, "generationIdOrMemberEpoch": -1, "memberId": "",
            "topics": [{"name": name, "partitions": rows}]}  # fmt: skip


def creating(names, count=1):
    rows = [{"name": name, "numPartitions": count, "replicationFactor": 1} for name in names]
    return {"topics": rows, "timeoutMs": 60_000}


def resources(many, configs=None):
    more = {"configurationKeys": None} if configs is None else {"configs": configs}
    return {"resources": [{"resourceType": 2, "resourceName": n, **more} for n in topics(many)]}


def requests(many):
    """Name -> the requests that are sent in turn, each (API, version, body)."""
    deleted = [f"deleted-{number}" for number in range(many)]
    listed = [{**topic, "partitions": [{**row, "timestamp": -1} for row in topic["partitions"]]}
              for topic in partitions(many)]  # fmt: skip
    return {
        "Create and DeleteTopics": [
            ("CreateTopics", 7, creating(deleted)),
            ("DeleteTopics", 5, {"topicNames": deleted, "timeoutMs": 60_000}),
        ],
        "Metadata of all topics": [("Metadata", 9, {"topics": None})],
        "DescribeConfigs": [("DescribeConfigs", 4, resources(many))],
        "AlterConfigs": [
            ("AlterConfigs", 1, resources(many, [{"name": "retention.ms", "value": "-1"}]))],
        "ListOffsets of one topic": [
            ("ListOffsets", 6, {"replicaId": -1, "topics": listed})],
        "ListGroups": [("ListGroups", 4, {})],
        "DescribeGroups": [("DescribeGroups", 5, {"groups": groups(many)})],
        "OffsetCommit": [("OffsetCommit", 8, committing("large", "wide", range(many)))],
        "OffsetFetch": [("OffsetFetch", 7, {"groupId": "large", "topics": None})],
        "OffsetFetch of all groups": [
            ("OffsetFetch", 8,
             {"groups": [{"groupId": name, "topics": None} for name in groups(many)]})],
    }  # fmt: skip


def fill(port, many):
    client = Client(HOST, port)
    client.ask("CreateTopics", 7, creating(topics(many)))
    client.ask("CreateTopics", 7, creating(["wide"], 1))
    for count in range(10_000, many + 1, 10_000):  # the most that one request adds
        topic = {"name": "wide", "count": count, "assignments": None}
        grown = client.ask("CreatePartitions", 3, {"topics": [topic], "timeoutMs": 1000})
        assert not grown["results"][0]["errorCode"], grown
    names = groups(many)
    for number in range(many + IN_FLIGHT):
        if number < many:
            client.send("OffsetCommit", 8, committing(names[number], "wide", [0]))
        if number >= IN_FLIGHT:
            client.response("OffsetCommit", 8)


class Sender(threading.Thread):
    """Sends requests in turn until it is stopped, and takes the time of each round."""

    def __init__(self, port, frames):
        super().__init__()
        self.client, self.frames = Client(HOST, port), frames
        self.stopping, self.rounds_s = threading.Event(), []

    def run(self):
        client = self.client
        while not self.stopping.is_set():
            began = time.perf_counter()
            for frame in self.frames:
                client.socket.sendall(frame)
                client.file.read(int.from_bytes(client.file.read(4), "big"))
            self.rounds_s.append(time.perf_counter() - began)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("requests", nargs="*", metavar="REQUEST")
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--many", type=int, default=20_000, help="topics, groups, offsets")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        program = build(folder)
        with loads.running([sys.executable, *loads.SERVE]) as pid:
            fill(loads.PORT, options.many)
            print("| request | seconds | median ms | 99 % ms | most ms |")
            print("| --- " * 5 + "|", flush=True)
            for name, rows in requests(options.many).items():
                if options.requests and name not in options.requests:
                    continue
                sender = Sender(loads.PORT, [framed(*row) for row in rows])
                sender.start()
                beats = measure(program, folder, HOST, loads.PORT, (0, 0), options.seconds, pid)
                sender.stopping.set()
                sender.join()
                took = statistics.median(sender.rounds_s)
                print(f"| {name} | {took:.2f} | {beats['p50_ms']:.2f} | {beats['p99_ms']:.2f} | "
                      f"{beats['most_ms']:.1f} |", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
