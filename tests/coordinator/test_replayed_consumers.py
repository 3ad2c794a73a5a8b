"""What a client of the consumer protocol sends in a what-if, response by response."""

import pytest

from coterie.consumer_groups import (
    ConsumerGroupChange,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
    encode_topic_id,
)
from coterie.coordinator.trace_removals import Removal, shows_deletion
from coterie.coordinator.whatif_consumers import ConsumerClient, epochs_and_states
from coterie.values import Error

T = bytes([7] * 16)
JOINING = ("rack", 10_000, ("t",), None, None, {}, "c", "/h", 1)
BEAT = (None, -1, None, None, None, None, "c", "/h", 1)
ONE, TWO = {T: (0,)}, {T: (0, 1)}
FENCED = [Error.UNKNOWN_MEMBER_ID, Error.FENCED_MEMBER_EPOCH]


def answered(epoch, owned=None, error=Error.NONE):
    rows = owned and tuple(TopicPartitions(encode_topic_id(t), p) for t, p in owned.items())
    return ConsumerGroupHeartbeatResponse(error, "m", epoch, 5_000, rows)


def refused(error):
    return answered(0, None, error)


def owning(details, owned):
    return (*details[:5], owned, *details[6:])


def client(recorded=(3, ONE), changed=(3, ONE)):
    """A client that joined and was given an epoch and partitions, in either run."""
    one = ConsumerClient()
    assert one.request(0, JOINING) == (0, JOINING)
    one.record(answered(*recorded))
    one.take(answered(*changed), answered(*recorded))
    return one


@pytest.mark.parametrize(
    ("epoch", "details"), [(3, BEAT), (3, owning(BEAT, ONE)), (0, JOINING), (-1, BEAT), (9, BEAT)]
)
def test_a_client_that_is_as_recorded_sends_what_the_trace_has(epoch, details):
    assert client().request(epoch, details) == (epoch, details)


@pytest.mark.parametrize(
    ("epoch", "details", "sent"),
    [
        (3, BEAT, (5, BEAT)),  # the epoch that it has
        (2, BEAT, (2, BEAT)),  # a wrong one stays wrong
        (-1, BEAT, (-1, BEAT)),  # it leaves, as recorded
        (-2, BEAT, (-2, BEAT)),
        (3, owning(BEAT, ONE), (5, owning(BEAT, TWO))),  # it names what it owns
        (3, owning(BEAT, {}), (5, owning(BEAT, {}))),
        (0, JOINING, (5, owning(JOINING, TWO))),
    ],
)
def test_a_client_with_another_epoch_sends_its_own(epoch, details, sent):
    assert client(changed=(5, TWO)).request(epoch, details) == sent


@pytest.mark.parametrize(("epoch", "details"), [(0, owning(JOINING, None)), (9, BEAT), (0, BEAT)])
def test_the_first_request_of_a_client_is_that_of_the_trace(epoch, details):
    assert ConsumerClient().request(epoch, details) == (epoch, details)


@pytest.mark.parametrize("error", FENCED)
def test_a_fenced_client_joins_with_all_that_it_named_and_nothing_owned(error):
    one = client()
    assert one.take(refused(error), answered(3)) == (0, JOINING)
    assert one.request(3, owning(BEAT, ONE)) == (0, JOINING)


@pytest.mark.parametrize("error", FENCED)
def test_a_client_that_is_fenced_in_the_recorded_run_only_goes_on(error):
    one = client()
    one.record(refused(error))
    assert one.take(answered(3), refused(error)) is None
    assert one.request(0, JOINING) == (3, owning(JOINING, ONE))


def test_another_error_changes_nothing():
    one = client()
    busy = refused(Error.COORDINATOR_LOAD_IN_PROGRESS)
    one.record(busy)
    assert one.take(busy, busy) is None
    assert one.request(3, BEAT) == (3, BEAT)
    assert one.take(busy, answered(4, TWO)) is None
    one.record(answered(4, TWO))
    assert one.request(4, BEAT) == (3, BEAT)


def test_a_client_acknowledges_at_once_what_only_the_changed_run_assigns():
    one = client()
    assert one.take(answered(4, TWO), answered(4, TWO)) is None  # the trace has its own
    assert one.take(answered(5, ONE), answered(5)) == (5, owning(BEAT, ONE))
    assert one.take(answered(5, ONE), None) is None  # it has acknowledged that
    assert one.take(answered(6, TWO), None) == (6, owning(BEAT, TWO))
    assert one.take(answered(7), None) is None  # nothing new


def test_a_heartbeat_that_names_no_partitions_leaves_acknowledged_what_an_earlier_one_named():
    one = client()
    assert one.request(3, owning(BEAT, ONE)) == (3, owning(BEAT, ONE))
    assert one.request(3, BEAT) == (3, BEAT)
    assert one.take(answered(4, ONE), answered(4)) is None


@pytest.mark.parametrize("epoch", [-1, -2])
def test_a_client_that_has_left_owns_nothing_and_joins_anew(epoch):
    one = client(changed=(5, TWO))
    assert one.take(answered(epoch), answered(epoch)) is None
    one.record(answered(epoch))
    without_rack = (None, *JOINING[1:])
    assert one.request(0, without_rack) == (0, without_rack)  # it is as recorded again


def test_a_client_that_is_fenced_joins_once_until_it_is_answered_well():
    one, fenced = ConsumerClient(), refused(Error.UNKNOWN_MEMBER_ID)
    assert one.take(fenced, None) is None  # it has nothing to join with
    one = ConsumerClient()
    one.request(0, JOINING)
    assert one.take(fenced, None) == (0, JOINING)
    assert one.take(fenced, None) is None
    assert one.take(answered(5, ONE), None) == (5, owning(BEAT, ONE))
    assert one.take(fenced, None) == (0, JOINING)
    assert one.take(answered(6, {}), None) is None  # its join names no partition


def change(at, state, group_epoch, assignment_epoch, group="g"):
    kind = "none" if state is None else "consumer"
    return ConsumerGroupChange(at, group, kind, state, group_epoch, assignment_epoch, 1)


def test_epochs_and_targets_are_counted_and_states_last_until_the_next_change():
    events = [
        change(1_000, "Assigning", 1, 0),
        change(1_007, "Reconciling", 1, 1),
        change(1_020, "Assigning", 1, 0, "h"),
        change(1_050, "Stable", 1, 1),
        change(1_100, "Stable", 1, 1),  # another number of members
        change(2_000, "Reconciling", 2, 2),
        change(2_500, None, 2, 2),  # the group is gone, and begins anew
        change(4_000, "Stable", 1, 1),
    ]
    rose, targets, ms_in_state = epochs_and_states(events, 4_321)
    assert (rose, targets) == (4, 3)  # g: 1, 2 and 1 again; h: 1
    assert ms_in_state == {
        "Assigning": 7 + (4_321 - 1_020), "Reconciling": 43 + 500, "Stable": 950 + 321
    }  # fmt: skip


@pytest.mark.parametrize(
    ("topic", "since_ms", "shown"),
    [("a", 5_000, True), ("a", 5_001, True), ("a", 5_002, False), ("b", 5_000, True),
     ("c", 5_000, False), ("d", 5_000, False), ("d", 4_001, True)],
)  # fmt: skip
def test_a_deletion_shows_in_a_removal_from_its_time_on(topic, since_ms, shown):
    """The times of a server log are cut to milliseconds."""
    seen = [Removal(4_000, (("d", 1),)), Removal(5_000, (("b", 0), ("a", 2))), Removal(9_000)]
    assert shows_deletion(seen, topic, since_ms) is shown
