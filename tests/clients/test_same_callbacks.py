"""The same commands for Kafka's Java consumers, against the server, and for Consumer.

Each consumer sees the same calls of its listener, callbacks of commits, and exceptions, in the same
order, command by command. One difference depends on the speed of the machine: whether a cooperative
member that gains nothing in the first of two rebalances has time to be told so.
"""

import json
import subprocess

import pytest

from coterie.server import Broker
from support.clients.commanded import Played, do, settle, start
from support.clients.java_clients import VERSIONS, java

RANGE = "org.apache.kafka.clients.consumer.RangeAssignor"
STICKY = "org.apache.kafka.clients.consumer.StickyAssignor"
COOPERATIVE = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
TOPICS = {"orders": 3, "payments": 2}
SLOW = {"heartbeat_interval_ms": "30000"}  # it does not learn of anything by a heartbeat
CONFIG = {"group.initial.rebalance.delay.ms": 0, "offsets.topic.num.partitions": 4}


def two(strategy, **settings):
    """Two members, the second after the first."""
    chosen = {"partition_assignment_strategy": strategy, **settings}
    return [
        start("a", **chosen),
        settle(a=3),
        start("b", **chosen),
        settle(a=2, b=1),
    ]


SCRIPTS = {
    **{
        f"{name}, and one closes": [*two(strategy), do("close", "b"), settle(a=3), do("close", "a")]
        for name, strategy in (("range", RANGE), ("sticky", STICKY), ("cooperative", COOPERATIVE))
    },
    "commits": [
        *two(RANGE),
        do("positions", "a"),
        do("positions", "b"),
        do("commit", "a", offsets={"0": 5}),
        do("commit_async", "b", offsets={"2": 7}),
        do("commit", "b", offsets={}),
        do("committed", "a"),
        do("committed", "b"),
    ],
    **{
        f"a commit of a removed member, {name}": [
            start("a", partition_assignment_strategy=strategy, **SLOW),
            settle(a=3),
            do("positions", "a"),
            do("remove_members"),
            do("commit", "a", offsets={"0": 5}),
            settle(a=3),
            do("positions", "a"),
            do("commit", "a", offsets={"0": 6}),
            do("committed", "a"),
        ]
        for name, strategy in (("range", RANGE), ("cooperative", COOPERATIVE))
    },
    "an asynchronous commit of a removed member": [
        start("a", **SLOW),
        settle(a=3),
        do("positions", "a"),
        do("remove_members"),
        do("commit_async", "a", offsets={"0": 5}),
        do("commit", "a", offsets={}),  # waits for the other one
        settle(a=3),
    ],
    "a commit in a rebalance": [
        *two(RANGE),
        do("enforce_rebalance", "a"),
        do("poll", "a"),  # it joins again; the group waits for the other member
        do("commit", "a", offsets={"0": 5}),
        do("commit_async", "a", offsets={"0": 5}),
        do("commit", "a", offsets={}),
        settle(a=2, b=1),
    ],
    "automatic commits": [
        *two(RANGE, enable_auto_commit="true", auto_commit_interval_ms="1000000"),
        do("positions", "b"),
        do("close", "b"),
        settle(a=3),
        do("positions", "a"),
        do("committed", "a"),
    ],
    "a static member comes back": [
        start("a", group_instance_id="one"),
        settle(a=3),
        do("close", "a"),
        start("a", group_instance_id="one"),
        settle(a=3, same_generation=True),
    ],
    "a static member is fenced": [
        start("a", group_instance_id="one"),
        settle(a=3),
        start("b", group_instance_id="one"),
        settle(b=3, same_generation=True),
        do("poll", "a"),
        do("commit", "a", offsets={"0": 5}),
        settle(a=3, same_generation=True),
    ],
    "a listener raises": [
        start("a", raises_in="assigned"),
        do("poll", "a"),
        do("poll", "a"),
    ],
    "a listener raises when partitions are revoked": [
        start("a", raises_in="revoked"),
        settle(a=3),
        do("enforce_rebalance", "a"),
        do("poll", "a"),
        settle(a=3),
        do("unsubscribe", "a"),
    ],
    "another subscription": [
        start("a", partition_assignment_strategy=COOPERATIVE),
        settle(a=3),
        do("subscribe", "a", topics=["orders", "payments"]),
        settle(a=5),
        do("subscribe", "a", topics=["payments"]),
        settle(a=2),
        do("unsubscribe", "a"),
        do("subscribe", "a", topics=["orders"]),
        settle(a=3),
    ],
    "an expression": [
        start("a", topics={"pattern": "orders|pay"}, partition_assignment_strategy=COOPERATIVE),
        settle(a=3),
        do("subscribe", "a", pattern="pay.*|o"),
        settle(a=2),
    ],
    **{
        f"a pause over a rebalance, {name}": [
            start("a", partition_assignment_strategy=strategy),
            settle(a=3),
            do("pause", "a"),
            do("enforce_rebalance", "a"),
            settle(a=3),
            do("paused", "a"),
        ]
        for name, strategy in (("eager", RANGE), ("cooperative", COOPERATIVE))
    },
}


def by_java(version, script):
    """What happened to Java consumers at each command."""
    with Broker(CONFIG, topics=TOPICS) as broker:
        lines = "".join(json.dumps(command) + "\n" for command in script)
        command = [*java(version, "Commanded"), broker.bootstrap_servers]
        done = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def with_partitions(events):
    """The events without assignments that add nothing."""
    return [
        {name: [event for event in each if event != ["assigned", []]] for name, each in one.items()}
        for one in events
    ]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_simulated_consumer_does_what_the_java_consumer_does(version, name):
    script = SCRIPTS[name]
    played = Played(TOPICS, CONFIG)
    events = [played.run(command) for command in script]
    assert with_partitions(events) == with_partitions(by_java(version, script))
