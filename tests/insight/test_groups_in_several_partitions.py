"""Questions answer once for a group that has records in several partitions of the topic.

The story: the topic is grown from 50 to 60 partitions, the group goes on in the newer partition,
and the coordinator of the older one expires later what it still has.
"""

import json
import re

import pytest

from coterie.insight import answering
from coterie.insight.groups.shared_group_ids import newer_subscribers
from coterie.insight.records.partition_view import PartitionView
from coterie.log.folders import find_segments
from coterie.report.ownership import newer_bars
from support.commandline import coterie
from support.grown_topic import (
    GROWN_MS,
    MINUTE,
    NEWER,
    OLDER,
    batches,
    committed,
    generation,
    in_transaction,
    story,
    tombstone,
    write,
)
from support.insight.lives import OF_4X
from support.state.newer_records import put

LINE = re.compile(r"coterie: group 'payments' has records in partitions 13 and 53")
END_MS = GROWN_MS + 5 * MINUTE
PLACES = {"copy of all": range(60), "copy of two": ()}


@pytest.fixture(params=PLACES)
def log(tmp_path, request):
    """The story, with all partitions of the topic, or without those that have no record."""
    return write(tmp_path / "log", story(older_only=True), PLACES[request.param])


def rows_of(*command, status=0):
    done = coterie(*command, "--format", "json")
    assert done.returncode == status, done.stderr
    assert len(LINE.findall(done.stderr)) == 1
    assert "times go back" not in done.stderr
    return json.loads(done.stdout)


def test_metrics_have_one_sample_of_each_series(log):
    done = coterie("metrics", log)
    samples = [line for line in done.stdout.splitlines() if not line.startswith("#")]
    series = [line.rpartition(" ")[0] for line in samples]
    assert len(series) == len({*series})
    name = "kafka_consumergroup_current_offset"
    assert f'{name}{{consumergroup="payments",topic="t",partition="0"}} 502' in samples
    assert f'{name}_sum{{consumergroup="payments",topic="t"}} {502 + 502 + 77}' in samples
    assert len(LINE.findall(done.stderr)) == 1


def test_undo_has_each_partition_once_and_no_removal_by_the_older_coordinator(log):
    done = coterie("undo", log, "--group", "payments", "--at", END_MS)
    assert done.stdout.splitlines() == ["t,0,502", "t,1,502", "t,2,77"]
    assert "removed" not in done.stderr
    before = coterie("undo", log, "--group", "payments", "--at", GROWN_MS - 1)
    assert before.stdout.splitlines() == ["t,0,102", "t,1,102", "t,2,77"]


def test_lag_is_that_of_the_newest_commit(log, tmp_path):
    (tmp_path / "ends").write_text("t:0:600\nt:1:610\nt:2:80\n")
    rows = rows_of("lag", log, "--end-offsets", tmp_path / "ends")
    assert [(row["partition"], row["lag"]) for row in rows] == [(0, 98), (1, 108), (2, 3)]


def test_expire_judges_the_offsets_of_one_group(log):
    rows = rows_of("expire", log, "--offsets")
    assert [(row["partition"], row["offset"]) for row in rows] == [(0, 502), (1, 502), (2, 77)]
    assert {row["state"] for row in rows} == {"Empty"}
    (group,) = rows_of("groups", log, "--describe", "--group", "payments", "--state")
    assert group["state"] == "Empty"


def test_explain_tells_one_story_and_each_record_lies_in_its_own_partition(log):
    rows = rows_of("explain", log, "--group", "payments")
    events = [row for row in rows if row["event"] not in ("client", "departures", "summary")]
    places = [(row["event"], row["offsets_partition"], row["log_offset"]) for row in events]
    assert places == [
        ("generation", OLDER, 0),
        ("commits", OLDER, 1),
        ("empty", OLDER, 6),
        ("another_partition", NEWER, 0),
        ("generation", NEWER, 0),
        ("commits", NEWER, 1),
        ("empty", NEWER, 5),
    ]
    assert sum(row["event"] == "summary" for row in rows) == 1
    assert f"in partition {NEWER} of __consumer_offsets, before in {OLDER}" in events[3]["cause"]


def test_audit_has_a_finding_for_the_group_and_none_for_its_new_generations(log):
    rows = rows_of("audit", log, status=1)
    (found,) = [row for row in rows if row["kind"] == "several_partitions"]
    assert (found["group_id"], found["offsets_partition"], found["log_offset"]) == (
        *("payments", NEWER),
        0,
    )
    assert found["previous_log_offset"] is None
    assert "partitions 13 and 53" in found["detail"]
    assert "no longer finds 1 offset" in found["detail"]  # that of partition 2
    assert "generation_gap" not in {row["kind"] for row in rows}
    assert rows_of("audit", log, "--only", "several_partitions", status=1) == [found]


