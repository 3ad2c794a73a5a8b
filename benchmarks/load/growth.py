"""How the cost of a request grows with the connections, members, groups and partitions.

    python benchmarks/load/growth.py [connections] [members] [groups] [partitions] [big-group]

Connections are sockets and the generator's heartbeats (``load.c``), by the server's CPU time. The
others use connections without a socket in this process, by its CPU time, the best of a few rounds.
Without a listener, they measure the coordinator, the handlers and the codec.

The cost rises for two reasons. 10,000 groups exceed the cache next to the core. And in one group
all members wait at once, each with its connection and its call, and Python's garbage collector
goes through them: 17 of 46 us a member at 20,000 members, 1.5 of 26 at 100. The core's own members
are not visible to the collector. Connections with TLS were not examined.
"""

import gc
import json
import resource
import statistics
import struct
import subprocess
import sys
import tempfile
import time

from run import PORT, SERVE, build, running

from coterie import wire
from coterie.server.api.call import Dispatcher
from coterie.server.api.table import SERVED
from coterie.server.cluster import Cluster, Listener, Node
from coterie.server.net.connection import Connection

KEY = {row.name: row.key for row in SERVED.values()}
LISTENER = Listener()
SUBSCRIBED = b"\0\0\0\0\0\1\0\4load\xff\xff\xff\xff"
ROUNDS = 5
OPEN_FILES = 20_000


class Served:
    """A cluster of one broker, and what asks it."""

    def __init__(self, partitions=1):
        config = {"group.initial.rebalance.delay.ms": 0, "offsets.topic.num.partitions": 4}
        self.cluster = Cluster({**config, "group.max.size": 1_000_000}, now_ms=1_000_000, seed=1)
        self.node = Node(1, {LISTENER: ("127.0.0.1", 9092)})
        self.cluster.nodes[1] = self.node
        self.dispatcher = Dispatcher(self.cluster)
        self.cluster.topics.create("load", partitions)
        self.peer = self.connect()

    def connect(self):
        return Connection(self.dispatcher, self.node, LISTENER)

    def ask(self, api, version, body, peer=None):
        """The answer to one request, read; None while it waits."""
        peer = peer or self.peer
        peer.receive(framed(api, version, body))
        return answer(api, version, peer)

    def cost_us(self, frames):
        """CPU time of each of these requests, best of some rounds, in microseconds."""
        best = []
        for _ in range(ROUNDS):
            began = time.process_time()
            for frame in frames:
                self.peer.receive(frame)
                self.peer.output.clear()
            best.append(time.process_time() - began)
        return min(best) / len(frames) * 1e6


def framed(api, version, body):
    frame = wire.encode_request(KEY[api], version, body, correlation_id=1, client_id="growth")
    return struct.pack(">i", len(frame)) + frame


def answer(api, version, peer):
    data = b"".join(peer.output)
    peer.output.clear()
    return wire.decode_response(KEY[api], version, data[4:]).body if data else None


def joining(group, member_id=""):
    return {
        "groupId": group, "sessionTimeoutMs": 60000, "rebalanceTimeoutMs": 60000,
        "memberId": member_id, "protocolType": "consumer",
        "protocols": [{"name": "range", "metadata": SUBSCRIBED}],
    }  # fmt: skip


def settle(served, group, size):
    """Make a group of so many members, all synced; (member id, generation) of each."""
    peers = [served.connect() for _ in range(size)]
    waiting = dict.fromkeys(range(size), "")
    for peer in peers:
        peer.receive(framed("JoinGroup", 3, joining(group)))
    joined = {}
    while waiting:
        for number in list(waiting):
            response = answer("JoinGroup", 3, peers[number])
            if response is not None:
                joined[number] = response
                del waiting[number]
        if not waiting and len({join["generationId"] for join in joined.values()}) == 1:
            break
        for number, join in joined.items():  # as members do that learn of a rebalance
            waiting[number] = join["memberId"]
            peers[number].receive(framed("JoinGroup", 3, joining(group, join["memberId"])))
        joined = {}
    members = [(join["memberId"], join["generationId"]) for join in joined.values()]
    order = sorted(joined.values(), key=lambda join: join["leader"] == join["memberId"])
    for join, peer in zip(order, peers, strict=True):
        assignments = [
            {"memberId": m["memberId"], "assignment": b"12345678"} for m in join["members"]
        ]
        peer.receive(framed("SyncGroup", 2, {
            "groupId": group, "generationId": join["generationId"],
            "memberId": join["memberId"], "assignments": assignments}))  # fmt: skip
    assert all(answer("SyncGroup", 2, peer)["errorCode"] == 0 for peer in peers)
    return members


def beat(group, member, generation):
    body = {"groupId": group, "generationId": generation, "memberId": member}
    return framed("Heartbeat", 4, body)


def commit(group, member, generation, partitions):
    entries = [{"partitionIndex": n, "committedOffset": 5} for n in range(partitions)]
    return framed("OffsetCommit", 8, {
        "groupId": group, "generationIdOrMemberEpoch": generation, "memberId": member,
        "topics": [{"name": "load", "partitions": entries}]})  # fmt: skip


def show(*cells):
    print("| " + " | ".join(f"{c:,.1f}" if isinstance(c, float) else f"{c:,}" if isinstance(c, int)
                            else c for c in cells) + " |", flush=True)  # fmt: skip


def heading(*cells):
    print()
    show(*cells)
    show(*["---"] * len(cells))


