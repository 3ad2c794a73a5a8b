"""Histories: run a consumer application against everything that a group can do to it.

A history is drawn (``sampling``), run in virtual time (``runner``) and judged (``outcome``). What
the ``repr`` of a history needs is here.
"""

from coterie.histories.confluent import ConfluentConsumer
from coterie.histories.events import (
    EVENTS,
    AddPartitions,
    Close,
    Crash,
    Cut,
    DeleteGroup,
    DeleteTopic,
    Event,
    ExpireOffsets,
    FailCommit,
    Failover,
    FailWrite,
    Join,
    LoseRequest,
    LoseResponse,
    Pause,
    Restart,
    RollingDeploy,
    SlowProcessing,
    SlowWrite,
)
from coterie.histories.history import History
from coterie.histories.instance import Records, WriteFailed, now_ms, producer, run_in_thread, sleep
from coterie.histories.outcome import Outcome
from coterie.histories.programs import processed, store
from coterie.histories.strategy import histories, profile, random_history

__all__ = [
    "EVENTS",
    "AddPartitions",
    "Close",
    "ConfluentConsumer",
    "Crash",
    "Cut",
    "DeleteGroup",
    "DeleteTopic",
    "Event",
    "ExpireOffsets",
    "FailCommit",
    "FailWrite",
    "Failover",
    "History",
    "Join",
    "LoseRequest",
    "LoseResponse",
    "Outcome",
    "Pause",
    "Records",
    "Restart",
    "RollingDeploy",
    "SlowProcessing",
    "SlowWrite",
    "WriteFailed",
    "histories",
    "now_ms",
    "processed",
    "producer",
    "profile",
    "random_history",
    "run_in_thread",
    "sleep",
    "store",
]
