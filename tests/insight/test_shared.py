"""Contested static ids, flapping clients, group ids that two applications share."""

import json
from collections import defaultdict

import pytest

from coterie.insight.groups import shared_group_ids
from coterie.insight.groups.shared_group_ids import Subscriber
from coterie.insight.questions import audit, explain
from coterie.insight.records.partition_view import read_partitions
from coterie.insight.tables import shortened
from support.commandline import coterie
from support.golden_data import GOLDEN, cases, log
from support.insight.lives import commit, life, member, written


def audited(folder, *options):
    return json.loads(coterie("audit", folder, "--format", "json", *options).stdout)


def static(number):
    """A member under instance `i`; after a takeover, the record keeps the first client."""
    return member(f"i-{number}", groupInstanceId="i", clientId="first", clientHost="/10.0.0.1")


@pytest.fixture
def fight(tmp_path):
    return written(tmp_path / "log", *(life(1000 * at, 1, static(at)) for at in range(5)))


def join(at_ms, member_id, client_id, host, error=0, instance="i"):
    """A line of a request log: a JoinGroup under an instance id, and the member id it got."""
    logged = {
        "requestHeader": {
            "requestApiKeyName": "JOIN_GROUP",
            "requestApiVersion": 9,
            "clientId": client_id,
        },
        "request": {
            "groupId": "g",
            "memberId": "",
            "groupInstanceId": instance,
            "protocolType": "consumer",
            "protocols": [],
            "reason": None,
        },
        "response": {"errorCode": error, "memberId": member_id, "generationId": 1},
        "connection": f"10.0.0.9:9092-{host}:55001-3",
        "totalTimeMs": 1.0,
    }
    stamp = f"[1970-01-01 00:00:{at_ms // 1000:02},{at_ms % 1000:03}]"
    return f"{stamp} DEBUG Completed request:{json.dumps(logged)} (kafka.request.logger)\n"


def test_the_records_alone_do_not_name_who_takes_a_static_id_over(fight):
    (row,) = audited(fight, "--only", "static_fight")
    assert row["detail"] == (
        "i taken over 4 times; the records keep the first client, first (10.0.0.1): "
        "they cannot tell who took it over"
    )
    assert row["clients"] == []
    (view,) = read_partitions([fight])
    rows = [row for row in explain.rows(view, explain.Parameters()) if row["causes"]]
    assert rows[1]["cause"].startswith("static i came back under a new member id")
    assert not any("10.0.0.1" in row["cause"] for row in rows[1:])


def test_a_request_log_names_the_true_clients_of_a_static_id(fight, tmp_path):
    lines = [join(0, "i-0", "first", "10.0.0.1"), join(1000, "i-1", "second", "10.0.0.2")]
    lines += [join(2000, "i-2", "first", "10.0.0.1"), join(3000, "i-3", "second", "10.0.0.2")]
    requests = tmp_path / "requests.log"
    requests.write_text("".join(lines))
    (row,) = audited(fight, "--only", "static_fight", "--request-log", requests)
    assert row["detail"] == (
        "i taken over 4 times: by second (10.0.0.2) 2 times, by first (10.0.0.1) once, "
        "1 not in the request log, first held by first (10.0.0.1) [request log]"
    )
    names = [(one["client_id"], one["client_host"]) for one in row["clients"]]
    assert names == [("first", "/10.0.0.1"), ("second", "/10.0.0.2")]
    output = coterie("explain", fight, "--request-log", requests).stdout
    assert "static i: second (10.0.0.2) came back under a new member id [request log]" in output
    assert "static i: first (10.0.0.1) came back under a new member id [request log]" in output


def test_who_was_refused_took_nothing_over(fight, tmp_path):
    requests = tmp_path / "requests.log"
    requests.write_text(join(1000, "i-1", "other", "10.0.0.3", error=25))
    (row,) = audited(fight, "--only", "static_fight", "--request-log", requests)
    assert "other" not in row["detail"]


def clients_of(rows):
    return {(row["client_id"], row["client_host"]) for row in rows}


def test_audit_and_explain_call_the_same_clients_flapping():
    """For every golden log: audit counts by ids alone, explain by decoded members.

    A row of audit is of all clients of a group, a row of explain of one.
    """
    actual = 0
    incidents = GOLDEN.glob("incidents/*/log")
    for folder in (*map(log, cases()), *incidents):
        for view in read_partitions([folder]):
            audited = {
                row["group_id"]: (clients_of(row["clients"]), row["count"], row["last"])
                for row in audit.rows(view, audit.Parameters(only=("flapping",)))
            }
            flaps = defaultdict(list)
            for row in explain.rows(view, explain.Parameters()):
                if row["event"] == "flapping":
                    flaps[row["group_id"]].append(row)
            assert audited == {
                group: (
                    clients_of(row["causes"][0] for row in rows),
                    sum(row["count"] for row in rows),
                    max(row["until"] for row in rows),
                )
                for group, rows in flaps.items()
            }
            actual += len(audited)
    assert actual


