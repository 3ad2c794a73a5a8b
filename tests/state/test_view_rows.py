"""Rows of the views, from hand-made groups: order, epochs, unknown values."""

import struct

import pytest

from coterie.state import group_views as views
from coterie.state import tabular
from support.connect_workers import assignment, state, work

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
    left = [offset(LAST, 7), offset(ASTRAL, 8), offset(ASTRAL, 3), offset("a", 9), offset("a", 5)]
    rows = views.offset_rows(group(members=[member("m", assigned)], offsets=left))
    assert places(rows) == [
        *((ASTRAL, 0), (LAST, 1), (LAST, 2), (LAST, 10)),
        *(("a", 5), ("a", 9), (ASTRAL, 3), (ASTRAL, 8), (LAST, 7)),
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
    heading, line = tabular.draw(style, rows).text.splitlines()[1:]
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


def test_an_offset_of_a_streams_group_has_no_member():
    first, second, _ = views.streams_offset_rows(streams())
    place = {"group": "g", "topic": "in", "leader_epoch": None}
    assert first == place | {
        "partition": 0, "current_offset": 5, "log_end_offset": None, "lag": None,
    }  # fmt: skip
    assert (second["partition"], second["current_offset"]) == (1, None)
    bare = streams() | {"topology": None}
    assert places(views.streams_offset_rows(bare)) == [("in", 0), ("other", 4)]
    (row,) = views.streams_member_rows(bare)
    assert row["topology_epoch"] is None
    (row,) = views.streams_member_rows(streams())
    assert {name: value for name, value in row.items() if "assignments" not in name} == {
        "group": "g", "target_assignment_epoch": 8, "topology_epoch": 1, "member": "m",
        "member_protocol": "streams", "member_epoch": 1, "process": "p", "client_id": "c",
    }  # fmt: skip


def test_a_row_of_an_offset_has_its_owner_or_none():
    who = member("m", [("t", [0])], client_id="c-1", client_host="/10.0.0.1")
    offsets = [offset("t", 0, offset=7, leader_epoch=3), offset("t", 1, offset=9)]
    held, left = views.offset_rows(group(members=[who], offsets=offsets))
    unknown = {"log_end_offset": None, "lag": None}
    assert held == unknown | {
        "group": "g", "topic": "t", "partition": 0, "leader_epoch": 3, "current_offset": 7,
        "consumer_id": "m", "host": "/10.0.0.1", "client_id": "c-1",
    }  # fmt: skip
    assert left == unknown | {
        "group": "g", "topic": "t", "partition": 1, "leader_epoch": None, "current_offset": 9,
        "consumer_id": None, "host": None, "client_id": None,
    }  # fmt: skip


@pytest.mark.parametrize("kind", ["consumer", "streams", "classic"])
def test_the_lag_is_what_is_left_up_to_the_end_and_never_negative(kind):
    """Offset 5 of partitions that end at 5, 9 and 4, or whose end nobody has taken."""
    offsets = [offset("t", number) for number in range(4)]
    one = streams() | {"members": [], "offsets": offsets} if kind == "streams" else group(
        kind, offsets=offsets
    )  # fmt: skip
    rows = views.VIEWS["consumer" if kind == "classic" else kind, "offsets"](one)
    views.with_end_offsets(rows, {("t", 0): 5, ("t", 1): 9, ("t", 2): 4})
    shown = [(row["log_end_offset"], row["lag"]) for row in rows]
    assert shown == [(5, 0), (9, 4), (4, None), (None, None)]


def test_members_stand_by_the_number_of_their_partitions_first():
    members = [member("a", [("t", [1])]), member("b", [("t", [2, 3]), ("u", [0])])]
    rows = views.offset_rows(group(members=[*members, member("c", [("u", [1, 2])])]))
    assert [row["consumer_id"] for row in rows] == ["b", "b", "b", "c", "c", "a"]


def test_what_open_transactions_hold_stands_beside_what_is_committed():
    held = [offset("t", 0, offset=50, commit_timestamp=1_500), offset("u", 2, offset=60,
            commit_timestamp=0)]  # fmt: skip
    producer = {"producer_id": 4000, "offsets": held}
    whole = group(offsets=[offset("t", 0, offset=40)], pending_transactional_offsets=[producer])
    rows = views.open_transaction_rows(whole)
    assert [tuple(row.values()) for row in rows] == [
        ("g", 4000, 1_500, "t", 0, 40, 50),
        ("g", 4000, 0, "u", 2, None, 60),
    ]
    style = tabular.TableStyle("consumer", "offsets", False, False)
    lines = tabular.draw_open_transactions(style, rows).text.splitlines()
    assert [line.split() for line in lines[1:]] == [
        ["g", "4000", "1970-01-01T00:00:01.500Z", "t", "0", "40", "50"],
        ["g", "4000", "1970-01-01T00:00:00.000Z", "u", "2", "-", "60"],
    ]


def worker(member_id, assigned, offset=7):
    return member(member_id) | {"subscription": state(0, offset), "assignment": assigned}


def test_a_worker_of_connect_shows_what_it_runs_and_by_which_configuration():
    delay = struct.pack(">i", 1_500)
    running = assignment(2, work(b=[-1, 10, 2], a=[-1, 0]), work(), offset=6, delay=delay)
    workers = [worker("lead", running), worker("lost", b"\0"), worker("x", running)]
    workers[2]["subscription"] = b"\0"
    whole = group("classic", protocol_type="connect", leader="lead", members=workers)
    first, lost, unread = views.worker_rows(whole)
    assert {name: value for name, value in first.items() if name not in ("host", "group")} == {
        "consumer_id": "lead", "group_instance_id": None, "client_id": "c",
        "partitions": first["partitions"], "url": "http://w/", "leader": True,
        "config_offset": 7, "assigned_config_offset": 6, "delay_ms": 1_500, "error": 0,
        "connectors": ["a", "b"], "tasks": {"a": [0], "b": [2, 10]},
    }  # fmt: skip
    assert (lost["leader"], lost["config_offset"], lost["delay_ms"]) == (False, 7, None)
    assert (lost["assigned_config_offset"], lost["connectors"], lost["tasks"]) == (None, [], {})
    assert (unread["url"], unread["config_offset"], unread["delay_ms"]) == (None, None, 1_500)


def test_the_connectors_and_tasks_of_a_worker_stand_in_order():
    """A worker's work is a set, so it has no order of its own."""
    given = {name: [-1, 30, 4, 12, 7, 1] for name in "hbgdfaec"}
    running = assignment(2, work(**given), work(), delay=struct.pack(">i", 0))
    whole = group("classic", protocol_type="connect", leader="w", members=[worker("w", running)])
    (row,) = views.worker_rows(whole)
    assert row["connectors"] == list("abcdefgh")
    assert list(row["tasks"].items()) == [(name, [1, 4, 7, 12, 30]) for name in "abcdefgh"]


def table(view, rows, *, kind="consumer", old=False, verbose=False, first=True):
    style = tabular.TableStyle(kind, view, old, verbose)
    return tabular.draw(style, rows, first=first).text


def test_only_3_9_prints_the_offsets_of_later_groups_without_a_blank_line():
    rows = views.offset_rows(group(offsets=[offset("t", 0)]))
    states = [views.state_row(group())]
    for view, drawn, old, first, is_blank in (
        ("offsets", rows, True, False, False), ("offsets", rows, True, True, True),
        ("offsets", rows, False, False, True), ("state", states, True, False, True),
    ):  # fmt: skip
        assert table(view, drawn, old=old, first=first).startswith("\n") == is_blank
    style = tabular.TableStyle("consumer", "offsets", True, False)
    assert tabular.draw(style, rows).text == table("offsets", rows, old=True, first=True)


def test_3_9_has_no_more_columns_of_offsets_and_states_if_it_is_verbose_and_4_1_has_epochs():
    rows = {
        "offsets": views.offset_rows(group(offsets=[offset("t", 0, leader_epoch=3)])),
        "state": [views.state_row(group())],
    }
    epochs = {"offsets": ["LEADER-EPOCH"], "state": ["GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH"]}
    for view, drawn in rows.items():
        for old in (True, False):
            plain, verbose = (table(view, drawn, old=old, verbose=on).split("\n") for on in (0, 1))
            assert (plain == verbose) == old, view
            added = [name for name in verbose[1].split() if name not in plain[1].split()]
            assert added == ([] if old else epochs[view]), view


HEADINGS = {  # of ShareGroupCommand, StreamsGroupCommand: (kind, view) -> plain, verbose
    ("share", "offsets"): (
        "GROUP TOPIC PARTITION START-OFFSET",
        "GROUP TOPIC PARTITION LEADER-EPOCH START-OFFSET",
    ),
    ("share", "state"): (
        "GROUP COORDINATOR (ID) STATE #MEMBERS",
        "GROUP COORDINATOR (ID) STATE GROUP-EPOCH ASSIGNMENT-EPOCH #MEMBERS",
    ),
    ("share", "members"): (
        "GROUP CONSUMER-ID HOST CLIENT-ID #PARTITIONS ASSIGNMENT",
        "GROUP CONSUMER-ID HOST CLIENT-ID #PARTITIONS MEMBER-EPOCH ASSIGNMENT",
    ),
    ("streams", "offsets"): (
        "GROUP TOPIC PARTITION OFFSET-LAG",
        "GROUP TOPIC PARTITION CURRENT-OFFSET LEADER-EPOCH LOG-END-OFFSET OFFSET-LAG",
    ),
    ("streams", "state"): (
        "GROUP COORDINATOR (ID) STATE #MEMBERS",
        "GROUP COORDINATOR (ID) STATE GROUP-EPOCH TARGET-ASSIGNMENT-EPOCH #MEMBERS",
    ),
    ("streams", "members"): (
        "GROUP MEMBER PROCESS CLIENT-ID ASSIGNMENTS",
        "GROUP TARGET-ASSIGNMENT-EPOCH TOPOLOGY-EPOCH MEMBER MEMBER-PROTOCOL MEMBER-EPOCH PROCESS "
        "CLIENT-ID ASSIGNMENTS",
    ),
}


def test_verbose_tables_of_share_and_streams_groups_have_their_epochs_in_kafkas_order():
    share = group("share", initialized_topics=[{"topic": "t", "partitions": [0]}])
    share["members"] = [member("m", [("t", [0])])]
    for (kind, view), headings in HEADINGS.items():
        rows = views.VIEWS[kind, view](share if kind == "share" else streams())
        for verbose, heading in enumerate(headings):
            line = table(view, rows, kind=kind, verbose=bool(verbose)).splitlines()[1]
            assert " ".join(line.split()) == heading, (kind, view)


def test_only_columns_of_names_are_widened_by_a_longer_text():
    rows = [views.state_row(group(group_id="g" * 26, state="s" * 21))]
    for old, width in ((True, 25), (False, 26)):
        heading, line = table("state", rows, old=old).splitlines()[1:]
        assert heading.index("COORDINATOR") == width + 1
        assert line.startswith("g" * 26 + " - ")
        state = heading.index("STATE")
        assert heading.index("#MEMBERS") == state + (16 if old else 21)


def test_the_last_column_is_as_wide_as_its_text():
    rows = views.member_rows(group(members=[member("m", [("t", [0])])]))
    _, heading, line = table("members", rows).split("\n")[:3]
    assert (
        heading
        == "GROUP           CONSUMER-ID     HOST            CLIENT-ID       #PARTITIONS     "
    )
    assert (
        line == "g               m               /h              c               1               "
    )
    states = table("state", [views.state_row(group())]).splitlines()
    assert (states[1][-9:], states[2][-2:]) == (" #MEMBERS", " 0")


@pytest.mark.parametrize(
    ("kind", "old", "field", "value", "cell"),
    [
        ("consumer", False, "assignment_strategy", None, "-"),
        ("consumer", False, "assignment_strategy", "", "-"),
        ("consumer", True, "assignment_strategy", None, ""),
        ("consumer", True, "assignment_strategy", "range", "range"),
        ("consumer", False, "group_instance_id", None, ""),
        ("consumer", False, "group_instance_id", "i", "i"),
        ("consumer", False, "leader_epoch", 0, "0"),
        ("consumer", False, "leader_epoch", None, "-"),
        ("consumer", True, "client_id", "", "-"),
        ("consumer", False, "", "", ""),
        ("consumer", False, "upgraded", True, "true"),
        ("consumer", False, "current_assignment", {"u": [2], "t": [10, 9]}, "t:9,10;u:2"),
        ("consumer", True, "current_assignment", {"u": [2], "t": [10, 9]}, "(10,9), (2)"),
        ("consumer", False, "current_assignment", {}, "-"),
        ("share", False, "assignment", {}, ""),
        ("share", False, "assignment", {"t": [1]}, "t:1"),
        ("connect", True, "tasks", {"t": [10, 9]}, "t:9,10"),
        ("connect", True, "tasks", {}, "-"),
        ("connect", True, "connectors", [], "-"),
        ("connect", True, "connectors", ["a", "b"], "a,b"),
    ],
)
def test_a_cell_is_as_kafka_prints_it(kind, old, field, value, cell):
    style = tabular.TableStyle(kind, "members", old, True)
    assert tabular._cell(style, tabular.TableColumn("HEAD", field), value) == cell


def test_a_list_is_names_or_a_table_that_the_longest_name_widens():
    rows = [
        {"group": name, "type": "Consumer", "state": "Stable", "protocol_type": "consumer"}
        for name in ("g", "a" * 16)
    ]
    assert tabular.draw_list(rows, ()).text == f"g\n{'a' * 16}\n"
    lines = tabular.draw_list(rows, ("type", "state")).text.split("\n")
    assert lines == [
        "GROUP".ljust(26) + " " + "TYPE".ljust(20) + " " + "STATE".ljust(20),
        "g".ljust(26) + " " + "Consumer".ljust(20) + " " + "Stable".ljust(20),
        "a" * 16 + " " * 11 + "Consumer".ljust(20) + " " + "Stable".ljust(20),
        "",
    ]
    assert tabular.draw_list(rows[:1], ("type",)).text.startswith("GROUP".ljust(26) + "TYPE")


def test_rows_as_json_are_one_a_line_with_every_letter_as_it_is():
    assert tabular.as_json([{"a": "日"}, {"a": None}]) == '[\n{"a": "日"},\n{"a": null}\n]\n'
    assert tabular.as_json([]) == "[\n]\n"


@pytest.mark.parametrize(
    ("kind", "protocol_type", "of", "members"),
    [
        ("share", "share", "share", "share"),
        ("streams", "", "streams", "streams"),
        ("consumer", "consumer", "consumer", "consumer"),
        ("streams", "connect", "streams", "streams"),
        ("classic", "consumer", "consumer", "consumer"),
        ("classic", None, "consumer", "consumer"),
        ("classic", "", "consumer", "consumer"),
        ("classic", "connect", None, "connect"),
        ("classic", "other", None, "consumer"),
    ],
)
def test_a_group_is_shown_by_the_tool_of_its_kind(kind, protocol_type, of, members):
    whole = group(kind, protocol_type=protocol_type)
    assert views.kind_of(whole) == of
    assert views.drawn_as(whole, "members") == members
    assert views.drawn_as(whole, "offsets") == (of or "consumer")
