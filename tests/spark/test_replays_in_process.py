"""Replays as the driver plans them, run by a stand-in for Spark. No JVM is started."""

import gzip
import json
import re
from base64 import urlsafe_b64encode
from datetime import timedelta, timezone
from unittest.mock import MagicMock

import numpy as np
import pytest

from coterie import CoterieError, ScanOptions
from coterie.errors import FaultFound
from coterie.log.folders import Segment
from coterie.state.local_replay import replay as replay_locally
from coterie.state.replay_engine import ReplayRequest
from coterie_spark.replay_job import (
    cutting,
    hadoop,
    merging,
    plan,
    products,
    roads,
    scanning,
    settings,
    tasks,
)
from support import golden_data
from support import log_writer as write
from support.commandline import folder_of

pytest.importorskip("pyspark")
pq = pytest.importorskip("pyarrow.parquet")
from coterie_spark import replay, replay_frame  # noqa: E402
from coterie_spark.replay_job import engine, frame  # noqa: E402
from coterie_spark.replay_job.listing import listing_of_paths  # noqa: E402
from support.replayed_tables import WRONG_ARGUMENTS, local_rows, rows_of  # noqa: E402
from support.spark_stand_in import EPOCH, ROWS, Session, patched  # noqa: E402

STATES = ("groups", "members", "offsets", "generations", "faults")


@pytest.fixture
def session(monkeypatch):
    patched(monkeypatch)
    return Session()


@pytest.fixture
def small_pieces(monkeypatch):
    """Cut every segment into pieces of some batches, and give few of them to each task."""
    for name, size in (("SPARK_PIECE_BYTES", 16_000), ("SPARK_PIECE_BYTES_MIN", 16_000)):
        monkeypatch.setattr(plan, name, size)
    for name, size in (("TASK_BYTES", 16_000), ("TASK_BYTES_MIN", 9_000)):
        monkeypatch.setattr(plan, name, size)
    monkeypatch.setattr(scanning, "CHUNK_BYTES", 5000)
    monkeypatch.setattr(merging, "CHUNK_BYTES", 500)


def replayed_rows(session, paths, **options):
    replayed = replay(session, paths, **options)
    try:
        return {name: rows_of(table.toArrow()) for name, table in replayed.items()}
    finally:
        replayed.unpersist()
        assert session.persisted == []


@pytest.mark.parametrize("form", [str, golden_data.Path.as_uri])
@pytest.mark.parametrize(
    ("case", "history"), [("transactions", True), ("old-formats", False), ("compacted", True)]
)
def test_workers_fold_a_log_as_one_process_does(session, small_pieces, case, history, form):
    log = golden_data.log(case)
    found = replayed_rows(session, form(log), history=history)
    assert found.keys() == {*STATES, *(["commits"] if history else [])}
    expected = local_rows([log], history=history)
    assert {name: found[name] for name in found} == {name: expected[name] for name in found}


def test_faults_are_those_of_one_process_though_segments_are_cut(session, small_pieces, tmp_path):
    golden_data.gather(tmp_path, ["corrupt/magic-3", "corrupt/length-2gib"])
    for on_fault in ("skip", "load", "recover"):
        found = replayed_rows(session, tmp_path, on_fault=on_fault)
        expected = local_rows([tmp_path], on_fault=on_fault)
        assert found == {name: expected[name] for name in found}, on_fault
        assert found["faults"]
    with pytest.raises(FaultFound, match=r"__consumer_offsets-\d+/0+\.log: byte \d+.*; stopped"):
        replay(session, tmp_path, on_fault="stop")
    assert session.persisted == []


def test_a_segment_is_cut_if_it_is_larger_than_a_piece_and_not_compressed(
    session, tmp_path, monkeypatch
):
    one = write.batch(0, [write.commit(5)])
    two = one + write.batch(1, [write.commit(6)])
    names = [f"{at:020}.log" for at in range(4)]
    names[2] += ".gz"
    paths = [tmp_path / name for name in names]
    for path, body in zip(paths, (one, two, two, one), strict=True):
        path.write_bytes(body)
    listing = listing_of_paths(session, [str(path) for path in paths])
    monkeypatch.setattr(plan, "piece_bytes", lambda segments, cores: len(one))
    cuts = cutting.cut_on_workers(session, listing.segments, 2)
    assert cuts == {1: [(0, len(one), -1), (len(one), 2 * len(one), 1)]}
    monkeypatch.setattr(plan, "piece_bytes", lambda segments, cores: 2 * len(one))
    assert cutting.cut_on_workers(session, listing.segments, 2) == {}


