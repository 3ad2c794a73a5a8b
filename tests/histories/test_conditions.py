"""The conditions of a history: what is taken, what is drawn, and how it is printed."""

from dataclasses import fields

import pytest

from coterie import ArgumentError, CoterieError
from coterie.histories import EVENTS, History, events, profile, random_history, strategy
from coterie.histories.instance import processing_time
from coterie.histories.ledger import Work
from coterie.histories.outcome import Commit, Lost, OutOfOrder, Overlap, Repeated, Stuck
from coterie.histories.timeline import clock
from coterie.testing import ConsumerRecord, histories
from support.histories.mistakes import Application

DEFAULTS = {
    "Crash": {"member": 0, "down_ms": 1000, "during": None},
    "Close": {"member": 0},
    "Restart": {"member": 0, "down_ms": 1000},
    "Join": {},
    "Pause": {"member": 0, "pause_ms": 1000, "during": None},
    "SlowProcessing": {"member": 0, "lasts_ms": 60_000, "factor": 10},
    "LoseRequest": {"member": 0, "api": None},
    "LoseResponse": {"member": 0, "api": None},
    "Cut": {"member": 0, "lasts_ms": 1000, "during": None},
    "Failover": {"load_ms": 100},
    "FailCommit": {"member": 0, "error": "COORDINATOR_LOAD_IN_PROGRESS"},
    "RollingDeploy": {"step_ms": 10_000, "assignor": None, "protocol": None},
    "AddPartitions": {"topic": "", "count": 1},
    "DeleteTopic": {"topic": ""},
    "ExpireOffsets": {},
    "DeleteGroup": {},
    "FailWrite": {"member": 0},
    "SlowWrite": {"member": 0, "lasts_ms": 60_000},
}
HISTORY = {
    "members": 3, "topics": {"records": 6}, "minutes": 10, "events": (), "settings": {},
    "records_per_minute": 6, "processing_ms": (0, 1000), "outputs": {}, "static": False, "seed": 0,
}  # fmt: skip


def test_events_and_histories_have_their_defaults_and_leave_them_out_when_printed():
    assert {
        name: {f.name: getattr(kind(at_ms=7), f.name) for f in fields(kind) if f.name != "at_ms"}
        for name, kind in EVENTS.items()
    } == DEFAULTS
    assert {f.name: getattr(History(), f.name) for f in fields(History)} == HISTORY
    assert repr(History()) == "History()"
    assert repr(events.Crash(at_ms=0)) == "Crash(at_ms=0)"
    assert repr(events.Crash(5, 1, 3, "commit")) == (
        "Crash(at_ms=5, member=1, down_ms=3, during='commit')"
    )


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [("members", 1, 100), ("minutes", 1, 10_000), ("records_per_minute", 0, 60_000),
     ("processing_ms", 0, 3_600_000), ("seed", -(2**63), 2**63 - 1)],
)  # fmt: skip
def test_a_number_of_a_history_has_bounds(name, least, most):
    for value in (least, most):
        made = getattr(History(**{name: value}), name)
        assert made == ((value, value) if name == "processing_ms" else value)
    for value in (least - 1, most + 1, 1.5, "1"):
        with pytest.raises(ArgumentError, match=name):
            History(**{name: value})


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"topics": {}}, "topics must map topics to partition counts"),
        ({"topics": {"t": 0}}, "the partitions of t must be from 1"),
        ({"topics": {"t": 10_001}}, "the partitions of t"),
        ({"outputs": {"t": 0}}, "the partitions of t"),
        ({"outputs": 5}, "outputs must be a mapping"),
        ({"settings": 5}, "settings must be a mapping"),
        ({"events": ["Crash"]}, "events must contain events, not 'Crash'"),
        ({"static": 1}, "static must be true or false"),
        ({"processing_ms": (5, 4)}, "processing_ms"),
        ({"processing_ms": (1, 2, 3)}, "processing_ms must be a number or a pair"),
    ],
)
def test_other_conditions_are_refused_by_their_names(options, named):
    with pytest.raises(ArgumentError, match=named):
        History(**options)


def test_conditions_at_their_edges_are_taken():
    made = History(topics={"t": 10_000}, outputs=None, settings=None, processing_ms=(5, 5))
    assert (made.outputs, made.settings, made.processing_ms) == ({}, {}, (5, 5))


