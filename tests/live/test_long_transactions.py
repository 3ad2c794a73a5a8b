"""A transaction that stays open for many steps: its records wait, in few pieces and mappings."""

import os
from pathlib import Path

import pytest

from coterie.errors import LogError
from support.growing_log import GrowingLog
from support.insight.compacted_logs import Written
from support.watch.watched import (
    fresh_findings,
    fresh_rows,
    watched_findings,
    watched_rows,
    watcher_of,
)

MAPS = Path("/proc/self/maps")
STEPS = 300
ROLLS = 3


def commit(written, number):
    written.now_ms += 1_000
    written.apply("commit", ((b"g", b"t", number % 3), number))


def mappings_of(log):
    if not os.access(MAPS, os.R_OK):
        pytest.skip("no /proc/self/maps")
    return MAPS.read_text(encoding="utf-8").count(str(log.folder))


def assert_equals_a_fresh_read(watcher, log):
    assert watched_rows(watcher) == fresh_rows(log.home)
    assert watched_findings(watcher) == fresh_findings(log.home)


def test_with_one_open_transaction_pieces_and_mappings_stay_few(tmp_path):
    log, written = GrowingLog(tmp_path / "log"), Written()
    written.apply("write", (1, (b"h", b"t", 0), 1))
    watcher = watcher_of(log)
    for number in range(STEPS):
        if number % (STEPS // ROLLS) == STEPS // ROLLS - 1:
            written.roll()
        commit(written, number)
        log.put(written.left)
        watcher.step()
    live = watcher.partitions[0].live
    assert len(live.waiting) == len(live.log.tails) == len(written.left) == ROLLS + 1
    assert mappings_of(log) <= len(written.left)
    assert_equals_a_fresh_read(watcher, log)
    written.apply("end", (1, True))
    log.put(written.left)
    watcher.step()
    assert not live.waiting
    assert not live.log.tails
    assert mappings_of(log) == 0
    assert_equals_a_fresh_read(watcher, log)


def test_with_transactions_that_overlap_what_is_decided_is_dropped(tmp_path):
    log, written = GrowingLog(tmp_path / "log"), Written()
    watcher = watcher_of(log)
    for number in range(STEPS // 3):  # one of the two producers has a transaction open at any time
        written.roll()
        written.apply("write", (number % 2, (b"g", b"t", number % 2), number))
        written.apply("end", ((number + 1) % 2, number % 3 > 0))
        log.put(written.left)
        watcher.step()
    live = watcher.partitions[0].live
    assert len(live.waiting) == len(live.log.tails) == 1
    assert_equals_a_fresh_read(watcher, log)


def test_pieces_do_not_become_larger_than_those_of_a_whole_read(tmp_path, monkeypatch):
    log, written = GrowingLog(tmp_path / "log"), Written()
    written.apply("write", (1, (b"h", b"t", 0), 1))
    limit_bytes = 4 * len(written.left[0][1])
    monkeypatch.setattr("coterie.live.live_partition.GROWTH_PIECE_BYTES", limit_bytes)
    watcher = watcher_of(log)
    for number in range(40):
        commit(written, number)
        log.put(written.left)
        watcher.step()
    waiting = watcher.partitions[0].live.waiting
    assert len(waiting) > 1
    assert max(piece.end - piece.start for piece in waiting) <= limit_bytes
    assert mappings_of(log) == 1
    assert_equals_a_fresh_read(watcher, log)


def test_an_answer_that_failed_at_a_cut_file_leaves_the_state_as_it_was(tmp_path):
    log, written = GrowingLog(tmp_path / "log"), Written()
    written.apply("write", (1, (b"h", b"t", 0), 1))
    watcher = watcher_of(log)
    for number in range(6):
        commit(written, number)
        if number == 3:
            written.roll()
    log.put(written.left)
    watcher.step()
    path = sorted(log.folder.iterdir())[-1]
    whole = path.read_bytes()
    os.truncate(path, len(whole) - 10)  # the piece of the file before it has been added by then
    with pytest.raises(LogError, match="was truncated while it was read"):
        list(watcher.answers())
    with path.open("ab") as file:
        file.write(whole[-10:])
    written.apply("end", (1, True))
    log.put(written.left)
    watcher.step()
    assert watcher.health().rebuilds == 0
    assert_equals_a_fresh_read(watcher, log)
