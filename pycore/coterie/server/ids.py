"""Ids drawn from the system's random source, or reproducibly from a seed."""

from __future__ import annotations

import random  # noqa: TID251  the one source of randomness
from base64 import urlsafe_b64encode

_VERSION, _VARIANT = 6, 8  # positions of the version and variant bytes of a uuid


class Ids:
    """Draws ids; with a seed, the ids of each kind are reproducible.

    Each kind has a random source of its own. Otherwise a Fetch that waits by the wall clock, and
    draws a session id at any time, would change the next member's id.
    """

    def __init__(self, seed: int | None = None) -> None:
        self._seed = seed
        self._sources: dict[str, random.Random] = {}
        self._producer_ids = 0

    def uuid(self) -> str:
        """Return a random uuid in Kafka's text form.

        It never begins with a hyphen: a tool would read it as an option. Source:
        ``Uuid.randomUuid``.
        """
        while True:
            text = urlsafe_b64encode(self._draw("uuid")).decode("ascii").rstrip("=")
            if not text.startswith("-"):
                return text

    def member_id(self, prefix: str) -> str:
        """Return a member id: the prefix, a hyphen and a random uuid in Java's text form."""
        digits = self._draw("member").hex()
        return f"{prefix}-{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"

    def producer_id(self) -> int:
        """Return the next producer id; the first one is 0, as in a new cluster."""
        self._producer_ids += 1
        return self._producer_ids - 1

    def number(self, bits: int) -> int:
        return self._source("number").getrandbits(bits)

    def _source(self, kind: str) -> random.Random:
        source = self._sources.get(kind)
        if source is None:
            seed = self._seed
            source = random.SystemRandom() if seed is None else random.Random(f"{seed} {kind}")
            self._sources[kind] = source
        return source

    def _draw(self, kind: str) -> bytes:
        data = bytearray(self._source(kind).getrandbits(128).to_bytes(16, "big"))
        data[_VERSION] = data[_VERSION] & 0x0F | 0x40
        data[_VARIANT] = data[_VARIANT] & 0x3F | 0x80
        return bytes(data)
