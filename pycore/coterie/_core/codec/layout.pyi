"""Fields of messages by layouts: bytes to tuples and dicts, and back.

A layout is one version of a message, compiled from the table ``coterie/schemas.txt``. It knows
lengths, nullable and tagged fields, and nothing of what a message means.
"""

from collections.abc import Iterable
from typing import Any, Final, final

def decode_utf8(data: bytes) -> str:
    """Decode as Java's ``new String(bytes, UTF_8)`` does.

    Each broken sequence, up to the byte that breaks it, becomes one U+FFFD; so does an encoded
    surrogate.
    """

@final
class Field:
    """One field in one version, under its name in Kafka's JSON."""

    name: Final[str]

@final
class Layout:
    """The fields of a struct in one version."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the fields in wire order, tagged ones after all others."""

    @property
    def least_bytes(self) -> int:
        """The fewest bytes of such a struct: above 0, so a sender pays for each list element."""

    def below(self, name: str) -> Layout | None:
        """Return the layout of a field that is a struct or a list of structs; None of any other."""

def layout_of(fields: Iterable[tuple[Any, ...]], version: int, flexible: bool) -> Layout:
    """Make the layout of one version.

    Parameters
    ----------
    fields : iterable of tuple
        In the form of ``coterie.base.schemas.fields_of``.
    version : int
    flexible : bool
        Whether lengths are compact and each struct ends with tagged fields.
    """
