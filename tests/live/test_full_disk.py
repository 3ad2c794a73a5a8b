"""A copy that follows on a disk, or with a table of descriptors, that is full for a while."""

import asyncio
import errno
import os
from pathlib import Path

import pytest

pytest.importorskip("aiokafka")

from coterie.cli.end_sampling import EndSampler
from coterie.errors import LogError
from coterie.live.copying import CopyObserver
from coterie.live.segments import LostBytes, PartitionCopy
from support.cluster.leader import batches, copied
from support.descriptors import few_more

ENDS = {3: 5, 4: 2}
SIZE = len(batches(0, 1))


class Serving:
    """Leads the partitions of ``ENDS``, and sends a batch of each at a time."""

    def __init__(self):
        self.is_listed = False

    async def ask(self, api, body):
        rows = []
        for part in body["topics"][0]["partitions"]:
            number = part.get("partition", part.get("partitionIndex"))
            row = {"partitionIndex": number, "errorCode": 0, "highWatermark": ENDS[number]}
            if api == "ListOffsets":
                row["offset"] = 0 if part["timestamp"] == -2 else ENDS[number]
            else:
                at = part["fetchOffset"]
                row["records"] = batches(at, min(at + 1, ENDS[number]))
            rows.append(row)
        self.is_listed = True
        await asyncio.sleep(0)
        topics = [{"name": "t", "topic": "t", "partitions": rows}]
        return {"errorCode": 0, "topics": topics, "responses": topics}


class Complete(CopyObserver):
    def __init__(self):
        self.stop, self.notices, self.waits = asyncio.Event(), [], []

    def complete(self, at_ms):
        self.stop.set()

    def notice(self, line):
        self.notices.append(line)

    def waiting(self, reasons):
        self.waits += reasons.values()


class Disk:
    """Refuses three operations from one on, of those that make a file or add to it."""

    def __init__(self, monkeypatch, number, first):
        self.number, self.first, self.count = number, first, 0
        kinds = [(os, "open"), (os, "mkdir")]
        if number == errno.ENOSPC:
            kinds += [(os, "write"), (Path, "write_text")]
        for home, name in kinds:
            monkeypatch.setattr(home, name, self.of(getattr(home, name)))

    def of(self, real):
        def operation(*arguments, **named):
            self.count += 1
            if self.first < self.count <= self.first + 3:
                where = arguments[:1] if isinstance(arguments[0], str | os.PathLike) else ()
                raise OSError(self.number, os.strerror(self.number), *map(str, where))
            return real(*arguments, **named)

        return operation


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EMFILE])
def test_a_copy_that_follows_goes_on_once_there_is_room(tmp_path, monkeypatch, number):
    """Whichever of its operations fails, unless it has not begun or has ended."""
    first, waited = 0, 0
    while True:
        home, leader, following = tmp_path / str(first), Serving(), Complete()
        with monkeypatch.context() as patch:
            disk = Disk(patch, number, first)
            try:
                copied(home, dict.fromkeys(ENDS, leader), lambda: 1, following, following.stop,
                       follow=True, segment_bytes=2 * SIZE)  # fmt: skip
            except (OSError, LogError):
                assert not leader.is_listed or following.stop.is_set()
        if following.stop.is_set():
            for each, end in ENDS.items():
                files = sorted((home / f"t-{each}").glob("*.log"))
                assert b"".join(file.read_bytes() for file in files) == batches(0, end)
                assert [int(file.stem) for file in files] == [*range(0, end, 2)]
        says = f"cannot be written: {os.strerror(number)}"
        assert all(str(home) in line and says in line for line in following.notices)
        waited += says in str(following.waits)
        if disk.count < first:
            break
        first += 1
    assert first > waited > 10


def test_a_table_of_descriptors_that_is_full_at_a_sync_counts_as_no_loss(tmp_path):
    with PartitionCopy(tmp_path / "t-0") as files:
        files.begin(0)
        files.append(batches(0, 1), 1)
    with PartitionCopy(tmp_path / "t-0") as files, few_more(0), open(os.devnull):
        with pytest.raises(OSError, match="Too many open files") as raised:
            files.sync()
        assert not isinstance(raised.value, LostBytes)


def test_a_full_disk_that_a_sync_reports_ends_a_copy_that_follows(tmp_path, monkeypatch):
    """Its bytes are lost, although later ones may be written."""

    def fsync(number):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    following, leaders = Complete(), dict.fromkeys(ENDS, Serving())
    settings = {"follow": True, "segment_bytes": SIZE}
    monkeypatch.setattr("coterie.base.atomic_file.sync", lambda path: None)
    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(LostBytes, match="No space left"):
        copied(tmp_path, leaders, lambda: 1, following, following.stop, **settings)


def test_a_sample_that_cannot_be_written_is_said_once_and_tried_again(tmp_path, monkeypatch):
    notices, turns = [], []
    sampler = EndSampler(tmp_path, lambda: 1, notices.append)

    async def sample(cluster):
        turns.append(cluster)
        if len(turns) == 5:
            raise asyncio.CancelledError
        if len(turns) in (1, 2, 4):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(sampler, "sample", sample)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(sampler.repeat("cluster", 0))
    says = f"{sampler.path}: cannot be written: No space left on device; trying again"
    assert notices == [says, says]
