from collections.abc import Iterable
from typing import final

import numpy as np
import numpy.typing as npt

@final
class ProtocolCounts:
    """How many list entries of a group's members name each protocol, kept as members change.

    A name that a list has twice counts twice. Source: ``GroupMetadata.scala``
    (``supportedProtocols``).
    """

    def add(self, names: Iterable[str]) -> None:
        """Count a member's list."""
    def remove(self, names: Iterable[str]) -> None:
        """Take a member's list out; CoterieError if it was not counted."""
    def candidates(self, members: int) -> set[str]:
        """Names that are counted as often as there are members."""
    def __getitem__(self, name: str, /) -> int:
        """How often a name is counted; 0 if it is not."""
    def as_dict(self) -> dict[str, int]:
        """Return all counts."""

def select_protocol(protocols: Iterable[Iterable[str]]) -> str:
    """Return the protocol that a group's members vote for.

    Parameters
    ----------
    protocols
        Each member's names in order of preference, in member order.

    Raises
    ------
    CoterieError
        No members, or no name that all of them have; ArgumentError, if these are no names.

    Notes
    -----
    Each member votes for the first of its names that all members have; most votes win, of equals
    the one voted for first. Source: ``GroupMetadata.selectProtocol``.
    """

def select_protocols(
    names: npt.ArrayLike, member_start: npt.ArrayLike, group_start: npt.ArrayLike
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Votes of many groups at once.

    Parameters
    ----------
    names
        int32 ids of protocol names, all members' lists one after another.
    member_start
        int64 (members + 1,): where each member's list starts in ``names``; it ends with their
        count.
    group_start
        int64 (groups + 1,): where each group's members start in ``member_start``.

    Returns
    -------
    winner, votes
        int32 (groups,): the winning id and its votes; -1 and 0 for a group without members or
        with a member that has no candidate.

    Raises
    ------
    ArgumentError
        Starts that fall or do not end where they must; ids that are no integers, negative or
        not below 2**26.
    """
