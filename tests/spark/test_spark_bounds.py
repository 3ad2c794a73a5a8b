"""Pieces, chunks and rows of workers at their bounds. No JVM is started."""

import errno
import json
from dataclasses import dataclass

import numpy as np
import pytest

from coterie import CoterieError, PartialState, ScanOptions
from coterie._core.codec.batch import LogReader
from coterie._core.fold.fold_state import Fault, Scanned
from coterie.errors import FaultFound
from coterie.log.folders import TOPIC, Segment
from coterie.state import decoded
from coterie.state.pickling import pack
from coterie.state.replay_engine import Read
from coterie.state.schemas import SCHEMAS
from coterie_spark import frames, traces
from coterie_spark.replay_job import arrow, listing, merging, plan, products, scanning, writing
from coterie_spark.replay_job.arrow import MAX_MS, spark_schema, to_spark
from coterie_spark.replay_job.frame import OffsetRun, rows_worker
from support.log_writer import batch, commit, commit_key, each, group_key, group_value
from support.trace_data import header, join

pa = pytest.importorskip("pyarrow")


def segment(partition=0, size=100, compression=None, path="x.log"):
    return Segment(path, partition, 0, size, compression)


# ---- the driver


def report(number, *positions, stopped=False):
    """What a worker says about a partition with faults at these positions."""
    faults = [Fault(f"p-{number}", at, 0, "crc", None, "bad") for at in positions]
    return merging.ABOUT, pack(merging.ABOUT, (number, Read((), {}, faults, {}), 0, stopped))


def test_a_replay_that_stops_names_the_first_fault_of_the_first_partition_that_has_one():
    reports = [report(3, 5, 7, stopped=True), report(1, 20, 90, stopped=True), report(0, 1)]
    with pytest.raises(FaultFound, match="p-1: byte 20, base offset 0: crc: bad; stopped"):
        products.summary_of(reports, ())
    # what cannot be read at all comes before any fault
    with pytest.raises(CoterieError, match=r"^a is gone"):
        products.summary_of([*reports, (merging.ERROR, b"b"), (merging.ERROR, b"a is gone")], ())


# ---- merging


def piece_row(file, position, size, *, batches=1, times=(5, 5), gap=False, offsets=(0, 0)):
    return Scanned(file, position, size, batches, batches, *offsets, times[1], gap, times[0])


def test_pieces_of_a_file_are_one_where_they_follow_one_another():
    rows = [piece_row("f", 0, 10), piece_row("f", 10, 5), piece_row("f", 20, 5)]
    joined = merging.join_pieces([*rows, piece_row("g", 25, 5)])
    assert [row[:3] for row in joined] == [("f", 0, 15), ("f", 20, 5), ("g", 25, 5)]


def test_joined_pieces_keep_the_newest_time_the_last_offset_and_a_gap():
    rows = [
        piece_row("f", 0, 10, times=(5, 900), gap=True, offsets=(3, 9)),
        piece_row("f", 10, 10, times=(7, 500), offsets=(10, 12)),
    ]
    ((*_, first, last, newest, gap, since),) = merging.join_pieces(rows)
    assert (first, last, newest, gap, since) == (3, 12, 900, True, 5)


def test_nothing_is_merged_behind_the_place_where_recovery_cuts_the_log():
    options = ScanOptions(on_fault="recover")
    good, late = each(0, commit(5, 1), commit(6, 2))
    broken = late[:-1] + bytes([late[-1] ^ 1])
    merged = merging.PartitionMerge(0, "parquet")
    for data in (good, broken, late):
        state = PartialState(options)
        state.fold(0).scan(data)
        list(merged.add(state))
    fold = merged.state.partitions[0]
    assert fold.cut
    assert len(fold.faults) == 1
    assert [row["offset"] for row in merged.state.groups()[0]["offsets"]] == [1]


def test_each_commit_of_the_history_comes_once_whatever_the_pieces():
    merged = merging.PartitionMerge(0, "json")
    options = ScanOptions(history=True)
    batches = []
    for data in each(0, commit(5), commit(6), commit(7)):
        state = PartialState(options)
        state.fold(0).scan(data)
        batches += merged.add(state)
    batches += merged.finish()
    rows = [row for rows in batches for row in rows.to_pylist()]
    lines = b"".join(row["body"] for row in rows if row["name"] == merging.LINES).splitlines()
    assert [json.loads(line)["log_offset"] for line in lines] == [0, 1, 2]


