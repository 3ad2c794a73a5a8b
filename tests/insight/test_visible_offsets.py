"""Of the offsets of a key, those that no requested time shows are not stored for long."""

import pytest

from coterie.insight.offsets import at_times
from coterie.insight.offsets.at_times import OffsetsAtTimes, SampleTimes
from coterie.insight.offsets.end_offsets import EndOffsets
from coterie.insight.records import log_reader
from coterie.insight.records.log_reader import SurveyedLog
from coterie.insight.records.partition_view import read_partitions
from coterie.log.folders import find_segments
from coterie.log.set_back import SetBack
from coterie.state.partial import ScanOptions
from support.insight.transaction_logs import batches_of, write
from support.log_writer import batch, commit

ROUNDS, WAITING = 60, 5
IN_ONE, IN_ITS_OWN, PLAIN = [(5, "offset", 1)], [(5, "offset", 1), (5, "commit", 1)], [(-1, "", 1)]


@pytest.fixture(autouse=True)
def little_at_once(monkeypatch):
    monkeypatch.setattr(log_reader, "READ_PIECE_BYTES", 1)
    monkeypatch.setattr(at_times, "PRUNE_EVENTS", WAITING)


def stored(steps, folder):
    """The most events that are stored while a log of one key is read, and the key's last offset."""
    write(enumerate(batches_of(steps)), folder)
    log = SurveyedLog(find_segments([folder]).segments, ScanOptions())
    whole, most = OffsetsAtTimes(SampleTimes(EndOffsets(False), None), SetBack()), 0
    for piece in log.pieces(OffsetsAtTimes.COLUMNS):
        whole.take(piece)
        most = max(most, sum(len(events["key"]) for events in whole.events))
    (shown,) = whole.by_key().values()
    return most, [offset for offset, _ in shown]


@pytest.mark.parametrize(
    ("steps", "last"),
    [
        ([*IN_ONE * ROUNDS, (5, "commit", 1)], ROUNDS - 1),
        (IN_ITS_OWN * ROUNDS, 2 * ROUNDS - 2),
        (PLAIN * ROUNDS, ROUNDS - 1),
    ],
    ids=["all in one transaction", "each in a transaction of its own", "plain"],
)
def test_of_many_commits_of_a_key_only_those_that_some_time_may_show_are_stored(
    steps, last, tmp_path
):
    most, shown = stored(steps, tmp_path)
    assert shown == [last]
    assert most <= 2 * WAITING


@pytest.mark.parametrize("pending_first", [False, True])
def test_a_key_of_which_no_record_took_effect_has_no_offset(pending_first, tmp_path):
    producer = {"producer_id": 5, "transactional": True}
    appends = [(commit(10, 7, partition=0), {}), (commit(10, 8, partition=1), producer)]
    records = appends[::-1] if pending_first else appends
    write([(at, batch(at, [one], **how)) for at, (one, how) in enumerate(records)], tmp_path)
    (view,) = read_partitions([tmp_path])
    shown = OffsetsAtTimes(SampleTimes(EndOffsets(False), None), SetBack())
    for piece in view.pieces(OffsetsAtTimes.COLUMNS):
        shown.take(piece)
    assert {key[2]: seen[0][0] for key, seen in shown.by_key().items()} == {0: 7}
