"""Timelines against Kafka's own decode of the records, and against what a broker logged."""

import csv
import gzip
import json
import re
import struct
from collections import Counter

import pytest

from coterie.insight.groups import flapping
from coterie.insight.question_engine import rows_of
from coterie.insight.questions import explain
from coterie.insight.records.partition_view import read_partitions
from support.commandline import coterie, coterie_ok, fails
from support.golden_data import cases, log, records, wide
from support.insight.broker_session import REQUESTS, SERVER, made_log
from support.insight.models import trusted_since
from support.log_writer import batch, commit_key, commit_value, group_key, group_value
from support.request_lines import line as logged

PARAMETERS = explain.Parameters()


def answer(case, groups=None, parameters=PARAMETERS):
    log_facts = read_partitions([log(case)], groups=groups)
    return [row for view in log_facts for row in rows_of(view, explain, parameters)]


def of_kind(rows, *events):
    return [row for row in rows if row["event"] in events]


def by_hand(case):
    """Group -> its group metadata as (offset, value or None) and commits, in order of the log."""
    result = {}
    for record in records(case):
        key = record.get("key") or {}
        if key.get("type") in ("group_metadata", "offset_commit"):
            group = result.setdefault((record["partition"], key["data"]["group"]), [])
            group.append((key["type"], record))
    return result


TIMELINE = ("generation", "static_replacement", "rewritten", "empty", "deleted")


@pytest.mark.parametrize("case", ["basic", "compacted", "default50", "connect", "transactions"])
def test_each_record_of_a_group_is_an_event_with_who_came_and_went(case):
    by_group = {}
    for row in of_kind(answer(case), *TIMELINE):
        by_group.setdefault(row["group_id"], []).append(row)
    for (_, group), theirs in by_hand(case).items():
        metadata = [record for kind, record in theirs if kind == "group_metadata"]
        rows = by_group.pop(group, [])
        assert [row["log_offset"] for row in rows] == [record["offset"] for record in metadata]
        before = {}
        for row, record in zip(rows, metadata, strict=True):
            value = record["value"] and record["value"]["data"]
            now = {one["memberId"]: one for one in value["members"]} if value else {}
            assert row["timestamp"] == record["timestamp"]
            assert row["position"] == record["batch"]["position"]
            if value is None:
                assert row["event"] == "deleted"
            else:
                assert row["generation"] == value["generation"]
                assert row["member_count"] == len(now)
                check_members(row["causes"], before, now)
            before = now
    assert not by_group


def check_members(causes, before, now):
    """Each new or lost member id is in exactly one cause, and no other id is."""
    new, gone = Counter(), Counter()
    for cause in causes:
        if cause["what"] in ("joined", "present", "restarted", "replaced"):
            new[cause["member_id"]] += 1
            member = now[cause["member_id"]]
            who = member["clientId"], member["clientHost"]
            assert (cause["client_id"], cause["client_host"]) == who
        if cause["what"] in ("restarted", "replaced"):
            gone[cause["detail"]] += 1
        if cause["what"] == "left_or_evicted":
            gone[cause["member_id"]] += 1
    assert new == Counter(now.keys() - before.keys())
    assert gone == Counter(before.keys() - now.keys())


def transactions(case):
    """Each (partition, offset) of a transaction's record -> its marker's place, and the outcome."""
    result, open_records = {}, {}
    for record in records(case):
        producer = record["partition"], record["batch"].get("producer_id")
        if "control" in record:
            outcome = {"COMMIT": "committed", "ABORT": "aborted"}[record["control"]["type"]]
            for place in open_records.pop(producer, ()):
                result[place] = (record["partition"], record["offset"]), outcome
        elif record["batch"].get("is_transactional"):
            place = record["partition"], record["offset"]
            open_records.setdefault(producer, []).append(place)
            result[place] = producer, "open"
    return result


def undone_text(undone):
    """The words about commits without effect; ``undone`` are (transaction, outcome), one each."""
    for word in ("aborted", "open"):
        of = [transaction for transaction, outcome in undone if outcome == word]
        if of:
            offsets = "1 offset" if len(of) == 1 else f"{len(of)} offsets"
            count = len(set(of))
            yield f"{offsets} of {count} {word} transaction{'s' * (count > 1)}"


