"""The last commit of each key that no tombstone followed, from the bytes of a log.

coterie folds them. The peers read no log: they get the columns of ``decode_columns``, in which
names are numbers already. Decoding is part of their time, a third or more. One thread each; each
segment is a partition of its own; the answers, (keys, sum of the last offsets), must be equal.

numpy's table of keys is about as fast as the fold, because its names are numbers already and its
answer is row numbers.
"""

import numpy as np
import pytest

import wide_log
from coterie._core.fold.columns import KIND_NAMES, decode_columns

OFFSET, TOMBSTONE = KIND_NAMES.index("offset"), KIND_NAMES.index("offset_tombstone")
KEY = ["group", "topic", "partition"]


def columns_of(log):
    """Columns of each segment that holds a record, rows in the order of the log."""
    for data in log.segments:
        columns = decode_columns(data)
        if len(columns["kind"]):
            yield {name: columns[name] for name in [*KEY, "kind", "offset"]}


def over(last, log):
    """Decode each segment, ask it, and add up what they answer."""
    return lambda: tuple(
        sum(map(int, each)) for each in zip(*map(last, columns_of(log)), strict=True)
    )


def by_coterie(log):
    return lambda: wide_log.fold(log.segments)


def number_keys(columns):
    """Number of the key, kind and offset of the rows that have a key."""
    kind = columns["kind"]
    keyed = (kind == OFFSET) | (kind == TOMBSTONE)
    group, topic, partition = (columns[name][keyed].astype(np.int64) for name in KEY)
    key = (group * (topic.max(initial=0) + 1) + topic) * (partition.max(initial=0) + 1) + partition
    return key, kind[keyed], columns["offset"][keyed]


def by_numpy(log):
    def last(columns):
        key, kind, offset = number_keys(columns)
        order = np.argsort(key, kind="stable")
        ends = np.append(np.diff(key[order]) != 0, True)[: len(key)]
        rows = order[ends]
        commits = offset[rows[kind[rows] == OFFSET]]
        return len(commits), commits.sum()

    return over(last, log)


def by_numpy_table(log):
    """Without sorting: a place for every number that a key may have, used or not."""

    def last(columns):
        key, kind, offset = number_keys(columns)
        rows = np.full(key.max(initial=-1) + 1, -1)
        np.maximum.at(rows, key, np.arange(len(key)))
        rows = rows[rows >= 0]
        commits = offset[rows[kind[rows] == OFFSET]]
        return len(commits), commits.sum()

    return over(last, log)


def by_pandas(log):
    pandas = pytest.importorskip("pandas")

    def last(columns):
        frame = pandas.DataFrame(columns)
        frame = frame[(frame["kind"] == OFFSET) | (frame["kind"] == TOMBSTONE)]
        frame = frame[~frame.duplicated(KEY, keep="last")]
        commits = frame.loc[frame["kind"] == OFFSET, "offset"]
        return len(commits), commits.sum()

    return over(last, log)


def by_polars(log):
    pl = pytest.importorskip("polars")
    assert pl.thread_pool_size() == 1
    commit, tombstone = pl.col("kind") == OFFSET, pl.col("kind") == TOMBSTONE

    def last(columns):
        frame = pl.DataFrame(columns)
        commits = frame.filter(commit | tombstone).unique(KEY, keep="last").filter(commit)
        return commits.height, commits["offset"].sum()

    return over(last, log)


def by_duckdb(log):
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    query = (  # a tombstone is a null
        'SELECT count("last"), coalesce(sum("last"), 0) FROM (SELECT arg_max_null('
        f'CASE WHEN kind = {OFFSET} THEN "offset" END, "row") AS "last" FROM log_columns'
        f' WHERE kind IN ({OFFSET}, {TOMBSTONE}) GROUP BY "group", topic, "partition")'
    )

    def last(columns):
        connection.register("log_columns", columns | {"row": np.arange(len(columns["kind"]))})
        return connection.execute(query).fetchone()

    return over(last, log)


PEERS = {
    "coterie": by_coterie,
    "numpy": by_numpy,
    "numpy, table of keys": by_numpy_table,
    "pandas": by_pandas,
    "polars": by_polars,
    "duckdb": by_duckdb,
}


@pytest.mark.parametrize("peer", PEERS)
@pytest.mark.benchmark(group="last record per key")
def test_last(benchmark, note, peer, log):
    answer = benchmark(PEERS[peer](log))
    assert answer == wide_log.fold(log.segments)
    package = peer.partition(",")[0]
    note("last record per key", peer, wide_log.records_of(log), package=package, unit="record")
