"""Kafka's consumer-group coordinator as a deterministic, replayable library.

The public names are those in ``__all__``; every module whose name starts with ``_`` is private.
A name is imported when it is first used, so that a program loads only what it needs.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # The reference shows the names in this order.
    # isort: off
    from coterie.reading import read as read
    from coterie.state.partial import (
        scan as scan,
        merge as merge,
        PartialState as PartialState,
        ScanOptions as ScanOptions,
    )
    from coterie.coordinator.group_coordinator import GroupCoordinator as GroupCoordinator
    from coterie.coordinator.pending import (
        Pending as Pending,
        PendingAppend as PendingAppend,
        TraceOutput as TraceOutput,
    )
    from coterie.values import (
        Error as Error,
        OffsetAndMetadata as OffsetAndMetadata,
        Batch as Batch,
    )
    from coterie.events import (
        Transition as Transition,
        Cause as Cause,
        Append as Append,
        Response as Response,
        Unanswered as Unanswered,
    )
    from coterie.coordinator.trace import load_trace as load_trace, run_trace as run_trace
    from coterie._core.structures.timers import TimerWheel as TimerWheel
    from coterie._core.structures.offsets import OffsetMap as OffsetMap
    from coterie._core.structures.expiry import expired as expired
    from coterie._core.structures.votes import (
        select_protocol as select_protocol,
        select_protocols as select_protocols,
    )
    from coterie._core.coordinator.classic.group import GroupMetadata as GroupMetadata
    from coterie._core.coordinator.classic.group import MemberMetadata as MemberMetadata
    from coterie.errors import (
        CoterieError as CoterieError,
        ArgumentError as ArgumentError,
        ConfigError as ConfigError,
        LogError as LogError,
        CorruptData as CorruptData,
        NotAnswered as NotAnswered,
        TraceError as TraceError,
    )
    # isort: on

    __version__: str

_HOMES = {  # module -> its public names; the imports above repeat them for type checkers
    "_core.coordinator.classic.group": "GroupMetadata MemberMetadata",
    "_core.structures.expiry": "expired",
    "_core.structures.offsets": "OffsetMap",
    "_core.structures.timers": "TimerWheel",
    "_core.structures.votes": "select_protocol select_protocols",
    "coordinator.group_coordinator": "GroupCoordinator",
    "coordinator.pending": "Pending PendingAppend TraceOutput",
    "errors": "ArgumentError ConfigError CorruptData CoterieError LogError NotAnswered TraceError",
    "reading": "read",
    "state.partial": "PartialState ScanOptions merge scan",
    "coordinator.trace": "load_trace run_trace",
    "events": "Append Cause Response Transition Unanswered",
    "values": "Batch Error OffsetAndMetadata",
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names.split()}
__all__ = sorted(_HOME_OF)  # noqa: PLE0605


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})


def _find(name: str) -> object:
    """Return a public name, the version, or a module of the package."""
    from importlib import import_module

    if name in _HOME_OF:
        return getattr(import_module(f"coterie.{_HOME_OF[name]}"), name)
    if name == "__version__":
        from importlib.metadata import version

        return version("coterie")
    missing = AttributeError(f"module 'coterie' has no attribute {name!r}")
    if name.startswith("_") or not name.isidentifier():
        raise missing
    try:
        return import_module(f"coterie.{name}")
    except ModuleNotFoundError as error:
        if error.name != f"coterie.{name}":
            raise
        raise missing from None


if not TYPE_CHECKING:  # a type checker would accept any name

    def __getattr__(name):
        value = globals()[name] = _find(name)
        return value
