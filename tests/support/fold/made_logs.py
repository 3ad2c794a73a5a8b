"""Logs that no broker wrote: drawn at random, and rare tangles of transactions.

A log is a list of batches, (base offset, producer id or None, content) each. The content is a list
of records, or for a marker the pair (committed, time).
"""

from hypothesis import strategies as st

from support import log_writer as write

COMMIT, ABORT = True, False
GROUPS = [b"g", b"h", "é".encode(), b"\xff", b"\xfe"]  # the last two read as one name in Java
TIMES = st.integers(-4, 9)  # -1: none
VALUES = st.tuples(st.integers(0, 99), st.integers(-1, 2), st.sampled_from([b"", b"m"]), TIMES)
TOPIC_IDS = (b"\xff" * 16, b"\x01" * 16)
IN_ANY_VERSION = st.tuples(VALUES, st.sampled_from([None, *TOPIC_IDS])).map(
    lambda one: (*one[0], one[1])
)
METADATA = st.tuples(
    st.just("group"),
    TIMES,
    st.sampled_from(GROUPS),
    st.none() | st.tuples(st.integers(0, 9), st.lists(st.sampled_from([b"a", b"b"]), unique=True)),
)
# Offsets go on, stand still, or go back: a compacted or repaired log may do all three.
STEPS = st.sampled_from([1, 1, 1, 0, -2, 5])


def logs_over(groups, partitions, producers, other_records, values=VALUES):
    """Logs of commits to so many places, by hand and by so many transactional producers."""
    places = st.tuples(
        st.sampled_from(GROUPS[:groups]), st.just(b"t"), st.integers(0, partitions - 1)
    )
    commits = st.tuples(
        st.just("commit"), TIMES, st.integers(0, 1), places, st.none() | values | values
    )
    producer = st.integers(1, producers)
    batches = st.one_of(
        st.tuples(st.none(), st.lists(commits | other_records, min_size=1, max_size=3)),
        st.tuples(producer, st.lists(commits, min_size=1, max_size=3)),
        st.tuples(producer, st.tuples(st.sampled_from([COMMIT, COMMIT, ABORT]), TIMES)),
    )
    return st.lists(st.tuples(STEPS, batches), max_size=24)


# Few places and producers, so that they meet in each other's way; and many, of every kind.
LOGS = (
    logs_over(1, 1, 1, st.nothing()) | logs_over(1, 2, 2, METADATA) | logs_over(5, 2, 3, METADATA)
)


def laid_out(steps):
    """Put base offsets on the batches: (base offset, producer id or None, content)."""
    offset, log = 10, []
    for step, (producer, content) in steps:
        offset = max(0, offset + step)
        log.append((offset, producer, content))
        offset += len(content) - 1 if isinstance(content, list) else 0
    return log


def as_bytes(log):
    out = b""
    for offset, producer, content in log:
        if isinstance(content, tuple):
            committed, time = content
            out += write.marker(offset, producer, time, commit=committed)
            continue
        records = []
        for kind, time, *rest in content:
            if kind == "commit":
                version, place, value = rest
                raw = None if value is None else write.commit_value(*value)
                records.append((time, write.commit_key(version, *place), raw))
            else:
                group, value = rest
                raw = None if value is None else write.group_value(*value)
                records.append((time, write.group_key(group), raw))
        txn = {} if producer is None else {"producer_id": producer, "transactional": True}
        out += write.batch(offset, records, **txn)
    return out


def commit_of(offset):
    return [("commit", 0, 1, (b"g", b"t", 0), (offset, -1, b"", 0))]


TANGLES = {  # rare in logs drawn at random: a list of (base offset, producer, content) each
    "of two commits at one position the one decided first stays": [
        (10, 1, commit_of(1)),
        (10, 2, commit_of(2)),
        (11, 1, (COMMIT, 0)),
        (12, 2, (COMMIT, 0)),
    ],
    "a tombstone after the marker stays": [
        (10, 1, commit_of(1)),
        (11, 1, (COMMIT, 0)),
        (12, None, [("commit", 0, 1, (b"g", b"t", 0), None)]),
    ],
    "a commit over an earlier one of the same transaction is the one that counts": [
        (10, 1, commit_of(1)),
        (11, 1, commit_of(2)),
        (12, 2, commit_of(3)),
        (13, 1, (COMMIT, 0)),
        (14, 2, (ABORT, 0)),
    ],
    "a transactional tombstone takes back what an earlier piece left open": [
        (10, None, commit_of(1)),
        (11, 1, commit_of(2)),
        (12, 1, [("commit", 0, 1, (b"g", b"t", 0), None)]),
        (13, 1, (COMMIT, 0)),
    ],
    "a plain commit at a later position wins over a transaction decided after it": [
        (10, 1, commit_of(1)),
        (11, None, commit_of(2)),
        (12, 1, (COMMIT, 0)),
    ],
    "transactions end in the order of their markers, not in that in which they began": [
        (10, 1, commit_of(1)),
        (11, 2, commit_of(2)),
        (12, 1, commit_of(3)),
        (13, 2, commit_of(4)),
        (14, 2, (COMMIT, 0)),
        (15, None, commit_of(5)),
        (16, 1, (ABORT, 0)),
    ],
}


def in_order(log):
    """The log with times that never go back; a marker without a time has the latest."""
    latest, result = -1, []
    for base, producer, content in log:
        if isinstance(content, tuple):
            content = content[0], max(latest, content[1])
            latest = content[1]
        else:
            content = [(kind, time if time < 0 else max(latest, time), *rest)
                       for kind, time, *rest in content]  # fmt: skip
            latest = max(latest, *(time for _, time, *_ in content))
        result.append((base, producer, content))
    return result
