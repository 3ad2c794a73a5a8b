from typing import Final

KINDS: Final[tuple[str | None, ...]]
"""Names of the kinds of fault, by number; 0 is no fault."""
FRAME_DETAIL: Final[dict[int, str]]
"""Why no batch can be framed, in words, by number; 0: its checksum does not hold."""
