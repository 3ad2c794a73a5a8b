"""Consumer groups beside Kafka 4.4.0's own coordinator and assignors, requests parsed before.

``big group`` has 1,000 members on 1,000 partitions. Kafka as it is visits members and partitions in
the order of Java's hashes, so its clients own other partitions, though as many, and its answers are
compared by error, last epoch and sizes. ``many groups`` has 2,000 groups of three, whose ids Java's
hashes keep in order: equal answers.

``assign`` gives 10,000 partitions of 1,000 topics to 1,000 members without any. With different
subscriptions, a member reads two thirds of the topics.
"""

import gc
import gzip
import hashlib
import json
from collections import Counter

import pytest
from coterie._core.coordinator.consumer.assignors import GroupSpec

import consumer_groups_trace
import kafka_peer
from coterie import GroupCoordinator, load_trace

PARTITIONS = 10  # of each topic


def described(source, played):
    """Describe answers as the peer does: errors, last epoch, partitions owned, a digest."""
    requests = {event["id"]: event for event in map(json.loads, source[1:]) if "id" in event}
    errors, epochs, owned, digest = Counter(), {}, {}, hashlib.sha256()
    for line in played.lines():
        if line["event"] != "response":
            continue
        request, given = requests[line["id"]], line["assignment"]
        member = request["group_id"], request["member_id"]
        errors[line["error"]] += 1
        epochs[member] = line["member_epoch"]
        text = ""
        if given is not None:
            owned[member] = sum(len(topic["partitions"]) for topic in given)
            topics = [f"{topic['topic_id']}={list(topic['partitions'])}" for topic in given]
            text = f"{{{', '.join(topics)}}}"
        digest.update(f"{line['member_epoch']} {text}\n".encode())
    sizes = Counter(str(owned.get(member, 0)) for member, epoch in epochs.items() if epoch > 0)
    return {
        "errors": dict(errors), "epoch": max(epochs.values()), "sizes": dict(sizes),
        "digest": digest.hexdigest(),
    }  # fmt: skip


def play(benchmark, source, rounds):
    """Play a trace by a coordinator of each round's own; what the round before made is gone."""
    trace, made, played = load_trace(source), [], []

    def setup():
        played.clear()
        made[:] = [GroupCoordinator()]
        gc.collect()

    benchmark.pedantic(lambda: played.append(made[0].play(trace)), setup=setup, rounds=rounds)
    return played[0]


@pytest.mark.parametrize("peer", ["coterie", "kafka"])
@pytest.mark.parametrize("work", ["big group", "many groups"])
@pytest.mark.benchmark(group="consumer groups")
def test_trace(benchmark, note, sizes, work, peer, tmp_path):
    small = sizes == "smoke"
    if work == "big group":
        source = list(consumer_groups_trace.big_group(20 if small else 1000))
    else:
        source = list(consumer_groups_trace.many_groups(20 if small else 2000))
    warm, rounds = (0, 1) if small else (10, 9)
    if peer == "kafka":
        path = tmp_path / "trace.jsonl.gz"
        with gzip.open(path, "wt", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in source)
        answer = kafka_peer.measure(
            benchmark, "consumer-groups", len(source) - 1, warm=warm, rounds=rounds, files=[path],
            peer=kafka_peer.KAFKA_4,
        )  # fmt: skip
        expected = described(source, GroupCoordinator().play(load_trace(source)))
        if work == "big group":  # Kafka visits its members in the order of Java's hashes
            answer["digest"] = expected["digest"]
        assert answer == expected
    else:
        played = play(benchmark, source, rounds)
        assert list(described(source, played)["errors"]) == ["NONE"]
    note(f"consumer groups, {work}", peer, len(source) - 1, package=peer, unit="event")


def group_spec(size, *, unequal):
    """Give as many topics as members, each of ten partitions."""
    topics = {f"t{n}": (n.to_bytes(16, "big"), [()] * PARTITIONS) for n in range(size)}
    names = [
        tuple(f"t{n}" for n in range(size) if not unequal or n % 2 == part or n % 3 == 0)
        for part in range(2)
    ]
    return GroupSpec(topics, {f"m{n:06}": names[n % 2] for n in range(size)})


@pytest.mark.parametrize("peer", ["coterie", "kafka"])
@pytest.mark.parametrize("work", ["uniform", "uniform-unequal", "range"])
@pytest.mark.benchmark(group="consumer groups, assign")
def test_assign(benchmark, note, sizes, work, peer):
    size = 20 if sizes == "smoke" else 1000
    unequal = work == "uniform-unequal"

    def assigned():
        spec = group_spec(size, unequal=unequal)
        spec.assign(work.split("-")[0], not unequal)
        return [
            [[int.from_bytes(topic, "big"), list(partitions)] for topic, partitions in rows]
            for rows in spec.rows().values()
        ]

    if peer == "kafka":
        warm, rounds = (0, 1) if sizes == "smoke" else (40, 15)
        answer = kafka_peer.measure(
            benchmark, work, size, warm=warm, rounds=rounds, peer=kafka_peer.KAFKA_4
        )
        assert answer == assigned()
    else:
        made = []

        def setup():
            made[:] = [group_spec(size, unequal=unequal)]
            gc.collect()

        benchmark.pedantic(
            lambda: made[0].assign(work.split("-")[0], not unequal), setup=setup,
            rounds=1 if sizes == "smoke" else 15,
        )  # fmt: skip
    note(f"consumer groups, assign, {work}", peer, size * PARTITIONS, package=peer,
         unit="partition")  # fmt: skip
