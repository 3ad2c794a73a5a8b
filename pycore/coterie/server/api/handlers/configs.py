"""DescribeConfigs, AlterConfigs and IncrementalAlterConfigs.

Source: ConfigHelper, ConfigAdminManager, ConfigurationControlManager of Kafka 3.9.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from coterie.server.api.call import Call
from coterie.server.api.handlers.entry_errors import Wrong
from coterie.server.services.data.topic_configs import (
    TOPIC_CONFIGS,
    InvalidConfig,
    TopicConfig,
    check_configs,
)
from coterie.server.services.data.topics import Topic, name_refusal
from coterie.values import Error

__all__ = ["alter_configs", "describe_configs", "incremental_alter_configs", "of_topic"]

Body = dict[str, Any]

_TOPIC, _BROKER, _BROKER_LOGGER, _CLIENT_METRICS = 2, 4, 8, 16
_OF_TOPIC, _STATIC, _DEFAULT = 1, 4, 5  # where a value comes from
_SET, _DELETE, _APPEND, _SUBTRACT = range(4)
_LIST = 7
_BOOLEAN, _STRING, _INT, _LONG, _DOUBLE = 1, 2, 3, 5, 6
# The broker's setting that has a default where several may give one. It is told behind one that is
# set, and not alone: ConfigHelper drops all that comes before the setting's own name.
_GIVES_DEFAULT = {
    "log.retention.ms": ("log.retention.hours", "168"),
}
_WITHOUT_DEFAULT = {"log.roll.ms", "log.roll.jitter.ms", "log.flush.interval.ms"}
_LONGS = {
    "connections.max.idle.ms",
    "connections.max.reauth.ms",
    "offsets.retention.check.interval.ms",
}
_SHORT, _SHORTS = 4, {"offsets.commit.required.acks"}
# Settings that a broker of Kafka takes while it runs, beside those that are defaults of topics.
_DYNAMIC = {"max.connections"}
_MALFORMED = (
    "This most likely occurs because of a request being malformed by the client library or the "
    "message was sent to an incompatible broker. See the broker logs for more details."
)


def describe_configs(call: Call) -> None:
    """Tell the settings of topics and of the broker."""
    results = []
    known = (_TOPIC, _BROKER, _BROKER_LOGGER, _CLIENT_METRICS)
    malformed = any(each["resourceType"] not in known for each in call.body["resources"])
    for each in call.body["resources"]:
        kind, name = each["resourceType"], each["resourceName"]
        result: Body = {"resourceType": kind, "resourceName": name, "errorCode": 0}
        try:
            if malformed:
                raise Wrong(Error.INVALID_REQUEST, _MALFORMED)
            rows = _described(call, kind, name)
        except Wrong as wrong:
            result.update(errorCode=wrong.error, errorMessage=wrong.message or "", configs=[])
        else:
            wanted = each["configurationKeys"]
            result["configs"] = [row for row in rows if not wanted or row["name"] in wanted]
            if not call.body["includeSynonyms"]:
                for row in result["configs"]:
                    row["synonyms"] = []
        results.append(result)
    return call.answer({"results": results})


def _described(call: Call, kind: int, name: str) -> list[Body]:
    if kind == _TOPIC:
        return of_topic(call, _topic(call, name, Error.UNKNOWN_TOPIC_OR_PARTITION, None))
    if kind == _BROKER:
        if not name:
            return []  # nothing is set for all brokers at once
        _own(call, name, " or empty string, but received")
        return _of_broker(call)
    if kind == _BROKER_LOGGER:
        if not name:
            raise Wrong(Error.INVALID_REQUEST, "Broker id must not be empty")
        _own(call, name, " but received")
        return []
    if not name:
        message = "Client metrics subscription name must not be empty"
        raise Wrong(Error.INVALID_REQUEST, message)
    return []


def _own(call: Call, name: str, between: str) -> None:
    """Refuse a broker's id that is no number, or another broker's."""
    try:
        number = int(name)
    except ValueError:
        message = f"Broker id must be an integer, but it is: {name}"
        raise Wrong(Error.INVALID_REQUEST, message) from None
    if number != call.node.id:
        message = f"Unexpected broker id, expected {call.node.id}{between} {name}"
        raise Wrong(Error.INVALID_REQUEST, message)


def _topic(call: Call, name: str, unknown: Error, message: str | None) -> Topic:
    refusal = name_refusal(name)
    if refusal is not None:
        raise Wrong(Error.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {refusal}")
    topic: Topic | None = call.cluster.topics.get(name)
    if topic is None:
        raise Wrong(unknown, message)
    return topic


def of_topic(call: Call, topic: Topic) -> list[Body]:
    """Return all settings of a topic, by name."""
    return [_row(call, topic.configs, config) for config in TOPIC_CONFIGS.values()]


def _row(call: Call, configs: Mapping[str, str], config: TopicConfig) -> Body:
    of_server = call.cluster.topics.defaults.get(config.name)
    synonyms: list[Body] = []
    if config.name in configs:
        synonyms.append(_synonym(config.name, configs[config.name], _OF_TOPIC))
    if config.server is not None:
        if of_server is not None:
            synonyms.append(_synonym(config.server, of_server, _STATIC))
        if config.server in _GIVES_DEFAULT:
            if of_server is not None:
                synonyms.append(_synonym(*_GIVES_DEFAULT[config.server], _DEFAULT))
        elif config.server not in _WITHOUT_DEFAULT:
            synonyms.append(_synonym(config.server, config.default, _DEFAULT))
    value = configs.get(config.name, config.default if of_server is None else of_server)
    return {
        "name": config.name,
        "value": value,
        "readOnly": False,
        "configSource": synonyms[0]["source"] if synonyms else _DEFAULT,
        "isSensitive": False,
        "synonyms": synonyms,
        "configType": config.type,
        "documentation": None,
    }


def _synonym(name: str, value: str, source: int) -> Body:
    return {"name": name, "value": value, "source": source}


def _of_broker(call: Call) -> list[Body]:
    """Return the broker's settings, as far as they are served."""
    from coterie.server.config import DEFAULTS  # the names that are served, and their defaults

    config = call.cluster.config
    rows = {
        name: _broker_row(name, value, DEFAULTS[name], _type(name, value))
        for name, value in config.items()
        if name in DEFAULTS and not name.startswith("coterie.")
    }
    for row in TOPIC_CONFIGS.values():
        if row.server is not None and row.server not in _WITHOUT_DEFAULT:
            value, default = rows.pop(row.name, None), row.default
            text = call.cluster.topics.defaults.get(row.name, default)
            if value is not None:  # a name of our own for Kafka's
                text = value["value"]
            if row.server in rows:
                text = rows[row.server]["value"]
            rows[row.server] = _broker_row(row.server, text, default, row.type)
            if row.server in _GIVES_DEFAULT:
                name, given = _GIVES_DEFAULT[row.server]
                rows[name] = _broker_row(name, given, given, _INT)
                if rows[row.server]["configSource"] == _DEFAULT:  # not set: it has no value
                    rows[row.server].update(value=None, synonyms=[])
                else:
                    rows[row.server]["synonyms"][-1:] = rows[name]["synonyms"]
    for name in ("broker.id", "node.id"):
        rows[name] = _broker_row(name, call.node.id, -1, _INT)
    of_topics = {row.server for row in TOPIC_CONFIGS.values()} - {"log.message.format.version"}
    for dynamic in rows.keys() & (_DYNAMIC | of_topics):
        rows[dynamic]["readOnly"] = False
    return [rows[name] for name in sorted(rows)]


