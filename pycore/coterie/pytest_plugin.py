"""A pytest plugin: a coordinator or a broker for each test, its timeline on failure, traces.

Fixtures ``coordinator``, ``coordinator_factory`` and ``broker``; markers
``@pytest.mark.coordinator(config=..., appends=..., log=...)`` and
``@pytest.mark.broker(config=..., topics=..., clock=...)``; option ``--coterie-trace=DIR``.
"""

from __future__ import annotations

import contextlib
import inspect
import re
import sys
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from coterie.base import terminal
from coterie.base.arguments import did_you_mean
from coterie.coordinator.batches import read_log
from coterie.coordinator.clock import SharedClock
from coterie.coordinator.event_lines import event_lines
from coterie.coordinator.group_coordinator import GroupCoordinator
from coterie.coordinator.recording import Recording
from coterie.errors import CoterieError

if TYPE_CHECKING:
    from coterie.server import Broker

COORDINATORS = pytest.StashKey["CoordinatorFactory"]()
_OURS = "coterie"
BROKER = pytest.StashKey["Broker"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--coterie-trace``."""
    parser.getgroup("coterie").addoption(
        "--coterie-trace",
        metavar="DIR",
        default=None,
        help="write the requests of each test's coordinators, and of its broker's, to "
        "DIR/TEST.trace.jsonl",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers; find the terminal while standard output is not captured."""
    terminal.report_width = terminal.columns_at(sys.stdout)
    config.addinivalue_line(
        "markers",
        "coordinator(config=None, appends='immediate', log=(), ...): "
        "how the fixture `coordinator` is made",
    )
    config.addinivalue_line(
        "markers",
        "broker(config=None, topics=None, clock='wall', kafka='3.9', ...): "
        "how the fixture `broker` is made",
    )


class CoordinatorFactory:
    """Makes coordinators that share :attr:`clock`; keeps their events for the report."""

    def __init__(self, *, recorded: bool = False) -> None:
        self.clock = SharedClock()
        self.coordinators: list[GroupCoordinator] = []
        self.timelines: list[list[Any]] = []
        self.recordings: list[Recording] = []
        self._recorded = recorded

    def __call__(self, **kwargs: Any) -> GroupCoordinator:
        """Make a coordinator; arguments as GroupCoordinator's (``log`` may be a path).

        ``now_ms`` is the clock's, which the first coordinator may set.
        """
        timeline: list[Any] = []
        recording = Recording()
        caller_on_event = kwargs.pop("on_event", None)

        def on_event(event: Any) -> None:
            timeline.append(event)
            if caller_on_event is not None:
                caller_on_event(event)

        if isinstance(log := kwargs.get("log", ()), str | Path):
            kwargs["log"] = tuple(read_log(log))
        if self._recorded and callable(kwargs.get("member_ids")):
            kwargs["member_ids"] = recording.numbered(kwargs["member_ids"])
        kwargs.setdefault("now_ms", self.clock.now_ms)
        coordinator = GroupCoordinator(on_event=on_event, **kwargs)
        coordinator.live_by(self.clock)
        self.coordinators.append(coordinator)
        self.timelines.append(timeline)
        if self._recorded:
            self.recordings.append(recording)
            coordinator._record_into(recording)
        return coordinator


def _file_name(nodeid: str) -> str:
    return re.sub(r"[^\w.\[\]-]+", "_", nodeid.replace(".py::", "."))


@pytest.fixture
def coordinator_factory(request: pytest.FixtureRequest) -> Iterator[CoordinatorFactory]:
    """Make coordinators on one clock: ``coordinator_factory(config=...)``, ``.clock.advance``."""
    folder = request.config.getoption("--coterie-trace")
    factory = CoordinatorFactory(recorded=folder is not None)
    request.node.stash[COORDINATORS] = factory
    yield factory
    for number, (coordinator, recording) in enumerate(
        zip(factory.coordinators, factory.recordings, strict=False)
    ):
        suffix = f"-{number + 1}" if number else ""
        name = f"{_file_name(request.node.nodeid)}{suffix}.trace.jsonl"
        recording.write(Path(folder) / name, coordinator.config, coordinator.now_ms)


def _marker_options(
    request: pytest.FixtureRequest, name: str, made_by: Callable[..., Any]
) -> dict[str, Any]:
    """Return the options of a marker; fail the test if ``made_by`` does not take one of them."""
    marker = request.node.get_closest_marker(name)
    if marker is None:
        return {}
    if marker.args:
        pytest.fail(
            f"@pytest.mark.{name} takes options by name, as config={{...}}, "
            f"not {marker.args[0]!r:.60}",
            pytrace=False,
        )
    known = inspect.signature(made_by).parameters
    if unknown := [option for option in marker.kwargs if option not in known]:
        options = did_you_mean(unknown[0], known) or f"; they are {', '.join(known)}"
        pytest.fail(f"@pytest.mark.{name} has no option {unknown[0]}{options}", pytrace=False)
    return dict(marker.kwargs)


@pytest.fixture
def coordinator(
    request: pytest.FixtureRequest, coordinator_factory: CoordinatorFactory
) -> GroupCoordinator:
    """Return a fresh GroupCoordinator; options by ``@pytest.mark.coordinator(config={...})``."""
    return coordinator_factory(**_marker_options(request, "coordinator", GroupCoordinator))


@pytest.fixture
def broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """Yield a running Broker; options by ``@pytest.mark.broker(clock="virtual", topics={...})``."""
    from coterie.server import Broker

    options = _marker_options(request, "broker", Broker)
    folder = request.config.getoption("--coterie-trace")
    if folder is not None:
        options.setdefault("trace", Path(folder) / f"{_file_name(request.node.nodeid)}.trace.jsonl")
    with Broker(**options) as running:
        request.node.stash[BROKER] = running
        yield running


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the timelines of coordinators, a history and a broker to the report of a failure."""
    if call.excinfo is not None:
        _hide_frames(call.excinfo)
    report = yield
    factory = item.stash.get(COORDINATORS, None)
    if factory is not None and report.failed:
        for number, timeline in enumerate(factory.timelines):
            title = "coordinator timeline" + (f" {number + 1}" if number else "")
            lines = event_lines(timeline) or ["(no event)"]
            report.sections.append((title, terminal.report_text("\n".join(lines))))
    reporting = sys.modules.get("coterie.histories.reporting")
    found = None if reporting is None else reporting.latest.take()
    if found is not None and report.failed:
        report.sections.append(("history", found))
    broker = item.stash.get(BROKER, None)
    if broker is not None and report.failed:
        text = terminal.report_text("\n".join(_timeline_lines(broker)))
        report.sections.append(("broker timeline", text))
    return report


def _hide_frames(excinfo: pytest.ExceptionInfo[BaseException]) -> None:
    """Give the modules of the library in a traceback what pytest hides frames by."""
    for entry in excinfo.traceback:
        if _is_ours(entry.frame.f_globals):
            entry.frame.f_globals["__tracebackhide__"] = _is_no_fault


def _is_no_fault(excinfo: pytest.ExceptionInfo[BaseException]) -> bool:
    """Whether the library raised the exception on purpose, or others did."""
    is_on_purpose = type(excinfo.value).__module__.partition(".")[0] == _OURS
    return is_on_purpose or not _is_ours(excinfo.traceback[-1].frame.f_globals)


def _is_ours(module: Mapping[str, Any]) -> bool:
    return str(module.get("__name__")).partition(".")[0] == _OURS


def _timeline_lines(broker: Broker) -> list[str]:
    """Return the timeline of a broker's groups, and what each of them waits for."""
    lines = broker._timeline_lines()
    with contextlib.suppress(CoterieError):  # it has stopped
        lines += broker._pending_work()
    return lines or ["(no event)"]
