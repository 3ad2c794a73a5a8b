"""A frame as Spark's Kafka source gives it, made from the golden logs."""

from datetime import UTC, datetime

import pytest

from coterie import CoterieError
from coterie._core.codec.batch import LogReader
from coterie.state.partial import ScanOptions
from coterie_spark import replay, replay_frame
from coterie_spark.replay_job.frame import OffsetRun
from support import golden_data
from support.log_writer import commit_key, commit_value

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

DDL = "key binary, value binary, topic string, partition int, offset long, timestamp timestamp"
FIELDS = ("group_id", "topic", "partition", "offset", "leader_epoch", "metadata")


def rows_of(case, isolation="read_uncommitted"):
    """Rows that a consumer sees: no markers; under read_committed nothing aborted or open."""
    rows = []
    for path in golden_data.segments(case):
        partition = int(path.parent.name.rpartition("-")[2])
        waiting = {}
        for batch in LogReader(path.read_bytes()):
            if batch.is_control:
                committed = batch.records[0].key[3] == 1
                rows += waiting.pop(batch.producer_id, []) if committed else []
                waiting.pop(batch.producer_id, None)
                continue
            is_hidden = isolation == "read_committed" and batch.is_transactional
            into = waiting.setdefault(batch.producer_id, []) if is_hidden else rows
            for record in batch.records:
                moment = datetime.fromtimestamp(record.timestamp / 1000, tz=UTC)
                place = ("__consumer_offsets", partition, record.offset, moment)
                into.append((record.key, record.value, *place))
    return rows


def frame_of(spark, rows):
    return spark.createDataFrame(rows, DDL).repartition(3)  # in no order


def offsets_of(replayed):
    return sorted(map(tuple, replayed.offsets.select(*FIELDS).collect()))


def golden_offsets(case):
    groups = golden_data.json_of(case, "groups.json")["groups"]
    rows = [{"group_id": g["group_id"], **o} for g in groups for o in g["offsets"]]
    return sorted(tuple(row[field] for field in FIELDS) for row in rows)


def test_rows_of_a_log_without_transactions_give_kafkas_state(spark, monkeypatch):
    from coterie_spark.replay_job import frame

    monkeypatch.setattr(frame, "RUN_OFFSETS", 100)  # so that states of one partition merge
    replayed = replay_frame(frame_of(spark, rows_of("default50") + rows_of("default50")[:50]))
    assert offsets_of(replayed) == golden_offsets("default50")
    whole = replay(spark, golden_data.log("default50"))
    for name in ("members", "generations"):
        assert sorted(map(repr, replayed[name].collect())) == sorted(
            map(repr, whole[name].collect())
        )
    assert replayed.summary.groups == whole.summary.groups
    assert replayed.summary.records == whole.summary.records
    replayed.unpersist()
    whole.unpersist()


def test_committed_rows_of_transactions_give_what_readers_see(spark):
    replayed = replay_frame(
        frame_of(spark, rows_of("transactions", "read_committed")), history=True
    )
    assert offsets_of(replayed) == golden_offsets("transactions")
    pending = replayed.groups.select("pending_transactional_offsets").distinct().collect()
    assert [row[0] for row in pending] == [None]
    assert [row[0] for row in replayed.commits.select("outcome").distinct().collect()] == [None]
    assert any("producer ids" in note for note in replayed.notes)
    replayed.unpersist()


def test_a_record_stands_at_its_own_offset_and_a_fault_too(spark):
    key = bytes.fromhex("0001 0001 67 0001 74 00000003")
    value = bytes.fromhex("0003 0000000000000064 00000005 0002 6d64 00000000000003e8")
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    rows = [(key, value, "t", 3, 70, moment), (key, value[:9], "t", 3, 71, moment)]
    replayed = replay_frame(frame_of(spark, rows))
    (offset,) = replayed.offsets.collect()
    assert (offset.offset, offset.appended_batch_offset) == (100, 70)
    (fault,) = replayed.faults.collect()
    assert (fault.file, fault.position, fault.offset) == ("__consumer_offsets-3", None, 71)
    assert fault.kind == "value"
    with pytest.raises(CoterieError, match="__consumer_offsets-3, offset 71: value"):
        replay_frame(frame_of(spark, rows), on_fault="stop")


def test_a_column_that_is_missing_is_named(spark):
    with pytest.raises(CoterieError, match="no column 'timestamp'"):
        replay_frame(spark.createDataFrame([], DDL).drop("timestamp"))


def test_a_null_offset_is_named_by_its_column(spark):
    rows = [(commit_key(1, b"g", b"t", 0), None, "t", 3, None, None)]
    with pytest.raises(
        CoterieError, match="a row of partition 3 has a null in the column 'offset'"
    ):
        replay_frame(frame_of(spark, rows))


@pytest.mark.parametrize("paths", [None, 5, [5], {"a": 1}, b"path"])
def test_what_is_no_path_is_named_by_its_argument(spark, paths):
    with pytest.raises(CoterieError, match="paths must be a path, or a list of paths, not"):
        replay(spark, paths)


def test_a_run_counts_its_first_offset_and_has_no_time_where_its_rows_have_none():
    run = OffsetRun(3, 0, ScanOptions())
    rows = [(1, commit_key(1, b"g", b"t", 0), commit_value(5, -1, b"", 9)), (2, b"\x00\x63", None)]
    for offset, key, value in rows:
        run.add(offset, -1, key, value)
    list(run.finish())
    (read,) = run.fold.segments
    assert (read.first_offset, read.last_offset, read.records) == (1, 2, 2)
    assert (read.first_timestamp, read.max_timestamp) == (-1, -1)


def test_a_run_has_the_time_of_its_first_row_and_the_latest_of_all():
    """A row that Spark gives twice counts once; a frame shows no batches."""
    run = OffsetRun(3, 0, ScanOptions())
    rows = [(7, 5_000), (8, 9_000), (8, 9_500), (9, 4_000)]
    for offset, timestamp in rows:
        run.add(offset, timestamp, commit_key(1, b"g", b"t", 0), commit_value(5, -1, b"", 9))
    list(run.finish())
    (read,) = run.fold.segments
    assert (read.first_timestamp, read.max_timestamp) == (5_000, 9_000)
    assert (read.position, read.first_offset, read.last_offset) == (7, 7, 9)
    assert (read.records, read.batches) == (3, 0)
