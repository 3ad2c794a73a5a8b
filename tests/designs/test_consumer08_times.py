"""The 0.8.2 consumer on the clock, what is counted of it, and the order of the state at a point."""

import json

import pytest

from coterie import ArgumentError
from coterie.designs import Times, read_scenario
from coterie.designs.consumer08_simulation import ZooKeeperSimulation
from support.designs.scenes08 import node, owned, played, produce, settle, since, start, topic

TIMES = Times(delivery_ms=21, claim_ms=40, start_gap_ms=7, watch_ms=33, reconnect_ms=430)
OWNERS = "/consumers/group1/owners"


def times_of(ran, kind, consumer=None):
    of_kind = (one for one in ran.timeline if one.kind == kind)
    return [one.at_ms for one in of_kind if consumer in (None, one.consumer)]


def test_consumers_of_one_moment_start_one_after_another_and_claim_after_a_time():
    ran = played(
        topic("t", (0,), at=0),
        *(start(name, at=1) for name in "acb"),
        start("d", at=9_500),
        settle(20_000),
        times=TIMES,
    )
    assert times_of(ran, "started") == [1, 8, 15, 9_500]
    began = 1 + TIMES.watch_ms
    assert times_of(ran, "rebalance_began", "a")[0] == began
    assert times_of(ran, "owns", "a")[0] == began + TIMES.claim_ms
    assert times_of(ran, "rebalance_ended", "a")[0] == began + TIMES.claim_ms
    assert times_of(ran, "event", "a")[-1] == 9_500 + TIMES.delivery_ms


@pytest.mark.parametrize(
    ("settings", "pause_ms"),
    [({"rebalance.backoff.ms": 1_700}, 1_700), ({"rebalance.backoff.ms": 0}, 0)],
)
def test_each_failed_try_is_counted_with_its_conflicts_and_followed_by_a_pause(settings, pause_ms):
    """Another owns one of two partitions: what was claimed is given back."""
    ran = played(
        topic("t", (0,), (0,)),
        node(f"{OWNERS}/t/1", "foreign"),
        start("c", at=3_000),
        settle(60_000),
        {"op": "znode_delete", "path": f"{OWNERS}/t/1"},
        {"op": "touch_topic", "topic": "t"},
        settle(90_000, 2),
        consumer={"rebalance.max.retries": 3, **settings},
        times=TIMES,
    )
    assert since(ran.points[0], "c") == {
        "rebalances": 1, "failed_rebalances": 1, "no_broker_rebalances": 0, "watch_events": {}
    }  # fmt: skip
    assert owned(ran.points[0]) == {"c": []}
    assert ran.points[0]["consumers"]["c"]["state"] == "start_failed"
    began, ended = times_of(ran, "rebalance_began")[0], times_of(ran, "rebalance_ended")[0]
    assert (began, ended - began) == (3_033, 3 * (TIMES.claim_ms + pause_ms))
    assert [one.details for one in ran.timeline if one.kind == "rebalance_ended"] == [
        *((False,), (True,)),
    ]
    counted = {"rebalances": 2, "failed_rebalances": 1, "tries": 4, "conflicts": 3, "refused": 0}
    assert {name: ran.counted[name] for name in counted} == counted


def test_without_a_broker_nothing_is_claimed_until_one_comes():
    ran = played(
        topic("t", (0,)),
        start("c"),
        settle(20_000),
        {"op": "broker_start", "broker": 0},
        settle(40_000, 2),
        brokers_up=False,
    )
    first, second = (since(point, "c") for point in ran.points)
    assert (first["rebalances"], first["no_broker_rebalances"]) == (1, 1)
    assert (second["rebalances"], second["no_broker_rebalances"]) == (1, 0)
    assert second["watch_events"] == {"brokers_children": 1}
    assert [owned(point) for point in ran.points] == [{"c": []}, {"c": ["t/0"]}]


def test_counts_are_of_all_consumers_that_ran_and_begin_anew_for_one_of_the_same_name():
    ran = played(
        topic("t", (0,)),
        start("c"),
        settle(20_000),
        {"op": "touch_topic", "topic": "t"},
        settle(30_000, 2),
        {"op": "close", "consumer": "c"},
        start("c", at=40_000),
        settle(60_000, 3),
    )
    counts = [since(point, "c") for point in ran.points]
    assert [one["rebalances"] for one in counts] == [1, 1, 1]
    assert [one["watch_events"] for one in counts] == [{}, {"topic_data": 1}, {}]
    assert ran.costs["rebalances"] == ran.counted["tries"] == 3
    assert ran.costs["watch_events"] == 1


def test_offsets_are_committed_at_each_interval_if_they_have_changed():
    ran = played(
        topic("t", (0,), (0,), at=0),
        start("c", at=1_050),
        *(produce(1, 2, at=at_ms) for at_ms in (3_000, 9_000, 9_100, 22_000)),
        {"op": "touch_topic", "topic": "t", "at": 30_000},
        settle(90_000),
        consumer={"auto.commit.interval.ms": 4_000},
    )
    found = [(one.at_ms, *one.details) for one in ran.timeline if one.kind == "committed"]
    assert [one for one in found if one[2] == 1] == [
        (5_050, "t", 1, 2),
        (9_050, "t", 1, 4),
        (13_050, "t", 1, 6),
        (25_050, "t", 1, 8),
    ]


