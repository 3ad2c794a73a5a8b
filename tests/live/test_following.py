"""What a watcher knows of a log that changes equals what a command reads from it anew."""

import gzip
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.insight.questions import audit, explain
from coterie.live import snapshot
from coterie.live.live_partition import AUDIT
from coterie.live.watcher import Watcher
from coterie.log.folders import find_segments
from support import golden_data
from support.examples import examples
from support.growing_log import GrowingLog
from support.insight.compacted_logs import Written, operations
from support.insight.models import question_rows
from support.log_writer import batch, commit, each
from support.watch.watched import (
    fresh_findings,
    fresh_rows,
    watched_findings,
    watched_rows,
    watched_totals,
    watcher_of,
)

CASES = ["basic", "transactions", "kip848", "connect"]


def later(steps):
    """The same operations, each at a time of its own: a log is trusted from a millisecond on."""
    return [(ms + 1, what, how) for ms, what, how in steps]


def without_cleaning(steps):
    return [step for step in steps if step[1] != "clean"]


@settings(max_examples=examples(60))
@given(operations(at_least=4), st.data())
def test_after_any_appends_and_steps_rows_and_findings_equal_those_of_the_log(steps, data):
    with tempfile.TemporaryDirectory() as home:
        log, written = GrowingLog(Path(home) / "log"), Written()
        log.put(written.left)
        watcher = watcher_of(log)
        for passed_ms, what, how in later(without_cleaning(steps)):
            written.now_ms += passed_ms
            written.apply(what, how)
            cut = data.draw(st.sampled_from([0, 0, 1, 30, 100]))
            if cut and len(written.left[-1][1]) > cut:  # the end of the last batch is to come
                base, last = written.left[-1]
                if len(log_bytes(log, base)) <= len(last) - cut:
                    log.put([*written.left[:-1], (base, last[:-cut])])
                    watcher.step()
            if data.draw(st.booleans()):
                log.put(written.left)
                watcher.step()
        log.put(written.left)
        watcher.step()
        assert watched_rows(watcher) == fresh_rows(log.home)
        assert watched_findings(watcher) == fresh_findings(log.home)
        assert watcher.health().rebuilds == 0


def log_bytes(log, base):
    path = log.folder / f"{base:020d}.log"
    return path.read_bytes() if path.exists() else b""


@settings(max_examples=examples(60))
@given(operations(at_least=8))
def test_a_log_that_was_compacted_before_it_is_watched_is_known_as_a_command_reads_it(steps):
    with tempfile.TemporaryDirectory() as home:
        log, written = GrowingLog(Path(home) / "log"), Written()
        for passed_ms, what, how in later([*steps, (5, "roll", None), (7, "clean", 0)]):
            written.now_ms += passed_ms
            written.apply(what, how)
        log.put(written.left)
        watcher = watcher_of(log)
        watcher.step()
        assert watched_rows(watcher) == fresh_rows(log.home)
        assert watched_findings(watcher) == fresh_findings(log.home)


@settings(max_examples=examples(60))
@given(operations(at_least=8))
def test_totals_of_a_log_that_is_compacted_are_those_of_all_that_was_written(steps):
    with tempfile.TemporaryDirectory() as home:
        log, written = GrowingLog(Path(home) / "log"), Written()
        log.put(written.left)
        watcher = watcher_of(log)
        for passed_ms, what, how in later(steps):
            written.now_ms += passed_ms
            written.apply(what, how)
            log.put(written.left)
            watcher.step()
        whole = GrowingLog(Path(home) / "whole")
        whole.put(written.whole)
        uncut = watcher_of(whole)
        uncut.step()
        totals, expected = watched_totals(watcher), watched_totals(uncut)
        for kind in ("commits", "rewinds"):
            assert totals[kind] == expected[kind]
        assert sum(totals["rebalances"].values()) == sum(expected["rebalances"].values())


def test_commits_that_go_back_are_counted_by_group_and_topic(tmp_path):
    offsets = {  # two rewinds; one and one; none
        (b"g", b"t", 0): (10, 4, 9, 9, 8),
        (b"g", b"t", 1): (7, 5),
        (b"g", b"u", 0): (3, 2),
        (b"h", b"t", 0): (1, 2),
    }
    records = [
        commit(1_000 * at, offset, group=group, topic=topic, partition=partition)
        for (group, topic, partition), of_one in offsets.items()
        for at, offset in enumerate(of_one)
    ]
    log = GrowingLog(tmp_path / "log")
    watcher = watcher_of(log)
    for count in (len(records) - 4, len(records)):
        log.put([(0, b"".join(each(0, *records[:count])))])
        watcher.step()
    totals = watched_totals(watcher)
    assert totals["rewinds"] == {("g", "t"): 3, ("g", "u"): 1}
    assert totals["commits"] == {
        (group.decode(), topic.decode(), partition): len(of_one)
        for (group, topic, partition), of_one in offsets.items()
    }


