"""The cost of histories: how long many take on all cores, and what makes one of them longer.

``python benchmarks/histories.py [--count N] [--processes N] [--growth]``; histories are those of
the seeds 0, 1, ... of an application that commits after it processes.
"""

import argparse
import time
from concurrent.futures import ProcessPoolExecutor

from coterie.histories import random_history

STANDARD = {"members": 3, "topics": {"orders": 6}, "minutes": 10}
PARTS = 20
GROWTH = {
    "members": [{"members": count} for count in (1, 3, 6, 16)],
    "partitions": [{"topics": {"orders": count}} for count in (1, 6, 16, 64)],
    "minutes": [{"minutes": count} for count in (1, 10, 30, 60)],
    "records a minute": [{"records_per_minute": count} for count in (0, 6, 12, 24)],
    "events": [{"most_events": count} for count in (0, 8, 16, 32)],
}
MANUAL = {"enable.auto.commit": False}


class Application:
    settings = MANUAL

    def __init__(self, consumer, store):
        self.consumer = consumer

    def process(self, records):
        for _ in records:
            pass
        self.consumer.commit()


def run(first, last, options):
    """Run the histories of some seeds; return the CPU time, s, and how many lost or stuck."""
    began = time.process_time()
    wrong = 0
    for seed in range(first, last):
        outcome = random_history(seed, **STANDARD | options).run(Application)
        wrong += bool(len(outcome.lost) or len(outcome.stuck))
    return time.process_time() - began, wrong


def run_all(count, processes):
    """Run histories in several processes; print the time by the clock and the CPU time."""
    bounds = [count * part // PARTS for part in range(PARTS + 1)]
    began = time.monotonic()
    with ProcessPoolExecutor(processes) as pool:
        parts = list(pool.map(run, bounds[:-1], bounds[1:], [{}] * PARTS))
    wall_s, cpu_s = time.monotonic() - began, sum(cpu_s for cpu_s, _ in parts)
    wrong = sum(wrong for _, wrong in parts)
    print(
        f"{count:,} histories, {processes} processes: {wall_s:.1f} s by the clock, "
        f"{cpu_s / count * 1000:.1f} ms of CPU each; {wrong} lost records or were stuck"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--growth", action="store_true")
    options = parser.parse_args()
    if options.growth:
        for name, steps in GROWTH.items():
            for step in steps:
                cpu_s, _ = run(0, options.count, step)
                (value,) = step.values()
                print(f"{name}: {value}: {cpu_s / options.count * 1000:.1f} ms", flush=True)
    else:
        run_all(options.count, options.processes)


if __name__ == "__main__":
    main()