def test_a_point_lists_everything_in_order():
    """Consumers, partitions and offsets by name and number, whatever came first."""
    more = {"subscription": {"u": 1, "t": 1}}
    ran = played(
        topic("u", (0,)),
        topic("t", *[(0,)] * 11),
        start("b", group="h", **more),
        start("a", group="g", **more),
        *({"op": "commit", "consumer": name, "at": 30_000} for name in "ba"),
        *(produce(number, 1) for number in (10, 9)),
        {"op": "produce", "topic": "u", "partition": 0, "count": 1},
        *({"op": "zk_cut", "consumer": name} for name in "ba"),
        start("d", at=60_000, group="h", **more),
        start("c", at=61_000, group="h", **more),
        settle(90_000),
        *({"op": "crash", "consumer": name} for name in "dc"),
        settle(120_000, 2),
        consumer={"offsets.storage": "kafka", "dual.commit.enabled": "false"},
    )
    first, second = ran.points
    assert list(first["consumers"]) == ["a", "b", "c", "d"]
    consumer = first["consumers"]["a"]
    names = [f"t/{number}" for number in range(11)] + ["u/0"]
    assert list(consumer["next_offsets"]) == names
    assert list(consumer["consumed"]) == ["t/9", "t/10", "u/0"]
    assert first["consumers"]["c"]["owner_nodes"] == sorted([*names[:6], "u/0"])
    assert list(first["kafka_offsets"]) == [f"{group} {name}" for group in "gh" for name in names]
    assert first["kafka_offsets"]["g t/9"] == 0
    several = first["partitions_that_several_believe_theirs"]
    assert list(several) == sorted(f"h {name}" for name in names)
    assert (several["h t/0"], several["h t/10"]) == (["b", "c"], ["b", "d"])
    assert first["partitions_without_owner_node"] == []
    assert second["partitions_without_owner_node"] == []


def test_a_partition_of_a_filters_topic_is_without_owner_but_not_one_of_the_offsets_topic():
    ran = played(
        *(topic(name, (0,)) for name in ("t", "s")),
        node(f"{OWNERS}/s/0", "foreign"),
        start("f", whitelist=".*"),
        settle(20_000),
        {"op": "znode_delete", "path": f"{OWNERS}/s/0"},
        settle(40_000, 2),
        consumer={"offsets.storage": "kafka"},
    )
    assert ran.points[0]["partitions_without_owner_node"] == ["group1 t/0"]
    assert ran.points[1]["partitions_without_owner_node"] == ["group1 s/0", "group1 t/0"]


def test_a_consumer_registers_with_the_time_of_the_clock():
    events = [
        {"at": 0, "op": "create_topic", "topic": "t", "replicas": [[0]]},
        {"at": 12_345, "op": "start", "consumer": "c", "subscription": {"t": 3}},
        {"at": 30_000, "op": "settle", "point": 1},
    ]
    simulation = ZooKeeperSimulation(read_scenario({"events": events}), Times())
    (point,) = simulation.run()
    path = "/consumers/group1/ids/group1_c"
    registered = json.loads(simulation.zookeeper.tree.get(path))
    assert registered["timestamp"] == "12345"
    assert point["at"] == 30_000
    assert point["znodes"][path] == {
        "data": {"version": 1, "subscription": {"t": 3}, "pattern": "static"},
        "session_of": "c",
    }


@pytest.mark.parametrize("is_dual", [True, False])
def test_requests_are_fetches_and_those_to_the_offset_manager(is_dual):
    """A fetch for the partition and one for each message, a read of its offset, three commits."""
    ran = played(
        topic("t", (0,)),
        start("c", at=2_000),
        *(produce(0, 1, at=9_000 + at) for at in range(2)),
        *({"op": "commit", "consumer": "c", "at": 10_000 + at} for at in range(2)),
        {"op": "close", "consumer": "c", "at": 20_000},
        settle(30_000),
        consumer={"offsets.storage": "kafka", "dual.commit.enabled": is_dual},
    )
    assert ("/consumers/group1/offsets/t/0" in ran.points[0]["znodes"]) == is_dual
    assert ran.costs["requests"] == (1 + 1 + 2) + 1 + 3
    assert ran.points[0]["kafka_offsets"] == {"group1 t/0": 2}


def test_a_consumer_without_partitions_sends_the_offset_manager_no_request():
    ran = played(
        topic("t", (0,)),
        start("c", at=2_000, subscription={"absent": 1}),
        settle(30_000),
        consumer={"offsets.storage": "kafka"},
    )
    assert ran.points[0]["consumers"]["c"]["state"] == "running"
    assert ran.costs["requests"] == 0


@pytest.mark.parametrize("name", Times.__slots__)
def test_a_delay_may_be_none_and_as_long_as_a_scenario(name):
    for ms in (0, 2**53):
        assert getattr(Times(**{name: ms}), name) == ms
    for ms in (-1, 2**53 + 1):
        with pytest.raises(ArgumentError, match=f"{name} must be from 0 to "):
            Times(**{name: ms})
