"""What goes into a page right at its bounds, from records that are written for it."""

import json
import zlib
from base64 import b64decode
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from coterie.base.consumer_protocol import assignment
from coterie.insight.questions import audit, expire
from coterie.insight.records.partition_view import GroupHistory, read_partitions
from coterie.messages import encode_key, encode_value
from coterie.report import charts, gather, markdown, ownership, sections, spans
from coterie.report.ownership import MemberBar
from coterie.report.page import page_data, section_data
from coterie.report.sections import Basis
from support.connect_workers import assignment as worker_assignment
from support.connect_workers import state, work
from support.log_writer import batch, commit, commit_key, each, group_key, group_value, marker

BASIS = Basis(now_ms=10_000, retention_ms=1000)


def gathered(folder, **partitions):
    """What a page shows of partitions `p0`, `p1`, ...: (base offset, batches) of each segment."""
    for name, segments in partitions.items():
        place = folder / f"__consumer_offsets-{name[1:]}"
        place.mkdir(parents=True)
        for base_offset, batches in segments:
            (place / f"{base_offset:020}.log").write_bytes(b"".join(batches))
    return gather.gather(read_partitions([folder]), BASIS)


def details(whole):
    """The parts of each group, as the page unpacks them."""
    return [json.loads(zlib.decompress(b64decode(packed))) for packed in whole.details]


def test_a_log_is_from_its_first_record_to_its_newest_and_whole_where_all_partitions_are(tmp_path):
    """Offsets are missing before the last segment, which begins at 500 and at 300."""
    found = gathered(
        tmp_path,
        p0=[(0, each(0, commit(20))), (9, each(9, commit(500), commit(900)))],
        p1=[(0, each(0, commit(10))), (9, each(9, commit(300)))],
    )
    assert (found.from_ms, found.until_ms, found.trusted_from_ms) == (10, 900, 500)
    assert found.compacted == [(0, 500), (1, 300)]
    assert (found.records, found.partitions, found.faults) == (5, 2, 0)
    assert found.group_ids == {"g"}
    # All commits are drawn; requests count where none is missing.
    assert found.commits.as_data() == {
        "span_ms": 100,
        "at": [0, 300, 500, 900],
        "count": [2, 1, 1, 1],
    }
    assert [detail["head"]["requests"] for detail in details(found)] == [2, 1]


def test_the_partitions_with_most_commits_are_drawn_in_order_of_their_number(tmp_path, monkeypatch):
    monkeypatch.setattr(gather, "LINES", 2)
    places = (5, 9, 9, 9, 7, 7, 6)
    records = [commit(at, 10 * at, partition=partition) for at, partition in enumerate(places)]
    (detail,) = details(gathered(tmp_path, p0=[(0, each(0, *records))]))
    names = ("partition", "commits", "at", "value")
    lines = [tuple(line[name] for name in names) for line in detail["lines"]["lines"]]
    assert lines == [(7, 2, [4, 5], [40, 50]), (9, 3, [1, 2, 3], [10, 20, 30])]
    assert detail["lines"]["left_out"] == 2


def test_a_group_committed_last_when_its_latest_partition_did(tmp_path):
    records = [commit(100, partition=0), commit(900, partition=1), commit(500, partition=0)]
    (detail,) = details(gathered(tmp_path, p0=[(0, each(0, *records))]))
    assert detail["head"]["last_commit"] == 900
    assert detail["extent"] == [100, 900]


def test_partitions_stand_as_java_sorts_topics_and_one_may_have_no_time(tmp_path):
    topics = ("\uffff", "\U00010000")  # Java: the first of D800 DC00 stands before FFFF
    records = [
        commit(ms, topic=topic.encode()) for ms, topic in zip((500, 700), topics, strict=True)
    ]
    records += [commit(-1, 5, topic=b"u", committed=-1), (-1, commit_key(1, b"g", b"u", 0), None)]
    (detail,) = details(gathered(tmp_path, p0=[(0, each(0, *records))]))
    rows = [(row[0], row[2], row[4], row[5]) for row in detail["offsets"]["rows"]]
    assert rows == [("u", None, None, 1), (topics[1], 7, 700, 1), (topics[0], 7, 500, 1)]
    assert [line["topic"] for line in detail["lines"]["lines"]] == [topics[1], topics[0]]
    assert detail["head"]["last_commit"] == 700


