"""Offsets that were set back, and times without a coordinator, in the timeline of a group."""

import json

import pytest

from coterie.insight.questions import explain
from coterie.insight.records.partition_view import read_partitions
from coterie.messages import encode_batch
from support.commandline import coterie, coterie_ok
from support.golden_data import GOLDEN, log, records
from support.insight.lives import commit, life, member, written
from support.log_writer import batch, commit_key, commit_value
from support.segment_cutter import in_small_segments

INCIDENTS = GOLDEN / "incidents"
OUTSIDE = "by a tool or a consumer outside of the group: it had no members"


def rows_of(folder, *events, groups=None):
    for view in read_partitions([folder], groups=groups):
        for row in explain.rows(view, explain.Parameters()):
            if row["event"] in events:
                yield row


def test_a_reset_while_the_group_is_empty_is_reported_with_who_may_have_done_it(tmp_path):
    lives = [
        life(1000, 1, member("a")),
        commit(2000, {0: 40, 1: 41}),
        life(3000, 2),
        commit(5000, {0: 0, 1: 90, 2: 5}),
        life(7000, 3, member("b")),
        commit(8000, {0: 3, 1: 91}),
    ]
    (row,) = rows_of(written(tmp_path, *lives), "reset", "rewind")
    assert (row["event"], row["timestamp"], row["log_offset"]) == ("reset", 5000, 4)
    text = "1 offset set back, 1 offset set forward, 1 offset set for the first time: t-0 40 to 0"
    assert row["cause"] == f"{text}; {OUTSIDE}"
    assert row["count"] == 1


def test_a_jump_forward_while_the_group_is_empty_is_reported_too(tmp_path):
    lives = [life(1, 1, member("a")), commit(2, {0: 40}), life(3, 2), commit(5, {0: 90})]
    (row,) = rows_of(written(tmp_path, *lives), "reset", "rewind")
    assert row["cause"] == f"1 offset set forward: t-0 40 to 90; {OUTSIDE}"


@pytest.mark.parametrize("missing", [1, 2])
def test_a_generation_shows_members_that_left_before_the_log_begins(missing, tmp_path):
    lives = [life(1, 1, member("a")), commit(2, {0: 40}), life(3, 2), commit(5, {0: 40})]
    folder = written(tmp_path, *lives[missing:], commit(9, {0: 9_000}))
    cause = [row["cause"] for row in rows_of(folder, "reset", "rewind")][-1]
    assert cause == f"1 offset set forward: t-0 40 to 9000; {OUTSIDE}"
    assert "skip,g,0,t,0" in coterie("audit", folder, "--format", "csv").stdout


@pytest.mark.parametrize("incident", ["loops", "reset-while-empty"])
def test_who_set_offsets_back_stays_true_without_the_first_segment(incident, tmp_path):
    whole = INCIDENTS / incident / "log"
    known = {who_of(row) for row in rows_of(whole, "reset", "rewind")}
    folder = in_small_segments(whole, tmp_path, 5)
    for partition in folder.iterdir():
        min(partition.iterdir()).unlink()
    found = {who_of(row) for row in rows_of(folder, "reset", "rewind")}
    unknown = "the log does not tell whether the group had members"
    assert {place for place, who in found - known if who != unknown} == set()
    assert found


def who_of(row):
    return (row["group_id"], row["log_offset"]), row["cause"].rpartition("; ")[2]


def test_a_commit_that_goes_back_while_there_are_members_is_theirs(tmp_path):
    lives = [life(1, 1, member("a")), commit(2, {0: 40, 1: 9}), commit(5, {0: 30, 1: 9})]
    (row,) = rows_of(written(tmp_path, *lives), "reset", "rewind")
    assert row["event"] == "rewind"
    assert row["cause"].startswith("1 offset set back: t-0 40 to 30; by a member")


