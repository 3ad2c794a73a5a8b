"""What the recorder of incidents observes while the clients work: traffic, ends, removals.

Each function returns what Kafka's protocol answered, and writes it into the truth.
"""

import threading
from contextlib import contextmanager
from time import sleep

from recorders.members import now_ms

HANG_S = 300


@contextmanager
def traffic(run, **per_second):
    """Write so many records a second to each partition, until the block ends: ``orders=(4, 10)``.

    The pair is the number of partitions and of records a second for each.
    """
    stop = threading.Event()

    def write():
        while not stop.wait(0.5):
            for topic, (partitions, number) in per_second.items():
                for partition in range(partitions):
                    for _ in range(max(number // 2, 1)):
                        run.producer.send(topic, b"x", partition=partition)

    run.note("traffic begins", per_second=per_second)
    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        run.producer.flush()
        run.note("traffic ends")


def end_offsets(run, topic):
    """The end of each partition, from the broker."""
    import kafka
    from kafka.structs import TopicPartition

    consumer = kafka.KafkaConsumer(bootstrap_servers=run.broker.address)
    places = [TopicPartition(topic, n) for n in consumer.partitions_for_topic(topic)]
    ends = {place.partition: at for place, at in consumer.end_offsets(places).items()}
    consumer.close()
    run.note("end offsets", topic=topic, offsets=ends)
    return ends


def offsets_of(run, group, admin=None):
    """The committed offsets of a group by TOPIC-PARTITION, from the coordinator."""
    answer = (admin or run.admin).list_group_offsets({group: None})[group]
    return {f"{place.topic}-{place.partition}": at.offset for place, at in answer.items()}


def await_removed(run, group, place=None, admin=None):
    """Wait until a group has no offset (for ``place``); return the interval in which it went.

    The offsets were there at the first of the two times, and gone at the second.
    """
    there_ms, since_ms = None, now_ms()
    while now_ms() < since_ms + HANG_S * 1000:
        asked_ms = now_ms()
        offsets = offsets_of(run, group, admin)
        if place in offsets if place else offsets:
            there_ms = asked_ms
            sleep(0.5)
        else:
            between_ms = [there_ms, now_ms()]
            run.note("offsets gone", group=group, between_ms=between_ms)
            return between_ms
    raise AssertionError(f"the offsets of {group} have not gone")


def last_commit(member):
    """What a client committed last, by TOPIC-PARTITION."""
    return [event for event in member.seen if event["event"] == "committed"][-1]["offsets"]


def first_records(member, count, timeout_s=60):
    """The first record that a client got of each of ``count`` partitions."""
    firsts, steps = {}, int(timeout_s / 0.2)
    for _ in range(steps):
        firsts = {
            event["partition"]: event["offset"]
            for event in list(member.seen)
            if event["event"] == "first record"
        }
        if len(firsts) == count:
            return firsts
        sleep(0.2)
    raise AssertionError(f"{member.name}: only {firsts}: {member.seen[-4:]}")


def jumps(run, kind, group, committed, firsts, **details):
    """Record a finding for each partition: the last commit, and the first record read after it."""
    for place, at in sorted(committed.items()):
        first = firsts[place]
        topic, _, partition = place.rpartition("-")
        where = {"topic": topic, "partition": int(partition)}
        records = first - at if kind == "skip" else at - first
        found = {"committed": at, "resumed": first, "records": records}
        run.finding(kind, group, **where, **found, **details)
