"""How long partitions had no owner, record by record: the rules of each bound.

`a` and `b` are members of an eager group if nothing else is said: they give up all partitions when
they join.
"""

import pytest

from coterie.insight.groups.unowned import OwnershipTracker, Unowned
from coterie.testing import assignment, subscription

T0 = 1_795_000_000_123


def held(name, partitions, owned=(), timeout_ms=9_000):
    owned_by_topic = {"t": list(owned)} if owned else {}
    return {
        "member_id": name,
        "assignment": assignment({"t": list(partitions)}),
        "subscription": subscription(["t"], 1, owned=owned_by_topic),
        "rebalance_timeout_ms": timeout_ms,
    }


def state(*members, joined_ms=None, protocol="range", protocol_type="consumer"):
    return {
        "members": list(members),
        "current_state_timestamp": joined_ms,
        "protocol": protocol,
        "protocol_type": protocol_type,
    }


def record(at_ms, number, replaced=(), before=None):
    return {
        "timestamp": at_ms,
        "generation": number,
        "previous_generation": number - 1 if before is None else before,
        "replaced": list(replaced),
    }


def taken(*steps):
    """What each record ends; a step: the record, the state, and the commits before it."""
    tracker = OwnershipTracker()
    return [tracker.take(*step) for step in steps]


def first(*members, at_ms=T0):
    return record(at_ms, 1), state(*members, joined_ms=at_ms)


def second(*members, at_ms=T0 + 20_000, joined_ms=T0 + 18_000, commits=None, **fields):
    return record(at_ms, 2), state(*members, joined_ms=joined_ms, **fields), commits


@pytest.mark.parametrize(
    ("fields", "commits", "expected"),
    [
        # Given up before the joins were complete, at most a rebalance timeout before.
        ({}, None, Unowned(2_000, 11_000, 1, 11_000)),
        ({}, {("t", 0): T0 + 9_500}, Unowned(2_000, 10_500, 1, 10_500)),  # still had it
        ({}, {("t", 0): T0 + 8_999}, Unowned(2_000, 11_000, 1, 11_000)),
        ({}, {("t", 1): T0 + 9_500}, Unowned(2_000, 11_000, 1, 11_000)),  # another partition's
        ({}, {("t", 0): T0 + 19_000}, Unowned(2_000, 2_000, 1, 2_000)),  # by a zombie
        # The joins were complete between the two records, whatever the state says.
        ({"joined_ms": T0 - 5}, None, Unowned(20_000, 20_000, 1, 20_000)),
        ({"joined_ms": T0 + 20_500}, None, Unowned(0, 9_000, 1, 9_000)),
        ({"joined_ms": None}, None, Unowned(0, 9_000, 1, 9_000)),
        # Not before the record before.
        ({"joined_ms": T0 + 4_000}, None, Unowned(16_000, 20_000, 1, 20_000)),
    ],
)
def test_a_partition_is_given_up_between_its_bounds(fields, commits, expected):
    found = taken(first(held("a", [0])), second(held("a", [0]), commits=commits, **fields))
    assert found == [None, expected]


@pytest.mark.parametrize(
    ("timeouts_ms", "most_ms"), [((3_000, 4_500), 6_500), ((4_500, 3_000), 6_500), ((0, 1), 2_001),
                                 ((0, 0), 20_000), ((-1, -1), 20_000)],
)  # fmt: skip
def test_the_longest_rebalance_timeout_of_the_members_is_the_bound(timeouts_ms, most_ms):
    a_ms, b_ms = timeouts_ms
    after = held("a", [0], timeout_ms=a_ms), held("b", [], timeout_ms=b_ms)
    (_, found) = taken(first(held("a", [0])), second(*after))
    assert found == Unowned(2_000, most_ms, 1, most_ms)


def test_a_log_may_begin_at_the_time_0():
    after = second(held("a", [0]), at_ms=5_000, joined_ms=4_000)
    assert taken(first(held("a", [0]), at_ms=0), after)[1] == Unowned(1_000, 5_000, 1, 5_000)


@pytest.mark.parametrize(
    ("owned", "protocol", "expected"),
    [
        ([0], "cooperative-sticky", Unowned(0, 0, 0, 0)),
        ([1], "cooperative-sticky", Unowned(2_000, 11_000, 1, 11_000)),
        # A cooperative member that does not say what it owns may have kept it to the end.
        ([], "cooperative-sticky", Unowned(0, 11_000, 1, 11_000)),
        ([], "range", Unowned(2_000, 11_000, 1, 11_000)),
        ([], None, Unowned(2_000, 11_000, 1, 11_000)),
    ],
)
def test_a_member_keeps_what_it_says_that_it_owns(owned, protocol, expected):
    found = taken(first(held("a", [0])), second(held("a", [0], owned), protocol=protocol))
    assert found[1] == expected


def third(*members, **fields):
    return record(T0 + 30_000, 3), state(*members, joined_ms=T0 + 27_000, **fields)


