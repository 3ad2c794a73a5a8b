"""Commands for consumers, done by Consumer as the Java program ``Commanded`` does them.

A command is a dict; what happened meanwhile is a list by consumer: calls of listeners, callbacks of
commits, exceptions.
"""

import re

from coterie.testing import Cluster, Consumer, KafkaError, SubscriptionPattern

GROUP = "g"
SETTINGS = {
    "group.id": GROUP,
    "auto.offset.reset": "earliest",
    "enable.auto.commit": "false",
    "heartbeat.interval.ms": "100",
    "retry.backoff.ms": "20",
}


def start(name, *, raises_in="", topics=("orders",), **settings):
    """A consumer subscribes; settings with underlines for their dots.

    ``topics`` may be ``{"pattern": ...}``, which the client matches with topics, or
    ``{"server_pattern": ...}``, which the coordinator does.
    """
    chosen = {key.replace("_", "."): value for key, value in settings.items()}
    settings = SETTINGS | {"client.id": name} | chosen
    chosen = topics if isinstance(topics, dict) else {"topics": list(topics)}
    return {"do": "start", "name": name, "settings": settings, **chosen} | (
        {"raises_in": raises_in} if raises_in else {}
    )


def settle(*, same_generation=False, **sizes):
    """Poll until there was a rebalance, and the consumers have so many partitions."""
    return {"do": "settle", "sizes": sizes} | ({"same_generation": 1} if same_generation else {})


def do(what, name="", **fields):
    """Any other command."""
    return {"do": what, "name": name, **fields}


class Listener:
    """Writes each call into the events."""

    def __init__(self, played, name, raises_in):
        self._played, self._name, self._raises_in = played, name, raises_in

    def _called(self, what, partitions):
        self._played.happened(self._name, what, shown(partitions))
        if what == self._raises_in and partitions:
            raise ValueError(what)

    def on_partitions_assigned(self, partitions):
        self._called("assigned", partitions)

    def on_partitions_revoked(self, partitions):
        self._called("revoked", partitions)

    def on_partitions_lost(self, partitions):
        self._called("lost", partitions)


class Played:
    """Consumers of a simulated cluster that do the commands."""

    def __init__(self, topics, config):
        self._cluster = Cluster(topics, config, interval_ms=None)
        self._consumers = {}
        self._events = {}
        self._generation = 0

    def happened(self, name, what, details):
        self._events.setdefault(name, []).append([what, details])

    def run(self, command):
        """Do a command; return what happened."""
        name = command.get("name", "")
        try:
            getattr(self, command["do"])(name, command)
        except KafkaError as error:
            self.happened(name, "raised", java_name(error))
        events, self._events = self._events, {}
        return events

    def start(self, name, command):
        self._consumers[name] = Consumer(self._cluster, command["settings"])
        self.subscribe(name, command)

    def subscribe(self, name, command):
        listener = Listener(self, name, command.get("raises_in"))
        if "pattern" in command:
            chosen = re.compile(command["pattern"])
        elif "server_pattern" in command:
            chosen = SubscriptionPattern(command["server_pattern"])
        else:
            chosen = command["topics"]
        self._consumers[name].subscribe(chosen, listener)

    def settle(self, _, command):
        sizes = command["sizes"]
        for _ in range(10_000):
            for name in sizes:
                self._consumers[name].poll(10)
            consumers = {name: self._consumers[name] for name in sizes}
            generations = {c.group_metadata().generation_id for c in consumers.values()}
            settled = {name: len(c.assignment()) for name, c in consumers.items()} == sizes
            later = min(generations) > self._generation or "same_generation" in command
            if settled and later and len(generations) == 1:
                self._generation = generations.pop()
                return
        raise AssertionError(f"never settled: {command}")

    def poll(self, name, _):
        while not self._events:
            self._consumers[name].poll(10)

    def commit(self, name, command):
        self._consumers[name].commit(offsets(command))

    def commit_async(self, name, command):
        def callback(_, error):
            self.happened(name, "callback", "none" if error is None else java_name(error))

        self._consumers[name].commit_async(offsets(command), callback)

    def committed(self, name, _):
        consumer = self._consumers[name]
        found = consumer.committed(consumer.assignment())
        self.happened(
            name,
            "committed",
            {f"{t}-{n}": -1 if at is None else at.offset for (t, n), at in sorted(found.items())},
        )

    def positions(self, name, _):
        consumer = self._consumers[name]
        at = {f"{t}-{n}": consumer.position((t, n)) for t, n in sorted(consumer.assignment())}
        self.happened(name, "positions", at)

    def enforce_rebalance(self, name, _):
        self._consumers[name].enforce_rebalance()

    def unsubscribe(self, name, _):
        self._consumers[name].unsubscribe()

    def pause(self, name, _):
        self._consumers[name].pause(self._consumers[name].assignment())

    def paused(self, name, _):
        self.happened(name, "paused", shown(self._consumers[name].paused()))

    def close(self, name, _):
        self._consumers.pop(name).close()

    def remove_members(self, *_):
        members = self._cluster.coordinator.snapshot(GROUP).members
        self._cluster.call("leave_group", GROUP, [member.member_id for member in members])


def offsets(command):
    return {("orders", int(number)): at for number, at in command["offsets"].items()}


def shown(partitions):
    return sorted(f"{topic}-{number}" for topic, number in partitions)


def java_name(error):
    """The name of the exception that Kafka's client throws."""
    name = type(error).__name__.removesuffix("Error")
    return name if name == "InvalidRegularExpression" else f"{name}Exception"
