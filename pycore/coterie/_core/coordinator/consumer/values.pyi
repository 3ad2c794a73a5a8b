"""Values of consumer groups: assignments, member fields, regular expressions, topic metadata.

Values never change; equal ones are shared.
Source: ConsumerGroupMember.java, Assignment.java, the records of the group coordinator.
"""

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

def matching(regexes: Iterable[str], names: Iterable[str]) -> dict[str, list[str]]:
    """Return the names that each expression matches whole.

    A name is looked at once for a hundred expressions.

    Raises
    ------
    CoterieError
        The extra ``regex`` is not installed.
    """
