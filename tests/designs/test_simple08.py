"""The low-level consumer of 0.8.2: golden requests, and what the rules say besides."""

import copy
import json

import pytest

from coterie.designs import ScenarioError, run, simple08
from coterie.designs.simple08 import NoLeader
from coterie.errors import ArgumentError, CoterieError
from support.golden_data import SHARED

FILES = sorted((SHARED / "golden" / "simple08").glob("*.json"))


def stripped(scenario):
    bare = copy.deepcopy(scenario)
    for step in bare["steps"]:
        step.pop("response", None)
    return bare


def scenario(*steps, brokers=(0, 1, 2), topics=None):
    """A scenario of steps without numbers: an event, or a request if it has an ``api``."""
    numbered = [
        {"step": at, "request": step} if "api" in step else {"step": at, **step}
        for at, step in enumerate(steps, 1)
    ]
    topics = {"t": [[0, 1]]} if topics is None else topics
    return {"config": {"brokers": list(brokers), "topics": topics}, "steps": numbered}


def responses(*steps, **config):
    played = simple08.run(scenario({"event": "started", "brokers": [0, 1, 2]}, *steps, **config))
    return [step["response"] for step in played if "request" in step]


def kill(broker):
    return {"event": "kill", "broker": broker}


def produce(count, codec="none"):
    return {"event": "produce", "topic": "t", "partition": 0, "count": count, "codec": codec}


def fetch(broker, offset, size=100_000):
    asked = {"api": "fetch", "broker": broker, "topic": "t", "partition": 0}
    return {**asked, "offset": offset, "fetch_size": size}


def latest(broker):
    asked = {"api": "offsets", "broker": broker, "topic": "t", "partition": 0}
    return {**asked, "time": -1, "max_offsets": 1}


def metadata(broker):
    return {"api": "metadata", "broker": broker, "topics": ["t"]}


def told_of(response):
    (partition,) = response["topics"][0]["partitions"]
    return [partition[name] for name in ("error", "leader", "replicas", "isr")]


SESSIONS_END = {"event": "sessions ended"}
BACK = {"event": "started", "brokers": [1]}


@pytest.mark.skipif(not FILES, reason="golden/simple08 is not beside this checkout")
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_request_is_answered_as_0_8_2_answered_it(path):
    golden = json.loads(path.read_text(encoding="utf-8"))
    assert simple08.run(stripped(golden)) == golden["steps"]


NAMES = {"solo": "orders", "t": "payments", "zip": "zipped", "nope": "missing", "g": "readers"}
BROKERS = {0: 4, 1: 7}  # as the topics: in the order of those that they stand for


def renamed(value, key=""):
    """The same scenario with other topics, groups and brokers."""
    if isinstance(value, dict):
        return {renamed_key(name): renamed(inner, name) for name, inner in value.items()}
    if isinstance(value, list):
        return [renamed(inner, key) for inner in value]
    if key in ("topic", "topics", "group"):
        return NAMES.get(value, BROKERS.get(value, value))
    return BROKERS.get(value, value) if key in IDS and type(value) is int else value


IDS = ("brokers", "broker", "leader", "replicas", "isr", "t", "solo", "zip")


def renamed_key(name):
    if name.startswith("/"):
        return "/".join(NAMES.get(part, part) for part in name.split("/"))
    return NAMES.get(name, name)


@pytest.mark.skipif(not FILES, reason="golden/simple08 is not beside this checkout")
@pytest.mark.parametrize("words", [None, "", "what there is now", "state of the offsets"])
def test_answers_follow_from_the_steps_not_from_their_words_or_names(words):
    """Docs gone, or such as say nothing; topics, group and brokers of other names."""
    for path in FILES:
        golden = renamed(json.loads(path.read_text(encoding="utf-8")))
        golden["name"] = "another"
        for step in golden["steps"]:
            step.pop("doc", None)
            if words is not None:
                step["doc"] = words
        assert simple08.run(stripped(golden)) == golden["steps"]


def state(response):
    (node,) = response.values()
    return [node[name] for name in ("leader", "isr", "leader_epoch", "controller_epoch")]


def test_a_controller_that_lives_takes_the_dead_out_of_the_in_sync_set():
    """Kafka's source: onBrokerFailure, removeReplicaFromIsr; each is an epoch of its own."""
    nodes = {"api": "znodes"}
    found = responses(
        *(kill(1), SESSIONS_END, metadata(2), nodes, kill(2), SESSIONS_END, nodes),
        *({"event": "started", "brokers": [1, 2]}, nodes),
        topics={"t": [[2, 1]]},
    )
    assert told_of(found[0]) == [9, 2, [2], [2]]
    assert state(found[1]) == [2, [2], 1, 1]
    assert state(found[2]) == [-1, [], 2, 1]  # nobody is left, and the node says so
    assert state(found[3])[0] in (1, 2)
    assert state(found[3])[2:] == [3, 1]


