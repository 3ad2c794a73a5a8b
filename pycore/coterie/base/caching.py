"""Values that are computed once for each object, by threads that do not wait for each other."""

from __future__ import annotations

import sys

__all__ = ["cached_property"]

if sys.version_info >= (3, 12):
    from functools import cached_property
else:
    from collections.abc import Callable
    from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

    if TYPE_CHECKING:
        from typing import Self

    T = TypeVar("T")

    class cached_property(Generic[T]):
        """``functools.cached_property`` as it is from Python 3.12 on, without a lock.

        Before, one lock of all objects is held while a value is computed. Threads that read a log
        at once would wait for each other, and for ever if a value is computed by another thread of
        theirs. If two threads ask for the value of one object at once, both compute it.
        """

        def __init__(self, compute: Callable[[Any], T]) -> None:
            self._compute = compute
            self.__doc__ = compute.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self._name = name

        @overload
        def __get__(self, instance: None, owner: type) -> Self: ...
        @overload
        def __get__(self, instance: object, owner: type) -> T: ...
        def __get__(self, instance: object | None, owner: type) -> Self | T:
            if instance is None:
                return self
            value = instance.__dict__[self._name] = self._compute(instance)
            return value
