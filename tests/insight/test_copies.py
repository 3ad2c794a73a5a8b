"""Copies of a log from several brokers: common history, divergence, the best copy."""

import gzip
import json
from concurrent.futures import CancelledError

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie._core.codec.batch import LogReader
from coterie.insight.records.comparison import compare, compare_partition
from coterie.insight.records.threads import Cancellation
from coterie.log.folders import find_segments
from coterie.state.replay_engine import Silent
from support import golden_data
from support.commandline import coterie
from support.insight.copies import (
    common_until,
    compared,
    end_of,
    generation,
    history,
    records_in,
    write_copy,
)

SPLIT = history(0, 3, 100), history(100, 3, 50), history(100, 5, 20, time=10_000)


@pytest.fixture
def split(tmp_path):
    """Three copies after an unclean election: ``b`` was elected, ``a`` led before; ``c`` lags."""
    common, old, new = SPLIT
    return [
        write_copy(tmp_path / "a", common + old),
        write_copy(tmp_path / "b", common + new),
        write_copy(tmp_path / "c", common[:90]),
    ]


def test_the_best_copy_is_that_of_the_highest_epoch_even_if_it_is_shorter(split):
    rows = compared(*split)
    assert [row["status"] for row in rows.values()] == ["diverged", "best", "behind"]
    assert (rows["a"]["end_offset"], rows["b"]["end_offset"]) == (150, 120)


def test_copies_have_diverged_where_another_epoch_begins(split):
    a = compared(*split)["a"]
    assert a["common_until"] == 100
    assert (a["epoch_here"], a["epoch_there"]) == (3, 5)
    assert (a["commits_only_here"], a["commits_lacking"]) == (50, 20)
    assert a["epochs"] == [{"epoch": 3, "offset": 0}]


def test_a_copy_that_is_behind_lacks_records_and_has_none_of_its_own(split):
    c = compared(*split)["c"]
    assert (c["common_until"], c["records_only_here"], c["records_lacking"]) == (90, 0, 30)


def test_what_only_one_copy_has_is_counted_by_group(tmp_path):
    common = history(0, 1, 5)
    mine = [(5, 1, [generation(5, 50, 8, b"h")]), *history(6, 1, 2, time=100, group=b"h")]
    theirs = history(5, 2, 1, time=500)
    rows = compared(
        write_copy(tmp_path / "a", common + mine), write_copy(tmp_path / "b", common + theirs)
    )
    (group,) = rows["a"]["only_here"]
    assert group == {"group_id": "h", "records": 3, "commits": 2, "generations": [8],
                     "first_time": 50, "last_time": 107}  # fmt: skip
    assert rows["a"]["generations_only_here"] == 1
    assert [g["group_id"] for g in rows["a"]["lacking"]] == ["g"]


def test_what_lies_behind_the_common_history_was_not_removed_from_it(tmp_path):
    """The batches of one copy hold an offset more: it is lacking, and none is removed."""
    (more,) = history(5, 1, 1, size=3)
    fewer = (5, 1, more[2][:2])
    rows = compared(
        write_copy(tmp_path / "a", [*history(0, 1, 5), more]),
        write_copy(tmp_path / "b", [*history(0, 1, 5), fewer]),
    )
    worse = rows["b"]
    assert (worse["common_until"], worse["records_lacking"]) == (7, 1)
    assert [row["removed_here"] for row in rows.values()] == [0, 0]


RECORD = (5, 50, b"key", b"value")


@pytest.mark.parametrize(
    ("epoch", "record"),
    [
        (2, RECORD),
        (1, (5, 51, b"key", b"value")),
        (1, (5, 50, b"kez", b"value")),
        (1, (5, 50, b"keyv", b"alue")),
        (1, (5, 50, b"key", b"valuE")),
        (1, (5, 50, b"key", None)),
        (1, (5, 50, b"key", b"")),
    ],
)
def test_records_of_one_offset_are_the_same_only_if_every_field_is(tmp_path, epoch, record):
    before, after = history(0, 1, 5), history(6, 2, 3)
    mine = [*before, (5, 1, [RECORD]), *after]
    theirs = [*before, (5, epoch, [record]), *after]
    rows = compared(write_copy(tmp_path / "a", mine), write_copy(tmp_path / "b", theirs))
    assert [row["status"] for row in rows.values()] == ["best", "diverged"]
    assert rows["b"]["common_until"] == 5
    again = compared(write_copy(tmp_path / "c", mine), write_copy(tmp_path / "d", mine, codec=4))
    assert [row["status"] for row in again.values()] == ["best", "same"]


