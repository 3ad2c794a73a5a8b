"""Every run ends: its steps are bounded by the ops of the scenario, not by its times.

Tests count steps and read no clock. Without the limit most of these runs would never end.
"""

import importlib
import json

import pytest

from coterie.base.schedule import BULK, Schedule, TooManySteps
from coterie.designs import DESIGNS, ScenarioError, bounds, read_scenario, run
from coterie.designs.ledger import Ledger, Ledgers
from coterie.errors import CoterieError
from support.commandline import coterie
from support.designs.odd_scenarios import odd_scenario

IDLE_STEPS = 8_000  # in place of the real limit, which takes seconds to reach
TOPIC = {"at": 0, "op": "create_topic", "topic": "t", "replicas": [[0], [0]]}
START = {"at": 1000, "op": "start", "consumer": "c", "subscription": {"t": 1}}
COORDINATED = DESIGNS[1:]


def scenario(*events, until_ms, **consumer):
    settle = {"at": until_ms, "op": "settle", "point": 1}
    return {"config": {"brokers": [0], "consumer": consumer}, "events": [*events, settle]}


@pytest.fixture
def schedules(monkeypatch):
    """Lower the limit; return the schedules of all runs."""
    made = []

    def noting(most_steps):
        made.append(Schedule(most_steps))
        return made[-1]

    monkeypatch.setattr(bounds, "IDLE_STEPS", IDLE_STEPS)
    monkeypatch.setattr(importlib.import_module("coterie.designs.run"), "Schedule", noting)
    return made


def ending(checked, design):
    """Run a scenario; return the error's text, or nothing."""
    try:
        run(checked, design, timeline=False)
    except CoterieError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("first_seed", range(0, 80, 10))
def test_an_odd_scenario_runs_or_is_refused_in_one_line_within_its_limit(
    schedules, design, first_seed
):
    ended = 0
    for seed in range(first_seed, first_seed + 10):
        checked = read_scenario(odd_scenario(seed))
        assert "\n" not in ending(checked, design)
        limit = bounds.step_limit(checked)
        assert schedules[-1].most_steps == limit
        # The step that passes the limit may be a bulk one: of all offsets, or of all threads.
        assert schedules[-1].steps <= 2 * limit
        ended += 1
    assert ended == 10


@pytest.mark.parametrize("design", COORDINATED)
def test_idle_consumers_of_a_long_scenario_are_refused_at_the_op_that_is_not_reached(
    schedules, design
):
    """A heartbeat every few seconds, for 285,000 years."""
    given = scenario(TOPIC, START, until_ms=2**53)
    with pytest.raises(ScenarioError) as refused:
        run(given, design)
    (schedule,) = schedules
    assert str(refused.value).startswith(
        f"events[2]: {design} stopped at {schedule.now_ms} ms: the run takes more than "
    )
    assert schedule.now_ms > 1000


def test_frequent_commits_are_refused_but_a_long_time_without_any_is_simulated(schedules):
    often = scenario(TOPIC, START, {**TOPIC, "topic": "u", "at": 10**9}, until_ms=10**9)
    often["config"]["consumer"] = {"auto.commit.interval.ms": 1}
    with pytest.raises(ScenarioError, match=r"^events\[2\]: zookeeper-0.8 stopped at "):
        run(often)
    never = {"auto.commit.enable": "false"}
    ran = run(scenario(TOPIC, START, until_ms=2**53, **never))
    assert ran.points[0]["consumers"]["c"]["owner_nodes"] == ["t/0", "t/1"]


@pytest.mark.parametrize("end", ["close", "crash"])
@pytest.mark.parametrize("design", DESIGNS)
def test_consumers_that_have_ended_take_no_steps_however_long_a_scenario_is(schedules, design, end):
    events = TOPIC, START, {"at": 20_000, "op": end, "consumer": "c"}
    late = {**TOPIC, "topic": "u", "at": 2**52}
    ran = run(scenario(*events, late, until_ms=2**53), design)
    assert ran.points[0]["consumers"]["c"]["state"] == {"close": "closed"}.get(end, "crashed")


