"""The time range of a log, as messages about ``--at`` and ``--log-until`` say it."""

import json
from types import SimpleNamespace

import click
import pytest

from coterie.base.times import format_time
from coterie.cli import newest
from coterie.cli.failures import Failed
from coterie.log.copy_state import CopyState, write_copy_state
from coterie.log.folders import find_segments
from coterie.state.replay_engine import HERE
from support.commandline import coterie_ok, fails
from support.log_writer import batch, commit

LATE = 1_796_133_900_123  # far from 0, where a unit shows


def log_of(folder, *partitions):
    """Write a log with commits at these times in its partitions, each in a batch of its own.

    Return it with the options of end offsets.
    """
    for number, times in enumerate(partitions):
        place = folder / "log" / f"__consumer_offsets-{number}"
        place.mkdir(parents=True)
        data = [batch(at, [(ms, *commit(at)[1:])]) for at, ms in enumerate(times)]
        (place / f"{0:020}.log").write_bytes(b"".join(data))
    ends = folder / "ends.txt"
    ends.write_text("t:0:9\n")
    return folder / "log", "--end-offsets", ends


@pytest.mark.parametrize(
    ("partitions", "first_ms", "newest_ms"),
    [
        (([2000, 3000], [1000, 9000]), 1000, 9000),
        (([-1, 3000], [2000, 9000]), 2000, 9000),  # a batch without a time begins no range
        (([-1, 3000], [-1, 9000]), 3000, 9000),  # nor do two: it has what is known of each
        (([-1], [2000, 4000]), 2000, 4000),
    ],
)
def test_a_log_covers_the_times_of_all_its_partitions(tmp_path, partitions, first_ms, newest_ms):
    log = log_of(tmp_path, *partitions)
    covers = f"the log covers {format_time(first_ms)} to {format_time(newest_ms)}"
    for name in ("lag", "metrics"):
        late, early = ("--at", newest_ms + 1), ("--log-until", newest_ms - 1)
        fails(name, *log, *late, status=2, says=("is after the log ends", covers))
        fails(name, *log, *early, status=2, says=("is too early", covers))


@pytest.mark.parametrize("name", ["lag", "metrics"])
def test_the_newest_time_itself_is_within_the_log(tmp_path, name):
    arguments = (name, *log_of(tmp_path, [1000, 2000]))
    coterie_ok(*arguments, "--at", 2000)
    coterie_ok(*arguments, "--log-until", 2000)
    coterie_ok(*arguments, "--at", 3000, "--log-until", 3000)
    late = ("--at", 3001, "--log-until", 3000)
    fails(*arguments, *late, status=2, says=f"is after --log-until {format_time(3000)}")


@pytest.mark.parametrize("name", ["lag", "metrics"])
def test_end_offsets_without_a_time_are_of_the_end_of_the_log_which_is_named(tmp_path, name):
    arguments = (name, *log_of(tmp_path, [LATE, LATE + 2_000]))
    for options, end_ms in (((), LATE + 2_000), (("--log-until", LATE + 7_000), LATE + 7_000)):
        note = f"taken as of the end of the log, {format_time(end_ms)}; --at says when"
        assert note in coterie_ok(*arguments, *options).stderr
    for option in ("--at", "--until"):
        assert "taken as of" not in coterie_ok(*arguments, option, LATE + 1_000).stderr


@pytest.mark.parametrize("name", ["lag", "metrics"])
def test_a_sample_later_than_the_log_has_no_lag_unless_the_copy_was_made_later(tmp_path, name):
    log, option, ends = log_of(tmp_path, [LATE, LATE + 1_000], [LATE + 2_000])
    status = {"lag": "status", "metrics": "lag_status"}[name]
    for after_ms, until_ms, found in (
        (2_000, None, "ok"),
        (2_001, None, "beyond_log"),
        (3_000, LATE + 2_999, "beyond_log"),
        (3_000, LATE + 3_000, "ok"),
    ):
        ends.write_text(f"time,topic,partition,offset\n{LATE + after_ms},t,0,9\n")
        copied = () if until_ms is None else ("--log-until", until_ms)
        rows = json.loads(coterie_ok(name, log, option, ends, *copied, "--format", "json").stdout)
        assert {row[status] for row in rows} - {None} == {found}, (after_ms, until_ms)


@pytest.mark.parametrize("copied_ms", [None, LATE + 1_999, LATE + 5_000])
def test_a_copy_of_a_cluster_covers_the_time_until_when_it_is_complete(tmp_path, copied_ms):
    log, *_ = log_of(tmp_path, [LATE, LATE + 2_000])
    if copied_ms is not None:
        state = CopyState("__consumer_offsets", 0, None, None, 0, LATE, 0, copied_ms, 2)
        write_copy_state(log / "__consumer_offsets-0", state)
    listing, end_ms = find_segments([log]), max(copied_ms or 0, LATE + 2_000)
    assert newest.log_until(listing, HERE, None, end_ms) == end_ms
    with pytest.raises(click.UsageError, match="is after the log ends"):
        newest.log_until(listing, HERE, None, end_ms + 1)


def test_rows_of_metrics_have_the_losses_whatever_names_the_text_would_use(tmp_path):
    arguments = ("metrics", log_of(tmp_path, [LATE])[0], "--format", "json")
    assert coterie_ok(*arguments).stdout == coterie_ok(*arguments, "--names", "braedon").stdout


def test_a_log_without_a_time_says_which_option_gives_one(tmp_path):
    fails("lag", *log_of(tmp_path, [-1]), "--at", 5, says="--log-until TIME")
    assert str(newest.without_time("--now")).endswith("give --now TIME")


@pytest.mark.parametrize("name", ["lag", "metrics"])
def test_wrong_usage_is_refused_before_a_log_is_asked_for_its_times(tmp_path, name):
    log, option, _ = log_of(tmp_path, [-1])  # it has none, which is an error of its own
    ends = tmp_path / "ends.csv"
    ends.write_text("time,topic,partition,offset\n300,t,0,3\n")
    fails(name, log, option, ends, says="no record with a time")
    fails(name, log, option, ends, "--overwrite", status=2, says="--overwrite is for --out FILE")


@pytest.mark.parametrize("times_ms", [[5, -1, 7], [-1, -1, 0, 3], [0], [-1, 9], [-1, -1, 8]])
def test_answers_wait_for_a_record_with_a_time_and_come_once_each_in_their_order(times_ms):
    """The time of the newest record so far is known with the first answer that comes."""
    found = newest.Newest("--now")
    known = []
    for part in found.of(SimpleNamespace(newest_ms=ms) for ms in times_ms):
        known.append(part.newest_ms)
        assert found.ms >= 0
    assert (known, found.ms) == (times_ms, max(times_ms))


@pytest.mark.parametrize("times_ms", [[], [-1], [-1, -1]])
def test_without_any_time_no_answer_comes(times_ms):
    found = newest.Newest("--now")
    came = []
    with pytest.raises(Failed, match="--now TIME"):
        came.extend(found.of(SimpleNamespace(newest_ms=ms) for ms in times_ms))
    assert came == []
