"""What a step notices besides new records, what is shown anew after it, and what ends it."""

import asyncio
import functools
import gzip
import json
import shutil
import stat
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from urllib.parse import quote

import pytest

from coterie.insight.offsets.end_offsets import SAMPLES_FILE, SAMPLES_HEADING
from coterie.live import snapshot
from coterie.live.totals import Mark, nothing
from coterie.live.watcher import Watcher
from coterie.live.web import Web
from coterie.log.copy_state import CopyState, write_copy_state
from coterie.log.folders import find_segments
from coterie.server.http_messages import HttpRequest, Refusal
from support.descriptors import few_more
from support.growing_log import GrowingLog
from support.insight.compacted_logs import Written
from support.log_writer import commit, each
from support.watch.watched import watched_totals, watcher_of


def log_of(folder, group=b"a"):
    """A log with one commit."""
    log, written = GrowingLog(folder), Written()
    written.apply("commit", ((group, b"t", 0), 1))
    log.put(written.left)
    return log


@contextmanager
def served(watcher):
    """Requests paths; and the groups whose page was drawn."""
    drawn = []

    async def read(request):
        drawn.append(request.group)
        return b"page"

    def get(path):
        return asyncio.run(web.respond(HttpRequest("GET", path, {})))

    with ThreadPoolExecutor(1) as steps:
        web = Web(watcher, steps, 1 << 50, lambda: 0, 7, read)
        yield get, drawn


def test_bytes_that_a_compressed_segment_unpacks_to_make_up_for_none_that_are_unread(tmp_path):
    first, second, third = each(0, commit(1), commit(2), commit(3))
    log = GrowingLog(tmp_path / "log")
    (log.folder / f"{0:020}.log.gz").write_bytes(gzip.compress(first))
    log.active.unlink()
    log.roll(1)
    log.append(second)
    watcher = watcher_of(log)
    watcher.step()
    assert watcher.health().behind_bytes == 0
    log.append(third)
    assert watcher.health().behind_bytes == len(third)


def test_what_is_shown_changes_when_a_partition_is_gone(tmp_path):
    log = log_of(tmp_path / "log")
    other = log.home / "__consumer_offsets-1"
    shutil.copytree(log_of(tmp_path / "other", group=b"b").folder, other)
    watcher = watcher_of(log)
    watcher.step()
    with served(watcher) as (get, drawn):
        assert b'consumergroup="b"' in get("/metrics").body
        get("/")
        shutil.rmtree(other)
        watcher.step()
        assert b'consumergroup="b"' not in get("/metrics").body
        get("/")
    assert drawn == [None, None]


def test_a_page_is_drawn_again_once_a_partition_cannot_be_read(tmp_path):
    log = log_of(tmp_path / "log")
    watcher = watcher_of(log)
    watcher.step()
    with served(watcher) as (get, drawn):
        get("/")
        (log.folder / f"{9:020}.log.gz").write_bytes(b"no gzip")
        watcher.step()
        get("/")
    assert drawn == [None, None]


def test_a_new_sample_changes_the_lag_that_is_shown(tmp_path):
    log = log_of(tmp_path / "log")
    watcher = watcher_of(log)
    watcher.step()
    lag = 'kafka_consumergroup_lag{consumergroup="a",topic="t",partition="0"} '
    with served(watcher) as (get, _):
        assert lag not in get("/metrics").body.decode()
        for end in (5, 8):
            with (log.home / SAMPLES_FILE).open("a") as file:
                file.write(f"{SAMPLES_HEADING * (not file.tell())}{1 << 50},t,0,{end},0\n")
            watcher.step()
            assert f"{lag}{end - 1}\n" in get("/metrics").body.decode()


def test_a_past_that_is_still_copied_is_not_shown_as_the_present(tmp_path):
    watcher = watcher_of(log_of(tmp_path / "log"))
    watcher.step()
    watcher.is_complete = False
    with served(watcher) as (get, _):
        begun = get("/metrics").body
        assert (b"coterie_watch_steps_total 1" in begun, b"consumer" in begun) == (True, False)
        assert b"newest_record" not in begun  # rules take its samples for the scrapes of totals
        watcher.is_complete = True
        assert b'consumergroup="a"' in get("/metrics").body


@pytest.mark.parametrize("group", ["a b/c", "a%2Fb", "é?#"])
def test_a_group_stands_in_a_path_and_in_a_question_as_in_any_address(tmp_path, group):
    watcher = watcher_of(log_of(tmp_path / "log", group=group.encode()))
    watcher.step()
    with served(watcher) as (get, drawn):
        assert get(f"/groups/{quote(group, safe='')}").body == b"page"
        rows = json.loads(get(f"/api/groups?group={quote(group, safe='')}").body)
        with pytest.raises(Refusal, match="no record of a group 'other'"):
            get("/groups/other")
    assert ([row["group_id"] for row in rows], drawn) == ([group], [group])


def test_metrics_and_rows_have_the_types_that_their_readers_expect(tmp_path):
    watcher = watcher_of(log_of(tmp_path / "log"))
    watcher.step()
    with served(watcher) as (get, _):
        # Prometheus, "Exposition formats"
        assert get("/metrics").content_type == "text/plain; version=0.0.4; charset=utf-8"
        assert get("/api/groups").content_type.startswith("application/json")
        assert get("/api/growth").content_type.startswith("application/json")


