"""Designs called with what they do not take: one line says so, in an error of ours."""

import copy

import pytest

from coterie import ArgumentError, CoterieError, designs
from coterie.designs import ScenarioError, Times, compare, read_scenario, run, simple08
from coterie.errors import shown
from support.hostile import ARRAYS, OF_NUMPY_1, PLAIN, Walk, check, walk_object

pytestmark = OF_NUMPY_1

VALUES = (*PLAIN, *ARRAYS)
EVENTS = [
    {"at": 0, "op": "create_topic", "topic": "t", "replicas": [[0]]},
    {"at": 1, "op": "start", "consumer": "c", "subscription": {"t": 1}, "config": {}, "as": "d"},
    {"at": 2, "op": "produce", "topic": "t", "partition": 0, "count": 3},
    {"at": 3, "op": "znode_create", "path": "/a", "data": "x", "ephemeral": True},
    {"at": 4, "op": "coordinator_stop", "group": "group1", "moment": ""},
    {"at": 5, "op": "start", "consumer": "e", "whitelist": "t.*", "streams": 2, "async": True},
    {"at": 6, "op": "wait", "ms": 5},
    {"at": 9000, "op": "settle", "point": 1},
]
SCENARIO = {
    "format": "coterie-zk08", "version": 1, "name": "n", "doc": "d",
    "config": {"brokers": [0], "brokers_up": True, "broker": {}, "consumer": {},
               "zookeeper.tick.ms": 500},
    "events": EVENTS,
}  # fmt: skip
GOOD = {
    "scenario": lambda: SCENARIO, "value": lambda: SCENARIO, "name": "n", "doc": "d", "ops": (),
    "config": {}, "costs": {}, "points": [], "timeline": True, "counted": {}, "runs": {},
    "at_ms": 5, "kind": "owns", "consumer": "c", "details": (),
    "Comparison.scenario": lambda: read_scenario(SCENARIO),
}  # fmt: skip
CALLED = [
    name
    for name in designs.__all__
    if callable(getattr(designs, name)) and name != "ScenarioError"  # an error takes anything
]


@pytest.mark.parametrize("name", CALLED)
def test_what_a_name_of_the_designs_does_not_take_it_refuses_with_an_error_of_ours(name):
    walk = Walk(GOOD, VALUES)
    walk.call(name, getattr(designs, name), (CoterieError,))
    check(walk)


def places(value, path=()):
    """Yield the way to each value of a scenario."""
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    for key, held in inner:
        if isinstance(held, dict | list):
            yield from places(held, (*path, key))
        else:
            yield (*path, key)


def put(scenario, path, value):
    *way, last = path
    held = scenario
    for key in way:
        held = held[key]
    held[last] = value
    return scenario


SIMPLE = {
    "format": "coterie-simple08",
    "config": {"brokers": [0], "topics": {"t": [[0]]}},
    "steps": [
        {"step": 1, "event": "started", "brokers": [0]},
        {"step": 2, "event": "produce", "topic": "t", "partition": 0, "count": 3, "codec": "none"},
        {"step": 3, "request": {"api": "metadata", "broker": 0, "topics": ["t"]}},
        {"step": 4, "request": {"api": "consumer_metadata", "broker": 0, "group": "g"}},
    ],
}


def a_cluster():
    cluster = simple08.Cluster({"t": [[0]]}, [0])
    cluster.start([0])
    cluster.produce("t", 0, 3)
    return cluster


GOOD_SIMPLE = {
    "scenario": SIMPLE, "cluster": lambda: a_cluster(), "broker": 0, "topic": "t", "partition": 0,
    "number": 0, "count": 1, "topics": {"t": [[0]]}, "brokers": [0], "seeds": [0],
    "api": "metadata",
}  # fmt: skip
CALLED_SIMPLE = [  # an error takes anything
    name
    for name in simple08.__all__
    if callable(getattr(simple08, name)) and name not in ("Gone", "NoLeader")
]


@pytest.mark.parametrize("name", CALLED_SIMPLE)
def test_what_a_name_of_the_simple_consumer_does_not_take_it_refuses(name):
    walk = Walk(GOOD_SIMPLE, VALUES)
    walk.call(name, getattr(simple08, name), (CoterieError,))
    check(walk)


