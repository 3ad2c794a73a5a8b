"""What an op does is what docs/designs.md says of it, under every design that it says it of."""

import itertools

import pytest

from coterie.designs import DESIGNS, consumer_protocol, coordinator09_simulation, run, today
from coterie.designs.coordinator09_simulation import POINTS, Player
from coterie.designs.ops import MOMENTS
from support.designs.scenes08 import produce, settle, start, topic

COORDINATED = DESIGNS[1:]


def scenario(*events, brokers=(0, 1, 2), **config):
    events = [{"at": 0, **one} for one in events] + [settle(400_000)]
    return {"config": {"brokers": list(brokers), **config}, "events": events}


@pytest.fixture
def stopped(monkeypatch):
    """When brokers were stopped."""
    found = []
    clusters = (
        coordinator09_simulation.CoordinatorSimulation,
        today.TodaySimulation,
        consumer_protocol.ConsumerProtocolSimulation,
    )
    for cluster in clusters:
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
    in_x, in_y = ({"group": f"g{name}", "subscription": {name: 1}} for name in "xy")
    ran = run(
        scenario(
            *(topic("x", [0]), topic("y", [0])),
            *(start("x1", 1000, **in_x), start("y1", 1000, **in_y)),
            *(stop("gx", moment), start("y2", 200_000, **in_y)),
            start("x2", 300_000, **in_x),
        ),
        design,
    )
    (at_ms,) = stopped
    assert 300_000 <= at_ms < 400_000
    assert ran.points[0]["partitions_without_consumer"] == []


@pytest.mark.parametrize("order", list(itertools.permutations(range(5), 2)), ids=str)
@pytest.mark.parametrize("design", COORDINATED)
def test_stops_of_one_group_come_in_the_order_of_the_scenario(monkeypatch, design, order):
    """Each at its own moment: the first in the next rebalance, the second in one after it."""
    boundaries = []
    dies = Player.dies

    def noting(self, broker, boundary, group):
        stops = dies(self, broker, boundary, group)
        if stops:
            boundaries.append(boundary)
        return stops

    monkeypatch.setattr(Player, "dies", noting)
    stops = [stop("group1", MOMENTS[number]) for number in order]
    later = start("b", 200_000), start("c", 300_000)
    run(scenario(topic("t", [0]), start("a", 1000), *stops, *later), design)
    assert boundaries == [POINTS[number + 1] for number in order]


@pytest.mark.parametrize("design", COORDINATED)
def test_stops_of_one_group_each_take_a_rebalance(stopped, design):
    """Its next one, and the one after that."""
    stops = [stop("group1", MOMENTS[3])] * 2
    later = start("b", 200_000), start("c", 300_000)
    run(scenario(topic("t", [0]), start("a", 1000), *stops, *later), design)
    first, second = stopped
    assert 200_000 <= first < second


@pytest.mark.parametrize("design", COORDINATED)
def test_of_several_stops_of_a_group_the_first_one_comes_first(stopped, design):
    late, early = (stop("group1", moment) for moment in (MOMENTS[3], MOMENTS[0]))
    first = []
    for stops in ([late, early], [late], [early]):
        stopped.clear()
        run(scenario(topic("t", [0]), start("a", 1000), *stops, start("b", 200_000)), design)
        first.append(stopped[0])
    if design == "consumer-protocol":  # a join writes its epoch and the target in one batch
        assert first[0] == first[1] == first[2]
    else:
        assert first[0] == first[1] > first[2]


@pytest.mark.parametrize("design", DESIGNS)
def test_a_topic_is_deleted_only_where_brokers_delete_topics(design):
    delete = {"at": 100_000, "op": "delete_topic", "topic": "t"}
    given = topic("t", [0]), start("a", 1000)
    never = run(scenario(*given), design)
    kept = run(scenario(*given, delete), design)
    gone = run(scenario(*given, delete, broker={"delete.topic.enable": "true"}), design)
    for cost in ("rebalances", "unowned_seconds", "shared_seconds"):
        assert kept.costs[cost] == never.costs[cost]
    for ran in (never, kept):
        assert not [one for one in ran.timeline if one.kind == "gives_up"]
    assert gone.costs != kept.costs


