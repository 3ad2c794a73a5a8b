"""Random logs, each from its seed: every kind of record, of batch and of damage, in any mix.

``make(seed, home)`` writes one. :class:`LogTraits` has the properties that are drawn once for a
log: formats, pace, frequent steps. Only the seed decides. The library's own writers make the bytes
of batches, so a changed digest of a log's bytes means that the writers have changed.
"""

import hashlib
import random
import struct
import zlib
from dataclasses import dataclass, field
from pathlib import Path

from coterie._core.codec.compression import crc32c
from coterie.messages import encode_key, encode_value
from coterie.testing import assignment, subscription

from . import newer
from .batches import Batch

FIRST_MS = 1_700_000_000_000
DAY_MS = 86_400_000
NAMES = ["payments", "g", "grp-é", "", "connect-sink", "a,b", "_x.y", "g2", "payments-2", "ü" * 9]
TOPICS = ["orders", "clicks", "t", "topic.with-dots", "", "größe", "o" * 60, "u"]
MIXES = (  # weights of the steps
    {"commit": 8, "delete": 1, "roll": 1},
    {"commit": 3, "write": 6, "end": 4, "delete": 1, "roll": 1},
    {"write": 3, "end": 2, "fence": 1, "delete": 1, "stray": 1, "roll": 1},
    {"join": 6, "commit": 3, "drop": 1, "roll": 1},
    {"newer": 8, "commit": 2, "join": 1, "drop": 1},
    {"newer": 2, "join": 2, "commit": 4, "write": 3, "end": 2, "fence": 0.3, "delete": 1}
    | {"drop": 0.5, "odd": 0.5, "gap": 0.3, "stray": 0.3, "roll": 0.7},
    {"burst": 2, "commit": 2, "join": 1, "roll": 0.3},
)
STEPS_MS = (
    *((0, 1, 5), (1, 100, 1000), (0, 1000, 30_000)),
    *((1000, 60_000, 3_600_000), (60_000, DAY_MS)),
)


class LogTraits:
    """The properties that are drawn once for a log."""

    def __init__(self, rng):
        self.size = rng.choice([20, 20, 30, 40, 50, 60, 80, 100, 200, rng.choice([300, 600, 2000])])
        self.partitions = rng.choice([1, 1, 2, 3])
        self.mix = rng.choice(MIXES)
        self.magics = rng.choice([(2,)] * 6 + [(0,), (1,), (1, 2), (0, 1, 2)])
        self.codecs = rng.choice([(0,)] * 4 + [(1,), (2,), (3,), (4,), (0, 1, 2, 3, 4)])
        self.steps_ms = rng.choice(STEPS_MS)
        self.backwards = rng.choice([0, 0, 0, 0.02, 0.2])
        self.timeless = rng.choice([0, 0, 0, 0, 0.05, 0.5])
        self.append_time = rng.choice([0, 0, 0, 0, 0.3, 1])
        self.versions = rng.choice([(3,), (3,), (4,), (1,), (0, 1), (0, 1, 2, 3, 4)])
        self.key_versions = rng.choice([(1,), (1,), (1,), (0, 1)])
        self.epochs = rng.random() < 0.3
        self.damaged, self.compacted = rng.random() < 0.25, rng.random() < 0.35
        self.groups = rng.sample(NAMES, rng.randint(1, 6))
        if rng.random() < 0.1:
            self.groups += [f"grp-{number}" for number in range(30)]
        self.topics = {
            topic: rng.choice([1, 2, 3, 4, rng.choice([4, 70])])
            for topic in rng.sample(TOPICS, rng.randint(1, 4))
        }
        self.newer = {group: rng.choice(["consumer", "share", "streams"]) for group in self.groups}
        self.types = {
            group: rng.choice(["consumer"] * 5 + ["connect", "", "custom"]) for group in self.groups
        }


