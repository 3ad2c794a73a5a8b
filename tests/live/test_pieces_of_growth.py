"""What a partition's files have grown by: piece by piece, and divided at an offset."""

import gzip
import os
from pathlib import Path

import pytest

from coterie.errors import LogError
from coterie.live import log_growth as growth
from coterie.live.log_growth import Growth, PartitionFiles, ends_of_pieces, pieces_of, up_to
from coterie.log.folders import find_segments
from support.growing_log import GrowingLog
from support.log_writer import batch, commit, each


def ends(data, size, start=0, end=None):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(growth, "GROWTH_PIECE_BYTES", size)
        view = memoryview(data)
        return [*ends_of_pieces(view, start, len(data) if end is None else end)]


BATCHES = each(0, *(commit(at, metadata=b"m" * 40) for at in range(6)))
SIZE = len(BATCHES[0])  # all are of one size


def test_a_piece_has_as_many_whole_batches_as_fit_into_its_size_or_one():
    data = b"".join(BATCHES)
    assert {len(one) for one in BATCHES} == {SIZE}
    assert ends(data, SIZE) == [SIZE * count for count in range(1, 7)]
    assert ends(data, 2 * SIZE - 1) == [SIZE * count for count in range(1, 7)]
    assert ends(data, 2 * SIZE) == [2 * SIZE, 4 * SIZE, 6 * SIZE]
    assert ends(data, 4 * SIZE + 1) == [4 * SIZE, 6 * SIZE]
    assert ends(data, 1_000 * SIZE) == [6 * SIZE]
    assert ends(data, 10) == [SIZE * count for count in range(1, 7)]  # larger than a piece
    assert ends(data, 2 * SIZE, start=SIZE, end=4 * SIZE) == [3 * SIZE, 4 * SIZE]
    assert ends(data, 2 * SIZE, start=SIZE, end=SIZE) == []


@pytest.mark.parametrize("rest", [b"\xff" * 30, BATCHES[5][:-1], BATCHES[5][:20]])
def test_bytes_at_the_end_that_are_no_batch_are_in_no_piece(rest):
    data = b"".join(BATCHES[:3])
    assert ends(data + rest, SIZE) == [SIZE, 2 * SIZE, 3 * SIZE]
    assert ends(data + rest, 100 * SIZE) == [3 * SIZE]
    assert ends(rest, 10) == []


@pytest.fixture
def log(tmp_path):
    """Two segments: offsets 0 to 2 and 3 to 5, a batch each."""
    log = GrowingLog(tmp_path / "log")
    log.put([(0, b"".join(BATCHES[:3])), (3, b"".join(BATCHES[3:]))])
    return log


def grown(log):
    return PartitionFiles().grown(find_segments([log.home]).segments)


def test_a_file_that_was_replaced_meanwhile_is_not_read(log):
    found, path = grown(log), log.folder / f"{0:020}.log"
    (aside := log.folder / "aside").write_bytes(path.read_bytes())
    aside.replace(path)
    with pytest.raises(LogError, match=r"0\.log: was replaced while it was read"):
        list(pieces_of(found[0]))


def places(growths):
    return [(Path(one.segment.path).stem[-1], one.start, one.end) for one in growths]


@pytest.mark.parametrize(
    ("next_offset", "before", "after"),
    [
        (0, [], [("0", 0, 3), ("3", 0, 3)]),
        (1, [("0", 0, 1)], [("0", 1, 3), ("3", 0, 3)]),
        (2, [("0", 0, 2)], [("0", 2, 3), ("3", 0, 3)]),
        (3, [("0", 0, 3)], [("3", 0, 3)]),
        (5, [("0", 0, 3), ("3", 0, 2)], [("3", 2, 3)]),
        (6, [("0", 0, 3), ("3", 0, 3)], []),
    ],
)
def test_a_log_is_divided_before_the_batch_of_an_offset(log, next_offset, before, after):
    divided = up_to(grown(log), next_offset)

    def sizes(places):
        return [(name, start * SIZE, end * SIZE) for name, start, end in places]

    assert [places(part) for part in divided] == [sizes(before), sizes(after)]


def test_a_growth_that_begins_within_a_segment_is_divided_there():
    data = memoryview(b"".join(BATCHES))
    whole = Growth(None, data, SIZE, 5 * SIZE)
    before, after = up_to([whole], 3)
    assert [(one.start, one.end) for one in before] == [(SIZE, 3 * SIZE)]
    assert [(one.start, one.end) for one in after] == [(3 * SIZE, 5 * SIZE)]