def coming_and_going(folder, *times, there=False):
    """Write a log in which client `c` joins and leaves in turn, at these times in seconds.

    ``there``: it had joined before the log begins.
    """
    stays = member("d", clientId="d")
    lives = [life(0, 7, stays, *([member("c-0")] if there else []))]
    for turn, at in enumerate(times):
        joins = (turn % 2 == 0) != there
        others = [member(f"c-{turn + 1}")] if joins else []
        lives.append(life(1000 * at, 8 + turn, stays, *others))
    return written(folder, *lives, first_offset=int(there))


@pytest.mark.parametrize(
    ("times", "found"),
    [
        ((1, 2, 3, 4), None),  # a restart, then a stop
        ((1, 2, 3), None),
        ((1, 2, 3, 4, 5), None),  # a roll forth and back
        ((1, 2, 3, 4, 5, 6), "6 joins and leaves in 5.0 s"),
        ((1, 2, 3, 4, 5, 602), "6 joins and leaves in 601.0 s"),
        ((1, 2, 3, 4, 5, 6, 602), "7 joins and leaves in 601.0 s"),  # 600 s from leave to return
        ((1, 2, 3, 4, 5, 6, 1_000), "6 joins and leaves in 5.0 s"),
        ((1, 702, 703, 704, 705, 706, 707), "6 joins and leaves in 5.0 s"),  # started long before
    ],
)
def test_a_client_flaps_that_comes_back_twice_within_the_window(tmp_path, times, found):
    folder = coming_and_going(tmp_path, *times)
    details = [row["detail"] for row in audited(folder, "--only", "flapping")]
    assert details == ([] if found is None else [f"c (h) is flapping: {found}"])


def test_periods_of_flapping_are_one_finding_of_a_group(tmp_path):
    """A client that is there when the log begins, and flaps in two periods."""
    times = (*range(1, 7), *range(5000, 5006))
    folder = coming_and_going(tmp_path, *times, there=True)
    (row,) = audited(folder, "--only", "flapping")
    assert row["detail"] == "c (h) is flapping: 12 joins and leaves in 2 periods of 10.0 s together"
    assert (row["count"], row["first"], row["last"]) == (12, 1000, 5_005_000)
    assert row["members"] == [f"c-{turn}" for turn in range(2, 13, 2)]
    assert not audited(folder, "--only", "flapping", "--flap-window", "2999ms")
    assert not audited(folder, "--only", "flapping", "--flap-count", 5)


def reader(name, host, *topics):
    return member(name, clientId=name, clientHost=host, topics=list(topics))


def test_two_applications_on_one_id_are_named_with_their_topics(tmp_path):
    bill = [reader("billing-1", "/10.0.0.1", "orders"), reader("billing-2", "/10.0.0.2", "orders")]
    search = reader("search", "/10.0.0.3", "clicks", "views")
    lives = [
        life(1, 1, *bill[:1]),
        life(2, 2, *bill),
        life(3, 3, *bill, search),
        life(4, 4, search),
    ]
    (row,) = audited(written(tmp_path, *lives), "--only", "applications")
    assert row["detail"] == (
        "billing-1 (10.0.0.1), billing-2 (10.0.0.2) reading orders; "
        "search (10.0.0.3) reading clicks, views"
    )
    assert (row["log_offset"], row["previous_log_offset"], row["count"]) == (2, 1, 1)
    assert row["clients"][2] == {
        "client_id": "search",
        "client_host": "/10.0.0.3",
        "topics": ["clicks", "views"],
    }


@pytest.mark.parametrize(
    "topics", [(["a"], ["a", "b"]), (["a"], ["a"]), (["a"], []), (["a", "b"], ["b", "c"])]
)
def test_members_with_a_topic_in_common_are_one_application(tmp_path, topics):
    members = [member(f"m{at}", topics=each) for at, each in enumerate(topics)]
    assert not audited(written(tmp_path, life(1, 1, *members)), "--only", "applications")


def test_one_application_after_another_shares_nothing(tmp_path):
    lives = [life(1, 1, reader("a", "/h", "t")), life(2, 2), life(3, 3, reader("b", "/h", "u"))]
    assert not audited(written(tmp_path, *lives), "--only", "applications")


