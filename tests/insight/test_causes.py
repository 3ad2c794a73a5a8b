"""Causes of a rebalance and the texts about them, from handmade groups."""

import struct

import pytest

from coterie.base.consumer_protocol import Subscription
from coterie.insight.groups import causes, metadata_changes
from coterie.insight.groups.flapping import flapping_text
from coterie.insight.groups.topic_metadata import TopicMetadata
from coterie.insight.questions import explain
from coterie.insight.records.partition_view import read_partitions
from coterie.testing import assignment, subscription
from support.insight.lives import life, member, written

T0 = 1_795_000_000_123
NO_CAUSE = dict.fromkeys(causes.CAUSE) | {"source": "records"}


def cause(what, **fields):
    return NO_CAUSE | {"what": what} | fields


# ---- texts

CLIENT = {"client_id": "c", "client_host": "/10.0.0.1", "member_id": "m"}
STATIC = CLIENT | {"group_instance_id": "i"}
LONG = "n" * 200


@pytest.mark.parametrize(
    ("what", "fields", "name"),
    [
        ("left", {}, "a member"),
        ("left", {"member_id": "m"}, "m"),
        ("left", CLIENT, "c (10.0.0.1)"),
        ("left", CLIENT | {"client_host": None}, "c"),
        ("left", STATIC, "i"),  # its record names the host of the instance's first member
        ("joined", STATIC, "i (10.0.0.1)"),
        ("present", STATIC, "i (10.0.0.1)"),
        ("left", STATIC | {"source": "request log"}, "i (10.0.0.1)"),
        ("left", STATIC | {"source": "server log"}, "i"),
        ("replaced", STATIC, "i"),
        ("replaced", STATIC | {"source": "request log"}, "i: c (10.0.0.1)"),
        ("refused", STATIC | {"source": "request log"}, "c as static i (10.0.0.1)"),
        ("refused", CLIENT | {"source": "request log"}, "c (10.0.0.1)"),
        ("refused", {"group_instance_id": "i", "source": "request log"}, "i"),
        ("left", STATIC | {"group_instance_id": LONG}, causes.shortened(LONG)),
    ],
)
def test_a_member_is_named_by_its_instance_id_else_its_client_id_and_a_host_that_is_certain(
    what, fields, name
):
    assert causes.who(cause(what, **fields)) == name


def test_causes_of_a_client_are_grouped_by_its_instance_id_or_by_client_and_host():
    assert causes.client_of(cause("joined", **STATIC)) == "i"
    assert causes.client_of(cause("joined", **CLIENT)) == "c (10.0.0.1)"
    assert causes.client_of(cause("left", group_instance_id=LONG)) == causes.shortened(LONG) != LONG


@pytest.mark.parametrize(
    ("hosts", "text"),
    [
        ([], ""),
        ([None], ""),
        (["/10.0.0.1"], " (10.0.0.1)"),
        (["/b", "a", "/b"], " (b, a)"),
        (["/b", None], ""),
        ([None, None, "/b"], ""),
    ],
)
def test_hosts_are_named_once_each_if_all_are_known(hosts, text):
    assert causes.hosts_in_words(hosts) == text


def test_a_client_without_an_id_is_a_client():
    assert causes.client_text(None, "/h") == "a client (h)"
    assert causes.client_text("c", None) == "c"
    assert causes.client_text(LONG, None) == causes.shortened(LONG)


def test_partitions_stand_by_topic_and_number():
    given = {("b", 10), ("a", 2), ("b", 9), ("c", 0), ("b", 2)}
    assert causes.partition_text(given) == "a:2 b:2,9,10 c:0"


def test_numbers_stand_with_their_nouns():
    texts = [causes.counted(number, "record") for number in (0, 1, 2, 1234)]
    assert texts == ["0 records", "1 record", "2 records", "1,234 records"]


@pytest.mark.parametrize(
    ("listed", "text"),
    [
        ([cause("left", **CLIENT)], "c (10.0.0.1) left"),
        ([cause("restarted_evicted", client_id=name) for name in "ab"],
         "a, b were evicted and came back"),
        ([cause("restarted", client_id=name, detail="old") for name in "ab"],
         "a, b came back under new member ids"),
        ([cause("metadata_changed", client_id=name, detail="rack a to b") for name in "ab"],
         "a, b changed their metadata: rack a to b"),
        ([cause("refused", client_id=name, detail=name.upper()) for name in "ab"],
         "a, b were refused: A, B"),
        ([cause("replaced", client_id="a", detail="old")],
         "static a came back under a new member id"),
        ([cause("left", client_id="a"), cause("joined", client_id="b"),
          cause("left", client_id="c"), cause("left", client_id="d", source="server log")],
         "a, c left; b joined; d left [server log]"),
        ([cause("left", client_id=name, detail=name) for name in "abcd"],
         "a, b, c, 1 more left: a, b, c"),
        ([cause("joined", client_id=name) for name in "abc"], "a, b, c joined"),
        ([cause("gap", detail="3"), cause("gap", detail="3")],
         "generations without a record: 3"),
        ([cause("unheard", client_id="a")], "unheard"),
        ([], ""),
    ],
)  # fmt: skip
def test_causes_of_one_kind_and_source_share_a_text(listed, text):
    assert causes.in_words(listed) == text


