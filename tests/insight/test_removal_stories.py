"""Why offsets and groups are gone: `explain`, `undo` and `expire` say the same of one log.

The expected reasons are Kafka's rules of each release: docs/rules/offsets.md#expiration.
"""

import pytest

from coterie.insight.questions import expire, explain, undo
from coterie.messages import decode_value, encode_value
from support.insight.lives import (
    OF_4X,
    commit,
    in_transaction,
    life,
    member,
    transaction_end,
    written,
)
from support.insight.models import question_rows
from support.log_writer import batch, commit_key
from support.state.newer_records import put

DAY = 86_400_000
T0 = 1_760_000_000_000
ANY = "expired or deleted"
TOPIC = "the topic was deleted: the group's members used it, and nothing else removes it"


def old_commit(at_ms, offset, expire_ms, partition=0, topic=b"t"):
    """A commit of Kafka 0.9 to 2.0, with its own expire time."""
    data = {"offset": offset, "metadata": "", "commitTimestamp": at_ms}
    value = encode_value(1, {"version": 1, "data": data | {"expireTimestamp": expire_ms}})
    return at_ms, commit_key(1, b"g", topic, partition), value


def as_version(record, version):
    """A group's record with another version of its value."""
    at_ms, key, value = record
    return at_ms, key, encode_value(2, {"version": version, "data": decoded(value)})


def decoded(value):
    return decode_value(2, value)["data"]


def answers(folder, *appends, retention_ms=7 * DAY):
    """The reason that `explain` gives, that of `undo`, and the rule of `expire`."""
    written(folder, *appends)
    return found_in(folder, retention_ms)


def found_in(folder, retention_ms=7 * DAY):
    rows = question_rows(folder, explain, explain.Parameters())
    texts = [row["cause"] for row in rows if row["event"] == "offsets_removed"]
    until_ms = T0 + 20 * DAY
    undone = question_rows(folder, undo, undo.Parameters(T0 + 2_000, retention_ms))
    expired = question_rows(folder, expire, expire.Parameters(until_ms, retention_ms))
    return (
        [text.partition(" removed: ")[2] for text in texts],
        {row["removal"] for row in undone if row["removal"]},
        {row["rule"] for row in expired if row["status"] == "removed"},
    )


MEMBERS = life(T0, 1, member("m"))
GONE = 8 * DAY


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_an_own_expire_time_counts_under_members_before_kafka_2_1(version, tmp_path):
    """Groups' values of version 2 and 3 are of Kafka 2.1 and later, which keep such an offset."""
    group = as_version(MEMBERS, version)
    ends = T0 + 1_000 + DAY
    texts, undone, rules = answers(
        tmp_path, group, old_commit(T0 + 1_000, 5, ends), commit(T0 + DAY + 5_000, {0: None})
    )
    if version < 2:
        assert "expired at the expire time of the commits, 2025-10-10T08:53:21.000Z, " in texts[0]
        assert (undone, rules) == ({"expired_or_topic_deleted"}, {"explicit"})
    else:
        assert (texts, undone, rules) == ([TOPIC], {"topic_deleted"}, {"deleted"})


def test_an_own_expire_time_that_is_to_come_does_not_explain_a_removal(tmp_path):
    group = as_version(MEMBERS, 1)
    ends = T0 + 1_000 + 2 * DAY
    found = answers(
        tmp_path, group, old_commit(T0 + 1_000, 5, ends), commit(T0 + DAY + 5_000, {0: None})
    )
    assert found == ([TOPIC], {"topic_deleted"}, {"deleted"})


@pytest.mark.parametrize(
    ("version", "lost", "text", "undone", "rule"),
    [
        # All offsets of an empty group expire at once; a transaction may keep the group.
        (3, (0, 1), "expired or deleted 8.0 d after the group became empty; an undecided "
         "transaction may keep the group", "expired", "empty_since"),
        (3, (0,), "deleted by a tool or with their topic: all offsets of an empty group expire at "
         "once", "deleted", "deleted"),
        # A record without the time since when a group is empty: each offset by its own commit.
        (1, (0,), "expired or deleted 8.0 d after their last commit", "expired", "empty_commit"),
    ],
)  # fmt: skip
def test_offsets_of_an_empty_group_expire_together_if_the_time_is_known(
    version, lost, text, undone, rule, tmp_path
):
    found = answers(
        tmp_path,
        MEMBERS,
        commit(T0 + 1_000, {0: 5, 1: 6}),
        as_version(life(T0 + 3_000, 2, state_ms=T0 + 3_000), version),
        commit(T0 + GONE, dict.fromkeys(lost)),
    )
    assert found == ([text], {undone}, {rule})


def test_an_offset_with_an_own_expire_time_does_not_expire_with_the_others(tmp_path):
    """It stays until then, so what is left does not show that the others were deleted."""
    found = answers(
        tmp_path,
        MEMBERS,
        commit(T0 + 1_000, {0: 5}),
        old_commit(T0 + 1_000, 6, T0 + 9 * DAY, 1),
        life(T0 + 3_000, 2, state_ms=T0 + 3_000),
        commit(T0 + GONE, {0: None}),
    )
    text = "expired or deleted 8.0 d after the group became empty"
    assert found == ([text], {"expired"}, {"empty_since"})


