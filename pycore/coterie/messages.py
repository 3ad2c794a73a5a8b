"""Decode and encode the bytes of the log: keys and values, batches and records.

For records from elsewhere (a client, Spark's Kafka source, a test) and for making a log: decoders
to plain dicts in the schema of ``coterie records``, encoders from them, a reader and writers of
batches, and the partition of a group. Subscriptions and assignments are in ``coterie.testing``.
"""

from coterie._core.codec.checksum import partition_for
from coterie._core.codec.reader import BatchFault, LogBatch, LogReader, LogRecord
from coterie._core.codec.schema import decode_key, decode_value, encode_key, encode_value
from coterie._core.codec.writer import encode_batch, encode_marker, encode_message_set

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
