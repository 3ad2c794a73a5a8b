"""Random conversations with a broker of Kafka and with ours, whose answers are compared.

    PYTHONPATH=tests:tools python tools/recorders/random_conversations.py [--kafka 4.1] [KIND]

KIND: offsets, group, txn, data, topics; with --kafka 4.1 also consumers. A broker is started from
Maven's jars, ours in this process. Each kind of difference is printed once, with its request.

Known differences: Kafka leaves to its hash tables which protocol wins a tie, and who leads once the
leader has gone. And a batch of a transaction that is not verified leaves its sequence in a
partition of Kafka's: the producer's next batch there with a higher one is refused.
"""

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

from coterie.server import Broker
from coterie.server.api.table import SERVED_BY
from recorders.both_brokers import Batch, Both, Connections, Drawn, make_ready, make_topics
from recorders.random_consumer_groups import CONSUMERS
from support.broker.kafka_broker import running_broker

SETTINGS = {
    "group.min.session.timeout.ms": "500",
    "offset.metadata.max.bytes": "64",
    "transaction.state.log.num.partitions": "2",
    "log.retention.ms": "-1",
}
OF_BOTH = {  # the others stand in kafka_broker's own
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": 4,
    "auto.create.topics.enable": False,
    **{name: int(value) for name, value in SETTINGS.items()},
}
OF_BROKER = {"3.9": "3.9.1", "4.1": "4.1.1"}
# Versions that name topics by ids are left out, and that of brokers.
LAST = {"Fetch": 12, "Produce": 12, "AddPartitionsToTxn": 3}
VERSIONS = {}
LONG, TOO_LONG = "m" * 64, "m" * 65
STRANGER = Drawn(123456, 123456)


class Talk:
    """One conversation: what it knows of members, producers and sequences."""

    def __init__(self, both, kind, seed):
        self.both, self.random = both, random.Random(seed)
        tag = f"{kind}-{seed}-"
        self.groups, self.ids = [tag + "g0", tag + "g1"], [tag + "x0", tag + "x1"]
        self.topics, self.names = [tag + "t0", tag + "t1", tag + "nope"], tag + "n"
        self.members, self.generations, self.joins = [], {}, {}
        self.producers, self.sequences = [], {}
        self.requests = 0

    def ask(self, api, body, **how):
        self.requests += 1
        connection = f"own {self.requests}" if how.get("parks") else "main"
        return self.both.ask(connection, api, self.version(api), body, **how)

    def ask_until_decided(self, api, body, version=None):
        version = self.version(api) if version is None else version
        return self.both.ask_until_decided(api, version, body)

    def version(self, api):
        return self.random.randint(*VERSIONS[api])

    def some(self, values, least=0, most=3):
        count = self.random.randint(least, min(most, len(values)))
        return self.random.sample(values, count)

    def often(self, share):
        return self.random.random() < share

    def group(self, *more):
        return self.random.choice([*self.groups, *more])

    def by_topic(self, name, partitions, make, least=0, *, once=True, most=3):
        """Topics with partitions, each made by a function of its number."""
        found = []
        for topic in self.some(self.topics, least):
            numbers = self.random.choices([0, 0, 0, 1, 1, 1, 5], k=self.random.randint(0, most))
            numbers = sorted(set(numbers)) if once else numbers
            found.append({name: topic, partitions: [make(number) for number in numbers]})
        return found

    def who(self, group):
        """A member's ids and its generation, mostly right."""
        known = [each for each in self.members if each["group"] == group] or self.members
        generation = self.generations.get(group, -1)
        if self.often(0.15):
            generation = self.random.choice([-1, 0, 1, generation + 1, generation - 1, 99])
        if not known or self.often(0.1):
            return self.random.choice(["", "nobody"]), generation, None
        member = self.random.choice(known)
        instance = member["instance"] if self.often(0.9) else self.random.choice([None, "zz"])
        return member["id"], generation, instance

    def producer(self):
        if not self.producers:
            return {"name": self.ids[0], "id": STRANGER, "epoch": 0}
        chosen = self.producers[-1] if self.often(0.7) else self.random.choice(self.producers)
        found = dict(chosen)
        if self.often(0.1):
            found["epoch"] = max(0, found["epoch"] + self.random.choice([-1, 1]))
        if self.often(0.06):
            found["name"] = self.random.choice(self.ids)
        return found

    def answered(self):
        """Take what has been answered of joins that waited."""
        for connection, api, bodies in self.both.settle():
            if api == "JoinGroup" and bodies:
                self.joined(connection, bodies)

    def joined(self, connection, bodies):
        group, instance = self.joins[connection]
        theirs, ours = bodies
        if theirs["memberId"] and ours["memberId"]:
            if theirs["memberId"] not in [each["id"].of[0] for each in self.members]:
                drawn = Drawn(theirs["memberId"], ours["memberId"])
                self.members.append({"group": group, "instance": instance, "id": drawn})
            if not theirs["errorCode"]:
                self.generations[group] = theirs["generationId"]


