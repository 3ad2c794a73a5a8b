"""``decode`` gives the rows of the data source, as far as rows of Kafka's source can show them."""

import pytest

from coterie import CoterieError
from coterie_spark import decode, register
from support import log_writer as write
from support.golden_data import LOGS

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

HIDDEN = ("segment", "batch_position", "producer_id", "producer_epoch", "is_transactional")
HIDDEN += ("marker",)
TYPES = "CASE timestamp_type WHEN 'CreateTime' THEN 0 WHEN 'LogAppendTime' THEN 1 ELSE -1 END"
AS_KAFKAS = (
    "key",
    "value",
    "offsets_partition AS partition",
    "log_offset AS offset",
    "timestamp",
    f"{TYPES} AS timestampType",
)


@pytest.fixture(scope="module")
def source(spark):
    register(spark)
    return spark


def as_text(rows):
    return sorted(repr(sorted(row.asDict().items())) for row in rows)


@pytest.mark.parametrize("case", ["basic", "transactions"])
def test_rows_are_those_of_the_data_source_without_markers(source, case):
    whole = source.read.format("consumer_offsets").load(str(LOGS / case)).where("not is_control")
    found = decode(whole.selectExpr(*AS_KAFKAS))
    assert found.columns == whole.columns
    rows = found.collect()
    assert {row[name] for row in rows for name in HIDDEN} == {None}
    expected = as_text(whole.drop(*HIDDEN).collect())
    assert as_text(found.drop(*HIDDEN).collect()) == expected


def test_a_stream_is_decoded_as_a_batch_is(source, tmp_path):
    log = str(LOGS / "default50")
    rows = []
    stream = source.readStream.format("consumer_offsets").load(log).selectExpr(*AS_KAFKAS)
    writer = decode(stream).writeStream.foreachBatch(lambda new, _: rows.extend(new.collect()))
    writer = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
    writer.start().awaitTermination()
    batch = decode(source.read.format("consumer_offsets").load(log).selectExpr(*AS_KAFKAS))
    assert rows
    assert as_text(rows) == as_text(batch.collect())


def test_rows_without_a_key_a_value_or_a_known_type_are_decoded(source):
    ddl = "key binary, value binary, partition int, offset long, timestamp timestamp"
    key = write.commit_key(1, b"g", b"t", 4)
    rows = [(key, None, 3, 1 << 40, None), (None, b"x", 3, 7, None)]
    found = {row.log_offset: row for row in decode(source.createDataFrame(rows, ddl)).collect()}
    tombstone, other = found[1 << 40], found[7]
    assert (tombstone.group_id, tombstone.topic, tombstone.partition) == ("g", "t", 4)
    assert (tombstone.tombstone, tombstone.offsets_partition) == (True, 3)
    assert (tombstone.timestamp, tombstone.timestamp_type) == (None, None)
    assert (other.group_id, other.key, bytes(other.value)) == (None, None, b"x")


def test_what_cannot_be_decoded_is_named(source):
    with pytest.raises(CoterieError, match="no column 'key' to decode; needed: key, value"):
        decode(source.range(1))
    with pytest.raises(CoterieError, match="frame must be a DataFrame, not 5"):
        decode(5)
