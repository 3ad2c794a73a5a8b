"""Copies of a broker's topics, made by the library, and what an observer of them records."""

import asyncio

from coterie.live.client_config import ClientConfig
from coterie.live.cluster import Cluster, addresses_of
from coterie.live.copying import CopyObserver, CopyPlan, copy_partitions

QUICK = {"default.api.timeout.ms": "1", "retry.backoff.ms": "1"}


def copy(broker, out, *, now_ms=lambda: 1_000, config=(), observer=None, stop=None, **plan):
    """Copy a broker's offsets topic; the results by partition."""

    async def run():
        addresses = addresses_of(broker.bootstrap_servers)
        async with Cluster(addresses, ClientConfig(QUICK | dict(config))) as cluster:
            return await copy_partitions(
                cluster, CopyPlan(out, **plan), now_ms=now_ms, observer=observer, stop=stop
            )

    return {result.partition: result for result in asyncio.run(run())}


class Recorded(CopyObserver):
    """Records what it gets; ``stop`` is set once so many bytes were appended."""

    def __init__(self, stop_at_bytes=None):
        self.lines, self.data, self.stop_at_bytes = [], {}, stop_at_bytes
        self.shown = []  # (done, total)
        self.stop = asyncio.Event()

    def appended(self, partition, batches):
        self.data[partition] = self.data.get(partition, b"") + bytes(batches)
        if self.stop_at_bytes and sum(map(len, self.data.values())) >= self.stop_at_bytes:
            self.stop.set()

    def progress(self, done, total):
        self.shown.append((done, total))

    def notice(self, line):
        self.lines.append(line)


def follow_orders(broker, out, complete, stop_at_bytes=None, properties=None):
    """Follow the topic ``orders``; ``complete`` is called in a thread. What it observed."""

    async def run():
        observer = Recorded(stop_at_bytes)
        observer.reasons = []
        observer.waiting = lambda reasons: observer.reasons.append(dict(reasons))
        observer.complete = lambda at_ms: asyncio.get_running_loop().run_in_executor(None, complete)
        config = ClientConfig(
            {"retry.backoff.ms": "1", "retry.backoff.max.ms": "5", **(properties or {})}
        )
        async with Cluster(addresses_of(broker.bootstrap_servers), config) as cluster:
            plan = CopyPlan(out, topic="orders", follow=True)
            await copy_partitions(
                cluster, plan, now_ms=lambda: 5, observer=observer, stop=observer.stop
            )
        return observer

    return asyncio.run(run())
