"""A server at work: its cluster, its listeners, and what stands beside them, in one loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial
from typing import Any

from coterie.arguments import text, whole
from coterie.coordinator.snapshot import GroupSnapshot
from coterie.errors import ArgumentError, CoterieError
from coterie.server.api.call import Dispatcher
from coterie.server.api.faults import Fault, Watch
from coterie.server.cluster import Cluster, Listener, Node
from coterie.server.net.accepting import Acceptor
from coterie.server.net.listener import Heart, Peer, Peers, epoch_ms
from coterie.server.options import Options, Place
from coterie.server.services.data.topics import INTERNAL

__all__ = ["Running"]

_GOODBYE_S = 0.5  # for answers that are on their way when a server ends


class Running:
    """What ``coterie serve`` and ``Broker`` both are.

    Attributes
    ----------
    cluster
        What is served.
    bound : list
        Each listener's protocol and the address that it has.
    """

    def __init__(self, options: Options, log: Callable[[str], None] | None = None) -> None:
        self.options = options
        now_ms = 0 if options.virtual else epoch_ms()
        self.cluster = Cluster(
            options.config, now_ms=now_ms, seed=options.seed, users=options.users, log=log
        )
        self.bound: list[Place] = []
        self._listeners = [
            Listener(place.protocol, number) for number, place in enumerate(options.places)
        ]
        self._servers: list[Acceptor] = []
        self._beside: list[asyncio.AbstractServer] = []
        self._watch: Watch | None = None
        self._node = Node(1)
        self.cluster.nodes[1] = self._node
        self.dispatcher = Dispatcher(self.cluster)

    async def start(self) -> None:
        """Make the topics and listen.

        Raises
        ------
        CoterieError
            An address is taken, or is none of this machine's.
        """
        cluster = self.cluster
        self._loop = asyncio.get_running_loop()
        self._heart = Heart(self._loop, cluster, virtual=self.options.virtual)
        self._peers = Peers(self.dispatcher, self._heart)
        for name, count in self.options.topics.items():
            if name in INTERNAL:
                cluster.topics.internal(name)
            else:
                cluster.topics.create(name, count or cluster.config["num.partitions"])
        _ = cluster.groups  # its clean-up begins now
        await self._listen(self.options.places)
        self._heart.arm()

    async def _listen(self, places: tuple[Place, ...] | list[Place]) -> None:
        self.bound = []
        for number, (listener, place) in enumerate(zip(self._listeners, places, strict=True)):
            server = await self._bind(
                partial(Peer, self._peers, self._node, listener),
                place,
                self.options.tls if listener.tls else None,
            )
            self._servers.append(server)
            bound = place._replace(port=server.port)
            self.bound.append(bound)
            told = self.options.advertised[number] if self.options.advertised else None
            host, port = (bound.host, bound.port) if told is None else (told.host, told.port)
            self._node.addresses[listener] = (host, port)

    async def _bind(self, factory: Callable[[], Peer], place: Place, tls: Any) -> Acceptor:
        acceptor = Acceptor(factory, tls)
        try:
            await acceptor.listen(place.host, place.port)
            return acceptor
        except (OSError, OverflowError) as error:
            await self._close_servers()
            told = getattr(error, "strerror", None) or error
            raise CoterieError(
                f"{place.told()} cannot be listened on ({told}); choose another address, or port 0"
            ) from None

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return len(self._peers.all)

    def beside(self, server: asyncio.AbstractServer) -> None:
        """Let a server of another kind end with this one."""
        self._beside.append(server)

    def advance(self, ms: int) -> None:
        """Move a virtual clock: all that falls due is answered and handed to the sockets."""
        if not self.options.virtual:
            raise CoterieError("the clock is the wall's: time can be advanced with clock='virtual'")
        self.cluster.clock.advance(ms)

    @property
    def watch(self) -> Watch:
        """What sees each request, from when it is first asked for."""
        if self._watch is None:
            self.dispatcher.observer = self._watch = Watch(self.cluster)
        return self._watch

    def fail(self, api: str | int, **how: Any) -> Fault:
        """Let requests of an API fail; see ``Broker.fail``."""
        return self.watch.fail(api, **how)

    def requests(self) -> list[dict[str, Any]]:
        """Return what was asked, oldest first."""
        return list(self.watch.requests)

    def snapshot(self, group_id: str) -> GroupSnapshot | None:
        """Return a frozen view of a group, None if there is none."""
        return self.cluster.groups.snapshot(text(group_id, "group_id"))

    def move_coordinator(self, group_id: str, node: int = 1) -> None:
        """Let a group's coordinator move to a broker, which loads the group from the log."""
        self._known(node)
        self.cluster.groups.move(text(group_id, "group_id"))

    def _known(self, node_id: Any) -> Node:
        found = self.cluster.nodes.get(whole(node_id, "node"))
        if found is None:
            raise ArgumentError(f"node must be one of {sorted(self.cluster.nodes)}, not {node_id}")
        return found

    async def kill(self, node_id: int) -> None:
        """End a broker at once: its connections close, and its groups wait to be loaded."""
        node = self._known(node_id)
        if self._servers:
            await self._close_servers()
            for peer in self._peers.of(node):
                peer.connection.lost()  # whoever waits hears nothing more
                peer.transport.abort()
            self.cluster.groups.resign()

    async def revive(self, node_id: int) -> None:
        """Start a broker again at its address; it loads its groups from the log."""
        self._known(node_id)
        if not self._servers:
            self.cluster.groups.load()
            self.cluster.transactions.load()
            await self._listen(self.bound)

    async def stop(self) -> None:
        """Send what is decided, and close."""
        await self._close_servers()
        for server in self._beside:
            server.close()
        if hasattr(self, "_heart"):
            for peer in list(self._peers.all):
                peer.transport.close()
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._all_gone(), _GOODBYE_S)
            for peer in list(self._peers.all):
                peer.transport.abort()
            self._heart.stop()

    async def _all_gone(self) -> None:
        while self._peers.all:
            await asyncio.sleep(0)

    async def _close_servers(self) -> None:
        for server in self._servers:
            server.close()
        self._servers.clear()
