"""Logs that a stream reads, and what it reads of them."""

import pickle

from coterie_spark.source.positions import bytes_of_piece
from support import log_writer as write
from support.growing_log import GrowingLog


def some_batch(offset, records=1):
    return write.batch(offset, [write.commit(offset, offset) for _ in range(records)])


def read(paths, pieces):
    """The bytes of pieces, as a worker reads them."""
    return b"".join(
        bytes(data)
        for piece in pieces
        for _, _, data in bytes_of_piece(paths, pickle.loads(pickle.dumps(piece)))
    )


def advance(log, position, max_bytes=None):
    ends = log.ends(position)
    return ends if max_bytes is None else log.advance(position, ends, max_bytes)


def log_of_segments(home, *counts):
    """A partition with so many batches, of two records each, in its segments."""
    broker, offset = GrowingLog(home), 0
    for number, count in enumerate(counts):
        if number:
            broker.roll(offset)
        for _ in range(count):
            broker.append(some_batch(offset, 2))
            offset += 2
    return broker
