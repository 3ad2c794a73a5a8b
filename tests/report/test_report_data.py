"""What a page shows of a log against what Kafka's own decode of it gives by hand."""

import json
from collections import Counter
from pathlib import Path

import pytest

from coterie.messages import encode_key, encode_value
from support.commandline import coterie
from support.golden_data import json_of, log, records
from support.insight.lives import commit, written
from support.insight.models import commits_by_hand, offsets_at, rebalances_by_hand
from support.log_writer import batch, commit_key, commit_value
from support.report.pages import report

pytest.importorskip("jinja2")
CASES = ["basic", "default50", "transactions", "kip848", "compacted"]


@pytest.fixture(scope="module", params=CASES)
def case(request):
    return request.param


@pytest.fixture(scope="module")
def page(case, tmp_path_factory):
    return report(tmp_path_factory.mktemp(case), log(case))


def names(record):
    data = (record.get("key") or {}).get("data") or {}
    return {data.get("group"), data.get("groupId")} - {None}


def committed(case):
    """(key, record) of each commit that counts, in log order of its own append."""
    held, waiting = [], {}
    for record in records(case):
        producer = record["partition"], record["batch"]["producer_id"]
        if "control" in record:
            theirs = waiting.pop(producer, [])
            held += theirs if record["control"]["type"] == "COMMIT" else []
        elif record["key"]["type"] == "offset_commit" and record["value"] is not None:
            data = record["key"]["data"]
            one = ((data["group"], data["topic"], data["partition"]), record)
            if record["batch"]["is_transactional"]:
                waiting.setdefault(producer, []).append(one)
            else:
                held.append(one)
    return held


def test_every_group_with_a_record_has_a_row_and_its_own_page(case, page):
    expected = {name for record in records(case) for name in names(record)}
    assert set(page.overview) == expected
    assert [page.detail(group)["head"]["group"] for group in page.overview] == list(page.overview)


def test_groups_that_kafka_loads_have_its_state_and_members_and_others_are_gone(case, page):
    loaded = {group["group_id"]: group for group in json_of(case, "groups.json")["groups"]}
    for group, row in page.overview.items():
        if group in loaded:
            assert row["state"] == loaded[group]["state"]
            assert row["members"] == len(loaded[group]["members"])
        elif not group.startswith(("share-", "streams-")):  # not listed there
            assert row["state"] == "Gone"


def test_commits_and_rebalances_are_counted_as_by_hand(case, page):
    by_group = Counter()
    for (group, _, _), count in commits_by_hand(case).items():
        by_group[group] += count
    assert {group: row["commits"] for group, row in page.overview.items() if row["commits"]} == (
        by_group
    )
    generations = rebalances_by_hand(case)
    for group, row in page.overview.items():
        if row["rebalances"]:
            assert row["rebalances"] == generations[group]
    assert sum(page.data["rebalances"]["count"]) == sum(generations.values())


def test_counts_by_span_are_those_of_the_records_times(case, page):
    times = [(key[0], record["timestamp"]) for key, record in committed(case)]
    whole = page.data["commits"]
    span = whole["span_ms"]
    assert dict(zip(whole["at"], whole["count"], strict=True)) == Counter(
        ms // span * span for _, ms in times
    )
    for group in page.overview:
        rate = page.detail(group)["rate"]
        span = rate["span_ms"]
        assert dict(zip(rate["at"], rate["count"], strict=True)) == Counter(
            ms // span * span for name, ms in times if name == group
        )


def points_of(line):
    return list(zip(line["at"], map(int, line["value"]), strict=True))


def test_lines_hold_every_committed_offset_where_there_are_few(case, page):
    expected = {}
    for (group, topic, partition), record in committed(case):
        point = record["timestamp"], record["value"]["data"]["offset"]
        expected.setdefault(group, {}).setdefault((topic, partition), []).append(point)
    for group in page.overview:
        lines = page.detail(group)["lines"]
        assert lines["left_out"] == 0
        assert not any(line["sampled"] for line in lines["lines"])
        found = {(line["topic"], line["partition"]): points_of(line) for line in lines["lines"]}
        for key, points in found.items():
            theirs = sorted(expected[group][key], key=lambda point: point[0])
            assert points == theirs
        assert set(found) == set(expected.get(group, {}))


