"""DescribeConfigs, AlterConfigs and IncrementalAlterConfigs.

Source: ConfigHelper, ConfigAdminManager, ConfigurationControlManager of Kafka 3.9.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from coterie.base.settings import LIST, InvalidConfig, Setting
from coterie.base.topic_names import name_refusal
from coterie.server.api.broker_configs import (
    DEFAULT,
    DEFAULT_SYNONYM,
    OF_GROUP,
    OF_TOPIC,
    STATIC,
    WITHOUT_DEFAULT,
    config_row,
    dynamic_synonyms,
    of_all_brokers,
    of_broker,
    synonym,
)
from coterie.server.api.call import Call, Slices
from coterie.server.api.entry_errors import EntryError
from coterie.server.api.refusals import message_of
from coterie.server.api.rows_in_slices import Pace, answer_in_slices
from coterie.server.rate_limited_log import quoted
from coterie.server.services.broker_configs import (
    CLUSTER_DEFAULT,
    DYNAMIC,
    EFFECTIVE,
    MIN_ISR,
    base_name,
    check_broker_configs,
)
from coterie.server.services.topics import Topic
from coterie.server.topic_configs import check_configs
from coterie.values import Error

Body = dict[str, Any]

_TOPIC, _BROKER, _BROKER_LOGGER, _CLIENT_METRICS, _GROUP = 2, 4, 8, 16, 32
_SET, _DELETE, _APPEND, _SUBTRACT = range(4)


def describe_configs(call: Call) -> Slices:
    """Describe the settings of topics and of the broker, in slices."""
    return answer_in_slices(call, lambda rows: {"results": rows}, _descriptions(call))


def _descriptions(call: Call) -> Iterator[Body]:
    known = resource_types(call)
    malformed = any(resource["resourceType"] not in known for resource in call.body["resources"])
    for resource in call.body["resources"]:
        kind, name = resource["resourceType"], resource["resourceName"]
        result: Body = {"resourceType": kind, "resourceName": name, "errorCode": 0}
        try:
            if malformed:
                raise EntryError(Error.INVALID_REQUEST, message_of(Error.INVALID_REQUEST))
            rows = _described(call, kind, name)
        except EntryError as refused:
            result.update(errorCode=refused.error, errorMessage=refused.message or "", configs=[])
        else:
            keys = set(resource["configurationKeys"] or ())
            result["configs"] = [row for row in rows if not keys or row["name"] in keys]
            if not call.body["includeSynonyms"]:
                for row in result["configs"]:
                    row["synonyms"] = []
        yield result


def _described(call: Call, kind: int, name: str) -> list[Body]:
    if kind == _TOPIC:
        return of_topic(call, _topic(call, name, Error.UNKNOWN_TOPIC_OR_PARTITION, None))
    if kind == _BROKER:
        if name == CLUSTER_DEFAULT:
            return of_all_brokers(call)
        _own(call, name, " or empty string, but received")
        return of_broker(call)
    if kind == _BROKER_LOGGER:
        if not name:
            raise EntryError(Error.INVALID_REQUEST, "Broker id must not be empty")
        _own(call, name, " but received")
        return []
    if kind == _GROUP:
        if not name:
            raise EntryError(Error.INVALID_REQUEST, "Group name must not be empty")
        return _of_group(call, name)
    if not name:
        message = "Client metrics subscription name must not be empty"
        raise EntryError(Error.INVALID_REQUEST, message)
    return []


def _own(call: Call, name: str, between: str, what: str = "Broker id") -> None:
    """Refuse a resource name that is not this broker's id."""
    try:
        number = int(name)
    except ValueError:
        message = f"{what} must be an integer, but it is: {name}"
        raise EntryError(Error.INVALID_REQUEST, message) from None
    if number != call.node.id:
        message = f"Unexpected broker id, expected {call.node.id}{between} {name}"
        raise EntryError(Error.INVALID_REQUEST, message)


