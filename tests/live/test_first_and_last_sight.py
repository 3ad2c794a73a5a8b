"""Totals are shown from the first sight of a group, and outlive it: so a rule sees each rise."""

import pytest

from coterie.errors import LogError
from coterie.live.exposition import log_lines, watch_lines
from coterie.live.live_partition import LivePartition
from coterie.live.watched_partition import GONE_MS
from support.growing_log import GrowingLog
from support.insight import lives
from support.insight.compacted_logs import Written
from support.log_writer import batch
from support.watch.watched import (
    fresh_findings,
    watched_findings,
    watched_rows,
    watched_totals,
    watcher_of,
)

CAUSES = ("eviction", "poll timeout", "poll timeout or eviction", "clean close", "unknown")
PLACE = (b"g", b"t", 0)
COMMITS = 'kafka_consumer_group_commits_total{group="g",topic="t",partition="0"} '
ROW = 'coterie_consumergroup_%s{consumergroup="g"%s} '


class Life:
    """A log, and the samples of a watcher of it that begin with a group ``g``."""

    def __init__(self, home, data=None):
        self.log, self.written, self.data = GrowingLog(home / "log"), Written(), data
        self.watcher = watcher_of(self.log, data)

    def apply(self, *steps):
        for what, how in steps:
            self.written.apply(what, how)
        self.log.put(self.written.left)

    def restart(self):
        self.watcher.close()
        self.watcher = watcher_of(self.log, self.data)

    def samples(self):
        self.watcher.step()
        return self.shown()

    def shown(self):
        answers = list(self.watcher.answers())
        lines = [*log_lines(answers), *watch_lines(answers, self.watcher.health(), 0)]
        texts = "".join(lines).splitlines()
        return {line for line in texts if '="g"' in line}

    def totals(self):
        return {line for line in self.samples() if "_total" in line}


@pytest.fixture
def life(tmp_path):
    return Life(tmp_path)


COMMITTED = ("commit", (PLACE, 5))
GONE = [("delete", PLACE), ("drop", b"g")]


def test_a_group_has_each_total_of_a_rule_from_its_first_record_on(life):
    life.apply(COMMITTED)
    expected = {ROW % ("departures_total", f',cause="{cause}"') + "0" for cause in CAUSES}
    expected |= {
        ROW % (f"{what}_total", ',topic="t"') + "0" for what in ("rewinds", "skipped_records")
    }
    expected.add('kafka_consumergroup_rebalances_total{consumergroup="g"} 0')
    expected.add(COMMITS + "1")
    assert life.totals() == expected


def test_totals_outlive_the_group_and_its_other_samples_do_not(life):
    life.apply(COMMITTED, ("commit", (PLACE, 2)), ("join", (b"g", {b"m"})), ("join", (b"g", set())))
    before = life.totals()
    assert ROW % ("rewinds_total", ',topic="t"') + "1" in before
    life.apply(*GONE)
    findings = {ROW % ("findings", ',kind="rewind"') + "1"}  # of what the log has
    assert life.samples() - findings == before
    assert watched_rows(life.watcher) == []  # as `coterie metrics` shows the log


def test_the_total_of_rewinds_has_those_of_audit_as_the_log_grows(tmp_path):
    """A reset that is taken back is none, one after a removal is."""
    log = GrowingLog(tmp_path)
    watcher = watcher_of(log)
    joined, left = lives.life(1000, 1, lives.member("m")), lives.life(3000, 2)
    offsets = [700, 400, 100, 60, None, 20]
    commits = [lives.commit(4000 + at, {0: offset}) for at, offset in enumerate(offsets)]
    counts = []
    for at, records in enumerate([[joined], lives.commit(2000, {0: 100}), [left], *commits]):
        log.append(batch(at, records))
        watcher.step()
        counts.append(watched_totals(watcher)["rewinds"]["g", "t"])
        assert watched_findings(watcher) == fresh_findings(tmp_path)
    assert counts == [0] * 6 + [1, 1, 2]


@pytest.mark.parametrize("has_data", [False, True])
def test_a_group_that_is_gone_for_long_is_forgotten_and_begins_anew(tmp_path, has_data):
    life = Life(tmp_path, tmp_path / "data" if has_data else None)

    def restart():
        if has_data:
            life.restart()

    life.apply(COMMITTED, ("commit", (PLACE, 2)), *GONE)
    before = life.totals()
    restart()
    for passed_ms, expected in ((GONE_MS, before), (1, set())):
        life.written.now_ms += passed_ms
        life.apply(("commit", ((b"other", b"t", 0), 1)))
        assert life.totals() == expected
        restart()
    life.apply(COMMITTED, ("commit", (PLACE, 4)))
    again = life.totals()
    assert ROW % ("rewinds_total", ',topic="t"') + "1" in again
    assert COMMITS + "2" in again
    restart()
    assert life.totals() == again


def test_a_group_that_is_back_in_time_goes_on(life):
    life.apply(COMMITTED, *GONE)
    life.samples()
    for _ in range(3):
        life.written.now_ms += GONE_MS - 1
        life.apply(COMMITTED, *GONE)
        shown = life.totals()
        life.written.now_ms += 1
        life.apply(COMMITTED)
        life.samples()
        life.apply(*GONE)
    assert COMMITS + "6" in shown


def test_a_step_that_fails_leaves_what_was_shown(life, monkeypatch):
    life.apply(COMMITTED)
    before = life.samples()

    def fail(self, growths):
        raise LogError("cannot be read")

    with monkeypatch.context() as patch:
        patch.setattr(LivePartition, "take", fail)
        for _ in range(2):  # a step that goes on, one that reads anew
            life.apply(COMMITTED)
            assert life.samples() == before
    assert COMMITS + "3" in life.samples()
