"""Names of the settings of a Kafka broker, 3.9 and 4.1: check a name, and suggest the intended one.

The names are in ``broker_settings.txt``, one a line with the versions that have it.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from coterie.errors import ConfigError, shown

__all__ = ["is_known", "refuse_unknown"]

_NAMES = Path(__file__).with_name("broker_settings.txt")
# Names with these beginnings belong to mechanisms, plugins and Confluent's own broker.
_PREFIXES = ("ssl.", "sasl.", "listener.name.", "rlmm.config.", "rsm.config.", "confluent.")
_LONGEST = 80  # characters of a name that are compared with the known ones


@cache
def _versions() -> dict[str, tuple[str, ...]]:
    """Return name -> versions of Kafka that have it."""
    lines = _NAMES.read_text(encoding="ascii").splitlines()
    rows = (line.split() for line in lines if not line.startswith("#"))
    return {name: tuple(versions) for name, *versions in rows}


def is_known(name: str) -> bool:
    """Whether a broker of Kafka 3.9 or 4.1 has a setting of this name."""
    return name.startswith(_PREFIXES) or name in _versions()


def refuse_unknown(name: str, where: str = "") -> None:
    """Refuse a name that no broker knows.

    Parameters
    ----------
    where
        The place of the name, as ``"server.properties:3: "``; part of the message.

    Raises
    ------
    ConfigError
        No broker has such a setting. The message names the most similar one.
    """
    if not is_known(name):
        raise ConfigError(f"{where}{shown(name)} is no setting of a Kafka broker{_like(name)}")


def _like(name: str) -> str:
    from difflib import get_close_matches  # only for the message

    similar = get_close_matches(name[:_LONGEST], _versions(), n=1)
    return f"; did you mean {similar[0]!r}?" if similar else ""
