"""Which partitions members of a newer group own, give up and lose; when members have an epoch."""

import pytest

from coterie.insight.groups.owned_partitions import OwnedPartitions, Revocation
from coterie.insight.groups.reconciliation import LISTED, Reconciliation
from coterie.insight.records.group_log import GroupRecord

T0 = 1_795_000_000_123


def record(after_ms, begin_ms=T0):
    at_ms = -1 if after_ms is None else begin_ms + after_ms
    return GroupRecord("g", 41, at_ms, 8, b"", b"", "f.log", 73)


def topics(numbers):
    return [{"topic_id": "T", "partitions": list(numbers)}] if numbers else []


def row_of(member_id, current=(), pending=(), target=(), timeout_ms=7_000, upgraded=True):
    return {
        "member_id": member_id, "current_assignment": topics(current),
        "pending_revocation": topics(pending), "target_assignment": topics(target),
        "rebalance_timeout_ms": timeout_ms, "upgraded": upgraded, "client_id": f"c-{member_id}",
        "client_host": "/h", "group_instance_id": None,
    }  # fmt: skip


def places(*numbers):
    return frozenset(("T", number) for number in numbers)


def taken(*steps, begin_ms=T0):
    """The owned partitions after records (time, member id, current, pending; None: gone)."""
    owned = OwnedPartitions([])
    ended = [
        owned.take(
            record(after_ms, begin_ms), name, None if held is None else row_of(name, *held)
        )
        for after_ms, name, held in steps
    ]  # fmt: skip
    return owned, ended


def test_a_partition_has_no_owner_from_its_release_to_the_next_member():
    """At least since the record of the release, at most since the order to give it up."""
    _, ended = taken(
        (0, "a", ([0, 1, 2, 3],)),
        (1_000, "a", ([0, 3], [1, 2])),  # to give up two of them
        (3_500, "a", ([0],)),  # has done so, and lost another one at once
        (4_250, "b", ([1, 3],)),
        (6_250, "c", ([2],)),
        (6_500, "c", ([2],)),
    )
    assert ended == [(0, 0)] * 3 + [(750 + 750, 3_250 + 750), (2_750, 5_250), (0, 0)]


def test_a_partition_of_a_member_that_is_gone_has_no_owner_since_then():
    owned, ended = taken(
        (0, "a", ([0], [1])), (10, "b", ([5],)), (900, "a", None), (1_000, "b", ([0, 1, 5],))
    )
    assert ended[-1] == (100 + 100, 100 + 1_000)  # partition 1 was to be given up since 0
    assert owned.left_with == {"a": places(0, 1)}
    assert owned.owned == {"b": places(0, 1, 5)}


@pytest.mark.parametrize(
    ("lost_ms", "got_ms", "bounds"),
    [(900, 400, (0, 0)), (None, 900, (0, 0)), (400, None, (0, 0)), (400, 400, (0, 0))],
)
def test_times_that_go_back_or_are_not_known_count_for_nothing(lost_ms, got_ms, bounds):
    _, ended = taken((0, "a", ([0],)), (lost_ms, "a", None), (got_ms, "b", ([0],)))
    assert ended[-1] == bounds


def test_a_partition_that_was_lost_at_time_0_is_without_an_owner_since_then():
    steps = (0, "a", ([0],)), (0, "a", None), (40, "b", ([0],))
    assert taken(*steps, begin_ms=0)[1][-1] == (40, 40)


def test_an_order_to_give_up_partitions_lasts_until_none_of_them_is_left():
    owned, _ = taken((0, "a", ([0, 1, 2],)), (100, "a", ([0], [1, 2])), (300, "a", ([0], [2])))
    assert owned.ended == []
    (revocation,) = owned.revoking.values()
    assert (revocation.places, revocation.record.timestamp) == (places(1, 2), T0 + 100)
    assert (revocation.until_ms, revocation.is_gone) == (None, False)
    owned.take(record(450), "a", row_of("a", [0]))
    owned.take(record(500), "a", row_of("a", (), [0]))
    (first,) = owned.ended
    assert (first.places, first.until_ms, first.is_gone) == (places(1, 2), T0 + 450, False)
    assert owned.revoking["a"].places == places(0)
    owned.take(record(700), "a", None)
    assert owned.revoking == {}
    assert [(one.until_ms, one.is_gone) for one in owned.ended] == [
        (T0 + 450, False), (T0 + 700, True),
    ]  # fmt: skip


