"""Findings against what plain Python finds in Kafka's own decode, and against live brokers."""

import json
import shlex
from collections import defaultdict
from itertools import pairwise

import pytest

from coterie.insight.groups import epochs
from coterie.insight.offsets.divergence import Live, read_live
from coterie.insight.questions import audit
from coterie.insight.records import group_replay
from coterie.insight.records.partition_view import read_partitions
from support.commandline import coterie, coterie_ok, fails
from support.golden_data import json_of, log, records, wide
from support.insight.models import question_rows
from support.log_writer import batch, commit_key, commit_value, group_key, group_value, marker

CASES = ["basic", "transactions", "compacted", "default50", "kip848", "compression-lz4"]
LIVE = ["basic", "transactions", "compacted", "default50", "connect", "kip848"]
LIVE += [f"compression-{codec}" for codec in ("gzip", "snappy", "lz4", "zstd")]


def answer(case, groups=None, **parameter_values):
    parameters = audit.Parameters(**parameter_values)
    return question_rows(log(case), audit, parameters, groups=groups)


def committed(case):
    """Key -> its commits and tombstones in log order, except aborted and undecided ones."""
    result, pending, outcome = list(records(case)), defaultdict(list), {}
    for index, record in enumerate(result):
        producer = record["partition"], record["batch"]["producer_id"]
        if "control" in record:
            for one in pending.pop(producer, ()):
                outcome[one] = record["control"]["type"]
        elif record["batch"]["is_transactional"]:
            pending[producer].append(index)
            outcome[index] = "OPEN"
    keys = defaultdict(list)
    for index, record in enumerate(result):
        counts = outcome.get(index, "COMMIT") == "COMMIT" and "control" not in record
        if counts and record["key"]["type"] == "offset_commit":
            data = record["key"]["data"]
            keys[data["group"], data["topic"], data["partition"]].append(record)
    return keys


def offset_of(record):
    return record["value"] and record["value"]["data"]["offset"]


def stories(found):
    """Findings as (group, its partitions with their bounds, count, last record)."""
    return sorted(
        (
            row["group_id"],
            [tuple(place.values()) for place in row["partitions"]],
            row["count"],
            row["log_offset"],
        )
        for row in found
    )


def finding_of(group, events):
    """A finding of events (topic, partition, count, lowest, highest, log offset), as above."""
    places = defaultdict(list)
    for topic, partition, *event in events:
        places[topic, partition].append(event)
    bounds = [
        (
            *place,
            sum(count for count, *_ in of_place),
            min(low for _, low, *_ in of_place),
            max(high for *_, high, _ in of_place),
        )
        for place, of_place in sorted(places.items())
    ]
    return group, bounds, sum(event[2] for event in events), max(event[-1] for event in events)


@pytest.mark.parametrize("least", [1, 5])
@pytest.mark.parametrize("case", CASES)
def test_rewinds_are_the_commits_below_the_one_before(case, least):
    """Three of a partition are a loop, with the other loops of its group; others by request.

    Rewinds across a removal are also one finding per request, but never with the other rewinds.
    """
    loops = defaultdict(list)
    for (group, *place), of_key in committed(case).items():
        commits = [number for number, record in enumerate(of_key) if offset_of(record) is not None]
        for at, number in enumerate(commits[1:]):
            before, record = of_key[commits[at]], of_key[number]
            if number - commits[at] > 1 and offset_of(before) - offset_of(record) >= least:
                request = record["partition"], record["segment"], record["batch"]["position"]
                event = (*place, 1, offset_of(record), offset_of(before), record["offset"])
                loops[group, ("removed", *request)].append(event)
        back = [
            (before, record)
            for before, record in pairwise(of_key)
            if None not in (offset_of(before), offset_of(record))
            and offset_of(before) - offset_of(record) >= least
        ]
        for before, record in back:
            request = record["partition"], record["segment"], record["batch"]["position"]
            loop = request if len(back) < 3 else "again"
            event = (*place, 1, offset_of(record), offset_of(before), record["offset"])
            loops[group, loop].append(event)
    for group in {group for group, _ in loops}:  # three requests of a group are a loop, too
        requests = [key for key in loops if key[0] == group and key[1] != "again"]
        if len(requests) >= 3:
            loops[group, "again"] += [event for key in requests for event in loops.pop(key)]
    expected = [finding_of(group, events) for (group, _), events in loops.items()]
    found = answer(case, only=("rewind",), rewind_by=least)
    assert stories(found) == sorted(expected)


