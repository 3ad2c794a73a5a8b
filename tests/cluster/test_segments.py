"""The segments of a copy, also on a disk that fails: what the state may claim."""

import asyncio
import errno
import os

import pytest

pytest.importorskip("aiokafka")

from coterie.cluster import segments
from coterie.cluster.client_config import ClientConfig
from coterie.cluster.cluster import Cluster, addresses_of
from coterie.cluster.copy_state import STATE_FILE, read_copy_state
from coterie.cluster.copying import CopyObserver, CopyPlan, copy_partitions
from coterie.cluster.segments import Batches, PartitionCopy, whole_batches
from coterie.messages import encode_batch, partition_for
from coterie.server import Broker
from support.commandline import fails
from support.log_writer import batch, commit
from support.server.groups_of_a_broker import TOPIC, commit_offsets

SETTINGS = {"offsets.topic.num.partitions": 4}
BATCH = encode_batch([(0, 1_000, b"k", b"v")])


@pytest.fixture
def broker():
    with Broker(SETTINGS, topics={"orders": 1}) as made:
        commit_offsets(made, "a", 10)
        yield made


@pytest.fixture
def failing_disk(monkeypatch):
    """A disk that reports an error once, as Linux does."""
    failures = [OSError(errno.EIO, os.strerror(errno.EIO))]
    real = os.fsync

    def fsync(number):
        if failures:
            raise failures.pop()
        real(number)

    monkeypatch.setattr(os, "fsync", fsync)


def test_a_state_does_not_claim_bytes_that_the_disk_has_lost(broker, tmp_path, failing_disk):
    at = ("--bootstrap-server", broker.bootstrap_servers)
    fails("fetch", *at, "--group", "a", "--out", tmp_path, says=(".log", "Input/output error"))
    state = read_copy_state(tmp_path / f"{TOPIC}-{partition_for('a', 4)}")
    assert (state.complete_until_ms, state.complete_until_offset) == (None, None)


def test_an_error_of_the_disk_is_raised_again_by_each_later_sync(tmp_path, failing_disk):
    files = PartitionCopy(tmp_path / f"{TOPIC}-0").__enter__()
    files.begin(0)
    files.append(BATCH, 1)
    for sync in (files.sync, files.sync, files.close):
        with pytest.raises(OSError, match="Input/output error") as raised:
            sync()
        assert raised.value.filename == str(tmp_path / f"{TOPIC}-0" / f"{0:020}.log")


def test_a_partition_has_its_state_before_its_first_batch(broker, tmp_path):
    states = []

    class Recorded(CopyObserver):
        def appended(self, partition, batches):
            states.append((tmp_path / f"{TOPIC}-{partition}" / STATE_FILE).exists())

    async def run():
        async with Cluster(addresses_of(broker.bootstrap_servers), ClientConfig()) as cluster:
            plan = CopyPlan(tmp_path)
            await copy_partitions(cluster, plan, now_ms=lambda: 1_000, observer=Recorded())

    asyncio.run(run())
    assert states == [True]


def made(first, last, leader_epoch=5):
    """A batch for each of these offsets."""
    return b"".join(batch(at, [commit(at)], leader_epoch=leader_epoch) for at in range(first, last))


def test_a_segment_is_full_at_its_size_and_at_its_span(tmp_path, monkeypatch):
    one = made(0, 1)
    with PartitionCopy(tmp_path / "a", 3 * len(one)) as files:
        files.begin(10)
        for at in range(10, 17):
            files.append(made(at, at + 1), at + 1)
    names = [int(file.stem) for file in sorted((tmp_path / "a").glob("*.log"))]
    assert names == [10, 13, 16]  # three fit exactly
    monkeypatch.setattr("coterie.cluster.segments.SPAN_MAX", 5)
    with PartitionCopy(tmp_path / "b") as files:
        files.begin(10)
        for at in range(10, 17):
            files.append(made(at, at + 1), at + 1)
    names = [int(file.stem) for file in sorted((tmp_path / "b").glob("*.log"))]
    assert names == [10, 15]  # the offsets of a segment lie within its span


def test_the_offsets_of_a_segment_fit_into_an_index_of_int32():
    assert segments.SPAN_MAX == 2_147_483_647  # Integer.MAX_VALUE, as LogSegment checks


def test_a_batch_larger_than_a_segment_is_one(tmp_path):
    with PartitionCopy(tmp_path, 10) as files:
        files.begin(0)
        files.append(made(0, 3), 3)
        files.append(made(3, 5), 5)
    assert [int(file.stem) for file in sorted(tmp_path.glob("*.log"))] == [0, 3]


@pytest.mark.parametrize("rest", [b"", b"\xff" * 30, b"torn"])
def test_a_copy_that_is_opened_again_goes_on_behind_its_last_batch(tmp_path, rest):
    data = made(7, 9) + made(9, 10, leader_epoch=8)
    (tmp_path / f"{3:020}.log").write_bytes(made(3, 7))
    last = tmp_path / f"{7:020}.log"
    last.write_bytes(data + rest)
    with PartitionCopy(tmp_path) as files:
        assert (files.next_offset, files.leader_epoch, files.cut_bytes) == (10, 8, len(rest))
        assert last.read_bytes() == data
        files.append(made(10, 11), 11)
    assert last.read_bytes() == data + made(10, 11)
    with PartitionCopy(tmp_path) as files:
        assert (files.next_offset, files.leader_epoch) == (11, 5)


def test_an_empty_segment_says_where_its_copy_goes_on_and_no_segment_does_not(tmp_path):
    with PartitionCopy(tmp_path / "none") as files:
        assert (files.next_offset, files.leader_epoch, files.cut_bytes) == (None, -1, 0)
    (tmp_path / f"{12:020}.log").touch()
    with PartitionCopy(tmp_path) as files:
        assert (files.next_offset, files.leader_epoch, files.cut_bytes) == (12, -1, 0)


def test_the_whole_batches_of_a_response_have_their_offsets_and_the_last_ones_epoch():
    data = batch(4, [commit(1), commit(2)], leader_epoch=2) + made(6, 8, leader_epoch=3)
    assert whole_batches(data) == Batches(len(data), 4, 8, 3)
    assert whole_batches(data + made(8, 9)[:-1]) == Batches(len(data), 4, 8, 3)
    assert whole_batches(made(8, 9)[:-1]) is None
    assert whole_batches(b"") is None
