"""One partition of any size, as consumers write it that commit every five seconds.

    python benchmarks/make_steady_log.py DIR [--gb 1] [--groups 2000] [--partitions 50]

A request is a batch of one group's partitions, whose offsets only rise; each group rebalances now
and then. The keys stay the same: what grows is the number of records a key. Segments have about
100 MB, as a broker rolls them.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from coterie._core.codec.compression import crc32c
from coterie.messages import encode_batch, encode_key, encode_value

SEGMENT_BYTES = 100_000_000
EVERY_MS = 5_000
REBALANCE_EVERY = 200  # requests
BEGIN_MS = 1_700_000_000_000
CRC_AT, CRC_FROM = 17, 21
BASE_OFFSET_AT, BASE_TIMESTAMP_AT, MAX_TIMESTAMP_AT = 0, 27, 35
STEP = 7  # records that a consumer reads in the time


def request(group: str, partitions: int, offset: int, commit_ms: int) -> bytes:
    """Return the batch of a request to commit."""
    records = []
    for partition in range(partitions):
        key = {"type": "offset_commit", "version": 1}
        key["data"] = {"group": group, "topic": "orders", "partition": partition}
        value = {"version": 3}
        value["data"] = {"offset": offset, "leaderEpoch": -1, "metadata": ""}
        value["data"]["commitTimestamp"] = commit_ms
        records.append((partition, BEGIN_MS, encode_key(key), encode_value(1, value)))
    return encode_batch(records)


def generation(group: str, number: int, at_ms: int, base_offset: int) -> bytes:
    """Return the batch of a group's metadata: two members."""
    key = {"type": "group_metadata", "version": 2, "data": {"group": group}}
    members = [
        {
            "memberId": f"{group}-{place}-{number}",
            "groupInstanceId": None,
            "clientId": f"client-{place}",
            "clientHost": "/10.0.0.1",
            "rebalanceTimeout": 60_000,
            "sessionTimeout": 45_000,
            "subscription": b"",
            "assignment": b"",
        }
        for place in range(2)
    ]
    data = {"protocolType": "consumer", "generation": number, "protocol": "range"}
    data |= {"leader": members[0]["memberId"], "currentStateTimestamp": at_ms, "members": members}
    value = encode_value(2, {"version": 3, "data": data})
    return encode_batch([(base_offset, at_ms, encode_key(key), value)], base_offset)


def places_of(template: bytes, number: int) -> np.ndarray:
    """Return where an integer of eight bytes stands."""
    pattern, places, at = number.to_bytes(8, "big"), [], -1
    while (at := template.find(pattern, at + 1)) >= 0:
        places.append(at)
    return np.array(places)


def put(rows: np.ndarray, at: np.ndarray | int, numbers: np.ndarray) -> None:
    """Write an integer of eight bytes into each row, at one place or several."""
    raw = numbers.astype(">i8").view(np.uint8).reshape(len(rows), 8)
    for place in np.atleast_1d(at).tolist():
        rows[:, place : place + 8] = raw


def rounds(groups: int, partitions: int) -> Iterator[bytes]:
    """Yield what all groups write in five seconds, again and again."""
    mark, mark_ms = 0x1122334455667788, 0x0102030405060708
    names = [f"group-{number:06}" for number in range(groups)]
    templates = [request(name, partitions, mark, mark_ms) for name in names]
    offset_at, commit_at = places_of(templates[0], mark), places_of(templates[0], mark_ms)
    blank = np.frombuffer(b"".join(templates), np.uint8).reshape(groups, -1)
    base_offset, number = 0, 0
    while True:
        rows = blank.copy()
        times = BEGIN_MS + number * EVERY_MS + np.arange(groups) * EVERY_MS // groups
        put(rows, BASE_OFFSET_AT, base_offset + np.arange(groups) * partitions)
        put(rows, BASE_TIMESTAMP_AT, times)
        put(rows, MAX_TIMESTAMP_AT, times)
        put(rows, commit_at, times)
        put(rows, offset_at, np.full(groups, number * STEP))
        sums = np.array([crc32c(row[CRC_FROM:]) for row in rows], dtype=">u4")
        rows[:, CRC_AT:CRC_FROM] = sums.view(np.uint8).reshape(groups, 4)
        base_offset += groups * partitions
        parts = [rows.tobytes()]
        for which in range(number % REBALANCE_EVERY, groups, REBALANCE_EVERY):
            at_ms = int(times[-1])
            parts.append(
                generation(names[which], number // REBALANCE_EVERY + 1, at_ms, base_offset)
            )
            base_offset += 1
        yield b"".join(parts)
        number += 1


def write(folder: Path, size_bytes: int, groups: int, partitions: int) -> int:
    """Write the partition's segments; return their bytes."""
    folder.mkdir(parents=True)
    written, file = 0, None
    for data in rounds(groups, partitions):
        if file is None or file.tell() >= SEGMENT_BYTES:
            if file is not None:
                file.close()
            if written >= size_bytes:
                return written
            base = int.from_bytes(data[:8], "big")
            file = (folder / f"{base:020}.log").open("xb")
        file.write(data)
        written += len(data)
    raise AssertionError("rounds never end")


def main() -> None:
    """Write the log that the arguments ask for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dir", type=Path)
    parser.add_argument("--gb", type=float, default=1)
    parser.add_argument("--groups", type=int, default=2000)
    parser.add_argument("--partitions", type=int, default=50, help="of each group; at most 64")
    options = parser.parse_args()
    folder = options.dir / "__consumer_offsets-0"
    written = write(folder, int(options.gb * 1e9), options.groups, options.partitions)
    print(f"{options.dir}: {written / 1e9:.2f} GB in one partition")


if __name__ == "__main__":
    main()