@pytest.mark.parametrize(("reset", "first"), [("smallest", 0), ("largest", 3), (None, 3)])
@pytest.mark.parametrize("design", DESIGNS)
def test_a_group_without_offsets_begins_where_auto_offset_reset_says(design, reset, first):
    given = topic("t", [0]), produce(0, 3, at=50_000), start("a", 100_000)
    settings = {} if reset is None else {"auto.offset.reset": reset}
    ran = run(scenario(*given, produce(0, 2, at=300_000), consumer=settings), design)
    assert ran.points[0]["consumers"]["a"]["consumed"] == {"t/0": [[first, 4]]}


@pytest.mark.parametrize("design", DESIGNS)
def test_messages_to_a_partition_whose_replicas_are_down_are_refused_and_counted(design):
    stopped = {"at": 100_000, "op": "broker_stop", "broker": 2}
    back = {"at": 200_000, "op": "broker_start", "broker": 2}
    ran = run(
        scenario(
            *(topic("t", [2], [2, 1]), start("a", 1000), produce(0, 5, at=50_000), stopped),
            *(
                produce(0, 5, at=150_000),
                produce(1, 5, at=150_000),
                back,
                produce(0, 5, at=300_000),
            ),
        ),
        design,
    )
    assert ran.counted["refused"] == 5
    (point,) = ran.points
    assert point["consumers"]["a"]["consumed"] == {"t/0": [[0, 9]], "t/1": [[0, 4]]}


@pytest.mark.parametrize("design", COORDINATED)
def test_a_point_lists_consumers_and_partitions_in_order_with_what_each_has_consumed(design):
    """In groups h and g; of the first, one is cut off, so another has taken its partitions."""
    more = {"subscription": {"u": 1, "t": 1}}
    events = [
        *(topic("u", [0]), topic("t", *[[0]] * 11)),
        *(start("b", 1_000, group="h", **more), start("a", 2_000, group="g", **more)),
        *(produce(number, 1, at=50_000) for number in (10, 9)),
        {"at": 50_000, "op": "produce", "topic": "u", "partition": 0, "count": 1},
        {"at": 50_000, "op": "zk_cut", "consumer": "b"},
        *(start("d", 60_000, group="h", **more), start("c", 61_000, group="h", **more)),
        {"at": 200_000, "op": "crash", "consumer": "d"},
        {"at": 200_000, "op": "close", "consumer": "a"},
    ]
    (point,) = run(scenario(*events, settle(200_000)) | {}, design).points[:1]
    names = [*(f"t/{number}" for number in range(11)), "u/0"]
    assert list(point["consumers"]) == ["a", "b", "c", "d"]
    states = {name: one["state"] for name, one in point["consumers"].items()}
    assert states == {"a": "closed", "b": "running", "c": "running", "d": "crashed"}
    consumer = point["consumers"]["b"]
    assert list(consumer["next_offsets"]) == names
    assert list(consumer["consumed"].items()) == [
        (name, [[0, 0]]) for name in ("t/9", "t/10", "u/0")
    ]
    assert consumer["next_offsets"] == {name: int(name in consumer["consumed"]) for name in names}
    assert consumer["generation"] >= 1
    assert consumer["in_group"]
    several = point["partitions_that_several_believe_theirs"]
    of_c = sorted(point["consumers"]["c"]["next_offsets"])
    assert several == {f"h {name}": ["b", "c"] for name in of_c}
    assert [place.split()[1] for place in several] == sorted(
        of_c, key=lambda name: (name[0], int(name[2:]))
    )
    unowned = point["partitions_without_consumer"]
    assert unowned == []  # nobody of g subscribes, and b believes that it owns those of h


@pytest.mark.parametrize("design", COORDINATED)
def test_partitions_of_a_crashed_consumer_have_no_consumer_for_a_time(design):
    given = topic("u", [0]), topic("t", [0], [0]), start("a", 1_000, subscription={"t": 1, "u": 1})
    late = start("b", 100_000, subscription={"t": 1})
    crash = {"at": 150_000, "op": "crash", "consumer": "a"}
    (point, *_) = run(scenario(*given, late, crash, settle(150_000)), design).points
    owned = [f"group1 {name}" for name in sorted(point["consumers"]["b"]["next_offsets"])]
    places = [f"group1 t/{number}" for number in range(2)]
    assert point["partitions_without_consumer"] == [one for one in places if one not in owned]
    assert len(owned) == 1
