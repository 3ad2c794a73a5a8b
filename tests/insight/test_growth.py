"""Bytes and records of each group against Kafka's own decode, counted by plain Python."""

import json
from collections import Counter, defaultdict
from fractions import Fraction

import pytest

from coterie._core.codec.batch import LogReader
from coterie.insight.questions import growth
from coterie.insight.records.partition_view import PartitionView
from coterie.log.folders import find_segments
from support.commandline import coterie_ok
from support.golden_data import cases, lines_of, log, records, segments, wide
from support.insight.models import question_rows
from support.insight.pieces import answer_in_pieces
from support.log_writer import batch, commit_key, commit_value, group_key, group_value, marker

SUMS = ("superseded", "free", "held_transaction", "held_active")


def answer(case, groups=None, **parameter_values):
    parameters = growth.Parameters(**parameter_values)
    return question_rows(log(case), growth, parameters, groups=groups)


def place_of(row):
    return row["offsets_partition"], row["group_id"], row["topic"], row["kind"]


def owner(record):
    """(partition, group, topic, kind) of a record, from Kafka's decode."""
    if "control" in record:
        return record["partition"], None, None, "marker"
    key = record["key"]
    if "data" not in key:
        return record["partition"], None, None, "unknown"
    data = key["data"]
    if key["type"] == "offset_commit":
        return record["partition"], data["group"], data["topic"], "commits"
    kind = "group" if key["type"] == "group_metadata" else "newer"
    return record["partition"], data.get("group", data.get("groupId")), None, kind


def shares(case):
    """(partition, segment, offset) -> the record's exact share of its batch on disk."""
    result = {}
    for path in segments(case):
        number = int(path.parent.name.rpartition("-")[2])
        for read_batch in LogReader(path.read_bytes()):
            weights = [max(len(r.key or b"") + len(r.value or b""), 1) for r in read_batch.records]
            for record, weight in zip(read_batch.records, weights, strict=True):
                share = Fraction(read_batch.size * weight, sum(weights))
                result[number, path.name, record.offset] = share
    return result


def outcomes(partition_records):
    """Index of each transactional record -> its producer's next marker, None: undecided."""
    ends, pending = {}, defaultdict(list)
    for index, record in enumerate(partition_records):
        producer = record["partition"], record["batch"]["producer_id"]
        if "control" in record:
            for one in pending.pop(producer, ()):
                ends[one] = record["control"]["type"]
        elif record["batch"]["is_transactional"]:
            pending[producer].append(index)
            ends[index] = None
    return ends


def by_hand(case):
    """Counts by owner, as the cleaner would: a loop over the records of one partition."""
    result, weight = list(records(case)), shares(case)
    ends = outcomes(result)
    counts = defaultdict(Counter)
    for number in {record["partition"] for record in result}:
        mine = [i for i, record in enumerate(result) if record["partition"] == number]
        last = [p.name for p in segments(case) if p.parent.name.endswith(f"-{number}")][-1]
        active = next((i for i in mine if result[i]["segment"] == last), mine[-1] + 1)
        undecided = next((i for i in mine if i in ends and ends[i] is None), mine[-1] + 1)

        def dead(bound, mine=mine):
            """What a cleaner removes that may read up to `bound`."""
            newest, gone = {}, set()
            for i in mine:
                if i >= bound or "control" in result[i] or "data" not in result[i]["key"]:
                    continue
                if ends.get(i, "COMMIT") == "COMMIT":
                    key = json.dumps([result[i]["key"]["type"], result[i]["key"]["data"]])
                    gone |= {newest[key]} if key in newest else set()
                    newest[key] = i
                elif ends[i] == "ABORT":
                    gone.add(i)
            return gone

        every, closed, now = dead(mine[-1] + 1), dead(active), dead(min(active, undecided))
        for i in mine:
            count = counts[owner(result[i])]
            count["records"] += 1
            where = number, result[i]["segment"], result[i]["offset"]
            count["bytes"] += weight[where]
            count["tombstones"] += result[i].get("key") is not None and result[i]["value"] is None
            count["superseded_records"] += i in every
            count["superseded_bytes"] += weight[where] * (i in every)
            count["free_bytes"] += weight[where] * (i in now)
            count["held_transaction_bytes"] += weight[where] * (i in closed - now)
            count["held_active_bytes"] += weight[where] * (i in every - closed)
    return counts


WHOLE = [
    case for case in cases() if case != "old-formats"
]  # there a wrapper is one batch for many records


