"""A server in a thread of its own: its start, its end, and calls into it from other threads."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from coterie.errors import CoterieError
from coterie.server.options import Options
from coterie.server.running import Running
from coterie.server.shutdown import end_other_tasks

T = TypeVar("T")


class ServerThread:
    """A server in a thread. It can be ended at any time, even before it has started.

    Attributes
    ----------
    failure : BaseException or None
        The exception that ended it; None after :meth:`end`.
    """

    def __init__(self, options: Options, prepare: Callable[[Running], None]) -> None:
        self._options, self._prepare = options, prepare
        self._process_id = os.getpid()
        self._is_ending = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self.failure: BaseException | None = None
        self._started: Future[Running] = Future()
        self._thread = threading.Thread(target=self._run, name="coterie-broker", daemon=True)

    @property
    def is_here(self) -> bool:
        """Whether it was created in this process: a forked child has no threads of its parent."""
        return os.getpid() == self._process_id

    @property
    def has_started(self) -> bool:
        """Whether the server takes requests, or took some before it ended."""
        return self._started.done() and self._started.exception() is None

    def start(self) -> None:
        """Start the thread; return when the server takes requests.

        After an exception, such as of Ctrl-C, the caller has to end it.
        """
        self._thread.start()
        self._started.result()

    def end(self) -> None:
        """Ask the server to end, from any thread; does not wait for it."""
        # This writes `_is_ending` and then reads `_loop`; the thread writes `_loop` and then reads
        # `_is_ending`. So at least one of the two sees what the other wrote.
        self._is_ending = True
        loop, task = self._loop, self._task
        if loop is not None and task is not None:
            with contextlib.suppress(RuntimeError):  # it has ended, and the loop is closed
                loop.call_soon_threadsafe(task.cancel)

    def join(self) -> None:
        """Wait until the thread has ended."""
        # RuntimeError: an exception came before the thread ran. If it runs later, it ends at once.
        with contextlib.suppress(RuntimeError):
            self._thread.join()

    def call(self, function: Callable[[Running], T]) -> T:
        """Call a function of the server in its thread, and return what it returns."""

        async def run() -> T:
            return function(running)

        running = self._running()
        return self._wait(run())

    def run(self, function: Callable[[Running], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine function of the server in its thread, and return what it returns."""
        return self._wait(function(self._running()))

    def _wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        assert self._loop is not None
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result()
        except CoterieError as error:
            raise error.with_traceback(None) from None  # that of the other thread helps no caller
        except BaseException:
            future.cancel()
            raise

    def _running(self) -> Running:
        if not self.is_here:
            raise CoterieError(
                f"the broker runs in process {self._process_id}, not in this forked child: make "
                "a Broker here, or connect to the parent's by its bootstrap_servers"
            )
        return self._started.result()

    # In the thread

    def _run(self) -> None:
        try:
            if not self._is_ending:
                self._live()
        except asyncio.CancelledError:
            pass  # ended by `end`
        except BaseException as error:
            self.failure = error
        finally:
            if not self._started.done():
                ended = self.failure or CoterieError("the broker was ended before it had started")
                self._started.set_exception(ended)

    def _live(self) -> None:
        from coterie.server.net.listener import new_loop

        loop = new_loop()
        try:
            self._task = loop.create_task(self._serve())
            self._loop = loop
            if self._is_ending:
                self._task.cancel()
            loop.run_until_complete(self._task)
        finally:
            loop.run_until_complete(end_other_tasks())  # calls of other threads, too
            loop.close()

    async def _serve(self) -> None:
        """Serve until the task is cancelled."""
        running = Running(self._options)
        try:
            self._prepare(running)
            await running.start()
            self._started.set_result(running)
            await asyncio.Event().wait()
        finally:
            await running.stop()
