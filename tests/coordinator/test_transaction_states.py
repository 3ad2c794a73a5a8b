"""The transitions of a transactional id: which fields each one changes, and what a producer hears.

The rules are those of TransactionMetadata and of TransactionCoordinator.endTransaction.
"""

from dataclasses import fields
from itertools import product

import pytest

from coterie.coordinator.transaction import State, Transaction
from coterie.coordinator.transaction_records import Value
from coterie.values import Error

LAST = 2**15 - 2
EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT, DEAD = State
A, B = ("t", 0), ("u", 3)


def transaction(state=ONGOING, **more):
    """A transaction in which no two fields are alike."""
    known = {
        "transactional_id": "x", "producer_id": 71, "producer_epoch": 5, "timeout_ms": 60_001,
        "updated_ms": 2_003, "last_producer_id": 72, "last_producer_epoch": 9, "state": state,
        "partitions": frozenset([A]), "start_ms": 1_002, "next_producer_id": -1,
        "client_version": 1,
    }  # fmt: skip
    return Transaction(**{**known, **more})


def changes(before, after):
    values = {field.name: getattr(after, field.name) for field in fields(before)}
    return {name: value for name, value in values.items() if value != getattr(before, name)}


def test_a_new_producer_has_the_next_epoch_and_an_empty_transaction():
    before = transaction(COMPLETE_COMMIT)
    emptied = {"state": EMPTY, "partitions": frozenset(), "start_ms": -1, "updated_ms": 7_007,
               "timeout_ms": 99, "last_producer_id": 71}  # fmt: skip
    assert changes(before, before.begun(99, None, 7_007)) == {
        **emptied, "producer_epoch": 6, "last_producer_epoch": -1,
    }  # fmt: skip
    assert changes(before, before.begun(99, 5, 7_007)) == {
        **emptied, "producer_epoch": 6, "last_producer_epoch": 5,
    }  # fmt: skip
    assert changes(before, before.begun(99, 9, 7_007)) == emptied  # repeated: the same epochs
    assert before.begun(99, 4, 7_007) is None
    assert before.begun(99, 6, 7_007) is None
    unused = transaction(EMPTY, producer_epoch=-1)
    assert changes(unused, unused.begun(99, 3, 7_007))["producer_epoch"] == 0
    assert unused.begun(99, 3, 7_007).last_producer_epoch == -1


@pytest.mark.parametrize(("expected", "last_epoch"), [(None, -1), (5, 5)])
def test_a_new_producer_id_begins_with_epoch_0_and_knows_the_one_before(expected, last_epoch):
    before = transaction(COMPLETE_COMMIT)
    assert changes(before, before.rotated(80, 99, expected, 7_007)) == {
        "producer_id": 80, "producer_epoch": 0, "last_producer_id": 71,
        "last_producer_epoch": last_epoch, "timeout_ms": 99, "state": EMPTY,
        "partitions": frozenset(), "start_ms": -1, "updated_ms": 7_007,
    }  # fmt: skip


def test_partitions_are_added_and_the_first_ones_start_the_transaction():
    added = {"partitions": frozenset([A, B]), "updated_ms": 7_007}
    before = transaction(ONGOING)
    assert changes(before, before.with_partitions(frozenset([B]), 7_007, 2)) == {
        **added, "client_version": 2,
    }  # fmt: skip
    for state in (EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT):
        before = transaction(state, partitions=frozenset())
        assert changes(before, before.with_partitions(frozenset([A, B]), 7_007)) == {
            **added, "start_ms": 7_007, "client_version": 0, "state": ONGOING,
        }  # fmt: skip


def test_a_fence_takes_the_next_epoch():
    before = transaction()
    assert changes(before, before.fenced()) == {"producer_epoch": 6, "last_producer_epoch": -1}


@pytest.mark.parametrize(
    ("committed", "prepared", "completed"),
    [(True, PREPARE_COMMIT, COMPLETE_COMMIT), (False, PREPARE_ABORT, COMPLETE_ABORT)],
)
def test_a_transaction_ends_in_two_steps(committed, prepared, completed):
    before = transaction()
    decided = before.ending(committed, 7_007)
    assert changes(before, decided) == {
        "state": prepared, "updated_ms": 7_007, "client_version": 0,
    }  # fmt: skip
    assert changes(decided, decided.ended(8_008)) == {
        "state": completed, "partitions": frozenset(), "updated_ms": 8_008,
    }  # fmt: skip
    with_next = before.ending_with_bump(committed, 7_007)
    raised = {"producer_epoch": 6, "last_producer_epoch": 5, "client_version": 2}
    assert changes(before, with_next) == {"state": prepared, "updated_ms": 7_007, **raised}


@pytest.mark.parametrize("state", [EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT])
def test_an_abort_without_a_transaction_starts_and_ends_now(state):
    before = transaction(state)
    assert before.ending_with_bump(False, 7_007).start_ms == 7_007


def test_the_end_in_the_last_epoch_goes_on_with_a_new_producer_id():
    decided = transaction(producer_epoch=LAST).ending_with_bump(True, 7_007, 90)
    assert (decided.producer_epoch, decided.next_producer_id) == (LAST + 1, 90)
    assert changes(decided, decided.ended(8_008)) == {
        "state": COMPLETE_COMMIT, "partitions": frozenset(), "updated_ms": 8_008,
        "producer_id": 90, "producer_epoch": 0, "last_producer_id": 71, "next_producer_id": -1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("producer_id", "epoch", "continues"),
    [(71, 0, True), (72, LAST - 1, False), (72, LAST, True), (72, LAST + 1, True),
     (73, LAST, False)],
)  # fmt: skip
def test_a_producer_goes_on_by_its_id_or_by_the_one_before_in_its_last_epoch(
    producer_id, epoch, continues
):
    assert transaction().is_from(producer_id, epoch) is continues
    assert transaction(producer_epoch=-1).is_from(producer_id, epoch)