@pytest.mark.parametrize("case", WHOLE)
def test_each_group_and_topic_has_what_the_records_say(case):
    expected = by_hand(case)
    rows = {place_of(row): row for row in answer(case) if row["kind"] != "empty_batch"}
    assert set(rows) == set(expected)
    for place, row in rows.items():
        assert list(row) == [*growth.FIELDS, "trusted_from"]
        for name, count in expected[place].items():
            if name.endswith("_bytes") or name == "bytes":
                assert abs(row[name] - count) <= row["records"]  # whole bytes
            else:
                assert row[name] == count, (place, name)
        parts = ("free_bytes", "held_transaction_bytes", "held_active_bytes")
        assert row["superseded_bytes"] == sum(row[name] for name in parts)


def test_the_golden_logs_show_each_thing_that_holds_compaction():
    rows = answer("compacted")
    for name in ("free_bytes", "held_transaction_bytes", "held_active_bytes"):
        assert sum(row[name] for row in rows) > 0


@pytest.mark.parametrize("case", cases())
def test_all_bytes_are_those_of_the_batches_on_disk(case):
    size, count = Counter(), Counter()
    for line in lines_of(case, "batches.jsonl.gz"):
        size[line["partition"]] += line["size"]
        count[line["partition"]] += line.get("count", 1) > 0
    actual, requests = Counter(), Counter()
    for row in answer(case):
        actual[row["offsets_partition"]] += row["bytes"]
        requests[row["offsets_partition"]] += row["requests"]
    assert +actual == size
    if case != "compacted":  # there the header's count is from before the cleaning
        assert sum(requests.values()) == sum(count.values())


def test_a_groups_share_is_the_same_whether_it_is_asked_for_alone():
    everything = answer("compacted")
    for group in ("c-hot1", "c-tx4"):
        assert answer("compacted", {group}) == [r for r in everything if r["group_id"] == group]


def test_an_open_transaction_is_named_by_its_first_record():
    (row_with_transaction,) = [row for row in answer("compacted") if row["open_transactions"]]
    first = {}
    actual = list(records("compacted"))
    for index, end in outcomes(actual).items():
        if end is None:
            first.setdefault(actual[index]["batch"]["producer_id"], actual[index])
    assert row_with_transaction["group_id"] == "c-tx4"
    for one in row_with_transaction["open_transactions"]:
        record = first.pop(one["producer_id"])
        assert one["log_offset"] == record["offset"]
        assert one["timestamp"] == record["timestamp"]
        assert one["position"] == record["batch"]["position"]
        assert one["file"].endswith(f"-{record['partition']}/{record['segment']}")
    assert not first


@pytest.mark.parametrize("case", ["basic", "default50", "transactions"])
def test_how_often_a_group_commits_is_the_mean_over_its_partitions(case):
    times = defaultdict(list)
    for record in records(case):
        if "control" not in record and record["value"] and owner(record)[3] == "commits":
            times[(*owner(record), record["key"]["data"]["partition"])].append(record["timestamp"])
    passed, count = Counter(), Counter()
    for (*place, _), of_partition in times.items():
        passed[tuple(place)] += of_partition[-1] - of_partition[0]
        count[tuple(place)] += len(of_partition) - 1
    for row in answer(case, interval_ms=500):
        place = place_of(row)
        expected = passed[place] / count[place] if count[place] else None
        assert row["interval_ms"] == (None if expected is None else pytest.approx(expected))
        assert row["too_often"] == (count[place] >= 10 and expected < 500)
    assert any(row["too_often"] for row in answer("basic", interval_ms=60_000))


def test_over_time_the_spans_add_up():
    whole = {place_of(row): row for row in answer("basic")}
    sums = defaultdict(Counter)
    for row in answer("basic", every_ms=5000):
        if row["time"] is not None:
            assert row["time"] % 5000 == 0
            assert row["time"] <= row["first_timestamp"] <= row["last_timestamp"]
            assert row["last_timestamp"] < row["time"] + 5000
        sums[place_of(row)].update({name: row[name] for name in ("records", "bytes", "requests")})
    assert set(sums) == set(whole)
    for place, count in sums.items():
        assert dict(count) == {name: whole[place][name] for name in count}


def made_log(folder):
    """Two segments: the first has a superseded commit, an aborted one, an undecided one."""
    folder = folder / "__consumer_offsets-0"
    folder.mkdir()

    def commit(partition, time):
        return time, commit_key(1, b"g", b"t", partition), commit_value(7, -1, b"", time)

    first = [
        batch(0, [commit(0, 100)]),
        batch(1, [commit(1, 100)], producer_id=4, transactional=True),
        marker(2, 4, 110, commit=False),
        batch(3, [commit(0, 120)]),
        batch(4, [commit(2, 130)], producer_id=5, transactional=True),
        batch(5, [commit(0, 140)]),
    ]
    second = [batch(6, [commit(0, 150)])]
    (folder / f"{0:020}.log").write_bytes(b"".join(first))
    (folder / f"{6:020}.log").write_bytes(b"".join(second))
    return folder.parent, [len(part) for part in (*first, *second)]


