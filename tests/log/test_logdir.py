"""Segments are cut at batch boundaries, and read completely or not at all."""

import gzip
import itertools
import os
import shutil
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from coterie._core.codec.batch import LogReader
from coterie.errors import LogError
from coterie.log.folders import (
    Segment,
    cut_points,
    find_segments,
    left_alone,
    listing_of,
    read_segment,
    with_deleted,
)
from coterie.state.partial import ScanOptions
from support import golden_data
from support.commandline import fails

DATA = b"".join(path.read_bytes() for path in golden_data.segments("transactions"))
BATCHES = list(LogReader(DATA))
STARTS = [batch.position for batch in BATCHES]
LAST_OFFSETS = dict(
    zip([*STARTS[1:], len(DATA)], [batch.last_offset for batch in BATCHES], strict=True)
)  # by the end of the batch


@given(st.integers(1, 2 * len(DATA)))
def test_pieces_hold_whole_batches_and_are_as_long_as_they_may_be(max_bytes):
    cuts = cut_points(DATA, max_bytes)
    assert cuts[0] == 0
    assert cuts[-1] == len(DATA)
    assert set(cuts[:-1]) <= set(STARTS)
    ends = [*STARTS[1:], len(DATA)]
    for start, end in itertools.pairwise(cuts):
        first_end = ends[STARTS.index(start)]
        assert end - start <= max_bytes or end == first_end
        if end < len(DATA):
            assert ends[STARTS.index(end)] - start > max_bytes


@given(st.integers(0, len(DATA)), st.integers(1, 5000), st.binary(min_size=1, max_size=60))
def test_what_follows_a_wrong_length_is_one_piece_with_the_batch_before(at, max_bytes, noise):
    data = DATA[:at] + noise + b"\xff" * 40
    cuts = cut_points(data, max_bytes)
    assert cuts[0] == 0
    assert cuts[-1] == len(data)
    assert cuts == sorted(set(cuts))
    whole = LogReader(data, check_crc=False)
    positions = [batch.position for batch in whole]
    wrong = [f.position for f in whole.faults if f.kind in {"length", "tail"}]
    assume(wrong)  # the noise may be just what the batch that was cut lacked
    fault = min(wrong)
    assert fault == 0 or fault not in cuts
    pieces = []
    for start, end in itertools.pairwise(cuts):
        reader = LogReader(memoryview(data)[start:end], check_crc=False)
        pieces += [start + batch.position for batch in reader]
    assert pieces == positions


@given(st.integers(1, 2 * len(DATA)))
def test_a_scan_stops_behind_the_batch_that_reaches_the_bytes_it_was_given(max_bytes):
    fold, at = ScanOptions().new_fold(), 0
    while at < len(DATA):
        taken = fold.scan(DATA[at:], position=at, max_bytes=max_bytes)
        assert at + taken == min([end for end in STARTS if end >= at + max_bytes] + [len(DATA)])
        assert fold.segments[-1][1:3] == (at, taken)
        assert fold.expected_offset == LAST_OFFSETS[at + taken] + 1
        at += taken
    assert fold.scan(b"", max_bytes=max_bytes) == 0


def test_a_scan_takes_a_byte_at_least_and_all_where_the_fold_has_ended():
    fold = ScanOptions(on_fault="stop").new_fold()
    with pytest.raises(ValueError, match="max_bytes"):
        fold.scan(DATA, max_bytes=0)
    assert fold.scan(b"\xff" * 40 + DATA, max_bytes=1) == 40 + len(DATA)
    assert fold.scan(DATA, max_bytes=1) == len(DATA)


def test_no_bytes_are_no_piece_and_a_piece_has_a_size():
    assert cut_points(b"", 10) == [0]
    with pytest.raises(ValueError, match="max_bytes"):
        cut_points(DATA, 0)


def test_a_big_file_is_mapped_and_reads_the_same(monkeypatch):
    (segment, *_) = find_segments([golden_data.log("basic")]).segments
    read = bytes(read_segment(segment))
    monkeypatch.setattr("coterie.log.folders.MAP_FROM_BYTES", 1)
    mapped = read_segment(segment)
    assert not isinstance(mapped, bytes)
    assert bytes(memoryview(mapped)) == read


def test_segments_come_by_partition_then_by_base_offset():
    listing = find_segments([golden_data.log("compacted")])
    assert [s.path for s in listing.segments] == list(map(str, golden_data.segments("compacted")))
    assert listing.passed_over == ()