def drawn(**options):
    return [random_history(seed, **options) for seed in range(300)]


def test_a_history_is_drawn_from_all_of_its_options_and_nothing_else():
    found = drawn(members=(2, 4), topics={"t": 3}, minutes=2, most_events=3, longest_ms=400,
                  settings={"max.poll.records": [1, 7], "group.id": "g"}, records_per_minute=9,
                  processing_ms=(3, 8), outputs={"o": 2}, static=True)  # fmt: skip
    assert {one.members for one in found} == {2, 3, 4}
    assert {len(one.events) for one in found} == {0, 1, 2, 3}
    assert {one.settings["max.poll.records"] for one in found} == {1, 7}
    same = {(*one.topics.items(), one.minutes, one.settings["group.id"], one.records_per_minute,
             one.processing_ms, *one.outputs.items(), one.static) for one in found}  # fmt: skip
    assert same == {(("t", 3), 2, "g", 9, (3, 8), ("o", 2), True)}
    seeds = [one.seed for one in found]
    assert len(set(seeds)) == 300
    assert 0 <= min(seeds) < 2**27
    assert 2**32 - 2**27 < max(seeds) < 2**32


def test_each_field_of_an_event_is_drawn_from_its_whole_range():
    found = [
        event
        for one in drawn(members=2, topics={"t": 3, "u": 1}, minutes=1, longest_ms=400,
                         most_events=60)
        for event in one.events
    ]  # fmt: skip
    values = {}
    for event in found:
        for f in fields(event):
            values.setdefault(f.name, set()).add(getattr(event, f.name))
    times = {0, 100, 200, 300, 400}
    assert values.pop("at_ms") == set(range(0, 60_001, 100))
    assert values.pop("factor") == set(range(2, 62))
    assert values == {
        "member": {0, 1, 2},  # with the one that may join
        "topic": {"t", "u"},
        "count": {1, 2, 3},
        "down_ms": times, "pause_ms": times, "lasts_ms": times, "load_ms": times, "step_ms": times,
        "during": {None, "processing", "commit", "rebalance", "callback"},
        "api": {None, "OffsetCommit", "JoinGroup", "SyncGroup", "Heartbeat", "OffsetFetch",
                "LeaveGroup"},
        "error": {"COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR", "UNKNOWN_TOPIC_OR_PARTITION",
                  "GROUP_AUTHORIZATION_FAILED", "TOPIC_AUTHORIZATION_FAILED"},
        "assignor": {None, "cooperative-sticky", "sticky", "roundrobin"},
        "protocol": {None, "consumer", "classic"},
    }  # fmt: skip


def test_without_joins_only_the_first_members_are_concerned_and_without_kinds_nothing_happens():
    some = [e for one in drawn(members=2, events=["Crash", events.Cut]) for e in one.events]
    assert {type(event) for event in some} == {events.Crash, events.Cut}
    assert {event.member for event in some} == {0, 1}
    assert not [e for one in drawn(events=[]) for e in one.events]
    assert not [e for one in drawn(most_events=0) for e in one.events]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"members": (0, 2)}, "members"), ({"members": 101}, "members"),
        ({"minutes": 10_001}, "minutes"), ({"most_events": 1001}, "most_events"),
        ({"most_events": -1}, "most_events"), ({"records_per_minute": 60_001}, "records_per"),
        ({"processing_ms": 3_600_001}, "processing_ms"), ({"longest_ms": -1}, "longest_ms"),
        ({"topics": {}}, "topics"), ({"outputs": {"o": 0}}, "the partitions of o"),
        ({"static": 0}, "static"), ({"events": [5]}, "events: 5 is none of Crash"),
        ({"settings": 5}, "settings"),
    ],
)  # fmt: skip
def test_options_of_a_drawn_history_are_checked(options, named):
    with pytest.raises(ArgumentError, match=named):
        random_history(1, **options)
    with pytest.raises(ArgumentError, match="seed"):
        random_history(2**63)


