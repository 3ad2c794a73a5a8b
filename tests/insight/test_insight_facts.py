"""The histories of groups against Kafka's own decode of their records."""

import pytest

from coterie.insight.records.partition_view import read_partitions
from support.golden_data import cases, log, records


def facts_of(case, **options):
    return list(read_partitions([log(case)], **options))


def group_records(case):
    """Group id -> its metadata records (offset, value or None), from Kafka's decode alone."""
    result = {}
    for record in records(case):
        key = record.get("key") or {}
        if key.get("type") == "group_metadata" and "error" not in (record["value"] or {}):
            value = record["value"] and record["value"]["data"]
            result.setdefault(key["data"]["group"], []).append((record["offset"], value))
    return result


@pytest.mark.parametrize("case", cases())
def test_a_life_holds_each_metadata_record_of_its_group(case):
    lives = {group: life for view in facts_of(case) for group, life in view.histories.items()}
    expected = group_records(case)
    if case == "old-formats":  # one group id is in several partitions there
        expected = {group: rows for group, rows in expected.items() if group in lives}
    assert set(lives) == set(expected)
    for group, life in lives.items():
        offsets = [record.log_offset for record in life.records]
        if case != "old-formats":
            assert offsets == [offset for offset, _ in expected[group]]
        assert [row["log_offset"] for row in life.generations] == offsets


@pytest.mark.parametrize("case", ["basic", "connect", "default50", "compacted"])
def test_a_life_knows_the_client_of_each_member_id(case):
    expected = {}
    for group, rows in group_records(case).items():
        for _, value in rows:
            for member in value["members"] if value else ():
                who = (member["clientId"], member["clientHost"], member.get("groupInstanceId"))
                expected.setdefault(group, {})[member["memberId"]] = who
    actual = {
        group: {member: tuple(who) for member, who in life.clients.items()}
        for view in facts_of(case)
        for group, life in view.histories.items()
        if life.clients
    }
    assert actual == expected


def test_only_the_groups_that_are_named_are_read():
    groups = {"grp-kp-range", "grp-java-range"} & set(group_records("basic"))
    groups = groups or set(list(group_records("basic"))[:2])
    actual = {group for view in facts_of("basic", groups=groups) for group in view.group_ids}
    assert actual == groups
    lives = {group for view in facts_of("basic", groups=groups) for group in view.histories}
    assert lives == groups


def test_every_group_with_any_record_is_named():
    expected = set()
    for record in records("kip848"):
        key = record.get("key") or {}
        data = key.get("data") or {}
        expected.add(data.get("group", data.get("groupId")))
    actual = {group for view in facts_of("kip848") for group in view.group_ids}
    assert actual == expected - {None}


def test_progress_is_reported_of_all_bytes():
    class Counts:
        size = done = 0

        def total(self, size_bytes):
            self.size = size_bytes

        def advance(self, size_bytes):
            self.done += size_bytes

    counts = Counts()
    facts_of("basic", progress=counts)
    assert counts.done == counts.size > 0
