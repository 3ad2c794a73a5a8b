"""The rule by which an offset expires, and each field that follows from it.

Rules: GroupMetadata.removeExpiredOffsets, ClassicGroup.offsetExpirationCondition.
"""

import pytest

from coterie.base.times import MAX_MS
from coterie.insight.questions import expire
from coterie.insight.records.partition_view import read_partitions
from coterie.messages import encode_value
from support.golden_data import log
from support.insight.lives import commit, life, member, written
from support.insight.models import question_rows
from support.log_writer import batch, commit_key

COMMIT_MS, SINCE_MS = 5_003, 7_009


def head(state, protocol_type, topics=None, since_ms=SINCE_MS):
    fields = {"type": "classic", "state": state, "protocol_type": protocol_type}
    return fields | {"subscribed_topics": topics, "current_state_timestamp": since_ms}


@pytest.mark.parametrize(
    ("group", "rule", "base_ms", "is_retained"),
    [
        (head("Empty", "consumer"), "empty_since", SINCE_MS, False),
        (head("Empty", "connect"), "empty_since", SINCE_MS, False),
        (head("Empty", "consumer", since_ms=0), "empty_since", 0, False),
        (head("Empty", "consumer", since_ms=None), "empty_commit", COMMIT_MS, False),
        (head("Empty", None), "standalone", COMMIT_MS, False),
        (head("Empty", None, since_ms=None), "standalone", COMMIT_MS, False),
        (head("Stable", "consumer", ["t", "u"]), "subscribed", -1, True),
        (head("Stable", "consumer", ["u"]), "not_subscribed", COMMIT_MS, False),
        (head("Stable", "consumer", []), "not_subscribed", COMMIT_MS, False),
        (head("Stable", "consumer"), "members", -1, True),
        (head("PreparingRebalance", "consumer", ["u"]), "members", -1, True),
        (head("Stable", "connect"), "members", -1, True),
    ],
)
def test_a_rule_is_that_of_the_groups_state_and_counts_from_its_own_time(
    group, rule, base_ms, is_retained
):
    offset = {"topic": "t", "partition": 0, "commit_timestamp": COMMIT_MS, "expire_timestamp": None}
    assert expire.expiry_of(group, offset) == (rule, base_ms, is_retained)
    explicit = expire.expiry_of(group, offset | {"expire_timestamp": 0})
    assert explicit == (rule if is_retained else "explicit", base_ms, is_retained)
    lost = expire.expiry_of(group, offset | {"commit_timestamp": None})
    assert lost == ("unknown", -1, True)


def rows_of(folder, *appends, **parameters):
    (view,) = read_partitions([written(folder, *appends)])
    rows = expire.rows(view, expire.Parameters(**parameters))
    return {(row["group_id"], row["topic"], row["partition"]): row for row in rows}


def test_other_retentions_are_compared_and_change_nothing_else():
    times = {"now_ms": 1_795_237_397_237, "retention_ms": 86_400_000}
    alone = question_rows(log("basic"), expire, expire.Parameters(**times))
    compared = question_rows(
        log("basic"), expire, expire.Parameters(what_if_ms=(5, 9 * 10**15), **times)
    )
    assert [row | {"what_if": []} for row in compared] == alone
    assert {row["status"] for row in alone} == {"due", "expired", "kept", "removed"}
    for row in compared:
        if row["topic"] is not None:
            assert [one["retention_ms"] for one in row["what_if"]] == [5, 9 * 10**15]
        if row["status"] == "due":
            assert [one["expired"] for one in row["what_if"]] == [True, False]
            assert [one["expires_at"] - row["since"] for one in row["what_if"]] == [5, 9 * 10**15]


