"""Expiry against Kafka's own tombstones, and against a coordinator that loads the log."""

import json

import pytest

from coterie import GroupCoordinator
from coterie._core.codec.schema import decode_key
from coterie.coordinator.batches import read_log
from coterie.insight.questions import expire
from coterie.messages import encode_key, encode_value
from support import golden_data
from support.commandline import coterie, coterie_ok, fails, folder_of
from support.golden_data import json_of, log, records, segments, wide
from support.insight.models import offsets_at, question_rows
from support.log_writer import batch, commit_key, commit_value, group_key, group_value, marker

MINUTE = 60_000
DAY = 86_400_000
CASES = ["basic", "connect", "default50", "old-formats", "transactions"]
CHECK_MS = 5000  # the broker of `compacted` checked at least this often


def answer(case, **parameter_values):
    parameters = expire.Parameters(**parameter_values)
    return question_rows(log(case), expire, parameters)


def key_of(row):
    return row["group_id"], row["topic"], row["partition"]


def tombstones_of_a_coordinator(case, now_ms, minutes):
    """Keys that a coordinator, loading the log at a time, removes at its first check."""
    batches = {}
    for segment in segments(case):
        batches.setdefault(segment.parent.name, []).extend(read_log(segment))
    removed = set()
    for of_batch in batches.values():
        coordinator = GroupCoordinator(
            {"offsets.retention.minutes": minutes}, now_ms=now_ms, log=of_batch
        )
        assert coordinator.load_error is None
        before = len(coordinator.log)
        coordinator.cleanup()
        for appended in list(coordinator.log)[before:]:
            for key, value in appended.records:
                data = decode_key(key)["data"]
                assert value is None
                removed.add((data["group"], data.get("topic"), data.get("partition")))
    return removed


@pytest.mark.parametrize("minutes", [1, 1440])
@pytest.mark.parametrize("case", CASES)
def test_what_has_expired_is_what_a_coordinator_buries(case, minutes):
    last = max(record["timestamp"] for record in records(case))
    for now_ms in [last, last + minutes * MINUTE - 9000, last + minutes * MINUTE]:
        rows = answer(case, now_ms=now_ms, retention_ms=minutes * MINUTE)
        expired = {
            key_of(row) for row in rows if row["status"] == "expired" and row["topic"] is not None
        }
        buried = tombstones_of_a_coordinator(case, now_ms, minutes)
        assert expired == {key for key in buried if key[1] is not None}
        assert now_ms < last + minutes * MINUTE or expired


@pytest.mark.parametrize("case", [case for case in CASES if case != "old-formats"])
def test_an_offset_goes_at_the_millisecond_that_is_reported(case):
    last = max(record["timestamp"] for record in records(case))
    rows = answer(case, now_ms=last, retention_ms=DAY)
    times = {
        key_of(row): row["expires_at"]
        for row in rows
        if row["status"] != "removed" and row["expires_at"] is not None
    }
    for at_ms in sorted(at_ms for at_ms in set(times.values()) if at_ms > last)[:3]:
        gone = {key for key in tombstones_of_a_coordinator(case, at_ms, 1440) if key[1] is not None}
        assert gone == {key for key, ms in times.items() if ms <= at_ms}
        before = tombstones_of_a_coordinator(case, at_ms - 1, 1440)
        assert not before & {key for key, ms in times.items() if ms == at_ms}


@pytest.mark.parametrize("case", golden_data.cases())
def test_every_offset_that_the_log_holds_has_a_row(case):
    rows = answer(case, now_ms=2**40)
    present = [
        key_of(row) for row in rows if row["status"] != "removed" and row["topic"] is not None
    ]
    if case != "old-formats":  # one group id is in several partitions there
        assert len(set(present)) == len(present)
        assert set(present) == set(offsets_at(case))
    assert all(list(row) == [*expire.FIELDS, "trusted_from"] for row in rows)
    assert {row["rule"] for row in rows} <= set(expire.RULES)