def test_what_is_superseded_is_freed_only_where_the_cleaner_may_go(tmp_path):
    folder, sizes = made_log(tmp_path)
    result = coterie_ok("growth", folder, "--group", "g", "--format", "json")
    (row,) = json.loads(result.stdout)
    assert row["superseded_records"] == 4  # 0, the aborted 1, 3 and 5
    assert row["free_bytes"] == sizes[0] + sizes[1]  # 3 comes after 0, before the undecided 4
    assert row["held_transaction_bytes"] == sizes[3]  # superseded by 5, which comes after 4
    assert row["held_active_bytes"] == sizes[5]  # superseded by 6, in the active segment
    assert [one["log_offset"] for one in row["open_transactions"]] == [4]


def test_the_tables_say_the_whole_the_biggest_and_what_is_open(tmp_path):
    folder, sizes = made_log(tmp_path)
    output = coterie_ok("growth", folder).stdout
    assert f"{sum(sizes):,} bytes, 7 records in 7 batches" in output
    assert f"would free {sizes[0] + sizes[1]:,} bytes now" in output
    assert "open transactions: nothing after them is compacted" in output
    assert "(no group)" in output
    assert "the biggest 1 of 2" in coterie_ok("growth", folder, "--top", 1).stdout
    over_time = coterie_ok("growth", log("basic"), "--every", "10s").stdout
    assert over_time.count("2026-11-21T05:0") == 4


def log_of_each_kind(folder):
    """A segment with each kind of record, and the active one with a commit and a marker."""
    folder = folder / "__consumer_offsets-0"
    folder.mkdir()

    def commit(time, group, topic, partition):
        return time, commit_key(1, group, topic, partition), commit_value(7, -1, b"", time)

    closed = [
        batch(0, [(100, group_key(b"g"), group_value(1, [b"m"]))]),
        batch(1, [commit(200, b"g", b"t", 0), commit(200, b"g", b"t", 1)]),
        batch(3, [commit(300, b"g", b"u", 0)]),
        batch(4, [commit(400, b"h", b"t", 0), commit(410, b"g", b"t", 0)]),
        batch(6, [(500, commit_key(1, b"g", b"t", 1), None)]),
        batch(7, [(600, b"\0\x63?", b"?" * 99)]),
        batch(8, [(700, group_key(b"h"), None)]),
    ]
    active = [batch(9, [commit(800, b"g", b"t", 0)]), marker(10, 5, 900, commit=True)]
    (folder / f"{0:020}.log").write_bytes(b"".join(closed))
    (folder / f"{9:020}.log").write_bytes(b"".join(active))
    return folder, [len(one) for one in (*closed, *active)]


def counts(rows, *names):
    """The fields of each row, by its group, topic, kind and time."""
    return {
        (row["group_id"], row["topic"], row["kind"], row["time"]): tuple(row[n] for n in names)
        for row in rows
    }


def rows_in_pieces(folder, parameters, **options):
    """Growth of the log as one, and the same batch by batch."""
    (segments,) = find_segments([folder]).partitions().values()
    rows = list(growth.rows(PartitionView(0, segments, **options), parameters))
    assert answer_in_pieces(segments, growth, parameters, options) == rows
    return rows


