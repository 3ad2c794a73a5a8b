"""The coordinator on Kafka's own heavy traces, parsed before, beside Kafka's own coordinator.

``many-heartbeats`` is half a million heartbeats of ten thousand members, ``big-group`` a group
of two thousand members that rebalances. The answers are those of Kafka's own coordinator.

``small groups`` are ten thousand groups of one to three members that join, sync, commit and leave;
under Kafka's coordinator an append costs nothing (``Replicas.java``). coterie executes 3,760
instructions an event: 13 % write records, 8 % arm timers, 14 % are what timers set off, mostly the
start of a generation. The rest is spread evenly: no function takes 4 %.

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
import small_groups
from coterie import Error, GroupCoordinator, load_trace
from coterie.base.operations import NUMBER
from support.golden_data import SHARED

HEAVY = SHARED / "golden" / "traces" / "heavy"
SIZES = {"smoke": [30], "short": [1000, 10_000, 100_000], "full": [1000, 10_000, 100_000]}


def lines(name, kind):
    path = HEAVY / f"{name}.{kind}.jsonl.gz"
    if not path.is_file():
        pytest.skip(f"{path.name} is not here")
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return file.read().splitlines()


def counts(lines, requests=("join_group", "sync_group", "heartbeat")):
    """How many of these requests were answered with which error."""
    events = (e for e in lines if e["event"] == "response" and e["op"] in requests)
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


def looked_at(coordinator):
    """Complete appends from the middle outward, and use every operation on the rest."""
    appends = list(coordinator.appends)
    pending, middle = coordinator.appends, len(appends) // 2
    for number, append in enumerate([*appends[middle:], *reversed(appends[:middle])]):
        append.complete()
        left = len(appends) - number - 1
        assert len(pending) == left
        assert append not in pending
        assert not left or (
            pending[0] in pending and next(iter(pending)) is pending[0] and pending[-1].kind
        )


ORDERS = {
    "coterie": oldest_first,
    "coterie, newest first": newest_first,
    "coterie, shuffled": shuffled,
    "coterie, looked at between": looked_at,
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


CLIENTS = ["join_group", "sync_group", "offset_commit", "leave_group"]


@pytest.mark.parametrize("peer", ["coterie", "kafka"])
@pytest.mark.benchmark(group="many small groups")
def test_many_small_groups(benchmark, note, sizes, peer, tmp_path):
    groups = {"smoke": 30, "short": 10_000, "full": 10_000}[sizes]
    source = list(small_groups.lines(groups))
    warm, rounds = (0, 1) if sizes == "smoke" else (5, 9)
    size = len(source) - 1
    answered = {f"{op} NONE": size // len(CLIENTS) for op in CLIENTS}
    if peer == "kafka":
        path = tmp_path / "small-groups.jsonl.gz"
        with gzip.open(path, "wt", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in source)
        answer = kafka_peer.measure(
            benchmark, "coordinator", size, warm=warm, rounds=rounds, files=[path]
        )
        assert answer == answered
    else:
        played = play(benchmark, load_trace(source), rounds)
        assert counts(played.lines(), CLIENTS) == answered
    note("coordinator, many small groups", peer, size, package=peer, unit="event")


MEMBERS = 10_000
HEARTBEAT = NUMBER["heartbeat"]


def joined(members):
    """A coordinator, and the ids of its members: groups of ten."""
    coordinator = GroupCoordinator()
    for member in range(members):
        coordinator.join_group(
            f"g{member // 10}", client_id="m", protocol_type="consumer", protocols={"range": b""}
        )
    coordinator.advance(7000)
    return coordinator, [(f"g{n // 10}", f"m-{n + 1:08}") for n in range(members)]


def beat_by_number(coordinator, ids):
    core = coordinator._core
    for number, (group_id, member_id) in enumerate(ids):
        core.call(HEARTBEAT, number, group_id, 1, member_id, None, None)
    return core.take_outputs()


def beat_by_name(coordinator, ids):
    for group_id, member_id in ids:
        coordinator.heartbeat(group_id, 1, member_id)
    return coordinator.take_events


PATHS = {"coterie": beat_by_number, "coterie, checked": beat_by_name}


@pytest.mark.parametrize("peer", PATHS)
@pytest.mark.benchmark(group="one heartbeat a call")
def test_one_heartbeat_a_call(benchmark, note, sizes, peer):
    coordinator, ids = joined(100 if sizes == "smoke" else MEMBERS)
    coordinator.take_events()
    rounds = 1 if sizes == "smoke" else 9
    answers = benchmark.pedantic(PATHS[peer], args=(coordinator, ids), rounds=rounds)
    events = answers.events() if peer == "coterie" else answers()[-len(ids) :]
    assert [each.response.error for each in events] == [Error.NONE] * len(ids)
    note("one heartbeat a call", peer, len(ids), package="coterie", unit="call")
