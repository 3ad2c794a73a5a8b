"""Rows of the views, from hand-made groups: order, epochs, unknown values."""

import pytest

from coterie.views import groups as views
from coterie.views import tabular

ASTRAL, LAST = "\U00010000", "\uffff"  # Java: the first of D800 DC00 stands before FFFF


def member(member_id, topic_ids=(), **fields):
    row = {"member_id": member_id, "group_instance_id": None, "client_host": "/h"}
    row |= {"client_id": "c", "member_epoch": 1, "upgraded": True, "target_assignment": []}
    row |= {"member_state": "stable", "pending_revocation": []}
    assigned = [
        {"topic_id": topic, "topic": topic, "partitions": list(n)} for topic, n in topic_ids
    ]
    return row | {"current_assignment": assigned} | fields


def offset(topic, partition, **fields):
    return {"topic": topic, "partition": partition, "offset": 5, "leader_epoch": -1} | fields


def group(kind="consumer", **fields):
    row = {"group_id": "g", "type": kind, "state": "Stable", "protocol_type": "consumer"}
    row |= {"protocol": "uniform", "group_epoch": 9, "target_assignment_epoch": 8}
    return row | {"members": [], "offsets": []} | fields


def places(rows):
    return [(row["topic"], row["partition"]) for row in rows]


@pytest.mark.parametrize(("epoch", "shown"), [(-1, None), (0, 0), (1, 1)])
def test_a_leader_epoch_is_shown_from_0_on(epoch, shown):
    (row,) = views.offset_rows(group(offsets=[offset("t", 0, leader_epoch=epoch)]))
    assert row["leader_epoch"] == shown


def test_what_is_held_stands_by_topic_as_java_sorts_and_partition_then_what_is_not():
    assigned = [(LAST, [2, 10, 1]), (ASTRAL, [0])]
    left = [offset(LAST, 7), offset(ASTRAL, 8), offset(ASTRAL, 3)]
    rows = views.offset_rows(group(members=[member("m", assigned)], offsets=left))
    assert places(rows) == [
        *((ASTRAL, 0), (LAST, 1), (LAST, 2), (LAST, 10)),
        *((ASTRAL, 3), (ASTRAL, 8), (LAST, 7)),
    ]


def test_members_with_as_many_partitions_stand_by_id_as_java_sorts():
    members = [member(LAST, [("t", [1])]), member(ASTRAL, [("t", [2])])]
    rows = views.offset_rows(group(members=members))
    assert [row["consumer_id"] for row in rows] == [ASTRAL, LAST]


def test_a_member_that_reconciles_has_another_target_than_it_holds():
    target = [{"topic_id": "t", "topic": "t", "partitions": [3, 1]}]
    (row,) = views.member_rows(group(members=[member("m", [("t", [0])], target_assignment=target)]))
    assert (row["current_assignment"], row["target_assignment"]) == ({"t": [0]}, {"t": [1, 3]})


@pytest.mark.parametrize(
    ("kind", "state", "shown"),
    [
        ("consumer", "Reconciling", "uniform"),
        ("consumer", "Stable", "uniform"),
        ("classic", "CompletingRebalance", None),
        ("classic", "Stable", "uniform"),
    ],
)
def test_the_strategy_of_a_classic_group_alone_is_told_only_while_it_is_stable(kind, state, shown):
    assert views.state_row(group(kind, state=state))["assignment_strategy"] == shown


def test_the_epochs_of_a_share_group_that_assigns_are_two():
    row = views.share_state_row(group("share"))
    assert (row["group_epoch"], row["assignment_epoch"]) == (9, 8)


def test_a_share_group_has_the_partitions_of_its_initialized_topics_as_java_sorts():
    topics = [(LAST, [1, 0]), (ASTRAL, [2]), (LAST, [3])]
    rows = views.share_offset_rows(
        group("share", initialized_topics=[{"topic": t, "partitions": n} for t, n in topics])
    )
    assert places(rows) == [(ASTRAL, 2), (LAST, 1), (LAST, 0), (LAST, 3)]
    assert rows[0] == {
        "group": "g",
        "topic": ASTRAL,
        "partition": 2,
        "leader_epoch": None,
        "start_offset": None,  # in another topic
    }