def test_each_kind_of_record_has_its_own_sums(tmp_path):
    folder, sizes = log_of_each_kind(tmp_path)
    rows = rows_in_pieces(folder, growth.Parameters())
    names = ("records", "tombstones", "requests", "keys", "superseded_records")
    assert counts(rows, *names, "first_timestamp", "last_timestamp", "interval_ms") == {
        ("g", "t", "commits", None): (5, 1, 3, 2, 3, 200, 800, 300),
        ("g", "u", "commits", None): (1, 0, 1, 1, 0, 300, 300, None),
        ("h", "t", "commits", None): (1, 0, 1, 1, 0, 400, 400, None),
        ("g", None, "group", None): (1, 0, 1, 1, 0, 100, 100, None),
        ("h", None, "group", None): (1, 1, 1, 1, 0, 700, 700, None),
        (None, None, "unknown", None): (1, 0, 1, 0, 0, 600, 600, None),
        (None, None, "marker", None): (1, 0, 1, 0, 0, 900, 900, None),
    }
    (commits,) = [row for row in rows if row["topic"] == "t" and row["group_id"] == "g"]
    assert commits["free_bytes"] == sizes[1]  # both records, by those at 410 and 500
    assert commits["held_active_bytes"] in (sizes[3] // 2, (sizes[3] + 1) // 2)
    assert sum(row["bytes"] for row in rows) == sum(sizes)
    assert [row["bytes"] for row in rows] == sorted((row["bytes"] for row in rows), reverse=True)


def test_records_of_before_the_requested_time_supersede_and_are_not_counted(tmp_path):
    folder, _ = log_of_each_kind(tmp_path)
    rows = rows_in_pieces(folder, growth.Parameters(), since_ms=410)
    names = ("records", "requests", "keys", "superseded_records", "first_timestamp", "interval_ms")
    assert counts(rows, *names) == {
        ("g", "t", "commits", None): (3, 2, 2, 1, 410, 390),
        ("h", None, "group", None): (1, 1, 1, 0, 700, None),
        (None, None, "unknown", None): (1, 1, 0, 0, 600, None),
        (None, None, "marker", None): (1, 1, 0, 0, 900, None),
    }


def test_over_time_each_span_has_its_own_records_the_most_bytes_first(tmp_path):
    folder, _ = log_of_each_kind(tmp_path)
    rows = rows_in_pieces(folder, growth.Parameters(every_ms=400))
    assert [row["time"] for row in rows] == [0, 0, 0, 400, 400, 400, 400, 800, 800]
    for time in (0, 400, 800):
        of_span = [row["bytes"] for row in rows if row["time"] == time]
        assert of_span == sorted(of_span, reverse=True)
    assert counts(rows, "records", "requests", "keys", "superseded_records") == {
        ("g", None, "group", 0): (1, 1, 1, 0),
        ("g", "t", "commits", 0): (2, 1, 2, 2),
        ("g", "u", "commits", 0): (1, 1, 1, 0),
        ("g", "t", "commits", 400): (2, 1, 2, 1),
        ("h", "t", "commits", 400): (1, 1, 1, 0),
        ("h", None, "group", 400): (1, 1, 1, 0),
        (None, None, "unknown", 400): (1, 1, 0, 0),
        ("g", "t", "commits", 800): (1, 1, 1, 0),
        (None, None, "marker", 800): (1, 1, 0, 0),
    }


@pytest.mark.parametrize(("step_ms", "is_often"), [(999, True), (1000, False)])
def test_less_than_a_second_between_commits_is_too_often_by_default(step_ms, is_often, tmp_path):
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    key, value = commit_key(1, b"g", b"t", 0), commit_value(7, -1, b"", 0)
    batches = [batch(at, [(at * step_ms, key, value)]) for at in range(11)]
    (folder / f"{0:020}.log").write_bytes(b"".join(batches))
    (row,) = question_rows(tmp_path, growth, growth.Parameters())
    assert (row["interval_ms"], row["too_often"]) == (step_ms, is_often)


def test_as_json_it_has_the_rows_of_the_question():
    result = coterie_ok("growth", log("transactions"), "--format", "json")
    for row, expected in zip(json.loads(result.stdout), answer("transactions"), strict=True):
        for one in (*row["open_transactions"], *expected["open_transactions"]):
            del one["file"]
        assert row == expected


def test_over_time_the_group_with_most_requests_of_a_span_is_named(tmp_path):
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    owners = [b"g", b"h", b"h"]
    of_span = [
        batch(at, [(1_000 + at, commit_key(1, group, b"t", at), commit_value(7, -1, b"", 1_000))])
        for at, group in enumerate(owners)
    ]
    (folder / f"{0:020}.log").write_bytes(b"".join(of_span))
    (line,) = [
        line
        for line in coterie_ok("growth", tmp_path, "--every", "10s").stdout.splitlines()
        if "1970-01-01" in line
    ]
    assert line.split()[-2:] == ["h", "2"]


def test_where_no_group_commits_too_often_that_is_reported_instead_of_an_empty_topic():
    result = coterie_ok("growth", log("connect"), "--too-often")
    assert result.stdout == "no group commits a partition more than every 1s\n"


def test_only_groups_that_commit_too_often_are_shown_where_that_is_asked():
    result = coterie_ok(
        "growth", log("basic"), "--too-often", "--interval", "3s", "--format", "json"
    )
    actual = [place_of(row) for row in json.loads(result.stdout)]
    assert actual == [
        place_of(row) for row in answer("basic", interval_ms=3000) if row["too_often"]
    ]


def test_a_log_of_a_million_records_is_counted_whole():
    result = coterie_ok("growth", wide(), "--format", "json")
    rows = json.loads(result.stdout)
    assert sum(row["records"] for row in rows) == 1_182_263  # golden/logs/README.md
    assert sum(row["requests"] for row in rows) == 48_984
