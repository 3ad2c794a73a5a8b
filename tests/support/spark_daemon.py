"""The process that starts Spark's Python workers, in tests: none collects garbage after a task.

pyspark's own do. That visits all of pandas and Arrow, and takes several times as long as a task of
a small log.
"""

import gc
from types import SimpleNamespace

from pyspark import daemon

daemon.gc = SimpleNamespace(collect=gc.freeze)

if __name__ == "__main__":
    daemon.manager()
