"""What a view of a partition selects, knows of its times, and hands on to other views."""

from types import SimpleNamespace

import numpy as np
import pytest

from coterie.insight.answering import answer
from coterie.insight.groups.members_at import members_at, owners_at
from coterie.insight.groups.shared_group_ids import newer_subscribers
from coterie.insight.groups.topic_names import topic_names
from coterie.insight.question_engine import QuestionRequest, missing_groups
from coterie.insight.questions import expire, metrics
from coterie.insight.records.group_log import GroupRecord, GroupRecords
from coterie.insight.records.group_replay import GroupReplay
from coterie.insight.records.partition_view import PartitionView, RecordFilter, log_of
from coterie.insight.records.record_columns import is_early
from coterie.log.clock import Begin
from coterie.log.folders import find_segments
from coterie.messages import encode_key, encode_value
from coterie.state.partial import Tracking
from coterie.state.replay_engine import Silent
from support.insight.lives import commit, life, member, written

T0 = 1_795_000_000_123
SINCE_MS, AT_MS = T0 + 2_000, T0 + 7_000


def view_of(folder, **options):
    ((number, segments),) = find_segments([folder]).partitions().items()
    return PartitionView(number, segments, **options)


@pytest.fixture
def five(tmp_path):
    """Commits of groups in no order, at 0, 3, 5, 9 and 4 s; what was before offset 20 is gone."""
    steps = ((0, b"c"), (3_000, b"a"), (5_000, b"\xef\xbf\xbf"), (9_000, b"b"), (4_000, b"a"))
    commits = [commit(T0 + ms, {0: ms}, group) for ms, group in steps]
    return written(tmp_path, *commits, first_offset=20)


# ---- times


@pytest.mark.parametrize(
    ("at_ms", "log_offset", "is_requested"),
    [
        (None, None, True),
        (SINCE_MS - 1, None, False),
        (SINCE_MS, None, True),
        (AT_MS, None, True),
        (AT_MS + 1, None, False),
        # A record before the begin is too early, and one behind the next offset is not, whatever
        # their times; between them the times decide.
        (SINCE_MS, 39, False),
        (SINCE_MS, 40, True),
        (SINCE_MS - 1, 40, False),
        (SINCE_MS - 1, 44, False),
        (AT_MS + 1, 44, False),
        (SINCE_MS - 1, 45, True),
        (None, 39, True),
    ],
)
def test_the_requested_time_is_a_place_in_the_log_where_that_is_known(
    at_ms, log_offset, is_requested
):
    view = PartitionView(0, (), since_ms=SINCE_MS, at_ms=AT_MS)
    view.__dict__["since_begin"] = Begin(40, 45, SINCE_MS, 1)
    assert view.is_requested(at_ms, log_offset) is is_requested


@pytest.mark.parametrize(("since_ms", "at_ms"), [(None, None), (SINCE_MS, None), (None, AT_MS)])
def test_without_a_bound_every_time_on_its_side_is_requested(since_ms, at_ms):
    view = PartitionView(0, (), since_ms=since_ms, at_ms=at_ms)
    assert view.is_requested(SINCE_MS - 1) is (since_ms is None)
    assert view.is_requested(AT_MS + 1) is (at_ms is None)
    assert view.is_requested(SINCE_MS)
    assert view.is_requested(AT_MS)


def test_records_before_the_begin_are_early_and_until_the_next_offset_by_their_times():
    records = SimpleNamespace(
        log_offset=np.array([39, 40, 40, 44, 44, 45]),
        timestamp=np.array([T0 + 9, T0 + 4, T0 + 5, T0 + 4, -1, T0 + 4]),
    )
    early = is_early(records, T0 + 5, Begin(40, 45, T0 + 5, 1))
    assert early.tolist() == [True, True, False, True, False, False]
    assert is_early(records, T0 + 5, None).tolist() == [False, True, False, True, False, True]
    assert not is_early(records, None, None).any()