def test_a_leader_that_wrote_nothing_is_known_by_its_checkpoint(tmp_path):
    """Its copy is the shorter one, and the other broker will truncate to it."""
    common = history(0, 3, 10)
    rows = compared(
        write_copy(tmp_path / "a", common + history(10, 3, 5), epochs=[(3, 0)]),
        write_copy(tmp_path / "b", common, epochs=[(3, 0), (5, 10)]),
    )
    assert [row["status"] for row in rows.values()] == ["diverged", "best"]
    assert (rows["a"]["common_until"], rows["a"]["records_only_here"]) == (10, 5)


@pytest.mark.parametrize(
    "text", ["", "0", "1\n1\n3 0\n", "0\n1\nthree 0\n", "\xff", "0\n1\n7 900\n"]
)
def test_a_checkpoint_that_cannot_be_read_or_is_of_later_does_not_count(tmp_path, text):
    copies = [write_copy(tmp_path / name, history(0, 3, 4)) for name in "ab"]
    checkpoint = tmp_path / "a" / "__consumer_offsets-0" / "leader-epoch-checkpoint"
    checkpoint.write_text(text, encoding="latin-1")
    assert {row["last_epoch"] for row in compared(*copies).values()} == {3}


def test_a_compacted_copy_is_the_same_history_and_the_other_one_is_better(tmp_path):
    batches = history(0, 2, 20, size=3)
    rows = compared(
        write_copy(tmp_path / "a", batches, removed=set(range(0, 40, 2)), codec=4),
        write_copy(tmp_path / "b", batches, cuts=(30,)),
    )
    assert [row["status"] for row in rows.values()] == ["same", "best"]
    assert rows["a"]["removed_here"] == 20
    assert rows["a"]["removed_there"] == 0


def test_a_copy_that_retention_cut_is_compared_from_its_start(tmp_path):
    batches = history(0, 2, 20)
    whole, cut = write_copy(tmp_path / "a", batches), write_copy(tmp_path / "b", batches[8:])
    rows = compared(whole, cut)
    assert [row["status"] for row in rows.values()] == ["best", "same"]
    assert (rows["b"]["start_offset"], rows["b"]["removed_here"]) == (8, 0)


def test_an_empty_active_segment_says_how_far_a_cleaned_copy_reaches(tmp_path):
    """The cleaner took the last record of the segment before; nothing is missing."""
    batches = history(0, 2, 5)
    whole = write_copy(tmp_path / "a", batches)
    cleaned = write_copy(tmp_path / "b", batches, removed={4})
    (tmp_path / "b" / "__consumer_offsets-0" / f"{5:020}.log").write_bytes(b"")
    rows = compared(whole, cleaned)
    assert [row["status"] for row in rows.values()] == ["best", "same"]
    assert rows["b"]["end_offset"] == 5


def test_a_batch_that_cannot_be_read_is_no_divergence(tmp_path):
    copies = [write_copy(tmp_path / name, history(0, 1, 10)) for name in "ab"]
    path = tmp_path / "b" / "__consumer_offsets-0" / f"{0:020}.log"
    data = bytearray(path.read_bytes())
    data[next(LogReader(data)).size - 1] ^= 1  # the last byte of the first batch
    path.write_bytes(data)
    for order in (copies, copies[::-1]):
        rows = compared(*order)
        assert (rows["a"]["status"], rows["a"]["faults"]) == ("best", 0)
        assert (rows["b"]["status"], rows["b"]["faults"]) == ("same", 1)


@pytest.mark.parametrize("order", ["abc", "cab"])
def test_two_copies_with_the_same_damage_are_behind_one_that_is_whole(tmp_path, order):
    copies = {name: write_copy(tmp_path / name, history(0, 1, 10)) for name in "abc"}
    for name in "ab":
        path = tmp_path / name / "__consumer_offsets-0" / f"{0:020}.log"
        data = bytearray(path.read_bytes())
        data[next(LogReader(data)).size - 1] ^= 1
        path.write_bytes(data)
    rows = compared(*(copies[name] for name in order))
    shown = {name: (row["status"], row["faults"]) for name, row in rows.items()}
    assert shown == {"a": ("same", 1), "b": ("same", 1), "c": ("best", 0)}


def test_batches_that_cannot_be_read_are_counted_on_standard_error(tmp_path):
    copies = [write_copy(tmp_path / name, history(0, 1, 10)) for name in "ab"]
    path = tmp_path / "b" / "__consumer_offsets-0" / f"{0:020}.log"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    ran = coterie("compare", *copies)
    assert ran.returncode == 0
    assert ran.stderr == "coterie: 1 corrupt place was left out; `coterie verify` lists them\n"


