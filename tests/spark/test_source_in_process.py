"""The data source as Spark's processes call it, and ``decode`` by a stand-in. No JVM is started."""

import base64
import gzip
import pickle
from datetime import timedelta

import pytest

from coterie import CoterieError, ScanOptions
from coterie.log.folders import find_segments
from coterie.state.partial import PartialState
from support import log_writer as write
from support.golden_data import LOGS
from support.golden_rows import expected_row, golden, ms
from support.growing_log import GrowingLog

pytest.importorskip("pyspark")
pa = pytest.importorskip("pyarrow")
from pyspark.sql.types import StructType  # noqa: E402

from coterie.state import decoded  # noqa: E402
from coterie_spark import decode  # noqa: E402
from coterie_spark.replay_job import merging, scanning  # noqa: E402
from coterie_spark.source import data_source, states_source, stream_reader  # noqa: E402
from coterie_spark.source.data_source import ConsumerOffsetsSource  # noqa: E402
from support.spark_stand_in import EPOCH, Session, on_a_worker, patched  # noqa: E402

TIMES = ("timestamp", "commit_timestamp", "expire_timestamp")


def read(options, *names):
    """The rows of the source, as a worker without coterie's names reads them."""
    source = ConsumerOffsetsSource(options)
    schema = source.schema()
    if names:
        schema = StructType([field for name in names for field in schema if field.name == name])
    reader = on_a_worker(source.reader(schema))
    return [row for piece in reader.partitions() for batch in reader.read(on_a_worker(piece))
            for row in batch.to_pylist()]  # fmt: skip


@pytest.mark.parametrize("at_once", [1000, 7])
@pytest.mark.parametrize("case", ["transactions", "old-formats", "compression-zstd"])
def test_rows_equal_kafkas_own_decode(monkeypatch, case, at_once):
    monkeypatch.setattr(decoded, "ROWS_AT_ONCE", at_once)
    monkeypatch.setattr(decoded, "BYTES_AT_ONCE", 5000)
    monkeypatch.setattr(data_source, "SPARK_PIECE_BYTES", 9000)
    rows = read({"path": str(LOGS / case)})
    known = golden(case)
    assert len(rows) == len(known)
    for row, record in zip(rows, known, strict=True):
        found = {**row, **{name: ms(row[name]) for name in TIMES}}
        expected = expected_row(record)
        assert {name: found[name] for name in expected} == expected
        for part in ("key", "value"):
            of = record.get("control", {}).get(part)
            assert of is None or row[part] == base64.b64decode(of)


def test_columns_come_in_the_order_of_the_schema_and_no_other_is_made():
    names = "log_offset", "group_id", "offsets_partition"
    rows = read({"path": str(LOGS / "transactions")}, *names)
    assert [list(row) for row in rows] == [[*names]] * len(golden("transactions"))
    alone = read({"path": str(LOGS / "transactions")}, "log_offset")
    assert alone == [{"log_offset": row["log_offset"]} for row in rows]


def test_options_leave_out_partitions_and_other_groups():
    rows = read({"path": str(LOGS / "basic")}, "offsets_partition", "group_id", "log_offset")
    some = [row for row in rows if row["offsets_partition"] in (1, 2)]
    group = "grp-aio-range"
    own = [row for row in some if row["group_id"] == group]
    assert own
    assert len(own) < len(some) < len(rows)
    for name in ("partition", "partitions"):
        options = {"path": str(LOGS / "basic"), name: "1,2"}
        assert read(options, "offsets_partition", "group_id", "log_offset") == some
        found = read({**options, "group": group}, "log_offset")
        assert found == [{"log_offset": row["log_offset"]} for row in own]


def test_a_table_has_the_options_in_the_metadata_of_its_first_column():
    options = {"path": "file:///a/b", "partitions": "1", "group": "", "other": "x"}
    schema = ConsumerOffsetsSource(options).schema()
    first, *others = schema.fields
    known = {"path": "file:///a/b", "partitions": "1"}
    assert first.metadata == {"consumer_offsets": known}
    assert first.nullable
    assert not any(field.metadata for field in others)
    assert tuple(schema.names) == decoded.NAMES
    of_query = ConsumerOffsetsSource({"partitions": "2", "group": "g"})
    assert of_query.options_of(schema) == {**known, "partitions": "2", "group": "g"}
    assert ConsumerOffsetsSource.name() == "consumer_offsets"