@dataclass
class Made:
    """A log in a folder, and the names and times for command lines."""

    folder: Path
    groups: list
    topics: dict
    times: list  # of records, ms, rising
    size: int = 0  # bytes
    digest: str = ""


@dataclass
class Partition:
    """One partition as it is written: segments are (base offset, batches)."""

    number: int
    next_offset: int = 0
    now_ms: int = FIRST_MS
    segments: list = field(default_factory=lambda: [(0, [])])
    open: dict = field(default_factory=dict)  # producer -> epoch
    offsets: dict = field(default_factory=dict)  # key -> the last offset committed
    lives: dict = field(default_factory=dict)  # group -> (generation, members)
    epochs: dict = field(default_factory=dict)  # newer group -> epoch
    leader_epoch: int = 0


class Writer:
    """Draws the steps of a log."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.traits = LogTraits(self.rng)
        self.parts = [Partition(number) for number in range(self.traits.partitions)]
        self.count = 0

    def run(self):
        """Draw all steps."""
        names, weights = zip(*self.traits.mix.items(), strict=True)
        while self.count < self.traits.size:
            (name,) = self.rng.choices(names, weights)
            getattr(self, name)()
        return self

    def chance(self, share):
        return self.rng.random() < share

    def place(self, group):
        """Return the partition of a group, or seldom another."""
        wrong = self.chance(0.02)
        number = self.rng.randrange(100) if wrong else zlib.crc32(group.encode())
        return self.parts[number % len(self.parts)]

    def append(self, part, pairs, **how):
        """Append a batch of (key, value) pairs at the partition's time."""
        traits, rng = self.traits, self.rng
        part.now_ms += rng.choice(traits.steps_ms)
        now_ms = part.now_ms - (
            rng.choice([1, 500, 100_000]) if self.chance(traits.backwards) else 0
        )
        if traits.epochs and self.chance(0.03):
            part.leader_epoch += 1
        plain = how.get("producer_id", -1) < 0
        magic = rng.choice(traits.magics) if plain and "commit" not in how else 2
        codec = rng.choice(traits.codecs)
        records = []
        for key, value in pairs:
            ms = -1 if self.chance(traits.timeless) else now_ms + rng.choice([0, 0, 0, 1])
            records.append((part.next_offset, ms, key, value))
            part.next_offset += 1
        if self.chance(traits.append_time) and magic and "commit" not in how:
            how["append_time_ms"] = part.now_ms
        part.segments[-1][1].append(
            Batch(
                records[0][0],
                records[-1][0],
                records,
                magic=magic,
                codec=0 if magic < 2 and codec == 4 else codec,
                leader_epoch=part.leader_epoch,
                **how,
            )
        )
        self.count += len(records)

    # ---- commits ------------------------------------------------------------------------------

    def commit_pair(self, part, key, delete=False):
        group, topic, number = key
        rng = self.rng
        data = {"group": group, "topic": topic, "partition": number}
        raw = encode_key({"version": rng.choice(self.traits.key_versions), "data": data})
        if delete:
            return raw, None
        last = part.offsets.get(key, rng.randrange(50))
        moved = rng.choice([0, 0, 1, 1, 7, 100, 100, -3, -last, 1 << 40])
        offset = max(last + (moved if abs(moved) < 1 << 40 or self.chance(0.02) else 5), 0)
        part.offsets[key] = offset
        commit_ms = part.now_ms - rng.choice([0, 0, 0, 0, 1, 5000, 8 * DAY_MS])
        value = {
            "offset": offset if self.chance(0.99) else -1,
            "leaderEpoch": rng.choice([-1, -1, 0, 5]),
            "metadata": rng.choice(["", "", "", "m", "é" * 20, "x" * rng.choice([9, 1100])]),
            "commitTimestamp": commit_ms if self.chance(0.98) else -1,
            "expireTimestamp": rng.choice([-1, commit_ms + DAY_MS, commit_ms + 100]),
        }
        version = rng.choice(self.traits.versions)
        return raw, encode_value(1, {"version": version, "data": value})

    def pairs(self, part, group, delete=0.03):
        """Return the records of one commit request."""
        topics = sorted(self.traits.topics)
        keys = [
            (group, topic, number)
            for topic in self.rng.sample(topics, min(self.rng.choice([1, 1, 2]), len(topics)))
            for number in range(self.traits.topics[topic])
            if self.chance(0.7)
        ]
        keys = keys[:12] or [(group, topics[0], 0)]
        return [self.commit_pair(part, key, self.chance(delete)) for key in keys]

    def commit(self):
        group = self.rng.choice(self.traits.groups)
        part = self.place(group)
        self.append(part, self.pairs(part, group))

    def burst(self):
        """Many commits of one key, in batches of their own or in one."""
        group = self.traits.groups[0]
        part, key = self.place(group), (group, min(self.traits.topics), 0)
        pairs = [self.commit_pair(part, key) for _ in range(self.rng.randint(2, 40))]
        for run in [pairs] if self.chance(0.5) else [[pair] for pair in pairs]:
            self.append(part, run)

    def delete(self):
        part = self.rng.choice(self.parts)
        if part.offsets:
            keys = sorted(part.offsets)
            chosen = self.rng.sample(keys, min(self.rng.randint(1, 4), len(keys)))
            self.append(part, [self.commit_pair(part, key, delete=True) for key in chosen])

    # ---- transactions -------------------------------------------------------------------------

    def write(self):
        group, producer_id = self.rng.choice(self.traits.groups), 1000 + self.rng.randrange(4)
        part = self.place(group)
        epoch = part.open.setdefault(producer_id, self.rng.randrange(2))
        pairs = self.pairs(part, group, delete=0.15)
        producer = {"producer_id": producer_id, "producer_epoch": epoch, "transactional": True}
        if self.chance(0.03):
            producer["transactional"] = False
        self.append(part, pairs, **producer)

    def marker(self, part, producer_id, epoch, commit):
        pair = struct.pack(">hh", 0, commit), struct.pack(">hi", 0, 0)
        self.append(
            part,
            [pair],
            producer_id=producer_id,
            producer_epoch=epoch,
            transactional=True,
            commit=commit,
        )

    def end(self):
        part = self.rng.choice(self.parts)
        if part.open:
            producer_id = self.rng.choice(sorted(part.open))
            epoch = part.open.pop(producer_id)
            self.marker(part, producer_id, epoch + self.chance(0.2), self.chance(0.6))

    def stray(self):
        """A marker of a producer that may have written nothing."""
        part = self.rng.choice(self.parts)
        self.marker(part, 1000 + self.rng.randrange(6), self.rng.randrange(3), self.chance(0.5))

    def fence(self):
        """The same producer goes on with a new epoch, and no marker stands between."""
        part = self.rng.choice(self.parts)
        for producer_id in part.open:
            part.open[producer_id] += 1

    # ---- groups -------------------------------------------------------------------------------

    def join(self):
        group = self.rng.choice(self.traits.groups)
        part, rng = self.place(group), self.rng
        generation, members = part.lives.get(group, (0, {}))
        members = dict(members)
        for _ in range(rng.choice([0, 1, 1, 1, 2])):
            what = rng.choice(["join", "join", "leave", "static", "all"])
            if what == "join" and len(members) < 6:
                members[f"c{rng.randrange(5)}-{rng.randrange(10**6):06}"] = None
            elif what == "static":
                instance = f"static-{rng.randrange(2)}"
                members = {name: own for name, own in members.items() if own != instance}
                members[f"{instance}-{rng.randrange(10**6):06}"] = instance
            elif what == "leave" and members:
                members.pop(rng.choice(sorted(members)))
            elif what == "all" and self.chance(0.4):
                members = {}
        generation = rng.choice([generation + 1] * 12 + [generation, generation + 4, 1])
        part.lives[group] = generation, members
        self.append(part, [self.group_pair(part, group)])

    def group_pair(self, part, group):
        rng = self.rng
        generation, members = part.lives[group]
        consumer = self.traits.types[group] == "consumer" and self.chance(0.98)
        topics = {topic: count for topic, count in self.traits.topics.items() if self.chance(0.8)}
        places = [(topic, n) for topic, count in topics.items() for n in range(min(count, 8))]
        rows = []
        for at, (name, instance) in enumerate(members.items()):
            mine = {}
            for topic, number in places[at :: len(members)]:
                mine.setdefault(topic, []).append(number)
            wants = subscription(
                topics, rng.randrange(4), owned=mine, generation_id=generation, rack_id="r"
            )
            has = assignment(mine, rng.randrange(2)) if self.chance(0.9) else b""
            if self.chance(0.02):
                wants = wants[: rng.randrange(len(wants))]
            rows.append(
                {
                    "memberId": name,
                    "groupInstanceId": instance,
                    "clientId": name.partition("-")[0],
                    "clientHost": f"/10.0.0.{zlib.crc32(name.encode()) % 4}",
                    "rebalanceTimeout": 300_000,
                    "sessionTimeout": rng.choice([6000, 45_000]),
                    "subscription": wants if consumer else b"\0\1bytes",
                    "assignment": has if consumer else b"",
                }
            )
        data = {
            "protocolType": self.traits.types[group],
            "generation": generation,
            "protocol": rng.choice(["range", "range", "sticky"]) if members else None,
            "leader": min(members, default=None),
            "currentStateTimestamp": rng.choice([part.now_ms, part.now_ms - 3000, -1]),
            "members": rows,
        }
        key = encode_key({"version": 2, "data": {"group": group}})
        version = rng.choice(self.traits.versions)
        return key, encode_value(2, {"version": version, "data": data})

    def drop(self):
        group = self.rng.choice(self.traits.groups)
        part = self.place(group)
        part.lives.pop(group, None)
        self.append(part, [(encode_key({"version": 2, "data": {"group": group}}), None)])

    def newer(self):
        """A step of a consumer, share or streams group; rarely the end of a classic group."""
        group = self.rng.choice(self.traits.groups)
        part, pairs = self.place(group), []
        epoch = part.epochs[group] = part.epochs.get(group, 0) + self.chance(0.7)
        if group in part.lives and self.chance(0.3):
            epoch = part.epochs[group] = part.lives.pop(group)[0]
            pairs.append((encode_key({"version": 2, "data": {"group": group}}), None))
        made = newer.step(
            self.rng, self.traits.newer[group], group, epoch, self.traits.topics, part.now_ms
        )
        for version, key, value in made:
            data = None if value is None else {"version": 0, "data": value}
            raw = encode_key({"version": version, "data": key})
            pairs.append((raw, encode_value(version, data)))
        self.append(part, pairs)

    # ---- unusual and damaged records ------------------------------------------------------------

    def odd(self):
        """Unknown or malformed keys and values."""
        part, rng = self.rng.choice(self.parts), self.rng
        key, value = self.commit_pair(part, ("odd", "t", 0))
        cut = rng.randrange(len(value))
        pairs = [
            (struct.pack(">h", rng.choice([18, 24, 99, -1])) + b"later", rng.choice([None, value])),
            (rng.choice([b"", b"\0", key[:-2], None]), value),
            (key, rng.choice([value[:cut], value + b"more", b"\0\x63" + value[2:], b""])),
            (key + b"more", value),
        ]
        self.append(part, rng.sample(pairs, rng.randint(1, 3)))

    def gap(self):
        self.rng.choice(self.parts).next_offset += self.rng.choice([1, 10, 1000])

    def roll(self):
        part = self.rng.choice(self.parts)
        if part.segments[-1][1] and len(part.segments) < 4:
            part.segments.append((part.next_offset, []))