def test_a_tombstone_without_a_time_may_be_later_than_any_expire_time(tmp_path):
    """Records of the formats before 0.10."""
    lost = [(-1, key, None) for _, key, _ in commit(0, {0: 5})]
    written(tmp_path, old_commit(T0, 5, T0 + DAY), lost)
    rows = question_rows(tmp_path, explain, explain.Parameters())
    (text,) = [row["cause"] for row in rows if row["event"] == "offsets_removed"]
    assert "not expired" not in text
    assert "expired at the expire time of the commits" in text


def test_one_cause_removes_what_is_gone_at_a_moment(tmp_path):
    """A deletion: one of the offsets was committed just before."""
    found = answers(
        tmp_path,
        commit(T0 + 1_000, {0: 5, 1: 6}),
        commit(T0 + GONE - 5_000, {1: 7}),
        commit(T0 + GONE, {0: None, 1: None}),
    )
    text = (
        "deleted by a tool or with their topic, not expired: 5.0 s after their last commit, and "
        "the least retention is 1 min"
    )
    assert found == ([text], {"deleted"}, {"deleted"})


def test_what_members_protect_is_apart_from_what_may_have_expired_at_the_moment(tmp_path):
    others = commit(T0 + 1_000, {0: 5}, topic=b"u")
    lost = [(T0 + GONE, key, None) for _, key, _ in commit(T0, {0: 5}) + others]
    texts, undone, rules = answers(
        tmp_path, MEMBERS, commit(T0 + 1_000, {0: 5}), others, commit(T0 + GONE - 1, {0: 6}), lost
    )
    assert texts == [TOPIC, "expired or deleted 8.0 d after their last commit"]
    assert (undone, rules) == ({"topic_deleted", "expired"}, {"deleted", "not_subscribed"})


def test_a_removal_is_open_where_compaction_took_the_record_of_the_group(tmp_path):
    """Its members may have left long before the commit: then all its offsets expire."""
    records = [
        *commit(T0 + GONE - 5_000, {0: 5}),
        *commit(T0 + GONE, {0: None}),
        life(T0 + GONE + DAY, 3, member("m")),
    ]
    place = tmp_path / "__consumer_offsets-0"
    place.mkdir()
    gaps = zip((3, 4, 9), records, strict=True)
    (place / f"{0:020}.log").write_bytes(b"".join(batch(at, [one]) for at, one in gaps))
    text = "expired or deleted 5.0 s after their last commit"
    assert found_in(tmp_path) == ([text], set(), {"unknown"})


@pytest.mark.parametrize(
    ("joined_ms", "commit_ms", "newer", "may_expire"),
    [
        (15_000, 1_000, False, True),
        (3 * DAY, 1_000, False, False),  # nobody can have joined for so long
        (15_000, 5 * DAY, False, False),  # committed 3 days before
        (15_000, 1_000, True, False),  # a log of 4.x: only stable groups lose offsets so
    ],
)
def test_old_offsets_may_expire_as_an_empty_group_rebalances(
    joined_ms, commit_ms, newer, may_expire, tmp_path
):
    """KAFKA-13636, in 2.4 to 2.8.1, 3.0.0 and 3.1.0."""
    empty = T0 + 8 * DAY
    appends = [
        MEMBERS,
        sorted(commit(T0 + 1_000, {1: 9}) + commit(T0 + commit_ms, {0: 5})),
        life(empty, 2, state_ms=empty),
        commit(empty + 15_000, {0: None}),
        life(empty + 15_000 + joined_ms, 3, member("n")),
    ]
    if newer:
        appends.insert(0, OF_4X)
    texts, undone, rules = answers(tmp_path, *appends)
    assert "expired as the group rebalanced" in texts[0] or newer or joined_ms > DAY
    assert ("not expired" in texts[0]) == (newer or joined_ms > DAY)
    assert rules == {"rebalance" if may_expire else "deleted"}
    if commit_ms == 1_000:  # there at the time of `undo`
        assert undone == {"expired" if may_expire else "deleted"}


@pytest.mark.parametrize("commits", [False, True])
def test_a_group_without_offsets_goes_at_the_next_check(commits, tmp_path):
    written(
        tmp_path,
        MEMBERS,
        commit(T0 + 1_000, {0: 5}) if commits else life(T0 + 1_000, 2, member("n")),
        life(T0 + 60_000, 3),
        life(T0 + 270_000, None),
    )
    (row,) = [
        row
        for row in question_rows(tmp_path, explain, explain.Parameters())
        if row["event"] == "deleted"
    ]
    without = "it had no offsets, so the broker's next check removed it, or a tool deleted it"
    assert (without in row["cause"]) != commits
    assert "expired" in row["cause"] or not commits