def join(t):
    choose = t.random.choice
    group, version = t.group() if t.often(0.96) else "", t.version("JoinGroup")
    instance = choose([None, None, "i0", "i1"]) if version >= 5 else None
    known = [each for each in t.members if each["group"] == group]
    member_id = "unknown" if t.often(0.06) else ""
    if known and t.often(0.6):
        member = choose(known)
        member_id, instance = member["id"], member["instance"] if version >= 5 else None
    protocols = [
        {"name": name, "metadata": bytes([t.random.randrange(4)])}
        for name in t.some(["range", "rr", "sticky"], 0 if t.often(0.05) else 1)
    ]
    body = {"groupId": group, "memberId": member_id, "groupInstanceId": instance}
    body |= {"sessionTimeoutMs": choose([30000] * 9 + [100]), "rebalanceTimeoutMs": 60000}
    body |= {"protocolType": choose(["consumer"] * 15 + ["connect", ""]), "protocols": protocols}
    t.requests += 1
    connection, client = f"own {t.requests}", choose(["cl", "", "a-b", None])
    t.joins[connection] = (group, instance)
    bodies = t.both.ask(connection, "JoinGroup", version, body, client=client, parks=True)
    if bodies:
        t.joined(connection, bodies)


def sync(t):
    group = t.group()
    member_id, generation, instance = t.who(group)
    assignments = [
        {"memberId": each["id"], "assignment": bytes([t.random.randrange(9)])}
        for each in t.members
        if each["group"] == group and t.often(0.7)
    ]
    body = {"groupId": group, "generationId": generation, "memberId": member_id}
    body |= {"groupInstanceId": instance, "assignments": assignments}
    body |= {"protocolType": t.random.choice([None, "consumer", "consumer", "connect"])}
    t.ask("SyncGroup", body | {"protocolName": t.random.choice([None, "range"])}, parks=True)


def heartbeat(t):
    group = t.group()
    member_id, generation, instance = t.who(group)
    body = {"groupId": group, "generationId": generation, "memberId": member_id}
    t.ask("Heartbeat", body | {"groupInstanceId": instance})


def leave(t):
    group = t.group()
    members = []
    for _ in range(t.random.randint(0, 3)):
        member_id, _, instance = t.who(group)
        members.append({"memberId": member_id, "groupInstanceId": instance})
    t.ask("LeaveGroup", {"groupId": group, "memberId": t.who(group)[0], "members": members})


def _committed(t):
    choose = t.random.choice
    return t.by_topic("name", "partitions", lambda number: {
        "partitionIndex": number,
        "committedOffset": t.random.randrange(-2, 100),
        "committedLeaderEpoch": choose([-1, 3]),
        "committedMetadata": choose(["", "meta", LONG, TOO_LONG, None]),
    }, once=False)  # fmt: skip


def offset_commit(t):
    group = t.group("")
    member_id, generation, instance = ("", -1, None) if t.often(0.4) else t.who(group)
    body = {"groupId": group, "memberId": member_id, "groupInstanceId": instance}
    body |= {"generationIdOrMemberEpoch": generation, "topics": _committed(t)}
    t.ask("OffsetCommit", body | {"retentionTimeMs": t.random.choice([-1, -1, 100000])})


