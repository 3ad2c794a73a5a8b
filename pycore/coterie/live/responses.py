"""Rows of responses by partition: no partition twice, and none that was not requested."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

from coterie.live.cluster_errors import ClusterError

Place = tuple[str, int]


def rows_by_place(
    topics: Iterable[dict[str, Any]], requested: Container[Place] | None = None
) -> dict[Place, dict[str, Any]]:
    """Return the rows of a response by topic and partition; a partition may be missing.

    Raises
    ------
    ClusterError
        A partition has two rows, or was not ``requested`` (None: any is).
    """
    found: dict[Place, dict[str, Any]] = {}
    for topic in topics:
        for row in topic["partitions"]:
            place = topic["name"], row["partitionIndex"]
            if requested is not None and place not in requested:
                raise ClusterError(f"{place[0]}: a response about another partition")
            if place in found:
                raise ClusterError(f"{place[0]}-{place[1]}: a response about it twice")
            found[place] = row
    return found