def test_a_file_that_two_paths_lead_to_counts_once(tmp_path):
    log = golden_data.log("transactions")
    (tmp_path / "link").symlink_to(log)
    twice = find_segments([log, log / "__consumer_offsets-1", tmp_path / "link"])
    assert twice == find_segments([log])


def test_files_without_a_partition_stand_before_partitions_and_what_is_passed_over_by_name():
    def segment(partition, base_offset, name):
        return Segment(name, partition, base_offset, 1, None)

    loose, first, second = segment(None, None, "x"), segment(0, 0, "a"), segment(3, 0, "b")
    aside = [f"{number}.log.deleted" for number in (3, 1, 2, 5, 4)]
    listing = listing_of([second, loose, first], aside)
    assert listing.segments == (loose, first, second)
    assert listing.passed_over == tuple(sorted(aside))


def test_a_cleaned_segment_is_replaced_by_all_that_it_was_made_of():
    def segment(partition, base_offset, name=None):
        return Segment(name or f"{partition}-{base_offset}.log", partition, base_offset, 1, None)

    def deleted(partition, *base_offsets):
        return [segment(partition, at, f"{partition}-{at}.log.deleted") for at in base_offsets]

    whole, cut, early = deleted(1, 0, 5, 7), deleted(1, 25, 28), deleted(0, 9)
    listing = listing_of(
        [segment(1, 0), segment(1, 10), segment(1, 20), segment(2, 0)],
        [s.path for s in (*whole, *cut, *early)],
    )
    listing = replace(listing, deleted=(*early, *whole, *cut))
    read = with_deleted(listing)
    assert read.segments == (*whole, segment(1, 10), segment(1, 20), segment(2, 0))
    assert read.deleted == (*early, *cut)
    assert read.passed_over == tuple(sorted(s.path for s in (*early, *cut)))


def test_deleted_segments_take_the_place_of_theirs_in_any_number_of_partitions(tmp_path):
    for number in (0, 3, 7, 12):
        folder = tmp_path / f"__consumer_offsets-{number}"
        folder.mkdir()
        for base in range(0, 90, 10):
            (folder / f"{base:020}.log").write_bytes(b"")
            for part in (base, base + 5):
                (folder / f"{part:020}.log.deleted").write_bytes(b"")
    read = find_segments([tmp_path], include_deleted=True)
    assert [(one.partition, one.base_offset) for one in read.segments] == [
        (number, part) for number in (0, 3, 7, 12) for part in range(0, 90, 5)
    ]
    assert (read.deleted, read.passed_over) == ((), ())


def test_deleted_segments_that_are_not_read_are_in_the_order_of_the_log(tmp_path):
    for number in (10, 2):
        folder = tmp_path / f"__consumer_offsets-{number}"
        folder.mkdir()
        (folder / f"{0:020}.log").touch()
        for base in (20, 0, 5):
            (folder / f"{base:020}.log.deleted").touch()
    listing = find_segments([tmp_path])
    assert [os.path.basename(one.path) for one in listing.segments] == [f"{0:020}.log"] * 2
    places = [(one.partition, one.base_offset) for one in listing.deleted]
    assert places == [(number, base) for number in (2, 10) for base in (0, 5, 20)]


def test_only_segments_of_one_partition_from_the_base_of_the_cleaned_one_on_replace_it(tmp_path):
    def listed(*names):
        for name in names:
            path = tmp_path / name
            path.parent.mkdir(exist_ok=True)
            path.touch()
        found = find_segments([tmp_path], include_deleted=True)
        return [os.path.relpath(one.path, tmp_path) for one in found.segments]

    one, two = (f"__consumer_offsets-{number}" for number in (1, 2))
    live = [f"{one}/{0:020}.log", f"{two}/{10:020}.log", f"{two}/{20:020}.log"]
    gone = [f"{two}/{base:020}.log.deleted" for base in (0, 5)]  # of a cleaned one that is gone
    assert listed(*live, *gone) == live
    originals = [f"{two}/{base:020}.log.deleted" for base in (20, 25)]
    assert listed(*originals) == [*live[:2], *originals]
    shutil.rmtree(tmp_path / one)
    assert listed() == [live[1], *originals]


