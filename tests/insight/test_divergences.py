"""A live state against the log: each difference, its text, and the record that shows it."""

from types import SimpleNamespace

import pytest

from coterie.errors import CoterieError
from coterie.insight.offsets.divergence import (
    Live,
    comparable_offset,
    of_group,
    of_offsets,
    read_live,
)
from coterie.insight.questions import audit
from coterie.insight.records.partition_view import read_partitions
from support.insight.lives import commit, life, member, written

T0 = 1_795_000_000_000
UNSEEN = SimpleNamespace(histories={})


def entry(topic, partition, offset, **fields):
    return {"topic": topic, "partition": partition, "offset": offset} | fields


def logged(topic, partition, offset):
    return entry(topic, partition, offset, leader_epoch=3, metadata="m")


def test_each_offset_that_differs_is_a_finding_in_order_of_its_place():
    row = {"group_id": "g", "offsets": [
        logged("t", 10, 5), logged("t", 9, 6), logged("u", 0, 7), logged("s", 2, 8),
        logged("v", 0, 1), logged("v", 1, 2), logged("w", 0, 3),
    ]}  # fmt: skip
    live = {"offsets": [
        entry("u", 0, 7, leader_epoch=4), entry("t", 10, 4), entry("s", 2, 8, metadata="n"),
        entry("v", 0, 1, leader_epoch=3, metadata="m"), entry("v", 1, 2), entry("x", 3, 9),
        entry("w", 0, 0, leader_epoch=9), {"topic": "y", "partition": 0},
    ]}  # fmt: skip
    found = [
        (one["topic"], one["partition"], one["offset"], one["previous_offset"], one["detail"])
        for one, _ in of_offsets(row, live)
    ]
    assert found == [
        ("s", 2, 8, 8, "metadata: 'm' in the log, 'n' live"),
        ("t", 9, 6, None, "an offset in the log, none live"),
        ("t", 10, 5, 4, "offset: 5 in the log, 4 live"),
        ("u", 0, 7, 7, "leader_epoch: 3 in the log, 4 live"),
        ("w", 0, 3, 0, "offset: 3 in the log, 0 live"),
        ("x", 3, None, 9, "an offset live, none in the log"),
    ]
    assert list(of_offsets(row, {})) == []


@pytest.mark.parametrize(
    ("offset", "known", "is_gone", "number"),
    [
        (7, True, False, 7),
        (0, True, False, 0),
        (7.0, True, False, 7),
        (7.5, False, False, 0),
        (-(2**63), True, False, -(2**63)),
        (-(2**63) - 1, False, False, 0),
        (2**63 - 1, True, False, 2**63 - 1),
        (2**63, False, False, 0),
        (float("inf"), False, False, 0),
        ("7", False, False, 0),
        (None, True, True, 0),
    ],
)
def test_a_live_offset_of_any_kind_is_compared(offset, known, is_gone, number):
    expected = {"shown": True, "known": known, "gone": is_gone, "offset": number}
    assert comparable_offset(offset) == expected


def group(**fields):
    stable = {"group_id": "g", "type": "classic", "state": "Stable", "protocol": "range"}
    return stable | {"members": [], "protocol_type": "consumer"} | fields


@pytest.mark.parametrize(
    ("log", "live", "details"),
    [
        ({}, {}, []),
        ({}, {"state": "Stable", "type": "Classic", "protocol": "range"}, []),
        ({}, {"state": "Empty", "protocol": "sticky"}, ["state: Stable in the log, Empty live"]),
        ({}, {"type": "Consumer"}, ["type: classic in the log, consumer live"]),
        ({}, {"protocol": "sticky"}, ["protocol: range in the log, sticky live"]),
        ({"protocol": None}, {"protocol": ""}, []),
        ({"protocol": None}, {"protocol": "sticky"}, ["protocol: None in the log, sticky live"]),
        ({"state": "Empty"}, {"state": "Empty", "protocol": "sticky"}, []),
        ({"state": None}, {"state": "Empty"}, ["state: none in the log, Empty live"]),
        ({}, {"state": None}, ["state: Stable in the log, none live"]),
        ({}, {"state": "Empty", "describe_error": "no coordinator"}, []),
    ],
)
def test_a_group_differs_in_type_or_state_or_else_in_its_protocol(log, live, details):
    assert [one["detail"] for one, _ in of_group(UNSEEN, group(**log), live)] == details


