"""Lag against Kafka's own tool and a model; unknown lags are reported as unknown."""

import csv
import json
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.errors import CoterieError
from coterie.insight.offsets.end_offsets import EndOffsets, Sample, read_end_offsets
from coterie.insight.questions import lag
from coterie.insight.records.partition_view import PartitionView
from coterie.log.folders import Segment
from support.commandline import coterie_ok, fails
from support.examples import examples
from support.fold.load_model import model
from support.fold.made_logs import LOGS, TANGLES, TIMES, as_bytes, in_order, laid_out
from support.golden_data import live, log, records, wide
from support.insight.models import offsets_at, question_rows, times
from support.log_writer import batch, commit_key, commit_value, marker

ENDS = Path(__file__).with_name("ends")
CASES = ["basic", "transactions", "compacted", "default50"]


def answer(case, ends, groups=None, **parameter_values):
    parameters = lag.Parameters(ends, **parameter_values)
    return question_rows(log(case), lag, parameters, groups=groups)


def key_of(row):
    return row["group_id"], row["topic"], row["partition"]


def kafkas_lags(case):
    """Key -> (current offset, log end offset, lag), as Kafka's tool prints them."""
    result = {}
    for line in live(case, "offsets.txt").splitlines():
        cells = line.split()
        if len(cells) >= 9 and cells[0] != "GROUP":
            group, topic, partition, *numbers = cells[:6]
            values = [None if text == "-" else int(text) for text in numbers]
            result[group, topic, int(partition)] = tuple(values)
    return result


@pytest.mark.parametrize("case", ["basic", "default50", "compacted", "compression-gzip"])
def test_a_lag_is_that_of_kafkas_own_tool_except_where_that_is_negative(case):
    expected_lags = kafkas_lags(case)
    samples = {key[1:]: (Sample(None, end),) for key, (_, end, _) in expected_lags.items()}
    actual = {key_of(row): row for row in answer(case, EndOffsets(False, samples))}
    compared = 0
    for key, (offset, end, expected) in expected_lags.items():
        if key not in actual:  # a group whose state the log does not have
            assert case == "basic"
            assert key[0] == "grp-kp-roundrobin"
            continue
        row = actual[key]
        assert (row["offset"], row["end_offset"]) == (offset, end)
        if expected is None:
            assert row["status"] in ("no_commit", "no_end_offset")
        elif expected < 0:
            assert (row["status"], row["lag"]) == ("ahead", None)
        else:
            assert (row["status"], row["lag"]) == ("ok", expected)
        compared += 1
    assert compared > 50


@pytest.mark.parametrize("case", CASES)
def test_the_offset_is_the_one_that_readers_saw_at_the_samples_time(case):
    moments = times(case, 10)
    keys = set(offsets_at(case))
    ends = {key[1:]: tuple(Sample(ms, 10**9) for ms in moments) for key in keys}
    until = {"log_until_ms": moments[-1]}
    rows = answer(case, EndOffsets(True, ends), **until)
    for ms in moments:
        expected = {
            key: value["offset"] for key, value in offsets_at(case, ms).items() if key[1:] in ends
        }
        at = [row for row in rows if row["time"] == ms]
        assert {key_of(r): r["offset"] for r in at if r["offset"] is not None} == expected
        for row in at:
            known = row["offset"] is not None and row["offset"] <= 10**9
            assert row["lag"] == (10**9 - row["offset"] if known else None)
    (alone,) = {
        row["group_id"]
        for row in answer(case, EndOffsets(True, ends), {rows[0]["group_id"]}, **until)
    }
    assert answer(case, EndOffsets(True, ends), {alone}, **until) == [
        row for row in rows if row["group_id"] == alone
    ]


def test_offsets_as_of_a_time_stand_beside_ends_without_one():
    ms = 1795237385000
    shown = offsets_at("basic", ms)
    for row in answer("basic", EndOffsets(False), at_ms=ms):
        value = shown.get(key_of(row))
        assert row["offset"] == (value and value["offset"])
        assert row["status"] == ("no_commit" if value is None else "no_end_offset")


