"""pytest plugin: a coordinator for each test, its timeline on failure, its requests as a trace.

Fixtures ``coordinator`` and ``coordinator_factory``; marker
``@pytest.mark.coordinator(config=..., appends=..., log=...)``; option ``--coterie-trace=DIR``.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from coterie.coordinator import GroupCoordinator
from coterie.requests import MemberOf
from coterie.values import Batch, OffsetAndMetadata

COORDINATORS = pytest.StashKey["CoordinatorFactory"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--coterie-trace``."""
    parser.getgroup("coterie").addoption(
        "--coterie-trace",
        metavar="DIR",
        default=None,
        help="write the requests of each test's coordinators to DIR/TEST.trace.jsonl",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line(
        "markers",
        "coordinator(config=None, appends='immediate', log=(), ...): "
        "how the fixture `coordinator` is made",
    )


class Clock:
    """One clock for several coordinators."""

    def __init__(self, coordinators: list[GroupCoordinator]) -> None:
        self._coordinators = coordinators
        self.now_ms = 0

    def advance(self, ms: int) -> None:
        """Move every coordinator on by so many ms, in the order in which they were made."""
        self.now_ms += ms
        for coordinator in self._coordinators:
            coordinator.advance(self.now_ms)


class CoordinatorFactory:
    """Makes coordinators that share :attr:`clock`; remembers what they did for the report."""

    def __init__(self) -> None:
        self.coordinators: list[GroupCoordinator] = []
        self.clock = Clock(self.coordinators)
        self.timelines: list[list[Any]] = []
        self.requests: dict[int, list[dict[str, Any]]] = {}

    def __call__(self, **kwargs: Any) -> GroupCoordinator:
        """Make a coordinator; arguments as GroupCoordinator's (``log`` may be a path)."""
        timeline: list[Any] = []
        told = kwargs.pop("on_event", None)

        def on_event(event: Any) -> None:
            timeline.append(event)
            if told is not None:
                told(event)

        log = kwargs.pop("log", ())
        if isinstance(log, str | Path):
            log = read_batches(Path(log))
        kwargs.setdefault("now_ms", self.clock.now_ms)
        made = GroupCoordinator(on_event=on_event, log=log, **kwargs)
        self.coordinators.append(made)
        self.timelines.append(timeline)
        self.requests[id(made)] = []
        return made

    def record(
        self, coordinator: GroupCoordinator, at: int, op: str, fields: dict[str, Any],
        request_id: int | None,
    ) -> None:  # fmt: skip
        """Keep a request as a trace event."""
        lines = self.requests.get(id(coordinator))
        if lines is not None:
            head = {"at": at, "op": op} | ({} if request_id is None else {"id": request_id})
            lines.append(head | trace_fields(op, fields))


def read_batches(path: Path) -> tuple[Batch, ...]:
    """Return the batches of a segment file, for ``log=``."""
    from coterie.batches import read_log

    return tuple(read_log(path))


def trace_fields(op: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return a method's arguments as the fields of a trace event."""
    out = {name: value for name, value in fields.items() if value is not None}
    if op == "join_group":
        pairs = out["protocols"]
        pairs = pairs.items() if isinstance(pairs, Mapping) else pairs
        out["protocols"] = [
            {"name": p[0], "metadata": p[1]} if isinstance(p, tuple) else p for p in pairs
        ]
    if isinstance(out.get("assignments"), Mapping):
        out["assignments"] = [
            {"member_id": m, "assignment": data} for m, data in out["assignments"].items()
        ]
    if op == "leave_group":
        out["members"] = [_leaving(member) for member in out.get("members", ())]
    if isinstance(out.get("offsets"), Mapping):
        out["offsets"] = [_offset(key, value) for key, value in out["offsets"].items()]
    if isinstance(out.get("topics"), Mapping):
        out["topics"] = [
            {"topic": topic, "partitions": list(numbers)}
            for topic, numbers in out["topics"].items()
        ]
    if "partitions" in out:
        out["partitions"] = [
            {"topic": p[0], "partition": p[1]} if isinstance(p, tuple) else p
            for p in out["partitions"]
        ]
    for name in ("states", "group_ids"):
        if name in out:
            out[name] = list(out[name])
    if op == "fail_append":
        out["error"] = getattr(out["error"], "name", out["error"])
    return out


def _leaving(member: Any) -> Any:
    if isinstance(member, str):
        return {"member_id": member}
    if isinstance(member, tuple):
        return {"member_id": member[0], "group_instance_id": member[1]}
    return member


def _offset(key: Any, value: Any) -> dict[str, Any]:
    head = {"topic": key[0], "partition": key[1]}
    if not isinstance(value, OffsetAndMetadata):
        return head | {"offset": value}
    rest = {
        "offset": value.offset,
        "leader_epoch": value.leader_epoch,
        "metadata": value.metadata,
        "commit_timestamp": value.commit_timestamp,
        "expire_timestamp": value.expire_timestamp,
    }
    return head | {name: field for name, field in rest.items() if field is not None}


def _json(value: Any) -> Any:
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(bytes(value)).decode("ascii")
    if isinstance(value, MemberOf):
        return {"member_id_of": value.request_id}
    raise TypeError(f"{value!r} is no value of a trace")


def write_trace(path: Path, coordinator: GroupCoordinator, lines: list[dict[str, Any]]) -> None:
    """Write requests as a trace that ``coterie trace run`` takes."""
    changed = {k: v for k, v in coordinator.config.items() if v is not None}
    header = {"format": "coterie-trace", "version": 1, "name": path.name.split(".")[0],
              "config": changed}  # fmt: skip
    text = [json.dumps(line, default=_json, ensure_ascii=False) for line in [header, *lines]]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(text) + "\n", encoding="utf-8")


def _file_name(nodeid: str) -> str:
    return re.sub(r"[^\w.\[\]-]+", "_", nodeid.replace(".py::", "."))


@pytest.fixture
def coordinator_factory(request: pytest.FixtureRequest) -> Iterator[CoordinatorFactory]:
    """Make coordinators on one clock: ``coordinator_factory(config=...)``, ``.clock.advance``."""
    factory = CoordinatorFactory()
    request.node.stash[COORDINATORS] = factory
    folder = request.config.getoption("--coterie-trace")
    if folder is None:
        yield factory
        return
    before, GroupCoordinator.recorder = GroupCoordinator.recorder, staticmethod(factory.record)
    try:
        yield factory
    finally:
        GroupCoordinator.recorder = before
        for number, coordinator in enumerate(factory.coordinators):
            suffix = f"-{number + 1}" if number else ""
            name = f"{_file_name(request.node.nodeid)}{suffix}.trace.jsonl"
            write_trace(Path(folder) / name, coordinator, factory.requests[id(coordinator)])


@pytest.fixture
def coordinator(
    request: pytest.FixtureRequest, coordinator_factory: CoordinatorFactory
) -> GroupCoordinator:
    """Return a fresh GroupCoordinator; options by ``@pytest.mark.coordinator(config={...})``."""
    marker = request.node.get_closest_marker("coordinator")
    return coordinator_factory(**(marker.kwargs if marker else {}))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the timeline of the test's coordinators to the report of a failure."""
    report = yield
    factory = item.stash.get(COORDINATORS, None)
    if factory is not None and report.failed:
        for number, timeline in enumerate(factory.timelines):
            title = "coordinator timeline" + (f" {number + 1}" if number else "")
            report.sections.append((title, "\n".join(map(str, timeline)) or "(no event)"))
    return report
