"""Why there is no connection to a broker: one line that says what to change.

What the error itself does not say, a look at the listener does: another protocol, another server,
silence.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from typing import NamedTuple

from aiokafka import errors as library

from coterie.live.client_config import ClientConfig
from coterie.live.cluster_errors import ClusterError, Unreached
from coterie.live.probing import (
    AWAY,
    CLOSED,
    HTTP,
    KAFKA,
    LOOKS,
    OTHER,
    SILENT,
    Spoken,
    names_at,
    spoken_at,
)
from coterie.live.security import tls_context

CERTIFICATE_NAMES = 3  # in a line
OTHER_NAME = {62, 64}  # OpenSSL, x509_vfy.h: X509_V_ERR_HOSTNAME_MISMATCH, _IP_ADDRESS_MISMATCH
FILE = "in the file of --command-config"


class FrameTooLong(ClusterError):
    """A broker announces a frame that no request here is answered with."""


class Place(NamedTuple):
    """Where a connection goes, by which protocol, and in which time."""

    host: str
    port: int
    protocol: str
    mechanism: str | None
    config: ClientConfig
    setup_s: float

    @property
    def address(self) -> str:
        """HOST:PORT."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


async def not_connected(error: Exception, place: Place) -> ClusterError:
    """Return the error for a connection that could not be set up."""
    address, cause = place.address, error.__cause__
    timeouts = (TimeoutError, asyncio.TimeoutError)  # one from Python 3.11 on
    tls = next((one for one in (error, cause) if isinstance(one, ssl.SSLError)), None)
    if isinstance(tls, ssl.SSLCertVerificationError):
        return ClusterError(f"{address}: TLS: {await _distrust(tls, place)}")
    if tls is not None and "CERTIFICATE" in (tls.reason or ""):
        return ClusterError(f"{address}: {tls_failure(tls)}")
    if isinstance(error, library.SaslAuthenticationFailed):
        text = str(error.args[0]) if error.args and error.args[0] else "wrong user or password"
        return ClusterError(f"{address}: login refused ({text}); see sasl.jaas.config")
    if isinstance(error, socket.gaierror):
        return Unreached(f"{address}: no connection: the host has no address ({error.strerror})")
    if (
        isinstance(error, OSError)
        and error.strerror
        and not isinstance(error, ConnectionResetError)
    ):
        # asyncio puts the address where the system's text belongs.
        number = error.errno or 0
        text = os.strerror(number) if number > 0 else error.strerror
        if tls is None and not isinstance(error, timeouts):
            return Unreached(f"{address}: no connection ({text})")
    found = await other_listener(place)
    if found is not None:
        return found
    if tls is not None:
        return ClusterError(f"{address}: {tls_failure(tls)}")
    if isinstance(cause, FrameTooLong):
        return ClusterError(f"{address}: {cause}")
    if isinstance(error, library.UnsupportedSaslMechanismError):
        return ClusterError(f"{address}: the listener has no sasl.mechanism {place.mechanism}")
    if isinstance(error, timeouts):
        return Unreached(f"{address}: no answer in {place.setup_s:g} s")
    refused = library.KafkaConnectionError | library.IllegalSaslStateError | EOFError | OSError
    if isinstance(error, refused):
        return Unreached(closing(place))
    return ClusterError(f"{address}: login fails ({type(error).__name__}: {error})")


def closing(place: Place) -> str:
    """Return the line for a listener that closes connections, whatever it is asked."""
    what = "closes the connection at once; is it a listener of Kafka with"
    return f"{place.address}: {what} {place.protocol}?"


def tls_failure(error: ssl.SSLError) -> str:
    what = error.reason or str(error)
    if "CERTIFICATE" in what:  # an alert of the broker
        how = "requires another certificate of the client"
        return f"TLS: the broker {how} ({what}); ssl.keystore.location names it"
    return f"TLS fails ({what}); is security.protocol that of this listener?"


async def _distrust(error: ssl.SSLCertVerificationError, place: Place) -> str:
    """Return why a certificate is refused; of one for other hosts, with their names."""
    why = error.verify_message.rstrip(".")
    if error.verify_code not in OTHER_NAME:
        return (
            f"the broker's certificate is not trusted ({why}); "
            "ssl.truststore.location names the authority that signed it"
        )
    name = "ssl.endpoint.identification.algorithm"
    anyone = tls_context(ClientConfig({**place.config.values, name: ""}))
    assert anyone is not None  # TLS has just failed
    names = await names_at(place.host, place.port, anyone, place.setup_s / LOOKS / LOOKS)
    shown = ", ".join(names[:CERTIFICATE_NAMES]) + (", ..." * (len(names) > CERTIFICATE_NAMES))
    of_names = f"is for {shown}, not for {place.host}" if names else why
    return f"the broker's certificate {of_names}; use such a name, or set {name}= to nothing"


async def other_listener(place: Place) -> ClusterError | None:
    """Look at what speaks there; return the error that follows; None: it explains nothing."""
    found = await spoken_at(place.host, place.port, place.setup_s / LOOKS / LOOKS)
    what = _difference(found, place)
    if what is not None:
        return ClusterError(f"{place.address}: {what}")
    if found.kind == AWAY:
        what = f"no connection in {place.setup_s:g} s: nothing answers at this address"
        return Unreached(f"{place.address}: {what}; is the host right, or does a firewall drop it?")
    if found.kind == SILENT:
        what = "accepts the connection, and does not answer; is it a port of Kafka?"
        return Unreached(f"{place.address}: {what}")
    if found.kind == CLOSED and found.tls:
        what = "closes the connection once TLS has begun; perhaps it requires a certificate"
        return Unreached(f"{place.address}: {what}: ssl.keystore.location names it")
    return None


def _difference(found: Spoken, place: Place) -> str | None:
    """Return how a listener differs from what the properties say."""
    chosen = place.protocol
    if found.kind == HTTP:
        return "an HTTP server answers, and no broker of Kafka; is the port right?"
    if found.kind == OTHER:
        return f"no broker of Kafka answers (it sends {found.banner!r}); is the port right?"
    if found.kind == KAFKA and found.protocol != chosen:
        login = ""
        if found.mechanisms is not None and not chosen.startswith("SASL"):
            login = f", with sasl.jaas.config and sasl.mechanism={_any_of(found.mechanisms)}"
        return (
            f"the listener has security.protocol {found.protocol}, not {chosen}; "
            f"set security.protocol={found.protocol} {FILE}{login}"
        )
    if found.kind == KAFKA and found.mechanisms and place.mechanism not in found.mechanisms:
        return (
            f"the listener has no sasl.mechanism {place.mechanism}; "
            f"set sasl.mechanism={_any_of(found.mechanisms)} {FILE}"
        )
    if found.tls and not chosen.endswith("SSL"):
        return f"the listener has TLS; set security.protocol=SSL or SASL_SSL, not {chosen}, {FILE}"
    return None


def _any_of(names: tuple[str, ...]) -> str:
    return " or ".join(names)