def test_each_large_segment_is_cut_by_a_task_up_to_three_for_a_core(session, tmp_path, monkeypatch):
    body = b"".join(write.each(0, *[write.commit(5)] * 3))
    for at in range(5):
        (tmp_path / f"{at}.log").write_bytes(body)
    listing = listing_of_paths(session, [str(tmp_path / f"{at}.log") for at in range(5)])
    monkeypatch.setattr(plan, "piece_bytes", lambda segments, cores: 1)
    chosen = []
    ranged = session.range
    monkeypatch.setattr(session, "range", lambda *a: chosen.append(a[3]) or ranged(*a))
    for cores in (1, 2):
        cuts = cutting.cut_on_workers(session, listing.segments, cores)
        assert list(cuts) == list(range(5))
        for those in cuts.values():
            assert [expected for _, _, expected in those] == [-1, 1, 2]
    assert chosen == [3, 5]


def test_a_segment_that_a_worker_cannot_cut_is_one_line(session, tmp_path, monkeypatch):
    log = tmp_path / "a.log"
    log.write_bytes(write.batch(0, [write.commit(5)]))
    listing = listing_of_paths(session, log)
    monkeypatch.setattr(plan, "piece_bytes", lambda segments, cores: 1)
    log.unlink()
    with pytest.raises(CoterieError, match=r"a\.log: .*No such file.*by their absolute names"):
        cutting.cut_on_workers(session, listing.segments, 2)


@pytest.mark.parametrize("form", [str, golden_data.Path.as_uri])
@pytest.mark.parametrize(("numbers", "most"), [((0, 3, 5, 7), 1), (range(8), 2)])
def test_partitions_are_merged_in_tasks_of_their_own(
    session, tmp_path, monkeypatch, numbers, most, form
):
    """There are six tasks for two cores; eight partitions are two more than that."""
    monkeypatch.setattr(plan, "TASK_BYTES", 1)  # each piece is scanned by a task of its own
    for number in numbers:
        folder = tmp_path / f"__consumer_offsets-{number}"
        folder.mkdir()
        data = write.batch(0, [write.commit(5, group=b"g%d" % number)])
        (folder / f"{0:020}.log").write_bytes(data)
    parts = replay(session, form(tmp_path)).products.parts()
    found = [{row["partition"] for row in table.to_pylist()} for table in parts]
    assert sorted(number for task in found for number in task) == list(numbers)
    assert len(found) == min(len(numbers), 6)
    assert max(map(len, found)) == most


def test_unknown_partitions_are_merged_as_one(session, tmp_path):
    for at, data in enumerate(write.each(0, write.commit(5), write.commit(6, partition=1))):
        (tmp_path / f"{at}.log").write_bytes(data)
    paths = [tmp_path / "0.log", tmp_path / "1.log"]
    found, expected = replayed_rows(session, paths), local_rows(paths)
    assert found == {name: expected[name] for name in found}
    assert len(found["offsets"]) == 2


def test_compressed_and_empty_segments_at_a_url_are_read_too(session, tmp_path):
    folder = tmp_path / "copy [1] {a} 5%20é+" / "__consumer_offsets-3"
    folder.mkdir(parents=True)
    first, second, third = write.each(0, write.commit(5), write.commit(6, partition=1),
                                      write.commit(7, partition=2))  # fmt: skip
    (folder / f"{0:020}.log.gz").write_bytes(gzip.compress(first))
    (folder / f"{1:020}.log").write_bytes(second)
    (folder / f"{2:020}.log").touch()
    (folder / f"{2:020}.index").write_bytes(b"x")
    (folder / f"{0:020}.log.deleted").write_bytes(third)
    (folder / f"{7:020}.log").mkdir()
    url = f"file:{folder.parent}"
    for given in (url, f"{url}/", f"file:{folder}", [url, url]):
        replayed = replay(session, given)
        assert replayed.summary.records == 2
        assert replayed.summary.passed_over == (f"file:{folder}/{0:020}.log.deleted",)
        assert len(replayed.offsets.collect()) == 2
        replayed.unpersist()
    alone = replay(session, f"file:{folder}/{1:020}.log")
    assert alone.summary.records == 1
    assert session.conf.get(hadoop._SPLIT_BYTES) == "134217728"  # as before
    (folder / f"{0:020}.log.gz").write_bytes(gzip.compress(first)[:-4])
    with pytest.raises(CoterieError, match=r"not a whole \.gz file"):
        replay(session, url)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("file:{home}/none", "no such file or folder"),
        ("file:{home}", "no __consumer_offsets-N folder in it"),
        ("file:{home}/other.txt", "not a log segment"),
        ("nowhere://host/log", "cannot be read through Hadoop: UnsupportedFileSystemException"),
    ],
)
def test_a_url_without_a_log_is_named(session, tmp_path, url, says):
    (tmp_path / "other.txt").touch()
    (tmp_path / "__consumer_offsets-3").touch()  # no folder
    given = url.format(home=tmp_path)
    with pytest.raises(CoterieError, match=f"{re.escape(given)}: {says}") as caught:
        replay(session, given)
    assert "\n" not in str(caught.value)


