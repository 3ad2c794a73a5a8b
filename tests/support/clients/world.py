"""A client's module, a cluster behind it, and what a program with it sees.

``by_the_server`` and ``by_the_simulation`` run a program: a function of a :class:`World`.
"""

import importlib
import time

from coterie.server import Broker
from coterie.testing import Cluster, virtual_clients
from coterie.values import Error

TOPIC, RECORDS = "orders", 4
STEP_S, LAST_S = 0.02, 20.0
CONFIG = {"group.initial.rebalance.delay.ms": 0, "group.min.session.timeout.ms": 100}
MEMBERS = ("a", "b")


class World:
    """What has happened; a subclass knows the library."""

    def __init__(self, module, servers, fail):
        self.module, self.servers, self.fail = module, servers, fail
        self.events = []

    def note(self, *what):
        self.events.append(what)

    def tried(self, what, call, *args, **named):
        """Note what a call returns or raises, and return it."""
        try:
            found = call(*args, **named)
        except Exception as failure:
            self.note(what, "raised", *self.described(failure))
        else:
            self.note(what, self.shown(found))
            return found

    def until(self, fact, *consumers):
        """Poll until a fact holds; return the messages."""
        found, end_s = [], time.monotonic() + LAST_S
        while not fact(found):
            if time.monotonic() > end_s:
                raise AssertionError(f"it never came: {self.events}")
            for consumer in consumers:
                found += self.polled(consumer)
        return found

    def settled(self, **consumers):
        """Poll until each consumer has so many partitions: pairs of it and their number."""
        self.until(
            lambda _: all(len(one.assignment()) == size for one, size in consumers.values()),
            *(one for one, _ in consumers.values()),
        )


def by_the_server(kind, name, script):
    with Broker(CONFIG | {"offsets.topic.num.partitions": 4}, topics={TOPIC: RECORDS}) as broker:
        world = kind(
            importlib.import_module(name),
            broker.bootstrap_servers,
            lambda _, error: broker.fail("OffsetCommit", error=error),
        )
        script(world)
    return world.events


def by_the_simulation(kind, name, script):
    cluster = Cluster({TOPIC: RECORDS}, CONFIG, interval_ms=None)

    def fail(member, error):
        cluster.network.fail(member, "offset_commit", Error[error])

    with virtual_clients(cluster):
        world = kind(importlib.import_module(name), "nowhere:9092", fail)
        script(world)
    return world.events


def by_member(events, *, counted=False):
    """The events of each consumer.

    Left out: assignments that add nothing, a commit of the same offsets as the one before it, and
    a rebalance that gives back what it took.
    ``counted``: of lists the length counts, as of cooperative rebalances.
    """
    found = {}
    for event in events:
        if event[1:2] in (("on_assign",), ("on_revoke",), ("assigned",)) and event[-1] == []:
            continue
        if counted and isinstance(event[-1], list):
            event = (*event[:-1], len(event[-1]))
        member = found.setdefault(event[0] if event[0] in MEMBERS else "", [])
        if member[-2:-1] == [event] and member[-1][1] == "revoked" and event[1] == "assigned":
            member.pop()
        elif not member or member[-1] != event:
            member.append(event)
    return found
