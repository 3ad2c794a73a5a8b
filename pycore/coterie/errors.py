"""Exceptions: for wrong arguments and for wrong bytes.

A Kafka protocol error (UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION, ...) is not an exception here. It is
a valid answer of the coordinator, so it is a value.
"""

from __future__ import annotations

from typing import Any


class CoterieError(Exception):
    """Base of every exception that this library raises on purpose."""


class ArgumentError(CoterieError, ValueError):
    """An argument is wrong: the message names it, shows its value and says what it must be."""


class CorruptData(CoterieError, ValueError):
    """The bytes do not follow the format.

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
    """A frame of Kafka's protocol does not parse; the connection of the peer closes.

    Attributes
    ----------
    stage : str
        ``header``: the header is missing or of an unknown API; ``version``: the API has no such
        version; ``body``: the rest of the frame.
    request : coterie.wire.Request or None
        The parsed header, with None as its ``body``, if there is one.
    """

    def __init__(self, what: str, *, stage: str, request: Any = None) -> None:
        super().__init__(what)
        self.stage = stage
        self.request = request


class LogError(CoterieError):
    """A log cannot be found or read; the message says what, where, and what to do."""


class FaultFound(LogError):
    """The log has a fault, and ``on_fault="stop"`` allows none."""


class TraceError(CoterieError, ValueError):
    """A line of a trace cannot be run.

    Attributes
    ----------
    line : int or None
        The line of the trace, from 1; the header is line 1.
    """

    def __init__(self, what: str, *, line: int | None = None) -> None:
        super().__init__(what if line is None else f"line {line}: {what}")
        self.line = line


class ConfigError(CoterieError, ValueError):
    """A setting does not exist, or must not have this value."""


class NotAnswered(CoterieError):
    """The request has no response, or none yet."""


def shown(value: Any, size: int = 60) -> str:
    """Return the ``repr`` of a value for a message, cut to ``size`` characters.

    It never raises, although an integer of 5,000 digits has no text and a ``__repr__`` may fail.
    """
    try:
        return f"{value!r:.{size}}"
    except Exception:
        return f"<{type(value).__name__}>"