def make(seed, home):
    """Write the log of a seed into a folder; return the names and times for command lines."""
    writer = Writer(seed).run()
    rng, traits = writer.rng, writer.traits
    made = Made(Path(home), traits.groups, traits.topics, [])
    digest, times = hashlib.sha256(), set()
    for part in writer.parts:
        segments = compacted(rng, part.segments) if traits.compacted else part.segments
        place = made.folder / f"__consumer_offsets-{part.number}"
        place.mkdir(parents=True)
        for base, batches in segments:
            times.update(record[1] for batch in batches for record in batch.records)
            share = rng.choice([0, 0.02, 0.2]) if traits.damaged else 0
            data = b"".join(
                flipped(rng, batch.encoded()) if rng.random() < share else batch.encoded()
                for batch in batches
            )
            if traits.damaged and rng.random() < 0.5:
                data = damaged(rng, bytearray(data))
            (place / f"{base:020}.log").write_bytes(data)
            digest.update(b"%d %d %d " % (part.number, base, len(data)) + data)
            made.size += len(data)
    made.times, made.digest = sorted(times - {-1}), digest.hexdigest()
    return made


def compacted(rng, segments):
    """Return segments as a cleaner may leave them: gaps, empty batches, fewer tombstones."""
    *before, active = segments
    aborted, undecided = set(), {}
    for batch in (batch for _, batches in segments for batch in batches):
        if batch.commit is False:
            aborted.update(undecided.pop(batch.producer_id, ()))
        elif batch.commit:
            undecided.pop(batch.producer_id, None)
        elif batch.transactional:
            undecided.setdefault(batch.producer_id, []).append(id(batch))
    last = {
        record[2]: record[0]
        for _, batches in before
        for batch in batches
        if id(batch) not in aborted and batch.commit is None
        for record in batch.records
    }
    share, empty, joined = rng.choice([0.3, 1]), rng.random() < 0.5, []
    for base, batches in before:
        left = []
        for batch in batches:
            if batch.commit is None and rng.random() < share:
                batch.records = [
                    record
                    for record in batch.records
                    if last.get(record[2]) == record[0]
                    and (record[3] is not None or rng.random() < 0.5)
                    and id(batch) not in aborted
                ]
                if batch.magic == 2 and any(record[3] is None for record in batch.records):
                    batch.horizon_ms = FIRST_MS + 9 * DAY_MS
            if batch.records or (empty and batch.magic == 2):
                left.append(batch)
        if joined and rng.random() < 0.4:
            joined[-1][1].extend(left)
        else:
            joined.append((base, left))
    return [*joined, active]


def flipped(rng, data):
    """Return a batch of magic 2 with one bit flipped and the checksum corrected."""
    if data[16] != 2:
        return data
    changed = bytearray(data)
    changed[rng.choice([22, 26, 60, rng.randrange(21, len(data))])] ^= 1 << rng.randrange(8)
    changed[17:21] = struct.pack(">I", crc32c(bytes(changed[21:])))
    return bytes(changed)


def damaged(rng, data):
    """Return bytes with one or two kinds of damage."""
    for _ in range(rng.randint(1, 2)):
        if len(data) < 20:
            break
        at = rng.randrange(len(data))
        what = rng.choice(["flip", "flip", "flip", "cut", "zeros", "drop", "twice", "junk"])
        if what == "flip":
            data[at] ^= 1 << rng.randrange(8)
        elif what == "cut":
            del data[-rng.randint(1, 70) :]
        elif what == "zeros":
            data += bytes(rng.randint(1, 90))
        elif what == "drop":
            del data[at : at + rng.randint(1, 8)]
        elif what == "twice":
            data[at:at] = data[at : at + rng.randint(1, 80)]
        else:
            data[at : at + 8] = bytes(rng.randrange(256) for _ in range(8))
    return bytes(data)