@pytest.mark.parametrize("case", ["basic", "compacted", "transactions", "connect"])
def test_the_commits_between_are_those_of_the_records(case):
    since, outcomes = trusted_since(case), transactions(case)
    for (_, group), theirs in by_hand(case).items():
        expected, count, undone, was_whole = [], 0, [], True
        for kind, record in [*theirs, ("group_metadata", None)]:
            # A new row begins where compaction ends.
            is_whole = record is None or record["timestamp"] >= (since[record["partition"]] or 0)
            ends_here = kind == "group_metadata" or (is_whole and not was_whole)
            if ends_here and (count or undone):
                expected.append((count, list(undone_text(undone))))
                count, undone = 0, []
            was_whole = is_whole
            if kind == "offset_commit" and record["value"] is not None:
                place = record["partition"], record["offset"]
                of, outcome = outcomes.get(place, (None, "committed"))
                if outcome == "committed":
                    count += 1
                else:
                    undone.append((of, outcome))
        rows = of_kind(answer(case, {group}), "commits")
        assert [row["count"] for row in rows] == [count for count, _ in expected]
        for row, (_, texts) in zip(rows, expected, strict=True):
            assert re.findall(r"\d+ offsets? of \d+ \w+ transactions?", row["cause"]) == texts


def whats(rows):
    return [[cause["what"] for cause in row["causes"]] for row in rows]


def test_a_changed_subscription_is_reported_by_its_topics():
    rows = of_kind(answer("basic", {"grp-resub"}), "generation")
    (cause,) = rows[1]["causes"]
    assert (cause["what"], cause["detail"]) == ("subscription_changed", "+audit +clicks -orders")


def test_a_static_member_that_comes_back_makes_no_generation():
    (row,) = of_kind(answer("basic", {"grp-static-kp"}), "static_replacement")
    assert (row["generation"], row["previous_generation"]) == (2, 2)
    assert whats([row]) == [["replaced"]]
    assert row["causes"][0]["group_instance_id"] == "inst-kp-1"


def test_the_second_step_of_a_cooperative_rebalance_is_reported_from_assignments():
    rows = of_kind(answer("basic", {"grp-java-cooperative-sticky"}), "generation")
    assert whats(rows)[:5] == [
        ["joined"],
        ["joined"],
        ["cooperative_step"],
        ["joined"],
        ["cooperative_step"],
    ]
    assert whats(rows)[5] == ["partitions_appeared"]  # README: a topic grown
    assert rows[5]["causes"][0]["detail"] == "audit:1,2"


@pytest.mark.parametrize("case", cases())
def test_every_group_of_every_log_has_a_life(case):
    rows = answer(case)
    named = {row["group_id"] for row in rows}
    assert {row["group_id"] for row in of_kind(rows, "summary")} == named
    for row in rows:
        assert list(row) == [*explain.FIELDS, "trusted_from"]
        assert row["event"] in explain.EVENTS
        assert row["cause"]


def test_epochs_of_newer_groups_are_those_of_the_records():
    expected = {}
    for record in records("kip848"):
        key = record.get("key") or {}
        if key.get("version") in (3, 11, 17) and record["value"]:
            group = expected.setdefault(key["data"]["groupId"], [])
            group.append((record["offset"], record["value"]["data"]["epoch"]))
    actual = {}
    for row in of_kind(answer("kip848"), "epoch"):
        actual.setdefault(row["group_id"], []).append(row["generation"])
    assert actual == {group: [epoch for _, epoch in rows] for group, rows in expected.items()}


def written(folder, *batches):
    place = folder / "__consumer_offsets-0"
    place.mkdir()
    (place / f"{0:020}.log").write_bytes(b"".join(batches))
    return folder


def generations(*lives):
    """One batch for each (time in ms, generation, member ids; None: a tombstone)."""
    return [
        batch(offset, [(at_ms, group_key(b"g"), None if ids is None else group_value(number, ids))])
        for offset, (at_ms, number, ids) in enumerate(lives)
    ]


def explained(folder, **parameters):
    (view,) = read_partitions([folder])
    return list(explain.rows(view, explain.Parameters(**parameters)))


