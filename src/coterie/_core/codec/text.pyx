"""Strings as Java reads them: bytes that are not UTF-8 become U+FFFD, and never an error."""
import re

# An encoded surrogate is one broken sequence to Java and three to Python.
_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")


def decode_utf8(bytes data not None):
    """Decode as Java's ``new String(bytes, UTF_8)`` does."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return _SURROGATE.sub(b"\xef\xbf\xbd", data).decode("utf-8", "replace")