def fresh_details(folder):
    rows = question_rows(folder, audit, AUDIT)
    return [row["detail"] for row in rows]


def test_what_goes_on_is_found_as_one_however_often_somebody_asks(tmp_path):
    log, records = GrowingLog(tmp_path / "log"), []
    watcher = watcher_of(log)
    for offset in (7, 7, 7, 4, 4, 4):  # runs of commits of one offset, a rewind among them
        records += [commit(1_000 * (len(records) + at), offset) for at in range(12)]
        log.put([(0, b"".join(each(0, *records)))])
        watcher.step()
        for _ in range(2):
            found = audit.rows(watcher.partitions[0].live.view(), AUDIT)
            assert [row["detail"] for row in found] == fresh_details(log.home)


@pytest.mark.parametrize("case", CASES)
def test_a_log_of_a_broker_that_arrives_bit_by_bit_is_known_as_if_read_at_once(case, tmp_path):
    folder = tmp_path / "log"
    shutil.copytree(golden_data.log(case), folder)
    whole = {path: path.read_bytes() for path in sorted(folder.rglob("*.log"))}
    for path in whole:
        path.write_bytes(b"")
    watcher = Watcher(lambda: find_segments([folder]), None, lambda line: None)
    for path, data in whole.items():  # segment by segment, as a broker writes them
        for end in (len(data) // 3, len(data) * 2 // 3, len(data)):
            path.write_bytes(data[:end])
            watcher.step()
            watched_findings(watcher)  # asking changes nothing of the answers that follow
    assert watched_rows(watcher) == fresh_rows(folder)
    assert watched_findings(watcher) == fresh_findings(folder)


@pytest.mark.parametrize("case", ["basic", "transactions", "kip848"])
def test_departures_are_counted_as_explain_sums_them_up(case, tmp_path):
    watcher = Watcher(lambda: find_segments([golden_data.log(case)]), None, lambda line: None)
    watcher.step()
    known = {}
    for (group, cause), count in watched_totals(watcher)["departures"].items():
        if cause != "unknown":
            known[group] = known.get(group, 0) + count
    summed = {}
    for row in question_rows(golden_data.log(case), explain, explain.Parameters()):
        if row["event"] == "departures":
            summed[row["group_id"]] = summed.get(row["group_id"], 0) + row["count"]
    assert known == summed


def test_compressed_segments_are_read_once_they_are_whole(tmp_path):
    folder = tmp_path / "log"
    shutil.copytree(golden_data.log("basic"), folder)
    for path in list(folder.rglob("*.log")):
        Path(f"{path}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    watcher = Watcher(lambda: find_segments([folder]), None, lambda line: None)
    watcher.step()
    assert watched_rows(watcher) == fresh_rows(folder)
    assert watcher.step() == 0


def test_a_truncated_log_is_read_anew_and_totals_stay(tmp_path):
    written = Written()
    for offset in range(5):
        written.now_ms += 1
        written.apply("commit", ((b"a", b"t", 0), offset))
    log = GrowingLog(tmp_path / "log")
    log.put(written.left)
    watcher = watcher_of(log)
    watcher.step()
    (base, data), *_ = written.left
    log.put([(base, data[: len(data) * 3 // 5])])  # an election that lost the last two
    watcher.step()
    assert watcher.health().rebuilds == 1
    assert watched_totals(watcher)["commits"] == {("a", "t", 0): 5}
    assert [row["offset"] for row in watched_rows(watcher)][1:] == [2]


def test_bytes_that_are_no_batch_wait_and_are_counted_as_behind(tmp_path):
    written = Written()
    written.apply("commit", ((b"a", b"t", 0), 1))
    log = GrowingLog(tmp_path / "log")
    (base, data), *_ = written.left
    log.put([(base, data + b"\xff" * 40)])
    watcher = watcher_of(log)
    watcher.step()
    assert watcher.health()[1:3] == (40, 40)
    log.put([(base, data + b"\xff" * 40), (9, b"")])  # the next segment: nothing more will come
    watcher.step()
    assert watcher.health()[1:3] == (0, 0)
    assert watched_rows(watcher) == fresh_rows(log.home)


def commits_of_partitions(watcher):
    """The commits that were counted in each partition, which have the same group."""
    answers = [partition.answer() for partition in watcher.partitions.values()]
    return [answer.totals["commits"].total() for answer in answers]


def test_a_partition_that_is_gone_is_shown_no_more_and_counted_on_when_it_returns(tmp_path):
    written = Written()
    written.apply("commit", ((b"a", b"t", 0), 1))
    log, other = GrowingLog(tmp_path / "log"), tmp_path / "log" / "__consumer_offsets-1"
    log.put(written.left)
    shutil.copytree(log.folder, other)
    watcher = watcher_of(log, tmp_path / "data")
    watcher.step()
    assert len(list(watcher.answers())) == 2
    shutil.rmtree(other)
    watcher.step()
    assert len(list(watcher.answers())) == 1
    shutil.copytree(log.folder, other)
    watcher.step()
    assert commits_of_partitions(watcher) == [1, 1]
    watcher.close()


def test_a_file_that_cannot_be_read_is_named_once_and_tried_again(tmp_path):
    written = Written()
    written.apply("commit", ((b"a", b"t", 0), 1))
    log, lines = GrowingLog(tmp_path / "log"), []
    log.put(written.left)
    watcher = watcher_of(log, lines=lines)
    watcher.step()
    (log.folder / f"{0:020d}.log").rename(tmp_path / "away")
    watcher.step()
    watcher.step()
    assert len(lines) == 1
    assert "no segment (.log)" in lines[0]
    assert list(watcher.health().failures) == ["log"]
    (tmp_path / "away").rename(log.folder / f"{0:020d}.log")
    watcher.step()
    assert watcher.health().failures == {}
    assert watched_rows(watcher) == fresh_rows(log.home)


def test_a_segment_that_cannot_be_read_leaves_what_is_known_and_its_totals(tmp_path):
    written = Written()
    for offset in range(3):
        written.now_ms += 1
        written.apply("commit", ((b"a", b"t", 0), offset))
    log, lines = GrowingLog(tmp_path / "log"), []
    log.put(written.left)
    watcher = watcher_of(log, lines=lines)
    watcher.step()
    broken = log.folder / f"{9:020d}.log.gz"
    broken.write_bytes(b"no gzip")
    watcher.step()
    assert list(watcher.health().failures) == ["partition 0"]
    assert str(broken) in lines[0]
    assert watched_totals(watcher)["commits"] == {("a", "t", 0): 3}
    assert watcher.listing_of("a") is None
    broken.unlink()
    (log.folder / f"{0:020d}.log").unlink()  # retention
    log.put([(3, b"")])
    watcher.step()
    assert watcher.health().failures == {}
    assert watched_totals(watcher)["commits"] == {("a", "t", 0): 3}


def test_totals_are_stored_after_the_first_step_and_every_tenth_one_after_it(tmp_path):
    log, written, data = GrowingLog(tmp_path / "log"), Written(), tmp_path / "data"
    watcher = watcher_of(log, data)
    stored = []
    for offset in range(22):
        written.now_ms += 1
        written.apply("commit", ((b"a", b"t", 0), offset))
        log.put(written.left)
        watcher.step()
        stored.append(snapshot.read(snapshot.file_of(data, 0)).next_offset)
    assert stored == [1] * 10 + [11] * 10 + [21] * 2
    watcher.close()


def test_totals_are_stored_although_the_last_step_failed(tmp_path):
    log, written, data = GrowingLog(tmp_path / "log"), Written(), tmp_path / "data"
    watcher = watcher_of(log, data)
    for offset in range(3):
        written.now_ms += 1
        written.apply("commit", ((b"a", b"t", 0), offset))
        log.put(written.left)
        watcher.step()
    (log.folder / f"{9:020d}.log.gz").write_bytes(b"no gzip")
    watcher.step()
    watcher.close()
    mark = snapshot.read(snapshot.file_of(data, 0))
    assert (mark.next_offset, mark.totals["commits"]) == (3, {("a", "t", 0): 3})


def test_segments_whose_times_change_but_not_their_bytes_are_not_read_again(tmp_path):
    log, written = GrowingLog(tmp_path / "log"), Written()
    for offset in range(3):
        written.apply("commit", ((b"a", b"t", 0), offset))
        written.apply("roll", None)
    log.put(written.left)
    first = log.folder / f"{0:020d}.log"
    Path(f"{first}.gz").write_bytes(gzip.compress(first.read_bytes()))
    first.unlink()
    watcher = watcher_of(log)
    watcher.step()
    for number, path in enumerate(sorted(log.folder.iterdir())):
        os.utime(path, ns=(0, number))
    assert (watcher.step(), watcher.health().rebuilds) == (0, 0)


def test_a_log_is_read_anew_if_a_segment_before_the_last_has_grown(tmp_path):
    log, written = GrowingLog(tmp_path / "log"), Written()
    for offset in range(4):
        written.now_ms += 1
        written.apply("commit", ((b"a", b"t", 0), offset))
    (base, data), *_ = written.left
    size = len(data) // 4
    log.put([(base, data[:size]), (2, data[2 * size :])])
    watcher = watcher_of(log)
    watcher.step()
    log.put([(base, data[: 2 * size]), (2, data[2 * size :])])  # the copy was not complete
    watcher.step()
    assert watcher.health().rebuilds == 1


def test_a_watcher_that_is_closed_twice_closes_no_other_file(tmp_path):
    watcher = watcher_of(GrowingLog(tmp_path / "log"), tmp_path / "data")
    watcher.close()
    with open(tmp_path / "other", "w", encoding="utf-8") as other:
        watcher.close()
        other.write("x")
        other.flush()


def test_a_snapshot_that_cannot_be_written_is_named_and_tried_again(tmp_path):
    written = Written()
    written.apply("commit", ((b"a", b"t", 0), 1))
    log, lines, data = GrowingLog(tmp_path / "log"), [], tmp_path / "data"
    log.put(written.left)
    watcher = watcher_of(log, data, lines)
    (data / "watch-0.snapshot").mkdir()
    watcher.step()
    watcher.save()  # a reason is said once
    assert len(lines) == 2
    assert "watch-0.snapshot: cannot be read" in lines[0]
    assert "watch-0.snapshot: cannot be written" in lines[1]
    (data / "watch-0.snapshot").rmdir()
    watcher.close()
    assert (data / "watch-0.snapshot").is_file()


def two_partitions(tmp_path, lines):
    """A log whose second partition can go and come back, and a watcher that stores totals."""
    written = Written()
    written.apply("commit", ((b"a", b"t", 0), 1))
    log, other = GrowingLog(tmp_path / "log"), tmp_path / "log" / "__consumer_offsets-1"
    log.put(written.left)
    shutil.copytree(log.folder, other)
    return log, other, watcher_of(log, tmp_path / "data", lines)


def test_a_partition_that_is_gone_is_named_once(tmp_path):
    lines = []
    log, other, watcher = two_partitions(tmp_path, lines)
    watcher.step()
    for _ in range(2):
        shutil.rmtree(other)
        watcher.step()
        watcher.step()
        shutil.copytree(log.folder, other)
        watcher.step()
    assert lines == ["partition 1: its files are gone; it is shown no more"] * 2
    watcher.close()


def test_a_partition_that_goes_while_its_totals_cannot_be_stored_is_counted_on(tmp_path):
    lines = []
    _, other, watcher = two_partitions(tmp_path, lines)
    watcher.step()
    stored = tmp_path / "data" / "watch-1.snapshot"
    stored.unlink()
    stored.mkdir()
    (segment,) = other.iterdir()
    segment.write_bytes(b"")  # truncated: its commit is in the totals alone
    watcher.step()
    shutil.rmtree(other)
    for _ in range(12):  # and it is saved meanwhile
        watcher.step()
    assert lines[0] == "partition 1: its files are gone; it is shown no more"
    assert len(list(watcher.answers())) == 1
    assert watcher.health().rebuilds == 1
    assert watcher.health().behind_bytes == 0
    other.mkdir()
    segment.write_bytes(batch(1, [commit(1)]))
    watcher.step()
    assert commits_of_partitions(watcher) == [1, 2]
    stored.rmdir()
    watcher.close()
    assert stored.is_file()


def test_rebuilds_of_partitions_that_are_gone_stay_counted(tmp_path):
    _, other, watcher = two_partitions(tmp_path, [])
    watcher.step()
    (segment,) = other.iterdir()
    segment.write_bytes(b"")
    watcher.step()
    assert watcher.health().rebuilds == 1
    shutil.rmtree(other)
    watcher.step()
    assert list(watcher.partitions) == [0]
    assert watcher.health().rebuilds == 1
    watcher.close()


def test_a_segment_that_grows_stays_one_piece_and_its_newest_record_is_known(tmp_path):
    log = GrowingLog(tmp_path / "log")
    batches = each(0, *map(commit, (9_000, 5_000, 7_000, 2_000)))
    watcher = watcher_of(log)
    for count in (1, 2):
        log.put([(0, b"".join(batches[:count]))])
        watcher.step()
    for count in (3, 4):
        log.put([(0, b"".join(batches[:2])), (2, b"".join(batches[2:count]))])
        watcher.step()
    (partition,) = watcher.partitions.values()
    pieces = partition.live.log.fold.segments
    assert [(piece.first_offset, piece.last_offset) for piece in pieces] == [(0, 1), (2, 3)]
    assert [piece.max_timestamp for piece in pieces] == [9_000, 7_000]
    assert watcher.newest_ms == watcher.health().newest_ms == 9_000
