"""Settings of a coordinator: Kafka's names, defaults and bounds, and our own.

Kafka's settings that no rule of the coordinator reads are accepted, so that a broker's own can be
passed in. Source: ``GroupCoordinatorConfig.java``, ``OffsetConfig.java``.
Rules: docs/rules/coordinator.md#settings, docs/rules/trace-format.md#settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from coterie.base.arguments import did_you_mean, within
from coterie.errors import ArgumentError, ConfigError, shown

# Behaviours without consumer groups, and those of Kafka 4, which has them.
CLASSIC_ONLY = ("3.9", "2.4")
REPLAYING = ("4.1", "4.1.2", "4.2", "4.3", "4.3.1", "4.4")
KEEPING_TOPIC_IDS = REPLAYING[3:]  # of commits: they count

_INT32 = 2**31
_INT64 = 2**63

# name -> (default, least, beyond the largest)
_NUMBERS: dict[str, tuple[int, int, int]] = {
    "group.initial.rebalance.delay.ms": (3000, 0, _INT32),
    "group.min.session.timeout.ms": (6000, -_INT32, _INT32),
    "group.max.session.timeout.ms": (1800000, -_INT32, _INT32),
    "group.max.size": (2147483647, 1, _INT32),
    "group.consumer.session.timeout.ms": (45000, 1, _INT32),
    "group.consumer.min.session.timeout.ms": (45000, 1, _INT32),
    "group.consumer.max.session.timeout.ms": (60000, 1, _INT32),
    "group.consumer.heartbeat.interval.ms": (5000, 1, _INT32),
    "group.consumer.min.heartbeat.interval.ms": (5000, 1, _INT32),
    "group.consumer.max.heartbeat.interval.ms": (15000, 1, _INT32),
    "group.consumer.assignment.interval.ms": (1000, 0, _INT32),
    "group.consumer.min.assignment.interval.ms": (0, 0, _INT32),
    "group.consumer.max.assignment.interval.ms": (15000, 0, _INT32),
    "group.consumer.max.size": (2147483647, 1, _INT32),
    "group.consumer.regex.refresh.interval.ms": (600000, 10000, _INT32),
    "offset.metadata.max.bytes": (4096, -_INT32, _INT32),
    "offsets.retention.minutes": (10080, 1, _INT32),
    "offsets.retention.check.interval.ms": (600000, 1, _INT64),
    "offsets.topic.num.partitions": (50, 1, _INT32),
    "offsets.topic.segment.bytes": (104857600, 1, _INT32),
    "offsets.topic.compression.codec": (0, 0, 5),
    "offsets.commit.timeout.ms": (5000, 1, _INT32),
    "offsets.commit.required.acks": (-1, -1, 2),
    "offsets.load.buffer.size": (5242880, 1, _INT32),
}
_CHOICES: dict[str, tuple[str | None, ...]] = {
    "coterie.cleanup": (None, "periodic"),
    "coterie.behaviour": CLASSIC_ONLY + REPLAYING,
    "coterie.tasks": (None, "manual"),
    "group.consumer.migration.policy": ("bidirectional", "upgrade", "downgrade", "disabled"),
    # Which protocol wins a tied vote: the first one voted for, or the first one in a broker's hash
    # map. The latter is for traces recorded from a broker. Other readers of traces do not know the
    # key, so no header has it at its default.
    "coterie.ties": ("first", "hash"),
}

DEFAULTS: Mapping[str, Any] = MappingProxyType(
    {name: bounds[0] for name, bounds in _NUMBERS.items()}
    | {name: choices[0] for name, choices in _CHOICES.items()}
    | {"group.consumer.assignors": ("uniform", "range")}
)


def coordinator_config(given: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return all settings, with the default of each absent one."""
    settings = dict(DEFAULTS)
    if given is not None and not isinstance(given, Mapping):
        raise ConfigError(f"the configuration must be a mapping, not {type(given).__name__}")
    for name, value in (given or {}).items():
        if value is None:
            continue
        if name in _CHOICES:
            if name == "group.consumer.migration.policy" and isinstance(value, str):
                value = value.lower()
            if not isinstance(value, str) or value not in _CHOICES[name]:
                choices = ", ".join(repr(c) for c in _CHOICES[name] if c)
                raise ConfigError(f"{name} must be one of {choices}, not {shown(value)}")
        elif name == "group.consumer.assignors":
            value = _assignors(value)
        elif name in _NUMBERS:
            _, least, beyond = _NUMBERS[name]
            try:
                value = within(value, name, least, beyond - 1)
            except ArgumentError as error:
                raise ConfigError(str(error)) from None
        else:
            raise ConfigError(
                f"{shown(name)} is no setting of the coordinator{did_you_mean(name, DEFAULTS)}"
            )
        settings[name] = value
    if settings["coterie.behaviour"] in REPLAYING and not (given or {}).get("coterie.ties"):
        settings["coterie.ties"] = "hash"
    return MappingProxyType(settings)


def _assignors(value: Any) -> tuple[str, ...]:
    """Return the server's assignors in their order, of a list or of text with commas."""
    names = value.split(",") if isinstance(value, str) else value
    known = ("uniform", "range")
    chosen = tuple(name.strip() for name in names) if isinstance(names, list | tuple) else ()
    if not chosen or any(name not in known for name in chosen):
        raise ConfigError(f"group.consumer.assignors must name some of {known}, not {shown(value)}")
    return chosen


def parse_setting(text: str) -> tuple[str, Any]:
    """Split ``KEY=VALUE`` of a command line; a number becomes an int."""
    name, equals, value = text.partition("=")
    if not equals:
        raise ConfigError(f"{text!r} must be KEY=VALUE")
    try:
        return name, int(value)
    except ValueError:
        return name, value