def test_each_field_of_an_offset_follows_from_its_groups_records(tmp_path):
    day = 86_400_000
    rows = rows_of(
        tmp_path,
        life(1_001, 1, member("m", topics=["t"])),
        commit(2_003, {0: 17}, topic=b"u"),
        commit(2_503, {0: 19}),
        life(3_001, 1, member("n"), group=b"h"),
        commit(3_507, {3: 31}, group=b"h"),
        life(4_007, 2, group=b"h", state_ms=4_001),
        life(4_507, 2, group=b"e", state_ms=4_503),
        commit(5_009, {2: 41, 4: 43}, group=b"s"),
        commit(6_011, {2: None}, group=b"s"),
        commit(6_013, {5: None}, group=b"s"),
        now_ms=9_999,
        retention_ms=day,
    )
    kept = {"status": "kept", "since": None, "expires_at": None, "remaining_ms": None}
    gone = {"status": "removed", "removed_at": 6_011, "rule": "deleted", "offset": 41}
    expected = {
        ("g", "t", 0): kept | {"rule": "subscribed", "offset": 19, "idle_since": None},
        ("g", "u", 0): {"status": "due", "rule": "not_subscribed", "since": 2_003, "offset": 17,
                        "expires_at": 2_003 + day, "remaining_ms": 2_003 + day - 9_999},
        ("h", "t", 3): {"status": "due", "rule": "empty_since", "since": 4_001, "offset": 31,
                        "commit_timestamp": 3_507, "idle_since": 4_001, "removed_at": None},
        ("e", None, None): {"status": "expired", "rule": "no_offsets", "idle_since": 4_503},
        ("s", "t", 2): gone | {"since": 5_009, "expires_at": 5_009 + day, "state": "Empty"},
        ("s", "t", 4): {"status": "due", "rule": "standalone", "since": 5_009, "removed_at": None},
        ("s", "t", 5): {"status": "removed", "rule": "unknown", "removed_at": 6_013, "offset": None,
                        "commit_timestamp": None, "since": None, "expires_at": None},
    }  # fmt: skip
    assert rows.keys() == expected.keys()
    assert list(rows) == sorted(rows, key=lambda key: (key[0], key[1] or "", key[2] or 0))
    for key, fields in expected.items():
        assert {name: rows[key][name] for name in fields} == fields, key


def test_an_offset_that_was_removed_before_has_the_rule_of_its_group_then(tmp_path):
    """Removed under a retention of 500 ms, after its group had been empty for that long."""
    rows = rows_of(
        tmp_path,
        life(1_001, 1, member("m")),
        commit(1_003, {0: 17}),
        life(2_003, 2, state_ms=2_001),
        commit(2_600, {0: None}),
        life(9_000, 3, member("n")),
        now_ms=9_999,
        retention_ms=500,
    )
    row = rows["g", "t", 0]
    assert (row["rule"], row["since"], row["expires_at"]) == ("empty_since", 2_001, 2_501)
    assert (row["state"], row["removed_at"], row["commit_timestamp"]) == ("Empty", 2_600, 1_003)


@pytest.mark.parametrize("at_ms", [0, 1, 5_000])
def test_a_group_without_records_is_idle_since_its_last_commit_at_any_time(at_ms, tmp_path):
    rows = rows_of(tmp_path, commit(at_ms, {0: 1}), now_ms=9_999)
    assert rows["g", "t", 0]["idle_since"] == at_ms


@pytest.mark.parametrize(
    ("expire_ms", "now_ms", "remaining_ms"),
    [(-(2**63), 5_000, -MAX_MS), (2**63 - 1, -5, MAX_MS), (9_000, 5_000, 4_000)],
)
def test_the_time_that_remains_fits_into_64_bits(expire_ms, now_ms, remaining_ms, tmp_path):
    value = {"offset": 7, "metadata": "", "commitTimestamp": 1, "expireTimestamp": expire_ms}
    pair = 1, commit_key(1, b"s", b"t", 0), encode_value(1, {"version": 1, "data": value})
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    (folder / f"{0:020}.log").write_bytes(batch(0, [pair]))
    (row,) = question_rows(tmp_path, expire, expire.Parameters(now_ms))
    assert (row["expires_at"], row["remaining_ms"]) == (expire_ms, remaining_ms)
