"""The headers of src/c on other processors: ARM, and x86 without the fast instructions.

A driver in C is compiled for each machine with every warning an error, and run by qemu. Its results
are compared with models, zlib, and coterie on this machine, which has tests of its own. A machine
whose tools are not installed is skipped by name: tests/README.md says how to get them.
"""

import functools
import itertools
import os
import platform
import random
import shutil
import struct
import subprocess
import sys
import zlib
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from coterie import expired, select_protocols
from coterie._core.codec import compression as checksum

HEADERS = Path(__file__).parents[2] / "src" / "c"
DRIVER = Path(__file__).with_name("headers_driver.c")
WARNINGS = ("-std=c11", "-O3", "-Wall", "-Wextra", "-Werror")
X86 = platform.machine() in ("x86_64", "AMD64")
WORD = 2**64 - 1


class Machine(NamedTuple):
    """A compiler with its flags, and the processor that runs what comes out."""

    compilers: tuple[str, ...]
    flags: tuple[str, ...]
    runners: tuple[str, ...]  # any of these programs; none: this machine itself
    processor: str
    lanes: int | None  # the road of CRC-32C that it must take; None: whichever it has
    install: str  # what Debian calls the packages
    environment: tuple[tuple[str, str], ...] = ()
    byte_order: str = sys.byteorder
    votes: int | None = 1  # whether it looks up 16 bytes at once; None: whichever


def x86(processor, lanes, votes=1):
    compilers = ("cc", "gcc", "clang") if X86 else ("x86_64-linux-gnu-gcc",)
    flags = () if X86 else ("-static",)
    install = "qemu-user gcc" if X86 else "qemu-user gcc-x86-64-linux-gnu libc6-dev-amd64-cross"
    runners = ("qemu-x86_64", "qemu-x86_64-static")
    return Machine(compilers, flags, runners, processor, lanes, install, votes=votes)


def arm(processor, lanes, *flags, environment=()):
    install = "qemu-user gcc-aarch64-linux-gnu libc6-dev-arm64-cross"
    flags = ("-static", "-DCOTERIE_WRAP_AUXV", "-Wl,--wrap=getauxval", *flags)
    runners = ("qemu-aarch64", "qemu-aarch64-static")
    return Machine(
        ("aarch64-linux-gnu-gcc",), flags, runners, processor, lanes, install, environment
    )


MACHINES = {
    "this machine": Machine(("cc", "gcc", "clang"), (), (), "", None, "gcc", votes=None),
    "x86-64 of 2003": x86("qemu64", 0, votes=0),
    "x86-64 with SSE4.2, without PCLMUL": x86("Nehalem", 1),
    "x86-64 with SSE4.2, PCLMUL and AVX2": x86("max", 3),
    "ARMv8.0 with CRC32": arm("cortex-a53", 1),
    "ARMv8.0 whose kernel tells of no CRC32": arm(
        "cortex-a53", 0, environment=(("COTERIE_NO_HWCAP", "1"),)
    ),
    "ARM with all that qemu has": arm("max", 1),
    "ARM, compiled for CRC32 alone": arm("max", 1, "-march=armv8-a+crc"),
    "s390x, big endian": Machine(
        ("s390x-linux-gnu-gcc",),
        ("-static",),
        ("qemu-s390x", "qemu-s390x-static"),
        *("max", 0, "qemu-user gcc-s390x-linux-gnu libc6-dev-s390x-cross", (), "big", 0),
    ),
}


def first_of(programs):
    return next((path for name in programs if (path := shutil.which(name))), None)


def lacking(made):
    """Say what has to be installed for this machine; the empty text: nothing."""
    for programs in filter(None, (made.compilers, made.runners)):
        if os.name == "nt" or not first_of(programs):
            return f"no {programs[0]} (Debian: {made.install}; see tests/README.md)"
    return ""


PRESENT = {name: made for name, made in MACHINES.items() if not lacking(made)}


