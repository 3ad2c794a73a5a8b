"""Serialize objects for another process of the same version.

A header names coterie, the version and the kind of the object. The length and the CRC-32C of a
restricted pickle follow, then the pickle: it may contain coterie's classes and numpy arrays, but
call no other function. Bytes that were changed, cut or added are refused.
"""

from __future__ import annotations

import functools
import io
import pickle
import struct
from typing import TYPE_CHECKING, Any

from coterie._core.codec.compression import crc32c
from coterie.errors import CorruptData, CoterieError

if TYPE_CHECKING:
    from typing_extensions import Buffer

FORMAT = 14
"""Increment with each change of the format; it distinguishes builds of one version."""

_OURS = b"coterie "
_HEADER_BYTES_MAX = 256
_CHECK = struct.Struct(">QI")  # length and CRC-32C of the pickle
_ARRAYS = {
    ("numpy", "dtype"),
    ("numpy", "ndarray"),
    *(
        (f"numpy.{core}.{module}", name)
        for core in ("_core", "core")  # numpy 2, numpy 1
        for module, name in (
            ("numeric", "_frombuffer"),
            ("multiarray", "_reconstruct"),
            ("multiarray", "scalar"),
        )
    ),
}
_PLAIN = {("builtins", name) for name in ("set", "frozenset", "bytearray", "complex")}


@functools.cache
def version() -> str:
    """Return the version in the header: coterie's version and the format."""
    from importlib.metadata import version

    return f"{version('coterie')}/{FORMAT}"


def pack(what: str, value: Any) -> bytes:
    """Serialize a value; ``what`` is its name in errors."""
    out = io.BytesIO()
    out.write(_OURS + f"{version()} {what}\n".encode())
    check_at = out.tell()
    out.write(bytes(_CHECK.size))
    pickle.dump(value, out, protocol=5)
    with out.getbuffer() as written, written[check_at + _CHECK.size :] as body:
        _CHECK.pack_into(written, check_at, len(body), crc32c(body))
    return out.getvalue()


def unpack(what: str, data: Buffer) -> Any:
    """Deserialize the bytes of :func:`pack`.

    Raises
    ------
    CoterieError
        The bytes are something else, of another version, or damaged (:class:`CorruptData`).
    """
    try:
        whole, source = memoryview(data).cast("B"), io.BytesIO(data)
    except (TypeError, ValueError, BufferError) as error:  # such as a view that is not contiguous
        raise CoterieError(f"these bytes are no {what}: {error}") from error
    head, end, _ = source.read(_HEADER_BYTES_MAX).partition(b"\n")
    if not end or not head.startswith(_OURS):
        raise CoterieError(f"these bytes are no {what}")
    other_version, _, named = head[len(_OURS) :].decode("utf-8", "replace").partition(" ")
    if other_version != version():
        raise CoterieError(
            f"a {named} of coterie {other_version} came to coterie {version()}: "
            "have the same version in every process"
        )
    if named != what:
        raise CoterieError(f"these bytes are no {what} but a {named}")
    body_at = len(head) + 1 + _CHECK.size
    _check_body(what, whole[:body_at], whole[body_at:])
    source.seek(body_at)
    try:
        return _Reader(source).load()
    except Exception as error:
        raise CoterieError(f"these bytes are no whole {what}: {error}") from error


def _check_body(what: str, header: memoryview, body: memoryview) -> None:
    if header[-_CHECK.size :] != _CHECK.pack(len(body), crc32c(body)):
        raise CorruptData(
            f"these bytes are no whole {what}: they were cut or changed; send or store it again"
        )


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """Return an allowed class or function; raise for others."""
        place = module, name
        if place in _ARRAYS or place in _PLAIN:
            return super().find_class(module, name)
        if module.startswith("coterie."):
            value = super().find_class(module, name)
            if isinstance(value, type):
                return value
        raise CoterieError(f"{module}.{name} does not travel")
