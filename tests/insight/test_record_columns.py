"""Columns of records, what aggregates ask of them, and readings that end early."""

from concurrent.futures import CancelledError
from types import SimpleNamespace

import numpy as np
import pytest

from coterie._core.fold.record_scan import RecordScan
from coterie.insight.records import log_reader
from coterie.insight.records.aggregates import columns_of
from coterie.insight.records.commit_requests import RequestBatches
from coterie.insight.records.group_log import GroupRecord, GroupRecords
from coterie.insight.records.log_reader import End, SurveyedLog
from coterie.insight.records.record_columns import ABORTED, COMMITTED, PENDING, RecordColumns
from coterie.insight.records.threads import Cancellation, each_partition
from coterie.log.folders import Segment, find_segments
from coterie.state.parallel_scan import whole
from coterie.state.partial import ScanOptions
from support.log_writer import batch, commit, commit_key, group_key, group_value, marker

T0 = 1_795_000_000_123


def test_a_row_is_a_commit_its_tombstone_or_another_record_in_a_transaction_or_not():
    data = [
        batch(0, [commit(T0, 5, partition=3, topic=b"a"), commit(T0, 6, partition=0, topic=b"b")]),
        batch(2, [(T0, group_key(b"g"), group_value(1, [b"m"]))]),
        batch(3, [commit(T0, 7, partition=3, topic=b"a")], producer_id=77, transactional=True),
        marker(4, 77, T0, commit=True),
        batch(5, [(T0, commit_key(1, b"g", b"b", 0), None)]),
        batch(6, [commit(T0, 8, partition=4, topic=b"b")], producer_id=78, transactional=True),
        marker(7, 78, T0, commit=False),
        batch(8, [commit(T0, 9, partition=9, topic=b"b")], producer_id=79, transactional=True),
    ]
    scan = RecordScan()
    columns, _ = scan.scan(b"".join(data))
    batches, newer = columns.pop("batches"), columns.pop("newer_keys")
    piece = RecordColumns(scan, columns, ["0.log"], 0, batches, newer)
    begins = np.cumsum([0, *map(len, data)]).tolist()
    rows = {
        offset: (
            piece.topics[piece.topic[at]] if piece.topic[at] >= 0 else None,
            int(piece.partition[at]), bool(piece.tombstone[at]), bool(piece.effective[at]),
            bool(piece.in_transaction[at]), int(piece.producer_id[at]), int(piece.position[at]),
        )
        for at, offset in enumerate(piece.log_offset.tolist())
    }  # fmt: skip
    expected = {
        0: ("a", 3, False, True, False, -1, begins[0]),
        1: ("b", 0, False, True, False, -1, begins[0]),
        2: (None, -1, False, False, False, -1, begins[1]),
        3: ("a", 3, False, True, True, 77, begins[2]),
        5: ("b", 0, True, True, False, -1, begins[4]),
        6: ("b", 4, False, False, True, 78, begins[5]),
        8: ("b", 9, False, False, True, 79, begins[7]),
    }
    assert {offset: rows[offset] for offset in expected} == expected
    outcomes = dict(zip(piece.log_offset.tolist(), piece.outcome.tolist(), strict=True))
    assert [outcomes[at] for at in (3, 6, 8)] == [COMMITTED, ABORTED, PENDING]


def test_a_scan_that_went_back_reads_what_follows_as_if_for_the_first_time():
    head, tail = (
        b"".join(batch(at, [commit(T0 + at, 5 + at, partition=at % count)]) for at in range(*some))
        for some, count in (((0, 4), 2), ((4, 9), 3))
    )
    scan = RecordScan()
    scan.scan(head)
    state = scan.keys(), scan.number
    scan.scan(tail)
    assert len(scan.keys()) == 3
    scan.go_back(*state)
    (again, _), fresh = scan.scan(tail), RecordScan()
    fresh.scan(head)
    expected, _ = fresh.scan(tail)
    for name, column in expected.items():
        assert np.array_equal(again[name], column), name
    with pytest.raises(ValueError, match="an earlier state"):
        RecordScan().go_back(*state)


def test_one_batch_of_several_requests_anywhere_shows_that_batches_are_no_requests():
    def pieces(*mixed):
        found = RequestBatches()
        for some in mixed:
            found.take(SimpleNamespace(batches={"mixed": np.array(some, np.bool_)}))
        return found

    plain, mixed = [0, 0], [0, 1, 0]
    for order, expected in (
        ([], True), ([plain, []], True), ([mixed], False), ([mixed, plain], False),
        ([plain, mixed], False),
    ):  # fmt: skip
        assert pieces(*order).one_request_each is expected