def test_a_strategy_is_of_its_options_and_those_left_out_are_as_documented(monkeypatch):
    found = []
    monkeypatch.setattr(strategy, "checked_plan", lambda **options: found.append(options))
    documented = {
        "members": (1, 4), "topics": {"records": 6}, "minutes": 10, "events": None,
        "most_events": 8, "settings": None, "records_per_minute": (2, 10),
        "processing_ms": (0, 1000),
        "longest_ms": 60_000, "outputs": None, "static": False,
    }  # fmt: skip
    others = {
        "members": 2, "topics": {"t": 1}, "minutes": 3, "events": ["Crash"], "most_events": 4,
        "settings": {"group.id": "g"}, "records_per_minute": 5, "processing_ms": 2000,
        "longest_ms": 7000, "outputs": {"o": 1}, "static": True,
    }  # fmt: skip
    histories()
    histories(**others)
    assert found == [documented, others]


def test_a_profile_is_its_number_of_histories_without_a_deadline_and_other_settings():
    for name, count in (("quick", 100), ("thorough", 1000)):
        chosen = profile(name, database=None)
        assert (chosen.max_examples, chosen.deadline, chosen.database) == (count, None, None)
    assert profile("quick", max_examples=7).max_examples == 7
    with pytest.raises(ArgumentError, match="one of quick, thorough, not 'through'"):
        profile("through")


def test_a_record_takes_a_time_of_the_whole_range_and_the_same_each_time():
    records = [ConsumerRecord("t", p, n, 0, None, None) for p in range(3) for n in range(60)]
    took = [processing_time(5, record, 3, 6) for record in records]
    assert set(took) == {3, 4, 5, 6}
    assert took == [processing_time(5, record, 3, 6) for record in records]
    assert took != [processing_time(6, record, 3, 6) for record in records]
    assert {processing_time(5, record, 9, 9) for record in records} == {9}
    other = [processing_time(5, record._replace(topic="u"), 3, 6) for record in records]
    assert took != other
    assert took[:60] != took[60:120]


@pytest.mark.parametrize(
    ("ms", "shown"),
    [(0, "0:00.000"), (7, "0:00.007"), (59_999, "0:59.999"), (60_000, "1:00.000"),
     (754_321, "12:34.321"), (3_605_040, "60:05.040")],
)  # fmt: skip
def test_a_time_is_shown_in_minutes_and_seconds(ms, shown):
    assert clock(ms) == shown


def test_what_is_found_says_which_records_members_and_times():
    one, two = Work(4, 1000, 3000, "a"), Work(5, 2000, 61_500, "b")
    assert [
        repr(item)
        for item in (
            Lost("t", 1, 4, 6, 62_000, "a"), Lost("t", 1, 4, 4, None, "a"),
            Repeated("t", 1, 4, (one, two._replace(offset=4))), Overlap("t", 1, one, two),
            Stuck("t", 1, 4, 7, "a"), Stuck("t", 1, 4, 5, None),
            OutOfOrder("t", 1, 4, 6, 3000, "a"),
        )
    ] == [
        "t-1@4..6 never processed; a committed past it at 1:02.000",
        "t-1@4 never processed, but the group is past it",
        "t-1@4 processed 2 times: by a at 0:03.000, by b at 1:01.500",
        "t-1 in two hands: a @4 from 0:01.000 to 0:03.000, b @5 from 0:02.000 to 1:01.500",
        "t-1@4..6 waits in vain, owned by a",
        "t-1@4 waits in vain, owned by nobody",
        "t-1@4 first processed by a at 0:03.000, after @6",
    ]  # fmt: skip


def test_the_commits_of_a_run_are_in_order_and_of_its_topics_records():
    history = History(1, {"t": 1}, 1, records_per_minute=20, processing_ms=0)
    commits = history.run(Application).commits
    assert {type(one) for one in commits} == {Commit}
    assert [one.at_ms for one in commits] == sorted(one.at_ms for one in commits)
    assert [one.offsets["t", 0] for one in commits] == list(range(1, 21))
    assert {one.member for one in commits} == {"member-0"}


def test_a_history_that_has_not_run_needs_an_application():
    history = History(1, {"t": 1}, 1)
    for call in (history.html, history.trace):
        with pytest.raises(CoterieError, match="has not run yet; name the application"):
            call()
    history.run(Application)
    assert history.trace()
