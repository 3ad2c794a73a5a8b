from typing import Final

KINDS: Final[tuple[str | None, ...]]
"""Names of the kinds of fault, by number; 0 is none."""