def test_a_consumer_outside_of_groups_is_not_told_at_each_commit(tmp_path):
    commits = [commit(at, {0: at}) for at in range(50)]
    assert not list(rows_of(written(tmp_path, *commits), "reset", "rewind"))
    commits += [commit(60, {0: 3})]
    (row,) = rows_of(written(tmp_path / "two", *commits), "reset", "rewind")
    assert row["cause"] == f"1 offset set back: t-0 49 to 3; {OUTSIDE}"


def test_of_many_requests_outside_of_the_group_those_are_reported_that_set_back(tmp_path):
    lives = [life(1, 1, member("a")), commit(2, {0: 40}), life(3, 2)]
    lives += [commit(10 + at, {0: 50 + at}) for at in range(30)] + [commit(99, {0: 7})]
    (row,) = rows_of(written(tmp_path, *lives), "reset", "rewind")
    assert row["timestamp"] == 99


@pytest.mark.parametrize(("count", "rows"), [(10, 10), (11, 10), (14, 10)])
def test_more_than_ten_requests_of_one_time_that_set_back_are_counted(tmp_path, count, rows):
    commits = [commit(at, {0: 1000 - at}) for at in range(count + 1)]
    actual = list(rows_of(written(tmp_path, life(0, 1, member("a")), *commits), "rewind"))
    assert len(actual) == rows
    left = count - rows
    assert (f"; {left} more request" in actual[-1]["cause"]) == bool(left)
    assert actual[-1]["until"] == count


def test_nothing_is_reported_of_members_where_the_log_begins_late(tmp_path):
    commits = [commit(1, {0: 9}), commit(2, {0: 5}), life(3, 7, member("a"))]
    (row,) = rows_of(written(tmp_path, *commits), "reset", "rewind")
    assert row["event"] == "rewind"
    assert row["cause"].endswith("the log does not tell whether the group had members")


def test_what_a_transaction_sets_back_is_a_producers(tmp_path):
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    pairs = [(0, 1, commit_key(1, b"g", b"t", 0), commit_value(9, -1, b"", 1))]
    first = encode_batch(pairs, base_offset=0)
    again = [(5, commit_key(1, b"g", b"t", 0), commit_value(3, -1, b"", 5))]
    from support.log_writer import marker

    opened = batch(1, again, producer_id=5, transactional=True)
    ended = marker(2, 5, 6, commit=True)
    (folder / f"{0:020}.log").write_bytes(first + opened + ended)
    (row,) = rows_of(tmp_path, "reset", "rewind")
    assert (row["event"], row["cause"].rpartition("; ")[2]) == (
        "rewind",
        "by a producer's transaction",
    )


def test_the_reset_of_kafkas_tool_is_reported_in_the_log_of_a_real_broker():
    (row,) = rows_of(log("basic"), "reset", groups={"grp-reset-cli"})
    (first, *_) = [
        record
        for record in records("basic")
        if record["key"]["data"].get("group") == "grp-reset-cli"
        and record["value"]
        and record["value"]["data"].get("offset") == 0
    ]
    assert (row["log_offset"], row["timestamp"]) == (first["offset"], first["timestamp"])
    assert row["count"] == 6
    assert row["cause"].endswith(OUTSIDE)


def steady(*groups, until=100, step=10, value=0):
    """Commits of some groups in turn, from 0 ms on."""
    return [
        commit(at, {0: value + at}, group=groups[number % len(groups)])
        for number, at in enumerate(range(0, until, step))
    ]


