"""A running server: its cluster, its listeners, and its HTTP servers, in one loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial
from typing import Any

from coterie.base.arguments import text, whole
from coterie.base.times import epoch_ms
from coterie.errors import ArgumentError, CoterieError
from coterie.server.api.call import Call, Dispatcher, Handler
from coterie.server.api.faults import Watch
from coterie.server.auto_clock import AutoClock
from coterie.server.cluster import Cluster, Listener, Node
from coterie.server.group_waits import GroupCondition, GroupWaits, pending_work, timeout_of
from coterie.server.history_adapter import Stage
from coterie.server.net.accepting import Acceptor
from coterie.server.net.listener import ClockDriver, Peer, Peers
from coterie.server.options import Options, Place
from coterie.server.services.groups import GroupView
from coterie.server.topics_at_start import make_topics

_GOODBYE_S = 0.5  # for answers that are still being sent when a server ends


class Running:
    """A server in the loop of its caller, for ``coterie serve`` and ``Broker``."""

    def __init__(self, options: Options, log: Callable[[str], None] | None = None) -> None:
        self.options = options
        now_ms = 0 if options.virtual else epoch_ms()
        config = options.config
        if options.virtual:  # clients stamp their records by another clock, far ahead of it
            config = {"log.message.timestamp.after.max.ms": 2**63 - 1, **config}
        self.cluster = Cluster(
            config, now_ms=now_ms, seed=options.seed, users=options.users, log=log,
            release=options.release,
        )  # fmt: skip
        self.bound: list[Place] = []
        self._listeners = [
            Listener(place.label.lower(), number, place.protocol)
            for number, place in enumerate(options.places)
        ]
        self._servers: list[Acceptor] = []
        self._beside: list[Acceptor] = []
        self._watch: Watch | None = None
        self._waits: GroupWaits | None = None
        self._stage: Stage | None = None
        self._auto: AutoClock | None = None
        config = self.cluster.config
        self._node = Node(config.node_id, rack=config.rack)
        self.cluster.nodes[self._node.id] = self._node
        self.dispatcher = Dispatcher(self.cluster)

    async def start(self) -> None:
        """Create the topics and listen."""
        cluster = self.cluster
        self._loop = asyncio.get_running_loop()
        self._heart = ClockDriver(self._loop, cluster, virtual=self.options.virtual)
        self.dispatcher.call_soon = self._loop.call_soon
        self._peers = Peers(self.dispatcher, self._heart)
        if self.options.auto:
            self._auto = AutoClock(cluster, self.watch.delays, self._loop.call_soon)
            self._peers.on_lost = self._auto.lost
            self._hear_first(self._auto.hear)
        if ignored := cluster.config.without_effect:
            cluster.log(f"settings that have no effect here: {', '.join(sorted(ignored))}")
        make_topics(cluster, self.options.topics)
        _ = cluster.groups  # its periodic clean-up begins now
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
            advertised = self.options.advertised[number] if self.options.advertised else None
            client_place = advertised or bound
            self._node.addresses[listener] = (client_place.host, client_place.port or bound.port)

    async def _bind(self, factory: Callable[[], Peer], place: Place, tls: Any) -> Acceptor:
        config = self.cluster.config
        acceptor = Acceptor(
            factory,
            tls,
            send_bytes=config["socket.send.buffer.bytes"],
            receive_bytes=config["socket.receive.buffer.bytes"],
        )
        try:
            await acceptor.listen(place)
        except CoterieError:
            await self._close_servers()
            raise
        return acceptor

    @property
    def connections(self) -> int:
        return len(self._peers.all)

    def beside(self, server: Acceptor) -> None:
        """Add an HTTP server, which is closed when this server stops."""
        self._beside.append(server)

    def advance(self, ms: int) -> None:
        """Move a virtual clock; responses that become due are passed to the sockets."""
        if not self.options.virtual:
            raise CoterieError("the clock is the wall's: time can be advanced with clock='virtual'")
        self.cluster.clock.advance(ms)
        self._notice()

    @property
    def watch(self) -> Watch:
        """The request log and the faults; recording begins with the first use."""
        if self._watch is None:
            self.dispatcher.observer = self._watch = Watch(self.cluster)
        return self._watch

    @property
    def stage(self) -> Stage:
        if self._stage is None:
            if self.options.auto:
                raise CoterieError("a history moves the clock itself: it needs clock='virtual'")
            _ = self.watch  # faults come after what the stage does
            self._stage = Stage(self.cluster, self.dispatcher, self._abort_connection)
        return self._stage

    def _abort_connection(self, connection: Any) -> None:
        for peer in [peer for peer in self._peers.all if peer.connection is connection]:
            self._abort(peer)

    def _abort(self, peer: Peer) -> None:
        """Close a connection at once: what waits for an answer gets none."""
        peer.connection.lost()
        peer.transport.abort()

    async def wait_for(
        self, group_id: Any, *, state: Any = None, members: Any = None, timeout_s: Any
    ) -> GroupView | None:
        """Wait until a group has a state or a number of members; see ``Broker.wait_for``."""
        condition = GroupCondition(group_id, state=state, members=members)
        return await self._group_waits().wait(condition, timeout_of(timeout_s))

    def _group_waits(self) -> GroupWaits:
        """Return the waits for groups; the first call makes requests and clock moves check them."""
        if self._waits is None:
            cluster = self.cluster
            waits = self._waits = GroupWaits(
                cluster.groups.snapshot, self.pending_work, cluster.now_ms
            )
            cluster.clock.add(waits, moved=waits.notice)
            self._hear_first(lambda call: waits.notice())  # looks after the request was handled
        return self._waits

    def _hear_first(self, hear: Callable[[Call], None]) -> None:
        """Call a function with each request before it is handled."""
        _ = self.watch  # a watched request takes the way of all events
        observer = self.dispatcher.observer
        assert observer is not None

        def observe(call: Call, handler: Handler) -> bool:
            hear(call)
            return observer(call, handler)

        self.dispatcher.observer = observe

    def pending_work(self, group_id: str) -> str:
        """Describe what a group waits for, and what keeps an automatic clock from a jump."""
        group = self.cluster.groups.snapshot(group_id)
        holding = [] if self._auto is None else self._auto.holding(group_id)
        return pending_work(group, self.cluster.now_ms, holding)

    def move_coordinator(self, group_id: str, node: int | None = None) -> None:
        """Move a group's coordinator to a broker, which loads the group from the log."""
        self._known(node)
        self.cluster.groups.move(text(group_id, "group_id"))
        self._notice()

    def _notice(self) -> None:
        for looking in (self._waits, self._auto):
            if looking is not None:
                looking.notice()

    def _known(self, node_id: Any) -> Node:
        """Return a broker by its id, or, for None, the only broker."""
        node = self._node if node_id is None else self.cluster.nodes.get(whole(node_id, "node"))
        if node is None:
            raise ArgumentError(f"node must be one of {sorted(self.cluster.nodes)}, not {node_id}")
        return node

    async def kill(self, node_id: int | None = None) -> None:
        """Stop a broker at once: close its connections, and unload its groups."""
        node = self._known(node_id)
        if self._servers:
            await self._close_servers()
            for peer in self._peers.of(node):
                self._abort(peer)
            self.cluster.groups.resign()
            self._notice()

    async def revive(self, node_id: int | None = None) -> None:
        """Start a broker again at its address; it loads its groups from the log."""
        self._known(node_id)
        if not self._servers:
            self.cluster.groups.load()
            self.cluster.transactions.load()
            await self._listen(self.bound)
            self._notice()

    async def stop(self) -> None:
        await self._close_servers()
        for server in self._beside:
            server.close()
        if hasattr(self, "_heart"):
            for peer in list(self._peers.all):
                peer.finish()
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._all_gone(), _GOODBYE_S)
            for peer in list(self._peers.all):
                peer.transport.abort()
            self._peers.senders.close()
            self._heart.stop()

    async def _all_gone(self) -> None:
        while self._peers.all:
            await asyncio.sleep(0)

    async def _close_servers(self) -> None:
        for server in self._servers:
            server.close()
        self._servers.clear()