def _broker_row(name: str, value: Any, default: Any, kind: int) -> Body:
    text, told = _text(value), _text(default)
    synonyms = [] if text == told else [_synonym(name, text, _STATIC)]
    synonyms.append(_synonym(name, told, _DEFAULT))
    return {
        "name": name,
        "value": text,
        "readOnly": True,
        "configSource": synonyms[0]["source"],
        "isSensitive": False,
        "synonyms": synonyms,
        "configType": kind,
        "documentation": None,
    }


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _type(name: str, value: Any) -> int:
    if isinstance(value, bool):
        return _BOOLEAN
    if isinstance(value, int):
        return _LONG if name in _LONGS else _SHORT if name in _SHORTS else _INT
    return _DOUBLE if isinstance(value, float) else _STRING


def alter_configs(call: Call) -> None:
    """Set all settings of topics: what is not named goes back to its default."""

    def change(_: Mapping[str, str], given: list[Body]) -> dict[str, str]:
        return {each["name"]: each["value"] for each in given}

    _alter(call, change)


def incremental_alter_configs(call: Call) -> None:
    """Change single settings of topics."""
    _alter(call, _changed)


def _alter(call: Call, change: Callable[[Mapping[str, str], list[Body]], dict[str, str]]) -> None:
    named = Counter((each["resourceType"], each["resourceName"]) for each in call.body["resources"])
    responses = []
    for each in call.body["resources"]:
        kind, name = each["resourceType"], each["resourceName"]
        error, message = Error.NONE, None
        try:
            if named[kind, name] > 1:
                message = "Each resource must appear at most once."
                raise Wrong(Error.INVALID_REQUEST, message)
            _well_formed(each["configs"])
            if kind == _TOPIC:
                _alter_topic(call, name, each["configs"], change)
            else:
                _alter_other(call, kind, name, each["configs"])
        except Wrong as wrong:
            error, message = wrong.error, wrong.message
        responses.append(
            {
                "resourceType": kind,
                "resourceName": name,
                "errorCode": error,
                "errorMessage": message,
            }
        )
    return call.answer({"responses": responses})