def test_a_member_of_a_share_group_shows_what_it_has_and_its_own_epoch():
    who = member("m", [("t", [4, 5]), ("u", [0])], member_epoch=7, client_id="c", client_host="/h")
    (row,) = views.share_member_rows(group("share", members=[who]))
    assert row == {
        "group": "g",
        "consumer_id": "m",
        "host": "/h",
        "client_id": "c",
        "partitions": 3,
        "member_epoch": 7,
        "assignment": {"t": [4, 5], "u": [0]},
    }
    (row,) = views.VIEWS["share", "state"](group("share", members=[who, who]))
    assert (row["group"], row["state"], row["members"]) == ("g", "Stable", 2)


def tasks(kind, subtopology, *partitions):
    columns = {name: [] for name in views.TASK_NAMES}
    return columns | {kind: [{"subtopologyId": subtopology, "partitions": list(partitions)}]}


def streams():
    topology = {"epoch": 1, "subtopologies": [{"subtopologyId": "0", "sourceTopics": ["in"]}]}
    now, then = tasks("activeTasks", "0", 1, 0), tasks("standbyTasks", "0", 2)
    who = member("m", current_tasks=now, target_tasks=then, process_id="p")
    committed = [offset("in", 0), offset("other", 4)]
    return group("streams", topology=topology, members=[who], offsets=committed)


def test_a_streams_group_has_the_source_partitions_of_the_tasks_that_run():
    rows = views.streams_offset_rows(streams())
    assert places(rows) == [("in", 0), ("in", 1), ("other", 4)]
    assert [row["current_offset"] for row in rows] == [5, None, 5]


def test_the_tasks_that_a_streams_member_shall_hold_stand_beside_those_it_holds():
    (row,) = views.streams_member_rows(streams())
    assert row["assignments"] == "ACTIVE: 0:[1,0]; "
    assert row["target_assignments"] == "TARGET-STANDBY: 0:[2]; "


@pytest.mark.parametrize(("upgraded", "shown"), [((True, False), 1), ((True, True), 0)])
def test_whether_members_are_upgraded_is_a_column_where_they_differ(upgraded, shown):
    style = tabular.TableStyle("consumer", "members", False, True)
    members = [member(str(number), upgraded=one) for number, one in enumerate(upgraded)]
    found = tabular.columns(style, views.member_rows(group(members=members)))
    assert [column.heading for column in found].count("UPGRADED") == shown


def test_a_column_is_as_wide_as_java_counts_a_name():
    wide = ASTRAL * 9  # 18 UTF-16 units, beyond the least width of 15
    style = tabular.TableStyle("consumer", "offsets", False, False)
    rows = views.offset_rows(group(group_id=wide, offsets=[offset("t", 0)]))
    heading, line = tabular.draw(style, rows).splitlines()[1:]
    assert heading.startswith("GROUP" + " " * 14 + "TOPIC")
    assert line.startswith(wide + " t ")


def test_3_9_lists_partitions_sorted_as_text_and_4_1_as_numbers():
    assigned = {"t": [10, 2, 1]}
    assert tabular.partition_lists(assigned) == "(1,10,2)"
    assert tabular.assignment_text(assigned) == "t:1,2,10"


def test_only_members_of_consumer_groups_can_lack_their_target():
    pending = [{"topic_id": "t", "topic": "t", "partitions": [1]}]
    states = {"member_epoch": 8, "member_state": "unrevoked_partitions"}
    late = member("late", [("t", [0])], pending_revocation=pending, **states)
    waits = member("waits", member_epoch=8, member_state="unreleased_partitions")
    behind, there = member("behind", member_epoch=7), member("there", member_epoch=8)
    whole = group(members=[late, waits, behind, there])
    rows = views.unreconciled_rows(whole)
    assert [(row["consumer_id"], row["pending_revocation"]) for row in rows] == [
        ("late", {"t": [1]}), ("waits", {}), ("behind", {}),
    ]  # fmt: skip
    assert views.unreconciled_rows(whole | {"type": "share"}) == []