def test_copies_that_are_damaged_at_different_places_are_no_whole_copy(tmp_path):
    copies = [write_copy(tmp_path / name, history(0, 1, 10)) for name in "abc"]
    for name, batch_number in (("a", 2), ("b", 5)):
        path = tmp_path / name / "__consumer_offsets-0" / f"{0:020}.log"
        data = bytearray(path.read_bytes())
        data[list(LogReader(bytes(data)))[batch_number].position + 30] ^= 1
        path.write_bytes(data)
    ran = coterie("compare", *copies[:2])
    says = f"coterie: no copy of partition 0 is whole: the best, of {copies[0]}, has corrupt"
    assert says in ran.stderr
    assert "is whole" not in coterie("compare", *copies).stderr


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-1],
        lambda data: data + bytes(40),
        lambda data: bytes(len(data)),
        lambda data: data[: next(LogReader(data)).size] + bytes([255]) * 200,
    ],
    ids=["truncated", "zeros behind", "only zeros", "other bytes"],
)
def test_bytes_that_are_no_whole_batch_are_one_corrupt_place(tmp_path, damage):
    copies = [write_copy(tmp_path / name, history(0, 1, 10)) for name in "ab"]
    path = tmp_path / "b" / "__consumer_offsets-0" / f"{0:020}.log"
    path.write_bytes(damage(path.read_bytes()))
    assert compared(*copies)["b"]["faults"] == 1
    assert coterie("compare", *copies).stderr.startswith("coterie: 1 corrupt place was left out")


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
def test_segment_files_are_copies_too_however_they_are_compressed(tmp_path, suffix):
    import cramjam

    pack = {"": bytes, ".gz": gzip.compress, ".zst": cramjam.zstd.compress}[suffix]
    common, old, new = SPLIT
    paths = []
    for name, batches in (("a", common + old), ("b", common + new)):
        write_copy(tmp_path / name, batches)
        data = (tmp_path / name / "__consumer_offsets-0" / f"{0:020}.log").read_bytes()
        paths.append(tmp_path / f"{name}.log{suffix}" if name == "a" else tmp_path / "b.log")
        paths[-1].write_bytes(bytes(pack(data)) if name == "a" else data)
    rows = compared(*map(str, paths))
    assert [row["status"] for row in rows.values()] == ["diverged", "best"]
    assert {row["offsets_partition"] for row in rows.values()} == {None}
    assert rows["b.log"]["folder"] == str(paths[1])


def test_a_tail_that_cannot_be_read_is_no_part_of_a_copy(tmp_path):
    copies = [write_copy(tmp_path / name, history(0, 1, 10)) for name in "ab"]
    path = tmp_path / "b" / "__consumer_offsets-0" / f"{0:020}.log"
    path.write_bytes(path.read_bytes()[:-1])
    b = compared(*copies)["b"]
    assert (b["status"], b["end_offset"], b["records_lacking"]) == ("behind", 9, 1)


@pytest.mark.parametrize("incident", ["compaction", "compaction-transactions"])
def test_a_log_that_a_real_broker_compacted_is_the_same_history_as_before(incident):
    folder = golden_data.GOLDEN / "incidents" / incident
    listings = {name: find_segments([folder / name]) for name in ("compacted", "whole")}
    for compacted, whole in compare(listings, Silent()):
        assert (compacted["status"], whole["status"]) == ("same", "best")
        assert compacted["removed_here"] > 0 == compacted["removed_there"]


# Random histories: elections begin an epoch, and an unclean one loses records; then copies are cut
# and cleaned, each in its own way.
COUNTS = st.integers(0, 6)


@st.composite
def histories(draw):
    """Two copies' batches, and the offset at which they part (None: never)."""
    batches, epoch, time = [], draw(st.integers(0, 2)), 0

    def led(batches, count):
        nonlocal epoch, time
        for _ in range(count):
            time += 1
            size = draw(st.integers(1, 3))
            batches = batches + history(end_of(batches), epoch, 1, size=size, time=time)
            if draw(st.integers(0, 3)) == 0:
                epoch += draw(st.integers(1, 2))
        return batches

    batches = led(batches, draw(COUNTS) + 1)
    one = led(batches, draw(COUNTS))
    epoch += 1
    other = led(batches, draw(COUNTS))
    parted = len(one) > len(batches) < len(other)
    return one, other, end_of(batches) if parted else None


@st.composite
def copies(draw, batches):
    """How a copy of batches is written: cut at the end, cleaned, in segments."""
    batches = batches[: draw(st.integers(1, len(batches)))]
    cuts = [base for base, _, _ in batches if draw(st.integers(0, 3)) == 0]
    active = max(cuts, default=0)
    removed = {
        record[0]
        for base, _, records in batches
        for record in records
        if base < active and draw(st.booleans())
    }
    return batches, {"cuts": cuts, "removed": removed, "codec": draw(st.sampled_from([0, 4]))}


