"""Arrow tables with int64 in place of timestamps: Python's cover too few years."""

import pyarrow as pa


def in_numbers(table):
    """Return a table with its timestamps, also nested ones, as numbers."""
    fields = [pa.field(column.name, with_numbers(column.type)) for column in table.schema]
    return table.cast(pa.schema(fields))


def with_numbers(kind):
    if pa.types.is_timestamp(kind):
        return pa.int64()
    if pa.types.is_list(kind):
        return pa.list_(with_numbers(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(child.name, with_numbers(child.type)) for child in kind])
    return kind
