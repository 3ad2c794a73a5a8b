"""The fields of a question's rows, declared once for Arrow, Spark, CSV and tables.

``FIELDS`` of a question maps names to types, in order: ``"string"``, ``"int32"``, ``"int64"``,
``"double"``, ``"bool"``, ``"timestamp"`` (epoch ms in rows, ``timestamp[ms, UTC]`` in Arrow). A
list with one type is a list of that type; a dict is a struct. Every row has every field.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from coterie.state.tables import from_rows

if TYPE_CHECKING:
    import pyarrow as pa

Fields = Mapping[str, Any]


def arrow_schema(fields: Fields) -> pa.Schema:
    import pyarrow as pa

    return pa.schema([pa.field(name, arrow_type(kind)) for name, kind in fields.items()])


def arrow_type(kind: Any) -> pa.DataType:
    import pyarrow as pa

    if isinstance(kind, list):
        return pa.list_(arrow_type(kind[0]))
    if isinstance(kind, dict):
        return pa.struct([pa.field(name, arrow_type(inner)) for name, inner in kind.items()])
    if kind == "timestamp":
        return pa.timestamp("ms", tz="UTC")
    return pa.type_for_alias(kind)


def arrow_table(fields: Fields, rows: Iterable[dict[str, Any]]) -> pa.Table:
    return from_rows(arrow_schema(fields), list(rows))
