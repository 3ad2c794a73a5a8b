"""Applications as they are: modules of clients, sleeps, clocks and threads on virtual time."""

from __future__ import annotations

import importlib
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.machinery import PathFinder
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from coterie._core.structures.schedule import Future
from coterie.errors import ArgumentError, shown
from coterie.testing.process import Process
from coterie.testing.programs import Program, forget, running
from coterie.testing.simulated_cluster import Cluster

Replacement = tuple[Any, str, Any]  # owner, name and stand-in
EPOCH_S = 1_700_000_000  # what ``time.time()`` is at the begin of virtual time
MODULES = {  # name -> what stands in for it; a package comes before its modules
    f"{package}{name}": f"coterie.testing.{ours}"
    for package, ours, names in (
        ("confluent_kafka", "confluent", ("", ".cimpl", ".error")),
        ("confluent_kafka", "confluent_admin", (".admin",)),
        ("kafka", "kafka_python", ("", ".consumer", ".consumer.group", ".consumer.fetcher")),
        ("kafka", "kafka_python", (".consumer.subscription_state", ".producer", ".producer.kafka")),
        ("kafka", "kafka_python", (".producer.future", ".future", ".structs")),
        ("kafka", "kafka_python_admin", (".admin", ".admin.client")),
        ("kafka", "kafka_python_errors", (".errors",)),
        ("aiokafka", "aiokafka", ("", ".consumer", ".producer", ".structs", ".abc")),
        ("aiokafka", "aiokafka_admin", (".admin", ".admin.client")),
        ("aiokafka", "aiokafka_errors", (".errors",)),
    )
    for name in names
}
LIBRARIES = {name for name in MODULES if "." not in name}


@contextmanager
def virtual_clients(cluster: Cluster) -> Iterator[None]:
    """Run applications unchanged against a cluster, on virtual time.

    Within, ``import confluent_kafka`` gives :mod:`coterie.testing.confluent`, ``import kafka``
    :mod:`coterie.testing.kafka_python` and ``import aiokafka`` :mod:`coterie.testing.aiokafka`,
    whether or not the library is installed, also in modules with an earlier import; ``time.sleep``,
    the clocks of ``time``, threads and event loops of the application are virtual. Afterwards a
    module that was first imported within, and uses a client, is imported anew.

    Parameters
    ----------
    cluster : Cluster
        What the clients connect to, whatever their ``bootstrap.servers``.

    Examples
    --------
    >>> import time
    >>> with virtual_clients(Cluster({"orders": 1})):
    ...     from confluent_kafka import Consumer
    ...     consumer = Consumer({"group.id": "g", "auto.offset.reset": "earliest"})
    ...     consumer.subscribe(["orders"])
    ...     message = consumer.poll(60.0)
    ...     time.sleep(3600)  # takes no time
    >>> message.value()
    b'orders-0-0'
    """
    if not isinstance(cluster, Cluster):
        raise ArgumentError(f"cluster must be a Cluster, not {shown(cluster)}")
    process = Process(cluster.schedule, "program")
    program = Program(cluster, process)
    with stand_ins():
        token = program.enter()
        try:
            yield
        finally:
            program.leave(token)
            end(program)


def end(program: Program) -> None:
    """Kill the threads and clients of a program."""
    processes = [program.process, *program.others]
    for one in processes:
        one.alive = False  # first: their cleanup must not wait
    for one in processes:
        one.kill()


