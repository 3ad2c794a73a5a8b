"""The coordinator on Kafka's own heavy traces, parsed before, beside Kafka's own coordinator.

``many-heartbeats`` is half a million heartbeats of ten thousand members, ``big-group`` a group
of two thousand members that rebalances. The answers are those of Kafka's own coordinator.

Deferred appends stand beside the same commits whose appends come back at once: what an append
costs must not depend on how many are in flight, nor on the order in which they come back.
"""

import gc
import gzip
import json
import random
from collections import Counter

import pytest

import kafka_peer
from coterie import GroupCoordinator, load_trace
from golden_data import SHARED

HEAVY = SHARED / "golden" / "traces" / "heavy"
SIZES = {"smoke": [30], "short": [1000, 10_000, 100_000], "full": [1000, 10_000, 100_000]}


def lines(name, kind):
    path = HEAVY / f"{name}.{kind}.jsonl.gz"
    if not path.is_file():
        pytest.skip(f"{path.name} is not here")
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return file.read().splitlines()


def counts(expected):
    """How many of the three requests of these traces were answered with which error."""
    requests = "join_group", "sync_group", "heartbeat"
    events = (e for e in expected if e["event"] == "response" and e["op"] in requests)
    return Counter(f"{event['op']} {event['error']}" for event in events)


@pytest.mark.parametrize("name", ["many-heartbeats", "big-group"])
@pytest.mark.parametrize("peer", ["coterie", "kafka"])
@pytest.mark.benchmark(group="coordinator on the heavy traces")
def test_heavy_traces(benchmark, note, sizes, peer, name):
    source, expected = lines(name, "trace"), map(json.loads, lines(name, "expected"))
    warm, rounds = (0, 1) if sizes == "smoke" else (5, 9)
    size = len(source) - 1
    if peer == "kafka":
        files = [HEAVY / f"{name}.trace.jsonl.gz"]
        answer = kafka_peer.measure(
            benchmark, "coordinator", size, warm=warm, rounds=rounds, files=files
        )
        assert answer == counts(expected)
    else:
        played = play(benchmark, load_trace(source), rounds)
        assert [json.loads(json.dumps(line)) for line in played.lines()] == list(expected)
    note(f"coordinator, {name}", peer, size, package=peer, unit="event")


def play(benchmark, trace, rounds):
    made = []

    def setup():
        made[:] = [GroupCoordinator()]
        gc.collect()

    return benchmark.pedantic(lambda: made[0].play(trace), setup=setup, rounds=rounds)


def oldest_first(coordinator):
    while coordinator.appends:
        coordinator.appends[0].complete()


def newest_first(coordinator):
    while coordinator.appends:
        coordinator.appends[-1].complete()


def shuffled(coordinator):
    appends = list(coordinator.appends)
    random.Random(0).shuffle(appends)
    for append in appends:
        append.complete()


ORDERS = {
    "coterie": oldest_first,
    "coterie, newest first": newest_first,
    "coterie, shuffled": shuffled,
    "coterie, at once": None,
}


def commits(count, complete):
    """Commit an offset of each partition, all appends in flight at the same time."""
    coordinator = GroupCoordinator(appends="deferred" if complete else "immediate")
    pending = [coordinator.offset_commit("g", {("t", n): n}) for n in range(count)]
    if complete:
        assert len(coordinator.appends) == count
        complete(coordinator)
    return coordinator, pending


@pytest.mark.parametrize("peer", ORDERS)
@pytest.mark.benchmark(group="deferred appends")
def test_deferred_appends(benchmark, note, sizes, peer, size):
    rounds = 1 if sizes == "smoke" else 3
    coordinator, pending = benchmark.pedantic(
        lambda: commits(size, ORDERS[peer]), setup=lambda: gc.collect() and None, rounds=rounds
    )
    immediate, answers = commits(size, None)
    assert [one.response for one in pending] == [one.response for one in answers]
    seen, expected = (set(one.offset_fetch("g").partitions) for one in (coordinator, immediate))
    assert seen == expected
    written, expected = ({each.records for each in one.log} for one in (coordinator, immediate))
    assert written == expected
    note("deferred appends", peer, size, package="coterie", unit="append")