@pytest.fixture(scope="module", params=PRESENT.values(), ids=PRESENT.keys())
def machine(request, tmp_path_factory):
    """Compile the driver for a machine; yield the machine and a function that runs it."""
    made = request.param
    if why := lacking(made):
        pytest.skip(why)
    compiler = first_of(made.compilers)
    runner = [first_of(made.runners), "-cpu", made.processor] if made.runners else []
    program = tmp_path_factory.mktemp("driver") / "driver"
    # A sanitizer that is loaded into this process is none of the compiler's or qemu's.
    inherited = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    environment = inherited | dict(made.environment)
    command = [compiler, *WARNINGS, *made.flags, f"-I{HEADERS}", str(DRIVER), "-o", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr

    def ask(questions):
        given = b"".join(
            struct.pack("<cBI", letter, before, len(data)) + data
            for letter, before, data in questions
        )
        command = [*runner, program]
        process = subprocess.run(command, input=given, capture_output=True, env=environment)
        assert process.returncode == 0, process.stderr
        return process.stdout.decode().splitlines()

    return made, ask


def crc32c_of_each_beginning(data):
    """Yield the sum of no byte, of the first, of the first two, ...: by the definition, bitwise."""
    c = 0xFFFFFFFF
    yield c ^ 0xFFFFFFFF
    for byte in data:
        c ^= byte
        for _ in range(8):
            c = (c >> 1) ^ (0x82F63B78 & -(c & 1))
        yield c ^ 0xFFFFFFFF


@functools.cache
def pieces():
    """(bytes before, data, CRC-32C): short ones of each size and alignment, and long ones."""
    data = random.Random(20260101).randbytes(100 * 1024 + 16)
    found = []
    for before in range(9):
        piece = data[before : before + 300]
        sums = enumerate(crc32c_of_each_beginning(piece))
        found += [(before, piece[:size], expected) for size, expected in sums]
    for before in (0, 3):
        sums = list(crc32c_of_each_beginning(data[before : before + 100 * 1024]))
        for size in (511, 4095, 4096, 12287, 12288, 12289, 24600, 100 * 1024):
            found.append((before, data[before : before + size], sums[size]))
    return found


def mismatches(ask, letter, cases):
    """Ask for each (bytes before, data, expected) and return those that came otherwise."""
    lines = ask((letter, before, data) for before, data, _ in cases)
    assert len(lines) == len(cases)
    return [
        (before, len(data), expected, got)
        for (before, data, expected), got in zip(cases, lines, strict=True)
        if got != str(expected)
    ]


# Of all machines: what is lacking is named here, once.
@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES.keys(), indirect=True)
def test_the_machine_takes_the_road_that_its_processor_has(machine):
    made, ask = machine
    lanes, votes = map(int, ask([(b"l", 0, b""), (b"b", 0, b"")]))
    assert lanes in ({0, 1, 3} if made.lanes is None else {made.lanes})
    assert votes in ({0, 1} if made.votes is None else {made.votes})


def test_crc32c_of_known_vectors(machine):
    vectors = {  # the catalogue's check value, and RFC 3720, B.4
        b"": 0,
        b"123456789": 0xE3069283,
        bytes(32): 0x8A9136AA,
        b"\xff" * 32: 0x62A8AB43,
        bytes(range(32)): 0x46DD794E,
        bytes(reversed(range(32))): 0x113FDB5C,
    }
    cases = [(0, data, expected) for data, expected in vectors.items()]
    for letter in (b"c", b"t"):
        assert mismatches(machine[1], letter, cases) == []


@pytest.mark.parametrize("letter", [b"c", b"t"], ids=["road of the machine", "tables"])
def test_crc32c_equals_the_definition_at_every_size_and_alignment(machine, letter):
    assert mismatches(machine[1], letter, pieces()) == []


def test_crc32_equals_zlib(machine):
    cases = [(before, data, zlib.crc32(data)) for before, data, _ in pieces()]
    assert mismatches(machine[1], b"i", cases) == []


def test_xxh32_equals_what_it_is_here(machine):
    cases = [(before, data, checksum.xxh32(data)) for before, data, _ in pieces()]
    assert mismatches(machine[1], b"x", cases) == []


def test_java_hash_and_partition_equal_what_they_are_here(machine):
    alphabet = ["a", "-", "é", "\u20ac", "\ud800", "\U0001f600"]
    texts = ["", "polygenelubricants", "GydZG_"]
    texts += map("".join, itertools.product(alphabet, repeat=4))
    cases = []
    for text in texts:
        expected = f"{checksum.java_hash(text)} {checksum.partition_for(text)}"
        cases.append((0, text.encode("utf-8", "surrogatepass"), expected))
    assert mismatches(machine[1], b"j", cases) == []


def folded(a, b):
    return (a * b & WORD) ^ (a * b >> 64)


