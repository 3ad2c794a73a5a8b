"""Classic mistakes of consumer applications, each beside its corrected version.

``CATALOGUE`` says what shows a mistake, and which events bring it out.
"""

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any, NamedTuple

from coterie.histories import now_ms, producer, run_in_thread, sleep
from coterie.testing import (
    CommitFailedError,
    ConsumerGroupMetadata,
    KafkaError,
    RebalanceInProgressError,
)

MANUAL = {"enable.auto.commit": False}
AUTOMATIC = {"enable.auto.commit": True}  # what a poll has returned counts as done
IMPATIENT = {**MANUAL, "max.poll.interval.ms": 10_000}
COOPERATIVE = {**MANUAL, "partition.assignment.strategy": "cooperative-sticky"}


class Application:
    """Processes records and commits afterwards: at least once."""

    settings = MANUAL

    def __init__(self, consumer, store):
        self.consumer, self.store = consumer, store

    def process(self, records):
        self.work(records)
        self.consumer.commit()

    def work(self, records):
        for _ in records:  # takes the time of each
            pass


# 1. Commit before processing


class CommitsFirst(Application):
    def process(self, records):
        self.consumer.commit()
        self.work(records)


# 2. Auto-commit, and processing in threads


class HandsOver(Application):
    settings = AUTOMATIC

    def process(self, records):
        run_in_thread(self.work, records)


class PausesMeanwhile(Application):
    """Polls without records while a thread works, and commits what it has done."""

    job = None

    def on_partitions_assigned(self, partitions):
        if self.job is not None:
            self.consumer.pause(partitions)

    def on_partitions_revoked(self, partitions):
        if self.job is not None:
            while not self.job.done:
                sleep(100)
            self.consumer.commit(self.offsets)
            self.offsets = {}

    def on_partitions_lost(self, partitions):
        self.offsets = {}

    def process(self, records):
        if not len(records):
            return
        self.job, self.offsets = run_in_thread(self.work, records), records.next_offsets()
        self.consumer.pause(self.consumer.assignment())
        while not self.job.done:
            self.consumer.poll(1000)
        self.job = None
        self.consumer.commit(self.offsets)
        self.consumer.resume(self.consumer.assignment())


# 3. No commit in on_partitions_revoked


class CommitsNowAndThen(Application):
    next_ms = 0

    def process(self, records):
        self.work(records)
        if now_ms() >= self.next_ms:
            self.consumer.commit()
            self.next_ms = now_ms() + 30_000


class CommitsBeforeItGivesUp(CommitsNowAndThen):
    def on_partitions_revoked(self, partitions):
        self.consumer.commit()


# 4. An asynchronous commit that a rebalance overtakes


class CommitsAsynchronously(Application):
    def on_partitions_revoked(self, partitions):
        self.consumer.commit()

    def process(self, records):
        self.work(records)
        self.consumer.commit_async()  # the next one covers it if it fails


class RetriesAsynchronously(CommitsAsynchronously):
    def process(self, records):
        self.work(records)
        self.consumer.commit_async(callback=self.retry)

    def retry(self, offsets, error):
        if error is not None:  # by now another member may be further
            self.consumer.commit_async(offsets, self.retry)


# 5. Processing that takes longer than max.poll.interval.ms


class TakesMany(Application):
    settings = IMPATIENT  # and max.poll.records is 500


class TakesFew(Application):
    settings = MappingProxyType({**IMPATIENT, "max.poll.records": 1})


# 6. Offsets stored outside, without fencing


class OwnOffsets(Application):
    """Stores its results and its offsets in one transaction of a database."""

    def on_partitions_assigned(self, partitions):
        for partition in partitions:
            self.consumer.seek(partition, self.store.get(partition, 0))

    def process(self, records):
        for record in records:
            self.save((record.topic, record.partition), record.offset)

    def save(self, partition, offset):
        self.store.setdefault("applied", Counter())[partition, offset] += 1
        self.store[partition] = offset + 1


