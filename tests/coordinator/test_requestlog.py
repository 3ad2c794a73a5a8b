"""Request logs with refused requests, missing responses and other formats."""

import gzip
import json
import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie import CoterieError, run_trace
from coterie.coordinator.config import DEFAULTS
from coterie.coordinator.requestlog import import_request_log
from coterie.coordinator.restarts import started_times
from coterie.coordinator.trace_diff import compare_responses
from coterie.coordinator.trace_removals import removals
from coterie.wire.exchanges import exchanges
from support.commandline import coterie
from support.golden_data import GOLDEN
from support.request_lines import (
    AT,
    CONNECTION,
    commit,
    events,
    fetch,
    line,
    markers,
    member_beats,
    member_joins,
    member_syncs,
    txn_commit,
)


def responses(made):
    """Return the responses of the trace in the order of the requests, without times."""
    return [
        {key: value for key, value in answer.items() if key != "at"}
        for answer in sorted(run_trace(made.trace), key=lambda x: x.get("id", 0))
        if answer["event"] == "response"
    ]


def expected(made):
    return [{key: value for key, value in x.items() if key != "at"} for x in made.expected]


def test_transactional_commits_of_several_groups_are_decided_by_the_markers_that_were_written():
    made = import_request_log([
        txn_commit("a", 1), txn_commit("b", 2, producer=8), txn_commit("c", 3, producer=9),
        markers(10, (7, True, 0), (8, False, 0), (9, True, 6)),
        markers(11, (9, True, 0), topic="orders"), end_txn(12, 9, True),
        fetch("a", 20, 10), fetch("b", 21, -1), fetch("c", 22, -1),
    ])  # fmt: skip
    assert [e["producer_id"] for e in made.trace if e.get("op") == "end_txn"] == [7, 8]
    assert responses(made) == expected(made)


def test_partitions_that_the_broker_refused_are_no_part_of_the_commit():
    made = import_request_log([commit(0, 29, 3), commit(29, ms=2), fetch("g", 3, 10)])
    offsets = made.trace[1]["offsets"]
    assert [o["partition"] for o in offsets] == [0]
    assert made.left_out == {"OFFSET_COMMIT: refused before the coordinator": 1}
    assert responses(made) == expected(made)


def test_groups_that_another_broker_coordinates_are_no_part_of_a_deletion():
    logged = [{"groupId": "g", "errorCode": 0}, {"groupId": "h", "errorCode": 16}]
    deletion = line("DELETE_GROUPS", 2, {"groupsNames": ["g", "h"]}, {"results": logged}, 5)
    made = import_request_log([commit(0), deletion])
    assert made.trace[2]["group_ids"] == ["g"]
    assert responses(made) == expected(made)


def test_a_retention_of_the_request_counts_from_its_time_in_the_trace():
    made = import_request_log([fetch("g", 1, -1), commit(0, ms=501, version=2, retentionTimeMs=60)])
    assert made.trace[2]["offsets"][0]["expire_timestamp"] == made.trace[2]["at"] + 60 == 560