def test_another_leader_of_the_partition_is_reported_with_whom_it_cost_the_place(tmp_path):
    before = [life(0, 1, member("a"), member("b", clientId="d")), *steady(b"g", b"h", until=200)]
    after = [commit(9_200, {0: 800}, group=b"h"), life(18_000, 2, member("a"))]
    epochs = [3] * len(before) + [5] * len(after)
    log = written(tmp_path, *before, *after, epochs=epochs)
    (row,) = rows_of(log, "coordinator_change", "silence", groups={"g"})
    assert row["event"] == "coordinator_change"
    assert (row["timestamp"], row["until"], row["duration_ms"]) == (190, 9_200, 9_010)
    assert "leader epoch went from 3 to 5" in row["cause"]
    assert "no record of any group for 9.0 s (before, 0.0 s at most)" in row["cause"]
    assert row["cause"].endswith("; soon after, d (h) left or was evicted")
    # `h` has no members: only the change is reported.
    (row,) = rows_of(log, "coordinator_change", groups={"h"})
    assert "evicted" not in row["cause"]


@pytest.mark.parametrize(("late_ms", "told"), [(0, True), (1, False)])
def test_who_goes_long_after_a_change_is_not_brought_together_with_it(tmp_path, late_ms, told):
    """Long is more than the session of `lives.member` and the 3 s of a heartbeat interval."""
    before = [life(0, 1, member("a"), member("b")), *steady(b"g", b"h", until=200)]
    gone = life(300 + 7_000 + 3_000 + late_ms, 2, member("a"))
    late = [commit(300, {0: 800}), gone]
    log = written(tmp_path, *before, *late, epochs=[1] * len(before) + [2, 2])
    (row,) = rows_of(log, "coordinator_change", groups={"g"})
    assert ("evicted" in row["cause"]) == told


def test_who_is_in_a_generation_after_a_change_has_come_back(tmp_path):
    before = [life(0, 1, member("a"), member("b")), *steady(b"g", b"h", until=200)]
    after = [life(300, 2, member("a"), member("b")), life(400, 3, member("a"))]
    log = written(tmp_path, *before, *after, epochs=[1] * len(before) + [2, 2])
    (row,) = rows_of(log, "coordinator_change", groups={"g"})
    assert "evicted" not in row["cause"]


def test_a_group_that_began_after_a_change_is_not_told_of_it(tmp_path):
    log = written(tmp_path, commit(1, {0: 1}, group=b"h"), commit(9, {0: 1}), epochs=[1, 2])
    assert not list(rows_of(log, "coordinator_change", groups={"g"}))
    assert list(rows_of(log, "coordinator_change", groups={"h"}))


def silent(folder, pause_ms, lost=(b"g", b"h"), apart_ms=0, step=10):
    """Two groups with one member each commit steadily; after a pause, lost members are removed."""
    lives = [life(0, 1, member("a"), group=b"g"), life(0, 1, member("b"), group=b"h")]
    before = [*lives, *steady(b"g", b"h", until=30 * step, step=step)]
    back_ms = 29 * step + pause_ms
    after = [commit(back_ms, {0: 90_000}, group=b"k")]
    after += [
        life(back_ms + 4_000 + at * apart_ms, 2, group=group) for at, group in enumerate(lost)
    ]
    return written(folder, *before, *after)


@pytest.mark.parametrize(("pause_ms", "told"), [(5_000, True), (4_999, False)])
def test_a_silence_after_which_members_of_several_groups_go_at_once_is_reported(
    tmp_path, pause_ms, told
):
    actual = list(rows_of(silent(tmp_path, pause_ms), "coordinator_change", "silence"))
    assert [row["event"] for row in actual] == ["silence"] * 2 * told
    for row in actual:
        assert row["cause"].startswith("members of 2 groups went at once after a silence: perhaps")
        assert row["cause"].endswith("; soon after, c (h) left or was evicted")