class Collector:
    """CPU time that Python's collector takes, and how often it goes through all there is."""

    def __enter__(self):
        self.took, self.whole, self._began = 0.0, 0, 0.0
        gc.callbacks.append(self)
        return self

    def __exit__(self, *_):
        gc.callbacks.remove(self)

    def __call__(self, phase, info):
        if phase == "start":
            self._began = time.process_time()
            return
        self.took += time.process_time() - self._began
        self.whole += info["generation"] == 2


def connections():
    """Three rounds of all counts in turn, so that what else the machine does meets each."""
    heading("connections", "CPU us a heartbeat", "least", "most", "answers/s")
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))  # the server has the same
    counts = (1, 10, 100, 1000, 5000)
    found = {count: [] for count in counts}
    with tempfile.TemporaryDirectory() as folder:
        program = build(folder)
        for count in counts * 3:
            with running([sys.executable, *SERVE]) as pid:
                given = ["127.0.0.1", PORT, "beats", count, 1, 4, 1, pid]
                done = subprocess.run(
                    [program, *map(str, given)], check=True, capture_output=True, text=True
                )
            join = json.loads(done.stdout)
            assert not join["errors"]
            found[count].append((join["server_cpu_s"] / join["answers"] * 1e6, join["per_s"]))
    for count, rounds in found.items():
        cost, rate = zip(*rounds, strict=True)
        show(count, statistics.median(cost), min(cost), max(cost), int(statistics.median(rate)))


def members():
    heading("members, groups of ten", "us to join and sync, each", "us a heartbeat")
    settle(Served(), "g", 10)  # what the first one alone pays for
    for count in (10, 100, 1000, 10_000, 100_000):
        served = Served()
        began = time.process_time()
        groups = {f"g{n}": settle(served, f"g{n}", 10) for n in range(count // 10)}
        each = (time.process_time() - began) / count * 1e6
        some = [beat(g, *m) for g, found in groups.items() for m in found][:10_000]
        show(count, each, served.cost_us(some))


def big_group():
    heading("members, one group", "us to join and sync, each", "of it the collector",
            "times through all", "us a heartbeat")  # fmt: skip
    settle(Served(), "g", 10)  # what the first one alone pays for
    for count in (10, 100, 1000, 5000, 20_000):
        served = Served()
        began = time.process_time()
        with Collector() as collector:
            found = settle(served, "g", count)
        each = (time.process_time() - began) / count * 1e6
        beats = served.cost_us([beat("g", *member) for member in found])
        show(count, each, collector.took / count * 1e6, collector.whole, beats)


def groups():
    heading("groups of one", "us a heartbeat", "us a commit of 10", "us an OffsetFetch of 10",
            "us ListGroups, a group", "us to move time by 1 s, all beaten")  # fmt: skip
    for count in (1, 10, 100, 1000, 10_000):
        served = Served(10)
        found = {f"g{n}": settle(served, f"g{n}", 1)[0] for n in range(count)}
        some = dict(list(found.items())[-100:])
        beats = served.cost_us([beat(g, *m) for g, m in found.items()])
        commits = served.cost_us([commit(g, *m, 10) for g, m in some.items()])
        topics = [{"name": "load", "partitionIndexes": list(range(10))}]
        fetches = served.cost_us(
            [framed("OffsetFetch", 7, {"groupId": g, "topics": topics}) for g in some]
        )
        listed = served.cost_us([framed("ListGroups", 4, {})]) / count
        began = time.process_time()
        for _ in range(10):
            served.cluster.clock.advance(1000)
        moved = (time.process_time() - began) / 10 * 1e6
        show(count, beats, commits, fetches, listed, moved)


def partitions():
    heading("partitions", "us Metadata", "a partition", "us an empty Fetch in a session",
            "a partition", "us a commit of all", "a partition", "us an OffsetFetch of all",
            "a partition")  # fmt: skip
    for count in (1, 10, 100, 1000, 10_000):
        served = Served(count)
        ((member, generation),) = settle(served, "g", 1)
        asked = [{"partition": n, "fetchOffset": 0, "partitionMaxBytes": 1000}
                 for n in range(count)]  # fmt: skip
        first = {"maxWaitMs": 0, "minBytes": 1, "sessionId": 0, "sessionEpoch": 0,
                 "topics": [{"topic": "load", "partitions": asked}]}  # fmt: skip
        session = served.ask("Fetch", 12, first)["sessionId"]
        again = [
            framed("Fetch", 12, {
                "maxWaitMs": 0, "minBytes": 1, "sessionId": session, "sessionEpoch": n + 1,
                "topics": []})
            for n in range(ROUNDS * 20)
        ]  # fmt: skip
        began = time.process_time()
        for frame in again:
            served.peer.receive(frame)
            served.peer.output.clear()
        empty = (time.process_time() - began) / len(again) * 1e6
        whole = [{"name": "load", "partitionIndexes": list(range(count))}]
        costs = [
            served.cost_us([framed("Metadata", 12, {"topics": [{"name": "load"}]})]),
            empty,
            served.cost_us([commit("g", member, generation, count)]),
            served.cost_us([framed("OffsetFetch", 7, {"groupId": "g", "topics": whole})]),
        ]
        show(count, *[cell for cost in costs for cell in (cost, cost / count)])


KINDS = {"connections": connections, "members": members, "big-group": big_group,
         "groups": groups, "partitions": partitions}  # fmt: skip

if __name__ == "__main__":
    for kind in sys.argv[1:] or KINDS:
        KINDS[kind]()