def test_what_was_never_answered_or_is_none_of_a_coordinator_is_counted():
    made = import_request_log([
        commit(0), line("OFFSET_COMMIT", 8, {"groupId": "g"}, "", 2),
        line("METADATA", 12, {}, {}, 3), "[2026-01-01 00:00:00,000] INFO Rolled a segment", "",
    ])  # fmt: skip
    assert made.left_out == {
        "OFFSET_COMMIT: no response was logged": 1,
        "METADATA: no request to a group coordinator": 1,
        "lines that are no completed request": 1,
    }
    assert len(events(made)) == 1


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (commit(0)[:200], "line 2: no completed request as Kafka logs it"),
        (line("OFFSET_COMMIT", 8, {}, {"topics": []}), "line 2: OFFSET_COMMIT version 8 is not as"),
        (line("JOIN_GROUP", 9, [], {"a": 1}), "line 2: JOIN_GROUP version 9 is not as Kafka logs"),
        (line("OFFSET_FETCH", 8, {"groups": [{}]}, {"groups": [1, 2]}), "line 2: OFFSET_FETCH"),
        (line("OFFSET_FETCH", 8, {}, {"groups": [{}]}), "line 2: OFFSET_FETCH"),
        (line("OFFSET_FETCH", 8, {"groups": [{}]}, {"throttleTimeMs": 0}), "line 2: OFFSET_FETCH"),
        (commit(0).replace('"partitionIndex": 0', '"partitionIndex": []'), "partitionIndex is a"),
        (commit(0).replace('"groupId": "g"', '"groupId": ["g"]'), "groupId is text, not"),
        (commit(0).replace('"groupId": "g"', '"groupId": null'), "groupId is text, not"),
        (commit(0).replace('"groupId": "g", ', ""), "it has no groupId"),
        (commit(0).replace('"requestApiVersion": 8, ', ""), "it has no requestApiVersion"),
        (commit(0).replace('"OFFSET_COMMIT"', '["OFFSET_COMMIT"]'), "requestApiKeyName and"),
        (commit(0).replace('"committedMetadata": ""', '"committedMetadata": true'), "is text, not"),
        (commit(0, topics=7), "topics is a list, not 7"),
        (commit(0).replace('"totalTimeMs": 0.5', '"totalTimeMs": 1e30'), "totalTimeMs is 1e"),
        (line("LIST_GROUPS", 4, [], {"errorCode": 0}), "a request and its response are objects"),
        (line("OFFSET_FETCH", 8, {"groups": []}, {"groups": [{}]}), "1 groups are answered, of 0"),
    ],
)
def test_a_line_that_is_cut_or_changed_is_named(wrong, message, tmp_path):
    with pytest.raises(CoterieError, match=message):
        import_request_log([commit(0), wrong])
    (tmp_path / "broker.log").write_text(f"{commit(0)}\n{wrong}\n")
    ran = coterie("trace", "import", "broker.log", "--out", "out", cwd=tmp_path)
    assert ran.returncode == 1
    assert "broker.log" in ran.stderr
    assert message in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_request_of_which_nothing_was_passed_on_is_counted_by_its_first_item():
    made = import_request_log([commit(0), commit(16, 29, ms=2), commit(29, 16, 16, ms=3),
                               commit(16, 16, 3, ms=4)])  # fmt: skip
    assert made.left_out == {
        "OFFSET_COMMIT: the coordinator was not ready": 2,
        "OFFSET_COMMIT: refused before the coordinator": 1,
    }


def test_responses_are_in_the_order_of_their_times():
    """A join waits for others; a commit that came later is answered before."""
    made = import_request_log([
        commit(0, ms=100, group="b", connection=f"{AT}:4000-1"),
        join(160, "", 79, connection=f"{AT}:4001-2", total_ms=90),
    ])  # fmt: skip
    assert [answer["op"] for answer in made.expected] == ["offset_commit", "join_group"]


def test_only_a_vote_that_can_be_tied_needs_a_brokers_way_with_ties():
    join = {"groupId": "g", "memberId": "", "sessionTimeoutMs": 10_000, "rebalanceTimeoutMs": 5,
            "protocolType": "consumer"}  # fmt: skip
    logged = {"errorCode": 79, "generationId": -1, "protocolName": None, "leader": "",
            "memberId": "c-1", "members": []}  # fmt: skip

    def config(*names, **given):
        protocols = [{"name": name, "metadata": ""} for name in names]
        log = [line("JOIN_GROUP", 7, join | {"protocols": protocols}, logged)]
        return import_request_log(log, given or None).trace[0]["config"]

    assert config("range") == {}
    assert config("range", "roundrobin") == {"coterie.ties": "hash"}
    assert config("range", "roundrobin", **{"coterie.ties": "first"}) == {}


def heartbeat(group, ms, code=0):
    request = {"groupId": group, "memberId": "m", "memberEpoch": 1}
    answer = {"errorCode": code, "memberId": "m", "memberEpoch": 1}
    return line("SHARE_GROUP_HEARTBEAT", 1, request, answer, ms)