def test_a_group_of_one_commit_is_drawn_at_its_time(tmp_path):
    (detail,) = details(gathered(tmp_path, p0=[(0, each(0, commit(700, 8)))]))
    assert (detail["extent"], detail["rate"]["at"]) == ([700, 700], [700])
    (line,) = detail["lines"]["lines"]
    assert (line["at"], line["value"]) == ([700], [8])


@pytest.mark.parametrize("most", ["commits", "rebalances"])
def test_commits_and_rebalances_of_all_groups_are_drawn_over_the_same_spans(tmp_path, most):
    """Spans of 500 ms are the shortest of which 240 are enough for a minute and a half."""
    ends = [1_000, 100_000]
    commits, lives = (ends, ends[:1]) if most == "commits" else (ends[:1], ends)
    records = [commit(ms) for ms in commits]
    records += [(ms, group_key(b"g"), group_value(at, [b"m"])) for at, ms in enumerate(lives, 1)]
    data = page_data(gathered(tmp_path, p0=[(0, each(0, *records))]), "title", BASIS)
    for name, times in (("commits", commits), ("rebalances", lives)):
        assert data[name] == {"span_ms": 500, "at": times, "count": [1] * len(times)}


def test_commits_that_an_aborted_transaction_held_are_not_counted_over_time(tmp_path):
    opened = batch(0, [commit(100)], producer_id=5, transactional=True)
    data = [opened, marker(1, 5, 200, commit=False), *each(2, commit(300))]
    found = gathered(tmp_path, p0=[(0, data)])
    assert found.commits.as_data() == {"span_ms": 100, "at": [300], "count": [1]}


# ---- who owned what


@pytest.mark.parametrize(
    ("numbers", "text"),
    [([0, 1, 2], "0-2"), ([0, 2], "0, 2"), ([0, 1, 3, 4, 6], "0-1, 3-4, 6"), ([], "")],
)
def test_numbers_that_follow_one_another_are_a_range(numbers, text):
    assert ownership.ranges(numbers) == text


def test_the_members_that_were_there_longest_are_kept_in_order_of_their_first_bar(monkeypatch):
    monkeypatch.setattr(ownership, "MEMBERS", 2)
    spent = {"a": 5, "b": 1, "c": 9}
    bars = [MemberBar(member, 0, ms, 1, {"t": [0]}) for member, ms in spent.items()]
    found = ownership.timeline(bars, {}, 0)
    assert [row[3] for row in found["members"]] == ["a", "c"]
    assert found["left_out"]["members"] == 1


def life_of(monkeypatch, *times):
    """A life of a record at each time, with one member that holds a partition of `t`."""
    member = {"member_id": "m", "assignment": assignment({"t": [0]})}
    state = {"protocol_type": "consumer", "generation": 1, "members": [member]}
    monkeypatch.setattr(GroupHistory, "state", lambda self, index: state)
    records = [type("Record", (), {"timestamp": time})() for time in times]
    return GroupHistory("g", records, [], {}, False)


def test_a_bar_ends_with_the_next_record_and_the_last_with_the_log(monkeypatch):
    bars = ownership.classic_bars(life_of(monkeypatch, 100, 300), 1000)
    assert [(bar.start_ms, bar.end_ms) for bar in bars] == [(100, 300), (300, 1000)]


def test_a_bar_never_ends_before_it_begins(monkeypatch):
    bars = ownership.classic_bars(life_of(monkeypatch, 100, 50, 80), 60)
    assert [(bar.start_ms, bar.end_ms) for bar in bars] == [(100, 100), (50, 80), (80, 80)]


TOPIC = "A" * 21 + "Q"  # an id whose name no record says


def held(at_ms, member, epoch, numbers, given_up=()):
    """A record of a consumer group's member, with the partitions that it has and gives up."""
    parts = [[{"topicId": TOPIC, "partitions": list(some)}] if some else []
             for some in (numbers, given_up)]  # fmt: skip
    data = {"memberEpoch": epoch, "previousMemberEpoch": 0, "state": 0}
    data |= dict(zip(("assignedPartitions", "partitionsPendingRevocation"), parts, strict=True))
    key = encode_key({"version": 8, "data": {"groupId": "g", "memberId": member}})
    return at_ms, key, encode_value(8, {"version": 0, "data": data})


