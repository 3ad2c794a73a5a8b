"""Event loops of asyncio on virtual time: a loop of a program waits by letting the clock run."""

from __future__ import annotations

import sys
from asyncio import BaseEventLoop, all_tasks, events, unix_events
from concurrent.futures import thread as pools  # now: its locks have to be real ones
from math import ceil
from typing import Any
from weakref import WeakKeyDictionary

from coterie._core.structures.schedule import Future as Signal
from coterie.testing.programs import current, running

Replacement = tuple[Any, str, Any]  # owner, name and stand-in
_left: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()  # the running loop of other greenlets


class _Selector:
    """The selector of a loop: it waits for virtual time, or for a call from another thread."""

    def __init__(self, real: Any) -> None:
        self._real, self._signal = real, Signal()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def wake(self) -> None:
        """End the wait."""
        self._signal.set()

    def select(self, timeout: float | None = None) -> list[Any]:
        """Wait; no file is ever ready."""
        program, thread = current()
        thread.check_alive()
        if timeout is None or timeout > 0:
            # a loop's timer is due a nanosecond early
            ms = None if timeout is None else max(0, ceil(timeout * 1000 - 1e-6))
            program.wait(self._signal, ms)
        self._signal = Signal()
        return []


def _switched(event: str, greenlets: tuple[Any, Any]) -> None:
    """Let each greenlet have its own running loop; for asyncio they are one thread."""
    if event in ("switch", "throw"):
        before, now = greenlets
        _left[before] = events._get_running_loop(), sys.get_asyncgen_hooks()
        loop, hooks = _left.pop(now, (None, (None, None)))
        events._set_running_loop(loop)
        sys.set_asyncgen_hooks(*hooks)


def replacements() -> list[Replacement]:
    """Return the methods of loops; outside of programs each is the real one."""
    run_loop = BaseEventLoop.run_forever
    kind = unix_events._UnixSelectorEventLoop
    add, remove = kind.add_signal_handler, kind.remove_signal_handler

    def run_forever(self: Any) -> None:
        found = running()
        if found is None:
            run_loop(self)
            return
        _, thread = found
        _watch_greenlets()
        real, self._selector = self._selector, _Selector(self._selector)
        self._write_to_self = self._selector.wake
        try:
            run_loop(self)
        finally:
            self._selector = real
            del self._write_to_self
            if not thread.alive:
                for task in all_tasks(self):  # they have died with their program
                    task._log_destroy_pending = False  # type: ignore[attr-defined]

    def add_signal_handler(self: Any, sig: int, callback: Any, *args: Any) -> None:
        found = running()
        if found is None:
            add(self, sig, callback, *args)
        else:
            found[0].handlers[sig] = lambda *_: self.call_soon_threadsafe(callback, *args)

    def remove_signal_handler(self: Any, sig: int) -> bool:
        found = running()
        if found is None:
            return remove(self, sig)
        return found[0].handlers.pop(sig, None) is not None

    return [
        (BaseEventLoop, "run_forever", run_forever),
        (kind, "add_signal_handler", add_signal_handler),
        (kind, "remove_signal_handler", remove_signal_handler),
    ]


def _watch_greenlets() -> None:
    greenlet = sys.modules.get("greenlet")  # without it there is one
    if greenlet is not None:
        greenlet.settrace(_switched)


def end() -> None:
    """Stop watching greenlets, and let the interpreter's end not wait for virtual threads."""
    for worker in [one for one in pools._threads_queues if hasattr(one, "_coterie_future")]:
        del pools._threads_queues[worker]  # type: ignore[attr-defined]
    greenlet = sys.modules.get("greenlet")
    if greenlet is not None and greenlet.gettrace() is _switched:
        greenlet.settrace(None)
        _left.clear()
