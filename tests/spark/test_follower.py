"""What ``follow`` stores and adds for each batch, in its folders. No JVM is started."""

import errno
import json

import pytest

from coterie import CoterieError, PartialState, ScanOptions
from coterie_spark.replay_job import followed_tables, merging, scanning
from coterie_spark.replay_job.arrow import rows_of
from support import log_writer as write

pa = pytest.importorskip("pyarrow")
following = pytest.importorskip("coterie_spark.replay_job.following", reason="needs pyspark")
Row = pytest.importorskip("pyspark.sql").Row

TABLES = ("commits", "groups")
HISTORY = ("commits", "generations", "faults")


def state_rows(number, data):
    """The state of a piece as it comes from a worker."""
    state = PartialState(ScanOptions(history=True))
    state.fold(0).scan(data, file="f")
    return list(scanning.state_batches(0, number, state))


def of_batch(folder, stored, batch_id, rows):
    """Merge rows into the stored state; the number of rows of each table, and the new state."""
    empty = [(number, -1, 0, True, None, b"") for number in stored]
    before = [rows_of(scanning.state_schema(), row) for row in empty]
    products = following.follow_worker(str(folder), stored, batch_id)([*before, *rows])
    counts, names = dict.fromkeys(HISTORY, 0), {}
    for row in (row for batch in products for row in batch.to_pylist()):
        if row["name"] == following.STORED:
            number, file = json.loads(row["body"])
            names[number] = file
        elif row["name"] in HISTORY:
            counts[row["name"]] += pa.ipc.open_stream(row["body"]).read_all().num_rows
    return counts, names


def test_a_batch_adds_only_its_own_history_to_what_is_stored(tmp_path):
    """A generation, a commit and a fault in each of two batches, nothing in the last one."""
    stored = {}
    for batch_id in range(2):
        member = (5, write.group_key(b"g"), write.group_value(batch_id + 1, [b"m"]))
        good, damaged, last = write.each(3 * batch_id, member, (5, b"?", b"?"), write.commit(5))
        rows = state_rows(batch_id, good + damaged[:-1] + b"\x7f" + last)
        counts, stored = of_batch(tmp_path, stored, batch_id, rows)
        assert counts == dict.fromkeys(HISTORY, 1), batch_id
        assert stored == {0: f"0-{batch_id}-0.state"}
    counts, names = of_batch(tmp_path, stored, 2, [])
    assert counts == dict.fromkeys(HISTORY, 0)
    (group,) = following.stored_state(tmp_path / names[0]).groups()
    assert (group["generation"], len(group["offsets"])) == (2, 1)


def test_a_stored_state_that_is_gone_or_damaged_is_named(tmp_path):
    (tmp_path / "damaged.state").write_bytes(b"x")
    refused = ("gone", "No such file or directory"), ("damaged", "these bytes are no partial state")
    for name, why in refused:
        with pytest.raises(
            CoterieError, match=rf"{name}\.state: {why}; start with a new checkpoint"
        ):
            following.stored_state(tmp_path / f"{name}.state")


@pytest.fixture
def follower(tmp_path):
    return following.Follower([], tmp_path / "a/out", tmp_path / "b/check", TABLES)


def test_the_folders_are_made_or_taken_if_they_are_empty(tmp_path, follower):
    for _ in range(2):
        follower.begin({"group": "g"})
        known = json.loads((tmp_path / "b/check/coterie/batch.json").read_text())
        assert (known["batch"], known["states"]) == (-1, [])
        assert known["source"] == {"group": "g"}
        assert known["tables"] == [*TABLES]
        (tmp_path / "b/check/coterie/batch.json").unlink()
        assert list((tmp_path / "a/out").iterdir()) == []
    (tmp_path / "a/out/x").touch()
    with pytest.raises(CoterieError, match=r"out: is not empty, and .* has no state for it"):
        follower.begin({"group": "g"})


def test_what_began_otherwise_is_not_gone_on_with(tmp_path, follower):
    follower.begin({"group": "g"})
    follower.begin({"group": "g"})
    with pytest.raises(CoterieError, match=r"follows with source {'group': 'g'}, not {}"):
        follower.begin({})
    other = following.Follower([], tmp_path / "a/out", tmp_path / "b/check", TABLES[:1])
    with pytest.raises(CoterieError, match="follows with tables"):
        other.begin({"group": "g"})