def test_groups_of_protocols_that_no_trace_has_are_left_out_whole_and_counted_by_name():
    listed = [{"groupId": "new", "protocolType": "share", "groupState": "Stable"},
              {"groupId": "g", "protocolType": "", "groupState": "Empty"}]  # fmt: skip
    logged = [{"groupId": group, "errorCode": 0} for group in ("new", "g")]
    made = import_request_log([
        commit(0, group="new", ms=1), heartbeat("new", 2), heartbeat("refused", 3, code=42),
        commit(0, ms=4), fetch("new", 5, 10), fetch("g", 6, 10),
        line("LIST_GROUPS", 4, {"statesFilter": []}, {"errorCode": 0, "groups": listed}, 7),
        line("DELETE_GROUPS", 2, {"groupsNames": ["new", "g"]}, {"results": logged}, 8),
        line("DELETE_GROUPS", 2, {"groupsNames": ["new"]}, {"results": logged[:1]}, 9),
        heartbeat("other", 10),
        line("DELETE_GROUPS", 2, {"groupsNames": ["other", "new"]},
             {"results": [logged[0] | {"groupId": "other"}, logged[0]]}, 11),
    ])  # fmt: skip
    assert made.left_out == {
        "group 'new': of a newer protocol": 4,
        "group 'other': of a newer protocol": 2,  # the first of the groups of a request
        "SHARE_GROUP_HEARTBEAT: refused": 1,
    }
    assert [event["op"] for event in events(made)] == [
        "offset_commit", "offset_fetch", "list_groups", "delete_groups",
    ]  # fmt: skip
    for event, answer in zip(events(made), expected(made), strict=True):
        assert event["id"] == answer["id"]
        assert "new" not in json.dumps([event, answer])


def test_a_listing_with_types_tells_the_groups_of_newer_protocols():
    listed = [{"groupId": "g", "protocolType": "share", "groupState": "Empty",
               "groupType": "Share"}]  # fmt: skip
    logged = line("LIST_GROUPS", 5, {}, {"errorCode": 0, "groups": listed}, 7)
    made = import_request_log([commit(0), commit(0, group="h"), logged])
    assert made.left_out == {"group 'g': of a newer protocol": 1}


def test_a_leader_epoch_that_an_old_answer_does_not_have_is_not_expected():
    logged = [{"partitionIndex": 0, "committedOffset": 10, "metadata": "", "errorCode": 0}]
    request = {"groupId": "g", "topics": [{"name": "t", "partitionIndexes": [0]}]}
    answer = {"errorCode": 0, "topics": [{"name": "t", "partitions": logged}]}
    made = import_request_log([commit(0, epoch=5), line("OFFSET_FETCH", 3, request, answer, 9)])
    assert responses(made)[1]["partitions"][0]["leader_epoch"] == 5
    assert list(compare_responses(made.expected, run_trace(made.trace))) == []
    logged[0]["committedOffset"] = 11
    made = import_request_log([commit(0, epoch=5), line("OFFSET_FETCH", 3, request, answer, 9)])
    assert len(list(compare_responses(made.expected, run_trace(made.trace)))) == 1
    logged[0] |= {"committedOffset": 10, "committedLeaderEpoch": -1}  # what version 5 says counts
    made = import_request_log([commit(0, epoch=5), line("OFFSET_FETCH", 5, request, answer, 9)])
    assert len(list(compare_responses(made.expected, run_trace(made.trace)))) == 1


def test_a_group_that_is_not_there_is_described_alike_whatever_the_version():
    gone = {"groupId": "x", "groupState": "Dead", "protocolType": "", "protocolData": "",
            "members": []}  # fmt: skip
    request = {"groups": ["x"]}
    made = import_request_log([
        line("DESCRIBE_GROUPS", 5, request, {"groups": [gone | {"errorCode": 0}]}, 1),
        line("DESCRIBE_GROUPS", 6, request, {"groups": [gone | {"errorCode": 69}]}, 2),
    ])  # fmt: skip
    assert list(compare_responses(made.expected, run_trace(made.trace))) == []


