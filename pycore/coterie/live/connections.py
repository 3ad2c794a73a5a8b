"""Connections to brokers: frames of ``coterie.wire`` over the client library's connections.

aiokafka opens the connection, with TLS and SASL, and pairs responses with requests. It gets frames
that are already encoded, and gives the frames that come back, unread. Memory is bounded whatever a
broker sends: a frame that is longer than ``FRAME_BYTES_MAX`` ends the connection before it is read,
longer ones than were requested come one at a time, and lists have a limit.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from functools import partial
from io import BytesIO
from typing import Any, NamedTuple

from aiokafka import errors as library
from aiokafka.conn import AIOKafkaConnection

from coterie.errors import WireError
from coterie.live.client_config import ClientConfig
from coterie.live.cluster_errors import ClusterError, Unavailable, Unreached
from coterie.live.connection_failures import (
    FrameTooLong,
    Place,
    closing,
    not_connected,
    other_listener,
)
from coterie.live.security import sasl_arguments, tls_context
from coterie.wire import APIS, Api, decode_response, encode_request

FRAME_BYTES_MAX = 128 << 20  # a batch has 100 MiB at most, as a request (socket.request.max.bytes)
SETUP_BYTES_MAX = 1 << 20  # before it is set up: versions of APIs, and tokens of 64 KiB at most
UNREQUESTED_BYTES = 1 << 20  # of a frame, beyond what was requested, beside other frames
ELEMENTS_MAX = 2_000_000  # a topic of 100,000 partitions with three replicas
ELEMENTS_OF_FETCH, FIELDS_OF_FETCH = 1_000, 16
BY_NAME = {api.name: api for api in APIS.values()}
NEWEST = {  # later ones have no names of topics, or are for many groups at once
    **{"Fetch": 13, "OffsetCommit": 9, "OffsetFetch": 7, "FindCoordinator": 3},
}
OLDEST = {  # Kafka 0.11: batches as they are stored, all offsets of a group
    **{"Fetch": 4, "ListOffsets": 1, "Metadata": 1, "OffsetFetch": 2, "OffsetCommit": 2},
}
logging.getLogger("aiokafka").addHandler(logging.NullHandler())  # errors are raised, not printed


def elements_max(api: str, body: dict[str, Any]) -> int:
    """Return the most elements of lists that a response may have, which bounds its memory.

    A struct counts once for each of its fields. A Fetch response has no more partitions than the
    request, and at most a few brokers.
    """
    if api != "Fetch":
        return ELEMENTS_MAX
    partitions = sum(len(topic["partitions"]) for topic in body["topics"])
    return FIELDS_OF_FETCH * (ELEMENTS_OF_FETCH + partitions)


class Security(NamedTuple):
    protocol: str
    tls: ssl.SSLContext | None
    sasl: dict[str, Any]

    @classmethod
    def of(cls, config: ClientConfig) -> Security:
        """Read the files that the properties name; raises ConfigError."""
        return cls(config.text("security.protocol"), tls_context(config), sasl_arguments(config))


class _WholeFrame:
    """The type of responses: the frame."""

    @staticmethod
    def decode(frame: BytesIO) -> bytes:
        return frame.getvalue()


class _Frame:
    """A request that is sent as it is, in the form of the library's requests."""

    RESPONSE_TYPE = _WholeFrame

    def __init__(self, api: Api, body: dict[str, Any]) -> None:
        self.api, self.body, self.version = api, body, -1

    def prepare(self, versions: Mapping[int, tuple[int, int]]) -> _Frame:
        first, last = versions.get(self.api.key, (0, -1))
        name = self.api.name
        self.version = min(last, NEWEST.get(name, self.api.last_version))
        if self.version < max(first, OLDEST.get(name, self.api.first_version)):
            raise ClusterError(f"the broker has {name} in versions {first} to {last}: too old")
        return self

    def build_request_header(self, correlation_id: int, client_id: str) -> _Encoded:
        """Encode the whole request; the header comes first."""
        frame = encode_request(
            self.api.key,
            self.version,
            self.body,
            correlation_id=correlation_id,
            client_id=client_id,
        )
        return _Encoded(frame)

    def encode(self) -> bytes:
        """Return what follows the header: nothing, see ``build_request_header``."""
        return b""

    def parse_response_header(self, frame: BytesIO) -> _Header:
        """Read the correlation id, and leave the frame as it is."""
        return _Header(int.from_bytes(frame.getvalue()[:4], "big", signed=True))


class _Encoded(NamedTuple):
    frame: bytes

    def encode(self) -> bytes:
        return self.frame


class _Header(NamedTuple):
    correlation_id: int


class _Link(AIOKafkaConnection):  # type: ignore[misc]
    _reader: Any
    _requests: Any
    frame_bytes_max = SETUP_BYTES_MAX
    one_at_a_time: asyncio.Lock

    @property
    def versions(self) -> Mapping[int, tuple[int, int]]:
        """The first and the last version of each API of the broker."""
        found: Mapping[int, tuple[int, int]] = self._versions
        return found

    @staticmethod
    async def _read(reference: Callable[[], _Link]) -> None:
        """Read frames; unlike the library's, hold none while the next one is waited for."""
        link = reference()
        reader = link._reader
        while True:
            size = int.from_bytes(await reader.readexactly(4), "big", signed=True)
            link._handle_frame(await link.frame(reader, size))

    async def frame(self, reader: asyncio.StreamReader, size: int) -> bytes:
        """Read a frame; refuse a long one before."""
        if not 0 <= size <= self.frame_bytes_max:
            raise FrameTooLong(f"announces a frame of {size:,} bytes: not Kafka's protocol?")
        request = self._requests[0][1] if self._requests else None
        requested = request.body.get("maxBytes", 0) if isinstance(request, _Frame) else 0
        if size <= requested + UNREQUESTED_BYTES:
            return await reader.readexactly(size)
        async with self.one_at_a_time:
            return await reader.readexactly(size)


