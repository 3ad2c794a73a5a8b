"""The log of a coordinator as the bytes of a segment."""

from __future__ import annotations

from coterie import GroupCoordinator, load_trace
from support.consumer_groups import golden
from support.coordinator.caller_log import Log
from support.log_writer import batch, marker


def played(name):
    """A coordinator at the end of a golden trace, and the batches of its log."""
    log = Log()
    coordinator = GroupCoordinator(log_sink=log)
    coordinator.play(load_trace(golden.trace(name)))
    return coordinator, log.batches


def log_of(batches, at_ms=0):
    """Return the batches of a coordinator as bytes; each record has this time."""
    data = b""
    for one in batches:
        if one.control:
            ((key, _),) = one.records
            commit = int.from_bytes(key[2:4], "big") == 1
            data += marker(one.base_offset, one.producer_id, at_ms, commit=commit)
        else:
            records = [(at_ms, key, value) for key, value in one.records]
            data += batch(
                one.base_offset,
                records,
                producer_id=one.producer_id,
                transactional=one.transactional,
            )
    return data
