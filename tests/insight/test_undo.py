"""Offsets as of a time against those that Kafka's own decode of the log gives by hand."""

import csv
import json
from importlib import import_module

import pytest

from coterie.insight.question_engine import fields_of
from coterie.insight.questions import undo
from coterie.insight.records.partition_view import read_partitions
from support.commandline import coterie, coterie_ok, fails, folder_of
from support.golden_data import log, wide
from support.insight.models import offsets_at, question_rows, times
from support.log_writer import batch, commit_key, commit_value, group_key, group_value, marker

RESET_CLI = 1795237385000  # after grp-reset-cli committed, before Kafka's own tool reset it


def is_whole(row, at_ms):
    return row["trusted_from"] is None or row["trusted_from"] <= at_ms


def answer(case, at_ms, groups=None):
    parameters = undo.Parameters(at_ms)
    return question_rows(log(case), undo, parameters, groups=groups)


@pytest.mark.parametrize("case", ["basic", "transactions", "compacted", "default50", "connect"])
def test_then_and_latest_are_what_the_log_says_by_hand(case):
    latest = offsets_at(case)
    for at_ms in times(case, 8):
        then = offsets_at(case, at_ms)
        actual = {}
        for row in answer(case, at_ms):
            actual[row["group_id"], row["topic"], row["partition"]] = row
        assert set(actual) == set(then) | set(latest)
        for key, row in actual.items():
            before, now = then.get(key, {}), latest.get(key, {})
            assert row["offset"] == before.get("offset")
            assert row["metadata"] == before.get("metadata")
            assert row["commit_timestamp"] == before.get("commitTimestamp")
            assert row["leader_epoch"] == (before.get("leaderEpoch", -1) if before else None)
            assert row["latest_offset"] == now.get("offset")
            assert row["latest_commit_timestamp"] == now.get("commitTimestamp")
            expected = {
                (False, True): "new" if is_whole(row, at_ms) else "unknown",
                (True, False): "deleted",
                (True, True): "same" if before.get("offset") == now.get("offset") else "moved",
            }
            assert row["change"] == expected[key in then, key in latest]


def test_the_leader_epoch_is_the_one_of_then(tmp_path):
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    key = commit_key(1, b"g", b"t", 0)
    parts = [batch(n, [(100 + n, key, commit_value(7, 3 + n, b"", 100))]) for n in range(2)]
    (folder / f"{0:020}.log").write_bytes(b"".join(parts))
    (view,) = read_partitions([tmp_path])
    (row,) = undo.rows(view, undo.Parameters(100))
    assert (row["change"], row["leader_epoch"]) == ("same", 3)


def test_every_row_has_every_field_in_order():
    for row in answer("transactions", 1795237546500):
        assert list(row) == [*undo.FIELDS, "trusted_from"]


def test_the_file_for_one_group_undoes_the_reset_that_kafkas_tool_made():
    result = coterie_ok("undo", log("basic"), "--group", "grp-reset-cli", "--at", RESET_CLI)
    expected = {
        (topic, str(partition), str(value["offset"]))
        for (group, topic, partition), value in offsets_at("basic", RESET_CLI).items()
        if group == "grp-reset-cli"
    }
    assert {tuple(line) for line in csv.reader(result.stdout.splitlines())} == expected
    assert ("orders", "3", "43") in expected
    assert offsets_at("basic")["grp-reset-cli", "orders", 3]["offset"] == 0
    assert "5 same, 6 moved" in result.stderr
    assert "2026-11-21T05:03:07.359Z" in result.stderr


def test_the_file_for_many_groups_names_them():
    groups = ["grp-reset-cli", "grp-reset"]
    named = [text for group in groups for text in ("--group", group)]
    result = coterie_ok("undo", log("basic"), *named, "--at", RESET_CLI)
    expected = {
        (group, topic, str(partition), str(value["offset"]))
        for (group, topic, partition), value in offsets_at("basic", RESET_CLI).items()
        if group in groups
    }
    assert {tuple(line) for line in csv.reader(result.stdout.splitlines())} == expected


def test_against_latest_exits_1_where_anything_differs():
    at = ("--at", RESET_CLI, "--against-latest")
    result = coterie("undo", log("basic"), "--group", "grp-reset-cli", *at)
    assert result.returncode == 1
    assert result.stdout.count("moved") == 7  # six partitions and the title
    assert "same" not in result.stdout
    same = coterie_ok("undo", log("basic"), "--group", "grp-reset", *at)
    assert "moved" not in same.stdout


def test_as_json_it_has_the_rows_of_the_question():
    arguments = ("--all-groups", "--at", RESET_CLI)
    result = coterie_ok("undo", log("basic"), *arguments, "--format", "json")
    assert json.loads(result.stdout) == answer("basic", RESET_CLI)