def made_log(folder):
    """10 at 1000, 20 at 3000; 15 in a transaction from 2000 that ends at 5000; gone at 9000."""
    folder = folder / "__consumer_offsets-0"
    folder.mkdir()

    def commit(partition, time, offset):
        return time, commit_key(1, b"g", b"t", partition), commit_value(offset, -1, b"", time)

    parts = [
        batch(0, [commit(0, 1000, 10), commit(1, 1000, 10)]),
        batch(2, [commit(0, 2000, 15), commit(1, 2000, 15)], producer_id=5, transactional=True),
        batch(4, [commit(0, 3000, 20)]),
        marker(5, 5, 5000, commit=True),
        batch(6, [(9000, commit_key(1, b"g", b"t", 0), None)]),
    ]
    (folder / f"{0:020}.log").write_bytes(b"".join(parts))
    return folder.parent


def facts_of(data):
    return PartitionView(0, [Segment("f", 0, 0, 0, None)], read=lambda segment: data)


def check_by_model(log, at_ms):
    """Lag shows the offsets of the simplest model of a fold."""
    found = {
        key_of(row): (row["offset"], row["commit_timestamp"])
        for row in lag.rows(facts_of(as_bytes(log)), lag.Parameters(EndOffsets(False), at_ms))
        if row["offset"] is not None
    }
    offsets, _, _ = model(log, at_ms)
    assert found == {key: (value[1], value[4]) for key, value in offsets.items()}


@given(LOGS, st.none() | TIMES)
@settings(max_examples=examples(150))
def test_the_offset_is_the_one_that_the_shortest_model_of_a_fold_has(steps, at_ms):
    check_by_model(in_order(laid_out(steps)), at_ms)


@pytest.mark.parametrize("claim", TANGLES)
def test_the_offset_of_a_tangle_of_transactions_is_the_one_of_the_model(claim):
    check_by_model(TANGLES[claim], None)


def seen(*parts):
    """The offset of group `g`, `t`-0 at the end of a log, by lag and by a fold."""
    view = facts_of(b"".join(parts))
    (row,) = lag.rows(view, lag.Parameters(EndOffsets(False)))
    return row["offset"], view.group_rows["g"]["offsets"][0]["offset"]


def test_of_a_key_twice_in_a_transaction_the_last_commit_is_seen():
    key, within = commit_key(1, b"g", b"t", 0), {"producer_id": 5, "transactional": True}
    first, last, plain = ((1000, key, commit_value(n, -1, b"", 1000)) for n in (10, 20, 30))
    marked = marker(9, 5, 1000, commit=True)
    assert seen(batch(0, [first, last], **within), marked) == (20, 20)
    assert seen(batch(0, [first], **within), batch(1, [last], **within), marked) == (20, 20)
    # Where offsets go back, what was appended at the greater one stays; the first does not count.
    parts = batch(5, [first], **within), batch(4, [plain]), batch(3, [last], **within), marked
    assert seen(*parts) == (30, 30)


def test_a_control_record_of_another_type_ends_no_transaction():
    key, within = commit_key(1, b"g", b"t", 0), {"producer_id": 5, "transactional": True}
    pair, plain = ((1000, key, commit_value(n, -1, b"", 1000)) for n in (10, 20))
    other = batch(1, [(1000, struct.pack(">hh", 0, 2), b"")], control=True, **within)
    tombstone = batch(3, [(1000, key, None)])
    marked = marker(4, 5, 1000, commit=True)
    assert seen(batch(0, [pair], **within), other, batch(2, [plain]), tombstone, marked) == (10, 10)


def test_a_record_without_a_time_counts_at_any_and_over_what_was_before_it():
    key = commit_key(1, b"g", b"t", 0)
    samples = tuple(Sample(ms, 9) for ms in (500, 1500, 2500, 3500, 4500))
    commits = [
        batch(at, [(ms, key, commit_value(at, -1, b"", 1000))])
        for at, ms in enumerate((1000, 2000, 3000, -1, 4000))
    ]
    parameters = lag.Parameters(EndOffsets(True, {("t", 0): samples}), log_until_ms=4500)
    for count, seen_at in ((3, [None, 0, 1, 2, 2]), (4, [3] * 5), (5, [3, 3, 3, 3, 4])):
        view = facts_of(b"".join(commits[:count]))
        assert [row["offset"] for row in lag.rows(view, parameters)] == seen_at


