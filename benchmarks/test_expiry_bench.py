"""Which offsets have expired: the rule over columns, and taking them out of a group.

Half of the offsets were committed two days ago, the others now; a day of retention. The columns'
peers give the same booleans; Kafka's removeExpiredOffsets and OffsetMap.expire take them out.
"""

import gc

import numpy as np
import pytest

import kafka_peer
from coterie import OffsetMap, expired
from coterie._core.structures.offsets import Offset

SIZES = {
    "smoke": [1000],
    "short": [1_000_000],
    "full": [1000, 10_000, 100_000, 1_000_000, 10_000_000],
}
DAY_MS = 86_400_000
NOW_MS = 10 * DAY_MS
HUNDRED = range(100)


def columns(size):
    """Commit times, own expiries (none), retained offsets (none)."""
    old = np.arange(size) % 2 == 0
    commit = np.where(old, NOW_MS - 2 * DAY_MS, NOW_MS).astype(np.int64)
    return commit, np.full(size, -1, dtype=np.int64), np.zeros(size, dtype=bool)


def by_coterie(commit, expire, keep):
    return lambda: expired(commit, expire, NOW_MS, DAY_MS, keep=keep)


def by_numpy(commit, expire, keep):
    def rule():
        own = expire != -1
        return np.where(own, expire <= NOW_MS, NOW_MS - commit >= DAY_MS) & ~keep

    return rule


def by_pandas(commit, expire, keep):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"commit": commit, "expire": expire, "keep": keep})

    def rule():
        late = NOW_MS - frame["commit"] >= DAY_MS
        due = late.where(frame["expire"] == -1, frame["expire"] <= NOW_MS)
        return (due & ~frame["keep"]).to_numpy()

    return rule


def by_polars(commit, expire, keep):
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame({"commit": commit, "expire": expire, "keep": keep})
    own, late = pl.col("expire") <= NOW_MS, NOW_MS - pl.col("commit") >= DAY_MS
    due = pl.when(pl.col("expire") != -1).then(own).otherwise(late) & ~pl.col("keep")
    return lambda: frame.select(due.alias("due"))["due"].to_numpy()


def by_duckdb(commit, expire, keep):
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    frame = {"commit_ms": commit, "expire_ms": expire, "retained": keep}
    connection.register("offset_columns", frame)
    connection.execute("CREATE TABLE offsets AS SELECT * FROM offset_columns")
    query = (
        f"SELECT NOT retained AND CASE WHEN expire_ms <> -1 THEN expire_ms <= {NOW_MS}"
        f" ELSE {NOW_MS} - commit_ms >= {DAY_MS} END AS due FROM offsets"
    )
    return lambda: connection.execute(query).fetchnumpy()["due"]


COLUMNAR = {
    "coterie": by_coterie,
    "numpy": by_numpy,
    "pandas": by_pandas,
    "polars": by_polars,
    "duckdb": by_duckdb,
}


@pytest.mark.parametrize("peer", COLUMNAR)
@pytest.mark.benchmark(group="expiry over columns")
def test_columns(benchmark, note, peer, size):
    arrays = columns(size)
    answer = benchmark(COLUMNAR[peer](*arrays))
    assert np.array_equal(answer, by_numpy(*arrays)())
    note("expiry, columns", peer, size, unit="offset")


@pytest.mark.parametrize("peer", ["coterie", "kafka"])
@pytest.mark.benchmark(group="expiry in a group")
def test_group(benchmark, note, sizes, peer, size):
    warm, rounds = (1, 1) if sizes == "smoke" else (3, 5) if size <= 1_000_000 else (1, 3)
    if peer == "kafka":
        answer = kafka_peer.measure(benchmark, "expiry", size, warm=warm, rounds=rounds)
        assert answer == [size // 2, size // 2]
    else:
        expire_a_group(benchmark, size, rounds)
    note("expiry, group", peer, size, package=peer, unit="offset")


def expire_a_group(benchmark, size, rounds):
    commit = columns(size)[0].tolist()
    keys = [(topic, i) for topic in map("topic-{}".format, range(-(-size // 100))) for i in HUNDRED]
    made = []

    def setup():
        made[:] = [OffsetMap()]
        values = (Offset(i, -1, "", at) for i, at in enumerate(commit))
        made[0].commit(dict(zip(keys, values, strict=True)), 1)
        gc.collect()

    removed = benchmark.pedantic(lambda: made[0].expire(NOW_MS, DAY_MS), setup=setup, rounds=rounds)
    assert (len(removed), len(made[0])) == (size // 2, size // 2)
