"""A log whose clock goes back by an hour.

A group of one member commits 10; the clock goes back, and within that hour a second member joins
and 20 is committed; once it is right again, 30.
"""

from support.log_writer import batch, commit_key, commit_value, group_key, group_value

BEGIN_MS, HOUR_MS = 1_800_000_000_000, 3_600_000
AT = BEGIN_MS + 1_500  # between the first commit and what followed, the step back included
COUNTED_HERE = "the log ends before offset 2; 2 batches from there on count here by their own times"


def write_clock_back(folder):
    """Write it as FOLDER/log, and return the folder."""
    partition = folder / "log" / "__consumer_offsets-0"
    partition.mkdir(parents=True)
    records = [
        (BEGIN_MS, group_key(b"g"), group_value(1, [b"m"])),
        (BEGIN_MS + 1_000, *commit_of(10)),
        (BEGIN_MS + 2_000 - HOUR_MS, *commit_of(20)),
        (BEGIN_MS + 3_000 - HOUR_MS, group_key(b"g"), group_value(2, [b"m", b"n"])),
        (BEGIN_MS + 41_000, *commit_of(30)),
    ]
    data = b"".join(batch(number, [record]) for number, record in enumerate(records))
    (partition / f"{0:020}.log").write_bytes(data)
    return folder


def commit_of(offset):
    return commit_key(1, b"g", b"t", 0), commit_value(offset, -1, b"", BEGIN_MS)
