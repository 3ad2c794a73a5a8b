"""Transactions without effect are counted once each, however the log is cut."""

import pytest

from coterie.insight.questions import explain
from coterie.insight.records.partition_view import PartitionView
from coterie.log.folders import find_segments
from support.insight.pieces import answer_in_pieces
from support.log_writer import batch, commit, each, group_key, group_value, marker

PRODUCER, OTHER = 5, 8


def committed(offset, at_ms, producer=PRODUCER, partition=0):
    records = [commit(at_ms, partition=partition)]
    return batch(offset, records, producer_id=producer, transactional=True)


def aborted(offset, at_ms, producer=PRODUCER):
    return marker(offset, producer, at_ms, commit=False)


def a_generation(offset, at_ms):
    return each(offset, (at_ms, group_key(b"g"), group_value(offset, [b"m"])))


def rows_of(folder, batches):
    """The question's rows: a segment for each batch, as one log, then in two and three parts."""
    folder = folder / "__consumer_offsets-0"
    folder.mkdir()
    for at, written in enumerate(batches):
        (folder / f"{at:020}.log").write_bytes(written)
    (segments,) = find_segments([folder]).partitions().values()
    yield list(explain.rows(PartitionView(0, segments), explain.Parameters()))
    yield answer_in_pieces(segments, explain, explain.Parameters(), {})


@pytest.mark.parametrize(
    ("batches", "expected"),
    [
        # The first transaction lies before the generation, the second on both sides of each cut.
        (
            [
                committed(0, 10),
                aborted(1, 20),
                *a_generation(2, 30),
                committed(3, 40),
                committed(4, 50, partition=1),
                aborted(5, 60),
                *a_generation(6, 70),
            ],
            ["1 offset of 1 aborted transaction", "2 offsets of 1 aborted transaction"],
        ),
        # A marker without commits before it, then two transactions.
        (
            [
                aborted(0, 10),
                committed(1, 20),
                committed(2, 25, partition=1),
                aborted(3, 30),
                committed(4, 40),
                aborted(5, 50),
                *a_generation(6, 70),
            ],
            ["3 offsets of 2 aborted transactions"],
        ),
        # The cut has a marker and a begun transaction before it; the other one stays open.
        (
            [
                committed(0, 10, OTHER, partition=2),
                committed(1, 20),
                aborted(2, 30),
                committed(3, 40),
                committed(4, 50, partition=1),
                aborted(5, 60),
                committed(6, 70, OTHER, partition=3),
            ],
            ["3 offsets of 2 aborted transactions; 2 offsets of 1 open transaction"],
        ),
        # A marker and the next transaction's first commit are read at once.
        (
            [
                aborted(0, 10) + committed(1, 20),
                committed(2, 30, partition=1),
                aborted(3, 40),
            ],
            ["2 offsets of 1 aborted transaction"],
        ),
        # Two producers, with one transaction each.
        (
            [
                committed(0, 10),
                committed(1, 20, OTHER, partition=1),
                aborted(2, 30, OTHER),
                committed(3, 40),
                aborted(4, 50),
                *a_generation(5, 70),
            ],
            ["3 offsets of 2 aborted transactions"],
        ),
    ],
)
def test_a_transaction_on_both_sides_of_a_cut_is_counted_once(tmp_path, batches, expected):
    for rows in rows_of(tmp_path, batches):
        assert [row["cause"] for row in rows if row["event"] == explain.COMMITS] == expected
