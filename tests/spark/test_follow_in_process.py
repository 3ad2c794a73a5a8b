"""Batches of ``follow``, run by a stand-in for Spark. No JVM is started."""

import json
import pickle
from types import SimpleNamespace

import pytest

from coterie import CoterieError, PartialState, ScanOptions, scan
from coterie.errors import ArgumentError
from coterie_spark.replay_job import plan
from support import log_writer as write
from support.growing_log import GrowingLog
from support.grown_topic import COUNT, GROUP, NEWER, OLDER, committed, generation, tombstone

pytest.importorskip("pyspark")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
from coterie_spark import follow  # noqa: E402
from coterie_spark.replay_job import followed_tables, following, scanning, writing  # noqa: E402
from coterie_spark.source.states_source import StatesSource, states_of_stream  # noqa: E402
from coterie_spark.source.stream_reader import StreamPositions  # noqa: E402
from support.replayed_tables import rows_of  # noqa: E402
from support.spark_stand_in import Frame, Session, arrow_of, patched  # noqa: E402

HISTORY, STATE = ("commits", "generations", "faults"), ("groups", "members", "offsets")
OPTIONS = ScanOptions(history=True)


@pytest.fixture
def session(monkeypatch):
    patched(monkeypatch)
    return Session()


class Triggers:
    """A stream: each call gives a follower what is new in a log, as Spark does.

    A batch that does not end is repeated up to where it was planned to.
    """

    def __init__(self, session, home):
        self.session, self.home = session, str(home)
        self.log, self.position, self.batch_id = StreamPositions([self.home], None, None), {}, 0
        self.planned = None

    def __call__(self, follower, ends=True):
        after = self.planned = self.planned or self.log.advance(self.position, None)
        pieces = self.log.pieces(self.position, after)
        schema = arrow_of(scanning.STATE_DDL)
        batches = []
        for piece in pieces:
            batches += states_of_stream([self.home], OPTIONS, pickle.dumps(piece))
        table = pa.Table.from_batches(batches, schema)
        follower(Frame(self.session, schema, lambda: [table]), self.batch_id)
        if ends:
            self.position, self.planned, self.batch_id = after, None, self.batch_id + 1


def records(number, turn):
    """What a batch adds: a generation, a fault, and a commit."""
    member = (5, write.group_key(b"g%d" % number), write.group_value(turn + 1, [b"m"]))
    commit = write.commit(7 + turn, turn, group=b"g%d" % number, partition=turn)
    return write.each(3 * turn, member, (5, b"?", b"?"), commit)


def check(home, brokers):
    """All tables have the rows of one scan of what was appended."""
    merged = None
    for broker in brokers:
        number, file = int(broker.folder.name.rpartition("-")[2]), str(broker.active)
        state = scan(broker.whole, partition=number, file=file, options=OPTIONS)
        if merged is None:
            merged = state
        else:
            merged.absorb(state)
    for name, table in merged.to_arrow().items():
        found = pq.read_table(home / "out" / f"{name}.parquet")
        assert rows_of(found) == rows_of(table), name


def test_tables_are_those_of_one_scan_after_each_batch(session, tmp_path, monkeypatch):
    monkeypatch.setattr(scanning, "CHUNK_BYTES", 300)
    follower = following.Follower(
        [tmp_path / "log"], tmp_path / "out", tmp_path / "check", (*HISTORY, *STATE)
    )
    follower.begin({})
    brokers = [GrowingLog(tmp_path / "log", number) for number in range(2)]
    trigger = Triggers(session, tmp_path / "log")
    for turn in range(3):
        for number, broker in enumerate(brokers):
            if (number, turn) != (0, 1):  # one partition has nothing new once
                good, damaged, last = records(number, turn)
                broker.append(good)
                broker.append(damaged[:-1] + b"\x7f")
                broker.append(last)
        trigger(follower)
        check(tmp_path, brokers)
        known = json.loads((tmp_path / "check/coterie/batch.json").read_text())
        files = sorted(path.name for path in (tmp_path / "check/coterie").glob("*.state"))
        assert known["batch"] == turn
        assert sorted(known["states"]) == [[number, file] for number, file in enumerate(files)]
        left = sorted(path.name for path in (tmp_path / "out").glob(".*"))
        assert left == [f".batch-{n}" for n in range(max(turn - 1, 0), turn + 1)]
        parts = sorted((tmp_path / "out/commits.parquet").glob(f"part-{turn:08d}-*"))
        names = [f"part-{turn:08d}-{n:05d}.parquet" for n in range(len(parts))]
        assert [path.name for path in parts] == names
        assert len(parts) == (1 if turn == 1 else 2)
    assert {*session.rows_per_batch} == {1}


