"""The fast path: heartbeats and plain commits at the head of the bytes of a connection.

It reads Heartbeat 0 to 4 and OffsetCommit 2 to 9, and knows no connection. Everything else is left
to the server's handlers: a frame that does not parse, text that is not UTF-8, commits of partitions
that do not exist.
"""

from typing import Any

from coterie._core.coordinator.coordinator import Coordinator

LAST_VERSION: int

def answer_quick(
    coordinator: Coordinator,
    topics: dict[str, Any] | None,
    data: bytes | bytearray,
    position: int,
    longest: int,
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

    Returns
    -------
    tuple of (int, bytes)
        The position of the first unanswered frame, and the responses, each with its length. After a
        request with other outputs no more are answered; the coordinator's ``unsettled`` is then
        true.
    """