@pytest.mark.parametrize(
    ("epoch", "exhausted"), [(LAST - 1, False), (LAST, True), (LAST + 1, True)]
)
def test_the_epochs_of_a_producer_end_one_before_the_largest(epoch, exhausted):
    assert transaction(producer_epoch=epoch).is_exhausted is exhausted


def test_a_transaction_is_due_its_time_out_after_its_start():
    assert transaction().due_ms == 1_002 + 60_001


INVALID, SOON, DONE, ENDS = (
    Error.INVALID_TXN_STATE, Error.CONCURRENT_TRANSACTIONS, Error.NONE, None,
)  # fmt: skip


@pytest.mark.parametrize(
    ("state", "commit", "abort"),
    [
        (EMPTY, INVALID, INVALID),
        (ONGOING, ENDS, ENDS),
        (PREPARE_COMMIT, SOON, INVALID),
        (PREPARE_ABORT, INVALID, SOON),
        (COMPLETE_COMMIT, DONE, INVALID),
        (COMPLETE_ABORT, INVALID, DONE),
        (DEAD, INVALID, INVALID),
    ],
)
def test_the_end_is_answered_by_the_state(state, commit, abort):
    one = transaction(state)
    assert (one.answer_to_end(True), one.answer_to_end(False)) == (commit, abort)


FENCED, UNKNOWN = Error.PRODUCER_FENCED, Error.INVALID_PRODUCER_ID_MAPPING
# State -> the answers to a commit and an abort in the present epoch, and in the epoch before, which
# has missed the response.
WITH_BUMP = {
    EMPTY: ((INVALID, ENDS), (FENCED, FENCED)),
    ONGOING: ((ENDS, ENDS), (FENCED, FENCED)),
    PREPARE_COMMIT: ((FENCED, FENCED), (SOON, INVALID)),
    PREPARE_ABORT: ((FENCED, FENCED), (INVALID, SOON)),
    COMPLETE_COMMIT: ((INVALID, ENDS), (DONE, INVALID)),
    COMPLETE_ABORT: ((INVALID, ENDS), (INVALID, DONE)),
}


@pytest.mark.parametrize("state", WITH_BUMP, ids=lambda state: state.name)
def test_the_end_of_a_client_that_expects_the_next_epoch_is_answered_by_state_and_epoch(state):
    one = transaction(state)
    present, before = WITH_BUMP[state]
    for epoch, answers in ((5, present), (4, before), (3, (FENCED,) * 2), (6, (FENCED,) * 2)):
        for committed, expected in zip((True, False), answers, strict=True):
            assert one.answer_to_end_with_bump(71, epoch, committed) == expected, (epoch, committed)


@pytest.mark.parametrize("state", WITH_BUMP, ids=lambda state: state.name)
def test_the_last_epoch_of_the_producer_id_before_is_a_repetition_of_the_end(state):
    """It missed the response that had the new id, whose epoch is still 0."""
    answers = WITH_BUMP[state][1] if state in (COMPLETE_COMMIT, COMPLETE_ABORT) else (FENCED,) * 2
    new = transaction(state, producer_epoch=0)
    for committed, expected in zip((True, False), answers, strict=True):
        assert new.answer_to_end_with_bump(72, LAST, committed) == expected
    used = transaction(state, producer_epoch=1)
    for committed, (one, producer_id, epoch) in product(
        (True, False), ((new, 72, LAST - 1), (used, 72, LAST), (new, 73, LAST))
    ):
        assert one.answer_to_end_with_bump(producer_id, epoch, committed) is UNKNOWN


@pytest.mark.parametrize("state", State, ids=lambda state: state.name)
def test_a_record_has_the_state_that_is_loaded_from_it(state):
    stored = transaction(state, partitions=frozenset([B, A, ("t", 2)]))
    partitions = None if state is EMPTY else {"t": [0, 2], "u": [3]}
    value = Value(71, 5, 60_001, int(state), partitions, 2_003, 1_002, 1)
    assert stored.value() == value
    loaded = Transaction.loaded("x", value)
    forgotten = {"last_producer_id": -1, "last_producer_epoch": -1}
    if state is EMPTY:
        forgotten["partitions"] = frozenset()
    assert changes(stored, loaded) == forgotten


def test_a_transaction_starts_with_its_first_partitions_not_with_those_added_later():
    """Source: TransactionMetadata.prepareAddPartitions."""
    idle = Transaction("x", producer_id=1, producer_epoch=0, timeout_ms=60_000, updated_ms=5)
    first = idle.with_partitions(frozenset([("t", 0)]), 100)
    more = first.with_partitions(frozenset([("t", 1)]), 900)
    assert (first.start_ms, more.start_ms, more.updated_ms) == (100, 100, 900)
    assert more.due_ms == 60_100
    assert more.partitions == {("t", 0), ("t", 1)}
    again = more.ending(True, 950).ended(960).with_partitions(frozenset([("t", 0)]), 1000)
    assert again.start_ms == 1000
