"""``Broker``: the server in this process, in a thread of its own, for tests."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from coterie.base.arguments import called, file_path, span, text, walked, whole, within
from coterie.coordinator.event_lines import event_lines
from coterie.coordinator.recording import Recording
from coterie.errors import ArgumentError, CoterieError, shown
from coterie.server.api.faults import Fault
from coterie.server.config import Settings, server_config
from coterie.server.group_waits import TIMEOUT_S
from coterie.server.listeners import chosen_listeners
from coterie.server.options import (
    MAX_PARTITIONS,
    Options,
    Place,
    TopicOptions,
    refuse_open,
    refuse_unroutable,
    topic_of,
)
from coterie.server.releases import release_of
from coterie.server.running import Running
from coterie.server.server_thread import ServerThread
from coterie.server.services.groups import GroupView
from coterie.server.topics_at_start import refuse_wrong_topics

_ANY_PORT = "127.0.0.1:0"
_CLOCKS = ("wall", "virtual", "auto")


class CoordinatorView:
    """The group coordinator of a broker, for calls from other threads."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def snapshot(self, group_id: str) -> GroupView | None:
        """Return a frozen view of a group, None if there is none.

        A group of the consumer protocol is shown as ``consumer_group_describe`` shows it.
        """
        return self._broker._thread_here().call(
            lambda running: running.cluster.groups.snapshot(text(group_id, "group_id"))
        )


