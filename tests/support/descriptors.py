"""A limit of open files, as of ``ulimit -n``, for this process and for a while."""

import contextlib
import os
import resource


@contextlib.contextmanager
def few_more(count):
    """Let this process open so many files more than it has open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = max(map(int, os.listdir("/proc/self/fd")))
    resource.setrlimit(resource.RLIMIT_NOFILE, (most + 1 + count, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
