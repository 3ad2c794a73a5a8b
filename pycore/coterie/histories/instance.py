"""One member of a history: its process, which runs the application's loop, and its threads."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextvars import ContextVar
from functools import lru_cache
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, SupportsIndex

from coterie._core.structures.schedule import Future
from coterie.base.arguments import function
from coterie.errors import ArgumentError, CoterieError
from coterie.histories.choices import mix, number_of
from coterie.testing.client.consumer import Consumer
from coterie.testing.client.errors import KafkaError, WakeupError
from coterie.testing.client.producer import Producer
from coterie.testing.client.settings import CLASSIC_ONLY
from coterie.testing.process import Process
from coterie.testing.topics import ConsumerRecord, TopicPartition

if TYPE_CHECKING:
    from coterie.histories.events import Event
    from coterie.histories.ledger import Place

POLL_TIMEOUT_MS = 10_000
PROBES = 100  # polls of a second
LISTENER = ("on_partitions_assigned", "on_partitions_revoked", "on_partitions_lost")
RESTART_MS = 1000  # after an exception
_current: ContextVar[tuple[Instance, Process]] = ContextVar("coterie instance")


class WriteFailed(Exception):
    """The external write of a record has failed, so the record is not processed."""


class Records(list[ConsumerRecord]):
    """The records of a poll. To iterate takes the processing time of each; then it is processed.

    The time passes before the loop's body gets the record: what the body does follows the
    processing. Indexing, ``len`` and :meth:`partitions` take no time.
    """

    def __init__(self, instance: Instance, records: Iterable[ConsumerRecord]) -> None:
        super().__init__(records)
        self._instance = instance

    def __iter__(self) -> Iterator[ConsumerRecord]:
        for record in list.__iter__(self):
            self._instance.work(record)
            yield record

    def __getitem__(self, index: SupportsIndex | slice) -> Any:
        if isinstance(index, slice):
            return Records(self._instance, super().__getitem__(index))
        return super().__getitem__(index)

    def partitions(self) -> list[TopicPartition]:
        """Return the partitions that have records here."""
        places = (TopicPartition(record[0], record[1]) for record in list.__iter__(self))
        return list(dict.fromkeys(places))

    def records(self, partition: TopicPartition) -> Records:
        chosen = (record for record in list.__iter__(self) if record[:2] == partition)
        return Records(self._instance, chosen)

    def next_offsets(self) -> dict[TopicPartition, int]:
        """Return the offset after the last record of each partition: what to commit."""
        records = list.__iter__(self)
        return {TopicPartition(record[0], record[1]): record.offset + 1 for record in records}


def _here() -> tuple[Instance, Process]:
    found = _current.get(None)
    if found is None:
        raise CoterieError("this is for applications that a history runs")
    return found


def now_ms() -> int:
    """Return the virtual time, in ms; for applications in a history."""
    process = _here()[1]
    process.check_alive()
    return process.now_ms


def sleep(ms: int) -> None:
    """Let virtual time pass; for applications in a history."""
    process = _here()[1]
    process.check_alive()
    process.sleep(ms)


def producer(settings: Mapping[str, Any]) -> Producer:
    """Return a producer in the process; for applications in a history.

    Examples
    --------
    >>> class Copy:
    ...     def __init__(self, consumer, store):
    ...         self.producer = producer({})
    ...
    ...     def process(self, records):
    ...         for record in records:
    ...             self.producer.send("copies", record.value)
    ...         self.producer.flush()
    >>> history = History(members=1, topics={"orders": 1}, outputs={"copies": 1}, minutes=1)
    >>> history.run(Copy).outputs["copies"][0].value
    'orders-0-0'
    """
    instance, process = _here()
    return instance.make_producer(settings, process)


def run_in_thread(function: Callable[..., Any], *args: Any) -> Future:
    """Run a function in a thread of the process; return its future. For applications in a history.

    The thread pauses and dies with its process. A consumer belongs to the thread of ``process``.

    Examples
    --------
    >>> class Threaded:
    ...     def __init__(self, consumer, store):
    ...         self.store = store
    ...
    ...     def process(self, records):
    ...         run_in_thread(self.work, records)
    ...
    ...     def work(self, records):
    ...         for record in records:
    ...             began_ms = now_ms()
    ...             sleep(500)
    ...             self.store[record.value] = now_ms() - began_ms
    >>> outcome = History(members=1, topics={"orders": 1}, minutes=1).run(Threaded)
    >>> set(outcome.store.values())
    {500}
    """
    return _here()[0].spawn(function, args)


class Instance:
    """A member: it starts, ends and starts again, each time with a new process and consumer.

    Attributes
    ----------
    run : Run
        The run that it belongs to.
    name : str
        Its client id, MEMBER-N.
    settings : dict
        Of its consumer, from the next start on.
    process : Process or None
        None: it is down.
    factor : int
        How many times as long its records take.
    write_ms : int
        How much longer its next record takes.
    write_fails : bool
        Whether the external write of its next record fails.
    awaiting : list of Event
        Events that strike at its next moment of a kind.
    """

    def __init__(self, run: Any, number: int, settings: dict[str, Any]) -> None:
        self.run, self.number = run, number
        self.name = f"member-{number}"
        self.settings = {**settings, "client.id": self.name}
        self.process: Process | None = None
        self.consumer: Any = None
        self.threads: list[Process] = []
        self.factor, self.write_ms, self.write_fails = 1, 0, False
        self.awaiting: list[Event] = []
        self.busy = False
        self._stopping = False
        self._restart_ms: int | None = None

    # Its life

    def start(self) -> None:
        """Start it if it is down; one that is closing starts again after that."""
        if self.process is not None:
            self._restart_ms = self._restart_ms or 0
        else:
            self._stopping, self._restart_ms, self.threads = False, None, []
            self.process = Process(self.run.schedule, self.name)
            self.run.ledger.note(self.run.schedule.now_ms, self.name, "started")
            self.process.start(self._program, self.process)

    def crash(self, down_ms: int | None) -> None:
        """Let it die without a goodbye, and start again so much later; None: never."""
        if self.process is not None:
            self._end("crashed", down_ms)

    def stop(self, restart_ms: int | None = None) -> None:
        """Let it leave its loop and close its consumer, and then start again so much later."""
        if self.process is not None:
            self._stopping, self._restart_ms = True, restart_ms
            if self.consumer is not None:
                self.consumer.wakeup()

    def pause(self) -> None:
        """Stop all its threads."""
        for process in self.processes():
            process.pause()

    def resume(self) -> None:
        """Let its threads go on."""
        for process in self.processes():
            process.resume()

    def make_consumer(self, settings: dict[str, Any], process: Process) -> Any:
        """Return a consumer that lives in a process."""
        return Consumer(self.run.cluster, settings, process=process)

    def make_producer(self, settings: Mapping[str, Any], process: Process) -> Producer:
        """Return a producer that lives in a process."""
        return Producer(self.run.cluster, settings, process=process)

    def positions(self) -> Mapping[Any, int]:
        """Return the position of its consumer in each partition, as far as it is known."""
        return {} if self.consumer is None else self.consumer._subscriptions.positions()

    def paused(self) -> Collection[Any]:
        """Return the partitions that its consumer has paused."""
        subscriptions = getattr(self.consumer, "_subscriptions", None)  # a real client has none
        return () if subscriptions is None else subscriptions.where(lambda one: one.paused)

    def processes(self) -> list[Process]:
        """Return its process and its threads."""
        return [] if self.process is None else [self.process, *self.threads]

    def _end(self, kind: str, restart_ms: int | None, details: Any = None) -> None:
        schedule = self.run.schedule
        self.run.ledger.note(schedule.now_ms, self.name, kind, details)
        processes, self.process, self.busy = self.processes(), None, False
        self.consumer = None
        for process in processes:
            process.kill()
        if restart_ms is not None:
            schedule.call_later(restart_ms, self.start)

    # Its program

    def _program(self, process: Process) -> None:
        _current.set((self, process))
        settings = self.settings
        if settings.get("group.protocol") == "consumer":
            settings = {name: of for name, of in settings.items() if name not in CLASSIC_ONLY}
        self.consumer = consumer = self.make_consumer(settings, process)
        try:
            self._loop(consumer)
        except (KafkaError, WriteFailed) as error:
            if isinstance(error, KafkaError):
                with contextlib.suppress(KafkaError):  # the first one is what ended it
                    consumer.close()  # after another one it might commit the failed record
            self.run.schedule.call_soon(self._end, "failed", RESTART_MS, error)
        else:  # it may still be started again at this moment
            self.run.schedule.call_soon(lambda: self._end("closed", self._restart_ms))

    def _loop(self, consumer: Any) -> None:
        application = self.run.application(consumer, self.run.store)
        process: Any = getattr(application, "process", None)
        methods = {name: getattr(application, name, print) for name in LISTENER}
        for name, method in {"process": process, **methods}.items():
            plain_function(method, f"{name} of the application")
        if not consumer.subscription() and not consumer.assignment():
            consumer.subscribe(list(self.run.history.topics), application)
        if self.run.starts is not None:
            self._find_starts(consumer, self.run.starts)
            return
        timeout_ms = getattr(application, "poll_timeout_ms", POLL_TIMEOUT_MS)
        while not self._stopping:
            try:
                records = consumer.poll(timeout_ms)
            except WakeupError:
                continue
            self.busy = True
            process(Records(self, records))
            self.busy = False
        consumer.close()

    def _find_starts(self, consumer: Any, starts: dict[Place, int]) -> None:
        """Find the first position in each partition, and process nothing."""
        for _ in range(PROBES):
            for record in consumer.poll(1000):
                starts.setdefault((record.topic, record.partition), record.offset)
            for place, offset in self.positions().items():
                starts.setdefault(place, offset)
            if starts.keys() >= self.run.ledger.ends.keys():
                break

    def fail(self, process: Process | None, error: BaseException) -> None:
        """End it by an exception; it starts again, unless its process has ended before."""
        if process is not None and self.process is process:
            self._end("failed", RESTART_MS, error)

    def spawn(self, function: Callable[..., Any], args: tuple[Any, ...]) -> Future:
        """Run a function in a thread."""
        process = Process(self.run.schedule, f"{self.name} thread")
        future = Future()
        self.threads = [thread for thread in self.threads if thread.alive]
        self.threads.append(process)

        def program() -> None:
            _current.set((self, process))
            try:
                future.set(function(*args))
            except WriteFailed as error:  # as what the thread hands to the process
                self.run.schedule.call_soon(self.fail, self.process, error)
            process.alive = False

        self.run.schedule.call_soon(process.start, program)  # a program cannot start another
        return future

    # What it does at moments

    def thread(self) -> Process:
        """Return the process of the thread that runs."""
        return _here()[1]

    def work(self, record: ConsumerRecord) -> None:
        """Take the time of a record; then it is processed, or its write has failed."""
        process = self.thread()
        process.check_alive()
        start_ms = process.now_ms
        ms, self.write_ms = self.run.processing_ms(record) * self.factor + self.write_ms, 0
        if self.awaiting:
            self.strike("processing", ms // 2)
        if ms:
            process.sleep(ms)
        place = record.topic, record.partition
        if self.write_fails:
            self.write_fails = False
            what = f"{place[0]}-{place[1]}@{record.offset}"
            self.run.ledger.note(process.now_ms, self.name, "write failed", what)
            raise WriteFailed(f"the write of {what} has failed")
        self.run.ledger.add(place, record.offset, start_ms, process.now_ms, self.name)

    def strike(self, moment: str, after_ms: int = 0) -> bool:
        """Let the events that wait for a moment strike; return whether there is one."""
        due = [event for event in self.awaiting if getattr(event, "during", None) == moment]
        for event in due:
            self.awaiting.remove(event)
            self.run.schedule.call_later(after_ms, self.run.strike, event, self)
        return bool(due)


def plain_function(value: Any, name: str) -> Any:
    """Return a function; one whose calls would need an event loop is refused."""
    if iscoroutinefunction(function(value, name)):
        raise ArgumentError(f"{name} is async: make it a plain function")
    return value


def processing_time(seed: int, record: ConsumerRecord, low: int, high: int) -> int:
    """Return how long a record takes, ms; the same in each run."""
    if low == high:
        return low
    number = _number_of_record(record.topic, record.partition, record.offset)
    return low + mix(seed ^ number) % (high - low + 1)


def rate_of(seed: int, topic: str, partition: int, low: int, high: int) -> int:
    """Return how many records a minute a partition gets; the same in each run.

    Some seeds give all partitions about the same rate, others very different ones.
    """
    width = mix(seed) % (high - low + 1)
    low += mix(seed + 1) % (high - low - width + 1)
    return low + mix(seed ^ mix(number_of(topic) << 20 ^ partition)) % (width + 1)


@lru_cache(maxsize=4096)  # the records of many histories are at the same places
def _number_of_record(topic: str, partition: int, offset: int) -> int:
    return mix(number_of(topic) << 20 ^ partition << 44 ^ offset)
