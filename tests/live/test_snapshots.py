"""A watcher that is killed anywhere goes on as if it had not been; damaged files are refused."""

import json
import os
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie._core.codec.compression import crc32c
from coterie.live import snapshot
from coterie.live.totals import Mark, nothing, put_totals
from support.examples import examples
from support.growing_log import GrowingLog
from support.insight.compacted_logs import Written, operations
from support.log_writer import batch, commit
from support.watch.watched import watched_findings, watched_rows, watched_totals, watcher_of


@settings(max_examples=examples(60))
@given(operations(at_least=6), st.data())
def test_killed_anywhere_it_knows_what_an_uninterrupted_watcher_knows(steps, data):
    with tempfile.TemporaryDirectory() as home:
        log, written = GrowingLog(Path(home) / "log"), Written()
        log.put(written.left)
        uninterrupted, watcher = watcher_of(log), watcher_of(log, Path(home) / "data")
        for passed_ms, what, how in steps:
            if what == "clean":
                continue
            written.now_ms += passed_ms + 1
            written.apply(what, how)
            log.put(written.left)
            uninterrupted.step()
            fate = data.draw(st.sampled_from(["step", "step", "wait", "save", "kill"]))
            if fate in ("step", "save"):
                watcher.step()
            if fate == "save":
                watcher.save()
            if fate == "kill":
                unlock(watcher)
                watcher = watcher_of(log, Path(home) / "data")
        watcher.step()
        assert watched_rows(watcher) == watched_rows(uninterrupted)
        assert watched_totals(watcher) == watched_totals(uninterrupted)
        assert watched_findings(watcher) == watched_findings(uninterrupted)
        unlock(watcher)


def unlock(watcher):
    """End the lock as the end of a process does, and store nothing."""
    watcher.unsaved.clear()
    watcher.close()


@settings(max_examples=examples(40))
@given(operations(at_least=8), operations(at_least=4))
def test_totals_before_a_snapshot_outlive_a_compaction_while_nobody_watches(steps, more):
    with tempfile.TemporaryDirectory() as home:
        log, written = GrowingLog(Path(home) / "log"), Written()
        whole = GrowingLog(Path(home) / "whole")

        def apply(operations):
            for passed_ms, what, how in operations:
                written.now_ms += passed_ms + 1
                written.apply(what, how)

        apply([step for step in steps if step[1] != "clean"])
        log.put(written.left)
        watcher = watcher_of(log, Path(home) / "data")
        watcher.step()
        watcher.close()
        apply([(1, "roll", None), (1, "commit", ((b"a", b"t", 0), 5)), (1, "clean", 0)])
        log.put(written.left)
        watcher = watcher_of(log, Path(home) / "data")
        watcher.step()
        apply([step for step in more if step[1] != "clean"])
        log.put(written.left)
        watcher.step()
        whole.put(written.whole)
        uncut = watcher_of(whole)
        uncut.step()
        assert watched_totals(watcher)["commits"] == watched_totals(uncut)["commits"]
        unlock(watcher)


LABELS = {
    "commits": ("g", "t", 0),
    "skipped": ("g", "t", 1),
    "rewinds": ("g", "t"),
    "rebalances": ("g", "JOIN"),
    "departures": ("g", "left"),
    "revocation_timeouts": ("g",),
}


def a_mark():
    counts = {kind: Counter({of: n}) for n, (kind, of) in enumerate(LABELS.items(), 3)}
    return Mark(7, nothing() | counts, gone={"g": 1_000})


def test_what_is_written_is_read_again(tmp_path):
    snapshot.write(tmp_path / "f", a_mark())
    assert snapshot.read(tmp_path / "f") == a_mark()
    assert snapshot.read(tmp_path / "nothing") is None


def test_every_damaged_byte_and_every_cut_is_noticed(tmp_path):
    file = tmp_path / "f"
    snapshot.write(file, a_mark())
    data = file.read_bytes()
    for at in range(len(data)):
        for damaged in (data[:at], data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]):
            file.write_bytes(damaged)
            with pytest.raises(snapshot.NoSnapshot):
                snapshot.read(file)


