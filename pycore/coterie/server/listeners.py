"""Listeners by Kafka's settings: their names, protocols, addresses, and advertised addresses.

Source: KafkaConfig (``listeners``, ``advertised.listeners``, ``listener.security.protocol.map``,
``controller.listener.names``, ``inter.broker.listener.name``).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from coterie.errors import ArgumentError, ConfigError, shown
from coterie.server.options import PLAINTEXT, PROTOCOLS, Place, place_of

LISTENERS, ADVERTISED = "listeners", "advertised.listeners"
PROTOCOL_MAP, CONTROLLERS = "listener.security.protocol.map", "controller.listener.names"
INTER_BROKER = "inter.broker.listener.name"
_ALL_ADDRESSES = "0.0.0.0"  # what an empty host stands for, as in Kafka


def _words(settings: Mapping[str, Any], name: str) -> list[str]:
    value = settings.get(name)
    return [word.strip() for word in str(value or "").split(",") if word.strip()]


def protocols_of(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the protocol of each listener name, in upper case: Kafka's own, and the map's."""
    protocols = {protocol.upper(): protocol for protocol in PROTOCOLS}
    for word in _words(settings, PROTOCOL_MAP):
        name, _, protocol = word.partition(":")
        if not name or protocol.lower() not in PROTOCOLS:
            raise ConfigError(
                f"{PROTOCOL_MAP} is NAME:PROTOCOL,..., its protocols {', '.join(PROTOCOLS)}; "
                f"not {shown(word)}"
            )
        protocols[name.upper()] = protocol.lower()
    return protocols


def listener_names(settings: Mapping[str, Any]) -> set[str]:
    """Return the names that a listener may have by these settings, in lower case."""
    controllers = {name.lower() for name in _words(settings, CONTROLLERS)}
    return {name.lower() for name in protocols_of(settings)} | controllers


def chosen_listeners(
    settings: Mapping[str, Any],
    listens: Iterable[Any],
    advertises: Iterable[Any] = (),
    *,
    default: str = "",
) -> tuple[tuple[Place, ...], tuple[Place | None, ...]]:
    """Return the addresses to listen on, and the advertised address of each; empty: none.

    Parameters
    ----------
    settings
        The settings of the server.
    listens
        Texts ``[NAME://]HOST:PORT``; none: those of ``listeners``. They replace the settings'
        listeners, which are then not checked.
    advertises
        Texts ``HOST:PORT``, one for each listener; none: those of ``advertised.listeners``.
    default
        The address to listen on if neither has one.

    Raises
    ------
    ArgumentError, ConfigError
        The lists do not match, or one has an invalid address.
    """
    protocols = protocols_of(settings)
    places = tuple(place_of(text, protocols=protocols) for text in listens)
    if not places:
        places = _broker_places(settings, LISTENERS, protocols) or (place_of(default),)
        _refuse_foreign_names(settings, [place.label.upper() for place in places], protocols)
    addresses: tuple[Place | None, ...] = tuple(
        place_of(text, protocols=PLAINTEXT) for text in advertises
    )
    if addresses and len(addresses) != len(places):
        raise ArgumentError("--advertise: give one for each listener")
    by_name = {place.label: place for place in _broker_places(settings, ADVERTISED, protocols)}
    advertised = addresses or tuple(by_name.get(place.label) for place in places)
    return _with_a_host(places, advertised)


def _refuse_foreign_names(
    settings: Mapping[str, Any], names: list[str], protocols: Mapping[str, str]
) -> None:
    """Refuse settings that name a listener twice, or one that does not exist."""
    if len(set(names)) < len(names):
        raise ConfigError(f"{LISTENERS} has a name twice; each listener needs its own")
    named = [(ADVERTISED, place.label) for place in _broker_places(settings, ADVERTISED, protocols)]
    named += [(INTER_BROKER, name) for name in _words(settings, INTER_BROKER)]
    for setting, name in named:
        if name.upper() not in names:
            raise ConfigError(f"{setting}: there is no listener {name.upper()}")


def _broker_places(
    settings: Mapping[str, Any], name: str, protocols: Mapping[str, str]
) -> tuple[Place, ...]:
    """Read a list of listeners, except controller listeners; an empty host is left empty."""
    controllers = {word.upper() for word in _words(settings, CONTROLLERS)}
    words = [
        word
        for word in _words(settings, name)
        if word.partition("://")[0].upper() not in controllers
    ]
    try:
        return tuple(place_of(word, protocols=protocols, any_host="*") for word in words)
    except ArgumentError as error:
        raise ConfigError(f"{name}: {error}") from None


def _with_a_host(
    places: tuple[Place, ...], advertised: tuple[Place | None, ...]
) -> tuple[tuple[Place, ...], tuple[Place | None, ...]]:
    """Replace an empty host: listen on all addresses, and advertise the machine's own name."""
    own_name = os.uname().nodename
    client_places = list(advertised)
    for number, place in enumerate(places):
        address = client_places[number] or (place if place.host == "*" else None)
        if address is not None and address.host == "*":
            client_places[number] = address._replace(host=own_name)
    opened = tuple(
        place._replace(host=_ALL_ADDRESSES) if place.host == "*" else place for place in places
    )
    return opened, tuple(client_places) if any(client_places) else ()
