"""Decode and encode the bytes of the log: keys and values, batches and records.

The decoders return plain dicts in the schema of ``coterie records``, and the encoders take them.
Batches have a reader and writers. ``partition_for`` returns the partition of a group. Records may
come from anywhere: a client, Spark's Kafka source, a test. Subscriptions and assignments are in
``coterie.testing``.
"""

from coterie._core.codec.batch import (
    BatchFault,
    LogBatch,
    LogReader,
    LogRecord,
    encode_batch,
    encode_marker,
    encode_message_set,
)
from coterie._core.codec.compression import partition_for
from coterie._core.codec.schema import decode_key, decode_value, encode_key, encode_value

__all__ = [
    "BatchFault",
    "LogBatch",
    "LogReader",
    "LogRecord",
    "decode_key",
    "decode_value",
    "encode_batch",
    "encode_key",
    "encode_marker",
    "encode_message_set",
    "encode_value",
    "partition_for",
]