def offset_fetch(t):
    def topics():
        return t.by_topic("name", "partitionIndexes", int, once=False)

    groups = [
        {"groupId": each, "topics": topics() if t.often(0.7) else None}
        for each in t.some([*t.groups, "nogroup", ""], 1)
    ]
    body = {"groupId": t.group("nogroup", ""), "topics": topics(), "groups": groups}
    t.ask("OffsetFetch", body | {"requireStable": t.often(0.4)})


def offset_delete(t):
    topics = t.by_topic("name", "partitions", lambda n: {"partitionIndex": n}, once=False)
    t.ask("OffsetDelete", {"groupId": t.group("nogroup", ""), "topics": topics})


def describe_groups(t):
    groups = t.some([*t.groups, "nogroup", ""])
    t.ask("DescribeGroups", {"groups": groups, "includeAuthorizedOperations": t.often(0.5)})


def delete_groups(t):
    t.ask("DeleteGroups", {"groupsNames": t.some([*t.groups, "nogroup", ""], 0, 2)})


def find_coordinator(t):
    kind = t.random.choice([0, 0, 1, 2, 7])
    body = {"key": t.group(""), "keyType": kind, "coordinatorKeys": t.some([*t.groups, ""])}
    t.ask("FindCoordinator", body)


def init_producer_id(t):
    name = t.random.choice([*t.ids, None, ""] if t.often(0.2) else [*t.ids, None])
    body = {"transactionalId": name}
    body["transactionTimeoutMs"] = t.random.choice([60000] * 8 + [0, -1, 10**9])
    version = t.version("InitProducerId")
    own = [each for each in t.producers if each["name"] == name]
    if version >= 3 and own and t.often(0.4):
        chosen = t.random.choice(own)
        body |= {"producerId": chosen["id"], "producerEpoch": chosen["epoch"]}
    bodies = t.both.ask_until_decided("InitProducerId", version, body)
    if bodies and not bodies[0]["errorCode"] and not bodies[1]["errorCode"]:
        drawn = Drawn(*(each["producerId"] for each in bodies))
        t.producers.append({"name": name, "id": drawn, "epoch": bodies[0]["producerEpoch"]})


def add_partitions(t):
    producer, old = t.producer(), "v3AndBelow"
    body = {f"{old}TransactionalId": producer["name"] or "", f"{old}ProducerId": producer["id"]}
    body |= {f"{old}ProducerEpoch": producer["epoch"]}
    topics = t.by_topic("name", "partitions", int)
    t.ask_until_decided("AddPartitionsToTxn", body | {f"{old}Topics": topics})


def _of_producer(t):
    producer = t.producer()
    body = {"transactionalId": producer["name"] or "", "producerId": producer["id"]}
    return body | {"producerEpoch": producer["epoch"]}


def add_offsets(t):
    t.ask_until_decided("AddOffsetsToTxn", _of_producer(t) | {"groupId": t.group()})


def txn_offset_commit(t):
    group = t.group()
    member_id, generation, instance = ("", -1, None) if t.often(0.6) else t.who(group)
    body = _of_producer(t) | {"groupId": group, "memberId": member_id, "topics": _committed(t)}
    body |= {"generationId": generation, "groupInstanceId": instance}
    t.ask_until_decided("TxnOffsetCommit", body)


def end_txn(t):
    t.ask_until_decided("EndTxn", _of_producer(t) | {"committed": t.often(0.5)})


def produce(t):
    version, producer = t.version("Produce"), t.producer() if t.often(0.6) else None
    topics = []
    for topic in t.some(t.topics, 1, 2):
        entries = []
        for number in sorted(set(t.some([0, 0, 0, 1, 1, 5], 0, 2))):
            count = t.random.randint(1, 3)
            records = [
                [None if t.often(0.3) else "k", f"v{t.random.randrange(99)}", {}]
                for _ in range(count)
            ]
            batch = Batch(records, -1, -1, -1, 0)
            if producer:
                place = (topic, number, producer["id"], producer["epoch"])
                first = t.sequences.get(place, 0)
                if t.often(0.15):
                    first = t.random.choice([0, first + 1, max(0, first - 1)])
                t.sequences[place] = first + count
                bits = 0x10 if producer["name"] and t.often(0.9) else 0
                batch = Batch(records, producer["id"], producer["epoch"], first, bits)
            entries.append({"index": number, "records": batch})
        topics.append({"name": topic, "partitionData": entries})
    body = {"transactionalId": producer["name"] if producer and version >= 3 else None}
    body |= {"acks": t.random.choice([-1] * 8 + [1, 2]), "timeoutMs": 5000, "topicData": topics}
    t.ask_until_decided("Produce", body, version)


