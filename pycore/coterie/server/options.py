"""What a server is to be: addresses, topics, the clock, who may come in. Checked here, once."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from coterie.arguments import within
from coterie.errors import ArgumentError, shown

__all__ = ["Options", "Place", "place_of", "refuse_open", "refuse_unroutable", "topic_of"]

PROTOCOLS = ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")
_PLACE = re.compile(r"(?:([A-Za-z_]+)://)?(\[[^\[\]]+\]|[^:\[\]/]*):(\d{1,5})")
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_PORTS = 65535


class Place(NamedTuple):
    """An address to listen on, and the protocol that is spoken there."""

    protocol: str
    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine reaches it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def is_unroutable(self) -> bool:
        """Whether it stands for all addresses of a machine, and is the address of none."""
        try:
            return ipaddress.ip_address(self.host).is_unspecified
        except ValueError:
            return False

    def told(self) -> str:
        """Return HOST:PORT, an address of IPv6 in brackets."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def place_of(text: Any, *, protocols: Iterable[str] = PROTOCOLS) -> Place:
    """Read ``[PROTOCOL://]HOST:PORT``."""
    found = _PLACE.fullmatch(text) if isinstance(text, str) else None
    if found is None or int(found[3]) > _PORTS or not found[2]:
        raise ArgumentError(f"an address is [PROTOCOL://]HOST:PORT, not {shown(text)}")
    protocol = (found[1] or "plaintext").lower()
    if protocol not in protocols:
        raise ArgumentError(f"{found[1]} is no protocol; they are {', '.join(PROTOCOLS)}")
    return Place(protocol, found[2].strip("[]"), int(found[3]))


def topic_of(text: str) -> tuple[str, int | None]:
    """Read ``NAME[:PARTITIONS]``."""
    name, colon, count = text.partition(":")
    if not _TOPIC.fullmatch(name) or name in (".", "..") or (colon and not count.isdecimal()):
        raise ArgumentError(f"a topic is NAME[:PARTITIONS], not {shown(text)}")
    return name, within(int(count), "PARTITIONS", 1, 100_000) if colon else None


def refuse_open(place: Place, *, client_certificates: bool, insecure: bool) -> None:
    """Refuse an address that others reach, where nobody has to say who they are."""
    guarded = place.protocol == "sasl_ssl" or (place.protocol == "ssl" and client_certificates)
    if not (place.is_loopback or guarded or insecure):
        raise ArgumentError(
            f"{place.told()} is not a loopback address: give it SASL over TLS (sasl_ssl://) or "
            "client certificates (--tls-client-ca), or --insecure"
        )


def refuse_unroutable(
    places: Iterable[Place], advertised: Iterable[Place | None], remedy: str
) -> None:
    """Refuse that clients are told an address that leads to no machine.

    ``advertised`` is what they are told, for each place or not at all; ``remedy``: what helps.
    Source: KafkaConfig.validateValues, which does not know that of IPv6.
    """
    told = tuple(advertised) or tuple(places)
    for place in told:
        if place is not None and place.is_unroutable:
            raise ArgumentError(
                f"clients would be told {place.told()}, which is no machine's address: {remedy}"
            )


@dataclass
class Options:
    """What a server is to be.

    Attributes
    ----------
    places
        Where it listens; ``advertised``: what its clients are told instead, an address a broker.
    topics
        Name -> partitions; None: ``num.partitions``.
    virtual
        Whether the clock stands until it is advanced.
    tls
        An ``ssl.SSLContext`` for listeners with TLS.
    """

    config: Mapping[str, Any] = field(default_factory=dict)
    places: tuple[Place, ...] = (Place("plaintext", "127.0.0.1", 0),)
    advertised: tuple[Place | None, ...] = ()
    topics: Mapping[str, int | None] = field(default_factory=dict)
    virtual: bool = False
    seed: int | None = None
    users: Any = None
    tls: Any = None
    control: Place | None = None
    metrics: Place | None = None