def test_the_reset_that_kafkas_tool_made_is_one_finding_with_its_record():
    (row,) = answer("basic", {"grp-reset-cli"}, only=("rewind",))
    assert [(place["topic"], place["partition"]) for place in row["partitions"]] == [
        ("orders", partition) for partition in range(6)
    ]
    assert (row["topic"], row["partition"], row["lowest_offset"]) == ("orders", None, 0)
    (record,) = [
        record
        for record in records("basic")
        if record["partition"] == row["offsets_partition"] and record["offset"] == row["log_offset"]
    ]
    assert record["key"]["data"]["group"] == "grp-reset-cli"
    assert record["timestamp"] == row["timestamp"]
    assert record["batch"]["position"] == row["position"]
    assert row["file"].endswith(f"-{record['partition']}/{record['segment']}")


@pytest.mark.parametrize("fewest", [2, 5, 10])
@pytest.mark.parametrize("case", CASES)
def test_commits_without_progress_are_runs_of_one_offset(case, fewest):
    """All runs of a group are one finding."""
    runs = defaultdict(list)
    for (group, *place), of_key in committed(case).items():
        run = []
        for record in [*of_key, None]:
            if run and (record is None or offset_of(record) != offset_of(run[-1])):
                if len(run) >= fewest:
                    offset = offset_of(run[-1])
                    runs[group].append((*place, len(run), offset, offset, run[-1]["offset"]))
                run = []
            if record is not None and record["value"] is not None:
                run.append(record)
    expected = [finding_of(group, events) for group, events in runs.items()]
    assert stories(answer(case, only=("no_progress",), no_progress=fewest)) == sorted(expected)


@pytest.mark.parametrize("limit", [0, 3, 20])
@pytest.mark.parametrize("case", ["basic", "transactions", "connect"])
def test_large_metadata_is_counted_by_partition_in_bytes(case, limit):
    expected = {}
    for record in records(case):
        if record.get("key") and record["key"]["type"] == "offset_commit" and record["value"]:
            data = record["key"]["data"]
            size = len(record["value"]["data"]["metadata"].encode("utf-8", "surrogatepass"))
            if size > limit:
                key = data["group"], data["topic"], data["partition"]
                expected.setdefault(key, []).append((size, -record["offset"]))
    found = answer(case, only=("large_metadata",), metadata_bytes=limit)
    actual = {row["group_id"]: row for row in found}
    assert len(actual) == len(found)
    assert {
        (group, place["topic"], place["partition"]): place["count"]
        for group, row in actual.items()
        for place in row["partitions"]
    } == {key: len(of_key) for key, of_key in expected.items()}
    for group, row in actual.items():
        largest = max(max(sizes) for key, sizes in expected.items() if key[0] == group)
        assert row["log_offset"] == -largest[1]
        assert row["detail"].startswith(f"{largest[0]} bytes")


@pytest.mark.parametrize("case", ["basic", "default50", "transactions", "connect", "kip848"])
def test_generation_gaps_are_the_numbers_that_no_record_has(case):
    lives = defaultdict(list)
    for record in records(case):
        if "control" not in record and record["key"]["type"] == "group_metadata":
            lives[record["key"]["data"]["group"]].append(record)
    expected = defaultdict(list)
    for group, of_group in lives.items():
        for before, record in pairwise(of_group):
            if before["value"] and record["value"]:
                old, new = (r["value"]["data"]["generation"] for r in (before, record))
                if new > old + 1 or new < old:
                    expected[group].append((abs(new - old - 1), before["offset"], record["offset"]))
    rows = answer(case, only=("generation_gap",))
    assert {
        (row["group_id"], row["count"], row["previous_log_offset"], row["log_offset"])
        for row in rows
    } == {
        (group, sum(gap[0] for gap in gaps), gaps[0][1], gaps[-1][2])
        for group, gaps in expected.items()
    }
    assert case != "basic" or expected


def test_a_group_id_that_two_protocol_types_share_is_found():
    (row,) = answer("connect", only=("protocols",))
    types = [
        (record["value"]["data"]["protocolType"], record["offset"])
        for record in records("connect")
        if record["key"]["data"] == {"group": row["group_id"]} and record["value"]
    ]
    first = next(offset for kind, offset in types if kind != types[0][0])
    assert row["group_id"] == "typed-then-left"
    assert row["log_offset"] == first
    # Both have an empty client id.
    host = "a client (127.0.0.1)"
    assert row["detail"] == f"leaver/p by {host}, then connect/p by {host}"
    assert [row["group_id"] for row in answer("kip848", only=("protocols",))] == ["downgraded"]
    # grp-del-again was deleted, then created again with another assignor.
    assert not answer("basic", only=("protocols",))


EXPECTED = {  # golden/logs/README.md: where the live brokers differed from the log
    "basic": {"grp-kp-roundrobin"},
    "transactions": {"tx-timed-out"},
    "compression-snappy": {"mirror-009"},
}


def live_of(case):
    count = len({record["partition"] for record in records(case)})
    partitions = len(list(log(case).glob("__consumer_offsets-*")))
    assert count <= partitions
    return Live(read_live(log(case) / "live" / "admin.json"), partitions)


