"""Kafka's wire protocol: frames from bytes to plain values and back, by one table of messages.

A frame is without the four bytes of length before it. A body is a dict by Kafka's own field names,
as its JSON converters print them, but for bytes, which are bytes here. ``schemas.txt`` has the
fields of every version; ``python tools/wire_table.py`` holds it to Kafka's own schemas.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple

from coterie._core.codec.layout import Layout, layout_of
from coterie._core.wire.codec import Codec, Request, Response
from coterie.errors import WireError
from coterie.schemas import SECTIONS

__all__ = [
    "APIS",
    "Api",
    "Request",
    "Response",
    "WireError",
    "decode_request",
    "decode_response",
    "encode_request",
    "encode_response",
]


class Api(NamedTuple):
    """One of Kafka's APIs: its name and key, and the versions that the table has of it.

    ``flexible_version`` is the first whose messages have tagged fields and compact lengths.
    """

    key: int
    name: str
    first_version: int
    last_version: int
    flexible_version: int


APIS: Mapping[int, Api] = MappingProxyType(
    {
        s.keys[0]: Api(s.keys[0], name, s.first, s.last, s.flexible)
        for name, s in SECTIONS.items()
        if "request" in s.parts
    }
)


def _layout(api: Api, version: int, direction: Literal["request", "response"]) -> Layout:
    fields = SECTIONS[api.name].fields(direction)
    return layout_of(fields, version, version >= api.flexible_version)


CODEC = Codec(APIS.values(), _layout)
decode_request = CODEC.decode_request
decode_response = CODEC.decode_response
encode_request = CODEC.encode_request
encode_response = CODEC.encode_response
