"""Layouts of Kafka's messages: the fields of a struct in one version, in wire order.

A layout knows the kinds of fields that Kafka's generated classes have, and no message by name. It
is made once for each version of a message.
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
        In the form of ``coterie.schemas.fields_of``.
    version : int
    flexible : bool
        Whether lengths are compact and each struct ends with tagged fields.
    """