def test_growth_leaves_bytes_where_they_lie(log):
    rows = rows_of("growth", log)
    by_partition = {row["offsets_partition"]: 0 for row in rows}
    for row in rows:
        by_partition[row["offsets_partition"]] += row["bytes"]
    assert by_partition == {number: len(data) for number, data in story(older_only=True).items()}


def test_a_removal_in_the_newer_partition_counts(tmp_path):
    newer = batches(committed(GROWN_MS, 500, partition=1), tombstone(GROWN_MS + 1))
    log = write(tmp_path / "log", story() | {NEWER: newer})
    done = coterie("undo", log, "--group", "payments", "--at", END_MS)
    assert done.stdout.splitlines() == ["t,1,500"]
    done = coterie("groups", log, "--describe", "--group", "payments")
    assert [line.split()[2:4] for line in done.stdout.splitlines()[2:]] == [["1", "500"]]


def test_a_group_that_was_deleted_in_the_newer_partition_stays_deleted_in_a_copy_of_two(tmp_path):
    """Such a copy does not show which of the two the group's id leads to."""
    newer = [generation(GROWN_MS, 1, [b"a-2"])]
    newer += [committed(GROWN_MS + 1000, 500, partition=at) for at in range(2)]
    newer += [tombstone(GROWN_MS + 2000, partition=at) for at in range(2)]
    newer += [generation(GROWN_MS + 2000, 2, None)]
    parts = {
        OLDER: batches(generation(0, 4, []), *(committed(1, 7, partition=at) for at in (0, 1)))
    }
    parts |= {NEWER: batches(*newer), 5: batches(committed(1, 7, group="other"))}
    logs = [write(tmp_path / name, parts, numbers) for name, numbers in PLACES.items()]
    for command, *options in (
        ["groups", "--list", "--state"],
        ["groups", "--describe", "--all-groups"],
        ["explain", "--format", "json"],
        ["undo", "--all-groups", "--at", END_MS],
        ["undo", "--all-groups", "--at", 2],
        ["audit", "--format", "json"],
        ["expire", "--offsets", "--format", "json"],
        ["metrics"],
    ):
        every, some = (coterie(command, log, *options) for log in logs)
        expected = every.stdout.replace(str(logs[0]), str(logs[1]))
        assert (some.stdout, some.returncode) == (expected, every.returncode), command
        assert f"{NEWER} (the newest)" in some.stderr


def test_a_transaction_counts_whose_log_offset_is_lower_than_the_older_partitions(tmp_path):
    older = [in_transaction(committed(turn, turn)) for turn in range(1, 100)]
    newer = [in_transaction(committed(GROWN_MS, 500))]
    log = write(tmp_path / "log", {OLDER: batches(*older), NEWER: batches(*newer)})
    for command in (["groups", "--describe", "--all-groups"], ["metrics"]):
        assert "500" in coterie(command[0], log, *command[1:]).stdout
    done = coterie("undo", log, "--group", "payments", "--at", END_MS)
    assert done.stdout.splitlines() == ["t,0,500"]


@pytest.mark.parametrize("newest", [committed(GROWN_MS, 500), tombstone(GROWN_MS)])
def test_a_transaction_of_the_older_partition_is_open_only_for_what_it_alone_has(newest, tmp_path):
    """The coordinator of the newer partition knows nothing of it, and lets the offsets expire."""
    stuck = [in_transaction(committed(20 + at, 9, partition=at), commit=None) for at in (0, 2)]
    older = [OF_4X, *(committed(at, 7, partition=at) for at in (0, 2)), *stuck]
    newer = [committed(GROWN_MS - 1, 400), newest]
    log = write(tmp_path / "log", {OLDER: batches(*older), NEWER: batches(*newer)})
    rows = rows_of("expire", log, "--offsets", "--group", "payments")
    found = {(row["partition"], row["status"]): (row["pending"], row["rule"]) for row in rows}
    last = {(0, "due"): (False, "standalone")}
    if newest[2] is None:
        last = {(0, "removed"): (False, "deleted")}
    assert found == last | {(2, "kept"): (True, "pending_transaction")}


def test_answers_that_wait_in_a_file_are_the_same(tmp_path, monkeypatch):
    others = {
        number: batches(committed(1, number, group=f"g{number}"), generation(2, 1, [b"m"]))
        for number in (3, 59)
    }
    log = write(tmp_path / "log", story() | others)
    commands = (["metrics"], ["expire", "--offsets"], ["explain"], ["audit"])
    expected = [coterie(command[0], log, *command[1:], "--format", "json") for command in commands]
    monkeypatch.setattr(answering, "ROWS_IN_MEMORY", 1)
    for command, before in zip(commands, expected, strict=True):
        after = coterie(command[0], log, *command[1:], "--format", "json")
        assert (after.stdout, after.stderr) == (before.stdout, before.stderr)


