"""Rows of the timeline of a newer group, field by field, and what else its records show."""

import pytest

from coterie.insight.groups import epochs
from coterie.insight.groups.protocol_switches import epochs_of, joined_rows
from coterie.insight.questions import metrics
from coterie.insight.records.partition_view import read_partitions
from coterie.messages import encode_key, encode_value
from support.insight.lives import life, member, written

T0 = 1_795_000_000_123
TOPIC = "AAAAAAAAAAAAAAAAAAAAEQ"
WHOLE = {
    "instanceId": None, "rackId": None, "clientId": "c", "clientHost": "/h",
    "subscribedTopicNames": ["t"], "subscribedTopicRegex": "", "rebalanceTimeoutMs": 9_000,
    "serverAssignor": None, "classicMemberMetadata": None,
}  # fmt: skip


def record(at_ms, version, data=None, member_id=None, number=0):
    key = {"groupId": "g"} | ({} if member_id is None else {"memberId": member_id})
    value = None if data is None else encode_value(version, {"version": number, "data": data})
    return T0 + at_ms, encode_key({"version": version, "data": key}), value


def subscribes(at_ms, member_id, **fields):
    return record(at_ms, 5, WHOLE | {"clientId": f"c-{member_id}"} | fields, member_id)


def epoch(at_ms, number):
    return record(at_ms, 3, {"epoch": number, "metadataHash": 0})


def computed(at_ms, number):
    return record(at_ms, 6, {"assignmentEpoch": number, "assignmentTimestamp": 0})


def target(at_ms, member_id, *numbers):
    return record(
        at_ms, 7, {"topicPartitions": [{"topicId": TOPIC, "partitions": numbers}]}, member_id
    )


def current(at_ms, member_id, number, held=(), pending=(), state=0):
    topics = [
        [{"topicId": TOPIC, "partitions": list(some)}] if some else [] for some in (held, pending)
    ]
    data = {"memberEpoch": number, "previousMemberEpoch": 0, "state": state,
            "assignedPartitions": topics[0], "partitionsPendingRevocation": topics[1]}  # fmt: skip
    return record(at_ms, 8, data, member_id)


def removed(at_ms, member_id):
    return [record(at_ms, version, None, member_id) for version in (8, 7, 5)]


def timeline_of(folder, *appends):
    """The timeline of the group's epochs; each of ``appends`` is a record or a batch."""
    (view,) = read_partitions([written(folder, *appends, first_offset=40)])
    return epochs.epoch_timeline(view.newer_by_group["g"])


def plain(row):
    return {name: value for name, value in row.items() if name not in ("causes", "file")}


def test_each_change_without_an_epoch_is_a_row_of_its_request_at_its_own_time(tmp_path):
    """Two members change in one batch, a third behind them; then an epoch that is not theirs."""
    joined = [[subscribes(n, name), epoch(n, n + 1)] for n, name in enumerate("abc")]
    rows = timeline_of(
        tmp_path, *joined,
        [subscribes(10, "b", rackId="r"), subscribes(11, "a", clientHost="/x")],
        subscribes(12, "c", serverAssignor="range"),
        [subscribes(20, "d"), epoch(20, 4)],
    ).rows  # fmt: skip
    rows.sort(key=lambda row: row["log_offset"])
    assert [row["event"] for row in rows] == [*["epoch"] * 3, *["member_changed"] * 3, "epoch"]
    common = {"generation": 3, "previous_generation": 3, "member_count": 3, "protocol": "consumer"}
    positions = [row["position"] for row in rows]
    texts = "c-b (h) changed: rack none to r", "c-a (x) changed: host /h to /x"
    texts += ("c-c (h) changed: assignor none to range",)
    assert [plain(row) for row in rows[3:6]] == [
        {"event": "member_changed", "timestamp": T0 + 10 + at, "log_offset": 46 + at, **common,
         "cause": text, "position": positions[3] if at < 2 else positions[5]}
        for at, text in enumerate(texts)
    ]  # fmt: skip
    assert len(set(positions)) == 6  # of six batches
    last = plain(rows[6])
    assert {name: last.pop(name) for name in ("target_at",) if name in last} == {}
    assert last == {
        "event": "epoch", "timestamp": T0 + 20, "log_offset": 50, "generation": 4,
        "previous_generation": 3, "member_count": 4, "protocol": "consumer",
        "cause": "c-d (h) joined", "position": positions[6], "unreconciled": 4,
        "last_members": [
            {"member_id": name, "client_id": f"c-{name}", "client_host": host,
             "group_instance_id": None}
            for name, host in (("b", "/h"), ("a", "/x"), ("c", "/h"), ("d", "/h"))
        ],
    }  # fmt: skip
    assert {row["file"].rpartition("/")[2] for row in rows} == {f"{40:020}.log"}


def test_a_row_of_two_changes_has_the_members_and_the_record_of_the_first(tmp_path):
    again = [subscribes(10, "a", rackId="r"), record(10, 8, None, "x")]
    again += [subscribes(11, "a", rackId="s")]
    timeline = timeline_of(tmp_path, [subscribes(0, "a"), epoch(0, 1)], again)
    row = timeline.rows[-1]
    assert (row["event"], row["timestamp"], row["log_offset"]) == ("member_changed", T0 + 10, 42)
    assert [one["detail"] for one in row["causes"]] == ["rack none to r", "rack r to s"]