@pytest.mark.parametrize(
    ("since_ms", "complete_ms", "is_at_begin"),
    [
        (None, AT_MS, False),
        (AT_MS - 1, AT_MS, False),
        (AT_MS, AT_MS, True),
        (AT_MS + 1, AT_MS + 1, True),
    ],
)
def test_a_time_is_complete_if_it_is_requested_and_compaction_took_nothing(
    since_ms, complete_ms, is_at_begin
):
    view = PartitionView(0, (), since_ms=since_ms)
    begin = Begin(40, 45, since_ms, 1)
    view.__dict__ |= {"trusted_from_ms": AT_MS, "since_begin": begin}
    assert view.complete_from_ms == complete_ms
    assert view.complete_begin == (begin if is_at_begin else None)
    times = (None, AT_MS - 1, AT_MS, AT_MS + 1)
    assert list(map(view.is_complete_at, times)) == [True, False, True, True]


def test_a_log_from_its_start_is_complete_since_then():
    view = PartitionView(0, ())
    assert (view.complete_from_ms, view.newest_ms) == (None, -1)
    assert view.is_complete_at(0)
    view = PartitionView(0, (), since_ms=SINCE_MS)
    assert view.complete_from_ms == SINCE_MS


def test_the_newest_time_is_that_of_any_record_and_groups_stand_in_javas_order(five):
    view = view_of(five, groups=frozenset({"a"}))
    assert view.newest_ms == T0 + 9_000
    assert view.group_ids == ["a"]
    assert view_of(five).group_ids == ["a", "b", "c", "\uffff"]


# ---- other views


def test_another_view_of_the_partition_has_its_log_and_requested_time(five):
    view = view_of(five, groups=frozenset({"a"}), at_ms=AT_MS, since_ms=SINCE_MS)
    whole = view.whole()
    assert (whole.groups, whole.at_ms, whole.since_ms) == (None, AT_MS, SINCE_MS)
    assert (whole.number, whole.segments) == (view.number, view.segments)
    assert whole.group_ids == ["a", "c", "\uffff"]  # `b` came later
    assert view.whole() is whole
    assert whole.whole() is whole
    later = view.of(RecordFilter(frozenset({"b"}), None))
    assert (later.groups, later.at_ms) == (frozenset({"b"}), None)
    assert view.of(view.record_filter) is view


def test_a_filter_makes_a_fold_of_its_groups_time_and_tracks():
    options = RecordFilter(frozenset("g"), AT_MS).options
    assert (options.groups, options.at_ms, options.tracking) == (frozenset("g"), AT_MS, None)


def test_a_log_with_tracks_serves_for_one_without():
    plain, tracked, other = "plain", "tracked", "other"
    key = RecordFilter(None, AT_MS)
    with_tracks = key._replace(tracking="tracks")
    logs = {RecordFilter(None, None): other, with_tracks: tracked}
    assert log_of(key, logs) == tracked
    assert log_of(key, logs | {key: plain}) == plain
    assert log_of(key._replace(groups=frozenset()), logs) is None


def test_a_view_is_tracked_if_a_log_of_its_own_records_was_folded_with_tracks():
    view = PartitionView(0, (), at_ms=AT_MS)
    own, of_others = view.record_filter, RecordFilter(frozenset("g"), AT_MS)
    for filters, is_tracked in (
        ([], False),
        ([own, of_others], False),
        ([own, of_others._replace(tracking=Tracking(5))], False),
        ([own, of_others, own._replace(tracking=Tracking(5))], True),
    ):
        view.logs = dict.fromkeys(filters)
        assert view.is_tracked is is_tracked


def test_what_metrics_count_since_is_known_before_the_log_is_read(five):
    def read(segment):
        pytest.fail(f"{segment.name} is read")

    view = view_of(five, since_ms=SINCE_MS, read=read)
    tracked = view.record_filter._replace(tracking=Tracking(SINCE_MS))
    assert metrics.states(view, metrics.Parameters()) == (tracked,)


# ---- members as of a record


def test_members_are_those_of_the_last_record_up_to_an_offset(tmp_path):
    lives = [
        life(T0, 1, member("a", held={"t": [0, 1]})),
        life(T0 + 1, 2, member("a", held={"t": [1]}), member("b", held={"t": [0], "u": [1]})),
        life(T0 + 2, None),
    ]
    view = view_of(written(tmp_path, *lives, first_offset=10))

    def owners(log_offset, *places):
        return [one["member_id"] for one in owners_at(view, "g", log_offset, places)]

    assert [owners(at, ("t", 0)) for at in (9, 10, 11, 12)] == [[], ["a"], ["b"], []]
    assert owners(11, ("t", 0), ("t", 1)) == ["a", "b"]
    assert owners(11, ("u", 0)) == owners(11) == []
    assert list(members_at(view, "other", 11)) == []


