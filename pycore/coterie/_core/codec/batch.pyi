from typing import Final

KINDS: Final[tuple[str | None, ...]]
"""Names of the kinds of fault, by number; 0 is none."""
FRAME_DETAIL: Final[dict[int, str]]
"""In words, what stands where no batch can be framed; 0: one whose checksum does not hold."""
