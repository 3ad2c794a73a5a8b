"""Partition-seconds without an owner, episodes of rebalances, and how members left."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.insight.groups.unowned import Unowned
from coterie.insight.questions import explain
from coterie.insight.records.partition_view import read_partitions
from coterie.testing import subscription
from support.commandline import coterie_ok
from support.golden_data import incident, truth
from support.insight.lives import commit, life, member, written


def consumer(name, held, owned=None, **fields):
    """A member that is assigned partitions of `t`; `owned`: those it named when it joined."""
    version = 0 if owned is None else 1
    owned_by_topic = None if owned is None else {"t": sorted(owned)}
    return member(
        name,
        clientId=fields.pop("clientId", name),
        held={"t": sorted(held)},
        subscription=subscription(["t"], version, owned=owned_by_topic),
        **fields,
    )


def explained(folder):
    return [
        row
        for view in read_partitions([folder])
        for row in explain.rows(view, explain.Parameters())
    ]


def bounds(folder):
    """At least and at most, of each generation."""
    rows = [row for row in explained(folder) if row["event"] == "generation"]
    return [(row["unowned_least_ms"], row["unowned_most_ms"]) for row in rows]


def cooperative(at_ms, generation, *members, joined_ms):
    return life(at_ms, generation, *members, protocol="cooperative-sticky", state_ms=joined_ms)


def test_a_partition_that_stays_with_its_owner_is_never_without_one(tmp_path):
    """`b` joins a cooperative group: one partition moves in two steps, three never do."""
    folder = written(
        tmp_path,
        cooperative(1000, 1, consumer("a", [0, 1, 2, 3], []), joined_ms=900),
        cooperative(
            5000, 2, consumer("a", [0, 1, 2], [0, 1, 2, 3]), consumer("b", [], []), joined_ms=4900
        ),
        cooperative(
            5700, 3, consumer("a", [0, 1, 2], [0, 1, 2]), consumer("b", [3], []), joined_ms=5600
        ),
    )
    # Given up after generation 2 was written, and before `a` joined generation 3.
    assert bounds(folder) == [(None, None), (0, 0), (100, 700)]


def test_an_eager_group_has_no_owners_from_its_joins_to_the_assignment(tmp_path):
    folder = written(
        tmp_path,
        life(1000, 1, consumer("a", [0, 1]), state_ms=900),
        commit(4000, {0: 1, 1: 1}),
        commit(4500, {0: 2}),
        life(6000, 2, consumer("a", [0]), consumer("b", [1]), state_ms=5800),
    )
    # Partition 0 was given up between 4500 and 5800, partition 1 between 4000 and 5800.
    assert bounds(folder)[1] == (200 + 200, 1500 + 2000)


def test_times_without_any_member_do_not_count(tmp_path):
    folder = written(
        tmp_path,
        life(0, 1, consumer("a", [0]), state_ms=0),
        life(1000, 2, state_ms=1000),
        life(9000, 3, consumer("b", [0]), state_ms=8000),
    )
    assert bounds(folder)[1] == (0, 0)


@st.composite
def lives(draw):
    """A group's life with its truth: (records and commits, ms without an owner by generation).

    Members join at times of their own; an eager one gives up its partitions before, a cooperative
    one after the generation that takes them away. Some are gone in the meantime.
    """
    eager, partitions = draw(st.booleans()), range(draw(st.integers(1, 4)))
    owner = dict.fromkeys(partitions)  # as its members see it
    given_up = {}
    clock, appends, expected = 1000, [], []
    members, number = [], 0
    before = None
    for _ in range(draw(st.integers(2, 6))):
        start = clock + draw(st.integers(0, 3000))
        for place in draw(st.lists(st.sampled_from(partitions), max_size=3)):
            if owner[place] is not None:
                at_ms = draw(st.integers(clock, start))
                appends.append(commit(at_ms, {place: 5}))
        appends.sort(key=lambda append: append[0][0] if isinstance(append, list) else append[0])
        gone = draw(st.sets(st.sampled_from(members), max_size=len(members) - 1)) if members else ()
        arrivals = draw(st.integers(0 if members else 1, 2))
        stays = [name for name in members if name not in gone]
        members = stays + [f"m{number + at}" for at in range(arrivals)]
        number += arrivals
        joins = {name: start + draw(st.integers(0, 800)) for name in members}
        complete = max([start, *joins.values()])
        left = {name: draw(st.integers(start, complete)) for name in gone}
        for place in partitions:
            if owner[place] in gone:
                given_up[place], owner[place] = left[owner[place]], None
            elif owner[place] is not None and eager:
                up_ms = draw(st.integers(start, joins[owner[place]]))
                given_up[place], owner[place] = up_ms, None
            elif owner[place] is not None and before and before[place] != owner[place]:
                # Taken away by the generation before: given up before joining again.
                up_ms = draw(st.integers(clock, joins[owner[place]]))
                given_up[place], owner[place] = up_ms, None
        owned = {name: [p for p in partitions if owner[p] == name] for name in members}
        at_ms = complete + draw(st.integers(0, 300))
        next_owner = {place: draw(st.sampled_from(members)) for place in partitions}
        assigned, total = {}, 0
        for place in partitions:
            if owner[place] is None:
                assigned[place] = next_owner[place]
                total += at_ms - given_up.pop(place, at_ms)
            elif next_owner[place] == owner[place]:
                assigned[place] = next_owner[place]
        owner |= assigned
        before = {place: assigned.get(place) for place in partitions}
        records = [
            consumer(
                name,
                [place for place in assigned if assigned[place] == name],
                None if eager else owned[name],
                rebalanceTimeout=60_000,
            )
            for name in members
        ]
        protocol = "range" if eager else "cooperative-sticky"
        appends.append(
            life(at_ms, len(expected) + 1, *records, protocol=protocol, state_ms=complete)
        )
        expected.append(total)
        clock = at_ms
    return appends, expected


@given(lives())
def test_the_bounds_of_random_lives_hold_what_was_without_an_owner(tmp_path_factory, made):
    appends, expected = made
    actual = bounds(written(tmp_path_factory.mktemp("log"), *appends))
    assert len(actual) == len(expected)
    for (least_ms, most_ms), truth_ms in list(zip(actual, expected, strict=True))[1:]:
        assert least_ms <= truth_ms <= most_ms


def sums(folder, event):
    return [row["cause"] for row in explained(folder) if row["event"] == event]


def rolling(members, twice=False):
    """Each member leaves and comes back after a second, the next after two."""
    names = [f"c-{at}" for at in range(members)]
    present = {name: f"{name}-0" for name in names}
    at_ms, generation = 0, 1

    def record():
        consumers = [consumer(i, [], [], clientId=name) for name, i in sorted(present.items())]
        return cooperative(at_ms, generation, *consumers, joined_ms=at_ms)

    appends = [record()]
    for turn in range(1, 3 if twice else 2):
        for name in names:
            for there in (False, True):
                at_ms += 1000 if there else 2000 if generation > 1 else 100_000
                generation += 1
                present.pop(name, None)
                present |= {name: f"{name}-{turn}"} if there else {}
                appends.append(record())
    return appends


def test_a_rolling_restart_is_one_line_with_its_rebalances(tmp_path):
    (text,) = sums(written(tmp_path, *rolling(8)), "episode")
    assert text == (
        "rolling restart of 8 members: 16 rebalances in 22 s, no partition without an owner"
    )


def test_members_that_restart_again_are_no_rolling_restart(tmp_path):
    (text,) = sums(written(tmp_path, *rolling(2, twice=True)), "episode")
    assert text.startswith("4 restarts of 2 clients: 8 rebalances in ")


def test_the_restarts_of_a_crash_loop_are_those_of_the_truth():
    events = [
        event
        for event in truth("crash-loop")["events"]
        if event["what"] == "process started" and event["member"] == "crashing"
    ]
    (text,) = sums(incident("crash-loop") / "log", "episode")
    assert text.startswith(f"{len(events) - 1} restarts of 1 client: ")


def test_twelve_leaves_a_rebalance_timeout_after_a_join_suggest_poll_timeouts(tmp_path):
    stays = consumer("s", [0])
    slow = {"rebalanceTimeout": 6_000, "sessionTimeout": 10_000, "clientId": "slow"}
    appends = []
    for turn in range(12):
        at_ms = 10_000 * turn
        slow_one = consumer(f"slow-{turn}", [1], **slow)
        appends.append(life(at_ms, 2 * turn + 1, stays, slow_one, state_ms=at_ms - 10))
        appends.append(life(at_ms + 6_550, 2 * turn + 2, stays, state_ms=at_ms + 6_500))
    folder = written(tmp_path, *appends)
    assert sums(folder, "departures") == [
        "12 of 12 departures suggest poll timeouts: gone 6.5 s after the join, with a rebalance "
        "timeout of 6.0 s (the application did not poll for max.poll.interval.ms)"
    ]
    details = {
        cause["detail"]
        for row in explained(folder)
        for cause in row["causes"]
        if cause["what"] == "left_or_evicted"
    }
    assert details == {
        "perhaps a poll timeout (gone 6.5 s after the join, with a rebalance timeout of 6.0 s)"
    }


@pytest.mark.parametrize(
    ("silent_ms", "way"),
    [
        (100, "a clean close: last commit 0.1 s before"),
        (4_000, "a clean close: last commit 4.0 s before"),
        (4_001, None),
        (8_499, None),
        (
            9_000,
            "a poll timeout: last commit 9.0 s before, with a rebalance timeout of 9.0 s "
            "(the application did not poll for max.poll.interval.ms)",
        ),
        (29_999, None),
        (30_000, "an eviction: last commit 30.0 s before, with a session timeout of 45.0 s"),
        (51_000, "an eviction: last commit 51.0 s before, with a session timeout of 45.0 s"),
        (51_001, None),
    ],
)
def test_the_last_commit_before_a_departure_suggests_how_a_member_left(tmp_path, silent_ms, way):
    stays, goes = consumer("s", [0]), consumer("g", [1], sessionTimeout=45_000)
    folder = written(
        tmp_path,
        life(0, 1, stays, goes, state_ms=0),
        commit(200_000 - silent_ms, {1: 5}),
        commit(199_999, {0: 5}),  # of the other member
        life(200_100, 2, stays, state_ms=200_000),
    )
    expected = [] if way is None else [f"1 of 1 departure suggests {way}"]
    assert sums(folder, "departures") == expected


@pytest.mark.parametrize(
    ("name", "log", "event", "way"),
    [
        ("crash-loop", "log", "process killed", "eviction"),
        ("reset-while-empty", "log", "process closed in order", "clean close"),
        ("two-applications", "log", "process closed in order", "clean close"),
        ("compaction", "whole", "process closed in order", "clean close"),
    ],
)
def test_how_members_of_an_incident_left_is_suggested_as_the_truth_has_it(name, log, event, way):
    expected = sum(one["what"] == event for one in truth(name)["events"])
    rows = [row for row in explained(incident(name) / log) if row["event"] == "departures"]
    assert sum(row["count"] for row in rows) == expected > 0
    assert all(f" {way}" in row["cause"] for row in rows)


def test_a_brokers_log_needs_no_suggestion():
    folder = incident("crash-loop")
    output = coterie_ok(
        *("explain", folder / "log", "--server-log", folder / "server.log.gz"),
        *("--group", "orders-app", "--format", "json"),
    ).stdout
    assert not [row for row in json.loads(output) if row["event"] == "departures"]
    assert "perhaps" not in output


def test_a_last_commit_that_fits_two_timeouts_suggests_either(tmp_path):
    goes = consumer("g", [1], sessionTimeout=6_000, rebalanceTimeout=6_000)
    folder = written(
        tmp_path,
        life(0, 1, consumer("s", [0]), goes, state_ms=0),
        commit(193_800, {1: 5}),
        life(200_100, 2, consumer("s", [0]), state_ms=200_000),
    )
    assert sums(folder, "departures") == [
        "1 of 1 departure suggests a poll timeout or an eviction: last commit 6.2 s before, "
        "with a rebalance timeout of 6.0 s and a session timeout of 6.0 s"
    ]


def test_a_server_logs_duration_bounds_what_was_given_up_in_its_rebalance():
    # Two partitions for at most 5 s each in this rebalance, and one of the rebalance before.
    bounds_of_log = Unowned(400, 13_000, 2, 10_000)
    assert bounds_of_log.within(1_000) == Unowned(400, 5_000, 2, 2_000)
    assert bounds_of_log.within(60_000) == bounds_of_log


@pytest.mark.parametrize(
    ("before", "now", "text"),
    [
        ({}, {"rack_id": "b"}, "c changed its metadata: rack none to b"),
        ({"rack_id": "a"}, {"rack_id": "b"}, "c changed its metadata: rack a to b"),
        (
            {"user_data": b"1", "owned": {"t": [0]}, "generation_id": 1},
            {"user_data": b"2", "owned": {"t": [1]}, "generation_id": 2},
            "the same members joined again; the records do not tell why: "
            "user data and owned partitions and generation changed",
        ),
        (
            {"owned": {"t": [0]}, "generation_id": 1},
            {"owned": {"t": [1]}, "generation_id": 2},
            "the same members joined again; the records do not tell why",
        ),
    ],
)
def test_a_cause_says_what_changed_in_a_members_metadata(tmp_path, before, now, text):
    lives = [
        life(at, at + 1, consumer("c", [0], clientHost="") | {"subscription": sent})
        for at, sent in enumerate(subscription(["t"], 3, **fields) for fields in (before, now))
    ]
    rows = [row for row in explained(written(tmp_path, *lives)) if row["event"] == "generation"]
    assert rows[1]["cause"] == text


def test_bytes_that_are_no_subscription_changed_and_cannot_be_read(tmp_path):
    lives = [
        life(at, at + 1, consumer("c", [0], clientHost="") | {"subscription": sent})
        for at, sent in enumerate([subscription(["t"], 3), b"\0"])
    ]
    (_, row) = [row for row in explained(written(tmp_path, *lives)) if row["event"] == "generation"]
    assert row["cause"] == "c changed the subscription: its metadata changed, and cannot be read"
