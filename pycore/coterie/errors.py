"""Exceptions: for wrong arguments, and for bytes that are wrong.

A Kafka protocol error (UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION, ...) is not an exception here. It is
an answer that the coordinator is meant to give, so it is a value.
"""

from __future__ import annotations

from typing import Any


class CoterieError(Exception):
    """Base of every exception this library raises on purpose."""


class ArgumentError(CoterieError, ValueError):
    """An argument is wrong: the message says which, what it was, and what is wanted."""


class CorruptData(CoterieError, ValueError):
    """The bytes are not what the format says.

    Attributes
    ----------
    kind : str
        One of ``length``, ``tail``, ``magic``, ``crc``, ``codec``, ``records``, ``marker``,
        ``key``, ``value``: the fault kinds of ``coterie verify``.
    position : int
        Offset in the given buffer, in bytes, of the batch (or of the value) that is broken.
    """

    def __init__(self, what: str, *, kind: str = "value", position: int = 0) -> None:
        super().__init__(what)
        self.kind = kind
        self.position = position


class WireError(CoterieError, ValueError):
    """A frame of Kafka's protocol does not parse: the peer is wrong, and its connection closes.

    Attributes
    ----------
    stage : str
        ``header``: it has no header, or one of an API that the table does not have; ``version``:
        the API has no such version; ``body``.
    request : coterie.wire.Request or None
        What the header says, where it parsed: its ``body`` is None.
    """

    def __init__(self, what: str, *, stage: str, request: Any = None) -> None:
        super().__init__(what)
        self.stage = stage
        self.request = request


class LogError(CoterieError):
    """A log cannot be found or read: the message says what, where, and what to do."""


class FaultFound(LogError):
    """The log has a fault, and ``on_fault="stop"`` does not allow one."""


class TraceError(CoterieError, ValueError):
    """A trace has a line that cannot be run.

    Attributes
    ----------
    line : int or None
        The line of the trace, from 1; the header is line 1.
    """

    def __init__(self, what: str, *, line: int | None = None) -> None:
        super().__init__(what if line is None else f"line {line}: {what}")
        self.line = line


class ConfigError(CoterieError, ValueError):
    """A setting does not exist, or cannot have this value."""


class NotAnswered(CoterieError):
    """The request has no response, or none yet."""


def shown(value: Any, size: int = 60) -> str:
    """Return what was given in at most so many characters, for a message about it.

    The message comes out whatever was given: an integer of 5,000 digits has no text, and an
    object's own ``__repr__`` may raise.
    """
    try:
        return f"{value!r:.{size}}"
    except Exception:
        return f"<{type(value).__name__}>"
