"""The bytes that the peers of a server have not read yet."""

from __future__ import annotations

from collections.abc import Callable

MOST_COPIED = 1 << 26


class Unsent:
    """The unsent bytes of large responses, of all connections.

    While the copied bytes reach their limit, requests with large responses wait.

    Attributes
    ----------
    stored : int
        Bytes of batches in a log that responses refer to.
    copied : int
        Bytes that were encoded for a response and exist only for it.
    most_copied : int
        The limit of ``copied``.
    """

    def __init__(self, most_copied: int = MOST_COPIED) -> None:
        self.stored = self.copied = 0
        self.most_copied = most_copied
        self._waiting: dict[Callable[[], None], None] = {}
        self._is_waking = False

    @property
    def is_full(self) -> bool:
        return self.copied >= self.most_copied

    def wait(self, go_on: Callable[[], None]) -> None:
        """Call a function once when there is room, in the order of these calls."""
        self._waiting[go_on] = None

    def forget(self, go_on: Callable[[], None]) -> None:
        """Withdraw a function that waits for room, if it does."""
        self._waiting.pop(go_on, None)

    def add(self, stored: int, copied: int) -> None:
        """Count the bytes of a response."""
        self.stored += stored
        self.copied += copied

    def subtract(self, stored: int, copied: int) -> None:
        """Count bytes that were sent, or dropped with their connection."""
        self.stored -= stored
        self.copied -= copied
        self.wake()

    def wake(self) -> None:
        """Call the functions that wait, as long as there is room; they may wait again."""
        if self._is_waking:
            return
        self._is_waking = True  # a request that goes on may end here again
        try:
            for go_on in list(self._waiting):
                if self.is_full:
                    break
                if go_on in self._waiting:
                    del self._waiting[go_on]
                    go_on()
        finally:
            self._is_waking = False
