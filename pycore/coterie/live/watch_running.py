"""``coterie watch`` as a process: steps, HTTP, signals, the last snapshot."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from coterie.base import malloc_trim
from coterie.base.times import epoch_ms
from coterie.live.watcher import Watcher
from coterie.live.web import Web, trimming
from coterie.server import http
from coterie.server.access import Access
from coterie.server.shutdown import end_other_tasks, end_signals

if TYPE_CHECKING:
    from ssl import SSLContext

    from coterie.server.options import Place

MIN_RELOAD_S = 5
Follow = Callable[[asyncio.Event, asyncio.Event], Awaitable[None]]


@dataclass(frozen=True)
class Options:
    """How to watch: the address, who may ask, and the times."""

    place: Place
    tls: SSLContext | None
    login: str | None
    interval_s: float
    keep_ms: int


def watch(watcher: Watcher, options: Options, follow: Follow | None = None) -> None:
    """Follow a log and serve what is known of it, until SIGTERM, SIGINT or SIGHUP.

    Parameters
    ----------
    watcher
        Reads the log.
    options
        How to serve it.
    follow
        Makes the log grow, in the same event loop: sets its second event when the log is complete
        for the first time, and ends when the first one is set.

    Raises
    ------
    CoterieError
        The address cannot be listened on, or ``follow`` failed.
    """
    malloc_trim.keep_little()
    asyncio.run(_watch(watcher, options, follow))


async def _watch(watcher: Watcher, options: Options, follow: Follow | None) -> None:
    loop, ended = asyncio.get_running_loop(), asyncio.Event()

    def end() -> None:
        watcher.stopping = True
        ended.set()

    for number in end_signals():
        loop.add_signal_handler(number, end)
    steps = ThreadPoolExecutor(1)
    access = Access(options.login, options.place.is_loopback)
    reload_s = max(round(options.interval_s), MIN_RELOAD_S)
    web = Web(watcher, steps, options.keep_ms, epoch_ms, reload_s)
    server = await http.serve(options.place, web.respond, access, options.tls)
    address = options.place._replace(port=server.port).address
    say(f"listening {'http' if options.tls is None else 'https'}://{address}")
    following = None
    try:
        complete = asyncio.Event()
        watcher.is_complete = follow is None or watcher.is_resumed()
        ending: set[asyncio.Future[Any]] = {asyncio.ensure_future(ended.wait())}
        if follow is None:
            complete.set()
        else:
            following = asyncio.ensure_future(follow(ended, complete))
            ending.add(following)
        await _step(watcher, steps, ending, complete, options.interval_s)
        end()
        if following is not None:
            await following
    finally:
        server.close()
        await end_other_tasks()
        await loop.run_in_executor(steps, watcher.close)
        steps.shutdown()


async def _step(
    watcher: Watcher,
    steps: ThreadPoolExecutor,
    ending: set[asyncio.Future[Any]],
    complete: asyncio.Event,
    interval_s: float,
) -> None:
    """Take steps until a future of ``ending`` is done."""
    loop, is_ready = asyncio.get_running_loop(), False
    completed = asyncio.ensure_future(complete.wait())
    while not any(future.done() for future in ending):
        was_complete = complete.is_set()
        await loop.run_in_executor(steps, trimming(watcher.step))
        is_ending = any(future.done() for future in ending)
        if was_complete and not is_ready and not is_ending:
            is_ready = watcher.is_complete = True
            say("ready")
        waited = ending if is_ready else {*ending, completed}
        await asyncio.wait(waited, timeout=interval_s, return_when=asyncio.FIRST_COMPLETED)


def say(line: str) -> None:
    print(line, flush=True)  # noqa: T201
