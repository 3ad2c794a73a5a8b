"""Lost and repeated records, open transactions, loops and healthy hours, beside recorded truths.

See tests/golden/incidents: `findings` of a `truth.json` is what clients and tools reported.
"""

import json
import re
from itertools import pairwise

import pytest

from support.commandline import coterie, coterie_ok
from support.golden_data import incident, truth
from support.insight.client_commits import commit_answers

SKIPPED = ["skipped-records", "skipped-records-4"]
OPEN = ["open-transactions", "open-transactions-4"]
# No commit shows the reason: a log has neither the end nor the beginning of a topic.
NOT_IN_A_LOG = {
    "seeking": "it seeks over few records: a large poll looks the same",
    "trimmed": "its records were deleted: as if it had read them between two commits",
}


def findings(name, *options):
    """The findings of an incident by `audit`."""
    result = coterie("audit", incident(name) / "log", "--format", "json", *options)
    assert result.returncode in (0, 1), result.stderr
    return json.loads(result.stdout)


def of_kinds(rows, *kinds):
    return [row for row in rows if row["kind"] in kinds]


def true_findings(name, *kinds):
    return of_kinds(truth(name)["findings"], *kinds)


def commits_of(name, group, place):
    """The commits of a place that a group's clients sent, in order."""
    return [row for row in commit_answers(name, group) if place in row["offsets"]]


def by_place(rows):
    """(group, topic, partition) -> the finding and its bounds there."""
    return {
        (row["group_id"], place["topic"], place["partition"]): (row, place)
        for row in rows
        for place in row["partitions"]
    }


def key_of(row):
    return row["group"], row["topic"], row["partition"]


def offset_after(name, expected):
    """The first offset that the group committed after its offsets had expired."""
    place = f"{expected['topic']}-{expected['partition']}"
    removed_ms = expected["removed_between_ms"][1]
    after = [
        row["offsets"][place]
        for row in commits_of(name, expected["group"], place)
        if row["since_ms"] > removed_ms
    ]
    return after[0]


@pytest.mark.parametrize("name", SKIPPED)
def test_records_that_a_group_skipped_are_found_from_the_last_commit_on(name):
    places = by_place(findings(name, "--only", "skip"))
    shown = [row for row in true_findings(name, "skip") if row["group"] not in NOT_IN_A_LOG]
    assert len(shown) == 8
    for row in shown:
        _, bounds = places[key_of(row)]
        assert bounds["lowest_offset"] == row["committed"]
        if row["why"] == "offsets expired":  # the group read on before its next commit
            assert bounds["highest_offset"] == offset_after(name, row) >= row["resumed"]
        else:
            assert bounds["highest_offset"] == row["resumed"]


@pytest.mark.parametrize("name", SKIPPED)
def test_offsets_that_a_tool_set_back_are_found_with_both_offsets(name):
    places = by_place(findings(name, "--only", "rewind"))
    for row in true_findings(name, "repeat"):
        if row["why"] == "kafka-consumer-groups":
            _, bounds = places[key_of(row)]
            assert bounds["lowest_offset"] == row["resumed"]
            assert bounds["highest_offset"] == row["committed"]


@pytest.mark.parametrize("name", SKIPPED)
def test_a_group_that_begins_at_the_earliest_offset_is_found_by_its_first_commit(name):
    """Where that is beyond the removed offset, it looks like a skip, and its detail says so."""
    places = by_place(findings(name, "--only", "rewind", "--only", "skip"))
    expected = [row for row in true_findings(name, "repeat") if row.get("reset") == "earliest"]
    assert len(expected) == 4
    for row in expected:
        found, _ = places[key_of(row)]
        first = offset_after(name, row)
        assert found["kind"] == ("rewind" if first < row["committed"] else "skip")
        assert (found["previous_offset"], found["offset"]) == (row["committed"], first)
        assert "removed at" in found["detail"]
        assert ("read again" in found["detail"]) == (found["kind"] == "skip")


@pytest.mark.parametrize("name", SKIPPED)
def test_a_skip_of_a_group_that_began_at_the_latest_offset_has_no_sign_of_a_second_reading(name):
    """Only if `auto.offset.reset` was earliest, which the log does not have, is there one."""
    rows = findings(name, "--only", "skip", "--group", "away-latest")
    assert rows
    assert all("if auto.offset.reset was earliest" in row["detail"] for row in rows)
    assert not [row for row in rows if "as other partitions" in row["detail"]]


@pytest.mark.parametrize("name", SKIPPED)
def test_only_groups_that_skipped_or_repeated_records_lost_data(name):
    found = {row["group_id"] for row in findings(name) if row["severity"] == "data"}
    affected = {row["group"] for row in true_findings(name, "skip", "repeat")}
    assert found == affected - set(NOT_IN_A_LOG)


@pytest.mark.parametrize("name", SKIPPED)
def test_a_record_that_a_member_cannot_process_is_no_progress_from_its_first_commit_on(name):
    """The partition had moved once before, if at all, so it is no `stall`: see docs/audit.md."""
    places = by_place(findings(name, "--only", "no_progress"))
    for row in true_findings(name, "stall"):
        found, bounds = places[key_of(row)]
        place = f"{row['topic']}-{row['partition']}"
        stood = [
            commit
            for commit in commits_of(name, row["group"], place)
            if commit["offsets"][place] == row["offset"]
        ]
        assert bounds["lowest_offset"] == bounds["highest_offset"] == row["offset"]
        assert stood[0]["since_ms"] <= found["first"] <= stood[0]["at_ms"]
        assert found["count"] >= len(stood) - 1  # in a row
        assert [client["client_id"] for client in found["clients"]] == [row["member"]]
        if row["until_ms"] is not None:
            assert found["last"] < row["until_ms"]


