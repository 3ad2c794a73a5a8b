"""Memory of ``coterie watch`` while a log grows to 10 million records, a step for each 10,000.

    python benchmarks/watch_memory.py [--millions 10]

1,000 groups of 10 partitions, written by ``make_steady_log``: the keys stay the same, and each
group rebalances every 200 steps. Another process writes, so that the memory is the watcher's alone.
Prints a row for each million: resident memory (Linux: after a scrape, of that what only this
process has, and the most since the row before), and the CPU time of a step and of a scrape.
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

from coterie.base import malloc_trim as heap
from coterie.live.watcher import Watcher
from coterie.live.web import Web, trimming
from coterie.log.folders import find_segments
from make_steady_log import SEGMENT_BYTES, rounds

GROUPS, PARTITIONS = 1_000, 10
RECORDS = GROUPS * PARTITIONS  # of a step


def write(folder: Path, turn: Connection) -> None:
    """Append what all groups commit in five seconds, each time that it is asked for."""
    path = None
    for data in rounds(GROUPS, PARTITIONS):
        turn.recv()
        if path is None or path.stat().st_size >= SEGMENT_BYTES:
            path = folder / f"{int.from_bytes(data[:8], 'big'):020}.log"
        with path.open("ab") as file:
            file.write(data)
        turn.send(None)


def memory() -> tuple[float, float, float]:
    """Return MB: resident, private, the most resident since the last call."""
    of_self = Path("/proc/self")
    rollup, status = ((of_self / name).read_text() for name in ("smaps_rollup", "status"))
    kib = {
        name.rstrip(":"): int(size) for name, size, *_ in map(str.split, rollup.splitlines()[1:])
    }
    most = int(status.partition("VmHWM:")[2].split()[0])
    (of_self / "clear_refs").write_text("5")
    private = kib["Private_Clean"] + kib["Private_Dirty"]
    return kib["Rss"] * 1.024e-3, private * 1.024e-3, most * 1.024e-3


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--millions", type=int, default=10)
    millions = parser.parse_args().millions
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home) / "__consumer_offsets-0"
        folder.mkdir()
        ours, theirs = multiprocessing.Pipe()
        another = multiprocessing.get_context("spawn")  # a fork would share its pages
        another.Process(target=write, args=(folder, theirs), daemon=True).start()
        heap.keep_little()
        watcher = Watcher(partial(find_segments, [home]), None, print)
        web = Web(watcher, ThreadPoolExecutor(1), 0, lambda: 0, 5)
        step, scrape = trimming(watcher.step), trimming(web.metrics)
        print("| million records | memory, MB | private | at most | step, ms | scrape, s |")
        print("| --- | --- | --- | --- | --- | --- |")
        for million in range(1, millions + 1):
            begin = time.process_time()
            for _ in range(1_000_000 // RECORDS):
                ours.send(None)
                ours.recv()
                step()
            step_ms = (time.process_time() - begin) * 1_000 / (1_000_000 // RECORDS)
            begin = time.process_time()
            scrape()
            scrape_s = time.process_time() - begin
            figures = " | ".join(f"{figure:.0f}" for figure in memory())
            print(f"| {million} | {figures} | {step_ms:.1f} | {scrape_s:.2f} |", flush=True)


if __name__ == "__main__":
    main()
