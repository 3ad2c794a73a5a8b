"""Load and run traces: requests to a coordinator, in order, under virtual time.

A trace is parsed and checked once (:func:`load_trace`) and may be played any number of times.
The format is that of docs/traces.md, with its sugar for traces written by hand.
Rules: docs/rules/trace-format.md#defaults.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from coterie._core.coordinator.coordinator import Coordinator
from coterie._core.coordinator.offsets import Trace
from coterie.base.arguments import walked
from coterie.base.operations import NUMBER, REQUESTS
from coterie.coordinator.config import coordinator_config
from coterie.coordinator.consumer_fields import read_metadata
from coterie.coordinator.requests import compile_request, has_sugar
from coterie.errors import ArgumentError, ConfigError, TraceError, shown

_INT64 = 2**63


def load_trace(lines: Iterable[str | bytes | dict[str, Any]]) -> Trace:
    """Parse and check a trace.

    Parameters
    ----------
    lines
        The lines of a trace, the header first: text, bytes or parsed objects. Empty lines are
        skipped, but counted.

    Returns
    -------
    Trace
        For :meth:`coterie.GroupCoordinator.play`; ``.header`` is the first line.

    Raises
    ------
    TraceError
        A line is wrong; the message says what and where. Also a ValueError.
    ArgumentError
        ``lines`` is not an iterable of lines, but a single text or a path, for example.

    Examples
    --------
    >>> trace = load_trace(['{"format": "coterie-trace", "version": 1, "name": "empty"}'])
    >>> trace.header["name"], len(trace)
    ('empty', 0)
    """
    trace: Trace | None = None
    ids: set[int] = set()
    last_ms = 0
    for number, line in enumerate(walked(lines, "lines", "the lines of a trace"), 1):
        try:
            event = _parse(line)
            if event is None:
                continue
            if trace is None:
                trace = Trace(_header(event))
                continue
            last_ms = _add(trace, number, event, ids, last_ms)
        except ValueError as error:
            raise TraceError(str(error), line=number) from None
        except RecursionError:
            raise TraceError("nested too deeply for a trace", line=number) from None
    if trace is None:
        raise TraceError("the trace is empty: its first line must be the header", line=1)
    return trace


def run_trace(
    lines: Iterable[str | bytes | dict[str, Any]], settings: Mapping[str, Any] | None = None
) -> Iterator[dict[str, Any]]:
    """Run a trace with its own settings; yield the lines of the output as dicts.

    ``settings`` take the place of the trace's own of the same names.

    Raises
    ------
    TraceError
        As :func:`load_trace`; also if Kafka's code would throw on a member's metadata.
    ArgumentError
        ``settings`` is not a mapping.

    Examples
    --------
    >>> commit = {"op": "offset_commit", "group_id": "g",
    ...           "offsets": [{"topic": "orders", "partition": 0, "offset": 5}]}
    >>> lines = run_trace([
    ...     {"format": "coterie-trace", "version": 1, "name": "one commit"},
    ...     {"at": 0, "id": 1, **commit},
    ... ])
    >>> [line["event"] for line in lines]
    ['append', 'response']
    """
    if settings is not None and not isinstance(settings, Mapping):
        raise ArgumentError(f"settings must be a mapping, not {shown(settings)}")
    trace = load_trace(lines)
    config = {**(trace.header.get("config") or {}), **(settings or {})}
    core = Coordinator(coordinator_config(config))
    if trace.header["version"] == 2:
        core.set_image(*read_metadata(trace.header))
    yield from core.play(trace).lines()


def _parse(line: Any) -> dict[str, Any] | None:
    if isinstance(line, bytes):
        line = line.decode("utf-8")
    if isinstance(line, str):
        if not line.strip():
            return None
        try:
            line = json.loads(line)
        except ValueError as error:
            raise ValueError(f"no JSON: {error}") from None
    if not isinstance(line, dict):
        raise ValueError(f"must be an object, not {shown(line)}")
    return line


def _header(event: dict[str, Any]) -> dict[str, Any]:
    if event.get("format") != "coterie-trace":
        raise ValueError(
            'the first line must be the header: {"format": "coterie-trace", "version": 1, ...}'
        )
    if event.get("version") not in (1, 2) or isinstance(event["version"], bool):
        raise ValueError(
            f"version {shown(event.get('version'))} of the format is not known, only 1 and 2"
        )
    try:
        coordinator_config(event.get("config"))
    except ConfigError as error:
        raise ValueError(f"config: {error}") from None
    return event


def _add(trace: Trace, line: int, event: dict[str, Any], ids: set[int], last_ms: int) -> int:
    at_ms = event.get("at")
    if type(at_ms) is not int or not 0 <= at_ms < _INT64:
        raise ValueError(f"needs at, the time in milliseconds from 0 on, not {shown(at_ms)}")
    if at_ms < last_ms:
        raise ValueError(f"time goes back: at {at_ms} comes after {last_ms}")
    op: Any = event.get("op")
    group_id, generation_id, member_id, instance, details = compile_request(op, event)
    request_id = event.get("id")
    if op in REQUESTS:
        if type(request_id) is not int or not -_INT64 <= request_id < _INT64:
            raise ValueError(f"{op}: needs id, an integer, not {shown(request_id)}")
        if request_id in ids:
            raise ValueError(f"{op}: id {request_id} was given to an earlier request")
        ids.add(request_id)
    else:
        request_id = 0
    trace.sugar = trace.sugar or has_sugar(event)
    trace.add(line, at_ms, NUMBER[op], request_id, group_id, generation_id, member_id, instance,
              details)  # fmt: skip
    return at_ms
