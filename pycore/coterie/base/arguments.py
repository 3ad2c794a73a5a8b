"""Arguments of public calls, checked once at the edge: an error names the argument.

The checks of whole numbers and strings are compiled (``_core/checks.pyx``), because the core needs
them, too. Here are those that only Python needs: what a request or a record can carry, paths,
callables, lists. ``coordinator/fields.py`` reads fields of requests with them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from inspect import signature
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from coterie._core.checks import text_of as string
from coterie._core.checks import whole, within
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


def integer(value: Any, name: str, bits: int = 32) -> int:
    """Return a whole number that fits a signed integer of this many bits."""
    number = whole(value, name)
    limit = 1 << (bits - 1)
    if not -limit <= number < limit:
        raise ArgumentError(f"{name} must fit {bits} bits, not {shown(number)}")
    return number


def did_you_mean(name: Any, known: Iterable[str]) -> str:
    """Return the end of a message about an unknown name: the most similar known one, if any.

    Case and underscores do not count.
    """
    from difflib import get_close_matches  # only for the message

    plain = {each.replace("_", "").lower(): each for each in known}
    similar = get_close_matches(str(name)[:60].replace("_", "").lower(), plain, n=1)
    return f"; did you mean {plain[similar[0]]!r}?" if similar else ""


def unknown_argument(error: TypeError, method: Callable[..., Any]) -> str:
    """Return Python's message about wrong arguments, with the most similar parameter."""
    message = str(error)
    name = message.partition("unexpected keyword argument '")[2].partition("'")[0]
    return message.partition(". Did you mean")[0] + (
        did_you_mean(name, signature(method).parameters) if name else ""
    )


def boolean(value: Any, name: str) -> bool:
    """Return a bool; a number is refused."""
    if not isinstance(value, bool):
        raise ArgumentError(f"{name} must be true or false, not {shown(value)}")
    return value


def text(value: Any, name: str, most: int = LONGEST_TEXT) -> str:
    """Return a string that fits a request and a record: valid UTF-8, and not too long."""
    checked = string(value, name)
    if not checked.isascii() or len(checked) > most:
        try:
            size = len(checked.encode("utf-8"))
        except UnicodeEncodeError:
            raise ArgumentError(
                f"{name} must be text, but has a surrogate that stands alone: {checked!r:.60}"
            ) from None
        if size > most:
            raise ArgumentError(
                f"{name} must have at most {most} bytes of UTF-8, not {size}: {checked!r:.40}..."
            )
    return checked


def binary(value: Any, name: str) -> bytes:
    """Return bytes; a number is refused, because ``bytes`` would make zeros of it."""
    if not isinstance(value, bytes | bytearray | memoryview):
        raise ArgumentError(f"{name} must be bytes, not {shown(value)}")
    try:
        return bytes(value)
    except ValueError as error:  # a view that was released
        raise ArgumentError(f"{name} cannot be read: {error}") from None


def file_path(value: Any, name: str) -> Path:
    """Return the path of a file, which need not exist.

    A number is refused: ``open`` would take it for a descriptor and close it.
    """
    from pathlib import Path  # slow to import

    if not isinstance(value, str | os.PathLike):
        raise ArgumentError(f"{name} must be the path of a file, not {shown(value)}")
    try:
        path = Path(value)
        if b"\0" not in os.fsencode(path):
            return path
    except (TypeError, UnicodeEncodeError):  # a path of bytes, or a lone surrogate
        pass
    raise ArgumentError(f"{name} is no path that a file can have: {shown(value)}")


def function(value: Any, name: str) -> Any:
    if not callable(value):
        raise ArgumentError(f"{name} must be callable, not {shown(value)}")
    return value


def path_names(value: Any, name: str) -> list[str]:
    """Return a path, or several, as text."""
    paths = [value]
    if not isinstance(value, str | os.PathLike):
        paths = list(walked(value, name, "a path, or a list of paths"))
    for path in paths:
        if not isinstance(path, str | os.PathLike):
            raise ArgumentError(f"{name} must be a path, or a list of paths, not {shown(path)}")
    return [os.fspath(path) for path in paths]


def milliseconds(value: Any, name: str) -> int:
    return within(value, name, 0, LATEST_MS)


def span(ms: Any) -> int:
    """Return a number of ms to add to a clock."""
    if (step_ms := whole(ms, "ms")) < 0:
        raise ArgumentError(
            f"time runs forward only: ms must not be negative, not {shown(step_ms)}"
        )
    return step_ms


def sequence(value: Any, name: str) -> Sequence[Any]:
    """Return an iterable as a sequence; None is empty, a single text is refused."""
    if isinstance(value, list | tuple):
        return value
    if value is None:
        return ()
    return list(walked(value, name))


def walked(value: Any, name: str, expected: str = "a list") -> Iterator[Any]:
    """Iterate over a value that is neither a text nor a mapping."""
    if not isinstance(value, str | bytes | Mapping):
        try:
            return iter(value)
        except TypeError:
            pass
    raise ArgumentError(f"{name} must be {expected}, not {shown(value)}")


def called(method: Callable[P, R]) -> Callable[P, R]:
    """Raise ArgumentError in place of TypeError for a call that does not fit the signature."""

    @wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(*args, **kwargs)
        except TypeError as error:
            # If the call does not fit the signature, the traceback has no frame of the method.
            trace: Any = error.__traceback__  # an error that was raised has one
            if trace.tb_next is None:
                raise ArgumentError(unknown_argument(error, method)) from None
            raise

    return call