def test_tries_without_end_at_one_moment_are_refused(schedules):
    """A foreign owner makes every try fail; retries take no time but that until the claim."""
    owner = {"op": "znode_create", "path": "/consumers/group1/owners/t/0", "data": "x", "at": 1}
    retries = {"rebalance.max.retries": 2**31 - 1, "rebalance.backoff.ms": 0}
    with pytest.raises(ScenarioError, match=r"^events\[3\]: zookeeper-0.8 stopped at "):
        run(scenario(TOPIC, owner, START, until_ms=2**53, **retries))


@pytest.mark.parametrize("timeout_ms", [1, 2])
def test_heartbeats_are_at_least_a_millisecond_apart(schedules, timeout_ms):
    """A third of so short a session is no time at all: heartbeats would stop the clock."""
    session = {"zookeeper.session.timeout.ms": timeout_ms}
    until_ms = 5_000
    ran = run(scenario(TOPIC, START, until_ms=until_ms, **session), "coordinator-0.9")
    assert ran.costs["rebalances"] > 0
    assert ran.costs["requests"] <= until_ms
    assert ran.points[0]["at"] == until_ms


def test_the_limit_is_for_each_consumer_and_what_it_may_look_at_at_each_op():
    """Two consumers, five partitions, six ops."""
    events = [
        TOPIC,
        {"at": 1, "op": "add_partitions", "topic": "t", "replicas": [[0]] * 3},
        {**START, "consumer": "a"},
        {**START, "consumer": "b"},
        {"at": 1500, "op": "crash", "consumer": "a"},
    ]
    limit = bounds.step_limit(read_scenario(scenario(*events, until_ms=2000)))
    assert limit == bounds.IDLE_STEPS + bounds.STEPS_PER_PAIR * 2 * (6 + 5)


@pytest.mark.parametrize(
    ("at_ms", "place"), [(0, 1), (999, 1), (1000, 3), (1999, 3), (2000, 3), (2001, 3)]
)
def test_a_run_that_takes_too_long_names_the_first_op_after_it_or_else_the_last(at_ms, place):
    checked = read_scenario(scenario(TOPIC, START, {**START, "consumer": "d"}, until_ms=2000))
    schedule = Schedule()
    schedule.run_until(at_ms)
    refused = bounds.refusal(checked, "today", schedule, TooManySteps("too many"))
    assert str(refused) == f"events[{place}]: today stopped at {at_ms} ms: too many"


def test_the_limit_grows_with_what_happens_and_not_with_time():
    short = scenario(TOPIC, START, until_ms=2000)
    long = scenario(TOPIC, START, until_ms=2**53)
    assert bounds.step_limit(read_scenario(short)) == bounds.step_limit(read_scenario(long))
    more = [{**START, "consumer": f"c{number}"} for number in range(9)]
    grown = bounds.step_limit(read_scenario(scenario(TOPIC, *more, until_ms=2000)))
    assert grown > bounds.step_limit(read_scenario(short))


@pytest.mark.parametrize("design", DESIGNS)
def test_a_herd_takes_a_small_part_of_the_steps_that_it_may(schedules, monkeypatch, design):
    """Its rebalances alone, without what is allowed to idle consumers."""
    monkeypatch.setattr(bounds, "IDLE_STEPS", 0)
    count = 60
    topic = {**TOPIC, "replicas": [[0]] * count}
    herd = [{**START, "consumer": f"c{number}"} for number in range(count)]
    run(scenario(topic, *herd, until_ms=60_000), design, timeline=False)
    assert schedules[-1].steps < schedules[-1].most_steps / 3


