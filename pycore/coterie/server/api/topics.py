"""CreateTopics, DeleteTopics and CreatePartitions.

Messages are Kafka's. Source: ControllerApis, ReplicationControlManager of Kafka 3.9.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from coterie.base.settings import InvalidConfig
from coterie.base.topic_names import name_refusal
from coterie.server.api.call import Call, Slices
from coterie.server.api.configs import of_topic
from coterie.server.api.entry_errors import EntryError
from coterie.server.api.rows_in_slices import SLICE_ENTRIES, Pace, answer_in_slices
from coterie.server.services.topics import METADATA_TOPIC, Topic
from coterie.server.topic_configs import check_configs
from coterie.values import Error
from coterie.wire import NO_ID

Body = dict[str, Any]
Rows = Iterator[Body | None]
ConfigRows = dict[tuple[tuple[str, str], ...], list[Body]]

_TOO_MANY = 10000
_CONFIGS_SINCE = 5
_TOPIC_ENTRIES = 10  # a topic's deletion takes as long as that of so many partitions
_NOT_HOSTED = "This server does not host this topic-partition."


def create_topics(call: Call) -> Slices:
    """Create topics, in slices: other requests are handled between them."""
    counts = Counter(topic["name"] for topic in call.body["topics"])
    return answer_in_slices(call, lambda rows: {"topics": rows}, _created(call, counts))


def _created(call: Call, counts: Counter[str]) -> Iterator[Body]:
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
    """Refuse an invalid replica list; its brokers are checked in the order of their ids."""
    beginning = "The manual partition assignment includes"
    message = None if brokers else f"{beginning} an empty replica list."
    previous = None
    for broker in sorted(brokers):
        if broker not in call.cluster.nodes:
            message = f"{beginning} broker {broker}, but no such broker is registered."
        elif broker == previous:
            message = f"{beginning} the broker {broker} more than once."
        if message is not None:
            break
        previous = broker
    if message is not None:
        raise EntryError(Error.INVALID_REPLICA_ASSIGNMENT, message)


def delete_topics(call: Call) -> Slices:
    """Delete topics by name, or (version 6 and later) by id, in slices."""
    return answer_in_slices(call, lambda rows: {"responses": rows}, _deleted(call))


def _deleted(call: Call) -> Rows:
    """Yield the row of each topic, those without an error last, when they are deleted."""
    names = Counter(call.body["topicNames"])
    ids: Counter[str] = Counter()
    for entry in call.body["topics"]:
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
            yield _refused(name, Error.INVALID_REQUEST, message, topicId=topic_id)
    topics = call.cluster.topics
    deleted: dict[str, Topic] = {}
    yield from _found_by_id(call, ids, deleted)
    yield from _found_by_name(call, names, deleted)
    most = max(SLICE_ENTRIES, call.cluster.groups.count)
    for number, batch in enumerate(_batches(deleted.values(), most)):
        if number:
            yield None
        present = [topic for topic in batch if topics.get(topic.name) is topic]
        if present:
            topics.delete(*[topic.name for topic in present])
        for topic in batch:
            if topic in present:
                yield _refused(topic.name, Error.NONE, None, topicId=topic.topic_id)
            else:  # another request has deleted it between two slices
                yield _refused(topic.name, Error.UNKNOWN_TOPIC_OR_PARTITION, _NOT_HOSTED)


def _batches(topics: Iterable[Topic], most: int) -> Iterator[list[Topic]]:
    """Divide topics into batches, each about as long as the pass over all groups that it takes."""
    batch: list[Topic] = []
    count = 0
    for topic in topics:
        batch.append(topic)
        count += _TOPIC_ENTRIES + len(topic.partitions)
        if count >= most:
            yield batch
            batch, count = [], 0
    if batch:
        yield batch


def _found_by_id(call: Call, ids: Counter[str], found: dict[str, Topic]) -> Rows:
    """Add the topics with these ids; yield the rows of the others."""
    pace = Pace()
    for topic_id, times in ids.items():
        if pace.is_over():
            yield None
        topic = call.cluster.topics.by_id(topic_id)
        if times > 1:
            message = "Duplicate topic id."
            yield _refused(None, Error.INVALID_REQUEST, message, topicId=topic_id)
        elif topic is None:
            message = "This server does not host this topic ID."
            yield _refused(None, Error.UNKNOWN_TOPIC_ID, message, topicId=topic_id)
        else:
            found[topic_id] = topic


def _found_by_name(call: Call, names: Counter[str], found: dict[str, Topic]) -> Rows:
    """Add the topics with these names; yield the rows of the others."""
    pace = Pace()
    for name, times in names.items():
        if pace.is_over():
            yield None
        topic = call.cluster.topics.get(name)
        if times > 1:
            yield _refused(name, Error.INVALID_REQUEST, "Duplicate topic name.")
        elif topic is None:
            yield _refused(name, Error.UNKNOWN_TOPIC_OR_PARTITION, _NOT_HOSTED)
        elif topic.topic_id in found:
            del found[topic.topic_id]
            message = "The provided topic name maps to an ID that was already supplied."
            yield _refused(name, Error.INVALID_REQUEST, message)
        else:
            found[topic.topic_id] = topic


def create_partitions(call: Call) -> Slices:
    return answer_in_slices(call, lambda rows: {"results": rows}, _grown(call))


def _grown(call: Call) -> Rows:
    """Add the partitions of each topic and yield its row."""
    counts = Counter(topic["name"] for topic in call.body["topics"])
    for name, times in counts.items():
        if times > 1:
            yield _refused(name, Error.INVALID_REQUEST, "Duplicate topic name.")
    pace = Pace()
    for topic in call.body["topics"]:
        if counts[topic["name"]] > 1:
            continue
        try:
            added = _grow(call, topic)
            yield _refused(topic["name"], Error.NONE, None)
            if pace.is_over(added):
                yield None
        except EntryError as refused:
            yield _refused(topic["name"], refused.error, refused.message)


def _grow(call: Call, request: Body) -> int:
    """Add partitions to one topic; return their number."""
    name, count = request["name"], request["count"]
    topic = call.cluster.topics.get(name)
    if topic is None:
        raise EntryError(Error.UNKNOWN_TOPIC_OR_PARTITION, None)
    now: int = len(topic.partitions)
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
    return int(count - now)