def test_offsets_at_the_end_are_those_of_the_log(case, page):
    latest = offsets_at(case)
    found = {
        (group, topic, partition): (int(offset), metadata, time)
        for group in page.overview
        for topic, partition, offset, metadata, time, _ in page.detail(group)["offsets"]["rows"]
        if offset is not None
    }
    assert found == {
        key: (value["offset"], value["metadata"], value["commitTimestamp"])
        for key, value in latest.items()
    }


def words(assignment):
    """An assignment as a set of partitions; None: not of topics."""
    if not assignment:
        return frozenset()
    topics = assignment["data"]["assignedPartitions"]
    return frozenset((one["topic"], number) for one in topics for number in one["partitions"])


def unsaid(text):
    """Partitions of "orders: 0-2, 5; clicks: 1"."""
    found = set()
    for part in filter(None, text.split("; ")):
        topic, _, numbers = part.rpartition(": ")
        for run in numbers.split(", "):
            first, _, last = run.partition("-")
            found |= {(topic, number) for number in range(int(first), int(last or first) + 1)}
    return frozenset(found)


def bars_by_hand(case):
    """Group -> {(member, start, generation, partitions)} of its metadata records."""
    found = {}
    for record in records(case):
        if (record.get("key") or {}).get("type") == "group_metadata" and record["value"]:
            value = record["value"]["data"]
            if value["protocolType"] == "consumer":
                found.setdefault(record["key"]["data"]["group"], set()).update(
                    (
                        *(member["memberId"], record["timestamp"], value["generation"]),
                        words(member["assignment_decoded"]),
                    )
                    for member in value["members"]
                )
    return found


def newer_bars_by_hand(case):
    """Group -> {(member, start, epoch, number of partitions)} of its members' own records."""
    last = {}
    for record in records(case):
        key = record.get("key") or {}
        if key.get("type") == "consumer_group_current_member_assignment":
            place = key["data"]["groupId"], key["data"]["memberId"], record["timestamp"]
            last[place] = record["value"] and record["value"]["data"]
    found = {}
    for (group, member, start), value in last.items():
        if value is not None:
            count = sum(len(topic["partitions"]) for topic in value["assignedPartitions"])
            found.setdefault(group, set()).add((member, start, value["memberEpoch"], count))
    return found


def bars_of(page, group):
    """The bars of a page as (member, start, end, generation, number of partitions, text)."""
    timeline = page.detail(group)["timeline"]
    assert timeline["left_out"] == {"generations": 0, "members": 0}
    for lane, start, end, generation, assignment, member in timeline["bars"]:
        told = timeline["assignments"][assignment]
        assert (
            timeline["members"][lane][2] or timeline["members"][lane][3] == timeline["ids"][member]
        )
        yield timeline["ids"][member], start, end, generation, *told


def test_bars_say_who_owned_which_partitions_from_when(case, page):
    classic, newer = bars_by_hand(case), newer_bars_by_hand(case)
    assert classic or newer
    for group in set(classic) - set(newer):
        bars = list(bars_of(page, group))
        found = {(who, start, number, unsaid(text)) for who, start, _, number, _, text in bars}
        assert found == classic[group]
        starts = sorted({start for _, start, _, _ in found})
        for _, start, end, *_ in bars:
            later = [ms for ms in starts if ms > start]
            assert not later or end <= later[0]
    for group, expected in newer.items():
        bars = bars_of(page, group)
        found = {(who, start, number, count) for who, start, _, number, count, _ in bars}
        assert expected <= found
        assert group in classic or found == expected


def test_a_bar_goes_on_where_a_record_of_its_member_cannot_be_read(tmp_path):
    folder = tmp_path / "log" / "__consumer_offsets-0"
    folder.mkdir(parents=True)
    key = encode_key({"version": 8, "data": {"groupId": "g", "memberId": "m"}})
    held = [{"topicId": "A" * 21 + "Q", "partitions": [0, 1]}]
    data = {"memberEpoch": 1, "previousMemberEpoch": 0, "state": 0, "assignedPartitions": held}
    data["partitionsPendingRevocation"] = []
    value = encode_value(8, {"version": 0, "data": data})
    pairs = [(1000, key, value), (2000, key, value[:5]), (3000, key[:-1], value), (4000, key, None)]
    (folder / f"{0:020}.log").write_bytes(b"".join(batch(n, [p]) for n, p in enumerate(pairs)))
    bars = [bar[:5] for bar in bars_of(report(tmp_path, folder), "g")]
    assert bars == [("m", 1000, 4000, 1, 2)]


