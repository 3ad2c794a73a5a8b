"""Heartbeats, many of which come on each connection: answered without an object for each.

Knows the frames of Heartbeat 0 to 4 and nothing of connections. What is not plainly a heartbeat is
left for others to read: a frame that does not parse, and texts that are not UTF-8, too.
"""

from coterie._core.coordinator.coordinator import Coordinator

LAST_VERSION: int

def answer_beats(
    coordinator: Coordinator, data: bytes | bytearray, position: int, longest: int
) -> tuple[int, bytes]:
    """Answer the heartbeats at the head of what a connection has received.

    Parameters
    ----------
    coordinator : Coordinator
        What they are asked of; its clock must have been moved.
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
        A heartbeat that lets something else happen is the last one: look at the coordinator's
        ``effects`` for it.
    """
