"""Decoding and folding a real log, beside Kafka's own and the readers of two clients.

Kafka's loader of groups and offsets folds; its kafka-dump-log with the offsets decoder decodes.

``golden/logs/wide`` (1,182,263 records, 93 MB) where it is there; a small log for the smoke run.
One core each; the answers must be equal.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import kafka_peer
import log_peers
from coterie import scan
from coterie._core.columns import KIND_NAMES, decode_columns
from coterie._core.partial import offset_columns
from golden_data import SHARED, segments

PEERS = ["coterie", "kafka", "kafka-python", "aiokafka"]
OFFSET, TOMBSTONE = KIND_NAMES.index("offset"), KIND_NAMES.index("offset_tombstone")


class Log(NamedTuple):
    """Segments of a log without transactions, whole in memory, and as files for the JVM."""

    segments: list[bytes]
    files: list[Path]


@pytest.fixture(scope="module")
def log(request, tmp_path_factory):
    wide = SHARED / "golden" / "logs" / "wide"
    if request.config.coterie_sizes == "smoke" or not wide.is_dir():
        files = [path for path in segments("default50") if path.stat().st_size]
        return Log([path.read_bytes() for path in files], files)
    cramjam = pytest.importorskip("cramjam")
    folder, files = tmp_path_factory.mktemp("wide"), []
    for path in sorted(wide.glob("*/*.zst")):
        files.append(folder / path.parent.name / path.stem)
        files[-1].parent.mkdir()
        files[-1].write_bytes(bytes(cramjam.zstd.decompress(path.read_bytes())))
    return Log([path.read_bytes() for path in files], files)


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
    if peer != "coterie":
        return log_peers.fold(peer, log)
    keys = total = 0
    for data in log:
        (one,) = scan(data).partitions.values()
        offsets = offset_columns(one)["offset"]
        keys += len(offsets)
        total += int(offsets.sum())
    return keys, total


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
    note(work.__name__, peer, records_of(log), unit="record")


def records_of(log):
    return sum(len(decode_columns(data)["kind"]) for data in log.segments)


@pytest.mark.parametrize("peer", PEERS)
@pytest.mark.benchmark(group="decode a log to columns")
def test_decode(benchmark, note, sizes, peer, log):
    if peer != "kafka":
        measure(benchmark, note, decode, peer, log, sizes)
        return
    warm, rounds = (0, 1) if sizes == "smoke" else (2, 5)
    size = records_of(log)
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
    size = records_of(log)
    answer = kafka_peer.measure(benchmark, "load", size, warm=warm, rounds=rounds, files=log.files)
    assert tuple(answer) == fold("coterie", log.segments)
    note("fold", "kafka", size, unit="record")