@pytest.mark.parametrize(
    ("connection", "host"),
    [
        ("10.0.0.1:9092-10.0.0.2:4000-1", "/10.0.0.2"),
        ("10.0.0.1:9092-10.0.0.2:4000-0-1", "/10.0.0.2"),  # since 4.0 with the processor
        ("[::1]:9092-[::1]:4000-2-17", "/::1"),
    ],
)
def test_the_host_of_a_client_is_that_of_its_connection(connection, host):
    (exchange,) = exchanges([commit(0, connection=connection)], Counter())
    assert exchange.client_host == host


def join(ms, member_id, code=0, *, connection, total_ms, metadata="", generation=1):
    """A join of the group's only member; its response was sent ``ms`` after the first second."""
    request = {"groupId": "g", "memberId": member_id, "sessionTimeoutMs": 10_000,
               "rebalanceTimeoutMs": 60_000, "protocolType": "consumer",
               "protocols": [{"name": "range", "metadata": metadata}]}  # fmt: skip
    members = [{"memberId": "c-1", "metadata": metadata}]
    answer = {"errorCode": code, "generationId": -1 if code else generation,
              "protocolName": None if code else "range", "leader": "" if code else "c-1",
              "memberId": "c-1", "members": [] if code else members}  # fmt: skip
    logged = line("JOIN_GROUP", 5, request, answer, ms, connection=connection)
    return logged.replace('"totalTimeMs": 0.5', f'"totalTimeMs": {total_ms}')


def test_requests_of_one_connection_are_in_the_order_of_the_log_however_close():
    """The second came 0.3 ms after the first; by the times of their lines it would come before."""
    connection = f"{AT}:4000-1"
    made = import_request_log(
        [
            join(100, "", 79, connection=connection, total_ms=0.3),
            join(101, "c-1", connection=connection, total_ms=1.8),
        ],
        {"group.initial.rebalance.delay.ms": 0},
    )
    assert [event.get("member_id", "") for event in events(made)] == ["", "c-00000001"]
    assert [answer["error"] for answer in responses(made)] == ["MEMBER_ID_REQUIRED", "NONE"]
    assert responses(made) == expected(made)


@pytest.mark.parametrize("total_ms", [0.2, 0.9])
def test_requests_of_one_millisecond_are_in_the_order_that_their_answers_show(total_ms):
    """``b`` joins unchanged after the leader changed: it gets the next generation, and not this."""
    made = import_request_log(
        [
            *(member_joins(0, "a", 1, 20), member_joins(0, "b", 1, 15)),
            *(member_joins(100, "b", 2, total_ms), member_joins(100, "a", 2, 0.5, "AAEC")),
        ],
        {"group.initial.rebalance.delay.ms": 20},
    )
    assert responses(made) == expected(made)
    assert [event["client_id"] for event in events(made)] == ["a", "b", "a", "b"]


def test_a_member_that_could_not_be_stored_took_an_id_though_its_answer_has_none():
    """Such an answer has the generation of the group; that of a refused join has none."""
    refused, unstored = (join(10 * n, "", -1, connection=CONNECTION, total_ms=1).replace(
        '"memberId": "c-1"', '"memberId": ""') for n in (1, 2))  # fmt: skip
    unstored = unstored.replace('"generationId": -1', '"generationId": 1')
    given = join(30, "", 79, connection=CONNECTION, total_ms=1)
    last = [
        made.expected[-1]["member_id"]
        for made in map(import_request_log, ([refused, given], [refused, unstored, given]))
    ]
    assert last == ["c-00000001", "c-00000002"]