def test_a_partition_that_was_without_leader_gets_an_epoch_with_its_old_one():
    nodes = {"api": "znodes"}
    found = responses(
        *(kill(0), SESSIONS_END, metadata(1), nodes, {"event": "started", "brokers": [0]}, nodes),
        topics={"t": [[0]]},
    )
    assert told_of(found[0]) == [5, None, [], []]
    assert state(found[1]) == [0, [0], 0, 1]  # its controller has died with it
    assert state(found[2]) == [0, [0], 1, 2]


def test_without_a_replica_in_sync_nobody_leads_and_the_state_node_names_the_dead_one():
    """Error 5, no leader."""
    nodes = {"api": "znodes"}
    found = responses(kill(1), SESSIONS_END, kill(0), SESSIONS_END, metadata(2), nodes, fetch(2, 0))
    assert told_of(found[0]) == [5, None, [], []]
    assert found[1]["/brokers/topics/t/partitions/0/state"]["leader"] == 0
    assert found[2]["error"] == 3


def test_a_replica_that_is_behind_and_back_first_leads_and_offsets_are_used_again():
    """An unclean election."""
    found = responses(
        *(produce(4), kill(1), SESSIONS_END, produce(3), latest(0), kill(0), SESSIONS_END, BACK),
        *(metadata(1), latest(1), fetch(1, 6), produce(1), fetch(1, 4)),
        *({"event": "started", "brokers": [0]}, metadata(1), fetch(0, 4)),
        *(kill(1), SESSIONS_END, latest(0)),
    )
    assert found[0]["offsets"] == [7]
    assert told_of(found[1]) == [9, 1, [1], [1]]
    assert found[2]["offsets"] == [4]
    assert (found[3]["error"], found[3]["high_watermark"]) == (1, -1)
    assert found[4]["offsets"] == [4]
    assert told_of(found[5]) == [0, 1, [0, 1], [1]]
    assert found[6]["error"] == 6
    assert found[7]["offsets"] == [5]  # the old leader was cut to the new one's log


def test_the_new_leader_is_the_first_live_one_of_the_in_sync_replicas_in_replica_order():
    found = responses(
        *(kill(0), SESSIONS_END, metadata(1), {"event": "started", "brokers": [0]}),
        *(kill(1), SESSIONS_END, metadata(2)),
        topics={"t": [[0, 1, 2]]},
    )
    assert [told_of(one)[1] for one in found] == [1, 0]


def test_a_compressed_set_that_does_not_fit_gives_no_message():
    assert responses(produce(9, "gzip"), fetch(0, 3, size=20))[0]["offsets"] == []


def test_the_reader_finds_the_new_leader_and_goes_on_at_its_offset():
    cluster = simple08.Cluster({"t": [[0, 1]]}, [0, 1, 2])
    cluster.start([0, 1, 2])
    cluster.produce("t", 0, 5)
    reader = simple08.SimpleReader(cluster, "t", 0, seeds=[2])
    assert (reader.read(), reader.leader, reader.replicas) == ([0, 1, 2, 3, 4], 0, [0, 1])
    cluster.kill(0)
    with pytest.raises(NoLeader, match="t-0: no broker leads it"):
        reader.read()  # metadata still names the dead one
    cluster.settle()
    cluster.produce("t", 0, 2)
    assert (reader.read(), reader.leader) == ([5, 6], 1)


def test_the_reader_skips_what_comes_before_its_offset_in_a_compressed_set():
    cluster = simple08.Cluster({"t": [[0]]}, [0])
    cluster.start([0])
    cluster.produce("t", 0, 5, "gzip")
    reader = simple08.SimpleReader(cluster, "t", 0, seeds=[0], offset=3)
    assert (reader.read(), reader.read()) == ([3, 4], [])