def test_aggregates_together_take_the_columns_of_each_or_all():
    some, more, every = (
        SimpleNamespace(COLUMNS=frozenset("ab")), SimpleNamespace(COLUMNS=frozenset("bc")),
        SimpleNamespace(),
    )  # fmt: skip
    assert columns_of([some, more]) == frozenset("abc")
    assert columns_of([some, every, more]) is None
    assert columns_of([SimpleNamespace(COLUMNS=None)]) is None
    assert columns_of([]) == frozenset()


def test_a_reading_that_is_cancelled_reads_nothing_more(tmp_path):
    path = tmp_path / "0.log"
    path.write_bytes(b"0123456789")
    segment, reading = Segment(str(path), 0, 0, 10, None), Cancellation()
    assert bytes(reading.read(segment)) == b"0123456789"
    reading.cancel()
    with pytest.raises(CancelledError):
        reading.read(segment)


def test_bytes_of_records_are_there_until_the_last_log_that_shares_them_is_gone():
    records = GroupRecords(GroupRecord("g", at, T0, 2, b"key", b"v", "f", 3) for at in range(2))
    some, file = records.part([1]), records.spool.file
    del records
    assert some[0].value == b"v"
    assert not file.closed
    del some
    assert file.closed


def test_one_thread_reads_a_log_partition_by_partition_with_its_progress(tmp_path):
    for number, offsets in ((10, 1), (2, 5), (3, 0)):
        folder = tmp_path / f"__consumer_offsets-{number}"
        folder.mkdir()
        records = [commit(T0, 5, partition=partition) for partition in range(offsets)]
        (folder / f"{0:020}.log").write_bytes(batch(0, records) if records else b"")
    sizes = {
        number: sum(segment.size for segment in segments)
        for number, segments in find_segments([tmp_path]).partitions().items()
    }
    steps = []
    progress = SimpleNamespace(
        total=lambda size: steps.append(("all", size)),
        advance=lambda size: steps.append(("read", size)),
    )
    with each_partition([tmp_path], lambda view: view.number, progress=progress) as answers:
        steps.extend(("answer", number) for number in answers)
    assert steps == [
        ("all", sum(sizes.values())),
        *(step for number in (2, 3, 10) for step in (("read", sizes[number]), ("answer", number))),
    ]


def test_a_surveyed_log_knows_which_pieces_wait_for_which_markers(tmp_path, monkeypatch):
    """Pieces of one batch: some are dropped, then the next segment ends what was open."""
    monkeypatch.setattr(log_reader, "READ_PIECE_BYTES", 1)

    def opened(offset, producer):
        return batch(offset, [commit(T0 + offset, 5)], producer_id=producer, transactional=True)

    def ended(offset, producer, is_commit):
        return marker(offset, producer, T0 + offset, commit=is_commit)

    def surveyed(first, *batches):
        path = tmp_path / f"{first:020}.log"
        path.write_bytes(b"".join(batches))
        segment = Segment(str(path), 0, first, path.stat().st_size, None)
        return SurveyedLog([segment], ScanOptions())

    plain = [batch(offset, [commit(T0 + offset, 5)]) for offset in range(9)]
    log = surveyed(
        0, opened(0, 5), plain[1], opened(2, 6), ended(3, 5, True), plain[4], opened(5, 5), plain[6]
    )
    of_5, of_6 = End(0, 8, T0 + 8), End(1, 9, T0 + 9)
    first = {5: End(1, 3, T0 + 3)}
    assert log.tails == [first, first, first, {}, {}, {}, {}]
    assert (log.count, log.undecided, log.decided_count) == (7, 2, 2)
    log.drop_pieces(0, 2)
    assert log.decided_count == 0
    log.drop_pieces(1, 1)  # the piece of the first marker
    assert log.tails == [first, {}, {}, {}]
    later = b"".join([opened(7, 6), ended(8, 5, False), ended(9, 6, True), opened(10, 8)])
    path = tmp_path / f"{7:020}.log"
    path.write_bytes(later)
    log.extend([whole(Segment(str(path), 0, 7, len(later), None))])
    assert log.tails == [
        first | {6: of_6}, {6: of_6}, {5: of_5, 6: of_6}, {5: of_5, 6: of_6},
        {5: of_5, 6: of_6}, {6: of_6}, {}, {},
    ]  # fmt: skip
    assert (log.count, log.undecided, log.decided_count) == (11, 10, 7)
    assert surveyed(20).undecided is None