def test_clients_that_flap_are_named_as_far_as_there_is_room():
    times = [(T0, T0 + 1_500)]
    text = "a, b, c are flapping: 7 joins and leaves in 1.5 s"
    assert flapping_text(["a", "b", "c"], 7, times) == text
    assert flapping_text(["a", "b", "c", "d", "e"], 7, times).startswith("a, b, c and 2 more are ")
    several = flapping_text(["a"], 9, [*times, (T0 + 90_000, T0 + 90_750)])
    assert several == "a is flapping: 9 joins and leaves in 2 periods of 2.2 s together"


# ---- causes of a generation


def generations(folder, *lives, first_offset=0):
    (view,) = read_partitions([written(folder, *lives, first_offset=first_offset)])
    rows = explain.rows(view, explain.Parameters())
    return [row for row in rows if row["event"] in ("generation", "empty", "deleted", "rewritten")]


def whats(row):
    return [(one["what"], one["member_id"], one["detail"]) for one in row["causes"]]


@pytest.mark.parametrize(
    ("first_offset", "generation", "expected"),
    [
        (0, 1, [("joined", "a", None), ("joined", "b", None)]),
        (0, 4, [("joined", "a", None), ("joined", "b", None), ("gap", None, "3")]),
        (9, 1, [("joined", "a", None), ("joined", "b", None)]),
        (9, 2, [("present", "a", None), ("present", "b", None)]),
    ],
)
def test_who_is_in_the_first_record_joined_or_was_there_before_the_log_begins(
    tmp_path, first_offset, generation, expected
):
    lives = life(T0, generation, member("a"), member("b")), life(T0 + 1, None)
    lives += (life(T0 + 2, 5, member("c")),)  # made anew: `c` joined, whatever its number
    first, deleted, last = generations(tmp_path, *lives, first_offset=first_offset)
    assert whats(first) == expected
    assert [one["what"] for one in deleted["causes"]] == ["removed"]  # it never had an offset
    assert whats(last) == [("joined", "c", None)]
    assert deleted["member_count"] is None


def test_a_generation_that_begins_anew_below_the_one_before_is_of_a_group_made_anew(tmp_path):
    rows = generations(tmp_path, *(life(T0, at, member("a")) for at in (7, 7, 6)))
    assert [row["event"] for row in rows] == ["generation", "rewritten", "generation"]
    assert ("recreated", None, None) in whats(rows[2])
    assert not [one for one in whats(rows[1]) if one[0] in ("gap", "recreated")]


def test_a_leader_or_a_protocol_that_is_not_known_before_or_now_is_no_change(tmp_path):
    a, b = member("a"), member("b")
    lives = [
        life(T0, 1, a, b),
        life(T0 + 1, 2, b, a),  # another leader
        life(T0 + 2, 3, b, a, protocol="roundrobin"),
        life(T0 + 3, 4),
        life(T0 + 4, 5, a, b),
    ]
    _, second, third, fourth, fifth = map(whats, generations(tmp_path, *lives))
    assert second[0] == ("leader_changed", "b", None)
    assert third == [("protocol_changed", None, "range to roundrobin")]
    assert fourth == [("left_or_evicted", name, None) for name in "ba"]
    assert fifth == [("joined", name, None) for name in "ab"]


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({}, ("restarted", "b", "a")),
        ({"clientHost": "/x"}, ("joined", "b", None)),
        ({"clientId": "x"}, ("joined", "b", None)),
        ({"groupInstanceId": "i"}, ("joined", "b", None)),
    ],
)
def test_a_client_that_left_and_joined_from_one_host_has_restarted(tmp_path, changed, what):
    stays = member("s", clientId="s")
    lives = life(T0, 1, stays, member("a")), life(T0 + 1, 2, stays, member("b", **changed))
    _, row = generations(tmp_path, *lives)
    left = [] if what[0] == "restarted" else [("left_or_evicted", "a", None)]
    assert whats(row) == [what, *left]


