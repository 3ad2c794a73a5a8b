"""Copies of a partition at the limits of what is compared, and all fields of their rows."""

import pytest

from coterie._core.codec.batch import LogReader
from coterie.insight.records import comparison
from coterie.insight.records.comparison import compare
from coterie.log.folders import find_segments
from coterie.state.replay_engine import Silent
from support.insight.copies import compared, generation, history, write_copy


def test_the_record_at_which_the_shorter_copy_begins_is_compared(tmp_path):
    (other,) = history(8, 1, 1, time=500)
    whole, cut = [*history(0, 1, 10)], [other, *history(9, 1, 2)]
    rows = compared(write_copy(tmp_path / "a", whole), write_copy(tmp_path / "b", cut))
    assert (rows["a"]["status"], rows["a"]["common_until"]) == ("diverged", 8)
    removed = write_copy(tmp_path / "c", history(8, 1, 3), removed={8})
    rows = compared(write_copy(tmp_path / "d", history(0, 1, 11)), removed)
    assert (rows["c"]["status"], rows["c"]["removed_here"]) == ("same", 1)


@pytest.mark.parametrize("piece_bytes", [1, 8 << 20])
def test_batches_with_other_bounds_have_the_same_history(tmp_path, monkeypatch, piece_bytes):
    """A coordinator's batch of three records is a batch of two and one of one in the other copy."""
    monkeypatch.setattr("coterie.insight.records.common_prefix.COMPARED_BYTES", piece_bytes)
    ((_, _, records),) = history(5, 1, 1, size=3)
    halves = [(5, 1, records[:2]), (7, 1, records[2:])]
    around = history(0, 1, 5), history(8, 1, 4)
    rows = compared(
        write_copy(tmp_path / "a", [*around[0], (5, 1, records), *around[1]]),
        write_copy(tmp_path / "b", [*around[0], *halves, *around[1]]),
    )
    assert [row["status"] for row in rows.values()] == ["best", "same"]
    assert {(row["removed_here"], row["removed_there"]) for row in rows.values()} == {(0, 0)}


def test_a_row_has_all_that_is_known_of_a_copy_that_diverged(tmp_path):
    common = history(0, 3, 10)
    mine = [
        (10, 3, [generation(10, 900, 8, b"h"), generation(11, -1, 1, b"h")]),
        *history(12, 4, 2, time=700, group=b"h"),
        *history(14, 4, 1, time=-15, group=b"a"),  # without a time: -1
        *history(15, 5, 2, time=-14, group=b"b"),  # at 1 and 2 ms
        (17, 5, [(17, 40, b"key", b"value")]),  # of no group
    ]
    theirs = history(10, 6, 1, time=100)
    one = write_copy(tmp_path / "a", common + mine, removed={0, 1, 4}, epochs=[(3, 0), (4, 12)])
    other = write_copy(tmp_path / "b", common + theirs, removed={9})
    row = compared(one, other)["a"]
    group = {"generations": [], "records": 1, "commits": 1}
    assert row == {
        "offsets_partition": 0, "copy": one, "folder": f"{one}/__consumer_offsets-0",
        "status": "diverged", "start_offset": 0, "end_offset": 18, "last_epoch": 5,
        "epochs": [{"epoch": 3, "offset": 0}, {"epoch": 4, "offset": 12},
                   {"epoch": 5, "offset": 15}],
        "common_until": 10, "epoch_here": 3, "epoch_there": 6,
        "records_only_here": 8, "commits_only_here": 5, "generations_only_here": 2,
        "records_lacking": 1, "commits_lacking": 1, "generations_lacking": 0,
        "removed_here": 3, "removed_there": 1, "faults": 0,
        "only_here": [
            group | {"group_id": "a", "first_time": None, "last_time": None},
            group | {"group_id": "b", "records": 2, "commits": 2, "first_time": 1, "last_time": 2},
            {"group_id": "h", "records": 4, "commits": 2, "generations": [1, 8],
             "first_time": 712, "last_time": 900},
        ],
        "lacking": [group | {"group_id": "g", "first_time": 110, "last_time": 110}],
        "topic_id": None,
    }  # fmt: skip