def test_more_streams_than_threads_can_run_are_refused_with_their_place():
    begin = {**START, "subscription": {"t": 10_001}}
    with pytest.raises(ScenarioError) as refused:
        read_scenario(scenario(TOPIC, begin, until_ms=2000))
    place = "events[1].subscription.t"
    assert str(refused.value) == f"{place}: 10001 is not a whole number from 1 to 10000"
    begin = {"at": 1, "op": "start", "consumer": "c", "whitelist": "t", "streams": 2**31}
    with pytest.raises(ScenarioError, match=r"^events\[1\]\.streams: 2147483648 is not "):
        read_scenario(scenario(TOPIC, begin, until_ms=2000))


def test_a_foreign_registration_of_millions_of_streams_is_refused_in_one_line():
    data = '{"version":1,"subscription":{"t":2147483647},"pattern":"static"}'
    node = {"op": "znode_create", "path": "/consumers/group1/ids/x", "data": data, "at": 1}
    with pytest.raises(ScenarioError) as refused:
        run(scenario(TOPIC, node, START, until_ms=2000))
    assert str(refused.value) == (
        "events[3]: zookeeper-0.8 stopped at 1025 ms: "
        "a consumer has 2147483647 streams of a topic; 10000 at most"
    )


def test_work_on_many_items_counts_as_steps():
    schedule = Schedule(most_steps=10)
    schedule.spend(BULK * 8)  # a step, and eight more
    schedule.call_later(5, lambda: None)
    assert schedule.steps == 10
    with pytest.raises(TooManySteps):
        schedule.call_soon(lambda: None)


@pytest.mark.parametrize("design", DESIGNS)
def test_a_commit_costs_steps_for_its_partitions_also_if_no_offset_has_changed(schedules, design):
    many = {"at": 0, "op": "create_topic", "topic": "t", "replicas": [[0]] * 1600}
    commits = [{"at": at, "op": "commit", "consumer": "c"} for at in (50_000, 60_000)]
    for of_run in (commits[:1], commits):
        run(read_scenario(scenario(many, START, *of_run, until_ms=70_000)), design, timeline=False)
    once, twice = (schedule.steps for schedule in schedules)
    assert twice - once > 1600 // BULK


@pytest.mark.parametrize("form", ["compare", "run"])
def test_the_commands_say_what_cannot_be_simulated_in_one_line(monkeypatch, tmp_path, form):
    monkeypatch.setattr(bounds, "IDLE_STEPS", 1_000)
    given = scenario(TOPIC, START, until_ms=2**53)
    given["config"]["consumer"] = {"auto.commit.interval.ms": 1}
    given["events"].insert(2, {"at": 10**9, "op": "commit", "consumer": "c"})
    (tmp_path / "s.json").write_text(json.dumps(given))
    more = ["--out", "out"] if form == "run" else []
    ended = coterie("designs", form, "s.json", *more, cwd=tmp_path)
    assert ended.returncode == 1
    assert ended.stderr.startswith("coterie: s.json: events[2]: zookeeper-0.8 stopped at ")
    assert len(ended.stderr.splitlines()) == (2 if form == "run" else 1)
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").iterdir())


def test_a_ledger_says_the_same_of_all_consumers_at_once_as_of_each():
    """A point asks once for all of them: one pass over the partitions, not one a consumer."""
    ledger = Ledger()
    places = [("t", number) for number in range(6)]
    ledger.take("a", places[:4])
    ledger.take("b", places[2:])
    ledger.produce(places[3], 5)
    ledger.give("a", places[:1], commit=False)
    assert ledger.owned_by_all() == {name: ledger.owned_by(name) for name in "ab"}


def test_owners_are_counted_of_watched_partitions_alone_by_topic_and_number():
    """A point shows them in this order, in whichever order consumers subscribed."""
    ledger = Ledger()
    ledger.watch([("u", 1), ("u", 0)])
    ledger.watch([("t", 10), ("t", 9)])
    ledger.take("a", [("u", 0), ("v", 0)])
    ledger.take("b", [("u", 0), ("t", 10)])
    expected = [(("t", 9), 0), (("t", 10), 1), (("u", 0), 2), (("u", 1), 0)]
    assert list(ledger.owner_counts().items()) == expected


