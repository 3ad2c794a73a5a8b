"""Applications on virtual time: their threads, their clients, and signals to them."""

from __future__ import annotations

import signal
import sys
import traceback
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any
from weakref import WeakKeyDictionary

from coterie._core.structures.schedule import Future
from coterie.errors import CoterieError
from coterie.testing.process import Process
from coterie.testing.simulated_cluster import Cluster

_here: ContextVar[tuple[Program, Process] | None] = ContextVar("coterie program", default=None)
_threads: WeakKeyDictionary[Any, tuple[Program, Process]] = WeakKeyDictionary()  # by greenlet


class ClientFailure(Exception):
    """Base of what the clients of applications raise: it ends a member, not the run."""


class Program:
    """A running application: its main process, its threads, and the processes of its clients.

    Parameters
    ----------
    cluster : Cluster
        The cluster of its clients.
    process : Process
        Its main thread.
    settings : mapping
        Settings that override those of its consumers.

    Attributes
    ----------
    handlers : dict
        Its handler of each signal.
    consumer
        Its last consumer, or None.
    """

    def __init__(
        self, cluster: Cluster, process: Process, settings: dict[str, Any] | None = None
    ) -> None:
        self.cluster, self.process = cluster, process
        self.settings = settings or {}
        self.handlers: dict[int, Any] = {}
        self.consumer: Any = None
        self.others: list[Process] = []
        self.starts: dict[tuple[str, int], int] | None = None  # where a probe begins, or None
        self._signalled = False
        self._waiting: Future | None = None

    def enter(self) -> Any:
        """Become the present program; return a token for :meth:`leave`."""
        return _here.set((self, self.process))

    @staticmethod
    def leave(token: Any) -> None:
        """Restore the program before :meth:`enter`."""
        _here.reset(token)

    def new_process(self, name: str) -> Process:
        """Return another process of the application; it pauses and dies with it."""
        process = Process(self.cluster.schedule, name)
        process.paused = self.process.paused
        self.others = [one for one in self.others if one.alive]
        self.others.append(process)
        return process

    def run_in_thread(self, function: Callable[[], Any]) -> Future:
        """Run a function in a thread of the application; return its future."""
        process, future = self.new_process(f"{self.process.name} thread"), Future()

        def run() -> None:
            import greenlet

            _threads[greenlet.getcurrent()] = self, process  # asyncio hands contexts to threads
            try:
                function()
            except CoterieError:
                raise
            except Exception as error:
                self.died(error)
            future.set()
            process.alive = False

        self.cluster.schedule.call_soon(process.start, run)  # a program cannot start another
        return future

    def made(self, consumer: Any) -> None:
        """Take note of a new consumer; None: it is closed."""
        self.consumer = consumer

    def died(self, error: Exception) -> None:
        """Print the exception of a thread, as ``threading`` does."""
        traceback.print_exception(error)

    # Waits

    def sleep(self, ms: int) -> None:
        """Let time pass in the present thread; a signal may end it."""
        process = current()[1]
        process.check_alive()
        if process is not self.process:
            process.sleep(ms)
            return
        until_ms = process.now_ms + ms
        while (left_ms := until_ms - process.now_ms) > 0 or not ms:
            self.wait(Future(), left_ms)
            if not ms:
                break

    def wait(self, future: Future, ms: int | None) -> None:
        """Wait for a result in the present thread, or for a signal to the application."""
        process = current()[1]
        if process is not self.process:
            process.wait(future, ms)
            return
        self.handle_signal()
        self._waiting = future
        process.wait(future, ms)
        self.handle_signal()

    def interrupt(self) -> None:
        """Send SIGTERM, or SIGINT if only this has a handler."""
        self._signalled = True
        if self._waiting is not None:
            self._waiting.set()
        if self.consumer is not None:
            self.consumer._wake()

    def handle_signal(self) -> None:
        """Call the handler of a pending signal, or raise KeyboardInterrupt."""
        if not self._signalled or current()[1] is not self.process:
            return
        self._signalled = False
        for number in (signal.SIGTERM, signal.SIGINT):
            handler = self.handlers.get(number)
            if callable(handler):
                handler(number, None)
                return
        raise KeyboardInterrupt


def forget() -> None:
    """Forget the threads of applications, which have ended; a lock of a log may live on."""
    _threads.clear()


def current() -> tuple[Program, Process]:
    """Return the present application and the process of the present thread."""
    found = running()
    if found is None:
        raise CoterieError("this is for applications within virtual_clients or a history")
    return found


def running() -> tuple[Program, Process] | None:
    """Return the same, or None outside of an application."""
    if _threads:
        found = _threads.get(sys.modules["greenlet"].getcurrent())
        if found is not None:
            return found
    return _here.get()
