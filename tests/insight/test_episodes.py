"""Episodes: rebalances that follow each other closely, and what members did in them."""

import pytest

from coterie.insight.groups.causes import CAUSE
from coterie.insight.groups.episodes import episode_row, episodes, story_of, unowned_text

T0 = 1_795_000_000_123
CLIENT = {"client_id": "c", "client_host": "/10.0.0.1", "member_id": "m"}


def cause(what, **fields):
    return dict.fromkeys(CAUSE) | {"source": "records", "what": what} | fields


def rebalance(at_ms, *listed, number=5, count=2, **fields):
    return {
        "timestamp": at_ms, "generation": number, "previous_generation": 4, "log_offset": 70,
        "member_count": count, "causes": list(listed), **fields,
    }  # fmt: skip


def found(*rows):
    return [(row["timestamp"], row["until"], row["count"]) for row in episodes(rows)]


def test_an_episode_is_three_rebalances_or_more_that_are_no_longer_than_a_minute_apart():
    times = [T0 + after for after in (0, 60_000, 120_000)]
    rows = list(map(rebalance, times))
    assert found(*rows) == [(T0, T0 + 120_000, 3)]
    assert found(*rows[:2]) == []
    assert found(*rows[:2], rebalance(T0 + 120_001)) == []
    later = [rebalance(T0 + 500_000 + at) for at in (0, 0, 9)]  # two at once
    assert found(*rows, *later) == [
        (T0, T0 + 120_000, 3), (T0 + 500_000, T0 + 500_009, 3),
    ]  # fmt: skip
    # A time that goes back ends it; other rows and those without a time do not count.
    assert found(*rows[:2], rebalance(T0 + 59_999), rebalance(T0 + 60_005)) == []
    others = [rebalance(T0 + 70_000, number=4), rebalance(None), {"timestamp": T0 + 80_000}]
    assert found(*rows[:2], *others) == []


@pytest.mark.parametrize(
    ("elapsed_ms", "least_ms", "most_ms", "text"),
    [
        (9_999, 0, 0, "10.0 s, no partition without an owner"),
        (10_000, 1_250, 1_250, "10 s, 1.2 partition-seconds without an owner"),
        (90_400, 30, 700, "90 s, at most 0.7 partition-seconds without an owner"),
        (1_260, 9_999, 1_234_567, "1.3 s, 10.0 to 1,235 partition-seconds without an owner"),
        (1_260, 10_000, 12_400, "1.3 s, 10 to 12 partition-seconds without an owner"),
        (1_260, None, None, "1.3 s"),
    ],
)
def test_an_episode_is_a_row_with_its_length_and_the_sums_of_its_rebalances(
    elapsed_ms, least_ms, most_ms, text
):
    bounds = {"unowned_least_ms": least_ms, "unowned_most_ms": most_ms}
    halves = {name: ms and ms - 10 for name, ms in bounds.items()}
    rest = {name: ms and 10 for name, ms in bounds.items()}
    rows = [
        rebalance(T0, cause("joined", **CLIENT), **halves),
        rebalance(T0 + 1, log_offset=71),
        rebalance(T0 + elapsed_ms, log_offset=72, **rest),
    ]
    assert episode_row(rows) == {
        "event": "episode", "timestamp": T0, "until": T0 + elapsed_ms, "log_offset": 70,
        "cause": f"start of 1 member: 3 rebalances in {text}", "count": 3, **bounds,
    }  # fmt: skip


def test_no_text_says_what_is_not_known_of_owners():
    assert unowned_text({"unowned_least_ms": None, "unowned_most_ms": 5}) == ""
    assert unowned_text({"unowned_least_ms": 5, "unowned_most_ms": None}) == ""
    assert unowned_text({}) == ""


def joins(member_id, client="a"):
    return cause("joined", client_id=client, member_id=member_id)


def leaves(member_id, client="a", what="left_or_evicted"):
    return cause(what, client_id=client, member_id=member_id)


def restarts(former, member_id, client="a"):
    return cause("restarted", client_id=client, member_id=member_id, detail=former)


@pytest.mark.parametrize(
    ("listed", "story"),
    [
        ([[joins("1")], [joins("2")]], "start of 2 members"),
        ([[leaves("1"), leaves("2")], [leaves("3", what="evicted")]], "stop of 3 members"),
        ([[cause("leader_changed", member_id="1")]], "no member joined or left"),
        ([[joins("1", "b")], [leaves("2", "c"), leaves("3", "c")]], "1 member joined, 2 left"),
        ([[leaves("1")], [joins("2")]], "restart of 1 member"),
        ([[restarts("1", "2")]], "restart of 1 member"),
        ([[joins("2")], [leaves("1")]], "1 member joined, 1 left"),  # it was not away
        ([[leaves("1")], [joins("2")], [joins("3")]], "2 members joined, 1 left"),
        ([[restarts("1", "2"), restarts("3", "4", "b")]], "rolling restart of 2 members"),
        ([[leaves("1"), leaves("3", "b")], [joins("2"), joins("4", "b")]],
         "rolling restart of 2 members"),
        ([[restarts("1", "2")], [restarts("2", "3")]], "2 restarts of 1 client"),
        ([[restarts("1", "2")], [leaves("2")]], "1 member joined, 2 left"),
        ([[restarts("1", "2"), restarts("7", "8", "b")], [restarts("8", "9", "b")]],
         "3 restarts of 2 clients"),
        ([[restarts("1", "2")], [restarts("2", "3")], [restarts("7", "8", "b")]],
         "3 restarts of 2 clients"),
    ],
)  # fmt: skip
def test_what_members_did_in_an_episode_is_its_story(listed, story):
    assert story_of([rebalance(T0, *some) for some in listed]) == story


def test_members_that_all_left_before_they_came_back_were_restarted_with_none_in_between():
    gone = [leaves("1"), leaves("3", "b")]
    back = [joins("2"), joins("4", "b")]
    rows = [rebalance(T0, *gone, count=0), rebalance(T0, *back)]
    assert story_of(rows) == "restart of 2 members, with none in between"
    assert story_of([rebalance(T0), *rows]) == "restart of 2 members, with none in between"
    more = [*rows, rebalance(T0, joins("5", "x"))]
    assert story_of(more) == "3 members joined, 2 left"
    # The group may be empty at the end: that is no time in between.
    ends = [rebalance(T0, restarts("1", "2"), restarts("3", "4", "b")), rebalance(T0, count=0)]
    assert story_of(ends) == "rolling restart of 2 members"