def test_a_group_that_is_deleted_while_stable_is_no_flapping(tmp_path):
    """Its members did not leave: a tombstone says nothing of them."""
    lives = [
        (minute * 60_000, minute + 1, [b"c-%d" % minute] if minute % 2 == 0 else None)
        for minute in range(8)
    ]
    written(tmp_path, *generations(*lives))
    assert not of_kind(explained(tmp_path), "flapping")
    (view,) = read_partitions([tmp_path])
    view.read(view.record_filter)
    (moves,) = flapping.moves_in(view.histories["g"]).values()
    assert [(move.joins, move.leaves) for move in moves] == [(True, False)] * 4


def test_a_client_that_comes_and_goes_is_flapping_by_the_rule(tmp_path):
    lives = [
        (minute * 60_000, minute + 1, [b"c-%d" % minute] if minute % 2 == 0 else [])
        for minute in range(6)
    ]
    written(tmp_path, *generations(*lives))
    (flap,) = of_kind(explained(tmp_path), "flapping")
    assert (flap["count"], flap["timestamp"], flap["until"]) == (6, 0, 300_000)
    assert not of_kind(explained(tmp_path, flap_window_ms=179_999), "flapping")
    (flap,) = of_kind(explained(tmp_path, flap_window_ms=180_000), "flapping")
    assert flap["count"] == 6  # any four neighbours are within three minutes
    assert not of_kind(explained(tmp_path, flap_count=7), "flapping")
    (client,) = of_kind(explained(tmp_path), "client")
    assert client["cause"] == "c (h): joined 3, left 3"
    assert client["count"] == 6


def test_a_new_member_id_of_one_client_is_a_restart(tmp_path):
    written(tmp_path, *generations((0, 1, [b"a"]), (5, 2, [b"b"])))
    rows = of_kind(explained(tmp_path), "generation")
    cause = rows[1]["causes"][0]
    assert (cause["what"], cause["member_id"], cause["detail"]) == ("restarted", "b", "a")


def test_generations_without_a_record_are_counted_and_a_group_made_anew_is_reported(tmp_path):
    lives = [(0, 4, [b"a"]), (5, 6, [b"a"]), (9, 6, None), (12, 1, [b"a"]), (15, 1, [b"a"])]
    rows = of_kind(explained(written(tmp_path, *generations(*lives))), *TIMELINE)
    assert whats(rows[:2]) == [["joined", "gap"], ["gap", "rejoined"]]
    assert [rows[0]["causes"][1]["detail"], rows[1]["causes"][0]["detail"]] == ["3", "1"]
    events = [row["event"] for row in rows]
    assert events == ["generation", "generation", "deleted", "generation", "rewritten"]
    assert whats([rows[3]]) == [["joined"]]


def test_the_time_without_members_is_from_empty_to_the_next_members(tmp_path):
    # In group_value, the state was entered at 1000.
    lives = [(500, 1, [b"a"]), (1000, 2, []), (4500, 3, [b"b"]), (9000, 4, [])]
    rows = of_kind(explained(written(tmp_path, *generations(*lives))), "empty", "summary")
    assert [row["duration_ms"] for row in rows[:2]] == [3500, None]
    since = "without members for 3.5 s and since 1970-01-01T00:00:09.000Z, at the end of the log"
    assert since in rows[-1]["cause"]


def test_a_long_time_without_members_is_in_hours(tmp_path):
    lives = [(500, 1, [b"a"]), (1000, 2, []), (10_801_000, 3, [b"b"])]
    rows = of_kind(explained(written(tmp_path, *generations(*lives))), "summary")
    assert "without members for 3.0 h" in rows[-1]["cause"]


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    return made_log(tmp_path_factory.mktemp("session"))


def explain_rows(session, group, *options):
    result = coterie_ok("explain", session, "--group", group, *options, "--format", "json")
    rows = json.loads(result.stdout)
    return {row["generation"]: row for row in of_kind(rows, "generation", "empty")}, rows


def gone(row):
    return [
        (cause["client_id"], cause["what"], cause["source"])
        for cause in row["causes"]
        if cause["what"] in ("left", "evicted", "left_or_evicted")
    ]


