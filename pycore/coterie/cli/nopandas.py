"""Commands that have no use for pandas do not wait for its import."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from importlib.abc import MetaPathFinder


class WithoutPandas(MetaPathFinder):
    """Says that there is no pandas. For a command's own work, never for the library."""

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        """Refuse pandas, leave all else to the next finder."""
        if fullname == "pandas":
            raise ModuleNotFoundError("not wanted here", name=fullname)


@contextlib.contextmanager
def without_pandas(wanted: bool) -> Iterator[None]:
    """Let nothing import pandas meanwhile, if so ``wanted``; afterwards all may again.

    pyarrow looks for pandas at its first array, and importing it takes longer than most replays.
    """
    finder = WithoutPandas()
    if wanted:
        sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        if wanted:
            sys.meta_path.remove(finder)
