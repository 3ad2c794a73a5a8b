"""What a server does often: heartbeats and plain commits, from bytes to answers.

A request that is not plain, or not whole, goes the long way; nothing of it has happened by then.
"""

from collections.abc import Callable
from typing import Any

from coterie._core.coordinator.coordinator import Coordinator

LAST_VERSION: int
LAST_CONSUMER_VERSION: int

def answer_quick(
    coordinator: Coordinator,
    topics: dict[str, Any] | None,
    data: bytes | bytearray,
    position: int,
    longest: int,
    ids: dict[bytes, Any] | None = None,
    host_of: Callable[[], str | None] | None = None,
) -> tuple[int, bytes]:
    """Answer the heartbeats and commits at the head of a connection's received bytes.

    Parameters
    ----------
    coordinator : Coordinator
        The coordinator to call; its clock must be at the present time.
    topics : dict or None
        The existing topics, by name; each has a list ``partitions``. None: commits are left to the
        handlers, because the coordinator's appends may finish later.
    data : bytes-like
        Frames with their lengths; the last one may be cut.
    position : int
        Where the first frame begins.
    longest : int
        The most bytes that a frame may have.
    ids : dict or None
        The same topics by the bytes of their ids, which each has as ``id_bytes``: the rows of
        commits get them. None: the log has no topic ids, and commits that name them are left.
    host_of : callable or None
        Returns the client's host, or None if a ConsumerGroupHeartbeat is to be left to its handler;
        without it all are.

    Returns
    -------
    tuple of (int, bytes)
        The position of the first unanswered frame, and the responses, each with its length. After a
        request with other outputs no more are answered; the coordinator's ``unsettled`` is then
        true.
    """
