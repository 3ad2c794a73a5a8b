"""Kafka's checksums, and the hash that chooses a group's partition."""

from typing_extensions import Buffer

def crc32c(data: Buffer) -> int:
    """Return CRC-32C (Castagnoli), the sum of record batches v2, as an unsigned 32-bit number.

    About 20 GB/s on a processor with a CRC instruction, 2 GB/s without.
    """

def crc32(data: Buffer) -> int:
    """Return CRC-32 (IEEE), the sum of message sets v0 and v1; equal to ``zlib.crc32``."""

def xxh32(data: Buffer, seed: int = 0) -> int:
    """Return xxHash32, whose second byte is the header checksum of an LZ4 frame."""

def java_hash(text: str) -> int:
    """Return Java's ``String.hashCode``: h = 31 h + c over the UTF-16 code units, in int32."""

def partition_for(group_id: str, partitions: int = 50) -> int:
    """Return the partition of ``__consumer_offsets`` that holds a group.

    ``abs(hashCode) mod partitions``, where the absolute value of -2**31 is 0
    (``GroupMetadataManager.partitionFor``, ``Utils.abs``).

    Raises
    ------
    ArgumentError
        ``partitions`` is below 1.
    """