def consumer(held, owned=None):
    sent = subscription(["t"], 0 if owned is None else 1, owned=owned and {"t": owned})
    return member("a", held={"t": held} if held else {}, subscription=sent)


@pytest.mark.parametrize(
    ("protocol", "held", "expected"),
    [
        ("range", ([0], [0], [0, 1, 12]), ("partitions_appeared", None, "t:1,12")),
        ("range", ([0], [0], [0]), ("rejoined", None, None)),
        ("range", ([0], [0, 1], [0]), ("rejoined", None, None)),
        ("range", ([0], [], [0]), ("rejoined", None, None)),  # nothing was assigned before
        ("cooperative-sticky", ([0, 1], [0], [0, 1]), ("cooperative_step", None, "t:1")),
        ("cooperative-sticky", ([0, 1], [0], [0, 1, 2]), ("partitions_appeared", None, "t:1,2")),
        ("range", ([0, 1], [0], [0, 1]), ("partitions_appeared", None, "t:1")),
    ],
)
def test_the_assignments_of_the_same_members_show_why_they_joined_again(
    tmp_path, protocol, held, expected
):
    lives = [
        life(T0 + at, at + 1, consumer(numbers), protocol=protocol)
        for at, numbers in enumerate(held)
    ]
    assert whats(generations(tmp_path, *lives)[-1]) == [expected]


def test_an_assignment_that_cannot_be_read_shows_nothing(tmp_path):
    broken = member("a") | {"assignment": b"\0"}
    lives = [life(T0 + at, at + 1, one) for at, one in enumerate([member("a"), broken, broken])]
    assert whats(generations(tmp_path, *lives)[-1]) == [("rejoined", None, None)]


# ---- metadata of members


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        ({}, {}, None),
        ({}, {"topics": tuple("ahgfedc")}, ("subscription_changed", "+c +d +e +f +g +h -b")),
        ({"topics": tuple("ahgfedc")}, {"topics": ("a",)},
         ("subscription_changed", "-c -d -e -f -g -h")),
        ({}, {"topics": ("b", "a")}, None),
        ({}, {"rack_id": "r"}, ("metadata_changed", "rack none to r")),
        ({"rack_id": "r"}, {}, ("metadata_changed", "rack r to none")),
        ({"rack_id": "r"}, {"topics": ("a",), "rack_id": "s"},
         ("subscription_changed", "-b, rack r to s")),
        ({}, {"owned": {"t": [0]}, "generation_id": 5}, None),
    ],
)  # fmt: skip
def test_a_change_of_topics_or_rack_is_one_of_the_subscription(before, now, expected):
    old, new = (Subscription(**{"version": 3, "topics": ("a", "b")} | one) for one in (before, now))
    assert metadata_changes.consumer_changes(old, new) == expected


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        ({}, []),
        ({"owned": {"t": [0]}, "generation_id": 5}, []),  # follows from the rebalance before
        ({"user_data": b"u"}, ["user data"]),
        ({"version": 2}, ["version 3 to 2"]),
        ({"user_data": b"u", "owned": {"t": [0]}}, ["user data", "owned partitions"]),
        ({"version": 1, "generation_id": 5}, ["generation", "version 3 to 1"]),
    ],
)
def test_what_else_changed_in_a_subscription_is_named(now, expected):
    plain = {"version": 3, "topics": ("a",)}
    old, new = Subscription(**plain), Subscription(**plain | now)
    assert list(metadata_changes.unexplained(old, new)) == expected


def text(data):
    return struct.pack(">h", len(data)) + data


def worker_assignment(*tasks, error=0, delay_ms=0):
    """Version 1 of IncrementalCooperativeConnectProtocol: tasks of the connector `c` alone."""
    assigned = (
        struct.pack(">i", 1) + text(b"c") + struct.pack(f">i{len(tasks)}i", len(tasks), *tasks)
    )
    none = struct.pack(">i", 0)
    head = struct.pack(">hh", 1, error) + text(b"leader") + text(b"url") + struct.pack(">q", 5)
    return head + (assigned if tasks else none) + none + struct.pack(">i", delay_ms)


