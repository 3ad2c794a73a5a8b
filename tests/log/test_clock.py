"""Logs whose times go back: where, and what a time means there, against a slow model."""

import gzip
import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie._core.fold import fold as partial
from coterie.insight.offsets.end_offsets import EndOffsets, Sample
from coterie.insight.questions import lag, undo
from coterie.insight.records import log_reader
from coterie.insight.records.partition_view import PartitionView
from coterie.insight.records.record_columns import is_early
from coterie.log import clock
from coterie.log.clock_notes import ClockNotes
from coterie.log.folders import find_segments
from coterie.log.set_back import SetBack
from coterie.log.time_range import TimeRange
from support.commandline import coterie_ok, fails
from support.golden_data import GOLDEN, cases, log
from support.log_writer import batch, commit_key, commit_value, group_key, group_value

TIMES = st.sampled_from([-1, 1_000, 1_001, 2_000, 2_500, 3_600_000, 3_601_000])
STEPS = st.lists(st.tuples(TIMES, st.sampled_from("ab"), st.integers(0, 1)), max_size=20)
ROLLS = st.sets(st.integers(1, 19), max_size=3)
AT = st.sampled_from([999, 1_000, 1_500, 2_000, 3_000, 3_600_000, 4_000_000])


def steps_of(segments):
    """Where the time of a partition goes back."""
    found = clock.ClockSteps()
    found.read(segments)
    return found.steps


def written(folder, steps, rolls=()):
    """A batch of one commit for each step; the committed offset is the number of the step."""
    place = Path(folder) / "__consumer_offsets-0"
    place.mkdir(parents=True)
    batches = [
        batch(number, [(at_ms, *commit_of(group, partition, number))])
        for number, (at_ms, group, partition) in enumerate(steps)
    ]
    bounds = sorted({0, len(steps), *(number for number in rolls if number < len(steps))})
    for begin, end in pairwise([*bounds, len(steps)]):
        (place / f"{begin:020}.log").write_bytes(b"".join(batches[begin:end]))
    return find_segments([place]).segments


def commit_of(group, partition, offset):
    key = commit_key(1, group.encode(), b"t", partition)
    return key, commit_value(offset, -1, b"", 7)


def until(steps, at_ms):
    """The numbered steps as of a time: those before the first later one, without what was written
    since a step back that it makes up for."""
    latest, stretch = -1, None
    for number, (ms, _, _) in enumerate(steps):
        if ms > at_ms:
            returns = any(0 <= later <= at_ms for later, _, _ in steps[number:])
            if stretch is None and not returns:
                break  # the log's order and its times agree
            return list(enumerate(steps[: number if stretch is None else stretch]))
        if ms >= latest:
            latest, stretch = ms, None
        elif ms >= 0 and stretch is None:
            stretch = number
    return [entry for entry in enumerate(steps) if entry[1][0] <= at_ms]


def offsets(steps):
    """Key -> the last of its numbers among (number, step) pairs."""
    return {(group, "t", partition): number for number, (_, group, partition) in steps}


def of_fold(fold):
    return {key: entry.offset for key, entry in partial.offset_entries(fold)}


@pytest.fixture(scope="module", autouse=True)
def a_batch_at_a_time():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_reader, "READ_PIECE_BYTES", 1)
        patch.setattr(clock, "TIMES_PIECE_BYTES", 1)
        yield


@pytest.mark.parametrize("piece_bytes", [1, 1 << 20])
@given(steps=STEPS, rolls=ROLLS, at_ms=AT)
def test_a_log_as_of_a_time_is_what_precedes_the_first_later_batch(
    piece_bytes, steps, rolls, at_ms, tmp_path_factory
):
    segments = written(tmp_path_factory.mktemp("clock"), steps, rolls)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_reader, "READ_PIECE_BYTES", piece_bytes)
        view = PartitionView(0, segments, at_ms=at_ms)
        counted = until(steps, at_ms)
        assert of_fold(view.fold) == offsets(counted)
        rows = [number for piece in view.pieces() for number in piece.log_offset.tolist()]
        assert rows == [number for number, _ in counted]