INCIDENTS = sorted(path.parent.name for path in GOLDEN.glob("incidents/*/kafka-request.log.gz"))
SETTINGS = {"group.initial.rebalance.delay.ms": 0, "group.min.session.timeout.ms": 1000}
OWN = {"protocols": {
    "group.initial.rebalance.delay.ms": 500, "group.consumer.session.timeout.ms": 6000,
    "group.consumer.min.session.timeout.ms": 1000, "group.consumer.heartbeat.interval.ms": 1000,
    "group.consumer.min.heartbeat.interval.ms": 500,
}}  # fmt: skip
# Which fields of which answers differ, since a log does not show in which order a broker visits a
# hash map: the next leader of a classic group, from there on whose assignment counts, and which
# members of a consumer group get which partitions.
DIFFERENT = {
    "connect": {("join_group", "leader"): 2, ("join_group", "leader", "members"): 2},
    "rolling-restarts": {
        ("join_group", "leader"): 45,
        ("join_group", "leader", "members"): 16,
        ("sync_group", "assignment"): 61,
    },
    "protocols": {("consumer_group_heartbeat", "assignment"): 4, ("sync_group", "assignment"): 1},
}


def settings_of(incident):
    """The broker's settings of an incident that a coordinator has, too."""
    truth = json.loads((GOLDEN / "incidents" / incident / "truth.json").read_text("utf-8"))
    recorded = truth.get("settings", {}) if isinstance(truth, dict) else {}
    own = {key: int(value) for key, value in recorded.items() if key in DEFAULTS}
    return SETTINGS | own | OWN.get(incident, {})


@pytest.mark.parametrize("incident", INCIDENTS)
def test_a_trace_of_an_incident_is_answered_as_the_real_broker_did(incident):
    folder = GOLDEN / "incidents" / incident
    with gzip.open(folder / "server.log.gz", "rt") as file:
        server = list(file)
    with gzip.open(folder / "kafka-request.log.gz", "rt") as requests:
        made = import_request_log(
            requests,
            settings_of(incident),
            started_ms=started_times(server),
            removals=list(removals(server)),
        )
    different: Counter[tuple[str, ...]] = Counter()
    for one in compare_responses(made.expected, run_trace(made.trace)):
        fields = {name for name, value in one.expected.items() if one.actual.get(name) != value}
        different[(one.expected["op"], *sorted(fields))] += 1
    assert different == DIFFERENT.get(incident, {})
    assert made.shown == []


def end_txn(ms, producer, committed, code=0):
    request = {"transactionalId": "x", "producerId": producer, "producerEpoch": 0,
               "committed": committed}  # fmt: skip
    return line("END_TXN", 3, request, {"errorCode": code}, ms)


def test_without_markers_the_end_of_a_transaction_decides_it():
    made = import_request_log([
        txn_commit("a", 1), txn_commit("b", 2, producer=8), txn_commit("c", 3, producer=9),
        end_txn(10, 7, True), end_txn(11, 8, False), end_txn(12, 9, True, code=51),
        fetch("a", 20, 10), fetch("b", 21, -1), fetch("c", 22, -1),
    ])  # fmt: skip
    assert responses(made) == expected(made)
    assert made.left_out == {"END_TXN: refused": 1}


@pytest.mark.parametrize(
    ("name", "deleted", "cleaned"),
    [
        (
            "Coordinator 1]: Removed 2 offsets associated with deleted partitions: u-x-7, t-1, "
            "t-0.",
            "MetadataManager brokerId=1]",
            "Removed 7 expired offsets in 2 milliseconds.",
        ),
        (
            "Coordinator id=1 topic=__consumer_offsets partition=3] Generated 2 tombstone records "
            "in 0 milliseconds while deleting offsets for partitions [u-x-7, t-1, t-0].",
            "Coordinator id=1 topic=__consumer_offsets partition=1]",
            "Generated 2 tombstone records while cleaning up group metadata in 0 milliseconds.",
        ),
    ],
)
def test_a_server_log_says_when_offsets_were_removed(name, deleted, cleaned):
    at = "[2026-01-01 00:00:0{},000] INFO [Group"
    found = list(removals([
        f"{at.format(2)}{name} (kafka.coordinator.group.GroupCoordinator)\n",
        f"{at.format(3)}{deleted} {cleaned} (kafka.coordinator.group.GroupMetadataManager)\n",
        f"{at.format(4)}{deleted} {cleaned.replace('7', '0').replace('ed 2', 'ed 0')} (k)\n",
    ]))  # fmt: skip
    assert [removal.partitions for removal in found] == [(("t", 0), ("t", 1), ("u-x", 7)), ()]
    assert found[1].at_ms - found[0].at_ms == 1000


