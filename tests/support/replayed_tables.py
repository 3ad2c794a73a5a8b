"""The rows of a replay's tables, in an order of their own, to compare engines."""

import base64
import json
from datetime import datetime

from coterie import ScanOptions
from coterie.state.local_replay import scan_state
from coterie.state.replay_engine import Silent
from coterie_spark.replay_job.arrow import spark_schema, to_spark
from support.arrow_numbers import in_numbers

WRONG_ARGUMENTS = [  # of a replay, and what the error says
    ({"paths": "no/such/log"}, "no/such/log: no such file"),
    ({"paths": []}, "no path"),
    ({"paths": ["a", "file:/b"]}, "either plain paths or URLs"),
    ({"paths": "a", "at": "yesterday"}, "not a time"),
    ({"paths": "a", "at": datetime(2026, 1, 1)}, "no time zone"),  # noqa: DTZ001
    ({"paths": "a", "at": 5.5}, "at must be an integer"),
    ({"paths": "a", "on_fault": "panic"}, "on_fault must be one of"),
]


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
    """Rows in an order of their own, times as numbers."""
    rows = as_json(in_numbers(table).to_pylist())
    return sorted(json.dumps(row, sort_keys=True) for row in rows)
