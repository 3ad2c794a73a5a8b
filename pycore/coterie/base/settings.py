"""Settings in the form of Kafka's ConfigDef, how their values are parsed, and those of a broker.

The settings of brokers, 3.9 to 4.4, are in ``broker_settings.txt``: the coordinator, the server and
its dynamic settings take their names, types, bounds and defaults from there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import IntEnum
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from coterie.base.arguments import did_you_mean
from coterie.errors import ConfigError, shown

# By the numbers of DescribeConfigs.
Type = IntEnum("Type", "BOOLEAN STRING INT SHORT LONG DOUBLE LIST CLASS PASSWORD")
BOOLEAN, STRING, INT, SHORT, LONG, DOUBLE, LIST, CLASS, PASSWORD = Type
_BITS = {SHORT: 16, INT: 32, LONG: 64}
_WHOLE = re.compile("[+-]?[0-9]{1,19}")
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_TABLE = Path(__file__).with_name("broker_settings.txt")
# Names with these beginnings belong to mechanisms, plugins and Confluent's own broker.
_PREFIXES = ("ssl.", "sasl.", "listener.name.", "rlmm.config.", "rsm.config.", "confluent.")
_LONGEST = 80  # characters of a value that are shown as they are


class InvalidConfig(ConfigError):
    """A setting that does not exist or has a wrong value; the message is Kafka's."""


class Setting(NamedTuple):
    """A setting of a broker, a topic or a group.

    ``server``: the broker setting that is its default. ``or_else``: a valid number out of range.
    """

    name: str
    type: Type
    default: str = ""
    server: str | None = None
    least: float | None = None
    most: float | None = None
    words: tuple[str, ...] = ()
    or_else: int | None = None
    marks: tuple[str, ...] = ()

    @property
    def bounds(self) -> tuple[int, int]:
        """The least and the greatest whole number."""
        beyond = 1 << _BITS[self.type] - 1
        least = -beyond if self.least is None else int(self.least)
        return least, beyond - 1 if self.most is None else int(self.most)


def parse_value(row: Setting, text: str) -> Any:
    """Parse the value of a setting, as ConfigDef does."""
    text = text.strip()
    if row.type == BOOLEAN:
        if text.lower() not in ("true", "false"):
            raise _wrong(row, text, "Expected value to be either true or false")
        return text.lower() == "true"
    if row.type in _BITS or row.type == DOUBLE:
        return _number(row, text)
    words = [text]
    if row.type == LIST:  # an empty list is valid
        words = [word.strip() for word in text.split(",")] if text else []
    for word in words if row.words else ():
        if word not in row.words:
            raise _wrong(row, word, f"String must be one of: {', '.join(row.words)}")
    return text


def _number(row: Setting, text: str) -> float:
    form, read = (_DECIMAL, float) if row.type == DOUBLE else (_WHOLE, int)
    value: float = read(text) if form.fullmatch(text) else float("nan")
    beyond = 1 << _BITS[row.type] - 1 if row.type in _BITS else float("inf")
    if not -beyond <= value < beyond:
        raise _wrong(row, text, f"Not a number of type {row.type.name}")
    if row.least is not None and value < row.least:
        limit = f"at least {row.least}"
    elif row.most is not None and value > row.most:
        limit = f"no more than {row.most}"
    else:
        return value
    if row.or_else is not None:
        if value == row.or_else:
            return value
        limit = f"between {row.least} and {row.most} or equal to {row.or_else}"
    raise _wrong(row, value, f"Value must be {limit}")


def _wrong(row: Setting, text: str | float, why: str) -> InvalidConfig:
    return InvalidConfig(f"Invalid value {text} for configuration {row.name}: {why}")


def read_settings(release: str | None = None) -> dict[str, Setting]:
    """Return the settings that a broker of a release has, or for None of all, by their names."""
    lines = _TABLE.read_text(encoding="ascii").splitlines()
    rows = (line.split() for line in lines if not line.startswith("#"))
    return {
        name: setting_of(name, kind, tuple(words))
        for name, kind, *words in rows
        if release is None or release in words
    }


def setting_of(name: str, kind: str, marks: tuple[str, ...] = ()) -> Setting:
    """Read a setting from ``TYPE[least,most]=default``."""
    kind, _, default = kind.partition("=")
    kind, _, ends = kind.partition("[")
    least, _, most = ends.rstrip("]").partition(",")
    return Setting(name, Type[kind], default, None, _end(least), _end(most), marks=marks)


def _end(text: str) -> float | None:
    return None if not text else int(text) if _WHOLE.fullmatch(text) else float(text)


broker_settings = cache(read_settings)


def settings_with(*marks: str) -> Mapping[str, Setting]:
    """Return the settings of a broker that have one of these marks."""
    rows = broker_settings().items()
    return {name: row for name, row in rows if not set(marks).isdisjoint(row.marks)}


def is_known(name: str) -> bool:
    """Whether a broker of Kafka 3.9, 4.1 or 4.4 has a setting of this name."""
    return name.startswith(_PREFIXES) or name in broker_settings()


def refuse_unknown(name: str, where: str = "") -> None:
    """Refuse a name that no broker knows."""
    if not is_known(name):
        alike = did_you_mean(name, broker_settings())
        raise ConfigError(f"{where}{shown(name)} is no setting of a Kafka broker{alike}")


def refuse_wrong_value(name: str, value: Any) -> None:
    """Refuse a value of another type, or out of bounds, as a broker does at its start."""
    text = str(value).strip()
    if name in broker_settings():
        is_short = text.isprintable() and len(text) <= _LONGEST
        parse_value(broker_settings()[name], text if is_short else shown(text))