def test_a_column_that_is_not_there_is_named():
    schema = StructType().add("log_offset", "long").add("no_such", "long").add("not_this", "long")
    with pytest.raises(CoterieError, match="has no column no_such; it has offsets_partition, seg"):
        ConsumerOffsetsSource({"path": "x"}).reader(schema)


@pytest.mark.parametrize(
    ("options", "paths"),
    [
        ({"path": "/a/b"}, ["/a/b"]),
        ({"path": "file:/a/b"}, ["/a/b"]),
        ({"path": "file:///a/file:/b"}, ["/a/file:/b"]),
        ({"paths": '["/a", "/b"]', "path": "/c"}, ["/a", "/b"]),
    ],
)
def test_paths_are_those_of_a_load_or_that_of_a_table(options, paths):
    assert data_source.paths_of(options) == paths


def test_what_is_no_path_and_no_partition_is_named():
    with pytest.raises(CoterieError, match=r"needs a path: .*OPTIONS \(path"):
        data_source.paths_of({})
    assert data_source.partitions_of({}) is None
    assert data_source.partitions_of({"partitions": "0,7", "partition": "1"}) == {0, 7}
    assert data_source.partitions_of({"partition": " 3"}) == {3}
    with pytest.raises(CoterieError, match="partitions must be numbers like 0,7, not '1,x'"):
        data_source.partitions_of({"partitions": "1,x"})


def test_a_segment_larger_than_a_piece_is_cut_unless_it_is_compressed(tmp_path, monkeypatch):
    one = write.batch(0, [write.commit(5)])
    two = one + write.batch(1, [write.commit(6)])
    (tmp_path / "a.log").write_bytes(two)
    (tmp_path / "b.log.gz").write_bytes(gzip.compress(two))
    packed = (tmp_path / "b.log.gz").stat().st_size
    plain, compressed = find_segments([tmp_path / "a.log", tmp_path / "b.log.gz"]).segments
    for size, cuts in ((len(two), 1), (len(two) - 1, 2), (1, 2), (packed, 2)):
        monkeypatch.setattr(data_source, "SPARK_PIECE_BYTES", size)
        ranges = data_source.ranges_of(plain)
        expected = [(0, None)] if cuts == 1 else [(0, len(one)), (len(one), len(two))]
        assert [(piece.start, piece.end) for piece in ranges] == expected
        assert data_source.ranges_of(compressed) == [data_source.SegmentRange(compressed)]
    rows = read({"paths": f'["{tmp_path}/a.log", "{tmp_path}/b.log.gz"]'}, "batch_position")
    assert [row["batch_position"] for row in rows] == [0, len(one)] * 2


def test_the_source_is_registered_with_a_session():
    registered = []
    session = type("S", (), {"dataSource": type("D", (), {"register": registered.append})})
    data_source.register(session)
    assert registered == [ConsumerOffsetsSource]


# ---- streams


def commits(first, count, group=b"g"):
    return write.each(first, *(write.commit(9, at, group=group) for at in range(count)))


@pytest.fixture(params=[True, False])
def admission(request, monkeypatch):
    """Whether this Spark asks a source how much it reads at once."""
    if request.param and not stream_reader.HAS_ADMISSION:
        pytest.skip("needs Spark 4.2")
    monkeypatch.setattr(stream_reader, "HAS_ADMISSION", request.param)
    return request.param


def rows_between(reader, start, end):
    return [row for piece in reader.partitions(start, end) for batch in reader.read(piece)
            for row in batch.to_pylist()]  # fmt: skip


