"""Memory of ``coterie watch`` while a log grows to 10 million records, a step for each 10,000.

    python benchmarks/watch_memory.py [--millions 10]

1,000 groups of 10 partitions, written by ``make_steady_log``: the keys stay the same, and each
group rebalances every 200 steps. Another process writes, so that the memory is the watcher's alone.
Prints a row for each million: resident memory, and the CPU time of a step and of a scrape.
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
import time
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

from coterie.log.folders import find_segments
from coterie.watch.exposition import log_lines, watch_lines
from coterie.watch.watcher import Watcher
from make_steady_log import SEGMENT_BYTES, rounds
from memory import resident_bytes

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


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--millions", type=int, default=10)
    millions = parser.parse_args().millions
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home) / "__consumer_offsets-0"
        folder.mkdir()
        ours, theirs = multiprocessing.Pipe()
        multiprocessing.Process(target=write, args=(folder, theirs), daemon=True).start()
        watcher = Watcher(partial(find_segments, [home]), None, print)
        print("| million records | memory, MB | CPU of a step, ms | of a scrape, s |")
        print("| --- | --- | --- | --- |")
        for million in range(1, millions + 1):
            begin = time.process_time()
            for _ in range(1_000_000 // RECORDS):
                ours.send(None)
                ours.recv()
                watcher.step()
            step_ms = (time.process_time() - begin) * 1_000 / (1_000_000 // RECORDS)
            begin = time.process_time()
            answers = list(watcher.answers())
            text = "".join(log_lines(answers)) + "".join(watch_lines(answers, watcher.health(), 0))
            scrape_s = time.process_time() - begin
            row = f"{million} | {resident_bytes() / 1e6:.0f} | {step_ms:.1f} | {scrape_s:.2f}"
            print(f"| {row} |", flush=True)
            del text, answers


if __name__ == "__main__":
    main()
