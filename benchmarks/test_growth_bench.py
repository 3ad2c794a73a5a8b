"""How cost grows: members of a group and groups of a coordinator, and bytes of a log.

Beside Kafka's own classes, equal answers asserted. Only ``--coterie-sizes full`` measures all.
"""

import gc
import gzip
from collections import Counter

import pytest

import growth_trace
import kafka_peer
from coterie import GroupCoordinator, load_trace
from coterie.state.local_replay import scan_state
from coterie.state.partial import ScanOptions
from coterie.state.replay_engine import Silent

MEMBERS = {"smoke": [10], "short": [1000], "full": [10, 100, 1000, 10_000, 100_000]}
GROUPS = {"smoke": [1], "short": [100], "full": [1, 10, 100, 1000, 10_000, 100_000]}
MEGABYTES = {"smoke": [1], "short": [100], "full": [10, 100, 1000, 10_000]}
GROUP_OF = 10  # members of each of many groups
MANY_EVENTS = 1_000_000  # from here on a round takes seconds, and no more of them are needed
MANY_MEGABYTES = 10_000


def pytest_generate_tests(metafunc):
    for name, sizes in (("members", MEMBERS), ("groups", GROUPS), ("megabytes", MEGABYTES)):
        if name in metafunc.fixturenames:
            metafunc.parametrize(name, sizes[metafunc.config.coterie_sizes])


def play(benchmark, sizes, peer, source, tmp_path):
    """Play a trace; the errors of its heartbeats, all of them, are what must be equal."""
    events = len(source) - 1
    warm, rounds = (0, 1) if sizes == "smoke" else (3, 5) if events < MANY_EVENTS else (1, 3)
    if peer == "kafka":
        file = tmp_path / "growth.trace.jsonl.gz"
        with gzip.open(file, "wt", compresslevel=1) as out:
            out.writelines(f"{line}\n" for line in source)
        work = kafka_peer.measure
        return work(benchmark, "coordinator", events, warm=warm, rounds=rounds, files=[file])
    trace, made = load_trace(source), []

    def setup():
        made[:] = [GroupCoordinator()]
        gc.collect()

    played = benchmark.pedantic(lambda: made[0].play(trace), setup=setup, rounds=rounds)
    answers = (line for line in played.lines() if line["event"] == "response")
    return Counter(f"{line['op']} {line['error']}" for line in answers)


def expected(members):
    beats = members * growth_trace.ROUNDS
    return {"join_group NONE": members, "sync_group NONE": members, "heartbeat NONE": beats}


@pytest.mark.parametrize("peer", ["coterie", "kafka"])
@pytest.mark.benchmark(group="members of one group")
def test_members(benchmark, note, sizes, peer, members, tmp_path):
    source = list(growth_trace.lines(1, members))
    assert play(benchmark, sizes, peer, source, tmp_path) == expected(members)
    note("members of a group", peer, len(source) - 1, package=peer, unit="event")


@pytest.mark.parametrize("peer", ["coterie", "kafka"])
@pytest.mark.benchmark(group="groups of ten members")
def test_groups(benchmark, note, sizes, peer, groups, tmp_path):
    source = list(growth_trace.lines(groups, GROUP_OF))
    assert play(benchmark, sizes, peer, source, tmp_path) == expected(groups * GROUP_OF)
    note("groups of ten members", peer, len(source) - 1, package=peer, unit="event")


def fold(folder):
    """Fold a whole log, file after file: (records, keys with an offset)."""
    state = scan_state((str(folder),), ScanOptions(), Silent())
    folds = state.partitions.values()
    return sum(row[4] for one in folds for row in one.segments), sum(f.key_count for f in folds)


@pytest.mark.parametrize("peer", ["coterie", "kafka"])
@pytest.mark.benchmark(group="fold of a log of a size")
def test_log(benchmark, note, sizes, peer, wide_of, megabytes):
    folder = wide_of(megabytes * 1_000_000, alone=True)
    records, keys = fold(folder)
    rounds = 1 if sizes == "smoke" or megabytes >= MANY_MEGABYTES else 3
    if peer == "kafka":
        files = sorted(folder.rglob("*.log"))
        work = kafka_peer.measure
        answer = work(benchmark, "load", records, warm=rounds - 1, rounds=rounds, files=files)
        assert answer[0] == keys
    else:
        warm = int(rounds > 1)
        assert benchmark.pedantic(fold, (folder,), rounds=rounds, warmup_rounds=warm)[1] == keys
    note("fold of a log", peer, records, unit="record")