def test_a_stream_reads_the_rows_between_two_positions(tmp_path, admission):
    broker = GrowingLog(tmp_path, 3)
    for data in commits(0, 2) + commits(2, 2, b"h"):
        broker.append(data)
    GrowingLog(tmp_path, 4).append(commits(0, 1)[0])
    source = ConsumerOffsetsSource({"path": str(tmp_path), "partitions": "3", "group": "h"})
    schema = StructType().add("offset", "long").add("log_offset", "long")
    reader = on_a_worker(source.streamReader(schema))
    assert reader.initialOffset() == {}
    end = reader.latestOffset({}, None) if admission else reader.latestOffset()
    assert end == {"3": 4}
    assert rows_between(reader, {}, end) == [
        {"offset": 0, "log_offset": 2}, {"offset": 1, "log_offset": 3}]  # fmt: skip
    assert rows_between(reader, {"3": 3}, end) == [{"offset": 1, "log_offset": 3}]
    assert reader.driver() is reader.driver()


@pytest.mark.skipif(not stream_reader.HAS_ADMISSION, reason="needs Spark 4.2")
def test_a_limit_bounds_each_trigger_and_the_end_of_the_log_is_reported(tmp_path):
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes

    broker = GrowingLog(tmp_path, 3)
    for data in commits(0, 3):
        broker.append(data)
    size = len(commits(0, 1)[0])
    schema = StructType().add("offset", "long")
    for source in (ConsumerOffsetsSource, states_source.StatesSource):
        limited = {"path": str(tmp_path), stream_reader.MAX_BYTES: str(2 * size)}
        reader = source(limited).streamReader(schema)
        limit = reader.getDefaultReadLimit()
        assert isinstance(limit, ReadMaxBytes)
        assert limit.max_bytes == 2 * size
        assert reader.reportLatestOffset() is None
        assert reader.latestOffset({}, limit) == {"3": 2}
        assert reader.reportLatestOffset() == {"3": 3}
        assert reader.latestOffset({"3": 2}, limit) == {"3": 3}
        whole = source({"path": str(tmp_path)}).streamReader(schema)
        assert isinstance(whole.getDefaultReadLimit(), ReadAllAvailable)
        assert whole.latestOffset({}, whole.getDefaultReadLimit()) == {"3": 3}
        whole.prepareForTriggerAvailableNow()
        if source is ConsumerOffsetsSource:
            for data in commits(3, 1):
                broker.append(data)
            assert whole.latestOffset({}, ReadAllAvailable()) == {"3": 3}
            broker.put([(0, b"".join(commits(0, 3)))])


@pytest.mark.parametrize("text", ["0", "-1", "1e6", "much", "", " 5", "²", "٣"])
def test_a_limit_is_a_number_of_bytes_above_0(monkeypatch, text):
    monkeypatch.setattr(stream_reader, "HAS_ADMISSION", True)
    name = stream_reader.MAX_BYTES
    with pytest.raises(CoterieError, match=f"{name} must be a number of bytes above 0, not '"):
        stream_reader.max_bytes_of({name: text})
    assert [stream_reader.max_bytes_of({name: one}) for one in ("1", "12")] == [1, 12]
    assert stream_reader.max_bytes_of({}) is None


def test_a_stream_of_states_folds_its_pieces_with_history_and_a_group_alone(tmp_path):
    broker = GrowingLog(tmp_path, 3)
    for data in commits(0, 2) + commits(2, 2, b"h"):
        broker.append(data)
    GrowingLog(tmp_path, 4).append(commits(0, 1)[0])
    source = states_source.StatesSource
    options = {"path": str(tmp_path), "partitions": "3", "group": "h", "other": ""}
    reader = on_a_worker(source(options).streamReader(None))
    (piece,) = reader.partitions({"3": 1}, {"3": 4})
    batches = list(reader.read(piece))
    assert batches[0].schema.names == [text.split()[0] for text in source({}).schema().split(",")]
    ((number, error, body),) = merging.states_in(batches)
    assert (number, error) == (3, None)
    fold = PartialState.from_bytes(body).partitions[3]
    assert [row[1] for row in fold.history.rows()] == [2, 3]
    assert {row["number"] for rows in batches for row in rows.to_pylist()} == {0}
    assert source.name() == "consumer_offsets_states"
    assert source({}).schema() == scanning.STATE_DDL
    whole = source({"path": str(tmp_path), "partitions": "3"}).streamReader(None)
    (piece,) = whole.partitions({}, {"3": 4})
    ((_, _, body),) = merging.states_in(whole.read(piece))
    assert len(list(PartialState.from_bytes(body).partitions[3].history.rows())) == 4


