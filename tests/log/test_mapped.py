"""A segment that is truncated while it is mapped is an error in one line, not a bus error.

What is expected to end a process runs in a process of its own.
"""

import mmap
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

import coterie
from coterie._core.mapping_guard import MappingGuard
from coterie.errors import ArgumentError, LogError
from coterie.log.folders import find_segments, read_segment
from coterie.log.mapped import intact
from coterie.state.parallel_scan import fold_log, scan_part, whole
from support import golden_data
from support.commandline import folder_of

pytestmark = pytest.mark.skipif(os.name != "posix", reason="only POSIX has SIGBUS")

SEGMENT = golden_data.segments("basic")[0]
TRUNCATED = "was truncated while it was read; read it again, or a copy"
TRUNCATES_WHAT_IS_MAPPED = """
    import os, sys
    from coterie.log import folders, mapped

    class Truncated(mapped.MappedSegment):
        @classmethod
        def of(cls, path, *where):
            data = super().of(path, *where)
            os.truncate(path, 0)
            return data

    folders.MAP_FROM_BYTES, folders.MappedSegment = 1, Truncated
"""
COMMANDS = [
    ("groups", "log", "--list"),
    ("replay", "log", "--out", "out", "--engine", "local"),
    ("replay", "log", "--out", "out", "--engine", "local", "--history"),
    ("explain", "log", "--group", "grp-java-sticky"),
    ("undo", "log", "--group", "grp-assign-java", "--at", "1795237397237", "-o", "back.csv"),
    ("expire", "log", "--now", "1795237397237", "--out", "out.csv"),
    ("growth", "log"),
    ("audit", "log"),
    ("metrics", "log"),
    ("report", "log", "-o", "page.html"),
]


def run_program(program, *args, cwd=None):
    command = [sys.executable, "-c", textwrap.dedent(program), *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd)


@pytest.fixture
def log(tmp_path):
    """A log of one segment, of several pages."""
    folder = tmp_path / "log" / "__consumer_offsets-5"
    folder.mkdir(parents=True)
    shutil.copy(SEGMENT, folder / f"{0:020}.log")
    assert SEGMENT.stat().st_size > 3 * mmap.PAGESIZE
    return tmp_path / "log"


@pytest.fixture
def segment(log, monkeypatch):
    monkeypatch.setattr("coterie.log.folders.MAP_FROM_BYTES", 1)
    (segment,) = find_segments([log]).segments
    return segment


@pytest.mark.parametrize("args", COMMANDS, ids=" ".join)
def test_a_command_whose_segment_is_truncated_ends_with_one_line_and_writes_nothing(log, args):
    program = TRUNCATES_WHAT_IS_MAPPED + "    from coterie.cli import main; main()\n"
    result = run_program(program, *args, cwd=log.parent)
    assert result.returncode == 1, result
    (line,) = result.stderr.splitlines()
    assert line == f"coterie: log/__consumer_offsets-5/{0:020}.log: {TRUNCATED}"
    assert result.stdout == ""
    assert folder_of(log.parent) == ["log"]


@pytest.mark.parametrize("size", [0, 1, mmap.PAGESIZE, 2 * mmap.PAGESIZE + 5, -1])
def test_a_scan_of_a_mapping_of_a_truncated_file_raises(log, size):
    path = log / "__consumer_offsets-5" / f"{0:020}.log"
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        whole_groups = coterie.scan(data).groups()
        os.truncate(path, size if size >= 0 else len(data) - 1)
        for view in (data, memoryview(data), np.frombuffer(data, np.uint8), memoryview(data)[:-1]):
            with pytest.raises(LogError, match=f"my log: {TRUNCATED}"):
                coterie.scan(view, file="my log")
            del view
    assert coterie.scan(SEGMENT.read_bytes()).groups() == whole_groups


def test_a_truncation_between_two_pieces_is_found_after_the_next(segment):
    fold = coterie.ScanOptions().new_fold()
    pieces = scan_part(fold, whole(segment), piece_bytes=1)
    next(pieces)
    os.truncate(segment.path, 0)
    with pytest.raises(LogError, match=TRUNCATED):
        next(pieces)


