"""Logs of an offsets topic that was grown: a group has records in two of its partitions."""

from coterie.messages import partition_for
from support.log_writer import batch, commit, commit_key, group_key, group_value, marker

GROUP = "payments"
OLD_COUNT, COUNT = 50, 60
OLDER, NEWER = 13, 53  # of GROUP, with each number of partitions
MINUTE = 60_000
GROWN_MS = 20 * MINUTE
PRODUCER, STUCK = 7, 8
assert (partition_for(GROUP, OLD_COUNT), partition_for(GROUP, COUNT)) == (OLDER, NEWER)


def tombstone(time, *, group=GROUP, topic="t", partition=0):
    return time, commit_key(1, group.encode(), topic.encode(), partition), None


def committed(time, offset, *, group=GROUP, partition=0):
    return commit(time, offset, group=group.encode(), partition=partition)


def generation(time, number, members, *, group=GROUP):
    """A group's metadata; ``members`` None: a tombstone."""
    value = None if members is None else group_value(number, members)
    return time, group_key(group.encode()), value


def batches(*records):
    """Return the bytes of batches of one record each; a dict is a transaction's, with its end."""
    data, at = b"", 0
    for record in records:
        if isinstance(record, dict) and record["commit"] is None:
            data += batch(at, [record["of"]], producer_id=STUCK, transactional=True)
            at += 1
        elif isinstance(record, dict):
            data += batch(at, [record["of"]], producer_id=PRODUCER, transactional=True)
            data += marker(at + 1, PRODUCER, record["of"][0] + 1, commit=record["commit"])
            at += 2
        else:
            data += batch(at, [record])
            at += 1
    return data


def in_transaction(record, *, commit=True):
    """A record that a transaction writes, and its end; ``commit`` None: it never ends."""
    return {"of": record, "commit": commit}


def write(folder, partitions, numbers=range(COUNT)):
    """Write the segments of partitions; those of ``numbers`` without records are empty."""
    for number in {*numbers, *partitions}:
        home = folder / f"__consumer_offsets-{number}"
        home.mkdir(parents=True)
        (home / f"{0:020}.log").write_bytes(partitions.get(number, b""))
    return folder


def story(*, older_only=False):
    """A group before and after the growth; later, the older partition's coordinator expires it.

    ``older_only``: partition 2 of the topic has an offset in the older partition alone.
    """
    before = [generation(0, 4, [b"a-1"])]
    before += [committed(1000 * turn, 100 + turn, partition=p) for turn in (1, 2) for p in (0, 1)]
    before += [committed(3000, 77, partition=2)] if older_only else []
    before += [
        generation(GROWN_MS + 9 * MINUTE, 5, []),
        tombstone(GROWN_MS + 10 * MINUTE, partition=0),
    ]
    after = [generation(GROWN_MS, 1, [b"a-2"])]
    after += [
        committed(GROWN_MS + 1000 * turn, 500 + turn, partition=p)
        for turn in (1, 2)
        for p in (0, 1)
    ]
    after += [generation(GROWN_MS + 10_000, 2, [])]
    return {OLDER: batches(*before), NEWER: batches(*after)}
