"""The streaming source: the rows of the batch source, however the log is cut into triggers."""

import pytest

from support import log_writer as write
from support.golden_data import LOGS
from support.growing_log import GrowingLog

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from coterie import CoterieError
from coterie_spark.source import stream_reader

FORMAT = "consumer_offsets"
needs_admission = pytest.mark.skipif(
    not stream_reader.HAS_ADMISSION, reason="maxBytesPerTrigger needs Spark 4.2"
)


@pytest.fixture(scope="module")
def source(spark):
    from coterie_spark import register

    register(spark)
    return spark


@pytest.fixture
def stream(source, tmp_path):
    """Read what is new in a log; return the rows of each trigger."""

    def read(path, **options):
        triggers = []
        frame = source.readStream.format(FORMAT).options(**options).load(str(path))
        writer = frame.writeStream.foreachBatch(lambda rows, _: triggers.append(rows.collect()))
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()
        return triggers

    return read


def as_text(rows):
    return sorted(map(repr, rows))


@needs_admission
@pytest.mark.parametrize(("case", "max_bytes"), [("transactions", 1 << 12), ("basic", 1 << 18)])
def test_limited_triggers_give_the_rows_of_the_batch_source(source, stream, case, max_bytes):
    triggers = stream(LOGS / case, maxBytesPerTrigger=max_bytes)
    assert len([rows for rows in triggers if rows]) > 2
    expected = source.read.format(FORMAT).load(str(LOGS / case)).collect()
    assert as_text(row for rows in triggers for row in rows) == as_text(expected)
    assert stream(LOGS / case, maxBytesPerTrigger=max_bytes) == []


def test_options_read_only_a_group_and_partitions(source, stream):
    options = {"partition": "1,2", "group": "grp-aio-range"}
    rows = [row for rows in stream(LOGS / "basic", **options) for row in rows]
    expected = source.read.format(FORMAT).options(**options).load(str(LOGS / "basic")).collect()
    assert rows
    assert as_text(rows) == as_text(expected)


def test_an_incomplete_batch_waits_and_a_new_segment_is_followed(source, stream, tmp_path):
    broker = GrowingLog(tmp_path / "log")
    one, two, three = (write.batch(offset, [write.commit(9, offset)]) for offset in range(3))
    broker.append(one)
    broker.append(two, torn=5)

    def offsets():
        return [[row.log_offset for row in rows] for rows in stream(tmp_path / "log")]

    assert offsets() == [[0]]
    assert offsets() == []
    broker.roll(2)
    broker.append(three)
    assert offsets() == [[1, 2]]


def test_a_wrong_limit_is_named(source, tmp_path):
    for wrong in ("0", "-1", "1e6", "much"):
        with pytest.raises(CoterieError, match=f"maxBytesPerTrigger must be .*, not '{wrong}'"):
            stream_reader.max_bytes_of({"maxBytesPerTrigger": wrong})


def test_a_limit_that_spark_cannot_apply_is_refused_by_name(monkeypatch):
    monkeypatch.setattr(stream_reader, "HAS_ADMISSION", False)
    with pytest.raises(CoterieError, match=r"maxBytesPerTrigger needs Spark 4\.2 or later"):
        stream_reader.max_bytes_of({"maxBytesPerTrigger": "5"})
