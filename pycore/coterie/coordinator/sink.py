"""A log of the caller's that a coordinator writes to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Protocol

from coterie._core.coordinator.runtime import CallerLog
from coterie.base.arguments import function, walked
from coterie.coordinator.batches import batch_row
from coterie.errors import CoterieError
from coterie.values import Batch

_READ = "log_sink.read()"


class LogSink(Protocol):
    """Takes the records of a coordinator and returns them for a load.

    An exception of a method becomes a CoterieError of the call that led to it. Neither method may
    call the coordinator.
    """

    def append(self, batch: Batch) -> int | None:
        """Write a batch; its ``base_offset`` is -1, the log decides it.

        Returns
        -------
        int or None
            The offset of its first record. None: the append is finished later by
            :meth:`coterie.PendingAppend.complete`, with its offset or an error. The marker of a
            transaction (``control``) needs no answer. An exception fails the append, as Kafka's
            KAFKA_STORAGE_ERROR does.
        """

    def read(self) -> Iterable[Batch]:
        """Return all batches, in log order; they are read once, one by one."""


def sink_of(log_sink: Any, calling: Callable[[], AbstractContextManager[None]]) -> CallerLog:
    """Wrap a log of the caller's for the core; ``calling`` is entered around each call."""
    for name in ("append", "read"):
        function(getattr(log_sink, name, None), f"log_sink.{name}")

    def rows() -> Iterator[tuple[Any, ...]]:
        try:
            with calling():
                for batch in walked(log_sink.read(), _READ, "an iterable of coterie.Batch"):
                    yield batch_row(batch, _READ)
        except CoterieError:
            raise
        except Exception as error:
            raise CoterieError(f"log_sink.read() raised {error!r:.120}") from error

    def write(row: tuple[Any, ...]) -> int | None:
        with calling():
            offset: int | None = log_sink.append(Batch(*row))
            return offset

    return CallerLog(write, rows)
