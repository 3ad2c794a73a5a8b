"""What the machine allows, beside what coterie takes: the bare loop of a fold, memory bandwidth.

    python benchmarks/limits/limits.py

One core; the least CPU time of some rounds. Needs a C compiler as ``cc``, and the wide log.

``scan`` executes 1.6 times as many instructions as the bare loop: 428 a record, where that takes
262. 274 of them read records and queue commits, 54 put commits into the table, 24 are checksums and
12 copy metadata. The loop leaves out group metadata, the table's memory and faults. In CPU time
``scan`` took 1.29 to 1.33 times the loop on an Intel Xeon, and 1.65 to 1.98 times on an AMD EPYC.
The additional instructions are hidden only where the loop waits for memory, which ``scan``
prefetches. How long each waits was not measured.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from coterie import expired, scan
from coterie._core.fold.columns import decode_columns
from coterie._core.fold.fold import offset_columns
from coterie.log.folders import find_segments, read_segment

HOME = Path(__file__).parent
ROOT = HOME.parent.parent
sys.path.insert(0, str(ROOT / "tests"))


ROUNDS = 20
OFFSETS = 10_000_000
OFFSET_BYTES = 8 + 8 + 1  # commit time and own expiry in, one answer out
DAY_MS = 86_400_000


def least(work):
    """Seconds of CPU, the least of some rounds."""
    found = []
    for _ in range(ROUNDS):
        began = time.process_time()
        work()
        found.append(time.process_time() - began)
    return min(found)


def one_by_one(work, logs):
    """Each result goes before the next is made."""
    for data in logs:
        work(data)


def bare_fold(logs, folder):
    """Seconds of the straight C loop, and that it found what the fold finds."""
    program, files = folder / "fold", []
    options = ["-O3", "-Wall", f"-I{ROOT / 'src' / 'c'}", str(HOME / "fold.c"), "-o", str(program)]
    subprocess.run(["cc", *options], check=True)
    for number, data in enumerate(logs):
        files.append(folder / f"{number}.log")
        files[-1].write_bytes(data)
    told = subprocess.run(
        [program, str(ROUNDS), *files], check=True, capture_output=True, text=True
    ).stdout.split()
    keys = total = 0
    for data in logs:
        (one,) = scan(data).partitions.values()
        offsets = offset_columns(one)["offset"]
        keys, total = keys + len(offsets), total + int(offsets.sum())
    assert (int(told[0]), int(told[1])) == (keys, total), told
    return int(told[2]), float(told[3])


def main():
    from support.golden_data import wide

    segments = find_segments([wide()]).segments
    logs = [bytes(read_segment(segment)) for segment in segments]
    with tempfile.TemporaryDirectory() as folder:
        records, bare = bare_fold(logs, Path(folder))
    size = sum(map(len, logs))
    rows = [
        ("the bare loop of a fold, in C", bare),
        ("`scan`", least(lambda: one_by_one(scan, logs))),
        ("`decode_columns`", least(lambda: one_by_one(decode_columns, logs))),
    ]
    print("| over the wide log | CPU time | records/s | log read |")
    print("| --- | --- | --- | --- |")
    for name, seconds in rows:
        rate, read = records / seconds / 1e6, size / seconds / 1e9
        print(f"| {name} | {seconds * 1e3:.1f} ms | {rate:.1f} M | {read:.2f} GB/s |")
    block, other = np.zeros(50_000_000), np.zeros(50_000_000)
    read, copied = least(block.sum), least(lambda: np.copyto(other, block))
    commit = np.arange(OFFSETS, dtype=np.int64) % 2 * 2 * DAY_MS
    none = np.full(OFFSETS, -1, dtype=np.int64)
    filtered = least(lambda: expired(commit, none, 2 * DAY_MS, DAY_MS))
    print("\n| memory | bytes | rate |\n| --- | --- | --- |")
    print(f"| read (numpy's sum) | {block.nbytes:,} | {block.nbytes / read / 1e9:.1f} GB/s |")
    both = 2 * block.nbytes
    print(f"| copied (read and written) | {both:,} | {both / copied / 1e9:.1f} GB/s |")
    touched = OFFSETS * OFFSET_BYTES
    print(f"| `expired`, {OFFSETS:,} offsets | {touched:,} | {touched / filtered / 1e9:.1f} GB/s |")


if __name__ == "__main__":
    main()
