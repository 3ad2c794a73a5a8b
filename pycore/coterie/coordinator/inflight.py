"""The unfinished appends: a deque to its callers, in whatever order they finish."""

from __future__ import annotations

import operator
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, SupportsIndex

from coterie.coordinator.pending import PendingAppend
from coterie.errors import ArgumentError, shown


class Appends(deque[PendingAppend]):
    """Unfinished appends, oldest first.

    O(1): ``len``, ``in``, the first, the last, and each append that begins or finishes. Another
    index, and a deque's other methods, are O(n) after each change. The deque itself stays empty:
    an ordered dict takes its place.
    """

    def __init__(self) -> None:
        super().__init__()
        self._waiting: OrderedDict[PendingAppend, None] = OrderedDict()
        self._listed: list[PendingAppend] | None = None  # the same appends, for indexing

    def _put(self, append: PendingAppend) -> None:
        self._listed = None
        self._waiting[append] = None

    def _drop(self, append: PendingAppend, *, with_others: bool) -> None:
        """Remove an append that finished, unless the caller has removed it.

        ``with_others``: others may have failed with it.
        """
        self._listed = None
        self._waiting.pop(append, None)
        if with_others:
            self._become(deque(self))

    def popleft(self) -> PendingAppend:
        """Remove and return the oldest; it may be completed later."""
        return self._taken(last=False)

    def pop(self) -> PendingAppend:  # type: ignore[override]
        """Remove and return the newest; it may be completed later."""
        return self._taken(last=True)

    def _taken(self, *, last: bool) -> PendingAppend:
        if not self._waiting:
            raise IndexError("pop from an empty deque")
        self._listed = None
        return self._waiting.popitem(last)[0]

    def clear(self) -> None:
        """Remove all; they may be completed later."""
        self._waiting.clear()

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[PendingAppend]:
        return iter(self._waiting)

    def __reversed__(self) -> Iterator[PendingAppend]:
        return reversed(self._waiting)

    def __contains__(self, append: object) -> bool:
        if type(append) is PendingAppend:
            return append in self._waiting
        return append in list(self._waiting)  # its __eq__ may equal anything

    def __getitem__(self, index: SupportsIndex) -> PendingAppend:  # type: ignore[override]
        at = operator.index(index)
        if not -len(self) <= at < len(self):
            raise IndexError("deque index out of range")
        if at in (0, -len(self)):
            return next(iter(self._waiting))
        if at in (-1, len(self) - 1):
            return next(reversed(self._waiting))
        if self._listed is None:
            self._listed = list(self._waiting)
        return self._listed[at]

    def _become(self, appends: deque[PendingAppend]) -> None:
        for append in appends:
            if type(append) is not PendingAppend:
                raise ArgumentError(f"appends holds PendingAppend objects, not {shown(append)}")
        self._waiting = OrderedDict.fromkeys(append for append in appends if not append.done)
        self._listed = None


def _as_a_deque_has_it(name: str) -> Callable[..., Any]:
    """Wrap a deque's method: it works on a temporary deque of the same appends."""

    @wraps(getattr(deque, name))
    def method(self: Appends, *args: Any, **named: Any) -> Any:
        plain = deque(self)
        given = [deque(arg) if isinstance(arg, Appends) else arg for arg in args]
        found = getattr(plain, name)(*given, **named)
        if [*map(id, plain)] != [*map(id, self)]:
            self._become(plain)
        return self if found is plain else found

    return method


for _name in (
    *("append", "appendleft", "copy", "count", "extend", "extendleft", "index", "insert", "remove"),
    *("reverse", "rotate", "__add__", "__copy__", "__delitem__", "__eq__", "__ge__", "__gt__"),
    *("__iadd__", "__imul__", "__le__", "__lt__", "__mul__", "__ne__", "__repr__", "__rmul__"),
    "__setitem__",
):
    setattr(Appends, _name, _as_a_deque_has_it(_name))
