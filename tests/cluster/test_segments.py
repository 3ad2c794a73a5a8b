"""Copies on a disk that fails, and processes that are killed: what the state may claim."""

import asyncio
import errno
import os

import pytest

pytest.importorskip("aiokafka")

from coterie.cluster.client_config import ClientConfig
from coterie.cluster.cluster import Cluster, addresses_of
from coterie.cluster.copy_state import STATE_FILE, read_copy_state
from coterie.cluster.copying import CopyObserver, CopyPlan, copy_partitions
from coterie.cluster.segments import PartitionCopy
from coterie.messages import encode_batch, partition_for
from coterie.server import Broker
from support.commandline import fails
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
