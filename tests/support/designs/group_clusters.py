"""Clusters of the designs with a group coordinator: settled, checked, and shaken at random."""

from support.limited import limited

GROUPS = ("group1", "group2")
SETTLED_MS = 200_000


def settled(simulation, consumers=3, partitions=6, groups=GROUPS[:1], brokers=(0, 1, 2)):
    """A cluster of a design (its class) whose groups have settled."""
    cluster = simulation(brokers, schedule=limited())
    cluster.set_topic("t", partitions)
    for group in groups:
        for number in range(consumers):
            cluster.start_consumer(f"{group}-{number}", ["t"], group_id=group)
    settle(cluster)
    return cluster


def settle(cluster, ms=SETTLED_MS):
    cluster.run_until(cluster.schedule.now_ms + ms)


def check(cluster, groups=GROUPS[:1]):
    """One assignment for each group, complete and without two owners."""
    for group in groups:
        living = [one for one in cluster.consumers.values() if one.group_id == group and one.alive]
        owned = [place for one in living for place in one.places()]
        every = {(t, n) for one in living for t in one.topics for n in range(cluster.counts(t))}
        assert sorted(owned) == sorted(every)
        assert all(one.member.stable for one in living)
        owners = cluster.ledgers[group].owners
        assert {place: len(owners[place]) for place in every} == dict.fromkeys(every, 1)


def shake(cluster, chance, session_timeouts_ms):
    """Let 30 random things happen, and then make all brokers and connections well again."""
    for number in range(30):
        happen(cluster, chance, number, session_timeouts_ms)
        cluster.run_until(cluster.schedule.now_ms + chance.choice([0, 7, 900, 8000, 60_000]))
    for broker in cluster.broker_ids:
        cluster.start_broker(broker)
    for name in cluster.consumers:
        cluster.heal(name)


def happen(cluster, chance, number, session_timeouts_ms):
    """One random thing."""
    living = [name for name, one in cluster.consumers.items() if one.alive]
    what = chance.choice(["start", "close", "crash", "cut", "heal", "stop", "back", "grow"])
    if what == "start":
        timeout_ms = chance.choice(session_timeouts_ms)
        cluster.start_consumer(
            f"n{number}", ["t"], group_id=chance.choice(GROUPS), session_timeout_ms=timeout_ms
        )
    elif what in ("close", "crash") and len(living) > 2:
        getattr(cluster.consumers[chance.choice(living)], what)()
    elif what in ("cut", "heal"):
        getattr(cluster, what)(chance.choice(living))
    elif what in ("stop", "back"):
        do = cluster.stop_broker if what == "stop" else cluster.start_broker
        do(chance.choice(cluster.broker_ids))
    elif what == "grow":
        cluster.set_topic("t", cluster.counts("t") + 1)
