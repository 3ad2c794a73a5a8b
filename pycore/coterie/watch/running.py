"""``coterie watch`` as a process: steps, HTTP, signals, the last snapshot."""

from __future__ import annotations

import asyncio
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from coterie.server.admin import http
from coterie.server.net.listener import epoch_ms
from coterie.server.options import Place
from coterie.server.running import end_other_tasks
from coterie.watch.watcher import Watcher
from coterie.watch.web import Access, Web

if TYPE_CHECKING:
    from ssl import SSLContext

MIN_RELOAD_S = 5


@dataclass(frozen=True)
class Options:
    """How to watch: the address, who may ask, and the times."""

    place: Place
    tls: SSLContext | None
    login: str | None
    interval_s: float
    keep_ms: int


def watch(watcher: Watcher, options: Options) -> None:
    """Follow a log and serve what is known of it, until SIGTERM or SIGINT.

    Raises
    ------
    CoterieError
        The address cannot be listened on.
    """
    asyncio.run(_watch(watcher, options))


async def _watch(watcher: Watcher, options: Options) -> None:
    loop, ended = asyncio.get_running_loop(), asyncio.Event()

    def end() -> None:
        watcher.stopping = True
        ended.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end)
    steps = ThreadPoolExecutor(1)
    access = Access(options.login, options.place.is_loopback)
    reload_s = max(round(options.interval_s), MIN_RELOAD_S)
    web = Web(watcher, steps, access, options.keep_ms, epoch_ms, reload_s)
    server = await http.serve(options.place.host, options.place.port, web.respond, options.tls)
    address = options.place._replace(port=server.sockets[0].getsockname()[1]).address
    say(f"listening {'http' if options.tls is None else 'https'}://{address}")
    try:
        await loop.run_in_executor(steps, watcher.step)
        if not ended.is_set():
            say("ready")
        while not ended.is_set():
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(ended.wait(), options.interval_s)
            if not ended.is_set():
                await loop.run_in_executor(steps, watcher.step)
    finally:
        server.close()
        await end_other_tasks()
        web.pages.shutdown(wait=False, cancel_futures=True)
        await loop.run_in_executor(steps, watcher.close)
        steps.shutdown()


def say(line: str) -> None:
    """Print a line on standard output."""
    print(line, flush=True)  # noqa: T201