def lag_rows(tmp_path, text, *options):
    """Rows of the made log as data, with these end offsets."""
    file = tmp_path / "ends"
    file.write_text(text)
    folder = tmp_path / "log"
    if not folder.exists():
        folder.mkdir()
        made_log(folder)
    result = coterie_ok("lag", folder, "--end-offsets", file, "--format", "json", *options)
    return json.loads(result.stdout), result.stderr


def test_a_transactions_offset_is_seen_from_its_marker_on_and_not_over_a_later_commit(tmp_path):
    text = "time,topic,partition,offset\n" + "".join(
        f"{ms},t,{partition},100\n" for ms in (500, 2500, 4000, 5000, 9000) for partition in (0, 1)
    )
    rows, _ = lag_rows(tmp_path, text)
    assert [row["lag"] for row in rows if row["partition"] == 0] == [None, 90, 80, 80, None]
    assert [row["lag"] for row in rows if row["partition"] == 1] == [None, 90, 90, 85, 85]
    assert [row["status"] for row in rows][:5] == ["no_commit", "ok", "ok", "ok", "no_commit"]


def test_nothing_is_made_up_where_no_sample_is(tmp_path):
    rows, messages = lag_rows(
        tmp_path, "timestamp,topic,partition,end_offset\n4000,t,1,9\n5000,t,1,\n"
    )
    assert [(row["partition"], row["time"]) for row in rows] == [(0, None), (1, 4000), (1, 5000)]
    assert [row["status"] for row in rows] == ["no_commit", "ahead", "no_end_offset"]
    assert [row["lag"] for row in rows] == [None] * 3
    assert "3 of 3 lags are not known: 1 no_end_offset, 1 no_commit, 1 ahead" in messages


def test_lag_in_time_lies_between_two_samples(tmp_path):
    heading = "time,topic,partition,offset\n"
    first, second, third = "1500,t,1,8\n", "2000,t,1,10\n", "3000,t,1,12\n"
    last = "4000,t,1,30\n"
    rows, _ = lag_rows(tmp_path, heading + last + first + second + third)  # in any order
    by_time = {row["time"]: row for row in rows if row["partition"] == 1}
    # 10 is committed. Record 10 was written after 2000, when the end was 10, and by 3000.
    assert (by_time[4000]["lag_ms_min"], by_time[4000]["lag_ms_max"]) == (1000, 2000)
    assert (by_time[3000]["lag_ms_min"], by_time[3000]["lag_ms_max"]) == (0, 1000)
    assert (by_time[2000]["lag_ms_min"], by_time[2000]["lag_ms_max"]) == (0, 0)
    assert by_time[1500]["status"] == "ahead"
    rows, _ = lag_rows(tmp_path, heading + last)
    assert [row["lag_ms_max"] for row in rows if row["partition"] == 1] == [None]
    rows, _ = lag_rows(tmp_path, heading + "1000,t,1,99\n" + last)  # ends go back: made anew
    assert [row["lag_ms_min"] for row in rows if row["time"] == 4000] == [None]


def test_the_latest_sample_alone_is_shown_where_that_is_asked(tmp_path):
    text = "time,topic,partition,offset\n4000,t,1,90\n6000,t,1,95\n"
    rows, _ = lag_rows(tmp_path, text, "--latest")
    assert [(row["time"], row["lag"]) for row in rows if row["partition"] == 1] == [(6000, 80)]


