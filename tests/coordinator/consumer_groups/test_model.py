"""The core decides as a slow model does that is written from the rules, whatever is asked."""

import base64
import hashlib
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie import CoterieError, Error, GroupCoordinator, TraceError, load_trace, run_trace
from support.consumer_groups import coordinator as model
from support.consumer_groups import golden
from support.examples import examples

pytest.importorskip("re2")
pytest.importorskip("xxhash")

MEMBERS = ("a", "b", "c", "é", "\U0001f600", "\uff5e")  # UTF-16 has the last two in this order
TOPICS = ("t", "u", "v")
BEHAVIOURS = (*golden.BEHAVIOURS, *golden.NEWER)


def topic_id(name):
    raw = hashlib.sha256(name.encode()).digest()[:16]
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def topic(name, count):
    return {"topic": name, "topic_id": topic_id(name), "partitions": count}


owned = st.lists(
    st.builds(lambda name, numbers: {"topic_id": topic_id(name), "partitions": sorted(numbers)},
              st.sampled_from(TOPICS), st.sets(st.integers(0, 3), max_size=4)),
    max_size=2, unique_by=lambda row: row["topic_id"],
)  # fmt: skip
heartbeats = st.fixed_dictionaries(
    {"op": st.just("consumer_group_heartbeat"), "group_id": st.sampled_from(["g", "h"]),
     "member_id": st.sampled_from(MEMBERS), "member_epoch": st.integers(-2, 6)},
    optional={"instance_id": st.sampled_from(["i", "j"]),
              "rebalance_timeout_ms": st.sampled_from([0, 5000, 60000]),
              "subscribed_topic_names": st.lists(st.sampled_from(TOPICS), max_size=3),
              "subscribed_topic_regex": st.sampled_from(["", "t|u", "[uv]"]),
              "server_assignor": st.sampled_from(["uniform", "range"]),
              "topic_partitions": owned},
)  # fmt: skip
joins = st.builds(
    lambda group, member, names, instance: {
        "op": "consumer_group_heartbeat", "group_id": group, "member_id": member,
        "member_epoch": 0, "rebalance_timeout_ms": 20000, "subscribed_topic_names": names,
        "topic_partitions": [], **({"instance_id": instance} if instance else {})},
    st.just("g"), st.sampled_from(MEMBERS), st.lists(st.sampled_from(TOPICS), max_size=3),
    st.sampled_from([None, None, "i"]),
)  # fmt: skip
regex_joins = st.builds(
    lambda member, regex, instance, assignor: {
        "op": "consumer_group_heartbeat", "group_id": "g", "member_id": member,
        "member_epoch": 0, "rebalance_timeout_ms": 20000, "subscribed_topic_regex": regex,
        "topic_partitions": [], "instance_id": instance, "server_assignor": assignor},
    st.sampled_from(MEMBERS), st.sampled_from(["t|u", "[uv]", ".*"]),
    st.sampled_from([None, None, "i", "j"]), st.sampled_from([None, "range"]),
)  # fmt: skip
offsets = st.lists(
    st.builds(lambda name, number, offset, named: {
                  "topic": name, "partition": number, "offset": offset,
                  **({"topic_id": topic_id(name + named)} if named is not None else {})},
              st.sampled_from(TOPICS), st.integers(0, 2), st.integers(0, 99),
              st.sampled_from([None, "", "", " of before"])),
    min_size=1, max_size=2,
)  # fmt: skip
partitions = st.lists(
    st.builds(lambda name, number: {"topic": name, "partition": number},
              st.sampled_from(TOPICS), st.integers(0, 2)),
    min_size=1, max_size=2, unique_by=lambda row: (row["topic"], row["partition"]),
)  # fmt: skip
others = st.one_of(
    st.builds(lambda g, m, e, v, o: {"op": "offset_commit", "group_id": g, "member_id": m,
                                     "generation_id": e, "version": v, "offsets": o},
              st.sampled_from(["g", "h", "s"]), st.sampled_from(["", *MEMBERS]),
              st.integers(-1, 4), st.sampled_from([8, 9, 10]), offsets),
    st.builds(lambda g, p, m, e, v, o: {
                  "op": "txn_offset_commit", "group_id": g, "producer_id": p, "producer_epoch": 0,
                  "member_id": m, "generation_id": e, "version": v, "offsets": o},
              st.sampled_from(["g", "s"]), st.integers(1, 2), st.sampled_from(["", "a", "b"]),
              st.integers(-1, 3), st.sampled_from([5, 6]), offsets),
    st.builds(lambda p, committed: {"op": "end_txn", "producer_id": p, "producer_epoch": 0,
                                    "committed": committed},
              st.integers(1, 2), st.booleans()),
    st.builds(lambda g, stable: {"op": "offset_fetch", "group_id": g, "require_stable": stable},
              st.sampled_from(["g", "h", "s"]), st.booleans()),
    st.builds(lambda g, rows: {"op": "offset_delete", "group_id": g, "partitions": rows},
              st.sampled_from(["g", "s"]), partitions),
    st.builds(lambda rows: {"op": "delete_partitions", "partitions": rows}, partitions),
    st.just({"op": "hold_commits"}), st.just({"op": "release_commits"}),
    st.builds(lambda g: {"op": "delete_groups", "group_ids": g},
              st.lists(st.sampled_from(["g", "h", "s"]), unique=True)),
    st.just({"op": "list_groups"}),
    st.just({"op": "consumer_group_describe", "group_ids": ["g", "h"]}),
    st.just({"op": "failover"}), st.just({"op": "cleanup"}),
    st.builds(lambda error: {"op": "fail_append", "error": error, "count": 1},
              st.sampled_from(["NOT_ENOUGH_REPLICAS", "NOT_LEADER_OR_FOLLOWER"])),
    st.builds(lambda rack: {"op": "metadata", "brokers": [{"id": 0, "rack": rack}]},
              st.sampled_from(["r", "s"])),
    st.builds(lambda n, c: {"op": "metadata", "topics": [topic(n, c)]},
              st.sampled_from(TOPICS), st.integers(1, 5)),
    st.builds(lambda n: {"op": "metadata", "delete_topics": [n]}, st.sampled_from(TOPICS)),
    st.builds(lambda interval, timeout: {"op": "group_config", "group_id": "g", "config": {
                  "consumer.heartbeat.interval.ms": interval,
                  "consumer.assignment.interval.ms": interval,
                  "consumer.session.timeout.ms": timeout}},
              st.sampled_from([1, 6000, 20000]), st.sampled_from([20000, 50000, 90000])),
)  # fmt: skip


