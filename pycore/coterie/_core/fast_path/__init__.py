"""The fast path of a server: frequent requests from bytes to the coordinator, and back."""
