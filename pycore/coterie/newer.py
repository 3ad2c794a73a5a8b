"""Groups of the newer protocols (consumer, share, streams) from their records."""

from __future__ import annotations

from typing import Any


def newer_groups(records: dict[bytes, tuple[bytes | None, int, int]]) -> dict[str, dict[str, Any]]:
    """Return each group's own fields by id."""
    return {}
