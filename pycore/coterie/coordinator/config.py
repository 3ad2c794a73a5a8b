"""Settings of a coordinator: Kafka's numbers (``base/broker_settings.txt``), choices, and our own.

Kafka's settings that no rule of the coordinator reads are accepted, so that a broker's own can be
passed in. Source: ``GroupCoordinatorConfig.java``, ``OffsetConfig.java``.
Rules: docs/rules/coordinator.md#settings, docs/rules/trace-format.md#settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from coterie.base.arguments import did_you_mean, within
from coterie.base.settings import settings_with
from coterie.errors import ArgumentError, ConfigError, shown

# Behaviours without consumer groups, and those of Kafka 4, which has them.
CLASSIC_ONLY = ("3.9", "2.4")
REPLAYING = ("4.1", "4.1.2", "4.2", "4.3", "4.3.1", "4.4")
KEEPING_TOPIC_IDS = REPLAYING[3:]  # of commits: they count

_NUMBERS = settings_with("coordinator")
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
    {name: int(row.default) for name, row in _NUMBERS.items()}
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
            try:
                value = within(value, name, *_NUMBERS[name].bounds)
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