@pytest.mark.parametrize("case", LIVE)
def test_a_live_broker_differs_where_the_golden_data_say_and_nowhere_else(case):
    rows = answer(case, only=("divergence",), live=live_of(case))
    assert {row["group_id"] for row in rows} == EXPECTED.get(case, set())


def changed(case, group, **fields):
    groups = {g["group_id"]: dict(g) for g in json_of(case, "live/admin.json")["groups"]}
    groups[group] |= fields
    return Live(groups, None)


def test_the_first_record_that_a_live_offset_does_not_follow_is_named():
    of_key = committed("basic")["grp-reset-cli", "orders", 3]
    offsets = json_of("basic", "live/admin.json")["groups"]
    (offsets,) = [g["offsets"] for g in offsets if g["group_id"] == "grp-reset-cli"]
    behind = [
        one | ({"offset": 43} if (one["topic"], one["partition"]) == ("orders", 3) else {})
        for one in offsets
    ]
    live = changed("basic", "grp-reset-cli", offsets=behind)
    (row,) = answer("basic", {"grp-reset-cli"}, only=("divergence",), live=live)
    assert (row["offset"], row["previous_offset"]) == (0, 43)
    assert [offset_of(record) for record in of_key[-2:]] == [43, 0]
    assert row["log_offset"] == of_key[-1]["offset"]
    without = [one for one in offsets if (one["topic"], one["partition"]) != ("orders", 3)]
    live = changed("basic", "grp-reset-cli", offsets=without)
    (row,) = answer("basic", {"grp-reset-cli"}, only=("divergence",), live=live)
    assert row["detail"] == "an offset in the log, none live"


def test_a_member_that_is_gone_live_is_named_with_the_record_that_brought_it():
    group = "grp-java-range"
    (live_group,) = [
        g for g in json_of("basic", "live/admin.json")["groups"] if g["group_id"] == group
    ]
    gone = live_group["members"][0]["member_id"]
    live = changed("basic", group, members=live_group["members"][1:])
    (row,) = answer("basic", {group}, only=("divergence",), live=live)
    assert row["detail"] == f"member {gone} in the log, not live"
    last = [
        record["offset"]
        for record in records("basic")
        if record["key"]["data"] == {"group": group} and record["key"]["type"] == "group_metadata"
    ][-1]
    assert row["log_offset"] <= last
    host = [live_group["members"][0] | {"client_host": "/10.0.0.1"}, *live_group["members"][1:]]
    (row,) = answer(
        "basic", {group}, only=("divergence",), live=changed("basic", group, members=host)
    )
    assert "client_host /127.0.0.1 in the log, /10.0.0.1 live" in row["detail"]


def static_value(generation, member_id):
    """As `group_value`, its one member static: instance `i`."""
    value = group_value(generation, [member_id])
    at = value.rindex(member_id) + len(member_id)
    assert value[at : at + 2] == b"\xff\xff"
    return value[:at] + b"\0\1i" + value[at + 2 :]


def made_log(folder, times=(1000, 2000, 3000, 4000)):
    """Group `s`, whose static member is taken over at each time; `g` rewinds, then stays there."""
    folder = folder / "__consumer_offsets-0"
    folder.mkdir()

    def commit(time, offset):
        return time, commit_key(1, b"g", b"t", 0), commit_value(offset, -1, b"m" * 9, time)

    parts = [
        batch(i, [(time, group_key(b"s"), static_value(1, b"m%d" % i))])
        for i, time in enumerate(times)
    ]
    at = len(parts)
    parts += [
        batch(at, [commit(4100, 9), commit(4110, 9), commit(4120, 9)]),
        batch(at + 3, [commit(4130, 3)], producer_id=5, transactional=True),
        marker(at + 4, 5, 4140, commit=False),
        batch(
            at + 5, [(4150, commit_key(1, b"g", b"t", 0), None), commit(4160, 2), commit(4170, 1)]
        ),
    ]
    (folder / f"{0:020}.log").write_bytes(b"".join(parts))
    return folder.parent


def test_a_static_id_is_fought_over_if_it_changes_hands_within_the_window(tmp_path):
    folder = made_log(tmp_path)
    arguments = ("audit", folder, "--only", "static_fight", "--format", "json")
    (row,) = json.loads(coterie(*arguments).stdout)
    assert (row["group_instance_id"], row["count"], row["log_offset"]) == ("i", 3, 3)
    assert row["previous_log_offset"] == 1  # the first takeover of the window
    assert json.loads(coterie_ok(*arguments, "--window", "1999ms").stdout) == []
    assert json.loads(coterie_ok(*arguments, "--takeovers", 4).stdout) == []
    assert coterie(*arguments, "--window", "2s").returncode == 1


