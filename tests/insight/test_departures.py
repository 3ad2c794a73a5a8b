"""How the times of a member's departure suggest the way it left, at each bound of the rules."""

from types import SimpleNamespace

import numpy as np
import pytest

from coterie.insight.groups.departures import (
    CLEAN_CLOSE,
    EITHER,
    EVICTION,
    POLL_TIMEOUT,
    Departure,
    add_suggestions,
    suggested,
    summary,
)
from coterie.insight.offsets.last_commits import CommitTimes
from coterie.insight.questions.explain_members import departures_of

GONE_MS = 1_795_000_000_123


def gone(stayed_ms, silent_ms, session_ms=45_000, timeout_ms=300_000, member="m", at_ms=GONE_MS):
    committed_ms = None if silent_ms is None else at_ms - silent_ms
    joined_ms = at_ms - stayed_ms
    return Departure(member, at_ms, joined_ms, committed_ms, session_ms, timeout_ms, 77)


@pytest.mark.parametrize(
    ("silent_ms", "session_ms", "timeout_ms", "way"),
    [
        # A close commits at once: within a heartbeat interval and a second, at most half a session.
        (-1, 45_000, 300_000, None),
        (0, 45_000, 300_000, CLEAN_CLOSE),
        (4_000, 45_000, 300_000, CLEAN_CLOSE),
        (4_001, 45_000, 300_000, None),
        (3_000, 6_000, 300_000, CLEAN_CLOSE),
        (3_001, 6_000, 300_000, None),
        # An application that does not poll: a rebalance timeout, less the time of a write, to it
        # and an interval of commits with a second.
        (99_499, 10_000, 100_000, None),
        (99_500, 10_000, 100_000, POLL_TIMEOUT),
        (106_000, 10_000, 100_000, POLL_TIMEOUT),
        (106_001, 10_000, 100_000, None),
        # A member that is dead: a session, less one of its three heartbeats, to it and as long.
        (19_999, 30_000, 300_000, None),
        (20_000, 30_000, 300_000, EVICTION),
        (36_000, 30_000, 300_000, EVICTION),
        (36_001, 30_000, 300_000, None),
        # Both timeouts fit.
        (19_999, 30_000, 20_400, POLL_TIMEOUT),
        (20_000, 30_000, 20_400, EITHER),
        (26_400, 30_000, 20_400, EITHER),
        (26_401, 30_000, 20_400, EVICTION),
    ],
)
def test_the_time_since_the_last_commit_suggests_a_way(silent_ms, session_ms, timeout_ms, way):
    assert suggested(gone(2_000_000, silent_ms, session_ms, timeout_ms)) == way


@pytest.mark.parametrize(
    ("stayed_ms", "timeout_ms", "way"),
    [
        (299_999, 300_000, None),
        (300_000, 300_000, POLL_TIMEOUT),
        (330_000, 300_000, POLL_TIMEOUT),  # a tenth longer
        (330_001, 300_000, None),
        (6_000, 6_000, POLL_TIMEOUT),
        (7_000, 6_000, POLL_TIMEOUT),  # a second longer
        (7_001, 6_000, None),
    ],
)
def test_a_member_without_a_commit_stayed_for_a_rebalance_timeout(stayed_ms, timeout_ms, way):
    assert suggested(gone(stayed_ms, None, timeout_ms=timeout_ms)) == way


@pytest.mark.parametrize(("silent_ms", "way"), [(299_000, POLL_TIMEOUT), (298_999, None)])
def test_a_commit_within_a_second_of_the_join_is_that_of_its_first_poll(silent_ms, way):
    assert suggested(gone(300_000, silent_ms)) == way


@pytest.mark.parametrize(
    ("stayed_ms", "session_ms", "timeout_ms", "way"),
    [
        (45_000, 45_000, 45_000, EITHER),
        (12_000, 10_000, 12_000, EITHER),  # died 2 s after its join
        (16_000, 10_000, 16_000, EITHER),
        (16_001, 10_000, 16_001, POLL_TIMEOUT),
        (12_000, 12_001, 12_000, POLL_TIMEOUT),  # its session had not ended
    ],
)
def test_a_member_that_died_soon_after_its_join_is_not_one_that_did_not_poll(
    stayed_ms, session_ms, timeout_ms, way
):
    """A crash loop: without a commit, the member is gone a session timeout after its join."""
    assert suggested(gone(stayed_ms, None, session_ms, timeout_ms)) == way


@pytest.mark.parametrize(("stayed_ms", "silent_ms"), [(20_000, None), (900_000, 22_000)])
def test_a_rebalance_that_others_began_waits_for_a_dead_member_as_long(stayed_ms, silent_ms):
    departure = gone(stayed_ms, silent_ms, session_ms=45_000, timeout_ms=20_000)
    assert suggested(departure) == POLL_TIMEOUT
    assert suggested(departure._replace(others_joined=True)) == EITHER
    closed = gone(stayed_ms, 1_000, session_ms=45_000, timeout_ms=20_000)
    assert suggested(closed._replace(others_joined=True)) == CLEAN_CLOSE


def cause(member, what="left_or_evicted", source="records"):
    return {"member_id": member, "what": what, "source": source, "detail": None}


def test_members_that_left_in_one_way_share_their_text():
    departed = {
        "a": gone(2_000_000, 1_100, member="a"),
        "b": gone(2_000_000, 2_300, member="b"),
        "c": gone(2_000_000, 51_000, member="c"),
        "d": gone(2_000_000, 9_000, member="d"),  # suggests nothing
        "e": gone(2_000_000, 100, member="e"),
        "f": gone(2_000_000, 100, member="f"),
    }
    others = [cause("e", source="server log"), cause("f", what="restarted"), cause("x")]
    row = {"causes": [*map(cause, "abcd"), *others]}
    assert add_suggestions(row, departed)
    assert [one["detail"] for one in row["causes"]] == [
        "perhaps clean closes (last commit 1.1 to 2.3 s before)",
        "perhaps clean closes (last commit 1.1 to 2.3 s before)",
        "perhaps an eviction (last commit 51.0 s before, with a session timeout of 45.0 s)",
        *[None] * 4,
    ]
    assert not add_suggestions({"causes": [cause("d")]}, departed)


