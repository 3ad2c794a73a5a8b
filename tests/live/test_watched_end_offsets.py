"""The lag that a watcher shows, by the last sample beside the log."""

import pytest

from coterie.insight.offsets.end_offsets import OLD_SAMPLES_HEADING, SAMPLES_FILE, SAMPLES_HEADING
from coterie.live.page_worker import page_of, question_rows
from coterie.live.sampled_end_offsets import EndOffsets
from coterie.live.watched_files import Scope
from support.growing_log import GrowingLog
from support.insight.compacted_logs import FIRST_MS, Written
from support.report.pages import Page
from support.watch.watched import watched_rows, watcher_of


@pytest.fixture
def log(tmp_path):
    """A log with a commit of offset 5, one second after its start."""
    log, written = GrowingLog(tmp_path / "log"), Written()
    written.apply("commit", ((b"g", b"t", 0), 5))
    log.put(written.left)
    return log


def sample(log, text, heading=OLD_SAMPLES_HEADING):
    path = log.home / SAMPLES_FILE
    with path.open("a") as file:
        file.write(("" if path.stat().st_size else heading) + text)


def lag(watcher):
    watcher.step()
    (row,) = (row for row in watched_rows(watcher) if row["topic"] == "t")
    return row["end_offset"], row["lag"], row["lag_status"]


def test_a_file_of_samples_that_is_written_anew_is_read_anew_whatever_its_size(log, tmp_path):
    watcher = watcher_of(log)
    sample(log, "9999,t,0,7\n")
    assert lag(watcher) == (7, 2, "ok")
    anew = tmp_path / "anew"
    anew.write_text(f"{SAMPLES_HEADING}10000,t,0,8,\n10000,other,0,9,1\n10000,t,1,9,0\n")
    anew.replace(log.home / SAMPLES_FILE)
    assert lag(watcher) == (8, 3, "ok")
    sample(log, "10001,t,0,9,2\n")
    assert lag(watcher) == (9, 4, "ok")


def test_the_lag_is_of_the_last_whole_line_of_the_file(log):
    watcher = watcher_of(log)
    late_ms = 1 << 50
    assert lag(watcher) == (None, None, None)
    sample(log, f"{late_ms},t,0,7\n{late_ms},other,0,9\n")
    assert lag(watcher) == (7, 2, "ok")
    sample(log, f"{late_ms + 1},t,0,1")
    assert lag(watcher) == (7, 2, "ok")
    sample(log, "2\n")
    assert lag(watcher) == (12, 7, "ok")


@pytest.mark.parametrize(
    ("time_ms", "shown"),
    [
        (1 << 50, (3, None, "ahead")),
        (FIRST_MS + 1, (3, None, "ahead")),
        (FIRST_MS, (3, None, "ahead")),
        (FIRST_MS - 1, (3, 0, "ok")),
        (0, (3, 0, "ok")),
    ],
)
def test_a_commit_beyond_the_sample_has_a_lag_only_if_it_is_later(log, time_ms, shown):
    sample(log, f"{time_ms},t,0,3\n")
    assert lag(watcher_of(log)) == shown


def test_a_file_of_another_form_is_ignored_and_a_wrong_line_is_a_failure(log):
    watcher = watcher_of(log)
    sample(log, "t:0:7\n", heading="")
    assert lag(watcher) == (None, None, None)
    assert watcher.health().failures == {}
    (log.home / SAMPLES_FILE).write_text(OLD_SAMPLES_HEADING + "now,t,0,7\n")
    lag(watcher)
    assert "line 2" in watcher.health().failures["end offsets"]


def test_only_what_is_new_is_read(log):
    watcher = watcher_of(log)
    sample(log, "1,t,0,7\n")
    watcher.step()
    ends = watcher.ends
    assert isinstance(ends, EndOffsets)
    assert not ends.read(watcher.listing)
    sample(log, "2,t,0,8\n")
    assert ends.read(watcher.listing)


def test_each_partition_has_its_own_sample_and_what_is_not_known_has_no_lag(log):
    rows = [
        {"topic": topic, "partition": number, "offset": offset, "commit_timestamp": 50}
        for topic, number, offset in [("t", 0, 5), ("t", 1, 6), ("u", 0, 7), ("t", 2, None)]
    ]
    rows += [{"topic": "t", "partition": 3, "offset": 4, "commit_timestamp": None}]
    sample(log, "99,t,0,5\n99,t,1,16\n99,u,0,-1\n99,t,2,9\n99,t,3,1\n")
    ends = EndOffsets()
    assert ends.read(watcher_of(log).list_log())
    ends.put_lags(rows)
    shown = [[row.get(name) for name in ("end_offset", "lag", "lag_status")] for row in rows]
    nothing = [None, None, None]
    assert shown == [[5, 0, "ok"], [16, 10, "ok"], nothing, nothing, [1, None, "ahead"]]


@pytest.mark.parametrize(
    ("starts", "count"),
    [
        ("6", 0),  # the copy may not have what was committed before this sample
        ("6 6", 1),
        ("5 6", 0),
        ("6 5", 0),
        ("6 0", 0),  # the topic was made anew
        ("6 0 6", 0),
    ],
)
def test_a_commit_below_the_start_of_two_samples_is_a_finding(log, starts, count):
    lines = [f"{at},t,0,9,{start}\n" for at, start in enumerate(starts.split())]
    sample(log, "".join(lines), SAMPLES_HEADING)
    watcher = watcher_of(log)
    watcher.step()
    (answer,) = watcher.answers()
    assert answer.findings["g", "out_of_range"] == count
    scope = Scope(watcher.listing, None, 0, 0, watcher.ends.log_starts, {})
    kinds = [row["kind"] for row in question_rows("audit", None, scope)]
    assert kinds == ["out_of_range"] * count


def test_the_page_shows_the_lag_at_the_last_sample_however_old_the_newest_record(log, tmp_path):
    pytest.importorskip("jinja2")
    watcher, late_ms = watcher_of(log), 1 << 42
    for text in ("", f"{late_ms},t,0,9\n{late_ms + 5_000},t,0,12\n"):
        sample(log, text)
        watcher.step()
        scope = Scope(watcher.listing, None, 0, 0, {}, watcher.ends.last)
        (tmp_path / "page.html").write_text(page_of("g", scope).decode())
        page = Page(tmp_path / "page.html")
        assert [one["name"] for one in page.data["sections"]].count("lag") == bool(text)
    assert page.overview["g"]["lag"] == 7
    (row,) = page.section("g", "lag")
    assert (row["As of"], row["Committed"], row["End"], row["Lag"]) == (late_ms + 5_000, 5, 12, 7)
