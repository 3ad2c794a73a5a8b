"""Segments that come to a worker as chunks, in any order, are read as they lie in the log."""

import gzip
from functools import partial
from pathlib import Path

import pytest

from coterie.errors import LogError
from coterie.log.folders import Segment
from coterie_spark.bulk import scanning, spool

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

PLAIN, PACKED = bytes(range(11)), gzip.compress(b"packed")
LOG = [
    (0, [Segment("s3a://b/0/a.log", 0, 0, 11, None), Segment("s3a://b/0/b.log", 0, 5, 0, None)]),
    (3, []),
    (7, [Segment("s3a://b/7/c.log.gz", 7, 0, len(PACKED), "gz")]),
]
PLACES = {"s3a://b/0/a.log": (0, 0), "s3a://b/7/c.log.gz": (2, 0)}


@pytest.fixture
def chunks(monkeypatch):
    """The rows that bring both segments, from the last to the first, and one a partition."""
    monkeypatch.setattr(scanning, "CHUNK_BYTES", 4)
    columns = {"path": list(PLACES), "content": [PLAIN, PACKED]}
    made = list(spool.chunk_worker(PLACES)([pa.record_batch(columns)]))
    assert max(batch.nbytes for batch in made) < 30
    kinds = made[0].schema
    every = [scanning.rows_of(kinds, (task, -1, 0, None)) for task in range(3)]
    return [*reversed(made), *every]


@pytest.fixture
def kept(monkeypatch, tmp_path):
    """The folder in which a worker puts its files."""
    monkeypatch.setattr(spool, "home", lambda: str(tmp_path))
    return tmp_path


def test_each_segment_is_read_whole_as_often_as_it_is_asked_for_and_gone_afterwards(chunks, kept):
    def work(read, batches):
        (tasks,) = (batch.column(0).to_pylist() for batch in batches)
        for _ in range(2):
            for task in tasks:
                yield [bytes(read(segment)) for segment in LOG[task][1]]
        yield len(list(Path(kept).glob("*/*")))

    expected = [[PLAIN, b""], [], [b"packed"]]
    assert list(spool.spooled(LOG, work, chunks)) == [*expected, *expected, 2]
    assert list(kept.iterdir()) == []


def test_what_fails_leaves_no_file_and_names_the_segment(chunks, kept):
    def work(read, batches):
        yield read(LOG[2][1][0])

    # The fourth chunk has packed bytes: the second one is the time of packing alone.
    cut = [batch for batch in chunks if batch.to_pylist()[0]["chunk"] != 3]
    with pytest.raises(LogError, match=r"s3a://b/7/c\.log\.gz: not a whole \.gz file"):
        list(spool.spooled(LOG, work, cut))
    assert list(kept.iterdir()) == []


def test_a_partition_without_a_byte_is_asked_too(kept):
    def work(read, batches):
        for batch in batches:
            yield from batch.column(0).to_pylist()

    schema = pa.schema([(name, pa.int32()) for name in ("task", "segment", "chunk")])
    schema = schema.append(pa.field("body", pa.binary()))
    empty = scanning.rows_of(schema, (1, -1, 0, None))
    assert list(spool.spooled(LOG, partial(work), [empty])) == [1]