class Broker:
    """A Kafka of one broker for tests, in a thread of its own; data are in memory.

    Parameters
    ----------
    config
        Settings by Kafka's names, as in ``server.properties``. A line on standard error lists those
        without an effect.
    brokers
        1: more are not served yet.
    topics
        Name -> number of partitions; made at the start.
    data
        None: a log on disk is not served yet.
    clock
        ``"wall"``; or ``"virtual"``: the time of groups, transactions and retention stands until
        :meth:`advance`; or ``"auto"``: it also jumps to the end of a rebalance or of an injected
        delay when clients only wait for that.
    listen
        ``[NAME://]HOST:PORT``, or several; port 0 chooses one. NAME is a protocol, or a name of
        ``listener.security.protocol.map``. By default ``listeners`` of ``config`` counts, else a
        free port of this machine.
    sasl_users
        A users file, or its contents as a mapping, for listeners with SASL.
    tls
        ``{"cert": FILE, "key": FILE, "client_ca": FILE}`` or an ``ssl.SSLContext``.
    trace
        A file for the requests to the coordinator, written as a trace at the end.
    seed
        Ids are drawn from it: the same requests at the same times then give the same bytes.
    kafka
        ``"3.9"``, ``"4.1"`` or ``"4.4"``: the release whose broker is followed. Consumer groups
        (KIP-848) need 4.1 or later.

    Attributes
    ----------
    coordinator : CoordinatorView
        The group coordinator.
    timeline : list of coterie.Transition, coterie.Response and others
        The events of the coordinator, in order (see ``GroupCoordinator.events``), and injected
        faults where they affected a request.

    Examples
    --------
    >>> Broker()
    <Broker: not running>
    >>> with Broker(topics={"orders": 3}, clock="virtual") as broker:
    ...     broker.advance(10_000)
    ...     broker.now_ms
    10000
    """

    @called
    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        *,
        brokers: int = 1,
        topics: Mapping[str, int] | Iterable[str] | None = None,
        data: Any = None,
        clock: str = "wall",
        listen: str | Iterable[str] = _ANY_PORT,
        sasl_users: Any = None,
        tls: Any = None,
        trace: str | Path | None = None,
        seed: int | None = None,
        kafka: str = "3.9",
    ) -> None:
        release = release_of(kafka)
        if whole(brokers, "brokers") != 1:
            raise ArgumentError("brokers must be 1: several brokers are not served yet")
        if data is not None:
            raise ArgumentError("data must be None: a log on disk is not served yet")
        if not isinstance(clock, str) or clock not in _CLOCKS:
            raise ArgumentError(
                f"clock must be one of {', '.join(map(repr, _CLOCKS))}, not {shown(clock)}"
            )
        if seed is not None:
            seed = whole(seed, "seed")
        settings = server_config(config, release)
        topic_options = _topics_of(topics)
        refuse_wrong_topics(topic_options, settings, release)
        places, advertised, context = _places_of(listen, settings, tls)
        self._options = Options(
            config=dict(config or {}),
            release=release,
            places=places,
            advertised=advertised,
            topics=topic_options,
            virtual=clock != "wall",
            auto=clock == "auto",
            seed=seed,
            users=_users_of(sasl_users, places),
            tls=context,
        )
        self._trace = None if trace is None else file_path(trace, "trace")
        self._thread: ServerThread | None = None
        self.coordinator = CoordinatorView(self)
        self.timeline: list[Any] = []

    # Life

    def __repr__(self) -> str:
        running = self._thread is not None
        return f"<Broker: {', '.join(self.addresses) if running else 'not running'}>"

    def __enter__(self) -> Broker:
        """Start, and return when it takes requests; Ctrl-C in between stops it completely."""
        thread = self._new_thread()
        try:
            thread.start()
            return self
        except BaseException:
            self._thread = None
            thread.end()
            thread.join()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        """Stop: send the pending output, close connections, write the trace."""
        self.stop()

    async def __aenter__(self) -> Broker:
        """Start, as ``with`` does; a cancellation in between stops it completely."""
        thread = self._new_thread()
        try:
            await asyncio.to_thread(thread.start)
            return self
        except BaseException:
            self._thread = None
            thread.end()
            await asyncio.to_thread(thread.join)
            raise

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        """Stop, as ``with`` does."""
        await asyncio.to_thread(self.stop)

    def stop(self) -> None:
        """Stop the server; without effect if it is stopped, or runs in another process."""
        thread = self._thread
        if thread is None or not thread.is_here:
            return
        self._thread = None
        thread.end()
        thread.join()
        if thread.failure is not None:
            raise thread.failure
        if self._trace is not None and thread.has_started:
            cluster = self._cluster
            self._recording.write(self._trace, cluster.groups.config, cluster.now_ms)

    def _new_thread(self) -> ServerThread:
        if self._thread is not None:
            raise CoterieError("the broker runs already; make another")
        self._thread = ServerThread(self._options, self._prepare)
        return self._thread

    def _prepare(self, running: Running) -> None:
        """Record requests, events and the trace from the first request on."""
        running.watch.on_fault = self.timeline.append
        self._cluster = running.cluster
        self._recording = Recording()
        running.cluster.groups.on_event = self.timeline.append
        running.cluster.groups.record_into(self._recording)

    # What a test does

    @property
    def bootstrap_servers(self) -> str:
        """``HOST:PORT`` of the first listener, to connect clients to."""
        return self._thread_here().call(lambda running: running.bound[0].address)

    @property
    def addresses(self) -> list[str]:
        """``HOST:PORT`` of each listener, in the order of ``listen``."""
        return self._thread_here().call(lambda running: [place.address for place in running.bound])

    @property
    def now_ms(self) -> int:
        """The time of the clock, in ms."""
        return self._thread_here().call(self._now)

    @called
    def advance(self, ms: int) -> None:
        """Move the virtual clock forward; return when the responses that became due are sent."""
        span_ms = span(ms)
        self._thread_here().call(lambda running: running.advance(span_ms))

    @called
    def fail(
        self,
        api: str,
        *,
        error: Any = None,
        delay_ms: int = 0,
        disconnect: bool = False,
        times: int | None = 1,
        client_id: str | None = None,
        group_id: str | None = None,
    ) -> Fault:
        """Make the next requests of an API fail, or delay their responses.

        Parameters
        ----------
        api
            Its name, as ``"Heartbeat"``.
        error
            A Kafka error, by name or number; the response has the API's own form. A Produce with
            acks 0 has no response, so its connection closes. After the error of a SaslHandshake or
            SaslAuthenticate, the connection of a client that is not authenticated closes, too.
        delay_ms
            The delay of the response, by the broker's clock.
        disconnect
            Close the connection instead of a response.
        times
            How many requests are affected; None: all, until the fault is cancelled.
        client_id, group_id
            Only requests of this client, or about this group. ArgumentError if the API's requests
            name no group.

        Returns
        -------
        Fault
            ``.count`` is the number of affected requests, ``.left`` the number that can still be
            affected (None: no limit); ``.cancel()`` ends it.
        """
        return self._thread_here().call(
            lambda running: running.watch.fail(
                api, error=error, delay_ms=delay_ms, disconnect=disconnect, times=times,
                client_id=client_id, group_id=group_id,
            )
        )  # fmt: skip

    def requests(self) -> list[dict[str, Any]]:
        """Return the requests, oldest first: time, API, version, client, and the body."""
        return self._thread_here().call(lambda running: list(running.watch.requests))

    def trace(self) -> list[dict[str, Any]]:
        """Return the requests to the coordinator as a trace for ``coterie trace run``."""
        return self._thread_here().call(
            lambda running: self._recording.lines(
                "broker", running.cluster.groups.config, self._now(running)
            )
        )

    @called
    def kill(self, node: int | None = None) -> None:
        """Kill a broker (None: the only one): close its connections, and accept no more."""
        self._thread_here().run(lambda running: running.kill(node))

    @called
    def start(self, node: int | None = None) -> None:
        """Start a broker that was killed, at its old address; it loads its groups from the log."""
        self._thread_here().run(lambda running: running.revive(node))

    @called
    def move_coordinator(self, group_id: str, node: int | None = None) -> None:
        """Move a group's coordinator to a broker, which loads the group from the log."""
        self._thread_here().call(lambda running: running.move_coordinator(group_id, node))

    @called
    def wait_for(
        self,
        group_id: str,
        *,
        state: str | None = None,
        members: int | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> GroupView | None:
        """Wait until a group has a state, a number of members, or both.

        The group is checked after each request and each move of the clock, so a test need not sleep
        before it moves the clock. A member counts from its first join on. In an event loop it is
        ``await asyncio.to_thread(broker.wait_for, group_id, members=1)``.

        Parameters
        ----------
        state
            ``"PreparingRebalance"``, ``"CompletingRebalance"``, ``"Stable"``, ``"Empty"`` or
            ``"Dead"``; a group that does not exist is Dead. Of a consumer group ``"Assigning"``,
            ``"Reconciling"``, ``"Stable"`` or ``"Empty"``.
        members
            The number of members.
        timeout_s
            How long to wait, in seconds of the wall clock.

        Returns
        -------
        GroupSnapshot, DescribedConsumerGroup or None
            The group; None if it does not exist, when that was the condition.

        Raises
        ------
        CoterieError
            The time-out has passed. The message has the group's state and what it waits for.
            Or an event loop runs in this thread: it would stand still, with its clients.
        """
        if asyncio._get_running_loop() is not None:
            raise CoterieError(
                "wait_for would stop this event loop, and clients in it: "
                "use `await asyncio.to_thread(broker.wait_for, group_id, ...)`"
            )
        return self._thread_here().run(
            lambda running: running.wait_for(
                group_id, state=state, members=members, timeout_s=timeout_s
            )
        )

    def _on_stage(self, act: str, *args: Any) -> Any:
        """Call a method of the server's stage, in its thread: for histories."""
        return self._thread_here().call(lambda running: getattr(running.stage, act)(*args))

    def _timeline_lines(self) -> list[str]:
        """Return the timeline as text, a line for each event."""
        return event_lines(list(self.timeline), self._recording.groups_and_members())

    def _pending_work(self) -> list[str]:
        """Return a line for each group that the timeline names: its state and what it waits for."""
        group_ids = {
            event.group_id: None
            for event in list(self.timeline)
            if getattr(event, "group_id", None) is not None
        }
        return self._thread_here().call(
            lambda running: [
                f"group {group_id!r} {running.pending_work(group_id)}" for group_id in group_ids
            ]
        )

    # Inside

    @staticmethod
    def _now(running: Running) -> int:
        return running.cluster.now_ms

    def _thread_here(self) -> ServerThread:
        if self._thread is None or not self._thread.has_started:
            raise CoterieError("the broker does not run: use `with Broker(...) as broker:`")
        return self._thread


def _topics_of(topics: Any) -> dict[str, TopicOptions]:
    if topics is None:
        return {}
    if not isinstance(topics, Mapping):
        topics = dict.fromkeys(map(_topic_name, walked(topics, "topics", "{name: partitions}")))
    checked: dict[str, TopicOptions] = {}
    for name, count in topics.items():
        _topic_name(name)
        topic, _ = topic_of(f"{name}:1")
        partitions = None if count is None else within(count, name, 1, MAX_PARTITIONS)
        checked[topic] = TopicOptions(partitions)
    return checked


def _topic_name(name: Any) -> str:
    if not isinstance(name, str):
        raise ArgumentError(f"topics must be {{name: partitions}}, not of {shown(name)}")
    return name


def _places_of(
    listen: Any, settings: Settings, tls: Any
) -> tuple[tuple[Place, ...], tuple[Place | None, ...], Any]:
    """Return the addresses to listen on, the advertised ones, and the TLS options."""
    texts = [listen] if isinstance(listen, str) else [*walked(listen, "listen", "addresses")]
    if not texts:
        raise ArgumentError("listen must name an address, but names none")
    listens = () if isinstance(listen, str) and listen == _ANY_PORT else texts
    places, advertised = chosen_listeners(settings, listens, default=_ANY_PORT)
    context, needs_certificate = _tls_of(tls)
    if context is None and any(place.protocol.endswith("ssl") for place in places):
        raise ArgumentError("a listener with TLS needs tls")
    for place in places:
        refuse_open(place, client_certificates=needs_certificate, insecure=False)
    refuse_unroutable(places, advertised, "listen at the address by which they reach this machine")
    return places, advertised, context


def _users_of(users: Any, places: tuple[Place, ...]) -> Any:
    if users is None:
        if any(place.protocol.startswith("sasl_") for place in places):
            raise ArgumentError("a listener with SASL needs sasl_users")
        return None
    from coterie.server.services.users import read_users, users_of

    return users_of(users) if isinstance(users, Mapping) else read_users(users)


def _tls_of(tls: Any) -> tuple[Any, bool]:
    if tls is None:
        return None, False
    from ssl import CERT_REQUIRED, SSLContext

    if isinstance(tls, SSLContext):
        return tls, tls.verify_mode == CERT_REQUIRED
    if not isinstance(tls, Mapping) or not {"cert", "key"} <= tls.keys():
        raise ArgumentError("tls must be {'cert': FILE, 'key': FILE, 'client_ca': FILE or None}")
    from coterie.server.net.tls import server_context

    client_ca = tls.get("client_ca")
    return server_context(tls["cert"], tls["key"], client_ca), client_ca is not None
