"""SimpleConsumer, and the loop that the design document describes around it.

The loop: find a live broker, ask it for the partition's leader and followers, fetch from the
leader, and find the new leader when the fetch fails. There is no group: the caller keeps offsets.
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
    """No live broker names a leader of the partition that answers."""


class SimpleConsumer:
    """One socket to one broker, one request at a time; no retry by error code.

    Parameters
    ----------
    cluster
        The simulated brokers.
    broker
        The id of the one that it is connected to.

    Raises
    ------
    ArgumentError
        The cluster has no such broker.
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
            Its fields, all of them: the table in ``docs/designs.md``.

        Raises
        ------
        ArgumentError
            There is no such request, or a field is missing, unknown or of a wrong type.
        Gone
            The broker is dead: the second connection failed, too.
        """
        fields = request_fields(api, request, ANSWERS)
        if unknown := [name for name in request if name not in fields]:
            raise ArgumentError(f"{api}: there is no field {shown(unknown[0])}")
        if self.broker not in self.cluster.alive:
            raise Gone(f"broker {self.broker} is dead: it takes no connection")
        return ANSWERS[api](self.cluster, self.broker, fields)


class SimpleReader:
    """Reads a partition through changes of its leader, as a program of 2014 did.

    Parameters
    ----------
    cluster
        The simulated brokers.
    topic, partition
        What it reads.
    seeds
        Brokers to ask first.
    offset
        Where it begins; LATEST or EARLIEST asks the leader.

    Attributes
    ----------
    offset : int
        The next one to read.
    leader : int or None
        The broker that it fetches from; None where it has to be found.
    replicas : list
        Those that it knows of: they are asked for the leader besides the seeds.
    requests : int
        How many it has sent, failed ones too.

    Raises
    ------
    ArgumentError
        A topic's name that none can have, or a seed that the cluster does not have.
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
        """Ask the replicas, then the seeds, who leads; None if no answer names a leader."""
        for broker in dict.fromkeys([*self.replicas, *self.seeds]):
            found = self._metadata(broker)
            # a replica that is not available does not matter to who reads from the leader
            if found and found["error"] in (Error.NONE, Error.REPLICA_NOT_AVAILABLE):
                self.replicas = found["replicas"]
                self.leader = found["leader"]
                return self.leader
        self.leader = None
        return None

    def read(self) -> list[int]:
        """Fetch once and return the offsets of the messages that came, [] at the end.

        Raises
        ------
        NoLeader
            The leader did not answer, and no other is known yet: call again later.
        """
        for _ in range(2):  # with the leader that is known, then with one that is found
            leader = self.leader if self.leader is not None else self.find_leader()
            answer = None if leader is None else self._fetch(leader)
            if answer is None or answer["error"] == Error.NOT_LEADER_OR_FOLLOWER:
                self.leader = None
            elif answer["error"] == Error.OFFSET_OUT_OF_RANGE:
                self.offset = LATEST  # the log was cut: go on at its end
            elif answer["error"] == Error.NONE:
                # a compressed set comes whole, with messages before those wanted
                found = [one for one in answer["offsets"] if one >= self.offset]
                self.offset = found[-1] + 1 if found else self.offset
                return found
        raise NoLeader(f"{self.topic}-{self.partition}: no broker leads it, as far as any knows")

    def _ask(self, broker: int, api: str, **request: Any) -> ResponseFields | None:
        self.requests += 1
        try:
            return SimpleConsumer(self.cluster, broker).ask(api, **request)
        except Gone:
            return None

    def _metadata(self, broker: int) -> ResponseFields | None:
        answer = self._ask(broker, "metadata", topics=[self.topic])
        partitions = answer["topics"][0]["partitions"] if answer else []
        return next((one for one in partitions if one["partition"] == self.partition), None)

    def _fetch(self, leader: int) -> ResponseFields | None:
        asked = {"topic": self.topic, "partition": self.partition}
        if self.offset in (LATEST, EARLIEST):
            found = self._ask(leader, "offsets", **asked, time=self.offset, max_offsets=1)
            if not found or found["error"]:
                return found
            self.offset = found["offsets"][0]
        return self._ask(leader, "fetch", **asked, offset=self.offset, fetch_size=FETCH_BYTES)
