"""Decoding and folding a real log, beside Kafka's own and the readers of two clients.

Kafka's loader of groups and offsets folds; its kafka-dump-log with the offsets decoder decodes.

The wide log (wide_log.py); one core each; the answers must be equal.
"""

import numpy as np
import pytest

import kafka_peer
import log_peers
import wide_log
from coterie._core.fold.columns import KIND_NAMES, decode_columns

PEERS = ["coterie", "kafka", "kafka-python", "aiokafka"]
OFFSET, TOMBSTONE = KIND_NAMES.index("offset"), KIND_NAMES.index("offset_tombstone")


def decode(peer, log):
    if peer != "coterie":
        return log_peers.decode(peer, log)
    return tuple(map(sum, zip(*(tally(decode_columns(data)) for data in log), strict=True)))


def tally(columns):
    """As a peer counts: commits, tombstones, other records, and the sum of the offsets."""
    kind = columns["kind"]
    commits = int(np.count_nonzero(kind == OFFSET))
    tombstones = int(np.count_nonzero(kind == TOMBSTONE))
    nowhere = len(kind) - commits  # rows that are no commit have offset -1
    total = int(columns["offset"].sum()) + nowhere
    return commits, tombstones, nowhere - tombstones, total


def fold(peer, log):
    return wide_log.fold(log) if peer == "coterie" else log_peers.fold(peer, log)


def measure(benchmark, note, work, peer, log, sizes):
    """Many rounds for coterie, one for a peer that takes seconds."""
    if peer != "coterie":
        pytest.importorskip("kafka" if peer == "kafka-python" else peer)
    rounds = 9 if peer == "coterie" and sizes != "smoke" else 1
    answer = benchmark.pedantic(
        work, (peer, log.segments), rounds=rounds, warmup_rounds=peer == "coterie"
    )
    assert answer == work("coterie", log.segments)  # a peer that answers otherwise is no peer
    benchmark.extra_info["bytes"] = sum(map(len, log.segments))
    note(work.__name__, peer, wide_log.records_of(log), unit="record")


@pytest.mark.parametrize("peer", PEERS)
@pytest.mark.benchmark(group="decode a log to columns")
def test_decode(benchmark, note, sizes, peer, log):
    if peer != "kafka":
        measure(benchmark, note, decode, peer, log, sizes)
        return
    warm, rounds = (0, 1) if sizes == "smoke" else (2, 5)
    size = wide_log.records_of(log)
    printed = kafka_peer.measure(benchmark, "dump", size, warm=warm, rounds=rounds, files=log.files)
    assert printed == size
    note("decode", "kafka", size, unit="record")


@pytest.mark.parametrize("peer", PEERS)
@pytest.mark.benchmark(group="fold a log to its last state")
def test_fold(benchmark, note, sizes, peer, log):
    if peer != "kafka":
        measure(benchmark, note, fold, peer, log, sizes)
        return
    warm, rounds = (0, 1) if sizes == "smoke" else (3, 7)
    size = wide_log.records_of(log)
    answer = kafka_peer.measure(benchmark, "load", size, warm=warm, rounds=rounds, files=log.files)
    assert tuple(answer) == fold("coterie", log.segments)
    note("fold", "kafka", size, unit="record")