def test_another_order_in_the_record_that_ends_one_is_one_of_its_own():
    owned, _ = taken((0, "a", ([1], [0])), (400, "a", ((), [1])))
    assert [one.places for one in owned.ended] == [places(0)]
    assert (owned.revoking["a"].places, owned.revoking["a"].record.timestamp) == (
        places(1), T0 + 400,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("timeout_ms", "until_ms", "changed", "is_timed_out"),
    [
        (7_000, 7_000, {}, True),
        (7_001, 7_000, {}, False),
        (0, 0, {}, True),
        (-1, 7_000, {}, False),  # not known
        (7_000, 7_000, {"is_gone": False}, False),
        (7_000, 7_000, {"upgraded": False}, False),
    ],
)
def test_a_member_that_is_gone_a_rebalance_timeout_after_the_order_was_fenced(
    timeout_ms, until_ms, changed, is_timed_out
):
    member = row_of("a", timeout_ms=timeout_ms, upgraded=changed.get("upgraded", True))
    revocation = Revocation(
        member, places(3, 4), record(0), T0 + until_ms, changed.get("is_gone", True)
    )
    assert revocation.timed_out == is_timed_out
    assert revocation.lasted_ms(T0 + 99_000) == until_ms
    going_on = revocation._replace(until_ms=None)
    assert going_on.lasted_ms(T0 + 99_000) == 99_000


def test_what_a_member_did_not_give_up_in_time_is_known_right_when_it_is_gone():
    text = "2 partitions within its rebalance timeout of 7.0 s"
    steps = [(0, "a", ([0], [1, 2])), (7_000, "a", None)]
    owned, _ = taken(*steps)
    assert (owned.timed_out("a"), owned.timed_out("b")) == (text, None)
    owned, _ = taken(*steps, (7_001, "b", ([0],)))
    assert owned.timed_out("a") is None
    owned, _ = taken(steps[0], (6_999, "a", None))
    assert owned.timed_out("a") is None


def test_a_partition_that_no_member_is_to_own_is_not_without_an_owner():
    owned, _ = taken((0, "a", ([0, 1, 2],)))
    for name, target in (("a", [0, 1]), ("b", [1, 2])):
        owned.take_target(name, row_of(name, target=target))
    owned.take(record(100), "a", None)
    owned.take_target("a", None)  # 1 and 2 are still to be owned, by `b`
    owned.take_target("b", row_of("b", target=[1]))  # and now 1 alone
    owned.target_computed()
    assert owned.take(record(400), "b", row_of("b", [0, 1, 2])) == (300, 300)


# ---- an epoch, until all members have it


def begun(*names):
    progress, row = Reconciliation(), {}
    progress.begin(row, {name: row_of(name) for name in names})
    return progress, row


def listed(names):
    return [
        {"member_id": name, "client_id": f"c-{name}", "client_host": "/h",
         "group_instance_id": None} for name in names
    ]  # fmt: skip


def test_an_epoch_is_reached_with_the_last_member_and_nothing_later_counts():
    progress, row = begun("a", "b")
    progress.target_computed(record(5))
    progress.reached(record(100), row_of("b"))
    assert row == {"target_at": T0 + 5}
    progress.reached(record(250), row_of("a"))
    reached = {"target_at": T0 + 5, "until": T0 + 250, "unreconciled": 0,
               "last_members": listed("a")}  # fmt: skip
    assert row == reached
    for at_ms in (300, 400):
        progress.reached(record(at_ms), row_of("b"))
    progress.target_computed(record(500))
    progress.left_for_now(row_of("b"))
    progress.end()
    assert row == reached


def test_an_epoch_that_was_not_reached_names_some_of_the_members_that_it_waited_for():
    names = [f"m-{number:02}" for number in range(LISTED + 2)]
    progress, row = begun(*names)
    progress.reached(record(1), row_of("m-00"))
    progress.end()
    ended = {"unreconciled": LISTED + 1, "last_members": listed(names[1 : LISTED + 1])}
    assert row == ended
    progress.target_computed(record(2))
    for name in names:
        progress.reached(record(3), row_of(name))
    assert row == ended


def test_the_target_of_an_epoch_is_the_first_that_is_computed_after_it():
    progress, row = begun("a")
    for at_ms in (7, 9):
        progress.target_computed(record(at_ms))
    assert row["target_at"] == T0 + 7


def test_whoever_takes_a_members_place_is_waited_for_instead():
    progress, row = begun("a", "b")
    progress.replace("a", row_of("n"))
    progress.replace("x", row_of("y"))  # nobody waited for it
    progress.reached(record(1), row_of("b"))
    progress.end()
    assert (row["unreconciled"], row["last_members"]) == (1, listed("n"))


def test_a_static_member_that_is_away_is_waited_for_until_it_is_back():
    progress, row = begun("a", "b")
    progress.reached(record(1), row_of("b"))
    progress.left_for_now(row_of("b"))
    progress.reached(record(2), row_of("a"))
    assert "until" not in row
    progress.reached(record(3), row_of("b"))
    assert (row["until"], row["last_members"]) == (T0 + 3, listed("b"))