def newer(version, data=None, member_id=None, number=0):
    key = {"groupId": "g"} | ({} if member_id is None else {"memberId": member_id})
    value = None if data is None else encode_value(version, {"version": number, "data": data})
    return encode_key({"version": version, "data": key}), value


IDS = ["AAAAAAAAAAAAAAAAAAAAEQ", "AAAAAAAAAAAAAAAAAAAAEg"]
MEMBER = {
    "instanceId": None, "rackId": None, "clientId": "c", "clientHost": "/h",
    "subscribedTopicNames": ["t"], "subscribedTopicRegex": "", "rebalanceTimeoutMs": 9_000,
    "serverAssignor": None, "classicMemberMetadata": None,
}  # fmt: skip


def current(*held, epoch=1):
    assigned = [{"topicId": topic, "partitions": numbers} for topic, numbers in held]
    return {"memberEpoch": epoch, "previousMemberEpoch": 0, "state": 0,
            "assignedPartitions": assigned, "partitionsPendingRevocation": []}  # fmt: skip


def test_a_member_of_a_consumer_group_that_left_is_no_subscriber_any_more():
    data = [MEMBER | {"clientId": "a"}, None, MEMBER | {"clientId": "b"}]
    records = [
        GroupRecord("g", 70 + at, T0, 5, *newer(5, value, "ab"[at // 2]), "f", 0)
        for at, value in enumerate(data)
    ]
    found = [
        (row["log_offset"], before and before["log_offset"], [one.client_id for one in those])
        for row, before, those in newer_subscribers(records)
    ]
    assert found == [(70, None, ["a"]), (72, 71, ["b"])]


def test_members_of_a_consumer_group_have_topics_by_name_where_the_log_knows_it(tmp_path):
    target = {"topicPartitions": [{"topicId": IDS[0], "partitions": [4, 5]}]}
    records = [
        newer(5, MEMBER, "a"), newer(3, {"epoch": 1, "metadataHash": 7}), newer(7, target, "a"),
        newer(8, current((IDS[0], [4]), (IDS[1], [2])), "a"),
        newer(8, current((IDS[0], [5])), "a"),
    ]  # fmt: skip
    view = view_of(written(tmp_path, *([(T0, *one)] for one in records), first_offset=10))
    assert topic_names(view) == {IDS[0]: "t"}
    owned = [
        [(one["member_id"], dict(topics)) for one, topics in members_at(view, "g", at)]
        for at in (9, 12, 13, 14)
    ]
    assert owned == [
        [], [("a", {})], [("a", {"t": [4], IDS[1]: [2]})], [("a", {"t": [5]})],
    ]  # fmt: skip
    assert owners_at(view, "g", 13, [("t", 5)]) == []
    assert [one["client_id"] for one in owners_at(view, "g", 14, [("t", 5)])] == ["c"]


@pytest.mark.parametrize("version", [3, 11, 17])  # of a consumer, share and streams group
def test_nothing_of_a_group_outlives_its_deletion(version):
    epochs = {
        3: ({"epoch": 6, "metadataHash": 77}, 0), 11: ({"epoch": 6, "metadataHash": 77}, 0),
        17: ({"epoch": 6, "metadataHash": 77, "validatedTopologyEpoch": -1}, 0),
    }  # fmt: skip
    group = GroupReplay()
    assert group.epoch(version) == (0, 0)  # it has no epoch yet

    def take(data, offset):
        key, value = newer(version, data)
        assert group.take(GroupRecord("g", offset, T0, version, key, value, "f", 0)) is None

    take(epochs[version][0], 1)
    assert group.epoch(version) == (6, 77)
    take(None, 2)
    assert group.epoch(version) == (0, 0)


def test_members_of_a_deleted_consumer_group_are_not_in_the_next_one():
    group = GroupReplay()
    key, value = newer(5, MEMBER, "a")
    member_record = GroupRecord("g", 1, T0, 5, key, value, "f", 0)
    assert group.take(member_record) == "a"
    assert group.member(5, "a")["client_id"] == "c"
    assert group.member(5, "b") is None
    group.take(GroupRecord("g", 2, T0, 3, *newer(3, {"epoch": 1, "metadataHash": 0}), "f", 0))
    group.take(GroupRecord("g", 3, T0, 3, *newer(3), "f", 0))
    assert group.member(5, "a") is None


# ---- records of groups


def test_records_of_groups_come_back_as_they_were_also_empty_ones():
    records = [
        GroupRecord("a", 1, T0, 2, b"key", b"value", "f", 3),
        GroupRecord("b", 2, -1, 5, b"k", None, "f", 8),
        GroupRecord("a", 3, 0, 2, b"other", b"", "g", 0),
        GroupRecord("c", 4, T0 + 5, 2, b"", b"x" * 300, "g", 7),
    ]
    whole = GroupRecords(records)
    assert list(whole) == records
    assert [one.time_ms for one in whole] == [T0, None, 0, T0 + 5]
    assert whole[1:3] == records[1:3]
    assert whole[-1] == records[-1]
    assert {group: list(some) for group, some in whole.by_group().items()} == {
        "a": [records[0], records[2]], "b": [records[1]], "c": [records[3]],
    }  # fmt: skip
    assert list(whole.by_group()) == ["a", "b", "c"]


def test_a_record_of_a_group_is_appended_behind_the_others_whatever_was_read_last():
    first, *others = (GroupRecord("g", at, T0, 2, b"key", b"v%d" % at, "f", 0) for at in range(3))
    records = GroupRecords([first])
    for at, other in enumerate(others):
        assert records[0] == first
        records.append(other)
        assert list(records) == [first, *others[: at + 1]]


# ---- answers


def test_an_answer_has_what_is_known_of_the_partition_beside_its_rows(tmp_path, five):
    request = QuestionRequest("metrics", metrics.Parameters(), (str(five),), frozenset({"a", "x"}))
    (found,) = answer(request, Silent())
    assert (found.number, found.present_groups, found.faults) == (0, {"a"}, 0)
    assert (found.trusted_from_ms, found.newest_ms) == (T0, T0 + 9_000)
    assert {row["trusted_from"] for row in found.rows} == {found.trusted_from_ms}
    assert [step.log_offset for step in found.clock_steps] == [24]
    (whole,) = answer(QuestionRequest("metrics", metrics.Parameters(), (str(five),)), Silent())
    assert whole.present_groups == {"a", "b", "c", "\uffff"}
    assert (whole.cut, whole.begin) == (None, None)
    (until,) = answer(
        QuestionRequest("metrics", metrics.Parameters(), (str(five),), None, T0 + 8_999, SINCE_MS),
        Silent(),
    )
    assert {row["group_id"] for row in until.rows} == {"a", "c", "\uffff"}
    # The records of the first later batch go by their own times, so the log ends behind it.
    assert (until.cut.log_offset, until.begin.log_offset) == (24, 21)


def test_without_a_time_what_expires_is_as_of_the_newest_record_of_any_partition(tmp_path):
    for number, at_ms in ((0, T0), (1, T0 + 90_000), (2, T0 + 5)):
        written(tmp_path, commit(at_ms, {0: 1}, group=b"g%d" % number), number=number)
    parameters = expire.Parameters(None, retention_ms=1_000)
    rows = [
        row
        for one in answer(QuestionRequest("expire", parameters, (str(tmp_path),)), Silent())
        for row in one.rows
    ]
    assert [row["remaining_ms"] for row in rows] == [1_000 - 90_000, 1_000, 1_005 - 90_000]
    parameters = expire.Parameters(T0 + 50, retention_ms=1_000)
    rows = [
        row
        for one in answer(QuestionRequest("expire", parameters, (str(tmp_path),)), Silent())
        for row in one.rows
    ]
    assert [row["remaining_ms"] for row in rows] == [950, 90_950, 955]


def test_groups_without_a_record_are_named_in_order_with_the_time_of_the_request():
    names = frozenset("gfedcba")
    assert missing_groups(names, names) is None
    assert missing_groups(None, frozenset()) is None
    text = "the log has no record of {}; `coterie groups --list` names those it has"
    error = missing_groups(names, frozenset("c"))
    assert str(error) == text.format("groups 'a', 'b', 'd', 'e', 'f', 'g'")
    error = missing_groups(frozenset("ab"), frozenset("b"), 5, 7)
    gone = "compacted: what was before 1970-01-01T00:00:00.007Z may be gone"
    assert str(error) == text.format(f"group 'a' up to 1970-01-01T00:00:00.005Z ({gone})")
