"""Times on their way into Spark, which counts microseconds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.state.schemas import SCHEMAS
from coterie_spark.replay_job.arrow import MAX_MS, spark_schema, to_spark

pa = pytest.importorskip("pyarrow")

MS = pa.timestamp("ms", tz="UTC")
DEEP = pa.schema([("t", MS), ("l", pa.list_(pa.struct([("t", MS), ("n", pa.int64())])))])
TIME = st.none() | st.integers(-(2**63), 2**63 - 1)
ROW = st.fixed_dictionaries(
    {
        "t": TIME,
        "l": st.none() | st.lists(st.fixed_dictionaries({"t": TIME, "n": st.integers(0, 9)})),
    }
)


def bare(rows):
    """Make the times as numbers, then cast: Arrow takes no number for a time within a struct."""
    plain = pa.schema(
        [("t", pa.int64()), ("l", pa.list_(pa.struct([("t", pa.int64()), ("n", pa.int64())])))]
    )
    return pa.Table.from_pylist(rows, plain)


@given(st.lists(ROW))
def test_a_time_beyond_microseconds_becomes_the_nearest(rows):
    def near(ms):
        return None if ms is None else 1000 * min(max(ms, -MAX_MS), MAX_MS)

    found = to_spark(bare(rows).cast(DEEP), spark_schema(DEEP))
    assert found.schema == spark_schema(DEEP)
    numbers = found.column("t").cast(pa.int64()).to_pylist()
    assert numbers == [near(row["t"]) for row in rows]
    for row, deep in zip(rows, found.column("l").combine_chunks(), strict=True):
        if row["l"] is None:
            assert not deep.is_valid
        else:
            times = deep.values.field("t").cast(pa.int64()).to_pylist()
            assert times == [near(one["t"]) for one in row["l"]]


@pytest.mark.parametrize("name", SCHEMAS)
def test_an_empty_table_keeps_its_columns(name):
    schema = SCHEMAS[name]()
    assert to_spark(schema.empty_table(), spark_schema(schema)).column_names == schema.names
