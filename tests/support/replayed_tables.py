"""The rows of a replay's tables, in an order of their own, to compare engines."""

import base64
import json

import pyarrow as pa

from coterie import ScanOptions
from coterie.replay.engine import Silent
from coterie.replay.local import scan_state
from coterie_spark.replay_job.arrow import spark_schema, to_spark


def as_json(value):
    return json.loads(json.dumps(value, default=lambda b: base64.b64encode(b).decode()))


def local_rows(paths, **options):
    """Rows of the engine of one process, their times as Spark holds them."""
    state = scan_state(tuple(map(str, paths)), ScanOptions(**options), Silent())
    return {
        name: rows_of(to_spark(table, spark_schema(table.schema)))
        for name, table in state.to_arrow().items()
    }


def rows_of(table):
    """Rows in an order of their own, times as numbers: Python has no year 294247."""
    plain = table.cast(pa.schema([(f.name, bare(f.type)) for f in table.schema]))
    rows = as_json(plain.to_pylist())
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


def bare(kind):
    if pa.types.is_timestamp(kind):
        return pa.int64()
    if pa.types.is_list(kind):
        return pa.list_(bare(kind.value_type))
    if pa.types.is_struct(kind):
        fields = [kind.field(index) for index in range(kind.num_fields)]
        return pa.struct([(field.name, bare(field.type)) for field in fields])
    return kind
