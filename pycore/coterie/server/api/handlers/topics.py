"""CreateTopics, DeleteTopics and CreatePartitions.

Messages are Kafka's. Source: ControllerApis, ReplicationControlManager of Kafka 3.9.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from coterie.server.api.call import Call, Slices
from coterie.server.api.handlers.configs import of_topic
from coterie.server.api.handlers.entry_errors import EntryError
from coterie.server.api.rows_in_slices import answer_in_slices
from coterie.server.services.data.topic_configs import InvalidConfig, check_configs
from coterie.server.services.data.topics import METADATA_TOPIC, NO_ID, Topic, name_refusal
from coterie.values import Error

__all__ = ["create_partitions", "create_topics", "delete_topics"]

Body = dict[str, Any]
ConfigRows = dict[tuple[tuple[str, str], ...], list[Body]]

_TOO_MANY = 10000
_CONFIGS_SINCE = 5


def create_topics(call: Call) -> Slices:
    """Create topics, in slices: other requests are handled between them."""
    counts = Counter(topic["name"] for topic in call.body["topics"])
    return answer_in_slices(call, {}, "topics", _created(call, counts), len(counts))


def _created(call: Call, counts: Counter[str]) -> Iterator[Body]:
    """Create each topic and yield its row."""
    config_rows: ConfigRows = {}  # of topics with the same settings
    for topic in call.body["topics"]:
        name = topic["name"]
        if counts[name] > 1:
            continue
        try:
            if name == METADATA_TOPIC:
                message = f"Creation of internal topic {name} is prohibited."
                raise EntryError(Error.INVALID_REQUEST, message)
            yield _create(call, topic, config_rows)
        except EntryError as refused:
            yield _refused(name, refused.error, refused.message)
    for name, times in counts.items():
        if times > 1:
            yield _refused(name, Error.INVALID_REQUEST, "Duplicate topic name.")


def _refused(name: str | None, error: Error, message: str | None, **more: Any) -> Body:
    return {"name": name, "errorCode": error, "errorMessage": message, **more}


def _create(call: Call, request: Body, config_rows: ConfigRows) -> Body:
    name, topics = request["name"], call.cluster.topics
    refusal = name_refusal(name)
    if refusal is not None:
        raise EntryError(Error.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {refusal}")
    if topics.get(name) is not None:
        raise EntryError(Error.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    other = topics.colliding(name)
    if other is not None:
        message = f"Topic '{name}' collides with existing topic: {other}"
        raise EntryError(Error.INVALID_TOPIC_EXCEPTION, message)
    configs = _configs(call, request["configs"])
    count = _count(call, request)
    if call.body["validateOnly"]:
        topic = Topic(name, call.cluster.ids.uuid(), configs)
    else:
        topic = topics.create(name, count, configs)
    if call.api_version < _CONFIGS_SINCE:
        return _refused(name, Error.NONE, None, numPartitions=count)
    alike = tuple(topic.configs.items())
    if alike not in config_rows:
        config_rows[alike] = _config_rows(call, topic)
    return {
        "name": name,
        "topicId": topic.topic_id,
        "errorCode": 0,
        "errorMessage": None,
        "numPartitions": count,
        "replicationFactor": 1,
        "configs": config_rows[alike],
    }


def _config_rows(call: Call, topic: Topic) -> list[Body]:
    return [
        {
            "name": row["name"],
            "value": row["value"],
            "readOnly": False,
            "configSource": row["configSource"],
            "isSensitive": False,
        }
        for row in of_topic(call, topic)
    ]


def _configs(call: Call, entries: list[Body]) -> Mapping[str, str]:
    nulls = [entry["name"] for entry in entries if entry["value"] is None]
    if nulls:
        message = f"Null value not supported for topic configs: {','.join(nulls)}"
        raise EntryError(Error.INVALID_CONFIG, message)
    configs = {entry["name"]: entry["value"] for entry in entries}
    try:
        check_configs(call.cluster.topics.known_configs, configs)
    except InvalidConfig as error:
        raise EntryError(Error.INVALID_CONFIG, str(error)) from None
    return configs


def _count(call: Call, request: Body) -> int:
    """Return the partition count of a new topic."""
    if request["assignments"]:
        if request["replicationFactor"] != -1:
            raise EntryError(
                Error.INVALID_REQUEST,
                "A manual partition assignment was specified, but replication factor was not "
                "set to -1.",
            )
        if request["numPartitions"] != -1:
            raise EntryError(
                Error.INVALID_REQUEST,
                "A manual partition assignment was specified, but numPartitions was not set to -1.",
            )
        return _assigned(call, request["assignments"])
    if request["replicationFactor"] < -1 or request["replicationFactor"] == 0:
        raise EntryError(
            Error.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if request["numPartitions"] < -1 or request["numPartitions"] == 0:
        raise EntryError(
            Error.INVALID_PARTITIONS,
            "Number of partitions was set to an invalid non-positive value.",
        )
    brokers, factor = len(call.cluster.nodes), request["replicationFactor"]
    if factor > brokers:
        raise EntryError(
            Error.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {factor} time(s): The target replication factor "
            f"of {factor} cannot be reached because only {brokers} broker(s) are registered.",
        )
    count: int = request["numPartitions"]
    if count > _TOO_MANY:
        raise EntryError(
            Error.POLICY_VIOLATION, "Excessively large number of partitions per request."
        )
    return call.cluster.config["num.partitions"] if count == -1 else count


def _assigned(call: Call, assignments: list[Body]) -> int:
    """Return the partition count of a manual assignment."""
    seen: set[int] = set()
    for assignment in assignments:
        index = assignment["partitionIndex"]
        if index in seen:
            raise EntryError(
                Error.INVALID_REPLICA_ASSIGNMENT,
                f"Found multiple manual partition assignments for partition {index}",
            )
        seen.add(index)
        _replicas(call, assignment["brokerIds"])
    if seen != set(range(len(seen))):
        raise EntryError(
            Error.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        )
    return len(seen)


def _replicas(call: Call, brokers: list[int]) -> None:
    """Refuse an invalid replica list."""
    message = None
    if not brokers:
        message = "The manual partition assignment includes an empty replica list."
    elif len(set(brokers)) < len(brokers):
        twice = next(b for b in sorted(brokers) if brokers.count(b) > 1)
        message = f"The manual partition assignment includes the broker {twice} more than once."
    else:
        unknown = [b for b in sorted(brokers) if b not in call.cluster.nodes]
        if unknown:
            message = (
                f"The manual partition assignment includes broker {unknown[0]}, "
                "but no such broker is registered."
            )
    if message is not None:
        raise EntryError(Error.INVALID_REPLICA_ASSIGNMENT, message)


def delete_topics(call: Call) -> None:
    """Delete topics by name, or (version 6 and later) by id."""
    body = call.body
    answers: list[Body] = []
    names = Counter(body["topicNames"])
    ids: Counter[str] = Counter()
    for entry in body["topics"]:
        name, topic_id = entry["name"], entry["topicId"]
        if name is not None and topic_id == NO_ID:
            names[name] += 1
        elif name is None and topic_id != NO_ID:
            ids[topic_id] += 1
        else:
            neither = name is None
            message = (
                "Neither topic name nor id were specified." if neither
                else "You may not specify both topic name and topic id."
            )  # fmt: skip
            answers.append(_refused(name, Error.INVALID_REQUEST, message, topicId=topic_id))
    deleted: dict[str, Topic] = {}
    topics = call.cluster.topics
    for topic_id, times in ids.items():
        topic = topics.by_id(topic_id)
        if times > 1:
            error, message = Error.INVALID_REQUEST, "Duplicate topic id."
        elif topic is None:
            error, message = Error.UNKNOWN_TOPIC_ID, "This server does not host this topic ID."
        else:
            deleted[topic.topic_id] = topic
            continue
        answers.append(_refused(None, error, message, topicId=topic_id))
    for name, times in names.items():
        topic = topics.get(name)
        if times > 1:
            error, message = Error.INVALID_REQUEST, "Duplicate topic name."
        elif topic is None:
            error = Error.UNKNOWN_TOPIC_OR_PARTITION
            message = "This server does not host this topic-partition."
        elif topic.topic_id in deleted:
            del deleted[topic.topic_id]
            error = Error.INVALID_REQUEST
            message = "The provided topic name maps to an ID that was already supplied."
        else:
            deleted[topic.topic_id] = topic
            continue
        answers.append(_refused(name, error, message))
    for topic in deleted.values():
        topics.delete(topic.name)
        answers.append(_refused(topic.name, Error.NONE, None, topicId=topic.topic_id))
    return call.answer({"responses": answers})


def create_partitions(call: Call) -> None:
    """Add partitions to topics."""
    counts = Counter(topic["name"] for topic in call.body["topics"])
    answers = [
        _refused(name, Error.INVALID_REQUEST, "Duplicate topic name.")
        for name, times in counts.items()
        if times > 1
    ]
    for topic in call.body["topics"]:
        if counts[topic["name"]] > 1:
            continue
        try:
            _grow(call, topic)
            answers.append(_refused(topic["name"], Error.NONE, None))
        except EntryError as refused:
            answers.append(_refused(topic["name"], refused.error, refused.message))
    return call.answer({"results": answers})


def _grow(call: Call, request: Body) -> None:
    name, count = request["name"], request["count"]
    topic = call.cluster.topics.get(name)
    if topic is None:
        raise EntryError(Error.UNKNOWN_TOPIC_OR_PARTITION, None)
    now = len(topic.partitions)
    if count == now:
        raise EntryError(Error.INVALID_PARTITIONS, f"Topic already has {now} partition(s).")
    if count < now:
        raise EntryError(
            Error.INVALID_PARTITIONS,
            f"The topic {name} currently has {now} partition(s); {count} would not be an increase.",
        )
    if request["assignments"] is not None:
        if len(request["assignments"]) != count - now:
            raise EntryError(
                Error.INVALID_REPLICA_ASSIGNMENT,
                f"Attempted to add {count - now} additional partition(s), but only "
                f"{len(request['assignments'])} assignment(s) were specified.",
            )
        for assignment in request["assignments"]:
            _replicas(call, assignment["brokerIds"])
    if count - now > _TOO_MANY:
        raise EntryError(Error.UNKNOWN_SERVER_ERROR, None)
    if not call.body["validateOnly"]:
        call.cluster.topics.grow(name, count)
