"""Decoding and folding a real log, beside the record readers of two clients in the same run.

``golden/logs/wide`` (1,182,263 records, 93 MB) where it is there; a small log for the smoke run.
One core each; the answers must be equal.
"""

from importlib.metadata import version

import numpy as np
import pytest

import log_peers
from coterie import scan
from coterie._core.columns import KIND_NAMES, decode_columns
from coterie._core.partial import offset_columns
from golden_data import SHARED, segments

PEERS = ["coterie", "kafka-python", "aiokafka"]
OFFSET, TOMBSTONE = KIND_NAMES.index("offset"), KIND_NAMES.index("offset_tombstone")


@pytest.fixture(scope="module")
def log_bytes(request):
    """Segments of one log without transactions, whole in memory."""
    wide = SHARED / "golden" / "logs" / "wide"
    if request.config.getoption("benchmark_disable") or not wide.is_dir():
        return [path.read_bytes() for path in segments("default50")]
    cramjam = pytest.importorskip("cramjam")
    return [bytes(cramjam.zstd.decompress(p.read_bytes())) for p in sorted(wide.glob("*/*.zst"))]


def decode(peer, log):
    if peer != "coterie":
        return log_peers.decode(peer, log)
    commits = tombstones = others = total = 0
    for data in log:
        columns = decode_columns(data)
        kinds = np.bincount(columns["kind"], minlength=len(KIND_NAMES))
        commits += int(kinds[OFFSET])
        tombstones += int(kinds[TOMBSTONE])
        others += len(columns["kind"]) - int(kinds[OFFSET]) - int(kinds[TOMBSTONE])
        total += int(columns["offset"].sum()) + int(kinds[TOMBSTONE]) + others_below_zero(columns)
    return commits, tombstones, others, total


def others_below_zero(columns):
    """Rows that are no commit have offset -1: take them out of the sum again."""
    return int((columns["kind"] > TOMBSTONE).sum())


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


def label(peer):
    return peer if peer == "coterie" else f"{peer} {version(peer)}"


def measure(benchmark, work, peer, log):
    """Many rounds for coterie, one for a peer that takes seconds."""
    if peer != "coterie":
        pytest.importorskip("kafka" if peer == "kafka-python" else peer)
    answer = benchmark.pedantic(
        work, (peer, log), rounds=9 if peer == "coterie" else 1, warmup_rounds=peer == "coterie"
    )
    assert answer == work("coterie", log)  # a peer that answers otherwise is no peer
    benchmark.extra_info["peer"] = label(peer)
    benchmark.extra_info["bytes"] = sum(map(len, log))


@pytest.mark.parametrize("peer", PEERS)
@pytest.mark.benchmark(group="decode a log to columns")
def test_decode(benchmark, peer, log_bytes):
    measure(benchmark, decode, peer, log_bytes)


@pytest.mark.parametrize("peer", PEERS)
@pytest.mark.benchmark(group="fold a log to its last state")
def test_fold(benchmark, peer, log_bytes):
    measure(benchmark, fold, peer, log_bytes)
