"""Where ids come from: the system's random source, or a seed, by which they repeat."""

from __future__ import annotations

import random  # noqa: TID251  the source that all else is handed
from base64 import urlsafe_b64encode

__all__ = ["Ids"]

_VERSION, _VARIANT = 6, 8  # the bytes of a uuid that say how it was made


class Ids:
    """Draws ids. With a seed the same draws of a kind give the same ids, whatever else is drawn.

    A Fetch that waited by the wall clock draws its session's id at any time: that must not change
    which id the next member gets.
    """

    def __init__(self, seed: int | None = None) -> None:
        self._seed = seed
        self._sources: dict[str, random.Random] = {}
        self._producer_ids = 0

    def uuid(self) -> str:
        """Return a random uuid in Kafka's text, which does not begin with a hyphen.

        As ``Uuid.randomUuid``: such a text would be taken for an option by tools.
        """
        while True:
            text = urlsafe_b64encode(self._drawn("uuid")).decode("ascii").rstrip("=")
            if not text.startswith("-"):
                return text

    def member_id(self, prefix: str) -> str:
        """Return a member's id: the prefix, and a random uuid in Java's text."""
        drawn = self._drawn("member").hex()
        return f"{prefix}-{drawn[:8]}-{drawn[8:12]}-{drawn[12:16]}-{drawn[16:20]}-{drawn[20:]}"

    def producer_id(self) -> int:
        """Return the next producer id: they are numbered from 0, as by a fresh cluster."""
        self._producer_ids += 1
        return self._producer_ids - 1

    def number(self, bits: int) -> int:
        """Return a random number of so many bits."""
        return self._source("number").getrandbits(bits)

    def _source(self, kind: str) -> random.Random:
        found = self._sources.get(kind)
        if found is None:
            seed = self._seed
            found = random.SystemRandom() if seed is None else random.Random(f"{seed} {kind}")
            self._sources[kind] = found
        return found

    def _drawn(self, kind: str) -> bytes:
        drawn = bytearray(self._source(kind).getrandbits(128).to_bytes(16, "big"))
        drawn[_VERSION] = drawn[_VERSION] & 0x0F | 0x40
        drawn[_VARIANT] = drawn[_VARIANT] & 0x3F | 0x80
        return bytes(drawn)