def test_a_server_log_says_when_a_broker_had_loaded_the_groups(tmp_path):
    line = (
        "[1970-01-01 00:00:12,500] INFO [GroupMetadataManager brokerId=1] Finished loading offsets "
        "and group metadata from __consumer_offsets-{} in 24 milliseconds for epoch 0, of which 8 "
        "milliseconds was spent in the scheduler. (kafka.coordinator.group.GroupMetadataManager)\n"
    )
    server = tmp_path / "server.log"
    log = written(tmp_path / "log", commit(1_000, {0: 1}), commit(15_000, {0: 2}), number=3)
    for partition, events in ((3, ["coordinator_change"]), (2, [])):
        server.write_text(line.format(partition))
        result = coterie_ok("explain", log, "--server-log", server, "--format", "json")
        actual = [row for row in json.loads(result.stdout) if row["event"] == "coordinator_change"]
        assert [row["event"] for row in actual] == events
    early = line.format(3).replace("00:00:12,500", "00:00:00,500")  # it made the first one ready
    server.write_text(early + line.format(3))
    result = coterie_ok("explain", log, "--server-log", server, "--format", "json")
    (row,) = [row for row in json.loads(result.stdout) if row["event"] == "coordinator_change"]
    assert (row["timestamp"], row["until"]) == (1_000, 15_000)
    assert "loaded the groups at 1970-01-01T00:00:12.500Z [server log]" in row["cause"]


def test_the_lines_stand_in_the_table_in_their_place():
    shown = coterie_ok("explain", log("basic"), "--group", "grp-reset-cli").stdout
    lines = [line.split()[3] for line in shown.splitlines() if line.startswith(" 20")]
    assert lines.index("reset") > lines.index("empty")
    rows = json.loads(
        coterie_ok("explain", log("basic"), "--group", "grp-reset-cli", "--format", "json").stdout
    )
    places = [row["log_offset"] for row in rows if row["event"] not in explain.SUMMARIES]
    assert places == sorted(places)


def test_offsets_of_a_topic_that_was_created_again_are_not_set_back(tmp_path):
    """Brokers since 4.2 write the topic's id with a commit."""
    one, other, none = "AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg", "AAAAAAAAAAAAAAAAAAAAAA"
    joined = life(1, 1, member("a"))

    def commit_with_id(at_ms, offset, topic_id):
        return commit(at_ms, {0: offset}, topic_id=topic_id)

    same = [joined, *(commit_with_id(at, n, one) for at, n in ((2, 90), (3, 95), (4, 5)))]
    ids = [one, none, one, other, other]
    offsets = [90, 95, 96, 5, 6]
    again = [joined, *map(commit_with_id, (2, 3, 4, 5, 6), offsets, ids)]
    (row,) = rows_of(written(tmp_path / "same", *same), "reset", "rewind", "topic_recreated")
    assert row["event"] == "rewind"
    folder = written(tmp_path / "again", *again)
    (row,) = rows_of(folder, "reset", "rewind", "topic_recreated")
    assert (row["event"], row["log_offset"]) == ("topic_recreated", 4)
    assert row["cause"] == (
        "1 offset set for the first time since the topic was created again: t-0 5; "
        "by a member: only they can commit while the group has any"
    )
    findings = "--format", "csv", "--only", "rewind"
    assert "rewind,g" in coterie("audit", tmp_path / "same", *findings).stdout
    assert "rewind,g" not in coterie("audit", folder, *findings).stdout


def test_a_topic_id_that_changed_across_a_removal_shows_a_topic_that_was_created_again(tmp_path):
    """Without one, a higher offset after a removal that may be an expiry shows nothing."""
    one, other = "AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg"
    day_ms = 86_400_000

    def folder(name, after):
        return written(
            tmp_path / name,
            life(1, 1, member("a")),
            commit(2, {0: 90}, topic_id=one),
            life(3, 2, state_ms=3),
            commit(9 * day_ms, {0: None}),
            life(9 * day_ms + 1, 3, member("a")),
            commit(9 * day_ms + 2, {0: 95}, topic_id=after),
        )

    assert not list(rows_of(folder("same", one), "topic_recreated"))
    (row,) = rows_of(folder("other", other), "topic_recreated")
    assert row["cause"] == "t was created again; first commits since: t-0 95 (before 90)"
