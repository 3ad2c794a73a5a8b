"""A question's memory grows with keys and findings: eight times the records take no more."""

import gc
import tracemalloc

import pytest

from coterie.insight.offsets import at_times
from coterie.insight.offsets.end_offsets import EndOffsets, Sample
from coterie.insight.question_engine import find_question, rows_of
from coterie.insight.records import log_reader
from coterie.insight.records.partition_view import read_partitions
from support.log_writer import batch, commit

KEYS, ROUNDS, SEGMENTS = 10, 200, 4
LEAST = 4  # bytes of a stored record; segments and pieces, which are small here, have some
ENDS = EndOffsets(False, {("t", 0): (Sample(None, 10**6),)})
QUESTIONS = {
    "audit": {},
    "expire": {"now_ms": 10**9},
    "explain": {},
    "growth": {},
    "lag": {"ends": ENDS},
    "metrics": {},
    "undo": {"at_ms": 10**9},
}


def log_of(folder, segments):
    """A partition with a few keys whose offsets rise by one in each round."""
    folder = folder / f"{segments}" / "__consumer_offsets-0"
    folder.mkdir(parents=True)
    for segment in range(segments):
        rounds = range(segment * ROUNDS, (segment + 1) * ROUNDS)
        records = (
            batch(at * KEYS, [commit(at * 1000, at, partition=key) for key in range(KEYS)])
            for at in rounds
        )
        (folder / f"{rounds.start * KEYS:020}.log").write_bytes(b"".join(records))
    return folder


def peak(folder, name):
    """The peak memory of a question, in bytes above what was in use before."""
    question = find_question(name)
    gc.collect()
    tracemalloc.start()
    try:
        for view in read_partitions([folder]):
            rows = list(rows_of(view, question, question.Parameters(**QUESTIONS[name])))
            assert rows or name == "audit"
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("logs")
    return log_of(folder, SEGMENTS), log_of(folder, 8 * SEGMENTS)


@pytest.mark.parametrize("name", QUESTIONS)
def test_eight_times_the_records_hold_no_more_memory(monkeypatch, logs, name):
    monkeypatch.setattr(log_reader, "READ_PIECE_BYTES", 32_768)
    monkeypatch.setattr(at_times, "PRUNE_EVENTS", 500)  # events of ``lag`` that wait to be pruned
    few, many = logs
    peak(few, name)  # fills caches
    early, late = peak(few, name), peak(many, name)
    added = 7 * SEGMENTS * ROUNDS * KEYS
    assert late - early < LEAST * added, (early, late)
