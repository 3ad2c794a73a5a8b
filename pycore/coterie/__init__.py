"""Kafka's consumer-group coordinator as a deterministic, replayable library.

The public names are those in ``__all__``; every module whose name starts with ``_`` is private.
"""

from importlib.metadata import version as _version

from coterie.errors import CorruptData, CoterieError, LogError
from coterie.state import PartialState, ScanOptions, merge, scan

__all__ = [
    "CorruptData",
    "CoterieError",
    "LogError",
    "PartialState",
    "ScanOptions",
    "merge",
    "scan",
]
__version__ = _version("coterie")
