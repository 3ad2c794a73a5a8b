"""Hours of healthy groups, simulated by a seed: records arrive at random, consumers read them all.

Each group has another habit: it commits all partitions every five seconds or only those that moved;
its records come steadily, by day only, in bursts, or seldom; its consumers restart and catch up.
"""

import random
from typing import NamedTuple

from support.insight.lives import commit, life, member
from support.log_writer import batch, marker

START = 1_795_000_000_000
HOUR = 3_600_000
PARTITIONS = 6


class Habit(NamedTuple):
    """How a group lives; times in ms, rates in records a second of one partition."""

    rates: tuple
    interval: int = 5000  # between two commits
    idle_commits: bool = True  # partitions that did not move are committed, too
    speed: int = 3000  # the most records a second that it reads
    burst: tuple = ()  # every so many ms, so many records at once
    silent: tuple = ()  # no records from, until (ms of the hours)
    restart: tuple = ()  # every so many ms, away for so many ms
    transactional: bool = False


HABITS = {
    b"steady": Habit((5, 20, 80, 300, 1, 40)),
    b"skewed": Habit((0.02, 0.2, 1, 30, 400, 0.005), idle_commits=False),
    b"polls": Habit((3, 3, 3, 3, 3, 3), interval=300, idle_commits=False),
    b"bursts": Habit((0.1,) * PARTITIONS, burst=(55 * 60_000, 30_000)),
    b"small-bursts": Habit((0.3,) * PARTITIONS, burst=(20 * 60_000, 4000), speed=10_000),
    b"night": Habit((10, 12, 9, 14, 3, 30), silent=(3 * HOUR, 6 * HOUR)),
    b"night-manual": Habit((1, 2, 3, 4, 5, 6), idle_commits=False, silent=(2 * HOUR, 8 * HOUR)),
    b"restarts": Habit((50, 60, 70, 80, 90, 100), restart=(90 * 60_000, 45_000)),
    b"long-restarts": Habit((20,) * PARTITIONS, restart=(3 * HOUR, 10 * 60_000), speed=20_000),
    b"seldom": Habit((0.0005,) * PARTITIONS, interval=30_000),
    b"transactions": Habit((30,) * PARTITIONS, interval=10_000, transactional=True),
}


def group_log(name, habit, hours, rng):
    """(ms, records, header) of each append of a group."""
    produced, read = [0.0] * PARTITIONS, [0] * PARTITIONS
    me = member(f"{name.decode()}-1", held={"t": list(range(PARTITIONS))})
    generation, last, away_until = 1, [None] * PARTITIONS, 0
    yield 0, [life(START, generation, me, group=name)], {}
    at = rng.randrange(habit.interval)
    next_burst = rng.randrange(habit.burst[0]) if habit.burst else None
    next_restart = habit.restart[0] if habit.restart else None
    while at < hours * HOUR:
        seconds = habit.interval / 1000
        silent = habit.silent and habit.silent[0] <= at < habit.silent[1]
        for partition, rate in enumerate(habit.rates):
            mean = 0 if silent else rate * seconds
            produced[partition] += (
                max(rng.gauss(mean, mean**0.5), 0)
                if mean > 20
                else sum(rng.random() < mean / 40 for _ in range(40))
            )
        if next_burst is not None and at >= next_burst:
            produced = [count + habit.burst[1] * rng.uniform(0.5, 1.5) for count in produced]
            next_burst += habit.burst[0]
        if next_restart is not None and at >= next_restart:
            yield at, [life(START + at, generation + 1, group=name)], {}
            away_until, next_restart = at + habit.restart[1], next_restart + habit.restart[0]
        if away_until:
            if at < away_until:
                at += habit.interval
                continue
            away_until, generation = 0, generation + 2
            yield at, [life(START + at, generation, me, group=name)], {}
        offsets = {}
        for partition in range(PARTITIONS):
            most = read[partition] + int(habit.speed * seconds)
            read[partition] = min(int(produced[partition]), most)
            if habit.idle_commits or read[partition] != last[partition]:
                offsets[partition] = last[partition] = read[partition]
        if offsets:
            header = {"producer_id": 77, "transactional": True} if habit.transactional else {}
            yield at, commit(START + at, offsets, name), header
        at += habit.interval + rng.randrange(-20, 20)


def healthy_log(folder, hours, seed, habits=HABITS):
    """Write the log of all groups as a partition; return the number of commits."""
    rng = random.Random(seed)
    appends = [
        append for name, habit in habits.items() for append in group_log(name, habit, hours, rng)
    ]
    appends.sort(key=lambda append: append[0])
    offset, commits = 0, 0
    place = folder / "__consumer_offsets-0"
    place.mkdir(parents=True)
    with (place / f"{0:020}.log").open("wb") as file:
        for at, records, header in appends:
            file.write(batch(offset, records, **header))
            offset += len(records)
            commits += len(records)
            if header:
                file.write(marker(offset, header["producer_id"], START + at + 20, commit=True))
                offset += 1
    return commits
