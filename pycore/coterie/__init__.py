"""Kafka's consumer-group coordinator as a deterministic, replayable library.

The public names are those in ``__all__``; every module whose name starts with ``_`` is private.
"""

from importlib.metadata import version as _version

from coterie._core.group import GroupMetadata, MemberMetadata
from coterie._core.offsets import OffsetMap, expired
from coterie._core.timers import TimerWheel
from coterie._core.votes import select_protocol, select_protocols
from coterie.coordinator import GroupCoordinator
from coterie.errors import (
    ArgumentError,
    ConfigError,
    CorruptData,
    CoterieError,
    LogError,
    NotAnswered,
    TraceError,
)
from coterie.pending import Pending, PendingAppend, TraceOutput
from coterie.state import PartialState, ScanOptions, merge, scan
from coterie.trace import load_trace, run_trace
from coterie.values import (
    Append,
    Batch,
    Cause,
    Error,
    OffsetAndMetadata,
    Response,
    Transition,
    Unanswered,
)

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
__version__ = _version("coterie")