def worker_state(*tasks, version=1, url=b"http://a", config_offset=5):
    running = worker_assignment(*tasks)
    state = struct.pack(">h", version) + text(url) + struct.pack(">q", config_offset)
    return state + struct.pack(">i", len(running)) + running


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        (worker_state(1), worker_state(1), None),
        (worker_state(1), worker_state(1, config_offset=9),
         ("metadata_changed", "config offset 5 to 9")),
        (worker_state(1), worker_state(1, url=b"http://b", version=2),
         ("metadata_changed", "URL http://a to http://b, version 1 to 2")),
        (worker_state(1, 2), worker_state(2, 3),
         ("metadata_changed", "started c task 3, stopped c task 1")),
        (b"", worker_state(1), ("subscription_changed", metadata_changes.UNREADABLE)),
    ],
)  # fmt: skip
def test_changes_of_a_connect_worker_are_named(before, now, expected):
    found = metadata_changes.changes("connect", before, now)
    if expected and "task" in expected[1]:
        what, words = found
        assert what == "metadata_changed"
        started, stopped = words.split(", ")
        assert started.startswith("started ")
        assert stopped.startswith("stopped ")
        assert ("3" in started, "1" in stopped, "2" in words) == (True, True, False)
    else:
        assert found == expected


def test_of_another_protocol_type_it_is_known_only_that_something_changed():
    found = metadata_changes.changes("other", b"x", b"y")
    assert found == ("subscription_changed", "its metadata changed")


@pytest.mark.parametrize(
    ("assignments", "notes"),
    [
        ([], []),
        ([b""], []),
        ([worker_assignment(0)], []),
        ([worker_assignment(0, delay_ms=1), b"\0"], [("work_delayed", "0.0 s")]),
        ([worker_assignment(0, delay_ms=ms) for ms in (1_500, 250_000, 90)],
         [("work_delayed", "250.0 s")]),
        ([worker_assignment(error=error) for error in (33, 1, 0, 33, 8)],
         [("assignment_failed", "CONFIG_MISMATCH"), ("assignment_failed", "error 8"),
          ("assignment_failed", "error 33")]),
    ],
)  # fmt: skip
def test_a_connect_leader_says_which_work_waits_and_what_failed(assignments, notes):
    state = {"protocol_type": "connect", "members": [{"assignment": one} for one in assignments]}
    assert list(metadata_changes.leader_notes(state)) == notes
    assert list(metadata_changes.leader_notes(state | {"protocol_type": "consumer"})) == []


def counts(**partitions):
    return {"topics": [{"topicName": name, "count": n} for name, n in partitions.items()]}


@pytest.mark.parametrize(
    ("before", "now", "names_before", "names", "is_changed"),
    [
        (counts(t=3), counts(t=3), {"t"}, {"t"}, False),
        (counts(t=3), counts(t=4), {"t"}, {"t"}, True),
        (counts(t=3), counts(t=3, u=1), {"t", "u"}, {"t", "u"}, True),
        (counts(t=3), counts(t=3, u=1), {"t"}, {"t", "u"}, False),  # it subscribes to `u` now
        (counts(t=3), counts(t=4, u=1), {"t"}, {"t", "u"}, True),
        (counts(t=3), counts(t=3, u=1), None, None, False),  # what it subscribes to is not known
        (counts(t=3), None, {"t"}, {"t"}, False),
        (None, counts(t=3), {"t"}, {"t"}, False),
    ],
)
def test_metadata_of_topics_changed_if_the_subscription_does_not_explain_it(
    before, now, names_before, names, is_changed
):
    topics = TopicMetadata()
    sets = [one and frozenset(one) for one in (names_before, names)]
    if before is not None:
        assert not topics.topics_changed(before, sets[0])
    assert topics.hash_changed(0, sets[0]) is False  # an epoch of that broker
    assert topics.topics_changed(now, sets[1]) is is_changed


@pytest.mark.parametrize(
    ("before", "digest", "names", "is_changed"),
    [
        (None, 7, {"t"}, False),
        (7, 7, {"t"}, False),
        (7, 8, {"t"}, True),
        (7, 8, {"u"}, None),
        (7, 8, None, None),
    ],
)
def test_another_hash_of_the_same_topics_is_a_change_of_them(before, digest, names, is_changed):
    topics = TopicMetadata()
    names = names and frozenset(names)
    if before is not None:
        topics.hash_changed(before, None if names is None else frozenset({"t"}))
    assert topics.hash_changed(digest, names) is is_changed
    assert topics.hash_changed(digest, names) is False


def test_the_assignment_helper_and_the_records_name_the_same_partitions():
    state = {"protocol_type": "consumer",
             "members": [{"member_id": name, "assignment": assignment({"t": numbers})}
                         for name, numbers in (("a", [0, 2]), ("b", [7]))]}  # fmt: skip
    assert causes.assigned(state) == {("t", 0), ("t", 2), ("t", 7)}
    assert causes.assigned(state | {"protocol_type": "connect"}) is None