def test_the_bar_of_a_member_that_is_there_goes_on_to_the_last_record_of_the_log(tmp_path):
    folder = tmp_path / "log" / "__consumer_offsets-0"
    folder.mkdir(parents=True)
    topics = [{"topicId": "A" * 21 + "Q", "partitions": [0, 1]}]
    data = {"memberEpoch": 1, "previousMemberEpoch": 0, "state": 0, "assignedPartitions": topics}
    data["partitionsPendingRevocation"] = []
    value = encode_value(8, {"version": 0, "data": data})
    pairs = [
        (at_ms, encode_key({"version": 8, "data": {"groupId": group, "memberId": "m"}}), value)
        for at_ms, group in ((1000, "g"), (9000, "h"))
    ]
    (folder / f"{0:020}.log").write_bytes(b"".join(batch(n, [p]) for n, p in enumerate(pairs)))
    page = report(tmp_path, folder)
    assert [bar[:5] for bar in bars_of(page, "g")] == [("m", 1000, 9000, 1, 2)]
    assert [bar[:5] for bar in bars_of(page, "h")] == [("m", 9000, 9000, 1, 2)]


def test_causes_are_those_of_the_log(tmp_path):
    page = report(tmp_path, log("basic"), "--group", "grp-java-cooperative-sticky")
    rows = page.section("grp-java-cooperative-sticky", "causes")
    generations = [row for row in rows if row["Event"] == "generation"]
    joined = [row["Generation"] for row in generations if row["Cause"].endswith("joined")]
    hosts = {
        record["value"]["data"]["generation"]: {
            member["memberId"] for member in record["value"]["data"]["members"]
        }
        for record in records("basic")
        if names(record) == {"grp-java-cooperative-sticky"}
        and record["key"]["type"] == "group_metadata"
    }
    assert [row["Generation"] for row in generations] == list(hosts)
    assert joined == [n for n in hosts if hosts[n] - hosts.get(n - 1, set())]


def test_findings_name_the_record_that_goes_back(tmp_path):
    page = report(tmp_path, log("basic"), "--group", "grp-reset-cli")
    last, expected = {}, set()
    for (group, topic, partition), record in committed("basic"):
        if group == "grp-reset-cli":
            offset = record["value"]["data"]["offset"]
            if offset < last.get((topic, partition), 0):
                expected.add((topic, partition, record["offset"], record["timestamp"]))
            last[topic, partition] = offset
    # One request set all of them back: one finding, with its last record.
    (row,) = page.section("grp-reset-cli", "findings")
    assert row["Detail"].startswith(f"{len(expected)} partitions of orders set back at once")
    last_offset, last_ms = max(place[2:] for place in expected)
    assert (row["Topic"], row["Log offset"], row["Time"]) == ("orders", last_offset, last_ms)
    assert page.overview["grp-reset-cli"]["findings"] == 1


@pytest.mark.parametrize("count", [3, 10, 12])
def test_a_page_begins_with_the_ten_most_severe_findings_of_all_groups(tmp_path, count):
    """``coterie audit`` has the same order; the groups lie in several partitions."""
    for number in range(count):
        group = b"g%02d" % number
        offsets = (100, 40, *[40] * (12 if number % 3 else 0))
        rewound = [commit(at, {0: offset}, group=group) for at, offset in enumerate(offsets)]
        written(tmp_path / "log", *rewound, number=number)
    page = report(tmp_path, tmp_path / "log")
    audited = json.loads(coterie("audit", tmp_path / "log", "--format", "json").stdout)
    assert len(audited) > count
    found = page.data["findings"]
    assert found["count"] == len(audited)
    (section,) = [one for one in page.data["sections"] if one["name"] == "findings"]
    names = [column["name"] for column in section["columns"]]
    rows = [
        {"group_id": group} | dict(zip(names, row, strict=True)) for group, row in found["rows"]
    ]
    assert rows == [{name: row[name] for name in ("group_id", *names)} for row in audited[:10]]
    assert set(page.data["severities"]) == {"data", "progress", "cost"}


