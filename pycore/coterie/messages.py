"""Bytes of the log and what they say: keys and values, batches and records, both ways.

What a caller needs who has records from elsewhere (a client's, Spark's Kafka source, a test), or
wants to make a log: decoders to plain dicts in the schema of ``coterie records``, the encoders
beside them, a reader and writers of batches, and the partition that holds a group. The contracts
stand in the stubs of ``coterie._core``.
"""

from coterie._core.codec.checksum import partition_for
from coterie._core.codec.encode import (
    encode_assignment,
    encode_key,
    encode_subscription,
    encode_value,
)
from coterie._core.codec.reader import BatchFault, LogBatch, LogReader, LogRecord
from coterie._core.codec.schema import (
    decode_assignment,
    decode_key,
    decode_subscription,
    decode_value,
)
from coterie._core.codec.writer import encode_batch, encode_marker, encode_message_set

__all__ = [
    "BatchFault",
    "LogBatch",
    "LogReader",
    "LogRecord",
    "decode_assignment",
    "decode_key",
    "decode_subscription",
    "decode_value",
    "encode_assignment",
    "encode_batch",
    "encode_key",
    "encode_marker",
    "encode_message_set",
    "encode_subscription",
    "encode_value",
    "partition_for",
]
