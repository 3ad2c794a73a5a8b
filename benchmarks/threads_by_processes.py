"""Two threads over a log beside what the machine gives two processes at once, in turn.

    python benchmarks/threads_by_processes.py DIR [--gb 1] [--rounds 9]

A log of ``make_big_log.py`` in four partitions and one in a single partition are made in DIR. Each
round folds the log on one thread, on two, and in two processes at once, each the whole log on one
thread: twice the work. What these reach beside one process is the most that two threads can reach:
two cores share a cache and the memory's bandwidth, and here with other machines. Prints medians.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import make_big_log
from coterie import PartialState, ScanOptions
from coterie.log.folders import Listing, find_segments
from coterie.state.parallel_scan import fold_log

GOLDEN = Path(__file__).parents[2] / "shared/golden/logs"
Took = tuple[float, float]


def fold(listing: Listing, threads: int) -> Took:
    """Fold a log; return seconds by the clock and of this process's CPU."""
    state = PartialState(ScanOptions())  # it goes when the clock has been read
    began, cpu_s = time.perf_counter(), time.process_time()
    with closing(fold_log(state, listing, threads)) as steps:
        for _ in steps:
            pass
    return time.perf_counter() - began, time.process_time() - cpu_s


def at_once(pool: multiprocessing.pool.Pool, listing: Listing) -> Took:
    """Fold the whole log in each of two processes; return the clock, and the CPU of one."""
    began = time.perf_counter()
    costs = pool.starmap(fold, [(listing, 1)] * 2, chunksize=1)
    return time.perf_counter() - began, statistics.mean(cpu_s for _, cpu_s in costs)


def made(home: Path, size_bytes: int, count: int) -> Listing:
    """Return the listing of so many partitions of the wide log, of that size in all."""
    log = home / f"threads-{size_bytes}-{count}"
    partitions = find_segments([GOLDEN / "wide"]).partitions()
    for number, segments in list(partitions.items())[:count]:
        folder = log / f"__consumer_offsets-{number}"
        if not folder.exists():
            make_big_log.write_partition(segments, folder, size_bytes // count)
    return find_segments([log])


def main() -> None:
    """Measure in turn."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dir", type=Path)
    parser.add_argument("--gb", type=float, default=1)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    print("| partitions | 1 thread | 2 threads | times as fast | 2 processes at once | times |")
    print("| --- | --- | --- | --- | --- | --- |", flush=True)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        for count in (4, 1):
            listing = made(options.dir, int(options.gb * 1e9), count)
            ways: list[Callable[[], Took]] = [
                lambda listing=listing: fold(listing, 1),
                lambda listing=listing: fold(listing, 2),
                lambda listing=listing: at_once(pool, listing),
            ]
            for way in ways:
                way()  # the page cache holds it, and each process has begun
            rounds = [[way() for way in ways] for _ in range(options.rounds)]
            one, two, both = (
                [statistics.median(column) for column in zip(*way, strict=True)]
                for way in zip(*rounds, strict=True)
            )
            figures = [f"{wall_s:.2f} s, CPU {cpu_s:.2f}" for wall_s, cpu_s in (one, two, both)]
            threads, processes = one[0] / two[0], 2 * one[0] / both[0]
            print(
                f"| {count} | {figures[0]} | {figures[1]} | {threads:.2f} | {figures[2]} each"
                f" | {processes:.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
