"""Serialize objects for another process of the same version.

A header names coterie, the version and the kind of the object. A restricted pickle follows: it may
contain coterie's classes and numpy arrays, but call no other function.
"""

from __future__ import annotations

import functools
import io
import pickle
from typing import TYPE_CHECKING, Any

from coterie.errors import CoterieError

if TYPE_CHECKING:
    from typing_extensions import Buffer

FORMAT = 7
"""Increment with each change of the format; it distinguishes builds of one version."""

_OURS = b"coterie "
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
    pickle.dump(value, out, protocol=5)
    return out.getvalue()


def unpack(what: str, data: Buffer) -> Any:
    """Deserialize the bytes of :func:`pack`.

    Raises
    ------
    CoterieError
        The bytes are something else, of another version, or damaged.
    """
    try:
        source = io.BytesIO(data)
    except (TypeError, ValueError, BufferError) as error:  # such as a view that is not contiguous
        raise CoterieError(f"these bytes are no {what}: {error}") from error
    head, end, _ = source.read(256).partition(b"\n")
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
    try:
        source.seek(len(head) + 1)
        return _Reader(source).load()
    except Exception as error:
        raise CoterieError(f"these bytes are no whole {what}: {error}") from error


class _Reader(pickle.Unpickler):
    """An unpickler for coterie's classes and numpy's arrays alone."""

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
