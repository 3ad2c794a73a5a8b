"""A trace of many consumer groups of three: members join, heartbeat, and one of them leaves.

A group begins each ms. Its members join one after the other and heartbeat every five seconds; a
client sends the epoch that was answered last, and its partitions after its assignment changed.
The answers that the clients follow are coterie's own; the golden traces hold it to Kafka's.
"""

import json

from coterie import GroupCoordinator
from coterie.consumer_groups import encode_topic_id

CONFIG = {"coterie.behaviour": "4.1"}
TOPICS = [  # Java's hashes keep the order of their ids, as of the members'
    {"topic": f"t{n}", "topic_id": encode_topic_id(n.to_bytes(16, "big")), "partitions": 6}
    for n in (16, 17)
]
NAMES = [topic["topic"] for topic in TOPICS]
MEMBERS, BEATS, GAP_MS = 3, 12, 5000


class Client:
    """A member as it knows itself."""

    def __init__(self, group, place):
        self.group_id, self.member_id = f"g{group:05}", f"m{place}"
        self.epoch, self.owned, self.changed = 0, [], False

    def request(self, leaves):
        """Return the fields of its next heartbeat."""
        fields = {"group_id": self.group_id, "member_id": self.member_id}
        fields |= {"member_epoch": -1 if leaves else self.epoch, "client_id": "c"}
        if self.epoch == 0:
            fields |= {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": NAMES}
        if self.epoch == 0 or (self.changed and not leaves):
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


def lines(groups):
    """Yield the trace line by line."""
    coordinator = GroupCoordinator(CONFIG)
    coordinator.set_topics(TOPICS)
    yield json.dumps({
        "format": "coterie-trace", "version": 2, "name": "many-groups", "config": CONFIG,
        "decoded": False, "topics": TOPICS,
    })  # fmt: skip
    turns = sorted(
        (beat * GAP_MS + group + 1000 * place, group, place, beat)
        for group in range(groups) for place in range(MEMBERS) for beat in range(BEATS)
    )  # fmt: skip
    clients = {(group, place): Client(group, place) for _, group, place, _ in turns}
    number = 0
    for at, group, place, beat in turns:
        client = clients[group, place]
        if beat and client.epoch <= 0:
            continue
        fields = client.request(leaves=place == 1 and beat == BEATS // 2)
        coordinator.advance(at)
        client.answered(coordinator.consumer_group_heartbeat(**fields))
        coordinator.take_events()
        number += 1
        yield json.dumps({"at": at, "op": "consumer_group_heartbeat", "id": number} | fields)
