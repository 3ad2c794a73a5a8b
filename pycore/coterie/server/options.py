"""The options of a server: addresses, topics, the clock, users. Values are checked here."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from coterie.base.arguments import within
from coterie.base.topic_names import name_refusal
from coterie.errors import ArgumentError, shown
from coterie.server.releases import DEFAULT_RELEASE, Release

PROTOCOLS = ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")
MAX_PARTITIONS = 100_000
_PLACE = re.compile(r"(?:([A-Za-z][A-Za-z0-9_.-]*)://)?(\[[^\[\]]+\]|[^:\[\]/]*):(\d{1,5})")
_LARGEST_PORT = 65535
PLAINTEXT = {"PLAINTEXT": "plaintext"}  # `protocols` of `place_of` for an address without any
_OWN_NAMES = {protocol.upper(): protocol for protocol in PROTOCOLS}


class Place(NamedTuple):
    """An address with its protocol.

    ``name`` is that of the listener in upper case; None: it is the protocol.
    """

    protocol: str
    host: str
    port: int
    name: str | None = None

    @property
    def label(self) -> str:
        return self.name or self.protocol

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def is_unroutable(self) -> bool:
        """Whether it is the wildcard address (0.0.0.0, ::), which no client can connect to."""
        try:
            return ipaddress.ip_address(self.host).is_unspecified
        except ValueError:
            return False

    @property
    def address(self) -> str:
        """HOST:PORT, an address of IPv6 in brackets."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def place_of(
    text: Any,
    *,
    protocols: Mapping[str, str] = _OWN_NAMES,
    any_host: str | None = None,
) -> Place:
    """Read ``[NAME://]HOST:PORT``.

    Parameters
    ----------
    protocols
        Name of a listener, in upper case -> its protocol.
    any_host
        The host to use if none is given; None: a host is required.

    Raises
    ------
    ArgumentError
        It is not an address, or its name is not that of a listener.
    """
    match = _PLACE.fullmatch(text.strip()) if isinstance(text, str) else None
    if match is None or int(match[3]) > _LARGEST_PORT or not (match[2] or any_host):
        raise ArgumentError(f"an address is [PROTOCOL://]HOST:PORT, not {shown(text)}")
    name = (match[1] or "plaintext").upper()
    if name not in protocols:
        raise ArgumentError(
            f"{match[1]} is no protocol; they are {', '.join(PROTOCOLS)}, and a listener of "
            "another name needs its protocol in listener.security.protocol.map"
        )
    protocol = protocols[name]
    host = match[2].strip("[]") or any_host or ""
    return Place(protocol, host, int(match[3]), None if name == protocol.upper() else name)


class TopicOptions(NamedTuple):
    """A topic that exists from the start; ``partitions`` None: ``num.partitions``."""

    partitions: int | None = None
    configs: Mapping[str, str] = {}


def topic_of(text: str) -> tuple[str, TopicOptions]:
    """Read ``NAME[:PARTITIONS[:REPLICAS]][,KEY=VALUE...]``.

    A value may have commas: a part without ``=`` belongs to the value before it.

    Raises
    ------
    ArgumentError
        It has another form, too many partitions, or more replicas than brokers.
    """
    head, *parts = text.split(",")
    name, *counts = head.split(":")
    is_name = name_refusal(name) is None
    if not is_name or len(counts) > 2 or not all(re.fullmatch("[0-9]{1,9}", n) for n in counts):
        raise ArgumentError(
            f"a topic is NAME[:PARTITIONS[:REPLICAS]][,KEY=VALUE...], not {shown(text)}"
        )
    partitions = within(int(counts[0]), "PARTITIONS", 1, MAX_PARTITIONS) if counts else None
    if len(counts) == 2 and int(counts[1]) != 1:
        raise ArgumentError(
            f"topic {name}: REPLICAS must be 1, not {counts[1]}: one broker is served"
        )
    return name, TopicOptions(partitions, _configs_of(name, parts))


def _configs_of(name: str, parts: Iterable[str]) -> dict[str, str]:
    configs: dict[str, str] = {}
    last = ""
    for part in parts:
        key, equals, value = part.partition("=")
        if equals and key.strip() in configs:
            raise ArgumentError(f"topic {name}: {key.strip()} is set twice; leave one out")
        if equals:
            last = key.strip()
            configs[last] = value
        elif last:
            configs[last] += f",{part}"
        else:
            raise ArgumentError(f"topic {name}: a setting is KEY=VALUE, not {shown(part)}")
    return configs


def refuse_open(place: Place, *, client_certificates: bool, insecure: bool) -> None:
    """Refuse an address that other machines can reach without a password or a certificate."""
    guarded = place.protocol == "sasl_ssl" or (place.protocol == "ssl" and client_certificates)
    if not (place.is_loopback or guarded or insecure):
        raise ArgumentError(
            f"{place.address} is not a loopback address: give it SASL over TLS (sasl_ssl://) or "
            "client certificates (--tls-client-ca), or --insecure"
        )


def refuse_unroutable(
    places: Iterable[Place], advertised: Iterable[Place | None], remedy: str
) -> None:
    """Refuse to advertise an address that leads to no machine.

    ``advertised`` has an address for each place, or is empty. ``remedy`` is the advice of the
    message.
    Source: KafkaConfig.validateValues, which does not check the address of IPv6.
    """
    for place in tuple(advertised) or tuple(places):
        if place is not None and place.is_unroutable:
            raise ArgumentError(
                f"clients would be told {place.address}, which is no machine's address: {remedy}"
            )


@dataclass
class Options:
    """The options of a server.

    Attributes
    ----------
    places
        Where it listens.
    advertised
        The advertised address of each; empty, or None: the address where it listens.
    topics
        Name -> its partitions and settings.
    virtual
        Whether the clock stands until it is advanced.
    auto
        Whether a virtual clock also moves when clients only wait for it.
    tls
        An ``ssl.SSLContext`` for listeners with TLS.
    """

    config: Mapping[str, Any] = field(default_factory=dict)
    release: Release = DEFAULT_RELEASE
    places: tuple[Place, ...] = (Place("plaintext", "127.0.0.1", 0),)
    advertised: tuple[Place | None, ...] = ()
    topics: Mapping[str, TopicOptions] = field(default_factory=dict)
    virtual: bool = False
    auto: bool = False
    seed: int | None = None
    users: Any = None
    tls: Any = None
    control: Place | None = None
    metrics: Place | None = None
