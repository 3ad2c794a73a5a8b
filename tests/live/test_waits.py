"""How long a client waits between attempts, on a clock that only waits move."""

import asyncio

import pytest

pytest.importorskip("aiokafka")

from coterie.live import cluster
from coterie.live.client_config import ClientConfig
from coterie.live.cluster import Backoff, Cluster, addresses_of
from coterie.live.cluster_errors import ClusterError, Unavailable
from coterie.live.copying import CopyPlan, copy_partitions
from coterie.server import Broker


class VirtualTime:
    """``asyncio`` with a clock that stands still between waits."""

    def __init__(self):
        self.now_s, self.waits_s = 50.0, []

    def __getattr__(self, name):
        return getattr(asyncio, name)

    def get_running_loop(self):
        return self

    def time(self):
        return self.now_s

    async def sleep(self, length_s):
        self.waits_s.append(length_s)
        self.now_s += length_s
        await asyncio.sleep(0)


@pytest.fixture
def time(monkeypatch):
    made = VirtualTime()
    monkeypatch.setattr(cluster, "asyncio", made)
    return made


def fail(backoff, times):
    async def attempts():
        for _ in range(times):
            await backoff.wait(Unavailable("away"))

    asyncio.run(attempts())


def backoff_of(first_ms, last_ms, limit_s=None):
    config = {"retry.backoff.ms": str(first_ms), "retry.backoff.max.ms": str(last_ms)}
    return Backoff(ClientConfig(config), limit_s)


@pytest.mark.parametrize(
    ("first_ms", "last_ms", "waits_s"),
    [
        (250, 1000, [0.25, 0.5, 1, 1, 1]),
        (250, 1250, [0.25, 0.5, 1, 1.25, 1.25]),
        (500, 250, [0.5, 0.5, 0.5, 0.5, 0.5]),
    ],
)
def test_a_wait_is_twice_as_long_as_the_last_up_to_the_longest(time, first_ms, last_ms, waits_s):
    backoff = backoff_of(first_ms, last_ms)
    fail(backoff, 5)
    assert time.waits_s == waits_s
    backoff.reset()
    fail(backoff, 5)
    assert time.waits_s == waits_s * 2


def test_the_failure_is_final_when_the_time_is_over(time):
    backoff = backoff_of(250, 250, limit_s=1)
    fail(backoff, 4)
    with pytest.raises(Unavailable, match="away"):
        fail(backoff, 1)
    assert len(time.waits_s) == 4


def test_a_success_gives_the_next_failure_the_whole_time(time):
    backoff = backoff_of(250, 250, limit_s=1)
    fail(backoff, 3)
    backoff.reset()
    time.now_s += 3600
    fail(backoff, 4)
    with pytest.raises(Unavailable):
        fail(backoff, 1)


def test_a_copy_is_given_up_after_the_timeout_of_the_client(time, tmp_path):
    with Broker(topics={"orders": 1}) as broker:
        broker.fail("Metadata", disconnect=True, times=None)

        async def run():
            config = ClientConfig(
                {"default.api.timeout.ms": "20000", "retry.backoff.max.ms": "1000"}
            )
            async with Cluster(addresses_of(broker.bootstrap_servers), config) as connected:
                await copy_partitions(connected, CopyPlan(tmp_path), now_ms=lambda: 1_000)

        with pytest.raises(ClusterError):
            asyncio.run(run())
    assert 20 <= sum(time.waits_s) < 21
