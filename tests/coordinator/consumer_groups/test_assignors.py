"""The assignors alone: larger groups than other tests make, against the slow model of the rules."""

import random

import pytest
from coterie._core.coordinator.consumer.assignors import GroupSpec

from coterie import Batch, GroupCoordinator, run_trace
from coterie.consumer_groups import encode_topic_id
from coterie.coordinator.consumer_requests import derived_topic_id
from support.consumer_groups import assignors as model
from support.consumer_groups.image import id_order

SIZES = [(1, 1), (2, 3), (3, 1), (7, 5), (40, 9), (9, 40)]  # members, topics


def partitions_of(rows):
    """Of each member: topic id -> partitions, as the model has them."""
    return {member: {topic: set(numbers) for topic, numbers in parts}
            for member, parts in rows.items()}  # fmt: skip


@pytest.mark.parametrize("alike", [True, False])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("seed", range(5))
def test_each_assignment_is_that_of_the_model_and_the_next_starts_from_it(size, alike, seed):
    rng = random.Random(f"{size} {seed}")
    ids = {f"t{n}": rng.randbytes(16) for n in range(size[1])}
    topics = {name: (topic_id, [()] * rng.randint(1, 70)) for name, topic_id in ids.items()}
    counts = {topic_id: len(replicas) for topic_id, replicas in topics.values()}
    everything = tuple(sorted(topics))
    members = {f"m{n:03}": everything if alike else tuple(
        sorted(rng.sample(everything, rng.randint(1, len(everything))))) for n in range(size[0])
    }  # fmt: skip
    specs = {
        member: (None, sorted((ids[name] for name in names), key=id_order))
        for member, names in members.items()
    }
    group, previous = GroupSpec(topics, members), {}
    for _ in range(5):
        assignor = rng.choice(["range", "uniform", "uniform"])
        group.assign(assignor, alike)
        target = model.assign(assignor, specs, previous, counts, alike)
        assert partitions_of(group.rows()) == target
        if rng.random() < 0.8:
            group.replay()
            previous = target


def targets_of(coordinator, numbers):
    """Of each member of group g: topic name -> partitions that it shall have."""
    (group,) = coordinator.consumer_group_describe(["g"]).groups
    return {
        member.member_id: {
            numbers[row.topic]: {*row.partitions} for row in member.target_assignment
        }
        for member in group.members
    }


@pytest.mark.parametrize("behaviour", ["4.1", "4.1.2", "4.2", "4.4"])
@pytest.mark.parametrize(
    ("first", "second", "alike"),
    [("", "", True), ("x", "", False), ("", "x", False), ("x", "y", False), ("x", "x", False)],
)
def test_an_expression_makes_subscriptions_differ_before_it_is_resolved(
    behaviour, first, second, alike
):
    """ConsumerGroup.subscriptionType: only names, or only one expression, are alike."""
    pytest.importorskip("re2")
    coordinator = GroupCoordinator({"coterie.behaviour": behaviour, "coterie.tasks": "manual"})
    counts = {"t": 2, "u": 2}
    coordinator.set_topics(counts)
    ids = {name: derived_topic_id(name) for name in counts}
    fields = {"rebalance_timeout_ms": 60_000, "topic_partitions": [],
              "subscribed_topic_names": [*counts]}  # fmt: skip
    for member_id, regex in (("a", first), ("b", second)):
        coordinator.consumer_group_heartbeat(
            "g", member_id, 0, **fields, subscribed_topic_regex=regex
        )
    topics = sorted(ids.values(), key=id_order)
    every = {topic: {0, 1} for topic in topics}
    target = model.assign(
        "uniform",
        {member_id: (None, topics) for member_id in "ab"},
        {"a": every},
        dict.fromkeys(topics, 2),
        alike,
    )
    assert targets_of(coordinator, ids) == target


def test_topics_of_an_expression_that_only_the_log_has_make_subscriptions_differ():
    """ConsumerGroup.subscriptionType: each topic has one subscriber if all share an expression."""
    pytest.importorskip("re2")
    config, counts = {"coterie.behaviour": "4.1"}, {"t": 2, "u": 2}

    def joined(*members):
        coordinator = GroupCoordinator(config)
        coordinator.set_topics(counts)
        for member_id, expression in members:
            coordinator.consumer_group_heartbeat(
                "g", member_id, 0, rebalance_timeout_ms=60_000, topic_partitions=[],
                subscribed_topic_regex=expression,
            )  # fmt: skip
        return coordinator

    live = joined(("a", "t|u"), ("b", "t|u"))
    (left,) = [record for batch in joined(("a", "t")).log for record in batch.records
               if record[0][:2] == b"\0\x10"]  # fmt: skip
    loaded = GroupCoordinator(config, log=[*live.log, Batch(900, records=(left,))])
    ids = {name: derived_topic_id(name) for name in counts}
    previous = targets_of(live, ids)
    loaded.set_topics({"t": 5, "u": 2})
    loaded.advance_by(10_000)
    loaded.consumer_group_heartbeat("g", "a", 1)
    topics = sorted(ids.values(), key=id_order)
    each = dict(zip((ids["t"], ids["u"]), (5, 2), strict=True))
    members = {member_id: (None, topics) for member_id in "ab"}
    target = model.assign("uniform", members, previous, each, False)
    assert target != model.assign("uniform", members, previous, each, True)
    assert targets_of(loaded, ids) == target


def test_a_new_static_member_counts_as_one_in_its_first_assignment():
    """RangeAssignor: static members come first, by their instance ids."""
    coordinator = GroupCoordinator({"coterie.behaviour": "4.1"})
    coordinator.set_topics({"t": 6})
    fields = {"rebalance_timeout_ms": 60_000, "topic_partitions": [], "server_assignor": "range",
              "subscribed_topic_names": ["t"]}  # fmt: skip
    for member_id, instance in (("a", None), ("y", "j"), ("z", "i")):
        coordinator.consumer_group_heartbeat("g", member_id, 0, instance_id=instance, **fields)
    assert targets_of(coordinator, {"t": "t"}) == {
        "z": {"t": {0, 1}},
        "y": {"t": {2, 3}},
        "a": {"t": {4, 5}},
    }


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_a_topic_without_partitions_gives_none_until_it_has_some(assignor):
    """The describer has it (numPartitions 0, not -1), so the subscription is valid."""
    empty, other = (encode_topic_id(derived_topic_id(name)) for name in ("empty", "other"))
    header = {
        "format": "coterie-trace", "version": 2, "name": "t",
        "config": {"coterie.behaviour": "4.1"},
        "topics": [{"topic": "empty", "topic_id": empty, "partitions": 0},
                   {"topic": "other", "topic_id": other, "partitions": 2}],
    }  # fmt: skip
    beat = {
        "op": "consumer_group_heartbeat", "group_id": "g", "member_id": "m", "member_epoch": 0,
        "rebalance_timeout_ms": 1, "topic_partitions": [], "server_assignor": assignor,
        "subscribed_topic_names": ["empty", "other"],
    }  # fmt: skip
    grown = [{"topic": "empty", "topic_id": empty, "partitions": 3}]
    events = [
        {"at": 0, "id": 1, **beat},
        {"at": 1, "op": "metadata", "topics": grown},
        {"at": 2, "id": 2, **beat},
    ]
    answers = [line for line in run_trace([header, *events]) if line["event"] == "response"]
    assert answers[0]["assignment"] == [{"topic_id": other, "partitions": [0, 1]}]
    assert {row["topic_id"]: row["partitions"] for row in answers[1]["assignment"]} == {
        empty: [0, 1, 2], other: [0, 1]}  # fmt: skip
