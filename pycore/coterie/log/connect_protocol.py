"""What Kafka Connect's workers put into the records of their group: protocol type ``connect``.

A worker's metadata has its URL, the offset of the last configuration that it has read, and, since
version 1, what it runs. The leader assigns connectors and tasks; since version 1 it also says what
a worker has to give up, and how long the tasks of a lost worker wait for it to come back. Version
2 (sessioned) has the fields of version 1. Sources: ConnectProtocol.java,
IncrementalCooperativeConnectProtocol.java.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from coterie.errors import CorruptData

CONNECT = "connect"  # the protocol type
CONNECTOR = -1  # the number that stands for the connector itself in a list of tasks
NO_ERROR = 0
ERRORS = {1: "CONFIG_MISMATCH"}
Work = tuple[str, int]  # a connector, and a task's number or ``CONNECTOR``


@dataclass(frozen=True, slots=True)
class WorkerAssignment:
    """What a worker is to run, or runs; fields that its version lacks have their defaults."""

    version: int
    error: int
    leader: str
    leader_url: str
    config_offset: int
    assigned: frozenset[Work]
    revoked: frozenset[Work] = frozenset()
    delay_ms: int = 0


@dataclass(frozen=True, slots=True)
class WorkerState:
    """A worker's metadata; ``running`` None: its version lacks it, or the worker runs nothing."""

    version: int
    url: str
    config_offset: int
    running: WorkerAssignment | None = None


def read_state(data: bytes) -> WorkerState:
    """Decode a worker's metadata; a version above 1 is read as 1.

    Raises
    ------
    CorruptData
        Connect's reader would throw.
    """
    cursor = Cursor(data)
    version = cursor.version()
    url, config_offset = cursor.string(), cursor.number("q")
    running = None
    if version > 0 and not cursor.at_end:
        inner = cursor.nullable_bytes()
        running = None if inner is None else read_assignment(inner)
    return WorkerState(version, url, config_offset, running)


def read_assignment(data: bytes) -> WorkerAssignment | None:
    """Decode an assignment; None: empty bytes, which assign nothing.

    Raises
    ------
    CorruptData
        Connect's reader would throw.
    """
    if not data:
        return None
    cursor = Cursor(data)
    version = cursor.version()
    head = cursor.number("h"), cursor.string(), cursor.string(), cursor.number("q")
    if version == 0:
        return WorkerAssignment(version, *head, frozenset(cursor.work()))
    # Connect's reader gives fields that are missing at the end their defaults.
    assigned, revoked = (frozenset(() if cursor.at_end else cursor.work()) for _ in range(2))
    delay_ms = 0 if cursor.at_end else cursor.number("i")
    return WorkerAssignment(version, *head, assigned, revoked, delay_ms)


class Cursor:
    """Reads the fields of Kafka's older messages in order."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    @property
    def at_end(self) -> bool:
        """Whether all bytes were read."""
        return self.at == len(self.data)

    def take(self, size: int) -> bytes:
        """Return the next bytes."""
        if size < 0 or self.at + size > len(self.data):
            raise CorruptData(f"Connect's metadata ends within a field of {size} bytes")
        self.at += size
        return self.data[self.at - size : self.at]

    def number(self, code: str) -> int:
        """Return an integer; ``code``: as of ``struct``."""
        (value,) = struct.unpack(f">{code}", self.take(struct.calcsize(f">{code}")))
        number: int = value
        return number

    def version(self) -> int:
        """Return the version, which is not negative."""
        version = self.number("h")
        if version < 0:
            raise CorruptData(f"Connect's metadata has version {version}")
        return version

    def string(self) -> str:
        return self.take(self.number("h")).decode("utf-8", "replace")

    def nullable_bytes(self) -> bytes | None:
        """Return bytes or None."""
        size = self.number("i")
        return None if size < 0 else self.take(size)

    def work(self) -> Iterator[Work]:
        """Yield the connectors and tasks of a list; nothing if it is null."""
        for _ in range(max(self.number("i"), 0)):
            connector = self.string()
            for _ in range(self.count()):
                yield connector, self.number("i")

    def count(self) -> int:
        """Return the length of a list, which is not null."""
        count = self.number("i")
        if count < 0:
            raise CorruptData("Connect's metadata has a list without a length")
        return count


def work_of(state: WorkerState | None, assignment: WorkerAssignment | None) -> frozenset[Work]:
    """Return what a worker runs once it has its assignment.

    Since version 1, an assignment has only what comes and what goes, not what stays
    (IncrementalCooperativeAssignor).
    """
    if assignment is None:
        return frozenset()
    stays: frozenset[Work] = frozenset()
    if assignment.version > 0 and state is not None and state.running is not None:
        stays = state.running.assigned
    return (stays - assignment.revoked) | assignment.assigned


def read_work(metadata: bytes, assignment: bytes) -> frozenset[Work]:
    """Return what a worker runs, from the bytes of its metadata and its assignment.

    Raises
    ------
    CorruptData
        Connect's reader would throw.
    """
    return work_of(read_state(metadata), read_assignment(assignment))


def tasks_text(work: Iterable[Work]) -> str:
    """Return connectors and tasks as text: ``source source-0,1``."""
    by_connector: dict[str, list[int]] = {}
    for connector, task in sorted(work):
        by_connector.setdefault(connector, []).append(task)
    texts = []
    for connector, tasks in by_connector.items():
        numbers = ",".join(str(task) for task in tasks if task != CONNECTOR)
        texts += [connector] if CONNECTOR in tasks else []
        texts += [f"{connector}-{numbers}"] if numbers else []
    return " ".join(texts)