@given(st.data())
def test_the_common_history_is_that_of_a_slow_model_and_never_shorter_than_the_truth(
    tmp_path_factory, data
):
    one, other, parted = data.draw(histories())
    written = [data.draw(copies(batches)) for batches in (one, other)]
    folder = tmp_path_factory.mktemp("copies")
    paths = [
        write_copy(folder / name, batches, **how)
        for name, (batches, how) in zip("ab", written, strict=True)
    ]
    with pytest.MonkeyPatch.context() as patch:
        if data.draw(st.booleans(), label="few batches at a time"):
            patch.setattr("coterie.insight.records.common_prefix.COMPARED_BYTES", 1)
            patch.setattr("coterie.insight.records.copy_tails.COMPARED_BYTES", 1)
        rows = compared(*paths)
    records = [records_in(batches, how["removed"]) for batches, how in written]
    ends = [rows[name]["end_offset"] for name in "ab"]
    assert ends == [end_of(batches) for batches, _ in written]
    best = max(rows.values(), key=lambda row: row["status"] == "best")
    last = {name: (row["last_epoch"], row["end_offset"]) for name, row in rows.items()}
    assert last[best["copy"].rpartition("/")[2]] == max(last.values())
    (worse,) = (row for row in rows.values() if row is not best)
    until = worse["common_until"]
    assert until == common_until([(b, how["removed"]) for b, how in written], ends)
    own, its = records if worse is rows["a"] else records[::-1]
    assert worse["records_only_here"] == sum(offset >= until for offset in own)
    assert worse["records_lacking"] == sum(offset >= until for offset in its)
    assert worse["removed_here"] == len({o for o in its if o < until} - own.keys())
    # The truth: the histories part at `parted`, or one is a part of the other.
    really = parted is not None and parted < min(ends)
    assert until >= min(ends if parted is None else [parted, *ends])
    assert really or worse["status"] != "diverged"
    if really and not any(how["removed"] for _, how in written):
        assert (until, worse["status"]) == (parted, "diverged")


def test_a_comparison_that_is_left_reads_no_further(split):
    listings = {copy: find_segments([copy]) for copy in split}
    reading = Cancellation()
    reading.cancel()
    segments = {name: listing.segments for name, listing in listings.items()}
    with pytest.raises(CancelledError):
        compare_partition(0, segments, reading)


def test_threads_and_pieces_change_no_answer(split, monkeypatch):
    whole = compared(*split)
    monkeypatch.setattr("coterie.insight.records.common_prefix.COMPARED_BYTES", 100)
    monkeypatch.setattr("coterie.insight.records.copy_tails.COMPARED_BYTES", 100)
    monkeypatch.setattr("coterie.insight.records.comparison.UNIT_BYTES_MIN", 1)
    assert compared(*split) == whole


def test_the_command_exits_1_if_copies_have_diverged(split):
    a, b, c = split
    assert coterie("compare", a, b).returncode == 1
    assert coterie("compare", b, c).returncode == 0


def test_the_best_copies_are_folders_that_other_commands_take(split):
    ran = coterie("compare", *split, "--take", "best")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout == f"{split[1]}/__consumer_offsets-0\n"
    assert coterie("growth", *ran.stdout.split()).returncode == 0


def test_data_have_every_partition_and_copy(split):
    rows = json.loads(coterie("compare", *split, "--format", "json").stdout)
    assert [row["status"] for row in rows] == ["diverged", "best", "behind"]
    heading = coterie("compare", *split, "--format", "csv").stdout.split("\n")[0]
    assert heading == ",".join(rows[0])


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["{a}"], "give two copies or more"),
        (["{a}", "{a}"], "give two copies or more, each once"),
        (["{a}", "{b}", "--take", "best", "--format", "json"], "--take prints folders"),
        (["{a}", "{b}", "--overwrite"], "--overwrite is for --out"),
        (["{a}", "{b}", "-o", "{a}/x.csv"], "x.csv"),
    ],
)
def test_wrong_use_is_one_line_with_the_status_2(split, args, says):
    a, b, _ = split
    ran = coterie("compare", *(arg.format(a=a, b=b) for arg in args))
    assert ran.returncode == 2
    assert says in ran.stderr
    assert ran.stderr.count("\n") == 1


def test_a_question_that_gets_two_copies_names_the_command_that_compares_them(split):
    ran = coterie("explain", *split[:2])
    assert ran.returncode == 1
    assert "coterie compare" in ran.stderr