class FencedOffsets(OwnOffsets):
    def save(self, partition, offset):
        if self.store.get(partition, 0) == offset:  # else another member has been here
            super().save(partition, offset)


# 7. Lost partitions treated as revoked


class CommitsWhatIsLost(Application):
    """Without on_partitions_lost, Kafka's client calls on_partitions_revoked for lost ones, too."""

    settings = IMPATIENT

    def on_partitions_revoked(self, partitions):
        self.consumer.commit()  # CommitFailedError ends the loop if they are lost

    def process(self, records):
        with suppress(CommitFailedError, RebalanceInProgressError):  # others process them again
            super().process(records)


class DropsWhatIsLost(CommitsWhatIsLost):
    def on_partitions_lost(self, partitions):
        pass


# 8. A pause that a rebalance ends


class TrustsItsPause(Application):
    """Pauses a partition for a while when its records come too fast."""

    def __init__(self, consumer, store):
        super().__init__(consumer, store)
        self.paused = {}

    def process(self, records):
        over = [partition for partition, until_ms in self.paused.items() if now_ms() >= until_ms]
        for partition in over:
            del self.paused[partition]
        self.consumer.resume(self.consumer.assignment() & set(over))
        for partition in records.partitions():
            if partition not in self.paused:  # which cannot be
                self.work(records.records(partition))
                self.paused[partition] = now_ms() + 15_000
                self.consumer.pause([partition])
        self.consumer.commit()


class PausesAgain(TrustsItsPause):
    def on_partitions_assigned(self, partitions):
        self.consumer.pause([partition for partition in partitions if partition in self.paused])


# 9. The assumptions of eager rebalances, under cooperative-sticky


class StartsAfresh(Application):
    """Collects some records before it processes them."""

    settings = COOPERATIVE

    def __init__(self, consumer, store):
        super().__init__(consumer, store)
        self.batches = {}

    def on_partitions_assigned(self, partitions):
        self.batches = {}  # an eager rebalance begins with no partition

    def process(self, records):
        for partition in records.partitions():
            self.batches.setdefault(partition, []).append(records.records(partition))
        batches = [batch for batches in self.batches.values() for batch in batches]
        if sum(map(len, batches)) >= 5:
            for batch in batches:
                self.work(batch)
            self.batches = {}
            self.consumer.commit()


class DropsWhatItGivesUp(StartsAfresh):
    def on_partitions_assigned(self, partitions):
        pass  # the others stay

    def on_partitions_revoked(self, partitions):
        for partition in partitions:
            self.batches.pop(partition, None)


# 10. A seek to a stale position


class RemembersPositions(Application):
    def __init__(self, consumer, store):
        super().__init__(consumer, store)
        self.positions = {}

    def on_partitions_assigned(self, partitions):
        for partition in self.positions.keys() & set(partitions):
            self.consumer.seek(partition, self.positions[partition])

    def process(self, records):
        self.work(records)
        self.positions |= records.next_offsets()
        self.consumer.commit()


class ForgetsPositions(RemembersPositions):
    def on_partitions_revoked(self, partitions):
        for partition in partitions:
            self.positions.pop(partition, None)


# 11. Retries after CommitFailed


class DropsTheCommit(Application):
    def process(self, records):
        self.work(records)
        with suppress(CommitFailedError, RebalanceInProgressError):  # others process them again
            self.consumer.commit(records.next_offsets())


class Insists(Application):
    failed = None

    def process(self, records):
        self.work(records)
        try:
            if self.failed is not None:
                self.consumer.commit(self.failed)
                self.failed = None
            self.consumer.commit(records.next_offsets())
        except (CommitFailedError, RebalanceInProgressError):
            self.failed = records.next_offsets()


# 12. Exactly once, without fencing


