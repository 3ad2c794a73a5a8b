"""Members fenced because they did not give up partitions are counted by a total that never falls.

The log is Kafka's own, of a golden trace in which one member is fenced.
"""

from coterie._core.codec.batch import LogReader
from support.cleaner import DAY_MS, clean
from support.growing_log import GrowingLog
from support.insight import trace_causes
from support.log_writer import batch, commit
from support.watch.watched import watched_rows, watcher_of

TRACE = "scenarios/rebalance-timeout"
LATER_MS = trace_causes.START_MS + 2 * DAY_MS


def whole_log(folder):
    """The segments of the trace, and an active one with a commit of another group."""
    (path,) = trace_causes.log_of(folder, TRACE).glob("*/*.log")
    data = path.read_bytes()
    end = list(LogReader(data))[-1].last_offset + 1
    return [(0, data), (end, batch(end, [commit(LATER_MS, group=b"other")]))]


def timeouts(watcher):
    return {
        row["group_id"]: row["revocation_timeouts"]
        for row in watched_rows(watcher)
        if row["topic"] is None
    }


def fresh(log):
    """A watcher that has seen nothing of the log before."""
    watcher = watcher_of(log)
    watcher.step()
    return watcher


def test_revocation_timeouts_outlive_the_compaction_of_their_records(tmp_path):
    segments, log = whole_log(tmp_path / "trace"), GrowingLog(tmp_path / "log")
    log.put(segments)
    watcher = watcher_of(log)
    watcher.step()
    (group,) = timeouts(watcher).keys() - {"other"}
    assert timeouts(watcher) == {group: 1, "other": None}
    log.put(clean(segments, now_ms=LATER_MS, delete_retention_ms=0)[0])
    watcher.step()
    assert watcher.health().rebuilds == 1
    assert timeouts(fresh(log)) == {group: 0, "other": None}  # nothing is left
    assert timeouts(watcher) == {group: 1, "other": None}


def test_revocation_timeouts_outlive_a_compaction_while_nobody_watches(tmp_path):
    segments, log = whole_log(tmp_path / "trace"), GrowingLog(tmp_path / "log")
    log.put(segments)
    watcher = watcher_of(log, tmp_path / "data")
    watcher.step()
    before = timeouts(watcher)
    watcher.close()
    log.put(clean(segments, now_ms=LATER_MS, delete_retention_ms=0)[0])
    watcher = watcher_of(log, tmp_path / "data")
    watcher.step()
    assert timeouts(watcher) == before
    watcher.close()