def fetch(t):
    choose = t.random.choice
    topics = t.by_topic("topic", "partitions", lambda number: {
        "partition": number,
        "currentLeaderEpoch": choose([-1, -1, 0, 5]),
        "fetchOffset": choose([0, 0, 1, 2, 99, -1]),
        "partitionMaxBytes": choose([1, 1 << 20]),
    })  # fmt: skip
    body = {"maxWaitMs": 50, "minBytes": 1, "maxBytes": 1 << 20, "topics": topics}
    body |= {"isolationLevel": choose([0, 1]), "sessionEpoch": -1, "replicaId": -1}
    t.ask("Fetch", body)


def list_offsets(t):
    times = [-1, -2, -3, -4, -5, -6, 1700000000000, 1700000000001, 0, 9 * 10**12]
    topics = t.by_topic("name", "partitions", lambda number: {
        "partitionIndex": number,
        "currentLeaderEpoch": t.random.choice([-1, -1, 0, 5]),
        "timestamp": t.random.choice(times),
        "maxNumOffsets": 1,
    })  # fmt: skip
    body = {"replicaId": -1, "isolationLevel": t.random.choice([0, 1]), "topics": topics}
    t.ask("ListOffsets", body)


def leader_epochs(t):
    topics = t.by_topic("topic", "partitions", lambda number: {
        "partition": number,
        "currentLeaderEpoch": t.random.choice([-1, 0, 3]),
        "leaderEpoch": t.random.choice([-1, 0, 1, 5]),
    })  # fmt: skip
    t.ask("OffsetForLeaderEpoch", {"replicaId": -1, "topics": topics})


def delete_records(t):
    topics = t.by_topic("name", "partitions", lambda number: {
        "partitionIndex": number,
        "offset": t.random.choice([0, 1, 2, -1, 50, -2]),
    })  # fmt: skip
    t.ask("DeleteRecords", {"topics": topics, "timeoutMs": 3000})


def describe_producers(t):
    t.ask("DescribeProducers", {"topics": t.by_topic("name", "partitionIndexes", int)})


def metadata(t):
    body = {"topics": [{"name": each} for each in t.some(t.topics, 1)]}
    t.ask("Metadata", body | {"allowAutoTopicCreation": False})


def create_topics(t):
    choose = t.random.choice
    topics = []
    for number in t.some([0, 1, 2], 1, 2):
        name = f"{t.names}{number}" if t.often(0.9) else choose(["", ".", "a b", "x" * 250])
        topic = {"name": name, "numPartitions": choose([1, 2, 0, -1, -2]), "assignments": []}
        topic["replicationFactor"] = choose([1, 1, 1, -1, 0, 2])
        config = choose([None, ("retention.ms", "-1"), ("nope", "1"), ("cleanup.policy", "zap")])
        topic["configs"] = [{"name": config[0], "value": config[1]}] if config else []
        topics.append(topic)
    body = {"topics": topics, "timeoutMs": 5000, "validateOnly": t.often(0.3)}
    t.ask("CreateTopics", body)
    time.sleep(0.3)  # Kafka's controller tells the broker a little later


def create_partitions(t):
    assignments = t.random.choice([None, None, [{"brokerIds": [1]}], [{"brokerIds": [2]}]])
    topic = {"name": f"{t.names}{t.random.randrange(3)}", "assignments": assignments}
    topic["count"] = t.random.choice([0, 1, 2, 3, -1])
    body = {"topics": [topic], "timeoutMs": 3000, "validateOnly": t.often(0.3)}
    t.ask("CreatePartitions", body)
    time.sleep(0.3)


