"""Removals of offsets against a slow model, and their reasons in explain on real logs."""

import json
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from coterie.insight.offsets.key_removals import KeyRemovals
from coterie.insight.offsets.removals import MOMENT_MS, removals_of
from coterie.insight.records import log_reader
from coterie.insight.records.aggregates import feed, run_aggregates
from coterie.insight.records.partition_view import PartitionView
from coterie.log.folders import find_segments
from support.commandline import coterie_ok
from support.golden_data import GOLDEN, log
from support.log_writer import batch, commit_key, commit_value, group_key, group_value, marker

FIRST_MS = 1_000_000
STEPS = st.lists(
    st.tuples(
        st.sampled_from([0, 5, MOMENT_MS, MOMENT_MS + 1, 70_000]),
        st.sampled_from("ab"),
        st.sampled_from("tu"),
        st.integers(0, 1),
        st.one_of(st.none(), st.integers(0, 5)),  # None: a tombstone
    ),
    max_size=30,
)


def written(folder, steps, rolls=frozenset()):
    """A batch for each step; a new segment begins at each number of ``rolls``."""
    place = Path(folder) / "__consumer_offsets-0"
    place.mkdir(parents=True)
    bounds = sorted({0, *rolls, len(steps)})
    batches, now_ms = [], FIRST_MS
    for offset, (step_ms, group, topic, partition, committed) in enumerate(steps):
        now_ms += step_ms
        key = commit_key(1, group.encode(), topic.encode(), partition)
        value = None if committed is None else commit_value(committed, -1, b"", now_ms)
        batches.append(batch(offset, [(now_ms, key, value)]))
    for begin, end in pairwise([*bounds, len(steps)]):
        (place / f"{begin:020}.log").write_bytes(b"".join(batches[begin:end]))
    return find_segments([place])


def modelled(steps):
    """Group -> its removals as (first and last time, first and last offset, offsets, last commit
    time, commits after), by going through the records one by one.

    A tombstone after a tombstone removes nothing."""
    committed, removals, waiting, gone, now_ms = {}, {}, {}, set(), FIRST_MS
    for offset, (step_ms, group, topic, partition, value) in enumerate(steps):
        now_ms += step_ms
        key = group, topic, partition
        if value is not None:
            committed[key] = value, now_ms
            if key in waiting:
                waiting.pop(key)["after"].append((topic, partition, value, now_ms, offset))
            gone.discard(key)
            continue
        if key in gone:
            continue
        gone.add(key)
        theirs = removals.setdefault(group, [])
        if not theirs or now_ms - theirs[-1]["until"] > MOMENT_MS:
            theirs.append({"from": now_ms, "first": offset, "lost": {}, "last_ms": -1, "after": []})
        old, old_ms = committed.pop(key, (-1, -1))
        theirs[-1] |= {"until": now_ms, "last": offset}
        theirs[-1]["lost"][topic, partition] = old
        theirs[-1]["last_ms"] = max(theirs[-1]["last_ms"], old_ms)
        waiting[key] = theirs[-1]
    return removals


def as_modelled(removal):
    return {
        "from": removal.from_ms,
        "until": removal.until_ms,
        "first": removal.log_offset,
        "last": removal.last_offset,
        "last_ms": removal.committed_ms,
        "lost": {
            (topic, number): offset
            for topic, numbers in removal.partitions.items()
            for number, offset in numbers.items()
        },
        "after": [
            (after.topic, after.partition, after.offset, after.at_ms, after.log_offset)
            for after in removal.resumed
        ],
    }


def in_model_form(removals):
    return {group: list(map(as_modelled, theirs)) for group, theirs in removals.items()}


@given(steps=STEPS)
def test_removals_are_those_of_the_records_one_by_one(steps, tmp_path_factory):
    listing = written(tmp_path_factory.mktemp("removals"), steps)
    view = PartitionView(0, listing.segments)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_reader, "READ_PIECE_BYTES", 1)
        aggregate = {"removals": (view.record_filter, KeyRemovals())}
        removed = run_aggregates(view, aggregate)["removals"]
    assert in_model_form(removals_of(removed)) == modelled(steps)
    firsts = {}
    for offset, (_, group, topic, partition, committed) in enumerate(steps):
        firsts.setdefault((group, topic, partition), None if committed is None else offset)
    assert dict(removed.first_commits()) == {
        key: at for key, at in firsts.items() if at is not None
    }


