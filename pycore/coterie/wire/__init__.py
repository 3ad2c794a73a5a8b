"""Kafka's wire protocol: frames from bytes to plain values and back, by one table of messages.

A frame excludes the four bytes of its length. A body is a dict in the form of Kafka's own JSON
converters, with their field names, except that bytes are bytes. ``schemas.txt`` has the fields of
every version; ``python tools/wire_table.py`` compares it with Kafka's own schemas.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple

from coterie._core.codec.layout import Layout, layout_of
from coterie._core.wire.codec import Codec, Request, Response
from coterie.base.schemas import SECTIONS
from coterie.errors import WireError

__all__ = [
    "APIS",
    "NO_ID",
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
    """One of Kafka's APIs: its name, its key, and its versions in the table.

    ``flexible_version`` is the first whose messages have tagged fields and compact lengths.
    """

    key: int
    name: str
    first_version: int
    last_version: int
    flexible_version: int


APIS: Mapping[int, Api] = MappingProxyType(
    {
        key: Api(key, name, s.first, s.last, s.flexible)
        for name, s in SECTIONS.items()
        if "request" in s.parts
        for key in s.keys
    }
)


NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"  # the zero uuid, for no id or an unknown topic


def _layout(api: Api, version: int, direction: Literal["request", "response"]) -> Layout:
    fields = SECTIONS[api.name].fields(direction)
    return layout_of(fields, version, version >= api.flexible_version)


CODEC = Codec(APIS.values(), _layout)
decode_request = CODEC.decode_request
decode_response = CODEC.decode_response
encode_request = CODEC.encode_request
encode_response = CODEC.encode_response