def test_several_assignors_are_reported_with_whose_they_were(tmp_path):
    lives = [
        life(1, 1, reader("a", "/10.0.0.1", "orders"), protocol="range"),
        life(2, 2, reader("b", "/10.0.0.2", "clicks"), protocol="roundrobin"),
    ]
    (row,) = audited(written(tmp_path, *lives), "--only", "protocols")
    assert row["detail"] == (
        "consumer/range by a (10.0.0.1) reading orders, "
        "then consumer/roundrobin by b (10.0.0.2) reading clicks"
    )


def test_findings_are_those_of_the_time_that_is_requested(tmp_path):
    folder = written(tmp_path, commit(1000, {0: 9}), commit(2000, {0: 5}), commit(3000, {0: 4}))
    actual = [row["timestamp"] for row in audited(folder, "--only", "rewind", "--since", 2001)]
    assert actual == [3000]
    actual = [row["timestamp"] for row in audited(folder, "--only", "rewind", "--until", 2999)]
    assert actual == [2000]


# ---- the rules, from clients and records alone


def subscriber(client, *topics, host="/h", readable=True):
    return Subscriber(client, host, frozenset(topics) if readable else None)


def test_subscribers_whose_topics_no_other_application_shares_are_apart():
    a, b, c = subscriber("a", "t", "u"), subscriber("b", "u", "v"), subscriber("c", "w")
    unknown, none = subscriber("x", readable=False), subscriber("y")
    assert shared_group_ids.disjoint([a, b]) == []
    assert shared_group_ids.disjoint([a, unknown, b, none, c]) == [a, b, c]
    d = subscriber("d", "v")  # `b` has a topic in common with each of the others
    assert shared_group_ids.disjoint([a, b, d]) == [a, d]
    assert shared_group_ids.disjoint([unknown, none, c]) == []


def test_clients_stand_by_their_topics_as_far_as_there_is_room():
    readers = [subscriber(name, "t", host=f"/{name}") for name in "cbad"]
    others = [subscriber(None, *"zyxw"), subscriber("q", host=None, readable=False)]
    readers.insert(1, others[0])
    assert shared_group_ids.in_words([*readers, others[1], readers[0]]) == (
        "c (c), b (b), a (a), 1 more reading t; a client (h) reading w, x, y, 1 more; q"
    )
    assert shared_group_ids.few("abc") == "a, b, c"
    assert shared_group_ids.few("abcde") == "a, b, c, 2 more"
    assert shared_group_ids.few(["n" * 200]) == shortened("n" * 200) != "n" * 200


def test_a_clients_row_has_its_topics_by_name():
    topics = ["e", "b", "d", "a", "c"]
    assert subscriber("c", *topics).as_row() == {
        "client_id": "c", "client_host": "/h", "topics": sorted(topics),
    }  # fmt: skip
    assert subscriber("c", readable=False).as_row()["topics"] is None


class CompleteSince:
    """A view of a log that is complete from a time on."""

    def __init__(self, since_ms):
        self.since_ms = since_ms

    def is_complete_at(self, at_ms):
        return at_ms >= self.since_ms


def test_of_records_before_the_log_is_complete_the_last_one_counts():
    items = [({"timestamp": at}, {"timestamp": -9}) for at in (1, 2, 3, 4)]
    for since_ms, first in ((0, 0), (1, 0), (2, 0), (3, 1), (4, 2), (5, 3)):
        found = shared_group_ids.since_complete(CompleteSince(since_ms), items)
        assert found == items[first:]


def protocols(folder, *appends):
    """What is found of several protocols: the evidence, both places and the number of protocols."""
    return [
        (row["detail"].replace(" by c (h) reading t", "").replace("consumer/", ""),
         row["log_offset"], row["previous_log_offset"], row["count"])
        for row in audited(written(folder, *appends), "--only", "protocols")
    ]  # fmt: skip


def of(at_ms, protocol):
    """A generation of an assignor; None: the group is deleted, "": it has no members."""
    if protocol is None:
        return life(at_ms, None)
    return life(at_ms, at_ms + 1, *[member("m")] * bool(protocol), protocol=protocol)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["a", "a", "", "a"], []),
        (["a", "", "b", "a"], [("a, then b", 2, 0, 2)]),
        (["a", "a", "b", "c", "b"], [("a, then b, then c", 2, 1, 3)]),
        (["a", None, "b", "b"], []),  # deleted and created again: it starts afresh
        (["a", None, "b", "c"], [("b, then c", 3, 2, 2)]),
        (["a", "b", None, "a"], [("a, then b", 1, 0, 2)]),
        (["a", "b", None, "c"], [("a, then b, then c", 1, 0, 3)]),
    ],
)
def test_several_protocols_of_one_life_are_a_finding_at_the_first_other_one(
    tmp_path, given, expected
):
    appends = [of(at, protocol) for at, protocol in enumerate(given)]
    assert protocols(tmp_path, *appends) == expected
