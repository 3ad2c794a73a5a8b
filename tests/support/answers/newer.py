"""Records of consumer, share and streams groups, drawn: (key version, key, value) each."""

import base64

CONFIGS = [{"key": "retention.ms", "value": "-1"}]


def uuid_of(topic):
    """Return a topic's id."""
    raw = topic.encode()[:15].rjust(16, b"\1")
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def partitions_of(rng, topics):
    """Return some partitions of some topics, by their ids."""
    return [
        {"topicId": uuid_of(topic), "partitions": rng.sample(range(count), rng.randint(0, count))}
        for topic, count in topics.items()
        if rng.random() < 0.6
    ]


def tasks(rng, topics, ending=""):
    """Return active, standby and warm-up tasks."""
    return {
        name + ending: [
            {"subtopologyId": topic, "partitions": list(range(rng.randint(0, 2)))}
            for topic in topics
            if rng.random() < 0.4
        ]
        for name in ("activeTasks", "standbyTasks", "warmupTasks")
    }


def step(rng, kind, group, epoch, topics, now_ms):
    """Return the records that one step in a group's life writes, as Kafka orders them."""
    member = {"groupId": group, "memberId": f"member-{rng.randrange(4)}"}
    of_group = {"groupId": group}
    what = rng.choice(["epoch", "join", "join", "leave", "assign", "assign", "reconcile", "topics"])
    if kind == "consumer":
        versions = {"meta": 3, "topics": 4, "member": 5, "target": 6, "assigned": 7, "current": 8}
    elif kind == "share":
        versions = {"meta": 11, "topics": 9, "member": 10, "target": 12, "assigned": 13}
        versions["current"] = 14
    else:
        versions = {"meta": 17, "topics": 23, "member": 19, "target": 20, "assigned": 21}
        versions["current"] = 22
    meta = versions["meta"], of_group, {"epoch": epoch, "metadataHash": epoch % 3}
    if what == "epoch":
        return [meta]
    if what == "join":
        return [(versions["member"], member, joined(rng, kind, topics)), meta]
    if what == "leave":
        gone = [(versions[name], member, None) for name in ("current", "assigned", "member")]
        if rng.random() < 0.3:
            return [*gone, (versions["target"], of_group, None), (*meta[:2], None)]
        return [*gone, meta]
    if what == "assign":
        target = tasks(rng, topics) if kind == "streams" else {"topicPartitions": []}
        if kind != "streams":
            target["topicPartitions"] = partitions_of(rng, topics)
        epochs = versions["target"], of_group, {"assignmentEpoch": epoch}
        return [(versions["assigned"], member, target), epochs]
    if what == "reconcile":
        return [(versions["current"], member, current(rng, kind, epoch, topics))]
    return about_topics(rng, kind, group, topics, versions["topics"], now_ms)


def joined(rng, kind, topics):
    """Return the recorded fields of a member."""
    told = {
        "instanceId": rng.choice([None, None, "static-1"]),
        "rackId": rng.choice([None, "rack"]),
        "clientId": f"client-{rng.randrange(3)}",
        "clientHost": f"/10.0.0.{rng.randrange(3)}",
        "subscribedTopicNames": [topic for topic in topics if rng.random() < 0.7],
        "subscribedTopicRegex": rng.choice([None, "", "o.*"]),
        "rebalanceTimeoutMs": 45_000,
        "serverAssignor": rng.choice([None, "uniform", "range"]),
    }
    if kind == "consumer" and rng.random() < 0.2:
        old = {"name": "range", "metadata": b"\0\1"}
        told["classicMemberMetadata"] = {"sessionTimeoutMs": 9000, "supportedProtocols": [old]}
    if kind == "streams":
        told |= {"topologyEpoch": 1, "processId": "p", "clientTags": CONFIGS}
        told["userEndpoint"] = rng.choice([None, {"host": "h", "port": 65_535}])
    return told


def current(rng, kind, epoch, topics):
    """Return what a member has, and what it has to give up."""
    told = {"memberEpoch": epoch, "previousMemberEpoch": epoch - 1, "state": rng.randrange(4)}
    if kind == "streams":
        return told | tasks(rng, topics) | tasks(rng, topics, "PendingRevocation")
    told["assignedPartitions"] = partitions_of(rng, topics)
    if kind == "consumer":
        told["partitionsPendingRevocation"] = partitions_of(rng, dict(list(topics.items())[:1]))
    return told


def about_topics(rng, kind, group, topics, version, now_ms):
    """Return the recorded fields of a group's topics."""
    key = {"groupId": group}
    if kind == "streams":
        subtopology = {"subtopologyId": "0", "sourceTopics": list(topics), "sourceTopicRegex": []}
        info = {"name": "c", "partitions": 2, "replicationFactor": 1, "topicConfigs": CONFIGS}
        subtopology |= {"stateChangelogTopics": [info], "repartitionSourceTopics": []}
        of_first = {"sourceTopics": [0], "sourceTopicRegex": [], "repartitionSourceTopics": []}
        subtopology |= {"repartitionSinkTopics": [], "copartitionGroups": [of_first]}
        return [(version, key, {"epoch": 1, "subtopologies": [subtopology]})]
    found = [
        {"topicId": uuid_of(topic), "topicName": topic, "numPartitions": count}
        | {"partitionMetadata": [{"partition": 0, "racks": ["rack"]}]}
        for topic, count in topics.items()
    ]
    told = [(version, key, {"topics": found} if rng.random() < 0.9 else None)]
    if kind == "consumer" and rng.random() < 0.5:
        regex = {"topics": list(topics), "version": 3, "timestamp": now_ms}
        told.append((16, key | {"regularExpression": "o.*"}, regex))
    if kind == "share":
        ids = [{name: one[name] for name in ("topicId", "topicName")} for one in found]
        shared = [one | {"partitions": [0]} for one in ids]
        state = {"initializingTopics": shared[:1], "initializedTopics": shared[1:]}
        told.append((15, key, state | {"deletingTopics": ids[:1]}))
    return told