def test_a_watcher_that_ends_reads_no_further_partition(tmp_path):
    log = log_of(tmp_path / "log")
    shutil.copytree(log.folder, log.home / "__consumer_offsets-1")
    watcher = watcher_of(log)
    begin = watcher._partition

    def begin_and_end(number):
        watcher.stopping = True
        return begin(number)

    watcher._partition = begin_and_end
    watcher.step()
    assert list(watcher.partitions) == [0]
    assert len(list(watcher.answers())) == 1


# ---- topics that are made again


def id_of_broker(folder, topic_id):
    """Let a partition's folder be of a topic, as a broker says it; None: it does not."""
    text = "" if topic_id is None else f"version: 0\ntopic_id: {topic_id * 22}"
    (folder / "partition.metadata").write_text(text)


def id_of_copy(folder, topic_id):
    """Let it be of a topic, as ``fetch`` says it."""
    write_copy_state(folder, CopyState("t", 0, "c", topic_id, 0, 0, 0))


def commits_after(folder, ids, data=None, is_of=id_of_broker):
    """The commits that a watcher counts, its rebuilds, and in which steps it says that a topic is
    another, of a log that has one more each step.

    ``ids``: of the topic, at each step.
    """
    log, lines, steps = GrowingLog(folder), [], []
    lists = functools.partial(find_segments, [log.home])
    watcher = Watcher(lists, data, lines.append)
    batches = each(0, *(commit(at, at) for at in range(len(ids))))
    counted = []
    for count, topic_id in enumerate(ids, start=1):
        log.put([(0, b"".join(batches[:count]))])
        is_of(log.folder, topic_id)
        watcher.step()
        counted.append(sum(watched_totals(watcher)["commits"].values()))
        steps += [count for _ in lines]
        lines.clear()
    watcher.close()
    return counted, watcher.health().rebuilds, steps


@pytest.mark.parametrize(
    ("ids", "counted", "again"),
    [
        (["x", "x", "x"], [1, 2, 3], []),
        ([None, None, None], [1, 2, 3], []),
        ([None, "x", "x"], [1, 2, 3], []),  # brokers that have ids now
        (["x", None, "x"], [1, 2, 3], []),
        (["x", "y", "y"], [1, 1 + 2, 1 + 3], [2]),  # the records of the new topic are others
        (["x", None, "y"], [1, 2, 2 + 3], [3]),
        (["x", "y", "z"], [1, 1 + 2, 1 + 2 + 3], [2, 3]),
    ],
)
@pytest.mark.parametrize("is_of", [id_of_broker, id_of_copy])
def test_records_of_a_topic_that_was_made_again_are_counted_beside_those_before(
    tmp_path, ids, counted, again, is_of
):
    found = commits_after(tmp_path / "log", ids, is_of=is_of)
    assert found == (counted, len(again), again)


@pytest.mark.parametrize(
    ("lives", "counted", "again"),
    [("xx", [1, 1], []), ("xy", [1, 2], [1]), ("x-", [1, 1], []), ("x-y", [1, 1, 2], [1])],
)
def test_a_watcher_knows_after_its_start_whether_the_topic_was_made_again(
    tmp_path, lives, counted, again
):
    for number, (topic_id, count) in enumerate(zip(lives, counted, strict=True)):
        ids = [None if topic_id == "-" else topic_id]
        found = commits_after(tmp_path / str(number), ids, tmp_path / "data")
        assert found == ([count], 0, again if number == len(lives) - 1 else [])


@pytest.mark.parametrize("has_mark", [False, True])
def test_a_partition_of_many_segments_takes_few_descriptors(tmp_path, has_mark):
    log, data = GrowingLog(tmp_path / "log"), tmp_path / "data"
    batches = each(0, *(commit(at, at) for at in range(30)))
    log.put([(at, one) for at, one in enumerate(batches[: 10 if has_mark else 0])])
    watcher = watcher_of(log, data)
    watcher.step()
    watcher.close()
    log.put(enumerate(batches))
    lines = []
    watcher = watcher_of(log, data, lines)
    with few_more(10):
        watcher.step()
    watcher.close()
    assert not lines
    assert sum(watched_totals(watcher)["commits"].values()) == 30


def test_one_line_is_about_all_partitions_of_a_topic_that_was_made_again(tmp_path):
    log = log_of(tmp_path / "log")
    others = [log.home / f"__consumer_offsets-{number}" for number in (1, 2)]
    for other in others:
        shutil.copytree(log.folder, other)
    lines = []
    watcher = Watcher(functools.partial(find_segments, [log.home]), None, lines.append)
    for topic_id in "xy":
        for folder in (log.folder, *others):
            id_of_broker(folder, topic_id)
        watcher.step()
    assert lines == [
        "partition 0 and 2 more: the topic was deleted and created again; it is read anew, and "
        "totals go on"
    ]


def test_the_topic_of_a_snapshot_is_read_as_it_was_written(tmp_path):
    mark = Mark(7, nothing(), "x")
    snapshot.write(tmp_path / "f", mark)
    assert snapshot.read(tmp_path / "f") == mark


def test_a_folder_for_totals_is_made_with_those_above_it_and_its_lock_is_the_user_s(tmp_path):
    folder = tmp_path / "made" / "data"
    for number in range(2):
        watcher = watcher_of(GrowingLog(tmp_path / f"log-{number}"), folder)
        watcher.close()
    assert stat.S_IMODE((folder / "watch.lock").stat().st_mode) == 0o600