def _topic(call: Call, name: str, unknown: Error, message: str | None) -> Topic:
    refusal = name_refusal(name)
    if refusal is not None:
        raise EntryError(Error.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {refusal}")
    topic: Topic | None = call.cluster.topics.get(name)
    if topic is None:
        raise EntryError(unknown, message)
    return topic


def resource_types(call: Call) -> tuple[int, ...]:
    """Return the types of resources that have settings; groups have some since Kafka 4."""
    known = (_TOPIC, _BROKER, _BROKER_LOGGER, _CLIENT_METRICS)
    return (*known, _GROUP) if call.cluster.groups.replays else known


def _of_group(call: Call, group_id: str) -> list[Body]:
    """Return all settings of a group, which need not exist."""
    configs = call.cluster.group_configs
    own = configs.of(group_id)
    return [
        config_row(
            *(name, config.type),
            [synonym(name, own.get(name, config.default), OF_GROUP if name in own else DEFAULT)],
            read_only=False,
        )
        for name, config in configs.known.items()
    ]


def list_config_resources(call: Call) -> None:
    """List the resources that may have settings; version 0 lists client metrics, here none."""
    known = resource_types(call) if call.api_version else (_CLIENT_METRICS,)
    requested = call.body["resourceTypes"] or known
    if not set(requested) <= set(known):
        return call.answer({"errorCode": Error.UNSUPPORTED_VERSION})
    nodes = [str(node_id) for node_id in call.cluster.nodes]
    names = {
        _TOPIC: [topic.name for topic in call.cluster.topics],
        _BROKER: nodes,
        _BROKER_LOGGER: nodes,
        _CLIENT_METRICS: [],
        _GROUP: list(call.cluster.group_configs),
    }
    resources = [
        {"resourceName": name, "resourceType": kind}
        for kind in dict.fromkeys(requested)
        for name in names[kind]
    ]
    return call.answer({"errorCode": 0, "configResources": resources})


def of_topic(call: Call, topic: Topic) -> list[Body]:
    """Return all settings of a topic, in the order of their names."""
    configs = call.cluster.topics.known_configs
    return [_row(call, topic.configs, config) for config in configs.values()]


def _row(call: Call, configs: Mapping[str, str], config: Setting) -> Body:
    topics = call.cluster.topics
    of_server = topics.static_defaults.get(config.name)
    synonyms: list[Body] = []
    if config.name in configs:
        synonyms.append(synonym(config.name, configs[config.name], OF_TOPIC))
    if config.server is not None:
        of_brokers = dynamic_synonyms(call, config.server)
        if of_server is not None:
            of_brokers.append(synonym(config.server, of_server, STATIC))
        synonyms += of_brokers
        if config.server in DEFAULT_SYNONYM:
            if of_brokers:
                synonyms.append(synonym(*DEFAULT_SYNONYM[config.server], DEFAULT))
        elif config.server not in WITHOUT_DEFAULT:
            synonyms.append(synonym(config.server, config.default, DEFAULT))
    value = configs.get(config.name, topics.defaults.get(config.name, config.default))
    return config_row(config.name, config.type, synonyms, read_only=False, value=value)


def alter_configs(call: Call) -> Slices:
    """Replace all settings of resources; settings that are not named return to their defaults."""
    return _alter(call, incremental=False)


def incremental_alter_configs(call: Call) -> Slices:
    return _alter(call, incremental=True)


def _alter(call: Call, *, incremental: bool) -> Slices:
    return answer_in_slices(
        call, lambda rows: {"responses": rows}, _altered(call, incremental=incremental)
    )


def _altered(call: Call, *, incremental: bool) -> Iterator[Body | None]:
    counts = Counter(
        (resource["resourceType"], resource["resourceName"]) for resource in call.body["resources"]
    )
    pace = Pace()
    for resource in call.body["resources"]:
        kind, name = resource["resourceType"], resource["resourceName"]
        error, message = Error.NONE, None
        try:
            if counts[kind, name] > 1:
                message = "Each resource must appear at most once."
                raise EntryError(Error.INVALID_REQUEST, message)
            _well_formed(resource["configs"])
            if kind == _TOPIC:
                _alter_topic(call, name, resource["configs"], incremental=incremental)
            elif kind == _BROKER:
                _alter_broker(call, name, resource["configs"], incremental=incremental)
            elif kind == _GROUP and kind in resource_types(call):
                _alter_group(call, name, resource["configs"], incremental=incremental)
            else:
                raise EntryError(Error.INVALID_REQUEST, f"Unknown resource type {kind}")
        except EntryError as refused:
            error, message = refused.error, refused.message
        yield {
            "resourceType": kind,
            "resourceName": name,
            "errorCode": error,
            "errorMessage": message,
        }
        if pace.is_over(len(resource["configs"])):
            yield None


def _well_formed(configs: list[Body]) -> None:
    if len({entry["name"] for entry in configs}) < len(configs):
        raise EntryError(Error.INVALID_REQUEST, "Error due to duplicate config keys")
    nulls = [
        entry["name"]
        for entry in configs
        if entry["value"] is None and entry.get("configOperation", _SET) != _DELETE
    ]
    if nulls:
        message = f"Null value not supported for : {', '.join(nulls)}"
        raise EntryError(Error.INVALID_REQUEST, message)


def _alter_topic(call: Call, name: str, entries: list[Body], *, incremental: bool) -> None:
    if not name:
        raise EntryError(Error.INVALID_REQUEST, "Default topic resources are not allowed.")
    topic = call.cluster.topics.get(name)
    known = call.cluster.topics.known_configs
    configs = _changed({} if topic is None else topic.configs, entries, known, incremental)
    try:
        check_configs(known, configs)
    except InvalidConfig as error:
        raise EntryError(Error.INVALID_CONFIG, str(error)) from None
    message = f"The topic '{name}' does not exist."
    topic = _topic(call, name, Error.UNKNOWN_TOPIC_OR_PARTITION, message)
    if not call.body["validateOnly"]:
        call.cluster.topics.configure(topic, configs)


def _alter_group(call: Call, name: str, entries: list[Body], *, incremental: bool) -> None:
    if not name:
        raise EntryError(Error.INVALID_REQUEST, "Default group resources are not allowed.")
    group_configs = call.cluster.group_configs
    configs = _changed(group_configs.of(name), entries, group_configs.known, incremental)
    try:
        group_configs.check(configs)
    except InvalidConfig as error:
        raise EntryError(Error.INVALID_CONFIG, str(error)) from None
    if not call.body["validateOnly"]:
        group_configs.replace(name, configs)


def _changed(
    before: Mapping[str, str],
    entries: list[Body],
    known: Mapping[str, Setting],
    incremental: bool,
    *,
    of_broker: bool = False,
) -> dict[str, str]:
    if not incremental:
        return {entry["name"]: entry["value"] for entry in entries}
    configs = dict(before)
    for entry in entries:
        name, value, operation = entry["name"], entry["value"], entry["configOperation"]
        if operation == _SET:
            configs[name] = value
        elif operation == _DELETE:
            configs.pop(name, None)
        elif operation in (_APPEND, _SUBTRACT):
            row = known.get(name)
            if row is None or row.type != LIST:
                raise EntryError(Error.INVALID_CONFIG, _not_a_list(name, operation, of_broker))
            words = [word for word in configs.get(name, row.default).split(",") if word]
            for word in value.split(","):
                if operation == _APPEND and word not in words:
                    words.append(word)
                elif operation == _SUBTRACT and word in words:
                    words.remove(word)
            configs[name] = ",".join(words)
        elif of_broker:
            raise EntryError(Error.INVALID_REQUEST, f"Unknown operations type {operation}")
        else:
            raise EntryError(Error.UNKNOWN_SERVER_ERROR, None)
    return configs


def _not_a_list(name: str, operation: int, of_broker: bool) -> str:
    word = "APPEND" if operation == _APPEND else "SUBTRACT"
    if of_broker:
        return f"Config value {word.lower()} is not allowed for config key: {name}"
    return f"Can't {word} to key {name} because its type is not LIST."


def _refuse_min_isr(name: str, entries: list[Body], *, incremental: bool) -> None:
    """Refuse what eligible leader replicas need to stay as it is."""
    of_isr = [entry for entry in entries if entry["name"] == MIN_ISR]
    if name != CLUSTER_DEFAULT and of_isr:
        message = f"Broker-level {MIN_ISR} cannot be altered while ELR is enabled."
        raise EntryError(Error.INVALID_CONFIG, message)
    removes = (
        any(entry["configOperation"] == _DELETE for entry in of_isr) if incremental else not of_isr
    )
    if name == CLUSTER_DEFAULT and removes:
        message = f"Cluster-level {MIN_ISR} cannot be removed while ELR is enabled."
        raise EntryError(Error.INVALID_CONFIG, message)


def _alter_broker(call: Call, name: str, entries: list[Body], *, incremental: bool) -> None:
    """Change the dynamic settings of this broker, or the defaults of all brokers."""
    if name != CLUSTER_DEFAULT:
        _own(call, name, ", but received", "Node id")
    configs = call.cluster.broker_configs
    if call.cluster.features.elects_by_isr:
        _refuse_min_isr(name, entries, incremental=incremental)
    changed = _changed(configs.of(name), entries, DYNAMIC, incremental, of_broker=True)
    try:
        check_broker_configs(changed, name, configs.effective(call.node.id))
    except InvalidConfig as error:
        raise EntryError(Error.INVALID_REQUEST, str(error)) from None
    if call.body["validateOnly"]:
        return
    configs.replace(name, changed, call.node.id)
    without_effect = sorted(
        entry["name"]
        for entry in entries
        if entry["name"] in changed and base_name(entry["name"]) not in EFFECTIVE
    )
    if without_effect:
        names = ", ".join(map(quoted, without_effect))
        call.cluster.log_limited("broker configs", f"dynamic settings without effect here: {names}")
