"""Where a log ends at a time, and which partitions have records beyond a consumer's positions."""

from itertools import product
from types import SimpleNamespace

import pytest

from coterie._core.testing.clients import AssignedPartitions, LogEnds, PartitionState, earliest

FIRST_MS, INTERVAL_MS = 2_345, 700


def log_of(first=4, number=0, **fields):
    """Records from a number and a time on, at a rate; ``None``: no rate."""
    log = LogEnds("t", number)
    log._stopped = 4
    log._phase = None if first is None else (first, FIRST_MS, INTERVAL_MS)
    for name, value in fields.items():
        setattr(log, name, value)
    return log


def state_at(position, **fields):
    state = PartitionState()
    state.seek(position)
    for name, value in fields.items():
        setattr(state, name, value)
    return state


def assigned(*states):
    partitions = AssignedPartitions()
    partitions.assigned = {("t", number): state for number, state in enumerate(states)}
    return partitions


@pytest.mark.parametrize(
    ("at_ms", "end", "next_ms"),
    [
        (0, 4, 2_345), (2_344, 4, 2_345), (2_345, 5, 3_045), (2_346, 5, 3_045),
        (3_044, 5, 3_045), (3_045, 6, 3_745), (3_046, 6, 3_745), (2_345 + 7_000, 15, 10_045),
    ],
)  # fmt: skip
def test_a_rate_gives_a_record_at_its_first_time_and_after_each_interval(at_ms, end, next_ms):
    log = log_of()
    assert (log.end_offset(at_ms), log.last_stable_offset(at_ms)) == (end, end)
    assert log.next_record_ms(at_ms) == next_ms
    silent = log_of(None)
    assert (silent.end_offset(at_ms), silent.next_record_ms(at_ms)) == (4, None)


def test_appended_records_count_from_their_time_on():
    log = log_of(None)
    for at_ms in (5_000, 5_000, 5_001):
        log._offsets.append(4 + len(log._offsets))
        log._appended.append(SimpleNamespace(timestamp=at_ms))
    assert [log.end_offset(ms) for ms in (4_999, 5_000, 5_001, 6_000)] == [4, 6, 7, 7]


def test_what_is_stable_ends_at_the_first_open_transaction():
    log = log_of()
    assert log.end_offset(4_445) == 8
    for of, stable in (({7: 6}, 6), ({7: 6, 8: 5}, 5), ({7: 8}, 8), ({7: 9}, 8), ({}, 8)):
        log._open.clear()
        log._open.update(of)
        assert log.last_stable_offset(4_445) == stable
    assert log.end_offset(4_445) == 8


def test_a_partition_is_read_unless_something_holds_it():
    topics = {"t": SimpleNamespace(logs=[log_of()])}
    for reset, paused, revoked, new, position in product(
        (None, "earliest"), (False, True), (False, True), (False, True), (5, None)
    ):
        state = state_at(position, reset=reset, paused=paused, pending_revocation=revoked,
                         pending_assigned=new)  # fmt: skip
        valid = position is not None and reset is None
        free = valid and not (paused or revoked or new)
        partitions = assigned(state)
        assert (state.valid, partitions.all_valid) == (valid, valid)
        assert partitions.positions() == ({("t", 0): 5} if valid else {})
        assert partitions.positions(str) == ({("t", 0): "5"} if valid else {})
        assert len(partitions.beyond_positions(topics, 9_345, False)) == free
        assert partitions.next_record_ms(topics, 9_345) == (10_045 if free else None)


def test_a_new_state_has_no_position_and_a_seek_gives_it_one():
    state = PartitionState()
    assert (state.position, state.reset, state.retry_ms, state.valid) == (None, None, 0, False)
    state.reset = "latest"
    state.seek(0)
    assert (state.position, state.reset, state.valid) == (0, None, True)
    assert assigned().all_valid
    assert not assigned(state_at(3), PartitionState(), state_at(4)).all_valid
    assert assigned(state_at(3), PartitionState()).positions() == {("t", 0): 3}


@pytest.mark.parametrize(
    ("position", "start", "committed", "end"),
    [
        (5, 0, False, 8), (8, 0, False, None), (7, 0, False, 8), (9, 0, False, 8),
        (6, 0, True, None), (5, 0, True, 6), (8, 0, True, 6), (8, 8, False, None),
        (8, 9, False, 8), (6, 7, True, 6),
    ],
)  # fmt: skip
def test_a_partition_has_more_unless_its_position_is_the_end_within_the_log(
    position, start, committed, end
):
    """The end is 8, of which 6 are stable. Before its beginning a position is out of range."""
    log = log_of(log_start_offset=start)
    log._open[7] = 6
    state = state_at(position)
    found = assigned(state).beyond_positions({"t": SimpleNamespace(logs=[log])}, 4_445, committed)
    assert found == ([] if end is None else [(("t", 0), state, log, end)])


def test_partitions_are_looked_at_in_the_order_of_reading_and_may_not_exist():
    logs = [log_of(number=0), log_of(None, number=1)]
    topics = {"t": SimpleNamespace(logs=logs)}
    states = [state_at(0) for _ in range(3)]
    partitions = assigned(*states)
    ends = [(("t", 0), states[0], logs[0], 5), (("t", 1), states[1], logs[1], 4)]
    missing = ("t", 2), states[2], None, -1
    assert partitions.beyond_positions(topics, 2_345, False) == [*ends, missing]
    partitions.to_end(("t", 0))
    partitions.to_end(("t", 9))
    assert partitions.beyond_positions(topics, 2_345, False) == [ends[1], missing, ends[0]]
    gone = partitions.beyond_positions({}, 2_345, False)
    assert [(row[0][1], row[2:]) for row in gone] == [(n, (None, -1)) for n in (1, 2, 0)]
    assert partitions.next_record_ms(topics, 2_345) == 3_045
    assert partitions.next_record_ms({}, 2_345) is None


@pytest.mark.parametrize(
    ("times_ms", "first"),
    [((), None), ((None,), None), ((5_000,), 5_000), ((None, 5_000), 5_000), ((5_000, None), 5_000),
     ((5_001, 5_000), 5_000), ((5_000, 5_001), 5_000), ((0, 5_000), 0), ((5_000, 0, None), 0)],
)  # fmt: skip
def test_the_earliest_of_times_leaves_out_what_never_comes(times_ms, first):
    assert earliest(*times_ms) == first
