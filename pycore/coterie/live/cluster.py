"""A cluster by its bootstrap addresses: its brokers, the leaders of a topic, requests to them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, TypeVar

from coterie.errors import ArgumentError
from coterie.live.client_config import ClientConfig
from coterie.live.cluster_errors import ClusterError, NoTopic, Unavailable, Unreached, refusal
from coterie.live.connections import Connection, Security, connect
from coterie.wire import NO_ID

Found = TypeVar("Found")
DEFAULT_PORT = 9092
GROUP_KEY = 0  # of FindCoordinator: the key is a group's id
SETUP_MS = "socket.connection.setup.timeout.ms"
BROKERS_MAX = 1_000  # each may get connections
CLOSE_S = 1.0  # for the goodbyes of TLS, which a broker may never answer


@dataclass(frozen=True)
class TopicView:
    """A topic as Metadata shows it.

    Attributes
    ----------
    name : str
        The name.
    topic_id : str or None
        The id; None for a broker before 2.8.
    leaders : dict of int to int or None
        The node that leads each partition; None: there is no leader.
    """

    name: str
    topic_id: str | None
    leaders: dict[int, int | None]

    def by_leader(self, numbers: Iterable[int]) -> dict[int, list[int]]:
        """Group partitions by the node that leads them; leave out those without a leader."""
        groups: dict[int, list[int]] = {}
        for number in numbers:
            leader = self.leaders.get(number)
            if leader is not None:
                groups.setdefault(leader, []).append(number)
        return groups


def addresses_of(text: str) -> tuple[tuple[str, int], ...]:
    """Read ``HOST:PORT[,...]``, as of ``bootstrap.servers``.

    Raises
    ------
    ArgumentError
        The text names no broker.
    """
    found = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        address = part.rpartition("://")[2]
        host, colon, port = address.rpartition(":")
        if not colon or address.endswith("]"):
            host, port = address, str(DEFAULT_PORT)
        host = host.strip("[]")
        if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
            raise ArgumentError(f"{part!r} is not HOST:PORT of a broker")
        found.append((host, int(port)))
    if not found:
        raise ArgumentError(f"{text!r} names no broker; give HOST:PORT[,...]")
    return tuple(found)


class Backoff:
    """Waits between attempts, twice as long each time, until a time is over.

    ``limit_s``: seconds after which the last failure is final; None: never.
    """

    def __init__(self, config: ClientConfig, limit_s: float | None) -> None:
        self._first_s = config.whole("retry.backoff.ms") / 1000
        self._last_s = config.whole("retry.backoff.max.ms") / 1000
        self._limit_s = limit_s
        self._setup_s = config.whole(SETUP_MS) / 1000 / 2
        self._next_s = self._first_s
        self._since_s: float | None = None

    def reset(self) -> None:
        """Start anew, after something has succeeded."""
        self._next_s, self._since_s = self._first_s, None

    async def wait(self, error: Unavailable) -> None:
        """Wait after a failure; raise it if the time is over.

        A broker that was never connected gets less time: its address may be wrong.
        """
        now = asyncio.get_running_loop().time()
        if self._since_s is None:
            self._since_s = now
        if self._limit_s is not None:
            limit_s = self._limit_s
            if isinstance(error, Unreached):
                limit_s = min(limit_s, self._setup_s - error.took_s)
            if now - self._since_s >= limit_s:
                raise error
        await asyncio.sleep(self._next_s)
        self._next_s = min(2 * self._next_s, max(self._last_s, self._first_s))


class Cluster:
    """The brokers of a cluster, connected when they are needed; an async context manager.

    Parameters
    ----------
    addresses
        The bootstrap addresses, as :func:`addresses_of` reads them.
    config
        Client properties.

    Attributes
    ----------
    cluster_id : str or None
        Known once :meth:`topic` has been called.
    """

    def __init__(self, addresses: Sequence[tuple[str, int]], config: ClientConfig) -> None:
        self.config = config
        self.cluster_id: str | None = None
        self._bootstrap = tuple(addresses)
        self._brokers: dict[int, tuple[str, int]] = {}
        self._connections: dict[tuple[Any, int], Connection] = {}
        self._opening: dict[tuple[Any, int], asyncio.Lock] = {}
        self._reached: set[tuple[str, int]] = set()
        self._source = ""  # the broker that gave the addresses of the others
        self._security: Security | None = None
        self._one_at_a_time = asyncio.Lock()

    async def __aenter__(self) -> Cluster:
        self._security = Security.of(self.config)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        closing = [connection.close() for connection in self._connections.values()]
        if closing:
            await asyncio.wait(closing, timeout=CLOSE_S)

    async def connection(self, node: int, lane: int = 0) -> Connection:
        """Return an open connection to a broker; each ``lane`` has one of its own.

        Lane 0 is for requests that are answered at once; :meth:`ask` uses it, too.

        Raises
        ------
        Unavailable
            The broker is not known, or does not answer.
        """
        if node not in self._brokers:
            raise Unavailable(f"broker {node} is not in the cluster's metadata")
        return await self._open((node, lane), self._brokers[node], f"broker {node}, ")

    async def topic(self, name: str) -> TopicView:
        """Return a topic's id and leaders, now.

        Raises
        ------
        NoTopic
            There is no such topic.
        ClusterError
            The user must not see it.
        """
        body = {"topics": [{"name": name}], "allowAutoTopicCreation": False}
        answer = await self.ask("Metadata", body)
        self.cluster_id = answer.get("clusterId")
        self._put_brokers(
            {broker["nodeId"]: (broker["host"], broker["port"]) for broker in answer["brokers"]}
        )
        for topic in answer["topics"]:
            if topic["name"] == name:
                return _topic_of(topic)
        raise ClusterError(f"topic {name}: the broker says nothing of it")

    @property
    def nodes(self) -> tuple[int, ...]:
        """The brokers that are known, once :meth:`topic` has been called."""
        return tuple(sorted(self._brokers))

    async def coordinator(self, group: str) -> Connection:
        """Return an open connection to the coordinator of a group, as it is now.

        Raises
        ------
        Unavailable
            There is none at present, or it does not answer.
        ClusterError
            The user must not see the group.
        """
        answer = await self.ask("FindCoordinator", {"key": group, "keyType": GROUP_KEY})
        if answer["errorCode"]:
            raise refusal(answer["errorCode"], f"group {group!r}", "DESCRIBE")
        node = answer["nodeId"]
        if node < 0:
            raise ClusterError(f"group {group!r}: the broker names no coordinator")
        self._put_brokers(self._brokers | {node: (answer["host"], answer["port"])})
        return await self.connection(node)

    def _put_brokers(self, brokers: dict[int, tuple[str, int]]) -> None:
        """Take the brokers that are known now; forget what is known of others.

        Raises
        ------
        ClusterError
            There are too many.
        """
        if len(brokers) > BROKERS_MAX:
            raise ClusterError(f"{self._source}: names more than {BROKERS_MAX:,} brokers")
        self._brokers = brokers
        self._reached &= {*brokers.values(), *self._bootstrap}
        nodes = {*brokers, *self._bootstrap}
        for key, lock in list(self._opening.items()):
            if key[0] not in nodes and not lock.locked():
                del self._opening[key]
                if key in self._connections:
                    self._connections.pop(key).close()

    async def patiently(self, work: Callable[[], Awaitable[Found]]) -> Found:
        """Return what ``work`` returns; call it again, with pauses, after what may pass.

        Raises
        ------
        Unavailable
            It did not pass in ``default.api.timeout.ms``.
        """
        backoff = Backoff(self.config, self.config.whole("default.api.timeout.ms") / 1000)
        while True:
            try:
                return await work()
            except Unavailable as error:
                await backoff.wait(error)

    async def ask(self, api: str, body: dict[str, Any]) -> dict[str, Any]:
        """Ask any broker: a connected one, a known one, or a bootstrap address.

        See ``Connection.ask``; ``connection`` reaches a certain broker.
        """
        failures: list[Unavailable] = []
        nodes: list[Any] = [*self._brokers, *self._bootstrap]
        for node in sorted(nodes, key=lambda node: (node, 0) not in self._connections):
            address = self._brokers.get(node, node)
            name = f"broker {node}, " if node in self._brokers else ""
            try:
                connection = await self._open((node, 0), address, name)
                answer = await connection.ask(api, body)
                self._source = connection.address
                return answer
            except Unavailable as error:
                failures.append(error)
        if len(failures) == 1:
            raise failures[0]
        text = f"no broker answers: {'; '.join(map(str, failures))}"
        unreached = [error for error in failures if isinstance(error, Unreached)]
        if len(unreached) < len(failures):
            raise Unavailable(text)
        raise Unreached(text, sum(error.took_s for error in unreached))

    async def _open(self, key: tuple[Any, int], address: tuple[str, int], name: str) -> Connection:
        assert self._security is not None, "use `async with`"
        async with self._opening.setdefault(key, asyncio.Lock()):
            found = self._connections.get(key)
            if found is None or not found.is_open:
                began_s = asyncio.get_running_loop().time()
                setup_s = self.config.whole(SETUP_MS) / 1000
                if address not in self._reached:  # half, and of all bootstrap addresses together
                    setup_s /= 2 * len(self._bootstrap)
                try:
                    found = await connect(
                        *address, self._security, self.config, setup_s, self._one_at_a_time
                    )
                except Unreached as error:
                    if address in self._reached:
                        raise Unavailable(f"{name}{error}") from error
                    took_s = asyncio.get_running_loop().time() - began_s
                    advice = self._advice(address)
                    raise Unreached(f"{name}{error}{advice}", took_s) from error
                except ClusterError as error:
                    raise type(error)(f"{name}{error}") from error
                self._connections[key] = found
                self._reached.add(address)
            return found

    def _advice(self, address: tuple[str, int]) -> str:
        """Return what follows the line of a broker that was never reached."""
        if address in self._bootstrap:
            return ""
        return (
            f"; {self._source} advertises this address: set advertised.listeners of the broker to "
            "one that is reached from here, or open the network to it"
        )


def _topic_of(topic: dict[str, Any]) -> TopicView:
    name = topic["name"]
    if topic["errorCode"] == 3:
        raise NoTopic(f"the cluster has no topic {name}")
    if topic["errorCode"] not in (0, 5):  # 5: a partition has no leader
        raise refusal(topic["errorCode"], f"topic {name}", "DESCRIBE and READ")
    leaders = {
        part["partitionIndex"]: part["leaderId"] if part["leaderId"] >= 0 else None
        for part in topic["partitions"]
    }
    count = len(topic["partitions"])
    if not count or leaders.keys() != set(range(count)):
        raise Unavailable(f"topic {name}: the broker does not name all of its partitions")
    topic_id = topic.get("topicId")
    return TopicView(name, None if topic_id in (None, NO_ID) else topic_id, leaders)
