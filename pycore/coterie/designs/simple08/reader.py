"""SimpleConsumer, and the loop that the design document describes around it.

The loop: find a live broker, request the partition's leader and followers, fetch from the leader,
and find the new leader when a fetch fails. There is no group: the caller stores offsets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from coterie.arguments import called, integer, whole
from coterie.designs.simple08.checks import broker_id, broker_ids, request_fields, topic_name
from coterie.designs.simple08.cluster import Cluster
from coterie.designs.simple08.requests import ANSWERS, EARLIEST, LATEST, Gone, ResponseFields
from coterie.errors import ArgumentError, CoterieError, shown
from coterie.values import Error

__all__ = ["NoLeader", "SimpleConsumer", "SimpleReader"]

FETCH_BYTES = 64 * 1024


def _cluster(value: Any) -> Cluster:
    if not isinstance(value, Cluster):
        raise ArgumentError(f"cluster must be a Cluster, not {shown(value)}")
    return value


class NoLeader(CoterieError):
    """No live broker names a live leader of the partition."""


class SimpleConsumer:
    """A socket to one broker, with one request at a time; errors are not retried.

    Parameters
    ----------
    cluster
        The simulated brokers.
    broker
        The id of its broker.

    Raises
    ------
    ArgumentError
        The broker does not exist.
    """

    @called
    def __init__(self, cluster: Cluster, broker: int):
        self.cluster = _cluster(cluster)
        self.broker = broker_id(broker, self.cluster.brokers)

    @called
    def ask(self, api: str, **request: Any) -> ResponseFields:
        """Send a request (``metadata``, ``offsets`` or ``fetch``) and return the response.

        Parameters
        ----------
        api : str
            The kind of request.
        request
            All of its fields, as in the table of ``docs/designs.md``.

        Raises
        ------
        ArgumentError
            There is no such request, or a field is missing, unknown or has a wrong type.
        Gone
            The broker is dead.
        """
        fields = request_fields(api, request, ANSWERS)
        if unknown := [name for name in request if name not in fields]:
            raise ArgumentError(f"{api}: there is no field {shown(unknown[0])}")
        if self.broker not in self.cluster.alive:
            raise Gone(f"broker {self.broker} is dead: it takes no connection")
        return ANSWERS[api](self.cluster, self.broker, fields)


class SimpleReader:
    """Read a partition through changes of its leader, as a program of 2014 did.

    Parameters
    ----------
    cluster
        The simulated brokers.
    topic, partition
        The partition to read.
    seeds
        The brokers to try first.
    offset
        The first offset to read, or LATEST or EARLIEST.

    Attributes
    ----------
    offset : int
        The next offset to read.
    leader : int or None
        The present leader; None if it has to be found.
    replicas : list
        Known replicas; they are tried before the seeds to find the leader.
    requests : int
        Number of requests so far, failed ones included.

    Raises
    ------
    ArgumentError
        The topic's name is not legal, or a seed does not exist.
    """

    @called
    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        partition: int,
        *,
        seeds: Sequence[int],
        offset: int = EARLIEST,
    ):
        self.cluster = _cluster(cluster)
        self.topic, self.partition = topic_name(topic, "topic"), integer(partition, "partition")
        self.seeds = list(broker_ids(seeds, "seeds", cluster.brokers))
        self.offset = whole(offset, "offset")
        self.leader: int | None = None
        self.replicas: list[int] = []
        self.requests = 0

    def find_leader(self) -> int | None:
        """Ask the replicas, then the seeds, for the leader; None if no response names one."""
        for broker in dict.fromkeys([*self.replicas, *self.seeds]):
            metadata = self._metadata(broker)
            # an unavailable replica does not matter to a reader of the leader
            if metadata and metadata["error"] in (Error.NONE, Error.REPLICA_NOT_AVAILABLE):
                self.replicas = metadata["replicas"]
                self.leader = metadata["leader"]
                return self.leader
        self.leader = None
        return None

    def read(self) -> list[int]:
        """Fetch once and return the offsets of the messages; [] at the end of the log.

        Raises
        ------
        NoLeader
            The leader does not respond, and there is no other yet: call again later.
        """
        for _ in range(2):  # with the known leader, then with a new one
            leader = self.leader if self.leader is not None else self.find_leader()
            response = None if leader is None else self._fetch(leader)
            if response is None or response["error"] == Error.NOT_LEADER_OR_FOLLOWER:
                self.leader = None
            elif response["error"] == Error.OFFSET_OUT_OF_RANGE:
                self.offset = LATEST  # the log was truncated: go on at its end
            elif response["error"] == Error.NONE:
                # a compressed set is complete, with messages before the offset
                offsets = [offset for offset in response["offsets"] if offset >= self.offset]
                self.offset = offsets[-1] + 1 if offsets else self.offset
                return offsets
        raise NoLeader(f"{self.topic}-{self.partition}: no broker leads it, as far as any knows")

    def _ask(self, broker: int, api: str, **request: Any) -> ResponseFields | None:
        self.requests += 1
        try:
            return SimpleConsumer(self.cluster, broker).ask(api, **request)
        except Gone:
            return None

    def _metadata(self, broker: int) -> ResponseFields | None:
        response = self._ask(broker, "metadata", topics=[self.topic])
        partitions = response["topics"][0]["partitions"] if response else []
        return next((one for one in partitions if one["partition"] == self.partition), None)

    def _fetch(self, leader: int) -> ResponseFields | None:
        partition = {"topic": self.topic, "partition": self.partition}
        if self.offset in (LATEST, EARLIEST):
            response = self._ask(leader, "offsets", **partition, time=self.offset, max_offsets=1)
            if not response or response["error"]:
                return response
            self.offset = response["offsets"][0]
        return self._ask(leader, "fetch", **partition, offset=self.offset, fetch_size=FETCH_BYTES)