def test_a_bar_of_a_newer_group_goes_from_a_members_record_to_its_next_one_with_a_time(tmp_path):
    records = [
        held(0, "m", 1, [5, 2]),
        held(0, "m", 2, [7, 1], [3, 0]),  # in the same millisecond: the one before has no bar
        held(2_000, "n", 2, [6]),
        held(-1, "m", 3, [9]),
        held(4_000, "m", 4, [8, 3]),
    ]
    (detail,) = details(gathered(tmp_path, p0=[(0, each(0, *records))]))
    drawn = detail["timeline"]
    bars = [
        (drawn["ids"][bar[5]], *bar[1:4], drawn["assignments"][bar[4]]) for bar in drawn["bars"]
    ]
    assert bars == [
        ("m", 0, 4_000, 2, [2, f"{TOPIC}: 1, 7; to give up {TOPIC}: 0, 3"]),
        ("n", 2_000, 4_000, 2, [1, f"{TOPIC}: 6"]),
        ("m", 4_000, 4_000, 4, [2, f"{TOPIC}: 3, 8"]),
    ]


def test_a_share_groups_member_has_bars_once_it_has_joined_and_each_partition_in_order(tmp_path):
    def record(at_ms, version, data):
        key = encode_key({"version": version, "data": {"groupId": "s", "memberId": "m"}})
        return at_ms, key, encode_value(version, {"version": 0, "data": data})

    def has(at_ms, epoch, *numbers):  # ShareGroupCurrentMemberAssignmentValue
        topics = [{"topicId": TOPIC, "partitions": list(numbers)}]
        data = {"memberEpoch": epoch, "previousMemberEpoch": 0, "state": 0}
        return record(at_ms, 14, data | {"assignedPartitions": topics})

    joined = {"rackId": None, "clientId": "c", "clientHost": "/h", "subscribedTopicNames": ["t"]}
    records = [
        has(100, 1, 4),
        record(200, 10, joined),
        has(300, 2, 5, 1, 3),
        record(400, 10, joined),
    ]
    (detail,) = details(gathered(tmp_path, p0=[(0, each(0, *records))]))
    drawn = detail["timeline"]
    assert [bar[1:4] for bar in drawn["bars"]] == [[300, 400, 2]]
    assert drawn["assignments"] == [[3, f"{TOPIC}: 1, 3, 5"]]
    assert drawn["members"] == [["c", "/h", None, "m"]]


def test_a_worker_of_connect_has_its_connectors_and_their_tasks_in_order():
    given = work(b=[-1, 30, 4, 12, 7, 1], a=[2, -1], c=[5])
    worker = {"subscription": state(0, 7), "assignment": worker_assignment(0, given)}
    held = {"connector a": [], "connector b": [], "tasks of a": [2], "tasks of c": [5]}
    assert ownership.assigned_of("connect", worker) == held | {"tasks of b": [1, 4, 7, 12, 30]}
    assert ownership.assigned_of("connect", worker | {"assignment": b"\0"}) is None
    consumer = {"assignment": assignment({"t": [0]})}
    assert ownership.assigned_of("consumer", consumer) == {"t": [0]}
    assert ownership.assigned_of("other", consumer) is None


def test_a_record_without_a_time_has_no_bar_and_the_last_ones_are_shown(tmp_path, monkeypatch):
    bars = ownership.classic_bars(life_of(monkeypatch, 100, -1, 300), 1000)
    assert [bar.start_ms for bar in bars] == [100, 300]
    monkeypatch.undo()
    monkeypatch.setattr(ownership, "GENERATIONS", 2)
    lives = [(at, group_key(b"g"), group_value(at + 1, [b"m"])) for at in range(3)]
    for count, left_out in ((1, 0), (2, 0), (3, 1)):
        data = {f"p{count}": [(0, each(0, *lives[:count]))]}
        *_, detail = details(gathered(tmp_path / str(count), **data))
        drawn = detail["timeline"]
        assert drawn["left_out"] == {"generations": left_out, "members": 0}
        assert [bar[3] for bar in drawn["bars"]] == [*range(1 + left_out, count + 1)]