def test_without_a_brokers_logs_nobody_is_reported_to_have_left(session):
    rows, _ = explain_rows(session, "orders-app")
    assert gone(rows[4]) == [("o3", "left_or_evicted", "records")]
    assert gone(rows[5]) == [("o2", "left_or_evicted", "records")]


def test_the_server_log_tells_who_left_and_who_was_evicted(session):
    rows, _ = explain_rows(session, "orders-app", "--server-log", SERVER)
    assert gone(rows[4]) == [("o3", "evicted", "server log")]  # README: dies without leaving
    assert gone(rows[5]) == [("o2", "left", "server log")]
    assert gone(rows[6]) == [("o1", "left", "server log")]
    assert rows[4]["reason"].endswith("on heartbeat expiration")
    # From "Preparing" at 05:40:47,694 to the assignment at 05:40:47,900.
    assert (rows[2]["duration_ms"], rows[2]["duration_source"]) == (206, "server log")
    rows, _ = explain_rows(session, "pay", "--server-log", SERVER)
    assert "re-joining group during Stable" in rows[3]["reason"]
    assert gone(rows[4]) == [("p2", "evicted", "server log")]
    assert gone(rows[5]) == [("p1", "evicted", "server log")]


def test_the_request_log_tells_who_sent_a_leave_group_and_who_did_not(session):
    rows, _ = explain_rows(session, "orders-app", "--request-log", REQUESTS)
    assert gone(rows[4]) == [("o3", "evicted", "request log")]
    assert gone(rows[5]) == [("o2", "left", "request log")]
    rows, everything = explain_rows(session, "pay", "--request-log", REQUESTS)
    (back,) = of_kind(everything, "static_replacement")  # README: dies, and comes back
    assert [cause["group_instance_id"] for cause in back["causes"]] == ["pay-2"]
    first = [cause for cause in rows[3]["causes"] if cause["what"] == "rejoined_first"]
    # It does not cover the time after the group's last request: no eviction is claimed.
    assert gone(rows[5]) == [("p1", "left_or_evicted", "records")]
    assert first or "cooperative_step" in [cause["what"] for cause in rows[3]["causes"]]


def test_a_join_says_the_clients_own_reason(tmp_path):
    line = {
        "requestHeader": {"requestApiKeyName": "JOIN_GROUP", "requestApiVersion": 9},
        "request": {"groupId": "g", "reason": "rebalance enforced by user"},
        "response": {"errorCode": 0, "memberId": "b", "generationId": 2},
        "totalTimeMs": 5.0,
    }
    requests = tmp_path / "requests.log"
    text = f"[1970-01-01 02:00:00,010] DEBUG Completed request:{json.dumps(line)} (kafka)\n"
    requests.write_text("other\n" + text)
    key, value = commit_key(1, b"g", b"t", 0), commit_value(7, -1, b"m", 5)
    lives = generations((0, 1, [b"a"]), (9, 2, [b"a", b"b"]))
    log = written(tmp_path, *lives, batch(2, [(20, key, value)]))
    rows, _ = explain_rows(log, "g", "--request-log", requests, "--log-zone", "+02:00")
    assert [(c["what"], c["detail"], c["source"]) for c in rows[2]["causes"]] == [
        ("joined", "rebalance enforced by user", "request log")
    ]


def test_the_table_shows_the_life_and_sums_it_up():
    result = coterie_ok("explain", log("basic"), "--group", "grp-del-again")
    assert (
        "ck-74 (127.0.0.1) left or was evicted: perhaps a clean close (last commit 0.1 s before); "
        "no members for 4.424 s"
    ) in result.stdout
    theirs = [r for r in records("basic") if r["key"]["data"].get("group") == "grp-del-again"]
    commits = [r for r in theirs if r["key"]["type"] == "offset_commit" and r["value"]]
    requests = {(r["partition"], r["batch"]["position"]) for r in commits}
    text = f"3 rebalances, {len(requests)} commits of {len(commits)} offsets"
    assert text in result.stdout
    assert result.stderr == ""
    assert not any(line != line.rstrip() for line in result.stdout.splitlines())


def test_as_json_the_rows_are_those_of_the_question():
    result = coterie_ok("explain", log("transactions"), "--format", "json")
    assert json.loads(result.stdout) == answer("transactions")