@pytest.mark.parametrize("piece_bytes", [1, 1 << 20])
def test_a_removal_has_all_of_the_commit_before_it_wherever_that_is_read(
    piece_bytes, tmp_path, monkeypatch
):
    """The time in a commit's value is when the request came, the record's when it was written."""
    monkeypatch.setattr(log_reader, "READ_PIECE_BYTES", piece_bytes)
    place = tmp_path / "__consumer_offsets-0"
    place.mkdir()
    keys = [commit_key(1, b"g", b"t", partition) for partition in (0, 1)]
    records = [
        (10, keys[0], commit_value(5, -1, b"", 3)),
        (11, keys[1], commit_value(6, -1, b"", 4)),
        (12, keys[1], commit_value(7, -1, b"", 5)),
        (13, keys[0], None),
        (0, keys[1], None),
        (14, keys[1], commit_value(8, -1, b"", 6)),
        (-1, keys[1], None),
    ]
    data = [batch(offset, [record]) for offset, record in enumerate(records)]
    (place / f"{0:020}.log").write_bytes(b"".join(data))
    removed = KeyRemovals()
    feed(PartitionView(0, find_segments([place]).segments).pieces(), [removed])
    found = [
        (one.key[2], one.offset, one.commit_log_offset, one.commit_ms, one.committed_ms,
         one.removed_ms, one.resumed and one.resumed.offset)
        for one in removed.rows()
    ]  # fmt: skip
    assert found == [
        (0, 5, 0, 3, 10, 13, None),
        (1, 7, 2, 5, 12, 0, 8),
        (1, 8, 5, 6, 14, None, None),
    ]


def pending_in_model(steps):
    """Log offset -> whether a transaction had committed the key that this tombstone removes."""
    pending, found = set(), {}
    for at, (producer, what, partition) in enumerate(steps):
        if what == "tombstone":
            found[at] = any(key == partition for _, key in pending)
            pending = {(owner, key) for owner, key in pending if key != partition}
        elif what == "commit" and producer:
            pending.add((producer, partition))
        elif what == "marker":
            pending = {(owner, key) for owner, key in pending if owner != producer}
    return found


def batch_of(at, producer, what, partition):
    if what == "marker":
        return marker(at, producer, FIRST_MS + at, commit=at % 2)
    inside = {"producer_id": producer, "transactional": True} if what == "commit" else {}
    value = None if what == "tombstone" else commit_value(at, -1, b"", FIRST_MS + at)
    key = commit_key(1, b"g", b"t", partition)
    return batch(at, [(FIRST_MS + at, key, value)], **(inside if producer else {}))


@example(  # two tombstones in the second piece
    steps=[(1, "commit", 1), (0, "commit", 0), (0, "tombstone", 1), (0, "tombstone", 1)],
    rolls=set(),
)
@given(
    steps=st.lists(
        st.tuples(
            st.integers(0, 2), st.sampled_from(["commit", "tombstone", "marker"]), st.integers(0, 1)
        ),
        max_size=20,
    ),
    rolls=st.sets(st.integers(1, 19), max_size=4),
)
def test_a_removal_knows_the_transactions_that_had_committed_its_offset(
    steps, rolls, tmp_path_factory
):
    place = tmp_path_factory.mktemp("removals") / "__consumer_offsets-0"
    place.mkdir()
    batches = [batch_of(at, *step) for at, step in enumerate(steps)]
    for begin, end in pairwise([0, *sorted(at for at in rolls if at < len(steps)), len(steps)]):
        (place / f"{begin:020}.log").write_bytes(b"".join(batches[begin:end]))
    removed = KeyRemovals()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_reader, "READ_PIECE_BYTES", 150)  # two batches
        feed(PartitionView(0, find_segments([place]).segments).pieces(), [removed])
    expected = pending_in_model(steps)
    found = {row.tombstone.log_offset: row.pending for row in removed.rows()}
    assert found == {at: expected[at] for at in found}
    in_transactions = any(producer and what == "commit" for producer, what, _ in steps)
    assert removed.groups_with_transactions() == ({"g"} if in_transactions else set())


def rows_of(*args):
    return json.loads(coterie_ok("explain", *args, "--format", "json").stdout)


def of_event(rows, *events):
    return [row for row in rows if row["event"] in events]


COMPACTION = GOLDEN / "incidents" / "compaction"


def deleted_in_truth():
    """Group -> the times between which it was deleted, as the driving program saw it."""
    truth = json.loads((COMPACTION / "truth.json").read_text())
    return {
        event["arguments"][2]: (event["since_ms"], event["at_ms"])
        for event in truth["events"]
        if event["what"] == "kafka-consumer-groups" and event["arguments"][0] == "--delete"
    }


