"""The spans of epochs in a broker's leader-epoch-checkpoint, and where two histories differ."""

import pytest

from coterie.log.batch_headers import batch_headers
from coterie.log.folders import Segment
from coterie.log.leader_epochs import (
    CHECKPOINT,
    EpochJumps,
    EpochSpan,
    checkpoint_spans,
    first_contradiction,
    spans_of,
)
from support.log_writer import batch, commit


def spans(folder, text, end_offset=100):
    (folder / CHECKPOINT).write_text(text)
    return checkpoint_spans(str(folder), end_offset)


def test_an_epoch_ends_before_the_next_one_and_the_last_with_the_log(tmp_path):
    """The file of Kafka's LeaderEpochCheckpointFile: version, number of entries, entries."""
    assert spans(tmp_path, "0\n3\n0 0\n4 10\n7 10\n") == [
        EpochSpan(0, 0, 9),
        EpochSpan(4, 10, 9),  # its leader wrote nothing
        EpochSpan(7, 10, 99),
    ]
    assert spans(tmp_path, "0\n1\n2 5\n") == [EpochSpan(2, 5, 99)]


def test_epochs_that_begin_behind_the_end_of_the_segments_are_left_out(tmp_path):
    text = "0\n3\n0 0\n1 100\n2 101\n"
    assert spans(tmp_path, text) == [EpochSpan(0, 0, 99), EpochSpan(1, 100, 99)]


@pytest.mark.parametrize("text", ["", "1\n1\n0 0\n", "0\n1\n0\n", "0\n1\n0 x\n", "0\n1\n0 0 0\n"])
def test_a_checkpoint_that_cannot_be_read_says_nothing(tmp_path, text):
    assert spans(tmp_path, text) == []
    assert checkpoint_spans(str(tmp_path / "nowhere"), 100) == []


@pytest.mark.parametrize(
    ("one", "other", "offset"),
    [
        ([(0, 0, 9)], [(0, 0, 20)], None),
        ([(0, 0, 9), (1, 10, 20)], [(0, 0, 9), (1, 10, 15)], None),
        ([(0, 0, 9), (2, 10, 20)], [(0, 0, 9), (1, 10, 15)], 10),
        ([(0, 0, 19)], [(0, 0, 9), (1, 10, 15)], 10),
        ([(0, 0, 9), (1, 10, 15)], [(0, 0, 19)], 10),
        ([(0, 0, 9), (2, 10, 15), (3, 16, 20)], [(0, 0, 9), (1, 10, 30)], 10),
        ([(0, 0, 14), (3, 16, 20)], [(1, 12, 30)], 12),
        ([(0, 0, 9), (2, 10, 10)], [(0, 0, 9), (1, 10, 10)], 10),  # of one offset each
        ([(0, 0, 9), (2, 10, 9)], [(0, 0, 9), (1, 10, 15)], None),  # nothing was written under 2
        ([(0, 0, 9), (2, 10, 15)], [(0, 0, 9), (1, 20, 19)], None),  # nor under 1
    ],
)
def test_histories_differ_from_where_an_offset_has_two_epochs(one, other, offset):
    one, other = ([EpochSpan(*span) for span in spans] for spans in (one, other))
    assert first_contradiction(one, other) == offset


def headers(*batches):
    """The headers of batches of two records, (base offset, leader epoch) each."""
    return batch_headers(
        b"".join(batch(at, [commit(at)] * 2, leader_epoch=epoch) for at, epoch in batches)
    )


def test_the_spans_of_batches_are_from_the_first_to_the_last_offset_of_an_epoch():
    batches = headers((0, 4), (2, 4), (4, -1), (6, 7), (9, 8), (11, 8))
    assert spans_of(batches) == [EpochSpan(4, 0, 3), EpochSpan(7, 6, 7), EpochSpan(8, 9, 12)]
    assert spans_of(headers((0, -1))) == spans_of(headers()) == []


def jumps(*segments):
    found = EpochJumps()
    for number, (partition, *batches) in enumerate(segments):
        found.add(Segment(f"/log/{number}.log", partition, 0, 1, None), headers(*batches))
    return list(found.lines())


def test_an_epoch_that_rises_by_two_with_no_offset_missing_is_told():
    (line,) = jumps((3, (0, 4), (2, 5)), (3, (4, 5), (6, 7), (8, 9)), (2, (10, 11)))
    assert line.startswith("partition 3: the leader epoch rises from 5 to 7 at offset 6 (")
    assert f"1.log, byte {len(batch(0, [commit(0)] * 2))}) (the first of 2 such places)" in line
    (line,) = jumps((3, (0, 4), (2, 5)), (3, (4, 7)))  # from one segment to the next
    assert line.startswith("partition 3: the leader epoch rises from 5 to 7 at offset 4 (")
    assert "such places" not in line


@pytest.mark.parametrize(
    ("epochs", "restarts"),
    [
        ((0, 2, 4), True),
        ((3, 5, 9, 9, 11), True),
        ((-1, 0, 2), True),
        ((0, 2, 3, 5), False),
        ((0, 1, 3), False),
        ((0, 3), False),
    ],
)
def test_epochs_of_a_single_replica_rise_by_even_numbers_so_its_broker_may_have_restarted(
    epochs, restarts
):
    """A restart: once without a leader, and once as the leader again (KRaft)."""
    (line,) = jumps((3, *((2 * at, epoch) for at, epoch in enumerate(epochs))))
    assert ("broker restarted, if it has the only replica; else" in line) == restarts
    assert ("another broker led in between, and may have" in line) != restarts
    pieces = [(3, (2 * at, epoch)) for at, epoch in enumerate(epochs)]
    (by_segments,) = jumps(*pieces)
    assert by_segments.rpartition("): ")[2] == line.rpartition("): ")[2]


@pytest.mark.parametrize(
    "segments",
    [
        [(3, (0, 4), (2, 5))],
        [(3, (0, 4), (3, 7))],  # compaction may have removed what was between
        [(3, (0, 4)), (2, (2, 7))],  # of another partition
        [(3, (0, 7), (2, 4))],
        [(3, (0, -1), (2, 7))],
        [(3, (1, 7), (3, 7))],  # where the log begins
    ],
)
def test_other_steps_of_an_epoch_tell_nothing(segments):
    assert jumps(*segments) == []
