"""``Broker``: the server in this process, in a thread of its own, for tests."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterable, Mapping
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from coterie.arguments import called, file_path, span, walked, whole, within
from coterie.coordinator.snapshot import GroupSnapshot
from coterie.errors import ArgumentError, CoterieError, shown
from coterie.server.api.faults import Fault
from coterie.server.config import server_config
from coterie.server.options import (
    Options,
    Place,
    place_of,
    refuse_open,
    refuse_unroutable,
    topic_of,
)
from coterie.server.running import Running
from coterie.server.services.data.topics import refuse_other_counts
from coterie.traces.recording import Recording

__all__ = ["Broker"]

T = TypeVar("T")
_MOST_PARTITIONS = 100_000


class CoordinatorView:
    """The group coordinator of a broker, seen from another thread."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def snapshot(self, group_id: str) -> GroupSnapshot | None:
        """Return a frozen view of a group, None if there is none."""
        return self._broker._do(lambda running: running.snapshot(group_id))


class Broker:
    """A Kafka of one broker for tests, in a thread of its own; data are in memory.

    Parameters
    ----------
    config
        Settings by Kafka's names.
    brokers
        1: more are not served yet.
    topics
        Name -> number of partitions; made at the start.
    data
        None: a log on disk is not served yet.
    clock
        ``"wall"``, or ``"virtual"``: the time of groups, transactions and retention stands until
        :meth:`advance`.
    listen
        ``[PROTOCOL://]HOST:PORT``, or several; port 0 chooses one.
    sasl_users
        A users file, or its contents as a mapping, for listeners with SASL.
    tls
        ``{"cert": FILE, "key": FILE, "client_ca": FILE}`` or an ``ssl.SSLContext``.
    trace
        A file that gets what was asked of the coordinator, as a trace, at the end.
    seed
        What ids are drawn from: the same requests at the same times then give the same bytes.

    Attributes
    ----------
    coordinator : CoordinatorView
        The group coordinator.
    timeline : list of coterie.Transition, coterie.Response and others
        What the coordinator did, in order, as ``GroupCoordinator.events`` has it.

    Examples
    --------
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
        listen: str | Iterable[str] = "127.0.0.1:0",
        sasl_users: Any = None,
        tls: Any = None,
        trace: str | Path | None = None,
        seed: int | None = None,
    ) -> None:
        if whole(brokers, "brokers") != 1:
            raise ArgumentError("brokers must be 1: several brokers are not served yet")
        if data is not None:
            raise ArgumentError("data must be None: a log on disk is not served yet")
        if not isinstance(clock, str) or clock not in ("wall", "virtual"):
            raise ArgumentError(f"clock must be 'wall' or 'virtual', not {shown(clock)}")
        if seed is not None:
            seed = whole(seed, "seed")
        settings = server_config(config)
        made = _topics_of(topics)
        refuse_other_counts(made, settings)
        places, context = _places_of(listen, tls)
        self._options = Options(
            config=dict(config or {}),
            places=places,
            topics=made,
            virtual=clock == "virtual",
            seed=seed,
            users=_users_of(sasl_users, places),
            tls=context,
        )
        self._trace = None if trace is None else file_path(trace, "trace")
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._running: Running | None = None
        self.coordinator = CoordinatorView(self)
        self.timeline: list[Any] = []

    # Life

    def __enter__(self) -> Broker:
        """Start; it takes requests when this returns."""
        if self._thread is not None:
            raise CoterieError("the broker runs already; make another")
        ready: Future[None] = Future()
        self._thread = threading.Thread(
            target=self._live, args=(ready,), name="coterie-broker", daemon=True
        )
        self._thread.start()
        try:
            ready.result()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        """Stop: what is decided is answered, connections close, the trace is written."""
        self.stop()

    async def __aenter__(self) -> Broker:
        """Start, as ``with`` does."""
        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        """Stop, as ``with`` does."""
        await asyncio.to_thread(self.stop)

    def stop(self) -> None:
        """Stop the server; nothing happens if it does not run."""
        if self._running is not None:
            running = self._running
            self._running = None
            try:
                self._await(running.stop())
                if self._trace is not None:
                    self._recording.write(
                        self._trace, running.cluster.groups.config, self._now(running)
                    )
            finally:
                self._end()

    def _end(self) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
        if self._thread is not None:
            self._thread.join()
        self._thread = self._loop = None

    def _live(self, ready: Future[None]) -> None:
        from coterie.server.net.listener import new_loop

        loop = self._loop = new_loop()
        try:
            running = Running(self._options)
            _ = running.watch  # it keeps requests from the first one on
            groups = running.cluster.groups
            groups.on_event = self.timeline.append
            self._recording = Recording()
            groups.record_into(self._recording)
            loop.run_until_complete(running.start())
            self._running = running
        except BaseException as error:
            ready.set_exception(error)
        else:
            ready.set_result(None)
        loop.run_forever()
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()

    # What a test does

    @property
    def bootstrap_servers(self) -> str:
        """What clients are given: ``HOST:PORT`` of the first listener."""
        return self._do(lambda running: running.bound[0].told())

    @property
    def addresses(self) -> list[str]:
        """``HOST:PORT`` of each listener, in the order of ``listen``."""
        return self._do(lambda running: [place.told() for place in running.bound])

    @property
    def now_ms(self) -> int:
        """The time of the clock, in ms."""
        return self._do(self._now)

    @called
    def advance(self, ms: int) -> None:
        """Move the virtual clock on; returns when all that fell due has been sent."""
        by = span(ms)
        self._do(lambda running: running.advance(by))

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
        """Let the next requests of an API fail, or answer them late.

        Parameters
        ----------
        api
            Its name, as ``"Heartbeat"``.
        error
            An error of Kafka's, by name or number, that is answered in the API's own form. A
            Produce with acks 0 has no answer, and its connection closes; so it does after the
            answer to a SaslHandshake or SaslAuthenticate of a client that is not in yet.
        delay_ms
            By how much later, by the broker's clock, it is answered.
        disconnect
            The connection closes instead.
        times
            How many requests meet it; None: all, until it is cancelled.
        client_id, group_id
            Only requests of this client, about this group; ArgumentError where the API's requests
            name no group.

        Returns
        -------
        Fault
            ``.count`` says how many requests have met it, ``.left`` how many more can (None: all);
            ``.cancel()`` ends it.
        """
        return self._do(
            lambda running: running.fail(
                api, error=error, delay_ms=delay_ms, disconnect=disconnect, times=times,
                client_id=client_id, group_id=group_id,
            )
        )  # fmt: skip

    def requests(self) -> list[dict[str, Any]]:
        """Return what was asked, oldest first: time, API, version, who asked, and the body."""
        return self._do(Running.requests)

    def trace(self) -> list[dict[str, Any]]:
        """Return what was asked of the coordinator as a trace that ``coterie trace run`` takes."""
        return self._do(
            lambda running: self._recording.lines(
                "broker", running.cluster.groups.config, self._now(running)
            )
        )

    @called
    def kill(self, node: int = 1) -> None:
        """Kill a broker: its connections close at once, and nobody can connect."""
        self._await(self._living().kill(node))

    @called
    def start(self, node: int = 1) -> None:
        """Start a broker that was killed: it has its address again, and its groups by the log."""
        self._await(self._living().revive(node))

    @called
    def move_coordinator(self, group_id: str, node: int = 1) -> None:
        """Let a group's coordinator move to a broker, which loads the group from the log."""
        self._do(lambda running: running.move_coordinator(group_id, node))

    # Inside

    @staticmethod
    def _now(running: Running) -> int:
        return running.cluster.now_ms

    def _living(self) -> Running:
        if self._running is None:
            raise CoterieError("the broker does not run: use `with Broker(...) as broker:`")
        return self._running

    def _do(self, function: Callable[[Running], T]) -> T:
        """Call a function in the broker's thread."""

        async def run() -> T:
            return function(running)

        running = self._living()
        return self._await(run())

    def _await(self, coroutine: Coroutine[Any, Any, T]) -> T:
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()


