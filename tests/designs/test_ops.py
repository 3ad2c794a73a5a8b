"""What an op does is what docs/designs.md says of it, under every design that it says it of."""

import pytest

from coterie.designs import DESIGNS, coordinator09, run, today
from coterie.designs.scenario import MOMENTS

COORDINATED = ("coordinator-0.9", "today")


def start(at, name, topic="t", **more):
    return {"at": at, "op": "start", "consumer": name, "subscription": {topic: 1}, **more}


def scenario(*events, brokers=(0, 1, 2), **config):
    events = [*events, {"at": 400_000, "op": "settle", "point": 1}]
    return {"config": {"brokers": list(brokers), **config}, "events": events}


def topic(name, *replicas):
    return {
        "at": 0,
        "op": "create_topic",
        "topic": name,
        "replicas": [list(one) for one in replicas],
    }


@pytest.fixture
def stopped(monkeypatch):
    """When brokers were stopped."""
    found = []
    for cluster in (coordinator09.Cluster, today.Cluster):
        stop = cluster.stop_broker

        def noting(self, *broker, stop=stop, **more):
            found.append(self.schedule.now_ms)
            stop(self, *broker, **more)

        monkeypatch.setattr(cluster, "stop_broker", noting)
    return found


def stop(group, moment):
    return {"at": 100_000, "op": "coordinator_stop", "group": group, "moment": moment}


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("design", COORDINATED)
def test_a_stop_waits_for_a_rebalance_of_its_own_group(stopped, design, moment):
    """Only gy has one before 300,000."""
    ran = run(
        scenario(
            *(topic("x", [0]), topic("y", [0])),
            *(start(1000, "x1", "x", group="gx"), start(1000, "y1", "y", group="gy")),
            *(stop("gx", moment), start(200_000, "y2", "y", group="gy")),
            start(300_000, "x2", "x", group="gx"),
        ),
        design,
    )
    (at_ms,) = stopped
    assert 300_000 <= at_ms < 400_000
    assert ran.points[0]["partitions_without_consumer"] == []


@pytest.mark.parametrize("design", COORDINATED)
def test_stops_of_one_group_each_take_a_rebalance(stopped, design):
    """Its next one, and the one after that."""
    stops = [stop("group1", MOMENTS[3])] * 2
    later = start(200_000, "b"), start(300_000, "c")
    run(scenario(topic("t", [0]), start(1000, "a"), *stops, *later), design)
    first, second = stopped
    assert 200_000 <= first < second


@pytest.mark.parametrize("design", DESIGNS)
def test_a_topic_is_deleted_only_where_brokers_delete_topics(design):
    delete = {"at": 100_000, "op": "delete_topic", "topic": "t"}
    given = topic("t", [0]), start(1000, "a")
    never = run(scenario(*given), design)
    kept = run(scenario(*given, delete), design)
    gone = run(scenario(*given, delete, broker={"delete.topic.enable": "true"}), design)
    for cost in ("rebalances", "unowned_seconds", "shared_seconds"):
        assert kept.costs[cost] == never.costs[cost]
    for ran in (never, kept):
        assert not [one for one in ran.timeline if one.kind == "gives_up"]
    assert gone.costs != kept.costs


@pytest.mark.parametrize("design", DESIGNS)
def test_messages_to_a_partition_whose_replicas_are_down_are_refused_and_counted(design):
    def produce(at, partition):
        return {"at": at, "op": "produce", "topic": "t", "partition": partition, "count": 5}

    stopped = {"at": 100_000, "op": "broker_stop", "broker": 2}
    back = {"at": 200_000, "op": "broker_start", "broker": 2}
    ran = run(
        scenario(
            *(topic("t", [2], [2, 1]), start(1000, "a"), produce(50_000, 0), stopped),
            *(produce(150_000, 0), produce(150_000, 1), back, produce(300_000, 0)),
        ),
        design,
    )
    assert ran.counted["refused"] == 5
    (point,) = ran.points
    assert point["consumers"]["a"]["consumed"] == {"t/0": [[0, 9]], "t/1": [[0, 4]]}