@pytest.mark.parametrize("logs", ["none", "server", "request", "both"])
def test_a_deleted_group_is_an_event_with_its_reason(logs):
    options = []
    if logs in ("server", "both"):
        options += ["--server-log", COMPACTION / "server.log.gz"]
    if logs in ("request", "both"):
        options += ["--request-log", COMPACTION / "kafka-request.log.gz"]
    rows = of_event(rows_of(COMPACTION / "whole", *options), "offsets_removed", "deleted")
    truth = deleted_in_truth()
    assert {row["group_id"] for row in rows} == set(truth)
    for group, (since_ms, until_ms) in truth.items():
        removed, deleted = (row for row in rows if row["group_id"] == group)
        assert (removed["event"], deleted["event"]) == ("offsets_removed", "deleted")
        assert (removed["count"], removed["topics"]) == (2, ["clicks"])
        assert since_ms <= removed["timestamp"] <= deleted["timestamp"] <= until_ms
        for row in (removed, deleted):
            (cause,) = row["causes"]
            assert cause["what"] == "group_deleted"
            by_request = logs in ("request", "both")
            sources = {"none": "records", "server": "server log"}
            assert cause["source"] == sources.get(logs, "request log")
            if by_request:
                named = cause["client_id"], cause["client_host"], cause["detail"]
                assert named == ("adminclient-1", "/127.0.0.1", "User:ANONYMOUS")
            if logs in ("server", "both"):
                assert row["reason"].startswith(f"The following groups were deleted: {group}. ")
            if logs == "none":
                assert "not expired" in row["cause"]
                assert "after the group became empty" in row["cause"]


def test_offsets_of_a_deleted_topic_are_told_from_deleted_offsets():
    """README of the log: a topic deleted, groups and single offsets deleted."""
    rows = of_event(rows_of(log("basic")), "offsets_removed")
    whats = {row["group_id"]: row["causes"][0]["what"] for row in rows}
    of_topic = {group for group, what in whats.items() if what == "topic_deleted"}
    assert of_topic == {row["group_id"] for row in rows if row["topics"] == ["tmp-topic"]}
    assert whats["grp-deloff"] == "offsets_deleted"
    assert whats["grp-del-consumer"] == "group_deleted"


def made(folder, *records):
    """A partition of batches: (time, group, topic or None for metadata, value)."""
    place = Path(folder) / "__consumer_offsets-0"
    place.mkdir(parents=True)
    data = b""
    for offset, (at_ms, group, topic, value) in enumerate(records):
        key = group_key(group) if topic is None else commit_key(1, group, topic, 0)
        data += batch(offset, [(at_ms, key, value)])
    (place / f"{0:020}.log").write_bytes(data)
    return folder


def committed(at_ms, group=b"g", topic=b"t", offset=100):
    return at_ms, group, topic, commit_value(offset, -1, b"", at_ms)


def test_offsets_that_were_removed_late_may_have_expired(tmp_path):
    week_ms = 7 * 24 * 3_600_000
    records = [
        committed(1_000),
        (1_500, b"g", None, group_value(1, [b"m"])),  # what counts is its state at the end
        (2_000, b"g", None, group_value(2, [])),
        (2_000 + week_ms, b"g", b"t", None),
        (2_000 + week_ms, b"g", None, None),
    ]
    rows = of_event(rows_of(made(tmp_path, *records)), "offsets_removed", "deleted")
    assert [row["causes"][0]["what"] for row in rows] == ["removed", "removed"]
    assert "expired or deleted 7.0 d after the group became empty" in rows[0]["cause"]


def test_offsets_that_groups_lose_at_one_moment_may_have_expired_together(tmp_path):
    day_ms = 24 * 3_600_000
    records = [
        *(committed(1_000, group) for group in (b"g", b"h")),
        *((1_000 + day_ms, group, b"t", None) for group in (b"g", b"h")),
    ]
    rows = of_event(rows_of(made(tmp_path, *records)), "offsets_removed")
    assert [row["causes"][0]["what"] for row in rows] == ["removed", "removed"]
    assert "1 other group lost offsets of the same topic" in rows[0]["cause"]


def test_the_topics_of_a_removal_stand_by_name_whatever_the_order_of_the_tombstones(tmp_path):
    topics = (b"u", b"v", b"t")
    records = [*(committed(1_000, topic=topic) for topic in topics),
               *((9_000, b"g", topic, None) for topic in topics)]  # fmt: skip
    (row,) = of_event(rows_of(made(tmp_path, *records)), "offsets_removed")
    assert (row["topics"], row["count"]) == (["t", "u", "v"], 3)


