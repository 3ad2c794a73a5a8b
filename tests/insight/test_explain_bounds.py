"""Rows of `explain` at the limits of its rules, from handmade records and lines."""

import pytest

from coterie._core.codec.schema import encode_key, encode_value
from coterie.base.times import LogClock
from coterie.insight.groups import causes, epochs, flapping, timeline
from coterie.insight.groups.protocol_switches import row_in_words
from coterie.insight.questions import explain, server_log
from coterie.insight.questions.server_log import (
    REQUESTS,
    SEEN,
    BrokerLogIndex,
    BrokerLogLine,
)
from coterie.insight.records.group_log import GroupRecord, GroupRecords
from coterie.insight.records.partition_view import read_partitions
from support.insight import lives
from support.insight.lives import life, written
from support.log_writer import (
    batch,
    commit_key,
    commit_value,
    group_key,
    group_value,
)
from support.request_lines import line


def explained(folder, *batches, **parameters):
    folder = folder / "__consumer_offsets-0"
    folder.mkdir()
    (folder / f"{0:020}.log").write_bytes(b"".join(batches))
    (view,) = read_partitions([folder])
    return list(explain.rows(view, explain.Parameters(**parameters)))


def generations(*records):
    """One batch for each (time in ms, generation, member ids; None: a tombstone)."""
    return [
        batch(offset, [(at_ms, group_key(b"g"), None if ids is None else group_value(number, ids))])
        for offset, (at_ms, number, ids) in enumerate(records)
    ]


def commits(first, *entries):
    """One batch for each (time, group, topic), at offsets from the first one on."""
    return [
        batch(first + at, [(time, commit_key(1, group, topic, 0), commit_value(7, -1, b"", time))])
        for at, (time, group, topic) in enumerate(entries)
    ]


def of_kind(rows, event):
    return [row for row in rows if row["event"] == event]


def test_of_two_members_of_one_client_the_first_that_went_is_the_one_that_came_back(tmp_path):
    rows = explained(tmp_path, *generations((0, 1, [b"a", b"b"]), (5, 2, [b"c"])))
    actual = [(cause["what"], cause["member_id"], cause["detail"]) for cause in rows[1]["causes"]]
    assert actual[:2] == [("restarted", "c", "a"), ("left_or_evicted", "b", None)]


LEFT = dict.fromkeys(causes.CAUSE) | {"what": "left_or_evicted", "source": "records"}
LEFT |= {"member_id": "m"}


@pytest.mark.parametrize(
    ("first_ms", "last_ms", "source"),
    [
        (1000, 2000, REQUESTS),
        (1001, 2000, "records"),
        (1000, 1999, "records"),
    ],
)
def test_a_request_log_tells_who_was_evicted_where_it_covers_both_generations(
    first_ms, last_ms, source
):
    ends = [BrokerLogLine("g", SEEN, at_ms, REQUESTS) for at_ms in (first_ms, last_ms)]
    rows = [
        {"generation": number, "timestamp": at_ms, "event": "generation", "causes": given}
        for number, at_ms, given in ((1, 1000, []), (2, 2000, [LEFT]))
    ]
    BrokerLogIndex(ends).annotate(rows)
    (cause,) = rows[1]["causes"]
    assert cause["source"] == source


def test_a_request_log_covers_a_group_from_its_first_request_to_its_last_in_any_order():
    """A request is logged when it is answered, so the log's order is not that of the requests."""
    start_ms = int(LogClock().ms("2026-01-01 00:00:00,000"))
    left = [
        line("LEAVE_GROUP", 0, {"groupId": group, "memberId": "m"}, {"errorCode": 25}, sent_ms,
             totalTimeMs=total_ms)
        for group, sent_ms, total_ms in (
            ("g", 500, 100.0), ("g", 900, 5.0), ("g", 910, 800.0), ("h", 950, 20.0),
        )
    ]  # fmt: skip
    seen = [
        (one.what, one.group, one.at_ms - start_ms) for one in server_log.read_request_log(left)
    ]
    assert seen == [(SEEN, "g", 110), (SEEN, "g", 895), (SEEN, "h", 930), (SEEN, "h", 930)]


def record(offset, version, key, value):
    decoded = {"version": version, "type": "", "data": {"groupId": "g"} | key}
    body = value and encode_value(version, {"version": 0, "data": value})
    at = offset * 1000
    return GroupRecord("g", offset, at, version, encode_key(decoded), body, "f", 0)


def epoch(offset, number):
    return record(offset, 3, {}, {"epoch": number})