def holding(*topics):
    """A member of a consumer group, with the partitions of topics (id, name, partitions)."""
    held = [dict(zip(("topic_id", "topic", "partitions"), one, strict=True)) for one in topics]
    return group(type="consumer", members=[{"member_id": "m", "current_assignment": held}])


@pytest.mark.parametrize(
    ("name", "assignment", "differs"),
    [
        ("u", ["u:10", "t:9", "u:2"], False),
        ("u", ["u:9", "t:10", "u:2"], True),
        ("u", ["u:10", "t:9"], True),
        # Without the name of a topic, only the numbers can be compared.
        (None, ["u:10", "t:9", "u:2"], False),
        (None, ["u:9", "t:10", "u:2"], False),
        (None, ["u:10", "t:9"], True),
        (None, ["u:10", "t:9", "u:3"], True),
        (None, [], True),
    ],
)
def test_assignments_are_compared_as_far_as_the_log_has_the_names_of_topics(
    name, assignment, differs
):
    row = holding(("id-t", "t", [9]), ("id-u", name, [2, 10]))
    live = {"members": [{"member_id": "m", "assignment": assignment}]}
    found = [one["detail"] for one, _ in of_group(UNSEEN, row, live)]
    assert found == ["member m: another assignment"] * differs


def test_an_assignment_that_cannot_be_read_differs_from_none():
    row = group(members=[{"member_id": "m", "assignment": b"\0"}])
    live = {"members": [{"member_id": "m", "assignment": ["t:0"]}]}
    assert list(of_group(UNSEEN, row, live)) == []


def live_member(member_id, **fields):
    return {"member_id": member_id, "client_id": "c", "client_host": "/h"} | fields


def findings(folder, live, *appends, partition_count=None, groups=None):
    (view,) = read_partitions([written(folder, *appends)], groups=groups)
    live = Live({one["group_id"]: one for one in live}, partition_count)
    return list(audit.rows(view, audit.Parameters(only=("divergence",), live=live)))


def details(rows):
    return [row["detail"] for row in rows]


@pytest.mark.parametrize(
    ("fields", "detail"),
    [
        ({}, None),
        ({"client_id": "d"}, "client_id c in the log, d live"),
        ({"client_host": "/i"}, "client_host /h in the log, /i live"),
        ({"group_instance_id": "x"}, "group_instance_id None in the log, x live"),
        ({"assignment": ["t:10", "u:0", "t:2"]}, None),
        ({"assignment": ["t:10", "t:2"]}, "another assignment"),
        ({"assignment": ["t:10", "t:0", "u:2"]}, "another assignment"),
        ({"assignment": []}, "another assignment"),
    ],
)
def test_a_member_differs_in_its_client_or_its_assignment(fields, detail, tmp_path):
    held = {"t": [2, 10], "u": [0]}
    live = {"group_id": "g", "members": [live_member("m", **fields)]}
    rows = findings(tmp_path, [live], life(T0, 1, member("m", held=held)))
    assert details(rows) == ([f"member m: {detail}"] if detail else [])


def test_members_of_either_side_alone_stand_by_id(tmp_path):
    live = {"group_id": "g", "members": [live_member("d"), live_member("a"), live_member("b")]}
    rows = findings(tmp_path, [live], life(T0, 1, member("c"), member("b")))
    assert details(rows) == [
        "member a live, not in the log",
        "member c in the log, not live",
        "member d live, not in the log",
    ]


@pytest.mark.parametrize(
    ("commits", "live", "place"),
    [
        ((7, 8, 7, 9), 7, 3),
        ((7, 8, 9, 10), 7, 1),
        ((7, 8, 9), 5, 2),  # no commit has it: the last
        ((9, 8, 7), 8, 2),
        ((7, None, 8, 9), None, 2),  # after the tombstone
        ((7, 8), None, 1),  # there is no tombstone: the last
        ((7, 8, None), 7, 1),
        ((7, None), 7, 1),
        ((8, 7), 8.0, 1),
        ((7, 8), "7", 1),
    ],
)
@pytest.mark.parametrize("first_ms", [0, T0])
def test_the_record_shown_comes_after_the_last_with_the_live_offset(
    commits, live, place, first_ms, tmp_path
):
    others = commit(first_ms, {5: 1}, b"h") + commit(first_ms, {9: 7})
    appends = [commit(first_ms + at - place, {0: offset}) for at, offset in enumerate(commits)]
    offsets = [entry("t", 9, 7), *([] if live is None else [entry("t", 0, live)])]
    known = [{"group_id": "h"}, {"group_id": "g", "offsets": offsets}]
    (row,) = findings(tmp_path, known, others, *appends)
    assert (row["topic"], row["partition"], row["log_offset"]) == ("t", 0, 2 + place)
    assert row["timestamp"] == first_ms
    assert row["position"] > 0


