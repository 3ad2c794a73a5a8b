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
from coterie.designs.zookeeper.tree import ZooKeeperError
from coterie.schedule import Gate, Routine

NUMBER = re.compile(r"[+-]?[0-9]{1,99}")
LIMIT = 2**63


class OffsetClient:
    """Commits and fetches of one consumer's offsets.

    Parameters
    ----------
    zk, brokers, group, config
        The consumer's ZooKeeper client, the brokers, its group and its settings.
    committed : function of topic, partition, offset
        Called for each stored offset.
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
        self._known: dict[tuple[str, int], int] = {}  # last read or stored in ZooKeeper
        self._backoff_ms = config.offsets_channel_backoff_ms
        self._manager: Manager | None = None  # of the present connection
        self.closing = False
        self.requests = 0

    def connect(self) -> Routine:
        """Find the offset manager if offsets are in Kafka; wait until there is one."""
        while self._in_kafka and self._manager is None:
            self._manager = self._brokers.offset_manager(self._group)
            if self._manager is None:
                gate = Gate()
                self._brokers.call_on_start(gate.open)
                yield gate

    def _reaches(self) -> bool:
        """Return whether the manager can be reached; if not, it has to be found again."""
        if not self._brokers.reached(self._manager):
            self._manager = None
        return self._manager is not None

    def commit(self, owned: Iterable[Owned]) -> Routine:
        """Store the offset of each partition; in ZooKeeper only if it has changed.

        In Kafka, the request fails if the manager has died since: nothing is stored this time. A
        closing consumer tries again with the next manager.
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
                self._brokers.stored_offsets[self._group, topic, number] = offset
                self._committed(topic, number, offset)
        if self._in_zookeeper:
            for key, offset in offsets.items():
                if self._known.get(key) != offset:
                    try:
                        yield from self._zk.update(self._path(*key), str(offset))
                    except ZooKeeperError:  # a foreign node is in the way; Kafka only logs this
                        return
                    self._known[key] = offset
                    if not self._in_kafka:
                        self._committed(*key, offset)

    def fetch(self, partitions: Iterable[tuple[str, int]]) -> Routine:
        """Return the stored offset of each partition, -1 if there is none.

        If offsets are in Kafka and cannot be read, there or in ZooKeeper, reading is repeated until
        it succeeds or the consumer closes.

        Raises
        ------
        Unreadable
            A node does not contain an offset, or the consumer closes meanwhile.
        """
        keys = list(partitions)
        while (offsets := (yield from self._fetch_once(keys))) is None:
            yield self._backoff_ms
        self._known.update(offsets)
        return offsets

    def _fetch_once(self, keys: Sequence[tuple[str, int]]) -> Routine:
        try:
            offsets = yield from self._fetch(keys)
        except Unreadable:
            if not self._in_kafka or self.closing:
                raise
            return None
        return offsets

    def _fetch(self, keys: Sequence[tuple[str, int]]) -> Routine:
        offsets = dict.fromkeys(keys, -1)
        if self._in_kafka and keys:
            yield from self.connect()
            if not self._reaches():
                raise Unreadable("the offset manager has died")
            self.requests += 1
            for key in keys:
                offsets[key] = self._brokers.stored_offsets.get((self._group, *key), -1)
        if self._in_zookeeper:
            for key in keys:
                text = yield from self._zk.read_if_there(self._path(*key))
                if text is not None:
                    stored = _number(text)
                    offsets[key] = max(stored, offsets[key]) if self._in_kafka else stored
        return offsets

    def _path(self, topic: str, number: int) -> str:
        return f"{GROUPS}/{self._group}/offsets/{topic}/{number}"


def _number(text: str) -> int:
    """Parse an offset: decimal digits, int64."""
    value = int(text) if NUMBER.fullmatch(text) else LIMIT
    if not -LIMIT <= value < LIMIT:
        raise Unreadable(text)
    return value