def commits_log(folder, count, step_ms):
    """One partition whose offset goes on by one in each step; offset 2**60 at the end."""
    place = folder / "__consumer_offsets-0"
    place.mkdir()
    key = commit_key(1, b"g", b"t", 0)
    triples = [
        (1_000_000 + step_ms * n, key, commit_value(n, -1, b"", 1_000_000 + step_ms * n))
        for n in range(count)
    ]
    last = 1_000_000 + step_ms * count
    triples.append((last, key, commit_value(1 << 60, -1, b"", last)))
    (place / f"{0:020}.log").write_bytes(batch(0, triples))
    return folder


def test_a_long_line_is_the_last_commit_of_each_span_and_says_so(tmp_path):
    page = report(tmp_path, commits_log(tmp_path, 5_000, 700))
    detail = page.detail("g")
    (line,) = detail["lines"]["lines"]
    span = detail["lines"]["span_ms"]
    last = {}
    for n in range(5_000):
        last[(1_000_000 + 700 * n) // span] = (1_000_000 + 700 * n, n)
    last[(1_000_000 + 700 * 5_000) // span] = (1_000_000 + 700 * 5_000, 1 << 60)
    assert line["sampled"]
    assert line["commits"] == 5_001
    assert points_of(line) == list(last.values())
    assert len(line["at"]) <= 240
    assert line["value"][-1] == str(1 << 60)  # a double could not hold it
    assert sum(detail["rate"]["count"]) == 5_001


def test_state_as_of_a_time_and_one_group(tmp_path):
    at_ms = 1795237385000
    page = report(tmp_path, log("basic"), "--group", "grp-reset-cli", "--at", at_ms)
    assert list(page.overview) == ["grp-reset-cli"]
    offsets = {tuple(row[:3]) for row in page.detail("grp-reset-cli")["offsets"]["rows"]}
    assert offsets == {
        (topic, partition, value["offset"])
        for (group, topic, partition), value in offsets_at("basic", at_ms).items()
        if group == "grp-reset-cli"
    }


def test_expiry_is_judged_at_the_time_and_retention_that_are_given(tmp_path):
    now_ms = 1795237397000 + 3_600_000
    page = report(tmp_path, log("basic"), "--now", now_ms, "--retention", "1h")
    (section,) = [one for one in page.data["sections"] if one["name"] == "expiry"]
    assert "2026-11-21 06:03:17.000 UTC under a retention of 1h" in section["description"]
    latest = offsets_at("basic")
    rows = [row for row in page.section("grp-assign-java", "expiry") if row["Removed"] is None]
    assert {(row["Topic"], row["Partition"]): row["Expires"] for row in rows} == {
        (topic, partition): value["commitTimestamp"] + 3_600_000
        for (group, topic, partition), value in latest.items()
        if group == "grp-assign-java"
    }
    first = min(row["Expires"] for row in rows)
    assert page.overview["grp-assign-java"]["next_expiry"] == first


@pytest.mark.parametrize("file", ["ends.csv", "ends.txt"])
def test_the_lag_is_that_of_the_command_at_the_last_end_offsets(tmp_path, file):
    ends = ("--end-offsets", Path(__file__).parents[1] / "insight" / "ends" / file)
    page = report(tmp_path, log("basic"), *ends)
    done = coterie("lag", log("basic"), *ends, "--latest", "--format", "json")
    rows = json.loads(done.stdout)
    assert rows
    for group, overview in page.overview.items():
        expected = [row for row in rows if row["group_id"] == group]
        shown = page.section(group, "lag")
        assert [(row["Topic"], row["Partition"], row["End"], row["Lag"]) for row in shown] == [
            (row["topic"], row["partition"], row["end_offset"], row["lag"]) for row in expected
        ]
        known = [row["lag"] for row in expected if row["lag"] is not None]
        assert overview["lag"] == (sum(known) if known else None)


def test_without_end_offsets_a_page_has_no_lag_and_log_until_is_for_them(tmp_path):
    page = report(tmp_path, log("basic"))
    assert "lag" not in page.data["columns"]
    assert "lag" not in [section["name"] for section in page.data["sections"]]
    refused = coterie("report", log("basic"), "-o", "page.html", "--log-until", 1, cwd=tmp_path)
    assert (refused.returncode, "--log-until is for --end-offsets" in refused.stderr) == (2, True)