def test_as_parquet_each_field_has_its_type(tmp_path):
    pq = pytest.importorskip("pyarrow.parquet")
    schema = import_module("coterie.insight.fields").arrow_schema(fields_of(undo))
    file = tmp_path / "undo.parquet"
    arguments = ("--all-groups", "--at", RESET_CLI, "--format", "parquet", "--out", file)
    coterie_ok("undo", log("basic"), *arguments)
    table = pq.read_table(file)
    assert table.schema.equals(schema)
    moments = table.column("commit_timestamp").cast("int64").to_pylist()
    assert moments == [row["commit_timestamp"] for row in answer("basic", RESET_CLI)]
    assert folder_of(tmp_path) == ["undo.parquet"]


def test_as_csv_there_is_one_heading():
    arguments = ("--group", "grp-reset-cli", "--at", RESET_CLI, "--format", "csv")
    output = coterie_ok("undo", log("basic"), *arguments).stdout
    lines = list(csv.DictReader(output.splitlines()))
    expected = answer("basic", RESET_CLI, {"grp-reset-cli"})
    assert [line["difference"] for line in lines] == [str(row["difference"]) for row in expected]
    assert list(lines[0]) == [*undo.FIELDS, "trusted_from"]


def made_log(folder):
    """A group with members and an open transaction, whose log was compacted: offset 1 is gone."""
    folder = folder / "__consumer_offsets-0"
    folder.mkdir(parents=True)

    def commit(partition, offset, time):
        return time, commit_key(1, b"g", b"t", partition), commit_value(offset, -1, b"", time)

    first = [batch(0, [commit(0, 1, 100)]), batch(2, [commit(2, 5, 120)])]
    second = [
        batch(3, [commit(0, 9, 200), commit(1, 7, 200), (200, commit_key(1, b"g", b"t", 2), None)]),
        batch(6, [(210, group_key(b"g"), group_value(3, [b"m"]))]),
        batch(7, [commit(1, 8, 220)], producer_id=5, transactional=True),
        marker(8, 6, 230, commit=True),
    ]
    (folder / f"{0:020}.log").write_bytes(b"".join(first))
    (folder / f"{3:020}.log").write_bytes(b"".join(second))
    return folder.parent


def test_it_warns_of_all_that_makes_a_reset_go_wrong(tmp_path):
    result = coterie_ok("undo", made_log(tmp_path), "--group", "g", "--at", 150)
    assert result.stdout == "t,0,1\nt,2,5\n"
    for text in (
        "before 1970-01-01T00:00:00.200Z it may lack offsets",
        "group 'g' is Stable",
        "of 1 partition the log has lost whether there was an offset then",
        "1 partition without an offset now",
        "1 partition with an offset in an open transaction",
    ):
        assert text in result.stderr
    without = coterie_ok("undo", tmp_path, "--group", "g", "--at", 150, "--without-deleted")
    assert without.stdout == "t,0,1\n"


def test_before_a_time_is_up_to_the_millisecond_that_ends_there(tmp_path):
    arguments = ("undo", made_log(tmp_path), "--group", "g", "--before")
    assert coterie_ok(*arguments, 200).stdout == "t,0,1\nt,2,5\n"
    assert coterie_ok(*arguments, 201).stdout == "t,0,9\nt,1,7\n"


def test_there_is_no_file_where_there_is_nothing_to_go_back_to(tmp_path):
    out = tmp_path / "out.csv"
    log = made_log(tmp_path / "log")
    fails("undo", log, "--group", "g", "--at", 50, "--out", out, says="no offset is left")
    assert folder_of(tmp_path) == ["log"]


def test_a_file_is_replaced_only_if_that_is_requested(tmp_path):
    log, out = made_log(tmp_path / "log"), tmp_path / "out.csv"
    arguments = ("undo", log, "--group", "g", "--out", out)
    coterie_ok(*arguments, "--at", 150)
    fails(*arguments, "--at", 210, says="--overwrite")
    assert out.read_text() == "t,0,1\nt,2,5\n"
    coterie_ok(*arguments, "--at", 210, "--overwrite")
    assert out.read_text() == "t,0,9\nt,1,7\n"
    segment = log / "__consumer_offsets-0" / f"{0:020}.log"
    before = segment.read_bytes()
    arguments = ("undo", log, "--group", "g", "--at", 150, "--out", segment, "--overwrite")
    fails(*arguments, status=2, says="which is read")
    assert segment.read_bytes() == before


def test_corrupt_places_are_left_out_and_reported():
    case = log("corrupt/flipped-crc")
    result = coterie_ok("undo", case, "--all-groups", "--at", "2030-01-01T00:00:00Z")
    assert "1 corrupt place was left out" in result.stderr


@pytest.mark.slow
def test_all_groups_of_a_log_of_a_million_records():
    arguments = ("--all-groups", "--at", "2030-01-01T00:00:00Z", "--format", "json")
    result = coterie_ok("undo", wide(), *arguments)
    assert result.stdout.count('"change": "same"') == 137_385  # golden/logs/README.md