def test_what_the_rebalance_before_took_away_did_not_begin_in_this_one():
    """Partition 0 has no owner in generation 2; partition 1 is given up in generation 3."""
    found = taken(
        first(held("a", [0, 1])), second(held("a", [1])), third(held("a", [0]), held("b", [1]))
    )
    assert found[1] == Unowned(2_000, 11_000, 1, 11_000)
    assert found[2] == Unowned(12_000 + 3_000, 21_000 + 10_000, 1, 10_000)


def test_a_cooperative_member_gives_up_after_the_generation_that_takes_away():
    cooperative = {"protocol": "cooperative-sticky"}
    found = taken(
        first(held("a", [0, 1])),
        second(held("a", [0], [0, 1]), held("b", []), **cooperative),
        third(held("a", [0], [0]), held("b", [1]), **cooperative),
    )
    assert found[1:] == [Unowned(0, 0, 0, 0), Unowned(3_000, 10_000, 0, 0)]


def test_what_is_given_up_and_not_given_out_counts_from_the_joins_of_the_next_generation():
    cooperative = {"protocol": "cooperative-sticky"}
    fourth = (
        record(T0 + 40_000, 4),
        state(held("a", [0], [0]), held("b", [1]), joined_ms=T0 + 39_000, **cooperative),
    )
    found = taken(
        first(held("a", [0, 1])),
        second(held("a", [0], [0, 1]), held("b", []), **cooperative),
        third(held("a", [0], [0]), held("b", []), **cooperative),
        fourth,
    )
    assert found[2:] == [Unowned(0, 0, 0, 0), Unowned(13_000, 20_000, 0, 0)]


def test_a_member_that_is_gone_owned_its_partitions_until_then():
    found = taken(first(held("a", [0]), held("b", [1])), second(held("b", [0, 1], [1])))
    assert found[1] == Unowned(2_000, 11_000, 1, 11_000)


ZERO = Unowned(0, 0, 0, 0)


@pytest.mark.parametrize(
    ("between", "after"),
    [
        ((record(T0 + 21_000, 3), None), ZERO),
        ((record(T0 + 21_000, 3), state()), ZERO),  # the time without any member
        ((record(T0 + 21_000, 3), state(held("a", [0]), protocol_type="connect")), ZERO),
        ((record(None, 3), state(held("a", [0]))), None),
        # The clock went back: what has an owner now is given up in the next rebalance.
        ((record(T0 + 19_999, 3), state(held("a", [0]))), Unowned(3_000, 10_001, 1, 10_001)),
    ],
)
def test_what_had_no_owner_is_forgotten_at_a_record_without_owners_or_times(between, after):
    steps = first(held("a", [0, 1])), second(held("a", [0])), between
    fourth = (
        record(T0 + 30_000, 4),
        state(held("a", [0, 1], timeout_ms=60_000), joined_ms=T0 + 27_000),
    )
    assert taken(*steps, fourth)[2:] == [None, after]


def test_two_records_of_one_time_are_in_order():
    assert taken(first(held("a", [0])), second(held("a", [0]), at_ms=T0, joined_ms=T0)) == [
        None, Unowned(0, 0, 1, 0),
    ]  # fmt: skip


def test_a_static_member_that_is_replaced_keeps_its_partitions():
    again = record(T0 + 5_000, 1, [("i", "a", "b")], before=1), state(held("b", [0]))
    found = taken(first(held("a", [0])), again, second(held("b", [0], [0])))
    assert found[1:] == [None, Unowned(0, 0, 0, 0)]
    together = (
        record(T0 + 20_000, 2, [("i", "a", "b")]),
        state(held("b", [0], [0]), joined_ms=T0 + 18_000),
    )
    assert taken(first(held("a", [0])), together)[1] == Unowned(0, 0, 0, 0)


@pytest.mark.parametrize(
    ("duration_ms", "expected"),
    [
        (1_000, Unowned(400, 5_000, 2, 2_000)),  # 3 s of the rebalance before
        (4_999, Unowned(400, 12_998, 2, 9_998)),
        (5_000, Unowned(400, 13_000, 2, 10_000)),
        (60_000, Unowned(400, 13_000, 2, 10_000)),
    ],
)
def test_the_duration_of_a_rebalance_bounds_what_it_began(duration_ms, expected):
    assert Unowned(400, 13_000, 2, 10_000).within(duration_ms) == expected


def test_the_least_is_no_more_than_the_most():
    assert Unowned(9_000, 10_000, 2, 10_000).within(1_500) == Unowned(3_000, 3_000, 2, 3_000)


def test_a_partition_that_goes_from_owner_to_owner_with_a_generation_adds_nothing():
    """`a` still names partition 0, which `b` gets; partition 1 was given up before."""
    after = second(held("a", [], [0]), held("b", [0, 1]), protocol="cooperative-sticky")
    found = taken(first(held("a", [0, 1])), after)
    assert found[1] == Unowned(2_000, 11_000, 1, 11_000)