def test_files_without_an_offset_stand_first_and_by_name(tmp_path):
    folder = tmp_path / "__consumer_offsets-1"
    folder.mkdir()
    for name in ("d", "b", f"{0:020}", "e", "a", f"{7:020}", "c"):
        (folder / f"{name}.log").touch()
    names = [os.path.basename(one.path) for one in find_segments([tmp_path]).segments]
    assert names == [*(f"{name}.log" for name in "abcde"), f"{0:020}.log", f"{7:020}.log"]


def test_a_file_is_mapped_from_a_size_on(tmp_path):
    path = tmp_path / f"{0:020}.log"
    path.write_bytes(b"abcdef")
    (segment,) = find_segments([path]).segments
    for most, is_mapped in ((5, True), (6, True), (7, False)):
        data = read_segment(segment, map_from_bytes=most)
        assert (bytes(data), type(data) is not bytes) == (b"abcdef", is_mapped)
        assert type(read_segment(segment, map_from_bytes=most, in_memory=True)) is bytes


def test_a_partition_may_lack_segments_where_others_have_some(tmp_path):
    empty, other = (tmp_path / f"__consumer_offsets-{number}" for number in (1, 2))
    empty.mkdir()
    with pytest.raises(LogError, match=r"-1: no segment \(.log\) in it; give a folder"):
        find_segments([empty])
    with pytest.raises(LogError, match=r"no segment \(.log\) in its __consumer_offsets-N folders"):
        find_segments([tmp_path])
    other.mkdir()
    (other / f"{0:020}.log").touch()
    assert [one.partition for one in find_segments([tmp_path]).segments] == [2]


@pytest.mark.parametrize("spelled", ["link/__consumer_offsets-5", "x/../__consumer_offsets-5"])
def test_one_folder_spelled_in_two_ways_is_one_copy_of_its_partition(tmp_path, spelled):
    folder = tmp_path / "__consumer_offsets-5"
    folder.mkdir()
    (tmp_path / "x").mkdir()
    (tmp_path / "link").symlink_to(tmp_path)
    data = golden_data.segments("basic")[0].read_bytes()
    names = [f"{base:020d}.log" for base in (0, 700)]
    for name in names:
        (folder / name).write_bytes(data)
    listing = find_segments([folder / names[0], tmp_path / spelled / names[1]])
    assert [segment.log_name for segment in listing.segments] == names
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / folder.name).mkdir()
    (tmp_path / "copy" / folder.name / names[1]).write_bytes(data)
    with pytest.raises(LogError, match="partition 5 is in two folders"):
        find_segments([folder / names[0], tmp_path / "copy" / folder.name / names[1]])


def test_of_a_segment_that_lies_there_twice_one_is_named_and_left_alone(tmp_path):
    import cramjam

    folder = tmp_path / "__consumer_offsets-5"
    folder.mkdir()
    data = golden_data.segments("basic")[0].read_bytes()
    (folder / f"{0:020d}.log").write_bytes(data)
    (folder / f"{0:020d}.log.zst").write_bytes(cramjam.zstd.compress(data))
    listing = find_segments([tmp_path])
    assert [s.path for s in listing.segments] == [str(folder / f"{0:020d}.log")]
    assert listing.passed_over == (str(folder / f"{0:020d}.log.zst"),)
    (line,) = left_alone(listing.passed_over)
    assert line.endswith("the same segment lies beside it")


def test_files_of_one_base_offset_are_one_segment_only_in_a_partition_where_they_follow(tmp_path):
    def segment(partition, base_offset, name):
        return Segment(name, partition, base_offset, 1, None)

    pairs = [[segment(4, base, f"{base}.log{end}") for end in ("", ".zst")] for base in (0, 5, 9)]
    loose = [segment(None, 0, f"{folder}/0.log") for folder in "ab"]
    nameless = [segment(4, None, f"{name}.log") for name in "xy"]
    listing = listing_of([one for some in (*pairs, loose, nameless) for one in some], ())
    assert listing.segments == (*loose, *nameless, *(plain for plain, _ in pairs))
    assert listing.passed_over == tuple(packed.path for _, packed in pairs)