# ---- sections


def test_of_more_rows_than_there_is_room_for_the_last_are_shown(tmp_path, monkeypatch):
    monkeypatch.setattr(sections, "ROWS", 2)
    lives = [(at, group_key(b"g"), group_value(at + 1, [b"m"])) for at in range(4)]
    (detail,) = details(gathered(tmp_path, p0=[(0, each(0, *lives))]))
    table = detail["tables"]["causes"]
    assert ([row[1] for row in table["rows"]], table["count"]) == ([3, 4], 4)


def test_the_next_expiry_is_that_of_an_offset_that_is_there(tmp_path):
    gone = (7000, commit_key(1, b"g", b"t", 0), None)
    records = each(0, commit(5000, partition=0), commit(9500, partition=1), gone)
    found = gathered(tmp_path, p0=[(0, records)])
    (row,) = found.overview
    columns = [section.column.name for section in sections.SECTIONS if section.column]
    assert row[len(gather.OVERVIEW) + columns.index("next_expiry")] == 10_500


def test_the_overview_has_the_first_expiry_and_the_number_of_clients_that_flap():
    due = [{"status": expire.DUE, "expires_at": ms} for ms in (9_500, None, 8_200, 9_900)]
    gone = {"status": expire.REMOVED, "expires_at": 100}
    assert sections.next_expiry([*due, gone]) == 8_200
    assert sections.next_expiry([gone, due[1]]) is None
    rows = [
        {"event": event, "cause": f"{client} (h) is flapping: 8 joins and leaves in 35.0 s"}
        for event, client in (
            ("flapping", "a"),
            ("flapping", "b"),
            ("flapping", "a"),
            ("client", "c"),
        )
    ]
    assert (sections.flapping(rows), sections.flapping(rows[3:])) == (2, None)


@pytest.mark.parametrize(
    ("value", "shown"),
    [(2**53, 2**53), (2**53 + 1, str(2**53 + 1)), (-(2**53) - 1, str(-(2**53) - 1)), ("x", "x")],
)
def test_a_number_that_a_double_cannot_hold_is_a_text(value, shown):
    assert sections.exact(value) == shown


def test_each_column_of_a_section_has_a_heading_and_the_kind_by_which_it_is_formatted():
    kinds = {
        section.name: [
            (one["label"], one["kind"]) for one in section_data(section, BASIS)["columns"]
        ]
        for section in sections.SECTIONS
    }
    assert kinds["causes"] == [
        ("Time", "time"), ("Generation", "number"), ("Members", "number"), ("Event", "text"),
        ("Cause", "text"), ("No assignment", "text"),  # a text of its own, as "< 0.2 s"
    ]  # fmt: skip
    assert kinds["expiry"] == [
        ("Topic", "text"), ("Partition", "number"), ("Status", "text"), ("Rule", "text"),
        ("Counted from", "time"), ("Expires", "time"), ("In", "duration"), ("Removed", "time"),
    ]  # fmt: skip
    data = page_data(gather.Gathered(), "title", BASIS)
    assert [(one["name"], one["kind"]) for one in data["counted"]] == [
        ("flapping", "number"), ("next_expiry", "minute"), ("findings", "number"),
    ]  # fmt: skip
    assert data["columns"] == [*gather.OVERVIEW, *(one["name"] for one in data["counted"])]
    assert [one["name"] for one in data["sections"]] == ["causes", "clients", "expiry", "findings"]
    assert data["title"] == "title"


# ---- spans


def points(start_ms, end_ms, span_ms):
    return end_ms // span_ms - start_ms // span_ms + 1


@pytest.mark.parametrize("end_ms", [2399, 2400, 2499, 2500, 11_999, 12_000, 10**9, 10**12])
def test_a_span_is_the_shortest_that_gives_no_more_points_than_asked_for(end_ms):
    span_ms = spans.span_of(0, end_ms, 24)
    assert points(0, end_ms, span_ms) <= 24
    shorter = [one for one in spans.LADDER if one < span_ms]
    assert not shorter or points(0, end_ms, shorter[-1]) > 24


