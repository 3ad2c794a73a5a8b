"""Sources of choices: what a history is drawn from.

:class:`Seeded` is a generator with a seed (splitmix64), the same on every machine and in every
version of Python. Hypothesis is the other source (``strategy.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Protocol, TypeVar
from zlib import crc32

T = TypeVar("T")
MASK = 2**64 - 1
GAMMA = 0x9E3779B97F4A7C15  # the increment of splitmix64 (Steele, Lea, Flood 2014)


def mix(value: int) -> int:
    """Return 64 well mixed bits of a number: the finalizer of splitmix64."""
    value &= MASK
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB & MASK
    return value ^ (value >> 31)


@lru_cache(maxsize=1024)
def number_of(text: str) -> int:
    """Return a number of a text that does not depend on the hash seed of the process."""
    return crc32(text.encode("utf-8"))


class Choices(Protocol):
    """A source of choices; the first of each range or sequence is the simplest."""

    def integer(self, low: int, high: int) -> int:
        """Choose a number from ``low`` to ``high``."""

    def pick(self, options: Sequence[T]) -> T:
        """Choose one of the options."""

    def rows(self, highest: tuple[int, ...], most: int) -> list[tuple[int, ...]]:
        """Choose up to ``most`` rows of numbers, each from 0 to the highest of its column."""


class Seeded:
    """Choices that a seed determines."""

    def __init__(self, seed: int) -> None:
        self._state = mix(seed)

    def integer(self, low: int, high: int) -> int:
        """Choose a number from ``low`` to ``high``."""
        self._state = self._state + GAMMA & MASK
        return low + mix(self._state) % (high - low + 1)

    def pick(self, options: Sequence[T]) -> T:
        """Choose one of the options."""
        return options[self.integer(0, len(options) - 1)]

    def rows(self, highest: tuple[int, ...], most: int) -> list[tuple[int, ...]]:
        """Choose up to ``most`` rows of numbers, each from 0 to the highest of its column."""
        return [
            tuple(self.integer(0, high) for high in highest) for _ in range(self.integer(0, most))
        ]