@pytest.mark.parametrize(
    "make",
    [
        a_cluster,
        lambda: simple08.SimpleConsumer(a_cluster(), 0),
        lambda: simple08.SimpleReader(a_cluster(), "t", 0, seeds=[0]),
    ],
)
def test_brokers_and_clients_are_asked_with_whatever_there_is(make):
    walk = Walk(GOOD_SIMPLE, VALUES)
    walk_object(walk, make, (CoterieError,))
    check(walk, {"ask"})  # needs fields: those below


REQUESTS = {
    "metadata": {"topics": ["t"]},
    "offsets": {"topic": "t", "partition": 0, "time": -1, "max_offsets": 1},
    "fetch": {"topic": "t", "partition": 0, "offset": 0, "fetch_size": 99},
}


@pytest.mark.parametrize(("api", "field"), [(a, f) for a, one in REQUESTS.items() for f in one])
def test_a_field_of_a_request_that_does_not_fit_is_refused(api, field):
    walk = Walk(GOOD_SIMPLE, VALUES)
    consumer = simple08.SimpleConsumer(a_cluster(), 0)
    assert consumer.ask(api, **REQUESTS[api])
    for value in VALUES:
        fields = REQUESTS[api] | {field: value()}
        walk.run("ask", (CoterieError,), lambda f=fields: consumer.ask(api, **f))
    check(walk)


@pytest.mark.parametrize("path", [path for path in places(SIMPLE) if path], ids=str)
def test_what_a_scenario_of_the_simple_consumer_does_not_take_is_refused(path):
    walk = Walk(GOOD_SIMPLE, VALUES)
    for value in VALUES:
        scenario = put(copy.deepcopy(SIMPLE), path, value())
        walk.run("run", (CoterieError,), lambda s=scenario: simple08.run(s))
    check(walk)


def test_a_comparison_is_asked_with_whatever_there_is():
    walk = Walk(GOOD, VALUES)
    walk_object(walk, lambda: compare(SCENARIO), (CoterieError,))
    check(walk)


@pytest.mark.parametrize("path", [path for path in places(SCENARIO) if path], ids=str)
def test_what_a_scenario_does_not_take_is_refused_with_its_place(path):
    walk = Walk(GOOD, VALUES)
    for value in VALUES:
        scenario = put(copy.deepcopy(SCENARIO), path, value())
        walk.run("read_scenario", (ScenarioError,), lambda s=scenario: read_scenario(s))
    check(walk)


@pytest.mark.parametrize("key", [5, None, 10**5000, ("a",)], ids=shown)
@pytest.mark.parametrize("path", [("config", "consumer"), ("events", 1), ("events", 1, "config")])
def test_a_name_that_is_no_text_is_refused_in_a_scenario(path, key):
    with pytest.raises(ScenarioError):
        read_scenario(put(copy.deepcopy(SCENARIO), (*path, key), "x"))


WRONG = {
    "a design of a list": (lambda: run(SCENARIO, [1]), "design: [1] is none of zookeeper-0.8, "),
    "times": (lambda: run(SCENARIO, times=5), "times must be a Times, not 5"),
    "a time": (lambda: Times(claim_ms="x"), "claim_ms must be an integer, not 'x'"),
    "a time before": (lambda: Times(watch_ms=-1), "watch_ms must be from 0 to "),
    "timeline": (lambda: run(SCENARIO, timeline="no"), "timeline must be true or false, not 'no'"),
    "designs": (lambda: compare(SCENARIO, 5), "designs must be the names of designs, not 5"),
    "one design's name": (
        lambda: compare(SCENARIO, "today"),
        "designs must be the names of designs, not 'today'",
    ),
    "designs of lists": (lambda: compare(SCENARIO, [[]]), "design: [] is none of "),
    "nothing": (lambda: run(), "run() missing"),
    "too much": (lambda: compare(SCENARIO, speed=1), "speed"),
}


@pytest.mark.parametrize(("call", "message"), WRONG.values(), ids=WRONG)
def test_a_wrong_argument_of_a_design_is_named(call, message):
    with pytest.raises(ArgumentError) as refused:
        call()
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)