def _well_formed(configs: list[Body]) -> None:
    """Refuse settings that are named twice, or set to nothing."""
    if len({each["name"] for each in configs}) < len(configs):
        raise Wrong(Error.INVALID_REQUEST, "Error due to duplicate config keys")
    nulls = [
        each["name"]
        for each in configs
        if each["value"] is None and each.get("configOperation", _SET) != _DELETE
    ]
    if nulls:
        message = f"Null value not supported for : {', '.join(nulls)}"
        raise Wrong(Error.INVALID_REQUEST, message)


def _alter_topic(
    call: Call,
    name: str,
    given: list[Body],
    change: Callable[[Mapping[str, str], list[Body]], dict[str, str]],
) -> None:
    if not name:
        raise Wrong(Error.INVALID_REQUEST, "Default topic resources are not allowed.")
    topic = call.cluster.topics.get(name)
    configs = change({} if topic is None else topic.configs, given)
    try:
        check_configs(configs)
    except InvalidConfig as error:
        raise Wrong(Error.INVALID_CONFIG, str(error)) from None
    message = f"The topic '{name}' does not exist."
    topic = _topic(call, name, Error.UNKNOWN_TOPIC_OR_PARTITION, message)
    if not call.body["validateOnly"]:
        call.cluster.topics.configure(topic, configs)


def _changed(before: Mapping[str, str], given: list[Body]) -> dict[str, str]:
    """Return settings after single changes."""
    configs = dict(before)
    for each in given:
        name, value, operation = each["name"], each["value"], each["configOperation"]
        if operation == _SET:
            configs[name] = value
        elif operation == _DELETE:
            configs.pop(name, None)
        elif operation in (_APPEND, _SUBTRACT):
            row = TOPIC_CONFIGS.get(name)
            if row is None or row.type != _LIST:
                word = "APPEND" if operation == _APPEND else "SUBTRACT"
                message = f"Can't {word} to key {name} because its type is not LIST."
                raise Wrong(Error.INVALID_CONFIG, message)
            words = [word for word in configs.get(name, row.default).split(",") if word]
            for word in value.split(","):
                if operation == _APPEND and word not in words:
                    words.append(word)
                elif operation == _SUBTRACT and word in words:
                    words.remove(word)
            configs[name] = ",".join(words)
        else:
            raise Wrong(Error.UNKNOWN_SERVER_ERROR, None)
    return configs


def _alter_other(call: Call, kind: int, name: str, given: list[Body]) -> None:
    """Refuse what is not a topic: a running broker's settings stay as they are."""
    if kind == _BROKER:
        if name and name != str(call.node.id):
            message = f"Unexpected broker id, expected {call.node.id}, but received {name}"
            raise Wrong(Error.INVALID_REQUEST, message)
        if given:
            names = ", ".join(each["name"] for each in given)
            message = f"Cannot update these configs dynamically: Set({names})"
            raise Wrong(Error.INVALID_REQUEST, message)
        return
    raise Wrong(Error.INVALID_REQUEST, f"Unknown resource type {kind}")