GROWTH = [  # what each batch adds to the two partitions of a group
    {OLDER: [generation(1, 4, [b"a-1"]), committed(2, 10), committed(3, 20, partition=1)]},
    {NEWER: [generation(5, 1, [b"a-2"]), committed(6, 30)], OLDER: [committed(9000, 11)]},
    {},
    {OLDER: [tombstone(9001), generation(9002, 5, [])], NEWER: [committed(7, 31)]},
    {NEWER: [tombstone(9003), tombstone(9004, partition=1), generation(9005, 2, None)]},
]


def grown(trigger, follower, brokers):
    """Add the batches of ``GROWTH``; yield after each trigger."""
    ends = dict.fromkeys((OLDER, NEWER), 1)
    for adds in GROWTH:
        for number, rows in adds.items():
            brokers[number].append(write.batch(ends[number], rows))
            ends[number] += len(rows)
        yield trigger(follower)


@pytest.mark.parametrize("numbers", [range(COUNT), (OLDER, NEWER)])
def test_a_group_is_once_in_the_state_tables_that_is_in_several_partitions(
    session, tmp_path, numbers
):
    """Of two partitions that are not all, the newest commit decides, which is the older one's."""
    log = tmp_path / "log"
    follower = following.Follower([log], tmp_path / "out", tmp_path / "check", (*HISTORY, *STATE))
    follower.begin({})
    brokers = {number: GrowingLog(log, number) for number in numbers}
    for number in (OLDER, NEWER):
        brokers[number].append(write.batch(0, [write.commit(1, 1, group=b"only-%d" % number)]))
    for _ in grown(Triggers(session, log), follower, brokers):
        check(tmp_path, brokers.values())
    assert pq.read_table(tmp_path / "out/generations.parquet").num_rows == 4


