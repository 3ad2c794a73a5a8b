"""One definition of a rebalance: explain, metrics, Prometheus and the report count the same."""

import json

import pytest

from coterie.insight.groups.rebalances import rebalances
from coterie.insight.questions import explain, metrics
from coterie.insight.records.partition_view import read_partitions
from coterie.messages import encode_key, encode_value
from support.commandline import coterie_ok
from support.golden_data import log
from support.insight.lives import commit, life, member, written
from support.insight.models import rebalances_by_hand
from support.log_writer import batch

WHOLE = {
    "instanceId": None, "rackId": None, "clientId": "c", "clientHost": "/h",
    "subscribedTopicNames": ["t"], "subscribedTopicRegex": "", "rebalanceTimeoutMs": 9_000,
    "serverAssignor": None, "classicMemberMetadata": None,
}  # fmt: skip


def newer(at_ms, version, data, **key):
    key = encode_key({"version": version, "data": {"groupId": "g"} | key})
    return at_ms, key, encode_value(version, {"version": 0, "data": data})


def subscribes(at_ms):
    return newer(at_ms, 5, WHOLE, memberId="a")


def epoch(at_ms, number):
    return newer(at_ms, 3, {"epoch": number, "metadataHash": 0})


CASES = ["basic", "default50", "compacted", "connect", "kip848", "transactions"]


@pytest.mark.parametrize("case", CASES)
def test_explain_and_metrics_count_the_same_rebalances(case):
    by_hand = rebalances_by_hand(case)
    explained, counted, alive = {}, {}, set()
    for view in read_partitions([log(case)]):
        for row in explain.rows(view, explain.Parameters()):
            if row["event"] == "summary":
                explained[row["group_id"]] = row["count"]
                assert row["cause"].startswith(f"{row['count']} rebalance")
        for row in metrics.rows(view, metrics.Parameters()):
            if row["topic"] is None:
                alive.add(row["group_id"])
                counted[row["group_id"]] = row["rebalances"]
    assert {group: count for group, count in explained.items() if count} == by_hand
    assert counted == {group: explained[group] for group in alive}


def static(number):
    return member(f"i-{number}", groupInstanceId="i")


@pytest.fixture
def taken_over(tmp_path):
    """One generation; its only member, static `i`, is replaced five times; then a second one."""
    lives = [life(1000 * at, 1, static(at)) for at in range(6)]
    lives.append(life(9000, 2, static(5), member("d")))
    return written(tmp_path, *lives, commit(9500, {0: 7, 1: 8}))


def test_replacements_without_a_generation_are_counted_apart(taken_over):
    result = coterie_ok("explain", taken_over, "--group", "g", "--format", "json")
    rows = json.loads(result.stdout)
    assert [row["event"] for row in rows].count("static_replacement") == 5
    summary, client = rows[-1], next(row for row in rows if row["event"] == "client")
    assert summary["count"] == 2
    result = "2 rebalances, 5 static replacements without one, 1 commit of 2 offsets"
    assert summary["cause"] == result
    assert client["cause"] == "c (h): joined 1, left 0"
    (client,) = [row for row in rows if row["cause"].startswith("i: ")]
    assert client["cause"] == "i: joined 1, replaced 5, left 0"
    assert client["count"] == 1  # the second was made by another one
    table = coterie_ok("explain", taken_over, "--group", "g").stdout
    assert "  i: joined 1, replaced 5, left 0 (1 rebalance)\n" in table


def test_all_faces_show_that_count(taken_over, tmp_path):
    text = coterie_ok("metrics", taken_over).stdout
    assert 'kafka_consumergroup_rebalances_total{consumergroup="g"} 2\n' in text
    pytest.importorskip("jinja2")
    from support.report.pages import report

    page = report(tmp_path, taken_over)
    assert page.overview["g"]["rebalances"] == 2
    assert sum(page.data["rebalances"]["count"]) == 2


def test_a_number_written_again_and_one_that_never_completed_do_not_count(tmp_path):
    lives = [life(0, 1, member("a")), life(5, 1, member("a")), life(9, 4, member("a"))]
    (view,) = read_partitions([written(tmp_path, *lives, life(12, 5), life(13, 5))])
    *_, summary = explain.rows(view, explain.Parameters())
    assert summary["count"] == 3  # generations 1, 4 and the one without members


def test_generations_that_compaction_may_have_taken_are_not_reported_to_have_failed(tmp_path):
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    lives = [(0, 1000, 3), (5, 2000, 9), (8, 3000, 10), (9, 4000, 12)]  # offset, ms, generation
    batches = [batch(offset, [life(at, number, member("a"))]) for offset, at, number in lives]
    (folder / f"{0:020}.log").write_bytes(b"".join(batches[:2]))
    (folder / f"{8:020}.log").write_bytes(b"".join(batches[2:]))
    (view,) = read_partitions([tmp_path])
    assert view.trusted_from_ms == 3000
    rows = [row for row in explain.rows(view, explain.Parameters()) if row["event"] == "generation"]
    assert "compacted or never completed: 5;" in rows[1]["cause"]
    assert "gap" not in [cause["what"] for cause in rows[1]["causes"]]
    assert "generations without a record: 1;" in rows[3]["cause"]
    *_, summary = explain.rows(view, explain.Parameters())
    assert summary["count"] == 2
    since = "since 1970-01-01T00:00:03.000Z; compacted before"
    assert summary["cause"].startswith("2 rebalances, ")
    assert summary["cause"].endswith(since)


def test_rebalances_count_from_the_requested_time_on_over_all_protocols_of_a_group(tmp_path):
    lives = [life(at, at, member("a")) for at in (1, 2, 3)]
    up = [life(9, None), subscribes(9), epoch(9, 3)]
    epochs = [epoch(at, at) for at in (20, 30, 40)]
    written(tmp_path, *lives, up, *epochs)

    def times(**options):
        (view,) = read_partitions([tmp_path], **options)
        found = rebalances(view, view.histories["g"], view.newer_by_group["g"])
        (head,) = metrics.rows(view, metrics.Parameters())
        assert head["rebalances"] == len(found)
        return [row["timestamp"] for row in found]

    # The change of the protocol is none.
    assert times() == [1, 2, 3, 20, 30, 40]
    assert times(since_ms=2) == [2, 3, 20, 30, 40]
    assert times(since_ms=21, at_ms=39) == [30]
    (view,) = read_partitions([tmp_path])
    assert len(rebalances(view, view.histories["g"])) == 3  # the rest is a deletion
    assert len(rebalances(view, None, view.newer_by_group["g"])) == 4