class Connection:
    """A connection to one broker; requests may overlap, and are answered in order."""

    def __init__(self, link: _Link, place: Place) -> None:
        self._link, self._place, self.address = link, place, place.address
        self._has_answered = False

    @property
    def is_open(self) -> bool:
        return bool(self._link.connected())

    def has(self, api: str) -> bool:
        """Whether the broker has an API in a version that is known here."""
        known = BY_NAME[api]
        first, last = self._link.versions.get(known.key, (0, -1))
        return bool(max(first, known.first_version) <= min(last, known.last_version))

    async def ask(self, api: str, body: dict[str, Any]) -> dict[str, Any]:
        """Send a request in the newest version that both sides have; return the response's body.

        Raises
        ------
        Unavailable
            The connection broke, or there was no response in ``request.timeout.ms``.
        ClusterError
            The broker has no such API, or the response cannot be read.
        """
        request = _Frame(BY_NAME[api], body)
        try:
            frame = await self._link.send(request)
        except (TimeoutError, library.KafkaError, OSError) as error:
            self.close()
            broken = _broken(error, self.address)
            if broken is None and self._has_answered:
                broken = Unavailable(f"{self.address}: the connection broke")
            if broken is None:
                broken = await other_listener(self._place) or Unavailable(closing(self._place))
            raise broken from error
        except ClusterError as error:
            raise ClusterError(f"{self.address}: {error}") from None
        try:
            fields: dict[str, Any] = decode_response(
                request.api.key, request.version, frame, elements_max=elements_max(api, body)
            ).body
        except WireError as error:
            self.close()
            raise ClusterError(f"{self.address}: a response that cannot be read: {error}") from None
        self._has_answered = True
        return fields

    def close(self) -> asyncio.Future[None]:
        """Close the connection; requests without a response fail. The future is done after that."""
        closed: asyncio.Future[None] = self._link.close()
        return closed


async def connect(
    host: str,
    port: int,
    security: Security,
    config: ClientConfig,
    setup_s: float,
    one_at_a_time: asyncio.Lock,
) -> Connection:
    """Connect to a broker, and log in, in ``setup_s`` seconds; half of it again finds out why not.

    ``one_at_a_time``: of the frames that are longer than requested, of all connections.

    Raises
    ------
    Unreached
        Nothing answers there.
    ClusterError
        TLS fails, the password is wrong, or the listener has another protocol, or is not Kafka's.
    """
    mechanism = security.sasl.get("sasl_mechanism")
    place = Place(host, port, security.protocol, mechanism, config, setup_s)
    link = _Link(
        host,
        port,
        client_id=config.text("client.id"),
        request_timeout_ms=config.whole("request.timeout.ms"),
        security_protocol=security.protocol,
        ssl_context=security.tls,
        **security.sasl,
    )
    link.one_at_a_time = one_at_a_time
    try:
        looked_up = _look_up(host, port)
        await asyncio.wait_for(_set_up(looked_up, link), setup_s)
    except ClusterError as error:
        raise ClusterError(f"{place.address}: {error}") from None
    except (TimeoutError, library.KafkaError, OSError, EOFError) as error:
        if looked_up.cancelled():
            what = f"the host is not found in {setup_s:g} s; is its name right?"
            raise Unreached(f"{place.address}: no connection: {what}") from None
        raise await not_connected(error, place) from error
    except Exception as error:  # of a mechanism, or of a response that the library cannot read
        what = f"{type(error).__name__}: {error}"
        raise (
            await other_listener(place)
            or ClusterError(f"{place.address}: the connection cannot be set up ({what})")
        ) from error
    link.frame_bytes_max = FRAME_BYTES_MAX
    return Connection(link, place)


async def _set_up(looked_up: asyncio.Future[None], link: _Link) -> None:
    await looked_up
    await link.connect()


def _look_up(host: str, port: int) -> asyncio.Future[None]:
    """Look a host up, which may take longer than the program: its thread is not waited for."""
    loop = asyncio.get_running_loop()
    found: asyncio.Future[None] = loop.create_future()

    def look_up() -> None:
        try:
            socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            result = partial(_settle, found)
        except OSError as error:
            result = partial(_settle, found, error)
        except UnicodeError:
            result = partial(_settle, found, socket.gaierror(socket.EAI_NONAME, "not a name"))
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(result)

    threading.Thread(target=look_up, daemon=True).start()
    return found


def _settle(future: asyncio.Future[None], error: OSError | None = None) -> None:
    if future.done():  # it was given up
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)


def _broken(error: Exception, address: str) -> ClusterError | None:
    """Return the error for a request without a response; None: the connection just closed."""
    if isinstance(error, asyncio.TimeoutError):
        return Unavailable(f"{address}: no response in request.timeout.ms")
    if isinstance(error, library.CorrelationIdError):
        return ClusterError(f"{address}: a response to no request: {error}")
    cause = error.__cause__
    if cause is None or isinstance(cause, OSError | EOFError):
        return None
    return ClusterError(f"{address}: {cause}")