def test_partitions_that_a_member_holds_without_a_commit_are_named():
    uncommitted = {key for key, values in kafkas_lags("basic").items() if values[0] is None}
    actual = {key_of(r) for r in answer("basic", EndOffsets(False)) if r["status"] == "no_commit"}
    deleted = {
        (r["key"]["data"]["group"], r["key"]["data"]["topic"], r["key"]["data"]["partition"])
        for r in records("basic")
        if r["key"]["type"] == "offset_commit" and r["value"] is None
    }
    assert {key for key in uncommitted if key[0] != "grp-kp-roundrobin"} <= actual
    assert actual - deleted <= uncommitted


def test_as_json_it_has_the_rows_of_the_question():
    file = ENDS / "ends.csv"
    options = ("--end-offsets", file, "--format", "json")
    rows = json.loads(coterie_ok("lag", log("basic"), *options).stdout)
    assert rows == answer("basic", read_end_offsets(file))
    assert list(rows[0]) == [*lag.FIELDS, "trusted_from"]


def test_as_csv_what_is_not_known_is_empty():
    options = ("--group", "grp-reset-cli", "--end-offsets", ENDS / "ends.txt", "--format", "csv")
    rows = list(csv.DictReader(coterie_ok("lag", log("basic"), *options).stdout.splitlines()))
    assert [row["lag"] for row in rows if row["topic"] == "orders"] == [
        *("40", "50", "41", "43", "", "60")  # reset to 0 by then
    ]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "nothing in it"),
        ("t:0:5\nt:x:5\n", ("line 2", "topic:partition:offset")),
        ("t:0:5\n\nt:1:many\n", ("line 3", "topic:partition:offset")),
        ("t:0:-7\n", ("line 1", "no offset")),
        ("t:-1:7\n", ("line 1", "no partition")),
        ("time,topic\n", ("line 1", "heading")),
        ("hello\n", ("line 1", "heading")),
        ("topic,partition,offset\nt,0,5\nt,0\n", ("line 3", "2 cells")),
        ("topic,partition,offset\nt,zero,5\n", ("line 2", "no partition")),
        ("topic,partition,offset\nt,0,5.5\n", ("line 2", "no offset")),
        ("topic,partition,offset\n,0,5\n", ("line 2", "names no topic")),
        ("topic,partition,offset\nt,0,99999999999999999999\n", ("line 2", "no offset")),
        ("time,topic,partition,offset\n5,t,0,5\nsoon,t,0,5\n", ("line 3", "is not a time")),
        ("time,topic,partition,offset\n2026-01-01T00:00:00,t,0,5\n", ("line 2", "no zone")),
    ],
)
def test_wrong_end_offsets_are_reported_with_their_line(text, says, tmp_path):
    file = tmp_path / "ends"
    file.write_text(text)
    says = says if isinstance(says, tuple) else (says,)
    with pytest.raises(CoterieError) as caught:
        read_end_offsets(file)
    assert all(part in str(caught.value) for part in (str(file), *says))


def test_end_offsets_are_read_as_people_write_them(tmp_path):
    file = tmp_path / "ends"
    file.write_text(" a.b:0:5\n \na.b:1: \na.b:2:-1\t\na.b:0:6\n")
    assert read_end_offsets(file) == EndOffsets(
        False,
        {
            ("a.b", 0): (Sample(None, 6),),
            ("a.b", 1): (Sample(None, None),),
            ("a.b", 2): (Sample(None, None),),
        },
    )
    file.write_bytes(b"\xef\xbb\xbfTopic, Partition ,Time,Offset\r\nt,0,1970-01-01T00:00:01Z,5\r\n")
    assert read_end_offsets(file) == EndOffsets(True, {("t", 0): (Sample(1000, 5),)})


def test_a_wrong_line_is_reported_in_one_line(tmp_path):
    file = tmp_path / "ends"
    file.write_text("t:0:5\nt:0\n")
    fails("lag", made_log(tmp_path), "--end-offsets", file, says=(file, "line 2"))


@pytest.mark.slow
def test_a_log_of_a_million_records_has_its_lags(tmp_path):
    result = coterie_ok("lag", wide(), "--end-offsets", ENDS / "ends.txt", "--format", "csv")
    rows = csv.DictReader(result.stdout.splitlines())
    assert sum(row["offset"] != "" for row in rows) == 137_385  # golden/logs/README.md
