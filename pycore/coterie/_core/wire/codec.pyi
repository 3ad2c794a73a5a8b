"""Frames of Kafka's protocol: headers, and bodies by the layout of their API and version.

A frame is without the four bytes of length before it. Layouts are made when a version is first
met, by the function that is handed in. A filled dict costs at most some hundred bytes for each
byte of a hostile frame (lists of the smallest structs); other frames cost a few.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final, Literal, final

from coterie._core.codec.layout import Layout

@final
class Request:
    """A request that was read.

    ``body`` has its fields by Kafka's names, or is a row (see ``Codec.decode_request``); it is None
    in the request of a ``WireError``.
    ``left_over`` is how many bytes came after the body; Kafka does not mind them.
    """

    api_key: Final[int]
    api_version: Final[int]
    correlation_id: Final[int]
    client_id: Final[str | None]
    body: Final[Any]
    left_over: Final[int]

@final
class Response:
    """A response that was read: see ``Request``."""

    correlation_id: Final[int]
    body: Final[Any]
    left_over: Final[int]

@final
class Codec:
    """Reads and writes the messages of a table.

    Parameters
    ----------
    apis : iterable of coterie.wire.Api
    make : callable
        ``make(api, version, direction)`` gives the layout of a message; asked once for each.
    """

    def __init__(
        self,
        apis: Iterable[Any],
        make: Callable[[Any, int, Literal["request", "response"]], Layout],
    ) -> None: ...
    def layout(
        self, api_key: int, api_version: int, direction: Literal["request", "response"]
    ) -> Layout:
        """Return the layout of one message.

        Raises
        ------
        coterie.ArgumentError
            There is no such API, version or direction.
        """

    def decode_request(
        self, frame: bytes, *, fill: bool = False, tags: bool = False, rows: bool = False
    ) -> Request:
        """Read a request: header, then body.

        Parameters
        ----------
        frame : bytes-like
            Without the length before it.
        fill : bool
            Every field of any version is there, at its default where this version lacks it. Else
            the fields of the version, and tagged ones where they are not at their default.
        tags : bool
            Keep unknown tagged fields, as pairs of tag and bytes under ``_unknown_tags`` in the
            dict of their struct. Those of the header are dropped.
        rows : bool
            Structs become rows: a tuple of every field of any version in the table's order, at its
            default (a struct: None) where it did not come. No dict is made; the other two
            parameters mean nothing.

        Raises
        ------
        coterie.wire.WireError
            ``stage`` says what does not parse: ``header``, ``version`` or ``body``.
        """

    def decode_response(
        self,
        api_key: int,
        api_version: int,
        frame: bytes,
        *,
        fill: bool = False,
        tags: bool = False,
        rows: bool = False,
    ) -> Response:
        """Read the response to a request of that API and version; see ``decode_request``.

        Raises
        ------
        coterie.wire.WireError
            It does not parse: ``stage`` is ``header`` or ``body``.
        coterie.ArgumentError
            There is no such API or version.
        """

    def encode_request(
        self,
        api_key: int,
        api_version: int,
        body: dict[str, Any] | tuple[Any, ...],
        *,
        correlation_id: int = 0,
        client_id: str | None = None,
    ) -> bytes:
        """Write a request: the frame without the length before it.

        Parameters
        ----------
        body : dict or tuple
            By Kafka's field names. A field that is not there has its default, one that the version
            does not have is not written; uuids are in Kafka's text, bytes are anything with a
            buffer. ``_unknown_tags`` are written as they are. A tuple is a row, as it is read with
            ``rows``.

        Raises
        ------
        coterie.ArgumentError
            There is no such API or version, or a value does not fit its field.
        """

    def encode_response(
        self,
        api_key: int,
        api_version: int,
        body: dict[str, Any] | tuple[Any, ...],
        *,
        correlation_id: int = 0,
    ) -> bytes:
        """Write a response; see ``encode_request``.

        Raises
        ------
        coterie.ArgumentError
            There is no such API or version, or a value does not fit its field.
        """