HINT = " (the application did not poll for max.poll.interval.ms)"


@pytest.mark.parametrize(
    ("departed", "text"),
    [
        (
            [gone(301_000, None), gone(320_000, 320_000, timeout_ms=310_000)],
            f"2 of 2 departures suggest poll timeouts: gone 301.0 to 320.0 s after the join, "
            f"with a rebalance timeout of 300.0 to 310.0 s{HINT}",
        ),
        (
            [gone(301_000, None), gone(900_000, 302_000)],
            f"2 of 2 departures suggest poll timeouts: last commit 0.0 to 302.0 s before, "
            f"with a rebalance timeout of 300.0 s{HINT}",
        ),
        (  # a close, even if it is as long after the join as a poll timeout
            [gone(2_500, 2_000, timeout_ms=2_000)],
            "1 of 1 departure suggests a clean close: last commit 2.0 s before",
        ),
        (
            [gone(900_000, 30_000), gone(900_000, 9_000, session_ms=9_000)],
            "2 of 2 departures suggest evictions: last commit 9.0 to 30.0 s before, "
            "with a session timeout of 9.0 to 45.0 s",
        ),
        (
            [gone(900_000, 7_200, 7_000, 6_800), gone(900_000, 7_300, 6_000, 6_900)],
            "2 of 2 departures suggest poll timeouts or evictions: last commit 7.2 to 7.3 s "
            "before, with a rebalance timeout of 6.8 to 6.9 s and a session timeout of 6.0 to "
            "7.0 s",
        ),
    ],
)
def test_a_text_has_the_bounds_of_the_times(departed, text):
    assert [row["cause"] for row in summary(departed)] == [text]


def test_the_commonest_way_is_first_with_the_times_of_its_departures():
    departed = [
        gone(2_000_000, 50_000, at_ms=GONE_MS + 5),
        gone(2_000_000, 1_000, at_ms=GONE_MS + 9_001),
        gone(2_000_000, 1_000, at_ms=GONE_MS - 7),
        gone(2_000_000, 9_000, at_ms=GONE_MS - 50_000),
        gone(2_000_000, 1_000, at_ms=GONE_MS + 3),
    ]
    rows = list(summary(departed))
    assert [(row["timestamp"], row["until"], row["count"]) for row in rows] == [
        (GONE_MS - 7, GONE_MS + 9_001, 3),
        (GONE_MS + 5, GONE_MS + 5, 1),
    ]
    assert rows[0]["cause"].startswith("3 of 5 departures suggest clean closes: ")
    assert rows[1]["cause"].startswith("1 of 5 departures suggests an eviction: ")


@pytest.mark.parametrize(("event", "gone_ms"), [("generation", GONE_MS - 30), ("empty", GONE_MS)])
def test_a_departure_has_the_members_last_commit_and_when_all_others_had_joined(event, gone_ms):
    """The group's state changed 30 ms before the record; nobody joins an empty group."""
    members = [
        {"member_id": name, "session_timeout_ms": 40_000 + at, "rebalance_timeout_ms": 70_000 + at}
        for at, name in enumerate("abcd")
    ]
    owners = {("t", number): name for number, name in enumerate("aabbca")}
    commits = {("t", 0): 500, ("t", 1): 900, ("t", 2): 0, ("t", 4): 700, ("t", 5): 800}
    causes = [
        {"what": "left_or_evicted", "member_id": "a", "detail": None},
        {"what": "left_or_evicted", "member_id": "b", "detail": None},
        {"what": "restarted", "member_id": "new", "detail": "d"},
        {"what": "joined", "member_id": "c", "detail": None},
    ]
    row = {"event": event, "causes": causes}
    record = {"timestamp": GONE_MS, "log_offset": 77}
    before = {"at_ms": GONE_MS - 9_000, "state": {"members": members}}
    state = {"current_state_timestamp": GONE_MS - 30}
    found = departures_of(row, record, state, before, owners, commits)
    assert found == {
        name: Departure(
            name,
            gone_ms,
            GONE_MS - 9_000,
            committed_ms,
            40_000 + at,
            70_000 + at,
            77,
            others_joined=event == "generation",
        )
        for at, name, committed_ms in ((0, "a", 900), (1, "b", 0), (3, "d", None))
    }
    for known in (
        (record, None, before), (record, state, None),
        (record | {"timestamp": None}, state, before), (record, state, before | {"at_ms": None}),
    ):  # fmt: skip
        assert departures_of(row, *known, owners, commits) == {}


def test_the_last_commit_of_a_partition_is_the_latest_of_neighbouring_spans():
    entries = np.array([(0, 4), (1, 5), (0, 6)], [("topic", "i4"), ("partition", "i4")])
    keys = SimpleNamespace(entries=entries, topic_names=["t", "u"])
    columns = [(2, 0, 99), (3, 0, 90), (3, 1, 60), (4, 0, 70), (5, 2, 80), (6, 0, 95)]
    times = CommitTimes(*map(np.array, zip(*columns, strict=True)), keys)
    assert times.of_spans(3, 6) == {("t", 4): 90, ("u", 5): 60, ("t", 6): 80}
    assert times.of_spans(4, 5) == {("t", 4): 70}
    assert times.of_spans(7, 9) == {}