def test_a_deletion_is_a_row_of_what_was_there(tmp_path):
    timeline = timeline_of(
        tmp_path, [subscribes(0, "a"), epoch(0, 6)], [*removed(9, "a"), record(9, 3)]
    )
    assert plain(timeline.rows[-1]) == {
        "event": "deleted", "timestamp": T0 + 9, "log_offset": 45, "generation": None,
        "previous_generation": 6, "member_count": None, "protocol": "consumer",
        "cause": "the group was deleted, or changed its protocol",
        "position": timeline.rows[-1]["position"],
    }  # fmt: skip


def test_a_static_leave_is_a_row_that_ends_when_the_member_goes_for_good(tmp_path):
    joined = [subscribes(0, "a", instanceId="i"), epoch(0, 1), current(0, "a", 1)]
    for goes, until in (([], None), ([removed(30, "a")], T0 + 30)):
        timeline = timeline_of(tmp_path / str(until), joined, [current(20, "a", -2)], *goes)
        (row,) = (row for row in timeline.rows if row["event"] == "static_leave")
        assert (row["timestamp"], row.get("until")) == (T0 + 20, until)
        assert (row["generation"], row["previous_generation"], row["member_count"]) == (1, 1, 1)
        assert row["cause"] == "static i left for now"


def test_times_without_an_owner_add_up_in_their_epoch_and_need_a_member(tmp_path):
    owns = [subscribes(0, "a"), subscribes(0, "b"), epoch(0, 1)]
    timeline = timeline_of(
        tmp_path, owns, current(1, "a", 1, [0, 1, 2]), current(2, "b", 1, [3]),
        current(100, "a", 1, [0, 1]),  # 2 is free
        current(130, "b", 1, [2, 3]),
        current(200, "a", 1, [0]),  # 1 is free
        current(240, "b", 1, [1, 2, 3]),
        current(300, "a", 1), epoch(310, 2), current(400, "b", 2, [0, 1, 2, 3]),
        removed(500, "a"), removed(600, "b"),  # none is there
        [subscribes(900, "c"), epoch(900, 3)], current(950, "c", 3, [0, 1, 2, 3]),
    )  # fmt: skip
    rows = [row for row in timeline.rows if row["event"] == "epoch"]
    assert [(row["unowned_least_ms"], row["unowned_most_ms"]) for row in rows] == [
        (30 + 40, 30 + 40), (100, 100), (0, 0),
    ]  # fmt: skip


def test_a_member_that_is_gone_has_its_time_and_what_it_still_owned(tmp_path):
    timeline = timeline_of(
        tmp_path, [subscribes(5, "a"), subscribes(6, "b"), epoch(6, 1)], subscribes(70, "b"),
        current(80, "a", 1, [4], [7]), current(81, "b", 1, [5]), removed(90, "b"),
        removed(95, "a"), removed(99, "x"),
    )  # fmt: skip
    assert [
        (one.member["member_id"], one.joined_ms, one.record.timestamp, one.places)
        for one in timeline.gone
    ] == [
        ("b", T0 + 6, T0 + 90, {(TOPIC, 5)}), ("a", T0 + 5, T0 + 95, {(TOPIC, 4), (TOPIC, 7)}),
    ]  # fmt: skip


@pytest.mark.parametrize(("gone_ms", "is_fenced"), [(9_099, False), (9_100, True)])
def test_a_member_that_went_a_rebalance_timeout_after_the_order_may_have_been_fenced(
    tmp_path, gone_ms, is_fenced
):
    timeline = timeline_of(
        tmp_path, [subscribes(0, "a"), epoch(0, 1)], current(100, "a", 1, [0], [1, 2], 1),
        [*removed(gone_ms, "a"), epoch(gone_ms, 2)],
    )  # fmt: skip
    (cause,) = timeline.rows[-1]["causes"]
    text = "perhaps fenced: it did not give up 2 partitions within its rebalance timeout of 9.0 s"
    assert (cause["what"], cause["detail"]) == ("left_or_evicted", text if is_fenced else None)