def test_a_batch_that_was_added_is_skipped_and_one_that_is_missing_is_refused(follower):
    with pytest.raises(CoterieError, match="the last batch is -1, and Spark is at 0"):
        follower(None, 0)  # nothing has begun
    follower.begin({})
    follower.write({"batch": 4, "states": []})
    for batch_id in (0, 3, 4):
        follower(None, batch_id)
    for batch_id in (6, 9):
        with pytest.raises(CoterieError, match=f"last batch is 4, and Spark is at {batch_id}"):
            follower(None, batch_id)


def test_what_an_unfinished_batch_left_is_removed_and_nothing_else(tmp_path, follower):
    follower.begin({})
    out, folder = tmp_path / "a/out", tmp_path / "b/check/coterie"
    follower.remove_leftovers({}, -1)  # there is nothing
    others = ["commits.parquet/part-00000003-00000.parquet", ".batch-3/x", ".batch-2/x"]
    left = ["commits.parquet/part-00000004-00000.parquet", ".batch-4/x", ".parts/x"]
    for name in (*others, *left):
        (out / name).parent.mkdir(exist_ok=True)
        (out / name).touch()
    for name in ("0-3-0.state", "0-4-0.state"):
        (folder / name).touch()
    follower.remove_leftovers({0: "0-3-0.state"}, 3)
    assert [name for name in (*others, *left) if (out / name).exists()] == others
    assert sorted(path.name for path in folder.iterdir()) == ["0-3-0.state", "batch.json"]
    assert not (out / ".batch-4").exists()
    assert not (out / ".parts").exists()


def test_a_state_table_is_a_link_to_that_of_the_last_batch(tmp_path, follower):
    for _ in range(2):  # before there is a batch
        follower.begin({})
    out = tmp_path / "a/out"
    assert list(out.iterdir()) == []
    for batch_id in (0, 7):
        (out / f".batch-{batch_id}/groups.parquet").mkdir(parents=True)
        for was_interrupted in (False, True):
            if was_interrupted:
                (out / ".groups.parquet.new").symlink_to("nowhere")
            follower.tables.show(batch_id)
            link = (out / "groups.parquet").readlink()
            assert link.as_posix() == f".batch-{batch_id}/groups.parquet"
    assert sorted(path.name for path in out.iterdir()) == [".batch-0", ".batch-7", "groups.parquet"]


class Written:
    """States that a worker has turned into these rows."""

    def __init__(self, *rows):
        self.rows = rows

    def mapInArrow(self, work, ddl):
        return self

    def collect(self):
        return [Row(**dict(zip(("name", "file", "errno", "error"), row, strict=True)))
                for row in self.rows]  # fmt: skip


@pytest.mark.parametrize(
    ("raised", "row"),
    [
        (OSError(28, "No space left on device", "f"), (28, "No space left on device", "f")),
        (OSError("it is cut short"), (errno.EIO, "it is cut short", None)),  # as Arrow's own
    ],
)
def test_an_error_of_a_disk_ends_the_batch_before_a_table_changes(tmp_path, raised, row):
    def work(batches):
        yield merging.product(0, following.STORED, 0, b'[0, "0.state"]')
        raise raised

    (tmp_path / "out/.parts").mkdir(parents=True)
    batches = list(followed_tables.written_by(work, str(tmp_path / "out"), TABLES)([]))
    first, *others = [tuple(one.values()) for batch in batches for one in batch.to_pylist()]
    assert (first[0], first[2:], first[1]) == (None, row[:2], row[2])
    assert others == [("-stored", '[0, "0.state"]', None, None)]
    (tmp_path / "out/.parts").rmdir()
    tables = followed_tables.ParquetTables(tmp_path / "out", TABLES)
    complete = ("commits", "commits-7", None, None)
    with pytest.raises(OSError, match=str(raised.strerror or raised)) as found:
        tables.put(Written(complete, first, *others), work, 0, lambda others: None)
    assert found.value.errno == row[0]
    assert [path.name for path in (tmp_path / "out").iterdir()] == [".parts"]
    tables.remove_leftovers(-1)
    assert list((tmp_path / "out").iterdir()) == []
