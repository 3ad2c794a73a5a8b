"""Settings of consumers and producers: Kafka's names, defaults and bounds.

Source: ``ConsumerConfig.java``, ``ProducerConfig.java``, ``CommonClientConfigs.java``.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

from coterie.base.arguments import did_you_mean, sequence, text, within
from coterie.errors import ArgumentError, ConfigError, shown

_INT32, _INT64 = 2**31 - 1, 2**63 - 1
_NUMBERS = {  # name -> (default, least, most)
    "session.timeout.ms": (45_000, 1, _INT32),
    "heartbeat.interval.ms": (3_000, 1, _INT32),
    "max.poll.interval.ms": (300_000, 1, _INT32),
    "max.poll.records": (500, 1, _INT32),
    "auto.commit.interval.ms": (5_000, 0, _INT32),
    "retry.backoff.ms": (100, 0, _INT64),
    "retry.backoff.max.ms": (1_000, 0, _INT64),
    "default.api.timeout.ms": (60_000, 0, _INT32),
    "request.timeout.ms": (30_000, 0, _INT32),
    "metadata.max.age.ms": (300_000, 0, _INT64),
}
_BOOLEANS = {"enable.auto.commit": True}
_TEXTS = ("group.id", "group.instance.id", "client.id", "client.rack", "group.remote.assignor")
_CHOICES = {  # the first one is the default
    "auto.offset.reset": ("latest", "earliest", "none"),
    "isolation.level": ("read_uncommitted", "read_committed"),
    "group.protocol": ("classic", "consumer"),
}
_ASSIGNORS = {  # as Kafka names its classes, and as its groups name them
    "org.apache.kafka.clients.consumer.RangeAssignor": "range",
    "org.apache.kafka.clients.consumer.RoundRobinAssignor": "roundrobin",
    "org.apache.kafka.clients.consumer.StickyAssignor": "sticky",
    "org.apache.kafka.clients.consumer.CooperativeStickyAssignor": "cooperative-sticky",
}
_WITHOUT_EFFECT = {  # on a simulated cluster; so a consumer's own settings can be passed
    *("bootstrap.servers", "key.deserializer", "value.deserializer"),
    *("fetch.min.bytes", "fetch.max.bytes", "fetch.max.wait.ms", "max.partition.fetch.bytes"),
    *("check.crcs", "send.buffer.bytes", "receive.buffer.bytes", "connections.max.idle.ms"),
    *("reconnect.backoff.ms", "reconnect.backoff.max.ms", "allow.auto.create.topics"),
    *("exclude.internal.topics", "client.dns.lookup", "security.protocol"),
}
_PRODUCER_NUMBERS = {
    "transaction.timeout.ms": (60_000, 1, _INT32),
    "max.block.ms": (60_000, 0, _INT64),
    "delivery.timeout.ms": (120_000, 0, _INT32),
    **{name: _NUMBERS[name] for name in ("retry.backoff.ms", "retry.backoff.max.ms")},
    "request.timeout.ms": (30_000, 0, _INT32),
}
_PRODUCER_WITHOUT_EFFECT = {
    *("bootstrap.servers", "key.serializer", "value.serializer", "acks", "enable.idempotence"),
    *("linger.ms", "batch.size", "compression.type", "buffer.memory", "max.request.size"),
    *("max.in.flight.requests.per.connection", "retries", "partitioner.class"),
    *("security.protocol", "client.dns.lookup", "metadata.max.age.ms"),
}
STRATEGY = "partition.assignment.strategy"
CLASSIC_ONLY = (STRATEGY, "heartbeat.interval.ms", "session.timeout.ms")
_OF_OTHERS = {  # what a group protocol refuses
    "classic": ("group.remote.assignor",),
    "consumer": CLASSIC_ONLY,
}
Settings = dict[str, Any]


def consumer_settings(given: Mapping[str, Any]) -> Settings:
    """Return all settings of a consumer, with the default of each absent one."""
    settings: Settings = {name: default for name, (default, _, _) in _NUMBERS.items()}
    settings |= _BOOLEANS | dict.fromkeys(_TEXTS)
    settings |= {name: choices[0] for name, choices in _CHOICES.items()}
    settings[STRATEGY] = ["range", "cooperative-sticky"]
    _take(given, settings, _NUMBERS, _WITHOUT_EFFECT, "a consumer")
    protocol = settings["group.protocol"]
    for name in _OF_OTHERS[protocol]:
        if given.get(name) is not None:
            raise ConfigError(f"{name} cannot be set when group.protocol is {protocol}")
    if settings["group.id"] is None and "enable.auto.commit" not in given:
        settings["enable.auto.commit"] = False  # as ConsumerConfig.maybeOverrideEnableAutoCommit
    if settings["group.id"] is None and settings["enable.auto.commit"]:
        raise ConfigError("enable.auto.commit must be false without a group.id")
    if settings["heartbeat.interval.ms"] >= settings["session.timeout.ms"]:
        raise ConfigError("heartbeat.interval.ms must be below session.timeout.ms")
    return settings


def producer_settings(given: Mapping[str, Any]) -> Settings:
    """Return all settings of a producer, with the default of each absent one."""
    settings: Settings = {name: default for name, (default, _, _) in _PRODUCER_NUMBERS.items()}
    settings |= {"transactional.id": None, "client.id": None}
    _take(given, settings, _PRODUCER_NUMBERS, _PRODUCER_WITHOUT_EFFECT, "a producer")
    return settings


def timeout_of(value: Any) -> int:
    """Return the timeout of a call, ms; to wait much longer would take for ever, if in vain."""
    return within(value, "timeout_ms", 0, _INT32)


def _take(
    given: Any,
    settings: Settings,
    numbers: Mapping[str, tuple[int, int, int]],
    without_effect: Container[str],
    client: str,
) -> None:
    """Check the settings that are given, and put them into those of the client."""
    if not isinstance(given, Mapping):
        raise ConfigError(f"the settings must be a mapping, not {shown(given)}")
    for name, value in given.items():
        if not isinstance(name, str) or (name not in settings and name not in without_effect):
            raise ConfigError(
                f"{shown(name)} is no setting of {client}{did_you_mean(name, settings)}"
            )
        if name in settings:
            settings[name] = _checked(name, value, numbers)


def _checked(name: str, value: Any, numbers: Mapping[str, tuple[int, int, int]]) -> Any:
    try:
        if name in numbers:
            _, least, most = numbers[name]
            number = int(value) if isinstance(value, str) and value.isdecimal() else value
            return within(number, name, least, most)
        if name in _BOOLEANS:
            return _boolean(name, value)
        if name in _CHOICES:
            choice = value.lower() if isinstance(value, str) else value
            if not isinstance(choice, str) or choice not in _CHOICES[name]:
                raise ConfigError(
                    f"{name} must be one of {', '.join(_CHOICES[name])}, not {shown(value)}"
                )
            return choice
        if name == STRATEGY:
            return _strategy(value)
        if value is not None and not text(value, name) and name != "client.rack":
            raise ConfigError(f"{name} must not be empty")
        return value
    except (ArgumentError, ValueError) as error:  # a number of too many digits
        raise ConfigError(str(error)) from None


def _boolean(name: str, value: Any) -> bool:
    spelled = {"true": True, "false": False}.get(value.lower()) if isinstance(value, str) else value
    if not isinstance(spelled, bool):
        raise ConfigError(f"{name} must be true or false, not {shown(value)}")
    return spelled


def _strategy(value: Any) -> list[str]:
    names = (
        [name.strip() for name in value.split(",")]
        if isinstance(value, str)
        else sequence(value, STRATEGY)
    )
    chosen = [_ASSIGNORS.get(text(name, STRATEGY), name) for name in names]
    for name in chosen:
        if name not in _ASSIGNORS.values():
            known = ", ".join(_ASSIGNORS.values())
            raise ConfigError(f"{STRATEGY}: {shown(name)} is not known; known are {known}")
    if not chosen or len(set(chosen)) < len(chosen):
        raise ConfigError(f"{STRATEGY} must name assignors, each once, not {shown(value)}")
    return chosen
