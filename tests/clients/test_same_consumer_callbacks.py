"""The same commands for Kafka's Java consumer, against the server, and for Consumer (KIP-848).

As in test_same_callbacks.py, but under the consumer protocol. Kafka's client has the partitions a
moment before it calls the listener; so a settled group is polled some more. Whether a member that
gains nothing is told so depends on the metadata's way to the client, and is not compared.
"""

import json
import subprocess

import pytest

from coterie.server import Broker
from support.clients import commanded
from support.clients.commanded import Played, do
from support.clients.java_clients import NEWEST, java

TOPICS = {"orders": 3, "payments": 2}
CONFIG = {
    "offsets.topic.num.partitions": 4,
    "group.consumer.min.heartbeat.interval.ms": 100,
    "group.consumer.heartbeat.interval.ms": 100,
}


def start(name, **settings):
    """A consumer of the consumer protocol subscribes."""
    command = commanded.start(name, group_protocol="consumer", **settings)
    del command["settings"]["heartbeat.interval.ms"]
    return [command]


def settle(**sizes):
    """Poll until the consumers have so many partitions, and then some more."""
    once = commanded.settle(**sizes)
    return [once, *[{**once, "same_generation": 1}] * 4]


def once(what, name="", **fields):
    """Any other command."""
    return [do(what, name, **fields)]


def two(**settings):
    """Two members, the second after the first."""
    return [*start("a", **settings), *settle(a=3), *start("b", **settings), *settle(a=2, b=1)]


SCRIPTS = {
    "one closes": [*two(), *once("close", "b"), *settle(a=3), *once("close", "a")],
    "commits": [
        *two(),
        *once("positions", "a"),
        *once("positions", "b"),
        *once("commit", "a", offsets={"0": 5}),
        *once("commit_async", "b", offsets={"2": 7}),
        *once("poll", "b"),
        *once("committed", "a"),
        *once("committed", "b"),
    ],
    "automatic commits": [
        *two(enable_auto_commit="true", auto_commit_interval_ms="1000000"),
        *once("positions", "b"),
        *once("close", "b"),
        *settle(a=3),
        *once("positions", "a"),
        *once("committed", "a"),
    ],
    "a removed member": [
        *start("a"),
        *settle(a=3),
        *once("remove_members"),
        *once("poll", "a"),
        *settle(a=3),
        *once("positions", "a"),
        *once("commit", "a", offsets={"0": 6}),
        *once("committed", "a"),
    ],
    "a static member comes back": [
        *start("a", group_instance_id="one"),
        *settle(a=3),
        *once("close", "a"),
        *start("a", group_instance_id="one"),
        *settle(a=3)[1:],
    ],
    "an instance id in use": [
        *start("a", group_instance_id="one"),
        *settle(a=3),
        *start("b", group_instance_id="one"),
        *once("poll", "b"),
        *once("positions", "a"),
    ],
    "a listener raises": [
        *start("a", raises_in="assigned"),
        *once("poll", "a"),
        *once("poll", "a"),
        *once("close", "a"),
    ],
    **{
        f"a listener raises when partitions are revoked: {end}": [
            *start("a", raises_in="revoked"),
            *settle(a=3),
            *once(end, "a"),
        ]
        for end in ("unsubscribe", "close")
    },
    "another subscription": [
        *start("a"),
        *settle(a=3),
        *once("subscribe", "a", topics=["orders", "payments"]),
        *settle(a=5),
        *once("subscribe", "a", topics=["payments"]),
        *settle(a=2),
        *once("unsubscribe", "a"),
        *once("subscribe", "a", topics=["orders"]),
        *settle(a=3)[1:],
    ],
    "an expression that the coordinator matches": [
        *start("a", topics={"server_pattern": "orders|pay.*"}),
        *settle(a=5),
        *once("positions", "a"),
        *once("commit", "a", offsets={"0": 5}),
        *start("b", topics={"server_pattern": "o.*"}, client_rack="r1"),
        *settle(a=3, b=2),
        *once("subscribe", "a", server_pattern="p.*s"),
        *settle(a=2, b=3),
        *once("unsubscribe", "a"),
        *once("subscribe", "a", topics=["payments"]),
        *settle(a=2, b=3)[1:],
    ],
    "an expression that is none": [
        *start("a", topics={"server_pattern": "("}),
        *once("poll", "a"),
    ],
    "an expression that the client matches": [
        *start("a", topics={"pattern": "orders|pay"}),
        *settle(a=3),
        *once("subscribe", "a", pattern="pay.*|o"),
        *settle(a=2),
    ],
    "a pause over a rebalance": [
        *start("a"),
        *settle(a=3),
        *once("pause", "a"),
        *start("b"),
        *settle(a=2, b=1),
        *once("paused", "a"),
    ],
    "a rebalance that is asked for": [
        *start("a"),
        *settle(a=3),
        *once("enforce_rebalance", "a"),
        *once("positions", "a"),
    ],
}


class PlayedByMembers(Played):
    """Finds the members in another way."""

    def remove_members(self, *_):
        (group,) = self._cluster.call("consumer_group_describe", [commanded.GROUP]).groups
        members = [member.member_id for member in group.members]
        self._cluster.call("leave_group", commanded.GROUP, members)


def by_java(script):
    """What happened to Java consumers at each command."""
    with Broker(CONFIG, topics=TOPICS, kafka="4.4") as broker:
        lines = "".join(json.dumps(command) + "\n" for command in script)
        command = [*java(NEWEST, "Commanded"), broker.bootstrap_servers]
        done = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


POLLS = {"poll", "settle"}


def by_step(script, events):
    """The events of each command that change something; polls in a row are one step.

    How many polls a change takes depends on the client's background thread.
    """
    steps = []
    for number, (command, happened) in enumerate(zip(script, events, strict=True)):
        if not (number and {command["do"], script[number - 1]["do"]} <= POLLS):
            steps.append({})
        for name, each in happened.items():
            seen = [event for event in each if event != ["assigned", []]]
            if seen:
                steps[-1].setdefault(name, []).extend(seen)
    return steps


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_simulated_consumer_does_what_the_java_consumer_does(name):
    script = SCRIPTS[name]
    played = PlayedByMembers(TOPICS, CONFIG | {"coterie.behaviour": "4.4"})
    events = [played.run(command) for command in script]
    assert by_step(script, events) == by_step(script, by_java(script))