def test_a_real_broker_removed_offsets_when_their_rule_says():
    """The broker of `compacted` ran with a retention of one minute."""
    rows = answer("compacted", now_ms=1795239936356, retention_ms=MINUTE)
    gone = [row for row in rows if row["status"] == "removed" and row["rule"] != "unknown"]
    assert {row["rule"] for row in gone} == {"empty_since", "standalone"}
    for row in gone:
        assert 0 <= row["removed_at"] - row["expires_at"] < CHECK_MS
    assert not [row for row in rows if row["status"] == "expired" and row["topic"] is not None]


def test_offsets_that_someone_deleted_are_not_reported_to_have_expired():
    gone = [r for r in answer("basic", now_ms=1795237397237) if r["status"] == "removed"]
    assert {row["rule"] for row in gone} == {"deleted"}


@pytest.mark.parametrize("case", ["basic", "default50", "compression-lz4"])
def test_each_removal_has_a_row_also_if_the_key_was_committed_again(case):
    expected, last = [], {}
    for record in records(case):
        if record.get("key", {}).get("type") == "offset_commit":
            data = record["key"]["data"]
            key = data["group"], data["topic"], data["partition"]
            if record["value"] is None:
                value = last.pop(key)
                times = record["timestamp"], value["commitTimestamp"]
                expected.append((key, value["offset"], *times))
            else:
                last[key] = record["value"]["data"]
    gone = [row for row in answer(case, now_ms=1795237397237) if row["status"] == "removed"]
    removals = [
        (key_of(row), row["offset"], row["removed_at"], row["commit_timestamp"]) for row in gone
    ]
    assert sorted(removals) == sorted(expected)
    assert case != "basic" or any(key in last for key, *_ in removals)


def test_rules_are_those_of_the_groups_that_kafka_loads():
    groups = {group["group_id"]: group for group in json_of("basic", "groups.json")["groups"]}
    for row in answer("basic", now_ms=1795237397237):
        group = groups.get(row["group_id"])
        if row["status"] == "removed" or row["topic"] is None:
            continue
        if group["protocol_type"] is None:
            assert (row["rule"], row["since"]) == ("standalone", row["commit_timestamp"])
        elif group["state"] == "Empty":
            since = group["current_state_timestamp"]
            assert (row["rule"], row["since"], row["idle_since"]) == ("empty_since", since, since)
        else:
            retained = row["topic"] in group["subscribed_topics"]
            assert row["rule"] == ("subscribed" if retained else "not_subscribed")
            assert row["idle_since"] is None


def test_another_retention_is_compared():
    now_ms = 1795237397237
    (answered,) = [answer("basic", now_ms=now_ms, retention_ms=DAY, what_if_ms=(5000, 7 * DAY))]
    others = {ms: answer("basic", now_ms=now_ms, retention_ms=ms) for ms in (5000, 7 * DAY)}
    for index, ms in enumerate((5000, 7 * DAY)):
        for row, other in zip(answered, others[ms], strict=True):
            if row["topic"] is None:
                continue
            what_if = row["what_if"][index]
            assert what_if["expires_at"] == other["expires_at"]
            if row["status"] != "removed":
                assert what_if["expired"] == (other["status"] == "expired")


def made_log(folder):
    """Group `g` is Empty since 1000; `s` never had members, but has a pending commit."""
    folder = folder / "__consumer_offsets-0"
    folder.mkdir()

    def commit(group, partition, time):
        return time, commit_key(1, group, b"t", partition), commit_value(7, -1, b"", time)

    parts = [
        batch(0, [commit(b"g", 0, 900)]),
        batch(1, [(1000, group_key(b"g"), group_value(3, []))]),
        batch(2, [commit(b"g", 1, 3000)]),
        batch(3, [commit(b"s", 0, 5000)]),
        batch(4, [commit(b"s", 0, 6000)], producer_id=5, transactional=True),
        batch(5, [(6000, group_key(b"e"), group_value(1, []))]),
        marker(6, 9, 7000, commit=True),
    ]
    (folder / f"{0:020}.log").write_bytes(b"".join(parts))
    return folder.parent