def test_each_span_is_a_small_multiple_of_the_one_before_and_the_last_is_enough_for_all_times():
    steps = [divmod(longer, shorter) for shorter, longer in pairwise(spans.LADDER)]
    assert {rest for _, rest in steps} == {0}
    assert max(times for times, _ in steps) <= 10
    assert (spans.LADDER[0], spans.DAY) == (100, 24 * 60 * 60 * 1000)
    assert spans.LADDER[-1] * spans.POINTS > (1 << 63)


def test_counts_go_on_in_a_longer_span_as_the_times_spread():
    counts = spans.SpanCounts(points=4)
    for times in ([100, 150, 399], [1000, 1499, 1500, -1]):
        counts.add(np.array(times, dtype=np.int64))
    assert counts.as_data() == {"span_ms": 500, "at": [0, 1000, 1500], "count": [3, 2, 1]}


@pytest.mark.parametrize(("points", "at"), [(5, [0, 40, 60, 110, 190]), (4, [60, 190])])
def test_a_line_has_all_its_values_or_the_last_of_each_span(tmp_path, monkeypatch, points, at):
    monkeypatch.setattr(charts, "POINTS", points)
    times = [0, 40, 60, 110, 190]
    (detail,) = details(gathered(tmp_path, p0=[(0, each(0, *map(commit, times, times)))]))
    (line,) = detail["lines"]["lines"]
    assert (line["at"], line["value"], line["sampled"]) == (at, at, points == 4)


@pytest.mark.parametrize("far", [2**53, -(2**53), 2**53 + 1, -(2**53) - 1])
def test_a_line_has_offsets_as_texts_where_a_double_cannot_hold_them(tmp_path, far):
    records = [commit(20, 7), commit(30, far)]
    (detail,) = details(gathered(tmp_path, p0=[(0, each(0, *records))]))
    (line,) = detail["lines"]["lines"]
    assert line["value"] == [7, far if abs(far) <= 2**53 else str(far)]
    assert charts.exact_list(np.zeros(0, np.int64)) == []


def test_the_greatest_time_has_its_span_too(tmp_path):
    last = 2**63 - 1
    (detail,) = details(gathered(tmp_path, p0=[(0, each(0, commit(0), commit(last)))]))
    rate = detail["rate"]
    assert rate["count"] == [1, 1]
    assert (rate["at"][0], last - rate["at"][1] < rate["span_ms"]) == (0, True)
    assert last // rate["span_ms"] < 240


def test_of_many_findings_the_most_severe_are_shown():
    (section,) = [section for section in sections.SECTIONS if section.name == "findings"]
    rows = [
        dict.fromkeys(audit.FIELDS) | {"kind": kind, "severity": "data", "detail": str(number)}
        for kind in ("rewind", "flapping")
        for number in range(300)
    ]
    table = sections.table_of(section, rows)
    assert table["count"] == 600
    details = [row[list(section.fields).index("detail")] for row in table["rows"]]
    assert details == [*map(str, range(300)), *map(str, range(200))]
    assert section_data(section, Basis(0, 0))["left_out"] == "less severe row"
    lines = list(markdown.section_lines(section, table, None, Basis(0, 0)))
    assert "500 less severe rows are left out.\n\n" in lines


# ---- the first time that there is


def test_time_0_is_a_time_like_any_other(tmp_path):
    life = (0, group_key(b"g"), group_value(3, [b"m"]))
    found = gathered(tmp_path, p0=[(0, each(0, life, commit(0, 7, committed=90)))])
    (detail,) = details(found)
    (line,) = detail["lines"]["lines"]
    assert (found.from_ms, found.until_ms) == (0, 0)
    assert found.commits.as_data() == {"span_ms": 100, "at": [0], "count": [1]}
    assert found.rebalances.as_data() == {"span_ms": 100, "at": [0], "count": [1]}
    assert (detail["extent"], detail["rate"]["at"], detail["rate"]["count"]) == ([0, 0], [0], [1])
    assert (line["at"], line["value"]) == ([0], [7])
    assert [bar[1:4] for bar in detail["timeline"]["bars"]] == [[0, 0, 3]]


def test_a_commit_whose_record_has_no_time_is_drawn_at_the_time_in_its_value(tmp_path):
    records = [
        commit(-1, 5, committed=40),
        commit(250, 6, committed=90),
        commit(-1, 7, committed=120),
    ]
    (detail,) = details(gathered(tmp_path, p0=[(0, each(0, *records))]))
    (line,) = detail["lines"]["lines"]
    assert (line["at"], line["value"]) == ([40, 120, 250], [5, 7, 6])
    assert (detail["rate"]["at"], detail["rate"]["count"]) == ([0, 100, 200], [1, 1, 1])


