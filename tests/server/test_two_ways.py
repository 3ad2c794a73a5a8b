"""Requests of all kinds of classic groups, by the fast path and by the handlers."""

import random

import pytest

from coterie import wire
from coterie.server.api.table import SERVED
from support.server.asking import KEY, SUBSCRIBED, framed, request
from support.server.two_ways import Both
from support.server.writing import batch, of_producer

GROUPS = ["g", "h", "группа"]
TOPICS = ["t", "t", "t", "u", "missing"]
CONFIG = {"group.initial.rebalance.delay.ms": 0, "offsets.topic.num.partitions": 2}
STEPS = 700
OFTEN = ["JoinGroup"] * 3 + ["SyncGroup"] * 4 + ["Heartbeat"] * 5 + ["OffsetCommit"] * 5
OFTEN += ["OffsetFetch"] * 3 + ["Fetch"] * 4 + ["Produce"] * 3 + ["LeaveGroup"]


class Client:
    """Makes requests, most of them fit for what was answered before."""

    def __init__(self, rng, topic_id):
        self.rng, self.topic_id = rng, topic_id
        self.members = {group: [("", -1)] for group in GROUPS}
        self.session = (0, 0)
        self.asked = {}

    def request(self):
        rng = self.rng
        name = rng.choice(OFTEN)
        row = SERVED[KEY[name]]
        version = rng.randint(row.first, row.last)
        group = rng.choice(GROUPS)
        member, generation = rng.choice(self.members[group][-4:])
        body = getattr(self, name.lower())(version, group, member, generation)
        number = len(self.asked)
        self.asked[number] = (row.key, version, group)
        data = request(name, version, body, correlation_id=number, client_id="tests")
        if rng.random() < 0.05:
            broken = bytearray(data)
            broken[rng.randrange(8, len(data))] ^= 1 << rng.randrange(8)
            data = bytes(broken)
        return data

    def joingroup(self, version, group, member, generation):
        instance = self.rng.choice([None, None, "i"]) if version >= 5 else None
        protocols = [{"name": n, "metadata": SUBSCRIBED} for n in ("range", "sticky")]
        return {
            "groupId": group, "sessionTimeoutMs": 10000, "rebalanceTimeoutMs": 500,
            "memberId": member, "groupInstanceId": instance, "protocolType": "consumer",
            "protocols": protocols[: self.rng.randint(1, 2)],
        }  # fmt: skip

    def syncgroup(self, version, group, member, generation):
        kind = self.rng.choice(["consumer", "consumer", None]) if version >= 5 else None
        given = [{"memberId": m, "assignment": m.encode()} for m, _ in self.members[group][1:]]
        return {
            "groupId": group, "generationId": generation, "memberId": member,
            "protocolType": kind, "protocolName": "range" if kind else None, "assignments": given,
        }  # fmt: skip

    def heartbeat(self, version, group, member, generation):
        return {"groupId": group, "generationId": generation, "memberId": member}

    def leavegroup(self, version, group, member, generation):
        return {"groupId": group, "memberId": member, "members": [{"memberId": member}]}

    def some_partitions(self):
        return self.rng.sample(range(5), self.rng.randint(0, 4))

    def offsetcommit(self, version, group, member, generation):
        topics = [
            {"name": name, "partitions": [
                {"partitionIndex": n, "committedOffset": self.rng.randint(-2, 99),
                 "committedMetadata": self.rng.choice([None, "", "m", "x" * 5000])}
                for n in self.some_partitions()]}
            for name in self.rng.sample(TOPICS, self.rng.randint(0, 3))
        ]  # fmt: skip
        return {
            "groupId": group, "generationIdOrMemberEpoch": generation, "memberId": member,
            "retentionTimeMs": self.rng.choice([-1, 1000]), "topics": topics,
        }  # fmt: skip

    def offsetfetch(self, version, group, member, generation):
        topics = [
            {"name": name, "partitionIndexes": self.some_partitions()}
            for name in self.rng.sample(TOPICS, 2)
        ]
        if version >= 2 and self.rng.random() < 0.3:
            topics = None
        groups = [{"groupId": each, "topics": topics} for each in self.rng.sample(GROUPS, 2)]
        return {"groupId": group, "topics": topics, "groups": groups}

    def fetch(self, version, group, member, generation):
        partitions = [
            {"partition": n, "fetchOffset": self.rng.choice([0, 0, 1, 5, 900]),
             "partitionMaxBytes": self.rng.choice([10, 1000]),
             "currentLeaderEpoch": self.rng.choice([-1, 0, 1])}
            for n in self.some_partitions()
        ]  # fmt: skip
        session, epoch = self.rng.choice([(0, -1), (0, 0), self.session])
        topics = [{"topic": "t", "topicId": self.topic_id, "partitions": partitions}]
        return {
            "maxWaitMs": self.rng.choice([0, 50]), "minBytes": self.rng.choice([0, 1, 500]),
            "isolationLevel": self.rng.randint(0, 1), "sessionId": session, "sessionEpoch": epoch,
            "topics": topics if self.rng.random() < 0.8 else [],
            "forgottenTopicsData": [],
        }  # fmt: skip

    def produce(self, version, group, member, generation):
        data = self.rng.choice([batch(b"v"), batch(b"v" * 300, b"w"), of_producer(0), b"", None])
        entries = [{"index": n, "records": data} for n in self.some_partitions()]
        name = self.rng.choice(TOPICS)
        return {
            "acks": self.rng.choice([1, 1, -1, 0]), "timeoutMs": 1000,
            "topicData": [{"name": name, "partitionData": entries}],
        }  # fmt: skip

    def learn(self, data):
        """Take members and sessions from what was answered."""
        while data:
            size = int.from_bytes(data[:4], "big")
            frame, data = data[4 : 4 + size], data[4 + size :]
            key, version, group = self.asked.get(int.from_bytes(frame[:4], "big"), (None,) * 3)
            if key not in (KEY["JoinGroup"], KEY["Fetch"]):
                continue
            body = wire.decode_response(key, version, frame, fill=True).body
            if key == KEY["JoinGroup"] and body["memberId"]:
                self.members[group].append((body["memberId"], body["generationId"]))
            elif key == KEY["Fetch"] and body["sessionId"]:
                self.session = (body["sessionId"], 1)


@pytest.mark.parametrize("seed", range(6))
def test_who_is_watched_answers_as_who_is_not(seed):
    rng = random.Random(seed)
    both = Both(CONFIG, GROUPS)
    client = Client(rng, both.topic_id)
    answered = 0
    for _ in range(STEPS):
        number = rng.randrange(len(both.peers))
        data = b"".join(client.request() for _ in range(rng.choice([1, 1, 1, 3])))
        cut = rng.randrange(len(data)) if rng.random() < 0.2 else len(data)
        both.send(number, data[:cut])
        both.send(number, data[cut:])
        if rng.random() < 0.1:
            both.leave(number)
        if rng.random() < 0.3:
            both.run(rng.choice([1, 60, 600]))
        for response in both.answers():
            client.learn(response)
            answered += bool(response)
    both.check()
    assert answered > STEPS // 3
    assert both.events


def test_what_is_no_frame_of_an_api_ends_both_ways_alike():
    rng = random.Random(9)
    both = Both(CONFIG, GROUPS)
    for _ in range(300):
        frame = bytes([0, rng.choice([0, 1, 8, 9, 11, 12, 14]), 0, rng.randrange(12)])
        both.send(rng.randrange(6), framed(frame + rng.randbytes(rng.randrange(40))))
        both.answers()
    both.check()
