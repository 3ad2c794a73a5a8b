from collections.abc import Iterable
from typing import Any

def engine() -> tuple[Any, Any]:
    """Return the module ``re2`` and its options.

    Raises
    ------
    CoterieError
        The extra ``regex`` is not installed.
    """

def compile_regex(regex: str) -> bool:
    """Return whether an expression compiles.

    Raises
    ------
    CoterieError
        The extra ``regex`` is not installed.
    """

def matching(regex: str, names: Iterable[str]) -> list[str]:
    """Return the names that an expression matches whole.

    Raises
    ------
    CoterieError
        The extra ``regex`` is not installed.
    """
