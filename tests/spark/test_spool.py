"""A worker reads segments from lines or chunks as they are in the log."""

import gzip
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.errors import LogError
from coterie.log.folders import Segment
from coterie_spark.replay_job import hadoop, scanning, spool
from coterie_spark.replay_job.arrow import rows_of
from support.examples import examples

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
PLACES = {PATH: [(0, 0)], OTHER: [(2, 0)]}


def as_spark_reads(data, path=PATH, cuts=()):
    """Rows of the lines of a file; like Spark's, its splits end after a whole line."""
    body = data.removeprefix(MARK)
    text = body.removesuffix(b"\n").split(b"\n") if body else []
    starts = [max((cut for cut in (0, *cuts) if cut <= at), default=0) for at in range(len(text))]
    columns = {"body": text, "path": [path] * len(text), "start": starts}
    kinds = (pa.binary(), pa.string(), pa.int64())
    schema = pa.schema(list(zip(columns, kinds, strict=True)))
    return pa.RecordBatch.from_pydict(columns, schema=schema)


@pytest.fixture
def chunks(monkeypatch):
    """The rows of both segments, and one for each partition."""
    monkeypatch.setattr(scanning, "CHUNK_BYTES", 4)
    plain = as_spark_reads(PLAIN, cuts=(1, 3))
    by_one = [plain.slice(row, 1) for row in range(plain.num_rows)]
    of_segments = list(spool.line_worker(PLACES)(by_one))
    assert len(of_segments) > 2
    packed = pa.RecordBatch.from_pydict({"path": [OTHER], "content": [PACKED]})
    of_segments += spool.content_worker(PLACES)([packed])
    every = [rows_of(spool.chunk_schema(), (n, -1, 0, 0, None)) for n in range(3)]
    rows = pa.Table.from_batches([*reversed(of_segments), *every])
    return rows.sort_by([(name, "ascending") for name in spool.ORDER]).to_batches(1)


@pytest.fixture
def home(monkeypatch, tmp_path):
    """The folder for a worker's files."""
    monkeypatch.setattr(spool, "home", lambda: str(tmp_path))
    return tmp_path


def test_each_segment_can_be_read_again_and_is_gone_afterwards(chunks, home):
    def work(read, batches):
        (tasks,) = (batch.column(0).to_pylist() for batch in batches)
        for _ in range(2):
            for task in tasks:
                yield [bytes(read(segment)) for segment in LOG[task][1]]
        yield len(list(Path(home).glob("*/*")))

    expected = [[PLAIN, b""], [], [b"packed"]]
    assert list(spool.spooled(LOG, work, chunks)) == [*expected, *expected, 2]
    assert list(home.iterdir()) == []


@pytest.mark.parametrize(
    ("segment", "is_lost", "message"),
    [
        # The second chunk that is packed is the time of packing alone.
        (LOG[2][1][0], {"task": 2, "chunk": 3}, r"s3a://b/7/c\.log\.gz: not a whole \.gz file"),
        (LOG[0][1][0], {"task": 0, "start": 1}, r"s3a://b/0/a\.log: 5 bytes came, where 10 were"),
    ],
)
def test_a_failure_leaves_no_file_and_names_the_segment(chunks, home, segment, is_lost, message):
    def work(read, batches):
        yield read(segment)

    arrived = [batch for batch in chunks if not is_lost.items() <= batch.to_pylist()[0].items()]
    assert len(arrived) < len(chunks)
    with pytest.raises(LogError, match=message):
        list(spool.spooled(LOG, work, arrived))
    assert list(home.iterdir()) == []


def test_a_partition_without_a_byte_is_answered_too(home):
    def work(read, batches):
        for batch in batches:
            yield from batch.column(0).to_pylist()

    empty = rows_of(spool.chunk_schema(), (1, -1, 0, 0, None))
    assert list(spool.spooled(LOG, work, [empty])) == [1]


