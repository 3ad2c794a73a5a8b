"""Arguments of public calls, checked once at the edge: what is wrong is said in one line.

The compiled modules check theirs with ``_core/checks.pyx`` (single values) and
``_core/structures/arguments.pyx`` (columns). What a request or a record can carry is checked here
alone.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from coterie.errors import ArgumentError, shown

if TYPE_CHECKING:
    from pathlib import Path

__all__ = [
    "LATEST_MS",
    "LONGEST_TEXT",
    "binary",
    "boolean",
    "called",
    "file_path",
    "function",
    "integer",
    "milliseconds",
    "sequence",
    "span",
    "string",
    "text",
    "walked",
    "whole",
    "within",
]

P = ParamSpec("P")
R = TypeVar("R")

LATEST_MS = 2**60  # a deadline from here still fits an int64
LONGEST_TEXT = 2**15 - 1  # bytes of UTF-8: the length of a string is an int16


def whole(value: Any, name: str) -> int:
    """Return a whole number as an int: numpy's are taken, a float would lose its fraction."""
    if type(value) is int:
        return value
    if not isinstance(value, bool):
        try:
            return operator.index(value)
        except TypeError:
            pass
    raise ArgumentError(f"{name} must be an integer, not {shown(value)}")


def integer(value: Any, name: str, bits: int = 32) -> int:
    """Return a whole number of so many bits."""
    found = whole(value, name)
    limit = 1 << (bits - 1)
    if not -limit <= found < limit:
        raise ArgumentError(f"{name} must fit {bits} bits, not {shown(found)}")
    return found


def within(value: Any, name: str, least: int, most: int) -> int:
    """Return a whole number from ``least`` to ``most``."""
    found = whole(value, name)
    if not least <= found <= most:
        raise ArgumentError(f"{name} must be from {least} to {most}, not {shown(found)}")
    return found


def boolean(value: Any, name: str) -> bool:
    """Return a bool; numbers are none."""
    if not isinstance(value, bool):
        raise ArgumentError(f"{name} must be true or false, not {shown(value)}")
    return value


def text(value: Any, name: str, most: int = LONGEST_TEXT) -> str:
    """Return a string that a request and a record can carry: of UTF-8, and not too long."""
    found = string(value, name)
    if not found.isascii() or len(found) > most:
        try:
            size = len(found.encode("utf-8"))
        except UnicodeEncodeError:
            raise ArgumentError(
                f"{name} must be text, but has a surrogate that stands alone: {found!r:.60}"
            ) from None
        if size > most:
            raise ArgumentError(
                f"{name} must have at most {most} bytes of UTF-8, not {size}: {found!r:.40}..."
            )
    return found


def string(value: Any, name: str) -> str:
    """Return a string, whatever is in it."""
    if not isinstance(value, str):
        raise ArgumentError(f"{name} must be a string, not {shown(value)}")
    return value if type(value) is str else str.__str__(value)


def binary(value: Any, name: str) -> bytes:
    """Return bytes; of a number, ``bytes`` would make as many zeros."""
    if not isinstance(value, bytes | bytearray | memoryview):
        raise ArgumentError(f"{name} must be bytes, not {shown(value)}")
    try:
        return bytes(value)
    except ValueError as error:  # a view that was released
        raise ArgumentError(f"{name} cannot be read: {error}") from None


def file_path(value: Any, name: str) -> Path:
    """Return the path of a file; a number would be a descriptor, which ``open`` closes at the end.

    Whether there is such a file is not looked at.
    """
    from pathlib import Path  # not for those who name no file

    if not isinstance(value, str | os.PathLike):
        raise ArgumentError(f"{name} must be the path of a file, not {shown(value)}")
    try:
        found = Path(value)
        if b"\0" not in os.fsencode(found):
            return found
    except (TypeError, UnicodeEncodeError):  # a path of bytes; a surrogate that stands alone
        pass
    raise ArgumentError(f"{name} is no path that a file can have: {shown(value)}")


def function(value: Any, name: str) -> Any:
    """Return what can be called."""
    if not callable(value):
        raise ArgumentError(f"{name} must be callable, not {shown(value)}")
    return value


def milliseconds(value: Any, name: str) -> int:
    """Return a time of the virtual clock."""
    return within(value, name, 0, LATEST_MS)


def span(ms: Any) -> int:
    """Return by how many ms a clock is to move on."""
    if (found := whole(ms, "ms")) < 0:
        raise ArgumentError(f"time runs forward only: ms must not be negative, not {shown(found)}")
    return found


def sequence(value: Any, name: str) -> Sequence[Any]:
    """Return what can be walked through; None is empty, and one text is no list of texts."""
    if isinstance(value, list | tuple):
        return value
    if value is None:
        return ()
    return list(walked(value, name))


def walked(value: Any, name: str, wanted: str = "a list") -> Iterator[Any]:
    """Walk through what is no text and no mapping."""
    if not isinstance(value, str | bytes | Mapping):
        try:
            return iter(value)
        except TypeError:
            pass
    raise ArgumentError(f"{name} must be {wanted}, not {shown(value)}")


def called(method: Callable[P, R]) -> Callable[P, R]:
    """Let a call that lacks an argument, or has one too many, end in an ArgumentError."""

    @wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(*args, **kwargs)
        except TypeError as error:
            # Of a call that does not fit the signature the method has no frame.
            if error.__traceback__ is None or error.__traceback__.tb_next is None:
                raise ArgumentError(str(error)) from None
            raise

    return call
