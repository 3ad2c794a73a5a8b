"""Histories of a program: an application with its own main function, loop and client."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from os import PathLike
from pathlib import Path
from typing import Any

from coterie.base.arguments import called
from coterie.errors import ArgumentError, CoterieError
from coterie.histories.confluent import ConfluentConsumer
from coterie.histories.instance import Instance, WriteFailed, plain_function
from coterie.testing.process import Process
from coterie.testing.programs import ClientFailure, Program, current, running
from coterie.testing.stand_ins import end, stand_ins
from coterie.testing.topics import ConsumerRecord

PROBE_MS = 100_000


def processed(record: Any) -> None:
    """Take the processing time of a record; then it is processed. Outside of a history: nothing.

    Call it with a message of a client, or a record, at the place of its effect. Events strike
    ``during="processing"`` in this time.

    Examples
    --------
    >>> def main():
    ...     from confluent_kafka import Consumer
    ...
    ...     consumer = Consumer({"group.id": "g", "auto.offset.reset": "earliest"})
    ...     consumer.subscribe(["orders"])
    ...     while True:
    ...         message = consumer.poll(1.0)
    ...         if message is not None:
    ...             processed(message)
    ...             store()[message.value()] = "billed"
    >>> outcome = History(members=1, topics={"orders": 1}, minutes=1).run(program=main)
    >>> outcome.lost, len(outcome.store) > 0
    ([], True)
    """
    found = running()
    if found is not None and isinstance(found[0], MemberProgram):
        found[0].instance.work(_record(record))


def store() -> dict[Any, Any]:
    """Return the store of the run: a dict that survives crashes, as a database does."""
    program, _ = current()
    if not isinstance(program, MemberProgram):
        raise CoterieError("store() is for programs that a history runs")
    found: dict[Any, Any] = program.instance.run.store
    return found


def _record(record: Any) -> ConsumerRecord:
    """Return topic, partition and offset of a message, whose fields may be methods."""
    values = (getattr(record, name) for name in ("topic", "partition", "offset"))
    topic, partition, offset = (value() if callable(value) else value for value in values)
    return ConsumerRecord(topic, partition, offset, 0, None, None)


class ProgramApplication:
    """A program in the place of an application."""

    def __init__(self, program: Any) -> None:
        self.main: Callable[[], Any]
        if isinstance(program, str | PathLike):
            self.main = _script(Path(program))
        else:
            self.main = plain_function(program, "program")
        self.instance_type, self.refuses = MemberInstance, ConfluentConsumer.refuses

    def around(self) -> AbstractContextManager[None]:
        """Return the context of a run: the stand-ins of modules and functions."""
        space = getattr(self.main, "__globals__", None)
        return stand_ins(*([] if space is None else [space]))

    def __call__(self, *_: Any) -> Any:
        """Run the program."""
        return called(self.main)()


def _script(path: Path) -> Callable[[], Any]:
    """Return a script as a function; each call has its own globals."""
    try:
        code = compile(path.read_bytes(), str(path), "exec")
    except (OSError, SyntaxError, ValueError) as error:
        raise ArgumentError(f"program: {error}") from None
    return lambda: exec(code, {"__name__": "__main__", "__file__": str(path)})


class MemberProgram(Program):
    def __init__(self, instance: MemberInstance, process: Process, settings: dict[str, Any]):
        super().__init__(instance.run.cluster, process, settings)
        self.instance = instance
        self.starts = instance.run.starts

    def made(self, consumer: Any) -> None:
        """Take note of a new consumer; None: it is closed."""
        super().made(consumer)
        if hasattr(consumer, "refuses"):  # else it is librdkafka
            self.instance.run.refuses = consumer.refuses
        self.instance.consumer = None if consumer is None else consumer._inner

    def died(self, error: Exception) -> None:
        """Take note of the exception of a thread."""
        run = self.instance.run
        run.ledger.note(run.schedule.now_ms, self.instance.name, "a thread died", repr(error))


def _is_of_client(error: BaseException | None) -> bool:
    """Whether an exception of a client, or of a write, led to this one."""
    while error is not None and not isinstance(error, ClientFailure | WriteFailed):
        error = error.__cause__ or error.__context__
    return error is not None


class MemberInstance(Instance):
    """A member that runs a program."""

    program: MemberProgram | None = None

    def _program(self, process: Process) -> None:
        own = self.run.history.settings
        names = ("group.id", "client.id", "group.instance.id", *own, *self.run.deployed)
        settings = {name: self.settings[name] for name in names if name in self.settings}
        self.program = program = MemberProgram(self, process, settings)
        program.enter()
        if self.run.starts is not None:
            process.call_later(PROBE_MS, self.stop)
        failed: BaseException | None = None
        try:
            self.run.application()
        except KeyboardInterrupt:
            pass
        except SystemExit as error:
            failed = error if error.code else None
        except Exception as error:
            if not _is_of_client(error):
                raise
            failed = error
        if failed is not None:
            self.run.schedule.call_soon(self.fail, process, failed)
        else:
            self.run.schedule.call_soon(self._closed, process)

    def _closed(self, process: Process) -> None:
        if self.process is process:  # it has not crashed at this moment
            self._end("closed", self._restart_ms)

    def stop(self, restart_ms: int | None = None) -> None:
        """Send the program a signal, and start it again ``restart_ms`` after its end."""
        if self.process is not None:
            self._stopping, self._restart_ms = True, restart_ms
            if self.program is not None:
                self.program.interrupt()

    def processes(self) -> list[Process]:
        """Return its threads, and those of its clients."""
        others = [] if self.program is None else self.program.others
        return [*super().processes(), *others]

    def thread(self) -> Process:
        """Return the process of the thread that runs."""
        return current()[1]

    @property
    def busy(self) -> bool:
        """Whether it works on the last message, and does not poll."""
        consumer = None if self.program is None else self.program.consumer
        if consumer is None or consumer.waits or consumer._last is None:
            return False
        topic, partition, offset = consumer._last
        works = self.run.ledger.works.get((topic, partition), ())
        return all(work.offset != offset for work in works)

    @busy.setter
    def busy(self, value: bool) -> None:
        """Ignore the value: the state of the program decides."""

    def _end(self, kind: str, restart_ms: int | None, details: Any = None) -> None:
        program, self.program = self.program, None
        if program is not None:
            end(program)
        super()._end(kind, restart_ms, details)
