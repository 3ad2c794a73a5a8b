"""Segments that come to a worker as lines or in chunks are read as they lie in the log."""

import gzip
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.errors import LogError
from coterie.log.folders import Segment
from coterie_spark.replay_job import lines, scanning, spool

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

MARK = b"\xef\xbb\xbf"
PLAIN, PACKED = b"\n\x00abc\n\ndef", gzip.compress(b"packed")
PATH, OTHER = "s3a://b/0/a.log", "s3a://b/7/c.log.gz"
LOG = [
    (0, [Segment(PATH, 0, 0, len(PLAIN), None), Segment("s3a://b/0/b.log", 0, 5, 0, None)]),
    (3, []),
    (7, [Segment(OTHER, 7, 0, len(PACKED), "gz")]),
]
PLACES = {PATH: (0, 0), OTHER: (2, 0)}


def as_spark_reads(data, path=PATH, cuts=()):
    """Rows of the lines of a file, whose splits end where Spark's do: behind a whole line."""
    body = data.removeprefix(MARK)
    found = body.removesuffix(b"\n").split(b"\n") if body else []
    starts = [max((cut for cut in (0, *cuts) if cut <= at), default=0) for at in range(len(found))]
    columns = {"body": found, "path": [path] * len(found), "start": starts}
    kinds = (pa.binary(), pa.string(), pa.int64())
    schema = pa.schema(list(zip(columns, kinds, strict=True)))
    return pa.RecordBatch.from_pydict(columns, schema=schema)


@pytest.fixture
def chunks(monkeypatch):
    """The rows that bring both segments, and one a partition."""
    monkeypatch.setattr(scanning, "CHUNK_BYTES", 4)
    plain = as_spark_reads(PLAIN, cuts=(1, 3))
    by_one = [plain.slice(row, 1) for row in range(plain.num_rows)]
    made = list(spool.line_worker(PLACES)(by_one))
    assert len(made) > 2
    packed = pa.RecordBatch.from_pydict({"path": [OTHER], "content": [PACKED]})
    made += spool.content_worker(PLACES)([packed])
    every = [scanning.rows_of(spool.chunk_schema(), (n, -1, 0, 0, None)) for n in range(3)]
    rows = pa.Table.from_batches([*reversed(made), *every])
    return rows.sort_by([(name, "ascending") for name in spool.ORDER]).to_batches(1)


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


@pytest.mark.parametrize(
    ("segment", "is_lost", "said"),
    [
        # The second chunk that is packed is the time of packing alone.
        (LOG[2][1][0], {"task": 2, "chunk": 3}, r"s3a://b/7/c\.log\.gz: not a whole \.gz file"),
        (LOG[0][1][0], {"task": 0, "start": 1}, r"s3a://b/0/a\.log: 5 bytes came, where 10 were"),
    ],
)
def test_what_fails_leaves_no_file_and_names_the_segment(chunks, kept, segment, is_lost, said):
    def work(read, batches):
        yield read(segment)

    came = [batch for batch in chunks if not is_lost.items() <= batch.to_pylist()[0].items()]
    assert len(came) < len(chunks)
    with pytest.raises(LogError, match=said):
        list(spool.spooled(LOG, work, came))
    assert list(kept.iterdir()) == []


def test_a_partition_without_a_byte_is_asked_too(kept):
    def work(read, batches):
        for batch in batches:
            yield from batch.column(0).to_pylist()

    empty = scanning.rows_of(spool.chunk_schema(), (1, -1, 0, 0, None))
    assert list(spool.spooled(LOG, work, [empty])) == [1]


def odd_bytes():
    """Few bytes, many of them line ends; some begin as a text does that says its byte order."""
    few = st.lists(st.sampled_from([b"\n", b"\r", b"a", b"\x00", b"\xff", MARK]), max_size=12)
    return st.tuples(st.sampled_from([b"", MARK]), few.map(b"".join)).map(b"".join)


@given(odd_bytes().filter(bool), st.integers(1, 8))
def test_lines_are_the_bytes_of_their_file(data, most):
    with mock.patch.object(scanning, "CHUNK_BYTES", most):
        runs = list(lines.stretches_of([as_spark_reads(data)]))
    assert all(run.path == PATH and 0 < len(run.body) <= most for run in runs)
    segment = Segment(PATH, 0, 0, len(data), None)
    assert lines.original_bytes(segment, b"".join(run.body for run in runs)) == data


def test_a_file_that_grew_is_read_as_far_as_it_was_listed():
    segment = Segment(PATH, 0, 0, 5, None)
    assert lines.original_bytes(segment, b"ab\ncd\nef\n") == b"ab\ncd"


def test_spark_reads_any_bytes_as_lines(spark, tmp_path):
    """Its text source hands them on as they are, in splits of a few bytes as in one."""
    texts = [
        b"\n",
        b"\n\n",
        b"\r\n\xff\x00",
        MARK,
        MARK + b"\n",
        b"a\nb" * 50,
        bytes(range(256)) * 3,
    ]
    for number, data in enumerate(texts):
        (tmp_path / f"{number}.log").write_bytes(data)
    paths = [f"file:{tmp_path}/{number}.log" for number in range(len(texts))]
    sizes = {path: len(data) for path, data in zip(paths, texts, strict=True)}
    segments = [Segment(path, 0, 0, size, None) for path, size in sizes.items()]
    with lines.whole_files(spark, segments):
        whole = lines.lines_of(spark, paths).toArrow().to_batches()
    spark.conf.set("spark.sql.files.maxPartitionBytes", "16")
    try:
        split = lines.lines_of(spark, paths).toArrow().to_batches()
    finally:
        spark.conf.unset("spark.sql.files.maxPartitionBytes")
    for batches in (whole, split):
        found = {path: [] for path in paths}
        for run in sorted(lines.stretches_of(batches), key=lambda run: run.start):
            found[run.path].append(run.body)
        came = [lines.original_bytes(one, b"".join(found[one.path])) for one in segments]
        assert came == texts
    assert len({run.start for run in lines.stretches_of(split)}) > 2
    assert {run.start for run in lines.stretches_of(whole)} == {0}