@pytest.mark.parametrize(
    ("chunk_bytes", "counts"), [(200, [25] * 4), (799, [99, 1]), (5, [1] * 100)]
)
def test_a_table_travels_as_streams_of_about_so_many_bytes(monkeypatch, chunk_bytes, counts):
    monkeypatch.setattr(merging, "CHUNK_BYTES", chunk_bytes)
    table = pa.table({"n": pa.array(range(100), pa.int64())})  # 800 bytes
    merge = merging.PartitionMerge(3, "parquet")
    for first in (0, len(counts)):  # a second table of the name is numbered on
        rows = [row for rows in merge.put_table("groups", table) for row in rows.to_pylist()]
        assert [row["part"] for row in rows] == list(range(first, first + len(counts)))
        tables = [pa.ipc.open_stream(row["body"]).read_all() for row in rows]
        assert [one.num_rows for one in tables] == counts
        assert pa.concat_tables(tables) == table


def test_a_history_without_commits_is_no_product():
    for form in ("json", "parquet"):
        merge = merging.PartitionMerge(0, form)
        state = PartialState(ScanOptions(history=True))
        state.fold(0).scan(batch(0, [(5, group_key(b"g"), group_value(1, []))]))
        rows = [*merge.add(state), *merge.finish()]
        names = {row["name"] for one in rows for row in one.to_pylist()}
        assert not names & {merging.LINES, "commits"}
        assert merging.ABOUT in names


# ---- plans and scans


def test_pieces_of_two_partitions_are_two_units_of_a_task():
    pieces = [plan.Piece(segment(number), at, 0, -1, -1) for number in (1, 2) for at in range(2)]
    (task,) = plan.deal(pieces, 1)
    assert [[piece.segment.partition for piece in unit] for unit in task] == [[1, 1], [2, 2]]


def test_each_cut_knows_the_offset_that_its_first_batch_should_have():
    data = b"".join(batch(at, [commit(5), commit(6, partition=1)]) for at in (0, 2, 4))
    cuts = plan.cut_segment(memoryview(data), 1)
    assert [expected for _, _, expected in cuts] == [-1, 2, 4]


MIB = 1 << 20