@pytest.mark.parametrize("is_killed", [False, True])
@pytest.mark.parametrize("has_id", [False, True])
def test_partitions_that_are_added_are_followed_from_the_next_batch_on(
    session, tmp_path, monkeypatch, has_id, is_killed
):
    """Their group moves there. A batch that was planned before ends as it was planned."""
    log, brokers = tmp_path / "log", {}
    follower = following.Follower([log], tmp_path / "out", tmp_path / "check", (*HISTORY, *STATE))
    follower.begin({})
    trigger = Triggers(session, log)
    for number in (OLDER, NEWER, 0, COUNT - 1):  # the last ones have no records at first
        known = [*brokers.values()]
        for broker in known:
            at = broker.whole.count(GROUP.encode())  # its records so far
            broker.append(write.batch(at, [committed(1000 * at, at)]))
        if is_killed and known:
            with monkeypatch.context() as patch:
                patch.setattr(follower, "write", lambda batch: 1 // 0)
                with pytest.raises(ZeroDivisionError):
                    trigger(follower, ends=False)
        brokers[number] = added = GrowingLog(log, number)
        if has_id:
            text = "version: 1\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n"
            (added.folder / "partition.metadata").write_text(text)
        if number in (OLDER, NEWER):
            added.append(write.batch(0, [committed(500, 7), generation(500, 1, [b"a"])]))
        if is_killed and known:
            trigger(follower)
            check(tmp_path, known)
        trigger(follower)
        check(tmp_path, brokers.values())
    assert {*trigger.position} >= {str(OLDER), str(NEWER), "0"}
    assert len(pq.read_table(tmp_path / "out/offsets.parquet")) == 1


def broken_off_turns(broker, trigger, follower, monkeypatch):
    """Append to the log and break off the batch before its end, twice; yield the turn."""
    for turn in range(2):
        for data in records(0, turn):
            broker.append(data)
        with monkeypatch.context() as patch:
            patch.setattr(follower, "write", lambda batch: 1 // 0)
            with pytest.raises(ZeroDivisionError):
                trigger(follower, ends=False)
        yield turn


def test_a_batch_that_did_not_end_is_made_anew_and_one_that_did_is_not(
    session, tmp_path, monkeypatch
):
    follower = following.Follower(
        [tmp_path / "log"], tmp_path / "out", tmp_path / "check", (*HISTORY, *STATE)
    )
    follower.begin({})
    broker = GrowingLog(tmp_path / "log")
    trigger = Triggers(session, tmp_path / "log")
    for _ in broken_off_turns(broker, trigger, follower, monkeypatch):
        trigger(follower, ends=False)
        check(tmp_path, [broker])
        trigger(follower)
        check(tmp_path, [broker])


@pytest.mark.parametrize("which", range(5))  # tables that have no rows
def test_a_table_without_rows_has_no_part_of_a_file_whenever_a_driver_is_killed(
    session, tmp_path, monkeypatch, which
):
    """Nor an empty folder: Parquet has its columns from a file."""
    follower = following.Follower(
        [tmp_path / "log"], tmp_path / "out", tmp_path / "check", (*HISTORY, *STATE)
    )
    follower.begin({})
    broker, begun, real = GrowingLog(tmp_path / "log"), [], pq.write_table
    broker.append(write.batch(0, [tombstone(1)]))
    trigger = Triggers(session, tmp_path / "log")

    def torn(table, path):
        begun.append(path)
        if len(begun) <= which:
            return real(table, path)
        path.write_bytes(b"PAR1")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(pq, "write_table", torn)
        with pytest.raises(KeyboardInterrupt):
            trigger(follower, ends=False)
    for part in (tmp_path / "out").glob("*.parquet/*"):
        assert pq.read_schema(part)
    trigger(follower)
    check(tmp_path, [broker])


def test_states_are_merged_by_place_in_tasks_for_cores_and_partitions(session, tmp_path):
    follower = following.Follower([tmp_path / "log"], tmp_path / "out", tmp_path / "check", STATE)
    schema = arrow_of(scanning.STATE_DDL)
    rows = [(number, at, chunk, False, None, b"") for number in (None, 0, 3)
            for at in (2, 0) for chunk in (1, 0)]  # fmt: skip
    states = session.createDataFrame(rows, scanning.STATE_DDL)
    for cores, count, tasks in ((2, 0, 2), (2, 4, 4), (2, 9, 6), (1, 9, 3)):
        session.sparkContext.defaultParallelism = cores
        stored = {number: f"{number}.state" for number in range(count)}
        frame = follower.by_place(states, stored)
        assert frame.arrow == schema
        parts = [table.to_pylist() for table in frame.parts()]
        assert len(parts) == tasks == min(plan.TASKS_PER_CORE * cores, max(count, cores))
        for part in parts:
            places = [(row["partition"] is not None, row["partition"] or 0, row["number"],
                       row["chunk"]) for row in part]  # fmt: skip
            assert places == sorted(places)
        own = [row for part in parts for row in part if row["number"] == -1]
        assert sorted(row["partition"] for row in own) == [*stored]
        assert all(row["last"] and row["body"] == b"" for row in own)
        assert sum(map(len, parts)) == len(rows) + count


def test_a_table_without_rows_has_a_part_with_its_columns(session, tmp_path):
    follower = following.Follower(
        [tmp_path / "log"], tmp_path / "out", tmp_path / "check", ("commits", "groups")
    )
    follower.begin({})
    GrowingLog(tmp_path / "log")
    Triggers(session, tmp_path / "log")(follower)
    for name in ("commits", "groups"):
        table = pq.read_table(tmp_path / "out" / f"{name}.parquet")
        assert table.num_rows == 0
        assert table.column_names == writing.SCHEMAS[name]().names


def test_a_batch_whose_tables_are_not_shown_yet_is_shown_at_the_start(session, tmp_path):
    """A driver died after it had written that the batch was done."""
    folders = tmp_path / "out", tmp_path / "check"
    follower = following.Follower([tmp_path / "log"], *folders, ("groups",))
    follower.begin({})
    GrowingLog(tmp_path / "log")
    Triggers(session, tmp_path / "log")(follower)
    link = tmp_path / "out/groups.parquet"
    assert link.readlink().as_posix() == ".batch-0/groups.parquet"
    link.unlink()
    following.Follower([tmp_path / "log"], *folders, ("groups",)).begin({})
    assert link.readlink().as_posix() == ".batch-0/groups.parquet"


def test_a_worker_merges_each_partition_with_what_is_stored_of_it(tmp_path):
    def merged(stored, turn):
        rows = []
        for number in (None, 2, 5):
            for at, data in enumerate(records(number or 0, turn)):
                state = PartialState(OPTIONS)
                state.fold(number).scan(data, file="f")
                rows += scanning.state_batches(number, at, state)
        products = following.follow_worker(str(tmp_path), stored, turn)(rows)
        named = [json.loads(row["body"]) for batch in products for row in batch.to_pylist()
                 if row["name"] == following.STORED]  # fmt: skip
        assert [number for number, _ in named] == [None, 2, 5]
        return {number: file for number, file in named}

    stored = merged(merged({}, 0), 1)
    for number, file in stored.items():
        state = following.stored_state(tmp_path / file)
        assert list(state.partitions) == [number]
        (group,) = state.groups()
        assert (group["group_id"], group["generation"]) == (f"g{number or 0}", 2)
        assert len(group["offsets"]) == 2


# ---- Delta Lake


class DeltaWriter:
    """Takes the transaction of a table, unless the table has it."""

    def __init__(self, frame, tables):
        self.frame, self.tables, self.options = frame, tables, {}

    def format(self, name):
        assert name == "delta"
        return self

    def mode(self, name):
        self.kind = name
        return self

    def option(self, name, value):
        self.options[name] = value
        return self

    def save(self, url):
        rows = self.frame.collect()
        known = self.tables.setdefault(url, ([], []))
        if self.options not in known[1]:
            known[0][:] = rows if self.kind == "overwrite" else [*known[0], *rows]
            known[1].append(self.options)


def test_delta_tables_get_a_transaction_of_each_batch(session, tmp_path, monkeypatch):
    tables = {}
    monkeypatch.setattr(Frame, "write", property(lambda self: DeltaWriter(self, tables)), False)
    names = ("commits", "offsets", "groups")
    out, home = tmp_path / "out", tmp_path / "check"
    follower = following.Follower([], out, home, names, "delta")
    follower.begin({})
    trigger = Triggers(session, tmp_path / "log")
    turns = broken_off_turns(GrowingLog(tmp_path / "log"), trigger, follower, monkeypatch)
    for turn in turns:
        trigger(follower)
        assert session.persisted == []
        found = {url: len(rows) for url, (rows, _) in tables.items()}
        counts = {"commits": turn + 1, "offsets": turn + 1, "groups": 1}
        assert found == {f"file://{out}/{name}": count for name, count in counts.items()}
        for rows, transactions in tables.values():
            assert rows
            assert transactions == [
                {"txnAppId": f"coterie {home}", "txnVersion": n} for n in range(turn + 1)
            ]
    known = json.loads((home / "coterie/batch.json").read_text())
    assert (known["format"], known["checkpoint"], known["tables"]) == (
        "delta", str(home), [*names])  # fmt: skip


def test_delta_tables_have_a_group_of_several_partitions_once(session, tmp_path, monkeypatch):
    tables = {}
    monkeypatch.setattr(Frame, "write", property(lambda self: DeltaWriter(self, tables)), False)
    log, out = tmp_path / "log", tmp_path / "out"
    follower = following.Follower([log], out, tmp_path / "check", STATE, "delta")
    follower.begin({})
    brokers = {number: GrowingLog(log, number) for number in range(COUNT)}
    offsets = []
    for _ in grown(Triggers(session, log), follower, brokers):
        rows = {name: tables[f"file://{out}/{name}"][0] for name in STATE}
        assert len(rows["groups"]) == bool(rows["offsets"])
        offsets.append({row.partition: row.offset for row in rows["offsets"]})
        assert len(rows["offsets"]) == len(offsets[-1])
    assert offsets == [{0: 10, 1: 20}, {0: 30, 1: 20}, {0: 30, 1: 20}, {0: 31, 1: 20}, {}]


@pytest.mark.parametrize(
    ("error", "is_refused"),
    [
        (ValueError("[DATA_SOURCE_NOT_FOUND] Failed to find the data source: delta"), True),
        (ValueError("[DELTA_TABLE_NOT_FOUND] nothing there yet"), False),
    ],
)
def test_a_session_without_delta_is_refused(tmp_path, error, is_refused):
    loaded = []

    def load(url):
        loaded.append(url)
        raise error

    spark = SimpleNamespace(read=SimpleNamespace(format=lambda name: SimpleNamespace(load=load)))
    tables = followed_tables.DeltaTables(tmp_path, ("commits",), "w")
    if is_refused:
        with pytest.raises(CoterieError, match="format delta: the Spark session has no Delta Lake"):
            tables.check(spark)
    else:
        tables.check(spark)
    assert loaded == [f"file://{tmp_path}/commits"]


# ---- the query


class Stream:
    """A session whose streams record what they are given."""

    def __init__(self):
        self.given = {}
        self.dataSource = SimpleNamespace(register=lambda source: self.given.update(source=source))
        self.readStream = self.writeStream = self

    def __getattr__(self, name):
        def take(*values, **named):
            self.given[name] = values or named
            if name in ("option", "options"):
                self.given.update(dict([values] if values else named))
            return self

        return take


def test_a_query_reads_the_states_of_the_paths_and_writes_by_the_follower(tmp_path, monkeypatch):
    GrowingLog(tmp_path / "log")
    monkeypatch.chdir(tmp_path)
    for number, (trigger, expected) in enumerate([
        (None, None),
        ("10 seconds", {"processingTime": "10 seconds"}),
        ({"availableNow": True}, {"availableNow": True}),
    ]):  # fmt: skip
        spark, check = Stream(), tmp_path / f"check{number}"
        options = {"maxBytesPerTrigger": 100, "group": "g", "partitions": 7}
        paths = "log" if number else ["log"]
        query = follow(spark, paths, f"out{number}", checkpoint=check.name, trigger=trigger,
                       tables=["offsets"], options=options)  # fmt: skip
        given = spark.given
        assert query is spark
        assert given["source"] is StatesSource
        assert given["format"] == (StatesSource.name(),)
        assert given["paths"] == json.dumps([str(tmp_path / "log")])
        assert given["maxBytesPerTrigger"] == "100"
        assert given["checkpointLocation"] == str(check)
        assert given.get("trigger") == expected
        assert "start" in given
        (follower,) = given["foreachBatch"]
        known = json.loads((check / "coterie/batch.json").read_text())
        assert known["source"] == {"group": "g", "partitions": "7"}
        assert (known["out"], known["tables"]) == (str(tmp_path / f"out{number}"), ["offsets"])
        assert follower.tables.names == ("offsets",)
    spark = Stream()
    follow(spark, "log", "whole", checkpoint="whole-check")
    known = json.loads((tmp_path / "whole-check/coterie/batch.json").read_text())
    assert known["tables"] == [*HISTORY, *STATE]
    assert (known["format"], known["source"]) == ("parquet", {})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"tables": ("offset",)}, "tables must be of groups, members, .*, not 'offset'"),
        ({"format": "orc"}, "format must be of parquet, delta, not 'orc'"),
        ({"checkpoint": "s3a://b/c"}, "checkpoint must be a path of a folder, not 's3a://b/c'"),
        ({"out": "s3a://b/c"}, "out must be a path of a folder, not 's3a://b/c'"),
    ],
)
def test_a_wrong_argument_is_named_before_anything_is_written(tmp_path, arguments, message):
    GrowingLog(tmp_path / "log")
    given = {"out": tmp_path / "out", "checkpoint": tmp_path / "check"} | arguments
    with pytest.raises(ArgumentError, match=message):
        follow(Stream(), tmp_path / "log", **given)
    with pytest.raises(CoterieError, match="no-such-log: no such"):
        follow(Stream(), tmp_path / "no-such-log", **given)
    assert [path.name for path in tmp_path.iterdir()] == ["log"]


def test_a_session_is_checked_before_the_folders_are_made(tmp_path):
    GrowingLog(tmp_path / "log")

    def refuse(name):
        raise ValueError("[DATA_SOURCE_NOT_FOUND] delta")

    spark = Stream()
    spark.read = SimpleNamespace(format=refuse)
    with pytest.raises(CoterieError, match="no Delta Lake"):
        follow(spark, tmp_path / "log", tmp_path / "out", checkpoint=tmp_path / "check",
               format="delta")  # fmt: skip
    assert [path.name for path in tmp_path.iterdir()] == ["log"]
