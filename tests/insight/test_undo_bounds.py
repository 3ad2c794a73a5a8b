"""What `undo` knows of an offset, at each bound of its rules (docs/undo.md)."""

from types import SimpleNamespace

import pytest

from coterie._core.fold.fold_state import Committed
from coterie.insight.questions import undo, undo_notes
from coterie.insight.questions.undo_notes import Removed
from coterie.insight.records.partition_view import read_partitions
from coterie.messages import encode_key, encode_value
from support.insight.lives import commit, life, member, written
from support.log_writer import batch

DAY = 86_400_000
T0 = 1_795_000_000_500
EPOCH = (
    T0,
    encode_key({"version": 3, "data": {"groupId": "other"}}),
    encode_value(3, {"version": 0, "data": {"epoch": 1, "metadataHash": 1}}),
)  # only Kafka 4.x writes it
LOST = "removed at 2026-11-18T11:06:40.500Z: "
ANEW = "the topic was created again, and offset 10 is of the old one"


def committed(offset, leader_epoch):
    return Committed(0, offset, T0, -1, leader_epoch, b"")


@pytest.mark.parametrize(
    ("then", "latest", "text"),
    [
        ((10, 5), (10, 4), f"the leader epoch went back from 5 to 4; {ANEW}"),
        ((10, 5), (11, 0), f"the leader epoch went back from 5 to 0; {ANEW}"),
        ((10, 5), (9, 4), None),  # a rewind: its record is older
        ((10, 5), (10, 5), None),
        ((10, 5), (10, 6), None),
        ((10, 5), (10, -1), None),  # an epoch that is not known
        ((10, -1), (10, -1), None),
        ((10, 5), None, None),
        (None, (10, 4), None),
    ],
)
def test_a_leader_epoch_that_goes_back_without_a_rewind_is_of_another_topic(then, latest, text):
    then, latest = (one and committed(*one) for one in (then, latest))
    assert undo_notes.note(None, then, latest) == text


@pytest.mark.parametrize(
    ("reason", "again", "is_resumed", "text"),
    [
        ("topic_deleted", 0, True, f"{LOST}the topic was deleted; {ANEW}"),
        ("topic_deleted", 0, False, f"{LOST}the topic was deleted"),
        ("expired", 0, True, f"{LOST}expired or deleted"),
        ("deleted", 2, True, LOST[:-2] + ", and 2 more times: deleted by a tool or a client, or "
         "with the topic"),
        ("unknown", 1, False, LOST[:-2] + ", and 1 more times: the log has lost the commit or "
         "the group's record, so the reason is not known"),
    ],
)  # fmt: skip
def test_a_removal_is_told_with_its_reason(reason, again, is_resumed, text):
    removed = Removed(T0, reason, again, is_resumed)
    assert undo_notes.note(removed, committed(10, 1), committed(3, 1)) == text
    without = undo_notes.note(removed, None, committed(3, 1))
    assert without == text.removesuffix(f"; {ANEW}")


def rows_of(folder, at_ms, *appends, **options):
    written(folder, *appends)
    (view,) = read_partitions([folder])
    rows = undo.rows(view, undo.Parameters(at_ms, **options))
    return {(row["group_id"], row["topic"], row["partition"]): row for row in rows}


@pytest.mark.parametrize(
    ("after_ms", "options", "reason"),
    [
        (7 * DAY, {}, "expired"),
        (7 * DAY - 1, {}, "deleted"),
        (5_000, {"retention_ms": 5_000}, "expired"),
        (4_999, {"retention_ms": 5_000}, "deleted"),
    ],
)
def test_an_offset_expired_if_its_whole_retention_had_passed(after_ms, options, reason, tmp_path):
    appends = commit(T0, {0: 10}), commit(T0 + after_ms, {0: None})
    (row,) = rows_of(tmp_path, T0 + 1, *appends, **options).values()
    assert (row["removal"], row["removed_at"]) == (reason, T0 + after_ms)
    assert (row["change"], row["offset"], row["latest_offset"]) == ("deleted", 10, None)


def test_the_first_removal_after_the_time_counts_and_those_after_it_are_counted(tmp_path):
    appends = [
        commit(T0, {0: 10}),
        *(commit(T0 + ms, {0: offset}) for ms, offset in (
            (100, None), (200, 11), (300, None), (400, 12), (500, None), (600, 13))),
    ]  # fmt: skip
    for at_ms, removed, more in ((99, 100, 2), (100, 300, 1), (299, 300, 1), (499, 500, 0)):
        (row,) = rows_of(tmp_path / str(at_ms), T0 + at_ms, *appends).values()
        assert row["removed_at"] == T0 + removed
        assert (f", and {more} more times" in row["note"]) == bool(more)
    (row,) = rows_of(tmp_path / "last", T0 + 500, *appends).values()
    assert (row["removed_at"], row["removal"], row["note"]) == (None, None, None)


@pytest.mark.parametrize("first", [0, T0])
def test_a_commit_that_had_gone_back_names_from_where_and_when(first, tmp_path):
    appends = [commit(first - 1, {0: 10, 1: 10, 2: 10}), commit(first, {0: 9, 1: 10, 2: 11})]
    rows = rows_of(tmp_path, first, *appends, commit(first + 5, {0: 2, 1: 2, 2: 2}))
    rewound = [(row["rewound_from"], row["rewound_at"]) for row in rows.values()]
    assert rewound == [(10, first), (None, None), (None, None)]


def head(**fields):
    empty = {"type": "classic", "state": "Empty", "protocol_type": "consumer"}
    return empty | {"current_state_timestamp": 5_000, "subscribed_topics": None} | fields