configs = st.fixed_dictionaries(
    {"offsets.topic.num.partitions": st.just(1)},
    optional={"group.consumer.assignors": st.just(["range"]),
              "group.consumer.assignment.interval.ms": st.sampled_from([0, 5000]),
              "group.consumer.max.size": st.just(3),
              "offsets.retention.minutes": st.just(1), "coterie.cleanup": st.just("periodic"),
              "offsets.retention.check.interval.ms": st.just(30000)},
)  # fmt: skip


def trace_of(events, config):
    """Number the events, each some time after the one before."""
    header = {"format": "coterie-trace", "version": 2, "name": "random", "config": config,
              "topics": [topic("t", 4), topic("u", 3)]}  # fmt: skip
    at, lines = 0, [header]
    asks = ("heartbeat", "commit", "fetch", "groups", "describe", "offset_delete")
    for number, (event, later) in enumerate(events):
        at += later
        request = {"id": number} if event["op"].endswith(asks) else {}
        lines.append({"at": at, **event, **request})
    return [json.dumps(line) for line in lines]


@pytest.mark.parametrize("behaviour", BEHAVIOURS)
@settings(max_examples=examples(50))
@given(st.lists(st.tuples(st.one_of(joins, regex_joins, heartbeats, others),
                          st.sampled_from([0, 0, 100, 9000, 50000])), max_size=40),
       configs)  # fmt: skip
