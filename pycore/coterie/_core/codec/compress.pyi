"""Compressed record streams, as Kafka's writers make them and its readers accept them."""

from typing_extensions import Buffer

MAX_SIZE: int
"""2**31 - 1 bytes, the longest array of Java: what a stream may give unless told otherwise."""

NAMES: tuple[str, ...]
"""Codec names by number: none, gzip, snappy, lz4, zstd."""

def decompress(codec: int, data: Buffer, magic: int = 2, max_size: int = ...) -> bytes:
    """Return what a record batch's compressed stream holds.

    Parameters
    ----------
    codec : int
        0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd (bits 0-2 of the attributes).
    data : bytes-like
        Magic 2: the batch from byte 61 on. Magic 0 and 1: the wrapper's value.
    magic : int
        0 does not look at the LZ4 header checksum, where Kafka kept a wrong one, and 0 and 1
        do not know zstd.
    max_size : int
        Give no more bytes than this; more is an error.

    Notes
    -----
    Accepted as Kafka's readers do. gzip: further members, and anything behind the last. snappy:
    xerial's framing, more than one stream in a row, and without its magic number the whole input
    as one raw block. lz4: version 1, independent blocks, block sums compared, content size and
    content sum not, bytes after the end mark ignored. zstd: any number of frames.

    Memory: the output and one block beside it. What a byte of input can become at most: gzip
    1,032 bytes, snappy 21, lz4 255, zstd 32,768 (a run-length block of four bytes); a stream
    that claims more is refused before anything is allocated. A zstd frame may ask for a window
    of up to 128 MiB, of which only what is written is touched.

    Raises
    ------
    coterie.CorruptData
        ``kind="codec"``: a number above 4, or zstd in magic 0 and 1. ``kind="records"``: the
        stream is broken, cut, or gives more than ``max_size``; ``position`` is the byte in
        ``data`` where that is known.
    """

def compress(codec: int, data: Buffer, magic: int = 2) -> bytes:
    """Return ``data`` as the stream that Kafka's own writer would put in its place.

    Same framing and options as Kafka (gzip: header of JDK 16; snappy: xerial, 32 KiB chunks;
    lz4: 64 KiB independent blocks without sums, and the old header checksum in magic 0; zstd:
    level 3, no content size). The compressed bytes themselves may differ from Java's.

    Raises
    ------
    coterie.CorruptData
        ``kind="codec"``, as ``decompress``.
    """
