def decode_utf8(data: bytes) -> str:
    """Decode as Java's ``new String(bytes, UTF_8)`` does.

    Each broken sequence, up to the byte that breaks it, becomes one U+FFFD; so does an encoded
    surrogate.
    """
