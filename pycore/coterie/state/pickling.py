"""Bytes that carry what one process made to another of the same version, which checks that.

Before the bytes stand a word that says whose they are, what they hold, and the version that made
them. What follows is a pickle that may name coterie's classes and numpy's arrays, and no function
that does anything.
"""

from __future__ import annotations

import functools
import io
import pickle
from typing import TYPE_CHECKING, Any

from coterie.errors import CoterieError

if TYPE_CHECKING:
    from typing_extensions import Buffer

FORM = 7
"""Raised with each change of what travels, so that builds of one version are told apart, too."""

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
    """Return the version of what travels: coterie's own, and the form."""
    from importlib.metadata import version

    return f"{version('coterie')}/{FORM}"


def pack(what: str, value: Any) -> bytes:
    """Return the bytes of a value; ``what`` it is, as errors say it."""
    out = io.BytesIO()
    out.write(_OURS + f"{version()} {what}\n".encode())
    pickle.dump(value, out, protocol=5)
    return out.getvalue()


def unpack(what: str, data: Buffer) -> Any:
    """Return the value that :func:`pack` was called on.

    Raises
    ------
    CoterieError
        The bytes are no such thing, of another version, or damaged.
    """
    try:
        source = io.BytesIO(data)
    except (TypeError, ValueError, BufferError) as error:  # a view that is not contiguous, and such
        raise CoterieError(f"these bytes are no {what}: {error}") from error
    head, end, _ = source.read(256).partition(b"\n")
    if not end or not head.startswith(_OURS):
        raise CoterieError(f"these bytes are no {what}")
    theirs, _, named = head[len(_OURS) :].decode("utf-8", "replace").partition(" ")
    if theirs != version():
        raise CoterieError(
            f"a {named} of coterie {theirs} came to coterie {version()}: "
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
    """Finds classes of coterie's, and what arrays are made of."""

    def find_class(self, module: str, name: str) -> Any:
        """Return what a pickle names, or refuse it."""
        place = module, name
        if place in _ARRAYS or place in _PLAIN:
            return super().find_class(module, name)
        if module.startswith("coterie."):
            found = super().find_class(module, name)
            if isinstance(found, type):
                return found
        raise CoterieError(f"{module}.{name} does not travel")
