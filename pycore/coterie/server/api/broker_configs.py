"""The settings of brokers as DescribeConfigs returns them: static, dynamic and default values.

Source: ConfigHelper and DynamicBrokerConfig of Kafka 3.9.
"""

from __future__ import annotations

from typing import Any

from coterie.base.settings import INT, PASSWORD, broker_settings
from coterie.server.api.call import Call
from coterie.server.config import DEFAULTS
from coterie.server.services.broker_configs import (
    CLUSTER_DEFAULT,
    CLUSTER_WIDE,
    DYNAMIC,
    base_name,
)

Body = dict[str, Any]

# The sources of a value (ConfigSource).
OF_TOPIC, DYNAMIC_BROKER, DYNAMIC_DEFAULT, STATIC, DEFAULT = range(1, 6)
OF_GROUP = 8
# Broker setting -> the synonym that has the default. It is listed only behind a value that is set:
# ConfigHelper drops all that comes before the setting's own name.
DEFAULT_SYNONYM = {
    "log.flush.interval.ms": ("log.flush.scheduler.interval.ms", str(2**63 - 1)),
    "log.retention.ms": ("log.retention.hours", "168"),
    "log.roll.jitter.ms": ("log.roll.jitter.hours", "0"),
    "log.roll.ms": ("log.roll.hours", "168"),
}
WITHOUT_DEFAULT = {"log.roll.ms", "log.roll.jitter.ms", "log.flush.interval.ms"}
_ASSIGNORS = "org.apache.kafka.coordinator.group.assignor."
# Release -> setting -> its default there, where it is another one; None: the setting is not shown.
_OF_RELEASE: dict[str, dict[str, str | None]] = {
    "3.9": {
        "group.consumer.assignors": f"{_ASSIGNORS}UniformAssignor,{_ASSIGNORS}RangeAssignor",
        "group.consumer.migration.policy": None,
        "group.consumer.regex.refresh.interval.ms": None,
    },
    "4.1": {
        "group.consumer.regex.refresh.interval.ms": None,
        "metric.reporters": "org.apache.kafka.common.metrics.JmxReporter",
        "num.recovery.threads.per.data.dir": "2",
        "offsets.commit.required.acks": None,
    },
}
_OF_RELEASE["4.4"] = dict(_OF_RELEASE["4.1"])
for _kind in ("", "min.", "max."):
    _OF_RELEASE["3.9"][f"group.consumer.{_kind}assignment.interval.ms"] = None
    _OF_RELEASE["4.1"][f"group.consumer.{_kind}assignment.interval.ms"] = None


def of_broker(call: Call) -> list[Body]:
    """Return the known settings of this broker, with the dynamic ones."""
    config = call.cluster.config
    rows = {
        name: _broker_row(name, value, DEFAULTS[name], broker_settings()[name].type)
        for name, value in config.items()
        if name in DEFAULTS and not name.startswith("coterie.")
    }
    for setting in CLUSTER_WIDE.values():
        if setting.name not in rows:
            default = setting.default
            rows[setting.name] = _broker_row(setting.name, default, default, setting.type)
    for row in call.cluster.topics.known_configs.values():
        if row.server is not None and row.server not in WITHOUT_DEFAULT:
            value, default = rows.pop(row.name, None), row.default
            text = call.cluster.topics.static_defaults.get(row.name, default)
            if value is not None:  # a name of our own for Kafka's
                text = value["value"]
            if row.server in rows:
                text = rows[row.server]["value"]
            rows[row.server] = _broker_row(row.server, text, default, row.type)
            if row.server in DEFAULT_SYNONYM:
                name, default_value = DEFAULT_SYNONYM[row.server]
                rows[name] = _broker_row(name, default_value, default_value, INT)
                if rows[row.server]["configSource"] == DEFAULT:  # not set: its value is null
                    rows[row.server].update(value=None, synonyms=[])
                else:
                    rows[row.server]["synonyms"][-1:] = rows[name]["synonyms"]
    for name, other_default in _OF_RELEASE[call.cluster.release.name].items():
        if other_default is None:
            del rows[name]
        elif rows[name]["configSource"] == DEFAULT:
            synonyms = [synonym(name, other_default, DEFAULT)]
            rows[name].update(value=other_default, synonyms=synonyms)
    for name in ("broker.id", "node.id"):
        rows[name] = _broker_row(name, call.node.id, -1, INT)
    for name in call.cluster.broker_configs.effective(call.node.id):
        _set_dynamic(call, rows, name)
    for name in rows.keys() & DYNAMIC.keys():
        rows[name]["readOnly"] = False
    return [rows[name] for name in sorted(rows)]


def _set_dynamic(call: Call, rows: dict[str, Body], name: str) -> None:
    """Put the dynamic values of a setting before its other values."""
    base = base_name(name)
    setting = DYNAMIC[base]
    row = rows.setdefault(name, config_row(name, setting.type, [], read_only=True))
    inherited = row["synonyms"]
    if not inherited:
        if name in DEFAULT_SYNONYM:
            inherited = [synonym(*DEFAULT_SYNONYM[name], DEFAULT)]
        elif base == name:
            inherited = [synonym(name, setting.default, DEFAULT)] if setting.default else []
        elif base in rows:
            inherited = rows[base]["synonyms"]
    synonyms = dynamic_synonyms(call, name)
    rows[name] = config_row(name, row["configType"], [*synonyms, *inherited], read_only=True)


def of_all_brokers(call: Call) -> list[Body]:
    return [
        config_row(
            *(name, DYNAMIC[base_name(name)].type),
            [synonym(name, _shown(name, text), DYNAMIC_DEFAULT)],
            read_only=name not in DYNAMIC,
        )
        for name, text in sorted(call.cluster.broker_configs.of(CLUSTER_DEFAULT).items())
    ]


def dynamic_synonyms(call: Call, name: str) -> list[Body]:
    """Return the dynamic values of a broker's setting, by precedence."""
    configs = call.cluster.broker_configs
    return [
        synonym(name, _shown(name, configs.of(resource)[name]), source)
        for resource, source in (
            (str(call.node.id), DYNAMIC_BROKER),
            (CLUSTER_DEFAULT, DYNAMIC_DEFAULT),
        )
        if name in configs.of(resource)
    ]


def synonym(name: str, value: str | None, source: int) -> Body:
    return {"name": name, "value": value, "source": source}


def _shown(name: str, text: str) -> str | None:
    """Return a value; None for a password, as in Kafka."""
    return None if DYNAMIC[base_name(name)].type == PASSWORD else text


def config_row(
    name: str, kind: int, synonyms: list[Body], *, read_only: bool, value: str | None = None
) -> Body:
    """Return a setting with its values by precedence; ``value`` is the one without a synonym."""
    return {
        "name": name,
        "value": synonyms[0]["value"] if synonyms else value,
        "readOnly": read_only,
        "configSource": synonyms[0]["source"] if synonyms else DEFAULT,
        "isSensitive": kind == PASSWORD,
        "synonyms": synonyms,
        "configType": kind,
        "documentation": None,
    }


def _broker_row(name: str, value: object, default: object, kind: int) -> Body:
    text, default_text = _text(value), _text(default)
    synonyms = [] if text == default_text else [synonym(name, text, STATIC)]
    synonyms.append(synonym(name, default_text, DEFAULT))
    return config_row(name, kind, synonyms, read_only=True)


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value).lower() if isinstance(value, bool) else str(value)
