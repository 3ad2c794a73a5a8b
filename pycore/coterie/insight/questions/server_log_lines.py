"""A statement of a broker's own log, and the names of the two kinds of logs."""

from __future__ import annotations

from typing import NamedTuple

SERVER, REQUESTS = "server log", "request log"


class BrokerLogLine(NamedTuple):
    """A statement of a broker's log.

    ``group`` is empty if the line is about all groups. ``generation`` is the generation after the
    event, if known; of a line about all groups, the partition of the offsets topic. ``topics`` are
    the names of deleted or created topics, or those whose offsets were deleted. A request ended at
    ``until_ms``; a clean-up that a line reports began at ``at_ms``.
    """

    group: str
    what: str
    at_ms: int
    source: str
    generation: int | None = None
    member_id: str | None = None
    client_id: str | None = None
    client_host: str | None = None
    detail: str | None = None
    instance_id: str | None = None
    topics: tuple[str, ...] = ()
    until_ms: int | None = None
