"""Structs of Kafka's messages in one version: their fields in wire order, ready to be read.

Knows the kinds of fields that Kafka's generated classes have, and no message by name. Made once
for each version of a message; a walk over its rows.
"""

from collections.abc import Iterable
from typing import Any, Final, final

@final
class Field:
    """One field in one version, under its name in Kafka's JSON."""

    name: Final[str]

@final
class Layout:
    """The fields of a struct in one version."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its fields, in their order on the wire; tagged ones after all others."""

    @property
    def least_bytes(self) -> int:
        """The fewest bytes that it takes: above 0, or a list of it would cost nothing to send."""

    def below(self, name: str) -> Layout | None:
        """Return the layout of a field that is a struct, or a list of structs."""

def layout_of(fields: Iterable[tuple[Any, ...]], version: int, flexible: bool) -> Layout:
    """Make the layout of one version.

    Parameters
    ----------
    fields : iterable of tuple
        As ``coterie.schemas.fields_of`` gives them.
    version : int
    flexible : bool
        Lengths are compact, and each struct ends with its tagged fields.
    """