def test_an_aborted_commit_is_no_rewind_but_one_across_a_removal_is(tmp_path):
    result = coterie("audit", made_log(tmp_path), "--group", "g", "--format", "json")
    rows = json.loads(result.stdout)
    changes = [(row["kind"], row["previous_offset"], row["offset"]) for row in rows]
    assert changes == [("rewind", 9, 2), ("rewind", 2, 1)]
    assert rows[0]["detail"] == "from 9, removed at 1970-01-01T00:00:04.150Z, back to 2, by 7"


def test_exit_status_1_means_that_something_was_found(tmp_path):
    folder = made_log(tmp_path)
    result = coterie("audit", folder)
    assert result.returncode == 1
    assert result.stdout.startswith("2 rewind, 1 static_fight\n")
    assert result.stderr == ""
    result = coterie_ok("audit", folder, "--except", "rewind", "--except", "static_fight")
    assert result.stdout == "nothing found\n"
    assert coterie("audit", folder, "--group", "g", "--no-progress", 3).stdout.count("no_progress")
    assert "8 bytes" not in coterie("audit", folder, "--metadata-bytes", 9).stdout
    assert coterie("audit", folder, "--metadata-bytes", 8).stdout.count("large_metadata") == 3


def test_a_live_state_is_compared_through_the_process(tmp_path):
    case, out = "compression-snappy", tmp_path / "out.csv"
    live = log(case) / "live" / "admin.json"
    result = coterie("audit", log(case), "--live", live, "--only", "divergence")
    assert result.returncode == 1
    assert "state: Stable in the log, PreparingRebalance live" in result.stdout
    assert "first differing record:" in result.stdout
    one = next(log(case).glob("__consumer_offsets-1"))
    result = coterie(
        "audit", one, "--live", live, "--only", "divergence", "--format", "csv", "-o", out
    )
    assert result.returncode == 1
    assert "not all partitions" in result.stderr
    assert out.read_text().count("mirror-009") == 4
    gzip = log("compression-gzip")
    coterie_ok("audit", gzip, "--live", gzip / "live" / "admin.json", "--only", "divergence")


def test_as_json_it_has_the_rows_of_the_question():
    live = log("basic") / "live" / "admin.json"
    result = coterie("audit", log("basic"), "--live", live, "--format", "json")
    expected = audit.in_order(answer("basic", live=live_of("basic")))
    for row in (rows := json.loads(result.stdout)):
        row["file"] = row["file"] and row["file"].rpartition("basic/")[2]
    for row in expected:
        row["file"] = row["file"] and row["file"].rpartition("basic/")[2]
    assert rows == expected
    assert list(rows[0]) == [*audit.FIELDS, "trusted_from"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "not JSON"),
        ("[]", "no live state"),
        ('{"groups": {}}', "no live state"),
        ('{"groups": [{"group_id": "a"}, {"id": "g"}]}', "group 1"),
        ('{"groups": [{"group_id": "g", "members": 5}]}', "members must be a list"),
        ('{"groups": [{"group_id": "g", "offsets": [{"topic": "t"}]}]}', "lacks"),
    ],
)
def test_a_live_file_that_is_none_is_reported_in_one_line(text, says, tmp_path):
    file = tmp_path / "live.json"
    file.write_text(text)
    fails("audit", made_log(tmp_path), "--live", file, says=(file, says))


def test_the_epochs_of_a_group_are_replayed_once_for_all_findings(monkeypatch):
    replayed = []

    def counting(records):
        replayed.extend(dict.fromkeys(record.group for record in records))
        return group_replay.replay(records)

    monkeypatch.setattr(epochs, "replay", counting)
    rows = [row for view in read_partitions([log("kip848")]) for row in
            audit.rows(view, audit.Parameters())]  # fmt: skip
    assert rows
    assert sorted(replayed) == sorted(set(replayed))
    assert replayed


def test_a_log_of_a_million_records_is_gone_through():
    result = coterie("audit", wide(), "--format", "json")
    assert result.returncode == 1
    assert {row["kind"] for row in json.loads(result.stdout)} == {"rewind", "flapping"}


def test_the_way_back_from_a_rewind_is_a_command_that_restores_what_was_before(tmp_path):
    """A loop has none, nor have offsets that were removed before they were committed again."""
    lines = coterie("audit", log("basic"), "--group", "grp-reset-cli").stdout.splitlines()
    command = lines[lines.index("the way back from a rewind:") + 1]
    assert command.startswith("coterie undo ")
    restored = coterie_ok(*shlex.split(command)[1:]).stdout
    assert "orders,0,40\norders,1,41\norders,2,42\n" in restored
    removed = coterie("audit", log("basic"), "--only", "skip").stdout
    assert "the way back" not in removed
