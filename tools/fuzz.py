"""Damage real logs and frames for some seconds; every reader must return or raise a CoterieError.

Some inputs are histories of a group (``fuzz_histories.py``), or traces of groups of both protocols
(``fuzz_groups.py``).

``python tools/fuzz.py SECONDS [SEED]``: the input with number N depends on SEED + N only. Its
number is in ``build/fuzz/running`` while it runs, so a crash of the process names its input, and
``python tools/fuzz.py 0 THAT_NUMBER`` runs it again. ``make fuzz`` uses the build with sanitizers,
in which a read past a buffer is a crash.
"""

import contextlib
import random
import sys
import time
from pathlib import Path

import fuzz_codec
import fuzz_groups
import fuzz_histories
import fuzz_wire
from coterie import CoterieError, ScanOptions, merge, scan
from coterie._core.codec.batch import LogReader
from coterie._core.codec.compression import crc32, crc32c
from coterie._core.fold.columns import decode_columns

ROOT = Path(__file__).parents[1]
RUNNING = ROOT / "build" / "fuzz" / "running"
RUN_BYTES_MAX = 6_000  # of a piece; smaller inputs run more often


def pieces():
    """Return runs of whole batches from every golden log."""
    runs = []
    for path in sorted((ROOT / "tests" / "golden" / "logs").rglob("*.log")):
        data = path.read_bytes()
        starts = [batch.position for batch in LogReader(data)]
        for first in range(0, len(starts) - 1, 7):
            last = min(first + 5, len(starts) - 1)
            if starts[last] - starts[first] <= RUN_BYTES_MAX:
                runs.append(data[starts[first] : starts[last]])
    return runs


def damage(rng, data):
    """Flip, overwrite, cut, repeat or drop bytes, up to eight times."""
    for _ in range(rng.randint(1, 8)):
        if not data:
            break
        at, size = rng.randrange(len(data)), rng.choice([1, 1, 2, 4, 8, 30])
        match rng.randrange(6):
            case 0:
                data[at] ^= 1 << rng.randrange(8)
            case 1:
                data[at : at + 1] = bytes([rng.choice([0, 1, 0x7F, 0x80, 0xFE, 0xFF])])
            case 2:
                data[at : at + size] = rng.randbytes(size)
            case 3:
                del data[at : at + size]
            case 4:
                data[at:at] = data[at : at + size]
            case 5:
                del data[at:]
    return data


def mend_sums(data):
    """Correct the checksums of whole batches, so that readers get to the damage."""
    at = 0
    while at + 17 <= len(data):
        size = 12 + int.from_bytes(data[at + 8 : at + 12], "big", signed=True)
        if size < 26 or at + size > len(data):
            return
        if data[at + 16] == 2 and size > 21:
            checksum = crc32c(bytes(data[at + 21 : at + size]))
            data[at + 17 : at + 21] = checksum.to_bytes(4, "big")
        elif data[at + 16] < 2:
            data[at + 12 : at + 16] = crc32(bytes(data[at + 16 : at + size])).to_bytes(4, "big")
        at += size


def read_all(data):
    """Run every reader; they may raise nothing but a CoterieError."""
    for check_crc in (True, False):
        list(LogReader(data, check_crc=check_crc))
    decode_columns(data, raw=True)
    for on_fault in ("skip", "load", "recover", "stop"):
        options = ScanOptions(on_fault=on_fault, history=True)
        with contextlib.suppress(CoterieError):
            merge([scan(data, partition=0, options=options)]).groups()


def damage_a_log(rng, real):
    """Damage a piece of a log, and run every reader on it."""
    data = damage(rng, bytearray(rng.choice(real)))
    if rng.random() < 0.7:
        mend_sums(data)
    read_all(bytes(data))


def main(seconds, seed):
    """Run inputs from ``seed`` on until the time is over, and at least one."""
    real = pieces()
    records = fuzz_codec.real_records(real) + fuzz_codec.made_records()
    wires = fuzz_wire.Wire()
    RUNNING.parent.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    number = seed
    with RUNNING.open("w") as running:
        while True:
            running.seek(0)
            running.write(f"{number:<20}")
            running.flush()
            rng = random.Random(number)
            try:
                choice = rng.random()
                if choice < 0.01:  # it takes as long as a hundred others
                    fuzz_histories.one_history(number)
                elif choice < 0.05:
                    fuzz_groups.one_trace(number)
                elif choice < 0.4:
                    damage_a_log(rng, real)
                elif choice < 0.8:
                    fuzz_codec.one_input(rng, records, damage)
                else:
                    wires.block(rng, count=20)
            except Exception as error:
                print(f"fuzz: input {number}: {type(error).__name__}: {error}", file=sys.stderr)
                raise
            number += 1
            if time.monotonic() - began >= seconds:
                break
    print(f"fuzz: {number - seed:,} inputs from number {seed}, no crash")


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else time.time_ns() // 10**9)
