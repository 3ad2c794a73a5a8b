"""Return freed memory to the system after a task.

Spark reuses its Python workers from task to task, under one memory limit. The C library's heap and
Arrow's pool retain freed memory for the next call: half of what the largest task had used.
"""

from __future__ import annotations

from coterie.base import malloc_trim


def give_back() -> None:
    """Give freed memory of this process back to the system, if the platform supports it."""
    import pyarrow as pa

    pa.default_memory_pool().release_unused()
    malloc_trim.trim()