END = transaction_end(T0 + GONE - 1, commit=False)
OPEN = in_transaction(commit(T0 + 2_500, {0: 7}))
NOT_WHILE_OPEN = (
    "deleted by a tool or with their topic, not expired: Kafka 4.x expires none while a "
    "transaction with commits of {} is open"
)
TOGETHER = (
    "expired or deleted 8.0 d after the group became empty; an undecided transaction may keep "
    "the group"
)


@pytest.mark.parametrize(
    ("sign", "between", "lost", "text", "undone", "rule"),
    [
        ([OF_4X], [OPEN], (0,), NOT_WHILE_OPEN.format("them"), "deleted", "deleted"),
        ([OF_4X], [OPEN], (0, 1), NOT_WHILE_OPEN.format("1 of them"), "deleted", "deleted"),
        ([OF_4X], [OPEN], (1,), "expired or deleted 8.0 d after the group became empty",
         "expired", "empty_since"),
        ([OF_4X], [OPEN, END], (0, 1), TOGETHER, "expired", "empty_since"),
        # A tombstone removed what was pending; the transaction itself is still open.
        ([OF_4X], [OPEN, commit(T0 + 2_600, {0: None}), commit(T0 + 2_700, {0: 8})], (0, 1),
         TOGETHER, "expired", "empty_since"),
        # GroupMetadata.removeExpiredOffsets looks at no pending commits of transactions.
        ([], [OPEN], (0, 1), TOGETHER, "expired", "empty_since"),
    ],
)  # fmt: skip
def test_only_kafka_4x_expires_no_offset_with_a_pending_commit(
    sign, between, lost, text, undone, rule, tmp_path
):
    texts, reasons, rules = answers(
        tmp_path,
        *sign,
        MEMBERS,
        commit(T0 + 1_000, {0: 5, 1: 6}),
        *between,
        life(T0 + 3_000, 2, state_ms=T0 + 3_000),
        commit(T0 + GONE, dict.fromkeys(lost)),
    )
    assert texts[-1] == text
    assert reasons >= {undone}
    assert rules >= {rule}
    assert ({"expired"} <= reasons) == (undone == "expired")
    assert ({"empty_since"} <= rules) == (rule == "empty_since")


@pytest.mark.parametrize(("after_ms", "may_expire"), [(59_999, False), (60_000, True)])
def test_the_retention_of_the_broker_may_be_shorter_than_the_one_given(
    after_ms, may_expire, tmp_path
):
    written(
        tmp_path,
        MEMBERS,
        commit(T0 + 1_000, {0: 5}),
        life(T0 + 3_000, 2, state_ms=T0 + 3_000),
        commit(T0 + 3_000 + after_ms, {0: None}),
    )
    (row,) = question_rows(tmp_path, undo, undo.Parameters(T0 + 2_000))
    assert row["removal"] == "deleted"
    assert ("or expired under a retention below --retention" in row["note"]) == may_expire
    explained = question_rows(tmp_path, explain, explain.Parameters())
    assert any("not expired" in one["cause"] for one in explained) != may_expire


def consumer_group(at_ms, epoch, *member_ids):
    """The records of a group of the newer protocol, subscribed to `t`."""
    log, member = {}, {
        **{"instanceId": None, "rackId": None, "clientId": "c", "clientHost": "/h"},
        **{"subscribedTopicNames": ["t"], "subscribedTopicRegex": "", "rebalanceTimeoutMs": 1},
        **{"serverAssignor": None, "classicMemberMetadata": None},
    }  # fmt: skip
    put(log, 3, {"epoch": epoch}, groupId="g")
    for member_id in member_ids:
        put(log, 5, member, memberId=member_id, groupId="g")
    return [(at_ms, key, value) for key, (value, _, _) in log.items()]


@pytest.mark.parametrize("ends", [False, True])
def test_no_transaction_keeps_a_consumer_group_that_was_removed(ends, tmp_path):
    joined = consumer_group(T0, 1, "m")
    epoch, left = (
        [(T0 + at_ms, key, None)] for at_ms, (_, key, _) in zip((GONE, 3_000), joined, strict=True)
    )
    texts, undone, rules = answers(
        tmp_path,
        joined,
        commit(T0 + 1_000, {0: 5}),
        left + consumer_group(T0 + 3_000, 2),
        commit(T0 + GONE, {0: None}) + epoch * ends,
    )
    stayed = "" if ends else "; an undecided transaction may keep the group"
    assert texts == [f"expired or deleted 8.0 d after their last commit{stayed}"]
    assert (undone, rules) == ({"expired"}, {"not_subscribed"})


def test_several_groups_may_have_lost_a_topic_or_expired_under_a_shorter_retention(tmp_path):
    lost = [record for group in (b"g", b"h") for record in commit(T0 + DAY, {0: None}, group)]
    written(tmp_path, *(commit(T0 + 1_000, {0: 5}, group) for group in (b"g", b"h")), lost)
    rows = question_rows(tmp_path, undo, undo.Parameters(T0 + 2_000))
    assert {row["removal"] for row in rows} == {"topic_deleted"}
    text = "the topic was deleted, or expired under a retention below --retention"
    assert all(row["note"].endswith(text) for row in rows)
