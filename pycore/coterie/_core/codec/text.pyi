def decode_utf8(data: bytes) -> str:
    """Decode as Java's ``new String(bytes, UTF_8)`` does.

    Each broken sequence, cut where it breaks, gives one U+FFFD; so does an encoded surrogate.
    """