@contextmanager
def stand_ins(*spaces: dict[str, Any]) -> Iterator[None]:
    """Replace modules and functions of applications; only programs see a difference.

    ``spaces``: globals besides those of the loaded modules.
    """
    from coterie.testing import virtual_loop  # late: few programs have asyncio

    changes: list[Replacement] = []
    bound: list[tuple[dict[str, Any], str, Any]] = []
    modules = {name: sys.modules.get(name) for name in MODULES}
    loaded, paths = set(sys.modules), _paths()
    others: dict[int, Any] = {}  # the stand-in of each object, by its identity
    rebased: list[tuple[type, tuple[type, ...]]] = []
    try:
        for name, ours in MODULES.items():
            module = importlib.import_module(ours)
            real = modules[name]
            sys.modules[name] = module
            vars(module)["__path__"] = paths[name.partition(".")[0]]
            package, _, last = name.rpartition(".")
            if package:
                vars(sys.modules[package]).setdefault(last, module)
            if real is not None:
                others[id(real)] = module
                for public in module.__all__:
                    own = getattr(real, public, None)
                    if callable(own):  # numbers are the same
                        others[id(own)] = getattr(module, public)
                        rebased += _rebase(own, getattr(module, public))
        for owner, name, function in (*_clocks(), *_threads(), *virtual_loop.replacements()):
            changes.append((owner, name, getattr(owner, name)))
            if not isinstance(owner, type):
                others[id(getattr(owner, name))] = function
            setattr(owner, name, function)
        for space, name in _bound(others, spaces):
            bound.append((space, name, space[name]))
            space[name] = others[id(space[name])]
        yield
    finally:
        virtual_loop.end()
        forget()
        for kind, bases in reversed(rebased):
            kind.__bases__ = bases
        for space, name, real in bound:
            space[name] = real
        for owner, name, real in reversed(changes):
            setattr(owner, name, real)
        for name, before in modules.items():
            if before is None:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = before
        for ours in MODULES.values():
            vars(sys.modules[ours]).pop("__path__", None)
        rest = {name for name in sys.modules.keys() - loaded if _is_of_library(name)}
        for name in rest:  # they use the stand-ins
            del sys.modules[name]
        _forget({name: space for name, space in _spaces() if name not in loaded}, rest)


def _rebase(real: Any, ours: Any) -> Iterator[tuple[type, tuple[type, ...]]]:
    """Let an application's subclasses of a real class inherit from its stand-in.

    Yield each with its bases before. Those of a class that is written in C cannot.
    """
    kinds: list[type] = real.__subclasses__() if isinstance(real, type) else []
    for kind in kinds:
        before = kind.__bases__
        if not _is_of_library(kind.__module__):
            with suppress(TypeError):
                kind.__bases__ = tuple(ours if base is real else base for base in before)
                yield kind, before


def _is_of_library(name: str) -> bool:
    return name.partition(".")[0] in LIBRARIES


def _paths() -> dict[str, list[str]]:
    """Return where each library, if it is installed, has the modules that nothing stands in for."""
    found = {}
    for library in LIBRARIES:
        spec = PathFinder.find_spec(library)
        roots = (spec.submodule_search_locations if spec else None) or ()
        parts = [name.split(".")[1:] for name in MODULES if name.partition(".")[0] == library]
        found[library] = [str(Path(root, *part)) for root in roots for part in parts]
    return found


def _forget(spaces: dict[str, dict[str, Any]], stale: set[str]) -> None:
    """Let modules be imported anew that use the clients, or others of these modules that do."""
    clients = [sys.modules[name] for name in MODULES.values()]
    stale |= {_origin(getattr(client, name)) for client in clients for name in client.__all__}
    stale = (stale | {client.__name__ for client in clients}) - {None}
    while found := {
        name
        for name, space in spaces.items()
        if name not in stale and any(_origin(value) in stale for value in space.values())
    }:
        stale |= found
    for name in stale & spaces.keys():
        package, _, module = name.rpartition(".")
        if package in sys.modules:
            vars(sys.modules[package]).pop(module, None)
        del sys.modules[name]


def _origin(value: Any) -> Any:
    """Return the module of a class or function, or the name of a module."""
    if issubclass(type(value), ModuleType):
        return value.__name__
    return value.__module__ if issubclass(type(value), type | FunctionType) else None


_NOT_APPLICATIONS = LIBRARIES | {
    *("coterie", "asyncio", "_pytest", "pytest", "hypothesis", "greenlet")
}