def _topics_of(given: Any) -> dict[str, int | None]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        given = dict.fromkeys(map(_topic_name, walked(given, "topics", "{name: partitions}")))
    topics: dict[str, int | None] = {}
    for name, count in given.items():
        _topic_name(name)
        topic, _ = topic_of(f"{name}:1")
        topics[topic] = None if count is None else within(count, name, 1, _MOST_PARTITIONS)
    return topics


def _topic_name(name: Any) -> str:
    if not isinstance(name, str):
        raise ArgumentError(f"topics must be {{name: partitions}}, not of {shown(name)}")
    return name


def _places_of(listen: Any, tls: Any) -> tuple[tuple[Place, ...], Any]:
    """Return where to listen, and the context of TLS."""
    given = [listen] if isinstance(listen, str) else walked(listen, "listen", "addresses")
    places = tuple(map(place_of, given))
    if not places:
        raise ArgumentError("listen must name an address, but names none")
    context, certified = _tls_of(tls)
    if context is None and any(place.protocol.endswith("ssl") for place in places):
        raise ArgumentError("a listener with TLS needs tls")
    for place in places:
        refuse_open(place, client_certificates=certified, insecure=False)
    refuse_unroutable(places, (), "listen at the address by which they reach this machine")
    return places, context


def _users_of(given: Any, places: tuple[Place, ...]) -> Any:
    if given is None:
        if any(place.protocol.startswith("sasl_") for place in places):
            raise ArgumentError("a listener with SASL needs sasl_users")
        return None
    from coterie.server.services import sasl

    return sasl.users_of(given) if isinstance(given, Mapping) else sasl.read_users(given)


def _tls_of(given: Any) -> tuple[Any, bool]:
    """Return the context, and whether clients need a certificate."""
    if given is None:
        return None, False
    from ssl import CERT_REQUIRED, SSLContext

    if isinstance(given, SSLContext):
        return given, given.verify_mode == CERT_REQUIRED
    if not isinstance(given, Mapping) or not {"cert", "key"} <= given.keys():
        raise ArgumentError("tls must be {'cert': FILE, 'key': FILE, 'client_ca': FILE or None}")
    from coterie.server.net.tls import server_context

    client_ca = given.get("client_ca")
    return server_context(given["cert"], given["key"], client_ca), client_ca is not None
