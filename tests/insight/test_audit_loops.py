"""Loops that are one finding, and the order of findings: handmade and random logs, incidents."""

import csv
import io
import json
from collections import defaultdict
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.insight.groups import flapping
from coterie.insight.questions import audit
from coterie.insight.records.partition_view import read_partitions
from coterie.log.folders import find_segments
from support.commandline import coterie, coterie_ok, fails
from support.golden_data import incident, log
from support.insight.lives import commit, life, member, written
from support.insight.pieces import answer_in_pieces
from support.log_writer import batch


def found(folder, *options):
    return json.loads(coterie("audit", folder, "--format", "json", *options).stdout)


def rewinding(group, offsets, partitions=(0,), at_ms=0):
    """Commits of all these partitions, a request a second, at each of the offsets."""
    return [
        commit(at_ms + 1000 * number, dict.fromkeys(partitions, offset), group=group)
        for number, offset in enumerate(offsets)
    ]


def test_a_loop_of_rewinds_is_one_finding_with_its_bounds_and_the_owners(tmp_path):
    owner = member("c-1", clientId="c", held={"t": [0, 1]})
    loop = [90, 100, 80, 100, 85, 100, 80]
    other = member("d-1", clientId="d", held={"t": [2]})
    written(tmp_path, life(0, 1, owner, other), *rewinding(b"g", loop, (0, 1), at_ms=1000))
    (row,) = found(tmp_path)
    assert row["detail"] == (
        "2 partitions of t set back 6 times in 4.0 s, between 80 and 100, by 110 offsets together; "
        "owned by c (h)"
    )
    assert (row["kind"], row["severity"], row["count"]) == ("rewind", "data", 6)
    assert (row["lowest_offset"], row["highest_offset"]) == (80, 100)
    assert (row["first"], row["last"], row["timestamp"]) == (3000, 7000, 7000)
    assert (row["topic"], row["partition"]) == ("t", None)
    assert row["partitions"] == [
        {"topic": "t", "partition": number, "count": 3, "lowest_offset": 80, "highest_offset": 100}
        for number in (0, 1)
    ]
    assert row["members"] == ["c-1"]
    assert [client["client_id"] for client in row["clients"]] == ["c"]


def test_two_rewinds_are_two_findings_and_three_are_a_loop(tmp_path):
    written(tmp_path / "2", *rewinding(b"g", [9, 5, 9, 5]))
    written(tmp_path / "3", *rewinding(b"g", [9, 5, 9, 5, 9, 5]))
    assert [row["detail"] for row in found(tmp_path / "2")] == ["from 9 back to 5, by 4"] * 2
    (row,) = found(tmp_path / "3")
    assert row["detail"] == "set back 3 times in 4.0 s, between 5 and 9, by 12 offsets together"
    assert (row["topic"], row["partition"]) == ("t", 0)


def four_groups(folder):
    """`a` flaps, `b` stands still, `c` is set back once, `d` is set back twice by one request."""
    flaps = [
        life(1000 * at, at + 1, *([member(f"x-{at}")] if at % 2 == 0 else []), group=b"a")
        for at in range(6)
    ]
    commits = [
        *rewinding(b"b", [7] * 12),
        *rewinding(b"c", [5, 4]),
        *rewinding(b"d", [5, 4], (0, 1)),
    ]
    appends = [*([record] for record in flaps), *commits]
    return written(folder, *sorted(appends, key=lambda records: records[0][0]))


def test_findings_come_by_severity_then_by_count_then_by_group(tmp_path):
    rows = found(four_groups(tmp_path))
    assert [(row["group_id"], row["kind"], row["severity"], row["count"]) for row in rows] == [
        ("d", "rewind", "data", 2),
        ("c", "rewind", "data", 1),
        ("b", "no_progress", "progress", 12),
        ("a", "flapping", "cost", 6),
    ]
    severities = [kind.severity for kind in audit.KINDS.values()]
    assert severities == sorted(severities, key=list(audit.SEVERITIES).index)


def test_a_table_begins_with_a_line_for_each_group(tmp_path):
    lines = coterie("audit", four_groups(tmp_path)).stdout.splitlines()
    assert lines[0] == "2 rewind, 1 no_progress, 1 flapping"
    heading = lines[2].split("   ")
    assert [cell.strip() for cell in heading if cell] == [
        "GROUP-ID",
        "DATA LOST OR REPEATED",
        "NO PROGRESS",
        "COST",
        "FIRST",
        "LAST",
        "KINDS",
    ]
    assert [line.split() for line in lines[4:8]] == [
        ["d", "1", "-", "-", "1970-01-01T00:00:01.000Z", "1970-01-01T00:00:01.000Z", "rewind"],
        ["c", "1", "-", "-", "1970-01-01T00:00:01.000Z", "1970-01-01T00:00:01.000Z", "rewind"],
        ["b", "-", "1", "-", "1970-01-01T00:00:00.000Z", "1970-01-01T00:00:11.000Z", "no_progress"],
        ["a", "-", "-", "1", "1970-01-01T00:00:00.000Z", "1970-01-01T00:00:05.000Z", "flapping"],
    ]


