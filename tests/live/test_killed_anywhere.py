"""A watcher that dies by SIGKILL before any line of its code goes on as if it had not."""

import os
import signal
import sys
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from support.examples import examples
from support.growing_log import GrowingLog
from support.insight.compacted_logs import Written, operations
from support.watch.watched import watched_findings, watched_rows, watched_totals, watcher_of

SOURCES = ("coterie/live/", "coterie/base/atomic_file.py")
STEPS = 3


def lives(log, data, lines):
    """Follow a log as a process that is killed after so many lines of ours; return how it ended."""
    child = os.fork()
    if child == 0:
        left = lines

        def line(frame, event, argument):
            nonlocal left
            left -= event == "line"
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return line

        def call(frame, event, argument):
            return line if any(name in frame.f_code.co_filename for name in SOURCES) else None

        try:
            sys.settrace(call)
            watcher = watcher_of(log, data)
            for _ in range(STEPS):
                watcher.step()
                watcher.save()
                watcher.unsaved.update(watcher.partitions)
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@settings(max_examples=examples(40))
@given(operations(at_least=6), st.lists(st.integers(1, 900), min_size=1, max_size=3), st.data())
def test_killed_before_any_line_it_knows_what_an_uninterrupted_watcher_knows(steps, kills, data):
    with tempfile.TemporaryDirectory() as home:
        log, written = GrowingLog(Path(home) / "log"), Written()
        log.put(written.left)
        appends = [step for step in steps if step[1] != "clean"]
        for passed_ms, what, how in appends:
            written.now_ms += passed_ms + 1
            written.apply(what, how)
            log.put(written.left)
            if kills and data.draw(st.booleans()):
                assert lives(log, Path(home) / "data", kills.pop()) in (0, -signal.SIGKILL)
        refused = []
        uninterrupted, watcher = watcher_of(log), watcher_of(log, Path(home) / "data", refused)
        uninterrupted.step()
        watcher.step()
        for known in (watched_rows, watched_totals, watched_findings):
            assert known(watcher) == known(uninterrupted)
        assert refused == []  # no snapshot is damaged
        watcher.close()
