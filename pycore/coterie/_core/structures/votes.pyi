from collections.abc import Iterable
from typing import final

import numpy as np
import numpy.typing as npt

@final
class ProtocolCounts:
    """How many list entries of a group's members name each protocol, updated by the caller.

    A name that a list has twice counts twice. Source: ``GroupMetadata.scala``
    (``supportedProtocols``).
    """

    def add(self, names: Iterable[str]) -> None:
        """Count a member's list."""
    def remove(self, names: Iterable[str]) -> None:
        """Take a member's list out; CoterieError if it was not counted."""
    def candidates(self, members: int) -> set[str]:
        """Return the names that are counted as often as there are members."""
    def __getitem__(self, name: str, /) -> int:
        """How often a name is counted; 0 if it is not."""
    def as_dict(self) -> dict[str, int]:
        """Return all counts."""

def select_protocol(protocols: Iterable[Iterable[str]]) -> str:
    """Return the protocol that a group's members vote for.

    Parameters
    ----------
    protocols
        For each member its protocol names in order of preference; members in order of joining.

    Raises
    ------
    CoterieError
        There are no members, or there is no name that all of them have.
    ArgumentError
        Something else than names.

    Notes
    -----
    Each member votes for the first of its names that all members have. The name with the most
    votes wins; in a tie, the one voted for first. Source: ``GroupMetadata.selectProtocol``.

    Examples
    --------
    >>> select_protocol([["range", "sticky"], ["sticky", "range"], ["sticky", "range"]])
    'sticky'
    """

def select_protocols(
    names: npt.ArrayLike, member_start: npt.ArrayLike, group_start: npt.ArrayLike
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Select the protocols of many groups at once, as :func:`select_protocol` does for one.

    Parameters
    ----------
    names
        int32: ids of protocol names, the lists of all members one after another.
    member_start
        int64 (members + 1,): where each member's list starts in ``names``; the last entry is the
        length of ``names``.
    group_start
        int64 (groups + 1,): where each group's members start in ``member_start``; the last entry
        is the number of members.

    Returns
    -------
    winner, votes
        int32 (groups,): the winning id and its number of votes; -1 and 0 for a group without
        members, or with a member that has none of the common names.

    Raises
    ------
    ArgumentError
        Starts decrease or do not end where they must; ids are not integers, negative, or not
        below 2**26.

    Examples
    --------
    Two members who disagree, and a group of one:

    >>> winner, votes = select_protocols([0, 1, 1, 0, 2], [0, 2, 4, 5], [0, 2, 3])
    >>> winner.tolist(), votes.tolist()
    ([0, 2], [1, 1])
    """
