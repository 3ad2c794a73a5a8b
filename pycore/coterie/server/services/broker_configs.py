"""The dynamic settings of brokers: of one broker, and the defaults of all brokers.

Source: DynamicBrokerConfig, ConfigAdminManager and the ConfigDef of KafkaConfig of Kafka 3.9. A few
settings have an effect here (EFFECTIVE); the others are only stored and described.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from coterie.base.settings import InvalidConfig, Setting, parse_value, settings_with
from coterie.server.services.topics import Topics
from coterie.server.topic_configs import EFFECTIVE_TOPIC_CONFIGS, TOPIC_CONFIGS

CLUSTER_DEFAULT = ""  # the resource name of the defaults of all brokers
MAX_CONNECTIONS = "max.connections"
MIN_ISR = "min.insync.replicas"
_LISTENER = re.compile(r"listener\.name\.[^.]*\.(.*)")

CLUSTER_WIDE = settings_with("dynamic")  # beside the defaults of topics
_OF_LISTENERS = settings_with("of-listener")
_PER_BROKER = settings_with("of-listener", "of-one-broker")
_THREAD_COUNTS = settings_with("threads")
_FOR_ALL_BROKERS = {MAX_CONNECTIONS, "max.connection.creation.rate", "num.network.threads"}
_TOPIC_DEFAULTS = {
    row.server: row
    for row in TOPIC_CONFIGS.values()
    if row.server is not None and row.name != "message.format.version"
}

DYNAMIC: Mapping[str, Setting] = {
    **{server: row._replace(name=server) for server, row in _TOPIC_DEFAULTS.items()},
    **CLUSTER_WIDE,
    **_PER_BROKER,
}
EFFECTIVE = frozenset(
    server for server, row in _TOPIC_DEFAULTS.items() if row.name in EFFECTIVE_TOPIC_CONFIGS
) | {MAX_CONNECTIONS}


def base_name(name: str) -> str:
    """Return the name of a setting without the prefix of a listener."""
    prefixed = _LISTENER.fullmatch(name)
    return name if prefixed is None else prefixed[1]


def check_broker_configs(
    configs: Mapping[str, str], resource: str, effective: Mapping[str, str]
) -> None:
    """Check all dynamic settings of a resource.

    Parameters
    ----------
    resource
        The id of a broker, or CLUSTER_DEFAULT.
    effective
        The settings that apply to the broker until now.
    """
    _refuse(
        "Cannot update these configs dynamically",
        (name for name in configs if base_name(name) not in DYNAMIC),
    )
    _refuse(
        "These security configs can be dynamically updated only per-listener using the listener "
        "prefix",
        (name for name in configs if name in _OF_LISTENERS),
        kind="HashSet",
    )
    for name, text in configs.items():
        parse_value(DYNAMIC[base_name(name)], text)
    if resource == CLUSTER_DEFAULT:
        _refuse(
            "Cannot update these configs at default cluster level, broker id must be specified",
            (name for name in configs if _is_per_broker(name)),
        )
    for name in _THREAD_COUNTS.keys() & configs.keys():
        current = int(effective.get(name, DYNAMIC[name].default))
        _check_thread_count(name, int(configs[name]), current)


def _is_per_broker(name: str) -> bool:
    base = base_name(name)
    return base not in _FOR_ALL_BROKERS if base != name else base in _PER_BROKER


def _refuse(message: str, names: Iterable[str], *, kind: str = "Set") -> None:
    """Refuse settings, in the form of Scala's collection of that kind."""
    listed = ", ".join(names)
    if listed:
        raise InvalidConfig(f"{message}: {kind}({listed})")


def _check_thread_count(name: str, count: int, current: int) -> None:
    """Refuse to change a number of threads by more than a factor of 2."""
    if count < current // 2:
        limit = f"be at least half the current value {current}"
    elif count > current * 2:
        limit = f"not be greater than double the current value {current}"
    else:
        return
    raise InvalidConfig(
        "Invalid value org.apache.kafka.common.config.ConfigException: Dynamic thread count update "
        f"validation failed for {name}={count}, value should {limit} for configuration Invalid "
        "dynamic configuration"
    )


class BrokerConfigs:
    """The dynamic settings of a cluster; topic defaults among them are applied to its topics."""

    def __init__(self, topics: Topics, *, elects_by_isr: bool = False) -> None:
        self._topics = topics
        self._configs: dict[str, dict[str, str]] = {}
        if elects_by_isr:  # Kafka 4 sets it for all brokers then
            least = topics.static_defaults.get(MIN_ISR, "1")
            self.replace(CLUSTER_DEFAULT, {MIN_ISR: least}, -1)

    def of(self, resource: str) -> Mapping[str, str]:
        """Return the settings of a broker, by its id, or of CLUSTER_DEFAULT."""
        return self._configs.get(resource, {})

    def effective(self, node_id: int) -> dict[str, str]:
        """Return the settings that apply to a broker; its own override the defaults."""
        return {**self.of(CLUSTER_DEFAULT), **self.of(str(node_id))}

    def replace(self, resource: str, configs: Mapping[str, str], node_id: int) -> None:
        """Set all settings of a resource, which were checked; ``node_id`` leads the topics."""
        self._configs[resource] = dict(configs)
        dynamic = self.effective(node_id)
        self._topics.override_defaults(
            {row.name: dynamic[server] for server, row in _TOPIC_DEFAULTS.items()
             if server in dynamic}
        )  # fmt: skip

    def max_connections(self, node_id: int, prefix: str = "") -> int | None:
        """Return the limit of connections of a broker, or of a listener; None: it is not set."""
        text = self.effective(node_id).get(prefix + MAX_CONNECTIONS)
        return None if text is None else int(text)