@given(steps=STEPS, rolls=ROLLS, since_ms=AT)
def test_a_log_since_a_time_is_what_is_not_of_the_time_before(
    steps, rolls, since_ms, tmp_path_factory
):
    segments = written(tmp_path_factory.mktemp("clock"), steps, rolls)
    view = PartitionView(0, segments, since_ms=since_ms)
    earlier = [number for number, _ in until(steps, since_ms - 1)]
    begins = [number for number, (ms, _, _) in enumerate(steps) if ms >= since_ms]
    if not begins:
        assert view.since_begin is None
        return
    assert view.since_begin is not None
    stretch = [number for number in range(begins[0]) if number not in earlier]
    begin = min([begins[0], *stretch])
    assert view.since_begin.log_offset == begin
    assert view.since_begin.earlier == sum(0 <= ms < since_ms for ms, _, _ in steps[begin:])
    for piece in view.pieces():
        early = is_early(piece, since_ms, view.since_begin)
        assert (early == (piece.log_offset < view.since_begin.log_offset)).all()


@given(steps=STEPS, rolls=ROLLS, since_ms=st.none() | AT, until_ms=st.none() | AT)
def test_records_of_a_range_go_by_their_own_times_and_those_of_the_logs_order_are_counted(
    steps, rolls, since_ms, until_ms, tmp_path_factory
):
    chosen = TimeRange(written(tmp_path_factory.mktemp("clock"), steps, rolls), since_ms, until_ms)
    own = {
        number for number, (ms, _, _) in enumerate(steps)
        if ms == -1
        or ((since_ms is None or ms >= since_ms) and (until_ms is None or ms <= until_ms))
    }  # fmt: skip
    assert {n for n, (ms, _, _) in enumerate(steps) if chosen.has(ms, n)} == own
    by_order = set(range(len(steps)))
    if until_ms is not None:
        by_order = {number for number, _ in until(steps, until_ms)}
    if since_ms is not None:
        before = {number for number, _ in until(steps, since_ms - 1)}
        if not any(ms >= since_ms for ms, _, _ in steps):  # all that has a time is earlier
            by_order -= {number for number, (ms, _, _) in enumerate(steps) if ms >= 0}
        else:
            begins = [n for n, (ms, _, _) in enumerate(steps) if ms >= since_ms or n not in before]
            by_order -= set(range(min(begins)))
    assert (chosen.more, chosen.fewer) == (len(by_order - own), len(own - by_order))
    note = chosen.note(7)
    if by_order == own:
        assert note is None
    else:
        assert note.startswith("partition 7: records are chosen by their own times")
        assert f"choose {chosen.more} more and {chosen.fewer} fewer" in note


@given(steps=STEPS, rolls=ROLLS, at_ms=AT)
def test_undo_names_the_offset_by_record_times_where_it_differs(
    steps, rolls, at_ms, tmp_path_factory
):
    segments = written(tmp_path_factory.mktemp("clock"), steps, rolls)
    by_order = offsets(until(steps, at_ms))
    by_times = offsets([entry for entry in enumerate(steps) if entry[1][0] <= at_ms])
    for row in undo.rows(PartitionView(0, segments), undo.Parameters(at_ms)):
        key = row["group_id"], row["topic"], row["partition"]
        assert row["offset"] == by_order.get(key)
        other = by_times.get(key)
        expected = None if other == by_order.get(key) else -1 if other is None else other
        assert row["offset_by_record_times"] == expected


@given(steps=STEPS, rolls=ROLLS, at_ms=st.sets(AT, min_size=1))
def test_lag_at_times_is_that_of_the_log_as_of_each(steps, rolls, at_ms, tmp_path_factory):
    steps = [step for step in steps if step[0] >= 0]
    segments = written(tmp_path_factory.mktemp("clock"), steps, rolls)
    samples = tuple(Sample(ms, 100) for ms in sorted(at_ms))
    ends = EndOffsets(True, {("t", partition): samples for partition in (0, 1)})
    rows = list(lag.rows(PartitionView(0, segments), lag.Parameters(ends)))
    for row in rows:
        key = row["group_id"], row["topic"], row["partition"]
        assert row["offset"] == offsets(until(steps, row["time"])).get(key)
    assert len(rows) == len(samples) * len({step[1:] for step in steps})


@given(steps=STEPS, rolls=ROLLS)
def test_steps_back_are_those_between_neighbours(steps, rolls, tmp_path_factory):
    segments = written(tmp_path_factory.mktemp("clock"), steps, rolls)
    known = [(ms, number) for number, (ms, _, _) in enumerate(steps) if ms >= 0]
    expected = [
        (number, before, ms)
        for (before, _), (ms, number) in pairwise(known)
        if before - ms >= clock.ORDINARY_MS
    ]
    found = [(step.log_offset, step.before_ms, step.after_ms) for step in steps_of(segments)]
    assert found == expected


