"""Settings of a server: those of ``base/broker_settings.txt`` that have an effect.

Those of the coordinator are checked by ``coterie.coordinator.config``. Every other setting of a
Kafka broker is accepted, without an effect. A name may have Kafka's prefixes:
``listener.name.NAME.`` and, behind it, a mechanism.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from coterie.base.arguments import boolean, within
from coterie.base.settings import (
    BOOLEAN,
    DOUBLE,
    parse_value,
    refuse_unknown,
    refuse_wrong_value,
    settings_with,
)
from coterie.coordinator.config import DEFAULTS as OF_COORDINATOR
from coterie.coordinator.config import coordinator_config
from coterie.errors import ArgumentError, ConfigError, shown
from coterie.server.listeners import (
    ADVERTISED,
    CONTROLLERS,
    INTER_BROKER,
    LISTENERS,
    PROTOCOL_MAP,
    listener_names,
)
from coterie.server.releases import DEFAULT_RELEASE, Release
from coterie.server.topic_configs import TOPIC_CONFIGS

_INT32 = 2**31 - 1
_INT64 = 2**63 - 1
_MINUTE_MS, _HOUR_MS = 60_000, 3_600_000

_OF_SERVER = settings_with("server")
# Another name of a setting -> (the name here, its unit in the unit here, least). The first of
# several that are set counts, and the name here comes first. Source: ServerTopicConfigSynonyms.
_SYNONYMS: dict[str, tuple[str, int, int]] = {
    "log.retention.minutes": ("log.retention.ms", _MINUTE_MS, -1),
    "log.retention.hours": ("log.retention.ms", _HOUR_MS, -1),
    "log.roll.hours": ("log.roll.ms", _HOUR_MS, 1),
    "log.roll.jitter.hours": ("log.roll.jitter.ms", _HOUR_MS, 0),
    "log.flush.scheduler.interval.ms": ("log.flush.interval.ms", 1, 0),
    "log.cleaner.delete.retention.ms": ("delete.retention.ms", 1, 0),
}
DEFAULTS: Mapping[str, Any] = {
    **OF_COORDINATOR,
    "coterie.cleanup": "periodic",  # as a broker does; a bare coordinator leaves it to its test
    **{name: parse_value(row, row.default) for name, row in _OF_SERVER.items()},
}
# Defaults of topics' settings, as text: `Topics` reads them, `topics_at_start.py` checks them.
_OF_TOPICS = {row.server for row in TOPIC_CONFIGS.values() if row.server} - {*DEFAULTS, *_SYNONYMS}
_OF_LISTENERS = {LISTENERS, ADVERTISED, PROTOCOL_MAP, CONTROLLERS, INTER_BROKER}
_RACK, _PROTOCOLS = "broker.rack", "group.coordinator.rebalance.protocols"
_OF_TEXT = _OF_TOPICS | _OF_LISTENERS | {_RACK, _PROTOCOLS}
_IDS = ("node.id", "broker.id")
_BEHAVIOUR = "coterie.behaviour"
_HEARTBEAT, _SESSION = "heartbeat.interval.ms", "session.timeout.ms"
_OF_MECHANISM = "connections.max.reauth.ms"
_PREFIXED = {_OF_MECHANISM, "max.connections"}
_PREFIX = re.compile(
    r"listener\.name\.([^.]+)\.(?:(plain|scram-sha-\d+|gssapi|oauthbearer)\.)?(.+)"
)


class Settings(Mapping[str, Any]):
    """The settings of a server, read-only: all of ``DEFAULTS``, and others that are set.

    Attributes
    ----------
    without_effect : tuple of str
        Settings of a broker that are set, but have no effect here.
    """

    def __init__(self, values: Mapping[str, Any], without_effect: tuple[str, ...] = ()) -> None:
        self._values = dict(values)
        self.without_effect = without_effect

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    @property
    def coordinator(self) -> dict[str, Any]:
        return {name: self._values[name] for name in OF_COORDINATOR}

    @property
    def rack(self) -> str | None:
        return self._values.get(_RACK)

    @cached_property
    def group_protocols(self) -> list[str]:
        """The protocols of groups that are on; those of Kafka 4 are by default."""
        text = self._values.get(_PROTOCOLS, "classic,consumer")
        return [name.strip() for name in text.split(",")]

    @property
    def node_id(self) -> int:
        """The id of the broker: ``node.id``, else ``broker.id``, else 1."""
        ids = [self._values[name] for name in _IDS if self._values.get(name, -1) != -1]
        return ids[0] if ids else 1


def refuse_foreign(name: Any, where: str = "") -> None:
    """Refuse a name that is a setting neither of a Kafka broker nor of coterie."""
    if not isinstance(name, str):
        raise ConfigError(f"{where}a setting has a name, not {shown(name)}")
    if name not in DEFAULTS:
        refuse_unknown(name, where)


def server_config(config: Mapping[str, Any] | None, release: Release = DEFAULT_RELEASE) -> Settings:
    """Return all settings, with the defaults of a release where none is set.

    Raises
    ------
    ConfigError
        A name that no Kafka broker knows, a value of the wrong type or out of range, or a
        ``coterie.behaviour`` of another release.
    """
    if config is not None and not isinstance(config, Mapping):
        raise ConfigError(f"the configuration must be a mapping, not {type(config).__name__}")
    own: dict[str, Any] = {}
    of_coordinator: dict[str, Any] = {}
    without_effect: list[str] = []
    for name, value in (config or {}).items():
        refuse_foreign(name)
        prefixed = _PREFIX.fullmatch(name)
        if name in OF_COORDINATOR:
            # A command line and a file have 4.1 as a number.
            of_coordinator[name] = str(value) if name == _BEHAVIOUR else value
        elif prefixed is not None:
            _refuse_no_listener(name, prefixed[1], config or {})
            if prefixed[3] in _PREFIXED:
                _refuse_no_mechanism(name, *prefixed.groups()[1:])
                own[name.lower()] = _checked(name, prefixed[3], value)
            else:
                refuse_foreign(prefixed[3], f"{name}: ")
                refuse_wrong_value(prefixed[3], value)
                without_effect.append(name)
        elif _has_effect(name):
            own[name] = _checked(name, name, value)
        else:
            refuse_wrong_value(name, value)
            without_effect.append(name)
    for name, (here, unit, _) in _SYNONYMS.items():
        if name in own and here not in own:
            amount = own[name]
            in_unit = amount if amount < 0 else min(amount * unit, _INT64)
            own[here] = str(in_unit) if here in _OF_TOPICS else in_unit
    _refuse_two_ids(own)
    values = {**DEFAULTS, **own}
    of_release = {"coterie.cleanup": "periodic", _BEHAVIOUR: release.behaviours[0]}
    values.update(coordinator_config({**of_release, **of_coordinator}))
    _refuse_other_behaviour(values[_BEHAVIOUR], release)
    _refuse_out_of_bounds(values)
    return Settings(values, tuple(without_effect))


def _has_effect(name: str) -> bool:
    return name in DEFAULTS or name in _IDS or name in _SYNONYMS or name in _OF_TEXT


def _refuse_out_of_bounds(values: Mapping[str, Any]) -> None:
    """Refuse settings of consumer groups that contradict each other.

    Source: GroupCoordinatorConfig.java.
    """
    for kind in (_HEARTBEAT, _SESSION, "assignment.interval.ms"):
        name, least, most = (f"group.consumer.{end}{kind}" for end in ("", "min.", "max."))
        for high, low in ((most, least), (name, least)):
            if values[high] < values[low]:
                raise ConfigError(f"{high} must be greater than or equal to {low}")
        if values[name] > values[most]:
            raise ConfigError(f"{name} must be less than or equal to {most}")
    heartbeat, session = f"group.consumer.{_HEARTBEAT}", f"group.consumer.{_SESSION}"
    if values[heartbeat] >= values[session]:
        raise ConfigError(f"{heartbeat} must be less than {session}")


def _refuse_no_listener(name: str, listener: str, config: Mapping[str, Any]) -> None:
    """Refuse a listener that does not exist, which Kafka ignores silently."""
    known = listener_names(config)
    if listener.lower() not in known:
        raise ConfigError(f"{shown(name)}: a listener is one of {', '.join(sorted(known))}")


def _refuse_no_mechanism(name: str, mechanism: str | None, setting: str) -> None:
    """Refuse a listener's setting after a mechanism prefix, which Kafka ignores silently."""
    if mechanism is not None and setting != _OF_MECHANISM:
        raise ConfigError(f"{shown(name)}: {setting} is of a listener, not of a mechanism")