def test_a_ledger_notes_what_each_owner_consumes_commits_and_gives_up():
    """Without a commit, a consumer begins where the group began, or at the end."""
    notes = []
    ledger = Ledger(from_start=False, note=lambda *note: notes.append(note))
    place, other = ("t", 3), ("u", 0)
    ledger.produce(place, 4)
    ledger.take("a", [place, other])
    ledger.take("a", [place])  # it has it
    ledger.produce(place, 2)
    ledger.produce(place, 1)
    ledger.commit("a", [place, other])
    ledger.commit("a", [place])  # nothing new
    ledger.produce(place, 5)
    ledger.give("a", [place], commit=False)
    ledger.give("a", [place], commit=True)  # it is not its own any more
    ledger.take("b", [place])
    ledger.give("b", [place], commit=True)
    ledger.commit("b", [place])
    ledger.take("a", [place])
    assert notes == [
        ("owns", "a", *place),
        ("owns", "a", *other),
        ("consumed", "a", *place, 4, 5),
        ("consumed", "a", *place, 6, 6),
        ("committed", "a", *place, 7),
        ("committed", "a", *other, 0),
        ("consumed", "a", *place, 7, 11),
        ("gives_up", "a", *place),
        ("owns", "b", *place),
        ("consumed", "b", *place, 7, 11),
        ("committed", "b", *place, 12),
        ("gives_up", "b", *place),
        ("owns", "a", *place),
    ]
    assert ledger.ranges_of("a") == {place: [[4, 11]]}
    assert ledger.owned_by("a") == {place: 12, other: 0}


def test_a_note_of_a_ledger_comes_after_what_it_says():
    place, found = ("t", 0), []

    def note(kind, consumer, *_):
        owned, ranges = ledger.owned_by(consumer), ledger.ranges_of(consumer)
        found.append((kind, owned.get(place), ranges.get(place), ledger.committed.get(place)))

    ledger = Ledger(note=note)
    ledger.take("a", [place])
    ledger.produce(place, 3)
    ledger.commit("a", [place])
    ledger.give("a", [place], commit=False)
    assert found == [
        ("owns", 0, None, None),
        ("consumed", 3, [[0, 2]], None),
        ("committed", 3, [[0, 2]], 3),
        ("gives_up", None, [[0, 2]], 3),
    ]


def test_ranges_are_apart_where_messages_were_left_out_or_consumed_again():
    ledger, place = Ledger(), ("t", 0)
    ledger.take("a", [place])
    ledger.produce(place, 2)
    ledger.commit("a", [place])
    ledger.produce(place, 3)
    ledger.give("a", [place], commit=False)
    for _ in range(2):
        ledger.take("a", [place])
        ledger.give("a", [place], commit=False)
    ledger.take("b", [place])
    ledger.give("b", [place], commit=True)
    ledger.produce(place, 4)
    ledger.take("b", [place])
    ledger.take("a", [place])
    assert ledger.ranges_of("a") == {place: [[0, 4], [2, 4], [2, 8]]}
    assert ledger.ranges_of("b") == {place: [[2, 8]]}
    assert ledger.ranges_of("c") == {}


def test_messages_are_for_groups_that_come_later_too():
    notes = []
    ledgers = Ledgers(from_start=True, note=lambda *note: notes.append(note))
    ledgers.produce(("t", 0), 3)
    assert ledgers.open("g") is ledgers.open("g")
    ledgers.produce(("t", 0), 2)
    ledgers.open("h").take("a", [("t", 0)])
    ledgers.open("g").take("b", [("t", 0)])
    assert [note for note in notes if note[0] == "consumed"] == [
        ("consumed", "a", "t", 0, 0, 4),
        ("consumed", "b", "t", 0, 0, 4),
    ]
