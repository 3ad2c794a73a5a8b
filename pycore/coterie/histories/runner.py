"""Run a history: start the members, let the events happen, end all faults, wait for the rest."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from coterie.base.arguments import called, function
from coterie.base.schedule import Schedule
from coterie.errors import CoterieError
from coterie.histories.actions import ACTIONS, deployed
from coterie.histories.conditions import MOST_RATE, mapping, span
from coterie.histories.events import Event, RollingDeploy
from coterie.histories.instance import Instance, processing_time, rate_of
from coterie.histories.invariants import Invariants
from coterie.histories.ledger import Ledger, Note, PartitionEnd, Place
from coterie.histories.outcome import Outcome
from coterie.testing.simulated_cluster import Cluster

if TYPE_CHECKING:
    from coterie.histories.conditions import Application, Conditions
    from coterie.testing.topics import ConsumerRecord, Interval, PartitionLog

MINUTE_MS = 60_000
REST_MS = 30 * MINUTE_MS  # after the faults: far above every timeout of a consumer's defaults
STEPS_A_MINUTE = 20_000  # of virtual time, for each member; some hundred in most histories
STEPS_A_RECORD = 10
YOUNG = 20_000  # objects between two runs of the collector
CLOSE_MS = 5 * MINUTE_MS
LOOK_MS = 500
CONFIG = {"coterie.behaviour": "4.1"}
MOMENT_OF = {
    **{"join": "rebalance", "commit": "commit"},
    **dict.fromkeys(("assigned", "revoked", "lost"), "callback"),
}
IGNORED = ("poll", "closed")  # a run notes itself when a member has closed
SETTINGS = {"group.id": "group", "auto.offset.reset": "earliest"}


class Run:
    """One run of a history."""

    instance_type: type[Instance] = Instance

    def __init__(
        self,
        history: Conditions,
        application: Application,
        make_coordinator: Callable[..., Any] | None = None,
    ) -> None:
        self.history = history
        self.application = called(function(application, "application"))
        self.instance_type = getattr(application, "instance_type", self.instance_type)
        self._around = getattr(application, "around", contextlib.nullcontext)
        self.refuses: Callable[[dict[str, Any]], str | None] | None
        self.refuses = getattr(application, "refuses", None)
        self.deployed: set[str] = set()  # settings that a deploy has changed
        self._rates = span(history.records_per_minute, "records_per_minute", 0, MOST_RATE)
        records = self._rates[1] * sum(history.topics.values())
        self._steps_of_records = STEPS_A_RECORD * records  # a minute
        own = mapping(getattr(application, "settings", None), "the application's settings")
        self.settings: dict[str, Any] = {**SETTINGS, **own, **history.settings}
        self.store: dict[Any, Any] = {}
        self.schedule, self.ledger = self._make_schedule(), Ledger()
        self.cluster = self._make_cluster(CONFIG, self._interval_ms, make_coordinator)
        for name, partitions in history.outputs.items():
            self.cluster.create_topic(name, partitions, None)
        self.cluster.on_note = self._take_note
        self.instances: list[Instance] = []
        self.starts: dict[Place, int] | None = None  # where the probe begins; None: no probe
        self._by_name: dict[str, Instance] = {}
        self.invariants = Invariants()
        self.cluster.on_group_end = lambda _: self.invariants.begin_anew()
        self.faulty = True
        self._last: dict[Place, int] = {}  # the ends of partitions before they get more records

    def _make_schedule(self) -> Schedule:
        return Schedule()

    def _make_cluster(
        self, config: Mapping[str, Any], interval_ms: Interval, make_coordinator: Any
    ) -> Cluster:
        return Cluster(
            self.history.topics,
            config,
            interval_ms=interval_ms,
            schedule=self.schedule,
            make_coordinator=make_coordinator,
        )

    def outcome(self) -> Outcome:
        """Run it to its end."""
        young, *others = gc.get_threshold()
        try:
            if young:  # what a run makes lives until its end: to visit it often would be in vain
                gc.set_threshold(max(young, YOUNG), *others)
            with self._around():
                return self._outcome()
        finally:
            gc.set_threshold(young, *others)

    def _outcome(self) -> Outcome:
        history = self.history
        for _ in range(history.members):
            self.join()
        for event in history.events:
            self.schedule.call_at(event.at_ms, self._begin, event)
        self._watch()
        self.schedule.run_until(history.minutes * MINUTE_MS)
        self._end_faults()
        self.ledger.stuck = not (self._wait(self._all_passed, REST_MS) and self._all_processed())
        positions = self._positions()
        for instance in self.instances:
            instance.stop()
        self._wait(lambda: all(one.process is None for one in self.instances), CLOSE_MS)
        for instance in self.instances:
            instance.crash(None)
        self._look_at_the_end(positions)
        self._probe()
        return Outcome(history, self.ledger, self.store, self._outputs())

    def _watch(self) -> None:
        """End a run with more steps than its time explains; look again later."""
        minutes = 1 + self.schedule.now_ms // MINUTE_MS
        most = minutes * (STEPS_A_MINUTE * len(self.instances) + self._steps_of_records)
        if self.schedule.steps > most:
            raise CoterieError(
                f"the history takes more than {STEPS_A_MINUTE} steps a minute for each member: "
                "something in the application repeats without waiting"
            )
        self.schedule.call_later(LOOK_MS, self._watch)

    def join(self) -> None:
        """Start one more member."""
        instance = self.instance_type(self, len(self.instances), self.settings)
        if self.history.static:
            instance.settings["group.instance.id"] = instance.name
        self.instances.append(instance)
        self._by_name[instance.name] = instance
        instance.start()

    def _interval_ms(self, topic: str, partition: int) -> int | None:
        """Return how often a partition gets a record."""
        rate = rate_of(self.history.seed, topic, partition, *self._rates)
        return MINUTE_MS // rate if rate else None

    def processing_ms(self, record: ConsumerRecord) -> int:
        """Return how long a record takes."""
        return processing_time(self.history.seed, record, *self.history.processing_ms)

    # Events

    def _begin(self, event: Event) -> None:
        """Let an event strike, now or at the moment that it names."""
        if not hasattr(event, "member"):
            self.strike(event, None)
        elif event.member < len(self.instances):
            instance = self.instances[event.member]
            if getattr(event, "during", None) is None:
                self.strike(event, instance)
            else:
                instance.awaiting.append(event)

    def strike(self, event: Event, instance: Instance | None) -> None:
        """Let an event happen now, to an instance if it concerns one."""
        if self.faulty and not self._skipped(event):
            member = "" if instance is None else instance.name
            self.ledger.note(self.schedule.now_ms, member, "event", event)
            ACTIONS[type(event)](self, event, instance)

    def _skipped(self, event: Event) -> bool:
        """Whether an event leads to settings that the client does not take; then note why."""
        if not isinstance(event, RollingDeploy):
            return False
        reason = self._refusal(deployed(self.settings, event))
        if reason is not None:
            self.ledger.note(self.schedule.now_ms, "", "skipped", f"{event!r}: {reason}")
        return reason is not None

    def _refusal(self, settings: dict[str, Any]) -> str | None:
        """Return why there can be no member with such settings; None: there can."""
        return None if self.refuses is None else self.refuses(settings)

    def _end_faults(self) -> None:
        """Stop production, heal and resume everything, and start the members that are down."""
        self.faulty = False
        self.ledger.note(self.schedule.now_ms, "", "the faults end")
        for name in self.cluster.topics:
            self.cluster.produce(name, None)
        for instance in self.instances:
            instance.awaiting.clear()
            instance.factor, instance.write_ms, instance.write_fails = 1, 0, False
            self.cluster.network.heal(instance.name)
            self.cluster.network.end_faults(instance.name)
            instance.resume()
            instance.start()

    # The end

    def _wait(self, done: Callable[[], bool], most_ms: int) -> bool:
        """Run until something is done; return whether it was done within the time."""
        limit_ms = self.schedule.now_ms + most_ms
        while not done():
            if self.schedule.now_ms >= limit_ms:
                return False
            self.schedule.run_until(min(self.schedule.now_ms + LOOK_MS, limit_ms))
        return True

    def _positions(self) -> dict[Place, tuple[int, str, bool]]:
        """Return of each owned partition the position, the owner, and whether this has paused it.

        As far as they are known.
        """
        found: dict[Place, tuple[int, str, bool]] = {}
        for instance in self.instances:
            paused = instance.paused()
            for place, offset in instance.positions().items():
                found[place] = offset, instance.name, place in paused
        return found

    def _all_processed(self) -> bool:
        """Return whether all records are processed in the end, in threads and batches, too.

        A batch may wait for more records, so there are more if some are left.
        """
        threads = (one.threads for one in self.instances)
        running = [thread for each in threads for thread in each]
        self._wait(lambda: not any(one.alive for one in running), MINUTE_MS)  # some never end
        left = self._unprocessed()
        if not left:
            return True
        self._last = {
            (name, partition): log.end_offset(self.schedule.now_ms)
            for name, partition, log in self._logs()
        }
        self._produce(self._interval_ms)
        processed = self._wait(lambda: left.isdisjoint(self._unprocessed()), REST_MS)
        self._produce(None)
        self._wait(self._all_passed, CLOSE_MS)
        return processed

    def _unprocessed(self) -> set[tuple[Place, int]]:
        """Return the records that nobody has processed, from the committed offsets on."""
        committed, now_ms = self.committed(), self.schedule.now_ms
        found: set[tuple[Place, int]] = set()
        for name, partition, log in self._logs():
            place = name, partition
            offsets = log.offsets(log.last_stable_offset(now_ms))
            left, start = self.ledger.unprocessed(place, offsets), committed.get(place, 0)
            found |= {(place, offset) for offset in left if offset >= start}
        return found

    def _produce(self, interval_ms: Interval) -> None:
        """Give the topics of the history records at this rate from now on; None: stop."""
        for name in self.history.topics:
            if name in self.cluster.topics:
                self.cluster.produce(name, interval_ms)

    def _all_passed(self) -> bool:
        """Whether every member is idle and every partition has an owner that is at its end."""
        if any(one.busy for one in self.instances):
            return False
        positions, now_ms = self._positions(), self.schedule.now_ms
        return all(
            positions.get((name, partition), (-1, "", False))[0] >= log.end_offset(now_ms)
            for name, partition, log in self._logs()
        )

    def _logs(self) -> Iterator[tuple[str, int, PartitionLog]]:
        """Yield the partitions of the history's topics, as far as these exist."""
        topics = self.cluster.topics
        for name in self.history.topics:
            if name in topics:
                for partition, log in enumerate(topics[name].logs):
                    yield name, partition, log

    def _look_at_the_end(self, positions: dict[Place, tuple[int, str, bool]]) -> None:
        committed, now_ms = self.committed(), self.schedule.now_ms
        for name, partition, log in self._logs():
            _, owner, paused = positions.get((name, partition), (None, None, False))
            last = self._last.get((name, partition), log.end_offset(now_ms))
            self.ledger.ends[name, partition] = PartitionEnd(
                offsets=log.offsets(min(log.last_stable_offset(now_ms), last)),
                end=last,
                start=committed.get((name, partition)),
                owner=owner,
                paused=paused,
            )

    def _probe(self) -> None:
        """Find where a new member would begin, if nothing is committed and records are missing."""
        ends = self.ledger.ends
        if all(
            end.start is not None or not self.ledger.unprocessed(place, end.offsets)
            for place, end in ends.items()
        ):
            return
        probe = self.instance_type(self, len(self.instances), self.settings)
        self._by_name[probe.name] = probe
        self.starts = {}
        probe.start()
        self._wait(lambda: probe.process is None, CLOSE_MS)
        probe.crash(None)
        for place, end in ends.items():
            if end.start is None:
                ends[place] = end._replace(start=self.starts.get(place))

    def _outputs(self) -> dict[str, list[ConsumerRecord]]:
        """Return the records of the application's topics, without those of aborted transactions."""
        found: dict[str, list[ConsumerRecord]] = {}
        for name in self.history.outputs:
            logs = self.cluster.topics[name].logs
            found[name] = [record for log in logs for record in self._records(log)]
        return found

    def _records(self, log: PartitionLog) -> list[ConsumerRecord]:
        end = log.last_stable_offset(self.schedule.now_ms)
        return log.read(log.log_start_offset, end, end, committed=True)[0]

    def committed(self) -> dict[Place, int]:
        """Return the group's committed offsets."""
        fetched = self.cluster.call("offset_fetch", self.settings["group.id"])
        return {(p.topic, p.partition): p.offset for p in fetched.partitions}

    # Notes

    def _take_note(self, at_ms: int, client: str, kind: str, details: Any) -> None:
        """Take what a client does; events that wait for such a moment strike."""
        if kind in IGNORED:
            return
        self.ledger.notes.append(Note(at_ms, client, kind, details))
        instance = self._by_name[client]
        if kind == "assigned":
            self._check(instance, details)
        if instance.awaiting:
            moment = MOMENT_OF.get(kind)
            if moment and instance.strike(moment) and moment == "callback":
                instance.thread().sleep(1)  # they strike before the application's callback

    def _check(self, instance: Instance, places: list[Place]) -> None:
        group = instance.consumer.group_metadata()
        if instance.settings.get("group.protocol") == "consumer":
            self.invariants.assigned_by_broker(group.member_id, group.generation_id)
        else:
            self.invariants.assigned_by_leader(instance.name, group.generation_id, places)