def test_a_commit_to_an_empty_group_does_not_renew_its_clock(tmp_path):
    result = coterie_ok(
        "expire", made_log(tmp_path), "--now", 10_000, "--retention", "9s", "--format", "json"
    )
    rows = {(row["group_id"], row["partition"]): row for row in json.loads(result.stdout)}
    assert rows["g", 1]["status"] == rows["g", 0]["status"] == "expired"
    assert rows["g", 1]["expires_at"] == 10_000
    assert (rows["s", 0]["status"], rows["s", 0]["remaining_ms"]) == ("due", 4000)
    assert rows["s", 0]["pending"]
    assert (rows["e", None]["rule"], rows["e", None]["idle_since"]) == ("no_offsets", 1000)
    assert result.stderr == ""


def test_now_is_the_newest_record_of_any_partition(tmp_path):
    other = tmp_path / "__consumer_offsets-1"
    other.mkdir()
    later = batch(0, [(9000, group_key(b"later"), group_value(1, []))])
    (other / f"{0:020}.log").write_bytes(later)
    result = coterie_ok("expire", made_log(tmp_path), "--format", "json")
    assert "now is 1970-01-01T00:00:09.000Z" in result.stderr
    by_key = {(row["group_id"], row["partition"]): row for row in json.loads(result.stdout)}
    assert by_key["s", 0]["remaining_ms"] == 7 * DAY - 4000


def test_now_is_the_newest_record_and_retention_kafkas_unless_given(tmp_path):
    result = coterie_ok("expire", made_log(tmp_path), "--format", "json")
    assert "now is 1970-01-01T00:00:07.000Z" in result.stderr
    assert "retention is 7d" in result.stderr
    by_key = {(row["group_id"], row["partition"]): row for row in json.loads(result.stdout)}
    assert by_key["s", 0]["expires_at"] == 5000 + 7 * DAY
    assert by_key["s", 0]["remaining_ms"] == 7 * DAY - 2000


def test_as_json_it_has_the_rows_of_the_question():
    arguments = ("--now", 1795237397237, "--retention", "1d", "--what-if", "5s")
    result = coterie_ok("expire", log("basic"), *arguments, "--format", "json")
    parameters = {"now_ms": 1795237397237, "retention_ms": DAY, "what_if_ms": (5000,)}
    assert json.loads(result.stdout) == answer("basic", **parameters)


def test_what_is_shown_can_be_chosen(tmp_path):
    folder = made_log(tmp_path)
    arguments = ("expire", folder, "--now", 10_000, "--retention", "9s", "--format", "json")

    def groups(*options):
        return [row["group_id"] for row in json.loads(coterie_ok(*arguments, *options).stdout)]

    assert groups() == ["e", "g", "g", "s"]
    assert groups("--status", "due") == ["s"]
    assert groups("--within", "1s") == ["e", "g", "g"]
    assert groups("--group", "s") == ["s"]
    assert groups("--idle", "--status", "expired") == ["e", "g", "g"]


def test_a_group_that_is_gone_is_not_idle():
    arguments = ("expire", log("compacted"), "--retention", "1m", "--format", "json")
    idle = {row["group_id"] for row in json.loads(coterie_ok(*arguments, "--idle").stdout)}
    assert idle == {
        group["group_id"]
        for group in json_of("compacted", "groups.json")["groups"]
        if group["state"] == "Empty"
    }


def only_segment(folder, parts):
    """A log of one segment of partition 0."""
    folder = folder / "__consumer_offsets-0"
    folder.mkdir()
    (folder / f"{0:020}.log").write_bytes(b"".join(parts))
    return folder.parent


def commit_of(partition, time, group=b"s"):
    return time, commit_key(1, group, b"t", partition), commit_value(7, -1, b"", time)


def tombstone_of(partition, time):
    return time, commit_key(1, b"s", b"t", partition), None


def rows_of(folder, **parameter_values):
    parameters = expire.Parameters(**parameter_values)
    rows = question_rows(folder, expire, parameters)
    return {(row["group_id"], row["partition"]): row for row in rows}