def _bound(
    others: dict[int, Any], spaces: tuple[dict[str, Any], ...]
) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield the global names of applications that refer to an object with a stand-in."""
    for space in (*(space for _, space in _spaces()), *spaces):
        for name, value in list(space.items()):
            if id(value) in others:
                yield space, name


def _spaces() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the names and globals of the loaded modules that may belong to an application."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in _NOT_APPLICATIONS or name in sys.stdlib_module_names:
            continue
        space = getattr(module, "__dict__", None)
        if isinstance(space, dict):
            yield name, space


def _clocks() -> list[Replacement]:
    """Return the functions of time and of signals; outside of programs each is the real one."""
    sleep, install = time.sleep, signal.signal

    def virtual_sleep(seconds: float) -> None:
        found = running()
        if found is None:
            sleep(seconds)
        else:
            found[0].sleep(round(seconds * 1000))

    def virtual_signal(number: int, handler: Any) -> Any:
        found = running()
        if found is None:
            return install(number, handler)
        before = found[0].handlers.get(number, signal.SIG_DFL)
        found[0].handlers[number] = handler
        return before

    def clock(name: str, read: Callable[[int], Any]) -> Replacement:
        real = getattr(time, name)

        def virtual() -> Any:
            found = running()
            if found is None:
                return real()
            found[1].check_alive()  # a loop that waits by the clock would never end
            return read(found[1].now_ms)

        return time, name, virtual

    found: list[Replacement] = [(time, "sleep", virtual_sleep), (signal, "signal", virtual_signal)]
    for name in ("monotonic", "perf_counter"):
        found.append(clock(name, lambda now_ms: now_ms / 1000))
        found.append(clock(f"{name}_ns", lambda now_ms: now_ms * 1_000_000))
    found.append(clock("time", lambda now_ms: EPOCH_S + now_ms / 1000))
    found.append(clock("time_ns", lambda now_ms: (EPOCH_S * 1000 + now_ms) * 1_000_000))
    monotonic = clock("monotonic", lambda now_ms: now_ms / 1000)[2]
    return [*found, (threading, "_time", monotonic), (queue, "time", monotonic)]


def _threads() -> list[Replacement]:
    """Return the methods of threads and the locks; they wait in virtual time."""
    thread, lock, rlock = threading.Thread, threading.Lock, threading.RLock
    begin, join, is_alive = thread.start, thread.join, thread.is_alive

    def virtual_start(self: Any) -> None:
        found = running()
        if found is None:
            begin(self)
        else:
            self._coterie_future = found[0].run_in_thread(self.run)

    def virtual_join(self: Any, timeout: float | None = None) -> None:
        future, found = getattr(self, "_coterie_future", None), running()
        if future is None:
            join(self, timeout)
        elif found is not None:  # else its program is over
            found[1].check_alive()
            found[1].wait(future, None if timeout is None else round(timeout * 1000))

    def virtual_is_alive(self: Any) -> bool:
        future = getattr(self, "_coterie_future", None)
        return is_alive(self) if future is None else not future.done

    def virtual_lock() -> Any:
        return lock() if running() is None else _Lock()

    def virtual_rlock() -> Any:
        return rlock() if running() is None else _Lock(again=True)

    return [
        *((thread, "start", virtual_start), (thread, "join", virtual_join)),
        (thread, "is_alive", virtual_is_alive),
        *((threading, "Lock", virtual_lock), (threading, "_allocate_lock", virtual_lock)),
        (threading, "RLock", virtual_rlock),
        (queue, "SimpleQueue", queue._PySimpleQueue),  # type: ignore[attr-defined]
    ]


class _Lock:
    """A lock of virtual threads; a wait for it lets the clock run."""

    def __init__(self, *, again: bool = False) -> None:
        self._again, self._owner, self._count = again, None, 0
        self._waiting: list[Any] = []

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        found = running()
        me: Any = None if found is None else found[1]
        if self._again and self._count and self._owner is me:
            self._count += 1
            return True
        deadline_ms = None if me is None or timeout < 0 else me.now_ms + round(timeout * 1000)
        while self._count:
            if me is None or not blocking:
                return False
            me.check_alive()
            left_ms = None if deadline_ms is None else deadline_ms - me.now_ms
            if left_ms is not None and left_ms <= 0:
                return False
            future = Future()
            self._waiting.append(future)
            me.wait(future, left_ms)
        self._owner, self._count = me, 1
        return True

    def release(self) -> None:
        if not self._count:
            raise RuntimeError("release unlocked lock")
        self._count -= 1
        if not self._count:
            self._owner = None
            while self._waiting and self._waiting[0].done:
                self._waiting.pop(0)
            if self._waiting:
                self._waiting.pop(0).set()

    def locked(self) -> bool:
        return self._count > 0

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def _is_owned(self) -> bool:
        found = running()
        return self._count > 0 and self._owner is (None if found is None else found[1])

    def _release_save(self) -> tuple[int, Any]:
        state = self._count, self._owner
        self._count = 1
        self.release()
        return state

    def _acquire_restore(self, state: tuple[int, Any]) -> None:
        self.acquire()
        self._count, self._owner = state
