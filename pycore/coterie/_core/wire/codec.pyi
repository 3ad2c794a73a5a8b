"""Frames of Kafka's protocol: headers, and bodies by the layout of their API and version.

A frame excludes the four bytes of its length. Layouts are made at the first use of a version, by a
function of the caller. A filled dict takes at most a few hundred bytes of memory for each byte of
a hostile frame (lists of the smallest structs); other frames take a few.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final, Literal, final

from coterie._core.codec.layout import Layout

@final
class Request:
    """A decoded request.

    ``body`` is a dict with Kafka's field names, or a row (see ``Codec.decode_request``). It is None
    in the request of a ``WireError``. ``left_over`` is the number of bytes after the body, which
    Kafka ignores.
    """

    api_key: Final[int]
    api_version: Final[int]
    correlation_id: Final[int]
    client_id: Final[str | None]
    body: Final[Any]
    left_over: Final[int]

@final
class Response:
    """A decoded response; see ``Request`` for the fields."""

    correlation_id: Final[int]
    body: Final[Any]
    left_over: Final[int]

@final
class Codec:
    """Decodes and encodes the messages of a table.

    Parameters
    ----------
    apis : iterable of coterie.wire.Api
    make : callable
        ``make(api, version, direction)`` returns the layout of a message; called once for each.
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
        """Decode a request, header and body.

        Parameters
        ----------
        frame : bytes-like
            A frame without its length.
        fill : bool
            Dicts have the fields of all versions, at their defaults if this version lacks them.
            Otherwise they have the fields of the version, and tagged fields that are not at their
            default.
        tags : bool
            Dicts have unknown tagged fields under ``_unknown_tags``, as pairs of tag and bytes.
            Those of the header are dropped.
        rows : bool
            Structs become rows: tuples with the fields of all versions in the table's order;
            a missing field has its default, a missing struct is None. The other two parameters
            are ignored.

        Raises
        ------
        coterie.wire.WireError
            The frame does not parse; ``stage`` is ``header``, ``version`` or ``body``.

        Examples
        --------
        >>> frame = encode_request(12, 4, {"groupId": "g", "generationId": 1, "memberId": "m"})
        >>> request = decode_request(frame)
        >>> APIS[request.api_key].name, request.body["groupId"]
        ('Heartbeat', 'g')
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
        elements_max: int | None = None,
    ) -> Response:
        """Decode the response to a request of that API and version; see ``decode_request``.

        ``elements_max``: of all lists together, which bounds the memory; a struct counts once for
        each of its fields. None: as many as fit.

        Raises
        ------
        coterie.wire.WireError
            The frame does not parse; ``stage`` is ``header`` or ``body``.
        coterie.ArgumentError
            There is no such API or version.

        Examples
        --------
        >>> frame = encode_response(12, 4, {"errorCode": 27})
        >>> decode_response(12, 4, frame).body
        {'throttleTimeMs': 0, 'errorCode': 27}
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
        r"""Encode a request as a frame without its length.

        Parameters
        ----------
        body : dict or tuple
            A dict with Kafka's field names. A missing field is written at its default, and a field
            that the version lacks is not written. Uuids have Kafka's text form, bytes are any
            buffer, and ``_unknown_tags`` are written unchanged. A tuple is a row, as ``rows``
            decodes it.

        Raises
        ------
        coterie.ArgumentError
            There is no such API or version, or a value does not fit its field.

        Examples
        --------
        >>> encode_request(18, 0, {}, correlation_id=5)  # ApiVersions
        b'\x00\x12\x00\x00\x00\x00\x00\x05\xff\xff'
        """

    def encode_response(
        self,
        api_key: int,
        api_version: int,
        body: dict[str, Any] | tuple[Any, ...],
        *,
        correlation_id: int = 0,
    ) -> bytes:
        r"""Encode a response; see ``encode_request``.

        Raises
        ------
        coterie.ArgumentError
            There is no such API or version, or a value does not fit its field.

        Examples
        --------
        >>> encode_response(12, 0, {"errorCode": 27}, correlation_id=5)  # REBALANCE_IN_PROGRESS
        b'\x00\x00\x00\x05\x00\x1b'
        """