@pytest.mark.parametrize("name", SKIPPED)
def test_no_partition_that_moves_or_has_no_records_is_stalled(name):
    found = findings(name, "--only", "stall", "--stall-for", "10s")
    waits = {"seeking"}  # a slow member that reads one partition after the other
    assert {row["group_id"] for row in found} <= {"stuck", "was-stuck"} | waits


def test_a_partition_that_stands_still_while_others_move_is_a_stall_of_its_owner():
    found = by_place(findings("stalls", "--only", "stall"))
    assert set(found) == {key_of(row) for row in true_findings("stalls", "stall")}
    for row in true_findings("stalls", "stall"):
        finding, bounds = found[key_of(row)]
        place = f"{row['topic']}-{row['partition']}"
        stood = [
            commit
            for commit in commits_of("stalls", row["group"], place)
            if commit["offsets"][place] == row["offset"]
        ]
        assert stood[0]["since_ms"] <= finding["first"] <= stood[0]["at_ms"]
        assert bounds["lowest_offset"] == bounds["highest_offset"] == row["offset"]
        assert [client["client_id"] for client in finding["clients"]] == [row["member"]]
        if row["until_ms"] is not None:
            assert row["until_ms"] <= finding["last"]


def open_groups(name):
    """Group -> the finding of the truth, and the offsets that wait, by place."""
    return {
        group: (row, offsets)
        for row in true_findings(name, "open_transaction")
        for group, offsets in row["groups"].items()
    }


@pytest.mark.parametrize("name", OPEN)
def test_open_transactions_are_found_with_producer_time_and_groups(name):
    found = findings(name, "--only", "open_transaction", "--open-for", "0s")
    expected = open_groups(name)
    assert sorted(row["group_id"] for row in found) == sorted(expected)
    for row in found:
        true, offsets = expected[row["group_id"]]
        assert row["detail"].startswith(f"producer {true['producer_id']} (epoch ")
        assert true["since_ms"] <= row["first"] <= true["until_ms"]
        assert row["count"] == len(offsets)


@pytest.mark.parametrize("name", OPEN)
def test_descriptions_of_groups_have_the_offsets_that_wait_for_a_transaction(name):
    result = coterie_ok("groups", incident(name) / "log", "--describe", "--all-groups")
    found = set()
    for line in (result.stdout + result.stderr).splitlines():
        match = re.fullmatch(r"(\S+) +(\d+) +\d{4}-\S+Z (\S+) +(\d+) +\S+ +(\d+) *", line)
        if match:
            group, producer, topic, partition, offset = match.groups()
            found.add((group, int(producer), f"{topic}-{partition}", int(offset)))
    assert found == {
        (group, true["producer_id"], place, offset)
        for group, (true, offsets) in open_groups(name).items()
        for place, offset in offsets.items()
    }


@pytest.mark.parametrize("name", OPEN)
def test_metrics_count_open_transactions_and_have_their_times(name):
    text = coterie_ok("metrics", incident(name) / "log").stdout
    gauge = r'^coterie_consumergroup_{}{{consumergroup="([^"]+)"}} (\S+)$'
    counts = re.findall(gauge.format("open_transactions"), text, re.M)
    begun = dict(re.findall(gauge.format("open_transaction_start_timestamp_seconds"), text, re.M))
    expected = open_groups(name)
    assert {group for group, count in counts if count != "0"} == set(expected) == set(begun)
    assert {count for group, count in counts if group in expected} == {"1"}
    for group, (true, _) in expected.items():
        assert true["since_ms"] <= round(float(begun[group]) * 1000) <= true["until_ms"]


def highest_set_back(name, expected):
    """The highest offset after which a lower one was committed; `highest` is of what was read."""
    place = f"{expected['topic']}-{expected['partition']}"
    offsets = [row["offsets"][place] for row in commits_of(name, expected["group"], place)]
    return max(before for before, after in pairwise(offsets) if after < before)


def test_a_loop_of_rewinds_is_one_finding_with_its_bounds():
    found = {row["group_id"]: row for row in findings("loops", "--only", "rewind")}
    expected = true_findings("loops", "rewind loop")
    assert len(found) == len(findings("loops", "--only", "rewind"))
    assert set(found) == {row["group"] for row in expected}
    places = by_place(found.values())
    for row in expected:
        _, bounds = places[key_of(row)]
        assert bounds["lowest_offset"] == row["lowest"]
        assert bounds["highest_offset"] == highest_set_back("loops", row) <= row["highest"]


def test_a_loop_of_crashes_is_one_finding_that_counts_each_join_and_leave():
    found = findings("loops", "--only", "flapping")
    expected = {row["group"]: row for row in true_findings("loops", "crash loop")}
    assert sorted(row["group_id"] for row in found) == sorted(expected)
    for row in found:
        true = expected[row["group_id"]]
        assert row["detail"].startswith(f"{true['member']} ")
        assert row["count"] == 2 * true["times"]


def test_groups_without_a_loop_have_no_finding_of_one():
    found = {row["group_id"] for row in findings("loops")}
    assert found == {row["group"] for row in truth("loops")["findings"]}


@pytest.mark.parametrize("name", ["healthy-hours", "healthy-hours-4"])
def test_nothing_is_found_in_ten_healthy_hours_of_a_real_broker(name):
    assert findings(name) == []