def test_a_group_is_idle_since_the_last_commit_of_an_offset_that_is_still_there(tmp_path):
    parts = [batch(0, [commit_of(0, 5000), commit_of(1, 8000)]), batch(2, [tombstone_of(1, 9000)])]
    rows = rows_of(only_segment(tmp_path, parts), now_ms=10_000)
    assert rows["s", 1]["status"] == "removed"
    assert (rows["s", 0]["rule"], rows["s", 0]["idle_since"]) == ("standalone", 5000)


@pytest.mark.parametrize(
    ("removed_ms", "rule"), [(5999, "deleted"), (6000, "standalone"), (6001, "standalone")]
)
def test_an_offset_removed_at_the_millisecond_it_expired_was_not_deleted(
    removed_ms, rule, tmp_path
):
    parts = [batch(0, [commit_of(0, 5000)]), batch(1, [tombstone_of(0, removed_ms)])]
    rows = rows_of(only_segment(tmp_path, parts), now_ms=10_000, retention_ms=1000)
    assert rows["s", 0]["expires_at"] == 6000
    assert (rows["s", 0]["status"], rows["s", 0]["rule"]) == ("removed", rule)


@pytest.mark.parametrize("expire_ms", [-(2**63), -1000, -2, -1, 0, 4999, 5000, 2**63 - 1])
def test_a_commit_that_carries_any_time_but_minus_one_expires_by_it(expire_ms, tmp_path):
    """Kafka treats only -1 as none; a coordinator that loads the log removes the same offsets."""
    value = {"offset": 7, "metadata": "", "commitTimestamp": 5000, "expireTimestamp": expire_ms}
    pair = 5000, commit_key(1, b"s", b"t", 0), encode_value(1, {"version": 1, "data": value})
    folder = only_segment(tmp_path, [batch(0, [pair])])
    row = rows_of(folder, now_ms=5000, retention_ms=1000)["s", 0]
    expected = expire_ms <= 5000 if expire_ms != -1 else False
    assert (row["status"] == "expired") == expected
    assert row["rule"] == ("standalone" if expire_ms == -1 else "explicit")
    assert row["expires_at"] == (6000 if expire_ms == -1 else expire_ms)
    held = read_log(folder / "__consumer_offsets-0" / f"{0:020}.log")
    coordinator = GroupCoordinator({}, now_ms=5000, log=held)
    coordinator.cleanup()
    assert (coordinator.snapshot("s") is None) == expected  # without offsets it is removed, too


def test_a_newer_group_is_idle_since_the_epoch_that_found_it_without_members():
    epochs = [
        record["timestamp"]
        for record in records("kip848")
        if (key := record.get("key")) and key["version"] == 3  # ConsumerGroupMetadata
        if "new-empty" in key["data"].values()
    ]
    arguments = ("expire", log("kip848"), "--idle", "--group", "new-empty", "--format", "json")
    (row,) = json.loads(coterie_ok(*arguments).stdout)
    assert (row["state"], row["idle_since"]) == ("Empty", epochs[-1])


def test_the_tables_name_each_group_and_each_offset(tmp_path):
    arguments = (
        "expire",
        made_log(tmp_path),
        "--now",
        10_000,
        "--retention",
        "9s",
        "--what-if",
        "1d",
    )
    lines = coterie_ok(*arguments).stdout.splitlines()
    (line,) = [line.split() for line in lines if line.startswith(" g ")]
    assert line[3:8] == ["2", "0", "2", "0", "0"]
    assert line[-2:] == ["empty_since", "0"]
    lines = coterie_ok(*arguments, "--offsets").stdout
    assert "group g: Empty, idle since 1970-01-01T00:00:01.000Z" in lines
    assert "1970-01-02T00:00:01.000Z" in lines  # under a day's retention