def test_a_deletion_waits_for_the_line_of_the_server_log():
    removed = list(removals([
        "[2026-01-01 00:00:00,025] INFO [GroupCoordinator 1]: Removed 1 offsets associated with "
        "deleted partitions: t-0. (kafka.coordinator.group.GroupCoordinator)\n",
    ]))  # fmt: skip
    made = import_request_log(
        [commit(0, ms=1, topic="t"), deletion(10, ("t", 0)), fetch("g", 20, 10),
         fetch("g", 30, -1)],
        removals=removed,
    )  # fmt: skip
    assert [event["op"] for event in events(made)] == [
        "offset_commit", "offset_fetch", "delete_partitions", "offset_fetch",
    ]  # fmt: skip
    # The line may come before the response, if not before the request.
    slow = deletion(40, ("t", 0)).replace('"totalTimeMs": 0.5', '"totalTimeMs": 30')
    made = import_request_log(
        [commit(0, ms=1, topic="t"), slow, fetch("g", 50, -1)], removals=removed
    )
    assert [event["op"] for event in events(made)] == [
        "offset_commit", "delete_partitions", "offset_fetch",
    ]  # fmt: skip


def test_a_removal_stands_at_the_end_of_its_millisecond_and_none_before_the_first_request():
    """A response of the millisecond 26 was handled at 25.6, since it took 0.4 ms."""
    line_of = (
        "[2026-01-01 00:00:00,{:03d}] INFO [GroupCoordinator 1]: Removed 1 offsets associated with "
        "deleted partitions: t-{}. (kafka.coordinator.group.GroupCoordinator)\n"
    )
    removed = list(removals(line_of.format(*each) for each in [(8, 0), (9, 1), (25, 2)]))
    made = import_request_log(
        [commit(0, ms=10), fetch("g", 26, 10), fetch("g", 27, 10)], removals=removed
    )
    assert [
        (event["at"], event["op"], *(place["partition"] for place in event.get("partitions", ())))
        for event in events(made)
    ] == [
        (0, "offset_commit"),
        (1, "delete_partitions", 1),
        (16, "offset_fetch"),
        (17, "delete_partitions", 2),
        (17, "offset_fetch"),
    ]


def test_a_clock_that_was_set_back_and_right_again_leaves_the_order_of_the_log():
    back = [commit(0, ms=ms, group=group, connection=f"{AT}:4000-1") for ms, group in
            [(50_000, "a"), (20_000, "b"), (21_000, "c"), (52_000, "d")]]  # fmt: skip
    made = import_request_log(back)
    assert [event["group_id"] for event in events(made)] == ["a", "b", "c", "d"]
    at = [event["at"] for event in events(made)]
    assert at == [0, 1, 1000, 2000]  # the second came after the response to the first


def test_requests_of_different_connections_are_in_the_order_of_their_times():
    """A join that waits for others is logged after requests that came later."""
    made = import_request_log([
        commit(0, ms=100, group="b", connection=f"{AT}:4000-1"),
        join(160, "", 79, connection=f"{AT}:4001-2", total_ms=90),
    ])  # fmt: skip
    assert [event["op"] for event in events(made)] == ["join_group", "offset_commit"]