@pytest.mark.parametrize(
    ("mib", "cores", "piece_mib"),
    [(600, 1, 128), (600, 2, 100), (600, 4, 50), (600, 8, 32), (90, 1, 32)],
)
def test_a_piece_is_a_share_for_three_tasks_of_a_core_within_bounds(mib, cores, piece_mib):
    segments = [segment(size=mib // 2 * MIB), segment(size=mib // 2 * MIB)]
    assert plan.piece_bytes(segments, cores) == piece_mib * MIB


@pytest.mark.parametrize(
    ("cores", "limit", "counts"),
    [
        (1, None, [10, 10, 10]),  # a share for three tasks of a core
        (2, None, [5] * 6),
        (50, None, [4] * 7 + [2]),  # at least 4 MiB
        (1, 6 * MIB, [6] * 5),
    ],
)
def test_tasks_get_equal_shares_and_no_more_once_they_are_full(cores, limit, counts):
    pieces = plan.pieces_of([segment(size=MIB, path=f"{at}.log") for at in range(30)], {})
    tasks = plan.deal(pieces, cores, limit)
    assert [len(unit) for (unit,) in tasks] == counts


def test_a_piece_without_bytes_weighs_nothing_and_holds_nothing():
    piece = plan.Piece(segment(), 0, 0, 0, -1)
    assert piece.weight == 0
    state = scanning.scan_unit([piece], ScanOptions(), lambda _: memoryview(batch(0, [commit(5)])))
    assert state.groups() == []


def test_a_unit_is_named_by_its_first_piece_and_reads_each_segment_once():
    first, second = each(0, commit(5), commit(6, partition=1))
    two = [segment(3, size=len(first), path=f"{at}.log") for at in range(2)]
    data, read = {"0.log": first + second, "1.log": second}, []

    def bytes_of(one):
        read.append(one.path)
        return memoryview(data[one.path])

    cuts = {0: [(0, len(first), -1), (len(first), -1, 1)]}
    tasks = plan.deal(plan.pieces_of(two, cuts), 1)
    assert len(tasks) == 1
    numbers = pa.RecordBatch.from_pydict({"id": pa.array([0], pa.int64())})
    rows = scanning.scan_worker(tasks, ScanOptions(), bytes_of)([numbers])
    assert {(row["partition"], row["number"]) for b in rows for row in b.to_pylist()} == {(3, 0)}
    assert read == ["0.log", "1.log"]


def test_a_compressed_segment_weighs_what_it_inflates_to():
    assert plan.Piece(segment(compression="gz"), 0, 0, -1, -1).weight == 100 * plan.INFLATION
    assert plan.Piece(segment(), 0, 20, -1, -1).weight == 80
    assert plan.Piece(segment(compression="gz"), 0, 20, 50, -1).weight == 30


@dataclass
class Body:
    size: int

    def to_bytes(self):
        return bytes(range(self.size))


@pytest.mark.parametrize(("size", "last"), [(3, [3]), (4, [4]), (5, [4, 1]), (8, [4, 4])])
def test_a_state_ends_with_its_last_chunk(monkeypatch, size, last):
    monkeypatch.setattr(scanning, "CHUNK_BYTES", 4)
    batches = list(scanning.state_batches(0, 7, Body(size)))
    rows = [row for rows in batches for row in rows.to_pylist()]
    assert [len(row["body"]) for row in rows] == last
    assert [row["last"] for row in rows] == [False] * (len(last) - 1) + [True]
    assert list(merging.states_in(batches)) == [(0, None, bytes(range(size)))]


def test_a_fault_in_a_later_piece_has_its_place_in_the_segment():
    first, second = each(0, commit(5), (6, b"\0", b""))
    data = memoryview(first + second)
    pieces = plan.pieces_of([segment()], {0: plan.cut_segment(data, 1)})
    state = scanning.scan_unit(pieces, ScanOptions(), lambda _: data)
    assert [fault[1] for fault in state.fold(0).faults] == [len(first)]


# ---- rows of Spark's own Kafka source


def test_a_record_that_came_twice_is_applied_once_and_the_newest_is_known():
    run = OffsetRun(3, 0, ScanOptions(history=True))
    for offset, time in ((5, 900), (5, 900), (6, 500), (6, 500)):
        run.add(offset, time, *commit(time, offset)[1:])
    list(run.finish())
    (read,) = run.fold.segments
    keys_and_values = sum(len(part) for part in commit(900, 5)[1:] + commit(500, 6)[1:])
    assert read == Scanned(f"{TOPIC}-3", 5, keys_and_values, 0, 2, 5, 6, 900, False, 900)
    assert [row[1] for row in run.fold.history.rows()] == [5, 6]


def test_rows_become_a_state_for_each_run_and_a_time_that_is_null_is_unknown():
    key, value = commit(7)[1:]
    rows = [
        *((key, value, 1, 3, 50, 0), (key, value, 1, 4, None, 0), (key, None, 1, 9, 60, 1)),
        *((key, value, None, 9, None, 1), (key, value, 2, 8, 70, 0), (key, value, 2, None, 7, 0)),
    ]
    names = ("key", "value", "partition", "offset", "timestamp", "run")
    kinds = (pa.binary(), pa.binary(), pa.int32(), pa.int64(), pa.int64(), pa.int64())
    schema = pa.schema(list(zip(names, kinds, strict=True)))
    batches = [arrow.rows_of(schema, *rows[:2]), arrow.rows_of(schema, *rows[2:])]
    made = list(rows_worker(ScanOptions())(batches))
    found = []
    for partition, error, body in merging.states_in(made):
        found.append((partition, error and error.partition(";")[0]))
        if error is None:
            fold = PartialState.from_bytes(body).partitions[partition]
            found[-1] += tuple(read[4:8] for read in fold.segments)
    assert found == [
        (1, None, (2, 3, 4, 50)),  # records, first and last offset, newest time
        (1, None, (1, 9, 9, 60)),
        (None, None, (1, 9, 9, -1)),
        (2, "a row of partition 2 has a null in the column 'offset'"),
    ]
    assert [row["number"] for b in made for row in b.to_pylist()] == [0, 1, 1, 0]
    (whole,) = rows_worker(ScanOptions())(batches[:1])
    assert [one for one, *_ in merging.states_in([whole])] == [1]


# ---- decoded records


def rows_of(data, **fields):
    fields = {"partition": 0, "segment": "s"} | fields
    return [row for rows in decoded.record_batches(data, **fields) for row in rows.to_pylist()]


def test_metadata_is_each_records_own_in_every_window(monkeypatch):
    monkeypatch.setattr(decoded, "ROWS_AT_ONCE", 2)
    metadata = [b"", b"one", b"", b"three", b"four"]
    data = b"".join(each(0, *(commit(5, metadata=text) for text in metadata)))
    assert [row["metadata"] for row in rows_of(data)] == [text.decode() for text in metadata]


def test_a_tombstone_has_a_partition_and_no_offset():
    data = batch(0, [(5, commit_key(1, b"g", b"t", 3), None)])
    (row,) = rows_of(data)
    assert (row["partition"], row["offset"], row["tombstone"]) == (3, None, True)


def test_no_bytes_are_not_null():
    pairs = (b"", b""), (None, None), (b"k", b""), (None, b"v")
    rows = rows_of(batch(0, [(5, key, value) for key, value in pairs]))
    assert [(row["key"], row["value"]) for row in rows] == [*pairs]
    assert [row["tombstone"] for row in rows] == [value is None for _, value in pairs]
    assert {row["batch_position"] for row in rows} == {0}


def test_fields_of_groups_are_each_records_own_in_every_window(monkeypatch):
    monkeypatch.setattr(decoded, "ROWS_AT_ONCE", 2)
    members = [[b"a"], [], [b"b", b"c"], [b"a"], []]
    values = [(5, group_key(b"g"), group_value(at, ids)) for at, ids in enumerate(members)]
    rows = rows_of(b"".join(each(0, *values, commit(5))))
    assert [row["members"] for row in rows] == [*map(len, members), None]
    assert [row["generation"] for row in rows] == [*range(5), None]
    assert [row["leader"] for row in rows] == ["a", None, "b", "a", None, None]


@pytest.mark.parametrize("ms", [decoded.FIRST_MS - 1, decoded.FIRST_MS, -5, decoded.LAST_MS + 1])
def test_a_time_of_a_commit_is_shown_from_the_year_1_to_9999(ms):
    (row,) = rows_of(batch(0, [commit(5, committed=ms)]), names=["commit_timestamp"])
    shown = row["commit_timestamp"]
    assert (shown is None) == (not decoded.FIRST_MS <= ms <= decoded.LAST_MS)
    assert ms != decoded.FIRST_MS or shown.timetuple()[:6] == (1, 1, 1, 0, 0, 0)


@pytest.mark.parametrize("ms", [0, decoded.LAST_MS, decoded.LAST_MS + 1])
def test_the_last_time_of_the_year_9999_is_shown_and_none_beyond(ms):
    (row,) = rows_of(batch(0, [commit(ms)]), names=["timestamp"])
    shown = row["timestamp"]
    assert (shown is None) == (ms > decoded.LAST_MS)
    assert ms != decoded.LAST_MS or shown.year == 9999


def test_the_last_of_some_names_is_a_name_and_what_lies_beyond_is_null():
    names = decoded.dictionary(np.array([0, 1, 2, -1]), ["a", "b"], pa)
    assert names.to_pylist() == ["a", "b", None, None]


def test_places_of_a_later_piece_are_those_in_the_segment(tmp_path, monkeypatch):
    source = pytest.importorskip("coterie_spark.source.data_source", reason="needs the extra spark")
    monkeypatch.setattr(source, "SPARK_PIECE_BYTES", 1)
    folder = tmp_path / f"{TOPIC}-0"
    folder.mkdir()
    data = b"".join(each(0, commit(5), commit(6), commit(7)))
    (folder / f"{0:020}.log").write_bytes(data)
    reader = source.ConsumerOffsetsReader([str(tmp_path)], ("batch_position",), None, None)
    positions = [
        row["batch_position"]
        for piece in reader.partitions()
        for rows in reader.read(piece)
        for row in rows.to_pylist()
    ]
    assert positions == [batch.position for batch in LogReader(data)]


# ---- times, files, functions, traces


@pytest.mark.parametrize("far", [1 << 62, -(1 << 62)])
def test_a_time_too_far_off_is_the_nearest_of_its_own_side_and_nulls_stay(far):
    kind = pa.list_(pa.timestamp("ms", tz="UTC"))
    whole = pa.schema([("times", kind)])
    rows = pa.array([[far, None, 5], None, []], pa.list_(pa.int64())).cast(kind)
    found = to_spark(pa.Table.from_arrays([rows], schema=whole), spark_schema(whole))
    nearest = MAX_MS * 1000 if far > 0 else -MAX_MS * 1000
    numbers = found["times"].cast(pa.list_(pa.int64())).to_pylist()
    assert numbers == [[nearest, None, 5000], None, []]


def test_files_that_kafka_set_aside_are_named_and_not_read():
    names = [f"{0:020}.log", f"{0:020}.log.swap", f"{5:020}.log.deleted", f"{0:020}.index"]
    aside = []
    entries = [(f"hdfs:/l/{TOPIC}-7/{name}", name, False, 9) for name in names]
    segments = list(listing._folder(entries, aside))
    assert [(s.path[-4:], s.partition, s.base_offset) for s in segments] == [(".log", 7, 0)]
    assert [path.rpartition("/")[2] for path in aside] == names[1:3]


def test_each_row_is_judged_at_its_own_time_and_retention():
    pd = pytest.importorskip("pandas")
    columns = ([10] * 4, [None, None, None, 50], [19, 20, 20, 49], [10, 10, 11, 1])
    gone = frames.expired(*map(pd.Series, columns))
    assert gone.tolist() == [False, True, False, False]


def traced(tmp_path, *lines):
    path = tmp_path / "a.trace.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)) + "\n")
    names = pa.RecordBatch.from_pylist([{"trace": "a", "path": str(path)}])
    return [row for rows in traces.run_batches([names]) for row in rows.to_pylist()]


def test_events_of_a_trace_are_numbered_through_and_its_error_is_one_more(tmp_path, monkeypatch):
    monkeypatch.setattr(traces, "ROWS", 2)
    events = [header(), *(join(at, at, client_id=f"c{at}") for at in range(4))]
    whole = traced(tmp_path, *events, {"at": 9000, "op": "advance"})
    assert [row["number"] for row in whole] == list(range(1, len(whole) + 1))
    assert len(whole) > 4
    assert not any(row["error"] for row in whole)
    (wrong,) = traced(tmp_path, *events, {"at": 5, "op": "sing"})
    assert wrong["number"] == 1
    assert '"é"' in traced(tmp_path, header(), join(0, 1, group_id="é"))[0]["line"]
    assert "sing" in wrong["error"]


def parquet_bytes(name):
    """A product of a table: an Arrow stream without rows."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, SCHEMAS[name]()) as stream:
        stream.write_table(SCHEMAS[name]().empty_table())
    return sink.getvalue().to_pybytes()


def test_a_table_has_the_parts_that_workers_reported_and_nothing_else(tmp_path):
    """Files of a worker that died, or whose task another worker did, are in no table."""
    pq = pytest.importorskip("pyarrow.parquet")
    folder = writing.work_folder(tmp_path)
    folder.mkdir()
    bodies = pa.RecordBatch.from_pydict({"name": ["groups"], "body": [parquet_bytes("groups")]})
    reported = [*writing.write_files([bodies], folder, "7").items()]
    reported += writing.write_files([bodies], folder, "8").items()
    writing.write_files([bodies], folder, "9")  # not reported
    (folder / "groups-10").write_bytes(b"PAR1")
    writing.name_parts(tmp_path, ["groups", "faults"], reported)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["faults.parquet", "groups.parquet"]
    parts = sorted(path.name for path in (tmp_path / "groups.parquet").iterdir())
    assert parts == ["part-00000.parquet", "part-00001.parquet"]
    assert [path.name for path in (tmp_path / "faults.parquet").iterdir()] == parts[:1]
    for name in ("groups", "faults"):
        assert pq.read_table(tmp_path / f"{name}.parquet").schema == SCHEMAS[name]()


def test_a_worker_that_continues_after_the_end_adds_nothing_to_the_output(tmp_path):
    folder = writing.work_folder(tmp_path)
    folder.mkdir()
    writing.name_parts(tmp_path, ["groups"], [])
    bodies = pa.RecordBatch.from_pydict({"name": ["groups"], "body": [parquet_bytes("groups")]})
    (result,) = writing.write_worker(str(tmp_path))([bodies])
    (row,) = result.to_pylist()
    assert row["errno"] == errno.ENOENT
    assert not row["error"].startswith("[")  # the number has a column of its own
    assert [path.name for path in tmp_path.iterdir()] == ["groups.parquet"]
