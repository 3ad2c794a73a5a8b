"""How the costs of a consumer group grow: members, partitions, regular expressions; its memory.

    python benchmarks/consumer_groups_growth.py

Each row is measured in a process of its own, as the least CPU time of some rounds. Memory is what
the resident memory of that process grew by. Kafka's is the heap in use after collecting, of the JVM
of ``peers/kafka-4``, which also holds the image and the timers. Prints tables.
"""

import gc
import json
import subprocess
import sys
import time

import kafka_peer
from memory import resident_bytes

ROUNDS = 5
TOPIC_PARTITIONS = 100  # where there are several topics
ROWS = {
    "members": [10, 100, 1000, 10_000],
    "partitions": [10, 100, 1000, 10_000, 100_000],
    "regexes": [1, 10, 100, 1000],
}


class NoLog:
    """A log that takes every batch and holds none, as the peer's does."""

    def __init__(self):
        self.end = 0

    def append(self, batch):
        self.end += len(batch.records)
        return self.end - len(batch.records)

    def read(self):
        return ()


def coordinator(topics):
    from coterie import GroupCoordinator

    config = {"coterie.behaviour": "4.4", "group.consumer.assignment.interval.ms": 0}
    made = GroupCoordinator(config, log_sink=NoLog())
    made.set_topics(topics)
    return made


def join(made, number, **subscription):
    if not subscription:
        subscription = {"subscribed_topic_names": ["t"]}
    return made.consumer_group_heartbeat(
        "g", f"member-{number}", rebalance_timeout_ms=60_000, topic_partitions=[], **subscription
    )


def least_us(call, rounds=ROUNDS):
    """The least CPU time of a call in microseconds."""
    spent = []
    for _ in range(rounds):
        began = time.process_time_ns()
        call()
        spent.append(time.process_time_ns() - began)
    return min(spent) / 1000


def members(size):
    """A join, which assigns all; a heartbeat that changes nothing; bytes of a member."""
    join(coordinator({"t": 1}), 0)  # imports, tables and free lists are there before
    made = coordinator({"t": size + 2 * ROUNDS})
    gc.collect()
    before = resident_bytes()
    for number in range(size):
        join(made, number)
        made.take_events()
    gc.collect()
    grown = resident_bytes() - before
    more = iter(range(size, size + ROUNDS))
    joins_us = least_us(lambda: join(made, next(more)))
    epoch = join(made, size + ROUNDS).member_epoch
    beats_us = least_us(
        lambda: made.consumer_group_heartbeat("g", f"member-{size + ROUNDS}", epoch), 50
    )
    return {"join_us": joins_us, "heartbeat_us": beats_us, "bytes": grown / size}


def partitions(size):
    """One member joins 100, which share so many partitions of topics of 100."""
    count = max(size // TOPIC_PARTITIONS, 1)
    names = [f"t{n}" for n in range(count)]
    made = coordinator(dict.fromkeys(names, min(size, TOPIC_PARTITIONS)))
    for number in range(100):
        join(made, number, subscribed_topic_names=names)
    more = iter(range(100, 100 + ROUNDS))
    return {"join_us": least_us(lambda: join(made, next(more), subscribed_topic_names=names))}


def regexes(size):
    """A member for each expression joins; the heartbeat resolves all over 10,000 topics."""
    made = coordinator(dict.fromkeys([f"topic-{n:05}" for n in range(10_000)], 1))
    epoch = join(made, 0, subscribed_topic_regex="topic-000.*").member_epoch
    for number in range(1, size):
        join(made, number, subscribed_topic_regex=f"topic-{number:03}.*")
    made.advance(20_000)  # expressions are resolved every 10 s at most
    began = time.process_time_ns()
    made.consumer_group_heartbeat("g", "member-0", epoch)
    return {"resolve_us": (time.process_time_ns() - began) / 1000}


WORK = {"members": members, "partitions": partitions, "regexes": regexes}


def measured(work, size):
    done = subprocess.run(
        [sys.executable, __file__, work, str(size)], check=True, capture_output=True, text=True
    )
    return json.loads(done.stdout)


def main():
    if len(sys.argv) > 1:
        print(json.dumps(WORK[sys.argv[1]](int(sys.argv[2]))))
        return
    print("| members, a partition each | join, µs | heartbeat, µs | bytes a member | Kafka |")
    print("| --- | --- | --- | --- | --- |")
    for size in ROWS["members"]:
        row = measured("members", size)
        theirs = ""
        if not kafka_peer.why_missing(kafka_peer.KAFKA_4):
            answer = kafka_peer.run(
                "memory-consumer-members", size, warm=0, rounds=1, peer=kafka_peer.KAFKA_4
            )["answer"]
            theirs = f"{int(answer) / size:,.0f}"
        print(f"| {size:,} | {row['join_us']:,.0f} | {row['heartbeat_us']:.1f} | "
              f"{row['bytes']:,.0f} | {theirs} |")  # fmt: skip
    for work, head in [
        ("partitions", "| partitions of 100 members | join, µs |"),
        ("regexes", "| expressions, 10,000 topics | resolving all, µs |"),
    ]:
        print(f"\n{head}\n| --- | --- |")
        for size in ROWS[work]:
            print(f"| {size:,} | {next(iter(measured(work, size).values())):,.0f} |", flush=True)


if __name__ == "__main__":
    main()