def test_an_epoch_that_the_next_one_overtakes_names_who_had_not_reached_it(tmp_path):
    """`a` reaches epoch 2, `b` does not before epoch 3; a deletion ends epoch 3."""
    joined = [subscribes(0, "a"), epoch(0, 1), current(0, "a", 1)]
    timeline = timeline_of(
        tmp_path, joined, [subscribes(10, "b"), epoch(10, 2)], current(15, "a", 2),
        [subscribes(20, "c"), epoch(20, 3)], current(25, "b", 3),
        [*removed(30, "a"), *removed(30, "b"), *removed(30, "c"), record(30, 3)],
    )  # fmt: skip
    rows = [row for row in timeline.rows if row["event"] == "epoch"]
    waited_for = [[member["member_id"] for member in row["last_members"]] for row in rows]
    assert waited_for == [["a"], ["b"], ["a", "c"]]
    assert [(row["unreconciled"], row.get("until")) for row in rows] == [
        (0, T0), (1, None), (2, None),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("assignors", "changes"),
    [
        (["range", "uniform"], ["range to uniform"]),
        (["range", "range"], []),
        ([None, "uniform"], []),  # the broker's own before
        (["range", None, "range"], []),
        (["range", "uniform", "range"], ["range to uniform", "uniform to range"]),
    ],
)
def test_another_assignor_belongs_to_the_epoch_whose_target_it_computed(
    tmp_path, assignors, changes
):
    appends = [
        [subscribes(9 * at, "a", serverAssignor=name), epoch(9 * at, at + 1),
         computed(9 * at + 1, at + 1)]
        for at, name in enumerate(assignors)
    ]  # fmt: skip
    rows = [row for row in timeline_of(tmp_path, *appends).rows if row["event"] == "epoch"]
    assert [row["target_at"] for row in rows] == [T0 + 9 * at + 1 for at in range(len(assignors))]
    causes = [
        [one["detail"] for one in row["causes"] if one["what"] == "assignor_changed"]
        for row in rows
    ]
    assert [detail for details in causes for detail in details] == changes
    assert causes[0] == []
    for row, details in zip(rows, causes, strict=True):
        assert ("assignor changed" in row["cause"]) == bool(details)


@pytest.mark.parametrize(
    ("name", "before", "now", "text"),
    [
        ("user_endpoint", None, {"host": "h", "port": 9}, "endpoint none to h:9"),
        ("client_tags", {}, {"zone": "a", "rack": "b"}, "client tags none to zone=a,rack=b"),
        ("topology_epoch", 0, 1, "topology epoch 0 to 1"),
        ("process_id", "", "p", "process id none to p"),
        ("rebalance_timeout_ms", 9, None, "rebalance timeout 9 to none"),
        ("client_id", "x", "y", "client id x to y"),
        ("group_instance_id", None, "i", "instance id none to i"),
    ],
)
def test_a_changed_field_of_a_member_is_named_with_both_values(name, before, now, text):
    (cause,) = epochs._changes("m", {"same": 1, name: before}, {"same": 1, name: now})
    assert (cause["what"], cause["member_id"], cause["detail"]) == ("member_changed", "m", text)


def test_topics_and_expressions_that_a_member_reads_from_now_on_are_named_in_order():
    before = {"subscribed_topics": [*"bahgx"], "subscribed_regex": "o.*", "rack_id": "r"}
    now = {"subscribed_topics": [*"xdcfe"], "subscribed_regex": None, "rack_id": "r"}
    (cause,) = epochs._changes("m", before, now)
    assert cause["what"] == "subscription_changed"
    assert cause["detail"] == "+c +d +e +f -a -b -g -h regex o.* to none"
    assert list(epochs._changes("m", {"subscribed_topics": None}, {})) == []


def test_metrics_count_the_epochs_and_generations_of_a_group_that_changed_its_protocol(tmp_path):
    classic = [life(T0, 1, member("m")), life(T0 + 1, 2, member("m"), member("n"))]
    up = [life(T0 + 9, None), subscribes(9, "m"), subscribes(9, "n"), epoch(9, 2)]
    more = [subscribes(20, "o"), epoch(20, 3)]
    (view,) = read_partitions([written(tmp_path, *classic, up, more)])
    (row,) = metrics.rows(view, metrics.Parameters())
    assert row["rebalances"] == 3  # two generations, one epoch; the change is none
    history, records = view.histories["g"], view.newer_by_group["g"]
    rows = joined_rows(history, *epochs_of(history, records))
    assert [plain(one) for one in rows][2] == {
        "event": "upgraded", "timestamp": T0 + 9, "log_offset": 2, "generation": 2,
        "previous_generation": 2, "member_count": 2, "protocol": "consumer", "leader": None,
        "cause": "upgraded: classic (range) to consumer; c (h), c (h) carried on",
        "position": rows[2]["position"],
    }  # fmt: skip
    assert [(one["event"], one["log_offset"]) for one in rows] == [
        ("generation", 0), ("generation", 1), ("upgraded", 2), ("epoch", 7),
    ]  # fmt: skip


def test_the_target_of_a_share_group_shows_no_change_of_a_consumer_groups_assignor(tmp_path):
    """The end of the consumer group is lost; its last member's vote is not of the share group."""
    share = {"rackId": None, "clientId": "s", "clientHost": "/h", "subscribedTopicNames": ["t"]}
    rows = timeline_of(
        tmp_path,
        [subscribes(0, "a", serverAssignor="range"), epoch(0, 1), computed(0, 1)],
        subscribes(1, "a", serverAssignor="uniform"),
        [record(2, 10, share, "s"), record(2, 11, {"epoch": 1, "metadataHash": 0}),
         record(2, 12, {"assignmentEpoch": 1})],
    ).rows  # fmt: skip
    (of_share,) = [row for row in rows if row["timestamp"] == T0 + 2]
    assert "assignor_changed" not in {cause["what"] for cause in of_share["causes"]}
