"""``follow``: after any triggers, its tables are those of a replay."""

import os
import shutil
import signal
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from coterie import CoterieError, ScanOptions, scan
from coterie_spark import follow
from coterie_spark.replay_job import following
from support import log_writer as write
from support.fold.made_logs import LOGS, as_bytes, laid_out
from support.growing_log import GrowingLog

pytest.importorskip("pyspark")
pq = pytest.importorskip("pyarrow.parquet")


HISTORY, STATE = ("commits", "generations", "faults"), ("groups", "members", "offsets")
NOW = {"availableNow": True}
OPTIONS = ScanOptions(history=True)


def run(spark, home, **arguments):
    """Follow the log of a folder to its end."""
    query = follow(
        spark, home / "log", home / "out", checkpoint=home / "check", trigger=NOW, **arguments
    )
    query.awaitTermination()


def rows_of(table):
    return sorted(map(repr, table.to_pylist()))


def followed(home, name):
    return rows_of(pq.read_table(home / "out" / f"{name}.parquet"))


def replay(path):
    """The tables of a scan of whole segments, the commits without undecided ones."""
    files = sorted(Path(path).glob("*.log"))
    merged = None
    for file in files:
        state = scan(file.read_bytes(), partition=0, file=str(file), options=OPTIONS)
        if merged is None:
            merged = state
        else:
            merged.absorb(state)
    tables = {name: rows_of(table) for name, table in merged.to_arrow().items()}
    tables["commits"] = [row for row in tables["commits"] if "'outcome': 'pending'" not in row]
    return tables


def check(home):
    expected = replay(home / "log/__consumer_offsets-0")
    for name in (*HISTORY, *STATE):
        assert followed(home, name) == expected[name], name


RISING = LOGS.filter(lambda log: len(log) > 3).map(
    lambda log: [(max(step, 1), content) for step, content in log]
)


# A trigger takes a second: no smallest example is sought.
@settings(max_examples=2, phases=[Phase.generate], suppress_health_check=[*HealthCheck])
@given(RISING, st.sets(st.integers(0, 12), max_size=2), st.sets(st.integers(0, 12), max_size=2))
def test_tables_equal_a_replay_after_any_number_of_triggers(spark, log, cuts, rolls):
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        broker = GrowingLog(home / "log")
        for number, (base, producer, content) in enumerate(laid_out(log)):
            if number in rolls:
                broker.roll(base)
            broker.append(as_bytes([(base, producer, content)]))
            if number in cuts:
                run(spark, home)
                check(home)
        run(spark, home)
        check(home)


def commits(first, count, *, metadata=b""):
    return [
        write.batch(offset, [write.commit(offset, offset, partition=offset % 3, metadata=metadata)])
        for offset in range(first, first + count)
    ]


def test_state_equals_the_cleaned_log_and_history_everything_appended(spark, tmp_path):
    broker = GrowingLog(tmp_path / "log")
    for one in commits(0, 9):
        broker.append(one)
    run(spark, tmp_path)
    broker.roll(9)
    for one in commits(9, 2):
        broker.append(one)
    broker.clean(0)
    run(spark, tmp_path)
    now = replay(broker.folder)
    for name in STATE:
        assert followed(tmp_path, name) == now[name]
    everything = scan(broker.whole, partition=0, options=OPTIONS).to_arrow()
    assert followed(tmp_path, "commits") == rows_of(everything["commits"])
    assert len(now["commits"]) < len(followed(tmp_path, "commits")) == 11


def test_faults_are_appended_once_each(spark, tmp_path):
    broker = GrowingLog(tmp_path / "log")
    good, bad, last = commits(0, 3)
    broker.append(good)
    broker.append(bad[:-1] + b"\x7f")
    run(spark, tmp_path)
    broker.append(last)
    run(spark, tmp_path)
    check(tmp_path)
    assert len(followed(tmp_path, "faults")) == 1


def test_chosen_tables_and_a_group_are_followed_alone(spark, tmp_path):
    broker = GrowingLog(tmp_path / "log")
    broker.append(write.batch(0, [write.commit(0, group=b"g"), write.commit(0, group=b"h")]))
    run(spark, tmp_path, tables=("offsets",), options={"group": "h"})
    names = sorted(path.name for path in (tmp_path / "out").glob("[!.]*"))
    assert names == ["offsets.parquet"]
    assert pq.read_table(tmp_path / "out/offsets.parquet")["group_id"].to_pylist() == ["h"]
    with pytest.raises(CoterieError, match=r"follows with tables \['offsets'\]"):
        run(spark, tmp_path, options={"group": "h"})
    with pytest.raises(CoterieError, match="follows with source"):
        run(spark, tmp_path, tables=("offsets",))