def test_the_note_names_the_partitions_and_the_longest_step_back():
    notes = ClockNotes()
    for number in range(7):
        by_ms = 60_000 if number == 2 else 1_000
        notes.take(number, [clock.ClockStep("f", 0, 5, 100_000, 100_000 - by_ms)], None)
    notes.take(9, [], None)
    (line,) = notes.notes()
    partitions = ", ".join(f"partition {number}" for number in range(5))
    assert line.startswith(f"times go back in {partitions} and 2 more, by up to 1m: ")


def test_of_a_partitions_steps_back_the_note_has_the_longest_and_of_none_it_says_nothing():
    notes = ClockNotes()
    notes.take(8, [], None)
    assert list(notes.notes()) == []
    steps = [clock.ClockStep("f", 0, 5, 100_000, 100_000 - by) for by in (1_000, 60_000, 2_000)]
    notes.take(9, steps, None)
    (line,) = notes.notes()
    assert line.startswith("times go back in partition 9, by up to 1m: ")


@pytest.mark.parametrize(("places", "lines"), [(5, 5), (6, 6), (7, 6)])
def test_five_places_where_order_and_times_differ_are_named_and_the_others_counted(places, lines):
    notes = ClockNotes()
    for number in range(places):
        notes.take(number, [], clock.Cut("f", 0, 40 + number, 7_000, 1 + number))
    texts = list(notes.notes())
    assert len(texts) == lines
    assert texts[1].startswith("partition 1: as of 1970-01-01T00:00:07.000Z, the log ends before ")
    assert texts[1].endswith("offset 41; by record times, 2 batches from there on would count")
    assert texts[0].endswith("by record times, 1 batch from there on would count")
    if places > 5:
        assert texts[5] == f"the same holds for {places - 5} more places"


@pytest.mark.parametrize(("partitions", "where"), [(5, "4"), (6, "4 and 1 more")])
def test_up_to_five_partitions_whose_times_go_back_are_named(partitions, where):
    notes = ClockNotes()
    for number in range(partitions):
        notes.take(number, [clock.ClockStep("f", 0, 5, 9_000, 7_000)], None)
    (line,) = notes.notes()
    assert f", partition {where}, by up to 2s: " in line.replace("2.0 s", "2s")


def test_a_beginning_with_earlier_records_is_named_and_by_times_it_is_the_other_way_round():
    notes = ClockNotes(by_times=True)
    notes.take(3, [], clock.Cut("f", 0, 40, 7_000, 2), clock.Begin(20, 21, 5_000, 3))
    notes.take(4, [], None, clock.Begin(20, 21, 5_000, 0))
    cut, begin = notes.notes()
    assert cut.endswith("offset 40; 2 batches from there on count here by their own times")
    assert begin == (
        "partition 3: since 1970-01-01T00:00:05.000Z, the log begins at offset 20; by record "
        "times, 3 batches from there on would not count"
    )


def batches_at(*times_ms):
    """Batches of a record each, at these times."""
    columns = {
        name: np.ones(len(times_ms), np.int64)
        for name in clock.BatchTimes._fields
        if name != "file"
    }
    return clock.BatchTimes(**columns | {"times": np.array(times_ms, np.int64)}, file="f")


def test_the_time_0_is_one_and_minus_1_is_none(tmp_path):
    steps = [(at_ms, "a", 0) for at_ms in (0, 5_000, 0, -1, 2_000, 6_000)]
    segments = written(tmp_path, steps)
    assert clock.begin_of(segments, None, 3_000) == clock.Begin(1, 2, 3_000, earlier=2)
    cut = clock.cut_at(segments, None, 3_000)
    # The records of the first later batch go by their own times; what follows is left out.
    assert (cut.log_offset, cut.at_ms, cut.left_out) == (2, 3_000, 2)
    assert [(step.before_ms, step.after_ms) for step in steps_of(segments)] == [(5_000, 0)]
    assert clock.begin_of(segments, None, 0) == clock.Begin(0, 1, 0, earlier=0)
    late = written(tmp_path / "late", [(at_ms, "a", 0) for at_ms in (5_000, 0, 6_000)])
    assert clock.cut_at(late, None, 5_500)[2:] == (1, 5_500, 1)  # before the step back


CRC_AT = 8 + 4 + 4 + 1  # behind base offset, length, leader epoch and magic


