"""What consumers send all the time, heartbeats and commits: answered from bytes to bytes.

Knows the frames of Heartbeat 0 to 4 and OffsetCommit 2 to 9, and nothing of connections. What is
not plainly one of them is left for others to read: a frame that does not parse, texts that are not
UTF-8, commits of partitions that do not exist.
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
    """Answer the heartbeats and commits at the head of what a connection has received.

    Parameters
    ----------
    coordinator : Coordinator
        What they are asked of; its clock must have been moved.
    topics : dict or None
        The topics that exist, by name; each has a list ``partitions``. None: commits are left for
        others, as those of a coordinator are whose appends may come back later.
    data : bytes-like
        Frames with their lengths; the last one may be cut.
    position : int
        Where the first frame begins.
    longest : int
        The most bytes that a frame may have.

    Returns
    -------
    tuple of (int, bytes)
        Where the first frame begins that was not answered, and the answers, each with its length.
        A request that lets something else happen is the last one: look at the coordinator's
        ``unsettled`` for it.
    """
