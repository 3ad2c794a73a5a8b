"""Random requests of consumer groups (KIP-848) for ``random_conversations.py --kafka 4.1``.

Left out is what depends on Kafka's hash tables, random topic ids and threads: ties of assignors,
several topics, expressions that match, and ids that the coordinator makes. Kafka shows a change
some milliseconds after the response that made it, so a description waits.
"""

import time

from recorders.both_brokers import Drawn

SHOWN_S = 0.05
MEMBERS, INSTANCES = ("m0", "m1", "m2"), (None, None, None, "i0", "i1")


def topic_id(t, name):
    """The id of a topic on both servers, if it is there."""
    ids = []
    for side in t.both.sides:
        found = side.ask("main", "Metadata", 12, {"topics": [{"name": name}]})["topics"][0]
        ids.append(found["topicId"])
    return Drawn(*ids)


def heartbeat(t):
    """Join, keep alive, acknowledge or leave; mostly as a member would."""
    choose, group = t.random.choice, t.group()
    known = t.generations.setdefault("epochs", {})
    member_id = choose([*MEMBERS] * 4 + ["nobody"])
    epoch = known.get((group, member_id), 0)
    if t.often(0.2):
        epoch = choose([0, 0, -1, -2, -3, epoch + 1, max(epoch - 1, 0)])
    body = {"groupId": group, "memberId": member_id, "memberEpoch": epoch}
    body["instanceId"] = choose(INSTANCES) if t.often(0.5) else None
    if epoch == 0 or t.often(0.3):
        body["rebalanceTimeoutMs"] = choose([60000] * 9 + [-1])
        body["subscribedTopicNames"] = choose([t.topics[:1], t.topics[::2], [], None])
        body["subscribedTopicRegex"] = choose([None] * 6 + ["[", "(", ""])
        body["serverAssignor"] = choose([None] * 6 + ["uniform", "sticky"])
        body["rackId"] = choose([None] * 6 + ["", "r"])
        body["topicPartitions"] = choose([[]] * 9 + [None])
    if epoch > 0 and t.often(0.5):
        partitions = t.some([0, 1])
        owned = [{"topicId": topic_id(t, t.topics[0]), "partitions": partitions}]
        body["topicPartitions"] = owned if partitions else []
    bodies = t.ask("ConsumerGroupHeartbeat", body)
    if bodies and not bodies[0]["errorCode"]:
        known[group, member_id] = max(bodies[0]["memberEpoch"], 0)


def describe(t):
    time.sleep(SHOWN_S)
    names = t.some([*t.groups, "nogroup"], 1)
    t.ask("ConsumerGroupDescribe", {"groupIds": names, "includeAuthorizedOperations": t.often(0.5)})


def commit(t):
    """Commit as a member of the group, mostly with its epoch."""
    group, member_id = t.group(), t.random.choice([*MEMBERS, "", "nobody"])
    epoch = t.generations.get("epochs", {}).get((group, member_id), -1)
    partitions = [{"partitionIndex": 0, "committedOffset": t.requests, "committedMetadata": ""}]
    body = {"groupId": group, "memberId": member_id, "generationIdOrMemberEpoch": epoch}
    t.ask("OffsetCommit", body | {"topics": [{"name": t.topics[0], "partitions": partitions}]})


def fetch(t):
    """Fetch offsets as a member."""
    group, member_id = t.group(), t.random.choice([*MEMBERS, None])
    epoch = t.generations.get("epochs", {}).get((group, member_id), -1)
    fetched = {"groupId": group, "memberId": member_id, "memberEpoch": epoch, "topics": None}
    t.both.ask("main", "OffsetFetch", 9, {"groups": [fetched], "requireStable": t.often(0.5)})


def describe_classic(t):
    time.sleep(SHOWN_S)
    t.ask("DescribeGroups", {"groups": t.some([*t.groups, "nogroup"], 1)})


CONSUMERS = [heartbeat] * 12 + [describe] * 3 + [commit, fetch, describe_classic]