def test_a_piece_of_states_knows_the_offset_that_its_first_batch_should_have(tmp_path):
    """The bytes of a piece tell a gap only if the offset before them is known."""
    broker = GrowingLog(tmp_path)
    for data in [*commits(0, 2), *commits(7, 1)]:
        broker.append(data)
    log = states_source.StreamPositions([str(tmp_path)], None, None).log
    gaps = {}
    for start in (0, 1, 2):
        (piece,) = log.pieces({"0": start}, {"0": 8})
        rows = states_source.states_of_stream(
            [str(tmp_path)], ScanOptions(history=True), pickle.dumps(piece)
        )
        ((_, _, body),) = merging.states_in(rows)
        (read_,) = PartialState.from_bytes(body).partitions[0].segments
        gaps[start] = (read_.position, read_.gap)
    size = len(commits(0, 1)[0])
    assert gaps == {0: (0, True), 1: (size, True), 2: (2 * size, True)}
    moved = write.each(5, write.commit(9))[0]
    (tmp_path / "__consumer_offsets-1").mkdir()
    (tmp_path / "__consumer_offsets-1" / f"{5:020}.log").write_bytes(moved)
    (piece,) = log.pieces({"0": 8}, {"0": 8, "1": 6})
    rows = states_source.states_of_stream([str(tmp_path)], ScanOptions(), pickle.dumps(piece))
    ((_, _, body),) = merging.states_in(rows)
    (read_,) = PartialState.from_bytes(body).partitions[1].segments
    assert (read_.position, read_.gap) == (0, False)


# ---- rows of Kafka's source

DDL = "key binary, value binary, partition int, offset long, timestamp timestamp, timestampType int"
HIDDEN = {
    "segment",
    "batch_position",
    "producer_id",
    "producer_epoch",
    "is_transactional",
    "marker",
}


def test_decoded_rows_are_those_of_the_source_but_for_their_batches(monkeypatch):
    patched(monkeypatch)
    monkeypatch.setattr(decoded, "ROWS_AT_ONCE", 7)
    types = {"CreateTime": 0, "LogAppendTime": 1, "NoTimestampType": -1}
    for case in ("transactions", "old-formats"):
        known = [row for row in read({"path": str(LOGS / case)}) if not row["is_control"]]
        rows = [
            (row["key"], row["value"], row["offsets_partition"], row["log_offset"],
             row["timestamp"], types[row["timestamp_type"]])
            for row in known
        ]  # fmt: skip
        found = decode(Session().createDataFrame(rows, DDL)).toArrow().to_pylist()
        assert [list(row) for row in found] == [[*decoded.NAMES]] * len(known)
        for row, of_source in zip(found, known, strict=True):
            assert row == {**of_source, **dict.fromkeys(HIDDEN)}


def test_rows_without_a_key_a_value_or_a_known_type_are_decoded(monkeypatch):
    patched(monkeypatch)
    key = write.commit_key(1, b"g", b"t", 4)
    time = EPOCH + timedelta(seconds=5)
    rows = [(key, None, 3, 1 << 40, None), (None, b"x", 3, 7, time)]
    ddl = DDL.removesuffix(", timestampType int")
    tombstone, other = decode(Session().createDataFrame(rows, ddl)).collect()
    assert (tombstone.group_id, tombstone.topic, tombstone.partition) == ("g", "t", 4)
    assert (tombstone.tombstone, tombstone.offsets_partition) == (True, 3)
    assert (tombstone.timestamp, tombstone.timestamp_type) == (None, None)
    assert (tombstone.log_offset, other.log_offset) == (1 << 40, 7)
    assert (other.group_id, other.key, other.value, other.timestamp) == (None, None, b"x", time)
    assert (other.is_control, other.key_version) == (False, -1)
    assert decode(Session().createDataFrame([], ddl)).collect() == []


def test_what_cannot_be_decoded_is_named(monkeypatch):
    patched(monkeypatch)
    with pytest.raises(CoterieError, match="no column 'key' to decode; needed: key, value"):
        decode(Session().range(1))
    with pytest.raises(CoterieError, match="frame must be a DataFrame, not 5"):
        decode(5)