class ExactlyOnce(Application):
    """Writes a bill for each record, and commits offsets, in one transaction."""

    settings = MappingProxyType({**MANUAL, "max.poll.records": 10})  # it ends within its timeout

    def __init__(self, consumer, store):
        super().__init__(consumer, store)
        self.store["starts"] = number = self.store.get("starts", 0) + 1
        self.producer = producer(
            {"transactional.id": f"billing-{number}", "transaction.timeout.ms": 10_000}
        )
        self.producer.init_transactions()

    def process(self, records):
        if not len(records):
            return
        self.producer.begin_transaction()
        try:
            for record in records:
                self.producer.send("bills", value=tuple(record[:3]))
            self.producer.send_offsets_to_transaction(records.next_offsets(), self.group())
            self.producer.commit_transaction()
        except KafkaError:
            with suppress(KafkaError):
                self.producer.abort_transaction()
            raise  # it starts again, from the committed offsets

    def group(self):
        return self.consumer.group_metadata()


class ExactlyOnceByName(ExactlyOnce):
    def group(self):  # as before KIP-447: any process may commit
        return ConsumerGroupMetadata("group", -1, "", None)


# What shows a mistake


def billed_twice(outcome):
    bills = Counter(record.value for record in outcome.outputs["bills"])
    return [record for record, times in bills.items() if times > 1]


def applied_twice(outcome):
    return [item for item, times in outcome.store.get("applied", {}).items() if times > 1]


def commits_that_go_back(outcome):
    highest, found = {}, []
    for commit in outcome.commits:
        for partition, offset in commit.offsets.items():
            if offset < highest.get(partition, 0):
                found.append(commit)
            highest[partition] = max(offset, highest.get(partition, 0))
    return found


class Entry(NamedTuple):
    mistaken: type
    corrected: type
    found: Any  # what is wrong with an outcome
    options: Mapping[str, Any] = MappingProxyType({})  # of the histories


MANY = {"records_per_minute": 30}  # something is under way at most moments
SLOW = {
    **MANY,
    "events": ["SlowProcessing", "Join"],
    "members": (2, 4),
    # 6.1 s at most, when it is slow. A rebalance, too, waits max.poll.interval.ms for a member,
    # which may learn of it a heartbeat interval later.
    "processing_ms": (0, 100),
}
PLANNED = {"events": ["Join", "Close", "Restart"]}
CATALOGUE = {
    "commit before processing": Entry(CommitsFirst, Application, lambda o: o.lost),
    "auto-commit with threads": Entry(HandsOver, PausesMeanwhile, lambda o: o.lost),
    "no commit when revoked": Entry(
        CommitsNowAndThen, CommitsBeforeItGivesUp, lambda o: o.repeated, PLANNED
    ),
    "async commit overtaken": Entry(
        RetriesAsynchronously,
        CommitsAsynchronously,
        commits_that_go_back,
        {**MANY, "events": ["Join", "Close", "Restart", "Failover"], "longest_ms": 2_000},
    ),
    "longer than max.poll.interval.ms": Entry(
        TakesMany,
        TakesFew,
        lambda o: o.overlaps,
        SLOW,
    ),
    "own offsets without fencing": Entry(
        OwnOffsets,
        FencedOffsets,
        applied_twice,
        {"events": ["Pause", "Join", "Close", "Crash", "Cut", "Restart"]},
    ),
    "lost treated as revoked": Entry(
        CommitsWhatIsLost,
        DropsWhatIsLost,
        lambda o: o.errors,
        SLOW,
    ),
    "pause lost over a rebalance": Entry(TrustsItsPause, PausesAgain, lambda o: o.lost),
    "eager under cooperative": Entry(
        StartsAfresh,
        DropsWhatItGivesUp,
        lambda o: o.lost,
        {"events": ["Join", "Close", "Restart", "Crash", "Pause"]},
    ),
    "seek to a stale position": Entry(
        RemembersPositions, ForgetsPositions, lambda o: o.repeated, PLANNED
    ),
    "retry after CommitFailed": Entry(
        Insists,
        DropsTheCommit,
        commits_that_go_back,
        {"events": ["Pause", "Join", "Close"]},
    ),
    "exactly once without fencing": Entry(
        ExactlyOnceByName,
        ExactlyOnce,
        billed_twice,
        {"outputs": {"bills": 1}, "events": ["Pause", "Crash", "Join", "Restart"]},
    ),
}
