"""Request logs beyond the sample: what a broker refused, never answered, or wrote otherwise."""

import json

import pytest

from commandline import coterie
from coterie import CoterieError, run_trace
from coterie.traces.requestlog import import_request_log


def line(api, version, request, response, ms=0, client="c"):
    """A line as Kafka logs it; the response was sent so many ms after the first second."""
    body = {
        "requestHeader": {
            "requestApiKeyName": api, "requestApiVersion": version, "clientId": client,
        },
        "request": request,
        "response": response,
        "connection": "10.0.0.1:9092-10.0.0.2:4000-1",
        "totalTimeMs": 0.5,
        "requestQueueTimeMs": 0.1,
    }  # fmt: skip
    at = f"2026-01-01 00:00:{ms // 1000:02d},{ms % 1000:03d}"
    return f"[{at}] DEBUG Completed request:{json.dumps(body)} (kafka.request.logger)"


def commit(*codes, ms=1, group="g", api="OFFSET_COMMIT", version=8, topic="t", **fields):
    partitions = [{"partitionIndex": n, "committedOffset": 10 + n, "committedLeaderEpoch": -1,
                   "committedMetadata": ""} for n in range(len(codes))]  # fmt: skip
    told = [{"partitionIndex": n, "errorCode": code} for n, code in enumerate(codes)]
    request = {"groupId": group, "topics": [{"name": topic, "partitions": partitions}]} | fields
    return line(api, version, request, {"topics": [{"name": topic, "partitions": told}]}, ms)


def txn_commit(group, ms, producer=7):
    return commit(0, ms=ms, group=group, api="TXN_OFFSET_COMMIT", version=3, producerId=producer,
                  producerEpoch=0, generationId=-1, memberId="", transactionalId="x")  # fmt: skip


def markers(ms, *entries, topic="__consumer_offsets"):
    """Entries (producer id, committed, error code); the response lists them backwards."""
    asked = [{"name": topic, "partitionIndexes": [3]}]
    request = [{"producerId": p, "producerEpoch": 0, "transactionResult": ok, "coordinatorEpoch": 0,
                "topics": asked} for p, ok, _ in entries]  # fmt: skip
    told = [{"producerId": p, "topics": [{"name": topic, "partitions": [
             {"partitionIndex": 3, "errorCode": code}]}]} for p, _, code in entries]  # fmt: skip
    return line("WRITE_TXN_MARKERS", 1, {"markers": request}, {"markers": told[::-1]}, ms)


def fetch(group, ms, offset):
    told = [{"partitionIndex": 0, "committedOffset": offset, "committedLeaderEpoch": -1,
             "metadata": "", "errorCode": 0}]  # fmt: skip
    return line(
        "OFFSET_FETCH", 8,
        {"groups": [{"groupId": group, "topics": [{"name": "t", "partitionIndexes": [0]}]}],
         "requireStable": False},
        {"groups": [{"groupId": group, "topics": [{"name": "t", "partitions": told}],
                     "errorCode": 0}]},
        ms,
    )  # fmt: skip


def responses(made):
    """What the trace answers, in the order of the requests, without the times."""
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
        markers(11, (9, True, 0), topic="orders"),
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
    told = [{"groupId": "g", "errorCode": 0}, {"groupId": "h", "errorCode": 16}]
    deletion = line("DELETE_GROUPS", 2, {"groupsNames": ["g", "h"]}, {"results": told}, 5)
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
    assert len(made.trace) == 2


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (commit(0)[:200], "line 2: no completed request as Kafka logs it"),
        (line("OFFSET_COMMIT", 8, {}, {"topics": []}), "line 2: OFFSET_COMMIT version 8 is not as"),
        (line("JOIN_GROUP", 9, [], {"a": 1}), "line 2: JOIN_GROUP version 9 is not as Kafka logs"),
        (line("OFFSET_FETCH", 8, {"groups": [{}]}, {"groups": [1, 2]}), "line 2: OFFSET_FETCH"),
    ],
)
def test_a_line_that_is_cut_or_changed_is_named(wrong, message, tmp_path):
    with pytest.raises(CoterieError, match=message):
        import_request_log([commit(0), wrong])
    (tmp_path / "broker.log").write_text(f"{commit(0)}\n{wrong}\n")
    told = coterie("trace", "import", "broker.log", "--out", "out", cwd=tmp_path)
    assert told.returncode == 1
    assert "broker.log" in told.stderr
    assert message in told.stderr
    assert "Traceback" not in told.stderr


def test_only_a_vote_that_can_be_tied_needs_a_brokers_way_with_ties():
    join = {"groupId": "g", "memberId": "", "sessionTimeoutMs": 10_000, "rebalanceTimeoutMs": 5,
            "protocolType": "consumer"}  # fmt: skip
    told = {"errorCode": 79, "generationId": -1, "protocolName": None, "leader": "",
            "memberId": "c-1", "members": []}  # fmt: skip

    def config(*names, **given):
        protocols = [{"name": name, "metadata": ""} for name in names]
        log = [line("JOIN_GROUP", 7, join | {"protocols": protocols}, told)]
        return import_request_log(log, given or None).trace[0]["config"]

    assert config("range") == {}
    assert config("range", "roundrobin") == {"coterie.ties": "hash"}
    assert config("range", "roundrobin", **{"coterie.ties": "first"}) == {}
