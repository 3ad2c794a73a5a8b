"""Traces of consumer groups under Kafka 4.4: a big one, and many of three members.

A client heartbeats every five seconds. It sends the epoch that was answered last, and its
partitions after its assignment changed. The answers that the clients follow are coterie's own; the
golden traces hold it to Kafka's.
"""

import json
from typing import NamedTuple

from coterie import GroupCoordinator
from coterie.consumer_groups import encode_topic_id

CONFIG = {"coterie.behaviour": "4.4"}
GAP_MS = 5000
JOINED, LEFT, GROWN_MS = 1000, 50, 94_060  # members of the big group; when a topic grows


class Turn(NamedTuple):
    """A heartbeat; the first and the last of a member are those of its join and its leave."""

    at: int
    group_id: str
    member_id: str
    kind: str


class Client:
    """A member as it knows itself."""

    def __init__(self):
        self.epoch, self.owned, self.changed = 0, [], False

    def request(self, turn, names):
        """Return the fields of its next heartbeat."""
        fields = {"group_id": turn.group_id, "member_id": turn.member_id}
        fields |= {"member_epoch": -1 if turn.kind == "leave" else self.epoch, "client_id": "c"}
        if turn.kind == "join":
            fields |= {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": names}
        if turn.kind == "join" or (self.changed and turn.kind != "leave"):
            fields["topic_partitions"] = self.owned
        return fields

    def answered(self, response):
        self.epoch, self.changed = response.member_epoch, False
        if response.assignment is not None:
            given = [
                {"topic_id": each.topic_id, "partitions": list(each.partitions)}
                for each in response.assignment
            ]
            self.changed, self.owned = given != self.owned, given


def topics_of(count, partitions):
    """Topics, where Java's hashes keep the order of their ids."""
    return [
        {"topic": f"t{n}", "topic_id": encode_topic_id(n.to_bytes(16, "big")),
         "partitions": partitions}
        for n in range(16, 16 + count)
    ]  # fmt: skip


def turns_of(group_id, member_id, first_ms, beats, *, leaves):
    kinds = ["join", *["beat"] * (beats - 1 - leaves), *["leave"] * leaves]
    return [
        Turn(first_ms + beat * GAP_MS, group_id, member_id, kind) for beat, kind in enumerate(kinds)
    ]


def big_group(members=JOINED):
    """One group on 1,000 partitions: all join within 5 s, some leave, some come, a topic grows."""
    topics, left = topics_of(10, 100), members * LEFT // JOINED
    turns = []
    for n in range(members):
        leaves = n % (JOINED // LEFT) == 0
        turns += turns_of("g", f"m{n:04}", n * 5, 14 if leaves else 28, leaves=leaves)
    for n in range(members, members + left):
        turns += turns_of("g", f"m{n:04}", 60_040 + 40 * (n - members), 16, leaves=False)
    grown = [topics[-1] | {"partitions": 105}]
    return lines("big-group", topics, turns, {GROWN_MS: grown})


def many_groups(groups):
    """Groups of three on two topics; a group begins each ms, and one of its members leaves."""
    turns = []
    for group in range(groups):
        for n in range(3):
            leaves = n == 1
            beats = 7 if leaves else 12
            turns += turns_of(f"g{group:05}", f"m{n}", group + 1000 * n, beats, leaves=leaves)
    return lines("many-groups", topics_of(2, 6), turns, {})


def lines(name, topics, turns, grown):
    """Yield the trace line by line; `grown`: the topics that get partitions, by time."""
    coordinator = GroupCoordinator(CONFIG)
    coordinator.set_topics(topics)
    yield json.dumps({
        "format": "coterie-trace", "version": 2, "name": name, "config": CONFIG,
        "decoded": False, "topics": topics,
    })  # fmt: skip
    names, clients = [topic["topic"] for topic in topics], {}
    updates = [Turn(at, "", "", "metadata") for at in grown]
    for number, turn in enumerate(sorted([*turns, *updates]), start=1):
        coordinator.advance(turn.at)
        if turn.kind == "metadata":
            coordinator.set_topics(grown[turn.at])
            yield json.dumps({"at": turn.at, "op": "metadata", "topics": grown[turn.at]})
            continue
        client = clients.setdefault((turn.group_id, turn.member_id), Client())
        fields = client.request(turn, names)
        client.answered(coordinator.consumer_group_heartbeat(**fields))
        coordinator.take_events()
        yield json.dumps({"at": turn.at, "op": "consumer_group_heartbeat", "id": number} | fields)
