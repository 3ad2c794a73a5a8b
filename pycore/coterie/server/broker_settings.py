"""The settings of a Kafka broker, 3.9 to 4.4: check names, and values of settings without effect.

They are in ``broker_settings.txt``, one a line: name, type and bounds, the versions that have it.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from coterie.base.arguments import did_you_mean
from coterie.errors import ConfigError, shown

_NAMES = Path(__file__).with_name("broker_settings.txt")
# Names with these beginnings belong to mechanisms, plugins and Confluent's own broker.
_PREFIXES = ("ssl.", "sasl.", "listener.name.", "rlmm.config.", "rsm.config.", "confluent.")
_LONGEST = 80  # characters of a name that are compared with the known ones
_BITS = {"SHORT": 16, "INT": 32, "LONG": 64}
_WHOLE = re.compile("[+-]?[0-9]{1,19}")
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


class Setting(NamedTuple):
    """The type of a setting, by Kafka's name, and its bounds, as text."""

    type: str
    least: str = ""
    most: str = ""


def setting_of(kind: str) -> Setting:
    """Parse a type with its bounds, such as ``INT[0,10]``."""
    return Setting(*re.split(r"[\[,\]]", kind)[:3])


def of_release(release: str | None = None) -> dict[str, Setting]:
    """Return the settings of a release, or for None of all, by their names."""
    lines = _NAMES.read_text(encoding="ascii").splitlines()
    rows = (line.split() for line in lines if not line.startswith("#"))
    return {
        name: setting_of(kind)
        for name, kind, *in_releases in rows
        if release is None or release in in_releases
    }


_settings = cache(of_release)


def is_known(name: str) -> bool:
    """Whether a broker of Kafka 3.9, 4.1 or 4.4 has a setting of this name."""
    return name.startswith(_PREFIXES) or name in _settings()


def refuse_unknown(name: str, where: str = "") -> None:
    """Refuse a name that no broker knows."""
    if not is_known(name):
        raise ConfigError(
            f"{where}{shown(name)} is no setting of a Kafka broker{did_you_mean(name, _settings())}"
        )


def refuse_wrong_value(name: str, value: Any) -> None:
    """Refuse a value of another type, or out of bounds, as a broker does at its start."""
    setting = _settings().get(name, Setting("STRING"))
    text = str(value).strip()
    if setting.type == "BOOLEAN":
        if text.lower() not in ("true", "false"):
            raise _wrong(name, text, "Expected value to be either true or false")
        return
    bits = _BITS.get(setting.type)
    if bits is None and setting.type != "DOUBLE":
        return
    form = _DECIMAL if bits is None else _WHOLE
    if form.fullmatch(text) is None or (
        bits is not None and not -(1 << bits - 1) <= int(text) < 1 << bits - 1
    ):
        raise _wrong(name, text, f"Not a number of type {setting.type}")
    if setting.least and float(text) < float(setting.least):
        raise _wrong(name, text, f"Value must be at least {setting.least}")
    if setting.most and float(text) > float(setting.most):
        raise _wrong(name, text, f"Value must be no more than {setting.most}")


def _wrong(name: str, text: str, why: str) -> ConfigError:
    value = text if text.isprintable() and len(text) <= _LONGEST else shown(text)
    return ConfigError(f"Invalid value {value} for configuration {name}: {why}")