def test_top_leaves_the_most_severe_findings_in_every_format(tmp_path):
    folder = four_groups(tmp_path / "log")
    assert [row["group_id"] for row in found(folder, "--top", 2)] == ["d", "c"]
    text = coterie("audit", folder, "--top", 2, "--format", "csv").stdout
    assert [row["group_id"] for row in csv.DictReader(io.StringIO(text))] == ["d", "c"]
    lines = coterie("audit", folder, "--top", 3).stdout.splitlines()
    assert lines[0] == "2 rewind, 1 no_progress, 1 flapping"  # of all
    assert "and 1 more group with findings" in lines
    assert "the first 3 of 4 findings" in lines


def test_excluded_groups_are_left_out_of_every_question(tmp_path):
    folder = four_groups(tmp_path / "log")
    for command in ("audit", "explain", "expire", "growth"):
        done = coterie(command, folder, "--group-exclude", "[ab]", "--format", "json")
        groups = {row["group_id"] for row in json.loads(done.stdout)}
        assert groups <= {"c", "d", None}
        assert "c" in groups
    assert [row["group_id"] for row in found(folder, "--group", "c", "--group-exclude", "d")] == [
        "c"
    ]
    records = coterie_ok("records", folder, "--group-exclude", "[abd]").stdout
    assert {json.loads(line)["key"]["data"]["group"] for line in records.splitlines()} == {"c"}
    listed = coterie_ok("groups", folder, "--list", "--group-exclude", "a", "--group-exclude", "b*")
    assert listed.stdout.split() == ["c", "d"]
    fails("groups", folder, "--list", "--group-exclude", "*", says="leaves out every group")
    page = coterie_ok("report", folder, "--format", "markdown", "--group-exclude", "[!d]").stdout
    assert "## Group d" in page
    assert "## Group c" not in page
    undo = ("undo", folder, "--all-groups", "--at", 500, "--group-exclude", "[abd]")
    assert coterie_ok(*undo).stdout == "c,t,0,5\n"


def test_a_group_that_begins_after_until_is_no_missing_group(tmp_path):
    folder = written(tmp_path, commit(1, {0: 1}), commit(2, {0: 1}, group=b"h"))
    coterie_ok("explain", folder, "--group-exclude", "x", "--until", 1)
    fails("explain", folder, "--group", "h", "--group-exclude", "x", "--until", 1, says="'h'")
    fails("explain", folder, "--group-exclude", "?", says="--group-exclude leaves out every group")


def slow_rewinds(requests):
    """Findings of requests ({partition: offset}, each): (partitions, count, lowest, highest)."""
    last, removed, back, loops = {}, set(), defaultdict(list), defaultdict(list)
    for number, request in enumerate(requests):
        for partition, offset in request.items():
            if offset is None:
                removed.add(partition)
                continue
            if offset < last.get(partition, 0):
                event = number, partition, offset, last[partition]
                if partition in removed:  # a finding of its own
                    loops["removed", number].append(event)
                else:
                    back[partition].append(event)
            last[partition] = offset
            removed.discard(partition)
    for of_partition in back.values():
        for event in of_partition:
            loops[event[0] if len(of_partition) < 3 else "again"].append(event)
    requests = [loop for loop in loops if loop != "again"]
    if len(requests) >= 3:  # of different partitions
        loops["again"] += [event for loop in requests for event in loops.pop(loop)]
    return sorted(
        (
            sorted({partition for _, partition, *_ in events}),
            len(events),
            min(low for *_, low, _ in events),
            max(high for *_, high in events),
        )
        for events in loops.values()
    )


def slow_runs(requests, fewest):
    """The finding of all runs of one offset: (partitions, commits, lowest, highest), if any."""
    runs = []
    for partition in {partition for request in requests for partition in request}:
        offsets = [request[partition] for request in requests if partition in request]
        run = []
        for offset in [*offsets, None]:
            if run and offset != run[-1]:
                if len(run) >= fewest:
                    runs.append((partition, len(run), run[0]))
                run = []
            if offset is not None:
                run.append(offset)
    if not runs:
        return []
    offsets = [offset for *_, offset in runs]
    partitions = sorted({partition for partition, *_ in runs})
    return [(partitions, sum(count for _, count, _ in runs), min(offsets), max(offsets))]


def as_slow(rows):
    return sorted(
        (
            [place["partition"] for place in row["partitions"]],
            row["count"],
            row["lowest_offset"],
            row["highest_offset"],
        )
        for row in rows
    )


REQUESTS = st.lists(
    st.dictionaries(st.integers(0, 2), st.none() | st.integers(0, 3), min_size=1), max_size=24
)


