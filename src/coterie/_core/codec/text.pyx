"""Decode text as Java does: bytes that are not UTF-8 become U+FFFD and never raise.

Kafka compares and prints names after this decoding, so two different byte strings can be one name.
Cost: that of Python's own decoder; broken bytes cost a regular expression more.
"""
import re

# Java counts an encoded surrogate as one broken sequence, Python as three.
_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")


def decode_utf8(bytes data not None):
    """Decode as Java's ``new String(bytes, UTF_8)`` does."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return _SURROGATE.sub(b"\xef\xbf\xbd", data).decode("utf-8", "replace")