@pytest.mark.parametrize(
    "parts",
    [
        [[1_700_000_000_123], [1_700_000_000_456]],
        [[1_700_000_000_123, 1_700_000_000_150], [1_700_000_009_456, 1_700_000_000_199]],
        [[1_700_000_009_456, 1_700_000_001_000], [1_700_000_000_123], [1_700_000_001_099]],
        [[0], [0, 99], [10_000]],
        [[50_000], [], [0]],
        [[7 * 86_400_000 - 1], [7 * 86_400_000]],
    ],
)
def test_counts_taken_or_merged_in_any_order_are_those_of_the_shortest_span_that_fits(parts):
    """Counted by hand in spans from 1970 on, of which four are enough for all times."""
    times = [time for part in parts for time in part]
    span_ms = next(s for s in spans.LADDER if points(min(times), max(times), s) <= 4)
    expected = Counter(time // span_ms * span_ms for time in times)
    taken, merged = spans.SpanCounts(points=4), spans.SpanCounts(points=4)
    for part in parts:
        taken.add(np.array(part, dtype=np.int64))
        one = spans.SpanCounts(points=4)
        one.add(np.array(part, dtype=np.int64))
        merged.merge(one)
    data = {
        "span_ms": span_ms,
        "at": sorted(expected),
        "count": [*map(expected.get, sorted(expected))],
    }
    assert taken.as_data() == merged.as_data() == data


@pytest.mark.parametrize(
    ("span_given_ms", "span_ms", "at", "count"),
    [
        (None, 500, [1500, 3000], [2, 1]),
        (100, 500, [1500, 3000], [2, 1]),
        (500, 500, [1500, 3000], [2, 1]),
        (1000, 1000, [1000, 3000], [2, 1]),
        (5000, 5000, [0], [3]),
    ],
)
def test_counts_are_shown_in_a_longer_span_if_it_is_given(span_given_ms, span_ms, at, count):
    counts = spans.SpanCounts(points=4)
    counts.add(np.array([3001, 1500, 1999], dtype=np.int64))
    assert counts.as_data(span_given_ms) == {"span_ms": span_ms, "at": at, "count": count}


# ---- names and numbers of an assignment


def test_an_assignment_names_topics_in_order_and_those_to_give_up_after_them():
    assigned = {"u": [3, 4, 9], "connector c": [], "t": [0]}
    text = "connector c; t: 0; u: 3-4, 9"
    assert ownership.assignment_text(assigned) == (4, text)
    given_up = {"z": [1, 2], "a": [5]}
    assert ownership.assignment_text(assigned, given_up) == (
        4,
        f"{text}; to give up a: 5; to give up z: 1-2",
    )
    assert ownership.assignment_text({}) == (0, "")
    assert ownership.assignment_text(None) == (None, "")


def test_lanes_are_kept_by_the_time_of_all_their_bars_far_from_1970(monkeypatch):
    monkeypatch.setattr(ownership, "MEMBERS", 1)
    day = 1_700_000_000_000
    bounds = [("late", 9_000, 9_999), ("a", 0, 600), ("early", 0, 998), ("a", 2_000, 2_500)]
    bars = [MemberBar(name, day + at, day + to, 1, {"t": [0]}) for name, at, to in bounds]
    found = ownership.timeline(bars, {}, 5)
    assert [row[3] for row in found["members"]] == ["a"]
    assert [bar[1:3] for bar in found["bars"]] == [[day, day + 600], [day + 2000, day + 2500]]
    assert found["left_out"] == {"generations": 5, "members": 2}


def test_a_group_without_any_time_is_drawn_at_0(tmp_path):
    found = gathered(tmp_path, p0=[(0, each(0, commit(-1, 5, committed=-1)))])
    (detail,) = details(found)
    assert (found.from_ms, found.until_ms, found.records) == (None, None, 1)
    assert (detail["extent"], detail["rate"]["at"]) == ([0, 0], [])
    assert detail["head"]["commits"] == 1
