"""A limit of open files, as of ``ulimit -n``, for this process and for a while."""

import contextlib
import itertools
import os
import resource


@contextlib.contextmanager
def few_more(count):
    """Let this process open so many files more than it has open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    opened = {*map(int, os.listdir("/proc/self/fd"))}
    free = (number for number in itertools.count() if number not in opened)
    limit = next(itertools.islice(free, count, None))
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
