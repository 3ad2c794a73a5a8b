"""A whole log folded and written: what engines share, and the engine of this process."""
