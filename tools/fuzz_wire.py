"""The wire protocol's part of ``fuzz.py``: damaged frames of every API and version, both ways.

Each frame must be refused or read; what was read must encode, and decode to itself. Heartbeats
and commits come as a connection has them, several at once and cut.
``python tools/fuzz_wire.py FRAMES [SEED]`` damages so many frames alone; ``tools/sanitize
.venv/bin/python tools/fuzz_wire.py 10000000`` does it over the build with sanitizers.
"""

import base64
import contextlib
import gzip
import json
import random
import sys
import time
from pathlib import Path
from types import SimpleNamespace

from coterie import wire
from coterie._core.coordinator.coordinator import Coordinator
from coterie._core.fast_path.dispatch import answer_quick
from coterie.base.schemas import SECTIONS
from coterie.coordinator.config import coordinator_config
from coterie.errors import CoterieError

ROOT = Path(__file__).parents[1]
GOLDEN = ROOT.parent / "shared" / "golden" / "wire" / "frames" / "frames.jsonl.gz"
RUNNING = ROOT / "build" / "fuzz" / "wire"
FRAMES_A_BLOCK = 500  # one random source each, and one number to run them again
OFFSET_COMMIT, HEARTBEAT, CONSUMER_HEARTBEAT = 8, 12, 68
LONGEST = 100_000
TEXTS = ["", "t", "группа", "x" * 127, "é\0📦", "y" * 300]
BYTES = [0, 1, 2, 0x7F, 0x80, 0xFE, 0xFF]
LENGTHS = [b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\x07", b"\x80\0\0\0"]


def value_of(rng, field):
    """Make a value for one field of the table."""
    _, kind, _, _, null_first, null_last, _, _, below = field
    if null_first <= null_last and rng.random() < 0.2:
        return None
    if kind.startswith("[]"):
        element = (None, kind[2:], 0, 0, 1, 0, -1, None, below)
        return [value_of(rng, element) for _ in range(rng.choice([0, 1, 1, 2]))]
    if kind == "struct":
        return body_of(rng, below)
    if kind == "string":
        return rng.choice(TEXTS)
    if kind in ("bytes", "records"):
        return rng.randbytes(rng.choice([0, 1, 30]))
    if kind == "uuid":
        return "kFFYiBDeylhk_4koGvSzCw"
    if kind == "bool":
        return rng.random() < 0.5
    return rng.choice([0, 1, -1 if kind.startswith("int") else 5, 100])


def body_of(rng, fields):
    """Make a body with fields of any version; null where a version does not allow it is left."""
    found = {}
    for field in fields:
        value = value_of(rng, field)
        if value is not None or rng.random() < 0.5:
            found[field[0]] = value
    if rng.random() < 0.1:
        found["_unknown_tags"] = [(77, b"x"), (rng.randrange(1 << 32), b"")]
    return found


def whole_frames(rng):
    """Make some frames of every message: (key, version, is a request, frame)."""
    found = []
    for api in wire.APIS.values():
        for direction in ("request", "response"):
            fields = SECTIONS[api.name].fields(direction)
            for version in range(api.first_version, api.last_version + 1):
                found += made(rng, api.key, version, direction == "request", fields)
    return found


def made(rng, key, version, is_request, fields):
    """Make frames of one message; a null that the version does not allow is tried again."""
    found = []
    for _ in range(12):
        encode = wire.encode_request if is_request else wire.encode_response
        try:
            frame = encode(key, version, body_of(rng, fields))
        except CoterieError:
            continue
        found.append((key, version, is_request, frame))
    return found


def golden_frames():
    """Those that Kafka's own classes wrote, where the golden data are: as ``whole_frames``."""
    if not GOLDEN.exists():
        return []
    with gzip.open(GOLDEN) as file:
        rows = [json.loads(line) for line in file]
    return [(row["key"], row["version"], row["direction"] == "request",
             base64.b64decode(row["frame"])) for row in rows]  # fmt: skip


def damaged(bits, frame):
    """Change a few bytes behind the api key, as the bits say: 26 of them for each change.

    One draw of many bits: a call of the random source for each choice took as long as all else.
    """
    data = bytearray(frame)
    changes = 1 + (bits & 3)
    bits >>= 2
    for _ in range(changes):
        case, size, at = bits & 7, bits >> 3 & 0x7F, 4 + (bits >> 10 & 0xFFFF) % (len(data) - 3)
        bits >>= 26
        if case == 0:
            del data[at:]
        elif case == 1:
            data[at:at] = data[at : at + 1 + size % 19]
        elif case == 2:
            data[at : at + 4] = LENGTHS[size & 3]
        elif case == 3:
            del data[at : at + 1 + (size & 3)]
        elif at < len(data):
            data[at] = BYTES[size % len(BYTES)] if case < 6 else data[at] ^ 1 << (size & 7)
        if len(data) < 5:
            break
    return bytes(data)


def check(fill, key, version, is_request, frame):
    """Read a frame; what it says is written, and that read and written again. True if it was read.

    The second writing is compared: the first one sorts unknown tags. As rows it is read, or
    refused, too.
    """
    encode = wire.encode_request if is_request else wire.encode_response
    try:
        key, version, body = read(key, version, is_request, frame, fill=fill, tags=True)
    except wire.WireError:
        assert not check_rows(encode, key, version, is_request, frame)
        return False
    assert check_rows(encode, key, version, is_request, frame)
    try:
        again = encode(key, version, body)
    except CoterieError:  # a text of U+FFFD has outgrown its length
        return True
    assert (
        encode(key, version, read(key, version, is_request, again, fill=fill, tags=True)[2])
        == again
    )
    return True


def check_rows(encode, key, version, is_request, frame):
    """Read a frame as rows, and write them. True if it was read."""
    try:
        key, version, row = read(key, version, is_request, frame, rows=True)
    except wire.WireError:
        return False
    with contextlib.suppress(CoterieError):
        encode(key, version, row)
    return True


def read(key, version, is_request, frame, **how):
    """Read a frame: which message it is, and its body."""
    if not is_request:
        return key, version, wire.decode_response(key, version, frame, **how).body
    found = wire.decode_request(frame, **how)
    return found.api_key, found.api_version, found.body


class Wire:
    """Frames to damage, and a coordinator for heartbeats and commits."""

    def __init__(self):
        rng = random.Random(1)
        self.frames = whole_frames(rng) + golden_frames()
        quick = (HEARTBEAT, CONSUMER_HEARTBEAT, OFFSET_COMMIT)
        self.quick = [f for key, _, is_request, f in self.frames if key in quick and is_request]
        commits = [frame for frame in self.quick if frame[:2] == b"\0\x08"]
        self.topics = {
            topic["name"]: SimpleNamespace(name=topic["name"], partitions=range(100))
            for frame in commits for topic in wire.decode_request(frame, fill=True).body["topics"]
        }  # fmt: skip
        self.settings = coordinator_config({})

    def block(self, rng, count=FRAMES_A_BLOCK):
        """Damage so many frames; how many of them were read."""
        read = 0
        for _ in range(count):
            bits = rng.getrandbits(128)
            key, version, is_request, frame = self.frames[bits % len(self.frames)]
            bits >>= 20
            read += check(bits & 1, key, version, is_request, damaged(bits >> 1, frame))
        self.stream(rng)
        return read

    def stream(self, rng):
        """Give a run of heartbeats and commits, some damaged, and its end cut."""
        core = Coordinator(self.settings, 1000)  # its log would grow
        data = b""
        for _ in range(rng.randrange(1, 6)):
            frame = rng.choice(self.quick)
            frame = damaged(rng.getrandbits(106), frame) if rng.random() < 0.4 else frame
            data += len(frame).to_bytes(4, "big") + frame
        data = data[: rng.randrange(len(data) + 1)]
        position, answers = answer_quick(core, self.topics, data, 0, LONGEST, None, str)
        assert 0 <= position <= len(data)
        assert bool(position) == bool(answers)


def main(frames, seed):
    """Run blocks from ``seed`` on until so many frames are done."""
    wires = Wire()
    RUNNING.parent.mkdir(parents=True, exist_ok=True)
    done = read = 0
    number = seed
    began = time.monotonic()
    with RUNNING.open("w") as running:
        while done < frames:
            running.seek(0)
            running.write(f"{number:<20}")
            running.flush()
            read += wires.block(random.Random(number))
            done += FRAMES_A_BLOCK
            number += 1
            if (number - seed) % 2000 == 0:
                print(f"fuzz: {done:,} frames, {time.monotonic() - began:.0f} s", flush=True)
    summary = f"{done:,} frames in blocks {seed} to {number - 1}, {read:,} of them read, no crash"
    print(f"fuzz: {summary}")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else time.time_ns() // 10**9)