@pytest.mark.parametrize(
    ("group", "expires_at"),
    [
        (head(), 6_001),
        (head(current_state_timestamp=0), 1_001),
        (head(type="consumer"), None),
        (head(state="Stable"), None),
        (head(current_state_timestamp=None), None),
        (head(protocol_type=None), None),
    ],
)
def test_a_restored_offset_expires_with_its_empty_group(group, expires_at):
    parameters = undo.Parameters(0, 1_001)
    assert undo.expires_at_ms(group, "t", parameters, pending=False) == expires_at
    assert undo.expires_at_ms(group, "t", parameters, pending=True) is None


def test_what_is_restored_expires_as_its_group_stands_at_the_end(tmp_path):
    """`g` is empty; `s` never had members; `x` lost its only offset; `m` has a member."""
    rows = rows_of(
        tmp_path,
        T0,
        *(commit(T0, {0: 10}, group) for group in (b"g", b"s", b"x", b"m")),
        life(T0 + 30, 1, state_ms=T0 + 20),
        commit(T0 + 40, {1: 5}),
        commit(T0 + 50, {0: None}, b"x"),
        life(T0 + 60, 1, member("m"), group=b"m", state_ms=T0 + 60),
        retention_ms=1_000,
    )
    assert {key: (row["change"], row["state"], row["expires_at"]) for key, row in rows.items()} == {
        ("g", "t", 0): ("same", "Empty", T0 + 1_020),
        ("g", "t", 1): ("new", "Empty", None),  # nothing to restore
        ("m", "t", 0): ("same", "Stable", None),
        ("s", "t", 0): ("same", "Empty", None),  # since its next commit
        ("x", "t", 0): ("deleted", None, None),
    }
    assert [key[0] for key in rows] == ["g", "g", "m", "s", "x"]


@pytest.mark.parametrize(("first", "expires_at"), [([], T0 + 1_020), ([EPOCH], None)])
def test_what_a_transaction_holds_does_not_expire_in_a_log_of_4x(tmp_path, first, expires_at):
    """As OffsetMetadataManager.cleanupExpiredOffsets, for groups of any type."""
    appends = [*first, commit(T0, {0: 10, 1: 20}), life(T0 + 30, 1, state_ms=T0 + 20)]
    folder = written(tmp_path, *appends)
    end = 2 + len(appends) - 1
    pending = batch(end, commit(T0 + 40, {0: 11}), producer_id=7, transactional=True)
    (log,) = folder.glob("*/*.log")
    log.write_bytes(log.read_bytes() + pending)
    (view,) = read_partitions([folder])
    rows = undo.rows(view, undo.Parameters(T0, retention_ms=1_000))
    assert [row["expires_at"] for row in rows] == [expires_at, T0 + 1_020]


def test_what_a_group_committed_last_before_since_is_left_out(tmp_path):
    """The log offsets are below the times, as they always are."""
    appends = commit(T0, {0: 10, 1: 20, 2: 30}), commit(T0 + 500, {1: 21}), commit(T0 + 900, {3: 7})
    (view,) = read_partitions([written(tmp_path, *appends)], since_ms=T0 + 500)
    rows = undo.rows(view, undo.Parameters(T0 + 100))
    assert [(row["partition"], row["change"]) for row in rows] == [(1, "moved"), (3, "new")]


@pytest.mark.parametrize(
    ("offset", "latest", "is_whole", "change", "difference"),
    [
        (None, 5, True, "new", None),
        (None, 5, False, "unknown", None),
        (5, None, True, "deleted", None),
        (5, None, False, "deleted", None),
        (5, 5, False, "same", 0),
        (5, 8, True, "moved", -3),
        (0, 8, True, "moved", -8),
    ],
)
def test_a_change_is_named_by_both_offsets(offset, latest, is_whole, change, difference):
    assert undo.change_of(offset, latest, is_whole) == change
    assert undo.difference(offset, latest) == difference


@pytest.mark.parametrize(
    ("since_ms", "begin", "is_since"),
    [(None, None, True), (70, None, True), (71, None, False), (71, 40, True), (71, 41, False)],
)
def test_a_commit_is_since_a_time_by_its_time_or_by_its_place(since_ms, begin, is_since):
    begin = begin and SimpleNamespace(next_offset=begin)
    view = SimpleNamespace(since_ms=since_ms, since_begin=begin)
    assert undo.is_since(view, 70, 40) == is_since


def test_an_offset_of_before_the_log_is_complete_may_have_been_lost(tmp_path):
    """The second segment begins beyond the end of the first: the log was compacted before 200."""
    place = tmp_path / "__consumer_offsets-0"
    written(tmp_path, commit(100, {0: 1}))
    written(tmp_path / "b", commit(200, {0: 2}), commit(300, {1: 3}), first_offset=2)
    later = next((tmp_path / "b").rglob("*.log"))
    (place / later.name).write_bytes(later.read_bytes())
    (view,) = read_partitions([place])
    assert view.trusted_from_ms == 200
    for at_ms, change in ((199, "unknown"), (200, "new"), (201, "new")):
        *_, row = undo.rows(view, undo.Parameters(at_ms))
        assert (row["partition"], row["change"]) == (1, change)


def test_the_offset_by_record_times_is_told_where_it_differs():
    key = "g", "t", 0
    cases = [(5, None, None), (5, {key: 5}, None), (5, {key: 6}, 6), (5, {}, -1), (None, {}, None)]
    for offset, by_times, other in cases:
        assert undo.other_offset(key, offset, by_times) == other