@given(requests=REQUESTS)
def test_rewinds_and_runs_of_random_commits_are_those_of_a_slow_search(tmp_path_factory, requests):
    folder = tmp_path_factory.mktemp("log")
    if not requests:
        return
    appends = [commit(at, request) for at, request in enumerate(requests)]
    written(folder, *appends)
    (view,) = read_partitions([folder])
    rows = list(audit.rows(view, audit.Parameters(no_progress=2)))
    for kind, expected in (
        ("rewind", slow_rewinds(requests)),
        ("no_progress", slow_runs(requests, 2)),
    ):
        assert as_slow(row for row in rows if row["kind"] == kind) == expected


def slow_flapping(points, count, window_ms):
    """Numbers of the points of a flapping client: each (time, whether it joins), alternating."""
    needed = count + count % 2
    inside = set()
    for first in range(len(points)):
        for last in range(first, len(points)):
            run = points[first : last + 1]
            near = run[-1][0] - run[0][0] <= window_ms
            if len(run) == needed and not run[0][1] and run[-1][1] and near:
                inside |= set(range(first, last + 1))
    near = {
        at
        for at in range(len(points))
        for other in (at - 1, at + 1)
        if other in inside and abs(points[at][0] - points[other][0]) <= window_ms
    }
    periods = []
    for at in sorted(inside | near):
        goes_on = periods and at == periods[-1][-1] + 1
        if not goes_on or points[at][0] - points[at - 1][0] > window_ms:
            periods.append([])
        periods[-1].append(at)
    return [period for period in periods if len(period) >= needed + 2]


@given(
    gaps=st.lists(st.integers(0, 6), max_size=14),
    starts=st.booleans(),
    count=st.integers(2, 6),
    window_ms=st.integers(0, 20),
)
def test_the_flapping_of_random_moves_is_that_of_a_slow_search(gaps, starts, count, window_ms):
    times = [sum(gaps[: at + 1]) for at in range(len(gaps))]
    points = [(at_ms, (number % 2 == 0) == starts) for number, at_ms in enumerate(times)]
    cause = {"client_id": "c", "member_id": "m", "group_instance_id": None, "client_host": None}
    moves = [
        flapping.Move(at_ms, joins, not joins, number, {**cause, "what": "joined"}, 0, True)
        for number, (at_ms, joins) in enumerate(points)
    ]
    expected = slow_flapping(points, count, window_ms)
    rows = list(flapping.flaps({"c": moves}, count, window_ms))
    assert [row["count"] for row in rows] == [sum(map(len, expected))] * bool(expected)
    for row in rows:
        assert row["log_offset"] == expected[0][0]
        assert row["last_log_offset"] == expected[-1][-1]
        assert row["periods"] == [(times[period[0]], times[period[-1]]) for period in expected]


@pytest.mark.parametrize("name", ["crash-loop", "static-fight", "two-applications"])
def test_an_incident_of_a_real_broker_has_one_finding_of_a_group_and_kind(name):
    rows = found(incident(name) / "log", "--no-progress", 5)
    stories = [(row["group_id"], row["kind"]) for row in rows]
    assert stories
    assert len(stories) == len(set(stories))


def test_members_that_started_and_stopped_in_the_golden_logs_do_not_flap():
    """No process of these logs was restarted more than once (golden/logs/README.md)."""
    assert not found(log("basic"), "--only", "flapping")


def test_a_finder_decides_which_rows_are_one_finding_and_which_the_time_leaves_out(
    tmp_path, monkeypatch
):
    finding = {"kind": "protocols", "group_id": "g", "timestamp": 0, "log_offset": 0}

    def rows(view, parameters, aggregate):
        assert aggregate is None
        for number in range(5):
            place = {"topic": "t", "partition": number, "timestamp": number}
            yield finding | place | {"detail": f"d{number}", "loop": number % 4 == 0}
        yield finding | {"detail": "old"}
        yield finding | {"detail": "yet", "always": 1}

    monkeypatch.setattr(audit, "FINDERS", (audit.Finder(("protocols",), rows),))
    (view,) = read_partitions([written(tmp_path, commit(1, {0: 1}))], since_ms=1)
    actual = list(audit.rows(view, audit.Parameters()))
    assert [(row["detail"], row["count"], len(row["partitions"])) for row in actual] == [
        ("d1; d2; d3", 3, 3),
        ("d0; d4", 2, 2),
        ("yet", 1, 0),
    ]
    assert all(list(row) == list(audit.FIELDS) for row in actual)


def test_runs_of_one_offset_go_on_over_the_pieces_of_a_log(tmp_path):
    parameters = audit.Parameters(only=("no_progress",), no_progress=2)
    for number, offsets in enumerate(product((1, 2, None), repeat=4)):
        place = tmp_path / str(number) / "__consumer_offsets-0"
        place.mkdir(parents=True)
        for at, offset in enumerate(offsets):
            (place / f"{at:020}.log").write_bytes(batch(at, commit(at, {0: offset})))
        (segments,) = find_segments([place]).partitions().values()
        rows = answer_in_pieces(segments, audit, parameters, {})
        assert as_slow(rows) == slow_runs([{0: offset} for offset in offsets], 2), offsets