def test_a_group_that_is_there_is_not_called_gone_where_only_what_was_removed_is_shown():
    arguments = ("expire", log("old-formats"), "--status", "removed")
    kafkas = {
        group["group_id"]: group["state"]
        for group in json_of("old-formats", "groups.json")["groups"]
    }
    lines = [line.split() for line in coterie_ok(*arguments).stdout.splitlines()[4:] if line]
    assert all(line[1] == kafkas.get(line[0], "gone") for line in lines)
    assert {line[1] for line in lines} == {"Stable", "gone"}
    headings = coterie_ok(
        *arguments, "--offsets", "--group", "old0-g0", "--group", "old0-g1"
    ).stdout
    assert "group old0-g0: Stable\n" in headings
    assert "group old0-g1: gone\n" in headings


def test_as_parquet_it_comes_whole(tmp_path):
    pq = pytest.importorskip("pyarrow.parquet")
    out = tmp_path / "out.parquet"
    arguments = ("--now", 1795237397237, "--what-if", "5s", "--format", "parquet", "--out", out)
    coterie_ok("expire", log("basic"), *arguments)
    rows = answer("basic", now_ms=1795237397237, what_if_ms=(5000,))
    table = pq.read_table(out)
    assert table.column_names == [*expire.FIELDS, "trusted_from"]
    assert table.column("rule").to_pylist() == [row["rule"] for row in rows]
    assert folder_of(tmp_path) == ["out.parquet"]


def test_a_log_that_cannot_be_read_is_reported_in_one_line(tmp_path):
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    (folder / f"{0:020}.log").write_bytes(b"")
    fails("expire", tmp_path, says="give --now TIME")
    assert coterie("expire", tmp_path, "--now", 5).returncode == 0


@pytest.mark.slow
def test_a_log_of_a_million_records_is_judged_whole():
    result = coterie_ok("expire", wide(), "--retention", "1s", "--format", "json")
    assert result.stdout.count('"offset":') == 137_385  # golden/logs/README.md


def test_a_newer_group_goes_by_its_subscriptions_in_any_state():
    """As OffsetMetadataManager.cleanupExpiredOffsets: an undecided commit waits."""
    for state in ("Empty", "Assigning", "Reconciling", "Stable"):
        head = {"type": "consumer", "state": state, "protocol_type": "consumer"}
        head |= {"subscribed_topics": ["a"], "current_state_timestamp": None}
        a, b = ({"topic": topic, "partition": 0, "commit_timestamp": 5} for topic in "ab")
        a["expire_timestamp"] = b["expire_timestamp"] = None
        assert expire.expiry_of(head, a) == ("subscribed", -1, True)
        assert expire.expiry_of(head, b) == ("not_subscribed", 5, False)
        waits = expire.standing("g", head, b, {("g", "b", 0)}, True)
        assert (waits.rule, waits.retained) == ("pending_transaction", True)


@pytest.mark.parametrize("only", [(), ("--group", "g")])
def test_a_transaction_holds_a_classic_groups_offset_in_a_log_of_4x_only(only, tmp_path):
    """As OffsetMetadataManager.cleanupExpiredOffsets, for groups of any type."""
    newer = encode_key({"version": 3, "data": {"groupId": "other"}})
    epoch = encode_value(3, {"version": 0, "data": {"epoch": 1, "metadataHash": 1}})
    commits = [
        (5, commit_key(1, b"g", b"t", place), commit_value(1, 0, b"", 5)) for place in (0, 1)
    ]
    for name, first, rules in (
        ("3.9", (), ["standalone", "standalone"]),
        ("4.1", [(1, newer, epoch)], ["pending_transaction", "standalone"]),
    ):
        folder = tmp_path / name / "__consumer_offsets-0"
        folder.mkdir(parents=True)
        plain = [*first, *commits]
        pending = batch(len(plain), commits[:1], producer_id=7, transactional=True)
        (folder / f"{0:020}.log").write_bytes(batch(0, plain) + pending)
        rows = json.loads(coterie_ok("expire", folder, *only, "--format", "json").stdout)
        assert [row["rule"] for row in rows if row["group_id"] == "g"] == rules