@given(st.data())
def test_a_log_whose_times_are_cut_gives_the_order_of_each_connection(data):
    """The model: each connection has its requests one after the other, at real times."""
    lines, order = [], {}
    for number in range(data.draw(st.integers(1, 3))):
        now_us = data.draw(st.integers(0, 3000))
        for place in range(data.draw(st.integers(1, 6))):
            queue_us, rest_us = (data.draw(st.integers(1, 1500)) for _ in range(2))
            sent_us = now_us + queue_us + rest_us
            logged = commit(0, ms=sent_us // 1000, group=f"{number}-{place}",
                            connection=f"{AT}:{4000 + number}-{number}")  # fmt: skip
            times = {"totalTimeMs": (queue_us + rest_us) / 1000,
                     "requestQueueTimeMs": queue_us / 1000}  # fmt: skip
            for name, value in times.items():
                logged = re.sub(rf'"{name}": [\d.]+', f'"{name}": {value}', logged)
            lines.append((sent_us, logged))
            order.setdefault(number, []).append((f"{number}-{place}", now_us + queue_us))
            now_us = sent_us + data.draw(st.integers(1, 400))
    made = import_request_log([logged for _, logged in sorted(lines)])
    groups = [event["group_id"] for event in events(made)]
    at = {event["group_id"]: event["at"] for event in events(made)}
    first_us = min(handled_us for requests in order.values() for _, handled_us in requests)
    for number, requests in order.items():
        assert [g for g in groups if g.startswith(f"{number}-")] == [g for g, _ in requests]
        for group, handled_us in requests:  # both ends are known to a millisecond
            assert abs(at[group] - (handled_us - first_us) / 1000) < 2


@pytest.mark.parametrize(
    ("log", "missing"),
    [
        ([commit(0), fetch("g", 20, 10)], []),
        ([member_joins(500, "a", 1, 90, members="a")], ["SYNC_GROUP", "HEARTBEAT"]),
        ([member_joins(500, "a", 1, 90, members="a"), member_beats(600, "a", 1)], ["SYNC_GROUP"]),
        ([member_joins(500, "a", 1, 90, members="a"), member_syncs(600, "a", 1, "a"),
          member_beats(700, "a", 1)], []),
        ([member_beats(500, "a", 1)], ["JOIN_GROUP"]),
        ([member_beats(500, "a", 1, 25)], []),  # refused: it may be a member of long ago
        ([txn_commit("a", 1)], ["WRITE_TXN_MARKERS"]),
        ([txn_commit("a", 1), end_txn(12, 7, True)], []),
    ],
)  # fmt: skip
def test_apis_that_the_broker_did_not_log_are_named(log, missing):
    assert list(import_request_log(log).missing) == missing


def deletion(ms, *topics, version=6, connection=CONNECTION):
    results = [{"name": name, "topicId": "x", "errorCode": code, "errorMessage": None}
               for name, code in topics]  # fmt: skip
    request = {"topics": [{"name": name, "topicId": "x"} for name, _ in topics], "timeoutMs": 5}
    return line("DELETE_TOPICS", version, request, {"responses": results}, ms,
                connection=connection)  # fmt: skip


def test_a_deletion_of_a_topic_removes_the_offsets_that_were_committed():
    made = import_request_log([
        commit(0, 0, 0, 0, 0, ms=1, topic="t"), commit(0, ms=2, topic="u", group="h"),
        deletion(10, ("t", 0), ("u", 29)), fetch("g", 20, -1),
        commit(0, ms=30, topic="t", group="new"), fetch("new", 40, 10),
    ])  # fmt: skip
    deletions = [event for event in made.trace if event.get("op") == "delete_partitions"]
    partitions = [{"topic": "t", "partition": number} for number in range(5)]
    assert [event["partitions"] for event in deletions] == [partitions]
    assert responses(made) == expected(made)


def test_a_deletion_of_topics_without_offsets_is_counted():
    made = import_request_log([commit(0, ms=1), deletion(10, ("other", 0))])
    assert made.left_out == {"DELETE_TOPICS: no group has committed offsets of the topics": 1}
    made = import_request_log([commit(0, ms=1), deletion(10, ("t", 29))])
    assert made.left_out == {"DELETE_TOPICS: refused": 1}