def test_with_one_group_requested_the_others_of_its_partition_still_show_the_deletion(tmp_path):
    records = [
        *(committed(1_000, group) for group in (b"g", b"h", b"i")),
        *((9_000, group, b"t", None) for group in (b"g", b"h", b"i")),
    ]
    folder = made(tmp_path, *records)
    (row,) = of_event(rows_of(folder, "--group", "h"), "offsets_removed")
    assert row["causes"][0]["what"] == "topic_deleted"
    assert "2 other groups lost offsets of it at the same moment" in row["cause"]


def test_a_topic_that_is_committed_to_after_its_deletion_was_created_again(tmp_path):
    records = [
        *(committed(1_000, group) for group in (b"g", b"h")),
        *((9_000, group, b"t", None) for group in (b"g", b"h")),
        committed(20_000, b"g", offset=3),
    ]
    (row,) = of_event(rows_of(made(tmp_path, *records)), "topic_recreated")
    assert (row["group_id"], row["timestamp"], row["topics"]) == ("g", 20_000, ["t"])
    assert "first commits since: t-0 3 (before 100)" in row["cause"]


def test_a_log_of_other_hours_is_reported(tmp_path):
    folder = made(tmp_path, committed(1_000), (2_000, b"g", None, group_value(1, [b"m"])))
    result = coterie_ok("explain", folder, "--server-log", COMPACTION / "server.log.gz")
    assert "the server log explains no event" in result.stderr
    result = coterie_ok(
        "explain", COMPACTION / "whole", "--server-log", COMPACTION / "server.log.gz"
    )
    assert "explains no event" not in result.stderr


WHY = {  # in a truth -> what of a cause
    "group deleted": "group_deleted",
    "topic deleted": "topic_deleted",
    "offsets deleted": "offsets_deleted",
    "expired": "expired",
}
RECORDED = ("removals", "removals-4")


def incident(name):
    folder = GOLDEN / "incidents" / name
    if not folder.exists():
        pytest.skip(f"there is no incident {name}")
    return folder, json.loads((folder / "truth.json").read_text())["findings"]


@pytest.mark.parametrize("name", RECORDED)
def test_each_removal_of_a_real_broker_has_its_reason_from_the_logs(name):
    folder, findings = incident(name)
    logs = ["--server-log", folder / "server.log.gz"]
    logs += ["--request-log", folder / "kafka-request.log.gz"]
    rows = rows_of(folder / "log", *logs)
    removed = of_event(rows, "offsets_removed")
    for truth in findings:
        if truth["kind"] != "removal":
            continue
        first = next(row for row in removed if row["group_id"] == truth["group"])
        since_ms, until_ms = truth["between_ms"]
        assert (since_ms or 0) <= first["timestamp"] <= until_ms
        assert first["causes"][0]["what"] == WHY[truth["why"]]
        assert first["count"] == len(truth.get("places") or ()) or not truth.get("places")
        if truth.get("by"):
            cause = first["causes"][0]
            assert (cause["client_id"], cause["detail"]) == ("ops-console", "User:ops")
    groups = {truth["group"] for truth in findings if truth["kind"] == "removal"}
    assert {row["group_id"] for row in removed} == groups
    (created,) = [truth for truth in findings if truth["kind"] == "topic recreated"]
    recreated = of_event(rows, "topic_recreated")
    assert {row["group_id"] for row in recreated} == {"live-a", "live-b", "idle-a", "idle-b"}
    for row in recreated:
        assert row["topics"] == [created["topic"]]
        assert created["between_ms"][0] <= row["timestamp"] <= created["between_ms"][1]
        assert row["causes"][0]["client_id"] == "ops-console"


@pytest.mark.parametrize("name", RECORDED)
def test_the_records_alone_never_name_a_wrong_reason(name):
    folder, findings = incident(name)
    possible = {"removed": set(WHY.values())}
    removed = of_event(rows_of(folder / "log"), "offsets_removed")
    for truth in findings:
        if truth["kind"] == "removal":
            first = next(row for row in removed if row["group_id"] == truth["group"])
            what, actual = first["causes"][0]["what"], WHY[truth["why"]]
            if what == "group_deleted":  # the group went, with its topic or by a tool
                assert "deleted, not expired" in first["cause"]
                assert actual in ("group_deleted", "topic_deleted")
            elif what == "offsets_deleted":
                assert "deleted by a tool or with their topic" in first["cause"]
                assert actual in ("offsets_deleted", "topic_deleted")
            else:
                assert actual in possible.get(what, {what})