def delete_topics(t):
    names = [f"{t.names}{number}" for number in t.some([0, 1, 2, 7], 1, 2)]
    body = {"topics": [{"name": name} for name in names], "topicNames": names}
    t.ask("DeleteTopics", body | {"timeoutMs": 3000})
    time.sleep(0.3)


def describe_configs(t):
    keys = t.random.choice([["retention.ms", "cleanup.policy"], ["nope"], ["max.message.bytes"]])
    name = t.random.choice([*t.topics, f"{t.names}0"])
    resource = {"resourceType": 2, "resourceName": name, "configurationKeys": keys}
    t.ask("DescribeConfigs", {"resources": [resource], "includeSynonyms": t.often(0.5)})


KINDS = {
    "group": [join] * 6 + [sync] * 6 + [heartbeat] * 3 + [leave] * 2 + [offset_commit] * 2
    + [offset_fetch, describe_groups, describe_groups, delete_groups, find_coordinator],
    "offsets": [offset_commit] * 6 + [offset_fetch] * 6 + [offset_delete] * 3
    + [delete_groups, join, describe_groups, find_coordinator, heartbeat],
    "txn": [init_producer_id, add_partitions, add_offsets, end_txn, offset_fetch] * 3
    + [txn_offset_commit] * 4 + [produce] * 2 + [fetch, describe_producers, list_offsets],
    "data": [produce] * 6 + [fetch] * 4 + [list_offsets] * 3
    + [leader_epochs, delete_records, describe_producers, init_producer_id, metadata],
    "topics": [create_topics] * 4 + [delete_topics] * 2 + [create_partitions] * 3
    + [metadata, describe_configs, describe_configs],
    "consumers": CONSUMERS,
}  # fmt: skip


def converse(addresses, kind, seed, steps):
    """Run one conversation; return the differences of the responses."""
    both = Both(*addresses)
    try:
        talk = Talk(both, kind, seed)
        for side in both.sides:
            make_topics(side, talk.topics[:2])
        for _ in range(steps):
            talk.random.choice(KINDS[kind])(talk)
            talk.answered()
        return both.differences
    finally:
        both.close()


def say(line):
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def run(addresses, kinds, seeds, steps):
    """Hold all conversations; print each kind of difference once."""
    for address in addresses:
        side = Connections(address)
        make_ready(side)
        side.close()
    for kind in kinds:
        seen = {}
        for seed in seeds:
            for api, version, body, place, theirs, ours in converse(addresses, kind, seed, steps):
                if (api, place) not in seen:
                    say(f"{kind} {seed}: {api} {version}{place}: {theirs!r}, not {ours!r}")
                    say(f"    asked: {body!r}"[:600])
                seen[api, place] = seen.get((api, place), 0) + 1
        say(f"{kind}: {len(seeds)} conversations, {len(seen)} kinds of difference")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kinds", nargs="*", metavar="KIND", choices=[*KINDS, []])
    parser.add_argument("--seeds", nargs=2, type=int, default=(0, 25))
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--kafka", choices=OF_BROKER, default="3.9")
    options = parser.parse_args()
    for row in SERVED_BY[options.kafka].values():
        VERSIONS[row.name] = (row.first, min(row.last, LAST.get(row.name, row.last)))
    VERSIONS["Fetch"] = (4, LAST["Fetch"])
    settings = "".join(f"{name}={value}\n" for name, value in SETTINGS.items())
    with (
        tempfile.TemporaryDirectory() as folder,
        running_broker(Path(folder), settings=settings, version=OF_BROKER[options.kafka]) as kafka,
        Broker(OF_BOTH, kafka=options.kafka) as ours,
    ):
        addresses = []
        for address in (kafka.address, ours.bootstrap_servers):
            host, _, port = address.rpartition(":")
            addresses.append((host, int(port)))
        kinds = [kind for kind in KINDS if options.kafka != "3.9" or kind != "consumers"]
        run(addresses, options.kinds or kinds, range(*options.seeds), options.steps)


if __name__ == "__main__":
    main()
