"""The same programs with confluent-kafka against the server, and with ``testing.confluent``.

Both see the same callbacks, commits, results and errors, in the same order for each consumer.
"""

import pytest

from coterie.server import Broker
from coterie.testing import Cluster, virtual_clients
from coterie.values import Error
from support.clients.confluent_scripts import RECORDS, SCRIPTS, TOPIC, World

confluent_kafka = pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
CONFIG = {"group.initial.rebalance.delay.ms": 0, "group.min.session.timeout.ms": 100}
MEMBERS = ("a", "b")


def by_confluent_kafka(script):
    config = CONFIG | {"offsets.topic.num.partitions": 4}
    with Broker(config, topics={TOPIC: RECORDS}) as broker:
        world = World(
            confluent_kafka,
            broker.bootstrap_servers,
            lambda _, error: broker.fail("OffsetCommit", error=error),
        )
        script(world)
    return world.events


def by_the_simulation(script):
    cluster = Cluster({TOPIC: RECORDS}, CONFIG, interval_ms=None)
    with virtual_clients(cluster):
        import confluent_kafka as module

        def fail(name, error):
            cluster.network.fail(name, "offset_commit", Error[error])

        world = World(module, "nowhere:9092", fail)
        script(world)
    return world.events


def by_member(name, events):
    """The events of each consumer.

    Left out: assignments that add nothing, and a commit of the same offsets as the one before it.
    Of cooperative rebalances the number of partitions counts.
    """
    found = {}
    for event in events:
        if event[1:] in (("on_assign", []), ("on_revoke", [])):
            continue
        if name == "cooperative_rebalances" and isinstance(event[-1], list):
            event = (*event[:-1], len(event[-1]))
        member = found.setdefault(event[0] if event[0] in MEMBERS else "", [])
        if not member or member[-1] != event:
            member.append(event)
    return found


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_program_sees_what_it_sees_with_confluent_kafka(name):
    events = by_member(name, by_the_simulation(SCRIPTS[name]))
    assert events == by_member(name, by_confluent_kafka(SCRIPTS[name]))
