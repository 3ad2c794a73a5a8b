"""Settings of a server: Kafka's names, defaults and bounds.

Those of the coordinator are in ``coterie.coordinator.config``; here are the others that are
served. A name may have Kafka's prefixes: ``listener.name.NAME.`` and, behind it, a mechanism.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from coterie.arguments import boolean, within
from coterie.coordinator.config import DEFAULTS as OF_COORDINATOR
from coterie.coordinator.config import coordinator_config
from coterie.errors import ArgumentError, ConfigError, shown
from coterie.server.options import PROTOCOLS

__all__ = ["DEFAULTS", "Settings", "read_setting", "server_config"]

_INT32 = 2**31 - 1
_INT64 = 2**63 - 1

# name -> (default, least, most)
_NUMBERS: dict[str, tuple[int, int, int]] = {
    "num.partitions": (1, 1, _INT32),
    "transaction.state.log.num.partitions": (50, 1, _INT32),
    "transaction.max.timeout.ms": (900000, 1, _INT32),
    "transactional.id.expiration.ms": (604800000, 1, _INT32),
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": (10000, 1, _INT32),
    "transaction.remove.expired.transaction.cleanup.interval.ms": (3600000, 1, _INT32),
    "log.retention.ms": (604800000, -1, _INT64),
    "log.retention.bytes": (-1, -1, _INT64),
    "message.max.bytes": (1048588, 0, _INT32),
    "delete.retention.ms": (86400000, 0, _INT64),
    "socket.request.max.bytes": (104857600, 1, _INT32),
    "connections.max.idle.ms": (600000, -1, _INT64),
    "max.connections": (_INT32, 0, _INT32),
    "connections.max.reauth.ms": (0, 0, _INT64),
    "connection.failed.authentication.delay.ms": (100, 0, _INT32),
}
_FLAGS = {"auto.create.topics.enable": True}
_RATIOS = {"log.cleaner.min.cleanable.ratio": 0.5}
_WHOLE, _DECIMAL = re.compile(r"[+-]?[0-9]{1,20}"), re.compile(r"[+-]?[0-9]{0,9}\.[0-9]{1,20}")
_OF_MECHANISM = "connections.max.reauth.ms"
_PREFIXED = {_OF_MECHANISM, "max.connections"}
_PREFIX = re.compile(r"listener\.name\.([^.]+)\.(?:(plain|scram-sha-256|scram-sha-512)\.)?(.+)")

DEFAULTS: Mapping[str, Any] = {
    **OF_COORDINATOR,
    "coterie.cleanup": "periodic",  # as a broker does; a bare coordinator leaves it to its test
    **{name: bounds[0] for name, bounds in _NUMBERS.items()},
    **_FLAGS,
    **_RATIOS,
}


class Settings(Mapping[str, Any]):
    """All settings, read-only; those of a listener or a mechanism too, where they were given."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = dict(values)

    def __getitem__(self, name: str) -> Any:
        """Return a setting by Kafka's name."""
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        """Walk through the names."""
        return iter(self._values)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._values)

    @property
    def coordinator(self) -> dict[str, Any]:
        """Those that the group coordinator reads."""
        return {name: self._values[name] for name in OF_COORDINATOR}


def server_config(given: Mapping[str, Any] | None) -> Settings:
    """All settings, with defaults where none is given.

    Raises
    ------
    ConfigError
        A name that is not served, a value of the wrong type or out of range.
    """
    if given is not None and not isinstance(given, Mapping):
        raise ConfigError(f"the configuration must be a mapping, not {type(given).__name__}")
    own: dict[str, Any] = {}
    of_coordinator: dict[str, Any] = {}
    for name, value in (given or {}).items():
        if not isinstance(name, str):
            raise ConfigError(f"a setting has a name, not {shown(name)}")
        prefixed = _PREFIX.fullmatch(name)
        if name in OF_COORDINATOR:
            of_coordinator[name] = value
        elif name in DEFAULTS:
            own[name] = _checked(name, name, value)
        elif prefixed is not None and prefixed[3] in _PREFIXED:
            _refuse_no_effect(name, *prefixed.groups())
            own[name.lower()] = _checked(name, prefixed[3], value)
        else:
            raise ConfigError(f"{shown(name)} is no setting that is served{_like(name)}")
    known = {**DEFAULTS, **own}
    known.update(coordinator_config({"coterie.cleanup": "periodic", **of_coordinator}))
    return Settings(known)


def _refuse_no_effect(told: str, listener: str, mechanism: str | None, name: str) -> None:
    """Refuse what Kafka would pass over in silence."""
    if listener.lower() not in PROTOCOLS:
        raise ConfigError(f"{shown(told)}: a listener is one of {', '.join(PROTOCOLS)}")
    if mechanism is not None and name != _OF_MECHANISM:
        raise ConfigError(f"{shown(told)}: {name} is of a listener, not of a mechanism")


def _checked(told: str, name: str, value: Any) -> Any:
    try:
        if name in _FLAGS:
            return boolean(value, told)
        if name in _RATIOS:
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
                raise ArgumentError(f"{told} must be a number from 0 to 1, not {shown(value)}")
            return float(value)
        _, least, most = _NUMBERS[name]
        return within(value, told, least, most)
    except ArgumentError as error:
        raise ConfigError(str(error)) from None


def _like(name: str) -> str:
    from difflib import get_close_matches  # only for the message

    near = get_close_matches(name[:80], DEFAULTS, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def read_setting(text: str) -> tuple[str, Any]:
    """Read ``KEY=VALUE`` of a command line: the value a bool, a number, or text."""
    name, equals, value = text.partition("=")
    if not equals:
        raise ConfigError(f"{text!r} must be KEY=VALUE")
    if value.lower() in ("true", "false"):
        return name, value.lower() == "true"
    kind = int if _WHOLE.fullmatch(value) else float if _DECIMAL.fullmatch(value) else str
    return name, kind(value)
