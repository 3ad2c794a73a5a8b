"""Small cases of the 0.9 design: a settled group, something that makes it rebalance, deaths."""

from coterie.designs.coordinator09_simulation import CoordinatorSimulation
from support.limited import limited

SETTLED_MS = 200_000
TRIGGERS = ("topic grows", "consumer joins", "consumer crashes", "consumer closes")


class Deaths:
    """Kills the coordinator at boundaries: each item is a number to count to, or a name."""

    def __init__(self, *items):
        self.items = list(items)
        self.count = 0
        self.died_at = []

    def __call__(self, broker, boundary, group):
        if not self.items:
            return False
        self.count += 1
        if self.items[0] not in (self.count, boundary):
            if boundary == "ready":  # the rebalance is over
                self.items = []
            return False
        self.items.pop(0)
        self.count = 0
        self.died_at.append((broker, boundary))
        return True


def settled(consumers, topics, brokers=3, **more):
    """A cluster with a group that has settled; topics have two and one partitions."""
    cluster = CoordinatorSimulation(range(brokers), schedule=limited(), **more)
    names = ["a", "b"][:topics]
    for size, topic in zip((2, 1), names, strict=False):
        cluster.set_topic(topic, size)
    for number in range(1, consumers + 1):
        cluster.start_consumer(f"c{number}", names)
    cluster.run_until(100_000)
    check(cluster)
    return cluster


def trigger(cluster, what):
    if what == "topic grows":
        cluster.set_topic("a", 4)
    elif what == "consumer joins":
        cluster.start_consumer("new", cluster.consumers["c1"].topics)
    elif what == "consumer crashes":
        cluster.consumers["c1"].crash()
    else:
        cluster.consumers["c1"].close()


def settle(cluster):
    cluster.run_until(cluster.schedule.now_ms + SETTLED_MS)


def check(cluster, group="group1"):
    """One assignment, complete, without two owners; each generation above the one before."""
    stored = cluster.store.groups[group]
    living = {name: one for name, one in cluster.consumers.items() if one.alive}
    assert {one.state.value for one in living.values()} <= {"Part of a group"}
    assert {one.id for one in living.values()} == {*stored.members}
    for one in living.values():
        assert one.generation_id == stored.generation_id
        assert one.partitions == stored.members[one.id].partitions
        assert one.fetching
    held = [place for one in living.values() for place in one.partitions]
    wanted = {
        (topic, number)
        for one in living.values()
        for topic in one.topics
        for number in range(cluster.store.topics.get(topic, 0))
    }
    assert sorted(held) == sorted(wanted)
    places = cluster.owners(group)
    assert all(places[place] == 1 for place in wanted)
    written = [int(one.detail) for one in cluster.logged if one.text == "wrote generation"]
    assert written == sorted({*written})
    for name in cluster.consumers:
        seen = [
            one for one in cluster.logged if (one.source, one.text) == (name, "Part of a group")
        ]
        assert [int(one.detail) for one in seen] == sorted(int(one.detail) for one in seen)
