from typing import final

from typing_extensions import Buffer

@final
class MappingGuard:
    """Guards a mapping against SIGBUS while the guard exists.

    Parameters
    ----------
    data
        The mapping, from its first byte on. The guard does not keep it alive.

    Raises
    ------
    coterie.ArgumentError
        ``data`` is no mapping.
    """

    def __new__(cls, data: Buffer) -> MappingGuard: ...
    @property
    def is_damaged(self) -> bool:
        """Whether a page could not be read, and zeros were read instead."""
    def close(self) -> None:
        """Stop guarding; call it before the memory is unmapped."""