def keyhash(key, byte_order):
    """Hash by the rule in keyhash.h's header, over words as this machine reads them."""
    a, b, c, d = 0x9E3779B97F4A7C15, 0xD1B54A32D192ED03, 0xA0761D6478BD642F, 0xE7037ED1A0B428DB
    h = a ^ (len(key) * b & WORD)
    if len(key) < 8:
        return folded(h ^ int.from_bytes(key, "big"), b)

    def word(at):
        return int.from_bytes(key[at : at + 8], byte_order)

    if len(key) < 16:
        return folded(h ^ word(0), b ^ word(len(key) - 8))

    def piece(at, one, other):
        return folded(word(at) ^ one, word(at + 8) ^ other)

    last = len(key) - 16
    for at in range(48, last, 16):
        h = folded(h, a ^ piece(at, h, c))
    h += piece(0, a, b) + piece(min(16, last), c, a)
    h += piece(min(32, last), b, c) + piece(last, d, b)
    return folded(h & WORD, b)


def test_keys_hash_and_compare_by_their_bytes(machine):
    made, ask = machine
    short = [(before, data) for before, data, _ in pieces() if len(data) <= 100]
    hashes = [(before, data, keyhash(data, made.byte_order)) for before, data in short]
    assert mismatches(ask, b"k", hashes) == []
    pairs = []
    for before, data in short:
        pairs.append((before, data + data, 1))
        for at in range(len(data)):
            other = data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :]
            pairs.append((before, data + other, 0))
    assert mismatches(ask, b"=", pairs) == []
    texts = [bytes(byte & 0x7F for byte in data) for _, data in short]
    texts += [t[:at] + b"\x80" + t[at + 1 :] for t in texts[:101] for at in range(len(t))]
    assert mismatches(ask, b"a", [(0, text, int(text.isascii())) for text in texts]) == []


def test_offsets_expire_as_they_do_here(machine):
    draw = random.Random(20260102)
    edges = [0, -1, 1, 999, 1000, 1001, -(2**63), 2**63 - 1]
    cases = []
    for count in (0, 1, 3, 4, 5, 8, 100):
        for now_ms, retention_ms in itertools.product((0, 1000, 2**62), (0, 1, 1000, 2**63 - 1)):
            near = [now_ms, now_ms - 1, now_ms - retention_ms, now_ms - retention_ms + 1]
            base, expire = (draw.choices(edges + near, k=count) for _ in range(2))
            data = struct.pack(f"<{2 + 2 * count}q", now_ms, retention_ms, *base, *expire)
            columns = (np.array(column, dtype=np.int64) for column in (base, expire))
            gone = expired(*columns, now_ms=now_ms, retention_ms=retention_ms)
            cases.append((0, data, "".join(map(str, gone.astype(int)))))
    assert mismatches(machine[1], b"e", cases) == []


def vote_case(groups):
    """A question about groups' lists of ids, and what follows the lengths in its answer."""
    lists = list(itertools.chain(*groups))
    flat = list(itertools.chain(*lists))
    group_start = [0, *itertools.accumulate(map(len, groups))]
    start = [0, *itertools.accumulate(map(len, lists))]
    numbers = [len(groups), len(lists), *group_start, *start, *flat]
    winners, votes = select_protocols(flat, start, group_start)
    results = itertools.chain(*zip(winners.tolist(), votes.tolist(), strict=True))
    lengths = functools.reduce(int.__or__, map(len, lists), 0)
    return (
        struct.pack(f"<{len(numbers)}q", *numbers),
        f"{lengths:x}",
        " ".join(map(str, results)),
    )


def test_groups_vote_as_they_do_here(machine):
    ask = machine[1]
    has_lanes = ask([(b"b", 0, b"")]) == ["1"]
    draw = random.Random(20260103)
    cases = []
    for case in range(200):
        names = draw.sample(range(draw.choice((16, 64))), draw.choice((1, 2, 3, 8, 16)))
        least = len(names) if case % 2 else 0  # every other case has names common to all
        longest = min(len(names), 15)
        groups = [
            [draw.sample(names, draw.randint(min(least, longest), longest)) for _ in range(members)]
            for members in draw.choices((0, 1, 2, 5, 20, 90, 300), k=draw.randint(1, 8))
        ]
        data, lengths, votes = vote_case(groups)
        cases.append((draw.randrange(8), data, f"{lengths} {votes if has_lanes else 'no lanes'}"))
    assert mismatches(ask, b"v", cases) == []


def test_starts_that_fall_show(machine):
    starts = ([0, 2, 1], [0, 1, 0], [0, 2**63 - 1, -(2**63)], [-1, 0, 0], [-(2**63), 0, 1])
    numbers = ([1, 2, 0, 2, *each] for each in starts)
    lines = machine[1]((b"v", 0, struct.pack("<7q", *each)) for each in numbers)
    assert [line.split()[1] for line in lines] == ["falls"] * len(starts)
