"""Kafka's consumer-group coordinator as a deterministic, replayable library.

The public names are those in ``__all__``; every module whose name starts with ``_`` is private.
A name is imported when it is first used: nobody waits for what they do not use, numpy above all.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coterie._core.coordinator.group import GroupMetadata
    from coterie._core.coordinator.member import MemberMetadata
    from coterie._core.structures.offsets import OffsetMap, expired
    from coterie._core.structures.timers import TimerWheel
    from coterie._core.structures.votes import select_protocol, select_protocols
    from coterie.coordinator.group_coordinator import GroupCoordinator
    from coterie.coordinator.pending import Pending, PendingAppend, TraceOutput
    from coterie.errors import (
        ArgumentError,
        ConfigError,
        CorruptData,
        CoterieError,
        LogError,
        NotAnswered,
        TraceError,
    )
    from coterie.events import Append, Cause, Response, Transition, Unanswered
    from coterie.state.partial import PartialState, ScanOptions, merge, scan
    from coterie.traces.trace import load_trace, run_trace
    from coterie.values import Batch, Error, OffsetAndMetadata

    __version__: str

__all__ = [
    "Append",
    "ArgumentError",
    "Batch",
    "Cause",
    "ConfigError",
    "CorruptData",
    "CoterieError",
    "Error",
    "GroupCoordinator",
    "GroupMetadata",
    "LogError",
    "MemberMetadata",
    "NotAnswered",
    "OffsetAndMetadata",
    "OffsetMap",
    "PartialState",
    "Pending",
    "PendingAppend",
    "Response",
    "ScanOptions",
    "TimerWheel",
    "TraceError",
    "TraceOutput",
    "Transition",
    "Unanswered",
    "expired",
    "load_trace",
    "merge",
    "run_trace",
    "scan",
    "select_protocol",
    "select_protocols",
]

_HOMES = {  # the imports above, for those who run: module -> its names
    "_core.coordinator.group": "GroupMetadata",
    "_core.coordinator.member": "MemberMetadata",
    "_core.structures.offsets": "OffsetMap expired",
    "_core.structures.timers": "TimerWheel",
    "_core.structures.votes": "select_protocol select_protocols",
    "coordinator.group_coordinator": "GroupCoordinator",
    "coordinator.pending": "Pending PendingAppend TraceOutput",
    "errors": "ArgumentError ConfigError CorruptData CoterieError LogError NotAnswered TraceError",
    "state.partial": "PartialState ScanOptions merge scan",
    "traces.trace": "load_trace run_trace",
    "events": "Append Cause Response Transition Unanswered",
    "values": "Batch Error OffsetAndMetadata",
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names.split()}


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})


def _find(name: str) -> object:
    """Return what is asked for by its name: a public name, the version, or a module."""
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


if not TYPE_CHECKING:  # a checker would believe that every name is here

    def __getattr__(name):
        globals()[name] = found = _find(name)
        return found