def test_a_copy_that_lacks_the_partition_has_no_offsets_and_no_faults(tmp_path):
    paths = [write_copy(tmp_path / name, history(0, 1, 3)) for name in "ab"]
    only = history(4, 2, 5, time=60)
    write_copy(tmp_path / "a", only, partition=1)
    rows = [
        row
        for some in compare({path: find_segments([path]) for path in paths}, Silent())
        for row in some
    ]
    best, missing = rows[2:]
    assert (best["status"], best["faults"], best["epochs"]) == (
        "best", 0, [{"epoch": 2, "offset": 4}],
    )  # fmt: skip
    nothing = {"folder": None, "start_offset": None, "end_offset": None, "last_epoch": None,
               "common_until": None, "epoch_here": None, "epochs": [], "only_here": [],
               "records_only_here": 0, "removed_here": 0, "removed_there": 0,
               "faults": 0}  # fmt: skip
    assert {name: missing[name] for name in nothing} == nothing
    assert (missing["offsets_partition"], missing["status"]) == (1, "missing")
    assert (missing["epoch_there"], missing["records_lacking"], missing["commits_lacking"]) == (
        2, 5, 5,
    )  # fmt: skip


def test_an_epoch_whose_leader_wrote_nothing_stands_among_the_others(tmp_path):
    batches = [*history(3, 1, 2), *history(5, 4, 2)]  # compaction took what epoch 1 began with
    one = write_copy(tmp_path / "a", batches, epochs=[(1, 0), (2, 5), (4, 5)])
    other = write_copy(tmp_path / "b", batches)
    rows = compared(one, other)
    assert rows["a"]["epochs"] == [
        {"epoch": 1, "offset": 0}, {"epoch": 2, "offset": 5}, {"epoch": 4, "offset": 5},
    ]  # fmt: skip


def test_a_file_without_a_batch_is_a_copy_that_begins_at_0(tmp_path):
    paths = [tmp_path / name for name in ("whole.log", "empty.log")]
    write_copy(tmp_path / "a", history(0, 1, 3))
    data = (tmp_path / "a" / "__consumer_offsets-0" / f"{0:020}.log").read_bytes()
    for path, content in zip(paths, (data, b""), strict=True):
        path.write_bytes(content)
    row = compared(*map(str, paths))["empty.log"]
    assert (row["start_offset"], row["end_offset"], row["last_epoch"]) == (0, 0, None)
    assert (row["status"], row["records_lacking"]) == ("behind", 3)


def test_of_equal_copies_the_best_can_be_read_or_has_the_most_records_or_is_the_first(tmp_path):
    batches = history(0, 2, 6, size=3)  # no batch loses all of its records

    def statuses(name, *how):
        paths = []
        for number, options in enumerate(how):
            folder = tmp_path / name / str(number)
            paths.append(write_copy(folder, batches, removed=options.get("removed", ())))
            if options.get("damaged"):
                path = next(folder.glob("*/*.log"))
                data = bytearray(path.read_bytes())
                data[next(LogReader(data)).size - 1] ^= 1
                path.write_bytes(data)
        return [row["status"] for row in compared(*paths).values()]

    assert statuses("equal", {}, {}) == ["best", "same"]
    assert statuses("cleaned", {"removed": {2}}, {}, {}) == ["same", "best", "same"]
    assert statuses("damaged", {"damaged": True}, {"removed": {2}}, {"removed": {2, 3}}) == [
        "same", "best", "same",
    ]  # fmt: skip


def test_the_folder_of_a_segment_in_the_present_folder_is_a_dot(tmp_path, monkeypatch):
    paths = [write_copy(tmp_path / name, history(0, 1, 3)) for name in "ab"]
    monkeypatch.chdir(f"{paths[0]}/__consumer_offsets-0")
    rows = compared(f"{0:020}.log", "../../b")
    assert [row["folder"] for row in rows.values()] == [".", "../../b/__consumer_offsets-0"]