def test_pages_of_a_mapping_leave_the_memory_once_they_were_read(monkeypatch):
    """Twice: when the batches are looked for, and after what takes a piece has gone on."""
    forgotten = []
    monkeypatch.setattr(growth, "forget", lambda data, *piece: forgotten.append(piece))
    assert ends(b"".join(BATCHES), 2 * SIZE) == [2 * SIZE, 4 * SIZE, 6 * SIZE]
    pieces = [(0, 2 * SIZE), (2 * SIZE, 4 * SIZE), (4 * SIZE, 6 * SIZE)]
    assert forgotten == pieces
    monkeypatch.setattr(growth, "GROWTH_PIECE_BYTES", 2 * SIZE)
    data, taken = memoryview(b"".join(BATCHES)), []
    for piece in pieces_of(Growth(None, data, 0, len(data))):
        taken.append((piece.start, piece.end))
        assert forgotten[6:] == taken[:-1]
    assert forgotten == pieces * 3


def test_the_last_piece_of_a_growth_has_the_bytes_that_are_no_batch(monkeypatch):
    monkeypatch.setattr(growth, "GROWTH_PIECE_BYTES", 2 * SIZE)
    data = memoryview(b"".join(BATCHES[:5]) + b"\xff" * 30)
    pieces = [(one.start, one.end) for one in pieces_of(Growth(None, data, 0, len(data)))]
    assert pieces == [(0, 2 * SIZE), (2 * SIZE, 4 * SIZE), (4 * SIZE, 5 * SIZE + 30)]
    only = [(one.start, one.end) for one in pieces_of(Growth(None, data, SIZE, 2 * SIZE))]
    assert only == [(SIZE, 2 * SIZE)]


def test_only_what_is_new_has_grown_and_the_rest_waits_for_its_end(log):
    files = PartitionFiles()

    def step():
        found = files.grown(find_segments([log.home]).segments)
        return None if found is None else places(found)

    assert (files.waiting_bytes, files.damage) == (0, None)
    assert step() == [("0", 0, 3 * SIZE), ("3", 0, 3 * SIZE)]
    assert step() == []
    more = b"".join([*BATCHES[3:], batch(6, [commit(7)])])
    log.put([(0, b"".join(BATCHES[:3])), (3, more[:-5])])
    assert (step(), files.waiting_bytes, files.damage) == ([], len(more) - 3 * SIZE - 5, None)
    log.put([(0, b"".join(BATCHES[:3])), (3, more)])
    assert (step(), files.waiting_bytes) == ([("3", 3 * SIZE, len(more))], 0)
    log.put([(0, b"".join(BATCHES[:3])), (3, more), (7, b"")])
    assert step() == [("7", 0, 0)]
    log.put([(0, b"".join(BATCHES[:4])), (3, more), (7, b"")])  # not the last: it may not grow
    assert step() is None


def test_damage_is_that_of_the_last_segment(log):
    log.put([(0, b"".join(BATCHES[:3])), (3, BATCHES[3] + b"\xff" * 70)])
    segments, files = find_segments([log.home]).segments, PartitionFiles()
    assert places(files.grown(segments)) == [("0", 0, 3 * SIZE), ("3", 0, SIZE)]
    assert files.waiting_bytes == 70
    assert files.damage.startswith(f"{segments[1].path}: byte {SIZE}: 70 bytes that are no batch")


def test_files_that_are_touched_and_have_the_same_bytes_have_not_changed(tmp_path):
    log = GrowingLog(tmp_path / "log")
    log.put([(3, BATCHES[3]), (4, BATCHES[4])])
    (log.folder / f"{0:020}.log.gz").write_bytes(gzip.compress(b"".join(BATCHES[:3])))
    files = PartitionFiles()
    assert len(files.grown(find_segments([log.home]).segments)) == 3
    for path in log.folder.iterdir():
        os.utime(path, ns=(5, 5))
    assert files.grown(find_segments([log.home]).segments) == []


def test_bytes_that_changed_in_place_within_a_microsecond_are_noticed(log):
    path = sorted(log.folder.glob("*.log"))[-1]
    os.utime(path, ns=(7_000, 7_000))
    files = PartitionFiles()
    files.grown(find_segments([log.home]).segments)
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    os.utime(path, ns=(7_001, 7_001))
    assert files.grown(find_segments([log.home]).segments) is None


def test_bytes_that_became_others_and_files_that_are_gone_are_noticed(log):
    def after(segments):
        files, before = PartitionFiles(), [(0, b"".join(BATCHES[:3])), (3, BATCHES[3])]
        log.put(before)
        files.grown(find_segments([log.home]).segments)
        log.put(segments)
        return files.grown(find_segments([log.home]).segments)

    first, other = b"".join(BATCHES[:3]), b"".join(BATCHES[1:4])
    assert after([(0, first)]) is None
    assert after([(0, other), (3, BATCHES[3])]) is None
    assert after([(0, first), (4, BATCHES[3])]) is None
    assert after([(0, first), (3, BATCHES[3][:-1])]) is None
    assert after([(0, first[:SIZE]), (3, BATCHES[3])]) is None
    assert places(after([(0, first), (3, BATCHES[3] * 2)])) == [("3", SIZE, 2 * SIZE)]