def test_what_runs_scenarios_of_groups_says_what_plays_this_kind():
    with pytest.raises(ScenarioError, match=r"coterie\.designs\.simple08\.run plays it$"):
        run({"format": "coterie-simple08", "config": {}, "steps": []})


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (scenario({"event": "explode", "broker": 0}), "step 1: event 'explode' is not known"),
        (scenario(kill(7)), r"step 1: broker 7 is not one of \[0, 1, 2\]"),
        (scenario({"api": "join", "broker": 0}), "step 1: api 'join' is not known"),
        (
            scenario({"api": "fetch", "broker": 0}),
            "step 1: fetch: topic must be a string, not None",
        ),
        (scenario(topics={"t": [[0, 0]]}), "topic t: replicas must be different ids"),
        (scenario(topics={"t": [[9]]}), "topic t: replicas must be different ids"),
        (scenario(topics={"t": [[]]}), "config: topic t: a partition has no replicas"),
        (scenario(topics={"t": [0]}), "config: topic t: replicas must be a list, not 0"),
        (scenario(topics={"a\nb": [[0]]}), r"config: a topic must be the name of a topic, not 'a"),
        (scenario(brokers=[0, 0]), "config: brokers must be different ids, not"),
        (scenario(produce(1, "zip")), "step 1: codec must be one of none, gzip, snappy, lz4"),
        (scenario(produce(10**9)), "step 1: count must be from 0 to 1000000, not"),
        (scenario({**produce(1), "topic": "z"}), "step 1: nothing to produce to: topic 'z'"),
        ([], r"scenario must be an object, not \[\]"),
        (scenario(produce(-1)), "step 1: produce needs a topic, a partition and a count"),
        ({"steps": []}, "config must be an object, not None"),
    ],
)
def test_a_bad_step_is_named_in_one_line(bad, said):
    with pytest.raises(ArgumentError, match=said) as told:
        simple08.run(bad)
    assert "\n" not in str(told.value)


def three():
    cluster = simple08.Cluster({"t": [[0, 1]]}, [0, 1, 2])
    cluster.start([0, 1, 2])
    return cluster


@pytest.mark.parametrize(("time_ms", "offsets"), [(10**12 - 1, []), (10**12, [3, 0])])
def test_offsets_before_a_time_are_those_of_a_log_that_was_written_before_10_12_ms(
    time_ms, offsets
):
    """A scenario's log has one segment: all of it was written before, or none."""
    cluster = three()
    cluster.produce("t", 0, 3)
    fields = {"topic": "t", "partition": 0, "time": time_ms, "max_offsets": 9}
    assert simple08.SimpleConsumer(cluster, 0).ask("offsets", **fields)["offsets"] == offsets


FETCH = {"topic": "t", "partition": 0, "offset": 0, "fetch_size": 9}
ASKED = [
    ("zzz", {}, "api 'zzz' is not known: metadata, offsets, fetch"),
    ("offset_fetch", {}, "api 'offset_fetch' is not known: metadata, offsets, fetch"),
    ("metadata", {}, "metadata: topics must be a list, not None"),
    ("metadata", {"topics": "t"}, "metadata: topics must be a list, not 't'"),
    ("fetch", {}, "fetch: topic must be a string, not None"),
    ("fetch", FETCH | {"offset": "0"}, "fetch: offset must be an integer, not '0'"),
    ("fetch", FETCH | {"topic": 5}, "fetch: topic must be a string, not 5"),
    ("fetch", FETCH | {"max": 1}, "fetch: there is no field 'max'"),
]


@pytest.mark.parametrize(("api", "fields", "said"), ASKED, ids=[said for *_, said in ASKED])
def test_a_request_that_is_none_is_said_in_one_line(api, fields, said):
    with pytest.raises(ArgumentError) as refused:
        simple08.SimpleConsumer(three(), 0).ask(api, **fields)
    assert str(refused.value) == said


def test_a_dead_broker_is_an_error_of_ours_that_names_it():
    cluster = three()
    cluster.kill(1)
    with pytest.raises(CoterieError) as gone:
        simple08.SimpleConsumer(cluster, 1).ask("metadata", topics=[])
    assert type(gone.value) is simple08.Gone
    assert str(gone.value) == "broker 1 is dead: it takes no connection"


MADE = {
    "a replica that is no broker": (
        lambda: simple08.Cluster({"a": [[5]]}, [0]),
        "topic a: replicas must be different ids of [0], not [5]",
    ),
    "a replica twice": (
        lambda: simple08.Cluster({"a": [[0, 0]]}, [0]),
        "topic a: replicas must be different ids of [0], not [0, 0]",
    ),
    "no replica": (lambda: simple08.Cluster({"a": [[]]}, [0]), "topic a: a partition has no"),
    "a broker below 0": (lambda: simple08.Cluster({}, [-1]), "brokers must be from 0 to "),
    "kill": (lambda: three().kill(77), "broker 77 is not one of [0, 1, 2]"),
    "start": (lambda: three().start([0, 77]), "brokers must be different ids of [0, 1, 2], not"),
    "consumer": (lambda: simple08.SimpleConsumer(three(), 3), "broker 3 is not one of [0, 1, 2]"),
    "cluster": (lambda: simple08.SimpleConsumer([], 3), "cluster must be a Cluster, not []"),
    "seeds": (
        lambda: simple08.SimpleReader(three(), "t", 0, seeds=[4]),
        "seeds must be different ids of [0, 1, 2], not [4]",
    ),
}


@pytest.mark.parametrize(("call", "said"), MADE.values(), ids=MADE)
def test_a_cluster_checks_its_brokers_and_replicas_and_who_is_named_later(call, said):
    with pytest.raises(ArgumentError) as refused:
        call()
    assert str(refused.value).startswith(said)