class Progress:
    def __init__(self):
        self.size, self.read = None, []

    def total(self, size):
        self.size = size

    def advance(self, size):
        self.read.append(size)


def test_progress_is_of_the_bytes_of_each_partition_in_all_copies(tmp_path):
    sizes = {}
    for name, partition, count in (("a", 3, 2), ("a", 10, 7), ("b", 3, 5), ("b", 1, 4)):
        write_copy(tmp_path / name, history(0, 1, count), partition=partition)
        folder = tmp_path / name / f"__consumer_offsets-{partition}"
        size = sum(path.stat().st_size for path in folder.iterdir())
        sizes[partition] = sizes.get(partition, 0) + size
    listings = {name: find_segments([str(tmp_path / name)]) for name in "ab"}
    progress = Progress()
    rows = list(compare(listings, progress))
    assert [row["offsets_partition"] for some in rows for row in some] == [1, 1, 3, 3, 10, 10]
    assert progress.size == sum(sizes.values())
    assert progress.read == [sizes[partition] for partition in (1, 3, 10)]


def test_nothing_is_compared_any_more_once_nobody_waits_for_it(tmp_path, monkeypatch):
    listing = find_segments([write_copy(tmp_path / "a", history(0, 1, 3))])
    readings = []
    monkeypatch.setattr(comparison, "compare_partition", lambda *given: readings.append(given[2]))
    rows = compare({"a": listing, "b": listing}, Progress())
    next(rows)
    assert not readings[0].cancelled
    rows.close()
    assert readings[0].cancelled


@pytest.mark.parametrize("segment", ["first", "last"])
def test_a_batch_whose_last_byte_is_wrong_at_the_end_of_a_segment_is_one_fault(tmp_path, segment):
    """At the end of the log it is no part of the copy; within the log it is only unreadable."""
    batches = [*history(0, 1, 2), *history(2, 1, 1, size=9), *history(11, 1, 3),
               *history(14, 1, 1, size=9)]  # fmt: skip
    paths = [write_copy(tmp_path / name, batches, cuts=(11,)) for name in "ab"]
    name = f"{0 if segment == 'first' else 11:020}.log"
    path = tmp_path / "b" / "__consumer_offsets-0" / name
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    row = compared(*paths)["b"]
    assert row["faults"] == 1
    expected = ("same", 23, 0) if segment == "first" else ("behind", 14, 9)
    assert (row["status"], row["end_offset"], row["records_lacking"]) == expected


def test_the_epoch_of_a_tail_is_that_of_its_first_record_in_any_segment(tmp_path):
    common = history(0, 3, 5)
    mine = [*history(5, 3, 2), *history(7, 4, 2), *history(9, 6, 1)]
    one = write_copy(tmp_path / "a", common + mine, cuts=(9,))
    other = write_copy(tmp_path / "b", common + history(5, 8, 2), cuts=(6,))
    row = compared(one, other)["a"]
    assert (row["status"], row["common_until"], row["records_only_here"]) == ("diverged", 5, 5)
    assert (row["epoch_here"], row["epoch_there"]) == (3, 8)


@pytest.mark.parametrize("order", ["abc", "acb", "bac"])
def test_a_copy_that_ends_before_a_damaged_batch_says_nothing_of_it(order, tmp_path):
    """Of the two longest copies, the best is the one whose batches can all be read."""
    batches = history(0, 1, 6)
    copies = {"a": batches, "b": batches[:2], "c": batches}
    paths = {name: write_copy(tmp_path / name, some) for name, some in copies.items()}
    path = next((tmp_path / "a").glob("*/*.log"))
    data = bytearray(path.read_bytes())
    data[[*LogReader(data)][4].position - 1] ^= 1  # the last byte of the fourth batch
    path.write_bytes(data)
    rows = compared(*(paths[name] for name in order))
    assert {name: (row["status"], row["faults"]) for name, row in rows.items()} == {
        "a": ("same", 1), "b": ("behind", 0), "c": ("best", 0),
    }  # fmt: skip
