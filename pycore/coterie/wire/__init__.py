"""Kafka's wire protocol: frames from bytes to plain values and back, by one table of messages.

A frame is without the four bytes of length before it. A body is a dict by Kafka's own field names,
as its JSON converters print them, but for bytes, which are bytes here. ``messages.txt`` has the
fields of every version; ``python tools/wire_table.py`` holds it to Kafka's own schemas.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from coterie._core.wire.codec import Codec, Request, Response
from coterie._core.wire.layout import Layout, layout_of
from coterie.errors import WireError
from coterie.wire.table import Api, fields_of, sections

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

SECTIONS = sections(Path(__file__).with_name("messages.txt").read_text("utf-8"))
APIS: Mapping[int, Api] = MappingProxyType(
    {s.key: Api(s.key, name, s.first, s.last, s.flexible) for name, s in SECTIONS.items()}
)


def _layout(api: Api, version: int, direction: Literal["request", "response"]) -> Layout:
    section = SECTIONS[api.name]
    fields = fields_of(section.lines[direction], (section.first, section.last))
    return layout_of(fields, version, version >= section.flexible)


CODEC = Codec(APIS.values(), _layout)
decode_request = CODEC.decode_request
decode_response = CODEC.decode_response
encode_request = CODEC.encode_request
encode_response = CODEC.encode_response
