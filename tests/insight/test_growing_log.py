"""A command reads the log as it was listed, though a broker writes it meanwhile."""

import os
import shutil

import pytest

from coterie.errors import LogError
from coterie.insight.records import threads
from coterie.log.folders import find_segments, read_segment
from coterie.report.gather import gather, look
from coterie.report.page import page_data
from coterie.report.sections import Basis
from coterie.state import parallel_scan
from support.commandline import fails
from support.golden_data import log
from support.insight.every_question import all_questions, ends_at
from support.log_writer import batch, commit, group_key, group_value

NOW_MS = 1_795_300_000_000


@pytest.fixture
def growing(tmp_path, monkeypatch):
    """A listed log; each reading of a segment finds more records of old and new keys in it."""
    folder = tmp_path / "log"
    shutil.copytree(log("transactions"), folder)
    listing = find_segments([folder])
    added = b"".join(
        batch(10_000 + 2 * at, [
            commit(NOW_MS, 5, group=b"new", topic=b"new", partition=at),
            (NOW_MS, group_key(b"new-%d" % at), group_value(1, [b"m"])),
        ])
        for at in range(40)
    )  # fmt: skip

    def read(segment):
        with open(segment.path, "ab") as file:
            file.write(added)
        return read_segment(segment)

    def grow():
        monkeypatch.setattr(threads, "read_segment", read)

    return listing, grow


def answers(listing):
    """Return the rows of every question, and the page."""
    found = []
    for question, parameters in all_questions(NOW_MS - 1, NOW_MS, ends_at([NOW_MS])):
        with threads.each_partition(
            listing, lambda view, of=question, by=parameters: list(of.rows(view, by))
        ) as rows:
            found.append((question.NAME, list(rows)))
    basis = Basis(NOW_MS, 60_000)
    with threads.each_partition(listing, lambda view: look(view, basis)) as read:
        return [*found, page_data(gather(read, basis), "title", basis)]


@pytest.mark.parametrize("count", [1, 3])
def test_no_answer_has_what_is_appended_while_the_log_is_read(growing, count, monkeypatch):
    listing, grow = growing
    monkeypatch.setattr(parallel_scan, "cores", lambda: count)
    monkeypatch.setattr(threads, "LARGE_BYTES", 1)
    expected = answers(listing)
    grow()
    assert answers(listing) == expected


@pytest.mark.parametrize("map_from_bytes", [1, None])
def test_a_segment_is_read_up_to_its_listed_size(growing, map_from_bytes):
    listing, _ = growing
    segment = listing.segments[0]
    with open(segment.path, "r+b") as file:
        before = file.read()
        file.write(b"more")
        file.flush()
        assert bytes(read_segment(segment, map_from_bytes=map_from_bytes)) == before
        file.truncate(len(before) - 1)
    with pytest.raises(LogError, match="was truncated while it was read"):
        read_segment(segment, map_from_bytes=map_from_bytes)


def test_a_segment_that_is_deleted_meanwhile_is_one_line(growing, monkeypatch):
    listing, _ = growing
    monkeypatch.setattr("coterie.cli.logs.find_segments", lambda *_, **__: listing)
    os.unlink(listing.segments[-1].path)
    fails("explain", "log", says=("No such file or directory; Kafka deletes segments while a log",))