def test_only_files_named_as_segments_count_and_those_set_aside_are_passed_over(tmp_path):
    folder = tmp_path / "__consumer_offsets-1"
    folder.mkdir()
    (tmp_path / "__consumer_offsets-3.0d9bb4-delete").mkdir()
    zero, nine = f"{0:020}", f"{9:020}"
    for name in (f"{zero}.log", f"{zero}.log.gz", f"{nine}.log.zst", "x.log"):
        (folder / name).touch()
    for name in (f"{zero}.index", f"{zero}.log.bz2", "leader-epoch-checkpoint", "log"):
        (folder / name).touch()
    aside = [
        f"{zero}.log.swap",
        f"{zero}.log.cleaned",
        f"{zero}.index.deleted",
        f"{nine}.log.deleted",
    ]
    for name in aside:
        (folder / name).touch()
    for paths in ([tmp_path], [folder]):
        listing = find_segments(paths)
        names = [os.path.basename(one.path) for one in listing.segments]
        assert names == ["x.log", f"{zero}.log", f"{nine}.log.zst"]
        assert [one.compression for one in listing.segments] == [None, None, "zst"]
        assert [os.path.basename(one.path) for one in listing.deleted] == [f"{nine}.log.deleted"]
        left = {os.path.basename(path) for path in listing.passed_over} - {f"{zero}.log.gz"}
        beside = {"__consumer_offsets-3.0d9bb4-delete"} if paths == [tmp_path] else set()
        assert left == {*aside} | beside


def test_a_file_that_is_named_is_a_segment_by_its_folder_its_offset_or_its_first_batch(tmp_path):
    folder = tmp_path / "__consumer_offsets-7"
    folder.mkdir()
    log, other = DATA[: STARTS[1]], b"something else, long enough for a batch" * 3
    for place, name, data, partition in (
        (folder, "x.log", other, 7), (tmp_path, f"{3:020}.log", other, None),
        (tmp_path, "x.log", log, None), (tmp_path, "empty.log", b"", None),
    ):  # fmt: skip
        (place / name).write_bytes(data)
        (segment,) = find_segments([place / name]).segments
        assert (segment.partition, segment.size) == (partition, len(data))
    (tmp_path / "y.log").write_bytes(other)
    (tmp_path / "y.txt").write_bytes(log)
    os.mkfifo(tmp_path / f"{5:020}.log")
    for name, why in (("y.log", "no batch at its"), ("y.txt", "give"), (f"{5:020}.log", "give")):
        with pytest.raises(LogError, match=f"not a log segment.*{why}"):
            find_segments([tmp_path / name])


def test_a_compressed_file_is_never_mapped(tmp_path):
    path = tmp_path / f"{0:020}.log.gz"
    path.write_bytes(gzip.compress(DATA[:1000]) + gzip.compress(DATA[1000:]))
    (segment,) = find_segments([path]).segments
    assert bytes(read_segment(segment, map_from_bytes=1)) == DATA


def test_a_number_that_no_partition_can_have_makes_no_partition_folder(tmp_path):
    (segment, *_) = golden_data.segments("basic")
    for number in ("99999999999", "٣", "1x"):
        folder = tmp_path / f"__consumer_offsets-{number}"
        folder.mkdir()
        (folder / segment.name).write_bytes(segment.read_bytes())
    with pytest.raises(LogError, match="no __consumer_offsets-N folder in it"):
        find_segments([tmp_path])


@pytest.fixture
def truncated(tmp_path, monkeypatch):
    """A log whose segment is truncated between the look at its size and the read."""
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    path = folder / f"{0:020}.log"
    shutil.copy(golden_data.segments("basic")[0], path)
    real, half = os.fstat, path.stat().st_size // 2

    def truncating(file):
        status = real(file)
        if os.path.samestat(status, path.stat()):
            os.truncate(path, half)
        return status

    monkeypatch.setattr("coterie.log.folders.os.fstat", truncating)
    monkeypatch.setattr("coterie.log.folders.MAP_FROM_BYTES", 1)
    return tmp_path


@pytest.mark.parametrize("command", ["verify", "records"])
def test_a_segment_that_is_truncated_while_it_is_read_is_one_line(truncated, command):
    fails(command, truncated, says=(f"{0:020}.log", "was truncated while it was read"))


@pytest.mark.parametrize("suffix", ["gz", "zst"])
def test_a_compressed_file_without_a_byte_is_not_whole(tmp_path, suffix):
    folder = tmp_path / "__consumer_offsets-5"
    folder.mkdir()
    (folder / f"{0:020d}.log.{suffix}").touch()
    (segment,) = find_segments([tmp_path]).segments
    with pytest.raises(LogError, match=rf"not a whole \.{suffix} file"):
        read_segment(segment)
