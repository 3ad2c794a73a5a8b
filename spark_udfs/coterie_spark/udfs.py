"""The coordinator's rules as pandas UDFs over columns. None is here yet: they come with it."""

__all__: list[str] = []
