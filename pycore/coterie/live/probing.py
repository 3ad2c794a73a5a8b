"""What speaks at an address, found by asking: for the one line of a connection that fails.

Each look is a connection of its own: as Kafka's clients begin, without and with TLS, then as a
browser does. Certificates are not checked, and no password is sent.
"""

from __future__ import annotations

import asyncio
import ssl
from asyncio import StreamReader, StreamWriter
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from coterie.errors import WireError
from coterie.values import Error
from coterie.wire import APIS, decode_response, encode_request

AWAY, SILENT, CLOSED, OTHER, HTTP, KAFKA = range(6)  # the more is known, the larger
LOOKS = 2  # one after the other
KEYS = {api.name: key for key, api in APIS.items()}
TLS_ALERT = b"\x15\x03"
HEAD_BYTES, BANNER_BYTES = 8, 64
LOOK_BYTES_MAX = 1 << 20
CORRELATION_ID = 0x636F7465
Ask = Callable[[StreamReader, StreamWriter], Awaitable["Spoken"]]


class Spoken(NamedTuple):
    """What a listener speaks.

    Attributes
    ----------
    kind : int
        ``AWAY``: there is no connection; ``SILENT``, ``CLOSED``: nothing comes back; ``OTHER``:
        neither HTTP nor Kafka.
    tls : bool
        Whether it has TLS.
    mechanisms : tuple of str or None
        Of SASL; None: it takes no login.
    banner : bytes
        How what it sends begins, for ``OTHER``.
    """

    kind: int
    tls: bool = False
    mechanisms: tuple[str, ...] | None = None
    banner: bytes = b""

    @property
    def protocol(self) -> str:
        """The ``security.protocol`` of a listener of Kafka."""
        transport = "SSL" if self.tls else "PLAINTEXT"
        return transport if self.mechanisms is None else f"SASL_{transport}"


async def spoken_at(host: str, port: int, look_s: float) -> Spoken:
    """Return what is spoken at an address; takes ``LOOKS`` times ``look_s`` at most."""
    anyone = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    anyone.check_hostname, anyone.verify_mode = False, ssl.CERT_NONE
    found: list[Spoken] = []
    for ask in (_as_client, _as_browser):
        looks = (_look(ask, host, port, tls, look_s) for tls in (None, anyone))
        found += await asyncio.gather(*looks)
        best = max(found, key=lambda spoken: spoken.kind)
        if best.kind in (AWAY, OTHER, HTTP, KAFKA):
            return best
    of_tls = [spoken for spoken in found if spoken.tls]  # without it, TLS closes or is silent
    return max(of_tls or found, key=lambda spoken: spoken.kind)


async def _look(
    ask: Ask, host: str, port: int, tls: ssl.SSLContext | None, look_s: float
) -> Spoken:
    opened: list[StreamWriter] = []

    async def look() -> Spoken:
        reader, writer = await asyncio.open_connection(host, port, ssl=tls)
        opened.append(writer)
        return await ask(reader, writer)

    try:
        found = await asyncio.wait_for(look(), look_s)
    except TimeoutError:
        found = Spoken(SILENT if opened else AWAY)
    except (OSError, EOFError):
        found = Spoken(CLOSED if opened else AWAY)
    finally:
        for writer in opened:
            writer.transport.abort()
    return found._replace(tls=tls is not None and bool(opened))


async def _as_client(reader: StreamReader, writer: StreamWriter) -> Spoken:
    """Ask for the APIs, and whether there is a login."""
    writer.write(_request("ApiVersions", 0, {}))
    head = await _head(reader)
    if not head or head.startswith(TLS_ALERT):
        return Spoken(CLOSED)
    if head.startswith(b"HTTP"):
        return Spoken(HTTP)
    size = int.from_bytes(head[:4], "big")
    if head[4:8] != CORRELATION_ID.to_bytes(4, "big") or size > LOOK_BYTES_MAX:
        return Spoken(OTHER, banner=head)
    try:
        await reader.readexactly(4 + size - len(head))
        writer.write(_request("SaslHandshake", 1, {"mechanism": "PLAIN"}))
        size = int.from_bytes(await reader.readexactly(4), "big")
        frame = await reader.readexactly(min(size, LOOK_BYTES_MAX))
        answer: dict[str, Any] = decode_response(KEYS["SaslHandshake"], 1, frame).body
    except (OSError, EOFError, ValueError, WireError):
        return Spoken(KAFKA)
    if answer["errorCode"] == Error.ILLEGAL_SASL_STATE:  # as SaslHandshake without SASL is answered
        return Spoken(KAFKA)
    return Spoken(KAFKA, mechanisms=tuple(answer["mechanisms"]))


async def _as_browser(reader: StreamReader, writer: StreamWriter) -> Spoken:
    writer.write(b"GET / HTTP/1.0\r\n\r\n")
    return Spoken(HTTP if (await _head(reader)).startswith(b"HTTP") else CLOSED)


async def _head(reader: StreamReader) -> bytes:
    head = b""
    while len(head) < HEAD_BYTES and (more := await reader.read(BANNER_BYTES - len(head))):
        head += more
    return head


def _request(api: str, version: int, body: dict[str, Any]) -> bytes:
    frame = encode_request(
        KEYS[api], version, body, correlation_id=CORRELATION_ID, client_id="coterie"
    )
    return len(frame).to_bytes(4, "big") + frame


async def names_at(host: str, port: int, tls: ssl.SSLContext, look_s: float) -> list[str]:
    """Return the names in the certificate of a listener; ``tls`` trusts it for any host."""
    writers: list[StreamWriter] = []

    async def look() -> Any:
        _, writer = await asyncio.open_connection(host, port, ssl=tls)
        writers.append(writer)
        return writer.get_extra_info("peercert")

    try:
        certificate = await asyncio.wait_for(look(), look_s)
    except (TimeoutError, OSError):
        return []
    finally:
        for writer in writers:
            writer.transport.abort()
    return [name for _, name in certificate.get("subjectAltName", ())]