def test_a_folder_with_tables_of_another_follow_is_refused(spark, tmp_path):
    GrowingLog(tmp_path / "log")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").touch()
    with pytest.raises(CoterieError, match=r"out: is not empty, and .* has no state for it"):
        run(spark, tmp_path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"tables": ("offset",)}, "tables must be of groups, members, .*, not 'offset'"),
        ({"format": "orc"}, "format must be of parquet, delta, not 'orc'"),
    ],
)
def test_a_wrong_argument_is_named(spark, tmp_path, arguments, message):
    GrowingLog(tmp_path / "log")
    with pytest.raises(CoterieError, match=message):
        run(spark, tmp_path, **arguments)


def test_a_batch_that_was_added_is_not_added_again(spark, tmp_path):
    """Spark repeats a batch if it died before it wrote that the batch was done."""
    broker = GrowingLog(tmp_path / "log")
    for one in commits(0, 4):
        broker.append(one)
    run(spark, tmp_path)
    for file in (tmp_path / "check/commits").glob("[0-9.]*"):
        file.unlink()
    run(spark, tmp_path)
    check(tmp_path)


def test_files_of_a_batch_that_did_not_end_are_made_anew(spark, tmp_path, monkeypatch):
    """Whether the query failed, or its driver was killed between the files and the state."""
    home, killed = tmp_path / "home", tmp_path / "killed"
    broker = GrowingLog(home / "log")
    broker.append(commits(0, 1)[0])
    run(spark, home)
    broker.append(commits(1, 1)[0])

    def write(*_):
        shutil.copytree(home, killed, symlinks=True)  # what a driver leaves that is killed here
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(following.Follower, "write", write)
        with pytest.raises(Exception, match="disk full"):
            run(spark, home)
    assert pq.read_table(home / "out/offsets.parquet")["offset"].to_pylist() == [0]
    assert list((killed / "out/commits.parquet").glob("part-00000001-*"))
    run(spark, home)
    check(home)
    shutil.rmtree(home)
    killed.rename(home)
    run(spark, home)
    check(home)


def test_a_worker_that_is_killed_leaves_each_row_once(spark, tmp_path, monkeypatch):
    broker = GrowingLog(tmp_path / "log")
    for one in commits(0, 4):
        broker.append(one)

    def deadly(*arguments, real=following.follow_worker):
        worker = real(*arguments)

        def work(batches):
            yield from worker(batches)
            os.kill(os.getpid(), signal.SIGKILL)

        return work

    with monkeypatch.context() as patch:
        patch.setattr(following, "follow_worker", deadly)
        with pytest.raises(Exception, match="Python worker exited unexpectedly"):
            run(spark, tmp_path)
    run(spark, tmp_path)
    check(tmp_path)


UNWRITTEN = ".0.6b2e1f0a-9c1d-4e55-8a7b-2f3d4c5b6a79.tmp"


def test_a_driver_that_died_while_it_wrote_the_first_offsets_can_start_again(spark, tmp_path):
    """Spark writes a file of this name, and its checksums, and renames both when they are whole."""
    GrowingLog(tmp_path / "log").append(commits(0, 1)[0])
    names = tuple([*HISTORY, *STATE])
    following.Follower(
        [str(tmp_path / "log")], tmp_path / "out", tmp_path / "check", names
    ).begin({})  # fmt: skip
    for folder in ("offsets", "commits"):
        (tmp_path / "check" / folder).mkdir()
    for name in (UNWRITTEN, f".{UNWRITTEN}.crc"):
        (tmp_path / "check/offsets" / name).touch()
    run(spark, tmp_path)
    check(tmp_path)


@pytest.mark.parametrize("other", ["0", "mine", ".0.crc", UNWRITTEN.replace(".0.", ".1.")])
def test_of_offsets_that_may_be_another_query_s_nothing_is_removed(tmp_path, other):
    follower = following.Follower([], tmp_path / "out", tmp_path / "check", STATE)
    follower.begin({})
    offsets = tmp_path / "check/offsets"
    offsets.mkdir()
    for name in (other, UNWRITTEN):
        (offsets / name).touch()
    follower.begin({})
    assert {file.name for file in offsets.iterdir()} == {other, UNWRITTEN}


def test_a_damaged_file_of_the_last_batch_is_named(tmp_path):
    follower = following.Follower([tmp_path / "log"], tmp_path / "out", tmp_path, STATE)
    follower.begin({})
    file = follower.folder / following.BATCH
    file.write_text(file.read_text()[:-5])
    with pytest.raises(CoterieError, match=rf"{file}: is damaged; start with a new checkpoint"):
        follower.read()


@pytest.mark.parametrize("damage", ["cut", "gone"])
def test_a_stored_state_that_cannot_be_read_is_named(tmp_path, damage):
    file = tmp_path / "0-1-0.state"
    if damage == "cut":
        file.write_bytes(scan(b"", partition=0).to_bytes()[:-1])
    with pytest.raises(CoterieError, match=rf"{file}: .*; start with a new checkpoint"):
        following.stored_state(file)
