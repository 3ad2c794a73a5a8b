from collections.abc import Iterator
from typing import Any, final

from typing_extensions import Self

@final
class Trace:
    """A compiled trace: rows with interned names. Made by :func:`coterie.load_trace`."""

    header: dict[str, Any]
    count: int
    last_id: int
    sugar: bool
    def __new__(cls, header: dict[str, Any]) -> Self: ...
    def __len__(self) -> int: ...
    def add(
        self,
        line: int,
        at_ms: int,
        op: int,
        id: int,
        group_id: str | None,
        generation_id: int,
        member_id: str | None,
        instance: str | None,
        details: tuple[Any, ...] | None,
    ) -> None:
        """Append an event."""
    def requests(self) -> Iterator[tuple[Any, ...]]:
        """Yield (line, at, op, id, group, generation, member, instance, details)."""
