"""Offsets of a consumer: in ZooKeeper, in Kafka, or in both.

Source: 0.8.2.2's ``ZookeeperConsumerConnector.commitOffsets``, ``fetchOffsets``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from coterie.designs.consumer08.brokers import Brokers, Manager
from coterie.designs.consumer08.config import ConsumerConfig
from coterie.designs.consumer08.fetching import Owned
from coterie.designs.consumer08.registration import Unreadable
from coterie.designs.consumer08.views import GROUPS
from coterie.designs.consumer08.zkclient import ZkClient
from coterie.designs.schedule import Gate, Routine
from coterie.designs.zookeeper.tree import ZooKeeperError

NUMBER = re.compile(r"[+-]?[0-9]{1,99}")
LIMIT = 2**63


class OffsetClient:
    """Commits and fetches of one consumer's offsets.

    Parameters
    ----------
    zk, brokers, group, config
        Its client, the brokers, its group, how it is set.
    committed : function of topic, partition, offset
        Called for each offset that is stored.
    """

    def __init__(
        self,
        zk: ZkClient,
        brokers: Brokers,
        group: str,
        config: ConsumerConfig,
        committed: Callable[[str, int, int], None],
    ) -> None:
        self._zk = zk
        self._brokers = brokers
        self._group = group
        self._in_kafka = config.offsets_storage == "kafka"
        self._in_zookeeper = not self._in_kafka or config.dual_commit_enabled
        self._committed = committed
        self._known: dict[tuple[str, int], int] = {}  # as last read or stored in ZooKeeper
        self._backoff_ms = config.offsets_channel_backoff_ms
        self._manager: Manager | None = None  # that it is connected to
        self.closing = False
        self.requests = 0

    def connect(self) -> Routine:
        """Find the offset manager, where it is needed: wait until there is one."""
        while self._in_kafka and self._manager is None:
            self._manager = self._brokers.offset_manager(self._group)
            if self._manager is None:
                gate = Gate()
                self._brokers.when_one_starts(gate.open)
                yield gate

    def _reaches(self) -> bool:
        """Whether a request gets through; if not, the manager has to be found again."""
        if not self._brokers.reached(self._manager):
            self._manager = None
        return self._manager is not None

    def commit(self, owned: Iterable[Owned]) -> Routine:
        """Store the offset of each partition; in ZooKeeper only what has changed.

        In Kafka, sending fails when the manager has died since: nothing is stored this time.
        Whoever closes tries again, with the next one.
        """
        offsets = {(one.topic, one.number): one.offset for one in owned}
        self._zk.zookeeper.schedule.spend(len(offsets))
        if self._in_kafka and offsets:
            yield from self.connect()
            while not self._reaches():
                if not self.closing:
                    return
                yield self._backoff_ms
                yield from self.connect()
            self.requests += 1
            for (topic, number), offset in offsets.items():
                self._brokers.kept_offsets[self._group, topic, number] = offset
                self._committed(topic, number, offset)
        if self._in_zookeeper:
            for key, offset in offsets.items():
                if self._known.get(key) != offset:
                    try:
                        yield from self._zk.update(self._path(*key), str(offset))
                    except ZooKeeperError:  # a node from outside is in the way: it is logged
                        return
                    self._known[key] = offset
                    if not self._in_kafka:
                        self._committed(*key, offset)

    def fetch(self, partitions: Iterable[tuple[str, int]]) -> Routine:
        """Return the stored offset of each partition, -1 where there is none.

        Where offsets are in Kafka, what cannot be read there, or in ZooKeeper besides, is read
        again and again until it can be, or the consumer closes.

        Raises
        ------
        Unreadable
            A node that is to hold one holds something else, or the consumer closes meanwhile.
        """
        wanted = list(partitions)
        while (found := (yield from self._fetch_once(wanted))) is None:
            yield self._backoff_ms
        self._known.update(found)
        return found

    def _fetch_once(self, wanted: Sequence[tuple[str, int]]) -> Routine:
        try:
            found = yield from self._fetch(wanted)
        except Unreadable:
            if not self._in_kafka or self.closing:
                raise
            return None
        return found

    def _fetch(self, wanted: Sequence[tuple[str, int]]) -> Routine:
        found = dict.fromkeys(wanted, -1)
        if self._in_kafka and wanted:
            yield from self.connect()
            if not self._reaches():
                raise Unreadable("the offset manager has died")
            self.requests += 1
            for key in wanted:
                found[key] = self._brokers.kept_offsets.get((self._group, *key), -1)
        if self._in_zookeeper:
            for key in wanted:
                text = yield from self._zk.read_if_there(self._path(*key))
                if text is not None:
                    stored = _number(text)
                    found[key] = max(stored, found[key]) if self._in_kafka else stored
        return found

    def _path(self, topic: str, number: int) -> str:
        return f"{GROUPS}/{self._group}/offsets/{topic}/{number}"


def _number(text: str) -> int:
    """Return an offset: decimal digits within 64 bits."""
    value = int(text) if NUMBER.fullmatch(text) else LIMIT
    if not -LIMIT <= value < LIMIT:
        raise Unreadable(text)
    return value
