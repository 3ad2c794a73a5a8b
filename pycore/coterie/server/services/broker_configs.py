"""The dynamic settings of brokers: of one broker, and the defaults of all brokers.

Source: DynamicBrokerConfig, ConfigAdminManager and the ConfigDef of KafkaConfig of Kafka 3.9. A few
settings have an effect here (EFFECTIVE); the others are only stored and described.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from coterie.server.services.topics import Topics
from coterie.server.topic_configs import (
    BOOLEAN,
    DOUBLE,
    EFFECTIVE_TOPIC_CONFIGS,
    INT,
    LIST,
    LONG,
    STRING,
    TOPIC_CONFIGS,
    InvalidConfig,
    TopicConfig,
    parse_value,
)

SHORT, CLASS, PASSWORD = 4, 8, 9  # further types of DescribeConfigs
CLUSTER_DEFAULT = ""  # the resource name of the defaults of all brokers
MAX_CONNECTIONS = "max.connections"
MIN_ISR = "min.insync.replicas"
_INT32, _INT64, _MAX_DOUBLE = str(2**31 - 1), str(2**63 - 1), "1.7976931348623157E308"
_LISTENER = re.compile(r"listener\.name\.[^.]*\.(.*)")

# The dynamic settings that are not defaults of topics and not of a listener.
CLUSTER_WIDE = (
    TopicConfig("background.threads", INT, "10", None, 1),
    TopicConfig("log.cleaner.backoff.ms", LONG, "15000", None, 0),
    TopicConfig("log.cleaner.dedupe.buffer.size", LONG, "134217728"),
    TopicConfig("log.cleaner.io.buffer.load.factor", DOUBLE, "0.9"),
    TopicConfig("log.cleaner.io.buffer.size", INT, "524288", None, 0),
    TopicConfig("log.cleaner.io.max.bytes.per.second", DOUBLE, _MAX_DOUBLE),
    TopicConfig("log.cleaner.threads", INT, "1", None, 0),
    TopicConfig("max.connection.creation.rate", INT, _INT32, None, 0),
    TopicConfig(MAX_CONNECTIONS, INT, _INT32, None, 0),
    TopicConfig("max.connections.per.ip", INT, _INT32, None, 0),
    TopicConfig("max.connections.per.ip.overrides", STRING, ""),
    TopicConfig("metric.reporters", LIST, ""),
    TopicConfig("num.io.threads", INT, "8", None, 1),
    TopicConfig("num.network.threads", INT, "3", None, 1),
    TopicConfig("num.recovery.threads.per.data.dir", INT, "1", None, 1),
    TopicConfig("num.replica.fetchers", INT, "1"),
    TopicConfig("producer.id.expiration.ms", INT, "86400000", None, 1),
    TopicConfig("remote.fetch.max.wait.ms", INT, "500", None, 1),
    TopicConfig("remote.log.index.file.cache.total.size.bytes", LONG, "1073741824", None, 1),
    TopicConfig("remote.log.manager.copy.max.bytes.per.second", LONG, _INT64, None, 1),
    TopicConfig("remote.log.manager.fetch.max.bytes.per.second", LONG, _INT64, None, 1),
    TopicConfig("transaction.partition.verification.enable", BOOLEAN, "true"),
)
_OF_LISTENERS = {  # of one broker, not of all
    STRING: (
        "advertised.listeners", "listener.security.protocol.map", "listeners",
        "sasl.kerberos.kinit.cmd", "sasl.kerberos.service.name",
        "sasl.mechanism.inter.broker.protocol", "ssl.client.auth",
        "ssl.endpoint.identification.algorithm", "ssl.keymanager.algorithm", "ssl.protocol",
        "ssl.provider", "ssl.secure.random.implementation", "ssl.trustmanager.algorithm",
    ),
    CLASS: ("principal.builder.class", "ssl.engine.factory.class"),
    LIST: (
        "sasl.enabled.mechanisms", "sasl.kerberos.principal.to.local.rules", "ssl.cipher.suites",
        "ssl.enabled.protocols",
    ),
    PASSWORD: ("sasl.jaas.config",),
    DOUBLE: (
        "sasl.kerberos.ticket.renew.jitter", "sasl.kerberos.ticket.renew.window.factor",
        "sasl.login.refresh.window.factor", "sasl.login.refresh.window.jitter",
    ),
    LONG: ("sasl.kerberos.min.time.before.relogin",),
    SHORT: ("sasl.login.refresh.buffer.seconds", "sasl.login.refresh.min.period.seconds"),
}  # fmt: skip
_SECURITY = {  # only with the prefix of a listener
    STRING: (
        "ssl.keystore.location", "ssl.keystore.type", "ssl.truststore.location",
        "ssl.truststore.type",
    ),
    PASSWORD: (
        "ssl.key.password", "ssl.keystore.certificate.chain", "ssl.keystore.key",
        "ssl.keystore.password", "ssl.truststore.certificates", "ssl.truststore.password",
    ),
}  # fmt: skip
_SECURITY_NAMES = frozenset(name for names in _SECURITY.values() for name in names)
_PER_BROKER = _SECURITY_NAMES.union(*_OF_LISTENERS.values())
_THREAD_COUNTS = {
    "background.threads",
    "num.io.threads",
    "num.network.threads",
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
}
_FOR_ALL_BROKERS = {MAX_CONNECTIONS, "max.connection.creation.rate", "num.network.threads"}
_TOPIC_DEFAULTS = {
    row.server: row
    for row in TOPIC_CONFIGS.values()
    if row.server is not None and row.name != "message.format.version"
}

DYNAMIC: Mapping[str, TopicConfig] = {
    **{server: row._replace(name=server) for server, row in _TOPIC_DEFAULTS.items()},
    **{row.name: row for row in CLUSTER_WIDE},
    **{
        name: TopicConfig(name, kind, "")
        for table in (_OF_LISTENERS, _SECURITY)
        for kind, names in table.items()
        for name in names
    },
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
        (name for name in configs if name in _SECURITY_NAMES),
        kind="HashSet",
    )
    for name, text in configs.items():
        parse_value(DYNAMIC[base_name(name)], text)
    if resource == CLUSTER_DEFAULT:
        _refuse(
            "Cannot update these configs at default cluster level, broker id must be specified",
            (name for name in configs if _is_per_broker(name)),
        )
    for name in _THREAD_COUNTS & configs.keys():
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
