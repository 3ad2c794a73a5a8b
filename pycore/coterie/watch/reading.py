"""Pages and questions, answered from the files by a process that ends with its answer.

The watcher lives for months, and needs neither the code of the report nor the memory of a reading.
Cost: the start of Python, 0.3 s of CPU time. A watcher that ends in order kills the process.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple

from coterie.errors import CoterieError
from coterie.log.folders import Listing

__all__ = ["ANSWER", "FAILED", "PAGE", "ReadRequest", "Reading", "Scope"]

PAGE = "page"
FAILED = 3  # exit status: the answer is the message of a CoterieError
ANSWER = b"\0coterie\0"  # stands before it; what other modules print at their import comes earlier
LOOK_S = 0.1  # between two looks at whether the watcher ends
START = "from coterie.watch.drawing import main; main()"
PYTHON = (sys.executable, "-c", f"import sys; sys.path[:] = sys.argv[1:]; {START}")


class Scope(NamedTuple):
    """What a page or a question reads, and from when on; ``version`` changes with the log."""

    listing: Listing
    since_ms: int | None
    newest_ms: int
    version: int


class ReadRequest(NamedTuple):
    """``what``: ``PAGE`` or a question; ``group`` None: all groups."""

    what: str
    group: str | None
    scope: Scope


class Reading:
    """Answers requests about the files.

    Parameters
    ----------
    is_ending
        Whether the watcher ends; called from the thread that waits for an answer.
    command
        Starts the process; the folders of modules follow as arguments.
    """

    def __init__(self, is_ending: Callable[[], bool], command: Sequence[str] = PYTHON) -> None:
        self.is_ending, self.command = is_ending, command

    def __call__(self, request: ReadRequest) -> bytes:
        """Return the bytes of a page, or the JSON of an answer.

        Raises
        ------
        CoterieError
            The files cannot be read, or the watcher ends.
        """
        with self._start() as process:
            unsent: bytes | None = pickle.dumps(request)
            while True:
                try:
                    found, _ = process.communicate(unsent, timeout=LOOK_S)
                    break
                except subprocess.TimeoutExpired:
                    unsent = None  # it is on its way
                    if self.is_ending():
                        process.kill()
                        raise CoterieError("coterie watch ends") from None
        _, mark, answer = found.partition(ANSWER)
        if process.returncode == FAILED:
            raise CoterieError(answer.decode())
        if process.returncode or not mark:
            status = process.returncode
            raise CoterieError(f"the process that reads the log ended with status {status}")
        return answer

    def _start(self) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(
                [*self.command, *sys.path],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,  # Ctrl-C is for the watcher
            )
        except OSError as error:
            raise CoterieError(f"the process that reads the log does not start: {error}") from None
