"""Prevent the slow import of pandas in commands that do not need it."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from importlib.abc import MetaPathFinder


class WithoutPandas(MetaPathFinder):
    """A finder that hides pandas. Only for commands, never for the library."""

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        """Raise for pandas; leave other modules to the next finder."""
        if fullname == "pandas":
            raise ModuleNotFoundError("pandas is hidden here", name=fullname)


@contextlib.contextmanager
def without_pandas(hide: bool) -> Iterator[None]:
    """Hide pandas during the block, if ``hide`` is true.

    pyarrow imports pandas with its first array, which takes longer than most replays.
    """
    finder = WithoutPandas()
    if hide:
        sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        if hide:
            sys.meta_path.remove(finder)