def test_a_batch_with_a_wrong_checksum_has_its_time(tmp_path):
    """A scan reports it as a fault; where the log's clock went back does not depend on it."""
    segments = written(tmp_path, [(at_ms, "a", 0) for at_ms in (1_000, 9_000, 2_000)])
    path = Path(segments[0].path)
    data = bytearray(path.read_bytes())
    data[len(data) // 3 + CRC_AT] ^= 1
    path.write_bytes(data)
    assert [(step.before_ms, step.after_ms) for step in steps_of(segments)] == [(9_000, 2_000)]


@pytest.mark.parametrize("cut", [0, 1, 2, 3, 4])
def test_a_step_back_counts_from_the_least_one_on_also_between_pieces(cut):
    times, steps = [7_000, 6_001, 8_000, 7_000, 6_500], clock.ClockSteps(1_000)
    for piece in (times[:cut], times[cut:]):
        steps.take_batches(batches_at(*piece))
    assert [(step.before_ms, step.after_ms) for step in steps.steps] == [(8_000, 7_000)]
    assert steps.last_ms == 6_500


def test_a_stretch_that_was_set_back_counts_as_written_when_the_clock_caught_up():
    """Records are numbered; the clock goes back before the records 2 and 6."""
    stretches = SetBack()
    times = np.array([5, 9, 0, 3, 9, 12, 4, 11])
    stretches.take(batches_at(*times))
    stretches.finish()
    numbers, own = np.arange(8), np.where(np.arange(8) == 3, -1, times)
    assert stretches.written(numbers, own).tolist() == [5, 9, 9, -1, 9, 12, 12, 12]


def test_stretches_are_the_same_however_the_batches_are_cut_into_pieces():
    times = np.array([5, 9, 0, -1, 3, 9, 12, 4, 11])
    records = np.array([2, 1, 3, 2, 1, 2, 1, 4, 1])
    written_ms = [5, 9, 9, -1, 9, 9, 12, 12, 12]  # the last stretch is open at the end of the log
    for cut in range(len(times) + 1):
        stretches = SetBack()
        for part in (slice(cut), slice(cut, None)):
            stretches.take(batches_at(*times[part])._replace(records=records[part]))
        stretches.finish()
        found = stretches.written(np.arange(records.sum()), np.repeat(times, records))
        assert found.tolist() == np.repeat(written_ms, records).tolist(), cut
        assert stretches.first.tolist() == [3, 12]


def set_back(folder):
    """A member joins, the clock goes back by an hour for two batches, and comes back."""
    hour_ms, begin_ms = 3_600_000, 1_800_000_000_000
    place = Path(folder) / "__consumer_offsets-0"
    place.mkdir(parents=True)
    records = [
        (begin_ms, group_key(b"g"), group_value(1, [b"m"])),
        (begin_ms + 1_000, *commit_of("g", 0, 10)),
        (begin_ms + 2_000 - hour_ms, *commit_of("g", 0, 20)),
        (begin_ms + 3_000 - hour_ms, group_key(b"g"), group_value(2, [b"m", b"n"])),
        (begin_ms + 41_000, *commit_of("g", 0, 30)),
    ]
    data = b"".join(batch(number, [record]) for number, record in enumerate(records))
    (place / f"{0:020}.log").write_bytes(data)
    return folder, begin_ms


def test_verify_prints_where_the_time_goes_back_and_exits_with_0(tmp_path):
    folder, _ = set_back(tmp_path)
    (line,) = coterie_ok("verify", folder).stdout.splitlines()
    step = json.loads(line)
    assert (step["kind"], step["base_offset"]) == ("clock", 2)
    assert step["detail"].startswith("the time goes back by 59m59s, from 2027-01-15T08:00:01.000Z")


def test_explain_has_the_step_in_log_order_and_a_line_on_standard_error(tmp_path):
    folder, _ = set_back(tmp_path)
    result = coterie_ok("explain", folder, "--format", "json")
    rows = json.loads(result.stdout)
    events = [(row["event"], row["log_offset"]) for row in rows if row["log_offset"] is not None]
    assert events == [
        ("generation", 0),
        ("commits", 1),
        ("clock_back", 2),
        ("generation", 3),
        ("commits", 4),
    ]
    assert "times go back in partition 0, by up to 59m59s" in result.stderr


def test_undo_goes_back_by_log_order_and_prints_the_offset_by_record_times(tmp_path):
    folder, begin_ms = set_back(tmp_path)
    result = coterie_ok("undo", folder, "--group", "g", "--at", str(begin_ms + 1_500))
    assert result.stdout == "t,0,10\n"
    assert "t-0 10 by log order, 20 by record times" in result.stderr
    assert "ends before offset 2; by record times, 2 batches from there on would" in result.stderr


@pytest.mark.parametrize(("group", "shown"), [("g", True), ("h", False)])
@pytest.mark.parametrize(
    "words",
    [
        ("explain", "--until", "{at}"),
        ("undo", "--at", "{at}"),
        ("groups", "--describe", "--at", "{at}"),
        ("report", "--until", "{at}", "--format", "markdown"),
    ],
    ids=lambda words: words[0],
)
def test_a_clock_that_went_back_concerns_the_groups_of_its_partition(words, group, shown, tmp_path):
    folder, begin_ms = set_back(tmp_path)
    place = folder / "__consumer_offsets-1"
    place.mkdir()
    record = begin_ms, *commit_of("h", 0, 10)
    (place / f"{0:020}.log").write_bytes(batch(0, [record]))
    name, *options = (word.format(at=begin_ms + 1_500) for word in words)
    result = coterie_ok(name, folder, "--group", group, *options)
    assert ("partition 0" in result.stderr) == shown


@pytest.mark.parametrize(("at_s", "is_by_record_times"), [(-3_700, 0), (-3_597, 1), (0, 1)])
def test_undo_without_an_offset_then_says_that_a_clock_went_back(
    at_s, is_by_record_times, tmp_path
):
    """By the records' own times, 20 was committed at -3,598 s: the clock was back."""
    folder, begin_ms = set_back(tmp_path)
    at = str(begin_ms + 1_000 * at_s)
    line = fails("undo", folder, "--group", "g", "--at", at, says="no offset was committed").stderr
    assert "times go back in partition 0, by up to 59m59s" in line
    assert ("by record times, 1 partition had an offset then" in line) == is_by_record_times


def test_since_shows_what_follows_in_the_log(tmp_path):
    folder, begin_ms = set_back(tmp_path)
    since = ("--since", str(begin_ms + 500))
    result = coterie_ok("explain", folder, *since, "--format", "json")
    rows = json.loads(result.stdout)
    events = [row["event"] for row in rows if row["log_offset"] is not None]
    assert events == ["commits", "clock_back", "generation", "commits"]
    assert rows[0]["count"] == 2


@pytest.mark.parametrize("case", cases())
def test_the_times_of_healthy_logs_do_not_go_back(case):
    for segments in find_segments([log(case)]).partitions().values():
        assert steps_of(segments) == []


def incident():
    folder = GOLDEN / "incidents" / "clock-back"
    if not folder.exists():
        pytest.skip("there is no incident clock-back")
    truth = json.loads((folder / "truth.json").read_text())
    back, forth = [event["at_ms"] for event in truth["events"] if event["what"] == "clock set"]
    with gzip.open(folder / "commits.jsonl.gz", "rt") as file:
        commits = [json.loads(line) for line in file]
    return folder / "log", back, forth, commits


def test_a_real_clock_that_went_back_is_reported_by_how_much():
    log_folder, back, _, _ = incident()
    steps = [json.loads(line) for line in coterie_ok("verify", log_folder).stdout.splitlines()]
    assert steps
    assert {step["kind"] for step in steps} == {"clock"}
    for segments in find_segments([log_folder]).partitions().values():
        for step in steps_of(segments):
            assert step.before_ms <= back <= step.after_ms + 3_600_000


def test_undo_to_a_time_while_a_real_clock_was_back_gives_what_was_committed_before_it():
    """By record times, commits of up to 36 s later would count."""
    log_folder, back, _, commits = incident()
    expected = {}
    for commit in commits:
        if commit["group"] == "payments" and commit["at_ms"] < back:
            expected |= commit["offsets"]
    at = str(back + 4_000)
    result = coterie_ok("undo", log_folder, "--group", "payments", "--at", at)
    lines = [line.split(",") for line in result.stdout.splitlines()]
    assert {f"{topic}-{number}": int(offset) for topic, number, offset in lines} == expected
    assert "by record times" in result.stderr


def test_since_a_real_clock_went_back_no_join_is_left_out():
    log_folder, back, _, _ = incident()
    result = coterie_ok(
        "explain", log_folder, "--group", "payments", "--since", str(back), "--format", "json"
    )
    joined = [
        cause["client_id"]
        for row in json.loads(result.stdout)
        if row["event"] == "generation"
        for cause in row["causes"]
        if cause["what"] == "joined"
    ]
    assert joined == ["pay-3"]


def test_the_report_says_that_a_clock_went_back(tmp_path):
    folder, _ = set_back(tmp_path / "log")
    result = coterie_ok("report", folder, "--format", "markdown")
    note = "times go back in partition 0, by up to 59m59s: rows are in log order"
    assert f"> **A clock went back:** {note}" in result.stdout
    assert f"coterie: {note}" in result.stderr
    page = tmp_path / "page.html"
    coterie_ok("report", folder, "-o", page)
    assert note in page.read_text(encoding="utf-8")
