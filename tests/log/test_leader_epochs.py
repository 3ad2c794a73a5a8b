"""The spans of epochs in a broker's leader-epoch-checkpoint, and where two histories differ."""

import pytest

from coterie.log.leader_epochs import CHECKPOINT, EpochSpan, checkpoint_spans, first_contradiction


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
    ],
)
def test_histories_differ_from_where_an_offset_has_two_epochs(one, other, offset):
    one, other = ([EpochSpan(*span) for span in spans] for spans in (one, other))
    assert first_contradiction(one, other) == offset
