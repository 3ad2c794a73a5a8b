"""Pages and questions, answered from the files by a process that ends with its answer.

The watcher lives for months, and needs neither the code of the report nor the memory of a reading.
Cost: the start of Python, 0.3 s of CPU time.
"""

from __future__ import annotations

import asyncio
import contextlib
import pickle
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence
from typing import NamedTuple

from coterie.errors import CoterieError
from coterie.insight.offsets.end_offsets import Sample
from coterie.log.folders import Listing

PAGE = "page"
FAILED = 3  # exit status: the answer is the message of a CoterieError
ANSWER = b"\0coterie\0"  # stands before it; what other modules print at their import comes earlier
START = "from coterie.live.page_worker import main; main()"
PYTHON = (sys.executable, "-c", f"import sys; sys.path[:] = sys.argv[1:]; {START}")


class Scope(NamedTuple):
    """What a page or a question reads, and from when on; ``version`` changes with the log.

    ``log_starts``: (topic, partition) -> its log start offset, from before the log ends.
    ``last_ends``: (topic, partition) -> the last sample of its end offset.
    """

    listing: Listing
    since_ms: int | None
    newest_ms: int
    version: int
    log_starts: dict[tuple[str, int], int]
    last_ends: dict[tuple[str, int], Sample]


class ReadRequest(NamedTuple):
    """``what``: ``PAGE`` or a question; ``group`` None: all groups."""

    what: str
    group: str | None
    scope: Scope


class Reading:
    """Answers requests about the files; a call that is cancelled ends its process.

    Parameters
    ----------
    command
        Starts the process; the folders of modules follow as arguments.
    """

    def __init__(self, command: Sequence[str] = PYTHON) -> None:
        self.command = command

    async def __call__(self, request: ReadRequest) -> bytes:
        """Return the bytes of a page, or the JSON of an answer.

        Raises
        ------
        CoterieError
            The files cannot be read.
        """
        process = await self._start()
        try:
            found, _ = await process.communicate(pickle.dumps(request))
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.communicate()  # which closes the pipes
            raise
        _, mark, answer = found.partition(ANSWER)
        status = process.returncode
        if status == FAILED:
            raise CoterieError(answer.decode())
        if status or not mark:
            raise CoterieError(f"the process that reads the log ended with status {status}")
        return answer

    async def _start(self) -> Process:
        try:
            return await asyncio.create_subprocess_exec(
                *(*self.command, *sys.path),
                stdin=PIPE,
                stdout=PIPE,
                start_new_session=True,  # Ctrl-C is for the watcher
            )
        except OSError as error:
            raise CoterieError(f"the process that reads the log does not start: {error}") from None
