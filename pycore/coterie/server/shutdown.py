"""Server shutdown: its signals, and the tasks that are left."""

from __future__ import annotations

import asyncio
import signal


def end_signals() -> list[signal.Signals]:
    """Return the signals that end a server in order: SIGHUP unless it is ignored, as by nohup."""
    hangup = [] if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN else [signal.SIGHUP]
    return [signal.SIGTERM, signal.SIGINT, *hangup]


async def end_other_tasks() -> None:
    """Cancel the other tasks of the loop, such as HTTP connections, and wait for their end."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