def test_the_row_of_a_group_has_the_sums_of_its_partitions_and_no_other_s():
    totals = nothing()
    for group, at in (("a", 1), ("b", 100)):
        totals["commits"] |= Counter({(group, "t", 0): 1 * at, (group, "t", 1): 2 * at})
        totals["skipped"] |= Counter({(group, "t", 1): 4 * at})
        totals["rebalances"] |= Counter({(group, "JOIN"): 5 * at, (group, "LEAVE"): 1 * at})
        totals["revocation_timeouts"] |= Counter({(group,): 7 * at})
    counts = dict.fromkeys(("commits", "skipped", "rebalances", "revocation_timeouts"), 0)
    of_group = {"group_id": "a", "topic": None, "partition": None, **counts}
    classic = {**of_group, "group_id": "b", "revocation_timeouts": None}
    of_partition = {"group_id": "b", "topic": "t", "partition": 1, "commits": 0, "skipped": 0}
    rows = [dict(of_group), dict(classic), dict(of_partition)]
    put_totals(rows, totals)
    whole = {"commits": 3, "skipped": 4, "rebalances": 6, "revocation_timeouts": 7}
    assert rows == [
        of_group | whole,
        classic | {"commits": 300, "skipped": 400, "rebalances": 600},
        of_partition | {"commits": 200, "skipped": 400},
    ]


def test_another_version_is_named(tmp_path):
    snapshot.write(tmp_path / "f", a_mark())
    data = (tmp_path / "f").read_bytes()
    (tmp_path / "f").write_bytes(data.replace(b"watch 2\n", b"watch 1\n"))
    with pytest.raises(snapshot.NoSnapshot, match="of another version"):
        snapshot.read(tmp_path / "f")


def stored(value):
    """A snapshot with this JSON, and the checksum of it."""
    body = json.dumps(value).encode() if not isinstance(value, bytes) else value
    check = snapshot.CHECK.pack(len(body), crc32c(body))
    return snapshot.HEAD + b"%d\n" % snapshot.VERSION + check + body


EMPTY = {kind: [] for kind in nothing()}
ODD = [
    b"", b"{", b"[" * 100_000, b"\xff", 7, [], {}, {"totals": EMPTY}, {"next_offset": 1},
    {"next_offset": "1", "totals": EMPTY}, {"next_offset": 1, "totals": []},
    {"next_offset": 1, "totals": EMPTY | {"commits": [["g", "t", 0, "1"]]}},
    {"next_offset": 1, "totals": EMPTY | {"commits": [["g", 1]]}},
    {"next_offset": 1, "totals": EMPTY | {"commits": [[["g"], "t", 0, 1]]}},
    {"next_offset": 1, "totals": EMPTY | {"commits": [[]]}},
    {"next_offset": 1, "totals": EMPTY, "gone": []},
    {"next_offset": 1, "totals": EMPTY, "topic_id": 7},
]  # fmt: skip


@pytest.mark.parametrize("value", ODD)
def test_an_odd_value_with_a_right_checksum_is_no_snapshot(tmp_path, value):
    (tmp_path / "f").write_bytes(stored(value))
    with pytest.raises(snapshot.NoSnapshot, match="is damaged"):
        snapshot.read(tmp_path / "f")


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_a_pipe_or_a_folder_is_no_snapshot(tmp_path, make):
    make(tmp_path / "f")
    with pytest.raises(snapshot.NoSnapshot, match="not a regular file"):
        snapshot.read(tmp_path / "f")


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("step_m", [7, 100])
def test_a_log_whose_end_was_cut_and_restored_is_not_counted_twice(tmp_path, restarted, step_m):
    """A copy that lost its end is fetched again."""
    batches = [batch(n, [commit(n, offset=n)]) for n in range(40)]
    log = GrowingLog(tmp_path / "log")
    log.put([(0, b"".join(batches[:30]))])
    watcher = watcher_of(log, tmp_path / "data")
    watcher.step()
    if restarted:
        watcher.close()
    log.put([(0, b"".join(batches[:12]))])
    if restarted:
        watcher = watcher_of(log, tmp_path / "data")
    watcher.step()
    watcher.save()
    for end in range(12, 40, step_m):
        log.put([(0, b"".join(batches[: end + 1]))])
        watcher.step()
    log.put([(0, b"".join(batches))])
    watcher.step()
    assert sum(watched_totals(watcher)["commits"].values()) == 40
    watcher.close()
