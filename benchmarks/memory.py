"""Bytes a timer, a member, an offset, a key of a partial state: coterie's beside Kafka's objects.

    python benchmarks/memory.py

Each is made in a process of its own; what its resident memory grew by, divided by how many. Kafka's
are weighed by the heap in use after collecting, in the JVM of ``peers/kafka``. Prints a table.
"""

import gc
import subprocess
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))  # golden_data

PAGE_BYTES = 4096
SIZES = {"timer": 1_000_000, "member": 100_000, "offset": 1_000_000, "key": 137_385}
PEERS = {"timer": "memory-timers", "member": "memory-members", "offset": "memory-offsets"}
WHAT = {
    "timer": "armed timer (`TimerWheel`)",
    "member": "member of a group (`GroupMetadata`, three protocols, empty subscriptions)",
    "offset": "committed offset (`OffsetMap`; Kafka: `GroupMetadata.offsets`)",
    "key": "key of a partial state (`scan` of the wide log; Kafka: as above)",
}


def resident_bytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES


def timers(size):
    from coterie import TimerWheel

    wheel = TimerWheel()
    spread = np.arange(size, dtype=np.int64) * 2_654_435_761 % 60_000 + 1
    return wheel, wheel.add_many(spread, np.arange(size, dtype=np.int64))


def members(size):
    from coterie import GroupMetadata, MemberMetadata

    group = GroupMetadata("votes")
    names = ["sticky", "range", "roundrobin"]
    for i in range(size):
        protocols = [(names[(i + n) % 3], b"") for n in range(3)]
        one = MemberMetadata(f"member-{i}", None, "c", "/h", 300_000, 45_000, "consumer", protocols)
        group.add(one)
    return group


def offsets(size):
    from coterie import OffsetMap
    from coterie._core.structures.offsets import Offset

    found = OffsetMap()
    for i in range(size):
        found.commit({(f"topic-{i // 100}", i % 100): Offset(i, commit_timestamp=i)}, i)
    return found


def keys(size):
    """The wide log, folded; the bytes of the log are gone by then."""
    from coterie.state.local_replay import scan_state
    from coterie.state.partial import ScanOptions
    from coterie.state.replay_engine import Silent
    from support.golden_data import wide

    return scan_state((str(wide()),), ScanOptions(), Silent()) if size > 64 else None


MAKERS = {"timer": timers, "member": members, "offset": offsets, "key": keys}


def weigh(what):
    """Print the bytes that one of them takes; run in a process of its own."""
    make, size = MAKERS[what], SIZES[what]
    objects = make(64)  # imports, tables and free lists are there before
    gc.collect()
    before = resident_bytes()
    objects = make(size)
    gc.collect()
    grown = resident_bytes() - before
    print(grown / size if objects is not None else 0)


def kafka_bytes(what):
    import kafka_peer

    if what == "key":
        what = "offset"
    if kafka_peer.why_missing():
        return None
    size = SIZES[what]
    return int(kafka_peer.run(PEERS[what], size, warm=0, rounds=1)["answer"]) / size


def main():
    if len(sys.argv) > 1:
        weigh(sys.argv[1])
        return
    print("| what | how many | coterie | Kafka 3.9.1 |")
    print("| --- | --- | --- | --- |")
    for what, size in SIZES.items():
        result = subprocess.run(
            [sys.executable, __file__, what], check=True, capture_output=True, text=True
        )
        theirs = kafka_bytes(what)
        peer = "not measured" if theirs is None else f"{theirs:.0f} bytes"
        print(f"| {WHAT[what]} | {size:,} | {float(result.stdout):.0f} bytes | {peer} |")


if __name__ == "__main__":
    main()