def _refuse_other_behaviour(behaviour: str, release: Release) -> None:
    if behaviour not in release.behaviours:
        fitting = ", ".join(release.behaviours)
        raise ConfigError(
            f"coterie.behaviour {behaviour} does not fit a server of Kafka {release.name}, whose "
            f"coordinator is one of {fitting}"
        )


def _refuse_two_ids(own: Mapping[str, Any]) -> None:
    ids = {own[name] for name in _IDS if own.get(name, -1) != -1}
    if len(ids) > 1:
        raise ConfigError(f"node.id and broker.id must be the same, not {sorted(ids)}")


def _checked(whole_name: str, name: str, value: Any) -> Any:
    """Return the value of a setting; ``whole_name`` is its name with prefixes, for the message."""
    if name in _OF_TEXT:
        return str(value).lower() if isinstance(value, bool) else str(value).strip()
    try:
        if name in _IDS:
            return within(value, whole_name, -1 if name == "broker.id" else 0, _INT32)
        if name in _SYNONYMS:
            return within(value, whole_name, _SYNONYMS[name][2], _INT64)
        row = _OF_SERVER[name]
        if row.type == BOOLEAN:
            return boolean(value, whole_name)
        if row.type == DOUBLE:
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
                raise ArgumentError(
                    f"{whole_name} must be a number from 0 to 1, not {shown(value)}"
                )
            return float(value)
        return within(value, whole_name, *row.bounds)
    except ArgumentError as error:
        raise ConfigError(str(error)) from None