@pytest.mark.parametrize("data", [MARK + b"ab\ncd", MARK + b"ab\n", b"ab\ncd\n", b"ab\ncd", MARK])
def test_a_file_of_lines_is_made_equal_to_its_segment(home, data):
    segment = Segment(PATH, 0, 0, len(data), None)
    log = [(0, [segment])]
    chunks = spool.line_worker({PATH: [(0, 0)]})([as_spark_reads(data)])

    def work(read, batches):
        for _ in range(2):
            yield bytes(read(segment))

    empty = rows_of(spool.chunk_schema(), (0, -1, 0, 0, None))
    if data == MARK:  # Spark reads no line of it
        (home / "0-0").touch()
        spool.restore_bytes(segment, home / "0-0")
        assert (home / "0-0").read_bytes() == data
    else:
        assert list(spool.spooled(log, work, [empty, *chunks])) == [data] * 2


def test_a_worker_answers_for_its_partitions_in_order(home):
    log = [(number, []) for number in range(20)]
    rows = [rows_of(spool.chunk_schema(), (n, -1, 0, 0, None)) for n in (16, 8, 1, 8)]
    found = list(spool.spooled(log, lambda read, batches: batches, rows))
    assert [batch.column(0).to_pylist() for batch in found] == [[1, 8, 16]]


def odd_bytes():
    """Few bytes, many of them line ends; some begin with a byte order mark."""
    few = st.lists(st.sampled_from([b"\n", b"\r", b"a", b"\x00", b"\xff", MARK]), max_size=12)
    return st.tuples(st.sampled_from([b"", MARK]), few.map(b"".join)).map(b"".join)


@given(odd_bytes().filter(bool), st.integers(1, 8))
def test_lines_are_the_bytes_of_their_file(data, chunk_bytes):
    with mock.patch.object(scanning, "CHUNK_BYTES", chunk_bytes):
        stretches = list(hadoop.stretches_of([as_spark_reads(data)]))
    assert all(s.path == PATH and 0 < len(s.body) <= chunk_bytes for s in stretches)
    segment = Segment(PATH, 0, 0, len(data), None)
    assert hadoop.original_bytes(segment, b"".join(s.body for s in stretches)) == data


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 2)), min_size=1, max_size=20))
@settings(max_examples=examples(100))
def test_lines_of_several_files_and_splits_stay_with_their_own(places):
    places = sorted(set(places)) + sorted(places)  # as Spark reads them: split after split
    rows = [(f"{n}".encode(), f"file:/{name}", start) for n, (name, start) in enumerate(places)]
    batch = pa.record_batch(
        [pa.array([body for body, _, _ in rows], pa.binary()),
         pa.array([path for _, path, _ in rows]),
         pa.array([start for _, _, start in rows], pa.int64())],
        names=["value", "path", "start"],
    )  # fmt: skip
    read = [(path, start, line) for path, start, part in hadoop._pieces([batch]) for line in part]
    assert read == [(path, start, body) for body, path, start in rows]


def test_a_file_that_grew_is_read_as_far_as_it_was_listed():
    segment = Segment(PATH, 0, 0, 5, None)
    assert hadoop.original_bytes(segment, b"ab\ncd\nef\n") == b"ab\ncd"


def test_spark_reads_any_bytes_as_lines(spark, tmp_path):
    """The text source passes them on unchanged, in one split or in splits of a few bytes."""
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
    with hadoop.whole_files(spark, segments):
        whole = hadoop.lines_of(spark, paths).toArrow().to_batches()
    spark.conf.set("spark.sql.files.maxPartitionBytes", "16")
    try:
        split = hadoop.lines_of(spark, paths).toArrow().to_batches()
    finally:
        spark.conf.unset("spark.sql.files.maxPartitionBytes")
    for batches in (whole, split):
        bodies = {path: [] for path in paths}
        for stretch in sorted(hadoop.stretches_of(batches), key=lambda stretch: stretch.start):
            bodies[stretch.path].append(stretch.body)
        read = [hadoop.original_bytes(s, b"".join(bodies[s.path])) for s in segments]
        assert read == texts
    assert len({stretch.start for stretch in hadoop.stretches_of(split)}) > 2
    assert {stretch.start for stretch in hadoop.stretches_of(whole)} == {0}