def consumer_group(time, epoch, member_id):
    """The records of a consumer group with one member."""
    log = {}
    member = {
        **{"instanceId": None, "rackId": None, "clientId": member_id, "clientHost": "/h"},
        **{"subscribedTopicNames": ["t"], "subscribedTopicRegex": "", "rebalanceTimeoutMs": 1},
        **{"serverAssignor": None, "classicMemberMetadata": None},
    }
    current = {
        **{"memberEpoch": epoch, "previousMemberEpoch": 0, "state": 0},
        **{"assignedPartitions": [], "partitionsPendingRevocation": []},
    }
    put(log, 5, member, memberId=member_id, groupId="payments")
    put(log, 3, {"epoch": epoch}, groupId="payments")
    put(log, 6, {"assignmentEpoch": epoch}, groupId="payments")
    put(log, 8, current, memberId=member_id, groupId="payments")
    return [(time, key, value) for key, (value, _, _) in log.items()]


@pytest.mark.parametrize("older", ["consumer", "classic"])
@pytest.mark.parametrize("newer", ["consumer", "classic"])
def test_members_are_those_of_the_newest_partition(tmp_path, older, newer):
    """Nobody removed those of the older partition before the topic was grown."""
    records = {
        OLDER: [generation(1, 7, [b"a", b"b"])] if older == "classic" else [
            *consumer_group(1, 7, "a"), *consumer_group(1, 7, "b")
        ],
        NEWER: consumer_group(GROWN_MS, 2, "c") if newer == "consumer" else [
            generation(GROWN_MS, 2, [b"c"])
        ],
    }  # fmt: skip
    commits = {OLDER: committed(2, 5), NEWER: committed(GROWN_MS + 1, 6)}
    parts = {number: batches(*rows, commits[number]) for number, rows in records.items()}
    log = write(tmp_path / "log", parts)
    rows = rows_of("metrics", log)
    assert [row["members"] for row in rows if row["members"] is not None] == [1]
    assert [row["offset"] for row in rows if row["offset"] is not None] == [6]
    (state,) = rows_of("groups", log, "--describe", "--group", "payments", "--state")
    assert state["members"] == 1
    assert {row["state"] for row in rows_of("expire", log, "--offsets")} == {state["state"]}
    if older == newer == "consumer":
        events = rows_of("explain", log)
        epochs = [row for row in events if row["event"] == "epoch"]
        assert [(row["generation"], row["member_count"]) for row in epochs][-1] == (2, 1)
        assert "not reconciled" not in epochs[-1]["cause"]


def test_members_of_the_older_partition_own_nothing_in_the_newer_one(tmp_path):
    records = {OLDER: consumer_group(1, 7, "a"), NEWER: consumer_group(GROWN_MS, 2, "c")}
    log = write(tmp_path / "log", {number: batches(*rows) for number, rows in records.items()})
    joined = find_segments([log]).joined((OLDER, NEWER))
    view = PartitionView(NEWER, joined.segments, frozenset({"payments"}))
    newer = view.newer_by_group["payments"]
    bars = [(bar.member_id, bar.start_ms, bar.end_ms) for bar in newer_bars(newer, {}, END_MS)]
    assert bars == [("a", 1, GROWN_MS), ("c", GROWN_MS, END_MS)]
    *_, last = newer_subscribers(newer)
    assert [subscriber.client_id for subscriber in last[2]] == ["c"]


def test_the_report_shows_the_group_once(log, tmp_path):
    done = coterie("report", log, "--format", "markdown", "--group", "payments")
    assert done.returncode == 0
    assert len(LINE.findall(done.stderr)) == 1
    (row,) = [line for line in done.stdout.splitlines() if line.startswith("| payments |")]
    assert "Empty" in row
    page = coterie("report", log, "-o", tmp_path / "page.html")
    assert page.returncode == 0


def test_tables_have_one_group_and_each_commit_where_it_is(log, tmp_path):
    import pyarrow.parquet as pq

    out = tmp_path / "out"
    done = coterie("replay", log, "--out", out, "--engine", "local", "--history")
    assert done.returncode == 0
    assert len(LINE.findall(done.stderr)) == 1
    read = {name: pq.read_table(out / f"{name}.parquet").to_pylist() for name in NAMES}
    assert [row["offsets_partition"] for row in read["groups"]] == [NEWER]
    assert [row["offset"] for row in read["offsets"]] == [502, 502, 77]
    assert [row["offsets_partition"] for row in read["commits"]] == [OLDER] * 6 + [NEWER] * 4


NAMES = ("groups", "offsets", "commits")
