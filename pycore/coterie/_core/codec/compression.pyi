"""Checksums of batches, and compression of their records.

CRC-32C and CRC-32 run on the processor's instructions where it has them. The codecs are gzip,
snappy (also Java's framing), lz4 (also with the wrong header checksum of old producers) and zstd.
"""

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

    Examples
    --------
    >>> partition_for("payments", 50)
    13
    """

MAX_SIZE: int
"""2**31 - 1 bytes, the longest array of Java: the default limit of a stream's output."""

NAMES: tuple[str, ...]
"""Codec names by number: none, gzip, snappy, lz4, zstd."""

def decompress(codec: int, data: Buffer, magic: int = 2, max_size: int = ...) -> bytes:
    """Decompress the stream of a record batch.

    Parameters
    ----------
    codec : int
        0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd (bits 0-2 of the attributes).
    data : bytes-like
        Magic 2: the batch from byte 61 on. Magic 0 and 1: the wrapper's value.
    magic : int
        0 does not check the LZ4 header checksum, which Kafka computed wrongly; 0 and 1 have no
        zstd.
    max_size : int
        The largest output in bytes; a larger one is an error.

    Notes
    -----
    Accepts the same streams as Kafka's readers. gzip: several members; bytes after the last are
    ignored. snappy: xerial's framing, several streams; without its magic number the whole input is
    one raw block. lz4: version 1 with independent blocks; block checksums are compared, content
    size and content checksum are not, and bytes after the end mark are ignored. zstd: any number
    of frames.

    Memory: the output and one block. A byte of input gives at most 1,032 bytes with gzip, 21 with
    snappy, 255 with lz4 and 32,768 with zstd (a run-length block of four bytes). A stream that
    claims more is refused before memory is allocated. A zstd frame may ask for a window of up to
    128 MiB, of which only the pages in use are touched.

    Raises
    ------
    coterie.CorruptData
        ``kind="codec"``: a number above 4, or zstd in magic 0 and 1. ``kind="records"``: the
        stream is broken, cut, or larger than ``max_size``; ``position`` is the byte in ``data``,
        if known.
    """

def compress(codec: int, data: Buffer, magic: int = 2) -> bytes:
    """Compress ``data`` in the form of Kafka's own writer.

    Uses Kafka's framing and options (gzip: header of JDK 16; snappy: xerial, 32 KiB chunks;
    lz4: 64 KiB independent blocks without sums, and the old header checksum in magic 0; zstd:
    level 3, no content size). The compressed bytes themselves may differ from Java's.

    Raises
    ------
    coterie.CorruptData
        ``kind="codec"``, as ``decompress``.
    """