def member(offset, member_id, *, there=True):
    value = {
        **{"instanceId": None, "rackId": None, "clientId": "c", "clientHost": "/h"},
        **{"subscribedTopicNames": [], "subscribedTopicRegex": None, "rebalanceTimeoutMs": 7},
        **{"serverAssignor": None, "classicMemberMetadata": None},
    }
    return record(offset, 5, {"memberId": member_id}, value if there else None)


def test_a_newer_group_is_idle_since_the_first_epoch_without_members():
    there = [member(1, "m"), epoch(2, 1)]
    gone = [member(3, "m", there=False), epoch(4, 2), epoch(5, 3)]
    assert epochs.empty_since(GroupRecords([*there, *gone])) == {"g": 4000}
    assert epochs.empty_since(GroupRecords([*there, *gone, member(6, "n"), epoch(7, 4)])) == {}


@pytest.mark.parametrize(
    ("topics", "named"),
    [
        (b"abc", "3 commits to 3 partitions of a, b, c"),
        (b"abcd", "4 commits to 4 partitions of a, b, c and 1 more"),
    ],
)
def test_as_many_topics_are_named_as_there_is_room_for(tmp_path, topics, named):
    entries = [(5, b"g", topics[at : at + 1]) for at in range(len(topics))]
    (row,) = of_kind(explained(tmp_path, *commits(0, *entries)), "commits")
    assert row["cause"] == named


@pytest.mark.parametrize(
    ("times", "first", "last"),
    [((-1, 700, 500), 500, 700), ((-1, 0, 0), 0, 0), ((-1,), None, None)],
)
def test_commits_of_which_the_first_has_no_time_are_there_since_the_least_of_the_others(
    times, first, last, tmp_path
):
    entries = [(at_ms, b"g", b"t") for at_ms in times]
    (row,) = of_kind(explained(tmp_path, *commits(0, *entries)), explain.COMMITS)
    assert (row["timestamp"], row["until"], row["count"]) == (first, last, len(times))


def test_the_commits_of_each_of_many_groups_are_reported_with_the_first_of_them(tmp_path):
    groups = [b"g%d" % number for number in range(7)]
    entries = [(at, groups[at % 7], b"t") for at in range(200)]
    rows = of_kind(explained(tmp_path, *commits(0, *entries)), "commits")
    assert [(row["log_offset"], row["timestamp"]) for row in rows] == [(at, at) for at in range(7)]


def moves(*times):
    """A client that joined and left alternately."""
    cause = dict.fromkeys(causes.CAUSE) | {"client_id": "c"}
    return [
        flapping.Move(at_ms, number % 2 == 0, number % 2, number, cause, 0, True)
        for number, at_ms in enumerate(times)
    ]


def test_clients_with_a_part_in_as_many_rebalances_stand_by_name():
    actual = flapping.clients({"b": moves(1), "c": moves(1, 2), "a": moves(1)})
    assert [row["cause"][0] for row in actual] == ["c", "a", "b"]


@pytest.mark.parametrize(
    ("began", "ended", "at_most"),
    [(10, 10, 0), (10, 15, 5), (11, 10, None), (None, 10, None), (10, None, None)],
)
def test_a_rebalance_took_at_most_the_time_from_the_record_before(began, ended, at_most):
    before = {"event": "empty", "timestamp": began}
    row = {"event": "generation", "timestamp": ended}
    timeline.bound_waits([before, row])
    assert row.get("duration_ms") == at_most
    assert row.get("duration_source") == (None if at_most is None else "records")


@pytest.mark.parametrize("between", ["commits", "deleted", "epoch"])
def test_no_bound_is_known_where_another_kind_of_record_stands_between(between):
    rows = [{"event": event, "timestamp": 5} for event in ("generation", between, "generation")]
    timeline.bound_waits(rows)
    assert not any("duration_ms" in row for row in rows)


def test_groups_beyond_the_basic_plane_stand_where_java_puts_them(tmp_path):
    names = ["\U00010000", "\uffff"]  # its first surrogate, D800, is below FFFF
    entries = [(5, name.encode(), b"t") for name in reversed(names)]
    rows = of_kind(explained(tmp_path, *commits(0, *entries)), "summary")
    assert [row["group_id"] for row in rows] == names


# ---- events of a classic group


def timeline_of(folder, *lives):
    (view,) = read_partitions([written(folder, *lives)])
    return timeline.timeline(view.histories["g"])


