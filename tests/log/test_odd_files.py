"""What is no regular file, in the place of each file that is found in a folder.

Nothing waits for the other end of a pipe, and what would change an answer is one line.
"""

import os
import socket
import threading

import pytest

from coterie.cli.end_sampling import EndSampler
from coterie.cli.failures import Failed
from coterie.errors import CoterieError, LogError
from coterie.insight.offsets.end_offsets import SAMPLES_FILE
from coterie.live import snapshot
from coterie.live.sampled_end_offsets import EndOffsets
from coterie.log.copy_state import STATE_FILE, read_copy_state
from coterie.log.folders import find_segments, read_segment
from coterie.log.leader_epochs import CHECKPOINT, checkpoint_spans
from coterie.log.topic_id import FILE, topic_id_of
from support.log_writer import batch, commit

TOPIC, NAME = "__consumer_offsets", f"{0:020}.log"


def bound_socket(path):
    with socket.socket(socket.AF_UNIX) as server, pytest.MonkeyPatch.context() as patch:
        patch.chdir(path.parent)  # its path may be too long
        server.bind(path.name)


ODD = {
    "a pipe": os.mkfifo,
    "a folder": os.mkdir,
    "a socket": bound_socket,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a link to nothing": lambda path: path.symlink_to(path.with_name("nothing")),
}


@pytest.fixture(params=ODD)
def odd(request):
    """Put something odd in the place of a file."""

    def put(path):
        path.unlink(missing_ok=True)
        ODD[request.param](path)
        return request.param

    return put


@pytest.fixture
def folder(tmp_path):
    """A partition's folder with a segment."""
    made = tmp_path / "log" / f"{TOPIC}-0"
    made.mkdir(parents=True)
    (made / NAME).write_bytes(batch(0, [commit(0)]))
    return made


@pytest.fixture(autouse=True)
def _no_waiting():
    """End a test that waits for the other end of a pipe."""
    done = threading.Event()
    ends = threading.Thread(target=lambda: done.wait(60) or os._exit(1))
    ends.start()
    yield
    done.set()
    ends.join()


@pytest.mark.parametrize("name", [f"{1:020}.log", "x.log.gz"])
def test_a_segment_is_never_left_out(folder, odd, name):
    odd(folder / name)
    with pytest.raises(LogError, match=rf"{name}: is not a regular file"):
        find_segments([folder.parent])


def test_a_segment_that_became_odd_after_it_was_listed_is_a_line(folder, odd):
    (segment,) = find_segments([folder]).segments
    odd(folder / NAME)
    with pytest.raises(LogError, match=r"0\.log: (cannot be read|no permission)"):
        read_segment(segment)


def test_a_partition_is_never_left_out(folder, odd):
    kind = odd(path := folder.with_name(f"{TOPIC}-1"))
    if kind == "a folder":
        return
    with pytest.raises(LogError, match=f"{path}: is not a folder"):
        find_segments([folder.parent])


def test_the_last_segment_of_a_copy_is_refused(folder, odd):
    segments = pytest.importorskip("coterie.live.segments")
    kind = odd(folder / NAME)
    with pytest.raises(LogError, match=r"0\.log: cannot be read"):
        segments.PartitionCopy(folder).__enter__()
    copy = segments.PartitionCopy(folder.with_name("new"))
    with copy as files:
        odd(files.folder / NAME)
        if kind != "a link to nothing":  # which becomes a file
            with pytest.raises(OSError, match=r"[Nn]ot a regular|directory|device"):
                files.begin(0)


def test_an_id_and_a_checkpoint_are_not_known(folder, odd):
    for name in (FILE, CHECKPOINT):
        odd(folder / name)
    assert topic_id_of(find_segments([folder]).segments) is None
    assert checkpoint_spans(str(folder), 9) == []


def test_a_state_and_a_snapshot_are_refused_or_missing(folder, odd):
    if odd(folder / STATE_FILE) == "a link to nothing":
        assert read_copy_state(folder) is None
    else:
        with pytest.raises(LogError, match=rf"{STATE_FILE}: cannot be read"):
            read_copy_state(folder)
    if odd(folder / "watch-0.snapshot") == "a link to nothing":
        assert snapshot.read(folder / "watch-0.snapshot") is None
    else:
        with pytest.raises(snapshot.NoSnapshot, match=r"watch-0\.snapshot: cannot be read"):
            snapshot.read(folder / "watch-0.snapshot")


def test_samples_of_end_offsets_are_refused_or_missing(folder, odd):
    listing, out = find_segments([folder]), folder.parent
    if odd(out / SAMPLES_FILE) == "a link to nothing":
        assert not EndOffsets().read(listing)
        EndSampler(out, lambda: 0, print)
    else:
        with pytest.raises(CoterieError, match=rf"{SAMPLES_FILE}: cannot be read"):
            EndOffsets().read(listing)
        with pytest.raises(Failed, match=rf"{SAMPLES_FILE}: cannot be read.*; move it away"):
            EndSampler(out, lambda: 0, print)
