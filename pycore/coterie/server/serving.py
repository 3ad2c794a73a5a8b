"""``coterie serve`` as a process: lines on standard output, signals, shutdown."""

from __future__ import annotations

import asyncio
import gc
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coterie.errors import CoterieError
from coterie.server.net.listener import new_loop
from coterie.server.options import Options, Place
from coterie.server.running import Running
from coterie.server.shutdown import end_other_tasks, end_signals

if TYPE_CHECKING:
    from coterie.coordinator.recording import Recording

_FULL = 2  # the oldest generation of the garbage collector


def serve(options: Options, *, trace: Path | None, overwrite: bool, insecure: bool) -> None:
    """Serve until SIGTERM, SIGINT or SIGHUP, and write the trace, if one is named.

    Raises
    ------
    CoterieError
        An address cannot be listened on, or the trace was not written where it was to be.
    """
    loop = new_loop()
    try:
        recorded = loop.run_until_complete(_serve(options, trace, insecure))
    finally:
        loop.run_until_complete(end_other_tasks())
        loop.close()
    if trace is not None:
        _write_trace(trace, *recorded, overwrite=overwrite)


async def _serve(
    options: Options, trace: Path | None, insecure: bool
) -> tuple[Recording | None, Running]:
    """Serve until a signal; return what was recorded, and the server that has stopped."""
    running = Running(options)
    recording = None if trace is None else _recording_of(running)
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in end_signals():
        loop.add_signal_handler(number, ended.set)
    await running.start()
    await _start_beside(running)
    if insecure:
        running.cluster.log("coterie serve --insecure: whoever reaches this address may do all")
    for place in running.bound:
        _print_line(f"listening {place.label} {place.address}")
    gc.freeze()
    gc.callbacks.append(freeze_survivors)
    gc.enable()
    _print_line("ready")
    await ended.wait()
    await running.stop()
    return recording, running


def _write_trace(
    trace: Path, recording: Recording | None, running: Running, *, overwrite: bool
) -> None:
    """Write the trace to its file; where that fails, to a temporary file that the error names."""
    import secrets  # here, as most servers write no trace
    import tempfile

    from coterie.base.atomic_file import check_file

    assert recording is not None
    groups = running.cluster.groups
    settings, now_ms = groups.config, groups.now_ms
    try:
        recording.write(
            trace, settings, now_ms,
            lambda: check_file(trace, overwrite=overwrite, option="--trace"),
        )  # fmt: skip
        return
    except (OSError, CoterieError) as error:
        is_own = isinstance(error, CoterieError)
        reason = str(error) if is_own else f"--trace {trace}: {_reason(error)}"
    other = Path(tempfile.gettempdir(), f"coterie-{secrets.token_hex(4)}.{trace.name}")
    try:
        recording.write(other, settings, now_ms)
    except OSError as error:
        raise CoterieError(
            f"{reason}; the trace is lost: it fits nowhere else ({_reason(error)})"
        ) from None
    raise CoterieError(f"{reason}; the trace is in {other}")


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


def freeze_survivors(phase: str, info: dict[str, int]) -> None:
    """Exempt what survives a full garbage collection from later ones; a callback of ``gc``.

    Otherwise a collection walks through all topics and groups, while all clients wait: 0.2 s for
    20,000 topics. What lives so long here is freed by its reference count.
    """
    if phase == "stop" and info["generation"] == _FULL:
        gc.freeze()


def _recording_of(running: Running) -> Recording:
    from coterie.coordinator.recording import Recording

    recording = Recording()
    running.cluster.groups.record_into(recording)
    return recording


async def _start_beside(running: Running) -> None:
    """Start the HTTP servers: control for tests, and metrics."""
    options, log = running.options, running.cluster.log
    if options.control is not None:
        from coterie.server.control import Control

        methods = ("GET", "POST", "DELETE")
        respond = Control(running).respond
        log(f"control at {await http_beside(running, options.control, respond, methods)}")
    if options.metrics is not None:
        from coterie.server.metrics import Metrics

        log(f"metrics at {await http_beside(running, options.metrics, Metrics(running).respond)}")


async def http_beside(
    running: Running, place: Place, respond: Any, methods: tuple[str, ...] = ("GET", "HEAD")
) -> str:
    """Serve HTTP at an address while the server runs; return the address."""
    from coterie.server import http
    from coterie.server.access import Access

    access = Access(loopback=place.is_loopback, methods=methods)
    server = await http.serve(place, respond, access)
    running.beside(server)
    return place._replace(port=server.port).address


def _print_line(line: str) -> None:
    print(line, file=sys.stdout, flush=True)  # noqa: T201