def test_urls_need_a_session_with_a_jvm_of_its_own(session):
    session._jvm = None
    with pytest.raises(CoterieError, match="URLs need a session with its own JVM"):
        replay(session, "file:/a")
    del session._jvm
    with pytest.raises(CoterieError, match="URLs need a session with its own JVM"):
        replay(session, "file:/a")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        *WRONG_ARGUMENTS,
        ({"paths": 5}, "paths must be a path, or a list of paths, not 5"),
        ({"paths": ["a", 5]}, "paths must be a path, or a list of paths, not 5"),
    ],
)
def test_a_wrong_argument_is_one_line(session, arguments, says):
    with pytest.raises(CoterieError, match=re.escape(says)) as caught:
        replay(session, **arguments)
    assert "\n" not in str(caught.value)


def test_topic_ids_are_those_of_one_process_though_segments_are_cut(
    session, small_pieces, tmp_path
):
    ids = [None, *(bytes([15 - n]) * 16 for n in range(9))]
    records = [
        (at, write.commit_key(1, b"g", b"t", at % 70), write.commit_value(at, 0, b"", at, ids[n]))
        for at in range(1000)
        for n in [at // 7 % len(ids)]
    ]
    log = tmp_path / "a.log"
    log.write_bytes(b"".join(write.each(0, *records)))
    tables = replayed_rows(session, log, history=True)
    assert tables == local_rows([log], history=True)
    rows = tables["offsets"]
    found = {(row["offset"], row["topic_id"]) for row in map(json.loads, rows)}
    names = [name and urlsafe_b64encode(name).decode().rstrip("=") for name in ids]
    assert found == {(at, names[at // 7 % len(ids)]) for at in range(930, 1000)}
    found = {(row["offset"], row["topic_id"]) for row in map(json.loads, tables["commits"])}
    assert found == {(at, names[at // 7 % len(ids)]) for at in range(1000)}


def test_a_time_and_a_choice_of_groups_hold(session, tmp_path):
    log = tmp_path / "a.log"
    groups = (b"g", b"h", b"gh")
    commits = [write.commit(1000 * at, at, group=group) for at in (1, 2, 3) for group in groups]
    log.write_bytes(b"".join(write.each(0, *commits)))
    moment = EPOCH + timedelta(seconds=2)
    times = (2000, np.int64(2000), moment, moment.isoformat())
    for at in (*times, moment.astimezone(timezone(timedelta(hours=5)))):
        for chosen in ("gh", ["gh"], iter(["gh"])):
            (row,) = replay(session, log, at=at, groups=chosen).offsets.collect()
            assert (row.group_id, row.offset) == ("gh", 2)
    rows = replay(session, log, groups=["g", "h"]).offsets.collect()
    assert sorted((row.group_id, row.offset) for row in rows) == [("g", 3), ("h", 3)]


def test_what_has_no_time_counts_as_of_any(session):
    paths = [golden_data.log("old-formats")]
    rows = replayed_rows(session, paths, at=-2)
    assert rows == {name: local_rows(paths, at_ms=-2)[name] for name in rows}
    last = {}
    for record in golden_data.records("old-formats"):
        if record["timestamp_type"] == "NoTimestampType" and record["key"]["version"] < 2:
            data = record["key"]["data"]
            key = record["partition"], data["group"], data["topic"], data["partition"]
            last.pop(key, None)
            if record["value"] is not None:
                last[key] = (data["group"], data["topic"], record["value"]["data"]["offset"])
    found = [json.loads(row) for row in rows["offsets"]]
    commits = [(row["group_id"], row["topic"], row["offset"]) for row in found]
    assert sorted(commits) == sorted(last.values())
    assert commits


def test_tables_are_attributes_and_commits_are_there_with_history_alone(session):
    log = golden_data.log("transactions")
    replayed = replay(session, log)
    for name in STATES:
        assert getattr(replayed, name) is replayed[name]
    assert list(replayed) == [*products.table_names(ScanOptions())]
    assert len(replayed) == len(STATES)
    assert replayed.notes == ()
    with pytest.raises(AttributeError, match="replay with history=True"):
        replayed.commits  # noqa: B018
    assert repr(replayed).startswith(f"<Replay of {replayed.summary.records} records, 14 groups")
    whole = replay(session, log, history=True)
    assert whole.commits is whole["commits"]


@pytest.mark.parametrize(("setting", "rows"), [(None, 1), ("256m", 10_000)])
def test_rows_of_a_batch_are_bounded_where_spark_does_not_bound_their_bytes(session, setting, rows):
    if setting:
        session.conf.set(settings.BYTES_PER_BATCH, setting)
    log = golden_data.log("corrupt/fine")
    replay(session, log)
    assert {*session.rows_per_batch} == {rows}
    session.rows_per_batch.clear()
    replay(session, log.as_uri())
    assert {*session.rows_per_batch} == {rows if setting else settings.CHUNK_ROWS}
    assert session.conf.get(ROWS) == "10000"


def test_the_driver_folds_a_small_log_without_a_job(session, monkeypatch):
    session.conf.set(roads.SETTING, str(1 << 20))
    monkeypatch.setattr(session, "range", None)  # what a job begins with
    log = golden_data.log("transactions")
    found = replayed_rows(session, log, history=True)
    assert found == local_rows([log], history=True)
    with pytest.raises(CoterieError, match="byte 10616"):
        replay(session, golden_data.log("corrupt/magic-3"), on_fault="stop")
    session.rows_per_batch.clear()
    replay(session, log.as_uri()).unpersist()
    assert session.rows_per_batch  # one at a URL takes jobs, however small it is


def test_a_session_without_a_context_runs_as_many_tasks_as_a_range_has(session):
    assert tasks.cores_of(session) == 2
    session.sparkContext.defaultParallelism = 0
    assert tasks.cores_of(session) == 1
    over_connect = Session()
    del over_connect.sparkContext
    real = over_connect.range
    for count in (1, 3):  # the last one has the row
        over_connect.range = lambda end, count=count: real(0, end, 1, count)
        assert tasks.cores_of(over_connect) == count


def test_each_file_is_one_split_while_a_log_at_a_url_is_read(session):
    names = ("spark.sql.files.maxPartitionBytes", "spark.sql.files.openCostInBytes")
    before = [session.conf.get(name) for name in names]
    for sizes in ((3, 70, 5), (0, 0)):
        segments = [Segment(f"file:/{at}", 0, at, size, None) for at, size in enumerate(sizes)]
        with hadoop.whole_files(session, segments):
            for name in names:
                assert int(session.conf.get(name)) >= max(*sizes, 1)
        assert [session.conf.get(name) for name in names] == before


# ---- the command


class Progress:
    """What a command shows."""

    def __init__(self):
        self.calls = []

    def __getattr__(self, name):
        return lambda *values: self.calls.append((name, *values))


@pytest.mark.parametrize("limit", ["-1", str(1 << 20)])
@pytest.mark.parametrize("form", ["parquet", "json"])
@pytest.mark.parametrize("history", [False, True])
def test_the_command_writes_what_the_local_engine_writes(
    session, tmp_path, monkeypatch, limit, form, history, small_pieces
):
    session.conf.set(roads.SETTING, limit)
    monkeypatch.setattr(engine, "POLL_S", 0.001)
    log = golden_data.log("transactions")
    size = sum(path.stat().st_size for path in golden_data.segments("transactions"))
    options = ScanOptions(history=history)
    summaries = []
    progress = Progress()
    for name in ("spark", "one"):
        (tmp_path / name).mkdir()
        request = ReplayRequest((str(log),), tmp_path / name, form, options)
        if name == "spark":
            summaries.append(engine.replay_in(session, request, progress))
        else:
            summaries.append(replay_locally(request, Progress()))
    assert session.persisted == []  # the session may be another's, and go on
    assert summaries[0] == summaries[1]
    assert summaries[0].groups == 14
    names = folder_of(tmp_path / "one")
    assert folder_of(tmp_path / "spark") == names
    for name in names:
        ours, theirs = tmp_path / "spark" / name, tmp_path / "one" / name
        if form == "json":
            assert ours.read_bytes() == theirs.read_bytes()
        else:
            found, expected = pq.read_table(ours), pq.read_table(theirs)
            assert found.schema == expected.schema, name
            assert rows_of(found) == rows_of(expected), name
            parts = folder_of(ours)
            assert parts == [f"part-{number:05d}.parquet" for number in range(len(parts))]
    shown = [call for call in progress.calls if call[0] != "advance" or call[1]]
    steps = [("total", size), ("stage", "reading"), ("advance", size), ("stage", "writing")]
    assert shown == steps


def test_the_failure_of_a_session_that_ended_is_reported_not_what_follows_from_it():
    frame = MagicMock()
    held = frame.persist.return_value
    held.where.return_value.collect.side_effect = CoterieError("the session has ended")
    held.unpersist.side_effect = ConnectionRefusedError
    with pytest.raises(CoterieError, match="the session has ended"):
        products.OnWorkers(frame)


# ---- rows of Kafka's source

ROWS_DDL = "key binary, value binary, topic string, partition int, offset long, timestamp timestamp"


def rows_of_records(records):
    """Rows as Spark's Kafka source gives them, of (partition, offset, record)."""
    moment = lambda ms: None if ms is None else EPOCH + timedelta(milliseconds=ms)  # noqa: E731
    return [(key, value, "t", number, offset, moment(ms))
            for number, offset, (ms, key, value) in records]  # fmt: skip


def test_rows_in_any_order_give_the_state_of_their_log(session, tmp_path, monkeypatch):
    monkeypatch.setattr(frame, "RUN_OFFSETS", 2)  # so that states of one partition merge
    records = []
    for number in (3, 8):
        member = (9, write.group_key(b"m"), write.group_value(number, [b"one"]))
        commits = [write.commit(100 * at, 7 * at + number, partition=at % 2) for at in range(5)]
        folder = tmp_path / f"__consumer_offsets-{number}"
        folder.mkdir()
        data = b"".join(write.each(0, member, *commits))
        (folder / f"{0:020}.log").write_bytes(data)
        records += [(number, at, one) for at, one in enumerate([member, *commits])]
    rows = session.createDataFrame(rows_of_records([*records, *records[:3]]), ROWS_DDL)
    replayed = replay_frame(rows.repartition(3))
    expected = local_rows([tmp_path])
    for name in ("members", "offsets", "generations"):
        assert rows_of(replayed[name].toArrow()) == expected[name], name
    assert (replayed.summary.records, replayed.summary.groups) == (12, 2)
    assert {row.pending_transactional_offsets for row in replayed.groups.collect()} == {None}
    assert "commits" not in replayed
    *notes, of_g, of_m = replayed.notes
    assert tuple(notes) == frame.NOTES
    assert of_g.startswith("group 'g' has records in partitions 3 and 8 (the newest)")
    assert of_m.startswith("group 'm' has records in partitions 3 and 8 (the newest)")
    assert 256 in session.rows_per_batch
    whole = replay_frame(rows, at=250, history=True, groups="g")
    assert {row.outcome for row in whole.commits.collect()} == {None}
    assert whole.commits.count() == 6
    assert {row.group_id for row in whole.groups.collect()} == {"g"}


def test_a_fault_of_rows_has_an_offset(session):
    time, key, value = write.commit(5)
    records = [(3, 70, (time, key, value)), (3, 71, (time, key, value[:9]))]
    rows = session.createDataFrame(rows_of_records(records), ROWS_DDL)
    (fault,) = replay_frame(rows).faults.collect()
    assert (fault.file, fault.position, fault.offset) == ("__consumer_offsets-3", None, 71)
    with pytest.raises(CoterieError, match="__consumer_offsets-3, offset 71: value"):
        replay_frame(rows, on_fault="stop")
    with pytest.raises(CoterieError, match="no column 'timestamp' to replay; needed: key, value"):
        replay_frame(rows.drop("timestamp"))


# ---- tasks of single rows


@pytest.mark.parametrize("count", [1, 2, 7])
def test_each_row_comes_to_a_task_of_its_own(session, monkeypatch, count):
    rows = [(f"{n}",) for n in range(count)]
    made = tasks.a_row_a_task(session, rows, "name string")
    assert made.columns == ["name"]
    assert [table.num_rows for table in made.parts()] == [1] * count
    monkeypatch.setattr(tasks, "TASKS", 2)
    made = tasks.a_row_a_task(session, rows, "name string")
    assert sorted(table.num_rows for table in made.parts()) == sorted(
        {1: [1], 2: [1, 1], 7: [3, 4]}[count]
    )
    assert tasks.a_row_a_task(session, [], "name string").count() == 0


def test_products_about_partitions_are_the_only_ones_that_the_driver_reads(session):
    found = replay(session, golden_data.log("basic"))
    names = {row.name for row in found.products.collect()}
    assert {merging.ABOUT, "groups", "offsets"} <= names
    assert found.summary.records == sum(1 for _ in golden_data.records("basic"))