def test_of_a_key_whose_last_commit_has_the_live_offset_the_last_is_shown(tmp_path):
    live = {"group_id": "g", "offsets": [entry("t", 0, 7, leader_epoch=5)]}
    (row,) = findings(tmp_path, [live], *(commit(T0 + n, {0: n}) for n in (7, 9, 7)))
    assert row["log_offset"] == 2
    assert row["detail"] == "leader_epoch: -1 in the log, 5 live"


def test_a_group_that_is_not_live_is_shown_by_its_last_record_of_any_kind(tmp_path):
    appends = [
        life(T0, 1, member("m"), group=b"f"),
        commit(0, {0: 1}, b"g"),
        life(T0 + 2, 2, group=b"f"),
        commit(T0 + 3, {0: 1}, b"h"),
        commit(-1, {0: 2}, b"i"),
        commit(0, {0: 2}, b"g"),
    ]
    rows = findings(tmp_path, [{"group_id": "h"}], *appends)
    assert {row["detail"] for row in rows} == {"in the log, not in the live state"}
    assert [(row["group_id"], row["log_offset"], row["timestamp"]) for row in rows] == [
        ("f", 2, T0 + 2),
        ("g", 5, 0),
        ("i", 4, None),
    ]


def test_only_groups_of_consumers_are_expected_to_be_live(tmp_path):
    connect = life(T0, 1, member("m"))
    value = connect[2].replace(b"\0\x08consumer", b"\0\x07connect")
    assert findings(tmp_path, [], (*connect[:2], value)) == []


def test_a_live_group_without_a_record_is_of_its_partition_and_of_the_groups_asked_for(tmp_path):
    # Java: "a".hashCode() is 97, "c".hashCode() is 99, "b".hashCode() is 98.
    live = [{"group_id": "c"}, {"group_id": "b", "state": "Empty"}, {"group_id": "h"}]
    live += [{"group_id": "a", "state": "Empty"}]
    appends = [commit(T0, {0: 1}, b"h")]
    assert findings(tmp_path / "0", live, *appends) == []
    rows = findings(tmp_path / "1", live, *appends, partition_count=2)
    assert [(row["group_id"], row["detail"], row["log_offset"]) for row in rows] == [
        ("b", "live and Empty, the log has no record of it", None)
    ]
    rows = findings(tmp_path / "2", live, *appends, partition_count=1)
    assert [row["group_id"] for row in rows] == ["a", "b", "c"]
    assert rows[2]["detail"] == "live and there, the log has no record of it"
    rows = findings(tmp_path / "3", live, *appends, partition_count=1, groups=frozenset("hc"))
    assert [row["group_id"] for row in rows] == ["c"]


@pytest.mark.parametrize(
    ("group", "problem"),
    [
        ('5', 'an object with "group_id" is wanted'),
        ('{"group_id": 5}', 'an object with "group_id" is wanted'),
        ('{"group_id": "g", "members": {}}', "members must be a list"),
        ('{"group_id": "g", "offsets": "t"}', "offsets must be a list"),
        ('{"group_id": "g", "members": [5]}', "one of its members lacks member_id"),
        ('{"group_id": "g", "members": [{"id": 1}]}', "one of its members lacks member_id"),
        ('{"group_id": "g", "offsets": [{"topic": "t", "partition": 0}]}',
         "one of its offsets lacks topic or partition or offset"),
        ('{"group_id": "g", "offsets": [{"topic": "t", "offset": 0}]}',
         "one of its offsets lacks topic or partition or offset"),
    ],
)  # fmt: skip
def test_the_problem_of_a_live_file_is_named_with_its_group(group, problem, tmp_path):
    file = tmp_path / "live.json"
    file.write_text(f'{{"groups": [{{"group_id": "f"}}, {group}]}}')
    with pytest.raises(CoterieError) as caught:
        read_live(file)
    assert str(caught.value) == f"{file}: group 1: {problem}"