def test_threads_read_on_while_the_segments_of_others_are_truncated(tmp_path, monkeypatch):
    monkeypatch.setattr("coterie.log.folders.MAP_FROM_BYTES", 1)
    for number in range(8):
        folder = tmp_path / f"__consumer_offsets-{number}"
        folder.mkdir()
        shutil.copy(SEGMENT, folder / f"{0:020}.log")
    segments = find_segments([tmp_path]).segments
    opened = [(segment, read_segment(segment)) for segment in segments]
    for segment in segments[::2]:
        os.truncate(segment.path, 0)
    results = {}

    def scan(segment, data):
        try:
            results[segment.partition] = coterie.scan(data).groups()
        except LogError as error:
            results[segment.partition] = str(error)

    threads = [threading.Thread(target=scan, args=one) for one in opened]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    whole_groups = coterie.scan(SEGMENT.read_bytes()).groups()
    for segment in segments:
        truncated = segment.partition % 2 == 0
        expected = f"{segment.path}: {TRUNCATED}" if truncated else whole_groups
        assert results[segment.partition] == expected


def test_a_fold_on_threads_raises_the_same_error(segment, monkeypatch):
    options = coterie.ScanOptions()

    def read(segment):
        data = read_segment(segment)
        os.truncate(segment.path, 0)
        return data

    monkeypatch.setattr(scan_part, "__defaults__", (read, None))
    with pytest.raises(LogError, match=TRUNCATED):
        list(fold_log(coterie.PartialState(options), find_segments([segment.path]), 2))


def test_a_file_that_was_truncated_and_has_grown_again_is_an_error(segment):
    data = read_segment(segment)

    def last_byte():
        os.truncate(segment.path, 0)
        byte = data[len(data) - 1]
        os.truncate(segment.path, len(data))
        return byte

    with pytest.raises(LogError, match="cannot be read"), intact(data):
        assert last_byte() == 0


def test_a_guard_ends_with_its_mapping_and_its_place_is_used_again(segment):
    for _ in range(3):
        data = read_segment(segment)
        guard = data.guard
        os.truncate(segment.path, segment.size)
        assert not guard.is_damaged
        data.close()
        guard.close()
        with pytest.raises(ValueError, match="closed"):
            data.size()


@pytest.mark.parametrize("wrong", [b"", b"bytes of an object", memoryview(bytes(64))[1:], 5, None])
def test_what_is_no_mapping_is_not_guarded(wrong):
    with pytest.raises(ArgumentError):
        MappingGuard(wrong)


UNGUARDED_FAULT = """
    import faulthandler, mmap, os, sys
    from coterie._core.mapping_guard import MappingGuard

    def mapped():
        with open(sys.argv[1], "r+b") as file:
            return mmap.mmap(file.fileno(), 0)

    if sys.argv[2] == "before":
        faulthandler.enable()
    first = mapped()
    guard = MappingGuard(first)
    if sys.argv[2] == "after":
        faulthandler.enable()
        guard = MappingGuard(first)
    other = mapped()
    os.truncate(sys.argv[1], 0)
    assert first[0] == 0 and guard.is_damaged
    other[0]
"""


@pytest.mark.parametrize(("handler", "dumps"), [("none", 0), ("before", 1), ("after", 1)])
def test_a_fault_elsewhere_goes_to_the_handler_that_was_there_and_ends_the_process(
    tmp_path, handler, dumps
):
    path = tmp_path / "file"
    path.write_bytes(bytes(3 * mmap.PAGESIZE))
    result = run_program(UNGUARDED_FAULT, path, handler)
    assert result.returncode == -signal.SIGBUS, result
    assert result.stderr.count("Fatal Python error: Bus error") == dumps, result.stderr


def test_a_guard_that_has_ended_takes_no_part_in_what_comes_to_its_place(tmp_path):
    paths = [tmp_path / name for name in "ab"]
    maps = []
    for path in paths:
        path.write_bytes(bytes(2 * mmap.PAGESIZE))
        with path.open("rb") as file:
            maps.append(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    ended = MappingGuard(maps[0])
    ended.close()
    guard = MappingGuard(maps[1])
    os.truncate(paths[1], 0)
    assert maps[1][-1:] == b"\0"
    assert (ended.is_damaged, guard.is_damaged) == (False, True)
    ended.close()
    del ended
    assert maps[1][:1] == b"\0"  # the first page, which was not read before
