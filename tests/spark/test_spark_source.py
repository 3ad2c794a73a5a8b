"""The data source against Kafka's own decode of the golden logs."""

import base64
import gzip

import pytest

from support.golden_data import LOGS, cases, gather
from support.golden_rows import expected_row, golden, ms

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

NUMBERS = ("log_offset", "partition", "offset", "leader_epoch")


@pytest.fixture(scope="module")
def source(spark):
    from coterie_spark import register

    register(spark)
    return spark


@pytest.fixture(scope="module")
def rows_of(source, tmp_path_factory):
    """The rows of every golden log, read at once from one folder: case -> rows."""
    folder = tmp_path_factory.mktemp("all")
    origin = gather(folder, cases())
    found = {case: [] for case in cases()}
    for row in source.read.format("consumer_offsets").load(str(folder)).collect():
        fields = row.asDict()
        for name in ("timestamp", "commit_timestamp", "expire_timestamp"):
            fields[name] = ms(fields[name])
        case, fields["offsets_partition"] = origin[fields["offsets_partition"]]
        found[case].append(fields)
    return found


@pytest.mark.parametrize("case", cases())
def test_rows_equal_kafkas_own_decode(rows_of, case):
    decoded = rows_of[case]
    decoded.sort(key=lambda r: (r["offsets_partition"], r["segment"], r["batch_position"]))
    expected = [expected_row(known) for known in golden(case)]
    assert len(decoded) == len(expected)
    for fields, known in zip(decoded, expected, strict=True):
        assert {name: fields[name] for name in known} == known


def test_a_compressed_segment_has_the_name_of_its_log_file(source, tmp_path):
    (segment, *_) = (LOGS / "basic/__consumer_offsets-0").glob("*.log")
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    (folder / f"{segment.name}.gz").write_bytes(gzip.compress(segment.read_bytes()))
    rows = source.read.format("consumer_offsets").load(str(tmp_path)).select("segment").distinct()
    assert [row.segment for row in rows.collect()] == [segment.name]


def test_raw_bytes_are_those_of_the_marker(source):
    frame = source.read.format("consumer_offsets").load(str(LOGS / "transactions"))
    rows = frame.where("is_control").select("offsets_partition", "log_offset", "key", "value")
    found = {(r[0], r[1]): (bytes(r[2]), bytes(r[3])) for r in rows.collect()}
    expected = {
        (k["partition"], k["offset"]): (
            base64.b64decode(k["control"]["key"]),
            base64.b64decode(k["control"]["value"]),
        )
        for k in golden("transactions")
        if "control" in k
    }
    assert found == expected


def test_filters_and_a_schema_of_fewer_columns_give_the_same_rows(source):
    frame = (
        source.read.format("consumer_offsets")
        .schema("group_id string, log_offset long")
        .load(str(LOGS / "basic"))
    )
    found = {r["log_offset"] for r in frame.where("group_id = 'grp-mix-all'").collect()}
    expected = {k["offset"] for k in golden("basic") if k["key"]["data"]["group"] == "grp-mix-all"}
    assert found == expected
    whole = source.read.format("consumer_offsets").load(str(LOGS / "basic"))
    some = whole.where("offsets_partition in (1, 2) and type = 'group_metadata'")
    assert some.count() == sum(
        k["partition"] in (1, 2) and k["key"]["type"] == "group_metadata" for k in golden("basic")
    )
    # Again on the same frame: the earlier query must leave no trace.
    assert whole.count() == len(golden("basic"))


def test_options_leave_out_partitions_and_other_groups(source):
    options = {"partitions": "1,2", "group": "grp-aio-range"}
    frame = source.read.format("consumer_offsets").options(**options).load(str(LOGS / "basic"))
    expected = [
        k["offset"]
        for k in golden("basic")
        if k["partition"] in (1, 2) and k["key"]["data"]["group"] == "grp-aio-range"
    ]
    assert [r["log_offset"] for r in frame.select("log_offset").collect()] == expected
    assert expected


def test_a_table_in_sql_has_the_records_of_its_options(source, tmp_path):
    (tmp_path / "a copy").symlink_to(LOGS / "basic")
    options = f"path '{tmp_path}/a copy', partitions '1,2'"
    source.sql(f"CREATE TABLE offsets_records USING consumer_offsets OPTIONS ({options})")
    try:
        query = "SELECT offsets_partition, log_offset FROM offsets_records WHERE type IS NOT NULL"
        rows = [tuple(row) for row in source.sql(query).collect()]
    finally:
        source.sql("DROP TABLE offsets_records")
    expected = [k for k in golden("basic") if k["partition"] in (1, 2)]
    assert sorted(rows) == sorted((k["partition"], k["offset"]) for k in expected)
    assert rows


def test_a_table_that_has_no_path_says_what_to_give(source):
    source.sql("CREATE TABLE offsets_nowhere (group_id string) USING consumer_offsets")
    try:
        with pytest.raises(Exception, match=r"needs a path: .*OPTIONS \(path"):
            source.sql("SELECT * FROM offsets_nowhere").collect()
    finally:
        source.sql("DROP TABLE offsets_nowhere")


def test_a_column_that_is_not_there_is_named(source):
    frame = source.read.format("consumer_offsets").schema("no_such int")
    with pytest.raises(Exception, match="has no column no_such"):
        frame.load(str(LOGS / "basic")).collect()