def test_each_record_of_a_group_is_an_event_with_its_text(tmp_path):
    static = lives.member("s-1", groupInstanceId="i")
    rows = timeline_of(
        tmp_path, life(1, 0), life(2, 1, static), life(3, 1, static),
        life(4, 1, lives.member("s-2", groupInstanceId="i")), life(5, 2), life(6, None), life(7, 2),
    )  # fmt: skip
    assert [(row["event"], row["member_count"], row["cause"]) for row in rows] == [
        ("empty", 0, "the group was made; no members"),
        ("generation", 1, "i (h) joined"),
        ("rewritten", 1, "the same generation was written again"),
        ("static_replacement", 1, "static i came back under a new member id; leader is now i"),
        ("empty", 0, "i left or was evicted; no members"),
        ("deleted", None, "the group was deleted, or had expired"),
        ("empty", 0, "no members"),
    ]
    assert [(row["generation"], row["previous_generation"]) for row in rows[:5]] == [
        (0, None), (1, 0), (1, 1), (1, 1), (2, 1),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("between", "until_ms", "duration_ms"),
    [
        ([life(2_000, 2, state_ms=1_900), life(4_500, 3, lives.member("b"))], 4_500, 2_600),
        # Written again, the time without members goes on.
        ([life(2_000, 2, state_ms=1_900), life(3_000, 2, state_ms=2_900),
          life(4_500, 3, lives.member("b"))], 4_500, 2_600),
        ([life(2_000, 2), life(4_500, None)], 4_500, 2_500),  # the state has no time
        ([life(2_000, 2, state_ms=5_000), life(4_500, None)], 4_500, 0),
        ([life(2_000, 2, state_ms=0), life(4_500, None)], 4_500, 4_500),
        ([life(2_000, 2)], None, None),
        ([life(2_000, 2), life(-1, None)], None, None),
        ([life(-1, 2), life(4_500, None)], None, None),
        ([life(-1, 2, state_ms=1_900), life(4_500, None)], 4_500, 2_600),
    ],
)  # fmt: skip
def test_a_time_without_members_ends_with_the_next_record_of_another_kind(
    tmp_path, between, until_ms, duration_ms
):
    rows = timeline_of(tmp_path, life(1_000, 1, lives.member("a")), *between)
    empty = [row for row in rows if row["event"] == "empty"]
    assert (empty[0].get("until"), empty[0].get("duration_ms")) == (until_ms, duration_ms)
    assert not any("until" in row or "duration_ms" in row for row in rows if row is not empty[0])


def test_what_a_server_log_said_of_a_duration_is_not_bounded_by_the_records():
    rows = [{"event": event, "timestamp": at} for event, at in (("empty", 5), ("generation", 9))]
    exact = {"duration_ms": 1, "duration_source": "server log"}
    timeline.bound_waits([rows[0], rows[1] | exact])
    later = rows[1] | exact
    timeline.bound_waits([rows[0], later])
    assert later == rows[1] | exact


@pytest.mark.parametrize(
    ("event", "count", "ending"),
    [("empty", 0, "; no members"), ("upgraded", 0, "; no members"), ("downgraded", 1, ""),
     ("generation", 0, "")],
)  # fmt: skip
def test_the_text_of_a_row_says_that_it_has_no_members_where_that_is_an_event(event, count, ending):
    row = {"event": event, "member_count": count, "causes": [LEFT]}
    assert row_in_words(row) == "m left or was evicted" + ending


def test_a_clock_that_went_back_is_told_to_groups_that_had_a_record_before(tmp_path):
    """`h` has its first record where the time goes back, `g` had one before, `i` begins later."""
    entries = [(5_000, b"g", b"t"), (3_000, b"h", b"t"), (3_001, b"i", b"t"), (6_000, b"g", b"t")]
    rows = of_kind(explained(tmp_path, *commits(0, *entries)), "clock_back")
    assert [(row["group_id"], row["log_offset"], row["duration_ms"]) for row in rows] == [
        ("g", 1, 2_000)
    ]
    assert rows[0]["timestamp"] == 3_000
    assert rows[0]["cause"].startswith("the time goes back by 2s, from 1970-01-01T00:00:05.000Z")


@pytest.mark.parametrize(("since_ms", "of"), [
    (None, "2 of 2 departures suggest poll timeouts"),
    (9_000, "2 of 2 departures suggest poll timeouts"),
    (9_001, "1 of 1 departure suggests a poll timeout"),
    (29_000, "1 of 1 departure suggests a poll timeout"),
    (29_001, None),
])  # fmt: skip
def test_only_departures_of_the_requested_time_are_summed_up(tmp_path, since_ms, of):
    """Two members are gone a rebalance timeout after they joined, 9 s."""
    a, b, c = (lives.member(name, sessionTimeout=3_000 - 1) for name in "abc")
    folder = written(
        tmp_path, life(0, 1, a, b), life(9_000, 2, a), life(20_000, 3, a, c), life(29_000, 4, a)
    )
    (view,) = read_partitions([folder], since_ms=since_ms)
    sums = of_kind(explain.rows(view, explain.Parameters()), "departures")
    assert [row["cause"].partition(":")[0] for row in sums] == ([] if of is None else [of])
