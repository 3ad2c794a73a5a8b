"""A log of everything, and what all readers make of it, as a line for each reading."""

import hashlib

import numpy as np

from coterie._core.codec.batch import encode_batch, encode_message_set
from coterie._core.fold.columns import decode_columns
from coterie._core.fold.fold import PartitionFold, absorb, dump
from coterie._core.fold.record_scan import RecordScan
from coterie._core.structures.timers import TimerWheel
from coterie._core.structures.votes import select_protocols
from support.log_writer import batch, commit, commit_key, group_key, group_value, marker

GROUPS = 300  # more than tables have room for at first


def made(groups: int) -> bytes:
    """A log of so many groups, twice, and of everything else that a log may hold."""
    data, at = b"", 0

    def add(*records, codec=0, magic=2, **how):
        nonlocal data, at
        rows = [(at + n, *record) for n, record in enumerate(records)]
        if magic < 2:
            data += encode_message_set(rows, magic, codec=codec)
        elif codec:
            data += encode_batch(rows, at, codec=codec, **how)
        else:
            data += batch(at, records, **how)
        at += len(records)

    for turn in range(2):
        for number in range(groups):
            group, topic = b"group-%d" % number, b"topic-%d" % (number % 7)
            of = {"group": group, "topic": topic, "metadata": b"m" * (number % 19)}
            add(*(commit(5 + turn, 10 * turn, partition=n, **of) for n in range(number % 5 + 1)))
    for number in range(groups):
        add(commit(7, number, group=b"%d" % number, topic=b""))  # short names
        add(*(commit(7, number, group=b"a-group", partition=n) for n in (number * 14, 3)))
    gone = commit_key(1, b"group-1", b"topic-1", 0)
    for codec in (0, 1, 4):
        add((8, gone, None), commit(8, group=b"\xff-group", metadata=b"other"), codec=codec)
        add((8, group_key(b"group-1"), group_value(codec, [b"m"])), codec=codec)
        add((8, group_key(b"group-1"), None), (8, b"\0\3" + group_key(b"c")[2:], b"\0\0"))
        add((8, gone[:-1], None), (8, gone, b"\0\3\0"), (8, None, None), codec=codec)
        how = {"producer_id": 40 + codec, "producer_epoch": 1, "transactional": True}
        add(commit(9, group=b"group-2"), (9, gone, None), codec=codec, **how)
        data += marker(at, 40 + codec, 9, commit=codec == 1)
        add(commit(9, group=b"group-3", metadata=b"open"), codec=codec, **how)
    for magic in (0, 1):
        add(commit(10, group=b"group-4"), codec=1, magic=magic)
        add(commit(10, group=b"group-5"), magic=magic)
    add(commit(11, group=b"a-late-group"))  # after the last marker
    return data + data[: len(data) // 3] + b"\0" * 7


LOG = made(GROUPS)


def content(value: object) -> object:
    """The value with the bytes of its arrays, whatever it is made of."""
    if isinstance(value, np.ndarray):
        return str(value.dtype), hashlib.sha256(value.tobytes()).hexdigest()
    if isinstance(value, dict):
        return [(key, content(one)) for key, one in value.items()]
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, tuple | list):
        return [content(one) for one in value]
    return content(value.__getstate__()) if type(value).__name__ == "GroupLog" else value


def readings():
    for options in (
        {"at_ms": 8},
        {"history": True},
        {"tracking": (5, 8, None)},  # the last key has a later record alone
        {"survey": True, "only": ["group-1", "a-group"], "history": True},
    ):
        fold = PartitionFold(**options)
        fold.scan(LOG)
        yield "fold", options, dump(fold)
        later = PartitionFold(**options)
        later.scan(LOG)
        absorb(fold, later)
        yield "merged", options, dump(fold)
        if fold.history is not None:
            yield "history", options, fold.history.columns()
            fold.history.clear()
            fold.scan(LOG)
            yield "history", options, fold.history.columns()
    for raw in (False, True):
        yield "columns", raw, decode_columns(LOG, raw=raw)
    for groups in (None, ["group-1", "a-group"]):
        scan, end = RecordScan(groups=groups), 0
        while end < len(LOG):
            columns, end = scan.scan(LOG, position=end, max_bytes=len(LOG) // 3)
            yield "scan", groups, columns
        yield "keys", groups, scan.keys()
    names = [name for n in range(60) for name in (n % 40, n % 3, 50)]
    votes = select_protocols(names, list(range(0, 181, 3)), [0, 1, 30, 60])
    yield "votes", None, votes
    wheel = TimerWheel()
    handles = wheel.add_many([n * 37 for n in range(500)], range(500))
    yield "wheel", None, (handles, wheel.cancel_many(handles[::3]), wheel.advance(9_999))


def digest() -> str:
    """A line for each reading: what it is, and the hash of its content."""
    return "\n".join(
        f"{name} {hashlib.sha256(repr((of, content(value))).encode()).hexdigest()}"
        for name, of, value in readings()
    )