def test_the_core_answers_as_the_model_does(behaviour, events, config):
    lines = trace_of(events, config | {"coterie.behaviour": behaviour})
    done = [line for line in run_trace(lines) if line["event"] != "transition"]
    assert golden.by_kind(done) == golden.by_kind(model.run(lines))  # it has no classic groups


OUTPUTS = [
    *[(behaviour, name, golden.path_of(name, behaviour))
      for behaviour in golden.BEHAVIOURS for name in golden.names()],
    *[("4.1", name, golden.path_of(name))
      for folder in ("random-mixed", "differences") for name in golden.names_in(folder)],
    *golden.newer(),
]  # fmt: skip


def of_classic_groups(line):
    """Whether a line of a trace is a request that the model does not have."""
    return json.loads(line).get("op") in ("join_group", "sync_group", "leave_group", "heartbeat")


@pytest.mark.parametrize(
    ("behaviour", "name", "path"), OUTPUTS[::12],
    ids=[f"{row[0]} {row[1]}" for row in OUTPUTS[::12]]
)  # fmt: skip
def test_the_model_answers_as_kafka_does(behaviour, name, path):
    lines = golden.trace(name)
    if any(map(of_classic_groups, lines)):
        return
    known = [line for line in golden.read(path) if '"event":"transition"' not in line]
    done = model.run(lines, {"coterie.behaviour": behaviour})
    assert golden.by_kind(done) == golden.by_kind(known)


@pytest.mark.parametrize(
    ("field", "value"),
    [("member_epoch", 2**31), ("member_epoch", "1"), ("member_id", 5), ("group_id", b"g"),
     ("subscribed_topic_names", "t"), ("subscribed_topic_names", [1]),
     ("topic_partitions", [{"topic_id": "no", "partitions": []}]),
     ("topic_partitions", [{"topic_id": topic_id("t"), "partitions": ["0"]}]),
     ("topic_partitions", {"t": 1}), ("version", 2**15), ("rebalance_timeout_ms", 1.5),
     ("instance_id", 3), ("server_assignor", 3)],
)  # fmt: skip
def test_a_field_of_another_type_is_refused_by_its_name(field, value):
    coordinator = GroupCoordinator({"coterie.behaviour": "4.1"})
    arguments = {"group_id": "g", "member_id": "m", "member_epoch": 0} | {field: value}
    with pytest.raises(CoterieError, match=f"{field}|topic_id|partition"):
        coordinator.consumer_group_heartbeat(**arguments)
    header = {"format": "coterie-trace", "version": 2, "config": {"coterie.behaviour": "4.1"}}
    event = {"at": 0, "op": "consumer_group_heartbeat", "id": 1, **arguments}
    if not isinstance(value, bytes):
        with pytest.raises(TraceError, match="line 2"):
            load_trace([header, event])


def test_a_coordinator_before_4_1_has_no_consumer_groups():
    with pytest.raises(CoterieError, match="consumer groups need"):
        GroupCoordinator().consumer_group_describe(["g"])


def test_the_methods_give_a_member_its_partitions():
    coordinator = GroupCoordinator({"coterie.behaviour": "4.1"})
    coordinator.set_topics({"orders": 3})
    joined = coordinator.consumer_group_heartbeat(
        "g", "m", 0, rebalance_timeout_ms=60000, subscribed_topic_names=["orders"],
        topic_partitions=[],
    )  # fmt: skip
    assert joined.error is Error.NONE
    assert [row.partitions for row in joined.assignment] == [(0, 1, 2)]
    (group,) = coordinator.consumer_group_describe(["g"]).groups
    assert (group.state, group.group_epoch) == ("Stable", 1)
    assert group.members[0].assignment[0].topic == "orders"
    (listed,) = coordinator.list_groups(types=["Consumer"]).groups
    assert (listed.group_id, listed.type) == ("g", "consumer")
    assert coordinator.consumer_group_heartbeat("g", "m", -1).member_epoch == -1
    change = [e for e in coordinator.events if type(e).__name__ == "ConsumerGroupChange"][-1]
    assert (change.state, change.members) == ("Empty", 0)