def test_as_parquet_the_rows_are_those_of_the_question(tmp_path):
    pq = pytest.importorskip("pyarrow.parquet")
    file = tmp_path / "life.parquet"
    coterie_ok("explain", log("kip848"), "--format", "parquet", "--out", file)
    rows = pq.read_table(file, columns=["event", "causes"]).to_pylist()
    expected = [{name: row[name] for name in ("event", "causes")} for row in answer("kip848")]
    assert rows == expected


def test_as_csv_lists_are_json():
    result = coterie_ok("explain", log("basic"), "--group", "grp-resub", "--format", "csv")
    lines = list(csv.DictReader(result.stdout.splitlines()))
    rows = answer("basic", {"grp-resub"})
    assert [json.loads(line["causes"]) for line in lines] == [row["causes"] for row in rows]


def test_a_brokers_log_that_is_cut_or_no_text_is_reported_in_one_line(tmp_path):
    cut = tmp_path / "cut.log"
    cut.write_text('[2026-11-21 05:41:12,707] DEBUG Completed request:{"JOIN_GROUP": "JOIN_GRO"\n')
    fails("explain", log("basic"), "--request-log", cut, says="no completed request")
    binary = tmp_path / "binary.log"
    binary.write_bytes(struct.pack(">q", -2))
    fails("explain", log("basic"), "--server-log", binary, says="binary.log: no line is understood")
    short = tmp_path / "short.log.gz"
    short.write_bytes(gzip.compress(SERVER.read_bytes())[:200])
    fails("explain", log("basic"), "--server-log", short, says="short.log.gz")


@pytest.mark.parametrize(
    ("api", "asked_", "answer"),
    [
        ("JOIN_GROUP", {}, {"errorCode": 0}),
        ("JOIN_GROUP", {"groupId": "g"}, {"errorCode": 0, "generationId": 1}),
        ("JOIN_GROUP", None, {"errorCode": 0}),
        ("JOIN_GROUP", {"groupId": ["g"]}, {"errorCode": 0}),
        ("LEAVE_GROUP", {"groupId": "g", "members": [5]}, {"errorCode": 0}),
        ("CONSUMER_GROUP_HEARTBEAT", {"groupId": "g"}, {"errorCode": 0}),
    ],
)
def test_a_request_that_lacks_what_its_version_has_is_reported_in_one_line(
    api, asked_, answer, tmp_path
):
    requests = tmp_path / "requests.log"
    requests.write_text(f"other\n{logged(api, 0, asked_, answer)}\n")
    says = f"line 2: {api} version 0 is not as Kafka logs it"
    fails("explain", log("basic"), "--request-log", requests, says=says)


def test_a_request_whose_connection_the_broker_closed_tells_of_no_member(tmp_path):
    requests = tmp_path / "requests.log"
    requests.write_text(logged("JOIN_GROUP", 9, {"groupId": "grp-del-again"}, None) + "\n")
    coterie_ok("explain", log("basic"), "--group", "grp-del-again", "--request-log", requests)


def test_a_brokers_log_of_another_kind_is_reported(tmp_path):
    says = (f"{SERVER}: no line is understood, as line 1", "is it the log of this option?")
    fails("explain", log("basic"), "--request-log", SERVER, says=says)
    says = (f"{REQUESTS}: no line is understood, as line 1", says[1])
    fails("explain", log("basic"), "--group", "grp-del-again", "--server-log", REQUESTS, says=says)


def test_a_group_without_a_record_up_to_a_time_is_reported_with_the_time():
    options = ("--group", "grp-del-again", "--at", 1000)
    fails("explain", log("basic"), *options, says="up to 1970-01-01T00:00:01.000Z; ")


def test_corrupt_places_are_left_out_and_reported():
    result = coterie("explain", log("corrupt/group-value-truncated"))
    assert result.returncode == 0
    assert "corrupt place" in result.stderr


@pytest.mark.slow
def test_a_log_of_thousands_of_groups_is_explained():
    result = coterie_ok("explain", wide(), "--format", "json")
    assert result.stdout.count('"event": "summary"') == 2_230  # golden/logs/README.md
